// Agreement on registrations: finds out when all members of a group have registered the same, what
// differs if they have not, after how many runs a registration ends, and when all have ended it.
//
//   init -> step(LOCATED) ... step(REGISTER) -> AGREED or FAILED ... step(DEREGISTER) -> fini
//
// One core for each process of a job. It is a pure state machine: it gets events, appends actions,
// and does no I/O. The caller serialises the calls.
//
// The processes of a group form a tree: the parent of the i-th process is the ((i - 1) / 8)-th. The
// core keeps an *entry* for each registration (id, generation, group) that a member may still
// change. A process tells its neighbours in the tree what it knows of an entry, and a neighbour
// adds it to what it knows itself. So every message says all that holds, and a repeated one does no
// harm:
//
//   PROPOSED  up, then down: a rank has registered, with this descriptor
//   COMPLETE  up: all ranks of the sender's subtree have registered with this descriptor
//   AGREED    down: all ranks of the group have
//   DONE      up, after AGREED: all ranks of the sender's subtree have deregistered
//   OVER      down: all ranks of the group have; the entry ends
//   FAILED    in all directions: the runs of the entry end with an error
//   a limit   in all directions: a rank has deregistered after so many runs
//
// A registration of n processes costs at most 4 (n - 1) messages: PROPOSED both ways, COMPLETE and
// AGREED. A descriptor is small, so it goes with every message, and whoever sees two that differ
// names both sides. A member list goes once to each neighbour, as ranges; then its digest names it.
//
// A communicator whose calls match by their order is no registration, but its failure goes the same
// way: FAIL for its key (RONDO_SPACE_KEY) makes an entry that nobody registers. FAILED goes once in
// each direction along each edge of the tree, at most 2 (n - 1) messages for any number of
// processes that find the failure. Each caller is told. The entry ends when all neighbours have
// said FAILED.
//
// Members that go: a rank that leaves has ended its registrations. If a process leaves before
// AGREED has reached it, no run can ever succeed, so its neighbours in the tree fail the entry. If
// it leaves later, its neighbours become each other's neighbours. A lost rank fails all entries of
// its groups, in each process by itself: the membership tells all processes, so no message is sent.
// Without such a membership a process that has lost ranks says LEFT with a failure: then the
// entries of their groups fail, and messages tell so.
//
// The caller makes sure that GONE for a process comes after the last message from it, and that
// messages between two processes arrive in order, unless one of them is lost.
#ifndef RONDO_RUNTIME_JOB_AGREEMENT_H
#define RONDO_RUNTIME_JOB_AGREEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "runtime/job/descriptor.h"
#include "runtime/job/member_list.h"
#include "runtime/job/registration.h"

#define RONDO_AGREEMENT_FANOUT 8u // children of a process in the tree of a group

// Identifies an entry.
struct rondo_agreement_key {
  struct rondo_id id;
  uint64_t generation;
  uint64_t group; // digest of the member list
};

enum rondo_agreement_event_type {
  RONDO_AGREEMENT_LOCATED = 0, // the roster is known: process_of, process
  RONDO_AGREEMENT_REGISTER,    // a rank here has registered: key.id, rank, members, nranks,
                               // descriptor. Sets key.generation and key.group.
  RONDO_AGREEMENT_PLANNED,     // its plan is known, which it was not when it registered: key, rank,
                               // descriptor. Given before LOCATED.
  RONDO_AGREEMENT_DEREGISTER,  // it has deregistered: key, rank, completed
  RONDO_AGREEMENT_FAIL,        // a registration here has failed: key, failure; or a communicator
                               // has: key.id, members, nranks, failure
  RONDO_AGREEMENT_LEAVE,       // a rank here leaves: rank
  RONDO_AGREEMENT_LEFT,        // ranks elsewhere have left: ranks, rank_count, and process if no
                               // rank is left there, else RONDO_NO_PLACE
  RONDO_AGREEMENT_LOST,        // ranks elsewhere are lost: ranks, rank_count (not 0), and their
                               // process, or RONDO_NO_PLACE if they have never come
  RONDO_AGREEMENT_RECEIVE,     // a message has arrived: process, type, bytes, size
  RONDO_AGREEMENT_RETRY        // there may be memory again (`is_starved`)
};

// Why an entry has failed.
struct rondo_agreement_failure {
  int status;
  uint32_t culprit; // a rank
  uint32_t other;   // of a mismatch: the other side, for which `culprit` is it; else UINT32_MAX
  const char *text; // "": the status tells
};

