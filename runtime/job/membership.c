#include <stdio.h>

#include "base/explore.h"
#include "runtime/job/membership_state.h"

#define MOST_LOCAL 100000u // messages to itself in one step: more is a fault
#define JOIN_PAUSE_NS UINT64_C(10000000000)
#define JOIN_GRACE_NS UINT64_C(5000000000) // the root's time begins with the first JOIN
#define ROOT_GONE_NS UINT64_C(2000000000)  // for a roster that the root has sent before it ended

// -------------------------------------------------------------------- actions ---

bool rondo_membership_grow(void **items, uint32_t count, uint32_t *capacity, size_t item_bytes) {
  if (count < *capacity)
    return true;
  uint32_t more = *capacity ? 2 * *capacity : 4;
  void *grown = realloc(*items, more * item_bytes);
  if (!grown)
    return false;
  *items = grown;
  *capacity = more;
  return true;
}

void rondo_membership_actions_clear(struct rondo_membership_actions *actions) {
  for (uint32_t i = 0; i < actions->count; i++) {
    rondo_shared_bytes_put(actions->items[i].bytes);
    rondo_epoch_put(actions->items[i].epoch);
  }
  actions->count = 0;
}

void rondo_membership_actions_fini(struct rondo_membership_actions *actions) {
  rondo_membership_actions_clear(actions);
  free(actions->items);
  memset(actions, 0, sizeof *actions);
}

static struct rondo_membership_action *action_add(struct rondo_membership *m, uint8_t type) {
  struct rondo_membership_actions *actions = m->actions;
  if (!RONDO_ARRAY_GROW(*actions))
    return NULL;
  struct rondo_membership_action *action = &actions->items[actions->count++];
  memset(action, 0, sizeof *action);
  action->type = type;
  return action;
}

void rondo_membership_act(struct rondo_membership *m, uint8_t type, uint32_t process,
                          struct rondo_shared_bytes *bytes) {
  struct rondo_membership_action *action = action_add(m, type);
  if (!action) {
    rondo_shared_bytes_put(bytes);
    m->counters.lost++;
    return;
  }
  action->process = process;
  action->bytes = bytes;
  if (type == RONDO_MEMBERSHIP_OPENED)
    action->epoch = rondo_epoch_get(m->epoch);
  if (type == RONDO_MEMBERSHIP_APPEND)
    action->number = m->record_number;
}

static struct rondo_shared_bytes *text_share(const char *text) {
  return rondo_shared_bytes_create(text, (uint32_t)strlen(text) + 1);
}

void rondo_membership_notice(struct rondo_membership *m, const char *text) {
  rondo_membership_act(m, RONDO_MEMBERSHIP_NOTICE, NOBODY, text_share(text));
}

void rondo_membership_end(struct rondo_membership *m, uint8_t type, const char *text) {
  if (m->phase == RONDO_MEMBERSHIP_OVER)
    return;
  if (type == RONDO_MEMBERSHIP_FAILED && m->is_leaving)
    type = RONDO_MEMBERSHIP_LEFT; // it does not want to join any more
  m->phase = RONDO_MEMBERSHIP_OVER;
  rondo_membership_lead_drop(m);
  rondo_membership_act(m, type, NOBODY, text_share(text));
}

void rondo_membership_send(struct rondo_membership *m, uint32_t to,
                           struct rondo_shared_bytes *bytes) {
  if (!bytes) {
    m->counters.lost++;
    return;
  }
  if (m->epoch && to == m->self) {
    if (RONDO_ARRAY_GROW(m->local))
      m->local.items[m->local.count++].bytes = bytes;
    else
      rondo_shared_bytes_put(bytes);
    return;
  }
  m->counters.sent[bytes->bytes[0]]++;
  m->counters.sent_bytes += bytes->size;
  rondo_membership_act(m, RONDO_MEMBERSHIP_SEND, to, bytes);
}

void rondo_membership_tell(struct rondo_membership *m, uint32_t to,
                           struct rondo_membership_message message) {
  message.epoch = m->epoch ? m->epoch->number : 0;
  rondo_membership_send(m, to, rondo_membership_message_encode(&message));
}

