// Matching: which registrations make a communicator, when its gate opens, and what ends it.
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/node.h"
#include "runtime/api/rank.h"
#include "runtime/boot/meeting.h"
#include "runtime/boot/peers.h"
#include "runtime/order/spread.h"

// What ends the runs of a communicator: because of which rank, and why in words, if more can be said.
struct verdict {
  int status;
  uint32_t culprit;
  const char *why; // "": nothing more
};

static struct rondo_meeting *meeting_of(struct rondo_world *world, const struct rondo_party *p) {
  return rondo_meeting_find(world, p->desc->reserved, p->desc->id);
}

// Ends all runs of a communicator here.
static void fail(struct rondo_world *world, const struct rondo_meeting *m,
                 struct rondo_communicator *comm, const struct verdict *v) {
  if (!comm)
    return;
  if (v->why[0] && !comm->reason && comm->gate.state < RONDO_GATE_FAILED)
    comm->reason = strdup(v->why);
  rondo_communicator_fail(comm, v->status, v->culprit);
  if (world->mesh)
    rondo_peers_wake(world, comm);
  for (const struct rondo_party *p = m ? m->parties : NULL; p; p = p->next)
    if (p->comm == comm && p->owner)
      rondo_comm_hear(world, p->owner, comm);
  rondo_comms_spread(world);
}

// The same, and tells the others: the members of a group fail together, though not each of them knows
// the reason by itself.
static void fail_together(struct rondo_world *world, const struct rondo_meeting *m,
                          struct rondo_communicator *comm, const struct verdict *v) {
  if (!comm || comm->gate.state >= RONDO_GATE_FAILED)
    return;
  fail(world, m, comm, v);
  for (const struct rondo_party *p = m->parties; p; p = p->next) {
    if (p->comm != comm || !p->is_announced || RONDO_FAULT(FAILURE_UNTOLD))
      continue;
    struct rondo_notice_short notice = rondo_notice_about(p);
    notice.rank = p->rank;
    notice.other = v->culprit;
    notice.status = v->status;
    rondo_peers_tell(world, p, RONDO_NOTICE_FAIL, &notice, sizeof notice);
  }
}

// ------------------------------------------------------------------- links ---

static struct rondo_party *party_at(const struct rondo_meeting *m,
                                    const struct rondo_communicator *comm, uint32_t position) {
  struct rondo_party *p = rondo_meeting_party(m, comm->members[position], comm->generation);
  return p && p->comm == comm ? p : NULL;
}

enum binding { UNBOUND = 0, BOUND = 1, UNSOUND = 2 };

// The proxy forwards to connectors that it knows by a number.
static enum binding take_far_offer(const struct rondo_world *world, const struct rondo_link *link,
                                   const struct rondo_offer *offer) {
  if (offer->stride_bytes || !link->far || !rondo_proxy_has_met(world->proxy, link->process)) {
    rondo_log(
        RONDO_LOG_ERROR,
        "process %u does not offer connectors for messages: is another transport asked for there?",
        link->process);
    return UNSOUND;
  }
  rondo_proxy_link_bind(world->proxy, link->far, offer->at);
  return BOUND;
}

// Tells the connectors of an outgoing link what of our memory the consumer can read.
static enum binding lend(const struct rondo_world *world, const struct rondo_communicator *comm,
                         const struct rondo_link *link) {
  uint64_t ends[2];
  enum binding done = BOUND;
  rondo_near_lent(world, link->process, link->at.kind, &ends[0], &ends[1]);
  static_assert(offsetof(struct rondo_connector, reference_end) ==
                    offsetof(struct rondo_connector, reference_begin) + sizeof ends[0],
                "written at once");
  for (uint32_t b = 0; b < comm->shape.blocks && done == BOUND; b++) {
    struct rondo_connector *c = rondo_link_connector(link, b);
    if (rondo_place_write(link->at, &c->reference_begin, ends, sizeof ends) != RONDO_SUCCESS)
      done = UNSOUND;
  }
  return done;
}

