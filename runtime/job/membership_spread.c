// The roster and the epochs go down the tree; acknowledgements come up.
#include "base/explore.h"
#include "runtime/job/epoch_log.h"
#include "runtime/job/membership_state.h"

// --------------------------------------------------------------------- roster ---

void rondo_membership_assembly_free(struct rondo_membership *m) {
  if (!m->assembly)
    return;
  rondo_shared_bytes_put(m->assembly->bytes);
  free(m->assembly->parts);
  free(m->assembly);
  m->assembly = NULL;
}

static bool assembly_begin(struct rondo_membership *m,
                           const struct rondo_membership_message *message) {
  rondo_membership_assembly_free(m);
  struct rondo_assembly *a = calloc(1, sizeof *a);
  m->assembly = a;
  if (!a)
    return false;
  a->digest = message->digest;
  a->count = message->count;
  a->bytes = rondo_shared_bytes_create(NULL, message->size);
  a->parts = calloc(message->count, 1);
  if (a->bytes && a->parts)
    return true;
  rondo_membership_assembly_free(m);
  return false;
}

// The roster of that digest if a simulation has it already.
static struct rondo_roster *membership_find_roster(struct rondo_membership *m, uint64_t digest) {
  struct rondo_roster *roster = m->pool ? m->pool->roster : NULL;
  return roster && roster->digest == digest ? rondo_roster_get(roster) : NULL;
}

// Adds a part. Returns the roster when it is whole, or null.
static struct rondo_roster *assembly_add(struct rondo_membership *m,
                                         const struct rondo_membership_message *message) {
  struct rondo_assembly *a = m->assembly;
  if ((!a || a->digest != message->digest || a->bytes->size != message->size) &&
      !assembly_begin(m, message))
    return NULL;
  a = m->assembly;
  if (a->parts[message->index])
    return NULL;
  a->parts[message->index] = 1;
  memcpy(a->bytes->bytes + (size_t)message->index * RONDO_MEMBERSHIP_PART_BYTES,
         message->body.bytes, message->body.size);
  if (++a->have < a->count)
    return NULL;
  struct rondo_roster *roster = rondo_roster_decode(a->bytes);
  if (!roster || roster->digest != message->digest) {
    m->counters.refused++;
    rondo_roster_put(roster);
    roster = NULL;
  }
  rondo_membership_assembly_free(m);
  return roster;
}

static void membership_send_roster(struct rondo_membership *m, const uint32_t *to, uint32_t count) {
  struct rondo_roster *roster = m->epoch->roster;
  uint32_t parts = rondo_membership_roster_parts(roster->bytes->size);
  for (uint32_t part = 0; part < parts && count; part++) {
    struct rondo_shared_bytes *bytes = rondo_membership_roster_encode(roster, part);
    for (uint32_t i = 0; i < count; i++)
      rondo_membership_send(m, to[i], rondo_shared_bytes_get(bytes));
    rondo_shared_bytes_put(bytes);
  }
}

void rondo_membership_adopt_roster(struct rondo_membership *m, struct rondo_roster *roster) {
  uint32_t children[RONDO_EPOCH_CHILDREN];
  uint32_t self = m->first_rank < roster->rank_count ? roster->process_of[m->first_rank] : NOBODY;
  if (self == NOBODY) {
    rondo_roster_put(roster);
    rondo_membership_end(m, RONDO_MEMBERSHIP_FAILED, "the roster is without this process");
    return;
  }
  if (m->pool && !m->pool->roster)
    m->pool->roster = rondo_roster_get(roster);
  m->epoch = rondo_epoch_pool_begin(m->pool, roster);
  rondo_roster_put(roster);
  if (!m->epoch) {
    rondo_membership_end(m, RONDO_MEMBERSHIP_FAILED, "no memory for the roster");
    return;
  }
  m->self = self;
  m->phase = RONDO_MEMBERSHIP_RUNS;
  m->spread_ns = m->roster_ns = m->now_ns;
  m->due_ns = UINT64_MAX;
  rondo_shared_bytes_put(m->join);
  m->join = NULL;
  uint32_t count = rondo_epoch_children(m->epoch, self, children);
  membership_send_roster(m, children, count);
  if (m->keeps_log)
    (void)rondo_membership_append(m, rondo_epoch_log_roster(m->job, m->epoch->roster));
  rondo_membership_watch_settle(m);
  if (m->fetch_from != NOBODY && m->fetch_from != m->self) {
    m->fetch_epoch = 0;
    rondo_membership_fetch(m, m->fetch_from, 1);
  }
  if (m->is_leaving)
    rondo_membership_report_simple(m, RONDO_REPORT_LEFT, m->self, "");
}

