// Replaces ucx.c in builds without the headers of UCX.
#include <stdio.h>

#include "runtime/transport/ucx/ucx.h"

static int open_none(const struct rondo_carrier_config *config, struct rondo_carrier **out,
                     char *why, size_t why_bytes) {
  (void)config, (void)out;
  (void)snprintf(why, why_bytes, "this library was built without UCX");
  return RONDO_ERR_UNSUPPORTED;
}

static int describe_none(FILE *out, char *why, size_t why_bytes) {
  (void)out;
  return open_none(NULL, NULL, why, why_bytes);
}

const struct rondo_carrier_calls rondo_ucx_carrier = {
    .name = "ucx", .describe = describe_none, .open = open_none};
