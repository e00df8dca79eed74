#include "sim/analyse/verdict.h"

#include <stdlib.h>

#include "sim/analyse/arrays.h"

#define MOST_PAIRS 16 // pairs of ranks that are compared to find the first divergence

const char *rondo_analyse_outcome_name(int outcome) {
  static const char *const names[RONDO_ANALYSE_OUTCOME_COUNT] = {
      "nothing_waits", "cannot_tell", "no_cycle", "rank_never_came", "mismatch", "circular_wait"};
  return outcome >= 0 && outcome < RONDO_ANALYSE_OUTCOME_COUNT ? names[outcome] : names[1];
}

int rondo_analyse_outcome_exit_code(int outcome) {
  static const int codes[RONDO_ANALYSE_OUTCOME_COUNT] = {0, 14, 13, 11, 12, 10};
  return outcome >= 0 && outcome < RONDO_ANALYSE_OUTCOME_COUNT ? codes[outcome] : 14;
}

static int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }

// True if operation a was called before b; without times, the position in the record decides.
static bool op_earlier(const struct rondo_analyse_job *job, uint32_t a, uint32_t b) {
  const struct rondo_analyse_op *x = &job->ops[a], *y = &job->ops[b];
  int64_t at = job->ranks[x->first_rank].calls[x->first_call].created_ns;
  int64_t other = job->ranks[y->first_rank].calls[y->first_call].created_ns;
  return at != other ? at < other : x->first_call < y->first_call;
}

static void keep_earlier(const struct rondo_analyse_job *job, uint32_t *kept, uint32_t op) {
  if (*kept == RONDO_ANALYSE_NO_OP || op_earlier(job, op, *kept)) {
    *kept = op;
  }
}

static void rank_blame(struct rondo_analyse_verdict *v, uint32_t rank) {
  if (!v->is_blamed[rank]) {
    v->is_blamed[rank] = true;
    v->ranks[v->rank_count++] = rank;
  }
}

// True if every waiting call of this operation is at the front.
static bool all_at_front(const struct rondo_analyse_waits *w, uint32_t op) {
  for (size_t place = 0; place < rondo_analyse_op_places(w->job, op); place++) {
    if (rondo_analyse_stands(w, op, place, NULL) == RONDO_ANALYSE_STANDS_BEHIND) {
      return false;
    }
  }
  return true;
}

// A difference explains a hang if its operation hangs. An operation that completed explains a hang
// only if it proves that the ranks were out of step: its kinds differ, or anything differs in a
// format that records exactly what the library got.
static bool mismatch_counts(const struct rondo_analyse_waits *w, uint32_t op) {
  const struct rondo_analyse_op *o = &w->job->ops[op];
  if (rondo_analyse_op_waits(w->job, op)) {
    return all_at_front(w, op);
  }
  return (o->differences & RONDO_ANALYSE_DIFFERS_KIND) ||
         (w->job->family != RONDO_ANALYSE_FAMILY_TORCH && o->source < 0);
}

// Counts all differences; returns the earliest that explains the hang.
static uint32_t mismatch_find(struct rondo_analyse_analysis *a) {
  struct rondo_analyse_verdict *v = &a->verdict;
  uint32_t found = RONDO_ANALYSE_NO_OP;
  for (uint32_t op = 0; op < a->job->op_count; op++) {
    if (!a->job->ops[op].differences) {
      continue;
    }
    v->mismatch_count++;
    if (mismatch_counts(&a->waits, op)) {
      keep_earlier(a->job, &found, op);
    }
  }
  return found;
}

static void waits_again(struct rondo_analyse_analysis *a, bool by_order) {
  rondo_analyse_waits_fini(&a->waits);
  rondo_analyse_waits_init(&a->waits, a->job, &a->callers, by_order);
}

static bool cycle_find(struct rondo_analyse_analysis *a) {
  struct rondo_analyse_verdict *v = &a->verdict;
  v->turn_count = rondo_analyse_cycle_find(&a->waits, &v->turns);
  if (!v->turn_count) {
    waits_again(a, true);
    v->turn_count = rondo_analyse_cycle_find(&a->waits, &v->turns);
    v->by_order = v->turn_count > 0;
  }
  if (!v->turn_count) { // keep the stricter graph: it is what the record shows
    waits_again(a, false);
    return false;
  }
  for (size_t i = 0; i < v->turn_count; i++) {
    enum rondo_analyse_reason reason = v->turns[i].reason;
    bool is_recorded = a->job->ranks[v->turns[i].absent].synchronises;
    v->inferred |= (reason == RONDO_ANALYSE_NOT_CALLED && !is_recorded) ||
                   reason == RONDO_ANALYSE_BEHIND_ORDER || reason == RONDO_ANALYSE_BEHIND_DEVICE;
  }
  return true;
}

