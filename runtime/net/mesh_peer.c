// Connections to and from the other processes of the job.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "runtime/net/mesh_state.h"

#define FIRST_PAUSE_NS UINT64_C(2000000)
// A process that is stopped answers when it goes on: then, and not with many connections at once.
#define ANSWER_NS UINT64_C(3600000000000)
#define REFUSED_NS UINT64_C(1000000000) // a process whose door is closed for so long is dead

static void dial(struct rondo_mesh_peer *peer);

static uint32_t number_of(const struct rondo_mesh_peer *peer) {
  return (uint32_t)(peer - peer->mesh->peers);
}

static int reason_of(int how) {
  if (how == RONDO_CHANNEL_CUT)
    return RONDO_MESH_DIED;
  return how == RONDO_CHANNEL_UNREACHABLE ? RONDO_MESH_SILENT : RONDO_MESH_BROKE;
}

static void drop_out(struct rondo_mesh *mesh, struct rondo_channel_out *out) {
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
  while (peer->first) {
    struct rondo_channel_out *out = peer->first;
    peer->first = out->next;
    drop_out(mesh, out);
  }
  peer->last = NULL;
}

static void lose(struct rondo_mesh_peer *peer, int reason, const char *why) {
  struct rondo_mesh *mesh = peer->mesh;
  char text[RONDO_MESH_TEXT_BYTES];
  if (peer->is_lost)
    return;
  (void)snprintf(text, sizeof text, "%s, pid %u (%.160s)", peer->where.host, peer->where.pid, why);
  rondo_mesh_peer_drop(peer);
  rondo_mesh_report(mesh, peer->where.ranks, peer->where.rank_count, reason, text);
}

static void on_sent(void *owner, size_t bytes) {
  struct rondo_mesh_peer *peer = owner;
  rondo_mesh_peer_sent(peer->mesh, bytes);
}

// --------------------------------------------------------------------- out ---

// A connection that this process made: nothing comes back on it but the news that the peer leaves,
// and what comes on the peer's own connection comes first.
static void on_out_frame(void *owner, struct rondo_channel *c, struct rondo_channel_frame *frame) {
  struct rondo_mesh_peer *peer = owner;
  if (frame->wire.head.type != RONDO_WIRE_BYE || frame->wire.head.size) {
    rondo_channel_refuse(c, RONDO_WIRE_REFUSE_GARBAGE);
  } else if (!peer->in) {
    lose(peer, RONDO_MESH_LEFT, "it left the job");
  } else {
    peer->out = NULL;
    rondo_channel_close(c);
  }
}

static void on_out_opened(void *owner, struct rondo_channel *c) {
  struct rondo_mesh_peer *peer = owner;
  peer->out = c;
  peer->dial.channel = NULL;
  rondo_channel_count(&peer->mesh->counters.connected, 1);
  while (peer->first) {
    struct rondo_channel_out *out = peer->first;
    peer->first = out->next;
    out->next = NULL;
    rondo_channel_send(c, out);
  }
  peer->last = NULL;
  if (peer->mesh->phase == RONDO_MESH_STOPPING)
    rondo_channel_send_bytes(c, RONDO_WIRE_BYE, NULL, 0);
}

// An attempt that failed. Slow is not dead: only a door that stays closed, or no way there, is.
static void retry(struct rondo_mesh_peer *peer, int how, const char *why) {
  uint64_t tried_ns = rondo_event_loop_now_ns() - peer->dial.begin_ns;
  uint64_t bound_ns =
      how == RONDO_CHANNEL_UNREACHABLE ? peer->mesh->cfg.peer_timeout_ns : REFUSED_NS;
  if (tried_ns > bound_ns)
    lose(peer, reason_of(how), why);
  else
    rondo_mesh_dial_again(&peer->dial);
}

static void on_out_closed(void *owner, struct rondo_channel *c, int how, const char *why) {
  struct rondo_mesh_peer *peer = owner;
  if (peer->out != c) {
    peer->dial.channel = NULL;
    retry(peer, how, why);
    return;
  }
  peer->out = NULL;
  // If the peer's own connection is there, that one tells what has become of it, after all it sent.
  if (how == RONDO_CHANNEL_CUT && peer->in && peer->has_spoken)
    return;
  if (peer->mesh->phase != RONDO_MESH_STOPPING)
    lose(peer, reason_of(how), why);
}

