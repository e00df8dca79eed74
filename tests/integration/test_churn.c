// A job of up to eight processes in which something happens every half second, chosen from a seed:
// a member is killed, stopped for long or for a while, joins, leaves in order; the process of rank
// 0 is killed; the link of a machine is cut. Meanwhile all members run disordered all-reduces, of
// which half survive a death, check every element, and synchronise a state. At the end, and all
// along: nobody waits longer than stated, no bit is wrong, and a member that lives long owns no
// more than at the beginning.
//
//   test_churn [SECONDS [SEED [machines]]]   machines: processes on four, made of namespaces
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "tests/integration/churn.h"
#include "tests/support/family.h"
#include "tests/support/job.h"
#include "tests/support/machines.h"
#include "tests/support/named.h"

#define SECOND_NS UINT64_C(1000000000)
#define PERIOD_NS (SECOND_NS / 2)
#define TICK_NS UINT64_C(10000000)
#define PROGRESS_NS (10 * SECOND_NS)
#define HANG_NS (60 * SECOND_NS)     // in one phase
#define PUT_OUT_NS (30 * SECOND_NS)  // for the others to put out a member that was stopped
#define LOST_NS (5 * SECOND_NS)      // until a job that nobody is in any more begins anew
#define MAJORITY_NS (60 * SECOND_NS) // in which a process that was stopped may cost the majority
#define LEAST_LEFT 3u                // members that live on after an event
#define IMMORTAL 0u                  // this slot is never killed: its process shows leaks
#define RECORDS_A_SECOND 2000u
#define MACHINES 4u

enum event { KILL, KILL_ROOT, STOP, PAUSE, JOIN, LEAVE, CUT, EVENTS };
static const char *const event_names[] = {"killed", "root killed", "stopped", "paused",
                                          "joined", "left",        "cut off"};
static const char *const phase_names[CHURN_PHASES] = {
    "absent",       "outside", "joining", "greeting",  "submitting", "in runs",
    "in the round", "in sync", "growing", "shrinking", "closing"};

// What the watcher knows of a slot.
struct watched {
  uint64_t until_ns;  // stopped or cut off, at least until then; 0: neither
  uint64_t began_ns;  // ... since then
  uint64_t job;       // ... in which it was
  bool waits_put_out; // ... until the others have gone on without it
};

struct churn {
  uint64_t seed, random;
  uint64_t begin_ns, end_ns, progress_ns, event_ns, lost_ns;
  uint32_t lives;
  uint32_t counts[EVENTS];
  uint32_t put_out, lost_jobs;
  uint64_t disturbed_ns; // the last time that a process was
  uint32_t cut;          // the machine whose link is cut
  bool is_cut, has_machines, has_failed;
  struct watched watched[CHURN_SLOTS];
};

static uint32_t duration_s = 20;
static struct churn churn;

static uint32_t random_below(uint32_t n) {
  return (uint32_t)(rondo_test_random(&churn.random) % n);
}

static struct churn_slot *slot_at(uint32_t i) { return &churn_story->slots[i]; }

static bool slot_is_disturbed(uint32_t i) { return churn.watched[i].until_ns != 0; }

static bool slot_is_member(uint32_t i) {
  const struct churn_slot *s = slot_at(i);
  return s->pid && rondo_load_acquire_u64(&s->job) && s->wants_in && !slot_is_disturbed(i);
}

static uint32_t count_slots(bool (*is)(uint32_t i)) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < CHURN_SLOTS; i++)
    count += is(i);
  return count;
}

// A random slot of these; CHURN_SLOTS: none.
static uint32_t slot_pick(bool (*is)(uint32_t i)) {
  uint32_t left = count_slots(is);
  left = left ? random_below(left) : 0;
  for (uint32_t i = 0; i < CHURN_SLOTS; i++)
    if (is(i) && left-- == 0)
      return i;
  return CHURN_SLOTS;
}

