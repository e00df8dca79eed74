// Several processes on one device: one maps memory of another, and jobs with a process for each
// rank. The other processes start this program anew, because the CUDA driver does not work after a
// fork.
#include <stdbool.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "daemon/cuda/cuda_driver.h"
#include "runtime/memory/range.h"
#include "tests/gpu/job.h"

#define RANKS 3u
#define ROUNDS 20 // processes take turns on a GPU, a few milliseconds each
#define CHILD_SECONDS 60u
#define WORDS 65536u
#define SKIPPED 77

enum task { TASK_MAP = 1, TASK_RUN = 2, TASK_DIE = 3, TASK_COME_LATE = 4, TASK_JOIN_LATE = 5 };

// The first message to a child; a descriptor may come with it.
struct order {
  uint32_t task, rank;
  uint64_t range_bytes, part_at, part_bytes, at;
  struct rondo_unique_id id;
};

struct child {
  pid_t pid;
  int end; // of a pair of sockets
};

// ------------------------------------------------------------------ children --

static struct child begin_child(void) {
  struct child c;
  int ends[2];
  char number[16];
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
  fflush(NULL);
  c.pid = fork();
  CHECK(c.pid >= 0);
  if (c.pid == 0) {
    close(ends[0]);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(number, sizeof number, "%d", ends[1]);
    (void)execl("/proc/self/exe", "gpu_tests", "--child", number, (char *)NULL);
    _exit(1);
  }
  close(ends[1]);
  c.end = ends[0];
  return c;
}

static void end_child(const struct child *c, int is_killed) {
  int status = 0;
  close(c->end);
  CHECK(waitpid(c->pid, &status, 0) == c->pid);
  if (is_killed)
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  else
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void give_order(const struct child *c, const struct order *order, int fd) {
  struct order copy = *order;
  char control[CMSG_SPACE(sizeof fd)] = {0};
  struct iovec bytes = {&copy, sizeof copy};
  struct msghdr m = {.msg_iov = &bytes, .msg_iovlen = 1};
  if (fd >= 0) {
    m.msg_control = control;
    m.msg_controllen = sizeof control;
    struct cmsghdr *c0 = CMSG_FIRSTHDR(&m);
    c0->cmsg_level = SOL_SOCKET;
    c0->cmsg_type = SCM_RIGHTS;
    c0->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c0), &fd, sizeof fd);
  }
  CHECK(sendmsg(c->end, &m, 0) == (ssize_t)sizeof copy);
}

static int take_order(int end, struct order *order) {
  int fd = -1;
  char control[CMSG_SPACE(sizeof fd)] = {0};
  struct iovec bytes = {order, sizeof *order};
  struct msghdr m = {.msg_iov = &bytes, .msg_iovlen = 1};
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  CHECK(recvmsg(end, &m, MSG_CMSG_CLOEXEC) == (ssize_t)sizeof *order);
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  if (c && c->cmsg_type == SCM_RIGHTS)
    memcpy(&fd, CMSG_DATA(c), sizeof fd);
  return fd;
}

static void say(int end) {
  char byte = 1;
  CHECK(send(end, &byte, 1, 0) == 1);
}

static void receive_signal(int end) {
  char byte;
  CHECK(recv(end, &byte, 1, 0) == 1);
}

// ------------------------------------------------------------------- mapping --

static struct rondo_device *open_device(void) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  char why[RONDO_WHY_BYTES];
  struct rondo_device *device;
  cfg.backend = RONDO_BACKEND_CUDA;
  OK(rondo_cuda_driver.open(&cfg, &device, why));
  return device;
}

static uint32_t word_of(uint32_t seed, uint32_t i) { return (seed + i) * 2654435761u; }

static void write_words(struct rondo_device *device, uint64_t at, uint32_t seed) {
  uint32_t *words = malloc(WORDS * sizeof *words);
  CHECK(words);
  for (uint32_t i = 0; words && i < WORDS; i++)
    words[i] = word_of(seed, i);
  OK(device->driver->write(device, at, words, WORDS * sizeof *words));
  free(words);
}

static void check_words(struct rondo_device *device, uint64_t at, uint32_t seed) {
  uint32_t *words = malloc(WORDS * sizeof *words);
  CHECK(words);
  OK(device->driver->read(device, words, at, WORDS * sizeof *words));
  for (uint32_t i = 0; words && i < WORDS; i++)
    CHECK(words[i] == word_of(seed, i));
  free(words);
}

