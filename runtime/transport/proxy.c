#include "runtime/transport/proxy.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "daemon/driver/clock.h"
#include "queues/platform/atomic.h"
#include "queues/platform/explore.h"

#define QUIET_TURNS 64u              // without effect, until the thread sleeps at all
#define NAP_NS UINT64_C(20000)       // at first, while runs are outstanding
#define LONGEST_NAP_SHIFT 5u         // ... and 2^5 times that in the end
#define SLEEP_NS UINT64_C(100000000) // while none is
#define NAME_BYTES 16u
#define INDEX_BITS                                                                                 \
  24u // of a link's number: where it is in the table; the rest tells it from earlier ones

enum message { DATA = 1, CREDIT, CLOSE, CLOSED };

// What goes before a payload. Between machines of one byte order, as all that a job says.
struct head {
  uint64_t token; // the receiving process's: who knows it is of the job
  uint64_t link;  // the receiver's number of it
  uint64_t back;  // the sender's
  uint64_t count; // CLOSE: slots that were sent in all
  uint32_t from;  // the sending process
  uint32_t sequence;
  uint32_t bytes; // of the payload
  uint16_t block;
  uint16_t type; // enum message
};
_Static_assert(sizeof(struct head) == 48 && sizeof(struct head) <= RONDO_CARRIER_HEAD_BYTES,
               "the form of a message");

// Put before the carrier's own address.
struct address {
  uint64_t token;
  char carrier[NAME_BYTES];
};

// A message under way: its head, and whose slot it comes from or goes to.
struct flight {
  struct flight *next;
  struct head head;
  struct rondo_proxy_link *link; // null: no slot
  uint32_t to;
};

// One block's connector.
struct lane {
  struct rondo_endpoint end; // outgoing: the next slot to send
  uint32_t credited; // outgoing: what the peer has consumed; incoming: what it has been told
  uint32_t released; // outgoing: what the mirror's `consumed` says
  uint64_t busy;     // slots that are being sent or are landing
};

struct rondo_proxy_link {
  struct rondo_proxy_link *next;       // of all, the thread's list
  struct rondo_proxy_link *next_dirty; // guarded by the lock
  struct rondo_proxy_link_config config;
  uint64_t number;
  // Guarded by the lock: what is wished for.
  int is_dirty, wants_bound, wants_closed;
  uint64_t wants_number;
  // The thread's.
  int is_bound, is_closing, has_said_close, is_closed;
  uint64_t back;           // the other side's number; UINT64_MAX: not known yet
  uint64_t sent, received; // slots
  uint64_t count;          // incoming, once the other side has closed: slots in all
  uint32_t flights;        // that touch the connectors
  struct lane lanes[];
};

struct peer {
  // Guarded by the lock.
  void *address; // the carrier's; null: not met
  size_t address_bytes;
  uint64_t token;
  int wants_lost;
  // The thread's.
  int is_connected, is_lost, is_broken, has_told_broken;
  char why[96];
};

struct rondo_proxy {
  struct rondo_proxy_config config;
  struct rondo_carrier *carrier;
  uint64_t token;
  void *address;
  size_t address_bytes;
  pthread_t thread;
  int has_thread;
  uint32_t stop;
  uint32_t parked; // P1
  uint32_t news;   // changes when there are wishes
  uint32_t seen;   // the thread's: of the news
  pthread_mutex_t lock;
  pthread_cond_t drained;
  // Guarded by the lock.
  struct rondo_proxy_link *fresh, *dirty;
  struct rondo_proxy_link **table;
  uint32_t table_count, table_capacity;
  uint64_t serial;
  uint32_t closing; // links that are wanted closed and are not over
  struct peer *peers;
  // The thread's.
  struct rondo_proxy_link *links;
  struct flight *idle;
  struct rondo_proxy_counters counters;
};

// ------------------------------------------------------------------ flights ---

static struct flight *flight_take(struct rondo_proxy *p) {
  struct flight *f = p->idle;
  if (f)
    p->idle = f->next;
  else
    f = malloc(sizeof *f);
  if (f)
    memset(f, 0, sizeof *f);
  return f;
}

static void flight_give(struct rondo_proxy *p, struct flight *f) {
  f->next = p->idle;
  p->idle = f;
}

static void count(uint64_t *counter) {
  rondo_store_relaxed_u64(counter, *counter + 1); // one writer
}

// ------------------------------------------------------------------ sending ---

