#include "runtime/transport/window_group.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "runtime/memory/range.h"
#include "runtime/transport/nccl/window.h"

#define TICK_NS UINT64_C(2000000)
#define GRACE_NS                                                                                   \
  UINT64_C(5000000000) // between the leader's limit and the limit of the other members
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
  uint8_t has_decided, is_in; // its ADOPTED has arrived; it uses the window
  uint64_t base;              // of its window, in its own address space
};

struct rondo_window_group {
  struct rondo_nccl_window *window; // null: there is none
  struct rondo_range *range;        // its memory
  uint64_t limit_ns;
  enum phase phase;
  uint64_t deadline_ns;
  uint32_t count, self;
  struct member *members; // in order of their processes; the first leads
  char why[RONDO_WHY_BYTES];
};

static bool group_is_leader(const struct rondo_window_group *g) { return g->self == 0; }

static struct member *group_find_member(struct rondo_window_group *g, uint32_t process) {
  for (uint32_t i = 0; i < g->count; i++)
    if (g->members[i].process == process)
      return &g->members[i];
  return NULL;
}

// -------------------------------------------------------------------- deciding --

static void member_send_step(struct rondo_transports *t, const struct member *to, enum step step,
                             int status, const char *why) {
  const struct rondo_window_group *g = t->group;
  struct rondo_message_window message = {.step = (uint32_t)step, .status = status};
  if (step == STEP_ENTER)
    memcpy(message.id, rondo_nccl_windows.id(g->window), sizeof message.id);
  if (g->window) {
    message.base = rondo_nccl_windows.base(g->window);
    message.bytes = rondo_nccl_windows.bytes(g->window);
  }
  (void)snprintf(message.why, sizeof message.why, "%.*s", (int)sizeof message.why - 1, why);
  rondo_transports_introduce(t, to->process);
  t->config.events->send(t->config.owner, to->process, RONDO_MESSAGE_WINDOW, &message,
                         sizeof message, -1);
}

static void group_send_all(struct rondo_transports *t, enum step step, int status,
                           const char *why) {
  for (uint32_t i = 0; i < t->group->count; i++)
    if (i != t->group->self)
      member_send_step(t, &t->group->members[i], step, status, why);
}

// Refuses the window for this process and its peers. The memory stays, because it may be in use.
static void group_refuse(struct rondo_transports *t, const char *why) {
  struct rondo_window_group *g = t->group;
  if (g->phase >= PHASE_ADOPTED)
    return;
  if (g->window && g->phase > PHASE_BEFORE)
    rondo_nccl_windows.give_up(g->window);
  g->phase = PHASE_REFUSED;
  rondo_store_relaxed_u32(&t->is_window_refused, 1);
  (void)snprintf(g->why, sizeof g->why, "%s", why);
  rondo_log(RONDO_LOG_WARN, "no window of NCCL, devices share memory without: %s", why);
  if (!g->members)
    return;
  if (group_is_leader(g))
    group_send_all(t, STEP_VERDICT, RONDO_ERR_UNSUPPORTED, why);
  group_send_all(t, STEP_ADOPTED, RONDO_ERR_UNSUPPORTED, why);
  t->config.events->resume(t->config.owner);
}

static void group_refuse_for(struct rondo_transports *t, uint32_t process, const char *why) {
  char text[RONDO_WHY_BYTES];
  (void)snprintf(text, sizeof text, "process %u: %.400s", process, why);
  group_refuse(t, text);
}

static void group_adopt(struct rondo_transports *t) {
  struct rondo_window_group *g = t->group;
  g->phase = PHASE_ADOPTED;
  rondo_log(RONDO_LOG_INFO, "a window of NCCL leads to %u processes", g->count);
  if (group_is_leader(g))
    group_send_all(t, STEP_VERDICT, RONDO_SUCCESS, "");
  group_send_all(t, STEP_ADOPTED, RONDO_SUCCESS, "");
  t->config.events->resume(t->config.owner);
}

// Reports a step of this process to the leader.
static void group_report(struct rondo_transports *t, enum step step, int status, const char *why) {
  struct rondo_window_group *g = t->group;
  if (!group_is_leader(g))
    member_send_step(t, &g->members[0], step, status, why);
  else if (status != RONDO_SUCCESS)
    group_refuse_for(t, g->members[0].process, why);
}

// ------------------------------------------------------------------- the leader --

// The first member that lacks a flag, the byte at `flag` of struct member; null: all have it.
static const struct member *group_find_late(const struct rondo_window_group *g, size_t flag) {
  for (uint32_t i = 0; i < g->count; i++)
    if (!*((const uint8_t *)&g->members[i] + flag))
      return &g->members[i];
  return NULL;
}

static void group_enter_all(struct rondo_transports *t) {
  struct rondo_window_group *g = t->group;
  group_send_all(t, STEP_ENTER, RONDO_SUCCESS, "");
  rondo_nccl_windows.join(g->window, rondo_nccl_windows.id(g->window), 0, g->count);
  g->phase = PHASE_JOINING;
  g->deadline_ns = rondo_now_ns() + g->limit_ns + GRACE_NS;
}

