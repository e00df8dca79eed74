// The roots of the virtual network (virtual_mesh.h): what runtime/net/job_root.c does, without
// sockets.
#ifndef RONDO_TESTS_EXPLORE_VIRTUAL_ROOT_H
#define RONDO_TESTS_EXPLORE_VIRTUAL_ROOT_H

#include "runtime/net/shared_bytes.h"
#include "runtime/net/wire.h"
#include "tests/explore/virtual_mesh.h"

// A message of a mesh to its root.
void virtual_root_post(struct rondo_mesh *from, struct rondo_shared_bytes *bytes);
// The mesh has the roster: it says goodbye to the root.
void virtual_root_note_roster(struct rondo_mesh *mesh);
// The mesh has closed its connection.
void virtual_roots_lose(struct rondo_mesh *mesh);
// The roots of the process are gone with it.
void virtual_roots_crash(uint32_t process);

bool virtual_roots_turn(void);
uint64_t virtual_roots_due(void);

// ---- virtual_mesh.c ----

struct rondo_job_key virtual_job_add(struct rondo_unique_id *id);
uint64_t virtual_delay_ns(void);
bool virtual_is_cut(uint32_t a, uint32_t b); // processes
void virtual_post_from_root(struct rondo_mesh *to, struct rondo_shared_bytes *bytes);
void virtual_post_root_cut(struct rondo_mesh *to, uint64_t delay_ns);

#endif // RONDO_TESTS_EXPLORE_VIRTUAL_ROOT_H
