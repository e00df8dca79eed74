#include "tests/support/crew.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/condition.h"
#include "tests/support/named.h"

static uint8_t byte_of(uint32_t number, uint32_t at) { return (uint8_t)(number * 31 + at * 7); }

static void on_roster(void *arg) {
  struct rondo_crew_member *m = arg;
  pthread_mutex_lock(&m->crew->lock);
  m->rosters++;
  pthread_cond_broadcast(&m->crew->changed);
  pthread_mutex_unlock(&m->crew->lock);
}

// A message is its number, as its type too, and bytes that follow from it.
static int is_right(struct rondo_crew_member *m, const struct rondo_mesh_message *message) {
  const uint8_t *bytes = message->bytes;
  uint32_t number;
  if (message->from >= 64 || message->size < sizeof number || !m->rosters)
    return 0;
  memcpy(&number, bytes, sizeof number);
  if (number != message->type || number != m->next[message->from]++)
    return 0;
  for (uint32_t i = sizeof number; i < message->size; i++)
    if (bytes[i] != byte_of(number, i))
      return 0;
  return 1;
}

static void on_receive(void *arg, struct rondo_mesh_message *message) {
  struct rondo_crew_member *m = arg;
  pthread_mutex_lock(&m->crew->lock);
  m->received++;
  m->bad += !is_right(m, message) || (uintptr_t)message->bytes % 8;
  m->late += message->from < 64 && (m->lost_bits >> message->from & 1);
  if (message->fd_count) {
    m->fd = message->fds[0];
    message->fds[0] = -1;
  }
  pthread_cond_broadcast(&m->crew->changed);
  pthread_mutex_unlock(&m->crew->lock);
}

static void on_lost(void *arg, const uint32_t *ranks, uint32_t count, int reason,
                    const char *text) {
  struct rondo_crew_member *m = arg;
  pthread_mutex_lock(&m->crew->lock);
  m->lost += count;
  m->received_before = m->received;
  for (uint32_t i = 0; i < count; i++)
    if (ranks[i] < 64)
      m->lost_bits |= UINT64_C(1) << ranks[i];
  m->reason = reason;
  strncpy(m->text, text, sizeof m->text - 1);
  pthread_cond_broadcast(&m->crew->changed);
  pthread_mutex_unlock(&m->crew->lock);
}

void rondo_crew_init(struct rondo_crew *crew, uint32_t size, uint32_t timeout_ms) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  memset(crew, 0, sizeof *crew);
  crew->size = size;
  pthread_mutex_init(&crew->lock, NULL);
  rondo_condition_init(&crew->changed);
  cfg.rank_count = size;
  cfg.join_timeout_ns = (uint64_t)timeout_ms * 1000000;
  strncpy(cfg.interfaces, "=lo", sizeof cfg.interfaces - 1);
  assert_int_equal(rondo_unique_id_listen(&crew->id, &cfg), RONDO_SUCCESS);
  cfg.id = crew->id;
  assert_int_equal(rondo_config_complete(&cfg), RONDO_SUCCESS);
  crew->cfg = cfg;
}

int rondo_crew_start(struct rondo_crew *crew, uint32_t rank) {
  static const struct rondo_members_events events = {
      .roster = on_roster, .receive = on_receive, .lost = on_lost};
  struct rondo_crew_member *m = &crew->members[rank];
  struct rondo_config cfg = crew->cfg;
  cfg.rank = rank;
  m->crew = crew;
  m->rank = rank;
  m->fd = -1;
  return rondo_members_calls->start(&cfg, NULL, &events, m, &m->mesh);
}

void rondo_crew_gather(struct rondo_crew *crew) {
  for (uint32_t r = 0; r < crew->size; r++)
    assert_int_equal(rondo_crew_start(crew, r), RONDO_SUCCESS);
  for (uint32_t r = 0; r < crew->size; r++)
    assert_int_equal(rondo_members_await(crew->members[r].mesh, RONDO_CREW_LONG_NS), RONDO_SUCCESS);
}

static void stop(struct rondo_crew *crew, uint32_t rank, int64_t join_ns) {
  struct rondo_members *mesh = crew->members[rank].mesh;
  crew->members[rank].mesh = NULL;
  if (mesh)
    rondo_members_calls->stop(mesh, RONDO_CREW_LONG_NS, join_ns);
}

void rondo_crew_stop(struct rondo_crew *crew, uint32_t rank) { stop(crew, rank, 0); }

void rondo_crew_stop_last(struct rondo_crew *crew, uint32_t rank) {
  stop(crew, rank, RONDO_CREW_LONG_NS);
}

void rondo_crew_fini(struct rondo_crew *crew) {
  for (uint32_t r = 0; r < crew->size; r++)
    rondo_crew_stop(crew, r);
  pthread_cond_destroy(&crew->changed);
  pthread_mutex_destroy(&crew->lock);
}

int rondo_crew_send(struct rondo_crew *crew, uint32_t from, uint32_t to, uint32_t number,
                    uint32_t size) {
  struct rondo_members *mesh = crew->members[from].mesh;
  uint8_t *bytes = malloc(size);
  assert_non_null(bytes);
  for (uint32_t i = 0; i < size; i++)
    bytes[i] = byte_of(number, i);
  memcpy(bytes, &number, sizeof number);
  struct rondo_mesh_send message = {.to = rondo_members_calls->process_of(mesh, to),
                                    .type = number,
                                    .bytes = bytes,
                                    .size = size};
  int status = rondo_members_calls->send(mesh, &message);
  free(bytes);
  return status;
}

void rondo_crew_await(struct rondo_crew_member *m,
                      int (*is_so)(struct rondo_crew_member *, uint32_t), uint32_t arg) {
  uint64_t end_ns = rondo_now_ns() + RONDO_CREW_LONG_NS;
  int error = 0;
  pthread_mutex_lock(&m->crew->lock);
  while (!is_so(m, arg) && !error)
    error = rondo_condition_wait(&m->crew->changed, &m->crew->lock, end_ns);
  pthread_mutex_unlock(&m->crew->lock);
  assert_int_equal(error, 0);
}

int rondo_crew_has_received(struct rondo_crew_member *m, uint32_t count) {
  return m->received >= count;
}

int rondo_crew_has_lost(struct rondo_crew_member *m, uint32_t count) { return m->lost >= count; }