static void group_lead(struct rondo_transports *t, uint64_t now_ns) {
  struct rondo_window_group *g = t->group;
  bool is_gathering = g->phase == PHASE_GATHERING;
  const struct member *late = group_find_late(g, is_gathering ? offsetof(struct member, is_ready)
                                                              : offsetof(struct member, is_done));
  char why[RONDO_WHY_BYTES];
  if (is_gathering && !late) {
    rondo_nccl_windows.make_id(g->window);
    g->phase = PHASE_NAMING;
  } else if (g->phase == PHASE_NAMING) {
    int status = rondo_nccl_windows.poll(g->window, why);
    if (status == RONDO_SUCCESS)
      group_enter_all(t);
    else if (status != RONDO_IN_PROGRESS)
      group_refuse_for(t, g->members[0].process, why);
  } else if (g->phase == PHASE_JOINED && !late) {
    group_adopt(t);
  } else if (now_ns >= g->deadline_ns && late) {
    group_refuse_for(t, late->process,
                     is_gathering ? "it does not get ready" : "it does not join in time");
  }
}

// ----------------------------------------------------------------------- ticking --

static void group_poll_join(struct rondo_transports *t) {
  struct rondo_window_group *g = t->group;
  char why[RONDO_WHY_BYTES];
  int status = rondo_nccl_windows.poll(g->window, why);
  if (status == RONDO_IN_PROGRESS)
    return;
  if (status == RONDO_SUCCESS) {
    g->phase = PHASE_JOINED;
    g->members[g->self].is_done = 1;
  }
  group_report(t, STEP_DONE, status, why);
  if (status != RONDO_SUCCESS && !group_is_leader(g))
    group_refuse_for(t, g->members[g->self].process, why);
}

static void on_tick(void *arg) {
  struct rondo_transports *t = arg;
  struct rondo_window_group *g = t->group;
  pthread_mutex_lock(t->config.lock);
  uint64_t now_ns = rondo_now_ns();
  if (g->phase == PHASE_JOINING)
    group_poll_join(t);
  if (g->phase < PHASE_ADOPTED && group_is_leader(g))
    group_lead(t, now_ns);
  else if (g->phase < PHASE_ADOPTED && now_ns >= g->deadline_ns)
    group_refuse_for(t, g->members[0].process, "it does not say whether all have joined");
  if (g->phase < PHASE_ADOPTED)
    t->config.events->after(t->config.owner, TICK_NS, on_tick, t);
  t->config.events->unlock(t->config.owner);
}

// --------------------------------------------------------------------- receiving --

static void enter_receive(struct rondo_transports *t, const struct rondo_message_window *n) {
  struct rondo_window_group *g = t->group;
  if (g->phase != PHASE_GATHERING)
    return;
  rondo_nccl_windows.join(g->window, n->id, g->self, g->count);
  g->phase = PHASE_JOINING;
  g->deadline_ns = rondo_now_ns() + g->limit_ns + 2 * GRACE_NS;
}

static void ready_receive(struct rondo_transports *t, struct member *m,
                          const struct rondo_message_window *n) {
  struct rondo_window_group *g = t->group;
  if (g->phase != PHASE_GATHERING)
    return;
  if (n->status != RONDO_SUCCESS)
    group_refuse_for(t, m->process, n->why);
  else if (n->bytes != rondo_nccl_windows.bytes(g->window))
    group_refuse_for(t, m->process, "its window has another size");
  m->is_ready = 1;
}

