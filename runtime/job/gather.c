#include "runtime/job/gather.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/digest.h"
#include "base/explore.h"
#include <rondo/status.h>

#define NOBODY UINT32_MAX

// A process that has joined.
struct joiner {
  uint64_t who, machine;
  struct rondo_rank_range *ranges; // ascending
  uint32_t range_count;
  bool is_leaving;
  struct rondo_shared_bytes *bytes;
};

struct rondo_gather {
  uint64_t join_timeout_ns, deadline_ns; // 0: nobody has joined
  bool is_restartable, is_finished;
  char cancelled[RONDO_MEMBERSHIP_TEXT_BYTES]; // why; empty: it is not
  rondo_gather_describe *describe;             // may be null
  uint32_t rank_count, joined_count;
  uint32_t *holders; // by rank: a joiner, or NOBODY
  struct joiner *joiners;
  uint32_t joiner_count, joiner_capacity;
  uint32_t *table; // joiners by `who`: open addressing
  uint32_t table_mask;
};

struct rondo_gather *rondo_gather_create(uint64_t join_timeout_ns, bool is_restartable) {
  struct rondo_gather *g = calloc(1, sizeof *g);
  if (!g)
    return NULL;
  g->join_timeout_ns = join_timeout_ns;
  g->is_restartable = is_restartable;
  return g;
}

void rondo_gather_destroy(struct rondo_gather *g) {
  if (!g)
    return;
  for (uint32_t i = 0; i < g->joiner_count; i++) {
    free(g->joiners[i].ranges);
    rondo_shared_bytes_put(g->joiners[i].bytes);
  }
  free(g->joiners);
  free(g->holders);
  free(g->table);
  free(g);
}

void rondo_gather_set_describe(struct rondo_gather *g, rondo_gather_describe *describe) {
  g->describe = describe;
}

uint32_t rondo_gather_rank_count(const struct rondo_gather *g) { return g->rank_count; }
uint32_t rondo_gather_joined_count(const struct rondo_gather *g) { return g->joined_count; }
bool rondo_gather_is_finished(const struct rondo_gather *g) { return g->is_finished; }

// -------------------------------------------------------------------- joiners ---

static uint32_t gather_place(const struct rondo_gather *g, uint64_t who) {
  uint32_t at = (uint32_t)rondo_digest_mix(who) & g->table_mask;
  while (g->table[at] != NOBODY && g->joiners[g->table[at]].who != who)
    at = (at + 1) & g->table_mask;
  return at;
}

// Finds a joiner, or adds one. Returns NOBODY without memory.
static uint32_t gather_find(struct rondo_gather *g, uint64_t who) {
  if (g->joiner_count == g->joiner_capacity) {
    uint32_t capacity = g->joiner_capacity ? 2 * g->joiner_capacity : 16;
    struct joiner *joiners = realloc(g->joiners, capacity * sizeof *joiners);
    uint32_t *table = joiners ? malloc((size_t)4 * capacity * sizeof *table) : NULL;
    if (joiners)
      g->joiners = joiners;
    if (!table)
      return NOBODY;
    free(g->table);
    g->table = table;
    g->table_mask = 4 * capacity - 1;
    g->joiner_capacity = capacity;
    memset(table, 0xff, (size_t)4 * capacity * sizeof *table);
    for (uint32_t i = 0; i < g->joiner_count; i++)
      table[gather_place(g, joiners[i].who)] = i;
  }
  uint32_t place = gather_place(g, who);
  if (g->table[place] == NOBODY) {
    g->table[place] = g->joiner_count;
    g->joiners[g->joiner_count++] = (struct joiner){.who = who};
  }
  return g->table[place];
}

// Calls `take` for each rank of the ranges; stops when it returns false.
static bool ranges_visit(struct rondo_gather *g, const struct rondo_rank_range *ranges,
                         uint32_t count, uint32_t joiner,
                         bool (*take)(struct rondo_gather *g, uint64_t rank, uint32_t joiner)) {
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; k < ranges[i].count; k++)
      if (!take(g, ranges[i].first + (uint64_t)k * ranges[i].stride, joiner))
        return false;
  return true;
}

