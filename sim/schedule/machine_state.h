// The state of a machine: for machine.c, calls.c, cores.c, look.c, look_ahead.c and order.c, which
// run it, and machine_make.c, which makes it.
#ifndef RONDO_SIM_SCHEDULE_MACHINE_STATE_H
#define RONDO_SIM_SCHEDULE_MACHINE_STATE_H

#include "daemon/core/block_core.h"
#include "sim/common/rng.h"
#include "sim/schedule/event_queue.h"
#include "sim/schedule/machine.h"

#define RONDO_SCHEDULE_NO_CALL UINT32_MAX
#define RONDO_SCHEDULE_NEVER UINT64_MAX

enum rondo_schedule_rank_state {
  RONDO_SCHEDULE_WAITS = 0,    // until something arrives, its timer ends or a planned look is due
  RONDO_SCHEDULE_SCHEDULED = 1 // an event steps its block
};

// A call of a rank's program, and its run of this iteration.
struct rondo_schedule_run {
  struct rondo_schedule_call call;
  uint64_t submitted_ns;
  uint32_t next;            // call of the same collective that was submitted next
  uint32_t iteration_ended; // the last one whose run has ended, from 1
};

// What a rank has of one collective. Its runs form a list from the oldest that has not ended.
struct rondo_schedule_member {
  uint32_t collective, position;
  uint32_t oldest, newest; // calls of the rank; RONDO_SCHEDULE_NO_CALL
  uint32_t outstanding;    // length of the list
  uint32_t given; // of these, to the daemon; of these the first RONDO_DEVICE_RUNS are there
  uint64_t runs;  // that went to the daemon
};

// What a rank needs a core for.
enum rondo_schedule_core_use {
  RONDO_SCHEDULE_CORE_STEP = 0,    // of its block
  RONDO_SCHEDULE_CORE_COMPUTE = 1, // of its program
  RONDO_SCHEDULE_CORE_USES = 2
};

// The cores of a machine that its ranks share. Who finds none takes the next ticket.
struct rondo_schedule_cores {
  uint64_t *until_ns; // when each is free
  uint64_t given, called;
};

// A link takes one message after the other.
struct rondo_schedule_port {
  uint64_t sends_until_ns, receives_until_ns;
  uint64_t busy_ns, bytes; // of what it has sent
};

struct rondo_schedule_rank {
  uint64_t busy_until_ns; // its block works on a step
  uint64_t timer_ns;      // when its block would do something though nothing arrives
  uint64_t waiting_since_ns;
  uint64_t sent_bytes;
  struct rondo_schedule_path path; // that led here
  uint64_t path_ns;                // the time up to which `path` accounts
  uint8_t state;                   // enum rondo_schedule_rank_state
  uint8_t reason;                  // enum rondo_schedule_reason
  bool syncs;                      // its program waits until the block has quit
  bool synced;                     // and has done so for its next call
  // Of eight ready flags, and of eight places of the ready set, a bit that is set if any of them
  // may be: bit i % 64 is that of word i.
  uint64_t flag_words, ready_words;
  uint32_t *places; // by index: where in the task queue the collective was found last
  uint32_t planned; // number of the planned step; others are void
  uint32_t iteration, submitted, ended; // calls of this iteration
  uint32_t awaited;                     // call that the program waits for
  uint32_t first_call, call_count, first_member, member_count;
  double slowness;
  uint64_t late_ns;
  uint64_t sync_since_ns;           // when it began to wait for its block
  uint64_t compute_ns;              // that the rank has to compute before its program goes on
  struct rondo_schedule_walk *walk; // of a program that is a graph (graph.c); else null
  uint64_t tickets[RONDO_SCHEDULE_CORE_USES]; // for a core; 0: it does not wait
  struct rondo_sq_producer sq;
  struct rondo_block block;
  struct rondo_daemon_core core;
};

// The connectors, endpoints and contexts of a collective, in rondo_schedule_machine.wired.
struct rondo_schedule_wiring {
  char *connectors;
  uint64_t stride; // of a connector
  struct rondo_endpoint *send, *recv;
  struct rondo_task_context *contexts; // by position
};

