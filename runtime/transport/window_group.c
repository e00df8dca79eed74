#include "runtime/transport/window_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/memory/range.h"
#include "runtime/transport/nccl/window.h"

#define TICK_NS UINT64_C(2000000)
#define GRACE_NS UINT64_C(5000000000) // from the leader's limit to that of the others
#define DEFAULT_LIMIT_NS UINT64_C(30000000000)
#define DEFAULT_BYTES (UINT64_C(256) << 20)
#define MAX_BYTES (UINT64_C(1) << 36)
#define LONGEST_LIMIT_NS UINT64_C(600000000000)

enum phase {
  PHASE_BEFORE = 0,
  PHASE_GATHERING,
  PHASE_NAMING,
  PHASE_JOINING,
  PHASE_JOINED,
  PHASE_ADOPTED,
  PHASE_REFUSED
};
enum step { STEP_READY = 1, STEP_ENTER, STEP_DONE, STEP_VERDICT, STEP_ADOPTED };

struct member {
  uint32_t process;
  uint8_t is_ready, is_done;
  uint8_t has_decided, is_in; // ADOPTED has come
  uint64_t base;              // of its window, where it has it itself
};

struct rondo_window_group {
  struct rondo_nccl_window *window; // null: it could not be had
  struct rondo_range *range;        // its memory
  uint64_t limit_ns;
  enum phase phase;
  uint64_t deadline_ns;
  int is_named; // the id has been asked for
  uint32_t count, self;
  struct member *members; // in order of their processes; the first leads
  char why[RONDO_WHY_BYTES];
};

static int is_leader(const struct rondo_window_group *g) { return g->self == 0; }

static struct member *member_of(struct rondo_window_group *g, uint32_t process) {
  for (uint32_t i = 0; i < g->count; i++)
    if (g->members[i].process == process)
      return &g->members[i];
  return NULL;
}

// -------------------------------------------------------------------- deciding --

static void send_step(struct rondo_transports *t, const struct member *to, enum step step,
                      int status, const char *why) {
  const struct rondo_window_group *g = t->group;
  struct rondo_message_window message = {.step = (uint32_t)step, .status = status};
  if (step == STEP_ENTER)
    memcpy(message.id, rondo_nccl_window_id(g->window), sizeof message.id);
  if (g->window) {
    message.base = rondo_nccl_window_base(g->window);
    message.bytes = rondo_nccl_window_bytes(g->window);
  }
  (void)snprintf(message.why, sizeof message.why, "%.*s", (int)sizeof message.why - 1, why);
  rondo_transports_introduce(t, to->process);
  t->config.events->send(t->config.owner, to->process, RONDO_MESSAGE_WINDOW, &message,
                         sizeof message, -1);
}

static void send_all(struct rondo_transports *t, enum step step, int status, const char *why) {
  for (uint32_t i = 0; i < t->group->count; i++)
    if (i != t->group->self)
      send_step(t, &t->group->members[i], step, status, why);
}

// Nobody uses the window, as far as this process knows. Its memory stays what it is: somebody may have some of it.
static void refuse(struct rondo_transports *t, const char *why) {
  struct rondo_window_group *g = t->group;
  if (g->phase >= PHASE_ADOPTED)
    return;
  if (g->window && g->phase > PHASE_BEFORE)
    rondo_nccl_window_give_up(g->window);
  g->phase = PHASE_REFUSED;
  rondo_store_relaxed_u32(&t->is_window_refused, 1);
  (void)snprintf(g->why, sizeof g->why, "%s", why);
  rondo_log(RONDO_LOG_WARN, "no window of NCCL, devices share memory without: %s", why);
  if (!g->members)
    return;
  if (is_leader(g))
    send_all(t, STEP_VERDICT, RONDO_ERR_UNSUPPORTED, why);
  send_all(t, STEP_ADOPTED, RONDO_ERR_UNSUPPORTED, why);
  t->config.events->resume(t->config.owner);
}

static void refuse_for(struct rondo_transports *t, uint32_t process, const char *why) {
  char text[RONDO_WHY_BYTES];
  (void)snprintf(text, sizeof text, "process %u: %.400s", process, why);
  refuse(t, text);
}

