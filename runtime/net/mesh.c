#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/atomic.h"
#include "base/fork.h"
#include "base/clock.h"
#include "base/condition.h"
#include "base/log.h"
#include "runtime/net/identity.h"
#include "runtime/net/interfaces.h"
#include "runtime/net/mesh_state.h"
#include "runtime/net/job_root.h"

#define STOP_PAUSE_NS UINT64_C(1000000)       // between looks at what a stop waits for; doubles
#define STOP_LAST_PAUSE_NS UINT64_C(64000000) // up to this
#define ROOT_NS UINT64_C(10000000000)         // most time to try a launcher's root while stopping

static const struct rondo_topology_place unknown_place = {.node = -1};

static pthread_mutex_t meshes_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, rondo_mesh) meshes;

static void meshes_forked(void) {
  LIST_INIT(&meshes);
  meshes_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
RONDO_ON_FORK(meshes_forked)

// ----------------------------------------------------------------- reports ---

void rondo_mesh_set_phase(struct rondo_mesh *mesh, int phase) {
  pthread_mutex_lock(&mesh->lock);
  mesh->phase = phase;
  pthread_mutex_unlock(&mesh->lock);
}

void rondo_mesh_settle(struct rondo_mesh *mesh) {
  pthread_mutex_lock(&mesh->lock);
  mesh->is_settled = 1;
  pthread_cond_broadcast(&mesh->changed);
  pthread_mutex_unlock(&mesh->lock);
}

// Closes the connections with processes whose ranks are all lost.
static void mesh_drop_empty_peers(struct rondo_mesh *mesh, const uint32_t *ranks, uint32_t count) {
  for (uint32_t i = 0; i < count && mesh->process_count; i++) {
    uint32_t process = mesh->topology->process_of[ranks[i]];
    if (process == RONDO_TOPOLOGY_NOBODY || process == mesh->self)
      continue;
    struct rondo_mesh_peer *peer = &mesh->peers[process];
    const struct rondo_topology_process *at = &mesh->topology->processes[process];
    uint32_t left = at->rank_count;
    for (uint32_t k = 0; k < at->rank_count; k++)
      left -= mesh->lost[at->ranks[k]];
    if (!left && !peer->is_lost)
      rondo_mesh_peer_drop(peer);
  }
}

void rondo_mesh_report(struct rondo_mesh *mesh, const uint32_t *ranks, uint32_t count, int reason,
                       const char *text) {
  uint32_t *fresh = malloc(count * sizeof *fresh);
  uint32_t fresh_count = 0;
  pthread_mutex_lock(&mesh->lock);
  for (uint32_t i = 0; i < count; i++) {
    if (mesh->here[ranks[i]] || mesh->lost[ranks[i]])
      continue;
    mesh->lost[ranks[i]] = 1;
    if (fresh)
      fresh[fresh_count++] = ranks[i];
  }
  if (reason == RONDO_MESH_MISSING)
    mesh->is_complete = 0;
  pthread_mutex_unlock(&mesh->lock);
  mesh_drop_empty_peers(mesh, ranks, count);
  if (fresh_count && mesh->events.lost && mesh->phase != RONDO_MESH_STOPPING)
    mesh->events.lost(mesh->arg, fresh, fresh_count, reason, text);
  free(fresh);
}

void rondo_mesh_fail(struct rondo_mesh *mesh, int reason, const char *text) {
  uint32_t count = mesh->cfg.rank_count;
  uint32_t *ranks = malloc(count * sizeof *ranks);
  if (mesh->phase != RONDO_MESH_JOINING) {
    free(ranks);
    return;
  }
  rondo_log(RONDO_LOG_ERROR, "rank %u could not join its job: %s", mesh->cfg.rank, text);
  rondo_mesh_set_phase(mesh, RONDO_MESH_FAILED);
  for (uint32_t r = 0; ranks && r < count; r++)
    ranks[r] = r;
  if (ranks)
    rondo_mesh_report(mesh, ranks, count, reason, text);
  free(ranks);
  rondo_mesh_settle(mesh);
  rondo_mesh_join_end(mesh);
}

// ------------------------------------------------------------- roster ---

static bool mesh_has_roster(struct rondo_mesh *mesh) {
  pthread_mutex_lock(&mesh->lock);
  bool is_known = mesh->process_count != 0;
  pthread_mutex_unlock(&mesh->lock);
  return is_known;
}

static uint32_t mesh_self(struct rondo_mesh *mesh) {
  return mesh_has_roster(mesh) ? mesh->self : RONDO_MESH_NOBODY;
}

static uint32_t mesh_process_count(struct rondo_mesh *mesh) {
  return mesh_has_roster(mesh) ? mesh->process_count : 0;
}

static uint32_t mesh_process_of(struct rondo_mesh *mesh, uint32_t rank) {
  if (!mesh_has_roster(mesh) || rank >= mesh->cfg.rank_count)
    return RONDO_MESH_NOBODY;
  return mesh->topology->process_of[rank];
}

static const struct rondo_topology *mesh_topology(struct rondo_mesh *mesh) {
  return mesh_has_roster(mesh) ? mesh->topology : NULL;
}

static int mesh_process_get(struct rondo_mesh *mesh, uint32_t process,
                            struct rondo_mesh_process *out) {
  if (!mesh_has_roster(mesh) || process >= mesh->process_count)
    return RONDO_ERR_UNKNOWN;
  const struct rondo_topology_process *at = &mesh->topology->processes[process];
  const struct rondo_topology_machine *m = &mesh->topology->machines[at->machine];
  struct rondo_mesh_process p = {.machine = {m->id[0], m->id[1]},
                                 .pid_namespace = m->pid_namespace,
                                 .user_namespace = m->user_namespace,
                                 .pid = at->pid,
                                 .uid = m->uid,
                                 .asks_window = at->asks_window,
                                 .rank_count = at->rank_count,
                                 .ranks = at->ranks,
                                 .host = m->host};
  *out = p;
  return RONDO_SUCCESS;
}

static bool mesh_is_same_machine(struct rondo_mesh *mesh, uint32_t process) {
  if (!mesh_has_roster(mesh) || process >= mesh->process_count)
    return false;
  return rondo_topology_is_same_machine(mesh->topology, process, mesh->self);
}

static uint32_t mesh_address_of(struct rondo_mesh *mesh, uint32_t process,
                                struct sockaddr_storage *out) {
  const struct rondo_mesh_peer *peer = &mesh->peers[process];
  const struct rondo_topology *topology = mesh->topology;
  struct rondo_wire_address address;
  struct sockaddr_storage seen;
  socklen_t bytes = sizeof seen;
  if (peer->line && !getpeername(peer->line->fd, (struct sockaddr *)&seen, &bytes) &&
      rondo_address_from_socket((struct sockaddr *)&seen, &address))
    (void)address; // the address of the other side of the connection
  else if (topology->machines[topology->processes[process].machine].address_count)
    rondo_topology_address(topology, process, 0, &address); // it has connected by a named socket
  else
    return 0;
  address.port = 0;
  return rondo_address_to_socket(&address, out);
}

// ---------------------------------------------------------------- commands ---

static void timer_free(struct rondo_mesh_command *timer) {
  LIST_REMOVE(timer, listed);
  evtimer_del(&timer->timer);
  free(timer);
}

static void timer_on_due(evutil_socket_t fd, short what, void *arg) {
  struct rondo_mesh_command *timer = arg;
  void (*call)(void *) = timer->call;
  void *argument = timer->arg;
  (void)fd, (void)what;
  timer_free(timer);
  call(argument);
}

static void command_execute(struct rondo_mesh *mesh, struct rondo_mesh_command *command) {
  if (command->type == RONDO_MESH_CALL_LATER) {
    LIST_INSERT_HEAD(&mesh->timers, command, listed);
    evtimer_assign(&command->timer, rondo_event_loop_base(mesh->loop), timer_on_due, command);
    rondo_event_loop_timer_set(&command->timer, command->delay_ns);
    return;
  }
  if (command->type == RONDO_WIRE_MESSAGE)
    rondo_mesh_peer_send(mesh, command->number, command->out);
  else
    rondo_mesh_join_rank(mesh, command);
  free(command);
}

static struct rondo_mesh_command *command_pop(struct rondo_mesh *mesh) {
  pthread_mutex_lock(&mesh->lock);
  struct rondo_mesh_command *command = STAILQ_FIRST(&mesh->commands);
  if (command)
    STAILQ_REMOVE_HEAD(&mesh->commands, queued);
  pthread_mutex_unlock(&mesh->lock);
  return command;
}

static void mesh_on_commands(void *arg) {
  struct rondo_mesh *mesh = arg;
  for (struct rondo_mesh_command *c = command_pop(mesh); c; c = command_pop(mesh))
    command_execute(mesh, c);
}

// Needs the lock.
static void command_push(struct rondo_mesh *mesh, struct rondo_mesh_command *command) {
  STAILQ_INSERT_TAIL(&mesh->commands, command, queued);
  rondo_event_loop_post(mesh->loop, &mesh->task);
}

static int mesh_add_rank(struct rondo_mesh *mesh, uint32_t rank,
                         const struct rondo_topology_place *place) {
  struct rondo_mesh_command *command = calloc(1, sizeof *command);
  int status = RONDO_SUCCESS;
  if (!command)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "init: no memory to announce rank %u", rank);
  command->type = RONDO_WIRE_ADD;
  command->number = rank;
  command->place = place ? *place : unknown_place;
  pthread_mutex_lock(&mesh->lock);
  if (mesh->here[rank])
    status = RONDO_ERR_EXISTS;
  else if (mesh->phase != RONDO_MESH_JOINING)
    status = RONDO_ERR_TIMEOUT;
  if (status == RONDO_SUCCESS) {
    mesh->here[rank] = RONDO_MESH_IS_HERE;
    command_push(mesh, command);
  }
  pthread_mutex_unlock(&mesh->lock);
  if (status == RONDO_SUCCESS)
    return status;
  free(command);
  return RONDO_LOG_REFUSE(status, "init: rank %u %s", rank,
                          status == RONDO_ERR_EXISTS ? "has already joined this job"
                                                     : "joins this job too late");
}

