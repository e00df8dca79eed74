// A registered collective of a rank, and its runs.
#ifndef RONDO_RUNTIME_RANK_COLL_H
#define RONDO_RUNTIME_RANK_COLL_H

#include <assert.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

#include "base/platform.h"
#include "daemon/plan/plan.h"
#include "runtime/job/registration.h"
#include "runtime/rank/flight.h"
#include <rondo/rondo.h>

struct rondo_rank;
struct rondo_retry;
struct rondo_submission;

#define RONDO_COLL_PAGE 256u

// Ties a run to a stream: the words in memory that the stream and the daemon write and read, and
// the value that means this run. `words` is null for a run without a stream.
struct rondo_tie {
  struct rondo_stream_words *words;
  uint64_t ticket;
};

// A submitted run that has not ended. Written before its SQE is visible.
struct rondo_run_record {
  struct rondo_run_record *next;
  uint64_t number;
  uint64_t event; // its number in the flight record
  uint64_t submitted_ns : 63;
  uint64_t is_private : 1; // other devices may be unable to access the buffers
  struct rondo_run_args args;
  struct rondo_tie tie;
  struct rondo_exchange *exchange; // of an all-to-all-v whose runs have their own counts; else null
};
static_assert(sizeof(struct rondo_run_record) <= 88, "a thousand runs in flight: 96 KB");

// The counts and displacements of an all-to-all-v: of a registration, or of a run. Made by malloc.
struct rondo_exchange {
  uint64_t most_elems;             // that the rank sends to one rank, or receives from one
  uint64_t send_bytes, recv_bytes; // from the start of each buffer to the end of its last part
  uint64_t *counts;                // sent to each rank, then received from each rank
  struct rondo_span places[];      // the same with their offsets: nranks, then nranks
};

enum rondo_coll_borrows {
  RONDO_BORROWS_NOTHING = 0,
  RONDO_BORROWS_MAYBE = 1, // its connectors are not known yet: as ALWAYS
  RONDO_BORROWS_ALWAYS = 2 // while it has runs outstanding (lending.h)
};

// A registered collective. The memory stays until the context is destroyed, so that a stale handle
// can be checked. `generation` is odd while the entry is in use.
//
// What each run reads or writes is in the first RONDO_LINE_BYTES: many collectives in flight are
// touched in any order, and each line costs a miss.
struct rondo_coll {
  alignas(RONDO_LINE_BYTES) uint32_t index;
  uint32_t generation;
  struct rondo_flight_tag tag;
  uint64_t send_bytes, recv_bytes;      // of the user's buffers
  uint64_t submitted;                   // runs
  uint64_t completed;                   // release; runs end in order
  struct rondo_run_record *head, *tail; // outstanding runs in order
  struct rondo_run_record *unpushed;    // the first of them that is not pushed
  uint64_t failed_from;                 // the first run that failed; 0: none
  uint32_t on_device;                   // runs pushed and not ended; at most RONDO_DEVICE_RUNS
  uint8_t block_count;                  // that take part
  uint8_t retries;                      // 1: `retry` is not null
  uint8_t used_buffers;                 // by this rank: 1 send, 2 receive, 3 both
  uint8_t borrows;                      // enum rondo_coll_borrows
  uint64_t inline_run; // the run whose CQE may stay in the CQ (inline_run.h); 0: none

  uint64_t in_place_bytes; // distance of the two buffers when in place
  struct rondo_collective_desc desc;
  struct rondo_registration registration;
  struct rondo_plan *plan;         // made by malloc; null: not yet
  struct rondo_exchange *exchange; // all-to-all-v with the same counts in each run; else null
  // All-to-all-v whose runs have their own counts: shared memory, the source of their parts; else
  // null.
  void *parts;
  // Device memory (register.c says what is there); the second one if the plan was made later.
  void *contexts, *late;
  struct rondo_lent_piece *lent; // null: none is lent
  uint32_t lent_class;           // size of the memory that it borrows, as in pool.h
  uint16_t borrows_scratch;      // 1: that includes its scratch
  int failed_status;
  uint32_t is_late;
  uint32_t has_places;               // atomic; 1: streams may wait for its runs (stream.c)
  uint32_t device_generation;        // of the table entry, while it is registered
  uint32_t holders;                  // calls that keep it registered
  uint32_t replays;                  // captured calls whose graphs still exist
  struct rondo_retry *retry;         // null, except for RONDO_ON_LOSS_RETRY (retry.h)
  struct rondo_coll_stream *streams; // guarded by the rank's stream_lock
  struct rondo_coll *next;           // in the free list
};
static_assert(offsetof(struct rondo_coll, in_place_bytes) == RONDO_LINE_BYTES, "see there");

