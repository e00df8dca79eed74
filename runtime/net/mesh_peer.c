// Connections to and from the other processes of the job.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/net/mesh_state.h"

#define FIRST_PAUSE_NS UINT64_C(2000000)
// Bound of a handshake on this machine: long, because a process that is stopped answers when it is
// continued, and must not find many connections then.
#define ANSWER_NS UINT64_C(3600000000000)
#define REFUSED_NS UINT64_C(1000000000) // a process that refuses connections for so long is dead

static void peer_dial(struct rondo_mesh_peer *peer);

static uint32_t peer_number(const struct rondo_mesh_peer *peer) {
  return (uint32_t)(peer - peer->mesh->peers);
}

static const struct rondo_topology_process *peer_where(const struct rondo_mesh_peer *peer) {
  return &peer->mesh->topology->processes[peer_number(peer)];
}

static uint32_t peer_address_count(const struct rondo_mesh_peer *peer) {
  return peer->mesh->topology->machines[peer_where(peer)->machine].address_count;
}

// Returns the next frame that waits for a connection, or null.
static struct rondo_channel_out *peer_pop_frame(struct rondo_mesh_peer *peer) {
  struct rondo_channel_out *out = STAILQ_FIRST(&peer->queue);
  if (out)
    STAILQ_REMOVE_HEAD(&peer->queue, queued);
  return out;
}

static void mesh_drop_frame(struct rondo_mesh *mesh, struct rondo_channel_out *out) {
  rondo_mesh_peer_sent(mesh, out->counted);
  rondo_channel_out_free(out);
}

void rondo_mesh_peer_drop(struct rondo_mesh_peer *peer) {
  struct rondo_mesh *mesh = peer->mesh;
  pthread_mutex_lock(&mesh->lock);
  peer->is_lost = 1;
  pthread_mutex_unlock(&mesh->lock);
  struct rondo_channel *channels[] = {peer->out, peer->in, peer->dial.channel};
  for (int i = 0; i < 3; i++)
    if (channels[i])
      rondo_channel_close(channels[i]);
  peer->out = NULL;
  peer->in = NULL;
  peer->line = NULL;
  peer->dial.channel = NULL;
  if (peer->dial.begin_ns)
    evtimer_del(&peer->dial.again);
  for (struct rondo_channel_out *out; (out = peer_pop_frame(peer));)
    mesh_drop_frame(mesh, out);
}

// Reports the peer's ranks that have left. The root has said so, and the peer has not said it yet.
static void peer_report_left(struct rondo_mesh_peer *peer) {
  const struct rondo_topology_process *at = peer_where(peer);
  for (uint32_t i = 0; i < at->rank_count; i++)
    if (peer->mesh->left[at->ranks[i]])
      rondo_mesh_report(peer->mesh, &at->ranks[i], 1, RONDO_MESH_LEFT, "it left the job");
}

static void peer_lose(struct rondo_mesh_peer *peer, int reason, const char *why) {
  struct rondo_mesh *mesh = peer->mesh;
  char text[RONDO_MESH_TEXT_BYTES];
  if (!peer->is_lost)
    peer_report_left(peer);
  if (peer->is_lost)
    return;
  const struct rondo_topology_process *at = peer_where(peer);
  (void)snprintf(text, sizeof text, "%s, pid %u (%.160s)",
                 mesh->topology->machines[at->machine].host, at->pid, why);
  rondo_mesh_peer_drop(peer);
  rondo_mesh_report(mesh, at->ranks, at->rank_count, reason, text);
}

static void peer_on_sent(void *owner, size_t bytes) {
  struct rondo_mesh_peer *peer = owner;
  rondo_mesh_peer_sent(peer->mesh, bytes);
}

// ---------------------------------------------------------------- sending ---

static void line_send(struct rondo_mesh_peer *peer, struct rondo_channel_out *out) {
  peer->has_sent = 1;
  rondo_channel_send(peer->line, out);
}

static void peer_send_gone(struct rondo_mesh_peer *peer, uint32_t rank) {
  uint8_t bytes[4];
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = sizeof bytes};
  rondo_wire_put_u32(&w, rank);
  struct rondo_shared_bytes *blob = rondo_shared_bytes_create(bytes, w.size);
  struct rondo_channel_out *out = blob ? rondo_channel_out_create(RONDO_WIRE_GONE, blob) : NULL;
  if (out)
    rondo_mesh_peer_send(peer->mesh, peer_number(peer), out);
  else if (peer->line)
    rondo_channel_send(peer->line, NULL); // no memory: the connection ends instead
}

