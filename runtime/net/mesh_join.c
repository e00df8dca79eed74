// The way to the root: where it is, the connection to it, and the messages of membership that go
// there and come from it.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/net/job_root.h"
#include "runtime/net/mesh_state.h"
#include "runtime/net/pmix.h"
#include "runtime/net/resolve.h"

#define FIRST_PAUSE_NS UINT64_C(2000000)
#define REFUSED_NS UINT64_C(1000000000) // a root that was there and refuses for so long has ended
#define LEAVE_NS UINT64_C(10000000000)  // most time to try a launcher's root while leaving
#define LEAVE_ATTEMPTS 2u               // times the number of addresses

static void root_dial(struct rondo_mesh *mesh);

// -------------------------------------------------------------- the connection ---

static void root_drop_queue(struct rondo_mesh *mesh) {
  while (!STAILQ_EMPTY(&mesh->root_queue)) {
    struct rondo_channel_out *out = STAILQ_FIRST(&mesh->root_queue);
    STAILQ_REMOVE_HEAD(&mesh->root_queue, queued);
    rondo_channel_out_free(out);
  }
}

static void root_on_opened(void *owner, struct rondo_channel *c) {
  struct rondo_mesh *mesh = owner;
  mesh->root = c;
  mesh->had_root = 1;
  mesh->root_dial.channel = NULL;
  rondo_channel_count(&mesh->counters.connected, 1);
  if (mesh->process_count) { // the roster has come
    mesh->root = NULL;
    rondo_channel_close(c);
    return;
  }
  mesh->events.waits(mesh->arg, "some ranks are missing; the root has not named them yet");
  while (!STAILQ_EMPTY(&mesh->root_queue)) {
    struct rondo_channel_out *out = STAILQ_FIRST(&mesh->root_queue);
    STAILQ_REMOVE_HEAD(&mesh->root_queue, queued);
    rondo_channel_send(c, out);
  }
}

static void root_on_frame(void *owner, struct rondo_channel *c, struct rondo_channel_frame *frame) {
  struct rondo_mesh *mesh = owner;
  if (frame->wire.head.type == RONDO_WIRE_MEMBERSHIP) {
    mesh->events.control(mesh->arg, RONDO_MESH_ROOT, frame->wire.payload, frame->wire.head.size);
  } else if (frame->wire.head.type == RONDO_WIRE_BYE && !frame->wire.head.size) {
    mesh->root = NULL; // all processes have the roster, or there will be none
    rondo_channel_close(c);
    if (mesh->is_hurried && !mesh->process_count) // it may not have read that this process leaves
      mesh->events.cut(mesh->arg, RONDO_MESH_ROOT, false, "the root has made the roster");
  } else {
    rondo_channel_refuse(c, RONDO_WIRE_REFUSE_GARBAGE);
  }
}

// The addresses and ports at which the root may be.
static uint32_t root_places(const struct rondo_mesh *mesh) {
  return mesh->job.address_count * (mesh->job.port_count ? mesh->job.port_count : 1);
}

// True if another attempt may reach the root. A process that leaves must tell it so. The root of an
// id existed before the id, so it is gone if it does not answer a few times. The root of a launcher
// may start later or never, so it is tried for a bounded time.
static bool root_may_answer(struct rondo_mesh *mesh) {
  uint64_t now_ns = rondo_now_ns();
  uint64_t leave_ns = mesh->cfg.peer_timeout_ns < LEAVE_NS ? mesh->cfg.peer_timeout_ns : LEAVE_NS;
  if (mesh->had_root && now_ns - mesh->root_dial.begin_ns > REFUSED_NS)
    return false;
  if (!mesh->is_hurried || rondo_root_is_here(&mesh->job.key))
    return true;
  if (mesh->job.port_count)
    return now_ns - mesh->hurried_ns < leave_ns;
  return ++mesh->attempts < LEAVE_ATTEMPTS * mesh->job.address_count;
}

