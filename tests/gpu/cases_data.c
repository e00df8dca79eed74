// Results: every kind, type and reduction against known results, and against the host backend.
#include <stdlib.h>
#include <string.h>

#include <rondo/comm.h>

#include "tests/gpu/job.h"
#include "tests/support/combinations.h"
#include "tools/kit/shape.h"

#define GUARD 0xa5
#define GUARD_BYTES 64u
#define AREA_BYTES (UINT64_C(1) << 21)

// Memory of one rank, used again by every case: allocating would wait for the device.
struct area {
  uint64_t send, recv;
};

static unsigned char *scratch; // AREA_BYTES of the host

static void areas_open(const struct job *j, struct area *areas) {
  for (uint32_t r = 0; r < j->ranks; r++) {
    gpu_use(j->device[r]);
    areas[r].send = gpu_memory(AREA_BYTES);
    areas[r].recv = gpu_memory(AREA_BYTES);
  }
  scratch = malloc(AREA_BYTES);
  CHECK(scratch != NULL);
}

static void areas_close(const struct job *j, const struct area *areas) {
  for (uint32_t r = 0; r < j->ranks; r++) {
    gpu_use(j->device[r]);
    gpu_release(areas[r].send);
    gpu_release(areas[r].recv);
  }
  gpu_use(0);
  free(scratch);
}

static void random_bytes(unsigned char *bytes, uint64_t count) {
  for (uint64_t i = 0; i < count; i++)
    bytes[i] = (unsigned char)gpu_random(256);
}

// ------------------------------------------------------------------------- matrix --

struct matrix_case {
  struct rondo_kit_shape shape;
  int is_in_place;
  uint64_t misaligned; // bytes from a boundary to the start of the buffers
};

static struct matrix_case random_case(uint32_t i, uint32_t ranks) {
  static const uint64_t counts[] = {0, 1, 2, 3, 5, 17, 64, 127, 1000, 4099, 20011};
  struct matrix_case m = {.shape = rondo_test_combination(i)};
  m.shape.rank_count = ranks;
  m.shape.root = (uint32_t)gpu_random(ranks);
  m.shape.count = counts[gpu_random(sizeof counts / sizeof *counts)];
  m.is_in_place = (int)gpu_random(2) && rondo_kit_shape_may_be_in_place(&m.shape);
  m.misaligned = gpu_random(3) * rondo_dtype_bytes(m.shape.dtype);
  return m;
}

static uint64_t received_bytes(const struct matrix_case *m) {
  return m->is_in_place ? rondo_kit_shape_bytes(&m->shape) : rondo_kit_shape_recv_bytes(&m->shape);
}

static struct rondo_kit_place place_of(const struct matrix_case *m, uint32_t rank,
                                       const struct area *a) {
  char *send = (char *)gpu_pointer(a->send) + m->misaligned;
  char *recv = (char *)gpu_pointer(a->recv) + GUARD_BYTES + m->misaligned;
  return rondo_kit_shape_place(&m->shape, rank, m->is_in_place, send, recv);
}

static void fill(const struct matrix_case *m, uint32_t rank, const struct area *a) {
  struct rondo_kit_place p = place_of(m, rank, a);
  uint64_t bytes = rondo_kit_shape_send_bytes(&m->shape);
  CUDA(cuMemsetD8(a->recv, GUARD, received_bytes(m) + m->misaligned + 2 * (size_t)GUARD_BYTES));
  rondo_kit_shape_fill(&m->shape, rank, m->shape.count, scratch);
  if (bytes)
    CUDA(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)p.send, scratch, bytes));
}

// The result, and that nothing beside it was written.
static void check(const struct matrix_case *m, uint32_t rank, const struct area *a) {
  struct rondo_kit_place p = place_of(m, rank, a);
  uint64_t before = GUARD_BYTES + m->misaligned;
  uint64_t end = before + received_bytes(m);
  CUDA(cuMemcpyDtoH(scratch, a->recv, end + GUARD_BYTES));
  const unsigned char *received = scratch + ((uint64_t)(uintptr_t)p.recv - a->recv);
  CHECK(rondo_kit_shape_wrong(&m->shape, rank, m->shape.count, received) == 0);
  for (uint64_t i = 0; i < GUARD_BYTES; i++)
    CHECK(scratch[i] == GUARD && scratch[before - 1 - i] == GUARD && scratch[end + i] == GUARD);
}

