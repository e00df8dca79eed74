#include "sim/analyse/words.h"

#include <stdlib.h>
#include <string.h>

#define MOST_RANGES 20

void rondo_analyse_words_rank(struct rondo_sim_text *t, const struct rondo_analyse_job *job,
                              uint32_t rank) {
  const struct rondo_analyse_rank *r = &job->ranks[rank];
  if (r->number >= 0) {
    rondo_sim_text_add(t, "rank %lld", (long long)r->number);
  } else {
    rondo_sim_text_add(t, "process %s:%lld", rondo_analyse_job_text(job, r->host),
                       (long long)r->pid);
  }
}

static int ranks_compare(const void *a, const void *b) {
  const uint32_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

void rondo_analyse_words_ranks(struct rondo_sim_text *t, const struct rondo_analyse_job *job,
                               const uint32_t *ranks, size_t count) {
  if (count == 1 || (count && job->ranks[ranks[0]].number < 0)) {
    rondo_analyse_words_rank(t, job, ranks[0]);
    if (count > 1) {
      rondo_sim_text_add(t, " and %zu others", count - 1);
    }
    return;
  }
  uint32_t *sorted = rondo_sim_alloc(count * sizeof *sorted);
  if (count) {
    memcpy(sorted, ranks, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, ranks_compare);
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
}

void rondo_analyse_words_group(struct rondo_sim_text *t, const struct rondo_analyse_job *job,
                               uint32_t group) {
  const struct rondo_analyse_group *g = &job->groups[group];
  const char *desc = rondo_analyse_job_text(job, g->desc);
  rondo_sim_text_add(t, "group \"%s\"", rondo_analyse_job_text(job, g->name));
  if (*desc && strcmp(desc, "undefined") != 0) {
    rondo_sim_text_add(t, " (%s)", desc);
  }
}

static const char *plain_name(const struct rondo_analyse_job *job,
                              const struct rondo_analyse_call *call) {
  return call->kind == RONDO_ANALYSE_OTHER ? rondo_analyse_job_text(job, call->name)
                                           : rondo_analyse_kind_name(call->kind);
}

void rondo_analyse_words_call(struct rondo_sim_text *t, const struct rondo_analyse_job *job,
                              const struct rondo_analyse_call *call) {
  rondo_sim_text_add(t, "%s", plain_name(job, call));
  if (call->kind == RONDO_ANALYSE_SEND) {
    rondo_sim_text_add(t, " to its member %d in ", call->peer);
  } else if (call->kind == RONDO_ANALYSE_RECV) {
    rondo_sim_text_add(t, " from its member %d in ", call->peer);
  } else {
    rondo_sim_text_add(t, " number %lld in ", (long long)call->seq);
  }
  rondo_analyse_words_group(t, job, call->group);
}

void rondo_analyse_words_details(struct rondo_sim_text *t, const struct rondo_analyse_job *job,
                                 const struct rondo_analyse_call *call) {
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
}

static const struct rondo_analyse_call *op_call(const struct rondo_analyse_job *job, uint32_t op) {
  const struct rondo_analyse_op *o = &job->ops[op];
  return &job->ranks[o->first_rank].calls[o->first_call];
}

char *rondo_analyse_words_text(void (*words)(struct rondo_sim_text *,
                                             const struct rondo_analyse_analysis *),
                               const struct rondo_analyse_analysis *a) {
  struct rondo_sim_text text = {0};
  words(&text, a);
  return text.data ? text.data : rondo_sim_strdup(""); // the caller owns the memory from here on
}

static const char *reason_words(enum rondo_analyse_reason reason) {
  switch (reason) {
  case RONDO_ANALYSE_BEHIND_GROUP:
    return "it called it, but behind an earlier call in the same group";
  case RONDO_ANALYSE_BEHIND_STREAM:
    return "it called it, but behind an earlier call on the same stream";
  case RONDO_ANALYSE_BEHIND_DEVICE:
    return "it called it, but the device has not started it while another call runs";
  case RONDO_ANALYSE_BEHIND_ORDER:
    return "it called it, but only after another call that has not completed";
  case RONDO_ANALYSE_NOT_CALLED:
    return "it has not called it";
  default:
    return "it is in it";
  }
}

static void headline_op(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a,
                        const char *before) {
  const struct rondo_analyse_verdict *v = &a->verdict;
  if (v->op == RONDO_ANALYSE_NO_OP) {
    return;
  }
  rondo_sim_text_add(t, "%s", before);
  rondo_analyse_words_call(t, a->job, op_call(a->job, v->op));
}

void rondo_analyse_words_headline(struct rondo_sim_text *t,
                                  const struct rondo_analyse_analysis *a) {
  const struct rondo_analyse_verdict *v = &a->verdict;
  switch (v->outcome) {
  case RONDO_ANALYSE_CIRCULAR_WAIT:
    rondo_sim_text_add(t, "CIRCULAR WAIT: an ordering deadlock between %zu ranks", v->turn_count);
    break;
  case RONDO_ANALYSE_MISMATCH:
    rondo_sim_text_add(t, "MISMATCH: the ranks called different things as one operation");
    headline_op(t, a, ", ");
    break;
  case RONDO_ANALYSE_NEVER_CAME:
    rondo_sim_text_add(t, "A RANK NEVER CAME: ");
    rondo_analyse_words_ranks(t, a->job, v->ranks, v->rank_count);
    headline_op(t, a, " did not call ");
    break;
  case RONDO_ANALYSE_NO_CYCLE:
    rondo_sim_text_add(t, "NOT AN ORDERING DEADLOCK: the order is consistent and there is no "
                          "cycle; look at transport or a dead rank");
    break;
  case RONDO_ANALYSE_NOTHING_WAITS:
    rondo_sim_text_add(t, "NOTHING WAITS: every collective in these files completed");
    break;
  default:
    rondo_sim_text_add(t, "CANNOT TELL: what would decide it is not in these files");
  }
}

static void turn_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a,
                       const struct rondo_analyse_turn *turn) {
  const struct rondo_analyse_job *job = a->job;
  const struct rondo_analyse_pending *p = &a->waits.pending[turn->holder];
  const struct rondo_analyse_call *call = &job->ranks[p->rank].calls[p->call];
  rondo_analyse_words_rank(t, job, p->rank);
  rondo_sim_text_add(t, " is in ");
  rondo_analyse_words_call(t, job, call);
  rondo_analyse_words_details(t, job, call);
  rondo_sim_text_add(t, " (%s), and waits for ", rondo_analyse_state_name(call->state));
  rondo_analyse_words_rank(t, job, turn->absent);
  rondo_sim_text_add(t, " there: %s", reason_words(turn->reason));
  if (turn->absent_call != RONDO_ANALYSE_NO_PENDING) {
    uint32_t index = a->waits.pending[turn->absent_call].call;
    const struct rondo_analyse_call *queued = &job->ranks[turn->absent].calls[index];
    if (queued->site) {
      rondo_sim_text_add(t, " (called at %s)", rondo_analyse_job_text(job, queued->site));
    }
  }
  rondo_sim_text_add(t, ".\n");
}

static void assumed_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  const char *comma = "";
  rondo_sim_text_add(t, "This takes all ranks to be members of ");
  for (uint32_t group = 0; group < a->job->group_count; group++) {
    if (a->job->groups[group].assumed) {
      rondo_sim_text_add(t, "%s", comma);
      rondo_analyse_words_group(t, a->job, group);
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
    assumed_words(t, a);
  }
  if (v->by_order) {
    rondo_sim_text_add(t, "How sure: likely. Every rank has called everything, in orders that "
                          "contradict each other; that hangs where the device does not run both "
                          "at once, and the files do not record what had started.\n");
  } else if (v->inferred) {
    rondo_sim_text_add(t, "How sure: nearly. That a rank which made no further call is waiting in "
                          "one that has not completed is an inference; its stack would confirm "
                          "it.\n");
  } else {
    rondo_sim_text_add(t, "How sure: certain. Every step is recorded.\n");
  }
}

// The last operation that a rank completed.
static void last_completed_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a,
                                 uint32_t rank) {
  const struct rondo_analyse_rank *r = &a->job->ranks[rank];
  for (size_t i = r->call_count; i-- > 0;) {
    if (r->calls[i].state == RONDO_ANALYSE_COMPLETED) {
      rondo_sim_text_add(t, "The last that ");
      rondo_analyse_words_rank(t, a->job, rank);
      rondo_sim_text_add(t, r->states_known ? " completed was " : " must have completed was ");
      rondo_analyse_words_call(t, a->job, &r->calls[i]);
      rondo_analyse_words_details(t, a->job, &r->calls[i]);
      rondo_sim_text_add(t, ".\n");
      return;
    }
  }
  rondo_analyse_words_rank(t, a->job, rank);
  rondo_sim_text_add(t, " has completed nothing in its record.\n");
}

