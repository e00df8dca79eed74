#include "runtime/transport/nccl/window.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/condition.h"
#include "base/log.h"
#include "runtime/transport/nccl/window_lookup_core.h"
#include "runtime/transport/nccl/library.h"

#define LOOK_NS 1000000u
#define GRACE_NS UINT64_C(1000000000)    // for the helper to notice that its limit has passed
#define FINALIZE_NS UINT64_C(2000000000) // for all members to finalize the communicator
#define END_NS UINT64_C(10000000000)     // for the whole step STEP_END

enum step { STEP_MEMORY = 1, STEP_ID, STEP_JOIN, STEP_DROP, STEP_END };

struct rondo_nccl_window {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  // Guarded by the lock.
  enum step wanted;
  int has_done, status; // of the wanted step
  uint64_t deadline_ns; // of the step
  int is_given_up;      // the helper ends the step, and frees what it has made
  int is_holding;       // the daemons of the device are held
  int is_over;          // the helper is about to end
  int is_abandoned;     // the owner does not wait for the helper; it frees the window
  char why[RONDO_WHY_BYTES];
  const char *calling; // the call that the helper is in, for messages
  // Constant.
  pthread_t helper;
  struct rondo_nccl_window_config config;
  // Of the helper; of the owner between two steps.
  enum step step;
  const struct rondo_nccl_library *lib;
  char *memory;
  ncclUniqueId id;
  uint32_t index, count;
  ncclComm_t comm;
  ncclWindow_t window;
  int has_device_comm;
  char reason[RONDO_WHY_BYTES]; // of the running step
  struct rondo_nccl_found *found;
  uint64_t addresses[RONDO_NCCL_MAX_MEMBERS];
  _Alignas(16) unsigned char device_comm[RONDO_NCCL_DEVICE_COMM_BYTES];
};

// The kernel, for every architecture.
extern const unsigned char rondo_nccl_image[];
__asm__(".pushsection .rodata, \"a\", %progbits\n"
        ".balign 64\n"
        ".globl rondo_nccl_image\n"
        ".hidden rondo_nccl_image\n"
        ".type rondo_nccl_image, %object\n"
        "rondo_nccl_image:\n"
        ".incbin \"" RONDO_NCCL_IMAGE_FILE "\"\n"
        ".size rondo_nccl_image, . - rondo_nccl_image\n"
        ".popsection\n");

static const struct rondo_setup *setup_of(const struct rondo_nccl_window *w) {
  return w->config.device->driver->setup;
}

static int nccl_describe(char *line) {
  if (!rondo_nccl_load(line))
    return 0;
  (void)snprintf(line, RONDO_WHY_BYTES,
                 "version %d.%d.%d can make them; RONDO_TRANSPORT=nccl asks for one", NCCL_MAJOR,
                 NCCL_MINOR, NCCL_PATCH);
  return 1;
}

// ------------------------------------------------------------------ the helper ---

static void window_set_calling(struct rondo_nccl_window *w, const char *name) {
  pthread_mutex_lock(&w->lock);
  w->calling = name;
  pthread_mutex_unlock(&w->lock);
}

static int window_refuse(struct rondo_nccl_window *w, int status, const char *text) {
  (void)snprintf(w->reason, sizeof w->reason, "%s", text);
  return status;
}

static int window_report_call(struct rondo_nccl_window *w, const char *call, ncclResult_t result) {
  const char *more = w->lib->ncclGetLastError(w->comm);
  (void)snprintf(w->reason, sizeof w->reason, "%s: %s%s%s", call,
                 w->lib->ncclGetErrorString(result), more && more[0] ? ": " : "",
                 more && more[0] ? more : "");
  return RONDO_ERR_SYSTEM;
}

// Pauses. Returns RONDO_SUCCESS, or the status with which the step ends.
static int step_pause(struct rondo_nccl_window *w, const char *call) {
  int status = RONDO_SUCCESS;
  pthread_mutex_lock(&w->lock);
  uint64_t now_ns = rondo_now_ns();
  if (!w->is_given_up && now_ns < w->deadline_ns)
    (void)rondo_condition_wait(&w->changed, &w->lock, now_ns + LOOK_NS);
  if (w->is_given_up)
    status = RONDO_ERR_ABORTED;
  else if (now_ns >= w->deadline_ns)
    status = RONDO_ERR_TIMEOUT;
  pthread_mutex_unlock(&w->lock);
  if (status == RONDO_ERR_ABORTED)
    return window_refuse(w, status, "the window was given up");
  if (status == RONDO_ERR_TIMEOUT)
    (void)snprintf(w->reason, sizeof w->reason, "%s was not done in time", call);
  return status;
}