static void step_receive(struct rondo_transports *t, struct member *m,
                         const struct rondo_message_window *n) {
  struct rondo_window_group *g = t->group;
  int from_leader = m == &g->members[0];
  switch (n->step) {
  case STEP_READY:
    ready_receive(t, m, n);
    break;
  case STEP_ENTER:
    if (from_leader)
      enter_receive(t, n);
    break;
  case STEP_DONE:
    m->is_done = 1;
    if (n->status != RONDO_SUCCESS)
      group_refuse_for(t, m->process, n->why);
    break;
  case STEP_VERDICT:
    if (from_leader && n->status != RONDO_SUCCESS)
      group_refuse(t, n->why);
    else if (from_leader && g->phase == PHASE_JOINED)
      group_adopt(t);
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
  struct member *m = t->group ? group_find_member(t->group, arrival->from) : NULL;
  if (m)
    step_receive(t, m, &message);
  return 1; // a window that this process does not ask for: the sender's limit passes
}

void rondo_window_group_lose(struct rondo_transports *t, uint32_t process) {
  struct rondo_window_group *g = t->group;
  struct member *m = g && g->members ? group_find_member(g, process) : NULL;
  if (!m)
    return;
  m->has_decided = 1;
  group_refuse_for(t, process, "it is lost");
}

// ----------------------------------------------------------------------- asking --

bool rondo_window_group_is_settled(const struct rondo_transports *t, uint32_t process) {
  struct rondo_window_group *g = t->group;
  if (!g || g->phase == PHASE_REFUSED)
    return true;
  const struct member *m = group_find_member(g, process);
  if (g->members && !m)
    return true;
  return g->phase == PHASE_ADOPTED && m->has_decided;
}

int rondo_window_group_leads(const struct rondo_transports *t, uint32_t process) {
  const struct member *m = t->group ? group_find_member(t->group, process) : NULL;
  return m && t->group->phase == PHASE_ADOPTED && m->is_in;
}

uint64_t rondo_window_group_view(const struct rondo_transports *t, uint32_t process) {
  struct rondo_window_group *g = t->group;
  const struct member *m = group_find_member(g, process);
  return rondo_nccl_windows.address(g->window, (uint32_t)(m - g->members));
}

uint64_t rondo_window_group_bias(const struct rondo_transports *t, uint32_t process) {
  return rondo_window_group_view(t, process) - group_find_member(t->group, process)->base;
}

const char *rondo_window_group_why(const struct rondo_transports *t, uint32_t process) {
  struct rondo_window_group *g = t->group;
  if (g && g->members && !group_find_member(g, process))
    return "it asks for no window";
  return g && g->phase == PHASE_REFUSED ? g->why : "";
}

// -------------------------------------------------------------- opening, closing --

static uint64_t variable_read(const char *variable, uint64_t most, uint64_t otherwise) {
  const char *text = getenv(variable);
  uint64_t value = 0;
  if (!text || !*text)
    return otherwise;
  const char *end = rondo_number_read(text, most, &value);
  if (end && !*end && value)
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
  g->limit_ns = variable_read("RONDO_NCCL_TIMEOUT_NS", LONGEST_LIMIT_NS, DEFAULT_LIMIT_NS);
  uint64_t bytes = variable_read("RONDO_NCCL_WINDOW_BYTES", MAX_BYTES, DEFAULT_BYTES);
  bytes = (bytes + RONDO_RANGE_UNIT_BYTES - 1) / RONDO_RANGE_UNIT_BYTES * RONDO_RANGE_UNIT_BYTES;
  const struct rondo_nccl_window_config config = {t->device, bytes, g->limit_ns};
  int status = rondo_nccl_windows.create(&config, &g->window, why);
  if (status == RONDO_SUCCESS)
    status = rondo_range_adopt(t->device, rondo_nccl_windows.base(g->window),
                               rondo_nccl_windows.bytes(g->window), &g->range);
  if (status != RONDO_SUCCESS)
    (void)snprintf(g->why, sizeof g->why, "%s", why);
  t->window = g->range;
}

// Why this process cannot take part, or null. It needs one device: NCCL 2.28 makes one communicator
// for each device.
static const char *group_hindrance(const struct rondo_transports *t) {
  const struct rondo_window_group *g = t->group;
  if (g->why[0])
    return g->why;
  return t->other_count ? "its ranks are on several devices" : NULL;
}

// True if the process is on this machine and asks for a window.
static bool peer_asks_window(const struct rondo_transports *t, uint32_t process) {
  const struct rondo_transport_peer *peer = &t->peers[process];
  return peer->reach == RONDO_TRANSPORT_SHARED_MEMORY && peer->asks_window;
}

static int group_make_members(struct rondo_transports *t) {
  struct rondo_window_group *g = t->group;
  g->members = calloc(t->peer_count, sizeof *g->members);
  for (uint32_t p = 0; g->members && p < t->peer_count; p++) {
    if (p == t->self)
      g->self = g->count;
    else if (!peer_asks_window(t, p))
      continue;
    g->members[g->count++].process = p;
  }
  return g->members != NULL;
}

void rondo_window_group_begin(struct rondo_transports *t) {
  struct rondo_window_group *g = t->group;
  if (!g)
    return;
  if (!group_make_members(t)) {
    group_refuse(t, "no memory");
    return;
  }
  const char *why = group_hindrance(t);
  if (!why && g->count < 2)
    why = "no other process of the job on this machine asks for one";
  if (!why && g->count > RONDO_NCCL_MAX_MEMBERS)
    why = "there are too many processes";
  g->phase = PHASE_GATHERING;
  g->deadline_ns = rondo_now_ns() + g->limit_ns + (group_is_leader(g) ? 0 : GRACE_NS);
  g->members[g->self].is_ready = 1;
  group_report(t, STEP_READY, why ? RONDO_ERR_UNSUPPORTED : RONDO_SUCCESS, why ? why : "");
  if (why && g->phase < PHASE_ADOPTED)
    group_refuse_for(t, t->self, why);
  if (g->phase < PHASE_ADOPTED)
    t->config.events->after(t->config.owner, TICK_NS, on_tick, t);
}

void rondo_window_group_close(struct rondo_transports *t) {
  struct rondo_window_group *g = t->group;
  if (!g)
    return;
  rondo_range_destroy(g->range);
  if (g->window)
    rondo_nccl_windows.destroy(g->window);
  free(g->members);
  free(g);
  t->group = NULL;
}