// ---------------------------------------------------------------------- what is ---

static void story_print(FILE *out) {
  struct churn_slot all = {0};
  uint64_t job = rondo_load_acquire_u64(&churn_story->job);
  uint32_t members = 0;
  for (uint32_t i = 0; i < CHURN_SLOTS; i++) {
    const struct churn_slot *s = slot_at(i);
    members += s->job == job;
    all.runs += s->runs;
    all.fewer += s->fewer;
    all.failed_runs += s->failed_runs;
    all.elements += s->elements;
    all.syncs += s->syncs;
    all.moved_bytes += s->moved_bytes;
    all.votes += s->votes;
    all.failed_votes += s->failed_votes;
    all.joins += s->joins;
    all.forks += s->forks;
    all.restarts += s->restarts;
    all.compared += s->compared;
    all.came_back += s->came_back;
    all.late_syncs += s->late_syncs;
  }
  fprintf(out, "churn: %4.0f s: job %u of %u;", (double)(rondo_now_ns() - churn.begin_ns) / 1e9,
          (unsigned)(job >> 32), members);
  for (uint32_t e = 0; e < EVENTS; e++)
    fprintf(out, " %s %u,", event_names[e], churn.counts[e]);
  fprintf(out,
          " put out %u, came back %u\n"
          "        runs %llu (of fewer %llu, failed %llu), elements %llu, comparisons %llu, "
          "states %llu (%llu MiB moved, %llu from anew, %llu late), votes %llu (failed %llu), "
          "joined %llu, "
          "forks %llu, jobs lost %u\n",
          churn.put_out, (unsigned)all.came_back, (unsigned long long)all.runs,
          (unsigned long long)all.fewer, (unsigned long long)all.failed_runs,
          (unsigned long long)all.elements, (unsigned long long)all.compared,
          (unsigned long long)all.syncs, (unsigned long long)all.moved_bytes >> 20,
          (unsigned long long)all.restarts, (unsigned long long)all.late_syncs,
          (unsigned long long)all.votes, (unsigned long long)all.failed_votes,
          (unsigned long long)all.joins, (unsigned long long)all.forks, churn.lost_jobs);
  fflush(out);
}

// What each process waits for; each prints its stuck report, too.
static void processes_print(void) {
  uint64_t now_ns = rondo_now_ns();
  for (uint32_t i = 0; i < CHURN_SLOTS; i++) {
    const struct churn_slot *s = slot_at(i);
    if (!s->pid)
      continue;
    fprintf(stderr,
            "churn: slot %u, process %d: %s for %.1f s%s; rank %u of %u of job %u, %u rounds\n", i,
            (int)s->pid, phase_names[s->phase], (double)(now_ns - s->phase_ns) / 1e9,
            slot_is_disturbed(i) ? " (stopped)" : "", s->rank, s->ranks, (unsigned)(s->job >> 32),
            s->rounds);
  }
  for (uint32_t i = 0; i < CHURN_SLOTS; i++)
    if (slot_at(i)->pid && !slot_is_disturbed(i)) {
      kill(slot_at(i)->pid, SIGUSR1);
      const struct timespec brief = {0, 500000000};
      nanosleep(&brief, NULL);
    }
}

static void churn_end(const char *what, uint32_t slot) {
  if (churn.has_failed)
    return;
  churn.has_failed = true;
  fprintf(stderr, "churn: FAILED after %.1f s, seed %llu: %s (slot %u)\n",
          (double)(rondo_now_ns() - churn.begin_ns) / 1e9, (unsigned long long)churn.seed, what,
          slot);
  processes_print();
}

// ----------------------------------------------------------------------- events ---

static uint32_t machine_of(uint32_t slot) { return slot % MACHINES; }

