// The wire format between processes of a job. Pure: no socket.
//
// A frame is a header of RONDO_WIRE_HEAD_BYTES, its payload and, once both sides are authenticated,
// a keyed hash of RONDO_WIRE_MAC_BYTES (handshake.h). Numbers are little-endian. Anybody may have
// written the bytes that arrive, so every reader checks all it reads and refuses the rest.
#ifndef RONDO_RUNTIME_NET_WIRE_H
#define RONDO_RUNTIME_NET_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/net/topology.h"
#include <rondo/types.h>

#define RONDO_WIRE_VERSION 17u
#define RONDO_WIRE_HEAD_BYTES 16u
#define RONDO_WIRE_MAC_BYTES 16u
#define RONDO_WIRE_NONCE_BYTES 32u
#define RONDO_WIRE_PROOF_BYTES 32u
#define RONDO_WIRE_TAG_BYTES 8u
#define RONDO_WIRE_HELLO_BYTES 81u
#define RONDO_WIRE_UNAUTHENTICATED_BYTES 96u   // longest payload before authentication
#define RONDO_WIRE_AUTHENTICATED_BYTES 262144u // longest payload after it
#define RONDO_WIRE_TEXT_BYTES 255u             // longest text; a name is shorter
#define RONDO_WIRE_FDS 8u

enum rondo_wire_type {
  // The handshake, in this order.
  RONDO_WIRE_HELLO = 1,     // initiator: job, purpose, process numbers, nonce, key
  RONDO_WIRE_CHALLENGE = 2, // responder: nonce
  RONDO_WIRE_PROOF = 3,     // initiator: proves that it knows the secret and has its key
  RONDO_WIRE_WELCOME = 4,   // responder: proves the same
  RONDO_WIRE_REFUSAL = 5,   // either: why it ends the handshake; a hint only, not authenticated
  // After the handshake; each frame carries a keyed hash.
  RONDO_WIRE_MEMBERSHIP = 16, // to root and peers: a message of membership (runtime/job)
  RONDO_WIRE_FLUSH = 17,      // between peers: asks for a FLUSHED with the same number
  RONDO_WIRE_FLUSHED = 18,    // all that the receiver has sent before the FLUSH has been read
  // The sender's last frame. The receiver closes the connection; the root, only after its own BYE.
  RONDO_WIRE_BYE = 19,
  RONDO_WIRE_MESSAGE = 20, // between peers: a message of the mesh's user
  // Between peers, on a connection that is to be closed (runtime/net/mesh_close.c).
  RONDO_WIRE_CLOSE = 21, // asks; the sender's last frame there, except a CLOSED
  RONDO_WIRE_CLOSED = 22 // answers; the sender's last frame there
};

// What a connection is for.
enum rondo_wire_purpose { RONDO_WIRE_TO_ROOT = 1, RONDO_WIRE_TO_PEER = 2 };

enum rondo_wire_refusal {
  RONDO_WIRE_REFUSE_VERSION = 1, // uses another version of the protocol
  RONDO_WIRE_REFUSE_JOB = 2,     // of another job, or with another purpose
  RONDO_WIRE_REFUSE_SECRET = 3,  // failed to prove that it knows the secret, or has its key
  RONDO_WIRE_REFUSE_GARBAGE = 4, // sent bytes that are not of this protocol
  RONDO_WIRE_REFUSE_LATE = 5,    // did not finish the handshake in time
  RONDO_WIRE_REFUSE_TWICE = 6    // the receiver has a connection with the sender, or makes one
};

struct rondo_wire_head {
  uint8_t version, type, fd_count;
  uint32_t size;    // of the payload
  uint32_t subtype; // RONDO_WIRE_MESSAGE: type chosen by the sender; else 0
};

struct rondo_wire_frame {
  struct rondo_wire_head head;
  const uint8_t *payload;
};

struct rondo_wire_hello {
  uint8_t tag[RONDO_WIRE_TAG_BYTES];
  uint8_t purpose;
  uint32_t from, to; // process numbers, or RONDO_MESH_NOBODY
  uint8_t nonce[RONDO_WIRE_NONCE_BYTES];
  uint8_t key[RONDO_TOPOLOGY_KEY_BYTES]; // public key of the initiator
};

