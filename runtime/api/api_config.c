// Completes a configuration: fields at their default come from the environment, then from here.
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h> // environ

#include "base/log.h"
#include "base/number.h"
#include "queues/connector_core.h"
#include "runtime/api/api_model.h"
#include "runtime/api/api_tuning.h"
#include "runtime/job/members.h"
#include "runtime/net/job_address.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"

#define DEFAULT_CONNECTOR_BYTES (UINT64_C(4) << 30)
#define DEFAULT_PEER_TIMEOUT_NS UINT64_C(60000000000)
#define LONGEST_NS UINT64_C(1000000000000000000) // 31 years; sums do not overflow
#define DEFAULT_JOIN_TIMEOUT_NS UINT64_C(300000000000)

static const char *const known_variables[] = {
    "RONDO_ADDRESS_FAMILY",
    "RONDO_ALGO",
    "RONDO_COST_MODEL", // read by rondo_context_create
    "RONDO_BLOCKS",
    "RONDO_BUDGET",
    "RONDO_COLLECTIVE_COUNTERS",
    "RONDO_CONNECTOR_BYTES",
    "RONDO_ENDPOINTS",
    "RONDO_FLIGHT_FILE",
    "RONDO_HEARTBEAT_NS",
    "RONDO_HUGE_PAGES",
    "RONDO_JOB",
    "RONDO_JOIN_TIMEOUT_NS",
    "RONDO_LEAST_RANKS",
    "RONDO_LOG",
    "RONDO_LOG_FILE",
    "RONDO_MOST_RANKS",
    "RONDO_MULTIPROCESSORS",
    "RONDO_NCCL_BACKEND", // read by the NCCL adapter
    "RONDO_NCCL_TIMEOUT_NS",
    "RONDO_NCCL_WINDOW_BYTES",
    "RONDO_ORDER",
    "RONDO_PEER_TIMEOUT_NS",
    "RONDO_RANK",
    "RONDO_RANK_COUNT",
    "RONDO_REPORT_SIGNAL",
    "RONDO_PMIX",
    "RONDO_ROOT",
    "RONDO_SECRET",
    "RONDO_SLOT_BYTES",
    "RONDO_SOCKET_IFNAME",
    "RONDO_THREADS",
    "RONDO_TRANSPORT",
    "RONDO_TUNING",
    "RONDO_WORKERS",
};
#define KNOWN_COUNT (sizeof known_variables / sizeof *known_variables)

static void variable_check(const char *variable) {
  size_t length = strcspn(variable, "=");
  for (size_t i = 0; i < KNOWN_COUNT; i++)
    if (strlen(known_variables[i]) == length && !strncmp(variable, known_variables[i], length))
      return;
  // RONDO_TEST_* are for Rondo's own tests.
  if (strncmp(variable, "RONDO_TEST_", 11) != 0)
    rondo_log(RONDO_LOG_WARN, "environment: %.*s is not a variable of Rondo", (int)length,
              variable);
}

static void environment_check(void) {
  for (char **v = environ; *v; v++)
    if (strncmp(*v, "RONDO_", 6) == 0)
      variable_check(*v);
}

// Reads a whole number from the environment into `value` unless `value` is set already.
static void number_read(const char *variable, uint64_t max, uint64_t *value) {
  const char *text = getenv(variable);
  uint64_t parsed = 0;
  if (*value || !text || !*text)
    return;
  const char *end = rondo_number_read(text, max, &parsed);
  if (!end || *end)
    rondo_log_variable(variable, text, "a number up to %llu", (unsigned long long)max);
  else
    *value = parsed;
}

static void number32_read(const char *variable, uint32_t max, uint32_t *value) {
  uint64_t wide = *value;
  number_read(variable, max, &wide);
  *value = (uint32_t)wide;
}

static void word_read(const char *variable, const char *const *words, int count, int *value) {
  const char *text = getenv(variable);
  if (*value || !text || !*text)
    return;
  for (int i = 0; i < count; i++) {
    if (strcmp(text, words[i]) == 0) {
      *value = i;
      return;
    }
  }
  char all[128] = "";
  for (int i = 0; i < count; i++)
    if (words[i][0])
      (void)snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", all[0] ? ", " : "",
                     words[i]);
  rondo_log_variable(variable, text, "one of %s", all);
}

