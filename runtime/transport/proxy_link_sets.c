// The circles of a proxy's links: which of them its turns look at.
#include <stddef.h>

#include "base/explore.h"
#include "base/fence.h"
#include "runtime/transport/proxy_state.h"

#if defined(RONDO_EXPLORE)
#define DOZE_TURNS 2u // what is rare comes often
#else
#define DOZE_TURNS                                                                                 \
  256u // without effect: runs that come one after the other find their link_set awake
#endif

// --------------------------------------------------------------------- lists ---

static void put(struct rondo_link_set **list, struct rondo_link_set *c) {
  c->before = NULL;
  c->next = *list;
  if (c->next)
    c->next->before = c;
  *list = c;
}

static void take(struct rondo_link_set **list, struct rondo_link_set *c) {
  if (c->before)
    c->before->next = c->next;
  else
    *list = c->next;
  if (c->next)
    c->next->before = c->before;
}

static struct rondo_link_set **list_of(struct rondo_proxy *p, const struct rondo_link_set *c) {
  return c->is_awake ? &p->awake : &p->asleep;
}

void rondo_link_set_touch(struct rondo_proxy *p, struct rondo_link_set *c) {
  c->quiet = 0;
  if (c->is_awake || !c->links)
    return;
  take(&p->asleep, c);
  c->is_awake = 1;
  put(&p->awake, c);
  rondo_store_relaxed_u32(&c->is_asleep, 0);
}

void rondo_link_set_add(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  struct rondo_link_set *c = link->config.link_set;
  int is_first = !c->links;
  link->next = c->links;
  c->links = link;
  if (is_first) {
    c->is_awake = 0;
    put(&p->asleep, c);
  }
  rondo_link_set_touch(p, c);
}

void rondo_link_set_remove(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  struct rondo_link_set *c = link->config.link_set;
  struct rondo_proxy_link **at = &c->links;
  while (*at != link)
    at = &(*at)->next;
  *at = link->next;
  if (!c->links)
    take(list_of(p, c), c);
}

void rondo_proxy_link_sets_wake_all(struct rondo_proxy *p) {
  while (p->asleep)
    rondo_link_set_touch(p, p->asleep);
}

// -------------------------------------------------------------------- dozing ---

// 1 if nothing of it is to be done but what its blocks or messages bring.
static int is_at_rest(const struct rondo_proxy *p, const struct rondo_link_set *c) {
  for (const struct rondo_proxy_link *link = c->links; link; link = link->next)
    if (!rondo_proxy_link_is_at_rest(p, link))
      return 0;
  return 1;
}

// Who submits a run counts it, and then looks whether the link_set is asleep; here it is the other way round, so one
// sees the other. What ended runs have published is seen after that.
static void doze(struct rondo_proxy *p, struct rondo_link_set *c) {
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

void rondo_proxy_link_sets_sleep(struct rondo_proxy *p) {
  struct rondo_link_set *next = NULL;
  for (struct rondo_link_set *c = p->awake; c; c = next) {
    next = c->next;
    if (++c->quiet > DOZE_TURNS)
      doze(p, c);
  }
}

// -------------------------------------------------------------------- rousing ---

void rondo_proxy_wake(struct rondo_proxy *p, struct rondo_link_set *c) {
  if (RONDO_FAULT(LINK_SET_ASLEEP))
    return;
  pthread_mutex_lock(&p->lock);
  if (!c->is_woken) {
    c->is_woken = 1;
    c->next_woken = p->woken;
    p->woken = c;
  }
  rondo_store_release_u32(&p->has_woken, 1);
  pthread_mutex_unlock(&p->lock);
  rondo_proxy_ring(p); // its blocks may have rung already, when nobody looked at its links
}

void rondo_proxy_link_sets_wake_requested(struct rondo_proxy *p) {
  if (!rondo_load_relaxed_u32(&p->has_woken))
    return;
  pthread_mutex_lock(&p->lock);
  rondo_store_relaxed_u32(&p->has_woken, 0);
  while (p->woken) {
    struct rondo_link_set *c = p->woken;
    p->woken = c->next_woken;
    c->is_woken = 0;
    rondo_link_set_touch(p, c);
  }
  pthread_mutex_unlock(&p->lock);
}

void rondo_proxy_forget(struct rondo_proxy *p, struct rondo_link_set *c) {
  pthread_mutex_lock(&p->lock);
  struct rondo_link_set **at = &p->woken;
  while (*at && *at != c)
    at = &(*at)->next_woken;
  if (*at)
    *at = c->next_woken;
  c->is_woken = 0;
  pthread_mutex_unlock(&p->lock);
}
