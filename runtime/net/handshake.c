#include <assert.h>
#include <string.h>
#include <sys/uio.h>

#include <sodium.h>

#include "runtime/net/handshake.h"

static_assert(RONDO_WIRE_PROOF_BYTES <= crypto_generichash_BYTES_MAX, "one hash");
static_assert(RONDO_WIRE_MAC_BYTES >= crypto_generichash_BYTES_MIN, "one hash");
static_assert(RONDO_TOPOLOGY_KEY_BYTES == crypto_scalarmult_BYTES, "X25519");
static_assert(RONDO_TOPOLOGY_KEY_BYTES == crypto_scalarmult_SCALARBYTES, "X25519");
static_assert(RONDO_WIRE_HELLO_BYTES <= RONDO_WIRE_UNAUTHENTICATED_BYTES, "HELLO fits");
static_assert(RONDO_HANDSHAKE_SECRET_BYTES >= crypto_generichash_KEYBYTES_MIN,
              "the secret is a key");

// Hashes up to three parts in sequence, with a key of `key_bytes` (0: none).
static void parts_hash(const uint8_t *key, size_t key_bytes, const struct iovec parts[3],
                       uint8_t *out, size_t out_bytes) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, key, key_bytes, out_bytes);
  for (int i = 0; i < 3; i++)
    if (parts[i].iov_len)
      crypto_generichash_update(&state, parts[i].iov_base, parts[i].iov_len);
  crypto_generichash_final(&state, out, out_bytes);
}

#define PART(bytes, size) ((struct iovec){(void *)(uintptr_t)(bytes), size})
#define NAME(text) PART(text, strlen(text) + 1)

// H(key, name || transcript). Each use of a key has its own name.
static void transcript_hash(const struct rondo_handshake *h, const char *name, uint8_t *out) {
  const struct iovec parts[3] = {NAME(name), PART(h->transcript, sizeof h->transcript)};
  parts_hash(h->job->key, sizeof h->job->key, parts, out, RONDO_HANDSHAKE_KEY_BYTES);
}

void rondo_handshake_digest(const char *name, const void *bytes, size_t size, uint8_t *out,
                            size_t out_bytes) {
  uint8_t whole[RONDO_HANDSHAKE_KEY_BYTES];
  const struct iovec parts[3] = {NAME(name), PART(bytes, size)};
  parts_hash(NULL, 0, parts, whole, sizeof whole);
  memcpy(out, whole, out_bytes < sizeof whole ? out_bytes : sizeof whole);
}

void rondo_job_key_init(struct rondo_job_key *job, const uint8_t *tag, const uint8_t *secret) {
  const struct iovec parts[3] = {NAME("rondo mesh key 1"), PART(tag, sizeof job->tag)};
  memcpy(job->tag, tag, sizeof job->tag);
  parts_hash(secret, RONDO_HANDSHAKE_SECRET_BYTES, parts, job->key, sizeof job->key);
}

void rondo_key_pair_init(struct rondo_key_pair *pair, const uint8_t *random) {
  memcpy(pair->private_key, random, sizeof pair->private_key);
  (void)crypto_scalarmult_base(pair->public_key, pair->private_key); // never fails
}

void rondo_handshake_init(struct rondo_handshake *h, const struct rondo_job_key *job,
                          const struct rondo_key_pair *self, const uint8_t *nonce) {
  memset(h, 0, sizeof *h);
  h->job = job;
  h->self = self;
  h->state = RONDO_HANDSHAKE_AWAIT_HELLO;
  memcpy(h->nonce, nonce, sizeof h->nonce);
}

static void reply_set(struct rondo_handshake_reply *reply, int type, const void *payload,
                      size_t size) {
  struct rondo_wire_head head = {.version = RONDO_WIRE_VERSION, .type = (uint8_t)type};
  head.size = (uint32_t)size;
  rondo_wire_head_write(reply->bytes, &head);
  memcpy(reply->bytes + RONDO_WIRE_HEAD_BYTES, payload, size);
  reply->size = RONDO_WIRE_HEAD_BYTES + size;
}

void rondo_handshake_refuse(int refusal, struct rondo_handshake_reply *reply) {
  uint8_t why = (uint8_t)refusal;
  reply_set(reply, RONDO_WIRE_REFUSAL, &why, sizeof why);
}

const uint8_t *rondo_handshake_other_key(const struct rondo_handshake *h) {
  return h->responder ? h->responder : h->hello.key;
}

