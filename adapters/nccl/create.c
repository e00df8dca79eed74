// Communicators of their own: by a unique id, and all at once.
#include <stdlib.h>
#include <string.h>

#include "adapters/nccl/comm.h"
#include "adapters/nccl/config.h"
#include "adapters/nccl/device.h"
#include "adapters/nccl/environment.h"
#include "adapters/nccl/result.h"
#include "adapters/nccl/say.h"

_Static_assert(sizeof(struct rondo_unique_id) == sizeof(struct rondo_nccl_id), "ids are as long");

// For lines of the log: equal for the ranks of a communicator.
static uint64_t digest(const void *data, size_t bytes) {
  const unsigned char *c = data;
  uint64_t value = UINT64_C(14695981039346656037); // FNV-1a
  for (size_t i = 0; i < bytes; i++)
    value = (value ^ c[i]) * UINT64_C(1099511628211);
  return value;
}

// What the environment says, unless Rondo's own variables do.
static void rondo_config_of(const struct rondo_nccl_settings *settings, struct rondo_config *cfg) {
  const struct rondo_nccl_environment *e = rondo_nccl_environment();
  cfg->backend = e->backend == RONDO_NCCL_BACKEND_HOST ? RONDO_BACKEND_HOST : RONDO_BACKEND_CUDA;
  if (e->interfaces && !getenv("RONDO_SOCKET_IFNAME"))
    (void)strncpy(cfg->interfaces, e->interfaces, sizeof cfg->interfaces - 1);
  if (e->address_family && !getenv("RONDO_ADDRESS_FAMILY"))
    cfg->address_family = e->address_family;
  struct rondo_config complete = *cfg;
  if ((!settings->min_ctas && !settings->max_ctas) || getenv("RONDO_BLOCKS") ||
      rondo_config_complete(&complete) != RONDO_SUCCESS)
    return;
  cfg->blocks = complete.blocks;
  if (settings->min_ctas > cfg->blocks)
    cfg->blocks = settings->min_ctas;
  if (settings->max_ctas && settings->max_ctas < cfg->blocks)
    cfg->blocks = settings->max_ctas;
}

// What the ranks of a job are made from.
struct plan {
  const char *call;
  struct rondo_unique_id id;
  int rank, rank_count, device;
  struct rondo_nccl_settings settings;
};

// A context and a communicator of all its ranks.
static int open_comm(const struct plan *plan, struct rondo_nccl_comm *comm) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_comm_config shape = RONDO_COMM_CONFIG_INIT;
  rondo_config_of(&plan->settings, &cfg);
  cfg.id = plan->id;
  cfg.rank = (uint32_t)plan->rank;
  cfg.rank_count = (uint32_t)plan->rank_count;
  cfg.device = plan->device;
  int status = rondo_init(&comm->home->ctx, &cfg);
  if (status == RONDO_ERR_UNSUPPORTED && cfg.backend == RONDO_BACKEND_CUDA)
    return rondo_nccl_refuse(RONDO_NCCL_CUDA_ERROR,
                             "%s: there is no CUDA device that Rondo can use; "
                             "RONDO_NCCL_BACKEND=host runs on memory of the CPU",
                             plan->call);
  if (status != RONDO_SUCCESS)
    return rondo_nccl_passed_on(status, plan->call);
  status = rondo_comm_create(comm->home->ctx, &shape, &comm->comm);
  if (status != RONDO_SUCCESS)
    rondo_destroy(comm->home->ctx, RONDO_DESTROY_ABORT, 0);
  comm->home->backend = cfg.backend;
  comm->home->device = plan->device;
  return rondo_nccl_passed_on(status, plan->call);
}

static int make(const struct plan *plan, rondo_nccl_comm_t *out) {
  struct rondo_nccl_home *home = calloc(1, sizeof *home);
  struct rondo_nccl_comm *comm =
      home ? rondo_nccl_comm_make(home, plan->rank, plan->rank_count) : NULL;
  if (!comm) {
    free(home);
    return rondo_nccl_refuse(RONDO_NCCL_SYSTEM_ERROR, "%s: no memory", plan->call);
  }
  rondo_nccl_settings_give(&plan->settings, comm);
  int result = open_comm(plan, comm);
  if (result != RONDO_NCCL_SUCCESS) {
    rondo_nccl_comm_discard(comm);
    return result;
  }
  rondo_nccl_comm_add(comm);
  rondo_nccl_say_version();
  rondo_nccl_info(RONDO_NCCL_SUBSYS_INIT, plan->device,
                  "%s comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId 0 commId 0x%llx - "
                  "Init COMPLETE",
                  plan->call, (void *)comm, plan->rank, plan->rank_count, plan->device,
                  plan->device, (unsigned long long)digest(&plan->id, sizeof plan->id));
  *out = comm;
  return RONDO_NCCL_SUCCESS;
}

