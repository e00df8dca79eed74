// Members that know the secret and say anything: a root and a mesh live through it, in bounded
// time.
//
// The first byte, below 12, says who is spoken to: 0 to 3 a root at which a mesh is joining, 4 to 7
// that mesh, by its root, 8 to 11 a mesh that has joined, by another member: see speak_as_peer. The
// rest is frames, of a type, a length and as many bytes each; what is between members has a subtype
// and descriptors, too. Inputs that begin otherwise are left out: a run takes a millisecond.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/net/address.h"
#include "runtime/net/channel.h"
#include "runtime/net/job_address.h"
#include "runtime/net/mesh.h"
#include "tests/support/fuzz.h"

#define RANKS 4u
#define LONG_MS 20000
#define LONG_NS INT64_C(20000000000)
#define FRAME_BYTES (RONDO_WIRE_HEAD_BYTES + 256u + RONDO_WIRE_MAC_BYTES)

static int read_all(int fd, uint8_t *bytes, size_t size) {
  while (size) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    RONDO_FUZZ_CHECK(poll(&p, 1, LONG_MS) == 1);
    ssize_t n = recv(fd, bytes, size, 0);
    if (n <= 0)
      return 0;
    bytes += n;
    size -= (size_t)n;
  }
  return 1;
}

static int prove(int fd, struct rondo_handshake *p, struct rondo_handshake_reply *reply) {
  while (p->state != RONDO_HANDSHAKE_DONE) {
    uint8_t bytes[RONDO_WIRE_HEAD_BYTES + RONDO_WIRE_UNAUTHENTICATED_BYTES];
    struct rondo_wire_frame frame;
    if (reply->size && send(fd, reply->bytes, reply->size, MSG_NOSIGNAL) < 0)
      return 0;
    if (!read_all(fd, bytes, RONDO_WIRE_HEAD_BYTES) ||
        rondo_wire_head_read(bytes, RONDO_WIRE_HEAD_BYTES, 0, &frame.head) != 1 ||
        !read_all(fd, bytes + RONDO_WIRE_HEAD_BYTES, frame.head.size))
      return 0;
    frame.payload = bytes + RONDO_WIRE_HEAD_BYTES;
    if (rondo_handshake_step(p, &frame, reply))
      return 0;
  }
  return !reply->size || send(fd, reply->bytes, reply->size, MSG_NOSIGNAL) > 0;
}

// Makes a frame with what the input has next, `head->size` bytes of it. Returns where its code is,
// the frame's end.
static uint8_t *fill_frame(uint8_t *bytes, const struct rondo_wire_head *head,
                           struct rondo_handshake *p, struct rondo_fuzz_input *in) {
  uint8_t *payload = bytes + RONDO_WIRE_HEAD_BYTES;
  uint8_t *end = payload + head->size;
  rondo_wire_head_write(bytes, head);
  if (head->size)
    memcpy(payload, in->data, head->size);
  in->data += head->size;
  in->size -= head->size;
  rondo_handshake_seal(p, bytes, payload, head->size, end);
  return end;
}

static void say(int fd, struct rondo_handshake *p, struct rondo_fuzz_input *in) {
  while (in->size) {
    uint8_t bytes[FRAME_BYTES];
    struct rondo_wire_head head = {.version = RONDO_WIRE_VERSION};
    head.type = (uint8_t)(RONDO_WIRE_JOIN + rondo_fuzz_take(in, 1) % 11);
    head.size = (uint32_t)rondo_fuzz_take(in, 1);
    head.size = head.size < in->size ? head.size : (uint32_t)in->size;
    uint8_t *end = fill_frame(bytes, &head, p, in);
    if (send(fd, bytes, (size_t)(end - bytes) + RONDO_WIRE_MAC_BYTES, MSG_NOSIGNAL) < 0)
      return;
  }
}

// Ends what this side says and reads what is still coming.
static void hang_up(int fd) {
  uint8_t bytes[4096];
  struct pollfd p = {.fd = fd, .events = POLLIN};
  (void)shutdown(fd, SHUT_WR);
  while (poll(&p, 1, LONG_MS) == 1 && recv(fd, bytes, sizeof bytes, 0) > 0)
    continue;
  close(fd);
}

static struct rondo_config config(void) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.rank_count = RANKS;
  cfg.join_timeout_ns = UINT64_C(60000000000);
  memcpy(cfg.interfaces, "=lo", sizeof "=lo");
  cfg.address_family = 4;
  return cfg;
}

