// A mesh whose other side is the test: the test says what arrives, and sees what is sent.
//
//   rondo_hand_mesh_put -> rondo_init ... rondo_hand_mesh_say / rondo_hand_mesh_ring ->
//   rondo_destroy
//
// One job at a time. Rank 0 lives in this process, all others together in process 1.
#ifndef RONDO_TESTS_SUPPORT_HAND_MESH_H
#define RONDO_TESTS_SUPPORT_HAND_MESH_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/job/job.h"

struct rondo_hand_mesh {
  int is_remote; // process 1 is on another machine
  // The messages that are sent, under the lock of the job.
  void (*sent)(const struct rondo_mesh_send *message);
  struct rondo_members_events events; // the job's
  void *arg;                          // of the events
};
extern struct rondo_hand_mesh rondo_hand_mesh;

// Takes the place of the real one, with what the test has set there afterwards.
void rondo_hand_mesh_put(void);
// Process 1 says something.
void rondo_hand_mesh_say(uint32_t type, const void *bytes, size_t size, int fd);
// Time is up for what was asked for later: all of it, but not what that asks for.
void rondo_hand_mesh_ring(void);

#endif // RONDO_TESTS_SUPPORT_HAND_MESH_H
