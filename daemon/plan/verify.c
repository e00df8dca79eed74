// The part of the plan verifier that lets all ranks execute their plans (verify_member.h).
#include "daemon/plan/verify.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/plan/build.h"
#include "daemon/plan/verify_member.h"
#include "daemon/plan/verify_shape.h"
#include "rondo/status.h"
#include "rondo/types.h"

// splitmix64: every seed gives another order, the same on every machine.
static uint64_t random_next(struct rondo_verify_machine *m) {
  uint64_t z = m->random += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

// Lets the first rank at or after `start` that can step do so, up to `burst` times.
static enum rondo_verify_result machine_step(const struct rondo_verify_machine *m, uint32_t start,
                                             uint32_t burst) {
  uint32_t n = m->what->nranks, ended = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t rank = (start + i) % n;
    enum rondo_verify_result result = rondo_verify_member_step(m, rank);
    for (uint32_t more = 1; result == RONDO_VERIFY_DONE && more < burst; more++) {
      enum rondo_verify_result next = rondo_verify_member_step(m, rank);
      if (next == RONDO_VERIFY_FAULT || next == RONDO_VERIFY_NO_MEMORY)
        return next;
    }
    if (result != RONDO_VERIFY_BLOCKED && result != RONDO_VERIFY_ENDED)
      return result;
    ended += result == RONDO_VERIFY_ENDED;
  }
  return ended == n ? RONDO_VERIFY_ENDED : RONDO_VERIFY_BLOCKED;
}

// Reports the first rank that waits for ever.
static void deadlock_report(const struct rondo_verify_machine *m) {
  uint32_t rank = 0;
  while (rank < m->what->nranks && rondo_verify_member_end_check(m, rank))
    rank++;
}

static bool connectors_check(const struct rondo_verify_machine *m) {
  for (uint32_t i = 0; i < m->connector_count; i++) {
    const struct rondo_verify_connector *connector = &m->connectors[i];
    struct rondo_plan_where at = {connector->from, RONDO_PLAN_NOWHERE, RONDO_PLAN_NOWHERE};
    if (connector->count != 0)
      return rondo_plan_verify_fault(m->report, at, "leaves %u chunks in its connector to rank %u",
                                     connector->count, connector->to);
  }
  return true;
}

// Returns an enum rondo_status.
static int machine_run(struct rondo_verify_machine *m) {
  enum rondo_verify_result result = RONDO_VERIFY_DONE;
  for (uint32_t turn = 0; result == RONDO_VERIFY_DONE; turn = (turn + 1) % m->what->nranks) {
    uint32_t start = turn, burst = 1;
    if (m->what->seed != 0) {
      start = (uint32_t)(random_next(m) % m->what->nranks);
      burst = 1 + (uint32_t)(random_next(m) % 8);
    }
    result = machine_step(m, start, burst);
  }
  if (result == RONDO_VERIFY_NO_MEMORY)
    return RONDO_ERR_NO_MEMORY;
  if (result == RONDO_VERIFY_BLOCKED)
    deadlock_report(m);
  return result == RONDO_VERIFY_ENDED && connectors_check(m) ? RONDO_SUCCESS : RONDO_ERR_INTERNAL;
}

// The connector from `rank` to its send peer `index`, known to both ends.
static bool connector_init(struct rondo_verify_machine *m, uint32_t rank, uint32_t index) {
  const struct rondo_plan_verify_case *what = m->what;
  uint32_t to = rondo_plan_peer(&what->plans[rank], &what->plans[rank].send, index);
  const struct rondo_plan *peer = &what->plans[to];
  struct rondo_verify_connector *c = &m->connectors[m->connector_count++];
  c->from = rank;
  c->to = to;
  c->slots = calloc(what->slots, sizeof(*c->slots));
  c->taken_at = calloc(what->slots, sizeof(*c->taken_at));
  assert(m->members[to].recv != NULL); // all members were made before
  m->members[rank].send[index] = c;
  m->members[to].recv[rondo_plan_verify_peer_find(peer, &peer->recv, peer->recv.count, rank)] = c;
  return c->slots != NULL && c->taken_at != NULL;
}

