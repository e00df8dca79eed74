#include "runtime/links/link_rates.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/job/processes.h"
#include "runtime/links/ring_order.h"
#include "runtime/links/spread.h"
#include "runtime/rank/rank.h"
#include "runtime/state/state_meeting.h"

#define FIRST_BYTES (UINT64_C(64) << 10)
#define MOST_BYTES (UINT64_C(4) << 20)
#define TRIAL_NS UINT64_C(20000000) // that the data of a trial take, if they are at most MOST_BYTES
#define SECOND_NS UINT64_C(1000000000)
#define SPREAD_BYTES (UINT64_C(256) << 10) // at least: a slot that has a piece for each connection

static_assert(1u << (RONDO_SPREADS - 1) == RONDO_MAX_ENDPOINTS,
              "all numbers of connections are tried");

struct measuring {
  struct rondo_meeting meeting;
  uint32_t count, self;
  uint32_t *first;   // of each member: the first one in its process, which measures for the others
  char *send, *recv; // MOST_BYTES each
  // Count rows of count: to this member from each, in row `self`; then of all.
  uint64_t *rates, *spreads; // `spreads`: over how many connections
};

static int measuring_refuse(const struct measuring *m, int status, const char *reason) {
  (void)snprintf(m->meeting.why, RONDO_REASON_BYTES, "%s", reason);
  return status;
}

// Whom member `self` of `count` is paired with in a round, or `count` for nobody: the rounds of a
// tournament in which each meets each once. There are (count - 1) | 1 rounds.
static uint32_t partner_of(uint32_t self, uint32_t count, uint32_t round) {
  uint32_t last = (count - 1) | 1; // this member stays in its place; it may be nobody
  uint32_t partner = (round + last - self % last) % last;
  if (self == last)
    return (uint32_t)((uint64_t)round * ((last + 1) / 2) % last);
  if (partner == self)
    partner = last;
  return partner < count ? partner : count;
}

// Sends `bytes` to a partner and receives `recv_bytes` from it, at the same time. `recv_ns` gets
// how long that took the received ones.
static int pair_exchange(const struct measuring *m, uint32_t partner, uint64_t bytes,
                         uint64_t recv_bytes, uint64_t *recv_ns) {
  const struct rondo_meeting *meeting = &m->meeting;
  struct rondo_collective_desc out = rondo_send_recv(0, bytes, RONDO_UINT8, m->self, partner);
  struct rondo_collective_desc in = rondo_send_recv(0, recv_bytes, RONDO_UINT8, partner, m->self);
  const struct rondo_run_args send = {m->send, NULL, NULL, NULL};
  const struct rondo_run_args recv = {NULL, m->recv, NULL, NULL};
  struct rondo_ticket tickets[2];
  uint64_t began_ns = rondo_now_ns();
  int status = rondo_meeting_call(meeting, meeting->exchange, &out, &send, &tickets[0]);
  if (status == RONDO_SUCCESS)
    status = rondo_meeting_call(meeting, meeting->exchange, &in, &recv, &tickets[1]);
  if (status == RONDO_SUCCESS)
    status = rondo_meeting_wait(meeting, meeting->exchange, &tickets[1]);
  *recv_ns = rondo_now_ns() - began_ns;
  return status == RONDO_SUCCESS ? rondo_meeting_wait(meeting, meeting->exchange, &tickets[0])
                                 : status;
}

// Tells a number to a partner and gets its number. Both leave at about the same time.
static int pair_tell(const struct measuring *m, uint32_t partner, uint64_t told, uint64_t *heard) {
  uint64_t ns;
  memcpy(m->send, &told, sizeof told);
  int status = pair_exchange(m, partner, sizeof told, sizeof told, &ns);
  memcpy(heard, m->recv, sizeof *heard);
  return status;
}

// A trial: moves so many bytes to and from a partner. `rate` gets that of the received ones. The
// first exchange of a size also makes its connections, so the second one counts.
static int pair_try(const struct measuring *m, uint32_t partner, uint64_t bytes,
                    uint64_t recv_bytes, uint64_t *rate) {
  uint64_t ns = 0;
  uint64_t heard;
  int status = RONDO_SUCCESS;
  for (uint32_t i = 0; i < 2 && status == RONDO_SUCCESS; i++) {
    status = pair_tell(m, partner, i, &heard);
    if (status == RONDO_SUCCESS)
      status = pair_exchange(m, partner, bytes, recv_bytes, &ns);
  }
  *rate = recv_bytes * SECOND_NS / (ns ? ns : 1);
  return status;
}

// So many bytes take about TRIAL_NS; a power of two, so that few sizes are in use.
static uint64_t trial_bytes(uint64_t rate) {
  uint64_t bytes = FIRST_BYTES;
  while (bytes < MOST_BYTES && bytes * 2 <= rate * TRIAL_NS / SECOND_NS)
    bytes *= 2;
  return bytes;
}

// ------------------------------------------------------------------- connections ---

