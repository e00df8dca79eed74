// The exported ncclMemAlloc, ncclMemFree and the registrations of buffers, which do nothing: Rondo
// needs none.
#include <pthread.h>
#include <stdlib.h>

#include "adapters/nccl/comm.h"
#include "adapters/nccl/device.h"
#include "adapters/nccl/environment.h"
#include "adapters/nccl/result.h"
#include "adapters/nccl/debug.h"

// ncclMemAlloc has no communicator, so each device has a context of one rank for its memory. The
// context exists while it has allocations.
struct mem_context {
  struct mem_context *next;
  int device;
  struct rondo_context ctx;
  size_t allocations;
};

struct allocation {
  struct allocation *next;
  struct mem_context *owner;
  void *memory;
};

// Protects both lists.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mem_context *contexts;
static struct allocation *allocations;

// A child process must neither use nor free the memory of its parent.
static void memory_reset_in_child(void) {
  contexts = NULL;
  allocations = NULL;
  lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

__attribute__((constructor)) static void memory_add_fork_handler(void) {
  (void)pthread_atfork(NULL, NULL, memory_reset_in_child);
}

// Handles of registrations: only their addresses are used.
static char registered, window;

static int mem_context_open(int device, struct mem_context **opened) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct mem_context *s = calloc(1, sizeof *s);
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
  s->next = contexts;
  contexts = s;
  *opened = s;
  return RONDO_SUCCESS;
}

// Destroys the context if it has no allocations. Returns enum rondo_status.
static int mem_context_release(struct mem_context *s) {
  struct mem_context **at = &contexts;
  if (s->allocations)
    return RONDO_SUCCESS;
  while (*at != s)
    at = &(*at)->next;
  *at = s->next;
  int status = rondo_destroy(s->ctx, RONDO_DESTROY_DRAIN, RONDO_NCCL_DRAIN_NS);
  free(s);
  return status;
}

// Returns enum rondo_status.
static int allocation_create(int device, size_t bytes, void **memory) {
  struct mem_context *s = contexts;
  while (s && s->device != device)
    s = s->next;
  int status = s ? RONDO_SUCCESS : mem_context_open(device, &s);
  if (status != RONDO_SUCCESS)
    return status;
  struct allocation *a = malloc(sizeof *a);
  status = a ? rondo_mem_alloc(s->ctx, bytes, memory) : RONDO_ERR_NO_MEMORY;
  if (status != RONDO_SUCCESS) {
    free(a);
    (void)mem_context_release(s);
    return status;
  }
  s->allocations++;
  *a = (struct allocation){allocations, s, *memory};
  allocations = a;
  return RONDO_SUCCESS;
}

// Frees the memory and sets `status`. False: there is no such allocation.
static bool allocation_free(const void *memory, int *status) {
  struct allocation **at = &allocations;
  while (*at && (*at)->memory != memory)
    at = &(*at)->next;
  struct allocation *a = *at;
  if (!a)
    return false;
  *at = a->next;
  *status = rondo_mem_free(a->owner->ctx, a->memory);
  a->owner->allocations--;
  int left = mem_context_release(a->owner);
  *status = *status == RONDO_SUCCESS ? left : *status;
  free(a);
  return true;
}

// Checks a call that needs nothing but a communicator and `has_arguments`.
static int registration_check(rondo_nccl_comm_t handle, const char *call, bool has_arguments) {
  struct rondo_nccl_comm *comm = rondo_nccl_comm_find(handle, call);
  if (!comm)
    return RONDO_NCCL_INVALID_ARGUMENT;
  rondo_nccl_comm_unref(comm);
  if (!has_arguments)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: an argument is null", call);
  return RONDO_NCCL_SUCCESS;
}

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.

RONDO_NCCL_DEFINE(int, MemAlloc, (void **memory, size_t bytes)) {
  if (memory && !bytes) {
    *memory = NULL;
    return RONDO_NCCL_SUCCESS;
  }
  int device = rondo_nccl_device_get_current();
  pthread_mutex_lock(&lock);
  int status = memory ? allocation_create(device, bytes, memory) : RONDO_ERR_INVALID;
  pthread_mutex_unlock(&lock);
  return rondo_nccl_check_status(status, "ncclMemAlloc");
}

RONDO_NCCL_DEFINE(int, MemFree, (void *memory)) {
  int status = RONDO_SUCCESS;
  if (!memory)
    return RONDO_NCCL_SUCCESS;
  pthread_mutex_lock(&lock);
  bool found = allocation_free(memory, &status);
  pthread_mutex_unlock(&lock);
  if (!found)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT,
                             "ncclMemFree: %p is not from ncclMemAlloc, or was freed before",
                             memory);
  return rondo_nccl_check_status(status, "ncclMemFree");
}

RONDO_NCCL_DEFINE(int, CommRegister,
                  (rondo_nccl_comm_t comm, void *buffer, size_t bytes, void **handle)) {
  (void)bytes;
  int result = registration_check(comm, "ncclCommRegister", buffer && handle);
  if (result == RONDO_NCCL_SUCCESS)
    *handle = &registered;
  return result;
}

// NCCL accepts a null handle too.
RONDO_NCCL_DEFINE(int, CommDeregister, (rondo_nccl_comm_t comm, void *handle)) {
  (void)handle;
  return registration_check(comm, "ncclCommDeregister", true);
}

RONDO_NCCL_DEFINE(int, CommWindowRegister,
                  (rondo_nccl_comm_t comm, void *buffer, size_t bytes, void **handle, int flags)) {
  (void)flags;
  int result = registration_check(comm, "ncclCommWindowRegister", handle != NULL);
  if (result == RONDO_NCCL_SUCCESS)
    *handle = buffer && bytes ? &window : NULL; // as in NCCL
  return result;
}

RONDO_NCCL_DEFINE(int, CommWindowDeregister, (rondo_nccl_comm_t comm, void *handle)) {
  (void)handle;
  return registration_check(comm, "ncclCommWindowDeregister", true);
}

// NOLINTEND(readability-identifier-naming)
