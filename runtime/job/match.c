#include "runtime/job/match.h"

#include <stdlib.h>
#include <string.h>

#include "base/explore.h"
#include "base/list.h"
#include "base/log.h"
#include "base/numa_node.h"
#include "runtime/job/processes.h"
#include "runtime/transport/link_binding.h"
#include "runtime/transport/proxy.h"

static struct rondo_match_entry *entry_find(struct rondo_job *job,
                                            const struct rondo_registration *r) {
  return rondo_match_entry_find(job, r->id);
}

// Fails all runs of a communicator in this process. Rank `culprit` caused the failure; `why` is a
// text, or "".
static void comm_fail(struct rondo_job *job, const struct rondo_match_entry *m,
                      struct rondo_communicator *comm, int status, uint32_t culprit,
                      const char *why) {
  if (!comm)
    return;
  if (why[0] && !comm->reason && comm->gate.state < RONDO_GATE_FAILED)
    comm->reason = strdup(why);
  rondo_communicator_fail(comm, status, culprit);
  if (job->membership)
    rondo_job_wake_members(job, comm);
  for (const struct rondo_registration *r = m ? m->registrations : NULL; r; r = r->next)
    if (r->comm == comm && r->owner)
      RONDO_JOB_CALL(job, failed, job, r->owner, comm);
  RONDO_JOB_CALL(job, settle, job);
}

// Fails all runs of a communicator in all processes: a process may not find the reason by itself.
static void comm_fail_everywhere(struct rondo_job *job, const struct rondo_match_entry *m,
                                 struct rondo_communicator *comm, int status, uint32_t culprit,
                                 const char *why) {
  if (!comm || comm->gate.state >= RONDO_GATE_FAILED)
    return;
  comm_fail(job, m, comm, status, culprit, why);
  for (const struct rondo_registration *r = m->registrations; r; r = r->next) {
    if (r->comm != comm || !r->is_announced || RONDO_FAULT(FAILURE_UNTOLD))
      continue;
    rondo_processes_send_failure(job, r, status, culprit);
  }
}

// ------------------------------------------------------------------- links ---

static struct rondo_registration *registration_at(const struct rondo_match_entry *m,
                                                  const struct rondo_communicator *comm,
                                                  uint32_t position) {
  struct rondo_registration *r =
      rondo_match_entry_registration(m, comm->members[position].rank, comm->generation);
  return r && r->comm == comm ? r : NULL;
}

// Binds the links to members of other processes whose registrations have arrived. Does not wait for
// the last member, because a rank that has sent all its data may have left by then.
static void comm_bind_links(struct rondo_job *job, struct rondo_match_entry *m,
                            struct rondo_communicator *comm) {
  for (uint32_t i = 0; i < comm->link_count; i++) {
    struct rondo_link *link = &comm->links[i];
    if (link->is_ready)
      continue;
    const struct rondo_registration *other =
        registration_at(m, comm, link->is_outgoing ? link->to : link->from);
    if (!other)
      continue;
    if (rondo_binding_bind(&job->transports, comm, link, other->offers, other->offer_count) ==
        RONDO_BINDING_UNSOUND)
      comm_fail_everywhere(job, m, comm, RONDO_ERR_SYSTEM, other->rank, "");
  }
}

static void comm_open(struct rondo_job *job, struct rondo_match_entry *m,
                      struct rondo_communicator *comm);

void rondo_match_rebind(struct rondo_job *job, struct rondo_match_entry *m) {
  for (struct rondo_communicator *comm = m->comms; comm; comm = comm->next) {
    if (!comm->present)
      continue;
    comm_bind_links(job, m, comm);
    comm_open(job, m, comm);
  }
}

static int registration_write_endpoints(const struct rondo_job *job,
                                        const struct rondo_registration *r) {
  return rondo_binding_write_endpoints(&job->transports, r->comm, r->plan, r->position,
                                       job->members[r->rank]->daemon, r->endpoints);
}

