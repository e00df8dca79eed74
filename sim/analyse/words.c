#include "sim/analyse/report.h"

#include <stdlib.h>

#include "sim/analyse/arrays.h"

#define MOST_RANGES 20
#define MOST_TEXTS 16
#define OUTCOMES RONDO_ANALYSE_OUTCOME_COUNT

// An empty text that is valid until MOST_TEXTS more are made; the next one reuses its memory.
static struct rondo_sim_text *text_new(void) {
  static struct rondo_sim_text texts[MOST_TEXTS];
  static unsigned next;
  struct rondo_sim_text *t = &texts[next++ % MOST_TEXTS];
  rondo_sim_text_clear(t);
  return t;
}

const char *rondo_analyse_words_rank(const struct rondo_analyse_job *job, uint32_t rank) {
  const struct rondo_analyse_rank *r = &job->ranks[rank];
  struct rondo_sim_text *t = text_new();
  if (r->number >= 0) {
    rondo_sim_text_add(t, "rank %lld", (long long)r->number);
  } else {
    rondo_sim_text_add(t, "process %s:%lld", rondo_analyse_job_text(job, r->host),
                       (long long)r->pid);
  }
  return rondo_sim_text_str(t);
}

const char *rondo_analyse_words_ranks(const struct rondo_analyse_job *job, const uint32_t *ranks,
                                      size_t count) {
  struct rondo_sim_text *t = text_new();
  if (count == 1 || (count && job->ranks[ranks[0]].number < 0)) {
    rondo_sim_text_add(t, "%s", rondo_analyse_words_rank(job, ranks[0]));
    if (count > 1) {
      rondo_sim_text_add(t, " and %zu others", count - 1);
    }
    return rondo_sim_text_str(t);
  }
  uint32_t *sorted = rondo_sim_alloc(count * sizeof *sorted);
  if (count) {
    memcpy(sorted, ranks, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, rondo_analyse_compare_u32);
  }
  rondo_sim_text_add(t, "ranks ");
  size_t ranges = 0;
  for (size_t i = 0; i < count;) {
    size_t end = i;
    while (end + 1 < count &&
           job->ranks[sorted[end + 1]].number == job->ranks[sorted[end]].number + 1) {
      end++;
    }
    if (++ranges > MOST_RANGES) {
      rondo_sim_text_add(t, ", ...");
      break;
    }
    rondo_sim_text_add(t, i ? ", %lld" : "%lld", (long long)job->ranks[sorted[i]].number);
    if (end > i) {
      rondo_sim_text_add(t, end == i + 1 ? ", %lld" : "-%lld",
                         (long long)job->ranks[sorted[end]].number);
    }
    i = end + 1;
  }
  free(sorted);
  return rondo_sim_text_str(t);
}

const char *rondo_analyse_words_group(const struct rondo_analyse_job *job, uint32_t group) {
  struct rondo_sim_text *t = text_new();
  const char *desc = rondo_analyse_job_text(job, job->groups[group].desc);
  rondo_sim_text_add(t, "group \"%s\"", rondo_analyse_job_text(job, job->groups[group].name));
  if (*desc && strcmp(desc, "undefined") != 0) {
    rondo_sim_text_add(t, " (%s)", desc);
  }
  return rondo_sim_text_str(t);
}

const char *rondo_analyse_words_call(const struct rondo_analyse_job *job,
                                     const struct rondo_analyse_call *call) {
  struct rondo_sim_text *t = text_new();
  rondo_sim_text_add(t, "%s",
                     call->kind == RONDO_ANALYSE_OTHER ? rondo_analyse_job_text(job, call->name)
                                                       : rondo_analyse_kind_name(call->kind));
  if (call->kind == RONDO_ANALYSE_SEND || call->kind == RONDO_ANALYSE_RECV) {
    const char *way = call->kind == RONDO_ANALYSE_SEND ? "to" : "from";
    rondo_sim_text_add(t, " %s its member %d", way, call->peer);
  } else {
    rondo_sim_text_add(t, " number %lld", (long long)call->seq);
  }
  rondo_sim_text_add(t, " in %s", rondo_analyse_words_group(job, call->group));
  return rondo_sim_text_str(t);
}

