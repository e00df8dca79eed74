// Who answers: probes, the cases of silent processes, and touch with the keepers.
#include "base/explore.h"
#include "runtime/job/membership_state.h"

#define TOUCH_SILENCES 4u // out of touch for so many silences: no majority

// -------------------------------------------------------------------- beliefs ---

struct rondo_belief *rondo_membership_belief(const struct rondo_membership *m, uint32_t process) {
  for (uint32_t i = 0; i < m->beliefs.count; i++)
    if (m->beliefs.items[i].process == process)
      return &m->beliefs.items[i];
  return NULL;
}

bool rondo_membership_is_proven(const struct rondo_membership *m, uint32_t process) {
  const struct rondo_belief *b = rondo_membership_belief(m, process);
  return b && b->is_proven;
}

// The way of reports may have changed: those that went elsewhere are sent again.
static void beliefs_changed(struct rondo_membership *m) {
  for (uint32_t i = 0; i < m->reports.count; i++) {
    struct rondo_report *r = &m->reports.items[i];
    uint32_t to = rondo_membership_route(m, r->item.process);
    if (r->sent_to != NOBODY && r->sent_to != (to == NOBODY ? m->self : to)) {
      r->sent_to = NOBODY;
      m->reports_sent = 0;
    }
  }
}

static struct rondo_watch *watch_find(const struct rondo_membership *m, uint32_t process) {
  for (uint32_t i = 0; i < m->watches.count; i++)
    if (m->watches.items[i].process == process)
      return &m->watches.items[i];
  return NULL;
}

// To put this process out, others must have waited for it for a silence. A process, or a majority
// of the keepers, that has answered a probe of half a silence ago or less had not done that when it
// was asked, and there was no time since. Nor was there if this process is that young, or has just
// got the roster, which the kernel gives up when it is late by a silence. Time goes on while this
// process is stopped.
static bool process_is_fresh(const struct rondo_membership *m, uint32_t process) {
  const struct rondo_watch *w = watch_find(m, process);
  uint64_t since_ns = w && w->touched_ns > m->touched_ns ? w->touched_ns : m->touched_ns;
  if (!m->epoch->number && m->now_ns - m->roster_ns <= m->silence_ns / 8)
    return true;
  return m->now_ns - since_ns <= m->silence_ns / 2;
}

void rondo_membership_believe(struct rondo_membership *m, uint32_t process, bool is_proven,
                              bool is_judged) {
  struct rondo_belief *b = rondo_membership_belief(m, process);
  bool is_new = !b;
  if (process == m->self || (is_new && !RONDO_ARRAY_GROW(m->beliefs)))
    return;
  if (is_new) {
    b = &m->beliefs.items[m->beliefs.count++];
    *b = (struct rondo_belief){.process = process};
  }
  if (is_proven && !b->is_proven)
    b->is_fresh = process_is_fresh(m, process);
  b->is_proven |= is_proven;
  b->is_judged |= is_judged;
  if (is_new)
    beliefs_changed(m);
}

static void verdict_send(struct rondo_membership *m, const struct rondo_watch *w, bool is_alive) {
  rondo_membership_tell(m, w->judge,
                        (struct rondo_membership_message){.type = RONDO_MEMBERSHIP_VERDICT,
                                                          .process = w->process,
                                                          .flag = is_alive,
                                                          .state = w->state});
}

void rondo_membership_hear(struct rondo_membership *m, uint32_t process, bool is_answer) {
  struct rondo_watch *w = m->watches.count ? watch_find(m, process) : NULL;
  for (uint32_t i = 0; i < m->beliefs.count; i++) {
    if (m->beliefs.items[i].process != process || m->beliefs.items[i].is_proven)
      continue;
    RONDO_ARRAY_REMOVE(m->beliefs, i);
    beliefs_changed(m);
    break;
  }
  if (!w)
    return;
  w->heard_ns = w->answered_ns = m->now_ns;
  if (w->is_silent)
    rondo_membership_report_drop(m, process);
  w->is_silent = w->is_inspected = false;
  w->state = RONDO_INSPECTED_NOT;
  if (!is_answer)
    return;
  if (w->why & WATCH_ORDER)
    verdict_send(m, w, true);
  w->why &= (uint8_t) ~(WATCH_ORDER | WATCH_FIRST);
}

// -------------------------------------------------------------------- watches ---

