#include "daemon/plan/cost.h"

#include <string.h>

#include "daemon/plan/build.h"
#include "daemon/plan/cost_links.h"
#include "daemon/plan/geometry_core.h"
#include "daemon/plan/halving.h"
#include "daemon/plan/two_level.h"

// ----------------------------------------------------------------------- forms ---
//
// A new algorithm has a line in `forms`. docs/algorithms.md has the same figures as formulas.

static uint32_t log2_floor(uint32_t n) {
  uint32_t log = 0;
  while (n >> (log + 1))
    log++;
  return log;
}

static uint32_t log2_ceiling(uint32_t n) { return n > 1 ? log2_floor(n - 1) + 1 : 0; }

// `b` is above 0.
static uint64_t divide_up(uint64_t a, uint64_t b) { return b ? a / b + (a % b > 0) : 0; }

static void ring_form(int kind, uint32_t n, struct rondo_plan_form *form) {
  bool is_line = kind == RONDO_REDUCE || kind == RONDO_BROADCAST;
  form->hops = kind == RONDO_ALL_REDUCE ? 2 * (n - 1) : n - 1;
  form->steps = is_line ? 1 : form->hops;
  form->messages = is_line ? n - 1 : (uint64_t)form->hops * n;
  form->connectors = is_line ? n - 1 : n;
  if (kind == RONDO_ALL_REDUCE)
    form->bytes = divide_up(form->bytes, n);
}

// Each rank to all others, and back.
static void two_shot_form(int kind, uint32_t n, struct rondo_plan_form *form) {
  (void)kind;
  form->hops = form->steps = 2 * (n - 1);
  form->connectors = (uint64_t)n * (n - 1);
  form->messages = 2 * form->connectors;
  form->bytes = divide_up(form->bytes, n);
}

// A tree of two levels: the root has `width` children, the first of these has the most.
static void levels_form(int kind, uint32_t n, uint32_t width, struct rondo_plan_form *form) {
  bool reduces = kind == RONDO_ALL_REDUCE;
  uint32_t first = (n - 2) / width, last = (n - 1 - width) / width; // children of these children
  form->hops = width + last + (reduces ? first + width : 0);
  form->steps = reduces ? 2 * width : width;
  form->messages = form->connectors = (uint64_t)(n - 1) * (reduces ? 2 : 1);
}

static void tree_form(int kind, uint32_t n, struct rondo_plan_form *form) {
  levels_form(kind, n, rondo_plan_tree_width(n), form);
}

static void direct_form(int kind, uint32_t n, struct rondo_plan_form *form) {
  bool all_send = kind == RONDO_ALL_GATHER || kind == RONDO_REDUCE_SCATTER ||
                  kind == RONDO_ALL_TO_ALL || kind == RONDO_ALL_TO_ALL_V;
  if (kind == RONDO_ALL_REDUCE) {
    levels_form(kind, n, n - 1, form);
    return;
  }
  form->hops = form->steps = n - 1;
  form->messages = form->connectors = all_send ? (uint64_t)n * (n - 1) : n - 1;
}

static void dissemination_form(int kind, uint32_t n, struct rondo_plan_form *form) {
  (void)kind;
  form->hops = form->steps = log2_ceiling(n);
  form->messages = form->connectors = (uint64_t)n * form->hops;
  form->bytes = 0;
}

static void doubling_form(int kind, uint32_t n, struct rondo_plan_form *form) {
  (void)kind;
  uint32_t rounds = log2_floor(n), folded = n - (1u << rounds);
  form->hops = form->steps = rounds + (folded ? 2 : 0);
  form->messages = form->connectors = ((uint64_t)rounds << rounds) + 2 * (uint64_t)folded;
}

// The part of a message that is in a loop.
static uint64_t loop_bytes(uint64_t bytes) {
  return bytes < RONDO_COST_LOOP_BYTES ? bytes : RONDO_COST_LOOP_BYTES;
}

// The nodes of the largest subtree of a binomial tree below its root: that of the last child,
// unless it is cut off, or of the one before. It needs scratch if it has several.
static uint32_t largest_subtree(uint32_t n) {
  uint32_t last = 1u << log2_floor(n - 1), of_last = n - last < last ? n - last : last;
  uint32_t largest = of_last > last / 2 ? of_last : last / 2;
  return largest > 1 ? largest : 0;
}

