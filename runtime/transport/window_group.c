// The other processes of a job on this machine, where windows of NCCL are asked for: who takes part, and whether all of them
// use it or none. Part of the job: see peers.h.
//
// Each process gets the memory of its window before anything else (open). Who asks for one says so when it joins, so when all
// are known (begin) those of one machine that do are a team, the first of which leads; nobody asks, or waits for, one
// that does not, as those whose ranks are on the host:
//
//   each -> leader  READY    it has its memory, so much; or why not
//   leader -> each  ENTER    the id: join now
//   each -> leader  DONE     it has joined, and sees everybody; or why not
//   leader -> each  VERDICT  use it; or why nobody does
//   each -> each    ADOPTED  this process uses it, and where it has its memory; or does not, after all
//
// The last makes it safe for two of them whatever has become of the leader in the midst of its verdict: what one has not
// said, no other counts on. A process that is lost before its ADOPTED refuses. Until it is decided, within the limit for
// getting ready and for joining and a little more, registrations with that process wait, as they do for its range.
// Nobody waits here: a tick on the control thread looks at the helper of the window and at the clock.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/api/rank.h"
#include "runtime/job/processes.h"
#include "runtime/transport/nccl/window.h"

#define TICK_NS UINT64_C(2000000)
#define GRACE_NS UINT64_C(5000000000) // from the leader's limit to that of the others
#define DEFAULT_LIMIT_NS UINT64_C(30000000000)
#define DEFAULT_BYTES (UINT64_C(256) << 20)
#define MAX_BYTES (UINT64_C(1) << 36)
#define LONGEST_LIMIT_NS UINT64_C(600000000000)

enum phase {
  PHASE_BEFORE = 0,
  PHASE_GATHERING,
  PHASE_NAMING,
  PHASE_JOINING,
  PHASE_JOINED,
  PHASE_ADOPTED,
  PHASE_REFUSED
};
enum word { WORD_READY = 1, WORD_ENTER, WORD_DONE, WORD_VERDICT, WORD_ADOPTED };

struct member {
  uint32_t process;
  uint8_t is_ready, is_done;
  uint8_t has_decided, is_in; // ADOPTED has come
  uint64_t base;              // of its window, where it has it itself
};

struct rondo_window_group {
  struct rondo_nccl_window *window; // null: it could not be had
  struct rondo_range *range;        // its memory
  uint64_t limit_ns;
  enum phase phase;
  uint64_t deadline_ns;
  int is_named; // the id has been asked for
  uint32_t count, self;
  struct member *members; // in order of their processes; the first leads
  char why[RONDO_WHY_BYTES];
};

static int is_leader(const struct rondo_window_group *t) { return t->self == 0; }

static struct member *member_of(struct rondo_window_group *t, uint32_t process) {
  for (uint32_t i = 0; i < t->count; i++)
    if (t->members[i].process == process)
      return &t->members[i];
  return NULL;
}

// -------------------------------------------------------------------- deciding --

static void send_word(struct rondo_job *job, const struct member *to, enum word word, int status,
                      const char *why) {
  const struct rondo_window_group *t = job->team;
  struct rondo_message_window notice = {.word = (uint32_t)word, .status = status};
  if (word == WORD_ENTER)
    memcpy(notice.id, rondo_nccl_window_id(t->window), sizeof notice.id);
  if (t->window) {
    notice.base = rondo_nccl_window_base(t->window);
    notice.bytes = rondo_nccl_window_bytes(t->window);
  }
  (void)snprintf(notice.why, sizeof notice.why, "%.*s", (int)sizeof notice.why - 1, why);
  rondo_processes_send(job, to->process, RONDO_MESSAGE_WINDOW, &notice, sizeof notice);
}

static void send_all(struct rondo_job *job, enum word word, int status, const char *why) {
  for (uint32_t i = 0; i < job->team->count; i++)
    if (i != job->team->self)
      send_word(job, &job->team->members[i], word, status, why);
}

// Nobody uses the window, as far as this process knows. Its memory stays what it is: somebody may have some of it.
static void refuse(struct rondo_job *job, const char *why) {
  struct rondo_window_group *t = job->team;
  if (t->phase >= PHASE_ADOPTED)
    return;
  if (t->window && t->phase > PHASE_BEFORE)
    rondo_nccl_window_give_up(t->window);
  t->phase = PHASE_REFUSED;
  rondo_store_relaxed_u32(&job->is_window_refused, 1);
  (void)snprintf(t->why, sizeof t->why, "%s", why);
  rondo_log(RONDO_LOG_WARN, "no window of NCCL, devices share memory without: %s", why);
  if (!t->members)
    return;
  if (is_leader(t))
    send_all(job, WORD_VERDICT, RONDO_ERR_UNSUPPORTED, why);
  send_all(job, WORD_ADOPTED, RONDO_ERR_UNSUPPORTED, why);
  rondo_processes_resume(job);
}

