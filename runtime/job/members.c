#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/condition.h"
#include "base/log.h"
#include "runtime/job/members_entry.h"
#include "runtime/job/members_state.h"
#include "runtime/net/job_address.h"
#include "runtime/net/topology.h"

#define FLUSH_NS UINT64_C(1000000000) // most time for messages of a rank that leaves

// NOLINTNEXTLINE(misc-redundant-expression): two headers must name one number
_Static_assert(RONDO_MESH_ROOT == RONDO_MEMBERSHIP_ROOT, "one number");

// What another thread wants.
struct rondo_members_request {
  STAILQ_ENTRY(rondo_members_request) queued;
  uint8_t type; // enum rondo_membership_event_type
  uint32_t number;
  struct rondo_topology_place place; // JOIN_AGAIN
  char text[RONDO_EPOCH_TEXT_BYTES]; // MISBEHAVED
  uint32_t processes[];              // BLOCK
};

static void members_set_waiting(struct rondo_members *m, const char *text) {
  pthread_mutex_lock(&m->lock);
  (void)snprintf(m->waiting, sizeof m->waiting, "%s", text);
  pthread_mutex_unlock(&m->lock);
}

static void members_set_phase(struct rondo_members *m, int phase) {
  pthread_mutex_lock(&m->lock);
  m->phase = phase;
  pthread_mutex_unlock(&m->lock);
}

static void members_settle(struct rondo_members *m) {
  pthread_mutex_lock(&m->lock);
  m->is_settled = true;
  pthread_cond_broadcast(&m->changed);
  pthread_mutex_unlock(&m->lock);
}

// ------------------------------------------------------------------- losses ---

// Ranks that are being reported together.
struct losses {
  uint32_t *ranks, count;
};

static void losses_add(struct rondo_members *m, struct losses *l, uint32_t rank) {
  if (m->here[rank] || m->lost[rank])
    return;
  m->lost[rank] = 1;
  if (l->ranks)
    l->ranks[l->count++] = rank;
}

static void losses_report(struct rondo_members *m, struct losses *l, int reason, const char *text) {
  if (l->count && m->events.lost && m->stage == RONDO_MEMBERS_NOT_STOPPING)
    m->events.lost(m->arg, l->ranks, l->count, reason, text);
  l->count = 0;
}

static struct losses losses_begin(const struct rondo_members *m) {
  return (struct losses){.ranks = malloc(m->cfg.rank_count * sizeof(uint32_t))};
}

// All other ranks are lost to this process.
static void members_fail(struct rondo_members *m, int reason, const char *text) {
  struct losses l = losses_begin(m);
  rondo_log(RONDO_LOG_ERROR, "rank %u %s: %s", m->cfg.rank,
            m->phase == RONDO_MEMBERS_JOINING ? "could not join its job"
                                              : "is no longer in its job",
            text);
  members_set_phase(m, RONDO_MEMBERS_FAILED);
  for (uint32_t r = 0; r < m->cfg.rank_count; r++)
    losses_add(m, &l, r);
  losses_report(m, &l, reason, text);
  free(l.ranks);
  for (uint32_t p = 0; p < m->process_count; p++)
    if (p != m->self)
      rondo_mesh_lose(m->mesh, p);
  members_settle(m);
}

static void process_add_losses(struct rondo_members *m, struct losses *l, uint32_t process) {
  const struct rondo_topology_process *at = &m->topology->processes[process];
  for (uint32_t i = 0; i < at->rank_count; i++)
    losses_add(m, l, at->ranks[i]);
  if (process != m->self)
    rondo_mesh_lose(m->mesh, process);
}

static int removal_reason(const struct rondo_removal *r) {
  static const int reasons[] = {[RONDO_REMOVED_LEFT] = RONDO_LOST_LEFT,
                                [RONDO_REMOVED_DIED] = RONDO_LOST_DIED,
                                [RONDO_REMOVED_SILENT] = RONDO_LOST_SILENT,
                                [RONDO_REMOVED_BROKE] = RONDO_LOST_BROKE,
                                [RONDO_REMOVED_RANK] = RONDO_LOST_LEFT};
  bool is_known = r->reason < sizeof reasons / sizeof *reasons && reasons[r->reason];
  return is_known ? reasons[r->reason] : RONDO_LOST_BROKE;
}

