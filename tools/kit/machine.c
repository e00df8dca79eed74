#include "tools/kit/machine.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
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

// The text after `key` in the first line of the file that begins so, without what separates the
// two; null: there is none. The caller frees it.
static char *field_read(const char *folder, const char *name, const char *key) {
  char *path = NULL, *line = NULL, *found = NULL;
  size_t line_bytes = 0;
  FILE *file = asprintf(&path, "%s/%s", folder, name) > 0 ? fopen(path, "r") : NULL;
  while (file && !found && getline(&line, &line_bytes, file) > 0) {
    if (strncmp(line, key, strlen(key)) != 0)
      continue;
    char *value = line + strlen(key);
    value[strcspn(value, "\n")] = '\0';
    found = strdup(value + strspn(value, " \t:"));
  }
  if (file)
    fclose(file);
  free(line);
  free(path);
  return found;
}

// The same as a number; `otherwise` if it is none.
static uint64_t number_read(const char *folder, const char *name, const char *key,
                            uint64_t otherwise) {
  char *value = field_read(folder, name, key);
  uint64_t number = value && isdigit((unsigned char)*value) ? strtoull(value, NULL, 10) : otherwise;
  free(value);
  return number;
}

static void features_read(char *out, size_t out_bytes) {
  char *flags = field_read("/proc", "cpuinfo", "flags");
  if (!flags)
    flags = field_read("/proc", "cpuinfo", "Features");
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
  char *model = field_read("/proc", "cpuinfo", "model name");
  snprintf(machine->model, sizeof(machine->model), "%s", model ? model : "unknown processor");
  free(model);
  features_read(machine->features, sizeof(machine->features));
  snprintf(machine->system, sizeof(machine->system), "unknown system");
  if (uname(&name) == 0)
    snprintf(machine->system, sizeof(machine->system), "%.30s %.60s %.30s", name.sysname,
             name.release, name.machine);
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  machine->cores_online = online > 0 ? (uint32_t)online : 1;
  machine->cores_allowed = rondo_kit_core_count();
  machine->numa_nodes = numa_nodes_count();
  machine->memory_bytes = number_read("/proc", "meminfo", "MemTotal", 0) * 1024;
  machine->available_bytes = rondo_kit_machine_available();
}

void rondo_kit_machine_print(const char *prefix) {
  struct rondo_kit_machine m;
  rondo_kit_machine_read(&m);
  printf("%s%s, %" PRIu32 " cores", prefix, m.model, m.cores_online);
  if (m.cores_allowed != m.cores_online)
    printf(" (%" PRIu32 " for this process)", m.cores_allowed);
  printf(", %" PRIu32 " NUMA node%s, %.1f GiB, %s\n", m.numa_nodes, m.numa_nodes == 1 ? "" : "s",
         (double)m.memory_bytes / (1 << 30), m.system);
}

// Bytes that a control group, of version 2 or 1, has left; UINT64_MAX: it has no limit.
static uint64_t group_left(const char *folder) {
  uint64_t limit = number_read(folder, "memory.max", "", UINT64_MAX);
  uint64_t used = number_read(folder, "memory.current", "", UINT64_MAX);
  if (limit == UINT64_MAX) {
    limit = number_read(folder, "memory.limit_in_bytes", "", UINT64_MAX);
    used = number_read(folder, "memory.usage_in_bytes", "", UINT64_MAX);
  }
  if (limit == UINT64_MAX || used == UINT64_MAX)
    return UINT64_MAX;
  // Files in the page cache count as used, but the kernel reclaims them when the group needs
  // memory.
  uint64_t reclaimable = number_read(folder, "memory.stat", "active_file", 0) +
                         number_read(folder, "memory.stat", "inactive_file", 0);
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
  uint64_t available = number_read("/proc", "meminfo", "MemAvailable", 0) * 1024;
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