// Tries again, or gives the root up.
static void root_retry(struct rondo_mesh *mesh, int how, const char *why) {
  if (mesh->process_count)
    return; // the roster has come
  if (how == RONDO_CHANNEL_UNREACHABLE || how == RONDO_WIRE_REFUSE_LATE)
    mesh->root_dial.begin_ns = rondo_now_ns();
  if (root_may_answer(mesh)) {
    mesh->events.waits(mesh->arg, why);
    rondo_mesh_dial_again(mesh, &mesh->root_dial, root_places(mesh));
    return;
  }
  root_drop_queue(mesh);
  mesh->is_root_done = 1;
  mesh->events.cut(mesh->arg, RONDO_MESH_ROOT, true, why);
}

static void root_on_closed(void *owner, struct rondo_channel *c, int how, const char *why) {
  struct rondo_mesh *mesh = owner;
  if (mesh->root == c) {
    mesh->root = NULL;
    if (mesh->process_count)
      return;
    root_dial(mesh); // to see whether it has ended
    mesh->events.cut(mesh->arg, RONDO_MESH_ROOT, false, why);
    return;
  }
  mesh->root_dial.channel = NULL;
  // Log a refusal once. A root that does not answer yet is no refusal.
  bool is_refusal = how < RONDO_CHANNEL_CUT;
  if (is_refusal && !mesh->root_dial.has_answer)
    rondo_log(RONDO_LOG_WARN, "rank %u: no handshake with %s", mesh->cfg.rank, why);
  mesh->root_dial.has_answer |= is_refusal;
  root_retry(mesh, how, why);
}

static const struct rondo_channel_events root_events = {
    .opened = root_on_opened, .frame = root_on_frame, .closed = root_on_closed};

// Makes one attempt: tries all addresses in turn, and all ports if the port is not given. A failure
// is handled by the event loop.
static void root_attempt(struct rondo_mesh *mesh) {
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
  mesh->root_dial.error = (uint16_t)errno;
  rondo_mesh_dial_after(mesh, &mesh->root_dial, 0);
}

static void root_on_again(struct rondo_mesh_dial *dial) {
  struct rondo_mesh *mesh =
      (struct rondo_mesh *)((char *)dial - offsetof(struct rondo_mesh, root_dial));
  int error = mesh->root_dial.error;
  mesh->root_dial.error = 0;
  if (error)
    root_retry(mesh, RONDO_CHANNEL_CUT, strerror(error));
  else
    root_attempt(mesh);
}

// Connects if it does not do so already.
static void root_dial(struct rondo_mesh *mesh) {
  struct rondo_mesh_dial *dial = &mesh->root_dial;
  if (!mesh->can_dial_root || mesh->root || dial->channel || dial->due_ns)
    return;
  dial->begin_ns = rondo_now_ns();
  dial->pause_ns = FIRST_PAUSE_NS;
  root_attempt(mesh);
}

void rondo_mesh_join_send(struct rondo_mesh *mesh, struct rondo_channel_out *out) {
  if (mesh->is_root_done) {
    rondo_channel_out_free(out);
    return;
  }
  if (mesh->root) {
    rondo_channel_send(mesh->root, out);
    return;
  }
  root_drop_queue(mesh); // a JOIN says all that those before it have said
  STAILQ_INSERT_TAIL(&mesh->root_queue, out, queued);
  root_dial(mesh);
}

void rondo_mesh_join_confirm(struct rondo_mesh *mesh) {
  if (mesh->root)
    rondo_channel_send_bytes(mesh->root, RONDO_WIRE_BYE, NULL, 0);
}

void rondo_mesh_hurry(struct rondo_mesh *mesh) {
  if (mesh->is_hurried)
    return;
  mesh->is_hurried = 1;
  mesh->hurried_ns = rondo_now_ns();
  mesh->root_dial.pause_ns = FIRST_PAUSE_NS;
  if (mesh->root_dial.due_ns)
    rondo_mesh_dial_after(mesh, &mesh->root_dial, 0);
}

// --------------------------------------------------------------- the start ---

