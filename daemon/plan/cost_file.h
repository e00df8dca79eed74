// The file of a cost model, as text. `rondo-info tune` writes it. Pure: no I/O.
//
//   rondo cost model 2             this word, and the version of the format
//   cores 2                        of the machine where it was measured
//   tuning front_budget_ns=…,…     as RONDO_TUNING; may be empty
//   ranks 2 4 8 32 128             where it was measured
//   sizes 8 256 …                  bytes of a message
//   link thread 100000 50000 100 1500000 150  each rank with a core: ps of latency, ps that a
//                                            message and a byte occupy; where ranks share cores: ps
//                                            a message and a byte
//   row thread all_reduce ring 190000 …      ps a message: all sizes of the first number of ranks,
//                                            then of the next one
//   end 0123456789abcdef           checksum of all before this line
#ifndef RONDO_DAEMON_PLAN_COST_FILE_H
#define RONDO_DAEMON_PLAN_COST_FILE_H

#include "daemon/plan/cost.h"

#define RONDO_COST_FILE_VERSION 2u
#define RONDO_COST_MAX_ROWS 128u
#define RONDO_COST_TUNING_BYTES 512u
// No file is larger.
#define RONDO_COST_FILE_BYTES ((size_t)1024 * RONDO_COST_MAX_ROWS)
#define RONDO_COST_WHY_BYTES 160u

struct rondo_cost_file {
  struct rondo_cost_model model; // its rows are those below
  char tuning[RONDO_COST_TUNING_BYTES];
  struct rondo_cost_row rows[RONDO_COST_MAX_ROWS];
};

// Writes the text to `text`, of RONDO_COST_FILE_BYTES. Does not read the digest. Returns its
// length.
size_t rondo_cost_file_print(const struct rondo_cost_file *file, char *text);

// Reads a text, and sets the digest. Returns false if it is not exactly what rondo_cost_file_print
// writes, and says in `why`, of RONDO_COST_WHY_BYTES, what it is instead: foreign, of another
// version, torn, or wrong in a line. `file` is then undefined.
bool rondo_cost_file_parse(struct rondo_cost_file *file, const char *text, char *why);

#endif // RONDO_DAEMON_PLAN_COST_FILE_H