// Writes why a process is removed, and who it was.
static void removal_text(const struct rondo_members *m, const struct rondo_removal *r,
                         uint32_t process, char *text) {
  const struct rondo_topology_process *at = &m->topology->processes[process];
  const char *host = m->topology->machines[at->machine].host;
  if (r->reason == RONDO_REMOVED_SILENT)
    (void)snprintf(text, RONDO_MEMBERS_TEXT_BYTES, "%s, pid %u, %s", host, at->pid,
                   *r->text ? r->text : "does not answer");
  else
    (void)snprintf(text, RONDO_MEMBERS_TEXT_BYTES, "%s, pid %u, %s%s%s%s", host, at->pid,
                   r->reason == RONDO_REMOVED_DIED ? "ended without leaving the job"
                                                   : "violated the protocol",
                   *r->text ? " (" : "", r->text, *r->text ? ")" : "");
}

static void members_remove(struct rondo_members *m, struct losses *l,
                           const struct rondo_removal *r) {
  char text[RONDO_MEMBERS_TEXT_BYTES] = "it left the job";
  int reason = removal_reason(r);
  for (uint32_t i = 0; i < r->count; i++) {
    if (r->reason == RONDO_REMOVED_RANK && r->first + i < m->cfg.rank_count)
      losses_add(m, l, r->first + i);
    if (r->reason == RONDO_REMOVED_RANK || r->first + i >= m->topology->process_count)
      continue;
    process_add_losses(m, l, r->first + i);
    if (reason != RONDO_LOST_LEFT) {
      removal_text(m, r, r->first + i, text);
      losses_report(m, l, reason, text);
    }
  }
  losses_report(m, l, reason, text);
}

// ------------------------------------------------------------------- roster ---

// Reads the cost model of rank 0. False if it is malformed: `text` says how.
static bool members_read_model(struct rondo_members *m, const struct rondo_roster *roster,
                               char *text) {
  struct rondo_roster_entry entry;
  char why[RONDO_COST_WHY_BYTES];
  if (roster->process_of[0] == RONDO_ROSTER_NOBODY)
    return true;
  rondo_roster_entry_get(roster, roster->process_of[0], &entry);
  if (rondo_members_entry_model(entry.bytes, entry.size, &m->model, why))
    return true;
  (void)snprintf(text, RONDO_MEMBERS_TEXT_BYTES, "the cost model of rank 0 %s", why);
  return false;
}

// The roster has come: other processes can be reached.
static void members_meet(struct rondo_members *m) {
  const struct rondo_roster *roster = m->core ? rondo_membership_roster(m->core) : NULL;
  char text[RONDO_MEMBERS_TEXT_BYTES] = "the roster is malformed, or there is no memory for it";
  if (!roster || m->topology)
    return;
  m->self = rondo_membership_self(m->core);
  m->topology = rondo_members_entry_topology(roster);
  if (m->topology && members_read_model(m, roster, text) &&
      rondo_mesh_meet(m->mesh, m->self, m->topology))
    return;
  members_fail(m, RONDO_LOST_BROKE, text);
  rondo_membership_actions_clear(&m->actions);
  rondo_membership_destroy(m->core);
  m->core = NULL;
}

// The first epoch is open.
static void members_publish(struct rondo_members *m) {
  const struct rondo_roster *roster = rondo_membership_roster(m->core);
  pthread_mutex_lock(&m->lock);
  m->process_count = m->topology->process_count;
  for (uint32_t r = 0; r < m->cfg.rank_count; r++)
    if (roster->absence[r])
      m->is_complete = false;
  m->phase = RONDO_MEMBERS_READY;
  pthread_mutex_unlock(&m->lock);
  if (m->events.roster && m->stage == RONDO_MEMBERS_NOT_STOPPING)
    m->events.roster(m->arg);
  struct losses l = losses_begin(m);
  char text[RONDO_MEMBERS_TEXT_BYTES];
  for (uint32_t r = 0; r < m->cfg.rank_count; r++)
    if (roster->absence[r] == RONDO_ABSENT_LEFT)
      losses_add(m, &l, r);
  losses_report(m, &l, RONDO_LOST_LEFT, "it left the job");
  for (uint32_t r = 0; r < m->cfg.rank_count; r++)
    if (roster->absence[r] == RONDO_ABSENT_MISSING)
      losses_add(m, &l, r);
  (void)snprintf(text, sizeof text, "it did not join within %llu ms",
                 (unsigned long long)m->cfg.join_timeout_ns / 1000000);
  losses_report(m, &l, RONDO_LOST_MISSING, text);
  free(l.ranks);
}

