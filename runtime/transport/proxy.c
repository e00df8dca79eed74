#include "runtime/transport/proxy.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/condition.h"
#include "base/quiet_thread.h"
#include "runtime/transport/proxy_state.h"

#define QUIET_ROUNDS 64u                // rounds in which nothing moved, before the thread sleeps
#define SLEEP_NS UINT64_C(100000000)    // the longest sleep
#define NAP_NS UINT64_C(20000)          // first sleep while blocks that do not ring have runs
#define LONGEST_NAP_SHIFT 5u            // ... the longest of these sleeps: 2^5 naps
#define AWAY_NS UINT64_C(500000)        // after which the thread checks whether others still help
#define LINGER_NS UINT64_C(100000)      // that rondo_proxy_flush goes on while nothing moves
#define LINGER_MAX_NS UINT64_C(5000000) // ... and in total

// ------------------------------------------------------------------- rounds ---

void rondo_proxy_break(struct rondo_proxy *p, uint32_t process, const char *why) {
  struct rondo_proxy_peer *peer = &p->peers[process];
  if (peer->is_broken || peer->is_lost)
    return;
  peer->is_broken = 1;
  (void)snprintf(peer->why, sizeof peer->why, "%s", why);
}

static void proxy_take_requests(struct rondo_proxy *p) {
  uint32_t requests = rondo_load_acquire_u32(&p->requests);
  if (requests == p->requests_seen)
    return;
  p->requests_seen = requests;
  pthread_mutex_lock(&p->lock);
  rondo_proxy_links_apply_requests(p);
  int lost = 0;
  for (uint32_t i = 0; i < p->config.process_count; i++) {
    lost |= p->peers[i].wants_lost && !p->peers[i].is_lost;
    p->peers[i].is_lost = p->peers[i].wants_lost;
  }
  pthread_mutex_unlock(&p->lock);
  if (!lost)
    return;
  for (uint32_t i = 0; i < p->config.process_count; i++) {
    if (!p->peers[i].is_lost || !p->peers[i].connected)
      continue;
    p->peers[i].connected = 0;
    p->config.calls->disconnect(p->carrier, i);
  }
  rondo_proxy_link_sets_wake_all(p);
}

static void proxy_report_broken(struct rondo_proxy *p) {
  for (uint32_t i = 0; i < p->config.process_count; i++) {
    struct rondo_proxy_peer *peer = &p->peers[i];
    if (!peer->is_broken || peer->has_told_broken)
      continue;
    peer->has_told_broken = 1;
    if (!peer->is_lost)
      p->config.broken(p->config.owner, i, peer->why);
  }
}

// Notifies the daemons whose blocks got slots or credits.
static void proxy_notify_blocks(struct rondo_proxy *p) {
  if (!p->needs_notify)
    return;
  p->needs_notify = 0;
  struct rondo_link_set *c;
  LIST_FOREACH (c, &p->awake, listed)
    for (struct rondo_proxy_link *link = c->links; link; link = link->next) {
      if (link->needs_notify)
        p->config.on_arrival(p->config.owner, link);
      link->needs_notify = 0;
    }
}

// Calls the carrier's `progress`, which takes one or two system calls, also if nothing has arrived.
// A thread that leaves right after a round that has called it omits the call, unless slots are in
// flight.
static int proxy_move_messages(struct rondo_proxy *p, int is_leaving) {
  int can_omit = is_leaving && p->has_received && !rondo_load_relaxed_u32(&p->transfers);
  p->has_received = !is_leaving;
  return can_omit ? 0 : p->config.calls->progress(p->carrier);
}

// One round: forwards what can be forwarded. The caller has claimed the proxy. Returns 1 if
// anything moved.
static int proxy_run_round(struct rondo_proxy *p, int is_leaving) {
  proxy_take_requests(p);
  rondo_proxy_link_sets_wake_requested(p);
  // A peer that waits needs slots; credits are less urgent.
  int moved = rondo_proxy_links_send(p);
  moved |= proxy_move_messages(p, is_leaving);
  moved |= rondo_proxy_links_credit(p, is_leaving);
  proxy_notify_blocks(p);
  moved |= rondo_proxy_links_retire(p);
  rondo_proxy_link_sets_sleep(p);
  proxy_report_broken(p);
  rondo_proxy_count(&p->counters.rounds);
  return moved;
}

