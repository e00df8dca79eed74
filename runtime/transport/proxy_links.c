// The links of a proxy: their numbers, their connectors, and their end.
#include <stdlib.h>

#include "base/explore.h"
#include "runtime/transport/proxy_state.h"

#define INDEX_BITS                                                                                 \
  24u // of a link's number: where it is in the table; the rest tells it from earlier ones
#define FREQUENT_BYTES                                                                             \
  131072u              // slots of at least this are worth a message each when they are consumed
#define OWING_LOOKS 8u // at links, for a credit to be enclosed

// ------------------------------------------------------------------- numbers ---

// Only who has taken the proxy takes links out of the table.
struct rondo_proxy_link *rondo_proxy_link_find(struct rondo_proxy *p, uint64_t number,
                                               uint32_t process) {
  uint64_t index = number & ((UINT64_C(1) << INDEX_BITS) - 1);
  pthread_mutex_lock(&p->lock);
  struct rondo_proxy_link *link = index < p->table_count ? p->table[index] : NULL;
  pthread_mutex_unlock(&p->lock);
  if (!link || link->number != number || link->config.process != process)
    return NULL;
  rondo_link_set_touch(p, link->config.link_set);
  return link;
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
  uint32_t index = p->table_free;
  while (index < p->table_count && p->table[index])
    index++;
  p->table_free = index;
  if (index == p->table_capacity && !grow_table(p))
    return 0;
  p->table_count += index == p->table_count;
  p->table[index] = link;
  link->number = ++p->serial << INDEX_BITS | index;
  link->next = p->fresh;
  p->fresh = link;
  return 1;
}

// --------------------------------------------------------------------- owing ---

static void leave_owing(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  if (link->before_owing)
    link->before_owing->next_owing = link->next_owing;
  else
    p->peers[link->config.process].owing = link->next_owing;
  if (link->next_owing)
    link->next_owing->before_owing = link->before_owing;
}

// One more slot has come. Its link comes to the front: what it owes is what its next slots wait for.
static void note_unpaid(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  struct rondo_proxy_link **first = &p->peers[link->config.process].owing;
  if (link->unpaid++) {
    if (*first == link)
      return;
    leave_owing(p, link);
  }
  link->before_owing = NULL;
  link->next_owing = *first;
  if (*first)
    (*first)->before_owing = link;
  *first = link;
}

// The other side is told how far a block has come.
static void note_paid(struct rondo_proxy *p, struct rondo_proxy_link *link,
                      struct rondo_proxied_connector *lane, uint32_t consumed) {
  link->unpaid -= consumed - lane->credited;
  lane->credited = consumed;
  if (!link->unpaid)
    leave_owing(p, link);
  rondo_proxy_count(&p->counters.credits_sent);
}

// --------------------------------------------------------------------- slots ---

void rondo_proxy_link_publish(struct rondo_proxy *p, struct rondo_proxy_link *link,
                              const struct rondo_proxy_head *head) {
  struct rondo_endpoint end = {.connector = link->connectors[head->block].end.connector};
  end.sequence = head->sequence;
  link->received++;
  note_unpaid(p, link);
  rondo_proxy_count(&p->counters.slots_received);
  rondo_connector_publish(&end, NULL, head->bytes);
  rondo_proxy_stir(p, link);
}

int rondo_proxy_link_expects(const struct rondo_proxy_link *link,
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
  return 0;
}

void rondo_proxy_link_release(struct rondo_proxy *p, struct rondo_proxy_link *link,
                              uint32_t block) {
  struct rondo_proxied_connector *lane = &link->connectors[block];
  struct rondo_connector *c = rondo_proxy_connector(link, block);
  uint32_t before = lane->released;
  int is_early = RONDO_FAULT(MIRROR_EARLY);
  uint32_t end = is_early ? lane->end.sequence : lane->credited;
  while (lane->released != end && (is_early || !(lane->busy & rondo_proxy_bit(c, lane->released))))
    lane->released++;
  if (lane->released == before)
    return;
  rondo_store_release_u32(&c->consumed, lane->released); // C3
  rondo_proxy_stir(p, link);
}