const char *rondo_analyse_words_details(const struct rondo_analyse_job *job,
                                        const struct rondo_analyse_call *call) {
  struct rondo_sim_text *t = text_new();
  if (call->flags & RONDO_ANALYSE_COUNTS_KNOWN) {
    rondo_sim_text_add(t, ", %llu %s", (unsigned long long)call->in_count,
                       call->dtype ? rondo_analyse_dtype_name(call->dtype) : "elements");
  }
  if (call->shape) {
    rondo_sim_text_add(t, " %s", rondo_analyse_job_text(job, call->shape));
  }
  if (call->redop) {
    rondo_sim_text_add(t, ", %s", rondo_analyse_redop_name(call->redop));
  }
  if ((call->flags & RONDO_ANALYSE_ROOT_KNOWN) && call->peer >= 0) {
    rondo_sim_text_add(t, ", root %d", call->peer);
  }
  if (call->queue) {
    rondo_sim_text_add(t, call->flags & RONDO_ANALYSE_STREAM ? ", on stream %s" : ", thread %s",
                       rondo_analyse_job_text(job, call->queue));
  }
  if (call->site) {
    rondo_sim_text_add(t, ", called at %s", rondo_analyse_job_text(job, call->site));
  }
  return rondo_sim_text_str(t);
}

static const struct rondo_analyse_call *op_call(const struct rondo_analyse_job *job, uint32_t op) {
  const struct rondo_analyse_op *o = &job->ops[op];
  return &job->ranks[o->first_rank].calls[o->first_call];
}

static void headline_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  static const char *const headlines[OUTCOMES] = {
      [RONDO_ANALYSE_CIRCULAR_WAIT] = "CIRCULAR WAIT: an ordering deadlock between ",
      [RONDO_ANALYSE_MISMATCH] = "MISMATCH: the ranks called different things as one operation",
      [RONDO_ANALYSE_NEVER_CAME] = "A RANK NEVER CAME: ",
      [RONDO_ANALYSE_NO_CYCLE] = ("NOT AN ORDERING DEADLOCK: the order is consistent and there is "
                                  "no cycle; look at transport or a dead rank"),
      [RONDO_ANALYSE_NOTHING_WAITS] = "NOTHING WAITS: every collective in these files completed",
      [RONDO_ANALYSE_CANNOT_TELL] = "CANNOT TELL: what would decide it is not in these files"};
  const struct rondo_analyse_verdict *v = &a->verdict;
  bool never_came = v->outcome == RONDO_ANALYSE_NEVER_CAME;
  rondo_sim_text_add(t, "%s", headlines[v->outcome]);
  if (v->outcome == RONDO_ANALYSE_CIRCULAR_WAIT) {
    rondo_sim_text_add(t, "%zu ranks", v->turn_count);
  } else if (never_came) {
    rondo_sim_text_add(t, "%s", rondo_analyse_words_ranks(a->job, v->ranks, v->rank_count));
  }
  if (v->op != RONDO_ANALYSE_NO_OP && (never_came || v->outcome == RONDO_ANALYSE_MISMATCH)) {
    rondo_sim_text_add(t, never_came ? " did not call %s" : ", %s",
                       rondo_analyse_words_call(a->job, op_call(a->job, v->op)));
  }
}

// " 1.2 s", or nothing.
static const char *wait_words(const struct rondo_analyse_rank *r) {
  static const char *const units[] = {"ns", "us", "ms", "s"};
  struct rondo_sim_text *t = text_new();
  double time = (double)r->synchronises_ns;
  size_t unit = 0;
  for (; unit < 3 && time >= 1000; unit++) {
    time /= 1000;
  }
  if (time > 0) {
    rondo_sim_text_add(t, " %.0f %s", time, units[unit]);
  }
  return rondo_sim_text_str(t);
}

