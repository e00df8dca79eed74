// What the applications of the ranks call, and their checks of the results.
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "tests/explore/comm.h"
#include "tests/explore/machine.h"
#include "tests/explore/nccl.h"
#include "tests/support/tied.h"

#define GUARD_BYTES 32u
#define GUARD 0xa5
#define SCRIBBLE 0xee

static const struct explore_period *period_of(const struct explore_machine *m,
                                              const struct explore_run *run) {
  return &m->program.colls[run->coll].periods[run->period];
}

static struct explore_key key_of(const struct explore_machine *m, const struct explore_run *run) {
  return explore_key_make(m->program.seed, &m->program.colls[run->coll], run->period, run->number);
}

// ------------------------------------------------------------------ buffers ---

// 1 send, 2 receive: what the kind uses at that position.
static int used_buffers(const struct explore_period *d, uint32_t position) {
  int is_root = position == d->root;
  switch (d->kind) {
  case RONDO_REDUCE:
  case RONDO_GATHER:
    return is_root ? 3 : 1;
  case RONDO_BROADCAST:
  case RONDO_SCATTER:
    return is_root ? 3 : 2;
  case RONDO_SEND_RECV:
    return d->nranks == 1 ? 3 : is_root ? 1 : 2;
  case RONDO_BARRIER:
    return 0;
  default:
    return 3;
  }
}

static int may_be_in_place(const struct explore_period *d, uint32_t position) {
  return used_buffers(d, position) == 3 && d->count && d->odd == EXPLORE_NOBODY &&
         d->kind != RONDO_ALL_TO_ALL && d->kind != RONDO_ALL_TO_ALL_V;
}

static void lay_out(struct explore_machine *m, struct explore_run *run) {
  const struct explore_period *d = period_of(m, run);
  size_t elem_bytes = rondo_dtype_bytes(d->dtype);
  size_t part = d->count * elem_bytes * run->position;
  size_t skew = random_below(&m->random, 16);
  int is_odd = d->odd != EXPLORE_NOBODY; // some member's buffers are larger: keep them apart
  size_t gap = GUARD_BYTES + (is_odd ? 8 * (d->count + 1) * (size_t)d->nranks : 0);
  run->in_place = may_be_in_place(d, run->position) && random_chance(&m->random, 30);
  run->send_bytes = explore_send_count(d, run->position) * elem_bytes;
  run->recv_bytes = explore_recv_count(d, run->position) * elem_bytes;
  run->memory_bytes = run->send_bytes + run->recv_bytes + 3 * gap + skew;
  run->is_shared = m->program.process_count > 1 && random_chance(&m->random, 70);
  if (run->is_shared) {
    void *memory = NULL;
    int status = rondo_mem_alloc(m->ranks[run->rank].ctx, run->memory_bytes, &memory);
    if (status != RONDO_SUCCESS)
      abort();
    run->memory = memory;
  } else {
    run->memory = malloc(run->memory_bytes);
  }
  memset(run->memory, GUARD, run->memory_bytes);
  run->recv = run->memory + gap + skew;
  run->send = run->recv + run->recv_bytes + gap;
  if (run->in_place && (d->kind == RONDO_REDUCE_SCATTER || d->kind == RONDO_SCATTER)) {
    run->send = run->recv;
    run->recv = run->send + part;
  } else if (run->in_place) {
    int gathers = d->kind == RONDO_ALL_GATHER || d->kind == RONDO_GATHER;
    run->send = run->recv + (gathers ? part : 0);
  }
}

void explore_run_fill(const struct explore_machine *m, struct explore_run *run) {
  const struct explore_period *d = period_of(m, run);
  struct explore_key key = key_of(m, run);
  explore_fill(&key, run->position, run->send, 0, explore_send_count(d, run->position));
}

// 1 if no byte outside the two buffers has changed.
static int guards_hold(const struct explore_run *run) {
  const char *at = run->memory;
  for (; at < run->memory + run->memory_bytes; at++) {
    int inside = (at >= run->send && at < run->send + run->send_bytes) ||
                 (at >= run->recv && at < run->recv + run->recv_bytes);
    if (!inside && (unsigned char)*at != GUARD)
      return 0;
  }
  return 1;
}

// ----------------------------------------------------------------- checking ---

