// Memory of ncclMemAlloc, and registrations, of which there is nothing to do: a buffer needs none.
#include <pthread.h>
#include <stdlib.h>

#include "adapters/nccl/comm.h"
#include "adapters/nccl/device.h"
#include "adapters/nccl/environment.h"
#include "adapters/nccl/result.h"
#include "adapters/nccl/say.h"

// ncclMemAlloc knows no communicator, so the memory of each device belongs to a context of one rank, which is
// there as long as memory of it is.
struct source {
  struct source *next;
  int device;
  struct rondo_context ctx;
  size_t allocations;
};

struct allocation {
  struct allocation *next;
  struct source *source;
  void *memory;
};

// Over all that follows.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct source *sources;
static struct allocation *allocations;

// A child process neither uses nor frees the memory of its parent.
static void after_fork(void) {
  sources = NULL;
  allocations = NULL;
  lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

__attribute__((constructor)) static void watch_forks(void) {
  (void)pthread_atfork(NULL, NULL, after_fork);
}

// What is registered is remembered by nobody; a handle only has to be one.
static char registered, window;

static int source_open(int device, struct source **opened) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct source *s = calloc(1, sizeof *s);
  if (!s)
    return RONDO_ERR_NO_MEMORY;
  if (rondo_nccl_environment()->backend == RONDO_NCCL_BACKEND_CUDA)
    cfg.backend = RONDO_BACKEND_CUDA;
  s->device = cfg.device = device;
  int status = rondo_init(&s->ctx, &cfg);
  if (status != RONDO_SUCCESS) {
    free(s);
    return status;
  }
  s->next = sources;
  sources = s;
  *opened = s;
  return RONDO_SUCCESS;
}

// Returns what ending its context does, if that was its last memory.
static int source_leave(struct source *s) {
  struct source **at = &sources;
  if (s->allocations)
    return RONDO_SUCCESS;
  while (*at != s)
    at = &(*at)->next;
  *at = s->next;
  int status = rondo_destroy(s->ctx, RONDO_DESTROY_DRAIN, RONDO_NCCL_DRAIN_NS);
  free(s);
  return status;
}

static int allocate(struct allocation *a, int device, size_t bytes) {
  struct source *s = sources;
  while (s && s->device != device)
    s = s->next;
  int status = s ? RONDO_SUCCESS : source_open(device, &s);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_mem_alloc(s->ctx, bytes, &a->memory);
  if (status != RONDO_SUCCESS) {
    (void)source_leave(s);
    return status;
  }
  s->allocations++;
  a->source = s;
  a->next = allocations;
  allocations = a;
  return RONDO_SUCCESS;
}

// False: there is no such memory. `status` is what freeing it said.
static bool give_back(const void *memory, int *status) {
  struct allocation **at = &allocations;
  while (*at && (*at)->memory != memory)
    at = &(*at)->next;
  struct allocation *a = *at;
  if (!a)
    return false;
  *at = a->next;
  *status = rondo_mem_free(a->source->ctx, a->memory);
  a->source->allocations--;
  int left = source_leave(a->source);
  *status = *status == RONDO_SUCCESS ? left : *status;
  free(a);
  return true;
}

// Whether the communicator is one, and `needed` not null; else refused.
static bool is_good(rondo_nccl_comm_t handle, const char *call, const void *needed) {
  struct rondo_nccl_comm *comm = rondo_nccl_comm_enter(handle, call);
  if (!comm)
    return false;
  rondo_nccl_comm_leave(comm);
  if (!needed)
    (void)rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: a null argument", call);
  return needed != NULL;
}

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.

RONDO_NCCL_DEFINE(int, MemAlloc, (void **memory, size_t bytes)) {
  if (memory && !bytes) {
    *memory = NULL;
    return RONDO_NCCL_SUCCESS;
  }
  struct allocation *a = calloc(1, sizeof *a);
  int status = memory ? RONDO_ERR_NO_MEMORY : RONDO_ERR_INVALID;
  int device = rondo_nccl_current_device();
  pthread_mutex_lock(&lock);
  if (a && memory)
    status = allocate(a, device, bytes);
  pthread_mutex_unlock(&lock);
  if (status == RONDO_SUCCESS)
    *memory = a->memory;
  else
    free(a);
  return rondo_nccl_passed_on(status, "ncclMemAlloc");
}

RONDO_NCCL_DEFINE(int, MemFree, (void *memory)) {
  int status = RONDO_SUCCESS;
  if (!memory)
    return RONDO_NCCL_SUCCESS;
  pthread_mutex_lock(&lock);
  bool found = give_back(memory, &status);
  pthread_mutex_unlock(&lock);
  if (!found)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT,
                             "ncclMemFree: %p is not from ncclMemAlloc, or was freed", memory);
  return rondo_nccl_passed_on(status, "ncclMemFree");
}

RONDO_NCCL_DEFINE(int, CommRegister,
                  (rondo_nccl_comm_t comm, void *buffer, size_t bytes, void **handle)) {
  (void)bytes;
  if (!is_good(comm, "ncclCommRegister", handle ? buffer : NULL) || !handle)
    return RONDO_NCCL_INVALID_ARGUMENT;
  *handle = &registered;
  return RONDO_NCCL_SUCCESS;
}

// NCCL's handles may be null, where it has registered nothing, and are given back like others.
RONDO_NCCL_DEFINE(int, CommDeregister, (rondo_nccl_comm_t comm, void *handle)) {
  (void)handle;
  return is_good(comm, "ncclCommDeregister", &registered) ? RONDO_NCCL_SUCCESS
                                                          : RONDO_NCCL_INVALID_ARGUMENT;
}

RONDO_NCCL_DEFINE(int, CommWindowRegister,
                  (rondo_nccl_comm_t comm, void *buffer, size_t bytes, void **handle, int flags)) {
  (void)flags;
  if (!is_good(comm, "ncclCommWindowRegister", handle))
    return RONDO_NCCL_INVALID_ARGUMENT;
  *handle = buffer && bytes ? &window : NULL; // of nothing, no window: as in NCCL
  return RONDO_NCCL_SUCCESS;
}

RONDO_NCCL_DEFINE(int, CommWindowDeregister, (rondo_nccl_comm_t comm, void *handle)) {
  (void)handle;
  return is_good(comm, "ncclCommWindowDeregister", &window) ? RONDO_NCCL_SUCCESS
                                                            : RONDO_NCCL_INVALID_ARGUMENT;
}

// NOLINTEND(readability-identifier-naming)