static bool rank_check(struct rondo_gather *g, uint64_t rank, uint32_t joiner) {
  return rank < g->rank_count && (g->holders[rank] == NOBODY || g->holders[rank] == joiner);
}

static bool rank_take(struct rondo_gather *g, uint64_t rank, uint32_t joiner) {
  g->joined_count += g->holders[rank] == NOBODY;
  g->holders[rank] = joiner;
  return true;
}

static bool rank_release(struct rondo_gather *g, uint64_t rank, uint32_t joiner) {
  if (g->holders[rank] != joiner)
    return true;
  g->holders[rank] = NOBODY;
  g->joined_count--;
  return true;
}

static int range_compare(const void *a, const void *b) {
  const struct rondo_rank_range *x = a;
  const struct rondo_rank_range *y = b;
  return x->first < y->first ? -1 : x->first > y->first;
}

// Copies the ranges, sorted. Null if one is out of bounds, or without memory.
static struct rondo_rank_range *join_copy_ranges(const struct rondo_join *join) {
  struct rondo_rank_range *ranges = malloc(join->range_count * sizeof *ranges);
  struct rondo_roster_entry entry = {.range_count = join->range_count, .ranges = join->ranges};
  for (uint32_t i = 0; ranges && i < join->range_count; i++) {
    ranges[i] = rondo_roster_range(&entry, i);
    if (ranges[i].count == 0 || ranges[i].count > join->rank_count || ranges[i].stride == 0) {
      free(ranges);
      return NULL;
    }
  }
  if (ranges)
    qsort(ranges, join->range_count, sizeof *ranges, range_compare);
  return ranges;
}

uint32_t rondo_gather_missing(const struct rondo_gather *g, char *text, size_t bytes) {
  uint32_t count = 0;
  size_t at = 0;
  bool is_full = false;
  *text = '\0';
  for (uint32_t rank = 0; rank < g->rank_count && !*g->cancelled; rank++) {
    char piece[32];
    uint32_t first = rank;
    if (g->holders[rank] != NOBODY)
      continue;
    while (rank + 1 < g->rank_count && g->holders[rank + 1] == NOBODY)
      rank++;
    count += rank - first + 1;
    if (rank > first)
      (void)snprintf(piece, sizeof piece, "%s%u-%u", at ? ", " : "", first, rank);
    else
      (void)snprintf(piece, sizeof piece, "%s%u", at ? ", " : "", first);
    if (at + strlen(piece) + sizeof "…" > bytes && !is_full) {
      is_full = true;
      (void)snprintf(text + at, bytes - at, "…");
    }
    if (is_full)
      continue;
    memcpy(text + at, piece, strlen(piece) + 1);
    at += strlen(piece);
  }
  return count;
}

// ----------------------------------------------------------------------- joins ---

static struct rondo_shared_bytes *gather_reject(uint8_t status, const char *format, ...) {
  struct rondo_joined reply = {.status = status};
  va_list args;
  va_start(args, format);
  (void)vsnprintf(reply.text, sizeof reply.text, format, args);
  va_end(args);
  return rondo_membership_joined_encode(RONDO_MEMBERSHIP_REJECTED, &reply);
}

// Gives the ranks of a joiner back.
static void joiner_release(struct rondo_gather *g, uint32_t index) {
  struct joiner *j = &g->joiners[index];
  (void)ranges_visit(g, j->ranges, j->range_count, index, rank_release);
  free(j->ranges);
  rondo_shared_bytes_put(j->bytes);
  *j = (struct joiner){.who = j->who};
}

