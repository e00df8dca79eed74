// How a process joins its job: the connection to the root and the messages that come from it.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/net/mesh_state.h"
#include "runtime/net/job_root.h"

#define FIRST_PAUSE_NS UINT64_C(2000000)
#define LAST_PAUSE_NS UINT64_C(500000000)
// Beyond the join timeout, for the root's report of missing ranks.
#define GRACE_NS UINT64_C(5000000000)
// For a root that is slow. A program that is no root may answer as one, and another one is tried.
#define WELCOME_NS UINT64_C(60000000000)
#define LEAVE_ATTEMPTS 2u // times the number of addresses
#define LEAVE_PAUSE_NS UINT64_C(2000000)
#define JOIN_BYTES 1024u // of a JOIN, without its ranks
#define RANK_BYTES 16u   // of a rank and its place

static void root_dial(struct rondo_mesh *mesh);

void rondo_mesh_dial_again(struct rondo_mesh_dial *dial, uint32_t places) {
  dial->channel = NULL;
  if (++dial->next % places) {
    rondo_event_loop_timer_set(&dial->again, 0);
    return;
  }
  rondo_event_loop_timer_set(&dial->again, dial->pause_ns);
  dial->pause_ns += dial->pause_ns / 2;
  if (dial->pause_ns > LAST_PAUSE_NS)
    dial->pause_ns = LAST_PAUSE_NS;
}

struct rondo_channel_config rondo_mesh_channels(struct rondo_mesh *mesh,
                                                const struct rondo_channel_events *events,
                                                void *owner) {
  struct rondo_channel_config c = {.loop = mesh->loop,
                                   .job = &mesh->job.key,
                                   .events = events,
                                   .owner = owner,
                                   .counters = &mesh->counters,
                                   .handshake_ns = RONDO_LISTENER_HANDSHAKE_NS,
                                   .welcome_ns = WELCOME_NS,
                                   .peer_timeout_ns = mesh->cfg.peer_timeout_ns};
  return c;
}

static void mesh_set_waiting(struct rondo_mesh *mesh, const char *what) {
  pthread_mutex_lock(&mesh->lock);
  (void)snprintf(mesh->waiting, sizeof mesh->waiting, "%s", what);
  pthread_mutex_unlock(&mesh->lock);
}

// -------------------------------------------------------------- the roster ---

// The handlers below are false if the frame is malformed or not allowed now.
static bool mesh_on_roster(struct rondo_mesh *mesh, struct rondo_wire_reader *r) {
  uint32_t self = rondo_wire_get_u32(r);
  uint32_t count = rondo_wire_get_u32(r);
  uint32_t rank_count = rondo_wire_get_u32(r);
  uint32_t root_process = rondo_wire_get_u32(r);
  if (!rondo_wire_is_done(r) || mesh->peers || mesh->phase != RONDO_MESH_JOINING || self >= count ||
      count > rank_count || rank_count != mesh->cfg.rank_count)
    return false;
  mesh->peers = calloc(count, sizeof *mesh->peers);
  mesh->topology = rondo_topology_create(rank_count, count);
  if (!mesh->peers || !mesh->topology)
    return false;
  mesh->self = self;
  mesh->expected_count = count;
  mesh->root_process = root_process < count ? root_process : RONDO_MESH_NOBODY;
  return true;
}

// Adds the next process of the roster. False if it is malformed or a rank lives in two processes.
static bool mesh_add_process(struct rondo_mesh *mesh, struct rondo_wire_reader *r) {
  struct rondo_wire_member before = mesh->last;
  rondo_wire_get_member(r, &mesh->last, mesh->member_count ? &before : NULL);
  rondo_wire_member_fini(&before);
  if (r->bad || !rondo_topology_add(mesh->topology, &mesh->last))
    return false;
  struct rondo_mesh_peer *peer = &mesh->peers[mesh->member_count++];
  peer->mesh = mesh;
  STAILQ_INIT(&peer->queue);
  return true;
}

static void mesh_publish_roster(struct rondo_mesh *mesh) {
  evtimer_del(&mesh->deadline);
  pthread_mutex_lock(&mesh->lock);
  mesh->process_count = mesh->expected_count;
  for (uint32_t r = 0; r < mesh->cfg.rank_count; r++)
    if (mesh->topology->process_of[r] == RONDO_TOPOLOGY_NOBODY)
      mesh->is_complete = 0;
  pthread_mutex_unlock(&mesh->lock);
  rondo_mesh_set_phase(mesh, RONDO_MESH_READY);
  if (mesh->events.roster)
    mesh->events.roster(mesh->arg);
  rondo_mesh_settle(mesh);
  rondo_mesh_peer_accept_waiting(mesh);
}

