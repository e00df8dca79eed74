#include "daemon/plan/cost_links.h"

#include "daemon/plan/build.h"
#include "daemon/plan/halving.h"
#include "daemon/plan/two_level.h"

// A group as the closed forms see it: `each` ranks on every machine.
struct net {
  struct rondo_cost_terms inside, outside; // of links inside machines, and between them
  int kind;
  uint32_t n, machines, each, ports;
  uint32_t row;           // ranks of a machine whose positions follow each other
  uint32_t slots;         // of a connector
  uint32_t lanes, chunks; // messages in place of each
  bool has_root;          // lanes begin or end at one rank, and loops follow each other
  double loops;           // that follow each other
  double bytes;           // of a chunk in a loop
};

// ------------------------------------------------------------------- the terms ---

static double larger_of(double a, double b) { return a > b ? a : b; }

// How long a message occupies its link.
static double busy_ns(const struct rondo_cost_terms *link, double bytes) {
  return (double)link->message_ns + bytes * (double)link->byte_ns;
}

// From the send until the receiver sees the message.
static double hop_ns(const struct rondo_cost_terms *link, double bytes) {
  return (double)link->latency_ns + busy_ns(link, bytes);
}

// How long `messages` more take on a connector after the first. They occupy its link, and wait for
// a slot, which is free when its credit has come back.
static double queue_ns(const struct net *x, const struct rondo_cost_terms *link, double bytes,
                       double messages) {
  double busy = busy_ns(link, bytes), turn = hop_ns(link, bytes) + (double)link->latency_ns;
  double turns = (double)(uint64_t)(messages / x->slots), rest = messages - turns * x->slots;
  return turn <= busy * x->slots ? messages * busy : turns * turn + rest * busy;
}

static bool leaves_machine(const struct net *x) { return x->each < x->n; }

// The link of the slowest hop in a chain through all ranks.
static const struct rondo_cost_terms *far_link(const struct net *x) {
  return leaves_machine(x) ? &x->outside : &x->inside;
}

// How many messages the busiest port sends if the first `ranks` of each row send one.
static uint32_t port_messages(const struct net *x, uint32_t ranks) {
  uint32_t senders = leaves_machine(x) ? (ranks < x->row ? ranks : x->each) : 1;
  return (senders + x->ports - 1) / x->ports;
}

// A round in which pairs of ranks send to each other. The numbers of a pair differ in the bit
// `distance`.
static double swap_ns(const struct net *x, uint32_t distance, double bytes) {
  if (!leaves_machine(x) || x->row % (2 * distance) == 0)
    return hop_ns(&x->inside, bytes);
  return (double)x->outside.latency_ns + port_messages(x, distance) * busy_ns(&x->outside, bytes);
}

// Rounds in which each rank sends to the one `distance` further. If that is less than a row has
// ranks, only those near its end send to another machine, and what they send is late. Those to
// whom it comes are not the ones that send to another machine next. So all such rounds together
// have one latency between machines.
struct rounds {
  double far;        // rounds that leave the machine
  double near, busy; // the others: their hops but one, and what occupies the busiest port
};

static void round_add(const struct net *x, uint32_t distance, double bytes, struct rounds *r) {
  double inner = hop_ns(&x->inside, bytes);
  double busy = port_messages(x, distance) * busy_ns(&x->outside, bytes);
  if (!leaves_machine(x)) {
    r->far += inner;
  } else if (distance >= x->row) {
    r->far += (double)x->outside.latency_ns + busy;
  } else {
    r->near += r->busy > 0 ? inner : (double)x->outside.latency_ns;
    r->busy += busy;
  }
}

static double rounds_ns(const struct rounds *r) { return r->far + r->near + r->busy; }

// One rank to all others or back, without the latency: links inside the machine and outside work
// at the same time. `senders`: ranks of a machine that do this at once.
static double fan_busy_ns(const struct net *x, uint32_t senders, double bytes) {
  double inner = (x->each - 1) * busy_ns(&x->inside, bytes);
  double outer = (double)port_messages(x, senders) * (x->n - x->each) * busy_ns(&x->outside, bytes);
  return larger_of(inner, outer);
}

