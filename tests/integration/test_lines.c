// The connections over which UCX reaches other processes: how many there are, what the loss of one
// does, and what an unauthenticated process can do at the ports where they are made.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "tests/support/family.h"
#include "tests/support/job.h"
#include "tests/support/named.h"

#define DESCRIPTORS 1024
#define COUNT 300000u // elements: large slots, and several
#define WAYS 3u
#define NOISE_BYTES 4096u

// -------------------------------------------------------------------- sockets ---

// 1 for a socket of IP that listens, or, if not `listens`, one that is connected.
static int is_socket(int fd, int listens) {
  struct sockaddr_storage at = {0};
  socklen_t bytes = sizeof at;
  int is_listener = 0;
  socklen_t size = sizeof is_listener;
  if (getsockname(fd, (struct sockaddr *)&at, &bytes) ||
      (at.ss_family != AF_INET && at.ss_family != AF_INET6) ||
      getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listener, &size))
    return 0;
  bytes = sizeof at;
  return listens ? is_listener : getpeername(fd, (struct sockaddr *)&at, &bytes) == 0;
}

// The cookie of each socket of this process, else 0: a descriptor that is closed is soon another's.
static void find_sockets(uint64_t found[DESCRIPTORS], int listens) {
  for (int fd = 0; fd < DESCRIPTORS; fd++) {
    socklen_t bytes = sizeof found[fd];
    if (!is_socket(fd, listens) || getsockopt(fd, SOL_SOCKET, SO_COOKIE, &found[fd], &bytes))
      found[fd] = 0;
  }
}

// --------------------------------------------------------------------- a job ---

struct player {
  struct rondo_context ctx;
  struct rondo_collective coll;
  int32_t *send, *recv;
};

static struct player player_enter(struct rondo_family *f, uint32_t rank) {
  struct player p = {.ctx = rondo_family_open(f, 0, rank, f->ranks)};
  struct rondo_collective_desc d = rondo_all_reduce(1, COUNT, RONDO_INT32, RONDO_SUM);
  p.send = malloc(COUNT * sizeof *p.send);
  p.recv = malloc(COUNT * sizeof *p.recv);
  RONDO_MEMBER_TRUE(p.send && p.recv);
  RONDO_MEMBER_STATUS(rondo_register(p.ctx, &d, &p.coll), RONDO_SUCCESS);
  return p;
}

// A run; what succeeds is exact.
static int play(struct player *p, const struct rondo_family *f, int32_t seed) {
  for (uint32_t i = 0; i < COUNT; i++)
    p->send[i] = seed + (int32_t)i;
  RONDO_MEMBER_STATUS(rondo_run(p->ctx, p->coll, p->send, p->recv, NULL, NULL), RONDO_SUCCESS);
  int status = rondo_wait(p->ctx, p->coll, RONDO_LAST_RUN, RONDO_TEST_LONG_NS);
  for (uint32_t i = 0; i < COUNT && status == RONDO_SUCCESS; i++)
    RONDO_MEMBER_TRUE(p->recv[i] == (int32_t)f->ranks * (seed + (int32_t)i));
  return status;
}

static void player_leave(struct player *p) {
  rondo_family_close(p->ctx);
  free(p->send);
  free(p->recv);
}

static struct rondo_family *proxied_family(uint32_t endpoints) {
  struct rondo_family *f = rondo_family_create(2, 2);
  f->cfg.transport = RONDO_TRANSPORT_UCX;
  f->cfg.endpoints = endpoints;
  return f;
}

// ------------------------------------------------------------------ endpoints ---

// Sockets that this process has connected, or others to it, since `before`; returns how many.
static uint32_t find_new(uint64_t fresh[DESCRIPTORS], const uint64_t before[DESCRIPTORS]) {
  uint32_t count = 0;
  find_sockets(fresh, 0);
  for (int fd = 0; fd < DESCRIPTORS; fd++) {
    if (fresh[fd] == before[fd])
      fresh[fd] = 0;
    count += fresh[fd] != 0;
  }
  return count;
}

