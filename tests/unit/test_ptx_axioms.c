// The memory of the PTX machine against the axioms of the memory consistency model, on random
// programs. The outcomes that the axioms allow are enumerated: every read takes each write, the
// writes of each location and the fence.sc come in each order, and an execution counts if it
// satisfies section 8.10 of the PTX ISA manual. The memory must find nothing else, and most of it.
#include "tests/support/ptx/ptx_memory_litmus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/explore/random.h"
#include "tests/support/load.h"
#include "tests/support/named.h"

#define EVENTS 7u // at most
#define INITIAL EVENTS
#define LOCATIONS 2u

struct event {
  uint32_t thread, location;
  enum ptx_order order;
  enum ptx_scope scope;
  bool is_fence, is_read, is_write, is_reduction;
  uint32_t operand; // that is stored, or added
  bool adds;
};

// Row i has bit j if i comes before j.
typedef uint32_t relation[EVENTS];

struct program {
  struct litmus_place places[LITMUS_THREADS];
  struct event events[EVENTS]; // thread after thread, in program order
  uint32_t event_count, thread_count;
  relation strong; // pairs that are morally strong
  char text[512], observed[16];
};

// One choice of what the axioms leave open.
struct candidate {
  uint32_t source[EVENTS]; // of each read: the event, or INITIAL
  uint32_t rank[EVENTS];   // of each write in the order of its location, of each fence.sc in theirs
};

struct outcomes {
  uint64_t keys[4096]; // 0 is empty
  uint32_t count;
};

static bool outcomes_add(struct outcomes *o, uint64_t outcome) {
  uint32_t at = (uint32_t)random_mix(outcome) & 4095;
  while (o->keys[at] && o->keys[at] != outcome + 1)
    at = (at + 1) & 4095;
  if (o->keys[at])
    return false;
  o->keys[at] = outcome + 1;
  assert_true(++o->count < 4000);
  return true;
}

static bool outcomes_have(const struct outcomes *o, uint64_t outcome) {
  uint32_t at = (uint32_t)random_mix(outcome) & 4095;
  while (o->keys[at] && o->keys[at] != outcome + 1)
    at = (at + 1) & 4095;
  return o->keys[at] != 0;
}

// Random programs.

static bool scope_covers(const struct program *p, enum ptx_scope scope, uint32_t one,
                         uint32_t two) {
  const struct litmus_place *a = &p->places[one], *b = &p->places[two];
  return scope == PTX_SYS || (a->device == b->device && (scope == PTX_GPU || a->block == b->block));
}

// 8.7
static bool events_match(const struct program *p, uint32_t one, uint32_t two) {
  const struct event *a = &p->events[one], *b = &p->events[two];
  if (!a->is_fence && !b->is_fence && a->location != b->location)
    return false;
  if (a->thread == b->thread)
    return true;
  return a->order != PTX_WEAK && b->order != PTX_WEAK &&
         scope_covers(p, a->scope, a->thread, b->thread) &&
         scope_covers(p, b->scope, b->thread, a->thread);
}

static struct event fence_make(struct random *random) {
  return (struct event){.is_fence = true, .order = random_below(random, 2) ? PTX_SC : PTX_ACQ_REL};
}

static struct event access_make(struct random *random) {
  static const enum ptx_order updates[] = {PTX_RELAXED, PTX_ACQUIRE, PTX_RELEASE, PTX_ACQ_REL};
  static const enum ptx_order stores[] = {PTX_WEAK, PTX_RELAXED, PTX_RELEASE};
  struct event e = {.location = random_below(random, LOCATIONS)};
  uint32_t kind = random_below(random, 17);
  e.is_write = kind < 7 || kind >= 14;
  e.is_read = kind >= 7;
  e.is_reduction = kind == 16;
  e.order = updates[random_below(random, 4)];
  if (!e.is_read)
    e.order = stores[random_below(random, 3)];
  else if (!e.is_write)
    e.order = (enum ptx_order)random_below(random, PTX_ACQUIRE + 1);
  else if (e.is_reduction)
    e.order = random_below(random, 2) ? PTX_RELAXED : PTX_RELEASE;
  e.adds = e.is_reduction || (e.is_read && e.is_write && random_below(random, 2));
  return e;
}

