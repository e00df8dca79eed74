#include "runtime/transport/link_binding.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/log.h"
#include "runtime/transport/mapped.h"

void rondo_binding_locate(const struct rondo_transports *t, struct rondo_communicator *comm,
                          uint32_t position, uint32_t process) {
  struct rondo_communicator_member *m = rondo_communicator_member(comm, position);
  m->process = process;
  if (process >= t->peer_count)
    return;
  // The place of the member counts as unknown until the places of its connectors are known.
  if (!rondo_mapped_is_settled(t, process))
    m->process = RONDO_SOMEWHERE;
  m->is_proxied = t->peers[process].reach == RONDO_TRANSPORT_UCX;
  m->maps = (uint8_t)rondo_mapped_places(t, process);
}

int rondo_binding_open_proxied(const struct rondo_transports *t, struct rondo_communicator *comm,
                               void *home) {
  for (uint32_t i = 0; i < comm->link_count; i++) {
    struct rondo_link *link = &comm->links[i];
    if (!link->is_proxied || link->is_opened)
      continue;
    struct rondo_proxy_link_config config = {.process = link->process,
                                             .is_outgoing = link->is_outgoing,
                                             .first = link->first,
                                             .stride_bytes = link->stride_bytes,
                                             .blocks = comm->shape.blocks,
                                             .link_set = &comm->link_set,
                                             .home = home,
                                             .tag = comm};
    link->proxy_link = rondo_proxy_link_create(t->proxy, &config);
    if (!link->proxy_link)
      return RONDO_ERR_NO_MEMORY;
    link->is_opened = link->is_owed = 1;
  }
  return RONDO_SUCCESS;
}

// -------------------------------------------------------------------- offers ---

// Processes that share the arena directly have connectors of other kinds there.
static uint32_t offer_place(int kind) {
  return kind < RONDO_PLACE_EXPORTED ? 0 : (uint32_t)(kind - RONDO_PLACE_EXPORTED);
}

// Writes to a connector where the ready flag of the member's collective is. A producer's flag is
// set only by a consumer in the same process: between two arenas, each process has another
// distance.
static void link_write_flag(const struct rondo_link *link, const struct rondo_binding_member *m,
                            int sends, uint32_t block) {
  struct rondo_connector *c = rondo_link_connector(link, block);
  const uint8_t *flag =
      rondo_daemon_flag(m->daemon, block, m->index ^ (RONDO_FAULT(FLAG_OF_OTHER) ? 1 : 0));
  if (flag)
    *(sends ? &c->producer_flag : &c->consumer_flag) =
        (uint64_t)(uintptr_t)flag - (uint64_t)(uintptr_t)c;
}

uint32_t rondo_binding_collect_offers(const struct rondo_transports *t,
                                      struct rondo_communicator *comm,
                                      const struct rondo_binding_member *member,
                                      struct rondo_connector_offer *offers) {
  const struct rondo_plan *plan = member->plan;
  uint32_t count = 0;
  for (uint32_t i = 0; i < plan->recv.count; i++) {
    uint32_t from = rondo_plan_peer(plan, &plan->recv, i);
    struct rondo_link *link = rondo_communicator_link(comm, from, member->position);
    if (!link || link->process == RONDO_HERE || (link->is_proxied && !link->proxy_link))
      continue;
    struct rondo_connector_offer offer = {.from = comm->ranks[from]};
    if (link->is_proxied) {
      offer.at = rondo_proxy_link_number(link->proxy_link);
    } else {
      offer.place = offer_place(link->at.kind);
      offer.at = (uint64_t)(uintptr_t)link->first - rondo_mapped_base(t, link->at.kind);
      offer.stride_bytes = link->stride_bytes;
      link->is_owed = 1;
    }
    for (uint32_t b = 0; b < comm->shape.blocks; b++)
      link_write_flag(link, member, 0, b); // the producer may publish before our gate is open
    offers[count++] = offer;
  }
  return count;
}

// ------------------------------------------------------------------- binding ---

