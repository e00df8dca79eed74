#include "tests/support/fake_nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <numa.h>
#include <numaif.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u
#define PAGES (1u << 16) // that are known of: a table of addresses
#define RANGES 64u       // whose pages are not there yet
#define FILES 4u
#define NODE_FILE "/numa_node"

// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier): the linker's names
// The calls of the library, and those of the system after them (LINKER:--wrap).
int __wrap_numa_available(void);
int __wrap_numa_num_configured_nodes(void);
int __wrap_numa_max_node(void);
int __wrap_numa_node_to_cpus(int node, struct bitmask *cpus);
int __wrap_getcpu(unsigned *cpu, unsigned *node);
long __wrap_get_mempolicy(int *policy, unsigned long *mask, unsigned long bits, void *address,
                          unsigned flags);
long __wrap_set_mempolicy(int policy, const unsigned long *mask, unsigned long bits);
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set);
int __wrap_pthread_setaffinity_np(pthread_t thread, size_t bytes, const cpu_set_t *set);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __wrap_madvise(void *at, size_t bytes, int advice);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes);
FILE *__wrap_fopen(const char *path, const char *mode);
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_madvise(void *at, size_t bytes, int advice);
int __real_fallocate(int fd, int mode, off_t offset, off_t bytes);
FILE *__real_fopen(const char *path, const char *mode);

struct range {
  uintptr_t begin, end;
};

struct rondo_fake_nodes rondo_fake_nodes;
static struct bitmask nodes = {.size = RONDO_FAKE_NODES,
                               .maskp = (unsigned long[]){(1u << RONDO_FAKE_NODES) - 1}};
struct bitmask *__wrap_numa_nodes_ptr = &nodes;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  uintptr_t page; // 0: nothing
  int node;
} pages[PAGES];
static struct {
  int fd;
  uintptr_t base;
} files[FILES];
static uint32_t file_count;

static _Thread_local int here = RONDO_FAKE_NODES - 1;
static _Thread_local int policy_mode = MPOL_DEFAULT;
static _Thread_local int policy_node;
static _Thread_local struct range fresh[RANGES]; // of this thread, which touches their pages next
static _Thread_local uint32_t fresh_count;

// -------------------------------------------------------------------- pages ---

// Where it is kept on which node a page lies. The table is never full: it is emptied first.
static uint32_t place_of(uintptr_t page) {
  uint32_t at = (uint32_t)(page / PAGE * UINT64_C(0x9e3779b97f4a7c15) >> 40) % PAGES;
  while (pages[at].page && pages[at].page != page)
    at = (at + 1) % PAGES;
  return at;
}

// The lock is held, or not yet needed.
static void put(uintptr_t begin, uintptr_t end, int node, int only_new) {
  for (uintptr_t page = begin / PAGE * PAGE; page < end; page += PAGE) {
    uint32_t at = place_of(page);
    if (only_new && pages[at].page && pages[at].node != RONDO_FAKE_NOWHERE)
      continue;
    pages[at].page = page;
    pages[at].node = node;
  }
}

static int node_of_new_pages(void) {
  return policy_mode == MPOL_PREFERRED ? policy_node : policy_mode == MPOL_DEFAULT ? here : 0;
}

// Places the pages of a range that are new since the last call on the node of the current policy.
// Returns 1 if all pages of the range exist.
static int settle_range(const struct range *r) {
  int is_whole = 1;
  for (uintptr_t page = r->begin; page < r->end; page += PAGE) {
    unsigned char there = 0;
    if (mincore((void *)page, PAGE, &there) == 0 && (there & 1))
      put(page, page + PAGE, node_of_new_pages(), 1);
    else
      is_whole = 0;
  }
  return is_whole;
}

static void settle(void) {
  uint32_t kept = 0;
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < fresh_count; i++)
    if (!settle_range(&fresh[i]))
      fresh[kept++] = fresh[i];
  fresh_count = kept;
  pthread_mutex_unlock(&lock);
}

static void expect(uintptr_t begin, uintptr_t end) {
  settle();
  pthread_mutex_lock(&lock);
  put(begin, end, RONDO_FAKE_NOWHERE, 0);
  pthread_mutex_unlock(&lock);
  if (fresh_count < RANGES)
    fresh[fresh_count++] = (struct range){begin, end};
}

int rondo_fake_nodes_hold(const void *memory, size_t bytes) {
  uintptr_t begin = ((uintptr_t)memory + PAGE - 1) / PAGE * PAGE;
  uintptr_t end = ((uintptr_t)memory + bytes) / PAGE * PAGE;
  settle();
  pthread_mutex_lock(&lock);
  int node = RONDO_FAKE_NOWHERE;
  for (uintptr_t page = begin; page < end; page += PAGE) {
    uint32_t at = place_of(page);
    int its = pages[at].page ? pages[at].node : RONDO_FAKE_NOWHERE;
    node = page == begin ? its : node;
    if (its != node)
      node = RONDO_FAKE_NOWHERE;
    if (node == RONDO_FAKE_NOWHERE)
      break;
  }
  pthread_mutex_unlock(&lock);
  return node;
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  void *memory = __real_mmap(at, bytes, protection, flags, fd, offset);
  if (memory == MAP_FAILED)
    return memory;
  if (fd < 0 && !(flags & MAP_NORESERVE) && bytes < (uint64_t)PAGES / 4 * PAGE)
    expect((uintptr_t)memory, (uintptr_t)memory + bytes);
  pthread_mutex_lock(&lock);
  if (fd >= 0 && file_count < FILES) {
    files[file_count].fd = fd;
    files[file_count++].base = (uintptr_t)memory;
  }
  pthread_mutex_unlock(&lock);
  return memory;
}

