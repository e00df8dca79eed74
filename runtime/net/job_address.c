#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/log.h"
#include "runtime/net/address.h"
#include "runtime/net/job_address.h"
#include "runtime/net/job_root.h"

// The first bytes of an id of a job with a root. Any other id is of a job in one process.
static const uint8_t magic[8] = {'r', 'o', 'n', 'd', 'o', ' ', 'i', 'd'};

enum id_kind { OF_ROOT = 1, OF_LAUNCHER = 2 };

bool rondo_job_address_is_shared(const struct rondo_unique_id *id) {
  return memcmp(id->bytes, magic, sizeof magic) == 0;
}

static struct rondo_wire_writer id_begin(struct rondo_unique_id *id, int kind, const uint8_t *tag,
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

void rondo_job_address_write_root(const struct rondo_job_key *key, const uint8_t *secret,
                                  const struct rondo_wire_address *addresses, uint32_t count,
                                  struct rondo_unique_id *id) {
  struct rondo_wire_writer w = id_begin(id, OF_ROOT, key->tag, secret);
  rondo_wire_put_u8(&w, (uint8_t)count);
  for (uint32_t i = 0; i < count; i++)
    rondo_wire_put_address(&w, &addresses[i]);
}

static bool job_try_read_addresses(struct rondo_wire_reader *r, struct rondo_job_address *job) {
  job->address_count = rondo_wire_get_u8(r);
  if (job->address_count == 0 || job->address_count > RONDO_TOPOLOGY_ADDRESSES)
    return false;
  for (uint32_t i = 0; i < job->address_count; i++)
    rondo_wire_get_address(r, &job->addresses[i]);
  return !r->bad;
}

static bool job_try_read_launcher(const struct rondo_config *cfg, const uint8_t *tag,
                                  struct rondo_job_address *job) {
  struct rondo_launcher launcher;
  if (rondo_launcher_find(getenv, &launcher) != RONDO_SUCCESS ||
      memcmp(launcher.tag, tag, sizeof launcher.tag) != 0)
    return false;
  memcpy(job->host, launcher.root, sizeof job->host);
  memcpy(job->ports, launcher.ports, sizeof job->ports);
  job->port_count = launcher.port_count;
  job->makes_root = cfg->rank == 0;
  job->uses_pmix = launcher.uses_pmix;
  job->has_secret = launcher.is_secret;
  memcpy(job->tag, launcher.tag, sizeof job->tag);
  memcpy(job->secret, launcher.secret, sizeof job->secret);
  if (!launcher.is_secret && !launcher.uses_pmix)
    rondo_log(
        RONDO_LOG_INFO,
        "init: RONDO_SECRET is not set: anybody who knows the name that %s gives this job can join",
        launcher.name);
  return true;
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
  rondo_job_key_init(&job->key, tag, secret);
  if (memcmp(begin, magic, sizeof magic) != 0)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: the id is of a job in one process");
  if (version != RONDO_WIRE_VERSION)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "init: the id has version %u, this library version %u", version,
                            RONDO_WIRE_VERSION);
  bool is_valid = kind == OF_ROOT       ? job_try_read_addresses(&r, job)
                  : kind == OF_LAUNCHER ? job_try_read_launcher(cfg, tag, job)
                                        : 0;
  if (!is_valid)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "init: the id is malformed, or of another launcher's job");
  return RONDO_SUCCESS;
}

static_assert(RONDO_SEALED_ID_BYTES == crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES +
                                           sizeof(struct rondo_unique_id),
              "a sealed id");

// A job's key has a use of its own; ids are sealed with a key derived from it.
static void seal_key(const struct rondo_job_key *key, uint8_t out[crypto_secretbox_KEYBYTES]) {
  rondo_handshake_digest("rondo sealed id", key->key, sizeof key->key, out,
                         crypto_secretbox_KEYBYTES);
}

void rondo_unique_id_seal(const struct rondo_job_key *key, const struct rondo_unique_id *id,
                          uint8_t sealed[RONDO_SEALED_ID_BYTES]) {
  uint8_t secret[crypto_secretbox_KEYBYTES];
  seal_key(key, secret);
  randombytes_buf(sealed, crypto_secretbox_NONCEBYTES);
  (void)crypto_secretbox_easy(sealed + crypto_secretbox_NONCEBYTES, id->bytes, sizeof id->bytes,
                              sealed, secret); // never fails
  sodium_memzero(secret, sizeof secret);
}

bool rondo_unique_id_unseal(const struct rondo_job_key *key,
                            const uint8_t sealed[RONDO_SEALED_ID_BYTES],
                            struct rondo_unique_id *id) {
  uint8_t secret[crypto_secretbox_KEYBYTES];
  seal_key(key, secret);
  bool is_ours =
      crypto_secretbox_open_easy(id->bytes, sealed + crypto_secretbox_NONCEBYTES,
                                 sizeof id->bytes + crypto_secretbox_MACBYTES, sealed, secret) == 0;
  sodium_memzero(secret, sizeof secret);
  return is_ours;
}

void rondo_job_address_make_secret(struct rondo_job_address *job) {
  if (!job->has_secret)
    randombytes_buf(job->secret, sizeof job->secret);
  rondo_job_key_init(&job->key, job->tag, job->secret);
}

void rondo_job_address_publish(const struct rondo_job_address *job, struct rondo_unique_id *id) {
  static const uint8_t none[RONDO_HANDSHAKE_SECRET_BYTES];
  rondo_job_address_write_root(&job->key, job->has_secret ? none : job->secret, job->addresses,
                               job->address_count, id);
}

bool rondo_job_address_take(struct rondo_job_address *job, const struct rondo_unique_id *id) {
  struct rondo_wire_reader r = {id->bytes, sizeof id->bytes, 0};
  uint8_t begin[sizeof magic];
  uint8_t tag[RONDO_WIRE_TAG_BYTES];
  uint8_t secret[RONDO_HANDSHAKE_SECRET_BYTES];
  rondo_wire_get(&r, begin, sizeof begin);
  uint8_t version = rondo_wire_get_u8(&r);
  uint8_t kind = rondo_wire_get_u8(&r);
  rondo_wire_get(&r, tag, sizeof tag);
  rondo_wire_get(&r, secret, sizeof secret);
  if (memcmp(begin, magic, sizeof magic) != 0 || version != RONDO_WIRE_VERSION || kind != OF_ROOT ||
      memcmp(tag, job->tag, sizeof tag) != 0 || !job_try_read_addresses(&r, job)) {
    job->address_count = 0;
    return false;
  }
  if (!job->has_secret)
    memcpy(job->secret, secret, sizeof job->secret);
  rondo_job_key_init(&job->key, job->tag, job->secret);
  job->port_count = 0;
  return true;
}

int rondo_root_listen(const struct rondo_config *cfg, const struct rondo_root_gatherer *gatherer,
                      struct rondo_unique_id *id) {
  struct rondo_wire_address at[RONDO_TOPOLOGY_ADDRESSES];
  struct rondo_root_config root = {.addresses = at,
                                   .gatherer = gatherer,
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
    (void)id_begin(&cfg->id, OF_LAUNCHER, launcher.tag, launcher.secret);
  return RONDO_SUCCESS;
}
