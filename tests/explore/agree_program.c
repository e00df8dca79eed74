#include "tests/explore/agree_program.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/job/registration.h"
#include <rondo/rondo.h>

static void *reserve(size_t count, size_t bytes) {
  void *memory = calloc(count + 1, bytes);
  if (!memory)
    abort();
  return memory;
}

// Ranks live in order, or anywhere; each process has one.
static void place_ranks(struct agree_program *p, struct random *random) {
  bool scatters = random_chance(random, 50);
  uint32_t more = p->rank_count - p->process_count;
  for (uint32_t r = 0; r < p->process_count; r++)
    p->process_of[r] = r;
  for (uint32_t r = p->process_count; r < p->rank_count; r++)
    p->process_of[r] = random_below(random, p->process_count);
  for (uint32_t r = 0; scatters && more && r + 1 < p->rank_count; r++) {
    uint32_t other = r + random_below(random, p->rank_count - r);
    uint32_t process = p->process_of[r];
    p->process_of[r] = p->process_of[other];
    p->process_of[other] = process;
  }
}

static uint32_t count_processes(const struct agree_program *p, const struct agree_coll *c) {
  uint8_t *seen = reserve(p->process_count, 1);
  uint32_t count = 0;
  for (uint32_t i = 0; i < c->nranks; i++)
    count += !seen[p->process_of[c->members[i]]]++;
  free(seen);
  return count;
}

// All ranks, a range of them, some of them in their order, or in any order.
static void choose_members(const struct agree_program *p, struct random *random,
                           struct agree_coll *c) {
  uint32_t how = random_below(random, 4);
  uint32_t first = how == 1 ? random_below(random, p->rank_count) : 0;
  c->members = reserve(p->rank_count, sizeof *c->members);
  for (uint32_t r = first; r < p->rank_count; r++)
    if (how < 2 || random_chance(random, 60))
      c->members[c->nranks++] = r;
  if (!c->nranks)
    c->members[c->nranks++] = random_below(random, p->rank_count);
  for (uint32_t i = 0; how == 3 && i + 1 < c->nranks; i++) {
    uint32_t other = i + random_below(random, c->nranks - i);
    uint32_t rank = c->members[i];
    c->members[i] = c->members[other];
    c->members[other] = rank;
  }
}

static void choose_coll(struct agree_program *p, struct random *random, uint32_t index,
                        bool is_calm) {
  struct agree_coll *c = &p->colls[index];
  c->id = index;
  c->generations = 1 + random_chance(random, 30);
  if (c->generations == 1 && random_chance(random, 50))
    c->space = RONDO_SPACE_COMM;
  choose_members(p, random, c);
  c->special = c->members[random_below(random, c->nranks)];
  if (!is_calm && random_chance(random, 60))
    c->kind = (int)random_below(random, AGREE_CROSSED);
  if (c->nranks == 1 && c->kind != AGREE_ABORTED)
    c->kind = AGREE_CLEAN;
  for (uint32_t k = 0; k < index; k++)
    if (p->colls[k].kind == AGREE_NEVER && c->kind == AGREE_NEVER)
      c->kind = AGREE_CLEAN; // else two ranks might wait for each other to leave
  c->process_count = count_processes(p, c);
  c->descriptor = (struct rondo_descriptor){.count = 100 + index,
                                            .kind = RONDO_ALL_REDUCE,
                                            .dtype = RONDO_FLOAT32,
                                            .redop = RONDO_SUM,
                                            .nranks = c->nranks,
                                            .first_rank = c->members[0],
                                            .last_rank = c->members[c->nranks - 1],
                                            .blocks = 1,
                                            .chunk_elems = 16,
                                            .slot_count = 4};
  for (uint32_t i = 0; i < c->nranks; i++)
    p->takes[index][c->members[i]] = c->kind != AGREE_NEVER || c->members[i] != c->special;
  c->registrants = c->nranks;
}

// Gives the last two collectives one id. Members of both groups register one of them.
static void cross_colls(struct agree_program *p, struct random *random) {
  uint32_t second = p->coll_count - 1;
  struct agree_coll *a = &p->colls[second - 1];
  struct agree_coll *b = &p->colls[second];
  if (a->kind != AGREE_CLEAN || b->kind != AGREE_CLEAN ||
      (a->nranks == b->nranks && !memcmp(a->members, b->members, a->nranks * sizeof *a->members)))
    return;
  uint32_t both = 0;
  a->generations = b->generations = 1;
  b->id = a->id;
  a->space = b->space = RONDO_SPACE_USER;
  for (uint32_t r = 0; r < p->rank_count; r++) {
    if (!p->takes[second - 1][r] || !p->takes[second][r])
      continue;
    both++;
    p->takes[random_chance(random, 50) ? second : second - 1][r] = 0;
  }
  a->registrants = b->registrants = 0;
  for (uint32_t r = 0; r < p->rank_count; r++) {
    a->registrants += p->takes[second - 1][r];
    b->registrants += p->takes[second][r];
  }
  if (!both)
    return; // disjoint groups may share an id
  a->kind = b->kind = AGREE_CROSSED;
  a->partner = second;
  b->partner = second - 1;
}

static void choose_ends(struct agree_program *p, struct random *random, bool is_calm) {
  for (uint32_t i = 0; i < p->process_count; i++)
    p->stays[i] = is_calm || (p->process_count > 64 ? i >= 4 : random_chance(random, 30));
  if (is_calm || !random_chance(random, 40))
    return;
  for (p->deaths = 0; p->deaths < 1 + random_below(random, 2) && p->deaths + 2 < p->process_count;)
    if (!p->dies[random_below(random, p->process_count)]++)
      p->deaths++;
  for (uint32_t k = 0; k < p->coll_count; k++)
    for (uint32_t i = 0; i < p->colls[k].nranks; i++)
      if (p->dies[p->process_of[p->colls[k].members[i]]])
        p->colls[k].has_victim = true;
}

void agree_program_make(struct agree_program *p, struct random *random, uint32_t process_count,
                        bool is_calm) {
  *p = (struct agree_program){.process_count = process_count, .rank_count = process_count};
  if (random_chance(random, 50))
    p->rank_count += random_below(random, process_count);
  p->coll_count = process_count > 64 ? 2 : 1 + random_below(random, AGREE_COLLS);
  p->process_of = reserve(p->rank_count, sizeof *p->process_of);
  p->stays = reserve(p->process_count, 1);
  p->dies = reserve(p->process_count, 1);
  place_ranks(p, random);
  for (uint32_t k = 0; k < p->coll_count; k++) {
    p->takes[k] = reserve(p->rank_count, 1);
    choose_coll(p, random, k, is_calm);
  }
  if (!is_calm && p->coll_count > 1 && random_chance(random, 40))
    cross_colls(p, random);
  choose_ends(p, random, is_calm);
}

void agree_program_free(struct agree_program *p) {
  for (uint32_t k = 0; k < p->coll_count; k++) {
    free(p->colls[k].members);
    free(p->takes[k]);
  }
  free(p->process_of);
  free(p->stays);
  free(p->dies);
}

struct rondo_descriptor agree_program_descriptor(const struct agree_program *p, uint32_t coll,
                                                 uint32_t rank) {
  const struct agree_coll *c = &p->colls[coll];
  struct rondo_descriptor d = c->descriptor;
  if (c->kind == AGREE_MISMATCH && rank == c->special)
    d.count++;
  return d;
}
