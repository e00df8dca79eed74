#include "runtime/job/epoch.h"

#include "base/digest.h"
#include "base/explore.h"
#include "runtime/net/wire.h"

#define NOBODY RONDO_ROSTER_NOBODY

// -------------------------------------------------------------------- changes ---

static void change_put(struct rondo_epoch_change *change) {
  while (change && --change->refs == 0) {
    struct rondo_epoch_change *before = change->before;
    rondo_shared_bytes_put(change->removals);
    free(change);
    change = before;
  }
}

static struct rondo_epoch_change *change_create(const struct rondo_epoch *epoch,
                                                struct rondo_shared_bytes *removals) {
  struct rondo_epoch_change *change = malloc(sizeof *change);
  if (!change)
    return NULL;
  change->refs = 1;
  change->number = epoch->number + 1;
  change->digest = rondo_digest_bytes(epoch->digest, removals->bytes, removals->size);
  change->before = epoch->change;
  if (change->before)
    change->before->refs++;
  change->removals = rondo_shared_bytes_get(removals);
  return change;
}

bool rondo_removal_list_add(struct rondo_removal_list *list, uint8_t reason, uint32_t first,
                            const char *text) {
  if (list->count == list->capacity) {
    uint32_t capacity = list->capacity ? 2 * list->capacity : 8;
    struct rondo_removal *items = realloc(list->items, capacity * sizeof *items);
    if (!items)
      return false;
    list->items = items;
    list->capacity = capacity;
  }
  struct rondo_removal *r = &list->items[list->count++];
  *r = (struct rondo_removal){.reason = reason, .first = first, .count = 1};
  memcpy(r->text, text, strnlen(text, sizeof r->text - 1));
  return true;
}

void rondo_removal_list_fini(struct rondo_removal_list *list) {
  free(list->items);
  memset(list, 0, sizeof *list);
}

static int removal_compare(const void *a, const void *b) {
  const struct rondo_removal *x = a;
  const struct rondo_removal *y = b;
  bool x_is_rank = x->reason == RONDO_REMOVED_RANK;
  bool y_is_rank = y->reason == RONDO_REMOVED_RANK;
  if (x_is_rank != y_is_rank)
    return x_is_rank ? 1 : -1;
  if (x->first != y->first)
    return x->first < y->first ? -1 : 1;
  return (int)x->reason - (int)y->reason;
}

// True if `next` continues `r`, so that one range tells of both.
static bool removal_is_continued(const struct rondo_removal *r, const struct rondo_removal *next) {
  return r->reason == next->reason && next->first == r->first + r->count &&
         strcmp(r->text, next->text) == 0;
}

static bool removal_is_same(const struct rondo_removal *r, const struct rondo_removal *next) {
  return (r->reason == RONDO_REMOVED_RANK) == (next->reason == RONDO_REMOVED_RANK) &&
         next->first < r->first + r->count;
}

struct rondo_shared_bytes *rondo_removal_list_encode(struct rondo_removal_list *list) {
  uint8_t *bytes = malloc(RONDO_EPOCH_CHANGE_BYTES);
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = RONDO_EPOCH_CHANGE_BYTES};
  if (!bytes)
    return NULL;
  if (list->count)
    qsort(list->items, list->count, sizeof *list->items, removal_compare);
  for (uint32_t i = 0; i < list->count && !w.full;) {
    struct rondo_removal r = list->items[i++];
    for (; i < list->count; i++) {
      if (removal_is_continued(&r, &list->items[i]))
        r.count++;
      else if (!removal_is_same(&r, &list->items[i]))
        break;
    }
    size_t whole = w.size;
    rondo_wire_put_u8(&w, r.reason);
    rondo_wire_put_u32(&w, r.first);
    rondo_wire_put_u32(&w, r.count);
    rondo_wire_put_text(&w, r.text);
    if (w.full)
      w.size = whole; // the rest comes with the next epoch
  }
  struct rondo_shared_bytes *shared = rondo_shared_bytes_create(bytes, (uint32_t)w.size);
  free(bytes);
  return shared;
}

int rondo_removal_next(const struct rondo_shared_bytes *removals, uint32_t *at,
                       struct rondo_removal *out) {
  struct rondo_wire_reader r = {removals->bytes + *at, removals->size - *at, 0};
  if (*at == removals->size)
    return 0;
  out->reason = rondo_wire_get_u8(&r);
  out->first = rondo_wire_get_u32(&r);
  out->count = rondo_wire_get_u32(&r);
  rondo_wire_get_text(&r, out->text, sizeof out->text);
  bool is_reason = (out->reason >= RONDO_REMOVED_LEFT && out->reason <= RONDO_REMOVED_SILENT) ||
                   out->reason == RONDO_REMOVED_BROKE || out->reason == RONDO_REMOVED_RANK;
  if (r.bad || !is_reason || out->count == 0 || out->first >= RONDO_MAX_RANKS ||
      out->count > RONDO_MAX_RANKS - out->first)
    return -1;
  *at = removals->size - (uint32_t)r.size;
  return 1;
}

