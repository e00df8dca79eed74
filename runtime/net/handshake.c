#include <assert.h>
#include <string.h>

#include <sodium.h>

#include "runtime/net/handshake.h"

static_assert(RONDO_WIRE_PROOF_BYTES <= crypto_generichash_BYTES_MAX, "one hash");
static_assert(RONDO_WIRE_MAC_BYTES >= crypto_generichash_BYTES_MIN, "one hash");
static_assert(RONDO_HANDSHAKE_SECRET_BYTES >= crypto_generichash_KEYBYTES_MIN,
              "the secret is a key");

// H(key, name || bytes). Each use of a key has its own name.
static void hash_keyed(const uint8_t *key, const char *name, const uint8_t *bytes, uint8_t *out) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, key, RONDO_HANDSHAKE_KEY_BYTES, RONDO_HANDSHAKE_KEY_BYTES);
  crypto_generichash_update(&state, (const unsigned char *)name, strlen(name) + 1);
  crypto_generichash_update(&state, bytes, RONDO_HANDSHAKE_KEY_BYTES);
  crypto_generichash_final(&state, out, RONDO_HANDSHAKE_KEY_BYTES);
}

void rondo_handshake_digest(const char *name, const void *bytes, size_t size, uint8_t *out,
                            size_t out_bytes) {
  uint8_t whole[RONDO_HANDSHAKE_KEY_BYTES];
  crypto_generichash_state state;
  crypto_generichash_init(&state, NULL, 0, sizeof whole);
  crypto_generichash_update(&state, (const unsigned char *)name, strlen(name) + 1);
  crypto_generichash_update(&state, bytes, size);
  crypto_generichash_final(&state, whole, sizeof whole);
  memcpy(out, whole, out_bytes < sizeof whole ? out_bytes : sizeof whole);
}

void rondo_job_key_init(struct rondo_job_key *job, const uint8_t *tag, const uint8_t *secret) {
  static const char name[] = "rondo mesh key 1";
  memcpy(job->tag, tag, sizeof job->tag);
  crypto_generichash_state state;
  crypto_generichash_init(&state, secret, RONDO_HANDSHAKE_SECRET_BYTES, sizeof job->key);
  crypto_generichash_update(&state, (const unsigned char *)name, sizeof name);
  crypto_generichash_update(&state, tag, sizeof job->tag);
  crypto_generichash_final(&state, job->key, sizeof job->key);
}

void rondo_handshake_init(struct rondo_handshake *h, const struct rondo_job_key *job,
                          const uint8_t *nonce) {
  memset(h, 0, sizeof *h);
  h->job = job;
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

// Derives the keys of this connection. Both sides hash HELLO first, then CHALLENGE.
static void handshake_derive_keys(struct rondo_handshake *h, const uint8_t *challenge,
                                  bool is_initiator) {
  static const uint8_t version = RONDO_WIRE_VERSION;
  uint8_t bytes[RONDO_WIRE_HELLO_BYTES];
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = sizeof bytes};
  rondo_wire_put_hello(&w, &h->hello);
  crypto_generichash_state state;
  crypto_generichash_init(&state, NULL, 0, sizeof h->transcript);
  crypto_generichash_update(&state, &version, sizeof version);
  crypto_generichash_update(&state, bytes, sizeof bytes);
  crypto_generichash_update(&state, challenge, RONDO_WIRE_NONCE_BYTES);
  crypto_generichash_final(&state, h->transcript, sizeof h->transcript);
  uint8_t *to_responder = is_initiator ? h->send_key : h->recv_key;
  uint8_t *to_initiator = is_initiator ? h->recv_key : h->send_key;
  hash_keyed(h->job->key, "to responder", h->transcript, to_responder);
  hash_keyed(h->job->key, "to initiator", h->transcript, to_initiator);
}

void rondo_handshake_begin(struct rondo_handshake *h, const struct rondo_wire_hello *hello,
                           struct rondo_handshake_reply *reply) {
  uint8_t bytes[RONDO_WIRE_HELLO_BYTES];
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = sizeof bytes};
  h->hello = *hello;
  memcpy(h->hello.tag, h->job->tag, sizeof h->hello.tag);
  memcpy(h->hello.nonce, h->nonce, sizeof h->hello.nonce);
  rondo_wire_put_hello(&w, &h->hello);
  reply_set(reply, RONDO_WIRE_HELLO, bytes, w.size);
  h->state = RONDO_HANDSHAKE_AWAIT_CHALLENGE;
}

static int handshake_on_hello(struct rondo_handshake *h, struct rondo_wire_reader *r,
                              struct rondo_handshake_reply *reply) {
  rondo_wire_get_hello(r, &h->hello);
  if (!rondo_wire_is_done(r))
    return RONDO_WIRE_REFUSE_GARBAGE;
  if (memcmp(h->hello.tag, h->job->tag, sizeof h->hello.tag) != 0)
    return RONDO_WIRE_REFUSE_JOB;
  handshake_derive_keys(h, h->nonce, false);
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
  handshake_derive_keys(h, challenge, true);
  hash_keyed(h->job->key, "initiator", h->transcript, proof);
  reply_set(reply, RONDO_WIRE_PROOF, proof, sizeof proof);
  h->state = RONDO_HANDSHAKE_AWAIT_WELCOME;
  return 0;
}

static bool handshake_is_proof_right(const struct rondo_handshake *h, struct rondo_wire_reader *r,
                                     const char *role) {
  uint8_t received[RONDO_WIRE_PROOF_BYTES];
  uint8_t expected[RONDO_WIRE_PROOF_BYTES];
  rondo_wire_get(r, received, sizeof received);
  hash_keyed(h->job->key, role, h->transcript, expected);
  return rondo_wire_is_done(r) && sodium_memcmp(received, expected, sizeof expected) == 0;
}

static int handshake_on_proof(struct rondo_handshake *h, struct rondo_wire_reader *r,
                              struct rondo_handshake_reply *reply) {
  uint8_t proof[RONDO_WIRE_PROOF_BYTES];
  if (!handshake_is_proof_right(h, r, "initiator"))
    return RONDO_WIRE_REFUSE_SECRET;
  hash_keyed(h->job->key, "responder", h->transcript, proof);
  reply_set(reply, RONDO_WIRE_WELCOME, proof, sizeof proof);
  h->state = RONDO_HANDSHAKE_DONE;
  return 0;
}

static int handshake_on_frame(struct rondo_handshake *h, const struct rondo_wire_frame *frame,
                              struct rondo_handshake_reply *reply) {
  struct rondo_wire_reader r = rondo_wire_read(frame);
  if (frame->head.type == RONDO_WIRE_REFUSAL) {
    int why = rondo_wire_get_u8(&r);
    int known =
        rondo_wire_is_done(&r) && why >= RONDO_WIRE_REFUSE_VERSION && why <= RONDO_WIRE_REFUSE_LATE;
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
  crypto_generichash_state state;
  crypto_generichash_init(&state, key, RONDO_HANDSHAKE_KEY_BYTES, RONDO_WIRE_MAC_BYTES);
  crypto_generichash_update(&state, text, sizeof text);
  crypto_generichash_update(&state, head, RONDO_WIRE_HEAD_BYTES);
  if (size)
    crypto_generichash_update(&state, payload, size);
  crypto_generichash_final(&state, mac, RONDO_WIRE_MAC_BYTES);
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
