// Explores membership: jobs of many processes, with all that goes wrong, by seed.
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/explore.h"
#include "tests/explore/members.h"
#include "tests/explore/random.h"

#define NOBODY RONDO_ROSTER_NOBODY

int rondo_fault_planted;
void rondo_explore_point(const char *name) { (void)name; }
void rondo_explore_point_in_pair(const char *name, uint64_t *pair, uint64_t first,
                                 uint64_t second) {
  (void)name, (void)pair, (void)first, (void)second;
}

static const struct {
  const char *name;
  int fault;
} faults[] = {
    {"minority_opens", RONDO_FAULT_MINORITY_OPENS},
    {"old_epoch_taken", RONDO_FAULT_OLD_EPOCH_TAKEN},
    {"ballot_ignored", RONDO_FAULT_BALLOT_IGNORED},
    {"accepted_forgotten", RONDO_FAULT_ACCEPTED_FORGOTTEN},
    {"record_after_reply", RONDO_FAULT_RECORD_AFTER_REPLY},
    {"removals_unordered", RONDO_FAULT_REMOVALS_UNORDERED},
    {"late_observer_counts", RONDO_FAULT_LATE_OBSERVER_COUNTS},
    {"one_observer", RONDO_FAULT_ONE_OBSERVER},
    {"report_once", RONDO_FAULT_REPORT_ONCE},
};

static bool is_traced;
static char finding[300];

// A job and the chance of its story.
struct story {
  struct members *w;
  struct random random;
  uint64_t silence_ns;
};

static uint32_t story_count(struct random *r, uint32_t least) {
  uint32_t most = random_chance(r, 80) ? 9 : random_chance(r, 90) ? 60 : 300;
  return least + random_below(r, most);
}

static void story_create(struct story *s, uint64_t seed, uint32_t least, bool keeps_logs) {
  s->random.state = seed * 77 + 1;
  struct random *r = &s->random;
  struct members_config cfg = {.count = story_count(r, least),
                               .ranks_each = 1 + random_below(r, 3),
                               .seed = seed,
                               .min_delay_ns = 50000,
                               .max_delay_ns = random_chance(r, 70) ? 2000000 : 20000000,
                               .peer_timeout_ns = 2 * MEMBERS_S,
                               .heartbeat_ns = random_chance(r, 40) ? 500 * MEMBERS_MS : 0,
                               .join_timeout_ns = 30 * MEMBERS_S,
                               .entry_bytes = 4 + random_below(r, 200),
                               .keeps_logs = keeps_logs,
                               .trace = is_traced};
  cfg.machines = random_chance(r, 50) ? 1 : 1 + random_below(r, cfg.count);
  cfg.root = random_chance(r, 70) ? 0 : random_below(r, cfg.count);
  s->silence_ns = 2 * MEMBERS_S;
  s->w = members_create(&cfg);
}

static void story_begin(struct story *s, uint64_t seed, uint32_t least, bool keeps_logs) {
  story_create(s, seed, least, keeps_logs);
  if (members_run(s->w, 2 * MEMBERS_S) && (!members_agree(s->w) || !members_last(s->w)))
    members_fail(s->w, "the job did not begin within 2 s");
}

static int story_end(struct story *s) {
  int is_bad = s->w->finding[0] != 0;
  if (is_bad)
    memcpy(finding, s->w->finding, sizeof s->w->finding);
  members_destroy(s->w);
  return is_bad;
}

// Any running process; often a keeper. NOBODY: none runs.
static uint32_t story_choose(struct story *s) {
  const struct members *w = s->w;
  const struct rondo_epoch *e = members_last(w);
  if (e && e->live_count && random_chance(&s->random, 60)) {
    uint32_t node = w->node_of[e->order[random_below(&s->random, rondo_epoch_keeper_count(e))]];
    if (w->nodes[node].end == MEMBERS_RUNS)
      return node;
  }
  uint32_t first = random_below(&s->random, w->cfg.count);
  for (uint32_t i = 0; i < w->cfg.count; i++)
    if (w->nodes[(first + i) % w->cfg.count].end == MEMBERS_RUNS)
      return (first + i) % w->cfg.count;
  return NOBODY;
}