static void meet(struct rondo_family *f, uint32_t *word) {
  rondo_family_add(word);
  rondo_family_await(word, f->ranks);
}

// The connections of this process so far; no process connects more until all have counted.
static void look_before(struct rondo_family *f, uint64_t before[DESCRIPTORS]) {
  find_sockets(before, 0);
  meet(f, &f->words[2]);
}

static void counting_member(struct rondo_family *f, uint32_t rank) {
  uint64_t before[DESCRIPTORS], fresh[DESCRIPTORS];
  struct player p = player_enter(f, rank);
  look_before(f, before);
  for (int32_t i = 0; i < 5; i++)
    RONDO_MEMBER_STATUS(play(&p, f, i), RONDO_SUCCESS);
  f->words[rank] = find_new(fresh, before);
  meet(f, &f->words[3]); // a process that leaves closes its connections
  player_leave(&p);
}

// UCX needs some more of its own for each.
static void a_process_makes_a_connection_for_each_endpoint(void **state) {
  uint32_t counts[2];
  (void)state;
  for (uint32_t i = 0; i < 2; i++) {
    struct rondo_family *f = proxied_family(i ? WAYS : 1);
    rondo_family_run(f, counting_member, NULL);
    counts[i] = f->words[0];
    rondo_family_destroy(f);
  }
  assert_true(counts[1] > counts[0]);
  assert_true(counts[1] >= 2 * WAYS);
}

// ----------------------------------------------------------------- both ways ---

#define MUCH_BYTES 100000u // more than connections carry that only set up others

// 1 if much has been sent and received over the connection.
static uint32_t carries_both_ways(int fd) {
  struct tcp_info info = {0};
  socklen_t bytes = sizeof info;
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 &&
         info.tcpi_bytes_acked > MUCH_BYTES && info.tcpi_bytes_received > MUCH_BYTES;
}

static void answering_member(struct rondo_family *f, uint32_t rank) {
  uint64_t before[DESCRIPTORS], fresh[DESCRIPTORS];
  struct player p = player_enter(f, rank);
  look_before(f, before);
  for (int32_t i = 0; i < 5; i++)
    RONDO_MEMBER_STATUS(play(&p, f, i), RONDO_SUCCESS);
  (void)find_new(fresh, before);
  uint32_t count = 0;
  for (int fd = 0; fd < DESCRIPTORS; fd++)
    count += fresh[fd] != 0 && carries_both_ways(fd);
  meet(f, &f->words[3]); // a process that leaves closes its connections
  player_leave(&p);
  RONDO_MEMBER_TRUE(count == f->cfg.endpoints);
}

// Else the kernel would acknowledge each small message with a packet of its own.
static void two_processes_answer_each_other_over_the_same_connections(void **state) {
  (void)state;
  for (uint32_t endpoints = 1; endpoints <= WAYS; endpoints += WAYS - 1) {
    struct rondo_family *f = proxied_family(endpoints);
    rondo_family_run(f, answering_member, NULL);
    rondo_family_destroy(f);
  }
}

// ----------------------------------------------------------------------- loss ---

// One of several is enough: what was on its way there is lost.
static void losing_member(struct rondo_family *f, uint32_t rank) {
  uint64_t before[DESCRIPTORS], fresh[DESCRIPTORS];
  struct player p = player_enter(f, rank);
  look_before(f, before);
  int status = RONDO_SUCCESS;
  for (int32_t i = 0; i < 3 && status == RONDO_SUCCESS; i++)
    status = play(&p, f, i);
  meet(f, &f->words[0]);
  // On a busy machine one that is only slow may be given up before.
  if (rank == 1 && status == RONDO_SUCCESS && find_new(fresh, before) > 0) {
    uint32_t skipped = (uint32_t)f->seed;
    for (int fd = 0; fd < DESCRIPTORS; fd++)
      if (fresh[fd] && !skipped--)
        (void)shutdown(fd, SHUT_RDWR);
  }
  for (int32_t i = 0; status == RONDO_SUCCESS; i++)
    status = play(&p, f, i);
  RONDO_MEMBER_STATUS(status, RONDO_ERR_PEER);
  player_leave(&p);
}

