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
#define NUMBER_BYTES 8u                 // payload of FLUSH and FLUSHED

static void peer_begin_dial(struct rondo_mesh_peer *peer);

static uint32_t peer_number(const struct rondo_mesh_peer *peer) {
  return (uint32_t)(peer - peer->mesh->peers);
}

static const struct rondo_topology_process *peer_where(const struct rondo_mesh_peer *peer) {
  return &peer->mesh->topology->processes[peer_number(peer)];
}

static uint32_t peer_address_count(const struct rondo_mesh_peer *peer) {
  return peer->mesh->topology->machines[peer_where(peer)->machine].address_count;
}

static bool peer_is_local(const struct rondo_mesh_peer *peer) {
  return rondo_topology_is_same_machine(peer->mesh->topology, peer_number(peer), peer->mesh->self);
}

// Drops the frames that wait for a connection: all, or messages alone.
static void peer_drop_queue(struct rondo_mesh_peer *peer, bool all) {
  struct rondo_channel_queue kept;
  struct rondo_channel_out *out;
  STAILQ_INIT(&kept);
  while ((out = STAILQ_FIRST(&peer->queue))) {
    STAILQ_REMOVE_HEAD(&peer->queue, queued);
    if (all || out->head.type != RONDO_WIRE_MEMBERSHIP)
      rondo_mesh_drop_frame(peer->mesh, out);
    else
      STAILQ_INSERT_TAIL(&kept, out, queued);
  }
  STAILQ_CONCAT(&peer->queue, &kept);
}

void rondo_mesh_peer_end(struct rondo_mesh_peer *peer) {
  struct rondo_channel *channels[] = {peer->out, peer->in};
  peer->is_over = 1;
  peer->flush_done = peer->flush_sent;
  for (int i = 0; i < 2; i++)
    if (channels[i])
      rondo_channel_close(channels[i]);
  peer->out = NULL;
  peer->in = NULL;
  peer->line = NULL;
  rondo_mesh_close_note(peer);
  rondo_mesh_dial_stop(&peer->dial);
  peer_drop_queue(peer, true);
  rondo_mesh_tick_soon(peer->mesh);
}

// Connections stay: a process that others have given up is told so.
void rondo_mesh_peer_lose(struct rondo_mesh_peer *peer) {
  pthread_mutex_lock(&peer->mesh->lock);
  peer->is_lost = 1;
  pthread_mutex_unlock(&peer->mesh->lock);
  peer_drop_queue(peer, false);
  if (STAILQ_EMPTY(&peer->queue))
    rondo_mesh_dial_stop(&peer->dial);
  rondo_mesh_tick_soon(peer->mesh);
}

static void peer_on_sent(void *owner, size_t bytes) {
  const struct rondo_mesh_peer *peer = owner;
  pthread_mutex_lock(&peer->mesh->lock);
  peer->mesh->queued_bytes -= bytes;
  pthread_mutex_unlock(&peer->mesh->lock);
}

// ---------------------------------------------------------------- sending ---

// True if there is a connection on which this process may send to the peer.
static bool line_is_open(const struct rondo_mesh_peer *peer) {
  return peer->line && !peer->line->closing;
}

static void line_send(struct rondo_mesh_peer *peer, struct rondo_channel_out *out) {
  peer->has_sent = 1;
  peer->has_carried |= out->head.type == RONDO_WIRE_MESSAGE;
  rondo_mesh_close_note(peer);
  rondo_channel_send(peer->line, out);
}

static void channel_send_number(struct rondo_channel *c, int type, uint64_t number) {
  uint8_t bytes[NUMBER_BYTES];
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = sizeof bytes};
  rondo_wire_put_u64(&w, number);
  rondo_channel_send_bytes(c, type, bytes, w.size);
}

// The process lives after a connection with it was cut. One of both has to go if messages may be
// lost; the one with the lower number reports the other one, unless it may have seen no cut.
static void peer_close_gap(struct rondo_mesh_peer *peer) {
  bool has_gap = peer->has_gap;
  bool reports_gap = peer->reports_gap || peer->mesh->self < peer_number(peer);
  peer->has_gap = 0;
  peer->reports_gap = 0;
  if (has_gap && reports_gap)
    peer->mesh->events.broke(peer->mesh->arg, peer_number(peer),
                             "a connection with it was cut, and messages may be lost");
}