static int send_slots(struct rondo_proxy *p, struct rondo_proxy_link *link) {
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
  if (!link->is_closing || link->has_said_close || !is_empty)
    return moved;
  struct rondo_proxy_head head = {
      .link = link->back, .back = link->number, .count = link->sent, .type = RONDO_PROXY_CLOSE};
  link->has_said_close = rondo_proxy_say(p, link->config.process, &head);
  return moved | link->has_said_close;
}

// How many slots are consumed before the producer's side is told of them. It always knows of others that are free;
// a message takes as long as a small slot, and who is through with its run waits for it to be sent.
static uint32_t credit_step(const struct rondo_connector *c) {
  return c->slot_count > 1 && c->slot_bytes < FREQUENT_BYTES ? c->slot_count / 2 : 1;
}

// The same where a caller waits for the message to be sent: the next slot that comes sees to the turn in which it is.
static uint32_t late_credit_step(const struct rondo_connector *c) {
  uint32_t step = credit_step(c);
  return step > 1 ? c->slot_count - 1 : step;
}

static int enclose(struct rondo_proxy *p, struct rondo_proxy_link *link,
                   struct rondo_proxy_head *head) {
  for (uint32_t b = 0; b < link->config.blocks; b++) {
    struct rondo_proxied_connector *lane = &link->connectors[b];
    uint32_t consumed = rondo_load_acquire_u32(&rondo_proxy_connector(link, b)->consumed); // C4
    if (consumed == lane->credited)
      continue;
    head->credit_link = link->back;
    head->credit_sequence = consumed;
    head->credit_block = (uint16_t)b;
    note_paid(p, link, lane, consumed);
    return 1;
  }
  return 0;
}

void rondo_proxy_links_enclose(struct rondo_proxy *p, uint32_t process,
                               struct rondo_proxy_head *head) {
  uint32_t looks = OWING_LOOKS;
  struct rondo_proxy_link *link = p->peers[process].owing;
  while (link && looks-- && !enclose(p, link, head))
    link = link->next_owing;
}

// Tells the producer's side what has been consumed.
static int send_credits(struct rondo_proxy *p, struct rondo_proxy_link *link, int is_leaving) {
  int moved = 0;
  if (link->back == UINT64_MAX)
    return 0; // nothing has come yet
  for (uint32_t b = 0; b < link->config.blocks; b++) {
    struct rondo_proxied_connector *lane = &link->connectors[b];
    struct rondo_connector *c = rondo_proxy_connector(link, b);
    uint32_t consumed = rondo_load_acquire_u32(&c->consumed); // C4
    struct rondo_proxy_head head = {.link = link->back, .back = link->number, .sequence = consumed};
    head.block = (uint16_t)b;
    head.type = RONDO_PROXY_CREDIT;
    if (consumed - lane->credited < (is_leaving ? late_credit_step(c) : credit_step(c)) ||
        !rondo_proxy_say(p, link->config.process, &head))
      continue;
    note_paid(p, link, lane, consumed);
    moved = 1;
  }
  return moved;
}

int rondo_proxy_links_send(struct rondo_proxy *p) {
  int moved = 0;
  for (struct rondo_link_set *c = p->awake; c; c = c->next)
    for (struct rondo_proxy_link *link = c->links; link; link = link->next) {
      rondo_proxy_count(&p->counters.looks);
      if (link->config.is_outgoing && link->is_bound &&
          rondo_proxy_is_reachable(p, link->config.process) && send_slots(p, link)) {
        c->quiet = 0;
        moved = 1;
      }
    }
  return moved;
}

int rondo_proxy_links_credit(struct rondo_proxy *p, int is_leaving) {
  int moved = 0;
  for (struct rondo_link_set *c = p->awake; c; c = c->next)
    for (struct rondo_proxy_link *link = c->links; link; link = link->next)
      if (!link->config.is_outgoing && rondo_proxy_is_reachable(p, link->config.process))
        moved |= send_credits(p, link, is_leaving);
  return moved;
}