static void adopt(struct rondo_transports *t) {
  struct rondo_window_group *g = t->group;
  g->phase = PHASE_ADOPTED;
  rondo_log(RONDO_LOG_INFO, "a window of NCCL leads to %u processes", g->count);
  if (is_leader(g))
    send_all(t, STEP_VERDICT, RONDO_SUCCESS, "");
  send_all(t, STEP_ADOPTED, RONDO_SUCCESS, "");
  t->config.events->resume(t->config.owner);
}

// This process cannot, or has joined: the leader is told.
static void report(struct rondo_transports *t, enum step step, int status, const char *why) {
  struct rondo_window_group *g = t->group;
  if (!is_leader(g))
    send_step(t, &g->members[0], step, status, why);
  else if (status != RONDO_SUCCESS)
    refuse_for(t, g->members[0].process, why);
}

// ------------------------------------------------------------------- the leader --

static int is_all(const struct rondo_window_group *g, size_t flag) {
  for (uint32_t i = 0; i < g->count; i++)
    if (!*((const uint8_t *)&g->members[i] + flag))
      return 0;
  return 1;
}

// The first who is missing.
static void refuse_late(struct rondo_transports *t, size_t flag, const char *what) {
  const struct rondo_window_group *g = t->group;
  for (uint32_t i = 0; i < g->count; i++)
    if (!*((const uint8_t *)&g->members[i] + flag)) {
      refuse_for(t, g->members[i].process, what);
      return;
    }
}

static void enter_all(struct rondo_transports *t) {
  struct rondo_window_group *g = t->group;
  send_all(t, STEP_ENTER, RONDO_SUCCESS, "");
  rondo_nccl_window_join(g->window, rondo_nccl_window_id(g->window), 0, g->count);
  g->phase = PHASE_JOINING;
  g->deadline_ns = rondo_now_ns() + g->limit_ns + GRACE_NS;
}

static void lead(struct rondo_transports *t, uint64_t now_ns) {
  struct rondo_window_group *g = t->group;
  char why[RONDO_WHY_BYTES];
  if (g->phase == PHASE_GATHERING && is_all(g, offsetof(struct member, is_ready))) {
    rondo_nccl_window_make_id(g->window);
    g->phase = PHASE_NAMING;
  } else if (g->phase == PHASE_NAMING) {
    int status = rondo_nccl_window_poll(g->window, why);
    if (status == RONDO_SUCCESS)
      enter_all(t);
    else if (status != RONDO_IN_PROGRESS)
      refuse_for(t, g->members[0].process, why);
  } else if (g->phase == PHASE_JOINED && is_all(g, offsetof(struct member, is_done))) {
    adopt(t);
  } else if (now_ns >= g->deadline_ns && g->phase == PHASE_GATHERING) {
    refuse_late(t, offsetof(struct member, is_ready), "it does not get ready");
  } else if (now_ns >= g->deadline_ns) {
    refuse_late(t, offsetof(struct member, is_done), "it does not join in time");
  }
}

// ----------------------------------------------------------------------- ticking --

static void look_at_joining(struct rondo_transports *t) {
  struct rondo_window_group *g = t->group;
  char why[RONDO_WHY_BYTES];
  int status = rondo_nccl_window_poll(g->window, why);
  if (status == RONDO_IN_PROGRESS)
    return;
  if (status == RONDO_SUCCESS) {
    g->phase = PHASE_JOINED;
    g->members[g->self].is_done = 1;
  }
  report(t, STEP_DONE, status, why);
  if (status != RONDO_SUCCESS && !is_leader(g))
    refuse_for(t, g->members[g->self].process, why);
}

static void on_tick(void *arg) {
  struct rondo_transports *t = arg;
  struct rondo_window_group *g = t->group;
  pthread_mutex_lock(t->config.lock);
  uint64_t now_ns = rondo_now_ns();
  if (g->phase == PHASE_JOINING)
    look_at_joining(t);
  if (g->phase < PHASE_ADOPTED && is_leader(g))
    lead(t, now_ns);
  else if (g->phase < PHASE_ADOPTED && now_ns >= g->deadline_ns)
    refuse_for(t, g->members[0].process, "it does not say whether all have joined");
  if (g->phase < PHASE_ADOPTED)
    t->config.events->after(t->config.owner, TICK_NS, on_tick, t);
  pthread_mutex_unlock(t->config.lock);
}