// Memory of all ranks, in arrays that each rank has a part of.
struct rondo_schedule_arrays {
  uint64_t *pages;                         // of the tables
  struct rondo_device_collective *entries; // of the tables, by member, as the next four
  uint32_t *tasks;
  uint32_t *places; // of the ranks
  struct rondo_wait *waits;
  struct rondo_schedule_member *members;
  struct rondo_schedule_run *runs; // by call
  char *flags, *ready, *queues;    // ready flags, ready sets, SQs
};

// What an order that all ranks follow needs (order.c).
struct rondo_schedule_orders {
  uint32_t *calls; // static: the program's collectives before any were shuffled, by call
  uint32_t *turns; // by rank: the place in its program whose run is next
  // Of a coordinator, by collective: members that have no run which waits for it.
  uint32_t *lacking;
  uint32_t *ready, *announced; // lists of collectives: for the next round, and of this one
  uint32_t ready_count, announced_count;
  bool gathers; // a round is planned for `ready`
  uint64_t round_ns, round_ends_ns;
};

// What SUBMIT is about, in the event's sequence.
enum rondo_schedule_submission {
  RONDO_SCHEDULE_PROGRAM = 0,  // the program of a rank goes on
  RONDO_SCHEDULE_GATHER = 1,   // the coordinator looks at what is ready
  RONDO_SCHEDULE_ANNOUNCE = 2, // all ranks know what the coordinator has found
  RONDO_SCHEDULE_COMPUTE = 3   // a rank that shares cores computes
};

struct rondo_schedule_machine {
  struct rondo_schedule_settings settings;
  struct rondo_schedule_rank *ranks;
  struct rondo_schedule_collective *collectives;
  struct rondo_schedule_wiring *wirings; // by collective
  char *wired;                           // memory of all wirings
  uint32_t collective_count, collective_capacity;
  uint64_t call_count, call_capacity;
  struct rondo_schedule_arrays arrays;
  struct rondo_schedule_port *ports[RONDO_SCHEDULE_CLASSES]; // by rank; by interface
  uint32_t *port_of[RONDO_SCHEDULE_CLASSES];                 // by rank
  struct rondo_schedule_cores *cores;                        // by machine; null: each rank has one
  struct rondo_schedule_event_queue events;
  struct rondo_schedule_orders orders;
  struct rondo_communicator_gate gate; // open, of all collectives
  struct rondo_cq_producers cq;        // of all blocks; it is empty between two steps
  struct rondo_cq_consumer completions;
  char *cq_ring;
  uint32_t exit; // never set
  bool started;
  struct rondo_sim_rng rng;
  struct rondo_schedule_ended *ended;
  uint64_t ended_count, ended_capacity;
  struct rondo_schedule_totals totals;
  struct rondo_schedule_lengths lengths;
  // The step that is being executed.
  struct rondo_schedule_rank *stepping;
  uint64_t now_ns;
  double cost_ns; // of the step so far
  bool received;  // the cost of the current primitive's receive is included
};

// Makes what the collectives and programs need, and puts the first events into the queue.
void rondo_schedule_machine_start(struct rondo_schedule_machine *m);

// Puts the rank's calls into the order of the iteration.
void rondo_schedule_order_draw(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r);

// The index of a collective in the table of a rank that is in it.
uint32_t rondo_schedule_index_of(const struct rondo_schedule_machine *m,
                                 const struct rondo_schedule_rank *r, uint32_t collective);

// Plans a step of the block in place of the one that was planned before, if any.
void rondo_schedule_step_plan(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                              uint64_t at_ns);

// All programs begin.
void rondo_schedule_programs_begin(struct rondo_schedule_machine *m);

// Submits the next call of the rank's program. Returns true if the daemon is given any run at once.
bool rondo_schedule_call_submit(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                                uint64_t now_ns);

// Goes on with the rank's program up to the next call that computes or synchronises first, or that
// it waits for. Returns true if it gave the daemon anything to do.
bool rondo_schedule_program_go_on(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                                  uint64_t now_ns);

// The rank's program goes on after what its next call computes.
void rondo_schedule_program_resume(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                                   uint64_t now_ns);