static void binomial_form(int kind, uint32_t n, struct rondo_plan_form *form) {
  uint32_t ways = kind == RONDO_ALL_REDUCE ? 2 : 1;
  form->hops = form->steps = ways * log2_ceiling(n);
  form->messages = form->connectors = (uint64_t)ways * (n - 1);
  if (kind == RONDO_REDUCE && n >= 7) // so that not only the root has several children
    form->scratch = loop_bytes(form->bytes);
  if (kind != RONDO_GATHER && kind != RONDO_SCATTER)
    return;
  // Messages become larger towards the root: the average of those of the root counts.
  form->scratch = loop_bytes(largest_subtree(n) * form->bytes);
  form->bytes = divide_up(form->bytes * (n - 1), form->hops);
}

// Messages become half as large from round to round, or twice as large: the average counts.
static void halving_form(int kind, uint32_t n, struct rondo_plan_form *form) {
  uint32_t rounds = log2_ceiling(n);
  if (kind == RONDO_REDUCE_SCATTER) {
    form->hops = form->steps = rounds;
    form->messages = form->connectors = (uint64_t)n * rounds;
    form->scratch = n > 2 ? (n - n / 2) * form->bytes : 0;
    form->bytes = divide_up(form->bytes * (n - 1), rounds);
    return;
  }
  // Peers on both sides: the rank at a distance of n / 2, and two of 3 and of 5 ranks.
  uint32_t shared = n == 3 || n == 5 ? 2 : n % 2 == 0;
  form->hops = form->steps = 2 * rounds;
  form->messages = (uint64_t)n * form->hops;
  form->connectors = form->messages - (uint64_t)n * shared;
  form->bytes = divide_up(divide_up(form->bytes, n) * (n - 1), rounds);
}

// In an all-to-all a part is in the message of each bit of its distance, and is copied into scratch
// and out of it.
static void bruck_form(int kind, uint32_t n, struct rondo_plan_form *form) {
  uint64_t parts = kind == RONDO_ALL_TO_ALL ? 2 * (uint64_t)n : n - 1;
  for (uint32_t bit = 1; kind == RONDO_ALL_TO_ALL && bit < n; bit *= 2)
    parts += rondo_plan_bruck_parts(bit, n);
  form->hops = form->steps = log2_ceiling(n);
  form->messages = form->connectors = (uint64_t)n * form->hops;
  form->scratch = kind == RONDO_ALL_TO_ALL ? n * form->bytes : 0;
  form->bytes = divide_up(form->bytes * parts, form->hops);
}

// All ranks take the message of rank 0 first, one of them after its n - 2 others.
static void one_shot_form(int kind, uint32_t n, struct rondo_plan_form *form) {
  (void)kind;
  form->hops = 2 * n - 3;
  form->steps = n - 1;
  form->messages = form->connectors = (uint64_t)n * (n - 1);
  form->scratch = n > 2 ? form->bytes : 0;
}

// Two trees of n - 1 ranks below the root: in the longest chain a rank with two children waits for
// both. Ranks of which each is the child of the other one, in different trees, share connectors.
// Loops wait for each other, because a rank takes the messages of both trees in the order of its
// plan: 0.6 of the hops is what the schedule simulator shows (test_schedule.c).
static void double_tree_form(int kind, uint32_t n, struct rondo_plan_form *form) {
  uint32_t passes = kind == RONDO_ALL_REDUCE ? 2 : 1;
  uint32_t hops = log2_floor(n - 1) + log2_floor(n) + 1, steps = (3 * hops + 2) / 5;
  uint32_t shared = n == 2 ? passes : (passes - 1) * 2 * ((n + 1) / 4);
  form->hops = passes * hops;
  form->steps = passes * (steps > 2 ? steps : 2);
  form->messages = (uint64_t)passes * 2 * (n - 1);
  form->connectors = form->messages - shared;
  form->bytes = divide_up(form->bytes, 2);
  if (kind == RONDO_REDUCE && n > 3) // so that a rank has two children
    form->scratch = loop_bytes(form->bytes);
}