// A third of the programs have two threads that access both locations,one after the other, with a
// fence between: the shapes that are named in test_ptx_memory.c, and others.
static struct event event_make(struct random *random, bool is_shaped, uint32_t thread,
                               uint32_t place) {
  bool is_fence = is_shaped ? place == 1 : random_below(random, 20) < 3;
  struct event e = is_fence ? fence_make(random) : access_make(random);
  if (is_shaped)
    e.location = (thread + place / 2) % LOCATIONS;
  e.thread = thread;
  e.scope = PTX_SYS;
  if (random_below(random, is_shaped ? 20 : 3) == 0)
    e.scope = (enum ptx_scope)random_below(random, 3);
  return e;
}

static void event_text(const struct event *e, char name, char *text, size_t bytes) {
  static const char *const orders[] = {"weak", "relaxed", "acquire", "release", "acq_rel", "sc"};
  static const char *const scopes[] = {"cta", "gpu", "sys"};
  char to[4] = "", operand[16] = "";
  if (e->is_read && !e->is_reduction)
    snprintf(to, sizeof to, "%c=", name);
  if (e->is_write)
    snprintf(operand, sizeof operand, " %u", e->operand);
  const char *what = e->is_fence                 ? "fence"
                     : e->is_reduction           ? "red"
                     : e->is_read && e->adds     ? "add"
                     : e->is_read && e->is_write ? "exch"
                     : e->is_read                ? "ld"
                                                 : "st";
  snprintf(text, bytes, "%s%s.%s.%s%s%s%s", to, what, orders[e->order], scopes[e->scope],
           e->is_fence ? "" : " ",
           e->is_fence   ? ""
           : e->location ? "y"
                         : "x",
           operand);
}

static void program_write_text(struct program *p) {
  size_t length = 0, observed = 0;
  char name = 'a';
  for (uint32_t i = 0; i < p->event_count; i++) {
    const struct event *e = &p->events[i];
    const struct litmus_place *place = &p->places[e->thread];
    char op[64];
    bool is_first = i == 0 || e->thread != e[-1].thread;
    if (is_first)
      length += (size_t)snprintf(p->text + length, sizeof p->text - length,
                                 "%s%u.%u.%u.%u:", i ? " | " : "", place->device, place->block,
                                 place->warp, place->lane);
    event_text(e, name, op, sizeof op);
    length += (size_t)snprintf(p->text + length, sizeof p->text - length, "%s %s",
                               is_first ? "" : ";", op);
    if (e->is_read && !e->is_reduction)
      p->observed[observed++] = name++;
  }
  memcpy(p->observed + observed, "xy", 3);
}

static void program_make(struct program *p, uint64_t seed) {
  struct random random = {random_mix(seed)};
  uint32_t operand[LOCATIONS] = {1, 1};
  memset(p, 0, sizeof *p);
  bool is_shaped = random_below(&random, 3) == 0;
  p->thread_count = is_shaped ? 2 : 2 + random_below(&random, 2);
  for (uint32_t t = 0; t < p->thread_count; t++) {
    p->places[t] = (struct litmus_place){.lane = t};
    if (random_below(&random, 3)) {
      p->places[t].device = random_below(&random, 2);
      p->places[t].block = t;
    }
    uint32_t count = is_shaped ? 3 : 1 + random_below(&random, 2) + (p->thread_count == 2);
    for (uint32_t i = 0; i < count && p->event_count < EVENTS; i++) {
      struct event *e = &p->events[p->event_count++];
      *e = event_make(&random, is_shaped, t, i);
      e->operand = e->adds ? 1 : operand[e->location]++;
    }
  }
  for (uint32_t i = 0; i < p->event_count; i++)
    for (uint32_t j = 0; j < p->event_count; j++)
      p->strong[i] |= (uint32_t)events_match(p, i, j) << j;
  program_write_text(p);
}

// The relations of section 8.9.

static void relation_close(relation r, uint32_t through) {
  for (uint32_t k = 0; k < EVENTS; k++)
    for (uint32_t i = 0; through >> k & 1 && i < EVENTS; i++)
      if (r[i] >> k & 1)
        r[i] |= r[k];
}

static bool relation_is_acyclic(const relation r) {
  relation closed;
  memcpy(closed, r, sizeof closed);
  relation_close(closed, UINT32_MAX);
  for (uint32_t i = 0; i < EVENTS; i++)
    if (closed[i] >> i & 1)
      return false;
  return true;
}

struct execution {
  const struct program *p;
  const struct candidate *c;
  relation program_order, observation, base, causality, coherence;
};

static bool event_releases(const struct event *e) {
  return e->is_fence || (e->is_write && (e->order == PTX_RELEASE || e->order == PTX_ACQ_REL));
}