// 1 if the run may end so.
static int may_end_with(const struct explore_machine *m, const struct explore_run *run,
                        int status) {
  const struct explore_period *d = period_of(m, run);
  if (!m->is_submitting)
    return 1; // cleared up after a standstill
  if (d->odd != EXPLORE_NOBODY)
    return status == RONDO_ERR_MISMATCH || status == RONDO_ERR_PEER;
  if (run->after_abort)
    return status == RONDO_ERR_ABORTED || status == RONDO_ERR_PEER; // what came first
  if (m->tainted[run->coll][run->period])
    return status == RONDO_SUCCESS || status == RONDO_ERR_ABORTED || status == RONDO_ERR_PEER;
  // A rank that only sends may be through before the other one leaves.
  int is_common = run->number < explore_common_runs(d);
  return status == RONDO_SUCCESS || (!is_common && status == RONDO_ERR_PEER);
}

static void check_status(struct explore_machine *m, const struct explore_run *run, int status) {
  if (!may_end_with(m, run, status))
    explore_fail(m, EXPLORE_WRONG, "rank %u coll %u period %u run %u ended with %s", run->rank,
                 run->coll, run->period, run->number, rondo_status_name(status));
}

int64_t explore_run_find_wrong(const struct explore_machine *m, const struct explore_run *run) {
  struct explore_key key = key_of(m, run);
  if (!(used_buffers(period_of(m, run), run->position) & 2))
    return -1;
  return explore_find_wrong(&key, run->position, run->recv);
}

static void check_data(struct explore_machine *m, const struct explore_run *run) {
  struct explore_key key = key_of(m, run);
  int64_t wrong = run->status == RONDO_SUCCESS ? explore_run_find_wrong(m, run) : -1;
  if (wrong >= 0)
    explore_fail(m, EXPLORE_WRONG, "rank %u coll %u period %u run %u: element %lld is wrong",
                 run->rank, run->coll, run->period, run->number, (long long)wrong);
  wrong = run->in_place ? -1 : explore_find_changed(&key, run->position, run->send);
  if (wrong >= 0)
    explore_fail(m, EXPLORE_WRONG, "rank %u coll %u period %u run %u: input %lld was changed",
                 run->rank, run->coll, run->period, run->number, (long long)wrong);
  if (!guards_hold(run))
    explore_fail(m, EXPLORE_WRONG, "rank %u coll %u period %u run %u: a byte beside the buffers",
                 run->rank, run->coll, run->period, run->number);
}

// A quantised result is inexact, and the same on all ranks.
static void check_bits(struct explore_machine *m, const struct explore_run *run) {
  uint64_t *bits = &m->bits[run->coll][run->period][run->number];
  if (!period_of(m, run)->quantisation || run->status != RONDO_SUCCESS)
    return;
  uint64_t own = rondo_digest_bytes(1, run->recv, run->recv_bytes) | 1;
  if (*bits && *bits != own)
    explore_fail(m, EXPLORE_WRONG, "rank %u coll %u period %u run %u: other bits than another rank",
                 run->rank, run->coll, run->period, run->number);
  *bits = own;
}

// A barrier ends for nobody before it has begun for all.
static void check_barrier(struct explore_machine *m, const struct explore_run *run) {
  const struct explore_period *d = period_of(m, run);
  if (d->kind != RONDO_BARRIER || run->status != RONDO_SUCCESS)
    return;
  for (uint32_t i = 0; i < d->nranks; i++) {
    const struct explore_member *other = &m->ranks[d->members[i]].members[run->coll];
    if (other->period < run->period ||
        (other->period == run->period && other->submitted <= run->number))
      explore_fail(m, EXPLORE_WRONG, "rank %u coll %u period %u run %u ended before rank %u came",
                   run->rank, run->coll, run->period, run->number, d->members[i]);
  }
}

static void run_end(struct explore_machine *m, struct explore_run *run, int status) {
  explore_trace(m, "rank %u coll %u period %u run %u ended: %s", run->rank, run->coll, run->period,
                run->number, rondo_status_name(status));
  run->ended = 1;
  run->status = status;
  check_status(m, run, status);
  check_barrier(m, run);
  // A mismatch may be one of sizes.
  if (period_of(m, run)->odd == EXPLORE_NOBODY && (!run->is_tied || run->rung)) {
    check_data(m, run);
    check_bits(m, run);
  }
  if (run->is_tied)
    explore_stream_end(m, run, status);
  memset(run->memory, SCRIBBLE, run->memory_bytes);
}

