// Device memory, and page-locked host memory for it.
//
// Allocation and free by the CUDA driver may wait for all that runs on the device. So small pieces
// are cut from chunks that are kept until the device is closed; only large ones are allocated one
// by one.
#include <sched.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "base/numa_node.h"
#include "daemon/cuda/cuda_backend.h"

#define SMALLEST_SHIFT 7u // of the smallest piece: RONDO_LINE_BYTES
#define CHUNK_BYTES (UINT64_C(2) << 20)
#define LARGE UINT32_MAX // size class of a piece that is a chunk of its own

#define COPY_BOUND_NS UINT64_C(60000000000)
#define YIELD_POLLS 200u // before a thread that waits for a stream sleeps between polls

struct rondo_cuda_piece {
  uintptr_t memory;
  uint64_t bytes; // that were asked for
  uint32_t size_class;
  int kind;
  struct rondo_cuda_piece *next;
};

struct rondo_cuda_chunk {
  uintptr_t memory;
  uint64_t bytes;
  uint64_t used;
  int kind;
  struct rondo_cuda_chunk *next;
};

// --------------------------------------------------------------------- chunks --

// Page-locked memory on the device's NUMA node, at the same address on both sides.
static uintptr_t pinned_map(const struct rondo_cuda_device *d, uint64_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return 0;
  int preferred = rondo_node_prefer(d->node);
  memset(memory, 0, bytes); // this thread allocates the pages, not the driver's
  rondo_node_rest(preferred);
  if (d->api->mem_host_register(memory, bytes,
                                CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP) ==
      CUDA_SUCCESS)
    return (uintptr_t)memory;
  (void)munmap(memory, bytes);
  return 0;
}

static uintptr_t chunk_map(const struct rondo_cuda_device *d, int kind, uint64_t bytes) {
  CUdeviceptr memory = 0;
  if (kind == RONDO_MEMORY_SHARED)
    return pinned_map(d, bytes);
  return d->api->mem_alloc(&memory, bytes) == CUDA_SUCCESS ? (uintptr_t)memory : 0;
}

static void chunk_unmap(const struct rondo_cuda_device *d, int kind, uintptr_t memory,
                        uint64_t bytes) {
  if (kind == RONDO_MEMORY_DEVICE) {
    (void)d->api->mem_free(memory);
    return;
  }
  (void)d->api->mem_host_unregister((void *)memory);
  (void)munmap((void *)memory, bytes);
}

// Finds or makes a chunk with `bytes` free. Null: no memory.
static struct rondo_cuda_chunk *chunk_find(struct rondo_cuda_device *d, int kind, uint64_t bytes) {
  struct rondo_cuda_chunk *c = d->memory.chunks;
  while (c && (c->kind != kind || c->bytes - c->used < bytes))
    c = c->next;
  if (c)
    return c;
  c = malloc(sizeof *c);
  if (!c)
    return NULL;
  c->memory = chunk_map(d, kind, CHUNK_BYTES);
  if (!c->memory) {
    free(c);
    return NULL;
  }
  c->bytes = CHUNK_BYTES;
  c->used = 0;
  c->kind = kind;
  c->next = d->memory.chunks;
  d->memory.chunks = c;
  return c;
}

// --------------------------------------------------------------------- pieces --

static int piece_compare(const void *a, const void *b) {
  uintptr_t x = ((const struct rondo_cuda_piece *)a)->memory;
  uintptr_t y = ((const struct rondo_cuda_piece *)b)->memory;
  return x < y ? -1 : x > y;
}

static uint32_t size_class_of(uint64_t bytes) {
  for (uint32_t k = 0; k + SMALLEST_SHIFT < RONDO_CUDA_SIZE_CLASSES; k++)
    if (bytes <= UINT64_C(1) << (k + SMALLEST_SHIFT))
      return k;
  return LARGE;
}

// Memory for a new piece. Returns 0 if there is none.
static uintptr_t piece_memory(struct rondo_cuda_device *d, int kind, uint32_t k, uint64_t bytes) {
  if (k == LARGE)
    return chunk_map(d, kind, bytes);
  uint64_t size = UINT64_C(1) << (k + SMALLEST_SHIFT);
  struct rondo_cuda_chunk *c = chunk_find(d, kind, size);
  if (!c)
    return 0;
  c->used += size;
  return c->memory + c->used - size;
}

static struct rondo_cuda_piece *piece_create(struct rondo_cuda_device *d, int kind, uint32_t k,
                                             uint64_t bytes) {
  struct rondo_cuda_piece *p = malloc(sizeof *p);
  if (!p)
    return NULL;
  p->memory = piece_memory(d, kind, k, bytes);
  p->kind = kind;
  p->size_class = k;
  if (p->memory)
    return p;
  free(p);
  return NULL;
}

// Puts a piece on its idle list, or frees a large one. Called with the memory lock.
static void piece_release(struct rondo_cuda_device *d, struct rondo_cuda_piece *p) {
  if (p->size_class == LARGE) {
    chunk_unmap(d, p->kind, p->memory, p->bytes);
    free(p);
    return;
  }
  p->next = d->memory.idle[p->kind][p->size_class];
  d->memory.idle[p->kind][p->size_class] = p;
}

