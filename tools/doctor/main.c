// rondo-doctor: which library serves NCCL's calls here, how it is configured, and what will go
// wrong.
//
// The user runs it in the environment of the program in question. It asks the dynamic linker as
// that program would.
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rondo/rondo.h>

#include "adapters/nccl/interface.h"
#include "tools/kit/options.h"
#include "tools/kit/output.h"

#define EXIT_WRONG 1
#define LIBRARIES 8 // that serve the calls together; one is usual

static int faults; // printed so far

static void __attribute__((format(printf, 1, 2))) fault_print(const char *format, ...) {
  va_list args;
  va_start(args, format);
  printf("  WRONG: ");
  (void)vprintf(format, args);
  printf("\n");
  va_end(args);
  faults++;
}

static const char *const *calls;
static size_t call_count;

// --------------------------------------------------------------------- libraries ---

struct served {
  const char *file;
  unsigned calls;
};

static void library_count_call(struct served *libraries, const char *file) {
  for (int i = 0; i < LIBRARIES; i++) {
    if (libraries[i].file && strcmp(libraries[i].file, file) != 0)
      continue;
    libraries[i].file = file;
    libraries[i].calls++;
    return;
  }
}

// The file that serves a call in a program that needs libnccl.so.2, or null.
static const char *call_file(void *library, const char *call) {
  Dl_info info;
  void *address = dlsym(RTLD_DEFAULT, call); // what is preloaded comes first
  if (!address && library)
    address = dlsym(library, call);
  return address && dladdr(address, &info) ? info.dli_fname : NULL;
}

// Whether the library is Rondo's drop-in: then librondo is among its dependencies. Writes its
// version of NCCL's interface too, if `version` is not null.
static bool library_is_rondo(const char *file, int *version) {
  void *library = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  bool found = library && dlsym(library, "rondo_version");
  int (*ask)(int *) = NULL;
  if (library)
    *(void **)&ask = dlsym(library, "ncclGetVersion");
  if (ask && version)
    (void)ask(version);
  if (library)
    dlclose(library);
  return found;
}

static void calls_print(const struct served *libraries, bool each, void *library) {
  for (int i = 0; i < LIBRARIES && libraries[i].file; i++) {
    int v = 0;
    bool is_rondo = library_is_rondo(libraries[i].file, &v);
    printf("  %u of %zu calls: %s\n    NCCL %d.%d.%d, %s\n", libraries[i].calls, call_count,
           libraries[i].file, v / 10000, v / 100 % 100, v % 100,
           is_rondo ? "served by Rondo" : "not Rondo's");
  }
  for (size_t i = 0; each && i < call_count; i++) {
    const char *file = call_file(library, calls[i]);
    printf("  %-32s %s\n", calls[i], file ? file : "nobody");
  }
}

static void libraries_check(bool each) {
  struct served libraries[LIBRARIES] = {{NULL, 0}};
  void *library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_GLOBAL);
  const char *why = library ? NULL : dlerror();
  unsigned missing = 0;
  for (size_t i = 0; i < call_count; i++) {
    const char *file = call_file(library, calls[i]);
    if (file)
      library_count_call(libraries, file);
    else
      missing++;
  }
  printf("Who serves NCCL's calls\n");
  calls_print(libraries, each, library);
  if (!libraries[0].file)
    fault_print("no library serves them: %s", why ? why : "not found");
  else if (missing)
    fault_print("%u calls are served by nobody", missing);
  if (libraries[1].file)
    fault_print("two libraries share them: a handle of one is nothing to the other");
  if (libraries[0].file && !library_is_rondo(libraries[0].file, NULL))
    fault_print("the program uses another NCCL than Rondo's: see LD_PRELOAD and LD_AUDIT in "
                "rondo-doctor(1)");
}

// Prints the libraries of NCCL that a running process has mapped. Returns false if /proc cannot be
// read.
static bool process_check(const char *pid) {
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
    fault_print("none: it has not loaded NCCL, or has it built in");
  if (found > 1)
    fault_print("%u of them: a handle of one is nothing to the others", found);
  return true;
}

// ------------------------------------------------------------------ environment ---