// Polls the communicator until the call is complete. Also a call that returned ncclSuccess may
// still be under way: with NCCL 2.28 ncclCommWindowRegister is, and the next call was refused.
static int comm_await(struct rondo_nccl_window *w, const char *call, ncclResult_t result) {
  int status = RONDO_SUCCESS;
  bool is_under_way = w->comm && (result == ncclSuccess || result == ncclInProgress);
  while (is_under_way && status == RONDO_SUCCESS) {
    ncclResult_t asked = w->lib->ncclCommGetAsyncError(w->comm, &result);
    result = asked == ncclSuccess ? result : asked;
    is_under_way = result == ncclInProgress;
    if (is_under_way)
      status = step_pause(w, call);
  }
  if (status != RONDO_SUCCESS)
    return status;
  return result == ncclSuccess ? RONDO_SUCCESS : window_report_call(w, call, result);
}

// NOLINTBEGIN(bugprone-macro-parentheses): the name of a call
#define CALL(w, name, ...)                                                                         \
  (window_set_calling(w, #name), comm_await(w, #name, (w)->lib->name(__VA_ARGS__)))
// NOLINTEND(bugprone-macro-parentheses)

static int memory_allocate(struct rondo_nccl_window *w) {
  void *memory = NULL;
  window_set_calling(w, "dlopen");
  w->lib = rondo_nccl_load(w->reason);
  if (!w->lib)
    return RONDO_ERR_UNSUPPORTED;
  window_set_calling(w, "ncclMemAlloc");
  ncclResult_t result = w->lib->ncclMemAlloc(&memory, w->config.bytes);
  if (result != ncclSuccess)
    return window_report_call(w, "ncclMemAlloc", result);
  w->memory = memory;
  return RONDO_SUCCESS;
}

static int id_make(struct rondo_nccl_window *w) {
  window_set_calling(w, "ncclGetUniqueId");
  ncclResult_t result = w->lib->ncclGetUniqueId(&w->id);
  return result == ncclSuccess ? RONDO_SUCCESS : window_report_call(w, "ncclGetUniqueId", result);
}

// The mark that member `index` writes to its memory; differs between members and between attempts.
static uint64_t member_mark(const struct rondo_nccl_window *w, uint32_t index) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325) + index;
  for (size_t i = 0; i < sizeof w->id.internal; i++)
    hash = (hash ^ (unsigned char)w->id.internal[i]) * UINT64_C(0x100000001b3);
  return hash;
}

static int window_await_quiet(struct rondo_nccl_window *w) {
  int status = RONDO_SUCCESS;
  window_set_calling(w, "waiting for the device's daemons");
  while (status == RONDO_SUCCESS && !setup_of(w)->is_quiet(w->config.device))
    status = step_pause(w, "the end of the device's daemons");
  return status;
}

static int mark_write(struct rondo_nccl_window *w) {
  uint64_t mark = member_mark(w, w->index);
  int status = w->config.device->driver->write(w->config.device, (uint64_t)(uintptr_t)w->memory,
                                               &mark, sizeof mark);
  return status == RONDO_SUCCESS ? status
                                 : window_refuse(w, status, "the device does not write the mark");
}

static int device_comm_create(struct rondo_nccl_window *w) {
  _Alignas(16) unsigned char requirements[RONDO_NCCL_REQUIREMENTS_BYTES] = {0}; // none
  int status = CALL(w, ncclDevCommCreate, w->comm, requirements, w->device_comm);
  w->has_device_comm = status == RONDO_SUCCESS;
  return status;
}

static int team_check(struct rondo_nccl_window *w) {
  window_set_calling(w, "ncclTeamLsa");
  struct rondo_nccl_team team = w->lib->ncclTeamLsa(w->comm);
  if ((uint32_t)team.rank_count == w->count && (uint32_t)team.rank == w->index)
    return RONDO_SUCCESS;
  (void)snprintf(w->reason, sizeof w->reason,
                 "only %d of %u devices are in one domain of loads and stores", team.rank_count,
                 w->count);
  return RONDO_ERR_UNSUPPORTED;
}

