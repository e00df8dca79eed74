// bench_analyse: time and memory of `rondo-sim analyse` on the dumps of a large job that hangs.
//
// Writes one Flight Recorder dump a rank, as JSON and as pickle, runs the program on each set and
// prints what it took. In the dumps one rank calls its last two collectives in the other order, so
// the verdict must be a circular wait; anything else fails. The target that the analyser was built
// to is 512 ranks with 10,000 entries each in 10 seconds and 2 GiB.
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GROUPS 3
#define CIRCULAR_WAIT 10 // exit code

struct options {
  unsigned ranks, entries;
  const char *program, *folder;
};

static const struct argp_option option_list[] = {
    {"ranks", 'r', "COUNT", 0, "Ranks, one file each (512)", 0},
    {"entries", 'e', "COUNT", 0, "Entries a rank (10000)", 0},
    {"folder", 'f', "PATH", 0, "Where the dumps are written and removed (/tmp)", 0},
    {0}};

static error_t option_parse(int key, char *argument, struct argp_state *state) {
  struct options *o = state->input;
  switch (key) {
  case 'r':
    o->ranks = (unsigned)strtoul(argument, NULL, 10);
    break;
  case 'e':
    o->entries = (unsigned)strtoul(argument, NULL, 10);
    break;
  case 'f':
    o->folder = argument;
    break;
  case ARGP_KEY_ARG:
    o->program = argument;
    break;
  case ARGP_KEY_END:
    if (!o->program || o->ranks < 2 || o->entries < 10)
      argp_usage(state);
    break;
  default:
    return ARGP_ERR_UNKNOWN;
  }
  return 0;
}

// The operation that a rank calls at a place: one rank swaps the last two.
static unsigned op_at(const struct options *o, unsigned rank, unsigned at) {
  return rank == o->ranks / 2 && at + 2 >= o->entries ? 2 * o->entries - 3 - at : at;
}

static void entry_json(FILE *out, const struct options *o, unsigned rank, unsigned at) {
  unsigned op = op_at(o, rank, at), g = op % GROUPS;
  int done = at + 2 < o->entries;
  long long t = 1700000000000000000 + at * 1000000ll;
  fprintf(out,
          "%s{\"collective_seq_id\":%u,\"input_dtypes\":[\"BFloat16\"],\"input_sizes\":[[4096,%u]],"
          "\"is_p2p\":false,\"op_id\":%u,\"output_dtypes\":[\"BFloat16\"],\"output_sizes\":"
          "[[4096,%u]],\"p2p_seq_id\":0,\"pg_id\":%u,\"process_group\":[\"%u\",\"dp\"],"
          "\"profiling_name\":\"nccl:all_reduce\",\"record_id\":%u,\"retired\":%s,\"state\":\"%s\","
          "\"thread_id\":\"140253931031424\",\"thread_name\":\"pt_autograd_0\",\"time_created_ns\":"
          "%lld,\"time_discovered_completed_ns\":%lld,\"time_discovered_started_ns\":%lld,"
          "\"timeout_ms\":600000}",
          at ? "," : "", 1 + op / GROUPS, 1024 + op % 7, at, 1024 + op % 7, g, g, 50000 + at,
          done ? "true" : "false", done ? "completed" : "scheduled", t, done ? t + 5000 : 0,
          done ? t + 3000 : 0);
}

static void groups_list(FILE *out, const struct options *o) {
  for (unsigned rank = 0; rank < o->ranks; rank++)
    fprintf(out, "%s%u", rank ? ", " : "[", rank);
  fputc(']', out);
}

static void dump_json(FILE *out, const struct options *o, unsigned rank) {
  fputs("{\"entries\":[", out);
  for (unsigned at = 0; at + 1 < o->entries; at++)
    entry_json(out, o, rank, at);
  fputs("],\"pg_config\":{", out);
  for (unsigned g = 0; g < GROUPS; g++) {
    fprintf(out, "%s\"%u\":{\"desc\":\"dp\",\"name\":\"%u\",\"ranks\":\"", g ? "," : "", g, g);
    groups_list(out, o);
    fputs("\"}", out);
  }
  fputs("},\"version\":\"2.10\"}", out);
}

static void pickle_string(FILE *out, const char *text) {
  unsigned size = (unsigned)strlen(text);
  fprintf(out, "X%c%c%c%c%s", size & 255, size >> 8 & 255, size >> 16 & 255, 0, text);
}

static void pickle_integer(FILE *out, const char *key, long long value) {
  pickle_string(out, key);
  fputs("\x8a\x08", out);
  fwrite(&value, sizeof value, 1, out);
}

static void pickle_pair(FILE *out, const char *key, const char *value) {
  pickle_string(out, key);
  pickle_string(out, value);
}

static void pickle_sizes(FILE *out, const char *key, unsigned columns) {
  pickle_string(out, key);
  fprintf(out, "](](M%c%cM%c%cee", 0, 16, columns & 255, columns >> 8);
}