static void run_case(struct job *j, const struct area *areas, uint64_t id,
                     const struct matrix_case *m) {
  struct rondo_collective colls[MAX_RANKS];
  for (uint32_t r = 0; r < j->ranks; r++) {
    struct rondo_collective_desc d = rondo_kit_shape_desc(&m->shape, id, r);
    OK(rondo_register(j->ctx[r], &d, &colls[r]));
    gpu_use(j->device[r]);
    fill(m, r, &areas[r]);
  }
  for (uint32_t r = 0; r < j->ranks; r++) {
    struct rondo_kit_place p = place_of(m, r, &areas[r]);
    OK(rondo_run(j->ctx[r], colls[r], p.send, p.recv, NULL, NULL));
  }
  job_await(j, colls);
  for (uint32_t r = 0; r < j->ranks; r++) {
    gpu_use(j->device[r]);
    check(m, r, &areas[r]);
    OK(rondo_deregister(j->ctx[r], colls[r]));
  }
}

// Every `step`-th combination, beginning with another one for each number of ranks.
static void matrix(uint32_t ranks, int devices, uint32_t step) {
  struct job j;
  struct area areas[MAX_RANKS] = {{0}};
  job_open(&j, ranks, devices, NULL);
  areas_open(&j, areas);
  for (uint32_t i = ranks % step; i < RONDO_TEST_COMBINATIONS; i += step) {
    struct matrix_case m = random_case(i, ranks);
    run_case(&j, areas, i, &m);
  }
  areas_close(&j, areas);
  job_close(&j);
}

void case_matrix(void) {
  for (uint32_t ranks = 1; ranks <= MAX_RANKS; ranks++)
    matrix(ranks, 1, (uint32_t)gpu_load(1, 23));
}

// Ranks on all devices that there are, whether they reach each other's memory or not.
void case_devices(void) {
  if (gpu.device_count < 2) {
    printf("devices: there is one device only\n");
    exit(77);
  }
  for (uint32_t ranks = 2; ranks <= MAX_RANKS; ranks += 3)
    matrix(ranks, gpu.device_count, (uint32_t)gpu_load(3, 23));
}

// --------------------------------------------------------------------------- bits --

// Two jobs of as many blocks and with the same algorithms: one plan, so the order of arithmetic is
// the same. Each backend by itself would choose what is fast there.
struct twins {
  struct job host, device;
  struct area areas[MAX_RANKS];
  unsigned char *send[MAX_RANKS], *recv[MAX_RANKS]; // of the job on the host
};

static void twins_open(struct twins *t, uint32_t ranks) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  c.blocks = 2;
  CHECK(setenv("RONDO_ALGO",
               "all_reduce=direct:8K,ring,all_gather=ring,reduce_scatter=direct:8K,ring,"
               "reduce=direct:8K,ring,broadcast=ring",
               1) == 0);
  job_open(&t->host, ranks, 1, &c);
  c.backend = RONDO_BACKEND_CUDA;
  job_open(&t->device, ranks, 1, &c);
  CHECK(unsetenv("RONDO_ALGO") == 0);
  areas_open(&t->device, t->areas);
  for (uint32_t r = 0; r < ranks; r++) {
    t->send[r] = malloc(AREA_BYTES);
    t->recv[r] = malloc(AREA_BYTES);
    CHECK(t->send[r] && t->recv[r]);
  }
}

static void twins_close(struct twins *t) {
  for (uint32_t r = 0; r < t->host.ranks; r++) {
    free(t->send[r]);
    free(t->recv[r]);
  }
  areas_close(&t->device, t->areas);
  job_close(&t->device);
  job_close(&t->host);
}

