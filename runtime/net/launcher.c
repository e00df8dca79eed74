#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/number.h"
#include "runtime/net/address.h"
#include "runtime/net/handshake.h"
#include "runtime/net/launcher.h"
#include "runtime/net/pmix.h"
#include <rondo/rondo.h>

#define IDENTITY_BYTES 1024u
#define FIRST_PORT 20000u // below the ports that systems choose for clients
#define PORT_SPAN 12000u
#define MIN_SECRET_CHARACTERS 16u
#define ANCESTORS 32u // most ancestors searched

typedef char *(*getter)(const char *name);

// The variables of a launcher; null where it has none.
struct launcher {
  const char *name;
  const char *rank, *rank_count;
  const char *local_count; // ranks on this machine
  const char *nodes;       // machines
  const char *also;        // must also be set for the launcher to be this one
  const char *identity[4]; // tell this job from others
};

static const struct launcher launchers[] = {
    {.name = "RONDO_RANK",
     .rank = "RONDO_RANK",
     .rank_count = "RONDO_RANK_COUNT",
     .identity = {"RONDO_ROOT"}},
    {.name = "torchrun",
     .rank = "RANK",
     .rank_count = "WORLD_SIZE",
     .local_count = "LOCAL_WORLD_SIZE",
     .also = "MASTER_ADDR",
     .identity = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
                  "TORCHELASTIC_RESTART_COUNT"}},
    {.name = "Open MPI",
     .rank = "OMPI_COMM_WORLD_RANK",
     .rank_count = "OMPI_COMM_WORLD_SIZE",
     .local_count = "OMPI_COMM_WORLD_LOCAL_SIZE",
     .identity = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    {.name = "PMI",
     .rank = "PMI_RANK",
     .rank_count = "PMI_SIZE",
     .local_count = "MPI_LOCALNRANKS",
     .identity = {"PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID", "PBS_JOBID"}},
    {.name = "Slurm",
     .rank = "SLURM_PROCID",
     .rank_count = "SLURM_STEP_NUM_TASKS",
     .nodes = "SLURM_STEP_NUM_NODES",
     .also = "SLURM_STEP_ID", // not set in a batch script that srun did not start
     .identity = {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};
#define LAUNCHER_COUNT (sizeof launchers / sizeof *launchers)

static const char *variable_text(getter get, const char *name) {
  const char *text = name ? get(name) : NULL;
  return text && *text ? text : NULL;
}

static int variable_number(getter get, const char *name, uint32_t max, uint32_t *value) {
  const char *text = variable_text(get, name);
  uint64_t parsed = 0;
  if (!text)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "launcher: %s is not set", name);
  const char *end = rondo_number_read(text, max, &parsed);
  if (!end || *end)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "launcher: %s is \"%s\"; use a number up to %u",
                            name, text, max);
  *value = (uint32_t)parsed;
  return RONDO_SUCCESS;
}

// Copies the text up to a bracket, the first number in the bracket and the text after it.
bool rondo_launcher_first_host(const char *list, char *host, size_t bytes) {
  size_t size = strcspn(list, "[,");
  const char *number = list[size] == '[' ? list + size + 1 : "";
  size_t digits = strspn(number, "0123456789");
  const char *rest = number + digits;
  if (list[size] == '[') {
    const char *close = strchr(rest, ']');
    if (!digits || !close || !strchr("-,]", *rest))
      return false;
    rest = close + 1;
  }
  size_t tail = list[size] == '[' ? strcspn(rest, ",") : 0;
  if (size + digits + tail == 0 || size + digits + tail >= bytes || memchr(rest, '[', tail) != NULL)
    return false;
  memcpy(host, list, size);
  memcpy(host + size, number, digits);
  memcpy(host + size + digits, rest, tail);
  host[size + digits + tail] = '\0';
  return true;
}

static bool variable_is_count(getter get, const char *name, uint32_t count) {
  const char *text = variable_text(get, name);
  uint64_t value = 0;
  return text && rondo_number_read(text, UINT32_MAX, &value) && value == count;
}

// True if the process of rank 0 is to publish by PMIx where the root is. All processes decide
// alike: they have the same variables, and the same libraries where the cluster is uniform.
static bool launcher_uses_pmix(getter get, const struct rondo_launcher *out) {
  const char *wish = variable_text(get, "RONDO_PMIX");
  bool is_wanted = wish ? strcmp(wish, "1") == 0 : !out->is_one_machine;
  return is_wanted && rondo_pmix_is_offered(get);
}

static int launcher_find_root(getter get, const struct launcher *l, struct rondo_launcher *out) {
  const char *root = variable_text(get, "RONDO_ROOT");
  const char *master = variable_text(get, "MASTER_ADDR");
  const char *nodes = variable_text(get, "SLURM_STEP_NODELIST");
  uint16_t port = 0;
  if (root) {
    if (!rondo_address_split(root, out->root, sizeof out->root, &port))
      return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                              "launcher: RONDO_ROOT is \"%s\"; use host or host:port", root);
    out->ports[0] = port;
    out->port_count = port ? 1 : 0;
  } else if (master) {
    (void)snprintf(out->root, sizeof out->root, "%s", master);
  } else if (launcher_uses_pmix(get, out)) {
    out->uses_pmix = 1;
    if (out->is_one_machine)
      (void)snprintf(out->root, sizeof out->root, "127.0.0.1");
  } else if (out->is_one_machine) {
    (void)snprintf(out->root, sizeof out->root, "127.0.0.1");
  } else if (!nodes || !rondo_launcher_first_host(nodes, out->root, sizeof out->root)) {
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "launcher: %s does not say where rank 0 is: set RONDO_ROOT to its host "
                            "on all ranks, or give them an id of rondo_unique_id_listen",
                            l->name);
  }
  return RONDO_SUCCESS;
}