static void one_connection_that_is_lost_ends_the_runs(void **state) {
  (void)state;
  for (uint64_t which = 0; which < 4; which++) {
    struct rondo_family *f = proxied_family(WAYS);
    f->seed = which;
    f->cfg.peer_timeout_ns =
        UINT64_C(1000000000); // so that the mesh is given half a second to say why
    rondo_family_run(f, losing_member, NULL);
    rondo_family_destroy(f);
  }
}

// ------------------------------------------------------------------- segments ---

static void unlike_member(struct rondo_family *f, uint32_t rank) {
  if (rank == 1)
    setenv("UCX_TCP_RX_SEG_SIZE", "96k", 1);
  struct player p = player_enter(f, rank);
  RONDO_MEMBER_STATUS(play(&p, f, 0), RONDO_ERR_PEER);
  player_leave(&p);
}

// UCX would end the process that is sent more in one piece than it takes up.
static void processes_that_take_up_other_amounts_in_one_piece_are_kept_apart(void **state) {
  (void)state;
  struct rondo_family *f = proxied_family(1);
  f->cfg.peer_timeout_ns = UINT64_C(1000000000); // so that it is given up soon
  rondo_family_run(f, unlike_member, NULL);
  rondo_family_destroy(f);
}

// ------------------------------------------------------------------ connecting ---

static uint32_t connected, waiting; // connections of TCP, and those for which the call could wait

static void note_connection(int fd, const struct sockaddr *to) {
  int type = 0;
  socklen_t size = sizeof type;
  if ((to->sa_family != AF_INET && to->sa_family != AF_INET6) ||
      getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) || type != SOCK_STREAM)
    return;
  (void)rondo_fetch_add_relaxed_u32(&connected, 1);
  if (!(fcntl(fd, F_GETFL) & O_NONBLOCK))
    (void)rondo_fetch_add_relaxed_u32(&waiting, 1);
}

// In place of libc's, for UCX too: a linker option exports it. The names of libc's
// parameters are reserved.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
int connect(int fd, __CONST_SOCKADDR_ARG to, socklen_t bytes) {
  note_connection(fd, to.__sockaddr__);
  return (int)syscall(SYS_connect, fd, to.__sockaddr__, bytes);
}

static void connecting_member(struct rondo_family *f, uint32_t rank) {
  connected = waiting = 0;
  struct player p = player_enter(f, rank);
  RONDO_MEMBER_STATUS(play(&p, f, 0), RONDO_SUCCESS);
  meet(f, &f->words[2]);
  player_leave(&p);
  RONDO_MEMBER_TRUE(rondo_load_relaxed_u32(&connected) >=
                    2); // at least to the root, or back, and by UCX
  RONDO_MEMBER_TRUE(rondo_load_relaxed_u32(&waiting) == 0);
}

// UCX connects within a turn of the proxy. Where a machine has just been cut off such a call takes
// minutes, in which nobody can take a turn, or leave.
static void connecting_waits_in_no_call(void **state) {
  (void)state;
  struct rondo_family *f = proxied_family(1);
  rondo_family_run(f, connecting_member, NULL);
  rondo_family_destroy(f);
}

// -------------------------------------------------------------------- hooks ---

#define CODE_BYTES 16u

// How a function of libc begins: where a hook would be put.
static void look_at_code(uint8_t code[CODE_BYTES]) {
  void *libc = dlopen("libc.so.6", RTLD_NOW);
  RONDO_MEMBER_TRUE(libc != NULL);
  const void *at = dlsym(libc, "munmap");
  RONDO_MEMBER_TRUE(at != NULL);
  memcpy(code, at, CODE_BYTES);
  dlclose(libc);
}

static void unpatched_member(struct rondo_family *f, uint32_t rank) {
  uint8_t before[CODE_BYTES], after[CODE_BYTES];
  look_at_code(before);
  struct player p = player_enter(f, rank);
  RONDO_MEMBER_STATUS(play(&p, f, 0), RONDO_SUCCESS);
  look_at_code(after);
  RONDO_MEMBER_TRUE(memcmp(before, after, CODE_BYTES) == 0);
  player_leave(&p);
}