static int check_place(const char *call, const rondo_nccl_comm_t *out, int rank, int rank_count) {
  if (!out)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: no place for the communicator",
                             call);
  if (rank_count < 1 || rank_count > (int)RONDO_MAX_RANKS || rank < 0 || rank >= rank_count)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: rank %d of %d ranks (at most %u)",
                             call, rank, rank_count, RONDO_MAX_RANKS);
  return RONDO_NCCL_SUCCESS;
}

static int join(const char *call, struct plan *plan, const struct rondo_nccl_config *config,
                rondo_nccl_comm_t *out) {
  plan->call = call;
  int result = check_place(call, out, plan->rank, plan->rank_count);
  if (result == RONDO_NCCL_SUCCESS)
    result = rondo_nccl_settings_read(&plan->settings, config, NULL, call);
  if (result != RONDO_NCCL_SUCCESS)
    return result;
  plan->device = rondo_nccl_current_device();
  return make(plan, out);
}

static int make_all(const struct plan *like, rondo_nccl_comm_t *comms, const int *devices) {
  struct plan plan = *like;
  int made = 0, result = RONDO_NCCL_SUCCESS;
  while (made < plan.rank_count && result == RONDO_NCCL_SUCCESS) {
    plan.rank = made;
    plan.device = devices ? devices[made] : made;
    result = make(&plan, &comms[made]);
    made += result == RONDO_NCCL_SUCCESS;
  }
  while (result != RONDO_NCCL_SUCCESS && made > 0)
    (void)pncclCommAbort(comms[--made]);
  return result;
}

// NOLINTBEGIN(readability-identifier-naming,readability-function-size): the calls are NCCL's.

RONDO_NCCL_DEFINE(int, GetUniqueId, (struct rondo_nccl_id * id)) {
  struct rondo_unique_id made;
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_nccl_settings settings = {0};
  if (!id)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "ncclGetUniqueId: no place for it");
  rondo_nccl_say_version();
  rondo_config_of(&settings, &cfg);
  cfg.backend = RONDO_BACKEND_HOST; // which it is does not matter here
  int status = rondo_unique_id_listen(&made, &cfg);
  if (status == RONDO_ERR_UNSUPPORTED) // ranks can still be threads of this process
    status = rondo_unique_id_create(&made);
  if (status == RONDO_SUCCESS)
    memcpy(id, &made, sizeof *id);
  return rondo_nccl_passed_on(status, "ncclGetUniqueId");
}

RONDO_NCCL_DEFINE(int, CommInitRankConfig,
                  (rondo_nccl_comm_t * comm, int rank_count, struct rondo_nccl_id id, int rank,
                   struct rondo_nccl_config *config)) {
  struct plan plan = {.rank = rank, .rank_count = rank_count};
  memcpy(&plan.id, &id, sizeof id);
  return join("ncclCommInitRankConfig", &plan, config, comm);
}

RONDO_NCCL_DEFINE(int, CommInitRank,
                  (rondo_nccl_comm_t * comm, int rank_count, struct rondo_nccl_id id, int rank)) {
  struct plan plan = {.rank = rank, .rank_count = rank_count};
  memcpy(&plan.id, &id, sizeof id);
  return join("ncclCommInitRank", &plan, NULL, comm);
}

// All ranks have the same ids, and the first is enough.
RONDO_NCCL_DEFINE(int, CommInitRankScalable,
                  (rondo_nccl_comm_t * comm, int rank_count, int rank, int id_count,
                   struct rondo_nccl_id *ids, struct rondo_nccl_config *config)) {
  struct plan plan = {.rank = rank, .rank_count = rank_count};
  if (!ids || id_count < 1 || id_count > rank_count)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT,
                             "ncclCommInitRankScalable: %d ids for %d ranks", ids ? id_count : 0,
                             rank_count);
  memcpy(&plan.id, &ids[0], sizeof ids[0]);
  return join("ncclCommInitRankScalable", &plan, config, comm);
}

RONDO_NCCL_DEFINE(int, CommInitAll, (rondo_nccl_comm_t * comms, int count, const int *devices)) {
  struct plan plan = {.call = "ncclCommInitAll", .rank_count = count};
  int result = check_place(plan.call, comms, 0, count);
  if (result == RONDO_NCCL_SUCCESS)
    result = rondo_nccl_settings_read(&plan.settings, NULL, NULL, plan.call);
  if (result == RONDO_NCCL_SUCCESS)
    result = rondo_nccl_passed_on(rondo_unique_id_create(&plan.id), plan.call);
  return result == RONDO_NCCL_SUCCESS ? make_all(&plan, comms, devices) : result;
}

// NOLINTEND(readability-identifier-naming,readability-function-size)
