#include "adapters/nccl/config.h"

#include <stdio.h>
#include <string.h>

#include "adapters/nccl/environment.h"
#include "adapters/nccl/say.h"

#define HAS(config, field)                                                                         \
  ((config)->size >= offsetof(struct rondo_nccl_config, field) + sizeof(config)->field)

// A field that was set, from 1 to 64, or else 0.
static uint32_t ctas_of(int value, const char *call, const char *field) {
  if (value == RONDO_NCCL_UNDEF_INT)
    return 0;
  if (value >= 1 && value <= (int)RONDO_MAX_BLOCKS)
    return (uint32_t)value;
  rondo_nccl_warn("%s: %s is %d, and not from 1 to %u: ignored", call, field, value,
                  RONDO_MAX_BLOCKS);
  return 0;
}

static int read_config(struct rondo_nccl_settings *settings, const struct rondo_nccl_config *config,
                       const char *call) {
  if (config->magic != RONDO_NCCL_CONFIG_MAGIC || !HAS(config, blocking))
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT,
                             "%s: the configuration was not initialised", call);
  if (config->blocking == 0 || config->blocking == 1)
    settings->is_blocking = config->blocking;
  else if (config->blocking != RONDO_NCCL_UNDEF_INT)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: blocking is %d, and not 0 or 1",
                             call, config->blocking);
  if (HAS(config, max_ctas)) {
    settings->min_ctas = ctas_of(config->min_ctas, call, "minCTAs");
    settings->max_ctas = ctas_of(config->max_ctas, call, "maxCTAs");
  }
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