// Looks up the address of every member, and checks the mark there.
static int window_look_up(struct rondo_nccl_window *w) {
  const struct rondo_driver *driver = w->config.device->driver;
  struct rondo_nccl_lookup h = {.window = (uint64_t)(uintptr_t)w->window, .count = w->count};
  w->found = driver->alloc(w->config.device, RONDO_MEMORY_SHARED, w->count * sizeof *w->found);
  if (!w->found)
    return window_refuse(w, RONDO_ERR_NO_MEMORY, "no page-locked memory");
  h.found = (uint64_t)(uintptr_t)w->found;
  pthread_mutex_lock(&w->lock);
  const struct rondo_once once = {rondo_nccl_image, RONDO_NCCL_LOOKUP, &h, w->deadline_ns};
  w->calling = RONDO_NCCL_LOOKUP;
  pthread_mutex_unlock(&w->lock);
  int status = setup_of(w)->run_once(w->config.device, &once, w->reason);
  if (status == RONDO_ERR_TIMEOUT)
    return status; // the kernel may still write to `found`
  for (uint32_t i = 0; i < w->count && status == RONDO_SUCCESS; i++) {
    w->addresses[i] = w->found[i].address;
    if (w->found[i].mark == member_mark(w, i))
      continue;
    (void)snprintf(w->reason, sizeof w->reason,
                   "the memory at the address of member %u is not its own", i);
    status = RONDO_ERR_SYSTEM;
  }
  driver->free(w->config.device, RONDO_MEMORY_SHARED, w->found);
  w->found = NULL;
  return status;
}

static int comm_create(struct rondo_nccl_window *w) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.minCTAs = config.maxCTAs = 1; // its kernels are never run
  config.commName = "rondo";
  return CALL(w, ncclCommInitRankConfig, &w->comm, (int)w->count, w->id, (int)w->index, &config);
}

static int comm_join(struct rondo_nccl_window *w) {
  int status = window_await_quiet(w);
  if (status == RONDO_SUCCESS)
    status = comm_create(w);
  if (status == RONDO_SUCCESS)
    status = mark_write(w);
  if (status == RONDO_SUCCESS)
    status = CALL(w, ncclCommWindowRegister, w->comm, w->memory, w->config.bytes, &w->window,
                  NCCL_WIN_COLL_SYMMETRIC);
  if (status == RONDO_SUCCESS)
    status = device_comm_create(w);
  if (status == RONDO_SUCCESS)
    status = team_check(w);
  return status == RONDO_SUCCESS ? window_look_up(w) : status;
}

static void comm_abort(struct rondo_nccl_window *w) {
  window_set_calling(w, "ncclCommAbort");
  if (w->comm)
    (void)w->lib->ncclCommAbort(w->comm);
  w->comm = NULL;
  w->window = NULL;
  w->has_device_comm = 0;
}

// Ends a communicator together with the other members, or without them after FINALIZE_NS.
static void comm_finish(struct rondo_nccl_window *w) {
  int status = RONDO_SUCCESS;
  pthread_mutex_lock(&w->lock);
  w->deadline_ns = rondo_now_ns() + FINALIZE_NS;
  w->is_given_up = 0;
  pthread_mutex_unlock(&w->lock);
  if (w->has_device_comm)
    status = CALL(w, ncclDevCommDestroy, w->comm, w->device_comm);
  w->has_device_comm = 0;
  if (status == RONDO_SUCCESS && w->window)
    status = CALL(w, ncclCommWindowDeregister, w->comm, w->window);
  if (status == RONDO_SUCCESS) {
    (void)w->lib->ncclMemFree(w->memory);
    w->memory = NULL;
    status = CALL(w, ncclCommFinalize, w->comm);
  }
  if (status == RONDO_SUCCESS) {
    window_set_calling(w, "ncclCommDestroy");
    (void)w->lib->ncclCommDestroy(w->comm);
    w->comm = NULL;
  }
}

static int window_end(struct rondo_nccl_window *w) {
  if (w->comm)
    comm_finish(w);
  comm_abort(w);
  window_set_calling(w, "ncclMemFree");
  if (w->memory)
    (void)w->lib->ncclMemFree(w->memory);
  w->memory = NULL;
  return RONDO_SUCCESS;
}

// ---------------------------------------------------------------------- steps ---