static void turn_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a,
                       const struct rondo_analyse_turn *turn) {
  static const char *const reasons[] = {
      [RONDO_ANALYSE_FRONT] = "it is in it",
      [RONDO_ANALYSE_BEHIND_GROUP] = "it called it, but behind an earlier call in the same group",
      [RONDO_ANALYSE_BEHIND_STREAM] = "it called it, but behind an earlier call on the same stream",
      [RONDO_ANALYSE_BEHIND_DEVICE] =
          "it called it, but the device has not started it while another call runs",
      [RONDO_ANALYSE_BEHIND_ORDER] =
          "it called it, but only after another call that has not completed",
      [RONDO_ANALYSE_NOT_CALLED] = "it has not called it"};
  const struct rondo_analyse_job *job = a->job;
  const struct rondo_analyse_pending *p = &a->waits.pending[turn->holder];
  const struct rondo_analyse_call *call = &job->ranks[p->rank].calls[p->call];
  rondo_sim_text_add(t, "%s is in %s%s (%s), and waits for %s there: %s",
                     rondo_analyse_words_rank(job, p->rank), rondo_analyse_words_call(job, call),
                     rondo_analyse_words_details(job, call), rondo_analyse_state_name(call->state),
                     rondo_analyse_words_rank(job, turn->absent), reasons[turn->reason]);
  const struct rondo_analyse_rank *absent = &job->ranks[turn->absent];
  if (turn->reason == RONDO_ANALYSE_NOT_CALLED && absent->synchronises) {
    rondo_sim_text_add(t, ", as its program has waited%s for its device, which is not idle",
                       wait_words(absent));
  }
  if (turn->absent_call != RONDO_ANALYSE_NO_PENDING) {
    uint32_t index = a->waits.pending[turn->absent_call].call;
    const struct rondo_analyse_call *queued = &job->ranks[turn->absent].calls[index];
    if (queued->site) {
      rondo_sim_text_add(t, " (called at %s)", rondo_analyse_job_text(job, queued->site));
    }
  }
  rondo_sim_text_add(t, ".\n");
}

static void assumed_words(struct rondo_sim_text *t, const struct rondo_analyse_job *job) {
  const char *comma = "";
  rondo_sim_text_add(t, "This takes all ranks to be members of ");
  for (uint32_t group = 0; group < job->group_count; group++) {
    if (job->groups[group].assumed) {
      rondo_sim_text_add(t, "%s%s", comma, rondo_analyse_words_group(job, group));
      comma = ", ";
    }
  }
  rondo_sim_text_add(t, ", as the files do not name them; --group NAME=RANKS says it better.\n");
}

static void cycle_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  const struct rondo_analyse_verdict *v = &a->verdict;
  for (size_t i = 0; i < v->turn_count; i++) {
    turn_words(t, a, &v->turns[i]);
  }
  rondo_sim_text_add(t, "So each waits for the next, and the last for the first: none of them can "
                        "go on.\n");
  if (v->members_assumed) {
    assumed_words(t, a->job);
  }
  rondo_sim_text_add(
      t, v->by_order   ? "How sure: likely. Every rank has called everything, in orders that "
                         "contradict each other; that hangs where the device does not run both "
                         "at once, and the files do not record what had started.\n"
         : v->inferred ? "How sure: nearly. That a rank which made no further call is waiting in "
                         "one that has not completed is an inference; its stack would confirm "
                         "it.\n"
                       : "How sure: certain. Every step is recorded.\n");
}

// The last operation that a rank completed.
static void last_completed_words(struct rondo_sim_text *t, const struct rondo_analyse_job *job,
                                 uint32_t rank) {
  const struct rondo_analyse_rank *r = &job->ranks[rank];
  const char *name = rondo_analyse_words_rank(job, rank);
  for (size_t i = r->call_count; i-- > 0;) {
    if (r->calls[i].state == RONDO_ANALYSE_COMPLETED) {
      rondo_sim_text_add(t, "The last that %s %s was %s%s.\n", name,
                         r->states_known ? "completed" : "must have completed",
                         rondo_analyse_words_call(job, &r->calls[i]),
                         rondo_analyse_words_details(job, &r->calls[i]));
      return;
    }
  }
  rondo_sim_text_add(t, "%s has completed nothing in its record.\n", name);
}

