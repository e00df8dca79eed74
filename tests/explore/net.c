#include "tests/explore/net.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/job/job.h"
#include "runtime/job/processes.h"
#include "runtime/transport/transports.h"
#include "tests/explore/carrier.h"

#define LOST UINT32_MAX // type of a letter that tells of the end of the sender's ranks
#define CALLS 16u

// On its way from one process to another.
struct letter {
  struct letter *next;
  uint32_t type;
  int reason;    // LOST
  uint32_t rank; // LOST: this one, or UINT32_MAX: all
  int fd;        // -1: none
  uint32_t size;
  uint64_t bytes[];
};

struct wire {
  struct letter *first, **end;
  int is_cut;
};

struct call {
  void (*function)(void *arg);
  void *arg;
};

struct rondo_members {
  uint32_t process, call_count;
  int is_open, has_roster;
  const struct rondo_members_events *events;
  void *arg;
  struct call calls[CALLS];
};

static struct rondo_members meshes[EXPLORE_RANKS];
static struct random *net_random;
static uint32_t suspect; // a process that is to be removed, or UINT32_MAX
static struct wire wires[EXPLORE_RANKS][EXPLORE_RANKS];
static uint32_t process_count, rank_count;
static uint32_t homes[EXPLORE_RANKS];
static uint32_t machines[EXPLORE_RANKS]; // of the processes
static uint32_t ports;                   // of a machine

static void discard(struct letter *l) {
  if (l->fd >= 0)
    close(l->fd);
  free(l);
}

static void empty(struct wire *w) {
  while (w->first) {
    struct letter *l = w->first;
    w->first = l->next;
    discard(l);
  }
  w->end = &w->first;
}

static void post(struct wire *w, struct letter *l) {
  l->next = NULL;
  *w->end = l;
  w->end = &l->next;
}

static struct letter *make_letter(uint32_t type, const void *bytes, size_t size) {
  struct letter *l = calloc(1, sizeof *l + size + 8);
  if (!l)
    abort();
  l->type = type;
  l->size = (uint32_t)size;
  l->fd = -1;
  if (size)
    memcpy(l->bytes, bytes, size);
  return l;
}

static void post_lost(uint32_t from, uint32_t to, uint32_t rank, int reason) {
  struct letter *l = make_letter(LOST, NULL, 0);
  l->rank = rank;
  l->reason = reason;
  post(&wires[from][to], l);
}

// Some of what is on the way still arrives, then the loss.
static void wire_cut(struct random *random, uint32_t from, uint32_t to) {
  struct wire *w = &wires[from][to];
  uint32_t kept = random_below(random, 8);
  struct letter **at = &w->first;
  while (kept-- && *at)
    at = &(*at)->next;
  struct wire rest = {.first = *at};
  *at = NULL;
  w->end = at;
  empty(&rest);
  w->is_cut = 1;
  post_lost(from, to, UINT32_MAX, RONDO_LOST_DIED);
}

// What the membership does when two processes cannot reach each other: it removes one of them from
// the job. Each process learns that at a time of its own.
static void process_remove(struct random *random, uint32_t process) {
  for (uint32_t p = 0; p < process_count; p++) {
    if (p == process || wires[process][p].is_cut)
      continue;
    wire_cut(random, process, p);
    wire_cut(random, p, process);
  }
}

// ----------------------------------------------------------------- the mesh ---

static bool is_needed(const struct rondo_config *cfg) {
  (void)cfg;
  return process_count > 1;
}

static int start(const struct rondo_config *cfg, const struct rondo_topology_place *place,
                 const struct rondo_members_events *events, void *arg,
                 struct rondo_members **mesh) {
  struct rondo_members *m = &meshes[homes[cfg->rank]];
  (void)place;
  m->process = homes[cfg->rank];
  m->is_open = 1;
  m->events = events;
  m->arg = arg;
  *mesh = m;
  return RONDO_SUCCESS;
}

static int add_rank(struct rondo_members *mesh, uint32_t rank,
                    const struct rondo_topology_place *place) {
  (void)place;
  return homes[rank] == mesh->process ? RONDO_SUCCESS : RONDO_ERR_EXISTS;
}

static void leave(const struct rondo_members *mesh, uint32_t rank) {
  for (uint32_t p = 0; p < process_count; p++)
    if (p != mesh->process && !wires[mesh->process][p].is_cut)
      post_lost(mesh->process, p, rank, RONDO_LOST_LEFT);
}

static void remove_rank(struct rondo_members *mesh, uint32_t rank) { leave(mesh, rank); }

static void stop(struct rondo_members *mesh, int64_t timeout_ns, int64_t join_ns) {
  (void)timeout_ns, (void)join_ns;
  leave(mesh, UINT32_MAX);
  mesh->is_open = 0;
  for (uint32_t p = 0; p < process_count; p++)
    empty(&wires[p][mesh->process]);
}

static uint32_t self(struct rondo_members *mesh) { return mesh->process; }

static uint32_t count(struct rondo_members *mesh) {
  (void)mesh;
  return process_count;
}

static uint32_t home_of(struct rondo_members *mesh, uint32_t rank) {
  (void)mesh;
  return homes[rank];
}

static bool is_same_machine(struct rondo_members *mesh, uint32_t process) {
  return process < process_count && machines[process] == machines[mesh->process];
}

static uint32_t address_of(struct rondo_members *mesh, uint32_t process,
                           struct sockaddr_storage *out) {
  (void)mesh, (void)process, (void)out;
  return 0;
}

