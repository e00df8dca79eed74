#include "runtime/net/pmix.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pmix.h>

#include "base/log.h"

#define KEY "rondo.root"
#define POLL_NS UINT64_C(5000000)
#define GET_SECONDS 1      // of one look-up; a forgotten thread ends as soon as it is over
#define RETRY_NS 20000000L // after a look-up that failed at once: rank 0 has published others

// The calls of the library. Their names are PMIx's.
static struct {
  void *handle;
  pmix_status_t (*init)(pmix_proc_t *proc, pmix_info_t *info, size_t count);
  pmix_status_t (*finalize)(const pmix_info_t *info, size_t count);
  pmix_status_t (*put)(pmix_scope_t scope, const char *key, pmix_value_t *value);
  pmix_status_t (*commit)(void);
  pmix_status_t (*get)(const pmix_proc_t *proc, const char *key, const pmix_info_t *info,
                       size_t count, pmix_value_t **value);
} library;

struct rondo_pmix {
  struct event poll; // the control thread's
  rondo_pmix_done done;
  void *arg;
  int publishes;
  pthread_mutex_t lock; // guards all below
  int is_done, is_forgotten, is_open;
  struct rondo_unique_id id;
  char error[128];
};

// ------------------------------------------------------------- the library ---

static void library_load(void) {
  static const struct {
    const char *name;
    void **to;
  } calls[] = {{"PMIx_Init", (void **)&library.init},
               {"PMIx_Finalize", (void **)&library.finalize},
               {"PMIx_Put", (void **)&library.put},
               {"PMIx_Commit", (void **)&library.commit},
               {"PMIx_Get", (void **)&library.get}};
  void *handle = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
  bool is_whole = handle != NULL;
  for (size_t i = 0; i < sizeof calls / sizeof *calls && is_whole; i++) {
    *calls[i].to = dlsym(handle, calls[i].name);
    is_whole = *calls[i].to != NULL;
  }
  if (is_whole)
    library.handle = handle;
  else
    rondo_log(RONDO_LOG_INFO, "launcher: it offers PMIx, which cannot be used: %s",
              handle ? "its library lacks a call" : dlerror());
}

bool rondo_pmix_is_offered(char *(*get)(const char *name)) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (!get("PMIX_NAMESPACE") || !get("PMIX_RANK"))
    return false;
  pthread_once(&once, library_load);
  return library.handle != NULL;
}

// --------------------------------------------------------------- the thread ---

static bool store_is_forgotten(struct rondo_pmix *p) {
  pthread_mutex_lock(&p->lock);
  bool is_forgotten = p->is_forgotten;
  pthread_mutex_unlock(&p->lock);
  return is_forgotten;
}

static pmix_status_t id_publish(const struct rondo_unique_id *id) {
  struct rondo_unique_id copy = *id;
  pmix_value_t value;
  memset(&value, 0, sizeof value);
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo.bytes = (char *)copy.bytes;
  value.data.bo.size = sizeof copy.bytes;
  pmix_status_t status = library.put(PMIX_GLOBAL, KEY, &value);
  return status == PMIX_SUCCESS ? library.commit() : status;
}

// Looks once for what rank 0 has published.
static pmix_status_t id_find(const pmix_proc_t *self, struct rondo_unique_id *id) {
  pmix_proc_t first = *self;
  pmix_info_t timeout;
  pmix_value_t *value = NULL;
  first.rank = 0;
  memset(&timeout, 0, sizeof timeout);
  (void)snprintf(timeout.key, sizeof timeout.key, "%s", PMIX_TIMEOUT);
  timeout.value.type = PMIX_INT;
  timeout.value.data.integer = GET_SECONDS;
  pmix_status_t status = library.get(&first, KEY, &timeout, 1, &value);
  if (status != PMIX_SUCCESS || !value)
    return status == PMIX_SUCCESS ? PMIX_ERR_NOT_FOUND : status;
  status = PMIX_ERR_NOT_FOUND;
  if (value->type == PMIX_BYTE_OBJECT && value->data.bo.size == sizeof id->bytes) {
    memcpy(id->bytes, value->data.bo.bytes, sizeof id->bytes);
    status = PMIX_SUCCESS;
  }
  if (value->type == PMIX_BYTE_OBJECT)
    free(value->data.bo.bytes);
  free(value);
  return status;
}

static pmix_status_t id_await(struct rondo_pmix *p, const pmix_proc_t *self,
                              struct rondo_unique_id *id) {
  const struct timespec pause = {0, RETRY_NS};
  pmix_status_t status = id_find(self, id);
  while (status != PMIX_SUCCESS && !store_is_forgotten(p)) {
    (void)nanosleep(&pause, NULL);
    status = id_find(self, id);
  }
  return status;
}

static void store_leave(struct rondo_pmix *p) {
  if (p->is_open)
    (void)library.finalize(NULL, 0);
  pthread_mutex_destroy(&p->lock);
  free(p);
}

static void *store_main(void *arg) {
  struct rondo_pmix *p = arg;
  struct rondo_unique_id id = p->id;
  pmix_proc_t self;
  pmix_status_t status = library.init(&self, NULL, 0);
  bool is_open = status == PMIX_SUCCESS;
  if (is_open)
    status = p->publishes ? id_publish(&id) : id_await(p, &self, &id);
  pthread_mutex_lock(&p->lock);
  p->is_open = is_open;
  p->id = id;
  if (status != PMIX_SUCCESS)
    (void)snprintf(p->error, sizeof p->error, "PMIx's %s has failed with status %d",
                   is_open ? "store" : "start", (int)status);
  p->is_done = 1;
  int is_forgotten = p->is_forgotten;
  pthread_mutex_unlock(&p->lock);
  if (is_forgotten)
    store_leave(p);
  return NULL;
}

// ------------------------------------------------------- the control thread ---

static void store_on_poll(evutil_socket_t fd, short what, void *arg) {
  struct rondo_pmix *p = arg;
  (void)fd, (void)what;
  pthread_mutex_lock(&p->lock);
  int is_done = p->is_done;
  pthread_mutex_unlock(&p->lock);
  if (is_done)
    p->done(p->arg, &p->id, p->error[0] ? p->error : NULL);
  else
    rondo_event_loop_timer_set(&p->poll, POLL_NS);
}

struct rondo_pmix *rondo_pmix_begin(struct rondo_event_loop *loop, const struct rondo_unique_id *id,
                                    rondo_pmix_done done, void *arg) {
  struct rondo_pmix *p = calloc(1, sizeof *p);
  pthread_attr_t attr;
  pthread_t thread;
  if (!p)
    return NULL;
  p->done = done;
  p->arg = arg;
  p->publishes = id != NULL;
  if (id)
    p->id = *id;
  pthread_mutex_init(&p->lock, NULL);
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  int failed = pthread_create(&thread, &attr, store_main, p);
  pthread_attr_destroy(&attr);
  if (failed) {
    store_leave(p);
    return NULL;
  }
  evtimer_assign(&p->poll, rondo_event_loop_base(loop), store_on_poll, p);
  rondo_event_loop_timer_set(&p->poll, POLL_NS);
  return p;
}

void rondo_pmix_forget(struct rondo_pmix *p) {
  evtimer_del(&p->poll);
  pthread_mutex_lock(&p->lock);
  p->is_forgotten = 1;
  int is_done = p->is_done;
  pthread_mutex_unlock(&p->lock);
  if (is_done)
    store_leave(p);
}
