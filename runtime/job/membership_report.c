// Reports go up the tree to who judges them, which keeps what is not settled. Each process on the
// way sends a report on once, and again if the way changes.
#include <stdio.h>

#include "base/explore.h"
#include "runtime/job/membership_state.h"

#define FEW 32u // reports that are searched one by one

bool rondo_report_removes(const struct rondo_report *r) {
  return r->is_judged ||
         (r->item.kind != RONDO_REPORT_SILENT && r->item.kind != RONDO_REPORT_BLOCKED);
}

uint32_t rondo_membership_route(const struct rondo_membership *m, uint32_t process) {
  const struct rondo_epoch *e = m->epoch;
  uint32_t place = e->place[m->self];
  for (uint32_t at = place; at;) {
    at = (at - 1) / RONDO_EPOCH_CHILDREN;
    if (e->order[at] != process && !rondo_membership_is_lost(m, e->order[at]))
      return e->order[at];
  }
  for (uint32_t at = 0; at < place; at++)
    if (e->order[at] != process && !rondo_membership_is_lost(m, e->order[at]))
      return e->order[at];
  return NOBODY;
}

static void reports_find_due(struct rondo_membership *m) {
  m->report_due_ns = m->expire_ns = UINT64_MAX;
  for (uint32_t i = 0; i < m->reports.count; i++) {
    const struct rondo_report *r = &m->reports.items[i];
    uint64_t *due_ns = rondo_report_removes(r) ? &m->report_due_ns : &m->expire_ns;
    if (r->due_ns < *due_ns)
      *due_ns = r->due_ns;
  }
}

// All reports are to be sent again.
static void reports_rewind(struct rondo_membership *m) {
  m->reports_sent = 0;
  for (uint32_t i = 0; i < m->reports.count && !RONDO_FAULT(REPORT_ONCE); i++)
    m->reports.items[i].sent_to = NOBODY;
}

// Removes reports that `is_over` holds for.
static void reports_filter(struct rondo_membership *m,
                           bool (*is_over)(const struct rondo_membership *m,
                                           const struct rondo_report *r, uint32_t arg),
                           uint32_t arg) {
  uint32_t kept = 0;
  uint32_t sent = 0;
  for (uint32_t i = 0; i < m->reports.count; i++) {
    if (is_over(m, &m->reports.items[i], arg))
      continue;
    sent += i < m->reports_sent;
    m->reports.items[kept++] = m->reports.items[i];
  }
  if (kept == m->reports.count)
    return;
  m->reports.count = kept;
  m->reports_sent = sent;
  if (!kept) {
    free(m->reports.items);
    free(m->reported);
    memset(&m->reports, 0, sizeof m->reports);
    m->reported = NULL;
  }
  reports_find_due(m);
}

// Notes of each process whether a report removes it.
static void reports_mark(struct rondo_membership *m) {
  if (m->reported || m->reports.count < FEW)
    return;
  m->reported = calloc(m->epoch->roster->process_count, 1);
  for (uint32_t i = 0; i < m->reports.count && m->reported; i++)
    if (m->reports.items[i].item.kind != RONDO_REPORT_RANK &&
        rondo_report_removes(&m->reports.items[i]))
      m->reported[m->reports.items[i].item.process] = 1;
}

static bool kind_is_fleeting(uint8_t kind) {
  return kind == RONDO_REPORT_SILENT || kind == RONDO_REPORT_BLOCKED;
}

// The report that says the same as the item, or null.
static struct rondo_report *reports_find(struct rondo_membership *m,
                                         const struct rondo_report_item *item) {
  bool is_fleeting = kind_is_fleeting(item->kind);
  if (m->reported && !is_fleeting && item->kind != RONDO_REPORT_RANK && !m->reported[item->process])
    return NULL;
  for (uint32_t i = 0; i < m->reports.count; i++) {
    struct rondo_report *r = &m->reports.items[i];
    if (r->item.process != item->process ||
        (r->item.kind == RONDO_REPORT_RANK) != (item->kind == RONDO_REPORT_RANK))
      continue;
    // One reason to remove a process is enough. Each observer has its own say.
    if (!is_fleeting && rondo_report_removes(r))
      return r;
    if (is_fleeting && r->item.kind == item->kind && !r->is_judged &&
        (item->kind == RONDO_REPORT_BLOCKED || r->item.by == item->by))
      return r;
  }
  return NULL;
}