// The ranks that wait in the operation.
static void waiting_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a,
                          uint32_t op) {
  uint32_t *ranks = rondo_sim_alloc(rondo_analyse_op_places(a->job, op) * sizeof *ranks);
  size_t count = 0;
  for (size_t place = 0; place < rondo_analyse_op_places(a->job, op); place++) {
    enum rondo_analyse_standing s = rondo_analyse_stands(&a->waits, op, place, NULL);
    if (s == RONDO_ANALYSE_STANDS_IN || s == RONDO_ANALYSE_STANDS_BEHIND) {
      ranks[count++] = rondo_analyse_op_rank(a->job, op, place);
    }
  }
  const struct rondo_analyse_call *call = op_call(a->job, op);
  if (count) {
    rondo_analyse_words_ranks(t, a->job, ranks, count);
    rondo_sim_text_add(t, count == 1 ? " waits in " : " wait in ");
    rondo_analyse_words_call(t, a->job, call);
    rondo_analyse_words_details(t, a->job, call);
    rondo_sim_text_add(t, ".\n");
  }
  free(ranks);
}

static void process_words(struct rondo_sim_text *t, const struct rondo_analyse_job *job,
                          uint32_t rank) {
  const struct rondo_analyse_rank *r = &job->ranks[rank];
  if (r->pid >= 0 && r->number >= 0) {
    rondo_sim_text_add(t, " (host %s, pid %lld", rondo_analyse_job_text(job, r->host),
                       (long long)r->pid);
    rondo_sim_text_add(t, r->device >= 0 ? ", GPU %lld)" : ")", (long long)r->device);
  }
}