// Processes have no ranks here that compete for cores.
static int process_get(struct rondo_members *mesh, uint32_t process,
                       struct rondo_members_process *out) {
  (void)mesh;
  *out = (struct rondo_members_process){.machine = {machines[process]},
                                        .pid_namespace = process,
                                        .cores = 2,
                                        .ports = ports,
                                        .host = ""};
  return process < process_count ? RONDO_SUCCESS : RONDO_ERR_UNKNOWN;
}

static int send_letter(struct rondo_members *mesh, const struct rondo_mesh_send *message) {
  struct wire *w = &wires[mesh->process][message->to];
  if (w->is_cut || !meshes[message->to].is_open)
    return RONDO_SUCCESS; // it is not known yet
  struct letter *l = make_letter(message->type, message->bytes, message->size);
  if (message->fd_count)
    l->fd = dup(message->fds[0]);
  post(w, l);
  return RONDO_SUCCESS;
}

static void give_up(struct rondo_members *mesh, uint32_t process, const char *text) {
  (void)mesh, (void)text;
  process_remove(net_random, process);
}

// Time is not the explorer's here: only what is due at once is ever called.
static int after(struct rondo_members *mesh, uint64_t delay_ns, void (*function)(void *arg),
                 void *arg) {
  if (delay_ns)
    return RONDO_SUCCESS;
  if (mesh->call_count == CALLS)
    return RONDO_ERR_NO_MEMORY;
  mesh->calls[mesh->call_count++] = (struct call){function, arg};
  return RONDO_SUCCESS;
}

static const struct rondo_members_calls calls = {.is_needed = is_needed,
                                                 .start = start,
                                                 .add_rank = add_rank,
                                                 .remove_rank = remove_rank,
                                                 .self = self,
                                                 .process_count = count,
                                                 .process_of = home_of,
                                                 .is_same_machine = is_same_machine,
                                                 .process_get = process_get,
                                                 .address_of = address_of,
                                                 .send = send_letter,
                                                 .after = after,
                                                 .give_up = give_up,
                                                 .stop = stop};

// -------------------------------------------------------------- the network ---

void explore_net_reset(const struct explore_program *program, struct random *random) {
  for (uint32_t a = 0; a < EXPLORE_RANKS; a++) {
    for (uint32_t b = 0; b < EXPLORE_RANKS; b++) {
      empty(&wires[a][b]);
      wires[a][b].is_cut = 0;
    }
  }
  memset(meshes, 0, sizeof meshes);
  memcpy(homes, program->process_of, sizeof homes);
  memcpy(machines, program->machine_of, sizeof machines);
  ports = program->ports;
  net_random = random;
  suspect = UINT32_MAX;
  explore_carrier_reset(random, NULL);
  rondo_transports_carrier = &explore_carrier;
  process_count = program->process_count;
  rank_count = program->cfg.rank_count;
  rondo_members_calls = &calls;
}

static void tell_lost(struct rondo_members *to, uint32_t from, const struct letter *l) {
  uint32_t ranks[EXPLORE_RANKS];
  uint32_t lost_count = 0;
  for (uint32_t r = 0; r < rank_count; r++)
    if (homes[r] == from && (l->rank == UINT32_MAX || l->rank == r))
      ranks[lost_count++] = r;
  to->events->lost(to->arg, ranks, lost_count, l->reason, "the explorer has removed it");
}

static void deliver(uint32_t from, struct rondo_members *to) {
  struct wire *w = &wires[from][to->process];
  struct letter *l = w->first;
  w->first = l->next;
  if (!w->first)
    w->end = &w->first;
  if (l->type == LOST) {
    tell_lost(to, from, l);
  } else {
    struct rondo_mesh_message message = {.from = from, .type = l->type, .bytes = l->bytes};
    message.size = l->size;
    message.fds = &l->fd;
    message.fd_count = l->fd >= 0;
    to->events->receive(to->arg, &message);
  }
  discard(l);
}

static int serve(struct rondo_members *m, struct random *random) {
  if (!m->is_open)
    return 0;
  if (!m->has_roster) {
    m->has_roster = 1;
    m->events->roster(m->arg);
    return 1;
  }
  if (m->call_count) {
    struct call call = m->calls[--m->call_count];
    call.function(call.arg);
    return 1;
  }
  uint32_t first = random_below(random, process_count);
  for (uint32_t i = 0; i < process_count; i++) {
    uint32_t from = (first + i) % process_count;
    if (!wires[from][m->process].first)
      continue;
    deliver(from, m);
    return 1;
  }
  return 0;
}

// The membership removes the process at one side of a link that was cut, unless it has left.
static int suspect_remove(struct random *random) {
  uint32_t process = suspect;
  suspect = UINT32_MAX;
  if (!meshes[process].is_open)
    return 0;
  process_remove(random, process);
  return 1;
}

int explore_net_turn(struct random *random) {
  if (suspect != UINT32_MAX && random_chance(random, 5) && suspect_remove(random))
    return 1;
  uint32_t first = random_below(random, process_count);
  if (random_chance(random, 70) && explore_carrier_progress(first))
    return 1;
  for (uint32_t i = 0; i < process_count; i++)
    if (serve(&meshes[(first + i) % process_count], random))
      return 1;
  return 0;
}

void explore_net_cut(struct random *random, uint32_t a, uint32_t b) {
  if (wires[a][b].is_cut)
    return;
  if (suspect != UINT32_MAX)
    (void)suspect_remove(random);
  explore_carrier_cut(a, b);
  suspect = b;
  if (random_chance(random, 50))
    (void)suspect_remove(random);
}
