// The content of one file: its tracks (one for each rank) with their calls in the order in which
// they were made, the groups as each rank sees them, and the problems of the file. A reader fills
// one record and changes nothing else, so files are read in parallel.
#ifndef RONDO_SIM_ANALYSE_RECORD_H
#define RONDO_SIM_ANALYSE_RECORD_H

#include "sim/analyse/call.h"
#include "sim/analyse/input.h"
#include "sim/analyse/value.h"

enum rondo_analyse_source {
  RONDO_ANALYSE_NOTHING, // not recognised
  RONDO_ANALYSE_FLIGHT,  // PyTorch Flight Recorder
  RONDO_ANALYSE_KINETO,  // PyTorch profiler trace
  RONDO_ANALYSE_NCCL,    // NCCL_DEBUG log
  RONDO_ANALYSE_RAS,     // NCCL RAS status
  RONDO_ANALYSE_RONDO,   // Rondo's flight record
  RONDO_ANALYSE_SOURCE_COUNT
};

// "PyTorch Flight Recorder", … Never null.
const char *rondo_analyse_source_name(int source);

#define RONDO_ANALYSE_NOT_RECORDED INT64_MIN

// How far a rank came in a group: the numbers of its last calls of each sort. What is not known is
// RONDO_ANALYSE_NOT_RECORDED or -1.
struct rondo_analyse_progress {
  int64_t submitted, started, completed;
};

// A group as one rank sees it.
struct rondo_analyse_group_decl {
  uint32_t key;        // string: the same on all members
  uint32_t name, desc; // strings: what people call it
  uint32_t counts;     // string: calls by operation, from formats that only count; 0: none
  uint32_t handle;     // string: the name that calls use in this file (a pointer, an id)
  int64_t size;        // members; 0: not recorded
  int64_t own_index;   // this rank's place among the members; -1: not recorded
  int64_t *members;    // ranks of the job in the order of the group; null: not recorded
  size_t member_count;
  struct rondo_analyse_progress last; // as the file says it
  int64_t next_seq;                   // for formats that do not number calls
  int64_t launch;                     // for formats that mark calls launched together
};

struct rondo_analyse_track {
  int64_t rank;  // of the job; -1: not known from the file
  uint32_t host; // string
  int64_t pid, device;
  struct rondo_analyse_group_decl *groups;
  size_t group_count, group_capacity;
  struct rondo_analyse_call *calls;
  size_t call_count, call_capacity;
  bool states_known;       // completed calls are marked as such
  bool starts_known;       // started calls are marked as such
  bool cut_off;            // the file ends too early: later calls are missing
  bool front_missing;      // a ring that has wrapped: earlier calls are missing
  bool dead;               // reported as not answering
  bool synchronises;       // its program waits until its device is idle
  int64_t synchronises_ns; // for how long it has waited; 0: not recorded
};

// Sentences about what is wrong with a file or a job.
struct rondo_analyse_problems {
  char **items;
  size_t count;
};

struct rondo_analyse_record {
  const char *path;
  int64_t rank_hint; // the rank in the file's name; -1: none
  struct rondo_analyse_strings strings;
  struct rondo_analyse_track *tracks;
  size_t track_count, track_capacity, last_track; // the one that was found last is tried first
  struct rondo_analyse_problems problems;
  size_t more_problems; // that were not kept
  enum rondo_analyse_source source;
  bool rank_named; // the name says that the number is a rank
  bool unusable;   // nothing of the file could be used
};

// Makes an empty record; `path` must outlive it.
void rondo_analyse_record_init(struct rondo_analyse_record *r, const char *path);

// Frees what the record holds.
void rondo_analyse_record_fini(struct rondo_analyse_record *r);

// The string with that number in the record's table.
static inline const char *rondo_analyse_record_text(const struct rondo_analyse_record *r,
                                                    uint32_t id) {
  return rondo_analyse_strings_get(&r->strings, id);
}

// Adds a track and returns it. Pointers to tracks are valid until the next one is added.
struct rondo_analyse_track *rondo_analyse_record_track(struct rondo_analyse_record *r);

// The track of a process and its device, which is added if it is new. A process whose number is -1
// is always new.
struct rondo_analyse_track *rondo_analyse_record_process(struct rondo_analyse_record *r,
                                                         uint32_t host, int64_t pid,
                                                         int64_t device);

// Adds a group of that key, handle and name, whose other fields say "not recorded". Pointers to
// groups are valid until the next one is added.
struct rondo_analyse_group_decl *rondo_analyse_track_group(struct rondo_analyse_track *t,
                                                           uint32_t key);

// The latest group with this handle, or null.
struct rondo_analyse_group_decl *rondo_analyse_track_find(const struct rondo_analyse_track *t,
                                                          uint32_t handle);

// Sets members and size of a group from a list of ranks or from the text of such a list. Keeps the
// size if the list names no rank.
void rondo_analyse_group_members(struct rondo_analyse_group_decl *g,
                                 const struct rondo_analyse_values *v,
                                 struct rondo_analyse_value ranks);

// Adds an empty call (peer -1, seq 0) and returns it. The pointer is valid until the next call is
// added.
struct rondo_analyse_call *rondo_analyse_track_call(struct rondo_analyse_track *t);

// Adds a sentence; rondo_analyse_problems_fini frees all of them.
__attribute__((format(printf, 2, 3))) void
rondo_analyse_problem_add(struct rondo_analyse_problems *p, const char *format, ...);
void rondo_analyse_problems_fini(struct rondo_analyse_problems *p);

// Adds a problem of the file: "path:line: message", or "path: byte offset: message" if the line is
// 0. Problems past the 20th are counted and not kept.
__attribute__((format(printf, 4, 5))) void
rondo_analyse_record_problem(struct rondo_analyse_record *r, uint64_t line, uint64_t offset,
                             const char *format, ...);

// Reads the numbers in a list of ranks: "[0, 1, 2]", "0,1,2" or "0-2". Returns how many; the caller
// frees *out. Reads at most 262,144 numbers.
size_t rondo_analyse_ranks_parse(const char *text, int64_t **out);

#endif // RONDO_SIM_ANALYSE_RECORD_H
