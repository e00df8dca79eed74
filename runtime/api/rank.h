// One rank of a job in this process: what a context handle stands for.
//
// Lock order: job lock, then rank lock. The rank lock guards collectives and run records; it
// is held for short, bounded work only and never while a callback runs.
#ifndef RONDO_RUNTIME_API_RANK_H
#define RONDO_RUNTIME_API_RANK_H

#include <pthread.h>
#include <stdint.h>

#include "base/lock.h"
#include "daemon/driver/driver.h"
#include "runtime/complete/callbacks.h"
#include "runtime/job/job.h"
#include "runtime/observe/flight.h"
#include "runtime/order/comm_end.h"
#include <rondo/rondo.h>

#define RONDO_SQ_ENTRIES 256u
#define RONDO_CQ_ENTRIES 256u
#define RONDO_COLL_PAGE 256u
#define RONDO_MAX_CONTEXTS 4096u

// What ties a run to a stream; no words: nothing.
struct rondo_tie {
  struct rondo_stream_words *words;
  uint64_t ticket;
};

// One submitted run that has not ended. In place before its SQE is visible.
struct rondo_run_record {
  struct rondo_run_record *next;
  uint64_t number;
  uint64_t event; // its number in the flight record
  uint64_t submitted_ns;
  const void *send;
  void *recv;
  rondo_callback callback;
  void *arg;
  struct rondo_tie tie;
};

// A stream of the application in which runs of a collective have been enqueued.
struct rondo_coll_stream {
  struct rondo_coll_stream *next;
  void *stream;
  struct rondo_stream_words *words;
  uint64_t ticket; // given out last
};

// What an all-to-all-v has beside its descriptor, whose arrays of counts are the copies here.
struct rondo_exchange {
  uint64_t most;                   // elements that any pair of this rank exchanges
  uint64_t send_elems, recv_elems; // from the start of each buffer to the end of its last part
  uint64_t *counts;                // those sent to each, then those received from each
  struct rondo_span places[];      // the same with where they are: nranks, and nranks
};

// A registered collective. The memory stays until the context is destroyed, so that a stale handle
// can be looked at; `generation` is odd while the entry is in use.
struct rondo_coll {
  uint32_t index;
  uint32_t generation;
  struct rondo_collective_desc desc;
  uint32_t *members; // ranks of the group, by position
  struct rondo_flight_tag tag;
  struct rondo_registration registration;
  struct rondo_plan plan;
  struct rondo_exchange *exchange; // all-to-all-v; else null
  void *contexts; // device memory: contexts, ops of the plan, endpoints of its peers
  uint64_t send_bytes, recv_bytes; // of the user's buffers
  uint64_t in_place_bytes;         // distance of the two buffers when in place
  uint32_t used_buffers;           // by this rank: 1 send, 2 receive, 3 both
  uint64_t submitted;
  uint64_t on_device;   // pushed and not ended; at most RONDO_DEVICE_RUNS
  uint64_t completed;   // release; runs end in order
  uint64_t failed_from; // the first run that failed; 0: none
  uint64_t private_run; // of which only who waits for it is told; 0: none. See rondo_rank_lock
  int failed_status;
  int in_overflow;
  struct rondo_run_record *head, *tail; // outstanding runs in order
  struct rondo_run_record *unpushed;    // first of them that is not on the device
  uint32_t enqueuing;                   // calls that are about to submit
  uint32_t replays;                     // captured calls of graphs that are still there
  struct rondo_coll_stream *streams;    // guarded by the rank's stream_lock
  struct rondo_coll *next;              // in the free list or the overflow list
};

struct rondo_group_entry {
  uint64_t id;
  uint32_t rank_count;
  uint32_t *ranks;
  struct rondo_group_entry *next;
};

// What tests that step the blocks themselves may change, to bring rare states near. Zero: as
// in the product. Equal on all ranks of a job.
struct rondo_manual {
  uint32_t sq_entries, cq_entries; // powers of two
  uint32_t first_sequence;         // of every queue and connector, to be near the wrap
  uint32_t block_bytes;            // a collective takes one block for each of these
  uint32_t reference_bytes;        // payloads of at least this are passed by reference
  uint32_t slot_count;             // of a connector; a power of two
  uint32_t is_mapped;              // connectors as between processes: see connector_core.h
  uint32_t seems_large;            // algorithms are chosen as for the largest sizes
  uint32_t seems_crowded;          // ... as for the most ranks
  uint64_t first_run;              // runs are numbered from the one after this
  uint32_t process;                // of the ranks that share what a process would; see job.h
};

