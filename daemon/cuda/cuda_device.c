// CUDA devices of this process: the first rank that uses a device opens it, the last closes it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "daemon/cuda/cuda_backend.h"

#define PCI_ID_BYTES 32
#define PEER_TEST_BYTES 4096u
// A blocking launch ends after this, so that the ranks of the process take turns.
#define BLOCKING_RESIDENCY_NS 1000000u

// Guards the list of devices and their counts. Not held in calls of the driver, which may wait for
// a device.
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t devices_changed = PTHREAD_COND_INITIALIZER;
static struct rondo_cuda_device *devices[RONDO_CUDA_MAX_DEVICES];
static const void *timed_image; // guarded by devices_lock

void rondo_cuda_use_timed_kernel(const void *image) {
  pthread_mutex_lock(&devices_lock);
  timed_image = image;
  pthread_mutex_unlock(&devices_lock);
}

// Devices, by ordinal, that some other device could not map though the hardware offers access. Any
// rank may read what is sent by reference, so no buffer of a rank on another device may lie there.
static uint64_t not_mapped;

static uint64_t device_bit(const struct rondo_cuda_device *d) { return UINT64_C(1) << d->ordinal; }

CUresult rondo_cuda_enter(const struct rondo_cuda_device *device, struct rondo_cuda_scope *scope) {
  CUcontext left;
  scope->device = NULL;
  scope->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CUresult result = device->api->ctx_push_current(device->ctx);
  if (result != CUDA_SUCCESS)
    return result;
  result = device->api->thread_exchange_stream_capture_mode(&scope->mode);
  if (result == CUDA_SUCCESS)
    scope->device = device;
  else
    (void)device->api->ctx_pop_current(&left);
  return result;
}

void rondo_cuda_enter_to_free(const struct rondo_cuda_device *device,
                              struct rondo_cuda_scope *scope) {
  if (rondo_cuda_enter(device, scope) != CUDA_SUCCESS)
    (void)rondo_cuda_enter(device, scope);
}

int rondo_cuda_check(CUresult result, const char *what, char *why) {
  if (result == CUDA_SUCCESS)
    return RONDO_SUCCESS;
  snprintf(why, RONDO_WHY_BYTES, "%s: %s", what, rondo_cuda_error_name(result));
  return RONDO_ERR_SYSTEM;
}

void rondo_cuda_leave(struct rondo_cuda_scope *scope) {
  CUcontext left;
  if (!scope->device)
    return;
  (void)scope->device->api->thread_exchange_stream_capture_mode(&scope->mode);
  (void)scope->device->api->ctx_pop_current(&left);
}

// ------------------------------------------------------------------- properties --

int rondo_cuda_attribute(const struct rondo_cuda_device *d, CUdevice_attribute which) {
  int value = 0;
  return d->api->device_get_attribute(&value, which, d->handle) == CUDA_SUCCESS ? value : 0;
}

static int device_find_node(const struct rondo_cuda_device *d) {
  char id[PCI_ID_BYTES] = "";
  char path[128];
  char text[16] = "";
  if (d->api->device_get_pci_bus_id(id, sizeof id, d->handle) != CUDA_SUCCESS)
    return -1;
  for (char *c = id; *c; c++)
    if (*c >= 'A' && *c <= 'F')
      *c = (char)(*c - 'A' + 'a'); // as sysfs spells it
  snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", id);
  FILE *file = fopen(path, "re");
  if (!file)
    return -1;
  if (!fgets(text, sizeof text, file))
    text[0] = '\0';
  fclose(file);
  return text[0] >= '0' && text[0] <= '9' ? (int)strtol(text, NULL, 10) : -1;
}

static bool is_variable_one(const char *variable) {
  const char *text = getenv(variable);
  return text && strcmp(text, "1") == 0;
}