// An address to connect to.
struct rondo_wire_address {
  uint8_t family; // 4 or 6
  uint16_t port;
  uint8_t bytes[16]; // 4 or 16, in network order
};

// A process: where it is and which ranks live there.
struct rondo_wire_member {
  uint64_t machine[2];
  uint64_t pid_namespace, user_namespace;
  uint32_t pid, uid;
  uint8_t asks_window; // 1: its devices are to share an NCCL window
  char host[RONDO_TOPOLOGY_NAME_BYTES];
  char local[RONDO_TOPOLOGY_NAME_BYTES];     // name of its socket for processes of its machine
  uint8_t key[RONDO_TOPOLOGY_KEY_BYTES];     // its public key
  uint64_t cores[RONDO_TOPOLOGY_CORE_WORDS]; // a bit for each core on which it may run
  uint32_t address_count;
  struct rondo_wire_address addresses[RONDO_TOPOLOGY_ADDRESSES];
  uint32_t interface_count;
  struct rondo_topology_interface interfaces[RONDO_TOPOLOGY_INTERFACES]; // of its machine
  uint32_t rank_count;
  uint32_t *ranks;                     // ascending
  struct rondo_topology_place *places; // of the ranks, in the same order
};

// ---------------------------------------------------------------- writing ----

// Bytes being written. `full` is set when something does not fit; the bytes are then useless.
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
void rondo_wire_put_text(struct rondo_wire_writer *w, const char *text); // truncated if too long
void rondo_wire_put_ranks(struct rondo_wire_writer *w, const uint32_t *ranks, uint32_t count);
void rondo_wire_put_address(struct rondo_wire_writer *w, const struct rondo_wire_address *a);
void rondo_wire_put_place(struct rondo_wire_writer *w, const struct rondo_topology_place *p);
void rondo_wire_put_hello(struct rondo_wire_writer *w, const struct rondo_wire_hello *hello);
// `before` is the member written just before, or null. Fields that both share, as processes of one
// machine do, are left out.
void rondo_wire_put_member(struct rondo_wire_writer *w, const struct rondo_wire_member *m,
                           const struct rondo_wire_member *before);
void rondo_wire_head_write(uint8_t *bytes, const struct rondo_wire_head *head);

// ---------------------------------------------------------------- reading ----

// Bytes being read. `bad` is set when something is absent or out of range; later reads return 0.
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
// Reads a text without control characters into `text`; always terminates it.
void rondo_wire_get_text(struct rondo_wire_reader *r, char *text, size_t capacity);
// Reads ascending ranks below RONDO_MAX_RANKS. Allocates *ranks, which the caller frees; null if
// there are none or the reader is bad. Returns how many.
uint32_t rondo_wire_get_ranks(struct rondo_wire_reader *r, uint32_t **ranks);
void rondo_wire_get_address(struct rondo_wire_reader *r, struct rondo_wire_address *a);
void rondo_wire_get_place(struct rondo_wire_reader *r, struct rondo_topology_place *p);
void rondo_wire_get_hello(struct rondo_wire_reader *r, struct rondo_wire_hello *hello);
// Allocates m->ranks and m->places; rondo_wire_member_fini frees them. `before` is as it was for
// the writer.
void rondo_wire_get_member(struct rondo_wire_reader *r, struct rondo_wire_member *m,
                           const struct rondo_wire_member *before);
void rondo_wire_member_fini(struct rondo_wire_member *m);
// Adds a rank in ascending order. False without memory.
bool rondo_wire_member_try_insert(struct rondo_wire_member *m, uint32_t rank,
                                  const struct rondo_topology_place *place);
// True if the reader is good and at the last byte.
bool rondo_wire_is_done(const struct rondo_wire_reader *r);

// Reads the header at the front of `bytes`. Frames of members, and long ones, are refused unless
// `is_authenticated`. Returns 1, 0 if the header is incomplete, or a negated enum
// rondo_wire_refusal.
int rondo_wire_head_read(const uint8_t *bytes, size_t size, bool is_authenticated,
                         struct rondo_wire_head *head);

#endif // RONDO_RUNTIME_NET_WIRE_H
