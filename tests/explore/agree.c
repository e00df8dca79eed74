// Runs many cores of the agreement on registrations (runtime/job/agreement.h) over the virtual
// network, with random programs. Checks what every process is told, that nothing waits for ever,
// that nothing is left, and how many messages it takes.
#include <argp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/explore.h"
#include "runtime/job/agreement_state.h"
#include "tests/explore/agree_program.h"
#include "tests/explore/control_net.h"
#include <rondo/rondo.h>

#define DELAY_NS 1000000u // of a message, at most
#define PAUSE_NS 3000000u // between two acts of a process, at most
#define LETTER_LEFT 1000u // types beside those of the messages
#define LETTER_LOST 1001u

// How far a rank is with a collective.
struct task {
  struct rondo_agreement_key key;
  uint32_t done; // generations that have ended
  uint64_t limit;
  uint8_t is_registered, is_agreed, has_acted;
  int status;
};

// On its way. LEFT and LOST: `bytes` are ranks.
struct letter {
  struct letter *next;
  uint32_t type, from, process;
  size_t size;
  uint64_t bytes[];
};

struct node {
  struct rondo_agreement core;
  struct rondo_agreement_actions actions;
  uint32_t *ranks, rank_count;
  struct letter *waiting, **waiting_end; // that came before the roster
  uint8_t is_located, has_left;
  uint8_t *rank_left; // by index in `ranks`
  uint8_t *lost;      // by process; null: none
};

struct world {
  struct agree_program program;
  struct random random;
  struct control_net *net;
  struct rondo_member_lists lists;
  struct node *nodes;
  struct task *tasks[AGREE_COLLS];     // by rank
  uint32_t registered[AGREE_COLLS][2]; // ranks that have registered, by generation
  uint64_t deliveries;
  bool is_traced;
  char finding[1024]; // "": none yet
};

static const char *const faults[] = {"agreed_early",    "over_early",        "limit_untold",
                                     "mismatch_unseen", "groups_uncompared", "gone_unnoticed",
                                     "leaves_silently", "left_unnoticed",    "orphans_forgotten",
                                     "forgotten_early", "proposal_kept"};

__attribute__((format(printf, 2, 3))) static void find(struct world *w, const char *format, ...) {
  va_list args;
  if (w->finding[0])
    return;
  va_start(args, format);
  (void)vsnprintf(w->finding, sizeof w->finding, format, args);
  va_end(args);
}

__attribute__((format(printf, 2, 3))) static void trace(const struct world *w, const char *format,
                                                        ...) {
  va_list args;
  if (!w->is_traced)
    return;
  va_start(args, format);
  printf("%10llu ", (unsigned long long)control_net_now(w->net));
  (void)vprintf(format, args);
  printf("\n");
  va_end(args);
}

static void *reserve(size_t count, size_t bytes) {
  void *memory = calloc(count + 1, bytes);
  if (!memory)
    abort();
  return memory;
}

static struct letter *letter_make(uint32_t type, uint32_t from, const void *bytes, size_t size) {
  struct letter *l = reserve(1, sizeof *l + size);
  l->type = type;
  l->from = from;
  l->process = RONDO_NO_PLACE;
  l->size = size;
  if (size)
    memcpy(l->bytes, bytes, size);
  return l;
}

static void node_wake(struct world *w, uint32_t node) {
  control_net_wake(w->net, node, control_net_now(w->net) + 1 + random_below(&w->random, PAUSE_NS));
}

// ------------------------------------------------------------------ actions ---

static struct task *task_of(struct world *w, const struct rondo_agreement_key *key, uint32_t coll,
                            uint32_t rank) {
  struct task *t = &w->tasks[coll][rank];
  bool is_same = t->is_registered && memcmp(&t->key, key, sizeof *key) == 0;
  return is_same ? t : NULL;
}

