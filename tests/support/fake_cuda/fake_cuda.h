// A stand-in for the CUDA driver, on the host: a shared library named libcuda.so.1, so that
// whatever looks for the driver finds it, programs as they are shipped included.
//
// Device memory is memory of the host, in ranges that are checked at every copy. A kernel is a
// function of the host, registered under the kernel's name, or the PTX of its image, which the PTX
// machine executes (tests/support/ptx); either runs on one thread a CUDA block.
// Streams run beside each other and in order within, several of them on one hardware queue where
// there are more streams than queues; calls that wait on a GPU for what runs on it wait here too.
// Any call can be made to fail.
//
//   rondo_fake_reset -> the calls of cuda.h ... -> rondo_fake_live
//
// What it does not do: textures, arrays, contexts other than primary ones, graphs that are not
// captured from streams, pools other than the default one. It says CUDA_ERROR_NOT_SUPPORTED to
// those. Managed memory and memory of a pool are allocated and freed at once.
//
// In the mode `ptx` kernels come from the files that RONDO_TEST_PTX_IMAGES names, if they are
// there: fatbins or PTX, with colons between. The images of tests that are built without nvcc have
// no PTX. Accusations name source lines if RONDO_TEST_PTX_LINES names PTX files that have them.
//
// A program that cannot call rondo_fake_reset has its options from the environment, as in
// RONDO_TEST_FAKE_CUDA=devices=2,peer_access=0.
#ifndef RONDO_TESTS_SUPPORT_FAKE_CUDA_FAKE_CUDA_H
#define RONDO_TESTS_SUPPORT_FAKE_CUDA_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

#include <cuda.h>

#define RONDO_FAKE_MAX_DEVICES 8u

struct rondo_fake_options {
  uint32_t devices; // 0: there is none
  // 1: every device can reach the memory of every other; 0: none; n: of every other of the same n
  // in a row.
  uint32_t peer_access;
  uint32_t peers_corrupt;   // 1: a copy from a device to another changes a byte
  uint32_t multiprocessors; // of a device; at most resident_blocks
  uint32_t resident_blocks; // CUDA blocks that run at once on a device; others wait for a place
  uint32_t connections;     // hardware queues of a device; streams beyond share them
  uint32_t launch_blocking; // 1: a launch returns when the kernel has ended
  uint32_t memory_waits;    // 1: allocating and freeing wait for what runs on the device
  // 1: a call that waits for the device without being asked to (it frees, registers or loads
  // something, or copies to pageable memory) holds the lock of its context until it returns. Other
  // calls in that context wait for the lock, launches included. 2: some calls do not wait for it,
  // as with driver 580 (docs/transports.md).
  uint32_t holds_lock;
  // What such a call waits for. 0: all that is in any stream. 1: kernels that run or could run; a
  // stream that waits for a value or an event does not count, nor does what is behind the wait.
  uint32_t kernels_only;
  uint32_t pageable_access; // 1: kernels may use all memory of the process
  uint32_t sharing;         // 1: memory can be mapped by other processes
  uint32_t watch_locks;     // 1: a call that may wait, made with a lock held, ends the program
  uint32_t driver_version;  // as cuDriverGetVersion writes it; 0: that of cuda.h
  uint32_t capability;      // of the devices, ten times
  // Kernels whose image has PTX are 0: functions of the host; 1: executed by the PTX machine, which
  // ends the process with a line about what the rules of PTX forbid; 2: also about values that were
  // never written.
  uint32_t ptx;
  uint32_t ptx_seed;     // order of warps and lanes on the machine; 0: warps take turns
  uint32_t ptx_timer_ns; // step of globaltimer there; 0: 32
  // Counts what the daemon's kernel does on the machine (ptx_meter.h). Null: nothing is counted.
  struct ptx_meter *meter;
  const struct rondo_fake_script *script; // null: accesses go to the process's memory
};

// What a scripted run gives to the driver. `memory` gets a range for each allocation.
struct rondo_fake_script {
  struct ptx_memory *memory;
  uint32_t (*agent)(void);  // of the memory: the calling thread
  uint64_t (*random)(void); // the seed's next number
  void (*point)(void);      // another thread may run
};

// One device of capability 9.0, 8 queues as on a GPU, 64 blocks, memory_waits, sharing;
// `connections` and `launch_blocking` as the environment says with CUDA_DEVICE_MAX_CONNECTIONS and
// CUDA_LAUNCH_BLOCKING.
struct rondo_fake_options rondo_fake_defaults(void);

// Queues for several ranks on one device, whose streams outnumber the default (docs/nccl.md, "Where
// a program can still block itself").
#define RONDO_FAKE_MANY_CONNECTIONS 32u

// Waits until nothing runs, frees what is left, forgets faults and counts. Null: the defaults.
void rondo_fake_reset(const struct rondo_fake_options *options);

// Lets `count` calls of `entry` (such as "cuMemAlloc"; null: of any) return `result` and do nothing
// else, beginning with the `first`-th from now on, from 1. UINT64_MAX: all from then on. 0 calls:
// none, any more.
void rondo_fake_fail(const char *entry, uint64_t first, uint64_t count, CUresult result);

// From now on calls of `entry` wait before they do anything, until another entry or null is given.
// Returns at once. rondo_fake_held returns how many calls wait.
void rondo_fake_hold(const char *entry);
uint32_t rondo_fake_held(void);

// Calls that have been made to fail since; and calls of `entry` since the reset (null: of any).
uint64_t rondo_fake_failed(void);
uint64_t rondo_fake_calls(const char *entry);

// From now on each call that may wait asks `count_held` how many locks its thread holds. Null: none
// asks. rondo_fake_called_with_lock returns the name of the first call since then whose thread held
// one; null: there was none.
void rondo_fake_watch_locks(unsigned (*count_held)(void));
const char *rondo_fake_called_with_lock(void);

// Objects that exist.
struct rondo_fake_live {
  uint64_t allocations, bytes; // of device memory, mappings included, and of pinned memory
  uint64_t reserved;           // ranges of addresses
  uint64_t handles;            // of memory that can be mapped
  uint64_t registered;         // ranges of host memory
  uint64_t streams, events, modules, graphs, execs, user_objects;
  uint64_t contexts; // retained
};
struct rondo_fake_live rondo_fake_live(void);

// The sum of all counts of rondo_fake_live but `bytes`.
uint64_t rondo_fake_live_count(void);

// A kernel: what one CUDA block does. `param` is the kernel's only parameter.
typedef void (*rondo_fake_kernel)(const void *param, uint32_t block, uint32_t block_count);

// Every module has a kernel of this name from now on. The name is copied; a name that is there
// already is replaced.
void rondo_fake_register(const char *name, rondo_fake_kernel function, size_t param_bytes);

// Launches by cuLaunchKernelEx into a memory synchronisation domain since the reset.
uint64_t rondo_fake_launches_in(CUlaunchMemSyncDomain domain);

// Threads of a block of the last kernel that was launched.
uint32_t rondo_fake_threads(void);

// From now on the clock of block `block` stands still in the daemon's kernel, if that is a function
// of the host, so the block does not leave. UINT32_MAX: in none.
void rondo_fake_stop_clock(uint32_t block);

// Kernels that are running, waiting for a place or for their turn.
uint64_t rondo_fake_running(void);

#pragma GCC visibility pop

#endif // RONDO_TESTS_SUPPORT_FAKE_CUDA_FAKE_CUDA_H
