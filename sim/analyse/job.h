// The whole job as its files describe it: ranks, groups and calls under one numbering, for all
// files and formats. Files of one family (formats that number groups and calls alike) make one job.
// A Flight Recorder dump and an NCCL log do not mix: nothing in them relates the calls of one to
// the calls of the other.
#ifndef RONDO_SIM_ANALYSE_JOB_H
#define RONDO_SIM_ANALYSE_JOB_H

#include "sim/analyse/record.h"

enum rondo_analyse_family {
  RONDO_ANALYSE_FAMILY_TORCH, // Flight Recorder, Kineto
  RONDO_ANALYSE_FAMILY_NCCL,
  RONDO_ANALYSE_FAMILY_RAS,
  RONDO_ANALYSE_FAMILY_RONDO,
  RONDO_ANALYSE_FAMILY_COUNT
};

#define RONDO_ANALYSE_NO_RANK UINT32_MAX

// A rank's place in a group.
struct rondo_analyse_place {
  uint32_t group;
  uint32_t counts; // string, see rondo_analyse_group_decl
  int64_t own_index;
  struct rondo_analyse_progress last;    // as the file says it
  struct rondo_analyse_progress reached; // counts its calls, too; -1: none
  int64_t first_seq, last_seq;           // of the collectives in the record; first > last: none
  int64_t last_call;                     // index of the last call in the group; -1: none
  uint32_t lives;                        // how often the numbers began anew
};

struct rondo_analyse_rank {
  int64_t number; // in the job; -1: only its process is known
  const char *path;
  uint32_t host;
  int64_t pid, device;
  enum rondo_analyse_source source;
  struct rondo_analyse_call *calls;
  size_t call_count;
  struct rondo_analyse_place *places; // sorted by group
  size_t place_count;
  bool present; // there is a file
  bool states_known, starts_known, cut_off, front_missing, dead, synchronises;
  int64_t synchronises_ns;
};

struct rondo_analyse_group {
  uint32_t key, name, desc;
  int64_t size;      // as recorded, at least member_count
  uint32_t *members; // ranks; RONDO_ANALYSE_NO_RANK where the member is not known
  size_t member_count;
  // the record names them all; otherwise they are the ranks that were seen to call
  bool members_known;
  bool assumed;  // nothing names the members, so all ranks are taken to be members
  uint32_t next; // the next group with the same key; UINT32_MAX: none
};

// An operation that its members share.
struct rondo_analyse_op {
  uint32_t group;
  int32_t source, target; // of a send and its receive; -1 for collectives
  int64_t seq;
  uint32_t first_rank, first_call; // the call that the other calls are compared with
  uint32_t called, completed;
  uint32_t differences; // bits of enum rondo_analyse_difference
};

struct rondo_analyse_job {
  enum rondo_analyse_family family;
  struct rondo_analyse_strings strings;
  struct rondo_analyse_rank *ranks; // sorted by number
  size_t rank_count, rank_capacity;
  struct rondo_analyse_group *groups;
  uint32_t *group_by_key; // string → first group with that key
  size_t group_count, group_capacity, group_by_key_count;
  struct rondo_analyse_op *ops;
  uint32_t op_count, op_capacity;
  struct rondo_analyse_problems problems;
  uint64_t call_count;
};

// What the user says about a group that the files do not describe: "NAME=0,1,2".
struct rondo_analyse_group_hint {
  const char *name;
  const char *ranks;
  bool used; // some group has that name
};

struct rondo_analyse_group_hints {
  struct rondo_analyse_group_hint *items;
  size_t count;
};

// Builds the job of one family. Calls and members move out of the records, which the caller keeps
// and which must outlive the job. Returns false if no record is of that family.
bool rondo_analyse_job_init(struct rondo_analyse_job *job, enum rondo_analyse_family family,
                            struct rondo_analyse_record *records, size_t record_count,
                            const struct rondo_analyse_group_hints *hints);

// Frees what the job holds.
void rondo_analyse_job_fini(struct rondo_analyse_job *job);

// The place of a rank in a group; null if the rank has none there, or is RONDO_ANALYSE_NO_RANK.
struct rondo_analyse_place *rondo_analyse_job_place(const struct rondo_analyse_job *job,
                                                    uint32_t rank, uint32_t group);

// The string of that number.
const char *rondo_analyse_job_text(const struct rondo_analyse_job *job, uint32_t id);

#endif // RONDO_SIM_ANALYSE_JOB_H