static void speak_to_root(struct rondo_fuzz_input *in) {
  static const struct rondo_mesh_events deaf;
  static const uint8_t nonce[RONDO_WIRE_NONCE_BYTES] = {3};
  struct rondo_config cfg = config();
  struct rondo_wire_hello hello = {
      .purpose = RONDO_WIRE_TO_ROOT, .from = UINT32_MAX, .to = UINT32_MAX};
  struct rondo_job_address job;
  struct rondo_mesh *mesh;
  struct rondo_handshake p;
  struct rondo_handshake_reply reply;
  struct sockaddr_storage s;
  RONDO_FUZZ_CHECK(rondo_unique_id_listen(&cfg.id, &cfg) == RONDO_SUCCESS);
  RONDO_FUZZ_CHECK(rondo_config_complete(&cfg) == RONDO_SUCCESS);
  RONDO_FUZZ_CHECK(rondo_job_address_read(&cfg, &job) == RONDO_SUCCESS);
  RONDO_FUZZ_CHECK(rondo_mesh_calls->start(&cfg, NULL, &deaf, NULL, &mesh) == RONDO_SUCCESS);
  socklen_t size = rondo_address_to_socket(&job.addresses[0], &s);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  RONDO_FUZZ_CHECK(connect(fd, (struct sockaddr *)&s, size) == 0);
  rondo_handshake_init(&p, &job.key, nonce);
  rondo_handshake_begin(&p, &hello, &reply);
  RONDO_FUZZ_CHECK(prove(fd, &p, &reply));
  say(fd, &p, in);
  hang_up(fd);
  rondo_mesh_calls->stop(mesh, LONG_NS, 0);
}

// A root that the fuzzer is, at which a mesh joins.
struct scene {
  struct rondo_job_key job;
  struct rondo_mesh *mesh;
  struct rondo_handshake proof; // of the connection from the mesh
  int door, fd;
};

static int listen_at(struct rondo_wire_address *at) {
  struct sockaddr_storage s;
  *at = (struct rondo_wire_address){.family = 4, .bytes = {127, 0, 0, 1}};
  socklen_t size = rondo_address_to_socket(at, &s);
  int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  RONDO_FUZZ_CHECK(bind(door, (struct sockaddr *)&s, size) == 0 && listen(door, 4) == 0);
  RONDO_FUZZ_CHECK(getsockname(door, (struct sockaddr *)&s, &size) == 0);
  RONDO_FUZZ_CHECK(rondo_address_from_socket((struct sockaddr *)&s, at));
  return door;
}

static int admit(int door) {
  struct pollfd p = {.fd = door, .events = POLLIN};
  RONDO_FUZZ_CHECK(poll(&p, 1, LONG_MS) == 1);
  int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
  const int one = 1; // frames that follow each other are not to wait for an answer
  RONDO_FUZZ_CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
  return fd;
}

static void scene_open(struct scene *s, uint32_t rank_count,
                       const struct rondo_mesh_events *events) {
  static const uint8_t tag[RONDO_WIRE_TAG_BYTES] = "a tag";
  static const uint8_t secret[RONDO_HANDSHAKE_SECRET_BYTES] = "a secret";
  static const uint8_t nonce[RONDO_WIRE_NONCE_BYTES] = {5};
  struct rondo_config cfg = config();
  struct rondo_wire_address at;
  struct rondo_handshake_reply reply = {.size = 0};
  s->door = listen_at(&at);
  cfg.rank_count = rank_count;
  rondo_job_key_init(&s->job, tag, secret);
  rondo_job_address_write_root(&s->job, secret, &at, 1, &cfg.id);
  RONDO_FUZZ_CHECK(rondo_config_complete(&cfg) == RONDO_SUCCESS);
  RONDO_FUZZ_CHECK(rondo_mesh_calls->start(&cfg, NULL, events, s, &s->mesh) == RONDO_SUCCESS);
  s->fd = admit(s->door);
  rondo_handshake_init(&s->proof, &s->job, nonce);
  RONDO_FUZZ_CHECK(prove(s->fd, &s->proof, &reply));
}

static void speak_to_member(struct rondo_fuzz_input *in) {
  static const struct rondo_mesh_events deaf;
  struct scene s;
  scene_open(&s, RANKS, &deaf);
  say(s.fd, &s.proof, in);
  (void)shutdown(s.fd, SHUT_WR);
  RONDO_FUZZ_CHECK(rondo_mesh_await(s.mesh, LONG_NS) != RONDO_ERR_TIMEOUT);
  close(s.door);
  hang_up(s.fd);
  rondo_mesh_calls->stop(s.mesh, LONG_NS, 0);
}

// ------------------------------------------------------------- among members ---

#define JOIN_BYTES 4096u
#define HERE 1u      // by the machine's own socket, by which descriptors come, not by TCP
#define CALLED_ON 2u // the mesh calls first, and is answered on the connection that it has made