// Derives the keys of this connection. Both sides hash HELLO first, then the responder's public key
// and CHALLENGE. Between processes the hash has their shared secret for its key. False if the other
// side's public key yields none: anybody could know the result of such a key.
static bool handshake_derive_keys(struct rondo_handshake *h, const uint8_t *challenge,
                                  bool is_initiator) {
  static const uint8_t version = RONDO_WIRE_VERSION;
  uint8_t bytes[RONDO_WIRE_HELLO_BYTES + RONDO_TOPOLOGY_KEY_BYTES];
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = sizeof bytes};
  uint8_t shared[RONDO_TOPOLOGY_KEY_BYTES] = {0};
  size_t shared_bytes = 0;
  rondo_wire_put_hello(&w, &h->hello);
  if (h->hello.purpose == RONDO_WIRE_TO_PEER) {
    const uint8_t *other = rondo_handshake_other_key(h);
    rondo_wire_put(&w, is_initiator ? other : h->self->public_key, RONDO_TOPOLOGY_KEY_BYTES);
    if (crypto_scalarmult(shared, h->self->private_key, other) != 0)
      return false;
    shared_bytes = sizeof shared;
  }
  const struct iovec parts[3] = {PART(&version, sizeof version), PART(bytes, w.size),
                                 PART(challenge, RONDO_WIRE_NONCE_BYTES)};
  parts_hash(shared, shared_bytes, parts, h->transcript, sizeof h->transcript);
  sodium_memzero(shared, sizeof shared);
  uint8_t *to_responder = is_initiator ? h->send_key : h->recv_key;
  uint8_t *to_initiator = is_initiator ? h->recv_key : h->send_key;
  transcript_hash(h, "to responder", to_responder);
  transcript_hash(h, "to initiator", to_initiator);
  return true;
}

void rondo_handshake_begin(struct rondo_handshake *h, const struct rondo_wire_hello *hello,
                           const uint8_t *responder, struct rondo_handshake_reply *reply) {
  uint8_t bytes[RONDO_WIRE_HELLO_BYTES];
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = sizeof bytes};
  h->responder = responder;
  h->hello = *hello;
  memcpy(h->hello.tag, h->job->tag, sizeof h->hello.tag);
  memcpy(h->hello.nonce, h->nonce, sizeof h->hello.nonce);
  memcpy(h->hello.key, h->self->public_key, sizeof h->hello.key);
  rondo_wire_put_hello(&w, &h->hello);
  reply_set(reply, RONDO_WIRE_HELLO, bytes, w.size);
  h->state = RONDO_HANDSHAKE_AWAIT_CHALLENGE;
}

static int handshake_on_hello(struct rondo_handshake *h, struct rondo_wire_reader *r,
                              struct rondo_handshake_reply *reply) {
  rondo_wire_get_hello(r, &h->hello);
  if (!rondo_wire_is_done(r))
    return RONDO_WIRE_REFUSE_GARBAGE;
  if (memcmp(h->hello.tag, h->job->tag, sizeof h->hello.tag) != 0 ||
      (h->hello.purpose == RONDO_WIRE_TO_PEER && !h->self))
    return RONDO_WIRE_REFUSE_JOB;
  if (!handshake_derive_keys(h, h->nonce, false))
    return RONDO_WIRE_REFUSE_SECRET;
  reply_set(reply, RONDO_WIRE_CHALLENGE, h->nonce, sizeof h->nonce);
  h->state = RONDO_HANDSHAKE_AWAIT_PROOF;
  return 0;
}

static int handshake_on_challenge(struct rondo_handshake *h, struct rondo_wire_reader *r,
                                  struct rondo_handshake_reply *reply) {
  uint8_t challenge[RONDO_WIRE_NONCE_BYTES];
  uint8_t proof[RONDO_WIRE_PROOF_BYTES];
  rondo_wire_get(r, challenge, sizeof challenge);
  if (!rondo_wire_is_done(r))
    return RONDO_WIRE_REFUSE_GARBAGE;
  if (!handshake_derive_keys(h, challenge, true))
    return RONDO_WIRE_REFUSE_SECRET;
  transcript_hash(h, "initiator", proof);
  reply_set(reply, RONDO_WIRE_PROOF, proof, sizeof proof);
  h->state = RONDO_HANDSHAKE_AWAIT_WELCOME;
  return 0;
}