// Begins to send on an authenticated connection, unless this process sends on another one. Tells
// the peer of ranks that have left: because of the connection it ignores what the root says of
// them.
static void line_open(struct rondo_mesh_peer *peer, struct rondo_channel *c) {
  const struct rondo_mesh *mesh = peer->mesh;
  if (peer->line)
    return;
  peer->line = c;
  if (peer->dial.begin_ns)
    evtimer_del(&peer->dial.again);
  for (struct rondo_channel_out *out; (out = peer_pop_frame(peer));)
    line_send(peer, out);
  for (uint32_t i = 0; i < mesh->me.rank_count; i++)
    if (mesh->left[mesh->me.ranks[i]])
      peer_send_gone(peer, mesh->me.ranks[i]);
  if (mesh->phase == RONDO_MESH_STOPPING)
    rondo_channel_send_bytes(c, RONDO_WIRE_BYE, NULL, 0);
}

// -------------------------------------------------------------- receiving ---

// False if the frame is malformed.
static bool peer_on_gone(struct rondo_mesh_peer *peer, struct rondo_wire_reader *r) {
  uint32_t rank = rondo_wire_get_u32(r);
  if (!rondo_wire_is_done(r) || rank >= peer->mesh->cfg.rank_count ||
      peer->mesh->topology->process_of[rank] != peer_number(peer))
    return false;
  rondo_mesh_report(peer->mesh, &rank, 1, RONDO_MESH_LEFT, "it left the job");
  return true;
}

static void peer_on_message(struct rondo_mesh_peer *peer, struct rondo_channel_frame *frame) {
  struct rondo_mesh *mesh = peer->mesh;
  struct rondo_mesh_message message = {.from = peer_number(peer),
                                       .type = frame->wire.head.subtype,
                                       .bytes = frame->wire.payload,
                                       .size = frame->wire.head.size,
                                       .fds = frame->fds,
                                       .fd_count = frame->fd_count};
  if (mesh->events.receive && mesh->phase == RONDO_MESH_READY)
    mesh->events.receive(mesh->arg, &message);
}

// The goodbye is the peer's last frame. A process that leaves itself only hangs up.
static void peer_on_bye(struct rondo_mesh_peer *peer) {
  if (peer->mesh->phase != RONDO_MESH_STOPPING) {
    peer_lose(peer, RONDO_MESH_LEFT, "it left the job");
    return;
  }
  rondo_mesh_peer_drop(peer);
  rondo_mesh_stop_look(peer->mesh);
}

static void line_on_frame(void *owner, struct rondo_channel *c, struct rondo_channel_frame *frame) {
  struct rondo_mesh_peer *peer = owner;
  struct rondo_wire_reader r = rondo_wire_read(&frame->wire);
  bool is_valid = true;
  peer->has_received = 1;
  switch (frame->wire.head.type) {
  case RONDO_WIRE_MESSAGE:
    peer_on_message(peer, frame);
    break;
  case RONDO_WIRE_GONE:
    is_valid = peer_on_gone(peer, &r);
    break;
  case RONDO_WIRE_BYE:
    is_valid = rondo_wire_is_done(&r);
    if (is_valid)
      peer_on_bye(peer);
    break;
  default:
    is_valid = 0;
  }
  if (!is_valid)
    rondo_channel_refuse(c, RONDO_WIRE_REFUSE_GARBAGE);
}

// An accepted connection that has carried nothing, or was cut while the root lives, tells nothing:
// the peer may be leaving, and the root says how it ended.
static bool line_says_nothing(const struct rondo_mesh_peer *peer) {
  return !peer->has_received && (!peer->has_sent || peer->mesh->root);
}

static void line_on_closed(void *owner, struct rondo_channel *c, int how, const char *why) {
  struct rondo_mesh_peer *peer = owner;
  bool is_accepted = peer->in == c;
  if (is_accepted)
    peer->in = NULL;
  else
    peer->out = NULL;
  if (peer->line == c)
    peer->line = NULL;
  rondo_mesh_stop_look(peer->mesh);
  // If there is another connection, it reports the loss after the peer's last messages.
  if (how == RONDO_CHANNEL_CUT && (peer->in || peer->out))
    return;
  if (how == RONDO_CHANNEL_CUT && is_accepted && line_says_nothing(peer))
    return;
  if (peer->mesh->phase != RONDO_MESH_STOPPING)
    peer_lose(peer, rondo_channel_end_reason(how), why);
}

