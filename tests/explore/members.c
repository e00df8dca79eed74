#include "tests/explore/members.h"

#include "base/digest.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/job/epoch_log.h"

#define NOBODY RONDO_ROSTER_NOBODY
#define NUMBER_BYTES 8u
#define MOST_BUSY 20u   // ticks of one process at one time
#define MOST_ALONE 512u // processes; more share their rosters and epochs

static const uint8_t job[16] = "explored job";

bool members_fail(struct members *w, const char *format, ...) {
  va_list args;
  if (w->finding[0])
    return false;
  va_start(args, format);
  int size = snprintf(w->finding, sizeof w->finding,
                      "at %llu ms: ", (unsigned long long)(control_net_now(w->net) / MEMBERS_MS));
  (void)vsnprintf(w->finding + size, sizeof w->finding - (size_t)size, format, args);
  va_end(args);
  return false;
}

// ------------------------------------------------------------------ invariants ---

static void *members_grow(void *items, uint32_t count, uint32_t *capacity, size_t bytes) {
  if (count < *capacity)
    return items;
  *capacity = *capacity ? 2 * *capacity : 16;
  items = realloc(items, *capacity * bytes);
  if (!items)
    abort();
  return items;
}

// True if a process that still counts has opened the epoch with that digest.
static bool members_hold(const struct members *w, uint32_t number, uint64_t digest) {
  for (uint32_t i = 0; i < w->cfg.count; i++) {
    const struct members_node *n = &w->nodes[i];
    if (n->number < number || n->end != MEMBERS_RUNS || !n->core)
      continue;
    const struct rondo_epoch *e = rondo_membership_epoch(n->core);
    const struct rondo_epoch_change *c = e ? e->change : NULL;
    while (c && c->number > number)
      c = c->before;
    if (c && c->number == number && c->digest == digest)
      return true;
  }
  return false;
}

static void members_trace_opened(const struct members *w, uint32_t node,
                                 const struct rondo_epoch *e) {
  struct rondo_removal r;
  uint32_t at = 0;
  printf("%10.3f ms: %u opens epoch %u, %u members", (double)control_net_now(w->net) / 1e6, node,
         e->number, e->live_count);
  while (rondo_removal_next(e->change->removals, &at, &r) == 1)
    printf("; %u-%u: %u %s", r.first, r.first + r.count - 1, r.reason, r.text);
  printf("\n");
}

// A process that has left in order is not taken for dead.
static void members_check_removals(struct members *w, const struct rondo_epoch *e) {
  struct rondo_removal r;
  uint32_t at = 0;
  while (!w->may_forget && rondo_removal_next(e->change->removals, &at, &r) == 1)
    for (uint32_t i = 0; i < r.count && r.reason == RONDO_REMOVED_DIED; i++)
      if (w->nodes[w->node_of[r.first + i]].end == MEMBERS_LEFT)
        members_fail(w, "process %u has left, and is taken for dead", r.first + i);
}

static void members_on_opened(struct members *w, uint32_t node, const struct rondo_epoch *e) {
  struct members_node *n = &w->nodes[node];
  uint64_t order = w->cfg.count > MOST_ALONE
                       ? 0
                       : rondo_digest_bytes(0, e->order, e->live_count * sizeof *e->order);
  if (e->number <= n->number)
    members_fail(w, "process %u opens epoch %u after %u", node, e->number, n->number);
  n->number = e->number;
  n->digest = e->digest;
  while (w->opened_count <= e->number) {
    w->opened = members_grow(w->opened, w->opened_count, &w->opened_capacity, sizeof *w->opened);
    memset(&w->opened[w->opened_count++], 0, sizeof *w->opened);
  }
  struct members_opened *o = &w->opened[e->number];
  if (o->digest && o->digest != e->digest &&
      (w->is_strict || members_hold(w, e->number, o->digest)))
    members_fail(w, "process %u has another epoch %u than others", node, e->number);
  if (o->digest == e->digest && o->order != order)
    members_fail(w, "process %u has another tree in epoch %u than others", node, e->number);
  if (!o->digest)
    o->first_ns = control_net_now(w->net);
  o->digest = e->digest;
  o->order = order;
  o->last_ns = control_net_now(w->net);
  o->live_count = e->live_count;
  members_check_removals(w, e);
  if (w->cfg.trace)
    members_trace_opened(w, node, e);
}