// AGREED: all members have registered the same.
static void check_agreed(struct world *w, uint32_t coll, uint32_t rank) {
  const struct agree_coll *c = &w->program.colls[coll];
  const struct task *t = &w->tasks[coll][rank];
  if (c->kind == AGREE_MISMATCH || c->kind == AGREE_NEVER ||
      (c->kind == AGREE_CROSSED && c->registrants < c->nranks) ||
      w->registered[coll][t->key.generation - 1] < c->nranks)
    find(w, "rank %u was told that all have registered collective %u: %u of %u have", rank, coll,
         w->registered[coll][t->key.generation - 1], c->nranks);
}

static bool may_fail(const struct agree_program *p, const struct agree_coll *c) {
  bool is_crossed = c->kind == AGREE_CROSSED && c->registrants && p->colls[c->partner].registrants;
  return c->has_victim || is_crossed || c->kind == AGREE_MISMATCH || c->kind == AGREE_ABORTED ||
         c->kind == AGREE_EARLY || c->kind == AGREE_NEVER ||
         (c->kind == AGREE_CROSSED && p->colls[c->partner].has_victim);
}

static bool rank_has_left(const struct world *w, uint32_t rank) {
  const struct node *n = &w->nodes[w->program.process_of[rank]];
  for (uint32_t i = 0; i < n->rank_count; i++)
    if (n->ranks[i] == rank)
      return n->rank_left[i];
  return false;
}

static void check_failed(struct world *w, uint32_t coll, uint32_t rank,
                         const struct rondo_agreement_action *action, const char *text) {
  const struct agree_coll *c = &w->program.colls[coll];
  uint32_t culprit = action->culprit == rank ? action->other : action->culprit;
  char name[32];
  if (!may_fail(&w->program, c))
    find(w, "collective %u failed at rank %u for no reason (status %d, rank %u)", coll, rank,
         action->status, action->culprit);
  if (c->has_victim || c->kind == AGREE_CROSSED)
    return;
  if (c->kind == AGREE_MISMATCH && action->status == RONDO_ERR_MISMATCH) {
    (void)snprintf(name, sizeof name, "rank %u:", c->special);
    if (!strstr(text, name) || !strstr(text, "in its count") || culprit == rank)
      find(w, "rank %u was told of rank %u: \"%s\", not of rank %u", rank, action->culprit, text,
           c->special);
  } else if (c->kind == AGREE_MISMATCH && !rank_has_left(w, action->culprit)) {
    find(w, "rank %u was told of status %d, not of the mismatch", rank, action->status);
  }
  if (c->kind == AGREE_ABORTED && strcmp(text, "for a test") != 0 &&
      !rank_has_left(w, action->culprit))
    find(w, "rank %u was told: \"%s\"", rank, text);
}

static void action_take(struct world *w, uint32_t node,
                        const struct rondo_agreement_action *action) {
  struct node *n = &w->nodes[node];
  const char *text = n->actions.bytes + action->at;
  for (uint32_t i = 0; i < n->rank_count; i++) {
    for (uint32_t k = 0; k < w->program.coll_count; k++) {
      struct task *t = task_of(w, &action->key, k, n->ranks[i]);
      if (!t)
        continue;
      if (action->type == RONDO_AGREEMENT_LIMIT) {
        t->limit = action->completed;
      } else if (action->type == RONDO_AGREEMENT_AGREED) {
        t->is_agreed = 1;
        check_agreed(w, k, n->ranks[i]);
      } else {
        check_failed(w, k, n->ranks[i], action, text);
        t->status = action->status;
      }
      trace(w, "rank %u: collective %u: %s", n->ranks[i], k,
            action->type == RONDO_AGREEMENT_LIMIT    ? "a limit"
            : action->type == RONDO_AGREEMENT_AGREED ? "agreed"
                                                     : "failed");
    }
  }
}

static void actions_take(struct world *w, uint32_t node) {
  struct node *n = &w->nodes[node];
  for (uint32_t i = 0; i < n->actions.count; i++) {
    const struct rondo_agreement_action *action = &n->actions.list[i];
    if (action->type != RONDO_AGREEMENT_SEND) {
      action_take(w, node, action);
      continue;
    }
    struct letter *l =
        letter_make(action->message_type, node, n->actions.bytes + action->at, action->size);
    control_net_send(w->net, node, action->process, l);
  }
  rondo_agreement_actions_clear(&n->actions);
  if (!n->has_left)
    node_wake(w, node);
}