// Takes an idle piece or makes one, and adds it to those in use.
static struct rondo_cuda_piece *piece_take(struct rondo_cuda_device *d, int kind, uint64_t bytes) {
  uint32_t k = size_class_of(bytes);
  pthread_mutex_lock(&d->memory.lock);
  struct rondo_cuda_piece *p = k == LARGE ? NULL : d->memory.idle[kind][k];
  if (p)
    d->memory.idle[kind][k] = p->next;
  else
    p = piece_create(d, kind, k, bytes);
  if (p) {
    p->bytes = bytes;
    if (!tsearch(p, &d->memory.in_use, piece_compare)) {
      piece_release(d, p);
      p = NULL;
    }
  }
  pthread_mutex_unlock(&d->memory.lock);
  return p;
}

// --------------------------------------------------------------------- copying --

CUresult rondo_cuda_await(const struct rondo_cuda_device *d, CUstream stream,
                          uint64_t deadline_ns) {
  const struct timespec pause = {0, 20000};
  CUresult result = d->api->stream_query(stream);
  for (uint32_t polls = 0; result == CUDA_ERROR_NOT_READY; polls++) {
    if (rondo_now_ns() >= deadline_ns)
      break;
    if (polls < YIELD_POLLS)
      sched_yield();
    else
      nanosleep(&pause, NULL);
    result = d->api->stream_query(stream);
  }
  return result;
}

// Waits for a copy that was submitted to the copy stream with `result`. Called with the copy lock.
static int copy_await(const struct rondo_cuda_device *d, CUresult result) {
  if (result == CUDA_SUCCESS)
    result = rondo_cuda_await(d, d->copies, rondo_now_ns() + COPY_BOUND_NS);
  return result == CUDA_SUCCESS ? RONDO_SUCCESS : RONDO_ERR_SYSTEM;
}

int rondo_cuda_zero(struct rondo_cuda_device *d, uint64_t memory, uint64_t bytes) {
  pthread_mutex_lock(&d->copy_lock);
  int status = copy_await(d, d->api->memset_d8_async(memory, 0, bytes, d->copies));
  pthread_mutex_unlock(&d->copy_lock);
  return status;
}

void *rondo_cuda_alloc(struct rondo_device *device, int kind, uint64_t bytes) {
  struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  struct rondo_cuda_scope scope;
  if (rondo_cuda_enter(d, &scope) != CUDA_SUCCESS)
    return NULL;
  void *memory = NULL;
  struct rondo_cuda_piece *p = piece_take(d, kind, bytes ? bytes : 1);
  if (p)
    memory = (void *)p->memory;
  if (p && kind == RONDO_MEMORY_SHARED) {
    memset(memory, 0, bytes);
  } else if (p && rondo_cuda_zero(d, p->memory, p->bytes) != RONDO_SUCCESS) {
    rondo_cuda_free(device, kind, memory);
    memory = NULL;
  }
  rondo_cuda_leave(&scope);
  return memory;
}

void rondo_cuda_free(struct rondo_device *device, int kind, void *memory) {
  struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  struct rondo_cuda_piece key = {.memory = (uintptr_t)memory};
  struct rondo_cuda_scope scope;
  (void)kind;
  if (!memory)
    return;
  rondo_cuda_enter_to_free(d, &scope);
  pthread_mutex_lock(&d->memory.lock);
  struct rondo_cuda_piece **found = tfind(&key, &d->memory.in_use, piece_compare);
  if (found) {
    struct rondo_cuda_piece *p = *found;
    tdelete(p, &d->memory.in_use, piece_compare);
    piece_release(d, p);
  }
  pthread_mutex_unlock(&d->memory.lock);
  rondo_cuda_leave(&scope);
}

// Copies up to RONDO_CUDA_STAGING_BYTES through the staging memory. Called in the device's context,
// with the copy lock.
static int stage_write(const struct rondo_cuda_device *d, uint64_t to, const void *from,
                       uint64_t bytes) {
  memcpy(d->staging, from, bytes);
  return copy_await(d, d->api->memcpy_htod_async(to, d->staging, bytes, d->copies));
}

static int stage_read(const struct rondo_cuda_device *d, void *to, uint64_t from, uint64_t bytes) {
  int status = copy_await(d, d->api->memcpy_dtoh_async(d->staging, from, bytes, d->copies));
  if (status == RONDO_SUCCESS)
    memcpy(to, d->staging, bytes);
  return status;
}

// Copies between host and device through the staging memory.
static int device_transfer(struct rondo_cuda_device *d, char *host, uint64_t device, uint64_t bytes,
                           bool is_write) {
  struct rondo_cuda_scope scope;
  int status = RONDO_SUCCESS;
  if (rondo_cuda_enter(d, &scope) != CUDA_SUCCESS)
    return RONDO_ERR_SYSTEM;
  pthread_mutex_lock(&d->copy_lock);
  while (bytes && status == RONDO_SUCCESS) {
    uint64_t part = bytes < RONDO_CUDA_STAGING_BYTES ? bytes : RONDO_CUDA_STAGING_BYTES;
    status = is_write ? stage_write(d, device, host, part) : stage_read(d, host, device, part);
    host += part;
    device += part;
    bytes -= part;
  }
  pthread_mutex_unlock(&d->copy_lock);
  rondo_cuda_leave(&scope);
  return status;
}

