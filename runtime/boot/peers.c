// The other processes of a job: sending to them, and their memory.
#include "runtime/boot/peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "runtime/api/rank.h"

// A registration that was over before it was known whom to tell of it.
struct rondo_early {
  struct rondo_early *next;
  uint64_t completed;
  size_t size;
  struct rondo_notice_registration notice; // pointers into what follows
  uint64_t bytes[];
};

uint32_t rondo_peers_where(const struct rondo_world *world, uint32_t rank) {
  if (world->members[rank])
    return RONDO_HERE;
  if (world->roster != RONDO_ROSTER_KNOWN)
    return RONDO_SOMEWHERE;
  uint32_t process = rondo_mesh_calls->process_of(world->mesh, rank);
  if (process == RONDO_MESH_NOBODY)
    return RONDO_SOMEWHERE;
  return process == world->self ? RONDO_HERE : process;
}

static int say(char *why, size_t why_bytes, int transport, const char *text) {
  (void)snprintf(why, why_bytes, "%s", text);
  return transport;
}

static int say_far(const struct rondo_world *world, uint32_t process, char *why, size_t why_bytes) {
  const char *where = rondo_mesh_calls->is_near(world->mesh, process)
                          ? "another process of this machine"
                          : "another machine, or another network namespace";
  int reach = world->peers[process].reach;
  if (reach == RONDO_TRANSPORT_UCX)
    (void)snprintf(why, why_bytes, "%s%s", where,
                   world->transport == reach ? "; the configuration asks for it" : "");
  else if (world->transport == RONDO_TRANSPORT_SHARED_MEMORY)
    (void)snprintf(why, why_bytes, "%s; the configuration asks for shared memory alone", where);
  else
    (void)snprintf(why, why_bytes, "%s; %s", where, world->no_proxy);
  return reach;
}

// Between devices that differ in what they reach: where connectors lie.
static int say_local(const struct rondo_world *world, const struct rondo_rank *self, uint32_t rank,
                     char *why, size_t why_bytes) {
  char reason[RONDO_WHY_BYTES];
  const struct rondo_driver *driver = self->device->driver;
  if (!driver->reach)
    return say(why, why_bytes, RONDO_TRANSPORT_LOCAL, "the rank lives in this process");
  if (!world->members[rank])
    return say(why, why_bytes, -1, "on which device the rank is is not known yet");
  (void)driver->reach(self->device, world->members[rank]->device, reason);
  return say(why, why_bytes, RONDO_TRANSPORT_LOCAL, reason);
}

int rondo_peers_transport(const struct rondo_world *world, const struct rondo_rank *self,
                          uint32_t rank, char *why, size_t why_bytes) {
  uint32_t process = world->mesh ? rondo_peers_where(world, rank) : RONDO_HERE;
  if (process == RONDO_HERE)
    return say_local(world, self, rank, why, why_bytes);
  if (world->gone[rank])
    return say(why, why_bytes, RONDO_TRANSPORT_NONE, "the rank has left or is lost");
  if (process >= world->peer_count)
    return say(why, why_bytes, -1, "where the rank lives is not known yet");
  const struct rondo_peer *peer = &world->peers[process];
  if (peer->is_lost)
    return say(why, why_bytes, RONDO_TRANSPORT_NONE, "the rank's process is lost");
  if (peer->reach != RONDO_TRANSPORT_SHARED_MEMORY)
    return say_far(world, process, why, why_bytes);
  if (self->device->driver->sharing)
    return rondo_near_say(world, process, why, why_bytes);
  return say(why, why_bytes, RONDO_TRANSPORT_SHARED_MEMORY,
             peer->map ? "another process of this machine; its memory is mapped"
                       : "another process of this machine; its memory is mapped when first needed");
}

void rondo_peers_wake(struct rondo_world *world, const struct rondo_communicator *comm) {
  for (uint32_t i = 0; i < comm->shape.nranks; i++) {
    struct rondo_rank *rank = world->members[comm->members[i]];
    if (rank && !rank->is_manual)
      rank->daemon->driver->kick(rank->daemon, 1);
  }
}

void rondo_peers_unuse(struct rondo_world *world, uint32_t process) {
  struct rondo_peer *peer = &world->peers[process];
  peer->links--;
  if (peer->links || !peer->is_lost)
    return;
  rondo_near_unmap(peer);
}

// ------------------------------------------------------------------ sending ---

