// rondo-doctor: which library serves NCCL's calls here, what it was told, and what will go wrong.
//
// It is run in the environment of the program in question, and asks the dynamic linker as that would.
#include <argp.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rondo/rondo.h>

#include "adapters/nccl/abi.h"
#include "adapters/nccl/environment.h"

#define EXIT_WRONG 1
#define LIBRARIES 8 // that serve calls at once; one is usual

static int wrong; // things that were found

static void __attribute__((format(printf, 1, 2))) complain(const char *format, ...) {
  va_list args;
  va_start(args, format);
  printf("  WRONG: ");
  (void)vprintf(format, args);
  printf("\n");
  va_end(args);
  wrong++;
}

#define NAME_OF(result, name, parameters) "nccl" #name, "pnccl" #name,
static const char *const calls[] = {RONDO_NCCL_CALLS(NAME_OF)};
#define CALLS (sizeof calls / sizeof *calls)

// --------------------------------------------------------------------- libraries ---

struct served {
  const char *file;
  unsigned calls;
};

static void count_for(struct served *libraries, const char *file) {
  for (int i = 0; i < LIBRARIES; i++) {
    if (libraries[i].file && strcmp(libraries[i].file, file) != 0)
      continue;
    libraries[i].file = file;
    libraries[i].calls++;
    return;
  }
}

// The file that a call comes from in a program that needs libnccl.so.2, or null.
static const char *file_of(void *library, const char *call) {
  Dl_info info;
  void *address = dlsym(RTLD_DEFAULT, call); // what is preloaded comes first
  if (!address && library)
    address = dlsym(library, call);
  return address && dladdr(address, &info) ? info.dli_fname : NULL;
}

// Whether it is ours: then librondo is among what it needs.
static bool is_ours(const char *file) {
  void *library = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  bool found = library && dlsym(library, "rondo_version");
  if (library)
    dlclose(library);
  return found;
}

static int version_of(const char *file) {
  void *library = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  int version = 0;
  int (*ask)(int *) = NULL;
  if (library)
    *(void **)&ask = dlsym(library, "ncclGetVersion");
  if (ask)
    (void)ask(&version);
  if (library)
    dlclose(library);
  return version;
}

static void print_calls(const struct served *libraries, bool each, void *library) {
  for (int i = 0; i < LIBRARIES && libraries[i].file; i++) {
    int v = version_of(libraries[i].file);
    printf("  %u of %zu calls: %s\n    NCCL %d.%d.%d, %s\n", libraries[i].calls, CALLS,
           libraries[i].file, v / 10000, v / 100 % 100, v % 100,
           is_ours(libraries[i].file) ? "served by Rondo" : "not Rondo's");
  }
  for (size_t i = 0; each && i < CALLS; i++) {
    const char *file = file_of(library, calls[i]);
    printf("  %-32s %s\n", calls[i], file ? file : "nobody");
  }
}

static void look_at_libraries(bool each) {
  struct served libraries[LIBRARIES] = {{NULL, 0}};
  void *library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_GLOBAL);
  const char *why = library ? NULL : dlerror();
  unsigned missing = 0;
  for (size_t i = 0; i < CALLS; i++) {
    const char *file = file_of(library, calls[i]);
    if (file)
      count_for(libraries, file);
    else
      missing++;
  }
  printf("Who serves NCCL's calls\n");
  print_calls(libraries, each, library);
  if (!libraries[0].file)
    complain("no library serves them: %s", why ? why : "not found");
  else if (missing)
    complain("%u calls are served by nobody", missing);
  if (libraries[1].file)
    complain("two libraries share them: a handle of one is nothing to the other");
  if (libraries[0].file && !is_ours(libraries[0].file))
    complain("the program uses another NCCL than Rondo's: see LD_PRELOAD and LD_AUDIT in "
             "rondo-doctor(1)");
}

// What a running process has mapped. False: it cannot be read.
static bool look_at_process(const char *pid) {
  char path[64], line[4608], last[4096] = "";
  unsigned found = 0;
  (void)snprintf(path, sizeof path, "/proc/%.20s/maps", pid);
  FILE *maps = fopen(path, "r");
  if (!maps)
    return false;
  printf("Libraries of that name in process %s\n", pid);
  while (fgets(line, sizeof line, maps)) {
    const char *file = strchr(line, '/');
    line[strcspn(line, "\n")] = '\0';
    if (!file || !strstr(file, "/libnccl.so") || strcmp(file, last) == 0)
      continue;
    (void)snprintf(last, sizeof last, "%s", file);
    printf("  %s\n", file);
    found++;
  }
  fclose(maps);
  if (!found)
    complain("none: it has not loaded NCCL, or has it built in");
  if (found > 1)
    complain("%u of them: a handle of one is nothing to the others", found);
  return true;
}

// ------------------------------------------------------------------ environment ---

static void look_at_loader(void) {
  static const char *const names[] = {"LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT"};
  printf("\nWhat the dynamic linker was told\n");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *value = getenv(names[i]);
    printf("  %-16s %s\n", names[i], value && *value ? value : "-");
  }
}