static void process_start(uint32_t i) {
  struct churn_slot *s = slot_at(i);
  uint64_t seed = rondo_test_random(&churn.random);
  s->job = s->put_out = 0;
  s->is_voting = 0;
  s->phase = CHURN_ABSENT;
  s->phase_ns = rondo_now_ns();
  s->wants_in = 1;
  fflush(NULL);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    if (churn.has_machines)
      rondo_machines_enter(machine_of(i));
    churn_member_main(i, seed);
  }
  s->pid = pid;
  churn.lives++;
}

static void process_kill(uint32_t i) {
  struct churn_slot *s = slot_at(i);
  int end;
  kill(s->pid, SIGKILL);
  (void)waitpid(s->pid, &end, 0);
  s->pid = 0;
  s->job = 0;
}

static void slot_disturb(uint32_t i, uint64_t for_ns) {
  struct watched *w = &churn.watched[i];
  w->began_ns = churn.disturbed_ns = rondo_now_ns();
  rondo_store_release_u64(&churn_story->disturbed_ns, UINT64_MAX);
  w->until_ns = w->began_ns + for_ns;
  w->job = rondo_load_acquire_u64(&slot_at(i)->job);
  w->waits_put_out = for_ns >= SECOND_NS && w->job;
}

// Cuts the link of a machine: that of all its processes.
static void machine_cut(uint32_t machine, uint64_t for_ns) {
  rondo_machines_link(machine, 0);
  churn.is_cut = true;
  churn.cut = machine;
  for (uint32_t i = 0; i < CHURN_SLOTS; i++)
    if (slot_at(i)->pid && machine_of(i) == machine)
      slot_disturb(i, for_ns);
}

// Stops a process; returns when it is stopped.
static void process_stop(uint32_t i, uint64_t for_ns) {
  int end;
  kill(slot_at(i)->pid, SIGSTOP);
  if (waitpid(slot_at(i)->pid, &end, WUNTRACED) != slot_at(i)->pid || !WIFSTOPPED(end)) {
    slot_at(i)->pid = 0;
    churn_end("it ended when it was to be stopped", i);
    return;
  }
  slot_disturb(i, for_ns);
}

static bool is_mortal(uint32_t i) { return slot_is_member(i) && i != IMMORTAL; }
static bool is_root(uint32_t i) {
  return is_mortal(i) && slot_at(i)->rank == 0 && slot_at(i)->job == churn_story->job;
}
static bool is_away(uint32_t i) {
  return !slot_at(i)->pid || (!slot_at(i)->wants_in && slot_at(i)->phase == CHURN_OUTSIDE);
}

static bool event_try(uint32_t event) {
  bool may_lose = count_slots(slot_is_member) > LEAST_LEFT;
  bool is_calm = count_slots(slot_is_disturbed) == 0;
  bool (*const whom[EVENTS])(uint32_t i) = {
      is_mortal, is_root, slot_is_member, slot_is_member, is_away, slot_is_member, slot_is_member};
  uint32_t i = slot_pick(whom[event]);
  if (i == CHURN_SLOTS || (event != JOIN && event != PAUSE && !may_lose))
    return false;
  if ((event == STOP || event == PAUSE || event == CUT) && !is_calm)
    return false;
  if (event == LEAVE && slot_is_member(IMMORTAL) && slot_at(IMMORTAL)->rank == 0)
    i = IMMORTAL; // so that the root is mortal
  if (event == CUT && (!churn.has_machines || machine_of(IMMORTAL) == machine_of(i)))
    return false;
  // While a keeper of epochs is gone that may come back, the death of another one would cost the
  // majority.
  if ((event == KILL || event == KILL_ROOT) && !is_calm && random_below(4))
    return false;
  if (event == KILL || event == KILL_ROOT)
    process_kill(i);
  else if (event == STOP)
    process_stop(i, SECOND_NS + random_below(2000) * UINT64_C(1000000));
  else if (event == PAUSE)
    process_stop(i, (50 + random_below(200)) * UINT64_C(1000000));
  else if (event == CUT)
    machine_cut(machine_of(i), SECOND_NS + random_below(2000) * UINT64_C(1000000));
  else if (event == LEAVE)
    rondo_store_release_u32(&slot_at(i)->wants_in, 0);
  else if (event == JOIN && slot_at(i)->pid)
    rondo_store_release_u32(&slot_at(i)->wants_in, 1);
  else if (event == JOIN)
    process_start(i);
  churn.counts[event]++;
  printf("churn: %6.1f s: slot %u %s\n", (double)(rondo_now_ns() - churn.begin_ns) / 1e9, i,
         event_names[event]);
  fflush(stdout);
  return true;
}

