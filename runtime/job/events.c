// The other processes of a job: what comes from them, and their end. All but open and close runs on
// the control thread of the mesh.
#include <search.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/api/rank.h"
#include "runtime/job/processes.h"
#include "runtime/order/failure.h"

#define STOP_NS INT64_C(2000000000) // for what is still queued when a job ends here

static const struct rondo_mesh_calls real = {.is_needed = rondo_mesh_is_needed,
                                             .start = rondo_mesh_start,
                                             .add_rank = rondo_mesh_add_rank,
                                             .remove_rank = rondo_mesh_remove_rank,
                                             .self = rondo_mesh_self,
                                             .process_count = rondo_mesh_process_count,
                                             .process_of = rondo_mesh_process_of,
                                             .is_near = rondo_mesh_is_near,
                                             .process_get = rondo_mesh_process_get,
                                             .address_of = rondo_mesh_address_of,
                                             .send = rondo_mesh_send,
                                             .after = rondo_mesh_after,
                                             .stop = rondo_mesh_stop};
const struct rondo_mesh_calls *rondo_mesh_calls = &real;

// One visit of all match_entries; the tree does not change meanwhile.
struct visit {
  struct rondo_job *job;
  void (*call)(struct visit *v, struct rondo_match_entry *m);
  uint32_t rank; // or process
  int left;
  int is_blocked;
};

static void visit_node(const void *node, VISIT order, void *arg) {
  struct visit *v = arg;
  if (order == postorder || order == leaf)
    v->call(v, *(struct rondo_match_entry *const *)node);
}

static void visit_entries(struct visit *v) { twalk_r(v->job->match_entries, visit_node, v); }

// ------------------------------------------------------------------ crowding ---

// Counts the ranks of processes near by that want the cores of this one, for how its threads wait.
static void count_competitors(struct rondo_job *job) {
  const struct rondo_driver *driver = job->device->driver;
  struct rondo_mesh_process own;
  struct rondo_mesh_process other;
  uint32_t count = 0;
  if (!driver->competitors || job->roster != RONDO_ROSTER_KNOWN ||
      rondo_mesh_calls->process_get(job->mesh, job->self, &own) != RONDO_SUCCESS)
    return;
  for (uint32_t p = 0; p < job->peer_count; p++) {
    if (p == job->self || job->peers[p].is_lost || !rondo_mesh_calls->is_near(job->mesh, p) ||
        rondo_mesh_calls->process_get(job->mesh, p, &other) != RONDO_SUCCESS)
      continue;
    // In another name space of processes its number means nothing here.
    int is_known = other.pid_namespace == own.pid_namespace;
    count += is_known ? driver->competitors(other.pid, other.rank_count) : other.rank_count;
  }
  driver->compete(job->competitors, count);
  job->competitors = count;
}

// ----------------------------------------------------------------- settling ---

static void settle_in(struct visit *v, struct rondo_match_entry *m) {
  // In order of registration: others count them. A registration never leaves its match entry meanwhile.
  for (uint64_t after = 0;;) {
    struct rondo_registration *first = NULL;
    for (struct rondo_registration *p = m->registrations; p; p = p->next)
      if (p->process == RONDO_HERE && !p->is_announced && p->generation > after &&
          (!first || p->generation < first->generation))
        first = p;
    if (!first)
      return;
    rondo_match_settle(v->job, m, first);
    after = first->is_announced ? after : first->generation;
  }
}

static void resume_in(struct visit *v, struct rondo_match_entry *m) {
  settle_in(v, m);
  rondo_match_rebind(v->job, m);
}

void rondo_processes_resume(struct rondo_job *job) {
  struct visit v = {.job = job, .call = resume_in};
  if (job->device->driver->sharing)
    visit_entries(&v);
}

// ------------------------------------------------------------------- losing ---

static void lose_in(struct visit *v, struct rondo_match_entry *m) {
  rondo_match_lost(v->job, m, v->rank, v->left);
}

static void lose_rank(struct rondo_job *job, uint32_t rank, int left) {
  struct visit v = {.job = job, .call = lose_in, .rank = rank, .left = left};
  if (job->gone[rank])
    return;
  job->gone[rank] = 1;
  rondo_journals_lose(job, rank);
  visit_entries(&v);
}

// A process none of whose ranks is left: what it maps here goes when the last link lets go.
static void lose_process(struct rondo_job *job, uint32_t process) {
  struct rondo_peer *peer = &job->peers[process];
  peer->is_lost = 1;
  rondo_proxied_lose(job, process);
  rondo_window_group_lose(job, process);
  if (!peer->links)
    rondo_mapped_unmap(peer);
}

