// Matching: which registrations make a communicator, when its gate opens, and what ends it.
#include "runtime/job/match.h"

#include <stdlib.h>
#include <string.h>

#include "base/explore.h"
#include "base/log.h"
#include "base/node.h"
#include "runtime/job/processes.h"
#include "runtime/transport/binding.h"
#include "runtime/transport/proxy.h"

// What ends the runs of a communicator: because of which rank, and why in words, if more can be said.
struct verdict {
  int status;
  uint32_t culprit;
  const char *why; // "": nothing more
};

static struct rondo_match_entry *entry_of(struct rondo_job *job,
                                          const struct rondo_registration *p) {
  return rondo_match_entry_find(job, p->id);
}

static void own(struct rondo_registration *r) {
  r->next_owned = r->owner->registrations;
  r->owner->registrations = r;
}

static void disown(const struct rondo_registration *r) {
  struct rondo_registration **at = &r->owner->registrations;
  while (*at && *at != r)
    at = &(*at)->next_owned;
  if (*at)
    *at = r->next_owned;
}

// Ends all runs of a communicator here.
static void fail(struct rondo_job *job, const struct rondo_match_entry *m,
                 struct rondo_communicator *comm, const struct verdict *v) {
  if (!comm)
    return;
  if (v->why[0] && !comm->reason && comm->gate.state < RONDO_GATE_FAILED)
    comm->reason = strdup(v->why);
  rondo_communicator_fail(comm, v->status, v->culprit);
  if (job->mesh)
    rondo_job_wake_members(job, comm);
  for (const struct rondo_registration *p = m ? m->registrations : NULL; p; p = p->next)
    if (p->comm == comm && p->owner)
      rondo_job_tell_failed(job, p->owner, comm);
  rondo_job_settle(job);
}

// The same, and tells the others: the members of a group fail together, though not each of them knows
// the reason by itself.
static void fail_together(struct rondo_job *job, const struct rondo_match_entry *m,
                          struct rondo_communicator *comm, const struct verdict *v) {
  if (!comm || comm->gate.state >= RONDO_GATE_FAILED)
    return;
  fail(job, m, comm, v);
  for (const struct rondo_registration *p = m->registrations; p; p = p->next) {
    if (p->comm != comm || !p->is_announced || RONDO_FAULT(FAILURE_UNTOLD))
      continue;
    struct rondo_message_short notice = rondo_message_about(p->id, p->generation, p->rank);
    notice.rank = p->rank;
    notice.other = v->culprit;
    notice.status = v->status;
    rondo_processes_send_all(job, p->members, p->nranks, RONDO_MESSAGE_FAIL, &notice,
                             sizeof notice);
  }
}

// ------------------------------------------------------------------- links ---

static struct rondo_registration *registration_at(const struct rondo_match_entry *m,
                                                  const struct rondo_communicator *comm,
                                                  uint32_t position) {
  struct rondo_registration *p =
      rondo_match_entry_registration(m, comm->members[position], comm->generation);
  return p && p->comm == comm ? p : NULL;
}

// Binds the links to members elsewhere whose registrations have come. At once, because a rank that has
// sent all that it has to send may be gone again before the last member comes.
static void bind_links(struct rondo_job *job, struct rondo_match_entry *m,
                       struct rondo_communicator *comm) {
  for (uint32_t i = 0; i < comm->link_count; i++) {
    struct rondo_link *link = &comm->links[i];
    if (link->is_ready)
      continue;
    const struct rondo_registration *other =
        registration_at(m, comm, link->is_outgoing ? link->to : link->from);
    if (!other)
      continue;
    const struct verdict unsound = {RONDO_ERR_SYSTEM, other->rank, ""};
    if (rondo_binding_bind(&job->transports, comm, link, other->offers, other->offer_count) ==
        RONDO_BINDING_UNSOUND)
      fail_together(job, m, comm, &unsound);
  }
}

static void comm_open(struct rondo_job *job, struct rondo_match_entry *m,
                      struct rondo_communicator *comm);