void explore_app_sweep(struct explore_machine *m, uint32_t rank) {
  struct explore_rank *r = &m->ranks[rank];
  if (m->has_comms)
    explore_comm_sweep(m, rank);
  for (uint32_t c = 0; c < m->program.coll_count; c++) {
    struct explore_member *member = &r->members[c];
    while (member->registered && member->ended < member->submitted && !m->verdict) {
      uint64_t number = m->program.manual.first_run + member->ended + 1;
      int status = rondo_test(r->ctx, member->handle, number);
      if (status == RONDO_IN_PROGRESS)
        break;
      run_end(m, &member->runs[member->period][member->ended], status);
      member->ended++;
    }
  }
}

static struct explore_machine *calling; // callbacks have one argument

static void called_back(void *arg, int status) {
  struct explore_run *run = arg;
  struct explore_machine *m = calling;
  struct explore_rank *r = &m->ranks[run->rank];
  explore_trace(m, "rank %u coll %u period %u run %u called back: %s", run->rank, run->coll,
                run->period, run->number, rondo_status_name(status));
  if (run->called++ || !run->ended)
    explore_fail(m, EXPLORE_WRONG, "rank %u coll %u run %u: called back %s", run->rank, run->coll,
                 run->number, run->ended ? "twice" : "before it ended");
  run->callback_status = status;
  check_status(m, run, status);
  r->callbacks_called++;
}

// ------------------------------------------------------------------ actions ---

// The parts of an all-to-all-v: good until the next call.
static void describe_pairs(const struct explore_period *d, uint32_t position,
                           struct rondo_collective_desc *desc) {
  static uint64_t sends[EXPLORE_RANKS], receives[EXPLORE_RANKS];
  for (uint32_t i = 0; i < d->nranks; i++) {
    sends[i] = explore_pair_count(d, position, i);
    receives[i] = explore_pair_count(d, i, position);
  }
  desc->count = 0;
  desc->send_counts = sends;
  desc->recv_counts = receives;
}

static struct rondo_collective_desc describe(const struct explore_machine *m, uint32_t coll,
                                             uint32_t position, uint32_t rank) {
  const struct explore_coll *c = &m->program.colls[coll];
  const struct explore_period *d = &c->periods[m->ranks[rank].members[coll].period];
  struct rondo_collective_desc desc = rondo_all_reduce(c->id, d->count, d->dtype, d->redop);
  desc.kind = d->kind;
  int rooted = d->kind == RONDO_REDUCE || d->kind == RONDO_BROADCAST || d->kind == RONDO_GATHER ||
               d->kind == RONDO_SCATTER || d->kind == RONDO_SEND_RECV;
  desc.root = rooted ? d->root : 0;
  desc.peer = (desc.root + 1) % d->nranks;
  if (d->kind == RONDO_ALL_TO_ALL_V)
    describe_pairs(d, position, &desc);
  desc.quantisation = d->quantisation;
  desc.priority = c->priority[rank];
  desc.scalar = explore_scalar(position);
  if (d->odd != position)
    return desc;
  int has_count = d->kind != RONDO_ALL_TO_ALL_V && d->kind != RONDO_BARRIER;
  if (d->oddness == 0 && has_count)
    desc.count++;
  else if (d->oddness <= 1)
    desc.kind = d->kind == RONDO_ALL_REDUCE ? RONDO_BROADCAST : RONDO_ALL_REDUCE;
  else if (d->oddness == 2)
    desc.dtype = d->dtype == RONDO_INT8 ? RONDO_UINT8 : RONDO_INT8;
  else
    desc.root = (desc.root + 1) % d->nranks;
  if (desc.kind != RONDO_ALL_REDUCE || desc.dtype != RONDO_FLOAT32)
    desc.quantisation = 0;
  desc.peer = (desc.root + 1) % d->nranks;
  if (desc.kind == RONDO_BROADCAST || desc.kind == RONDO_ALL_GATHER)
    desc.redop = RONDO_SUM;
  return desc;
}

static void expect(struct explore_machine *m, int status, const char *call, uint32_t rank,
                   uint32_t coll) {
  if (status != RONDO_SUCCESS)
    explore_fail(m, EXPLORE_WRONG, "%s of rank %u coll %u returned %s", call, rank, coll,
                 rondo_status_name(status));
}

