#include "tools/kit/processes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "tools/kit/clock.h"
#include "tools/kit/thread_group.h"

#define PIECE_BYTES 1024u // that a rank sends at once
#define SLICE_NS (100 * (int64_t)RONDO_KIT_MILLISECOND_NS)
#define LAST_NS (5 * RONDO_KIT_SECOND_NS)
#define LEAVE_NS (5 * (int64_t)RONDO_KIT_SECOND_NS)
#define NAME_BYTES 64u
#define WHY_BYTES 128u

struct rondo_kit_processes {
  struct rondo_context context;
  struct rondo_collective gather;
  uint32_t rank, count;
  uint32_t cores;
  char *mine, *all; // pieces
  bool is_stuck;    // a gather timed out
};

// Of this process; null: none is open.
static struct rondo_kit_processes *opened;

// ------------------------------------------------------------ open and close ---

static bool environment_has_launcher(void) {
  return getenv("RONDO_RANK") || (getenv("RANK") && getenv("MASTER_ADDR")) ||
         getenv("OMPI_COMM_WORLD_RANK") || getenv("PMI_RANK") ||
         (getenv("SLURM_PROCID") && getenv("SLURM_STEP_ID"));
}

static int status_print(const struct rondo_kit_processes *p, const char *call, int status) {
  if (status != RONDO_SUCCESS)
    fprintf(stderr, "rank %u: %s among the launched processes: %s (%s)\n", p->rank, call,
            rondo_status_name(status), rondo_status_string(status));
  return status;
}

// The first gather: every rank tells which cores it may use.
static int cores_gather(struct rondo_kit_processes *p) {
  cpu_set_t cores = rondo_kit_cores();
  cpu_set_t *all = calloc(p->count, sizeof *all);
  int status = all ? rondo_kit_processes_gather(p, &cores, all, sizeof cores, NULL)
                   : status_print(p, "memory", RONDO_ERR_NO_MEMORY);
  for (uint32_t r = 0; r < p->count && status == RONDO_SUCCESS; r++)
    CPU_OR(&cores, &cores, &all[r]);
  p->cores = (uint32_t)CPU_COUNT(&cores);
  free(all);
  return status;
}

static int job_join(struct rondo_kit_processes *p, struct rondo_config *config) {
  config->report_on_timeout = 0;
  p->mine = calloc(1, PIECE_BYTES);
  p->all = calloc(p->count, PIECE_BYTES);
  if (!p->mine || !p->all)
    return status_print(p, "memory", RONDO_ERR_NO_MEMORY);
  int status = status_print(p, "rondo_init", rondo_init(&p->context, config));
  if (status != RONDO_SUCCESS)
    return status;
  struct rondo_collective_desc d = rondo_all_gather(1, PIECE_BYTES, RONDO_UINT8);
  status = status_print(p, "rondo_register", rondo_register(p->context, &d, &p->gather));
  if (status == RONDO_SUCCESS)
    status = cores_gather(p);
  if (status != RONDO_SUCCESS)
    (void)rondo_destroy(p->context, RONDO_DESTROY_ABORT, LEAVE_NS);
  return status;
}

static void processes_free(struct rondo_kit_processes *p) {
  free(p->mine);
  free(p->all);
  free(p);
}

int rondo_kit_processes_open(struct rondo_kit_processes **processes) {
  struct rondo_config config = RONDO_CONFIG_INIT;
  *processes = NULL;
  if (!environment_has_launcher())
    return RONDO_SUCCESS;
  config.rank_count = RONDO_RANKS_OF_LAUNCHER;
  int status = rondo_config_complete(&config);
  if (status != RONDO_SUCCESS || config.rank_count == 1)
    return status;
  struct rondo_kit_processes *p = calloc(1, sizeof *p);
  if (!p)
    return RONDO_ERR_NO_MEMORY;
  p->rank = config.rank;
  p->count = config.rank_count;
  status = job_join(p, &config);
  if (status != RONDO_SUCCESS) {
    processes_free(p);
    return status;
  }
  if (p->rank > 0 && !freopen("/dev/null", "w", stdout))
    fprintf(stderr, "rank %u: %s\n", p->rank, strerror(errno));
  opened = p;
  *processes = p;
  return RONDO_SUCCESS;
}

void rondo_kit_processes_close(struct rondo_kit_processes *p) {
  if (!p)
    return;
  opened = NULL;
  (void)rondo_destroy(p->context, p->is_stuck ? RONDO_DESTROY_ABORT : RONDO_DESTROY_DRAIN,
                      LEAVE_NS);
  processes_free(p);
}

uint32_t rondo_kit_processes_rank(const struct rondo_kit_processes *p) { return p ? p->rank : 0; }
uint32_t rondo_kit_processes_count(const struct rondo_kit_processes *p) { return p->count; }
uint32_t rondo_kit_processes_cores(const struct rondo_kit_processes *p) {
  return p ? p->cores : rondo_kit_core_count();
}

