#include <assert.h>
#include <string.h>

#include <sodium.h>

#include "runtime/net/handshake.h"

static_assert(RONDO_WIRE_PROOF_BYTES <= crypto_generichash_BYTES_MAX, "one hash");
static_assert(RONDO_WIRE_MAC_BYTES >= crypto_generichash_BYTES_MIN, "one hash");
static_assert(RONDO_HANDSHAKE_SECRET_BYTES >= crypto_generichash_KEYBYTES_MIN,
              "the secret is a key");

// H(key, name || bytes). The names keep what the key is used for apart.
static void keyed_hash(const uint8_t *key, const char *name, const uint8_t *bytes, uint8_t *out) {
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

void rondo_handshake_init(struct rondo_handshake *p, const struct rondo_job_key *job,
                          const uint8_t *nonce) {
  memset(p, 0, sizeof *p);
  p->job = job;
  p->state = RONDO_HANDSHAKE_AWAIT_HELLO;
  memcpy(p->nonce, nonce, sizeof p->nonce);
}

static void reply_with(struct rondo_handshake_reply *reply, int type, const void *payload,
                       size_t size) {
  struct rondo_wire_head head = {.version = RONDO_WIRE_VERSION, .type = (uint8_t)type};
  head.size = (uint32_t)size;
  rondo_wire_head_write(reply->bytes, &head);
  memcpy(reply->bytes + RONDO_WIRE_HEAD_BYTES, payload, size);
  reply->size = RONDO_WIRE_HEAD_BYTES + size;
}

void rondo_handshake_refuse(int refusal, struct rondo_handshake_reply *reply) {
  uint8_t why = (uint8_t)refusal;
  reply_with(reply, RONDO_WIRE_REFUSAL, &why, sizeof why);
}

// Makes the keys of the conversation. Both sides hash the same bytes: who connected comes first.
static void agree(struct rondo_handshake *p, const uint8_t *challenge, int is_initiator) {
  static const uint8_t version = RONDO_WIRE_VERSION;
  uint8_t bytes[RONDO_WIRE_HELLO_BYTES];
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = sizeof bytes};
  rondo_wire_put_hello(&w, &p->hello);
  crypto_generichash_state state;
  crypto_generichash_init(&state, NULL, 0, sizeof p->transcript);
  crypto_generichash_update(&state, &version, sizeof version);
  crypto_generichash_update(&state, bytes, sizeof bytes);
  crypto_generichash_update(&state, challenge, RONDO_WIRE_NONCE_BYTES);
  crypto_generichash_final(&state, p->transcript, sizeof p->transcript);
  uint8_t *to_responder = is_initiator ? p->send_key : p->recv_key;
  uint8_t *to_initiator = is_initiator ? p->recv_key : p->send_key;
  keyed_hash(p->job->key, "to responder", p->transcript, to_responder);
  keyed_hash(p->job->key, "to initiator", p->transcript, to_initiator);
}

void rondo_handshake_begin(struct rondo_handshake *p, const struct rondo_wire_hello *hello,
                           struct rondo_handshake_reply *reply) {
  uint8_t bytes[RONDO_WIRE_HELLO_BYTES];
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = sizeof bytes};
  p->hello = *hello;
  memcpy(p->hello.tag, p->job->tag, sizeof p->hello.tag);
  memcpy(p->hello.nonce, p->nonce, sizeof p->hello.nonce);
  rondo_wire_put_hello(&w, &p->hello);
  reply_with(reply, RONDO_WIRE_HELLO, bytes, w.size);
  p->state = RONDO_HANDSHAKE_AWAIT_CHALLENGE;
}

static int on_hello(struct rondo_handshake *p, struct rondo_wire_reader *r,
                    struct rondo_handshake_reply *reply) {
  rondo_wire_get_hello(r, &p->hello);
  if (!rondo_wire_is_done(r))
    return RONDO_WIRE_REFUSE_GARBAGE;
  if (memcmp(p->hello.tag, p->job->tag, sizeof p->hello.tag) != 0)
    return RONDO_WIRE_REFUSE_JOB;
  agree(p, p->nonce, 0);
  reply_with(reply, RONDO_WIRE_CHALLENGE, p->nonce, sizeof p->nonce);
  p->state = RONDO_HANDSHAKE_AWAIT_PROOF;
  return 0;
}