static void break_peer(struct rondo_proxy *p, uint32_t process, const char *why) {
  struct peer *peer = &p->peers[process];
  if (peer->is_broken || peer->is_lost)
    return;
  peer->is_broken = 1;
  (void)snprintf(peer->why, sizeof peer->why, "%s", why);
}

static int is_reachable(const struct rondo_proxy *p, uint32_t process) {
  return !p->peers[process].is_lost && !p->peers[process].is_broken;
}

static int connect_to(struct rondo_proxy *p, uint32_t process) {
  struct peer *peer = &p->peers[process];
  if (peer->is_connected)
    return RONDO_SUCCESS;
  pthread_mutex_lock(&p->lock);
  const void *address = peer->address; // never changes once it is there
  size_t bytes = peer->address_bytes;
  pthread_mutex_unlock(&p->lock);
  int status =
      address ? p->config.calls->connect(p->carrier, process, address, bytes) : RONDO_ERR_PEER;
  peer->is_connected = status == RONDO_SUCCESS;
  return status;
}

// Sends a message whose head lacks only what is the same in all. The flight is given back by `on_sent`.
static int post(struct rondo_proxy *p, struct flight *f, const void *payload) {
  struct peer *peer = &p->peers[f->to];
  int status = connect_to(p, f->to);
  f->head.token = peer->token;
  f->head.from = p->config.self;
  struct rondo_carrier_message m = {.to = f->to, .head = &f->head, .head_bytes = sizeof f->head};
  m.payload = payload;
  m.bytes = f->head.bytes;
  m.ticket = f;
  if (status == RONDO_SUCCESS)
    status = p->config.calls->send(p->carrier, &m);
  if (status != RONDO_SUCCESS)
    break_peer(p, m.to, "a message could not be sent");
  return status;
}

// Sends a message without payload. Returns 0 if that was not possible now. Its messages may overtake
// the notice that says where a process is.
static int say(struct rondo_proxy *p, uint32_t to, const struct head *head) {
  int can = is_reachable(p, to) && (p->peers[to].is_connected || rondo_proxy_has_met(p, to));
  struct flight *f = can ? flight_take(p) : NULL;
  if (!f)
    return 0;
  f->head = *head;
  f->to = to;
  if (post(p, f, NULL) == RONDO_SUCCESS)
    return 1;
  flight_give(p, f);
  return 0;
}

static struct rondo_connector *connector(const struct rondo_proxy_link *link, uint32_t block) {
  return rondo_endpoint_connector(&link->lanes[block].end);
}

static uint64_t bit_of(const struct rondo_connector *c, uint32_t sequence) {
  return UINT64_C(1) << (sequence & (c->slot_count - 1));
}

static int send_slot(struct rondo_proxy *p, struct rondo_proxy_link *link, uint32_t block,
                     const struct rondo_slot *slot) {
  struct lane *lane = &link->lanes[block];
  uint64_t bit = bit_of(connector(link, block), lane->end.sequence);
  struct flight *f = flight_take(p);
  if (!f)
    return 0;
  f->link = link;
  f->to = link->config.process;
  f->head = (struct head){.link = link->back, .back = link->number, .bytes = slot->bytes};
  f->head.sequence = lane->end.sequence;
  f->head.block = (uint16_t)block;
  f->head.type = DATA;
  const void *payload = rondo_connector_payload(&lane->end, slot->bytes);
  lane->busy |= bit;
  lane->end.sequence++;
  link->sent++;
  link->flights++;
  count(&p->counters.slots_sent);
  if (post(p, f, payload) == RONDO_SUCCESS)
    return 1;
  lane->busy &= ~bit;
  link->flights--;
  flight_give(p, f);
  return 0;
}

// Lets the mirror's producer have the slots that the peer has consumed and nobody sends from any more.
static void release(struct rondo_proxy_link *link, uint32_t block) {
  struct lane *lane = &link->lanes[block];
  struct rondo_connector *c = connector(link, block);
  uint32_t before = lane->released;
  int is_early = RONDO_FAULT(MIRROR_EARLY);
  uint32_t end = is_early ? lane->end.sequence : lane->credited;
  while (lane->released != end && (is_early || !(lane->busy & bit_of(c, lane->released))))
    lane->released++;
  if (lane->released != before)
    rondo_store_release_u32(&c->consumed, lane->released); // C3
}

