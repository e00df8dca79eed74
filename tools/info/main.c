// rondo-info: what this machine offers to Rondo, the defaults in force, and the plan of a
// collective.
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>
#include <rondo/rondo.h>

#include "tools/info/plan.h"
#include "tools/info/tune.h"
#include "tools/kit/clock.h"
#include "tools/kit/machine.h"
#include "tools/kit/options.h"
#include "tools/kit/output.h"

#define EXIT_BAD 1
#define LINK_PAUSE_NS 10000000
#define LINK_POLLS 1000 // at most, until another rank has joined

extern char **environ;

struct options {
  bool profile;
  uint64_t profile_ns;
  bool json;
  bool links;
};

static const char prefix[] = "RONDO_";

// The status of rondo_init for a job of one rank on the backend.
static int backend_try(int backend) {
  struct rondo_config config = RONDO_CONFIG_INIT;
  struct rondo_context context;
  config.backend = backend;
  int status = rondo_init(&context, &config);
  if (status == RONDO_SUCCESS)
    rondo_destroy(context, RONDO_DESTROY_DRAIN, (int64_t)RONDO_KIT_SECOND_NS);
  return status;
}

static void machine_print(const struct rondo_kit_machine *m) {
  printf("\nThis machine\n");
  printf("  processor      %s\n", m->model);
  printf("  cores          %" PRIu32 " online, %" PRIu32 " for this process\n", m->cores_online,
         m->cores_allowed);
  printf("  NUMA nodes     %" PRIu32 "\n", m->numa_nodes);
  printf("  features       %s\n", m->features[0] ? m->features : "none known");
  printf("  memory         %.1f GiB, %.1f GiB available\n", (double)m->memory_bytes / (1 << 30),
         (double)m->available_bytes / (1 << 30));
  printf("  system         %s\n", m->system);
}

// A backend or a transport.
struct part {
  const char *name;
  int status;    // whether it works: enum rondo_status
  json_t *lines; // what it finds, or why it does not work
};

// `describe`: rondo_backend_describe or rondo_transport_describe.
static struct part part_describe(const char *name, int (*describe)(int, FILE *), int which) {
  struct part part = {name, RONDO_ERR_NO_MEMORY, json_array()};
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  if (out) {
    part.status = describe(which, out);
    (void)fclose(out);
  }
  for (char *rest = text, *line = NULL; rest && (line = strsep(&rest, "\n")) && *line;)
    json_array_append_new(part.lines, json_string(line));
  free(text);
  return part;
}

// A backend that cannot work is not tried, because rondo_init would log the reason again.
static struct part backend_describe(int backend) {
  struct part part =
      part_describe(rondo_kit_name(RONDO_KIT_BACKEND, backend), rondo_backend_describe, backend);
  if (part.status == RONDO_SUCCESS)
    part.status = backend_try(backend);
  return part;
}

static struct part transport_describe(int transport) {
  return part_describe(rondo_transport_name(transport), rondo_transport_describe, transport);
}

static void part_print(struct part part) {
  size_t i;
  json_t *line;
  printf("  %-14s %s\n", part.name,
         part.status == RONDO_SUCCESS ? "works" : rondo_status_string(part.status));
  json_array_foreach(part.lines, i, line) printf("  %-14s   %s\n", "", json_string_value(line));
  json_decref(part.lines);
}

static void parts_print(void) {
  printf("\nBackends\n");
  for (int b = RONDO_BACKEND_HOST; b <= RONDO_BACKEND_CUDA; b++)
    part_print(backend_describe(b));
  printf("\nBetween processes\n");
  for (int t = RONDO_TRANSPORT_SHARED_MEMORY; t <= RONDO_TRANSPORT_UCX; t++)
    part_print(transport_describe(t));
}

static void number_print(const char *name, uint64_t value) {
  printf("  %-17s %" PRIu64 "\n", name, value);
}