uint64_t rondo_membership_append(struct rondo_membership *m, struct rondo_shared_bytes *record) {
  m->record_number++;
  if (record)
    rondo_membership_act(m, RONDO_MEMBERSHIP_APPEND, NOBODY, record);
  else
    m->counters.lost++;
  return m->record_number;
}

// ------------------------------------------------------------------- messages ---

// True if a message of that epoch is to be read. One of an older epoch is dropped, except what is
// true in any epoch; who is behind and no member any more is told.
static bool membership_is_current(struct rondo_membership *m, uint32_t from,
                                  const struct rondo_membership_message *message) {
  bool is_timeless =
      message->type == RONDO_MEMBERSHIP_ROSTER || message->type == RONDO_MEMBERSHIP_EPOCH ||
      message->type == RONDO_MEMBERSHIP_FETCH || message->type == RONDO_MEMBERSHIP_PROBE ||
      message->type == RONDO_MEMBERSHIP_ANSWER || message->type == RONDO_MEMBERSHIP_PREPARE ||
      message->type == RONDO_MEMBERSHIP_PROPOSE;
  uint32_t number = m->epoch->number;
  if (from != m->self && !rondo_epoch_is_member(m->epoch, from)) {
    m->counters.old++;
    if (message->epoch < number && message->type != RONDO_MEMBERSHIP_EPOCH)
      rondo_membership_send_epochs(m, from, message->epoch + 1);
    return false;
  }
  if (message->epoch > number && message->type != RONDO_MEMBERSHIP_EPOCH)
    rondo_membership_fetch(m, from, message->epoch);
  if (message->epoch < number && !is_timeless && !RONDO_FAULT(OLD_EPOCH_TAKEN)) {
    m->counters.old++;
    return false;
  }
  return true;
}

static void membership_dispatch(struct rondo_membership *m, uint32_t from,
                                const struct rondo_membership_message *message) {
  static void (*const handlers[RONDO_MEMBERSHIP_TYPES])(struct rondo_membership *, uint32_t,
                                                        const struct rondo_membership_message *) = {
      [RONDO_MEMBERSHIP_ROSTER] = rondo_membership_on_roster,
      [RONDO_MEMBERSHIP_EPOCH] = rondo_membership_on_epoch,
      [RONDO_MEMBERSHIP_ACK] = rondo_membership_on_ack,
      [RONDO_MEMBERSHIP_FETCH] = rondo_membership_on_fetch,
      [RONDO_MEMBERSHIP_REPORT] = rondo_membership_on_report,
      [RONDO_MEMBERSHIP_VERDICT] = rondo_membership_on_verdict,
      [RONDO_MEMBERSHIP_PREPARE] = rondo_membership_on_prepare,
      [RONDO_MEMBERSHIP_PROPOSE] = rondo_membership_on_propose,
      [RONDO_MEMBERSHIP_PROMISE] = rondo_membership_on_promise,
      [RONDO_MEMBERSHIP_ACCEPTED] = rondo_membership_on_accepted,
      [RONDO_MEMBERSHIP_REFUSED] = rondo_membership_on_refused,
  };
  if (message->type == RONDO_MEMBERSHIP_PROBE)
    rondo_membership_on_probe(m, from, message);
  else if (message->type == RONDO_MEMBERSHIP_ANSWER)
    rondo_membership_on_answer(m, from, message);
  else if (message->type == RONDO_MEMBERSHIP_WATCH)
    rondo_membership_on_watch(m, from, message->process);
  else
    handlers[message->type](m, from, message);
}

// Before the roster is known, only the roster is understood; who sends anything else has it.
static void membership_receive_early(struct rondo_membership *m, uint32_t from,
                                     const struct rondo_membership_message *message) {
  if (message->type == RONDO_MEMBERSHIP_ROSTER)
    rondo_membership_on_roster(m, from, message);
  else if (message->type == RONDO_MEMBERSHIP_PROBE)
    rondo_membership_answer(m, from, message, UINT64_MAX);
  else if (from != RONDO_MEMBERSHIP_ROOT)
    rondo_membership_fetch(m, from, message->epoch);
}

