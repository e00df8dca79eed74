// The mesh of a build without libevent or libsodium: only jobs of one process work.
#include "base/log.h"
#include "runtime/net/job_address.h"
#include "runtime/net/mesh.h"

#define WITHOUT                                                                                    \
  "this library was built without libevent or libsodium: a job's ranks share one process"

const char *rondo_mesh_missing(void) { return WITHOUT; }

int rondo_root_listen(const struct rondo_config *cfg, struct rondo_unique_id *id) {
  (void)cfg, (void)id;
  return RONDO_LOG_REFUSE(RONDO_ERR_UNSUPPORTED, "unique_id_listen: " WITHOUT);
}

int rondo_launcher_config(struct rondo_config *cfg, bool with_id) {
  (void)cfg, (void)with_id;
  return RONDO_LOG_REFUSE(RONDO_ERR_UNSUPPORTED, "init: " WITHOUT);
}

static bool mesh_is_needed(const struct rondo_config *cfg) {
  (void)cfg;
  return false;
}

static const struct rondo_mesh_calls mesh_calls = {.is_needed = mesh_is_needed};
const struct rondo_mesh_calls *rondo_mesh_calls = &mesh_calls;