// --------------------------------------------------------------------- receiving --

static void on_enter(struct rondo_transports *t, const struct rondo_message_window *n) {
  struct rondo_window_group *g = t->group;
  if (g->phase != PHASE_GATHERING)
    return;
  rondo_nccl_window_join(g->window, n->id, g->self, g->count);
  g->phase = PHASE_JOINING;
  g->deadline_ns = rondo_now_ns() + g->limit_ns + 2 * GRACE_NS;
}

static void on_ready(struct rondo_transports *t, struct member *m,
                     const struct rondo_message_window *n) {
  struct rondo_window_group *g = t->group;
  if (g->phase != PHASE_GATHERING)
    return;
  if (n->status != RONDO_SUCCESS)
    refuse_for(t, m->process, n->why);
  else if (n->bytes != rondo_nccl_window_bytes(g->window))
    refuse_for(t, m->process, "its window has another size");
  m->is_ready = 1;
}

static void take(struct rondo_transports *t, struct member *m,
                 const struct rondo_message_window *n) {
  struct rondo_window_group *g = t->group;
  int from_leader = m == &g->members[0];
  switch (n->step) {
  case STEP_READY:
    on_ready(t, m, n);
    break;
  case STEP_ENTER:
    if (from_leader)
      on_enter(t, n);
    break;
  case STEP_DONE:
    m->is_done = 1;
    if (n->status != RONDO_SUCCESS)
      refuse_for(t, m->process, n->why);
    break;
  case STEP_VERDICT:
    if (from_leader && n->status != RONDO_SUCCESS)
      refuse(t, n->why);
    else if (from_leader && g->phase == PHASE_JOINED)
      adopt(t);
    break;
  default:
    m->has_decided = 1;
    m->is_in = n->status == RONDO_SUCCESS;
    m->base = n->base;
    t->config.events->resume(t->config.owner);
  }
}

int rondo_window_group_receive(struct rondo_transports *t,
                               const struct rondo_transport_arrival *arrival) {
  struct rondo_message_window message;
  if (arrival->size != sizeof message)
    return 0;
  memcpy(&message, arrival->bytes, sizeof message);
  message.why[sizeof message.why - 1] = '\0';
  if (message.step < STEP_READY || message.step > STEP_ADOPTED)
    return 0;
  struct member *m = t->group ? member_of(t->group, arrival->from) : NULL;
  if (m)
    take(t, m, &message);
  return 1; // else it asks for what was not asked for here: it runs out of time, and says so
}

void rondo_window_group_lose(struct rondo_transports *t, uint32_t process) {
  struct rondo_window_group *g = t->group;
  struct member *m = g && g->members ? member_of(g, process) : NULL;
  if (!m)
    return;
  m->has_decided = 1;
  refuse_for(t, process, "it is lost");
}

// ----------------------------------------------------------------------- asking --

int rondo_window_group_is_settled(const struct rondo_transports *t, uint32_t process) {
  struct rondo_window_group *g = t->group;
  if (!g || g->phase == PHASE_REFUSED)
    return 1;
  const struct member *m = member_of(g, process);
  if (g->members && !m)
    return 1;
  return g->phase == PHASE_ADOPTED && m->has_decided;
}

int rondo_window_group_leads(const struct rondo_transports *t, uint32_t process) {
  const struct member *m = t->group ? member_of(t->group, process) : NULL;
  return m && t->group->phase == PHASE_ADOPTED && m->is_in;
}

uint64_t rondo_window_group_view(const struct rondo_transports *t, uint32_t process) {
  struct rondo_window_group *g = t->group;
  const struct member *m = member_of(g, process);
  return rondo_nccl_window_address(g->window, (uint32_t)(m - g->members));
}

uint64_t rondo_window_group_bias(const struct rondo_transports *t, uint32_t process) {
  return rondo_window_group_view(t, process) - member_of(t->group, process)->base;
}

const char *rondo_window_group_why(const struct rondo_transports *t, uint32_t process) {
  struct rondo_window_group *g = t->group;
  if (g && g->members && !member_of(g, process))
    return "it asks for no window";
  return g && g->phase == PHASE_REFUSED ? g->why : "";
}