// Keeps the connections of the tree: its neighbours notice at once that a process has ended.
static void members_keep_tree(struct rondo_members *m) {
  const struct rondo_epoch *epoch = rondo_membership_epoch(m->core);
  uint32_t processes[RONDO_EPOCH_CHILDREN + 1];
  uint32_t count = 0;
  if (rondo_epoch_is_member(epoch, m->self)) {
    uint32_t parent = rondo_epoch_parent(epoch, m->self);
    count = rondo_epoch_children(epoch, m->self, processes);
    if (parent != RONDO_ROSTER_NOBODY)
      processes[count++] = parent;
  }
  rondo_mesh_keep(m->mesh, processes, count);
}

static void members_on_opened(struct rondo_members *m, const struct rondo_shared_bytes *removals) {
  struct rondo_removal r;
  uint32_t at = 0;
  bool is_first = !m->process_count;
  if (is_first)
    members_publish(m);
  struct losses l = losses_begin(m);
  while (rondo_removal_next(removals, &at, &r) == 1)
    members_remove(m, &l, &r);
  free(l.ranks);
  members_keep_tree(m);
  if (!is_first)
    return;
  rondo_mesh_open(m->mesh);
  members_settle(m);
  for (uint32_t r2 = 0; r2 < m->cfg.rank_count && !m->flush; r2++)
    if (m->leaving[r2])
      m->flush = rondo_mesh_flush(m->mesh); // they left before the others knew of them
}

// ------------------------------------------------------------------ actions ---

// How a process of this machine is, by the kernel. Not to be told if it is in another namespace.
static int process_inspect(const struct rondo_members *m, uint32_t process) {
  const struct rondo_topology_process *at = &m->topology->processes[process];
  const struct rondo_topology_machine *there = &m->topology->machines[at->machine];
  char path[64];
  char text[256] = "";
  if (there->pid_namespace != m->me.pid_namespace)
    return RONDO_INSPECTED_NOT;
  (void)snprintf(path, sizeof path, "/proc/%u/stat", at->pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return access("/proc/self/stat", R_OK) == 0 ? RONDO_INSPECTED_DEAD : RONDO_INSPECTED_NOT;
  ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  const char *state = size > 0 ? strrchr(text, ')') : NULL; // the name may hold anything
  if (!state || state[1] != ' ')
    return RONDO_INSPECTED_NOT;
  if (state[2] == 'Z' || state[2] == 'X' || state[2] == 'x')
    return RONDO_INSPECTED_DEAD;
  return state[2] == 'T' || state[2] == 't' ? RONDO_INSPECTED_STOPPED : RONDO_INSPECTED_RUNS;
}

static void members_on_failed(struct rondo_members *m, uint8_t type, const char *why) {
  char text[RONDO_MEMBERS_TEXT_BYTES];
  (void)snprintf(text, sizeof text, "%s", why);
  if (m->is_rejected)
    (void)snprintf(text, sizeof text, "the root rejected the process: %s", why);
  else if (type == RONDO_MEMBERSHIP_FAILED && strstr(why, "join timeout"))
    (void)snprintf(text, sizeof text, "timed out after %llu ms: %s",
                   (unsigned long long)m->cfg.join_timeout_ns / 1000000, m->waiting);
  int reason = m->is_root_gone ? RONDO_LOST_DIED : RONDO_LOST_MISSING;
  members_fail(m, type == RONDO_MEMBERSHIP_FAILED ? reason : RONDO_LOST_SELF, text);
}

static void members_carry_out(struct rondo_members *m, const struct rondo_membership_action *a) {
  const char *text = a->bytes ? (const char *)a->bytes->bytes : "";
  switch (a->type) {
  case RONDO_MEMBERSHIP_SEND:
    rondo_mesh_control(m->mesh, a->process, a->bytes);
    break;
  case RONDO_MEMBERSHIP_OPENED:
    members_on_opened(m, a->bytes);
    break;
  case RONDO_MEMBERSHIP_INSPECT:
    if (m->inspect_count < sizeof m->inspects / sizeof *m->inspects)
      m->inspects[m->inspect_count++] = a->process;
    break;
  case RONDO_MEMBERSHIP_NOTICE:
    rondo_log(RONDO_LOG_WARN, "rank %u: %s", m->cfg.rank, text);
    break;
  case RONDO_MEMBERSHIP_EVICTED:
  case RONDO_MEMBERSHIP_NO_MAJORITY:
  case RONDO_MEMBERSHIP_FAILED:
    members_on_failed(m, a->type, text);
    break;
  default: // LEFT: the stop sees that the core has ended; no log is kept, so nothing is appended
    break;
  }
}

void rondo_members_step(struct rondo_members *m, struct rondo_membership_event event) {
  if (!m->core)
    return;
  event.now_ns = rondo_now_ns();
  rondo_membership_step(m->core, &event, &m->actions);
  members_meet(m);
  for (uint32_t i = 0; i < m->actions.count; i++)
    members_carry_out(m, &m->actions.items[i]);
  rondo_membership_actions_clear(&m->actions);
  while (m->inspect_count && m->core) {
    uint32_t process = m->inspects[--m->inspect_count];
    rondo_members_step(
        m, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_INSPECTED,
                                           .process = process,
                                           .state = (uint8_t)process_inspect(m, process)});
  }
  rondo_members_set_tick(m);
}

