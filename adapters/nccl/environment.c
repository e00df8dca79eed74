#include "adapters/nccl/environment.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/types.h>

#include "adapters/nccl/algorithms.h"
#include "adapters/nccl/debug.h"
#include "adapters/nccl/interface.h"

#define MAX_CTAS 64
#define MAX_INTERFACES_LENGTH 63 // of struct rondo_config

extern char **environ;

// In these lists of names '*' stands for the rest of a name.
static const char honoured[] =
    "NCCL_ALGO NCCL_COMM_BLOCKING NCCL_DEBUG NCCL_DEBUG_FILE NCCL_DEBUG_SUBSYS NCCL_MAX_CTAS "
    "NCCL_MAX_NCHANNELS NCCL_MIN_CTAS NCCL_MIN_NCHANNELS NCCL_SOCKET_FAMILY "
    "NCCL_SOCKET_IFNAME";

static const char missed[] =
    "NCCL_COMM_ID NCCL_CONF_FILE NCCL_ENV_PLUGIN NCCL_HOSTID NCCL_NET NCCL_NET_PLUGIN "
    "NCCL_OOB_NET_* NCCL_PROFILER_PLUGIN NCCL_PROTO NCCL_RAS_*";

static const char without_effect[] =
    "NCCL_ALLOC_P2P_NET_LL_BUFFERS NCCL_ASYNC_ERROR_HANDLING "
    "NCCL_BLOCKING_WAIT NCCL_BUFFSIZE NCCL_CGA_CLUSTER_SIZE NCCL_CHECKS_DISABLE "
    "NCCL_CHECK_POINTERS NCCL_CHUNK_SIZE NCCL_COLLNET_* "
    "NCCL_COMM_SHRINK_SHARE_RESOURCES NCCL_COMM_SPLIT_SHARE_RESOURCES "
    "NCCL_CONNECT_ROUND_MAX_PEERS NCCL_CREATE_THREAD_CONTEXT NCCL_CROSS_NIC "
    "NCCL_CTA_POLICY NCCL_CUMEM_* NCCL_DEBUG_TIMESTAMP_* NCCL_DESYNC_DEBUG "
    "NCCL_DMABUF_ENABLE NCCL_GDRCOPY_* NCCL_GDR_FLUSH_DISABLE NCCL_GIN_* NCCL_GRAPH_* "
    "NCCL_GROUP_CUDA_STREAM NCCL_IB_* NCCL_IGNORE_CPU_AFFINITY "
    "NCCL_IGNORE_DISABLED_P2P NCCL_IPC_USE_ABSTRACT_SOCKET "
    "NCCL_L1_SHARED_MEMORY_CARVEOUT NCCL_LAUNCH_* NCCL_LEGACY_CUDA_REGISTER "
    "NCCL_LL128_* NCCL_LL_* NCCL_LOCAL_REGISTER NCCL_MAX_NRINGS "
    "NCCL_MAX_P2P_NCHANNELS NCCL_MEM_SYNC_DOMAIN NCCL_MIN_NRINGS "
    "NCCL_MIN_P2P_NCHANNELS NCCL_MNNVL_* NCCL_MULTI_RANK_GPU_ENABLE "
    "NCCL_NCHANNELS_PER_NET_PEER NCCL_NETDEVS_POLICY NCCL_NET_* NCCL_NSOCKS_PERTHREAD "
    "NCCL_NTHREADS NCCL_NVB_* NCCL_NVLINK_* NCCL_NVLSTREE_MAX_CHUNKSIZE NCCL_NVLS_* "
    "NCCL_NVTX_DISABLE NCCL_P2P_* NCCL_PAT_ENABLE NCCL_PROFILE* "
    "NCCL_PROGRESS_APPENDOP_FREQ NCCL_PROXY_* NCCL_PXN_* "
    "NCCL_REPORT_CONNECT_PROGRESS NCCL_RUNTIME_CONNECT NCCL_SET_* NCCL_SHM_* "
    "NCCL_SINGLE_* NCCL_SOCKET_INLINE NCCL_SOCKET_MIN_TASKSIZE NCCL_SOCKET_NTHREADS "
    "NCCL_SOCKET_RCVBUF NCCL_SOCKET_RETRY_* NCCL_SOCKET_SNDBUF NCCL_SYM_* "
    "NCCL_THREAD_THRESHOLDS NCCL_TOPO_* NCCL_TREE_THRESHOLD NCCL_TUNER_* "
    "NCCL_UID_STAGGER_* NCCL_UNPACK_DOUBLE_NCHANNELS NCCL_WIN_* NCCL_WORK_*";

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct rondo_nccl_environment values = {.backend = RONDO_BACKEND_CUDA};

// `name` ends at '=' or at its end.
static bool name_is_in(const char *name, const char *list) {
  size_t length = strcspn(name, "="), known;
  for (const char *at = list; *at; at += known + (at[known] == ' ')) {
    known = strcspn(at, " ");
    bool is_prefix = at[known - 1] == '*';
    if ((is_prefix ? length >= known : length == known) && !strncmp(name, at, known - is_prefix))
      return true;
  }
  return false;
}

enum rondo_nccl_variable rondo_nccl_variable_kind(const char *name) {
  if (name_is_in(name, honoured))
    return RONDO_NCCL_VARIABLE_HONOURED;
  if (name_is_in(name, missed))
    return RONDO_NCCL_VARIABLE_MISSED;
  return name_is_in(name, without_effect) ? RONDO_NCCL_VARIABLE_NO_EFFECT
                                          : RONDO_NCCL_VARIABLE_UNKNOWN;
}

// A whole number from `low` to `high`; -1: `text` is none.
static long number_parse(const char *text, long low, long high) {
  char *end = NULL;
  long number = strtol(text, &end, 10);
  return end != text && !*end && number >= low && number <= high ? number : -1;
}

