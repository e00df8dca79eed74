#include "adapters/nccl/environment.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/nccl/interface.h"
#include "adapters/nccl/say.h"

#define MOST_CTAS 64
#define LONGEST_INTERFACES 63 // what rondo_config holds

extern char **environ;

// A name that ends in '*' stands for all that begin so.
static const char *const honoured[] = {
    "NCCL_COMM_BLOCKING", "NCCL_DEBUG",         "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS",
    "NCCL_MAX_CTAS",      "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS",   "NCCL_MIN_NCHANNELS",
    "NCCL_SOCKET_FAMILY", "NCCL_SOCKET_IFNAME"};

// What they ask for would have to come from elsewhere.
static const char *const missed[] = {
    "NCCL_COMM_ID",    "NCCL_CONF_FILE", "NCCL_ENV_PLUGIN",      "NCCL_HOSTID", "NCCL_NET",
    "NCCL_NET_PLUGIN", "NCCL_OOB_NET_*", "NCCL_PROFILER_PLUGIN", "NCCL_RAS_*"};

static const char *const without_effect[] = {"NCCL_ALGO",
                                             "NCCL_ALLOC_P2P_NET_LL_BUFFERS",
                                             "NCCL_ASYNC_ERROR_HANDLING",
                                             "NCCL_BLOCKING_WAIT",
                                             "NCCL_BUFFSIZE",
                                             "NCCL_CGA_CLUSTER_SIZE",
                                             "NCCL_CHECKS_DISABLE",
                                             "NCCL_CHECK_POINTERS",
                                             "NCCL_CHUNK_SIZE",
                                             "NCCL_COLLNET_*",
                                             "NCCL_COMM_SHRINK_SHARE_RESOURCES",
                                             "NCCL_COMM_SPLIT_SHARE_RESOURCES",
                                             "NCCL_CONNECT_ROUND_MAX_PEERS",
                                             "NCCL_CREATE_THREAD_CONTEXT",
                                             "NCCL_CROSS_NIC",
                                             "NCCL_CTA_POLICY",
                                             "NCCL_CUMEM_*",
                                             "NCCL_DEBUG_TIMESTAMP_*",
                                             "NCCL_DESYNC_DEBUG",
                                             "NCCL_DMABUF_ENABLE",
                                             "NCCL_GDRCOPY_*",
                                             "NCCL_GDR_FLUSH_DISABLE",
                                             "NCCL_GIN_*",
                                             "NCCL_GRAPH_*",
                                             "NCCL_GROUP_CUDA_STREAM",
                                             "NCCL_IB_*",
                                             "NCCL_IGNORE_CPU_AFFINITY",
                                             "NCCL_IGNORE_DISABLED_P2P",
                                             "NCCL_IPC_USE_ABSTRACT_SOCKET",
                                             "NCCL_L1_SHARED_MEMORY_CARVEOUT",
                                             "NCCL_LAUNCH_*",
                                             "NCCL_LEGACY_CUDA_REGISTER",
                                             "NCCL_LL128_*",
                                             "NCCL_LL_*",
                                             "NCCL_LOCAL_REGISTER",
                                             "NCCL_MAX_NRINGS",
                                             "NCCL_MAX_P2P_NCHANNELS",
                                             "NCCL_MEM_SYNC_DOMAIN",
                                             "NCCL_MIN_NRINGS",
                                             "NCCL_MIN_P2P_NCHANNELS",
                                             "NCCL_MNNVL_*",
                                             "NCCL_MULTI_RANK_GPU_ENABLE",
                                             "NCCL_NCHANNELS_PER_NET_PEER",
                                             "NCCL_NETDEVS_POLICY",
                                             "NCCL_NET_*",
                                             "NCCL_NSOCKS_PERTHREAD",
                                             "NCCL_NTHREADS",
                                             "NCCL_NVB_*",
                                             "NCCL_NVLINK_*",
                                             "NCCL_NVLSTREE_MAX_CHUNKSIZE",
                                             "NCCL_NVLS_*",
                                             "NCCL_NVTX_DISABLE",
                                             "NCCL_P2P_*",
                                             "NCCL_PAT_ENABLE",
                                             "NCCL_PROFILE*",
                                             "NCCL_PROGRESS_APPENDOP_FREQ",
                                             "NCCL_PROTO",
                                             "NCCL_PROXY_*",
                                             "NCCL_PXN_*",
                                             "NCCL_REPORT_CONNECT_PROGRESS",
                                             "NCCL_RUNTIME_CONNECT",
                                             "NCCL_SET_*",
                                             "NCCL_SHM_*",
                                             "NCCL_SINGLE_*",
                                             "NCCL_SOCKET_INLINE",
                                             "NCCL_SOCKET_MIN_TASKSIZE",
                                             "NCCL_SOCKET_NTHREADS",
                                             "NCCL_SOCKET_RCVBUF",
                                             "NCCL_SOCKET_RETRY_*",
                                             "NCCL_SOCKET_SNDBUF",
                                             "NCCL_SYM_*",
                                             "NCCL_THREAD_THRESHOLDS",
                                             "NCCL_TOPO_*",
                                             "NCCL_TREE_THRESHOLD",
                                             "NCCL_TUNER_*",
                                             "NCCL_UID_STAGGER_*",
                                             "NCCL_UNPACK_DOUBLE_NCHANNELS",
                                             "NCCL_WIN_*",
                                             "NCCL_WORK_*"};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct rondo_nccl_environment values;