static bool event_acquires(const struct event *e) {
  return e->is_fence ||
         (e->is_read && !e->is_reduction && (e->order == PTX_ACQUIRE || e->order == PTX_ACQ_REL));
}

// Whether `first`, and the strong write `write` at or after it, are a release pattern (8.9.4).
static bool is_release_pattern(const struct execution *x, uint32_t first, uint32_t write) {
  const struct event *f = &x->p->events[first], *w = &x->p->events[write];
  if (!event_releases(f) || !w->is_write || w->order == PTX_WEAK)
    return false;
  if (first == write)
    return true;
  return (x->program_order[first] >> write & 1) && (f->is_fence || f->location == w->location);
}

static bool is_acquire_pattern(const struct execution *x, uint32_t read, uint32_t last) {
  const struct event *r = &x->p->events[read], *l = &x->p->events[last];
  if (!event_acquires(l) || !r->is_read || r->is_reduction || r->order == PTX_WEAK)
    return false;
  if (read == last)
    return true;
  return (x->program_order[read] >> last & 1) && (l->is_fence || l->location == r->location);
}

static bool patterns_synchronise(const struct execution *x, uint32_t first, uint32_t last) {
  if (!(x->p->strong[first] >> last & 1))
    return false;
  for (uint32_t w = 0; w < x->p->event_count; w++)
    for (uint32_t r = 0; r < x->p->event_count; r++)
      if ((x->observation[w] >> r & 1) && is_release_pattern(x, first, w) &&
          is_acquire_pattern(x, r, last))
        return true;
  return false;
}

static bool is_fence_sc(const struct program *p, uint32_t i) {
  return p->events[i].is_fence && p->events[i].order == PTX_SC;
}

static void execution_order(struct execution *x) {
  const struct program *p = x->p;
  uint32_t n = p->event_count, updates = 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct event *e = &p->events[i];
    updates |= (uint32_t)(e->is_read && e->is_write) << i;
    for (uint32_t j = i + 1; j < n && p->events[j].thread == e->thread; j++)
      x->program_order[i] |= 1u << j;
    if (e->is_read && x->c->source[i] != INITIAL && (p->strong[i] >> x->c->source[i] & 1))
      x->observation[x->c->source[i]] |= 1u << i;
  }
  relation_close(x->observation, updates);
  memcpy(x->base, x->program_order, sizeof x->base);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < n; j++) {
      bool is_ordered = is_fence_sc(p, i) && is_fence_sc(p, j) && x->c->rank[i] < x->c->rank[j] &&
                        (p->strong[i] >> j & 1);
      if (i != j && (is_ordered || patterns_synchronise(x, i, j)))
        x->base[i] |= 1u << j;
    }
  relation_close(x->base, UINT32_MAX);
  for (uint32_t i = 0; i < n; i++) {
    x->causality[i] = x->base[i];
    for (uint32_t z = 0; z < n; z++)
      if (x->observation[i] >> z & 1)
        x->causality[i] |= x->base[z];
  }
}

// Writes of one location in the candidate's order, as far as they are related at all (8.9.6).
static void execution_relate_writes(struct execution *x) {
  const struct program *p = x->p;
  for (uint32_t i = 0; i < p->event_count; i++)
    for (uint32_t j = 0; j < p->event_count; j++) {
      const struct event *a = &p->events[i], *b = &p->events[j];
      if (a->is_write && b->is_write && a->location == b->location &&
          x->c->rank[i] < x->c->rank[j] &&
          ((p->strong[i] | x->causality[i]) >> j & 1 || x->causality[j] >> i & 1))
        x->coherence[i] |= 1u << j;
    }
  relation_close(x->coherence, UINT32_MAX);
}

// Whether the write `one` (or the initial value) precedes the write `two` in coherence order.
static bool is_before(const struct execution *x, uint32_t one, uint32_t two) {
  if (one == INITIAL)
    return true;
  return x->coherence[one] >> two & 1;
}

// 8.10.1 to 8.10.3, of one pair of events.
static bool pair_is_coherent(const struct execution *x, uint32_t i, uint32_t j) {
  const struct program *p = x->p;
  const struct event *a = &p->events[i], *b = &p->events[j];
  bool is_strong = p->strong[i] >> j & 1, is_caused = x->causality[i] >> j & 1;
  if (a->is_write && b->is_write && a->location == b->location && is_caused &&
      x->c->rank[i] > x->c->rank[j])
    return false;
  if (is_fence_sc(p, i) && is_fence_sc(p, j) && is_strong && is_caused &&
      x->c->rank[i] > x->c->rank[j])
    return false;
  bool is_between = a->is_read && a->is_write && b->is_write && is_strong && i != j &&
                    is_before(x, x->c->source[i], j) && is_before(x, j, i);
  return !is_between;
}