int rondo_cuda_write(struct rondo_device *device, uint64_t to, const void *from, uint64_t bytes) {
  return device_transfer(rondo_cuda_device_of(device), (char *)(uintptr_t)from, to, bytes, true);
}

int rondo_cuda_read(struct rondo_device *device, void *to, uint64_t from, uint64_t bytes) {
  return device_transfer(rondo_cuda_device_of(device), to, from, bytes, false);
}

// What the CUDA driver knows of an address. `type` 0: nothing.
struct origin {
  unsigned type; // CUmemorytype
  int ordinal;   // of the device
};

static struct origin origin_find(const struct rondo_cuda_device *d, uint64_t address) {
  struct origin o = {0, -1};
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void *data[] = {&o.type, &o.ordinal};
  if (d->api->pointer_get_attributes(2, attributes, data, address) != CUDA_SUCCESS)
    o.type = 0;
  return o;
}

// True for device memory, which the CPU cannot use in place.
static bool is_device_memory(const struct rondo_cuda_device *d, const void *memory) {
  return origin_find(d, (uint64_t)(uintptr_t)memory).type == CU_MEMORYTYPE_DEVICE;
}

// Memory of another device is reachable only if a rank of this process opened that device.
static bool can_reach(const struct rondo_cuda_device *d, const struct origin *o) {
  return o->ordinal == d->ordinal || o->type == CU_MEMORYTYPE_HOST ||
         rondo_cuda_can_access(d, o->ordinal);
}

// Checks the first and the last byte and not the allocation: a buffer may span several.
int rondo_cuda_check_buffer(struct rondo_device *device, const void *memory, uint64_t bytes,
                            char *why) {
  const struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  uint64_t first = (uint64_t)(uintptr_t)memory;
  const uint64_t ends[] = {first, first + bytes - 1};
  for (int i = 0; i < 2 && bytes; i++) {
    struct origin o = origin_find(d, ends[i]);
    if (!o.type && d->pageable)
      continue;
    if (!o.type) {
      snprintf(why, RONDO_WHY_BYTES, "%#llx is neither memory of a device nor page-locked",
               (unsigned long long)ends[i]);
      return RONDO_ERR_INVALID;
    }
    if (!can_reach(d, &o)) {
      snprintf(why, RONDO_WHY_BYTES, "%#llx is memory of device %d, which device %d cannot reach",
               (unsigned long long)ends[i], o.ordinal, d->ordinal);
      return RONDO_ERR_INVALID;
    }
  }
  return RONDO_SUCCESS;
}

static int device_copy(struct rondo_cuda_device *d, uint64_t dst, uint64_t src, uint64_t bytes) {
  struct rondo_cuda_scope scope;
  if (rondo_cuda_enter(d, &scope) != CUDA_SUCCESS)
    return RONDO_ERR_SYSTEM;
  pthread_mutex_lock(&d->copy_lock);
  int status = copy_await(d, d->api->memcpy_dtod_async(dst, src, bytes, d->copies));
  pthread_mutex_unlock(&d->copy_lock);
  rondo_cuda_leave(&scope);
  return status;
}

int rondo_cuda_copy(struct rondo_device *device, void *dst, const void *src, uint64_t bytes) {
  struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  uint64_t to = (uint64_t)(uintptr_t)dst;
  uint64_t from = (uint64_t)(uintptr_t)src;
  bool is_from_device = is_device_memory(d, src);
  if (is_device_memory(d, dst))
    return is_from_device ? device_copy(d, to, from, bytes)
                          : rondo_cuda_write(device, to, src, bytes);
  if (is_from_device)
    return rondo_cuda_read(device, dst, from, bytes);
  memcpy(dst, src, bytes);
  return RONDO_SUCCESS;
}

// ------------------------------------------------------------------ closing ------

static void pieces_free(struct rondo_cuda_device *d) {
  for (int kind = 0; kind < 2; kind++) {
    for (uint32_t k = 0; k < RONDO_CUDA_SIZE_CLASSES; k++) {
      while (d->memory.idle[kind][k]) {
        struct rondo_cuda_piece *p = d->memory.idle[kind][k];
        d->memory.idle[kind][k] = p->next;
        free(p);
      }
    }
  }
}

void rondo_cuda_memory_fini(struct rondo_cuda_device *d) {
  if (d->staging)
    rondo_cuda_free(&d->base, RONDO_MEMORY_SHARED, d->staging);
  pieces_free(d);
  while (d->memory.chunks) {
    struct rondo_cuda_chunk *c = d->memory.chunks;
    d->memory.chunks = c->next;
    chunk_unmap(d, c->kind, c->memory, c->bytes);
    free(c);
  }
}
