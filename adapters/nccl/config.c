#include "adapters/nccl/comm.h"

#include <string.h>

#include "adapters/nccl/debug.h"
#include "adapters/nccl/environment.h"

// The values that NCCL accepts for a field. Others are refused even if the field has no effect
// here.
struct range {
  size_t offset;
  int min, max;
  const char *name;
};

#define RANGE(field, min, max, name)                                                               \
  { offsetof(struct rondo_nccl_config, field), min, max, name }

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

// The value of a field; RONDO_NCCL_UNDEF_INT if the caller's struct does not have it.
static int config_field(const struct rondo_nccl_config *config, size_t offset) {
  int value = RONDO_NCCL_UNDEF_INT;
  if (config->size >= offset + sizeof value)
    memcpy(&value, (const char *)config + offset, sizeof value);
  return value;
}

static int config_check_ranges(const struct rondo_nccl_config *config, const char *call) {
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    int value = config_field(config, ranges[i].offset);
    if (value != RONDO_NCCL_UNDEF_INT && (value < ranges[i].min || value > ranges[i].max))
      return RONDO_NCCL_INVALID("%s: %s %d is out of range", call, ranges[i].name, value);
  }
  return RONDO_NCCL_SUCCESS;
}

// 0: not set. NCCL has the same limit of 64.
static uint32_t config_ctas(const struct rondo_nccl_config *config, size_t offset) {
  int value = config_field(config, offset);
  if (value == RONDO_NCCL_UNDEF_INT)
    return 0;
  return value > (int)RONDO_MAX_BLOCKS ? RONDO_MAX_BLOCKS : (uint32_t)value;
}

static int config_read(struct rondo_nccl_settings *settings, const struct rondo_nccl_config *config,
                       const char *call) {
  if (config->magic != RONDO_NCCL_CONFIG_MAGIC ||
      config->size < offsetof(struct rondo_nccl_config, cga_cluster_size))
    return RONDO_NCCL_INVALID("%s: the configuration was not initialised", call);
  int result = config_check_ranges(config, call);
  if (result != RONDO_NCCL_SUCCESS)
    return result;
  if (config->blocking != RONDO_NCCL_UNDEF_INT)
    settings->is_blocking = config->blocking;
  settings->min_ctas = config_ctas(config, offsetof(struct rondo_nccl_config, min_ctas));
  settings->max_ctas = config_ctas(config, offsetof(struct rondo_nccl_config, max_ctas));
  if (settings->max_ctas && settings->min_ctas > settings->max_ctas)
    return RONDO_NCCL_INVALID("%s: minCTAs %d is larger than maxCTAs %d", call, config->min_ctas,
                              config->max_ctas);
  return RONDO_NCCL_SUCCESS;
}

int rondo_nccl_settings_read(struct rondo_nccl_settings *settings,
                             const struct rondo_nccl_config *config,
                             const struct rondo_nccl_comm *parent, const char *call) {
  const struct rondo_nccl_environment *e = rondo_nccl_environment();
  memset(settings, 0, sizeof *settings);
  settings->is_blocking = parent ? parent->is_blocking : true;
  int result = config ? config_read(settings, config, call) : RONDO_NCCL_SUCCESS;
  if (e->blocking >= 0)
    settings->is_blocking = e->blocking;
  if (e->min_ctas)
    settings->min_ctas = e->min_ctas;
  if (e->max_ctas)
    settings->max_ctas = e->max_ctas;
  return result;
}
