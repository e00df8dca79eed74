// The worker threads of this process: internal to the host driver.
#ifndef RONDO_DAEMON_HOST_DEVICE_H
#define RONDO_DAEMON_HOST_DEVICE_H

#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#include "daemon/host/host.h"
#include "daemon/host/host_ready.h"

#define RONDO_HOST_MAX_WORKERS 256u
#define RONDO_HOST_QUICK_BYTES 8192u // largest chunk of a step that counts as quick

enum worker_state {
  WORKER_RUNNING = 0, // not parked
  WORKER_TICK = 1,    // parked for a short, known time
  WORKER_DEEP = 2     // parked until woken
};

struct rondo_host_worker {
  uint32_t state;  // enum worker_state (H3)
  uint32_t signal; // futex: wake-ups (H4)
  uint32_t stop;
  pthread_t thread;
  pthread_rwlock_t blocks_lock; // guards the three fields below; held for reading during a pass
  struct rondo_host_block **blocks;
  uint32_t block_count, block_capacity;
};

// The result of one pass over a worker's blocks.
struct worker_view {
  uint64_t now_ns;
  uint64_t next_start_ns; // earliest time to start a block that has left
  bool moved;             // a block made progress
  bool resident;          // a block is running: it has not quit
  bool unfinished;        // a daemon has work
  bool is_left;           // a daemon has work, is stuck, and no other thread steps it
};

struct rondo_host_device {
  pthread_mutex_t attach_lock; // guards growth
  struct rondo_host_worker workers[RONDO_HOST_MAX_WORKERS];
  uint32_t worker_count;
  uint32_t cores;
  uint32_t daemons;     // attached daemons: ranks of this process
  uint32_t local_ranks; // largest number of ranks of one job in this process
  uint32_t active;      // threads of the application that step blocks for longer than a moment
  uint64_t blind_ns;    // when a thread visits all blocks the next time, also unmarked ones
  uint32_t sleepers;    // threads that sleep in rondo_host_wait (H6)
  // 1: a block that makes progress wakes parked workers, as an event count does between processes
  // (B3).
  uint32_t wake_on_move;
  // The ranks of other processes that compete for these cores, summed over all jobs; and the number
  // of jobs with such ranks.
  uint32_t competing_ranks, contended_jobs;
};

extern struct rondo_host_device rondo_host_device;

// True if other threads of this process may need this core: one of its jobs has more ranks than
// there are cores, or more threads step blocks. A process usually runs one of its jobs at a time.
static inline bool rondo_host_is_oversubscribed(void) {
  const struct rondo_host_device *dev = &rondo_host_device;
  return rondo_load_relaxed_u32(&dev->local_ranks) > dev->cores ||
         rondo_load_relaxed_u32(&dev->active) > dev->cores;
}

// True if peers mark blocks that have something to do (host_ready.h). This is faster with more
// local ranks than cores, but not with two ranks: there it is faster to check the other rank's
// blocks.
static inline bool rondo_host_has_ready_bytes(void) {
  const struct rondo_host_device *dev = &rondo_host_device;
  uint32_t local = rondo_load_relaxed_u32(&dev->local_ranks);
  return local > 2 && local > dev->cores;
}

// True if ranks of other processes may need this core: a thread without work yields.
static inline bool rondo_host_is_contended(void) {
  const struct rondo_host_device *dev = &rondo_host_device;
  uint32_t competing = rondo_load_relaxed_u32(&dev->competing_ranks);
  uint32_t jobs = rondo_load_relaxed_u32(&dev->contended_jobs);
  return competing && competing + rondo_load_relaxed_u32(&dev->daemons) > dev->cores * jobs;
}

// Ranks of other processes that compete for these cores: the average of all jobs.
static inline uint32_t rondo_host_competing_ranks(void) {
  const struct rondo_host_device *dev = &rondo_host_device;
  uint32_t jobs = rondo_load_relaxed_u32(&dev->contended_jobs);
  return rondo_load_relaxed_u32(&dev->competing_ranks) / (jobs ? jobs : 1);
}

// True if there are more cores than ranks, so a worker takes no core from a rank's thread.
static inline bool rondo_host_has_spare_core(void) {
  const struct rondo_host_device *dev = &rondo_host_device;
  return rondo_load_relaxed_u32(&dev->local_ranks) + rondo_host_competing_ranks() < dev->cores;
}

// These three are those of struct rondo_driver. Ranks compete in proportion to the cores that the
// two processes share.
uint32_t rondo_host_count_competing(int64_t pid, uint32_t ranks);
void rondo_host_set_local_ranks(uint32_t ranks);
void rondo_host_set_competing(uint32_t was, uint32_t is);

// The longest time after which a worker with unfinished work checks again. It is longer with many
// processes, because the checks of all workers take time from threads with work.
uint64_t rondo_host_longest_tick_ns(void);
// Wakes parked workers that set wake_on_move.
void rondo_host_wake_parked(void);
// Binds a worker to a NUMA node if the process has cores on several.
void rondo_host_place_worker(pthread_t thread, uint32_t index);

#endif // RONDO_DAEMON_HOST_DEVICE_H
