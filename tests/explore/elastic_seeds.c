// Explores jobs whose members change, by seed: the program of the churn test
// (tests/integration/churn_member.c and churn_work.c), with its disordered runs, of which half
// survive a death, its votes, newcomers and states. Its processes are threads of this program that
// run one at a time and in virtual time (tests/support/script). Everything is the library's except
// the sockets (virtual_mesh.h) and the threads that step the blocks. A process can be stopped or
// killed at any point of any of its threads, also in the middle of a step.
//
//   test_elastic_seeds [--mode safety|liveness] [--seeds N] [--first N] [--fault NAME] [--trace]
//
// Checked, besides what the churn test checks: two processes that live never open different epochs
// of the same number. Safety: events follow each other closely, also so many that no majority is
// left. Liveness: a majority is left, and after the last event all members are back in one job
// within a bounded time, and do rounds together; then all leave.
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/explore.h"
#include "tests/explore/elastic_seeds.h"
#include "tests/explore/virtual_mesh.h"
#include "tests/integration/churn.h"
#include "tests/support/script/script.h"

#define SECOND_NS UINT64_C(1000000000)
#define MS_NS UINT64_C(1000000)
#define STORY_SECONDS 60u // of this machine's time, for one seed
#define PROGRESS_SECONDS 30.0
#define HANG_NS (60 * SECOND_NS)
#define PUT_OUT_NS (30 * SECOND_NS)
#define LOST_NS (SECOND_NS / 5) // until a job that nobody is in any more begins anew
#define SETTLE_NS (120 * SECOND_NS)
#define STORY_NS (300 * SECOND_NS)
#define SETTLED_ROUNDS 2u
#define LEAST_LEFT 3u
#define RECORDS 16384u

enum story_event { KILL, KILL_ROOT, STOP, PAUSE, JOIN, LEAVE, CUT, EVENTS };
static const char *const event_names[] = {"killed", "root killed", "stopped", "paused",
                                          "joins",  "leaves",      "cut off"};

struct watched {
  uint64_t until_ns; // stopped or cut off until then; 0: neither
  uint64_t began_ns;
  uint64_t job;
  bool is_stopped, waits_put_out;
};

static struct {
  struct random random;
  bool is_lively, is_traced, is_calm;
  uint64_t seed, events, event_ns, lost_ns, calm_ns;
  uint32_t slots, machines;
  uint32_t process_of[CHURN_SLOTS]; // of the slot; VIRTUAL_NOBODY: none
  uint32_t cut_machine;
  bool is_cut;
  struct watched watched[CHURN_SLOTS];
  uint32_t counts[EVENTS];
} story;

static struct churn_slot *slot_at(uint32_t i) { return &churn_story->slots[i]; }

static void slots_print(void) {
  for (uint32_t i = 0; i < story.slots; i++) {
    const struct churn_slot *s = slot_at(i);
    if (story.process_of[i] != VIRTUAL_NOBODY)
      fprintf(stderr,
              "elastic: slot %u%s: phase %u for %.3f s; rank %u of %u of job %u, %u rounds\n", i,
              s->wants_in ? "" : " (leaves)", s->phase,
              (double)(script_now_ns() - s->phase_ns) / 1e9, s->rank, s->ranks,
              (unsigned)(s->job >> 32), s->rounds);
  }
}

static _Noreturn void story_fail(const char *what, uint32_t slot) {
  slots_print();
  fprintf(stderr, "elastic: FAILED at %.3f s after %llu events: %s (slot %u, phase %u)\n",
          (double)script_now_ns() / 1e9 - 1, (unsigned long long)story.events, what, slot,
          slot_at(slot)->phase);
  elastic_exit(1);
}

// ---------------------------------------------------------------------- the slots ---

static bool slot_is_disturbed(uint32_t i) { return story.watched[i].until_ns != 0; }
static bool slot_lives(uint32_t i) { return story.process_of[i] != VIRTUAL_NOBODY; }
static bool slot_is_inside(uint32_t i) { return slot_lives(i) && slot_at(i)->job; }
static bool slot_is_member(uint32_t i) {
  return slot_is_inside(i) && slot_at(i)->wants_in && !slot_is_disturbed(i);
}
static bool slot_is_root(uint32_t i) {
  return slot_is_member(i) && slot_at(i)->rank == 0 && slot_at(i)->job == churn_story->job;
}
static bool slot_is_away(uint32_t i) {
  return !slot_lives(i) || (!slot_at(i)->wants_in && slot_at(i)->phase == CHURN_OUTSIDE);
}
static bool slot_is_at_hand(uint32_t i) {
  return slot_lives(i) && slot_at(i)->wants_in && !slot_is_disturbed(i);
}