static void twins_submit(struct twins *t, const struct rondo_kit_shape *s, uint64_t id,
                         struct rondo_collective colls[2][MAX_RANKS]) {
  uint64_t send_bytes = rondo_kit_shape_send_bytes(s);
  for (uint32_t r = 0; r < t->host.ranks; r++) {
    struct area *a = &t->areas[r];
    struct rondo_collective_desc d = rondo_kit_shape_desc(s, id, r);
    d.scalar = 0.3;
    OK(rondo_register(t->host.ctx[r], &d, &colls[0][r]));
    OK(rondo_register(t->device.ctx[r], &d, &colls[1][r]));
    random_bytes(t->send[r], send_bytes);
    CUDA(cuMemcpyHtoD(a->send, t->send[r], send_bytes));
    OK(rondo_run(t->host.ctx[r], colls[0][r], t->send[r], t->recv[r], NULL, NULL));
    OK(rondo_run(t->device.ctx[r], colls[1][r], gpu_pointer(a->send), gpu_pointer(a->recv), NULL,
                 NULL));
  }
}

static void twins_agree(struct twins *t, const struct rondo_kit_shape *s, uint64_t id) {
  struct rondo_collective colls[2][MAX_RANKS] = {0};
  twins_submit(t, s, id, colls);
  job_await(&t->host, colls[0]);
  job_await(&t->device, colls[1]);
  for (uint32_t r = 0; r < t->host.ranks; r++) {
    uint64_t bytes = rondo_kit_shape_checked(s, r) * rondo_dtype_bytes(s->dtype);
    if (bytes)
      CUDA(cuMemcpyDtoH(scratch, t->areas[r].recv, bytes));
    CHECK(memcmp(scratch, t->recv[r], bytes) == 0);
    OK(rondo_deregister(t->host.ctx[r], colls[0][r]));
    OK(rondo_deregister(t->device.ctx[r], colls[1][r]));
  }
}

// Random bits: values of every size, denormal numbers, infinities and NaN.
void case_bits(void) {
  uint32_t step = (uint32_t)gpu_load(1, 31);
  for (uint32_t ranks = 1; ranks <= MAX_RANKS; ranks++) {
    struct twins t = {0};
    twins_open(&t, ranks);
    for (uint32_t i = ranks % step; i < RONDO_TEST_COMBINATIONS; i += step) {
      struct rondo_kit_shape s = rondo_test_combination(i);
      s.rank_count = ranks;
      s.root = (uint32_t)gpu_random(ranks);
      s.count = 1 + gpu_random(5000);
      twins_agree(&t, &s, i);
    }
    for (uint32_t i = 0; i < 4; i++) {
      struct rondo_kit_shape s = {.kind = RONDO_ALL_REDUCE,
                                  .dtype = RONDO_FLOAT32,
                                  .redop = i % 2 ? RONDO_AVG : RONDO_SUM,
                                  .rank_count = ranks,
                                  .count = 2049 + gpu_random(5000), // not direct
                                  .quantisation = 1 + (int)i / 2};
      twins_agree(&t, &s, RONDO_TEST_COMBINATIONS + i);
    }
    twins_close(&t);
  }
}

// -------------------------------------------------------------------------- kinds --

#define PART 3000u // elements, at most, from one rank to another

static int32_t value_of(uint32_t from, uint32_t to, uint64_t i) {
  return (int32_t)(from * 1000003 + to * 10007 + i);
}

static uint64_t place_of_part(uint64_t memory, uint32_t part) {
  return memory + (uint64_t)part * PART * sizeof(int32_t);
}

// One side of a send-recv. A rank that sends to itself registers and runs it once.
struct side {
  struct job *j;
  const struct area *area;
  uint32_t rank, from, to;
};

