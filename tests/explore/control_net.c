#include "tests/explore/control_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/explore/random.h"

#define NONE UINT32_MAX
#define FIRST_EVENTS 1024u
#define MOST_SLOWNESS 10u // times the mean

enum event_kind { DELIVER, TICK, CUT, WAKE };

struct event {
  uint64_t at_ns;
  uint64_t number; // events of one time happen in this order
  void *message;
  uint32_t node, from;
  uint32_t connection;
  uint32_t generation; // of the connection (DELIVER, CUT), or of the node (TICK, WAKE)
  uint8_t kind;
  uint8_t is_proven; // CUT
};

// Events that wait, in order.
struct backlog {
  struct event *events;
  uint32_t count, capacity;
};

struct node {
  struct backlog backlog;
  uint64_t tick_ns;     // UINT64_MAX: none
  uint64_t slow_ns;     // mean
  uint32_t generation;  // counts crashes
  uint32_t connections; // first of the node's
  uint8_t is_dead, is_gone, is_stopped, is_waking, side;
};

// Between two nodes, the lower one first.
struct connection {
  uint32_t node[2];
  uint32_t next[2];    // further connections of each node
  uint64_t last_ns[2]; // arrival of the last message from each node
  uint64_t deaf_ns[2]; // what each node sends before this time is lost: it was not told yet
  uint64_t horizon_ns; // messages of the previous generation arrive until then
  uint32_t generation; // counts cuts
  uint8_t is_stale[2]; // that node is told of a cut when it sends next
  uint8_t is_silent;
  struct backlog held;
};

struct control_net {
  struct control_net_config cfg;
  struct random random;
  uint64_t now_ns, next_number;
  struct event *heap; // the earliest first
  uint32_t count, capacity;
  struct node *nodes;
  struct connection *connections;
  uint32_t connection_count, connection_capacity;
  uint32_t *table; // connections by their nodes: open addressing
  uint32_t table_mask;
  struct control_net_stats stats;
};

static void *grow(void *memory, size_t bytes) {
  void *more = realloc(memory, bytes);
  if (!more) {
    (void)fprintf(stderr, "control_net: no memory for %zu bytes\n", bytes);
    abort();
  }
  return more;
}

// ---------------------------------------------------------------------- heap ---

static bool event_is_before(const struct event *a, const struct event *b) {
  return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->number < b->number);
}

static void net_push(struct control_net *net, const struct event *event) {
  if (net->count == net->capacity) {
    net->capacity = net->capacity ? 2 * net->capacity : FIRST_EVENTS;
    net->heap = grow(net->heap, net->capacity * sizeof *net->heap);
  }
  uint32_t at = net->count++;
  while (at && event_is_before(event, &net->heap[(at - 1) / 4])) {
    net->heap[at] = net->heap[(at - 1) / 4];
    at = (at - 1) / 4;
  }
  net->heap[at] = *event;
}

static struct event net_pop(struct control_net *net) {
  struct event first = net->heap[0];
  struct event last = net->heap[--net->count];
  uint32_t at = 0;
  for (uint32_t child = 1; child < net->count; child = 4 * at + 1) {
    uint32_t least = child;
    for (uint32_t c = child + 1; c < child + 4 && c < net->count; c++)
      if (event_is_before(&net->heap[c], &net->heap[least]))
        least = c;
    if (!event_is_before(&net->heap[least], &last))
      break;
    net->heap[at] = net->heap[least];
    at = least;
  }
  net->heap[at] = last;
  return first;
}

static void net_schedule(struct control_net *net, struct event event, uint64_t at_ns) {
  event.at_ns = at_ns;
  event.number = net->next_number++;
  net_push(net, &event);
}

static void backlog_append(struct backlog *b, const struct event *event) {
  if (b->count == b->capacity) {
    b->capacity = b->capacity ? 2 * b->capacity : 4;
    b->events = grow(b->events, b->capacity * sizeof *b->events);
  }
  b->events[b->count++] = *event;
}

static void net_release(struct control_net *net, struct event *event) {
  if (!event->message)
    return;
  net->cfg.calls->release(net->cfg.arg, event->message);
  net->stats.lost++;
}

static void backlog_drop(struct control_net *net, struct backlog *b) {
  for (uint32_t i = 0; i < b->count; i++)
    net_release(net, &b->events[i]);
  free(b->events);
  memset(b, 0, sizeof *b);
}

// --------------------------------------------------------------- connections ---

