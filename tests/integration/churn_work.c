// What a member does in a job: disordered runs, whose elements it checks, and a state that all
// members share.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "tests/integration/churn.h"
#include "tests/support/family.h"
#include "tests/support/job.h"

#define CONTROL_ID 1000u
#define CONTROL_WORDS 6u
#define GREETING_ID 1001u
// The explorer has less data.
#if !defined(CHURN_LARGE)
#define CHURN_LARGE 60000u
#define CHURN_STATE_COUNT (3 * RONDO_STATE_BLOCK_BYTES / 4 + 12345)
#endif
#define STATE_COUNTS                                                                               \
  { CHURN_STATE_COUNT, 77 }

static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

uint64_t churn_work_common(const struct churn_member *m, uint64_t what) {
  return mix(m->job + mix(m->round * UINT64_C(64) + what));
}

static uint32_t count_of(uint32_t coll) {
  return coll % CHURN_RETRIED == CHURN_RETRIED - 1 ? CHURN_LARGE
                                                   : 1 + coll * 911 % (CHURN_LARGE / 20);
}

static bool is_in_place(uint32_t coll, uint32_t round) { return (coll + round) % 2 == 0; }

static uint64_t base_of(const struct churn_member *m, uint32_t rank, uint32_t coll) {
  return churn_work_common(m, mix(rank * 1000 + coll));
}

#define STEP UINT64_C(0x9e3779b97f4a7c15) // from one element to the next

// -------------------------------------------------------------------- records ---

// The record of a key, or null if the table is full.
static struct churn_record *record_find(uint64_t key) {
  key |= 1; // never 0
  for (uint64_t i = 0; i < 64; i++) {
    struct churn_record *r = &churn_story->records[(mix(key) + i) % churn_story->record_count];
    if (rondo_try_swap_acq_rel_u64(&r->key, 0, key) || rondo_load_acquire_u64(&r->key) == key)
      return r;
  }
  return NULL;
}

// If each of two members has taken part in the other's result, both results are of the same
// members.
static void members_record(const struct churn_member *m, uint32_t coll, uint64_t bits) {
  struct churn_record *r = record_find(churn_work_common(m, 1u << 20 | coll));
  if (!r)
    return;
  uint64_t mine = bits << (8 * m->rank);
  uint64_t all = __atomic_or_fetch(&r->value, mine, __ATOMIC_ACQ_REL);
  for (uint32_t other = 0; other < 8; other++) {
    uint64_t theirs = all >> (8 * other) & 255;
    if (!theirs || other == m->rank)
      continue;
    m->slot->compared++;
    if ((bits >> other & 1) && (theirs >> m->rank & 1) && theirs != bits)
      churn_fail(m, "run %u of collective %u is of the ranks 0x%x here, 0x%x on rank %u", m->round,
                 coll, (unsigned)bits, (unsigned)theirs, other);
  }
}

// All members have the same after a synchronisation.
static void state_record(const struct churn_member *m, uint64_t hash) {
  struct churn_record *r = record_find(churn_work_common(m, 2u << 20));
  if (!r || rondo_try_swap_acq_rel_u64(&r->value, 0, hash | 1))
    return;
  m->slot->compared++;
  if (rondo_load_acquire_u64(&r->value) != (hash | 1))
    churn_fail(m, "the state of round %u differs from that of another member", m->round);
}

// ----------------------------------------------------------------------- runs ---

static void work_register(struct churn_member *m, struct rondo_collective_desc d, bool is_retried,
                          struct rondo_collective *coll) {
  d.on_loss = is_retried ? RONDO_ON_LOSS_RETRY : RONDO_ON_LOSS_FAIL;
  RONDO_MEMBER_STATUS(rondo_register(m->ctx, &d, coll), RONDO_SUCCESS);
}

