// Puts findings into words, which are the same in text, JSON and HTML. Each function appends to a
// text; a paragraph ends with a line feed.
#ifndef RONDO_SIM_ANALYSE_WORDS_H
#define RONDO_SIM_ANALYSE_WORDS_H

#include "sim/analyse/verdict.h"
#include "sim/common/text.h"

// "rank 3", or "process host:17" if only the process is known.
void rondo_analyse_words_rank(struct rondo_sim_text *t, const struct rondo_analyse_job *job,
                              uint32_t rank);

// "rank 3", "ranks 0-3, 7"; numbers past the 20th range are left out with "...".
void rondo_analyse_words_ranks(struct rondo_sim_text *t, const struct rondo_analyse_job *job,
                               const uint32_t *ranks, size_t count);

// "\"tp\" (tensor parallel)".
void rondo_analyse_words_group(struct rondo_sim_text *t, const struct rondo_analyse_job *job,
                               uint32_t group);

// "all_reduce number 4 in group \"tp\"".
void rondo_analyse_words_call(struct rondo_sim_text *t, const struct rondo_analyse_job *job,
                              const struct rondo_analyse_call *call);

// The details of a call: ", 1024 float32, sum, on stream 0x1, called at a.py:3".
void rondo_analyse_words_details(struct rondo_sim_text *t, const struct rondo_analyse_job *job,
                                 const struct rondo_analyse_call *call);

// One line with the verdict and its subject.
void rondo_analyse_words_headline(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a);

// What led to the verdict, and how sure it is.
void rondo_analyse_words_explanation(struct rondo_sim_text *t,
                                     const struct rondo_analyse_analysis *a);

// The first divergence; nothing if there is none.
void rondo_analyse_words_divergence(struct rondo_sim_text *t,
                                    const struct rondo_analyse_analysis *a);

// What would have prevented the hang, and what to look at next.
void rondo_analyse_words_prevention(struct rondo_sim_text *t,
                                    const struct rondo_analyse_analysis *a);

// What one of the four calls above appends, as a text of its own that the caller frees.
char *rondo_analyse_words_text(void (*words)(struct rondo_sim_text *,
                                             const struct rondo_analyse_analysis *),
                               const struct rondo_analyse_analysis *a);

#endif // RONDO_SIM_ANALYSE_WORDS_H