static void entry_pickle(FILE *out, const struct options *o, unsigned rank, unsigned at) {
  char group[12];
  unsigned op = op_at(o, rank, at);
  int done = at + 2 < o->entries;
  long long t = 1700000000000000000 + at * 1000000ll;
  snprintf(group, sizeof group, "%u", op % GROUPS);
  fputs("}(", out);
  pickle_integer(out, "record_id", 50000 + at);
  pickle_integer(out, "pg_id", op % GROUPS);
  pickle_string(out, "process_group");
  pickle_string(out, group);
  pickle_string(out, "dp");
  fputc(0x86, out);
  pickle_pair(out, "thread_name", "pt_autograd_0");
  pickle_pair(out, "thread_id", "140253931031424");
  pickle_integer(out, "collective_seq_id", 1 + op / GROUPS);
  pickle_integer(out, "p2p_seq_id", 0);
  pickle_integer(out, "op_id", at);
  pickle_pair(out, "profiling_name", "nccl:all_reduce");
  pickle_integer(out, "time_created_ns", t);
  pickle_sizes(out, "input_sizes", 1024 + op % 7);
  pickle_sizes(out, "output_sizes", 1024 + op % 7);
  pickle_string(out, "input_dtypes");
  fputs("](", out);
  pickle_string(out, "BFloat16");
  fputc('e', out);
  pickle_pair(out, "state", done ? "completed" : "scheduled");
  pickle_integer(out, "time_discovered_started_ns", done ? t + 3000 : 0);
  pickle_integer(out, "time_discovered_completed_ns", done ? t + 5000 : 0);
  pickle_string(out, "retired");
  fputc(done ? 0x88 : 0x89, out);
  pickle_integer(out, "timeout_ms", 600000);
  pickle_string(out, "is_p2p");
  fputs("\x89u", out);
}

static void dump_pickle(FILE *out, const struct options *o, unsigned rank) {
  fputs("\x80\x02}(", out);
  pickle_string(out, "entries");
  fputs("](", out);
  for (unsigned at = 0; at + 1 < o->entries; at++)
    entry_pickle(out, o, rank, at);
  fputs("eu.", out);
}

struct kind {
  const char *name;
  void (*dump)(FILE *out, const struct options *o, unsigned rank);
};

static void path_of(char *path, size_t size, const char *folder, unsigned rank) {
  snprintf(path, size, "%s/nccl_trace_rank_%u", folder, rank);
}

// Writes the dumps of all ranks; returns their size in bytes.
static double dumps_write(const struct options *o, const struct kind *kind, const char *folder) {
  double bytes = 0;
  char path[512];
  for (unsigned rank = 0; rank < o->ranks; rank++) {
    path_of(path, sizeof path, folder, rank);
    FILE *out = fopen(path, "w");
    if (!out) {
      perror(path);
      exit(1);
    }
    kind->dump(out, o, rank);
    bytes += (double)ftell(out);
    if (fclose(out)) {
      perror(path);
      exit(1);
    }
  }
  return bytes;
}

// Runs the program on the folder's files; returns its exit code.
static int program_run(const struct options *o, const char *folder, struct rusage *usage) {
  char command[1024];
  snprintf(command, sizeof command,
           "exec %s analyse --quiet --group 0=0-%u --group 1=0-%u --group 2=0-%u %s/* >/dev/null",
           o->program, o->ranks - 1, o->ranks - 1, o->ranks - 1, folder);
  pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
  }
  int status;
  return wait4(child, &status, 0, usage) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int kind_measure(const struct options *o, const struct kind *kind) {
  char folder[400], path[512];
  struct rusage usage;
  snprintf(folder, sizeof folder, "%s/bench-analyse-XXXXXX", o->folder);
  if (!mkdtemp(folder)) {
    perror(folder);
    return 1;
  }
  double bytes = dumps_write(o, kind, folder);
  double start_s = seconds_now();
  int code = program_run(o, folder, &usage);
  double elapsed_s = seconds_now() - start_s;
  printf("%-8s %5u ranks x %6u entries  %8.0f MB  %7.2f s  %6.0f MB/s  %6.0f MB of memory\n",
         kind->name, o->ranks, o->entries, bytes * 1e-6, elapsed_s, bytes * 1e-6 / elapsed_s,
         (double)usage.ru_maxrss * 1024e-6);
  for (unsigned rank = 0; rank < o->ranks; rank++) {
    path_of(path, sizeof path, folder, rank);
    unlink(path);
  }
  rmdir(folder);
  if (code != CIRCULAR_WAIT)
    fprintf(stderr, "%s: exit code %d, not %d\n", kind->name, code, CIRCULAR_WAIT);
  return code != CIRCULAR_WAIT;
}

int main(int argc, char **argv) {
  static const struct kind kinds[] = {{"json", dump_json}, {"pickle", dump_pickle}};
  static const struct argp parser = {.options = option_list,
                                     .parser = option_parse,
                                     .args_doc = "PATH_OF_RONDO_SIM",
                                     .doc = "Times rondo-sim analyse on the dumps of a large job."};
  struct options o = {.ranks = 512, .entries = 10000, .folder = "/tmp"};
  if (argp_parse(&parser, argc, argv, 0, NULL, &o))
    return 64;
  return kind_measure(&o, &kinds[0]) | kind_measure(&o, &kinds[1]);
}
