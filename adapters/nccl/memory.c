// Memory of ncclMemAlloc, and registrations, of which there is nothing to do: a buffer needs none.
#include <pthread.h>
#include <stdlib.h>

#include "adapters/nccl/comm.h"
#include "adapters/nccl/device.h"
#include "adapters/nccl/environment.h"
#include "adapters/nccl/result.h"
#include "adapters/nccl/say.h"

// ncclMemAlloc knows no communicator, so each allocation has a context of one rank to belong to.
struct allocation {
  struct allocation *next;
  struct rondo_context ctx;
  void *memory;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct allocation *allocations;

// What is registered is remembered by nobody; a handle only has to be one.
static char registered, window;

static int allocate(struct allocation *a, size_t bytes) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  if (rondo_nccl_environment()->backend == RONDO_NCCL_BACKEND_CUDA)
    cfg.backend = RONDO_BACKEND_CUDA;
  cfg.device = rondo_nccl_current_device();
  int status = rondo_init(&a->ctx, &cfg);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_mem_alloc(a->ctx, bytes, &a->memory);
  if (status != RONDO_SUCCESS)
    rondo_destroy(a->ctx, RONDO_DESTROY_ABORT, 0);
  return status;
}

static struct allocation *take(const void *memory) {
  struct allocation **at = &allocations;
  pthread_mutex_lock(&lock);
  while (*at && (*at)->memory != memory)
    at = &(*at)->next;
  struct allocation *found = *at;
  if (found)
    *at = found->next;
  pthread_mutex_unlock(&lock);
  return found;
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
  struct allocation *a = calloc(1, sizeof *a);
  int status = RONDO_ERR_NO_MEMORY;
  if (a && memory)
    status = allocate(a, bytes);
  if (!memory)
    status = RONDO_ERR_INVALID;
  if (status != RONDO_SUCCESS) {
    free(a);
    return rondo_nccl_passed_on(status, "ncclMemAlloc");
  }
  *memory = a->memory;
  pthread_mutex_lock(&lock);
  a->next = allocations;
  allocations = a;
  pthread_mutex_unlock(&lock);
  return RONDO_NCCL_SUCCESS;
}

RONDO_NCCL_DEFINE(int, MemFree, (void *memory)) {
  if (!memory)
    return RONDO_NCCL_SUCCESS;
  struct allocation *a = take(memory);
  if (!a)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT,
                             "ncclMemFree: %p is not from ncclMemAlloc, or was freed", memory);
  // The context takes its memory with it.
  int status = rondo_destroy(a->ctx, RONDO_DESTROY_DRAIN, RONDO_NCCL_DRAIN_NS);
  free(a);
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

RONDO_NCCL_DEFINE(int, CommDeregister, (rondo_nccl_comm_t comm, void *handle)) {
  return is_good(comm, "ncclCommDeregister", handle) ? RONDO_NCCL_SUCCESS
                                                     : RONDO_NCCL_INVALID_ARGUMENT;
}

RONDO_NCCL_DEFINE(int, CommWindowRegister,
                  (rondo_nccl_comm_t comm, void *buffer, size_t bytes, void **handle, int flags)) {
  (void)bytes, (void)flags;
  if (!is_good(comm, "ncclCommWindowRegister", handle ? buffer : NULL) || !handle)
    return RONDO_NCCL_INVALID_ARGUMENT;
  *handle = &window;
  return RONDO_NCCL_SUCCESS;
}

RONDO_NCCL_DEFINE(int, CommWindowDeregister, (rondo_nccl_comm_t comm, void *handle)) {
  return is_good(comm, "ncclCommWindowDeregister", handle) ? RONDO_NCCL_SUCCESS
                                                           : RONDO_NCCL_INVALID_ARGUMENT;
}

// NOLINTEND(readability-identifier-naming)