void churn_work_allocate(struct churn_member *m) {
  static const uint64_t counts[2] = STATE_COUNTS;
  static const char *const names[2] = {"weights", "steps"};
  for (uint32_t k = 0; k < CHURN_COLLS; k++) {
    m->send[k] = calloc(count_of(k), sizeof **m->send);
    m->recv[k] = calloc(count_of(k), sizeof **m->recv);
    RONDO_MEMBER_TRUE(m->send[k] && m->recv[k]);
  }
  m->state = (struct rondo_state)RONDO_STATE_INIT;
  for (uint32_t t = 0; t < 2; t++) {
    m->tensors[t] = (struct rondo_state_tensor){names[t], calloc(counts[t], sizeof(uint32_t)),
                                                counts[t], RONDO_UINT32};
    RONDO_MEMBER_TRUE(m->tensors[t].memory != NULL);
  }
  m->state.tensors = m->tensors;
  m->state.tensor_count = 2;
}

void churn_work_submit(struct churn_member *m) {
  uint32_t order[CHURN_COLLS];
  churn_phase_set(m, CHURN_SUBMITTING);
  rondo_test_shuffle(order, CHURN_COLLS, &m->random);
  for (uint32_t n = 0; n < CHURN_COLLS; n++) {
    uint32_t k = order[n];
    uint64_t *recv = is_in_place(k, m->round) ? m->send[k] : m->recv[k];
    uint64_t value = base_of(m, m->rank, k);
    for (uint32_t i = 0; i < count_of(k); i++, value += STEP)
      m->send[k][i] = value;
    RONDO_MEMBER_STATUS(rondo_run(m->ctx, m->colls[k], m->send[k], recv, NULL, NULL),
                        RONDO_SUCCESS);
  }
}

// A run may fail only if a rank is gone, or this one has lost its job.
static void failure_check(struct churn_member *m, uint32_t coll, int status) {
  uint32_t waiting = 0;
  (void)rondo_reason(m->ctx, m->colls[coll], m->why, sizeof m->why);
  if (status != RONDO_ERR_PEER)
    churn_fail(m, "run %u of collective %u: %s: %s", m->round, coll, rondo_status_name(status),
               m->why);
  m->has_failed = true;
  m->slot->failed_runs++;
  for (uint32_t i = 0; i < 3000; i++) {
    const struct timespec brief = {0, 1000000};
    status = rondo_wait_gone(m->ctx, 0, NULL, 0, &waiting);
    if (status == RONDO_SUCCESS || waiting < m->ranks - 1)
      return;
    nanosleep(&brief, NULL);
  }
  churn_fail(m, "run %u of collective %u has failed, but nobody is gone: %s", m->round, coll,
             m->why);
}

