#include "runtime/job/match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/explore.h"
#include "base/list.h"
#include "base/log.h"
#include "base/numa_node.h"
#include "daemon/plan/build.h"
#include "runtime/job/agreeing.h"
#include "runtime/job/device_work.h"
#include "runtime/job/offers.h"
#include "runtime/job/processes.h"
#include "runtime/transport/link_binding.h"
#include "runtime/transport/mapped.h"
#include "runtime/transport/proxy.h"

static struct rondo_match_entry *entry_find(struct rondo_job *job,
                                            const struct rondo_registration *r) {
  return rondo_match_entry_find(job, r->id);
}

// Why runs end with `status`: rank `culprit` has caused it.
static struct rondo_agreement_failure failure_of(int status, uint32_t culprit) {
  return (struct rondo_agreement_failure){status, culprit, UINT32_MAX, ""};
}

// Has the blocks of all members here look at the gate of the communicator, which has changed.
static void comm_flag_members(const struct rondo_job *job, const struct rondo_match_entry *m,
                              const struct rondo_communicator *comm) {
  for (const struct rondo_registration *r = m ? m->registrations : NULL; r; r = r->next)
    if (r->comm == comm && job->members[r->rank])
      rondo_daemon_set_flags(job->members[r->rank]->daemon, r->shape.blocks, r->index);
}

// Fails all runs of a communicator in this process.
static void comm_fail(struct rondo_job *job, const struct rondo_match_entry *m,
                      struct rondo_communicator *comm,
                      const struct rondo_agreement_failure *failure) {
  if (failure->text[0] && !comm->reason && comm->gate.state < RONDO_GATE_FAILED)
    comm->reason = strdup(failure->text);
  rondo_communicator_fail(comm, failure->status, failure->culprit);
  comm_flag_members(job, m, comm);
  if (job->membership)
    rondo_job_wake_members(job, comm);
  for (const struct rondo_registration *r = m ? m->registrations : NULL; r; r = r->next)
    if (r->comm == comm && r->owner)
      RONDO_JOB_CALL(job, failed, job, r->owner, comm);
  RONDO_JOB_CALL(job, settle, job);
}

// Fails all runs of a communicator in all processes: a process may not find the reason by itself.
static void comm_fail_everywhere(struct rondo_job *job, const struct rondo_match_entry *m,
                                 struct rondo_communicator *comm,
                                 const struct rondo_agreement_failure *failure) {
  if (comm->gate.state >= RONDO_GATE_FAILED)
    return;
  comm_fail(job, m, comm, failure);
  const struct rondo_registration *r = m->registrations;
  while (r && r->comm != comm)
    r = r->next;
  if (r)
    rondo_agreeing_fail(job, r, failure);
}

// ------------------------------------------------------------------- links ---

static struct rondo_registration *registration_at(const struct rondo_match_entry *m,
                                                  const struct rondo_communicator *comm,
                                                  uint32_t position) {
  struct rondo_registration *r = m->registrations;
  while (r && (r->comm != comm || r->position != position))
    r = r->next;
  return r;
}

// Fails the communicator if the two sides of an all-to-all-v differ in what they exchange.
static void comm_check_counts(struct rondo_job *job, struct rondo_match_entry *m,
                              const struct rondo_registration *r,
                              const struct rondo_offers *offers) {
  const struct rondo_message_offers *head = offers->is.head;
  const uint64_t *theirs = rondo_offers_counts(offers, r->rank);
  char text[RONDO_REASON_BYTES];
  if (!theirs || r->comm->gate.state >= RONDO_GATE_FAILED ||
      (theirs[0] == r->desc->recv_counts[head->position] &&
       theirs[1] == r->desc->send_counts[head->position]))
    return;
  rondo_registration_report_counts(r, head->rank, theirs, text);
  const struct rondo_agreement_failure failure = {RONDO_ERR_MISMATCH, head->rank, r->rank, text};
  comm_fail_everywhere(job, m, r->comm, &failure);
}

// True if a link of a failed communicator is not bound any more. What is proxied is bound, because
// it ends by an answer. To bind another link would ask the driver again for memory that it refuses.
static bool link_is_over(const struct rondo_communicator *comm, const struct rondo_link *link) {
  return comm->gate.state >= RONDO_GATE_FAILED && !link->is_proxied;
}

