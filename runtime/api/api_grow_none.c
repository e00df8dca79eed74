// Jobs whose members change (include/rondo/elastic.h) in a build without libevent or libsodium.
#include <stdio.h>

#include <rondo/elastic.h>

#include "base/log.h"
#include "runtime/net/mesh.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"

// `why` may be null.
static int refuse(const char *call, char *why) {
  if (why)
    (void)snprintf(why, RONDO_REASON_BYTES, "%s", rondo_mesh_missing());
  return RONDO_LOG_REFUSE(RONDO_ERR_UNSUPPORTED, "%s: %s", call, rondo_mesh_missing());
}

int rondo_grow_listen(struct rondo_unique_id *id, const struct rondo_config *cfg) {
  (void)id, (void)cfg;
  return refuse("grow_listen", NULL);
}

int rondo_grow_close(const struct rondo_unique_id *id) {
  (void)id;
  return refuse("grow_close", NULL);
}

int rondo_pending(const struct rondo_unique_id *id, uint32_t *count) {
  (void)id, (void)count;
  return refuse("pending", NULL);
}

int rondo_join(struct rondo_context *ctx, const struct rondo_config *cfg, int64_t timeout_ns,
               char *why) {
  (void)ctx, (void)cfg, (void)timeout_ns;
  return refuse("join", why);
}

int rondo_grow(struct rondo_context ctx, const struct rondo_unique_id *id, uint32_t newcomers,
               int64_t timeout_ns, struct rondo_context *next, char *why) {
  (void)ctx, (void)id, (void)newcomers, (void)timeout_ns, (void)next;
  return refuse("grow", why);
}

int rondo_shrink(struct rondo_context ctx, const uint32_t *excluded, uint32_t count,
                 int64_t timeout_ns, struct rondo_context *next, char *why) {
  (void)ctx, (void)excluded, (void)count, (void)timeout_ns, (void)next;
  return refuse("shrink", why);
}
