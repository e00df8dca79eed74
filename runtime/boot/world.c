#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/driver/driver.h"
#include "runtime/api/rank.h"
#include "runtime/boot/world.h"
#include "runtime/observe/log.h"

static pthread_mutex_t worlds_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rondo_world *worlds;

// How often a rank has registered an id.
struct enrolment {
  uint32_t rank;
  uint64_t times;
};

// Where the registrations of one id meet.
struct meeting {
  uint64_t id;
  struct rondo_party *parties;
  struct enrolment *enrolments;
  uint32_t enrolment_count, enrolment_capacity;
};

// ------------------------------------------------------------------ worlds ---

static int is_private(const struct rondo_unique_id *id) {
  static const struct rondo_unique_id none;
  return memcmp(id, &none, sizeof none) == 0;
}

static struct rondo_world *world_find(const struct rondo_unique_id *id) {
  if (is_private(id))
    return NULL;
  for (struct rondo_world *w = worlds; w; w = w->next)
    if (memcmp(&w->id, id, sizeof *id) == 0)
      return w;
  return NULL;
}

static struct rondo_world *world_create(const struct rondo_config *cfg,
                                        const struct rondo_driver *driver) {
  char why[RONDO_WHY_BYTES];
  struct rondo_world *w = calloc(1, sizeof *w);
  if (!w)
    return NULL;
  w->members = calloc(cfg->rank_count, sizeof(struct rondo_rank *));
  if (!w->members || driver->open(cfg, &w->device, why) != RONDO_SUCCESS) {
    free(w->members);
    free(w);
    return NULL;
  }
  w->id = cfg->id;
  w->rank_count = cfg->rank_count;
  pthread_mutex_init(&w->lock, NULL);
  rondo_pool_init(&w->pool, cfg->connector_bytes, w->device, NULL);
  w->next = worlds;
  worlds = w;
  return w;
}

int rondo_world_join(const struct rondo_config *cfg, struct rondo_rank *rank,
                     struct rondo_world **world) {
  int status = RONDO_SUCCESS;
  pthread_mutex_lock(&worlds_lock);
  struct rondo_world *w = world_find(&cfg->id);
  if (!w)
    w = world_create(cfg, rank->device->driver);
  if (!w) {
    status = RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "init: no memory for a job of %u ranks",
                              cfg->rank_count);
  } else if (w->rank_count != cfg->rank_count) {
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                              "init: rank %u says the job has %u ranks, others say %u", cfg->rank,
                              cfg->rank_count, w->rank_count);
  } else if (w->device->driver != rank->device->driver) {
    status = RONDO_LOG_REFUSE(RONDO_ERR_UNSUPPORTED,
                              "init: rank %u has the %s backend, others of its job in this process "
                              "the %s backend",
                              cfg->rank, rank->device->driver->name, w->device->driver->name);
  } else if (w->members[cfg->rank]) {
    status = RONDO_LOG_REFUSE(RONDO_ERR_EXISTS, "init: rank %u is in this job already", cfg->rank);
  } else {
    pthread_mutex_lock(&w->lock);
    w->members[cfg->rank] = rank;
    w->member_count++;
    pthread_mutex_unlock(&w->lock);
    *world = w;
  }
  pthread_mutex_unlock(&worlds_lock);
  return status;
}

static void meeting_free(void *node) {
  struct meeting *m = node;
  free(m->enrolments);
  free(m);
}

static void world_destroy(struct rondo_world *w) {
  struct rondo_world **at = &worlds;
  while (*at != w)
    at = &(*at)->next;
  *at = w->next;
  tdestroy(w->meetings, meeting_free);
  rondo_pool_fini(&w->pool);
  w->device->driver->close(w->device);
  pthread_mutex_destroy(&w->lock);
  free(w->members);
  free(w);
}

void rondo_world_leave(struct rondo_world *world, uint32_t rank) {
  pthread_mutex_lock(&worlds_lock);
  pthread_mutex_lock(&world->lock);
  world->members[rank] = NULL;
  world->member_count--;
  int empty = world->member_count == 0;
  pthread_mutex_unlock(&world->lock);
  if (empty)
    world_destroy(world);
  pthread_mutex_unlock(&worlds_lock);
}

void rondo_world_visit(void (*visit)(struct rondo_world *world, void *arg), void *arg) {
  pthread_mutex_lock(&worlds_lock);
  for (struct rondo_world *w = worlds; w; w = w->next)
    visit(w, arg);
  pthread_mutex_unlock(&worlds_lock);
}