static void event_happen(void) {
  static const uint32_t weights[EVENTS] = {3, 2, 2, 2, 9, 2, 2};
  for (uint32_t tries = 0; tries < 100; tries++) {
    uint32_t at = random_below(22);
    uint32_t event = 0;
    while (at >= weights[event])
      at -= weights[event++];
    if (event_try(event))
      return;
  }
}

// --------------------------------------------------------------------- watching ---

// The others have gone on without it.
static bool slot_is_put_out(uint32_t i) {
  uint64_t job = rondo_load_acquire_u64(&churn_story->job);
  bool goes_on = false;
  for (uint32_t k = 0; k < CHURN_SLOTS; k++)
    goes_on |= k != i && slot_at(k)->pid && rondo_load_acquire_u64(&slot_at(k)->job) == job;
  return goes_on && job != churn.watched[i].job;
}

static void slot_continue(uint32_t i) {
  churn.watched[i] = (struct watched){0};
  churn.disturbed_ns = rondo_now_ns();
  rondo_store_release_u64(&slot_at(i)->phase_ns, rondo_now_ns());
  kill(slot_at(i)->pid, SIGCONT);
  if (churn.is_cut && count_slots(slot_is_disturbed) == 0) {
    rondo_machines_link(churn.cut, 1);
    churn.is_cut = false;
  }
  if (count_slots(slot_is_disturbed) == 0)
    rondo_store_release_u64(&churn_story->disturbed_ns, rondo_now_ns());
}

static void disturbed_watch(uint32_t i, uint64_t now_ns) {
  struct watched *w = &churn.watched[i];
  if (w->waits_put_out && slot_is_put_out(i)) {
    churn.put_out++;
    w->waits_put_out = false;
    if (!slot_at(i)->is_voting)
      rondo_store_release_u64(&slot_at(i)->put_out, w->job);
  }
  // Without a majority, or if no other is left in the job, nobody puts it out.
  bool has_others = count_slots(slot_is_member) > 0;
  if (w->waits_put_out && has_others && now_ns > w->began_ns + PUT_OUT_NS)
    churn_end("the others have not put it out", i);
  if (now_ns >= w->until_ns && (!w->waits_put_out || !has_others))
    slot_continue(i);
}

static void process_watch(uint32_t i, uint64_t now_ns) {
  struct churn_slot *s = slot_at(i);
  int end;
  if (!s->pid)
    return;
  if (waitpid(s->pid, &end, WNOHANG) == s->pid) {
    s->pid = 0;
    if (end || !churn_story->is_over)
      churn_end(WIFSIGNALED(end) ? "a process crashed" : "a process failed", i);
    return;
  }
  if (slot_is_disturbed(i))
    disturbed_watch(i, now_ns);
  else if (now_ns > rondo_load_acquire_u64(&s->phase_ns) + HANG_NS)
    churn_end("a process hangs", i);
}

static bool slot_lives(uint32_t i) { return slot_at(i)->pid != 0; }
static bool slot_is_inside(uint32_t i) { return slot_at(i)->pid && slot_at(i)->job; }
static bool slot_is_at_hand(uint32_t i) {
  return slot_at(i)->pid && slot_at(i)->wants_in && !slot_is_disturbed(i);
}