// ------------------------------------------------------------------ algorithms ---

// What comes on a connector after the first message: as many messages in each loop. Those of one
// loop take the busiest link `busy`.
static double loops_ns(const struct net *x, const struct rondo_cost_terms *link, double busy) {
  return larger_of((x->loops - 1) * busy, queue_ns(x, link, x->bytes, x->loops - 1));
}

// To the leaders of a machine or back, in an all-reduce of several lanes (two_level.c). In each
// round a leader sends to the other ones, and hears from them and from the line of the other ranks.
static double leaders_ns(const struct net *x) {
  double hop = hop_ns(&x->inside, x->bytes), busy = busy_ns(&x->inside, x->bytes);
  double round = hop + (x->lanes - 2) * busy, line = 0;
  if (x->n > x->lanes)
    line = (x->n - x->lanes) * hop + busy +
           queue_ns(x, &x->inside, x->bytes, (double)x->lanes * x->chunks - 1);
  return larger_of(x->chunks * round, line);
}

// What a leader takes of its machine in each loop after the first of a pass (two_level.c). A child
// sends on while the leader is between machines, but no more than the connector holds. Several
// leaders wait for each other in each round, and receive from the line; the schedule simulator
// shows how much of the latter counts with two leaders, it was not derived.
static double leader_wait_ns(const struct net *x, uint32_t children) {
  double hop = hop_ns(&x->inside, x->bytes), busy = busy_ns(&x->inside, x->bytes);
  double of_line = x->n == x->lanes ? 0 : x->lanes == 2 ? 0.5 : 1;
  if (x->lanes > 1)
    return x->chunks * (hop + (x->lanes - 2 + of_line) * busy);
  if (x->chunks <= x->slots)
    return 0;
  return children * ((double)x->inside.latency_ns + hop +
                     queue_ns(x, &x->inside, x->bytes, x->chunks - x->slots - 1));
}

// The time of such a loop. It is the longer one of two: what the leader takes, with `between` for
// the way between machines; and what the ranks inside the machine take. In a tree the leader is the
// busiest of these, else a rank of the line.
static double pass_ns(const struct net *x, bool is_tree, double between) {
  double busy = busy_ns(&x->inside, x->bytes);
  double turn = hop_ns(&x->inside, x->bytes) + (double)x->inside.latency_ns;
  uint32_t children = 1, messages = x->chunks;
  while (is_tree && 1u << children < x->n)
    children++;
  if (!is_tree)
    messages *= x->n > x->lanes ? x->lanes : 0;
  double machine = larger_of(children * messages * busy, messages * turn / x->slots);
  return larger_of(between + leader_wait_ns(x, children), machine);
}

// Several lanes to or from a root, inside its machine (two_level_rooted.c): the line of the ranks
// that lead none, then the leaders, then the root. A loop takes the messages of the root, which has
// those of its own lane and the other lanes, or one hop between leaders and what a leader sends;
// the schedule simulator shows how much of that, it was not derived.
static double rooted_lanes_ns(const struct net *x) {
  double hop = hop_ns(&x->inside, x->bytes), busy = busy_ns(&x->inside, x->bytes);
  double lanes = x->lanes;
  bool has_line = x->n > x->lanes;
  double of_root = (2 * (lanes - 1) + has_line) * busy;
  double turn = larger_of(of_root, hop + (lanes + 1) * busy);
  double line = has_line ? x->n - lanes : 1;
  return (line + 1) * hop + (lanes - 1) * busy + (x->loops - 1) * turn;
}

// The line of a reduce or broadcast: loops follow each other.
static double line_ns(const struct net *x) {
  double outer = x->machines - 1, inner = x->n - 1 - outer;
  double chain = inner * hop_ns(&x->inside, x->bytes) + outer * hop_ns(&x->outside, x->bytes);
  if (x->lanes > 1)
    return x->has_root ? rooted_lanes_ns(x) : leaders_ns(x);
  double queue = inner > 0 ? loops_ns(x, &x->inside, busy_ns(&x->inside, x->bytes)) : 0;
  if (outer > 0)
    queue = larger_of(queue, loops_ns(x, &x->outside, busy_ns(&x->outside, x->bytes)));
  return chain + queue + queue_ns(x, &x->inside, x->bytes, x->chunks - 1);
}