static bool is_slot_size(uint32_t bytes) {
  return bytes >= 64 && bytes <= 1u << 30 && (bytes & (bytes - 1)) == 0;
}

static bool is_thread_count(uint32_t threads) {
  return threads >= RONDO_MIN_THREADS && threads <= RONDO_MAX_THREADS && threads % 32 == 0;
}

// Reads a size from the environment and ignores an invalid one. config_check refuses an invalid
// size that the program has set.
static void size_read(const char *variable, bool (*is_good)(uint32_t), const char *takes,
                      uint32_t *value) {
  uint32_t given = *value;
  number32_read(variable, UINT32_MAX, value);
  if (given || !*value || is_good(*value))
    return;
  rondo_log_variable(variable, getenv(variable), "%s", takes);
  *value = 0;
}

// Reads the period from the environment and ignores one that is too short, as size_read does.
static void heartbeat_read(uint64_t *value) {
  uint64_t given = *value;
  number_read("RONDO_HEARTBEAT_NS", UINT64_MAX, value);
  if (given || !*value || *value >= RONDO_MIN_HEARTBEAT_NS)
    return;
  rondo_log_variable("RONDO_HEARTBEAT_NS", getenv("RONDO_HEARTBEAT_NS"), "0, or %llu and up",
                     (unsigned long long)RONDO_MIN_HEARTBEAT_NS);
  *value = 0;
}

static int membership_check(const struct rondo_config *c) {
  if (c->heartbeat_ns && c->heartbeat_ns < RONDO_MIN_HEARTBEAT_NS)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: heartbeat_ns %llu is not 0 or at least %llu",
                            (unsigned long long)c->heartbeat_ns,
                            (unsigned long long)RONDO_MIN_HEARTBEAT_NS);
  if (c->most_ranks && c->least_ranks > c->most_ranks)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: least_ranks %u is above most_ranks %u",
                            c->least_ranks, c->most_ranks);
  return RONDO_SUCCESS;
}

static int config_check(const struct rondo_config *c) {
  if (c->backend != RONDO_BACKEND_HOST && c->backend != RONDO_BACKEND_CUDA)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: backend %d does not exist", c->backend);
  if (!rondo_driver_of(c->backend))
    return RONDO_LOG_REFUSE(RONDO_ERR_UNSUPPORTED, "init: this library has no CUDA backend");
  if (c->rank_count == 0 || c->rank_count > RONDO_MAX_RANKS || c->rank >= c->rank_count)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: rank %u of %u ranks (at most %u)", c->rank,
                            c->rank_count, RONDO_MAX_RANKS);
  if (c->blocks > RONDO_MAX_BLOCKS || c->first_worker < -1)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: %u blocks (at most %u), first worker %d",
                            c->blocks, RONDO_MAX_BLOCKS, c->first_worker);
  if (c->threads && !is_thread_count(c->threads))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "init: threads %u is not a multiple of 32 from %u to %u", c->threads,
                            RONDO_MIN_THREADS, RONDO_MAX_THREADS);
  if (c->order < 0 || c->order > RONDO_ORDER_PRIORITY || c->budget < 0 ||
      c->budget > RONDO_BUDGET_NEVER)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "init: order policy %d or budget policy %d does not exist", c->order,
                            c->budget);
  if (c->max_collectives > RONDO_TABLE_CAPACITY)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: max_collectives %u is above %u",
                            c->max_collectives, RONDO_TABLE_CAPACITY);
  if (c->address_family != 0 && c->address_family != 4 && c->address_family != 6)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: address_family %d is not 0, 4 or 6",
                            c->address_family);
  if (c->transport != 0 && c->transport != RONDO_TRANSPORT_SHARED_MEMORY &&
      c->transport != RONDO_TRANSPORT_UCX && c->transport != RONDO_TRANSPORT_NCCL)
    return RONDO_LOG_REFUSE(
        RONDO_ERR_INVALID, "init: transport %d is not 0, shared memory (%d), UCX (%d) or NCCL (%d)",
        c->transport, RONDO_TRANSPORT_SHARED_MEMORY, RONDO_TRANSPORT_UCX, RONDO_TRANSPORT_NCCL);
  if (c->endpoints > RONDO_MAX_ENDPOINTS)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: %u endpoints (at most %u)", c->endpoints,
                            RONDO_MAX_ENDPOINTS);
  if (c->huge_pages > 1)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: huge_pages is %u, not 0 or 1", c->huge_pages);
  if (c->collective_counters > 1)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: collective_counters is %u, not 0 or 1",
                            c->collective_counters);
  if (!memchr(c->interfaces, '\0', sizeof c->interfaces))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: interfaces is not terminated");
  if (c->slot_bytes && !is_slot_size(c->slot_bytes))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "init: slot_bytes %u is not a power of two from 64 to 2^30",
                            c->slot_bytes);
  return membership_check(c);
}