static void node_step(struct world *w, uint32_t node, struct rondo_agreement_event *event) {
  struct node *n = &w->nodes[node];
  int status = rondo_agreement_step(&n->core, event, &n->actions);
  if (status != RONDO_SUCCESS)
    find(w, "process %u: event %d ended with status %d", node, event->type, status);
  actions_take(w, node);
}

// ----------------------------------------------------------------- messages ---

static void letter_take(struct world *w, uint32_t node, const struct letter *l) {
  struct node *n = &w->nodes[node];
  struct rondo_agreement_event event = {.type = RONDO_AGREEMENT_RECEIVE,
                                        .process = l->from,
                                        .message_type = l->type,
                                        .bytes = l->bytes,
                                        .size = l->size};
  if (l->type == LETTER_LOST || l->type == LETTER_LEFT) {
    event.type = l->type == LETTER_LOST ? RONDO_AGREEMENT_LOST : RONDO_AGREEMENT_LEFT;
    event.ranks = (const uint32_t *)l->bytes;
    event.rank_count = (uint32_t)(l->size / sizeof *event.ranks);
    event.process = l->process;
  }
  if (l->type == LETTER_LOST) {
    if (!n->lost)
      n->lost = reserve(w->program.process_count, 1);
    n->lost[w->program.process_of[event.ranks[0]]] = 1;
  } else if (n->lost && n->lost[l->from]) {
    return;
  }
  trace(w, "process %u receives %u from process %u", node, l->type, l->from);
  node_step(w, node, &event);
}

static void deliver(void *arg, uint32_t node, uint32_t from, void *message) {
  struct world *w = arg;
  struct node *n = &w->nodes[node];
  struct letter *l = message;
  (void)from;
  if (++w->deliveries > 100000 + UINT64_C(1000) * w->program.process_count)
    find(w, "messages go on for ever");
  if (node >= w->program.process_count || n->has_left || w->finding[0]) {
    free(l);
  } else if (n->is_located) {
    letter_take(w, node, l);
    free(l);
  } else {
    *n->waiting_end = l;
    n->waiting_end = &l->next;
  }
}

static void cut(void *arg, uint32_t node, uint32_t other, bool is_proven) {
  (void)arg, (void)node, (void)other, (void)is_proven; // the membership tells
}

static void discard(void *arg, void *message) {
  (void)arg;
  free(message);
}

// --------------------------------------------------------------------- acts ---

static void node_locate(struct world *w, uint32_t node) {
  struct node *n = &w->nodes[node];
  struct rondo_agreement_event event = {
      .type = RONDO_AGREEMENT_LOCATED, .process = node, .process_of = w->program.process_of};
  n->is_located = 1;
  node_step(w, node, &event);
  while (n->waiting) {
    struct letter *l = n->waiting;
    n->waiting = l->next;
    letter_take(w, node, l);
    free(l);
  }
}

static void rank_register(struct world *w, uint32_t node, uint32_t coll, uint32_t rank) {
  const struct agree_coll *c = &w->program.colls[coll];
  struct task *t = &w->tasks[coll][rank];
  struct rondo_agreement_event event = {
      .type = RONDO_AGREEMENT_REGISTER, .rank = rank, .members = c->members, .nranks = c->nranks};
  struct node *n = &w->nodes[node];
  event.key.id = (struct rondo_id){.number = c->id, .space = c->space};
  event.descriptor = agree_program_descriptor(&w->program, coll, rank);
  trace(w, "rank %u: registers collective %u", rank, coll);
  w->registered[coll][t->done]++;
  if (rondo_agreement_step(&n->core, &event, &n->actions) != RONDO_SUCCESS)
    find(w, "rank %u could not register", rank);
  *t = (struct task){.key = event.key, .done = t->done, .limit = UINT64_MAX, .is_registered = 1};
  if (event.key.generation != t->done + 1)
    find(w, "rank %u: generation %llu, not %u", rank, (unsigned long long)event.key.generation,
         t->done + 1);
  actions_take(w, node);
}

