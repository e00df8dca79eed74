#include "examples/kit/fleet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "examples/kit/clock.h"
#include "examples/kit/team.h"

#define PIECE_BYTES 1024u // that a rank says at once
#define SLICE_NS (100 * (int64_t)RONDO_KIT_MILLISECOND_NS)
#define LAST_NS (5 * RONDO_KIT_SECOND_NS)
#define LEAVE_NS (5 * (int64_t)RONDO_KIT_SECOND_NS)
#define PATH_BYTES 64u
#define WHY_BYTES 128u

struct rondo_kit_fleet {
  struct rondo_context context;
  struct rondo_collective gather;
  uint32_t rank, count;
  uint32_t cores;
  char *mine, *all; // pieces
  bool is_stuck;    // a gathering was given up
};

// Where rank 0 has memory to be shared, and how to know it again.
struct offer {
  int fd; // of rank 0; negative: it has none
  pid_t pid;
  size_t bytes;
  uint64_t token[2];
};

// The fleet of this process, which has one at most.
static struct rondo_kit_fleet *own;

// ------------------------------------------------------------ open and close ---

static bool is_launched(void) {
  return getenv("RONDO_RANK") || (getenv("RANK") && getenv("MASTER_ADDR")) ||
         getenv("OMPI_COMM_WORLD_RANK") || getenv("PMI_RANK") ||
         (getenv("SLURM_PROCID") && getenv("SLURM_STEP_ID"));
}

static int complain(const struct rondo_kit_fleet *f, const char *call, int status) {
  if (status != RONDO_SUCCESS)
    fprintf(stderr, "rank %u: %s of the fleet: %s (%s)\n", f->rank, call, rondo_status_name(status),
            rondo_status_string(status));
  return status;
}

// Everybody's first words: that they are here, and where they may run.
static int meet(struct rondo_kit_fleet *f) {
  struct rondo_kit_cores cores = rondo_kit_cores_own();
  struct rondo_kit_cores *all = calloc(f->count, sizeof *all);
  int status = all ? rondo_kit_fleet_gather(f, &cores, all, sizeof cores, NULL)
                   : complain(f, "memory", RONDO_ERR_NO_MEMORY);
  for (uint32_t r = 0; r < f->count && status == RONDO_SUCCESS; r++)
    rondo_kit_cores_add(&cores, &all[r]);
  f->cores = rondo_kit_cores_number(&cores);
  free(all);
  return status;
}

static int join(struct rondo_kit_fleet *f, struct rondo_config *config) {
  config->report_on_timeout = 0;
  f->mine = calloc(1, PIECE_BYTES);
  f->all = calloc(f->count, PIECE_BYTES);
  if (!f->mine || !f->all)
    return complain(f, "memory", RONDO_ERR_NO_MEMORY);
  int status = complain(f, "rondo_init", rondo_init(&f->context, config));
  if (status != RONDO_SUCCESS)
    return status;
  struct rondo_collective_desc d = rondo_all_gather(1, PIECE_BYTES, RONDO_UINT8);
  status = complain(f, "rondo_register", rondo_register(f->context, &d, &f->gather));
  if (status == RONDO_SUCCESS)
    status = meet(f);
  if (status != RONDO_SUCCESS)
    (void)rondo_destroy(f->context, RONDO_DESTROY_ABORT, LEAVE_NS);
  return status;
}

static void fleet_free(struct rondo_kit_fleet *f) {
  free(f->mine);
  free(f->all);
  free(f);
}

int rondo_kit_fleet_open(struct rondo_kit_fleet **fleet) {
  struct rondo_config config = RONDO_CONFIG_INIT;
  *fleet = NULL;
  if (!is_launched())
    return RONDO_SUCCESS;
  config.rank_count = RONDO_RANKS_OF_LAUNCHER;
  int status = rondo_config_complete(&config);
  if (status != RONDO_SUCCESS || config.rank_count == 1)
    return status;
  struct rondo_kit_fleet *f = calloc(1, sizeof *f);
  if (!f)
    return RONDO_ERR_NO_MEMORY;
  f->rank = config.rank;
  f->count = config.rank_count;
  status = join(f, &config);
  if (status != RONDO_SUCCESS) {
    fleet_free(f);
    return status;
  }
  if (f->rank > 0 && !freopen("/dev/null", "w", stdout))
    fprintf(stderr, "rank %u: %s\n", f->rank, strerror(errno));
  own = f;
  *fleet = f;
  return RONDO_SUCCESS;
}

void rondo_kit_fleet_close(struct rondo_kit_fleet *f) {
  if (!f)
    return;
  own = NULL;
  (void)rondo_destroy(f->context, f->is_stuck ? RONDO_DESTROY_ABORT : RONDO_DESTROY_DRAIN,
                      LEAVE_NS);
  fleet_free(f);
}

uint32_t rondo_kit_fleet_rank(const struct rondo_kit_fleet *f) { return f->rank; }
uint32_t rondo_kit_fleet_count(const struct rondo_kit_fleet *f) { return f->count; }
uint32_t rondo_kit_fleet_cores(const struct rondo_kit_fleet *f) { return f->cores; }

// -------------------------------------------------------------------- saying ---

