// The mesh of a build without libevent or libsodium: only jobs of one process work.
#include "base/log.h"
#include "runtime/net/mesh.h"
#include "runtime/net/unique_id.h"

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

bool rondo_mesh_is_needed(const struct rondo_config *cfg) {
  (void)cfg;
  return false;
}

int rondo_mesh_start(const struct rondo_config *cfg, const struct rondo_mesh_events *events,
                     void *arg, struct rondo_mesh **out) {
  (void)cfg, (void)events, (void)arg, (void)out;
  return RONDO_LOG_REFUSE(RONDO_ERR_UNSUPPORTED, "init: " WITHOUT);
}

int rondo_mesh_add_rank(struct rondo_mesh *mesh, uint32_t rank) {
  (void)mesh, (void)rank;
  return RONDO_ERR_UNSUPPORTED;
}

void rondo_mesh_remove_rank(struct rondo_mesh *mesh, uint32_t rank) { (void)mesh, (void)rank; }

int rondo_mesh_await(struct rondo_mesh *mesh, int64_t timeout_ns) {
  (void)mesh, (void)timeout_ns;
  return RONDO_ERR_UNSUPPORTED;
}

uint32_t rondo_mesh_self(struct rondo_mesh *mesh) {
  (void)mesh;
  return RONDO_MESH_NOBODY;
}

uint32_t rondo_mesh_process_count(struct rondo_mesh *mesh) {
  (void)mesh;
  return 0;
}

uint32_t rondo_mesh_process_of(struct rondo_mesh *mesh, uint32_t rank) {
  (void)mesh, (void)rank;
  return RONDO_MESH_NOBODY;
}

int rondo_mesh_process_get(struct rondo_mesh *mesh, uint32_t process,
                           struct rondo_mesh_process *out) {
  (void)mesh, (void)process, (void)out;
  return RONDO_ERR_UNKNOWN;
}

bool rondo_mesh_is_same_machine(struct rondo_mesh *mesh, uint32_t process) {
  (void)mesh, (void)process;
  return false;
}

uint32_t rondo_mesh_address_of(struct rondo_mesh *mesh, uint32_t process,
                               struct sockaddr_storage *out) {
  (void)mesh, (void)process, (void)out;
  return 0;
}

int rondo_mesh_send(struct rondo_mesh *mesh, const struct rondo_mesh_send *message) {
  (void)mesh, (void)message;
  return RONDO_ERR_UNKNOWN;
}

int rondo_mesh_after(struct rondo_mesh *mesh, uint64_t delay_ns, void (*call)(void *arg),
                     void *arg) {
  (void)mesh, (void)delay_ns, (void)call, (void)arg;
  return RONDO_ERR_UNSUPPORTED;
}

void rondo_mesh_stop(struct rondo_mesh *mesh, int64_t timeout_ns, int64_t join_ns) {
  (void)mesh, (void)timeout_ns, (void)join_ns;
}

void rondo_mesh_counters(struct rondo_mesh *mesh, struct rondo_mesh_counters *out) {
  static const struct rondo_mesh_counters none;
  (void)mesh;
  *out = none;
}
