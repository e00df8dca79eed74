#include "sim/analyse/job.h"

#include <stdlib.h>
#include <string.h>

#include "sim/analyse/arrays.h"

// More members than any group has. The limit keeps a bad number from allocating memory. A fuzzer
// makes such numbers all the time and would spend a tenth of a second on each input.
#ifdef RONDO_FUZZ
#define LARGEST_GROUP ((int64_t)1 << 10)
#else
#define LARGEST_GROUP ((int64_t)1 << 18)
#endif

// A track on its way into the job.
struct incoming {
  struct rondo_analyse_record *record;
  struct rondo_analyse_track *track;
  int64_t rank;
};

struct arrivals {
  struct incoming *items;
  size_t count;
  const char *world; // key of the communicator that stands for the job; null: none
  int64_t world_size;
};

static const enum rondo_analyse_family families[RONDO_ANALYSE_SOURCE_COUNT] = {
    RONDO_ANALYSE_FAMILY_TORCH, RONDO_ANALYSE_FAMILY_TORCH, RONDO_ANALYSE_FAMILY_TORCH,
    RONDO_ANALYSE_FAMILY_NCCL,  RONDO_ANALYSE_FAMILY_RAS,   RONDO_ANALYSE_FAMILY_RONDO};

// True for formats that number members by their place in the communicator and do not know the
// ranks of the job.
static bool is_by_place(enum rondo_analyse_family family) {
  return family == RONDO_ANALYSE_FAMILY_NCCL || family == RONDO_ANALYSE_FAMILY_RAS;
}

const char *rondo_analyse_job_text(const struct rondo_analyse_job *job, uint32_t id) {
  return rondo_analyse_strings_get(&job->strings, id);
}

// Communicators do not know a job's ranks, only their own. The largest communicator stands for the
// job: the place of a process in it is its rank.
static void ranks_from_communicators(struct arrivals *in) {
  for (size_t i = 0; i < in->count; i++) {
    for (size_t k = 0; k < in->items[i].track->group_count; k++) {
      const struct rondo_analyse_group_decl *g = &in->items[i].track->groups[k];
      if (g->size > in->world_size && g->size <= LARGEST_GROUP) {
        in->world_size = g->size;
        in->world = rondo_analyse_strings_get(&in->items[i].record->strings, g->key);
      }
    }
  }
  for (size_t i = 0; in->world && i < in->count; i++) {
    for (size_t k = 0; k < in->items[i].track->group_count; k++) {
      const struct rondo_analyse_group_decl *g = &in->items[i].track->groups[k];
      const char *key = rondo_analyse_strings_get(&in->items[i].record->strings, g->key);
      if (in->items[i].rank < 0 && strcmp(key, in->world) == 0) {
        in->items[i].rank = g->own_index;
      }
    }
  }
}

static int incoming_compare(const void *a, const void *b) {
  const struct incoming *x = a, *y = b;
  if (x->rank != y->rank) {
    return (uint64_t)x->rank < (uint64_t)y->rank ? -1 : 1; // unknown ones (-1) last
  }
  if (x->record->source != y->record->source) {
    return x->record->source < y->record->source ? -1 : 1; // the richer format first
  }
  return x->record != y->record ? (x->record < y->record ? -1 : 1)
                                : (x->track > y->track) - (x->track < y->track);
}

static struct arrivals arrivals_of(enum rondo_analyse_family family,
                                   struct rondo_analyse_record *records, size_t record_count) {
  struct arrivals in = {0};
  for (size_t i = 0; i < record_count; i++) {
    bool of_family = !records[i].unusable && families[records[i].source] == family;
    for (size_t k = 0; of_family && k < records[i].track_count; k++) {
      in.items = rondo_sim_realloc(in.items, (in.count + 1) * sizeof *in.items);
      struct rondo_analyse_track *t = &records[i].tracks[k];
      in.items[in.count++] = (struct incoming){&records[i], t, t->rank};
    }
  }
  if (is_by_place(family)) {
    ranks_from_communicators(&in);
  }
  if (in.count) {
    qsort(in.items, in.count, sizeof *in.items, incoming_compare);
  }
  return in;
}

