// Closes connections that nobody uses, so that a process keeps few in a job of any size.
// mesh_state.h says how both sides do that without losing a message.
#include "base/clock.h"
#include "runtime/net/mesh_state.h"

#define IDLE_NS UINT64_C(30000000000)
// A connection that was used less than this ago is not closed, however many there are: a process
// that speaks with many others in turn would make a connection for each message.
#define REST_NS UINT64_C(1000000000)
#define IDLE_MOST 48u

static uint64_t unkept_span(const struct rondo_mesh *mesh) {
  return mesh->unkept_count > mesh->idle_most ? mesh->rest_ns : mesh->idle_ns;
}

// Asks the other side to close the connection.
static void line_close(struct rondo_mesh_peer *peer) {
  struct rondo_channel_out *out = rondo_channel_out_create(RONDO_WIRE_CLOSE, NULL);
  if (out) { // otherwise the connection counts as used
    rondo_channel_send(peer->line, out);
    peer->line->closing |= RONDO_MESH_CLOSE_ASKED;
  }
  rondo_mesh_close_note(peer);
}

static void unkept_on_idle(evutil_socket_t fd, short what, void *arg) {
  struct rondo_mesh *mesh = arg;
  uint64_t now_ns = rondo_now_ns();
  struct rondo_mesh_peer *peer;
  (void)fd, (void)what;
  while ((peer = TAILQ_FIRST(&mesh->unkept)) && !mesh->says_bye) {
    uint64_t span_ns = unkept_span(mesh);
    if (now_ns - peer->used_ns < span_ns) {
      rondo_event_loop_timer_set(&mesh->idle, span_ns - (now_ns - peer->used_ns) + 1000);
      return;
    }
    line_close(peer);
  }
}

void rondo_mesh_close_init(struct rondo_mesh *mesh) {
  TAILQ_INIT(&mesh->unkept);
  mesh->idle_ns = IDLE_NS;
  mesh->rest_ns = REST_NS;
  mesh->idle_most = IDLE_MOST;
}

void rondo_mesh_close_begin(struct rondo_mesh *mesh) {
  evtimer_assign(&mesh->idle, rondo_event_loop_base(mesh->loop), unkept_on_idle, mesh);
}

void rondo_mesh_close_set_timer(struct rondo_mesh *mesh) {
  rondo_event_loop_timer_set(&mesh->idle, unkept_span(mesh));
}

void rondo_mesh_close_note(struct rondo_mesh_peer *peer) {
  struct rondo_mesh *mesh = peer->mesh;
  if (peer->is_listed) {
    TAILQ_REMOVE(&mesh->unkept, peer, listed);
    mesh->unkept_count--;
  }
  peer->is_listed = peer->line && !peer->line->closing && !peer->is_kept;
  if (!peer->is_listed)
    return;
  TAILQ_INSERT_TAIL(&mesh->unkept, peer, listed);
  mesh->unkept_count++;
  peer->used_ns = rondo_now_ns();
  // The timer is not set for each use: when it fires it looks how long the use is past.
  bool is_first_too_many = mesh->unkept_count == mesh->idle_most + 1;
  if (mesh->is_open && (is_first_too_many || !evtimer_pending(&mesh->idle, NULL)))
    rondo_mesh_close_set_timer(mesh);
}

void rondo_mesh_keep(struct rondo_mesh *mesh, const uint32_t *processes, uint32_t count) {
  enum { NEW = 2 };
  for (uint32_t i = 0; i < count; i++)
    mesh->peers[processes[i]].is_kept |= NEW;
  for (uint32_t i = 0; i < mesh->process_count; i++) {
    struct rondo_mesh_peer *peer = &mesh->peers[i];
    bool was_kept = peer->is_kept & 1;
    peer->is_kept = peer->is_kept >= NEW;
    if (peer->is_kept != was_kept)
      rondo_mesh_close_note(peer);
  }
}

void rondo_mesh_close_answer(struct rondo_mesh *mesh, struct rondo_channel *c) {
  if (mesh->says_bye)
    return; // the other side closes the connection at the goodbye
  rondo_channel_send(c, rondo_channel_out_create(RONDO_WIRE_CLOSED, NULL));
  c->closing |= RONDO_MESH_CLOSE_ANSWERED;
}

bool rondo_mesh_close_is_done(const struct rondo_channel *c, int how) {
  bool is_agreed =
      c->closing & RONDO_MESH_CLOSE_CONFIRMED || c->closing == RONDO_MESH_CLOSE_ANSWERED;
  return is_agreed && how == RONDO_CHANNEL_CUT && !c->is_cut;
}
