// The exported ncclGetUniqueId and ncclCommInit… calls.
#include <stdlib.h>
#include <string.h>

#include "adapters/nccl/comm.h"
#include "adapters/nccl/debug.h"
#include "adapters/nccl/device.h"
#include "adapters/nccl/environment.h"

_Static_assert(sizeof(struct rondo_unique_id) == sizeof(struct rondo_nccl_id),
               "the two ids have one size");

// FNV-1a. The log shows it as commId, which is equal on all ranks of a communicator.
static uint64_t id_digest(const void *data, size_t bytes) {
  const unsigned char *c = data;
  uint64_t value = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < bytes; i++)
    value = (value ^ c[i]) * UINT64_C(1099511628211);
  return value;
}

// Applies the variables of NCCL, except where a variable of Rondo is set.
static void config_fill(struct rondo_config *cfg, const struct rondo_nccl_settings *settings) {
  const struct rondo_nccl_environment *e = rondo_nccl_environment();
  cfg->backend = e->backend;
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

// The parameters of a rank.
struct init {
  const char *call;
  struct rondo_unique_id id;
  int rank, rank_count, device;
  struct rondo_nccl_settings settings;
};

// Creates a context and a communicator of all its ranks.
static int comm_open(const struct init *init, struct rondo_nccl_comm *comm) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_comm_config comm_cfg = RONDO_COMM_CONFIG_INIT;
  config_fill(&cfg, &init->settings);
  cfg.id = init->id;
  cfg.rank = (uint32_t)init->rank;
  cfg.rank_count = (uint32_t)init->rank_count;
  cfg.device = init->device;
  int status = rondo_init(&comm->shared->ctx, &cfg);
  if (status == RONDO_ERR_UNSUPPORTED && cfg.backend == RONDO_BACKEND_CUDA)
    return rondo_nccl_refuse(RONDO_NCCL_CUDA_ERROR,
                             "%s: Rondo finds no CUDA device that it can use; "
                             "RONDO_NCCL_BACKEND=host runs on the CPU",
                             init->call);
  if (status != RONDO_SUCCESS)
    return rondo_nccl_check_status(status, init->call);
  status = rondo_comm_create(comm->shared->ctx, &comm_cfg, &comm->comm);
  if (status != RONDO_SUCCESS)
    rondo_destroy(comm->shared->ctx, RONDO_DESTROY_ABORT, 0);
  comm->shared->backend = cfg.backend;
  comm->shared->device = init->device;
  return rondo_nccl_check_status(status, init->call);
}

static int comm_init(const struct init *init, rondo_nccl_comm_t *out) {
  struct rondo_nccl_shared *shared = calloc(1, sizeof *shared);
  struct rondo_nccl_comm *comm =
      shared ? rondo_nccl_comm_create(shared, init->rank, init->rank_count) : NULL;
  if (!comm) {
    free(shared);
    return rondo_nccl_refuse(RONDO_NCCL_SYSTEM_ERROR, "%s: no memory", init->call);
  }
  comm->is_blocking = init->settings.is_blocking;
  int result = comm_open(init, comm);
  if (result != RONDO_NCCL_SUCCESS) {
    rondo_nccl_comm_unref(comm);
    return result;
  }
  rondo_nccl_comm_add(comm);
  rondo_nccl_debug_print_version();
  rondo_nccl_info(RONDO_NCCL_SUBSYS_INIT, init->device,
                  "%s comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId 0 commId 0x%llx - "
                  "Init COMPLETE",
                  init->call, (void *)comm, init->rank, init->rank_count, init->device,
                  init->device, (unsigned long long)id_digest(&init->id, sizeof init->id));
  *out = comm;
  return RONDO_NCCL_SUCCESS;
}