static void mesh_remove_rank(struct rondo_mesh *mesh, uint32_t rank) {
  struct rondo_mesh_command *command = calloc(1, sizeof *command);
  if (!command) // the others are told when the process leaves
    return;
  command->type = RONDO_WIRE_GONE;
  command->number = rank;
  pthread_mutex_lock(&mesh->lock);
  mesh->here[rank] = RONDO_MESH_IS_LEAVING;
  command_push(mesh, command);
  pthread_mutex_unlock(&mesh->lock);
}

static int mesh_check_send(struct rondo_mesh *mesh, const struct rondo_mesh_send *m) {
  if (m->size > RONDO_MESH_MESSAGE_BYTES || m->fd_count > RONDO_MESH_MESSAGE_FDS)
    return RONDO_ERR_INVALID;
  pthread_mutex_lock(&mesh->lock);
  int is_ready = mesh->phase == RONDO_MESH_READY;
  pthread_mutex_unlock(&mesh->lock);
  if (!is_ready || m->to >= mesh->process_count)
    return RONDO_ERR_UNKNOWN;
  if (m->to == mesh->self)
    return RONDO_ERR_INVALID;
  if (m->fd_count && !mesh_is_same_machine(mesh, m->to))
    return RONDO_ERR_UNSUPPORTED;
  return RONDO_SUCCESS;
}

