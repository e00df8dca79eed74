// Where collectives stand on a device, for reports.
//
// One thread of the process, the inspector, reads the memory of the devices. Those who ask hold
// locks of the runtime, and a call of the CUDA driver may wait for the very run that a report is
// about. So they wait for the inspector for a short time only, and then make do with what the block
// writes to page-locked memory.
#include <string.h>

#include "base/clock.h"
#include "base/condition.h"
#include "daemon/cuda/cuda_backend.h"

#define ANSWER_NS UINT64_C(200000000)
// The same when a daemon is removed. The launcher's last calls for the daemon have returned, so the
// driver answers, unless another thread keeps it from answering.
#define REMOVE_NS UINT64_C(2000000000)

enum inspector_state {
  INSPECTOR_IDLE = 0,
  INSPECTOR_ASKED,    // there is a question, and a thread waits for the answer
  INSPECTOR_ANSWERED, // the thread has not taken the answer yet
  INSPECTOR_LATE      // there is a question, and no thread waits any more
};

struct question {
  const struct rondo_cuda_daemon *daemon;
  uint32_t block, index;
};

enum answer_kind { ANSWER_FOUND, ANSWER_NOTHING, ANSWER_LATE };

struct answer {
  enum answer_kind kind;
  struct rondo_context_dynamic state; // if ANSWER_FOUND
};

