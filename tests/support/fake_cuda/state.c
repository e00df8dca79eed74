// Options, faults, devices and contexts of the fake driver.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_cuda/internal.h"

#define STACK_DEPTH 16

struct fake_driver fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static _Thread_local CUcontext stack[STACK_DEPTH];
static _Thread_local int depth;

// ------------------------------------------------------------------ options ---

static uint32_t number_in(const char *text, uint32_t otherwise) {
  if (!text || !*text)
    return otherwise;
  return (uint32_t)strtoul(text, NULL, 10);
}

static void take_option(struct rondo_fake_options *o, const char *text) {
  const struct {
    const char *name;
    uint32_t *value;
  } known[] = {
      {"devices=", &o->devices},
      {"peer_access=", &o->peer_access},
      {"peers_corrupt=", &o->peers_corrupt},
      {"multiprocessors=", &o->multiprocessors},
      {"resident_blocks=", &o->resident_blocks},
      {"connections=", &o->connections},
      {"launch_blocking=", &o->launch_blocking},
      {"memory_waits=", &o->memory_waits},
      {"holds_lock=", &o->holds_lock},
      {"kernels_only=", &o->kernels_only},
      {"pageable_access=", &o->pageable_access},
      {"driver_version=", &o->driver_version},
      {"capability=", &o->capability},
      {"sharing=", &o->sharing},
      {"watch_locks=", &o->watch_locks},
      {"ptx=", &o->ptx},
      {"ptx_seed=", &o->ptx_seed},
      {"ptx_timer_ns=", &o->ptx_timer_ns},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    size_t length = strlen(known[i].name);
    if (strncmp(text, known[i].name, length) != 0)
      continue;
    *known[i].value = number_in(text + length, 0);
    return;
  }
  fprintf(stderr, "fake CUDA driver: \"%s\" is no option\n", text);
  abort();
}

struct rondo_fake_options rondo_fake_defaults(void) {
  struct rondo_fake_options o = {.devices = 1,
                                 .peer_access = 1,
                                 .multiprocessors = 16,
                                 .resident_blocks = 64,
                                 .memory_waits = 1,
                                 .sharing = 1,
                                 .capability = 90};
  o.connections = number_in(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), FAKE_DEFAULT_CHANNELS);
  o.launch_blocking = number_in(getenv("CUDA_LAUNCH_BLOCKING"), 0);
  const char *text = getenv("RONDO_TEST_FAKE_CUDA");
  while (text && *text) {
    char option[64];
    snprintf(option, sizeof option, "%.*s", (int)strcspn(text, ","), text);
    take_option(&o, option);
    text += strcspn(text, ",");
    text += *text == ',';
  }
  return o;
}

static void configure(const struct rondo_fake_options *options) {
  struct rondo_fake_options o = options ? *options : rondo_fake_defaults();
  if (o.devices > RONDO_FAKE_MAX_DEVICES)
    o.devices = RONDO_FAKE_MAX_DEVICES;
  if (o.connections == 0)
    o.connections = FAKE_DEFAULT_CHANNELS;
  if (o.connections > FAKE_CHANNELS)
    o.connections = FAKE_CHANNELS;
  if (o.resident_blocks == 0)
    o.resident_blocks = 1;
  fake.options = o;
  for (uint32_t d = 0; d < RONDO_FAKE_MAX_DEVICES; d++)
    fake_context_init(&fake.contexts[d], d);
  fake.is_configured = 1;
}

void rondo_fake_reset(const struct rondo_fake_options *options) {
  struct rondo_fake_live none = {0};
  struct fake_fault no_fault = {{0}, 0, 0, 0, 0, CUDA_SUCCESS};
  pthread_mutex_lock(&fake.lock);
  for (uint32_t d = 0; d < RONDO_FAKE_MAX_DEVICES && fake.is_configured; d++) {
    fake_await_streams(&fake.contexts[d]);
    fake_modules_free(&fake.contexts[d]);
  }
  fake_ranges_free();
  fake.fault = no_fault;
  fake.entry_count = 0;
  memset(fake.launches_in, 0, sizeof fake.launches_in);
  fake.live = none;
  fake.is_started = 0;
  configure(options);
  pthread_mutex_unlock(&fake.lock);
}

// ------------------------------------------------------------------- faults ---

