// What a launcher's environment says about the job: who is who, and where rank 0 is.
#ifndef RONDO_RUNTIME_NET_LAUNCHER_H
#define RONDO_RUNTIME_NET_LAUNCHER_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/net/handshake.h"

#define RONDO_LAUNCHER_HOST_BYTES 256u
#define RONDO_LAUNCHER_PORTS 8u

struct rondo_launcher {
  const char *name; // "torchrun", ...
  uint32_t rank, rank_count;
  int is_one_machine;                   // it says that all ranks are on one
  char root[RONDO_LAUNCHER_HOST_BYTES]; // host of rank 0; empty: not said
  uint16_t ports[RONDO_LAUNCHER_PORTS]; // where the root listens: the first of them that is free
  uint32_t port_count;
  uint8_t tag[RONDO_WIRE_TAG_BYTES];
  uint8_t secret[RONDO_HANDSHAKE_SECRET_BYTES];
  int is_secret; // RONDO_SECRET was given; else the secret is made of what names the job
};

// Looks in the environment, the first of these that is there: Rondo's own variables, torchrun, Open
// MPI, PMI (MPICH), Slurm. `get` is getenv, or a test's.
// Returns RONDO_SUCCESS; RONDO_ERR_UNKNOWN (no launcher; not logged); RONDO_ERR_INVALID (it says
// something that makes no sense, or not where rank 0 is; logged).
int rondo_launcher_find(char *(*get)(const char *name), struct rondo_launcher *out);

// The first host of a list as Slurm writes it: "node[03-07,9],gpu1" begins with "node03". Returns 1,
// or 0 if it makes no sense or does not fit.
int rondo_launcher_first_host(const char *list, char *host, size_t bytes);

#endif // RONDO_RUNTIME_NET_LAUNCHER_H
