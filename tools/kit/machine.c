#include "tools/kit/machine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tools/kit/options.h"
#include "tools/kit/thread_group.h"

#define GROUP_PATH_BYTES 4096u

static const char *const wanted_features[] = {"sse4_2",      "avx",     "avx2",     "f16c",
                                              "fma",         "avx512f", "avx512bw", "avx512_fp16",
                                              "avx512_bf16", "waitpkg", "asimd",    "sve"};

// The text after "key   :" in a file of such lines, or null. The caller frees it.
static char *field_read(const char *path, const char *key) {
  FILE *file = fopen(path, "r");
  if (!file)
    return NULL;
  char *line = NULL;
  size_t line_bytes = 0;
  char *found = NULL;
  while (!found && getline(&line, &line_bytes, file) > 0) {
    char *colon = strchr(line, ':');
    if (!colon || strncmp(line, key, strlen(key)) != 0)
      continue;
    colon[strcspn(colon, "\n")] = '\0';
    found = strdup(colon + 1 + strspn(colon + 1, " \t"));
  }
  free(line);
  fclose(file);
  return found;
}

static void field_copy(const char *key, const char *fallback, char *out, size_t out_bytes) {
  char *value = field_read("/proc/cpuinfo", key);
  snprintf(out, out_bytes, "%s", value ? value : fallback);
  free(value);
}

static uint64_t memory_read(const char *key) {
  char *value = field_read("/proc/meminfo", key);
  uint64_t kibibytes = value ? strtoull(value, NULL, 10) : 0;
  free(value);
  return kibibytes * 1024;
}

static void features_read(char *out, size_t out_bytes) {
  char *flags = field_read("/proc/cpuinfo", "flags");
  if (!flags)
    flags = field_read("/proc/cpuinfo", "Features");
  out[0] = '\0';
  if (!flags)
    return;
  char *rest = NULL;
  for (char *flag = strtok_r(flags, " ", &rest); flag; flag = strtok_r(NULL, " ", &rest))
    for (size_t i = 0; i < sizeof(wanted_features) / sizeof(wanted_features[0]); i++)
      if (strcmp(flag, wanted_features[i]) == 0) {
        size_t used = strlen(out);
        snprintf(out + used, out_bytes - used, "%s%s", used > 0 ? " " : "", flag);
      }
  free(flags);
}

static uint32_t numa_nodes_count(void) {
  uint32_t nodes = 0;
  char path[64];
  for (;;) {
    snprintf(path, sizeof(path), "/sys/devices/system/node/node%" PRIu32, nodes);
    if (access(path, F_OK) != 0)
      return nodes > 0 ? nodes : 1;
    nodes++;
  }
}

void rondo_kit_machine_read(struct rondo_kit_machine *machine) {
  struct utsname name;
  memset(machine, 0, sizeof(*machine));
  field_copy("model name", "unknown processor", machine->model, sizeof(machine->model));
  features_read(machine->features, sizeof(machine->features));
  snprintf(machine->system, sizeof(machine->system), "unknown system");
  if (uname(&name) == 0)
    snprintf(machine->system, sizeof(machine->system), "%.30s %.60s %.30s", name.sysname,
             name.release, name.machine);
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  machine->cores_online = online > 0 ? (uint32_t)online : 1;
  machine->cores_allowed = rondo_kit_core_count();
  machine->numa_nodes = numa_nodes_count();
  machine->memory_bytes = memory_read("MemTotal");
  machine->available_bytes = rondo_kit_machine_available();
}

void rondo_kit_machine_print(const struct rondo_kit_machine *machine, const char *prefix,
                             FILE *stream) {
  fprintf(stream, "%s%s, %" PRIu32 " cores", prefix, machine->model, machine->cores_online);
  if (machine->cores_allowed != machine->cores_online)
    fprintf(stream, " (%" PRIu32 " for this process)", machine->cores_allowed);
  fprintf(stream, ", %" PRIu32 " NUMA node%s, %.1f GiB, %s\n", machine->numa_nodes,
          machine->numa_nodes == 1 ? "" : "s", (double)machine->memory_bytes / (1 << 30),
          machine->system);
}