// ------------------------------------------------------------------ the mesh ---

static void members_on_joined(struct rondo_members *m, const void *bytes, size_t size) {
  struct rondo_joined joined;
  char text[RONDO_MEMBERS_TEXT_BYTES / 2];
  if (!rondo_membership_joined_decode(bytes, size, &joined))
    return;
  m->is_rejected = *(const uint8_t *)bytes == RONDO_MEMBERSHIP_REJECTED;
  if (m->is_rejected || joined.joined_count >= joined.rank_count)
    return;
  (void)snprintf(text, sizeof text, "%u of %u ranks are missing: %s",
                 joined.rank_count - joined.joined_count, joined.rank_count, joined.text);
  members_set_waiting(m, text);
}

static void on_control(void *arg, uint32_t from, const void *bytes, size_t size) {
  struct rondo_members *m = arg;
  if (from == RONDO_MESH_ROOT)
    members_on_joined(m, bytes, size);
  rondo_members_step(
      m, (struct rondo_membership_event){
             .type = RONDO_MEMBERSHIP_RECEIVE, .process = from, .bytes = bytes, .size = size});
}

static void on_receive(void *arg, struct rondo_mesh_message *message) {
  struct rondo_members *m = arg;
  if (m->events.receive && m->phase == RONDO_MEMBERS_READY &&
      m->stage == RONDO_MEMBERS_NOT_STOPPING)
    m->events.receive(m->arg, message);
}

static void on_cut(void *arg, uint32_t process, bool is_proven, const char *text) {
  struct rondo_members *m = arg;
  m->is_root_gone |= process == RONDO_MESH_ROOT && is_proven;
  rondo_members_step(m, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_CUT,
                                                        .process = process,
                                                        .is_proven = is_proven,
                                                        .text = text});
}

static void on_broke(void *arg, uint32_t process, const char *text) {
  struct rondo_members *m = arg;
  if (m->topology)
    rondo_members_step(m, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_MISBEHAVED,
                                                          .process = process,
                                                          .text = text});
}

static void on_waits(void *arg, const char *text) { members_set_waiting(arg, text); }

static void on_failed(void *arg, const char *text) {
  struct rondo_members *m = arg;
  if (m->phase == RONDO_MEMBERS_JOINING && m->stage == RONDO_MEMBERS_NOT_STOPPING)
    members_fail(m, RONDO_LOST_MISSING, text);
  rondo_membership_destroy(m->core);
  m->core = NULL;
}

static const struct rondo_mesh_events mesh_events = {.control = on_control,
                                                     .receive = on_receive,
                                                     .cut = on_cut,
                                                     .broke = on_broke,
                                                     .waits = on_waits,
                                                     .failed = on_failed};