// 8.10.6, of the read `r` and the write `w`.
static bool pair_is_causal(const struct execution *x, uint32_t r, uint32_t w) {
  const struct event *a = &x->p->events[r], *b = &x->p->events[w];
  if (!a->is_read || !b->is_write || a->location != b->location || r == w)
    return true;
  if (x->c->source[r] == w && (x->causality[r] >> w & 1))
    return false;
  return !((x->causality[w] >> r & 1) && is_before(x, x->c->source[r], w));
}

// 8.10.5: program order and communication between accesses of one location.
static bool locations_are_acyclic(const struct execution *x) {
  const struct program *p = x->p;
  relation order = {0};
  for (uint32_t i = 0; i < p->event_count; i++)
    for (uint32_t j = 0; j < p->event_count; j++) {
      const struct event *a = &p->events[i], *b = &p->events[j];
      if (a->is_fence || b->is_fence || i == j || !(p->strong[i] >> j & 1))
        continue;
      bool is_read_from = b->is_read && x->c->source[j] == i;
      bool is_read_before =
          a->is_read && b->is_write && x->c->source[i] != j && is_before(x, x->c->source[i], j);
      bool is_ordered = (x->program_order[i] | x->coherence[i]) >> j & 1;
      order[i] |= (uint32_t)(is_read_from || is_read_before || is_ordered) << j;
    }
  return relation_is_acyclic(order);
}

// 8.10.4: no update reads a value that follows from its own.
static bool values_are_acyclic(const struct execution *x) {
  relation order = {0};
  for (uint32_t i = 0; i < x->p->event_count; i++)
    if (x->p->events[i].is_read && x->p->events[i].is_write && x->c->source[i] != INITIAL)
      order[x->c->source[i]] |= 1u << i;
  return relation_is_acyclic(order);
}

static bool execution_is_allowed(const struct program *p, const struct candidate *c) {
  struct execution x = {.p = p, .c = c};
  execution_order(&x);
  execution_relate_writes(&x);
  for (uint32_t i = 0; i < p->event_count; i++)
    for (uint32_t j = 0; j < p->event_count; j++)
      if (!pair_is_coherent(&x, i, j) || !pair_is_causal(&x, i, j))
        return false;
  return locations_are_acyclic(&x) && values_are_acyclic(&x);
}

// The value that an event leaves: `depth` bounds a circle of updates, which is not allowed anyway.
static uint32_t value_of(const struct program *p, const struct candidate *c, uint32_t i,
                         uint32_t depth) {
  if (i == INITIAL || depth > EVENTS)
    return 0;
  const struct event *e = &p->events[i];
  return e->adds ? value_of(p, c, c->source[i], depth + 1) + e->operand : e->operand;
}

static uint64_t outcome_of(const struct program *p, const struct candidate *c) {
  uint64_t outcome = 0;
  for (uint32_t i = 0; i < p->event_count; i++)
    if (p->events[i].is_read && !p->events[i].is_reduction)
      outcome = outcome * 16 + value_of(p, c, c->source[i], 0);
  for (uint32_t l = 0; l < LOCATIONS; l++) {
    uint32_t last = INITIAL;
    for (uint32_t i = 0; i < p->event_count; i++)
      if (p->events[i].is_write && p->events[i].location == l &&
          (last == INITIAL || c->rank[i] > c->rank[last]))
        last = i;
    outcome = outcome * 16 + value_of(p, c, last, 0);
  }
  return outcome;
}

// Enumerates: first the sources of the reads, then the ranks. `i` is the next event to decide.
static void enumerate_ranks(const struct program *p, struct candidate *c, uint32_t i,
                            struct outcomes *allowed) {
  while (i < p->event_count && !p->events[i].is_write && !is_fence_sc(p, i))
    i++;
  if (i == p->event_count) {
    if (execution_is_allowed(p, c))
      outcomes_add(allowed, outcome_of(p, c));
    return;
  }
  // The event goes before or after each earlier one of its kind.
  uint32_t earlier[EVENTS], count = 0;
  for (uint32_t j = 0; j < i; j++)
    if (p->events[i].is_fence
            ? is_fence_sc(p, j)
            : p->events[j].is_write && p->events[j].location == p->events[i].location)
      earlier[count++] = j;
  for (uint32_t rank = 0; rank <= count; rank++) {
    struct candidate next = *c;
    for (uint32_t j = 0; j < count; j++)
      next.rank[earlier[j]] += next.rank[earlier[j]] >= rank;
    next.rank[i] = rank;
    enumerate_ranks(p, &next, i + 1, allowed);
  }
}

