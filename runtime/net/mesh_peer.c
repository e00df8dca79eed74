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
  peer->dial.channel = NULL;
  if (peer->dial.begin_ns)
    evtimer_del(&peer->dial.again);
  for (struct rondo_channel_out *out; (out = peer_pop_frame(peer));)
    mesh_drop_frame(mesh, out);
}

static void peer_lose(struct rondo_mesh_peer *peer, int reason, const char *why) {
  struct rondo_mesh *mesh = peer->mesh;
  char text[RONDO_MESH_TEXT_BYTES];
  if (peer->is_lost)
    return;
  (void)snprintf(text, sizeof text, "%s, pid %u (%.160s)", peer->where.host, peer->where.pid, why);
  rondo_mesh_peer_drop(peer);
  rondo_mesh_report(mesh, peer->where.ranks, peer->where.rank_count, reason, text);
}

static void peer_on_sent(void *owner, size_t bytes) {
  struct rondo_mesh_peer *peer = owner;
  rondo_mesh_peer_sent(peer->mesh, bytes);
}

// ----------------------------------------------- connections of this process ---

// The peer sends nothing on this connection but its goodbye. If the peer has a connection of its
// own, the frames on that one come first.
static void out_on_frame(void *owner, struct rondo_channel *c, struct rondo_channel_frame *frame) {
  struct rondo_mesh_peer *peer = owner;
  if (frame->wire.head.type != RONDO_WIRE_BYE || frame->wire.head.size) {
    rondo_channel_refuse(c, RONDO_WIRE_REFUSE_GARBAGE);
  } else if (!peer->in) {
    peer_lose(peer, RONDO_MESH_LEFT, "it left the job");
  } else {
    peer->out = NULL;
    rondo_channel_close(c);
  }
}

static void out_on_opened(void *owner, struct rondo_channel *c) {
  struct rondo_mesh_peer *peer = owner;
  peer->out = c;
  peer->dial.channel = NULL;
  rondo_channel_count(&peer->mesh->counters.connected, 1);
  for (struct rondo_channel_out *out; (out = peer_pop_frame(peer));)
    rondo_channel_send(c, out);
  if (peer->mesh->phase == RONDO_MESH_STOPPING)
    rondo_channel_send_bytes(c, RONDO_WIRE_BYE, NULL, 0);
}

// Handles a failed attempt. A slow peer is not lost: only one that keeps refusing connections or
// cannot be reached is.
static void peer_retry(struct rondo_mesh_peer *peer, int how, const char *why) {
  uint64_t tried_ns = rondo_now_ns() - peer->dial.begin_ns;
  uint64_t bound_ns =
      how == RONDO_CHANNEL_UNREACHABLE ? peer->mesh->cfg.peer_timeout_ns : REFUSED_NS;
  if (tried_ns > bound_ns)
    peer_lose(peer, rondo_channel_end_reason(how), why);
  else
    rondo_mesh_dial_again(&peer->dial);
}

static void out_on_closed(void *owner, struct rondo_channel *c, int how, const char *why) {
  struct rondo_mesh_peer *peer = owner;
  if (peer->out != c) {
    peer->dial.channel = NULL;
    peer_retry(peer, how, why);
    return;
  }
  peer->out = NULL;
  // The peer's own connection, if there is one, reports the loss after the peer's last messages.
  if (how == RONDO_CHANNEL_CUT && peer->in && peer->has_received)
    return;
  if (peer->mesh->phase != RONDO_MESH_STOPPING)
    peer_lose(peer, rondo_channel_end_reason(how), why);
}

static const struct rondo_channel_events out_events = {
    .opened = out_on_opened, .frame = out_on_frame, .closed = out_on_closed, .sent = peer_on_sent};