// -------------------------------------------------------------------- processes ---

// The root has made the roster: the processes have numbers now.
static void members_number(struct members *w, struct rondo_roster *roster) {
  w->roster = rondo_roster_get(roster);
  for (uint32_t i = 0; i < w->cfg.count; i++)
    w->process_of[i] = NOBODY;
  for (uint32_t p = 0; p < roster->process_count; p++) {
    struct rondo_roster_entry entry;
    uint32_t node;
    rondo_roster_entry_get(roster, p, &entry);
    memcpy(&node, entry.bytes, sizeof node);
    w->node_of[p] = node;
    w->process_of[node] = p;
  }
}

static void node_step(struct members *w, uint32_t node, struct rondo_membership_event event);

static void node_end(struct members *w, uint32_t node, uint8_t end) {
  struct members_node *n = &w->nodes[node];
  n->end = end;
  if (w->cfg.trace)
    printf("%10.3f ms: %u ends: %s\n", (double)control_net_now(w->net) / 1e6, node,
           end == MEMBERS_LEFT      ? "left"
           : end == MEMBERS_EVICTED ? "evicted"
                                    : "no majority");
  // What it has sent goes out; then the process ends.
  control_net_wake(w->net, node, control_net_now(w->net) + 2 * w->cfg.max_delay_ns);
}

static struct rondo_shared_bytes *number_prefix(uint64_t number, const void *bytes, uint32_t size) {
  struct rondo_shared_bytes *shared = rondo_shared_bytes_create(NULL, NUMBER_BYTES + size);
  if (!shared)
    abort();
  memcpy(shared->bytes, &number, NUMBER_BYTES);
  memcpy(shared->bytes + NUMBER_BYTES, bytes, size);
  return shared;
}

static void node_inspect(struct members *w, uint32_t node, uint32_t process) {
  uint32_t other = w->node_of[process];
  struct rondo_membership_event event = {.type = RONDO_MEMBERSHIP_INSPECTED, .process = process};
  if (w->nodes[other].is_gone)
    return; // nobody is left there to look
  event.state = !control_net_is_alive(w->net, other) ? RONDO_INSPECTED_DEAD
                : w->nodes[other].is_stopped         ? RONDO_INSPECTED_STOPPED
                                                     : RONDO_INSPECTED_RUNS;
  node_step(w, node, event);
}

static void root_finish(struct members *w) {
  struct rondo_shared_bytes *bytes = rondo_gather_finish(w->gather, control_net_now(w->net));
  if (!bytes)
    return;
  struct rondo_roster *roster = rondo_roster_decode(bytes);
  members_number(w, roster);
  uint32_t first = w->node_of[0];
  if (first == w->cfg.root) {
    struct rondo_membership_event event = {
        .type = RONDO_MEMBERSHIP_BEGIN, .bytes = bytes->bytes, .size = bytes->size};
    node_step(w, first, event);
  } else {
    for (uint32_t i = 0; i < rondo_membership_roster_parts(bytes->size); i++)
      control_net_send(w->net, w->cfg.root, first, rondo_membership_roster_encode(roster, i));
  }
  rondo_roster_put(roster);
  rondo_shared_bytes_put(bytes);
}

static void root_deliver(struct members *w, uint32_t from, struct rondo_shared_bytes *message) {
  struct rondo_shared_bytes *reply =
      rondo_gather_receive(w->gather, message->bytes, message->size, control_net_now(w->net));
  if (reply && from != w->cfg.root)
    control_net_send(w->net, w->cfg.root, from, reply);
  else
    rondo_shared_bytes_put(reply);
  root_finish(w);
}