static void membership_receive_joined(struct rondo_membership *m,
                                      const struct rondo_membership_event *event) {
  struct rondo_joined joined;
  if (!rondo_membership_joined_decode(event->bytes, event->size, &joined)) {
    m->counters.refused++;
    return;
  }
  if (m->epoch)
    return;
  m->has_joined = true;
  m->is_named |= joined.status == RONDO_JOINED_NAMED;
  if (*(const uint8_t *)event->bytes == RONDO_MEMBERSHIP_REJECTED)
    rondo_membership_end(m, RONDO_MEMBERSHIP_FAILED, joined.text);
  else if (joined.status == RONDO_JOINED_LEAVES && m->is_leaving)
    rondo_membership_end(m, RONDO_MEMBERSHIP_LEFT, "before the roster was made");
}

// What a process that has ended sent before may still come, and others decide without waiting for
// that. Where it may come back, it is heard.
static bool membership_believes(struct rondo_membership *m, uint32_t from) {
  if (m->epoch->roster->is_restartable || !rondo_membership_is_proven(m, from))
    return true;
  m->counters.old++;
  return false;
}

static void membership_receive(struct rondo_membership *m,
                               const struct rondo_membership_event *event) {
  struct rondo_membership_message message;
  uint8_t type = event->size ? *(const uint8_t *)event->bytes : 0;
  uint32_t from = event->process;
  m->counters.received[type < RONDO_MEMBERSHIP_TYPES ? type : 0]++;
  m->counters.received_bytes += event->size;
  if (type < RONDO_MEMBERSHIP_ROSTER && from == RONDO_MEMBERSHIP_ROOT) {
    membership_receive_joined(m, event);
    return;
  }
  if (!rondo_membership_message_decode(event->bytes, event->size, &message) ||
      (m->epoch && from != RONDO_MEMBERSHIP_ROOT &&
       (from >= m->epoch->roster->process_count || from == m->self))) {
    m->counters.refused++;
    return;
  }
  if (!m->epoch) {
    membership_receive_early(m, from, &message);
  } else if (from != RONDO_MEMBERSHIP_ROOT && membership_believes(m, from)) {
    rondo_membership_hear(m, from, message.type == RONDO_MEMBERSHIP_ANSWER);
    if (membership_is_current(m, from, &message))
      membership_dispatch(m, from, &message);
  }
}

// Delivers what this process has sent to itself.
static void membership_deliver_local(struct rondo_membership *m) {
  for (uint32_t i = 0; i < m->local.count; i++) {
    struct rondo_shared_bytes *bytes = m->local.items[i].bytes;
    struct rondo_membership_message message;
    if (m->phase == RONDO_MEMBERSHIP_RUNS && m->epoch && i < MOST_LOCAL &&
        rondo_membership_message_decode(bytes->bytes, bytes->size, &message) &&
        membership_is_current(m, m->self, &message))
      membership_dispatch(m, m->self, &message);
    rondo_shared_bytes_put(bytes);
  }
  m->local.count = 0;
}

// --------------------------------------------------------------------- events ---

static void membership_join_tick(struct rondo_membership *m) {
  if (m->epoch || m->now_ns < m->join_ns)
    return;
  if (m->now_ns >= m->join_deadline_ns) {
    rondo_membership_end(m, RONDO_MEMBERSHIP_FAILED, m->join_text);
    return;
  }
  rondo_membership_send(m, RONDO_MEMBERSHIP_ROOT, rondo_shared_bytes_get(m->join));
  m->join_ns = m->now_ns + m->join_pause_ns;
  if (m->join_ns > m->join_deadline_ns)
    m->join_ns = m->join_deadline_ns;
  m->join_pause_ns *= 2;
}

