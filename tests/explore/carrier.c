#include "tests/explore/carrier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/transport/proxy.h"
#include "tests/explore/random.h"
#include "tests/support/null_carrier.h"

#define DELAY_PERCENT 40u
#define NETS 64u // one after another
#define PROCESSES 8u

enum stage { POSTED, LANDING, DONE };

// A message under way. An early one has been copied: its sender may have it back at once.
struct package {
  struct package *next;
  uint32_t net, from, to;
  enum stage stage;
  int is_early, is_returned; // `sent` has been told
  int is_broken;
  int status; // for the sender
  const void *head, *payload;
  size_t head_bytes;
  uint64_t bytes;
  void *ticket;         // the sender's
  void *target, *there; // the receiver's: where the payload goes, and its ticket
  uint8_t copy[];
};

struct rondo_carrier {
  uint32_t net, process;
  int is_open;
  const struct rondo_carrier_events *events;
  void *arg;
};

static struct rondo_carrier carriers[NETS][PROCESSES];
static struct package *packages;
static int is_cut[NETS][PROCESSES][PROCESSES];
static struct random *chance;
static struct explore_carrier_calls user;
static uint32_t visitors; // threads that look at the packages: none is freed meanwhile

static int carrier_open(const struct rondo_carrier_config *config, struct rondo_carrier **out,
                        char *why, size_t why_bytes) {
  uint32_t net = user.net_of ? user.net_of(config->arg) : 0;
  struct rondo_carrier *c = &carriers[net][config->process];
  (void)why, (void)why_bytes;
  if (net >= NETS || config->process >= PROCESSES)
    return RONDO_ERR_FULL;
  *c = (struct rondo_carrier){net, config->process, 1, config->events, config->arg};
  *out = c;
  return RONDO_SUCCESS;
}

static const void *carrier_address(struct rondo_carrier *c, size_t *bytes) {
  *bytes = sizeof c->process;
  return &c->process;
}

static int carrier_connect(struct rondo_carrier *c, uint32_t process, const void *address,
                           size_t bytes, uint32_t endpoints) {
  uint32_t said = 0;
  (void)c, (void)endpoints;
  if (bytes != sizeof said)
    return RONDO_ERR_INVALID;
  memcpy(&said, address, bytes);
  return said == process ? RONDO_SUCCESS : RONDO_ERR_INVALID;
}

static int carrier_send(struct rondo_carrier *c, const struct rondo_carrier_message *m) {
  int is_early = random_chance(chance, 50);
  struct package *p = calloc(1, sizeof *p + m->head_bytes + m->bytes);
  if (!p)
    abort();
  p->net = c->net;
  p->from = c->process;
  p->to = m->to;
  p->is_early = is_early;
  p->is_broken = is_cut[c->net][p->from][p->to] || !carriers[c->net][p->to].is_open;
  p->head = m->head;
  p->payload = m->payload;
  p->head_bytes = m->head_bytes;
  p->bytes = m->bytes;
  p->ticket = m->ticket;
  if (is_early) {
    memcpy(p->copy, m->head, m->head_bytes);
    if (m->bytes)
      memcpy(p->copy + m->head_bytes, m->payload, m->bytes);
    p->head = p->copy;
    p->payload = p->copy + m->head_bytes;
  }
  p->next = packages;
  packages = p;
  if (is_early && random_chance(chance, 50)) {
    p->is_returned = 1;
    c->events->sent(c->arg, p->ticket, RONDO_SUCCESS);
  }
  return RONDO_SUCCESS;
}

static void arrive(const struct rondo_carrier *c, struct package *p) {
  p->target =
      p->is_broken ? NULL : c->events->arrive(c->arg, p->head, p->head_bytes, p->bytes, &p->there);
  p->stage = p->target ? LANDING : DONE;
  p->status = p->is_broken ? RONDO_ERR_PEER : RONDO_SUCCESS;
}

static void land(const struct rondo_carrier *c, struct package *p) {
  p->stage = DONE;
  p->status = p->is_broken ? RONDO_ERR_PEER : RONDO_SUCCESS;
  if (!p->is_broken)
    memcpy(p->target, p->payload, p->bytes);
  c->events->landed(c->arg, p->there, p->status);
}

