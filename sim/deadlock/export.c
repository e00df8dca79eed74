#include "sim/deadlock/export.h"

#include <jansson.h>
#include <stdlib.h>

#include "sim/deadlock/world.h"

// The members of a group as a list.
static json_t *members_json(const struct rondo_sim_world *w, uint32_t group) {
  json_t *list = json_array();
  for (uint32_t m = w->member_offset[group]; m < w->member_offset[group + 1]; m++) {
    json_array_append_new(list, json_integer(w->members[m]));
  }
  return list;
}

static void add_groups(json_t *root, const struct rondo_sim_world *w) {
  json_t *lists = json_array(), *counts = json_array();
  for (uint32_t g = 0; g < w->group_count; g++) {
    json_array_append_new(lists, members_json(w, g));
    json_array_append_new(counts, json_integer(w->collectives[g]));
  }
  json_object_update_new(root,
                         json_pack("{s:s, s:i, s:i, s:o, s:o}", "grouping_policy", "Arbitrary",
                                   "gpu_num", (int)w->gpu_count, "group_num", (int)w->group_count,
                                   "gpu_per_group", lists, "coll_cnt_per_group", counts));
}

bool rondo_sim_export(const struct rondo_sim_config *c, struct rondo_sim_text *out) {
  bool single = c->model == RONDO_SIM_SINGLE_QUEUE;
  struct rondo_sim_world w;
  if (c->skipped != RONDO_SIM_SKIPPED_KEEPS_ODDS || c->order != RONDO_SIM_INTERLEAVED) {
    return false;
  }
  json_t *root = json_pack(
      "{s:I, s:i, s:f, s:f, s:s, s:i, s:I}", "total_rounds", (json_int_t)c->rounds, "fix_seed", 0,
      "disorder_prob", c->disorder, "sync_prob", single ? 0 : c->synchronisation, "model",
      single ? "Single" : "StreamWithSync", "num_process", 1, "resource_limit",
      c->model == RONDO_SIM_RESOURCES ? (json_int_t)c->resources : (json_int_t)-1);
  bool ok = true;
  if (c->grouping == RONDO_SIM_3D) {
    json_object_update_new(root,
                           json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "grouping_policy",
                                     "Megatron", "tp_group_size", (int)c->tensor, "dp_group_size",
                                     (int)c->data, "pp_group_size", (int)c->pipeline,
                                     "coll_cnt_per_tp_group", (int)c->tensor_collectives,
                                     "coll_cnt_per_dp_group", (int)c->data_collectives));
  } else {
    ok = rondo_sim_config_world(c, 0, RONDO_SIM_INTERLEAVED, &w);
    if (ok) {
      add_groups(root, &w);
      rondo_sim_world_fini(&w);
    }
  }
  char *text = json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12));
  rondo_sim_text_add(out, "%s\n", text ? text : "");
  free(text);
  json_decref(root);
  return ok;
}