static int has_rank_left(const struct rondo_job *job, uint32_t process) {
  for (uint32_t r = 0; r < job->rank_count; r++)
    if (!job->gone[r] && rondo_processes_where(job, r) == process)
      return 1;
  return 0;
}

void rondo_processes_give_up(struct rondo_job *job, uint32_t process) {
  if (job->peers[process].is_lost)
    return;
  job->peers[process].is_lost = 1; // nothing more is sent there
  for (uint32_t r = 0; r < job->rank_count; r++)
    if (rondo_processes_where(job, r) == process)
      lose_rank(job, r, 0);
  lose_process(job, process);
  rondo_processes_resume(job);
}

static void give_up_failed(void *arg) {
  struct rondo_job *job = arg;
  pthread_mutex_lock(&job->lock);
  for (uint32_t p = 0; p < job->peer_count; p++)
    if (job->peers[p].is_failed)
      rondo_processes_give_up(job, p);
  pthread_mutex_unlock(&job->lock);
}

void rondo_processes_mark_failed(struct rondo_job *job, uint32_t process) {
  job->peers[process].is_failed = 1;
  (void)rondo_mesh_calls->after(job->mesh, 0, give_up_failed, job);
}

static void on_lost(void *arg, const uint32_t *ranks, uint32_t rank_count, int reason,
                    const char *text) {
  struct rondo_job *job = arg;
  int left = reason == RONDO_MESH_LEFT;
  pthread_mutex_lock(&job->lock);
  if (job->roster == RONDO_ROSTER_AWAITED)
    job->roster = RONDO_ROSTER_FAILED; // a roster comes before those who are missing in it
  if (!left && rank_count)
    rondo_log(RONDO_LOG_ERROR, "rank %u%s is lost: %s", ranks[0],
              rank_count > 1 ? " with the others of its process" : "", text ? text : "");
  for (uint32_t i = 0; i < rank_count; i++)
    lose_rank(job, ranks[i], left);
  for (uint32_t i = 0; i < rank_count; i++) {
    uint32_t process = rondo_processes_where(job, ranks[i]);
    if (process < job->peer_count && !has_rank_left(job, process))
      lose_process(job, process);
  }
  count_competitors(job);
  rondo_processes_resume(job);
  rondo_job_notify(job);
  pthread_mutex_unlock(&job->lock);
}

// ---------------------------------------------------------------- receiving ---

// The peer's threads are woken from now on when a block here has moved.
static void add_bell(struct rondo_job *job, struct rondo_peer *peer, int fd, uint64_t bytes) {
  struct rondo_bells *bells = &job->bells;
  void *head = NULL;
  if (!bells->others || !bells->own || bells->count == bells->capacity ||
      rondo_arena_map_head(fd, bytes, &head) != RONDO_SUCCESS)
    return;
  bells->others[bells->count] = head;
  peer->bell = bells->count + 1;
  rondo_store_release_u32(&bells->count, bells->count + 1);
}

static void on_hello(struct rondo_job *job, struct rondo_mesh_message *message) {
  struct rondo_peer *peer = &job->peers[message->from];
  struct rondo_message_hello hello;
  int status = RONDO_ERR_INVALID;
  if (message->size == sizeof hello && message->fd_count == 1 && !peer->map) {
    memcpy(&hello, message->bytes, sizeof hello);
    status = rondo_arena_map(message->fds[0], hello.bytes, &peer->map);
  }
  if (status == RONDO_SUCCESS) {
    peer->base = hello.base;
    peer->bytes = hello.bytes;
    peer->hello = hello;
    add_bell(job, peer, message->fds[0], hello.bytes);
    rondo_pins_init(&peer->pins, job->device, peer->map, peer->bytes);
    rondo_mapped_meet(job, message->from);
    return;
  }
  rondo_log(RONDO_LOG_ERROR, "the memory of process %u cannot be mapped: %s", message->from,
            rondo_status_name(status));
}

// A registration from elsewhere, in one piece of memory: the registration first.
struct arrival {
  struct rondo_registration registration;
  struct rondo_collective_desc desc;
  uint64_t bytes[];
};