// The root has ended before the roster came.
static void membership_on_root_gone(struct rondo_membership *m, const char *text) {
  bool is_unknown = m->is_leaving && !m->has_joined; // no roster is on its way
  uint64_t deadline_ns = m->now_ns + (is_unknown ? 0 : ROOT_GONE_NS);
  if (m->join_deadline_ns <= deadline_ns)
    return;
  m->join_deadline_ns = deadline_ns;
  m->join_ns = m->join_deadline_ns;
  (void)snprintf(m->join_text, sizeof m->join_text, "the process with the root is gone: %.150s",
                 text ? text : "it refuses connections");
}

// Sends another JOIN from now on. Takes over the reference.
static void membership_join_with(struct rondo_membership *m, struct rondo_shared_bytes *join) {
  rondo_shared_bytes_put(m->join);
  m->join = join;
  m->join_ns = m->now_ns;
  m->join_pause_ns = JOIN_PAUSE_NS;
}

// More ranks of this process join.
static void membership_on_join_again(struct rondo_membership *m,
                                     const struct rondo_membership_event *event) {
  bool is_late = m->epoch || m->is_leaving;
  struct rondo_shared_bytes *join =
      is_late ? NULL : rondo_shared_bytes_create(event->bytes, event->size);
  if (join)
    membership_join_with(m, join);
}

// The connection to the root was cut, so the JOIN may be lost. A process that leaves repeats it at
// once, until it knows whether the roster names it.
static void membership_on_root_cut(struct rondo_membership *m) {
  uint64_t pause_ns = m->is_leaving && !m->is_named ? 0 : m->period_ns;
  if (m->join_ns > m->now_ns + pause_ns)
    m->join_ns = m->now_ns + pause_ns;
}

static void membership_on_cut(struct rondo_membership *m,
                              const struct rondo_membership_event *event) {
  uint32_t process = event->process;
  if (!m->epoch) {
    if (process == RONDO_MEMBERSHIP_ROOT && event->is_proven)
      membership_on_root_gone(m, event->text);
    else if (process == RONDO_MEMBERSHIP_ROOT)
      membership_on_root_cut(m);
    if (process == m->fetch_from) {
      m->fetch_from = NOBODY;
      if (!event->is_proven)
        rondo_membership_fetch(m, process, m->fetch_epoch);
    }
    return;
  }
  if (process == m->self || !rondo_epoch_is_member(m->epoch, process))
    return;
  if (event->is_proven) {
    rondo_membership_report_simple(m, RONDO_REPORT_DIED, process, event->text);
    return;
  }
  rondo_membership_spread_again(m, process);
  rondo_membership_vote_again(m, process);
  rondo_membership_reports_again(m, process);
  rondo_membership_watch(m, process, WATCH_FIRST, NOBODY);
}

static void membership_on_block(struct rondo_membership *m,
                                const struct rondo_membership_event *event) {
  m->blocked.count = 0;
  for (uint32_t i = 0; i < event->count; i++)
    if (m->epoch && event->processes[i] != m->self &&
        rondo_epoch_is_member(m->epoch, event->processes[i]) && RONDO_ARRAY_GROW(m->blocked))
      m->blocked.items[m->blocked.count++] = event->processes[i];
  m->blocked_ns = m->blocked.count ? m->now_ns : 0;
}

// Before the roster is known, the root is told. If the roster is made and names this process, it is
// waited for, and the others learn of the leave as of any other (rondo_membership_adopt_roster).
static void membership_on_leave(struct rondo_membership *m) {
  if (m->epoch) {
    m->is_leaving = true;
    rondo_membership_report_simple(m, RONDO_REPORT_LEFT, m->self, "");
    return;
  }
  struct rondo_shared_bytes *join =
      m->is_leaving ? NULL : rondo_shared_bytes_create(m->join->bytes, m->join->size);
  if (!join)
    return;
  join->bytes[RONDO_MEMBERSHIP_JOIN_LEAVING] = 1;
  m->is_leaving = true;
  membership_join_with(m, join);
}

static void membership_on_begin(struct rondo_membership *m,
                                const struct rondo_membership_event *event) {
  struct rondo_shared_bytes *bytes = rondo_shared_bytes_create(event->bytes, (uint32_t)event->size);
  struct rondo_roster *roster = bytes ? rondo_roster_decode(bytes) : NULL;
  rondo_shared_bytes_put(bytes);
  if (roster)
    rondo_membership_adopt_roster(m, roster);
  else
    m->counters.refused++;
}