// Of at least 2 ranks; `bytes` is set to what the descriptor counts.
// Algorithms over two levels have none: they consist of others (levels_make).
typedef void form_filler(int kind, uint32_t n, struct rondo_plan_form *form);
static form_filler *const forms[RONDO_ALGORITHM_COUNT] = {
    [RONDO_ALGORITHM_RING] = ring_form,
    [RONDO_ALGORITHM_TREE] = tree_form,
    [RONDO_ALGORITHM_DIRECT] = direct_form,
    [RONDO_ALGORITHM_DISSEMINATION] = dissemination_form,
    [RONDO_ALGORITHM_DOUBLING] = doubling_form,
    [RONDO_ALGORITHM_BINOMIAL] = binomial_form,
    [RONDO_ALGORITHM_HALVING] = halving_form,
    [RONDO_ALGORITHM_BRUCK] = bruck_form,
    [RONDO_ALGORITHM_TWO_SHOT] = two_shot_form,
    [RONDO_ALGORITHM_ONE_SHOT] = one_shot_form,
    [RONDO_ALGORITHM_DOUBLE_TREE] = double_tree_form,
    [RONDO_ALGORITHM_ONE_SHOT_PACKETS] = one_shot_form,
    [RONDO_ALGORITHM_TWO_SHOT_PACKETS] = two_shot_form,
    [RONDO_ALGORITHM_DIRECT_PACKETS] = direct_form};

uint64_t rondo_cost_message_bytes(const struct rondo_cost_query *q) {
  return q->quantisation ? rondo_quantised_bytes(q->bytes / sizeof(float)) : q->bytes;
}

static uint32_t query_machines(const struct rondo_cost_query *q) {
  return q->machines ? q->machines : 1;
}

static uint32_t query_ranks_per_machine(const struct rondo_cost_query *q) {
  return q->machine_ranks ? q->machine_ranks : (uint32_t)divide_up(q->nranks, query_machines(q));
}

static uint32_t query_leaders(const struct rondo_cost_query *q) {
  return q->leaders ? q->leaders : 1;
}

// ----------------------------------------------------------------------- levels ---

static uint64_t loops_of(uint64_t bytes, uint64_t most) {
  return bytes > most ? divide_up(bytes, most) : 1;
}

// A collective, or a part of one that begins when the part before has ended: among the ranks of the
// machine that has the most, or among the leaders.
struct level {
  struct rondo_cost_query q;
  int algorithm;
  struct rondo_cost_parts parts;
  struct rondo_plan_form form;
};

#define MAX_LEVELS 3u

struct levels {
  uint32_t count;
  uint64_t loops; // of the two passes of an all-reduce over two levels; else 1
  bool overlap;   // loops follow each other through all levels; then `loops` is 1
  struct level of[MAX_LEVELS];
};

// For how many further messages the longest chain among `n` ranks waits. Without a root, the
// leaders of several lanes send to each other in rounds: about as many messages as was counted.
static uint32_t parts_wait(const struct rondo_cost_parts *p, uint32_t n) {
  uint32_t first = 0, round = p->lanes;
  if (p->lanes == 1 || p->has_root)
    return p->lanes * p->chunks - 1;
  if (n == p->lanes) {
    first = p->lanes > 2 ? p->lanes - 2 : 1;
    round = 2 * first > round ? 2 * first : round;
  }
  return first + round * (p->chunks - 1);
}

static void level_add(struct levels *levels, const struct rondo_cost_query *q, int algorithm,
                      const struct rondo_cost_parts *parts) {
  uint32_t count = parts->lanes * parts->chunks;
  struct level *level = &levels->of[levels->count++];
  struct level l = {
      *q, algorithm, *parts, {.bytes = divide_up(rondo_cost_message_bytes(q), count)}};
  if (q->nranks > 1)
    forms[algorithm](q->kind, q->nranks, &l.form);
  l.form.hops += parts_wait(parts, q->nranks) * l.form.steps;
  l.form.steps *= count;
  l.form.messages *= count;
  *level = l;
}

// The leaders of a machine, each with a lane of the elements.
static uint32_t query_lanes(const struct rondo_cost_query *q, int algorithm) {
  return rondo_plan_chains_inside(algorithm) && !rondo_plan_has_parts(q->kind) ? query_leaders(q)
                                                                               : 1;
}

// Connectors each way, in an all-reduce, besides those of one lane: all leaders of a machine have
// each other as peers, and the first rank of the line of the others has all of them.
static uint64_t leaders_pairs(uint32_t ranks, uint32_t lanes) {
  return (uint64_t)(lanes - 1) * (lanes == ranks ? lanes - 2 : lanes) / 2;
}

// The same of a reduce or broadcast, in which the last rank of the line has all leaders as peers.
static uint64_t fan_pairs(uint32_t ranks, uint32_t lanes) {
  return (uint64_t)(lanes - 1) * (lanes == ranks ? lanes - 1 : lanes);
}