// Where the members of an operation that waits stand.
struct stand {
  uint32_t in, started, absent, busy, lost; // busy: absent and waiting in another operation
};

static struct stand stand_of(const struct rondo_analyse_analysis *a, uint32_t op) {
  const struct rondo_analyse_waits *w = &a->waits;
  struct stand s = {0};
  for (size_t place = 0; place < rondo_analyse_op_places(a->job, op); place++) {
    uint32_t pending;
    uint32_t rank = rondo_analyse_op_rank(a->job, op, place);
    switch (rondo_analyse_stands(w, op, place, &pending)) {
    case RONDO_ANALYSE_STANDS_IN:
      s.in++;
      s.started +=
          a->job->ranks[rank].calls[w->pending[pending].call].state == RONDO_ANALYSE_STARTED;
      break;
    case RONDO_ANALYSE_STANDS_BEHIND:
      s.busy++;
      break;
    case RONDO_ANALYSE_STANDS_DONE:
      break;
    case RONDO_ANALYSE_STANDS_ABSENT:
      if (w->front_first[rank] == w->front_first[rank + 1]) {
        s.absent++;
      } else {
        s.busy++;
      }
      break;
    default:
      s.lost++;
    }
  }
  return s;
}

// The earliest waiting operation of each sort.
struct sorts {
  uint32_t never_came, lost, complete, complete_started;
};

static struct sorts sorts_find(const struct rondo_analyse_analysis *a) {
  struct sorts sorts = {RONDO_ANALYSE_NO_OP, RONDO_ANALYSE_NO_OP, RONDO_ANALYSE_NO_OP,
                        RONDO_ANALYSE_NO_OP};
  for (uint32_t op = 0; op < a->job->op_count; op++) {
    if (!rondo_analyse_op_waits(a->job, op)) {
      continue;
    }
    struct stand s = stand_of(a, op);
    if (s.in && s.absent) {
      keep_earlier(a->job, &sorts.never_came, op);
    } else if (s.in && s.lost) {
      keep_earlier(a->job, &sorts.lost, op);
    } else if (s.in && !s.busy) {
      keep_earlier(a->job, &sorts.complete, op);
      if (s.started == s.in) {
        keep_earlier(a->job, &sorts.complete_started, op);
      }
    }
  }
  return sorts;
}

static void blame_standing(struct rondo_analyse_analysis *a, uint32_t op,
                           enum rondo_analyse_standing lowest) {
  struct rondo_analyse_verdict *v = &a->verdict;
  for (size_t place = 0; place < rondo_analyse_op_places(a->job, op); place++) {
    enum rondo_analyse_standing s = rondo_analyse_stands(&a->waits, op, place, NULL);
    uint32_t rank = rondo_analyse_op_rank(a->job, op, place);
    if (s < lowest || (lowest == RONDO_ANALYSE_STANDS_ABSENT && s != lowest)) {
      continue;
    }
    bool idle = rank == RONDO_ANALYSE_NO_RANK ||
                a->waits.front_first[rank] == a->waits.front_first[rank + 1];
    if (rank == RONDO_ANALYSE_NO_RANK) {
      v->unknown_members++;
    } else if (lowest != RONDO_ANALYSE_STANDS_ABSENT || idle) {
      rank_blame(v, rank);
    }
  }
}

// True if nothing names the members of a group and some rank with a file was never seen in it.
static bool others_could_belong(const struct rondo_analyse_job *job, uint32_t group) {
  const struct rondo_analyse_group *g = &job->groups[group];
  return !g->members_known && g->member_count < job->rank_count;
}

static void missing_files(struct rondo_analyse_analysis *a) {
  for (uint32_t rank = 0; rank < a->job->rank_count; rank++) {
    if (!a->job->ranks[rank].present || a->job->ranks[rank].cut_off) {
      rank_blame(&a->verdict, rank);
    }
  }
}

static void verdict_set(struct rondo_analyse_analysis *a, enum rondo_analyse_outcome outcome,
                        uint32_t op) {
  a->verdict.outcome = outcome;
  a->verdict.op = op;
  a->verdict.group = op == RONDO_ANALYSE_NO_OP ? UINT32_MAX : a->job->ops[op].group;
}

// True if some rank's completions were inferred.
static bool was_played(const struct rondo_analyse_job *job) {
  for (size_t i = 0; i < job->rank_count; i++) {
    if (job->ranks[i].present && !job->ranks[i].states_known) {
      return true;
    }
  }
  return false;
}

