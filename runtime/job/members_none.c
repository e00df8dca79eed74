// The members of a build without libevent or libsodium: only jobs of one process work.
#include "runtime/job/members.h"
#include "runtime/net/job_root.h"

static bool members_is_needed(const struct rondo_config *cfg) {
  (void)cfg;
  return false;
}

static const struct rondo_members_calls members_calls = {.is_needed = members_is_needed};
const struct rondo_members_calls *rondo_members_calls = &members_calls;

const struct rondo_root_gatherer rondo_members_gatherer = {0}; // mesh_none.c refuses before its use
