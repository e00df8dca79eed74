#include "runtime/order/journal.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/explore.h"
#include "base/memory.h"
#include "runtime/job/processes.h"
#include "runtime/memory/arena.h"
#include "runtime/order/comms.h"
#include "runtime/order/journal_place.h"
#include "runtime/rank/rank.h"

#define FIRST_BACKLOG 16u

// -------------------------------------------------------------------- places ---

static int compare_names(const void *a, const void *b) {
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
      tfind(name, &rondo_comms_of(job)->journals.places, compare_names);
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
      tsearch(place, &rondo_comms_of(job)->journals.places, compare_names);
  if (!at || *at != place) {
    free(place);
    return NULL;
  }
  // J1: whoever does not see it yet has written its calls where we will look.
  rondo_fetch_add_seq_cst_u64(&rondo_comms_of(job)->journals.changes, 1);
  return place;
}

// Journals that are nobody's are linked through their first entry.
void rondo_journal_give(struct rondo_job *job, struct rondo_journal *journal) {
  rondo_store_release_u64(&journal->stamp, 0);
  rondo_store_release_u64(&journal->entries[0].mark, 0);
  rondo_store_release_u64(&journal->entries[0].words[0],
                          (uint64_t)(uintptr_t)rondo_comms_of(job)->journals.idle);
  rondo_comms_of(job)->journals.idle = journal;
}

struct rondo_journal *rondo_journal_take(struct rondo_job *job) {
  struct rondo_journal *journal = rondo_comms_of(job)->journals.idle;
  if (!journal) {
    journal = job->transports.arena ? rondo_arena_alloc(job->transports.arena, sizeof *journal)
                                    : rondo_memory_alloc(sizeof *journal);
    return journal;
  }
  rondo_comms_of(job)->journals.idle =
      (struct rondo_journal *)(uintptr_t)rondo_load_relaxed_u64(&journal->entries[0].words[0]);
  for (uint32_t i = 0; i < RONDO_JOURNAL_PLACES; i++)
    rondo_store_release_u64(&journal->entries[i].mark, 0);
  for (uint32_t i = 0; i < 2; i++)
    rondo_store_release_u64(&journal->compared[i], 0);
  rondo_store_release_u64(&journal->written, 0);
  return journal;
}

// Nobody looks at it any more, and its rank has no such series any more.
static void place_drop(struct rondo_job *job, struct rondo_journal_place *place) {
  if (--place->readers)
    return;
  if (place->process == RONDO_HERE || place->is_replica)
    rondo_journal_give(job, place->journal);
  else
    rondo_transports_unuse(&job->transports, place->process);
  free(place);
}

void rondo_journal_end(struct rondo_job *job, struct rondo_journal_place *place) {
  place->is_over = 1;
  tdelete(place, &rondo_comms_of(job)->journals.places, compare_names);
  place_drop(job, place);
}

// -------------------------------------------------------------- other processes --

struct notice {
  struct rondo_journal_name name;
  uint32_t is_over;
  uint32_t reserved;
  uint64_t stamp, at; // in the sender's arena
};
_Static_assert(sizeof(struct notice) == 48, "sent between processes");

static void tell(struct rondo_job *job, struct rondo_journal_place *place) {
  struct notice n = {.name = place->name, .stamp = place->stamp};
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
  rondo_replica_send(job, place); // where no memory is shared nobody could read it
}

static void announce_node(const void *node, VISIT order, void *arg) {
  struct rondo_journal_place *place = *(struct rondo_journal_place *const *)node;
  if ((order == postorder || order == leaf) && place->process == RONDO_HERE)
    tell(arg, place);
}

void rondo_journals_announce(struct rondo_job *job) {
  twalk_r(rondo_comms_of(job)->journals.places, announce_node, job);
}

