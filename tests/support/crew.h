// Meshes of one job that are all in this process, as if each were a process of its own, with a
// record of what each received; for tests of the mesh.
#ifndef RONDO_TESTS_SUPPORT_CREW_H
#define RONDO_TESTS_SUPPORT_CREW_H

#include <pthread.h>
#include <stdint.h>

#include "runtime/job/members.h"

#define RONDO_CREW_MAX 1024u
#define RONDO_CREW_LONG_NS INT64_C(40000000000) // a wait that only a hang outlasts

// One mesh, and what it received. Guarded by the crew's lock.
struct rondo_crew_member {
  struct rondo_crew *crew;
  struct rondo_members *mesh;
  uint32_t rank;
  uint32_t rosters;         // calls of `roster`
  uint32_t received;        // messages
  uint32_t bad;             // of them those that were not as expected
  uint32_t lost;            // ranks
  uint64_t lost_bits;       // which of the first 64
  uint32_t received_before; // the last loss
  uint32_t late;            // messages from a process that had been reported lost
  int reason;               // of the last loss
  char text[256];           // of the last loss
  uint32_t next[64];        // by sender below 64: number that its next message must have
  int fd;                   // that came last; -1: none
};

struct rondo_crew {
  uint32_t size;
  struct rondo_unique_id id;
  struct rondo_config cfg; // of each, but for the rank
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct rondo_crew_member members[RONDO_CREW_MAX];
};

// Makes the id of a job of `size` ranks on loopback, with `timeout_ms` for joining. Starts nobody.
void rondo_crew_init(struct rondo_crew *crew, uint32_t size, uint32_t timeout_ms);
// Starts the mesh of a rank. Returns what rondo_mesh_start does.
int rondo_crew_start(struct rondo_crew *crew, uint32_t rank);
// Starts all and waits until they have found each other; fails the test if they do not.
void rondo_crew_gather(struct rondo_crew *crew);
// Stops the meshes that are there.
void rondo_crew_fini(struct rondo_crew *crew);
void rondo_crew_stop(struct rondo_crew *crew, uint32_t rank);
// The same, but waits without a limit for processes that have not come yet.
void rondo_crew_stop_last(struct rondo_crew *crew, uint32_t rank);

// Sends message `number` of `size` bytes from one rank to another; the receiver checks it.
int rondo_crew_send(struct rondo_crew *crew, uint32_t from, uint32_t to, uint32_t number,
                    uint32_t size);

// Waits until `is_so(member, arg)`; fails the test if it never is.
void rondo_crew_await(struct rondo_crew_member *m,
                      int (*is_so)(struct rondo_crew_member *, uint32_t), uint32_t arg);
int rondo_crew_has_received(struct rondo_crew_member *m, uint32_t count);
int rondo_crew_has_lost(struct rondo_crew_member *m, uint32_t count);

#endif // RONDO_TESTS_SUPPORT_CREW_H
