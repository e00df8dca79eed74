#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sodium.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "runtime/net/identity.h"
#include "runtime/net/interfaces.h"
#include "runtime/net/mesh_state.h"
#include "runtime/net/resolve.h"

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
  if (command->out) {
    rondo_mesh_peer_send(mesh, command->to, command->out);
    free(command);
    return;
  }
  LIST_INSERT_HEAD(&mesh->timers, command, listed);
  evtimer_assign(&command->timer, rondo_event_loop_base(mesh->loop), timer_on_due, command);
  rondo_event_loop_timer_set(&command->timer, command->delay_ns);
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

int rondo_mesh_after(struct rondo_mesh *mesh, uint64_t delay_ns, void (*call)(void *arg),
                     void *arg) {
  struct rondo_mesh_command *command = calloc(1, sizeof *command);
  if (!command)
    return RONDO_ERR_NO_MEMORY;
  command->delay_ns = delay_ns;
  command->call = call;
  command->arg = arg;
  pthread_mutex_lock(&mesh->lock);
  command_push(mesh, command);
  pthread_mutex_unlock(&mesh->lock);
  return RONDO_SUCCESS;
}

void rondo_mesh_call(struct rondo_mesh *mesh, void (*call)(void *arg), void *arg) {
  const struct timespec pause = {0, 1000000};
  while (rondo_mesh_after(mesh, 0, call, arg) != RONDO_SUCCESS)
    (void)nanosleep(&pause, NULL);
}

static void mesh_on_tick(evutil_socket_t fd, short what, void *arg) {
  struct rondo_mesh *mesh = arg;
  (void)fd, (void)what;
  mesh->on_tick(mesh->arg);
}

void rondo_mesh_set_tick(struct rondo_mesh *mesh, uint64_t due_ns, void (*tick)(void *arg)) {
  uint64_t now_ns = rondo_now_ns();
  mesh->on_tick = tick;
  if (due_ns == UINT64_MAX)
    evtimer_del(&mesh->tick);
  else // the timer counts microseconds
    rondo_event_loop_timer_set(&mesh->tick, due_ns > now_ns ? due_ns - now_ns + 1000 : 0);
}

void rondo_mesh_tick_soon(struct rondo_mesh *mesh) {
  if (evtimer_pending(&mesh->tick, NULL))
    event_active(&mesh->tick, EV_TIMEOUT, 1);
}

// ----------------------------------------------------------------- sending ---

static int mesh_check_send(struct rondo_mesh *mesh, const struct rondo_mesh_send *m) {
  if (m->size > RONDO_MESH_MESSAGE_BYTES || m->fd_count > RONDO_MESH_MESSAGE_FDS)
    return RONDO_ERR_INVALID;
  pthread_mutex_lock(&mesh->lock);
  uint32_t process_count = mesh->process_count;
  pthread_mutex_unlock(&mesh->lock);
  if (m->to >= process_count)
    return RONDO_ERR_UNKNOWN;
  if (m->to == mesh->self)
    return RONDO_ERR_INVALID;
  if (m->fd_count && !rondo_topology_is_same_machine(mesh->topology, m->to, mesh->self))
    return RONDO_ERR_UNSUPPORTED;
  return RONDO_SUCCESS;
}

bool rondo_mesh_is_full(struct rondo_mesh *mesh) {
  pthread_mutex_lock(&mesh->lock);
  bool is_full = mesh->queued_bytes >= mesh->queue_bytes;
  pthread_mutex_unlock(&mesh->lock);
  return is_full;
}