static int family_parse(const char *text) {
  if (strcmp(text, "AF_INET") == 0)
    return 4;
  return strcmp(text, "AF_INET6") == 0 ? 6 : 0;
}

const char *rondo_nccl_variable_complaint(const char *name, const char *value) {
  struct rondo_nccl_algorithms algorithms;
  if (strcmp(name, "NCCL_ALGO") == 0)
    return rondo_nccl_algorithms_read(value, &algorithms);
  if (strcmp(name, "NCCL_DEBUG") == 0)
    return rondo_nccl_debug_level_complaint(value);
  if (strcmp(name, "NCCL_DEBUG_SUBSYS") == 0)
    return rondo_nccl_debug_subsys_complaint(value);
  if (strcmp(name, "NCCL_COMM_BLOCKING") == 0)
    return number_parse(value, 0, 1) < 0 ? "it takes 0 or 1" : NULL;
  // The bounds of the daemon's blocks, also with NCCL's old names.
  if (name_is_in(name, "NCCL_MAX_CTAS NCCL_MIN_CTAS NCCL_MAX_NCHANNELS NCCL_MIN_NCHANNELS"))
    return number_parse(value, 1, MAX_CTAS) < 0 ? "it takes a number from 1 to 64" : NULL;
  if (strcmp(name, "NCCL_SOCKET_FAMILY") == 0)
    return family_parse(value) ? NULL : "it takes AF_INET or AF_INET6";
  if (strcmp(name, "NCCL_SOCKET_IFNAME") == 0)
    return strlen(value) > MAX_INTERFACES_LENGTH ? "it is longer than 63 characters" : NULL;
  return NULL;
}

// The value of an honoured variable; null: unset, empty or invalid.
static const char *variable_value(const char *name) {
  const char *value = getenv(name);
  if (!value || !*value)
    return NULL;
  return rondo_nccl_variable_complaint(name, value) ? NULL : value;
}

static long variable_number(const char *name, long fallback) {
  const char *value = variable_value(name);
  return value ? strtol(value, NULL, 10) : fallback;
}

// Rondo reads forced algorithms from its own variable only.
static void algorithms_read(void) {
  const char *value = variable_value("NCCL_ALGO");
  struct rondo_nccl_algorithms algorithms;
  if (!value || rondo_nccl_algorithms_read(value, &algorithms))
    return;
  if (algorithms.foreign[0])
    RONDO_NCCL_WARN("environment: NCCL_ALGO: %s: Rondo has no such algorithm, so that name has no "
                    "effect",
                    algorithms.foreign);
  if (getenv("RONDO_ALGO"))
    rondo_nccl_info(RONDO_NCCL_SUBSYS_ENV, 0, "environment: RONDO_ALGO overrides NCCL_ALGO");
  else if (algorithms.forced[0])
    setenv("RONDO_ALGO", algorithms.forced, 0);
}

static void backend_read(void) {
  const char *text = getenv("RONDO_NCCL_BACKEND");
  if (!text || !*text || strcmp(text, "cuda") == 0)
    return;
  if (strcmp(text, "host") == 0)
    values.backend = RONDO_BACKEND_HOST;
  else
    RONDO_NCCL_WARN("environment: RONDO_NCCL_BACKEND is \"%s\"; it takes cuda or host", text);
}

// `entry` is "NAME=value".
static void variable_check(const char *entry) {
  const enum rondo_nccl_variable kind = rondo_nccl_variable_kind(entry);
  const int length = (int)strcspn(entry, "=");
  const char *value = entry + length + (entry[length] == '=');
  char name[64];
  (void)snprintf(name, sizeof name, "%.*s", length, entry);
  const char *complaint = *value ? rondo_nccl_variable_complaint(name, value) : NULL;
  if (kind == RONDO_NCCL_VARIABLE_UNKNOWN)
    RONDO_NCCL_WARN("environment: %.*s is not a variable of NCCL", length, entry);
  else if (strcmp(name, "NCCL_PROTO") == 0)
    RONDO_NCCL_WARN(
        "environment: NCCL_PROTO has no effect: LL, LL128 and Simple mean nothing here; "
        "Rondo chooses by size how a slot carries data");
  else if (kind == RONDO_NCCL_VARIABLE_MISSED)
    RONDO_NCCL_WARN("environment: %.*s has no effect: Rondo does not support it", length, entry);
  else if (kind == RONDO_NCCL_VARIABLE_NO_EFFECT)
    rondo_nccl_info(RONDO_NCCL_SUBSYS_ENV, 0, "environment: %.*s has no effect", length, entry);
  else if (complaint)
    RONDO_NCCL_WARN("environment: %s is \"%s\"; %s", name, value, complaint);
}

static void environment_read(void) {
  const char *family = variable_value("NCCL_SOCKET_FAMILY");
  for (char **entry = environ; *entry; entry++)
    if (strncmp(*entry, "NCCL_", 5) == 0)
      variable_check(*entry);
  backend_read();
  algorithms_read();
  values.blocking = (int)variable_number("NCCL_COMM_BLOCKING", -1);
  values.min_ctas =
      (uint32_t)variable_number("NCCL_MIN_CTAS", variable_number("NCCL_MIN_NCHANNELS", 0));
  values.max_ctas =
      (uint32_t)variable_number("NCCL_MAX_CTAS", variable_number("NCCL_MAX_NCHANNELS", 0));
  values.address_family = family ? family_parse(family) : 0;
  values.interfaces = variable_value("NCCL_SOCKET_IFNAME");
}

const struct rondo_nccl_environment *rondo_nccl_environment(void) {
  pthread_once(&once, environment_read);
  return &values;
}
