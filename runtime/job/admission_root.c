#include "runtime/job/admission_root.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/condition.h"
#include "base/log.h"
#include "runtime/net/job_root.h"
#include "runtime/net/mesh.h"
#include <rondo/status.h>

// -------------------------------------------------------------- a member's root ---

static void *gather_create(uint64_t join_timeout_ns) {
  (void)join_timeout_ns;
  return rondo_admission_create();
}

static void gather_destroy(void *gather) { rondo_admission_destroy(gather); }

static struct rondo_shared_bytes *gather_receive(void *gather, const void *bytes, size_t size,
                                                 uint64_t now_ns, uint64_t *who) {
  (void)now_ns;
  return rondo_admission_receive(gather, bytes, size, who);
}

static void gather_lose(void *gather, uint64_t who) { rondo_admission_lose(gather, who); }

static struct rondo_shared_bytes *gather_news(void *gather, uint64_t who) {
  return rondo_admission_news(gather, who);
}

// It makes no roster: its newcomers join another job.
static bool gather_finish(void *gather, uint64_t now_ns) {
  (void)gather, (void)now_ns;
  return false;
}

static uint64_t gather_due(const void *gather) {
  (void)gather;
  return UINT64_MAX;
}

static uint32_t gather_place(const void *gather, uint64_t who) {
  (void)gather, (void)who;
  return UINT32_MAX;
}

static struct rondo_shared_bytes *gather_part(void *gather, uint32_t index) {
  (void)gather, (void)index;
  return NULL;
}

static uint32_t gather_missing(const void *gather, char *text, size_t bytes) {
  (void)gather, (void)bytes;
  *text = '\0';
  return 0;
}

static struct rondo_shared_bytes *gather_remind(const void *gather) {
  (void)gather;
  return NULL;
}

static uint32_t gather_rank_count(const void *gather) {
  (void)gather;
  return 0;
}

static const struct rondo_root_gatherer gatherer = {.create = gather_create,
                                                    .destroy = gather_destroy,
                                                    .receive = gather_receive,
                                                    .lose = gather_lose,
                                                    .finish = gather_finish,
                                                    .due = gather_due,
                                                    .place = gather_place,
                                                    .part = gather_part,
                                                    .missing = gather_missing,
                                                    .remind = gather_remind,
                                                    .rank_count = gather_rank_count,
                                                    .news = gather_news};

int rondo_admission_listen(const struct rondo_config *cfg, struct rondo_unique_id *id) {
  return rondo_root_listen(cfg, &gatherer, id);
}

void rondo_admission_close(const struct rondo_job_key *key) { rondo_root_close(key); }

// What a call of another thread asks of the admission, and what it answers.
struct request {
  uint32_t fewest, most;
  uint32_t count, waiting;
  enum rondo_admission_end end;
  const struct rondo_admitted *first;
  char *text;
  bool is_so;
};

static void request_count(void *gather, void *arg) {
  struct request *r = arg;
  r->count = rondo_admission_pending(gather);
  r->is_so = true;
}

static void request_reserve(void *gather, void *arg) {
  struct request *r = arg;
  r->count = rondo_admission_reserve(gather, r->fewest, r->most);
  r->waiting = rondo_admission_pending(gather);
  r->is_so = true;
}

static void request_refuse(void *gather, void *arg) {
  struct request *r = arg;
  rondo_admission_refuse(gather, r->text);
  r->is_so = true;
}

static void request_admit(void *gather, void *arg) {
  struct request *r = arg;
  rondo_admission_admit(gather, r->first);
  r->is_so = true;
}

static void request_settle(void *gather, void *arg) {
  struct request *r = arg;
  rondo_admission_settle(gather, r->end);
  r->is_so = true;
}

static void request_look(void *gather, void *arg) {
  struct request *r = arg;
  r->is_so = rondo_admission_has_lost(gather, r->text);
}

static bool request_make(const struct rondo_job_key *key, void (*call)(void *gather, void *arg),
                         struct request *r) {
  return rondo_root_call(key, &gatherer, call, r) && r->is_so;
}