static bool mesh_is_full(struct rondo_mesh *mesh) {
  pthread_mutex_lock(&mesh->lock);
  bool is_full = mesh->queued_bytes >= mesh->queue_bytes;
  pthread_mutex_unlock(&mesh->lock);
  return is_full;
}

// Makes the frame, with duplicates of the descriptors.
static int mesh_make_frame(const struct rondo_mesh_send *m, struct rondo_channel_out **made) {
  struct rondo_shared_bytes *blob = rondo_shared_bytes_create(m->bytes, m->size);
  struct rondo_channel_out *out = blob ? rondo_channel_out_create(RONDO_WIRE_MESSAGE, blob) : NULL;
  if (!out)
    return RONDO_ERR_NO_MEMORY;
  out->head.subtype = m->type;
  // Count the frame too, so that the number of small messages is bounded.
  out->counted = m->size + sizeof *out;
  for (uint32_t i = 0; i < m->fd_count; i++) {
    int fd = fcntl(m->fds[i], F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
      rondo_channel_out_free(out);
      return RONDO_ERR_SYSTEM;
    }
    out->fds[out->head.fd_count++] = fd;
  }
  *made = out;
  return RONDO_SUCCESS;
}

static int mesh_send(struct rondo_mesh *mesh, const struct rondo_mesh_send *message) {
  struct rondo_channel_out *out = NULL;
  int status = mesh_check_send(mesh, message);
  if (status == RONDO_SUCCESS)
    status = mesh_make_frame(message, &out);
  struct rondo_mesh_command *command = out ? calloc(1, sizeof *command) : NULL;
  if (out && !command)
    status = RONDO_ERR_NO_MEMORY;
  pthread_mutex_lock(&mesh->lock);
  if (command && mesh->peers[message->to].is_lost)
    status = RONDO_ERR_PEER;
  if (command && status == RONDO_SUCCESS) {
    command->type = RONDO_WIRE_MESSAGE;
    command->number = message->to;
    command->out = out;
    mesh->queued_bytes += out->counted;
    command_push(mesh, command);
  }
  pthread_mutex_unlock(&mesh->lock);
  if (status != RONDO_SUCCESS && out)
    rondo_channel_out_free(out);
  if (status != RONDO_SUCCESS)
    free(command);
  return status;
}