void rondo_membership_watch(struct rondo_membership *m, uint32_t process, uint8_t why,
                            uint32_t judge) {
  struct rondo_watch *w = watch_find(m, process);
  if (process == m->self || !rondo_epoch_is_member(m->epoch, process))
    return;
  if (!w) {
    if (!RONDO_ARRAY_GROW(m->watches))
      return;
    w = &m->watches.items[m->watches.count++];
    *w = (struct rondo_watch){.process = process, .heard_ns = m->now_ns, .probe_ns = m->now_ns};
  }
  if (why & WATCH_ORDER)
    w->judge = judge;
  w->why |= why;
  if (why & WATCH_ORDER && w->is_silent) {
    verdict_send(m, w, false);
    w->why &= (uint8_t)~WATCH_ORDER;
  }
}

void rondo_membership_on_watch(struct rondo_membership *m, uint32_t from, uint32_t process) {
  if (process == m->self) {
    m->counters.refused++; // nobody observes itself
    return;
  }
  if (!rondo_epoch_is_member(m->epoch, process))
    return;
  if (rondo_membership_is_proven(m, process)) {
    rondo_membership_reports_again(m, from);
    return;
  }
  rondo_membership_watch(m, process, WATCH_ORDER, from);
}

void rondo_membership_on_inspected(struct rondo_membership *m, uint32_t process, uint8_t state) {
  struct rondo_watch *w = m->epoch ? watch_find(m, process) : NULL;
  if (!w)
    return;
  w->state = state;
  if (state == RONDO_INSPECTED_DEAD)
    rondo_membership_report_simple(m, RONDO_REPORT_DIED, process, "its process has ended");
}

// The process has not answered for too long.
static void watch_fall_silent(struct rondo_membership *m, struct rondo_watch *w) {
  uint8_t why = w->why;
  uint32_t process = w->process;
  struct rondo_report_item item = {
      .kind = RONDO_REPORT_SILENT, .state = w->state, .process = process, .by = m->self};
  if (why & WATCH_ORDER && !w->is_silent)
    verdict_send(m, w, false);
  w->is_silent = true;
  w->why &= (uint8_t)~WATCH_ORDER;
  if (why & WATCH_PATH)
    rondo_membership_believe(m, process, false, false);
  if (why & ~(WATCH_ORDER | WATCH_TOUCH))
    rondo_membership_report(m, &item);
}

static void watch_probe(struct rondo_membership *m, struct rondo_watch *w) {
  const uint32_t *machines = m->epoch->roster->machine_of;
  uint32_t process = w->process;
  w->probe_ns = m->now_ns + m->period_ns;
  if (!w->is_inspected && m->now_ns - w->heard_ns >= m->silence_ns / 2 &&
      machines[process] == machines[m->self]) {
    w->is_inspected = true;
    rondo_membership_act(m, RONDO_MEMBERSHIP_INSPECT, process, NULL);
  }
  rondo_membership_tell(m, process,
                        (struct rondo_membership_message){.type = RONDO_MEMBERSHIP_PROBE,
                                                          .flag = (w->why & WATCH_PATH) != 0,
                                                          .stamp_ns = m->now_ns});
}

static uint64_t watch_due(const struct rondo_membership *m, const struct rondo_watch *w) {
  uint64_t silent_ns = w->heard_ns + m->silence_ns;
  return w->is_silent || w->probe_ns < silent_ns ? w->probe_ns : silent_ns;
}

static void watches_tick(struct rondo_membership *m) {
  for (uint32_t i = 0; i < m->watches.count;) {
    struct rondo_watch *w = &m->watches.items[i];
    if (!w->why || rondo_membership_is_proven(m, w->process)) {
      RONDO_ARRAY_REMOVE(m->watches, i);
      continue;
    }
    if (m->now_ns >= watch_due(m, w)) {
      bool is_late = m->now_ns - w->heard_ns >= m->silence_ns;
      if (is_late && (!w->is_silent || m->now_ns >= w->probe_ns))
        watch_fall_silent(m, w);
      if (m->now_ns >= w->probe_ns)
        watch_probe(m, w);
    }
    i++;
  }
}

// Takes a reason away from all watches.
static void watches_clear(struct rondo_membership *m, uint8_t why) {
  for (uint32_t i = 0; i < m->watches.count; i++)
    m->watches.items[i].why &= (uint8_t)~why;
}

static void time_shift(const struct rondo_membership *m, uint64_t *ns, uint64_t late_ns) {
  *ns = *ns + late_ns < m->now_ns ? *ns + late_ns : m->now_ns;
}