static enum rondo_binding link_bind_proxied(const struct rondo_transports *t,
                                            const struct rondo_link *link,
                                            const struct rondo_connector_offer *offer) {
  // It is opened, and then bound, once its connectors have been written to the device.
  if (!link->proxy_link && !offer->stride_bytes)
    return RONDO_BINDING_WAITS;
  if (offer->stride_bytes || !rondo_proxy_has_met(t->proxy, link->process)) {
    rondo_log(RONDO_LOG_ERROR,
              "process %u offers no connectors for the proxy: does its configuration ask for "
              "another transport?",
              link->process);
    return RONDO_BINDING_UNSOUND;
  }
  rondo_proxy_link_bind(t->proxy, link->proxy_link, offer->at);
  return RONDO_BINDING_READY;
}

static enum rondo_binding link_bind_outgoing(struct rondo_transports *t,
                                             struct rondo_communicator *comm,
                                             struct rondo_link *link,
                                             const struct rondo_connector_offer *offers,
                                             uint32_t offer_count) {
  const struct rondo_connector_offer *offer = NULL;
  for (uint32_t i = 0; i < offer_count; i++)
    if (offers[i].from == comm->ranks[link->from])
      offer = &offers[i];
  if (!offer)
    return RONDO_BINDING_WAITS;
  if (link->is_proxied)
    return link_bind_proxied(t, link, offer);
  if (!rondo_mapped_is_bindable(t, link->process))
    return RONDO_BINDING_WAITS;
  if (offer->at % RONDO_LINE_BYTES || offer->stride_bytes % RONDO_LINE_BYTES ||
      offer->stride_bytes < rondo_connector_bytes(comm->shape.slot_count) ||
      offer->stride_bytes > UINT64_MAX / comm->shape.blocks ||
      offer->place > offer_place(RONDO_PLACE_WINDOW))
    return RONDO_BINDING_UNSOUND;
  bool waits = false;
  link->at.device = rondo_communicator_member(comm, link->from)->device;
  link->at.kind = RONDO_PLACE_EXPORTED + (int)offer->place;
  link->stride_bytes = offer->stride_bytes;
  link->first = rondo_mapped_find(t, link->process, link->at.kind, offer->at,
                                  offer->stride_bytes * comm->shape.blocks, &waits);
  if (waits)
    return RONDO_BINDING_WAITS;
  return link->first ? RONDO_BINDING_READY : RONDO_BINDING_UNSOUND;
}

static enum rondo_binding link_bind_incoming(const struct rondo_transports *t,
                                             const struct rondo_link *link) {
  // The proxy may have written to a proxied link: slots overtake messages. One that was ready
  // before it has been opened would never be opened.
  if (link->is_proxied)
    return link->is_opened ? RONDO_BINDING_READY : RONDO_BINDING_WAITS;
  return t->peers[link->process].map ? RONDO_BINDING_READY : RONDO_BINDING_UNSOUND;
}

enum rondo_binding rondo_binding_bind(struct rondo_transports *t, struct rondo_communicator *comm,
                                      struct rondo_link *link,
                                      const struct rondo_connector_offer *offers,
                                      uint32_t offer_count) {
  enum rondo_binding done = link->is_outgoing
                                ? link_bind_outgoing(t, comm, link, offers, offer_count)
                                : link_bind_incoming(t, link);
  link->is_ready = done == RONDO_BINDING_READY;
  t->peers[link->process].links += link->is_ready;
  return done;
}

void rondo_binding_unbind(struct rondo_transports *t, struct rondo_communicator *comm) {
  for (uint32_t i = 0; i < comm->link_count; i++) {
    struct rondo_link *link = &comm->links[i];
    if (link->proxy_link && link->is_outgoing)
      rondo_proxy_link_close(t->proxy,
                             link->proxy_link); // the proxy first sends what was published
    if (link->process == RONDO_HERE || !link->is_ready)
      continue;
    link->is_ready = 0;
    rondo_transports_unuse(t, link->process);
  }
  if (t->proxy)
    rondo_proxy_forget(t->proxy, &comm->link_set); // no rank submits runs of it any more
}

// ----------------------------------------------------------------- endpoints ---

// A member of a communicator, for writing its endpoints.
struct member {
  const struct rondo_transports *transports;
  const struct rondo_communicator *comm;
  struct rondo_binding_member is;
  struct rondo_gate_write *next; // the next gate write of the present block
};

// The link of a connector of the member's plan.
static const struct rondo_link *member_link(const struct member *m, uint32_t index) {
  const struct rondo_plan_connector at = rondo_plan_connector_at(m->is.plan, m->is.position, index);
  return rondo_communicator_link(m->comm, at.from, at.to);
}