// Sets over how many connections this process sends to that of a member; 0: keeps the number.
static uint32_t member_spread(const struct measuring *m, uint32_t member, uint32_t endpoints) {
  struct rondo_rank *rank = m->meeting.rank;
  pthread_mutex_lock(&rank->job->lock);
  uint32_t now =
      rondo_processes_spread(rank->job, &rank->member, m->meeting.voters.ranks[member], endpoints);
  pthread_mutex_unlock(&rank->job->lock);
  return now;
}

static void firsts_find(const struct measuring *m) {
  struct rondo_job *job = m->meeting.rank->job;
  const uint32_t *ranks = m->meeting.voters.ranks;
  pthread_mutex_lock(&job->lock);
  for (uint32_t i = 0; i < m->count && job->membership; i++)
    while (rondo_processes_where(job, ranks[m->first[i]]) != rondo_processes_where(job, ranks[i]))
      m->first[i]++;
  pthread_mutex_unlock(&job->lock);
}

// Tries numbers of connections both ways: 1 and 4, then 2, 8 and 16, unless 4 are less than a tenth
// faster than 1 in both directions. Not 2 first: two connections may share what is to be shared
// out. `rates` gets the rates of the received bytes, 0 for what was not tried; `rates[0]` has that
// of 1 connection if it is known.
static int spreads_try(const struct measuring *m, uint32_t partner, uint64_t bytes,
                       uint64_t recv_bytes, uint64_t rates[RONDO_SPREADS]) {
  static const uint8_t order[RONDO_SPREADS] = {0, 2, 1, 3, 4};
  uint64_t heard = 0;
  int status = RONDO_SUCCESS;
  for (uint32_t i = rates[0] != 0; i < RONDO_SPREADS && status == RONDO_SUCCESS; i++) {
    (void)member_spread(m, partner, 1u << order[i]);
    status = pair_try(m, partner, bytes, recv_bytes, &rates[order[i]]);
    bool goes_on = i != 1 || rondo_spread_goes_on(rates);
    if (status == RONDO_SUCCESS && i == 1)
      status = pair_tell(m, partner, goes_on, &heard);
    if (!goes_on && !heard)
      break;
  }
  return status;
}

// Chooses the number of connections over which the partner sends, and tells it. It does the same.
static int spread_agree(const struct measuring *m, uint32_t partner, const uint64_t *rates) {
  size_t at = (size_t)m->self * m->count + partner;
  uint32_t chosen = rondo_spread_choose(rates);
  uint64_t heard = 0;
  m->rates[at] = rates[chosen];
  m->spreads[at] = UINT64_C(1) << chosen;
  int status = pair_tell(m, partner, m->spreads[at], &heard);
  if (status == RONDO_SUCCESS && (!heard || heard > RONDO_MAX_ENDPOINTS))
    status = measuring_refuse(m, RONDO_ERR_INTERNAL, "a rank asks for too many connections");
  if (status == RONDO_SUCCESS)
    (void)member_spread(m, partner, (uint32_t)heard);
  return status;
}

// Finds how many connections to use between the processes of two members that the network joins.
static int pair_spread(const struct measuring *m, uint32_t partner, uint64_t bytes,
                       uint64_t recv_bytes) {
  size_t at = (size_t)m->self * m->count + partner;
  uint32_t before = member_spread(m, partner, 0);
  bool is_due = before && m->first[m->self] == m->self && m->first[partner] == partner &&
                rondo_spread_is_due(m->rates[at]);
  uint64_t rates[RONDO_SPREADS] = {0};
  uint64_t heard = 0;
  int status = pair_tell(m, partner, (uint64_t)before << 1 | is_due, &heard);
  m->spreads[at] = heard >> 1;
  if (status != RONDO_SUCCESS || !is_due || !(heard & 1))
    return status;
  if (before == 1 && heard >> 1 == 1 && bytes >= SPREAD_BYTES && recv_bytes >= SPREAD_BYTES)
    rates[0] = m->rates[at]; // both have just measured it
  status = spreads_try(m, partner, bytes > SPREAD_BYTES ? bytes : SPREAD_BYTES,
                       recv_bytes > SPREAD_BYTES ? recv_bytes : SPREAD_BYTES, rates);
  if (status == RONDO_SUCCESS)
    status = spread_agree(m, partner, rates);
  if (status != RONDO_SUCCESS)
    (void)member_spread(m, partner, before);
  return status;
}

// Measures how fast this member receives from a partner, and the partner from this one.
static int pair_measure(const struct measuring *m, uint32_t partner) {
  uint64_t *rate = &m->rates[(size_t)m->self * m->count + partner];
  uint64_t bytes = FIRST_BYTES; // that the partner asks for
  int status = pair_try(m, partner, FIRST_BYTES, FIRST_BYTES, rate);
  uint64_t wanted = trial_bytes(*rate);
  if (status == RONDO_SUCCESS)
    status = pair_tell(m, partner, wanted, &bytes);
  if (status == RONDO_SUCCESS && (bytes < FIRST_BYTES || bytes > MOST_BYTES))
    return measuring_refuse(m, RONDO_ERR_INTERNAL, "a rank asks for a trial of a wrong size");
  if (status == RONDO_SUCCESS && (wanted > FIRST_BYTES || bytes > FIRST_BYTES))
    status = pair_try(m, partner, bytes, wanted, rate);
  return status == RONDO_SUCCESS ? pair_spread(m, partner, bytes, wanted) : status;
}