static void act_register(struct explore_machine *m, uint32_t rank, uint32_t coll) {
  struct explore_rank *r = &m->ranks[rank];
  struct explore_member *member = &r->members[coll];
  const struct explore_period *d = &m->program.colls[coll].periods[member->period];
  struct rondo_collective_desc desc = describe(m, coll, explore_position(d, rank), rank);
  explore_trace(m, "rank %u registers coll %u period %u: %s of %u × %s, %s, %u ranks, %u runs",
                rank, coll, member->period, rondo_kind_name(desc.kind), (unsigned)desc.count,
                rondo_dtype_name(desc.dtype), rondo_redop_name(desc.redop), d->nranks,
                d->runs[explore_position(d, rank)]);
  expect(m, rondo_group_create(r->ctx, d->members, d->nranks, &desc.group), "group_create", rank,
         coll);
  expect(m, rondo_register(r->ctx, &desc, &member->handle), "register", rank, coll);
  expect(m, rondo_group_destroy(r->ctx, desc.group), "group_destroy", rank, coll);
  member->registered = 1;
  member->aborted = 0;
  member->submitted = member->ended = 0;
}

static void act_run(struct explore_machine *m, uint32_t rank, uint32_t coll) {
  struct explore_rank *r = &m->ranks[rank];
  struct explore_member *member = &r->members[coll];
  const struct explore_period *d = &m->program.colls[coll].periods[member->period];
  uint32_t number = member->submitted;
  struct explore_run *run = &member->runs[member->period][number];
  struct rondo_run_args args = {0};
  uint64_t given = 0;
  *run = (struct explore_run){.rank = rank, .coll = coll, .period = member->period};
  run->number = number;
  run->position = explore_position(d, rank);
  run->after_abort = member->aborted;
  run->wants_callback = random_below(&m->random, 2) || m->wants_callbacks;
  lay_out(m, run);
  struct rondo_tie tie = explore_stream_tie(m, run);
  if (!run->is_tied)
    explore_run_fill(m, run);
  int used = used_buffers(d, run->position);
  int spare = d->odd == EXPLORE_NOBODY && random_chance(&m->random, 50);
  args.send = (used & 1) || !spare ? run->send : NULL;
  args.recv = (used & 2) || !spare ? run->recv : NULL;
  args.callback = run->wants_callback ? called_back : NULL;
  args.arg = run;
  r->callbacks_due += run->wants_callback;
  member->submitted++;
  explore_trace(m, "rank %u submits coll %u period %u run %u%s%s", rank, coll, member->period,
                number, run->in_place ? ", in place" : "", run->is_tied ? ", tied" : "");
  expect(m, rondo_test_run_tied(r->ctx, member->handle, &args, &tie, &given), "run", rank, coll);
  if (!m->verdict && given != m->program.manual.first_run + number + 1)
    explore_fail(m, EXPLORE_WRONG, "rank %u coll %u: run %u got number %llu", rank, coll, number,
                 (unsigned long long)given);
}

static void act_deregister(struct explore_machine *m, uint32_t rank, uint32_t coll) {
  struct explore_member *member = &m->ranks[rank].members[coll];
  explore_trace(m, "rank %u deregisters coll %u period %u", rank, coll, member->period);
  expect(m, rondo_deregister(m->ranks[rank].ctx, member->handle), "deregister", rank, coll);
  member->registered = 0;
  member->period++;
}

static void act_abort(struct explore_machine *m, uint32_t rank) {
  struct explore_rank *r = &m->ranks[rank];
  explore_trace(m, "rank %u aborts", rank);
  m->aborts_left--;
  for (uint32_t c = 0; c < m->program.coll_count; c++) {
    if (!r->members[c].registered)
      continue;
    r->members[c].aborted = 1;
    m->tainted[c][r->members[c].period] = 1;
  }
  expect(m, rondo_abort(r->ctx), "abort", rank, 0);
}

// Records the launches that must leave, as rondo_device_synchronize does at its start.
static void act_synchronize(struct explore_machine *m, uint32_t rank) {
  struct explore_rank *r = &m->ranks[rank];
  const struct rondo_host_daemon *d = rondo_host_daemon_of(r->rank->member.daemon);
  explore_trace(m, "rank %u synchronises with its device", rank);
  for (uint32_t b = 0; b < d->core.block_count; b++) {
    const struct rondo_host_block *block = &d->blocks[b];
    int coming = b == 0 && block->launches == block->leaves && rondo_sq_has_entry(&d->base.sq);
    r->launches[b] = block->launches + (uint64_t)coming;
  }
  r->is_syncing = 1;
}