static uint32_t story_count_ends(const struct story *s, uint8_t end) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < s->w->cfg.count; i++)
    count += s->w->nodes[i].end == end;
  return count;
}

// Somebody that runs is blocked on each process that does not run and is still a member.
static void story_block_dead(struct story *s) {
  const struct rondo_epoch *e = members_last(s->w);
  for (uint32_t i = 0; e && i < s->w->cfg.count; i++) {
    uint32_t by = story_choose(s);
    if (s->w->nodes[i].end != MEMBERS_RUNS && rondo_epoch_is_member(e, s->w->process_of[i]) &&
        by != NOBODY)
      members_block(s->w, by, i);
    // Who is behind, or out of the job, and does not know.
    if (s->w->nodes[i].end == MEMBERS_RUNS && by != NOBODY && by != i &&
        (s->w->nodes[i].number != e->number || !rondo_epoch_is_member(e, s->w->process_of[i])))
      members_block(s->w, i, by);
  }
}

// Waits until all agree. False, with a finding, if they do not within the bound.
static bool story_settle(struct story *s, uint64_t bound_ns) {
  uint64_t end_ns = control_net_now(s->w->net) + bound_ns;
  while (control_net_now(s->w->net) < end_ns && !s->w->finding[0]) {
    if (members_agree(s->w))
      return true;
    (void)members_run(s->w, s->silence_ns / 20);
  }
  return members_agree(s->w) || members_fail(s->w, "the processes do not agree within %llu ms",
                                             (unsigned long long)(bound_ns / MEMBERS_MS));
}

static void story_pause(struct story *s, uint64_t most_ns) {
  (void)members_run(s->w, random_log(&s->random, 10000, most_ns));
}

// Nobody is removed but who ended or left, and nobody gives up.
static void story_check_calm(struct story *s) {
  if (story_count_ends(s, MEMBERS_EVICTED) || story_count_ends(s, MEMBERS_NO_MAJORITY) ||
      story_count_ends(s, MEMBERS_FAILED))
    members_fail(s->w, "a process that answers is not in the job any more");
}

// -------------------------------------------------------------------- stories ---

static void crash_some(struct story *s) {
  uint32_t many = 1 + random_below(&s->random, 3);
  for (uint32_t i = 0; i < many; i++) {
    uint32_t node = story_choose(s);
    if (node != NOBODY && members_running(s->w) > 1)
      members_crash(s->w, node, CONTROL_NET_ENDS);
    if (random_chance(&s->random, 50))
      story_pause(s, 30 * MEMBERS_MS);
  }
}

static void cut_some(struct story *s) {
  uint32_t a = story_choose(s);
  uint32_t b = story_choose(s);
  if (a != NOBODY && a != b)
    control_net_cut(s->w->net, a, b, random_chance(&s->random, 50));
}

// Processes end, connections are cut, processes leave: no silence.
static int tell_proven(uint64_t seed) {
  struct story s;
  story_begin(&s, seed, 2, false);
  for (uint32_t turns = 1 + random_below(&s.random, 6); turns && !s.w->finding[0]; turns--) {
    uint32_t node = story_choose(&s);
    if (random_chance(&s.random, 50))
      crash_some(&s);
    else if (random_chance(&s.random, 50))
      cut_some(&s);
    else if (node != NOBODY)
      members_leave(s.w, node);
    story_pause(&s, 200 * MEMBERS_MS);
  }
  (void)story_settle(&s, 6 * s.silence_ns);
  story_check_calm(&s);
  return story_end(&s);
}

// Processes end or leave while the job starts, but not the root, which is needed until then.
static int tell_starting(uint64_t seed) {
  struct story s;
  story_create(&s, seed, 3, false);
  bool is_orderly = random_chance(&s.random, 50);
  uint32_t leavers[3];
  uint32_t left = 0;
  for (uint32_t many = 1 + random_below(&s.random, 3); many; many--) {
    uint32_t node = random_below(&s.random, s.w->cfg.count);
    (void)members_run(s.w, random_below(&s.random, 70 * MEMBERS_MS));
    if (node != s.w->cfg.root && is_orderly)
      members_leave(s.w, leavers[left++] = node);
    else if (node != s.w->cfg.root && (node != 0 || s.w->opened_count))
      members_crash(s.w, node, CONTROL_NET_ENDS);
  }
  (void)members_run(s.w, s.w->cfg.join_timeout_ns + MEMBERS_S);
  (void)story_settle(&s, 6 * s.silence_ns);
  if (!members_last(s.w))
    members_fail(s.w, "the job did not begin");
  while (left--)
    if (s.w->nodes[leavers[left]].end != MEMBERS_LEFT)
      members_fail(s.w, "process %u cannot leave", leavers[left]);
  story_check_calm(&s);
  return story_end(&s);
}