int rondo_journals_receive(struct rondo_job *job, uint32_t process, const void *bytes,
                           size_t size) {
  struct notice n;
  const struct rondo_transport_peer *peer = &job->transports.peers[process];
  if (size != sizeof n)
    return 0;
  memcpy(&n, bytes, sizeof n);
  if (n.name.rank >= job->rank_count || rondo_processes_where(job, n.name.rank) != process)
    return 0;
  struct rondo_journal_place *place = rondo_journal_find(job, &n.name);
  if (place && place->stamp == n.stamp) {
    if (n.is_over)
      rondo_journal_end(job, place);
    return 1;
  }
  if (n.is_over || !peer->map)
    return 1;
  if (n.at % RONDO_LINE_BYTES || n.at >= peer->theirs.bytes ||
      peer->theirs.bytes - n.at < sizeof(struct rondo_journal))
    return 0;
  if (place)
    rondo_journal_end(job, place);
  struct rondo_journal_place made = {.name = n.name, .stamp = n.stamp, .process = process};
  made.journal = (struct rondo_journal *)((char *)peer->map + n.at);
  if (rondo_journal_add(job, &made))
    job->transports.peers[process].links++;
  // What both have called by now nobody has compared.
  for (uint32_t r = 0; r < job->rank_count; r++)
    if (job->members[r])
      rondo_store_relaxed_u32(&rondo_rank_of(job->members[r])->extension_pending, 1);
  return 1;
}

struct lost_search {
  uint32_t rank;
  struct rondo_journal_place *found;
};

static void look_for_lost(const void *node, VISIT order, void *arg) {
  struct lost_search *search = arg;
  struct rondo_journal_place *place = *(struct rondo_journal_place *const *)node;
  if ((order == postorder || order == leaf) && place->name.rank == search->rank &&
      place->process != RONDO_HERE)
    search->found = place;
}

void rondo_journals_lose(struct rondo_job *job, uint32_t rank) {
  struct lost_search search = {rank, NULL};
  do {
    search.found = NULL;
    twalk_r(rondo_comms_of(job)->journals.places, look_for_lost, &search);
    if (search.found)
      rondo_journal_end(job, search.found);
  } while (search.found);
}

static void free_node(void *node) {
  struct rondo_journal_place *place = node;
  free(place);
}

// Its memory goes with the arena, or here.
void rondo_journals_free(struct rondo_job *job) {
  tdestroy(rondo_comms_of(job)->journals.places, free_node);
  rondo_comms_of(job)->journals.places = NULL;
  while (rondo_comms_of(job)->journals.idle && !job->transports.arena)
    rondo_memory_free(rondo_journal_take(job));
}

// -------------------------------------------------------------------- a track ---

static int enter_own(struct rondo_track *track, struct rondo_journal_place *like) {
  struct rondo_job *job = track->job;
  pthread_mutex_lock(&job->lock);
  if (rondo_journal_find(job, &like->name)) {
    pthread_mutex_unlock(&job->lock);
    return RONDO_ERR_EXISTS;
  }
  like->journal = rondo_journal_take(job);
  like->stamp = ++rondo_comms_of(job)->journals.stamps;
  track->own = like->journal ? rondo_journal_add(job, like) : NULL;
  if (track->own) {
    rondo_store_release_u64(&like->journal->stamp, like->stamp);
    tell(job, track->own);
  } else if (like->journal) {
    rondo_journal_give(job, like->journal);
  }
  pthread_mutex_unlock(&job->lock);
  return track->own ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
}

int rondo_track_init(struct rondo_track *track, struct rondo_job *job,
                     const struct rondo_journal_name *name, const uint32_t *neighbours,
                     uint32_t neighbour_count) {
  struct rondo_journal_place like = {.name = *name, .process = RONDO_HERE};
  memset(track, 0, sizeof *track);
  track->job = job;
  track->side_count = neighbour_count;
  like.neighbour_count = neighbour_count;
  for (uint32_t i = 0; i < neighbour_count; i++) {
    like.neighbours[i] = track->sides[i].rank = neighbours[i];
    // Who is before us is behind its own.
    track->sides[i].index = neighbour_count == 2 ? 1 - i : 0;
    track->sides[i].seen = UINT64_MAX;
  }
  return neighbour_count ? enter_own(track, &like) : RONDO_SUCCESS;
}