// "cuMemAlloc" is also "cuMemAlloc_v2", the name that cuda.h gives it.
static int is_entry(const char *name, const char *entry) {
  size_t length = strlen(entry);
  return strncmp(name, entry, length) == 0 &&
         (name[length] == '\0' || strncmp(name + length, "_v", 2) == 0);
}

void rondo_fake_fail(const char *entry, uint64_t first, uint64_t count, CUresult result) {
  struct fake_fault fault = {{0}, first, count, 0, 0, result};
  if (entry)
    snprintf(fault.entry, sizeof fault.entry, "%s", entry);
  pthread_mutex_lock(&fake.lock);
  fake.fault = fault;
  pthread_mutex_unlock(&fake.lock);
}

uint64_t rondo_fake_failed(void) {
  pthread_mutex_lock(&fake.lock);
  uint64_t failed = fake.fault.failed;
  pthread_mutex_unlock(&fake.lock);
  return failed;
}

uint64_t rondo_fake_calls(const char *entry) {
  uint64_t calls = 0;
  pthread_mutex_lock(&fake.lock);
  for (uint32_t i = 0; i < fake.entry_count; i++)
    if (!entry || is_entry(fake.entries[i].name, entry))
      calls += fake.entries[i].calls;
  pthread_mutex_unlock(&fake.lock);
  return calls;
}

static void count_call(const char *name) {
  uint32_t i = 0;
  while (i < fake.entry_count && strcmp(fake.entries[i].name, name) != 0)
    i++;
  if (i == fake.entry_count) {
    if (i == FAKE_MAX_ENTRIES)
      abort();
    fake.entries[fake.entry_count++] = (struct fake_entry){name, 0};
  }
  fake.entries[i].calls++;
}

static CUresult planted(const char *name) {
  struct fake_fault *f = &fake.fault;
  if (f->count == 0 || (f->entry[0] && !is_entry(name, f->entry)))
    return CUDA_SUCCESS;
  if (++f->seen < f->first || f->seen - f->first >= f->count)
    return CUDA_SUCCESS;
  f->failed++;
  return f->result;
}

void rondo_fake_hold(const char *entry) {
  pthread_mutex_lock(&fake.lock);
  snprintf(fake.hold.entry, sizeof fake.hold.entry, "%s", entry ? entry : "");
  pthread_cond_broadcast(&fake.changed);
  pthread_mutex_unlock(&fake.lock);
}

uint32_t rondo_fake_held(void) {
  pthread_mutex_lock(&fake.lock);
  uint32_t held = fake.hold.held;
  pthread_mutex_unlock(&fake.lock);
  return held;
}

static void await_hold(const char *name) {
  fake.hold.held++;
  while (fake.hold.entry[0] && is_entry(name, fake.hold.entry))
    pthread_cond_wait(&fake.changed, &fake.lock);
  fake.hold.held--;
}

// True if the name of a call begins with one of `names`, which end with null.
static int begins_with_one(const char *entry, const char *const *names) {
  for (; *names; names++)
    if (strncmp(entry, *names, strlen(*names)) == 0)
      return 1;
  return 0;
}

// True for calls that do not wait for the lock of a context: those that only change the thread, or
// ask what never changes; and what was seen with driver 580 on an H100.
static int needs_no_lock(const char *entry, int locked) {
  static const char *const never[] = {
      "cuInit",    "cuGetErrorName", "cuDriverGetVersion", "cuDevice", "cuThreadExchange",
      "cuCtxPush", "cuCtxPop",       "cuCtxSetCurrent",    "cuCtxGet", "cuPointerGet",
      NULL};
  static const char *const with_580[] = {
      "cuStreamQuery",        "cuEventQuery",       "cuStreamBatchMemOp",
      "cuStreamWait",         "cuStreamWriteValue", "cuMemCreate",
      "cuMemRelease",         "cuMemAddress",       "cuMemMap",
      "cuMemUnmap",           "cuMemSetAccess",     "cuMemExportToShare",
      "cuMemImportFromShare", "cuMemGetAllocation", NULL};
  static const char *const beside_copy[] = {"cuMemcpyHtoDAsync",
                                            "cuMemcpyDtoHAsync",
                                            "cuMemcpyDtoDAsync",
                                            "cuMemsetD8Async",
                                            "cuLaunchKernel",
                                            "cuEventRecord",
                                            NULL};
  if (begins_with_one(entry, never))
    return 1;
  if (fake.options.holds_lock < 2)
    return 0;
  return begins_with_one(entry, with_580) ||
         (locked == FAKE_LOCKED_BY_COPY && begins_with_one(entry, beside_copy));
}

