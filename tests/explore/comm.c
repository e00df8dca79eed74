#include "tests/explore/comm.h"

#include <stdlib.h>
#include <string.h>

#include <rondo/comm.h>

#include "tests/explore/machine.h"

#define COMMS 2u
#define CALLS 30u
#define MOST 24u // elements a rank sends, or receives from each
#define SALTS 5u

enum oddness { EXCHANGED = 0, LEFT_OUT = 1, DOUBLED = 2 };

// A call that all members make, or the two of a pair.
struct script_call {
  int kind;
  uint32_t count, root, peer, salt;
};

// One rank's call.
struct made_call {
  struct script_call what;
  uint32_t index;     // in the script
  uint32_t is_common; // every other one is made alike up to here
  uint32_t ended;
  struct rondo_ticket ticket;
  int32_t send[EXPLORE_RANKS * MOST], recv[EXPLORE_RANKS * MOST];
};

struct end {
  struct rondo_comm comm;
  uint32_t count, made, ended;
  struct made_call calls[CALLS + 1];
};

// There is one machine at a time.
static struct {
  uint32_t nranks;
  int has_odd;
  struct script_call script[COMMS][CALLS];
  struct end ends[COMMS][EXPLORE_RANKS];
} job;

// ------------------------------------------------------------------ drawing ---

// Parts of an all-to-all-v: none, and more than one slot holds. Two salts differ for every pair.
static uint32_t pair_count(const struct script_call *c, uint32_t from, uint32_t to) {
  static const uint32_t counts[SALTS] = {0, 1, 3, 7, MOST};
  return counts[(from * 3 + to * 2 + c->salt) % SALTS];
}

static int takes_part(const struct script_call *c, uint32_t rank) {
  return c->kind != RONDO_SEND_RECV || c->root == rank || c->peer == rank;
}

static int is_alike(const struct script_call *a, const struct script_call *b) {
  return a->kind == b->kind && a->count == b->count && a->root == b->root && a->peer == b->peer &&
         (a->kind != RONDO_ALL_TO_ALL_V || a->salt == b->salt);
}

// Few signatures, so that they come again.
static struct script_call draw_call(struct random *r) {
  static const int kinds[] = {RONDO_ALL_REDUCE, RONDO_ALL_GATHER, RONDO_BROADCAST,
                              RONDO_SEND_RECV,  RONDO_SEND_RECV,  RONDO_ALL_TO_ALL_V,
                              RONDO_BARRIER};
  static const uint32_t counts[] = {1, 2, MOST};
  struct script_call c = {.kind = kinds[random_below(r, 7)], .salt = random_below(r, SALTS)};
  int is_plain = c.kind != RONDO_BARRIER && c.kind != RONDO_ALL_TO_ALL_V;
  c.count = is_plain ? counts[random_below(r, 3)] : 0;
  if (c.kind == RONDO_SEND_RECV || c.kind == RONDO_BROADCAST)
    c.root = random_below(r, job.nranks);
  if (c.kind == RONDO_SEND_RECV)
    c.peer = (c.root + 1 + random_below(r, job.nranks - 1)) % job.nranks;
  return c;
}

static void add_call(struct end *e, const struct script_call *c, uint32_t index) {
  struct made_call *made = &e->calls[e->count++];
  memset(made, 0, sizeof *made);
  made->what = *c;
  made->index = index;
  made->is_common = 1;
}

static void draw_script(struct random *r, uint32_t comm) {
  for (uint32_t i = 0; i < CALLS; i++)
    job.script[comm][i] = draw_call(r);
  for (uint32_t rank = 0; rank < job.nranks; rank++) {
    struct end *e = &job.ends[comm][rank];
    memset(e, 0, sizeof *e);
    for (uint32_t i = 0; i < CALLS; i++)
      if (takes_part(&job.script[comm][i], rank))
        add_call(e, &job.script[comm][i], i);
  }
}

static int is_same_series(const struct script_call *a, const struct script_call *b) {
  if (a->kind != RONDO_SEND_RECV || b->kind != RONDO_SEND_RECV)
    return a->kind != RONDO_SEND_RECV && b->kind != RONDO_SEND_RECV;
  return a->root == b->root && a->peer == b->peer;
}

// The n-th call of the series of `like`, or null.
static const struct script_call *in_series(const struct end *e, const struct script_call *like,
                                           uint32_t n) {
  for (uint32_t i = 0; i < e->count; i++)
    if (is_same_series(&e->calls[i].what, like) && n-- == 0)
      return &e->calls[i].what;
  return NULL;
}

// True if the two ranks' calls of the series differ. False also if one rank merely makes fewer
// calls.
static int series_differ(const struct end *a, const struct end *b, const struct script_call *like) {
  for (uint32_t n = 0;; n++) {
    const struct script_call *x = in_series(a, like, n);
    const struct script_call *y = in_series(b, like, n);
    if (!x || !y)
      return 0;
    if (!is_alike(x, y))
      return 1;
  }
}