// A program that is a graph: it begins; the run of a call, by its number in the rank, ends; what
// was planned with that key is due.
void rondo_schedule_walk_begin(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r);
void rondo_schedule_walk_run_ends(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                                  uint32_t call, uint64_t now_ns);
bool rondo_schedule_walk_go_on(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                               uint64_t key, uint64_t now_ns);
void rondo_schedule_walk_destroy(struct rondo_schedule_walk *w); // null is allowed

// The rank's block has quit: a device synchronisation that waits for it ends.
void rondo_schedule_sync_end(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                             uint64_t now_ns);

// Pushes the member's next run to the SQ, which has room for all that a daemon holds.
void rondo_schedule_run_push(struct rondo_schedule_rank *r, struct rondo_schedule_member *member,
                             uint32_t index);

// Gives the member's next run to the daemon. Returns false if that has as many of it as it can
// hold, and gets this one later.
bool rondo_schedule_run_give(struct rondo_schedule_rank *r, struct rondo_schedule_member *member,
                             uint32_t index);

// The same from outside the rank, whose block may wait.
void rondo_schedule_run_deliver(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                                uint32_t index, uint64_t now_ns);

void rondo_schedule_orders_make(struct rondo_schedule_machine *m);
void rondo_schedule_orders_fini(struct rondo_schedule_machine *m);

// A run of the rank was submitted. Returns true if the daemon was given any.
bool rondo_schedule_order_submit(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                                 uint32_t index, uint64_t now_ns);

void rondo_schedule_cores_make(struct rondo_schedule_machine *m);
void rondo_schedule_cores_fini(struct rondo_schedule_machine *m);

// Returns true if the rank may take a core of its machine now. Else it must ask again at
// `again_ns`.
bool rondo_schedule_core_ask(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                             enum rondo_schedule_core_use use, uint64_t now_ns, uint64_t *again_ns);

// After rondo_schedule_core_ask: the rank takes the core.
void rondo_schedule_core_take(struct rondo_schedule_machine *m, const struct rondo_schedule_rank *r,
                              uint64_t until_ns);

// From `at_ns` on the rank computes for `ns`; then its program goes on.
void rondo_schedule_compute(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                            uint64_t at_ns, uint64_t ns);

// The rank computes its next time slice, if a core is free.
void rondo_schedule_compute_go_on(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                                  uint64_t now_ns);

// A part of a round of the coordinator: RONDO_SCHEDULE_GATHER or _ANNOUNCE.
void rondo_schedule_order_round(struct rondo_schedule_machine *m, uint32_t part, uint64_t now_ns);

// As rondo_connector_set_flag: `distance` is that from the connector to the rank's flag.
void rondo_schedule_flag_set(struct rondo_schedule_rank *r, const struct rondo_connector *c,
                             uint64_t distance);

// A block has stepped, and its task queue has that length.
void rondo_schedule_lengths_sample(struct rondo_schedule_lengths *q, uint64_t now_ns,
                                   uint32_t length);

// Prefetches what the next events need.
void rondo_schedule_look_ahead(const struct rondo_schedule_machine *m);

// The same for a block that preempts one stuck collective after the other.
void rondo_schedule_look_ahead_in_queue(const struct rondo_schedule_machine *m,
                                        const struct rondo_schedule_rank *r);

static inline uint64_t rondo_schedule_whole_ns(double ns) { return (uint64_t)(ns + 0.5); }

// Time that chance makes longer.
static inline double rondo_schedule_jittered(struct rondo_schedule_machine *m, double ns) {
  if (m->settings.jitter == 0) {
    return ns;
  }
  return ns * (1 + m->settings.jitter * rondo_sim_rng_unit(&m->rng));
}

static inline struct rondo_schedule_member *
rondo_schedule_member_of(const struct rondo_schedule_machine *m,
                         const struct rondo_schedule_rank *r, uint32_t index) {
  return &m->arrays.members[r->first_member + index];
}

// True if a run was submitted that the daemon was not given.
static inline bool rondo_schedule_member_held(const struct rondo_schedule_member *member) {
  return member->outstanding > member->given;
}

static inline uint32_t rondo_schedule_rank_number(const struct rondo_schedule_machine *m,
                                                  const struct rondo_schedule_rank *r) {
  return (uint32_t)(r - m->ranks);
}

#endif // RONDO_SIM_SCHEDULE_MACHINE_STATE_H