// Takes the connectors that the consumer of an outgoing link offers, if it does.
static enum binding take_offer(struct rondo_world *world, const struct rondo_communicator *comm,
                               const struct rondo_party *consumer, struct rondo_link *link) {
  const struct rondo_offer *offer = NULL;
  for (uint32_t i = 0; i < consumer->offer_count; i++)
    if (consumer->offers[i].from == link->from)
      offer = &consumer->offers[i];
  uint64_t least = rondo_connector_bytes(comm->shape.slot_count);
  if (!offer)
    return UNBOUND;
  if (link->is_far)
    return take_far_offer(world, link, offer);
  if (!rondo_near_is_bindable(world, link->process))
    return UNBOUND;
  if (offer->at % RONDO_LINE_BYTES || offer->stride_bytes % RONDO_LINE_BYTES ||
      offer->stride_bytes < least || offer->stride_bytes > UINT64_MAX / comm->shape.blocks)
    return UNSOUND;
  link->first =
      rondo_near_find(world, link->process, offer, offer->stride_bytes * comm->shape.blocks);
  link->stride_bytes = offer->stride_bytes;
  link->at.device = comm->devices[link->from];
  link->at.kind = rondo_near_kind(offer);
  return link->first ? lend(world, comm, link) : UNSOUND;
}

// Tells the connectors of an incoming link how far from the producer's memory its mapping here is.
static enum binding set_bias(const struct rondo_world *world, const struct rondo_communicator *comm,
                             struct rondo_link *link) {
  const struct rondo_peer *peer = &world->peers[link->process];
  if (link->is_far)
    return BOUND; // the proxy writes to them, or has done so: messages may overtake notices
  if (!peer->map)
    return UNSOUND;
  const uint64_t bias = rondo_near_bias(world, link->process, link->at.kind);
  const uint32_t is_mapped = 1;
  for (uint32_t b = 0; b < comm->shape.blocks; b++) {
    struct rondo_connector *c = rondo_link_connector(link, b);
    if (rondo_place_write(link->at, &c->reference_bias, &bias, sizeof bias) ||
        rondo_place_write(link->at, &c->is_mapped, &is_mapped, sizeof is_mapped))
      return UNSOUND;
  }
  return BOUND;
}

// Makes the links to members elsewhere ready whose registrations have come. At once: who has sent all
// that it has to send may be gone again before the last member comes.
static void bind_links(struct rondo_world *world, struct rondo_meeting *m,
                       struct rondo_communicator *comm) {
  for (uint32_t i = 0; i < comm->link_count; i++) {
    struct rondo_link *link = &comm->links[i];
    if (link->is_ready)
      continue;
    const struct rondo_party *other = party_at(m, comm, link->is_outgoing ? link->to : link->from);
    if (!other)
      continue;
    enum binding done =
        link->is_outgoing ? take_offer(world, comm, other, link) : set_bias(world, comm, link);
    link->is_ready = done == BOUND;
    world->peers[link->process].links += link->is_ready;
    const struct verdict unsound = {RONDO_ERR_SYSTEM, other->rank, ""};
    if (done == UNSOUND)
      fail_together(world, m, comm, &unsound);
  }
}

void rondo_match_rebind(struct rondo_world *world, struct rondo_meeting *m) {
  for (struct rondo_communicator *comm = m->comms; comm; comm = comm->next) {
    if (!comm->present)
      continue;
    bind_links(world, m, comm);
    rondo_match_open(world, m, comm);
  }
}

// A communicator that nobody here uses any more lets go of its peers' memory.
static void unbind_links(struct rondo_world *world, struct rondo_communicator *comm) {
  for (uint32_t i = 0; i < comm->link_count; i++) {
    struct rondo_link *link = &comm->links[i];
    if (link->far && link->is_outgoing)
      rondo_proxy_link_close(world->proxy, link->far); // it sends the rest first
    if (link->process == RONDO_HERE || !link->is_ready)
      continue;
    link->is_ready = 0;
    rondo_peers_unuse(world, link->process);
  }
}