static int serve_outgoing(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  int moved = 0;
  int is_empty = 1;
  for (uint32_t b = 0; b < link->config.blocks; b++) {
    const struct rondo_slot *slot = rondo_connector_try_peek(&link->lanes[b].end);
    while (slot && send_slot(p, link, b, slot)) {
      moved = 1;
      slot = rondo_connector_try_peek(&link->lanes[b].end);
    }
    is_empty &= !slot;
  }
  if (!link->is_closing || link->has_said_close || !is_empty)
    return moved;
  struct head head = {.link = link->back, .back = link->number, .count = link->sent, .type = CLOSE};
  link->has_said_close = say(p, link->config.process, &head);
  return moved | link->has_said_close;
}

// Tells the producer's side what has been consumed.
static int serve_incoming(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  int moved = 0;
  if (link->back == UINT64_MAX)
    return 0; // nothing has come yet
  for (uint32_t b = 0; b < link->config.blocks; b++) {
    struct lane *lane = &link->lanes[b];
    uint32_t consumed = rondo_load_acquire_u32(&connector(link, b)->consumed); // C4
    struct head head = {.link = link->back, .back = link->number, .sequence = consumed};
    head.block = (uint16_t)b;
    head.type = CREDIT;
    if (consumed == lane->credited || !say(p, link->config.process, &head))
      continue;
    lane->credited = consumed;
    count(&p->counters.credits_sent);
    moved = 1;
  }
  return moved;
}

// ---------------------------------------------------------------- receiving ---

// Only this thread takes links out of the table.
static struct rondo_proxy_link *find(struct rondo_proxy *p, uint64_t number) {
  uint64_t index = number & ((UINT64_C(1) << INDEX_BITS) - 1);
  pthread_mutex_lock(&p->lock);
  struct rondo_proxy_link *link = index < p->table_count ? p->table[index] : NULL;
  pthread_mutex_unlock(&p->lock);
  return link && link->number == number ? link : NULL;
}

static void publish(struct rondo_proxy *p, struct rondo_proxy_link *link, const struct head *head) {
  struct rondo_endpoint end = {.connector = link->lanes[head->block].end.connector};
  end.sequence = head->sequence;
  link->received++;
  count(&p->counters.slots_received);
  rondo_connector_publish(&end, NULL, head->bytes);
}

// 1 if the slot is free for that payload: the sender has had its credit, and sends it once.
static int is_expected(const struct rondo_proxy_link *link, const struct head *head) {
  if (!link->config.is_outgoing && head->block < link->config.blocks) {
    struct rondo_connector *c = connector(link, head->block);
    uint32_t consumed = rondo_load_acquire_u32(&c->consumed); // C4
    uint32_t most = c->payload ? c->slot_bytes : RONDO_CONNECTOR_INLINE_BYTES;
    most = most < RONDO_CONNECTOR_INLINE_BYTES ? RONDO_CONNECTOR_INLINE_BYTES : most;
    return head->sequence - consumed < c->slot_count && head->bytes <= most &&
           !(link->lanes[head->block].busy & bit_of(c, head->sequence)) &&
           rondo_load_relaxed_u32(&rondo_connector_slot(c, head->sequence)->mark) !=
               head->sequence + 1;
  }
  return 0;
}

// Returns where the payload goes, or null.
static void *take_data(struct rondo_proxy *p, const struct head *head, void **ticket) {
  struct rondo_proxy_link *link = find(p, head->link);
  if (!link || link->config.process != head->from || link->is_closing)
    return NULL; // nobody wants it any more
  if (!is_expected(link, head)) {
    count(&p->counters.refused);
    break_peer(p, head->from, "it sent what no proxy sends");
    return NULL;
  }
  link->back = head->back;
  if (!head->bytes) {
    publish(p, link, head);
    return NULL;
  }
  struct flight *f = flight_take(p);
  if (!f) {
    break_peer(p, head->from, "no memory for what it sends");
    return NULL;
  }
  f->head = *head;
  f->link = link;
  link->flights++;
  link->lanes[head->block].busy |= bit_of(connector(link, head->block), head->sequence);
  *ticket = f;
  struct rondo_endpoint end = {.connector = link->lanes[head->block].end.connector};
  end.sequence = head->sequence;
  return rondo_connector_payload(&end, head->bytes);
}

