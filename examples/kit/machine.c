#include "examples/kit/machine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "examples/kit/options.h"
#include "examples/kit/team.h"

static const char *const wanted_features[] = {"sse4_2",      "avx",     "avx2",     "f16c",
                                              "fma",         "avx512f", "avx512bw", "avx512_fp16",
                                              "avx512_bf16", "waitpkg", "asimd",    "sve"};

// The text after "key   :" in a file of such lines, or null. The caller frees it.
static char *field_of(const char *path, const char *key) {
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

static void read_field(const char *key, const char *fallback, char *out, size_t out_bytes) {
  char *value = field_of("/proc/cpuinfo", key);
  snprintf(out, out_bytes, "%s", value ? value : fallback);
  free(value);
}

static uint64_t read_memory(const char *key) {
  char *value = field_of("/proc/meminfo", key);
  uint64_t kibibytes = value ? strtoull(value, NULL, 10) : 0;
  free(value);
  return kibibytes * 1024;
}

static void read_features(char *out, size_t out_bytes) {
  char *flags = field_of("/proc/cpuinfo", "flags");
  if (!flags)
    flags = field_of("/proc/cpuinfo", "Features");
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

static uint32_t count_numa_nodes(void) {
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
  read_field("model name", "unknown processor", machine->model, sizeof(machine->model));
  read_features(machine->features, sizeof(machine->features));
  snprintf(machine->system, sizeof(machine->system), "unknown system");
  if (uname(&name) == 0)
    snprintf(machine->system, sizeof(machine->system), "%.30s %.60s %.30s", name.sysname,
             name.release, name.machine);
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  machine->cores_online = online > 0 ? (uint32_t)online : 1;
  machine->cores_allowed = rondo_kit_core_count();
  machine->numa_nodes = count_numa_nodes();
  machine->memory_bytes = read_memory("MemTotal");
  machine->available_bytes = read_memory("MemAvailable");
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

bool rondo_kit_machine_offers(double bytes) {
  char wanted[RONDO_KIT_SIZE_TEXT_BYTES], there[RONDO_KIT_SIZE_TEXT_BYTES];
  uint64_t available = read_memory("MemAvailable");
  if (available == 0 || bytes <= (double)available)
    return true;
  uint64_t whole = bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX;
  fprintf(stderr, "%s: the buffers take %s of memory, and %s are available\n",
          program_invocation_short_name, rondo_kit_size_text(whole, wanted),
          rondo_kit_size_text(available, there));
  return false;
}