void rondo_match_rebind(struct rondo_job *job, struct rondo_match_entry *m) {
  for (struct rondo_communicator *comm = m->comms; comm; comm = comm->next) {
    if (!comm->present)
      continue;
    bind_links(job, m, comm);
    comm_open(job, m, comm);
  }
}

static int write_endpoints(const struct rondo_job *job, const struct rondo_registration *r) {
  return rondo_binding_write_endpoints(&job->transports, r->comm, r->plan, r->position,
                                       job->members[r->rank]->daemon, r->endpoints);
}

// Opens the gate if all members are there and all links are ready.
static void comm_open(struct rondo_job *job, struct rondo_match_entry *m,
                      struct rondo_communicator *comm) {
  if (comm->gate.state != RONDO_GATE_CLOSED || comm->joined < comm->shape.nranks)
    return;
  for (uint32_t i = 0; i < comm->shape.nranks; i++) {
    const struct rondo_registration *p = registration_at(m, comm, i);
    if (p && p->process == RONDO_HERE && !rondo_communicator_is_ready(comm, p->plan, p->position))
      return;
  }
  for (uint32_t i = 0; i < comm->shape.nranks; i++) {
    const struct rondo_registration *p = registration_at(m, comm, i);
    int status = p && p->process == RONDO_HERE ? write_endpoints(job, p) : RONDO_SUCCESS;
    if (status != RONDO_SUCCESS) {
      rondo_log(RONDO_LOG_ERROR, "id %llu: the device of rank %u does not take its connectors",
                (unsigned long long)p->id.number, p->rank);
      const struct verdict refused = {status, p->rank, ""};
      fail_together(job, m, comm, &refused);
      return;
    }
  }
  rondo_store_release_u32(&comm->gate.state, RONDO_GATE_OPEN); // G1
  if (job->mesh)
    rondo_job_wake_members(job, comm);
}

// ------------------------------------------------------------------ failing ---

void rondo_job_fail(struct rondo_job *job, struct rondo_registration *registration, int status) {
  int has_failed = registration->owner && rondo_load_relaxed_u32(&registration->owner->failed);
  const struct verdict v = {status, registration->rank, has_failed ? registration->owner->why : ""};
  fail(job, entry_of(job, registration), registration->comm, &v);
  struct rondo_message_short notice =
      rondo_message_about(registration->id, registration->generation, registration->rank);
  notice.rank = notice.other = registration->rank;
  notice.status = status;
  if (registration->is_announced)
    rondo_processes_send_all(job, registration->members, registration->nranks, RONDO_MESSAGE_FAIL,
                             &notice, sizeof notice);
}

void rondo_match_fail(struct rondo_job *job, struct rondo_registration *registration, int status,
                      uint32_t culprit) {
  if (!registration->comm && !registration->failed_status) {
    registration->failed_status = status;
    registration->failed_by = culprit;
  }
  const struct verdict v = {status, culprit, ""};
  fail(job, entry_of(job, registration), registration->comm, &v);
}

// Ends the communicators of those whose descriptor differs, and that of `registration`.
static void fail_different(struct rondo_job *job, const struct rondo_match_entry *m,
                           const struct rondo_registration *registration) {
  char text[RONDO_REASON_BYTES] = "";
  for (struct rondo_registration *p = m->registrations; p; p = p->next) {
    if (p == registration || (p->process != RONDO_HERE && registration->process != RONDO_HERE))
      continue;
    const char *what = rondo_registration_meets(p, registration)
                           ? rondo_registration_difference(registration, p)
                           : NULL;
    if (!what)
      continue;
    if (!text[0])
      rondo_registration_report_mismatch(p, registration, what, text);
    // Before the other side is told: the reason goes ahead (spread.c).
    const struct verdict of_theirs = {RONDO_ERR_MISMATCH, registration->rank, text};
    fail_together(job, m, p->comm, &of_theirs);
    const struct verdict of_ours = {RONDO_ERR_MISMATCH, p->rank, text};
    fail_together(job, m, registration->comm, &of_ours);
    // The other side may not hear of ours by itself: not everybody names everybody.
    const struct rondo_registration *far = p->process == RONDO_HERE ? registration : p;
    const struct rondo_registration *near = far == p ? registration : p;
    struct rondo_message_short notice = rondo_message_about(far->id, far->generation, far->rank);
    notice.rank = far->rank;
    notice.other = near->rank;
    notice.status = RONDO_ERR_MISMATCH;
    if (far->process != RONDO_HERE)
      rondo_processes_send(job, far->process, RONDO_MESSAGE_FAIL, &notice, sizeof notice);
  }
}

