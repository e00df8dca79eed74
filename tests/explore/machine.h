// A whole job on one thread and in virtual time: the ranks of one program, their blocks, their
// completions and their applications are actors, and a random number picks which acts next.
//
//   explore_machine_init -> explore_machine_run -> explore_machine_fini
//
// Code under test calls rondo_explore_point between the halves of its protocol steps; there other
// actors may act too, so that a step is interrupted where a thread could be.
#ifndef RONDO_TESTS_EXPLORE_MACHINE_H
#define RONDO_TESTS_EXPLORE_MACHINE_H

#include <stdint.h>

#include "daemon/host/host.h"
#include "runtime/rank/coll.h"
#include "tests/explore/program.h"
#include "tests/explore/values.h"

struct explore_record;

enum explore_verdict {
  EXPLORE_OK = 0,
  EXPLORE_WRONG = 1, // data, a status, a callback or a refusal that should not be
  EXPLORE_STUCK = 2  // runs that do not end
};

struct explore_run {
  uint32_t rank, coll, period, number, position;
  uint32_t in_place, wants_callback;
  uint32_t after_abort; // submitted after this rank had aborted the collective
  uint32_t ended, called;
  int status, callback_status;
  uint32_t is_shared; // the memory is the context's, and peers may read it
  char *memory, *send, *recv;
  size_t memory_bytes, send_bytes, recv_bytes;
  // Of a run that is tied to a stream.
  uint32_t is_tied;
  uint32_t rung;        // its stream has come so far; only then is there something to send
  uint32_t released;    // its stream has gone on
  int64_t wrong_at_end; // element that was wrong when it did, or -1
  struct rondo_stream_words words;
  uint64_t ticket;
};

// One collective on one rank.
struct explore_member {
  uint32_t period; // that is registered, or comes next
  uint32_t registered, aborted;
  uint32_t submitted, ended; // runs of this period
  struct rondo_collective handle;
  struct explore_run runs[EXPLORE_PERIODS][EXPLORE_RUNS];
};

// Records of a block's fairness: see fair.c.
struct explore_fairness {
  uint64_t turn;
  uint32_t others[EXPLORE_COLLS]; // turns of others since the collective could move
  uint32_t probed;                // the collective that was executed last, plus 1
  uint64_t progress;              // of the block, when that was
  uint32_t was_ready;             // collectives, a bit each, that could have moved instead
};

struct explore_rank {
  struct rondo_context ctx;
  struct rondo_rank *rank;
  struct explore_member members[EXPLORE_COLLS];
  struct explore_fairness fairness[EXPLORE_BLOCKS];
  uint32_t burst_coll, burst_left;
  uint32_t is_syncing;
  uint64_t launches[EXPLORE_BLOCKS]; // that the rank waits for
  uint64_t callbacks_due, callbacks_called;
  struct explore_run *tied[EXPLORE_COLLS * EXPLORE_RUNS]; // outstanding
  uint32_t tied_count;
};

struct explore_machine {
  struct explore_program program;
  struct random random;
  struct explore_rank ranks[EXPLORE_RANKS];
  uint32_t tainted[EXPLORE_COLLS][EXPLORE_PERIODS];            // some member aborted it
  uint64_t bits[EXPLORE_COLLS][EXPLORE_PERIODS][EXPLORE_RUNS]; // of quantised results; 0: none yet
  uint32_t aborts_left, cuts_left;
  uint32_t has_comms;     // calls of communicators in place of the program's collectives
  uint32_t has_nccl;      // programs on the drop-in libnccl, too
  uint32_t is_submitting; // 0: applications only wait
  int trace;
  int wants_callbacks; // of every run; else of half of them
  int never_preempts;  // the baseline: a standstill is what is looked for
  uint64_t now_ns;
  uint64_t load_ns; // that pass when a block loads a context
  uint64_t loads;   // of contexts, by all blocks
  uint64_t steps, quiet_steps;
  uint32_t depth;    // of actors that act inside the step of another
  uint32_t in_calls; // calls of the API, which may hold a lock, below
  const struct rondo_host_block *driving;
  uint32_t weights[EXPLORE_RANKS * (EXPLORE_BLOCKS + 3) + 1];
  struct explore_record *record; // of the turns of blocks (record.h); null: none
  int verdict;
  char finding[256];
};

// Draws the program of the seed and makes its ranks. `never_preempts` runs it without preemption.
void explore_machine_init(struct explore_machine *m, uint64_t seed,
                          void (*hasten)(struct explore_program *p), int never_preempts, int trace);

// Draws the ranks of the seed, and calls of communicators instead of a program (comm.h).
void explore_machine_init_comms(struct explore_machine *m, uint64_t seed, int trace);

// Draws the ranks of the seed, and programs on the drop-in libnccl (nccl.h).
void explore_machine_init_nccl(struct explore_machine *m, uint64_t seed, int never_preempts,
                               int trace);

// The same with a program of the caller's.
void explore_machine_start(struct explore_machine *m, const struct explore_program *program);

// Runs until every run has ended, something is wrong, or nothing moves any more. Returns the
// verdict.
int explore_machine_run(struct explore_machine *m);

// One turn of a random actor. Returns 1 if something moved.
int explore_machine_turn(struct explore_machine *m);

// Ends all ranks; what is outstanding is aborted first. Returns the verdict.
int explore_machine_fini(struct explore_machine *m);

// Notes the first thing found wrong.
void explore_fail(struct explore_machine *m, int verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void explore_trace(struct explore_machine *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// A block is about to execute the collective at the cursor of its task queue: fails if that is
// unfair to others, or in vain while another could move.
void explore_fair_watch(struct explore_machine *m, const struct rondo_host_block *block);

// ---------------------------------------------------------------- application ---

enum explore_action {
  EXPLORE_NOTHING = 0,
  EXPLORE_REGISTER,
  EXPLORE_SUBMIT,
  EXPLORE_DEREGISTER,
  EXPLORE_SYNCHRONIZE // begins to wait for the rank's device
};

// Does one thing that is possible now.
void explore_app_perform(struct explore_machine *m, uint32_t rank, int action, uint32_t coll);

// The next act of a rank's application: it registers, runs, deregisters, aborts or waits for its
// device. Returns 1 if it did anything.
int explore_app_act(struct explore_machine *m, uint32_t rank);

// Looks at runs of the rank that may have ended: checks their results, then scribbles over their
// buffers at once, as an application may.
void explore_app_sweep(struct explore_machine *m, uint32_t rank);

// 1 when the rank has done all that its program says.
int explore_app_is_done(const struct explore_machine *m, uint32_t rank);

// Puts what the run sends into its send buffer.
void explore_run_fill(const struct explore_machine *m, struct explore_run *run);

// The first wrong element of what the run has received if it has succeeded, or -1.
int64_t explore_run_find_wrong(const struct explore_machine *m, const struct explore_run *run);

// ------------------------------------------------------------------- streams ---

// Draws whether the run, which is laid out, is tied to a stream. Returns what ties it, or nothing.
struct rondo_tie explore_stream_tie(struct explore_machine *m, struct explore_run *run);

// A stream of the rank goes on: rings for a run, or passes one that has ended. Returns 1 if it did.
int explore_stream_act(struct explore_machine *m, uint32_t rank);

// A run has ended with `status`: checks what its stream has seen, and forgets it.
void explore_stream_end(struct explore_machine *m, struct explore_run *run, int status);
// Checks how many begun runs the block counts that a stream waits for.
void explore_stream_watch(struct explore_machine *m, const struct rondo_block *b, uint32_t rank);

#endif // RONDO_TESTS_EXPLORE_MACHINE_H
