#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <sodium.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "runtime/net/channel.h"

#define SMALL_BYTES 512u
#define IDLE_BYTES 65536u // a larger buffer is freed when it is empty
#define MAX_KEEPALIVE_S 32767
#define FRAMES_AT_ONCE 64 // before other channels get their turn
// What one call sends: small frames together, since each call may wake the other side.
#define GATHERED_PIECES 96u   // of at most three a frame
#define GATHERED_BYTES 16384u // of payload, before the last frame

void rondo_channel_count(uint64_t *counter, uint64_t more) {
  rondo_store_relaxed_u64(counter, rondo_load_relaxed_u64(counter) + more);
}

// ----------------------------------------------------------------- frames ----

struct rondo_channel_out *rondo_channel_out_create(int type, struct rondo_shared_bytes *payload) {
  struct rondo_channel_out *out = calloc(1, sizeof *out);
  if (!out) {
    rondo_shared_bytes_put(payload);
    return NULL;
  }
  out->head.version = RONDO_WIRE_VERSION;
  out->head.type = (uint8_t)type;
  out->head.size = payload ? payload->size : 0;
  out->payload = payload;
  return out;
}

static void fds_close(int *fds, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (fds[i] >= 0)
      close(fds[i]);
}

void rondo_channel_out_free(struct rondo_channel_out *out) {
  fds_close(out->fds, out->head.fd_count);
  rondo_shared_bytes_put(out->payload);
  free(out);
}

const char *rondo_channel_end_text(int end) {
  static const char *const texts[] = {
      [RONDO_WIRE_REFUSE_VERSION] = "it uses another version of the protocol",
      [RONDO_WIRE_REFUSE_JOB] = "it belongs to another job",
      [RONDO_WIRE_REFUSE_SECRET] = "it failed to prove that it knows the job's secret or who it is",
      [RONDO_WIRE_REFUSE_GARBAGE] = "it sent bytes that are not of this protocol",
      [RONDO_WIRE_REFUSE_LATE] = "it did not finish the handshake in time",
      [RONDO_WIRE_REFUSE_TWICE] = "it makes a connection of its own",
      [RONDO_CHANNEL_CUT] = "the connection was cut",
      [RONDO_CHANNEL_UNREACHABLE] = "it cannot be reached",
  };
  const char *text = end >= 0 && end < (int)(sizeof texts / sizeof *texts) ? texts[end] : NULL;
  return text ? text : texts[RONDO_CHANNEL_CUT];
}

// ---------------------------------------------------------------- the end ----

// Runs when control is back in the event loop: no caller uses the channel any more.
static void channel_on_deferred(evutil_socket_t fd, short what, void *arg);

// Frees a frame that was sent or is dropped.
static void channel_finish_frame(struct rondo_channel *c, struct rondo_channel_out *out) {
  if (out->counted && c->events->sent)
    c->events->sent(c->owner, out->counted);
  rondo_channel_out_free(out);
}

static void channel_pop_frame(struct rondo_channel *c) {
  struct rondo_channel_out *out = STAILQ_FIRST(&c->queue);
  STAILQ_REMOVE_HEAD(&c->queue, queued);
  channel_finish_frame(c, out);
}

void rondo_channel_close(struct rondo_channel *c) {
  if (c->is_dead)
    return;
  c->is_dead = 1;
  event_del(&c->readable);
  event_del(&c->writable);
  evtimer_del(&c->deadline);
  rondo_event_loop_close(c->fd);
  c->fd = -1;
  while (!STAILQ_EMPTY(&c->queue))
    channel_pop_frame(c);
  fds_close(c->fds, c->fd_count);
  c->fd_count = 0;
  event_active(&c->deferred, EV_TIMEOUT, 1);
}

static void channel_end(struct rondo_channel *c, int how) {
  char why[RONDO_CHANNEL_TEXT_BYTES];
  if (c->is_dead)
    return;
  (void)snprintf(why, sizeof why, "%s: %s", c->remote, rondo_channel_end_text(how));
  rondo_channel_close(c);
  c->events->closed(c->owner, c, how, why);
}

