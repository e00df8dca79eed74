// A side that does not know the secret, or does not have the key that it shows, never gets through
// the proof. The input is what it says. The first byte says which side it is, and how often a frame
// of the true other side is put in between.
#include "runtime/net/handshake.h"
#include "tests/support/fuzz.h"

static const uint8_t tag[RONDO_WIRE_TAG_BYTES] = "job tag";
static const uint8_t secret[RONDO_HANDSHAKE_SECRET_BYTES] = "its one secret.";
static const uint8_t other_secret[RONDO_HANDSHAKE_SECRET_BYTES] = "another secret.";
// Of two processes, and of one with the private key of its own and the public key of the first.
static struct rondo_key_pair keys[2];
static struct rondo_key_pair thief;

// Gives the proof the frames of `data`, as a channel would. Returns 1 if it let them through.
static int feed(struct rondo_handshake *p, const uint8_t *data, size_t size) {
  struct rondo_handshake_reply reply;
  while (p->state != RONDO_HANDSHAKE_DONE && p->state != RONDO_HANDSHAKE_FAILED) {
    struct rondo_wire_frame frame;
    if (rondo_wire_head_read(data, size, 0, &frame.head) != 1 ||
        size < RONDO_WIRE_HEAD_BYTES + frame.head.size)
      return 0;
    frame.payload = data + RONDO_WIRE_HEAD_BYTES;
    int refusal = rondo_handshake_step(p, &frame, &reply);
    RONDO_FUZZ_CHECK((refusal != 0) == (p->state == RONDO_HANDSHAKE_FAILED));
    RONDO_FUZZ_CHECK(reply.size <= sizeof reply.bytes);
    data += RONDO_WIRE_HEAD_BYTES + frame.head.size;
    size -= RONDO_WIRE_HEAD_BYTES + frame.head.size;
  }
  return p->state == RONDO_HANDSHAKE_DONE;
}

// Makes the header good, so that what the fuzzer finds is behind it.
static size_t frame_of(uint8_t *bytes, int type, const uint8_t *data, size_t size) {
  struct rondo_wire_head head = {.version = RONDO_WIRE_VERSION, .type = (uint8_t)type};
  head.size =
      (uint32_t)(size < RONDO_WIRE_UNAUTHENTICATED_BYTES ? size : RONDO_WIRE_UNAUTHENTICATED_BYTES);
  rondo_wire_head_write(bytes, &head);
  if (head.size)
    memcpy(bytes + RONDO_WIRE_HEAD_BYTES, data, head.size);
  return RONDO_WIRE_HEAD_BYTES + head.size;
}

// A conversation between two processes that do not agree: `from` with its secret looks for the
// process with the public key `to`. A frame of it is changed to what the input says.
static void converse(const uint8_t *data, size_t size, const uint8_t *from_secret,
                     const struct rondo_key_pair *from, const uint8_t *to) {
  struct rondo_job_key job;
  struct rondo_job_key other;
  struct rondo_handshake a;
  struct rondo_handshake b;
  struct rondo_handshake_reply reply;
  struct rondo_handshake_reply answer;
  struct rondo_wire_hello hello = {.purpose = RONDO_WIRE_TO_PEER};
  uint8_t nonce[RONDO_WIRE_NONCE_BYTES] = {size ? data[0] : 0};
  uint8_t bytes[RONDO_WIRE_HEAD_BYTES + RONDO_WIRE_UNAUTHENTICATED_BYTES];
  rondo_job_key_init(&job, tag, secret);
  rondo_job_key_init(&other, tag, from_secret);
  rondo_handshake_init(&a, &other, from, nonce);
  rondo_handshake_init(&b, &job, &keys[1], nonce);
  rondo_handshake_begin(&a, &hello, to, &reply);
  for (int i = 0; i < 3 && reply.size; i++) {
    struct rondo_wire_frame frame;
    struct rondo_handshake *side = i % 2 ? &a : &b;
    int changed = size && data[0] % 4 == i;
    size_t whole = changed ? frame_of(bytes, reply.bytes[5], data, size) : reply.size;
    if (!changed)
      memcpy(bytes, reply.bytes, reply.size);
    RONDO_FUZZ_CHECK(rondo_wire_head_read(bytes, whole, 0, &frame.head) == 1);
    frame.payload = bytes + RONDO_WIRE_HEAD_BYTES;
    (void)rondo_handshake_step(side, &frame, &answer);
    reply = answer;
  }
  RONDO_FUZZ_CHECK(a.state != RONDO_HANDSHAKE_DONE);
  RONDO_FUZZ_CHECK(b.state != RONDO_HANDSHAKE_DONE);
}

static void keys_make(void) {
  for (uint8_t i = 0; i < 2; i++)
    rondo_key_pair_init(&keys[i], (const uint8_t[RONDO_TOPOLOGY_KEY_BYTES]){0, i});
  rondo_key_pair_init(&thief, (const uint8_t[RONDO_TOPOLOGY_KEY_BYTES]){0, 2});
  memcpy(thief.public_key, keys[0].public_key, sizeof thief.public_key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_job_key job;
  struct rondo_handshake p;
  struct rondo_handshake_reply reply;
  struct rondo_wire_hello hello = {.purpose = RONDO_WIRE_TO_ROOT};
  static const uint8_t nonce[RONDO_WIRE_NONCE_BYTES] = {7};
  if (size == 0)
    return 0;
  if (!thief.private_key[1])
    keys_make();
  hello.purpose = data[0] & 2 ? RONDO_WIRE_TO_PEER : RONDO_WIRE_TO_ROOT;
  rondo_job_key_init(&job, tag, secret);
  rondo_handshake_init(&p, &job, &keys[0], nonce);
  if (data[0] & 1)
    rondo_handshake_begin(&p, &hello, data[0] & 2 ? keys[1].public_key : NULL, &reply);
  RONDO_FUZZ_CHECK(!feed(&p, data + 1, size - 1));
  converse(data + 1, size - 1, other_secret, &keys[0], keys[1].public_key);
  converse(data + 1, size - 1, secret, &thief, keys[1].public_key);
  converse(data + 1, size - 1, secret, &keys[0], keys[0].public_key);
  return 0;
}