// Begins to send on an authenticated connection, unless this process sends on another one.
static void line_open(struct rondo_mesh_peer *peer, struct rondo_channel *c) {
  struct rondo_channel_out *out;
  if (peer->line)
    return;
  peer->line = c;
  rondo_mesh_dial_cancel(&peer->dial);
  rondo_mesh_close_note(peer);
  if (c->closing)
    return; // the other side has asked before rondo_mesh_meet: what waits goes on another one
  while ((out = STAILQ_FIRST(&peer->queue))) {
    STAILQ_REMOVE_HEAD(&peer->queue, queued);
    line_send(peer, out);
  }
  if (peer->flush_done < peer->flush_sent)
    channel_send_number(c, RONDO_WIRE_FLUSH, peer->flush_sent);
  if (peer->mesh->says_bye)
    rondo_channel_send_bytes(c, RONDO_WIRE_BYE, NULL, 0);
  peer_close_gap(peer);
}

// -------------------------------------------------------------- receiving ---

// Keeps a message that has come before rondo_mesh_open. False without memory.
static bool mesh_hold(struct rondo_mesh *mesh, const struct rondo_mesh_message *m,
                      const struct rondo_channel *c) {
  struct rondo_mesh_held *held = malloc(sizeof *held + m->size);
  if (!held)
    return false;
  held->message = *m;
  if (m->size)
    memcpy(held->bytes, m->bytes, m->size);
  memcpy(held->key, rondo_handshake_other_key(&c->handshake), sizeof held->key);
  held->message.bytes = held->bytes;
  held->message.fds = held->fds;
  for (uint32_t i = 0; i < m->fd_count; i++) {
    held->fds[i] = m->fds[i];
    m->fds[i] = -1;
  }
  STAILQ_INSERT_TAIL(&mesh->held, held, queued);
  mesh->held_bytes += sizeof *held + m->size;
  return true;
}

// False if the connection has to end.
static bool mesh_on_message(struct rondo_mesh *mesh, uint32_t from, struct rondo_channel *c,
                            struct rondo_channel_frame *frame) {
  struct rondo_mesh_message message = {.from = from,
                                       .type = frame->wire.head.subtype,
                                       .bytes = frame->wire.payload,
                                       .size = frame->wire.head.size,
                                       .fds = frame->fds,
                                       .fd_count = frame->fd_count};
  if (!mesh->is_open) {
    if (!mesh_hold(mesh, &message, c))
      return false;
    if (mesh->held_bytes > RONDO_MESH_HELD_BYTES)
      rondo_channel_pause(c, 1);
  } else if (!mesh->peers[from].is_lost) {
    mesh->events.receive(mesh->arg, &message);
  }
  return true;
}

// Handles a frame that any authenticated connection may carry. Returns 1, 0 if it is another one,
// or -1 if it is malformed.
static int mesh_on_frame(struct rondo_mesh *mesh, uint32_t from, struct rondo_channel *c,
                         struct rondo_channel_frame *frame) {
  struct rondo_wire_reader r = rondo_wire_read(&frame->wire);
  if (c->closing & RONDO_MESH_CLOSE_ANSWERED)
    return 0; // after CLOSE only CLOSED may come
  switch (frame->wire.head.type) {
  case RONDO_WIRE_MEMBERSHIP:
    mesh->events.control(mesh->arg, from, frame->wire.payload, frame->wire.head.size);
    return 1;
  case RONDO_WIRE_MESSAGE:
    return mesh_on_message(mesh, from, c, frame) ? 1 : -1;
  case RONDO_WIRE_FLUSH: {
    uint64_t number = rondo_wire_get_u64(&r);
    if (!rondo_wire_is_done(&r))
      return -1;
    if (!c->closing) // otherwise the end of the connection answers
      channel_send_number(c, RONDO_WIRE_FLUSHED, number);
    return 1;
  }
  case RONDO_WIRE_CLOSE:
    if (!rondo_wire_is_done(&r))
      return -1;
    rondo_mesh_close_answer(mesh, c);
    return 1;
  default:
    return 0;
  }
}

// The connection was closed in order, and each side has read all. Messages that wait go on another
// one.
static void line_finish(struct rondo_mesh_peer *peer, struct rondo_channel *c) {
  if (peer->in == c)
    peer->in = NULL;
  else
    peer->out = NULL;
  if (peer->line == c)
    peer->line = NULL;
  rondo_channel_count(&peer->mesh->counters.closed, 1);
  rondo_mesh_tick_soon(peer->mesh);
  if (STAILQ_EMPTY(&peer->queue))
    peer->flush_done = peer->flush_sent;
  struct rondo_channel *other = peer->in ? peer->in : peer->out;
  if (other) {
    line_open(peer, other);
    return;
  }
  peer->has_received = peer->has_sent = peer->has_carried = 0;
  rondo_mesh_close_note(peer);
  if (!STAILQ_EMPTY(&peer->queue))
    peer_begin_dial(peer);
}