static bool proxy_try_claim(struct rondo_proxy *p) {
  return !rondo_load_relaxed_u32(&p->claimed) &&
         rondo_try_swap_acq_rel_u32(&p->claimed, 0, 1); // P3
}

static void proxy_unclaim(struct rondo_proxy *p) { rondo_store_release_u32(&p->claimed, 0); } // P3

static int proxy_progress(struct rondo_proxy *p, int is_leaving) {
  if (!proxy_try_claim(p))
    return 0;
  int moved = proxy_run_round(p, is_leaving);
  proxy_unclaim(p);
  return moved;
}

int rondo_proxy_progress(struct rondo_proxy *p) { return proxy_progress(p, 0); }

// ------------------------------------------------------------------- sleeping ---

// Returns 1 if arrivals will wake the thread.
static int proxy_arm(struct rondo_proxy *p) {
  if (!proxy_try_claim(p))
    return 0;
  int is_armed = p->config.calls->arm(p->carrier);
  proxy_unclaim(p);
  return is_armed;
}

// A thread with something to forward publishes it, adds to `rings`, and then loads `parked` (P1).
// Here the order is the reverse, so one of the two threads sees the other.
static void proxy_sleep(struct rondo_proxy *p, uint32_t rings, uint32_t naps) {
  rondo_store_seq_cst_u32(&p->parked, RONDO_PROXY_PARKED); // P1
  int is_busy = p->config.is_busy && p->config.is_busy(p->config.owner);
  if (proxy_arm(p) && rondo_load_seq_cst_u32(&p->rings) == rings) { // P1
    p->config.calls->sleep(p->carrier, is_busy ? NAP_NS << naps : SLEEP_NS, 1);
    rondo_proxy_count(&p->counters.waits);
  }
  rondo_store_seq_cst_u32(&p->parked, RONDO_PROXY_AWAKE); // P1
}

// Sleeps while other threads help. They wake the thread when they stop; if they do not, the thread
// notices after AWAY_NS.
static void proxy_stay_away(struct rondo_proxy *p) {
  rondo_store_relaxed_u32(&p->is_helped, 0);
  rondo_store_seq_cst_u32(&p->parked, RONDO_PROXY_AWAY); // P1
  p->config.calls->sleep(p->carrier, AWAY_NS, 0);
  rondo_store_seq_cst_u32(&p->parked, RONDO_PROXY_AWAKE); // P1
}

static void *proxy_main(void *arg) {
  struct rondo_proxy *p = arg;
  uint32_t quiet = 0;
  while (!rondo_load_acquire_u32(&p->stop)) {
    uint32_t rings = rondo_load_seq_cst_u32(&p->rings); // P1
    if (rondo_load_relaxed_u32(&p->is_helped)) {
      proxy_stay_away(p);
      quiet = 0;
    } else if (rondo_proxy_progress(p)) {
      quiet = 0;
    } else if (quiet < QUIET_ROUNDS) {
      quiet++;
      sched_yield();
    } else {
      proxy_sleep(p, rings, quiet - QUIET_ROUNDS);
      quiet += quiet < QUIET_ROUNDS + LONGEST_NAP_SHIFT;
    }
  }
  return NULL;
}

// Wakes the thread from the state `parked`. Of several threads that try, one does.
static void proxy_wake_thread(struct rondo_proxy *p, uint32_t parked) {
  if (rondo_load_seq_cst_u32(&p->parked) == parked &&                    // P1
      rondo_try_swap_seq_cst_u32(&p->parked, parked, RONDO_PROXY_AWAKE)) // P1
    p->config.calls->wake(p->carrier);
}

void rondo_proxy_ring(struct rondo_proxy *p) {
  (void)rondo_fetch_add_seq_cst_u32(&p->rings, 1); // P1
  proxy_wake_thread(p, RONDO_PROXY_PARKED);
}

int rondo_proxy_help(struct rondo_proxy *p) {
  rondo_store_relaxed_u32(&p->is_helped, 1);
  return rondo_proxy_progress(p);
}