static void defaults_print(void) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  char tuning[RONDO_TUNING_TEXT_BYTES];
  if (rondo_config_complete(&c) != RONDO_SUCCESS ||
      rondo_tuning_print(&c.tuning, tuning, sizeof tuning) != RONDO_SUCCESS) {
    printf("\nIn force\n  nothing: the environment is refused\n");
    return;
  }
  printf("\nIn force, where a program does not say otherwise\n");
  printf("  %-17s %s\n", "backend", rondo_kit_name(RONDO_KIT_BACKEND, c.backend));
  printf("  %-17s %s\n", "order", rondo_kit_name(RONDO_KIT_ORDER, c.order));
  printf("  %-17s %s\n", "budget", rondo_kit_name(RONDO_KIT_BUDGET, c.budget));
  number_print("blocks", c.blocks);
  number_print("workers", c.workers);
  number_print("max_collectives", c.max_collectives);
  if (c.max_runs)
    number_print("max_runs", c.max_runs);
  else
    printf("  %-17s limited by memory alone\n", "max_runs");
  number_print("connector_bytes", c.connector_bytes);
  number_print("slot_bytes", c.slot_bytes);
  number_print("peer_timeout_ns", c.peer_timeout_ns);
  number_print("heartbeat_ns", c.heartbeat_ns);
  number_print("least_ranks", c.least_ranks);
  number_print("most_ranks", c.most_ranks);
  number_print("endpoints", c.endpoints);
  number_print("huge_pages", c.huge_pages);
  number_print("collective_counters", c.collective_counters);
  printf("  %-17s %s\n", "tuning", tuning);
}

static int variable_matters(const char *entry) {
  static const char *const others[] = {"CUDA_LAUNCH_BLOCKING=", "CUDA_DEVICE_MAX_CONNECTIONS=",
                                       "CUDA_MODULE_LOADING=", "CUDA_VISIBLE_DEVICES="};
  for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
    if (strncmp(entry, others[i], strlen(others[i])) == 0)
      return 1;
  return strncmp(entry, prefix, sizeof(prefix) - 1) == 0;
}

static void environment_print(void) {
  bool any = false;
  printf("\nEnvironment\n");
  for (char **entry = environ; *entry; entry++)
    if (variable_matters(*entry)) {
      printf("  %s\n", *entry);
      any = true;
    }
  if (!any)
    printf("  no variable %s... is set\n", prefix);
}

// Writes what was measured to `text`, of RONDO_TUNING_TEXT_BYTES. Returns whether that succeeded.
static bool profile_measure(const struct options *o, char *text) {
  struct rondo_tuning tuning;
  int status = rondo_profile(&tuning, o->profile_ns);
  if (status == RONDO_SUCCESS)
    status = rondo_tuning_print(&tuning, text, RONDO_TUNING_TEXT_BYTES);
  if (status != RONDO_SUCCESS)
    fprintf(stderr, "rondo-info: profiling: %s\n", rondo_status_string(status));
  return status == RONDO_SUCCESS;
}

static json_t *environment_json(void) {
  json_t *object = json_object();
  for (char **entry = environ; *entry; entry++) {
    const char *equals = strchr(*entry, '=');
    if (!equals || strncmp(*entry, prefix, sizeof(prefix) - 1) != 0)
      continue;
    json_object_setn_new(object, *entry, (size_t)(equals - *entry), json_string(equals + 1));
  }
  return object;
}

// Whether each backend works, and its devices.
static void backends_json(json_t *works, json_t *devices) {
  for (int b = RONDO_BACKEND_HOST; b <= RONDO_BACKEND_CUDA; b++) {
    struct part part = backend_describe(b);
    json_object_set_new(works, part.name, json_string(rondo_status_name(part.status)));
    json_object_set_new(devices, part.name, part.lines);
  }
}

static json_t *transports_json(void) {
  json_t *object = json_object();
  for (int t = RONDO_TRANSPORT_SHARED_MEMORY; t <= RONDO_TRANSPORT_UCX; t++) {
    struct part part = transport_describe(t);
    json_object_set_new(
        object, part.name,
        json_pack("{s:s, s:o}", "status", rondo_status_name(part.status), "finds", part.lines));
  }
  return object;
}