// Opens the gate if all members have joined and all links are ready.
static void comm_open(struct rondo_job *job, struct rondo_match_entry *m,
                      struct rondo_communicator *comm) {
  if (comm->gate.state != RONDO_GATE_CLOSED || comm->joined < comm->shape.nranks)
    return;
  for (uint32_t i = 0; i < comm->shape.nranks; i++) {
    const struct rondo_registration *r = registration_at(m, comm, i);
    if (r && r->process == RONDO_HERE && !rondo_communicator_is_ready(comm, r->plan, r->position))
      return;
  }
  for (uint32_t i = 0; i < comm->shape.nranks; i++) {
    const struct rondo_registration *r = registration_at(m, comm, i);
    int status =
        r && r->process == RONDO_HERE ? registration_write_endpoints(job, r) : RONDO_SUCCESS;
    if (status != RONDO_SUCCESS) {
      rondo_log(RONDO_LOG_ERROR, "id %llu: connectors cannot be written to the device of rank %u",
                (unsigned long long)r->id.number, r->rank);
      comm_fail_everywhere(job, m, comm, status, r->rank, "");
      return;
    }
  }
  rondo_store_release_u32(&comm->gate.state, RONDO_GATE_OPEN); // G1
  if (job->membership)
    rondo_job_wake_members(job, comm);
}

// ------------------------------------------------------------------ failing ---

void rondo_job_fail(struct rondo_job *job, struct rondo_registration *registration, int status) {
  int has_failed = registration->owner && rondo_load_relaxed_u32(&registration->owner->failed);
  comm_fail(job, entry_find(job, registration), registration->comm, status, registration->rank,
            has_failed ? registration->owner->why : "");
  if (registration->is_announced)
    rondo_processes_send_failure(job, registration, status, registration->rank);
}

void rondo_match_fail(struct rondo_job *job, struct rondo_registration *registration, int status,
                      uint32_t culprit) {
  if (!registration->comm && !registration->failed_status) {
    registration->failed_status = status;
    registration->failed_by = culprit;
  }
  comm_fail(job, entry_find(job, registration), registration->comm, status, culprit, "");
}

// Fails `registration` and those whose descriptors differ from it.
static void registration_fail_mismatch(struct rondo_job *job, const struct rondo_match_entry *m,
                                       const struct rondo_registration *registration) {
  char text[RONDO_REASON_BYTES] = "";
  for (struct rondo_registration *r = m->registrations; r; r = r->next) {
    if (r == registration || (r->process != RONDO_HERE && registration->process != RONDO_HERE))
      continue;
    const char *what = rondo_registration_is_match(r, registration)
                           ? rondo_registration_difference(registration, r)
                           : NULL;
    if (!what)
      continue;
    if (!text[0])
      rondo_registration_report_mismatch(r, registration, what, text);
    // First the other side: the reason must arrive before the failure (comm_failure.c).
    comm_fail_everywhere(job, m, r->comm, RONDO_ERR_MISMATCH, registration->rank, text);
    comm_fail_everywhere(job, m, registration->comm, RONDO_ERR_MISMATCH, r->rank, text);
    // The other process may not have our registration, because our group may not name its rank.
    const struct rondo_registration *theirs = r->process == RONDO_HERE ? registration : r;
    const struct rondo_registration *ours = theirs == r ? registration : r;
    struct rondo_message_short message =
        rondo_message_about(theirs->id, theirs->generation, theirs->rank);
    message.other = ours->rank;
    message.status = RONDO_ERR_MISMATCH;
    if (theirs->process != RONDO_HERE)
      rondo_processes_send(job, theirs->process, RONDO_MESSAGE_FAIL, &message, sizeof message);
  }
}