static void give_back(const struct rondo_carrier *c, struct package *p) {
  p->is_returned = 1;
  c->events->sent(c->arg, p->ticket, p->is_early ? RONDO_SUCCESS : p->status);
}

// One step of one message that this process has to do with. Returns 1 if there was any.
static int step(const struct rondo_carrier *c, struct package *p) {
  if (p->net != c->net)
    return 0;
  if (user.waits && p->is_broken && p->from == c->process && !p->is_returned) {
    p->status = RONDO_ERR_PEER; // the receiver may be stopped
    give_back(c, p);
    return 1;
  }
  if (user.waits && !p->is_broken && user.waits(p->net, p->from, p->to))
    return 0;
  if (p->to == c->process && p->stage == POSTED)
    arrive(c, p);
  else if (p->to == c->process && p->stage == LANDING)
    land(c, p);
  else if (p->from == c->process && !p->is_returned && (p->is_early || p->stage == DONE))
    give_back(c, p);
  else
    return 0;
  return 1;
}

static void sweep(void) {
  struct package **at = &packages;
  while (*at && !visitors) {
    struct package *p = *at;
    int is_returned = p->is_returned || !carriers[p->net][p->from].is_open;
    if (p->stage == DONE && is_returned) {
      *at = p->next;
      free(p);
    } else {
      at = &p->next;
    }
  }
}

static int carrier_progress(struct rondo_carrier *c) {
  int moved = 0;
  visitors++;
  for (struct package *p = packages; p; p = p->next)
    if (!random_chance(chance, DELAY_PERCENT))
      moved |= step(c, p);
  visitors--;
  sweep();
  return moved;
}

static void break_between(uint32_t net, uint32_t a, uint32_t b) {
  for (struct package *p = packages; p; p = p->next)
    if (p->net == net && ((p->from == a && p->to == b) || (p->from == b && p->to == a)))
      p->is_broken = 1;
}

// A receiver that is gone takes nothing; what a sender that is gone still had is lost.
static void settle(uint32_t net, uint32_t process) {
  for (struct package *p = packages; p; p = p->next) {
    if (p->net != net)
      continue;
    if (p->to == process && p->stage != DONE) {
      p->stage = DONE;
      p->status = RONDO_ERR_PEER;
    }
    if (p->from == process && !p->is_early)
      p->is_broken = 1;
  }
  sweep();
}

static void carrier_disconnect(struct rondo_carrier *c, uint32_t process) {
  is_cut[c->net][c->process][process] = 1;
  break_between(c->net, c->process, process);
}

static void carrier_close(struct rondo_carrier *c) {
  c->is_open = 0;
  settle(c->net, c->process);
}

const struct rondo_carrier_calls explore_carrier = {.name = "explorer",
                                                    .open = carrier_open,
                                                    .address = carrier_address,
                                                    .connect = carrier_connect,
                                                    .send = carrier_send,
                                                    .progress = carrier_progress,
                                                    .arm = rondo_null_arm,
                                                    .sleep = rondo_null_sleep,
                                                    .wake = rondo_null_wake,
                                                    .disconnect = carrier_disconnect,
                                                    .close = carrier_close};

void explore_carrier_crash(uint32_t net, uint32_t process) {
  carriers[net][process].is_open = 0;
  settle(net, process);
}

void explore_carrier_reset(struct random *random, const struct explore_carrier_calls *calls) {
  chance = random;
  user = calls ? *calls : (struct explore_carrier_calls){0};
  while (packages) {
    struct package *p = packages;
    packages = p->next;
    free(p);
  }
  memset(carriers, 0, sizeof carriers);
  memset(is_cut, 0, sizeof is_cut);
}

int explore_carrier_progress(uint32_t process) {
  return carriers[0][process].is_open && rondo_proxy_progress(carriers[0][process].arg);
}

void explore_carrier_cut(uint32_t a, uint32_t b) {
  is_cut[0][a][b] = is_cut[0][b][a] = 1;
  for (struct package *p = packages; p; p = p->next)
    if (((p->from == a && p->to == b) || (p->from == b && p->to == a)) && random_chance(chance, 50))
      p->is_broken = 1;
}