// The connectors to (`sends`) or from peer `index` of the party's plan.
static const struct rondo_link *peer_link(const struct rondo_party *p, int sends, uint32_t index) {
  uint32_t peer = rondo_plan_peer(p->plan, sends ? &p->plan->send : &p->plan->recv, index);
  return sends ? rondo_communicator_link(p->comm, p->position, peer)
               : rondo_communicator_link(p->comm, peer, p->position);
}

#define IMAGE_ENDPOINTS                                                                            \
  64u // that are written at once: without memory of their own, for this must not fail

// Writes the party's endpoints of one block to its device. Returns RONDO_SUCCESS or RONDO_ERR_SYSTEM.
static int write_block_endpoints(const struct rondo_world *world, const struct rondo_party *p,
                                 uint32_t block) {
  struct rondo_device *device = world->members[p->rank]->device;
  struct rondo_endpoint image[IMAGE_ENDPOINTS];
  uint32_t send_count = p->plan->send.count;
  uint32_t peers = send_count + p->plan->recv.count;
  uint64_t at = p->endpoints + (uint64_t)block * peers * sizeof *image;
  int status = RONDO_SUCCESS;
  for (uint32_t i = 0; i < peers && status == RONDO_SUCCESS; i++) {
    int sends = i < send_count;
    const struct rondo_link *link = peer_link(p, sends, sends ? i : i - send_count);
    uint32_t filled = i % IMAGE_ENDPOINTS + 1;
    rondo_endpoint_init(&image[filled - 1], rondo_link_connector(link, block),
                        p->shape.first_sequence);
    if (filled < IMAGE_ENDPOINTS && i + 1 < peers)
      continue;
    status = device->driver->write(device, at, image, filled * sizeof *image);
    at += filled * sizeof *image;
  }
  return status;
}

// Writes to a connector which byte is set for the block that has to be told. Both sides here: the
// block of the party is told. The other side in another process: the party's block tells itself for
// whom it has to ring. Each of those two processes writes the field that it uses.
static void write_ready(const struct rondo_world *world, struct rondo_daemon *d,
                        const struct rondo_link *link, int sends, uint32_t block) {
  struct rondo_connector *c = rondo_link_connector(link, block);
  int is_here = link->process == RONDO_HERE;
  uint64_t at = 0;
  if (is_here)
    at = d->driver->ready_at(d, block);
  else if (world->peers[link->process].bell)
    at = d->driver->ring_at(d, block, world->peers[link->process].bell - 1);
  if (sends == is_here)
    c->producer_ready = at;
  else
    c->consumer_ready = at;
}

static void write_block_ready(const struct rondo_world *world, const struct rondo_party *p,
                              uint32_t block) {
  struct rondo_daemon *d = world->members[p->rank]->daemon;
  uint32_t send_count = p->plan->send.count;
  if (!d->driver->ready_at)
    return;
  for (uint32_t i = 0; i < send_count + p->plan->recv.count; i++) {
    int sends = i < send_count;
    const struct rondo_link *link = peer_link(p, sends, sends ? i : i - send_count);
    if (!link->is_far)
      write_ready(world, d, link, sends, block);
  }
}

static int write_endpoints(const struct rondo_world *world, const struct rondo_party *p) {
  int status = RONDO_SUCCESS;
  for (uint32_t b = 0; b < p->shape.blocks && status == RONDO_SUCCESS; b++) {
    status = write_block_endpoints(world, p, b);
    write_block_ready(world, p, b);
  }
  return status;
}

void rondo_match_open(struct rondo_world *world, struct rondo_meeting *m,
                      struct rondo_communicator *comm) {
  if (comm->gate.state != RONDO_GATE_CLOSED || comm->joined < comm->shape.nranks)
    return;
  for (uint32_t i = 0; i < comm->shape.nranks; i++) {
    const struct rondo_party *p = party_at(m, comm, i);
    if (p && p->process == RONDO_HERE && !rondo_communicator_is_ready(comm, p->plan, p->position))
      return;
  }
  for (uint32_t i = 0; i < comm->shape.nranks; i++) {
    const struct rondo_party *p = party_at(m, comm, i);
    int status = p && p->process == RONDO_HERE ? write_endpoints(world, p) : RONDO_SUCCESS;
    if (status != RONDO_SUCCESS) {
      rondo_log(RONDO_LOG_ERROR, "id %llu: the device of rank %u does not take its connectors",
                (unsigned long long)p->desc->id, p->rank);
      const struct verdict refused = {status, p->rank, ""};
      fail_together(world, m, comm, &refused);
      return;
    }
  }
  rondo_store_release_u32(&comm->gate.state, RONDO_GATE_OPEN); // G1
  if (world->mesh)
    rondo_peers_wake(world, comm);
}