void rondo_membership_watch_shift(struct rondo_membership *m, uint64_t late_ns) {
  if (RONDO_FAULT(LATE_OBSERVER_COUNTS))
    return;
  for (uint32_t i = 0; i < m->watches.count; i++)
    time_shift(m, &m->watches.items[i].heard_ns, late_ns);
  for (uint32_t i = 0; i < m->cases.count; i++)
    time_shift(m, &m->cases.items[i].opened_ns, late_ns);
  if (m->need_ns)
    time_shift(m, &m->need_ns, late_ns);
  if (m->fresh_ns)
    time_shift(m, &m->fresh_ns, late_ns);
}

// ---------------------------------------------------------------------- cases ---

static struct rondo_case *case_find(const struct rondo_membership *m, uint32_t process) {
  for (uint32_t i = 0; i < m->cases.count; i++)
    if (m->cases.items[i].process == process)
      return &m->cases.items[i];
  return NULL;
}

static void case_ask(struct rondo_membership *m, uint32_t process, uint32_t observer) {
  struct rondo_case *c = case_find(m, process);
  for (uint32_t i = 0; i < c->asked_count; i++)
    if (c->asked[i] == observer)
      return;
  c->asked[c->asked_count++] = observer;
  if (observer == m->self)
    rondo_membership_watch(m, process, WATCH_ORDER, m->self);
  else
    rondo_membership_tell(
        m, observer,
        (struct rondo_membership_message){.type = RONDO_MEMBERSHIP_WATCH, .process = process});
}

static struct rondo_case *case_open(struct rondo_membership *m, uint32_t process) {
  uint32_t observers[RONDO_EPOCH_OBSERVERS];
  if (!RONDO_ARRAY_GROW(m->cases))
    return NULL;
  struct rondo_case *c = &m->cases.items[m->cases.count++];
  *c = (struct rondo_case){.process = process, .opened_ns = m->now_ns};
  uint32_t count = rondo_epoch_observers(m->epoch, process, observers);
  for (uint32_t i = 0; i < count; i++)
    if (!rondo_membership_is_lost(m, observers[i]))
      case_ask(m, process, observers[i]);
  case_ask(m, process, m->self);
  return c;
}

// Decides a case if there are enough votes, or no more are awaited.
static void case_decide(struct rondo_membership *m, struct rondo_case *c) {
  bool is_over = c->silent_count + c->alive_count >= c->asked_count ||
                 m->now_ns >= c->opened_ns + m->silence_ns + m->silence_ns / 2;
  bool is_clear = c->silent_count >= 2 && !c->alive_count;
  if (RONDO_FAULT(ONE_OBSERVER))
    is_clear = c->silent_count >= 1;
  if (c->closed_ns || (!is_over && !is_clear))
    return;
  c->closed_ns = m->now_ns ? m->now_ns : 1;
  if (!is_clear && c->silent_count <= c->alive_count)
    return;
  rondo_membership_report_judged(m, c->process, c->state);
  rondo_membership_believe(m, c->process, false, true);
}

static void case_vote(struct rondo_case *c, uint32_t by, bool is_alive) {
  uint32_t *votes = is_alive ? c->alive : c->silent;
  uint32_t *count = is_alive ? &c->alive_count : &c->silent_count;
  for (uint32_t i = 0; i < c->silent_count; i++)
    if (c->silent[i] == by)
      return;
  for (uint32_t i = 0; i < c->alive_count; i++)
    if (c->alive[i] == by)
      return;
  if (*count < RONDO_MEMBERSHIP_MOST_VOTES)
    votes[(*count)++] = by;
}

void rondo_membership_judge(struct rondo_membership *m, const struct rondo_report_item *item,
                            uint32_t by) {
  if (item->process == m->self || rondo_membership_is_proven(m, item->process))
    return;
  struct rondo_case *c = case_find(m, item->process);
  if (!c)
    c = case_open(m, item->process);
  if (!c || c->closed_ns)
    return;
  if (item->state > c->state)
    c->state = item->state;
  if (by != NOBODY)
    case_vote(c, by, false);
  case_decide(m, c);
}

void rondo_membership_on_verdict(struct rondo_membership *m, uint32_t from,
                                 const struct rondo_membership_message *message) {
  struct rondo_case *c = case_find(m, message->process);
  if (!c || c->closed_ns)
    return;
  case_vote(c, from, message->flag);
  if (message->state > c->state)
    c->state = message->state;
  case_decide(m, c);
}

static uint64_t case_due(const struct rondo_membership *m, const struct rondo_case *c) {
  return c->closed_ns ? c->closed_ns + m->period_ns
                      : c->opened_ns + m->silence_ns + m->silence_ns / 2;
}

static void cases_tick(struct rondo_membership *m) {
  for (uint32_t i = 0; i < m->cases.count;) {
    struct rondo_case *c = &m->cases.items[i];
    if (m->now_ns < case_due(m, c)) {
      i++;
    } else if (c->closed_ns) {
      RONDO_ARRAY_REMOVE(m->cases, i);
    } else {
      case_decide(m, c);
      i++;
    }
  }
}