// A member that has come to this match entry and gone before anybody else came never takes part. Had its
// registration failed, for a mismatch with others, those who come after it hear that and not that it has gone.
static void note_absentees(struct rondo_job *job, const struct rondo_match_entry *m,
                           const struct rondo_registration *registration) {
  struct rondo_communicator *comm = registration->comm;
  for (uint32_t i = 0; i < registration->nranks; i++) {
    uint32_t member = registration->members[i];
    const struct rondo_match_history *e = rondo_match_history_find(m, member);
    if (member == registration->rank || !e || e->times < registration->generation)
      continue;
    if (rondo_match_entry_registration(m, member, registration->generation))
      continue;
    const struct verdict before = {e->failed_status, e->failed_by, ""};
    if (e->failed_status && e->failed_time == registration->generation) {
      fail(job, m, comm, &before);
      continue;
    }
    comm->gate.culprit = member;
    comm->gate.last_run = 0;
  }
}

// Nor does one that is lost and has not come.
static void note_lost(struct rondo_job *job, const struct rondo_match_entry *m,
                      const struct rondo_registration *registration) {
  for (uint32_t i = 0; i < registration->nranks; i++) {
    const struct rondo_match_history *e = rondo_match_history_find(m, registration->members[i]);
    const struct verdict lost = {RONDO_ERR_PEER, registration->members[i], ""};
    if (job->gone[registration->members[i]] && (!e || e->times < registration->generation))
      fail(job, m, registration->comm, &lost);
  }
}

// ----------------------------------------------------------------- matching ---

static void join(struct rondo_registration *p, struct rondo_communicator *comm) {
  p->comm = comm;
  comm->joined++;
  comm->present += p->process == RONDO_HERE;
}

// Of those who have joined one has failed before, and it is not known for which reason: so this comes last.
static void fail_as_before(struct rondo_job *job, const struct rondo_match_entry *m,
                           struct rondo_communicator *comm) {
  for (const struct rondo_registration *p = m->registrations; p; p = p->next) {
    const struct verdict before = {p->failed_status, p->failed_by, ""};
    if (p->comm == comm && p->failed_status)
      fail(job, m, comm, &before);
  }
}

// The communicator of those whose descriptor is equal, or null.
static struct rondo_communicator *find_equal(const struct rondo_match_entry *m,
                                             const struct rondo_registration *registration) {
  for (struct rondo_registration *p = m->registrations; p; p = p->next)
    if (p->comm && rondo_registration_meets(p, registration) &&
        !rondo_registration_difference(registration, p))
      return p->comm;
  return NULL;
}

// Takes in those from elsewhere who came before anybody here.
static void join_waiting(const struct rondo_match_entry *m,
                         const struct rondo_registration *registration) {
  for (struct rondo_registration *p = m->registrations; p; p = p->next)
    if (!p->comm && p != registration && rondo_registration_meets(p, registration) &&
        !rondo_registration_difference(registration, p))
      join(p, registration->comm);
}

static void locate(const struct rondo_job *job, struct rondo_communicator *comm) {
  for (uint32_t i = 0; job->mesh && i < comm->shape.nranks; i++)
    rondo_binding_locate(&job->transports, comm, i, rondo_processes_where(job, comm->members[i]));
}

// 1 if it is known where every member is, or that it is nowhere.
static int is_located(const struct rondo_job *job, const struct rondo_communicator *comm) {
  for (uint32_t i = 0; i < comm->shape.nranks; i++)
    if (comm->where[i] == RONDO_SOMEWHERE && !job->gone[comm->members[i]])
      return 0;
  return 1;
}