static void rank_deregister(struct world *w, uint32_t node, uint32_t coll, uint32_t rank) {
  const struct agree_coll *c = &w->program.colls[coll];
  struct task *t = &w->tasks[coll][rank];
  struct rondo_agreement_event event = {
      .type = RONDO_AGREEMENT_DEREGISTER, .key = t->key, .rank = rank};
  event.completed = t->is_agreed ? AGREE_RUNS : 0;
  if (c->kind == AGREE_LIMITED && rank == c->special && event.completed)
    event.completed = 2;
  if (c->kind == AGREE_EARLY && rank == c->special)
    event.completed = 0;
  if (event.completed > t->limit)
    event.completed = t->limit;
  trace(w, "rank %u: deregisters collective %u", rank, coll);
  t->done++;
  t->is_registered = 0;
  node_step(w, node, &event);
}

static void rank_abort(struct world *w, uint32_t node, uint32_t coll, uint32_t rank) {
  struct task *t = &w->tasks[coll][rank];
  struct rondo_agreement_event event = {
      .type = RONDO_AGREEMENT_FAIL,
      .key = t->key,
      .failure = {RONDO_ERR_ABORTED, rank, UINT32_MAX, "for a test"}};
  t->has_acted = 1;
  node_step(w, node, &event);
}

// True if the rank has been told what it waits for.
static bool may_end(const struct agree_coll *c, const struct task *t, uint32_t rank) {
  if (t->status)
    return true;
  switch (c->kind) {
  case AGREE_CLEAN:
  case AGREE_CROSSED: // it may agree if all members have registered this one of the two
    return t->is_agreed;
  case AGREE_LIMITED:
    return t->is_agreed && (rank == c->special || t->limit <= 2);
  case AGREE_EARLY:
    return rank == c->special || t->limit == 0;
  default:
    return false; // it must fail
  }
}

// Does one thing with a collective if there is one to do. Returns true if it did.
static bool task_act(struct world *w, uint32_t node, uint32_t coll, uint32_t rank) {
  const struct agree_coll *c = &w->program.colls[coll];
  struct task *t = &w->tasks[coll][rank];
  if (!w->program.takes[coll][rank] || t->done == c->generations)
    return false;
  if (!t->is_registered)
    rank_register(w, node, coll, rank);
  else if (c->kind == AGREE_ABORTED && rank == c->special && !t->has_acted)
    rank_abort(w, node, coll, rank);
  else if (may_end(c, t, rank))
    rank_deregister(w, node, coll, rank);
  else
    return false;
  return true;
}

static bool rank_is_done(const struct world *w, uint32_t rank) {
  for (uint32_t k = 0; k < w->program.coll_count; k++)
    if (w->program.takes[k][rank] && w->tasks[k][rank].done < w->program.colls[k].generations)
      return false;
  return true;
}

// A rank that never registers something has to leave.
static bool rank_has_to_leave(const struct world *w, uint32_t rank) {
  for (uint32_t k = 0; k < w->program.coll_count; k++)
    if (w->program.colls[k].kind == AGREE_NEVER && w->program.colls[k].special == rank)
      return true;
  return false;
}

// A rank leaves, and its process with its last rank. The others hear of it after its messages.
static void rank_leave(struct world *w, uint32_t node, uint32_t index) {
  struct node *n = &w->nodes[node];
  struct rondo_agreement_event event = {.type = RONDO_AGREEMENT_LEAVE, .rank = n->ranks[index]};
  uint32_t left = 0;
  n->rank_left[index] = 1;
  node_step(w, node, &event);
  for (uint32_t i = 0; i < n->rank_count; i++)
    left += n->rank_left[i];
  n->has_left = left == n->rank_count;
  trace(w, "rank %u leaves process %u%s", n->ranks[index], node,
        n->has_left ? ", the last one" : "");
  for (uint32_t p = 0; p < w->program.process_count; p++) {
    if (p == node || !control_net_is_alive(w->net, p) || w->nodes[p].has_left)
      continue;
    struct letter *l = letter_make(LETTER_LEFT, node, &n->ranks[index], sizeof *n->ranks);
    l->process = n->has_left ? node : RONDO_NO_PLACE;
    control_net_send(w->net, node, p, l);
  }
}