static int on_challenge(struct rondo_handshake *p, struct rondo_wire_reader *r,
                        struct rondo_handshake_reply *reply) {
  uint8_t challenge[RONDO_WIRE_NONCE_BYTES];
  uint8_t proof[RONDO_WIRE_PROOF_BYTES];
  rondo_wire_get(r, challenge, sizeof challenge);
  if (!rondo_wire_is_done(r))
    return RONDO_WIRE_REFUSE_GARBAGE;
  agree(p, challenge, 1);
  keyed_hash(p->job->key, "initiator", p->transcript, proof);
  reply_with(reply, RONDO_WIRE_PROOF, proof, sizeof proof);
  p->state = RONDO_HANDSHAKE_AWAIT_WELCOME;
  return 0;
}

static int is_proved(const struct rondo_handshake *p, struct rondo_wire_reader *r,
                     const char *role) {
  uint8_t said[RONDO_WIRE_PROOF_BYTES];
  uint8_t right[RONDO_WIRE_PROOF_BYTES];
  rondo_wire_get(r, said, sizeof said);
  keyed_hash(p->job->key, role, p->transcript, right);
  return rondo_wire_is_done(r) && sodium_memcmp(said, right, sizeof right) == 0;
}

static int on_proof(struct rondo_handshake *p, struct rondo_wire_reader *r,
                    struct rondo_handshake_reply *reply) {
  uint8_t proof[RONDO_WIRE_PROOF_BYTES];
  if (!is_proved(p, r, "initiator"))
    return RONDO_WIRE_REFUSE_SECRET;
  keyed_hash(p->job->key, "responder", p->transcript, proof);
  reply_with(reply, RONDO_WIRE_WELCOME, proof, sizeof proof);
  p->state = RONDO_HANDSHAKE_DONE;
  return 0;
}

static int on_frame(struct rondo_handshake *p, const struct rondo_wire_frame *frame,
                    struct rondo_handshake_reply *reply) {
  struct rondo_wire_reader r = rondo_wire_read(frame);
  if (frame->head.type == RONDO_WIRE_REFUSAL) {
    int why = rondo_wire_get_u8(&r);
    int known =
        rondo_wire_is_done(&r) && why >= RONDO_WIRE_REFUSE_VERSION && why <= RONDO_WIRE_REFUSE_LATE;
    return known ? why : RONDO_WIRE_REFUSE_GARBAGE;
  }
  if (p->state == RONDO_HANDSHAKE_AWAIT_HELLO && frame->head.type == RONDO_WIRE_HELLO)
    return on_hello(p, &r, reply);
  if (p->state == RONDO_HANDSHAKE_AWAIT_CHALLENGE && frame->head.type == RONDO_WIRE_CHALLENGE)
    return on_challenge(p, &r, reply);
  if (p->state == RONDO_HANDSHAKE_AWAIT_PROOF && frame->head.type == RONDO_WIRE_PROOF)
    return on_proof(p, &r, reply);
  if (p->state == RONDO_HANDSHAKE_AWAIT_WELCOME && frame->head.type == RONDO_WIRE_WELCOME) {
    if (!is_proved(p, &r, "responder"))
      return RONDO_WIRE_REFUSE_SECRET;
    p->state = RONDO_HANDSHAKE_DONE;
    return 0;
  }
  return RONDO_WIRE_REFUSE_GARBAGE;
}

int rondo_handshake_step(struct rondo_handshake *p, const struct rondo_wire_frame *frame,
                         struct rondo_handshake_reply *reply) {
  reply->size = 0;
  int refusal = on_frame(p, frame, reply);
  if (!refusal)
    return 0;
  p->state = RONDO_HANDSHAKE_FAILED;
  if (frame->head.type == RONDO_WIRE_REFUSAL)
    reply->size = 0;
  else
    rondo_handshake_refuse(refusal, reply);
  return refusal;
}

static void mac_of(const uint8_t *key, uint64_t number, const uint8_t *head, const void *payload,
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

void rondo_handshake_seal(struct rondo_handshake *p, const uint8_t *head, const void *payload,
                          size_t size, uint8_t *mac) {
  mac_of(p->send_key, p->sent++, head, payload, size, mac);
}

int rondo_handshake_open(struct rondo_handshake *p, const uint8_t *head, const void *payload,
                         size_t size, const uint8_t *mac) {
  uint8_t right[RONDO_WIRE_MAC_BYTES];
  mac_of(p->recv_key, p->received++, head, payload, size, right);
  return sodium_memcmp(mac, right, sizeof right) == 0;
}
