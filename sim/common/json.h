// JSON at the end of a text.
#ifndef RONDO_SIM_COMMON_JSON_H
#define RONDO_SIM_COMMON_JSON_H

#include <stdlib.h>

#include <jansson.h>

#include "sim/common/text.h"

// Appends `root`, written with the flags of json_dumps, and a line feed. Frees `root`.
static inline void rondo_sim_text_add_json(struct rondo_sim_text *t, json_t *root, size_t flags) {
  char *text = json_dumps(root, flags);
  rondo_sim_text_add(t, "%s\n", text ? text : "");
  free(text);
  json_decref(root);
}

#endif // RONDO_SIM_COMMON_JSON_H
