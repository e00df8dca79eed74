// The handshake: two processes prove to each other that they know a job's secret without sending
// it, and which process each of them is.
//
//   init -> begin (initiator) -> step for each received frame -> done -> seal / open frames
//
//   initiator (connects)                  responder (accepts)
//   HELLO job, purpose, numbers,
//         nonce, public key            ->
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
// Each process has a pair of keys (X25519, RFC 7748). On a connection to another process H also
// covers both public keys and the secret that the two processes share by their keys. The initiator
// takes the responder's public key from the roster, so no other process can answer. The responder
// knows that the initiator has the private key of HELLO's public key. The user compares that public
// key with the roster. The root has no keys: there the job's secret is the only proof.
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

// The keys of a process. Nobody else knows the private one.
struct rondo_key_pair {
  uint8_t public_key[RONDO_TOPOLOGY_KEY_BYTES], private_key[RONDO_TOPOLOGY_KEY_BYTES];
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
  const struct rondo_key_pair *self; // null: this side is the root
  const uint8_t *responder;          // initiator: public key of the responder; null: the root
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

// Makes a pair of keys of RONDO_TOPOLOGY_KEY_BYTES random bytes. X25519 ignores some bits of the
// first and of the last byte.
void rondo_key_pair_init(struct rondo_key_pair *pair, const uint8_t *random);

// `self` is null for the root. `nonce` is RONDO_WIRE_NONCE_BYTES random bytes, never used before.
// `job` and `self` must outlive `h`.
void rondo_handshake_init(struct rondo_handshake *h, const struct rondo_job_key *job,
                          const struct rondo_key_pair *self, const uint8_t *nonce);

// Initiator only: makes HELLO, with purpose and process numbers of `hello`. `responder` is the
// public key of the process to which it goes, and must outlive `h`; null: it goes to the root.
void rondo_handshake_begin(struct rondo_handshake *h, const struct rondo_wire_hello *hello,
                           const uint8_t *responder, struct rondo_handshake_reply *reply);

// Takes a received frame and makes the reply. Returns 0, or an enum rondo_wire_refusal: the state
// is then RONDO_HANDSHAKE_FAILED, and the reply tells the other side why.
int rondo_handshake_step(struct rondo_handshake *h, const struct rondo_wire_frame *frame,
                         struct rondo_handshake_reply *reply);

// Makes a frame that tells the other side why it is refused.
void rondo_handshake_refuse(int refusal, struct rondo_handshake_reply *reply);

// The public key of the other process; not for a connection with the root.
const uint8_t *rondo_handshake_other_key(const struct rondo_handshake *h);

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
