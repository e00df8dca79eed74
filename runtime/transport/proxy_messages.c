// Messages of the proxy: transfers, sending and receiving.
#include <stdlib.h>
#include <string.h>

#include "base/explore.h"
#include "runtime/transport/proxy_state.h"

#if defined(RONDO_EXPLORE)
#define PIECE_BYTES 16u // so that the small slots of the explorer come in pieces
#else
#define PIECE_BYTES 16384u // of a slot: the least that takes a connection longer than a message
#endif

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

static void transfers_release(struct rondo_proxy *p, struct rondo_proxy_transfer *f) {
  for (struct rondo_proxy_transfer *next = NULL; f; f = next) {
    next = f->next;
    transfer_release(p, f);
  }
}

// Allocates several, each the `next` of the one before. Null: no memory.
static struct rondo_proxy_transfer *transfers_alloc(struct rondo_proxy *p, uint32_t count) {
  struct rondo_proxy_transfer *all = NULL;
  for (uint32_t i = 0; i < count; i++) {
    struct rondo_proxy_transfer *f = transfer_alloc(p);
    if (!f) {
      transfers_release(p, all);
      return NULL;
    }
    f->next = all;
    all = f;
  }
  return all;
}

void rondo_proxy_arriving_drop(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  for (struct rondo_proxy_transfer *f; (f = LIST_FIRST(&link->arriving));) {
    LIST_REMOVE(f, listed);
    transfer_release(p, f);
  }
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
  // Slots and their pieces may overtake each other, because they have numbers and marks. Other
  // messages use one endpoint.
  uint32_t message = f->head.sequence * (f->head.last_piece + 1u) + f->head.piece;
  m.endpoint = f->link ? (f->head.block + message) % endpoints : 0;
  m.payload = payload;
  m.bytes = rondo_proxy_payload_bytes(&f->head);
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

// Over how many messages a slot is sent: one for each endpoint, unless they would be too small.
static uint32_t slot_piece_count(const struct rondo_proxy *p, uint32_t process, uint32_t bytes) {
  uint32_t endpoints = rondo_load_relaxed_u32(&p->peers[process].endpoints);
  uint32_t most = bytes / (p->config.piece_bytes ? p->config.piece_bytes : PIECE_BYTES);
  most = most < endpoints ? most : endpoints;
  return most ? most : 1;
}

// Ends so many messages of a slot that is sent. After the last one its memory is free.
static void slot_end_messages(struct rondo_proxy *p, struct rondo_proxy_transfer *first,
                              uint32_t count) {
  struct rondo_proxy_link *link = first->link;
  first->left -= count;
  if (first->left)
    return;
  link->connectors[first->head.block].busy &=
      ~rondo_proxy_bit(rondo_proxy_connector(link, first->head.block), first->head.sequence);
  link->transfers--;
  rondo_store_relaxed_u32(&p->transfers, p->transfers - 1);
  rondo_proxy_link_release(p, link, first->head.block);
  transfer_release(p, first);
}

// Sends a slot in one message for each transfer of the row, which gets its head. Returns 1, or 0 if
// the process cannot be reached.
static int slot_send_pieces(struct rondo_proxy *p, struct rondo_proxy_transfer *first,
                            const char *payload) {
  struct rondo_proxy_head head = first->head;
  struct rondo_proxy_transfer *next = NULL;
  for (struct rondo_proxy_transfer *f = first; f; f = next, head.piece++) {
    next = f->next; // `on_sent` may release `f`
    f->first = first;
    f->link = first->link;
    f->to = first->to;
    f->head = head;
    head.credit_link = 0; // once
    if (transfer_send(p, f, payload + rondo_proxy_piece_at(&head, head.piece)) == RONDO_SUCCESS)
      continue;
    transfers_release(p, f == first ? next : f);
    slot_end_messages(p, first, head.last_piece + 1u - head.piece);
    return 0;
  }
  return 1;
}

int rondo_proxy_send_slot(struct rondo_proxy *p, struct rondo_proxy_link *link, uint32_t block,
                          const struct rondo_slot *slot) {
  struct rondo_proxied_connector *connector = &link->connectors[block];
  uint32_t count = slot_piece_count(p, link->config.process, slot->bytes);
  struct rondo_proxy_transfer *first = transfers_alloc(p, count);
  if (!first)
    return 0;
  first->link = link;
  first->to = link->config.process;
  first->left = count;
  first->head =
      (struct rondo_proxy_head){.link = link->back, .back = link->number, .bytes = slot->bytes};
  first->head.count = rondo_slot_word(slot);
  first->head.sequence = connector->end.sequence;
  first->head.block = (uint16_t)block;
  first->head.type = RONDO_PROXY_DATA;
  first->head.last_piece = (uint8_t)(count - 1);
  rondo_proxy_links_enclose(p, first->to, &first->head);
  const void *payload = rondo_connector_payload(&connector->end, slot->bytes);
  connector->busy |= rondo_proxy_bit(rondo_proxy_connector(link, block), connector->end.sequence);
  connector->end.sequence++;
  link->sent++;
  link->transfers++;
  rondo_store_relaxed_u32(&p->transfers, p->transfers + 1);
  rondo_proxy_count(&p->counters.slots_sent);
  return slot_send_pieces(p, first, payload);
}

// ---------------------------------------------------------------- receiving ---

// Refuses a message that has the token but that no proxy sends.
static void head_refuse(struct rondo_proxy *p, const struct rondo_proxy_head *head) {
  rondo_proxy_count(&p->counters.refused);
  rondo_proxy_break(p, head->from, "it sent a message that no proxy sends");
}

// The transfer that stands for the slot of the message. Null: no piece of it has arrived yet.
static struct rondo_proxy_transfer *arriving_find(const struct rondo_proxy_link *link,
                                                  const struct rondo_proxy_head *head) {
  struct rondo_proxy_transfer *f = NULL;
  LIST_FOREACH (f, &link->arriving, listed)
    if (f->head.block == head->block && f->head.sequence == head->sequence)
      break;
  return f;
}

// True if the message can be one of the slot's: `first` stands for the slot, null if it is the
// first message of it that arrives.
static bool piece_is_expected(const struct rondo_proxy_link *link,
                              const struct rondo_proxy_transfer *first,
                              const struct rondo_proxy_head *head) {
  if (head->last_piece >= RONDO_PROXY_PIECES || head->piece > head->last_piece ||
      (head->last_piece && head->bytes <= head->last_piece))
    return false;
  if (!first)
    return rondo_proxy_link_expects(link, head);
  return head->bytes == first->head.bytes && head->count == first->head.count &&
         head->last_piece == first->head.last_piece && !(first->begun >> head->piece & 1);
}

// Makes the transfer of a message whose payload will land. Null: no memory.
static struct rondo_proxy_transfer *piece_begin(struct rondo_proxy *p,
                                                struct rondo_proxy_link *link,
                                                struct rondo_proxy_transfer *first,
                                                const struct rondo_proxy_head *head) {
  struct rondo_proxy_transfer *f = transfer_alloc(p);
  if (!f)
    return NULL;
  f->head = *head;
  f->link = link;
  f->first = first ? first : f;
  if (!first) {
    f->left = head->last_piece + 1u;
    LIST_INSERT_HEAD(&link->arriving, f, listed);
    link->connectors[head->block].busy |=
        rondo_proxy_bit(rondo_proxy_connector(link, head->block), head->sequence);
  }
  f->first->begun |= UINT64_C(1) << head->piece;
  link->transfers++;
  return f;
}

// Receives a slot, or a piece of one. Returns where its payload goes, or null.
static void *data_receive(struct rondo_proxy *p, const struct rondo_proxy_head *head,
                          void **ticket) {
  struct rondo_proxy_link *link = rondo_proxy_link_find(p, head->link, head->from);
  if (!link || link->is_closing)
    return NULL; // the link is over
  struct rondo_proxy_transfer *first = arriving_find(link, head);
  if (!piece_is_expected(link, first, head)) {
    head_refuse(p, head);
    return NULL;
  }
  link->back = head->back;
  if (!head->bytes) {
    rondo_proxy_link_publish(p, link, head);
    return NULL;
  }
  *ticket = piece_begin(p, link, first, head);
  if (!*ticket) {
    rondo_proxy_break(p, head->from, "no memory for its messages");
    return NULL;
  }
  struct rondo_endpoint end = link->connectors[head->block].end;
  end.sequence = head->sequence;
  char *payload = rondo_connector_payload(&end, head->bytes);
  return payload + rondo_proxy_piece_at(head, head->piece);
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
      rondo_proxy_payload_bytes(&head) != bytes || !rondo_proxy_is_reachable(p, head.from)) {
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

// Publishes a slot when all of it has landed. If a piece is lost, the slot stays as it is until the
// link is over.
static void on_landed(void *arg, void *ticket, int status) {
  struct rondo_proxy *p = arg;
  struct rondo_proxy_transfer *f = ticket;
  struct rondo_proxy_transfer *first = f->first;
  struct rondo_proxy_link *link = f->link;
  link->transfers--;
  if (status != RONDO_SUCCESS)
    rondo_proxy_break(p, f->head.from, "a message of it did not arrive");
  else if (--first->left == (RONDO_FAULT(PIECES_EARLY) ? first->head.last_piece : 0))
    rondo_proxy_link_publish(p, link, &first->head);
  if (f != first)
    transfer_release(p, f);
  if (first->left)
    return;
  link->connectors[first->head.block].busy &=
      ~rondo_proxy_bit(rondo_proxy_connector(link, first->head.block), first->head.sequence);
  LIST_REMOVE(first, listed);
  transfer_release(p, first);
}

static void on_sent(void *arg, void *ticket, int status) {
  struct rondo_proxy *p = arg;
  struct rondo_proxy_transfer *f = ticket;
  struct rondo_proxy_transfer *first = f->first;
  if (status != RONDO_SUCCESS)
    rondo_proxy_break(p, f->to, "a message did not reach it");
  if (f != first)
    transfer_release(p, f);
  if (first)
    slot_end_messages(p, first, 1);
}

static void on_broken(void *arg, uint32_t process, const char *text) {
  struct rondo_proxy *p = arg;
  if (process < p->config.process_count)
    rondo_proxy_break(p, process, text);
}

const struct rondo_carrier_events rondo_proxy_events = {on_arrive, on_landed, on_sent, on_broken};