struct rondo_collective rondo_coll_handle(const struct rondo_coll *coll); // of a registered one
// The collective of a handle, or null. The caller holds the rank's lock or has pinned the rank.
struct rondo_coll *rondo_coll_find(struct rondo_rank *rank, struct rondo_collective handle);
// Keeps the collective registered until rondo_coll_unhold. Returns null if it is not registered.
// The rank's lock is not held.
struct rondo_coll *rondo_coll_hold(struct rondo_rank *rank, struct rondo_collective handle);
void rondo_coll_unhold(struct rondo_rank *rank, struct rondo_coll *coll);
// Does the same, and logs that the call `call` of the application names no collective.
struct rondo_coll *rondo_coll_find_logged(struct rondo_rank *rank, struct rondo_collective handle,
                                          const char *call);
// What its blocks read of its memory. The CPU may write it if the collective borrows.
struct rondo_own_memory *rondo_coll_memory(const struct rondo_coll *coll);
struct rondo_coll *rondo_coll_at(struct rondo_rank *rank, uint32_t index);

// Finds the handle of a registered id of the application. As rondo_lookup.
int rondo_rank_lookup(struct rondo_rank *rank, uint64_t id, struct rondo_collective *handle);

// Checks the buffers of a run: null, or overlapping. Returns RONDO_SUCCESS or RONDO_ERR_INVALID.
int rondo_coll_check_buffers(const struct rondo_coll *coll, const struct rondo_submission *s);

// The buffers of a run, without its collective.
struct rondo_buffers {
  uint64_t id;           // of the collective
  uint32_t used;         // 1 send, 2 receive, 3 both
  const void *memory[2]; // null: not used
  uint64_t bytes[2];
};
struct rondo_buffers rondo_coll_buffers(const struct rondo_coll *coll,
                                        const struct rondo_submission *s);
// Asks the driver whether the device can use the buffers, and sets `is_private` if other devices
// may be unable to. The driver may wait for the device, so the caller holds no lock. Returns
// RONDO_SUCCESS or RONDO_ERR_INVALID.
int rondo_buffers_check_reach(const struct rondo_rank *rank, const struct rondo_buffers *buffers,
                              bool *is_private);
// Does the same for a run. An unknown handle passes: the submission refuses it.
int rondo_run_check_reach(struct rondo_rank *rank, struct rondo_collective handle,
                          const struct rondo_submission *s, bool *is_private);

// ---- registering ----

struct rondo_register_request {
  const struct rondo_collective_desc *desc;
  struct rondo_id id;
  const struct rondo_submission *run; // if not null: its buffers are checked before registering
  struct rondo_owner *owner;          // null: the application
  struct rondo_retry *retry;          // null, except for RONDO_ON_LOSS_RETRY
};
// As rondo_register. If the `run` has an exchange, each run of the collective brings its own, and
// the descriptor has no counts.
int rondo_rank_register(struct rondo_rank *rank, const struct rondo_register_request *request,
                        struct rondo_collective *handle);
// As rondo_deregister. `logs`: 0 keeps RONDO_ERR_BUSY out of the log.
int rondo_rank_deregister(struct rondo_rank *rank, struct rondo_collective handle, int logs);
// Removes a collective in any state. The device no longer refers to it.
void rondo_coll_remove(struct rondo_rank *rank, struct rondo_coll *coll);

// ---- all_to_all_v.c ----

// Checks and copies the arrays of an all-to-all-v's descriptor. `position` is that of this rank.
// Returns RONDO_SUCCESS; RONDO_ERR_INVALID or RONDO_ERR_NO_MEMORY: `out` does not change.
int rondo_exchange_make(const struct rondo_collective_desc *d, uint32_t nranks, uint32_t position,
                        struct rondo_exchange **out);
// Writes parts for blocks, whose `source` is that address or 0. `x` null: all are empty.
void rondo_exchange_write(const struct rondo_exchange *x, uint32_t nranks, uint64_t source,
                          struct rondo_listed *to);
// Gives a run's parts to the blocks. The device holds fewer than RONDO_DEVICE_RUNS runs of the
// collective.
void rondo_exchange_push(const struct rondo_coll *coll, const struct rondo_run_record *record);
// If a block has refused a part in this run, which has ended, notes that with the owner. Returns
// true if it did. The rank's lock is held.
bool rondo_exchange_note_refusal(const struct rondo_coll *coll,
                                 const struct rondo_run_record *record);

#endif // RONDO_RUNTIME_RANK_COLL_H