static bool mesh_on_members(struct rondo_mesh *mesh, struct rondo_wire_reader *r) {
  uint32_t first = rondo_wire_get_u32(r);
  uint32_t count = rondo_wire_get_u32(r);
  if (r->bad || first != mesh->member_count || mesh->phase != RONDO_MESH_JOINING ||
      count > mesh->expected_count - mesh->member_count)
    return false;
  for (uint32_t i = 0; i < count; i++)
    if (!mesh_add_process(mesh, r))
      return false;
  if (!rondo_wire_is_done(r))
    return false;
  if (mesh->member_count == mesh->expected_count)
    mesh_publish_roster(mesh);
  return true;
}

// True if the rank's process reports the loss on the connection with it, after its messages.
static bool rank_reports_itself(struct rondo_mesh *mesh, uint32_t rank, int reason) {
  uint32_t process = mesh->topology->process_of[rank];
  if (reason != RONDO_MESH_LEFT || process == RONDO_MESH_NOBODY ||
      !rondo_mesh_peer_is_connected(&mesh->peers[process]))
    return false;
  mesh->left[rank] = 1; // in case the connection is never made
  return true;
}

static bool mesh_on_lost(struct rondo_mesh *mesh, struct rondo_wire_reader *r) {
  char text[RONDO_WIRE_TEXT_BYTES + 1];
  uint32_t *ranks;
  int reason = rondo_wire_get_u8(r);
  rondo_wire_get_text(r, text, sizeof text);
  uint32_t count = rondo_wire_get_ranks(r, &ranks);
  uint32_t kept = 0;
  bool is_valid = rondo_wire_is_done(r) && mesh->phase == RONDO_MESH_READY &&
                  reason >= RONDO_MESH_LEFT && reason <= RONDO_MESH_BROKE;
  for (uint32_t i = 0; i < count && is_valid; i++) {
    is_valid = ranks[i] < mesh->cfg.rank_count;
    if (is_valid && !rank_reports_itself(mesh, ranks[i], reason))
      ranks[kept++] = ranks[i];
  }
  if (is_valid && kept)
    rondo_mesh_report(mesh, ranks, kept, reason, text);
  free(ranks);
  return is_valid;
}

static bool mesh_on_missing(struct rondo_mesh *mesh, struct rondo_wire_reader *r) {
  char list[RONDO_MESH_TEXT_BYTES / 2];
  char text[RONDO_MESH_TEXT_BYTES];
  uint32_t *ranks;
  uint32_t missing = rondo_wire_get_u32(r);
  uint32_t count = rondo_wire_get_ranks(r, &ranks);
  bool is_valid = rondo_wire_is_done(r) && count && count <= missing;
  if (is_valid) {
    rondo_root_ranks_text(ranks, count, list, sizeof list);
    (void)snprintf(text, sizeof text, "%u of %u ranks are missing: %s", missing,
                   mesh->cfg.rank_count, list);
    mesh_set_waiting(mesh, text);
  }
  free(ranks);
  return is_valid;
}

static bool mesh_on_reject(struct rondo_mesh *mesh, struct rondo_wire_reader *r) {
  char text[RONDO_WIRE_TEXT_BYTES + 1];
  char whole[RONDO_WIRE_TEXT_BYTES + 64];
  (void)rondo_wire_get_u8(r);
  rondo_wire_get_text(r, text, sizeof text);
  if (!rondo_wire_is_done(r))
    return false;
  (void)snprintf(whole, sizeof whole, "the root rejected the process: %s", text);
  if (mesh->phase == RONDO_MESH_JOINING)
    rondo_mesh_fail(mesh, RONDO_MESH_MISSING, whole);
  else
    rondo_log(RONDO_LOG_ERROR, "rank %u: %s", mesh->cfg.rank, whole);
  return true;
}

// The root leaves. From now on only direct connections tell of lost ranks.
static bool mesh_on_root_bye(struct rondo_mesh *mesh, struct rondo_wire_reader *r) {
  if (!rondo_wire_is_done(r))
    return false;
  struct rondo_channel *c = mesh->root;
  mesh->root = NULL;
  rondo_channel_close(c);
  rondo_mesh_stop_look(mesh);
  if (mesh->phase == RONDO_MESH_JOINING)
    rondo_mesh_fail(mesh, RONDO_MESH_LEFT, "the process with the root has left");
  return true;
}