// ------------------------------------------------------- touch with the keepers ---

// When a majority of the keepers had all been heard, or `touched`; 0: never.
static uint64_t keepers_heard(const struct rondo_membership *m, bool touched) {
  uint64_t heard[RONDO_EPOCH_KEEPERS];
  uint32_t count = rondo_epoch_keeper_count(m->epoch);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t process = m->epoch->order[i];
    const struct rondo_watch *w = watch_find(m, process);
    uint64_t ns = w ? touched ? w->touched_ns : w->answered_ns : 0;
    uint32_t at = i;
    if (process == m->self)
      ns = m->now_ns;
    for (; at && heard[at - 1] < ns; at--)
      heard[at] = heard[at - 1];
    heard[at] = ns;
  }
  return count ? heard[count / 2] : 0;
}

static void membership_refresh(struct rondo_membership *m) {
  if (!rondo_membership_is_acting(m))
    return;
  uint64_t heard_ns = keepers_heard(m, false);
  if (heard_ns > m->fresh_ns)
    m->fresh_ns = heard_ns;
}

void rondo_membership_answer(struct rondo_membership *m, uint32_t to,
                             const struct rondo_membership_message *probe, uint64_t age_ns) {
  rondo_membership_tell(m, to,
                        (struct rondo_membership_message){.type = RONDO_MEMBERSHIP_ANSWER,
                                                          .age_ns = age_ns,
                                                          .stamp_ns = probe->stamp_ns});
}

void rondo_membership_on_probe(struct rondo_membership *m, uint32_t from,
                               const struct rondo_membership_message *message) {
  uint64_t age_ns = UINT64_MAX;
  if (message->flag) {
    if (!m->asked_ns || m->now_ns - m->asked_ns > 2 * m->period_ns)
      m->path_ns = m->now_ns; // look at once
    m->asked_ns = m->now_ns ? m->now_ns : 1;
    membership_refresh(m);
    if (m->fresh_ns)
      age_ns = m->now_ns - m->fresh_ns;
  }
  rondo_membership_answer(m, from, message, age_ns);
}

void rondo_membership_on_answer(struct rondo_membership *m, uint32_t from,
                                const struct rondo_membership_message *message) {
  uint64_t age_ns = message->age_ns;
  struct rondo_watch *w = watch_find(m, from);
  if (w && message->epoch <= m->epoch->number && message->stamp_ns > w->touched_ns &&
      message->stamp_ns <= m->now_ns) {
    w->touched_ns = message->stamp_ns;
    uint64_t touched_ns = keepers_heard(m, true);
    m->touched_ns = touched_ns > m->touched_ns ? touched_ns : m->touched_ns;
  }
  // Only from nearer to the coordinator, so that nobody is in touch by hearsay of itself.
  if (m->epoch->place[from] >= m->epoch->place[m->self] || age_ns > m->now_ns)
    return;
  if (m->now_ns - age_ns > m->fresh_ns)
    m->fresh_ns = m->now_ns - age_ns;
}

// Probes the next process on the way to the keepers; all on the way if that one does not answer.
static void path_look(struct rondo_membership *m) {
  uint32_t hop = rondo_membership_route(m, NOBODY);
  const struct rondo_watch *w = hop == NOBODY ? NULL : watch_find(m, hop);
  bool is_quiet = w && w->why & WATCH_PATH && m->now_ns - w->heard_ns >= m->silence_ns / 2;
  watches_clear(m, WATCH_PATH);
  if (hop != NOBODY)
    rondo_membership_watch(m, hop, WATCH_PATH, NOBODY);
  for (uint32_t i = 0;
       (hop == NOBODY || is_quiet || m->beliefs.count) && i < rondo_epoch_keeper_count(m->epoch);
       i++)
    rondo_membership_watch(m, m->epoch->order[i], WATCH_PATH, NOBODY);
  for (uint32_t at = m->epoch->place[m->self]; (is_quiet || m->beliefs.count) && at;) {
    at = (at - 1) / RONDO_EPOCH_CHILDREN;
    rondo_membership_watch(m, m->epoch->order[at], WATCH_PATH, NOBODY);
  }
}