static void take_credit(struct rondo_proxy *p, const struct head *head) {
  struct rondo_proxy_link *link = find(p, head->link);
  if (!link || link->config.process != head->from)
    return;
  if (!link->config.is_outgoing || head->block >= link->config.blocks) {
    count(&p->counters.refused);
    break_peer(p, head->from, "it sent what no proxy sends");
    return;
  }
  struct lane *lane = &link->lanes[head->block];
  // Credits may overtake each other; none is for what was never sent.
  if ((int32_t)(head->sequence - lane->credited) <= 0 ||
      (int32_t)(lane->end.sequence - head->sequence) < 0)
    return;
  lane->credited = head->sequence;
  release(link, head->block);
}

static void take_close(struct rondo_proxy *p, const struct head *head) {
  struct rondo_proxy_link *link = find(p, head->link);
  struct head answer = {.link = head->back, .type = CLOSED};
  if (link && link->config.process == head->from && !link->config.is_outgoing) {
    link->back = head->back;
    link->count = head->count;
    link->is_closed = 1;
  } else {
    (void)say(p, head->from, &answer); // nobody waits for the rest of it
  }
}

static void take_closed(struct rondo_proxy *p, const struct head *head) {
  struct rondo_proxy_link *link = find(p, head->link);
  if (link && link->config.process == head->from && link->config.is_outgoing &&
      link->has_said_close)
    link->is_closed = 1;
}

static void *on_arrive(void *arg, const void *head_bytes, size_t size, uint64_t bytes,
                       void **ticket) {
  struct rondo_proxy *p = arg;
  struct head head;
  if (size == sizeof head)
    memcpy(&head, head_bytes, sizeof head);
  // Who does not know the token is none of us, and nobody answers for it.
  if (size != sizeof head || head.token != p->token || head.from >= p->config.process_count ||
      head.bytes != bytes || !is_reachable(p, head.from)) {
    count(&p->counters.refused);
    return NULL;
  }
  if (head.type == DATA)
    return take_data(p, &head, ticket);
  if (head.type == CREDIT)
    take_credit(p, &head);
  else if (head.type == CLOSE)
    take_close(p, &head);
  else if (head.type == CLOSED)
    take_closed(p, &head);
  else
    break_peer(p, head.from, "it sent what no proxy sends");
  return NULL;
}

static void on_landed(void *arg, void *ticket, int status) {
  struct rondo_proxy *p = arg;
  struct flight *f = ticket;
  struct rondo_proxy_link *link = f->link;
  link->lanes[f->head.block].busy &= ~bit_of(connector(link, f->head.block), f->head.sequence);
  link->flights--;
  if (status == RONDO_SUCCESS)
    publish(p, link, &f->head);
  else
    break_peer(p, f->head.from, "what it sent did not arrive");
  flight_give(p, f);
}

static void on_sent(void *arg, void *ticket, int status) {
  struct rondo_proxy *p = arg;
  struct flight *f = ticket;
  struct rondo_proxy_link *link = f->link;
  if (status != RONDO_SUCCESS)
    break_peer(p, f->to, "a message did not reach it");
  if (link) {
    link->lanes[f->head.block].busy &= ~bit_of(connector(link, f->head.block), f->head.sequence);
    link->flights--;
    release(link, f->head.block);
  }
  flight_give(p, f);
}

static void on_broken(void *arg, uint32_t process, const char *text) {
  struct rondo_proxy *p = arg;
  if (process < p->config.process_count)
    break_peer(p, process, text);
}

// -------------------------------------------------------------------- turns ---

static void grant_wishes(struct rondo_proxy *p) {
  while (p->fresh) {
    struct rondo_proxy_link *link = p->fresh;
    p->fresh = link->next;
    link->next = p->links;
    p->links = link;
  }
  while (p->dirty) {
    struct rondo_proxy_link *link = p->dirty;
    p->dirty = link->next_dirty;
    link->is_dirty = 0;
    if (link->wants_bound)
      link->back = link->wants_number;
    link->is_bound = link->wants_bound;
    link->is_closing = link->wants_closed;
  }
}

static void take_news(struct rondo_proxy *p) {
  uint32_t news = rondo_load_acquire_u32(&p->news);
  if (news == p->seen)
    return;
  p->seen = news;
  pthread_mutex_lock(&p->lock);
  grant_wishes(p);
  for (uint32_t i = 0; i < p->config.process_count; i++)
    p->peers[i].is_lost = p->peers[i].wants_lost;
  pthread_mutex_unlock(&p->lock);
  for (uint32_t i = 0; i < p->config.process_count; i++) {
    if (!p->peers[i].is_lost || !p->peers[i].is_connected)
      continue;
    p->peers[i].is_connected = 0;
    p->config.calls->cut(p->carrier, i);
  }
}