void rondo_track_fini(struct rondo_track *track) {
  struct rondo_job *job = track->job;
  if (track->own) {
    pthread_mutex_lock(&job->lock);
    for (uint32_t i = 0; i < track->side_count; i++)
      if (track->sides[i].place)
        place_drop(job, track->sides[i].place);
    struct rondo_journal_place *own = track->own;
    own->is_over = 1;
    tell(job, own);
    rondo_journal_end(job, own);
    pthread_mutex_unlock(&job->lock);
  }
  free(track->backlog);
  track->backlog = NULL;
  track->own = NULL;
}

int rondo_track_is_owing(const struct rondo_track *track) {
  return track->is_owing || track->written < track->called;
}

int rondo_track_reserve(struct rondo_track *track) {
  uint64_t waiting = track->called - track->written;
  if (!track->side_count || waiting < track->capacity)
    return RONDO_SUCCESS;
  uint32_t capacity = track->capacity ? 2 * track->capacity : FIRST_BACKLOG;
  struct rondo_signature *grown = malloc(capacity * sizeof *grown);
  if (!grown)
    return RONDO_ERR_NO_MEMORY;
  for (uint64_t c = track->written; track->capacity && c < track->called; c++)
    grown[c % capacity] = track->backlog[c % track->capacity];
  free(track->backlog);
  track->backlog = grown;
  track->capacity = capacity;
  return RONDO_SUCCESS;
}

void rondo_track_append(struct rondo_track *track, const struct rondo_signature *s) {
  if (track->side_count)
    track->backlog[track->called++ % track->capacity] = *s;
}

// ------------------------------------------------------------------- comparing ---

void rondo_journal_write(struct rondo_journal_entry *e, uint64_t call,
                         const struct rondo_signature *s) {
  uint64_t words[3];
  memcpy(words, s, sizeof words);
  rondo_store_release_u64(&e->mark, 0);
  for (uint32_t i = 0; i < 3; i++)
    rondo_store_release_u64(&e->words[i], words[i]); // who sees one sees that the mark is gone
  rondo_store_release_u64(&e->mark, call);
}

int rondo_journal_read(const struct rondo_journal_entry *e, uint64_t call,
                       struct rondo_signature *s) {
  uint64_t words[3];
  uint64_t mark = rondo_load_acquire_u64(&e->mark);
  for (uint32_t i = 0; i < 3; i++)
    words[i] = rondo_load_acquire_u64(&e->words[i]);
  memcpy(s, words, sizeof words);
  return mark == call && rondo_load_acquire_u64(&e->mark) == call;
}

static int is_alive(const struct rondo_journal_side *side) {
  return side->place && rondo_load_acquire_u64(&side->place->journal->stamp) == side->place->stamp;
}

// Calls that have been compared with the side's, by either.
static uint64_t progress(const struct rondo_journal_side *side) {
  uint64_t theirs = is_alive(side) ? rondo_load_acquire_u64( // J3
                                         &side->place->journal->compared[side->index])
                                   : 0;
  // Whatever is read of a journal that has become another is not believed.
  theirs = is_alive(side) ? theirs : 0;
  return theirs > side->compared ? theirs : side->compared;
}

// Writes the calls for which there is a place. Returns 1 if there were any.
static int write_calls(struct rondo_track *track) {
  uint64_t room = UINT64_MAX;
  uint64_t before = track->written;
  for (uint32_t i = 0; i < track->side_count; i++) {
    uint64_t done = progress(&track->sides[i]);
    room = done < room ? done : room;
  }
  if (RONDO_FAULT(JOURNAL_SKIPS))
    room = track->called;
  while (track->written < track->called && track->written < room + RONDO_JOURNAL_PLACES) {
    struct rondo_journal_entry *e =
        &track->own->journal->entries[track->written % RONDO_JOURNAL_PLACES];
    rondo_journal_write(e, track->written + 1, &track->backlog[track->written % track->capacity]);
    track->written++;
  }
  if (track->written == before)
    return 0;
  rondo_store_seq_cst_u64(&track->own->journal->written, track->written); // J1
  return 1;
}

int rondo_journal_lock(struct rondo_job *job, int hurry) {
  if (hurry == RONDO_HURRY)
    return pthread_mutex_trylock(&job->lock) == 0;
  if (hurry == RONDO_HURRY_NOT)
    pthread_mutex_lock(&job->lock);
  return 1;
}