static void reports_add(struct rondo_membership *m, const struct rondo_report_item *item,
                        bool is_judged) {
  bool is_fleeting = kind_is_fleeting(item->kind) && !is_judged;
  if (!RONDO_ARRAY_GROW(m->reports))
    return;
  struct rondo_report *r = &m->reports.items[m->reports.count++];
  *r = (struct rondo_report){.item = *item, .sent_to = NOBODY, .is_judged = is_judged};
  r->due_ns = m->now_ns + (is_fleeting ? 2 * m->period_ns : RONDO_MEMBERSHIP_WINDOW_NS);
  uint64_t *due_ns = is_fleeting ? &m->expire_ns : &m->report_due_ns;
  if (r->due_ns < *due_ns)
    *due_ns = r->due_ns;
  if (m->reported && !is_fleeting && item->kind != RONDO_REPORT_RANK)
    m->reported[item->process] = 1;
  reports_mark(m);
}

void rondo_membership_report(struct rondo_membership *m, const struct rondo_report_item *item) {
  bool is_rank = item->kind == RONDO_REPORT_RANK;
  if (is_rank ? item->process >= m->epoch->roster->rank_count
              : !rondo_epoch_is_member(m->epoch, item->process))
    return;
  if (item->kind == RONDO_REPORT_DIED)
    rondo_membership_believe(m, item->process, true, false);
  struct rondo_report *r = reports_find(m, item);
  if (!r) {
    reports_add(m, item, false);
  } else if (kind_is_fleeting(item->kind)) {
    if (m->now_ns + m->period_ns >= r->due_ns) {
      r->sent_to = NOBODY; // once in a period
      r->due_ns = m->now_ns + 2 * m->period_ns;
      m->reports_sent = 0;
      reports_find_due(m);
    }
  }
}

void rondo_membership_report_simple(struct rondo_membership *m, uint8_t kind, uint32_t process,
                                    const char *text) {
  struct rondo_report_item item = {.kind = kind, .process = process, .by = m->self};
  if (!m->epoch)
    return;
  for (size_t i = 0; text && text[i] && i < sizeof item.text - 1; i++)
    item.text[i] = (unsigned char)text[i] < ' ' || text[i] == 127 ? ' ' : text[i];
  rondo_membership_report(m, &item);
}

void rondo_membership_report_judged(struct rondo_membership *m, uint32_t process, uint8_t state) {
  static const char *const texts[] = {
      [RONDO_INSPECTED_NOT] = "does not answer",
      [RONDO_INSPECTED_RUNS] = "hangs: it runs, but does not answer",
      [RONDO_INSPECTED_STOPPED] = "is stopped by a signal or a debugger",
      [RONDO_INSPECTED_DEAD] = "has ended",
  };
  struct rondo_report_item item = {
      .kind = RONDO_REPORT_SILENT, .state = state, .process = process, .by = m->self};
  (void)snprintf(item.text, sizeof item.text, "%s", texts[state]);
  rondo_membership_report_drop(m, process);
  reports_add(m, &item, true);
}

void rondo_membership_on_report(struct rondo_membership *m, uint32_t from,
                                const struct rondo_membership_message *message) {
  struct rondo_wire_reader body = message->body;
  (void)from;
  for (uint32_t i = 0; i < message->count; i++) {
    struct rondo_report_item item;
    rondo_membership_report_next(&body, &item);
    if (item.by >= m->epoch->roster->process_count ||
        (item.kind == RONDO_REPORT_LEFT && item.by != item.process)) {
      m->counters.refused++;
      return;
    }
    rondo_membership_report(m, &item);
  }
}

