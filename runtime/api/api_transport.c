// Describes backends and transports, and how a rank reaches another.
#include <stdbool.h>
#include <stdio.h>

#include "base/log.h"
#include "runtime/job/processes.h"
#include "runtime/memory/arena.h"
#include "runtime/net/mesh.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/transport/carrier.h"
#include "runtime/transport/nccl/window.h"
#include "runtime/transport/transports.h"

static void line_print(void *arg, const char *text) { fprintf(arg, "%s\n", text); }

static void windows_describe(FILE *out) {
  char line[RONDO_WHY_BYTES];
  int can = rondo_nccl_windows.describe(line);
  fprintf(out, "windows of NCCL: %s%s\n", can ? "" : "none: ", line);
}

int rondo_backend_describe(int backend, FILE *out) {
  char why[RONDO_WHY_BYTES] = "";
  const struct rondo_line_writer to = {line_print, out};
  int status = RONDO_SUCCESS;
  if (!out || backend < RONDO_BACKEND_HOST || backend > RONDO_BACKEND_CUDA)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "backend_describe: null argument, or backend %d",
                            backend);
  const struct rondo_driver *driver = rondo_driver_of(backend);
  if (!driver) {
    fprintf(out, "cannot be used: this library has no CUDA backend\n");
    return RONDO_ERR_UNSUPPORTED;
  }
  if (driver->describe)
    status = driver->describe(&to, why);
  if (driver->setup)
    windows_describe(out);
  if (status != RONDO_SUCCESS)
    fprintf(out, "cannot be used: %s\n", why);
  return status;
}

const char *rondo_transport_name(int transport) {
  static const char *const names[] = {"none", "local", "shared memory", "ucx", "nccl"};
  return transport >= 0 && transport <= RONDO_TRANSPORT_NCCL ? names[transport] : "unknown";
}

static int rank_find_transport(struct rondo_rank *self, uint32_t rank, int *transport, char *why,
                               size_t why_bytes) {
  if (!transport || !why || !why_bytes || rank >= self->cfg.rank_count)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "transport: null argument, or rank %u of %u", rank,
                            self->cfg.rank_count);
  pthread_mutex_lock(&self->job->lock);
  int found = rondo_processes_transport(self->job, &self->member, rank, why, why_bytes);
  pthread_mutex_unlock(&self->job->lock);
  if (found < 0)
    return RONDO_IN_PROGRESS; // not known yet
  *transport = found;
  return RONDO_SUCCESS;
}

int rondo_transport(struct rondo_context ctx, uint32_t rank, int *transport, char *why,
                    size_t why_bytes) {
  RONDO_RETURN_PINNED(ctx, "transport", self,
                      rank_find_transport(self, rank, transport, why, why_bytes));
}

static bool is_mesh_missing(char *why) {
  const char *missing = rondo_mesh_missing();
  if (missing)
    (void)snprintf(why, RONDO_WHY_BYTES, "%s", missing);
  return missing != NULL;
}

static int shared_memory_describe(FILE *out, char *why) {
  return is_mesh_missing(why) ? RONDO_ERR_UNSUPPORTED
                              : rondo_arena_describe(out, why, RONDO_WHY_BYTES);
}

static int network_describe(FILE *out, char *why) {
  if (is_mesh_missing(why))
    return RONDO_ERR_UNSUPPORTED;
  if (!rondo_transports_carrier->describe)
    return RONDO_SUCCESS;
  return rondo_transports_carrier->describe(out, why, RONDO_WHY_BYTES);
}

static int nccl_describe(FILE *out, char *why) {
  if (!rondo_nccl_windows.describe(why))
    return RONDO_ERR_UNSUPPORTED;
  fprintf(out, "%s\n", why);
  return RONDO_SUCCESS;
}

static int local_describe(FILE *out, char *why) {
  (void)why;
  fprintf(out, "ranks of one process: always\n");
  return RONDO_SUCCESS;
}

int rondo_transport_describe(int transport, FILE *out) {
  static int (*const describe[])(FILE *, char *) = {[RONDO_TRANSPORT_LOCAL] = local_describe,
                                                    [RONDO_TRANSPORT_SHARED_MEMORY] =
                                                        shared_memory_describe,
                                                    [RONDO_TRANSPORT_UCX] = network_describe,
                                                    [RONDO_TRANSPORT_NCCL] = nccl_describe};
  char why[RONDO_WHY_BYTES] = "";
  if (!out || transport < RONDO_TRANSPORT_LOCAL || transport > RONDO_TRANSPORT_NCCL)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "transport_describe: null argument, or transport %d",
                            transport);
  int status = describe[transport](out, why);
  if (status != RONDO_SUCCESS)
    fprintf(out, "cannot be used: %s\n", why);
  return status;
}