// CLOSED has come.
static void line_on_answer(struct rondo_mesh_peer *peer, struct rondo_channel *c) {
  c->closing |= RONDO_MESH_CLOSE_CONFIRMED;
  if (!STAILQ_EMPTY(&c->queue))
    return; // the answer of this side, on which the other one closes the connection
  rondo_channel_close(c);
  line_finish(peer, c);
}

static void line_on_frame(void *owner, struct rondo_channel *c, struct rondo_channel_frame *frame) {
  struct rondo_mesh_peer *peer = owner;
  struct rondo_wire_reader r = rondo_wire_read(&frame->wire);
  peer->has_received = 1;
  peer->has_carried |= frame->wire.head.type == RONDO_WIRE_MESSAGE;
  int is_done = mesh_on_frame(peer->mesh, peer_number(peer), c, frame);
  bool is_empty = !is_done && rondo_wire_is_done(&r);
  if (is_done > 0) {
    rondo_mesh_close_note(peer);
    return;
  }
  if (is_empty && frame->wire.head.type == RONDO_WIRE_BYE) {
    rondo_mesh_peer_end(peer); // it has left
    return;
  }
  if (is_empty && frame->wire.head.type == RONDO_WIRE_CLOSED &&
      c->closing & RONDO_MESH_CLOSE_ASKED) {
    line_on_answer(peer, c);
    return;
  }
  uint64_t number = rondo_wire_get_u64(&r);
  if (is_done || frame->wire.head.type != RONDO_WIRE_FLUSHED || !rondo_wire_is_done(&r) ||
      number > peer->flush_sent) {
    rondo_channel_refuse(c, RONDO_WIRE_REFUSE_GARBAGE);
    return;
  }
  peer->flush_done = number;
  rondo_mesh_tick_soon(peer->mesh);
}