// Decides a job without a cycle and without a mismatch.
static void decide_rest(struct rondo_analyse_analysis *a) {
  struct sorts sorts = sorts_find(a);
  if (sorts.never_came != RONDO_ANALYSE_NO_OP) {
    verdict_set(a, RONDO_ANALYSE_NEVER_CAME, sorts.never_came);
    blame_standing(a, sorts.never_came, RONDO_ANALYSE_STANDS_ABSENT);
    a->verdict.inferred = was_played(a->job);
  } else if (sorts.complete_started != RONDO_ANALYSE_NO_OP &&
             !others_could_belong(a->job, a->job->ops[sorts.complete_started].group)) {
    verdict_set(a, RONDO_ANALYSE_NO_CYCLE, sorts.complete_started);
  } else if (sorts.lost != RONDO_ANALYSE_NO_OP) {
    verdict_set(a, RONDO_ANALYSE_CANNOT_TELL, sorts.lost);
    blame_standing(a, sorts.lost, RONDO_ANALYSE_STANDS_UNCLEAR);
  } else if (sorts.complete != RONDO_ANALYSE_NO_OP) {
    bool open = others_could_belong(a->job, a->job->ops[sorts.complete].group);
    verdict_set(a, open ? RONDO_ANALYSE_CANNOT_TELL : RONDO_ANALYSE_NO_CYCLE, sorts.complete);
    a->verdict.members_unknown = open;
    a->verdict.inferred = true; // nothing shows that it began to run
  } else {
    missing_files(a);
    verdict_set(a, RONDO_ANALYSE_NOTHING_WAITS, RONDO_ANALYSE_NO_OP);
    if (a->verdict.rank_count || a->job->call_count == 0) {
      a->verdict.outcome = RONDO_ANALYSE_CANNOT_TELL;
    } else if (was_played(a->job)) {
      a->verdict.outcome = RONDO_ANALYSE_NO_CYCLE;
      a->verdict.inferred = true;
    }
  }
}

// A member that has begun fewer collectives than another one has not come to the next; a member
// that does not answer has not come either.
static void decide_by_counts(struct rondo_analyse_analysis *a) {
  struct rondo_analyse_job *job = a->job;
  a->verdict.outcome = RONDO_ANALYSE_NO_CYCLE;
  a->verdict.inferred = true;
  for (uint32_t group = 0; group < job->group_count && !a->verdict.rank_count; group++) {
    const struct rondo_analyse_group *g = &job->groups[group];
    int64_t most = RONDO_ANALYSE_NOT_RECORDED;
    for (size_t i = 0; i < g->member_count; i++) {
      const struct rondo_analyse_place *p = rondo_analyse_job_place(job, g->members[i], group);
      most = p ? max_of(p->last.submitted, most) : most;
    }
    for (size_t i = 0; i < g->member_count; i++) {
      uint32_t rank = g->members[i];
      const struct rondo_analyse_place *p = rondo_analyse_job_place(job, rank, group);
      if (p && (p->last.submitted < most || job->ranks[rank].dead)) {
        rank_blame(&a->verdict, rank);
      }
      a->verdict.unknown_members += !p;
    }
    a->verdict.group = a->verdict.rank_count ? group : UINT32_MAX;
  }
  if (a->verdict.rank_count) {
    a->verdict.outcome = RONDO_ANALYSE_NEVER_CAME;
  } else if (a->verdict.unknown_members) {
    a->verdict.outcome = RONDO_ANALYSE_CANNOT_TELL;
  }
}

// The members that groups have if nothing names them: as seen, or else all ranks.
struct members {
  uint32_t *ranks;
  size_t count;
};

// Exchanges the members of all groups whose members nothing names.
static void members_swap(struct rondo_analyse_job *job, struct members *others, bool assumed) {
  for (size_t i = 0; i < job->group_count; i++) {
    struct rondo_analyse_group *g = &job->groups[i];
    if (!g->members_known) {
      struct members kept = {g->members, g->member_count};
      g->members = others[i].ranks;
      g->member_count = others[i].count;
      g->assumed = assumed;
      others[i] = kept;
    }
  }
}

