#include "runtime/order/spread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/api/rank.h"
#include "runtime/boot/peers.h"
#include "runtime/order/latest.h"

struct notice {
  uint64_t key;
  uint32_t rank; // of the sender
  int32_t status;
  char why[RONDO_REASON_BYTES];
};

// Member `rank` of communicator `key` has failed.
struct rondo_failure {
  struct rondo_latest link;
  uint64_t key;
  uint32_t rank;
  int status;
  char why[RONDO_REASON_BYTES];
};

static const struct rondo_failure *failure_of(const struct rondo_latest *l) {
  return (const struct rondo_failure *)l;
}

void rondo_comm_own(struct rondo_party *party) {
  party->next_owned = party->owner->parties;
  party->owner->parties = party;
}

void rondo_comm_disown(const struct rondo_party *party) {
  struct rondo_party **at = &party->owner->parties;
  while (*at && *at != party)
    at = &(*at)->next_owned;
  if (*at)
    *at = party->next_owned;
}

static struct rondo_comm_end *find_end(struct rondo_rank *rank, uint64_t key) {
  pthread_mutex_lock(&rank->comms_lock);
  struct rondo_comm_end *end = rank->comms;
  while (end && end->key != key)
    end = end->next;
  pthread_mutex_unlock(&rank->comms_lock);
  return end; // it does not go without the lock of the job
}

static int has_member(const struct rondo_comm_end *end, uint32_t rank) {
  for (uint32_t i = 0; i < end->nranks; i++)
    if (end->members[i] == rank)
      return 1;
  return 0;
}

static void mark_one(struct rondo_world *world, struct rondo_comm_end *end, int status,
                     const char *why) {
  if (rondo_load_relaxed_u32(&end->failed))
    return;
  (void)snprintf(end->why, sizeof end->why, "%s", why);
  rondo_store_release_u32(&end->failed, (uint32_t)status);
  end->next_failing = world->failing;
  world->failing = end;
}

// For members here that have not made their ends yet. Every process of the communicator says the same.
static void keep(struct rondo_world *world, const struct notice *n) {
  for (struct rondo_latest *l = world->failures.first; l; l = l->next)
    if (failure_of(l)->key == n->key && strcmp(failure_of(l)->why, n->why) == 0)
      return;
  struct rondo_failure *fresh = malloc(sizeof *fresh);
  if (!fresh)
    return; // who comes later learns the status from the calls of the others, and less of the reason
  *fresh = (struct rondo_failure){.key = n->key, .rank = n->rank, .status = n->status};
  memcpy(fresh->why, n->why, sizeof fresh->why);
  rondo_latest_keep(&world->failures, &fresh->link, RONDO_MOST_FAILURES);
}

void rondo_comm_inherit(struct rondo_comm_end *end) {
  struct rondo_world *world = end->rank->world;
  const struct rondo_failure *oldest = NULL;
  for (struct rondo_latest *l = world->failures.first; l; l = l->next)
    if (failure_of(l)->key == end->key && has_member(end, failure_of(l)->rank))
      oldest = failure_of(l);
  if (!oldest || RONDO_FAULT(COMM_FAILS_ALONE))
    return;
  mark_one(world, end, oldest->status, oldest->why);
  rondo_comms_spread(world);
}

// The next end here, from rank `*at` on, of the communicator that `rank` and `key` name; or null.
static struct rondo_comm_end *next_end(const struct rondo_world *world, uint64_t key, uint32_t rank,
                                       uint32_t *at) {
  while (*at < world->rank_count) {
    struct rondo_rank *here = world->members[(*at)++];
    struct rondo_comm_end *end = here ? find_end(here, key) : NULL;
    if (end && has_member(end, rank))
      return end;
  }
  return NULL;
}

static struct notice notice_of(const struct rondo_comm_end *end) {
  struct notice n = {.key = end->key, .rank = end->rank->cfg.rank};
  n.status = (int32_t)rondo_load_relaxed_u32(&end->failed);
  memcpy(n.why, end->why, sizeof n.why);
  return n;
}

// Tells the other processes of the communicator.
static void tell(struct rondo_world *world, const struct rondo_comm_end *end) {
  const struct notice n = notice_of(end);
  const struct rondo_party all = {.members = end->members, .nranks = end->nranks};
  if (world->mesh)
    rondo_peers_tell(world, &all, RONDO_NOTICE_COMM_FAILED, &n, sizeof n);
}

void rondo_comms_announce(struct rondo_world *world) {
  for (uint32_t r = 0; r < world->rank_count; r++) {
    struct rondo_rank *rank = world->members[r];
    if (!rank)
      continue;
    pthread_mutex_lock(&rank->comms_lock);
    for (const struct rondo_comm_end *end = rank->comms; end; end = end->next)
      if (rondo_load_relaxed_u32(&end->failed))
        tell(world, end);
    pthread_mutex_unlock(&rank->comms_lock);
  }
}

int rondo_comm_mark(struct rondo_world *world, struct rondo_comm_end *end, int status,
                    const char *why) {
  if (rondo_load_relaxed_u32(&end->failed))
    return 0;
  mark_one(world, end, status, why);
  if (RONDO_FAULT(COMM_FAILS_ALONE))
    return 1;
  uint32_t at = 0;
  struct rondo_comm_end *other;
  while ((other = next_end(world, end->key, end->rank->cfg.rank, &at)))
    mark_one(world, other, status, why);
  const struct notice n = notice_of(end);
  keep(world, &n);
  tell(world, end);
  return 1;
}

void rondo_comm_hear(struct rondo_world *world, struct rondo_comm_end *end,
                     const struct rondo_communicator *comm) {
  char why[RONDO_REASON_BYTES];
  uint32_t state = rondo_load_relaxed_u32(&comm->gate.state);
  if (state < RONDO_GATE_FAILED || rondo_load_relaxed_u32(&end->failed))
    return;
  rondo_communicator_reason(comm, why, sizeof why);
  (void)rondo_comm_mark(world, end, (int)(state - RONDO_GATE_FAILED), why);
}

void rondo_comms_spread(struct rondo_world *world) {
  if (world->is_failing)
    return; // whoever has called us does it
  world->is_failing = 1;
  while (world->failing) {
    struct rondo_comm_end *end = world->failing;
    world->failing = end->next_failing;
    for (struct rondo_party *p = end->parties; p && !RONDO_FAULT(COMM_FAILS_ALONE);
         p = p->next_owned)
      if (rondo_load_relaxed_u32(&p->comm->gate.state) < RONDO_GATE_FAILED)
        rondo_world_fail(world, p, (int)rondo_load_relaxed_u32(&end->failed));
  }
  world->is_failing = 0;
}

int rondo_comms_receive(struct rondo_world *world, uint32_t process, const void *bytes,
                        size_t size) {
  struct notice n;
  if (size != sizeof n)
    return 0;
  memcpy(&n, bytes, sizeof n);
  if (n.rank >= world->rank_count || rondo_peers_where(world, n.rank) != process ||
      n.status <= RONDO_SUCCESS || n.status >= RONDO_IN_PROGRESS ||
      !memchr(n.why, '\0', sizeof n.why))
    return 0;
  // Whoever hears of it says so before its collectives fail: the reason goes ahead of what it explains.
  uint32_t at = 0;
  struct rondo_comm_end *end;
  while ((end = next_end(world, n.key, n.rank, &at)))
    (void)rondo_comm_mark(world, end, n.status, n.why);
  keep(world, &n);
  rondo_comms_spread(world);
  return 1;
}