// Two keepers end while an epoch is decided, and what they have sent is late.
static int tell_keepers(uint64_t seed) {
  struct story s;
  story_begin(&s, seed, 4, false);
  for (uint32_t turns = 2; turns && !s.w->finding[0] && members_running(s.w) > 3; turns--) {
    const struct rondo_epoch *e = members_last(s.w);
    uint32_t keepers[3];
    for (uint32_t i = 0; i < 3; i++)
      keepers[i] = s.w->node_of[e->order[i]];
    members_leave(s.w, s.w->node_of[e->order[random_below(&s.random, e->live_count)]]);
    (void)members_run(s.w, 15 * MEMBERS_MS + random_below(&s.random, 30 * MEMBERS_MS));
    for (uint32_t i = 0; i < 2; i++) {
      uint32_t node = keepers[random_below(&s.random, 3)];
      if (s.w->nodes[node].end == MEMBERS_RUNS)
        members_crash(s.w, node, CONTROL_NET_ENDS);
      (void)members_run(s.w, random_below(&s.random, 10 * MEMBERS_MS));
    }
    (void)members_run(s.w, random_below(&s.random, 60 * MEMBERS_MS));
  }
  (void)story_settle(&s, 6 * s.silence_ns);
  story_check_calm(&s);
  return story_end(&s);
}

// All leave.
static int tell_leaving(uint64_t seed) {
  struct story s;
  story_begin(&s, seed, 2, false);
  for (uint32_t i = 0; i < s.w->cfg.count; i++) {
    members_leave(s.w, random_chance(&s.random, 50) ? i : story_choose(&s));
    if (random_chance(&s.random, 30))
      story_pause(&s, 40 * MEMBERS_MS);
  }
  for (uint32_t i = 0; i < s.w->cfg.count; i++)
    members_leave(s.w, i);
  (void)members_run(s.w, 3 * s.silence_ns);
  if (members_running(s.w))
    members_fail(s.w, "%u processes cannot leave", members_running(s.w));
  story_check_calm(&s);
  return story_end(&s);
}

// One machine after another is gone.
static int tell_silent(uint64_t seed) {
  struct story s;
  story_begin(&s, seed, 3, false);
  for (uint32_t turns = 1 + random_below(&s.random, 2); turns && !s.w->finding[0]; turns--) {
    if (members_running(s.w) < 3)
      break;
    members_crash(s.w, story_choose(&s), CONTROL_NET_GONE);
    if (random_chance(&s.random, 30))
      cut_some(&s);
    story_block_dead(&s);
    if (!story_settle(&s, 8 * s.silence_ns))
      break;
  }
  story_check_calm(&s);
  return story_end(&s);
}

// All processes, or most, are stopped for long and go on: nobody is silent.
static int tell_pause(uint64_t seed) {
  struct story s;
  story_begin(&s, seed, 3, false);
  uint32_t count = s.w->cfg.count;
  for (uint32_t i = 0; i < count; i++)
    if (random_chance(&s.random, 70))
      members_block(s.w, i, random_below(&s.random, count));
  story_pause(&s, s.silence_ns / 2);
  for (uint32_t i = 0; i < count; i++)
    members_stop(s.w, i);
  (void)members_run(s.w, s.silence_ns * (1 + random_below(&s.random, 9)));
  for (uint32_t i = 0; i < count; i++) {
    if (random_chance(&s.random, 30))
      story_pause(&s, s.silence_ns / 8 / count + 20000);
    members_continue(s.w, i);
  }
  (void)members_run(s.w, 3 * s.silence_ns);
  story_check_calm(&s);
  return story_end(&s);
}