// Of all machines, for one level inside them. A root leads a lane, and sends or gets nothing else.
static uint64_t all_pairs(const struct rondo_cost_query *q, uint32_t ranks, uint32_t lanes) {
  if (lanes == 1)
    return 0;
  if (!rondo_plan_is_rooted(q->kind))
    return query_machines(q) * leaders_pairs(ranks, lanes);
  return query_machines(q) * fan_pairs(ranks, lanes) - (lanes - 1);
}

// To the leaders of a machine and back, and an all-reduce of the leaders of each lane. With a ring
// between machines a loop has a chunk for each of them.
static void two_levels_make(const struct rondo_cost_query *q, int algorithm,
                            struct levels *levels) {
  bool rings = rondo_plan_rings_between(algorithm);
  struct rondo_cost_query inner = *q, outer = *q;
  uint32_t machines = query_machines(q), lanes = query_lanes(q, algorithm);
  const struct rondo_cost_parts parts = {lanes, rings ? machines : 1,
                                         rondo_plan_slots(q->kind, algorithm, q->nranks), false};
  const struct rondo_cost_parts whole = {1, 1, parts.slots, false};
  levels->loops = loops_of(q->bytes, (uint64_t)lanes * parts.chunks * RONDO_COST_LOOP_BYTES);
  inner.bytes = divide_up(q->bytes, levels->loops);
  inner.nranks = inner.machine_ranks = query_ranks_per_machine(q);
  inner.machines = 1;
  inner.link = q->inner;
  outer.bytes = divide_up(inner.bytes, lanes);
  outer.nranks = machines;
  outer.machine_ranks = 1;
  if (rondo_plan_chains_inside(algorithm)) {
    inner.kind = RONDO_REDUCE;
    level_add(levels, &inner, RONDO_ALGORITHM_RING, &parts);
    inner.kind = RONDO_BROADCAST;
    level_add(levels, &inner, RONDO_ALGORITHM_RING, &parts);
  } else {
    level_add(levels, &inner, RONDO_ALGORITHM_BINOMIAL, &parts);
  }
  level_add(levels, &outer, rings ? RONDO_ALGORITHM_RING : RONDO_ALGORITHM_DOUBLING, &whole);
}

// A leader that is not the root adds up in scratch if it has several children: on another machine,
// or on the root's machine, if there are several leaders.
static bool rooted_has_scratch(const struct rondo_cost_query *q, int algorithm) {
  uint32_t machines = query_machines(q), each = query_ranks_per_machine(q);
  bool is_chain = rondo_plan_chains_inside(algorithm);
  bool has_more = query_lanes(q, algorithm) > 1;
  return q->kind == RONDO_REDUCE &&
         (machines > (rondo_plan_rings_between(algorithm) || has_more ? 2 : 3) ||
          (each > 2 && (!is_chain || has_more)));
}

// A reduce or broadcast, or the way of its first loop alone: the leaders of each lane, and the
// ranks of a machine.
static void rooted_levels_make(const struct rondo_cost_query *q, int algorithm, uint64_t bytes,
                               struct levels *levels) {
  bool is_chain = rondo_plan_chains_inside(algorithm);
  bool rings = rondo_plan_rings_between(algorithm);
  struct rondo_cost_query inner = *q, outer = *q;
  uint32_t slots = rondo_plan_slots(q->kind, algorithm, q->nranks);
  const struct rondo_cost_parts parts = {query_lanes(q, algorithm), 1, slots, true};
  const struct rondo_cost_parts whole = {1, 1, slots, false};
  inner.bytes = bytes;
  inner.nranks = inner.machine_ranks = query_ranks_per_machine(q);
  inner.machines = 1;
  inner.link = q->inner;
  outer.bytes = divide_up(bytes, parts.lanes);
  outer.nranks = query_machines(q);
  outer.machine_ranks = 1;
  levels->overlap = true;
  level_add(levels, &inner, is_chain ? RONDO_ALGORITHM_RING : RONDO_ALGORITHM_BINOMIAL, &parts);
  level_add(levels, &outer, rings ? RONDO_ALGORITHM_RING : RONDO_ALGORITHM_BINOMIAL, &whole);
  levels->of[0].form.scratch = 0;
  levels->of[1].form.scratch =
      rooted_has_scratch(q, algorithm) ? loop_bytes(levels->of[1].form.bytes) : 0;
}

// Of a machine, for its slices (two_level_parts.c): ways from the last rank of each to the first,
// then upwards to each; and connectors that close the ring of a slice.
static uint64_t slices_results(uint32_t ranks, uint32_t lanes) {
  uint64_t few = ranks / lanes, larger = ranks % lanes;
  return (lanes - larger) * few * (few - 1) / 2 + larger * few * (few + 1) / 2;
}