static bool window_is_given_up(struct rondo_nccl_window *w) {
  pthread_mutex_lock(&w->lock);
  bool is_given_up = w->is_given_up;
  pthread_mutex_unlock(&w->lock);
  return is_given_up;
}

static int comm_join_or_abort(struct rondo_nccl_window *w) {
  int status = comm_join(w);
  if (status == RONDO_SUCCESS && window_is_given_up(w))
    status = window_refuse(w, RONDO_ERR_ABORTED, "the window was given up");
  if (status != RONDO_SUCCESS)
    comm_abort(w);
  return status;
}

// Runs in the context of the device.
static int step_run(void *arg) {
  struct rondo_nccl_window *w = arg;
  switch (w->step) {
  case STEP_MEMORY:
    return memory_allocate(w);
  case STEP_ID:
    return id_make(w);
  case STEP_JOIN:
    return comm_join_or_abort(w);
  case STEP_DROP:
    comm_abort(w);
    return RONDO_SUCCESS;
  default:
    return window_end(w);
  }
}

// The lock is held.
static void window_release_daemons(struct rondo_nccl_window *w) {
  if (w->is_holding)
    setup_of(w)->hold(w->config.device, 0);
  w->is_holding = 0;
}

static void window_free(struct rondo_nccl_window *w) {
  pthread_cond_destroy(&w->changed);
  pthread_mutex_destroy(&w->lock);
  free(w);
}

static void *helper_main(void *arg) {
  struct rondo_nccl_window *w = arg;
  struct rondo_device *device = w->config.device;
  int is_end = 0;
  while (!is_end) {
    pthread_mutex_lock(&w->lock);
    while (w->has_done)
      pthread_cond_wait(&w->changed, &w->lock);
    w->step = w->wanted;
    pthread_mutex_unlock(&w->lock);
    w->reason[0] = '\0';
    int status = setup_of(w)->call_inside(device, step_run, w, w->reason);
    pthread_mutex_lock(&w->lock);
    w->status = status;
    w->calling = "";
    memcpy(w->why, w->reason, sizeof w->why);
    window_release_daemons(w);
    w->has_done = w->wanted == w->step; // else the owner has asked for the end meanwhile
    is_end = w->step == STEP_END;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
  }
  device->driver->close(device);
  pthread_mutex_lock(&w->lock);
  w->is_over = 1;
  bool is_abandoned = w->is_abandoned;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
  if (is_abandoned)
    window_free(w);
  return NULL;
}

// The lock is held.
static void window_begin_step(struct rondo_nccl_window *w, enum step step, uint64_t limit_ns) {
  w->wanted = step;
  w->has_done = 0;
  w->is_given_up = 0;
  w->deadline_ns = rondo_now_ns() + limit_ns;
  pthread_cond_broadcast(&w->changed);
}

// Waits until the condition is true, or the deadline. The lock is held.
static void window_await(struct rondo_nccl_window *w, const int *condition, uint64_t deadline_ns) {
  while (!*condition && rondo_condition_wait(&w->changed, &w->lock, deadline_ns) == 0)
    ;
}

// The lock is held.
static int window_look(struct rondo_nccl_window *w, char *why) {
  if (w->has_done) {
    (void)snprintf(why, RONDO_WHY_BYTES, "%s", w->why);
    return w->status;
  }
  if (rondo_now_ns() < w->deadline_ns + GRACE_NS)
    return RONDO_IN_PROGRESS;
  window_release_daemons(w);
  (void)snprintf(why, RONDO_WHY_BYTES, "NCCL does not return from %s", w->calling);
  return RONDO_ERR_TIMEOUT;
}

// ---------------------------------------------------------------------- owner ---

static struct rondo_nccl_window *window_new(const struct rondo_nccl_window_config *config) {
  struct rondo_nccl_window *w = NULL;
  if (posix_memalign((void **)&w, 64, sizeof *w))
    return NULL;
  memset(w, 0, sizeof *w);
  w->config = *config;
  w->calling = "";
  pthread_mutex_init(&w->lock, NULL);
  rondo_condition_init(&w->changed);
  w->wanted = STEP_MEMORY;
  w->deadline_ns = rondo_now_ns() + config->limit_ns;
  return w;
}