// Rejects a JOIN because of its first rank that cannot be taken.
static struct rondo_shared_bytes *gather_reject_ranks(struct rondo_gather *g,
                                                      const struct rondo_rank_range *ranges,
                                                      uint32_t count, uint32_t index) {
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t k = 0; k < ranges[i].count; k++) {
      uint64_t rank = ranges[i].first + (uint64_t)k * ranges[i].stride;
      char holder[RONDO_MEMBERSHIP_TEXT_BYTES / 2] = "another process";
      if (rank_check(g, rank, index))
        continue;
      if (index != NOBODY && !g->is_finished)
        joiner_release(g, index);
      if (rank >= g->rank_count)
        return gather_reject(RONDO_ERR_INVALID, "rank %llu is not below %u, the number of ranks",
                             (unsigned long long)rank, g->rank_count);
      const struct joiner *j = &g->joiners[g->holders[rank]];
      if (g->describe)
        g->describe(j->bytes->bytes, j->bytes->size, holder, sizeof holder);
      return gather_reject(RONDO_ERR_EXISTS, "rank %llu has already joined: %s",
                           (unsigned long long)rank, holder);
    }
  }
  return NULL;
}

static struct rondo_shared_bytes *gather_welcome(const struct rondo_gather *g, bool is_leaving) {
  struct rondo_joined reply = {.joined_count = g->joined_count, .rank_count = g->rank_count};
  if (is_leaving)
    reply.status = RONDO_JOINED_LEAVES;
  else if (g->is_finished)
    reply.status = RONDO_JOINED_NAMED;
  // In a large job the others are on their way: only late repetitions are told who is missing.
  if (g->rank_count - g->joined_count <= 1024)
    (void)rondo_gather_missing(g, reply.text, sizeof reply.text);
  return rondo_membership_joined_encode(RONDO_MEMBERSHIP_JOINED, &reply);
}

static struct rondo_shared_bytes *gather_reject_cancelled(const struct rondo_gather *g) {
  return gather_reject(RONDO_ERR_PEER, "%s", g->cancelled);
}

struct rondo_shared_bytes *rondo_gather_remind(const struct rondo_gather *g) {
  return *g->cancelled ? gather_reject_cancelled(g) : gather_welcome(g, false);
}

bool rondo_gather_cancel(struct rondo_gather *g, const char *text) {
  if (g->is_finished && !RONDO_FAULT(CANCELLED_LATE))
    return false;
  (void)snprintf(g->cancelled, sizeof g->cancelled, "%s", text);
  g->is_finished = true;
  return true;
}

static bool gather_begin(struct rondo_gather *g, uint32_t rank_count, uint64_t now_ns) {
  g->holders = malloc(rank_count * sizeof *g->holders);
  if (!g->holders)
    return false;
  memset(g->holders, 0xff, rank_count * sizeof *g->holders);
  g->rank_count = rank_count;
  g->deadline_ns = now_ns + g->join_timeout_ns;
  return true;
}

// Takes a JOIN whose ranks may be taken. Null without memory.
static struct rondo_shared_bytes *gather_accept(struct rondo_gather *g,
                                                const struct rondo_join *join,
                                                struct rondo_rank_range *ranges, uint32_t index) {
  struct joiner *j = &g->joiners[index];
  struct rondo_shared_bytes *bytes = rondo_shared_bytes_create(join->bytes, join->size);
  if (!bytes) {
    free(ranges);
    return NULL;
  }
  joiner_release(g, index);
  j->machine = join->machine;
  j->is_leaving = join->is_leaving;
  j->ranges = ranges;
  j->range_count = join->range_count;
  j->bytes = bytes;
  (void)ranges_visit(g, ranges, j->range_count, index, rank_take);
  return gather_welcome(g, j->is_leaving);
}

// Answers a JOIN after the roster was made. Takes the ranges, which may be null.
static struct rondo_shared_bytes *gather_receive_late(struct rondo_gather *g,
                                                      const struct rondo_join *join,
                                                      struct rondo_rank_range *ranges) {
  uint32_t index = g->joiner_count ? g->table[gather_place(g, join->who)] : NOBODY;
  bool is_known = index != NOBODY && g->joiners[index].range_count;
  struct rondo_shared_bytes *reply = NULL;
  if (is_known)
    reply = gather_welcome(g, g->joiners[index].is_leaving);
  else if (ranges)
    reply = gather_reject_ranks(g, ranges, join->range_count, NOBODY);
  if (!reply && ranges)
    reply = gather_reject(RONDO_ERR_TIMEOUT, "rank %u joins too late", ranges[0].first);
  free(ranges);
  return reply;
}