static uint32_t count_slots(bool (*is)(uint32_t i)) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < story.slots; i++)
    count += is(i);
  return count;
}

static uint32_t slot_pick(bool (*is)(uint32_t i)) {
  uint32_t left = count_slots(is);
  left = left ? random_below(&story.random, left) : 0;
  for (uint32_t i = 0; i < story.slots; i++)
    if (is(i) && left-- == 0)
      return i;
  return CHURN_SLOTS;
}

static void process_start(uint32_t i) {
  struct churn_slot *s = slot_at(i);
  s->job = s->put_out = 0;
  s->is_voting = s->founds = 0;
  s->phase = CHURN_ABSENT;
  s->phase_ns = script_now_ns();
  s->wants_in = 1;
  s->pid = 1;
  story.process_of[i] = elastic_process_start(i, i % story.machines, random_next(&story.random));
}

// ------------------------------------------------------------------------- events ---

static void slot_disturb(uint32_t i, uint64_t for_ns, bool stops) {
  churn_story->disturbed_ns = UINT64_MAX;
  story.watched[i] = (struct watched){script_now_ns() + for_ns, script_now_ns(), slot_at(i)->job,
                                      stops, for_ns >= SECOND_NS && slot_at(i)->job};
}

static bool process_try_kill(uint32_t i) {
  if (!virtual_process_try_crash(story.process_of[i]))
    return false;
  story.process_of[i] = VIRTUAL_NOBODY;
  slot_at(i)->pid = 0;
  slot_at(i)->job = 0;
  return true;
}

static bool process_try_stop(uint32_t i, uint64_t for_ns) {
  if (!virtual_process_try_stop(story.process_of[i]))
    return false;
  slot_disturb(i, for_ns, true);
  return true;
}

static void machine_cut(uint32_t machine, uint64_t for_ns) {
  virtual_machine_cut(machine, true);
  story.is_cut = true;
  story.cut_machine = machine;
  for (uint32_t i = 0; i < story.slots; i++)
    if (slot_lives(i) && i % story.machines == machine && !slot_is_disturbed(i))
      slot_disturb(i, for_ns, false);
}

static bool event_try(uint32_t event) {
  static bool (*const whom[EVENTS])(uint32_t i) = {slot_is_member, slot_is_root, slot_is_member,
                                                   slot_is_member, slot_is_away, slot_is_member,
                                                   slot_is_member};
  bool is_calm = count_slots(slot_is_disturbed) == 0;
  uint32_t i = slot_pick(whom[event]);
  struct random *r = &story.random;
  uint64_t long_ns = SECOND_NS + random_below(r, 2000) * MS_NS;
  if (i == CHURN_SLOTS)
    return false;
  uint32_t least =
      story.is_lively ? LEAST_LEFT : (uint32_t)random_chance(r, 90); // members that stay
  if (event != JOIN && event != PAUSE && count_slots(slot_is_member) <= least)
    return false;
  if (story.is_lively && !is_calm && event != JOIN && event != LEAVE)
    return false;
  if (event == CUT && (story.is_cut || story.machines < 2))
    return false;
  if ((event == KILL || event == KILL_ROOT) && !process_try_kill(i))
    return false;
  if (event == STOP && !process_try_stop(i, long_ns))
    return false;
  if (event == PAUSE && !process_try_stop(i, (50 + random_below(r, 200)) * MS_NS))
    return false;
  if (event == CUT)
    machine_cut(i % story.machines, long_ns);
  else if (event == LEAVE)
    slot_at(i)->wants_in = 0;
  else if (event == JOIN && slot_lives(i))
    slot_at(i)->wants_in = 1;
  else if (event == JOIN)
    process_start(i);
  story.counts[event]++;
  story.events++;
  if (story.is_traced)
    fprintf(stderr, "elastic: %.3f s: slot %u %s\n", (double)script_now_ns() / 1e9 - 1, i,
            event_names[event]);
  return true;
}

static void event_happen(void) {
  static const uint32_t weights[EVENTS] = {3, 2, 2, 2, 9, 2, 2};
  for (uint32_t tries = 0; tries < 20; tries++) {
    uint32_t at = random_below(&story.random, 22);
    uint32_t event = 0;
    while (at >= weights[event])
      at -= weights[event++];
    if (event_try(event))
      return;
  }
}

