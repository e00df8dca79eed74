// Device memory, and page-locked host memory for it.
//
// Allocation and free by the CUDA driver may wait for all that runs on the device. So small pieces
// are cut from chunks that are kept until the device is closed; only large ones are allocated one
// by one. No lock is held in a call of the driver: the device may be waiting for a thread that
// needs the lock.
#include <sched.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/numa_node.h"
#include "daemon/cuda/cuda_backend.h"

#define SMALLEST_SHIFT 7u // of the smallest piece: RONDO_LINE_BYTES
// A chunk of device memory has room for 16 links of a large collective between two devices.
#define DEVICE_CHUNK_BYTES (UINT64_C(32) << 20)
#define SHARED_CHUNK_BYTES (UINT64_C(2) << 20) // or of device memory, if the driver has no 32 MiB
#define LARGE UINT32_MAX                       // size class of a piece that is a chunk of its own

#define COPY_BOUND_NS UINT64_C(60000000000)
// Up to this many bytes are stored by memory operations of a stream, and not copied: copies wait
// for a thread that is in some calls of the driver (docs/transports.md).
#define STORED_BYTES 8192u
#define STORES_AT_ONCE 64u
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
  if (kind != RONDO_MEMORY_DEVICE)
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

static uint64_t chunk_bytes(int kind) {
  return kind == RONDO_MEMORY_DEVICE ? DEVICE_CHUNK_BYTES : SHARED_CHUNK_BYTES;
}

// Makes a chunk whose first `used` bytes are taken. Returns their address; 0: no memory.
static uintptr_t chunk_create(struct rondo_cuda_device *d, int kind, uint64_t used) {
  struct rondo_cuda_chunk *c = malloc(sizeof *c);
  if (!c)
    return 0;
  uint64_t bytes = chunk_bytes(kind);
  uintptr_t memory = chunk_map(d, kind, bytes);
  if (!memory && bytes > SHARED_CHUNK_BYTES) {
    bytes = used > SHARED_CHUNK_BYTES ? used : SHARED_CHUNK_BYTES;
    memory = chunk_map(d, kind, bytes);
  }
  if (!memory) {
    free(c);
    return 0;
  }
  *c = (struct rondo_cuda_chunk){memory, bytes, used, kind, NULL};
  pthread_mutex_lock(&d->memory.lock);
  c->next = d->memory.chunks;
  d->memory.chunks = c;
  pthread_mutex_unlock(&d->memory.lock);
  return memory;
}

// Cuts `bytes` out of a chunk. Returns 0 if none has room.
static uintptr_t chunk_cut(struct rondo_cuda_device *d, int kind, uint64_t bytes) {
  uintptr_t memory = 0;
  pthread_mutex_lock(&d->memory.lock);
  struct rondo_cuda_chunk *c = d->memory.chunks;
  while (c && (c->kind != kind || c->bytes - c->used < bytes))
    c = c->next;
  if (c) {
    memory = c->memory + c->used;
    c->used += bytes;
  }
  pthread_mutex_unlock(&d->memory.lock);
  return memory;
}

// --------------------------------------------------------------------- pieces --

static int piece_compare(const void *a, const void *b) {
  uintptr_t x = ((const struct rondo_cuda_piece *)a)->memory;
  uintptr_t y = ((const struct rondo_cuda_piece *)b)->memory;
  return x < y ? -1 : x > y;
}

// A piece takes at most half a chunk.
static uint32_t size_class_of(int kind, uint64_t bytes) {
  for (uint32_t k = 0;
       k + SMALLEST_SHIFT < RONDO_CUDA_SIZE_CLASSES && bytes <= chunk_bytes(kind) / 2; k++)
    if (bytes <= UINT64_C(1) << (k + SMALLEST_SHIFT))
      return k;
  return LARGE;
}