// Binds the links to a member of another process. Does not wait for the last member, because a rank
// that has sent all its data may have left by then.
static void comm_bind(struct rondo_job *job, struct rondo_match_entry *m,
                      struct rondo_communicator *comm, const struct rondo_offers *offers) {
  for (uint32_t i = 0; i < comm->link_count; i++) {
    struct rondo_link *link = &comm->links[i];
    uint32_t other = link->is_outgoing ? link->to : link->from;
    if (link->is_ready || comm->ranks[other] != offers->is.head->rank || link_is_over(comm, link))
      continue;
    const struct rondo_registration *r =
        registration_at(m, comm, link->is_outgoing ? link->from : link->to);
    if (!r || !rondo_offers_fit(offers, r))
      continue;
    comm_check_counts(job, m, r, offers);
    if (rondo_binding_bind(&job->transports, comm, link, offers->is.offers,
                           offers->is.head->offer_count) == RONDO_BINDING_UNSOUND) {
      const struct rondo_agreement_failure failure =
          failure_of(RONDO_ERR_SYSTEM, offers->is.head->rank);
      comm_fail_everywhere(job, m, comm, &failure);
    }
  }
}

static void comm_bind_links(struct rondo_job *job, struct rondo_match_entry *m,
                            struct rondo_communicator *comm) {
  for (const struct rondo_offers *o = m->offers; o; o = o->next)
    comm_bind(job, m, comm, o);
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

struct rondo_binding_member rondo_match_binding_member(const struct rondo_job *job,
                                                       const struct rondo_registration *r) {
  return (struct rondo_binding_member){r->plan,  r->position,  job->members[r->rank]->daemon,
                                       r->index, r->endpoints, r->gate_writes};
}

// True if all members have joined and all links of those here are ready.
static bool comm_is_ready(const struct rondo_match_entry *m,
                          const struct rondo_communicator *comm) {
  if (comm->joined < comm->shape.nranks)
    return false;
  for (const struct rondo_registration *r = m->registrations; r; r = r->next)
    if (r->comm == comm &&
        (!r->is_loaded || !rondo_communicator_is_ready(comm, r->plan, r->position)))
      return false;
  return true;
}

static void comm_fail_unwritten(struct rondo_job *job, const struct rondo_match_entry *m,
                                struct rondo_communicator *comm, int status, uint32_t rank) {
  const struct rondo_agreement_failure failure = failure_of(status, rank);
  rondo_log(RONDO_LOG_ERROR, "id %llu: connectors cannot be written to the device of rank %u",
            (unsigned long long)m->id.number, rank);
  comm_fail_everywhere(job, m, comm, &failure);
}

// Tells the blocks of all members here where the connectors of their peers are.
static void comm_write_endpoints(const struct rondo_job *job, const struct rondo_match_entry *m,
                                 const struct rondo_communicator *comm) {
  for (const struct rondo_registration *r = m->registrations; r; r = r->next) {
    if (r->comm != comm)
      continue;
    const struct rondo_binding_member member = rondo_match_binding_member(job, r);
    rondo_binding_write_endpoints(&job->transports, comm, &member);
  }
}

// True if the registration has runs outstanding. Runs counted in `outstanding` are visible here
// (H3).
static bool is_running(const struct rondo_job *job, const struct rondo_registration *r) {
  const struct rondo_member *member = job->members[r->rank];
  return member && rondo_load_seq_cst_u64(&member->daemon->outstanding) && // P4
         rondo_load_relaxed_u64(r->submitted) != rondo_load_acquire_u64(r->completed);
}

static bool comm_is_running(const struct rondo_job *job, const struct rondo_match_entry *m,
                            const struct rondo_communicator *comm) {
  for (const struct rondo_registration *r = m->registrations; r; r = r->next)
    if (r->comm == comm && is_running(job, r))
      return true;
  return false;
}

// Opens the gate if all members have joined, all links are ready, and all of it has been written to
// the devices.
static void comm_open(struct rondo_job *job, struct rondo_match_entry *m,
                      struct rondo_communicator *comm) {
  if (comm->gate.state != RONDO_GATE_CLOSED)
    return;
  if (rondo_communicator_is_unwritten(comm)) {
    rondo_device_work_add(job, m, comm);
    return;
  }
  if (!comm_is_ready(m, comm))
    return;
  comm_write_endpoints(job, m, comm);
  rondo_store_release_u32(&comm->gate.state, RONDO_GATE_OPEN); // G1
  comm_flag_members(job, m, comm);
  // In a job of one process, a run waits already if another thread has written to the devices.
  if (job->membership || comm_is_running(job, m, comm))
    rondo_job_wake_members(job, comm);
}

// ------------------------------------------------------------------ failing ---

void rondo_job_fail(struct rondo_job *job, struct rondo_registration *registration, int status) {
  const struct rondo_owner *owner = registration->owner;
  bool has_text = owner && rondo_load_relaxed_u32(&owner->failed);
  rondo_job_fail_because(job, registration, status, has_text ? owner->why : "");
}

void rondo_job_fail_because(struct rondo_job *job, struct rondo_registration *registration,
                            int status, const char *text) {
  const struct rondo_agreement_failure failure = {status, registration->rank, UINT32_MAX, text};
  comm_fail(job, entry_find(job, registration), registration->comm, &failure);
  rondo_agreeing_fail(job, registration, &failure);
}

// Fails `registration` and those here whose descriptors differ from it.
static void registration_fail_mismatch(struct rondo_job *job, const struct rondo_match_entry *m,
                                       const struct rondo_registration *registration) {
  char text[RONDO_REASON_BYTES] = "";
  // Those that share a communicator are equal, except in the counts of an all-to-all-v.
  if (!m->comms->next && registration->desc->kind != RONDO_ALL_TO_ALL_V)
    return;
  for (struct rondo_registration *r = m->registrations; r; r = r->next) {
    const char *what = r != registration && rondo_registration_is_match(r, registration)
                           ? rondo_registration_difference(registration, r)
                           : NULL;
    if (!what)
      continue;
    if (!text[0])
      rondo_registration_report_mismatch(r, registration, what, text);
    struct rondo_agreement_failure failure = {RONDO_ERR_MISMATCH, registration->rank, r->rank,
                                              text};
    // First the other side: the reason must arrive before the failure (comm_failure.c).
    comm_fail_everywhere(job, m, r->comm, &failure);
    failure.culprit = r->rank;
    failure.other = registration->rank;
    comm_fail_everywhere(job, m, registration->comm, &failure);
  }
}

// Handles members that registered and deregistered before any member that is still here. Such a
// member never takes part.
static void registration_note_departed(const struct rondo_match_entry *m,
                                       const struct rondo_registration *registration) {
  struct rondo_communicator *comm = registration->comm;
  for (uint32_t i = 0; i < registration->nranks; i++) {
    uint32_t member = registration->members[i];
    const struct rondo_match_history *h = rondo_match_history_find(m, member);
    if (member == registration->rank || !h || h->times < registration->generation ||
        rondo_match_entry_registration(m, member, registration->generation))
      continue;
    comm->gate.culprit = member;
    comm->gate.last_run = 0;
  }
}

// ----------------------------------------------------------------- matching ---

static void comm_join(struct rondo_registration *r, struct rondo_communicator *comm) {
  r->comm = comm;
  comm->joined++;
  comm->present++;
}

// The communicator of registrations with an equal descriptor, or null.
static struct rondo_communicator *comm_find_equal(const struct rondo_match_entry *m,
                                                  const struct rondo_registration *registration) {
  for (struct rondo_registration *r = m->registrations; r; r = r->next)
    if (rondo_registration_is_match(r, registration) &&
        !rondo_registration_difference(registration, r))
      return r->comm;
  return NULL;
}

// The members whose places a registration needs are its own and the peers of its plan, if it has
// one. Returns how many; a position may come twice.
static uint32_t registration_place_count(const struct rondo_registration *r) {
  return r->is_planned ? 1 + rondo_plan_connector_count(r->plan) : 1;
}

static uint32_t registration_place(const struct rondo_registration *r, uint32_t i) {
  return i == 0 ? r->position : rondo_plan_connector_peer(r->plan, i - 1);
}

// Makes them known to the communicator, and where they are. Returns RONDO_SUCCESS or
// RONDO_ERR_NO_MEMORY.
static int registration_locate(const struct rondo_job *job, const struct rondo_registration *r,
                               struct rondo_communicator *comm) {
  uint32_t count = registration_place_count(r);
  if (rondo_communicator_admit(comm, r->position, r->is_planned ? r->plan : NULL) != RONDO_SUCCESS)
    return RONDO_ERR_NO_MEMORY;
  for (uint32_t i = 0; job->membership && i < count; i++) {
    uint32_t position = registration_place(r, i);
    rondo_binding_locate(&job->transports, comm, position,
                         rondo_processes_where(job, comm->ranks[position]));
  }
  return RONDO_SUCCESS;
}

// True if the process of each of them is known, or the member is gone.
static bool registration_is_located(const struct rondo_job *job,
                                    const struct rondo_registration *r) {
  uint32_t count = registration_place_count(r);
  for (uint32_t i = 0; job->membership && i < count; i++) {
    uint32_t position = registration_place(r, i);
    if (rondo_communicator_member(r->comm, position)->process == RONDO_SOMEWHERE &&
        !job->gone[r->comm->ranks[position]])
      return false;
  }
  return true;
}

// Fails the registration if no transport reaches one of them.
static void registration_check_reach(struct rondo_job *job,
                                     struct rondo_registration *registration) {
  const struct rondo_communicator *comm = registration->comm;
  uint32_t count = registration_place_count(registration);
  for (uint32_t i = 0; job->membership && i < count; i++) {
    uint32_t position = registration_place(registration, i);
    uint32_t process = rondo_communicator_member(comm, position)->process;
    if (process >= job->process_count ||
        job->transports.peers[process].reach != RONDO_TRANSPORT_NONE)
      continue;
    char why[RONDO_WHY_BYTES];
    (void)rondo_processes_transport(job, job->members[registration->rank], comm->ranks[position],
                                    why, sizeof why);
    rondo_log(RONDO_LOG_ERROR, "register: id %llu: no transport reaches rank %u: %s",
              (unsigned long long)registration->id.number, comm->ranks[position], why);
    rondo_job_fail(job, registration, RONDO_ERR_UNSUPPORTED);
    return;
  }
}

void rondo_match_settle(struct rondo_job *job, struct rondo_match_entry *m,
                        struct rondo_registration *registration) {
  struct rondo_communicator *comm = registration->comm;
  if (!registration->is_planned)
    return;
  int status = registration_locate(job, registration, comm);
  if (status == RONDO_SUCCESS && !registration_is_located(job, registration))
    return;
  if (status == RONDO_SUCCESS)
    registration_check_reach(job, registration);
  if (comm->gate.state >= RONDO_GATE_FAILED)
    return; // it needs no connectors
  if (!registration->is_loaded) {
    if (registration->is_written)
      rondo_device_work_add(job, m, comm);
    return;
  }
  if (rondo_pool_is_wanted(&job->want))
    return; // first those that have waited longer
  if (status == RONDO_SUCCESS)
    status =
        rondo_communicator_connect(comm, registration->plan, registration->position, &job->want);
  if (status == RONDO_IN_PROGRESS)
    return;
  if (status == RONDO_SUCCESS && rondo_communicator_is_unwritten(comm)) {
    rondo_device_work_add(job, m, comm); // peers write to the connectors once they are offered
    return;
  }
  if (status == RONDO_SUCCESS)
    status = rondo_binding_open_proxied(&job->transports, comm, m);
  if (status != RONDO_SUCCESS) {
    const struct rondo_agreement_failure failure = failure_of(status, registration->rank);
    rondo_log(RONDO_LOG_ERROR, "register: id %llu: no memory, or connector_bytes is used up",
              (unsigned long long)registration->id.number);
    comm_fail_everywhere(job, m, comm, &failure);
  }
  rondo_offers_send(job, registration); // also after a failure: what is proxied ends by an answer
  comm_bind_links(job, m, comm);
  comm_open(job, m, comm);
}

static bool registration_has_places(const struct rondo_job *job,
                                    const struct rondo_registration *r) {
  if (!job->membership || r->comm->gate.state != RONDO_GATE_CLOSED)
    return true;
  uint32_t count = registration_place_count(r);
  for (uint32_t i = 0; r->has_offered && i < count; i++) {
    uint32_t process = rondo_processes_where(job, r->comm->ranks[registration_place(r, i)]);
    if (process < job->process_count && !rondo_mapped_is_complete(&job->transports, process))
      return false;
  }
  return r->has_offered;
}

bool rondo_job_has_places(struct rondo_job *job, const struct rondo_registration *registration) {
  pthread_mutex_lock(&job->lock);
  bool has_places = registration_has_places(job, registration);
  pthread_mutex_unlock(&job->lock);
  return has_places;
}

void rondo_match_settle_all(struct rondo_job *job, struct rondo_match_entry *m) {
  for (struct rondo_registration *r = m->registrations; r; r = r->next)
    if (!r->has_offered)
      rondo_match_settle(job, m, r);
}

void rondo_job_written(struct rondo_job *job, struct rondo_registration *registration) {
  pthread_mutex_lock(&job->lock);
  registration->is_written = 1;
  rondo_match_settle(job, entry_find(job, registration), registration);
  rondo_job_unlock(job);
}

struct rondo_registration *rondo_match_unloaded(const struct rondo_communicator *comm) {
  const struct rondo_match_entry *m = comm->home;
  struct rondo_registration *r = comm->gate.state == RONDO_GATE_CLOSED ? m->registrations : NULL;
  while (r && (r->comm != comm || !r->is_planned || !r->is_written || r->is_loaded))
    r = r->next;
  return r;
}

// ----------------------------------------------------------------- planning ---

// Plans a registration, unless where its members are is not known yet.
static void registration_plan(struct rondo_job *job, struct rondo_registration *r) {
  if (r->is_planned || (job->membership && job->roster == RONDO_ROSTER_AWAITED))
    return;
  r->shape.topology = rondo_processes_topology(job, r->members, r->nranks);
  r->plan_status = r->shape.topology ? r->calls->plan(r) : RONDO_ERR_NO_MEMORY;
  r->is_planned = r->plan_status == RONDO_SUCCESS;
}

int rondo_job_plan(struct rondo_job *job, struct rondo_registration *registration) {
  pthread_mutex_lock(&job->lock);
  registration_plan(job, registration);
  pthread_mutex_unlock(&job->lock);
  return registration->plan_status == RONDO_ERR_NO_MEMORY ? RONDO_ERR_NO_MEMORY : RONDO_SUCCESS;
}

// Fails the runs of a registration that has no plan.
static void registration_fail_unplanned(struct rondo_job *job, const struct rondo_match_entry *m,
                                        const struct rondo_registration *r) {
  char text[RONDO_REASON_BYTES];
  struct rondo_agreement_failure failure = failure_of(r->plan_status, r->rank);
  (void)snprintf(text, sizeof text, "id %llu: rank %u has no plan for %s of %u ranks by %s: %s",
                 (unsigned long long)r->id.number, r->rank, rondo_kind_name(r->desc->kind),
                 r->nranks, rondo_plan_algorithm_name(r->shape.algorithm),
                 rondo_status_string(r->plan_status));
  failure.text = text;
  rondo_log(RONDO_LOG_ERROR, "%s", text);
  comm_fail_everywhere(job, m, r->comm, &failure);
}

// Compares the plan of a registration with that of another one, which shares its communicator since
// before they had plans.
static void registration_compare_plan(struct rondo_job *job, const struct rondo_match_entry *m,
                                      const struct rondo_registration *r,
                                      const struct rondo_registration *other) {
  char text[RONDO_REASON_BYTES];
  const char *what = rondo_registration_difference(r, other);
  if (!what)
    return;
  rondo_registration_report_mismatch(other, r, what, text);
  const struct rondo_agreement_failure failure = {RONDO_ERR_MISMATCH, r->rank, other->rank, text};
  comm_fail_everywhere(job, m, r->comm, &failure);
}

static struct rondo_registration *registration_find_planned(const struct rondo_match_entry *m,
                                                            const struct rondo_communicator *comm) {
  struct rondo_registration *r = m->registrations;
  while (r && (r->comm != comm || !r->is_planned))
    r = r->next;
  return r;
}

// Also those whose communicator has failed: other processes compare their descriptors.
void rondo_match_plan_all(struct rondo_job *job, struct rondo_match_entry *m) {
  for (struct rondo_registration *r = m->registrations; r; r = r->next) {
    const struct rondo_registration *other = registration_find_planned(m, r->comm);
    if (r->is_planned)
      continue;
    registration_plan(job, r);
    if (!r->is_planned) {
      registration_fail_unplanned(job, m, r);
    } else if (other) {
      registration_compare_plan(job, m, r, other);
    } else {
      r->comm->shape = r->shape;
    }
    if (r->is_planned)
      rondo_agreeing_plan(job, r);
  }
}

// Sets the place of a member's receive connectors: the NUMA node of its device, or else of the
// registering thread, which is probably that of its buffers.
static void comm_set_place(struct rondo_communicator *comm, uint32_t position,
                           struct rondo_device *device) {
  struct rondo_communicator_member *m = rondo_communicator_member(comm, position);
  m->device = device;
  m->node = device->driver->node ? device->driver->node(device) : rondo_node_here();
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

// Sets the generation of a registration. The agreement counts those of a job of several processes.
// Returns false without memory.
static bool registration_number(const struct rondo_job *job, struct rondo_match_entry *m,
                                struct rondo_registration *registration) {
  if (job->agreeing) {
    registration->generation = rondo_agreeing_times(job, registration) + 1;
    return true;
  }
  const struct rondo_match_history *h = rondo_match_history_get(m, registration->rank);
  registration->generation = h ? h->times + 1 : 0;
  return h != NULL;
}

static void registration_add(struct rondo_job *job, struct rondo_match_entry *m,
                             struct rondo_registration *registration,
                             struct rondo_communicator *comm, bool is_fresh) {
  comm_join(registration, comm);
  rondo_match_entry_add(m, registration);
  if (registration->owner) {
    registration->next_owned = registration->owner->registrations;
    registration->owner->registrations = registration;
  }
  if (!job->agreeing)
    rondo_match_history_find(m, registration->rank)->times++;
  if (!is_fresh)
    return;
  comm->next = m->comms;
  m->comms = comm;
  registration_note_departed(m, registration);
}

// A registration in the making. What needs the driver is prepared without the lock.
struct attempt {
  struct rondo_registration *registration;
  struct rondo_communicator *fresh; // for a first member here; null: none yet, or it is in use
  struct rondo_pool_want want;
};

// Finds the communicator of a registration, or takes a fresh one, and connects it. Returns
// RONDO_SUCCESS, RONDO_ERR_NO_MEMORY, or RONDO_IN_PROGRESS: the attempt has to be prepared.
static int attempt_find_comm(struct rondo_job *job, const struct rondo_match_entry *m,
                             struct attempt *attempt, struct rondo_communicator **found) {
  struct rondo_registration *registration = attempt->registration;
  struct rondo_communicator *comm = comm_find_equal(m, registration);
  if (!comm) {
    comm = attempt->fresh;
    if (!comm)
      return RONDO_IN_PROGRESS;
    comm->generation = registration->generation;
  }
  if (registration_locate(job, registration, comm) != RONDO_SUCCESS)
    return RONDO_ERR_NO_MEMORY;
  comm_set_place(comm, registration->position, job->members[registration->rank]->device);
  int status = RONDO_SUCCESS;
  if (registration->is_planned)
    status = rondo_communicator_connect(comm, registration->plan, registration->position,
                                        &attempt->want);
  if (status == RONDO_SUCCESS)
    status = rondo_agreeing_register(job, registration);
  *found = comm;
  return status == RONDO_SUCCESS || status == RONDO_IN_PROGRESS ? status : RONDO_ERR_NO_MEMORY;
}

// Adds the registration to its match entry. Returns as attempt_find_comm.
static int attempt_add(struct rondo_job *job, struct attempt *attempt) {
  struct rondo_registration *registration = attempt->registration;
  struct rondo_communicator *comm = NULL;
  struct rondo_match_entry *m = rondo_match_entry_get(job, registration->id);
  int status = RONDO_ERR_NO_MEMORY;
  if (m && registration_number(job, m, registration))
    status = attempt_find_comm(job, m, attempt, &comm);
  if (status != RONDO_SUCCESS) {
    if (m)
      rondo_match_entry_drop_if_over(job, m);
    return status;
  }
  bool is_fresh = comm == attempt->fresh;
  registration_add(job, m, registration, comm, is_fresh);
  if (is_fresh)
    attempt->fresh = NULL;
  if (registration->plan_status != RONDO_SUCCESS)
    registration_fail_unplanned(job, m, registration);
  registration_fail_mismatch(job, m, registration);
  rondo_agreeing_run(job);
  if (job->membership)
    rondo_match_settle(job, m, registration);
  else
    comm_open(job, m, comm);
  registration_settle_owner(job, registration);
  return RONDO_SUCCESS;
}

// Gets what the attempt lacks: connector memory, or a communicator. Releases the lock meanwhile.
// Returns RONDO_IN_PROGRESS, or RONDO_ERR_NO_MEMORY.
static int attempt_prepare(struct rondo_job *job, struct attempt *attempt) {
  const struct rondo_registration *registration = attempt->registration;
  struct rondo_pool *pool = &job->transports.pool;
  if (rondo_pool_is_wanted(&attempt->want)) {
    rondo_pool_supply(pool, &attempt->want, &job->lock);
    return RONDO_IN_PROGRESS;
  }
  pthread_mutex_unlock(&job->lock);
  attempt->fresh = rondo_communicator_create(pool, &registration->shape, registration->members);
  pthread_mutex_lock(&job->lock);
  return attempt->fresh ? RONDO_IN_PROGRESS : RONDO_ERR_NO_MEMORY;
}

// Plans the registration if the roster has come while the lock was released. A communicator that
// was made before has the wrong shape.
static void attempt_plan(struct rondo_job *job, struct attempt *attempt) {
  if (attempt->registration->is_planned)
    return;
  registration_plan(job, attempt->registration);
  if (attempt->registration->is_planned && attempt->fresh) {
    rondo_communicator_destroy(attempt->fresh);
    attempt->fresh = NULL;
  }
}

int rondo_job_register(struct rondo_job *job, struct rondo_registration *registration) {
  struct attempt attempt = {.registration = registration};
  int status = RONDO_IN_PROGRESS;
  pthread_mutex_lock(&job->lock);
  while (status == RONDO_IN_PROGRESS) {
    attempt_plan(job, &attempt);
    status = attempt_add(job, &attempt);
    if (status == RONDO_IN_PROGRESS)
      status = attempt_prepare(job, &attempt);
  }
  if (attempt.fresh)
    rondo_communicator_destroy(attempt.fresh);
  rondo_job_unlock(job);
  return status;
}

// ------------------------------------------------------ what the agreement says ---

static bool is_of_key(const struct rondo_registration *r, const struct rondo_agreement_key *key) {
  return r->generation == key->generation && r->group == key->group;
}

void rondo_match_agreed(struct rondo_job *job, const struct rondo_agreement_key *key) {
  struct rondo_match_entry *m = rondo_match_entry_find(job, key->id);
  for (struct rondo_registration *r = m ? m->registrations : NULL; r; r = r->next) {
    if (!is_of_key(r, key))
      continue;
    r->comm->joined = r->comm->shape.nranks;
    comm_open(job, m, r->comm);
  }
}

// The rank that members here blame: of the two sides of a mismatch the one that is not here.
static uint32_t comm_culprit(const struct rondo_match_entry *m,
                             const struct rondo_communicator *comm,
                             const struct rondo_agreement_failure *failure) {
  for (const struct rondo_registration *r = m->registrations; r; r = r->next)
    if (r->comm == comm && r->rank == failure->culprit && failure->other != UINT32_MAX)
      return failure->other;
  return failure->culprit;
}

void rondo_match_failed(struct rondo_job *job, const struct rondo_agreement_key *key,
                        const struct rondo_agreement_failure *failure) {
  struct rondo_match_entry *m = rondo_match_entry_find(job, key->id);
  bool is_logged = failure->status != RONDO_ERR_MISMATCH || !failure->text[0];
  for (struct rondo_registration *r = m ? m->registrations : NULL; r; r = r->next) {
    if (!is_of_key(r, key) || r->comm->gate.state >= RONDO_GATE_FAILED)
      continue;
    if (!is_logged)
      rondo_log(RONDO_LOG_ERROR, "%s", failure->text);
    is_logged = true;
    struct rondo_agreement_failure here = *failure;
    here.culprit = comm_culprit(m, r->comm, failure);
    comm_fail(job, m, r->comm, &here);
  }
}

static void comm_limit(struct rondo_job *job, const struct rondo_match_entry *m,
                       struct rondo_communicator *comm, uint64_t completed, uint32_t culprit) {
  if (completed >= comm->gate.last_run)
    return;
  if (comm->gate.culprit == UINT32_MAX)
    rondo_store_relaxed_u32(&comm->gate.culprit, culprit);
  rondo_store_release_u64(&comm->gate.last_run, completed); // G1
  comm_flag_members(job, m, comm);
  if (job->membership)
    rondo_job_wake_members(job, comm);
}

void rondo_match_limit(struct rondo_job *job, const struct rondo_agreement_key *key,
                       uint64_t completed, uint32_t culprit) {
  const struct rondo_match_entry *m = rondo_match_entry_find(job, key->id);
  for (const struct rondo_registration *r = m ? m->registrations : NULL; r; r = r->next)
    if (is_of_key(r, key))
      comm_limit(job, m, r->comm, completed, culprit);
}

// ------------------------------------------------------------ deregistering ---

// Destroys a communicator that has no member here and no writer in another process.
static void comm_drop_if_unused(struct rondo_match_entry *m, struct rondo_communicator *comm) {
  if (comm->present || comm->is_writing ||
      (rondo_communicator_is_owed(comm) && !RONDO_FAULT(OWED_IGNORED)))
    return;
  RONDO_LIST_REMOVE(m->comms, comm, next);
  rondo_communicator_destroy(comm);
}

// Ends the use of a communicator that no member here has any more, unless a thread still writes for
// it, which then does so.
static void comm_leave(struct rondo_job *job, struct rondo_match_entry *m,
                       struct rondo_communicator *comm) {
  rondo_device_work_drop(job, comm);
  if (comm->is_writing)
    return;
  rondo_binding_unbind(&job->transports, comm);
  comm_drop_if_unused(m, comm);
}

void rondo_match_written(struct rondo_job *job, struct rondo_communicator *comm, int status,
                         uint32_t rank) {
  struct rondo_match_entry *m = comm->home; // exists while it has the communicator
  if (!comm->present) {
    comm_leave(job, m, comm);
    rondo_match_entry_drop_if_over(job, m);
    return;
  }
  if (status != RONDO_SUCCESS)
    comm_fail_unwritten(job, m, comm, status, rank);
  for (struct rondo_registration *r = job->membership ? m->registrations : NULL; r; r = r->next)
    if (r->comm == comm && !r->has_offered)
      rondo_match_settle(job, m, r);
  comm_open(job, m, comm);
}

bool rondo_job_deregister(struct rondo_job *job, struct rondo_registration *registration,
                          uint64_t completed) {
  pthread_mutex_lock(&job->lock);
  bool is_over = rondo_device_work_await(job, registration->comm);
  struct rondo_match_entry *m = rondo_match_entry_get(job, registration->id);
  struct rondo_communicator *comm = registration->comm;
  rondo_match_entry_remove(registration);
  if (registration->owner)
    RONDO_LIST_REMOVE(registration->owner->registrations, registration, next_owned);
  comm_limit(job, m, comm, completed, registration->rank);
  rondo_offers_detach(job, registration);
  rondo_agreeing_deregister(job, registration, completed);
  if (--comm->present == 0)
    comm_leave(job, m, comm);
  if (job->agreeing)
    rondo_match_entry_drop_if_over(job, m);
  else
    rondo_match_entry_drop_if_even(job, m, registration);
  rondo_job_unlock(job);
  return is_over;
}

int rondo_match_is_link_used(struct rondo_job *job, const struct rondo_proxy_link *proxied) {
  const struct rondo_proxy_link_config *config = rondo_proxy_link_config(proxied);
  const struct rondo_match_entry *m = config->home;
  for (const struct rondo_registration *r = m->registrations; r; r = r->next)
    if (r->comm == config->tag && is_running(job, r))
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
    // The producer may have deregistered, and left before all slots had arrived.
    const struct rondo_agreement_failure failure =
        failure_of(RONDO_ERR_PEER, comm->ranks[comm->links[i].from]);
    if (!is_whole && comm->present)
      comm_fail_everywhere(job, m, comm, &failure);
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
      if (comm->ranks[link->from] == producer &&
          (consumer == UINT32_MAX || comm->ranks[link->to] == consumer))
        link_release(job, link, consumer != UINT32_MAX);
    }
    comm_drop_if_unused(m, comm);
  }
}

void rondo_match_offered(struct rondo_job *job, struct rondo_match_entry *m,
                         const struct rondo_offers *offers) {
  for (struct rondo_communicator *comm = m->comms; comm; comm = comm->next) {
    if (!comm->present || comm->generation != offers->is.head->key.generation)
      continue;
    comm_bind(job, m, comm, offers);
    comm_open(job, m, comm);
  }
}

void rondo_match_lost(struct rondo_job *job, struct rondo_match_entry *m, uint32_t rank, int left) {
  rondo_offers_forget(m, rank);
  // A lost rank may still be alive and writing: its connectors are not reused.
  if (left)
    rondo_match_release(job, m, 0, rank, UINT32_MAX);
  rondo_match_entry_drop_if_over(job, m);
}
