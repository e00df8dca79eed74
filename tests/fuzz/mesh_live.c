// Members that know the secret and say anything: a root and a mesh live through it, in bounded time.
//
// The first byte, below 8, says who is spoken to: 0 to 3 a root at which a mesh is joining, 4 to 7 that mesh,
// by its root. The rest is frames, of a type, a length and as many bytes each. Inputs that begin
// otherwise are left out: a run takes a millisecond.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/boot/address.h"
#include "runtime/boot/job.h"
#include "runtime/boot/mesh.h"
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

static int prove(int fd, struct rondo_proof *p, struct rondo_proof_reply *reply) {
  while (p->state != RONDO_PROOF_DONE) {
    uint8_t bytes[RONDO_WIRE_HEAD_BYTES + RONDO_WIRE_UNPROVEN_BYTES];
    struct rondo_wire_frame frame;
    if (reply->size && send(fd, reply->bytes, reply->size, MSG_NOSIGNAL) < 0)
      return 0;
    if (!read_all(fd, bytes, RONDO_WIRE_HEAD_BYTES) ||
        rondo_wire_head_read(bytes, RONDO_WIRE_HEAD_BYTES, 0, &frame.head) != 1 ||
        !read_all(fd, bytes + RONDO_WIRE_HEAD_BYTES, frame.head.size))
      return 0;
    frame.payload = bytes + RONDO_WIRE_HEAD_BYTES;
    if (rondo_proof_step(p, &frame, reply))
      return 0;
  }
  return !reply->size || send(fd, reply->bytes, reply->size, MSG_NOSIGNAL) > 0;
}

static void say(int fd, struct rondo_proof *p, struct rondo_fuzz_input *in) {
  while (in->size) {
    uint8_t bytes[FRAME_BYTES];
    struct rondo_wire_head head = {.version = RONDO_WIRE_VERSION};
    head.type = (uint8_t)(RONDO_WIRE_JOIN + rondo_fuzz_take(in, 1) % 11);
    head.size = (uint32_t)rondo_fuzz_take(in, 1);
    head.size = head.size < in->size ? head.size : (uint32_t)in->size;
    rondo_wire_head_write(bytes, &head);
    if (head.size)
      memcpy(bytes + RONDO_WIRE_HEAD_BYTES, in->data, head.size);
    in->data += head.size;
    in->size -= head.size;
    uint8_t *end = bytes + RONDO_WIRE_HEAD_BYTES + head.size;
    rondo_proof_seal(p, bytes, bytes + RONDO_WIRE_HEAD_BYTES, head.size, end);
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
  struct rondo_job job;
  struct rondo_mesh *mesh;
  struct rondo_proof p;
  struct rondo_proof_reply reply;
  struct sockaddr_storage s;
  RONDO_FUZZ_CHECK(rondo_unique_id_listen(&cfg.id, &cfg) == RONDO_SUCCESS);
  RONDO_FUZZ_CHECK(rondo_config_complete(&cfg) == RONDO_SUCCESS);
  RONDO_FUZZ_CHECK(rondo_job_read(&cfg, &job) == RONDO_SUCCESS);
  RONDO_FUZZ_CHECK(rondo_mesh_start(&cfg, &deaf, NULL, &mesh) == RONDO_SUCCESS);
  socklen_t size = rondo_address_to_socket(&job.addresses[0], &s);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  RONDO_FUZZ_CHECK(connect(fd, (struct sockaddr *)&s, size) == 0);
  rondo_proof_init(&p, &job.proof, nonce);
  rondo_proof_begin(&p, &hello, &reply);
  RONDO_FUZZ_CHECK(prove(fd, &p, &reply));
  say(fd, &p, in);
  hang_up(fd);
  rondo_mesh_stop(mesh, LONG_NS, 0);
}

static void speak_to_member(struct rondo_fuzz_input *in) {
  static const struct rondo_mesh_events deaf;
  static const uint8_t tag[RONDO_WIRE_TAG_BYTES] = "a tag";
  static const uint8_t secret[RONDO_PROOF_SECRET_BYTES] = "a secret";
  static const uint8_t nonce[RONDO_WIRE_NONCE_BYTES] = {5};
  struct rondo_config cfg = config();
  struct rondo_wire_address at = {.family = 4, .bytes = {127, 0, 0, 1}};
  struct rondo_proof_job job;
  struct rondo_mesh *mesh;
  struct rondo_proof p;
  struct rondo_proof_reply reply = {.size = 0};
  struct sockaddr_storage s;
  socklen_t size = rondo_address_to_socket(&at, &s);
  int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  RONDO_FUZZ_CHECK(bind(door, (struct sockaddr *)&s, size) == 0 && listen(door, 4) == 0);
  RONDO_FUZZ_CHECK(getsockname(door, (struct sockaddr *)&s, &size) == 0);
  RONDO_FUZZ_CHECK(rondo_address_from_socket((struct sockaddr *)&s, &at));
  rondo_proof_job_init(&job, tag, secret);
  rondo_job_write_root(&job, secret, &at, 1, &cfg.id);
  RONDO_FUZZ_CHECK(rondo_config_complete(&cfg) == RONDO_SUCCESS);
  RONDO_FUZZ_CHECK(rondo_mesh_start(&cfg, &deaf, NULL, &mesh) == RONDO_SUCCESS);
  struct pollfd poll_door = {.fd = door, .events = POLLIN};
  RONDO_FUZZ_CHECK(poll(&poll_door, 1, LONG_MS) == 1);
  int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
  rondo_proof_init(&p, &job, nonce);
  RONDO_FUZZ_CHECK(prove(fd, &p, &reply));
  say(fd, &p, in);
  (void)shutdown(fd, SHUT_WR);
  RONDO_FUZZ_CHECK(rondo_mesh_await(mesh, LONG_NS) != RONDO_ERR_TIMEOUT);
  close(door);
  hang_up(fd);
  rondo_mesh_stop(mesh, LONG_NS, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_fuzz_input in = {data, size};
  static int is_quiet;
  if (!is_quiet)
    is_quiet = setenv("RONDO_LOG", "off", 1) == 0;
  if (!size || data[0] >= 8)
    return 0;
  if (rondo_fuzz_take(&in, 1) < 4)
    speak_to_root(&in);
  else
    speak_to_member(&in);
  return 0;
}
