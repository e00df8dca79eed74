// The life of a process: it joins the job, works, votes when the members have agreed to, leaves in
// order or is put out, and joins again.
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "tests/integration/churn.h"
#include "tests/support/family.h"
#include "tests/support/job.h"
#include "tests/support/processes.h"

#define SYNC_ROUNDS 8u // from one synchronisation to the next
#define SETTLE 10000u  // milliseconds until nothing is left of a job
#define SLACK_BYTES 400000u
#define SLACK_BYTES_A_STAY 4000u

struct churn_story *churn_story;

static void pause_briefly(void) {
  const struct timespec brief = {0, 1000000};
  nanosleep(&brief, NULL);
}

void churn_phase_set(struct churn_member *m, uint32_t phase) {
  rondo_store_release_u64(&m->slot->phase_ns, rondo_now_ns());
  rondo_store_release_u32(&m->slot->phase, phase);
}

void churn_fail(const struct churn_member *m, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): clang 14 does not see the va_start
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "churn: FAILED: process %d of slot %u, rank %u of %u of job %u: %s\n",
          (int)getpid(), m->number, m->rank, m->ranks, (unsigned)(m->job >> 32), text);
  _exit(1);
}

static struct rondo_config member_config(void) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.peer_timeout_ns = CHURN_PEER_TIMEOUT_NS;
  cfg.join_timeout_ns = CHURN_JOIN_TIMEOUT_NS;
  return cfg;
}

// ---------------------------------------------------------------- the newcomers' id ---

static void id_tell(const struct churn_member *m) {
  uint32_t version = rondo_load_acquire_u32(&churn_story->id_version) + 1;
  churn_story->ids[version % CHURN_IDS] = m->id;
  rondo_store_release_u32(&churn_story->id_version, version);
}

static void id_make(struct churn_member *m) {
  const struct rondo_config cfg = member_config();
  RONDO_MEMBER_STATUS(rondo_grow_listen(&m->id, &cfg), RONDO_SUCCESS);
  m->has_id = true;
  id_tell(m);
}

// The newest id that was told may be of a process that was put out since.
static void id_tell_again(const struct churn_member *m) {
  uint32_t version = rondo_load_acquire_u32(&churn_story->id_version);
  if (m->has_id && memcmp(&churn_story->ids[version % CHURN_IDS], &m->id, sizeof m->id) != 0)
    id_tell(m);
}

static void id_end(struct churn_member *m) {
  if (m->has_id)
    (void)rondo_grow_close(&m->id);
  m->has_id = false;
}

// ------------------------------------------------------------------ in and out ---

static void member_close(struct churn_member *m, int how) {
  churn_phase_set(m, CHURN_CLOSING);
  int status = rondo_destroy(m->ctx, how, CHURN_WAIT_NS);
  if (status != RONDO_SUCCESS)
    churn_fail(m, "rondo_destroy: %s", rondo_status_name(status));
}

// Returns false if the process is not to join any more.
static bool member_join(struct churn_member *m) {
  struct rondo_config cfg = member_config();
  if (rondo_exchange_acq_rel_u32(&m->slot->founds, 0)) {
    m->job = rondo_load_acquire_u64(&churn_story->job);
    RONDO_MEMBER_STATUS(rondo_init(&m->ctx, &cfg), RONDO_SUCCESS);
    id_make(m);
    return true;
  }
  churn_phase_set(m, CHURN_JOINING);
  uint32_t version = rondo_load_acquire_u32(&churn_story->id_version);
  if (!version) {
    pause_briefly();
    return false;
  }
  cfg.id = churn_story->ids[version % CHURN_IDS];
  m->job = 0;
  int status = rondo_join(&m->ctx, &cfg, CHURN_JOIN_NS, m->why);
  if (status == RONDO_SUCCESS) {
    m->slot->joins++;
    m->slot->came_back += rondo_exchange_acq_rel_u64(&m->slot->put_out, 0) != 0;
    return true;
  }
  if (status != RONDO_ERR_PEER && status != RONDO_ERR_TIMEOUT)
    churn_fail(m, "rondo_join: %s: %s", rondo_status_name(status), m->why);
  pause_briefly();
  return false;
}