// If nothing names the members of a group, assumes that all ranks are in it. A cycle that this
// closes says more than "cannot tell".
static void decide_assuming(struct rondo_analyse_analysis *a) {
  struct rondo_analyse_job *job = a->job;
  struct members *others = rondo_sim_calloc(job->group_count, sizeof *others);
  for (size_t i = 0; i < job->group_count; i++) {
    others[i] = (struct members){rondo_analyse_nones(job->rank_count), job->rank_count};
    for (uint32_t rank = 0; rank < job->rank_count; rank++) {
      others[i].ranks[rank] = rank;
    }
  }
  members_swap(job, others, true);
  waits_again(a, false);
  if (cycle_find(a)) {
    verdict_set(a, RONDO_ANALYSE_CIRCULAR_WAIT, a->waits.pending[a->verdict.turns[0].holder].op);
    a->verdict.inferred = a->verdict.members_assumed = true;
  } else {
    members_swap(job, others, false);
    waits_again(a, false);
  }
  for (size_t i = 0; i < job->group_count; i++) {
    free(others[i].ranks);
  }
  free(others);
}

static void divergence_decide(struct rondo_analyse_analysis *a) {
  struct rondo_analyse_verdict *v = &a->verdict;
  for (size_t i = 0; i < v->turn_count && i < MOST_PAIRS; i++) {
    uint32_t rank = a->waits.pending[v->turns[i].holder].rank;
    rondo_analyse_divergence_find(a, rank, v->turns[i].absent, &v->divergence);
  }
  if (v->turn_count || v->op == RONDO_ANALYSE_NO_OP) {
    return;
  }
  uint32_t first = a->job->ops[v->op].first_rank;
  for (size_t i = 0; i < v->rank_count && i < MOST_PAIRS; i++) {
    if (a->job->ranks[v->ranks[i]].present && v->outcome == RONDO_ANALYSE_NEVER_CAME) {
      rondo_analyse_divergence_find(a, first, v->ranks[i], &v->divergence);
    }
  }
}

// Notes how far each rank came in each of its groups.
static void progress_find(struct rondo_analyse_job *job) {
  for (uint32_t rank = 0; rank < job->rank_count; rank++) {
    struct rondo_analyse_rank *r = &job->ranks[rank];
    for (size_t i = 0; i < r->place_count; i++) {
      const struct rondo_analyse_progress *last = &r->places[i].last;
      r->places[i].reached = (struct rondo_analyse_progress){
          max_of(last->submitted, -1), max_of(last->started, -1), max_of(last->completed, -1)};
    }
    for (size_t i = 0; i < r->call_count; i++) {
      const struct rondo_analyse_call *call = &r->calls[i];
      struct rondo_analyse_place *place = rondo_analyse_job_place(job, rank, call->group);
      if (place && call->op != RONDO_ANALYSE_NO_OP && job->ops[call->op].source < 0) {
        struct rondo_analyse_progress *p = &place->reached;
        bool started = call->state >= RONDO_ANALYSE_STARTED;
        bool completed = call->state == RONDO_ANALYSE_COMPLETED;
        p->submitted = max_of(p->submitted, call->seq);
        p->started = max_of(p->started, started ? call->seq : -1);
        p->completed = max_of(p->completed, completed ? call->seq : -1);
      }
    }
  }
}

void rondo_analyse_analysis_init(struct rondo_analyse_analysis *a, struct rondo_analyse_job *job) {
  *a = (struct rondo_analyse_analysis){.job = job};
  a->verdict.op = RONDO_ANALYSE_NO_OP;
  a->verdict.group = UINT32_MAX;
  rondo_analyse_match(job);
  a->verdict.ranks = rondo_sim_calloc(job->rank_count + 1, sizeof *a->verdict.ranks);
  a->verdict.is_blamed = rondo_sim_calloc(job->rank_count + 1, sizeof *a->verdict.is_blamed);
  rondo_analyse_callers_init(&a->callers, job);
  if (was_played(job)) {
    rondo_analyse_play(job, &a->callers);
  }
  progress_find(job);
  rondo_analyse_waits_init(&a->waits, job, &a->callers, false);
  if (job->family == RONDO_ANALYSE_FAMILY_RAS) {
    decide_by_counts(a);
    return;
  }
  uint32_t mismatch = mismatch_find(a);
  if (mismatch != RONDO_ANALYSE_NO_OP) {
    verdict_set(a, RONDO_ANALYSE_MISMATCH, mismatch);
  } else if (cycle_find(a)) {
    verdict_set(a, RONDO_ANALYSE_CIRCULAR_WAIT, a->waits.pending[a->verdict.turns[0].holder].op);
  } else {
    decide_rest(a);
    if (a->verdict.members_unknown) {
      decide_assuming(a);
    }
  }
  divergence_decide(a);
}

void rondo_analyse_analysis_fini(struct rondo_analyse_analysis *a) {
  rondo_analyse_callers_fini(&a->callers);
  rondo_analyse_waits_fini(&a->waits);
  free(a->verdict.turns);
  free(a->verdict.ranks);
  free(a->verdict.is_blamed);
}
