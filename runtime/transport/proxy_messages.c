// Messages of the proxy: transfers, sending and receiving.
#include <stdlib.h>
#include <string.h>

#include "runtime/transport/proxy_state.h"

// ----------------------------------------------------------------- transfers ---

static struct rondo_proxy_transfer *transfer_alloc(struct rondo_proxy *p) {
  struct rondo_proxy_transfer *f = p->idle;
  if (f)
    p->idle = f->next;
  else
    f = malloc(sizeof *f);
  if (f)
    memset(f, 0, sizeof *f);
  return f;
}

static void transfer_release(struct rondo_proxy *p, struct rondo_proxy_transfer *f) {
  f->next = p->idle;
  p->idle = f;
}

void rondo_proxy_transfers_free(struct rondo_proxy *p) {
  while (p->idle) {
    struct rondo_proxy_transfer *f = p->idle;
    p->idle = f->next;
    free(f);
  }
}

// ------------------------------------------------------------------ sending ---

static int peer_connect(struct rondo_proxy *p, uint32_t process, uint32_t endpoints) {
  struct rondo_proxy_peer *peer = &p->peers[process];
  if (peer->connected >= endpoints)
    return RONDO_SUCCESS;
  pthread_mutex_lock(&p->lock);
  const void *address = peer->address; // does not change once it is set
  size_t bytes = peer->address_bytes;
  pthread_mutex_unlock(&p->lock);
  int status = address ? p->config.calls->connect(p->carrier, process, address, bytes, endpoints)
                       : RONDO_ERR_PEER;
  if (status == RONDO_SUCCESS)
    peer->connected = endpoints;
  return status;
}

// Sends a message, after adding the token and the sender to its head. on_sent releases the
// transfer.
static int transfer_send(struct rondo_proxy *p, struct rondo_proxy_transfer *f,
                         const void *payload) {
  struct rondo_proxy_peer *peer = &p->peers[f->to];
  uint32_t endpoints = rondo_load_relaxed_u32(&peer->endpoints);
  int status = peer_connect(p, f->to, endpoints);
  f->head.token = peer->token;
  f->head.from = p->config.self;
  struct rondo_carrier_message m = {.to = f->to, .head = &f->head, .head_bytes = sizeof f->head};
  // Slots may overtake each other, because they have numbers and marks. Other messages use one
  // endpoint.
  m.endpoint = f->link ? (f->head.block + f->head.sequence) % endpoints : 0;
  m.payload = payload;
  m.bytes = f->head.bytes;
  m.ticket = f;
  if (status == RONDO_SUCCESS)
    status = p->config.calls->send(p->carrier, &m);
  if (status != RONDO_SUCCESS)
    rondo_proxy_break(p, m.to, "a message could not be sent");
  return status;
}

int rondo_proxy_send_head(struct rondo_proxy *p, uint32_t to, const struct rondo_proxy_head *head) {
  int can =
      rondo_proxy_is_reachable(p, to) && (p->peers[to].connected || rondo_proxy_has_met(p, to));
  struct rondo_proxy_transfer *f = can ? transfer_alloc(p) : NULL;
  if (!f)
    return 0;
  f->head = *head;
  f->to = to;
  if (transfer_send(p, f, NULL) == RONDO_SUCCESS)
    return 1;
  transfer_release(p, f);
  return 0;
}

int rondo_proxy_send_slot(struct rondo_proxy *p, struct rondo_proxy_link *link, uint32_t block,
                          const struct rondo_slot *slot) {
  struct rondo_proxied_connector *connector = &link->connectors[block];
  uint64_t bit = rondo_proxy_bit(rondo_proxy_connector(link, block), connector->end.sequence);
  struct rondo_proxy_transfer *f = transfer_alloc(p);
  if (!f)
    return 0;
  f->link = link;
  f->to = link->config.process;
  f->head =
      (struct rondo_proxy_head){.link = link->back, .back = link->number, .bytes = slot->bytes};
  f->head.count = rondo_slot_word(slot);
  f->head.sequence = connector->end.sequence;
  f->head.block = (uint16_t)block;
  f->head.type = RONDO_PROXY_DATA;
  rondo_proxy_links_enclose(p, f->to, &f->head);
  const void *payload = rondo_connector_payload(&connector->end, slot->bytes);
  connector->busy |= bit;
  connector->end.sequence++;
  link->sent++;
  link->transfers++;
  rondo_store_relaxed_u32(&p->transfers, p->transfers + 1);
  rondo_proxy_count(&p->counters.slots_sent);
  if (transfer_send(p, f, payload) == RONDO_SUCCESS)
    return 1;
  connector->busy &= ~bit;
  link->transfers--;
  rondo_store_relaxed_u32(&p->transfers, p->transfers - 1);
  transfer_release(p, f);
  return 0;
}

// ---------------------------------------------------------------- receiving ---

// Refuses a message that has the token but that no proxy sends.
static void head_refuse(struct rondo_proxy *p, const struct rondo_proxy_head *head) {
  rondo_proxy_count(&p->counters.refused);
  rondo_proxy_break(p, head->from, "it sent a message that no proxy sends");
}

