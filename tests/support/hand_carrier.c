#include "tests/support/hand_carrier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/null_carrier.h"

#define PAYLOAD_ALIGN 64u

struct rondo_carrier {
  uint32_t process;
};

struct rondo_hand rondo_hand;
static struct rondo_carrier carrier;

static void must(int holds) {
  if (holds)
    return;
  fprintf(stderr, "the hand does not get what it needs\n");
  abort();
}

// ------------------------------------------------------------------ the carrier ---

static int hand_open(const struct rondo_carrier_config *config, struct rondo_carrier **out,
                     char *why, size_t why_bytes) {
  (void)why, (void)why_bytes;
  carrier.process = config->process;
  rondo_hand.events = config->events;
  rondo_hand.arg = config->arg;
  *out = &carrier;
  return RONDO_SUCCESS;
}

static const void *hand_address(struct rondo_carrier *c, size_t *bytes) {
  *bytes = sizeof c->process;
  return &c->process;
}

static int hand_send(struct rondo_carrier *c, const struct rondo_carrier_message *m) {
  struct rondo_hand *h = &rondo_hand;
  (void)c;
  must(m->endpoint < RONDO_HAND_ENDPOINTS);
  if ((h->refuses && h->said_count >= h->accepts) || h->sending_count == RONDO_HAND_PENDING)
    return RONDO_ERR_PEER;
  memcpy(&h->said, m->head, sizeof h->said);
  h->said_count++;
  h->said_endpoint = m->endpoint;
  h->sending[h->sending_count++] = (struct rondo_hand_pending){
      m->ticket, (uint8_t *)(uintptr_t)m->payload, m->bytes, h->said, m->endpoint};
  return RONDO_SUCCESS;
}

static int hand_progress(struct rondo_carrier *c) {
  struct rondo_hand *h = &rondo_hand;
  (void)c;
  h->receives++;
  if (!h->sends_in || --h->sends_in)
    return 0;
  while (h->sending_count)
    rondo_hand_sent(0, RONDO_SUCCESS);
  return 1;
}

static int hand_connect(struct rondo_carrier *c, uint32_t process, const void *address,
                        size_t bytes, uint32_t endpoints) {
  (void)c, (void)process, (void)address, (void)bytes;
  must(endpoints > rondo_hand.connected || process != rondo_hand.connected_to);
  rondo_hand.connected = endpoints;
  rondo_hand.connected_to = process;
  return RONDO_SUCCESS;
}

static void hand_identify(struct rondo_carrier *c, uint32_t process) {
  (void)c;
  rondo_hand.identified |= 1u << process;
}

static const struct rondo_carrier_calls calls = {.name = "hand",
                                                 .open = hand_open,
                                                 .address = hand_address,
                                                 .connect = hand_connect,
                                                 .send = hand_send,
                                                 .progress = hand_progress,
                                                 .arm = rondo_null_arm,
                                                 .sleep = rondo_null_sleep,
                                                 .wake = rondo_null_wake,
                                                 .identify = hand_identify,
                                                 // What is on its way when a process is cut
                                                 // ends some time later: the test says when.
                                                 .disconnect = rondo_null_disconnect,
                                                 .close = rondo_null_close};

// -------------------------------------------------------------------- the owner ---

static void on_over(void *owner, struct rondo_proxy_link *link, int is_whole) {
  struct rondo_hand_link *l = rondo_proxy_link_config(link)->tag;
  (void)owner;
  if (l->link != link) {
    fprintf(stderr, "a link is over twice\n");
    abort();
  }
  l->link = NULL;
  l->is_whole = is_whole;
}

static void on_broken(void *owner, uint32_t process, const char *text) {
  (void)owner, (void)text;
  rondo_hand.broken |= 1u << process;
}

static void on_arrival(void *owner, const struct rondo_proxy_link *link) {
  (void)owner, (void)link;
}

static int is_used(void *owner, const struct rondo_proxy_link *link) {
  (void)owner, (void)link;
  return !rondo_hand.is_unused;
}

void rondo_hand_open(void) {
  struct rondo_hand *h = &rondo_hand;
  struct rondo_proxy_config config = {.calls = &calls,
                                      .self = RONDO_HAND_SELF,
                                      .process_count = RONDO_HAND_PROCESSES,
                                      .endpoints = RONDO_HAND_ENDPOINTS,
                                      .is_manual = 1,
                                      .piece_bytes = RONDO_HAND_PIECE_BYTES,
                                      .over = on_over,
                                      .broken = on_broken,
                                      .on_arrival = on_arrival,
                                      .is_used = is_used};
  struct {
    struct rondo_proxy_address head;
    uint32_t process;
  } address = {.head = {.carrier = "hand"}};
  char why[64];
  size_t bytes = 0;
  memset(h, 0, sizeof *h);
  must(rondo_proxy_create(&config, &h->proxy, why, sizeof why) == RONDO_SUCCESS);
  memcpy(&h->token, rondo_proxy_address(h->proxy, &bytes), sizeof h->token);
  for (uint32_t p = 1; p < RONDO_HAND_PROCESSES; p++) {
    address.process = p;
    address.head.token = p;
    must(rondo_proxy_meet(h->proxy, p, &address, sizeof address) == RONDO_SUCCESS);
  }
}

