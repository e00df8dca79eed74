#include "runtime/memory/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/numa_node.h"
#include "base/platform.h"
#include "runtime/memory/extents.h"
#include <rondo/status.h>

#define PAGE_BYTES 4096u
#define HUGE_PAGE_BYTES (UINT64_C(2) << 20)
#define HUGE_PAGE_POOL "/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define LEAST_RANGE_BYTES (UINT64_C(1) << 30)
#define PUNCH_BYTES 65536u // smaller freed pieces keep their pages

struct rondo_arena {
  int fd;
  int huge;
  int keeps_pages;
  uint64_t bytes;
  char *base;
  pthread_mutex_t lock;
  struct rondo_extents extents;
};

// ------------------------------------------------------------------- creation ---

static uint64_t machine_memory_bytes(void) {
  long pages = sysconf(_SC_PHYS_PAGES);
  uint64_t bytes = pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
  return bytes < LEAST_RANGE_BYTES ? LEAST_RANGE_BYTES : bytes;
}

// Creates and maps the file, and seals it so that no access can fault.
static int arena_open_file(struct rondo_arena *a, unsigned flags) {
  a->fd = memfd_create("rondo", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
  if (a->fd < 0)
    return RONDO_ERR_SYSTEM;
  if (ftruncate(a->fd, (off_t)a->bytes) == 0 &&
      fcntl(a->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    void *base = mmap(NULL, a->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, a->fd, 0);
    if (base != MAP_FAILED) {
      a->base = base;
      return RONDO_SUCCESS;
    }
  }
  int reason = errno;
  close(a->fd);
  errno = reason;
  return RONDO_ERR_SYSTEM;
}

// True if the system's pool has a free huge page.
static bool arena_has_huge_page(const struct rondo_arena *a) {
  if (fallocate(a->fd, 0, 0, (off_t)HUGE_PAGE_BYTES))
    return false;
  (void)fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)HUGE_PAGE_BYTES);
  return true;
}

static int arena_open(struct rondo_arena *a, int huge) {
  if (huge && arena_open_file(a, MFD_HUGETLB) == RONDO_SUCCESS) {
    a->huge = arena_has_huge_page(a);
    if (a->huge)
      return RONDO_SUCCESS;
    munmap(a->base, a->bytes);
    close(a->fd);
  }
  return arena_open_file(a, 0);
}

int rondo_arena_create(uint64_t range_bytes, int huge, struct rondo_arena **arena) {
  struct rondo_arena *a = calloc(1, sizeof *a);
  int status = a ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
  if (a) {
    rondo_extents_init(&a->extents);
    a->bytes = rondo_round_up(range_bytes ? range_bytes : machine_memory_bytes(), HUGE_PAGE_BYTES);
    if (!rondo_extents_try_add(&a->extents, 0, a->bytes))
      status = RONDO_ERR_NO_MEMORY;
  }
  if (status == RONDO_SUCCESS)
    status = arena_open(a, huge);
  if (status != RONDO_SUCCESS) {
    rondo_log(RONDO_LOG_ERROR, "init: cannot create shared memory: %s", strerror(errno));
    if (a)
      rondo_extents_fini(&a->extents);
    free(a);
    return status;
  }
  if (huge)
    rondo_log(RONDO_LOG_INFO, a->huge
                                  ? "init: shared memory uses huge pages"
                                  : "init: the system has no free huge pages (vm.nr_hugepages)");
  (void)madvise(a->base, a->bytes, MADV_HUGEPAGE);
  (void)madvise(a->base, a->bytes, MADV_DONTDUMP);
  pthread_mutex_init(&a->lock, NULL);
  *arena = a;
  return RONDO_SUCCESS;
}

void rondo_arena_destroy(struct rondo_arena *a) {
  if (!a)
    return;
  rondo_extents_fini(&a->extents);
  munmap(a->base, a->bytes);
  close(a->fd);
  pthread_mutex_destroy(&a->lock);
  free(a);
}

// ------------------------------------------------------------------- pieces ---

// Returns the whole pages of a piece to the system.
static void arena_punch(const struct rondo_arena *a, uint64_t at, uint64_t bytes) {
  uint64_t page = a->huge ? HUGE_PAGE_BYTES : PAGE_BYTES;
  uint64_t begin = rondo_round_up(at, page);
  uint64_t end = (at + bytes) / page * page;
  if (begin < end)
    (void)fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)begin,
                    (off_t)(end - begin));
}