static void root_on_frame(void *owner, struct rondo_channel *c, struct rondo_channel_frame *frame) {
  struct rondo_mesh *mesh = owner;
  struct rondo_wire_reader r = rondo_wire_read(&frame->wire);
  static bool (*const handlers[])(struct rondo_mesh *, struct rondo_wire_reader *) = {
      [RONDO_WIRE_BYE] = mesh_on_root_bye,    [RONDO_WIRE_REJECT] = mesh_on_reject,
      [RONDO_WIRE_MISSING] = mesh_on_missing, [RONDO_WIRE_ROSTER] = mesh_on_roster,
      [RONDO_WIRE_MEMBERS] = mesh_on_members, [RONDO_WIRE_LOST] = mesh_on_lost,
  };
  uint8_t type = frame->wire.head.type;
  bool is_known = type < sizeof handlers / sizeof *handlers && handlers[type];
  if (mesh->phase == RONDO_MESH_STOPPING && type != RONDO_WIRE_BYE)
    return;
  if (!is_known || !handlers[type](mesh, &r))
    rondo_channel_refuse(c, RONDO_WIRE_REFUSE_GARBAGE);
}

// --------------------------------------------------------- the way to the root ---

static void root_send_join(struct rondo_mesh *mesh) {
  size_t capacity = JOIN_BYTES + mesh->me.rank_count * RANK_BYTES;
  uint8_t *bytes = malloc(capacity);
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = bytes ? capacity : 0};
  rondo_wire_put_u32(&w, mesh->cfg.rank_count);
  rondo_wire_put_member(&w, &mesh->me, NULL);
  if (w.full)
    rondo_channel_send(mesh->root, NULL);
  else
    rondo_channel_send_bytes(mesh->root, RONDO_WIRE_JOIN, bytes, w.size);
  free(bytes);
}

static void root_send_gone_rank(struct rondo_mesh *mesh, uint32_t rank) {
  uint8_t bytes[4];
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = sizeof bytes};
  rondo_wire_put_u32(&w, rank);
  rondo_channel_send_bytes(mesh->root, RONDO_WIRE_GONE, bytes, w.size);
}

// Tells the root which ranks have left, so that the others do not wait for them.
static void root_send_gone(struct rondo_mesh *mesh) {
  pthread_mutex_lock(&mesh->lock);
  for (uint32_t r = 0; r < mesh->cfg.rank_count && mesh->root; r++) {
    if (mesh->here[r] == RONDO_MESH_IS_LEAVING) {
      root_send_gone_rank(mesh, r);
      mesh->here[r] = RONDO_MESH_WAS_HERE;
    }
  }
  pthread_mutex_unlock(&mesh->lock);
}

static void root_on_opened(void *owner, struct rondo_channel *c) {
  struct rondo_mesh *mesh = owner;
  mesh->root = c;
  mesh->root_dial.channel = NULL;
  rondo_channel_count(&mesh->counters.connected, 1);
  mesh_set_waiting(mesh, "some ranks are missing; the root has not named them yet");
  root_send_join(mesh);
  root_send_gone(mesh);
}

// Handles the loss of the connection to the root.
static void root_lose(struct rondo_mesh *mesh, int how, const char *why) {
  char text[RONDO_MESH_TEXT_BYTES];
  (void)snprintf(text, sizeof text, "the process with the root is gone: %s", why);
  if (mesh->phase == RONDO_MESH_JOINING) {
    rondo_mesh_fail(mesh, rondo_channel_end_reason(how), text);
  } else if (mesh->phase == RONDO_MESH_READY && mesh->root_process != RONDO_MESH_NOBODY) {
    const struct rondo_topology_process *at = &mesh->topology->processes[mesh->root_process];
    rondo_mesh_report(mesh, at->ranks, at->rank_count, rondo_channel_end_reason(how), text);
  }
}

// The addresses and ports at which the root may be.
static uint32_t root_places(const struct rondo_mesh *mesh) {
  return mesh->job.address_count * (mesh->job.port_count ? mesh->job.port_count : 1);
}

