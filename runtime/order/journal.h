// The journal of a series of calls: what each rank has called, where its neighbours can see it.
//
//   rondo_track_init -> rondo_track_reserve -> rondo_track_append -> rondo_track_compare ...
//                    -> rondo_track_fini
//
// A call that finds its collective in the cache compares no descriptors. So each rank writes the
// signature of call c to place c of a ring, in memory that the others can read: of the process, or
// of its arena; and compares its calls with those of its neighbours in the group. If all pairs of neighbours
// agree, all ranks do. Where no memory is shared, messages keep a copy of the ring in step: mirror.c. Of two ranks the one that comes later to a call finds the other's there (J1,
// J2), so nobody waits and nothing is skipped. A place is used again only when both neighbours' calls
// have been compared with it (J3); until then later calls stay in the rank's own memory.
//
// Memory of journals is never given back before the job ends here: it becomes another journal, with
// another stamp, at which a reader looks last. So whoever still reads an old one finds out.
#ifndef RONDO_RUNTIME_ORDER_JOURNAL_H
#define RONDO_RUNTIME_ORDER_JOURNAL_H

#include <pthread.h>
#include <stdint.h>

#include "runtime/order/signature.h"

struct rondo_job;

// A power of two; few in the explorer, so that they are used up.
#if defined(RONDO_EXPLORE)
#define RONDO_JOURNAL_PLACES 4u
#else
#define RONDO_JOURNAL_PLACES 64u
#endif

struct rondo_journal_entry {
  uint64_t mark; // number of the call, from 1
  uint64_t words[3];
};

struct rondo_journal {
  uint64_t stamp;       // whose it is now; 0: nobody's
  uint64_t written;     // calls
  uint64_t compared[2]; // of them: with each neighbour's
  uint64_t reserved[12];
  struct rondo_journal_entry entries[RONDO_JOURNAL_PLACES];
};
_Static_assert(sizeof(struct rondo_journal_entry) == 32, "shared between processes");
_Static_assert(sizeof(struct rondo_journal) == 128 + 32 * RONDO_JOURNAL_PLACES, "likewise");

// Which series of which communicator, and whose.
struct rondo_journal_name {
  uint64_t key;
  uint32_t from, to; // positions; RONDO_SERIES_COLLECTIVE
  uint32_t rank;
  uint32_t reserved;
};

// Where a journal is. Guarded by the lock of the job.
struct rondo_journal_place {
  struct rondo_journal_name name;
  struct rondo_journal *journal;
  uint64_t stamp;
  uint32_t process; // RONDO_HERE, or whose memory it is
  uint32_t readers; // and its writer
  uint32_t neighbours[2];
  uint32_t neighbour_count;
  int is_over;
  // Of a rank here with neighbours that share no memory with it: what those have been told (mirror.c).
  uint32_t is_proxied; // atomic
  uint64_t told[2], told_compared[2][2];
  int is_replica; // kept here for a rank elsewhere
};

// The journals of a job in this process. Guarded by its lock, but for `changes`.
struct rondo_journals {
  void *places;     // tree (search.h), by name
  uint64_t changes; // places that have come
  uint64_t stamps;
  struct rondo_journal *idle;
  int is_unfinished; // comparing what has come: some communicator was busy
  pthread_mutex_t news_lock;
  int is_coming, is_urgent; // under it: they will be told, and that at once
  uint64_t round_ns;        // likewise: that telling others far away took last
};

struct rondo_journal_side {
  uint32_t rank;
  uint32_t index; // of this rank among the neighbour's sides
  struct rondo_journal_place *place;
  uint64_t seen; // changes of the job's places at the last look
  uint64_t compared;
};

// A rank's own journal of one series, and its neighbours.
struct rondo_track {
  struct rondo_job *job;
  struct rondo_journal_place *own;
  uint64_t called, written;
  struct rondo_signature *backlog; // calls that are not written yet: a ring
  uint32_t capacity;
  uint32_t side_count;
  int is_owing;
  uint64_t noted; // of calls written and compared, when far neighbours were let know last
  struct rondo_journal_side sides[2];
};

struct rondo_difference {
  uint64_t call; // from 1
  uint32_t rank; // the other
  struct rondo_signature ours, theirs;
};

// `neighbours` are ranks: none, one, or the one before and the one behind in the group. Returns
// RONDO_SUCCESS, RONDO_ERR_NO_MEMORY or RONDO_ERR_EXISTS (the rank has one of this name).
int rondo_track_init(struct rondo_track *track, struct rondo_job *job,
                     const struct rondo_journal_name *name, const uint32_t *neighbours,
                     uint32_t neighbour_count);
void rondo_track_fini(struct rondo_track *track);

// Makes room for one more call. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
int rondo_track_reserve(struct rondo_track *track);
// Adds a call, for which there is room.
void rondo_track_append(struct rondo_track *track, const struct rondo_signature *s);
// 1 if calls wait for their place, or for a look at the neighbours.
int rondo_track_is_owing(const struct rondo_track *track);

// How whoever compares stands to the lock of the job.
enum rondo_hurry {
  RONDO_HURRY_NOT = 0, // may wait for it
  RONDO_HURRY,         // waits for no lock, and may have done less
  RONDO_HURRY_HOLDS    // holds it
};

// Writes what has room, and compares what can be. Returns 1 with `difference` if two calls differ. `hurry`: enum
// rondo_hurry.
int rondo_track_compare(struct rondo_track *track, int hurry, struct rondo_difference *difference);

// The neighbour's call that comes next here, of a pair. Returns 0 if it has not come, or cannot be seen.
int rondo_track_peek(struct rondo_track *track, struct rondo_signature *next);

// ------------------------------------------------------------ of the job; its lock is held ---

// Tells the neighbours in other processes of the journals here: those that could not be told before.
void rondo_journals_announce(struct rondo_job *job);
// A notice has come. Returns 0 if no member sends such a thing.
int rondo_journals_receive(struct rondo_job *job, uint32_t process, const void *bytes, size_t size);
// The same, of calls of a rank with which no memory is shared.
int rondo_replicas_receive(struct rondo_job *job, uint32_t process, const void *bytes, size_t size);
// A rank elsewhere is gone, with its journals.
void rondo_journals_lose(struct rondo_job *job, uint32_t rank);
void rondo_journals_free(struct rondo_job *job);

#endif // RONDO_RUNTIME_ORDER_JOURNAL_H
