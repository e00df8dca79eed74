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

// The lock protects what follows. It is not held in calls that may call the CUDA driver: those may
// wait for the GPU, which may wait for another thread that needs the lock.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; // an is_changing became false
static struct allocation *allocations;
// ncclMemAlloc has no communicator, so each device has a context of one rank for its memory. The
// context exists while it has users.
static struct mem_context {
  struct rondo_context ctx;
  size_t users;     // allocations, and calls of rondo_mem_alloc and rondo_mem_free
  bool is_changing; // a thread creates or destroys the context without the lock
} contexts[MAX_DEVICES];

// A child process must neither use nor free the memory of its parent.
static void memory_reset_in_child(void) {
  memset(contexts, 0, sizeof contexts);
  allocations = NULL;
  lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}
RONDO_NCCL_ON_FORK(memory_reset_in_child)

// Handles of registrations: only their addresses are used.
static char registered, window;

// Waits until no other thread creates or destroys the context, and keeps others from doing so. The
// lock is held, and released meanwhile.
static void mem_context_begin_change(struct mem_context *c) {
  while (c->is_changing)
    pthread_cond_wait(&changed, &lock);
  c->is_changing = true;
}

static void mem_context_end_change(struct mem_context *c) {
  c->is_changing = false;
  pthread_cond_broadcast(&changed);
}

// Adds a user to the context of `device`, which is created for its first one. Returns enum
// rondo_status.
static int mem_context_ref(int device) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  if (device >= MAX_DEVICES)
    return RONDO_ERR_INVALID;
  cfg.backend = rondo_nccl_environment()->backend;
  cfg.device = device;
  struct mem_context *c = &contexts[device];
  int status = RONDO_SUCCESS;
  pthread_mutex_lock(&lock);
  mem_context_begin_change(c);
  if (!c->users) {
    pthread_mutex_unlock(&lock);
    status = rondo_init(&c->ctx, &cfg);
    pthread_mutex_lock(&lock);
  }
  c->users += status == RONDO_SUCCESS;
  mem_context_end_change(c);
  pthread_mutex_unlock(&lock);
  return status;
}

// Removes a user from the context. The last one destroys it. Returns enum rondo_status.
static int mem_context_unref(struct mem_context *c) {
  int status = RONDO_SUCCESS;
  pthread_mutex_lock(&lock);
  mem_context_begin_change(c);
  if (--c->users == 0) {
    pthread_mutex_unlock(&lock);
    status = rondo_destroy(c->ctx, RONDO_DESTROY_DRAIN, RONDO_NCCL_DRAIN_NS);
    pthread_mutex_lock(&lock);
  }
  mem_context_end_change(c);
  pthread_mutex_unlock(&lock);
  return status;
}

static void allocation_add(struct allocation *a) {
  pthread_mutex_lock(&lock);
  a->next = allocations;
  allocations = a;
  pthread_mutex_unlock(&lock);
}

// Takes the allocation of `memory` off the list. Null: there is none.
static struct allocation *allocation_take(const void *memory) {
  struct allocation **at = &allocations;
  pthread_mutex_lock(&lock);
  while (*at && (*at)->memory != memory)
    at = &(*at)->next;
  struct allocation *a = *at;
  if (a)
    *at = a->next;
  pthread_mutex_unlock(&lock);
  return a;
}

// Returns enum rondo_status.
static int allocation_create(int device, size_t bytes, void **memory) {
  int status = mem_context_ref(device);
  if (status != RONDO_SUCCESS)
    return status;
  struct mem_context *c = &contexts[device];
  struct allocation *a = malloc(sizeof *a);
  status = a ? rondo_mem_alloc(c->ctx, bytes, memory) : RONDO_ERR_NO_MEMORY;
  if (status != RONDO_SUCCESS) {
    free(a);
    (void)mem_context_unref(c);
    return status;
  }
  *a = (struct allocation){NULL, device, *memory};
  allocation_add(a);
  return RONDO_SUCCESS;
}

// Returns enum rondo_status. RONDO_ERR_UNKNOWN: there is no such allocation.
static int allocation_free(const void *memory) {
  struct allocation *a = allocation_take(memory);
  if (!a)
    return RONDO_ERR_UNKNOWN;
  struct mem_context *c = &contexts[a->device];
  int status = rondo_mem_free(c->ctx, a->memory);
  int closed = mem_context_unref(c);
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
  int status = memory ? allocation_create(device, bytes, memory) : RONDO_ERR_INVALID;
  return rondo_nccl_check_status(status, "ncclMemAlloc");
}

RONDO_NCCL_DEFINE(int, MemFree, (void *memory)) {
  if (!memory)
    return RONDO_NCCL_SUCCESS;
  int status = allocation_free(memory);
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