static uint32_t table_place(const struct control_net *net, uint32_t low, uint32_t high) {
  uint32_t at = (uint32_t)random_mix((uint64_t)low << 32 | high) & net->table_mask;
  while (net->table[at] != NONE) {
    const struct connection *c = &net->connections[net->table[at]];
    if (c->node[0] == low && c->node[1] == high)
      break;
    at = (at + 1) & net->table_mask;
  }
  return at;
}

static void table_rebuild(struct control_net *net, uint32_t places) {
  net->table = grow(net->table, places * sizeof *net->table);
  memset(net->table, 0xff, places * sizeof *net->table);
  net->table_mask = places - 1;
  for (uint32_t i = 0; i < net->connection_count; i++)
    net->table[table_place(net, net->connections[i].node[0], net->connections[i].node[1])] = i;
}

// Finds the connection of two nodes, or makes it.
static uint32_t net_connect(struct control_net *net, uint32_t a, uint32_t b) {
  uint32_t node[2] = {a < b ? a : b, a < b ? b : a};
  uint32_t place = table_place(net, node[0], node[1]);
  if (net->table[place] != NONE)
    return net->table[place];
  if (net->connection_count == net->connection_capacity) {
    net->connection_capacity = net->connection_capacity ? 2 * net->connection_capacity : 256;
    net->connections = grow(net->connections, net->connection_capacity * sizeof *net->connections);
    table_rebuild(net, 4 * net->connection_capacity);
    place = table_place(net, node[0], node[1]);
  }
  uint32_t index = net->connection_count++;
  struct connection *c = &net->connections[index];
  memset(c, 0, sizeof *c);
  for (int side = 0; side < 2; side++) {
    c->node[side] = node[side];
    c->next[side] = net->nodes[node[side]].connections;
    net->nodes[node[side]].connections = index;
  }
  net->table[place] = index;
  return index;
}

static int connection_side(const struct connection *c, uint32_t node) { return c->node[1] == node; }

static uint64_t net_delay(struct control_net *net) {
  uint64_t span = net->cfg.max_delay_ns - net->cfg.min_delay_ns;
  return net->cfg.min_delay_ns + (span ? random_next(&net->random) % (span + 1) : 0);
}

static bool connection_is_blocked(const struct control_net *net, const struct connection *c) {
  return c->is_silent || net->nodes[c->node[0]].side != net->nodes[c->node[1]].side;
}

// Tells a node of a cut at `at_ns`; what it sends until then is lost.
static void connection_tell(struct control_net *net, uint32_t index, int side, uint64_t at_ns,
                            bool is_proven) {
  struct connection *c = &net->connections[index];
  struct event event = {.kind = CUT,
                        .node = c->node[side],
                        .from = c->node[!side],
                        .connection = index,
                        .generation = net->nodes[c->node[side]].generation,
                        .is_proven = is_proven};
  c->deaf_ns[side] = at_ns;
  net_schedule(net, event, at_ns);
}

// Begins a new generation: what is on its way arrives until a random time, which is returned.
static uint64_t connection_end(struct control_net *net, struct connection *c) {
  c->generation++;
  c->horizon_ns = net->now_ns + random_next(&net->random) % (net->cfg.max_delay_ns + 1);
  c->is_stale[0] = c->is_stale[1] = 0;
  backlog_drop(net, &c->held);
  return c->horizon_ns;
}

// ---------------------------------------------------------------------- calls ---

struct control_net *control_net_create(const struct control_net_config *cfg) {
  struct control_net *net = grow(NULL, sizeof *net);
  memset(net, 0, sizeof *net);
  net->cfg = *cfg;
  net->random.state = cfg->seed;
  net->nodes = grow(NULL, cfg->node_count * sizeof *net->nodes);
  memset(net->nodes, 0, cfg->node_count * sizeof *net->nodes);
  for (uint32_t i = 0; i < cfg->node_count; i++) {
    net->nodes[i].tick_ns = UINT64_MAX;
    net->nodes[i].connections = NONE;
  }
  table_rebuild(net, 256);
  return net;
}

void control_net_destroy(struct control_net *net) {
  for (uint32_t i = 0; i < net->count; i++)
    net_release(net, &net->heap[i]);
  for (uint32_t i = 0; i < net->cfg.node_count; i++)
    backlog_drop(net, &net->nodes[i].backlog);
  for (uint32_t i = 0; i < net->connection_count; i++)
    backlog_drop(net, &net->connections[i].held);
  free(net->heap);
  free(net->nodes);
  free(net->connections);
  free(net->table);
  free(net);
}

uint64_t control_net_now(const struct control_net *net) { return net->now_ns; }

const struct control_net_stats *control_net_stats(const struct control_net *net) {
  return &net->stats;
}

uint32_t control_net_random(struct control_net *net, uint32_t bound) {
  return random_below(&net->random, bound);
}