// Sees what the owner has written, writes, and still sees it when the owner has let go.
static void map_part(int end, const struct order *order, int fd) {
  char why[RONDO_WHY_BYTES] = "";
  struct rondo_range *view = NULL;
  struct rondo_device *device = open_device();
  const struct rondo_range_part part = {order->part_at, order->part_bytes, fd};
  OK(rondo_range_create(device, order->range_bytes, &view, why));
  int status = rondo_range_map(view, &part, 1, why);
  if (status != RONDO_SUCCESS)
    fprintf(stderr, "mapping: %s\n", why);
  OK(status);
  close(fd);
  uint64_t at = rondo_range_base(view) + order->at;
  check_words(device, at, 1);
  write_words(device, at, 2);
  say(end);
  receive_signal(end);
  check_words(device, at, 3);
  rondo_range_destroy(view);
  device->driver->close(device);
}

void case_mapping(void) {
  char why[RONDO_WHY_BYTES] = "";
  struct rondo_range *range = NULL;
  struct rondo_range_part part;
  struct rondo_device *device = open_device();
  if (rondo_range_create(device, 0, &range, why) != RONDO_SUCCESS) {
    printf("mapping: left out: %s\n", why);
    exit(SKIPPED);
  }
  struct child c = begin_child();
  const char *memory = rondo_range_alloc_zeroed(range, device, WORDS * sizeof(uint32_t), why);
  CHECK(memory && rondo_range_part(range, 0, &part));
  uint64_t at = (uint64_t)(uintptr_t)memory;
  struct order order = {.task = TASK_MAP, .range_bytes = rondo_range_bytes(range)};
  order.part_at = part.at;
  order.part_bytes = part.bytes;
  order.at = at - rondo_range_base(range);
  write_words(device, at, 1);
  give_order(&c, &order, part.fd);
  receive_signal(c.end);
  check_words(device, at, 2);
  write_words(device, at, 3);
  rondo_range_destroy(range);
  say(c.end);
  end_child(&c, 0);
  device->driver->close(device);
}

// ------------------------------------------------------------------ processes --

struct member {
  struct rondo_context ctx;
  struct rondo_collective colls[COLLECTIVES];
  void *send[COLLECTIVES], *recv[COLLECTIVES];
  uint32_t rank;
};

// 16 to 16 × 2^14 elements.
static uint32_t count_of(uint32_t c) { return 16u << 2 * c; }

static int32_t input(uint32_t rank, uint32_t c, int round, uint32_t i) {
  return (int32_t)((rank + 1) * 10007u + c * 1009u + (uint32_t)round * 101u + i);
}

static struct rondo_context init_rank(uint32_t rank, uint32_t ranks,
                                      const struct rondo_unique_id *id) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  cfg.backend = RONDO_BACKEND_CUDA;
  cfg.id = *id;
  cfg.rank = rank;
  cfg.rank_count = ranks;
  memcpy(cfg.interfaces, "=lo", sizeof "=lo");
  OK(rondo_init(&ctx, &cfg));
  return ctx;
}

static void join_job(struct member *m, uint32_t rank, const struct rondo_unique_id *id) {
  m->rank = rank;
  m->ctx = init_rank(rank, RANKS, id);
  for (uint32_t c = 0; c < COLLECTIVES; c++) {
    uint64_t bytes = count_of(c) * sizeof(int32_t);
    struct rondo_collective_desc d = rondo_all_reduce(c, count_of(c), RONDO_INT32, RONDO_SUM);
    // Peers read the first in place; the second is copied for them.
    if (c % 2)
      OK(rondo_mem_alloc(m->ctx, bytes, &m->send[c]));
    else
      m->send[c] = gpu_pointer(gpu_memory(bytes));
    OK(rondo_mem_alloc(m->ctx, bytes, &m->recv[c]));
    OK(rondo_register(m->ctx, &d, &m->colls[c]));
  }
}

static void check_output(const struct member *m, uint32_t c, int round, int32_t *values) {
  OK(rondo_mem_copy(m->ctx, values, m->recv[c], count_of(c) * sizeof *values));
  for (uint32_t i = 0; i < count_of(c); i++) {
    int32_t sum = 0;
    for (uint32_t r = 0; r < RANKS; r++)
      sum += input(r, c, round, i);
    CHECK(values[i] == sum);
  }
}

