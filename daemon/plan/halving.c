#include "daemon/plan/halving.h"

enum {
  SEND = RONDO_PRIM_SEND,
  SEND_RESULT = RONDO_PRIM_SEND | RONDO_PRIM_RESULT,
  COPY = RONDO_PRIM_COPY,
  COPY_SEND = RONDO_PRIM_COPY | RONDO_PRIM_SEND,
  RECV_COPY = RONDO_PRIM_RECV | RONDO_PRIM_COPY,
  RECV_REDUCE_COPY = RONDO_PRIM_RECV | RONDO_PRIM_REDUCE | RONDO_PRIM_COPY
};

// --------------------------------------------------------------------- ops ---

// Appends an op for the `width` chunks from `first` on. The numbers of chunks and of the peer count
// from `rank`, by up to n. The peer counts only where the primitive sends or receives.
static void range_append(struct rondo_plan *plan, uint32_t rank, int primitive, uint32_t first,
                         uint32_t width, uint32_t peer) {
  uint32_t n = plan->nranks;
  struct rondo_plan_op *op = &plan->ops[plan->op_count++];
  *op = (struct rondo_plan_op){.primitive = (uint16_t)primitive,
                               .send_peer = RONDO_PLAN_NO_PEER,
                               .recv_peer = RONDO_PLAN_NO_PEER,
                               .repeat = 1,
                               .first_chunk = (rank + first) % n,
                               .width = width};
  if (primitive & RONDO_PRIM_SEND)
    op->send_peer = rondo_plan_peer_number(&plan->send, (rank + peer) % n);
  if (primitive & RONDO_PRIM_RECV)
    op->recv_peer = rondo_plan_peer_number(&plan->recv, (rank + peer) % n);
}

// -------------------------------------------------------------------- halving ---

// The rounds of the halving algorithm. Round k begins with `from` chunks, n in round 0, and leaves
// `to` = ⌈from / 2⌉ of them, 1 in the last round. The chunks of rank r are those from r on.
struct halving {
  uint32_t round_count;
  struct halving_round {
    uint32_t from, to;
  } rounds[RONDO_PLAN_MAX_ROUNDS];
};

static struct halving halving_of(uint32_t n) {
  struct halving h = {0};
  for (uint32_t left = n; left > 1; left -= left / 2)
    h.rounds[h.round_count++] = (struct halving_round){left, left - left / 2};
  return h;
}

// The rounds in reverse: rank r has the results r … r + to - 1, sends those that rank r - to lacks
// to it, and gets the next ones from r + to. Without the first send, which the op before it makes.
static void gather_append(const struct rondo_plan_request *q, const struct halving *h,
                          struct rondo_plan *plan) {
  uint32_t rank = q->rank, n = q->nranks;
  for (uint32_t k = h->round_count; k-- > 0;) {
    uint32_t to = h->rounds[k].to, width = h->rounds[k].from - to;
    if (k + 1 < h->round_count)
      range_append(plan, rank, SEND_RESULT, 0, width, n - to);
    range_append(plan, rank, RECV_COPY, to, width, to);
  }
}

void rondo_plan_bruck_all_gather_build(const struct rondo_plan_request *request,
                                       struct rondo_plan *plan) {
  struct halving h = halving_of(request->nranks);
  range_append(plan, request->rank, COPY_SEND | RONDO_PRIM_IN_BASE, 0, 1, request->nranks - 1);
  gather_append(request, &h, plan);
}

// In each round rank r gives its sums of the chunks from r + to on to rank r + to, which has these
// chunks first, and adds what it gets from r - to to its own first ones. After the last round it
// has the result of chunk r. If n is odd, nothing is added to chunk r + to - 1 in round 0, so it is
// copied to where the sums are. `takes`, `puts`: flags of ops that read sums, or write them there;
// `last`: of the op that writes the result.
static void halving_append(const struct rondo_plan_request *q, const struct halving *h, int takes,
                           int puts, int last, struct rondo_plan *plan) {
  uint32_t rank = q->rank, n = q->nranks;
  for (uint32_t k = 0; k < h->round_count; k++) {
    uint32_t to = h->rounds[k].to, width = h->rounds[k].from - to;
    bool ends = k + 1 == h->round_count;
    range_append(plan, rank, SEND | (k == 0 ? 0 : takes), to, width, to);
    if (k == 0 && width < to)
      range_append(plan, rank, COPY | puts, to - 1, 1, 0);
    range_append(plan, rank, RECV_REDUCE_COPY | (k == 0 ? 0 : takes) | (ends ? last : puts), 0,
                 width, n - to);
  }
}

void rondo_plan_halving_all_reduce_build(const struct rondo_plan_request *request,
                                         struct rondo_plan *plan) {
  struct halving h = halving_of(request->nranks);
  halving_append(request, &h, RONDO_PRIM_RESULT, 0, RONDO_PRIM_FINAL, plan);
  struct rondo_plan_op *last = &plan->ops[plan->op_count - 1];
  uint32_t before = (request->rank + request->nranks - 1) % request->nranks;
  last->primitive |= RONDO_PRIM_SEND;
  last->send_peer = rondo_plan_peer_number(&plan->send, before);
  gather_append(request, &h, plan);
}

// The first half, with the sums in scratch: the receive buffer has one chunk.
void rondo_plan_halving_reduce_scatter_build(const struct rondo_plan_request *request,
                                             struct rondo_plan *plan) {
  struct halving h = halving_of(request->nranks);
  halving_append(request, &h, RONDO_PRIM_IN_SCRATCH, RONDO_PRIM_OUT_SCRATCH,
                 RONDO_PRIM_OUT_BASE | RONDO_PRIM_FINAL, plan);
  plan->scratch_first = request->rank;
  plan->scratch_count = h.round_count > 1 ? h.rounds[0].to : 0;
}

// ---------------------------------------------------------------- all-to-all ---

uint32_t rondo_plan_bruck_parts(uint32_t bit, uint32_t n) {
  uint32_t rest = n % (2 * bit);
  return n / (2 * bit) * bit + (rest > bit ? rest - bit : 0);
}

// Place i of scratch has what rank r is to send to r + i. In the round of a bit, what is at a place
// i with that bit goes on by the bit, and is at place i there again. After all rounds place i has
// what comes from r - i.
void rondo_plan_bruck_all_to_all_build(const struct rondo_plan_request *request,
                                       struct rondo_plan *plan) {
  uint32_t rank = request->rank, n = request->nranks;
  plan->scratch_first = rank;
  plan->scratch_count = n;
  range_append(plan, rank, COPY | RONDO_PRIM_OUT_SCRATCH, 0, n, 0);
  for (uint32_t bit = 1; bit < n; bit *= 2) {
    uint32_t width = rondo_plan_bruck_parts(bit, n);
    int runs = width > bit ? RONDO_PRIM_RUNS : 0;
    range_append(plan, rank, SEND | RONDO_PRIM_IN_SCRATCH | runs, bit, width, bit);
    plan->ops[plan->op_count - 1].chunk_stride = runs ? bit : 0;
    range_append(plan, rank, RECV_COPY | RONDO_PRIM_OUT_SCRATCH | runs, bit, width, n - bit);
    plan->ops[plan->op_count - 1].chunk_stride = runs ? bit : 0;
  }
  range_append(plan, rank, COPY | RONDO_PRIM_IN_SCRATCH | RONDO_PRIM_MIRROR, 1, n, 0);
}