static void refuse_for(struct rondo_job *job, uint32_t process, const char *why) {
  char text[RONDO_WHY_BYTES];
  (void)snprintf(text, sizeof text, "process %u: %.400s", process, why);
  refuse(job, text);
}

static void adopt(struct rondo_job *job) {
  struct rondo_window_group *t = job->team;
  t->phase = PHASE_ADOPTED;
  rondo_log(RONDO_LOG_INFO, "a window of NCCL leads to %u processes", t->count);
  if (is_leader(t))
    send_all(job, WORD_VERDICT, RONDO_SUCCESS, "");
  send_all(job, WORD_ADOPTED, RONDO_SUCCESS, "");
  rondo_processes_resume(job);
}

// This process cannot, or has joined: the leader is told.
static void report(struct rondo_job *job, enum word word, int status, const char *why) {
  struct rondo_window_group *t = job->team;
  if (!is_leader(t))
    send_word(job, &t->members[0], word, status, why);
  else if (status != RONDO_SUCCESS)
    refuse_for(job, t->members[0].process, why);
}

// ------------------------------------------------------------------- the leader --

static int is_all(const struct rondo_window_group *t, size_t flag) {
  for (uint32_t i = 0; i < t->count; i++)
    if (!*((const uint8_t *)&t->members[i] + flag))
      return 0;
  return 1;
}

// The first who is missing.
static void refuse_late(struct rondo_job *job, size_t flag, const char *what) {
  const struct rondo_window_group *t = job->team;
  for (uint32_t i = 0; i < t->count; i++)
    if (!*((const uint8_t *)&t->members[i] + flag)) {
      refuse_for(job, t->members[i].process, what);
      return;
    }
}

static void enter_all(struct rondo_job *job) {
  struct rondo_window_group *t = job->team;
  send_all(job, WORD_ENTER, RONDO_SUCCESS, "");
  rondo_nccl_window_join(t->window, rondo_nccl_window_id(t->window), 0, t->count);
  t->phase = PHASE_JOINING;
  t->deadline_ns = rondo_now_ns() + t->limit_ns + GRACE_NS;
}

static void lead(struct rondo_job *job, uint64_t now_ns) {
  struct rondo_window_group *t = job->team;
  char why[RONDO_WHY_BYTES];
  if (t->phase == PHASE_GATHERING && is_all(t, offsetof(struct member, is_ready))) {
    rondo_nccl_window_make_id(t->window);
    t->phase = PHASE_NAMING;
  } else if (t->phase == PHASE_NAMING) {
    int status = rondo_nccl_window_poll(t->window, why);
    if (status == RONDO_SUCCESS)
      enter_all(job);
    else if (status != RONDO_IN_PROGRESS)
      refuse_for(job, t->members[0].process, why);
  } else if (t->phase == PHASE_JOINED && is_all(t, offsetof(struct member, is_done))) {
    adopt(job);
  } else if (now_ns >= t->deadline_ns && t->phase == PHASE_GATHERING) {
    refuse_late(job, offsetof(struct member, is_ready), "it does not get ready");
  } else if (now_ns >= t->deadline_ns) {
    refuse_late(job, offsetof(struct member, is_done), "it does not join in time");
  }
}

// ----------------------------------------------------------------------- ticking --

static void look_at_joining(struct rondo_job *job) {
  struct rondo_window_group *t = job->team;
  char why[RONDO_WHY_BYTES];
  int status = rondo_nccl_window_poll(t->window, why);
  if (status == RONDO_IN_PROGRESS)
    return;
  if (status == RONDO_SUCCESS) {
    t->phase = PHASE_JOINED;
    t->members[t->self].is_done = 1;
  }
  report(job, WORD_DONE, status, why);
  if (status != RONDO_SUCCESS && !is_leader(t))
    refuse_for(job, t->members[t->self].process, why);
}

