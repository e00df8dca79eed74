// peer_sockets: as many bytes as a collective of two ranks has to send, over one TCP connection,
// with nothing done to them: what the network and the kernel carry, measured like the others (see
// serve.h).
//
//   mpirun -np 2 peer_sockets < requests
//
// PEER_SHARED names a file that both map, PEER_ADDRESS the IPv4 address of rank 0.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rondo/rondo.h>

#include "benchmarks/peers/shared_file.h"
#include "tools/kit/serve.h"
#include "tools/kit/thread_group.h"

#define RANKS 2u
#define TRIES 10000u // of connecting, a millisecond each
#define PATIENCE_MS 60000

struct shared {
  _Alignas(128) _Atomic uint32_t port; // of rank 0, in network order
  struct rondo_kit_served served;
};

struct pump {
  int fd;
  char *memory;
  size_t capacity_bytes, out_bytes, in_bytes;
};

static void sockets_fail(const char *what) {
  perror(what);
  exit(1);
}

// What this rank sends, of a collective of so many bytes.
static size_t bytes_from(const struct rondo_kit_request *r, uint32_t rank) {
  switch (r->kind) {
  case RONDO_ALL_REDUCE:
    return r->bytes;
  case RONDO_ALL_GATHER:
  case RONDO_REDUCE_SCATTER:
  case RONDO_ALL_TO_ALL:
    return r->bytes / RANKS;
  case RONDO_GATHER:
    return rank == 0 ? 0 : r->bytes / RANKS;
  case RONDO_SCATTER:
    return rank == 0 ? r->bytes / RANKS : 0;
  default: // to or from rank 0
    return (r->kind == RONDO_BROADCAST) == (rank == 0) ? r->bytes : 0;
  }
}

static void output_rewrite(void *arg, uint32_t rank) {
  struct pump *p = arg;
  memset(p->memory, (int)rank + 1, p->out_bytes);
}

static ssize_t bytes_moved(ssize_t moved) { return moved > 0 ? moved : 0; }

static int bytes_exchange(void *arg, uint32_t rank) {
  struct pump *p = arg;
  size_t out = 0, in = 0;
  (void)rank;
  while (out < p->out_bytes || in < p->in_bytes) {
    struct pollfd fd = {p->fd, 0, 0};
    fd.events = (short)((out < p->out_bytes ? POLLOUT : 0) | (in < p->in_bytes ? POLLIN : 0));
    if (poll(&fd, 1, PATIENCE_MS) != 1 || (fd.revents & (POLLERR | POLLHUP)))
      return RONDO_ERR_PEER;
    if (fd.revents & POLLOUT)
      out += (size_t)bytes_moved(
          send(p->fd, p->memory + out, p->out_bytes - out, MSG_DONTWAIT | MSG_NOSIGNAL));
    if (fd.revents & POLLIN)
      in += (size_t)bytes_moved(
          recv(p->fd, p->memory + p->capacity_bytes + in, p->in_bytes - in, MSG_DONTWAIT));
  }
  return 0;
}

static struct rondo_kit_driver request_prepare(void *arg, uint32_t rank,
                                               const struct rondo_kit_request *request) {
  struct pump *p = arg;
  struct rondo_kit_driver driver = {.rewrite = output_rewrite, .once = bytes_exchange, .arg = p};
  p->out_bytes = bytes_from(request, rank);
  p->in_bytes = bytes_from(request, 1 - rank);
  if (request->bytes > p->capacity_bytes) {
    free(p->memory);
    p->memory = calloc(2, request->bytes);
    p->capacity_bytes = request->bytes;
    if (!p->memory)
      sockets_fail("peer_sockets: memory");
  }
  return driver;
}

static const char *request_lacks(const struct rondo_kit_request *request) {
  return rondo_kit_serve_is_plain(request) ? NULL : "only one collective at a time";
}

static int call_accept(struct shared *shared, struct sockaddr_in *at) {
  socklen_t bytes = sizeof *at;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 || bind(listener, (struct sockaddr *)at, bytes) || listen(listener, 1) ||
      getsockname(listener, (struct sockaddr *)at, &bytes))
    sockets_fail("peer_sockets: listen");
  atomic_store(&shared->port, at->sin_port);
  return accept(listener, NULL, NULL);
}

static int call_make(struct shared *shared, struct sockaddr_in *at) {
  for (uint32_t i = 0; i < TRIES && !atomic_load(&shared->port); i++)
    (void)poll(NULL, 0, 1);
  at->sin_port = (in_port_t)atomic_load(&shared->port);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return fd >= 0 && connect(fd, (struct sockaddr *)at, sizeof *at) ? -1 : fd;
}

int main(void) {
  const char *text = getenv("OMPI_COMM_WORLD_RANK");
  const char *address = getenv("PEER_ADDRESS");
  uint32_t rank = text && text[0] == '1';
  struct sockaddr_in at = {.sin_family = AF_INET};
  int one = 1;
  struct shared *shared =
      peer_shared_file(offsetof(struct shared, served) + rondo_kit_served_bytes(RANKS));
  struct pump p = {.fd = -1};
  if (!shared || !address || inet_pton(AF_INET, address, &at.sin_addr) != 1) {
    fprintf(stderr, "peer_sockets: PEER_SHARED and PEER_ADDRESS are needed\n");
    return 1;
  }
  if (rank == 0)
    rondo_kit_served_init(&shared->served, RANKS, rondo_kit_core_count());
  p.fd = rank == 0 ? call_accept(shared, &at) : call_make(shared, &at);
  if (p.fd < 0 || setsockopt(p.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one))
    sockets_fail("peer_sockets: connect");
  if (rank == 0)
    rondo_kit_serve_ready("plain sockets");
  struct rondo_kit_server server = {.shared = &shared->served,
                                    .rank = rank,
                                    .lacks = request_lacks,
                                    .prepare = request_prepare,
                                    .failure = "a socket",
                                    .arg = &p};
  rondo_kit_serve(&server);
  free(p.memory);
  return 0;
}
