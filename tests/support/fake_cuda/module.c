// Modules and kernels of the fake driver.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_cuda/internal.h"

#define MAX_PARAM_BYTES 4096u // as on a GPU

// -------------------------------------------------------------------- kernels --

static struct fake_kernel *kernel_named(const char *name) {
  for (uint32_t i = 0; i < fake.kernel_count; i++)
    if (strcmp(fake.kernels[i].name, name) == 0)
      return &fake.kernels[i];
  return NULL;
}

void rondo_fake_register(const char *name, rondo_fake_kernel function, size_t param_bytes) {
  pthread_mutex_lock(&fake.lock);
  struct fake_kernel *k = kernel_named(name);
  if (!k) {
    if (fake.kernel_count == FAKE_MAX_KERNELS || param_bytes > MAX_PARAM_BYTES)
      abort();
    k = &fake.kernels[fake.kernel_count++];
    snprintf(k->name, sizeof k->name, "%s", name);
  }
  k->function = function;
  k->param_bytes = param_bytes;
  pthread_mutex_unlock(&fake.lock);
}

uint32_t rondo_fake_threads(void) {
  pthread_mutex_lock(&fake.lock);
  uint32_t threads = fake.threads;
  pthread_mutex_unlock(&fake.lock);
  return threads;
}

uint64_t rondo_fake_launches_in(CUlaunchMemSyncDomain domain) {
  pthread_mutex_lock(&fake.lock);
  uint64_t launches = fake.launches_in[domain];
  pthread_mutex_unlock(&fake.lock);
  return launches;
}

uint64_t rondo_fake_running(void) {
  pthread_mutex_lock(&fake.lock);
  uint64_t running = fake.kernels_in_flight;
  pthread_mutex_unlock(&fake.lock);
  return running;
}

struct block {
  struct fake_op *op;
  CUcontext ctx;
  uint32_t index, count;
  int is_node; // of a graph: the thread that runs the graph waits, and frees the operation
};

// The operation of a launch that has ended is gone when this returns.
static void block_ended(struct fake_op *op, int is_node) {
  if (--op->left)
    return;
  fake.kernels_in_flight -= !is_node;
  if (!is_node)
    fake_op_ended(op);
  pthread_cond_broadcast(&fake.changed);
}

static void *block_main(void *arg) {
  struct block b = *(struct block *)arg;
  free(arg);
  pthread_mutex_lock(&fake.lock);
  while (b.ctx->running >= fake.options.resident_blocks)
    pthread_cond_wait(&fake.changed, &fake.lock);
  b.ctx->running++;
  rondo_fake_kernel function = b.op->function->code ? NULL : b.op->function->kernel->function;
  pthread_mutex_unlock(&fake.lock);
  if (function)
    function(b.op->owned, b.index, b.count);
  else
    fake_ptx_run(b.op, b.index);
  pthread_mutex_lock(&fake.lock);
  b.ctx->running--;
  block_ended(b.op, b.is_node);
  pthread_cond_broadcast(&fake.changed);
  pthread_mutex_unlock(&fake.lock);
  return NULL;
}

void fake_kernel_start(struct fake_op *op) {
  pthread_attr_t attr;
  const struct block first = {op, op->stream->ctx, 0, op->count, op->number == 0};
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  pthread_mutex_lock(&fake.lock);
  op->left = first.count;
  pthread_mutex_unlock(&fake.lock);
  for (uint32_t i = 0; i < first.count; i++) {
    pthread_t thread;
    struct block *b = malloc(sizeof *b);
    if (!b)
      abort();
    *b = first;
    b->index = i;
    if (pthread_create(&thread, &attr, block_main, b))
      abort();
  }
  pthread_attr_destroy(&attr);
}

// The parameters of a launch, in memory of their own.
static void *params_copy(CUfunction function, void **params, size_t *bytes) {
  *bytes = function->code ? function->code->param_bytes : function->kernel->param_bytes;
  void *copy = malloc(*bytes + 1);
  if (!copy)
    abort();
  if (function->code)
    fake_ptx_params(function->code, copy, params);
  else
    memcpy(copy, params[0], *bytes);
  return copy;
}

static bool shape_is_sound(CUfunction function, const struct fake_op *shape) {
  return shape->count && shape->threads && shape->threads <= 1024 &&
         shape->shared_bytes <= 232448 &&
         (!function->code || shape->threads <= function->code->max_threads);
}

