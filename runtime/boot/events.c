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
#include "runtime/boot/peers.h"
#include "runtime/order/spread.h"

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

// One visit of all meetings; the tree does not change meanwhile.
struct visit {
  struct rondo_world *world;
  void (*call)(struct visit *v, struct rondo_meeting *m);
  uint32_t rank; // or process
  int left;
  int is_blocked;
};

static void visit_node(const void *node, VISIT order, void *arg) {
  struct visit *v = arg;
  if (order == postorder || order == leaf)
    v->call(v, *(struct rondo_meeting *const *)node);
}

static void visit_meetings(struct visit *v) { twalk_r(v->world->meetings, visit_node, v); }

// ------------------------------------------------------------------ crowding ---

// Counts the ranks of processes near by that want the cores of this one, for how its threads wait.
static void count_competitors(struct rondo_world *world) {
  const struct rondo_driver *driver = world->device->driver;
  struct rondo_mesh_process own;
  struct rondo_mesh_process other;
  uint32_t count = 0;
  if (!driver->competitors || world->roster != RONDO_ROSTER_KNOWN ||
      rondo_mesh_calls->process_get(world->mesh, world->self, &own) != RONDO_SUCCESS)
    return;
  for (uint32_t p = 0; p < world->peer_count; p++) {
    if (p == world->self || world->peers[p].is_lost || !rondo_mesh_calls->is_near(world->mesh, p) ||
        rondo_mesh_calls->process_get(world->mesh, p, &other) != RONDO_SUCCESS)
      continue;
    // In another name space of processes its number means nothing here.
    int is_known = other.pid_namespace == own.pid_namespace;
    count += is_known ? driver->competitors(other.pid, other.rank_count) : other.rank_count;
  }
  driver->compete(world->competitors, count);
  world->competitors = count;
}

// ----------------------------------------------------------------- settling ---

static void settle_in(struct visit *v, struct rondo_meeting *m) {
  // In order of registration: others count them. A party never leaves its meeting meanwhile.
  for (uint64_t after = 0;;) {
    struct rondo_party *first = NULL;
    for (struct rondo_party *p = m->parties; p; p = p->next)
      if (p->process == RONDO_HERE && !p->is_announced && p->generation > after &&
          (!first || p->generation < first->generation))
        first = p;
    if (!first)
      return;
    rondo_match_settle(v->world, m, first);
    after = first->is_announced ? after : first->generation;
  }
}

static void resume_in(struct visit *v, struct rondo_meeting *m) {
  settle_in(v, m);
  rondo_match_rebind(v->world, m);
}

void rondo_peers_resume(struct rondo_world *world) {
  struct visit v = {.world = world, .call = resume_in};
  if (world->device->driver->sharing)
    visit_meetings(&v);
}

// ------------------------------------------------------------------- losing ---

static void lose_in(struct visit *v, struct rondo_meeting *m) {
  rondo_match_lost(v->world, m, v->rank, v->left);
}

static void lose_rank(struct rondo_world *world, uint32_t rank, int left) {
  struct visit v = {.world = world, .call = lose_in, .rank = rank, .left = left};
  if (world->gone[rank])
    return;
  world->gone[rank] = 1;
  rondo_journals_lose(world, rank);
  visit_meetings(&v);
}

// A process none of whose ranks is left: what it maps here goes when the last link lets go.
static void lose_process(struct rondo_world *world, uint32_t process) {
  struct rondo_peer *peer = &world->peers[process];
  peer->is_lost = 1;
  rondo_far_lose(world, process);
  rondo_window_lose(world, process);
  if (!peer->links)
    rondo_near_unmap(peer);
}

static int has_rank_left(const struct rondo_world *world, uint32_t process) {
  for (uint32_t r = 0; r < world->rank_count; r++)
    if (!world->gone[r] && rondo_peers_where(world, r) == process)
      return 1;
  return 0;
}

void rondo_peers_give_up(struct rondo_world *world, uint32_t process) {
  if (world->peers[process].is_lost)
    return;
  world->peers[process].is_lost = 1; // nothing more is sent there
  for (uint32_t r = 0; r < world->rank_count; r++)
    if (rondo_peers_where(world, r) == process)
      lose_rank(world, r, 0);
  lose_process(world, process);
  rondo_peers_resume(world);
}