// ----------------------------------------------------------------- requests ---

// Makes the JOIN of this process. `bytes` and `*ranges` belong to the caller. False without memory.
static bool members_join_make(struct rondo_members *m, uint8_t bytes[RONDO_ROSTER_ENTRY_BYTES],
                              struct rondo_rank_range **ranges, struct rondo_join *join) {
  bool has_model = m->me.ranks[0] == 0 && m->events.model;
  const struct rondo_cost_model *model = has_model ? m->events.model(m->arg) : NULL;
  *ranges = malloc(m->me.rank_count * sizeof **ranges);
  if (!*ranges)
    return false;
  *join = (struct rondo_join){.who = m->who,
                              .machine = m->me.machine[0],
                              .rank_count = m->cfg.rank_count,
                              .range_count = rondo_members_entry_ranges(&m->me, *ranges),
                              .size = rondo_members_entry_write(&m->me, model, bytes),
                              .bytes = bytes};
  return true;
}

static void members_join_again(struct rondo_members *m) {
  uint8_t entry[RONDO_ROSTER_ENTRY_BYTES];
  struct rondo_rank_range *ranges;
  struct rondo_join join;
  struct rondo_shared_bytes *bytes = NULL;
  if (members_join_make(m, entry, &ranges, &join))
    bytes = rondo_membership_join_encode(&join, ranges);
  free(ranges);
  if (bytes)
    rondo_members_step(m, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_JOIN_AGAIN,
                                                          .bytes = bytes->bytes,
                                                          .size = bytes->size});
  rondo_shared_bytes_put(bytes);
}

static void members_on_add(struct rondo_members *m, const struct rondo_members_request *r) {
  if (m->topology || !rondo_wire_member_try_insert(&m->me, r->number, &r->place))
    rondo_log(RONDO_LOG_ERROR, "rank %u cannot join its job: %s", r->number,
              m->topology ? "it joins too late" : "no memory");
  else
    members_join_again(m);
  if (r->number == 0)
    rondo_mesh_make_root(m->mesh);
}

static void members_on_drop(struct rondo_members *m, uint32_t rank) {
  m->leaving[rank] = 1;
  if (!m->process_count)
    return; // when the first epoch is open
  m->flush = rondo_mesh_flush(m->mesh);
  m->flush_end_ns = rondo_now_ns() + FLUSH_NS;
  rondo_members_set_tick(m);
}

// Tells the others of ranks that have left, once their messages have been read.
static void members_look_at_leaving(struct rondo_members *m) {
  if (!m->flush || (!rondo_mesh_is_flushed(m->mesh, m->flush) && rondo_now_ns() < m->flush_end_ns))
    return;
  m->flush = 0;
  for (uint32_t r = 0; r < m->cfg.rank_count; r++) {
    if (!m->leaving[r])
      continue;
    m->leaving[r] = 0;
    rondo_members_step(
        m, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_DROP_RANK, .process = r});
  }
}

static struct rondo_members_request *request_pop(struct rondo_members *m) {
  pthread_mutex_lock(&m->lock);
  struct rondo_members_request *r = STAILQ_FIRST(&m->requests);
  if (r)
    STAILQ_REMOVE_HEAD(&m->requests, queued);
  pthread_mutex_unlock(&m->lock);
  return r;
}

void rondo_members_serve(struct rondo_members *m) {
  for (struct rondo_members_request *r; (r = request_pop(m)); free(r)) {
    if (r->type == RONDO_MEMBERSHIP_JOIN_AGAIN)
      members_on_add(m, r);
    else if (r->type == RONDO_MEMBERSHIP_DROP_RANK)
      members_on_drop(m, r->number);
    else if (m->process_count)
      rondo_members_step(m, (struct rondo_membership_event){.type = r->type,
                                                            .process = r->number,
                                                            .count = r->number,
                                                            .processes = r->processes,
                                                            .text = r->text});
  }
}

static void members_on_requests(void *arg) { rondo_members_serve(arg); }

static struct rondo_members_request *request_create(uint8_t type, uint32_t number,
                                                    uint32_t processes) {
  struct rondo_members_request *r = calloc(1, sizeof *r + processes * sizeof *r->processes);
  if (!r)
    return NULL;
  r->type = type;
  r->number = number;
  return r;
}