// The ranks that wait in the operation of the verdict; nothing if there is none.
static void waiting_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  uint32_t op = a->verdict.op;
  size_t places = op == RONDO_ANALYSE_NO_OP ? 0 : rondo_analyse_op_places(a->job, op), count = 0;
  uint32_t *ranks = rondo_sim_alloc(places * sizeof *ranks);
  for (size_t place = 0; place < places; place++) {
    enum rondo_analyse_standing s = rondo_analyse_stands(&a->waits, op, place, NULL);
    if (s == RONDO_ANALYSE_STANDS_IN || s == RONDO_ANALYSE_STANDS_BEHIND) {
      ranks[count++] = rondo_analyse_op_rank(a->job, op, place);
    }
  }
  if (count) {
    const struct rondo_analyse_call *call = op_call(a->job, op);
    rondo_sim_text_add(t, "%s %s in %s%s.\n", rondo_analyse_words_ranks(a->job, ranks, count),
                       count == 1 ? "waits" : "wait", rondo_analyse_words_call(a->job, call),
                       rondo_analyse_words_details(a->job, call));
  }
  free(ranks);
}

// "rank 3 (host a, pid 17, GPU 0)".
static const char *process_words(const struct rondo_analyse_job *job, uint32_t rank) {
  const struct rondo_analyse_rank *r = &job->ranks[rank];
  struct rondo_sim_text *t = text_new();
  rondo_sim_text_add(t, "%s", rondo_analyse_words_rank(job, rank));
  if (r->pid >= 0 && r->number >= 0) {
    rondo_sim_text_add(t, " (host %s, pid %lld", rondo_analyse_job_text(job, r->host),
                       (long long)r->pid);
    rondo_sim_text_add(t, r->device >= 0 ? ", GPU %lld)" : ")", (long long)r->device);
  }
  return rondo_sim_text_str(t);
}

static void counts_words(struct rondo_sim_text *t, const struct rondo_analyse_job *job,
                         uint32_t group) {
  const struct rondo_analyse_group *g = &job->groups[group];
  for (size_t i = 0; i < g->member_count && i < 64; i++) {
    const struct rondo_analyse_place *p = rondo_analyse_job_place(job, g->members[i], group);
    if (!p) {
      continue;
    }
    rondo_sim_text_add(t, "%s", process_words(job, g->members[i]));
    rondo_sim_text_add(
        t, job->ranks[g->members[i]].dead ? " does not answer" : " has begun %lld collectives",
        (long long)p->last.submitted);
    rondo_sim_text_add(t, p->counts ? " (%s).\n" : ".\n", rondo_analyse_job_text(job, p->counts));
  }
}

static void never_came_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  const struct rondo_analyse_verdict *v = &a->verdict;
  if (v->op == RONDO_ANALYSE_NO_OP) {
    counts_words(t, a->job, v->group);
    rondo_sim_text_add(t, "How sure: counts alone are known, no order. A rank that has begun "
                          "fewer collectives has not come to the next one.\n");
    return;
  }
  waiting_words(t, a);
  for (size_t i = 0; i < v->rank_count && i < 8; i++) {
    const struct rondo_analyse_rank *r = &a->job->ranks[v->ranks[i]];
    if (r->synchronises) {
      rondo_sim_text_add(t,
                         "%s has not called it: its program has waited%s for its device to be "
                         "idle (a device synchronisation). No collective runs there, so look at "
                         "what else the device does.\n",
                         process_words(a->job, v->ranks[i]), wait_words(r));
    } else {
      rondo_sim_text_add(t,
                         "%s has not called it, and waits in no other collective: it is busy or "
                         "stuck elsewhere, took another path, or is gone.\n",
                         process_words(a->job, v->ranks[i]));
    }
    last_completed_words(t, a->job, v->ranks[i]);
  }
  if (v->rank_count > 8) {
    rondo_sim_text_add(t, "... and %zu more ranks like these.\n", v->rank_count - 8);
  }
  rondo_sim_text_add(t, v->inferred ? "How sure: the files record calls, not completion; this is "
                                      "what is left when all that can complete has.\n"
                                    : "How sure: certain that it was not called, as far as the "
                                      "record goes.\n");
}

