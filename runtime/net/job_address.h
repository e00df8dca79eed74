// Which job, and where its root is: what a unique id, or the environment of a launcher, says.
#ifndef RONDO_RUNTIME_NET_JOB_ADDRESS_H
#define RONDO_RUNTIME_NET_JOB_ADDRESS_H

#include "runtime/net/handshake.h"
#include "runtime/net/launcher.h"
#include <rondo/rondo.h>

struct rondo_job_address {
  struct rondo_job_key proof;
  // Where the root is: these addresses with their ports, or this host at one of these ports.
  uint32_t address_count;
  struct rondo_wire_address addresses[RONDO_WIRE_ADDRESSES];
  char host[RONDO_LAUNCHER_HOST_BYTES];
  uint32_t port_count;
  uint16_t ports[RONDO_LAUNCHER_PORTS];
  int makes_root; // this process opens the root: rank 0 of a launcher's job
};

// 1 if the id is of a job that reaches beyond one process.
int rondo_job_address_is_shared(const struct rondo_unique_id *id);

// Reads the id of a completed configuration, and the environment if the id says so. Returns
// RONDO_SUCCESS or RONDO_ERR_INVALID (logged).
int rondo_job_address_read(const struct rondo_config *cfg, struct rondo_job_address *job);

// Makes the id of a job of a launcher.
void rondo_job_address_write_launch(const struct rondo_launcher *launch,
                                    struct rondo_unique_id *id);
// Makes the id of a job whose root listens at `addresses`, with a new secret.
void rondo_job_address_write_root(const struct rondo_job_key *proof, const uint8_t *secret,
                                  const struct rondo_wire_address *addresses, uint32_t count,
                                  struct rondo_unique_id *id);

#endif // RONDO_RUNTIME_NET_JOB_ADDRESS_H
