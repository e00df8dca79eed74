// The links of a proxy: link sets, numbers, connectors, credits and the end of a link.
#include <stdbool.h>
#include <stdlib.h>

#include "base/explore.h"
#include "base/fence.h"
#include "runtime/transport/proxy_state.h"

#define INDEX_BITS                                                                                 \
  24u // of a link's number: its place in the table; the other bits are a serial number
#define FREQUENT_BYTES 131072u // the consumption of a slot of at least this is sent at once
#define CREDIT_LOOKS 8u        // links that are searched for a credit to enclose
#if defined(RONDO_EXPLORE)
#define QUIET_ROUNDS 2u // rare in the product, frequent in the explorer
#else
#define QUIET_ROUNDS                                                                               \
  256u // quiet rounds before a set sleeps, so that runs in sequence find it awake
#endif

// ----------------------------------------------------------------- link sets ---

static void link_set_touch(struct rondo_proxy *p, struct rondo_link_set *set) {
  set->quiet = 0;
  if (set->is_awake || !set->links)
    return;
  LIST_REMOVE(set, listed);
  set->is_awake = 1;
  LIST_INSERT_HEAD(&p->awake, set, listed);
  rondo_store_relaxed_u32(&set->is_asleep, 0);
}

static void link_set_add(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  struct rondo_link_set *set = link->config.link_set;
  int is_first = !set->links;
  link->next = set->links;
  set->links = link;
  if (is_first) {
    set->is_awake = 0;
    LIST_INSERT_HEAD(&p->asleep, set, listed);
  }
  link_set_touch(p, set);
}

static void link_set_remove(struct rondo_proxy_link *link) {
  struct rondo_link_set *set = link->config.link_set;
  struct rondo_proxy_link **at = &set->links;
  while (*at != link)
    at = &(*at)->next;
  *at = link->next;
  if (!set->links)
    LIST_REMOVE(set, listed);
}

void rondo_proxy_link_sets_wake_all(struct rondo_proxy *p) {
  while (!LIST_EMPTY(&p->asleep))
    link_set_touch(p, LIST_FIRST(&p->asleep));
}

// ------------------------------------------------------------------- numbers ---

// Only the thread that has claimed the proxy removes links from the table.
struct rondo_proxy_link *rondo_proxy_link_find(struct rondo_proxy *p, uint64_t number,
                                               uint32_t process) {
  uint64_t index = number & ((UINT64_C(1) << INDEX_BITS) - 1);
  pthread_mutex_lock(&p->lock);
  struct rondo_proxy_link *link = index < p->table_count ? p->table[index] : NULL;
  pthread_mutex_unlock(&p->lock);
  if (!link || link->number != number || link->config.process != process)
    return NULL;
  link_set_touch(p, link->config.link_set);
  return link;
}

static bool table_grow(struct rondo_proxy *p) {
  uint32_t capacity = p->table_capacity ? 2 * p->table_capacity : 64;
  if (capacity > UINT32_C(1) << INDEX_BITS)
    return false;
  struct rondo_proxy_link **grown = realloc(p->table, capacity * sizeof(void *));
  if (!grown)
    return false;
  p->table = grown;
  p->table_capacity = capacity;
  return true;
}

// Adds the link to the table, and gives it a number that no link had before.
static bool table_add(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  uint32_t index = p->table_free;
  while (index < p->table_count && p->table[index])
    index++;
  p->table_free = index;
  if (index == p->table_capacity && !table_grow(p))
    return false;
  p->table_count += index == p->table_count;
  p->table[index] = link;
  link->number = ++p->serial << INDEX_BITS | index;
  link->next = p->fresh;
  p->fresh = link;
  return true;
}

// ---------------------------------------------------------- uncredited slots ---

// Counts a received slot. Moves the link to the front: its sender needs the credit for more slots.
static void link_add_uncredited(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  struct rondo_proxy_peer *peer = &p->peers[link->config.process];
  if (link->uncredited++) {
    if (LIST_FIRST(&peer->uncredited) == link)
      return;
    LIST_REMOVE(link, listed_uncredited);
  }
  LIST_INSERT_HEAD(&peer->uncredited, link, listed_uncredited);
}