static void membership_handle(struct rondo_membership *m,
                              const struct rondo_membership_event *event) {
  const char *text = event->text;
  switch (event->type) {
  case RONDO_MEMBERSHIP_RECEIVE:
    membership_receive(m, event);
    break;
  case RONDO_MEMBERSHIP_BEGIN:
    if (!m->epoch)
      membership_on_begin(m, event);
    break;
  case RONDO_MEMBERSHIP_CUT:
    membership_on_cut(m, event);
    break;
  case RONDO_MEMBERSHIP_MISBEHAVED:
    rondo_membership_report_simple(m, RONDO_REPORT_BROKE, event->process, text);
    break;
  case RONDO_MEMBERSHIP_BLOCK:
    membership_on_block(m, event);
    break;
  case RONDO_MEMBERSHIP_LEAVE:
    membership_on_leave(m);
    break;
  case RONDO_MEMBERSHIP_DROP_RANK:
    rondo_membership_report_simple(m, RONDO_REPORT_RANK, event->process, "");
    break;
  case RONDO_MEMBERSHIP_INSPECTED:
    rondo_membership_on_inspected(m, event->process, event->state);
    break;
  case RONDO_MEMBERSHIP_JOIN_AGAIN:
    membership_on_join_again(m, event);
    break;
  case RONDO_MEMBERSHIP_APPENDED:
    rondo_membership_on_appended(m, event->number, text);
    break;
  default:
    break;
  }
}

// Due times of all that this core does by itself.
static uint64_t membership_find_due(const struct rondo_membership *m) {
  uint64_t due_ns = m->epoch ? UINT64_MAX : m->join_ns;
  if (m->phase == RONDO_MEMBERSHIP_OVER)
    return UINT64_MAX;
  if (!m->epoch)
    return due_ns;
  const uint64_t others[] = {rondo_membership_watch_due(m), rondo_membership_vote_due(m),
                             rondo_membership_reports_due(m)};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (others[i] < due_ns)
      due_ns = others[i];
  return due_ns;
}

void rondo_membership_step(struct rondo_membership *m, const struct rondo_membership_event *event,
                           struct rondo_membership_actions *actions) {
  if (m->phase == RONDO_MEMBERSHIP_OVER)
    return;
  m->actions = actions;
  m->now_ns = event->now_ns;
  if (m->epoch && m->due_ns != UINT64_MAX && m->now_ns > m->due_ns + m->period_ns / 8)
    rondo_membership_watch_shift(m, m->now_ns - m->due_ns);
  if (m->fetch_epoch == NOBODY)
    rondo_membership_catch_up(m);
  membership_handle(m, event);
  membership_deliver_local(m);
  if (m->phase != RONDO_MEMBERSHIP_OVER)
    membership_join_tick(m);
  if (m->phase == RONDO_MEMBERSHIP_RUNS) {
    rondo_membership_reports_tick(m);
    rondo_membership_reports_flush(m);
    rondo_membership_watch_tick(m);
    membership_deliver_local(m);
  }
  if (m->phase == RONDO_MEMBERSHIP_RUNS) {
    rondo_membership_vote_tick(m);
    membership_deliver_local(m);
  }
  if (m->phase == RONDO_MEMBERSHIP_RUNS)
    rondo_membership_reports_flush(m);
  membership_deliver_local(m);
  m->due_ns = membership_find_due(m);
  m->actions = NULL;
}

// ----------------------------------------------------------------------- life ---