void control_net_send(struct control_net *net, uint32_t from, uint32_t to, void *message) {
  uint32_t index = net_connect(net, from, to);
  struct connection *c = &net->connections[index];
  int side = connection_side(c, from);
  struct event event = {.kind = DELIVER,
                        .node = to,
                        .from = from,
                        .connection = index,
                        .generation = c->generation,
                        .message = message};
  uint64_t at_ns = net->now_ns + net_delay(net);
  net->stats.sent++;
  if (net->now_ns < c->deaf_ns[side] || net->nodes[to].is_gone) {
    net_release(net, &event);
  } else if (net->nodes[to].is_dead || c->is_stale[side]) {
    bool is_proven = net->nodes[to].is_dead;
    c->is_stale[side] = 0;
    net_release(net, &event);
    connection_tell(net, index, side, at_ns, is_proven);
  } else {
    if (at_ns < c->last_ns[side])
      at_ns = c->last_ns[side];
    c->last_ns[side] = at_ns;
    net_schedule(net, event, at_ns);
  }
}

void control_net_wake(struct control_net *net, uint32_t node, uint64_t at_ns) {
  struct node *n = &net->nodes[node];
  struct event event = {.kind = TICK, .node = node, .generation = n->generation};
  if (at_ns < net->now_ns)
    at_ns = net->now_ns;
  if (n->tick_ns == at_ns)
    return;
  n->tick_ns = at_ns;
  if (at_ns != UINT64_MAX)
    net_schedule(net, event, at_ns);
}

// ------------------------------------------------------------------------ run ---

// True if the event still concerns anybody; otherwise it is released.
static bool event_is_valid(struct control_net *net, struct event *event) {
  const struct node *n = &net->nodes[event->node];
  bool is_valid = !n->is_dead;
  if (event->kind == DELIVER) {
    const struct connection *c = &net->connections[event->connection];
    uint32_t age = c->generation - event->generation;
    is_valid = is_valid && (age == 0 || (age == 1 && event->at_ns <= c->horizon_ns));
  } else {
    is_valid = is_valid && event->generation == n->generation;
  }
  if (!is_valid)
    net_release(net, event);
  return is_valid;
}

static void net_make(struct control_net *net, struct event *event) {
  const struct control_net_calls *calls = net->cfg.calls;
  struct node *n = &net->nodes[event->node];
  switch (event->kind) {
  case DELIVER:
    net->stats.delivered++;
    calls->deliver(net->cfg.arg, event->node, event->from, event->message);
    break;
  case CUT:
    net->stats.cuts++;
    calls->cut(net->cfg.arg, event->node, event->from, event->is_proven);
    break;
  default:
    if (n->tick_ns > net->now_ns)
      return; // another wish has taken its place
    n->tick_ns = UINT64_MAX;
    net->stats.ticks++;
    calls->tick(net->cfg.arg, event->node);
  }
}

// The mean is that of an exponential distribution, made of the logarithm's series base 2.
static uint64_t net_slowness(struct control_net *net, uint64_t mean_ns) {
  uint64_t ns = 0;
  while (ns < MOST_SLOWNESS * mean_ns && random_below(&net->random, 8) != 0)
    ns += mean_ns / 8 + random_next(&net->random) % (mean_ns / 16 + 1);
  return ns;
}

static void node_await(struct control_net *net, uint32_t node, uint64_t at_ns) {
  struct node *n = &net->nodes[node];
  struct event wake = {.kind = WAKE, .node = node, .generation = n->generation};
  n->is_waking = 1;
  net_schedule(net, wake, at_ns);
}

// Does all that has come for a node that was stopped or slow.
static void node_work(struct control_net *net, uint32_t node) {
  struct node *n = &net->nodes[node];
  struct backlog work = n->backlog;
  memset(&n->backlog, 0, sizeof n->backlog);
  n->is_waking = 0;
  for (uint32_t i = 0; i < work.count; i++) {
    if (n->is_stopped)
      backlog_append(&n->backlog, &work.events[i]);
    else if (event_is_valid(net, &work.events[i]))
      net_make(net, &work.events[i]);
  }
  free(work.events);
}

static void net_handle(struct control_net *net, struct event *event) {
  struct node *n = &net->nodes[event->node];
  if (!event_is_valid(net, event))
    return;
  if (event->kind == WAKE) {
    node_work(net, event->node);
    return;
  }
  if (event->kind == DELIVER && connection_is_blocked(net, &net->connections[event->connection])) {
    backlog_append(&net->connections[event->connection].held, event);
    return;
  }
  if (!n->is_stopped && !n->slow_ns && !n->backlog.count) {
    net_make(net, event);
    return;
  }
  backlog_append(&n->backlog, event);
  if (!n->is_stopped && !n->is_waking)
    node_await(net, event->node, net->now_ns + net_slowness(net, n->slow_ns));
}

