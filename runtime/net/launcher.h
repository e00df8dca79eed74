// What a launcher's environment says about the job: this process's rank and the host of rank 0.
#ifndef RONDO_RUNTIME_NET_LAUNCHER_H
#define RONDO_RUNTIME_NET_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/net/handshake.h"

#define RONDO_LAUNCHER_HOST_BYTES 256u
#define RONDO_LAUNCHER_PORTS 8u

struct rondo_launcher {
  const char *name; // "torchrun", ...
  uint32_t rank, rank_count;
  int is_one_machine;                   // all ranks are known to be on one machine
  char root[RONDO_LAUNCHER_HOST_BYTES]; // host of rank 0
  uint16_t ports[RONDO_LAUNCHER_PORTS]; // the root listens at the first free one
  uint32_t port_count;
  uint8_t tag[RONDO_WIRE_TAG_BYTES];
  uint8_t secret[RONDO_HANDSHAKE_SECRET_BYTES];
  int uses_pmix; // the process of rank 0 publishes by PMIx where the root is
  int is_secret; // RONDO_SECRET is set; otherwise the secret is derived from the job's name
};

// PMIx is used where the variables do not say where rank 0 is, and where RONDO_PMIX is 1; not where
// RONDO_PMIX is 0.
//
// Reads the environment of the first of these launchers that is present: Rondo's own variables,
// torchrun, Open MPI, PMI (MPICH), Slurm. `get` is getenv, or a test's.
// Returns RONDO_SUCCESS; RONDO_ERR_UNKNOWN (no launcher; not logged); RONDO_ERR_INVALID (a variable
// is malformed, or the host of rank 0 is not known; logged).
int rondo_launcher_find(char *(*get)(const char *name), struct rondo_launcher *out);

// Writes the first host of a list in Slurm's notation: "node[03-07,9],gpu1" begins with "node03".
// False if the list is malformed or the host does not fit.
bool rondo_launcher_first_host(const char *list, char *host, size_t bytes);

#endif // RONDO_RUNTIME_NET_LAUNCHER_H