// One of them is the machine's own, if its first rank and its last one are in the same lane.
static uint32_t slices_rings(uint32_t ranks, uint32_t lanes) {
  bool shares = lanes > 1 && ranks % lanes == 1;
  return (ranks < 2 * lanes ? ranks - lanes : lanes) - shares;
}

// An all-gather: a ring inside each slice, then one of each lane, which passes machine after
// machine; and if there are several lanes, each goes round the machines. A reduce-scatter is about
// the reverse.
static void parts_levels_make(const struct rondo_cost_query *q, int algorithm,
                              const struct rondo_cost_parts *parts, struct levels *levels) {
  uint32_t n = q->nranks, machines = query_machines(q), each = query_ranks_per_machine(q);
  uint32_t lanes = rondo_plan_part_lanes(q->kind, n, query_leaders(q));
  uint32_t few = n / machines, larger = n % machines, size = (uint32_t)divide_up(n, lanes);
  bool reduces = rondo_plan_reduces(q->kind);
  struct level *l = &levels->of[levels->count++];
  *l = (struct level){.q = *q, .algorithm = algorithm, .parts = *parts};
  l->form.hops = n + each - (reduces ? 1 : 2);
  l->form.steps = n - 1;
  l->form.messages = (uint64_t)n * (n - 1);
  if (reduces)
    l->form.messages +=
        (machines - larger) * slices_results(few, lanes) + larger * slices_results(few + 1, lanes);
  l->form.connectors = n + (machines - larger) * slices_rings(few, lanes) +
                       larger * slices_rings(few + 1, lanes) + (lanes > 1 ? n : 0);
  l->form.bytes = q->bytes;
  if (lanes > 1)
    l->form.hops += size + 2 * lanes;
  if (lanes > 1 && reduces)
    l->form.scratch = size * loop_bytes(q->bytes);
}

// No levels: see rondo_plan_form_of.
static void levels_make(const struct rondo_cost_query *q, int algorithm, struct levels *levels) {
  uint32_t machines = query_machines(q), most = query_ranks_per_machine(q);
  const struct rondo_cost_parts whole = {1, 1, rondo_plan_slots(q->kind, algorithm, q->nranks),
                                         false};
  levels->count = 0;
  levels->loops = 1;
  levels->overlap = false;
  if (q->nranks == 0 || !rondo_plan_exists(q->kind, algorithm, q->nranks) ||
      (q->quantisation && !rondo_plan_can_quantise(q->kind, algorithm)))
    return;
  if (forms[algorithm])
    level_add(levels, q, algorithm, &whole);
  else if (machines == 1 || most == 1 || q->nranks <= machines)
    return;
  else if (rondo_plan_is_rooted(q->kind))
    rooted_levels_make(q, algorithm, q->bytes, levels);
  else if (rondo_plan_has_parts(q->kind))
    parts_levels_make(q, algorithm, &whole, levels);
  else
    two_levels_make(q, algorithm, levels);
}

bool rondo_plan_form_of(const struct rondo_cost_query *q, int algorithm,
                        struct rondo_plan_form *form) {
  struct levels levels;
  levels_make(q, algorithm, &levels);
  *form = (struct rondo_plan_form){0};
  for (uint32_t i = 0; i < levels.count; i++) {
    const struct level *l = &levels.of[i];
    const struct rondo_plan_form *f = &l->form;
    uint64_t bytes = f->bytes * levels.loops;
    // Those inside machines are of one machine: there are as many for each rank but the leader.
    bool is_inside = i + 1 < levels.count;
    uint64_t each = is_inside ? l->q.nranks - 1 : 1;
    uint64_t all = is_inside ? q->nranks - query_machines(q) : query_lanes(q, algorithm);
    uint64_t more = is_inside ? all_pairs(q, l->q.nranks, query_lanes(q, algorithm)) : 0;
    form->hops += f->hops;
    form->steps += f->steps;
    form->messages += f->messages / each * all;
    form->connectors += f->connectors / each * all + more;
    form->scratch += f->scratch;
    form->bytes = bytes > form->bytes ? bytes : form->bytes;
  }
  return levels.count > 0;
}

// ------------------------------------------------------------ cost of a message ---

const char *rondo_cost_link_name(int link) {
  static const char *const names[RONDO_COST_LINKS] = {"thread", "shared_memory", "nvlink",
                                                      "network"};
  return link >= 0 && link < RONDO_COST_LINKS ? names[link] : "unknown";
}