static int mesh_after(struct rondo_mesh *mesh, uint64_t delay_ns, void (*call)(void *arg),
                      void *arg) {
  struct rondo_mesh_command *command = calloc(1, sizeof *command);
  if (!command)
    return RONDO_ERR_NO_MEMORY;
  command->type = RONDO_MESH_CALL_LATER;
  command->delay_ns = delay_ns;
  command->call = call;
  command->arg = arg;
  pthread_mutex_lock(&mesh->lock);
  command_push(mesh, command);
  pthread_mutex_unlock(&mesh->lock);
  return RONDO_SUCCESS;
}

void rondo_mesh_peer_sent(struct rondo_mesh *mesh, size_t bytes) {
  pthread_mutex_lock(&mesh->lock);
  mesh->queued_bytes -= bytes;
  pthread_mutex_unlock(&mesh->lock);
}

// ------------------------------------------------------------------ waiting ---

int rondo_mesh_await(struct rondo_mesh *mesh, int64_t timeout_ns) {
  uint64_t end_ns = rondo_deadline_ns(rondo_now_ns(), timeout_ns);
  char waiting[RONDO_MESH_TEXT_BYTES];
  int error = 0;
  pthread_mutex_lock(&mesh->lock);
  while (!mesh->is_settled && !error)
    error = rondo_condition_wait(&mesh->changed, &mesh->lock, end_ns);
  int is_settled = mesh->is_settled;
  int is_complete = mesh->phase == RONDO_MESH_READY && mesh->is_complete;
  memcpy(waiting, mesh->waiting, sizeof waiting);
  pthread_mutex_unlock(&mesh->lock);
  if (!is_settled)
    return RONDO_LOG_REFUSE(RONDO_ERR_TIMEOUT, "rank %u: the job is not complete yet: %s",
                            mesh->cfg.rank, waiting);
  return is_complete ? RONDO_SUCCESS : RONDO_ERR_PEER;
}