// ----------------------------------------------- connections of this process ---

static void out_on_opened(void *owner, struct rondo_channel *c) {
  struct rondo_mesh_peer *peer = owner;
  peer->out = c;
  peer->dial.channel = NULL;
  rondo_channel_count(&peer->mesh->counters.connected, 1);
  line_open(peer, c);
}

// The addresses at which the peer may be.
static uint32_t peer_places(const struct rondo_mesh_peer *peer) {
  return peer_address_count(peer) ? peer_address_count(peer) : 1;
}

// Handles a failed attempt. A slow peer is not lost, nor one to which this process is too slow, nor
// one that makes a connection itself: only one that keeps refusing connections or cannot be reached
// is. The root says why a process has ended, but it may be slow too.
static void peer_retry(struct rondo_mesh_peer *peer, int how, const char *why) {
  if (how == RONDO_WIRE_REFUSE_LATE || how == RONDO_WIRE_REFUSE_TWICE)
    peer->dial.begin_ns = rondo_now_ns();
  uint64_t tried_ns = rondo_now_ns() - peer->dial.begin_ns;
  bool is_patient = how == RONDO_CHANNEL_UNREACHABLE || peer->mesh->root;
  uint64_t bound_ns = is_patient ? peer->mesh->cfg.peer_timeout_ns : REFUSED_NS;
  if (tried_ns > bound_ns)
    peer_lose(peer, rondo_channel_end_reason(how), why);
  else
    rondo_mesh_dial_again(&peer->dial, peer_places(peer));
}

static void out_on_closed(void *owner, struct rondo_channel *c, int how, const char *why) {
  struct rondo_mesh_peer *peer = owner;
  if (peer->dial.channel != c) {
    line_on_closed(owner, c, how, why);
    return;
  }
  peer->dial.channel = NULL;
  if (!peer->line)
    peer_retry(peer, how, why);
  rondo_mesh_stop_look(peer->mesh);
}

static const struct rondo_channel_events out_events = {
    .opened = out_on_opened, .frame = line_on_frame, .closed = out_on_closed, .sent = peer_on_sent};

static void peer_dial(struct rondo_mesh_peer *peer) {
  struct rondo_mesh *mesh = peer->mesh;
  struct rondo_channel_config cfg = rondo_mesh_channels(mesh, &out_events, peer);
  struct rondo_wire_hello hello = {
      .purpose = RONDO_WIRE_TO_PEER, .from = mesh->self, .to = peer_number(peer)};
  uint32_t address_count = peer_address_count(peer);
  struct rondo_wire_address address;
  cfg.handshake_ns = ANSWER_NS;
  cfg.welcome_ns = ANSWER_NS;
  if (rondo_topology_is_same_machine(mesh->topology, hello.to, mesh->self)) {
    peer->dial.channel = rondo_channel_connect_local(&cfg, peer_where(peer)->local, &hello);
  } else if (address_count) {
    cfg.handshake_ns = RONDO_LISTENER_HANDSHAKE_NS; // then the next address is tried
    rondo_topology_address(mesh->topology, hello.to, peer->dial.next % address_count, &address);
    peer->dial.channel = rondo_channel_connect(&cfg, &address, &hello);
  } else {
    errno = EHOSTUNREACH;
  }
  if (peer->dial.channel)
    return;
  if (errno == EAGAIN) // the queue of its listener is full: it lives and is busy
    peer->dial.begin_ns = rondo_now_ns();
  peer_retry(peer,
             errno == EHOSTUNREACH || errno == ENETUNREACH ? RONDO_CHANNEL_UNREACHABLE
                                                           : RONDO_CHANNEL_CUT,
             strerror(errno));
}

static void peer_on_redial(evutil_socket_t fd, short what, void *arg) {
  (void)fd, (void)what;
  peer_dial(arg);
}

// Connects if it does not do so already.
static void peer_begin_dial(struct rondo_mesh_peer *peer) {
  if (!peer->dial.begin_ns)
    evtimer_assign(&peer->dial.again, rondo_event_loop_base(peer->mesh->loop), peer_on_redial,
                   peer);
  else if (peer->dial.channel || evtimer_pending(&peer->dial.again, NULL))
    return;
  peer->dial.begin_ns = rondo_now_ns();
  peer->dial.pause_ns = FIRST_PAUSE_NS;
  peer_dial(peer);
}

