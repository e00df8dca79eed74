// The job as this process sees it: its ranks, and where their registrations of one id meet.
//
//   world_join (rondo_init) -> world_match (rondo_register) -> world_unmatch -> world_leave
//
// In one process members meet directly: no message, and nobody waits. Every rank that
// registers an id is compared with those that it names or that name it; where
// descriptors differ, both communicators are closed for good and the log names both sides.
#ifndef RONDO_RUNTIME_BOOT_WORLD_H
#define RONDO_RUNTIME_BOOT_WORLD_H

#include <pthread.h>
#include <stdint.h>

#include "runtime/memory/pool.h"
#include "runtime/transport/communicator.h"
#include <rondo/rondo.h>

struct rondo_rank;

struct rondo_world {
  struct rondo_world *next;
  struct rondo_unique_id id;
  uint32_t rank_count;
  uint32_t member_count;
  pthread_mutex_t lock;        // guards all below; taken before a rank's own lock
  struct rondo_rank **members; // by rank; null while absent
  struct rondo_device *device; // opened by the world, as its first rank's
  struct rondo_pool pool;
  void *meetings; // tree (search.h) of struct meeting, by id
};

// One rank's registration of one id.
struct rondo_party {
  struct rondo_party *next;
  uint64_t generation; // the n-th registration of the id on that rank
  uint32_t rank, position;
  uint32_t nranks;
  const uint32_t *members; // the registering rank's; outlives the party
  const struct rondo_collective_desc *desc;
  struct rondo_shape shape;
  struct rondo_communicator *comm;
  struct rondo_link send, recv; // to and from the plan's peer, if it has one
};

// Joins the job that `cfg` names, making it if this is its first rank here. Returns
// RONDO_SUCCESS, RONDO_ERR_EXISTS (rank taken), RONDO_ERR_INVALID (another rank count),
// RONDO_ERR_UNSUPPORTED (another backend) or RONDO_ERR_NO_MEMORY.
int rondo_world_join(const struct rondo_config *cfg, struct rondo_rank *rank,
                     struct rondo_world **world);
void rondo_world_leave(struct rondo_world *world, uint32_t rank);

// Calls `visit` for every job of this process. Jobs cannot end meanwhile.
void rondo_world_visit(void (*visit)(struct rondo_world *world, void *arg), void *arg);

// Enters `party` (rank, position, nranks, members, desc, shape set by the caller, who keeps it) and
// gives it its communicator, connected for `plan`. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY. A
// mismatch is no failure of this call.
int rondo_world_match(struct rondo_world *world, struct rondo_party *party,
                      const struct rondo_plan *plan);

// Takes the party out. Members that are still there cannot run past `completed`.
void rondo_world_unmatch(struct rondo_world *world, struct rondo_party *party, uint64_t completed);

#endif // RONDO_RUNTIME_BOOT_WORLD_H