static uint32_t rank_add(struct rondo_analyse_job *job, int64_t number) {
  RONDO_SIM_GROW(job->ranks, job->rank_count, job->rank_capacity, 16);
  job->ranks[job->rank_count] =
      (struct rondo_analyse_rank){.number = number, .pid = -1, .device = -1, .path = ""};
  return (uint32_t)job->rank_count++;
}

struct numbers {
  int64_t *items;
  size_t count, capacity;
};

static void numbers_add(struct numbers *all, const int64_t *numbers, size_t count) {
  for (size_t i = 0; i < count; i++) {
    RONDO_SIM_GROW(all->items, all->count, all->capacity, 64);
    all->items[all->count++] = numbers[i];
  }
}

// Adds every rank that has a file, or that a file names as a member, in order of its number.
static void ranks_gather(struct rondo_analyse_job *job, const struct arrivals *in,
                         const struct rondo_analyse_group_hints *hints) {
  struct numbers all = {0};
  for (size_t i = 0; i < in->count; i++) {
    const struct rondo_analyse_track *t = in->items[i].track;
    numbers_add(&all, &in->items[i].rank, in->items[i].rank >= 0);
    for (size_t k = 0; k < t->group_count; k++) {
      numbers_add(&all, t->groups[k].members, t->groups[k].member_count);
    }
  }
  for (size_t i = 0; i < hints->count; i++) {
    int64_t *ranks;
    size_t count = rondo_analyse_ranks_parse(hints->items[i].ranks, &ranks);
    numbers_add(&all, ranks, count);
    free(ranks);
  }
  for (int64_t number = 0; in->world && number < in->world_size; number++) {
    numbers_add(&all, &number, 1);
  }
  if (all.count) {
    qsort(all.items, all.count, sizeof *all.items, rondo_analyse_compare_u64);
  }
  for (size_t i = 0; i < all.count; i++) {
    if (i == 0 || all.items[i] != all.items[i - 1]) {
      rank_add(job, all.items[i]);
    }
  }
  free(all.items);
}

static uint32_t rank_find(const struct rondo_analyse_job *job, int64_t number) {
  const struct rondo_analyse_rank *found =
      job->rank_count ? bsearch(&number, job->ranks, job->rank_count, sizeof *job->ranks,
                                rondo_analyse_compare_u64)
                      : NULL;
  return found ? (uint32_t)(found - job->ranks) : RONDO_ANALYSE_NO_RANK;
}

static uint32_t group_add(struct rondo_analyse_job *job, uint32_t key) {
  RONDO_SIM_GROW(job->groups, job->group_count, job->group_capacity, 16);
  if (key >= job->group_by_key_count) {
    size_t count = 2 * (size_t)key + 64;
    job->group_by_key = rondo_sim_realloc(job->group_by_key, count * sizeof(uint32_t));
    memset(job->group_by_key + job->group_by_key_count, 0xff,
           (count - job->group_by_key_count) * sizeof(uint32_t));
    job->group_by_key_count = count;
  }
  job->groups[job->group_count] =
      (struct rondo_analyse_group){.key = key, .next = job->group_by_key[key]};
  job->group_by_key[key] = (uint32_t)job->group_count;
  return (uint32_t)job->group_count++;
}

static bool members_same(const struct rondo_analyse_job *job, const struct rondo_analyse_group *g,
                         const struct rondo_analyse_group_decl *decl) {
  bool same = g->member_count == decl->member_count;
  for (size_t i = 0; same && i < g->member_count; i++) {
    same = job->ranks[g->members[i]].number == decl->members[i];
  }
  return same;
}

static bool members_overlap(const struct rondo_analyse_job *job,
                            const struct rondo_analyse_group *g,
                            const struct rondo_analyse_group_decl *decl) {
  bool overlap = false;
  for (size_t i = 0; !overlap && i < g->member_count; i++) {
    for (size_t k = 0; !overlap && k < decl->member_count; k++) {
      overlap = job->ranks[g->members[i]].number == decl->members[k];
    }
  }
  return overlap;
}

