#include "runtime/order/journal.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/explore.h"
#include "base/memory.h"
#include "runtime/job/processes.h"
#include "runtime/memory/arena.h"
#include "runtime/order/comm_detach.h"
#include "runtime/order/comms.h"
#include "runtime/order/journal_place.h"
#include "runtime/rank/rank.h"

#define FIRST_BACKLOG 16u

// -------------------------------------------------------------------- places ---

static int journal_name_compare(const void *a, const void *b) {
  const struct rondo_journal_name *x = a;
  const struct rondo_journal_name *y = b;
  if (x->key != y->key)
    return x->key < y->key ? -1 : 1;
  if (x->from != y->from)
    return x->from < y->from ? -1 : 1;
  if (x->to != y->to)
    return x->to < y->to ? -1 : 1;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

struct rondo_journal_place *rondo_journal_find(struct rondo_job *job,
                                               const struct rondo_journal_name *name) {
  struct rondo_journal_place **found =
      tfind(name, &rondo_comms_of(job)->journals.places, journal_name_compare);
  return found ? *found : NULL;
}

struct rondo_journal_place *rondo_journal_add(struct rondo_job *job,
                                              const struct rondo_journal_place *like) {
  struct rondo_journal_place *place = malloc(sizeof *place);
  if (!place)
    return NULL;
  *place = *like;
  place->readers = 1;
  struct rondo_journal_place **at =
      tsearch(place, &rondo_comms_of(job)->journals.places, journal_name_compare);
  if (!at || *at != place) {
    free(place);
    return NULL;
  }
  LIST_INSERT_HEAD(&rondo_comms_of(job)->journals.list, place, listed);
  // J1: a neighbour that does not see the place yet has written its calls where this rank will
  // look.
  rondo_fetch_add_seq_cst_u64(&rondo_comms_of(job)->journals.changes, 1);
  rondo_detachments_answer(job, &place->name);
  return place;
}

// Idle journals are linked through the first word of their first entry.
void rondo_journal_release(struct rondo_job *job, struct rondo_journal *journal) {
  rondo_store_release_u64(&journal->stamp, 0);
  rondo_store_release_u64(&journal->entries[0].mark, 0);
  rondo_store_release_u64(&journal->entries[0].words[0],
                          (uint64_t)(uintptr_t)rondo_comms_of(job)->journals.idle);
  rondo_comms_of(job)->journals.idle = journal;
}

struct rondo_journal *rondo_journal_alloc(struct rondo_job *job) {
  struct rondo_journal *journal = rondo_comms_of(job)->journals.idle;
  if (!journal) {
    journal = job->transports.arena ? rondo_arena_alloc(job->transports.arena, sizeof *journal)
                                    : rondo_memory_alloc(sizeof *journal);
    return journal;
  }
  rondo_comms_of(job)->journals.idle =
      (struct rondo_journal *)(uintptr_t)rondo_load_relaxed_u64(&journal->entries[0].words[0]);
  for (uint32_t i = 0; i < RONDO_JOURNAL_ENTRIES; i++)
    rondo_store_release_u64(&journal->entries[i].mark, 0);
  for (uint32_t i = 0; i < 2; i++)
    rondo_store_release_u64(&journal->compared[i], 0);
  rondo_store_release_u64(&journal->written, 0);
  return journal;
}

// Drops one reader; the last one frees the place.
static void place_release(struct rondo_job *job, struct rondo_journal_place *place) {
  if (--place->readers)
    return;
  if (place->process == RONDO_HERE || place->is_replica)
    rondo_journal_release(job, place->journal);
  else
    rondo_transports_unuse(&job->transports, place->process);
  free(place);
}

void rondo_journal_remove(struct rondo_job *job, struct rondo_journal_place *place) {
  place->is_over = 1;
  LIST_REMOVE(place, listed);
  tdelete(place, &rondo_comms_of(job)->journals.places, journal_name_compare);
  place_release(job, place);
}

// -------------------------------------------------------------- other processes --

// RONDO_MESSAGE_JOURNAL: where the sender's journal is.
struct journal_message {
  struct rondo_journal_name name;
  uint32_t is_over;
  uint32_t reserved;
  uint64_t stamp, at; // in the sender's arena
};
_Static_assert(sizeof(struct journal_message) == 48, "sent between processes");

static void place_send(struct rondo_job *job, struct rondo_journal_place *place) {
  struct journal_message n = {.name = place->name, .stamp = place->stamp};
  if (!job->transports.arena || job->roster != RONDO_ROSTER_KNOWN)
    return;
  n.is_over = (uint32_t)place->is_over;
  n.at = (uint64_t)((char *)place->journal - (char *)rondo_arena_base(job->transports.arena));
  for (uint32_t i = 0; i < place->neighbour_count; i++) {
    uint32_t process = rondo_processes_where(job, place->neighbours[i]);
    if (process < job->process_count &&
        job->transports.peers[process].reach == RONDO_TRANSPORT_SHARED_MEMORY)
      rondo_processes_send(job, process, RONDO_MESSAGE_JOURNAL, &n, sizeof n);
  }
  rondo_replica_send(job, place);
}

void rondo_journals_announce(struct rondo_job *job) {
  struct rondo_journal_place *p;
  LIST_FOREACH (p, &rondo_comms_of(job)->journals.list, listed)
    if (p->process == RONDO_HERE)
      place_send(job, p);
}

int rondo_journals_receive(struct rondo_job *job, const struct rondo_mesh_message *message) {
  struct journal_message n;
  struct rondo_transport_peer *peer = &job->transports.peers[message->from];
  if (message->size != sizeof n)
    return 0;
  memcpy(&n, message->bytes, sizeof n);
  if (!rondo_processes_is_rank_at(job, n.name.rank, message->from))
    return 0;
  struct rondo_journal_place *place = rondo_journal_find(job, &n.name);
  if (place && place->stamp == n.stamp) {
    if (n.is_over)
      rondo_journal_remove(job, place);
    return 1;
  }
  if (n.is_over || !peer->map)
    return 1;
  if (n.at % RONDO_LINE_BYTES || n.at >= peer->theirs.bytes ||
      peer->theirs.bytes - n.at < sizeof(struct rondo_journal))
    return 0;
  if (place)
    rondo_journal_remove(job, place);
  struct rondo_journal_place made = {.name = n.name, .stamp = n.stamp, .process = message->from};
  made.journal = (struct rondo_journal *)((char *)peer->map + n.at);
  if (rondo_journal_add(job, &made))
    peer->links++;
  // The calls so far have not been compared with this journal.
  for (uint32_t r = 0; r < job->rank_count; r++)
    if (job->members[r])
      rondo_store_relaxed_u32(&rondo_rank_of(job->members[r])->extension_pending, 1);
  return 1;
}

void rondo_journals_lose(struct rondo_job *job, uint32_t rank) {
  struct rondo_journal_place *next;
  for (struct rondo_journal_place *p = LIST_FIRST(&rondo_comms_of(job)->journals.list); p;
       p = next) {
    next = LIST_NEXT(p, listed);
    if (p->name.rank == rank && p->process != RONDO_HERE)
      rondo_journal_remove(job, p);
  }
}

// Journals in an arena are freed with the arena.
void rondo_journals_free(struct rondo_job *job) {
  tdestroy(rondo_comms_of(job)->journals.places, free);
  rondo_comms_of(job)->journals.places = NULL;
  LIST_INIT(&rondo_comms_of(job)->journals.list);
  while (rondo_comms_of(job)->journals.idle && !job->transports.arena)
    rondo_memory_free(rondo_journal_alloc(job));
}

// ----------------------------------------------------------------- the writer ---

static int writer_add_own(struct rondo_journal_writer *writer, struct rondo_journal_place *like) {
  struct rondo_job *job = writer->job;
  pthread_mutex_lock(&job->lock);
  if (rondo_journal_find(job, &like->name)) {
    pthread_mutex_unlock(&job->lock);
    return RONDO_ERR_EXISTS;
  }
  like->journal = rondo_journal_alloc(job);
  like->stamp = ++rondo_comms_of(job)->journals.stamps;
  writer->own = like->journal ? rondo_journal_add(job, like) : NULL;
  if (writer->own) {
    rondo_store_release_u64(&like->journal->stamp, like->stamp);
    place_send(job, writer->own);
  } else if (like->journal) {
    rondo_journal_release(job, like->journal);
  }
  pthread_mutex_unlock(&job->lock);
  return writer->own ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
}

int rondo_journal_writer_init(struct rondo_journal_writer *writer, struct rondo_job *job,
                              const struct rondo_journal_name *name, const uint32_t *neighbours,
                              uint32_t neighbour_count) {
  struct rondo_journal_place like = {.name = *name, .process = RONDO_HERE};
  memset(writer, 0, sizeof *writer);
  writer->job = job;
  writer->neighbour_count = neighbour_count;
  like.neighbour_count = neighbour_count;
  for (uint32_t i = 0; i < neighbour_count; i++) {
    like.neighbours[i] = writer->neighbours[i].rank = neighbours[i];
    // This rank is the next one (1) of its previous neighbour (0), and the reverse.
    writer->neighbours[i].index = neighbour_count == 2 ? 1 - i : 0;
    writer->neighbours[i].seen = UINT64_MAX;
  }
  return neighbour_count ? writer_add_own(writer, &like) : RONDO_SUCCESS;
}

void rondo_journal_writer_fini(struct rondo_journal_writer *writer) {
  struct rondo_job *job = writer->job;
  if (writer->own) {
    pthread_mutex_lock(&job->lock);
    for (uint32_t i = 0; i < writer->neighbour_count; i++)
      if (writer->neighbours[i].place)
        place_release(job, writer->neighbours[i].place);
    struct rondo_journal_place *own = writer->own;
    own->is_over = 1;
    place_send(job, own);
    rondo_journal_remove(job, own);
    pthread_mutex_unlock(&job->lock);
  }
  free(writer->backlog);
  writer->backlog = NULL;
  writer->own = NULL;
}

bool rondo_journal_writer_has_pending(const struct rondo_journal_writer *writer) {
  return writer->must_retry || writer->written < writer->called;
}

int rondo_journal_writer_reserve(struct rondo_journal_writer *writer) {
  uint64_t waiting = writer->called - writer->written;
  if (!writer->neighbour_count || waiting < writer->capacity)
    return RONDO_SUCCESS;
  uint32_t capacity = writer->capacity ? 2 * writer->capacity : FIRST_BACKLOG;
  struct rondo_signature *grown = malloc(capacity * sizeof *grown);
  if (!grown)
    return RONDO_ERR_NO_MEMORY;
  for (uint64_t c = writer->written; writer->capacity && c < writer->called; c++)
    grown[c % capacity] = writer->backlog[c % writer->capacity];
  free(writer->backlog);
  writer->backlog = grown;
  writer->capacity = capacity;
  return RONDO_SUCCESS;
}

void rondo_journal_writer_append(struct rondo_journal_writer *writer,
                                 const struct rondo_signature *s) {
  if (writer->neighbour_count)
    writer->backlog[writer->called++ % writer->capacity] = *s;
}

// ------------------------------------------------------------------- comparing ---

void rondo_journal_write(struct rondo_journal_entry *e, uint64_t call,
                         const struct rondo_signature *s) {
  uint64_t words[3];
  memcpy(words, s, sizeof words);
  rondo_store_release_u64(&e->mark, 0);
  for (uint32_t i = 0; i < 3; i++)
    rondo_store_release_u64(&e->words[i], words[i]); // a reader of a new word sees mark 0
  rondo_store_release_u64(&e->mark, call);
}

bool rondo_journal_read(const struct rondo_journal_entry *e, uint64_t call,
                        struct rondo_signature *s) {
  uint64_t words[3];
  uint64_t mark = rondo_load_acquire_u64(&e->mark);
  for (uint32_t i = 0; i < 3; i++)
    words[i] = rondo_load_acquire_u64(&e->words[i]);
  memcpy(s, words, sizeof words);
  return mark == call && rondo_load_acquire_u64(&e->mark) == call;
}

static bool neighbour_is_current(const struct rondo_journal_neighbour *neighbour) {
  return neighbour->place &&
         rondo_load_acquire_u64(&neighbour->place->journal->stamp) == neighbour->place->stamp;
}

// The calls that either side has compared with the neighbour's.
static uint64_t neighbour_compared(const struct rondo_journal_neighbour *neighbour) {
  uint64_t theirs = neighbour_is_current(neighbour)
                        ? rondo_load_acquire_u64( // J3
                              &neighbour->place->journal->compared[neighbour->index])
                        : 0;
  // Ignores the value if the journal was reused meanwhile.
  theirs = neighbour_is_current(neighbour) ? theirs : 0;
  return theirs > neighbour->compared ? theirs : neighbour->compared;
}

// Writes the calls that have room in the ring. Returns true if there were any.
static bool writer_write_calls(struct rondo_journal_writer *writer) {
  uint64_t room = UINT64_MAX;
  uint64_t before = writer->written;
  for (uint32_t i = 0; i < writer->neighbour_count; i++) {
    uint64_t done = neighbour_compared(&writer->neighbours[i]);
    room = done < room ? done : room;
  }
  if (RONDO_FAULT(JOURNAL_SKIPS))
    room = writer->called;
  while (writer->written < writer->called && writer->written < room + RONDO_JOURNAL_ENTRIES) {
    struct rondo_journal_entry *e =
        &writer->own->journal->entries[writer->written % RONDO_JOURNAL_ENTRIES];
    rondo_journal_write(e, writer->written + 1,
                        &writer->backlog[writer->written % writer->capacity]);
    writer->written++;
  }
  if (writer->written == before)
    return false;
  rondo_store_seq_cst_u64(&writer->own->journal->written, writer->written); // J1
  return true;
}

bool rondo_journal_lock(struct rondo_job *job, int lock_mode) {
  if (lock_mode == RONDO_JOB_LOCK_TRY)
    return pthread_mutex_trylock(&job->lock) == 0;
  if (lock_mode == RONDO_JOB_LOCK_WAIT)
    pthread_mutex_lock(&job->lock);
  return true;
}

void rondo_journal_unlock(struct rondo_job *job, int lock_mode) {
  if (lock_mode != RONDO_JOB_LOCK_HELD)
    pthread_mutex_unlock(&job->lock);
}

// Looks the neighbour's journal up, if places were added since the last look. Returns false if the
// lock of the job was not free.
static bool neighbour_find_journal(struct rondo_journal_writer *writer,
                                   struct rondo_journal_neighbour *neighbour, int lock_mode) {
  struct rondo_job *job = writer->job;
  struct rondo_journal_name name = writer->own->name;
  uint64_t changes = rondo_load_seq_cst_u64(&rondo_comms_of(job)->journals.changes); // J2
  if (neighbour->place || neighbour->seen == changes)
    return true;
  if (!rondo_journal_lock(job, lock_mode))
    return false;
  name.rank = neighbour->rank;
  neighbour->seen = changes;
  neighbour->place = rondo_journal_find(job, &name);
  if (neighbour->place)
    neighbour->place->readers++;
  rondo_journal_unlock(job, lock_mode);
  return true;
}

// Compares one call. Returns true if it differs.
static bool neighbour_call_differs(const struct rondo_journal_writer *writer,
                                   const struct rondo_journal_neighbour *neighbour, uint64_t at,
                                   struct rondo_difference *d) {
  struct rondo_signature ours;
  struct rondo_signature theirs;
  uint32_t index = at % RONDO_JOURNAL_ENTRIES;
  if (!rondo_journal_read(&neighbour->place->journal->entries[index], at + 1, &theirs))
    return false; // the neighbour has compared the call, and reused the entry
  if (!rondo_journal_read(&writer->own->journal->entries[index], at + 1, &ours) ||
      !neighbour_is_current(neighbour))
    return false;
  if (rondo_signature_equal(&ours, &theirs) || RONDO_FAULT(JOURNAL_UNREAD))
    return false;
  d->call = at + 1;
  d->rank = neighbour->rank;
  d->ours = ours;
  d->theirs = theirs;
  return true;
}

// Compares the calls that both sides have written. Returns true if a call differs. Sets `has_moved`
// if calls were compared.
static bool neighbour_compare(struct rondo_journal_writer *writer, uint32_t index, bool *has_moved,
                              struct rondo_difference *d) {
  struct rondo_journal_neighbour *neighbour = &writer->neighbours[index];
  if (!neighbour_is_current(neighbour))
    return false;
  uint64_t theirs = rondo_load_seq_cst_u64(&neighbour->place->journal->written); // J2
  uint64_t begin = neighbour_compared(neighbour);
  uint64_t end = theirs < writer->written ? theirs : writer->written;
  if (!neighbour_is_current(neighbour))
    return false;
  for (uint64_t at = begin; at < end; at++)
    if (neighbour_call_differs(writer, neighbour, at, d))
      return true;
  if (end > neighbour->compared) {
    neighbour->compared = end;
    rondo_store_release_u64(&writer->own->journal->compared[index], end); // J3
    *has_moved = true;
  }
  return false;
}

// Schedules messages to neighbours that share no memory, if calls were written or compared since.
static void writer_schedule_messages(struct rondo_journal_writer *writer) {
  if (!writer->neighbour_count || !rondo_load_relaxed_u32(&writer->own->is_proxied))
    return;
  uint64_t now = writer->written; // the sum grows with each call written or compared
  for (uint32_t i = 0; i < writer->neighbour_count; i++)
    now += writer->neighbours[i].compared;
  bool is_full = writer->written < writer->called;
  if (now == writer->announced)
    return;
  writer->announced = now;
  rondo_replica_schedule(writer->job, is_full);
}

bool rondo_journal_writer_compare(struct rondo_journal_writer *writer, int lock_mode,
                                  struct rondo_difference *difference) {
  bool has_moved = writer->neighbour_count > 0;
  writer->must_retry = false;
  while (has_moved) {
    has_moved = writer_write_calls(writer);
    if (lock_mode != RONDO_JOB_LOCK_HELD)
      RONDO_POINT("journal.written");
    for (uint32_t i = 0; i < writer->neighbour_count; i++) {
      if (!neighbour_find_journal(writer, &writer->neighbours[i], lock_mode))
        writer->must_retry = true;
      if (neighbour_compare(writer, i, &has_moved, difference)) {
        writer_schedule_messages(writer);
        return true;
      }
    }
  }
  writer_schedule_messages(writer);
  return false;
}

bool rondo_journal_writer_peek(struct rondo_journal_writer *writer, struct rondo_signature *next) {
  struct rondo_journal_neighbour *neighbour = &writer->neighbours[0];
  if (!writer->neighbour_count || !neighbour_find_journal(writer, neighbour, RONDO_JOB_LOCK_WAIT) ||
      !neighbour_is_current(neighbour))
    return false;
  if (rondo_load_seq_cst_u64(&neighbour->place->journal->written) <= writer->called) // J2
    return false;
  const struct rondo_journal_entry *e =
      &neighbour->place->journal->entries[writer->called % RONDO_JOURNAL_ENTRIES];
  return rondo_journal_read(e, writer->called + 1, next) && neighbour_is_current(neighbour);
}