void rondo_mesh_counters(struct rondo_mesh *mesh, struct rondo_mesh_counters *out) {
  rondo_copy_relaxed_u64(out, &mesh->counters, sizeof *out);
}

// ------------------------------------------------------------------- start ---

const char *rondo_mesh_missing(void) { return NULL; }

static bool mesh_is_needed(const struct rondo_config *cfg) {
  return rondo_job_address_is_shared(&cfg->id);
}

static void mesh_free(struct rondo_mesh *mesh) {
  for (struct rondo_mesh_command *command; (command = command_pop(mesh));) {
    if (command->out)
      rondo_channel_out_free(command->out);
    free(command);
  }
  free(mesh->peers);
  rondo_topology_destroy(mesh->topology);
  free(mesh->here);
  free(mesh->lost);
  free(mesh->left);
  rondo_wire_member_fini(&mesh->me);
  rondo_wire_member_fini(&mesh->last);
  rondo_listener_close(&mesh->listener);
  if (mesh->loop)
    rondo_event_loop_put(mesh->loop);
  pthread_cond_destroy(&mesh->changed);
  pthread_mutex_destroy(&mesh->lock);
  free(mesh);
}

// Listens for other processes. If the root is at the loopback interface, so are all processes.
static int mesh_open_listener(struct rondo_mesh *mesh) {
  struct rondo_wire_member *me = &mesh->me;
  struct rondo_wire_address root;
  bool is_loopback = strcmp(mesh->job.host, "localhost") == 0;
  if (mesh->job.address_count)
    is_loopback = rondo_address_is_loopback(&mesh->job.addresses[0]);
  else if (rondo_resolve_now(mesh->job.host, 0, &root))
    is_loopback = rondo_address_is_loopback(&root);
  const char *pattern = is_loopback && !*mesh->cfg.interfaces ? "lo" : mesh->cfg.interfaces;
  me->address_count = rondo_address_list(pattern, mesh->cfg.address_family, me->addresses);
  if (!me->address_count)
    return RONDO_LOG_REFUSE(RONDO_ERR_UNSUPPORTED, "init: no network interface fits \"%s\"",
                            mesh->cfg.interfaces);
  if (rondo_listener_open(&mesh->listener, me->addresses, me->address_count) != RONDO_SUCCESS ||
      rondo_listener_open_local(&mesh->listener, me->local, sizeof me->local) != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(RONDO_ERR_SYSTEM, "init: cannot listen: %s", strerror(errno));
  mesh->listener.channels = rondo_mesh_channels(mesh, NULL, NULL);
  mesh->listener.name = "member";
  mesh->listener.purpose = RONDO_WIRE_TO_PEER;
  mesh->listener.to = RONDO_MESH_NOBODY;
  mesh->listener.members = mesh->cfg.rank_count;
  mesh->listener.admit = rondo_mesh_peer_admit;
  mesh->listener.authenticated = rondo_mesh_peer_accept;
  mesh->listener.arg = mesh;
  return RONDO_SUCCESS;
}

static struct rondo_mesh *mesh_create(const struct rondo_config *cfg) {
  struct rondo_mesh *mesh = calloc(1, sizeof *mesh);
  if (!mesh)
    return NULL;
  pthread_mutex_init(&mesh->lock, NULL);
  rondo_condition_init(&mesh->changed);
  STAILQ_INIT(&mesh->commands);
  mesh->cfg = *cfg;
  mesh->is_complete = 1;
  mesh->queue_bytes = RONDO_MESH_QUEUE_BYTES;
  mesh->self = RONDO_MESH_NOBODY;
  mesh->root_process = RONDO_MESH_NOBODY;
  mesh->here = calloc(cfg->rank_count, 1);
  mesh->lost = calloc(cfg->rank_count, 1);
  mesh->left = calloc(cfg->rank_count, 1);
  (void)snprintf(mesh->waiting, sizeof mesh->waiting, "the root has not answered yet");
  if (mesh->here && mesh->lost && mesh->left)
    return mesh;
  mesh_free(mesh);
  return NULL;
}

static void mesh_on_stop_poll(evutil_socket_t fd, short what, void *arg);

static void mesh_begin(void *arg) {
  struct rondo_mesh *mesh = arg;
  struct event_base *base = rondo_event_loop_base(mesh->loop);
  mesh->task.call = mesh_on_commands;
  evtimer_assign(&mesh->stop_poll, base, mesh_on_stop_poll, mesh);
  rondo_listener_start(&mesh->listener);
  rondo_mesh_join_begin(mesh);
  mesh_on_commands(mesh);
}

static int mesh_start(const struct rondo_config *cfg, const struct rondo_topology_place *place,
                      const struct rondo_mesh_events *events, void *arg, struct rondo_mesh **out) {
  struct rondo_mesh *mesh = mesh_create(cfg);
  if (!mesh)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "init: no memory for a job of %u ranks",
                            cfg->rank_count);
  mesh->events = *events;
  mesh->arg = arg;
  int status = rondo_job_address_read(cfg, &mesh->job);
  if (status == RONDO_SUCCESS) {
    mesh->loop = rondo_event_loop_get();
    if (!mesh->loop)
      status = RONDO_LOG_REFUSE(RONDO_ERR_SYSTEM, "init: the system gives no control thread");
  }
  if (status == RONDO_SUCCESS)
    status = mesh_open_listener(mesh);
  if (status == RONDO_SUCCESS)
    status = rondo_mesh_join_prepare(mesh);
  if (status == RONDO_SUCCESS &&
      !rondo_wire_member_try_insert(&mesh->me, cfg->rank, place ? place : &unknown_place))
    status = RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "init: no memory to join a job");
  if (status != RONDO_SUCCESS) {
    mesh_free(mesh);
    return status;
  }
  rondo_event_loop_make_room(cfg->rank_count); // a connection with each process
  rondo_identity_get(&mesh->me);
  mesh->me.asks_window =
      cfg->backend == RONDO_BACKEND_CUDA && cfg->transport == RONDO_TRANSPORT_NCCL;
  mesh->here[cfg->rank] = RONDO_MESH_IS_HERE;
  mesh->me.interface_count = rondo_interfaces_list("/sys", cfg->interfaces, mesh->me.interfaces);
  mesh->task.call = mesh_begin;
  mesh->task.arg = mesh;
  pthread_mutex_lock(&meshes_lock);
  LIST_INSERT_HEAD(&meshes, mesh, listed);
  pthread_mutex_unlock(&meshes_lock);
  *out = mesh;
  rondo_event_loop_post(mesh->loop, &mesh->task);
  return RONDO_SUCCESS;
}