// Continues where the log ends. False if it cannot be used.
static bool membership_restore(struct rondo_membership *m,
                               const struct rondo_membership_config *cfg, char *text) {
  struct rondo_epoch_log log;
  if (!rondo_epoch_log_read(cfg->log, cfg->log_size, cfg->job, &log, text))
    return false;
  if (log.epoch) {
    m->epoch = log.epoch;
    m->self = m->first_rank < log.epoch->roster->rank_count
                  ? log.epoch->roster->process_of[m->first_rank]
                  : NOBODY;
    m->kept = log;
    m->kept.epoch = NULL;
    rondo_membership_vote_reset(m);
    m->phase = RONDO_MEMBERSHIP_RUNS;
    m->fetch_epoch = NOBODY; // ask when the first step is made
    if (m->self != NOBODY)
      return true;
    (void)snprintf(text, RONDO_MEMBERSHIP_TEXT_BYTES, "the log is of a job without rank %u",
                   m->first_rank);
    return false;
  }
  return true;
}

struct rondo_membership *rondo_membership_create(const struct rondo_membership_config *cfg,
                                                 uint64_t now_ns, char *text) {
  struct rondo_membership *m = calloc(1, sizeof *m);
  *text = '\0';
  if (!m)
    return NULL;
  memcpy(m->job, cfg->job, sizeof m->job);
  m->heartbeat_ns = cfg->heartbeat_ns;
  m->silence_ns = cfg->peer_timeout_ns;
  if (cfg->heartbeat_ns && cfg->heartbeat_ns < cfg->peer_timeout_ns / 4)
    m->silence_ns = 4 * cfg->heartbeat_ns;
  m->period_ns = m->silence_ns / 4;
  m->keeps_log = cfg->keeps_log;
  m->pool = cfg->pool;
  m->self = NOBODY;
  m->now_ns = now_ns;
  m->join_ns = m->touched_ns = now_ns;
  m->report_due_ns = m->expire_ns = UINT64_MAX;
  m->who = (uint32_t)cfg->join.who & 0xffffff;
  m->due_ns = now_ns;
  m->join_pause_ns = JOIN_PAUSE_NS;
  m->join_deadline_ns = now_ns + cfg->join_timeout_ns + JOIN_GRACE_NS;
  (void)snprintf(m->join_text, sizeof m->join_text,
                 "the root did not send the roster before the join timeout");
  m->fetch_from = NOBODY;
  m->first_rank = cfg->ranges[0].first;
  m->join = rondo_membership_join_encode(&cfg->join, cfg->ranges);
  if (!m->join || (cfg->log && !membership_restore(m, cfg, text))) {
    rondo_membership_destroy(m);
    return NULL;
  }
  return m;
}

void rondo_membership_destroy(struct rondo_membership *m) {
  if (!m)
    return;
  rondo_membership_lead_drop(m);
  rondo_membership_assembly_free(m);
  for (uint32_t i = 0; i < m->local.count; i++)
    rondo_shared_bytes_put(m->local.items[i].bytes);
  for (uint32_t i = 0; i < m->replies.count; i++)
    rondo_shared_bytes_put(m->replies.items[i].bytes);
  rondo_shared_bytes_put(m->join);
  rondo_shared_bytes_put(m->accepted);
  rondo_epoch_log_fini(&m->kept);
  rondo_epoch_put(m->epoch);
  free(m->local.items);
  free(m->reports.items);
  free(m->reported);
  free(m->watches.items);
  free(m->cases.items);
  free(m->beliefs.items);
  free(m->blocked.items);
  free(m->replies.items);
  free(m);
}

uint64_t rondo_membership_due(const struct rondo_membership *m) { return m->due_ns; }

struct rondo_epoch *rondo_membership_epoch(const struct rondo_membership *m) {
  return m->epoch && m->epoch->number ? m->epoch : NULL;
}

const struct rondo_roster *rondo_membership_roster(const struct rondo_membership *m) {
  return m->epoch ? m->epoch->roster : NULL;
}

uint32_t rondo_membership_self(const struct rondo_membership *m) { return m->self; }

bool rondo_membership_is_running(const struct rondo_membership *m) {
  return m->phase != RONDO_MEMBERSHIP_OVER;
}

const struct rondo_membership_counters *
rondo_membership_counters(const struct rondo_membership *m) {
  return &m->counters;
}

bool rondo_membership_is_spread(const struct rondo_membership *m) { return m->has_acked; }