// Chunks go round the ring once, in an all-reduce twice. All are on their way at the same time, so
// no link is passed faster than it takes n of them.
static double ring_ns(const struct net *x) {
  if (x->kind == RONDO_REDUCE || x->kind == RONDO_BROADCAST)
    return line_ns(x);
  double outer = leaves_machine(x) ? x->machines : 0, inner = x->n - outer;
  double around = inner * hop_ns(&x->inside, x->bytes) + outer * hop_ns(&x->outside, x->bytes);
  double busy = queue_ns(x, far_link(x), x->bytes, x->n);
  double rounds = x->kind == RONDO_ALL_REDUCE ? 2 : 1;
  return x->loops * rounds * (x->n - 1) / x->n * larger_of(around, busy);
}

static uint64_t divide_up(uint64_t a, uint64_t b) { return b ? a / b + (a % b > 0) : 0; }

// How long all lanes of a machine take to go round it. Each begins on the rank that has just taken
// the last chunk of the lane before. In the first loop all messages of a connector but those that
// its slots hold wait for credits; later loops overlap with the one before. The schedule simulator
// shows the latter; it was not derived.
static double lanes_around_ns(const struct net *x, uint32_t lanes) {
  double hop = hop_ns(&x->inside, x->bytes), turn = hop + (double)x->inside.latency_ns;
  double lane = queue_ns(x, &x->inside, x->bytes, (double)x->n / lanes - 1);
  double first = ((double)x->n / x->slots - 1) * turn - lanes * lane;
  if (lanes == 1)
    return 0;
  return x->loops * (lanes * lane + 2 * (lanes - 1) * hop) + larger_of(first, 0);
}

// An all-gather over two levels: a ring of the ranks of each machine that are in one lane, and then
// one of all ranks of the lane, in which each machine begins with all its chunks of it; in the end
// all lanes go round their machines (two_level_parts.c). A reduce-scatter is about the reverse.
static double parts_ns(const struct net *x) {
  uint32_t lanes = rondo_plan_part_lanes(x->kind, x->n, x->ports);
  double each = (double)divide_up(x->each, lanes), size = (double)divide_up(x->n, lanes);
  double inner = hop_ns(&x->inside, x->bytes), outer = hop_ns(&x->outside, x->bytes);
  double first = larger_of(each * inner, queue_ns(x, &x->inside, x->bytes, each));
  double machine = (each - 1) * inner, later = size - each - 1;
  double around =
      queue_ns(x, &x->outside, x->bytes, each - 1) + (x->machines - 1) * (outer + machine);
  double busy = outer + queue_ns(x, &x->outside, x->bytes, later) + machine;
  return x->loops * (first * (each - 1) / each + larger_of(around, busy)) +
         lanes_around_ns(x, lanes);
}

// Each rank to all others: once, or twice. The ranks of a machine send to each other machine in the
// same order, so as many messages come to its last rank at the same time.
static double all_pairs_ns(const struct net *x, double times) {
  double busy = fan_busy_ns(x, x->each, x->bytes), last = 0;
  if (leaves_machine(x))
    last = (x->each - 1) * busy_ns(&x->outside, x->bytes);
  return x->loops * times * ((double)far_link(x)->latency_ns + busy) + last;
}

// To the root and back: a loop waits for the one before, except that the root receives from some
// ranks while it sends to others.
static double there_and_back_ns(const struct net *x, double latency, double busy, double one) {
  return 2 * (latency + busy) + (x->loops - 1) * (2 * latency + busy + one);
}

