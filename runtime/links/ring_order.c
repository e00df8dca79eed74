#include "runtime/links/ring_order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/status.h>

#define STARTS 4u // of a heuristic search for one rate

struct search {
  const uint64_t *rates;
  uint32_t count;
  uint64_t least;   // links that are slower are not used
  uint16_t *ends;   // exact: by set of members, which of them a path over the set can end with
  uint32_t *path;   // heuristic
  uint32_t *places; // heuristic: by member, its place in the path, or `count`
  uint64_t random;  // heuristic
  uint32_t *found;  // the order
  bool (*find)(struct search *s); // looks for a ring of such links; writes it to `found`
};

static uint64_t rate_of(const struct search *s, uint32_t from, uint32_t to) {
  return s->rates[(size_t)from * s->count + to];
}

uint64_t rondo_ring_rate(const uint64_t *rates, uint32_t count, const uint32_t *order) {
  uint64_t least = UINT64_MAX;
  if (count < 2)
    return 0;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t rate = rates[(size_t)order[i] * count + order[(i + 1) % count]];
    least = rate < least ? rate : least;
  }
  return least;
}

// ----------------------------------------------------------------------- exact ---

// Sets have members 1 and up, one bit each: paths begin with member 0.
static uint16_t bit_of(uint32_t member) { return (uint16_t)(1u << (member - 1)); }

// The members from which there is a link to `to`.
static uint16_t sources_of(const struct search *s, uint32_t to) {
  uint16_t sources = 0;
  for (uint32_t from = 1; from < s->count; from++)
    if (from != to && rate_of(s, from, to) >= s->least)
      sources |= bit_of(from);
  return sources;
}

// Held and Karp's dynamic programming, with sets of possible ends in place of costs.
static bool exact_find(struct search *s) {
  uint16_t sources[RONDO_RING_EXACT];
  const uint32_t full = (1u << (s->count - 1)) - 1;
  for (uint32_t to = 0; to < s->count; to++)
    sources[to] = sources_of(s, to);
  memset(s->ends, 0, ((size_t)full + 1) * sizeof *s->ends);
  for (uint32_t set = 1; set <= full; set++)
    for (uint32_t end = 1; end < s->count; end++) {
      uint32_t before = set & ~(uint32_t)bit_of(end);
      bool is_first = before == 0 && rate_of(s, 0, end) >= s->least;
      if (before != set && (is_first || (s->ends[before] & sources[end])))
        s->ends[set] |= bit_of(end);
    }
  uint32_t set = full;
  uint32_t next = 0; // the ring is found backwards
  for (uint32_t place = s->count - 1; place > 0; place--) {
    uint32_t ends = s->ends[set] & sources[next];
    if (!ends)
      return false;
    next = (uint32_t)__builtin_ctz(ends) + 1;
    s->found[place] = next;
    set &= ~(uint32_t)bit_of(next);
  }
  s->found[0] = 0;
  return true;
}

// ------------------------------------------------------------------- heuristic ---

static uint32_t random_below(struct search *s, uint32_t limit) {
  s->random = s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)((s->random >> 33) % limit);
}

// A path is turned round in places, so links must be good in both directions.
static bool is_linked(const struct search *s, uint32_t a, uint32_t b) {
  return a != b && rate_of(s, a, b) >= s->least && rate_of(s, b, a) >= s->least;
}

// Reverses the path from a place to its end. Its last member becomes another one.
static void path_turn(struct search *s, uint32_t from, uint32_t length) {
  for (uint32_t to = length - 1; from < to; from++, to--) {
    uint32_t member = s->path[from];
    s->path[from] = s->path[to];
    s->path[to] = member;
    s->places[s->path[from]] = from;
    s->places[s->path[to]] = to;
  }
}

// Appends a member that the path lacks and that its end is linked to. Begins to look at a random
// one.
static bool path_extend(struct search *s, uint32_t length) {
  uint32_t first = random_below(s, s->count);
  for (uint32_t i = 0; i < s->count; i++) {
    uint32_t member = (first + i) % s->count;
    if (s->places[member] < s->count || !is_linked(s, s->path[length - 1], member))
      continue;
    s->path[length] = member;
    s->places[member] = length;
    return true;
  }
  return false;
}

// Turns the path behind a random member that its end is linked to. False if there is none.
static bool path_rotate(struct search *s, uint32_t length) {
  uint32_t first = random_below(s, length);
  for (uint32_t i = 0; i < length; i++) {
    uint32_t place = (first + i) % length;
    if (place + 2 >= length || !is_linked(s, s->path[length - 1], s->path[place]))
      continue;
    path_turn(s, place + 1, length);
    return true;
  }
  return false;
}

// Pósa's rotations and extensions.
static bool path_close(struct search *s) {
  uint32_t length = 1;
  for (uint32_t i = 0; i < s->count; i++)
    s->places[i] = s->count;
  s->path[0] = random_below(s, s->count);
  s->places[s->path[0]] = 0;
  for (uint32_t tries = 32 * s->count; tries > 0; tries--) {
    if (length == s->count && is_linked(s, s->path[length - 1], s->path[0]))
      return true;
    if (length < s->count && path_extend(s, length))
      length++;
    else if (!path_rotate(s, length))
      return false;
  }
  return false;
}

static bool heuristic_find(struct search *s) {
  assert(s->count > RONDO_RING_EXACT);
  for (uint32_t start = 0; start < STARTS; start++) {
    if (!path_close(s))
      continue;
    for (uint32_t i = 0; i < s->count; i++)
      s->found[i] = s->path[(s->places[0] + i) % s->count];
    return true;
  }
  return false;
}

// A link in both directions.
struct pair {
  uint64_t rate;
  uint32_t a, b;
};