// ------------------------------------------------------------------------- votes ---

static int vote_once(struct churn_member *m, bool grows, uint64_t leaving,
                     struct rondo_context *next) {
  uint32_t excluded[CHURN_SLOTS];
  uint32_t count = 0;
  for (uint32_t r = 0; r < m->ranks; r++)
    if (leaving >> r & 1)
      excluded[count++] = r;
  churn_phase_set(m, grows ? CHURN_GROWING : CHURN_SHRINKING);
  return grows ? rondo_grow(m->ctx, m->has_id ? &m->id : NULL, RONDO_ALL_PENDING, CHURN_VOTE_NS,
                            next, m->why)
               : rondo_shrink(m->ctx, excluded, count, CHURN_VOTE_NS, next, m->why);
}

// Votes until there is a new job. Returns false if the member has to join anew.
static bool member_vote(struct churn_member *m, bool grows, uint64_t leaving,
                        struct rondo_context *next) {
  uint64_t end_ns = rondo_now_ns() + CHURN_REJOIN_NS;
  for (uint32_t i = 0; i < 8 && rondo_now_ns() < end_ns; i++) {
    int status = vote_once(m, grows && i == 0, leaving, next);
    if (status == RONDO_SUCCESS) {
      m->slot->votes++;
      return true;
    }
    m->slot->failed_votes++;
    fprintf(stderr, "churn: slot %u, rank %u of %u of job %u: vote %u: %s: %s\n", m->number,
            m->rank, m->ranks, (unsigned)(m->job >> 32), i, rondo_status_name(status), m->why);
    if (status != RONDO_ERR_PEER && status != RONDO_ERR_TIMEOUT && status != RONDO_ERR_ABORTED &&
        status != RONDO_ERR_MISMATCH && status != RONDO_IN_PROGRESS)
      churn_fail(m, "the vote: %s: %s", rondo_status_name(status), m->why);
  }
  return false;
}

// Moves to the job of a vote. Returns false if it is too small.
static bool member_move(struct churn_member *m, struct rondo_context next) {
  uint32_t ranks = 0;
  RONDO_MEMBER_STATUS(rondo_describe_rank(next, NULL, &ranks), RONDO_SUCCESS);
  if (m->job && rondo_load_acquire_u64(&m->slot->put_out) == m->job)
    churn_fail(m, "it was put out, and a vote gives it a job of %u", ranks);
  member_close(m, RONDO_DESTROY_DRAIN);
  m->ctx = next;
  return ranks >= CHURN_LEAST;
}

// ------------------------------------------------------------------------ a job ---

// A round of runs, and what all agree on after it. RONDO_SUCCESS or RONDO_ERR_PEER.
static int member_round(struct churn_member *m, struct churn_decision *d) {
  churn_work_submit(m);
  churn_work_finish(m);
  int status = churn_work_agree(m, d);
  if (status != RONDO_SUCCESS)
    return status;
  rondo_store_release_u32(&m->slot->rounds, ++m->round);
  if (rondo_load_acquire_u64(&m->slot->put_out) == m->job && ++m->late_rounds > 1)
    churn_fail(m, "it was put out, and does round %u with others", m->round);
  if (m->has_id && (d->keepers & (d->keepers - 1)) && d->keepers & ((UINT64_C(1) << m->rank) - 1))
    id_end(m); // one of a lower rank has one, too
  if (!d->keepers && (d->members & ((1u << m->rank) - 1)) == 0 && !m->is_leaving)
    id_make(m);
  if (m->round % SYNC_ROUNDS == 0) {
    id_tell_again(m);
    churn_work_sync(m);
  }
  return status;
}