static void give_up_doomed(void *arg) {
  struct rondo_world *world = arg;
  pthread_mutex_lock(&world->lock);
  for (uint32_t p = 0; p < world->peer_count; p++)
    if (world->peers[p].is_doomed)
      rondo_peers_give_up(world, p);
  pthread_mutex_unlock(&world->lock);
}

void rondo_peers_doom(struct rondo_world *world, uint32_t process) {
  world->peers[process].is_doomed = 1;
  (void)rondo_mesh_calls->after(world->mesh, 0, give_up_doomed, world);
}

static void on_lost(void *arg, const uint32_t *ranks, uint32_t rank_count, int reason,
                    const char *text) {
  struct rondo_world *world = arg;
  int left = reason == RONDO_MESH_LEFT;
  pthread_mutex_lock(&world->lock);
  if (world->roster == RONDO_ROSTER_AWAITED)
    world->roster = RONDO_ROSTER_FAILED; // a roster comes before those who are missing in it
  if (!left && rank_count)
    rondo_log(RONDO_LOG_ERROR, "rank %u%s is lost: %s", ranks[0],
              rank_count > 1 ? " with the others of its process" : "", text ? text : "");
  for (uint32_t i = 0; i < rank_count; i++)
    lose_rank(world, ranks[i], left);
  for (uint32_t i = 0; i < rank_count; i++) {
    uint32_t process = rondo_peers_where(world, ranks[i]);
    if (process < world->peer_count && !has_rank_left(world, process))
      lose_process(world, process);
  }
  count_competitors(world);
  rondo_peers_resume(world);
  rondo_world_stir(world);
  pthread_mutex_unlock(&world->lock);
}

// ---------------------------------------------------------------- receiving ---

// The peer's threads are woken from now on when a block here has moved.
static void add_bell(struct rondo_world *world, struct rondo_peer *peer, int fd, uint64_t bytes) {
  struct rondo_bells *bells = &world->bells;
  void *head = NULL;
  if (!bells->others || !bells->own || bells->count == bells->capacity ||
      rondo_arena_map_head(fd, bytes, &head) != RONDO_SUCCESS)
    return;
  bells->others[bells->count] = head;
  peer->bell = bells->count + 1;
  rondo_store_release_u32(&bells->count, bells->count + 1);
}

static void on_hello(struct rondo_world *world, struct rondo_mesh_message *message) {
  struct rondo_peer *peer = &world->peers[message->from];
  struct rondo_notice_hello hello;
  int status = RONDO_ERR_INVALID;
  if (message->size == sizeof hello && message->fd_count == 1 && !peer->map) {
    memcpy(&hello, message->bytes, sizeof hello);
    status = rondo_arena_map(message->fds[0], hello.bytes, &peer->map);
  }
  if (status == RONDO_SUCCESS) {
    peer->base = hello.base;
    peer->bytes = hello.bytes;
    peer->hello = hello;
    add_bell(world, peer, message->fds[0], hello.bytes);
    rondo_pins_init(&peer->pins, world->device, peer->map, peer->bytes);
    rondo_near_meet(world, message->from);
    return;
  }
  rondo_log(RONDO_LOG_ERROR, "the memory of process %u cannot be mapped: %s", message->from,
            rondo_status_name(status));
}

// A registration from elsewhere, in one piece of memory: the party first.
struct arrival {
  struct rondo_party party;
  struct rondo_collective_desc desc;
  uint64_t bytes[];
};