// One side of a mismatch: the ranks whose calls agree with that of the caller `first`.
static void side_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a,
                       size_t first, size_t end, bool *done) {
  uint32_t *ranks = rondo_sim_alloc((end - first) * sizeof *ranks);
  size_t count = 0;
  const struct rondo_analyse_caller *callers = a->callers.items;
  const struct rondo_analyse_rank *r = &a->job->ranks[callers[first].rank];
  const struct rondo_analyse_call *call = &r->calls[callers[first].call];
  for (size_t i = first; i < end; i++) {
    const struct rondo_analyse_call *other = &a->job->ranks[callers[i].rank].calls[callers[i].call];
    if (!done[i - first] && !rondo_analyse_calls_differ(call, other)) {
      done[i - first] = true;
      ranks[count++] = callers[i].rank;
    }
  }
  rondo_sim_text_add(t, "%s: %s%s (%s).\n", rondo_analyse_words_ranks(a->job, ranks, count),
                     rondo_analyse_kind_name(call->kind), rondo_analyse_words_details(a->job, call),
                     r->states_known ? rondo_analyse_state_name(call->state) : "called");
  free(ranks);
}

static void mismatch_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  // In the order of the bits of enum rondo_analyse_difference.
  static const char *const differences[] = {"operation", "size", "type", "reduction", "root"};
  const struct rondo_analyse_op *o = &a->job->ops[a->verdict.op];
  const char *comma = "";
  size_t begin = a->callers.first[a->verdict.op], end = a->callers.first[a->verdict.op + 1];
  bool *done = rondo_sim_calloc(end - begin, sizeof *done);
  rondo_sim_text_add(t, "Number %lld in %s differs in ", (long long)o->seq,
                     rondo_analyse_words_group(a->job, o->group));
  for (size_t i = 0; i < sizeof differences / sizeof *differences; i++) {
    if (o->differences >> i & 1) {
      rondo_sim_text_add(t, "%s%s", comma, differences[i]);
      comma = ", ";
    }
  }
  rondo_sim_text_add(t, ":\n");
  for (size_t i = begin; i < end; i++) {
    if (!done[i - begin]) {
      side_words(t, a, i, end, done + (i - begin));
    }
  }
  free(done);
}

static void no_cycle_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  const struct rondo_analyse_verdict *v = &a->verdict;
  if (v->op != RONDO_ANALYSE_NO_OP) {
    waiting_words(t, a);
    rondo_sim_text_add(t, "Every member of the group has called it, nothing stands in front of it "
                          "on any of them, and what they called is the same. So the ranks agree, "
                          "and the data does not arrive: a link, a network card, a rank whose "
                          "process or GPU died, or a device that never began the kernel.\n");
    rondo_sim_text_add(t, v->inferred ? "How sure: certain of the order; the files do not record "
                                        "whether it had started.\n"
                                      : "How sure: certain. It is recorded as started everywhere "
                                        "it waits.\n");
  } else if (a->job->family == RONDO_ANALYSE_FAMILY_RAS) {
    rondo_sim_text_add(t, "All members of each communicator answer and have begun the same number "
                          "of collectives. Counts do not show an order; Flight Recorder dumps or "
                          "NCCL logs would.\n");
  } else {
    rondo_sim_text_add(t, "Every call of every rank finds its counterparts when the calls are "
                          "played through in their recorded order, communicator by communicator "
                          "and stream by stream. The files record calls, not completion.\n");
  }
}