static struct rondo_registration *unpack(struct rondo_job *job,
                                         const struct rondo_mesh_message *message) {
  struct rondo_message_registration r;
  struct arrival *a = calloc(1, sizeof *a + message->size);
  if (!a)
    return NULL;
  memcpy(a->bytes, message->bytes, message->size);
  if (!rondo_message_register_decode(a->bytes, message->size, job->rank_count, &r) ||
      rondo_processes_where(job, r.head->rank) != message->from) {
    free(a);
    return NULL;
  }
  const struct rondo_message_register *h = r.head;
  a->desc = (struct rondo_collective_desc){.kind = h->kind, .id = h->id, .count = h->count};
  a->desc.reserved = h->space;
  a->desc.dtype = h->dtype;
  a->desc.redop = h->redop;
  a->desc.root = h->root;
  if (h->count_count) {
    a->desc.send_counts = r.counts;
    a->desc.recv_counts = r.counts + h->nranks;
  }
  struct rondo_registration *p = &a->registration;
  *p = (struct rondo_registration){
      .generation = h->generation, .rank = h->rank, .nranks = h->nranks};
  p->position = h->position;
  p->process = message->from;
  p->members = r.members;
  p->desc = &a->desc;
  p->shape.blocks = h->blocks;
  p->shape.chunk_elems = h->chunk_elems;
  p->shape.slot_count = h->slot_count;
  p->shape.first_sequence = h->first_sequence;
  p->offer_count = h->offer_count;
  p->offers = r.offers;
  return p;
}

static int on_register(struct rondo_job *job, const struct rondo_mesh_message *message) {
  struct rondo_registration *p = unpack(job, message);
  struct rondo_match_entry *m =
      p ? rondo_match_entry_get(job, p->desc->reserved, p->desc->id) : NULL;
  struct rondo_match_history *e = m ? rondo_match_history_get(m, p->rank) : NULL;
  // Not every registration of an id names a rank of this process, but those that do come in order.
  if (!e || p->generation <= e->times) {
    free(p);
    return 0;
  }
  e->times = p->generation;
  rondo_match_arrive(job, m, p);
  return 1;
}

// Notices of fixed length about one registration.
static int on_short(struct rondo_job *job, const struct rondo_mesh_message *message) {
  struct rondo_message_short n;
  if (message->size != sizeof n)
    return 0;
  memcpy(&n, message->bytes, sizeof n);
  struct rondo_match_entry *m = rondo_match_entry_find(job, n.space, n.id);
  if (!m)
    return 1;
  if (message->type == RONDO_MESSAGE_RELEASE) {
    rondo_match_release(job, m, n.generation, n.other, n.rank);
    rondo_match_entry_drop_if_over(job, m);
    return 1;
  }
  struct rondo_registration *p = rondo_match_entry_party(m, n.rank, n.generation);
  if (!p)
    return 1; // it is over here
  if (message->type == RONDO_MESSAGE_DEREGISTER) {
    if (p->process != message->from)
      return 0;
    rondo_match_depart(job, m, p, n.completed);
    rondo_match_entry_drop_if_over(job, m);
    return 1;
  }
  if (n.status <= RONDO_SUCCESS || n.status >= RONDO_IN_PROGRESS || n.other >= job->rank_count)
    return 0;
  rondo_match_fail(job, p, n.status, n.other);
  return 1;
}

static int take(struct rondo_job *job, struct rondo_mesh_message *message) {
  switch (message->type) {
  case RONDO_MESSAGE_HELLO:
    on_hello(job, message);
    return 1;
  case RONDO_MESSAGE_REGISTER:
    return on_register(job, message);
  case RONDO_MESSAGE_DEREGISTER:
  case RONDO_MESSAGE_FAIL:
  case RONDO_MESSAGE_RELEASE:
    return on_short(job, message);
  case RONDO_MESSAGE_JOURNAL:
    return rondo_journals_receive(job, message->from, message->bytes, message->size);
  case RONDO_MESSAGE_CALLS:
    return rondo_replicas_receive(job, message->from, message->bytes, message->size);
  case RONDO_MESSAGE_COMM_FAILED:
    return rondo_failures_receive(job, message->from, message->bytes, message->size);
  case RONDO_MESSAGE_COMM_DETACHED:
    return rondo_detachments_receive(job, message->from, message->bytes, message->size);
  case RONDO_MESSAGE_LOOK:
    return rondo_views_asked(job, message);
  case RONDO_MESSAGE_VIEWS:
    return rondo_views_answered(job, message);
  case RONDO_MESSAGE_ASK:
    rondo_processes_send(job, message->from, RONDO_MESSAGE_ANSWER, NULL, 0);
    return 1;
  case RONDO_MESSAGE_ANSWER:
    return 1;
  case RONDO_MESSAGE_PART:
    return rondo_mapped_part(job, message);
  case RONDO_MESSAGE_WINDOW:
    return rondo_window_group_receive(job, message);
  case RONDO_MESSAGE_MAPPED:
    if (!rondo_mapped_answer(job, message))
      return 0;
    rondo_processes_resume(job);
    return 1;
  case RONDO_MESSAGE_PROXY:
    return rondo_proxied_meet(job, message);
  case RONDO_MESSAGE_EVICT:
    rondo_log(RONDO_LOG_ERROR, "process %u goes on without this one, which was silent too long",
              message->from);
    rondo_processes_give_up(job, message->from);
    return 1;
  default:
    return 0;
  }
}