// Receives a slot. Returns where its payload goes, or null.
static void *data_receive(struct rondo_proxy *p, const struct rondo_proxy_head *head,
                          void **ticket) {
  struct rondo_proxy_link *link = rondo_proxy_link_find(p, head->link, head->from);
  if (!link || link->is_closing)
    return NULL; // the link is over
  if (!rondo_proxy_link_expects(link, head)) {
    head_refuse(p, head);
    return NULL;
  }
  link->back = head->back;
  if (!head->bytes) {
    rondo_proxy_link_publish(p, link, head);
    return NULL;
  }
  struct rondo_proxy_transfer *f = transfer_alloc(p);
  if (!f) {
    rondo_proxy_break(p, head->from, "no memory for its messages");
    return NULL;
  }
  f->head = *head;
  f->link = link;
  link->transfers++;
  link->connectors[head->block].busy |=
      rondo_proxy_bit(rondo_proxy_connector(link, head->block), head->sequence);
  *ticket = f;
  struct rondo_endpoint end = link->connectors[head->block].end;
  end.sequence = head->sequence;
  return rondo_connector_payload(&end, head->bytes);
}

static void credit_receive(struct rondo_proxy *p, const struct rondo_proxy_head *head) {
  struct rondo_proxy_link *link = rondo_proxy_link_find(p, head->link, head->from);
  if (!link)
    return;
  if (!link->config.is_outgoing || head->block >= link->config.blocks) {
    head_refuse(p, head);
    return;
  }
  struct rondo_proxied_connector *connector = &link->connectors[head->block];
  // Credits may overtake each other. Ignores old ones, and credits for slots that were not sent.
  if ((int32_t)(head->sequence - connector->credited) <= 0 ||
      (int32_t)(connector->end.sequence - head->sequence) < 0)
    return;
  connector->credited = head->sequence;
  rondo_proxy_link_release(p, link, head->block);
}

static void enclosed_credit_receive(struct rondo_proxy *p, const struct rondo_proxy_head *head) {
  struct rondo_proxy_head credit = {.link = head->credit_link, .from = head->from};
  credit.sequence = head->credit_sequence;
  credit.block = head->credit_block;
  if (credit.link)
    credit_receive(p, &credit);
}

static void close_receive(struct rondo_proxy *p, const struct rondo_proxy_head *head) {
  struct rondo_proxy_link *link = rondo_proxy_link_find(p, head->link, head->from);
  struct rondo_proxy_head answer = {.link = head->back, .type = RONDO_PROXY_CLOSED};
  if (!link) {
    (void)rondo_proxy_send_head(p, head->from, &answer); // the link is over
  } else if (link->config.is_outgoing || link->is_closed || head->count < link->received) {
    head_refuse(p, head);
  } else {
    link->back = head->back;
    link->count = head->count;
    link->is_closed = 1;
  }
}

static void closed_receive(struct rondo_proxy *p, const struct rondo_proxy_head *head) {
  struct rondo_proxy_link *link = rondo_proxy_link_find(p, head->link, head->from);
  if (link && link->config.is_outgoing && link->has_sent_close)
    link->is_closed = 1;
}

static void *on_arrive(void *arg, const void *head_bytes, size_t size, uint64_t bytes,
                       void **ticket) {
  struct rondo_proxy *p = arg;
  struct rondo_proxy_head head;
  if (size == sizeof head)
    memcpy(&head, head_bytes, sizeof head);
  // Drops messages with a wrong token: the sender is not in this job.
  if (size != sizeof head || head.token != p->token || head.from >= p->config.process_count ||
      head.bytes != bytes || !rondo_proxy_is_reachable(p, head.from)) {
    rondo_proxy_count(&p->counters.refused);
    return NULL;
  }
  if (p->config.calls->identify)
    p->config.calls->identify(p->carrier, head.from);
  if (head.type == RONDO_PROXY_DATA) {
    enclosed_credit_receive(p, &head);
    return rondo_proxy_is_reachable(p, head.from) ? data_receive(p, &head, ticket) : NULL;
  }
  if (head.type == RONDO_PROXY_CREDIT)
    credit_receive(p, &head);
  else if (head.type == RONDO_PROXY_CLOSE)
    close_receive(p, &head);
  else if (head.type == RONDO_PROXY_CLOSED)
    closed_receive(p, &head);
  else
    head_refuse(p, &head);
  return NULL;
}

static void on_landed(void *arg, void *ticket, int status) {
  struct rondo_proxy *p = arg;
  struct rondo_proxy_transfer *f = ticket;
  struct rondo_proxy_link *link = f->link;
  link->connectors[f->head.block].busy &=
      ~rondo_proxy_bit(rondo_proxy_connector(link, f->head.block), f->head.sequence);
  link->transfers--;
  if (status == RONDO_SUCCESS)
    rondo_proxy_link_publish(p, link, &f->head);
  else
    rondo_proxy_break(p, f->head.from, "a message of it did not arrive");
  transfer_release(p, f);
}

static void on_sent(void *arg, void *ticket, int status) {
  struct rondo_proxy *p = arg;
  struct rondo_proxy_transfer *f = ticket;
  struct rondo_proxy_link *link = f->link;
  if (status != RONDO_SUCCESS)
    rondo_proxy_break(p, f->to, "a message did not reach it");
  if (link) {
    link->connectors[f->head.block].busy &=
        ~rondo_proxy_bit(rondo_proxy_connector(link, f->head.block), f->head.sequence);
    link->transfers--;
    rondo_store_relaxed_u32(&p->transfers, p->transfers - 1);
    rondo_proxy_link_release(p, link, f->head.block);
  }
  transfer_release(p, f);
}

static void on_broken(void *arg, uint32_t process, const char *text) {
  struct rondo_proxy *p = arg;
  if (process < p->config.process_count)
    rondo_proxy_break(p, process, text);
}

const struct rondo_carrier_events rondo_proxy_events = {on_arrive, on_landed, on_sent, on_broken};