// ------------------------------------------------------------------ failing ---

void rondo_world_fail(struct rondo_world *world, struct rondo_party *party, int status) {
  int has_failed = party->owner && rondo_load_relaxed_u32(&party->owner->failed);
  const struct verdict v = {status, party->rank, has_failed ? party->owner->why : ""};
  fail(world, meeting_of(world, party), party->comm, &v);
  struct rondo_notice_short notice = rondo_notice_about(party);
  notice.rank = notice.other = party->rank;
  notice.status = status;
  if (party->is_announced)
    rondo_peers_tell(world, party, RONDO_NOTICE_FAIL, &notice, sizeof notice);
}

void rondo_match_fail(struct rondo_world *world, struct rondo_party *party, int status,
                      uint32_t culprit) {
  if (!party->comm && !party->failed_status) {
    party->failed_status = status;
    party->failed_by = culprit;
  }
  const struct verdict v = {status, culprit, ""};
  fail(world, meeting_of(world, party), party->comm, &v);
}

// Ends the communicators of those whose descriptor differs, and that of `party`.
static void fail_different(struct rondo_world *world, const struct rondo_meeting *m,
                           const struct rondo_party *party) {
  char text[RONDO_REASON_BYTES] = "";
  for (struct rondo_party *p = m->parties; p; p = p->next) {
    if (p == party || (p->process != RONDO_HERE && party->process != RONDO_HERE))
      continue;
    const char *what = rondo_party_meets(p, party) ? rondo_party_difference(party, p) : NULL;
    if (!what)
      continue;
    if (!text[0])
      rondo_party_report_mismatch(p, party, what, text);
    // Before the other side is told: the reason goes ahead (spread.c).
    const struct verdict of_theirs = {RONDO_ERR_MISMATCH, party->rank, text};
    fail_together(world, m, p->comm, &of_theirs);
    const struct verdict of_ours = {RONDO_ERR_MISMATCH, p->rank, text};
    fail_together(world, m, party->comm, &of_ours);
    // The other side may not hear of ours by itself: not everybody names everybody.
    const struct rondo_party *far = p->process == RONDO_HERE ? party : p;
    const struct rondo_party *near = far == p ? party : p;
    struct rondo_notice_short notice = rondo_notice_about(far);
    notice.rank = far->rank;
    notice.other = near->rank;
    notice.status = RONDO_ERR_MISMATCH;
    if (far->process != RONDO_HERE)
      rondo_peers_send(world, far->process, RONDO_NOTICE_FAIL, &notice, sizeof notice);
  }
}

// A member that has come to this meeting and gone before anybody else came never takes part. Had its
// registration failed, for a mismatch with others, those who come after it hear that and not that it has gone.
static void note_absentees(struct rondo_world *world, const struct rondo_meeting *m,
                           const struct rondo_party *party) {
  struct rondo_communicator *comm = party->comm;
  for (uint32_t i = 0; i < party->nranks; i++) {
    uint32_t member = party->members[i];
    const struct rondo_enrolment *e = rondo_enrolment_find(m, member);
    if (member == party->rank || !e || e->times < party->generation)
      continue;
    if (rondo_meeting_party(m, member, party->generation))
      continue;
    const struct verdict before = {e->failed_status, e->failed_by, ""};
    if (e->failed_status && e->failed_time == party->generation) {
      fail(world, m, comm, &before);
      continue;
    }
    comm->gate.culprit = member;
    comm->gate.last_run = 0;
  }
}