// Checks the parameters and reads the settings.
static int init_complete(struct init *init, const struct rondo_nccl_config *config,
                         const rondo_nccl_comm_t *out) {
  const int rank = init->rank, rank_count = init->rank_count;
  if (!out)
    return RONDO_NCCL_INVALID("%s: the pointer to the new communicator is null", init->call);
  if (rank_count < 1 || rank_count > (int)RONDO_MAX_RANKS || rank < 0 || rank >= rank_count)
    return RONDO_NCCL_INVALID("%s: rank %d of %d ranks (at most %u)", init->call, rank, rank_count,
                              RONDO_MAX_RANKS);
  return rondo_nccl_settings_read(&init->settings, config, NULL, init->call);
}

static int comm_init_rank(struct init *init, const struct rondo_nccl_id *id,
                          const struct rondo_nccl_config *config, rondo_nccl_comm_t *out) {
  memcpy(&init->id, id, sizeof *id);
  int result = init_complete(init, config, out);
  if (result != RONDO_NCCL_SUCCESS)
    return result;
  init->device = rondo_nccl_device_get_current();
  return comm_init(init, out);
}

static int comm_init_all(const struct init *all, rondo_nccl_comm_t *comms, const int *devices) {
  struct init init = *all;
  int made = 0, result = RONDO_NCCL_SUCCESS;
  while (made < init.rank_count && result == RONDO_NCCL_SUCCESS) {
    init.rank = made;
    init.device = devices ? devices[made] : made;
    result = comm_init(&init, &comms[made]);
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
    return RONDO_NCCL_INVALID("ncclGetUniqueId: the pointer to the id is null");
  rondo_nccl_debug_print_version();
  config_fill(&cfg, &settings);
  cfg.backend = RONDO_BACKEND_HOST; // listening needs no device
  int status = rondo_unique_id_listen(&made, &cfg);
  if (status ==
      RONDO_ERR_UNSUPPORTED) // no mesh in this build: the ranks are threads of this process
    status = rondo_unique_id_create(&made);
  if (status == RONDO_SUCCESS)
    memcpy(id, &made, sizeof *id);
  return rondo_nccl_check_status(status, "ncclGetUniqueId");
}

RONDO_NCCL_DEFINE(int, CommInitRankConfig,
                  (rondo_nccl_comm_t * comm, int rank_count, struct rondo_nccl_id id, int rank,
                   struct rondo_nccl_config *config)) {
  struct init init = {"ncclCommInitRankConfig", .rank = rank, .rank_count = rank_count};
  return comm_init_rank(&init, &id, config, comm);
}

RONDO_NCCL_DEFINE(int, CommInitRank,
                  (rondo_nccl_comm_t * comm, int rank_count, struct rondo_nccl_id id, int rank)) {
  struct init init = {"ncclCommInitRank", .rank = rank, .rank_count = rank_count};
  return comm_init_rank(&init, &id, NULL, comm);
}

// All ranks pass the same ids. The first id is enough.
RONDO_NCCL_DEFINE(int, CommInitRankScalable,
                  (rondo_nccl_comm_t * comm, int rank_count, int rank, int id_count,
                   struct rondo_nccl_id *ids, struct rondo_nccl_config *config)) {
  struct init init = {"ncclCommInitRankScalable", .rank = rank, .rank_count = rank_count};
  if (!ids || id_count < 1 || id_count > rank_count)
    return RONDO_NCCL_INVALID("ncclCommInitRankScalable: %d ids for %d ranks", ids ? id_count : 0,
                              rank_count);
  return comm_init_rank(&init, ids, config, comm);
}

RONDO_NCCL_DEFINE(int, CommInitAll, (rondo_nccl_comm_t * comms, int count, const int *devices)) {
  struct init init = {.call = "ncclCommInitAll", .rank_count = count};
  int result = init_complete(&init, NULL, comms);
  if (result == RONDO_NCCL_SUCCESS)
    result = rondo_nccl_check_status(rondo_unique_id_create(&init.id), init.call);
  return result == RONDO_NCCL_SUCCESS ? comm_init_all(&init, comms, devices) : result;
}

// NOLINTEND(readability-identifier-naming,readability-function-size)