// Needs the lock.
static void request_push(struct rondo_members *m, struct rondo_members_request *r) {
  STAILQ_INSERT_TAIL(&m->requests, r, queued);
  (void)rondo_mesh_after(m->mesh, 0, members_on_requests, m); // else with the next one
}

static int members_add_rank(struct rondo_members *m, uint32_t rank,
                            const struct rondo_topology_place *place) {
  struct rondo_members_request *r = request_create(RONDO_MEMBERSHIP_JOIN_AGAIN, rank, 0);
  int status = RONDO_SUCCESS;
  if (!r)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "init: no memory to announce rank %u", rank);
  r->place = place ? *place : (struct rondo_topology_place){.node = -1};
  pthread_mutex_lock(&m->lock);
  if (m->here[rank])
    status = RONDO_ERR_EXISTS;
  else if (m->phase != RONDO_MEMBERS_JOINING)
    status = RONDO_ERR_TIMEOUT;
  if (status == RONDO_SUCCESS) {
    m->here[rank] = 1;
    request_push(m, r);
  }
  pthread_mutex_unlock(&m->lock);
  if (status == RONDO_SUCCESS)
    return status;
  free(r);
  return RONDO_LOG_REFUSE(status, "init: rank %u %s", rank,
                          status == RONDO_ERR_EXISTS ? "has already joined this job"
                                                     : "joins this job too late");
}

static void members_request(struct rondo_members *m, struct rondo_members_request *r) {
  if (!r)
    return; // no memory: the others learn of it when this process leaves, or ask again
  pthread_mutex_lock(&m->lock);
  request_push(m, r);
  pthread_mutex_unlock(&m->lock);
}

static void members_remove_rank(struct rondo_members *m, uint32_t rank) {
  members_request(m, request_create(RONDO_MEMBERSHIP_DROP_RANK, rank, 0));
}

static void members_blocked(struct rondo_members *m, const uint32_t *processes, uint32_t count) {
  struct rondo_members_request *r = request_create(RONDO_MEMBERSHIP_BLOCK, count, count);
  if (r && count)
    memcpy(r->processes, processes, count * sizeof *processes);
  members_request(m, r);
}

static void members_give_up(struct rondo_members *m, uint32_t process, const char *text) {
  struct rondo_members_request *r = request_create(RONDO_MEMBERSHIP_MISBEHAVED, process, 0);
  if (r)
    (void)snprintf(r->text, sizeof r->text, "%s", text);
  members_request(m, r);
}

// ------------------------------------------------------------------ reading ---

static bool members_are_known(struct rondo_members *m) {
  pthread_mutex_lock(&m->lock);
  bool is_known = m->process_count != 0;
  pthread_mutex_unlock(&m->lock);
  return is_known;
}

static uint32_t members_self(struct rondo_members *m) {
  return members_are_known(m) ? m->self : RONDO_MESH_NOBODY;
}

static uint32_t members_process_count(struct rondo_members *m) {
  return members_are_known(m) ? m->process_count : 0;
}

static uint32_t members_process_of(struct rondo_members *m, uint32_t rank) {
  if (!members_are_known(m) || rank >= m->cfg.rank_count)
    return RONDO_MESH_NOBODY;
  return m->topology->process_of[rank];
}

static const struct rondo_topology *members_topology(struct rondo_members *m) {
  return members_are_known(m) ? m->topology : NULL;
}

static const struct rondo_cost_model *members_model(struct rondo_members *m) {
  return members_are_known(m) && m->model ? &m->model->model : NULL;
}

static int members_process_get(struct rondo_members *m, uint32_t process,
                               struct rondo_members_process *out) {
  if (!members_are_known(m) || process >= m->process_count)
    return RONDO_ERR_UNKNOWN;
  const struct rondo_topology_process *at = &m->topology->processes[process];
  const struct rondo_topology_machine *there = &m->topology->machines[at->machine];
  *out = (struct rondo_members_process){.machine = {there->id[0], there->id[1]},
                                        .pid_namespace = there->pid_namespace,
                                        .user_namespace = there->user_namespace,
                                        .pid = at->pid,
                                        .uid = there->uid,
                                        .asks_window = at->asks_window,
                                        .cores = rondo_topology_cores(m->topology, process),
                                        .ports = rondo_topology_ports(m->topology, process),
                                        .rank_count = at->rank_count,
                                        .ranks = at->ranks,
                                        .host = there->host};
  return RONDO_SUCCESS;
}