// Counts a credit that was sent.
static void link_note_credited(struct rondo_proxy *p, struct rondo_proxy_link *link,
                               struct rondo_proxied_connector *connector, uint32_t consumed) {
  link->uncredited -= consumed - connector->credited;
  connector->credited = consumed;
  if (!link->uncredited)
    LIST_REMOVE(link, listed_uncredited);
  rondo_proxy_count(&p->counters.credits_sent);
}

// --------------------------------------------------------------------- slots ---

void rondo_proxy_link_publish(struct rondo_proxy *p, struct rondo_proxy_link *link,
                              const struct rondo_proxy_head *head) {
  struct rondo_endpoint end;
  rondo_endpoint_init(&end, rondo_proxy_connector(link, head->block), head->sequence);
  rondo_endpoint_open_send(&end); // the block's flag may be new
  link->received++;
  link_add_uncredited(p, link);
  rondo_proxy_count(&p->counters.slots_received);
  rondo_connector_put_word(&end, false, head->count);
  rondo_connector_publish(&end, NULL, head->bytes);
  rondo_proxy_link_notify(p, link);
}

bool rondo_proxy_link_expects(const struct rondo_proxy_link *link,
                              const struct rondo_proxy_head *head) {
  if (!link->config.is_outgoing && head->block < link->config.blocks) {
    struct rondo_connector *c = rondo_proxy_connector(link, head->block);
    uint32_t consumed = rondo_load_acquire_u32(&c->consumed); // C4
    uint32_t most = c->payload ? c->slot_bytes : RONDO_CONNECTOR_INLINE_BYTES;
    most = most < RONDO_CONNECTOR_INLINE_BYTES ? RONDO_CONNECTOR_INLINE_BYTES : most;
    return head->sequence - consumed < c->slot_count && head->bytes <= most &&
           !(link->connectors[head->block].busy & rondo_proxy_bit(c, head->sequence)) &&
           rondo_load_relaxed_u32(&rondo_connector_slot(c, head->sequence)->mark) !=
               head->sequence + 1;
  }
  return false;
}

void rondo_proxy_link_release(struct rondo_proxy *p, struct rondo_proxy_link *link,
                              uint32_t block) {
  struct rondo_proxied_connector *connector = &link->connectors[block];
  struct rondo_connector *c = rondo_proxy_connector(link, block);
  uint32_t before = connector->released;
  int is_early = RONDO_FAULT(MIRROR_EARLY);
  uint32_t end = is_early ? connector->end.sequence : connector->credited;
  while (connector->released != end &&
         (is_early || !(connector->busy & rondo_proxy_bit(c, connector->released))))
    connector->released++;
  if (connector->released == before)
    return;
  rondo_store_release_u32(&c->consumed, connector->released); // C3
  rondo_connector_set_flag(rondo_connector_flag_at(c, c->producer_flag));
  rondo_proxy_link_notify(p, link);
}

static int link_send_slots(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  int moved = 0;
  int is_empty = 1;
  for (uint32_t b = 0; b < link->config.blocks; b++) {
    const struct rondo_slot *slot = rondo_connector_try_peek(&link->connectors[b].end);
    while (slot && rondo_proxy_send_slot(p, link, b, slot)) {
      moved = 1;
      slot = rondo_connector_try_peek(&link->connectors[b].end);
    }
    is_empty &= !slot;
  }
  if (!link->is_closing || link->has_sent_close || !is_empty)
    return moved;
  struct rondo_proxy_head head = {
      .link = link->back, .back = link->number, .count = link->sent, .type = RONDO_PROXY_CLOSE};
  link->has_sent_close = rondo_proxy_send_head(p, link->config.process, &head);
  return moved | link->has_sent_close;
}

// Slots that are consumed before a credit is sent. The producer always has other free slots. A
// credit takes as long as a small slot, and a thread whose run has ended waits for it to be sent.
static uint32_t credit_step(const struct rondo_connector *c) {
  return c->slot_count > 1 && c->slot_bytes < FREQUENT_BYTES ? c->slot_count / 2 : 1;
}

// The same for a thread that waits for the credit to be sent: the round that receives the next slot
// sends it.
static uint32_t late_credit_step(const struct rondo_connector *c) {
  uint32_t step = credit_step(c);
  return step > 1 ? c->slot_count - 1 : step;
}

