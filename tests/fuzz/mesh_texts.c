// Texts of the environment and ids that applications pass on: understood or refused.
#include "runtime/net/address.h"
#include "runtime/net/job_address.h"
#include "runtime/net/launcher.h"
#include "tests/support/fuzz.h"

static char text[256];

// Every variable is the same text, but for those that the input switches off, and the numbers of
// ranks.
static uint32_t missing;
static char many[] = "4000";

static char *get(const char *name) {
  uint32_t hash = 5381;
  for (const char *at = name; *at; at++)
    hash = hash * 33 + (uint32_t)*at;
  if (missing >> hash % 32 & 1)
    return NULL;
  return strstr(name, "SIZE") || strstr(name, "COUNT") || strstr(name, "TASKS") ? many : text;
}

static void read_environment(struct rondo_fuzz_input *in) {
  struct rondo_launcher launch;
  missing = (uint32_t)rondo_fuzz_take(in, 4);
  size_t size = in->size < sizeof text - 1 ? in->size : sizeof text - 1;
  if (size)
    memcpy(text, in->data, size);
  text[size] = '\0';
  if (rondo_launcher_find(get, &launch) == RONDO_SUCCESS) {
    RONDO_FUZZ_CHECK(launch.rank < launch.rank_count && launch.rank_count <= RONDO_MAX_RANKS);
    RONDO_FUZZ_CHECK(memchr(launch.root, '\0', sizeof launch.root) != NULL);
    // PMIx says later where the root is.
    RONDO_FUZZ_CHECK(launch.uses_pmix || launch.root[0]);
    RONDO_FUZZ_CHECK(launch.uses_pmix || (launch.port_count >= 1 && launch.ports[0]));
  }
}

static void read_texts(void) {
  char host[64];
  uint16_t port = 1;
  if (rondo_address_split(text, host, sizeof host, &port))
    RONDO_FUZZ_CHECK(host[0] && strlen(host) < sizeof host && port);
  if (rondo_launcher_first_host(text, host, sizeof host))
    RONDO_FUZZ_CHECK(host[0] && strlen(host) < sizeof host && !strchr(host, ','));
  (void)rondo_address_is_chosen(text, "eth0");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_fuzz_input in = {data, size};
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_job_address job;
  static int is_quiet;
  if (!is_quiet)
    is_quiet = setenv("RONDO_LOG", "off", 1) == 0;
  if (size)
    memcpy(cfg.id.bytes, data, size < sizeof cfg.id ? size : sizeof cfg.id);
  if (rondo_job_address_read(&cfg, &job) == RONDO_SUCCESS)
    RONDO_FUZZ_CHECK(job.address_count <= RONDO_TOPOLOGY_ADDRESSES &&
                     (job.address_count || (job.host[0] && job.port_count)));
  read_environment(&in);
  read_texts();
  return 0;
}