// It would try the patches out, and the one of brk beside threads that are inside malloc.
static void ucx_patches_no_function_where_there_is_only_tcp(void **state) {
  (void)state;
  if (access("/sys/class/infiniband", F_OK) == 0)
    skip();
  struct rondo_family *f = proxied_family(1);
  rondo_family_run(f, unpatched_member, NULL);
  rondo_family_destroy(f);
}

// ------------------------------------------- unauthenticated connections ---

static int connect_to_own(int listener) {
  struct sockaddr_storage at = {0};
  socklen_t bytes = sizeof at;
  if (getsockname(listener, (struct sockaddr *)&at, &bytes))
    return -1;
  if (at.ss_family == AF_INET && ((struct sockaddr_in *)&at)->sin_addr.s_addr == INADDR_ANY)
    ((struct sockaddr_in *)&at)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (at.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&((struct sockaddr_in6 *)&at)->sin6_addr))
    ((struct sockaddr_in6 *)&at)->sin6_addr = in6addr_loopback;
  int fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&at, bytes) == 0)
    return fd;
  if (fd >= 0)
    close(fd);
  return -1;
}

// Says something at a port, of `bytes`, and hangs up or stays.
static int disturb(int listener, uint64_t *random, uint32_t bytes) {
  uint8_t noise[NOISE_BYTES];
  int fd = connect_to_own(listener);
  for (uint32_t i = 0; i < bytes; i++)
    noise[i] = (uint8_t)rondo_test_random(random);
  if (fd >= 0 && bytes)
    (void)!send(fd, noise, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (fd < 0 || bytes % 2)
    return fd;
  close(fd);
  return -1;
}

#define CONNECTIONS 64u // that stay

static void disturbed_member(struct rondo_family *f, uint32_t rank) {
  static const uint32_t sizes[] = {0, 1, 7, 8, 9, 64, 301, NOISE_BYTES};
  uint64_t listeners[DESCRIPTORS];
  int staying[CONNECTIONS];
  uint32_t count = 0;
  uint64_t random = f->seed + rank;
  struct player p = player_enter(f, rank);
  RONDO_MEMBER_STATUS(play(&p, f, 0), RONDO_SUCCESS);
  find_sockets(listeners, 1);
  for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    for (int fd = 0; fd < DESCRIPTORS && count < CONNECTIONS; fd++) {
      staying[count] = listeners[fd] ? disturb(fd, &random, sizes[i]) : -1;
      count += staying[count] >= 0;
    }
    RONDO_MEMBER_STATUS(play(&p, f, (int32_t)i), RONDO_SUCCESS);
  }
  RONDO_MEMBER_TRUE(count > 0);
  while (count)
    close(staying[--count]);
  RONDO_MEMBER_STATUS(play(&p, f, -1), RONDO_SUCCESS);
  player_leave(&p);
}

static void unauthenticated_connections_disturb_nobody(void **state) {
  (void)state;
  struct rondo_family *f = proxied_family(1);
  f->seed = 1;
  rondo_family_run(f, disturbed_member, NULL);
  rondo_family_destroy(f);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("lines", a_process_makes_a_connection_for_each_endpoint),
      RONDO_NAMED_TEST("lines", two_processes_answer_each_other_over_the_same_connections),
      RONDO_NAMED_TEST("lines", one_connection_that_is_lost_ends_the_runs),
      RONDO_NAMED_TEST("lines", processes_that_take_up_other_amounts_in_one_piece_are_kept_apart),
      RONDO_NAMED_TEST("lines", connecting_waits_in_no_call),
      RONDO_NAMED_TEST("lines", ucx_patches_no_function_where_there_is_only_tcp),
      RONDO_NAMED_TEST("lines", unauthenticated_connections_disturb_nobody),
  };
  cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
  return cmocka_run_group_tests_name("lines", tests, NULL, NULL);
}