static void network_read(struct rondo_config *c) {
  static const char *const families[] = {"any", "", "", "", "4", "", "6"};
  static const char *const transports[] = {"auto", "", "shared_memory", "ucx", "nccl"};
  const char *names = getenv("RONDO_SOCKET_IFNAME");
  number_read("RONDO_JOIN_TIMEOUT_NS", UINT64_MAX, &c->join_timeout_ns);
  number_read("RONDO_PEER_TIMEOUT_NS", UINT64_MAX, &c->peer_timeout_ns);
  heartbeat_read(&c->heartbeat_ns);
  number32_read("RONDO_LEAST_RANKS", RONDO_MAX_RANKS, &c->least_ranks);
  number32_read("RONDO_MOST_RANKS", RONDO_MAX_RANKS, &c->most_ranks);
  word_read("RONDO_ADDRESS_FAMILY", families, 7, &c->address_family);
  word_read("RONDO_TRANSPORT", transports, 5, &c->transport);
  number32_read("RONDO_ENDPOINTS", RONDO_MAX_ENDPOINTS, &c->endpoints);
  if (c->interfaces[0] || !names)
    return;
  if (strlen(names) < sizeof c->interfaces)
    memcpy(c->interfaces, names, strlen(names) + 1);
  else
    rondo_log_variable("RONDO_SOCKET_IFNAME", names, "%zu characters at most",
                       sizeof c->interfaces - 1);
}

// Takes the rank, the number of ranks and, unless it is set, the id from the launcher's
// environment.
static int launcher_read(struct rondo_config *c) {
  static const struct rondo_unique_id none;
  int is_new = memcmp(&c->id, &none, sizeof none) == 0;
  int status = rondo_launcher_config(c, is_new);
  if (status == RONDO_ERR_UNKNOWN)
    return RONDO_LOG_REFUSE(
        RONDO_ERR_INVALID,
        "init: rank_count is RONDO_RANKS_OF_LAUNCHER, but no launcher is found: none of "
        "RONDO_RANK, "
        "RANK with MASTER_ADDR, OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID is set");
  return status;
}

