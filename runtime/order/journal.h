// The journal: a ring in which a rank publishes the calls of a series that it has made, so that its
// neighbours can compare theirs.
//
//   rondo_journal_writer_init -> _reserve -> _append -> _compare ... -> _fini
//
// A call that finds its collective in the cache compares no descriptors. So each rank writes the
// signature of call c to entry c (modulo the size) of a ring in memory that the other ranks can
// read: memory of its process, or of its arena. Each rank compares its calls with those of its
// neighbours in the group. If all pairs of neighbours agree, all ranks agree. Where no memory is
// shared, messages fill a replica of the ring (journal_replica.c).
//
// Of two neighbours, the rank that makes a call later finds the call of the other rank (J1, J2). So
// no rank waits and no call is skipped. A rank overwrites an entry only after it was compared with
// the calls of both neighbours (J3). Until then the rank keeps later calls in its own memory.
//
// The memory of a journal is not freed before the job ends in this process. It may be reused for
// another journal, which has another stamp. A reader checks the stamp after it has read; if the
// stamp has changed, the reader discards what it has read.
#ifndef RONDO_RUNTIME_ORDER_JOURNAL_H
#define RONDO_RUNTIME_ORDER_JOURNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "runtime/order/signature.h"

struct rondo_job;
struct rondo_mesh_message;

// A power of two. The explorer has few entries, so that it uses all of them.
#if defined(RONDO_EXPLORE)
#define RONDO_JOURNAL_ENTRIES 4u
#else
#define RONDO_JOURNAL_ENTRIES 64u
#endif

struct rondo_journal_entry {
  uint64_t mark; // number of the call, from 1
  uint64_t words[3];
};

struct rondo_journal {
  uint64_t stamp;       // changes when the memory is reused; 0: the journal is idle
  uint64_t written;     // number of the newest call in the ring
  uint64_t compared[2]; // number of calls compared so far, by neighbour
  uint64_t reserved[12];
  struct rondo_journal_entry entries[RONDO_JOURNAL_ENTRIES];
};
_Static_assert(sizeof(struct rondo_journal_entry) == 32, "shared between processes");
_Static_assert(sizeof(struct rondo_journal) == 128 + 32 * RONDO_JOURNAL_ENTRIES,
               "shared between processes");

// Names a journal: the series of a communicator, and the rank that writes it.
struct rondo_journal_name {
  uint64_t key;
  uint32_t from, to; // positions of a pair; else RONDO_SERIES_COLLECTIVE
  uint32_t rank;
  uint32_t reserved;
};

// Where a journal is. Guarded by the lock of the job.
struct rondo_journal_place {
  struct rondo_journal_name name;
  LIST_ENTRY(rondo_journal_place) listed; // in `list` of the job's journals
  struct rondo_journal *journal;
  uint64_t stamp;
  uint32_t process; // in whose memory the journal is; RONDO_HERE: this process
  uint32_t readers; // writers that use the place, the journal's own included; 0: free it
  uint32_t neighbours[2];
  uint32_t neighbour_count;
  int is_over; // its writer has ended
  // For a journal written here (journal_replica.c).
  uint32_t is_proxied; // atomic; 1: a neighbour shares no memory and gets messages
  // By neighbour: number of the last call that was sent there, and the journal's `compared` as it
  // was sent there.
  uint64_t sent_calls[2], sent_compared[2][2];
  // 1: `journal` is a replica of a journal in another process, filled by messages.
  int is_replica;
};

// The journals of a job in this process. Guarded by the lock of the job, except `changes`.
struct rondo_journals {
  void *places;                          // tree (search.h) of struct rondo_journal_place, by name
  LIST_HEAD(, rondo_journal_place) list; // all places of the tree
  uint64_t changes;                      // number of places that were ever added
  uint64_t stamps;
  struct rondo_journal *idle;
  // 1: a comparison skipped communicators that other threads had locked; another one is scheduled.
  int is_unfinished;
  pthread_mutex_t schedule_lock;
  // Guarded by schedule_lock.
  int is_scheduled;  // messages are going to be sent
  int is_urgent;     // ... at once
  uint64_t round_ns; // how long sending took the last time
};