static bool link_enclose_credit(struct rondo_proxy *p, struct rondo_proxy_link *link,
                                struct rondo_proxy_head *head) {
  for (uint32_t b = 0; b < link->config.blocks; b++) {
    struct rondo_proxied_connector *connector = &link->connectors[b];
    uint32_t consumed = rondo_load_acquire_u32(&rondo_proxy_connector(link, b)->consumed); // C4
    if (consumed == connector->credited)
      continue;
    head->credit_link = link->back;
    head->credit_sequence = consumed;
    head->credit_block = (uint16_t)b;
    link_note_credited(p, link, connector, consumed);
    return true;
  }
  return false;
}

void rondo_proxy_links_enclose(struct rondo_proxy *p, uint32_t process,
                               struct rondo_proxy_head *head) {
  uint32_t looks = CREDIT_LOOKS;
  struct rondo_proxy_link *link = LIST_FIRST(&p->peers[process].uncredited);
  while (link && looks-- && !link_enclose_credit(p, link, head))
    link = LIST_NEXT(link, listed_uncredited);
}

// Tells the producer's side which slots were consumed.
static int link_send_credits(struct rondo_proxy *p, struct rondo_proxy_link *link, int is_leaving) {
  int moved = 0;
  if (link->back == UINT64_MAX)
    return 0; // nothing has arrived yet
  for (uint32_t b = 0; b < link->config.blocks; b++) {
    struct rondo_proxied_connector *connector = &link->connectors[b];
    struct rondo_connector *c = rondo_proxy_connector(link, b);
    uint32_t consumed = rondo_load_acquire_u32(&c->consumed); // C4
    struct rondo_proxy_head head = {.link = link->back, .back = link->number, .sequence = consumed};
    head.block = (uint16_t)b;
    head.type = RONDO_PROXY_CREDIT;
    if (consumed - connector->credited < (is_leaving ? late_credit_step(c) : credit_step(c)) ||
        !rondo_proxy_send_head(p, link->config.process, &head))
      continue;
    link_note_credited(p, link, connector, consumed);
    moved = 1;
  }
  return moved;
}

int rondo_proxy_links_send(struct rondo_proxy *p) {
  struct rondo_link_set *c;
  int moved = 0;
  LIST_FOREACH (c, &p->awake, listed)
    for (struct rondo_proxy_link *link = c->links; link; link = link->next) {
      rondo_proxy_count(&p->counters.looks);
      if (link->config.is_outgoing && link->is_bound &&
          rondo_proxy_is_reachable(p, link->config.process) && link_send_slots(p, link)) {
        c->quiet = 0;
        moved = 1;
      }
    }
  return moved;
}

int rondo_proxy_links_credit(struct rondo_proxy *p, int is_leaving) {
  struct rondo_link_set *c;
  int moved = 0;
  LIST_FOREACH (c, &p->awake, listed)
    for (struct rondo_proxy_link *link = c->links; link; link = link->next)
      if (!link->config.is_outgoing && rondo_proxy_is_reachable(p, link->config.process))
        moved |= link_send_credits(p, link, is_leaving);
  return moved;
}

// True if the link has nothing to send, and waits for nothing but its block and messages.
static bool link_is_at_rest(const struct rondo_proxy *p, const struct rondo_proxy_link *link) {
  if (link->transfers || link->is_closing || link->is_closed)
    return false;
  if (!rondo_proxy_is_reachable(p, link->config.process))
    return true; // the loss of a process wakes all sets
  for (uint32_t b = 0; b < link->config.blocks; b++) {
    const struct rondo_connector *c = rondo_proxy_connector(link, b);
    uint32_t consumed = rondo_load_acquire_u32(&c->consumed); // C4
    if (link->config.is_outgoing
            ? link->is_bound && rondo_connector_try_peek(&link->connectors[b].end)
            : consumed - link->connectors[b].credited >= credit_step(c))
      return false;
  }
  return true;
}

// ------------------------------------------------------- link sets: sleeping ---