// Every collective once, in an order of this rank's own.
static void run_round(const struct member *m, int round) {
  int32_t *values = malloc(count_of(COLLECTIVES - 1) * sizeof *values);
  CHECK(values);
  for (uint32_t c = 0; values && c < COLLECTIVES; c++) {
    for (uint32_t i = 0; i < count_of(c); i++)
      values[i] = input(m->rank, c, round, i);
    OK(rondo_mem_copy(m->ctx, m->send[c], values, count_of(c) * sizeof *values));
  }
  for (uint32_t i = 0; i < COLLECTIVES; i++) {
    uint32_t c = (i + m->rank * 3 + (uint32_t)round) % COLLECTIVES;
    OK(rondo_run(m->ctx, m->colls[c], m->send[c], m->recv[c], NULL, NULL));
    if (i % 4 == m->rank)
      CUDA(cuCtxSynchronize());
  }
  for (uint32_t c = 0; values && c < COLLECTIVES; c++) {
    OK(rondo_wait(m->ctx, m->colls[c], RONDO_LAST_RUN, LONG_NS));
    check_output(m, c, round, values);
  }
  free(values);
}

static void leave_job(struct member *m, int mode) {
  OK(rondo_destroy(m->ctx, mode, LONG_NS));
  for (uint32_t c = 0; c < COLLECTIVES; c += 2)
    gpu_release((uint64_t)(uintptr_t)m->send[c]);
}

static void run_job(uint32_t rank, const struct rondo_unique_id *id) {
  struct member m;
  join_job(&m, rank, id);
  for (int round = 0; round < gpu_load(ROUNDS, 5); round++)
    run_round(&m, round);
  leave_job(&m, RONDO_DESTROY_DRAIN);
}

// The last of the children is killed when all are through with a round.
static void kill_last(const struct child *children) {
  for (uint32_t r = 1; r < RANKS; r++)
    receive_signal(children[r].end);
  CHECK(kill(children[RANKS - 1].pid, SIGKILL) == 0);
}

// The runs of the others end, and say that it was a peer. `end`: of a child; -1: this one has
// `children`.
static void lose_peer(uint32_t rank, const struct rondo_unique_id *id, int end,
                      const struct child *children) {
  struct member m;
  join_job(&m, rank, id);
  run_round(&m, 0);
  if (children)
    kill_last(children);
  else
    say(end);
  for (uint32_t c = 0; c < COLLECTIVES; c++) {
    int status = rondo_run(m.ctx, m.colls[c], m.send[c], m.recv[c], NULL, NULL);
    CHECK(status == RONDO_SUCCESS || status == RONDO_ERR_PEER);
    CHECK(rondo_wait(m.ctx, m.colls[c], RONDO_LAST_RUN, LONG_NS) == RONDO_ERR_PEER);
  }
  leave_job(&m, RONDO_DESTROY_ABORT);
}

static void die(uint32_t rank, const struct rondo_unique_id *id, int end) {
  struct member m;
  join_job(&m, rank, id);
  run_round(&m, 0);
  say(end);
  for (;;)
    pause();
}

// Says where what this rank sends lies.
static void print_transport(const struct member *m) {
  char why[256] = "";
  int transport = -1;
  OK(rondo_transport(m->ctx, 1, &transport, why, sizeof why));
  printf("processes: %s: %s\n", rondo_transport_name(transport), why);
}

static void order_all(struct child *children, uint32_t task, const struct rondo_unique_id *id) {
  for (uint32_t r = 1; r < RANKS; r++) {
    struct order order = {.task = task, .rank = r, .id = *id};
    children[r] = begin_child();
    give_order(&children[r], &order, -1);
  }
}

static void make_id(struct rondo_unique_id *id) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  memcpy(cfg.interfaces, "=lo", sizeof "=lo");
  int status = rondo_unique_id_listen(id, &cfg);
  if (status == RONDO_ERR_UNSUPPORTED) {
    printf("processes: left out: built without the libraries for jobs of several processes\n");
    exit(SKIPPED);
  }
  OK(status);
}