// Makes the frame, with duplicates of the descriptors.
static int mesh_make_frame(const struct rondo_mesh_send *m, struct rondo_channel_out **made) {
  struct rondo_shared_bytes *payload = rondo_shared_bytes_create(m->bytes, m->size);
  struct rondo_channel_out *out =
      payload ? rondo_channel_out_create(RONDO_WIRE_MESSAGE, payload) : NULL;
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

int rondo_mesh_send(struct rondo_mesh *mesh, const struct rondo_mesh_send *message) {
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
    command->to = message->to;
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

void rondo_mesh_drop_frame(struct rondo_mesh *mesh, struct rondo_channel_out *out) {
  pthread_mutex_lock(&mesh->lock);
  mesh->queued_bytes -= out->counted;
  pthread_mutex_unlock(&mesh->lock);
  rondo_channel_out_free(out);
}

void rondo_mesh_control(struct rondo_mesh *mesh, uint32_t to, struct rondo_shared_bytes *bytes) {
  struct rondo_channel_out *out =
      mesh->is_ended
          ? NULL
          : rondo_channel_out_create(RONDO_WIRE_MEMBERSHIP, rondo_shared_bytes_get(bytes));
  if (!out)
    return; // membership sends again what is not answered
  if (to == RONDO_MESH_ROOT)
    rondo_mesh_join_send(mesh, out);
  else if (mesh->peers)
    rondo_mesh_peer_send(mesh, to, out);
  else
    rondo_mesh_peer_send_early(mesh, to, out);
}

// ------------------------------------------------------------ other processes ---

bool rondo_mesh_meet(struct rondo_mesh *mesh, uint32_t self,
                     const struct rondo_topology *topology) {
  struct rondo_mesh_peer *peers = calloc(topology->process_count, sizeof *peers);
  if (!peers)
    return false;
  for (uint32_t i = 0; i < topology->process_count; i++) {
    peers[i].mesh = mesh;
    STAILQ_INIT(&peers[i].queue);
  }
  mesh->self = self;
  mesh->peers = peers;
  mesh->topology = topology;
  pthread_mutex_lock(&mesh->lock);
  mesh->process_count = topology->process_count;
  pthread_mutex_unlock(&mesh->lock);
  rondo_mesh_join_confirm(mesh);
  rondo_mesh_peer_accept_early(mesh);
  return true;
}

static void held_free(struct rondo_mesh_held *held) {
  for (uint32_t i = 0; i < held->message.fd_count; i++)
    if (held->fds[i] >= 0)
      close(held->fds[i]);
  free(held);
}

void rondo_mesh_open(struct rondo_mesh *mesh) {
  mesh->is_open = 1;
  rondo_mesh_close_set_timer(mesh);
  while (!STAILQ_EMPTY(&mesh->held)) {
    struct rondo_mesh_held *held = STAILQ_FIRST(&mesh->held);
    STAILQ_REMOVE_HEAD(&mesh->held, queued);
    uint32_t from = held->message.from;
    if (rondo_mesh_peer_has_key(mesh, from, held->key) && !mesh->peers[from].is_lost)
      mesh->events.receive(mesh->arg, &held->message);
    held_free(held);
  }
  for (uint32_t i = 0; i < mesh->process_count; i++)
    if (mesh->peers[i].in && mesh->peers[i].in->is_paused)
      rondo_channel_pause(mesh->peers[i].in, 0);
}

void rondo_mesh_lose(struct rondo_mesh *mesh, uint32_t process) {
  rondo_mesh_peer_lose(&mesh->peers[process]);
}

uint64_t rondo_mesh_flush(struct rondo_mesh *mesh) {
  mesh->flush_number++;
  for (uint32_t i = 0; i < mesh->process_count; i++)
    rondo_mesh_peer_flush(&mesh->peers[i], mesh->flush_number);
  return mesh->flush_number;
}

bool rondo_mesh_is_flushed(const struct rondo_mesh *mesh, uint64_t number) {
  for (uint32_t i = 0; i < mesh->process_count; i++) {
    const struct rondo_mesh_peer *peer = &mesh->peers[i];
    if (peer->flush_sent >= number && peer->flush_done < number && !peer->is_lost)
      return false;
  }
  return true;
}

void rondo_mesh_say_bye(struct rondo_mesh *mesh) {
  mesh->says_bye = 1;
  for (uint32_t i = 0; i < mesh->process_count; i++)
    rondo_mesh_peer_bye(&mesh->peers[i]);
}

bool rondo_mesh_is_idle(const struct rondo_mesh *mesh) {
  for (uint32_t i = 0; i < mesh->process_count; i++)
    if (!rondo_mesh_peer_is_idle(&mesh->peers[i]))
      return false;
  return true;
}

uint32_t rondo_mesh_address_of(struct rondo_mesh *mesh, uint32_t process,
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

void rondo_mesh_counters(struct rondo_mesh *mesh, struct rondo_mesh_counters *out) {
  rondo_copy_relaxed_u64(out, &mesh->counters, sizeof *out);
}

// ------------------------------------------------------------------- start ---

const char *rondo_mesh_missing(void) { return NULL; }

const struct rondo_wire_member *rondo_mesh_self(const struct rondo_mesh *mesh) { return &mesh->me; }
const struct rondo_job_key *rondo_mesh_key(const struct rondo_mesh *mesh) { return &mesh->job.key; }

void rondo_mesh_free(struct rondo_mesh *mesh) {
  for (struct rondo_mesh_command *command; (command = command_pop(mesh));) {
    if (command->out)
      rondo_channel_out_free(command->out);
    free(command);
  }
  free(mesh->peers);
  rondo_wire_member_fini(&mesh->me);
  sodium_memzero(&mesh->keys, sizeof mesh->keys);
  rondo_listener_close(&mesh->listener);
  if (mesh->loop)
    rondo_event_loop_put(mesh->loop);
  pthread_mutex_destroy(&mesh->lock);
  free(mesh);
}

struct rondo_channel_config rondo_mesh_channels(struct rondo_mesh *mesh,
                                                const struct rondo_channel_events *events,
                                                void *owner) {
  struct rondo_channel_config c = {.loop = mesh->loop,
                                   .job = &mesh->job.key,
                                   .self = &mesh->keys,
                                   .events = events,
                                   .owner = owner,
                                   .counters = &mesh->counters,
                                   .handshake_ns = RONDO_LISTENER_HANDSHAKE_NS,
                                   .welcome_ns = UINT64_C(60000000000),
                                   .peer_timeout_ns = mesh->cfg.peer_timeout_ns};
  return c;
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
  STAILQ_INIT(&mesh->commands);
  STAILQ_INIT(&mesh->held);
  STAILQ_INIT(&mesh->root_queue);
  mesh->cfg = *cfg;
  mesh->queue_bytes = RONDO_MESH_QUEUE_BYTES;
  rondo_mesh_close_init(mesh);
  mesh->self = RONDO_MESH_NOBODY;
  return mesh;
}

static void mesh_make_keys(struct rondo_mesh *mesh) {
  uint8_t random[RONDO_TOPOLOGY_KEY_BYTES];
  randombytes_buf(random, sizeof random);
  rondo_key_pair_init(&mesh->keys, random);
  sodium_memzero(random, sizeof random);
  memcpy(mesh->me.key, mesh->keys.public_key, sizeof mesh->me.key);
}

static void mesh_on_begin(void *arg) {
  struct rondo_mesh *mesh = arg;
  struct event_base *base = rondo_event_loop_base(mesh->loop);
  mesh->task.call = mesh_on_commands;
  evtimer_assign(&mesh->tick, base, mesh_on_tick, mesh);
  rondo_mesh_dials_begin(mesh);
  rondo_mesh_close_begin(mesh);
  rondo_listener_start(&mesh->listener);
  rondo_mesh_join_begin(mesh);
  mesh_on_commands(mesh);
}

int rondo_mesh_start(const struct rondo_config *cfg, const struct rondo_mesh_events *events,
                     void *arg, const struct rondo_root_gatherer *gatherer,
                     struct rondo_mesh **out) {
  struct rondo_mesh *mesh = mesh_create(cfg);
  if (!mesh)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "init: no memory for a job of %u ranks",
                            cfg->rank_count);
  mesh->events = *events;
  mesh->arg = arg;
  mesh->gatherer = gatherer;
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
  if (status != RONDO_SUCCESS) {
    rondo_mesh_free(mesh);
    return status;
  }
  rondo_event_loop_make_room(cfg->rank_count); // a connection with each process
  mesh_make_keys(mesh);
  rondo_identity_get(&mesh->me);
  mesh->me.asks_window =
      cfg->backend == RONDO_BACKEND_CUDA && cfg->transport == RONDO_TRANSPORT_NCCL;
  mesh->me.interface_count = rondo_interfaces_list("/sys", cfg->interfaces, mesh->me.interfaces);
  mesh->task.call = mesh_on_begin;
  mesh->task.arg = mesh;
  *out = mesh;
  return RONDO_SUCCESS;
}

void rondo_mesh_begin(struct rondo_mesh *mesh) { rondo_event_loop_post(mesh->loop, &mesh->task); }

void rondo_mesh_end(struct rondo_mesh *mesh) {
  mesh->is_ended = 1;
  evtimer_del(&mesh->tick);
  evtimer_del(&mesh->idle);
  rondo_mesh_join_end(mesh);
  for (uint32_t i = 0; i < mesh->process_count; i++)
    rondo_mesh_peer_end(&mesh->peers[i]);
  while (!LIST_EMPTY(&mesh->early)) {
    struct rondo_channel *c = LIST_FIRST(&mesh->early);
    LIST_REMOVE(c, listed);
    rondo_channel_close(c);
  }
  while (!STAILQ_EMPTY(&mesh->held)) {
    struct rondo_mesh_held *held = STAILQ_FIRST(&mesh->held);
    STAILQ_REMOVE_HEAD(&mesh->held, queued);
    held_free(held);
  }
  for (struct rondo_mesh_command *timer = LIST_FIRST(&mesh->timers), *next; timer; timer = next) {
    next = LIST_NEXT(timer, listed);
    timer_free(timer);
  }
  rondo_mesh_dials_end(mesh);
  rondo_listener_close(&mesh->listener);
  rondo_event_loop_cancel(mesh->loop, &mesh->task);
}
