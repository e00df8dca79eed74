#include <stdlib.h>
#include <string.h>

#include "sim/analyse/report.h"

#define MOST_RANKS 32
#define MOST_GROUPS 32
#define WIDTH 98

// Appends text in lines of readable width, each indented by `margin` spaces.
static void lines_add(struct rondo_sim_text *t, const char *text, int margin) {
  while (*text) {
    size_t length = strcspn(text, "\n");
    size_t room = (size_t)(WIDTH - margin);
    size_t take = length;
    if (length > room) {
      take = room;
      while (take > 0 && text[take] != ' ') {
        take--;
      }
      take = take ? take : room;
    }
    rondo_sim_text_add(t, "%*s%.*s\n", margin, "", (int)take, text);
    text += take;
    text += *text == ' ' || *text == '\n';
  }
}

static void section_add(struct rondo_sim_text *t, const char *title,
                        const struct rondo_analyse_analysis *a, enum rondo_analyse_part part) {
  const char *body = rondo_analyse_words(a, part);
  if (*body) {
    rondo_sim_text_add(t, "%s\n", title);
    lines_add(t, body, 2);
    rondo_sim_text_add(t, "\n");
  }
}

static void number_add(struct rondo_sim_text *t, const char *word, int64_t value) {
  rondo_sim_text_add(t, value < 0 ? ", %s none" : ", %s %lld", word, (long long)value);
}

static void pending_add(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a,
                        uint32_t rank) {
  for (uint32_t i = a->waits.front_first[rank]; i < a->waits.front_first[rank + 1]; i++) {
    const struct rondo_analyse_pending *p = &a->waits.pending[a->waits.front[i]];
    const struct rondo_analyse_call *call = &a->job->ranks[rank].calls[p->call];
    rondo_sim_text_add(t, "%s %s (%s)", i == a->waits.front_first[rank] ? ": waits in" : ", and in",
                       rondo_analyse_words_call(a->job, call),
                       call->flags & RONDO_ANALYSE_AWAITS_STREAM
                           ? "its stream has not come to it"
                           : rondo_analyse_state_name(call->state));
  }
}

static void rank_add(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a,
                     uint32_t rank) {
  const struct rondo_analyse_rank *r = &a->job->ranks[rank];
  bool has_counts = a->job->family == RONDO_ANALYSE_FAMILY_RAS;
  struct rondo_sim_text line = {0};
  rondo_sim_text_add(&line, "%s", rondo_analyse_words_rank(a->job, rank));
  if (!r->present) {
    rondo_sim_text_add(&line, r->dead ? ": does not answer" : ": no file");
  } else if (has_counts) {
    rondo_sim_text_add(&line, ": answers");
  } else if (a->waits.front_first[rank] == a->waits.front_first[rank + 1]) {
    rondo_sim_text_add(&line, ": waits in no collective");
  } else {
    pending_add(&line, a, rank);
  }
  rondo_sim_text_add(&line, "%s", r->synchronises ? "; its program waits for its device" : "");
  rondo_sim_text_add(&line, "%s\n", r->cut_off ? " (its file is cut off)" : "");
  lines_add(t, rondo_sim_text_str(&line), 2);
  rondo_sim_text_clear(&line);
  for (size_t i = 0; i < r->place_count; i++) {
    const struct rondo_analyse_progress *reached = &r->places[i].reached;
    rondo_sim_text_add(&line, "%s", rondo_analyse_words_group(a->job, r->places[i].group));
    number_add(&line, "last submitted", reached->submitted);
    if (r->starts_known) {
      number_add(&line, "started", reached->started);
    }
    if (!has_counts) {
      number_add(&line, r->states_known ? "completed" : "must have completed", reached->completed);
    }
    rondo_sim_text_add(&line, "\n");
  }
  lines_add(t, rondo_sim_text_str(&line), 6);
  rondo_sim_text_fini(&line);
}

// True if the verdict names the rank.
static bool is_named(const struct rondo_analyse_analysis *a, uint32_t rank) {
  const struct rondo_analyse_verdict *v = &a->verdict;
  for (size_t i = 0; i < v->turn_count; i++) {
    if (v->turns[i].absent == rank) {
      return true;
    }
  }
  return v->is_blamed[rank];
}

static void ranks_add(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a, bool full) {
  size_t most = full ? a->job->rank_count : MOST_RANKS;
  size_t listed = 0;
  bool named_first = a->job->rank_count > most;
  rondo_sim_text_add(t, "State of each rank\n");
  for (int pass = named_first ? 0 : 1; pass < 2; pass++) {
    for (uint32_t rank = 0; rank < a->job->rank_count && listed < most; rank++) {
      if (!named_first || is_named(a, rank) == (pass == 0)) {
        rank_add(t, a, rank);
        listed++;
      }
    }
  }
  if (listed < a->job->rank_count) {
    rondo_sim_text_add(t, "  ... and %zu more ranks (--full lists them, --json has them all)\n",
                       a->job->rank_count - listed);
  }
  rondo_sim_text_add(t, "\n");
}