static struct rondo_collective submit_side(const struct side *s) {
  int32_t *values = (int32_t *)(void *)scratch;
  uint64_t send = place_of_part(s->area->send, s->to);
  uint64_t recv = place_of_part(s->area->recv, s->from);
  struct rondo_collective coll = {0};
  struct rondo_collective_desc d =
      rondo_send_recv(s->from * MAX_RANKS + s->to, PART, RONDO_INT32, s->from, s->to);
  OK(rondo_register(s->j->ctx[s->rank], &d, &coll));
  if (s->rank == s->from) {
    for (uint64_t i = 0; i < PART; i++)
      values[i] = value_of(s->from, s->to, i);
    CUDA(cuMemcpyHtoD(send, values, PART * sizeof(int32_t)));
  }
  OK(rondo_run(s->j->ctx[s->rank], coll, s->rank == s->from ? gpu_pointer(send) : NULL,
               s->rank == s->to ? gpu_pointer(recv) : NULL, NULL, NULL));
  return coll;
}

static void check_part(uint64_t memory, uint32_t from, uint32_t to, uint64_t count) {
  int32_t *values = (int32_t *)(void *)scratch;
  CUDA(cuMemcpyDtoH(values, memory, PART * sizeof(int32_t)));
  for (uint64_t i = 0; i < PART; i++)
    CHECK(values[i] == (i < count ? value_of(from, to, i) : 0));
}

// Everybody sends to everybody by send-recv, in an order of its own.
static void send_and_receive(struct job *j, const struct area *areas) {
  struct rondo_collective colls[MAX_RANKS][MAX_RANKS][2] = {0}; // sender, receiver, side
  for (uint32_t n = 0; n < 2 * j->ranks * j->ranks; n++) {
    uint32_t rank = n / (2 * j->ranks), k = n % (2 * j->ranks);
    uint32_t step = rank % 2 ? k / 2 : j->ranks - 1 - k / 2;
    uint32_t other = (rank + step) % j->ranks;
    uint32_t is_receiver = (k + rank) % 2;
    struct side s = {j, &areas[rank], rank, is_receiver ? other : rank, is_receiver ? rank : other};
    if (s.from != s.to || !is_receiver)
      colls[s.from][s.to][is_receiver] = submit_side(&s);
  }
  for (uint32_t n = 0; n < j->ranks * j->ranks; n++) {
    uint32_t from = n / j->ranks, to = n % j->ranks;
    OK(rondo_wait(j->ctx[from], colls[from][to][0], RONDO_LAST_RUN, LONG_NS));
    if (from != to)
      OK(rondo_wait(j->ctx[to], colls[from][to][1], RONDO_LAST_RUN, LONG_NS));
    check_part(place_of_part(areas[to].recv, from), from, to, PART);
  }
}

static uint64_t uneven(uint32_t round, uint32_t from, uint32_t to) {
  static const uint64_t some[] = {0, 1, PART, 17, 0, 1023, 2048};
  return some[(round + from * 3 + to * 5) % 7];
}

// What a rank exchanges in a round. Parts lie backwards.
struct exchange {
  uint64_t counts[2][MAX_RANKS], places[MAX_RANKS];
};

// Fills what rank `rank` sends.
static void fill_uneven(const struct job *j, const struct area *a, uint32_t rank, uint32_t round,
                        struct exchange *x) {
  int32_t *values = (int32_t *)(void *)scratch;
  uint64_t bytes = (uint64_t)j->ranks * PART * sizeof(int32_t);
  memset(scratch, 0, bytes);
  for (uint32_t i = 0; i < j->ranks; i++) {
    x->counts[0][i] = uneven(round, rank, i);
    x->counts[1][i] = uneven(round, i, rank);
    x->places[i] = (uint64_t)(j->ranks - 1 - i) * PART;
    for (uint64_t k = 0; k < x->counts[0][i]; k++)
      values[x->places[i] + k] = value_of(rank, i, k);
  }
  CUDA(cuMemcpyHtoD(a->send, values, bytes));
  CUDA(cuMemsetD8(a->recv, 0, bytes));
}