static bool members_is_same_machine(struct rondo_members *m, uint32_t process) {
  if (!members_are_known(m) || process >= m->process_count)
    return false;
  return rondo_topology_is_same_machine(m->topology, process, m->self);
}

static uint32_t members_address_of(struct rondo_members *m, uint32_t process,
                                   struct sockaddr_storage *out) {
  return rondo_mesh_address_of(m->mesh, process, out);
}

static int members_send(struct rondo_members *m, const struct rondo_mesh_send *message) {
  bool is_known = members_are_known(m);
  bool is_invalid =
      message->size > RONDO_MESH_MESSAGE_BYTES || message->fd_count > RONDO_MESH_MESSAGE_FDS;
  return is_known || is_invalid ? rondo_mesh_send(m->mesh, message) : RONDO_ERR_UNKNOWN;
}

static bool members_is_full(struct rondo_members *m) { return rondo_mesh_is_full(m->mesh); }

static int members_after(struct rondo_members *m, uint64_t delay_ns, void (*call)(void *arg),
                         void *arg) {
  return rondo_mesh_after(m->mesh, delay_ns, call, arg);
}

struct rondo_mesh *rondo_members_mesh(struct rondo_members *members) {
  return members->mesh;
}

int rondo_members_await(struct rondo_members *m, int64_t timeout_ns) {
  uint64_t end_ns = rondo_deadline_ns(rondo_now_ns(), timeout_ns);
  char waiting[sizeof m->waiting];
  int error = 0;
  pthread_mutex_lock(&m->lock);
  while (!m->is_settled && !error)
    error = rondo_condition_wait(&m->changed, &m->lock, end_ns);
  bool is_settled = m->is_settled;
  bool is_complete = m->phase == RONDO_MEMBERS_READY && m->is_complete;
  memcpy(waiting, m->waiting, sizeof waiting);
  pthread_mutex_unlock(&m->lock);
  if (!is_settled)
    return RONDO_LOG_REFUSE(RONDO_ERR_TIMEOUT, "rank %u: the job is not complete yet: %s",
                            m->cfg.rank, waiting);
  return is_complete ? RONDO_SUCCESS : RONDO_ERR_PEER;
}

// -------------------------------------------------------------------- start ---

static void members_free(struct rondo_members *m) {
  for (struct rondo_members_request *r; (r = request_pop(m));)
    free(r);
  if (m->mesh)
    rondo_mesh_free(m->mesh);
  rondo_membership_actions_fini(&m->actions);
  rondo_membership_destroy(m->core);
  rondo_topology_destroy(m->topology);
  free(m->model);
  rondo_wire_member_fini(&m->me);
  free(m->here);
  free(m->lost);
  free(m->leaving);
  pthread_cond_destroy(&m->changed);
  pthread_mutex_destroy(&m->lock);
  free(m);
}

static struct rondo_members *members_create(const struct rondo_config *cfg) {
  struct rondo_members *m = calloc(1, sizeof *m);
  if (!m)
    return NULL;
  pthread_mutex_init(&m->lock, NULL);
  rondo_condition_init(&m->changed);
  STAILQ_INIT(&m->requests);
  m->cfg = *cfg;
  m->is_complete = true;
  m->self = RONDO_MESH_NOBODY;
  m->here = calloc(cfg->rank_count, 1);
  m->lost = calloc(cfg->rank_count, 1);
  m->leaving = calloc(cfg->rank_count, 1);
  (void)snprintf(m->waiting, sizeof m->waiting, "the root has not answered yet");
  bool has_number = getrandom(&m->who, sizeof m->who, 0) == (ssize_t)sizeof m->who;
  m->who |= 1; // 0 is nobody
  if (m->here && m->lost && m->leaving && has_number)
    return m;
  members_free(m);
  return NULL;
}