static void make_odd(struct end *e, uint32_t at, int oddness) {
  struct made_call *c = &e->calls[at];
  if (oddness == LEFT_OUT) {
    memmove(c, c + 1, (e->count - at - 1) * sizeof *c);
    e->count--;
  } else if (oddness == DOUBLED) {
    memmove(c + 1, c, (e->count - at) * sizeof *c);
    e->count++;
  } else if (c->what.count) {
    c->what.count = c->what.count == 1 ? 2 : 1;
  } else if (c->what.kind == RONDO_ALL_TO_ALL_V && c->what.salt) {
    c->what.salt--; // only the ranks that it exchanges with can tell
  } else {
    c->what = (struct script_call){.kind = RONDO_ALL_GATHER, .count = 2};
  }
}

// From the odd call on, calls of the communicator may be those of others.
static void mark_uncommon(uint32_t comm, uint32_t from) {
  for (uint32_t rank = 0; rank < job.nranks; rank++)
    for (uint32_t i = 0; i < job.ends[comm][rank].count; i++)
      if (job.ends[comm][rank].calls[i].index >= from)
        job.ends[comm][rank].calls[i].is_common = 0;
}

// Makes one call of one rank odd, if the others can tell.
static void draw_oddness(struct random *r) {
  static struct end before;
  uint32_t rank = random_below(r, job.nranks);
  struct end *e = &job.ends[0][rank];
  if (!e->count || job.nranks < 2)
    return;
  uint32_t at = random_below(r, e->count);
  uint32_t index = e->calls[at].index;
  struct script_call what = e->calls[at].what;
  uint32_t other = (rank + 1) % job.nranks;
  if (what.kind == RONDO_SEND_RECV)
    other = what.root == rank ? what.peer : what.root;
  before = *e;
  make_odd(e, at, (int)random_below(r, 3));
  job.has_odd = series_differ(e, &job.ends[0][other], &what);
  if (job.has_odd)
    mark_uncommon(0, index);
  else
    *e = before;
}

void explore_comm_init(struct explore_machine *m, int odd) {
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  struct random r = {random_mix(m->program.seed + 99)};
  job.nranks = m->program.cfg.rank_count;
  job.has_odd = 0;
  cfg.cached_collectives = 1 + random_below(&r, 4);
  cfg.cached_pairs = 1 + random_below(&r, 2);
  for (uint32_t c = 0; c < COMMS; c++) {
    draw_script(&r, c);
    cfg.key = c + 5;
    for (uint32_t rank = 0; rank < job.nranks; rank++)
      if (rondo_comm_create(m->ranks[rank].ctx, &cfg, &job.ends[c][rank].comm))
        abort();
  }
  if (odd)
    draw_oddness(&r);
}

// ------------------------------------------------------------------ calling ---

static int32_t value_of(const struct made_call *c, uint32_t rank, uint32_t at) {
  return (int32_t)(c->index * 10000 + rank * 1000 + at);
}

static struct rondo_collective_desc describe(const struct script_call *c, uint32_t rank) {
  static uint64_t sends[EXPLORE_RANKS], receives[EXPLORE_RANKS];
  switch (c->kind) {
  case RONDO_ALL_REDUCE:
    return rondo_all_reduce(0, c->count, RONDO_INT32, RONDO_SUM);
  case RONDO_ALL_GATHER:
    return rondo_all_gather(0, c->count, RONDO_INT32);
  case RONDO_BROADCAST:
    return rondo_broadcast(0, c->count, RONDO_INT32, c->root);
  case RONDO_SEND_RECV:
    return rondo_send_recv(0, c->count, RONDO_INT32, c->root, c->peer);
  case RONDO_BARRIER:
    return rondo_barrier(0);
  default:
    for (uint32_t i = 0; i < job.nranks; i++) {
      sends[i] = pair_count(c, rank, i);
      receives[i] = pair_count(c, i, rank);
    }
    return rondo_all_to_all_v(0, RONDO_INT32, sends, NULL, receives, NULL);
  }
}

static void make_call(struct explore_machine *m, uint32_t comm, uint32_t rank) {
  struct end *e = &job.ends[comm][rank];
  struct made_call *c = &e->calls[e->made];
  for (uint32_t i = 0; i < EXPLORE_RANKS * MOST; i++) {
    c->send[i] = value_of(c, rank, i);
    c->recv[i] = -1;
  }
  struct rondo_collective_desc d = describe(&c->what, rank);
  struct rondo_run_args args = {c->send, c->recv, NULL, NULL};
  int status = rondo_comm_call(m->ranks[rank].ctx, e->comm, &d, &args, &c->ticket);
  explore_trace(m, "rank %u calls %u of communicator %u: %s of %u, %u to %u: %s", rank, e->made,
                comm, rondo_kind_name(c->what.kind), c->what.count, c->what.root, c->what.peer,
                rondo_status_name(status));
  if (status == RONDO_SUCCESS)
    e->made++;
  else if ((status == RONDO_ERR_MISMATCH || status == RONDO_ERR_PEER) && job.has_odd && comm == 0)
    e->count = e->made; // it has failed: no more calls
  else
    explore_fail(m, EXPLORE_WRONG, "comm_call of rank %u returned %s", rank,
                 rondo_status_name(status));
}

