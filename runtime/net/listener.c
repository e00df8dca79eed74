#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "base/atomic.h"
#include "base/log.h"
#include "runtime/net/listener.h"

#define BACKLOG 4096
#define PORT_TRIES 16
#define REST_NS UINT64_C(100000000)

// ------------------------------------------------------------------ opening ---

static int listen_on(const struct sockaddr_storage *s, socklen_t size) {
  int one = 1;
  int fd = socket(s->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return -1;
  if (s->ss_family != AF_UNIX)
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (s->ss_family == AF_INET6)
    (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
  if (bind(fd, (const struct sockaddr *)s, size) == 0 && listen(fd, BACKLOG) == 0)
    return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

static void add_socket(struct rondo_listener *door, int fd) {
  struct rondo_listener_socket *s = &door->sockets[door->socket_count++];
  s->door = door;
  s->fd = fd;
  rondo_event_loop_own(fd);
}

static int bound_port(int fd, uint16_t *port) {
  struct sockaddr_storage s;
  struct rondo_wire_address bound;
  socklen_t size = sizeof s;
  if (getsockname(fd, (struct sockaddr *)&s, &size) != 0 ||
      !rondo_address_from_socket((const struct sockaddr *)&s, &bound))
    return 0;
  *port = bound.port;
  return 1;
}

static void drop_sockets(struct rondo_listener *door, uint32_t from) {
  int error = errno;
  while (door->socket_count > from)
    rondo_event_loop_close(door->sockets[--door->socket_count].fd);
  errno = error;
}

static int try_open(struct rondo_listener *door, struct rondo_wire_address *addresses,
                    uint32_t count) {
  uint32_t before = door->socket_count;
  uint16_t port = addresses[0].port;
  for (uint32_t i = 0; i < count; i++) {
    struct sockaddr_storage s;
    struct rondo_wire_address a = addresses[i];
    a.port = port;
    int fd = listen_on(&s, rondo_address_to_socket(&a, &s));
    if (fd < 0 || (!port && !bound_port(fd, &port))) {
      drop_sockets(door, before);
      return 0;
    }
    add_socket(door, fd);
  }
  for (uint32_t i = 0; i < count; i++)
    addresses[i].port = port;
  return 1;
}

int rondo_listener_open(struct rondo_listener *door, struct rondo_wire_address *addresses,
                        uint32_t count) {
  // A port that was free at one address can be taken at the next.
  for (int tries = 0; tries < PORT_TRIES; tries++) {
    if (try_open(door, addresses, count))
      return RONDO_SUCCESS;
    if (addresses[0].port || errno != EADDRINUSE)
      break;
  }
  return RONDO_ERR_SYSTEM;
}

int rondo_listener_open_local(struct rondo_listener *door, char *name, size_t bytes) {
  struct sockaddr_storage s;
  uint8_t random[16];
  char hex[2 * sizeof random + 1];
  randombytes_buf(random, sizeof random);
  (void)sodium_bin2hex(hex, sizeof hex, random, sizeof random);
  (void)snprintf(name, bytes, "rondo-%s", hex);
  int fd = listen_on(&s, rondo_channel_local_address(name, &s));
  if (fd < 0)
    return RONDO_ERR_SYSTEM;
  add_socket(door, fd);
  return RONDO_SUCCESS;
}

// ---------------------------------------------------------------- strangers ---

static void log_refusal(struct rondo_listener *door, const char *why) {
  uint64_t now_ns = rondo_event_loop_now_ns();
  if (now_ns - door->lines_ns > RONDO_LISTENER_LINES_NS) {
    if (door->unsaid)
      rondo_log(RONDO_LOG_WARN, "%s: %u more connections were refused", door->name, door->unsaid);
    door->lines_ns = now_ns;
    door->lines = 0;
    door->unsaid = 0;
  }
  if (door->lines++ < RONDO_LISTENER_LINES)
    rondo_log(RONDO_LOG_WARN, "%s: refused a connection from %s", door->name, why);
  else
    door->unsaid++;
}

static void accept_again(struct rondo_listener *door) {
  if (!door->is_resting)
    return;
  door->is_resting = 0;
  for (uint32_t i = 0; i < door->socket_count; i++)
    (void)event_add(&door->sockets[i].acceptable, NULL);
}

static void take_off(struct rondo_listener *door, struct rondo_channel *c) {
  if (c->before)
    c->before->next = c->next;
  else
    door->strangers = c->next;
  if (c->next)
    c->next->before = c->before;
  c->next = NULL;
  c->before = NULL;
  door->stranger_count--;
}

static void on_closed(void *owner, struct rondo_channel *c, int how, const char *why) {
  struct rondo_listener *door = owner;
  (void)how;
  take_off(door, c);
  rondo_channel_count(&c->counters->refused, 1);
  log_refusal(door, why);
  accept_again(door);
}

static void on_opened(void *owner, struct rondo_channel *c) {
  struct rondo_listener *door = owner;
  const struct rondo_wire_hello *hello = &c->proof.hello;
  if (hello->purpose != door->purpose ||
      (door->to != RONDO_MESH_NOBODY && hello->to != RONDO_MESH_NOBODY && hello->to != door->to)) {
    rondo_channel_refuse(c, RONDO_WIRE_REFUSE_JOB);
    return;
  }
  take_off(door, c);
  rondo_channel_count(&c->counters->accepted, 1);
  door->guest(door->arg, c);
  accept_again(door);
}

static void on_frame(void *owner, struct rondo_channel *c, struct rondo_channel_frame *frame) {
  (void)owner, (void)frame;
  rondo_channel_refuse(c, RONDO_WIRE_REFUSE_GARBAGE);
}

static const struct rondo_channel_events stranger_events = {
    .opened = on_opened, .frame = on_frame, .closed = on_closed};

static void rest(struct rondo_listener *door) {
  door->is_resting = 1;
  for (uint32_t i = 0; i < door->socket_count; i++)
    event_del(&door->sockets[i].acceptable);
  rondo_event_loop_timer_set(&door->again, REST_NS);
}

// Makes a place for the next one. Returns 0 if everybody may stay a while yet.
static int make_place(struct rondo_listener *door) {
  struct rondo_channel *oldest = door->strangers;
  if (door->stranger_count < RONDO_LISTENER_UNAUTHENTICATED)
    return 1;
  while (oldest->next)
    oldest = oldest->next;
  if (rondo_event_loop_now_ns() - oldest->opened_ns < RONDO_LISTENER_PATIENCE_NS)
    return 0;
  rondo_channel_refuse(oldest, RONDO_WIRE_REFUSE_LATE);
  return 1;
}

static void on_again(evutil_socket_t fd, short what, void *arg) {
  struct rondo_listener *door = arg;
  (void)fd, (void)what;
  accept_again(door);
}

static void take_in(struct rondo_listener *door, int fd, const struct sockaddr *address) {
  struct rondo_channel *c = rondo_channel_accept(&door->channels, fd, address);
  if (!c)
    return;
  c->next = door->strangers;
  if (c->next)
    c->next->before = c;
  door->strangers = c;
  door->stranger_count++;
}

static void on_acceptable(evutil_socket_t fd, short what, void *arg) {
  struct rondo_listener_socket *s = arg;
  struct rondo_listener *door = s->door;
  (void)what;
  // A few at a time: who came earlier gets on with the proof in between.
  for (int i = 0; i < 16; i++) {
    struct sockaddr_storage from = {.ss_family = AF_UNIX};
    socklen_t size = sizeof from;
    if (!make_place(door)) {
      rest(door);
      return;
    }
    int connection = accept4(fd, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (connection >= 0) {
      take_in(door, connection, from.ss_family == AF_UNIX ? NULL : (struct sockaddr *)&from);
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      log_refusal(door, "somebody: the process has no descriptor or memory left for it");
      rest(door);
    }
    if (errno != ECONNABORTED && errno != EINTR)
      return;
  }
}

// ------------------------------------------------------------ start and end ---

void rondo_listener_start(struct rondo_listener *door) {
  struct event_base *base = rondo_event_loop_base(door->channels.loop);
  door->channels.events = &stranger_events;
  door->channels.owner = door;
  door->channels.proof_ns = RONDO_LISTENER_HANDSHAKE_NS;
  evtimer_assign(&door->again, base, on_again, door);
  for (uint32_t i = 0; i < door->socket_count; i++) {
    struct rondo_listener_socket *s = &door->sockets[i];
    event_assign(&s->acceptable, base, s->fd, EV_READ | EV_PERSIST, on_acceptable, s);
    (void)event_add(&s->acceptable, NULL);
  }
}

void rondo_listener_close(struct rondo_listener *door) {
  if (door->channels.events) {
    evtimer_del(&door->again);
    for (uint32_t i = 0; i < door->socket_count; i++)
      event_del(&door->sockets[i].acceptable);
  }
  while (door->strangers) {
    struct rondo_channel *c = door->strangers;
    take_off(door, c);
    rondo_channel_close(c);
  }
  drop_sockets(door, 0);
}