static struct rondo_party *unpack(struct rondo_world *world,
                                  const struct rondo_mesh_message *message) {
  struct rondo_notice_registration r;
  struct arrival *a = calloc(1, sizeof *a + message->size);
  if (!a)
    return NULL;
  memcpy(a->bytes, message->bytes, message->size);
  if (!rondo_notice_register_decode(a->bytes, message->size, world->rank_count, &r) ||
      rondo_peers_where(world, r.head->rank) != message->from) {
    free(a);
    return NULL;
  }
  const struct rondo_notice_register *h = r.head;
  a->desc = (struct rondo_collective_desc){.kind = h->kind, .id = h->id, .count = h->count};
  a->desc.reserved = h->space;
  a->desc.dtype = h->dtype;
  a->desc.redop = h->redop;
  a->desc.root = h->root;
  if (h->count_count) {
    a->desc.send_counts = r.counts;
    a->desc.recv_counts = r.counts + h->nranks;
  }
  struct rondo_party *p = &a->party;
  *p = (struct rondo_party){.generation = h->generation, .rank = h->rank, .nranks = h->nranks};
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

static int on_register(struct rondo_world *world, const struct rondo_mesh_message *message) {
  struct rondo_party *p = unpack(world, message);
  struct rondo_meeting *m = p ? rondo_meeting_get(world, p->desc->reserved, p->desc->id) : NULL;
  struct rondo_enrolment *e = m ? rondo_enrolment_get(m, p->rank) : NULL;
  // Not every registration of an id names a rank of this process, but those that do come in order.
  if (!e || p->generation <= e->times) {
    free(p);
    return 0;
  }
  e->times = p->generation;
  rondo_match_arrive(world, m, p);
  return 1;
}

// Notices of fixed length about one registration.
static int on_short(struct rondo_world *world, const struct rondo_mesh_message *message) {
  struct rondo_notice_short n;
  if (message->size != sizeof n)
    return 0;
  memcpy(&n, message->bytes, sizeof n);
  struct rondo_meeting *m = rondo_meeting_find(world, n.space, n.id);
  if (!m)
    return 1;
  if (message->type == RONDO_NOTICE_RELEASE) {
    rondo_match_release(world, m, n.generation, n.other, n.rank);
    rondo_meeting_drop_if_over(world, m);
    return 1;
  }
  struct rondo_party *p = rondo_meeting_party(m, n.rank, n.generation);
  if (!p)
    return 1; // it is over here
  if (message->type == RONDO_NOTICE_DEREGISTER) {
    if (p->process != message->from)
      return 0;
    rondo_match_depart(world, m, p, n.completed);
    rondo_meeting_drop_if_over(world, m);
    return 1;
  }
  if (n.status <= RONDO_SUCCESS || n.status >= RONDO_IN_PROGRESS || n.other >= world->rank_count)
    return 0;
  rondo_match_fail(world, p, n.status, n.other);
  return 1;
}

static int take(struct rondo_world *world, struct rondo_mesh_message *message) {
  switch (message->type) {
  case RONDO_NOTICE_HELLO:
    on_hello(world, message);
    return 1;
  case RONDO_NOTICE_REGISTER:
    return on_register(world, message);
  case RONDO_NOTICE_DEREGISTER:
  case RONDO_NOTICE_FAIL:
  case RONDO_NOTICE_RELEASE:
    return on_short(world, message);
  case RONDO_NOTICE_JOURNAL:
    return rondo_journals_receive(world, message->from, message->bytes, message->size);
  case RONDO_NOTICE_CALLS:
    return rondo_mirrors_receive(world, message->from, message->bytes, message->size);
  case RONDO_NOTICE_COMM_FAILED:
    return rondo_comms_receive(world, message->from, message->bytes, message->size);
  case RONDO_NOTICE_COMM_LEFT:
    return rondo_departures_receive(world, message->from, message->bytes, message->size);
  case RONDO_NOTICE_LOOK:
    return rondo_views_asked(world, message);
  case RONDO_NOTICE_VIEWS:
    return rondo_views_answered(world, message);
  case RONDO_NOTICE_ASK:
    rondo_peers_send(world, message->from, RONDO_NOTICE_ANSWER, NULL, 0);
    return 1;
  case RONDO_NOTICE_ANSWER:
    return 1;
  case RONDO_NOTICE_PART:
    return rondo_near_part(world, message);
  case RONDO_NOTICE_WINDOW:
    return rondo_window_receive(world, message);
  case RONDO_NOTICE_MAPPED:
    if (!rondo_near_answer(world, message))
      return 0;
    rondo_peers_resume(world);
    return 1;
  case RONDO_NOTICE_PROXY:
    return rondo_far_meet(world, message);
  case RONDO_NOTICE_EVICT:
    rondo_log(RONDO_LOG_ERROR, "process %u goes on without this one, which was silent too long",
              message->from);
    rondo_peers_give_up(world, message->from);
    return 1;
  default:
    return 0;
  }
}

static void on_receive(void *arg, struct rondo_mesh_message *message) {
  struct rondo_world *world = arg;
  pthread_mutex_lock(&world->lock);
  if (message->from < world->peer_count && !world->peers[message->from].is_lost) {
    world->peers[message->from].asked_ns = 0;
    if (!take(world, message)) {
      rondo_log(RONDO_LOG_ERROR, "process %u sent what no member sends (type %u, %zu bytes)",
                message->from, message->type, message->size);
      rondo_peers_give_up(world, message->from);
    }
  }
  pthread_mutex_unlock(&world->lock);
}

// ------------------------------------------------------------------- roster ---

// Whose memory devices have to be told of is asked at once what it can do with ours.
static void greet_near(struct rondo_world *world) {
  for (uint32_t p = 0; p < world->peer_count && world->device->driver->sharing; p++) {
    if (world->peers[p].reach == RONDO_TRANSPORT_SHARED_MEMORY)
      rondo_peers_greet(world, p);
  }
}

static void on_roster(void *arg) {
  struct rondo_world *world = arg;
  struct visit v = {.world = world, .call = settle_in};
  pthread_mutex_lock(&world->lock);
  uint32_t count = rondo_mesh_calls->process_count(world->mesh);
  world->peers = calloc(count, sizeof *world->peers);
  world->bells.others = calloc(count, sizeof(struct rondo_bell *)); // null: nobody is rung for
  world->roster = world->peers ? RONDO_ROSTER_KNOWN : RONDO_ROSTER_FAILED;
  if (world->peers) {
    world->peer_count = world->bells.capacity = count;
    world->self = rondo_mesh_calls->self(world->mesh);
    for (uint32_t p = 0; p < count; p++)
      if (p != world->self)
        world->peers[p].reach = (uint8_t)rondo_far_reach(world, p);
    greet_near(world);
    rondo_window_begin(world);
  }
  count_competitors(world);
  rondo_peers_tell_early(world);
  rondo_journals_announce(world);
  rondo_comms_announce(world);
  rondo_departures_announce(world);
  visit_meetings(&v);
  rondo_world_stir(world);
  pthread_mutex_unlock(&world->lock);
}

// ----------------------------------------------------------------- watching ---

static int is_blocked_on(const struct rondo_world *world, const struct rondo_party *party,
                         uint32_t process) {
  const struct rondo_coll *coll =
      (const struct rondo_coll *)((const char *)party - offsetof(struct rondo_coll, party));
  if (rondo_load_relaxed_u64(&coll->submitted) == rondo_load_relaxed_u64(&coll->completed))
    return 0;
  for (uint32_t i = 0; i < party->nranks; i++)
    if (rondo_peers_where(world, party->members[i]) == process)
      return 1;
  return 0;
}

static void look_for_blocked(struct visit *v, struct rondo_meeting *m) {
  for (const struct rondo_party *p = m->parties; p && !v->is_blocked; p = p->next)
    if (p->process == RONDO_HERE && p->comm->gate.state < RONDO_GATE_FAILED)
      v->is_blocked = is_blocked_on(v->world, p, v->rank);
}

static void evict(struct rondo_world *world, uint32_t process) {
  rondo_log(RONDO_LOG_ERROR,
            "process %u has not answered for %.1f s while runs here wait for it: it is given up",
            process, (double)world->peer_timeout_ns / 1e9);
  rondo_peers_send(world, process, RONDO_NOTICE_EVICT, NULL, 0);
  rondo_peers_give_up(world, process);
}

static void watch_peer(struct rondo_world *world, uint32_t process, uint64_t now_ns) {
  struct rondo_peer *peer = &world->peers[process];
  struct visit v = {.world = world, .call = look_for_blocked, .rank = process};
  if (process == world->self || peer->is_lost)
    return;
  visit_meetings(&v);
  if (!v.is_blocked) {
    peer->asked_ns = 0;
  } else if (!peer->asked_ns) {
    peer->asked_ns = now_ns;
    rondo_peers_send(world, process, RONDO_NOTICE_ASK, NULL, 0);
  } else if (now_ns - peer->asked_ns > world->peer_timeout_ns) {
    evict(world, process);
  }
}

// Asks those on whom somebody here is blocked whether they are there. Who works slowly answers all
// the same: the answer comes from its control thread.
static void on_tick(void *arg) {
  struct rondo_world *world = arg;
  pthread_mutex_lock(&world->lock);
  uint64_t now_ns = rondo_now_ns();
  uint64_t period_ns = world->peer_timeout_ns / 4;
  // After a stop of this process itself the answers may be here, unread.
  int is_late = now_ns > world->tick_ns + period_ns;
  for (uint32_t p = 0; p < world->peer_count; p++) {
    if (world->peers[p].is_doomed)
      rondo_peers_give_up(world, p);
    if (is_late && world->peers[p].asked_ns)
      world->peers[p].asked_ns = now_ns;
    watch_peer(world, p, now_ns);
  }
  world->tick_ns = now_ns + period_ns;
  (void)rondo_mesh_calls->after(world->mesh, period_ns, on_tick, world);
  pthread_mutex_unlock(&world->lock);
}

// ---------------------------------------------------------- opening, closing ---

// Our bell, where the others look for it.
static void make_bell(struct rondo_world *world) {
  void *head = rondo_arena_alloc(world->arena, RONDO_ARENA_HEAD_BYTES);
  if (head == rondo_arena_base(world->arena))
    world->bells.own = head;
  else
    (void)rondo_arena_free(world->arena, head);
}

int rondo_peers_open(struct rondo_world *world, const struct rondo_config *cfg) {
  static const struct rondo_mesh_events events = {on_roster, on_receive, on_lost};
  int status = RONDO_ERR_NO_MEMORY;
  int is_direct = world->device->driver->is_direct;
  world->early_end = &world->early;
  world->gone = calloc(world->rank_count, 1);
  if (world->gone)
    status = rondo_arena_create(0, is_direct && cfg->huge_pages, &world->arena);
  if (status == RONDO_SUCCESS)
    rondo_near_open(world);
  if (status == RONDO_SUCCESS && is_direct)
    make_bell(world);
  // The events wait for the lock, so none comes before the mesh is noted.
  pthread_mutex_lock(&world->lock);
  if (status == RONDO_SUCCESS)
    status = rondo_mesh_calls->start(cfg, &events, world, &world->mesh);
  if (status == RONDO_SUCCESS && world->peer_timeout_ns) {
    world->tick_ns = rondo_now_ns() + world->peer_timeout_ns / 4;
    (void)rondo_mesh_calls->after(world->mesh, world->peer_timeout_ns / 4, on_tick, world);
  }
  pthread_mutex_unlock(&world->lock);
  if (status != RONDO_SUCCESS)
    free(world->gone); // the rest goes with the world
  return status;
}

static void free_arrivals(struct visit *v, struct rondo_meeting *m) {
  (void)v;
  while (m->parties) {
    struct rondo_party *p = m->parties;
    m->parties = p->next;
    free(p);
  }
}

void rondo_peers_close(struct rondo_world *world, int64_t join_ns) {
  struct visit v = {.world = world, .call = free_arrivals};
  rondo_far_drain(world);
  rondo_mesh_calls->stop(world->mesh, STOP_NS, join_ns);
  rondo_far_close(world);
  visit_meetings(&v);
  if (world->competitors)
    world->device->driver->compete(world->competitors, 0);
  world->roster = RONDO_ROSTER_FAILED;
  rondo_peers_tell_early(world);
  for (uint32_t p = 0; p < world->peer_count; p++)
    rondo_near_unmap(&world->peers[p]);
  for (uint32_t i = 0; i < world->bells.count; i++)
    rondo_arena_unmap(world->bells.others[i], RONDO_ARENA_HEAD_BYTES);
  free(world->bells.others);
  free(world->peers);
  free(world->gone);
}
