#include "runtime/net/mesh_state.h"

#include "base/clock.h"

#define LAST_PAUSE_NS UINT64_C(500000000)

// Sets the timer to the first attempt that is due.
static void dials_arm(struct rondo_mesh *mesh) {
  const struct rondo_mesh_dial *dial;
  uint64_t first_ns = UINT64_MAX;
  LIST_FOREACH (dial, &mesh->dials, waiting) {
    first_ns = dial->due_ns < first_ns ? dial->due_ns : first_ns;
  }
  uint64_t now_ns = rondo_now_ns();
  if (first_ns != UINT64_MAX)
    rondo_event_loop_timer_set(&mesh->dial_timer, first_ns > now_ns ? first_ns - now_ns : 0);
}

static struct rondo_mesh_dial *dials_find_due(struct rondo_mesh *mesh, uint64_t now_ns) {
  struct rondo_mesh_dial *dial = LIST_FIRST(&mesh->dials);
  while (dial && dial->due_ns > now_ns)
    dial = LIST_NEXT(dial, waiting);
  return dial;
}

static void dials_on_due(evutil_socket_t fd, short what, void *arg) {
  struct rondo_mesh *mesh = arg;
  uint64_t now_ns = rondo_now_ns();
  struct rondo_mesh_dial *dial;
  (void)fd, (void)what;
  // One that is put off meanwhile is due after now_ns.
  while ((dial = dials_find_due(mesh, now_ns))) {
    rondo_mesh_dial_cancel(dial);
    dial->on_due(dial);
  }
  dials_arm(mesh);
}

void rondo_mesh_dials_begin(struct rondo_mesh *mesh) {
  LIST_INIT(&mesh->dials);
  evtimer_assign(&mesh->dial_timer, rondo_event_loop_base(mesh->loop), dials_on_due, mesh);
}

void rondo_mesh_dials_end(struct rondo_mesh *mesh) { evtimer_del(&mesh->dial_timer); }

void rondo_mesh_dial_after(struct rondo_mesh *mesh, struct rondo_mesh_dial *dial,
                           uint64_t delay_ns) {
  rondo_mesh_dial_cancel(dial);
  dial->due_ns = rondo_now_ns() + delay_ns + 1;
  LIST_INSERT_HEAD(&mesh->dials, dial, waiting);
  dials_arm(mesh);
}

void rondo_mesh_dial_again(struct rondo_mesh *mesh, struct rondo_mesh_dial *dial, uint32_t places) {
  dial->channel = NULL;
  if (++dial->next % places) {
    rondo_mesh_dial_after(mesh, dial, 0);
    return;
  }
  rondo_mesh_dial_after(mesh, dial, dial->pause_ns);
  dial->pause_ns += dial->pause_ns / 2;
  if (dial->pause_ns > LAST_PAUSE_NS)
    dial->pause_ns = LAST_PAUSE_NS;
}

void rondo_mesh_dial_cancel(struct rondo_mesh_dial *dial) {
  if (dial->due_ns)
    LIST_REMOVE(dial, waiting);
  dial->due_ns = 0;
}

void rondo_mesh_dial_stop(struct rondo_mesh_dial *dial) {
  if (dial->channel)
    rondo_channel_close(dial->channel);
  dial->channel = NULL;
  rondo_mesh_dial_cancel(dial);
}