// A member to which no transport leads.
static void check_reach(struct rondo_job *job, struct rondo_registration *registration) {
  for (uint32_t i = 0; i < registration->nranks; i++) {
    uint32_t process = registration->comm->where[i];
    if (process >= job->process_count ||
        job->transports.peers[process].reach != RONDO_TRANSPORT_NONE)
      continue;
    char why[RONDO_WHY_BYTES];
    (void)rondo_processes_transport(job, job->members[registration->rank], registration->members[i],
                                    why, sizeof why);
    rondo_log(RONDO_LOG_ERROR, "register: id %llu: no transport leads to rank %u: %s",
              (unsigned long long)registration->id.number, registration->members[i], why);
    rondo_job_fail(job, registration, RONDO_ERR_UNSUPPORTED);
    return;
  }
}

void rondo_match_settle(struct rondo_job *job, struct rondo_match_entry *m,
                        struct rondo_registration *registration) {
  locate(job, registration->comm);
  if (!is_located(job, registration->comm))
    return;
  check_reach(job, registration);
  int status =
      rondo_communicator_connect(registration->comm, registration->plan, registration->position);
  if (status == RONDO_SUCCESS)
    status = rondo_binding_open_proxied(&job->transports, registration->comm, m);
  if (status != RONDO_SUCCESS) {
    rondo_log(RONDO_LOG_ERROR, "register: id %llu: no memory for it, or connector_bytes is used up",
              (unsigned long long)registration->id.number);
    const struct verdict full = {status, registration->rank, ""};
    fail(job, m, registration->comm, &full);
  }
  note_lost(job, m, registration);
  rondo_processes_announce(job, registration);
  bind_links(job, m, registration->comm);
  comm_open(job, m, registration->comm);
}

// Makes the communicator of the first of its members here.
static struct rondo_communicator *make(struct rondo_job *job,
                                       const struct rondo_registration *registration) {
  struct rondo_communicator *comm =
      rondo_communicator_create(&job->transports.pool, &registration->shape, registration->members);
  if (!comm)
    return NULL;
  comm->generation = registration->generation;
  locate(job, comm);
  return comm;
}

// Where a member is that registers: what it receives lies on the NUMA node of its device, or of this thread, which
// knows best where the buffers are.
static void note_place(struct rondo_communicator *comm, uint32_t position,
                       struct rondo_device *device) {
  comm->devices[position] = device;
  comm->nodes[position] = device->driver->node ? device->driver->node(device) : rondo_node_here();
}

int rondo_job_register(struct rondo_job *job, struct rondo_registration *registration) {
  pthread_mutex_lock(&job->lock);
  struct rondo_match_entry *m = rondo_match_entry_get(job, registration->id);
  struct rondo_match_history *e = m ? rondo_match_history_get(m, registration->rank) : NULL;
  struct rondo_communicator *comm = NULL;
  int fresh = 0;
  if (e) {
    registration->generation = e->times + 1;
    comm = find_equal(m, registration);
    fresh = !comm;
    if (fresh)
      comm = make(job, registration);
  }
  if (comm)
    note_place(comm, registration->position, job->members[registration->rank]->device);
  if (!comm || rondo_communicator_connect(comm, registration->plan, registration->position) !=
                   RONDO_SUCCESS) {
    if (comm && fresh)
      rondo_communicator_destroy(comm);
    pthread_mutex_unlock(&job->lock);
    return RONDO_ERR_NO_MEMORY;
  }
  e->times++;
  join(registration, comm);
  rondo_match_entry_add(m, registration);
  if (registration->owner)
    own(registration);
  if (fresh) {
    comm->next = m->comms;
    m->comms = comm;
    note_absentees(job, m, registration);
    join_waiting(m, registration);
  }
  fail_different(job, m, registration);
  fail_as_before(job, m, comm);
  if (job->mesh)
    rondo_match_settle(job, m, registration);
  else
    comm_open(job, m, comm);
  if (registration->owner)
    rondo_job_tell_failed(job, registration->owner, comm);
  rondo_job_settle(job);
  // It may have failed while the call that registers this was on its way.
  uint32_t failed =
      registration->owner ? rondo_load_relaxed_u32(&registration->owner->failed) : RONDO_SUCCESS;
  if (failed && comm->gate.state < RONDO_GATE_FAILED)
    rondo_job_fail(job, registration, (int)failed);
  pthread_mutex_unlock(&job->lock);
  return RONDO_SUCCESS;
}