// True if another attempt may reach the root. This matters to a process that leaves: the root of an
// id existed before the id, so it is gone if it does not answer a few times. The root of a launcher
// may start later or never, so it is tried for a bounded time.
static bool root_may_answer(struct rondo_mesh *mesh) {
  if (mesh->phase == RONDO_MESH_JOINING)
    return true;
  if (!mesh->keeps_joining || rondo_root_is_here(&mesh->job.key))
    return mesh->keeps_joining;
  if (mesh->job.port_count)
    return rondo_now_ns() < mesh->stop_root_ns;
  return ++mesh->leave_attempts < LEAVE_ATTEMPTS * mesh->job.address_count;
}

static void root_on_closed(void *owner, struct rondo_channel *c, int how, const char *why) {
  struct rondo_mesh *mesh = owner;
  if (mesh->root == c) {
    mesh->root = NULL;
    rondo_mesh_stop_look(mesh);
    root_lose(mesh, how, why);
    return;
  }
  mesh->root_dial.channel = NULL;
  if (!root_may_answer(mesh))
    return;
  // Log a refusal once. A root that does not answer yet is no refusal.
  bool is_refusal = how < RONDO_CHANNEL_CUT;
  if (is_refusal && !mesh->root_dial.has_answer)
    rondo_log(RONDO_LOG_WARN, "rank %u: no handshake with %s", mesh->cfg.rank, why);
  mesh->root_dial.has_answer |= is_refusal;
  mesh_set_waiting(mesh, why);
  rondo_mesh_dial_again(&mesh->root_dial, root_places(mesh));
}

static const struct rondo_channel_events root_events = {
    .opened = root_on_opened, .frame = root_on_frame, .closed = root_on_closed};

static void root_on_redial(evutil_socket_t fd, short what, void *arg) {
  (void)fd, (void)what;
  root_dial(arg);
}

// Makes one attempt: tries all addresses in turn, and all ports if the port is not given.
static void root_dial(struct rondo_mesh *mesh) {
  struct rondo_job_address *job = &mesh->job;
  struct rondo_channel_config cfg = rondo_mesh_channels(mesh, &root_events, mesh);
  struct rondo_wire_hello hello = {
      .purpose = RONDO_WIRE_TO_ROOT, .from = RONDO_MESH_NOBODY, .to = RONDO_MESH_NOBODY};
  struct rondo_wire_address to = job->addresses[mesh->root_dial.next % job->address_count];
  if (job->port_count)
    to.port = job->ports[mesh->root_dial.next / job->address_count % job->port_count];
  mesh->root_dial.channel = rondo_channel_connect(&cfg, &to, &hello);
  if (mesh->root_dial.channel)
    return;
  mesh_set_waiting(mesh, strerror(errno));
  if (root_may_answer(mesh))
    rondo_mesh_dial_again(&mesh->root_dial, root_places(mesh));
}

// ------------------------------------------------------- ranks of this process ---

// Tells the root of ranks that leave, once no frames wait for a connection to a peer. Peers with a
// connection from here are told there, after their messages; the root tells the others.
static void mesh_on_leave(evutil_socket_t fd, short what, void *arg) {
  struct rondo_mesh *mesh = arg;
  (void)fd, (void)what;
  for (uint32_t i = 0; i < mesh->process_count; i++) {
    if (!STAILQ_EMPTY(&mesh->peers[i].queue)) {
      rondo_event_loop_timer_set(&mesh->leave, LEAVE_PAUSE_NS);
      return;
    }
  }
  root_send_gone(mesh);
}

// Adds a rank of this process. A process that has not joined yet tells the root when it joins.
static void mesh_join_add(struct rondo_mesh *mesh, uint32_t rank,
                          const struct rondo_topology_place *place) {
  uint8_t bytes[RANK_BYTES];
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = sizeof bytes};
  rondo_wire_put_u32(&w, rank);
  rondo_wire_put_place(&w, place);
  if (!rondo_wire_member_try_insert(&mesh->me, rank, place)) {
    rondo_log(RONDO_LOG_ERROR, "rank %u cannot join its job: no memory", rank);
    return;
  }
  if (mesh->root)
    rondo_channel_send_bytes(mesh->root, RONDO_WIRE_ADD, bytes, w.size);
}

void rondo_mesh_join_rank(struct rondo_mesh *mesh, const struct rondo_mesh_command *command) {
  if (command->type == RONDO_WIRE_ADD) {
    mesh_join_add(mesh, command->number, &command->place);
    return;
  }
  mesh->left[command->number] = 1;
  for (uint32_t i = 0; i < mesh->process_count; i++)
    rondo_mesh_peer_leave(&mesh->peers[i], command->number);
  mesh_on_leave(-1, 0, mesh);
}