static void on_receive(void *arg, struct rondo_mesh_message *message) {
  struct rondo_job *job = arg;
  pthread_mutex_lock(&job->lock);
  if (message->from < job->peer_count && !job->peers[message->from].is_lost) {
    job->peers[message->from].asked_ns = 0;
    if (!take(job, message)) {
      rondo_log(RONDO_LOG_ERROR, "process %u sent what no member sends (type %u, %zu bytes)",
                message->from, message->type, message->size);
      rondo_processes_give_up(job, message->from);
    }
  }
  pthread_mutex_unlock(&job->lock);
}

// ------------------------------------------------------------------- roster ---

// Whose memory devices have to be told of is asked at once what it can do with ours.
static void greet_near(struct rondo_job *job) {
  for (uint32_t p = 0; p < job->peer_count && job->device->driver->sharing; p++) {
    if (job->peers[p].reach == RONDO_TRANSPORT_SHARED_MEMORY)
      rondo_processes_greet(job, p);
  }
}

static void on_roster(void *arg) {
  struct rondo_job *job = arg;
  struct visit v = {.job = job, .call = settle_in};
  pthread_mutex_lock(&job->lock);
  uint32_t count = rondo_mesh_calls->process_count(job->mesh);
  job->peers = calloc(count, sizeof *job->peers);
  job->bells.others = calloc(count, sizeof(struct rondo_bell *)); // null: nobody is rung for
  job->roster = job->peers ? RONDO_ROSTER_KNOWN : RONDO_ROSTER_FAILED;
  if (job->peers) {
    job->peer_count = job->bells.capacity = count;
    job->self = rondo_mesh_calls->self(job->mesh);
    for (uint32_t p = 0; p < count; p++)
      if (p != job->self)
        job->peers[p].reach = (uint8_t)rondo_proxied_reach(job, p);
    greet_near(job);
    rondo_window_group_begin(job);
  }
  count_competitors(job);
  rondo_processes_tell_early(job);
  rondo_journals_announce(job);
  rondo_failures_announce(job);
  rondo_detachments_announce(job);
  visit_entries(&v);
  rondo_job_notify(job);
  pthread_mutex_unlock(&job->lock);
}

// ----------------------------------------------------------------- watching ---

static int is_blocked_on(const struct rondo_job *job, const struct rondo_registration *registration,
                         uint32_t process) {
  const struct rondo_coll *coll =
      (const struct rondo_coll *)((const char *)registration -
                                  offsetof(struct rondo_coll, registration));
  if (rondo_load_relaxed_u64(&coll->submitted) == rondo_load_relaxed_u64(&coll->completed))
    return 0;
  for (uint32_t i = 0; i < registration->nranks; i++)
    if (rondo_processes_where(job, registration->members[i]) == process)
      return 1;
  return 0;
}

static void look_for_blocked(struct visit *v, struct rondo_match_entry *m) {
  for (const struct rondo_registration *p = m->registrations; p && !v->is_blocked; p = p->next)
    if (p->process == RONDO_HERE && p->comm->gate.state < RONDO_GATE_FAILED)
      v->is_blocked = is_blocked_on(v->job, p, v->rank);
}

static void evict(struct rondo_job *job, uint32_t process) {
  rondo_log(RONDO_LOG_ERROR,
            "process %u has not answered for %.1f s while runs here wait for it: it is given up",
            process, (double)job->peer_timeout_ns / 1e9);
  rondo_processes_send(job, process, RONDO_MESSAGE_EVICT, NULL, 0);
  rondo_processes_give_up(job, process);
}