static void members_on_begin(void *arg) {
  struct rondo_members *m = arg;
  uint8_t entry[RONDO_ROSTER_ENTRY_BYTES];
  char text[RONDO_MEMBERSHIP_TEXT_BYTES];
  struct rondo_rank_range *ranges;
  struct rondo_membership_config cfg = {.join_timeout_ns = m->cfg.join_timeout_ns,
                                        .peer_timeout_ns = m->cfg.peer_timeout_ns,
                                        .heartbeat_ns = m->cfg.heartbeat_ns};
  if (m->phase != RONDO_MEMBERS_JOINING)
    return;
  memcpy(cfg.job, rondo_mesh_key(m->mesh)->tag, RONDO_WIRE_TAG_BYTES);
  if (members_join_make(m, entry, &ranges, &cfg.join)) {
    cfg.ranges = ranges;
    m->core = rondo_membership_create(&cfg, rondo_now_ns(), text);
  }
  free(ranges);
  if (m->core)
    rondo_members_step(m, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_TICK});
  else
    members_fail(m, RONDO_LOST_MISSING, "no memory to join");
}

static int members_start(const struct rondo_config *cfg, const struct rondo_topology_place *place,
                         const struct rondo_members_events *events, void *arg,
                         struct rondo_members **out) {
  static const struct rondo_topology_place unknown = {.node = -1};
  struct rondo_members *m = members_create(cfg);
  if (!m)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "init: no memory for a job of %u ranks",
                            cfg->rank_count);
  m->events = *events;
  m->arg = arg;
  m->here[cfg->rank] = 1;
  int status = rondo_mesh_start(cfg, &mesh_events, m, &rondo_members_gatherer, &m->mesh);
  if (status == RONDO_SUCCESS) {
    m->me = *rondo_mesh_self(m->mesh);
    if (!rondo_wire_member_try_insert(&m->me, cfg->rank, place ? place : &unknown) ||
        rondo_mesh_after(m->mesh, 0, members_on_begin, m) != RONDO_SUCCESS)
      status = RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "init: no memory to join a job");
  }
  if (status != RONDO_SUCCESS) {
    members_free(m);
    return status;
  }
  rondo_members_enlist(m);
  *out = m;
  rondo_mesh_begin(m->mesh);
  return RONDO_SUCCESS;
}

static bool members_is_needed(const struct rondo_config *cfg) {
  return rondo_job_address_is_shared(&cfg->id);
}

// --------------------------------------------------------------------- time ---

static void members_on_tick(void *arg) {
  struct rondo_members *m = arg;
  uint64_t now_ns = rondo_now_ns();
  if (m->core && rondo_membership_due(m->core) <= now_ns)
    rondo_members_step(m, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_TICK});
  if (m->stage == RONDO_MEMBERS_NOT_STOPPING) {
    members_look_at_leaving(m);
    rondo_members_set_tick(m);
    return;
  }
  if (!rondo_members_stop_look(m))
    rondo_members_set_tick(m);
}

void rondo_members_set_tick(struct rondo_members *m) {
  uint64_t due_ns = m->core ? rondo_membership_due(m->core) : UINT64_MAX;
  if (m->flush || m->stage != RONDO_MEMBERS_NOT_STOPPING) {
    m->stop_due_ns = rondo_members_next_look(m);
    due_ns = due_ns < m->stop_due_ns ? due_ns : m->stop_due_ns;
  }
  rondo_mesh_set_tick(m->mesh, due_ns, members_on_tick);
}

static void members_stop(struct rondo_members *m, int64_t timeout_ns, int64_t join_ns) {
  rondo_members_stop(m, timeout_ns, join_ns);
  members_free(m);
}

static const struct rondo_members_calls members_calls = {.is_needed = members_is_needed,
                                                         .start = members_start,
                                                         .add_rank = members_add_rank,
                                                         .remove_rank = members_remove_rank,
                                                         .self = members_self,
                                                         .process_count = members_process_count,
                                                         .process_of = members_process_of,
                                                         .is_same_machine = members_is_same_machine,
                                                         .topology = members_topology,
                                                         .model = members_model,
                                                         .process_get = members_process_get,
                                                         .address_of = members_address_of,
                                                         .send = members_send,
                                                         .is_full = members_is_full,
                                                         .after = members_after,
                                                         .blocked = members_blocked,
                                                         .give_up = members_give_up,
                                                         .stop = members_stop};
const struct rondo_members_calls *rondo_members_calls = &members_calls;