static int post(struct rondo_world *world, const struct rondo_mesh_send *message) {
  int status = rondo_mesh_calls->send(world->mesh, message);
  if (status == RONDO_SUCCESS || status == RONDO_ERR_PEER)
    return status; // who is lost is told of by `lost`
  rondo_log(RONDO_LOG_ERROR, "process %u cannot be told what it must know (%s): it is given up",
            message->to, rondo_status_name(status));
  rondo_peers_doom(world, message->to);
  return status;
}

// The first message to a process says where our memory is, or our proxy.
static void greet(struct rondo_world *world, uint32_t process) {
  struct rondo_peer *peer = &world->peers[process];
  int fd = rondo_arena_fd(world->arena);
  struct rondo_notice_hello hello = {.base = (uint64_t)(uintptr_t)rondo_arena_base(world->arena),
                                     .bytes = rondo_arena_bytes(world->arena)};
  struct rondo_mesh_send message = {.to = process,
                                    .type = RONDO_NOTICE_HELLO,
                                    .bytes = &hello,
                                    .size = sizeof hello,
                                    .fds = &fd,
                                    .fd_count = 1};
  peer->is_greeted = 1;
  if (peer->reach == RONDO_TRANSPORT_UCX) {
    rondo_far_greet(world, process);
    return;
  }
  rondo_near_describe(world, &hello);
  (void)post(world, &message);
}

void rondo_peers_greet(struct rondo_world *world, uint32_t process) {
  struct rondo_peer *peer = &world->peers[process];
  struct rondo_range_part part;
  if (peer->reach == RONDO_TRANSPORT_NONE)
    return;
  if (!peer->is_greeted)
    greet(world, process);
  if (peer->reach != RONDO_TRANSPORT_SHARED_MEMORY)
    return;
  while (!peer->is_doomed && rondo_near_next_part(world, process, &part)) {
    const struct rondo_notice_part notice = {part.at, part.bytes};
    struct rondo_mesh_send message = {.to = process,
                                      .type = RONDO_NOTICE_PART,
                                      .bytes = &notice,
                                      .size = sizeof notice,
                                      .fds = &part.fd,
                                      .fd_count = 1};
    (void)post(world, &message);
  }
}

void rondo_peers_send(struct rondo_world *world, uint32_t process, uint32_t type, const void *bytes,
                      size_t size) {
  struct rondo_mesh_send message = {.to = process, .type = type, .bytes = bytes, .size = size};
  if (process >= world->peer_count || world->peers[process].is_lost ||
      world->peers[process].is_doomed)
    return;
  rondo_peers_greet(world, process);
  if (!world->peers[process].is_doomed)
    (void)post(world, &message);
}

void rondo_peers_tell(struct rondo_world *world, const struct rondo_party *party, uint32_t type,
                      const void *bytes, size_t size) {
  uint64_t mark = ++world->mark;
  for (uint32_t i = 0; i < party->nranks; i++) {
    uint32_t process = rondo_peers_where(world, party->members[i]);
    if (process >= world->peer_count || world->peers[process].mark == mark)
      continue;
    world->peers[process].mark = mark;
    rondo_peers_send(world, process, type, bytes, size);
  }
}

// ------------------------------------------------------------ registrations ---

static struct rondo_notice_register describe(const struct rondo_party *p) {
  const struct rondo_collective_desc *d = p->desc;
  struct rondo_notice_register head = {.id = d->id,
                                       .generation = p->generation,
                                       .count = d->count,
                                       .kind = d->kind,
                                       .dtype = d->dtype,
                                       .redop = d->redop,
                                       .root = d->root,
                                       .rank = p->rank,
                                       .position = p->position,
                                       .nranks = p->nranks};
  head.blocks = p->shape.blocks;
  head.chunk_elems = p->shape.chunk_elems;
  head.slot_count = p->shape.slot_count;
  head.first_sequence = p->shape.first_sequence;
  head.space = d->reserved;
  head.count_count = d->kind == RONDO_ALL_TO_ALL_V ? 2 * p->nranks : 0;
  return head;
}

// The connectors here by which members in other processes send to the party's rank.
static uint32_t collect_offers(const struct rondo_world *world, const struct rondo_party *p,
                               struct rondo_offer *offers) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < p->plan->recv.count; i++) {
    uint32_t from = rondo_plan_peer(p->plan, &p->plan->recv, i);
    struct rondo_link *link = rondo_communicator_link(p->comm, from, p->position);
    if (!link || link->process == RONDO_HERE || (link->is_far && !link->far))
      continue;
    if (link->is_far) {
      struct rondo_offer far = {.from = link->from, .at = rondo_proxy_link_number(link->far)};
      offers[count++] = far;
      continue;
    }
    struct rondo_offer offer = {.from = link->from,
                                .place = rondo_near_place(link->at.kind),
                                .at = (uint64_t)(uintptr_t)link->first -
                                      rondo_near_base(world, link->at.kind),
                                .stride_bytes = link->stride_bytes};
    offers[count++] = offer;
    link->is_owed = 1;
  }
  return count;
}