static bool rank_try_leave(struct world *w, uint32_t node, uint32_t index) {
  const struct node *n = &w->nodes[node];
  uint32_t rank = n->ranks[index];
  if (!n->is_located || n->rank_left[index] || !rank_is_done(w, rank) ||
      (w->program.stays[node] && !rank_has_to_leave(w, rank)))
    return false;
  rank_leave(w, node, index);
  return true;
}

// The process dies. The node behind the last one is the membership, which tells.
static void node_die(struct world *w, uint32_t node) {
  const struct node *n = &w->nodes[node];
  trace(w, "process %u dies", node);
  control_net_crash(w->net, node, CONTROL_NET_ENDS);
  for (uint32_t p = 0; p < w->program.process_count; p++) {
    if (p == node || !control_net_is_alive(w->net, p) || w->nodes[p].has_left)
      continue;
    struct letter *l = letter_make(LETTER_LOST, node, n->ranks, n->rank_count * sizeof *n->ranks);
    l->process = node;
    control_net_send(w->net, w->program.process_count, p, l);
  }
}

static void tick(void *arg, uint32_t node) {
  struct world *w = arg;
  struct node *n = &w->nodes[node];
  bool has_acted = false;
  if (node >= w->program.process_count || n->has_left || w->finding[0])
    return;
  if (w->program.dies[node] && random_chance(&w->random, 15)) {
    node_die(w, node);
    return;
  }
  if (!n->is_located && random_chance(&w->random, 40)) {
    node_locate(w, node);
    return;
  }
  uint32_t first = random_below(&w->random, n->rank_count);
  for (uint32_t i = 0; i < n->rank_count && !has_acted; i++) {
    uint32_t index = (first + i) % n->rank_count;
    uint32_t coll = random_below(&w->random, w->program.coll_count);
    for (uint32_t k = 0; k < w->program.coll_count && !has_acted && !n->rank_left[index]; k++)
      has_acted = task_act(w, node, (coll + k) % w->program.coll_count, n->ranks[index]);
    if (!has_acted)
      has_acted = rank_try_leave(w, node, index);
  }
  if (!n->has_left && (has_acted || !n->is_located || w->program.dies[node]))
    node_wake(w, node);
}

// ------------------------------------------------------------------- checks ---

static void check_rank(struct world *w, uint32_t rank) {
  for (uint32_t k = 0; k < w->program.coll_count; k++) {
    const struct task *t = &w->tasks[k][rank];
    if (w->program.takes[k][rank] && t->done < w->program.colls[k].generations)
      find(w, "rank %u waits for ever for collective %u (kind %d, agreed %d, generation %u, %s)",
           rank, k, w->program.colls[k].kind, t->is_agreed, t->done + 1,
           rank_has_left(w, w->program.colls[k].special) ? "its rank has left" : "");
  }
}

// No entry is left.
static void check_entries(struct world *w, uint32_t process) {
  const struct node *n = &w->nodes[process];
  const struct rondo_agreement_group *g;
  LIST_FOREACH (g, &n->core.group_list, listed) {
    const struct rondo_agreement_entry *e = LIST_FIRST(&g->entries);
    if (!e)
      continue;
    find(w,
         "process %u has an entry left: id %llu, generation %llu, status %d, agreed %d, %u of %u "
         "registrations ended",
         process, (unsigned long long)e->id->id.number, (unsigned long long)e->generation,
         e->status, e->is_agreed, e->ended_count, g->local_count);
    for (uint32_t i = 0; i < e->edge_count; i++)
      trace(w, "process %u, edge to process %u (%s): role %u, heard %u, told %u", process,
            e->edges[i].process, w->nodes[e->edges[i].process].has_left ? "left" : "here",
            e->edges[i].role, e->edges[i].heard, e->edges[i].told);
  }
}