static void cannot_tell_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  const struct rondo_analyse_verdict *v = &a->verdict;
  waiting_words(t, a);
  if (v->members_unknown) {
    rondo_sim_text_add(t,
                       "All ranks that were ever seen in that group are in it. The files do not "
                       "say whether others belong to it too; if one does, it never came. Say "
                       "who is in it with --group \"%s=0,1,2\".\n",
                       rondo_analyse_job_text(a->job, a->job->groups[v->group].name));
  }
  size_t gone = 0;
  for (size_t i = 0; i < v->rank_count; i++) {
    gone += !a->job->ranks[v->ranks[i]].present;
  }
  if (v->rank_count) {
    rondo_sim_text_add(t,
                       gone ? "Missing: the files of %s. What they did would decide it.\n"
                            : "The files of %s are cut off, or their rings have overwritten what "
                              "would tell. A larger ring (TORCH_FR_BUFFER_SIZE) keeps more.\n",
                       rondo_analyse_words_ranks(a->job, v->ranks, v->rank_count));
  }
  if (v->unknown_members) {
    rondo_sim_text_add(t,
                       "Nothing is known of %llu members of the group: their files are "
                       "missing.\n",
                       (unsigned long long)v->unknown_members);
  }
  if (!a->job->call_count && a->job->family != RONDO_ANALYSE_FAMILY_RAS) {
    rondo_sim_text_add(t, "There is not one collective in these files. Was the recorder on "
                          "(TORCH_FR_BUFFER_SIZE above 0)?\n");
  }
}

static void nothing_waits_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  (void)a;
  rondo_sim_text_add(t, "If the job hung all the same, it hung outside these collectives: in "
                        "other code, in a data loader, or before the first call that is not "
                        "recorded.\n");
}

// Calls at the front whose streams have not come to them.
static void streams_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  size_t count = 0;
  for (uint32_t rank = 0; rank < a->job->rank_count; rank++) {
    for (uint32_t i = a->waits.front_first[rank]; i < a->waits.front_first[rank + 1]; i++) {
      const struct rondo_analyse_pending *p = &a->waits.pending[a->waits.front[i]];
      const struct rondo_analyse_call *call = &a->job->ranks[rank].calls[p->call];
      if ((call->flags & RONDO_ANALYSE_AWAITS_STREAM) && count++ < MOST_RANGES) {
        rondo_sim_text_add(t,
                           "%s waits for the device in %s: the stream of that run has not come to "
                           "it. Look at what it does before.\n",
                           rondo_analyse_words_rank(a->job, rank),
                           rondo_analyse_words_call(a->job, call));
      }
    }
  }
  if (count > MOST_RANGES) {
    rondo_sim_text_add(t, "... and %zu more runs like these.\n", count - MOST_RANGES);
  }
}

static void explanation_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  static void (*const explain[OUTCOMES])(struct rondo_sim_text *,
                                         const struct rondo_analyse_analysis *) = {
      [RONDO_ANALYSE_CIRCULAR_WAIT] = cycle_words,
      [RONDO_ANALYSE_MISMATCH] = mismatch_words,
      [RONDO_ANALYSE_NEVER_CAME] = never_came_words,
      [RONDO_ANALYSE_NO_CYCLE] = no_cycle_words,
      [RONDO_ANALYSE_NOTHING_WAITS] = nothing_waits_words,
      [RONDO_ANALYSE_CANNOT_TELL] = cannot_tell_words};
  explain[a->verdict.outcome](t, a);
  streams_words(t, a);
}

static void parted_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a,
                         int side) {
  const struct rondo_analyse_divergence *d = &a->verdict.divergence;
  const char *rank = rondo_analyse_words_rank(a->job, d->ranks[side]);
  if (d->calls[side] < 0) {
    rondo_sim_text_add(t, "%s calls nothing more that both take part in", rank);
    return;
  }
  const struct rondo_analyse_call *call = &a->job->ranks[d->ranks[side]].calls[d->calls[side]];
  rondo_sim_text_add(t, "%s calls %s", rank, rondo_analyse_words_call(a->job, call));
  if (call->site) {
    rondo_sim_text_add(t, " at %s", rondo_analyse_job_text(a->job, call->site));
  }
}

