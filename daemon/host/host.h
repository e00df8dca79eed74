// The host driver: worker threads of this process that run the daemon blocks of
// all its ranks, and the way a waiting thread helps them.
//
//   rondo_host_device_get -> rondo_host_attach -> rondo_host_kick / rondo_host_help ... -> rondo_host_detach
//
// A block is stepped by whoever holds its owner word: its worker, a thread of the application
// that waits for a run, or the explorer. Nobody waits for an owner: who fails to take it
// does something else. A worker without work spins, yields and at last parks on a futex;
// a block that does not progress quits and is started again when there is reason
// to (the paper, 4.4).
#ifndef RONDO_DAEMON_HOST_HOST_H
#define RONDO_DAEMON_HOST_HOST_H

#include <stdint.h>

#include "base/clock.h"
#include "daemon/core/block_core.h"
#include "daemon/driver/driver.h"

struct rondo_host_daemon;

struct rondo_host_block {
  uint32_t owner;        // 1 while somebody steps the block (H1/H2)
  uint32_t worker;       // index of the worker that it is attached to
  uint32_t copies_bytes; // into the user's buffer, the most at a time; a hint for helpers
  uint32_t is_fruitless; // its last launch was
  uint32_t is_begun;     // what was handed to it has taken steps
  uint8_t *ready;        // see daemon/host/ready.h; null: it has not been attached
  uint64_t moved; // address of a byte for each bell: it has moved something for that; 0: for none
  struct rondo_host_daemon *daemon;
  uint64_t launches;      // times it was started
  uint64_t leaves;        // times it has quit
  uint64_t next_start_ns; // not before this, unless a new entry has come
  uint64_t pause_ns;      // before the next start if this launch was fruitless
  uint64_t progress_mark; // ended + primitives when it was started
  uint64_t now_ns;        // when it was stepped last
  struct rondo_stamp clock;
  uint64_t helped;      // turns of threads that waited, asked, or had submitted
  uint64_t helped_seen; // the worker's: `helped` when it looked last
  uint64_t asked;       // turns of threads that may come again soon
  uint64_t asked_seen;  // the worker's: `asked` when it looked last
  struct rondo_block core;
};

// The daemon of one rank.
struct rondo_host_daemon {
  struct rondo_daemon base;
  struct rondo_daemon_core core;
  struct rondo_device_table table;
  struct rondo_host_block *blocks;             // core.block_count of them
  void *queues;                                // memory of the rings and of the daemon's halves
  uint32_t exit;                               // core.exit points here
  _Alignas(RONDO_LINE_BYTES) uint32_t helpers; // threads that wait and step these blocks
  uint32_t sync_waiters;                       // threads that want to know when blocks leave
  uint32_t left_word;                          // futex: changes whenever a block has left
  uint32_t done_word;                          // futex: changes whenever a run has ended
  uint32_t done_waiters;
  uint32_t fruitless; // visits of threads that asked, in a row; a hint
  uint64_t woken_ns;  // when its worker was woken last for work that is left
  uint64_t restart_min_ns, restart_max_ns;
  uint64_t starts; // counter
};

extern const struct rondo_driver rondo_host_driver;

// The whole of a daemon that this driver has made.
static inline struct rondo_host_daemon *rondo_host_daemon_of(struct rondo_daemon *base) {
  return (struct rondo_host_daemon *)base;
}

// ------------------------------------------------------------------ blocks ---

// Makes the blocks of a daemon whose `core`, service, owner and restart times are set. Block b
// takes entries from `sources[b]`; its task queue is made for `capacity` collectives.
// Returns 0 or RONDO_ERR_NO_MEMORY.
int rondo_host_blocks_create(struct rondo_host_daemon *d, const struct rondo_sq_consumer *sources,
                             uint32_t capacity);
void rondo_host_blocks_destroy(struct rondo_host_daemon *d);

// Takes or gives back the right to step a block. Never waits.
int rondo_host_try_own(struct rondo_host_block *block);
void rondo_host_disown(struct rondo_host_block *block);

// Who steps a block.
enum rondo_host_caller {
  RONDO_HOST_WORKER,    // has other blocks, too
  RONDO_HOST_ASSISTANT, // has submitted; steps what waits for that, so that nobody need be woken
  RONDO_HOST_ASKER,     // asks whether a run has ended: returns as soon as one has
  // Waits for a run with a core to itself: returns as soon as one has ended, and also steps a block
  // that is stuck, because what the block waits for is often about to come.
  RONDO_HOST_WAITER
};

// Starts the block if it has left and there is reason to, and steps it a few times. It is `now_ns`; 0: the
// block's own clock is asked. The caller owns the block. Returns enum rondo_step_result; IDLE also when it was
// not started.
int rondo_host_drive(struct rondo_host_block *block, uint64_t now_ns,
                     enum rondo_host_caller caller);

// Hands the block, of a daemon that has no other, a run of a collective of which nothing is in the SQ, and
// takes its first steps if it sends first. Returns the time behind that, by `clock`. The caller owns the block.
uint64_t rondo_host_hand(struct rondo_host_block *block, const struct rondo_sqe *entry,
                         struct rondo_stamp *clock);
// Takes the next steps of such a run. The caller still owns the block.
void rondo_host_go_on(struct rondo_host_block *block);

// ------------------------------------------------------------------ device ---

// The process's host device with at least `workers` worker threads (0: one a core).
// It lasts until the process ends. Returns 0, RONDO_ERR_NO_MEMORY or RONDO_ERR_SYSTEM.
int rondo_host_device_get(uint32_t workers);

// Hands the daemon's blocks to workers: block b to (first_worker + b) % workers.
int rondo_host_attach(struct rondo_host_daemon *d, uint32_t first_worker, uint32_t workers);

// Takes them away; when it returns no worker or helper of another rank touches them.
void rondo_host_detach(struct rondo_host_daemon *d);

// Tells that a run was submitted. `urgent`: nobody is going to wait for it, so wake a parked worker
// now; else the submitter is expected to wait, and a lightly parked worker looks soon anyway.
void rondo_host_kick(struct rondo_daemon *base, int urgent);

// As rondo_driver.assist.
void rondo_host_assist(struct rondo_daemon *base, int others);

// As rondo_driver.begin and begun.
uint64_t rondo_host_begin(struct rondo_daemon *base, const struct rondo_sqe *entry,
                          struct rondo_stamp *clock);
void rondo_host_begun(struct rondo_daemon *base);

// Tells that something has come from outside: blocks that have left may be started at once, and who sleeps
// beside them looks.
void rondo_host_stir(struct rondo_daemon *base);
// Tells that a run has ended: wakes threads in rondo_host_help.
void rondo_host_done(struct rondo_daemon *base);

// Steps the daemon's blocks, and others' when these are stuck, until `is_done` returns nonzero or the
// time is over; 0 or less: a few steps. Returns 1 if done, else 0.
int rondo_host_help(struct rondo_daemon *base, int (*is_done)(void *arg), void *arg,
                    int64_t timeout_ns);

// Waits until every launch of every block that has begun has left, until the
// deadline or until the daemon is told to exit. Returns 1 if they have left, else 0.
int rondo_host_synchronize(struct rondo_daemon *base, uint64_t deadline_ns);

// Number of cores that this process may use.
uint32_t rondo_host_cores(void);

#endif // RONDO_DAEMON_HOST_HOST_H