// Writes a file that the caller frees, or null (rondo_model_read).
static int config_fill(struct rondo_config *c, struct rondo_cost_file **file) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  static const char *const orders[] = {"fifo", "priority"};
  static const char *const budgets[] = {"adaptive", "fixed", "never"};
  *file = NULL;
  pthread_once(&once, environment_check);
  number32_read("RONDO_BLOCKS", RONDO_MAX_BLOCKS, &c->blocks);
  number32_read("RONDO_WORKERS", 256, &c->workers);
  size_read("RONDO_THREADS", is_thread_count, "a multiple of 32 from 96 to 512", &c->threads);
  number32_read("RONDO_MULTIPROCESSORS", UINT32_MAX, &c->multiprocessors);
  size_read("RONDO_SLOT_BYTES", is_slot_size, "a power of two from 64 to 2^30", &c->slot_bytes);
  number_read("RONDO_CONNECTOR_BYTES", UINT64_MAX, &c->connector_bytes);
  number32_read("RONDO_HUGE_PAGES", 1, &c->huge_pages);
  number32_read("RONDO_COLLECTIVE_COUNTERS", 1, &c->collective_counters);
  network_read(c);
  word_read("RONDO_ORDER", orders, 2, &c->order);
  word_read("RONDO_BUDGET", budgets, 3, &c->budget);
  int status = c->rank_count == RONDO_RANKS_OF_LAUNCHER ? launcher_read(c) : RONDO_SUCCESS;
  if (status == RONDO_SUCCESS)
    status = config_check(c);
  if (status != RONDO_SUCCESS)
    return status;
  rondo_driver_of(c->backend)->complete_config(c);
  if (!c->join_timeout_ns)
    c->join_timeout_ns = DEFAULT_JOIN_TIMEOUT_NS;
  if (c->join_timeout_ns > LONGEST_NS)
    c->join_timeout_ns = LONGEST_NS;
  if (!c->max_collectives)
    c->max_collectives = RONDO_TABLE_CAPACITY;
  if (!c->connector_bytes)
    c->connector_bytes = DEFAULT_CONNECTOR_BYTES;
  if (!c->slot_bytes)
    c->slot_bytes = RONDO_DEFAULT_SLOT_BYTES;
  if (!c->endpoints)
    c->endpoints = 1;
  if (!c->peer_timeout_ns)
    c->peer_timeout_ns = DEFAULT_PEER_TIMEOUT_NS;
  if (c->peer_timeout_ns > LONGEST_NS)
    c->peer_timeout_ns = LONGEST_NS;
  status = rondo_model_read(file);
  if (status == RONDO_SUCCESS)
    status = rondo_tuning_resolve(&c->tuning, *file);
  return status;
}

static int config_check_version(const struct rondo_config *c) {
  if (!c)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "init: the configuration is null");
  if (c->size != sizeof *c || c->version != RONDO_CONFIG_VERSION)
    return RONDO_LOG_REFUSE(
        RONDO_ERR_INVALID, "init: configuration of %zu bytes, version %u; this library has %zu, %u",
        c->size, c->version, sizeof *c, RONDO_CONFIG_VERSION);
  return RONDO_SUCCESS;
}

int rondo_config_complete_with_model(struct rondo_config *cfg, struct rondo_cost_file **file) {
  int status = config_check_version(cfg);
  if (status != RONDO_SUCCESS)
    return status;
  struct rondo_config copy = *cfg;
  struct rondo_cost_file *read;
  status = config_fill(&copy, &read);
  if (status != RONDO_SUCCESS) {
    free(read);
    return status;
  }
  *cfg = copy;
  *file = read;
  return RONDO_SUCCESS;
}

int rondo_config_complete(struct rondo_config *cfg) {
  struct rondo_cost_file *file;
  int status = rondo_config_complete_with_model(cfg, &file);
  if (status == RONDO_SUCCESS)
    free(file);
  return status;
}

int rondo_config_for_listening(const struct rondo_config *cfg, struct rondo_config *out) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  int status = cfg ? config_check_version(cfg) : RONDO_SUCCESS;
  if (status != RONDO_SUCCESS)
    return status;
  if (cfg) {
    c.join_timeout_ns = cfg->join_timeout_ns;
    c.peer_timeout_ns = cfg->peer_timeout_ns;
    c.address_family = cfg->address_family;
    memcpy(c.interfaces, cfg->interfaces, sizeof c.interfaces);
  }
  struct rondo_cost_file *file;
  status = config_fill(&c, &file);
  free(file);
  *out = c;
  return status;
}

int rondo_unique_id_listen(struct rondo_unique_id *id, const struct rondo_config *cfg) {
  struct rondo_config completed;
  if (!id)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "unique_id_listen: `id` is null");
  int status = rondo_config_for_listening(cfg, &completed);
  return status == RONDO_SUCCESS ? rondo_root_listen(&completed, &rondo_members_gatherer, id)
                                 : status;
}

int rondo_unique_id_create(struct rondo_unique_id *id) {
  if (!id)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "unique_id_create: the place for it is null");
  struct rondo_unique_id fresh;
  if (getrandom(&fresh, sizeof fresh, 0) != (ssize_t)sizeof fresh)
    return RONDO_LOG_REFUSE(RONDO_ERR_SYSTEM, "unique_id_create: %s", strerror(errno));
  fresh.bytes[0] = 1; // never the all-zero id, nor one of rondo_unique_id_listen
  *id = fresh;
  return RONDO_SUCCESS;
}