// ---------------------------------------------------------------- meetings ---

static int meeting_compare(const void *a, const void *b) {
  const struct meeting *x = a;
  const struct meeting *y = b;
  return x->id < y->id ? -1 : x->id > y->id;
}

static struct meeting *meeting_get(struct rondo_world *world, uint64_t id) {
  struct meeting key = {.id = id};
  struct meeting **found = tfind(&key, &world->meetings, meeting_compare);
  if (found)
    return *found;
  struct meeting *m = calloc(1, sizeof *m);
  if (!m)
    return NULL;
  m->id = id;
  if (!tsearch(m, &world->meetings, meeting_compare)) {
    free(m);
    return NULL;
  }
  return m;
}

static struct enrolment *enrolment_find(const struct meeting *m, uint32_t rank) {
  for (uint32_t i = 0; i < m->enrolment_count; i++)
    if (m->enrolments[i].rank == rank)
      return &m->enrolments[i];
  return NULL;
}

static struct enrolment *enrolment_get(struct meeting *m, uint32_t rank) {
  struct enrolment *e = enrolment_find(m, rank);
  if (e)
    return e;
  if (m->enrolment_count == m->enrolment_capacity) {
    uint32_t capacity = m->enrolment_capacity ? 2 * m->enrolment_capacity : 8;
    struct enrolment *grown = realloc(m->enrolments, capacity * sizeof *grown);
    if (!grown)
      return NULL;
    m->enrolments = grown;
    m->enrolment_capacity = capacity;
  }
  e = &m->enrolments[m->enrolment_count++];
  e->rank = rank;
  e->times = 0;
  return e;
}

// Forgets the meeting when nobody is there and all members of the last group came equally often.
static void meeting_drop_if_even(struct rondo_world *world, struct meeting *m,
                                 const struct rondo_party *last) {
  if (m->parties || m->enrolment_count != last->nranks)
    return;
  for (uint32_t i = 0; i < last->nranks; i++) {
    const struct enrolment *e = enrolment_find(m, last->members[i]);
    if (!e || e->times != m->enrolments[0].times)
      return;
  }
  tdelete(m, &world->meetings, meeting_compare);
  meeting_free(m);
}

// ---------------------------------------------------------------- matching ---

static int has_member(const struct rondo_party *p, uint32_t rank) {
  for (uint32_t i = 0; i < p->nranks; i++)
    if (p->members[i] == rank)
      return 1;
  return 0;
}

// The first thing in which two parties differ, or null.
static const char *difference(const struct rondo_party *a, const struct rondo_party *b) {
  if (a->desc->kind != b->desc->kind)
    return "kind";
  if (a->desc->count != b->desc->count)
    return "count";
  if (a->desc->dtype != b->desc->dtype)
    return "type";
  if (a->desc->redop != b->desc->redop)
    return "reduction";
  if (a->desc->root != b->desc->root)
    return "root";
  if (a->nranks != b->nranks || memcmp(a->members, b->members, a->nranks * sizeof *a->members) != 0)
    return "group";
  if (a->shape.blocks != b->shape.blocks || a->shape.chunk_elems != b->shape.chunk_elems)
    return "daemon blocks or slot size";
  return NULL;
}

static void describe(const struct rondo_party *p, char *text, size_t bytes) {
  const struct rondo_collective_desc *d = p->desc;
  (void)snprintf(text, bytes, "rank %u: %s of %llu × %s, %s, root %u, %u ranks from rank %u",
                 p->rank, rondo_kind_name(d->kind), (unsigned long long)d->count,
                 rondo_dtype_name(d->dtype), rondo_redop_name(d->redop), d->root, p->nranks,
                 p->members[0]);
}

static void report_mismatch(const struct rondo_party *a, const struct rondo_party *b,
                            const char *what) {
  char left[256];
  char right[256];
  describe(a, left, sizeof left);
  describe(b, right, sizeof right);
  rondo_log(RONDO_LOG_ERROR, "mismatch of id %llu in its %s: %s; %s",
            (unsigned long long)a->desc->id, what, left, right);
}

// 1 if the two registrations are of one id at the same time by ranks of which one names the other.
static int do_meet(const struct rondo_party *a, const struct rondo_party *b) {
  return a->generation == b->generation && (has_member(a, b->rank) || has_member(b, a->rank));
}