struct rondo_rank {
  struct rondo_config cfg; // resolved
  struct rondo_device *device;
  struct rondo_daemon *daemon;
  struct rondo_job *job;
  struct rondo_context ctx; // its handle
  uint32_t closing;
  uint32_t is_manual; // tests: no threads; the caller steps the blocks
  struct rondo_manual manual;
  // Held while runs are enqueued in streams, which may take long; taken before `lock`.
  pthread_mutex_t stream_lock;
  struct rondo_coll_stream *retired_streams; // guarded by it: of deregistered collectives
  struct rondo_lock lock;
  // Guarded by the lock.
  struct rondo_coll *pages[RONDO_TABLE_PAGES];
  void *device_pages[RONDO_TABLE_PAGES]; // device memory: of the daemon's table
  uint32_t coll_slots, coll_count;
  struct rondo_coll *free_colls;
  // Collectives with runs that found the SQ full, the first of them first.
  struct rondo_coll *overflow, *overflow_last;
  void *by_id; // tree (search.h) of struct rondo_coll
  struct rondo_run_record *free_records;
  struct rondo_group_entry *groups;
  uint64_t next_group;
  void *allocations;             // tree (search.h) of the user's memory
  uint64_t submitted, completed; // sums over collectives
  struct rondo_replay *replays;
  struct rondo_flight flight;
  uint64_t left_ns; // when the run ended that is the next in the queue; 0: ask the daemon
  int is_lost;      // the daemon cannot be run any more
  // Looked at without the lock.
  uint64_t untold[RONDO_NOTES]; // blocks: of enum rondo_note, what the flight record lacks
  uint32_t has_overflow;
  uint32_t wants_events;
  int event_fd;
  struct rondo_callbacks callbacks;
  pthread_mutex_t comms_lock;
  struct rondo_comm_end *comms; // guarded by it
  uint32_t comms_pending;       // calls may be compared that have not been
  uint64_t next_comm;
};

// ------------------------------------------------------------- handles.c ---

// Gives a rank a handle, or takes it back. 0 when all are in use.
uint64_t rondo_handle_create(struct rondo_rank *rank);
void rondo_handle_destroy(uint64_t handle);

// Finds the rank of a handle and keeps it from being freed until rondo_rank_unpin. Refuses a context
// that is being destroyed. `call` names the caller in the log. Returns RONDO_SUCCESS,
// RONDO_ERR_UNKNOWN or RONDO_ERR_CLOSED.
int rondo_rank_pin(struct rondo_context ctx, const char *call, struct rondo_rank **rank);
void rondo_rank_unpin(struct rondo_context ctx);

// For rondo_destroy: marks the context as closing. Only one caller succeeds.
int rondo_rank_close(struct rondo_context ctx, struct rondo_rank **rank);
// Calls inside the context, the caller's own included.
uint32_t rondo_rank_users(struct rondo_context ctx);

// ------------------------------------------------------------------- run.c ---

// Whether a collective that has not been registered yet could be run with these buffers.
int rondo_coll_check_buffers(const struct rondo_rank *rank, const struct rondo_coll *coll,
                             const struct rondo_run_args *args);

// A run as it is asked for.
struct rondo_submission {
  struct rondo_run_args args;
  struct rondo_tie tie;
};

// Whether the run can be submitted as far as its buffers go.
int rondo_submission_check(const struct rondo_rank *rank, const struct rondo_coll *coll,
                           const struct rondo_submission *s);

// Checks a run and takes what it will need, which is written to `record`: after that it cannot fail.
// Then submits it. The rank lock is held; it may be let go in between.
int rondo_submission_prepare(struct rondo_rank *rank, const struct rondo_coll *coll,
                             const struct rondo_submission *s, struct rondo_run_record **record);