// Nor does one that is lost and has not come.
static void note_lost(struct rondo_world *world, const struct rondo_meeting *m,
                      const struct rondo_party *party) {
  for (uint32_t i = 0; i < party->nranks; i++) {
    const struct rondo_enrolment *e = rondo_enrolment_find(m, party->members[i]);
    const struct verdict lost = {RONDO_ERR_PEER, party->members[i], ""};
    if (world->gone[party->members[i]] && (!e || e->times < party->generation))
      fail(world, m, party->comm, &lost);
  }
}

// ----------------------------------------------------------------- matching ---

static void join(struct rondo_party *p, struct rondo_communicator *comm) {
  p->comm = comm;
  comm->joined++;
  comm->present += p->process == RONDO_HERE;
}

// Of those who have joined one has failed before, and it is not known for which reason: so this comes last.
static void fail_as_before(struct rondo_world *world, const struct rondo_meeting *m,
                           struct rondo_communicator *comm) {
  for (const struct rondo_party *p = m->parties; p; p = p->next) {
    const struct verdict before = {p->failed_status, p->failed_by, ""};
    if (p->comm == comm && p->failed_status)
      fail(world, m, comm, &before);
  }
}

// The communicator of those whose descriptor is equal, or null.
static struct rondo_communicator *find_equal(const struct rondo_meeting *m,
                                             const struct rondo_party *party) {
  for (struct rondo_party *p = m->parties; p; p = p->next)
    if (p->comm && rondo_party_meets(p, party) && !rondo_party_difference(party, p))
      return p->comm;
  return NULL;
}

// Takes in those from elsewhere who came before anybody here.
static void join_waiting(const struct rondo_meeting *m, const struct rondo_party *party) {
  for (struct rondo_party *p = m->parties; p; p = p->next)
    if (!p->comm && p != party && rondo_party_meets(p, party) && !rondo_party_difference(party, p))
      join(p, party->comm);
}

static void locate(const struct rondo_world *world, struct rondo_communicator *comm) {
  for (uint32_t i = 0; world->mesh && i < comm->shape.nranks; i++) {
    uint32_t process = rondo_peers_where(world, comm->members[i]);
    comm->where[i] = process;
    if (process >= world->peer_count)
      continue;
    // As long as it is not known where connectors from there shall lie, it may as well be anywhere.
    if (!rondo_near_is_settled(world, process))
      comm->where[i] = RONDO_SOMEWHERE;
    comm->is_far[i] = world->peers[process].reach == RONDO_TRANSPORT_UCX;
    comm->maps[i] = (uint8_t)rondo_near_maps(world, process);
  }
}

// 1 if it is known where every member is, or that it is nowhere.
static int is_located(const struct rondo_world *world, const struct rondo_communicator *comm) {
  for (uint32_t i = 0; i < comm->shape.nranks; i++)
    if (comm->where[i] == RONDO_SOMEWHERE && !world->gone[comm->members[i]])
      return 0;
  return 1;
}

// A member to which no transport leads.
static void check_reach(struct rondo_world *world, struct rondo_party *party) {
  for (uint32_t i = 0; i < party->nranks; i++) {
    uint32_t process = party->comm->where[i];
    if (process >= world->peer_count || world->peers[process].reach != RONDO_TRANSPORT_NONE)
      continue;
    char why[RONDO_WHY_BYTES];
    (void)rondo_peers_transport(world, world->members[party->rank], party->members[i], why,
                                sizeof why);
    rondo_log(RONDO_LOG_ERROR, "register: id %llu: no transport leads to rank %u: %s",
              (unsigned long long)party->desc->id, party->members[i], why);
    rondo_world_fail(world, party, RONDO_ERR_UNSUPPORTED);
    return;
  }
}