// Some connections between two processes are silent, and each process answers all others.
static int tell_links(uint64_t seed) {
  struct story s;
  story_begin(&s, seed, 5, false);
  const struct rondo_epoch *e = members_last(s.w);
  uint32_t observers[RONDO_EPOCH_OBSERVERS];
  uint32_t subject = random_below(&s.random, s.w->cfg.count);
  if (e && subject != e->order[0]) {
    (void)rondo_epoch_observers(e, subject, observers);
    control_net_silence(s.w->net, subject, observers[1 + random_below(&s.random, 2)]);
    members_block(s.w, s.w->node_of[e->order[0]], subject);
  }
  (void)members_run(s.w, 3 * s.silence_ns);
  story_check_calm(&s);
  return story_end(&s);
}

static void chaos_heal(struct story *s) {
  control_net_heal(s->w->net, random_below(&s->random, 100));
  for (uint32_t i = 0; i < s->w->cfg.count; i++) {
    control_net_slow(s->w->net, i, 0);
    if (s->w->nodes[i].is_stopped)
      members_continue(s->w, i);
    if (s->w->nodes[i].end == MEMBERS_RUNS)
      members_block(s->w, i, NOBODY);
  }
}

static void chaos_turn(struct story *s) {
  struct members *w = s->w;
  uint32_t node = story_choose(s);
  uint32_t other = story_choose(s);
  if (node == NOBODY || other == NOBODY)
    return;
  switch (random_below(&s->random, 12)) {
  case 0:
    crash_some(s);
    break;
  case 1:
    members_crash(w, node, CONTROL_NET_GONE);
    break;
  case 2:
    members_stop(w, node);
    break;
  case 3:
    for (uint32_t i = 0; i < w->cfg.count; i++)
      if (random_chance(&s->random, 40))
        control_net_partition(w->net, i, 1);
    break;
  case 4:
    chaos_heal(s);
    break;
  case 5:
    if (node != other)
      control_net_silence(w->net, node, other);
    break;
  case 6:
    members_leave(w, node);
    break;
  case 7:
    control_net_slow(w->net, node, random_log(&s->random, MEMBERS_MS, 300 * MEMBERS_MS));
    break;
  case 8:
    cut_some(s);
    break;
  default:
    if (node != other)
      members_block(w, node, other);
  }
}

static bool keepers_run(const struct story *s) {
  const struct rondo_epoch *e = members_last(s->w);
  uint32_t running = 0;
  uint32_t count = e ? rondo_epoch_keeper_count(e) : 0;
  for (uint32_t i = 0; i < count; i++)
    running += s->w->nodes[s->w->node_of[e->order[i]]].end == MEMBERS_RUNS;
  return running >= count / 2 + 1;
}

// After all is healed: if a majority of the keepers runs, all agree; if not, who is blocked gives
// up.
static void chaos_finish(struct story *s) {
  struct members *w = s->w;
  chaos_heal(s);
  (void)members_run(w, 3 * s->silence_ns);
  for (uint32_t turns = 0; turns < 12 && !members_agree(w) && !w->finding[0]; turns++) {
    story_block_dead(s);
    (void)members_run(w, 6 * s->silence_ns);
  }
  if (members_agree(w) || !keepers_run(s) || w->finding[0])
    return;
  members_fail(w, "the keepers run, and the processes do not agree");
}

// Anything, at once.
static int tell_chaos(uint64_t seed) {
  struct story s;
  story_begin(&s, seed, 3, false);
  s.w->may_forget = true;
  for (uint32_t turns = 3 + random_below(&s.random, 15); turns && !s.w->finding[0]; turns--) {
    chaos_turn(&s);
    story_pause(&s, random_chance(&s.random, 50) ? 20 * MEMBERS_MS : 2 * s.silence_ns);
  }
  chaos_finish(&s);
  return story_end(&s);
}

// Bytes of a record that was being written.
static void log_tear(struct story *s, uint32_t node) {
  struct members_node *n = &s->w->nodes[node];
  uint32_t size = random_below(&s->random, 40);
  if (n->log_size < size || random_chance(&s->random, 50))
    return;
  n->log = realloc(n->log, n->log_size + size + 1);
  if (!n->log)
    abort();
  memcpy(n->log + n->log_size, n->log, size);
  n->log_size += size;
}

