// The mesh of a build without libevent or libsodium: only jobs of one process work.
#include "base/log.h"
#include "runtime/net/job_address.h"
#include "runtime/net/mesh.h"

#define WITHOUT                                                                                    \
  "this library was built without libevent or libsodium: a job's ranks share one process"

const char *rondo_mesh_missing(void) { return WITHOUT; }

int rondo_root_listen(const struct rondo_config *cfg, const struct rondo_root_gatherer *gatherer,
                      struct rondo_unique_id *id) {
  (void)cfg, (void)gatherer, (void)id;
  return RONDO_LOG_REFUSE(RONDO_ERR_UNSUPPORTED, "unique_id_listen: " WITHOUT);
}

int rondo_launcher_config(struct rondo_config *cfg, bool with_id) {
  (void)cfg, (void)with_id;
  return RONDO_LOG_REFUSE(RONDO_ERR_UNSUPPORTED, "init: " WITHOUT);
}