// Handles members that registered and deregistered before any member here registered. Such a member
// never takes part. If its registration had failed, for a mismatch, later members fail for that
// reason.
static void registration_note_departed(struct rondo_job *job, const struct rondo_match_entry *m,
                                       const struct rondo_registration *registration) {
  struct rondo_communicator *comm = registration->comm;
  for (uint32_t i = 0; i < registration->nranks; i++) {
    uint32_t member = registration->members[i];
    const struct rondo_match_history *h = rondo_match_history_find(m, member);
    if (member == registration->rank || !h || h->times < registration->generation)
      continue;
    if (rondo_match_entry_registration(m, member, registration->generation))
      continue;
    if (h->failed_status && h->failed_time == registration->generation) {
      comm_fail(job, m, comm, h->failed_status, h->failed_by, "");
      continue;
    }
    comm->gate.culprit = member;
    comm->gate.last_run = 0;
  }
}

// Fails the registration for members that are gone and have not registered.
static void registration_fail_lost(struct rondo_job *job, const struct rondo_match_entry *m,
                                   const struct rondo_registration *registration) {
  for (uint32_t i = 0; i < registration->nranks; i++) {
    const struct rondo_match_history *h = rondo_match_history_find(m, registration->members[i]);
    if (job->gone[registration->members[i]] && (!h || h->times < registration->generation))
      comm_fail(job, m, registration->comm, RONDO_ERR_PEER, registration->members[i], "");
  }
}

// ----------------------------------------------------------------- matching ---

static void comm_join(struct rondo_registration *r, struct rondo_communicator *comm) {
  r->comm = comm;
  comm->joined++;
  comm->present += r->process == RONDO_HERE;
}

// Fails a communicator with the earlier failure of a member. Comes last, because the reason of that
// failure is unknown here.
static void comm_fail_as_before(struct rondo_job *job, const struct rondo_match_entry *m,
                                struct rondo_communicator *comm) {
  for (const struct rondo_registration *r = m->registrations; r; r = r->next) {
    if (r->comm == comm && r->failed_status)
      comm_fail(job, m, comm, r->failed_status, r->failed_by, "");
  }
}

// The communicator of registrations with an equal descriptor, or null.
static struct rondo_communicator *comm_find_equal(const struct rondo_match_entry *m,
                                                  const struct rondo_registration *registration) {
  for (struct rondo_registration *r = m->registrations; r; r = r->next)
    if (r->comm && rondo_registration_is_match(r, registration) &&
        !rondo_registration_difference(registration, r))
      return r->comm;
  return NULL;
}

// Adds members of other processes that registered before any member here.
static void comm_join_waiting(const struct rondo_match_entry *m,
                              const struct rondo_registration *registration) {
  for (struct rondo_registration *r = m->registrations; r; r = r->next)
    if (!r->comm && r != registration && rondo_registration_is_match(r, registration) &&
        !rondo_registration_difference(registration, r))
      comm_join(r, registration->comm);
}

static void comm_locate(const struct rondo_job *job, struct rondo_communicator *comm) {
  for (uint32_t i = 0; job->membership && i < comm->shape.nranks; i++)
    rondo_binding_locate(&job->transports, comm, i,
                         rondo_processes_where(job, comm->members[i].rank));
}

// True if the process of every member is known, or the member is gone.
static bool is_located(const struct rondo_job *job, const struct rondo_communicator *comm) {
  for (uint32_t i = 0; i < comm->shape.nranks; i++)
    if (comm->members[i].process == RONDO_SOMEWHERE && !job->gone[comm->members[i].rank])
      return false;
  return true;
}

// Fails the registration if no transport reaches a member.
static void registration_check_reach(struct rondo_job *job,
                                     struct rondo_registration *registration) {
  for (uint32_t i = 0; i < registration->nranks; i++) {
    uint32_t process = registration->comm->members[i].process;
    if (process >= job->process_count ||
        job->transports.peers[process].reach != RONDO_TRANSPORT_NONE)
      continue;
    char why[RONDO_WHY_BYTES];
    (void)rondo_processes_transport(job, job->members[registration->rank], registration->members[i],
                                    why, sizeof why);
    rondo_log(RONDO_LOG_ERROR, "register: id %llu: no transport reaches rank %u: %s",
              (unsigned long long)registration->id.number, registration->members[i], why);
    rondo_job_fail(job, registration, RONDO_ERR_UNSUPPORTED);
    return;
  }
}