static void check_ends(struct world *w) {
  for (uint32_t p = 0; p < w->program.process_count; p++) {
    const struct node *n = &w->nodes[p];
    if (!control_net_is_alive(w->net, p) || n->has_left)
      continue;
    for (uint32_t i = 0; i < n->rank_count; i++)
      if (!n->rank_left[i])
        check_rank(w, n->ranks[i]);
    check_entries(w, p);
  }
}

// Counts what registrations and their ends have cost, if nothing went wrong.
static void check_messages(struct world *w, uint64_t *messages, uint64_t *edges) {
  uint64_t begins = 0;
  uint64_t ends = 0;
  *edges = 0;
  for (uint32_t p = 0; p < w->program.process_count; p++) {
    const struct rondo_agreement_counters *c = &w->nodes[p].core.counters;
    begins += c->sent[RONDO_AGREEMENT_KIND_PROPOSED] + c->sent[RONDO_AGREEMENT_KIND_COMPLETE] +
              c->sent[RONDO_AGREEMENT_KIND_AGREED];
    ends += c->sent[RONDO_AGREEMENT_KIND_DONE] + c->sent[RONDO_AGREEMENT_KIND_OVER] +
            c->sent[RONDO_AGREEMENT_KIND_LIMIT];
  }
  for (uint32_t k = 0; k < w->program.coll_count; k++)
    *edges += (uint64_t)w->program.colls[k].generations * (w->program.colls[k].process_count - 1);
  *messages = begins;
  if (begins > 4 * *edges || ends > 4 * *edges)
    find(w, "%llu messages for registrations and %llu for their ends: %llu edges",
         (unsigned long long)begins, (unsigned long long)ends, (unsigned long long)*edges);
}

// -------------------------------------------------------------------- seeds ---

static void world_open(struct world *w, uint64_t seed, uint32_t nodes, bool is_calm) {
  static const struct control_net_calls calls = {deliver, tick, cut, discard};
  w->random.state = seed;
  agree_program_make(&w->program, &w->random, nodes, is_calm);
  const struct agree_program *p = &w->program;
  const struct control_net_config cfg = {.node_count = p->process_count + 1,
                                         .seed = seed,
                                         .min_delay_ns = 1,
                                         .max_delay_ns = DELAY_NS,
                                         .calls = &calls,
                                         .arg = w};
  w->net = control_net_create(&cfg);
  rondo_member_lists_init(&w->lists, p->rank_count);
  (void)rondo_member_lists_locate(&w->lists, p->process_of);
  w->nodes = reserve(p->process_count + 1, sizeof *w->nodes);
  for (uint32_t r = 0; r < p->rank_count; r++)
    w->nodes[p->process_of[r]].rank_count++;
  for (uint32_t i = 0; i < p->process_count; i++) {
    struct node *n = &w->nodes[i];
    rondo_agreement_init(&n->core, &w->lists);
    n->ranks = reserve(n->rank_count, sizeof *n->ranks);
    n->rank_left = reserve(n->rank_count, 1);
    n->rank_count = 0;
    n->waiting_end = &n->waiting;
    node_wake(w, i);
  }
  for (uint32_t r = 0; r < p->rank_count; r++) {
    struct node *n = &w->nodes[p->process_of[r]];
    n->ranks[n->rank_count++] = r;
  }
  for (uint32_t k = 0; k < p->coll_count; k++)
    w->tasks[k] = reserve(p->rank_count, sizeof *w->tasks[k]);
}

static void world_close(struct world *w) {
  control_net_destroy(w->net);
  for (uint32_t i = 0; i < w->program.process_count; i++) {
    struct node *n = &w->nodes[i];
    while (n->waiting) {
      struct letter *l = n->waiting;
      n->waiting = l->next;
      free(l);
    }
    rondo_agreement_fini(&n->core);
    rondo_agreement_actions_free(&n->actions);
    free(n->ranks);
    free(n->rank_left);
    free(n->lost);
  }
  for (uint32_t k = 0; k < w->program.coll_count; k++)
    free(w->tasks[k]);
  free(w->nodes);
  rondo_member_lists_fini(&w->lists);
  agree_program_free(&w->program);
}