static void tell_broken(struct rondo_proxy *p) {
  for (uint32_t i = 0; i < p->config.process_count; i++) {
    struct peer *peer = &p->peers[i];
    if (!peer->is_broken || peer->has_told_broken)
      continue;
    peer->has_told_broken = 1;
    if (!peer->is_lost)
      p->config.broken(p->config.owner, i, peer->why);
  }
}

static int is_whole(const struct rondo_proxy_link *link) {
  return link->config.is_outgoing || link->is_closing ||
         (link->is_closed && (link->received == link->count || RONDO_FAULT(CLOSE_UNCOUNTED)));
}

static int is_over(const struct rondo_proxy *p, const struct rondo_proxy_link *link) {
  if (link->flights)
    return 0;
  if (p->peers[link->config.process].is_lost)
    return 1;
  if (link->config.is_outgoing)
    return link->is_closing && (!link->is_bound || link->is_closed);
  return is_whole(link);
}

static void forget(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  uint64_t index = link->number & ((UINT64_C(1) << INDEX_BITS) - 1);
  pthread_mutex_lock(&p->lock);
  struct rondo_proxy_link **at = &p->dirty;
  while (*at && *at != link)
    at = &(*at)->next_dirty;
  if (*at)
    *at = link->next_dirty;
  p->table[index] = NULL;
  if (link->wants_closed && !--p->closing)
    pthread_cond_broadcast(&p->drained);
  pthread_mutex_unlock(&p->lock);
  free(link);
}

// Says that all has come which a link that its other side has closed had. Returns 0 to be called again.
static int acknowledge(struct rondo_proxy *p, const struct rondo_proxy_link *link) {
  struct head answer = {.link = link->back, .type = CLOSED};
  if (link->config.is_outgoing || !link->is_closed)
    return 1;
  return say(p, link->config.process, &answer) || p->peers[link->config.process].is_lost;
}

static int retire(struct rondo_proxy *p) {
  int moved = 0;
  struct rondo_proxy_link **at = &p->links;
  while (*at) {
    struct rondo_proxy_link *link = *at;
    if (!is_over(p, link) || !acknowledge(p, link)) {
      at = &link->next;
      continue;
    }
    *at = link->next;
    moved = 1;
    p->config.over(p->config.owner, link, is_whole(link));
    forget(p, link);
  }
  return moved;
}

int rondo_proxy_turn(struct rondo_proxy *p) {
  take_news(p);
  int moved = p->config.calls->turn(p->carrier);
  for (struct rondo_proxy_link *link = p->links; link; link = link->next) {
    if (!is_reachable(p, link->config.process))
      continue;
    if (!link->config.is_outgoing)
      moved |= serve_incoming(p, link);
    else if (link->is_bound)
      moved |= serve_outgoing(p, link);
  }
  moved |= retire(p);
  tell_broken(p);
  count(&p->counters.turns);
  return moved;
}

// Whoever submits a run, or wishes for something, says so first and then looks at `parked` (P1); here
// it is the other way round, so one sees the other.
static void rest(struct rondo_proxy *p, uint32_t quiet) {
  uint32_t shift = quiet - QUIET_TURNS;
  rondo_store_seq_cst_u32(&p->parked, 1); // P1
  int is_busy = rondo_load_seq_cst_u32(&p->news) != p->seen || p->config.is_busy(p->config.owner);
  // What the last run has published it had published before it ended.
  if (is_busy || !rondo_proxy_turn(p)) {
    uint64_t nap_ns = NAP_NS << (shift < LONGEST_NAP_SHIFT ? shift : LONGEST_NAP_SHIFT);
    p->config.calls->wait(p->carrier, is_busy ? nap_ns : SLEEP_NS);
    count(&p->counters.waits);
  }
  rondo_store_seq_cst_u32(&p->parked, 0); // P1
}

static void *proxy_main(void *arg) {
  struct rondo_proxy *p = arg;
  uint32_t quiet = 0;
  while (!rondo_load_acquire_u32(&p->stop)) {
    if (rondo_proxy_turn(p)) {
      quiet = 0;
    } else if (quiet < QUIET_TURNS) {
      quiet++;
      sched_yield();
    } else {
      rest(p, quiet);
      quiet += quiet < QUIET_TURNS + LONGEST_NAP_SHIFT;
    }
  }
  return NULL;
}