static bool vote_is_due(const struct churn_member *m, const struct churn_decision *d) {
  bool has_lost = d->failed || d->members != (1u << m->ranks) - 1;
  return d->leaving || (d->keepers && d->pending) ||
         (has_lost && churn_work_common(m, 4u << 20) % 8 == 0);
}

// Goes from a job to the next one: true; or false, out of it.
static bool member_change(struct churn_member *m, int status, const struct churn_decision *d) {
  struct rondo_context next;
  bool is_agreed = status == RONDO_SUCCESS;
  bool runs_meanwhile = is_agreed && !d->leaving && churn_work_common(m, 5u << 20) % 2;
  if (is_agreed && d->leaving) {
    // After the next round all know who leaves.
    struct churn_decision again;
    is_agreed = churn_work_agree(m, &again) == RONDO_SUCCESS;
    if (d->leaving >> m->rank & 1)
      return false;
  }
  rondo_store_release_u32(&m->slot->is_voting, 1);
  if (runs_meanwhile)
    churn_work_submit(m);
  bool has_next =
      member_vote(m, is_agreed && !d->leaving && d->pending, is_agreed ? d->leaving : 0, &next);
  if (runs_meanwhile)
    churn_work_finish(m);
  bool is_in = has_next && member_move(m, next);
  m->late_rounds = 0;
  return is_in;
}

static void member_live(struct churn_member *m) {
  bool is_in = true;
  while (is_in) {
    struct churn_decision d = {0};
    int status = churn_work_begin(m);
    rondo_store_release_u32(&m->slot->is_voting, 0);
    if (status == RONDO_SUCCESS)
      churn_work_sync(m);
    while (status == RONDO_SUCCESS) {
      status = member_round(m, &d);
      if (status == RONDO_SUCCESS && vote_is_due(m, &d))
        break;
    }
    is_in = status != RONDO_ERR_ABORTED && member_change(m, status, &d);
  }
  rondo_store_release_u64(&m->slot->job, 0);
  member_close(m, m->is_leaving ? RONDO_DESTROY_DRAIN : RONDO_DESTROY_ABORT);
  id_end(m);
}

// ----------------------------------------------------------------------- leaks ---

struct possessions {
  struct rondo_belongings things;
  size_t bytes;
};

static bool possessions_exceed(const struct possessions *p, const struct possessions *warm,
                               uint32_t stays) {
  return p->things.descriptors > warm->things.descriptors ||
         p->things.threads > warm->things.threads ||
         p->bytes > warm->bytes + SLACK_BYTES + (size_t)stays * SLACK_BYTES_A_STAY;
}

// Between two stays in jobs, a process owns what it owned after the second one.
static void leaks_check(const struct churn_member *m, uint32_t stays, struct possessions *warm) {
  struct possessions now;
  for (uint32_t i = 0; i < SETTLE; i++) {
    now = (struct possessions){rondo_belongings_count(), mallinfo2().uordblks};
    if (stays == 2)
      *warm = now;
    if (stays <= 2 || !possessions_exceed(&now, warm, stays))
      return;
    pause_briefly();
  }
  churn_fail(m, "after %u stays: descriptors %u -> %u, threads %u -> %u, heap %zu -> %zu bytes",
             stays, warm->things.descriptors, now.things.descriptors, warm->things.threads,
             now.things.threads, warm->bytes, now.bytes);
}

void churn_member_main(uint32_t slot, uint64_t seed) {
  struct churn_member m = {.slot = &churn_story->slots[slot], .number = slot, .random = seed};
  struct possessions warm = {.bytes = 0};
  uint32_t stays = 0;
  rondo_test_child_begin();
  churn_work_allocate(&m);
  while (!rondo_load_acquire_u32(&churn_story->is_over)) {
    churn_phase_set(&m, CHURN_OUTSIDE);
    if (!rondo_load_acquire_u32(&m.slot->wants_in)) {
      pause_briefly();
      continue;
    }
    if (!member_join(&m))
      continue;
    member_live(&m);
    leaks_check(&m, ++stays, &warm);
  }
  _exit(0);
}
