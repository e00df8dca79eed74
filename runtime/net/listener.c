#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/net/listener.h"

#define BACKLOG 4096
#define PORT_TRIES 16
#define REST_NS UINT64_C(100000000)

// ------------------------------------------------------------------ opening ---

static int socket_listen(const struct sockaddr_storage *s, socklen_t size) {
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

static void listener_add_socket(struct rondo_listener *listener, int fd) {
  struct rondo_listener_socket *s = &listener->sockets[listener->socket_count++];
  s->listener = listener;
  s->fd = fd;
  rondo_event_loop_own(fd);
}

static bool socket_get_port(int fd, uint16_t *port) {
  struct sockaddr_storage s;
  struct rondo_wire_address bound;
  socklen_t size = sizeof s;
  if (getsockname(fd, (struct sockaddr *)&s, &size) != 0 ||
      !rondo_address_from_socket((const struct sockaddr *)&s, &bound))
    return false;
  *port = bound.port;
  return true;
}

static void listener_drop_sockets(struct rondo_listener *listener, uint32_t from) {
  int error = errno;
  while (listener->socket_count > from)
    rondo_event_loop_close(listener->sockets[--listener->socket_count].fd);
  errno = error;
}

static bool listener_try_open(struct rondo_listener *listener, struct rondo_wire_address *addresses,
                              uint32_t count) {
  uint32_t before = listener->socket_count;
  uint16_t port = addresses[0].port;
  for (uint32_t i = 0; i < count; i++) {
    struct sockaddr_storage s;
    struct rondo_wire_address a = addresses[i];
    a.port = port;
    int fd = socket_listen(&s, rondo_address_to_socket(&a, &s));
    if (fd < 0 || (!port && !socket_get_port(fd, &port))) {
      listener_drop_sockets(listener, before);
      return false;
    }
    listener_add_socket(listener, fd);
  }
  for (uint32_t i = 0; i < count; i++)
    addresses[i].port = port;
  return true;
}

int rondo_listener_open(struct rondo_listener *listener, struct rondo_wire_address *addresses,
                        uint32_t count) {
  // A port that is free at one address may be in use at the next one.
  for (int tries = 0; tries < PORT_TRIES; tries++) {
    if (listener_try_open(listener, addresses, count))
      return RONDO_SUCCESS;
    if (addresses[0].port || errno != EADDRINUSE)
      break;
  }
  return RONDO_ERR_SYSTEM;
}

int rondo_listener_open_local(struct rondo_listener *listener, char *name, size_t bytes) {
  struct sockaddr_storage s;
  uint8_t random[16];
  char hex[2 * sizeof random + 1];
  randombytes_buf(random, sizeof random);
  (void)sodium_bin2hex(hex, sizeof hex, random, sizeof random);
  (void)snprintf(name, bytes, "rondo-%s", hex);
  int fd = socket_listen(&s, rondo_channel_local_address(name, &s));
  if (fd < 0)
    return RONDO_ERR_SYSTEM;
  listener_add_socket(listener, fd);
  return RONDO_SUCCESS;
}

// ---------------------------------------------------------------- connections ---

static void listener_log_refusal(struct rondo_listener *listener, const char *why) {
  uint64_t now_ns = rondo_now_ns();
  if (now_ns - listener->logged_ns > RONDO_LISTENER_LINES_NS) {
    if (listener->unlogged_count)
      rondo_log(RONDO_LOG_WARN, "%s: %u more connections were refused", listener->name,
                listener->unlogged_count);
    listener->logged_ns = now_ns;
    listener->logged_count = 0;
    listener->unlogged_count = 0;
  }
  if (listener->logged_count++ < RONDO_LISTENER_LINES)
    rondo_log(RONDO_LOG_WARN, "%s: refused a connection from %s", listener->name, why);
  else
    listener->unlogged_count++;
}

static void listener_resume(struct rondo_listener *listener) {
  if (!listener->is_paused)
    return;
  listener->is_paused = 0;
  for (uint32_t i = 0; i < listener->socket_count; i++)
    (void)event_add(&listener->sockets[i].acceptable, NULL);
}

static void listener_remove(struct rondo_listener *listener, struct rondo_channel *c) {
  LIST_REMOVE(c, listed);
  listener->unauthenticated_count--;
}

static void listener_on_closed(void *owner, struct rondo_channel *c, int how, const char *why) {
  struct rondo_listener *listener = owner;
  listener_remove(listener, c);
  if (how != RONDO_WIRE_REFUSE_TWICE) { // that is no stranger
    rondo_channel_count(&c->counters->refused, 1);
    listener_log_refusal(listener, why);
  }
  listener_resume(listener);
}

static int listener_on_admit(void *owner, const struct rondo_channel *c) {
  const struct rondo_listener *listener = owner;
  return listener->admit ? listener->admit(listener->arg, c) : 0;
}

static void listener_on_opened(void *owner, struct rondo_channel *c) {
  struct rondo_listener *listener = owner;
  const struct rondo_wire_hello *hello = &c->handshake.hello;
  if (hello->purpose != listener->purpose ||
      (listener->to != RONDO_MESH_NOBODY && hello->to != RONDO_MESH_NOBODY &&
       hello->to != listener->to)) {
    rondo_channel_refuse(c, RONDO_WIRE_REFUSE_JOB);
    return;
  }
  listener_remove(listener, c);
  rondo_channel_count(&c->counters->accepted, 1);
  listener->authenticated(listener->arg, c);
  listener_resume(listener);
}

static void listener_on_frame(void *owner, struct rondo_channel *c,
                              struct rondo_channel_frame *frame) {
  (void)owner, (void)frame;
  rondo_channel_refuse(c, RONDO_WIRE_REFUSE_GARBAGE);
}

static const struct rondo_channel_events unauthenticated_events = {.admit = listener_on_admit,
                                                                   .opened = listener_on_opened,
                                                                   .frame = listener_on_frame,
                                                                   .closed = listener_on_closed};

static void listener_pause(struct rondo_listener *listener) {
  listener->is_paused = 1;
  for (uint32_t i = 0; i < listener->socket_count; i++)
    event_del(&listener->sockets[i].acceptable);
  rondo_event_loop_timer_set(&listener->again, REST_NS);
}

static uint32_t listener_limit(const struct rondo_listener *listener) {
  uint32_t members = listener->members;
  return RONDO_LISTENER_UNAUTHENTICATED +
         (members < RONDO_LISTENER_MEMBERS ? members : RONDO_LISTENER_MEMBERS);
}

// True if the connection may be closed to make room.
static bool channel_has_had_time(const struct rondo_channel *c, uint64_t now_ns) {
  bool names_job = c->handshake.state == RONDO_HANDSHAKE_AWAIT_PROOF;
  uint64_t time_ns = names_job ? RONDO_LISTENER_HANDSHAKE_NS : RONDO_LISTENER_PATIENCE_NS;
  return now_ns - c->created_ns >= time_ns;
}

// Makes room for one more connection. False if none has had its time.
static bool listener_make_room(struct rondo_listener *listener) {
  struct rondo_channel *c;
  struct rondo_channel *oldest = NULL;
  uint64_t now_ns = rondo_now_ns();
  if (listener->unauthenticated_count < listener_limit(listener))
    return true;
  LIST_FOREACH (c, &listener->unauthenticated, listed)
    if (channel_has_had_time(c, now_ns))
      oldest = c;
  if (oldest)
    rondo_channel_refuse(oldest, RONDO_WIRE_REFUSE_LATE);
  return oldest != NULL;
}

static void listener_on_resume(evutil_socket_t fd, short what, void *arg) {
  struct rondo_listener *listener = arg;
  (void)fd, (void)what;
  listener_resume(listener);
}

static void listener_add(struct rondo_listener *listener, int fd, const struct sockaddr *address) {
  struct rondo_channel *c = rondo_channel_accept(&listener->channels, fd, address);
  if (!c)
    return;
  LIST_INSERT_HEAD(&listener->unauthenticated, c, listed);
  listener->unauthenticated_count++;
}

static void listener_on_acceptable(evutil_socket_t fd, short what, void *arg) {
  struct rondo_listener_socket *s = arg;
  struct rondo_listener *listener = s->listener;
  (void)what;
  // Accept a few at a time, so that earlier connections get on with their handshakes in between.
  for (int i = 0; i < 16; i++) {
    struct sockaddr_storage from = {.ss_family = AF_UNIX};
    socklen_t size = sizeof from;
    if (!listener_make_room(listener)) {
      listener_pause(listener);
      return;
    }
    int connection = accept4(fd, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (connection >= 0) {
      listener_add(listener, connection,
                   from.ss_family == AF_UNIX ? NULL : (struct sockaddr *)&from);
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      listener_log_refusal(listener,
                           "an unknown address: the process is out of descriptors or memory");
      listener_pause(listener);
    }
    if (errno != ECONNABORTED && errno != EINTR)
      return;
  }
}

// ------------------------------------------------------------ start and end ---

void rondo_listener_start(struct rondo_listener *listener) {
  struct event_base *base = rondo_event_loop_base(listener->channels.loop);
  listener->channels.events = &unauthenticated_events;
  listener->channels.owner = listener;
  listener->channels.handshake_ns = RONDO_LISTENER_HANDSHAKE_NS;
  evtimer_assign(&listener->again, base, listener_on_resume, listener);
  for (uint32_t i = 0; i < listener->socket_count; i++) {
    struct rondo_listener_socket *s = &listener->sockets[i];
    event_assign(&s->acceptable, base, s->fd, EV_READ | EV_PERSIST, listener_on_acceptable, s);
    (void)event_add(&s->acceptable, NULL);
  }
}

void rondo_listener_close(struct rondo_listener *listener) {
  if (listener->channels.events) {
    evtimer_del(&listener->again);
    for (uint32_t i = 0; i < listener->socket_count; i++)
      event_del(&listener->sockets[i].acceptable);
  }
  while (!LIST_EMPTY(&listener->unauthenticated)) {
    struct rondo_channel *c = LIST_FIRST(&listener->unauthenticated);
    listener_remove(listener, c);
    rondo_channel_close(c);
  }
  listener_drop_sockets(listener, 0);
}
