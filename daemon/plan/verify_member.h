// A rank of the plan verifier: executes the rank's plan on symbols, op by op, and checks what it
// reads, writes, sends and leaves behind. Used by verify.c, which lets all ranks take turns.
#ifndef RONDO_DAEMON_PLAN_VERIFY_MEMBER_H
#define RONDO_DAEMON_PLAN_VERIFY_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/plan/verify.h"

// What a chunk holds. `chunk` says which elements these are: the index of the chunk in
// the buffer that is counted by ranks, if there is one.
struct rondo_verify_symbol {
  uint64_t loop;
  uint32_t chunk;
  bool finished;  // FINAL was applied
  bool quantised; // it is what a message holds
  uint64_t order; // in which the contributions were reduced: equal for equal bits
  uint64_t *from; // set_words of the machine; a bit for each rank
};

// One chunk of a user's buffer, or of scratch, in the current loop.
struct rondo_verify_place {
  bool begun;   // by an op of this loop, and still to be added to
  bool written; // by an op of this loop; in a user's buffer for good
  bool unread;  // scratch: since it was written last
  struct rondo_verify_symbol symbol;
};

// A send that passed the address of places of the sender.
struct rondo_verify_reference {
  uint64_t loop;
  uint32_t place, width; // the first of them, and their number, round the end of the buffer
  uint32_t taker;
  uint32_t taken_at; // the taker's own time when it took the slot; 0: not yet
};

struct rondo_verify_slot {
  struct rondo_verify_symbol *symbols; // those chunks of the message that are followed
  uint32_t width;                      // chunks of the message
  int quantisation;                    // enum rondo_quantisation
  bool is_packets;
  uint32_t first, count; // followed: from chunk `first` of the message on
  uint64_t loop;         // of the sender
  uint32_t reference;    // index into the sender's references, or RONDO_PLAN_NOWHERE
  uint32_t *clock;       // the sender's; the memory of the slot in use, with all symbols after it
};

struct rondo_verify_connector {
  uint32_t from, to;
  uint32_t head, count; // slots[head] is the oldest of `count`
  struct rondo_verify_slot *slots;
  uint32_t *taken_at; // by slot: the time of `to` when it took the last message there; 0: none yet
};

// Where in a loop a rank is.
struct rondo_verify_position {
  uint32_t op, repeat;
  uint32_t round_chunk; // how far the chunks of the round are beyond those of the first one
};

struct rondo_verify_member {
  uint64_t loop; // loops done, in this pass
  struct rondo_verify_position at;
  uint32_t reference_count; // of this loop; with two passes, of all
  struct rondo_verify_reference *references;
  // Of this loop: send buffer; unless in place, receive buffer; scratch. With two passes those of
  // all loops follow each other from `all_places` on; else all loops have the same ones.
  struct rondo_verify_place *places, *all_places;
  uint64_t *sets, *all_sets; // of the symbols of the places
  uint32_t *clock;           // ops that each rank is known to have done before this point
  struct rondo_verify_connector **send, **recv; // by the index of the peer
};

struct rondo_verify_machine {
  const struct rondo_plan_verify_case *what;
  struct rondo_plan_verify_report *report;
  struct rondo_verify_member *members;
  struct rondo_verify_connector *connectors;
  uint32_t connector_count;
  uint32_t set_words;
  uint64_t *value_set; // of the step that is executed
  uint64_t *orders;    // all-reduce: of the results, by loop and chunk; 0: no rank has it yet
  uint64_t random;
};

enum rondo_verify_result {
  RONDO_VERIFY_DONE,
  RONDO_VERIFY_BLOCKED,
  RONDO_VERIFY_ENDED,
  RONDO_VERIFY_FAULT,
  RONDO_VERIFY_NO_MEMORY
};

// Allocates the state of a rank but not its connectors. False: no memory. In either case
// rondo_verify_member_fini frees it.
bool rondo_verify_member_init(struct rondo_verify_machine *m, uint32_t rank);
void rondo_verify_member_fini(struct rondo_verify_member *me);

// Executes the next op of a rank for its chunks, unless it has ended or must wait.
// RONDO_VERIFY_FAULT: the report says why.
enum rondo_verify_result rondo_verify_member_step(const struct rondo_verify_machine *m,
                                                  uint32_t rank);

// Called when no rank can step. True if this rank has ended; else the report says for what it
// waits.
bool rondo_verify_member_end_check(const struct rondo_verify_machine *m, uint32_t rank);

// Whether each pair of ranks has a part of its own.
bool rondo_verify_kind_is_exchange(int kind);

#endif // RONDO_DAEMON_PLAN_VERIFY_MEMBER_H