struct options {
  uint64_t first, count;
  uint32_t nodes;
  const char *fault;
  bool is_traced;
};

static uint64_t all_messages, all_edges; // of calm programs

// Runs a seed. Returns false if a check failed.
static bool seed_run(const struct options *o, uint64_t seed, char *finding, size_t bytes) {
  static struct world w;
  bool is_calm = seed % 4 == 0;
  struct random random = {seed ^ UINT64_C(0x5eed)};
  uint32_t nodes =
      o->nodes ? o->nodes : 3 + random_below(&random, random_chance(&random, 20) ? 60 : 10);
  w = (struct world){.is_traced = o->is_traced};
  world_open(&w, seed, nodes, is_calm);
  (void)control_net_run(w.net, UINT64_MAX);
  uint64_t messages = 0;
  uint64_t edges = 0;
  if (!w.finding[0])
    check_ends(&w);
  if (is_calm)
    check_messages(&w, &messages, &edges);
  all_messages += messages;
  all_edges += edges;
  (void)snprintf(finding, bytes, "%s", w.finding);
  world_close(&w);
  return !finding[0];
}

static int seeds_run(const struct options *o) {
  char finding[1024];
  for (uint64_t seed = o->first; seed < o->first + o->count; seed++) {
    if (seed_run(o, seed, finding, sizeof finding))
      continue;
    printf("seed %llu: %s\nreplay: test_agree --first %llu --seeds 1 --trace%s\n",
           (unsigned long long)seed, finding, (unsigned long long)seed, o->nodes ? " --nodes" : "");
    return 1;
  }
  printf("%llu seeds; calm programs: %.2f messages for each process but one that registers\n",
         (unsigned long long)o->count, (double)all_messages / (double)(all_edges ? all_edges : 1));
  return 0;
}

static int fault_run(const struct options *o) {
  char finding[1024];
  for (uint32_t i = 0; i < sizeof faults / sizeof *faults; i++)
    if (strcmp(faults[i], o->fault) == 0)
      rondo_fault_planted = RONDO_FAULT_AGREED_EARLY + (int)i;
  if (strcmp(o->fault, "failure_untold") == 0)
    rondo_fault_planted = RONDO_FAULT_FAILURE_UNTOLD;
  if (!rondo_fault_planted) {
    fprintf(stderr, "no such fault: %s\n", o->fault);
    return 2;
  }
  for (uint64_t seed = o->first; seed < o->first + o->count; seed++) {
    if (seed_run(o, seed, finding, sizeof finding))
      continue;
    printf("%s: caught by seed %llu: %s\n", o->fault, (unsigned long long)seed, finding);
    return 0;
  }
  printf("%s: NOT caught by %llu seeds\n", o->fault, (unsigned long long)o->count);
  return 1;
}

static const struct argp_option arguments[] = {
    {"seeds", 'n', "COUNT", 0, "run COUNT seeds", 0},
    {"first", 'f', "SEED", 0, "begin with this one", 0},
    {"nodes", 'p', "COUNT", 0, "this many processes; else 3 to 62", 0},
    {"fault", 'x', "NAME", 0, "plant a fault; succeed if it is caught", 0},
    {"trace", 't', NULL, 0, "print who does what", 0},
    {0}};

static error_t parse(int key, char *text, struct argp_state *state) {
  struct options *o = state->input;
  switch (key) {
  case 'n':
    o->count = strtoull(text, NULL, 10);
    return 0;
  case 'f':
    o->first = strtoull(text, NULL, 10);
    return 0;
  case 'p':
    o->nodes = (uint32_t)strtoul(text, NULL, 10);
    return 0;
  case 'x':
    o->fault = text;
    return 0;
  case 't':
    o->is_traced = true;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

int main(int argc, char **argv) {
  static const struct argp argp = {
      arguments, parse, NULL, "Explores the agreement on registrations, each program by its seed.",
      NULL,      NULL,  NULL};
  struct options o = {.count = 1000};
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  return o.fault ? fault_run(&o) : seeds_run(&o);
}