static void node_act(struct members *w, uint32_t node, struct rondo_membership_action *a) {
  static const uint8_t ends[] = {[RONDO_MEMBERSHIP_LEFT] = MEMBERS_LEFT,
                                 [RONDO_MEMBERSHIP_EVICTED] = MEMBERS_EVICTED,
                                 [RONDO_MEMBERSHIP_NO_MAJORITY] = MEMBERS_NO_MAJORITY,
                                 [RONDO_MEMBERSHIP_FAILED] = MEMBERS_FAILED};
  switch (a->type) {
  case RONDO_MEMBERSHIP_SEND:
    if (a->process == RONDO_MEMBERSHIP_ROOT && node == w->cfg.root) {
      root_deliver(w, node, a->bytes);
      break;
    }
    control_net_send(w->net, node,
                     a->process == RONDO_MEMBERSHIP_ROOT ? w->cfg.root : w->node_of[a->process],
                     a->bytes);
    a->bytes = NULL;
    break;
  case RONDO_MEMBERSHIP_OPENED:
    members_on_opened(w, node, a->epoch);
    break;
  case RONDO_MEMBERSHIP_INSPECT:
    node_inspect(w, node, a->process);
    break;
  case RONDO_MEMBERSHIP_APPEND:
    control_net_send(w->net, node, w->cfg.count + node,
                     number_prefix(a->number | w->nodes[node].incarnation << 32, a->bytes->bytes,
                                   a->bytes->size));
    break;
  case RONDO_MEMBERSHIP_NOTICE:
    w->nodes[node].notices++;
    break;
  default:
    node_end(w, node, ends[a->type]);
  }
}

// True if the event is a message that says what holds in an older epoch only.
static bool event_is_old(const struct rondo_membership *core,
                         const struct rondo_membership_event *event) {
  const struct rondo_epoch *e = rondo_membership_epoch(core);
  struct rondo_membership_message message;
  if (event->type != RONDO_MEMBERSHIP_RECEIVE || !e || event->size < 5)
    return false;
  uint8_t type = *(const uint8_t *)event->bytes;
  if (type != RONDO_MEMBERSHIP_ACK && type != RONDO_MEMBERSHIP_REPORT &&
      type != RONDO_MEMBERSHIP_VERDICT && type != RONDO_MEMBERSHIP_WATCH)
    return false;
  return rondo_membership_message_decode(event->bytes, event->size, &message) &&
         message.epoch < e->number;
}

// The root in that process has a time of its own.
static void node_wake(struct members *w, uint32_t node) {
  uint64_t due_ns = rondo_membership_due(w->nodes[node].core);
  if (node == w->cfg.root && rondo_gather_due(w->gather) < due_ns)
    due_ns = rondo_gather_due(w->gather);
  control_net_wake(w->net, node, due_ns);
}

static void node_step(struct members *w, uint32_t node, struct rondo_membership_event event) {
  struct members_node *n = &w->nodes[node];
  // A step within a step: the actions of the first are not done yet.
  struct rondo_membership_actions actions = w->actions;
  if (!n->core || n->end != MEMBERS_RUNS)
    return;
  memset(&w->actions, 0, sizeof w->actions);
  event.now_ns = control_net_now(w->net);
  bool is_old = event_is_old(n->core, &event);
  uint64_t old = rondo_membership_counters(n->core)->old;
  rondo_membership_step(n->core, &event, &actions);
  if (is_old && rondo_membership_counters(n->core)->old == old)
    members_fail(w, "process %u reads a message of an older epoch", node);
  for (uint32_t i = 0; i < actions.count; i++) {
    struct rondo_membership_action a = actions.items[i];
    actions.items[i].bytes = NULL;
    actions.items[i].epoch = NULL;
    node_act(w, node, &a);
    rondo_shared_bytes_put(a.bytes);
    rondo_epoch_put(a.epoch);
  }
  actions.count = 0;
  free(w->actions.items);
  w->actions = actions;
  if (n->end != MEMBERS_RUNS || w->finding[0])
    return;
  bool is_busy = event.type == RONDO_MEMBERSHIP_TICK && n->ticked_ns == event.now_ns;
  n->busy_ticks = is_busy ? n->busy_ticks + 1 : 0;
  n->ticked_ns = event.now_ns;
  if (n->busy_ticks > MOST_BUSY)
    members_fail(w, "process %u is due again and again", node);
  else
    node_wake(w, node);
}