bool rondo_admission_root_pending(const struct rondo_job_key *key, uint32_t *count) {
  struct request r = {0};
  bool is_here = request_make(key, request_count, &r);
  *count = r.count;
  return is_here;
}

bool rondo_admission_root_reserve(const struct rondo_job_key *key, uint32_t fewest, uint32_t most,
                                  uint32_t *reserved, uint32_t *waiting) {
  struct request r = {.fewest = fewest, .most = most};
  bool is_here = request_make(key, request_reserve, &r);
  *reserved = is_here ? r.count : 0;
  *waiting = r.waiting;
  return is_here;
}

bool rondo_admission_root_refuse(const struct rondo_job_key *key, char *text) {
  return request_make(key, request_refuse, &(struct request){.text = text});
}

bool rondo_admission_root_admit(const struct rondo_job_key *key,
                                const struct rondo_admitted *first) {
  return request_make(key, request_admit, &(struct request){.first = first});
}

bool rondo_admission_root_settle(const struct rondo_job_key *key, enum rondo_admission_end end) {
  return request_make(key, request_settle, &(struct request){.end = end});
}

bool rondo_admission_root_has_lost(const struct rondo_job_key *key, char *text) {
  return request_make(key, request_look, &(struct request){.text = text});
}

// ---------------------------------------------------------------- the newcomer ---

struct rondo_newcomer {
  struct rondo_mesh *mesh;
  struct rondo_shared_bytes *enter; // the control thread's
  pthread_mutex_t lock;
  pthread_cond_t changed;
  // Guarded by the lock.
  int status; // RONDO_IN_PROGRESS, RONDO_SUCCESS: `admitted` is new; an error is the last one
  bool is_ended;
  struct rondo_admitted admitted;
  char text[RONDO_MEMBERSHIP_TEXT_BYTES];
};

static void newcomer_set(struct rondo_newcomer *n, int status, const char *text) {
  pthread_mutex_lock(&n->lock);
  if (n->status == RONDO_IN_PROGRESS || status != RONDO_IN_PROGRESS) {
    n->status = status;
    (void)snprintf(n->text, sizeof n->text, "%s", text);
  }
  pthread_cond_broadcast(&n->changed);
  pthread_mutex_unlock(&n->lock);
}

static void newcomer_ask(void *arg) {
  struct rondo_newcomer *n = arg;
  rondo_mesh_control(n->mesh, RONDO_MESH_ROOT, n->enter);
}

// A repeated ADMITTED changes nothing.
static void newcomer_on_admitted(struct rondo_newcomer *n, const struct rondo_admitted *admitted) {
  pthread_mutex_lock(&n->lock);
  bool is_new = memcmp(n->admitted.id, admitted->id, sizeof admitted->id) != 0;
  if (is_new)
    n->admitted = *admitted;
  pthread_mutex_unlock(&n->lock);
  if (is_new)
    newcomer_set(n, RONDO_SUCCESS, "");
}

static int rejection_status(const uint8_t *type, const struct rondo_joined *joined) {
  if (*type != RONDO_MEMBERSHIP_REJECTED)
    return RONDO_IN_PROGRESS;
  return joined->status == RONDO_ERR_FULL ? RONDO_ERR_FULL : RONDO_ERR_INVALID;
}

static void on_control(void *arg, uint32_t from, const void *bytes, size_t size) {
  struct rondo_newcomer *n = arg;
  struct rondo_admitted admitted;
  struct rondo_joined joined;
  if (from != RONDO_MESH_ROOT)
    return;
  if (rondo_membership_admitted_decode(bytes, size, &admitted))
    newcomer_on_admitted(n, &admitted);
  else if (rondo_membership_joined_decode(bytes, size, &joined))
    newcomer_set(n, rejection_status(bytes, &joined), joined.text);
}

static void on_cut(void *arg, uint32_t process, bool is_proven, const char *text) {
  char why[RONDO_MEMBERSHIP_TEXT_BYTES];
  if (process != RONDO_MESH_ROOT)
    return;
  if (!is_proven) {
    newcomer_ask(arg);
    return;
  }
  (void)snprintf(why, sizeof why, "the process that admits newcomers is gone: %.150s", text);
  newcomer_set(arg, RONDO_ERR_PEER, why);
}