// Appends a group: its members and how far they came.
static void group_add(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a,
                      uint32_t group) {
  const struct rondo_analyse_group *g = &a->job->groups[group];
  struct rondo_sim_text line = {0};
  int64_t low = INT64_MAX, high = -1;
  uint32_t *known = rondo_sim_alloc(g->member_count * sizeof *known);
  size_t count = 0;
  for (size_t i = 0; i < g->member_count; i++) {
    if (g->members[i] == RONDO_ANALYSE_NO_RANK) {
      continue;
    }
    known[count++] = g->members[i];
    const struct rondo_analyse_place *p = rondo_analyse_job_place(a->job, g->members[i], group);
    int64_t last = !p ? -1 : p->last_seq > p->last.submitted ? p->last_seq : p->last.submitted;
    if (last >= 0) {
      low = last < low ? last : low;
      high = last > high ? last : high;
    }
  }
  rondo_sim_text_add(&line, "%s: %s", rondo_analyse_words_group(a->job, group),
                     rondo_analyse_words_ranks(a->job, known, count));
  free(known);
  if (g->size > (int64_t)count) {
    rondo_sim_text_add(&line, " and %lld that nothing is known of",
                       (long long)(g->size - (int64_t)count));
  }
  rondo_sim_text_add(&line, g->assumed         ? " (assumed; the files do not name its members)"
                            : g->members_known ? ""
                                               : " (as seen; the files do not name its members)");
  if (high >= 0) {
    rondo_sim_text_add(&line,
                       low == high ? ": all submitted up to number %lld"
                                   : ": submitted up to number %lld to %lld",
                       (long long)low, (long long)high);
  }
  rondo_sim_text_add(&line, "\n");
  lines_add(t, rondo_sim_text_str(&line), 2);
  rondo_sim_text_fini(&line);
}

static void groups_add(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a,
                       bool full) {
  size_t most = full ? a->job->group_count : MOST_GROUPS;
  rondo_sim_text_add(t, "State of each group\n");
  for (uint32_t group = 0; group < a->job->group_count && group < most; group++) {
    group_add(t, a, group);
  }
  if (a->job->group_count > most) {
    rondo_sim_text_add(t, "  ... and %zu more groups (--full lists them)\n",
                       a->job->group_count - most);
  }
  rondo_sim_text_add(t, "\n");
}

static void files_add(struct rondo_sim_text *t, const struct rondo_analyse_report *r) {
  size_t by_source[RONDO_ANALYSE_SOURCE_COUNT] = {0}, unusable = 0, problems = 0;
  const char *comma = "";
  for (size_t i = 0; i < r->record_count; i++) {
    by_source[r->records[i].source]++;
    unusable += r->records[i].unusable;
    problems += r->records[i].problems.count + r->records[i].more_problems;
  }
  rondo_sim_text_add(t, "Files\n  %zu read: ", r->record_count);
  for (int i = 0; i < RONDO_ANALYSE_SOURCE_COUNT; i++) {
    if (by_source[i]) {
      rondo_sim_text_add(t, "%s%zu %s", comma, by_source[i], rondo_analyse_source_name(i));
      comma = ", ";
    }
  }
  uint64_t calls = 0;
  for (size_t i = 0; i < r->analysis_count; i++) {
    calls += r->analyses[i]->job->call_count;
    problems += r->analyses[i]->job->problems.count;
  }
  rondo_sim_text_add(t, "; %llu calls", (unsigned long long)calls);
  if (unusable || problems) {
    rondo_sim_text_add(t, "; %zu unusable, %zu problems, see above", unusable, problems);
  }
  rondo_sim_text_add(t, "\n");
}

void rondo_analyse_report_text(struct rondo_sim_text *t, const struct rondo_analyse_report *r) {
  const struct rondo_analyse_analysis *a = r->analyses[0];
  for (int part = 0; part < RONDO_ANALYSE_PART_COUNT; part++) {
    section_add(t, rondo_analyse_titles[part], a, (enum rondo_analyse_part)part);
  }
  ranks_add(t, a, r->full);
  groups_add(t, a, r->full);
  for (size_t i = 1; i < r->analysis_count; i++) {
    section_add(t, "Also, judged on its own because its calls cannot be paired with the above",
                r->analyses[i], RONDO_ANALYSE_HEADLINE);
    section_add(t, "Why", r->analyses[i], RONDO_ANALYSE_EXPLANATION);
  }
  files_add(t, r);
}
