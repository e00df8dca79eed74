#include "runtime/memory/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "queues/platform/platform.h"
#include "daemon/driver/memory.h"
#include "runtime/observe/log.h"
#include <rondo/status.h>

#define PAGE_BYTES 4096u
#define HUGE_PAGE_BYTES (UINT64_C(2) << 20)
#define LEAST_RANGE_BYTES (UINT64_C(1) << 30)
#define PUNCH_BYTES 65536u // what is freed in one piece of at least this goes back to the system

struct extent {
  struct extent *next; // free ones only, in order of `at`
  uint64_t at, bytes;
};

struct rondo_arena {
  int fd;
  int huge;
  uint64_t bytes;
  char *base;
  pthread_mutex_t lock;
  struct extent *idle;
  void *taken; // tree (search.h) of struct extent, by `at`
};

static int compare_extents(const void *a, const void *b) {
  uint64_t x = ((const struct extent *)a)->at;
  uint64_t y = ((const struct extent *)b)->at;
  return x < y ? -1 : x > y;
}

static uint64_t round_up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

// ------------------------------------------------------------------- making ---

static uint64_t memory_bytes(void) {
  long pages = sysconf(_SC_PHYS_PAGES);
  uint64_t bytes = pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
  return bytes < LEAST_RANGE_BYTES ? LEAST_RANGE_BYTES : bytes;
}

// Makes the file, maps it, and forbids whatever could make an access to it fault.
static int open_file(struct rondo_arena *a, unsigned flags) {
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

// 1 if the system's pool of huge pages has one to give.
static int has_huge_page(const struct rondo_arena *a) {
  if (fallocate(a->fd, 0, 0, (off_t)HUGE_PAGE_BYTES))
    return 0;
  (void)fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)HUGE_PAGE_BYTES);
  return 1;
}

static int open_any(struct rondo_arena *a, int huge) {
  if (huge && open_file(a, MFD_HUGETLB) == RONDO_SUCCESS) {
    a->huge = has_huge_page(a);
    if (a->huge)
      return RONDO_SUCCESS;
    munmap(a->base, a->bytes);
    close(a->fd);
  }
  return open_file(a, 0);
}

int rondo_arena_create(uint64_t range_bytes, int huge, struct rondo_arena **arena) {
  struct rondo_arena *a = calloc(1, sizeof *a);
  struct extent *whole = calloc(1, sizeof *whole);
  int status = a && whole ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
  if (status == RONDO_SUCCESS) {
    a->bytes = round_up(range_bytes ? range_bytes : memory_bytes(), HUGE_PAGE_BYTES);
    status = open_any(a, huge);
  }
  if (status != RONDO_SUCCESS) {
    rondo_log(RONDO_LOG_ERROR, "init: no memory to share with other processes: %s",
              strerror(errno));
    free(whole);
    free(a);
    return status;
  }
  if (huge && !a->huge)
    rondo_log(RONDO_LOG_INFO, "init: the system has no huge pages to give (vm.nr_hugepages)");
  (void)madvise(a->base, a->bytes, MADV_HUGEPAGE);
  (void)madvise(a->base, a->bytes, MADV_DONTDUMP);
  pthread_mutex_init(&a->lock, NULL);
  whole->bytes = a->bytes;
  a->idle = whole;
  *arena = a;
  return RONDO_SUCCESS;
}

void rondo_arena_destroy(struct rondo_arena *a) {
  if (!a)
    return;
  while (a->idle) {
    struct extent *e = a->idle;
    a->idle = e->next;
    free(e);
  }
  tdestroy(a->taken, free);
  munmap(a->base, a->bytes);
  close(a->fd);
  pthread_mutex_destroy(&a->lock);
  free(a);
}

// ------------------------------------------------------------------- pieces ---

// Cuts `bytes` on a boundary of `align` out of the first idle extent that has them.
static struct extent *cut(struct rondo_arena *a, uint64_t bytes, uint64_t align) {
  struct extent **at = &a->idle;
  while (*at && round_up((*at)->at, align) + bytes > (*at)->at + (*at)->bytes)
    at = &(*at)->next;
  struct extent *e = *at;
  if (!e)
    return NULL;
  uint64_t begin = round_up(e->at, align);
  uint64_t end = e->at + e->bytes;
  struct extent *piece = calloc(1, sizeof *piece);
  struct extent *rest = begin + bytes < end ? calloc(1, sizeof *rest) : NULL;
  if (!piece || (!rest && begin + bytes < end)) {
    free(piece);
    free(rest);
    return NULL;
  }
  piece->at = begin;
  piece->bytes = bytes;
  if (rest) {
    rest->at = begin + bytes;
    rest->bytes = end - rest->at;
    rest->next = e->next;
    e->next = rest;
  }
  e->bytes = begin - e->at;
  if (!e->bytes) {
    *at = e->next;
    free(e);
  }
  return piece;
}