static int compare_pairs(const void *a, const void *b) {
  const struct pair *x = a;
  const struct pair *y = b;
  if (x->rate != y->rate)
    return x->rate < y->rate ? 1 : -1;
  if (x->a != y->a)
    return x->a > y->a ? 1 : -1;
  return (x->b > y->b) - (x->b < y->b);
}

static uint32_t root_of(uint32_t *parents, uint32_t member) {
  while (parents[member] != member)
    member = parents[member] = parents[parents[member]];
  return member;
}

// Takes the fastest links first, each that still can be part of a ring. `sides` has the two
// neighbours of each member.
static void pairs_join(const struct search *s, const struct pair *pairs, size_t pair_count,
                       uint32_t *parents, uint32_t (*sides)[2]) {
  for (uint32_t i = 0; i < s->count; i++) {
    parents[i] = i;
    sides[i][0] = sides[i][1] = s->count;
  }
  for (size_t i = 0; i < pair_count; i++) {
    uint32_t a = pairs[i].a;
    uint32_t b = pairs[i].b;
    uint32_t root_a = root_of(parents, a);
    uint32_t root_b = root_of(parents, b);
    if (root_a == root_b || sides[a][1] < s->count || sides[b][1] < s->count)
      continue;
    parents[root_a] = root_b;
    sides[a][sides[a][0] < s->count] = b;
    sides[b][sides[b][0] < s->count] = a;
  }
}

// Follows the path that was joined from one end to the other.
static void sides_follow(const struct search *s, uint32_t (*sides)[2]) {
  uint32_t last = s->count;
  uint32_t at = 0;
  while (sides[at][1] < s->count)
    at++;
  for (uint32_t i = 0; i < s->count; i++) {
    uint32_t next = sides[at][0] == last ? sides[at][1] : sides[at][0];
    s->path[i] = at;
    s->places[at] = i;
    last = at;
    at = next;
  }
  for (uint32_t i = 0; i < s->count; i++)
    s->found[i] = s->path[(s->places[0] + i) % s->count];
}

// A first ring, from which the search goes on. Returns false if there is no memory.
static bool heuristic_begin(struct search *s) {
  size_t count = 0;
  assert(s->count > RONDO_RING_EXACT);
  struct pair *pairs = malloc((size_t)s->count * s->count / 2 * sizeof *pairs);
  uint32_t *parents = malloc(s->count * sizeof *parents);
  uint32_t(*sides)[2] = malloc(s->count * sizeof *sides);
  bool has_memory = pairs && parents && sides;
  if (has_memory) {
    for (uint32_t a = 0; a < s->count; a++)
      for (uint32_t b = a + 1; b < s->count; b++) {
        uint64_t there = rate_of(s, a, b);
        uint64_t back = rate_of(s, b, a);
        pairs[count++] = (struct pair){there < back ? there : back, a, b};
      }
    qsort(pairs, count, sizeof *pairs, compare_pairs);
    pairs_join(s, pairs, count, parents, sides);
    sides_follow(s, sides);
  }
  free(pairs);
  free(parents);
  free(sides);
  return has_memory;
}

// ------------------------------------------------------------------- the search ---

static int compare_rates(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a;
  uint64_t y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

// Looks for rings of faster links than those of `order`, by bisection over all rates.
static void search_bisect(struct search *s, uint64_t *sorted, uint32_t *order) {
  size_t low = 0;
  size_t high = (size_t)s->count * s->count;
  uint64_t least = rondo_ring_rate(s->rates, s->count, order);
  memcpy(sorted, s->rates, high * sizeof *sorted);
  qsort(sorted, high, sizeof *sorted, compare_rates);
  while (low + 1 < high && sorted[low + 1] <= least)
    low++;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    s->least = sorted[middle];
    if (!s->find(s)) {
      high = middle;
      continue;
    }
    memcpy(order, s->found, s->count * sizeof *order);
    low = middle;
  }
}

// Improves `order`, the order of numbers. Returns false if there is no memory.
static bool search_run(struct search *s, uint64_t *sorted, uint32_t *order) {
  bool is_exact = s->count <= RONDO_RING_EXACT;
  s->find = is_exact ? exact_find : heuristic_find;
  if (!is_exact) {
    if (!heuristic_begin(s))
      return false;
    if (rondo_ring_rate(s->rates, s->count, s->found) > rondo_ring_rate(s->rates, s->count, order))
      memcpy(order, s->found, s->count * sizeof *order);
  }
  search_bisect(s, sorted, order);
  return true;
}

int rondo_ring_order(const uint64_t *rates, uint32_t count, uint32_t *order) {
  struct search s = {.rates = rates, .count = count};
  uint64_t *sorted = malloc((size_t)count * count * sizeof *sorted);
  uint32_t *best = malloc(count * sizeof *best);
  s.ends = malloc(sizeof *s.ends << (count <= RONDO_RING_EXACT ? count - 1 : 0));
  s.found = malloc(count * sizeof *s.found);
  s.path = malloc(count * sizeof *s.path);
  s.places = malloc(count * sizeof *s.places);
  bool has_memory = sorted && best && s.ends && s.found && s.path && s.places;
  for (uint32_t i = 0; i < count; i++)
    order[i] = i;
  if (has_memory && count > 2) {
    memcpy(best, order, count * sizeof *best);
    has_memory = search_run(&s, sorted, best);
    uint64_t found = rondo_ring_rate(rates, count, best);
    if (has_memory && rondo_ring_rate(rates, count, order) < found - found / 20)
      memcpy(order, best, count * sizeof *order);
  }
  free(sorted);
  free(best);
  free(s.ends);
  free(s.found);
  free(s.path);
  free(s.places);
  return has_memory ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
}
