// Replaces window.c in builds without NCCL. RONDO_NO_NCCL says why.
#include <stdio.h>

#include "runtime/transport/nccl/window.h"

static int nccl_describe(char *line) {
  (void)snprintf(line, RONDO_WHY_BYTES, "not compiled in: " RONDO_NO_NCCL);
  return 0;
}

static int window_create(const struct rondo_nccl_window_config *config,
                         struct rondo_nccl_window **window, char *why) {
  (void)config, (void)window;
  (void)nccl_describe(why);
  return RONDO_ERR_UNSUPPORTED;
}

const struct rondo_nccl_window_calls rondo_nccl_windows = {.describe = nccl_describe,
                                                           .create = window_create};