static void counts_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  const struct rondo_analyse_verdict *v = &a->verdict;
  const struct rondo_analyse_group *g = &a->job->groups[v->group];
  for (size_t i = 0; i < g->member_count && i < 64; i++) {
    uint32_t rank = g->members[i];
    const struct rondo_analyse_place *p = rondo_analyse_job_place(a->job, rank, v->group);
    if (!p) {
      continue;
    }
    rondo_analyse_words_rank(t, a->job, rank);
    process_words(t, a->job, rank);
    if (a->job->ranks[rank].dead) {
      rondo_sim_text_add(t, " does not answer");
    } else {
      rondo_sim_text_add(t, " has begun %lld collectives", (long long)p->last_enqueued);
    }
    rondo_sim_text_add(t, p->counts ? " (%s).\n" : ".\n",
                       rondo_analyse_job_text(a->job, p->counts));
  }
}

static void never_came_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  const struct rondo_analyse_verdict *v = &a->verdict;
  if (v->op == RONDO_ANALYSE_NO_OP) {
    counts_words(t, a);
    rondo_sim_text_add(t, "How sure: counts alone are known, no order. A rank that has begun "
                          "fewer collectives has not come to the next one.\n");
    return;
  }
  waiting_words(t, a, v->op);
  for (size_t i = 0; i < v->rank_count && i < 8; i++) {
    rondo_analyse_words_rank(t, a->job, v->ranks[i]);
    process_words(t, a->job, v->ranks[i]);
    rondo_sim_text_add(t, " has not called it, and waits in no other collective: it is busy or "
                          "stuck elsewhere, took another path, or is gone.\n");
    last_completed_words(t, a, v->ranks[i]);
  }
  if (v->rank_count > 8) {
    rondo_sim_text_add(t, "... and %zu more ranks like these.\n", v->rank_count - 8);
  }
  rondo_sim_text_add(t, v->inferred ? "How sure: the files record calls, not completion; this is "
                                      "what is left when all that can complete has.\n"
                                    : "How sure: certain that it was not called, as far as the "
                                      "record goes.\n");
}