static const struct rondo_channel_events out_events = {
    .opened = on_out_opened, .frame = on_out_frame, .closed = on_out_closed, .sent = on_sent};

static void dial(struct rondo_mesh_peer *peer) {
  struct rondo_mesh *mesh = peer->mesh;
  struct rondo_channel_config cfg = rondo_mesh_channels(mesh, &out_events, peer);
  struct rondo_wire_hello hello = {
      .purpose = RONDO_WIRE_TO_PEER, .from = mesh->self, .to = number_of(peer)};
  const struct rondo_wire_member *where = &peer->where;
  cfg.proof_ns = ANSWER_NS;
  if (memcmp(where->machine, mesh->me.machine, sizeof where->machine) == 0) {
    peer->dial.channel = rondo_channel_connect_local(&cfg, where->local, &hello);
  } else if (where->address_count) {
    cfg.proof_ns =
        RONDO_LISTENER_HANDSHAKE_NS; // an address that does not answer gives way to the next
    peer->dial.channel = rondo_channel_connect(
        &cfg, &where->addresses[peer->dial.next % where->address_count], &hello);
  } else {
    errno = EHOSTUNREACH;
  }
  if (peer->dial.channel)
    return;
  if (errno == EAGAIN) // its queue is full: it is there, and busy
    peer->dial.begin_ns = rondo_event_loop_now_ns();
  retry(peer,
        errno == EHOSTUNREACH || errno == ENETUNREACH ? RONDO_CHANNEL_UNREACHABLE
                                                      : RONDO_CHANNEL_CUT,
        strerror(errno));
}

static void on_again(evutil_socket_t fd, short what, void *arg) {
  (void)fd, (void)what;
  dial(arg);
}

void rondo_mesh_peer_send(struct rondo_mesh *mesh, uint32_t to, struct rondo_channel_out *out) {
  struct rondo_mesh_peer *peer = &mesh->peers[to];
  if (peer->is_lost) {
    drop_out(mesh, out);
    return;
  }
  if (peer->out) {
    rondo_channel_send(peer->out, out);
    return;
  }
  if (peer->last)
    peer->last->next = out;
  else
    peer->first = out;
  peer->last = out;
  if (peer->dial.begin_ns)
    return;
  peer->dial.begin_ns = rondo_event_loop_now_ns();
  peer->dial.pause_ns = FIRST_PAUSE_NS;
  evtimer_assign(&peer->dial.again, rondo_event_loop_base(mesh->loop), on_again, peer);
  dial(peer);
}

void rondo_mesh_peer_leave(struct rondo_mesh_peer *peer, uint32_t rank) {
  uint8_t bytes[4];
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = sizeof bytes};
  if (!peer->out && !peer->first)
    return;
  rondo_wire_put_u32(&w, rank);
  struct rondo_channel_blob *blob = rondo_channel_blob_create(bytes, w.size);
  struct rondo_channel_out *out = blob ? rondo_channel_out_create(RONDO_WIRE_GONE, blob) : NULL;
  if (out)
    rondo_mesh_peer_send(peer->mesh, number_of(peer), out);
  else if (peer->out)
    rondo_channel_send(peer->out, NULL); // no memory: the connection ends, which says more
}

int rondo_mesh_peer_is_idle(const struct rondo_mesh_peer *peer) {
  return !peer->out && !peer->in && !peer->dial.channel && !peer->first;
}

// 1 if this process has, or is about to have, a connection of its own to the peer.
static int speaks(const struct rondo_mesh_peer *peer) {
  return peer->out || peer->dial.channel || peer->first;
}

// On one's own connection, behind what was sent there: the other one could be faster.
void rondo_mesh_peer_bye(struct rondo_mesh_peer *peer) {
  if (peer->out)
    rondo_channel_send_bytes(peer->out, RONDO_WIRE_BYE, NULL, 0);
  else if (peer->in && !speaks(peer))
    rondo_channel_send_bytes(peer->in, RONDO_WIRE_BYE, NULL, 0);
}

// ---------------------------------------------------------------------- in ---

static int on_gone(struct rondo_mesh_peer *peer, struct rondo_wire_reader *r) {
  uint32_t rank = rondo_wire_get_u32(r);
  if (!rondo_wire_is_done(r) || rank >= peer->mesh->cfg.rank_count ||
      peer->mesh->process_of[rank] != number_of(peer))
    return 0;
  rondo_mesh_report(peer->mesh, &rank, 1, RONDO_MESH_LEFT, "it left the job");
  return 1;
}