// The group that a rank means: it has the same key, and the same members where both name them.
static uint32_t group_of(struct rondo_analyse_job *job, const struct rondo_analyse_group_decl *decl,
                         uint32_t key, uint32_t rank) {
  uint32_t at = key < job->group_by_key_count ? job->group_by_key[key] : UINT32_MAX;
  bool disputed = false;
  for (; at != UINT32_MAX; at = job->groups[at].next) {
    struct rondo_analyse_group *g = &job->groups[at];
    if (!decl->member_count || !g->members_known || members_same(job, g, decl)) {
      return at;
    }
    disputed |= members_overlap(job, g, decl);
  }
  at = group_add(job, key);
  if (disputed) {
    rondo_analyse_problem_add(&job->problems,
                              "%s: names other members for group \"%s\" than another rank does",
                              job->ranks[rank].path, rondo_analyse_job_text(job, key));
  }
  return at;
}

static void members_take(struct rondo_analyse_job *job, struct rondo_analyse_group *g,
                         const struct rondo_analyse_group_decl *decl) {
  if (g->members_known || !decl->member_count) {
    return;
  }
  free(g->members);
  g->members = rondo_sim_alloc(decl->member_count * sizeof *g->members);
  for (size_t i = 0; i < decl->member_count; i++) {
    g->members[i] = rank_find(job, decl->members[i]);
  }
  g->member_count = decl->member_count;
  g->members_known = true;
}

// For formats that number members by their place in the communicator.
static void place_take(struct rondo_analyse_group *g, int64_t size, int64_t index, uint32_t rank) {
  if (!g->members) {
    g->member_count = (size_t)size;
    g->members = rondo_analyse_nones(g->member_count);
    g->members_known = true;
  }
  if (index >= 0 && (size_t)index < g->member_count) {
    g->members[index] = rank;
  }
}

static void group_learn(struct rondo_analyse_job *job, uint32_t at, uint32_t rank,
                        const struct rondo_analyse_group_decl *decl, const uint32_t *remap) {
  struct rondo_analyse_group *g = &job->groups[at];
  g->name = g->name ? g->name : remap[decl->name];
  g->desc = g->desc ? g->desc : remap[decl->desc];
  g->size = decl->size > g->size && decl->size <= LARGEST_GROUP ? decl->size : g->size;
  if (is_by_place(job->family) && g->size > 0) {
    place_take(g, g->size, decl->own_index, rank);
  } else {
    members_take(job, g, decl);
  }
}

static void places_take(struct rondo_analyse_job *job, uint32_t rank, const struct incoming *in,
                        const uint32_t *remap) {
  struct rondo_analyse_rank *r = &job->ranks[rank];
  r->place_count = in->track->group_count;
  r->places = rondo_sim_alloc(r->place_count * sizeof *r->places);
  for (size_t i = 0; i < in->track->group_count; i++) {
    const struct rondo_analyse_group_decl *decl = &in->track->groups[i];
    uint32_t group = group_of(job, decl, remap[decl->key], rank);
    group_learn(job, group, rank, decl, remap);
    r->places[i] = (struct rondo_analyse_place){.group = group,
                                                .counts = remap[decl->counts],
                                                .own_index = decl->own_index,
                                                .last = decl->last,
                                                .first_seq = INT64_MAX,
                                                .last_seq = INT64_MIN,
                                                .last_call = -1};
  }
}

// Renumbers the strings and the group of a call for the job, and notes what the call says about the
// rank's place.
static void call_take(struct rondo_analyse_rank *r, size_t index, const uint32_t *remap) {
  struct rondo_analyse_call *call = &r->calls[index];
  struct rondo_analyse_place *place = &r->places[call->group];
  call->name = remap[call->name];
  call->shape = remap[call->shape];
  call->site = remap[call->site];
  call->queue = remap[call->queue];
  if (call->kind < RONDO_ANALYSE_SEND || call->kind == RONDO_ANALYSE_COALESCED) {
    place->lives += call->seq < place->last_seq && call->kind < RONDO_ANALYSE_SEND;
    place->first_seq = call->seq < place->first_seq ? call->seq : place->first_seq;
    place->last_seq = call->seq;
  }
  place->last_call = (int64_t)index;
  call->group = place->group;
}