static void on_tick(void *arg) {
  struct rondo_job *job = arg;
  struct rondo_window_group *t = job->team;
  pthread_mutex_lock(&job->lock);
  uint64_t now_ns = rondo_now_ns();
  if (t->phase == PHASE_JOINING)
    look_at_joining(job);
  if (t->phase < PHASE_ADOPTED && is_leader(t))
    lead(job, now_ns);
  else if (t->phase < PHASE_ADOPTED && now_ns >= t->deadline_ns)
    refuse_for(job, t->members[0].process, "it does not say whether all have joined");
  if (t->phase < PHASE_ADOPTED)
    (void)rondo_mesh_calls->after(job->mesh, TICK_NS, on_tick, job);
  pthread_mutex_unlock(&job->lock);
}

// --------------------------------------------------------------------- receiving --

static void on_enter(struct rondo_job *job, const struct rondo_message_window *n) {
  struct rondo_window_group *t = job->team;
  if (t->phase != PHASE_GATHERING)
    return;
  rondo_nccl_window_join(t->window, n->id, t->self, t->count);
  t->phase = PHASE_JOINING;
  t->deadline_ns = rondo_now_ns() + t->limit_ns + 2 * GRACE_NS;
}

static void on_ready(struct rondo_job *job, struct member *m,
                     const struct rondo_message_window *n) {
  struct rondo_window_group *t = job->team;
  if (t->phase != PHASE_GATHERING)
    return;
  if (n->status != RONDO_SUCCESS)
    refuse_for(job, m->process, n->why);
  else if (n->bytes != rondo_nccl_window_bytes(t->window))
    refuse_for(job, m->process, "its window has another size");
  m->is_ready = 1;
}

static void take(struct rondo_job *job, struct member *m, const struct rondo_message_window *n) {
  struct rondo_window_group *t = job->team;
  int from_leader = m == &t->members[0];
  switch (n->word) {
  case WORD_READY:
    on_ready(job, m, n);
    break;
  case WORD_ENTER:
    if (from_leader)
      on_enter(job, n);
    break;
  case WORD_DONE:
    m->is_done = 1;
    if (n->status != RONDO_SUCCESS)
      refuse_for(job, m->process, n->why);
    break;
  case WORD_VERDICT:
    if (from_leader && n->status != RONDO_SUCCESS)
      refuse(job, n->why);
    else if (from_leader && t->phase == PHASE_JOINED)
      adopt(job);
    break;
  default:
    m->has_decided = 1;
    m->is_in = n->status == RONDO_SUCCESS;
    m->base = n->base;
    rondo_processes_resume(job);
  }
}

int rondo_window_group_receive(struct rondo_job *job, const struct rondo_mesh_message *message) {
  struct rondo_message_window notice;
  if (message->size != sizeof notice)
    return 0;
  memcpy(&notice, message->bytes, sizeof notice);
  notice.why[sizeof notice.why - 1] = '\0';
  if (notice.word < WORD_READY || notice.word > WORD_ADOPTED)
    return 0;
  struct member *m = job->team ? member_of(job->team, message->from) : NULL;
  if (m)
    take(job, m, &notice);
  return 1; // else it asks for what was not asked for here: it runs out of time, and says so
}

void rondo_window_group_lose(struct rondo_job *job, uint32_t process) {
  struct rondo_window_group *t = job->team;
  struct member *m = t && t->members ? member_of(t, process) : NULL;
  if (!m)
    return;
  m->has_decided = 1;
  refuse_for(job, process, "it is lost");
}

// ----------------------------------------------------------------------- asking --

int rondo_window_group_is_settled(const struct rondo_job *job, uint32_t process) {
  struct rondo_window_group *t = job->team;
  if (!t || t->phase == PHASE_REFUSED)
    return 1;
  const struct member *m = member_of(t, process);
  if (t->members && !m)
    return 1;
  return t->phase == PHASE_ADOPTED && m->has_decided;
}

int rondo_window_group_leads(const struct rondo_job *job, uint32_t process) {
  const struct member *m = job->team ? member_of(job->team, process) : NULL;
  return m && job->team->phase == PHASE_ADOPTED && m->is_in;
}

uint64_t rondo_window_group_view(const struct rondo_job *job, uint32_t process) {
  struct rondo_window_group *t = job->team;
  const struct member *m = member_of(t, process);
  return rondo_nccl_window_address(t->window, (uint32_t)(m - t->members));
}

uint64_t rondo_window_group_bias(const struct rondo_job *job, uint32_t process) {
  return rondo_window_group_view(job, process) - member_of(job->team, process)->base;
}