// ------------------------------------------------------------------- the network ---

static void disk_deliver(struct members *w, uint32_t node, uint32_t from,
                         struct rondo_shared_bytes *message) {
  struct members_node *n = &w->nodes[from];
  uint64_t number;
  memcpy(&number, message->bytes, NUMBER_BYTES);
  uint32_t size = message->size - NUMBER_BYTES;
  if (number >> 32 != n->incarnation)
    return; // of a process that has ended
  if (!n->is_disk_full) {
    n->log = realloc(n->log, n->log_size + size);
    if (!n->log)
      abort();
    memcpy(n->log + n->log_size, message->bytes + NUMBER_BYTES, size);
    n->log_size += size;
  }
  uint8_t is_full = n->is_disk_full;
  control_net_send(w->net, node, from, number_prefix(number, &is_full, 1));
}

static void members_deliver(void *arg, uint32_t node, uint32_t from, void *bytes) {
  struct members *w = arg;
  struct rondo_shared_bytes *message = bytes;
  struct rondo_membership_event event = {.type = RONDO_MEMBERSHIP_RECEIVE,
                                         .bytes = message->bytes,
                                         .size = message->size,
                                         .process = RONDO_MEMBERSHIP_ROOT};
  if (node >= w->cfg.count) {
    disk_deliver(w, node, from, message);
  } else if (from >= w->cfg.count) {
    event.type = RONDO_MEMBERSHIP_APPENDED;
    memcpy(&event.number, message->bytes, NUMBER_BYTES);
    event.number &= UINT32_MAX;
    event.text = message->bytes[NUMBER_BYTES] ? "no space left on device" : NULL;
    node_step(w, node, event);
  } else if (message->bytes[0] == RONDO_MEMBERSHIP_JOIN) {
    root_deliver(w, from, message);
  } else {
    if (message->bytes[0] >= RONDO_MEMBERSHIP_ROSTER)
      event.process = w->process_of[from];
    node_step(w, node, event);
  }
  rondo_shared_bytes_put(message);
}

static void members_tick(void *arg, uint32_t node) {
  struct members *w = arg;
  if (node >= w->cfg.count)
    return;
  if (w->nodes[node].end != MEMBERS_RUNS) {
    control_net_crash(w->net, node, CONTROL_NET_ENDS);
    return;
  }
  if (node == w->cfg.root && control_net_now(w->net) >= rondo_gather_due(w->gather))
    root_finish(w);
  node_step(w, node, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_TICK});
}

static void members_cut(void *arg, uint32_t node, uint32_t other, bool is_proven) {
  struct members *w = arg;
  struct rondo_membership_event event = {
      .type = RONDO_MEMBERSHIP_CUT, .process = RONDO_MEMBERSHIP_ROOT, .is_proven = is_proven};
  if (node >= w->cfg.count || other >= w->cfg.count)
    return;
  if (w->roster)
    event.process = w->process_of[other];
  else if (other != w->cfg.root)
    return;
  if (event.process == NOBODY)
    return; // it does not take part
  event.text = is_proven ? "refuses connections" : NULL;
  node_step(w, node, event);
}

static void members_release(void *arg, void *message) {
  (void)arg;
  rondo_shared_bytes_put(message);
}

static const struct control_net_calls calls = {members_deliver, members_tick, members_cut,
                                               members_release};

// ------------------------------------------------------------------------ life ---