void rondo_match_arrive(struct rondo_job *job, struct rondo_match_entry *m,
                        struct rondo_registration *registration) {
  struct rondo_communicator *comm = find_equal(m, registration);
  rondo_match_entry_add(m, registration);
  if (comm)
    join(registration, comm);
  fail_different(job, m, registration);
  if (!comm)
    return;
  bind_links(job, m, comm);
  comm_open(job, m, comm);
}

// ------------------------------------------------------------------ leaving ---

// Frees what nobody here uses and nobody elsewhere writes to.
static void drop(struct rondo_match_entry *m, struct rondo_communicator *comm) {
  if (comm->present || (rondo_communicator_is_owed(comm) && !RONDO_FAULT(OWED_IGNORED)))
    return;
  struct rondo_communicator **at = &m->comms;
  while (*at != comm)
    at = &(*at)->next;
  *at = comm->next;
  rondo_communicator_destroy(comm);
}

static void limit_runs(struct rondo_job *job, const struct rondo_registration *registration,
                       uint64_t completed) {
  struct rondo_communicator *comm = registration->comm;
  if (completed >= comm->gate.last_run)
    return;
  if (comm->gate.culprit == UINT32_MAX)
    rondo_store_relaxed_u32(&comm->gate.culprit, registration->rank);
  rondo_store_release_u64(&comm->gate.last_run, completed); // G1
  if (job->mesh)
    rondo_job_wake_members(job, comm);
}

void rondo_job_deregister(struct rondo_job *job, struct rondo_registration *registration,
                          uint64_t completed) {
  pthread_mutex_lock(&job->lock);
  struct rondo_match_entry *m = rondo_match_entry_get(job, registration->id);
  struct rondo_communicator *comm = registration->comm;
  rondo_match_entry_remove(m, registration);
  if (registration->owner)
    disown(registration);
  limit_runs(job, registration, completed);
  if (job->mesh)
    rondo_processes_withdraw(job, registration, completed);
  if (--comm->present == 0) {
    rondo_binding_unbind(&job->transports, comm);
    for (struct rondo_registration *p = m->registrations; p; p = p->next)
      if (p->comm == comm)
        p->comm = NULL;
    drop(m, comm);
  }
  if (job->mesh && m->id.space == RONDO_SPACE_COMM)
    rondo_match_entry_drop_if_over(job, m);
  else
    rondo_match_entry_drop_if_even(job, m, registration);
  pthread_mutex_unlock(&job->lock);
}

// What a rank has submitted is seen here if it was counted before (H3).
static int is_running(const struct rondo_job *job, const struct rondo_registration *r) {
  const struct rondo_member *member = job->members[r->rank];
  return member && rondo_load_seq_cst_u64(&member->daemon->outstanding) && // P4
         rondo_load_relaxed_u64(r->submitted) != rondo_load_acquire_u64(r->completed);
}

int rondo_match_is_link_used(struct rondo_job *job, const struct rondo_proxy_link *proxied) {
  const struct rondo_proxy_link_config *config = rondo_proxy_link_config(proxied);
  const struct rondo_match_entry *m = config->home;
  for (const struct rondo_registration *p = m->registrations; p; p = p->next)
    if (p->comm == config->tag && p->process == RONDO_HERE && is_running(job, p))
      return 1;
  return 0;
}

