// Feeds any bytes to the configuration reader of rondo-sim deadlock: it accepts or refuses with one
// line, and what it accepts, it can build.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/deadlock/config.h"
#include "sim/deadlock/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Numbers of GPUs and groups that a fuzzer cannot afford are legal, so they are not built.
static bool small(const struct rondo_sim_config *c) {
  uint64_t gpus =
      c->grouping == RONDO_SIM_3D ? (uint64_t)c->tensor * c->data * c->pipeline : c->gpu_count;
  uint64_t places = 0;
  for (uint32_t k = 0; c->grouping == RONDO_SIM_FREE_DRAWN && k < c->size_count; k++) {
    places += (uint64_t)c->sizes[k].count * c->sizes[k].gpus;
  }
  return gpus < 10000 && places < 10000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_sim_config c;
  struct rondo_sim_layout w;
  struct rondo_sim_error error = {""};
  char *text = malloc(size + 1);
  if (!text || size > 4096) {
    free(text);
    return 0;
  }
  memcpy(text, data, size);
  text[size] = 0;
  rondo_sim_config_init(&c);
  bool ok = rondo_sim_config_parse(&c, text, "fuzz", &error);
  if (ok == (error.text[0] != 0)) {
    abort();
  }
  if (ok && small(&c) && rondo_sim_config_layout(&c, 0, c.order, &w)) {
    rondo_sim_layout_fini(&w);
  }
  rondo_sim_config_fini(&c);
  free(text);
  return 0;
}
