#include "tests/support/hand_mesh.h"

#include <pthread.h>
#include <string.h>

#define MOST_ALARMS 64u // more are not kept: they would come too late

struct alarm {
  void (*call)(void *arg);
  void *arg;
};

struct rondo_hand_mesh rondo_hand_mesh;
static pthread_mutex_t alarms_lock = PTHREAD_MUTEX_INITIALIZER;
static struct alarm alarms[MOST_ALARMS];
static uint32_t alarm_count;

static bool is_needed(const struct rondo_config *cfg) {
  (void)cfg;
  return 1;
}

static int start(const struct rondo_config *cfg, const struct rondo_topology_place *place,
                 const struct rondo_members_events *events, void *arg, struct rondo_members **out) {
  (void)cfg, (void)place;
  rondo_hand_mesh.events = *events;
  rondo_hand_mesh.arg = arg;
  *out = (struct rondo_members *)&rondo_hand_mesh;
  return RONDO_SUCCESS;
}

static int add_rank(struct rondo_members *m, uint32_t rank,
                    const struct rondo_topology_place *place) {
  (void)m, (void)rank, (void)place;
  return RONDO_SUCCESS;
}

static void remove_rank(struct rondo_members *m, uint32_t rank) { (void)m, (void)rank; }

static uint32_t self(struct rondo_members *m) {
  (void)m;
  return 0;
}

static uint32_t process_count(struct rondo_members *m) {
  (void)m;
  return 2;
}

static uint32_t process_of(struct rondo_members *m, uint32_t rank) {
  (void)m;
  return rank > 0;
}

static bool is_same_machine(struct rondo_members *m, uint32_t process) {
  (void)m, (void)process;
  return !rondo_hand_mesh.is_remote;
}

// Nobody knows where another process runs: none of these competes for cores.
static int process_get(struct rondo_members *m, uint32_t process,
                       struct rondo_members_process *out) {
  (void)m, (void)process, (void)out;
  return RONDO_ERR_UNKNOWN;
}

static uint32_t address_of(struct rondo_members *m, uint32_t process,
                           struct sockaddr_storage *out) {
  (void)m, (void)process, (void)out;
  return 0;
}

static int send_nothing(struct rondo_members *m, const struct rondo_mesh_send *message) {
  (void)m;
  if (rondo_hand_mesh.sent)
    rondo_hand_mesh.sent(message);
  return RONDO_SUCCESS;
}

static int after(struct rondo_members *m, uint64_t delay_ns, void (*call)(void *arg), void *arg) {
  (void)m, (void)delay_ns;
  pthread_mutex_lock(&alarms_lock);
  if (alarm_count < MOST_ALARMS)
    alarms[alarm_count++] = (struct alarm){call, arg};
  pthread_mutex_unlock(&alarms_lock);
  return RONDO_SUCCESS;
}

static void stop(struct rondo_members *m, int64_t timeout_ns, int64_t join_ns) {
  (void)m, (void)timeout_ns, (void)join_ns;
}

static const struct rondo_members_calls calls = {.is_needed = is_needed,
                                                 .start = start,
                                                 .add_rank = add_rank,
                                                 .remove_rank = remove_rank,
                                                 .self = self,
                                                 .process_count = process_count,
                                                 .process_of = process_of,
                                                 .is_same_machine = is_same_machine,
                                                 .process_get = process_get,
                                                 .address_of = address_of,
                                                 .send = send_nothing,
                                                 .after = after,
                                                 .stop = stop};

void rondo_hand_mesh_put(void) {
  memset(&rondo_hand_mesh, 0, sizeof rondo_hand_mesh);
  alarm_count = 0;
  rondo_members_calls = &calls;
}

void rondo_hand_mesh_say(uint32_t type, const void *bytes, size_t size, int fd) {
  struct rondo_mesh_message message = {
      .from = 1, .type = type, .bytes = bytes, .size = size, .fds = &fd, .fd_count = fd >= 0};
  rondo_hand_mesh.events.receive(rondo_hand_mesh.arg, &message);
}

void rondo_hand_mesh_ring(void) {
  struct alarm due[MOST_ALARMS];
  pthread_mutex_lock(&alarms_lock);
  uint32_t count = alarm_count;
  memcpy(due, alarms, count * sizeof *due);
  alarm_count = 0;
  pthread_mutex_unlock(&alarms_lock);
  for (uint32_t i = 0; i < count; i++)
    due[i].call(due[i].arg);
}