// ----------------------------------------------------------------------- watching ---

static bool slot_is_put_out(uint32_t i) {
  bool goes_on = false;
  for (uint32_t k = 0; k < story.slots; k++)
    goes_on |= k != i && slot_lives(k) && slot_at(k)->job == churn_story->job;
  return goes_on && churn_story->job != story.watched[i].job;
}

static void slot_continue(uint32_t i) {
  if (story.watched[i].is_stopped)
    virtual_process_continue(story.process_of[i]);
  story.watched[i] = (struct watched){0};
  slot_at(i)->phase_ns = script_now_ns();
  if (count_slots(slot_is_disturbed) == 0)
    churn_story->disturbed_ns = script_now_ns();
}

static void disturbed_watch(uint32_t i, uint64_t now_ns) {
  struct watched *w = &story.watched[i];
  if (!slot_lives(i)) {
    *w = (struct watched){0};
    return;
  }
  if (w->waits_put_out && slot_is_put_out(i)) {
    w->waits_put_out = false;
    if (!slot_at(i)->is_voting)
      slot_at(i)->put_out = w->job;
  }
  if (story.is_lively && w->waits_put_out && count_slots(slot_is_member) &&
      now_ns > w->began_ns + PUT_OUT_NS)
    story_fail("the others have not put it out", i);
  if (now_ns >= w->until_ns)
    slot_continue(i);
}

static void slots_watch(uint64_t now_ns) {
  for (uint32_t i = 0; i < story.slots; i++) {
    if (slot_is_disturbed(i))
      disturbed_watch(i, now_ns);
    else if (slot_lives(i) && slot_at(i)->phase != CHURN_OUTSIDE &&
             now_ns > slot_at(i)->phase_ns + HANG_NS)
      story_fail("a process hangs", i);
  }
  if (story.is_cut && count_slots(slot_is_disturbed) == 0) {
    virtual_machine_cut(story.cut_machine, false);
    story.is_cut = false;
  }
}

static bool slot_begins(uint32_t i) {
  return slot_lives(i) && (slot_at(i)->founds || slot_at(i)->phase == CHURN_GREETING);
}

// A job that nobody is in any more begins anew.
static void job_watch(uint64_t now_ns) {
  uint32_t founder = slot_pick(slot_is_at_hand);
  if (count_slots(slot_is_inside) || count_slots(slot_begins) || founder == CHURN_SLOTS)
    story.lost_ns = now_ns;
  if (now_ns < story.lost_ns + LOST_NS)
    return;
  story.lost_ns = now_ns;
  slot_at(founder)->founds = 1;
  if (story.is_traced)
    fprintf(stderr, "elastic: %.3f s: slot %u begins a job\n", (double)now_ns / 1e9 - 1, founder);
}

static bool is_settled(void) {
  for (uint32_t i = 0; i < story.slots; i++) {
    const struct churn_slot *s = slot_at(i);
    if (slot_lives(i) && s->wants_in &&
        (s->job != churn_story->job || !s->job || s->rounds < SETTLED_ROUNDS))
      return false;
  }
  return true;
}

static bool turn(void) {
  uint64_t due_ns = virtual_mesh_turn();
  uint64_t now_ns = script_now_ns();
  uint64_t most_ns = now_ns + random_log(&story.random, 20000, 2 * MS_NS);
  slots_watch(now_ns);
  if (!churn_story->is_over)
    job_watch(now_ns);
  due_ns = due_ns < most_ns ? due_ns : most_ns;
  due_ns = due_ns > now_ns ? due_ns : now_ns + 1000;
  const struct timespec pause = {0, (long)(due_ns - now_ns)};
  nanosleep(&pause, NULL);
  return true;
}

static void story_act(void) {
  uint64_t most =
      story.is_lively ? 4 + random_below(&story.random, 16) : 10 + random_below(&story.random, 20);
  uint64_t longest_ns = (story.is_lively ? 300 : 100) * MS_NS;
  uint64_t end_ns = script_now_ns() + STORY_NS;
  while (story.events < most) {
    if (script_now_ns() > end_ns)
      story_fail("nothing happens any more", 0);
    if (script_now_ns() >= story.event_ns) {
      uint64_t before = story.events;
      event_happen();
      story.event_ns =
          script_now_ns() +
          (story.events > before ? random_log(&story.random, MS_NS, longest_ns) : 20 * MS_NS);
    }
    turn();
  }
}