// Forwards published slots until none is being sent, at most for LINGER_MAX_NS.
static int proxy_send_published(struct rondo_proxy *p) {
  uint64_t begin_ns = rondo_now_ns();
  uint64_t moved_ns = begin_ns;
  uint64_t now_ns = begin_ns;
  rondo_store_relaxed_u32(&p->is_helped, 1);
  int moved = proxy_progress(p, 1);
  while (rondo_load_relaxed_u32(&p->transfers) && now_ns - moved_ns < LINGER_NS &&
         now_ns - begin_ns < LINGER_MAX_NS) {
    int has_moved = proxy_progress(p, 1);
    now_ns = rondo_now_ns();
    moved |= has_moved;
    if (has_moved)
      moved_ns = now_ns;
    else
      sched_yield();
  }
  return moved;
}

// Wakes the proxy's thread: progress of other threads has disarmed the carrier that it sleeps on.
static void proxy_resume_thread(struct rondo_proxy *p, int is_busy) {
  if (is_busy || rondo_load_relaxed_u32(&p->transfers)) {
    rondo_store_relaxed_u32(&p->is_helped, 0);
    proxy_wake_thread(p, RONDO_PROXY_AWAY);
  }
  proxy_wake_thread(p, RONDO_PROXY_PARKED);
}

int rondo_proxy_flush(struct rondo_proxy *p, int is_busy) {
  int moved = proxy_send_published(p);
  proxy_resume_thread(p, is_busy);
  return moved;
}

int rondo_proxy_release(struct rondo_proxy *p, int is_busy) {
  int moved = rondo_proxy_progress(p);
  proxy_resume_thread(p, is_busy);
  return moved;
}

void rondo_proxy_request(struct rondo_proxy *p) {
  (void)rondo_fetch_add_seq_cst_u32(&p->requests, 1);
  rondo_proxy_ring(p);
  proxy_wake_thread(p, RONDO_PROXY_AWAY);
}

// -------------------------------------------------------------------- calls ---

static int proxy_make_address(struct rondo_proxy *p) {
  size_t bytes = 0;
  const void *text = p->config.calls->address(p->carrier, &bytes);
  struct rondo_proxy_address head = {.token = p->token};
  (void)snprintf(head.carrier, sizeof head.carrier, "%s", p->config.calls->name);
  p->address = malloc(sizeof head + bytes);
  if (!p->address)
    return RONDO_ERR_NO_MEMORY;
  memcpy(p->address, &head, sizeof head);
  memcpy((char *)p->address + sizeof head, text, bytes);
  p->address_bytes = sizeof head + bytes;
  return RONDO_SUCCESS;
}

static int proxy_start_thread(struct rondo_proxy *p) {
  if (rondo_quiet_thread_create(&p->thread, NULL, proxy_main, p) != 0)
    return RONDO_ERR_SYSTEM;
  pthread_setname_np(p->thread, "rondo-proxy");
  p->has_thread = 1;
  return RONDO_SUCCESS;
}

static int proxy_open(struct rondo_proxy *p, char *why, size_t why_bytes) {
  (void)snprintf(why, why_bytes, "no memory or no thread for it");
  p->peers = calloc(p->config.process_count, sizeof *p->peers);
  if (!p->peers)
    return RONDO_ERR_NO_MEMORY;
  for (uint32_t i = 0; i < p->config.process_count; i++)
    p->peers[i].endpoints = p->config.endpoints ? p->config.endpoints : 1;
  if (getrandom(&p->token, sizeof p->token, 0) != (ssize_t)sizeof p->token)
    return RONDO_ERR_SYSTEM;
  const struct rondo_carrier_config carrier = {.process = p->config.self,
                                               .address = p->config.address,
                                               .events = &rondo_proxy_events,
                                               .arg = p};
  int status = p->config.calls->open(&carrier, &p->carrier, why, why_bytes);
  if (status == RONDO_SUCCESS)
    status = proxy_make_address(p);
  if (status == RONDO_SUCCESS && !p->config.is_manual)
    status = proxy_start_thread(p);
  return status;
}

