#include "adapters/nccl/config.h"

#include <stdio.h>
#include <string.h>

#include "adapters/nccl/environment.h"
#include "adapters/nccl/say.h"

#define HAS(config, field)                                                                         \
  ((config)->size >= offsetof(struct rondo_nccl_config, field) + sizeof(config)->field)

// The least and most values of a field that steers NCCL, which was set.
struct range {
  size_t at;
  int least, most;
  const char *name;
};

#define RANGE(field, least, most, name)                                                            \
  { offsetof(struct rondo_nccl_config, field), least, most, name }

// What NCCL refuses is refused, also where the field has no effect here.
static const struct range ranges[] = {
    RANGE(blocking, 0, 1, "blocking"),
    RANGE(cga_cluster_size, 0, INT_MAX, "cgaClusterSize"),
    RANGE(min_ctas, 1, INT_MAX, "minCTAs"),
    RANGE(max_ctas, 1, INT_MAX, "maxCTAs"),
    RANGE(split_share, 0, 1, "splitShare"),
    RANGE(collnet_enable, 0, 1, "collnetEnable"),
    RANGE(cta_policy, 0, 3, "CTAPolicy"), // NCCL_CTA_POLICY_EFFICIENCY and _ZERO
    RANGE(shrink_share, 0, 1, "shrinkShare"),
    RANGE(nvls_ctas, 1, INT_MAX, "nvlsCTAs"),
    RANGE(channels_per_net_peer, 1, (int)RONDO_MAX_BLOCKS, "nChannelsPerNetPeer"),
    RANGE(nvlink_centric_sched, 0, 1, "nvlinkCentricSched"),
};

// The value of a field, or RONDO_NCCL_UNDEF_INT if the caller has none.
static int field_of(const struct rondo_nccl_config *config, size_t at) {
  int value = RONDO_NCCL_UNDEF_INT;
  if (config->size >= at + sizeof value)
    memcpy(&value, (const char *)config + at, sizeof value);
  return value;
}

static int check_ranges(const struct rondo_nccl_config *config, const char *call) {
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    int value = field_of(config, ranges[i].at);
    if (value != RONDO_NCCL_UNDEF_INT && (value < ranges[i].least || value > ranges[i].most))
      return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: %s is %d", call, ranges[i].name,
                               value);
  }
  return RONDO_NCCL_SUCCESS;
}

// 0 where it was not set; NCCL, too, has 64 at most.
static uint32_t ctas_of(int value) {
  if (value == RONDO_NCCL_UNDEF_INT)
    return 0;
  return value > (int)RONDO_MAX_BLOCKS ? RONDO_MAX_BLOCKS : (uint32_t)value;
}

static int read_config(struct rondo_nccl_settings *settings, const struct rondo_nccl_config *config,
                       const char *call) {
  if (config->magic != RONDO_NCCL_CONFIG_MAGIC || !HAS(config, blocking))
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT,
                             "%s: the configuration was not initialised", call);
  int result = check_ranges(config, call);
  if (result != RONDO_NCCL_SUCCESS)
    return result;
  if (config->blocking != RONDO_NCCL_UNDEF_INT)
    settings->is_blocking = config->blocking;
  if (HAS(config, max_ctas)) {
    settings->min_ctas = ctas_of(config->min_ctas);
    settings->max_ctas = ctas_of(config->max_ctas);
  }
  if (settings->max_ctas && settings->min_ctas > settings->max_ctas)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: minCTAs is %d and maxCTAs %d", call,
                             config->min_ctas, config->max_ctas);
  if (HAS(config, comm_name) && config->comm_name)
    (void)snprintf(settings->name, sizeof settings->name, "%s", config->comm_name);
  return RONDO_NCCL_SUCCESS;
}

int rondo_nccl_settings_read(struct rondo_nccl_settings *settings,
                             const struct rondo_nccl_config *config,
                             const struct rondo_nccl_comm *parent, const char *call) {
  const struct rondo_nccl_environment *e = rondo_nccl_environment();
  memset(settings, 0, sizeof *settings);
  settings->is_blocking = parent ? parent->is_blocking : true;
  int result = config ? read_config(settings, config, call) : RONDO_NCCL_SUCCESS;
  if (e->blocking >= 0)
    settings->is_blocking = e->blocking;
  if (e->min_ctas)
    settings->min_ctas = e->min_ctas;
  if (e->max_ctas)
    settings->max_ctas = e->max_ctas;
  return result;
}

void rondo_nccl_settings_give(const struct rondo_nccl_settings *settings,
                              struct rondo_nccl_comm *comm) {
  comm->is_blocking = settings->is_blocking;
  memcpy(comm->name, settings->name, sizeof comm->name);
}