void case_processes(void) {
  struct child children[RANKS];
  struct rondo_unique_id id;
  struct member m;
  make_id(&id);
  order_all(children, TASK_RUN, &id);
  join_job(&m, 0, &id);
  run_round(&m, 0);
  print_transport(&m);
  for (int round = 1; round < gpu_load(ROUNDS, 5); round++)
    run_round(&m, round);
  leave_job(&m, RONDO_DESTROY_DRAIN);
  for (uint32_t r = 1; r < RANKS; r++)
    end_child(&children[r], 0);
  make_id(&id);
  order_all(children, TASK_DIE, &id);
  lose_peer(0, &id, -1, children);
  for (uint32_t r = 1; r < RANKS; r++)
    end_child(&children[r], r == RANKS - 1);
}

// ------------------------------------------------------------------ first use --

#define FIRST_COUNT 1000u

// The first run of a collective, in the order of a stream, and at once a copy to pageable memory in
// that stream. The copy keeps other threads of the process out of the driver until the run ends, so
// the links to the other rank must reach the device without the driver. `end`: of rank 0, which
// says when it copies; -1: none.
struct first {
  struct rondo_context ctx;
  CUstream stream;
  uint64_t memory;
};

static void submit_first(struct first *f, struct rondo_context ctx, uint32_t rank) {
  int32_t values[FIRST_COUNT];
  struct rondo_collective_desc d = rondo_all_reduce(1, FIRST_COUNT, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  *f = (struct first){ctx, gpu_stream(), gpu_memory(sizeof values)};
  for (uint32_t i = 0; i < FIRST_COUNT; i++)
    values[i] = input(rank, 0, 0, i);
  CUDA(cuMemcpyHtoD(f->memory, values, sizeof values));
  OK(rondo_register(ctx, &d, &coll));
  OK(rondo_run_on_stream(ctx, coll, gpu_pointer(f->memory), gpu_pointer(f->memory), f->stream));
}

static void finish_first(const struct first *f) {
  int32_t values[FIRST_COUNT];
  CUDA(cuMemcpyDtoHAsync(values, f->memory, sizeof values, f->stream));
  CUDA(cuStreamSynchronize(f->stream));
  for (uint32_t i = 0; i < FIRST_COUNT; i++)
    CHECK(values[i] == input(0, 0, 0, i) + input(1, 0, 0, i));
  OK(rondo_destroy(f->ctx, RONDO_DESTROY_DRAIN, LONG_NS));
  CUDA(cuStreamDestroy(f->stream));
  gpu_release(f->memory);
}

static void use_first(struct rondo_context ctx, uint32_t rank, int end) {
  struct first f;
  submit_first(&f, ctx, rank);
  if (end >= 0)
    say(end);
  finish_first(&f);
}

// Rank 1: registers when rank 0 copies, or joins then.
static void come_late(const struct rondo_unique_id *id, int end, bool joins_late) {
  struct rondo_context ctx = {0};
  if (!joins_late)
    ctx = init_rank(1, 2, id);
  receive_signal(end);
  if (joins_late)
    ctx = init_rank(1, 2, id);
  use_first(ctx, 1, -1);
}

void case_first_use(void) {
  struct rondo_unique_id id;
  make_id(&id);
  struct child c = begin_child();
  give_order(&c, &(struct order){.task = TASK_COME_LATE, .rank = 1, .id = id}, -1);
  use_first(init_rank(0, 2, &id), 0, c.end);
  end_child(&c, 0);
}

void case_late_rank(void) {
  struct rondo_unique_id id;
  make_id(&id);
  struct child c = begin_child();
  give_order(&c, &(struct order){.task = TASK_JOIN_LATE, .rank = 1, .id = id}, -1);
  use_first(init_rank(0, 2, &id), 0, c.end);
  end_child(&c, 0);
}

int gpu_child_main(int end) {
  struct order order;
  gpu_watch(CHILD_SECONDS, 3);
  int fd = take_order(end, &order);
  if (order.task == TASK_MAP)
    map_part(end, &order, fd);
  else if (order.task == TASK_RUN)
    run_job(order.rank, &order.id);
  else if (order.task == TASK_COME_LATE || order.task == TASK_JOIN_LATE)
    come_late(&order.id, end, order.task == TASK_JOIN_LATE);
  else if (order.rank == RANKS - 1)
    die(order.rank, &order.id, end);
  else
    lose_peer(order.rank, &order.id, end, NULL);
  return 0;
}