// Memory for a new piece. Returns 0 if there is none.
static uintptr_t piece_memory(struct rondo_cuda_device *d, int kind, uint32_t k, uint64_t bytes) {
  if (k == LARGE)
    return chunk_map(d, kind, bytes);
  uint64_t size = UINT64_C(1) << (k + SMALLEST_SHIFT);
  uintptr_t memory = chunk_cut(d, kind, size);
  return memory ? memory : chunk_create(d, kind, size);
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

// An idle piece, or null.
static struct rondo_cuda_piece *piece_reuse(struct rondo_cuda_device *d, int kind, uint32_t k) {
  if (k == LARGE)
    return NULL;
  pthread_mutex_lock(&d->memory.lock);
  struct rondo_cuda_piece *p = d->memory.idle[kind][k];
  if (p)
    d->memory.idle[kind][k] = p->next;
  pthread_mutex_unlock(&d->memory.lock);
  return p;
}

// Puts a piece on its idle list, or frees a large one.
static void piece_release(struct rondo_cuda_device *d, struct rondo_cuda_piece *p) {
  if (p->size_class == LARGE) {
    chunk_unmap(d, p->kind, p->memory, p->bytes);
    free(p);
    return;
  }
  pthread_mutex_lock(&d->memory.lock);
  p->next = d->memory.idle[p->kind][p->size_class];
  d->memory.idle[p->kind][p->size_class] = p;
  pthread_mutex_unlock(&d->memory.lock);
}

// Takes an idle piece or makes one, and adds it to those in use.
static struct rondo_cuda_piece *piece_take(struct rondo_cuda_device *d, int kind, uint64_t bytes) {
  uint32_t k = size_class_of(kind, bytes);
  struct rondo_cuda_piece *p = piece_reuse(d, kind, k);
  if (!p)
    p = piece_create(d, kind, k, bytes);
  if (!p)
    return NULL;
  p->bytes = bytes;
  pthread_mutex_lock(&d->memory.lock);
  bool is_added = tsearch(p, &d->memory.in_use, piece_compare) != NULL;
  pthread_mutex_unlock(&d->memory.lock);
  if (is_added)
    return p;
  piece_release(d, p);
  return NULL;
}

// Takes the piece at an address out of those in use. Null: there is none.
static struct rondo_cuda_piece *piece_remove(struct rondo_cuda_device *d, const void *memory) {
  struct rondo_cuda_piece key = {.memory = (uintptr_t)memory};
  struct rondo_cuda_piece *p = NULL;
  pthread_mutex_lock(&d->memory.lock);
  struct rondo_cuda_piece **found = tfind(&key, &d->memory.in_use, piece_compare);
  if (found) {
    p = *found;
    tdelete(p, &d->memory.in_use, piece_compare);
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

// A stream for copies, and page-locked memory through which they go. One thread at a time uses a
// copier; there are as many as threads have copied at once.
struct rondo_cuda_copier {
  CUstream stream;
  void *staging;
  struct rondo_cuda_copier *next;
};

static void copier_destroy(struct rondo_cuda_device *d, struct rondo_cuda_copier *copier) {
  if (copier->stream)
    (void)d->api->stream_destroy(copier->stream);
  rondo_cuda_free(&d->base, RONDO_MEMORY_SHARED, copier->staging);
  free(copier);
}

// Null: there is no stream or no memory.
static struct rondo_cuda_copier *copier_create(struct rondo_cuda_device *d) {
  struct rondo_cuda_copier *copier = calloc(1, sizeof *copier);
  if (!copier)
    return NULL;
  copier->staging = rondo_cuda_alloc(&d->base, RONDO_MEMORY_SHARED, RONDO_CUDA_STAGING_BYTES);
  if (copier->staging && d->api->stream_create_with_priority(
                             &copier->stream, CU_STREAM_NON_BLOCKING, d->priority) == CUDA_SUCCESS)
    return copier;
  copier->stream = NULL;
  copier_destroy(d, copier);
  return NULL;
}

static void copier_give(struct rondo_cuda_device *d, struct rondo_cuda_copier *copier) {
  pthread_mutex_lock(&d->memory.lock);
  copier->next = d->memory.copiers;
  d->memory.copiers = copier;
  pthread_mutex_unlock(&d->memory.lock);
}

// An idle copier, or a new one. Null: there is none.
static struct rondo_cuda_copier *copier_take(struct rondo_cuda_device *d) {
  pthread_mutex_lock(&d->memory.lock);
  struct rondo_cuda_copier *copier = d->memory.copiers;
  if (copier)
    d->memory.copiers = copier->next;
  pthread_mutex_unlock(&d->memory.lock);
  return copier ? copier : copier_create(d);
}

// Waits for a copy that was submitted to the copier with `result`.
static int copier_await(const struct rondo_cuda_device *d, const struct rondo_cuda_copier *copier,
                        CUresult result) {
  if (result == CUDA_SUCCESS)
    result = rondo_cuda_await(d, copier->stream, rondo_now_ns() + COPY_BOUND_NS);
  return result == CUDA_SUCCESS ? RONDO_SUCCESS : RONDO_ERR_SYSTEM;
}

int rondo_cuda_memory_init(struct rondo_cuda_device *d) {
  struct rondo_cuda_copier *copier = copier_create(d);
  if (!copier)
    return RONDO_ERR_NO_MEMORY;
  copier_give(d, copier);
  return RONDO_SUCCESS;
}

static bool is_stored(uint64_t to, uint64_t bytes) {
  return bytes <= STORED_BYTES && (to | bytes) % sizeof(uint64_t) == 0;
}

// Stores words in device memory.
static int copier_store(const struct rondo_cuda_device *d, const struct rondo_cuda_copier *copier,
                        uint64_t to, const void *from, uint64_t bytes) {
  CUstreamBatchMemOpParams stores[STORES_AT_ONCE];
  CUresult result = CUDA_SUCCESS;
  uint64_t at = 0;
  memset(stores, 0, sizeof stores);
  while (at < bytes && result == CUDA_SUCCESS) {
    unsigned count = 0;
    for (; count < STORES_AT_ONCE && at < bytes; count++, at += sizeof(uint64_t)) {
      uint64_t word;
      memcpy(&word, (const char *)from + at, sizeof word);
      stores[count].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
      stores[count].writeValue.address = to + at;
      stores[count].writeValue.value64 = word;
      stores[count].writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    }
    result = d->api->stream_batch_mem_op(copier->stream, count, stores, 0);
  }
  return copier_await(d, copier, result);
}

int rondo_cuda_zero(struct rondo_cuda_device *d, uint64_t memory, uint64_t bytes) {
  struct rondo_cuda_copier *copier = copier_take(d);
  if (!copier)
    return RONDO_ERR_SYSTEM;
  int status = copier_await(d, copier, d->api->memset_d8_async(memory, 0, bytes, copier->stream));
  copier_give(d, copier);
  return status;
}

// By whole words, because a mirror may still read one that was a gate. A communicator has no
// others.
static void gate_zero(void *memory, uint64_t bytes) {
  uint64_t *words = memory;
  for (uint64_t i = 0; i < bytes / sizeof *words; i++)
    rondo_store_relaxed_u64(&words[i], 0);
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
  } else if (p && kind == RONDO_MEMORY_GATE) {
    gate_zero(memory, bytes);
  } else if (p && rondo_cuda_zero(d, p->memory, p->bytes) != RONDO_SUCCESS) {
    rondo_cuda_free(device, kind, memory);
    memory = NULL;
  }
  rondo_cuda_leave(&scope);
  return memory;
}

void rondo_cuda_free(struct rondo_device *device, int kind, void *memory) {
  struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  struct rondo_cuda_scope scope;
  (void)kind;
  if (!memory)
    return;
  struct rondo_cuda_piece *p = piece_remove(d, memory);
  if (!p)
    return;
  rondo_cuda_enter_to_free(d, &scope);
  piece_release(d, p);
  rondo_cuda_leave(&scope);
}

// Copies up to RONDO_CUDA_STAGING_BYTES through the copier's staging memory. Called in the device's
// context.
static int copier_write(const struct rondo_cuda_device *d, const struct rondo_cuda_copier *copier,
                        uint64_t to, const void *from, uint64_t bytes) {
  memcpy(copier->staging, from, bytes);
  return copier_await(d, copier,
                      d->api->memcpy_htod_async(to, copier->staging, bytes, copier->stream));
}

static int copier_read(const struct rondo_cuda_device *d, const struct rondo_cuda_copier *copier,
                       void *to, uint64_t from, uint64_t bytes) {
  int status = copier_await(
      d, copier, d->api->memcpy_dtoh_async(copier->staging, from, bytes, copier->stream));
  if (status == RONDO_SUCCESS)
    memcpy(to, copier->staging, bytes);
  return status;
}

// Copies between host and device through the staging memory.
static int copier_transfer(const struct rondo_cuda_device *d,
                           const struct rondo_cuda_copier *copier, char *host, uint64_t device,
                           uint64_t bytes, bool is_write) {
  int status = RONDO_SUCCESS;
  while (bytes && status == RONDO_SUCCESS) {
    uint64_t part = bytes < RONDO_CUDA_STAGING_BYTES ? bytes : RONDO_CUDA_STAGING_BYTES;
    status = is_write ? copier_write(d, copier, device, host, part)
                      : copier_read(d, copier, host, device, part);
    host += part;
    device += part;
    bytes -= part;
  }
  return status;
}

static int device_transfer(struct rondo_cuda_device *d, char *host, uint64_t device, uint64_t bytes,
                           bool is_write) {
  struct rondo_cuda_scope scope;
  if (rondo_cuda_enter(d, &scope) != CUDA_SUCCESS)
    return RONDO_ERR_SYSTEM;
  struct rondo_cuda_copier *copier = copier_take(d);
  int status = RONDO_ERR_SYSTEM;
  if (copier) {
    status = is_write && is_stored(device, bytes)
                 ? copier_store(d, copier, device, host, bytes)
                 : copier_transfer(d, copier, host, device, bytes, is_write);
    copier_give(d, copier);
  }
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
  unsigned is_managed;
  unsigned is_plain; // from cuMemAlloc, and neither of a pool nor mapped by the application
};

static struct origin origin_find(const struct rondo_cuda_device *d, uint64_t address) {
  struct origin o = {.ordinal = -1};
  CUpointer_attribute attributes[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE};
  void *data[] = {&o.type, &o.ordinal, &o.is_managed, &o.is_plain};
  if (d->api->pointer_get_attributes(4, attributes, data, address) != CUDA_SUCCESS)
    o.type = 0;
  return o;
}

// True for device memory, which the CPU cannot use in place.
static bool is_device_memory(const struct rondo_cuda_device *d, const void *memory) {
  return origin_find(d, (uint64_t)(uintptr_t)memory).type == CU_MEMORYTYPE_DEVICE;
}

// True if a device to which peer access was enabled can use the memory. Peer access covers what
// cuMemAlloc returns, and neither pools (cudaMallocAsync) nor mappings of the application
// (PyTorch's expandable segments); those have rights of their own, which the application sets.
static bool origin_is_shared(const struct origin *o) {
  return !o->is_managed && (o->type == CU_MEMORYTYPE_HOST || o->is_plain);
}

// Memory of another device is reachable only if a rank of this process opened that device.
static bool can_reach(const struct rondo_cuda_device *d, const struct origin *o) {
  if (o->ordinal == d->ordinal || o->type == CU_MEMORYTYPE_HOST || o->is_managed)
    return true;
  return o->is_plain && rondo_cuda_can_access(d, o->ordinal);
}

// Checks the first and the last byte and not the allocation: a buffer may span several.
int rondo_cuda_check_buffer(struct rondo_device *device, const void *memory, uint64_t bytes,
                            bool *is_private, char *why) {
  const struct rondo_cuda_device *d = rondo_cuda_device_of(device);
  uint64_t first = (uint64_t)(uintptr_t)memory;
  const uint64_t ends[] = {first, first + bytes - 1};
  for (int i = 0; i < 2 && bytes; i++) {
    struct origin o = origin_find(d, ends[i]);
    *is_private |= !o.type || !origin_is_shared(&o);
    if (!o.type && d->pageable)
      continue;
    if (!o.type) {
      snprintf(why, RONDO_WHY_BYTES, "%#llx is neither memory of a device nor page-locked",
               (unsigned long long)ends[i]);
      return RONDO_ERR_INVALID;
    }
    if (!can_reach(d, &o)) {
      snprintf(why, RONDO_WHY_BYTES, "%#llx is memory of device %d, which device %d cannot reach%s",
               (unsigned long long)ends[i], o.ordinal, d->ordinal,
               o.is_plain ? ""
                          : ": it is of a pool or a mapping, which peer access does not cover");
      return RONDO_ERR_INVALID;
    }
  }
  return RONDO_SUCCESS;
}

static int device_copy(struct rondo_cuda_device *d, uint64_t dst, uint64_t src, uint64_t bytes) {
  struct rondo_cuda_scope scope;
  if (rondo_cuda_enter(d, &scope) != CUDA_SUCCESS)
    return RONDO_ERR_SYSTEM;
  struct rondo_cuda_copier *copier = copier_take(d);
  int status = RONDO_ERR_SYSTEM;
  if (copier) {
    status = copier_await(d, copier, d->api->memcpy_dtod_async(dst, src, bytes, copier->stream));
    copier_give(d, copier);
  }
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

// Also those in use: memory of a deregistered collective that a thread could not stop writing.
static void pieces_free(struct rondo_cuda_device *d) {
  tdestroy(d->memory.in_use, free);
  for (int kind = 0; kind < RONDO_MEMORY_KINDS; kind++) {
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
  while (d->memory.copiers) {
    struct rondo_cuda_copier *copier = d->memory.copiers;
    d->memory.copiers = copier->next;
    copier_destroy(d, copier);
  }
  pieces_free(d);
  while (d->memory.chunks) {
    struct rondo_cuda_chunk *c = d->memory.chunks;
    d->memory.chunks = c->next;
    chunk_unmap(d, c->kind, c->memory, c->bytes);
    free(c);
  }
}
