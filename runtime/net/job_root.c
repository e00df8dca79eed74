#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/log.h"
#include "runtime/net/job_root.h"
#include "runtime/net/listener.h"

#define FIRST_REMINDER_NS UINT64_C(10000000000) // doubles with each reminder of missing ranks
#define UNUSED_FACTOR UINT64_C(10)              // an unused id is valid for so many join timeouts
#define LEAVE_NS UINT64_C(1000000000)
#define TEXT_BYTES 256u

// GATHERING until the roster is made, MADE until it was given to a process.
enum phase { GATHERING, MADE, GIVEN, LEAVING };

// A process that has connected.
struct member {
  LIST_ENTRY(member) listed;
  struct rondo_root *root;
  struct rondo_channel *channel;
  uint64_t who;   // 0: it has not joined
  uint32_t place; // the lowest rank that the roster names; UINT32_MAX: it names none
  bool was_given, has_roster, lacks_roster, is_dismissed;
};

struct rondo_root {
  LIST_ENTRY(rondo_root) listed;
  struct rondo_event_loop *loop;
  struct rondo_event_loop_task start;
  struct rondo_job_key job;
  struct rondo_listener listener;
  struct rondo_mesh_counters counters;
  const struct rondo_root_gatherer *gatherer;
  void *gather;
  uint64_t join_timeout_ns;
  int phase;
  bool is_cancelled; // a call has ended the gathering: stays to reject those that come late
  LIST_HEAD(, member) members;
  uint32_t lacking; // members that the roster names and that may not have it
  struct event deadline, reminder;
  uint64_t reminder_ns;
};

static pthread_mutex_t roots_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, rondo_root) roots;

