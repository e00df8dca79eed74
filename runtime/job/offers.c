#include "runtime/job/offers.h"

#include <stdlib.h>
#include <string.h>

#include "base/explore.h"
#include "base/list.h"
#include "base/log.h"
#include "runtime/job/match.h"
#include "runtime/job/processes.h"
#include "runtime/transport/link_binding.h"

// ------------------------------------------------------------------ sending ---

struct visit {
  struct rondo_job *job;
  const struct rondo_registration *r;
  void (*call)(const struct visit *v, uint32_t process);
  // For OFFERS.
  const struct rondo_connector_offer *offers;
  const uint32_t *processes; // of their producers
  uint32_t offer_count;
  void *bytes; // room for the longest message
};

// Calls once for each process that has a peer of the plan.
static void processes_visit(const struct visit *v) {
  v->job->mark++;
  for (uint32_t i = 0; i < rondo_plan_connector_count(v->r->plan); i++) {
    uint32_t rank = v->r->members[rondo_plan_connector_peer(v->r->plan, i)];
    uint32_t process = rondo_processes_where(v->job, rank);
    if (process >= v->job->process_count || v->job->processes[process].mark == v->job->mark)
      continue;
    v->job->processes[process].mark = v->job->mark;
    v->call(v, process);
  }
}

// The position of a member.
static uint32_t member_position(const struct rondo_registration *r, uint32_t rank) {
  uint32_t at = 0;
  while (r->members[at] != rank)
    at++;
  return at;
}

static void offers_send_to(const struct visit *v, uint32_t process) {
  const struct rondo_registration *r = v->r;
  struct rondo_message_offers *head = v->bytes;
  struct rondo_connector_offer *offers = (struct rondo_connector_offer *)(head + 1);
  head->offer_count = 0;
  for (uint32_t i = 0; i < v->offer_count; i++)
    if (v->processes[i] == process)
      offers[head->offer_count++] = v->offers[i];
  uint64_t *counts = (uint64_t *)(offers + head->offer_count);
  for (uint32_t i = 0; i < head->offer_count && head->descriptor.has_counts; i++) {
    uint32_t position = member_position(r, offers[i].from);
    *counts++ = r->desc->send_counts[position];
    *counts++ = r->desc->recv_counts[position];
  }
  rondo_processes_send(v->job, process, RONDO_MESSAGE_OFFERS, head,
                       rondo_message_offers_bytes(head));
}

void rondo_offers_send(struct rondo_job *job, struct rondo_registration *r) {
  uint32_t most = r->plan->recv.count;
  struct rondo_message_offers head = {.key = {r->id, r->generation, r->group},
                                      .descriptor = rondo_registration_descriptor(r),
                                      .rank = r->rank,
                                      .position = r->position,
                                      .offer_count = most};
  struct rondo_connector_offer *offers = malloc((most + 1) * sizeof *offers);
  uint32_t *processes = malloc((most + 1) * sizeof *processes);
  void *bytes = calloc(1, rondo_message_offers_bytes(&head));
  r->has_offered = 1;
  if (offers && processes && bytes) {
    struct visit v = {job, r, offers_send_to, offers, processes, 0, bytes};
    memcpy(bytes, &head, sizeof head);
    const struct rondo_binding_member member = rondo_match_binding_member(job, r);
    v.offer_count = rondo_binding_collect_offers(&job->transports, r->comm, &member, offers);
    for (uint32_t i = 0; i < v.offer_count; i++)
      processes[i] = rondo_processes_where(job, offers[i].from);
    processes_visit(&v);
  } else {
    rondo_log(RONDO_LOG_ERROR, "register: id %llu: no memory to send it to other processes",
              (unsigned long long)r->id.number);
    rondo_job_fail(job, r, RONDO_ERR_NO_MEMORY);
  }
  free(bytes);
  free(processes);
  free(offers);
}

static void detach_send_to(const struct visit *v, uint32_t process) {
  const struct rondo_message_detach message = {v->r->id, v->r->generation, v->r->rank, UINT32_MAX};
  rondo_processes_send(v->job, process, RONDO_MESSAGE_DETACH, &message, sizeof message);
}

void rondo_offers_detach(struct rondo_job *job, const struct rondo_registration *r) {
  const struct visit v = {.job = job, .r = r, .call = detach_send_to};
  if (r->has_offered)
    processes_visit(&v);
}

// Tells the process of a consumer that rank `producer`, which is here, will not use what the
// consumer has offered.
static void release_send(struct rondo_job *job, const struct rondo_offers *offers,
                         uint32_t producer) {
  const struct rondo_message_offers *head = offers->is.head;
  const struct rondo_message_detach message = {head->key.id, head->key.generation, head->rank,
                                               producer};
  rondo_processes_send(job, rondo_processes_where(job, head->rank), RONDO_MESSAGE_RELEASE, &message,
                       sizeof message);
}

