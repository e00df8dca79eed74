// The handshake: two processes prove to each other that they know a job's secret without sending
// it.
//
//   init -> begin (initiator) -> step for each received frame -> done -> seal / open frames
//
//   initiator (connects)                  responder (accepts)
//   HELLO job, purpose, numbers, nonce ->
//                                      <- CHALLENGE nonce
//   PROOF H(key, "initiator", both)    ->
//                                      <- WELCOME H(key, "responder", both)
//
// H is BLAKE2b with a key made of the secret, over both sides' HELLO and CHALLENGE. A PROOF is thus
// valid for one connection, job, pair of process numbers and version only. The responder sends
// WELCOME only after a valid PROOF. Later frames carry a hash of a sequence number and the frame,
// with a key of this connection and direction, so that no frame can be added, changed, dropped,
// repeated or reflected. Frames are not encrypted.
//
// Pure: the caller supplies the random bytes and does the I/O.
#ifndef RONDO_RUNTIME_NET_HANDSHAKE_H
#define RONDO_RUNTIME_NET_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/net/wire.h"

#define RONDO_HANDSHAKE_SECRET_BYTES 16u
#define RONDO_HANDSHAKE_KEY_BYTES 32u

// What identifies a job: a public tag, and the key made of its secret.
struct rondo_job_key {
  uint8_t tag[RONDO_WIRE_TAG_BYTES];
  uint8_t key[RONDO_HANDSHAKE_KEY_BYTES];
};

enum rondo_handshake_state {
  RONDO_HANDSHAKE_AWAIT_HELLO,
  RONDO_HANDSHAKE_AWAIT_CHALLENGE,
  RONDO_HANDSHAKE_AWAIT_PROOF,
  RONDO_HANDSHAKE_AWAIT_WELCOME,
  RONDO_HANDSHAKE_DONE,
  RONDO_HANDSHAKE_FAILED
};

struct rondo_handshake {
  const struct rondo_job_key *job;
  int state;
  uint8_t nonce[RONDO_WIRE_NONCE_BYTES];
  struct rondo_wire_hello hello; // as sent or received
  uint8_t transcript[RONDO_HANDSHAKE_KEY_BYTES];
  uint8_t send_key[RONDO_HANDSHAKE_KEY_BYTES], recv_key[RONDO_HANDSHAKE_KEY_BYTES];
  uint64_t sent, received; // frames after the handshake: sequence numbers
};

// A frame to send: header and payload. Size 0: nothing to send.
struct rondo_handshake_reply {
  uint8_t bytes[RONDO_WIRE_HEAD_BYTES + RONDO_WIRE_UNAUTHENTICATED_BYTES];
  size_t size;
};

// Derives the key of a job from its secret.
void rondo_job_key_init(struct rondo_job_key *job, const uint8_t *tag, const uint8_t *secret);

// `nonce` is RONDO_WIRE_NONCE_BYTES random bytes, never used before. `job` must outlive `h`.
void rondo_handshake_init(struct rondo_handshake *h, const struct rondo_job_key *job,
                          const uint8_t *nonce);

// Initiator only: makes HELLO, with purpose and process numbers of `hello`.
void rondo_handshake_begin(struct rondo_handshake *h, const struct rondo_wire_hello *hello,
                           struct rondo_handshake_reply *reply);

// Takes a received frame and makes the reply. Returns 0, or an enum rondo_wire_refusal: the state
// is then RONDO_HANDSHAKE_FAILED, and the reply tells the other side why.
int rondo_handshake_step(struct rondo_handshake *h, const struct rondo_wire_frame *frame,
                         struct rondo_handshake_reply *reply);

// Makes a frame that tells the other side why it is refused.
void rondo_handshake_refuse(int refusal, struct rondo_handshake_reply *reply);

// After the handshake: `seal` makes the hash of the next frame to send; `open` is true if `mac` is
// the hash of the next received frame.
void rondo_handshake_seal(struct rondo_handshake *h, const uint8_t *head, const void *payload,
                          size_t size, uint8_t *mac);
bool rondo_handshake_open(struct rondo_handshake *h, const uint8_t *head, const void *payload,
                          size_t size, const uint8_t *mac);

// Hashes `size` bytes under a name, to derive secrets and numbers from texts.
void rondo_handshake_digest(const char *name, const void *bytes, size_t size, uint8_t *out,
                            size_t out_bytes);

#endif // RONDO_RUNTIME_NET_HANDSHAKE_H