void rondo_channel_refuse(struct rondo_channel *c, int refusal) {
  struct rondo_handshake_reply reply;
  if (!c->is_dead && !c->is_connecting && c->handshake.state != RONDO_HANDSHAKE_DONE) {
    rondo_handshake_refuse(refusal, &reply);
    // Best effort: the reply to a refused connection may be lost.
    (void)!send(c->fd, reply.bytes, reply.size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  channel_end(c, refusal);
}

// ----------------------------------------------------------------- sending ----

static bool error_is_temporary(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOBUFS;
}

static int error_to_end(int error) {
  bool is_unreachable = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH ||
                        error == EHOSTDOWN || error == ENETDOWN;
  return is_unreachable ? RONDO_CHANNEL_UNREACHABLE : RONDO_CHANNEL_CUT;
}

static void frame_seal(struct rondo_channel *c, struct rondo_channel_out *out) {
  if (out->is_sealed)
    return;
  rondo_wire_head_write(out->head_bytes, &out->head);
  rondo_handshake_seal(&c->handshake, out->head_bytes, out->payload ? out->payload->bytes : NULL,
                       out->head.size, out->mac);
  out->is_sealed = 1;
}

// Lists the unsent pieces of a frame. Returns how many.
static size_t frame_pieces(struct rondo_channel_out *out, struct iovec *pieces) {
  struct iovec whole[3] = {{out->head_bytes, RONDO_WIRE_HEAD_BYTES},
                           {out->payload ? out->payload->bytes : NULL, out->head.size},
                           {out->mac, RONDO_WIRE_MAC_BYTES}};
  size_t skip = out->done;
  size_t count = 0;
  for (size_t i = 0; i < 3; i++) {
    size_t cut = skip < whole[i].iov_len ? skip : whole[i].iov_len;
    skip -= cut;
    if (whole[i].iov_len == cut)
      continue;
    pieces[count].iov_base = (uint8_t *)whole[i].iov_base + cut;
    pieces[count++].iov_len = whole[i].iov_len - cut;
  }
  return count;
}

// Lists the unsent pieces of the first frames, as many as one call sends. A frame with descriptors
// that have not been sent is in a call of its own. Returns how many.
static size_t frames_gather(struct rondo_channel *c, struct iovec *pieces) {
  struct rondo_channel_out *out;
  size_t count = 0;
  size_t bytes = 0;
  STAILQ_FOREACH (out, &c->queue, queued) {
    bool has_fds = out->head.fd_count && out->done == 0;
    if (count && (has_fds || count + 3 > GATHERED_PIECES || bytes > GATHERED_BYTES))
      break;
    frame_seal(c, out);
    count += frame_pieces(out, pieces + count);
    bytes += out->head.size;
    if (has_fds)
      break;
  }
  return count;
}

static ssize_t channel_send_pieces(struct rondo_channel *c) {
  union {
    char bytes[CMSG_SPACE(sizeof(int) * RONDO_WIRE_FDS)];
    struct cmsghdr align;
  } control;
  struct iovec pieces[GATHERED_PIECES];
  struct msghdr m = {.msg_iov = pieces};
  const struct rondo_channel_out *first = STAILQ_FIRST(&c->queue);
  m.msg_iovlen = frames_gather(c, pieces);
  if (first->done == 0 && first->head.fd_count) {
    size_t bytes = sizeof(int) * first->head.fd_count;
    memset(&control, 0, sizeof control);
    m.msg_control = control.bytes;
    m.msg_controllen = CMSG_SPACE(bytes);
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(h), first->fds, bytes);
  }
  return sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// `bytes` of the first frames have been sent.
static void channel_note_sent(struct rondo_channel *c, size_t bytes) {
  rondo_channel_count(&c->counters->sent_bytes, bytes);
  while (bytes && !STAILQ_EMPTY(&c->queue)) {
    struct rondo_channel_out *out = STAILQ_FIRST(&c->queue);
    size_t left = RONDO_WIRE_HEAD_BYTES + out->head.size + RONDO_WIRE_MAC_BYTES - out->done;
    size_t part = bytes < left ? bytes : left;
    out->done += part;
    bytes -= part;
    if (part < left)
      return;
    rondo_channel_count(&c->counters->sent, 1);
    channel_pop_frame(c);
  }
}

// Sends the handshake's reply. Returns 1 if all is sent, 0 if not yet, -1 if the channel has ended.
static int channel_flush_reply(struct rondo_channel *c) {
  while (c->reply_done < c->reply.size) {
    ssize_t n = send(c->fd, c->reply.bytes + c->reply_done, c->reply.size - c->reply_done,
                     MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && error_is_temporary(errno))
      return 0;
    if (n < 0) {
      channel_end(c, error_to_end(errno));
      return -1;
    }
    c->reply_done += (size_t)n;
    rondo_channel_count(&c->counters->sent_bytes, (uint64_t)n);
    rondo_channel_count(&c->counters->sent, c->reply_done == c->reply.size);
  }
  return 1;
}

// The other side no longer receives. What it has sent before, such as its goodbye, may still be
// unread: the channel ends when that has been read.
static void channel_end_sending(struct rondo_channel *c, int error) {
  if (c->is_paused || error_to_end(error) != RONDO_CHANNEL_CUT) {
    channel_end(c, error_to_end(error));
    return;
  }
  c->is_cut = 1;
  event_del(&c->writable);
  while (!STAILQ_EMPTY(&c->queue))
    channel_pop_frame(c);
}

// Sends as much as the socket takes.
static void channel_flush(struct rondo_channel *c) {
  if (c->is_dead || c->is_connecting)
    return;
  int done = channel_flush_reply(c);
  while (done > 0 && c->handshake.state == RONDO_HANDSHAKE_DONE && !STAILQ_EMPTY(&c->queue)) {
    ssize_t n = channel_send_pieces(c);
    if (n < 0 && error_is_temporary(errno)) {
      done = 0;
    } else if (n < 0) {
      channel_end_sending(c, errno);
      return;
    } else {
      channel_note_sent(c, (size_t)n);
    }
  }
  if (done == 0)
    (void)event_add(&c->writable, NULL);
}

void rondo_channel_send(struct rondo_channel *c, struct rondo_channel_out *out) {
  if (c->is_dead || (c->is_cut && out)) {
    if (out)
      channel_finish_frame(c, out);
    return;
  }
  if (!out) {
    c->is_starved = 1; // `closed` comes from the event loop: the owner does not expect it in here
    event_active(&c->deferred, EV_TIMEOUT, 1);
    return;
  }
  STAILQ_INSERT_TAIL(&c->queue, out, queued);
  // Not by `writable`: that would cost two system calls a frame to say that the socket has room.
  if (c->handshake.state == RONDO_HANDSHAKE_DONE)
    event_active(&c->deferred, EV_TIMEOUT, 1);
}

void rondo_channel_send_bytes(struct rondo_channel *c, int type, const void *bytes, size_t size) {
  struct rondo_shared_bytes *payload = rondo_shared_bytes_create(bytes, size);
  rondo_channel_send(c, payload ? rondo_channel_out_create(type, payload) : NULL);
}

// --------------------------------------------------------------- receiving ----

static bool buffer_try_grow(struct rondo_channel_buffer *b, size_t capacity) {
  if (b->capacity >= capacity)
    return true;
  uint8_t *bytes = realloc(b->bytes, capacity);
  if (!bytes)
    return false;
  b->bytes = bytes;
  b->capacity = capacity;
  return true;
}

// Keeps the descriptors that came with a piece. False if they are more than any frame can have.
static bool channel_try_keep_fds(struct rondo_channel *c, struct msghdr *m) {
  bool is_valid = !(m->msg_flags & MSG_CTRUNC);
  for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
      continue;
    uint32_t count = (uint32_t)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (uint32_t i = 0; i < count; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
      if (c->fd_count < 2 * RONDO_WIRE_FDS) {
        c->fds[c->fd_count++] = fd;
      } else {
        close(fd);
        is_valid = false;
      }
    }
  }
  // The welcome of the other side and its first messages may come in one piece.
  bool may_come = c->handshake.state == RONDO_HANDSHAKE_DONE ||
                  c->handshake.state == RONDO_HANDSHAKE_AWAIT_WELCOME;
  return is_valid && (c->fd_count == 0 || may_come);
}

static ssize_t channel_receive_piece(struct rondo_channel *c) {
  union {
    char bytes[CMSG_SPACE(sizeof(int) * 2 * RONDO_WIRE_FDS)];
    struct cmsghdr align;
  } control;
  struct iovec piece = {c->in.bytes + c->in.size, c->in.capacity - c->in.size};
  struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1};
  if (c->is_local) {
    m.msg_control = control.bytes;
    m.msg_controllen = sizeof control.bytes;
  }
  ssize_t n = recvmsg(c->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n > 0 && c->is_local && !channel_try_keep_fds(c, &m)) {
    errno = EPROTO;
    return -1;
  }
  return n;
}

