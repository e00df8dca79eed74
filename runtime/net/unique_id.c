#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/log.h"
#include "runtime/net/address.h"
#include "runtime/net/job_address.h"
#include "runtime/net/root.h"
#include "runtime/net/unique_id.h"

int rondo_root_listen(const struct rondo_config *cfg, struct rondo_unique_id *id) {
  struct rondo_wire_address at[RONDO_WIRE_ADDRESSES];
  struct rondo_root_config root = {.addresses = at,
                                   .join_timeout_ns = cfg->join_timeout_ns,
                                   .peer_timeout_ns = cfg->peer_timeout_ns};
  uint8_t tag[RONDO_WIRE_TAG_BYTES];
  uint8_t secret[RONDO_HANDSHAKE_SECRET_BYTES];
  root.address_count = rondo_address_list(cfg->interfaces, cfg->address_family, at);
  if (!root.address_count)
    return RONDO_LOG_REFUSE(RONDO_ERR_UNSUPPORTED,
                            "unique_id_listen: no network interface fits \"%s\"", cfg->interfaces);
  if (sodium_init() < 0)
    return RONDO_LOG_REFUSE(RONDO_ERR_SYSTEM, "unique_id_listen: the system gives no random bytes");
  randombytes_buf(tag, sizeof tag);
  randombytes_buf(secret, sizeof secret);
  rondo_job_key_init(&root.job, tag, secret);
  int status = rondo_root_open(&root);
  if (status == RONDO_SUCCESS)
    rondo_job_address_write_root(&root.job, secret, at, root.address_count, id);
  else
    rondo_log(RONDO_LOG_ERROR, "unique_id_listen: cannot listen: %s", strerror(errno));
  sodium_memzero(secret, sizeof secret);
  return status;
}

int rondo_launcher_config(struct rondo_config *cfg, bool with_id) {
  struct rondo_launcher launcher;
  int status = rondo_launcher_find(getenv, &launcher);
  if (status != RONDO_SUCCESS)
    return status;
  cfg->rank = launcher.rank;
  cfg->rank_count = launcher.rank_count;
  if (with_id && launcher.rank_count > 1)
    rondo_job_address_write_launcher(&launcher, &cfg->id);
  return RONDO_SUCCESS;
}
