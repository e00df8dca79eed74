// What processes of a job send each other, as bytes. Pure: no socket, no memory of its own.
//
// Every frame is a header of RONDO_WIRE_HEAD_BYTES, its payload and, once both sides have proved the
// secret, a keyed hash of RONDO_WIRE_MAC_BYTES (proof.h). Numbers are little-endian. What arrives may
// have been written by anybody: every reader checks all it reads and says no to the rest.
#ifndef RONDO_RUNTIME_NET_WIRE_H
#define RONDO_RUNTIME_NET_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include <rondo/types.h>

#define RONDO_WIRE_VERSION 2u
#define RONDO_WIRE_HEAD_BYTES 16u
#define RONDO_WIRE_MAC_BYTES 16u
#define RONDO_WIRE_NONCE_BYTES 32u
#define RONDO_WIRE_PROOF_BYTES 32u
#define RONDO_WIRE_TAG_BYTES 8u
#define RONDO_WIRE_HELLO_BYTES 49u
#define RONDO_WIRE_UNPROVEN_BYTES 64u   // the longest payload before the proof
#define RONDO_WIRE_PROVEN_BYTES 262144u // and after it
#define RONDO_WIRE_TEXT_BYTES 255u      // the longest text; a name is shorter
#define RONDO_WIRE_NAME_BYTES 64u
#define RONDO_WIRE_ADDRESSES 4u // of one listener
#define RONDO_WIRE_FDS 8u

enum rondo_wire_type {
  // Before the proof, in this order.
  RONDO_WIRE_HELLO = 1,     // from who connects: which job, what for, a nonce
  RONDO_WIRE_CHALLENGE = 2, // from who was connected to: a nonce
  RONDO_WIRE_PROOF = 3,     // that the secret is known
  RONDO_WIRE_WELCOME = 4,   // that it is known here too
  RONDO_WIRE_REFUSAL = 5,   // why this will not do; a hint, since anybody can write it
  // After it, with a keyed hash each.
  RONDO_WIRE_JOIN = 16,    // to the root: who and where I am
  RONDO_WIRE_ADD = 17,     // to the root: one more rank of mine
  RONDO_WIRE_GONE = 18,    // a rank of mine leaves
  RONDO_WIRE_BYE = 19,     // all of me leaves
  RONDO_WIRE_REJECT = 20,  // from the root: not you, and why
  RONDO_WIRE_NOTICE = 21,  // from the root: who is still missing
  RONDO_WIRE_ROSTER = 22,  // from the root: your number, and how many there are
  RONDO_WIRE_MEMBERS = 23, // from the root: some of them
  RONDO_WIRE_LOST = 24,    // from the root: ranks that are gone
  RONDO_WIRE_MESSAGE = 25  // between members: for who uses the mesh
};

// What a connection is for.
enum rondo_wire_purpose { RONDO_WIRE_TO_ROOT = 1, RONDO_WIRE_TO_PEER = 2 };

enum rondo_wire_refusal {
  RONDO_WIRE_REFUSE_VERSION = 1, // speaks another version
  RONDO_WIRE_REFUSE_JOB = 2,     // of another job, or came for something else
  RONDO_WIRE_REFUSE_SECRET = 3,  // has not proved the secret
  RONDO_WIRE_REFUSE_GARBAGE = 4, // is no member at all
  RONDO_WIRE_REFUSE_LATE = 5     // took too long
};

struct rondo_wire_head {
  uint8_t version, type, fd_count;
  uint32_t size;    // of the payload
  uint32_t subtype; // RONDO_WIRE_MESSAGE: the sender's own; else 0
};

struct rondo_wire_frame {
  struct rondo_wire_head head;
  const uint8_t *payload;
};

struct rondo_wire_hello {
  uint8_t tag[RONDO_WIRE_TAG_BYTES];
  uint8_t purpose;
  uint32_t from, to; // processes, where they have numbers
  uint8_t nonce[RONDO_WIRE_NONCE_BYTES];
};

// An address to connect to.
struct rondo_wire_address {
  uint8_t family; // 4 or 6
  uint16_t port;
  uint8_t bytes[16]; // network order; 4 or 16 of them
};

