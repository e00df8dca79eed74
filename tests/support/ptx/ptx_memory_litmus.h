// Litmus tests of the memory: small programs in a notation of their own, executed with many seeds.
//
// Threads are separated by "|", operations by ";". A location is one of u to z, a 4-byte word that
// begins as 0 and lies 64 bytes from the next. A register is one of a to h.
//
//   st x 1          weak store of a number or of a register; st.relaxed, st.release, st.sc
//   a=ld x          weak load; ld.relaxed, ld.acquire, ld.sc. Its value is taken when it is used.
//   wait x          the same load again and again, until it is not 0; wait.relaxed, wait.acquire
//   a=add x 1       atom; add.acquire, add.release, add.acq_rel, add.sc; also exch; red has no "a="
//   a=cas x 0 1     compare with 0, write 1; cas.acquire …
//   fence           fence.acq_rel; fence.sc, fence.acquire, fence.release
//   bar             barrier of the threads of the block that have not ended
//
// A scope is that of the run, or written at the end: st.release.cta. An access to other bytes of a
// location gives size and offset: x:8 is 8 bytes, x:2+4 the two bytes at offset 4.
//
// Threads lie where the placement says; or each says itself where it is, by device, block, warp and
// lane: "0.1.0.3: st x 1".
#ifndef RONDO_TESTS_SUPPORT_PTX_PTX_MEMORY_LITMUS_H
#define RONDO_TESTS_SUPPORT_PTX_PTX_MEMORY_LITMUS_H

#include "tests/support/ptx/ptx_memory.h"

#define LITMUS_THREADS 6u
#define LITMUS_OPS 12u

// Where threads lie. CPU: the first thread; the others in blocks of device 0.
enum litmus_placement {
  LITMUS_LANES,
  LITMUS_WARPS,
  LITMUS_BLOCKS,
  LITMUS_DEVICES,
  LITMUS_WITH_CPU,
  LITMUS_PLACEMENTS
};

enum litmus_kind {
  LITMUS_ST,
  LITMUS_LD,
  LITMUS_WAIT,
  LITMUS_ADD,
  LITMUS_EXCH,
  LITMUS_CAS,
  LITMUS_FENCE,
  LITMUS_BAR
};

struct litmus_op {
  enum litmus_kind kind;
  enum ptx_order order;
  enum ptx_scope scope;
  bool has_scope, is_reduction;
  char to;   // register that is written, or 0
  char from; // register whose value is stored, or 0
  uint32_t at, bytes;
  uint32_t value, compare;
};

struct litmus_place {
  uint32_t device, block, warp, lane;
};

struct litmus_program {
  uint32_t thread_count;
  bool has_places;
  struct litmus_place places[LITMUS_THREADS];
  uint32_t op_counts[LITMUS_THREADS];
  struct litmus_op ops[LITMUS_THREADS][LITMUS_OPS];
};

struct litmus_run {
  struct ptx_memory_options options;
  enum litmus_placement placement;
  enum ptx_scope scope; // of operations that name none
};

// What a run has ended with.
struct litmus_result {
  uint32_t registers[8]; // a to h
  uint32_t words[6];     // u to z
  uint64_t accusations;
  char accusation[512]; // the text of the last one
};

// Writes one line to `why` and returns false if the text is not understood.
bool litmus_parse(const char *text, struct litmus_program *program, char *why, size_t why_bytes);
// Executes the program once. The seed of the options also picks which thread goes next.
void litmus_execute(const struct litmus_program *program, const struct litmus_run *run,
                    struct litmus_result *result);
// Whether the scope of a run includes all its threads.
bool litmus_scope_suffices(enum litmus_placement placement, enum ptx_scope scope);
// The values of registers and words named in `observed`, such as "abx", one digit each.
void litmus_outcome(const struct litmus_result *result, const char *observed, char *outcome);

#endif // RONDO_TESTS_SUPPORT_PTX_PTX_MEMORY_LITMUS_H