// -------------------------------------------------------------------- gather ---

static int piece_gather(struct rondo_kit_processes *p, bool (*stop)(void)) {
  uint64_t until_ns = 0;
  int status = rondo_run(p->context, p->gather, p->mine, p->all, NULL, NULL);
  if (status == RONDO_SUCCESS)
    status = RONDO_ERR_TIMEOUT;
  while (status == RONDO_ERR_TIMEOUT && (!until_ns || rondo_kit_now_ns() < until_ns)) {
    status = rondo_wait(p->context, p->gather, RONDO_LAST_RUN, SLICE_NS);
    if (!until_ns && stop && stop())
      until_ns = rondo_kit_now_ns() + LAST_NS;
  }
  p->is_stuck = status == RONDO_ERR_TIMEOUT;
  return status_print(p, "rondo_wait", status);
}

int rondo_kit_processes_gather(struct rondo_kit_processes *p, const void *mine, void *all,
                               size_t bytes, bool (*stop)(void)) {
  for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
    size_t piece = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
    memcpy(p->mine, (const char *)mine + at, piece);
    int status = piece_gather(p, stop);
    if (status != RONDO_SUCCESS)
      return status;
    for (uint32_t r = 0; r < p->count; r++)
      memcpy((char *)all + r * bytes + at, p->all + (size_t)r * PIECE_BYTES, piece);
  }
  return RONDO_SUCCESS;
}

// Gives every rank the bytes of rank 0.
static int first_broadcast(struct rondo_kit_processes *p, void *bytes, size_t size,
                           bool (*stop)(void)) {
  char *all = malloc(p->count * size);
  int status = all ? rondo_kit_processes_gather(p, bytes, all, size, stop) : RONDO_ERR_NO_MEMORY;
  if (status == RONDO_SUCCESS)
    memcpy(bytes, all, size);
  free(all);
  return status;
}

int rondo_kit_processes_new_id(struct rondo_kit_processes *p, struct rondo_unique_id *id,
                               bool (*stop)(void)) {
  struct {
    struct rondo_unique_id id;
    int status;
  } first = {.status = RONDO_SUCCESS};
  if (p->rank == 0)
    first.status =
        status_print(p, "rondo_unique_id_listen", rondo_unique_id_listen(&first.id, NULL));
  int status = first_broadcast(p, &first, sizeof first, stop);
  if (status == RONDO_SUCCESS)
    status = first.status;
  *id = first.id;
  return status;
}

// ------------------------------------------------------------- shared memory ---

// `flags`: those of open(2) that create it.
static void *shared_memory_map(const char *name, size_t bytes, int flags) {
  int fd = name[0] ? shm_open(name, O_RDWR | O_CLOEXEC | flags, 0600) : -1;
  if (fd < 0)
    return NULL;
  void *memory = MAP_FAILED;
  if (!flags || posix_fallocate(fd, 0, (off_t)bytes) == 0)
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED ? NULL : memory;
}

static bool memory_is_everywhere(struct rondo_kit_processes *p, const void *memory) {
  char mine = memory != NULL;
  char all[RONDO_MAX_RANKS];
  bool have = rondo_kit_processes_gather(p, &mine, all, 1, NULL) == RONDO_SUCCESS;
  for (uint32_t r = 0; have && r < p->count; r++)
    have = all[r];
  return have;
}

// The memory has a random name until all have mapped it. On another machine nothing has that name.
void *rondo_kit_processes_share(struct rondo_kit_processes *p, size_t bytes) {
  char name[NAME_BYTES] = "";
  uint64_t token[2];
  void *memory = NULL;
  if (p->rank == 0 && getrandom(token, sizeof token, 0) == (ssize_t)sizeof token) {
    (void)snprintf(name, sizeof name, "/rondo-kit-%016" PRIx64 "%016" PRIx64, token[0], token[1]);
    memory = shared_memory_map(name, bytes, O_CREAT | O_EXCL);
  }
  if (first_broadcast(p, name, sizeof name, NULL) == RONDO_SUCCESS && p->rank > 0)
    memory = shared_memory_map(name, bytes, 0);
  bool have = memory_is_everywhere(p, memory);
  if (p->rank == 0 && name[0])
    (void)shm_unlink(name);
  if (have)
    return memory;
  if (memory)
    munmap(memory, bytes);
  return NULL;
}

bool rondo_kit_processes_is_broken(void) {
  for (uint32_t r = 0; opened && r < opened->count; r++) {
    int transport;
    char why[WHY_BYTES];
    if (rondo_transport(opened->context, r, &transport, why, sizeof why) == RONDO_SUCCESS &&
        transport == RONDO_TRANSPORT_NONE)
      return true;
  }
  return false;
}
