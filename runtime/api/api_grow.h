// How the members of a job make a new one: the vote, and the joining that follows.
#ifndef RONDO_RUNTIME_API_API_GROW_H
#define RONDO_RUNTIME_API_API_GROW_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/net/handshake.h"
#include <rondo/rondo.h>

struct rondo_rank;

// What a member asks for.
struct rondo_change {
  struct rondo_rank *rank; // pinned
  const char *call;        // for the log
  bool is_grow;
  uint32_t newcomers;             // 0 in a shrink
  const struct rondo_job_key *id; // of the newcomers: of this process; null: of another member's
  const uint32_t *excluded;
  uint32_t excluded_count;
  uint64_t begin_ns, end_ns; // of rondo_now_ns
};

// Votes until the members agree, and joins the new job. Returns as rondo_grow; `why` has
// RONDO_REASON_BYTES.
int rondo_change_make(const struct rondo_change *change, struct rondo_context *next, char *why);

// Reads the key of an id of rondo_unique_id_listen or rondo_grow_listen. Returns RONDO_SUCCESS or
// RONDO_ERR_INVALID (logged).
int rondo_id_read_key(const struct rondo_unique_id *id, struct rondo_job_key *key);

#define RONDO_JOIN_SLICE_NS                                                                        \
  INT64_C(10000000) // how often it is seen whether joining still makes sense

// Joins the job `id`, which is part of another one's change, with the configuration `cfg`, except
// for the time, the rank and the number of ranks. Waits until `end_ns` that all have joined; calls
// `look(arg)` (may be null) meanwhile. Returns RONDO_SUCCESS; RONDO_ERR_PEER, if not all join;
// RONDO_ERR_TIMEOUT; or a status of rondo_init.
struct rondo_joining {
  const struct rondo_config *cfg;
  const struct rondo_unique_id *id;
  uint32_t rank, rank_count;
  uint64_t end_ns;
  void (*look)(void *arg);
  void *arg;
};
int rondo_joining_make(const struct rondo_joining *joining, struct rondo_context *ctx);

#endif // RONDO_RUNTIME_API_API_GROW_H