// One rank to all others, or back; in an all-reduce both.
static double fan_ns(const struct net *x) {
  double latency = (double)far_link(x)->latency_ns, busy = fan_busy_ns(x, 1, x->bytes);
  if (x->kind == RONDO_ALL_REDUCE)
    return there_and_back_ns(x, latency, busy, busy_ns(far_link(x), x->bytes));
  return latency + busy + loops_ns(x, far_link(x), busy);
}

static double direct_ns(const struct net *x) {
  switch (x->kind) {
  case RONDO_ALL_GATHER:
  case RONDO_REDUCE_SCATTER:
  case RONDO_ALL_TO_ALL:
  case RONDO_ALL_TO_ALL_V:
    return all_pairs_ns(x, 1);
  default:
    return fan_ns(x);
  }
}

// Two levels of about √n children. The children of the root are on its machine first.
static double tree_ns(const struct net *x) {
  uint32_t width = rondo_plan_tree_width(x->n), children = (x->n - 2) / width;
  const struct rondo_cost_terms *link = far_link(x), *near = &x->inside;
  double busy = busy_ns(link, x->bytes), below = children * busy * port_messages(x, width);
  double top = width * busy_ns(near, x->bytes);
  if (leaves_machine(x) && width >= x->row) {
    near = &x->outside;
    top = larger_of((x->row - 1) * busy_ns(&x->inside, x->bytes), (width + 1 - x->row) * busy);
  }
  double latency = (double)near->latency_ns + (children > 0 ? (double)link->latency_ns : 0);
  if (x->kind == RONDO_ALL_REDUCE)
    return there_and_back_ns(x, latency, top + below, busy_ns(near, x->bytes) + busy);
  return latency + top + below + loops_ns(x, link, larger_of(top, below));
}

// The distances 1, 2, 4, …; a loop begins when the one before has ended. Ranks beyond the greatest
// power of two send to others first. Up to half as many as these cost one hop more, not two,
// because none of those to which they send is the partner of another one in the last round.
static double doubling_ns(const struct net *x) {
  uint32_t core = 1;
  double chain = 0;
  for (; core <= x->n / 2; core *= 2)
    chain += swap_ns(x, core, x->bytes);
  if (core < x->n)
    chain += (x->n - core > core / 2 ? 2 : 1) * swap_ns(x, core, x->bytes);
  return x->loops * chain;
}

static double dissemination_ns(const struct net *x) {
  struct rounds r = {0};
  for (uint32_t distance = 1; distance < x->n; distance *= 2)
    round_add(x, distance, 0, &r);
  return rounds_ns(&r);
}

// Of a message to a child with `bit` nodes below it, or from it: a gather or scatter has the chunks
// of the subtree in it.
static double subtree_bytes(const struct net *x, uint32_t child, uint32_t bit) {
  uint32_t nodes = bit < x->n - child ? bit : x->n - child;
  return rondo_plan_has_parts(x->kind) ? nodes * x->bytes : x->bytes;
}

// Until a message has come down a binomial tree to a node, or up from it. Children are `node` + 1,
// + 2, + 4, …; a node sends to the larger subtrees first.
static double branch_ns(const struct net *x, uint32_t node, uint32_t top) {
  double time_ns = 0;
  uint32_t at = 0;
  for (uint32_t bit = top; bit > 0; bit /= 2) {
    uint32_t child = at | bit;
    if (child >= x->n || (at == node && !(node & bit)))
      continue;
    const struct rondo_cost_terms *link = at / x->row == child / x->row ? &x->inside : &x->outside;
    double bytes = subtree_bytes(x, child, bit);
    double wait = queue_ns(x, link, bytes, x->chunks - 1);
    time_ns += wait + (node & bit ? hop_ns(link, bytes) : busy_ns(link, bytes));
    at |= node & bit;
  }
  return time_ns;
}

