// The worker threads of this process, as the parts of the host driver see them.
#ifndef RONDO_DAEMON_HOST_DEVICE_H
#define RONDO_DAEMON_HOST_DEVICE_H

#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#include "daemon/host/host.h"
#include "daemon/host/ready.h"

#define RONDO_HOST_MAX_WORKERS 256u

enum worker_state {
  WORKER_RUNNING = 0, // looks by itself
  WORKER_TICK = 1,    // parked for a short, known time
  WORKER_DEEP = 2     // parked until kicked
};

struct rondo_host_worker {
  uint32_t state;  // enum worker_state (H3)
  uint32_t signal; // futex: kicks (H4)
  uint32_t stop;
  pthread_t thread;
  pthread_rwlock_t blocks_lock; // guards the three fields below; held for reading during a pass
  struct rondo_host_block **blocks;
  uint32_t block_count, block_capacity;
};

// What one pass saw.
struct worker_view {
  uint64_t now_ns;
  uint64_t next_start_ns; // earliest time at which a block that has left may be started
  int moved;              // some block progressed
  int resident;           // some block is started
  int unfinished;         // some daemon has work
  int is_left;            // ... that goes on when a peer has moved, and for which nobody else looks
};

struct rondo_host_device {
  pthread_mutex_t attach_lock; // guards growth
  struct rondo_host_worker workers[RONDO_HOST_MAX_WORKERS];
  uint32_t worker_count;
  uint32_t cores;
  uint32_t daemons;  // attached: ranks of this process
  uint32_t crowd;    // the most of them that are of one job
  uint32_t active;   // threads that help
  uint64_t blind_ns; // when some thread looks at all blocks next, told or not
  uint32_t sleepers; // ... of them asleep (H6)
  uint32_t tickers; // 1: parked workers want to be woken when a block has moved, as with bells (B3)
  // Of other processes: ranks that compete for these cores, all jobs together, and jobs that have such.
  uint32_t competitors, contended_jobs;
};

extern struct rondo_host_device rondo_host_device;

// 1 if threads that have not even submitted may be waiting for this core: with more ranks than
// cores, or with more threads that help. A process is busy with one of its jobs at a time.
static inline int rondo_host_is_crowded(void) {
  const struct rondo_host_device *dev = &rondo_host_device;
  return rondo_load_relaxed_u32(&dev->crowd) > dev->cores ||
         rondo_load_relaxed_u32(&dev->active) > dev->cores;
}

// 1 if blocks are told when they have something to do. That pays if this process has more ranks of
// one job than cores. Two ranks are too few: to look at the other one takes less time than to tell
// it.
static inline int rondo_host_is_told(void) {
  const struct rondo_host_device *dev = &rondo_host_device;
  uint32_t crowd = rondo_load_relaxed_u32(&dev->crowd);
  return crowd > 2 && crowd > dev->cores;
}

// 1 if ranks of other processes may be waiting for this core: whoever finds nothing to do gives it up.
static inline int rondo_host_is_contended(void) {
  const struct rondo_host_device *dev = &rondo_host_device;
  uint32_t competitors = rondo_load_relaxed_u32(&dev->competitors);
  uint32_t jobs = rondo_load_relaxed_u32(&dev->contended_jobs);
  return competitors && competitors + rondo_load_relaxed_u32(&dev->daemons) > dev->cores * jobs;
}

// Ranks of other processes that compete for these cores: those of one job, on average of all jobs.
static inline uint32_t rondo_host_others(void) {
  const struct rondo_host_device *dev = &rondo_host_device;
  uint32_t jobs = rondo_load_relaxed_u32(&dev->contended_jobs);
  return rondo_load_relaxed_u32(&dev->competitors) / (jobs ? jobs : 1);
}

// 1 if there are more cores than ranks that may have a thread of their own busy, so that a worker takes none from them.
static inline int rondo_host_has_spare_core(void) {
  const struct rondo_host_device *dev = &rondo_host_device;
  return rondo_load_relaxed_u32(&dev->crowd) + rondo_host_others() < dev->cores;
}

// How many of the ranks of the process `pid` compete for the cores of this one: a share of them, where
// it may use others, too.
uint32_t rondo_host_competitors(int64_t pid, uint32_t ranks);
// The job with the most ranks in this process has so many.
void rondo_host_crowd(uint32_t ranks);
// A job of this process has competitors, `is` now and `was` when this was called last.
void rondo_host_compete(uint32_t was, uint32_t is);

// The cores of the main thread and of the caller, who may have bound itself to one of several.
void rondo_host_own_cores(cpu_set_t *set);
// A block has moved: wakes parked workers that wait for such.
void rondo_host_wake_tickers(void);
// Puts a worker on a NUMA node, if the process has cores on several.
void rondo_host_place_worker(pthread_t thread, uint32_t index);

#endif // RONDO_DAEMON_HOST_DEVICE_H