void rondo_match_settle(struct rondo_job *job, struct rondo_match_entry *m,
                        struct rondo_registration *registration) {
  comm_locate(job, registration->comm);
  if (!is_located(job, registration->comm))
    return;
  registration_check_reach(job, registration);
  int status =
      rondo_communicator_connect(registration->comm, registration->plan, registration->position);
  if (status == RONDO_SUCCESS)
    status = rondo_binding_open_proxied(&job->transports, registration->comm, m);
  if (status != RONDO_SUCCESS) {
    rondo_log(RONDO_LOG_ERROR, "register: id %llu: no memory, or connector_bytes is used up",
              (unsigned long long)registration->id.number);
    comm_fail(job, m, registration->comm, status, registration->rank, "");
  }
  registration_fail_lost(job, m, registration);
  rondo_processes_announce(job, registration);
  comm_bind_links(job, m, registration->comm);
  comm_open(job, m, registration->comm);
}

// Makes a communicator for its first member here.
static struct rondo_communicator *comm_make(struct rondo_job *job,
                                            const struct rondo_registration *registration) {
  struct rondo_communicator *comm =
      rondo_communicator_create(&job->transports.pool, &registration->shape, registration->members);
  if (!comm)
    return NULL;
  comm->generation = registration->generation;
  comm_locate(job, comm);
  return comm;
}

// Sets the place of a member's receive connectors: the NUMA node of its device, or else of the
// registering thread, which is probably that of its buffers.
static void comm_set_place(struct rondo_communicator *comm, uint32_t position,
                           struct rondo_device *device) {
  comm->members[position].device = device;
  comm->members[position].node =
      device->driver->node ? device->driver->node(device) : rondo_node_here();
}

// Fails the owner of a new registration if its communicator has failed, and the registration if its
// owner has.
static void registration_settle_owner(struct rondo_job *job,
                                      struct rondo_registration *registration) {
  struct rondo_communicator *comm = registration->comm;
  if (registration->owner)
    RONDO_JOB_CALL(job, failed, job, registration->owner, comm);
  RONDO_JOB_CALL(job, settle, job);
  uint32_t failed =
      registration->owner ? rondo_load_relaxed_u32(&registration->owner->failed) : RONDO_SUCCESS;
  if (failed && comm->gate.state < RONDO_GATE_FAILED)
    rondo_job_fail(job, registration, (int)failed);
}

int rondo_job_register(struct rondo_job *job, struct rondo_registration *registration) {
  pthread_mutex_lock(&job->lock);
  struct rondo_match_entry *m = rondo_match_entry_get(job, registration->id);
  struct rondo_match_history *h = m ? rondo_match_history_get(m, registration->rank) : NULL;
  struct rondo_communicator *comm = NULL;
  int fresh = 0;
  if (h) {
    registration->generation = h->times + 1;
    comm = comm_find_equal(m, registration);
    fresh = !comm;
    if (fresh)
      comm = comm_make(job, registration);
  }
  if (comm)
    comm_set_place(comm, registration->position, job->members[registration->rank]->device);
  if (!comm || rondo_communicator_connect(comm, registration->plan, registration->position) !=
                   RONDO_SUCCESS) {
    if (comm && fresh)
      rondo_communicator_destroy(comm);
    pthread_mutex_unlock(&job->lock);
    return RONDO_ERR_NO_MEMORY;
  }
  h->times++;
  comm_join(registration, comm);
  rondo_match_entry_add(m, registration);
  if (registration->owner) {
    registration->next_owned = registration->owner->registrations;
    registration->owner->registrations = registration;
  }
  if (fresh) {
    comm->next = m->comms;
    m->comms = comm;
    registration_note_departed(job, m, registration);
    comm_join_waiting(m, registration);
  }
  registration_fail_mismatch(job, m, registration);
  comm_fail_as_before(job, m, comm);
  if (job->membership)
    rondo_match_settle(job, m, registration);
  else
    comm_open(job, m, comm);
  registration_settle_owner(job, registration);
  pthread_mutex_unlock(&job->lock);
  return RONDO_SUCCESS;
}