// ---------------------------------------------------------------- receiving ---

struct rondo_offers *rondo_offers_find(const struct rondo_match_entry *m, uint32_t rank,
                                       uint64_t generation) {
  struct rondo_offers *o = m->offers;
  while (o && (o->is.head->rank != rank || o->is.head->key.generation != generation))
    o = o->next;
  return o;
}

bool rondo_offers_fit(const struct rondo_offers *offers, const struct rondo_registration *r) {
  const struct rondo_message_offers *head = offers->is.head;
  const struct rondo_descriptor ours = rondo_registration_descriptor(r);
  if (head->key.generation != r->generation || head->key.group != r->group ||
      head->position >= r->nranks || r->members[head->position] != head->rank)
    return false;
  return RONDO_FAULT(OFFERS_UNCHECKED) || !rondo_descriptor_difference(&ours, &head->descriptor);
}

const uint64_t *rondo_offers_counts(const struct rondo_offers *offers, uint32_t rank) {
  for (uint32_t i = 0; offers->is.counts && i < offers->is.head->offer_count; i++)
    if (offers->is.offers[i].from == rank)
      return &offers->is.counts[2 * (size_t)i];
  return NULL;
}

void rondo_offers_forget(struct rondo_match_entry *m, uint32_t rank) {
  for (struct rondo_offers **at = &m->offers; *at;) {
    struct rondo_offers *o = *at;
    if (o->is.head->rank != rank) {
      at = &o->next;
      continue;
    }
    *at = o->next;
    free(o);
  }
}

// True if a rank here uses the connectors that a consumer has offered to it. Then the end of its
// registration releases them.
static bool offer_is_used(const struct rondo_match_entry *m, const struct rondo_offers *offers,
                          uint32_t producer) {
  const struct rondo_message_offers *head = offers->is.head;
  const struct rondo_registration *r =
      rondo_match_entry_registration(m, producer, head->key.generation);
  const struct rondo_link *link =
      r && rondo_offers_fit(offers, r)
          ? rondo_communicator_link(r->comm, r->position, head->position)
          : NULL;
  return link && link->is_ready;
}

// The rank has ended its registration of that generation.
static void offers_detach(struct rondo_job *job, struct rondo_match_entry *m, uint32_t rank,
                          uint64_t generation) {
  struct rondo_offers *offers = rondo_offers_find(m, rank, generation);
  for (uint32_t i = 0; offers && i < offers->is.head->offer_count; i++)
    if (!offer_is_used(m, offers, offers->is.offers[i].from))
      release_send(job, offers, offers->is.offers[i].from);
  if (offers)
    RONDO_LIST_REMOVE(m->offers, offers, next);
  free(offers);
  rondo_match_release(job, m, generation, rank, UINT32_MAX);
}

static bool offers_receive(struct rondo_job *job, const struct rondo_mesh_message *message) {
  struct rondo_match_entry *m = NULL;
  struct rondo_offers *o = NULL;
  if (message->size >= sizeof(struct rondo_message_offers))
    o = malloc(sizeof *o + message->size);
  if (!o)
    return false;
  memcpy(o->bytes, message->bytes, message->size);
  const struct rondo_message_offers *head = (const struct rondo_message_offers *)o->bytes;
  if (rondo_message_offers_decode(o->bytes, message->size, job->rank_count, &o->is) &&
      rondo_processes_is_rank_at(job, head->rank, message->from))
    m = rondo_match_entry_get(job, head->key.id);
  if (!m || rondo_offers_find(m, head->rank, head->key.generation)) {
    free(o);
    return false;
  }
  o->next = m->offers;
  m->offers = o;
  rondo_match_offered(job, m, o);
  return true;
}

// DETACH and RELEASE.
static bool detach_receive(struct rondo_job *job, const struct rondo_mesh_message *message) {
  struct rondo_message_detach d;
  bool is_release = message->type == RONDO_MESSAGE_RELEASE;
  if (message->size != sizeof d)
    return false;
  memcpy(&d, message->bytes, sizeof d);
  if (!d.generation ||
      !rondo_processes_is_rank_at(job, is_release ? d.producer : d.rank, message->from))
    return false;
  struct rondo_match_entry *m = rondo_match_entry_find(job, d.id);
  if (m && is_release)
    rondo_match_release(job, m, d.generation, d.producer, d.rank);
  else if (m)
    offers_detach(job, m, d.rank, d.generation);
  if (m)
    rondo_match_entry_drop_if_over(job, m);
  return true;
}

bool rondo_offers_receive(struct rondo_job *job, const struct rondo_mesh_message *message) {
  return message->type == RONDO_MESSAGE_OFFERS ? offers_receive(job, message)
                                               : detach_receive(job, message);
}