// Reads the environment variables of CUDA that matter to a resident kernel. Writes a line to `why`.
static void device_read_environment(struct rondo_cuda_device *d, char *why) {
  d->residency_ns = is_variable_one("CUDA_LAUNCH_BLOCKING") ? BLOCKING_RESIDENCY_NS : 0;
  d->shares_queue = is_variable_one("CUDA_DEVICE_MAX_CONNECTIONS");
  if (d->residency_ns)
    snprintf(why, RONDO_WHY_BYTES,
             "CUDA_LAUNCH_BLOCKING=1: launches return when the daemon leaves, so it leaves after "
             "%.1f ms each time",
             (double)d->residency_ns / 1e6);
  else if (d->shares_queue)
    snprintf(why, RONDO_WHY_BYTES,
             "CUDA_DEVICE_MAX_CONNECTIONS=1: all streams share one hardware queue, so no run can "
             "be tied to a stream");
}

// Returns the first required feature that the device lacks; null: none.
static const char *device_missing_feature(const struct rondo_cuda_device *d) {
  if (rondo_cuda_attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) < 8)
    return "compute capability 8.0 or later";
  if (!rondo_cuda_attribute(d, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) ||
      !rondo_cuda_attribute(d, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM))
    return "host memory at the same address";
  if (!rondo_cuda_attribute(d, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS))
    return "stream memory operations of 64 bits";
  return NULL;
}

// Writes a clause to `why` that says what keeps Rondo from using the device.
static bool device_has_obstacle(const struct rondo_cuda_device *d, char *why) {
  int driver = CUDA_VERSION; // if it does not say
  const char *missing = device_missing_feature(d);
  if (missing) {
    snprintf(why, RONDO_CUDA_CLAUSE_BYTES, "it does not offer %s", missing);
    return true;
  }
  (void)d->api->driver_get_version(&driver);
  return !rondo_cuda_image_fits(
      CUDA_VERSION, driver,
      10 * rondo_cuda_attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
          rondo_cuda_attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
      why);
}

// --------------------------------------------------------------------- opening --