// Gives the far links that are new to the proxy.
static int open_far_links(struct rondo_world *world, struct rondo_meeting *m,
                          struct rondo_communicator *comm) {
  for (uint32_t i = 0; i < comm->link_count; i++) {
    struct rondo_link *link = &comm->links[i];
    if (!link->is_far || link->far || link->is_owed || link->is_ready)
      continue;
    struct rondo_proxy_link_config config = {.process = link->process,
                                             .is_outgoing = link->is_outgoing,
                                             .first = link->first,
                                             .stride_bytes = link->stride_bytes,
                                             .blocks = comm->shape.blocks,
                                             .circle = &comm->circle,
                                             .home = m,
                                             .tag = comm};
    link->far = rondo_proxy_link_create(world->proxy, &config);
    if (!link->far)
      return RONDO_ERR_NO_MEMORY;
    link->is_owed = 1;
  }
  return RONDO_SUCCESS;
}

void rondo_match_settle(struct rondo_world *world, struct rondo_meeting *m,
                        struct rondo_party *party) {
  locate(world, party->comm);
  if (!is_located(world, party->comm))
    return;
  check_reach(world, party);
  int status = rondo_communicator_connect(party->comm, party->plan, party->position);
  if (status == RONDO_SUCCESS)
    status = open_far_links(world, m, party->comm);
  if (status != RONDO_SUCCESS) {
    rondo_log(RONDO_LOG_ERROR, "register: id %llu: no memory for it, or connector_bytes is used up",
              (unsigned long long)party->desc->id);
    const struct verdict full = {status, party->rank, ""};
    fail(world, m, party->comm, &full);
  }
  note_lost(world, m, party);
  rondo_peers_announce(world, party);
  bind_links(world, m, party->comm);
  rondo_match_open(world, m, party->comm);
}

// Makes the communicator of the first of its members here.
static struct rondo_communicator *make(struct rondo_world *world, const struct rondo_party *party) {
  struct rondo_communicator *comm =
      rondo_communicator_create(&world->pool, &party->shape, party->members);
  if (!comm)
    return NULL;
  comm->generation = party->generation;
  locate(world, comm);
  return comm;
}

// Where a member is that registers: what it receives lies on the NUMA node of its device, or of this thread, which
// knows best where the buffers are.
static void note_place(struct rondo_communicator *comm, uint32_t position,
                       struct rondo_device *device) {
  comm->devices[position] = device;
  comm->nodes[position] = device->driver->node ? device->driver->node(device) : rondo_node_here();
}

int rondo_world_match(struct rondo_world *world, struct rondo_party *party) {
  pthread_mutex_lock(&world->lock);
  struct rondo_meeting *m = rondo_meeting_get(world, party->desc->reserved, party->desc->id);
  struct rondo_enrolment *e = m ? rondo_enrolment_get(m, party->rank) : NULL;
  struct rondo_communicator *comm = NULL;
  int fresh = 0;
  if (e) {
    party->generation = e->times + 1;
    comm = find_equal(m, party);
    fresh = !comm;
    if (fresh)
      comm = make(world, party);
  }
  if (comm)
    note_place(comm, party->position, world->members[party->rank]->device);
  if (!comm || rondo_communicator_connect(comm, party->plan, party->position) != RONDO_SUCCESS) {
    if (comm && fresh)
      rondo_communicator_destroy(comm);
    pthread_mutex_unlock(&world->lock);
    return RONDO_ERR_NO_MEMORY;
  }
  e->times++;
  join(party, comm);
  rondo_meeting_enter(m, party);
  if (party->owner)
    rondo_comm_own(party);
  if (fresh) {
    comm->next = m->comms;
    m->comms = comm;
    note_absentees(world, m, party);
    join_waiting(m, party);
  }
  fail_different(world, m, party);
  fail_as_before(world, m, comm);
  if (world->mesh)
    rondo_match_settle(world, m, party);
  else
    rondo_match_open(world, m, comm);
  if (party->owner)
    rondo_comm_hear(world, party->owner, comm);
  rondo_comms_spread(world);
  // It may have failed while the call that registers this was on its way.
  uint32_t failed = party->owner ? rondo_load_relaxed_u32(&party->owner->failed) : RONDO_SUCCESS;
  if (failed && comm->gate.state < RONDO_GATE_FAILED)
    rondo_world_fail(world, party, (int)failed);
  pthread_mutex_unlock(&world->lock);
  return RONDO_SUCCESS;
}