// A rank whose calls are compared with those of this rank.
struct rondo_journal_neighbour {
  uint32_t rank;
  uint32_t index; // the neighbour's compared[index] counts calls compared with this rank's
  struct rondo_journal_place *place;
  uint64_t seen;     // value of rondo_journals.changes when `place` was last searched for
  uint64_t compared; // calls that this rank has compared with the neighbour's
};

// Writes a rank's own journal of one series, and compares it with those of the neighbours.
struct rondo_journal_writer {
  struct rondo_job *job;
  struct rondo_journal_place *own;
  uint64_t called, written;
  struct rondo_signature *backlog; // ring of `capacity` calls that are not written yet
  uint32_t capacity;
  uint32_t neighbour_count;
  // A neighbour's journal was not looked up, because another thread held the lock of the job.
  bool must_retry;
  // Calls written, plus calls compared, when messages were last scheduled. A larger sum means that
  // there is something new to send.
  uint64_t announced;
  struct rondo_journal_neighbour neighbours[2];
};

struct rondo_difference {
  uint64_t call; // from 1
  uint32_t rank; // the neighbour
  struct rondo_signature ours, theirs;
};

// `neighbours` are ranks: none, one, or the previous and the next one of the group. Returns
// RONDO_SUCCESS, RONDO_ERR_NO_MEMORY or RONDO_ERR_EXISTS (the rank already has a journal `name`).
int rondo_journal_writer_init(struct rondo_journal_writer *writer, struct rondo_job *job,
                              const struct rondo_journal_name *name, const uint32_t *neighbours,
                              uint32_t neighbour_count);
void rondo_journal_writer_fini(struct rondo_journal_writer *writer);

// Makes room for one more call. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
int rondo_journal_writer_reserve(struct rondo_journal_writer *writer);
// Adds a call, after rondo_journal_writer_reserve.
void rondo_journal_writer_append(struct rondo_journal_writer *writer,
                                 const struct rondo_signature *s);
// True if calls wait until the ring has room, or if a neighbour's journal was not looked up.
bool rondo_journal_writer_has_pending(const struct rondo_journal_writer *writer);

// What the caller of a comparison does about the lock of the job.
enum rondo_job_lock_mode {
  RONDO_JOB_LOCK_WAIT = 0, // may wait for the lock
  RONDO_JOB_LOCK_TRY,      // takes the lock only if it is free; may do less
  RONDO_JOB_LOCK_HELD      // holds the lock
};

// Writes calls to the ring as long as it has room. Compares the calls that both sides have written.
// Returns true and fills `difference` if two calls differ. `lock_mode`: enum rondo_job_lock_mode.
bool rondo_journal_writer_compare(struct rondo_journal_writer *writer, int lock_mode,
                                  struct rondo_difference *difference);

// For the series of a pair: reads the next call of the other rank, if that rank has made more calls
// than this one. Returns false if it has not, or if its journal is not known here.
bool rondo_journal_writer_peek(struct rondo_journal_writer *writer, struct rondo_signature *next);

// ---- for a job; the caller holds its lock ----

// Called once the roster is known. Tells the processes of the neighbours where the journals of this
// process are; sends the calls instead where no memory is shared.
void rondo_journals_announce(struct rondo_job *job);
// Receives a RONDO_MESSAGE_JOURNAL. Returns 0 if the message is invalid.
int rondo_journals_receive(struct rondo_job *job, const struct rondo_mesh_message *message);
// Receives a RONDO_MESSAGE_CALLS: calls of a rank that shares no memory. Returns 0 if the
// message is invalid.
int rondo_replicas_receive(struct rondo_job *job, const struct rondo_mesh_message *message);
// Removes the journals of a rank of another process that has left or is lost.
void rondo_journals_lose(struct rondo_job *job, uint32_t rank);
void rondo_journals_free(struct rondo_job *job);

#endif // RONDO_RUNTIME_ORDER_JOURNAL_H