static struct rondo_collective_desc describe_uneven(uint64_t id, const struct exchange *x) {
  return rondo_all_to_all_v(id, RONDO_INT32, x->counts[0], x->places, x->counts[1], x->places);
}

static void check_uneven(const struct job *j, const struct area *areas, uint32_t round) {
  for (uint32_t n = 0; n < j->ranks * j->ranks; n++) {
    uint32_t from = n / j->ranks, to = n % j->ranks;
    check_part(place_of_part(areas[to].recv, j->ranks - 1 - from), from, to,
               uneven(round, from, to));
  }
}

// All-to-all-v: parts of every size, each at a place of its own.
static void exchange_uneven(struct job *j, const struct area *areas) {
  struct rondo_collective colls[MAX_RANKS];
  struct exchange x;
  for (uint32_t r = 0; r < j->ranks; r++) {
    fill_uneven(j, &areas[r], r, 0, &x);
    struct rondo_collective_desc d = describe_uneven(1000, &x);
    OK(rondo_register(j->ctx[r], &d, &colls[r]));
    OK(rondo_run(j->ctx[r], colls[r], gpu_pointer(areas[r].send), gpu_pointer(areas[r].recv), NULL,
                 NULL));
  }
  job_await(j, colls);
  check_uneven(j, areas, 0);
}

// The same by the order of calls, with other sizes in each.
static void exchange_in_order(struct job *j, const struct area *areas) {
  const struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  struct rondo_comm comms[MAX_RANKS];
  struct exchange x;
  for (uint32_t r = 0; r < j->ranks; r++)
    OK(rondo_comm_create(j->ctx[r], &cfg, &comms[r]));
  for (uint32_t round = 0; round < 7; round++) {
    for (uint32_t r = 0; r < j->ranks; r++) {
      fill_uneven(j, &areas[r], r, round, &x);
      struct rondo_collective_desc d = describe_uneven(0, &x);
      struct rondo_run_args args = {gpu_pointer(areas[r].send), gpu_pointer(areas[r].recv), NULL,
                                    NULL};
      OK(rondo_comm_call(j->ctx[r], comms[r], &d, &args, NULL));
    }
    for (uint32_t r = 0; r < j->ranks; r++)
      OK(rondo_comm_wait(j->ctx[r], comms[r], NULL, LONG_NS));
    check_uneven(j, areas, round);
  }
  for (uint32_t r = 0; r < j->ranks; r++)
    OK(rondo_comm_destroy(j->ctx[r], comms[r], RONDO_DESTROY_DRAIN, LONG_NS));
}

// A barrier ends when the last member has come, and not before.
static void meet_once(struct job *j, const struct rondo_collective *colls, uint32_t last) {
  for (uint32_t i = 1; i <= j->ranks; i++) {
    uint32_t rank = (last + i) % j->ranks;
    OK(rondo_run(j->ctx[rank], colls[rank], NULL, NULL, NULL, NULL));
    if (i < j->ranks)
      CHECK(rondo_test(j->ctx[rank], colls[rank], RONDO_LAST_RUN) == RONDO_IN_PROGRESS);
  }
  job_await(j, colls);
}

static void meet(struct job *j) {
  struct rondo_collective colls[MAX_RANKS];
  struct rondo_collective_desc d = rondo_barrier(2000);
  job_register(j, &d, colls);
  for (int round = 0; round < gpu_load(100, 3); round++)
    meet_once(j, colls, (uint32_t)round % j->ranks);
}

// The kinds whose buffers do not follow from a count and a root; the others are in the matrix.
void case_kinds(void) {
  for (uint32_t ranks = 1; ranks <= MAX_RANKS; ranks += (uint32_t)gpu_load(1, 4)) {
    struct job j;
    struct area areas[MAX_RANKS] = {{0}};
    job_open(&j, ranks, 1, NULL);
    areas_open(&j, areas);
    send_and_receive(&j, areas);
    exchange_uneven(&j, areas);
    exchange_in_order(&j, areas);
    meet(&j);
    areas_close(&j, areas);
    job_close(&j);
  }
}
