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
#include <semaphore.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/net/address.h"
#include "runtime/net/channel.h"
#include "runtime/net/job_address.h"
#include "runtime/job/members.h"
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
    head.type = (uint8_t)(RONDO_WIRE_MEMBERSHIP + rondo_fuzz_take(in, 1) % 8);
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

static const uint8_t tag[RONDO_WIRE_TAG_BYTES] = "a tag";
static const uint8_t secret[RONDO_HANDSHAKE_SECRET_BYTES] = "a secret";
static struct rondo_key_pair keys;  // of the fuzzer as a process of the job
static struct rondo_key_pair stray; // of no process of the job

static struct rondo_config config(void) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.rank_count = RANKS;
  cfg.join_timeout_ns = UINT64_C(60000000000);
  memcpy(cfg.interfaces, "=lo", sizeof "=lo");
  cfg.address_family = 4;
  return cfg;
}

static void speak_to_root(struct rondo_fuzz_input *in) {
  static const struct rondo_members_events deaf;
  static const uint8_t nonce[RONDO_WIRE_NONCE_BYTES] = {3};
  struct rondo_config cfg = config();
  struct rondo_wire_hello hello = {
      .purpose = RONDO_WIRE_TO_ROOT, .from = UINT32_MAX, .to = UINT32_MAX};
  struct rondo_job_address job;
  struct rondo_members *mesh;
  struct rondo_handshake p;
  struct rondo_handshake_reply reply;
  struct sockaddr_storage s;
  RONDO_FUZZ_CHECK(rondo_unique_id_listen(&cfg.id, &cfg) == RONDO_SUCCESS);
  RONDO_FUZZ_CHECK(rondo_config_complete(&cfg) == RONDO_SUCCESS);
  RONDO_FUZZ_CHECK(rondo_job_address_read(&cfg, &job) == RONDO_SUCCESS);
  RONDO_FUZZ_CHECK(rondo_members_calls->start(&cfg, NULL, &deaf, NULL, &mesh) == RONDO_SUCCESS);
  socklen_t size = rondo_address_to_socket(&job.addresses[0], &s);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  RONDO_FUZZ_CHECK(connect(fd, (struct sockaddr *)&s, size) == 0);
  rondo_handshake_init(&p, &job.key, &keys, nonce);
  rondo_handshake_begin(&p, &hello, NULL, &reply);
  RONDO_FUZZ_CHECK(prove(fd, &p, &reply));
  say(fd, &p, in);
  hang_up(fd);
  rondo_members_calls->stop(mesh, LONG_NS, 0);
}

// A root that the fuzzer is, at which a mesh joins.
struct scene {
  struct rondo_job_key job;
  struct rondo_members *mesh;
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
                       const struct rondo_members_events *events) {
  static const uint8_t nonce[RONDO_WIRE_NONCE_BYTES] = {5};
  struct rondo_config cfg = config();
  struct rondo_wire_address at;
  struct rondo_handshake_reply reply = {.size = 0};
  s->door = listen_at(&at);
  cfg.rank_count = rank_count;
  rondo_job_key_init(&s->job, tag, secret);
  rondo_job_address_write_root(&s->job, secret, &at, 1, &cfg.id);
  RONDO_FUZZ_CHECK(rondo_config_complete(&cfg) == RONDO_SUCCESS);
  RONDO_FUZZ_CHECK(rondo_members_calls->start(&cfg, NULL, events, s, &s->mesh) == RONDO_SUCCESS);
  s->fd = admit(s->door);
  rondo_handshake_init(&s->proof, &s->job, NULL, nonce);
  RONDO_FUZZ_CHECK(prove(s->fd, &s->proof, &reply));
}

static void speak_to_member(struct rondo_fuzz_input *in) {
  static const struct rondo_members_events deaf;
  struct scene s;
  scene_open(&s, RANKS, &deaf);
  say(s.fd, &s.proof, in);
  (void)shutdown(s.fd, SHUT_WR);
  close(s.door);
  hang_up(s.fd);
  rondo_members_calls->stop(s.mesh, LONG_NS, 0);
}

// ------------------------------------------------------------- among members ---

#define HERE 1u      // by the machine's own socket, by which descriptors come, not by TCP
#define CALLED_ON 2u // the mesh calls first, and is answered on the connection that it has made

// A mesh alone, without a root: the fuzzer says where the other process is.
static struct pair {
  struct rondo_mesh *mesh;
  struct rondo_topology *topology;
  sem_t is_done;
  int is_stray; // the fuzzer is not the process that it says: the mesh reads nothing
} pair;

static void on_meet(void *arg) {
  (void)arg;
  RONDO_FUZZ_CHECK(rondo_mesh_meet(pair.mesh, 0, pair.topology));
  rondo_mesh_open(pair.mesh);
  (void)sem_post(&pair.is_done);
}

static void on_end(void *arg) {
  (void)arg;
  rondo_mesh_end(pair.mesh);
  (void)sem_post(&pair.is_done);
}

static void control_thread_run(void (*call)(void *arg)) {
  RONDO_FUZZ_CHECK(sem_init(&pair.is_done, 0, 0) == 0);
  RONDO_FUZZ_CHECK(rondo_mesh_after(pair.mesh, 0, call, NULL) == RONDO_SUCCESS);
  while (sem_wait(&pair.is_done) != 0)
    continue;
}

static void on_control(void *arg, uint32_t from, const void *bytes, size_t size) {
  (void)arg, (void)bytes;
  RONDO_FUZZ_CHECK(!pair.is_stray && from == 1 && size <= RONDO_WIRE_AUTHENTICATED_BYTES);
}