static void window_destroy(struct rondo_nccl_window *w) {
  if (!w)
    return;
  pthread_mutex_lock(&w->lock);
  window_release_daemons(w);
  // A running step ends first; the helper then takes up STEP_END.
  int is_idle = w->has_done;
  int is_stuck = !is_idle && rondo_now_ns() >= w->deadline_ns + GRACE_NS;
  window_begin_step(w, STEP_END, END_NS);
  w->is_given_up = !is_idle;
  window_await(w, &w->is_over, is_stuck ? 0 : w->deadline_ns);
  int is_over = w->is_over;
  w->is_abandoned = !is_over;
  const char *calling = w->calling;
  pthread_mutex_unlock(&w->lock);
  if (is_over) {
    (void)pthread_join(w->helper, NULL);
    window_free(w);
    return;
  }
  (void)pthread_detach(w->helper);
  rondo_log(RONDO_LOG_WARN, "NCCL does not return from %s: its memory and thread are abandoned",
            calling);
}

static int window_create(const struct rondo_nccl_window_config *config,
                         struct rondo_nccl_window **window, char *why) {
  struct rondo_nccl_window *w = window_new(config);
  (void)snprintf(why, RONDO_WHY_BYTES, "no memory");
  if (!w)
    return RONDO_ERR_NO_MEMORY;
  setup_of(w)->retain(config->device);
  if (pthread_create(&w->helper, NULL, helper_main, w)) {
    (void)snprintf(why, RONDO_WHY_BYTES, "no thread can be created");
    config->device->driver->close(config->device);
    window_free(w);
    return RONDO_ERR_SYSTEM;
  }
  pthread_setname_np(w->helper, "rondo-nccl");
  pthread_mutex_lock(&w->lock);
  window_await(w, &w->has_done, w->deadline_ns + GRACE_NS);
  int status = window_look(w, why);
  pthread_mutex_unlock(&w->lock);
  if (status == RONDO_SUCCESS)
    *window = w;
  else
    window_destroy(w);
  return status == RONDO_IN_PROGRESS ? RONDO_ERR_TIMEOUT : status;
}

static uint64_t window_base(const struct rondo_nccl_window *w) {
  return (uint64_t)(uintptr_t)w->memory + RONDO_NCCL_HEAD_BYTES;
}

static uint64_t window_bytes(const struct rondo_nccl_window *w) {
  return w->config.bytes - RONDO_NCCL_HEAD_BYTES;
}

static void window_make_id(struct rondo_nccl_window *w) {
  pthread_mutex_lock(&w->lock);
  window_begin_step(w, STEP_ID, w->config.limit_ns);
  pthread_mutex_unlock(&w->lock);
}

static void window_join(struct rondo_nccl_window *w, const uint8_t *id, uint32_t index,
                        uint32_t count) {
  static_assert(sizeof w->id.internal == RONDO_NCCL_ID_BYTES, "copied as a whole");
  pthread_mutex_lock(&w->lock);
  memcpy(w->id.internal, id, sizeof w->id.internal);
  w->index = index;
  w->count = count;
  setup_of(w)->hold(w->config.device, 1);
  w->is_holding = 1;
  window_begin_step(w, STEP_JOIN, w->config.limit_ns);
  pthread_mutex_unlock(&w->lock);
}

static int window_poll(struct rondo_nccl_window *w, char *why) {
  pthread_mutex_lock(&w->lock);
  int status = window_look(w, why);
  pthread_mutex_unlock(&w->lock);
  return status;
}

static const uint8_t *window_id(const struct rondo_nccl_window *w) {
  return (const uint8_t *)w->id.internal;
}

static uint64_t window_address(const struct rondo_nccl_window *w, uint32_t index) {
  return w->addresses[index] + RONDO_NCCL_HEAD_BYTES;
}

static void window_give_up(struct rondo_nccl_window *w) {
  pthread_mutex_lock(&w->lock);
  window_release_daemons(w);
  if (!w->has_done)
    w->is_given_up = 1;
  else if (w->status == RONDO_SUCCESS) // a failed step has nothing to drop
    window_begin_step(w, STEP_DROP, w->config.limit_ns);
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

const struct rondo_nccl_window_calls rondo_nccl_windows = {.describe = nccl_describe,
                                                           .create = window_create,
                                                           .base = window_base,
                                                           .bytes = window_bytes,
                                                           .make_id = window_make_id,
                                                           .join = window_join,
                                                           .poll = window_poll,
                                                           .id = window_id,
                                                           .address = window_address,
                                                           .give_up = window_give_up,
                                                           .destroy = window_destroy};
