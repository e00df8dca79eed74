#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "runtime/net/job_address.h"

// An id that begins so is of a job with a root. All others name a job of one process.
static const uint8_t magic[8] = {'r', 'o', 'n', 'd', 'o', ' ', 'i', 'd'};

enum kind { OF_ROOT = 1, OF_LAUNCHER = 2 };

int rondo_job_address_is_shared(const struct rondo_unique_id *id) {
  return memcmp(id->bytes, magic, sizeof magic) == 0;
}

static struct rondo_wire_writer begin_id(struct rondo_unique_id *id, int kind, const uint8_t *tag,
                                         const uint8_t *secret) {
  struct rondo_wire_writer w = {.bytes = id->bytes, .capacity = sizeof id->bytes};
  memset(id, 0, sizeof *id);
  rondo_wire_put(&w, magic, sizeof magic);
  rondo_wire_put_u8(&w, RONDO_WIRE_VERSION);
  rondo_wire_put_u8(&w, (uint8_t)kind);
  rondo_wire_put(&w, tag, RONDO_WIRE_TAG_BYTES);
  rondo_wire_put(&w, secret, RONDO_HANDSHAKE_SECRET_BYTES);
  return w;
}

void rondo_job_address_write_launch(const struct rondo_launcher *launch,
                                    struct rondo_unique_id *id) {
  (void)begin_id(id, OF_LAUNCHER, launch->tag, launch->secret);
}

void rondo_job_address_write_root(const struct rondo_job_key *proof, const uint8_t *secret,
                                  const struct rondo_wire_address *addresses, uint32_t count,
                                  struct rondo_unique_id *id) {
  struct rondo_wire_writer w = begin_id(id, OF_ROOT, proof->tag, secret);
  rondo_wire_put_u8(&w, (uint8_t)count);
  for (uint32_t i = 0; i < count; i++)
    rondo_wire_put_address(&w, &addresses[i]);
}

static int read_addresses(struct rondo_wire_reader *r, struct rondo_job_address *job) {
  job->address_count = rondo_wire_get_u8(r);
  if (job->address_count == 0 || job->address_count > RONDO_WIRE_ADDRESSES)
    return 0;
  for (uint32_t i = 0; i < job->address_count; i++)
    rondo_wire_get_address(r, &job->addresses[i]);
  return !r->bad;
}

static int read_launch(const struct rondo_config *cfg, const uint8_t *tag,
                       struct rondo_job_address *job) {
  struct rondo_launcher launch;
  if (rondo_launcher_find(getenv, &launch) != RONDO_SUCCESS ||
      memcmp(launch.tag, tag, sizeof launch.tag) != 0)
    return 0;
  memcpy(job->host, launch.root, sizeof job->host);
  memcpy(job->ports, launch.ports, sizeof job->ports);
  job->port_count = launch.port_count;
  job->makes_root = cfg->rank == 0;
  if (!launch.is_secret)
    rondo_log(RONDO_LOG_INFO,
              "init: RONDO_SECRET is not set: who knows what %s calls this job can join it",
              launch.name);
  return 1;
}

int rondo_job_address_read(const struct rondo_config *cfg, struct rondo_job_address *job) {
  struct rondo_wire_reader r = {cfg->id.bytes, sizeof cfg->id.bytes, 0};
  uint8_t begin[sizeof magic];
  uint8_t tag[RONDO_WIRE_TAG_BYTES];
  uint8_t secret[RONDO_HANDSHAKE_SECRET_BYTES];
  memset(job, 0, sizeof *job);
  rondo_wire_get(&r, begin, sizeof begin);
  uint8_t version = rondo_wire_get_u8(&r);
  uint8_t kind = rondo_wire_get_u8(&r);
  rondo_wire_get(&r, tag, sizeof tag);
  rondo_wire_get(&r, secret, sizeof secret);
  rondo_job_key_init(&job->proof, tag, secret);
  if (memcmp(begin, magic, sizeof magic) != 0)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: the id is of a job in one process");
  if (version != RONDO_WIRE_VERSION)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: the id is of version %u, this library of %u",
                            version, RONDO_WIRE_VERSION);
  int good = kind == OF_ROOT       ? read_addresses(&r, job)
             : kind == OF_LAUNCHER ? read_launch(cfg, tag, job)
                                   : 0;
  if (!good)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "init: the id makes no sense, or is not of this environment");
  return RONDO_SUCCESS;
}