int rondo_cost_link_find(const char *name) {
  int link = 0;
  while (link < RONDO_COST_LINKS && strcmp(rondo_cost_link_name(link), name) != 0)
    link++;
  return link;
}

void rondo_cost_query_place(struct rondo_cost_query *q,
                            const struct rondo_plan_topology *topology) {
  q->link = !topology || topology->shares_process ? RONDO_COST_THREAD
            : topology->shares_memory             ? RONDO_COST_SHARED_MEMORY
                                                  : RONDO_COST_NETWORK;
  q->inner =
      !topology || topology->machines_share_process ? RONDO_COST_THREAD : RONDO_COST_SHARED_MEMORY;
  q->machines = rondo_plan_topology_machines(topology);
  q->leaders = rondo_plan_topology_leaders(topology);
  q->scattered = topology && topology->order;
  q->cores = q->machine_ranks = 0;
  for (uint32_t i = 0; topology && i < q->machines; i++) {
    const struct rondo_plan_machine *m = &topology->machines[i];
    q->machine_ranks = m->rank_count > q->machine_ranks ? m->rank_count : q->machine_ranks;
    q->cores = i == 0 || m->cores < q->cores ? m->cores : q->cores;
  }
}

// The cost of a message at one number of ranks: linear between the measured sizes, and beyond the
// last one as steep as before it.
static double row_cost(const struct rondo_cost_model *m, const float *ns, uint64_t bytes) {
  uint32_t last = m->size_points - 1, k = 1;
  if (bytes <= m->sizes[0] || last == 0)
    return ns[0];
  while (k < last && bytes > m->sizes[k])
    k++;
  double slope = ((double)ns[k] - (double)ns[k - 1]) / (m->sizes[k] - m->sizes[k - 1]);
  if (bytes > m->sizes[k] && slope < 0)
    return ns[k];
  return (double)ns[k - 1] + slope * (double)(bytes - m->sizes[k - 1]);
}

// The row's points of ranks that share cores, or of those that do not: the first, and one after the
// last.
static void model_range(const struct rondo_cost_model *m, bool shared, uint32_t *first,
                        uint32_t *end) {
  uint32_t few = 0;
  while (few < m->rank_points && m->ranks[few] <= m->cores)
    few++;
  *first = shared ? few : 0;
  *end = shared ? m->rank_points : few;
}

static const struct rondo_cost_row *model_row(const struct rondo_cost_model *m, int link, int kind,
                                              int algorithm) {
  for (uint32_t i = 0; i < m->row_count; i++)
    if (m->rows[i].link == link && m->rows[i].kind == kind && m->rows[i].algorithm == algorithm)
      return &m->rows[i];
  return NULL;
}

// The cost of a message of the level, by its row, in which `first` … `end` - 1 are points.
static double measured_cost(const struct rondo_cost_model *m, const struct rondo_cost_row *row,
                            const struct level *l, uint32_t first, uint32_t end) {
  uint32_t ranks = query_ranks_per_machine(&l->q), i = first;
  while (i + 1 < end && ranks >= m->ranks[i + 1])
    i++;
  double low = row_cost(m, row->message_ns[i], l->form.bytes);
  if (i + 1 == end || ranks <= m->ranks[i])
    return low;
  double high = row_cost(m, row->message_ns[i + 1], l->form.bytes);
  return low + (high - low) * (ranks - m->ranks[i]) / (m->ranks[i + 1] - m->ranks[i]);
}

// ------------------------------------------------------------------- prediction ---

// The chain counted in messages. Only the first loop waits for its whole chain; those that follow
// wait for the busiest rank.
static double form_chain(const struct rondo_plan_form *form) {
  uint64_t more =
      form->bytes > 0 ? (form->bytes - 1) / RONDO_COST_LOOP_BYTES : 0; // loops after the first
  return (form->hops + (double)more * form->steps) / (double)(more + 1);
}

// The row of a level. Null: it has none. Rows are of ranks with links of one class.
static const struct rondo_cost_row *level_row(const struct rondo_cost_model *model,
                                              const struct level *l) {
  bool is_mixed = query_machines(&l->q) > 1 && query_ranks_per_machine(&l->q) > 1;
  return is_mixed ? NULL : model_row(model, l->q.link, l->q.kind, l->algorithm);
}