// ----------------------------------------------------------------------- tree ---

static uint32_t epoch_machine(const struct rondo_epoch *e, uint32_t place) {
  return e->roster->machine_of[e->order[place]];
}

static void epoch_put_at(struct rondo_epoch *e, uint32_t place, uint32_t process) {
  e->order[place] = process;
  e->place[process] = place;
}

// The place of the member that becomes the keeper at `place`: of a machine without a keeper, if
// there is one; otherwise the last.
static uint32_t epoch_choose_keeper(const struct rondo_epoch *e, uint32_t place, bool is_first) {
  uint32_t last = e->live_count - 1;
  uint32_t used = 0;
  for (uint32_t k = 0; k < place; k++) {
    bool is_new = true;
    for (uint32_t other = 0; other < k; other++)
      is_new = is_new && epoch_machine(e, other) != epoch_machine(e, k);
    used += is_new;
  }
  if (used == e->roster->machine_count)
    return is_first ? place : last;
  for (uint32_t i = 0; i < last - place + is_first; i++) { // not the place of who was removed
    uint32_t candidate = is_first ? place + i : last - i;
    bool is_other = true;
    for (uint32_t k = 0; k < place; k++)
      is_other = is_other && epoch_machine(e, candidate) != epoch_machine(e, k);
    if (is_other)
      return candidate;
  }
  return is_first ? place : last;
}

// Gives the places in the order of the roster, but for the keepers.
static void epoch_place_all(struct rondo_epoch *e) {
  for (uint32_t i = 0; i < e->live_count; i++)
    epoch_put_at(e, i, i);
  for (uint32_t k = 1; k < RONDO_EPOCH_KEEPERS && k < e->live_count; k++) {
    uint32_t from = epoch_choose_keeper(e, k, true);
    uint32_t keeper = e->order[from];
    for (uint32_t i = from; i > k; i--)
      epoch_put_at(e, i, e->order[i - 1]);
    epoch_put_at(e, k, keeper);
  }
}

static void epoch_remove(struct rondo_epoch *e, uint32_t process) {
  uint32_t hole = e->place[process];
  uint32_t last = e->live_count - 1;
  e->place[process] = NOBODY;
  if (hole < RONDO_EPOCH_KEEPERS) {
    for (; hole + 1 < RONDO_EPOCH_KEEPERS && hole < last; hole++)
      epoch_put_at(e, hole, e->order[hole + 1]);
    if (hole < last) {
      uint32_t from = epoch_choose_keeper(e, hole, false);
      epoch_put_at(e, hole, e->order[from]);
      hole = from;
    }
  }
  if (hole < last)
    epoch_put_at(e, hole, e->order[last]);
  e->live_count--;
}

uint32_t rondo_epoch_parent(const struct rondo_epoch *e, uint32_t process) {
  uint32_t place = e->place[process];
  return place == 0 || place == NOBODY ? NOBODY : e->order[(place - 1) / RONDO_EPOCH_CHILDREN];
}

uint32_t rondo_epoch_children(const struct rondo_epoch *e, uint32_t process,
                              uint32_t children[RONDO_EPOCH_CHILDREN]) {
  uint32_t count = 0;
  if (e->place[process] == NOBODY)
    return 0;
  uint64_t first = (uint64_t)e->place[process] * RONDO_EPOCH_CHILDREN + 1;
  for (uint64_t at = first; at < e->live_count && count < RONDO_EPOCH_CHILDREN; at++)
    children[count++] = e->order[at];
  return count;
}

uint32_t rondo_epoch_keeper_count(const struct rondo_epoch *e) {
  return e->live_count < RONDO_EPOCH_KEEPERS ? e->live_count : RONDO_EPOCH_KEEPERS;
}

bool rondo_epoch_is_keeper(const struct rondo_epoch *e, uint32_t process) {
  return e->place[process] < RONDO_EPOCH_KEEPERS;
}

// ------------------------------------------------------------------ observers ---

// Adds an observer that is not there yet. Returns the new count.
static uint32_t observers_add(uint32_t *observers, uint32_t count, uint32_t subject,
                              uint32_t process) {
  if (process == subject || process == NOBODY)
    return count;
  for (uint32_t i = 0; i < count; i++)
    if (observers[i] == process)
      return count;
  observers[count] = process;
  return count + 1;
}