static void line_on_closed(void *owner, struct rondo_channel *c, int how, const char *why) {
  struct rondo_mesh_peer *peer = owner;
  struct rondo_mesh *mesh = peer->mesh;
  bool is_accepted = peer->in == c;
  if (rondo_mesh_close_is_done(c, how)) {
    line_finish(peer, c);
    return;
  }
  if (is_accepted)
    peer->in = NULL;
  else
    peer->out = NULL;
  if (peer->line == c)
    peer->line = NULL;
  rondo_mesh_close_note(peer);
  if (mesh->says_bye) { // the process has read the goodbye, or has ended
    if (rondo_mesh_peer_is_idle(peer))
      peer->is_over = 1;
    rondo_mesh_tick_soon(mesh);
    return;
  }
  if (how < RONDO_CHANNEL_CUT) {
    rondo_mesh_peer_end(peer);
    mesh->events.broke(mesh->arg, peer_number(peer), why);
    return;
  }
  // If there is another connection, it reports the loss after the peer's last messages. One that
  // has carried nothing tells nothing: the peer makes another one, or is leaving.
  if (peer->in || peer->out || (is_accepted && !peer->has_received && !peer->has_sent))
    return;
  peer->has_gap |= peer->has_carried;
  peer->reports_gap |= c->closing;
  peer->has_carried = 0;
  if (!peer->is_lost)
    peer_begin_dial(peer);
  mesh->events.cut(mesh->arg, peer_number(peer), false, why);
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

// Handles a failed attempt. A slow peer has not ended, nor one to which this process is too slow,
// nor one that makes a connection itself: only one that keeps refusing connections has.
// `is_refused`: the kernel of this machine knows no such socket, which is proof at once.
static void peer_retry(struct rondo_mesh_peer *peer, int how, bool is_refused, const char *why) {
  struct rondo_mesh *mesh = peer->mesh;
  uint64_t now_ns = rondo_now_ns();
  if (how == RONDO_WIRE_REFUSE_TWICE && STAILQ_EMPTY(&peer->queue) && !peer->has_gap) {
    peer->flush_done = peer->flush_sent; // it lives, and all went on a connection that has ended
    rondo_mesh_tick_soon(mesh);
    return;
  }
  if (how == RONDO_WIRE_REFUSE_LATE || how == RONDO_WIRE_REFUSE_TWICE ||
      how == RONDO_CHANNEL_UNREACHABLE)
    peer->dial.begin_ns = now_ns;
  bool is_over = is_refused || now_ns - peer->dial.begin_ns > REFUSED_NS;
  if (!is_over && (!peer->is_lost || !STAILQ_EMPTY(&peer->queue))) {
    rondo_mesh_dial_again(mesh, &peer->dial, peer_places(peer));
    return;
  }
  rondo_mesh_peer_end(peer);
  if (is_over)
    mesh->events.cut(mesh->arg, peer_number(peer), true, why);
}

static void out_on_closed(void *owner, struct rondo_channel *c, int how, const char *why) {
  struct rondo_mesh_peer *peer = owner;
  if (peer->dial.channel != c) {
    line_on_closed(owner, c, how, why);
    return;
  }
  peer->dial.channel = NULL;
  if (!peer->line)
    peer_retry(peer, how, false, why);
}

static const struct rondo_channel_events out_events = {
    .opened = out_on_opened, .frame = line_on_frame, .closed = out_on_closed, .sent = peer_on_sent};

// Makes one attempt. A failure is handled by the event loop.
static void peer_attempt(struct rondo_mesh_peer *peer) {
  struct rondo_mesh *mesh = peer->mesh;
  struct rondo_channel_config cfg = rondo_mesh_channels(mesh, &out_events, peer);
  struct rondo_wire_hello hello = {
      .purpose = RONDO_WIRE_TO_PEER, .from = mesh->self, .to = peer_number(peer)};
  uint32_t address_count = peer_address_count(peer);
  struct rondo_wire_address address;
  cfg.responder = peer_where(peer)->key;
  cfg.handshake_ns = ANSWER_NS;
  cfg.welcome_ns = ANSWER_NS;
  if (peer_is_local(peer)) {
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
  peer->dial.error = (uint16_t)errno;
  rondo_mesh_dial_after(mesh, &peer->dial, 0);
}

static void peer_on_again(struct rondo_mesh_dial *dial) {
  struct rondo_mesh_peer *peer =
      (struct rondo_mesh_peer *)((char *)dial - offsetof(struct rondo_mesh_peer, dial));
  int error = peer->dial.error;
  peer->dial.error = 0;
  if (!error) {
    peer_attempt(peer);
    return;
  }
  if (error == EAGAIN) // the queue of its listener is full: it lives and is busy
    peer->dial.begin_ns = rondo_now_ns();
  bool is_away = error == EHOSTUNREACH || error == ENETUNREACH;
  peer_retry(peer, is_away ? RONDO_CHANNEL_UNREACHABLE : RONDO_CHANNEL_CUT,
             error == ECONNREFUSED && peer_is_local(peer),
             error == ECONNREFUSED ? "its process has ended" : strerror(error));
}

// Connects if it does not do so already.
static void peer_begin_dial(struct rondo_mesh_peer *peer) {
  if (peer->dial.channel || peer->dial.due_ns)
    return;
  peer->dial.on_due = peer_on_again;
  peer->dial.begin_ns = rondo_now_ns();
  peer->dial.pause_ns = FIRST_PAUSE_NS;
  peer_attempt(peer);
}

void rondo_mesh_peer_send(struct rondo_mesh *mesh, uint32_t to, struct rondo_channel_out *out) {
  struct rondo_mesh_peer *peer = &mesh->peers[to];
  if (peer->is_over || (peer->is_lost && out->head.type == RONDO_WIRE_MESSAGE)) {
    rondo_mesh_drop_frame(mesh, out);
    return;
  }
  if (line_is_open(peer)) {
    line_send(peer, out);
    return;
  }
  STAILQ_INSERT_TAIL(&peer->queue, out, queued);
  if (!peer->line)
    peer_begin_dial(peer);
}

bool rondo_mesh_peer_is_idle(const struct rondo_mesh_peer *peer) {
  return !peer->out && !peer->in && !peer->dial.channel && STAILQ_EMPTY(&peer->queue);
}

void rondo_mesh_peer_flush(struct rondo_mesh_peer *peer, uint64_t number) {
  if (rondo_mesh_peer_is_idle(peer) || peer->is_lost)
    return;
  peer->flush_sent = number;
  if (line_is_open(peer))
    channel_send_number(peer->line, RONDO_WIRE_FLUSH, number);
}

// A connection that is being made carries the goodbye after the messages that wait for it. One that
// is being closed ends without.
void rondo_mesh_peer_bye(struct rondo_mesh_peer *peer) {
  if (line_is_open(peer))
    rondo_channel_send_bytes(peer->line, RONDO_WIRE_BYE, NULL, 0);
}

// ------------------------------------------------------ connections of peers ---

static const struct rondo_channel_events in_events = {
    .frame = line_on_frame, .closed = line_on_closed, .sent = peer_on_sent};

// Before this process knows the others: the number of a process is what it says, and its key is
// compared later.
static void early_on_frame(void *owner, struct rondo_channel *c,
                           struct rondo_channel_frame *frame) {
  if (mesh_on_frame(owner, c->handshake.hello.from, c, frame) <= 0)
    rondo_channel_refuse(c, RONDO_WIRE_REFUSE_GARBAGE);
}

static void early_on_closed(void *owner, struct rondo_channel *c, int how, const char *why) {
  struct rondo_mesh *mesh = owner;
  LIST_REMOVE(c, listed);
  if (!rondo_mesh_close_is_done(c, how))
    mesh->events.cut(mesh->arg, c->handshake.hello.from, false, why);
}

static const struct rondo_channel_events early_events = {.frame = early_on_frame,
                                                         .closed = early_on_closed};

void rondo_mesh_peer_send_early(struct rondo_mesh *mesh, uint32_t to,
                                struct rondo_channel_out *out) {
  struct rondo_channel *c;
  LIST_FOREACH (c, &mesh->early, listed)
    if (c->handshake.hello.from == to && !c->closing)
      break;
  if (c)
    rondo_channel_send(c, out);
  else
    rondo_channel_out_free(out);
}

bool rondo_mesh_peer_has_key(const struct rondo_mesh *mesh, uint32_t process, const uint8_t *key) {
  return process < mesh->process_count && process != mesh->self &&
         memcmp(mesh->topology->processes[process].key, key, RONDO_TOPOLOGY_KEY_BYTES) == 0;
}

int rondo_mesh_peer_admit(void *arg, const struct rondo_channel *c) {
  const struct rondo_mesh *mesh = arg;
  uint32_t from = c->handshake.hello.from;
  if (!rondo_mesh_peer_has_key(mesh, from, c->handshake.hello.key))
    return 0; // refused once it is authenticated
  const struct rondo_mesh_peer *peer = &mesh->peers[from];
  bool is_made_here = peer->out || (peer->dial.channel && mesh->self < from);
  bool is_closing = peer->in && peer->in->closing;
  return (is_made_here || is_closing) && !peer->is_over ? RONDO_WIRE_REFUSE_TWICE : 0;
}

// Assigns a connection to the peer that made it.
static void peer_accept_in(struct rondo_mesh *mesh, struct rondo_channel *c, bool is_early) {
  uint32_t from = c->handshake.hello.from;
  uint32_t to = c->handshake.hello.to;
  if (to != mesh->self || !rondo_mesh_peer_has_key(mesh, from, c->handshake.hello.key)) {
    rondo_log(RONDO_LOG_WARN,
              "member: refused a connection from %s: it is not process %u of the job, or looks for "
              "another one",
              c->remote, from);
    rondo_channel_count(&mesh->counters.refused, 1);
    rondo_channel_close(c);
    return;
  }
  struct rondo_mesh_peer *peer = &mesh->peers[from];
  if (peer->is_over) {
    rondo_channel_close(c);
    return;
  }
  if (peer->in) { // it was cut, which this side has not noticed
    rondo_channel_close(peer->in);
    peer->has_gap |= peer->has_carried;
    peer->has_carried = 0;
    if (!is_early)
      mesh->events.cut(mesh->arg, from, false, "the process has connected again");
  }
  if (peer->line == peer->in)
    peer->line = NULL;
  peer->in = c;
  peer->has_received |= is_early;
  c->events = &in_events;
  c->owner = peer;
  line_open(peer, c);
}

void rondo_mesh_peer_accept(void *arg, struct rondo_channel *c) {
  struct rondo_mesh *mesh = arg;
  if (mesh->process_count) {
    peer_accept_in(mesh, c, false);
    return;
  }
  c->events = &early_events;
  c->owner = mesh;
  LIST_INSERT_HEAD(&mesh->early, c, listed);
}

void rondo_mesh_peer_accept_early(struct rondo_mesh *mesh) {
  while (!LIST_EMPTY(&mesh->early)) {
    struct rondo_channel *c = LIST_FIRST(&mesh->early);
    LIST_REMOVE(c, listed);
    peer_accept_in(mesh, c, true);
  }
}