// Puts a piece back in its place, one with its idle neighbours.
static void join(struct rondo_arena *a, struct extent *piece) {
  struct extent *before = NULL;
  struct extent **at = &a->idle;
  while (*at && (*at)->at < piece->at) {
    before = *at;
    at = &(*at)->next;
  }
  struct extent *after = *at;
  piece->next = after;
  *at = piece;
  if (after && piece->at + piece->bytes == after->at) {
    piece->bytes += after->bytes;
    piece->next = after->next;
    free(after);
  }
  if (before && before->at + before->bytes == piece->at) {
    before->bytes += piece->bytes;
    before->next = piece->next;
    free(piece);
  }
}

// Makes sure that there is memory behind a piece: an access could only fault.
static int back(const struct rondo_arena *a, const struct extent *piece) {
  uint64_t page = a->huge ? HUGE_PAGE_BYTES : PAGE_BYTES;
  uint64_t begin = piece->at / page * page;
  uint64_t end = round_up(piece->at + piece->bytes, page);
  int failed;
  do {
    failed = fallocate(a->fd, 0, (off_t)begin, (off_t)(end - begin));
  } while (failed && errno == EINTR);
  return !failed;
}

void *rondo_arena_alloc(struct rondo_arena *a, uint64_t bytes) {
  uint64_t align = bytes < PAGE_BYTES ? RONDO_LINE_BYTES : PAGE_BYTES;
  if (bytes > a->bytes || rondo_memory_should_fail())
    return NULL;
  bytes = round_up(bytes ? bytes : 1, align);
  pthread_mutex_lock(&a->lock);
  struct extent *piece = cut(a, bytes, align);
  if (piece && (!back(a, piece) || !tsearch(piece, &a->taken, compare_extents))) {
    join(a, piece);
    piece = NULL;
  }
  void *memory = piece ? a->base + piece->at : NULL;
  pthread_mutex_unlock(&a->lock);
  if (memory)
    memset(memory, 0, bytes);
  return memory;
}

static void punch(const struct rondo_arena *a, const struct extent *piece) {
  uint64_t page = a->huge ? HUGE_PAGE_BYTES : PAGE_BYTES;
  uint64_t begin = round_up(piece->at, page);
  uint64_t end = (piece->at + piece->bytes) / page * page;
  if (begin < end)
    (void)fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)begin,
                    (off_t)(end - begin));
}

int rondo_arena_free(struct rondo_arena *a, void *memory) {
  uint64_t at = (uint64_t)((uintptr_t)memory - (uintptr_t)a->base);
  struct extent key = {.at = at};
  if (!memory)
    return 1;
  pthread_mutex_lock(&a->lock);
  struct extent **found = tfind(&key, &a->taken, compare_extents);
  struct extent *piece = found ? *found : NULL;
  if (piece) {
    tdelete(piece, &a->taken, compare_extents);
    if (piece->bytes >= PUNCH_BYTES)
      punch(a, piece);
    join(a, piece);
  }
  pthread_mutex_unlock(&a->lock);
  return piece != NULL;
}

int rondo_arena_fd(const struct rondo_arena *a) { return a->fd; }
uint64_t rondo_arena_bytes(const struct rondo_arena *a) { return a->bytes; }
void *rondo_arena_base(const struct rondo_arena *a) { return a->base; }
int rondo_arena_has_huge_pages(const struct rondo_arena *a) { return a->huge; }

// ------------------------------------------------------- other processes' ---

int rondo_arena_map(int fd, uint64_t bytes, void **base) {
  struct stat s;
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &s) || s.st_size <= 0 ||
      (uint64_t)s.st_size != bytes)
    return RONDO_ERR_INVALID;
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED)
    return RONDO_ERR_SYSTEM;
  (void)madvise(memory, bytes, MADV_DONTDUMP);
  *base = memory;
  return RONDO_SUCCESS;
}

void rondo_arena_unmap(void *base, uint64_t bytes) {
  if (base)
    munmap(base, bytes);
}
