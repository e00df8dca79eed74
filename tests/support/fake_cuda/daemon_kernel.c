// The daemon kernel on the stand-in for the CUDA driver: the body is the kernel's own, from
// daemon/cuda/cuda_launch_core.h, run by one thread a CUDA block. Data is moved by the host's
// kernels. Compiled twice: with RONDO_TIMING it is the kernel that keeps times, and leaves to the
// other what both need.
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Its own way to save contexts, not the host's.
// NOLINTNEXTLINE(readability-identifier-naming): the name of the function that it stands for
#define rondo_context_save save_context

#include "daemon/cuda/cuda_launch_core.h"
#include "tests/support/fake_cuda/fake_cuda.h"

#if defined(RONDO_TIMING)
#define KERNEL "rondo_cuda_daemon_timed"

// Made with the thread: were it made at its first use, the thread sanitizer would not see how it is
// freed.
static _Thread_local struct rondo_timing timing __attribute__((tls_model("initial-exec")));

uint64_t rondo_timing_ticks(void) { return rondo_cuda_launch_now_ns(); }
struct rondo_timing *rondo_timing_self(void) {
  return &timing;
}

#else
#define KERNEL "rondo_cuda_daemon"

static uint32_t stopped; // the block whose clock stands still, plus 1; 0: none

// Of the block that this thread runs, plus 1; 0: none. And what its clock said last.
static _Thread_local uint32_t number __attribute__((tls_model("initial-exec")));
static _Thread_local uint64_t last_ns __attribute__((tls_model("initial-exec")));

void rondo_fake_stop_clock(uint32_t block) {
  __atomic_store_n(&stopped, block + 1, __ATOMIC_SEQ_CST);
}

uint64_t rondo_cuda_launch_now_ns(void) {
  struct timespec t;
  uint32_t which = __atomic_load_n(&stopped, __ATOMIC_SEQ_CST);
  if (which && which == number)
    return last_ns;
  clock_gettime(CLOCK_MONOTONIC, &t);
  last_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
  return last_ns;
}

// There are more blocks than processors, so a thread that waits yields.
void rondo_cuda_launch_pause(uint32_t ns) {
  (void)ns;
  sched_yield();
}

// The thread of a block keeps the mirror, too.
void rondo_cuda_launch_mirror_begin(void) {}

void rondo_cuda_launch_mirror_turn(const struct rondo_cuda_launch *l) {
  static const uint32_t stop = 1; // after a step
  rondo_cuda_launch_mirror(l, &stop);
}

void rondo_cuda_launch_mirror_end(void) {}

// Word by word, as the device does it, for a copy that looks on meanwhile.
void save_context(struct rondo_task_context *buffer, const struct rondo_task_context *slot) {
  uint64_t words[sizeof slot->state / sizeof(uint64_t)];
  uint64_t *to = (uint64_t *)(void *)&buffer->state;
  static_assert(sizeof words == sizeof slot->state, "saved as words");
  memcpy(words, &slot->state, sizeof words);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    rondo_store_relaxed_u64(&to[i], words[i]);
}

#endif

static void run_block(const void *param, uint32_t block, uint32_t block_count) {
  const struct rondo_cuda_launch *launch = param;
  uint64_t bytes = rondo_cuda_fast_bytes(launch->fast_tasks);
  bytes = (bytes + RONDO_LINE_BYTES - 1) / RONDO_LINE_BYTES * RONDO_LINE_BYTES;
  struct rondo_cuda_fast *fast = aligned_alloc(RONDO_LINE_BYTES, bytes);
  (void)block_count;
  if (!fast)
    abort();
#if !defined(RONDO_TIMING)
  number = 0;
  (void)rondo_cuda_launch_now_ns(); // where the clock stands if it is stopped
  number = block + 1;
#endif
  (void)rondo_cuda_launch_try_block(launch, block, fast);
  free(fast);
}

__attribute__((constructor)) static void register_kernel(void) {
  rondo_fake_register(KERNEL, run_block, sizeof(struct rondo_cuda_launch));
}