static void logs_turn(struct story *s) {
  struct members *w = s->w;
  uint32_t node = story_choose(s);
  if (node != NOBODY && random_chance(&s->random, 20))
    w->nodes[node].is_disk_full = !w->nodes[node].is_disk_full;
  else if (random_chance(&s->random, 35))
    chaos_turn(s);
  else if (node != NOBODY && random_chance(&s->random, 40))
    members_crash(w, node, random_chance(&s->random, 50) ? CONTROL_NET_ENDS : CONTROL_NET_GONE);
  for (uint32_t i = 0; i < w->cfg.count && !w->finding[0]; i++)
    if (w->nodes[i].end == MEMBERS_CRASHED && random_chance(&s->random, 40)) {
      log_tear(s, i);
      (void)members_restart(w, i);
    }
}

// Processes keep logs, end and come back.
static int tell_logs(uint64_t seed) {
  struct story s;
  story_begin(&s, seed, 3, true);
  for (uint32_t turns = 3 + random_below(&s.random, 15); turns && !s.w->finding[0]; turns--) {
    logs_turn(&s);
    story_pause(&s, random_chance(&s.random, 70) ? 20 * MEMBERS_MS : s.silence_ns);
  }
  for (uint32_t i = 0; i < s.w->cfg.count && !s.w->finding[0]; i++) {
    s.w->nodes[i].is_disk_full = false;
    if (s.w->nodes[i].end == MEMBERS_CRASHED)
      (void)members_restart(s.w, i);
  }
  chaos_finish(&s);
  return story_end(&s);
}

static const struct {
  const char *name;
  int (*tell)(uint64_t seed);
} kinds[] = {
    {"proven", tell_proven},   {"keepers", tell_keepers}, {"starting", tell_starting},
    {"leaving", tell_leaving}, {"silent", tell_silent},   {"pause", tell_pause},
    {"links", tell_links},     {"chaos", tell_chaos},     {"logs", tell_logs},
};

// ----------------------------------------------------------------------- sizes ---

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double peak_mib(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_maxrss / 1024;
}

static struct members *size_begin(uint32_t count, uint64_t heartbeat_ns, uint64_t timeout_ns) {
  struct members_config cfg = {.count = count,
                               .ranks_each = 1,
                               .machines = count / 8 ? count / 8 : 1,
                               .seed = 1,
                               .min_delay_ns = 20000,
                               .max_delay_ns = 200000,
                               .peer_timeout_ns = timeout_ns,
                               .heartbeat_ns = heartbeat_ns,
                               .join_timeout_ns = 60 * MEMBERS_S,
                               .entry_bytes = 48,
                               .trace = is_traced};
  return members_create(&cfg);
}

static bool size_settle(struct members *w, uint32_t members, uint64_t bound_ns) {
  uint64_t end_ns = control_net_now(w->net) + bound_ns;
  while (control_net_now(w->net) < end_ns && !w->finding[0]) {
    const struct rondo_epoch *e = members_last(w);
    if (e && e->live_count == members && members_agree(w))
      return true;
    (void)members_run(w, 20 * MEMBERS_MS);
  }
  return members_fail(w, "%u members do not agree in time", members);
}

static int size_end(struct members *w) {
  int is_bad = w->finding[0] != 0;
  if (is_bad)
    printf("%s\n", w->finding);
  members_destroy(w);
  return is_bad;
}

// Messages but those of the roster and of those that watch.
static uint64_t size_messages(const struct members *w) {
  return members_sent(w, RONDO_MEMBERSHIP_EPOCH, RONDO_MEMBERSHIP_FETCH) +
         members_sent(w, RONDO_MEMBERSHIP_PREPARE, RONDO_MEMBERSHIP_REFUSED);
}

