// The stages of a stop: this process leaves its job.
#include <time.h>

#include "base/clock.h"
#include "base/fork.h"
#include "runtime/job/members_state.h"
#include "runtime/net/job_root.h"

#define FAREWELL_NS UINT64_C(200000000) // least time to tell the root that this process leaves
#define POLL_NS UINT64_C(1000000)    // between looks at what a stop needs, if nothing tells of it
#define WATCH_NS UINT64_C(100000000) // most time between looks, if something does

// The members of all jobs in this process.
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, rondo_members) all = LIST_HEAD_INITIALIZER(all);

static void members_forked(void) {
  LIST_INIT(&all);
  all_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
RONDO_ON_FORK(members_forked)

void rondo_members_enlist(struct rondo_members *m) {
  pthread_mutex_lock(&all_lock);
  LIST_INSERT_HEAD(&all, m, listed);
  pthread_mutex_unlock(&all_lock);
}

// True if this process has no other part in the job.
static bool members_is_last_of_job(const struct rondo_members *m) {
  const struct rondo_job_key *key = rondo_mesh_key(m->mesh);
  const struct rondo_members *other;
  int others = 0;
  pthread_mutex_lock(&all_lock);
  LIST_FOREACH (other, &all, listed)
    others += other != m && memcmp(rondo_mesh_key(other->mesh), key, sizeof *key) == 0;
  pthread_mutex_unlock(&all_lock);
  return !others;
}

static void members_finish_stop(struct rondo_members *m) {
  rondo_mesh_end(m->mesh);
  pthread_mutex_lock(&m->lock);
  m->is_stopped = true;
  pthread_cond_broadcast(&m->changed);
  pthread_mutex_unlock(&m->lock);
}

static bool members_run(const struct rondo_members *m) {
  return m->core && rondo_membership_is_running(m->core);
}

// A process that has not joined tells the root that it leaves. It stays for the roster if that
// names it, and while others need the root here to join.
static bool stop_must_join(struct rondo_members *m, uint64_t now_ns) {
  if (members_run(m) && !m->topology) {
    rondo_mesh_hurry(m->mesh);
    rondo_members_step(m, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_LEAVE});
  }
  if (m->phase == RONDO_MEMBERS_JOINING && now_ns < m->stop_join_ns &&
      rondo_root_is_gathering(rondo_mesh_key(m->mesh)) && members_is_last_of_job(m))
    return true;
  bool waits = members_run(m) && !m->topology;
  return waits && (now_ns < m->stop_join_ns || now_ns < m->farewell_ns);
}

static void stop_leave_root(struct rondo_members *m) {
  m->ends_root = members_is_last_of_job(m);
  pthread_mutex_lock(&all_lock);
  LIST_REMOVE(m, listed);
  pthread_mutex_unlock(&all_lock);
  if (m->ends_root)
    m->ends_root = rondo_root_leave(rondo_mesh_key(m->mesh));
}

// True if the stage is over; begins the next one. Peers get their messages before they know that
// this process has left. The root ends last.
static bool stop_advance(struct rondo_members *m, uint64_t now_ns, bool is_late) {
  bool leaves = members_run(m) && m->topology;
  switch (m->stage) {
  case RONDO_MEMBERS_STOPS_JOINING:
    if (stop_must_join(m, now_ns))
      return false;
    m->stop_ns = now_ns + m->stop_span_ns;
    m->flush = rondo_mesh_flush(m->mesh);
    break;
  case RONDO_MEMBERS_STOPS_SENDING:
    if (!is_late && !rondo_mesh_is_flushed(m->mesh, m->flush))
      return false;
    if (leaves)
      rondo_members_step(m, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_LEAVE});
    break;
  case RONDO_MEMBERS_LEAVES:
    if (!is_late && leaves)
      return false;
    rondo_mesh_say_bye(m->mesh);
    break;
  case RONDO_MEMBERS_SAYS_BYE:
    if (!is_late && !rondo_mesh_is_idle(m->mesh))
      return false;
    stop_leave_root(m);
    break;
  default:
    if (!is_late && m->ends_root && rondo_root_is_here(rondo_mesh_key(m->mesh)))
      return false;
  }
  m->stage++;
  return true;
}

bool rondo_members_stop_look(struct rondo_members *m) {
  struct rondo_mesh_counters c;
  uint64_t now_ns = rondo_now_ns();
  rondo_mesh_counters(m->mesh, &c);
  if (m->stop_bytes != c.sent_bytes + c.received_bytes) // it goes on, however slowly
    m->stop_ns = now_ns + m->stop_span_ns;
  else if (now_ns > m->stop_due_ns) // this process was late itself: that does not count
    m->stop_ns += now_ns - m->stop_due_ns;
  m->stop_bytes = c.sent_bytes + c.received_bytes;
  while (m->stage <= RONDO_MEMBERS_ENDS_ROOT && stop_advance(m, now_ns, now_ns >= m->stop_ns))
    continue;
  if (m->stage <= RONDO_MEMBERS_ENDS_ROOT)
    return false;
  members_finish_stop(m);
  return true;
}

uint64_t rondo_members_next_look(const struct rondo_members *m) {
  uint64_t now_ns = rondo_now_ns();
  if (m->stage == RONDO_MEMBERS_STOPS_JOINING || m->stage == RONDO_MEMBERS_ENDS_ROOT)
    return now_ns + POLL_NS;
  if (m->stage == RONDO_MEMBERS_LEAVES && !members_run(m))
    return now_ns;
  if (m->stage == RONDO_MEMBERS_NOT_STOPPING || m->stop_ns > now_ns + WATCH_NS)
    return now_ns + WATCH_NS;
  return m->stop_ns;
}

static void members_on_stop(void *arg) {
  struct rondo_members *m = arg;
  rondo_members_serve(m);
  m->stage = RONDO_MEMBERS_STOPS_JOINING;
  m->stop_due_ns = rondo_now_ns();
  rondo_members_set_tick(m);
}

void rondo_members_stop(struct rondo_members *m, int64_t timeout_ns, int64_t join_ns) {
  uint64_t now_ns = rondo_now_ns();
  m->stop_span_ns = timeout_ns > 0 ? (uint64_t)timeout_ns : 0;
  m->stop_ns = now_ns + m->stop_span_ns;
  m->stop_join_ns = now_ns + (join_ns > 0 ? (uint64_t)join_ns : 0);
  m->farewell_ns = now_ns + (m->stop_span_ns < FAREWELL_NS ? m->stop_span_ns : FAREWELL_NS);
  rondo_mesh_call(m->mesh, members_on_stop, m);
  pthread_mutex_lock(&m->lock);
  while (!m->is_stopped)
    pthread_cond_wait(&m->changed, &m->lock);
  pthread_mutex_unlock(&m->lock);
}