// Finds the nearest ancestor process whose name begins with `name`. Returns its pid, or 0.
static long process_find_ancestor(const char *name) {
  long pid = (long)getppid();
  for (uint32_t i = 0; i < ANCESTORS && pid > 1; i++) {
    char text[512] = "";
    (void)snprintf(text, sizeof text, "/proc/%ld/stat", pid);
    FILE *file = fopen(text, "re");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
      (void)fclose(file);
    text[size] = '\0';
    const char *begin = strchr(text, '(');
    const char *end = strrchr(text, ')'); // the name may contain parentheses
    if (!begin || !end || strlen(end) < 5)
      return 0;
    if (strncmp(begin + 1, name, strlen(name)) == 0)
      return pid;
    pid = strtol(end + 4, NULL, 10); // after ") S "
  }
  return 0;
}

// Identifies a job that its launcher does not name, by what its ranks on one machine share: Hydra's
// process, because Hydra gives each rank a process group of its own, or else the process group.
static void identity_write_parent(FILE *identity, const struct launcher *l,
                                  const struct rondo_launcher *out) {
  long hydra = process_find_ancestor("hydra_");
  fprintf(identity, "%s=%ld\n", hydra ? "hydra" : "process group", hydra ? hydra : (long)getpgrp());
  if (!out->is_one_machine)
    rondo_log(
        RONDO_LOG_WARN,
        "launcher: %s does not say which job this is: ranks of other machines find it only if "
        "RONDO_JOB is set, or a port in RONDO_ROOT",
        l->name);
}

// Writes what tells this job from others, in lines of a name and a value.
static void identity_write(FILE *identity, getter get, const struct launcher *l,
                           const struct rondo_launcher *out) {
  const char *job = variable_text(get, "RONDO_JOB");
  bool is_known = job != NULL;
  fprintf(identity, "launcher=%s\nranks=%u\n", l->name, out->rank_count);
  if (job)
    fprintf(identity, "RONDO_JOB=%s\n", job);
  for (uint32_t i = 0; i < 4 && l->identity[i]; i++) {
    const char *text = variable_text(get, l->identity[i]);
    if (text)
      fprintf(identity, "%s=%s\n", l->identity[i], text);
    is_known |= text != NULL;
  }
  if (!is_known && out->port_count) // no other job has its root there
    fprintf(identity, "root=%s\n", variable_text(get, "RONDO_ROOT"));
  else if (!is_known)
    identity_write_parent(identity, l, out);
}

// Derives tag, secret and ports from the launcher's variables. Without RONDO_SECRET, anybody who
// can read them can derive the secret too.
static int launcher_make_identity(getter get, const struct launcher *l,
                                  struct rondo_launcher *out) {
  char identity[IDENTITY_BYTES] = "";
  const char *secret = variable_text(get, "RONDO_SECRET");
  FILE *file = fmemopen(identity, sizeof identity, "w");
  if (!file)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "launcher: no memory");
  identity_write(file, get, l, out);
  (void)fclose(file);
  rondo_handshake_digest("rondo launch tag", identity, strlen(identity), out->tag, sizeof out->tag);
  out->is_secret = secret != NULL;
  if (secret && strlen(secret) < MIN_SECRET_CHARACTERS)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "launcher: RONDO_SECRET has %zu characters; it needs at least %u",
                            strlen(secret), MIN_SECRET_CHARACTERS);
  if (!secret)
    secret = identity;
  rondo_handshake_digest("rondo launch secret", secret, strlen(secret), out->secret,
                         sizeof out->secret);
  if (out->port_count)
    return RONDO_SUCCESS;
  uint8_t digits[2 * RONDO_LAUNCHER_PORTS];
  rondo_handshake_digest("rondo launch ports", identity, strlen(identity), digits, sizeof digits);
  for (uint32_t i = 0; i < RONDO_LAUNCHER_PORTS; i++) {
    uint32_t wide = digits[i] | (uint32_t)digits[RONDO_LAUNCHER_PORTS + i] << 8;
    out->ports[i] = (uint16_t)(FIRST_PORT + wide % PORT_SPAN);
  }
  out->port_count = RONDO_LAUNCHER_PORTS;
  return RONDO_SUCCESS;
}

int rondo_launcher_find(getter get, struct rondo_launcher *out) {
  memset(out, 0, sizeof *out);
  for (size_t i = 0; i < LAUNCHER_COUNT; i++) {
    const struct launcher *l = &launchers[i];
    if (!variable_text(get, l->rank) || (l->also && !variable_text(get, l->also)))
      continue;
    out->name = l->name;
    int status = variable_number(get, l->rank_count, RONDO_MAX_RANKS, &out->rank_count);
    if (status == RONDO_SUCCESS)
      status = variable_number(get, l->rank, RONDO_MAX_RANKS - 1, &out->rank);
    if (status != RONDO_SUCCESS)
      return status;
    if (out->rank >= out->rank_count)
      return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "launcher: %s is %u of %u ranks", l->rank,
                              out->rank, out->rank_count);
    out->is_one_machine = variable_is_count(get, l->local_count, out->rank_count) ||
                          variable_is_count(get, l->nodes, 1) || out->rank_count == 1;
    status = launcher_find_root(get, l, out);
    return status == RONDO_SUCCESS ? launcher_make_identity(get, l, out) : status;
  }
  return RONDO_ERR_UNKNOWN;
}
