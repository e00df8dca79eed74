#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/net/address.h"
#include "runtime/net/launcher.h"
#include "runtime/net/resolve.h"

#define PAUSE_NS UINT64_C(5000000)

struct rondo_resolve {
  struct event poll; // the control thread's
  rondo_resolve_done done;
  void *arg;
  int family;
  char host[RONDO_LAUNCHER_HOST_BYTES];
  pthread_mutex_t lock; // guards all below
  int is_found, is_forgotten;
  uint32_t count;
  struct rondo_wire_address addresses[RONDO_TOPOLOGY_ADDRESSES];
  char error[128];
};

uint32_t rondo_resolve_now(const char *host, int family, struct rondo_wire_address *out) {
  return rondo_address_parse(host, out) && (!family || family == out->family);
}

static void resolve_free(struct rondo_resolve *r) {
  pthread_mutex_destroy(&r->lock);
  free(r);
}

// Keeps the addresses of a family if it is configured. Knows "localhost" without a name server: a
// container may have no /etc/hosts.
static void resolve_add(struct rondo_resolve *r, const struct addrinfo *list, int family) {
  const char *loopback = family == 4 ? "127.0.0.1" : "::1";
  if (r->family && r->family != family)
    return;
  if (!list && strcmp(r->host, "localhost") == 0)
    r->count += rondo_resolve_now(loopback, family, &r->addresses[r->count]);
  for (; list && r->count < RONDO_TOPOLOGY_ADDRESSES; list = list->ai_next)
    if (rondo_address_from_socket(list->ai_addr, &r->addresses[r->count]) &&
        r->addresses[r->count].family == family)
      r->count++;
}

static void *resolve_main(void *arg) {
  struct rondo_resolve *r = arg;
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
  struct addrinfo *list = NULL;
  int error = getaddrinfo(r->host, NULL, &hints, &list);
  pthread_mutex_lock(&r->lock);
  resolve_add(r, list, 4);
  resolve_add(r, list, 6);
  if (!r->count)
    (void)snprintf(r->error, sizeof r->error, "%s",
                   error ? gai_strerror(error) : "it has no address of the configured family");
  r->is_found = 1;
  int is_forgotten = r->is_forgotten;
  pthread_mutex_unlock(&r->lock);
  if (list)
    freeaddrinfo(list);
  if (is_forgotten)
    resolve_free(r);
  return NULL;
}

static void resolve_on_poll(evutil_socket_t fd, short what, void *arg) {
  struct rondo_resolve *r = arg;
  (void)fd, (void)what;
  pthread_mutex_lock(&r->lock);
  int is_found = r->is_found;
  pthread_mutex_unlock(&r->lock);
  if (is_found)
    r->done(r->arg, r->addresses, r->count, r->error);
  else
    rondo_event_loop_timer_set(&r->poll, PAUSE_NS);
}

struct rondo_resolve *rondo_resolve_begin(struct rondo_event_loop *loop, const char *host,
                                          int family, rondo_resolve_done done, void *arg) {
  struct rondo_resolve *r = calloc(1, sizeof *r);
  pthread_attr_t attr;
  pthread_t thread;
  if (!r)
    return NULL;
  r->done = done;
  r->arg = arg;
  r->family = family;
  (void)snprintf(r->host, sizeof r->host, "%s", host);
  pthread_mutex_init(&r->lock, NULL);
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  int failed = pthread_create(&thread, &attr, resolve_main, r);
  pthread_attr_destroy(&attr);
  if (failed) {
    resolve_free(r);
    return NULL;
  }
  evtimer_assign(&r->poll, rondo_event_loop_base(loop), resolve_on_poll, r);
  rondo_event_loop_timer_set(&r->poll, PAUSE_NS);
  return r;
}

void rondo_resolve_forget(struct rondo_resolve *r) {
  evtimer_del(&r->poll);
  pthread_mutex_lock(&r->lock);
  r->is_forgotten = 1;
  int is_found = r->is_found;
  pthread_mutex_unlock(&r->lock);
  if (is_found)
    resolve_free(r);
}