void rondo_match_arrive(struct rondo_world *world, struct rondo_meeting *m,
                        struct rondo_party *party) {
  struct rondo_communicator *comm = find_equal(m, party);
  rondo_meeting_enter(m, party);
  if (comm)
    join(party, comm);
  fail_different(world, m, party);
  if (!comm)
    return;
  bind_links(world, m, comm);
  rondo_match_open(world, m, comm);
}

// ------------------------------------------------------------------ leaving ---

// Frees what nobody here uses and nobody elsewhere writes to.
static void drop(struct rondo_meeting *m, struct rondo_communicator *comm) {
  if (comm->present || (rondo_communicator_is_owed(comm) && !RONDO_FAULT(OWED_IGNORED)))
    return;
  struct rondo_communicator **at = &m->comms;
  while (*at != comm)
    at = &(*at)->next;
  *at = comm->next;
  rondo_communicator_destroy(comm);
}

static void limit_runs(struct rondo_world *world, const struct rondo_party *party,
                       uint64_t completed) {
  struct rondo_communicator *comm = party->comm;
  if (completed >= comm->gate.last_run)
    return;
  if (comm->gate.culprit == UINT32_MAX)
    rondo_store_relaxed_u32(&comm->gate.culprit, party->rank);
  rondo_store_release_u64(&comm->gate.last_run, completed); // G1
  if (world->mesh)
    rondo_peers_wake(world, comm);
}

void rondo_world_unmatch(struct rondo_world *world, struct rondo_party *party, uint64_t completed) {
  pthread_mutex_lock(&world->lock);
  struct rondo_meeting *m = rondo_meeting_get(world, party->desc->reserved, party->desc->id);
  struct rondo_communicator *comm = party->comm;
  rondo_meeting_take(m, party);
  if (party->owner)
    rondo_comm_disown(party);
  limit_runs(world, party, completed);
  if (world->mesh)
    rondo_peers_withdraw(world, party, completed);
  if (--comm->present == 0) {
    unbind_links(world, comm);
    if (world->proxy)
      rondo_proxy_forget(world->proxy, &comm->circle); // nobody submits a run of it any more
    for (struct rondo_party *p = m->parties; p; p = p->next)
      if (p->comm == comm)
        p->comm = NULL;
    drop(m, comm);
  }
  if (world->mesh && m->space == RONDO_SPACE_COMM)
    rondo_meeting_drop_if_over(world, m);
  else
    rondo_meeting_drop_if_even(world, m, party);
  pthread_mutex_unlock(&world->lock);
}

// What a rank has submitted is seen here if it was counted before (H3).
static int is_running(struct rondo_world *world, const struct rondo_party *p) {
  const struct rondo_coll *coll =
      (const struct rondo_coll *)((const char *)p - offsetof(struct rondo_coll, party));
  const struct rondo_rank *rank = world->members[p->rank];
  return rank && rondo_load_seq_cst_u64(&rank->daemon->outstanding) && // P4
         rondo_load_relaxed_u64(&coll->submitted) != rondo_load_acquire_u64(&coll->completed);
}

int rondo_match_is_used(struct rondo_world *world, const struct rondo_proxy_link *far) {
  const struct rondo_proxy_link_config *config = rondo_proxy_link_config(far);
  const struct rondo_meeting *m = config->home;
  for (const struct rondo_party *p = m->parties; p; p = p->next)
    if (p->comm == config->tag && p->process == RONDO_HERE && is_running(world, p))
      return 1;
  return 0;
}

void rondo_match_over(struct rondo_world *world, struct rondo_proxy_link *far, int is_whole) {
  const struct rondo_proxy_link_config *config = rondo_proxy_link_config(far);
  struct rondo_communicator *comm = config->tag; // it is there as long as it is owed anything
  struct rondo_meeting *m = config->home;        // ... and so is this
  for (uint32_t i = 0; i < comm->link_count; i++) {
    if (comm->links[i].far != far)
      continue;
    comm->links[i].far = NULL;
    comm->links[i].is_owed = 0;
    // Its producer may have taken leave already, and believe that all has come.
    if (!is_whole && comm->present && !RONDO_FAULT(LOSS_UNTOLD))
      fail_together(world, m, comm,
                    &(struct verdict){RONDO_ERR_PEER, comm->members[comm->links[i].from], ""});
  }
  drop(m, comm);
  rondo_meeting_drop_if_over(world, m);
}