void rondo_journal_unlock(struct rondo_job *job, int hurry) {
  if (hurry != RONDO_HURRY_HOLDS)
    pthread_mutex_unlock(&job->lock);
}

// Returns 0 if it could not look.
static int find_side(struct rondo_track *track, struct rondo_journal_side *side, int hurry) {
  struct rondo_job *job = track->job;
  struct rondo_journal_name name = track->own->name;
  uint64_t changes = rondo_load_seq_cst_u64(&rondo_comms_of(job)->journals.changes); // J2
  if (side->place || side->seen == changes)
    return 1;
  if (!rondo_journal_lock(job, hurry))
    return 0;
  name.rank = side->rank;
  side->seen = changes;
  side->place = rondo_journal_find(job, &name);
  if (side->place)
    side->place->readers++;
  rondo_journal_unlock(job, hurry);
  return 1;
}

// Compares one call. Returns 1 if it differs.
static int differs(const struct rondo_track *track, const struct rondo_journal_side *side,
                   uint64_t at, struct rondo_difference *d) {
  struct rondo_signature ours;
  struct rondo_signature theirs;
  uint32_t index = at % RONDO_JOURNAL_PLACES;
  if (!rondo_journal_read(&side->place->journal->entries[index], at + 1, &theirs))
    return 0; // they have compared it, and gone on
  if (!rondo_journal_read(&track->own->journal->entries[index], at + 1, &ours) || !is_alive(side))
    return 0;
  if (rondo_signature_equal(&ours, &theirs) || RONDO_FAULT(JOURNAL_UNREAD))
    return 0;
  d->call = at + 1;
  d->rank = side->rank;
  d->ours = ours;
  d->theirs = theirs;
  return 1;
}

// Compares what both have called. Returns 1 if something differs; `moved` if there was anything.
static int compare_side(struct rondo_track *track, uint32_t index, int *moved,
                        struct rondo_difference *d) {
  struct rondo_journal_side *side = &track->sides[index];
  if (!is_alive(side))
    return 0;
  uint64_t theirs = rondo_load_seq_cst_u64(&side->place->journal->written); // J2
  uint64_t begin = progress(side);
  uint64_t end = theirs < track->written ? theirs : track->written;
  if (!is_alive(side))
    return 0;
  for (uint64_t at = begin; at < end; at++)
    if (differs(track, side, at, d))
      return 1;
  if (end > side->compared) {
    side->compared = end;
    rondo_store_release_u64(&track->own->journal->compared[index], end); // J3
    *moved = 1;
  }
  return 0;
}

// Lets far neighbours know, if there are any, once there is something that they have not been told.
static void note_news(struct rondo_track *track) {
  if (!track->side_count || !rondo_load_relaxed_u32(&track->own->is_proxied))
    return;
  uint64_t now = track->written; // with those below: it grows with whatever is new
  for (uint32_t i = 0; i < track->side_count; i++)
    now += track->sides[i].compared;
  int is_full = track->written < track->called;
  if (now == track->noted)
    return;
  track->noted = now;
  rondo_replica_schedule(track->job, is_full);
}

int rondo_track_compare(struct rondo_track *track, int hurry, struct rondo_difference *difference) {
  int moved = track->side_count > 0;
  track->is_owing = 0;
  while (moved) {
    moved = write_calls(track);
    if (hurry != RONDO_HURRY_HOLDS)
      RONDO_POINT("journal.written");
    for (uint32_t i = 0; i < track->side_count; i++) {
      if (!find_side(track, &track->sides[i], hurry))
        track->is_owing = 1;
      if (compare_side(track, i, &moved, difference)) {
        note_news(track);
        return 1;
      }
    }
  }
  note_news(track);
  return 0;
}

int rondo_track_peek(struct rondo_track *track, struct rondo_signature *next) {
  struct rondo_journal_side *side = &track->sides[0];
  if (!track->side_count || !find_side(track, side, 0) || !is_alive(side))
    return 0;
  if (rondo_load_seq_cst_u64(&side->place->journal->written) <= track->called) // J2
    return 0;
  const struct rondo_journal_entry *e =
      &side->place->journal->entries[track->called % RONDO_JOURNAL_PLACES];
  return rondo_journal_read(e, track->called + 1, next) && is_alive(side);
}