static int rounds_measure(const struct measuring *m) {
  int status = RONDO_SUCCESS;
  for (uint32_t round = 0; round < ((m->count - 1) | 1) && status == RONDO_SUCCESS; round++) {
    uint32_t partner = partner_of(m->self, m->count, round);
    if (partner < m->count)
      status = pair_measure(m, partner);
  }
  return status;
}

// Gathers all rows. A row has what a member receives; afterwards it has what it sends.
static int rows_gather(const struct measuring *m, uint64_t *rows) {
  const struct rondo_collective_desc what = rondo_all_gather(0, m->count, RONDO_UINT64);
  int status = rondo_meeting_run(&m->meeting, m->meeting.control, &what,
                                 rows + (size_t)m->self * m->count, rows);
  for (size_t i = 0; i < m->count; i++)
    for (size_t j = 0; j < i; j++) {
      uint64_t rate = rows[i * m->count + j];
      rows[i * m->count + j] = rows[j * m->count + i];
      rows[j * m->count + i] = rate;
    }
  return status;
}

// Measures all links. All members come out with the same rates, or with an error.
static int measuring_run(struct measuring *m) {
  m->first = calloc(m->count, sizeof *m->first);
  m->send = calloc(1, MOST_BYTES);
  m->recv = calloc(1, MOST_BYTES);
  m->rates = calloc((size_t)m->count * m->count, sizeof *m->rates);
  m->spreads = calloc((size_t)m->count * m->count, sizeof *m->spreads);
  if (!m->first || !m->send || !m->recv || !m->rates || !m->spreads)
    return measuring_refuse(m, RONDO_ERR_NO_MEMORY, "no memory to measure links");
  if (m->count == 1)
    return RONDO_SUCCESS;
  firsts_find(m);
  int status = rondo_meeting_open_exchange(&m->meeting);
  if (status != RONDO_SUCCESS)
    return measuring_refuse(m, status, rondo_status_string(status));
  // Together, so that none is measured while another one is still on its way.
  const struct rondo_collective_desc barrier = rondo_barrier(0);
  status = rondo_meeting_run(&m->meeting, m->meeting.control, &barrier, NULL, NULL);
  if (status == RONDO_SUCCESS)
    status = rounds_measure(m);
  if (status == RONDO_SUCCESS)
    status = rows_gather(m, m->rates);
  return status == RONDO_SUCCESS ? rows_gather(m, m->spreads) : status;
}

// ------------------------------------------------------------------------- results ---

static int links_fill(const struct measuring *m, struct rondo_links *links) {
  const uint32_t *members = m->meeting.voters.ranks;
  links->count = m->count;
  if (m->count > links->capacity)
    return measuring_refuse(m, RONDO_ERR_FULL, "more ranks than there is room for");
  uint32_t *order = malloc(m->count * sizeof *order);
  if (!order || rondo_ring_order(m->rates, m->count, order) != RONDO_SUCCESS) {
    free(order);
    return measuring_refuse(m, RONDO_ERR_NO_MEMORY, "no memory to order the ranks");
  }
  links->ring_rate = rondo_ring_rate(m->rates, m->count, order);
  for (uint32_t i = 0; i < m->count; i++)
    links->ranks[i] = members[order[i]];
  for (uint32_t i = 0; i < m->count && links->rates; i++)
    for (uint32_t j = 0; j < m->count; j++)
      links->rates[(size_t)i * m->count + j] = m->rates[(size_t)order[i] * m->count + order[j]];
  for (uint32_t i = 0; i < m->count && links->endpoints; i++)
    for (uint32_t j = 0; j < m->count; j++)
      links->endpoints[(size_t)i * m->count + j] =
          (uint32_t)m->spreads[(size_t)m->first[order[i]] * m->count + m->first[order[j]]];
  for (uint32_t i = 0; i < m->count; i++)
    order[i] = i;
  links->plain_ring_rate = rondo_ring_rate(m->rates, m->count, order);
  free(order);
  return RONDO_SUCCESS;
}

int rondo_links_measure_rank(struct rondo_rank *rank, struct rondo_links *links, uint64_t end_ns,
                             char *why) {
  struct measuring m = {.meeting = {.rank = rank, .end_ns = end_ns, .why = why}};
  int status = rondo_meeting_open(&m.meeting);
  if (status != RONDO_SUCCESS)
    return status;
  m.count = m.meeting.voters.count;
  m.self = m.meeting.voters.self;
  status = measuring_run(&m);
  bool has_measured = status == RONDO_SUCCESS;
  if (has_measured)
    status = links_fill(&m, links);
  bool is_over = rondo_meeting_close(&m.meeting, has_measured ? RONDO_SUCCESS : status);
  if (!is_over) // a run may still use the buffers
    return status;
  free(m.first);
  free(m.send);
  free(m.recv);
  free(m.rates);
  free(m.spreads);
  return status;
}
