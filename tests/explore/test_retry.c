// Explores runs that are taken up again after a loss (runtime/rank/retry_state.h), by seed: members
// do runs of one collective while some of them die at any step. The rules are the library's; data,
// agreement and flush are modelled as what an all-reduce promises. It can end with success on a
// member only when all its members have submitted it, and with an error only when the member has
// learned that one of them is lost.
//
//   test_retry --seeds N [--first N] [--fault NAME]
//
// With a fault the first finding must be the one that the table below names.
//
// Checked: all members that live end all runs, and with the same result, which contains their own
// input. Nobody waits for ever.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/rank/retry_state.h"
#include "tests/explore/random.h"
#include "tests/explore/seeds.h"

#define MEMBERS 5u
#define RUNS 6u
#define MOST_OPS 400u
#define MOST_STEPS 20000u
#define GARBAGE UINT32_MAX

int rondo_fault_planted;

// Findings.
#define DIFFERING "two members that live have different results of a run"
#define UNSTAGED "a member that has not staged a run is to commit it"
#define HANGS "a member waits for ever"

static const struct explore_fault faults[] = {
    {"commits_early", RONDO_FAULT_RETRY_COMMITS_EARLY, UNSTAGED},
    {"forgets_staged", RONDO_FAULT_RETRY_FORGETS_STAGED, UNSTAGED},
    {"ignores_flush", RONDO_FAULT_RETRY_IGNORES_FLUSH, HANGS},
};

enum part { DATA, AGREE };

// The n-th all-reduce of one part, by the members of one view.
struct op {
  uint32_t view, part, number;
  uint32_t given; // a bit a member that has submitted it
  uint32_t most;  // largest number that has been given
};

struct member {
  struct rondo_retry_state state;
  bool is_dead;
  uint32_t known, view;   // how many losses it knows of, and those of its current view
  uint32_t numbers[2];    // of its all-reduces in this view, by part
  uint32_t op;            // of the one that is outstanding
  uint32_t wanted;        // runs that its application has submitted
  uint32_t ended;         // runs that have ended
  uint32_t staged;        // of whom the staging buffer has the sum: a bit a member
  uint32_t results[RUNS]; // of whom the results are
};

struct world {
  struct random random;
  uint32_t members, crashes;
  struct member m[MEMBERS];
  uint32_t losses[MEMBERS], loss_count; // in the order of epochs
  struct op ops[MOST_OPS];
  uint32_t op_count;
  char finding[EXPLORE_FINDING_BYTES];
};

static void world_fail(struct world *w, const char *text, uint32_t i) {
  if (!*w->finding)
    (void)snprintf(w->finding, sizeof w->finding, "member %u: %s", i, text);
}

static uint32_t members_of(const struct world *w, uint32_t view) {
  uint32_t members = (1u << w->members) - 1;
  for (uint32_t i = 0; i < view; i++)
    members &= ~(1u << w->losses[i]);
  return members;
}

static void member_submit(struct world *w, uint32_t i, enum part part, uint32_t value) {
  struct member *m = &w->m[i];
  const struct op key = {.view = m->view, .part = part, .number = m->numbers[part]++};
  m->op = 0;
  while (m->op < w->op_count && (w->ops[m->op].view != key.view || w->ops[m->op].part != key.part ||
                                 w->ops[m->op].number != key.number))
    m->op++;
  if (m->op == MOST_OPS) {
    world_fail(w, "the members submit without end", i);
    m->op = 0;
    return;
  }
  if (m->op == w->op_count)
    w->ops[w->op_count++] = key;
  w->ops[m->op].given |= 1u << i;
  if (value > w->ops[m->op].most)
    w->ops[m->op].most = value;
}

static void member_begin(struct world *w, uint32_t i) {
  rondo_retry_begin(&w->m[i].state);
  w->m[i].staged = GARBAGE;
  member_submit(w, i, DATA, 0);
}

static void member_commit(struct world *w, uint32_t i) {
  w->m[i].results[w->m[i].ended++] = w->m[i].staged;
}

static void member_end_flush(struct world *w, uint32_t i) {
  struct member *m = &w->m[i];
  switch (rondo_retry_flushed(&m->state, m->ended, w->ops[m->op].most)) {
  case RONDO_RETRY_COMMIT:
    member_commit(w, i);
    break;
  case RONDO_RETRY_DEFECT:
    world_fail(w, UNSTAGED, i);
    break;
  default:
    break;
  }
}

// ------------------------------------------------------------------------- events ---

static bool is_busy(const struct member *m) {
  return m->state.phase == RONDO_RETRY_DATA || m->state.phase == RONDO_RETRY_AGREE ||
         m->state.phase == RONDO_RETRY_FLUSH;
}