void rondo_proxy_kick(struct rondo_proxy *p) {
  if (rondo_load_seq_cst_u32(&p->parked)) // P1
    p->config.calls->wake(p->carrier);
}

static void tell(struct rondo_proxy *p) {
  (void)rondo_fetch_add_seq_cst_u32(&p->news, 1); // P1
  rondo_proxy_kick(p);
}

// -------------------------------------------------------------------- calls ---

static int make_address(struct rondo_proxy *p) {
  size_t bytes = 0;
  const void *text = p->config.calls->address(p->carrier, &bytes);
  struct address head = {.token = p->token};
  (void)snprintf(head.carrier, sizeof head.carrier, "%s", p->config.calls->name);
  p->address = malloc(sizeof head + bytes);
  if (!p->address)
    return RONDO_ERR_NO_MEMORY;
  memcpy(p->address, &head, sizeof head);
  memcpy((char *)p->address + sizeof head, text, bytes);
  p->address_bytes = sizeof head + bytes;
  return RONDO_SUCCESS;
}

static int start_thread(struct rondo_proxy *p) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = pthread_create(&p->thread, NULL, proxy_main, p);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed)
    return RONDO_ERR_SYSTEM;
  pthread_setname_np(p->thread, "rondo-proxy");
  p->has_thread = 1;
  return RONDO_SUCCESS;
}

static int open_all(struct rondo_proxy *p, char *why, size_t why_bytes) {
  static const struct rondo_carrier_events events = {on_arrive, on_landed, on_sent, on_broken};
  (void)snprintf(why, why_bytes, "no memory or no thread for it");
  p->peers = calloc(p->config.process_count, sizeof *p->peers);
  if (!p->peers)
    return RONDO_ERR_NO_MEMORY;
  if (getrandom(&p->token, sizeof p->token, 0) != (ssize_t)sizeof p->token)
    return RONDO_ERR_SYSTEM;
  int status = p->config.calls->open(p->config.self, &events, p, &p->carrier, why, why_bytes);
  if (status == RONDO_SUCCESS)
    status = make_address(p);
  if (status == RONDO_SUCCESS && !p->config.is_manual)
    status = start_thread(p);
  return status;
}

int rondo_proxy_create(const struct rondo_proxy_config *config, struct rondo_proxy **out, char *why,
                       size_t why_bytes) {
  struct rondo_proxy *p = calloc(1, sizeof *p);
  pthread_condattr_t attr;
  if (!p) {
    (void)snprintf(why, why_bytes, "no memory for it");
    return RONDO_ERR_NO_MEMORY;
  }
  p->config = *config;
  pthread_mutex_init(&p->lock, NULL);
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&p->drained, &attr);
  pthread_condattr_destroy(&attr);
  int status = open_all(p, why, why_bytes);
  if (status == RONDO_SUCCESS)
    *out = p;
  else
    rondo_proxy_destroy(p);
  return status;
}

static void free_links(struct rondo_proxy_link *link) {
  while (link) {
    struct rondo_proxy_link *next = link->next;
    free(link);
    link = next;
  }
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
  free_links(p->links);
  free_links(p->fresh);
  while (p->idle) {
    struct flight *f = p->idle;
    p->idle = f->next;
    free(f);
  }
  for (uint32_t i = 0; p->peers && i < p->config.process_count; i++)
    free(p->peers[i].address);
  free(p->peers);
  free(p->table);
  free(p->address);
  pthread_cond_destroy(&p->drained);
  pthread_mutex_destroy(&p->lock);
  free(p);
}

const void *rondo_proxy_address(const struct rondo_proxy *p, size_t *bytes) {
  *bytes = p->address_bytes;
  return p->address;
}