// Writes words to `to`, or lets the block write them.
static void block_write(struct member *m, struct rondo_place at, void *to, const void *from,
                        size_t bytes) {
  if (rondo_place_is_direct(at)) {
    memcpy(to, from, bytes);
    return;
  }
  for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
    assert(m->next);
    struct rondo_gate_write *w = m->next++;
    w->to = (uint64_t)(uintptr_t)to + i;
    memcpy(&w->value, (const char *)from + i, sizeof w->value);
  }
}

// Writes to a connector of an outgoing link which of our memory the consumer can read, and to one
// of an incoming link how far our mapping of the producer's memory is from the producer's own
// addresses.
static void block_write_mapping(struct member *m, const struct rondo_link *link, uint32_t block) {
  struct rondo_connector *c = rondo_link_connector(link, block);
  if (link->process == RONDO_HERE || link->is_proxied)
    return;
  if (link->is_outgoing) {
    uint64_t bounds[2];
    static_assert(offsetof(struct rondo_connector, reference_end) ==
                      offsetof(struct rondo_connector, reference_begin) + sizeof bounds[0],
                  "written at once");
    rondo_mapped_exported(m->transports, link->process, link->at.kind, &bounds[0], &bounds[1]);
    block_write(m, link->at, &c->reference_begin, bounds, sizeof bounds);
  } else {
    uint64_t bias = rondo_mapped_bias(m->transports, link->process, link->at.kind);
    block_write(m, link->at, &c->reference_bias, &bias, sizeof bias);
  }
}

static void block_write_endpoints(struct member *m, uint32_t block) {
  const struct rondo_place place = {.device = m->is.daemon->device, .kind = RONDO_MEMORY_DEVICE};
  uint32_t peers = rondo_plan_connector_count(m->is.plan);
  struct rondo_endpoint *table = (struct rondo_endpoint *)(uintptr_t)m->is.endpoints;
  for (uint32_t i = 0; i < peers; i++) {
    const struct rondo_link *link = member_link(m, i);
    struct rondo_endpoint endpoint;
    rondo_endpoint_init(&endpoint, rondo_link_connector(link, block),
                        m->comm->shape.first_sequence);
    block_write(m, place, &table[(size_t)block * peers + i], &endpoint, RONDO_ENDPOINT_INIT_BYTES);
    block_write_mapping(m, link, block);
  }
}

// Writes to a connector which byte a block sets when it has moved something. Within this process,
// the peer sets the ready byte of the member's own block. Towards another process, the member's
// block sets its byte for the event count of that process. Each side writes the field that it uses.
static void link_write_ready(const struct member *m, const struct rondo_link *link, int sends,
                             uint32_t block) {
  const struct rondo_driver *driver = m->is.daemon->driver;
  struct rondo_connector *c = rondo_link_connector(link, block);
  int is_here = link->process == RONDO_HERE;
  uint64_t at = 0;
  if (is_here)
    at = driver->ready_byte(m->is.daemon, block);
  else if (m->transports->peers[link->process].event_count)
    at = driver->moved_byte(m->is.daemon, block,
                            m->transports->peers[link->process].event_count - 1);
  if (sends == is_here)
    c->producer_ready = at;
  else
    c->consumer_ready = at;
}

static void block_write_ready(const struct member *m, uint32_t block) {
  uint32_t sends = m->is.plan->send.count;
  for (uint32_t i = 0; i < rondo_plan_connector_count(m->is.plan); i++) {
    const struct rondo_link *link = member_link(m, i);
    if (!link->is_proxied)
      link_write_ready(m, link, i < sends, block);
    if (link->is_proxied ? i < sends : link->process == RONDO_HERE)
      link_write_flag(link, &m->is, i < sends, block);
  }
}

void rondo_binding_write_endpoints(const struct rondo_transports *t,
                                   const struct rondo_communicator *comm,
                                   const struct rondo_binding_member *member) {
  struct member m = {t, comm, *member, NULL};
  for (uint32_t b = 0; b < comm->shape.blocks; b++) {
    if (member->gate_writes)
      m.next = &member->gate_writes[(size_t)b * rondo_binding_gate_writes(member->plan)];
    block_write_endpoints(&m, b);
    if (member->daemon->driver->ready_byte)
      block_write_ready(&m, b);
  }
}