// One side of a mismatch: the ranks whose calls agree.
static void side_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a,
                       uint32_t op, size_t first, bool *done) {
  const struct rondo_analyse_callers *c = &a->callers;
  size_t begin = c->first[op], end = c->first[op + 1];
  uint32_t *ranks = rondo_sim_alloc((end - begin) * sizeof *ranks);
  size_t count = 0;
  const struct rondo_analyse_caller *one = &c->items[first];
  const struct rondo_analyse_call *call = &a->job->ranks[one->rank].calls[one->call];
  for (size_t i = first; i < end; i++) {
    const struct rondo_analyse_caller *other = &c->items[i];
    if (!done[i - begin] &&
        !rondo_analyse_calls_differ(call, &a->job->ranks[other->rank].calls[other->call])) {
      done[i - begin] = true;
      ranks[count++] = other->rank;
    }
  }
  rondo_analyse_words_ranks(t, a->job, ranks, count);
  rondo_sim_text_add(t, ": %s", rondo_analyse_kind_name(call->kind));
  rondo_analyse_words_details(t, a->job, call);
  bool recorded = a->job->ranks[one->rank].states_known;
  rondo_sim_text_add(t, " (%s).\n", recorded ? rondo_analyse_state_name(call->state) : "called");
  free(ranks);
}

static void mismatch_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a,
                           uint32_t op) {
  static const struct {
    uint32_t bit;
    const char *word;
  } bits[] = {{RONDO_ANALYSE_DIFFERS_KIND, "operation"},
              {RONDO_ANALYSE_DIFFERS_COUNT, "size"},
              {RONDO_ANALYSE_DIFFERS_DTYPE, "type"},
              {RONDO_ANALYSE_DIFFERS_REDOP, "reduction"},
              {RONDO_ANALYSE_DIFFERS_ROOT, "root"}};
  const struct rondo_analyse_op *o = &a->job->ops[op];
  const char *comma = "";
  size_t begin = a->callers.first[op], end = a->callers.first[op + 1];
  bool *done = rondo_sim_calloc(end - begin, sizeof *done);
  rondo_sim_text_add(t, "Number %lld in ", (long long)o->seq);
  rondo_analyse_words_group(t, a->job, o->group);
  rondo_sim_text_add(t, " differs in ");
  for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
    if (o->differences & bits[i].bit) {
      rondo_sim_text_add(t, "%s%s", comma, bits[i].word);
      comma = ", ";
    }
  }
  rondo_sim_text_add(t, ":\n");
  for (size_t i = begin; i < end; i++) {
    if (!done[i - begin]) {
      side_words(t, a, op, i, done);
    }
  }
  free(done);
}

