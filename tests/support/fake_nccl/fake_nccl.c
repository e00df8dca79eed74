#include "tests/support/fake_nccl/fake_nccl.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

#include "base/atomic.h"
#include "runtime/transport/nccl/window_lookup_core.h"
#include "tests/support/fake_cuda/fake_cuda.h"

#define EXPORT __attribute__((visibility("default")))
#define UNIT_BYTES ((size_t)2 << 20)
#define MAX_MEMBERS 16u

// The joint calls of all members. Each happens once in the life of a communicator.
enum deed { DEED_INIT, DEED_WINDOW, DEED_DEVICE, DEED_END, DEEDS };

// Where the members meet.
struct board {
  uint64_t random; // of the id: else its descriptor stands for something else by now
  uint32_t arrived[DEEDS];
  struct {
    int32_t pid, fd;
    uint64_t bytes;
  } memory[MAX_MEMBERS];
};

struct id {
  uint64_t random;
  int32_t pid, fd;
};

struct memory {
  struct memory *next;
  CUdeviceptr at;
  size_t bytes;
  int fd;
};

struct ncclWindow_vidmem {
  uint32_t count, shift;
  size_t bytes;
  CUdeviceptr at[MAX_MEMBERS];
};

struct ncclComm {
  int rank, count;
  int board_fd; // ours to close; -1: another's
  struct board *board;
  enum deed deed; // that is under way
  int is_under_way, is_stalled;
  ncclResult_t fate; // of it
  struct ncclWindow_vidmem *window;
  ncclWindow_t *window_out;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t unblocked = PTHREAD_COND_INITIALIZER;
static struct memory *memories;
static uint64_t live;
static uint64_t unblocks;

// --------------------------------------------------------------------- options --

// 1 if RONDO_TEST_FAKE_NCCL has an option of this name; its value goes to `value`.
static int option(const char *name, char value[64]) {
  const char *text = getenv("RONDO_TEST_FAKE_NCCL");
  size_t length = strlen(name);
  for (; text && *text; text += strcspn(text, ","), text += *text == ',') {
    if (strncmp(text, name, length) != 0 || text[length] != '=')
      continue;
    snprintf(value, 64, "%.*s", (int)strcspn(text + length + 1, ","), text + length + 1);
    return 1;
  }
  return 0;
}

static int names(const char *what, const char *call) {
  char value[64];
  return option(what, value) && strcmp(value, call) == 0;
}

static int number_of(const char *name, int otherwise) {
  char value[64];
  return option(name, value) ? (int)strtol(value, NULL, 10) : otherwise;
}

// Begins a call.
static ncclResult_t enter(const char *call) {
  if (names("block", call)) {
    pthread_mutex_lock(&lock);
    uint64_t before = unblocks;
    while (unblocks == before)
      pthread_cond_wait(&unblocked, &lock);
    pthread_mutex_unlock(&lock);
  }
  return names("fail", call) ? ncclSystemError : ncclSuccess;
}

void rondo_fake_nccl_unblock(void) {
  pthread_mutex_lock(&lock);
  unblocks++;
  pthread_cond_broadcast(&unblocked);
  pthread_mutex_unlock(&lock);
}

static void count(int more) {
  pthread_mutex_lock(&lock);
  live += (uint64_t)(int64_t)more;
  pthread_mutex_unlock(&lock);
}

uint64_t rondo_fake_nccl_live(void) {
  pthread_mutex_lock(&lock);
  uint64_t now = live;
  pthread_mutex_unlock(&lock);
  return now;
}

// ---------------------------------------------------------------------- device --

// Makes what the handle stands for usable by the current device, at an address of its own.
static CUdeviceptr place(CUmemGenericAllocationHandle handle, size_t bytes) {
  CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr at = 0;
  CUdevice device = 0;
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  if (cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      cuMemAddressReserve(&at, bytes, 0, 0, 0) != CUDA_SUCCESS)
    return 0;
  access.location.id = device;
  if (cuMemMap(at, bytes, 0, handle, 0) != CUDA_SUCCESS) {
    (void)cuMemAddressFree(at, bytes);
    return 0;
  }
  if (cuMemSetAccess(at, bytes, &access, 1) == CUDA_SUCCESS)
    return at;
  (void)cuMemUnmap(at, bytes);
  (void)cuMemAddressFree(at, bytes);
  return 0;
}

static void displace(CUdeviceptr at, size_t bytes) {
  if (!at)
    return;
  (void)cuMemUnmap(at, bytes);
  (void)cuMemAddressFree(at, bytes);
}

static void run_lookup(const void *param, uint32_t block, uint32_t block_count) {
  const struct rondo_nccl_lookup *h = param;
  const struct ncclWindow_vidmem *w = (const struct ncclWindow_vidmem *)(uintptr_t)h->window;
  struct rondo_nccl_found *found = (struct rondo_nccl_found *)(uintptr_t)h->found;
  (void)block;
  (void)block_count;
  for (uint32_t i = 0; i < h->count; i++) {
    found[i].address = w->at[(i + w->shift) % w->count];
    found[i].mark = *(const uint64_t *)(uintptr_t)found[i].address;
  }
}

__attribute__((constructor)) static void register_kernel(void) {
  rondo_fake_register(RONDO_NCCL_LOOKUP, run_lookup, sizeof(struct rondo_nccl_lookup));
}

// NOLINTBEGIN(readability-identifier-naming,readability-inconsistent-declaration-parameter-name):
// NCCL's names

// ---------------------------------------------------------------------- memory --

ncclResult_t ncclMemAlloc(void **ptr, size_t size) {
  CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                           .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
  CUmemGenericAllocationHandle handle = 0;
  struct memory *m = calloc(1, sizeof *m);
  CUdevice device = 0;
  ncclResult_t result = enter("ncclMemAlloc");
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  if (m && result == ncclSuccess && cuCtxGetDevice(&device) == CUDA_SUCCESS) {
    p.location.id = device;
    m->bytes = (size + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
    if (cuMemCreate(&handle, m->bytes, &p, 0) == CUDA_SUCCESS) {
      m->at = place(handle, m->bytes);
      (void)cuMemExportToShareableHandle(&m->fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                         0);
      (void)cuMemRelease(handle);
    }
  }
  if (!m || !m->at) {
    free(m);
    return result == ncclSuccess ? ncclUnhandledCudaError : result;
  }
  pthread_mutex_lock(&lock);
  m->next = memories;
  memories = m;
  live++;
  pthread_mutex_unlock(&lock);
  *ptr = (void *)(uintptr_t)m->at;
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void *ptr) {
  struct memory **at = &memories;
  ncclResult_t result = enter("ncclMemFree");
  pthread_mutex_lock(&lock);
  while (*at && (*at)->at != (CUdeviceptr)(uintptr_t)ptr)
    at = &(*at)->next;
  struct memory *m = *at;
  if (m) {
    *at = m->next;
    live--;
  }
  pthread_mutex_unlock(&lock);
  if (!m)
    return ncclInvalidArgument;
  displace(m->at, m->bytes);
  close(m->fd);
  free(m);
  return result;
}

// --------------------------------------------------------------- communicators --

ncclResult_t ncclGetVersion(int *version) {
  *version = number_of("version", NCCL_VERSION_CODE);
  return enter("ncclGetVersion");
}

const char *ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote error" : "an error of the stand-in";
}

const char *ncclGetLastError(ncclComm_t comm) {
  (void)comm;
  return "as the test asks for it";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId) {
  struct id id = {.pid = getpid()};
  ncclResult_t result = enter("ncclGetUniqueId");
  if (result != ncclSuccess)
    return result;
  id.fd = memfd_create("fake-nccl-board", MFD_CLOEXEC);
  if (id.fd < 0 || ftruncate(id.fd, sizeof(struct board)) ||
      getrandom(&id.random, sizeof id.random, 0) != sizeof id.random ||
      pwrite(id.fd, &id.random, sizeof id.random, 0) != sizeof id.random)
    return ncclSystemError;
  memset(uniqueId, 0, sizeof *uniqueId);
  memcpy(uniqueId, &id, sizeof id);
  return ncclSuccess;
}

static int open_of(int32_t pid, int32_t fd) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  return open(path, O_RDWR | O_CLOEXEC);
}

