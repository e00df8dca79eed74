// The stuck report, and the same facts as data.
#ifndef RONDO_RUNTIME_OBSERVE_REPORT_H
#define RONDO_RUNTIME_OBSERVE_REPORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rondo/rondo.h>

struct rondo_awaited;
struct rondo_coll;
struct rondo_job;
struct rondo_rank;
struct rondo_rank_list;
struct rondo_text;

// Prints the stuck report of a job in at most 64 lines: the verdict and the cycle, the runs in the
// cycle, other outstanding runs, and counts of the rest. Writes the number of ranks in the cycle to
// `cycle_ranks` (may be null). Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
int rondo_report_print(struct rondo_job *job, FILE *out, uint32_t *cycle_ranks);
// Logs that a run has not ended in time, with a stuck report, and writes the flight records of the
// job. Does nothing if `timeout_ns` is 0 or the configuration has no report_on_timeout.
void rondo_report_timeout(const struct rondo_awaited *a, int64_t timeout_ns);

// As rondo_stuck, rondo_missing and rondo_counters. Pointers are not null.
int rondo_stuck_list(struct rondo_rank *rank, struct rondo_stuck *entries, size_t capacity,
                     size_t *count);
int rondo_missing_list(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                       struct rondo_rank_list *list);
int rondo_counters_read(struct rondo_rank *rank, struct rondo_counters *out);
// The tallies of all blocks. The daemon has tallies, and the rank's lock is held.
struct rondo_collective_counters rondo_coll_counters(const struct rondo_rank *rank,
                                                     const struct rondo_coll *coll);
// As rondo_collective_counters. `out` has the right size and version.
int rondo_coll_counters_read(struct rondo_rank *rank, struct rondo_collective handle,
                             struct rondo_collective_counters *out);

// Adds "; missing: rank ..." to a text: the ranks that have not submitted run `run`.
void rondo_missing_describe(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                            struct rondo_text *text);

// From the first call on, SIGUSR1 prints the stuck report of every job of this process, unless the
// application handles that signal itself or RONDO_REPORT_SIGNAL is 0.
void rondo_report_on_signal(void);

#endif // RONDO_RUNTIME_OBSERVE_REPORT_H