static void connector_fini(const struct rondo_verify_machine *m, struct rondo_verify_connector *c) {
  for (uint32_t i = 0; i < c->count; i++)
    free(c->slots[(c->head + i) % m->what->slots].clock);
  free(c->slots);
  free(c->taken_at);
}

static void machine_fini(struct rondo_verify_machine *m) {
  for (uint32_t i = 0; i < m->connector_count; i++)
    connector_fini(m, &m->connectors[i]);
  for (uint32_t rank = 0; m->members != NULL && rank < m->what->nranks; rank++)
    rondo_verify_member_fini(&m->members[rank]);
  free(m->connectors);
  free(m->members);
  free(m->orders);
  free(m->value_set);
}

// On failure, what was allocated is for machine_fini.
static bool machine_init(struct rondo_verify_machine *m) {
  size_t most = 1;
  for (uint32_t rank = 0; rank < m->what->nranks; rank++)
    most += m->what->plans[rank].send.count;
  m->random = m->what->seed;
  m->set_words = (m->what->nranks + 63) / 64;
  m->value_set = calloc(m->set_words, sizeof(*m->value_set));
  m->members = calloc(m->what->nranks, sizeof(*m->members));
  m->connectors = calloc(most, sizeof(*m->connectors));
  m->orders = calloc((size_t)m->what->loops * m->what->plans[0].chunk_count, sizeof(*m->orders));
  if (m->members == NULL || m->connectors == NULL || m->value_set == NULL || m->orders == NULL)
    return false;
  for (uint32_t rank = 0; rank < m->what->nranks; rank++) {
    if (!rondo_verify_member_init(m, rank))
      return false;
  }
  for (uint32_t rank = 0; rank < m->what->nranks; rank++)
    for (uint32_t i = 0; i < m->what->plans[rank].send.count; i++)
      if (!connector_init(m, rank, i))
        return false;
  return true;
}

static bool case_is_valid(const struct rondo_plan_verify_case *what) {
  bool rooted = rondo_plan_is_rooted(what->kind);
  if (what->in_place && rondo_verify_kind_is_exchange(what->kind))
    return false;
  if ((what->kind == RONDO_SEND_RECV && what->nranks > 2) ||
      (what->pair_loops && what->kind != RONDO_ALL_TO_ALL_V))
    return false;
  if (what->plans == NULL || what->nranks < 1 || what->nranks > RONDO_PLAN_VERIFY_MAX_RANKS ||
      (what->plans[0].chunk_count > RONDO_PLAN_VERIFY_FEW_PARTS &&
       what->nranks > RONDO_PLAN_VERIFY_MAX_PARTS && !what->one_chunk))
    return false;
  if (what->one_chunk &&
      (rondo_verify_kind_is_exchange(what->kind) || what->one_chunk > what->plans[0].chunk_count))
    return false;
  return what->kind >= 0 && what->kind < RONDO_KIND_COUNT &&
         (!rooted || what->root < what->nranks) && what->slots >= 1 && what->loops >= 1;
}

int rondo_plan_verify(const struct rondo_plan_verify_case *what,
                      struct rondo_plan_verify_report *report) {
  struct rondo_verify_machine m = {.what = what, .report = report};
  memset(report, 0, sizeof(*report));
  report->rank = report->op = report->chunk = RONDO_PLAN_NOWHERE;
  if (!case_is_valid(what))
    return RONDO_ERR_INVALID;
  if (!rondo_plan_verify_shape(what, report))
    return RONDO_ERR_INTERNAL;
  int status = RONDO_ERR_NO_MEMORY;
  if (machine_init(&m))
    status = machine_run(&m);
  machine_fini(&m);
  return status;
}