// Loads the kernel at once, also under CUDA_MODULE_LOADING=LAZY: a kernel that is loaded at its
// first launch waits for all work on the device.
static CUresult device_load_kernel(struct rondo_cuda_device *d) {
  int most = rondo_cuda_attribute(d, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  const char *name = d->keeps_times ? RONDO_CUDA_KERNEL_TIMED : RONDO_CUDA_KERNEL;
  CUresult result = d->api->module_load_data(&d->module, d->image);
  if (result == CUDA_SUCCESS)
    result = d->api->module_get_function(&d->kernel, d->module, name);
  if (result == CUDA_SUCCESS)
    result = d->api->func_load(d->kernel);
  uint64_t wanted = rondo_cuda_fast_bytes(RONDO_CUDA_FAST_TASKS);
  d->fast_bytes = wanted < (uint64_t)most ? (uint32_t)wanted : (uint32_t)most;
  if (result == CUDA_SUCCESS)
    result = d->api->func_set_attribute(d->kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                        (int)d->fast_bytes);
  return result;
}

static int device_prepare(struct rondo_cuda_device *d, char *why) {
  int least = 0;
  CUresult result = device_load_kernel(d);
  int status = rondo_cuda_check(result, "the kernels cannot be loaded", why);
  if (status != RONDO_SUCCESS)
    return result == CUDA_ERROR_OUT_OF_MEMORY ? RONDO_ERR_NO_MEMORY : status;
  result = d->api->ctx_get_stream_priority_range(&least, &d->priority);
  status = rondo_cuda_check(result, "there is no stream", why);
  if (status == RONDO_SUCCESS)
    status = rondo_cuda_memory_init(d);
  if (status == RONDO_ERR_NO_MEMORY)
    snprintf(why, RONDO_WHY_BYTES, "there is no page-locked memory or no stream");
  return status;
}

// Frees what a device consists of, which may be half made.
static void device_release(struct rondo_cuda_device *d) {
  struct rondo_cuda_scope scope = {NULL, CU_STREAM_CAPTURE_MODE_RELAXED};
  if (d->ctx)
    rondo_cuda_enter_to_free(d, &scope);
  rondo_cuda_memory_fini(d);
  if (d->module)
    (void)d->api->module_unload(d->module);
  rondo_cuda_leave(&scope);
  if (d->ctx)
    (void)d->api->device_primary_ctx_release(d->handle);
  pthread_mutex_destroy(&d->memory.lock);
}

// Copies a pattern from memory of one device to memory of another, in the context of `by`, and
// reads it back where it has arrived. Returns RONDO_SUCCESS, RONDO_ERR_SYSTEM, or
// RONDO_ERR_INTERNAL: it has changed on the way.
static int pattern_copy(struct rondo_cuda_device *by, struct rondo_cuda_device *from, void *src,
                        struct rondo_cuda_device *to, void *dst) {
  uint8_t sent[PEER_TEST_BYTES];
  uint8_t received[PEER_TEST_BYTES];
  for (uint32_t i = 0; i < sizeof sent; i++)
    sent[i] = (uint8_t)(37 * i + 11 * (uint32_t)from->ordinal + 1);
  int status = rondo_cuda_write(&from->base, (uint64_t)(uintptr_t)src, sent, sizeof sent);
  if (status == RONDO_SUCCESS)
    status = rondo_cuda_copy(&by->base, dst, src, sizeof sent);
  if (status == RONDO_SUCCESS)
    status = rondo_cuda_read(&to->base, received, (uint64_t)(uintptr_t)dst, sizeof received);
  if (status != RONDO_SUCCESS)
    return status;
  return memcmp(sent, received, sizeof sent) == 0 ? RONDO_SUCCESS : RONDO_ERR_INTERNAL;
}

// Tries whether a device can write and read memory of another: an IOMMU, for example, may let bytes
// arrive changed without an error. Returns as pattern_copy.
static int peer_test(struct rondo_cuda_device *d, struct rondo_cuda_device *peer) {
  void *here = rondo_cuda_alloc(&d->base, RONDO_MEMORY_DEVICE, PEER_TEST_BYTES);
  void *there = rondo_cuda_alloc(&peer->base, RONDO_MEMORY_DEVICE, PEER_TEST_BYTES);
  int status = here && there ? RONDO_SUCCESS : RONDO_ERR_SYSTEM;
  if (status == RONDO_SUCCESS)
    status = pattern_copy(d, d, here, peer, there);
  if (status == RONDO_SUCCESS)
    status = pattern_copy(d, peer, there, d, here);
  rondo_cuda_free(&d->base, RONDO_MEMORY_DEVICE, here);
  rondo_cuda_free(&peer->base, RONDO_MEMORY_DEVICE, there);
  return status;
}

// Adds a sentence to the warnings of an open.
static void why_add(char *why, const char *sentence) {
  size_t used = strlen(why);
  snprintf(why + used, RONDO_WHY_BYTES - used, "%s%s", used ? "; " : "", sentence);
}

// Lets a device use the memory of another, if the hardware offers it and it works.
static void device_map_peer(struct rondo_cuda_device *d, struct rondo_cuda_device *peer,
                            char *why) {
  struct rondo_cuda_scope scope;
  int can = 0;
  CUresult result = d->api->device_can_access_peer(&can, d->handle, peer->handle);
  if (result == CUDA_SUCCESS && !can)
    return;
  if (result == CUDA_SUCCESS)
    result = rondo_cuda_enter(d, &scope);
  if (result == CUDA_SUCCESS) {
    result = d->api->ctx_enable_peer_access(peer->ctx, 0);
    rondo_cuda_leave(&scope);
  }
  // The application or an earlier open may have enabled it.
  bool is_mapped = result == CUDA_SUCCESS || result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  int status = is_mapped ? peer_test(d, peer) : RONDO_ERR_SYSTEM;
  if (status == RONDO_ERR_INTERNAL) {
    char line[160];
    snprintf(line, sizeof line,
             "bytes that device %d copies to or from device %d arrive changed, so they go through "
             "host memory (is the IOMMU on?)",
             d->ordinal, peer->ordinal);
    why_add(why, line);
  }
  pthread_mutex_lock(&devices_lock);
  if (status == RONDO_SUCCESS)
    rondo_store_relaxed_u64(&d->peers_mapped, d->peers_mapped | device_bit(peer));
  else
    rondo_store_relaxed_u64(&not_mapped, not_mapped | device_bit(peer));
  pthread_mutex_unlock(&devices_lock);
}

// Lets a new device and the others use each other's memory. The device is added to the list first:
// of two devices that are opened at once, the second to be added maps the first.
static void device_map_peers(struct rondo_cuda_device *d, char *why) {
  struct rondo_cuda_device *peers[RONDO_CUDA_MAX_DEVICES];
  uint32_t count = 0;
  pthread_mutex_lock(&devices_lock);
  d->is_created = true;
  for (uint32_t i = 0; i < RONDO_CUDA_MAX_DEVICES; i++) {
    if (!devices[i] || devices[i] == d || !devices[i]->is_created)
      continue;
    devices[i]->opened++; // so that it is not closed meanwhile
    peers[count++] = devices[i];
  }
  pthread_mutex_unlock(&devices_lock);
  for (uint32_t i = 0; i < count; i++) {
    device_map_peer(d, peers[i], why);
    device_map_peer(peers[i], d, why);
    rondo_cuda_close(&peers[i]->base);
  }
}

// Called with devices_lock.
static void device_unmap_peers(const struct rondo_cuda_device *d) {
  for (uint32_t i = 0; i < RONDO_CUDA_MAX_DEVICES; i++)
    if (devices[i])
      rondo_store_relaxed_u64(&devices[i]->peers_mapped, devices[i]->peers_mapped & ~device_bit(d));
  rondo_store_relaxed_u64(&not_mapped, not_mapped & ~device_bit(d));
}

static int device_find(struct rondo_cuda_device *d, int ordinal, char *why) {
  int count = 0;
  CUresult result = d->api->device_get_count(&count);
  if (result == CUDA_SUCCESS &&
      (ordinal < 0 || ordinal >= count || (uint32_t)ordinal >= RONDO_CUDA_MAX_DEVICES)) {
    snprintf(why, RONDO_WHY_BYTES, "device %d is none of the %d that are there", ordinal, count);
    return RONDO_ERR_INVALID;
  }
  if (result == CUDA_SUCCESS)
    result = d->api->device_get(&d->handle, ordinal);
  if (result != CUDA_SUCCESS) {
    snprintf(why, RONDO_WHY_BYTES, "device %d cannot be used: %s", ordinal,
             rondo_cuda_error_name(result));
    return RONDO_ERR_SYSTEM;
  }
  char obstacle[RONDO_CUDA_CLAUSE_BYTES];
  if (!device_has_obstacle(d, obstacle))
    return RONDO_SUCCESS;
  snprintf(why, RONDO_WHY_BYTES, "device %d cannot be used: %s", ordinal, obstacle);
  return RONDO_ERR_UNSUPPORTED;
}

static int device_open_context(struct rondo_cuda_device *d, char *why) {
  struct rondo_cuda_scope scope;
  CUresult result = d->api->device_primary_ctx_retain(&d->ctx, d->handle);
  if (result != CUDA_SUCCESS)
    d->ctx = NULL;
  else
    result = rondo_cuda_enter(d, &scope);
  int status = rondo_cuda_check(result, "the device has no context", why);
  if (status != RONDO_SUCCESS)
    return status;
  status = device_prepare(d, why);
  rondo_cuda_leave(&scope);
  return status;
}

static int device_create(struct rondo_cuda_device *d, char *why) {
  d->base.driver = &rondo_cuda_driver;
  d->api = rondo_cuda_api();
  pthread_mutex_init(&d->memory.lock, NULL);
  int status = device_find(d, d->ordinal, why);
  if (status != RONDO_SUCCESS)
    return status;
  d->node = device_find_node(d);
  d->has_domains = rondo_cuda_attribute(d, CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT) > 1;
  d->multiprocessors = (uint32_t)rondo_cuda_attribute(d, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  d->pageable = rondo_cuda_attribute(d, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) != 0;
  status = device_open_context(d, why);
  if (status == RONDO_SUCCESS)
    device_read_environment(d, why);
  return status;
}

// Loads the CUDA driver, if there are kernels to run.
static int driver_load(char *why) {
  if (rondo_cuda_kernels())
    return rondo_cuda_api_load(why);
  snprintf(why, RONDO_WHY_BYTES, "this library was built without its kernels: there was no nvcc");
  return RONDO_ERR_UNSUPPORTED;
}

// Returns the open device `ordinal` with one more open, or adds `fresh` to the list. Waits while
// another thread opens or closes the device. Called with devices_lock.
static struct rondo_cuda_device *device_claim(int ordinal, struct rondo_cuda_device *fresh) {
  while (devices[ordinal] && devices[ordinal]->is_changing)
    pthread_cond_wait(&devices_changed, &devices_lock);
  struct rondo_cuda_device *d = devices[ordinal] ? devices[ordinal] : fresh;
  d->opened++;
  if (d != fresh)
    return d;
  d->ordinal = ordinal;
  d->keeps_times = timed_image != NULL;
  d->image = timed_image ? timed_image : rondo_cuda_kernels();
  d->is_changing = true;
  devices[ordinal] = d;
  return d;
}

// Ends what device_claim began, or a close. `is_open`: the device stays in the list.
static void device_settle(struct rondo_cuda_device *d, bool is_open) {
  pthread_mutex_lock(&devices_lock);
  d->is_changing = false;
  if (!is_open)
    devices[d->ordinal] = NULL;
  pthread_cond_broadcast(&devices_changed);
  pthread_mutex_unlock(&devices_lock);
}

int rondo_cuda_open(const struct rondo_config *cfg, struct rondo_device **device, char *why) {
  int status = driver_load(why);
  if (status != RONDO_SUCCESS)
    return status;
  if ((uint32_t)cfg->device >= RONDO_CUDA_MAX_DEVICES) {
    struct rondo_cuda_device none = {.api = rondo_cuda_api()};
    return device_find(&none, cfg->device, why);
  }
  struct rondo_cuda_device *fresh = rondo_memory_alloc(sizeof *fresh);
  if (!fresh) {
    snprintf(why, RONDO_WHY_BYTES, "no memory");
    return RONDO_ERR_NO_MEMORY;
  }
  pthread_mutex_lock(&devices_lock);
  struct rondo_cuda_device *d = device_claim(cfg->device, fresh);
  pthread_mutex_unlock(&devices_lock);
  if (d == fresh) {
    status = device_create(d, why);
    if (status == RONDO_SUCCESS)
      device_map_peers(d, why);
    else
      device_release(d);
    device_settle(d, status == RONDO_SUCCESS);
  }
  if (d != fresh || status != RONDO_SUCCESS)
    rondo_memory_free(fresh);
  if (status == RONDO_SUCCESS)
    *device = &d->base;
  return status;
}

bool rondo_cuda_try_add_blocks(struct rondo_cuda_device *d, uint32_t blocks, uint32_t budget) {
  pthread_mutex_lock(&devices_lock);
  bool fits = !budget || (d->blocks <= budget && blocks <= budget - d->blocks);
  if (fits)
    rondo_store_relaxed_u32(&d->blocks, d->blocks + blocks);
  pthread_mutex_unlock(&devices_lock);
  return fits;
}

void rondo_cuda_remove_blocks(struct rondo_cuda_device *d, uint32_t blocks) {
  pthread_mutex_lock(&devices_lock);
  rondo_store_relaxed_u32(&d->blocks, d->blocks - blocks);
  pthread_mutex_unlock(&devices_lock);
}

void rondo_cuda_retain(struct rondo_device *device) {
  pthread_mutex_lock(&devices_lock);
  rondo_cuda_device_of(device)->opened++;
  pthread_mutex_unlock(&devices_lock);
}

void rondo_cuda_close(struct rondo_device *device) {
  struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  pthread_mutex_lock(&devices_lock);
  bool is_last = --d->opened == 0;
  if (is_last) {
    d->is_created = false;
    d->is_changing = true;
    device_unmap_peers(d);
  }
  pthread_mutex_unlock(&devices_lock);
  if (!is_last)
    return;
  device_release(d);
  device_settle(d, false);
  rondo_memory_free(d);
}

// ----------------------------------------------------------------------- reach ---

bool rondo_cuda_can_access(const struct rondo_cuda_device *d, int ordinal) {
  return ordinal >= 0 && (uint32_t)ordinal < RONDO_CUDA_MAX_DEVICES &&
         (rondo_load_relaxed_u64(&d->peers_mapped) & ~rondo_load_relaxed_u64(&not_mapped)) >>
                 ordinal &
             1;
}

// Returns 1 or 0, or -1 if the CUDA driver does not know.
static int device_query_access(const struct rondo_cuda_device *d, int ordinal) {
  CUdevice peer = 0;
  int can = 0;
  if (d->api->device_get(&peer, ordinal) != CUDA_SUCCESS ||
      d->api->device_can_access_peer(&can, d->handle, peer) != CUDA_SUCCESS)
    return -1;
  return can != 0;
}

// True if `d` can use the memory of `owner`, and of each device that `owner` can use: a buffer of a
// rank on `owner` may lie on any of them.
static bool has_buffer_access(const struct rondo_cuda_device *d,
                              const struct rondo_cuda_device *owner) {
  int count = 0;
  if (!(rondo_load_relaxed_u64(&d->peers_mapped) & device_bit(owner)) ||
      d->api->device_get_count(&count) != CUDA_SUCCESS)
    return false;
  for (int ordinal = 0; ordinal < count; ordinal++)
    if (ordinal != d->ordinal && ordinal != owner->ordinal &&
        device_query_access(owner, ordinal) != 0 && device_query_access(d, ordinal) != 1)
      return false;
  return true;
}

int rondo_cuda_node(const struct rondo_device *device) {
  return ((const struct rondo_cuda_device *)device)->node;
}

uint64_t rondo_cuda_pci(const struct rondo_device *device) {
  const struct rondo_cuda_device *d = (const struct rondo_cuda_device *)device;
  char id[PCI_ID_BYTES] = "";
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  unsigned function = 0;
  if (d->api->device_get_pci_bus_id(id, sizeof id, d->handle) != CUDA_SUCCESS ||
      sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) // NOLINT(cert-err34-c)
    return 0;
  return (uint64_t)domain << 16 | bus << 8 | slot << 3 | function;
}

uint32_t rondo_cuda_links(const struct rondo_device *device) {
  const struct rondo_cuda_device *d = (const struct rondo_cuda_device *)device;
  uint32_t links = 0;
  int count = 0;
  if (d->api->device_get_count(&count) != CUDA_SUCCESS)
    return 0;
  for (int ordinal = 0; ordinal < count; ordinal++) {
    CUdevice peer = 0;
    int has_atomics = 0;
    if (ordinal != d->ordinal && d->api->device_get(&peer, ordinal) == CUDA_SUCCESS &&
        d->api->device_get_p2p_attribute(&has_atomics,
                                         CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, d->handle,
                                         peer) == CUDA_SUCCESS)
      links += has_atomics != 0;
  }
  return links;
}

unsigned rondo_cuda_reach(struct rondo_device *from, struct rondo_device *to, char *why) {
  const struct rondo_cuda_device *f = rondo_cuda_device_of(from);
  const struct rondo_cuda_device *t = rondo_cuda_device_of(to);
  unsigned reach = RONDO_REACH_ALL;
  if (f != t) {
    reach = rondo_load_relaxed_u64(&f->peers_mapped) & device_bit(t) ? RONDO_REACH_MEMORY : 0;
    reach |= has_buffer_access(t, f) ? RONDO_REACH_BUFFERS : 0;
  }
  const char *buffers = reach & RONDO_REACH_BUFFERS ? "in place" : "by way of it";
  if (why && f == t)
    snprintf(why, RONDO_WHY_BYTES, "in memory of device %d, on which both ranks are", t->ordinal);
  else if (why && reach & RONDO_REACH_MEMORY)
    snprintf(why, RONDO_WHY_BYTES,
             "in memory of device %d, to which device %d has peer access; buffers are read %s",
             t->ordinal, f->ordinal, buffers);
  else if (why)
    snprintf(why, RONDO_WHY_BYTES,
             "in page-locked host memory: device %d has no peer access to device %d%s", f->ordinal,
             t->ordinal, device_query_access(f, t->ordinal) == 1 ? " that works" : "");
  return reach;
}

// ------------------------------------------------------------------- describing ---

// `obstacle` says why the device cannot be used; empty: it can.
static void device_describe(const struct rondo_cuda_device *d, const char *obstacle,
                            const struct rondo_line_writer *to) {
  char node[32] = "";
  char line[RONDO_WHY_BYTES];
  if (d->node >= 0)
    snprintf(node, sizeof node, ", NUMA node %d", d->node);
  snprintf(line, sizeof line, "device %d: compute capability %d.%d, %d multiprocessors%s; %s%s",
           d->ordinal, rondo_cuda_attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
           rondo_cuda_attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
           rondo_cuda_attribute(d, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), node,
           obstacle[0] ? "cannot be used: " : "can be used", obstacle);
  to->line(to->arg, line);
}

// Where connectors from this device to other devices would lie.
static void device_describe_peers(const struct rondo_cuda_device *d, int count,
                                  const struct rondo_line_writer *to) {
  for (int peer = 0; peer < count; peer++) {
    char line[RONDO_WHY_BYTES];
    if (peer == d->ordinal)
      continue;
    if (device_query_access(d, peer) == 1)
      snprintf(line, sizeof line,
               "device %d to device %d: in memory of device %d: there is peer access", d->ordinal,
               peer, peer);
    else
      snprintf(line, sizeof line,
               "device %d to device %d: in page-locked host memory: there is no peer access",
               d->ordinal, peer);
    to->line(to->arg, line);
  }
}

// Where connectors from other processes of this machine to this device would lie.
static void device_describe_sharing(const struct rondo_cuda_device *d,
                                    const struct rondo_line_writer *to) {
  char line[RONDO_WHY_BYTES];
  const char *obstacle = rondo_cuda_sharing_obstacle(d);
  if (obstacle)
    snprintf(line, sizeof line,
             "device %d to other processes: in page-locked host memory: it does not offer %s",
             d->ordinal, obstacle);
  else
    snprintf(line, sizeof line,
             "device %d to other processes: its memory can be mapped there, where they can use it",
             d->ordinal);
  to->line(to->arg, line);
}

static void environment_describe(const struct rondo_line_writer *to) {
  struct rondo_cuda_device any = {.ordinal = 0};
  char line[RONDO_WHY_BYTES] = "";
  device_read_environment(&any, line);
  if (line[0])
    to->line(to->arg, line);
}

int rondo_cuda_describe(const struct rondo_line_writer *to, char *why) {
  int count = 0;
  int usable = 0;
  if (driver_load(why) != RONDO_SUCCESS)
    return RONDO_ERR_UNSUPPORTED;
  const struct rondo_cuda_api *api = rondo_cuda_api();
  (void)api->device_get_count(&count);
  for (int ordinal = 0; ordinal < count; ordinal++) {
    struct rondo_cuda_device d = {.api = api, .ordinal = ordinal};
    if (api->device_get(&d.handle, ordinal) != CUDA_SUCCESS)
      continue;
    d.node = device_find_node(&d);
    char obstacle[RONDO_CUDA_CLAUSE_BYTES] = "";
    bool is_usable = !device_has_obstacle(&d, obstacle);
    usable += is_usable;
    device_describe(&d, obstacle, to);
    if (is_usable)
      device_describe_sharing(&d, to);
    if (is_usable)
      device_describe_peers(&d, count, to);
  }
  environment_describe(to);
  snprintf(why, RONDO_WHY_BYTES, "%s", usable ? "" : "no CUDA device can be used");
  return usable ? RONDO_SUCCESS : RONDO_ERR_UNSUPPORTED;
}