static bool handshake_is_proof_right(const struct rondo_handshake *h, struct rondo_wire_reader *r,
                                     const char *role) {
  uint8_t received[RONDO_WIRE_PROOF_BYTES];
  uint8_t expected[RONDO_WIRE_PROOF_BYTES];
  rondo_wire_get(r, received, sizeof received);
  transcript_hash(h, role, expected);
  return rondo_wire_is_done(r) && sodium_memcmp(received, expected, sizeof expected) == 0;
}

static int handshake_on_proof(struct rondo_handshake *h, struct rondo_wire_reader *r,
                              struct rondo_handshake_reply *reply) {
  uint8_t proof[RONDO_WIRE_PROOF_BYTES];
  if (!handshake_is_proof_right(h, r, "initiator"))
    return RONDO_WIRE_REFUSE_SECRET;
  transcript_hash(h, "responder", proof);
  reply_set(reply, RONDO_WIRE_WELCOME, proof, sizeof proof);
  h->state = RONDO_HANDSHAKE_DONE;
  return 0;
}

static int handshake_on_frame(struct rondo_handshake *h, const struct rondo_wire_frame *frame,
                              struct rondo_handshake_reply *reply) {
  struct rondo_wire_reader r = rondo_wire_read(frame);
  if (frame->head.type == RONDO_WIRE_REFUSAL) {
    int why = rondo_wire_get_u8(&r);
    int known = rondo_wire_is_done(&r) && why >= RONDO_WIRE_REFUSE_VERSION &&
                why <= RONDO_WIRE_REFUSE_TWICE;
    return known ? why : RONDO_WIRE_REFUSE_GARBAGE;
  }
  if (h->state == RONDO_HANDSHAKE_AWAIT_HELLO && frame->head.type == RONDO_WIRE_HELLO)
    return handshake_on_hello(h, &r, reply);
  if (h->state == RONDO_HANDSHAKE_AWAIT_CHALLENGE && frame->head.type == RONDO_WIRE_CHALLENGE)
    return handshake_on_challenge(h, &r, reply);
  if (h->state == RONDO_HANDSHAKE_AWAIT_PROOF && frame->head.type == RONDO_WIRE_PROOF)
    return handshake_on_proof(h, &r, reply);
  if (h->state == RONDO_HANDSHAKE_AWAIT_WELCOME && frame->head.type == RONDO_WIRE_WELCOME) {
    if (!handshake_is_proof_right(h, &r, "responder"))
      return RONDO_WIRE_REFUSE_SECRET;
    h->state = RONDO_HANDSHAKE_DONE;
    return 0;
  }
  return RONDO_WIRE_REFUSE_GARBAGE;
}

int rondo_handshake_step(struct rondo_handshake *h, const struct rondo_wire_frame *frame,
                         struct rondo_handshake_reply *reply) {
  reply->size = 0;
  int refusal = handshake_on_frame(h, frame, reply);
  if (!refusal)
    return 0;
  h->state = RONDO_HANDSHAKE_FAILED;
  if (frame->head.type == RONDO_WIRE_REFUSAL)
    reply->size = 0;
  else
    rondo_handshake_refuse(refusal, reply);
  return refusal;
}

static void frame_mac(const uint8_t *key, uint64_t number, const uint8_t *head, const void *payload,
                      size_t size, uint8_t *mac) {
  uint8_t text[8];
  struct rondo_wire_writer w = {.bytes = text, .capacity = sizeof text};
  rondo_wire_put_u64(&w, number);
  const struct iovec parts[3] = {PART(text, sizeof text), PART(head, RONDO_WIRE_HEAD_BYTES),
                                 PART(payload, size)};
  parts_hash(key, RONDO_HANDSHAKE_KEY_BYTES, parts, mac, RONDO_WIRE_MAC_BYTES);
}

void rondo_handshake_seal(struct rondo_handshake *h, const uint8_t *head, const void *payload,
                          size_t size, uint8_t *mac) {
  frame_mac(h->send_key, h->sent++, head, payload, size, mac);
}

bool rondo_handshake_open(struct rondo_handshake *h, const uint8_t *head, const void *payload,
                          size_t size, const uint8_t *mac) {
  uint8_t expected[RONDO_WIRE_MAC_BYTES];
  frame_mac(h->recv_key, h->received++, head, payload, size, expected);
  return sodium_memcmp(mac, expected, sizeof expected) == 0;
}