// The start of a job, and a death with proof.
static int run_size(uint32_t count) {
  double begun = seconds();
  struct members *w = size_begin(count, 0, 10 * MEMBERS_S);
  if (!size_settle(w, count, 60 * MEMBERS_S))
    return size_end(w);
  double joined = seconds();
  uint64_t join = members_sent(w, RONDO_MEMBERSHIP_JOIN, RONDO_MEMBERSHIP_JOINED);
  uint64_t start = size_messages(w);
  uint64_t bytes = control_net_stats(w->net)->sent;
  printf("%u members: start %.2f s, %.2f messages a member to open epoch 1 (and %.2f of joins, "
         "%llu of the network)\n",
         count, joined - begun, (double)start / count, (double)join / count,
         (unsigned long long)bytes);
  uint64_t death_ns = control_net_now(w->net);
  members_crash(w, w->node_of[count / 2], CONTROL_NET_ENDS);
  if (!size_settle(w, count - 1, 10 * MEMBERS_S))
    return size_end(w);
  uint64_t epoch = size_messages(w) - start;
  uint64_t reports = members_sent(w, RONDO_MEMBERSHIP_REPORT, RONDO_MEMBERSHIP_VERDICT);
  uint64_t probes = members_sent(w, RONDO_MEMBERSHIP_PROBE, RONDO_MEMBERSHIP_ANSWER);
  unsigned long long others = reports + probes;
  printf("%u members: a death %.2f s, known to all after %.1f ms; %.2f messages a member for the "
         "epoch, %llu others; peak %.0f MiB\n",
         count, seconds() - joined,
         (double)(w->opened[w->opened_count - 1].last_ns - death_ns) / 1e6, (double)epoch / count,
         others, peak_mib());
  // The first 32 places probe the keepers, once in each of the two epochs.
  if (start > 4 * (uint64_t)count || epoch > 4 * (uint64_t)count || reports > count ||
      probes > UINT64_C(2) * 2 * 32 * 3)
    members_fail(w, "too many messages: %llu, %llu, %llu, %llu", (unsigned long long)start,
                 (unsigned long long)epoch, (unsigned long long)reports,
                 (unsigned long long)probes);
  return size_end(w);
}

// All members leave at once.
static int run_leaving(uint32_t count) {
  struct members *w = size_begin(count, 0, 10 * MEMBERS_S);
  (void)size_settle(w, count, 60 * MEMBERS_S);
  double begun = seconds();
  uint64_t begun_ns = control_net_now(w->net);
  uint64_t sent = control_net_stats(w->net)->sent;
  for (uint32_t i = 0; i < count; i++)
    members_leave(w, i);
  while (members_running(w) && control_net_now(w->net) < begun_ns + 60 * MEMBERS_S &&
         members_run(w, 10 * MEMBERS_MS))
    continue;
  if (members_running(w))
    members_fail(w, "%u members cannot leave", members_running(w));
  printf("%u members leave within %.0f ms, in %u epochs, with %.2f messages each; %.2f s\n", count,
         (double)(control_net_now(w->net) - begun_ns) / 1e6, w->opened_count - 2,
         (double)(control_net_stats(w->net)->sent - sent) / count, seconds() - begun);
  return size_end(w);
}

// How long a machine can be gone unnoticed, with heartbeats of 500 ms.
static int run_detection(uint32_t count) {
  double begun = seconds();
  uint64_t worst_ns = 0;
  struct members *w = size_begin(count, 500 * MEMBERS_MS, 60 * MEMBERS_S);
  (void)size_settle(w, count, 60 * MEMBERS_S);
  for (uint32_t i = 0; i < 5 && !w->finding[0]; i++) {
    // A keeper, then others.
    const struct rondo_epoch *e = members_last(w);
    uint32_t place = (uint32_t)((uint64_t)(count - 6) * i / 4);
    uint64_t gone_ns = control_net_now(w->net);
    members_crash(w, w->node_of[e->order[place]], CONTROL_NET_GONE);
    (void)size_settle(w, count - 1 - i, 10 * MEMBERS_S);
    uint64_t took_ns = w->opened[w->opened_count - 1].last_ns - gone_ns;
    printf("%u members: place %u gone, known to all after %.2f s\n", count, place,
           (double)took_ns / 1e9);
    worst_ns = took_ns > worst_ns ? took_ns : worst_ns;
    (void)members_run(w, 1300 * MEMBERS_MS);
  }
  printf("%.1f s, peak %.0f MiB\n", seconds() - begun, peak_mib());
  if (worst_ns > 3 * MEMBERS_S)
    members_fail(w, "more than 3 s");
  return size_end(w);
}