void rondo_membership_on_roster(struct rondo_membership *m, uint32_t from,
                                const struct rondo_membership_message *message) {
  if (m->epoch)
    return;
  struct rondo_roster *roster = membership_find_roster(m, message->digest);
  if (!roster)
    roster = assembly_add(m, message);
  if (!roster)
    return;
  rondo_membership_adopt_roster(m, roster);
  // The root has seen a process go that may have had the roster alone: see whether the coordinator
  // is there, as nobody else might.
  if (from == RONDO_MEMBERSHIP_ROOT && m->phase == RONDO_MEMBERSHIP_RUNS &&
      m->epoch->order[0] != m->self)
    rondo_membership_fetch(m, m->epoch->order[0], 1);
}

// -------------------------------------------------------------- asking for epochs ---

void rondo_membership_fetch(struct rondo_membership *m, uint32_t from, uint32_t epoch) {
  if (m->fetch_from == from && m->fetch_epoch == epoch && m->now_ns < m->fetch_ns + m->period_ns)
    return;
  m->fetch_from = from;
  m->fetch_epoch = epoch;
  m->fetch_ns = m->now_ns;
  rondo_membership_tell(
      m, from,
      (struct rondo_membership_message){.type = RONDO_MEMBERSHIP_FETCH, .flag = m->epoch != NULL});
}

void rondo_membership_catch_up(struct rondo_membership *m) {
  uint32_t parent = rondo_epoch_parent(m->epoch, m->self);
  m->fetch_epoch = 0;
  for (uint32_t i = 0; i < rondo_epoch_keeper_count(m->epoch); i++)
    if (m->epoch->order[i] != m->self)
      rondo_membership_fetch(m, m->epoch->order[i], m->epoch->number + 1);
  if (parent != NOBODY)
    rondo_membership_fetch(m, parent, m->epoch->number + 1);
}

void rondo_membership_send_epochs(struct rondo_membership *m, uint32_t to, uint32_t first) {
  rondo_membership_send(m, to, rondo_membership_epoch_encode(m->epoch, first ? first : 1));
}

void rondo_membership_on_fetch(struct rondo_membership *m, uint32_t from,
                               const struct rondo_membership_message *message) {
  if (!message->flag)
    membership_send_roster(m, &from, 1);
  if (message->epoch < m->epoch->number)
    rondo_membership_send_epochs(m, from, message->epoch + 1);
  rondo_membership_vote_again(m, from);
}

// -------------------------------------------------------------------- spreading ---

static uint8_t child_bit(uint32_t i) { return (uint8_t)(1u << i); }

// Acknowledges the epoch if all below have it.
static void membership_try_ack(struct rondo_membership *m) {
  uint32_t children[RONDO_EPOCH_CHILDREN];
  uint32_t count = rondo_epoch_children(m->epoch, m->self, children);
  if (m->has_acked || m->acked != (uint8_t)((1u << count) - 1))
    return;
  m->has_acked = true;
  uint32_t parent = rondo_epoch_parent(m->epoch, m->self);
  if (parent != NOBODY && m->epoch->number)
    rondo_membership_tell(m, parent,
                          (struct rondo_membership_message){.type = RONDO_MEMBERSHIP_ACK});
}

void rondo_membership_on_ack(struct rondo_membership *m, uint32_t from,
                             const struct rondo_membership_message *message) {
  uint32_t children[RONDO_EPOCH_CHILDREN];
  uint32_t count = rondo_epoch_children(m->epoch, m->self, children);
  if (message->epoch != m->epoch->number)
    return;
  for (uint32_t i = 0; i < count; i++)
    if (children[i] == from)
      m->acked |= child_bit(i);
  membership_try_ack(m);
}

// Sends the epochs from `first` on to the children, to a new coordinator, and to children of before
// that leave.
static void membership_pass_on(struct rondo_membership *m, const struct rondo_epoch *before,
                               uint32_t first) {
  uint32_t to[2 * RONDO_EPOCH_CHILDREN + 1];
  uint32_t count = 0;
  if (rondo_epoch_is_member(m->epoch, m->self))
    count = rondo_epoch_children(m->epoch, m->self, to);
  if (m->lead && m->epoch->live_count && m->epoch->order[0] != m->self)
    to[count++] = m->epoch->order[0];
  if (rondo_epoch_is_member(before, m->self)) {
    uint32_t children[RONDO_EPOCH_CHILDREN];
    uint32_t olds = rondo_epoch_children(before, m->self, children);
    for (uint32_t i = 0; i < olds; i++)
      if (!rondo_epoch_is_member(m->epoch, children[i]) &&
          !rondo_membership_is_lost(m, children[i]))
        to[count++] = children[i];
  }
  struct rondo_shared_bytes *bytes = count ? rondo_membership_epoch_encode(m->epoch, first) : NULL;
  for (uint32_t i = 0; i < count; i++)
    rondo_membership_send(m, to[i], rondo_shared_bytes_get(bytes));
  rondo_shared_bytes_put(bytes);
}

// Who leads tells those that the change has removed and that may live. They may learn it only from
// this: when they go on, all others may have left the job, which looks as if all had ended.
static void membership_tell_removed(struct rondo_membership *m, uint32_t first) {
  struct rondo_removal r;
  uint32_t at = 0;
  while (m->lead && rondo_removal_next(m->epoch->change->removals, &at, &r) == 1)
    for (uint32_t i = 0; i < r.count; i++)
      if ((r.reason == RONDO_REMOVED_SILENT || r.reason == RONDO_REMOVED_BROKE) &&
          !rondo_membership_is_proven(m, r.first + i))
        rondo_membership_send_epochs(m, r.first + i, first);
}

