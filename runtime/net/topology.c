#include "runtime/net/topology.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/net/wire.h"

struct rondo_topology *rondo_topology_create(uint32_t rank_count, uint32_t process_count) {
  struct rondo_topology *r = calloc(1, sizeof *r);
  if (!r)
    return NULL;
  r->rank_count = rank_count;
  r->process_capacity = process_count;
  r->process_of = malloc(rank_count * sizeof *r->process_of);
  r->places = calloc(rank_count, sizeof *r->places);
  r->ranks = malloc(rank_count * sizeof *r->ranks);
  r->processes = calloc(process_count, sizeof *r->processes);
  if (!r->process_of || !r->places || !r->ranks || !r->processes) {
    rondo_topology_destroy(r);
    return NULL;
  }
  for (uint32_t i = 0; i < rank_count; i++) {
    r->process_of[i] = RONDO_TOPOLOGY_NOBODY;
    r->places[i].node = -1;
  }
  return r;
}

void rondo_topology_destroy(struct rondo_topology *topology) {
  if (!topology)
    return;
  for (uint32_t i = 0; i < topology->machine_count; i++) {
    free(topology->machines[i].addresses);
    free(topology->machines[i].interfaces);
  }
  free(topology->machines);
  free(topology->processes);
  free(topology->ranks);
  free(topology->places);
  free(topology->process_of);
  free(topology);
}

// ---------------------------------------------------------------- machines ---

static bool machine_is_of(const struct rondo_topology_machine *m,
                          const struct rondo_wire_member *w) {
  bool same = memcmp(m->id, w->machine, sizeof m->id) == 0 &&
              m->pid_namespace == w->pid_namespace && m->user_namespace == w->user_namespace &&
              m->uid == w->uid && m->address_count == w->address_count &&
              m->interface_count == w->interface_count && strcmp(m->host, w->host) == 0 &&
              memcmp(m->interfaces, w->interfaces, w->interface_count * sizeof *w->interfaces) == 0;
  for (uint32_t i = 0; i < w->address_count && same; i++)
    same = m->addresses[i].family == w->addresses[i].family &&
           memcmp(m->addresses[i].bytes, w->addresses[i].bytes, sizeof w->addresses[i].bytes) == 0;
  return same;
}

// The processes of a machine usually come one after the other, so it looks from the newest on.
static uint32_t machine_find(const struct rondo_topology *r, const struct rondo_wire_member *w) {
  for (uint32_t i = r->machine_count; i > 0; i--)
    if (machine_is_of(&r->machines[i - 1], w))
      return i - 1;
  return r->machine_count;
}

static void *copy_of(const void *from, size_t bytes) {
  void *to = malloc(bytes ? bytes : 1);
  if (to && bytes)
    memcpy(to, from, bytes);
  return to;
}

static bool machine_add(struct rondo_topology *r, const struct rondo_wire_member *w) {
  if (r->machine_count == r->machine_capacity) {
    uint32_t capacity = r->machine_capacity ? 2 * r->machine_capacity : 4;
    struct rondo_topology_machine *grown = realloc(r->machines, capacity * sizeof *grown);
    if (!grown)
      return false;
    r->machines = grown;
    r->machine_capacity = capacity;
  }
  struct rondo_topology_machine *m = &r->machines[r->machine_count];
  *m = (struct rondo_topology_machine){.id = {w->machine[0], w->machine[1]},
                                       .pid_namespace = w->pid_namespace,
                                       .user_namespace = w->user_namespace,
                                       .uid = w->uid,
                                       .address_count = (uint8_t)w->address_count,
                                       .interface_count = (uint8_t)w->interface_count};
  memcpy(m->host, w->host, sizeof m->host);
  m->addresses = copy_of(w->addresses, w->address_count * sizeof *w->addresses);
  m->interfaces = copy_of(w->interfaces, w->interface_count * sizeof *w->interfaces);
  if (!m->addresses || !m->interfaces) {
    free(m->addresses);
    free(m->interfaces);
    return false;
  }
  while (memcmp(r->machines[m->first].id, m->id, sizeof m->id) != 0)
    m->first++;
  r->machine_count++;
  return true;
}

// --------------------------------------------------------------- processes ---

static bool ranks_are_free(const struct rondo_topology *r, const struct rondo_wire_member *w) {
  for (uint32_t i = 0; i < w->rank_count; i++)
    if (w->ranks[i] >= r->rank_count || r->process_of[w->ranks[i]] != RONDO_TOPOLOGY_NOBODY ||
        (i && w->ranks[i] <= w->ranks[i - 1]))
      return false;
  return w->rank_count > 0;
}

bool rondo_topology_add(struct rondo_topology *topology, const struct rondo_wire_member *member) {
  if (topology->process_count == topology->process_capacity || !ranks_are_free(topology, member))
    return false;
  uint32_t machine = machine_find(topology, member);
  if (machine == topology->machine_count && !machine_add(topology, member))
    return false;
  uint32_t number = topology->process_count++;
  struct rondo_topology_process *p = &topology->processes[number];
  *p = (struct rondo_topology_process){.machine = machine,
                                       .pid = member->pid,
                                       .rank_count = member->rank_count,
                                       .asks_window = member->asks_window,
                                       .ranks = topology->ranks + topology->listed_count};
  uint64_t *cores = topology->machines[topology->machines[machine].first].cores;
  for (uint32_t i = 0; i < RONDO_TOPOLOGY_CORE_WORDS; i++)
    cores[i] |= member->cores[i];
  for (uint32_t i = 0; i < member->address_count; i++)
    p->ports[i] = member->addresses[i].port;
  memcpy(p->local, member->local, sizeof p->local);
  memcpy(p->key, member->key, sizeof p->key);
  for (uint32_t i = 0; i < member->rank_count; i++) {
    topology->ranks[topology->listed_count++] = member->ranks[i];
    topology->process_of[member->ranks[i]] = number;
    topology->places[member->ranks[i]] = member->places[i];
  }
  return true;
}

// ----------------------------------------------------------------- reading ---

void rondo_topology_address(const struct rondo_topology *topology, uint32_t process, uint32_t i,
                            struct rondo_wire_address *out) {
  const struct rondo_topology_process *p = &topology->processes[process];
  *out = topology->machines[p->machine].addresses[i];
  out->port = p->ports[i];
}

uint32_t rondo_topology_cores(const struct rondo_topology *topology, uint32_t process) {
  const struct rondo_topology_machine *m =
      &topology->machines[topology->processes[process].machine];
  const uint64_t *cores = topology->machines[m->first].cores;
  uint32_t count = 0;
  for (uint32_t i = 0; i < RONDO_TOPOLOGY_CORE_WORDS; i++)
    count += (uint32_t)__builtin_popcountll(cores[i]);
  return count;
}

uint32_t rondo_topology_ports(const struct rondo_topology *topology, uint32_t process) {
  const struct rondo_topology_machine *m =
      &topology->machines[topology->processes[process].machine];
  uint32_t count = 0, mbit = 0;
  for (uint32_t i = 0; i < m->interface_count; i++) {
    if (!m->interfaces[i].is_rdma || m->interfaces[i].mbit < mbit)
      continue;
    count = m->interfaces[i].mbit > mbit ? 1 : count + 1;
    mbit = m->interfaces[i].mbit;
  }
  return count > 0 ? count : 1;
}

bool rondo_topology_is_same_machine(const struct rondo_topology *topology, uint32_t a, uint32_t b) {
  const struct rondo_topology_machine *machines = topology->machines;
  return machines[topology->processes[a].machine].first ==
         machines[topology->processes[b].machine].first;
}
