#include "tools/kit/serve.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/types.h>

#include "tools/kit/clock.h"

#define LINE_BYTES 256
#define WAITS 4u
#define WARMUP 4u
#define ITERS_MIN 5u
#define BUFFER_ALIGN 4096u

// Reads the words that may be absent.
static bool optional_words_parse(char **rest, struct rondo_kit_request *request) {
  const char *in_flight = strtok_r(NULL, " \n", rest);
  const char *orders = strtok_r(NULL, " \n", rest);
  const char *wait = strtok_r(NULL, " \n", rest);
  request->in_flight = 1;
  request->orders = RONDO_KIT_ORDERS_ONE;
  request->wait = RONDO_KIT_SERVE_ANY_WAIT;
  if (in_flight &&
      !rondo_kit_read_u32(in_flight, 1, RONDO_KIT_SERVE_IN_FLIGHT, &request->in_flight))
    return false;
  if (orders && !rondo_kit_read_name(RONDO_KIT_ORDERS, orders, &request->orders))
    return false;
  return !wait || rondo_kit_read_u32(wait, 0, WAITS - 1, &request->wait);
}

// Cuts `line` into its words.
static bool request_parse(char *line, struct rondo_kit_request *request) {
  char *rest = NULL;
  const char *kind = strtok_r(line, " \n", &rest);
  const char *bytes = strtok_r(NULL, " \n", &rest);
  const char *place = strtok_r(NULL, " \n", &rest);
  const char *budget = strtok_r(NULL, " \n", &rest);
  uint32_t in_place;
  uint64_t budget_ms;
  if (!budget || !rondo_kit_read_name(RONDO_KIT_KIND, kind, &request->kind) ||
      !rondo_kit_shape_is_kind(request->kind) || // the peers have no counterpart of the others
      !rondo_kit_read_number(bytes, 1, 1ull << 40, &request->bytes) ||
      !rondo_kit_read_u32(place, 0, 1, &in_place) ||
      !rondo_kit_read_number(budget, 1, 1000000, &budget_ms))
    return false;
  request->in_place = in_place == 1;
  request->budget_ns = budget_ms * RONDO_KIT_MILLISECOND_NS;
  return optional_words_parse(&rest, request);
}

bool rondo_kit_serve_next(struct rondo_kit_request *request) {
  char line[LINE_BYTES];
  while (fgets(line, sizeof(line), stdin)) {
    if (request_parse(line, request))
      return true;
    rondo_kit_serve_error("not a request: collective, bytes, in place, milliseconds, in flight, "
                          "orders, wait");
  }
  return false;
}

bool rondo_kit_serve_is_plain(const struct rondo_kit_request *request) {
  return request->in_flight == 1 && request->wait == RONDO_KIT_SERVE_ANY_WAIT;
}

struct rondo_kit_schedule rondo_kit_serve_schedule(const struct rondo_kit_request *request) {
  struct rondo_kit_schedule schedule = {.warmup = WARMUP,
                                        .iters_min = ITERS_MIN,
                                        .iters_max = RONDO_KIT_SERVE_CAPACITY,
                                        .batch = 1,
                                        .budget_ns = request->budget_ns};
  return schedule;
}

void rondo_kit_serve_ready(const char *what) {
  printf("{\"ready\":\"%s\"}\n", what);
  fflush(stdout);
}

void rondo_kit_serve_error(const char *what) {
  printf("{\"error\":\"%s\"}\n", what);
  fflush(stdout);
}

void rondo_kit_serve_answer(const struct rondo_kit_request *request, uint64_t actual_bytes,
                            const struct rondo_kit_stats *stats, uint64_t wrong) {
  printf("{\"op\":\"%s\",\"bytes\":%" PRIu64 ",\"in_place\":%d,\"in_flight\":%" PRIu32
         ",\"iters\":%zu,\"median_ns\":%.1f,"
         "\"middle_ns\":%.1f,\"mean_ns\":%.1f,\"min_ns\":%.1f,\"p99_ns\":%.1f,\"wrong\":%" PRIu64
         "}\n",
         rondo_kind_name(request->kind), actual_bytes, request->in_place ? 1 : 0,
         request->in_flight, stats->count, stats->median_ns, stats->middle_ns, stats->mean_ns,
         stats->min_ns, stats->p99_ns, wrong);
  fflush(stdout);
}