// Makes `next` the epoch here, tells the shell, and keeps the record.
static void membership_enter(struct rondo_membership *m, struct rondo_epoch *next) {
  rondo_epoch_put(m->epoch);
  m->epoch = next;
  if (m->keeps_log)
    (void)rondo_membership_append(m, rondo_epoch_log_change(m->job, next->change));
  rondo_membership_reports_drop_ranks(m, next->change->removals);
  rondo_membership_act(m, RONDO_MEMBERSHIP_OPENED, NOBODY,
                       rondo_shared_bytes_get(next->change->removals));
}

// After one or more epochs were entered.
static void membership_settle(struct rondo_membership *m, struct rondo_epoch *before) {
  m->acked = 0;
  m->has_acked = false;
  m->spread_ns = m->now_ns;
  membership_pass_on(m, before, before->number + 1);
  membership_tell_removed(m, before->number + 1);
  rondo_membership_vote_reset(m);
  if (!rondo_epoch_is_member(m->epoch, m->self)) {
    if (m->is_leaving)
      rondo_membership_end(m, RONDO_MEMBERSHIP_LEFT, "");
    else
      rondo_membership_end(m, RONDO_MEMBERSHIP_EVICTED, "the other processes go on without it");
    return;
  }
  rondo_membership_watch_settle(m);
  rondo_membership_reports_settle(m);
  membership_try_ack(m);
}

void rondo_membership_open(struct rondo_membership *m, struct rondo_epoch *next) {
  struct rondo_epoch *before = rondo_epoch_get(m->epoch);
  membership_enter(m, next);
  membership_settle(m, before);
  rondo_epoch_put(before);
}

// Enters the epochs of a message that are news. False if one is malformed.
static bool membership_enter_all(struct rondo_membership *m,
                                 const struct rondo_membership_message *message) {
  struct rondo_wire_reader body = message->body;
  for (uint32_t i = 0; i < message->count; i++) {
    struct rondo_shared_bytes *change = rondo_membership_change_next(&body);
    struct rondo_epoch *next = NULL;
    if (change && message->index + i == m->epoch->number + 1)
      next = rondo_epoch_pool_next(m->pool, m->epoch, change);
    bool is_news = message->index + i > m->epoch->number;
    rondo_shared_bytes_put(change);
    if (next && i + 1 == message->count && next->digest != message->digest) {
      rondo_epoch_put(next);
      return false;
    }
    if (next)
      membership_enter(m, next);
    else if (is_news)
      return false;
  }
  return true;
}

void rondo_membership_on_epoch(struct rondo_membership *m, uint32_t from,
                               const struct rondo_membership_message *message) {
  uint32_t last = message->index + message->count - 1;
  if (message->index > m->epoch->number + 1) {
    m->fetch_from = NOBODY; // ask, also if this process was asked before
    rondo_membership_fetch(m, from, last);
    return;
  }
  if (last <= m->epoch->number) {
    m->counters.old++;
    // The parent may have missed the acknowledgement.
    if (last == m->epoch->number && m->has_acked && from == rondo_epoch_parent(m->epoch, m->self))
      rondo_membership_tell(m, from,
                            (struct rondo_membership_message){.type = RONDO_MEMBERSHIP_ACK});
    return;
  }
  struct rondo_epoch *before = rondo_epoch_get(m->epoch);
  if (!membership_enter_all(m, message))
    m->counters.refused++;
  if (m->epoch != before)
    membership_settle(m, before);
  rondo_epoch_put(before);
  if (m->phase == RONDO_MEMBERSHIP_RUNS && message->epoch > m->epoch->number)
    rondo_membership_fetch(m, from, message->epoch);
}

void rondo_membership_spread_again(struct rondo_membership *m, uint32_t to) {
  uint32_t children[RONDO_EPOCH_CHILDREN];
  uint32_t count = rondo_epoch_children(m->epoch, m->self, children);
  for (uint32_t i = 0; i < count; i++) {
    if (children[i] != to)
      continue;
    if (m->epoch->number <= 1 && !(m->acked & child_bit(i)))
      membership_send_roster(m, &to, 1); // it may not have come
    // Also if it has acknowledged the epoch: it may have come back from a log without it.
    if (m->epoch->number)
      rondo_membership_send_epochs(m, to, m->epoch->number);
  }
  if (to == rondo_epoch_parent(m->epoch, m->self) && m->has_acked && m->epoch->number)
    rondo_membership_tell(m, to, (struct rondo_membership_message){.type = RONDO_MEMBERSHIP_ACK});
  if (m->fetch_from == to && m->fetch_epoch > m->epoch->number) {
    m->fetch_from = NOBODY;
    rondo_membership_fetch(m, to, m->fetch_epoch);
  }
}