static void story_calm(void) {
  uint64_t end_ns = script_now_ns() + SETTLE_NS;
  for (uint32_t i = 0; i < story.slots; i++)
    if (slot_is_disturbed(i))
      slot_continue(i);
  while (story.is_lively && !is_settled()) {
    turn();
    if (script_now_ns() > end_ns)
      story_fail("the members are not back in one job", 0);
  }
}

static void story_end(void) {
  uint64_t end_ns = script_now_ns() + SETTLE_NS;
  churn_story->is_over = 1;
  for (uint32_t i = 0; i < story.slots; i++)
    slot_at(i)->wants_in = 0;
  for (;;) {
    uint32_t left = 0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < story.slots; i++)
      if (slot_lives(i) && !elastic_process_has_ended(story.process_of[i])) {
        left++;
        last = i;
      }
    if (!left)
      return;
    turn();
    if (script_now_ns() > end_ns)
      story_fail("not all have left", last);
  }
}

static void story_tell(uint64_t seed) {
  story.seed = seed;
  story.random.state = random_mix(seed + 11);
  struct random *r = &story.random;
  const struct script_options script = {.seed = seed,
                                        .stay = (uint32_t)random_log(r, 1, 64),
                                        .point_ns = (uint32_t)random_log(r, 2000, 20000),
                                        .max_points = 30000000,
                                        .events = {.began = virtual_thread_began}};
  story.slots = 3 + random_below(r, 4);
  story.machines = 1 + random_below(r, 3);
  churn_story = calloc(1, sizeof *churn_story + RECORDS * sizeof(struct churn_record));
  if (!churn_story)
    abort();
  churn_story->record_count = RECORDS;
  for (uint32_t i = 0; i < CHURN_SLOTS; i++)
    story.process_of[i] = VIRTUAL_NOBODY;
  virtual_mesh_begin(r, random_log(r, 100000, 3 * MS_NS));
  elastic_begin(r);
  script_begin(&script);
  story.lost_ns = script_now_ns();
  uint32_t first = 2 + random_below(r, story.slots - 1);
  for (uint32_t i = 0; i < first; i++)
    process_start(i);
  slot_at(0)->founds = 1;
  uint64_t settled_ns = script_now_ns() + SETTLE_NS;
  while (!is_settled()) {
    turn();
    if (script_now_ns() > settled_ns)
      story_fail("the job does not begin", 0);
  }
  story.event_ns = script_now_ns();
  story_act();
  story_calm();
  story_end();
}

// --------------------------------------------------------------------------- seeds ---

static const struct {
  const char *name;
  int fault;
  const char *findings[2]; // a part of one of them; the second may be null
} faults[] = {
    {"retry_commits_early", RONDO_FAULT_RETRY_COMMITS_EARLY, {"RONDO_ERR_INTERNAL", NULL}},
    {"retry_forgets_staged", RONDO_FAULT_RETRY_FORGETS_STAGED, {"RONDO_ERR_INTERNAL", NULL}},
    {"retry_ignores_flush", RONDO_FAULT_RETRY_IGNORES_FLUSH, {"RONDO_ERR_TIMEOUT", NULL}},
    {"minority_opens", RONDO_FAULT_MINORITY_OPENS, {"different epochs", NULL}},
    {"loss_untold", RONDO_FAULT_LOSS_UNTOLD, {"RONDO_ERR_TIMEOUT", NULL}},
    {"publish_before_data", RONDO_FAULT_PUBLISH_BEFORE_DATA, {"is wrong", "its sum"}},
};
static const char *const *expected; // the findings of the planted fault; null: none is planted

struct tally {
  uint64_t events, runs, fewer, syncs, votes;
};

static struct tally *tally;

static void tally_add(void) {
  tally->events += story.events;
  for (uint32_t i = 0; i < CHURN_SLOTS; i++) {
    tally->runs += slot_at(i)->runs;
    tally->fewer += slot_at(i)->fewer;
    tally->syncs += slot_at(i)->syncs;
    tally->votes += slot_at(i)->votes;
  }
}

// The lines of a story, of which the last one with FAILED is the finding.
static void lines_read(FILE *lines, char *finding, size_t bytes, bool prints) {
  char line[512];
  rewind(lines);
  while (fgets(line, sizeof line, lines)) {
    if (strstr(line, "FAILED") || strstr(line, "script: seed"))
      (void)snprintf(finding, bytes, "%s", line);
    if (prints)
      (void)fputs(line, stderr);
  }
}