bool control_net_run(struct control_net *net, uint64_t until_ns) {
  while (net->count && net->heap[0].at_ns <= until_ns) {
    struct event event = net_pop(net);
    net->now_ns = event.at_ns;
    net_handle(net, &event);
  }
  if (net->now_ns < until_ns)
    net->now_ns = until_ns;
  return net->count != 0;
}

// ------------------------------------------------------------ what goes wrong ---

void control_net_crash(struct control_net *net, uint32_t node, enum control_net_crash how) {
  struct node *n = &net->nodes[node];
  n->is_dead = 1;
  n->is_gone = how == CONTROL_NET_GONE;
  n->is_stopped = 0;
  n->is_waking = 0;
  n->generation++;
  n->tick_ns = UINT64_MAX;
  backlog_drop(net, &n->backlog);
  for (uint32_t i = n->connections; i != NONE;) {
    struct connection *c = &net->connections[i];
    int side = connection_side(c, node);
    uint64_t at_ns = connection_end(net, c);
    c->last_ns[0] = c->last_ns[1] = at_ns;
    if (how == CONTROL_NET_ENDS && !net->nodes[c->node[!side]].is_dead)
      connection_tell(net, i, !side, at_ns, true);
    i = c->next[side];
  }
}

void control_net_restart(struct control_net *net, uint32_t node) {
  struct node *n = &net->nodes[node];
  n->is_dead = 0;
  n->is_gone = 0;
  for (uint32_t i = n->connections; i != NONE;) {
    struct connection *c = &net->connections[i];
    int side = connection_side(c, node);
    uint64_t at_ns = connection_end(net, c);
    if (!net->nodes[c->node[!side]].is_dead)
      connection_tell(net, i, !side, at_ns, false);
    c->deaf_ns[side] = 0;
    i = c->next[side];
  }
}

bool control_net_is_alive(const struct control_net *net, uint32_t node) {
  return !net->nodes[node].is_dead;
}

void control_net_stop(struct control_net *net, uint32_t node) { net->nodes[node].is_stopped = 1; }

void control_net_continue(struct control_net *net, uint32_t node) {
  struct node *n = &net->nodes[node];
  if (!n->is_stopped)
    return;
  n->is_stopped = 0;
  if (n->backlog.count && !n->is_waking)
    node_await(net, node, net->now_ns);
}

void control_net_slow(struct control_net *net, uint32_t node, uint64_t mean_ns) {
  net->nodes[node].slow_ns = mean_ns;
}

void control_net_cut(struct control_net *net, uint32_t a, uint32_t b, bool tells_both) {
  uint32_t index = net_connect(net, a, b);
  struct connection *c = &net->connections[index];
  int side = connection_side(c, a);
  uint64_t at_ns = connection_end(net, c);
  c->last_ns[0] = c->last_ns[1] = at_ns;
  if (!net->nodes[a].is_dead)
    connection_tell(net, index, side, at_ns, net->nodes[b].is_dead && !net->nodes[b].is_gone);
  if (net->nodes[b].is_dead)
    return;
  if (tells_both)
    connection_tell(net, index, !side, at_ns, false);
  else
    c->is_stale[!side] = 1;
}

void control_net_partition(struct control_net *net, uint32_t node, uint8_t side) {
  net->nodes[node].side = side;
}

void control_net_silence(struct control_net *net, uint32_t a, uint32_t b) {
  uint32_t index = net_connect(net, a, b); // may move the connections
  net->connections[index].is_silent = 1;
}

// What waited arrives now, before what is still on its way.
static void connection_heal(struct control_net *net, uint32_t index, uint32_t cut_percent) {
  struct backlog held = net->connections[index].held;
  net->connections[index].is_silent = 0;
  if (!held.count)
    return;
  if (random_chance(&net->random, cut_percent)) {
    const struct connection *c = &net->connections[index];
    control_net_cut(net, c->node[0], c->node[1], true); // drops what waited
    return;
  }
  memset(&net->connections[index].held, 0, sizeof held);
  for (uint32_t i = 0; i < held.count; i++)
    net_schedule(net, held.events[i], net->now_ns);
  free(held.events);
}

void control_net_heal(struct control_net *net, uint32_t cut_percent) {
  for (uint32_t i = 0; i < net->cfg.node_count; i++)
    net->nodes[i].side = 0;
  for (uint32_t i = 0; i < net->connection_count; i++)
    connection_heal(net, i, cut_percent);
}