static bool is_among(const char *name, const char *const *names, size_t count) {
  size_t length = strcspn(name, "=");
  for (size_t i = 0; i < count; i++) {
    size_t known = strlen(names[i]);
    if (names[i][known - 1] == '*' && length >= known && !strncmp(name, names[i], known - 1))
      return true;
    if (known == length && !strncmp(name, names[i], length))
      return true;
  }
  return false;
}
#define IS_AMONG(name, names) is_among(name, names, sizeof(names) / sizeof *(names))

enum rondo_nccl_variable rondo_nccl_variable_kind(const char *name) {
  if (IS_AMONG(name, honoured))
    return RONDO_NCCL_VARIABLE_HONOURED;
  if (IS_AMONG(name, missed))
    return RONDO_NCCL_VARIABLE_MISSED;
  return IS_AMONG(name, without_effect) ? RONDO_NCCL_VARIABLE_NO_EFFECT
                                        : RONDO_NCCL_VARIABLE_UNKNOWN;
}

// A whole number from `low` to `high`, or -1.
static long number_of(const char *text, long low, long high) {
  char *end = NULL;
  long number = strtol(text, &end, 10);
  return end != text && !*end && number >= low && number <= high ? number : -1;
}

static int family_of(const char *text) {
  if (strcmp(text, "AF_INET") == 0)
    return 4;
  return strcmp(text, "AF_INET6") == 0 ? 6 : 0;
}

// Of the daemon's blocks: NCCL's channels had these names before.
static bool is_bound(const char *name) {
  static const char *const bounds[] = {"NCCL_MAX_CTAS", "NCCL_MIN_CTAS", "NCCL_MAX_NCHANNELS",
                                       "NCCL_MIN_NCHANNELS"};
  return IS_AMONG(name, bounds);
}

const char *rondo_nccl_variable_complaint(const char *name, const char *value) {
  if (strcmp(name, "NCCL_DEBUG") == 0)
    return rondo_nccl_level_complaint(value);
  if (strcmp(name, "NCCL_DEBUG_SUBSYS") == 0)
    return rondo_nccl_subsys_complaint(value);
  if (strcmp(name, "NCCL_COMM_BLOCKING") == 0)
    return number_of(value, 0, 1) < 0 ? "it takes 0 or 1" : NULL;
  if (is_bound(name))
    return number_of(value, 1, MOST_CTAS) < 0 ? "it takes a number from 1 to 64" : NULL;
  if (strcmp(name, "NCCL_SOCKET_FAMILY") == 0)
    return family_of(value) ? NULL : "it takes AF_INET or AF_INET6";
  if (strcmp(name, "NCCL_SOCKET_IFNAME") == 0)
    return strlen(value) > LONGEST_INTERFACES ? "it is longer than 63 characters" : NULL;
  return NULL;
}

// The value of an honoured variable, or null where it is not set, is empty or makes no sense.
static const char *value_of(const char *name) {
  const char *value = getenv(name);
  if (!value || !*value)
    return NULL;
  return rondo_nccl_variable_complaint(name, value) ? NULL : value;
}

static long number_from(const char *name, long otherwise) {
  const char *value = value_of(name);
  return value ? strtol(value, NULL, 10) : otherwise;
}

static void backend_from_environment(void) {
  const char *text = getenv("RONDO_NCCL_BACKEND");
  if (!text || !*text || strcmp(text, "cuda") == 0)
    return;
  if (strcmp(text, "host") == 0)
    values.backend = RONDO_NCCL_BACKEND_HOST;
  else
    rondo_nccl_warn("environment: RONDO_NCCL_BACKEND is \"%s\"; it takes cuda or host", text);
}

// `entry` is "NAME=value".
static void check(const char *entry) {
  char name[64];
  size_t length = strcspn(entry, "=");
  const char *value = entry + length + (entry[length] == '=');
  int shown = (int)length;
  switch (rondo_nccl_variable_kind(entry)) {
  case RONDO_NCCL_VARIABLE_UNKNOWN:
    rondo_nccl_warn("environment: %.*s is no variable of NCCL", shown, entry);
    break;
  case RONDO_NCCL_VARIABLE_MISSED:
    rondo_nccl_warn("environment: %.*s has no effect: what it asks for is not there", shown, entry);
    break;
  case RONDO_NCCL_VARIABLE_NO_EFFECT:
    rondo_nccl_info(RONDO_NCCL_SUBSYS_ENV, 0, "environment: %.*s has no effect", shown, entry);
    break;
  case RONDO_NCCL_VARIABLE_HONOURED:
    if (length >= sizeof name || !*value)
      return;
    memcpy(name, entry, length);
    name[length] = '\0';
    const char *complaint = rondo_nccl_variable_complaint(name, value);
    if (complaint)
      rondo_nccl_warn("environment: %s is \"%s\"; %s", name, value, complaint);
    break;
  }
}

static void read_all(void) {
  const char *family = value_of("NCCL_SOCKET_FAMILY");
  for (char **entry = environ; *entry; entry++)
    if (strncmp(*entry, "NCCL_", 5) == 0)
      check(*entry);
  backend_from_environment();
  values.blocking = (int)number_from("NCCL_COMM_BLOCKING", -1);
  values.min_ctas = (uint32_t)number_from("NCCL_MIN_CTAS", number_from("NCCL_MIN_NCHANNELS", 0));
  values.max_ctas = (uint32_t)number_from("NCCL_MAX_CTAS", number_from("NCCL_MAX_NCHANNELS", 0));
  values.address_family = family ? family_of(family) : 0;
  values.interfaces = value_of("NCCL_SOCKET_IFNAME");
}

const struct rondo_nccl_environment *rondo_nccl_environment(void) {
  pthread_once(&once, read_all);
  return &values;
}