static void rank_take(struct rondo_analyse_job *job, uint32_t rank, struct incoming *in) {
  struct rondo_analyse_strings *from = &in->record->strings;
  struct rondo_analyse_track *t = in->track;
  struct rondo_analyse_rank *r = &job->ranks[rank];
  uint32_t *remap = rondo_sim_alloc(from->count * sizeof *remap);
  for (uint32_t i = 0; i < from->count; i++) {
    const char *text = rondo_analyse_strings_get(from, i);
    remap[i] = rondo_analyse_strings_add(&job->strings, text, strlen(text));
  }
  r->present = !(t->dead && t->call_count == 0);
  r->dead = t->dead;
  r->path = in->record->path;
  r->source = in->record->source;
  r->host = remap[t->host];
  r->pid = t->pid;
  r->device = t->device;
  r->states_known = t->states_known;
  r->starts_known = t->starts_known;
  r->cut_off = t->cut_off;
  r->front_missing = t->front_missing;
  r->synchronises = t->synchronises;
  r->synchronises_ns = t->synchronises_ns;
  places_take(job, rank, in, remap);
  r->calls = t->calls;
  r->call_count = t->call_count;
  t->calls = NULL;
  t->call_count = t->call_capacity = 0;
  for (size_t i = 0; i < r->call_count; i++) {
    call_take(r, i, remap);
  }
  job->call_count += r->call_count;
  free(remap);
}

// A rank's sequence numbers begin anew after a group was destroyed and made again under its old
// name. Moves all calls except those of the last such life to groups of their own.
static void lives_split(struct rondo_analyse_job *job, struct rondo_analyse_rank *r,
                        struct rondo_analyse_place *place) {
  uint32_t group = place->group;
  uint32_t life = place->lives;
  int64_t last = INT64_MIN;
  uint32_t target = UINT32_MAX;
  place->first_seq = INT64_MAX;
  for (size_t i = 0; i < r->call_count; i++) {
    struct rondo_analyse_call *call = &r->calls[i];
    if (call->group != group) {
      continue;
    }
    bool restarts = call->kind < RONDO_ANALYSE_SEND && call->seq < last;
    life -= restarts && life > 0;
    last = call->kind < RONDO_ANALYSE_SEND ? call->seq : last;
    if (life == 0) {
      place->first_seq = call->seq < place->first_seq ? call->seq : place->first_seq;
      continue;
    }
    if (target == UINT32_MAX || restarts) {
      uint32_t id =
          rondo_analyse_strings_print(&job->strings, "%.150s (%u before the last of that name)",
                                      rondo_analyse_job_text(job, job->groups[group].key), life);
      target = id < job->group_by_key_count ? job->group_by_key[id] : UINT32_MAX;
      target = target == UINT32_MAX ? group_add(job, id) : target;
      job->groups[target].name = id;
    }
    call->group = target;
  }
}

// Lives are counted back from the last one, because that one hangs.
static void lives_settle(struct rondo_analyse_job *job) {
  for (size_t i = 0; i < job->rank_count; i++) {
    struct rondo_analyse_rank *r = &job->ranks[i];
    for (size_t k = 0; k < r->place_count; k++) {
      if (r->places[k].lives) {
        lives_split(job, r, &r->places[k]);
      }
    }
  }
}

static void member_see(struct rondo_analyse_group *g, uint32_t rank) {
  for (size_t i = g->member_count; i-- > 0;) {
    if (g->members[i] == rank) {
      return;
    }
  }
  g->members = rondo_sim_realloc(g->members, (g->member_count + 1) * sizeof *g->members);
  g->members[g->member_count++] = rank;
}

// If nothing names the members of a group, its members are the ranks that call in it.
static void members_observe(struct rondo_analyse_job *job) {
  for (size_t i = 0; i < job->rank_count; i++) {
    for (size_t k = 0; k < job->ranks[i].place_count; k++) {
      struct rondo_analyse_group *g = &job->groups[job->ranks[i].places[k].group];
      if (!g->members_known) {
        member_see(g, (uint32_t)i);
      }
    }
  }
  for (size_t i = 0; i < job->group_count; i++) {
    struct rondo_analyse_group *g = &job->groups[i];
    g->size = g->size > (int64_t)g->member_count ? g->size : (int64_t)g->member_count;
  }
}