void rondo_hand_close(void) {
  struct rondo_hand *h = &rondo_hand;
  while (h->landing_count)
    rondo_hand_land(0, 0, RONDO_ERR_PEER);
  while (h->sending_count)
    rondo_hand_sent(0, RONDO_ERR_PEER);
  rondo_proxy_destroy(h->proxy);
  for (uint32_t i = 0; i < h->link_count; i++)
    free(h->links[i].first);
}

// ------------------------------------------------------------------------ links ---

struct rondo_hand_link *rondo_hand_link(uint32_t process, int is_outgoing,
                                        uint32_t first_sequence) {
  struct rondo_hand *h = &rondo_hand;
  struct rondo_hand_link *l = &h->links[h->link_count++];
  uint64_t ahead = rondo_connector_bytes(RONDO_HAND_SLOTS);
  l->stride_bytes = ahead + (uint64_t)RONDO_HAND_SLOTS * RONDO_HAND_SLOT_BYTES;
  l->first = aligned_alloc(PAYLOAD_ALIGN, RONDO_HAND_BLOCKS * l->stride_bytes);
  must(l->first != NULL);
  memset(l->first, 0, RONDO_HAND_BLOCKS * l->stride_bytes);
  for (uint32_t b = 0; b < RONDO_HAND_BLOCKS; b++) {
    struct rondo_connector *c = (struct rondo_connector *)((char *)l->first + b * l->stride_bytes);
    c->slot_count = RONDO_HAND_SLOTS;
    c->slot_bytes = RONDO_HAND_SLOT_BYTES;
    c->payload = ahead;
    c->reference_bytes = UINT32_MAX;
    rondo_connector_init(c, first_sequence);
    rondo_endpoint_init(&l->ends[b], c, first_sequence);
    if (is_outgoing) // the block sends
      rondo_endpoint_open_send(&l->ends[b]);
    else
      rondo_endpoint_open_recv(&l->ends[b]);
  }
  struct rondo_proxy_link_config config = {.process = process,
                                           .is_outgoing = (uint32_t)is_outgoing,
                                           .first = l->first,
                                           .stride_bytes = l->stride_bytes,
                                           .blocks = RONDO_HAND_BLOCKS,
                                           .link_set = &h->link_set,
                                           .tag = l};
  l->link = rondo_proxy_link_create(h->proxy, &config);
  must(l->link != NULL);
  l->number = rondo_proxy_link_number(l->link);
  (void)rondo_proxy_progress(h->proxy);
  return l;
}

struct rondo_proxy_head rondo_hand_head(const struct rondo_hand_link *l, uint16_t type) {
  struct rondo_proxy_head head = {.token = rondo_hand.token, .link = l->number, .type = type};
  head.from = l->link ? rondo_proxy_link_config(l->link)->process : 1;
  head.back = 77;
  return head;
}

// ---------------------------------------------------------------------- messages ---

int rondo_hand_arrive(const void *head, size_t head_bytes, uint64_t bytes) {
  struct rondo_hand *h = &rondo_hand;
  void *ticket = NULL;
  if (h->landing_count == RONDO_HAND_PENDING)
    return 0;
  uint8_t *to = h->events->arrive(h->arg, head, head_bytes, bytes, &ticket);
  if (to)
    h->landing[h->landing_count++] =
        (struct rondo_hand_pending){.ticket = ticket, .to = to, .bytes = bytes};
  return to != NULL;
}

static struct rondo_hand_pending take(struct rondo_hand_pending *list, uint32_t *count,
                                      uint32_t i) {
  struct rondo_hand_pending taken = list[i];
  list[i] = list[--*count];
  return taken;
}

void rondo_hand_land(uint32_t i, uint8_t value, int status) {
  struct rondo_hand *h = &rondo_hand;
  struct rondo_hand_pending p = take(h->landing, &h->landing_count, i);
  memset(p.to, value, p.bytes);
  h->events->landed(h->arg, p.ticket, status);
}

void rondo_hand_sent(uint32_t i, int status) {
  struct rondo_hand *h = &rondo_hand;
  struct rondo_hand_pending p = take(h->sending, &h->sending_count, i);
  h->events->sent(h->arg, p.ticket, status);
}