// --------------------------------------------------------------- the start ---

// Opens the root of a launcher's job in the process of rank 0. It listens at those published
// addresses that belong to this machine, or, if none does, at all addresses of this machine.
static int mesh_open_root(struct rondo_mesh *mesh) {
  struct rondo_job_address *job = &mesh->job;
  struct rondo_wire_address at[RONDO_TOPOLOGY_ADDRESSES];
  struct rondo_root_config root = {.job = job->key,
                                   .addresses = at,
                                   .join_timeout_ns = mesh->cfg.join_timeout_ns,
                                   .peer_timeout_ns = mesh->cfg.peer_timeout_ns};
  if (!job->makes_root || rondo_root_is_here(&job->key))
    return RONDO_SUCCESS;
  for (uint32_t i = 0; i < job->address_count; i++)
    if (rondo_address_is_here(&job->addresses[i]))
      at[root.address_count++] = job->addresses[i];
  if (!root.address_count)
    root.address_count = rondo_address_list(mesh->cfg.interfaces, mesh->cfg.address_family, at);
  int status = RONDO_ERR_UNSUPPORTED;
  for (uint32_t p = 0; p < job->port_count && root.address_count && status != RONDO_SUCCESS; p++) {
    for (uint32_t i = 0; i < root.address_count; i++)
      at[i].port = job->ports[p];
    status = rondo_root_open(&root);
  }
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "init: rank 0 cannot listen at %s, port %u and %u others: %s",
                            job->host, job->ports[0], job->port_count - 1,
                            root.address_count ? strerror(errno) : "no network interface fits");
  return RONDO_SUCCESS;
}

// Opens the root at a free port, in the process of rank 0, so that its address can be published.
static int mesh_open_published_root(struct rondo_mesh *mesh) {
  struct rondo_job_address *job = &mesh->job;
  const char *pattern = *job->host && !*mesh->cfg.interfaces ? "lo" : mesh->cfg.interfaces;
  if (!job->makes_root)
    return RONDO_SUCCESS;
  rondo_job_address_make_secret(job);
  job->address_count = rondo_address_list(pattern, mesh->cfg.address_family, job->addresses);
  job->port_count = 0;
  const struct rondo_root_config root = {.job = job->key,
                                         .addresses = job->addresses,
                                         .address_count = job->address_count,
                                         .join_timeout_ns = mesh->cfg.join_timeout_ns,
                                         .peer_timeout_ns = mesh->cfg.peer_timeout_ns};
  int status = job->address_count ? rondo_root_open(&root) : RONDO_ERR_UNSUPPORTED;
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "init: rank 0 cannot listen: %s",
                            job->address_count ? strerror(errno) : "no network interface fits");
  return RONDO_SUCCESS;
}

int rondo_mesh_join_prepare(struct rondo_mesh *mesh) {
  struct rondo_job_address *job = &mesh->job;
  if (job->uses_pmix)
    return mesh_open_published_root(mesh);
  if (!job->address_count)
    job->address_count = rondo_resolve_now(job->host, mesh->cfg.address_family, job->addresses);
  return job->address_count ? mesh_open_root(mesh) : RONDO_SUCCESS;
}

static void mesh_on_resolved(void *arg, const struct rondo_wire_address *addresses, uint32_t count,
                             const char *error) {
  struct rondo_mesh *mesh = arg;
  char text[RONDO_MESH_TEXT_BYTES] = "the root cannot be opened";
  if (count)
    memcpy(mesh->job.addresses, addresses, count * sizeof *addresses);
  else
    (void)snprintf(text, sizeof text, "the root's host \"%.80s\" has no address: %.80s",
                   mesh->job.host, error);
  mesh->job.address_count = count;
  rondo_resolve_forget(mesh->resolve); // frees `addresses`
  mesh->resolve = NULL;
  if (count && mesh_open_root(mesh) == RONDO_SUCCESS)
    root_dial(mesh);
  else
    rondo_mesh_fail(mesh, RONDO_MESH_MISSING, text);
}

static void mesh_on_deadline(evutil_socket_t fd, short what, void *arg) {
  struct rondo_mesh *mesh = arg;
  char text[RONDO_MESH_TEXT_BYTES];
  (void)fd, (void)what;
  pthread_mutex_lock(&mesh->lock);
  (void)snprintf(text, sizeof text, "timed out after %llu ms: %.180s",
                 (unsigned long long)mesh->cfg.join_timeout_ns / 1000000, mesh->waiting);
  pthread_mutex_unlock(&mesh->lock);
  rondo_mesh_fail(mesh, RONDO_MESH_MISSING, text);
}