// The first step has shown that the other side belongs to the job, or claims to. From now on it may
// be slow. Only a side that connects keeps a bound: there may be another address to try.
static void channel_allow_slowness(struct rondo_channel *c) {
  if (c->handshake.state == RONDO_HANDSHAKE_AWAIT_WELCOME)
    rondo_event_loop_timer_set(&c->deadline, c->welcome_ns);
  else
    evtimer_del(&c->deadline);
}

static void channel_step_handshake(struct rondo_channel *c, const struct rondo_wire_frame *frame) {
  int refusal = rondo_handshake_step(&c->handshake, frame, &c->reply);
  if (!refusal && c->handshake.state == RONDO_HANDSHAKE_DONE && c->events->admit) {
    refusal = c->events->admit(c->owner, c);
    if (refusal)
      rondo_handshake_refuse(refusal, &c->reply);
  }
  c->reply_done = 0;
  int failed = channel_flush_reply(c) < 0;
  if (refusal)
    channel_end(c, refusal);
  if (refusal || failed)
    return;
  if (c->reply_done < c->reply.size)
    (void)event_add(&c->writable, NULL);
  if (c->handshake.state != RONDO_HANDSHAKE_DONE) {
    channel_allow_slowness(c);
    return;
  }
  evtimer_del(&c->deadline);
  if (!STAILQ_EMPTY(&c->queue))
    (void)event_add(&c->writable, NULL);
  c->events->opened(c->owner, c);
}