static void on_message(struct rondo_mesh_peer *peer, struct rondo_channel_frame *frame) {
  struct rondo_mesh *mesh = peer->mesh;
  struct rondo_mesh_message message = {.from = number_of(peer),
                                       .type = frame->wire.head.subtype,
                                       .bytes = frame->wire.payload,
                                       .size = frame->wire.head.size,
                                       .fds = frame->fds,
                                       .fd_count = frame->fd_count};
  if (mesh->events.receive && mesh->phase == RONDO_MESH_READY)
    mesh->events.receive(mesh->arg, &message);
}

static void on_in_frame(void *owner, struct rondo_channel *c, struct rondo_channel_frame *frame) {
  struct rondo_mesh_peer *peer = owner;
  struct rondo_wire_reader r = rondo_wire_read(&frame->wire);
  int good = 1;
  peer->has_spoken = 1;
  switch (frame->wire.head.type) {
  case RONDO_WIRE_MESSAGE:
    on_message(peer, frame);
    break;
  case RONDO_WIRE_GONE:
    good = on_gone(peer, &r);
    break;
  case RONDO_WIRE_BYE:
    good = rondo_wire_is_done(&r);
    if (good && peer->mesh->phase != RONDO_MESH_STOPPING) {
      lose(peer, RONDO_MESH_LEFT, "it left the job");
    } else if (good) {
      peer->in = NULL;
      rondo_channel_close(c);
    }
    break;
  default:
    good = 0;
  }
  if (!good)
    rondo_channel_refuse(c, RONDO_WIRE_REFUSE_GARBAGE);
}

static void on_in_closed(void *owner, struct rondo_channel *c, int how, const char *why) {
  struct rondo_mesh_peer *peer = owner;
  (void)c;
  peer->in = NULL;
  // One on which nothing ever came was given up by the other side, which will make another.
  if (peer->mesh->phase != RONDO_MESH_STOPPING && (peer->has_spoken || how != RONDO_CHANNEL_CUT))
    lose(peer, reason_of(how), why);
}

static const struct rondo_channel_events in_events = {.frame = on_in_frame, .closed = on_in_closed};

static void on_guest_closed(void *owner, struct rondo_channel *c, int how, const char *why) {
  struct rondo_mesh *mesh = owner;
  (void)how, (void)why;
  for (struct rondo_channel **at = &mesh->guests; *at; at = &(*at)->next) {
    if (*at == c) {
      *at = c->next;
      return;
    }
  }
}

static const struct rondo_channel_events guest_events = {.closed = on_guest_closed};

// Returns the peer from which the connection comes, or null if it was refused.
static struct rondo_mesh_peer *admit(struct rondo_mesh *mesh, struct rondo_channel *c) {
  uint32_t from = c->proof.hello.from;
  uint32_t to = c->proof.hello.to;
  struct rondo_mesh_peer *peer = from < mesh->process_count ? &mesh->peers[from] : NULL;
  if (!peer || from == mesh->self || to != mesh->self || peer->is_lost ||
      (peer->in && peer->has_spoken)) {
    rondo_log(RONDO_LOG_WARN, "member: refused a connection from %s: it is not who it says",
              c->who);
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

void rondo_mesh_peer_guest(void *arg, struct rondo_channel *c) {
  struct rondo_mesh *mesh = arg;
  if (mesh->phase == RONDO_MESH_READY) {
    (void)admit(mesh, c);
    return;
  }
  if (mesh->phase != RONDO_MESH_JOINING && mesh->process_count) {
    // This process is about to leave. Whoever connects now must not take it for dead.
    const struct rondo_mesh_peer *peer = admit(mesh, c);
    if (peer && !speaks(peer))
      rondo_channel_send_bytes(c, RONDO_WIRE_BYE, NULL, 0);
    return;
  }
  if (mesh->phase != RONDO_MESH_JOINING) {
    rondo_channel_close(c);
    return;
  }
  // It has the roster, this process not yet: what it sends waits.
  rondo_channel_pause(c, 1);
  c->events = &guest_events;
  c->owner = mesh;
  c->next = mesh->guests;
  mesh->guests = c;
}

void rondo_mesh_peer_admit(struct rondo_mesh *mesh) {
  while (mesh->guests) {
    struct rondo_channel *c = mesh->guests;
    mesh->guests = c->next;
    c->next = NULL;
    (void)admit(mesh, c);
  }
}