int explore_comm_act(struct explore_machine *m, uint32_t rank) {
  uint32_t first = random_below(&m->random, COMMS);
  for (uint32_t i = 0; i < COMMS && m->is_submitting; i++) {
    uint32_t comm = (first + i) % COMMS;
    if (job.ends[comm][rank].made == job.ends[comm][rank].count)
      continue;
    make_call(m, comm, rank);
    return 1;
  }
  return 0;
}

// ----------------------------------------------------------------- checking ---

static uint32_t sent_before(const struct script_call *c, uint32_t from, uint32_t to) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < to; i++)
    sum += pair_count(c, from, i);
  return sum;
}

// The expected value of element `at` of the receive buffer.
static int32_t expected(const struct made_call *c, uint32_t rank, uint32_t at) {
  const struct script_call *w = &c->what;
  int32_t sum = 0;
  uint32_t from = 0;
  switch (w->kind) {
  case RONDO_ALL_REDUCE:
    for (uint32_t i = 0; i < job.nranks; i++)
      sum += value_of(c, i, at);
    return sum;
  case RONDO_ALL_GATHER:
    return value_of(c, at / w->count, at % w->count);
  case RONDO_ALL_TO_ALL_V:
    while (at >= pair_count(w, from, rank))
      at -= pair_count(w, from++, rank);
    return value_of(c, from, sent_before(w, from, rank) + at);
  default:
    return value_of(c, w->root, at);
  }
}

static uint32_t received(const struct made_call *c, uint32_t rank) {
  const struct script_call *w = &c->what;
  uint32_t sum = 0;
  switch (w->kind) {
  case RONDO_ALL_GATHER:
    return w->count * job.nranks;
  case RONDO_SEND_RECV:
    return w->peer == rank ? w->count : 0;
  case RONDO_ALL_TO_ALL_V:
    for (uint32_t i = 0; i < job.nranks; i++)
      sum += pair_count(w, i, rank);
    return sum;
  default:
    return w->count;
  }
}

static void check(struct explore_machine *m, uint32_t comm, uint32_t rank,
                  const struct made_call *c, int status) {
  int may_fail = (job.has_odd && comm == 0) || !m->is_submitting;
  if (status != RONDO_SUCCESS && !may_fail) {
    explore_fail(m, EXPLORE_WRONG, "rank %u, communicator %u, call of script %u ended with %s",
                 rank, comm, c->index, rondo_status_name(status));
    return;
  }
  if (status != RONDO_SUCCESS || !c->is_common)
    return;
  for (uint32_t i = 0; i < received(c, rank); i++)
    if (c->recv[i] != expected(c, rank, i))
      explore_fail(m, EXPLORE_WRONG,
                   "rank %u, communicator %u, call of script %u: element %u is wrong", rank, comm,
                   c->index, i);
}

void explore_comm_sweep(struct explore_machine *m, uint32_t rank) {
  for (uint32_t comm = 0; comm < COMMS; comm++) {
    struct end *e = &job.ends[comm][rank];
    for (uint32_t i = 0; i < e->made; i++) {
      struct made_call *c = &e->calls[i];
      int status =
          c->ended ? RONDO_IN_PROGRESS : rondo_comm_test(m->ranks[rank].ctx, e->comm, &c->ticket);
      if (status == RONDO_IN_PROGRESS || c->ended) // by another sweep, in the middle of this one
        continue;
      c->ended = 1;
      e->ended++;
      check(m, comm, rank, c, status);
    }
  }
}

// If calls differ, every member must get the error.
static int has_seen_mismatch(const struct explore_machine *m, uint32_t rank) {
  char why[RONDO_REASON_BYTES];
  int state = RONDO_SUCCESS;
  (void)rondo_comm_status(m->ranks[rank].ctx, job.ends[0][rank].comm, &state, why, sizeof why);
  // A rank that runs a collective which the others have dropped by then may get that error first.
  return (state == RONDO_ERR_MISMATCH && strstr(why, "mismatch of") != NULL) ||
         (state == RONDO_ERR_PEER && why[0]);
}

int explore_comm_is_done(const struct explore_machine *m, uint32_t rank) {
  for (uint32_t comm = 0; comm < COMMS; comm++) {
    const struct end *e = &job.ends[comm][rank];
    if (e->made < e->count || e->ended < e->made)
      return 0;
  }
  return !job.has_odd || has_seen_mismatch(m, rank);
}
