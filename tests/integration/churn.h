// The churn test: a job of processes in which something happens twice a second. test_churn.c
// decides what happens and watches; churn_member.c is the life of a process, churn_work.c what it
// does in a job.
#ifndef RONDO_TESTS_INTEGRATION_CHURN_H
#define RONDO_TESTS_INTEGRATION_CHURN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <rondo/elastic.h>
#include <rondo/rondo.h>
#include <rondo/state.h>

#define CHURN_SLOTS 8u // processes at a time; a record has a byte for each rank
#define CHURN_COLLS 10u
#define CHURN_RETRIED 5u // the first ones are done again after a loss
#define CHURN_LEAST 2u   // members of a job; less: they join anew
#define CHURN_IDS 64u
#define CHURN_WAIT_NS INT64_C(20000000000) // a run that takes longer hangs
#define CHURN_SYNC_NS INT64_C(3000000000)  // for one synchronisation
#define CHURN_GONE_MS 6000u                // until all know whom a stop or a cut has cost the job
#define CHURN_VOTE_NS INT64_C(8000000000)  // for one vote
#define CHURN_REJOIN_NS UINT64_C(20000000000) // of votes that fail, until the member joins anew
#define CHURN_JOIN_NS INT64_C(3000000000)
#define CHURN_PEER_TIMEOUT_NS UINT64_C(1000000000)
#define CHURN_JOIN_TIMEOUT_NS UINT64_C(5000000000)

// What a process waits for.
enum churn_phase {
  CHURN_ABSENT,
  CHURN_OUTSIDE,
  CHURN_JOINING,
  CHURN_GREETING,
  CHURN_SUBMITTING,
  CHURN_RUNS,
  CHURN_CONTROL,
  CHURN_SYNC,
  CHURN_GROWING,
  CHURN_SHRINKING,
  CHURN_CLOSING,
  CHURN_PHASES
};

// What one process says, in memory that all share. Counters are of all processes of the slot.
struct churn_slot {
  pid_t pid;                    // 0: none
  uint32_t wants_in;            // the watcher's: 0: it leaves in order
  uint32_t founds;              // ... it makes the first job
  uint64_t put_out;             // ... the job that has put it out while it was stopped
  uint32_t is_voting;           // from the beginning of a vote until it is in the new job
  uint32_t phase;               // enum churn_phase
  uint64_t phase_ns;            // since when
  uint64_t job;                 // in which it is; 0: none
  uint32_t rank, ranks, rounds; // there
  uint64_t joins, votes, failed_votes, runs, fewer, failed_runs, elements, syncs, moved_bytes;
  uint64_t forks, restarts, compared, came_back, late_syncs;
};

// The members of a run, as each rank has found them: eight bits a rank.
struct churn_record {
  uint64_t key, value;
};

struct churn_story {
  uint32_t is_over;
  uint64_t job; // the newest: its number, and 32 random bits
  // The last time that a process was stopped or cut off; UINT64_MAX: one is.
  uint64_t disturbed_ns;
  uint32_t id_version;
  struct rondo_unique_id ids[CHURN_IDS]; // of newcomers, in turn
  uint64_t record_count;
  struct churn_slot slots[CHURN_SLOTS];
  struct churn_record records[]; // of runs and of synchronised states
};

extern struct churn_story *churn_story;

// A process of a slot.
struct churn_member {
  struct churn_slot *slot;
  uint32_t number; // of the slot
  uint64_t random;
  struct rondo_context ctx;
  struct rondo_collective colls[CHURN_COLLS], control;
  uint64_t *send[CHURN_COLLS], *recv[CHURN_COLLS];
  uint64_t job; // the last in which it was, or is
  uint32_t rank, ranks, round;
  uint32_t late_rounds; // done in a job that had put it out
  bool has_failed;      // a run or a synchronisation since the job began
  bool is_leaving;      // it has said so
  bool has_id;          // it keeps the newcomers
  struct rondo_unique_id id;
  struct rondo_state state;
  struct rondo_state_tensor tensors[2];
  char why[RONDO_REASON_BYTES];
};

// What the members of a round have agreed on.
struct churn_decision {
  uint32_t members; // a bit a rank
  uint64_t leaving; // a bit a rank
  uint64_t keepers; // a bit a rank
  uint64_t pending, failed;
};

// ---- churn_member.c ----

void churn_member_main(uint32_t slot, uint64_t seed);
void churn_phase_set(struct churn_member *m, uint32_t phase);
__attribute__((format(printf, 2, 3))) void churn_fail(const struct churn_member *m,
                                                      const char *format, ...);

// ---- churn_work.c ----

void churn_work_allocate(struct churn_member *m);
// Registers all collectives in the job of the context, and agrees on its number. RONDO_SUCCESS, or
// RONDO_ERR_PEER: a member has left meanwhile, or the others have put this one out.
int churn_work_begin(struct churn_member *m);
void churn_work_submit(struct churn_member *m);
void churn_work_finish(struct churn_member *m);
// What all say at the end of a round. RONDO_SUCCESS or RONDO_ERR_PEER.
int churn_work_agree(struct churn_member *m, struct churn_decision *out);
void churn_work_sync(struct churn_member *m);
// A number that all members of the round have in common.
uint64_t churn_work_common(const struct churn_member *m, uint64_t what);

#endif // RONDO_TESTS_INTEGRATION_CHURN_H