void rondo_match_link_over(struct rondo_job *job, struct rondo_proxy_link *proxied, int is_whole) {
  const struct rondo_proxy_link_config *config = rondo_proxy_link_config(proxied);
  struct rondo_communicator *comm = config->tag; // it is there as long as it is owed anything
  struct rondo_match_entry *m = config->home;    // ... and so is this
  for (uint32_t i = 0; i < comm->link_count; i++) {
    if (comm->links[i].proxy_link != proxied)
      continue;
    comm->links[i].proxy_link = NULL;
    comm->links[i].is_owed = 0;
    // Its producer may have taken leave already, and believe that all has come.
    if (!is_whole && comm->present && !RONDO_FAULT(LOSS_UNTOLD))
      fail_together(job, m, comm,
                    &(struct verdict){RONDO_ERR_PEER, comm->members[comm->links[i].from], ""});
  }
  drop(m, comm);
  rondo_match_entry_drop_if_over(job, m);
}

// What is far is released by the proxy, which has all that was sent; `told`: that nothing ever was.
static void release_link(struct rondo_job *job, struct rondo_link *link, int told) {
  if (!link->is_proxied)
    link->is_owed = 0;
  else if (link->proxy_link && told)
    rondo_proxy_link_close(job->transports.proxy, link->proxy_link);
}

void rondo_match_release(struct rondo_job *job, struct rondo_match_entry *m, uint64_t generation,
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
        release_link(job, link, consumer != UINT32_MAX);
    }
    drop(m, comm);
  }
}

// Tells the owner of connectors that were offered in vain that nobody here will write to them.
static void release_unused(struct rondo_job *job, const struct rondo_registration *registration) {
  for (uint32_t i = 0; i < registration->offer_count; i++) {
    uint32_t from = registration->offers[i].from;
    if (rondo_processes_where(job, registration->members[from]) != RONDO_HERE)
      continue; // offered to another process
    const struct rondo_link *link =
        registration->comm
            ? rondo_communicator_link(registration->comm, from, registration->position)
            : NULL;
    if (link && link->is_ready)
      continue; // our own deregistration will tell
    struct rondo_message_short notice =
        rondo_message_about(registration->id, registration->generation, registration->rank);
    notice.rank = registration->rank;
    notice.other = registration->members[from];
    rondo_processes_send(job, registration->process, RONDO_MESSAGE_RELEASE, &notice, sizeof notice);
  }
}

void rondo_match_depart(struct rondo_job *job, struct rondo_match_entry *m,
                        struct rondo_registration *registration, uint64_t completed) {
  struct rondo_match_history *e = rondo_match_history_find(m, registration->rank);
  if (e && registration->failed_status) {
    e->failed_status = registration->failed_status;
    e->failed_by = registration->failed_by;
    e->failed_time = registration->generation;
  }
  rondo_match_entry_remove(m, registration);
  if (registration->comm)
    limit_runs(job, registration, completed);
  release_unused(job, registration);
  rondo_match_release(job, m, registration->generation, registration->rank, UINT32_MAX);
  free(registration);
}

// Whether the communicator waits for, or depends on, a rank that is gone.
static int depends_on(const struct rondo_match_entry *m, const struct rondo_communicator *comm,
                      uint32_t rank) {
  const struct rondo_match_history *e = rondo_match_history_find(m, rank);
  int has_come = e && e->times >= comm->generation;
  for (uint32_t i = 0; i < comm->shape.nranks; i++)
    if (comm->members[i] == rank)
      return !has_come || rondo_match_entry_registration(m, rank, comm->generation) != NULL;
  return 0;
}

void rondo_match_lost(struct rondo_job *job, struct rondo_match_entry *m, uint32_t rank, int left) {
  for (struct rondo_communicator *comm = m->comms; comm; comm = comm->next) {
    if (!comm->present || !depends_on(m, comm, rank))
      continue;
    const struct verdict lost = {RONDO_ERR_PEER, rank, ""};
    fail_together(job, m, comm, &lost);
  }
  struct rondo_registration *after = NULL;
  for (struct rondo_registration *p = m->registrations; p; p = after) {
    after = p->next;
    if (p->rank != rank || p->process == RONDO_HERE)
      continue;
    rondo_match_entry_remove(m, p);
    free(p);
  }
  // Who was cut off may be alive, and in the middle of a store: its connectors are not used again.
  if (left)
    rondo_match_release(job, m, 0, rank, UINT32_MAX);
}