// -------------------------------------------------------------------- stop ---

// True if this process has no other mesh of the job.
static bool mesh_is_last_of_job(const struct rondo_mesh *mesh) {
  const struct rondo_mesh *m;
  int others = 0;
  pthread_mutex_lock(&meshes_lock);
  LIST_FOREACH (m, &meshes, listed)
    others += m != mesh && memcmp(&m->job.key, &mesh->job.key, sizeof mesh->job.key) == 0;
  pthread_mutex_unlock(&meshes_lock);
  return !others;
}

static void mesh_finish_stop(struct rondo_mesh *mesh) {
  evtimer_del(&mesh->stop_poll);
  rondo_mesh_join_end(mesh);
  for (uint32_t i = 0; i < mesh->process_count; i++)
    rondo_mesh_peer_drop(&mesh->peers[i]);
  rondo_mesh_join_free(mesh);
  while (!LIST_EMPTY(&mesh->waiting_in)) {
    struct rondo_channel *c = LIST_FIRST(&mesh->waiting_in);
    LIST_REMOVE(c, listed);
    rondo_channel_close(c);
  }
  for (struct rondo_mesh_command *timer = LIST_FIRST(&mesh->timers), *next; timer; timer = next) {
    next = LIST_NEXT(timer, listed);
    timer_free(timer);
  }
  rondo_listener_close(&mesh->listener);
  rondo_event_loop_cancel(mesh->loop, &mesh->task);
  pthread_mutex_lock(&mesh->lock);
  mesh->is_stopped = 1;
  pthread_cond_broadcast(&mesh->changed);
  pthread_mutex_unlock(&mesh->lock);
}