// The last nodes to be reached are those whose number has the most ones: the last one, and each
// that has a 0 where the last one has a 1, and ones below.
static double binomial_ns(const struct net *x) {
  uint32_t top = 1, last = x->n - 1;
  double chain = 0, inner = 0, outer = 0;
  while (top <= last / 2)
    top *= 2;
  for (uint32_t bit = top; bit > 0; bit /= 2) {
    const bool is_far = bit >= x->row;
    if (last & bit)
      chain = larger_of(chain, branch_ns(x, (last & ~(2 * bit - 1)) | (bit - 1), top));
    *(is_far ? &outer : &inner) +=
        busy_ns(is_far ? &x->outside : &x->inside, subtree_bytes(x, bit, bit));
  }
  chain = larger_of(chain, branch_ns(x, last, top));
  if (x->kind == RONDO_ALL_REDUCE)
    return x->loops * 2 * chain;
  return chain + loops_ns(x, far_link(x), larger_of(inner, outer));
}

// Rounds with half of the chunks of the round before, or twice as many; an all-reduce has both.
static double halving_ns(const struct net *x) {
  struct rounds r = {0};
  for (uint32_t left = x->n; left > 1; left -= left / 2) {
    uint32_t width = left / 2;
    round_add(x, left - width, width * x->bytes, &r);
  }
  return x->loops * rounds_ns(&r) * (x->kind == RONDO_ALL_REDUCE ? 2 : 1);
}

static double bruck_ns(const struct net *x) {
  if (x->kind != RONDO_ALL_TO_ALL)
    return halving_ns(x);
  struct rounds r = {0};
  for (uint32_t bit = 1; bit < x->n; bit *= 2)
    round_add(x, bit, rondo_plan_bruck_parts(bit, x->n) * x->bytes, &r);
  return x->loops * rounds_ns(&r);
}

// The longest chain of a double tree in a pass: its levels inside a machine and between machines,
// and all their latencies. Subtrees are machines in a row, so edges of the lower levels are inside.
struct branches {
  double near, far, latency;
  double near_busy, far_busy; // of a message
};

static struct branches branches_of(const struct net *x) {
  struct branches b = {.near_busy = busy_ns(&x->inside, x->bytes),
                       .far_busy = busy_ns(far_link(x), x->bytes)};
  for (uint32_t distance = 1; distance < x->n; distance *= 2) {
    bool is_far = leaves_machine(x) && 2 * distance >= x->each;
    bool is_mixed = leaves_machine(x) && x->each % (4 * distance);
    *(is_far ? &b.far : &b.near) += 1;
    b.latency += (double)(is_mixed ? &x->outside : &x->inside)->latency_ns;
  }
  return b;
}

// A loop waits for the one before, because a rank takes the messages of both trees in the order of
// its plan: for all levels but one, and in a broadcast, where a rank sends to both children, for
// half a message more at each level above the fourth between machines. The schedule simulator shows
// this; it was not derived.
static double branches_wait(const struct net *x, const struct branches *b) {
  double wait =
      b->latency - (double)far_link(x)->latency_ns + b->near * b->near_busy + b->far * b->far_busy;
  double down = b->far > 4 ? (b->far - 4) / 2 * b->far_busy : 0;
  if (leaves_machine(x)) // a machine has three edges to others
    wait = larger_of(wait - b->far_busy, 3 * b->far_busy / x->ports);
  return wait + (x->kind == RONDO_REDUCE ? 0 : x->kind == RONDO_ALL_REDUCE ? down / 2 : down);
}

static double double_tree_ns(const struct net *x) {
  const struct branches b = branches_of(x);
  double chain = b.latency + 2 * b.near * b.near_busy, more;
  if (leaves_machine(x)) // the root has one child
    chain += (2 * b.far - (x->machines > 2 ? 1 : 2)) * b.far_busy;
  if (x->n == 2) // both trees have the same edge
    more = queue_ns(x, far_link(x), x->bytes, 2 * x->loops - 1);
  else
    more = (x->loops - 1) * branches_wait(x, &b);
  return (x->kind == RONDO_ALL_REDUCE ? 2 : 1) * (chain + more);
}

static double two_shot_ns(const struct net *x) { return all_pairs_ns(x, 2); }
static double one_shot_ns(const struct net *x) { return all_pairs_ns(x, 1); }

// ------------------------------------------------------------------- the times ---

