// Ids of jobs with several processes: from a root that this process opens, or from a launcher.
#ifndef RONDO_RUNTIME_NET_UNIQUE_ID_H
#define RONDO_RUNTIME_NET_UNIQUE_ID_H

#include <stdbool.h>

#include <rondo/rondo.h>

// Opens a root with a completed configuration and makes the id of its job. Returns as
// rondo_unique_id_listen.
int rondo_root_listen(const struct rondo_config *cfg, struct rondo_unique_id *id);

// Sets rank and rank_count from the launcher's environment. With `with_id`, also makes the id of
// the job, unless it has one rank only. Returns RONDO_SUCCESS, RONDO_ERR_UNKNOWN (no launcher; not
// logged), RONDO_ERR_INVALID or RONDO_ERR_UNSUPPORTED.
int rondo_launcher_config(struct rondo_config *cfg, bool with_id);

#endif // RONDO_RUNTIME_NET_UNIQUE_ID_H