static void on_cut(void *arg, uint32_t process, bool is_proven, const char *text) {
  (void)arg, (void)is_proven, (void)text;
  RONDO_FUZZ_CHECK(process == 1);
}

static void on_broke(void *arg, uint32_t process, const char *text) {
  (void)arg, (void)text;
  RONDO_FUZZ_CHECK(process == 1);
}

static void on_text(void *arg, const char *text) { (void)arg, (void)text; }

static void hear(void *arg, struct rondo_mesh_message *message) {
  (void)arg;
  RONDO_FUZZ_CHECK(!pair.is_stray && message->from == 1);
  RONDO_FUZZ_CHECK(message->size <= RONDO_MESH_MESSAGE_BYTES);
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
  static const uint8_t types[] = {RONDO_WIRE_MESSAGE, RONDO_WIRE_MEMBERSHIP, RONDO_WIRE_FLUSH,
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
    head.size = head.type == RONDO_WIRE_FLUSH ? 8 : (uint32_t)rondo_fuzz_take(in, 1);
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

// Two processes with a rank each: the mesh, and the fuzzer at `door`, on another machine. Returns
// where the mesh is.
static const struct rondo_wire_member *pair_open(const struct rondo_job_key *job,
                                                 const struct rondo_wire_address *door,
                                                 const struct rondo_mesh_events *events) {
  uint32_t ranks[] = {0, 1};
  struct rondo_topology_place place = {.node = -1};
  struct rondo_wire_member other = {
      .address_count = 1, .rank_count = 1, .ranks = &ranks[1], .places = &place};
  struct rondo_config cfg = config();
  other.addresses[0] = *door;
  memcpy(other.key, keys.public_key, sizeof other.key);
  cfg.rank_count = 2;
  rondo_job_address_write_root(job, secret, door, 1, &cfg.id);
  RONDO_FUZZ_CHECK(rondo_config_complete(&cfg) == RONDO_SUCCESS);
  RONDO_FUZZ_CHECK(rondo_mesh_start(&cfg, events, NULL, &rondo_members_gatherer, &pair.mesh) ==
                   RONDO_SUCCESS);
  struct rondo_wire_member self = *rondo_mesh_self(pair.mesh);
  self.rank_count = 1;
  self.ranks = &ranks[0];
  self.places = &place;
  pair.topology = rondo_topology_create(2, 2);
  RONDO_FUZZ_CHECK(pair.topology && rondo_topology_add(pair.topology, &self) &&
                   rondo_topology_add(pair.topology, &other));
  rondo_mesh_begin(pair.mesh);
  control_thread_run(on_meet);
  return rondo_mesh_self(pair.mesh);
}

static void pair_close(void) {
  control_thread_run(on_end);
  rondo_mesh_free(pair.mesh);
  rondo_topology_destroy(pair.topology);
}

// The next bytes say by which way, and as whom: as the other process, or as nobody, or with a key
// that is not of the other process.
static void speak_as_peer(struct rondo_fuzz_input *in) {
  static const struct rondo_mesh_events events = {.control = on_control,
                                                  .receive = hear,
                                                  .cut = on_cut,
                                                  .broke = on_broke,
                                                  .waits = on_text,
                                                  .failed = on_text};
  static const uint8_t nonce[RONDO_WIRE_NONCE_BYTES] = {7};
  uint32_t how = (uint32_t)rondo_fuzz_take(in, 1);
  uint32_t who = (uint32_t)rondo_fuzz_take(in, 1);
  struct rondo_wire_hello hello = {.purpose = RONDO_WIRE_TO_PEER};
  struct rondo_handshake_reply reply = {.size = 0};
  struct rondo_wire_address at;
  struct rondo_handshake p;
  struct rondo_job_key job;
  int door = listen_at(&at);
  rondo_job_key_init(&job, tag, secret);
  const struct rondo_wire_member *member = pair_open(&job, &at, &events);
  const struct rondo_mesh_send call = {.to = 1, .bytes = "call", .size = 4};
  if (how & CALLED_ON)
    RONDO_FUZZ_CHECK(rondo_mesh_send(pair.mesh, &call) == RONDO_SUCCESS);
  hello.from = 1 + who % 4 / 3; // seldom somebody else
  hello.to = who / 4 % 4 / 3;
  pair.is_stray = who / 16 % 4 == 3;
  int fd = how & CALLED_ON ? admit(door) : connect_to(member, how & HERE);
  rondo_handshake_init(&p, &job, pair.is_stray ? &stray : &keys, nonce);
  if (!(how & CALLED_ON))
    rondo_handshake_begin(&p, &hello, member->key, &reply);
  int is_proved = prove(fd, &p, &reply);
  RONDO_FUZZ_CHECK(!is_proved || !pair.is_stray || !(how & CALLED_ON));
  if (is_proved)
    say_to_member(fd, &p, in, how & HERE && !(how & CALLED_ON));
  hang_up(fd);
  close(door);
  pair_close();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_fuzz_input in = {data, size};
  static int is_quiet;
  if (!is_quiet) {
    is_quiet = setenv("RONDO_LOG", "off", 1) == 0;
    rondo_key_pair_init(&keys, (const uint8_t[RONDO_TOPOLOGY_KEY_BYTES]){0, 1});
    rondo_key_pair_init(&stray, (const uint8_t[RONDO_TOPOLOGY_KEY_BYTES]){0, 2});
  }
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