void rondo_match_arrive(struct rondo_job *job, struct rondo_match_entry *m,
                        struct rondo_registration *registration) {
  struct rondo_communicator *comm = comm_find_equal(m, registration);
  rondo_match_entry_add(m, registration);
  if (comm)
    comm_join(registration, comm);
  registration_fail_mismatch(job, m, registration);
  if (!comm)
    return;
  comm_bind_links(job, m, comm);
  comm_open(job, m, comm);
}

// ------------------------------------------------------------ deregistering ---

// Destroys a communicator that has no member here and no writer in another process.
static void comm_drop_if_unused(struct rondo_match_entry *m, struct rondo_communicator *comm) {
  if (comm->present || (rondo_communicator_is_owed(comm) && !RONDO_FAULT(OWED_IGNORED)))
    return;
  RONDO_LIST_REMOVE(m->comms, comm, next);
  rondo_communicator_destroy(comm);
}

static void comm_limit_runs(struct rondo_job *job, const struct rondo_registration *registration,
                            uint64_t completed) {
  struct rondo_communicator *comm = registration->comm;
  if (completed >= comm->gate.last_run)
    return;
  if (comm->gate.culprit == UINT32_MAX)
    rondo_store_relaxed_u32(&comm->gate.culprit, registration->rank);
  rondo_store_release_u64(&comm->gate.last_run, completed); // G1
  if (job->membership)
    rondo_job_wake_members(job, comm);
}

void rondo_job_deregister(struct rondo_job *job, struct rondo_registration *registration,
                          uint64_t completed) {
  pthread_mutex_lock(&job->lock);
  struct rondo_match_entry *m = rondo_match_entry_get(job, registration->id);
  struct rondo_communicator *comm = registration->comm;
  rondo_match_entry_remove(m, registration);
  if (registration->owner)
    RONDO_LIST_REMOVE(registration->owner->registrations, registration, next_owned);
  comm_limit_runs(job, registration, completed);
  if (job->membership)
    rondo_processes_withdraw(job, registration, completed);
  if (--comm->present == 0) {
    rondo_binding_unbind(&job->transports, comm);
    for (struct rondo_registration *r = m->registrations; r; r = r->next)
      if (r->comm == comm)
        r->comm = NULL;
    comm_drop_if_unused(m, comm);
  }
  if (job->membership && m->id.space == RONDO_SPACE_COMM)
    rondo_match_entry_drop_if_over(job, m);
  else
    rondo_match_entry_drop_if_even(job, m, registration);
  pthread_mutex_unlock(&job->lock);
}

// True if the registration has runs outstanding. Runs counted in `outstanding` are visible here
// (H3).
static bool is_running(const struct rondo_job *job, const struct rondo_registration *r) {
  const struct rondo_member *member = job->members[r->rank];
  return member && rondo_load_seq_cst_u64(&member->daemon->outstanding) && // P4
         rondo_load_relaxed_u64(r->submitted) != rondo_load_acquire_u64(r->completed);
}

int rondo_match_is_link_used(struct rondo_job *job, const struct rondo_proxy_link *proxied) {
  const struct rondo_proxy_link_config *config = rondo_proxy_link_config(proxied);
  const struct rondo_match_entry *m = config->home;
  for (const struct rondo_registration *r = m->registrations; r; r = r->next)
    if (r->comm == config->tag && r->process == RONDO_HERE && is_running(job, r))
      return 1;
  return 0;
}