// The chain of messages, where each rank has a core.
static double level_chain(const struct rondo_cost_model *model, const struct rondo_cost_row *row,
                          const struct level *l) {
  uint32_t first, end;
  model_range(model, false, &first, &end);
  if (row && first < end)
    return form_chain(&l->form) * measured_cost(model, row, l, first, end);
  return rondo_cost_links_time(model, &l->q, l->algorithm, &l->parts);
}

// All messages of the busiest machine, whose cores its ranks share.
static double level_work(const struct rondo_cost_model *model, const struct rondo_cost_row *row,
                         const struct level *l, uint32_t cores) {
  const struct rondo_cost_line *line = &model->shared[l->q.link];
  double share = (double)query_ranks_per_machine(&l->q) / l->q.nranks;
  double cost = (double)line->message_ns + (double)line->byte_ns * (double)l->form.bytes;
  uint32_t first, end;
  model_range(model, true, &first, &end);
  if (row && first < end)
    cost = measured_cost(model, row, l, first, end);
  return (double)l->form.messages * share / cores * cost;
}

static double level_time(const struct rondo_cost_model *model, const struct level *l) {
  const struct rondo_cost_row *row = level_row(model, l);
  uint32_t cores = l->q.cores ? l->q.cores : model->cores;
  if (l->q.nranks == 1)
    return (double)model->alone[l->q.link].byte_ns * (double)l->q.bytes;
  double chain = level_chain(model, row, l);
  if (query_ranks_per_machine(&l->q) <= cores)
    return chain;
  double work = level_work(model, row, l, cores);
  return work > chain ? work : chain;
}

// The first loop goes through all levels. Those that follow are as fast as the slowest level.
static double overlap_time(const struct rondo_cost_model *model, const struct rondo_cost_query *q,
                           int algorithm, const struct levels *levels) {
  struct levels first = {.loops = 1};
  uint64_t most = (uint64_t)query_lanes(q, algorithm) * RONDO_COST_LOOP_BYTES;
  double chain = 0, queue = 0;
  rooted_levels_make(q, algorithm, divide_up(q->bytes, loops_of(q->bytes, most)), &first);
  for (uint32_t i = 0; i < levels->count; i++) {
    double one = level_time(model, &first.of[i]);
    double more = level_time(model, &levels->of[i]) - one;
    chain += one;
    queue = more > queue ? more : queue;
  }
  return chain + queue;
}

// An all-reduce of several loops over two levels: the first one takes `first_ns`. In later ones the
// way between machines overlaps with those inside; half of a ring is in each pass, doubling in the
// first one. Where the ranks of a machine share cores, nothing is taken to overlap.
static double passes_time(const struct rondo_cost_model *model, int algorithm,
                          const struct levels *levels, double first_ns) {
  const struct level *inner = &levels->of[0], *outer = &levels->of[levels->count - 1];
  uint32_t cores = inner->q.cores ? inner->q.cores : model->cores;
  double up = level_time(model, outer), down = 0, later_ns = first_ns;
  if (rondo_plan_rings_between(algorithm))
    up = down = up / 2;
  if (inner->q.nranks <= cores)
    later_ns = rondo_cost_links_pass(model, &inner->q, inner->algorithm, &inner->parts, up) +
               rondo_cost_links_pass(model, &inner->q, inner->algorithm, &inner->parts, down);
  later_ns = later_ns < first_ns ? later_ns : first_ns;
  return first_ns + (double)(levels->loops - 1) * later_ns;
}

double rondo_cost_predict(const struct rondo_cost_model *model, const struct rondo_cost_query *q,
                          int algorithm) {
  struct levels levels;
  double time_ns = 0;
  levels_make(q, algorithm, &levels);
  if (levels.overlap)
    return overlap_time(model, q, algorithm, &levels);
  for (uint32_t i = 0; i < levels.count; i++)
    time_ns += level_time(model, &levels.of[i]);
  if (levels.loops > 1)
    return passes_time(model, algorithm, &levels, time_ns);
  return levels.count > 0 ? time_ns : -1;
}

bool rondo_cost_is_measured(const struct rondo_cost_model *model, const struct rondo_cost_query *q,
                            int algorithm) {
  struct levels levels;
  levels_make(q, algorithm, &levels);
  return levels.count == 1 && q->nranks > 1 && level_row(model, &levels.of[0]);
}

double rondo_cost_of_message(const struct rondo_cost_query *q, int algorithm, double time_ns) {
  struct levels levels;
  levels_make(q, algorithm, &levels);
  if (levels.count != 1 || q->nranks == 1)
    return -1;
  const struct rondo_plan_form *form = &levels.of[0].form;
  if (query_ranks_per_machine(q) <= q->cores)
    return time_ns / form_chain(form);
  return time_ns * q->cores * q->nranks / query_ranks_per_machine(q) / (double)form->messages;
}

