// How two processes prove to each other that they know a job's secret, without saying it.
//
//   init -> begin (who connects) -> step for each frame that comes -> done -> seal / open frames
//
//   who connects                          who is connected to
//   HELLO job, purpose, numbers, nonce ->
//                                      <- CHALLENGE nonce
//   PROOF H(key, "initiator", both)    ->
//                                      <- WELCOME H(key, "responder", both)
//
// H is BLAKE2b with a key made of the secret, over both sides' frames as they were sent; so a proof is
// good for this one conversation, this job, these numbers and this version. Who is connected to proves
// nothing to somebody who has not. Frames after that carry a hash with a key of the conversation and
// the direction over a running number and the frame: none can be added, changed, left out, repeated
// or sent back. They are not enciphered.
//
// Pure: randomness is an argument, nothing is read or written.
#ifndef RONDO_RUNTIME_NET_HANDSHAKE_H
#define RONDO_RUNTIME_NET_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/net/wire.h"

#define RONDO_HANDSHAKE_SECRET_BYTES 16u
#define RONDO_HANDSHAKE_KEY_BYTES 32u

// What a job's members know: who they are towards strangers, and the key.
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
  struct rondo_wire_hello hello; // as sent, or as received
  uint8_t transcript[RONDO_HANDSHAKE_KEY_BYTES];
  uint8_t send_key[RONDO_HANDSHAKE_KEY_BYTES], recv_key[RONDO_HANDSHAKE_KEY_BYTES];
  uint64_t sent, received; // running numbers of frames after the proof
};

// A frame to be sent, header and payload; size 0: none.
struct rondo_handshake_reply {
  uint8_t bytes[RONDO_WIRE_HEAD_BYTES + RONDO_WIRE_UNPROVEN_BYTES];
  size_t size;
};

// Makes the key of a job out of its secret.
void rondo_job_key_init(struct rondo_job_key *job, const uint8_t *tag, const uint8_t *secret);

// `nonce`: RONDO_WIRE_NONCE_BYTES random bytes, never used before. The job is the caller's.
void rondo_handshake_init(struct rondo_handshake *p, const struct rondo_job_key *job,
                          const uint8_t *nonce);

// For who connects: says hello. Purpose and numbers are taken from `hello`.
void rondo_handshake_begin(struct rondo_handshake *p, const struct rondo_wire_hello *hello,
                           struct rondo_handshake_reply *reply);

// Takes the next frame and makes the answer. Returns 0, or an enum rondo_wire_refusal: then the
// state is failed, and the reply says so to the other side.
int rondo_handshake_step(struct rondo_handshake *p, const struct rondo_wire_frame *frame,
                         struct rondo_handshake_reply *reply);

// A frame by which the other side learns why it was refused.
void rondo_handshake_refuse(int refusal, struct rondo_handshake_reply *reply);

// After the proof: the hash of the next frame to be sent, and whether that of the next frame that
// came is right (1) or not (0).
void rondo_handshake_seal(struct rondo_handshake *p, const uint8_t *head, const void *payload,
                          size_t size, uint8_t *mac);
int rondo_handshake_open(struct rondo_handshake *p, const uint8_t *head, const void *payload,
                         size_t size, const uint8_t *mac);

// A digest of `size` bytes under a name, for making secrets and numbers out of texts.
void rondo_handshake_digest(const char *name, const void *bytes, size_t size, uint8_t *out,
                            size_t out_bytes);

#endif // RONDO_RUNTIME_NET_HANDSHAKE_H
