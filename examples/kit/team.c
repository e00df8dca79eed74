#include "examples/kit/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

struct member {
  struct rondo_kit_crew *crew;
  uint32_t rank;
  pthread_t thread;
};

struct rondo_kit_crew {
  struct rondo_kit_team team;
  pthread_mutex_t lock; // held while starting: members go on only when all are there
  bool cancelled;
  struct member members[];
};

// The set that the process began with: pinning a thread must not shrink what others count.
static cpu_set_t allowed_cores;
static pthread_once_t allowed_once = PTHREAD_ONCE_INIT;

static void read_allowed(void) {
  if (sched_getaffinity(0, sizeof(allowed_cores), &allowed_cores) != 0) {
    CPU_ZERO(&allowed_cores);
    CPU_SET(0, &allowed_cores);
  }
}

uint32_t rondo_kit_core_count(void) {
  pthread_once(&allowed_once, read_allowed);
  int count = CPU_COUNT(&allowed_cores);
  return count > 0 ? (uint32_t)count : 1;
}

struct rondo_kit_cores rondo_kit_cores_own(void) {
  struct rondo_kit_cores cores = {{0}};
  pthread_once(&allowed_once, read_allowed);
  for (size_t core = 0; core < CPU_SETSIZE && core / 64 < 16; core++)
    if (CPU_ISSET(core, &allowed_cores))
      cores.words[core / 64] |= UINT64_C(1) << core % 64;
  return cores;
}

void rondo_kit_cores_add(struct rondo_kit_cores *cores, const struct rondo_kit_cores *others) {
  for (size_t i = 0; i < 16; i++)
    cores->words[i] |= others->words[i];
}

uint32_t rondo_kit_cores_number(const struct rondo_kit_cores *cores) {
  int number = 0;
  for (size_t i = 0; i < 16; i++)
    number += __builtin_popcountll(cores->words[i]);
  return number > 0 ? (uint32_t)number : 1;
}

void rondo_kit_pin(uint32_t index) {
  uint32_t left = index % rondo_kit_core_count();
  for (size_t core = 0; core < CPU_SETSIZE; core++) {
    if (!CPU_ISSET(core, &allowed_cores))
      continue;
    if (left > 0) {
      left--;
      continue;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
    return;
  }
}

static void *member_main(void *arg) {
  struct member *self = arg;
  struct rondo_kit_crew *crew = self->crew;
  pthread_mutex_lock(&crew->lock);
  bool cancelled = crew->cancelled;
  pthread_mutex_unlock(&crew->lock);
  if (cancelled)
    return NULL;
  if (crew->team.pinned)
    rondo_kit_pin(self->rank);
  crew->team.member(crew->team.arg, self->rank);
  return NULL;
}

static void crew_free(struct rondo_kit_crew *crew, uint32_t started) {
  for (uint32_t r = 0; r < started; r++)
    pthread_join(crew->members[r].thread, NULL);
  pthread_mutex_destroy(&crew->lock);
  free(crew);
}

struct rondo_kit_crew *rondo_kit_team_start(const struct rondo_kit_team *team) {
  size_t bytes = sizeof(struct rondo_kit_crew) + team->count * sizeof(struct member);
  struct rondo_kit_crew *crew = calloc(1, bytes);
  if (!crew)
    return NULL;
  crew->team = *team;
  pthread_mutex_init(&crew->lock, NULL);
  pthread_mutex_lock(&crew->lock);
  uint32_t started = 0;
  while (started < team->count) {
    struct member *m = &crew->members[started];
    m->crew = crew;
    m->rank = started;
    if (pthread_create(&m->thread, NULL, member_main, m) != 0)
      break;
    started++;
  }
  crew->cancelled = started < team->count;
  pthread_mutex_unlock(&crew->lock);
  if (!crew->cancelled)
    return crew;
  crew_free(crew, started);
  return NULL;
}

void rondo_kit_team_join(struct rondo_kit_crew *crew) { crew_free(crew, crew->team.count); }

int rondo_kit_team_run(const struct rondo_kit_team *team) {
  struct rondo_kit_crew *crew = rondo_kit_team_start(team);
  if (!crew)
    return -1;
  rondo_kit_team_join(crew);
  return 0;
}