static void peer_dial(struct rondo_mesh_peer *peer) {
  struct rondo_mesh *mesh = peer->mesh;
  struct rondo_channel_config cfg = rondo_mesh_channels(mesh, &out_events, peer);
  struct rondo_wire_hello hello = {
      .purpose = RONDO_WIRE_TO_PEER, .from = mesh->self, .to = peer_number(peer)};
  const struct rondo_wire_member *where = &peer->where;
  cfg.handshake_ns = ANSWER_NS;
  if (memcmp(where->machine, mesh->me.machine, sizeof where->machine) == 0) {
    peer->dial.channel = rondo_channel_connect_local(&cfg, where->local, &hello);
  } else if (where->address_count) {
    cfg.handshake_ns = RONDO_LISTENER_HANDSHAKE_NS; // then the next address is tried
    peer->dial.channel = rondo_channel_connect(
        &cfg, &where->addresses[peer->dial.next % where->address_count], &hello);
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

void rondo_mesh_peer_send(struct rondo_mesh *mesh, uint32_t to, struct rondo_channel_out *out) {
  struct rondo_mesh_peer *peer = &mesh->peers[to];
  if (peer->is_lost) {
    mesh_drop_frame(mesh, out);
    return;
  }
  if (peer->out) {
    rondo_channel_send(peer->out, out);
    return;
  }
  STAILQ_INSERT_TAIL(&peer->queue, out, queued);
  if (peer->dial.begin_ns)
    return;
  peer->dial.begin_ns = rondo_now_ns();
  peer->dial.pause_ns = FIRST_PAUSE_NS;
  evtimer_assign(&peer->dial.again, rondo_event_loop_base(mesh->loop), peer_on_redial, peer);
  peer_dial(peer);
}

void rondo_mesh_peer_leave(struct rondo_mesh_peer *peer, uint32_t rank) {
  uint8_t bytes[4];
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = sizeof bytes};
  if (!peer->out && STAILQ_EMPTY(&peer->queue))
    return;
  rondo_wire_put_u32(&w, rank);
  struct rondo_channel_blob *blob = rondo_channel_blob_create(bytes, w.size);
  struct rondo_channel_out *out = blob ? rondo_channel_out_create(RONDO_WIRE_GONE, blob) : NULL;
  if (out)
    rondo_mesh_peer_send(peer->mesh, peer_number(peer), out);
  else if (peer->out)
    rondo_channel_send(peer->out, NULL); // no memory: the connection ends instead
}

bool rondo_mesh_peer_is_idle(const struct rondo_mesh_peer *peer) {
  return !peer->out && !peer->in && !peer->dial.channel && STAILQ_EMPTY(&peer->queue);
}

// True if this process has or makes a connection to the peer.
static bool peer_is_sending(const struct rondo_mesh_peer *peer) {
  return peer->out || peer->dial.channel || !STAILQ_EMPTY(&peer->queue);
}

// Uses this process's own connection, if there is one, so that the goodbye comes after its
// messages.
void rondo_mesh_peer_bye(struct rondo_mesh_peer *peer) {
  if (peer->out)
    rondo_channel_send_bytes(peer->out, RONDO_WIRE_BYE, NULL, 0);
  else if (peer->in && !peer_is_sending(peer))
    rondo_channel_send_bytes(peer->in, RONDO_WIRE_BYE, NULL, 0);
}

// ------------------------------------------------------ connections of peers ---

// False if the frame is malformed.
static bool peer_on_gone(struct rondo_mesh_peer *peer, struct rondo_wire_reader *r) {
  uint32_t rank = rondo_wire_get_u32(r);
  if (!rondo_wire_is_done(r) || rank >= peer->mesh->cfg.rank_count ||
      peer->mesh->process_of[rank] != peer_number(peer))
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

static void in_on_frame(void *owner, struct rondo_channel *c, struct rondo_channel_frame *frame) {
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
    if (is_valid && peer->mesh->phase != RONDO_MESH_STOPPING) {
      peer_lose(peer, RONDO_MESH_LEFT, "it left the job");
    } else if (is_valid) {
      peer->in = NULL;
      rondo_channel_close(c);
    }
    break;
  default:
    is_valid = 0;
  }
  if (!is_valid)
    rondo_channel_refuse(c, RONDO_WIRE_REFUSE_GARBAGE);
}

static void in_on_closed(void *owner, struct rondo_channel *c, int how, const char *why) {
  struct rondo_mesh_peer *peer = owner;
  (void)c;
  peer->in = NULL;
  // A connection without a single frame was given up by the peer, which makes another one.
  if (peer->mesh->phase != RONDO_MESH_STOPPING && (peer->has_received || how != RONDO_CHANNEL_CUT))
    peer_lose(peer, rondo_channel_end_reason(how), why);
}

static const struct rondo_channel_events in_events = {.frame = in_on_frame, .closed = in_on_closed};

static void waiting_on_closed(void *owner, struct rondo_channel *c, int how, const char *why) {
  (void)owner, (void)how, (void)why;
  LIST_REMOVE(c, listed);
}

static const struct rondo_channel_events waiting_events = {.closed = waiting_on_closed};

// Assigns a connection to the peer that made it. Returns the peer, or null if it is refused.
static struct rondo_mesh_peer *peer_accept_in(struct rondo_mesh *mesh, struct rondo_channel *c) {
  uint32_t from = c->handshake.hello.from;
  uint32_t to = c->handshake.hello.to;
  struct rondo_mesh_peer *peer = from < mesh->process_count ? &mesh->peers[from] : NULL;
  if (!peer || from == mesh->self || to != mesh->self || peer->is_lost ||
      (peer->in && peer->has_received)) {
    rondo_log(RONDO_LOG_WARN, "member: refused a connection from %s: its process numbers are wrong",
              c->remote);
    rondo_channel_count(&mesh->counters.refused, 1);
    rondo_channel_close(c);
    return NULL;
  }
  if (peer->in)
    rondo_channel_close(peer->in);
  peer->in = c;
  c->events = &in_events;
  c->owner = peer;
  rondo_channel_pause(c, 0);
  return peer;
}

void rondo_mesh_peer_accept(void *arg, struct rondo_channel *c) {
  struct rondo_mesh *mesh = arg;
  if (mesh->phase == RONDO_MESH_READY) {
    (void)peer_accept_in(mesh, c);
    return;
  }
  if (mesh->phase != RONDO_MESH_JOINING && mesh->process_count) {
    // This process is about to leave. The peer must not take it for dead.
    const struct rondo_mesh_peer *peer = peer_accept_in(mesh, c);
    if (peer && !peer_is_sending(peer))
      rondo_channel_send_bytes(c, RONDO_WIRE_BYE, NULL, 0);
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
    (void)peer_accept_in(mesh, c);
  }
}