// `shape`: its count, threads and shared_bytes are those of the launch.
static CUresult launch(CUfunction function, const struct fake_op *shape, CUstream stream,
                       void **params) {
  CUstream s = fake_stream(stream);
  fake.threads = shape->threads;
  if (!params || !shape_is_sound(function, shape))
    return CUDA_ERROR_INVALID_VALUE;
  if (!s)
    return CUDA_ERROR_INVALID_HANDLE;
  if (s->ctx != function->module->ctx)
    return CUDA_ERROR_INVALID_CONTEXT;
  // The first launch of a function that is loaded lazily waits for the device.
  if (!function->is_loaded && !s->capture)
    fake_await_context(s->ctx);
  function->is_loaded = 1;
  struct fake_op *op = fake_op_new(FAKE_KERNEL, s);
  op->function = function;
  op->count = shape->count;
  op->threads = shape->threads;
  op->shared_bytes = shape->shared_bytes;
  op->owned = params_copy(function, params, &op->bytes);
  fake.kernels_in_flight += !s->capture;
  int is_awaited = fake.options.launch_blocking && !s->capture;
  CUresult result = fake_enqueue(op);
  if (result == CUDA_SUCCESS && is_awaited)
    fake_await_op(s, fake.numbers);
  return result;
}

// NOLINTNEXTLINE(readability-function-size): the signature of cuda.h
CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                        void **params, void **extra) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT);
  const struct fake_op shape = {.count = grid_x, .threads = block_x, .shared_bytes = shared_bytes};
  if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || extra)
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  return fake_leave(launch(function, &shape, stream, params));
}

// Of the attributes it knows the memory synchronisation domain.
static CUresult launch_domain(const CUlaunchConfig *config, CUlaunchMemSyncDomain *domain) {
  *domain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
  for (unsigned i = 0; i < config->numAttrs; i++) {
    if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN)
      return CUDA_ERROR_NOT_SUPPORTED;
    *domain = config->attrs[i].value.memSyncDomain;
  }
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                          void **extra) {
  CUlaunchMemSyncDomain domain;
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT);
  const struct fake_op shape = {.count = config->gridDimX,
                                .threads = config->blockDimX,
                                .shared_bytes = config->sharedMemBytes};
  CUresult result = launch_domain(config, &domain);
  if (config->gridDimY != 1 || config->gridDimZ != 1 || config->blockDimY != 1 ||
      config->blockDimZ != 1 || extra)
    result = CUDA_ERROR_INVALID_VALUE;
  if (result != CUDA_SUCCESS)
    return fake_leave(result);
  result = launch(function, &shape, config->hStream, params);
  fake.launches_in[domain] += result == CUDA_SUCCESS;
  return fake_leave(result);
}

// -------------------------------------------------------------------- modules --

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE);
  if (!image)
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  fake_await_context(fake_current());
  CUmodule m = calloc(1, sizeof *m);
  if (!m)
    abort();
  m->ctx = fake_current();
  m->program = fake.options.ptx ? fake_ptx_program(image) : NULL;
  m->next = m->ctx->modules;
  m->ctx->modules = m;
  fake.live.modules++;
  *module = m;
  return fake_leave(CUDA_SUCCESS);
}

static void module_free(CUmodule module) {
  while (module->functions) {
    CUfunction f = module->functions;
    module->functions = f->next;
    free(f);
  }
  free(module);
}

void fake_modules_free(CUcontext ctx) {
  while (ctx->modules) {
    CUmodule m = ctx->modules;
    ctx->modules = m->next;
    module_free(m);
  }
}

CUresult cuModuleUnload(CUmodule module) {
  FAKE_ENTER(FAKE_STARTED | FAKE_UNSAFE);
  CUmodule *at = &module->ctx->modules;
  while (*at && *at != module)
    at = &(*at)->next;
  if (!*at)
    return fake_leave(CUDA_ERROR_INVALID_HANDLE);
  *at = module->next;
  fake_await_context(module->ctx);
  fake.live.modules--;
  module_free(module);
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT);
  CUfunction f = calloc(1, sizeof *f);
  if (!f)
    abort();
  f->module = module;
  const bool is_ptx = fake.options.ptx && fake_ptx_find(f, name);
  f->kernel = is_ptx || module->program ? NULL : kernel_named(name);
  if (!is_ptx && !f->kernel) {
    free(f);
    return fake_leave(CUDA_ERROR_NOT_FOUND);
  }
  f->next = module->functions;
  module->functions = f;
  *function = f;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuFuncLoad(CUfunction function) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE);
  if (!function->is_loaded)
    fake_await_context(fake_current());
  function->is_loaded = 1;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT);
  (void)function;
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT);
  (void)function;
  int is_bad =
      attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && (value < 0 || value > 232448);
  return fake_leave(is_bad ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}