// -------------------------------------------------------------- opening, closing --

static uint64_t number_from(const char *variable, uint64_t most, uint64_t otherwise) {
  const char *text = getenv(variable);
  char *end = NULL;
  if (!text || !*text)
    return otherwise;
  unsigned long long value = strtoull(text, &end, 10);
  if (!*end && text[0] != '-' && value && value <= most)
    return value;
  rondo_log_variable(variable, text, "a number from 1 to %llu", (unsigned long long)most);
  return otherwise;
}

void rondo_window_group_open(struct rondo_transports *t) {
  struct rondo_window_group *g = calloc(1, sizeof *g);
  char why[RONDO_WHY_BYTES] = "no memory";
  t->group = g;
  if (!g)
    return;
  g->limit_ns = number_from("RONDO_NCCL_TIMEOUT_NS", LONGEST_LIMIT_NS, DEFAULT_LIMIT_NS);
  uint64_t bytes = number_from("RONDO_NCCL_WINDOW_BYTES", MAX_BYTES, DEFAULT_BYTES);
  bytes = (bytes + RONDO_RANGE_UNIT_BYTES - 1) / RONDO_RANGE_UNIT_BYTES * RONDO_RANGE_UNIT_BYTES;
  const struct rondo_nccl_window_config config = {t->device, bytes, g->limit_ns};
  int status = rondo_nccl_window_create(&config, &g->window, why);
  if (status == RONDO_SUCCESS)
    status = rondo_range_adopt(t->device, rondo_nccl_window_base(g->window),
                               rondo_nccl_window_bytes(g->window), &g->range);
  if (status != RONDO_SUCCESS)
    (void)snprintf(g->why, sizeof g->why, "%s", why);
  t->window = g->range;
}

// One device a process: NCCL 2.28 has one communicator for each, and takes none twice.
static const char *hindrance(const struct rondo_transports *t) {
  const struct rondo_window_group *g = t->group;
  if (g->why[0])
    return g->why;
  return t->other_count ? "its ranks are on several devices" : NULL;
}

// 1 if that process is of this machine, and wants a window.
static int is_asking(const struct rondo_transports *t, uint32_t process) {
  const struct rondo_transport_peer *peer = &t->peers[process];
  return peer->reach == RONDO_TRANSPORT_SHARED_MEMORY && peer->asks_window;
}

static int make_members(struct rondo_transports *t) {
  struct rondo_window_group *g = t->group;
  g->members = calloc(t->peer_count, sizeof *g->members);
  for (uint32_t p = 0; g->members && p < t->peer_count; p++) {
    if (p == t->self)
      g->self = g->count;
    else if (!is_asking(t, p))
      continue;
    g->members[g->count++].process = p;
  }
  return g->members != NULL;
}

void rondo_window_group_begin(struct rondo_transports *t) {
  struct rondo_window_group *g = t->group;
  if (!g)
    return;
  if (!make_members(t)) {
    refuse(t, "no memory");
    return;
  }
  const char *why = hindrance(t);
  if (!why && g->count < 2)
    why = "no other process of the job on this machine asks for one";
  if (!why && g->count > RONDO_NCCL_MAX_MEMBERS)
    why = "there are too many processes";
  g->phase = PHASE_GATHERING;
  g->deadline_ns = rondo_now_ns() + g->limit_ns + (is_leader(g) ? 0 : GRACE_NS);
  g->members[g->self].is_ready = 1;
  report(t, STEP_READY, why ? RONDO_ERR_UNSUPPORTED : RONDO_SUCCESS, why ? why : "");
  if (why && g->phase < PHASE_ADOPTED)
    refuse_for(t, t->self, why);
  if (g->phase < PHASE_ADOPTED)
    t->config.events->after(t->config.owner, TICK_NS, on_tick, t);
}

void rondo_window_group_close(struct rondo_transports *t) {
  struct rondo_window_group *g = t->group;
  if (!g)
    return;
  rondo_range_destroy(g->range);
  rondo_nccl_window_destroy(g->window);
  free(g->members);
  free(g);
  t->group = NULL;
}