static void result_check(struct churn_member *m, uint32_t coll) {
  uint32_t ranks[CHURN_SLOTS];
  uint32_t count = 0;
  uint64_t bits = 0;
  uint64_t sum = 0;
  const uint64_t *got = is_in_place(coll, m->round) ? m->send[coll] : m->recv[coll];
  RONDO_MEMBER_STATUS(
      rondo_run_members(m->ctx, m->colls[coll], RONDO_LAST_RUN, ranks, CHURN_SLOTS, &count),
      RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(count <= m->ranks);
  for (uint32_t i = 0; i < count; i++) {
    bits |= UINT64_C(1) << ranks[i];
    sum += base_of(m, ranks[i], coll);
  }
  RONDO_MEMBER_TRUE(bits >> m->rank & 1);
  RONDO_MEMBER_TRUE(count == m->ranks || coll < CHURN_RETRIED);
  for (uint32_t i = 0; i < count_of(coll); i++)
    if (got[i] != sum + i * (count * STEP))
      churn_fail(m, "run %u of collective %u of %u ranks: element %u is wrong", m->round, coll,
                 count, i);
  m->slot->runs++;
  m->slot->fewer += count < m->ranks;
  m->slot->elements += count_of(coll);
  members_record(m, coll, bits);
}

void churn_work_finish(struct churn_member *m) {
  uint32_t order[CHURN_COLLS];
  churn_phase_set(m, CHURN_RUNS);
  rondo_test_shuffle(order, CHURN_COLLS, &m->random);
  for (uint32_t n = 0; n < CHURN_COLLS; n++) {
    uint32_t k = order[n];
    int status = rondo_wait(m->ctx, m->colls[k], RONDO_LAST_RUN, CHURN_WAIT_NS);
    if (status == RONDO_SUCCESS)
      result_check(m, k);
    else
      failure_check(m, k, status);
  }
}

// -------------------------------------------------------------- what all agree on ---

int churn_work_agree(struct churn_member *m, struct churn_decision *out) {
  uint64_t words[CONTROL_WORDS] = {0};
  uint32_t ranks[CHURN_SLOTS];
  uint32_t count = 0;
  uint32_t waiting = 0;
  const uint64_t own = UINT64_C(1) << m->rank;
  churn_phase_set(m, CHURN_CONTROL);
  if (m->has_id && rondo_pending(&m->id, &waiting) != RONDO_SUCCESS)
    m->has_id = false;
  m->is_leaving = !rondo_load_acquire_u32(&m->slot->wants_in);
  words[0] = own;
  words[1] = m->is_leaving ? own : 0;
  words[2] = m->has_id ? own : 0;
  words[3] = m->has_id ? waiting : 0;
  words[4] = m->has_failed;
  RONDO_MEMBER_STATUS(rondo_run(m->ctx, m->control, words, words, NULL, NULL), RONDO_SUCCESS);
  int status = rondo_wait(m->ctx, m->control, RONDO_LAST_RUN, CHURN_WAIT_NS);
  if (status == RONDO_ERR_PEER)
    return status;
  RONDO_MEMBER_STATUS(status, RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(
      rondo_run_members(m->ctx, m->control, RONDO_LAST_RUN, ranks, CHURN_SLOTS, &count),
      RONDO_SUCCESS);
  *out = (struct churn_decision){0, words[1], words[2], words[3], words[4]};
  for (uint32_t i = 0; i < count; i++)
    out->members |= 1u << ranks[i];
  if (words[0] != out->members)
    churn_fail(m, "round %u is of the ranks 0x%x, its sum of 0x%x", m->round, out->members,
               (unsigned)words[0]);
  members_record(m, CHURN_COLLS, out->members);
  return RONDO_SUCCESS;
}

// The number of a job is one more than that of the last job of its members. If another job has it
// already, this one is a fork: true.
static bool job_is_fork(struct churn_member *m, uint64_t last, uint64_t nonce) {
  uint64_t next = ((last >> 32) + 1) << 32 | nonce;
  m->job = next;
  if (rondo_try_swap_acq_rel_u64(&churn_story->job, last, next))
    return false;
  return rondo_load_acquire_u64(&churn_story->job) != next;
}

int churn_work_begin(struct churn_member *m) {
  struct rondo_collective greeting;
  uint64_t words[2] = {m->job, (uint32_t)rondo_test_random(&m->random)};
  churn_phase_set(m, CHURN_GREETING);
  RONDO_MEMBER_STATUS(rondo_describe_rank(m->ctx, &m->rank, &m->ranks), RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(m->ranks <= CHURN_SLOTS);
  work_register(m, rondo_all_reduce(GREETING_ID, 2, RONDO_UINT64, RONDO_MAX), true, &greeting);
  work_register(m, rondo_all_reduce(CONTROL_ID, CONTROL_WORDS, RONDO_UINT64, RONDO_SUM), true,
                &m->control);
  uint32_t order[CHURN_COLLS];
  rondo_test_shuffle(order, CHURN_COLLS, &m->random);
  for (uint32_t n = 0; n < CHURN_COLLS; n++) {
    uint32_t k = order[n];
    work_register(m, rondo_all_reduce(k, count_of(k), RONDO_UINT64, RONDO_SUM), k < CHURN_RETRIED,
                  &m->colls[k]);
  }
  m->round = 0;
  m->has_failed = false;
  m->is_leaving = false;
  RONDO_MEMBER_STATUS(rondo_run(m->ctx, greeting, words, words, NULL, NULL), RONDO_SUCCESS);
  int status = rondo_wait(m->ctx, greeting, RONDO_LAST_RUN, CHURN_WAIT_NS);
  if (status == RONDO_ERR_PEER)
    return status;
  RONDO_MEMBER_STATUS(status, RONDO_SUCCESS);
  if (job_is_fork(m, words[0], words[1])) {
    m->slot->forks++;
    return RONDO_ERR_ABORTED;
  }
  m->slot->rank = m->rank;
  m->slot->ranks = m->ranks;
  rondo_store_release_u32(&m->slot->rounds, 0);
  rondo_store_release_u64(&m->slot->job, m->job);
  return RONDO_SUCCESS;
}

// ---------------------------------------------------------------------- the state ---

static uint64_t state_hash(const struct churn_member *m) {
  uint64_t hash = m->state.revision;
  for (uint32_t t = 0; t < 2; t++) {
    const uint32_t *words = m->tensors[t].memory;
    for (uint64_t i = 0; i < m->tensors[t].count; i++)
      hash = (hash ^ words[i]) * UINT64_C(0x100000001b3);
  }
  return hash;
}

// All members change the state alike, sometimes; a member now and then damages its own.
static void state_change(struct churn_member *m) {
  uint32_t *weights = m->tensors[0].memory;
  uint32_t *steps = m->tensors[1].memory;
  uint64_t common = churn_work_common(m, 3u << 20);
  if (common % 4) {
    for (uint64_t i = common % 97; i < m->tensors[0].count; i += 97)
      weights[i] += (uint32_t)common;
    steps[0]++;
  }
  if (m->rank && rondo_test_random(&m->random) % 8 == 0)
    weights[rondo_test_random(&m->random) % m->tensors[0].count] ^= 1;
}

static void state_start_anew(struct churn_member *m) {
  m->state.is_partial = 0;
  m->state.revision = 0;
  m->state.digest = 0;
}

// True if a process was stopped or cut off after `since_ns`, or so shortly before that members may
// not have known yet whom that has cost the job.
static bool was_disturbed(uint64_t since_ns) {
  uint64_t last_ns = rondo_load_acquire_u64(&churn_story->disturbed_ns);
  return last_ns && (last_ns >= since_ns || since_ns - last_ns < CHURN_GONE_MS * UINT64_C(1000000));
}

void churn_work_sync(struct churn_member *m) {
  struct rondo_state_report report;
  uint64_t begin_ns = rondo_now_ns();
  uint32_t waiting = 0;
  if (m->round)
    state_change(m);
  churn_phase_set(m, CHURN_SYNC);
  int status = rondo_state_sync(m->ctx, &m->state, CHURN_SYNC_NS, &report, m->why);
  if (status == RONDO_SUCCESS) {
    m->slot->syncs++;
    m->slot->moved_bytes += report.received_bytes;
    state_record(m, state_hash(m));
    return;
  }
  m->has_failed = true;
  if (status == RONDO_ERR_MISMATCH) { // nobody has a whole one any more
    m->slot->restarts++;
    state_start_anew(m);
    return;
  }
  // A member that was stopped, or is cut off, may learn what that has cost later than this. Any
  // other one must not be late.
  bool is_late = status == RONDO_ERR_TIMEOUT || status == RONDO_ERR_ABORTED;
  m->slot->late_syncs += is_late;
  if (is_late)
    fprintf(stderr, "churn: slot %u, rank %u of %u of job %u, round %u: late: %s: %s\n", m->number,
            m->rank, m->ranks, (unsigned)(m->job >> 32), m->round, rondo_status_name(status),
            m->why);
  if (status != RONDO_ERR_PEER && !(is_late && was_disturbed(begin_ns)))
    churn_fail(m, "the state of round %u: %s: %s", m->round, rondo_status_name(status), m->why);
  for (uint32_t i = 0; i <= (is_late ? CHURN_GONE_MS : 0); i++) {
    const struct timespec brief = {0, 1000000};
    status = rondo_wait_gone(m->ctx, 0, NULL, 0, &waiting);
    if (status == RONDO_SUCCESS || waiting < m->ranks - 1)
      break;
    nanosleep(&brief, NULL);
  }
  if (status != RONDO_SUCCESS && waiting >= m->ranks - 1 && !is_late)
    churn_fail(m, "the synchronisation of round %u has failed, but nobody is gone: %s", m->round,
               m->why);
}
