// The other processes of a job: sending to them, and their memory.
#include "runtime/job/processes.h"

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
  struct rondo_message_registration notice; // pointers into what follows
  uint64_t bytes[];
};

uint32_t rondo_processes_where(const struct rondo_job *job, uint32_t rank) {
  if (job->members[rank])
    return RONDO_HERE;
  if (job->roster != RONDO_ROSTER_KNOWN)
    return RONDO_SOMEWHERE;
  uint32_t process = rondo_mesh_calls->process_of(job->mesh, rank);
  if (process == RONDO_MESH_NOBODY)
    return RONDO_SOMEWHERE;
  return process == job->self ? RONDO_HERE : process;
}

static int say(char *why, size_t why_bytes, int transport, const char *text) {
  (void)snprintf(why, why_bytes, "%s", text);
  return transport;
}

static int say_far(const struct rondo_job *job, uint32_t process, char *why, size_t why_bytes) {
  const char *where = rondo_mesh_calls->is_near(job->mesh, process)
                          ? "another process of this machine"
                          : "another machine, or another network namespace";
  int reach = job->peers[process].reach;
  if (reach == RONDO_TRANSPORT_UCX)
    (void)snprintf(why, why_bytes, "%s%s", where,
                   job->transport == reach ? "; the configuration asks for it" : "");
  else if (job->transport == RONDO_TRANSPORT_SHARED_MEMORY)
    (void)snprintf(why, why_bytes, "%s; the configuration asks for shared memory alone", where);
  else
    (void)snprintf(why, why_bytes, "%s; %s", where, job->no_proxy);
  return reach;
}

// Between devices that differ in what they reach: where connectors lie.
static int say_local(const struct rondo_job *job, const struct rondo_rank *self, uint32_t rank,
                     char *why, size_t why_bytes) {
  char reason[RONDO_WHY_BYTES];
  const struct rondo_driver *driver = self->device->driver;
  if (!driver->reach)
    return say(why, why_bytes, RONDO_TRANSPORT_LOCAL, "the rank lives in this process");
  if (!job->members[rank])
    return say(why, why_bytes, -1, "on which device the rank is is not known yet");
  (void)driver->reach(self->device, job->members[rank]->device, reason);
  return say(why, why_bytes, RONDO_TRANSPORT_LOCAL, reason);
}

int rondo_processes_transport(const struct rondo_job *job, const struct rondo_rank *self,
                              uint32_t rank, char *why, size_t why_bytes) {
  uint32_t process = job->mesh ? rondo_processes_where(job, rank) : RONDO_HERE;
  if (process == RONDO_HERE)
    return say_local(job, self, rank, why, why_bytes);
  if (job->gone[rank])
    return say(why, why_bytes, RONDO_TRANSPORT_NONE, "the rank has left or is lost");
  if (process >= job->peer_count)
    return say(why, why_bytes, -1, "where the rank lives is not known yet");
  const struct rondo_peer *peer = &job->peers[process];
  if (peer->is_lost)
    return say(why, why_bytes, RONDO_TRANSPORT_NONE, "the rank's process is lost");
  if (peer->reach != RONDO_TRANSPORT_SHARED_MEMORY)
    return say_far(job, process, why, why_bytes);
  if (self->device->driver->sharing)
    return rondo_mapped_say(job, process, why, why_bytes);
  return say(why, why_bytes, RONDO_TRANSPORT_SHARED_MEMORY,
             peer->map ? "another process of this machine; its memory is mapped"
                       : "another process of this machine; its memory is mapped when first needed");
}

void rondo_processes_wake(struct rondo_job *job, const struct rondo_communicator *comm) {
  for (uint32_t i = 0; i < comm->shape.nranks; i++) {
    struct rondo_rank *rank = job->members[comm->members[i]];
    if (rank && !rank->is_manual)
      rank->daemon->driver->kick(rank->daemon, 1);
  }
}

void rondo_processes_unuse(struct rondo_job *job, uint32_t process) {
  struct rondo_peer *peer = &job->peers[process];
  peer->links--;
  if (peer->links || !peer->is_lost)
    return;
  rondo_mapped_unmap(peer);
}

// ------------------------------------------------------------------ sending ---