// Calls `frame` and closes the descriptors that the owner does not keep.
static void channel_deliver(struct rondo_channel *c, const struct rondo_wire_frame *wire) {
  struct rondo_channel_frame frame = {.wire = *wire, .fd_count = wire->head.fd_count};
  int fds[RONDO_WIRE_FDS];
  if (frame.fd_count > c->fd_count) {
    channel_end(c, RONDO_WIRE_REFUSE_GARBAGE);
    return;
  }
  memcpy(fds, c->fds, frame.fd_count * sizeof *fds);
  c->fd_count -= frame.fd_count;
  memmove(c->fds, c->fds + frame.fd_count, c->fd_count * sizeof *c->fds);
  frame.fds = fds;
  c->events->frame(c->owner, c, &frame);
  fds_close(fds, frame.fd_count);
}

// Handles one frame at the front of `bytes`. Returns its size, or 0 if it is incomplete.
static size_t channel_parse_frame(struct rondo_channel *c, const uint8_t *bytes, size_t size) {
  struct rondo_wire_frame frame;
  bool is_authenticated = c->handshake.state == RONDO_HANDSHAKE_DONE;
  int good = rondo_wire_head_read(bytes, size, is_authenticated, &frame.head);
  if (good < 0)
    rondo_channel_refuse(c, -good);
  if (good <= 0)
    return 0;
  size_t whole =
      RONDO_WIRE_HEAD_BYTES + frame.head.size + (is_authenticated ? RONDO_WIRE_MAC_BYTES : 0);
  if (size < whole) {
    if (!buffer_try_grow(&c->in, whole))
      channel_end(c, RONDO_CHANNEL_CUT);
    return 0;
  }
  frame.payload = bytes + RONDO_WIRE_HEAD_BYTES;
  rondo_channel_count(&c->counters->received, 1);
  if (!is_authenticated)
    channel_step_handshake(c, &frame);
  else if (!rondo_handshake_open(&c->handshake, bytes, frame.payload, frame.head.size,
                                 frame.payload + frame.head.size))
    channel_end(c, RONDO_WIRE_REFUSE_SECRET);
  else
    channel_deliver(c, &frame);
  return whole;
}

// Drops the first `size` bytes of what was received.
static void channel_consume(struct rondo_channel *c, size_t size) {
  c->in.size -= size;
  memmove(c->in.bytes, c->in.bytes + size, c->in.size);
}

static void channel_on_frames(struct rondo_channel *c) {
  size_t at = 0;
  int left = FRAMES_AT_ONCE;
  while (left && !c->is_dead && !c->is_paused) {
    // A payload is aligned to 8 bytes, whatever the sizes of the frames before it.
    if (at % 8) {
      channel_consume(c, at);
      at = 0;
    }
    size_t taken = channel_parse_frame(c, c->in.bytes + at, c->in.size - at);
    if (!taken)
      break;
    at += taken;
    left--;
  }
  if (c->is_dead)
    return;
  channel_consume(c, at);
  if (c->in.size == 0 && c->in.capacity > IDLE_BYTES) {
    free(c->in.bytes);
    memset(&c->in, 0, sizeof c->in);
  }
  if (!left)
    event_active(&c->deferred, EV_TIMEOUT, 1);
}