static bool node_start(struct members *w, uint32_t node, const void *log, size_t size) {
  struct members_node *n = &w->nodes[node];
  uint32_t blocks = w->cfg.count / w->cfg.machines ? w->cfg.count / w->cfg.machines : 1;
  struct rondo_rank_range range = {node * w->cfg.ranks_each, w->cfg.ranks_each, 1};
  uint8_t entry[RONDO_ROSTER_ENTRY_BYTES] = {0};
  char text[RONDO_MEMBERSHIP_TEXT_BYTES];
  memcpy(entry, &node, sizeof node);
  struct rondo_membership_config cfg = {.join = {.who = ((uint64_t)node << 16) + ++n->incarnation,
                                                 .machine = 1 + node / blocks % w->cfg.machines,
                                                 .rank_count = w->cfg.count * w->cfg.ranks_each,
                                                 .range_count = 1,
                                                 .size = w->cfg.entry_bytes,
                                                 .bytes = entry},
                                        .ranges = &range,
                                        .join_timeout_ns = w->cfg.join_timeout_ns,
                                        .peer_timeout_ns = w->cfg.peer_timeout_ns,
                                        .heartbeat_ns = w->cfg.heartbeat_ns,
                                        .keeps_log = w->cfg.keeps_logs,
                                        .log = log,
                                        .log_size = size,
                                        .pool = w->cfg.count > MOST_ALONE ? &w->pool : NULL};
  memcpy(cfg.job, job, sizeof job);
  n->core = rondo_membership_create(&cfg, control_net_now(w->net), text);
  n->end = MEMBERS_RUNS;
  n->blocked = NOBODY;
  if (!n->core && !text[0])
    abort();
  if (n->core)
    return true;
  n->end = MEMBERS_FAILED;
  return members_fail(w, "process %u: %s", node, text);
}

struct members *members_create(const struct members_config *cfg) {
  struct members *w = calloc(1, sizeof *w);
  struct control_net_config net = {cfg->count * (cfg->keeps_logs ? 2 : 1),
                                   cfg->seed,
                                   cfg->min_delay_ns,
                                   cfg->max_delay_ns,
                                   &calls,
                                   w};
  if (!w)
    abort();
  w->cfg = *cfg;
  w->is_strict = cfg->keeps_logs;
  w->net = control_net_create(&net);
  w->nodes = calloc(cfg->count, sizeof *w->nodes);
  w->process_of = malloc(cfg->count * sizeof *w->process_of);
  w->node_of = malloc(cfg->count * sizeof *w->node_of);
  w->gather = rondo_gather_create(cfg->join_timeout_ns, cfg->keeps_logs);
  if (!w->nodes || !w->process_of || !w->node_of || !w->gather)
    abort();
  for (uint32_t i = 0; i < cfg->count; i++) {
    w->process_of[i] = w->node_of[i] = i;
    (void)node_start(w, i, NULL, 0);
    // All start within a tenth of a second.
    control_net_wake(w->net, i, control_net_random(w->net, 100 * (uint32_t)MEMBERS_MS));
  }
  return w;
}

void members_destroy(struct members *w) {
  for (uint32_t i = 0; i < w->cfg.count; i++) {
    rondo_membership_destroy(w->nodes[i].core);
    free(w->nodes[i].log);
  }
  control_net_destroy(w->net);
  rondo_gather_destroy(w->gather);
  rondo_epoch_pool_fini(&w->pool);
  rondo_roster_put(w->roster);
  rondo_membership_actions_fini(&w->actions);
  free(w->nodes);
  free(w->process_of);
  free(w->node_of);
  free(w->opened);
  free(w);
}

bool members_run(struct members *w, uint64_t for_ns) {
  uint64_t end_ns = control_net_now(w->net) + for_ns;
  while (control_net_now(w->net) < end_ns && !w->finding[0]) {
    uint64_t part_ns = control_net_now(w->net) + 10 * MEMBERS_MS;
    (void)control_net_run(w->net, part_ns < end_ns ? part_ns : end_ns);
  }
  return !w->finding[0];
}