static void put_frame(int fd, struct rondo_handshake *p, uint8_t type,
                      const struct rondo_wire_writer *w) {
  uint8_t bytes[RONDO_WIRE_HEAD_BYTES + JOIN_BYTES + RONDO_WIRE_MAC_BYTES];
  struct rondo_wire_head head = {
      .version = RONDO_WIRE_VERSION, .type = type, .size = (uint32_t)w->size};
  RONDO_FUZZ_CHECK(!w->full && w->size <= JOIN_BYTES);
  rondo_wire_head_write(bytes, &head);
  memcpy(bytes + RONDO_WIRE_HEAD_BYTES, w->bytes, w->size);
  uint8_t *end = bytes + RONDO_WIRE_HEAD_BYTES + w->size;
  rondo_handshake_seal(p, bytes, bytes + RONDO_WIRE_HEAD_BYTES, w->size, end);
  size_t size = (size_t)(end - bytes) + RONDO_WIRE_MAC_BYTES;
  RONDO_FUZZ_CHECK(send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size);
}

// What the mesh says of itself when it joins.
static struct rondo_wire_member read_join(struct scene *s) {
  uint8_t bytes[RONDO_WIRE_HEAD_BYTES + JOIN_BYTES + RONDO_WIRE_MAC_BYTES];
  struct rondo_wire_frame frame = {.payload = bytes + RONDO_WIRE_HEAD_BYTES};
  struct rondo_wire_member member;
  RONDO_FUZZ_CHECK(read_all(s->fd, bytes, RONDO_WIRE_HEAD_BYTES));
  RONDO_FUZZ_CHECK(rondo_wire_head_read(bytes, RONDO_WIRE_HEAD_BYTES, 1, &frame.head) == 1);
  RONDO_FUZZ_CHECK(frame.head.type == RONDO_WIRE_JOIN && frame.head.size <= JOIN_BYTES);
  RONDO_FUZZ_CHECK(
      read_all(s->fd, bytes + RONDO_WIRE_HEAD_BYTES, frame.head.size + RONDO_WIRE_MAC_BYTES));
  struct rondo_wire_reader r = rondo_wire_read(&frame);
  (void)rondo_wire_get_u32(&r);
  rondo_wire_get_member(&r, &member, NULL);
  RONDO_FUZZ_CHECK(rondo_wire_is_done(&r) && member.address_count);
  return member;
}

// Two processes with a rank each: the mesh, and the fuzzer at `door`, on another machine.
static void tell_roster(struct scene *s, const struct rondo_wire_member *member,
                        const struct rondo_wire_address *door) {
  uint8_t bytes[JOIN_BYTES];
  uint32_t rank = 1;
  struct rondo_topology_place place = {.node = -1};
  struct rondo_wire_member other = {
      .address_count = 1, .rank_count = 1, .ranks = &rank, .places = &place};
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = sizeof bytes};
  other.addresses[0] = *door;
  for (uint32_t i = 0; i < 4; i++) // number, processes, ranks, the root's process: none
    rondo_wire_put_u32(&w, (const uint32_t[]){0, 2, 2, RONDO_MESH_NOBODY}[i]);
  put_frame(s->fd, &s->proof, RONDO_WIRE_ROSTER, &w);
  w.size = 0;
  rondo_wire_put_u32(&w, 0);
  rondo_wire_put_u32(&w, 2);
  rondo_wire_put_member(&w, member, NULL);
  rondo_wire_put_member(&w, &other, member);
  put_frame(s->fd, &s->proof, RONDO_WIRE_MEMBERS, &w);
  RONDO_FUZZ_CHECK(rondo_mesh_await(s->mesh, LONG_NS) == RONDO_SUCCESS);
}

static void hear(void *arg, struct rondo_mesh_message *message) {
  (void)arg;
  RONDO_FUZZ_CHECK(message->from == 1 && message->size <= RONDO_MESH_MESSAGE_BYTES);
  RONDO_FUZZ_CHECK(message->fd_count <= RONDO_MESH_MESSAGE_FDS);
  for (uint32_t i = 0; i < message->fd_count; i++)
    RONDO_FUZZ_CHECK(fcntl(message->fds[i], F_GETFD) >= 0);
  if (message->fd_count && message->type & 1) { // it is kept
    close(message->fds[0]);
    message->fds[0] = -1;
  }
}

static ssize_t send_with(int fd, uint8_t *bytes, size_t size, uint32_t fd_count) {
  int fds[RONDO_WIRE_FDS] = {fd, fd, fd, fd, fd, fd, fd, fd};
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof fds)];
  } control = {.bytes = {0}};
  struct iovec part = {bytes, size};
  struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
  if (fd_count) {
    m.msg_control = &control;
    m.msg_controllen = CMSG_SPACE(fd_count * sizeof *fds);
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(fd_count * sizeof *fds);
    memcpy(CMSG_DATA(&control.head), fds, fd_count * sizeof *fds);
  }
  return sendmsg(fd, &m, MSG_NOSIGNAL);
}