// The communicator of those whose descriptor is equal, or null.
static struct rondo_communicator *find_equal(const struct meeting *m,
                                             const struct rondo_party *party) {
  for (struct rondo_party *p = m->parties; p; p = p->next)
    if (do_meet(p, party) && !difference(party, p))
      return p->comm;
  return NULL;
}

// Ends the communicators of those whose descriptor differs. Returns the rank of one, or UINT32_MAX.
static uint32_t fail_different(const struct meeting *m, const struct rondo_party *party) {
  uint32_t mismatched = UINT32_MAX;
  for (struct rondo_party *p = m->parties; p; p = p->next) {
    const char *what = do_meet(p, party) ? difference(party, p) : NULL;
    if (!what)
      continue;
    if (mismatched == UINT32_MAX)
      report_mismatch(p, party, what);
    mismatched = p->rank;
    rondo_communicator_fail(p->comm, RONDO_ERR_MISMATCH, party->rank);
  }
  return mismatched;
}

static int is_present(const struct meeting *m, uint32_t rank, uint64_t generation) {
  for (const struct rondo_party *p = m->parties; p; p = p->next)
    if (p->rank == rank && p->generation == generation)
      return 1;
  return 0;
}

// A member that has come to this meeting and gone before anybody else came never takes part.
static void note_absentees(const struct meeting *m, const struct rondo_party *party,
                           struct rondo_communicator *comm) {
  for (uint32_t i = 0; i < party->nranks; i++) {
    const struct enrolment *e = enrolment_find(m, party->members[i]);
    if (party->members[i] == party->rank || !e || e->times < party->generation)
      continue;
    if (is_present(m, party->members[i], party->generation))
      continue;
    comm->gate.culprit = party->members[i];
    comm->gate.last_run = 0;
  }
}

int rondo_world_match(struct rondo_world *world, struct rondo_party *party,
                      const struct rondo_plan *plan) {
  pthread_mutex_lock(&world->lock);
  struct meeting *m = meeting_get(world, party->desc->id);
  struct enrolment *e = m ? enrolment_get(m, party->rank) : NULL;
  struct rondo_communicator *comm = NULL;
  int fresh = 0;
  if (e) {
    party->generation = e->times + 1;
    comm = find_equal(m, party);
    fresh = !comm;
    if (fresh)
      comm = rondo_communicator_create(&world->pool, &party->shape, party->members);
  }
  int status = RONDO_ERR_NO_MEMORY;
  if (comm)
    status = rondo_communicator_connect(comm, plan, party->position);
  if (status != RONDO_SUCCESS) {
    if (comm && fresh)
      rondo_communicator_destroy(comm);
    pthread_mutex_unlock(&world->lock);
    return status;
  }
  if (plan->send_peer_count)
    party->send = rondo_communicator_link(comm, party->position, plan->send_peers[0]);
  if (plan->recv_peer_count)
    party->recv = rondo_communicator_link(comm, plan->recv_peers[0], party->position);
  if (fresh)
    note_absentees(m, party, comm);
  uint32_t mismatched = fail_different(m, party);
  e->times++;
  party->comm = comm;
  party->next = m->parties;
  m->parties = party;
  comm->joined++;
  if (mismatched != UINT32_MAX)
    rondo_communicator_fail(comm, RONDO_ERR_MISMATCH, mismatched);
  else if (comm->joined == party->nranks && comm->gate.state == RONDO_GATE_CLOSED)
    rondo_store_release_u32(&comm->gate.state, RONDO_GATE_OPEN); // G1
  pthread_mutex_unlock(&world->lock);
  return RONDO_SUCCESS;
}

void rondo_world_unmatch(struct rondo_world *world, struct rondo_party *party, uint64_t completed) {
  pthread_mutex_lock(&world->lock);
  struct meeting *m = meeting_get(world, party->desc->id);
  struct rondo_communicator *comm = party->comm;
  for (struct rondo_party **at = &m->parties; *at; at = &(*at)->next) {
    if (*at == party) {
      *at = party->next;
      break;
    }
  }
  if (completed < comm->gate.last_run) {
    if (comm->gate.culprit == UINT32_MAX)
      rondo_store_relaxed_u32(&comm->gate.culprit, party->rank);
    rondo_store_release_u64(&comm->gate.last_run, completed); // G1
  }
  comm->left++;
  if (comm->left == comm->joined)
    rondo_communicator_destroy(comm);
  meeting_drop_if_even(world, m, party);
  pthread_mutex_unlock(&world->lock);
}