// A job that nobody is in any more begins anew.
static void job_watch(uint64_t now_ns) {
  if (count_slots(slot_is_inside)) {
    churn.lost_ns = 0;
    return;
  }
  if (!churn.lost_ns)
    churn.lost_ns = now_ns;
  if (now_ns < churn.lost_ns + LOST_NS)
    return;
  uint32_t founder = slot_pick(slot_is_at_hand);
  if (founder == CHURN_SLOTS)
    return;
  churn.lost_ns = 0;
  churn.lost_jobs++;
  if (now_ns > churn.disturbed_ns + MAJORITY_NS)
    churn_end("the job was lost, and nobody had been stopped or cut off", founder);
  rondo_store_release_u32(&slot_at(founder)->founds, 1);
}

static void watch(void) {
  const struct timespec tick = {0, (long)TICK_NS};
  uint64_t now_ns = rondo_now_ns();
  for (uint32_t i = 0; i < CHURN_SLOTS; i++)
    process_watch(i, now_ns);
  if (!churn_story->is_over)
    job_watch(now_ns);
  if (now_ns > churn.progress_ns + PROGRESS_NS) {
    churn.progress_ns = now_ns;
    story_print(stdout);
  }
  nanosleep(&tick, NULL);
}

static void all_leave(void) {
  uint64_t end_ns = rondo_now_ns() + HANG_NS;
  for (uint32_t i = 0; i < CHURN_SLOTS; i++)
    if (slot_is_disturbed(i))
      slot_continue(i);
  rondo_store_release_u32(&churn_story->is_over, 1);
  for (uint32_t i = 0; i < CHURN_SLOTS; i++)
    rondo_store_release_u32(&slot_at(i)->wants_in, 0);
  while (!churn.has_failed && count_slots(slot_lives)) {
    if (rondo_now_ns() > end_ns)
      churn_end("not all have left", 0);
    watch();
  }
}

static void nobody_hangs_and_no_bit_is_wrong(void **state) {
  struct rondo_belongings before = rondo_belongings_count();
  (void)state;
  churn.random = churn.seed;
  churn.begin_ns = churn.progress_ns = churn.event_ns = rondo_now_ns();
  churn.end_ns = churn.begin_ns + duration_s * SECOND_NS;
  slot_at(IMMORTAL)->founds = 1;
  for (uint32_t i = 0; i < 4; i++)
    process_start(i);
  while (!churn.has_failed && rondo_now_ns() < churn.end_ns) {
    if (rondo_now_ns() >= churn.event_ns + PERIOD_NS) {
      churn.event_ns += PERIOD_NS;
      event_happen();
    }
    watch();
  }
  if (!churn.has_failed)
    all_leave();
  for (uint32_t i = 0; i < CHURN_SLOTS; i++)
    if (slot_at(i)->pid)
      process_kill(i);
  story_print(stdout);
  struct rondo_belongings after = rondo_belongings_count();
  assert_false(churn.has_failed);
  assert_int_equal(after.descriptors, before.descriptors);
  assert_true(after.shared_files <= before.shared_files);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("churn", nobody_hangs_and_no_bit_is_wrong),
  };
  duration_s = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 20;
  churn.seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  churn.has_machines = argc > 3 && strcmp(argv[3], "machines") == 0;
  (void)setenv("RONDO_LOG", "off", 0); // losses are expected here
  uint64_t records = UINT64_C(1) << 16;
  while (records < (uint64_t)duration_s * RECORDS_A_SECOND)
    records *= 2;
  size_t bytes = sizeof *churn_story + records * sizeof(struct churn_record);
  churn_story = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (churn_story == MAP_FAILED)
    return 1;
  churn_story->record_count = records;
  if (churn.has_machines && !rondo_machines_open(MACHINES))
    return 77;
  int failed = cmocka_run_group_tests_name("churn", tests, NULL, NULL);
  rondo_machines_close();
  return failed;
}