static int machine_print_json(const struct rondo_kit_machine *m, const char *tuning) {
  json_t *works = json_object(), *devices = json_object();
  backends_json(works, devices);
  json_t *root =
      json_pack("{s:i, s:{s:s, s:i, s:i, s:i, s:s, s:I, s:I, s:s}, s:o, s:o, s:o, s:o, s:s*}",
                "version", rondo_version(), "machine", "model", m->model, "cores_online",
                m->cores_online, "cores_allowed", m->cores_allowed, "numa_nodes", m->numa_nodes,
                "features", m->features, "memory_bytes", (json_int_t)m->memory_bytes,
                "available_bytes", (json_int_t)m->available_bytes, "system", m->system, "backends",
                works, "devices", devices, "transports", transports_json(), "environment",
                environment_json(), "tuning", tuning[0] ? tuning : NULL);
  if (!root || json_dumpf(root, stdout, JSON_INDENT(1)) != 0)
    return EXIT_BAD;
  printf("\n");
  json_decref(root);
  return 0;
}

// How the rank reaches another one.
struct link {
  uint32_t rank;
  int transport;
  uint32_t endpoints; // 0: it has none
  char why[128];
};

// Waits, for a limited time, until the other rank has joined.
static struct link link_find(struct rondo_context context, uint32_t rank, uint32_t endpoints) {
  const struct timespec pause = {0, LINK_PAUSE_NS};
  struct link link = {.rank = rank, .transport = RONDO_TRANSPORT_NONE};
  int status = rondo_transport(context, rank, &link.transport, link.why, sizeof link.why);
  for (int i = 0; status == RONDO_IN_PROGRESS && i < LINK_POLLS; i++) {
    nanosleep(&pause, NULL);
    status = rondo_transport(context, rank, &link.transport, link.why, sizeof link.why);
  }
  if (link.transport == RONDO_TRANSPORT_UCX)
    link.endpoints = endpoints;
  return link;
}

static void link_print(const struct link *link) {
  printf("  to rank %-8" PRIu32 " %s", link->rank, rondo_transport_name(link->transport));
  if (link->endpoints)
    printf(", %" PRIu32 " endpoint%s", link->endpoints, link->endpoints > 1 ? "s" : "");
  printf(" (%s)\n", link->why);
}

static json_t *link_json(const struct link *link) {
  json_t *object = json_pack("{s:i, s:s, s:s}", "rank", link->rank, "transport",
                             rondo_transport_name(link->transport), "why", link->why);
  if (link->endpoints)
    json_object_set_new(object, "endpoints", json_integer((json_int_t)link->endpoints));
  return object;
}

// Prints one line a rank, so that the JSON of several ranks does not mix. Returns false if there is
// no memory.
static bool links_print_json(const struct rondo_config *config, json_t *links) {
  json_t *root = json_pack("{s:i, s:i, s:O}", "rank", config->rank, "rank_count",
                           config->rank_count, "links", links);
  char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
  if (text)
    printf("%s\n", text);
  free(text);
  json_decref(root);
  return text != NULL;
}

// Returns an exit status: EXIT_BAD if a rank cannot be reached.
static int links_look(struct rondo_context context, const struct rondo_config *config,
                      bool as_json) {
  int result = 0;
  json_t *links = json_array();
  if (!as_json)
    printf("Rank %" PRIu32 " of %" PRIu32 "\n", config->rank, config->rank_count);
  for (uint32_t r = 0; r < config->rank_count; r++) {
    struct link link = link_find(context, r, config->endpoints);
    if (as_json)
      json_array_append_new(links, link_json(&link));
    else
      link_print(&link);
    if (link.transport == RONDO_TRANSPORT_NONE)
      result = EXIT_BAD;
  }
  if (as_json && !links_print_json(config, links))
    result = EXIT_BAD;
  json_decref(links);
  return result;
}