static bool link_set_is_at_rest(const struct rondo_proxy *p, const struct rondo_link_set *set) {
  for (const struct rondo_proxy_link *link = set->links; link; link = link->next)
    if (!link_is_at_rest(p, link))
      return false;
  return true;
}

// A submission counts its run, and then looks whether the set sleeps. Here the order is the
// reverse, so one of the two threads sees the other. The last look sees what ended runs have
// published.
static void link_set_sleep(struct rondo_proxy *p, struct rondo_link_set *set) {
  set->quiet = 0;
  if (!p->config.is_used || !link_set_is_at_rest(p, set))
    return;
  rondo_store_seq_cst_u32(&set->is_asleep, 1); // P4
  rondo_fence_heavy();                         // P4
  if (p->config.is_used(p->config.owner, set->links) || !link_set_is_at_rest(p, set)) {
    rondo_store_relaxed_u32(&set->is_asleep, 0);
    return;
  }
  LIST_REMOVE(set, listed);
  set->is_awake = 0;
  LIST_INSERT_HEAD(&p->asleep, set, listed);
}

void rondo_proxy_link_sets_sleep(struct rondo_proxy *p) {
  struct rondo_link_set *next = NULL;
  for (struct rondo_link_set *set = LIST_FIRST(&p->awake); set; set = next) {
    next = LIST_NEXT(set, listed);
    if (++set->quiet > QUIET_ROUNDS)
      link_set_sleep(p, set);
  }
}

// --------------------------------------------------------- link sets: waking ---

void rondo_proxy_wake(struct rondo_proxy *p, struct rondo_link_set *set) {
  if (RONDO_FAULT(LINK_SET_ASLEEP))
    return;
  pthread_mutex_lock(&p->lock);
  if (!set->is_woken) {
    set->is_woken = 1;
    set->next_woken = p->woken;
    p->woken = set;
  }
  rondo_store_release_u32(&p->has_woken, 1);
  pthread_mutex_unlock(&p->lock);
  rondo_proxy_ring(p); // its blocks may have rung while the set was skipped
}

void rondo_proxy_link_sets_wake_requested(struct rondo_proxy *p) {
  if (!rondo_load_relaxed_u32(&p->has_woken))
    return;
  pthread_mutex_lock(&p->lock);
  rondo_store_relaxed_u32(&p->has_woken, 0);
  while (p->woken) {
    struct rondo_link_set *set = p->woken;
    p->woken = set->next_woken;
    set->is_woken = 0;
    link_set_touch(p, set);
  }
  pthread_mutex_unlock(&p->lock);
}

void rondo_proxy_forget(struct rondo_proxy *p, struct rondo_link_set *set) {
  pthread_mutex_lock(&p->lock);
  struct rondo_link_set **at = &p->woken;
  while (*at && *at != set)
    at = &(*at)->next_woken;
  if (*at)
    *at = set->next_woken;
  set->is_woken = 0;
  pthread_mutex_unlock(&p->lock);
}

// ------------------------------------------------------------------- the end ---

static bool link_is_whole(const struct rondo_proxy_link *link) {
  return link->config.is_outgoing || link->is_closing ||
         (link->is_closed && (link->received == link->count || RONDO_FAULT(CLOSE_UNCOUNTED)));
}

static bool link_is_over(const struct rondo_proxy *p, const struct rondo_proxy_link *link) {
  if (link->transfers)
    return false;
  if (p->peers[link->config.process].is_lost)
    return true;
  if (link->config.is_outgoing)
    return link->is_closing && (!link->is_bound || link->is_closed);
  return link_is_whole(link);
}

static void link_free(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  uint64_t index = link->number & ((UINT64_C(1) << INDEX_BITS) - 1);
  pthread_mutex_lock(&p->lock);
  struct rondo_proxy_link **at = &p->dirty;
  while (*at && *at != link)
    at = &(*at)->next_dirty;
  if (*at)
    *at = link->next_dirty;
  p->table[index] = NULL;
  if (index < p->table_free)
    p->table_free = (uint32_t)index;
  if (link->wants_closed && !--p->closing)
    pthread_cond_broadcast(&p->drained);
  pthread_mutex_unlock(&p->lock);
  free(link);
}

