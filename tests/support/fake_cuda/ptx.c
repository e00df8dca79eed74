// Kernels of the fake driver on the PTX machine: the text that nvcc made, executed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/fake_cuda/internal.h"

#if defined(RONDO_FAKE_PTX)
#include "tests/support/ptx/ptx_image.h"
#include "tests/support/ptx/ptx_machine.h"

#define ARCHITECTURE 90u
// No loop of a kernel of ours runs for so many instructions without a store.
#define IDLE_LIMIT UINT64_C(300000000)

// Programs are parsed once in the life of a process: tests load the same image a hundred times.
struct known_program {
  char *text;
  struct ptx_program *program;
  struct known_program *next;
};
static struct known_program *programs;

// The text with a zero at its end, or null: it cannot be read.
static void *file_read(const char *path) {
  static const uint8_t end[16];
  FILE *file = fopen(path, "rb");
  const long bytes = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
  uint8_t *data = bytes >= 0 ? malloc((size_t)bytes + sizeof end) : NULL;
  if (data) {
    rewind(file);
    if (fread(data, 1, (size_t)bytes, file) != (size_t)bytes)
      abort();
    memcpy(data + bytes, end, sizeof end);
  }
  if (file)
    fclose(file);
  return data;
}

// Calls `use` with each path in a list with colons between, until it returns true.
static bool paths_each(const char *paths, bool (*use)(void *arg, const char *path), void *arg) {
  while (paths && *paths) {
    char path[1024];
    snprintf(path, sizeof path, "%.*s", (int)strcspn(paths, ":"), paths);
    if (use(arg, path))
      return true;
    paths += strcspn(paths, ":");
    paths += *paths == ':';
  }
  return false;
}

// Takes source lines from a file, if it has the program's kernels.
static bool lines_take(void *arg, const char *path) {
  struct ptx_program *lines;
  char why[256];
  char *text = file_read(path);
  const bool is_parsed = text && ptx_program_parse(text, &lines, why, sizeof why) == 0;
  const bool is_taken = is_parsed && ptx_program_take_lines(arg, lines) == 0;
  if (is_parsed)
    ptx_program_destroy(lines);
  free(text);
  return is_taken;
}

const struct ptx_program *fake_ptx_program(const void *image) {
  char why[256] = "";
  char *text = NULL;
  if (ptx_image_text(image, ARCHITECTURE, &text, why, sizeof why))
    return NULL;
  for (const struct known_program *k = programs; k; k = k->next)
    if (strcmp(k->text, text) == 0) {
      free(text);
      return k->program;
    }
  struct known_program *k = malloc(sizeof *k);
  if (!k)
    abort();
  if (ptx_program_parse(text, &k->program, why, sizeof why)) {
    fprintf(stderr, "fake CUDA driver: %s\n", why);
    abort();
  }
  (void)paths_each(getenv("RONDO_TEST_PTX_LINES"), lines_take, k->program);
  k->text = text;
  k->next = programs;
  programs = k;
  return k->program;
}

static bool function_set(CUfunction function, const struct ptx_program *program, const char *name) {
  function->program = program;
  function->code = program ? ptx_program_kernel(program, name) : NULL;
  return function->code != NULL;
}

struct named_function {
  CUfunction function;
  const char *name;
};

static bool image_take(void *arg, const char *path) {
  const struct named_function *named = arg;
  void *image = file_read(path);
  if (!image) {
    fprintf(stderr, "fake CUDA driver: cannot read %s\n", path);
    abort();
  }
  const struct ptx_program *program = fake_ptx_program(image);
  free(image);
  return function_set(named->function, program, named->name);
}

bool fake_ptx_find(CUfunction function, const char *name) {
  struct named_function named = {function, name};
  return paths_each(getenv("RONDO_TEST_PTX_IMAGES"), image_take, &named) ||
         function_set(function, function->module->program, name);
}

void fake_ptx_params(const struct ptx_kernel *kernel, void *to, void **params) {
  for (uint32_t i = 0; i < kernel->param_count; i++)
    memcpy((uint8_t *)to + kernel->params[i].offset, params[i], kernel->params[i].bytes);
}

// ------------------------------------------------------------------ addresses --

// The page of an address, if this process has mapped it.
static bool page_find(uint64_t address, struct ptx_span *span) {
  const uint64_t bytes = (uint64_t)sysconf(_SC_PAGESIZE);
  unsigned char is_resident;
  span->begin = address / bytes * bytes;
  span->end = span->begin + bytes;
  span->is_writable = true;
  span->at = PTX_AT_HOST;
  return mincore((void *)(uintptr_t)span->begin, bytes, &is_resident) == 0;
}

static bool span_find(void *arg, uint64_t address, struct ptx_span *span) {
  CUcontext ctx = arg;
  bool is_found = false;
  pthread_mutex_lock(&fake.lock);
  const struct fake_range *r = fake_range_of((uintptr_t)address, 1);
  if (r)
    is_found = fake_range_is_reachable(r, ctx);
  else if (fake.options.pageable_access)
    is_found = page_find(address, span);
  if (r && is_found) {
    span->begin = r->begin;
    span->end = r->begin + r->bytes;
    span->is_writable = true;
    span->at = r->place == FAKE_PINNED || r->place == FAKE_REGISTERED ? PTX_AT_HOST
               : r->ctx == ctx                                        ? PTX_AT_OWN
                                                                      : PTX_AT_PEER;
  }
  pthread_mutex_unlock(&fake.lock);
  return is_found;
}

// --------------------------------------------------------------------- blocks --

void fake_ptx_run(const struct fake_op *op, uint32_t block) {
  const struct CUfunc_st *f = op->function;
  const uint32_t device = f->module->ctx->device;
  const bool is_daemon = strcmp(f->code->name, "rondo_cuda_daemon") == 0;
  const struct ptx_options options = {.find_span = span_find,
                                      .span_changes = &fake.range_changes,
                                      .arg = f->module->ctx,
                                      .multiprocessor = block % fake.options.multiprocessors,
                                      .timer_step_ns = fake.options.ptx_timer_ns,
                                      .is_checked = fake.options.ptx > 1,
                                      .idle_limit = IDLE_LIMIT,
                                      .meter = is_daemon ? fake.options.meter : NULL,
                                      .meter_device = device,
                                      .seed = fake.options.script ? fake.options.script->random()
                                                                  : fake.options.ptx_seed};
  struct ptx_launch launch = {.program = f->program,
                              .kernel = f->code,
                              .params = op->owned,
                              .blocks = op->count,
                              .threads = op->threads,
                              .shared_bytes = op->shared_bytes,
                              .options = &options};
  int state = fake.options.script ? fake_scripted_run(&launch, device, block)
                                  : (int)ptx_launch_run_block(&launch, block);
  if (state != PTX_DONE)
    abort();
}

#else
const struct ptx_program *fake_ptx_program(const void *image) {
  (void)image;
  fprintf(stderr, "fake CUDA driver: built without the PTX machine, which needs libzstd\n");
  abort();
}

bool fake_ptx_find(CUfunction function, const char *name) {
  (void)function;
  (void)name;
  return false;
}

void fake_ptx_params(const struct ptx_kernel *kernel, void *to, void **params) {
  (void)kernel;
  (void)to;
  (void)params;
}

void fake_ptx_run(const struct fake_op *op, uint32_t block) {
  (void)op;
  (void)block;
}
#endif