// A rank that leaves cannot be reached any more, so it stays until slower ranks have looked. A
// failure is not reported: what has been printed shows it.
static void others_wait(struct rondo_context context) {
  struct rondo_collective barrier;
  struct rondo_collective_desc d = rondo_barrier(1);
  if (rondo_register(context, &d, &barrier) == RONDO_SUCCESS &&
      rondo_run(context, barrier, NULL, NULL, NULL, NULL) == RONDO_SUCCESS)
    (void)rondo_wait(context, barrier, RONDO_LAST_RUN, (int64_t)LINK_PAUSE_NS * LINK_POLLS);
}

static int links_print(bool as_json) {
  struct rondo_config config = RONDO_CONFIG_INIT;
  struct rondo_context context;
  config.rank_count = RONDO_RANKS_OF_LAUNCHER;
  config.report_on_timeout = 0;
  int status = rondo_config_complete(&config);
  if (status == RONDO_SUCCESS)
    status = rondo_init(&context, &config);
  if (status != RONDO_SUCCESS) {
    fprintf(stderr, "rondo-info: --links: %s\n", rondo_status_string(status));
    return EXIT_BAD;
  }
  int result = links_look(context, &config, as_json);
  others_wait(context);
  rondo_destroy(context, RONDO_DESTROY_DRAIN, (int64_t)RONDO_KIT_SECOND_NS);
  return result;
}

// `text`: how long to measure; null: the default.
static bool profile_read(const char *text, void *values) {
  struct options *o = values;
  o->profile = true;
  return !text || rondo_kit_read_seconds(text, &o->profile_ns);
}

static void options_read(struct options *options, int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"profile", 'p', "SECONDS",
       "Measure spin budgets on this machine (default 0.05 s) and print the line that pins them",
       .read = profile_read, .is_optional = true},
      {"json", 'j', NULL, "Print JSON", .value = RONDO_KIT_FLAG,
       .offset = offsetof(struct options, json)},
      {"links", 'l', NULL,
       "Started by a launcher, one process a rank: print how this rank reaches each other one, and "
       "why so",
       .value = RONDO_KIT_FLAG, .offset = offsetof(struct options, links)},
      {0}};
  static const struct rondo_kit_command command = {
      .options = table,
      .args_doc = "\nplan KIND RANKS BYTES [OPTION...]\ntune FILE [OPTION...]",
      .doc = "Prints the version of Rondo, what this machine offers, the defaults in force and the "
             "environment variables that are set for it.\n\n"
             "rondo-info plan prints the plan of a collective, and rondo-info tune measures what "
             "decides it; see rondo-info plan --help, rondo-info tune --help."};
  rondo_kit_command_read(&command, argc, argv, options);
}

int main(int argc, char **argv) {
  struct options options = {false, 0, false, false};
  char tuning[RONDO_TUNING_TEXT_BYTES] = "";
  struct rondo_kit_machine machine;
  rondo_kit_output_begin(EXIT_BAD);
  if (argc > 1 && strcmp(argv[1], "plan") == 0)
    return info_plan_main(argc - 1, argv + 1);
  if (argc > 1 && strcmp(argv[1], "tune") == 0)
    return info_tune_main(argc - 1, argv + 1);
  options_read(&options, argc, argv);
  if (options.links)
    return links_print(options.json);
  rondo_kit_machine_read(&machine);
  if (options.profile && !profile_measure(&options, tuning))
    return EXIT_BAD;
  if (options.json)
    return machine_print_json(&machine, tuning);
  printf("Rondo %s (headers %d.%d.%d)\n", rondo_kit_version(), RONDO_VERSION_MAJOR,
         RONDO_VERSION_MINOR, RONDO_VERSION_PATCH);
  machine_print(&machine);
  parts_print();
  defaults_print();
  environment_print();
  if (tuning[0])
    printf("\nMeasured on this machine; to pin it:\nRONDO_TUNING=%s\n", tuning);
  return 0;
}