// What is far is released by the proxy, which has all that was sent; `told`: that nothing ever was.
static void release_link(struct rondo_world *world, struct rondo_link *link, int told) {
  if (!link->is_far)
    link->is_owed = 0;
  else if (link->far && told)
    rondo_proxy_link_close(world->proxy, link->far);
}

void rondo_match_release(struct rondo_world *world, struct rondo_meeting *m, uint64_t generation,
                         uint32_t producer, uint32_t consumer) {
  struct rondo_communicator *next = NULL;
  for (struct rondo_communicator *comm = m->comms; comm; comm = next) {
    next = comm->next;
    if (generation && comm->generation != generation)
      continue;
    for (uint32_t i = 0; i < comm->link_count; i++) {
      struct rondo_link *link = &comm->links[i];
      if (comm->members[link->from] == producer &&
          (consumer == UINT32_MAX || comm->members[link->to] == consumer))
        release_link(world, link, consumer != UINT32_MAX);
    }
    drop(m, comm);
  }
}

// Tells the owner of connectors that were offered in vain that nobody here will write to them.
static void release_unused(struct rondo_world *world, const struct rondo_party *party) {
  for (uint32_t i = 0; i < party->offer_count; i++) {
    uint32_t from = party->offers[i].from;
    if (rondo_peers_where(world, party->members[from]) != RONDO_HERE)
      continue; // offered to another process
    const struct rondo_link *link =
        party->comm ? rondo_communicator_link(party->comm, from, party->position) : NULL;
    if (link && link->is_ready)
      continue; // our own deregistration will tell
    struct rondo_notice_short notice = rondo_notice_about(party);
    notice.rank = party->rank;
    notice.other = party->members[from];
    rondo_peers_send(world, party->process, RONDO_NOTICE_RELEASE, &notice, sizeof notice);
  }
}

void rondo_match_depart(struct rondo_world *world, struct rondo_meeting *m,
                        struct rondo_party *party, uint64_t completed) {
  struct rondo_enrolment *e = rondo_enrolment_find(m, party->rank);
  if (e && party->failed_status) {
    e->failed_status = party->failed_status;
    e->failed_by = party->failed_by;
    e->failed_time = party->generation;
  }
  rondo_meeting_take(m, party);
  if (party->comm)
    limit_runs(world, party, completed);
  release_unused(world, party);
  rondo_match_release(world, m, party->generation, party->rank, UINT32_MAX);
  free(party);
}

// Whether the communicator waits for, or depends on, a rank that is gone.
static int depends_on(const struct rondo_meeting *m, const struct rondo_communicator *comm,
                      uint32_t rank) {
  const struct rondo_enrolment *e = rondo_enrolment_find(m, rank);
  int has_come = e && e->times >= comm->generation;
  for (uint32_t i = 0; i < comm->shape.nranks; i++)
    if (comm->members[i] == rank)
      return !has_come || rondo_meeting_party(m, rank, comm->generation) != NULL;
  return 0;
}

void rondo_match_lost(struct rondo_world *world, struct rondo_meeting *m, uint32_t rank, int left) {
  for (struct rondo_communicator *comm = m->comms; comm; comm = comm->next) {
    if (!comm->present || !depends_on(m, comm, rank))
      continue;
    const struct verdict lost = {RONDO_ERR_PEER, rank, ""};
    fail_together(world, m, comm, &lost);
  }
  struct rondo_party *after = NULL;
  for (struct rondo_party *p = m->parties; p; p = after) {
    after = p->next;
    if (p->rank != rank || p->process == RONDO_HERE)
      continue;
    rondo_meeting_take(m, p);
    free(p);
  }
  // Who was cut off may be alive, and in the middle of a store: its connectors are not used again.
  if (left)
    rondo_match_release(world, m, 0, rank, UINT32_MAX);
}