// Tells the story of a seed in a process of its own: threads that were killed stay in it.
static bool seed_fails(uint64_t seed, char *finding, size_t bytes) {
  int state = 0;
  FILE *lines = tmpfile();
  if (!lines)
    abort();
  (void)fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    (void)dup2(fileno(lines), STDERR_FILENO);
    alarm(STORY_SECONDS);
    story_tell(seed);
    tally_add();
    elastic_exit(0);
  }
  if (child < 0 || waitpid(child, &state, 0) != child)
    abort();
  if (WIFSIGNALED(state))
    (void)snprintf(finding, bytes, "%s\n", strsignal(WTERMSIG(state)));
  if (state || story.is_traced)
    lines_read(lines, finding, bytes, story.is_traced);
  (void)fclose(lines);
  return state != 0;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static const char *mode_name(void) { return story.is_lively ? "liveness" : "safety"; }

static void tally_print(FILE *to, uint64_t seeds, double took) {
  fprintf(
      to,
      "%s: %llu seeds, %llu events, %llu runs (%llu of fewer), %llu states, %llu votes; %.1f s\n",
      mode_name(), (unsigned long long)seeds, (unsigned long long)tally->events,
      (unsigned long long)tally->runs, (unsigned long long)tally->fewer,
      (unsigned long long)tally->syncs, (unsigned long long)tally->votes, took);
}

static int run_seeds(uint64_t first, uint64_t count, uint64_t most_events) {
  double begun = seconds();
  double told = begun;
  uint64_t seed = first;
  char finding[512] = "";
  for (; seed < first + count && tally->events < most_events; seed++) {
    if (seconds() > told + PROGRESS_SECONDS) {
      told = seconds();
      tally_print(stderr, seed - first, told - begun);
    }
    if (!seed_fails(seed, finding, sizeof finding))
      continue;
    printf("%s, seed %llu: %sreplay: test_elastic_seeds --mode %s --first %llu --seeds 1 --trace\n",
           mode_name(), (unsigned long long)seed, finding, mode_name(), (unsigned long long)seed);
    return !expected ||
           !(strstr(finding, expected[0]) || (expected[1] && strstr(finding, expected[1])));
  }
  tally_print(stdout, seed - first, seconds() - begun);
  return expected != NULL;
}

// A seed means the same each time only if memory lies at the same addresses.
static void addresses_fix(char **argv) {
  int now = personality(UINT32_MAX);
  if (now < 0 || now & ADDR_NO_RANDOMIZE || personality((unsigned long)now | ADDR_NO_RANDOMIZE) < 0)
    return;
  (void)execv("/proc/self/exe", argv);
}

static bool read_fault(const char *name) {
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
    if (strcmp(name, faults[i].name) == 0) {
      rondo_fault_planted = faults[i].fault;
      expected = faults[i].findings;
    }
  return rondo_fault_planted != 0;
}

int main(int argc, char **argv) {
  static const struct option names[] = {{"mode", 1, NULL, 'm'},  {"seeds", 1, NULL, 's'},
                                        {"first", 1, NULL, 'f'}, {"fault", 1, NULL, 'p'},
                                        {"trace", 0, NULL, 't'}, {"events", 1, NULL, 'e'},
                                        {NULL, 0, NULL, 0}};
  uint64_t first = 0;
  uint64_t seeds = 100;
  uint64_t events = UINT64_MAX;
  bool is_good = true;
  addresses_fix(argv);
  for (int c; is_good && (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
    if (c == 's')
      seeds = strtoull(optarg, NULL, 10);
    else if (c == 'f')
      first = strtoull(optarg, NULL, 10);
    else if (c == 'e')
      events = strtoull(optarg, NULL, 10);
    else if (c == 'm')
      story.is_lively = strcmp(optarg, "liveness") == 0;
    else if (c == 't')
      story.is_traced = true;
    else
      is_good = c == 'p' && read_fault(optarg);
  }
  if (!is_good) {
    fprintf(stderr, "usage: test_elastic_seeds [--mode safety|liveness] [--seeds N] [--first N] "
                    "[--events N] [--fault NAME] [--trace]\n");
    return 2;
  }
  (void)setenv("RONDO_LOG", "off", 0);
  tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (tally == MAP_FAILED)
    return 2;
  return run_seeds(first, seeds, events);
}