static void watch_peer(struct rondo_job *job, uint32_t process, uint64_t now_ns) {
  struct rondo_peer *peer = &job->peers[process];
  struct visit v = {.job = job, .call = look_for_blocked, .rank = process};
  if (process == job->self || peer->is_lost)
    return;
  visit_entries(&v);
  if (!v.is_blocked) {
    peer->asked_ns = 0;
  } else if (!peer->asked_ns) {
    peer->asked_ns = now_ns;
    rondo_processes_send(job, process, RONDO_MESSAGE_ASK, NULL, 0);
  } else if (now_ns - peer->asked_ns > job->peer_timeout_ns) {
    evict(job, process);
  }
}

// Asks those on whom somebody here is blocked whether they are there. Who works slowly answers all
// the same: the answer comes from its control thread.
static void on_tick(void *arg) {
  struct rondo_job *job = arg;
  pthread_mutex_lock(&job->lock);
  uint64_t now_ns = rondo_now_ns();
  uint64_t period_ns = job->peer_timeout_ns / 4;
  // After a stop of this process itself the answers may be here, unread.
  int is_late = now_ns > job->tick_ns + period_ns;
  for (uint32_t p = 0; p < job->peer_count; p++) {
    if (job->peers[p].is_failed)
      rondo_processes_give_up(job, p);
    if (is_late && job->peers[p].asked_ns)
      job->peers[p].asked_ns = now_ns;
    watch_peer(job, p, now_ns);
  }
  job->tick_ns = now_ns + period_ns;
  (void)rondo_mesh_calls->after(job->mesh, period_ns, on_tick, job);
  pthread_mutex_unlock(&job->lock);
}

// ---------------------------------------------------------- opening, closing ---

// Our bell, where the others look for it.
static void make_bell(struct rondo_job *job) {
  void *head = rondo_arena_alloc(job->arena, RONDO_ARENA_HEAD_BYTES);
  if (head == rondo_arena_base(job->arena))
    job->bells.own = head;
  else
    (void)rondo_arena_free(job->arena, head);
}

int rondo_processes_open(struct rondo_job *job, const struct rondo_config *cfg) {
  static const struct rondo_mesh_events events = {on_roster, on_receive, on_lost};
  int status = RONDO_ERR_NO_MEMORY;
  int is_direct = job->device->driver->is_direct;
  job->early_end = &job->early;
  job->gone = calloc(job->rank_count, 1);
  if (job->gone)
    status = rondo_arena_create(0, is_direct && cfg->huge_pages, &job->arena);
  if (status == RONDO_SUCCESS)
    rondo_mapped_open(job);
  if (status == RONDO_SUCCESS && is_direct)
    make_bell(job);
  // The events wait for the lock, so none comes before the mesh is noted.
  pthread_mutex_lock(&job->lock);
  if (status == RONDO_SUCCESS)
    status = rondo_mesh_calls->start(cfg, &events, job, &job->mesh);
  if (status == RONDO_SUCCESS && job->peer_timeout_ns) {
    job->tick_ns = rondo_now_ns() + job->peer_timeout_ns / 4;
    (void)rondo_mesh_calls->after(job->mesh, job->peer_timeout_ns / 4, on_tick, job);
  }
  pthread_mutex_unlock(&job->lock);
  if (status != RONDO_SUCCESS)
    free(job->gone); // the rest goes with the job
  return status;
}

static void free_arrivals(struct visit *v, struct rondo_match_entry *m) {
  (void)v;
  while (m->registrations) {
    struct rondo_registration *p = m->registrations;
    m->registrations = p->next;
    free(p);
  }
}

void rondo_processes_close(struct rondo_job *job, int64_t join_ns) {
  struct visit v = {.job = job, .call = free_arrivals};
  rondo_proxied_drain(job);
  rondo_mesh_calls->stop(job->mesh, STOP_NS, join_ns);
  rondo_proxied_close(job);
  visit_entries(&v);
  if (job->competitors)
    job->device->driver->compete(job->competitors, 0);
  job->roster = RONDO_ROSTER_FAILED;
  rondo_processes_tell_early(job);
  for (uint32_t p = 0; p < job->peer_count; p++)
    rondo_mapped_unmap(&job->peers[p]);
  for (uint32_t i = 0; i < job->bells.count; i++)
    rondo_arena_unmap(job->bells.others[i], RONDO_ARENA_HEAD_BYTES);
  free(job->bells.others);
  free(job->peers);
  free(job->gone);
}