// ----------------------------------------------------------------------- choice ---

bool rondo_cost_is_candidate(const struct rondo_cost_query *q, int algorithm) {
  struct rondo_plan_form form;
  if (!rondo_plan_form_of(q, algorithm, &form))
    return false;
  bool has_trees = q->kind == RONDO_ALL_REDUCE || q->kind == RONDO_BROADCAST;
  if (has_trees && algorithm == RONDO_ALGORITHM_DIRECT && q->nranks > RONDO_COST_MAX_ROOT_PEERS)
    return false;
  if (algorithm == RONDO_ALGORITHM_ONE_SHOT && q->nranks == 2)
    return false; // the plan of doubling
  if (rondo_plan_has_packets(algorithm) &&
      (q->link != RONDO_COST_NVLINK || query_machines(q) > 1 || q->quantisation))
    return false; // see cost.h
  bool is_shot = algorithm == RONDO_ALGORITHM_ONE_SHOT || algorithm == RONDO_ALGORITHM_TWO_SHOT;
  bool has_many = q->kind == RONDO_ALL_REDUCE && q->bytes > RONDO_COST_FEW_CONNECTORS_BYTES &&
                  form.connectors > 2 * (uint64_t)q->nranks;
  if ((is_shot || has_many) && q->cores && query_ranks_per_machine(q) > q->cores)
    return false; // see cost.h
  if (q->kind == RONDO_ALL_TO_ALL && algorithm == RONDO_ALGORITHM_BRUCK &&
      (q->nranks <= 3 || q->bytes > RONDO_COST_MAX_EXCHANGE_BYTES))
    return false; // of 3 ranks it has as many messages as direct
  // The sums of a lane of a reduce-scatter are few (RONDO_PLAN_MAX_LANE_SUMS), and ports save more.
  if (q->kind == RONDO_REDUCE_SCATTER && rondo_plan_has_two_levels(algorithm))
    form.scratch = 0;
  uint64_t slot_bytes = loop_bytes(form.bytes);
  if (rondo_plan_has_packets(algorithm))
    slot_bytes = rondo_packets_bytes(rondo_geometry_min(slot_bytes, RONDO_COST_PACKETS_LOOP_BYTES));
  uint64_t most_bytes = (uint64_t)RONDO_COST_MAX_PAYLOAD_BYTES * q->nranks;
  if (rondo_plan_has_two_levels(algorithm))
    most_bytes *= query_leaders(q);
  return form.connectors <= (uint64_t)RONDO_COST_MAX_CONNECTORS * q->nranks &&
         form.scratch <= RONDO_COST_MAX_PAYLOAD_BYTES &&
         form.connectors * slot_bytes + form.scratch * q->nranks <= most_bytes;
}

const char *rondo_plan_rule_name(int rule) {
  static const char *const names[RONDO_PLAN_RULE_COUNT] = {"only", "alone", "least", "forced"};
  return rule >= 0 && rule < RONDO_PLAN_RULE_COUNT ? names[rule] : "unknown";
}

// The first algorithm that has plans of this kind, perhaps not for so many ranks.
static int first_algorithm(int kind) {
  int algorithm = 0;
  while (algorithm < RONDO_ALGORITHM_COUNT - 1 && !rondo_plan_exists(kind, algorithm, 1))
    algorithm++;
  return algorithm;
}

struct rondo_plan_choice rondo_cost_choose(const struct rondo_cost_model *model,
                                           const struct rondo_cost_query *q) {
  struct rondo_plan_choice choice = {first_algorithm(q->kind), RONDO_PLAN_RULE_ONLY, -1};
  uint32_t candidates = 0;
  for (int algorithm = 0; algorithm < RONDO_ALGORITHM_COUNT; algorithm++) {
    if (!rondo_cost_is_candidate(q, algorithm))
      continue;
    double time_ns = rondo_cost_predict(model, q, algorithm);
    if (candidates++ == 0 || time_ns < choice.time_ns) {
      choice.algorithm = algorithm;
      choice.time_ns = time_ns;
    }
  }
  if (candidates == 0)
    choice.time_ns = rondo_cost_predict(model, q, choice.algorithm);
  else if (candidates > 1)
    choice.rule = q->nranks == 1 ? RONDO_PLAN_RULE_ALONE : RONDO_PLAN_RULE_LEAST;
  return choice;
}