// Children that have not acknowledged the epoch for a while are probed.
static void spread_look(struct rondo_membership *m) {
  uint32_t children[RONDO_EPOCH_CHILDREN];
  watches_clear(m, WATCH_SPREAD);
  if (m->has_acked || m->now_ns < m->spread_ns + m->period_ns)
    return;
  uint32_t count = rondo_epoch_children(m->epoch, m->self, children);
  for (uint32_t i = 0; i < count; i++)
    if (!(m->acked >> i & 1))
      rondo_membership_watch(m, children[i], WATCH_SPREAD, NOBODY);
}

// True if this process itself waits for the keepers.
static bool membership_needs(const struct rondo_membership *m) {
  return m->blocked.count || m->reports.count || m->is_leaving || m->lead || m->epoch->number == 0;
}

static bool membership_is_asked(const struct rondo_membership *m) {
  return m->asked_ns && m->now_ns - m->asked_ns <= 2 * m->period_ns;
}

static void touch_tick(struct rondo_membership *m) {
  bool needs = membership_needs(m);
  if (!needs)
    m->need_ns = 0;
  else if (!m->need_ns)
    m->need_ns = m->now_ns ? m->now_ns : 1;
  if (!needs && !membership_is_asked(m) && m->has_acked) {
    watches_clear(m, WATCH_PATH | WATCH_SPREAD);
    m->path_ns = 0;
    return;
  }
  if (!m->path_ns)
    m->path_ns = m->now_ns + m->period_ns;
  if (m->now_ns >= m->path_ns) {
    m->path_ns = m->now_ns + m->period_ns;
    spread_look(m);
    if (needs || membership_is_asked(m))
      path_look(m);
  }
  membership_refresh(m);
  uint64_t since_ns = m->fresh_ns > m->need_ns ? m->fresh_ns : m->need_ns;
  if (needs && m->now_ns > since_ns + TOUCH_SILENCES * m->silence_ns)
    rondo_membership_end(m, RONDO_MEMBERSHIP_NO_MAJORITY,
                         "a majority of the keepers of the job's epochs cannot be reached");
}

void rondo_membership_watch_tick(struct rondo_membership *m) {
  touch_tick(m);
  if (m->phase != RONDO_MEMBERSHIP_RUNS)
    return;
  watches_tick(m);
  cases_tick(m);
}

uint64_t rondo_membership_watch_due(const struct rondo_membership *m) {
  uint64_t due_ns = m->path_ns ? m->path_ns : UINT64_MAX;
  if (!m->path_ns && (membership_needs(m) || !m->has_acked))
    due_ns = m->now_ns + m->period_ns;
  for (uint32_t i = 0; i < m->watches.count; i++)
    if (watch_due(m, &m->watches.items[i]) < due_ns)
      due_ns = watch_due(m, &m->watches.items[i]);
  for (uint32_t i = 0; i < m->cases.count; i++)
    if (case_due(m, &m->cases.items[i]) < due_ns)
      due_ns = case_due(m, &m->cases.items[i]);
  return due_ns;
}

// The first places keep in touch with the keepers all the time: they may have to tell whether the
// keepers have ended, or had left a later epoch before. Two members cannot put each other out.
static void touch_settle(struct rondo_membership *m) {
  if (m->epoch->live_count < 3 || m->epoch->roster->is_restartable ||
      m->epoch->place[m->self] >= RONDO_MEMBERSHIP_TOUCHERS)
    return;
  for (uint32_t i = 0; i < rondo_epoch_keeper_count(m->epoch); i++)
    rondo_membership_watch(m, m->epoch->order[i], WATCH_TOUCH, NOBODY);
}

void rondo_membership_watch_settle(struct rondo_membership *m) {
  const uint32_t *observed = NULL;
  watches_clear(m, WATCH_HEART | WATCH_SPREAD | WATCH_TOUCH);
  touch_settle(m);
  if (m->heartbeat_ns && m->epoch->number) {
    uint32_t count = rondo_epoch_observe(m->epoch, m->self, &observed);
    for (uint32_t i = 0; i < count; i++)
      rondo_membership_watch(m, observed[i], WATCH_HEART, NOBODY);
  }
  for (uint32_t i = 0; i < m->watches.count;)
    if (!rondo_epoch_is_member(m->epoch, m->watches.items[i].process))
      RONDO_ARRAY_REMOVE(m->watches, i);
    else
      i++;
  for (uint32_t i = 0; i < m->cases.count;)
    if (!rondo_epoch_is_member(m->epoch, m->cases.items[i].process))
      RONDO_ARRAY_REMOVE(m->cases, i);
    else
      i++;
  for (uint32_t i = 0; i < m->beliefs.count;)
    if (!rondo_epoch_is_member(m->epoch, m->beliefs.items[i].process))
      RONDO_ARRAY_REMOVE(m->beliefs, i);
    else
      i++;
}