static void look_at_variable(const char *entry) {
  static const char *const kinds[] = {"honoured", "without effect", "asks for what is not there",
                                      "no variable of NCCL"};
  char name[128];
  size_t length = strcspn(entry, "=");
  if (length >= sizeof name || !entry[length])
    return;
  memcpy(name, entry, length);
  name[length] = '\0';
  enum rondo_nccl_variable kind = rondo_nccl_variable_kind(name);
  printf("  %s: %s\n", entry, kinds[kind]);
  const char *complaint = kind == RONDO_NCCL_VARIABLE_HONOURED && entry[length + 1]
                              ? rondo_nccl_variable_complaint(name, entry + length + 1)
                              : NULL;
  if (complaint)
    complain("%s: %s", name, complaint);
  if (kind == RONDO_NCCL_VARIABLE_MISSED || kind == RONDO_NCCL_VARIABLE_UNKNOWN)
    complain("%s is not heeded", name);
}

static bool is(const char *name, const char *value) {
  const char *text = getenv(name);
  return text && strcmp(text, value) == 0;
}

static void look_at_environment(void) {
  printf("\nEnvironment\n");
  for (char **entry = environ; *entry; entry++) {
    if (strncmp(*entry, "NCCL_", 5) == 0)
      look_at_variable(*entry);
    else if (strncmp(*entry, "RONDO_", 6) == 0)
      printf("  %s\n", *entry);
  }
  if (is("CUDA_DEVICE_MAX_CONNECTIONS", "1"))
    complain("CUDA_DEVICE_MAX_CONNECTIONS=1 leaves no queue for the daemon: calls on streams are "
             "refused");
  if (is("CUDA_LAUNCH_BLOCKING", "1"))
    complain(
        "CUDA_LAUNCH_BLOCKING=1 makes each launch wait: the daemon stays for short times only");
}

// ----------------------------------------------------------------------- backend ---

// Lets the library's log go to a file in memory, so that only the report speaks. Returns it, or null where the
// log has a file already, or can have none.
static FILE *catch_log(void) {
  char path[64];
  int fd = getenv("RONDO_LOG_FILE") ? -1 : memfd_create("rondo-doctor", MFD_CLOEXEC);
  if (fd < 0)
    return NULL;
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  FILE *log = setenv("RONDO_LOG_FILE", path, 1) == 0 ? fdopen(fd, "r") : NULL;
  if (!log)
    close(fd);
  return log;
}

static void print_log(FILE *log) {
  char *line = NULL;
  size_t capacity = 0;
  while (log && getline(&line, &capacity, log) > 0)
    printf("    %s", line);
  free(line);
  if (log)
    (void)fclose(log);
}

static void look_at_backend(void) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  int version = rondo_version();
  bool host = is("RONDO_NCCL_BACKEND", "host");
  cfg.backend = host ? RONDO_BACKEND_HOST : RONDO_BACKEND_CUDA;
  FILE *log = catch_log();
  int status = rondo_init(&ctx, &cfg);
  printf("\nRondo %d.%d.%d, NCCL's interface %d.%d.%d\n", version / 10000, version / 100 % 100,
         version % 100, RONDO_NCCL_MAJOR, RONDO_NCCL_MINOR, RONDO_NCCL_PATCH);
  printf("  backend %s: %s\n", host ? "host" : "cuda",
         status == RONDO_SUCCESS ? "works" : rondo_status_string(status));
  print_log(log);
  if (status == RONDO_SUCCESS)
    (void)rondo_destroy(ctx, RONDO_DESTROY_ABORT, 0);
  else
    complain("no communicator can be made%s",
             host ? "" : "; RONDO_NCCL_BACKEND=host takes memory of the CPU");
}

// ------------------------------------------------------------------------ options ---

struct options {
  bool each;
  const char *pid;
};

static error_t take_option(int key, char *arg, struct argp_state *state) {
  struct options *options = state->input;
  if (key == 's')
    options->each = true;
  else if (key == 'p')
    options->pid = arg;
  else
    return ARGP_ERR_UNKNOWN;
  return 0;
}

static void print_version(FILE *stream, struct argp_state *state) {
  int version = rondo_version();
  fprintf(stream, "%s %d.%d.%d\n", state->name, version / 10000, version / 100 % 100,
          version % 100);
}

// At exit: standard output may be a full disk.
static void finish(void) {
  if (fflush(stdout) == 0 && !ferror(stdout))
    return;
  fprintf(stderr, "rondo-doctor: standard output: not all could be written\n");
  _exit(EXIT_WRONG);
}

int main(int argc, char **argv) {
  static const struct argp_option known[] = {
      {"symbols", 's', NULL, 0, "Print for each call which library serves it", 0},
      {"pid", 'p', "PID", 0, "Look at what a running process has mapped instead", 0},
      {0}};
  static const struct argp argp = {
      known,
      take_option,
      NULL,
      "Says which library serves NCCL's calls in this environment, and "
      "what will go wrong.",
      NULL,
      NULL,
      NULL};
  struct options options = {false, NULL};
  argp_err_exit_status = 2;
  argp_program_version_hook = print_version;
  if (atexit(finish) != 0)
    return EXIT_WRONG;
  argp_parse(&argp, argc, argv, 0, NULL, &options);
  if (options.pid) {
    if (!look_at_process(options.pid)) {
      fprintf(stderr, "rondo-doctor: process %s cannot be looked at: %s\n", options.pid,
              strerror(errno));
      return 2;
    }
    return wrong ? EXIT_WRONG : 0;
  }
  look_at_libraries(options.each);
  look_at_loader();
  look_at_environment();
  look_at_backend();
  printf("\n%s\n",
         wrong ? "Something will go wrong: see WRONG above." : "Nothing wrong was found.");
  return wrong ? EXIT_WRONG : 0;
}