struct rondo_shared_bytes *rondo_gather_receive(struct rondo_gather *g, const void *bytes,
                                                size_t size, uint64_t now_ns) {
  struct rondo_join join;
  if (!rondo_membership_join_decode(bytes, size, &join))
    return NULL;
  if (*g->cancelled && !RONDO_FAULT(CANCEL_FORGOTTEN))
    return gather_reject_cancelled(g);
  if (!g->rank_count && !gather_begin(g, join.rank_count, now_ns))
    return NULL;
  if (join.rank_count != g->rank_count)
    return gather_reject(RONDO_ERR_INVALID, "it expects a job of %u ranks, the others one of %u",
                         join.rank_count, g->rank_count);
  struct rondo_rank_range *ranges = join_copy_ranges(&join);
  if (g->is_finished)
    return gather_receive_late(g, &join, ranges);
  uint32_t index = ranges ? gather_find(g, join.who) : NOBODY;
  if (index == NOBODY) {
    free(ranges);
    return NULL;
  }
  struct rondo_shared_bytes *rejection = gather_reject_ranks(g, ranges, join.range_count, index);
  if (!rejection && ranges_visit(g, ranges, join.range_count, index, rank_check))
    return gather_accept(g, &join, ranges, index);
  free(ranges);
  return rejection;
}

void rondo_gather_lose(struct rondo_gather *g, uint64_t who) {
  uint32_t index = g->joiner_count && !g->is_finished ? g->table[gather_place(g, who)] : NOBODY;
  if (index != NOBODY && !g->joiners[index].is_leaving)
    joiner_release(g, index);
}

// ---------------------------------------------------------------------- roster ---

uint32_t rondo_gather_place(const struct rondo_gather *g, uint64_t who) {
  bool is_made = g->is_finished && !*g->cancelled && g->joiner_count;
  uint32_t index = is_made ? g->table[gather_place(g, who)] : NOBODY;
  if (index == NOBODY || !g->joiners[index].range_count || g->joiners[index].is_leaving)
    return RONDO_ROSTER_NOBODY;
  return g->joiners[index].ranges[0].first;
}

uint64_t rondo_gather_due(const struct rondo_gather *g) {
  return g->rank_count && !g->is_finished ? g->deadline_ns : UINT64_MAX;
}

// Lists the processes by their lowest ranks, and notes why ranks are absent. Returns how many.
static uint32_t gather_list(struct rondo_gather *g, struct rondo_roster_source *sources,
                            uint8_t *absence) {
  uint32_t count = 0;
  for (uint32_t rank = 0; rank < g->rank_count; rank++) {
    const struct joiner *j = g->holders[rank] == NOBODY ? NULL : &g->joiners[g->holders[rank]];
    absence[rank] = !j ? RONDO_ABSENT_MISSING : j->is_leaving ? RONDO_ABSENT_LEFT : 0;
    if (absence[rank] || j->ranges[0].first != rank)
      continue;
    sources[count++] = (struct rondo_roster_source){.machine = j->machine,
                                                    .ranges = j->ranges,
                                                    .range_count = j->range_count,
                                                    .size = j->bytes->size,
                                                    .bytes = j->bytes->bytes};
  }
  return count;
}

struct rondo_shared_bytes *rondo_gather_finish(struct rondo_gather *g, uint64_t now_ns) {
  if (g->is_finished || !g->rank_count ||
      (g->joined_count < g->rank_count && now_ns < g->deadline_ns))
    return NULL;
  struct rondo_roster_source *sources = malloc((size_t)g->joiner_count * sizeof *sources);
  uint8_t *absence = malloc(g->rank_count);
  struct rondo_shared_bytes *roster = NULL;
  if (sources && absence) {
    uint32_t count = gather_list(g, sources, absence);
    if (count)
      roster = rondo_roster_encode(sources, count, g->rank_count, absence, g->is_restartable);
    g->is_finished = roster || !count;
  }
  free(sources);
  free(absence);
  return roster;
}