int rondo_proxy_meet(struct rondo_proxy *p, uint32_t process, const void *address, size_t bytes) {
  struct address head;
  if (process >= p->config.process_count || bytes <= sizeof head)
    return RONDO_ERR_INVALID;
  memcpy(&head, address, sizeof head);
  if (strncmp(head.carrier, p->config.calls->name, sizeof head.carrier) != 0)
    return RONDO_ERR_INVALID;
  struct peer *peer = &p->peers[process];
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

int rondo_proxy_has_met(struct rondo_proxy *p, uint32_t process) {
  pthread_mutex_lock(&p->lock);
  int has_met = p->peers[process].address != NULL;
  pthread_mutex_unlock(&p->lock);
  return has_met;
}

void rondo_proxy_lose(struct rondo_proxy *p, uint32_t process) {
  pthread_mutex_lock(&p->lock);
  p->peers[process].wants_lost = 1;
  pthread_mutex_unlock(&p->lock);
  tell(p);
}

static int grow_table(struct rondo_proxy *p) {
  uint32_t capacity = p->table_capacity ? 2 * p->table_capacity : 64;
  if (capacity > UINT32_C(1) << INDEX_BITS)
    return 0;
  struct rondo_proxy_link **grown = realloc(p->table, capacity * sizeof(void *));
  if (!grown)
    return 0;
  p->table = grown;
  p->table_capacity = capacity;
  return 1;
}

// Gives the link a place in the table, and a number that no link has had before.
static int enter(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  uint32_t index = 0;
  while (index < p->table_count && p->table[index])
    index++;
  if (index == p->table_capacity && !grow_table(p))
    return 0;
  p->table_count += index == p->table_count;
  p->table[index] = link;
  link->number = ++p->serial << INDEX_BITS | index;
  link->next = p->fresh;
  p->fresh = link;
  return 1;
}

struct rondo_proxy_link *rondo_proxy_link_create(struct rondo_proxy *p,
                                                 const struct rondo_proxy_link_config *config) {
  struct rondo_proxy_link *link = calloc(1, sizeof *link + config->blocks * sizeof *link->lanes);
  if (!link)
    return NULL;
  link->config = *config;
  link->back = UINT64_MAX;
  for (uint32_t b = 0; b < config->blocks; b++) {
    struct lane *lane = &link->lanes[b];
    const struct rondo_connector *c =
        (const struct rondo_connector *)((const char *)config->first + b * config->stride_bytes);
    rondo_endpoint_init(&lane->end, c, c->first_sequence);
    lane->credited = lane->released = c->first_sequence;
  }
  pthread_mutex_lock(&p->lock);
  int entered = enter(p, link);
  pthread_mutex_unlock(&p->lock);
  if (entered) {
    tell(p);
    return link;
  }
  free(link);
  return NULL;
}

const struct rondo_proxy_link_config *rondo_proxy_link_config(const struct rondo_proxy_link *link) {
  return &link->config;
}

uint64_t rondo_proxy_link_number(const struct rondo_proxy_link *link) { return link->number; }

static void make_dirty(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  if (link->is_dirty)
    return;
  link->is_dirty = 1;
  link->next_dirty = p->dirty;
  p->dirty = link;
}

void rondo_proxy_link_bind(struct rondo_proxy *p, struct rondo_proxy_link *link, uint64_t number) {
  pthread_mutex_lock(&p->lock);
  link->wants_bound = 1;
  link->wants_number = number;
  make_dirty(p, link);
  pthread_mutex_unlock(&p->lock);
  tell(p);
}

void rondo_proxy_link_close(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  pthread_mutex_lock(&p->lock);
  p->closing += !link->wants_closed;
  link->wants_closed = 1;
  make_dirty(p, link);
  pthread_mutex_unlock(&p->lock);
  tell(p);
}

int rondo_proxy_drain(struct rondo_proxy *p, uint64_t timeout_ns) {
  uint64_t end_ns = rondo_now_ns() + timeout_ns;
  struct timespec end = {(time_t)(end_ns / 1000000000u), (long)(end_ns % 1000000000u)};
  int waited = 0;
  pthread_mutex_lock(&p->lock);
  while (p->closing && !waited && p->has_thread)
    waited = pthread_cond_timedwait(&p->drained, &p->lock, &end);
  int is_drained = !p->closing;
  pthread_mutex_unlock(&p->lock);
  return is_drained;
}

void rondo_proxy_counters(const struct rondo_proxy *p, struct rondo_proxy_counters *out) {
  const struct rondo_proxy_counters *c = &p->counters;
  out->slots_sent = rondo_load_relaxed_u64(&c->slots_sent);
  out->slots_received = rondo_load_relaxed_u64(&c->slots_received);
  out->credits_sent = rondo_load_relaxed_u64(&c->credits_sent);
  out->refused = rondo_load_relaxed_u64(&c->refused);
  out->turns = rondo_load_relaxed_u64(&c->turns);
  out->waits = rondo_load_relaxed_u64(&c->waits);
}
