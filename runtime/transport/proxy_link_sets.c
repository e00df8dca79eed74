// Link sets: which links a round of the proxy looks at.
#include <stdbool.h>
#include <stddef.h>

#include "base/explore.h"
#include "base/fence.h"
#include "runtime/transport/proxy_state.h"

#if defined(RONDO_EXPLORE)
#define QUIET_ROUNDS 2u // rare in the product, frequent in the explorer
#else
#define QUIET_ROUNDS                                                                               \
  256u // quiet rounds before a set sleeps, so that runs in sequence find it awake
#endif

// --------------------------------------------------------------------- lists ---

static void link_set_push(struct rondo_link_set **list, struct rondo_link_set *set) {
  set->before = NULL;
  set->next = *list;
  if (set->next)
    set->next->before = set;
  *list = set;
}

static void link_set_unlink(struct rondo_link_set **list, struct rondo_link_set *set) {
  if (set->before)
    set->before->next = set->next;
  else
    *list = set->next;
  if (set->next)
    set->next->before = set->before;
}

static struct rondo_link_set **link_set_list(struct rondo_proxy *p,
                                             const struct rondo_link_set *set) {
  return set->is_awake ? &p->awake : &p->asleep;
}

void rondo_link_set_touch(struct rondo_proxy *p, struct rondo_link_set *set) {
  set->quiet = 0;
  if (set->is_awake || !set->links)
    return;
  link_set_unlink(&p->asleep, set);
  set->is_awake = 1;
  link_set_push(&p->awake, set);
  rondo_store_relaxed_u32(&set->is_asleep, 0);
}

void rondo_link_set_add(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  struct rondo_link_set *set = link->config.link_set;
  int is_first = !set->links;
  link->next = set->links;
  set->links = link;
  if (is_first) {
    set->is_awake = 0;
    link_set_push(&p->asleep, set);
  }
  rondo_link_set_touch(p, set);
}

void rondo_link_set_remove(struct rondo_proxy *p, struct rondo_proxy_link *link) {
  struct rondo_link_set *set = link->config.link_set;
  struct rondo_proxy_link **at = &set->links;
  while (*at != link)
    at = &(*at)->next;
  *at = link->next;
  if (!set->links)
    link_set_unlink(link_set_list(p, set), set);
}

void rondo_proxy_link_sets_wake_all(struct rondo_proxy *p) {
  while (p->asleep)
    rondo_link_set_touch(p, p->asleep);
}

// ------------------------------------------------------------------ sleeping ---

static bool link_set_is_at_rest(const struct rondo_proxy *p, const struct rondo_link_set *set) {
  for (const struct rondo_proxy_link *link = set->links; link; link = link->next)
    if (!rondo_proxy_link_is_at_rest(p, link))
      return false;
  return true;
}

// A submission counts its run, and then looks whether the set sleeps. Here the order is the
// reverse, so one of the two threads sees the other. The last look sees what ended runs have
// published.
static void link_set_sleep(struct rondo_proxy *p, struct rondo_link_set *set) {
  set->quiet = 0;
  if (!p->config.is_used || !link_set_is_at_rest(p, set))
    return;
  rondo_store_seq_cst_u32(&set->is_asleep, 1); // P4
  rondo_fence_heavy();                         // P4
  if (p->config.is_used(p->config.owner, set->links) || !link_set_is_at_rest(p, set)) {
    rondo_store_relaxed_u32(&set->is_asleep, 0);
    return;
  }
  link_set_unlink(&p->awake, set);
  set->is_awake = 0;
  link_set_push(&p->asleep, set);
}

void rondo_proxy_link_sets_sleep(struct rondo_proxy *p) {
  struct rondo_link_set *next = NULL;
  for (struct rondo_link_set *set = p->awake; set; set = next) {
    next = set->next;
    if (++set->quiet > QUIET_ROUNDS)
      link_set_sleep(p, set);
  }
}

// -------------------------------------------------------------------- waking ---

void rondo_proxy_wake(struct rondo_proxy *p, struct rondo_link_set *set) {
  if (RONDO_FAULT(LINK_SET_ASLEEP))
    return;
  pthread_mutex_lock(&p->lock);
  if (!set->is_woken) {
    set->is_woken = 1;
    set->next_woken = p->woken;
    p->woken = set;
  }
  rondo_store_release_u32(&p->has_woken, 1);
  pthread_mutex_unlock(&p->lock);
  rondo_proxy_ring(p); // its blocks may have rung while the set was skipped
}

void rondo_proxy_link_sets_wake_requested(struct rondo_proxy *p) {
  if (!rondo_load_relaxed_u32(&p->has_woken))
    return;
  pthread_mutex_lock(&p->lock);
  rondo_store_relaxed_u32(&p->has_woken, 0);
  while (p->woken) {
    struct rondo_link_set *set = p->woken;
    p->woken = set->next_woken;
    set->is_woken = 0;
    rondo_link_set_touch(p, set);
  }
  pthread_mutex_unlock(&p->lock);
}

void rondo_proxy_forget(struct rondo_proxy *p, struct rondo_link_set *set) {
  pthread_mutex_lock(&p->lock);
  struct rondo_link_set **at = &p->woken;
  while (*at && *at != set)
    at = &(*at)->next_woken;
  if (*at)
    *at = set->next_woken;
  set->is_woken = 0;
  pthread_mutex_unlock(&p->lock);
}
