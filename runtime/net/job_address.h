// The address of a job: its key and where its root listens. It comes from a unique id or from a
// launcher's environment. A unique id is made of a root that this process opens, or of a launcher's
// environment.
#ifndef RONDO_RUNTIME_NET_JOB_ADDRESS_H
#define RONDO_RUNTIME_NET_JOB_ADDRESS_H

#include "runtime/net/handshake.h"
#include "runtime/net/launcher.h"
#include <rondo/rondo.h>

struct rondo_job_address {
  struct rondo_job_key key;
  // Where the root listens: at these addresses, or, if there are none, at one of `ports` of `host`.
  uint32_t address_count;
  struct rondo_wire_address addresses[RONDO_TOPOLOGY_ADDRESSES];
  char host[RONDO_LAUNCHER_HOST_BYTES];
  uint32_t port_count;
  uint16_t ports[RONDO_LAUNCHER_PORTS];
  int makes_root; // this process is to open the root: it has rank 0 of a launcher's job
  // The process with the root publishes its address by PMIx, and unless the job has a secret of its
  // own (RONDO_SECRET), a random one too. Until then `key` and `secret` are derived.
  int uses_pmix, has_secret;
  uint8_t tag[RONDO_WIRE_TAG_BYTES], secret[RONDO_HANDSHAKE_SECRET_BYTES];
};

// True if the id is of a job that may have several processes.
bool rondo_job_address_is_shared(const struct rondo_unique_id *id);

// Reads the id of a completed configuration, and the environment if the id is a launcher's. Returns
// RONDO_SUCCESS or RONDO_ERR_INVALID (logged).
int rondo_job_address_read(const struct rondo_config *cfg, struct rondo_job_address *job);

// Makes the id of a job whose root listens at `addresses`.
void rondo_job_address_write_root(const struct rondo_job_key *key, const uint8_t *secret,
                                  const struct rondo_wire_address *addresses, uint32_t count,
                                  struct rondo_unique_id *id);

// An id that only those can read who know the secret of a job: for sending an id where frames are
// not encrypted.
#define RONDO_SEALED_ID_BYTES 168u // nonce, tag and id
void rondo_unique_id_seal(const struct rondo_job_key *key, const struct rondo_unique_id *id,
                          uint8_t sealed[RONDO_SEALED_ID_BYTES]);
// False if it was not sealed with this key.
bool rondo_unique_id_unseal(const struct rondo_job_key *key,
                            const uint8_t sealed[RONDO_SEALED_ID_BYTES],
                            struct rondo_unique_id *id);

// Makes a random secret for a job that uses PMIx, unless it has one.
void rondo_job_address_make_secret(struct rondo_job_address *job);
// Makes the id that the process with the root publishes. It has no secret if the job has one.
void rondo_job_address_publish(const struct rondo_job_address *job, struct rondo_unique_id *id);
// Takes the addresses and the secret from a published id. False if it is malformed or of another
// job.
bool rondo_job_address_take(struct rondo_job_address *job, const struct rondo_unique_id *id);

struct rondo_root_gatherer;

// Opens a root with a completed configuration and makes the id of its job. Returns as
// rondo_unique_id_listen.
int rondo_root_listen(const struct rondo_config *cfg, const struct rondo_root_gatherer *gatherer,
                      struct rondo_unique_id *id);

// Sets rank and rank_count from the launcher's environment. With `with_id`, also makes the id of
// the job, unless it has one rank only. Returns RONDO_SUCCESS, RONDO_ERR_UNKNOWN (no launcher; not
// logged), RONDO_ERR_INVALID or RONDO_ERR_UNSUPPORTED.
int rondo_launcher_config(struct rondo_config *cfg, bool with_id);

#endif // RONDO_RUNTIME_NET_JOB_ADDRESS_H