static void channel_on_readable(evutil_socket_t fd, short what, void *arg) {
  struct rondo_channel *c = arg;
  (void)fd, (void)what;
  // An unauthenticated sender cannot make this side keep more than SMALL_BYTES.
  size_t room = c->handshake.state == RONDO_HANDSHAKE_DONE ? SMALL_BYTES * 8 : SMALL_BYTES;
  if (!buffer_try_grow(&c->in, c->in.size + 1 > room ? c->in.size + 1 : room)) {
    channel_end(c, RONDO_CHANNEL_CUT);
    return;
  }
  ssize_t n = channel_receive_piece(c);
  if (n > 0) {
    c->in.size += (size_t)n;
    rondo_channel_count(&c->counters->received_bytes, (uint64_t)n);
    channel_on_frames(c);
  } else if (n == 0) {
    channel_end(c, RONDO_CHANNEL_CUT);
  } else if (errno == EPROTO) {
    channel_end(c, RONDO_WIRE_REFUSE_GARBAGE);
  } else if (!error_is_temporary(errno)) {
    channel_end(c, error_to_end(errno));
  }
}

static void channel_on_writable(evutil_socket_t fd, short what, void *arg) {
  struct rondo_channel *c = arg;
  int error = 0;
  socklen_t size = sizeof error;
  (void)what;
  if (c->is_connecting) {
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error) {
      channel_end(c, error_to_end(error));
      return;
    }
    c->is_connecting = 0;
  }
  channel_flush(c);
}

static void channel_on_deadline(evutil_socket_t fd, short what, void *arg) {
  struct rondo_channel *c = arg;
  (void)fd, (void)what;
  if (c->is_connecting)
    channel_end(c, RONDO_CHANNEL_UNREACHABLE);
  else
    rondo_channel_refuse(c, RONDO_WIRE_REFUSE_LATE);
}

static void channel_on_deferred(evutil_socket_t fd, short what, void *arg) {
  struct rondo_channel *c = arg;
  (void)fd, (void)what;
  if (!c->is_dead && c->is_starved)
    channel_end(c, RONDO_CHANNEL_CUT);
  if (c->is_dead) {
    event_del(&c->deferred);
    free(c->in.bytes);
    sodium_memzero(&c->handshake, sizeof c->handshake);
    free(c);
    return;
  }
  if (!STAILQ_EMPTY(&c->queue))
    channel_flush(c);
  if (!c->is_dead && c->in.size)
    channel_on_frames(c);
}

void rondo_channel_pause(struct rondo_channel *c, int is_paused) {
  c->is_paused = is_paused;
  if (c->is_dead)
    return;
  if (is_paused) {
    event_del(&c->readable);
  } else {
    (void)event_add(&c->readable, NULL);
    event_active(&c->deferred, EV_TIMEOUT, 1); // for frames that are in the buffer already
  }
}

// ------------------------------------------------------------------ making ----