static void on_waits(void *arg, const char *text) { newcomer_set(arg, RONDO_IN_PROGRESS, text); }
static void on_failed(void *arg, const char *text) { newcomer_set(arg, RONDO_ERR_PEER, text); }

static const struct rondo_mesh_events mesh_events = {
    .control = on_control, .cut = on_cut, .waits = on_waits, .failed = on_failed};

static struct rondo_newcomer *newcomer_create(void) {
  struct rondo_newcomer *n = calloc(1, sizeof *n);
  if (!n)
    return NULL;
  pthread_mutex_init(&n->lock, NULL);
  rondo_condition_init(&n->changed);
  n->status = RONDO_IN_PROGRESS;
  (void)snprintf(n->text, sizeof n->text, "the member that admits newcomers has not answered yet");
  return n;
}

static void newcomer_free(struct rondo_newcomer *n) {
  if (n->mesh)
    rondo_mesh_free(n->mesh);
  rondo_shared_bytes_put(n->enter);
  pthread_cond_destroy(&n->changed);
  pthread_mutex_destroy(&n->lock);
  free(n);
}

static bool newcomer_introduce(struct rondo_newcomer *n) {
  const struct rondo_wire_member *me = rondo_mesh_self(n->mesh);
  struct rondo_enter enter;
  if (getrandom(&enter.who, sizeof enter.who, 0) != (ssize_t)sizeof enter.who)
    return false;
  enter.who |= 1; // 0 is nobody
  (void)snprintf(enter.text, sizeof enter.text, "%.120s, pid %u", me->host, me->pid);
  n->enter = rondo_membership_enter_encode(&enter);
  return n->enter && rondo_mesh_after(n->mesh, 0, newcomer_ask, n) == RONDO_SUCCESS;
}

int rondo_newcomer_start(const struct rondo_config *cfg, struct rondo_newcomer **out) {
  struct rondo_newcomer *n = newcomer_create();
  int status = n ? rondo_mesh_start(cfg, &mesh_events, n, NULL, &n->mesh)
                 : RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "join: no memory");
  if (status == RONDO_SUCCESS && !newcomer_introduce(n))
    status = RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "join: no memory");
  if (status == RONDO_SUCCESS) {
    rondo_mesh_begin(n->mesh);
    *out = n;
  } else if (n) {
    newcomer_free(n);
  }
  return status;
}

int rondo_newcomer_await(struct rondo_newcomer *n, uint64_t end_ns, struct rondo_admitted *admitted,
                         char *why) {
  int error = 0;
  pthread_mutex_lock(&n->lock);
  while (n->status == RONDO_IN_PROGRESS && !error)
    error = rondo_condition_wait(&n->changed, &n->lock, end_ns);
  int status = n->status == RONDO_IN_PROGRESS ? RONDO_ERR_TIMEOUT : n->status;
  memcpy(why, n->text, sizeof n->text);
  if (status == RONDO_SUCCESS) {
    *admitted = n->admitted;
    n->status = RONDO_IN_PROGRESS;
  }
  pthread_mutex_unlock(&n->lock);
  return status;
}

const struct rondo_job_key *rondo_newcomer_key(const struct rondo_newcomer *n) {
  return rondo_mesh_key(n->mesh);
}

static void newcomer_end(void *arg) {
  struct rondo_newcomer *n = arg;
  rondo_mesh_end(n->mesh);
  pthread_mutex_lock(&n->lock);
  n->is_ended = true;
  pthread_cond_broadcast(&n->changed);
  pthread_mutex_unlock(&n->lock);
}

void rondo_newcomer_stop(struct rondo_newcomer *n) {
  rondo_mesh_call(n->mesh, newcomer_end, n);
  pthread_mutex_lock(&n->lock);
  while (!n->is_ended)
    pthread_cond_wait(&n->changed, &n->lock);
  pthread_mutex_unlock(&n->lock);
  newcomer_free(n);
}
