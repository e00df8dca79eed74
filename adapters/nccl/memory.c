// The exported ncclMemAlloc, ncclMemFree and the registrations of buffers, which do nothing: Rondo
// needs none.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/nccl/comm.h"
#include "adapters/nccl/debug.h"
#include "adapters/nccl/device.h"
#include "adapters/nccl/environment.h"

#define MAX_DEVICES 64

struct allocation {
  struct allocation *next;
  int device;
  void *memory;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // protects what follows
static struct allocation *allocations;
// ncclMemAlloc has no communicator, so each device has a context of one rank for its memory. The
// context exists while it has allocations.
static struct mem_context {
  struct rondo_context ctx;
  size_t allocations;
} contexts[MAX_DEVICES];

// A child process must neither use nor free the memory of its parent.
static void memory_reset_in_child(void) {
  memset(contexts, 0, sizeof contexts);
  allocations = NULL;
  lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
RONDO_NCCL_ON_FORK(memory_reset_in_child)

// Handles of registrations: only their addresses are used.
static char registered, window;

// Creates the context of `device` if it has no allocations. Returns enum rondo_status.
static int mem_context_open(int device) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  if (device >= MAX_DEVICES)
    return RONDO_ERR_INVALID;
  cfg.backend = rondo_nccl_environment()->backend;
  cfg.device = device;
  return contexts[device].allocations ? RONDO_SUCCESS : rondo_init(&contexts[device].ctx, &cfg);
}

// Destroys the context if it has no allocations. Returns enum rondo_status.
static int mem_context_close(const struct mem_context *c) {
  return c->allocations ? RONDO_SUCCESS
                        : rondo_destroy(c->ctx, RONDO_DESTROY_DRAIN, RONDO_NCCL_DRAIN_NS);
}

// Returns enum rondo_status.
static int allocation_create(int device, size_t bytes, void **memory) {
  int status = mem_context_open(device);
  if (status != RONDO_SUCCESS)
    return status;
  struct mem_context *c = &contexts[device];
  struct allocation *a = malloc(sizeof *a);
  status = a ? rondo_mem_alloc(c->ctx, bytes, memory) : RONDO_ERR_NO_MEMORY;
  if (status != RONDO_SUCCESS) {
    free(a);
    (void)mem_context_close(c);
    return status;
  }
  c->allocations++;
  *a = (struct allocation){allocations, device, *memory};
  allocations = a;
  return RONDO_SUCCESS;
}

// Returns enum rondo_status. RONDO_ERR_UNKNOWN: there is no such allocation.
static int allocation_free(const void *memory) {
  struct allocation **at = &allocations;
  while (*at && (*at)->memory != memory)
    at = &(*at)->next;
  struct allocation *a = *at;
  if (!a)
    return RONDO_ERR_UNKNOWN;
  struct mem_context *c = &contexts[a->device];
  *at = a->next;
  int status = rondo_mem_free(c->ctx, a->memory);
  c->allocations--;
  int closed = mem_context_close(c);
  free(a);
  return status == RONDO_SUCCESS ? closed : status;
}

// Checks a call that needs nothing but a communicator and `has_arguments`.
static int registration_check(rondo_nccl_comm_t handle, const char *call, bool has_arguments) {
  struct rondo_nccl_comm *comm = rondo_nccl_comm_find(handle, call);
  if (!comm)
    return RONDO_NCCL_INVALID_ARGUMENT;
  rondo_nccl_comm_unref(comm);
  if (!has_arguments)
    return RONDO_NCCL_INVALID("%s: an argument is null", call);
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
  if (!memory)
    return RONDO_NCCL_SUCCESS;
  pthread_mutex_lock(&lock);
  int status = allocation_free(memory);
  pthread_mutex_unlock(&lock);
  if (status == RONDO_ERR_UNKNOWN)
    return RONDO_NCCL_INVALID("ncclMemFree: %p is not from ncclMemAlloc, or was freed before",
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
  if (result == RONDO_NCCL_SUCCESS && handle)
    *handle = buffer && bytes ? &window : NULL; // as in NCCL
  return result;
}

RONDO_NCCL_DEFINE(int, CommWindowDeregister, (rondo_nccl_comm_t comm, void *handle)) {
  (void)handle;
  return registration_check(comm, "ncclCommWindowDeregister", true);
}

// NOLINTEND(readability-identifier-naming)