const char *rondo_window_group_why(const struct rondo_job *job, uint32_t process) {
  struct rondo_window_group *t = job->team;
  if (t && t->members && !member_of(t, process))
    return "it asks for no window";
  return t && t->phase == PHASE_REFUSED ? t->why : "";
}

// -------------------------------------------------------------- opening, closing --

static uint64_t number_from(const char *variable, uint64_t most, uint64_t otherwise) {
  const char *text = getenv(variable);
  char *end = NULL;
  if (!text || !*text)
    return otherwise;
  unsigned long long value = strtoull(text, &end, 10);
  if (!*end && text[0] != '-' && value && value <= most)
    return value;
  rondo_log_variable(variable, text, "a number from 1 to %llu", (unsigned long long)most);
  return otherwise;
}

void rondo_window_group_open(struct rondo_job *job) {
  struct rondo_window_group *t = calloc(1, sizeof *t);
  char why[RONDO_WHY_BYTES] = "no memory";
  job->team = t;
  if (!t)
    return;
  t->limit_ns = number_from("RONDO_NCCL_TIMEOUT_NS", LONGEST_LIMIT_NS, DEFAULT_LIMIT_NS);
  uint64_t bytes = number_from("RONDO_NCCL_WINDOW_BYTES", MAX_BYTES, DEFAULT_BYTES);
  bytes = (bytes + RONDO_RANGE_UNIT_BYTES - 1) / RONDO_RANGE_UNIT_BYTES * RONDO_RANGE_UNIT_BYTES;
  const struct rondo_nccl_window_config config = {job->device, bytes, t->limit_ns};
  int status = rondo_nccl_window_create(&config, &t->window, why);
  if (status == RONDO_SUCCESS)
    status = rondo_range_adopt(job->device, rondo_nccl_window_base(t->window),
                               rondo_nccl_window_bytes(t->window), &t->range);
  if (status != RONDO_SUCCESS)
    (void)snprintf(t->why, sizeof t->why, "%s", why);
  job->window = t->range;
}

// One device a process: NCCL 2.28 has one communicator for each, and takes none twice.
static const char *hindrance(const struct rondo_job *job) {
  const struct rondo_window_group *t = job->team;
  if (t->why[0])
    return t->why;
  return job->other_count ? "its ranks are on several devices" : NULL;
}

// 1 if that process is of this machine, and wants a window.
static int is_asking(const struct rondo_job *job, uint32_t process) {
  struct rondo_mesh_process at;
  return job->peers[process].reach == RONDO_TRANSPORT_SHARED_MEMORY &&
         rondo_mesh_calls->process_get(job->mesh, process, &at) == RONDO_SUCCESS && at.asks_window;
}

static int make_members(struct rondo_job *job) {
  struct rondo_window_group *t = job->team;
  t->members = calloc(job->peer_count, sizeof *t->members);
  for (uint32_t p = 0; t->members && p < job->peer_count; p++) {
    if (p == job->self)
      t->self = t->count;
    else if (!is_asking(job, p))
      continue;
    t->members[t->count++].process = p;
  }
  return t->members != NULL;
}

void rondo_window_group_begin(struct rondo_job *job) {
  struct rondo_window_group *t = job->team;
  if (!t)
    return;
  if (!make_members(job)) {
    refuse(job, "no memory");
    return;
  }
  const char *why = hindrance(job);
  if (!why && t->count < 2)
    why = "no other process of the job on this machine asks for one";
  if (!why && t->count > RONDO_NCCL_MAX_MEMBERS)
    why = "there are too many processes";
  t->phase = PHASE_GATHERING;
  t->deadline_ns = rondo_now_ns() + t->limit_ns + (is_leader(t) ? 0 : GRACE_NS);
  t->members[t->self].is_ready = 1;
  report(job, WORD_READY, why ? RONDO_ERR_UNSUPPORTED : RONDO_SUCCESS, why ? why : "");
  if (why && t->phase < PHASE_ADOPTED)
    refuse_for(job, job->self, why);
  if (t->phase < PHASE_ADOPTED)
    (void)rondo_mesh_calls->after(job->mesh, TICK_NS, on_tick, job);
}

void rondo_window_group_close(struct rondo_job *job) {
  struct rondo_window_group *t = job->team;
  if (!t)
    return;
  rondo_range_destroy(t->range);
  rondo_nccl_window_destroy(t->window);
  free(t->members);
  free(t);
  job->team = NULL;
}