// Allocates pages for a piece now, on the calling thread's NUMA node or the one it prefers. Without
// this an access after memory ran out would raise SIGBUS. False if memory is used up.
static bool arena_try_back_pages(const struct rondo_arena *a, uint64_t at, uint64_t bytes) {
  uint64_t page = a->huge ? HUGE_PAGE_BYTES : PAGE_BYTES;
  uint64_t begin = at / page * page;
  uint64_t end = rondo_round_up(at + bytes, page);
  int failed;
  if (rondo_node_here() != RONDO_NODE_ANY && !a->keeps_pages)
    arena_punch(a, at, bytes); // old pages may be on another node
  do {
    failed = fallocate(a->fd, 0, (off_t)begin, (off_t)(end - begin));
  } while (failed && errno == EINTR);
  return !failed;
}

void *rondo_arena_alloc(struct rondo_arena *a, uint64_t bytes) {
  uint64_t align = bytes < PAGE_BYTES ? RONDO_LINE_BYTES : PAGE_BYTES;
  if (bytes > a->bytes || rondo_memory_should_fail())
    return NULL;
  bytes = rondo_round_up(bytes ? bytes : 1, align);
  pthread_mutex_lock(&a->lock);
  uint64_t at = 0;
  int has_piece = rondo_extents_try_alloc(&a->extents, bytes, align, &at);
  if (has_piece && !arena_try_back_pages(a, at, bytes)) {
    rondo_extents_free(&a->extents, at);
    has_piece = 0;
  }
  void *memory = has_piece ? a->base + at : NULL;
  pthread_mutex_unlock(&a->lock);
  if (memory)
    memset(memory, 0, bytes);
  return memory;
}

bool rondo_arena_free(struct rondo_arena *a, void *memory) {
  uint64_t at = (uint64_t)((uintptr_t)memory - (uintptr_t)a->base);
  if (!memory)
    return true;
  pthread_mutex_lock(&a->lock);
  uint64_t bytes = rondo_extents_allocated_bytes(&a->extents, at);
  if (bytes >= PUNCH_BYTES && !a->keeps_pages)
    arena_punch(a, at, bytes);
  rondo_extents_free(&a->extents, at);
  pthread_mutex_unlock(&a->lock);
  return bytes != 0;
}

void rondo_arena_keep_pages(struct rondo_arena *a) { a->keeps_pages = 1; }

int rondo_arena_fd(const struct rondo_arena *a) { return a->fd; }
uint64_t rondo_arena_bytes(const struct rondo_arena *a) { return a->bytes; }
void *rondo_arena_base(const struct rondo_arena *a) { return a->base; }

// ------------------------------------------------------- other processes' arenas ---

// True if the descriptor may be of an arena of `bytes`.
static bool fd_may_be_arena(int fd, uint64_t bytes) {
  struct stat s;
  int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) && !fstat(fd, &s) && s.st_size > 0 &&
         (uint64_t)s.st_size == bytes;
}

// Maps the first `bytes` of an arena of `arena_bytes`. An arena of huge pages cannot be mapped in
// part.
static int arena_map_front(int fd, uint64_t arena_bytes, uint64_t bytes, void **base) {
  if (!fd_may_be_arena(fd, arena_bytes) || arena_bytes < bytes)
    return RONDO_ERR_INVALID;
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED)
    return RONDO_ERR_SYSTEM;
  (void)madvise(memory, bytes, MADV_DONTDUMP);
  *base = memory;
  return RONDO_SUCCESS;
}

int rondo_arena_map(int fd, uint64_t bytes, void **base) {
  return arena_map_front(fd, bytes, bytes, base);
}

int rondo_arena_map_head(int fd, uint64_t bytes, void **head) {
  return arena_map_front(fd, bytes, RONDO_ARENA_HEAD_BYTES, head);
}

void rondo_arena_unmap(void *base, uint64_t bytes) {
  if (base)
    munmap(base, bytes);
}

// --------------------------------------------------------------- description ---

// Returns the number in a file, or 0 if there is no such file.
static unsigned long file_read_number(const char *path) {
  char text[32] = "";
  FILE *file = fopen(path, "re");
  if (!file)
    return 0;
  const char *line = fgets(text, sizeof text, file);
  (void)fclose(file);
  return line ? strtoul(line, NULL, 10) : 0;
}

int rondo_arena_describe(FILE *out, char *why, size_t why_bytes) {
  struct rondo_arena *arena = NULL;
  if (rondo_arena_create(0, 0, &arena) != RONDO_SUCCESS) {
    (void)snprintf(why, why_bytes, "cannot create shared memory: %s", strerror(errno));
    return RONDO_ERR_UNSUPPORTED;
  }
  fprintf(out, "up to %.1f GiB of memory of a process, passed to others as a descriptor\n",
          (double)arena->bytes / (1 << 30));
  rondo_arena_destroy(arena);
  fprintf(out, "huge pages of 2 MiB: %lu of the system's %lu are free; used on request\n",
          file_read_number(HUGE_PAGE_POOL "free_hugepages"),
          file_read_number(HUGE_PAGE_POOL "nr_hugepages"));
  return RONDO_SUCCESS;
}
