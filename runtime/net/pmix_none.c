// PMIx in a build without its headers: no launcher offers it.
#include "runtime/net/pmix.h"

bool rondo_pmix_is_offered(char *(*get)(const char *name)) {
  (void)get;
  return false;
}

struct rondo_pmix *rondo_pmix_begin(struct rondo_event_loop *loop, const struct rondo_unique_id *id,
                                    rondo_pmix_done done, void *arg) {
  (void)loop, (void)id, (void)done, (void)arg;
  return NULL;
}

void rondo_pmix_forget(struct rondo_pmix *pmix) { (void)pmix; }
