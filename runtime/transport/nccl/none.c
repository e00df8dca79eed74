// Replaces window.c in builds without NCCL. RONDO_NO_NCCL says why.
#include <stdio.h>

#include "runtime/transport/nccl/window.h"

int rondo_nccl_describe(char *line) {
  (void)snprintf(line, RONDO_WHY_BYTES, "not compiled in: " RONDO_NO_NCCL);
  return 0;
}

int rondo_nccl_window_create(const struct rondo_nccl_window_config *config,
                             struct rondo_nccl_window **window, char *why) {
  (void)config;
  (void)window;
  (void)rondo_nccl_describe(why);
  return RONDO_ERR_UNSUPPORTED;
}

uint64_t rondo_nccl_window_base(const struct rondo_nccl_window *window) {
  (void)window;
  return 0;
}

uint64_t rondo_nccl_window_bytes(const struct rondo_nccl_window *window) {
  (void)window;
  return 0;
}

void rondo_nccl_window_make_id(struct rondo_nccl_window *window) { (void)window; }

void rondo_nccl_window_join(struct rondo_nccl_window *window, const uint8_t *id, uint32_t index,
                            uint32_t count) {
  (void)window;
  (void)id;
  (void)index;
  (void)count;
}

int rondo_nccl_window_poll(struct rondo_nccl_window *window, char *why) {
  (void)window;
  (void)rondo_nccl_describe(why);
  return RONDO_ERR_UNSUPPORTED;
}

const uint8_t *rondo_nccl_window_id(const struct rondo_nccl_window *window) {
  (void)window;
  return NULL;
}

uint64_t rondo_nccl_window_address(const struct rondo_nccl_window *window, uint32_t index) {
  (void)window;
  (void)index;
  return 0;
}

void rondo_nccl_window_give_up(struct rondo_nccl_window *window) { (void)window; }

void rondo_nccl_window_destroy(struct rondo_nccl_window *window) { (void)window; }