void members_crash(struct members *w, uint32_t node, enum control_net_crash how) {
  struct members_node *n = &w->nodes[node];
  if (!control_net_is_alive(w->net, node))
    return;
  if (w->cfg.trace)
    printf("%10.3f ms: %u %s\n", (double)control_net_now(w->net) / 1e6, node,
           how == CONTROL_NET_ENDS ? "crashes" : "is gone");
  if (n->end == MEMBERS_RUNS)
    n->end = MEMBERS_CRASHED;
  w->may_forget = true;
  n->is_stopped = false;
  n->is_gone = how == CONTROL_NET_GONE;
  control_net_crash(w->net, node, how);
}

bool members_restart(struct members *w, uint32_t node) {
  struct members_node *n = &w->nodes[node];
  rondo_membership_destroy(n->core);
  n->core = NULL;
  n->is_gone = false;
  control_net_restart(w->net, node);
  if (w->cfg.trace)
    printf("%10.3f ms: %u restarts\n", (double)control_net_now(w->net) / 1e6, node);
  struct rondo_epoch_log log;
  char text[RONDO_EPOCH_LOG_TEXT_BYTES];
  // What the shell does: it cuts a torn record off.
  if (n->log_size && rondo_epoch_log_read(n->log, n->log_size, job, &log, text)) {
    n->log_size = log.size;
    rondo_epoch_log_fini(&log);
  }
  if (!node_start(w, node, n->log, n->log_size))
    return false;
  const struct rondo_epoch *e = rondo_membership_epoch(n->core);
  n->number = e ? e->number : 0;
  n->digest = e ? e->digest : 0;
  control_net_wake(w->net, node, control_net_now(w->net));
  return true;
}

void members_stop(struct members *w, uint32_t node) {
  w->nodes[node].is_stopped = true;
  control_net_stop(w->net, node);
  if (w->cfg.trace)
    printf("%10.3f ms: %u stops\n", (double)control_net_now(w->net) / 1e6, node);
}

void members_continue(struct members *w, uint32_t node) {
  w->nodes[node].is_stopped = false;
  control_net_continue(w->net, node);
}

void members_leave(struct members *w, uint32_t node) {
  if (w->cfg.trace)
    printf("%10.3f ms: %u leaves\n", (double)control_net_now(w->net) / 1e6, node);
  node_step(w, node, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_LEAVE});
}

void members_block(struct members *w, uint32_t node, uint32_t on) {
  struct rondo_membership_event event = {.type = RONDO_MEMBERSHIP_BLOCK};
  uint32_t process = on == NOBODY ? 0 : w->process_of[on];
  event.processes = &process;
  event.count = on != NOBODY;
  w->nodes[node].blocked = on;
  node_step(w, node, event);
}

bool members_agree(const struct members *w) {
  const struct rondo_epoch *last = members_last(w);
  uint32_t running = 0;
  for (uint32_t i = 0; i < w->cfg.count; i++) {
    const struct members_node *n = &w->nodes[i];
    if (n->end != MEMBERS_RUNS)
      continue;
    running++;
    if (!last || n->number != last->number || n->digest != last->digest ||
        !rondo_epoch_is_member(last, w->process_of[i]))
      return false;
  }
  return !running || running == last->live_count;
}

uint64_t members_sent(const struct members *w, uint8_t first, uint8_t last) {
  uint64_t sent = 0;
  for (uint32_t i = 0; i < w->cfg.count; i++)
    for (uint8_t type = first; type <= last && w->nodes[i].core; type++)
      sent += rondo_membership_counters(w->nodes[i].core)->sent[type];
  return sent;
}

uint32_t members_running(const struct members *w) {
  uint32_t running = 0;
  for (uint32_t i = 0; i < w->cfg.count; i++)
    running += w->nodes[i].end == MEMBERS_RUNS;
  return running;
}

struct rondo_epoch *members_last(const struct members *w) {
  struct rondo_epoch *last = NULL;
  for (uint32_t i = 0; i < w->cfg.count; i++) {
    struct rondo_epoch *e =
        w->nodes[i].end == MEMBERS_RUNS ? rondo_membership_epoch(w->nodes[i].core) : NULL;
    if (e && (!last || e->number > last->number))
      last = e;
  }
  return last;
}