static void divergence_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  const struct rondo_analyse_divergence *d = &a->verdict.divergence;
  if (a->verdict.outcome == RONDO_ANALYSE_MISMATCH) {
    rondo_sim_text_add(t,
                       "The mismatch is the first of %zu in the record; what hangs after it "
                       "follows from it.\n",
                       a->verdict.mismatch_count);
    return;
  }
  if (!d->found) {
    return;
  }
  if (d->common[0] >= 0) {
    const struct rondo_analyse_call *common = &a->job->ranks[d->ranks[0]].calls[d->common[0]];
    rondo_sim_text_add(t, "Up to and including %s both call the same in the same order. Then ",
                       rondo_analyse_words_call(a->job, common));
  } else {
    rondo_sim_text_add(t, "From the first call on that both take part in, ");
  }
  parted_words(t, a, 0);
  rondo_sim_text_add(t, ", and ");
  parted_words(t, a, 1);
  rondo_sim_text_add(t, ".\n");
  if (d->survived) {
    rondo_sim_text_add(t, "%llu earlier differences of order were survived.\n",
                       (unsigned long long)d->survived);
  }
}

static void prevention_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  static const char *const preventions[OUTCOMES] = {
      [RONDO_ANALYSE_NOTHING_WAITS] = "",
      [RONDO_ANALYSE_CIRCULAR_WAIT] =
          "With NCCL 2.26 or newer, NCCL_LAUNCH_ORDER_IMPLICIT=1 keeps the launch order of one "
          "process; it does not help where the calls themselves come in different orders.\n"
          "Under Rondo the order is free: a collective that is stuck is set aside and the other "
          "one runs.\n",
      [RONDO_ANALYSE_MISMATCH] =
          "Compare the two call sites: a branch on the rank, an uneven last batch, a tensor whose "
          "size depends on data.\n"
          "TORCH_DISTRIBUTED_DEBUG=DETAIL checks every call, at a price. Rondo compares "
          "descriptors "
          "when a collective is registered and ends its runs with RONDO_ERR_MISMATCH on both "
          "sides.\n",
      [RONDO_ANALYSE_NEVER_CAME] =
          "Look at that rank's stack (py-spy dump --pid) and its log: a branch that skips the "
          "call, "
          "a data loader that ended early, an exception that was swallowed, a process that died.\n"
          "Under Rondo the waiting ranks' runs end with an error that names it.\n",
      [RONDO_ANALYSE_NO_CYCLE] =
          "Look at dmesg for Xid errors, at the network's counters and links, at NCCL WARN lines, "
          "and at whether every process and GPU still lives (ncclras, nvidia-smi).\n"
          "If several groups are busy at once, the device may be unable to run their kernels side "
          "by side: try CUDA_DEVICE_MAX_CONNECTIONS=1 or NCCL_LAUNCH_ORDER_IMPLICIT=1.\n",
      [RONDO_ANALYSE_CANNOT_TELL] =
          "Collect one file from every rank: set TORCH_FR_BUFFER_SIZE and "
          "TORCH_NCCL_DUMP_ON_TIMEOUT=1, or log with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL "
          "to one file a process.\n"};
  if (a->verdict.outcome == RONDO_ANALYSE_CIRCULAR_WAIT) {
    bool facing = a->job->ops[a->verdict.op].source >= 0;
    rondo_sim_text_add(t, facing
                              ? "Sends and receives that face each other need one launch on "
                                "both sides (batch_isend_irecv, ncclGroupStart), or let one "
                                "side send first.\n"
                              : "Make these calls in one order on all ranks: from one thread, or "
                                "with a lock or an event between the groups.\n");
  }
  rondo_sim_text_add(t, "%s", preventions[a->verdict.outcome]);
}

const char *const rondo_analyse_titles[RONDO_ANALYSE_PART_COUNT] = {
    "Verdict", "Why", "First divergence", "What would have prevented it, and what to do now"};

const char *rondo_analyse_words(const struct rondo_analyse_analysis *a,
                                enum rondo_analyse_part part) {
  static void (*const parts[RONDO_ANALYSE_PART_COUNT])(struct rondo_sim_text *,
                                                       const struct rondo_analyse_analysis *) = {
      headline_words, explanation_words, divergence_words, prevention_words};
  static struct rondo_sim_text t; // a text of text_new() would not last
  rondo_sim_text_clear(&t);
  parts[part](&t, a);
  return rondo_sim_text_str(&t);
}