static int post(struct rondo_job *job, const struct rondo_mesh_send *message) {
  int status = rondo_mesh_calls->send(job->mesh, message);
  if (status == RONDO_SUCCESS || status == RONDO_ERR_PEER)
    return status; // who is lost is told of by `lost`
  rondo_log(RONDO_LOG_ERROR, "process %u cannot be told what it must know (%s): it is given up",
            message->to, rondo_status_name(status));
  rondo_processes_mark_failed(job, message->to);
  return status;
}

// The first message to a process says where our memory is, or our proxy.
static void greet(struct rondo_job *job, uint32_t process) {
  struct rondo_peer *peer = &job->peers[process];
  int fd = rondo_arena_fd(job->arena);
  struct rondo_message_hello hello = {.base = (uint64_t)(uintptr_t)rondo_arena_base(job->arena),
                                      .bytes = rondo_arena_bytes(job->arena)};
  struct rondo_mesh_send message = {.to = process,
                                    .type = RONDO_MESSAGE_HELLO,
                                    .bytes = &hello,
                                    .size = sizeof hello,
                                    .fds = &fd,
                                    .fd_count = 1};
  peer->is_greeted = 1;
  if (peer->reach == RONDO_TRANSPORT_UCX) {
    rondo_proxied_greet(job, process);
    return;
  }
  rondo_mapped_describe(job, &hello);
  (void)post(job, &message);
}

void rondo_processes_greet(struct rondo_job *job, uint32_t process) {
  struct rondo_peer *peer = &job->peers[process];
  struct rondo_range_part part;
  if (peer->reach == RONDO_TRANSPORT_NONE)
    return;
  if (!peer->is_greeted)
    greet(job, process);
  if (peer->reach != RONDO_TRANSPORT_SHARED_MEMORY)
    return;
  while (!peer->is_failed && rondo_mapped_next_part(job, process, &part)) {
    const struct rondo_message_part notice = {part.at, part.bytes};
    struct rondo_mesh_send message = {.to = process,
                                      .type = RONDO_MESSAGE_PART,
                                      .bytes = &notice,
                                      .size = sizeof notice,
                                      .fds = &part.fd,
                                      .fd_count = 1};
    (void)post(job, &message);
  }
}

void rondo_processes_send(struct rondo_job *job, uint32_t process, uint32_t type, const void *bytes,
                          size_t size) {
  struct rondo_mesh_send message = {.to = process, .type = type, .bytes = bytes, .size = size};
  if (process >= job->peer_count || job->peers[process].is_lost || job->peers[process].is_failed)
    return;
  rondo_processes_greet(job, process);
  if (!job->peers[process].is_failed)
    (void)post(job, &message);
}

void rondo_processes_tell(struct rondo_job *job, const struct rondo_registration *registration,
                          uint32_t type, const void *bytes, size_t size) {
  uint64_t mark = ++job->mark;
  for (uint32_t i = 0; i < registration->nranks; i++) {
    uint32_t process = rondo_processes_where(job, registration->members[i]);
    if (process >= job->peer_count || job->peers[process].mark == mark)
      continue;
    job->peers[process].mark = mark;
    rondo_processes_send(job, process, type, bytes, size);
  }
}

// ------------------------------------------------------------ registrations ---

static struct rondo_message_register describe(const struct rondo_registration *p) {
  const struct rondo_collective_desc *d = p->desc;
  struct rondo_message_register head = {.id = d->id,
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

// The connectors here by which members in other processes send to the registration's rank.
static uint32_t collect_offers(const struct rondo_job *job, const struct rondo_registration *p,
                               struct rondo_offer *offers) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < p->plan->recv.count; i++) {
    uint32_t from = rondo_plan_peer(p->plan, &p->plan->recv, i);
    struct rondo_link *link = rondo_communicator_link(p->comm, from, p->position);
    if (!link || link->process == RONDO_HERE || (link->is_proxied && !link->far))
      continue;
    if (link->is_proxied) {
      struct rondo_offer far = {.from = link->from, .at = rondo_proxy_link_number(link->far)};
      offers[count++] = far;
      continue;
    }
    struct rondo_offer offer = {.from = link->from,
                                .place = rondo_mapped_place(link->at.kind),
                                .at = (uint64_t)(uintptr_t)link->first -
                                      rondo_mapped_base(job, link->at.kind),
                                .stride_bytes = link->stride_bytes};
    offers[count++] = offer;
    link->is_owed = 1;
  }
  return count;
}