// True if no peer has to be sent anything more.
static bool mesh_is_quiet(const struct rondo_mesh *mesh) {
  for (uint32_t i = 0; i < mesh->process_count; i++)
    if (!rondo_mesh_peer_is_idle(&mesh->peers[i]))
      return false;
  return true;
}

// True while other processes need the root of this process to join.
static bool mesh_hosts_gathering_root(const struct rondo_mesh *mesh) {
  return mesh_is_last_of_job(mesh) && rondo_root_is_gathering(&mesh->job.key);
}

// True while a mesh that stops goes on with joining: other processes need the root here, or this
// process has not joined and must tell the root that it leaves. The root would wait for it
// otherwise.
static bool mesh_must_keep_joining(const struct rondo_mesh *mesh) {
  return rondo_now_ns() < mesh->stop_join_ns &&
         (mesh_hosts_gathering_root(mesh) || rondo_mesh_join_is_trying(mesh));
}

static void mesh_leave_root(struct rondo_mesh *mesh) {
  mesh->has_left_root = 1;
  mesh->ends_root = mesh_is_last_of_job(mesh);
  pthread_mutex_lock(&meshes_lock);
  LIST_REMOVE(mesh, listed);
  pthread_mutex_unlock(&meshes_lock);
  if (mesh->ends_root)
    rondo_root_leave(&mesh->job.key);
}

void rondo_mesh_stop_look(struct rondo_mesh *mesh) {
  if (mesh->phase != RONDO_MESH_STOPPING)
    return;
  mesh->stop_ns = rondo_now_ns() + mesh->stop_span_ns;
  mesh->stop_due_ns = rondo_now_ns();
  rondo_event_loop_timer_set(&mesh->stop_poll, 0);
}

// Sets the timer of the next look. While the peers take what was sent to them there is more time:
// they may be slow.
static void mesh_stop_wait(struct rondo_mesh *mesh) {
  if (mesh->stop_sent_bytes != mesh->counters.sent_bytes)
    mesh->stop_ns = rondo_now_ns() + mesh->stop_span_ns;
  mesh->stop_sent_bytes = mesh->counters.sent_bytes;
  mesh->stop_due_ns = rondo_now_ns() + mesh->stop_pause_ns;
  rondo_event_loop_timer_set(&mesh->stop_poll, mesh->stop_pause_ns);
  mesh->stop_pause_ns *= 2;
  if (mesh->stop_pause_ns > STOP_LAST_PAUSE_NS)
    mesh->stop_pause_ns = STOP_LAST_PAUSE_NS;
}

