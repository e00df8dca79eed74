// The circles of a proxy's links: which of them its turns look at.
#include <stddef.h>

#include "base/explore.h"
#include "base/fence.h"
#include "runtime/transport/proxy_state.h"

#if defined(RONDO_EXPLORE)
#define DOZE_TURNS 2u // what is rare comes often
#else
#define DOZE_TURNS                                                                                 \
  256u // without effect: runs that come one after the other find their circle awake
#endif

// --------------------------------------------------------------------- lists ---

static void put(struct rondo_proxy_circle **list, struct rondo_proxy_circle *c) {
  c->before = NULL;
  c->next = *list;
  if (c->next)
    c->next->before = c;
  *list = c;
}

static void take(struct rondo_proxy_circle **list, struct rondo_proxy_circle *c) {
  if (c->before)
    c->before->next = c->next;
  else
    *list = c->next;
  if (c->next)
    c->next->before = c->before;
}

static struct rondo_proxy_circle **list_of(struct rondo_proxy *p,
                                           const struct rondo_proxy_circle *c) {
  return c->is_awake ? &p->awake : &p->asleep;
}

void rondo_proxy_circle_touch(struct rondo_proxy *p, struct rondo_proxy_circle *c) {
  c->quiet = 0;
  if (c->is_awake || !c->links)
    return;
  take(&p->asleep, c);
  c->is_awake = 1;
  put(&p->awake, c);
  rondo_store_relaxed_u32(&c->is_asleep, 0);
}

void rondo_proxy_circle_add(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  struct rondo_proxy_circle *c = link->config.circle;
  int is_first = !c->links;
  link->next = c->links;
  c->links = link;
  if (is_first) {
    c->is_awake = 0;
    put(&p->asleep, c);
  }
  rondo_proxy_circle_touch(p, c);
}

void rondo_proxy_circle_remove(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  struct rondo_proxy_circle *c = link->config.circle;
  struct rondo_proxy_link **at = &c->links;
  while (*at != link)
    at = &(*at)->next;
  *at = link->next;
  if (!c->links)
    take(list_of(p, c), c);
}

void rondo_proxy_circles_wake_all(struct rondo_proxy *p) {
  while (p->asleep)
    rondo_proxy_circle_touch(p, p->asleep);
}

// -------------------------------------------------------------------- dozing ---

// 1 if nothing of it is to be done but what its blocks or messages bring.
static int is_at_rest(const struct rondo_proxy *p, const struct rondo_proxy_circle *c) {
  for (const struct rondo_proxy_link *link = c->links; link; link = link->next)
    if (!rondo_proxy_link_is_at_rest(p, link))
      return 0;
  return 1;
}

// Who submits a run counts it, and then looks whether the circle is asleep; here it is the other way round, so one
// sees the other. What ended runs have published is seen after that.
static void doze(struct rondo_proxy *p, struct rondo_proxy_circle *c) {
  c->quiet = 0;
  if (!p->config.is_used || !is_at_rest(p, c))
    return;
  rondo_store_seq_cst_u32(&c->is_asleep, 1); // P4
  rondo_fence_heavy();                       // P4
  if (p->config.is_used(p->config.owner, c->links) || !is_at_rest(p, c)) {
    rondo_store_relaxed_u32(&c->is_asleep, 0);
    return;
  }
  take(&p->awake, c);
  c->is_awake = 0;
  put(&p->asleep, c);
}

void rondo_proxy_circles_doze(struct rondo_proxy *p) {
  struct rondo_proxy_circle *next = NULL;
  for (struct rondo_proxy_circle *c = p->awake; c; c = next) {
    next = c->next;
    if (++c->quiet > DOZE_TURNS)
      doze(p, c);
  }
}

// -------------------------------------------------------------------- rousing ---

void rondo_proxy_rouse(struct rondo_proxy *p, struct rondo_proxy_circle *c) {
  if (RONDO_FAULT(CIRCLE_ASLEEP))
    return;
  pthread_mutex_lock(&p->lock);
  if (!c->is_roused) {
    c->is_roused = 1;
    c->next_roused = p->roused;
    p->roused = c;
  }
  rondo_store_release_u32(&p->has_roused, 1);
  pthread_mutex_unlock(&p->lock);
  rondo_proxy_ring(p); // its blocks may have rung already, when nobody looked at its links
}

void rondo_proxy_circles_rouse(struct rondo_proxy *p) {
  if (!rondo_load_relaxed_u32(&p->has_roused))
    return;
  pthread_mutex_lock(&p->lock);
  rondo_store_relaxed_u32(&p->has_roused, 0);
  while (p->roused) {
    struct rondo_proxy_circle *c = p->roused;
    p->roused = c->next_roused;
    c->is_roused = 0;
    rondo_proxy_circle_touch(p, c);
  }
  pthread_mutex_unlock(&p->lock);
}

void rondo_proxy_forget(struct rondo_proxy *p, struct rondo_proxy_circle *c) {
  pthread_mutex_lock(&p->lock);
  struct rondo_proxy_circle **at = &p->roused;
  while (*at && *at != c)
    at = &(*at)->next_roused;
  if (*at)
    *at = c->next_roused;
  c->is_roused = 0;
  pthread_mutex_unlock(&p->lock);
}