// The next member after `place` on the subject's machine (`is_same`) or on another that is no
// observer yet; NOBODY if none of the next few is.
static uint32_t epoch_find_observer(const struct rondo_epoch *e, uint32_t subject, uint32_t place,
                                    bool is_same, const uint32_t *observers, uint32_t count) {
  uint32_t machine = e->roster->machine_of[subject];
  if (!is_same && e->roster->machine_count == 1)
    return NOBODY;
  for (uint32_t i = 1; i < e->live_count && i <= 64; i++) {
    uint32_t process = e->order[(place + i) % e->live_count];
    uint32_t other = NOBODY;
    if ((e->roster->machine_of[process] == machine) == is_same)
      other = process;
    if (other != NOBODY && observers_add((uint32_t[4]){observers[0], observers[1], observers[2]},
                                         count, subject, other) > count)
      return other;
  }
  return NOBODY;
}

uint32_t rondo_epoch_observers(const struct rondo_epoch *e, uint32_t process,
                               uint32_t observers[RONDO_EPOCH_OBSERVERS]) {
  uint32_t place = e->place[process];
  uint32_t count = 0;
  // Spread, but the same everywhere.
  uint32_t far = (uint32_t)(rondo_digest_mix(process) % e->live_count);
  memset(observers, 0xff, RONDO_EPOCH_OBSERVERS * sizeof *observers);
  count = observers_add(observers, count, process, rondo_epoch_parent(e, process));
  count = observers_add(observers, count, process,
                        epoch_find_observer(e, process, place, true, observers, count));
  count = observers_add(observers, count, process,
                        epoch_find_observer(e, process, far, false, observers, count));
  for (uint32_t i = 0; i < e->live_count && count < RONDO_EPOCH_OBSERVERS; i++)
    count = observers_add(observers, count, process, e->order[(far + i) % e->live_count]);
  return count;
}

static void epoch_count_observed(struct rondo_epoch *e, const uint32_t *observers) {
  uint32_t *ends = e->observed_ends;
  uint32_t n = e->roster->process_count;
  for (uint32_t i = 0; i < RONDO_EPOCH_OBSERVERS * n; i++)
    if (observers[i] != NOBODY)
      ends[observers[i] + 1]++;
  for (uint32_t p = 0; p < n; p++)
    ends[p + 1] += ends[p];
  // Filling moves each start to its end, which is the next one's start.
  for (uint32_t i = 0; i < RONDO_EPOCH_OBSERVERS * n; i++)
    if (observers[i] != NOBODY)
      e->observed[ends[observers[i]]++] = i / RONDO_EPOCH_OBSERVERS;
}

// False without memory.
static bool epoch_find_observed(struct rondo_epoch *e) {
  size_t n = e->roster->process_count;
  uint32_t *observers = malloc(RONDO_EPOCH_OBSERVERS * n * sizeof *observers);
  e->observed = malloc(RONDO_EPOCH_OBSERVERS * n * sizeof *e->observed);
  e->observed_ends = calloc(n + 1, sizeof *e->observed_ends);
  if (!observers || !e->observed || !e->observed_ends) {
    free(observers);
    free(e->observed);
    free(e->observed_ends);
    e->observed = e->observed_ends = NULL;
    return false;
  }
  memset(observers, 0xff, RONDO_EPOCH_OBSERVERS * n * sizeof *observers);
  for (uint32_t p = 0; p < n; p++)
    if (e->place[p] != NOBODY)
      (void)rondo_epoch_observers(e, p, &observers[(size_t)RONDO_EPOCH_OBSERVERS * p]);
  epoch_count_observed(e, observers);
  free(observers);
  return true;
}

uint32_t rondo_epoch_observe(struct rondo_epoch *e, uint32_t process, const uint32_t **first) {
  *first = NULL;
  if (!e->observed && !epoch_find_observed(e))
    return 0;
  uint32_t begin = process ? e->observed_ends[process - 1] : 0;
  *first = &e->observed[begin];
  return e->observed_ends[process] - begin;
}

// ----------------------------------------------------------------------- life ---

static struct rondo_epoch *epoch_create(struct rondo_roster *roster) {
  struct rondo_epoch *e = calloc(1, sizeof *e);
  if (!e)
    return NULL;
  e->refs = 1;
  e->roster = rondo_roster_get(roster);
  e->order = malloc(roster->process_count * sizeof *e->order);
  e->place = malloc(roster->process_count * sizeof *e->place);
  if (e->order && e->place)
    return e;
  rondo_epoch_put(e);
  return NULL;
}

struct rondo_epoch *rondo_epoch_begin(struct rondo_roster *roster) {
  struct rondo_epoch *e = epoch_create(roster);
  if (!e)
    return NULL;
  e->digest = roster->digest;
  e->live_count = roster->process_count;
  epoch_place_all(e);
  return e;
}