// Says goodbye to the peers first, so that they get their messages before they know that this
// process has left; then to the root. Ends the root last, if it is here and no mesh here needs it.
static void mesh_on_stop_poll(evutil_socket_t fd, short what, void *arg) {
  struct rondo_mesh *mesh = arg;
  (void)fd, (void)what;
  mesh->keeps_joining = !mesh->has_left_root && mesh_must_keep_joining(mesh);
  if (mesh->keeps_joining) // peers that join last get the full time to take their messages
    mesh->stop_ns = rondo_now_ns() + mesh->stop_span_ns;
  else if (rondo_now_ns() > mesh->stop_due_ns) // this process was late itself: that does not count
    mesh->stop_ns += rondo_now_ns() - mesh->stop_due_ns;
  bool is_late = rondo_now_ns() >= mesh->stop_ns;
  if (is_late || mesh_is_quiet(mesh)) {
    if (mesh->root && !mesh->has_sent_bye)
      rondo_channel_send_bytes(mesh->root, RONDO_WIRE_BYE, NULL, 0);
    mesh->has_sent_bye |= mesh->root != NULL;
    if ((is_late || !mesh->root) && !mesh->has_left_root && !mesh->keeps_joining)
      mesh_leave_root(mesh);
    bool is_root_done = !mesh->ends_root || !rondo_root_is_here(&mesh->job.key);
    if (is_late || (mesh->has_left_root && is_root_done)) {
      mesh_finish_stop(mesh);
      return;
    }
  }
  mesh_stop_wait(mesh);
}

static void mesh_begin_stop(void *arg) {
  struct rondo_mesh *mesh = arg;
  mesh_on_commands(mesh);
  int was_ready = mesh->phase == RONDO_MESH_READY;
  rondo_mesh_set_phase(mesh, RONDO_MESH_STOPPING);
  mesh->stop_pause_ns = STOP_PAUSE_NS;
  mesh->stop_due_ns = rondo_now_ns();
  mesh->keeps_joining = mesh_must_keep_joining(mesh);
  if (!mesh->root && !mesh->keeps_joining)
    rondo_mesh_join_end(mesh);
  else if (!mesh->root)
    rondo_mesh_join_hurry(mesh);
  for (uint32_t i = 0; was_ready && i < mesh->process_count; i++)
    rondo_mesh_peer_bye(&mesh->peers[i]);
  mesh_on_stop_poll(-1, 0, mesh);
}

static void mesh_stop(struct rondo_mesh *mesh, int64_t timeout_ns, int64_t join_ns) {
  struct rondo_event_loop_task task = {.call = mesh_begin_stop, .arg = mesh};
  uint64_t now_ns = rondo_now_ns();
  mesh->stop_span_ns = timeout_ns > 0 ? (uint64_t)timeout_ns : 0;
  mesh->stop_ns = now_ns + mesh->stop_span_ns;
  mesh->stop_join_ns = now_ns + (join_ns > 0 ? (uint64_t)join_ns : 0);
  mesh->stop_root_ns =
      now_ns + (mesh->cfg.peer_timeout_ns < ROOT_NS ? mesh->cfg.peer_timeout_ns : ROOT_NS);
  rondo_event_loop_post(mesh->loop, &task);
  pthread_mutex_lock(&mesh->lock);
  while (!mesh->is_stopped)
    pthread_cond_wait(&mesh->changed, &mesh->lock);
  pthread_mutex_unlock(&mesh->lock);
  mesh_free(mesh);
}

static const struct rondo_mesh_calls mesh_calls = {.is_needed = mesh_is_needed,
                                                   .start = mesh_start,
                                                   .add_rank = mesh_add_rank,
                                                   .remove_rank = mesh_remove_rank,
                                                   .self = mesh_self,
                                                   .process_count = mesh_process_count,
                                                   .process_of = mesh_process_of,
                                                   .is_same_machine = mesh_is_same_machine,
                                                   .topology = mesh_topology,
                                                   .process_get = mesh_process_get,
                                                   .address_of = mesh_address_of,
                                                   .send = mesh_send,
                                                   .is_full = mesh_is_full,
                                                   .after = mesh_after,
                                                   .stop = mesh_stop};
const struct rondo_mesh_calls *rondo_mesh_calls = &mesh_calls;