void rondo_match_link_over(struct rondo_job *job, struct rondo_proxy_link *proxied, int is_whole) {
  const struct rondo_proxy_link_config *config = rondo_proxy_link_config(proxied);
  struct rondo_communicator *comm = config->tag; // both exist while the communicator is owed slots
  struct rondo_match_entry *m = config->home;
  for (uint32_t i = 0; i < comm->link_count; i++) {
    if (comm->links[i].proxy_link != proxied)
      continue;
    comm->links[i].proxy_link = NULL;
    comm->links[i].is_owed = 0;
    // The producer may have deregistered and believe that all slots have arrived.
    if (!is_whole && comm->present && !RONDO_FAULT(LOSS_UNTOLD))
      comm_fail_everywhere(job, m, comm, RONDO_ERR_PEER, comm->members[comm->links[i].from].rank,
                           "");
  }
  comm_drop_if_unused(m, comm);
  rondo_match_entry_drop_if_over(job, m);
}

// Releases a link that its producer no longer writes. The proxy releases a proxied link when it has
// delivered all slots; `is_unused`: there are none.
static void link_release(struct rondo_job *job, struct rondo_link *link, bool is_unused) {
  if (!link->is_proxied)
    link->is_owed = 0;
  else if (link->proxy_link && is_unused)
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
      if (comm->members[link->from].rank == producer &&
          (consumer == UINT32_MAX || comm->members[link->to].rank == consumer))
        link_release(job, link, consumer != UINT32_MAX);
    }
    comm_drop_if_unused(m, comm);
  }
}

// Sends RELEASE for offered connectors that no rank here will write.
static void offers_release(struct rondo_job *job, const struct rondo_registration *registration) {
  for (uint32_t i = 0; i < registration->offer_count; i++) {
    uint32_t from = registration->offers[i].from;
    if (rondo_processes_where(job, registration->members[from]) != RONDO_HERE)
      continue; // offered to another process
    const struct rondo_link *link =
        registration->comm
            ? rondo_communicator_link(registration->comm, from, registration->position)
            : NULL;
    if (link && link->is_ready)
      continue; // the end of our own registration releases it
    struct rondo_message_short message =
        rondo_message_about(registration->id, registration->generation, registration->rank);
    message.other = registration->members[from];
    rondo_processes_send(job, registration->process, RONDO_MESSAGE_RELEASE, &message,
                         sizeof message);
  }
}

void rondo_match_depart(struct rondo_job *job, struct rondo_match_entry *m,
                        struct rondo_registration *registration, uint64_t completed) {
  struct rondo_match_history *h = rondo_match_history_find(m, registration->rank);
  if (h && registration->failed_status) {
    h->failed_status = registration->failed_status;
    h->failed_by = registration->failed_by;
    h->failed_time = registration->generation;
  }
  rondo_match_entry_remove(m, registration);
  if (registration->comm)
    comm_limit_runs(job, registration, completed);
  offers_release(job, registration);
  rondo_match_release(job, m, registration->generation, registration->rank, UINT32_MAX);
  free(registration);
}

// True if a communicator needs a rank that is gone.
static bool is_dependent(const struct rondo_match_entry *m, const struct rondo_communicator *comm,
                         uint32_t rank) {
  const struct rondo_match_history *h = rondo_match_history_find(m, rank);
  int has_come = h && h->times >= comm->generation;
  for (uint32_t i = 0; i < comm->shape.nranks; i++)
    if (comm->members[i].rank == rank)
      return !has_come || rondo_match_entry_registration(m, rank, comm->generation) != NULL;
  return false;
}

void rondo_match_lost(struct rondo_job *job, struct rondo_match_entry *m, uint32_t rank, int left) {
  for (struct rondo_communicator *comm = m->comms; comm; comm = comm->next) {
    if (!comm->present || !is_dependent(m, comm, rank))
      continue;
    comm_fail_everywhere(job, m, comm, RONDO_ERR_PEER, rank, "");
  }
  struct rondo_registration *after = NULL;
  for (struct rondo_registration *r = m->registrations; r; r = after) {
    after = r->next;
    if (r->rank != rank || r->process == RONDO_HERE)
      continue;
    rondo_match_entry_remove(m, r);
    free(r);
  }
  // A lost rank may still be alive and writing: its connectors are not reused.
  if (left)
    rondo_match_release(job, m, 0, rank, UINT32_MAX);
}