// ----------------------------------------------------------------- a whole program ---

static struct rondo_kit_measurement *served_measurement(struct rondo_kit_served *shared) {
  return (struct rondo_kit_measurement *)(shared + 1);
}

size_t rondo_kit_served_bytes(uint32_t rank_count) {
  size_t bytes = sizeof(struct rondo_kit_served) +
                 rondo_kit_measurement_bytes(rank_count, RONDO_KIT_SERVE_CAPACITY);
  return (bytes + 127) / 128 * 128;
}

void rondo_kit_served_init(struct rondo_kit_served *shared, uint32_t rank_count, uint32_t cores) {
  shared->rank_count = rank_count;
  rondo_kit_barrier_init(&shared->barrier, rank_count, cores);
  rondo_kit_measurement_init(served_measurement(shared), rank_count, RONDO_KIT_SERVE_CAPACITY,
                             cores);
}

struct rondo_kit_shape rondo_kit_serve_shape(const struct rondo_kit_request *request,
                                             uint32_t rank_count) {
  struct rondo_kit_shape shape = {request->kind, RONDO_FLOAT32, RONDO_SUM, rank_count, 0, 0, 0};
  rondo_kit_shape_size(&shape, request->bytes);
  return shape;
}

void rondo_kit_buffers_grow(struct rondo_kit_buffers *buffers, size_t bytes) {
  char **const all[] = {&buffers->master, &buffers->send, &buffers->recv};
  size_t rounded = (bytes + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
  for (size_t i = 0; rounded > buffers->bytes && i < 3; i++) {
    free(*all[i]);
    *all[i] = aligned_alloc(BUFFER_ALIGN, rounded);
    if (!*all[i]) {
      fprintf(stderr, "%s: no memory\n", program_invocation_short_name);
      exit(1);
    }
    memset(*all[i], 0, rounded);
  }
  buffers->bytes = rounded > buffers->bytes ? rounded : buffers->bytes;
}

void rondo_kit_buffers_free(struct rondo_kit_buffers *buffers) {
  free(buffers->master);
  free(buffers->send);
  free(buffers->recv);
}

static bool server_fetch(const struct rondo_kit_server *server) {
  struct rondo_kit_request *request = &server->shared->request;
  atomic_store(&server->shared->wrong, 0);
  while (rondo_kit_serve_next(request)) {
    const char *missing = server->lacks(request);
    if (!missing)
      return true;
    rondo_kit_serve_error(missing);
  }
  return false;
}

static void server_answer(const struct rondo_kit_server *server) {
  struct rondo_kit_served *shared = server->shared;
  struct rondo_kit_measurement *measurement = served_measurement(shared);
  struct rondo_kit_shape shape = rondo_kit_serve_shape(&shared->request, shared->rank_count);
  if (measurement->failed) {
    rondo_kit_serve_error(server->failure);
    return;
  }
  struct rondo_kit_stats stats = rondo_kit_measure_stats(measurement);
  rondo_kit_serve_answer(&shared->request, rondo_kit_shape_bytes(&shape), &stats, shared->wrong);
}

void rondo_kit_serve(const struct rondo_kit_server *server) {
  struct rondo_kit_served *shared = server->shared;
  for (;;) {
    if (server->rank == 0)
      shared->has_request = server_fetch(server);
    rondo_kit_barrier_wait(&shared->barrier); // sleeps, so that an idle program disturbs nobody
    if (!shared->has_request)
      return;
    struct rondo_kit_schedule schedule = rondo_kit_serve_schedule(&shared->request);
    struct rondo_kit_driver driver = server->prepare(server->arg, server->rank, &shared->request);
    rondo_kit_measure(served_measurement(shared), server->rank, &schedule, &driver);
    if (server->wrong)
      shared->wrong += server->wrong(server->arg, server->rank);
    rondo_kit_barrier_wait(&shared->barrier);
    if (server->rank == 0)
      server_answer(server);
  }
}