// False if the change is malformed or removes who is not there.
static bool epoch_apply(struct rondo_epoch *e, const struct rondo_shared_bytes *removals) {
  bool is_second = ((uintptr_t)e >> 8) % 2; // of a planted fault
  struct rondo_removal r;
  uint32_t at = 0;
  int more;
  while ((more = rondo_removal_next(removals, &at, &r)) == 1) {
    bool is_rank = r.reason == RONDO_REMOVED_RANK;
    uint32_t bound = is_rank ? e->roster->rank_count : e->roster->process_count;
    if (r.first >= bound || r.count > bound - r.first)
      return false;
    for (uint32_t i = 0; i < r.count && !is_rank; i++) {
      uint32_t p = r.first + (RONDO_FAULT(REMOVALS_UNORDERED) && is_second ? r.count - 1 - i : i);
      if (e->place[p] == NOBODY)
        return false;
      epoch_remove(e, p);
    }
  }
  return more == 0;
}

struct rondo_epoch *rondo_epoch_next(const struct rondo_epoch *epoch,
                                     struct rondo_shared_bytes *removals) {
  if (removals->size > RONDO_EPOCH_CHANGE_BYTES || epoch->number >= RONDO_EPOCH_MAX_NUMBER)
    return NULL;
  struct rondo_epoch *e = epoch_create(epoch->roster);
  if (!e)
    return NULL;
  size_t bytes = epoch->roster->process_count * sizeof *e->order;
  e->number = epoch->number + 1;
  e->live_count = epoch->live_count;
  memcpy(e->order, epoch->order, bytes);
  memcpy(e->place, epoch->place, bytes);
  if (epoch_apply(e, removals))
    e->change = change_create(epoch, removals);
  if (!e->change) {
    rondo_epoch_put(e);
    return NULL;
  }
  e->digest = e->change->digest;
  return e;
}

struct rondo_epoch *rondo_epoch_get(struct rondo_epoch *epoch) {
  epoch->refs++;
  return epoch;
}

void rondo_epoch_put(struct rondo_epoch *e) {
  if (!e || --e->refs)
    return;
  change_put(e->change);
  rondo_roster_put(e->roster);
  free(e->order);
  free(e->place);
  free(e->observed_ends);
  free(e->observed);
  free(e);
}

// ----------------------------------------------------------------------- pool ---

static struct rondo_epoch *pool_find(struct rondo_epoch_pool *pool, uint64_t roster,
                                     uint32_t number, uint64_t digest) {
  for (uint32_t i = pool->count; i-- > 0;) {
    struct rondo_epoch *e = pool->epochs[i];
    if (e->number == number && e->digest == digest && e->roster->digest == roster)
      return rondo_epoch_get(e);
  }
  return NULL;
}

// Keeps an epoch for others, and forgets those that nobody has.
static void pool_add(struct rondo_epoch_pool *pool, struct rondo_epoch *epoch) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < pool->count; i++) {
    if (pool->epochs[i]->refs == 1)
      rondo_epoch_put(pool->epochs[i]);
    else
      pool->epochs[kept++] = pool->epochs[i];
  }
  pool->count = kept;
  if (pool->count == pool->capacity) {
    uint32_t capacity = pool->capacity ? 2 * pool->capacity : 8;
    struct rondo_epoch **epochs = realloc(pool->epochs, capacity * sizeof(struct rondo_epoch *));
    if (!epochs)
      return;
    pool->epochs = epochs;
    pool->capacity = capacity;
  }
  pool->epochs[pool->count++] = rondo_epoch_get(epoch);
}

struct rondo_epoch *rondo_epoch_pool_begin(struct rondo_epoch_pool *pool,
                                           struct rondo_roster *roster) {
  struct rondo_epoch *e = pool ? pool_find(pool, roster->digest, 0, roster->digest) : NULL;
  if (e)
    return e;
  e = rondo_epoch_begin(roster);
  if (e && pool)
    pool_add(pool, e);
  return e;
}

struct rondo_epoch *rondo_epoch_pool_next(struct rondo_epoch_pool *pool,
                                          const struct rondo_epoch *epoch,
                                          struct rondo_shared_bytes *removals) {
  uint64_t digest = rondo_digest_bytes(epoch->digest, removals->bytes, removals->size);
  struct rondo_epoch *e =
      pool ? pool_find(pool, epoch->roster->digest, epoch->number + 1, digest) : NULL;
  if (e)
    return e;
  e = rondo_epoch_next(epoch, removals);
  if (e && pool)
    pool_add(pool, e);
  return e;
}

void rondo_epoch_pool_fini(struct rondo_epoch_pool *pool) {
  for (uint32_t i = 0; i < pool->count; i++)
    rondo_epoch_put(pool->epochs[i]);
  rondo_roster_put(pool->roster);
  free(pool->epochs);
  memset(pool, 0, sizeof *pool);
}
