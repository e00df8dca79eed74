// The PTX machine: executes blocks of a kernel on the host.
//
//   ptx_program_parse -> ptx_block_create -> ptx_block_run ... -> ptx_block_destroy
//
// One thread of the host runs one CUDA block: all its warps in turn. Each lane has its own program
// counter; lanes at the same instruction execute it together. Memory is the host's: a generic or
// global address is an address of this process, and accesses with an order are atomic accesses of
// the host. What the rules of PTX forbid is accused: one line, and the block ends.
#ifndef RONDO_TESTS_SUPPORT_PTX_PTX_MACHINE_H
#define RONDO_TESTS_SUPPORT_PTX_PTX_MACHINE_H

#include "tests/support/ptx/ptx_memory.h"
#include "tests/support/ptx/ptx_meter.h"
#include "tests/support/ptx/ptx_program.h"

// Addresses [begin, end) that a kernel may use.
struct ptx_span {
  uint64_t begin, end;
  bool is_writable;
  enum ptx_at at; // for the meter
};

struct ptx_options {
  // Is called with each accusation: one line without its end. Null: prints it and aborts.
  void (*accuse)(void *arg, const char *line);
  // The span that holds an address, or false. Null: kernels may use all memory of the process.
  // Blocks remember spans until the number at `span_changes` changes.
  bool (*find_span)(void *arg, uint64_t address, struct ptx_span *span);
  const uint32_t *span_changes;
  void *arg;
  uint32_t timer_step_ns; // of globaltimer; 0: 32
  uint32_t multiprocessor;
  // Lanes that read what was never written and use it as an address, as a condition or to store it
  // outside shared memory are accused. Three times slower.
  bool is_checked;
  // Instructions that a warp may execute without a store, an update, a fence, a barrier or a pause.
  // 0: no bound.
  uint64_t idle_limit;
  // Scripted mode: lanes of a warp that access all of 128 aligned bytes with one instruction access
  // them as one, which PTX does not promise. NVIDIA's LL128 relies on it. Lanes that are together
  // stay together.
  bool warp128;
  // Counts what blocks do, as blocks of device `meter_device`. Many times slower. Null: nothing is
  // counted.
  struct ptx_meter *meter;
  uint32_t meter_device;
  uint64_t seed; // of the order of warps and lanes; 0: warps take turns, and branches part lanes
};

// Where a block runs in scripted mode.
struct ptx_place {
  uint32_t device;
  uint32_t block; // a number that no other block of the device has meanwhile
  // Of the memory: its warps. Their number is at least that of the block's warps. Blocks that run
  // one after the other may have the same agents.
  const uint32_t *agents;
  // Of the memory: who launches the block. All that it did comes before the block, and the block
  // before what it does afterwards.
  uint32_t by;
};

struct ptx_launch {
  const struct ptx_program *program;
  const struct ptx_kernel *kernel;
  const void *params;                // kernel->param_bytes
  uint32_t blocks, threads;          // of the grid, of a block
  uint32_t shared_bytes;             // dynamic
  const struct ptx_options *options; // must outlive the blocks
  // Scripted mode: all accesses go there. Null: to the memory of the host.
  struct ptx_memory *memory;
  const struct ptx_place *place;
};

enum ptx_state {
  PTX_RUNS,   // there is more to execute
  PTX_PAUSED, // the same, and all that can run asked for a pause (nanosleep)
  PTX_DONE,   // all lanes have ended
  PTX_FAILED  // accused
};

// A block of the launch. Null: more threads than the kernel takes, or no memory.
struct ptx_block *ptx_block_create(const struct ptx_launch *launch, uint32_t index);
// Executes about `budget` instructions of warps. Only one thread at a time may run a block.
enum ptx_state ptx_block_run(struct ptx_block *block, uint64_t budget);
void ptx_block_destroy(struct ptx_block *block);

// When the first of the block's pauses ends, on the host's monotonic clock; 0: no lane pauses. Only
// blocks with a seed pause: between 0 and twice the time that nanosleep asks for.
uint64_t ptx_block_wake_ns(const struct ptx_block *block);

// Instructions of lanes that the block has executed.
uint64_t ptx_block_steps(const struct ptx_block *block);

// Runs a whole block: its pauses yield the processor. PTX_DONE or PTX_FAILED.
enum ptx_state ptx_launch_run_block(const struct ptx_launch *launch, uint32_t index);

#endif // RONDO_TESTS_SUPPORT_PTX_PTX_MACHINE_H