static void loader_print(void) {
  static const char *const names[] = {"LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT"};
  printf("\nWhat the dynamic linker was told\n");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *value = getenv(names[i]);
    printf("  %-16s %s\n", names[i], value && *value ? value : "-");
  }
}

static void variable_check(const char *entry) {
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
    fault_print("%s: %s", name, complaint);
  if (kind == RONDO_NCCL_VARIABLE_MISSED || kind == RONDO_NCCL_VARIABLE_UNKNOWN)
    fault_print("%s is not heeded", name);
}

static bool variable_is(const char *name, const char *value) {
  const char *text = getenv(name);
  return text && strcmp(text, value) == 0;
}

static void environment_check(void) {
  printf("\nEnvironment\n");
  for (char **entry = environ; *entry; entry++) {
    if (strncmp(*entry, "NCCL_", 5) == 0)
      variable_check(*entry);
    else if (strncmp(*entry, "RONDO_", 6) == 0)
      printf("  %s\n", *entry);
  }
  if (variable_is("CUDA_DEVICE_MAX_CONNECTIONS", "1"))
    fault_print(
        "CUDA_DEVICE_MAX_CONNECTIONS=1 leaves no queue for the daemon: calls on streams are "
        "refused");
  if (variable_is("CUDA_LAUNCH_BLOCKING", "1"))
    fault_print(
        "CUDA_LAUNCH_BLOCKING=1 makes each launch wait: the daemon stays for short times only");
}

// ----------------------------------------------------------------------- backend ---

// Redirects Rondo's log to a file in memory, so that only the report appears. Returns the file, or
// null if the log already has a file or can have none.
static FILE *log_capture(void) {
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

static void log_print(FILE *log) {
  char *line = NULL;
  size_t capacity = 0;
  while (log && getline(&line, &capacity, log) > 0)
    printf("    %s", line);
  free(line);
  if (log)
    (void)fclose(log);
}

static void backend_check(void) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  int interface = rondo_nccl_interface_version();
  bool host = variable_is("RONDO_NCCL_BACKEND", "host");
  cfg.backend = host ? RONDO_BACKEND_HOST : RONDO_BACKEND_CUDA;
  FILE *log = log_capture();
  int status = rondo_init(&ctx, &cfg);
  printf("\nRondo %s, NCCL's interface %d.%d.%d\n", rondo_kit_version(), interface / 10000,
         interface / 100 % 100, interface % 100);
  printf("  backend %s: %s\n", host ? "host" : "cuda",
         status == RONDO_SUCCESS ? "works" : rondo_status_string(status));
  log_print(log);
  if (status == RONDO_SUCCESS)
    (void)rondo_destroy(ctx, RONDO_DESTROY_ABORT, 0);
  else
    fault_print("no communicator can be made%s",
                host ? "" : "; RONDO_NCCL_BACKEND=host takes memory of the CPU");
}

// ------------------------------------------------------------------------ options ---

struct options {
  bool each;
  const char *pid;
};

int main(int argc, char **argv) {
  static const struct rondo_kit_option known[] = {
      {"symbols", 's', NULL, "Print for each call which library serves it", .value = RONDO_KIT_FLAG,
       .offset = offsetof(struct options, each)},
      {"pid", 'p', "PID", "Look at what a running process has mapped instead",
       .value = RONDO_KIT_TEXT, .offset = offsetof(struct options, pid)},
      {0}};
  static const struct rondo_kit_command command = {
      .options = known,
      .doc = "Says which library serves NCCL's calls in this environment, and what will go wrong."};
  struct options options = {false, NULL};
  rondo_kit_output_begin(EXIT_WRONG);
  calls = rondo_nccl_interface_calls(&call_count);
  rondo_kit_command_read(&command, argc, argv, &options);
  if (options.pid) {
    if (!process_check(options.pid)) {
      fprintf(stderr, "rondo-doctor: process %s cannot be looked at: %s\n", options.pid,
              strerror(errno));
      return 2;
    }
    return faults ? EXIT_WRONG : 0;
  }
  libraries_check(options.each);
  loader_print();
  environment_check();
  backend_check();
  printf("\n%s\n",
         faults ? "Something will go wrong: see WRONG above." : "Nothing wrong was found.");
  return faults ? EXIT_WRONG : 0;
}