// What may happen to a member next; each returns false if it cannot.
static bool event_learn(struct world *w, uint32_t i) {
  if (w->m[i].known == w->loss_count)
    return false;
  w->m[i].known++;
  return true;
}

static bool event_want(struct world *w, uint32_t i) {
  if (w->m[i].wanted == RUNS)
    return false;
  w->m[i].wanted++;
  return true;
}

static bool event_begin(struct world *w, uint32_t i) {
  if (w->m[i].state.phase != RONDO_RETRY_IDLE || w->m[i].wanted == w->m[i].ended)
    return false;
  member_begin(w, i);
  return true;
}

static bool event_succeed(struct world *w, uint32_t i) {
  struct member *m = &w->m[i];
  if (!is_busy(m) || w->ops[m->op].given != members_of(w, m->view))
    return false;
  if (m->state.phase == RONDO_RETRY_FLUSH) {
    member_end_flush(w, i);
    return true;
  }
  if (m->state.phase == RONDO_RETRY_DATA)
    m->staged = w->ops[m->op].given;
  if (rondo_retry_succeed(&m->state) == RONDO_RETRY_COMMIT)
    member_commit(w, i);
  else
    member_submit(w, i, AGREE, 0);
  return true;
}

static bool event_break(struct world *w, uint32_t i) {
  struct member *m = &w->m[i];
  if (!is_busy(m) || m->known == m->view)
    return false;
  rondo_retry_break(&m->state);
  return true;
}

static bool event_flush(struct world *w, uint32_t i) {
  struct member *m = &w->m[i];
  if (m->known == m->view || !rondo_retry_can_flush(&m->state))
    return false;
  m->view = m->known;
  m->numbers[DATA] = m->numbers[AGREE] = 0;
  m->state.phase = RONDO_RETRY_FLUSH;
  member_submit(w, i, AGREE, m->ended);
  return true;
}

static bool (*const events[])(struct world *w, uint32_t i) = {
    event_learn, event_want, event_begin, event_succeed, event_break, event_flush};
#define EVENTS ((uint32_t)(sizeof events / sizeof *events))

// ---------------------------------------------------------------------- exploring ---

static void member_crash(struct world *w, uint32_t i) {
  if (w->m[i].is_dead)
    return;
  w->crashes--;
  w->m[i].is_dead = true;
  w->losses[w->loss_count++] = i;
}

// Lets one thing happen. Returns false if nothing can.
static bool world_step(struct world *w) {
  uint32_t choices[MEMBERS * EVENTS];
  uint32_t count = 0;
  if (w->crashes && random_chance(&w->random, 3))
    member_crash(w, random_below(&w->random, w->members));
  for (uint32_t i = 0; i < w->members; i++)
    for (uint32_t e = 0; e < EVENTS && !w->m[i].is_dead; e++)
      choices[count++] = i * EVENTS + e;
  while (count) {
    uint32_t at = random_below(&w->random, count);
    uint32_t choice = choices[at];
    if (events[choice % EVENTS](w, choice / EVENTS))
      return true;
    choices[at] = choices[--count];
  }
  return false;
}

static void world_check(struct world *w) {
  uint32_t first = 0;
  while (w->m[first].is_dead)
    first++;
  for (uint32_t i = 0; i < w->members; i++) {
    const struct member *m = &w->m[i];
    if (m->is_dead)
      continue;
    if (m->ended < RUNS)
      world_fail(w, HANGS, i);
    for (uint32_t run = 0; run < m->ended && run < w->m[first].ended; run++)
      if (m->results[run] != w->m[first].results[run] || !(m->results[run] >> i & 1) ||
          m->results[run] == GARBAGE)
        world_fail(w, DIFFERING, i);
  }
}

static bool story_fails(uint64_t seed, char *finding) {
  static struct world world;
  struct world *w = &world;
  uint32_t steps = 0;
  memset(w, 0, sizeof *w);
  w->random.state = seed;
  w->members = 2 + random_below(&w->random, MEMBERS - 1);
  w->crashes = random_below(&w->random, w->members);
  while (!*w->finding && steps < MOST_STEPS && world_step(w))
    steps++;
  if (steps == MOST_STEPS)
    world_fail(w, "the story does not end", 0);
  if (!*w->finding)
    world_check(w);
  memcpy(finding, w->finding, sizeof w->finding);
  return *finding;
}

int main(int argc, char **argv) {
  static const struct explore_stories stories = {story_fails, faults,
                                                 sizeof faults / sizeof *faults};
  return explore_seeds(argc, argv, &stories);
}