// An hour at load 20: each process waits for the processor whenever something comes for it.
static int run_hour(uint32_t count, uint64_t hours_s) {
  double begun = seconds();
  struct members *w = size_begin(count, 500 * MEMBERS_MS, 60 * MEMBERS_S);
  (void)size_settle(w, count, 60 * MEMBERS_S);
  for (uint32_t i = 0; i < count; i++)
    control_net_slow(w->net, i, 19 * 4 * MEMBERS_MS); // 19 others with 4 ms each
  (void)members_run(w, hours_s * MEMBERS_S);
  if (members_running(w) != count)
    members_fail(w, "false alarms: %u of %u members are left", members_running(w), count);
  printf("%u members, %llu s at load 20: %u epochs, %llu messages; %.1f s\n", count,
         (unsigned long long)hours_s, w->opened_count - 1,
         (unsigned long long)control_net_stats(w->net)->sent, seconds() - begun);
  return size_end(w);
}

// ------------------------------------------------------------------------ main ---

struct options {
  int (*tell)(uint64_t seed);
  const char *kind;
  uint64_t first, count;
  bool wants_fault;
};

static int run_seeds(const struct options *o) {
  double begun = seconds();
  for (uint64_t seed = o->first; seed < o->first + o->count; seed++) {
    if (!o->tell(seed))
      continue;
    printf("%s, seed %llu: %s\nreplay: test_members --kind %s --first %llu --seeds 1 --trace\n",
           o->kind, (unsigned long long)seed, finding, o->kind, (unsigned long long)seed);
    return o->wants_fault ? 0 : 1;
  }
  printf("%s: %llu seeds hold; %.1f s\n", o->kind, (unsigned long long)o->count, seconds() - begun);
  return o->wants_fault ? 1 : 0;
}

static bool options_read_fault(const char *name) {
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
    if (strcmp(name, faults[i].name) == 0)
      rondo_fault_planted = faults[i].fault;
  return rondo_fault_planted != 0;
}

static bool options_read_kind(struct options *o, const char *name) {
  o->kind = name;
  o->tell = NULL;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(name, kinds[i].name) == 0)
      o->tell = kinds[i].tell;
  return o->tell != NULL;
}

int main(int argc, char **argv) {
  static const struct option names[] = {{"kind", 1, NULL, 'k'},      {"seeds", 1, NULL, 'n'},
                                        {"first", 1, NULL, 'f'},     {"fault", 1, NULL, 'p'},
                                        {"trace", 0, NULL, 't'},     {"size", 1, NULL, 's'},
                                        {"detection", 1, NULL, 'd'}, {"hour", 1, NULL, 'h'},
                                        {"leaving", 1, NULL, 'l'},   {NULL, 0, NULL, 0}};
  struct options o = {.count = 1000};
  bool is_good = true;
  int c;
  (void)options_read_kind(&o, "proven");
  setvbuf(stdout, NULL, _IOLBF, 0);
  while (is_good && (c = getopt_long(argc, argv, "", names, NULL)) != -1) {
    uint64_t number = optarg ? strtoull(optarg, NULL, 10) : 0;
    switch (c) {
    case 'k':
      is_good = options_read_kind(&o, optarg ? optarg : "");
      break;
    case 'n':
      o.count = number;
      break;
    case 'f':
      o.first = number;
      break;
    case 'p':
      is_good = o.wants_fault = options_read_fault(optarg ? optarg : "");
      break;
    case 't':
      is_traced = true;
      break;
    case 's':
      return run_size((uint32_t)number);
    case 'd':
      return run_detection((uint32_t)number);
    case 'l':
      return run_leaving((uint32_t)number);
    case 'h':
      return run_hour((uint32_t)number, 3600);
    default:
      is_good = false;
    }
  }
  if (!is_good) {
    (void)fprintf(stderr,
                  "usage: test_members [--kind KIND] [--first SEED] [--seeds COUNT] "
                  "[--fault NAME] [--trace] | --size N | --detection N | --hour N | --leaving N\n");
    return 2;
  }
  return run_seeds(&o);
}