CUresult fake_enter(const char *entry, unsigned needs) {
  pthread_mutex_lock(&fake.lock);
  if (!fake.is_configured)
    configure(NULL);
  while (fake_current() && fake_current()->is_locked &&
         !needs_no_lock(entry, fake_current()->is_locked))
    pthread_cond_wait(&fake.changed, &fake.lock);
  count_call(entry);
  fake_watch_call(entry);
  await_hold(entry);
  CUresult result = planted(entry);
  if (result == CUDA_SUCCESS && (needs & FAKE_STARTED) && !fake.is_started)
    result = CUDA_ERROR_NOT_INITIALIZED;
  if (result == CUDA_SUCCESS && (needs & FAKE_CURRENT) && !fake_current())
    result = CUDA_ERROR_INVALID_CONTEXT;
  if (result == CUDA_SUCCESS && (needs & FAKE_UNSAFE) && fake_capture_forbids()) {
    fake_capture_invalidate();
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (result != CUDA_SUCCESS)
    pthread_mutex_unlock(&fake.lock);
  return result;
}

CUresult fake_leave(CUresult result) {
  pthread_mutex_unlock(&fake.lock);
  return result;
}

struct rondo_fake_live rondo_fake_live(void) {
  pthread_mutex_lock(&fake.lock);
  struct rondo_fake_live live = fake.live;
  pthread_mutex_unlock(&fake.lock);
  return live;
}

uint64_t rondo_fake_live_count(void) {
  struct rondo_fake_live l = rondo_fake_live();
  return l.allocations + l.reserved + l.handles + l.registered + l.streams + l.events + l.modules +
         l.graphs + l.execs + l.user_objects + l.contexts;
}

// ------------------------------------------------------------------ devices ---

CUresult cuInit(unsigned int flags) {
  FAKE_ENTER(0);
  if (flags)
    return fake_leave(CUDA_ERROR_INVALID_VALUE);
  if (!fake.options.devices)
    return fake_leave(CUDA_ERROR_NO_DEVICE);
  fake.is_started = 1;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuGetErrorName(CUresult error, const char **name) {
  static const struct {
    CUresult result;
    const char *name;
  } known[] = {
      {CUDA_SUCCESS, "CUDA_SUCCESS"},
      {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
      {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
      {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
      {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
      {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
      {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
      {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
      {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
      {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
      {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN"},
  };
  FAKE_ENTER(0);
  *name = NULL;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].result == error)
      *name = known[i].name;
  return fake_leave(*name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuDriverGetVersion(int *version) {
  FAKE_ENTER(0);
  *version = fake.options.driver_version ? (int)fake.options.driver_version : CUDA_VERSION;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetCount(int *count) {
  FAKE_ENTER(FAKE_STARTED);
  *count = (int)fake.options.devices;
  return fake_leave(CUDA_SUCCESS);
}

static int is_device(CUdevice device) {
  return device >= 0 && (uint32_t)device < fake.options.devices;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  FAKE_ENTER(FAKE_STARTED);
  if (!is_device(ordinal))
    return fake_leave(CUDA_ERROR_INVALID_DEVICE);
  *device = ordinal;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device) {
  FAKE_ENTER(FAKE_STARTED);
  if (!is_device(device))
    return fake_leave(CUDA_ERROR_INVALID_DEVICE);
  snprintf(name, (size_t)bytes, "stand-in for a GPU");
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetPCIBusId(char *id, int bytes, CUdevice device) {
  FAKE_ENTER(FAKE_STARTED);
  if (!is_device(device))
    return fake_leave(CUDA_ERROR_INVALID_DEVICE);
  snprintf(id, (size_t)bytes, "ffff:%02x:00.0", (unsigned)device);
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
  FAKE_ENTER(FAKE_STARTED);
  if (!is_device(device))
    return fake_leave(CUDA_ERROR_INVALID_DEVICE);
  *bytes = (size_t)1 << 30;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  FAKE_ENTER(FAKE_STARTED);
  if (!is_device(device))
    return fake_leave(CUDA_ERROR_INVALID_DEVICE);
  switch ((int)attribute) {
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    *value = (int)(fake.options.multiprocessors < fake.options.resident_blocks
                       ? fake.options.multiprocessors
                       : fake.options.resident_blocks);
    break;
  case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    *value = (int)fake.options.sharing;
    break;
  case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
    *value = (int)fake.options.pageable_access;
    break;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    *value = (int)(fake.options.capability / 10);
    break;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    *value = (int)(fake.options.capability % 10);
    break;
  case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT:
    *value = 4;
    break;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    *value = 232448;
    break;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *value = 1024;
    break;
  case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
  case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
  case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
  case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
  case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    *value = 1;
    break;
  default: // also the atomics that host and device share, which PCIe does not offer
    *value = 0;
  }
  return fake_leave(CUDA_SUCCESS);
}

int fake_offers_access(uint32_t device, uint32_t peer) {
  uint32_t island = fake.options.peer_access;
  return island == 1 || (island && device / island == peer / island);
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  FAKE_ENTER(FAKE_STARTED);
  if (!is_device(device) || !is_device(peer))
    return fake_leave(CUDA_ERROR_INVALID_DEVICE);
  *can = device != peer && fake_offers_access((uint32_t)device, (uint32_t)peer);
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute which, CUdevice device,
                                 CUdevice peer) {
  FAKE_ENTER(FAKE_STARTED);
  if (!is_device(device) || !is_device(peer) || device == peer)
    return fake_leave(CUDA_ERROR_INVALID_DEVICE);
  bool has_access = fake_offers_access((uint32_t)device, (uint32_t)peer);
  *value = has_access && (which == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
                          which == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
  return fake_leave(CUDA_SUCCESS);
}

// ----------------------------------------------------------------- contexts ---

CUcontext fake_current(void) { return depth ? stack[depth - 1] : NULL; }

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device) {
  FAKE_ENTER(FAKE_STARTED);
  if (!is_device(device))
    return fake_leave(CUDA_ERROR_INVALID_DEVICE);
  *ctx = &fake.contexts[device];
  (*ctx)->retained++;
  fake.live.contexts++;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  FAKE_ENTER(FAKE_STARTED);
  if (!is_device(device))
    return fake_leave(CUDA_ERROR_INVALID_DEVICE);
  if (!fake.contexts[device].retained)
    return fake_leave(CUDA_ERROR_INVALID_CONTEXT);
  fake.contexts[device].retained--;
  fake.live.contexts--;
  return fake_leave(CUDA_SUCCESS);
}

static int is_context(const struct CUctx_st *ctx) {
  return ctx >= fake.contexts && ctx < fake.contexts + RONDO_FAKE_MAX_DEVICES && ctx->retained;
}

CUresult cuCtxPushCurrent(CUcontext ctx) {
  FAKE_ENTER(FAKE_STARTED);
  if (!is_context(ctx) || depth == STACK_DEPTH)
    return fake_leave(CUDA_ERROR_INVALID_CONTEXT);
  stack[depth++] = ctx;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuCtxPopCurrent(CUcontext *ctx) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT);
  depth--;
  if (ctx)
    *ctx = stack[depth];
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
  FAKE_ENTER(FAKE_STARTED);
  if (ctx && !is_context(ctx))
    return fake_leave(CUDA_ERROR_INVALID_CONTEXT);
  if (!ctx) {
    depth -= depth > 0;
  } else {
    depth += depth == 0;
    stack[depth - 1] = ctx;
  }
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetCurrent(CUcontext *ctx) {
  FAKE_ENTER(FAKE_STARTED);
  *ctx = fake_current();
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetDevice(CUdevice *device) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT);
  *device = (CUdevice)fake_current()->device;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT);
  CUcontext ctx = fake_current();
  if (!is_context(peer) || flags || peer == ctx)
    return fake_leave(CUDA_ERROR_INVALID_CONTEXT);
  if (!fake_offers_access(ctx->device, peer->device))
    return fake_leave(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  if (ctx->peers & 1u << peer->device)
    return fake_leave(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  ctx->peers |= 1u << peer->device;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT);
  *least = 0;
  *greatest = -5;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuCtxSynchronize(void) {
  FAKE_ENTER(FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE);
  fake_await_streams(fake_current());
  return fake_leave(CUDA_SUCCESS);
}