// Only the kernels detect a lost machine, by keep-alive: a process that is stopped or slow is not
// taken for lost. If an option cannot be set, its default holds.
static void socket_set_options(int fd, uint64_t peer_timeout_ns) {
  uint64_t milliseconds = peer_timeout_ns / 1000000;
  int bound = milliseconds > INT32_MAX ? INT32_MAX : (int)milliseconds;
  int pause = bound / 4000 ? bound / 4000 : 1; // seconds: an idle time and three probes
  pause = pause > MAX_KEEPALIVE_S ? MAX_KEEPALIVE_S : pause;
  const struct {
    int level, name, value;
  } options[] = {
      {IPPROTO_TCP, TCP_NODELAY, 1},       {SOL_SOCKET, SO_KEEPALIVE, 1},
      {IPPROTO_TCP, TCP_KEEPIDLE, pause},  {IPPROTO_TCP, TCP_KEEPCNT, 3},
      {IPPROTO_TCP, TCP_KEEPINTVL, pause}, {IPPROTO_TCP, TCP_USER_TIMEOUT, bound},
  };
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

static struct rondo_channel *channel_create(const struct rondo_channel_config *cfg, int fd) {
  struct rondo_channel *c = fd < 0 ? NULL : calloc(1, sizeof *c);
  if (!c) {
    if (fd >= 0)
      close(fd);
    return NULL;
  }
  uint8_t nonce[RONDO_WIRE_NONCE_BYTES];
  struct event_base *base = rondo_event_loop_base(cfg->loop);
  rondo_event_loop_own(fd);
  STAILQ_INIT(&c->queue);
  c->loop = cfg->loop;
  c->events = cfg->events;
  c->owner = cfg->owner;
  c->counters = cfg->counters;
  c->fd = fd;
  c->created_ns = rondo_now_ns();
  c->welcome_ns = cfg->welcome_ns;
  randombytes_buf(nonce, sizeof nonce);
  rondo_handshake_init(&c->handshake, cfg->job, cfg->self, nonce);
  event_assign(&c->readable, base, fd, EV_READ | EV_PERSIST, channel_on_readable, c);
  event_assign(&c->writable, base, fd, EV_WRITE, channel_on_writable, c);
  evtimer_assign(&c->deadline, base, channel_on_deadline, c);
  evtimer_assign(&c->deferred, base, channel_on_deferred, c);
  rondo_event_loop_timer_set(&c->deadline, cfg->handshake_ns);
  return c;
}

// Connects to `to`, which messages call `remote`, and starts the handshake.
static struct rondo_channel *channel_connect(const struct rondo_channel_config *cfg,
                                             const struct sockaddr_storage *to, socklen_t size,
                                             const char *remote,
                                             const struct rondo_wire_hello *hello) {
  int fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  struct rondo_channel *c = channel_create(cfg, fd);
  if (!c)
    return NULL;
  c->is_local = to->ss_family == AF_UNIX;
  if (!c->is_local)
    socket_set_options(fd, cfg->peer_timeout_ns);
  (void)snprintf(c->remote, sizeof c->remote, "%s", remote);
  rondo_handshake_begin(&c->handshake, hello, cfg->responder, &c->reply);
  c->is_connecting = connect(fd, (const struct sockaddr *)to, size) != 0;
  if (c->is_connecting && errno != EINPROGRESS) {
    int error = errno;
    rondo_channel_close(c);
    errno = error;
    return NULL;
  }
  (void)event_add(&c->readable, NULL);
  (void)event_add(&c->writable, NULL);
  return c;
}

struct rondo_channel *rondo_channel_connect(const struct rondo_channel_config *cfg,
                                            const struct rondo_wire_address *to,
                                            const struct rondo_wire_hello *hello) {
  struct sockaddr_storage s;
  char text[RONDO_ADDRESS_TEXT_BYTES];
  socklen_t size = rondo_address_to_socket(to, &s);
  rondo_address_text(to, text, sizeof text);
  return channel_connect(cfg, &s, size, text, hello);
}

socklen_t rondo_channel_local_address(const char *name, struct sockaddr_storage *s) {
  struct sockaddr_un un = {.sun_family = AF_UNIX};
  size_t size = strnlen(name, sizeof un.sun_path - 1);
  memcpy(un.sun_path + 1, name, size); // after a zero byte: the abstract namespace
  memset(s, 0, sizeof *s);
  memcpy(s, &un, sizeof un);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + size);
}

struct rondo_channel *rondo_channel_connect_local(const struct rondo_channel_config *cfg,
                                                  const char *name,
                                                  const struct rondo_wire_hello *hello) {
  struct sockaddr_storage s;
  socklen_t size = rondo_channel_local_address(name, &s);
  return channel_connect(cfg, &s, size, name, hello);
}

struct rondo_channel *rondo_channel_accept(const struct rondo_channel_config *cfg, int fd,
                                           const struct sockaddr *address) {
  struct rondo_channel *c = channel_create(cfg, fd);
  struct rondo_wire_address from;
  if (!c)
    return NULL;
  if (address && rondo_address_from_socket(address, &from)) {
    socket_set_options(fd, cfg->peer_timeout_ns);
    rondo_address_text(&from, c->remote, sizeof c->remote);
  } else {
    struct ucred user = {0};
    socklen_t size = sizeof user;
    c->is_local = 1;
    // A process of the same user is no stranger, and may be slow from the start.
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &size) == 0 && user.uid == geteuid())
      evtimer_del(&c->deadline);
    (void)snprintf(c->remote, sizeof c->remote, "pid %ld of this machine", (long)user.pid);
  }
  (void)event_add(&c->readable, NULL);
  return c;
}
