// Finds where two ranks diverge. The calls of both ranks in groups that they share are visited side
// by side. A call that one rank made and the other has not made yet is "ahead". While nothing is
// ahead, the ranks are in step. A period out of step was survived if it ends with all its
// operations completed: calls on independent groups may swap without harm. The first period that
// was not survived is the divergence.
#include <stdlib.h>
#include <string.h>

#include "sim/analyse/verdict.h"
#include "sim/common/text.h"

struct side {
  const struct rondo_analyse_rank *rank;
  uint32_t rank_index;
  size_t at;      // next call to look at
  int64_t common; // last call made in step
  int64_t parted; // first call out of step; -1: none
  uint32_t ahead; // operations that it made and the other side has not made yet
};

struct walk {
  const struct rondo_analyse_job *job;
  uint8_t *ahead; // by operation: 1 + the side that is ahead with it
  bool *shared;   // by group
  struct side sides[2];
  bool unfinished; // an operation met while out of step has not completed
};

// Moves to the next call that both ranks could have made; false at the end.
static bool side_next(struct walk *w, struct side *s) {
  for (; s->at < s->rank->call_count; s->at++) {
    const struct rondo_analyse_call *call = &s->rank->calls[s->at];
    if (call->op != RONDO_ANALYSE_NO_OP && w->job->ops[call->op].source < 0 &&
        w->shared[call->group]) {
      return true;
    }
  }
  return false;
}

static void side_step(struct walk *w, int which) {
  struct side *s = &w->sides[which];
  struct side *other = &w->sides[!which];
  uint32_t op = s->rank->calls[s->at].op;
  w->unfinished |= rondo_analyse_op_waits(w->job, op);
  s->parted = s->parted < 0 ? (int64_t)s->at : s->parted;
  if (w->ahead[op] == 2 - which) { // the other side was ahead with it
    w->ahead[op] = 0;
    other->ahead--;
  } else if (!w->ahead[op]) {
    w->ahead[op] = (uint8_t)(1 + which);
    s->ahead++;
  }
  s->at++;
}

static bool in_step(const struct walk *w) { return !w->sides[0].ahead && !w->sides[1].ahead; }

static void step_together(struct walk *w) {
  for (int i = 0; i < 2; i++) {
    w->sides[i].common = (int64_t)w->sides[i].at++;
    w->sides[i].parted = -1;
  }
}

// Visits a period out of step. Returns true if it was survived, so that the walk goes on.
static bool pass_difference(struct walk *w) {
  w->unfinished = false;
  w->sides[0].parted = w->sides[1].parted = -1;
  do {
    bool any = false;
    for (int i = 0; i < 2; i++) {
      if (side_next(w, &w->sides[i])) {
        side_step(w, i);
        any = true;
      }
    }
    if (!any) {
      return false;
    }
  } while (!in_step(w));
  return !w->unfinished;
}

// Rings begin at different calls, so both sides start at the first operation that the other side
// has, too.
static void calls_align(struct walk *w) {
  for (int i = 0; i < 2; i++) {
    struct side *s = &w->sides[i];
    while (side_next(w, s) && !(w->ahead[s->rank->calls[s->at].op] & (1 << (!i)))) {
      if (!s->rank->front_missing && !w->sides[!i].rank->front_missing) {
        break;
      }
      s->at++;
    }
  }
}

static void seen_mark(struct walk *w) {
  for (int i = 0; i < 2; i++) {
    struct side *s = &w->sides[i];
    for (s->at = 0; side_next(w, s); s->at++) {
      w->ahead[s->rank->calls[s->at].op] |= (uint8_t)(1 << i);
    }
    s->at = 0;
  }
}

static void shared_mark(struct walk *w, const struct rondo_analyse_job *job, uint32_t rank,
                        uint32_t other) {
  for (uint32_t group = 0; group < job->group_count; group++) {
    bool has_rank = false, has_other = false;
    for (size_t i = 0; i < job->groups[group].member_count; i++) {
      has_rank |= job->groups[group].members[i] == rank;
      has_other |= job->groups[group].members[i] == other;
    }
    w->shared[group] = has_rank && has_other;
  }
}

static void divergence_fill(struct walk *w, struct rondo_analyse_divergence *d) {
  d->found = true;
  for (int i = 0; i < 2; i++) {
    d->ranks[i] = w->sides[i].rank_index;
    d->calls[i] = w->sides[i].parted;
    d->common[i] = w->sides[i].common;
  }
}

static void walk_run(struct walk *w, struct rondo_analyse_divergence *d) {
  for (;;) {
    bool more = side_next(w, &w->sides[0]);
    bool other_more = side_next(w, &w->sides[1]);
    if (!more && !other_more) {
      return;
    }
    if (more && other_more &&
        w->sides[0].rank->calls[w->sides[0].at].op == w->sides[1].rank->calls[w->sides[1].at].op) {
      step_together(w);
    } else if (pass_difference(w)) {
      d->survived++;
    } else {
      if (w->unfinished) { // otherwise the records end out of step, with nothing that waits
        divergence_fill(w, d);
      }
      return;
    }
  }
}

void rondo_analyse_divergence_find(const struct rondo_analyse_analysis *a, uint32_t rank,
                                   uint32_t other, struct rondo_analyse_divergence *d) {
  const struct rondo_analyse_job *job = a->job;
  if (d->found || rank == other) {
    return;
  }
  struct walk w = {.job = job};
  w.ahead = rondo_sim_calloc(job->op_count, 1);
  w.shared = rondo_sim_calloc(job->group_count, sizeof *w.shared);
  w.sides[0] = (struct side){&job->ranks[rank], rank, 0, -1, -1, 0};
  w.sides[1] = (struct side){&job->ranks[other], other, 0, -1, -1, 0};
  shared_mark(&w, job, rank, other);
  seen_mark(&w);
  calls_align(&w);
  memset(w.ahead, 0, job->op_count);
  walk_run(&w, d);
  free(w.ahead);
  free(w.shared);
}