// The file in which the members of the id meet; null if its creator has left already.
static struct board *board_of(const struct id *id) {
  uint64_t random = 0;
  struct board *board = MAP_FAILED;
  int fd = open_of(id->pid, id->fd);
  if (fd < 0)
    return NULL;
  if (pread(fd, &random, sizeof random, 0) == sizeof random && random == id->random)
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return board == MAP_FAILED ? NULL : board;
}

// This member has come so far.
static ncclResult_t arrive(struct ncclComm *c, enum deed deed, const char *call) {
  ncclResult_t result = enter(call);
  c->deed = deed;
  c->is_under_way = 1;
  c->is_stalled = names("stall", call);
  c->fate = names("async", call) ? ncclRemoteError : ncclSuccess;
  if (result != ncclSuccess)
    return result;
  if (!c->is_stalled && c->fate == ncclSuccess)
    rondo_fetch_add_seq_cst_u32(&c->board->arrived[deed], 1);
  return ncclInProgress;
}

static void comm_free(struct ncclComm *c) {
  if (c->window) {
    for (uint32_t i = 0; i < c->window->count; i++)
      displace(c->window->at[i], c->window->bytes);
    free(c->window);
    count(-1);
  }
  if (c->board)
    munmap(c->board, sizeof *c->board);
  if (c->board_fd >= 0)
    close(c->board_fd);
  free(c);
  count(-1);
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): the signature of nccl.h
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t *config) {
  struct ncclComm *c = calloc(1, sizeof *c);
  struct id id;
  memcpy(&id, &commId, sizeof id);
  if (!c || config->blocking != 0)
    abort();
  *c = (struct ncclComm){.rank = rank, .count = nranks, .board_fd = -1, .board = board_of(&id)};
  if (!c->board || rank < 0 || nranks > (int)MAX_MEMBERS) {
    free(c);
    return ncclSystemError;
  }
  if (rank == 0)
    c->board_fd = id.fd;
  count(1);
  *comm = c;
  return arrive(c, DEED_INIT, "ncclCommInitRankConfig");
}