static struct {
  pthread_mutex_t lock; // guards all below
  pthread_cond_t changed;
  bool is_started;
  enum inspector_state state;
  struct question question;
  struct answer answer;
} inspector = {.lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t inspector_once = PTHREAD_ONCE_INIT;

static void inspector_init(void) { rondo_condition_init(&inspector.changed); }

// --------------------------------------------------------------------- the thread --

// Reads a context's last saved state. ANSWER_NOTHING: there is none.
static struct answer context_read(const struct question *q) {
  const struct rondo_daemon *base = &q->daemon->base;
  struct rondo_device_collective entry;
  struct rondo_task_context context;
  uint64_t page = 0;
  struct answer nothing = {.kind = ANSWER_NOTHING};
  uint64_t at = base->table + q->index / RONDO_TABLE_PAGE * sizeof page;
  if (rondo_cuda_read(base->device, &page, at, sizeof page) != RONDO_SUCCESS || !page)
    return nothing;
  at = page + q->index % RONDO_TABLE_PAGE * sizeof entry;
  if (rondo_cuda_read(base->device, &entry, at, sizeof entry) != RONDO_SUCCESS)
    return nothing;
  at = entry.contexts + q->block * sizeof context;
  if (q->block >= entry.block_count ||
      rondo_cuda_read(base->device, &context, at, sizeof context) != RONDO_SUCCESS)
    return nothing;
  return (struct answer){ANSWER_FOUND, context.state};
}

static bool inspector_has_question(void) {
  return inspector.state == INSPECTOR_ASKED || inspector.state == INSPECTOR_LATE;
}

static void *inspector_main(void *arg) {
  (void)arg;
  pthread_mutex_lock(&inspector.lock);
  for (;;) {
    while (!inspector_has_question())
      pthread_cond_wait(&inspector.changed, &inspector.lock);
    struct question q = inspector.question;
    pthread_mutex_unlock(&inspector.lock);
    struct answer a = context_read(&q);
    pthread_mutex_lock(&inspector.lock);
    inspector.answer = a;
    inspector.state = inspector.state == INSPECTOR_LATE ? INSPECTOR_IDLE : INSPECTOR_ANSWERED;
    pthread_cond_broadcast(&inspector.changed);
  }
  return NULL;
}

// Called with the lock. False: there is no thread.
static bool inspector_start(void) {
  pthread_t thread;
  if (inspector.is_started)
    return true;
  inspector.is_started = pthread_create(&thread, NULL, inspector_main, NULL) == 0;
  if (inspector.is_started) {
    pthread_setname_np(thread, "rondo-inspector");
    (void)pthread_detach(thread);
  }
  return inspector.is_started;
}

// -------------------------------------------------------------------- those who ask --

// Waits while the inspector is in this state. False: for too long.
static bool inspector_await_not(enum inspector_state state, uint64_t deadline_ns) {
  while (inspector.state == state)
    if (rondo_condition_wait(&inspector.changed, &inspector.lock, deadline_ns))
      return inspector.state != state;
  return true;
}

// Called with the lock.
static struct answer inspector_ask(const struct question *q) {
  struct answer late = {.kind = ANSWER_LATE};
  uint64_t deadline_ns = rondo_now_ns() + ANSWER_NS;
  while (inspector.state == INSPECTOR_ASKED || inspector.state == INSPECTOR_ANSWERED)
    if (!inspector_await_not(inspector.state, deadline_ns))
      return late;
  if (inspector.state == INSPECTOR_LATE || !inspector_start())
    return late;
  inspector.question = *q;
  inspector.state = INSPECTOR_ASKED;
  pthread_cond_broadcast(&inspector.changed);
  if (!inspector_await_not(INSPECTOR_ASKED, deadline_ns)) {
    inspector.state = INSPECTOR_LATE;
    return late;
  }
  inspector.state = INSPECTOR_IDLE;
  pthread_cond_broadcast(&inspector.changed);
  return inspector.answer;
}

// Adds what the block reported of its scheduled collective since it last saved.
static void view_add_status(const struct rondo_cuda_block_status *s,
                            struct rondo_block_view *view) {
  uint32_t stands = rondo_load_relaxed_u32(&s->stands);
  view->is_scheduled = true;
  view->waiting_ns = rondo_load_relaxed_u64(&s->waiting_ns);
  if (!stands)
    return;
  view->state.phase = (uint8_t)stands;
  view->state.op = (uint8_t)(stands >> 8);
  view->state.flags = stands & RONDO_STANDS_HAS_REFERENCE ? RONDO_RUN_HAS_REFERENCE : 0;
  view->state.run.number = rondo_load_relaxed_u64(&s->run);
  view->state.repeat = rondo_load_relaxed_u32(&s->repeat);
  view->state.bound_send = (uint16_t)rondo_load_relaxed_u32(&s->bound_send);
  view->has_data = (stands & RONDO_STANDS_HAS_DATA) != 0;
}

// Shows the block's last report or save: at most a millisecond old for a stuck collective. If the
// driver keeps the inspector waiting, only the scheduled collective of a block is shown.
bool rondo_cuda_try_inspect(struct rondo_daemon *base, uint32_t block, uint32_t index,
                            struct rondo_block_view *view) {
  const struct question q = {rondo_cuda_daemon_of(base), block, index};
  const struct rondo_cuda_block_status *s = &q.daemon->status[block];
  memset(view, 0, sizeof *view);
  (void)pthread_once(&inspector_once, inspector_init);
  pthread_mutex_lock(&inspector.lock);
  struct answer a = inspector_ask(&q);
  pthread_mutex_unlock(&inspector.lock);
  if (a.kind == ANSWER_NOTHING)
    return false;
  if (a.kind == ANSWER_FOUND)
    view->state = a.state;
  if (rondo_load_relaxed_u32(&s->scheduled) == index + 1)
    view_add_status(s, view);
  return view->state.phase != RONDO_PHASE_IDLE;
}

void rondo_cuda_inspector_remove(struct rondo_cuda_daemon *d) {
  uint64_t deadline_ns = rondo_now_ns() + REMOVE_NS;
  (void)pthread_once(&inspector_once, inspector_init);
  pthread_mutex_lock(&inspector.lock);
  while (inspector_has_question() && inspector.question.daemon == d && !d->is_lost)
    if (!inspector_await_not(inspector.state, deadline_ns))
      d->is_lost = 1;
  pthread_mutex_unlock(&inspector.lock);
}