void rondo_submission_commit(struct rondo_rank *rank, struct rondo_coll *coll,
                             const struct rondo_submission *s, struct rondo_run_record *record);
// Tells the daemon, without the lock. `urgent`: nobody is going to wait for the run.
void rondo_submission_kick(const struct rondo_rank *rank, int urgent);

// Submits a run of this rank; `run` (may be null) gets its number.
int rondo_rank_run(struct rondo_rank *rank, struct rondo_collective handle,
                   const struct rondo_submission *s, uint64_t *run);

// Works for the rank's daemon as rondo_test does, a bounded number of steps, if runs are outstanding. Not with the
// rank lock.
void rondo_rank_ask(const struct rondo_rank *rank);

// Attaches a callback to a run, as rondo_notify; of a collective that is not there any more the run ended
// well.
int rondo_rank_notify(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                      rondo_callback callback, void *arg);

// As rondo_run_numbered, for a run that is tied to a stream whose words are the caller's.
int rondo_run_tied(struct rondo_context ctx, struct rondo_collective coll,
                   const struct rondo_run_args *args, const struct rondo_tie *tie, uint64_t *run);

// A run record, or null when there is no memory. The rank lock is held.
struct rondo_run_record *rondo_run_record_take(struct rondo_rank *rank);

// ---------------------------------------------------------------- replay.c ---

// Captures a run into the graph that the stream is being captured into. Returns as
// rondo_run_on_stream.
int rondo_run_capture(struct rondo_rank *rank, struct rondo_collective handle,
                      const struct rondo_submission *s, void *stream);
// Forgets what belonged to graphs that are gone. The rank lock is held.
void rondo_replays_reap(struct rondo_rank *rank);
// Submits what graphs ask for. Returns 1 if a run was submitted. The rank lock is held.
int rondo_replays_serve(struct rondo_rank *rank);
void rondo_replays_free(struct rondo_rank *rank);

// ---------------------------------------------------------------- stream.c ---

// What of a tie to a stream is enqueued when a run is submitted (RONDO_STREAM_ASK, and RONDO_STREAM_WAIT
// unless this thread holds its streams); and what is left for rondo_streams_release.
struct rondo_held_tie {
  struct rondo_context ctx;
  void *stream;
  struct rondo_tie tie;
  int is_captured;
};
// RONDO_ERR_NO_MEMORY: a tie cannot be held, and nothing may be enqueued.
int rondo_ties_prepare(unsigned *parts);
// After rondo_ties_prepare and the ask. Nothing, unless the thread holds its streams.
void rondo_ties_hold(const struct rondo_held_tie *tie);

// Submits a run in the order of a stream. `run` (may be null) gets its number, or 0 if it was captured.
int rondo_rank_run_on_stream(struct rondo_rank *rank, struct rondo_collective handle,
                             struct rondo_submission *s, void *stream, uint64_t *run);
// Writes to `capturing` whether the stream is being captured. Refuses what is no stream of the device.
int rondo_rank_is_capturing(const struct rondo_rank *rank, void *stream, int *capturing);

// Takes away what ties a collective without outstanding runs to streams; others use it again.
void rondo_coll_forget_streams(struct rondo_rank *rank, struct rondo_coll *coll);
void rondo_streams_free(struct rondo_rank *rank);

// ---------------------------------------------------------------- memory.c ---

// Frees what the user has not given back.
void rondo_allocations_free(struct rondo_rank *rank);

// -------------------------------------------------------------- register.c ---

// The ids of the application's own registrations, and those of the calls of communicators, are
// apart: what names a collective is its id with its space, which internally the field
// `reserved` of a descriptor holds.
#define RONDO_SPACE_USER 0u
#define RONDO_SPACE_COMM 1u

// As rondo_register, for any space. With `args` (may be null): refuses buffers with which it could not be
// run, before anybody knows of it. `owner` (may be null) is the communicator that it is for.
int rondo_rank_register(struct rondo_rank *rank, const struct rondo_collective_desc *desc,
                        const struct rondo_run_args *args, struct rondo_comm_end *owner,
                        struct rondo_collective *handle);
// As rondo_deregister. Says nothing to the log when runs are outstanding.
int rondo_rank_try_deregister(struct rondo_rank *rank, struct rondo_collective handle);

