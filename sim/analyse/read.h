// Reads files of any known format into records, many in parallel. The content of a file decides its
// format, never the name.
#ifndef RONDO_SIM_ANALYSE_READ_H
#define RONDO_SIM_ANALYSE_READ_H

#include <regex.h>

#include "sim/analyse/json.h"
#include "sim/analyse/record.h"

// A larger number in a file's name or in an option is no rank.
#define RONDO_ANALYSE_HIGHEST_RANK 100000000

struct rondo_analyse_load_options {
  const regex_t *rank_pattern; // its first group is the rank in a file's name; null: the default
  unsigned thread_count;       // 0: one a core
  bool progress;               // show the progress on standard error
};

// Reads `count` files into records[0 .. count). The caller provides the memory and passes each
// record to rondo_analyse_record_fini later. Problems with a file are in its record.
void rondo_analyse_load(struct rondo_analyse_record *records, char **paths, size_t count,
                        const struct rondo_analyse_load_options *options);

// Reads the whole input and never fails: problems go to the record, and what was read before them
// is kept. Sets `unusable` if nothing was read.
void rondo_analyse_read(struct rondo_analyse_record *r, struct rondo_analyse_input *in);

// The reader of each format. Each begins at the front of the input.
void rondo_analyse_read_pickle(struct rondo_analyse_record *r, struct rondo_analyse_input *in);
void rondo_analyse_read_nccl(struct rondo_analyse_record *r, struct rondo_analyse_input *in);

// The JSON reader calls these at the value of a key that belongs to one format: "traceEvents" and
// "distributedInfo" (Kineto), "communicators" (RAS). The first two make the record's one track if
// there is none yet.
void rondo_analyse_read_kineto_events(struct rondo_analyse_record *r, struct rondo_analyse_json *j);
void rondo_analyse_read_kineto_info(struct rondo_analyse_record *r, struct rondo_analyse_json *j);
void rondo_analyse_read_ras(struct rondo_analyse_record *r, struct rondo_analyse_json *j);

// Called inside the first line of a Rondo flight record, at the value of the key "rondo"; reads to
// the end of the file.
void rondo_analyse_read_rondo(struct rondo_analyse_record *r, struct rondo_analyse_json *j);

// Reads the values of those keys of a JSON file that belong to a Flight Recorder dump. `read`
// returns false, with nothing read, if the key does not. `finish` settles the dump if there was
// one, and frees `f`.
struct rondo_analyse_flight;
struct rondo_analyse_flight *rondo_analyse_flight_create(struct rondo_analyse_record *r);
bool rondo_analyse_flight_read(struct rondo_analyse_flight *f, struct rondo_analyse_json *j,
                               struct rondo_analyse_slice key);
void rondo_analyse_flight_finish(struct rondo_analyse_flight *f);

#endif // RONDO_SIM_ANALYSE_READ_H