int rondo_proxy_create(const struct rondo_proxy_config *config, struct rondo_proxy **out, char *why,
                       size_t why_bytes) {
  struct rondo_proxy *p = calloc(1, sizeof *p);
  if (!p) {
    (void)snprintf(why, why_bytes, "no memory for it");
    return RONDO_ERR_NO_MEMORY;
  }
  p->config = *config;
  pthread_mutex_init(&p->lock, NULL);
  rondo_condition_init(&p->drained);
  int status = proxy_open(p, why, why_bytes);
  if (status == RONDO_SUCCESS)
    *out = p;
  else
    rondo_proxy_destroy(p);
  return status;
}

void rondo_proxy_destroy(struct rondo_proxy *p) {
  if (!p)
    return;
  if (p->has_thread) {
    rondo_store_release_u32(&p->stop, 1);
    p->config.calls->wake(p->carrier);
    pthread_join(p->thread, NULL);
  }
  if (p->carrier)
    p->config.calls->close(p->carrier);
  rondo_proxy_links_free(p);
  rondo_proxy_transfers_free(p);
  for (uint32_t i = 0; p->peers && i < p->config.process_count; i++)
    free(p->peers[i].address);
  free(p->peers);
  free(p->address);
  pthread_cond_destroy(&p->drained);
  pthread_mutex_destroy(&p->lock);
  free(p);
}

uint32_t rondo_proxy_spread(struct rondo_proxy *p, uint32_t process, uint32_t endpoints) {
  uint32_t *in_use = &p->peers[process].endpoints;
  if (endpoints)
    rondo_store_relaxed_u32(in_use, endpoints);
  return rondo_load_relaxed_u32(in_use);
}

const void *rondo_proxy_address(const struct rondo_proxy *p, size_t *bytes) {
  *bytes = p->address_bytes;
  return p->address;
}

int rondo_proxy_meet(struct rondo_proxy *p, uint32_t process, const void *address, size_t bytes) {
  struct rondo_proxy_address head;
  if (process >= p->config.process_count || bytes <= sizeof head)
    return RONDO_ERR_INVALID;
  memcpy(&head, address, sizeof head);
  if (strncmp(head.carrier, p->config.calls->name, sizeof head.carrier) != 0)
    return RONDO_ERR_INVALID;
  struct rondo_proxy_peer *peer = &p->peers[process];
  void *copy = malloc(bytes - sizeof head);
  if (!copy)
    return RONDO_ERR_NO_MEMORY;
  memcpy(copy, (const char *)address + sizeof head, bytes - sizeof head);
  pthread_mutex_lock(&p->lock);
  int is_new = !peer->address;
  if (is_new) {
    peer->address = copy;
    peer->address_bytes = bytes - sizeof head;
    peer->token = head.token;
  }
  pthread_mutex_unlock(&p->lock);
  if (!is_new)
    free(copy);
  return is_new ? RONDO_SUCCESS : RONDO_ERR_INVALID;
}

bool rondo_proxy_has_met(struct rondo_proxy *p, uint32_t process) {
  pthread_mutex_lock(&p->lock);
  bool has_met = p->peers[process].address != NULL;
  pthread_mutex_unlock(&p->lock);
  return has_met;
}

void rondo_proxy_lose(struct rondo_proxy *p, uint32_t process) {
  pthread_mutex_lock(&p->lock);
  p->peers[process].wants_lost = 1;
  pthread_mutex_unlock(&p->lock);
  rondo_proxy_request(p);
}

int rondo_proxy_drain(struct rondo_proxy *p, uint64_t timeout_ns) {
  uint64_t end_ns = rondo_now_ns() + timeout_ns;
  int waited = 0;
  pthread_mutex_lock(&p->lock);
  while (p->closing && !waited && p->has_thread)
    waited = rondo_condition_wait(&p->drained, &p->lock, end_ns);
  int is_drained = !p->closing;
  pthread_mutex_unlock(&p->lock);
  return is_drained;
}

void rondo_proxy_counters(const struct rondo_proxy *p, struct rondo_proxy_counters *out) {
  rondo_copy_relaxed_u64(out, &p->counters, sizeof *out);
}