int __wrap_madvise(void *at, size_t bytes, int advice) {
  int status = __real_madvise(at, bytes, advice);
  if (status == 0 && advice == MADV_DONTNEED)
    expect((uintptr_t)at, (uintptr_t)at + bytes);
  return status;
}

int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes) {
  int status = __real_fallocate(fd, mode, offset, bytes);
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < file_count && status == 0; i++) {
    uintptr_t begin = files[i].base + (uintptr_t)offset;
    int is_dropped = mode & FALLOC_FL_PUNCH_HOLE;
    if (files[i].fd == fd)
      put(begin, begin + (uintptr_t)bytes, is_dropped ? RONDO_FAKE_NOWHERE : node_of_new_pages(),
          !is_dropped);
  }
  pthread_mutex_unlock(&lock);
  return status;
}

// ----------------------------------------------------------------- policies ---

long __wrap_get_mempolicy(int *policy, unsigned long *mask, unsigned long bits, void *address,
                          unsigned flags) {
  (void)mask, (void)bits, (void)address, (void)flags;
  *policy = policy_mode;
  return 0;
}

long __wrap_set_mempolicy(int policy, const unsigned long *mask, unsigned long bits) {
  settle();
  if (rondo_fake_nodes.is_refused) {
    errno = EPERM;
    return -1;
  }
  if (policy == MPOL_PREFERRED && (!mask || bits <= RONDO_FAKE_NODES || mask[0] & (mask[0] - 1) ||
                                   mask[0] >> RONDO_FAKE_NODES)) {
    errno = EINVAL;
    return -1;
  }
  policy_mode = policy;
  policy_node = policy == MPOL_PREFERRED ? __builtin_ctzl(mask[0]) : 0;
  return 0;
}

void rondo_fake_nodes_set_policy(int policy) {
  settle();
  policy_mode = policy;
}

int rondo_fake_nodes_policy(void) { return policy_mode; }

// ------------------------------------------------------------------ machine ---

int __wrap_numa_available(void) { return 0; }
int __wrap_numa_num_configured_nodes(void) { return RONDO_FAKE_NODES; }
int __wrap_numa_max_node(void) { return RONDO_FAKE_NODES - 1; }

int __wrap_numa_node_to_cpus(int node, struct bitmask *cpus) {
  numa_bitmask_clearall(cpus);
  for (uint32_t core = 0; core < RONDO_FAKE_NODE_CORES; core++)
    numa_bitmask_setbit(cpus, (uint32_t)node * RONDO_FAKE_NODE_CORES + core);
  return 0;
}

int __wrap_getcpu(unsigned *cpu, unsigned *node) {
  if (cpu)
    *cpu = (unsigned)here * RONDO_FAKE_NODE_CORES;
  if (node)
    *node = (unsigned)here;
  return 0;
}

void rondo_fake_nodes_go(int node) {
  settle();
  here = node;
}

int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set) {
  (void)pid;
  memset(set, 0, bytes);
  for (unsigned core = 0; core < RONDO_FAKE_NODES * RONDO_FAKE_NODE_CORES; core++)
    if (rondo_fake_nodes.own_cores & 1u << core)
      CPU_SET(core, set);
  return 0;
}

int __wrap_pthread_setaffinity_np(pthread_t thread, size_t bytes, const cpu_set_t *set) {
  uint32_t cores = 0;
  (void)thread, (void)bytes;
  for (unsigned core = 0; core < 32; core++)
    cores |= CPU_ISSET(core, set) ? 1u << core : 0;
  if (rondo_fake_nodes.placements < RONDO_FAKE_WORKERS)
    rondo_fake_nodes.placed[rondo_fake_nodes.placements++] = cores;
  return 0;
}

// The system's files about PCI devices.
FILE *__wrap_fopen(const char *path, const char *mode) {
  size_t length = strlen(path);
  size_t tail = strlen(NODE_FILE);
  if (length < tail || strcmp(path + length - tail, NODE_FILE) != 0)
    return __real_fopen(path, mode);
  FILE *file = tmpfile();
  if (file) {
    (void)fprintf(file, "%d\n", rondo_fake_nodes.device_node);
    rewind(file);
  }
  return file;
}

// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

void rondo_fake_nodes_reset(void) {
  memset(&rondo_fake_nodes, 0, sizeof rondo_fake_nodes);
  pthread_mutex_lock(&lock);
  memset(pages, 0, sizeof pages);
  file_count = 0;
  pthread_mutex_unlock(&lock);
  rondo_fake_nodes.own_cores = (1u << RONDO_FAKE_NODES * RONDO_FAKE_NODE_CORES) - 1;
  rondo_fake_nodes.device_node = -1;
  fresh_count = 0;
  policy_mode = MPOL_DEFAULT;
  here = 0;
}
