// The address of a job: its key and where its root listens. It comes from a unique id or from a
// launcher's environment.
#ifndef RONDO_RUNTIME_NET_JOB_ADDRESS_H
#define RONDO_RUNTIME_NET_JOB_ADDRESS_H

#include "runtime/net/handshake.h"
#include "runtime/net/launcher.h"
#include <rondo/rondo.h>

struct rondo_job_address {
  struct rondo_job_key key;
  // Where the root listens: at these addresses, or, if there are none, at one of `ports` of `host`.
  uint32_t address_count;
  struct rondo_wire_address addresses[RONDO_WIRE_ADDRESSES];
  char host[RONDO_LAUNCHER_HOST_BYTES];
  uint32_t port_count;
  uint16_t ports[RONDO_LAUNCHER_PORTS];
  int makes_root; // this process is to open the root: it has rank 0 of a launcher's job
};

// True if the id is of a job that may have several processes.
bool rondo_job_address_is_shared(const struct rondo_unique_id *id);

// Reads the id of a completed configuration, and the environment if the id is a launcher's. Returns
// RONDO_SUCCESS or RONDO_ERR_INVALID (logged).
int rondo_job_address_read(const struct rondo_config *cfg, struct rondo_job_address *job);

// Makes the id of a launcher's job.
void rondo_job_address_write_launcher(const struct rondo_launcher *launcher,
                                      struct rondo_unique_id *id);
// Makes the id of a job whose root listens at `addresses`.
void rondo_job_address_write_root(const struct rondo_job_key *key, const uint8_t *secret,
                                  const struct rondo_wire_address *addresses, uint32_t count,
                                  struct rondo_unique_id *id);

#endif // RONDO_RUNTIME_NET_JOB_ADDRESS_H