// The collective of a handle, or null. The caller holds the rank lock or is inside the rank.
struct rondo_coll *rondo_coll_find(struct rondo_rank *rank, struct rondo_collective handle);
struct rondo_collective rondo_coll_handle(const struct rondo_coll *coll);
// The collective that has, or is about to have, an id; null if none. The rank lock is held.
struct rondo_coll *rondo_coll_by_id(struct rondo_rank *rank, uint32_t space, uint64_t id);
struct rondo_coll *rondo_coll_at(struct rondo_rank *rank, uint32_t index);
// Takes a collective away whatever its state; nothing of it is on the device.
void rondo_coll_remove(struct rondo_rank *rank, struct rondo_coll *coll);

// -------------------------------------------------------------- exchange.c ---

// Checks and copies what the descriptor of an all-to-all-v points to. Returns RONDO_SUCCESS,
// RONDO_ERR_INVALID or RONDO_ERR_NO_MEMORY.
int rondo_exchange_copy(struct rondo_coll *coll);
void rondo_exchange_set_sizes(struct rondo_coll *coll);

// -------------------------------------------------------------- complete.c ---

// Takes completions off the queue and pushes runs that wait; 1 if it did anything. `owner` is the
// rank. Never waits: if another thread has the lock, that thread does it.
int rondo_rank_service(void *owner);
int rondo_rank_needs_service(void *owner);
// Takes completions off the queue. The rank lock is held. Returns how many runs have ended, of which
// rondo_rank_tell_ended must tell when it is not held any more.
uint64_t rondo_rank_accept(struct rondo_rank *rank);
// Takes the lock of a rank to look at its runs. Who waits for a small run, and brings it to its end itself, leaves
// the completion in the queue: it is off by the time that this returns.
void rondo_rank_lock(struct rondo_rank *rank);
// Does the same for one that is locked already.
void rondo_rank_settle(struct rondo_rank *rank);
void rondo_rank_tell_ended(struct rondo_rank *rank, uint64_t ended);
// Adds to the flight record that a block was started or has quit (enum rondo_note). Never waits: if
// another thread has the rank lock, it is remembered until the next one, or until the record is
// written. One thread at a time says it of a block.
void rondo_rank_noted(void *owner, int what, uint32_t block);
// 1 if something is remembered.
static inline int rondo_rank_has_untold(const struct rondo_rank *rank) {
  return (rondo_load_relaxed_u64(&rank->untold[RONDO_NOTE_STARTED]) |
          rondo_load_relaxed_u64(&rank->untold[RONDO_NOTE_QUIT])) != 0;
}
// Adds what is remembered, as of now. The rank lock is held.
void rondo_rank_tell_noted(struct rondo_rank *rank);
// Ends all runs with RONDO_ERR_SYSTEM, and those of the peers: the daemon is not there any more. `owner` is
// the rank.
void rondo_rank_lost(void *owner, const char *why);
// Pushes what fits of a collective's waiting runs. The rank lock is held.
void rondo_coll_push(struct rondo_rank *rank, struct rondo_coll *coll);
// Hands the daemon a collective's only run past the SQ, and has its first steps taken. Returns the time behind
// them, or 0: the daemon did not take it. The rank lock is held.
uint64_t rondo_coll_begin(struct rondo_rank *rank, struct rondo_coll *coll);
// Takes a collective without outstanding runs off the list of those that found the SQ full, where
// it stays when its last runs went out another way. The rank lock is held.
void rondo_coll_forget_overflow(struct rondo_rank *rank, struct rondo_coll *coll);

// ------------------------------------------------------------------ init.c ---

// The driver of a backend; null if this library was built without it.
const struct rondo_driver *rondo_driver_of(int backend);

// As rondo_init if `manual` is null. Else no thread is started: the caller steps the blocks
// (of host daemons with rondo_host_drive), takes completions (rondo_rank_service) and fires callbacks
// (rondo_callbacks_fire), all with a time of its own.
int rondo_rank_create(struct rondo_context *ctx, const struct rondo_config *cfg,
                      const struct rondo_manual *manual);

#endif // RONDO_RUNTIME_API_RANK_H