// Frames of members to each other: a byte that says how, and is not 0 where something is wrong with
// one.
static void say_to_member(int fd, struct rondo_handshake *p, struct rondo_fuzz_input *in,
                          int is_here) {
  static const uint8_t types[] = {RONDO_WIRE_MESSAGE, RONDO_WIRE_MESSAGE, RONDO_WIRE_GONE,
                                  RONDO_WIRE_BYE};
  while (in->size) {
    uint8_t bytes[FRAME_BYTES];
    uint8_t how = (uint8_t)rondo_fuzz_take(in, 1);
    uint8_t wrong = (uint8_t)rondo_fuzz_take(in, 1);
    struct rondo_wire_head head = {.version = RONDO_WIRE_VERSION, .type = types[how % 4]};
    head.subtype = head.type == RONDO_WIRE_MESSAGE ? how / 4 % 8 : 0;
    if (wrong & 1)
      head.type = (uint8_t)rondo_fuzz_take(in, 1);
    head.fd_count = is_here && head.type == RONDO_WIRE_MESSAGE ? how / 32 : 0;
    head.size = head.type == RONDO_WIRE_GONE ? 4 : (uint32_t)rondo_fuzz_take(in, 1);
    head.size = head.size < in->size ? head.size : (uint32_t)in->size;
    if (wrong & 2)
      head.fd_count ^= 1;
    uint8_t *end = fill_frame(bytes, &head, p, in);
    if (wrong & 4)
      end[how % RONDO_WIRE_MAC_BYTES] ^= 1;
    if (send_with(fd, bytes, (size_t)(end - bytes) + RONDO_WIRE_MAC_BYTES, is_here ? how / 32 : 0) <
        0)
      return;
  }
}

static int connect_to(const struct rondo_wire_member *member, int is_here) {
  struct sockaddr_storage s;
  socklen_t size = is_here ? rondo_channel_local_address(member->local, &s)
                           : rondo_address_to_socket(&member->addresses[0], &s);
  int fd = socket(is_here ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  RONDO_FUZZ_CHECK(connect(fd, (struct sockaddr *)&s, size) == 0);
  return fd;
}

// The next bytes say by which way, and as whom: as the other process, or as nobody.
static void speak_as_peer(struct rondo_fuzz_input *in) {
  static const struct rondo_mesh_events events = {.receive = hear};
  static const uint8_t nonce[RONDO_WIRE_NONCE_BYTES] = {7};
  uint32_t how = (uint32_t)rondo_fuzz_take(in, 1);
  uint32_t who = (uint32_t)rondo_fuzz_take(in, 1);
  struct rondo_wire_hello hello = {.purpose = RONDO_WIRE_TO_PEER};
  struct rondo_handshake_reply reply = {.size = 0};
  struct rondo_wire_address at;
  struct rondo_handshake p;
  struct scene s;
  int door = listen_at(&at);
  scene_open(&s, 2, &events);
  struct rondo_wire_member member = read_join(&s);
  tell_roster(&s, &member, &at);
  const struct rondo_mesh_send call = {.to = 1, .bytes = "call", .size = 4};
  if (how & CALLED_ON)
    RONDO_FUZZ_CHECK(rondo_mesh_calls->send(s.mesh, &call) == RONDO_SUCCESS);
  hello.from = 1 + who % 4 / 3; // seldom somebody else
  hello.to = who / 4 % 4 / 3;
  int fd = how & CALLED_ON ? admit(door) : connect_to(&member, how & HERE);
  rondo_handshake_init(&p, &s.job, nonce);
  if (!(how & CALLED_ON))
    rondo_handshake_begin(&p, &hello, &reply);
  if (prove(fd, &p, &reply))
    say_to_member(fd, &p, in, how & HERE && !(how & CALLED_ON));
  hang_up(fd);
  close(door);
  close(s.door);
  (void)shutdown(s.fd, SHUT_WR);
  hang_up(s.fd);
  rondo_mesh_calls->stop(s.mesh, LONG_NS, 0);
  rondo_wire_member_fini(&member);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_fuzz_input in = {data, size};
  static int is_quiet;
  if (!is_quiet)
    is_quiet = setenv("RONDO_LOG", "off", 1) == 0;
  if (!size || data[0] >= 12)
    return 0;
  switch (rondo_fuzz_take(&in, 1) / 4) {
  case 0:
    speak_to_root(&in);
    break;
  case 1:
    speak_to_member(&in);
    break;
  default:
    speak_as_peer(&in);
  }
  return 0;
}