static int is_synchronized(struct explore_rank *r) {
  const struct rondo_host_daemon *d = rondo_host_daemon_of(r->rank->member.daemon);
  for (uint32_t b = 0; b < d->core.block_count; b++)
    if (d->blocks[b].leaves < r->launches[b])
      return 0;
  r->is_syncing = 0;
  return 1;
}

// The next act for a collective of the rank, if it is possible now.
static enum explore_action next_action(const struct explore_machine *m, uint32_t rank,
                                       uint32_t coll) {
  const struct explore_coll *c = &m->program.colls[coll];
  const struct explore_member *member = &m->ranks[rank].members[coll];
  if (member->period == c->period_count)
    return EXPLORE_NOTHING;
  const struct explore_period *d = &c->periods[member->period];
  uint32_t position = explore_position(d, rank);
  if (position == EXPLORE_NOBODY)
    return EXPLORE_NOTHING;
  if (!member->registered)
    return EXPLORE_REGISTER;
  if (member->submitted < d->runs[position])
    return EXPLORE_SUBMIT;
  int is_last = member->period + 1 == c->period_count && !m->program.last_deregister;
  int is_over = member->ended == member->submitted && !is_last;
  return is_over ? EXPLORE_DEREGISTER : EXPLORE_NOTHING;
}

int explore_app_is_done(const struct explore_machine *m, uint32_t rank) {
  const struct explore_rank *r = &m->ranks[rank];
  if (m->has_comms)
    return explore_comm_is_done(m, rank);
  if (m->has_nccl)
    return explore_nccl_is_done(m, rank);
  for (uint32_t c = 0; c < m->program.coll_count; c++) {
    if (next_action(m, rank, c) || r->members[c].ended < r->members[c].submitted)
      return 0;
  }
  return r->callbacks_called == r->callbacks_due;
}

// A collective with something to do, the last one's neighbour or itself while its burst lasts.
static enum explore_action choose(struct explore_machine *m, uint32_t rank, uint32_t *coll) {
  struct explore_rank *r = &m->ranks[rank];
  uint32_t count = m->program.coll_count;
  if (r->burst_left && next_action(m, rank, r->burst_coll) == EXPLORE_SUBMIT) {
    r->burst_left--;
    *coll = r->burst_coll;
    return EXPLORE_SUBMIT;
  }
  uint32_t first = random_below(&m->random, count);
  for (uint32_t i = 0; i < count; i++) {
    enum explore_action action = next_action(m, rank, (first + i) % count);
    if (!action)
      continue;
    *coll = r->burst_coll = (first + i) % count;
    r->burst_left = random_below(&m->random, m->program.burst);
    return action;
  }
  return EXPLORE_NOTHING;
}

void explore_app_perform(struct explore_machine *m, uint32_t rank, int action, uint32_t coll) {
  calling = m;
  switch (action) {
  case EXPLORE_REGISTER:
    act_register(m, rank, coll);
    break;
  case EXPLORE_SUBMIT:
    act_run(m, rank, coll);
    break;
  case EXPLORE_DEREGISTER:
    act_deregister(m, rank, coll);
    break;
  case EXPLORE_SYNCHRONIZE:
    act_synchronize(m, rank);
    break;
  default:
    break;
  }
}

int explore_app_act(struct explore_machine *m, uint32_t rank) {
  struct explore_rank *r = &m->ranks[rank];
  uint32_t coll = 0;
  if (m->has_comms)
    return explore_comm_act(m, rank);
  if (m->has_nccl)
    return explore_nccl_act(m, rank);
  if (r->is_syncing)
    return is_synchronized(r);
  if (m->aborts_left && m->is_submitting && random_chance(&m->random, 2)) {
    act_abort(m, rank);
    return 1;
  }
  enum explore_action action = m->is_submitting ? choose(m, rank, &coll) : EXPLORE_NOTHING;
  if (action && random_chance(&m->random, m->program.sync_percent))
    action = EXPLORE_SYNCHRONIZE;
  explore_app_perform(m, rank, action, coll);
  return action != EXPLORE_NOTHING;
}
