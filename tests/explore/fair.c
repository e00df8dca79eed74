// Checks two promises of a block against the connectors, not against what the block believes: a
// collective that can progress has its turn after a bounded number of turns of others, and nothing
// is probed twice in vain while another collective can progress.
#include "daemon/host/host.h"
#include "tests/explore/machine.h"

#define TURNS_MAX 24u         // of others until a collective that can move has its own
#define TURNS_MAX_URGENT 320u // the same with priorities

static uint32_t rank_of(const struct rondo_host_block *block) {
  const struct rondo_rank *rank = block->daemon->base.owner;
  return rank->cfg.rank;
}

static int has_room(const struct rondo_endpoint *e) {
  const struct rondo_connector *c = rondo_endpoint_connector(e);
  return e->sequence - c->consumed < c->slot_count;
}

static int has_data(const struct rondo_endpoint *e) {
  return rondo_endpoint_slot(e)->mark == e->sequence + 1;
}

static int chunk_can_move(const struct rondo_task_context *c) {
  uint32_t primitive = rondo_context_op(c)->primitive;
  if (rondo_chunk_is_absent(c))
    return 1;
  return (!(primitive & RONDO_PRIM_SEND) || has_room(rondo_context_send(c))) &&
         (!(primitive & RONDO_PRIM_RECV) || has_data(rondo_context_recv(c))) &&
         !((primitive & RONDO_PRIM_RECV) && rondo_endpoint_connector(rondo_context_recv(c))->shut);
}

// True if a step would progress the run. Leaves its failure aside, which blocks may see later.
static int can_move(const struct rondo_block *b, uint32_t index) {
  const struct rondo_task_context *c = rondo_block_context(b, index);
  uint32_t state = rondo_context_gate(c)->state;
  switch (c->state.phase) {
  case RONDO_PHASE_GATE:
    return state == RONDO_GATE_OPEN && rondo_context_is_due(c);
  case RONDO_PHASE_OPS:
    return chunk_can_move(c);
  default: // what follows the plan is short, and other words announce it
    return 0;
  }
}

static uint32_t ready_ones(const struct rondo_block *b) {
  uint32_t ready = 0;
  for (uint32_t i = 0; i < b->queue.count; i++) {
    uint32_t index = rondo_task_index(rondo_task_entries(&b->queue)[i]);
    ready |= (uint32_t)can_move(b, index) << index;
  }
  return ready;
}

static void watch_turns(struct explore_machine *m, const struct rondo_host_block *block,
                        struct explore_fairness *f, uint32_t ready) {
  const struct rondo_block *b = &block->core;
  uint64_t turn = b->counters.preemptions + b->counters.ended + block->launches;
  uint32_t most = b->daemon->policy.order == RONDO_ORDER_PRIORITY ? TURNS_MAX_URGENT : TURNS_MAX;
  uint32_t now = rondo_task_index(rondo_task_queue_current(&b->queue));
  if (f->turn == turn)
    return;
  f->turn = turn;
  explore_trace(m, "turn of entry %u", now);
  for (uint32_t i = 0; i < b->queue.count; i++) {
    uint32_t task = rondo_task_index(rondo_task_entries(&b->queue)[i]);
    f->others[task] = task == now || !(ready >> task & 1) ? 0 : f->others[task] + 1;
    if (f->others[task] > most)
      explore_fail(m, EXPLORE_STUCK,
                   "rank %u block %u: entry %u starves: it could move for %u turns of others",
                   rank_of(block), b->index, task, f->others[task]);
  }
}

static void watch_probes(struct explore_machine *m, const struct rondo_host_block *block,
                         struct explore_fairness *f, uint32_t ready) {
  const struct rondo_block *b = &block->core;
  uint32_t now = rondo_task_index(rondo_task_queue_current(&b->queue));
  uint64_t progress =
      b->counters.primitives + b->counters.ended + b->counters.fetched + block->launches;
  uint32_t instead = ready & f->was_ready & ~(UINT32_C(1) << now);
  if (b->daemon->policy.look_ns == 0 && f->probed == now + 1 && f->progress == progress &&
      rondo_block_context(b, now)->state.phase == RONDO_PHASE_OPS && !(ready >> now & 1) && instead)
    explore_fail(m, EXPLORE_WRONG,
                 "rank %u block %u: entry %u is probed in vain while others (%x) can move",
                 rank_of(block), b->index, now, instead);
  f->probed = now + 1;
  f->progress = progress;
  f->was_ready = ready;
}

void explore_fair_watch(struct explore_machine *m, const struct rondo_host_block *block) {
  const struct rondo_block *b = &block->core;
  if (m->has_comms || m->has_nccl || b->daemon->policy.budget == RONDO_BUDGET_NEVER)
    return;
  struct explore_fairness *f = &m->ranks[rank_of(block)].fairness[b->index];
  uint32_t ready = ready_ones(b);
  watch_turns(m, block, f, ready);
  watch_probes(m, block, f, ready);
}