struct rondo_agreement_event {
  int type; // enum rondo_agreement_event_type
  struct rondo_agreement_key key;
  uint32_t rank, process;
  const uint32_t *members, *process_of, *ranks;
  uint32_t nranks, rank_count;
  struct rondo_descriptor descriptor;
  uint64_t completed;
  struct rondo_agreement_failure failure;
  uint32_t message_type;
  const void *bytes;
  size_t size;
};

enum rondo_agreement_action_type {
  RONDO_AGREEMENT_SEND = 0, // process, message_type, bytes, size
  RONDO_AGREEMENT_AGREED,   // all members have registered the same: key
  RONDO_AGREEMENT_FAILED,   // key, failure
  RONDO_AGREEMENT_LIMIT     // rank `culprit` has deregistered after `completed` runs: key
};

struct rondo_agreement_action {
  int type; // enum rondo_agreement_action_type
  struct rondo_agreement_key key;
  uint32_t process, message_type;
  size_t at, size; // of the message, or of the text of a failure, in `bytes` of the actions
  int status;
  uint32_t culprit, other; // of a failure: see struct rondo_agreement_failure
  uint64_t completed;
};

// The actions of one or several steps, in their order.
struct rondo_agreement_actions {
  struct rondo_agreement_action *list;
  uint32_t count, capacity;
  char *bytes;
  size_t byte_count, byte_capacity;
};

// What messages say that the receiver did not know, most important first.
enum rondo_agreement_kind {
  RONDO_AGREEMENT_KIND_FAILED = 0,
  RONDO_AGREEMENT_KIND_OVER,
  RONDO_AGREEMENT_KIND_DONE,
  RONDO_AGREEMENT_KIND_AGREED,
  RONDO_AGREEMENT_KIND_COMPLETE,
  RONDO_AGREEMENT_KIND_PROPOSED,
  RONDO_AGREEMENT_KIND_LIMIT,
  RONDO_AGREEMENT_KIND_MEMBERS, // part of a member list
  RONDO_AGREEMENT_KIND_COUNT
};

struct rondo_agreement_counters {
  uint64_t sent[RONDO_AGREEMENT_KIND_COUNT], sent_bytes[RONDO_AGREEMENT_KIND_COUNT];
  uint64_t received, received_bytes;
  uint64_t ignored; // received messages about entries that have ended or that a loss has failed
};

struct rondo_agreement_gone {
  uint32_t rank;
  uint32_t is_lost;
};

struct rondo_agreement {
  struct rondo_member_lists *lists; // shared or of this core alone
  uint32_t self;                    // the number of this process
  bool is_located;
  bool is_starved; // a message was not made for lack of memory: RETRY makes it
  void *ids;       // tree of what is known of each id
  void *groups;    // tree of what is known of each group
  LIST_HEAD(, rondo_agreement_group) group_list;
  struct rondo_agreement_gone *gone; // ranks that are gone, ascending
  uint32_t gone_count, gone_capacity;
  struct rondo_agreement_partial *partials; // member lists that have arrived in part
  uint32_t entry_count;
  struct rondo_agreement_counters counters;
  struct rondo_agreement_actions *out; // during a step
};

// `lists` must outlive the core.
void rondo_agreement_init(struct rondo_agreement *a, struct rondo_member_lists *lists);
void rondo_agreement_fini(struct rondo_agreement *a);

// Takes an event and appends to `actions`. Writes to the event only as its type says. Returns
// RONDO_SUCCESS; RONDO_ERR_INVALID (RECEIVE: the message cannot come from a sound sender, nothing
// has changed); RONDO_ERR_NO_MEMORY (REGISTER, RECEIVE, LOCATED, FAIL: nothing has changed;
// LEAVE, LEFT, LOST: the caller gives the event again).
int rondo_agreement_step(struct rondo_agreement *a, struct rondo_agreement_event *event,
                         struct rondo_agreement_actions *actions);

void rondo_agreement_actions_clear(struct rondo_agreement_actions *actions);
void rondo_agreement_actions_free(struct rondo_agreement_actions *actions);

// How often a rank of this process has registered an id.
uint64_t rondo_agreement_times(const struct rondo_agreement *a, struct rondo_id id, uint32_t rank);

#endif // RONDO_RUNTIME_JOB_AGREEMENT_H
