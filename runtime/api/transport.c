// How a rank reaches another.
#include <stdio.h>

#include "runtime/api/rank.h"
#include "runtime/boot/peers.h"
#include "runtime/observe/log.h"

const char *rondo_transport_name(int transport) {
  static const char *const names[] = {"none", "local", "shared memory"};
  return transport >= 0 && transport <= RONDO_TRANSPORT_SHARED_MEMORY ? names[transport]
                                                                      : "unknown";
}

int rondo_transport(struct rondo_context ctx, uint32_t rank, int *transport, char *why,
                    size_t why_bytes) {
  struct rondo_rank *self;
  int status = rondo_rank_enter(ctx, "transport", &self);
  if (status != RONDO_SUCCESS)
    return status;
  if (!transport || !why || !why_bytes || rank >= self->cfg.rank_count) {
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "transport: null argument, or rank %u of %u", rank,
                              self->cfg.rank_count);
  } else {
    pthread_mutex_lock(&self->world->lock);
    int found = rondo_peers_transport(self->world, self, rank, why, why_bytes);
    pthread_mutex_unlock(&self->world->lock);
    if (found < 0)
      status = RONDO_IN_PROGRESS;
    else
      *transport = found;
  }
  rondo_rank_exit(ctx);
  return status;
}