// Answers the close of the other side, once all its slots have arrived. Returns false if the answer
// cannot be sent now.
static bool link_acknowledge(struct rondo_proxy *p, const struct rondo_proxy_link *link) {
  struct rondo_proxy_head answer = {.link = link->back, .type = RONDO_PROXY_CLOSED};
  if (link->config.is_outgoing || !link->is_closed)
    return true;
  return rondo_proxy_send_head(p, link->config.process, &answer) ||
         p->peers[link->config.process].is_lost;
}

// Ends the links that are over. The owner may free the set with its last link.
static int link_set_retire(struct rondo_proxy *p, struct rondo_link_set *c) {
  int moved = 0;
  struct rondo_proxy_link *next = NULL;
  for (struct rondo_proxy_link *link = c->links; link; link = next) {
    next = link->next;
    if (!link_is_over(p, link) || !link_acknowledge(p, link))
      continue;
    link_set_remove(link);
    if (link->uncredited)
      LIST_REMOVE(link, listed_uncredited);
    moved = 1;
    rondo_proxy_arriving_drop(p, link);
    p->config.over(p->config.owner, link, link_is_whole(link));
    link_free(p, link);
  }
  return moved;
}

int rondo_proxy_links_retire(struct rondo_proxy *p) {
  int moved = 0;
  struct rondo_link_set *next = NULL;
  for (struct rondo_link_set *c = LIST_FIRST(&p->awake); c; c = next) {
    next = LIST_NEXT(c, listed);
    moved |= link_set_retire(p, c);
  }
  return moved;
}

void rondo_proxy_links_free(struct rondo_proxy *p) {
  for (uint32_t i = 0; i < p->table_count; i++) {
    if (p->table[i])
      rondo_proxy_arriving_drop(p, p->table[i]);
    free(p->table[i]);
  }
  free(p->table);
}

// --------------------------------------------------------------------- calls ---

void rondo_proxy_links_apply_requests(struct rondo_proxy *p) {
  while (p->fresh) {
    struct rondo_proxy_link *link = p->fresh;
    p->fresh = link->next;
    link_set_add(p, link);
  }
  while (p->dirty) {
    struct rondo_proxy_link *link = p->dirty;
    p->dirty = link->next_dirty;
    link->is_dirty = 0;
    if (link->wants_bound)
      link->back = link->wants_number;
    link->is_bound = link->wants_bound;
    link->is_closing = link->wants_closed;
    link_set_touch(p, link->config.link_set);
  }
}

struct rondo_proxy_link *rondo_proxy_link_create(struct rondo_proxy *p,
                                                 const struct rondo_proxy_link_config *config) {
  struct rondo_proxy_link *link =
      calloc(1, sizeof *link + config->blocks * sizeof *link->connectors);
  if (!link)
    return NULL;
  link->config = *config;
  link->back = UINT64_MAX;
  for (uint32_t b = 0; b < config->blocks; b++) {
    struct rondo_proxied_connector *connector = &link->connectors[b];
    const struct rondo_connector *c =
        (const struct rondo_connector *)((const char *)config->first + b * config->stride_bytes);
    rondo_endpoint_init(&connector->end, c, c->first_sequence);
    rondo_endpoint_open_recv(&connector->end);
    connector->credited = connector->released = c->first_sequence;
  }
  pthread_mutex_lock(&p->lock);
  bool is_added = table_add(p, link);
  pthread_mutex_unlock(&p->lock);
  if (is_added) {
    rondo_proxy_request(p);
    return link;
  }
  free(link);
  return NULL;
}

const struct rondo_proxy_link_config *rondo_proxy_link_config(const struct rondo_proxy_link *link) {
  return &link->config;
}

uint64_t rondo_proxy_link_number(const struct rondo_proxy_link *link) { return link->number; }

static void link_make_dirty(struct rondo_proxy *p, struct rondo_proxy_link *link) {
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
  link_make_dirty(p, link);
  pthread_mutex_unlock(&p->lock);
  rondo_proxy_request(p);
}

void rondo_proxy_link_close(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  pthread_mutex_lock(&p->lock);
  p->closing += !link->wants_closed;
  link->wants_closed = 1;
  link_make_dirty(p, link);
  pthread_mutex_unlock(&p->lock);
  rondo_proxy_request(p);
}