// Opens the root of a launcher's job in the process of rank 0. It listens at those published
// addresses that belong to this machine, or, if none does, at all addresses of this machine.
static int mesh_open_root(struct rondo_mesh *mesh) {
  struct rondo_job_address *job = &mesh->job;
  struct rondo_wire_address at[RONDO_TOPOLOGY_ADDRESSES];
  struct rondo_root_config root = {.job = job->key,
                                   .addresses = at,
                                   .gatherer = mesh->gatherer,
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
                                         .gatherer = mesh->gatherer,
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

static void root_find_failed(struct rondo_mesh *mesh, const char *text) {
  root_drop_queue(mesh);
  mesh->is_root_done = 1;
  mesh->events.failed(mesh->arg, text);
}

static void root_found(struct rondo_mesh *mesh) {
  mesh->can_dial_root = 1;
  if (!STAILQ_EMPTY(&mesh->root_queue))
    root_dial(mesh);
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
    root_found(mesh);
  else
    root_find_failed(mesh, text);
}

// By PMIx each process has one rank, and the root of a unique id is open before the id is known.
void rondo_mesh_make_root(struct rondo_mesh *mesh) {
  struct rondo_job_address *job = &mesh->job;
  if (job->uses_pmix || !job->port_count || mesh->is_root_done)
    return;
  job->makes_root = 1;
  if (!job->address_count)
    return; // mesh_on_resolved opens it
  if (mesh_open_root(mesh) != RONDO_SUCCESS)
    root_find_failed(mesh, "the root cannot be opened");
  else if (mesh->root_dial.due_ns)
    rondo_mesh_dial_after(mesh, &mesh->root_dial, 0);
}

static void mesh_on_published(void *arg, const struct rondo_unique_id *id, const char *error) {
  struct rondo_mesh *mesh = arg;
  struct rondo_job_address *job = &mesh->job;
  if (job->makes_root) {
    if (error)
      rondo_log(RONDO_LOG_ERROR, "init: other ranks cannot find rank 0: %s", error);
    return;
  }
  if (!error && !rondo_job_address_take(job, id))
    error = "what rank 0 has published by PMIx is malformed";
  if (error) {
    root_find_failed(mesh, error);
    return;
  }
  rondo_log(RONDO_LOG_INFO, "init: rank %u has found the root by PMIx", mesh->cfg.rank);
  root_found(mesh);
}

// Publishes where the root is and connects to it, or waits until that is published.
static void mesh_begin_pmix(struct rondo_mesh *mesh) {
  struct rondo_unique_id id;
  const struct rondo_job_address *job = &mesh->job;
  if (job->makes_root)
    rondo_job_address_publish(job, &id);
  else
    mesh->events.waits(mesh->arg, "rank 0 has not published its address by PMIx yet");
  mesh->pmix = rondo_pmix_begin(mesh->loop, job->makes_root ? &id : NULL, mesh_on_published, mesh);
  if (!mesh->pmix)
    root_find_failed(mesh, "the system gives no thread for PMIx");
  else if (job->makes_root)
    root_found(mesh);
}

void rondo_mesh_join_begin(struct rondo_mesh *mesh) {
  struct rondo_job_address *job = &mesh->job;
  mesh->root_dial.on_due = root_on_again;
  if (job->uses_pmix) {
    mesh_begin_pmix(mesh);
    return;
  }
  if (job->address_count) {
    root_found(mesh);
    return;
  }
  mesh->resolve =
      rondo_resolve_begin(mesh->loop, job->host, mesh->cfg.address_family, mesh_on_resolved, mesh);
  if (!mesh->resolve)
    root_find_failed(mesh, "the system gives no thread to look up the root");
}

void rondo_mesh_join_end(struct rondo_mesh *mesh) {
  if (mesh->pmix)
    rondo_pmix_forget(mesh->pmix);
  mesh->pmix = NULL;
  if (mesh->resolve)
    rondo_resolve_forget(mesh->resolve);
  mesh->resolve = NULL;
  rondo_mesh_dial_stop(&mesh->root_dial);
  if (mesh->root)
    rondo_channel_close(mesh->root);
  mesh->root = NULL;
  root_drop_queue(mesh);
}