static void no_cycle_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  const struct rondo_analyse_verdict *v = &a->verdict;
  if (v->op != RONDO_ANALYSE_NO_OP) {
    waiting_words(t, a, v->op);
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
  if (v->op != RONDO_ANALYSE_NO_OP) {
    waiting_words(t, a, v->op);
  }
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
  if (gone) {
    rondo_sim_text_add(t, "Missing: the files of ");
    rondo_analyse_words_ranks(t, a->job, v->ranks, v->rank_count);
    rondo_sim_text_add(t, ". What they did would decide it.\n");
  } else if (v->rank_count) {
    rondo_sim_text_add(t, "The files of ");
    rondo_analyse_words_ranks(t, a->job, v->ranks, v->rank_count);
    rondo_sim_text_add(t, " are cut off, or their rings have overwritten what would tell. A larger "
                          "ring (TORCH_FR_BUFFER_SIZE) keeps more.\n");
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

void rondo_analyse_words_explanation(struct rondo_sim_text *t,
                                     const struct rondo_analyse_analysis *a) {
  switch (a->verdict.outcome) {
  case RONDO_ANALYSE_CIRCULAR_WAIT:
    cycle_words(t, a);
    break;
  case RONDO_ANALYSE_MISMATCH:
    mismatch_words(t, a, a->verdict.op);
    break;
  case RONDO_ANALYSE_NEVER_CAME:
    never_came_words(t, a);
    break;
  case RONDO_ANALYSE_NO_CYCLE:
    no_cycle_words(t, a);
    break;
  case RONDO_ANALYSE_NOTHING_WAITS:
    rondo_sim_text_add(t, "If the job hung all the same, it hung outside these collectives: in "
                          "other code, in a data loader, or before the first call that is not "
                          "recorded.\n");
    break;
  default:
    cannot_tell_words(t, a);
  }
}

static void parted_words(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a,
                         int side) {
  const struct rondo_analyse_divergence *d = &a->verdict.divergence;
  rondo_analyse_words_rank(t, a->job, d->ranks[side]);
  if (d->calls[side] < 0) {
    rondo_sim_text_add(t, " calls nothing more that both take part in");
    return;
  }
  const struct rondo_analyse_call *call = &a->job->ranks[d->ranks[side]].calls[d->calls[side]];
  rondo_sim_text_add(t, " calls ");
  rondo_analyse_words_call(t, a->job, call);
  if (call->site) {
    rondo_sim_text_add(t, " at %s", rondo_analyse_job_text(a->job, call->site));
  }
}

void rondo_analyse_words_divergence(struct rondo_sim_text *t,
                                    const struct rondo_analyse_analysis *a) {
  const struct rondo_analyse_verdict *v = &a->verdict;
  const struct rondo_analyse_divergence *d = &v->divergence;
  if (v->outcome == RONDO_ANALYSE_MISMATCH) {
    rondo_sim_text_add(t,
                       "The mismatch is the first of %zu in the record; what hangs after it "
                       "follows from it.\n",
                       v->mismatch_count);
    return;
  }
  if (!d->found) {
    return;
  }
  if (d->common[0] >= 0) {
    rondo_sim_text_add(t, "Up to and including ");
    rondo_analyse_words_call(t, a->job, &a->job->ranks[d->ranks[0]].calls[d->common[0]]);
    rondo_sim_text_add(t, " both call the same in the same order. Then ");
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

static void cycle_prevention(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  if (a->job->ops[a->verdict.op].source >= 0) {
    rondo_sim_text_add(t, "Sends and receives that face each other need one launch on both sides "
                          "(batch_isend_irecv, ncclGroupStart), or let one side send first.\n");
  } else {
    rondo_sim_text_add(t, "Make these calls in one order on all ranks: from one thread, or with a "
                          "lock or an event between the groups.\n");
  }
  rondo_sim_text_add(t, "With NCCL 2.26 or newer, NCCL_LAUNCH_ORDER_IMPLICIT=1 keeps the launch "
                        "order of one process; it does not help where the calls themselves come "
                        "in different orders.\n");
  rondo_sim_text_add(t, "Under Rondo the order is free: a collective that is stuck is set aside "
                        "and the other one runs.\n");
}

void rondo_analyse_words_prevention(struct rondo_sim_text *t,
                                    const struct rondo_analyse_analysis *a) {
  switch (a->verdict.outcome) {
  case RONDO_ANALYSE_CIRCULAR_WAIT:
    cycle_prevention(t, a);
    break;
  case RONDO_ANALYSE_MISMATCH:
    rondo_sim_text_add(t, "Compare the two call sites: a branch on the rank, an uneven last batch, "
                          "a tensor whose size depends on data.\n");
    rondo_sim_text_add(t, "TORCH_DISTRIBUTED_DEBUG=DETAIL checks every call, at a price. Rondo "
                          "compares descriptors when a collective is registered and ends its runs "
                          "with RONDO_ERR_MISMATCH on both sides.\n");
    break;
  case RONDO_ANALYSE_NEVER_CAME:
    rondo_sim_text_add(t,
                       "Look at that rank's stack (py-spy dump --pid) and its log: a branch that "
                       "skips the call, a data loader that ended early, an exception that was "
                       "swallowed, a process that died.\n");
    rondo_sim_text_add(t, "Under Rondo the waiting ranks' runs end with an error that names it.\n");
    break;
  case RONDO_ANALYSE_NO_CYCLE:
    rondo_sim_text_add(t, "Look at dmesg for Xid errors, at the network's counters and links, at "
                          "NCCL WARN lines, and at whether every process and GPU still lives "
                          "(ncclras, nvidia-smi).\n");
    rondo_sim_text_add(t, "If several groups are busy at once, the device may be unable to run "
                          "their kernels side by side: try CUDA_DEVICE_MAX_CONNECTIONS=1 or "
                          "NCCL_LAUNCH_ORDER_IMPLICIT=1.\n");
    break;
  case RONDO_ANALYSE_CANNOT_TELL:
    rondo_sim_text_add(t, "Collect one file from every rank: set TORCH_FR_BUFFER_SIZE and "
                          "TORCH_NCCL_DUMP_ON_TIMEOUT=1, or log with NCCL_DEBUG=INFO "
                          "NCCL_DEBUG_SUBSYS=INIT,COLL to one file a process.\n");
    break;
  default:
    break;
  }
}