static void hints_apply(struct rondo_analyse_job *job,
                        const struct rondo_analyse_group_hints *hints) {
  for (size_t i = 0; i < hints->count; i++) {
    for (size_t k = 0; k < job->group_count; k++) {
      struct rondo_analyse_group *g = &job->groups[k];
      struct rondo_analyse_group_decl decl = {0};
      if (strcmp(rondo_analyse_job_text(job, g->name), hints->items[i].name) != 0) {
        continue;
      }
      hints->items[i].used = true;
      decl.member_count = rondo_analyse_ranks_parse(hints->items[i].ranks, &decl.members);
      g->members_known = false;
      members_take(job, g, &decl);
      g->size = (int64_t)g->member_count;
      free(decl.members);
    }
  }
}

static void arrivals_take(struct rondo_analyse_job *job, struct arrivals *in) {
  for (size_t i = 0; i < in->count; i++) {
    struct incoming *one = &in->items[i];
    bool numbered = one->rank >= 0;
    if (!numbered && !is_by_place(job->family)) {
      rondo_analyse_problem_add(
          &job->problems,
          "%s: nothing tells which rank this is: name the file ..._rank_N or give "
          "--rank-pattern",
          one->record->path);
      continue;
    }
    uint32_t rank = numbered ? rank_find(job, one->rank) : rank_add(job, -1);
    if (job->ranks[rank].places) {
      rondo_analyse_problem_add(&job->problems,
                                "%s: rank %lld was already read from %s; this file is left out",
                                one->record->path, (long long)one->rank, job->ranks[rank].path);
    } else {
      rank_take(job, rank, one);
    }
  }
}

// Members of the job's communicator for which there is no file are ranks without a file.
static void world_fill(struct rondo_analyse_job *job, const struct arrivals *in) {
  for (size_t i = 0; in->world && i < job->group_count; i++) {
    struct rondo_analyse_group *g = &job->groups[i];
    bool is_world = strcmp(rondo_analyse_job_text(job, g->key), in->world) == 0;
    for (size_t k = 0; is_world && k < g->member_count; k++) {
      g->members[k] =
          g->members[k] == RONDO_ANALYSE_NO_RANK ? rank_find(job, (int64_t)k) : g->members[k];
    }
  }
}

bool rondo_analyse_job_init(struct rondo_analyse_job *job, enum rondo_analyse_family family,
                            struct rondo_analyse_record *records, size_t record_count,
                            const struct rondo_analyse_group_hints *hints) {
  *job = (struct rondo_analyse_job){.family = family};
  struct arrivals in = arrivals_of(family, records, record_count);
  if (!in.count) {
    return false;
  }
  rondo_analyse_strings_init(&job->strings);
  ranks_gather(job, &in, hints);
  arrivals_take(job, &in);
  world_fill(job, &in);
  free(in.items);
  hints_apply(job, hints);
  lives_settle(job);
  members_observe(job);
  for (size_t i = 0; i < job->rank_count; i++) {
    if (job->ranks[i].place_count) {
      qsort(job->ranks[i].places, job->ranks[i].place_count, sizeof *job->ranks[i].places,
            rondo_analyse_compare_u32);
    }
  }
  return true;
}

void rondo_analyse_job_fini(struct rondo_analyse_job *job) {
  for (size_t i = 0; i < job->rank_count; i++) {
    free(job->ranks[i].calls);
    free(job->ranks[i].places);
  }
  for (size_t i = 0; i < job->group_count; i++) {
    free(job->groups[i].members);
  }
  rondo_analyse_problems_fini(&job->problems);
  free(job->ranks);
  free(job->groups);
  free(job->group_by_key);
  free(job->ops);
  rondo_analyse_strings_fini(&job->strings);
}

struct rondo_analyse_place *rondo_analyse_job_place(const struct rondo_analyse_job *job,
                                                    uint32_t rank, uint32_t group) {
  const struct rondo_analyse_rank *r = rank == RONDO_ANALYSE_NO_RANK ? NULL : &job->ranks[rank];
  return r && r->place_count ? bsearch(&group, r->places, r->place_count, sizeof *r->places,
                                       rondo_analyse_compare_u32)
                             : NULL;
}