// Maps the memory of all members.
static ncclResult_t map_window(struct ncclComm *c) {
  struct ncclWindow_vidmem *w = c->window;
  for (uint32_t i = 0; i < w->count; i++) {
    CUmemGenericAllocationHandle handle = 0;
    int fd = open_of(c->board->memory[i].pid, c->board->memory[i].fd);
    if (c->board->memory[i].bytes != w->bytes || fd < 0 ||
        cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS) {
      if (fd >= 0)
        close(fd);
      return ncclInvalidArgument;
    }
    w->at[i] = place(handle, w->bytes);
    (void)cuMemRelease(handle);
    close(fd);
    if (!w->at[i])
      return ncclUnhandledCudaError;
  }
  *c->window_out = w;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *result) {
  ncclResult_t done = enter("ncclCommGetAsyncError");
  *result = c->fate;
  if (done != ncclSuccess || !c->is_under_way || c->fate != ncclSuccess)
    return done;
  *result = ncclInProgress;
  if (c->is_stalled || rondo_load_acquire_u32(&c->board->arrived[c->deed]) < (uint32_t)c->count)
    return ncclSuccess;
  c->is_under_way = 0;
  c->fate = c->deed == DEED_WINDOW ? map_window(c) : ncclSuccess;
  *result = c->fate;
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t c, void *buff, size_t size, ncclWindow_t *win,
                                    int winFlags) {
  struct ncclWindow_vidmem *w = calloc(1, sizeof *w);
  pthread_mutex_lock(&lock);
  const struct memory *m = memories;
  while (m && m->at != (CUdeviceptr)(uintptr_t)buff)
    m = m->next;
  pthread_mutex_unlock(&lock);
  if (!w || !m || winFlags != NCCL_WIN_COLL_SYMMETRIC || size > m->bytes || c->window)
    abort();
  w->count = (uint32_t)c->count;
  w->bytes = m->bytes;
  w->shift = (uint32_t)number_of("astray", 0);
  count(1);
  c->window = w;
  c->window_out = win;
  c->board->memory[c->rank].pid = getpid();
  c->board->memory[c->rank].fd = m->fd;
  c->board->memory[c->rank].bytes = m->bytes;
  // As NVIDIA's 2.28 does: success, though the call is under way.
  ncclResult_t result = arrive(c, DEED_WINDOW, "ncclCommWindowRegister");
  return result == ncclInProgress ? ncclSuccess : result;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t c, ncclWindow_t win) {
  ncclResult_t result = enter("ncclCommWindowDeregister");
  if (win != c->window)
    abort();
  for (uint32_t i = 0; i < win->count; i++)
    displace(win->at[i], win->bytes);
  free(win);
  c->window = NULL;
  count(-1);
  return result;
}

ncclResult_t ncclCommFinalize(ncclComm_t c) { return arrive(c, DEED_END, "ncclCommFinalize"); }

ncclResult_t ncclCommDestroy(ncclComm_t c) {
  ncclResult_t result = enter("ncclCommDestroy");
  comm_free(c);
  return result;
}

ncclResult_t ncclCommAbort(ncclComm_t c) {
  ncclResult_t result = enter("ncclCommAbort");
  comm_free(c);
  return result;
}

// Of nccl_device.h, which C cannot read.
EXPORT ncclResult_t ncclDevCommCreate(ncclComm_t c, const void *requirements, void *out);
EXPORT ncclResult_t ncclDevCommDestroy(ncclComm_t c, const void *device_comm);
struct team {
  int count, rank, stride;
};
EXPORT struct team ncclTeamLsa(ncclComm_t c);

ncclResult_t ncclDevCommCreate(ncclComm_t c, const void *requirements, void *out) {
  (void)requirements;
  memset(out, 0x5a, 128);
  if (c->is_under_way)
    return ncclInvalidArgument;
  return arrive(c, DEED_DEVICE, "ncclDevCommCreate");
}

ncclResult_t ncclDevCommDestroy(ncclComm_t c, const void *device_comm) {
  (void)c;
  (void)device_comm;
  return enter("ncclDevCommDestroy");
}

struct team ncclTeamLsa(ncclComm_t c) {
  int all = number_of("team", c->count);
  struct team t = {all, c->rank % all, 1};
  return t;
}

// NOLINTEND(readability-identifier-naming,readability-inconsistent-declaration-parameter-name)
