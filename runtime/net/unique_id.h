// Ids of jobs that reach beyond one process: from a root that is opened here, or from a launcher.
#ifndef RONDO_RUNTIME_NET_UNIQUE_ID_H
#define RONDO_RUNTIME_NET_UNIQUE_ID_H

#include <rondo/rondo.h>

// Opens a root as the completed configuration says, and makes the id of its job. Returns as
// rondo_unique_id_listen.
int rondo_root_listen(const struct rondo_config *cfg, struct rondo_unique_id *id);

// Takes rank and rank_count from the launcher's environment, and, if `with_id`, makes the id of its job,
// which is one of this process alone if there is one rank. Returns RONDO_SUCCESS, RONDO_ERR_UNKNOWN (no
// launcher; not logged), RONDO_ERR_INVALID or RONDO_ERR_UNSUPPORTED.
int rondo_launcher_config(struct rondo_config *cfg, int with_id);

#endif // RONDO_RUNTIME_NET_UNIQUE_ID_H