int rondo_proxy_link_is_at_rest(const struct rondo_proxy *p, const struct rondo_proxy_link *link) {
  if (link->transfers || link->is_closing || link->is_closed)
    return 0;
  if (!rondo_proxy_is_reachable(p, link->config.process))
    return 1; // all wake when it is lost
  for (uint32_t b = 0; b < link->config.blocks; b++) {
    const struct rondo_connector *c = rondo_proxy_connector(link, b);
    uint32_t consumed = rondo_load_acquire_u32(&c->consumed); // C4
    if (link->config.is_outgoing
            ? link->is_bound && rondo_connector_try_peek(&link->connectors[b].end)
            : consumed - link->connectors[b].credited >= credit_step(c))
      return 0;
  }
  return 1;
}

// ------------------------------------------------------------------- the end ---

static int is_whole(const struct rondo_proxy_link *link) {
  return link->config.is_outgoing || link->is_closing ||
         (link->is_closed && (link->received == link->count || RONDO_FAULT(CLOSE_UNCOUNTED)));
}

static int is_over(const struct rondo_proxy *p, const struct rondo_proxy_link *link) {
  if (link->transfers)
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
  if (index < p->table_free)
    p->table_free = (uint32_t)index;
  if (link->wants_closed && !--p->closing)
    pthread_cond_broadcast(&p->drained);
  pthread_mutex_unlock(&p->lock);
  free(link);
}

// Says that all has come which a link that its other side has closed had. Returns 0 to be called again.
static int acknowledge(struct rondo_proxy *p, const struct rondo_proxy_link *link) {
  struct rondo_proxy_head answer = {.link = link->back, .type = RONDO_PROXY_CLOSED};
  if (link->config.is_outgoing || !link->is_closed)
    return 1;
  return rondo_proxy_say(p, link->config.process, &answer) ||
         p->peers[link->config.process].is_lost;
}

// The last link's link_set may go with it.
static int retire_of(struct rondo_proxy *p, struct rondo_link_set *c) {
  int moved = 0;
  struct rondo_proxy_link *next = NULL;
  for (struct rondo_proxy_link *link = c->links; link; link = next) {
    next = link->next;
    if (!is_over(p, link) || !acknowledge(p, link))
      continue;
    rondo_link_set_remove(p, link);
    if (link->unpaid)
      leave_owing(p, link);
    moved = 1;
    p->config.over(p->config.owner, link, is_whole(link));
    forget(p, link);
  }
  return moved;
}

int rondo_proxy_links_retire(struct rondo_proxy *p) {
  int moved = 0;
  struct rondo_link_set *next = NULL;
  for (struct rondo_link_set *c = p->awake; c; c = next) {
    next = c->next;
    moved |= retire_of(p, c);
  }
  return moved;
}

void rondo_proxy_links_free(struct rondo_proxy *p) {
  for (uint32_t i = 0; i < p->table_count; i++)
    free(p->table[i]);
  free(p->table);
}

// --------------------------------------------------------------------- calls ---

void rondo_proxy_links_grant(struct rondo_proxy *p) {
  while (p->fresh) {
    struct rondo_proxy_link *link = p->fresh;
    p->fresh = link->next;
    rondo_link_set_add(p, link);
  }
  while (p->dirty) {
    struct rondo_proxy_link *link = p->dirty;
    p->dirty = link->next_dirty;
    link->is_dirty = 0;
    if (link->wants_bound)
      link->back = link->wants_number;
    link->is_bound = link->wants_bound;
    link->is_closing = link->wants_closed;
    rondo_link_set_touch(p, link->config.link_set);
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
    struct rondo_proxied_connector *lane = &link->connectors[b];
    const struct rondo_connector *c =
        (const struct rondo_connector *)((const char *)config->first + b * config->stride_bytes);
    rondo_endpoint_init(&lane->end, c, c->first_sequence);
    lane->credited = lane->released = c->first_sequence;
  }
  pthread_mutex_lock(&p->lock);
  int entered = enter(p, link);
  pthread_mutex_unlock(&p->lock);
  if (entered) {
    rondo_proxy_tell(p);
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
  rondo_proxy_tell(p);
}

void rondo_proxy_link_close(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  pthread_mutex_lock(&p->lock);
  p->closing += !link->wants_closed;
  link->wants_closed = 1;
  make_dirty(p, link);
  pthread_mutex_unlock(&p->lock);
  rondo_proxy_tell(p);
}