void rondo_mesh_peer_send(struct rondo_mesh *mesh, uint32_t to, struct rondo_channel_out *out) {
  struct rondo_mesh_peer *peer = &mesh->peers[to];
  if (peer->is_lost) {
    mesh_drop_frame(mesh, out);
    return;
  }
  if (peer->line) {
    line_send(peer, out);
    return;
  }
  STAILQ_INSERT_TAIL(&peer->queue, out, queued);
  peer_begin_dial(peer);
}

void rondo_mesh_peer_leave(struct rondo_mesh_peer *peer, uint32_t rank) {
  if (peer->line || !STAILQ_EMPTY(&peer->queue))
    peer_send_gone(peer, rank);
}

bool rondo_mesh_peer_is_connected(const struct rondo_mesh_peer *peer) {
  return peer->out || peer->in || peer->dial.channel || !STAILQ_EMPTY(&peer->queue);
}

bool rondo_mesh_peer_is_idle(const struct rondo_mesh_peer *peer) {
  return !rondo_mesh_peer_is_connected(peer);
}

// A connection that is being made carries the goodbye after the messages that wait for it.
void rondo_mesh_peer_bye(struct rondo_mesh_peer *peer) {
  if (peer->line)
    rondo_channel_send_bytes(peer->line, RONDO_WIRE_BYE, NULL, 0);
}

// ------------------------------------------------------ connections of peers ---

static const struct rondo_channel_events in_events = {
    .frame = line_on_frame, .closed = line_on_closed, .sent = peer_on_sent};

static void waiting_on_closed(void *owner, struct rondo_channel *c, int how, const char *why) {
  (void)owner, (void)how, (void)why;
  LIST_REMOVE(c, listed);
}

static const struct rondo_channel_events waiting_events = {.closed = waiting_on_closed};

int rondo_mesh_peer_admit(void *arg, const struct rondo_channel *c) {
  const struct rondo_mesh *mesh = arg;
  uint32_t from = c->handshake.hello.from;
  if (from >= mesh->process_count || from == mesh->self)
    return 0; // refused once it is authenticated
  const struct rondo_mesh_peer *peer = &mesh->peers[from];
  bool is_made_here = peer->out || (peer->dial.channel && mesh->self < from);
  return is_made_here && !peer->is_lost ? RONDO_WIRE_REFUSE_TWICE : 0;
}

// Assigns a connection to the peer that made it.
static void peer_accept_in(struct rondo_mesh *mesh, struct rondo_channel *c) {
  uint32_t from = c->handshake.hello.from;
  uint32_t to = c->handshake.hello.to;
  struct rondo_mesh_peer *peer = from < mesh->process_count ? &mesh->peers[from] : NULL;
  if (!peer || from == mesh->self || to != mesh->self || peer->is_lost ||
      (peer->in && (peer->has_received || peer->has_sent))) {
    rondo_log(RONDO_LOG_WARN, "member: refused a connection from %s: its process numbers are wrong",
              c->remote);
    rondo_channel_count(&mesh->counters.refused, 1);
    rondo_channel_close(c);
    return;
  }
  if (peer->in)
    rondo_channel_close(peer->in);
  if (peer->line == peer->in)
    peer->line = NULL;
  peer->in = c;
  c->events = &in_events;
  c->owner = peer;
  rondo_channel_pause(c, 0);
  line_open(peer, c);
}

void rondo_mesh_peer_accept(void *arg, struct rondo_channel *c) {
  struct rondo_mesh *mesh = arg;
  // A process that is about to leave says goodbye, so that the peer does not take it for dead.
  if (mesh->phase != RONDO_MESH_JOINING && mesh->process_count) {
    peer_accept_in(mesh, c);
    return;
  }
  if (mesh->phase != RONDO_MESH_JOINING) {
    rondo_channel_close(c);
    return;
  }
  // The peer has the roster and this process does not: the peer's frames wait.
  rondo_channel_pause(c, 1);
  c->events = &waiting_events;
  c->owner = mesh;
  LIST_INSERT_HEAD(&mesh->waiting_in, c, listed);
}

void rondo_mesh_peer_accept_waiting(struct rondo_mesh *mesh) {
  while (!LIST_EMPTY(&mesh->waiting_in)) {
    struct rondo_channel *c = LIST_FIRST(&mesh->waiting_in);
    LIST_REMOVE(c, listed);
    peer_accept_in(mesh, c);
  }
}