static int gather_piece(struct rondo_kit_fleet *f, bool (*stop)(void)) {
  uint64_t until_ns = 0;
  int status = rondo_run(f->context, f->gather, f->mine, f->all, NULL, NULL);
  if (status == RONDO_SUCCESS)
    status = RONDO_ERR_TIMEOUT;
  while (status == RONDO_ERR_TIMEOUT && (!until_ns || rondo_kit_now_ns() < until_ns)) {
    status = rondo_wait(f->context, f->gather, RONDO_LAST_RUN, SLICE_NS);
    if (!until_ns && stop && stop())
      until_ns = rondo_kit_now_ns() + LAST_NS;
  }
  f->is_stuck = status == RONDO_ERR_TIMEOUT;
  return complain(f, "rondo_wait", status);
}

int rondo_kit_fleet_gather(struct rondo_kit_fleet *f, const void *mine, void *all, size_t bytes,
                           bool (*stop)(void)) {
  for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
    size_t piece = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
    memcpy(f->mine, (const char *)mine + at, piece);
    int status = gather_piece(f, stop);
    if (status != RONDO_SUCCESS)
      return status;
    for (uint32_t r = 0; r < f->count; r++)
      memcpy((char *)all + r * bytes + at, f->all + (size_t)r * PIECE_BYTES, piece);
  }
  return RONDO_SUCCESS;
}

// Gives every rank what rank 0 says.
static int hear_first(struct rondo_kit_fleet *f, void *bytes, size_t size, bool (*stop)(void)) {
  char *all = malloc(f->count * size);
  int status = all ? rondo_kit_fleet_gather(f, bytes, all, size, stop) : RONDO_ERR_NO_MEMORY;
  if (status == RONDO_SUCCESS)
    memcpy(bytes, all, size);
  free(all);
  return status;
}

int rondo_kit_fleet_new_id(struct rondo_kit_fleet *f, struct rondo_unique_id *id,
                           bool (*stop)(void)) {
  struct {
    struct rondo_unique_id id;
    int status;
  } said = {.status = RONDO_SUCCESS};
  if (f->rank == 0)
    said.status = complain(f, "rondo_unique_id_listen", rondo_unique_id_listen(&said.id, NULL));
  int status = hear_first(f, &said, sizeof said, stop);
  if (status == RONDO_SUCCESS)
    status = said.status;
  *id = said.id;
  return status;
}

// ------------------------------------------------------------------- sharing ---

static void *make_offer(struct offer *offer, size_t bytes) {
  offer->bytes = bytes;
  offer->pid = getpid();
  offer->fd = memfd_create("rondo-kit", MFD_CLOEXEC);
  void *memory = MAP_FAILED;
  if (offer->fd >= 0 && ftruncate(offer->fd, (off_t)bytes) == 0 &&
      getrandom(offer->token, sizeof offer->token, 0) == (ssize_t)sizeof offer->token)
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, offer->fd, 0);
  if (memory == MAP_FAILED)
    return NULL;
  memcpy(memory, offer->token, sizeof offer->token);
  return memory;
}

// The process of that number may be another one, on another machine: then it does not know the token.
static void *take_offer(const struct offer *offer) {
  char path[PATH_BYTES];
  (void)snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)offer->pid, offer->fd);
  int fd = offer->fd >= 0 ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0)
    return NULL;
  uint64_t token[2] = {0};
  void *memory = MAP_FAILED;
  if (pread(fd, token, sizeof token, 0) == (ssize_t)sizeof token &&
      memcmp(token, offer->token, sizeof token) == 0)
    memory = mmap(NULL, offer->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED ? NULL : memory;
}

static bool all_have(struct rondo_kit_fleet *f, const void *memory) {
  char mine = memory != NULL;
  char all[RONDO_MAX_RANKS];
  bool have = rondo_kit_fleet_gather(f, &mine, all, 1, NULL) == RONDO_SUCCESS;
  for (uint32_t r = 0; have && r < f->count; r++)
    have = all[r];
  return have;
}

void *rondo_kit_fleet_share(struct rondo_kit_fleet *f, size_t bytes) {
  struct offer offer = {.fd = -1};
  void *memory = f->rank == 0 ? make_offer(&offer, bytes) : NULL;
  if (hear_first(f, &offer, sizeof offer, NULL) == RONDO_SUCCESS && f->rank > 0)
    memory = take_offer(&offer);
  bool have = all_have(f, memory);
  if (f->rank == 0 && offer.fd >= 0)
    close(offer.fd);
  if (memory && !have)
    munmap(memory, bytes);
  if (!memory || !have)
    return NULL;
  memset(memory, 0, sizeof offer.token); // by all, before anybody uses it
  char ready = 1;
  char all[RONDO_MAX_RANKS];
  return rondo_kit_fleet_gather(f, &ready, all, 1, NULL) == RONDO_SUCCESS ? memory : NULL;
}

bool rondo_kit_fleet_is_broken(void) {
  for (uint32_t r = 0; own && r < own->count; r++) {
    int transport;
    char why[WHY_BYTES];
    if (rondo_transport(own->context, r, &transport, why, sizeof why) == RONDO_SUCCESS &&
        transport == RONDO_TRANSPORT_NONE)
      return true;
  }
  return false;
}