static void enumerate_sources(const struct program *p, struct candidate *c, uint32_t i,
                              struct outcomes *allowed) {
  while (i < p->event_count && !p->events[i].is_read)
    i++;
  if (i == p->event_count) {
    enumerate_ranks(p, c, 0, allowed);
    return;
  }
  c->source[i] = INITIAL;
  enumerate_sources(p, c, i + 1, allowed);
  for (uint32_t w = 0; w < p->event_count; w++)
    if (p->events[w].is_write && w != i && p->events[w].location == p->events[i].location) {
      c->source[i] = w;
      enumerate_sources(p, c, i + 1, allowed);
    }
}

struct tally {
  uint64_t allowed, found;
  char forbidden[768]; // the first program with a forbidden outcome
};

static uint64_t result_outcome(const struct program *p, const struct litmus_result *result) {
  uint64_t outcome = 0;
  for (const char *o = p->observed; *o; o++)
    outcome = outcome * 16 + (*o >= 'u' ? result->words[*o - 'u'] : result->registers[*o - 'a']);
  return outcome;
}

static void program_check(const struct program *p, enum ptx_memory_fault fault, uint32_t seeds,
                          struct tally *tally) {
  static struct outcomes allowed, found;
  struct candidate candidate = {0};
  struct litmus_program parsed;
  char why[640];
  memset(&allowed, 0, sizeof allowed);
  memset(&found, 0, sizeof found);
  enumerate_sources(p, &candidate, 0, &allowed);
  if (!litmus_parse(p->text, &parsed, why, sizeof why))
    fail_msg("%s", why);
  for (uint32_t seed = 0; seed < seeds; seed++) {
    struct litmus_run run = {.options = PTX_MEMORY_OPTIONS_INIT, .scope = PTX_SYS};
    struct litmus_result result;
    run.options.seed = seed;
    run.options.fault = fault;
    litmus_execute(&parsed, &run, &result);
    uint64_t outcome = result_outcome(p, &result);
    if (!outcomes_have(&allowed, outcome)) {
      if (!tally->forbidden[0])
        snprintf(tally->forbidden, sizeof tally->forbidden, "%s gives %s=%llx with seed %u",
                 p->text, p->observed, (unsigned long long)outcome, seed);
      return;
    }
    outcomes_add(&found, outcome);
  }
  tally->allowed += allowed.count;
  tally->found += found.count;
}

static void programs_check(enum ptx_memory_fault fault, uint64_t count, uint32_t seeds,
                           struct tally *tally) {
  struct program p;
  memset(tally, 0, sizeof *tally);
  for (uint64_t seed = 0; seed < count && !tally->forbidden[0]; seed++) {
    program_make(&p, seed);
    program_check(&p, fault, seeds, tally);
  }
}

static uint64_t program_count;

// Outcomes that are never found are those of programs that race, and of loads that would wait
// beyond a release or an acquire.
static void random_programs_satisfy_the_axioms(void **state) {
  (void)state;
  struct tally tally;
  programs_check(PTX_FAULT_NONE, program_count, 150, &tally);
  if (tally.forbidden[0])
    fail_msg("%s", tally.forbidden);
  if (tally.found * 10 < tally.allowed * 8)
    fail_msg("found %llu of %llu outcomes", (unsigned long long)tally.found,
             (unsigned long long)tally.allowed);
}

static void the_axioms_find_mistakes_of_the_model(void **state) {
  (void)state;
  static const enum ptx_memory_fault faults[] = {
      PTX_FAULT_NO_ACQUIRE,   PTX_FAULT_NO_FENCE,   PTX_FAULT_NO_SC,
      PTX_FAULT_NO_COHERENCE, PTX_FAULT_NOT_ATOMIC,
  };
  struct tally tally;
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    programs_check(faults[i], 4000, 150, &tally);
    if (!tally.forbidden[0])
      fail_msg("mistake %d gives no forbidden outcome", (int)faults[i]);
  }
}

// The argument: how many programs.
int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("ptx_axioms", random_programs_satisfy_the_axioms),
      RONDO_NAMED_TEST("ptx_axioms", the_axioms_find_mistakes_of_the_model),
  };
  program_count = argc > 1 ? strtoull(argv[1], NULL, 10) : rondo_test_load(2000, 200);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