static void roots_forked(void) {
  LIST_INIT(&roots);
  roots_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
RONDO_ON_FORK(roots_forked)

// The root of the job if it is in this process, or null. The control thread may use it.
// `roots_lock` is held.
static struct rondo_root *root_find_locked(const struct rondo_job_key *job) {
  struct rondo_root *root = LIST_FIRST(&roots);
  while (root && memcmp(&root->job, job, sizeof *job) != 0)
    root = LIST_NEXT(root, listed);
  return root;
}

static struct rondo_root *root_find(const struct rondo_job_key *job) {
  pthread_mutex_lock(&roots_lock);
  struct rondo_root *root = root_find_locked(job);
  pthread_mutex_unlock(&roots_lock);
  return root;
}

static unsigned long long ns_to_ms(uint64_t ns) { return (unsigned long long)ns / 1000000; }

// ------------------------------------------------------------------ the end ---

static void member_free(struct member *m) {
  LIST_REMOVE(m, listed);
  free(m);
}

static void root_free(struct rondo_root *root) {
  pthread_mutex_lock(&roots_lock);
  LIST_REMOVE(root, listed);
  pthread_mutex_unlock(&roots_lock);
  for (struct member *m = LIST_FIRST(&root->members), *next; m; m = next) {
    next = LIST_NEXT(m, listed);
    rondo_channel_close(m->channel);
    free(m);
  }
  rondo_listener_close(&root->listener);
  evtimer_del(&root->deadline);
  evtimer_del(&root->reminder);
  root->gatherer->destroy(root->gather);
  struct rondo_event_loop *loop = root->loop;
  free(root);
  rondo_event_loop_put(loop);
}

// ------------------------------------------------------------- the roster ---

// Sends a message of membership and takes over the reference.
static void member_send(struct member *m, struct rondo_shared_bytes *bytes) {
  rondo_channel_send(m->channel,
                     bytes ? rondo_channel_out_create(RONDO_WIRE_MEMBERSHIP, bytes) : NULL);
}

// Counts whether the process lacks the roster: called whenever that may change. A count keeps the
// root's work linear in the number of processes.
static void member_count(struct member *m) {
  struct rondo_root *root = m->root;
  m->place = m->who ? root->gatherer->place(root->gather, m->who) : UINT32_MAX;
  bool lacks_roster = !m->has_roster && m->place != UINT32_MAX;
  root->lacking += (uint32_t)lacks_roster - (uint32_t)m->lacks_roster;
  m->lacks_roster = lacks_roster;
}

// The process of the lowest rank that lacks the roster; null: all have it.
static struct member *root_find_next(const struct rondo_root *root) {
  struct member *m;
  struct member *next = NULL;
  if (root->lacking)
    LIST_FOREACH (m, &root->members, listed)
      if (m->lacks_roster && (!next || m->place < next->place))
        next = m;
  return next;
}

// The roster comes to the others from the process that gets it here.
static void member_give(struct member *m) {
  struct rondo_root *root = m->root;
  struct rondo_shared_bytes *part;
  if (m->was_given)
    return;
  m->was_given = true;
  for (uint32_t i = 0; (part = root->gatherer->part(root->gather, i)); i++)
    member_send(m, part);
  if (root->phase == MADE)
    root->phase = GIVEN;
}

// Needs no process any more once none is without the roster.
static void root_dismiss(struct rondo_root *root) {
  struct member *m;
  if (root->phase == GATHERING || root->lacking)
    return;
  LIST_FOREACH (m, &root->members, listed) {
    if (!m->who || m->is_dismissed)
      continue;
    m->is_dismissed = true;
    rondo_channel_send_bytes(m->channel, RONDO_WIRE_BYE, NULL, 0);
  }
}

// Gives the roster to the first process that may be without it: at first, and after a process was
// lost, which may have been the only one with the roster.
static void root_give(struct rondo_root *root) {
  struct member *next = root_find_next(root);
  if (next)
    member_give(next);
  root_dismiss(root);
}

// True while a process has not read all that the root has sent to it.
static bool root_is_busy(const struct rondo_root *root) {
  const struct member *m;
  LIST_FOREACH (m, &root->members, listed)
    if (m->who)
      return true;
  return false;
}

static void root_close_gathering(struct rondo_root *root) {
  char text[TEXT_BYTES];
  struct member *m;
  uint32_t ranks = root->gatherer->rank_count(root->gather);
  uint32_t missing = root->gatherer->missing(root->gather, text, sizeof text);
  if (missing)
    rondo_log(RONDO_LOG_ERROR, "root: %u of %u ranks did not join within %llu ms: %s", missing,
              ranks, ns_to_ms(root->join_timeout_ns), text);
  if (root->is_cancelled)
    rondo_log(RONDO_LOG_INFO, "root: a job of %u ranks does not begin: it was cancelled", ranks);
  else
    rondo_log(RONDO_LOG_INFO, "root: %u of %u ranks have joined", ranks - missing, ranks);
  rondo_event_loop_timer_set(&root->deadline, root->join_timeout_ns); // for those that come late
  evtimer_del(&root->reminder);
  LIST_FOREACH (m, &root->members, listed)
    member_count(m);
  if (root->phase == GATHERING)
    root->phase = root->lacking ? MADE : GIVEN;
  root_give(root);
}

// Sets the timer after the first process has joined.
static void root_set_deadline(struct rondo_root *root) {
  uint64_t due_ns = root->gatherer->due(root->gather);
  uint64_t now_ns = rondo_now_ns();
  rondo_event_loop_timer_set(&root->deadline, due_ns > now_ns ? due_ns - now_ns + 1000 : 0);
}

static void root_on_deadline(evutil_socket_t fd, short what, void *arg) {
  struct rondo_root *root = arg;
  (void)fd, (void)what;
  if (root->phase != GATHERING || !root->gatherer->rank_count(root->gather)) {
    if (root->phase == GATHERING)
      rondo_log(RONDO_LOG_WARN, "root: no process joined in time; the job's id is no longer valid");
    root_free(root);
    return;
  }
  if (root->gatherer->finish(root->gather, rondo_now_ns()))
    root_close_gathering(root);
  else
    root_set_deadline(root);
}

static void root_on_reminder(evutil_socket_t fd, short what, void *arg) {
  struct rondo_root *root = arg;
  struct member *m;
  char text[TEXT_BYTES];
  (void)fd, (void)what;
  uint32_t missing = root->gatherer->missing(root->gather, text, sizeof text);
  root->reminder_ns *= 2;
  rondo_event_loop_timer_set(&root->reminder, root->reminder_ns);
  rondo_log(RONDO_LOG_WARN, "root: still waiting for %u of %u ranks: %s", missing,
            root->gatherer->rank_count(root->gather), text);
  LIST_FOREACH (m, &root->members, listed)
    if (m->who)
      member_send(m, root->gatherer->remind(root->gather));
}

// ------------------------------------------------------------------- members ---

static void root_begin_gathering(struct rondo_root *root) {
  uint32_t ranks = root->gatherer->rank_count(root->gather);
  uint64_t timeout_ns = root->join_timeout_ns;
  root->listener.members = ranks;
  rondo_event_loop_make_room(ranks);
  root->reminder_ns = timeout_ns / 4 < FIRST_REMINDER_NS ? timeout_ns / 4 : FIRST_REMINDER_NS;
  root_set_deadline(root);
  rondo_event_loop_timer_set(&root->reminder, root->reminder_ns);
}

// A process has joined again after the roster was made: what was sent to it may be lost.
static void member_on_return(struct member *m) {
  member_count(m);
  if (root_find_next(m->root) == m)
    member_give(m);
  root_dismiss(m->root);
}

static void member_on_join(struct member *m, struct rondo_channel_frame *frame) {
  struct rondo_root *root = m->root;
  uint64_t now_ns = rondo_now_ns();
  bool is_first = !root->gatherer->rank_count(root->gather);
  uint64_t who = 0;
  struct rondo_shared_bytes *reply = root->gatherer->receive(root->gather, frame->wire.payload,
                                                             frame->wire.head.size, now_ns, &who);
  if (!reply) {
    rondo_channel_refuse(m->channel, RONDO_WIRE_REFUSE_GARBAGE);
    return;
  }
  if (m->who && m->who != who && root->phase == GATHERING)
    root->gatherer->lose(root->gather, m->who);
  m->who = who;
  member_send(m, reply);
  if (is_first && root->gatherer->rank_count(root->gather))
    root_begin_gathering(root);
  if (root->gatherer->finish(root->gather, now_ns))
    root_close_gathering(root);
  else if (root->phase != GATHERING)
    member_on_return(m);
}

static void member_on_roster(struct member *m) {
  if (m->has_roster)
    return;
  m->has_roster = true;
  member_count(m);
  root_dismiss(m->root);
}

static void member_on_frame(void *owner, struct rondo_channel *c,
                            struct rondo_channel_frame *frame) {
  if (frame->wire.head.type == RONDO_WIRE_MEMBERSHIP)
    member_on_join(owner, frame);
  else if (frame->wire.head.type == RONDO_WIRE_BYE && !frame->wire.head.size)
    member_on_roster(owner);
  else
    rondo_channel_refuse(c, RONDO_WIRE_REFUSE_GARBAGE);
}

// True if the process of a member has another connection.
static bool member_is_elsewhere(const struct member *m) {
  const struct member *other;
  LIST_FOREACH (other, &m->root->members, listed)
    if (other != m && other->who == m->who)
      return true;
  return false;
}

static void member_on_closed(void *owner, struct rondo_channel *c, int how, const char *why) {
  struct member *m = owner;
  struct rondo_root *root = m->root;
  (void)c, (void)how;
  if (m->who && root->phase == GATHERING && !member_is_elsewhere(m)) {
    rondo_log(RONDO_LOG_INFO, "root: a process that was joining is gone: %s", why);
    root->gatherer->lose(root->gather, m->who);
  }
  // Once no process lacks the roster, those that close are not missed.
  bool is_missed = root->phase >= GIVEN && m->place != UINT32_MAX && root->lacking;
  root->lacking -= m->lacks_roster;
  member_free(m);
  if (is_missed)
    root_give(root);
  if (root->phase == LEAVING && !root_is_busy(root))
    root_free(root);
}

static const struct rondo_channel_events member_events = {.frame = member_on_frame,
                                                          .closed = member_on_closed};

static void root_on_authenticated(void *arg, struct rondo_channel *c) {
  struct rondo_root *root = arg;
  struct member *m = calloc(1, sizeof *m);
  if (!m) {
    rondo_channel_close(c);
    return;
  }
  m->root = root;
  m->channel = c;
  m->place = UINT32_MAX;
  LIST_INSERT_HEAD(&root->members, m, listed);
  c->events = &member_events;
  c->owner = m;
}

// ------------------------------------------------------------ start and leave ---

static void root_start(void *arg) {
  struct rondo_root *root = arg;
  struct event_base *base = rondo_event_loop_base(root->loop);
  evtimer_assign(&root->deadline, base, root_on_deadline, root);
  evtimer_assign(&root->reminder, base, root_on_reminder, root);
  rondo_listener_start(&root->listener);
  rondo_event_loop_timer_set(&root->deadline, UNUSED_FACTOR * root->join_timeout_ns);
}

int rondo_root_open(const struct rondo_root_config *cfg) {
  struct rondo_root *root = calloc(1, sizeof *root);
  if (!root)
    return RONDO_ERR_NO_MEMORY;
  root->job = cfg->job;
  root->join_timeout_ns = cfg->join_timeout_ns;
  root->gatherer = cfg->gatherer;
  root->gather = cfg->gatherer->create(cfg->join_timeout_ns);
  if (!root->gather) {
    free(root);
    return RONDO_ERR_NO_MEMORY;
  }
  int status = rondo_listener_open(&root->listener, cfg->addresses, cfg->address_count);
  if (status == RONDO_SUCCESS) {
    root->loop = rondo_event_loop_get();
    if (!root->loop) {
      errno = EAGAIN;
      status = RONDO_ERR_SYSTEM;
    }
  }
  if (status != RONDO_SUCCESS) {
    rondo_listener_close(&root->listener);
    root->gatherer->destroy(root->gather);
    free(root);
    return status;
  }
  struct rondo_channel_config channels = {.loop = root->loop,
                                          .job = &root->job,
                                          .counters = &root->counters,
                                          .peer_timeout_ns = cfg->peer_timeout_ns};
  root->listener.channels = channels;
  root->listener.name = "root";
  root->listener.purpose = RONDO_WIRE_TO_ROOT;
  root->listener.to = RONDO_MESH_NOBODY;
  root->listener.authenticated = root_on_authenticated;
  root->listener.arg = root;
  root->start.call = root_start;
  root->start.arg = root;
  pthread_mutex_lock(&roots_lock);
  LIST_INSERT_HEAD(&roots, root, listed);
  pthread_mutex_unlock(&roots_lock);
  rondo_event_loop_post(root->loop, &root->start);
  return RONDO_SUCCESS;
}

bool rondo_root_is_here(const struct rondo_job_key *job) { return root_find(job) != NULL; }

bool rondo_root_is_gathering(const struct rondo_job_key *job) {
  const struct rondo_root *root = root_find(job);
  return root && root->phase <= MADE;
}

void rondo_root_counters(const struct rondo_job_key *job, struct rondo_mesh_counters *out) {
  memset(out, 0, sizeof *out);
  pthread_mutex_lock(&roots_lock);
  const struct rondo_root *root = root_find_locked(job);
  if (root)
    rondo_copy_relaxed_u64(out, &root->counters, sizeof *out);
  pthread_mutex_unlock(&roots_lock);
}

bool rondo_root_leave(const struct rondo_job_key *job) {
  struct rondo_root *root = root_find(job);
  if (!root || root->is_cancelled)
    return false;
  if (root->phase == LEAVING)
    return true;
  struct member *m;
  if (root->phase <= MADE) // nobody waits for this root any more
    LIST_FOREACH (m, &root->members, listed) {
      m->who = 0;
      member_count(m);
    }
  root->phase = LEAVING;
  if (!root_is_busy(root)) {
    root_free(root);
    return true;
  }
  evtimer_del(&root->reminder);
  rondo_event_loop_timer_set(&root->deadline, LEAVE_NS);
  return true;
}

// --------------------------------------------------------- calls of other threads ---

struct root_call {
  struct rondo_event_loop_task task;
  const struct rondo_job_key *job;
  const struct rondo_root_gatherer *gatherer; // null: end the root
  void (*call)(void *gather, void *arg);
  void *arg;
  bool is_found, is_done; // is_done: guarded by `calls_lock`
};

static pthread_mutex_t calls_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t calls_done = PTHREAD_COND_INITIALIZER;

static void calls_forked(void) {
  calls_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  calls_done = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}
RONDO_ON_FORK(calls_forked)

// Tells the processes that are connected what has changed for them.
static void root_send_news(struct rondo_root *root) {
  struct member *m;
  struct rondo_shared_bytes *bytes;
  LIST_FOREACH (m, &root->members, listed)
    while (m->who && (bytes = root->gatherer->news(root->gather, m->who)))
      member_send(m, bytes);
  // One that nobody joins by a roster is valid while it is used.
  if (root->phase == GATHERING && !root->gatherer->rank_count(root->gather))
    rondo_event_loop_timer_set(&root->deadline, UNUSED_FACTOR * root->join_timeout_ns);
}

static void call_execute(struct root_call *c) {
  struct rondo_root *root = root_find(c->job);
  if (!c->gatherer) {
    (void)rondo_root_leave(c->job);
    return;
  }
  if (!root || root->gatherer != c->gatherer || root->phase == LEAVING)
    return;
  c->is_found = true;
  c->call(root->gather, c->arg);
  root_send_news(root);
  if (root->phase != GATHERING || !root->gatherer->finish(root->gather, rondo_now_ns()))
    return;
  root->is_cancelled = true;
  root_close_gathering(root);
}

static void call_on_task(void *arg) {
  struct root_call *c = arg;
  call_execute(c);
  pthread_mutex_lock(&calls_lock);
  c->is_done = true;
  pthread_cond_broadcast(&calls_done);
  pthread_mutex_unlock(&calls_lock);
}

static void call_await(struct root_call *c) {
  struct rondo_event_loop *loop = rondo_root_is_here(c->job) ? rondo_event_loop_get() : NULL;
  if (!loop)
    return; // without a control thread there is no root
  c->task.call = call_on_task;
  c->task.arg = c;
  rondo_event_loop_post(loop, &c->task);
  pthread_mutex_lock(&calls_lock);
  while (!c->is_done)
    pthread_cond_wait(&calls_done, &calls_lock);
  pthread_mutex_unlock(&calls_lock);
  rondo_event_loop_put(loop);
}

bool rondo_root_call(const struct rondo_job_key *job, const struct rondo_root_gatherer *gatherer,
                     void (*call)(void *gather, void *arg), void *arg) {
  struct root_call c = {.job = job, .gatherer = gatherer, .call = call, .arg = arg};
  call_await(&c);
  return c.is_found;
}

void rondo_root_close(const struct rondo_job_key *job) {
  struct root_call c = {.job = job};
  call_await(&c);
}