static void mesh_on_published(void *arg, const struct rondo_unique_id *id, const char *error) {
  struct rondo_mesh *mesh = arg;
  struct rondo_job_address *job = &mesh->job;
  mesh->is_published = 1;
  if (job->makes_root) {
    if (error)
      rondo_log(RONDO_LOG_ERROR, "init: other ranks cannot find rank 0: %s", error);
    return;
  }
  if (!error && !rondo_job_address_take(job, id))
    error = "what rank 0 has published by PMIx is malformed";
  if (error)
    rondo_mesh_fail(mesh, RONDO_MESH_MISSING, error);
  else if (mesh->phase == RONDO_MESH_JOINING || mesh->keeps_joining)
    root_dial(mesh);
  if (!error)
    rondo_log(RONDO_LOG_INFO, "init: rank %u has found the root by PMIx", mesh->cfg.rank);
}

// Publishes where the root is and connects to it, or waits until that is published.
static void mesh_begin_pmix(struct rondo_mesh *mesh) {
  struct rondo_unique_id id;
  const struct rondo_job_address *job = &mesh->job;
  if (job->makes_root)
    rondo_job_address_publish(job, &id);
  else
    mesh_set_waiting(mesh, "rank 0 has not published its address by PMIx yet");
  mesh->pmix = rondo_pmix_begin(mesh->loop, job->makes_root ? &id : NULL, mesh_on_published, mesh);
  if (!mesh->pmix)
    rondo_mesh_fail(mesh, RONDO_MESH_MISSING, "the system gives no thread for PMIx");
  else if (job->makes_root)
    root_dial(mesh);
}

void rondo_mesh_join_begin(struct rondo_mesh *mesh) {
  struct event_base *base = rondo_event_loop_base(mesh->loop);
  struct rondo_job_address *job = &mesh->job;
  evtimer_assign(&mesh->deadline, base, mesh_on_deadline, mesh);
  evtimer_assign(&mesh->root_dial.again, base, root_on_redial, mesh);
  evtimer_assign(&mesh->leave, base, mesh_on_leave, mesh);
  rondo_event_loop_timer_set(&mesh->deadline, mesh->cfg.join_timeout_ns + GRACE_NS);
  mesh->root_dial.pause_ns = FIRST_PAUSE_NS;
  if (job->uses_pmix) {
    mesh_begin_pmix(mesh);
    return;
  }
  if (job->address_count) {
    root_dial(mesh);
    return;
  }
  mesh->resolve =
      rondo_resolve_begin(mesh->loop, job->host, mesh->cfg.address_family, mesh_on_resolved, mesh);
  if (!mesh->resolve)
    rondo_mesh_fail(mesh, RONDO_MESH_MISSING, "the system gives no thread to look up the root");
}

void rondo_mesh_join_free(struct rondo_mesh *mesh) {
  if (mesh->pmix)
    rondo_pmix_forget(mesh->pmix);
  mesh->pmix = NULL;
}

void rondo_mesh_join_hurry(struct rondo_mesh *mesh) {
  mesh->root_dial.pause_ns = FIRST_PAUSE_NS;
  if (evtimer_pending(&mesh->root_dial.again, NULL))
    rondo_event_loop_timer_set(&mesh->root_dial.again, 0);
}

bool rondo_mesh_join_is_trying(const struct rondo_mesh *mesh) {
  return evtimer_pending(&mesh->deadline, NULL) &&
         (mesh->resolve || (mesh->pmix && !mesh->is_published) || mesh->root_dial.channel ||
          evtimer_pending(&mesh->root_dial.again, NULL));
}

void rondo_mesh_join_end(struct rondo_mesh *mesh) {
  evtimer_del(&mesh->deadline);
  evtimer_del(&mesh->root_dial.again);
  evtimer_del(&mesh->leave);
  if (mesh->resolve)
    rondo_resolve_forget(mesh->resolve);
  mesh->resolve = NULL;
  if (mesh->root_dial.channel)
    rondo_channel_close(mesh->root_dial.channel);
  mesh->root_dial.channel = NULL;
  if (mesh->root)
    rondo_channel_close(mesh->root);
  mesh->root = NULL;
}