// A process: where it is and which ranks live there.
struct rondo_wire_member {
  uint64_t machine[2];
  uint64_t pid_namespace, user_namespace;
  uint32_t pid, uid;
  uint8_t asks_window; // 1: of NCCL, for its devices
  char host[RONDO_WIRE_NAME_BYTES];
  char local[RONDO_WIRE_NAME_BYTES]; // name of its socket for those on the same machine
  uint32_t address_count;
  struct rondo_wire_address addresses[RONDO_WIRE_ADDRESSES];
  uint32_t rank_count;
  uint32_t *ranks; // ascending
};

// ---------------------------------------------------------------- writing ----

// Bytes being written; `full` once something did not fit, and then nothing of it counts.
struct rondo_wire_writer {
  uint8_t *bytes;
  size_t size, capacity;
  int full;
};

void rondo_wire_put(struct rondo_wire_writer *w, const void *bytes, size_t size);
void rondo_wire_put_u8(struct rondo_wire_writer *w, uint8_t value);
void rondo_wire_put_u16(struct rondo_wire_writer *w, uint16_t value);
void rondo_wire_put_u32(struct rondo_wire_writer *w, uint32_t value);
void rondo_wire_put_u64(struct rondo_wire_writer *w, uint64_t value);
void rondo_wire_put_text(struct rondo_wire_writer *w, const char *text); // cut where too long
void rondo_wire_put_ranks(struct rondo_wire_writer *w, const uint32_t *ranks, uint32_t count);
void rondo_wire_put_address(struct rondo_wire_writer *w, const struct rondo_wire_address *a);
void rondo_wire_put_hello(struct rondo_wire_writer *w, const struct rondo_wire_hello *hello);
// `before`: what was written before it; what it shares with that, as those of one machine do, is left out. Null: nothing.
void rondo_wire_put_member(struct rondo_wire_writer *w, const struct rondo_wire_member *m,
                           const struct rondo_wire_member *before);
void rondo_wire_head_write(uint8_t *bytes, const struct rondo_wire_head *head);

// ---------------------------------------------------------------- reading ----

// Bytes being read; `bad` once something was not there or out of its range; reads are 0 from then on.
struct rondo_wire_reader {
  const uint8_t *bytes;
  size_t size;
  int bad;
};

struct rondo_wire_reader rondo_wire_read(const struct rondo_wire_frame *frame);
void rondo_wire_get(struct rondo_wire_reader *r, void *bytes, size_t size);
uint8_t rondo_wire_get_u8(struct rondo_wire_reader *r);
uint16_t rondo_wire_get_u16(struct rondo_wire_reader *r);
uint32_t rondo_wire_get_u32(struct rondo_wire_reader *r);
uint64_t rondo_wire_get_u64(struct rondo_wire_reader *r);
// Reads a text without control characters into `text`, always terminated.
void rondo_wire_get_text(struct rondo_wire_reader *r, char *text, size_t capacity);
// Reads ranks below RONDO_MAX_RANKS in ascending order. Allocates *ranks (free), null if there are none
// or if the reader is bad. Returns how many.
uint32_t rondo_wire_get_ranks(struct rondo_wire_reader *r, uint32_t **ranks);
void rondo_wire_get_address(struct rondo_wire_reader *r, struct rondo_wire_address *a);
void rondo_wire_get_hello(struct rondo_wire_reader *r, struct rondo_wire_hello *hello);
// member->ranks is allocated as above; rondo_wire_member_fini frees it. `before` as when it was written.
void rondo_wire_get_member(struct rondo_wire_reader *r, struct rondo_wire_member *m,
                           const struct rondo_wire_member *before);
void rondo_wire_member_fini(struct rondo_wire_member *m);
// 1 if all has been read, to the last byte, and was good.
int rondo_wire_is_done(const struct rondo_wire_reader *r);

// Reads the header at the front of `bytes`. Returns 1; 0 if it is not all there yet; or, negated, an
// enum rondo_wire_refusal. `proven`: whether long frames and those of members are expected.
int rondo_wire_head_read(const uint8_t *bytes, size_t size, int proven,
                         struct rondo_wire_head *head);

#endif // RONDO_RUNTIME_NET_WIRE_H