// A failure of this registration that the others do not know of.
static void tell_failure(struct rondo_world *world, const struct rondo_party *party) {
  uint32_t state = rondo_load_relaxed_u32(&party->comm->gate.state);
  struct rondo_notice_short notice = rondo_notice_about(party);
  if (state < RONDO_GATE_FAILED)
    return;
  notice.rank = party->rank;
  notice.other = party->comm->gate.culprit;
  notice.status = (int32_t)(state - RONDO_GATE_FAILED);
  rondo_peers_tell(world, party, RONDO_NOTICE_FAIL, &notice, sizeof notice);
}

void rondo_peers_announce(struct rondo_world *world, struct rondo_party *party) {
  struct rondo_notice_register head = describe(party);
  if (party->is_announced)
    return;
  party->is_announced = 1;
  void *bytes = NULL;
  size_t size = 0;
  struct rondo_offer *offers = malloc((party->plan->recv.count + 1) * sizeof *offers);
  struct rondo_notice_registration notice = {&head, party->members, party->desc->send_counts,
                                             offers};
  if (offers) {
    head.offer_count = collect_offers(world, party, offers);
    size = rondo_notice_register_bytes(&head);
    bytes = malloc(size);
  }
  if (bytes) {
    rondo_notice_register_encode(bytes, &notice);
    rondo_peers_tell(world, party, RONDO_NOTICE_REGISTER, bytes, size);
    tell_failure(world, party);
  } else {
    rondo_log(RONDO_LOG_ERROR, "register: id %llu: no memory to tell other processes of it",
              (unsigned long long)head.id);
    rondo_world_fail(world, party, RONDO_ERR_NO_MEMORY);
  }
  free(bytes);
  free(offers);
}

static void tell_deregistration(struct rondo_world *world, const struct rondo_party *party,
                                uint64_t completed) {
  struct rondo_notice_short notice = rondo_notice_about(party);
  notice.rank = party->rank;
  notice.completed = completed;
  rondo_peers_tell(world, party, RONDO_NOTICE_DEREGISTER, &notice, sizeof notice);
}

// Keeps what is over until it is known whom to tell: they count the registrations of an id.
static void keep_early(struct rondo_world *world, const struct rondo_party *party) {
  struct rondo_notice_register head = describe(party);
  struct rondo_notice_registration notice = {&head, party->members, party->desc->send_counts, NULL};
  size_t size = rondo_notice_register_bytes(&head);
  struct rondo_early *early = malloc(sizeof *early + size);
  if (!early) {
    rondo_log(RONDO_LOG_ERROR, "deregister: id %llu: no memory to tell other processes of it",
              (unsigned long long)head.id);
    return;
  }
  rondo_notice_register_encode(early->bytes, &notice);
  (void)rondo_notice_register_decode(early->bytes, size, world->rank_count, &early->notice);
  early->size = size;
  early->next = NULL;
  *world->early_end = early;
  world->early_end = &early->next;
}

void rondo_peers_withdraw(struct rondo_world *world, struct rondo_party *party,
                          uint64_t completed) {
  if (party->is_announced)
    tell_deregistration(world, party, completed);
  else if (world->roster != RONDO_ROSTER_FAILED)
    keep_early(world, party);
  if (world->roster == RONDO_ROSTER_KNOWN)
    rondo_peers_tell_early(world);
}

void rondo_peers_tell_early(struct rondo_world *world) {
  while (world->early) {
    struct rondo_early *early = world->early;
    const struct rondo_notice_register *head = early->notice.head;
    struct rondo_collective_desc desc = {.id = head->id, .reserved = head->space};
    struct rondo_party party = {.generation = head->generation,
                                .rank = head->rank,
                                .nranks = head->nranks,
                                .members = early->notice.members,
                                .desc = &desc};
    if (world->roster == RONDO_ROSTER_KNOWN) {
      rondo_peers_tell(world, &party, RONDO_NOTICE_REGISTER, early->bytes, early->size);
      tell_deregistration(world, &party, 0);
    }
    world->early = early->next;
    free(early);
  }
  world->early_end = &world->early;
}