// The number at the start of a file of a control group. UINT64_MAX: no file, or it says "max".
static uint64_t group_limit_read(const char *folder, const char *name) {
  char path[GROUP_PATH_BYTES];
  uint64_t value = UINT64_MAX;
  int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = length < (int)sizeof path ? fopen(path, "r") : NULL;
  if (!file)
    return value;
  char text[32];
  if (fgets(text, sizeof text, file) && text[0] >= '0' && text[0] <= '9')
    value = strtoull(text, NULL, 10);
  fclose(file);
  return value;
}

// Files in the page cache count as used, but the kernel reclaims them when the group needs memory.
static uint64_t group_reclaimable_read(const char *folder) {
  char path[GROUP_PATH_BYTES];
  int length = snprintf(path, sizeof path, "%s/memory.stat", folder);
  FILE *file = length < (int)sizeof path ? fopen(path, "r") : NULL;
  uint64_t sum = 0;
  char line[128];
  while (file && fgets(line, sizeof line, file)) {
    char *value = strchr(line, ' ');
    if (!value)
      continue;
    *value++ = '\0';
    if (strcmp(line, "active_file") == 0 || strcmp(line, "inactive_file") == 0)
      sum += strtoull(value, NULL, 10);
  }
  if (file)
    fclose(file);
  return sum;
}

// Bytes that a control group, of version 2 or 1, has left; UINT64_MAX: it has no limit.
static uint64_t group_left(const char *folder) {
  uint64_t limit = group_limit_read(folder, "memory.max");
  uint64_t used = group_limit_read(folder, "memory.current");
  if (limit == UINT64_MAX) {
    limit = group_limit_read(folder, "memory.limit_in_bytes");
    used = group_limit_read(folder, "memory.usage_in_bytes");
  }
  if (limit == UINT64_MAX || used == UINT64_MAX)
    return UINT64_MAX;
  uint64_t reclaimable = group_reclaimable_read(folder);
  used -= reclaimable < used ? reclaimable : used;
  return limit > used ? limit - used : 0;
}

// The least of what the group at `root`/`path` and its ancestors have left.
static uint64_t groups_left(const char *root, const char *path) {
  char folder[GROUP_PATH_BYTES];
  uint64_t least = UINT64_MAX;
  if (snprintf(folder, sizeof folder, "%s%s", root, path) >= (int)sizeof folder)
    return least;
  for (;;) {
    uint64_t left = group_left(folder);
    least = left < least ? left : least;
    char *last = strrchr(folder, '/');
    if (strlen(folder) <= strlen(root) || !last)
      return least;
    *last = '\0';
  }
}

// Bytes that the control groups of this process have left; UINT64_MAX: they have no limit.
static uint64_t process_groups_left(void) {
  FILE *file = fopen("/proc/self/cgroup", "r");
  uint64_t least = UINT64_MAX;
  char line[GROUP_PATH_BYTES];
  while (file && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
      continue;
    *path++ = '\0';
    const char *root = NULL;
    if (controllers[1] == '\0')
      root = "/sys/fs/cgroup";
    else if (strcmp(controllers + 1, "memory") == 0)
      root = "/sys/fs/cgroup/memory";
    uint64_t left = root ? groups_left(root, path) : UINT64_MAX;
    least = left < least ? left : least;
  }
  if (file)
    fclose(file);
  return least;
}

uint64_t rondo_kit_machine_available(void) {
  uint64_t available = memory_read("MemAvailable");
  uint64_t left = process_groups_left();
  return available > 0 && left < available ? left : available;
}

bool rondo_kit_machine_offers(double bytes) {
  char wanted[RONDO_KIT_SIZE_TEXT_BYTES], there[RONDO_KIT_SIZE_TEXT_BYTES];
  uint64_t available = rondo_kit_machine_available();
  if (available == 0 || bytes <= (double)available)
    return true;
  fprintf(stderr, "%s: the buffers take %s of memory, and %s are available\n",
          program_invocation_short_name, rondo_kit_size_text(bytes, wanted),
          rondo_kit_size_text((double)available, there));
  return false;
}