// Sends the reports from `first` on that go to one process.
static void reports_send(struct rondo_membership *m, uint32_t first, uint32_t to) {
  struct rondo_report_item *items = malloc((m->reports.count - first) * sizeof *items);
  uint32_t count = 0;
  for (uint32_t i = first; i < m->reports.count && items; i++) {
    struct rondo_report *r = &m->reports.items[i];
    if (r->sent_to != NOBODY || rondo_membership_route(m, r->item.process) != to)
      continue;
    r->sent_to = to;
    items[count++] = r->item;
  }
  for (uint32_t sent = 0; sent < count;) {
    uint32_t part = count - sent;
    struct rondo_shared_bytes *bytes =
        rondo_membership_report_encode(m->epoch->number, items + sent, &part);
    rondo_membership_send(m, to, bytes);
    if (!part)
      break;
    sent += part;
  }
  free(items);
}

void rondo_membership_reports_flush(struct rondo_membership *m) {
  uint32_t count = m->reports.count;
  for (uint32_t i = m->reports_sent; i < count && i < m->reports.count; i++) {
    struct rondo_report *r = &m->reports.items[i];
    if (r->sent_to != NOBODY)
      continue;
    uint32_t to = rondo_membership_route(m, r->item.process);
    if (to != NOBODY) {
      reports_send(m, i, to);
      continue;
    }
    r->sent_to = m->self;
    struct rondo_report_item item = r->item;
    if (kind_is_fleeting(item.kind) && !r->is_judged)
      rondo_membership_judge(m, &item, item.kind == RONDO_REPORT_SILENT ? item.by : NOBODY);
  }
  m->reports_sent = count < m->reports.count ? count : m->reports.count;
}

void rondo_membership_reports_again(struct rondo_membership *m, uint32_t to) {
  for (uint32_t i = 0; i < m->reports.count; i++)
    if (m->reports.items[i].sent_to == to) {
      m->reports.items[i].sent_to = NOBODY;
      m->reports_sent = 0;
    }
}

static bool report_is_settled(const struct rondo_membership *m, const struct rondo_report *r,
                              uint32_t arg) {
  (void)arg;
  return r->item.kind != RONDO_REPORT_RANK && !rondo_epoch_is_member(m->epoch, r->item.process);
}

void rondo_membership_reports_settle(struct rondo_membership *m) {
  reports_filter(m, report_is_settled, 0);
  reports_rewind(m);
}

static bool report_is_silent(const struct rondo_membership *m, const struct rondo_report *r,
                             uint32_t process) {
  return r->item.kind == RONDO_REPORT_SILENT && r->item.process == process &&
         (r->item.by == m->self || r->is_judged);
}

void rondo_membership_report_drop(struct rondo_membership *m, uint32_t process) {
  if (m->reports.count)
    reports_filter(m, report_is_silent, process);
}

static bool report_is_rank(const struct rondo_membership *m, const struct rondo_report *r,
                           uint32_t rank) {
  (void)m;
  return r->item.kind == RONDO_REPORT_RANK && r->item.process == rank;
}

void rondo_membership_reports_drop_ranks(struct rondo_membership *m,
                                         const struct rondo_shared_bytes *removals) {
  struct rondo_removal r;
  uint32_t at = 0;
  while (m->reports.count && rondo_removal_next(removals, &at, &r) == 1)
    for (uint32_t i = 0; r.reason == RONDO_REMOVED_RANK && i < r.count; i++)
      reports_filter(m, report_is_rank, r.first + i);
}

static bool report_is_expired(const struct rondo_membership *m, const struct rondo_report *r,
                              uint32_t arg) {
  (void)arg;
  return !rondo_report_removes(r) && m->now_ns >= r->due_ns;
}

void rondo_membership_reports_tick(struct rondo_membership *m) {
  if (m->now_ns >= m->expire_ns) {
    reports_filter(m, report_is_expired, 0);
    reports_find_due(m);
  }
  if (!m->blocked.count || m->now_ns < m->blocked_ns)
    return;
  m->blocked_ns = m->now_ns + m->period_ns;
  for (uint32_t i = 0; i < m->blocked.count; i++)
    rondo_membership_report_simple(m, RONDO_REPORT_BLOCKED, m->blocked.items[i], "");
}

uint64_t rondo_membership_reports_due(const struct rondo_membership *m) {
  uint64_t due_ns = m->expire_ns;
  if (m->blocked.count && m->blocked_ns < due_ns)
    due_ns = m->blocked_ns;
  return due_ns;
}