typedef double links_form(const struct net *x);
static links_form *const forms[RONDO_ALGORITHM_COUNT] = {
    [RONDO_ALGORITHM_RING] = ring_ns,
    [RONDO_ALGORITHM_TREE] = tree_ns,
    [RONDO_ALGORITHM_DIRECT] = direct_ns,
    [RONDO_ALGORITHM_DISSEMINATION] = dissemination_ns,
    [RONDO_ALGORITHM_DOUBLING] = doubling_ns,
    [RONDO_ALGORITHM_BINOMIAL] = binomial_ns,
    [RONDO_ALGORITHM_HALVING] = halving_ns,
    [RONDO_ALGORITHM_BRUCK] = bruck_ns,
    [RONDO_ALGORITHM_CHAIN_RING] = parts_ns,
    [RONDO_ALGORITHM_TWO_SHOT] = two_shot_ns,
    [RONDO_ALGORITHM_ONE_SHOT] = one_shot_ns,
    [RONDO_ALGORITHM_DOUBLE_TREE] = double_tree_ns,
    [RONDO_ALGORITHM_ONE_SHOT_PACKETS] = one_shot_ns,
    [RONDO_ALGORITHM_TWO_SHOT_PACKETS] = two_shot_ns,
    [RONDO_ALGORITHM_DIRECT_PACKETS] = direct_ns,
};

static uint32_t chunks_of(const struct rondo_cost_query *q, int algorithm) {
  if (algorithm == RONDO_ALGORITHM_DOUBLE_TREE)
    return 2;
  return rondo_plan_splits(q->kind, algorithm) ? q->nranks : 1;
}

static struct net net_of(const struct rondo_cost_model *model, const struct rondo_cost_query *q,
                         int algorithm, const struct rondo_cost_parts *parts) {
  uint64_t loop_bytes =
      rondo_plan_has_packets(algorithm) ? RONDO_COST_PACKETS_LOOP_BYTES : RONDO_COST_LOOP_BYTES;
  uint64_t most = loop_bytes / rondo_plan_most_width(q->kind, algorithm, q->nranks);
  uint64_t chunks = (uint64_t)chunks_of(q, algorithm) * parts->lanes * parts->chunks;
  uint64_t bytes = divide_up(rondo_cost_message_bytes(q), chunks),
           loops = divide_up(bytes, most ? most : 1);
  uint32_t machines = q->machines ? q->machines : 1;
  struct net x = {.inside = model->alone[machines > 1 ? q->inner : q->link],
                  .outside = model->alone[q->link],
                  .kind = q->kind,
                  .machines = machines,
                  .n = q->nranks,
                  .each = q->machine_ranks ? q->machine_ranks
                                           : (uint32_t)divide_up(q->nranks, machines),
                  .ports = q->leaders ? q->leaders : 1,
                  .slots = parts->slots,
                  .lanes = parts->lanes,
                  .chunks = parts->chunks,
                  .has_root = parts->has_root,
                  .loops = loops ? (double)loops : 1};
  if (rondo_plan_has_packets(algorithm)) {
    x.inside.message_ns *= RONDO_COST_PACKETS_MESSAGE;
    x.inside.byte_ns *= RONDO_COST_PACKETS_BYTE;
    x.outside = x.inside;
  }
  x.row = q->scattered && machines > 1 ? 1 : x.each;
  x.bytes = (double)bytes / x.loops;
  return x;
}

double rondo_cost_links_time(const struct rondo_cost_model *model, const struct rondo_cost_query *q,
                             int algorithm, const struct rondo_cost_parts *parts) {
  const struct net x = net_of(model, q, algorithm, parts);
  return forms[algorithm](&x);
}

double rondo_cost_links_pass(const struct rondo_cost_model *model, const struct rondo_cost_query *q,
                             int algorithm, const struct rondo_cost_parts *parts,
                             double between_ns) {
  const struct net x = net_of(model, q, algorithm, parts);
  return pass_ns(&x, algorithm == RONDO_ALGORITHM_BINOMIAL, between_ns);
}
