// Reads one file of any known format into a record. What kind a file is, its content decides,
// never its name.
#ifndef RONDO_SIM_ANALYSE_READ_H
#define RONDO_SIM_ANALYSE_READ_H

#include "sim/analyse/json.h"
#include "sim/analyse/record.h"

// Reads the whole input. Never fails: what is wrong becomes a problem of the record, and what came
// before it is kept; `unusable` is set if that is nothing.
void rondo_analyse_read(struct rondo_analyse_record *r, struct rondo_analyse_input *in);

// The readers, one a format. Each starts at the front of the input.
void rondo_analyse_read_pickle(struct rondo_analyse_record *r, struct rondo_analyse_input *in);
void rondo_analyse_read_json(struct rondo_analyse_record *r, struct rondo_analyse_input *in);
void rondo_analyse_read_nccl(struct rondo_analyse_record *r, struct rondo_analyse_input *in);

// Called by the JSON reader at the value of a key that belongs to one format only:
// "traceEvents" and "distributedInfo" (Kineto), "communicators" (RAS). The first two make the
// record's one track if there is none yet.
void rondo_analyse_read_kineto_events(struct rondo_analyse_record *r, struct rondo_analyse_json *j);
void rondo_analyse_read_kineto_info(struct rondo_analyse_record *r, struct rondo_analyse_json *j);
void rondo_analyse_read_ras(struct rondo_analyse_record *r, struct rondo_analyse_json *j);

// Called inside the first line of a Rondo flight record, at the value of the key "rondo"; reads on
// to the end of the file.
void rondo_analyse_read_rondo(struct rondo_analyse_record *r, struct rondo_analyse_json *j);

// The string of a JSON value as a number in the record's table: of a string its text, of a number
// its digits; 0 for null and for anything else, which is passed over.
uint32_t rondo_analyse_read_string(struct rondo_analyse_record *r, struct rondo_analyse_json *j);

// Where the reader of an object keeps the value of a key.
enum rondo_analyse_field_type {
  RONDO_ANALYSE_READ_NUMBER, // int64_t; -1 for what is no integer
  RONDO_ANALYSE_READ_STRING, // uint32_t, as rondo_analyse_read_string
  RONDO_ANALYSE_READ_LIST    // uint32_t: a list as the file has it; else as STRING
};

struct rondo_analyse_field {
  const char *key; // null: the end of the table
  enum rondo_analyse_field_type type;
  size_t offset;
};

// Reads the value of `key` into `object` if `fields` lists the key. Otherwise returns false and
// reads nothing.
bool rondo_analyse_read_field(struct rondo_analyse_record *r, struct rondo_analyse_json *j,
                              struct rondo_analyse_slice key,
                              const struct rondo_analyse_field *fields, void *object);

// Reads the values of a whole JSON object into `object`; keys that `fields` does not list are
// skipped.
void rondo_analyse_read_object(struct rondo_analyse_record *r, struct rondo_analyse_json *j,
                               const struct rondo_analyse_field *fields, void *object);

// Notes the JSON reader's failure, if any, as a problem: the file counts as cut off there.
void rondo_analyse_read_failure(struct rondo_analyse_record *r, const struct rondo_analyse_json *j);

#endif // RONDO_SIM_ANALYSE_READ_H