// A failure of this registration that the others do not know of.
static void tell_failure(struct rondo_job *job, const struct rondo_registration *registration) {
  uint32_t state = rondo_load_relaxed_u32(&registration->comm->gate.state);
  struct rondo_message_short notice = rondo_message_about(registration);
  if (state < RONDO_GATE_FAILED)
    return;
  notice.rank = registration->rank;
  notice.other = registration->comm->gate.culprit;
  notice.status = (int32_t)(state - RONDO_GATE_FAILED);
  rondo_processes_tell(job, registration, RONDO_MESSAGE_FAIL, &notice, sizeof notice);
}

void rondo_processes_announce(struct rondo_job *job, struct rondo_registration *registration) {
  struct rondo_message_register head = describe(registration);
  if (registration->is_announced)
    return;
  registration->is_announced = 1;
  void *bytes = NULL;
  size_t size = 0;
  struct rondo_offer *offers = malloc((registration->plan->recv.count + 1) * sizeof *offers);
  struct rondo_message_registration notice = {&head, registration->members,
                                              registration->desc->send_counts, offers};
  if (offers) {
    head.offer_count = collect_offers(job, registration, offers);
    size = rondo_message_register_bytes(&head);
    bytes = malloc(size);
  }
  if (bytes) {
    rondo_message_register_encode(bytes, &notice);
    rondo_processes_tell(job, registration, RONDO_MESSAGE_REGISTER, bytes, size);
    tell_failure(job, registration);
  } else {
    rondo_log(RONDO_LOG_ERROR, "register: id %llu: no memory to tell other processes of it",
              (unsigned long long)head.id);
    rondo_job_fail(job, registration, RONDO_ERR_NO_MEMORY);
  }
  free(bytes);
  free(offers);
}

static void tell_deregistration(struct rondo_job *job,
                                const struct rondo_registration *registration, uint64_t completed) {
  struct rondo_message_short notice = rondo_message_about(registration);
  notice.rank = registration->rank;
  notice.completed = completed;
  rondo_processes_tell(job, registration, RONDO_MESSAGE_DEREGISTER, &notice, sizeof notice);
}

// Keeps what is over until it is known whom to tell: they count the registrations of an id.
static void keep_early(struct rondo_job *job, const struct rondo_registration *registration) {
  struct rondo_message_register head = describe(registration);
  struct rondo_message_registration notice = {&head, registration->members,
                                              registration->desc->send_counts, NULL};
  size_t size = rondo_message_register_bytes(&head);
  struct rondo_early *early = malloc(sizeof *early + size);
  if (!early) {
    rondo_log(RONDO_LOG_ERROR, "deregister: id %llu: no memory to tell other processes of it",
              (unsigned long long)head.id);
    return;
  }
  rondo_message_register_encode(early->bytes, &notice);
  (void)rondo_message_register_decode(early->bytes, size, job->rank_count, &early->notice);
  early->size = size;
  early->next = NULL;
  *job->early_end = early;
  job->early_end = &early->next;
}

void rondo_processes_withdraw(struct rondo_job *job, struct rondo_registration *registration,
                              uint64_t completed) {
  if (registration->is_announced)
    tell_deregistration(job, registration, completed);
  else if (job->roster != RONDO_ROSTER_FAILED)
    keep_early(job, registration);
  if (job->roster == RONDO_ROSTER_KNOWN)
    rondo_processes_tell_early(job);
}

void rondo_processes_tell_early(struct rondo_job *job) {
  while (job->early) {
    struct rondo_early *early = job->early;
    const struct rondo_message_register *head = early->notice.head;
    struct rondo_collective_desc desc = {.id = head->id, .reserved = head->space};
    struct rondo_registration registration = {.generation = head->generation,
                                              .rank = head->rank,
                                              .nranks = head->nranks,
                                              .members = early->notice.members,
                                              .desc = &desc};
    if (job->roster == RONDO_ROSTER_KNOWN) {
      rondo_processes_tell(job, &registration, RONDO_MESSAGE_REGISTER, early->bytes, early->size);
      tell_deregistration(job, &registration, 0);
    }
    job->early = early->next;
    free(early);
  }
  job->early_end = &job->early;
}
