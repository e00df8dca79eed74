#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "runtime/net/address.h"
#include "runtime/net/handshake.h"
#include "runtime/net/launcher.h"
#include <rondo/rondo.h>

#define IDENTITY_BYTES 1024u
#define FIRST_PORT 20000u // below those that systems give out by themselves
#define PORT_SPAN 12000u
#define LEAST_SECRET 16u // characters
#define ANCESTORS 32u    // that are looked at

typedef char *(*getter)(const char *name);

// Where a launcher says what. Null: it does not.
struct launcher {
  const char *name;
  const char *rank, *rank_count;
  const char *local_count; // ranks on this machine
  const char *nodes;       // machines
  const char *also;        // must be there for it to be this launcher
  const char *identity[4]; // what tells this job from others
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
     .also = "SLURM_STEP_ID", // a batch script that did not go through srun has none
     .identity = {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};
#define LAUNCHER_COUNT (sizeof launchers / sizeof *launchers)

static const char *text_of(getter get, const char *name) {
  const char *text = name ? get(name) : NULL;
  return text && *text ? text : NULL;
}

static int number_of(getter get, const char *name, uint32_t max, uint32_t *value) {
  const char *text = text_of(get, name);
  char *end;
  if (!text)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "launcher: %s is not set", name);
  errno = 0;
  unsigned long long parsed = strtoull(text, &end, 10);
  if (errno || *end || *text < '0' || *text > '9' || parsed > max)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "launcher: %s is \"%s\"; it takes a number up to %u",
                            name, text, max);
  *value = (uint32_t)parsed;
  return RONDO_SUCCESS;
}

// Copies up to a bracket, and of what is in the bracket the first number as it is written.
int rondo_launcher_first_host(const char *list, char *host, size_t bytes) {
  size_t size = strcspn(list, "[,");
  const char *number = list[size] == '[' ? list + size + 1 : "";
  size_t digits = strspn(number, "0123456789");
  const char *rest = number + digits;
  if (list[size] == '[') {
    const char *close = strchr(rest, ']');
    if (!digits || !close || !strchr("-,]", *rest))
      return 0;
    rest = close + 1;
  }
  size_t tail = list[size] == '[' ? strcspn(rest, ",") : 0;
  if (size + digits + tail == 0 || size + digits + tail >= bytes || memchr(rest, '[', tail) != NULL)
    return 0;
  memcpy(host, list, size);
  memcpy(host + size, number, digits);
  memcpy(host + size + digits, rest, tail);
  host[size + digits + tail] = '\0';
  return 1;
}

static int counts_equal(getter get, const char *name, uint32_t count) {
  const char *text = text_of(get, name);
  return text && strtoul(text, NULL, 10) == count;
}

static int find_root(getter get, const struct launcher *l, struct rondo_launcher *out) {
  const char *root = text_of(get, "RONDO_ROOT");
  const char *master = text_of(get, "MASTER_ADDR");
  const char *nodes = text_of(get, "SLURM_STEP_NODELIST");
  uint16_t port = 0;
  if (root) {
    if (!rondo_address_split(root, out->root, sizeof out->root, &port))
      return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                              "launcher: RONDO_ROOT is \"%s\"; it takes host or host:port", root);
    out->ports[0] = port;
    out->port_count = port ? 1 : 0;
  } else if (master) {
    (void)snprintf(out->root, sizeof out->root, "%s", master);
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

static void append(char *identity, const char *name, const char *text) {
  size_t at = strlen(identity);
  (void)snprintf(identity + at, IDENTITY_BYTES - at, "%s=%s\n", name, text);
}

// The nearest ancestor of that name, up to where it is cut off; 0: none.
static long find_ancestor(const char *name) {
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
    const char *end = strrchr(text, ')'); // the name may hold some
    if (!begin || !end || strlen(end) < 5)
      return 0;
    if (strncmp(begin + 1, name, strlen(name)) == 0)
      return pid;
    pid = strtol(end + 4, NULL, 10); // behind ") S "
  }
  return 0;
}

// What ranks of one machine have in common and others have not, where the launcher says nothing. Hydra makes each a
// process group of its own.
static void append_parent(char *identity, const struct launcher *l,
                          const struct rondo_launcher *out) {
  char number[32];
  long hydra = find_ancestor("hydra_");
  (void)snprintf(number, sizeof number, "%ld", hydra ? hydra : (long)getpgrp());
  append(identity, hydra ? "hydra" : "process group", number);
  if (!out->is_one_machine)
    rondo_log(
        RONDO_LOG_WARN,
        "launcher: %s does not say which job this is: ranks of other machines find it only if "
        "RONDO_JOB is set, or a port in RONDO_ROOT",
        l->name);
}

// Makes tag, secret and ports out of what the launcher says. Whoever can read that can make the
// secret too, unless RONDO_SECRET says one.
static int make_identity(getter get, const struct launcher *l, struct rondo_launcher *out) {
  char identity[IDENTITY_BYTES] = "";
  char number[32];
  const char *secret = text_of(get, "RONDO_SECRET");
  const char *job = text_of(get, "RONDO_JOB");
  append(identity, "launcher", l->name);
  (void)snprintf(number, sizeof number, "%u", out->rank_count);
  append(identity, "ranks", number);
  int known = job != NULL;
  if (job)
    append(identity, "RONDO_JOB", job);
  for (uint32_t i = 0; i < 4 && l->identity[i]; i++) {
    const char *text = text_of(get, l->identity[i]);
    if (text)
      append(identity, l->identity[i], text);
    known |= text != NULL;
  }
  if (!known && out->port_count) // nobody else listens there
    append(identity, "root", text_of(get, "RONDO_ROOT"));
  else if (!known)
    append_parent(identity, l, out);
  rondo_handshake_digest("rondo launch tag", identity, strlen(identity), out->tag, sizeof out->tag);
  out->is_secret = secret != NULL;
  if (secret && strlen(secret) < LEAST_SECRET)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "launcher: RONDO_SECRET has %zu characters; it takes %u at least",
                            strlen(secret), LEAST_SECRET);
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
    if (!text_of(get, l->rank) || (l->also && !text_of(get, l->also)))
      continue;
    out->name = l->name;
    int status = number_of(get, l->rank_count, RONDO_MAX_RANKS, &out->rank_count);
    if (status == RONDO_SUCCESS)
      status = number_of(get, l->rank, RONDO_MAX_RANKS - 1, &out->rank);
    if (status != RONDO_SUCCESS)
      return status;
    if (out->rank >= out->rank_count)
      return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "launcher: %s is %u of %u ranks", l->rank,
                              out->rank, out->rank_count);
    out->is_one_machine = counts_equal(get, l->local_count, out->rank_count) ||
                          counts_equal(get, l->nodes, 1) || out->rank_count == 1;
    status = find_root(get, l, out);
    return status == RONDO_SUCCESS ? make_identity(get, l, out) : status;
  }
  return RONDO_ERR_UNKNOWN;
}
