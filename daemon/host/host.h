// The host driver: worker threads of this process step the daemon blocks of all its ranks. A thread
// that waits for a run steps blocks too.
//
//   rondo_host_attach -> rondo_host_notify_submission / rondo_host_wait -> rondo_host_detach
//
// A thread steps a block only while it holds the block's owner word. No thread waits for an owner
// word: a thread that does not get it does something else. A worker without work spins, then
// yields, then parks: it sleeps on a futex. A block without progress quits, and is started again
// when it may be able to go on (the paper, 4.4).
#ifndef RONDO_DAEMON_HOST_HOST_H
#define RONDO_DAEMON_HOST_HOST_H

#include <stdint.h>

#include "base/clock.h"
#include "daemon/core/block_core.h"
#include "daemon/driver/driver.h"

struct rondo_host_daemon;

struct rondo_host_block {
  uint32_t owner;        // 1 while a thread steps the block (H1/H2)
  uint32_t worker;       // index of its worker
  uint32_t copies_bytes; // size of the copies into the user's buffer that it makes now; a hint
  uint32_t is_fruitless; // 1: its last launch made no progress
  uint32_t is_inlined;   // 1: its inline submission has executed steps
  uint8_t *ready;        // its byte (host_ready.h); null: not attached
  uint64_t moved;        // address of a byte for each event count (event_count.h); 0: none
  struct rondo_host_daemon *daemon;
  uint64_t launches;      // how often it was started
  uint64_t leaves;        // how often it has quit
  uint64_t next_start_ns; // a start before this time needs a new entry
  uint64_t pause_ns;      // pause before the next start if this launch makes no progress
  uint64_t progress_mark; // ended + primitives at the start
  uint64_t now_ns;        // time of its last turn
  struct rondo_stamp clock;
  uint64_t helped;      // turns of threads that waited, tested or submitted
  uint64_t helped_seen; // `helped` at the worker's last pass
  uint64_t asked;       // those of them after which the thread may soon step the block again
  uint64_t asked_seen;  // `asked` at the worker's last pass
  struct rondo_block core;
};

// The daemon of one rank.
struct rondo_host_daemon {
  struct rondo_daemon base;
  struct rondo_daemon_core core;
  struct rondo_device_table table;
  struct rondo_host_block *blocks;             // core.block_count of them
  _Alignas(RONDO_LINE_BYTES) uint32_t helpers; // threads that wait and step these blocks
  uint32_t sync_waiters;                       // threads in rondo_host_synchronize
  uint32_t left_word;                          // futex: changes when a block has left
  uint32_t done_word;                          // futex: changes when a run has ended
  uint32_t done_waiters;
  uint32_t fruitless; // tests in a row without progress; a hint
  uint64_t woken_ns;  // when its worker was last woken for remaining work
  uint64_t restart_min_ns, restart_max_ns;
  uint64_t starts; // counter
  void *queues;    // memory of the rings and of the daemon's queue halves
  uint32_t exit;   // core.exit points here
};

extern const struct rondo_driver rondo_host_driver;

static inline struct rondo_host_daemon *rondo_host_daemon_of(struct rondo_daemon *base) {
  return (struct rondo_host_daemon *)base;
}

// ------------------------------------------------------------------ blocks ---

// Creates the blocks of a daemon whose `core`, callbacks and restart times are set. Block b fetches
// from `sources[b]`; its task queue holds `capacity` collectives. Returns RONDO_SUCCESS or
// RONDO_ERR_NO_MEMORY.
int rondo_host_blocks_create(struct rondo_host_daemon *d, const struct rondo_sq_consumer *sources,
                             uint32_t capacity);
void rondo_host_blocks_destroy(struct rondo_host_daemon *d);

// Take and release the owner word of a block. Never wait.
bool rondo_host_block_try_own(struct rondo_host_block *block);
void rondo_host_block_disown(struct rondo_host_block *block);

// The kinds of threads that step a block.
enum rondo_host_caller {
  RONDO_HOST_WORKER, // a thread that also has other blocks to step
  // A thread that has submitted a run. It also steps the blocks that wait for that run, so no other
  // thread is woken.
  RONDO_HOST_SUBMITTER,
  RONDO_HOST_TESTER, // a thread that tests whether a run has ended; its turn ends when one has
  // A thread that waits for a run and need not share its core. Its turn ends when a run has ended.
  // It goes on stepping a stuck block for a while, because data of a peer often arrives soon.
  RONDO_HOST_WAITER
};

// Starts the block if it has quit and may be able to go on, and steps it for one turn. `now_ns` 0:
// reads the block's clock. The caller owns the block. Returns enum rondo_step_result;
// RONDO_STEP_IDLE if the block was not started.
int rondo_host_block_drive(struct rondo_host_block *block, uint64_t now_ns,
                           enum rondo_host_caller caller);

// Inline submission, first half: gives a run to the only block of a daemon, and executes its first
// steps, unless the plan receives before it sends. The SQ holds no run of its collective. Returns
// the time after these steps, by `clock`. The caller owns the block.
uint64_t rondo_host_block_submit_inline(struct rondo_host_block *block,
                                        const struct rondo_sqe *entry, struct rondo_stamp *clock);
// Inline submission, second half: executes the next steps. The caller still owns the block.
void rondo_host_block_poll_inline(struct rondo_host_block *block);

// ------------------------------------------------------------------ device ---

// The calls below are those of struct rondo_driver with these names.
//
int rondo_host_use_flags(struct rondo_daemon *base, uint8_t *flags);

// Starts worker threads if needed, and gives block b to worker (first_worker + b) % workers.
// Workers last until the process ends.
int rondo_host_attach(struct rondo_daemon *base, const struct rondo_config *cfg);
void rondo_host_detach(struct rondo_daemon *base);

// Not `urgent`: the submitting thread is about to wait, so a lightly parked worker is not woken.
void rondo_host_notify_submission(struct rondo_daemon *base, bool urgent);

void rondo_host_poll(struct rondo_daemon *base, bool others);

uint64_t rondo_host_submit_inline(struct rondo_daemon *base, const struct rondo_sqe *entry,
                                  struct rondo_stamp *clock);
void rondo_host_poll_inline(struct rondo_daemon *base);

// Blocks that have quit may be started at once. Threads that sleep in rondo_host_wait wake up and
// check.
void rondo_host_notify_arrival(struct rondo_daemon *base);
// Wakes threads that sleep in rondo_host_wait.
void rondo_host_notify_completion(struct rondo_daemon *base);

// Steps the daemon's blocks. While they are stuck, also steps those of other ranks.
int rondo_host_wait(struct rondo_daemon *base, int (*is_done)(void *arg), void *arg,
                    int64_t timeout_ns);

// Waits until the blocks have quit, without stepping them.
int rondo_host_synchronize(struct rondo_daemon *base, uint64_t deadline_ns);

#endif // RONDO_DAEMON_HOST_HOST_H
