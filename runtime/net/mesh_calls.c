#include "runtime/net/mesh.h"

static const struct rondo_mesh_calls mesh_calls = {.is_needed = rondo_mesh_is_needed,
                                                   .start = rondo_mesh_start,
                                                   .add_rank = rondo_mesh_add_rank,
                                                   .remove_rank = rondo_mesh_remove_rank,
                                                   .self = rondo_mesh_self,
                                                   .process_count = rondo_mesh_process_count,
                                                   .process_of = rondo_mesh_process_of,
                                                   .is_same_machine = rondo_mesh_is_same_machine,
                                                   .process_get = rondo_mesh_process_get,
                                                   .address_of = rondo_mesh_address_of,
                                                   .send = rondo_mesh_send,
                                                   .after = rondo_mesh_after,
                                                   .stop = rondo_mesh_stop};
const struct rondo_mesh_calls *rondo_mesh_calls = &mesh_calls;
