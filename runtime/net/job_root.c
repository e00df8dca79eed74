#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/fork.h"
#include "base/log.h"
#include "runtime/net/identity.h"
#include "runtime/net/listener.h"
#include "runtime/net/job_root.h"

#define PART_BYTES 65536u                       // most of the roster in one frame
#define FIRST_REMINDER_NS UINT64_C(10000000000) // doubles with each reminder of missing ranks
#define LOSS_PAUSE_NS UINT64_C(10000000)        // ranks that leave together are reported together
#define UNUSED_FACTOR UINT64_C(10)              // an unused id is valid for so many join timeouts
#define LEAVE_NS UINT64_C(1000000000)
#define TEXT_BYTES 256u
#define LISTED_RANKS 4096u // in one frame

enum phase { GATHERING, ROSTER_SENT, LEAVING };

// A process that has connected.
struct member {
  LIST_ENTRY(member) listed;
  struct rondo_root *root;
  struct rondo_channel *channel;
  struct rondo_wire_member where; // no ranks: it has connected and not joined yet
  uint32_t number;                // of the process, from ROSTER_SENT on
};

struct rondo_root {
  LIST_ENTRY(rondo_root) listed;
  struct rondo_event_loop *loop;
  struct rondo_event_loop_task start;
  struct rondo_job_key job;
  struct rondo_listener listener;
  struct rondo_mesh_counters counters;
  uint64_t join_timeout_ns;
  int phase;
  uint32_t rank_count;     // 0: no process has joined yet
  uint32_t joined_count;   // ranks
  uint32_t host_process;   // hosts the root; RONDO_MESH_NOBODY: no process of the job
  struct member **holders; // by rank
  uint8_t *leavers;        // by rank: left, and not reported yet
  int has_leavers;
  LIST_HEAD(, member) members;
  uint32_t member_count;
  struct event deadline, reminder, losses;
  uint64_t reminder_ns;
};

// Stands in root->holders for the process of ranks that are lost.
static struct member lost_member = {.where = {.host = "gone"}};

static pthread_mutex_t roots_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, rondo_root) roots;

static void roots_forked(void) {
  LIST_INIT(&roots);
  roots_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
RONDO_ON_FORK(roots_forked)

// The root of the job if it is in this process, or null. The control thread may use it.
// `roots_lock` is held.
static struct rondo_root *root_find_locked(const struct rondo_job_key *job) {
  struct rondo_root *root = LIST_FIRST(&roots);
  while (root && memcmp(&root->job, job, sizeof *job) != 0)
    root = LIST_NEXT(root, listed);
  return root;
}

static struct rondo_root *root_find(const struct rondo_job_key *job) {
  pthread_mutex_lock(&roots_lock);
  struct rondo_root *root = root_find_locked(job);
  pthread_mutex_unlock(&roots_lock);
  return root;
}

void rondo_root_ranks_text(const uint32_t *ranks, uint32_t count, char *text, size_t bytes) {
  size_t at = 0;
  text[0] = '\0';
  for (uint32_t i = 0; i < count;) {
    uint32_t last = i;
    char piece[32];
    while (last + 1 < count && ranks[last + 1] == ranks[last] + 1)
      last++;
    int size = last > i ? snprintf(piece, sizeof piece, "%s%u%s%u", i ? ", " : "", ranks[i],
                                   last > i + 1 ? "-" : ", ", ranks[last])
                        : snprintf(piece, sizeof piece, "%s%u", i ? ", " : "", ranks[i]);
    if (size < 0 || at + (size_t)size + sizeof "…" > bytes) {
      (void)snprintf(text + at, bytes - at, "…");
      return;
    }
    memcpy(text + at, piece, (size_t)size + 1);
    at += (size_t)size;
    i = last + 1;
  }
}

static unsigned long long ns_to_ms(uint64_t ns) { return (unsigned long long)ns / 1000000; }

// ------------------------------------------------------------------ the end ---

static void member_free(struct member *m) {
  struct rondo_root *root = m->root;
  LIST_REMOVE(m, listed);
  root->member_count--;
  for (uint32_t i = 0; i < m->where.rank_count; i++)
    if (root->holders[m->where.ranks[i]] == m)
      root->holders[m->where.ranks[i]] = NULL;
  rondo_wire_member_fini(&m->where);
  free(m);
}

static void root_free(struct rondo_root *root) {
  pthread_mutex_lock(&roots_lock);
  LIST_REMOVE(root, listed);
  pthread_mutex_unlock(&roots_lock);
  while (!LIST_EMPTY(&root->members)) {
    struct member *m = LIST_FIRST(&root->members);
    rondo_channel_close(m->channel);
    member_free(m);
  }
  rondo_listener_close(&root->listener);
  evtimer_del(&root->deadline);
  evtimer_del(&root->reminder);
  evtimer_del(&root->losses);
  free(root->holders);
  free(root->leavers);
  struct rondo_event_loop *loop = root->loop;
  free(root);
  rondo_event_loop_put(loop);
}

// ------------------------------------------------------------------- sending ---

static struct rondo_wire_writer blob_writer(struct rondo_shared_bytes *blob, size_t capacity) {
  struct rondo_wire_writer w = {.bytes = blob ? blob->bytes : NULL,
                                .capacity = blob ? capacity : 0};
  return w;
}

// Sends one payload to all processes that have joined and takes over the reference. Null stands for
// a payload that could not be allocated: their connections end.
static void root_send_all(struct rondo_root *root, int type, struct rondo_shared_bytes *blob) {
  struct member *m;
  LIST_FOREACH (m, &root->members, listed) {
    if (!m->where.rank_count)
      continue;
    if (blob)
      blob->refs++;
    rondo_channel_send(m->channel, blob ? rondo_channel_out_create(type, blob) : NULL);
  }
  rondo_shared_bytes_put(blob);
}

static void root_send_some_losses(struct rondo_root *root, int reason, const char *text,
                                  const uint32_t *ranks, uint32_t count) {
  size_t capacity = 8 + RONDO_WIRE_TEXT_BYTES + 4 * (size_t)count;
  struct rondo_shared_bytes *blob = rondo_shared_bytes_create(NULL, capacity);
  struct rondo_wire_writer w = blob_writer(blob, capacity);
  rondo_wire_put_u8(&w, (uint8_t)reason);
  rondo_wire_put_text(&w, text);
  rondo_wire_put_ranks(&w, ranks, count);
  if (blob)
    blob->size = (uint32_t)w.size;
  root_send_all(root, RONDO_WIRE_LOST, blob);
}

static void root_send_loss(struct rondo_root *root, int reason, const char *text,
                           const uint32_t *ranks, uint32_t count) {
  for (uint32_t at = 0; at < count; at += LISTED_RANKS)
    root_send_some_losses(root, reason, text, ranks + at,
                          count - at < LISTED_RANKS ? count - at : LISTED_RANKS);
}

// Lists the ranks that have left and were not reported yet, or those that have not joined yet.
// Allocates the list; null without memory.
static uint32_t *root_list_ranks(const struct rondo_root *root, bool have_left, uint32_t *count) {
  uint32_t *ranks = malloc(root->rank_count * sizeof *ranks);
  *count = 0;
  for (uint32_t r = 0; ranks && r < root->rank_count; r++)
    if (have_left ? root->leavers[r] : !root->holders[r])
      ranks[(*count)++] = r;
  return ranks;
}

static void root_on_losses(evutil_socket_t fd, short what, void *arg) {
  struct rondo_root *root = arg;
  uint32_t count;
  (void)fd, (void)what;
  // Ranks that leave before the roster is sent are reported after it.
  if (!root->has_leavers || root->phase == GATHERING)
    return;
  uint32_t *ranks = root_list_ranks(root, true, &count);
  if (ranks)
    root_send_loss(root, RONDO_MESH_LEFT, "it left the job", ranks, count);
  memset(root->leavers, 0, root->rank_count);
  root->has_leavers = 0;
  free(ranks);
}

static void root_note_leaver(struct rondo_root *root, uint32_t rank) {
  root->leavers[rank] = 1;
  if (!root->has_leavers)
    rondo_event_loop_timer_set(&root->losses, LOSS_PAUSE_NS);
  root->has_leavers = 1;
}

// ------------------------------------------------------------- the roster ---

static int member_compare(const void *a, const void *b) {
  const struct member *const *x = a;
  const struct member *const *y = b;
  return (*x)->where.ranks[0] < (*y)->where.ranks[0] ? -1 : 1;
}

static void member_send_roster(struct member *m, uint32_t process_count) {
  uint8_t bytes[16];
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = sizeof bytes};
  rondo_wire_put_u32(&w, m->number);
  rondo_wire_put_u32(&w, process_count);
  rondo_wire_put_u32(&w, m->root->rank_count);
  rondo_wire_put_u32(&w, m->root->host_process);
  rondo_channel_send_bytes(m->channel, RONDO_WIRE_ROSTER, bytes, w.size);
}

// Sends one frame with as many members from `first` on as fit. Returns the next member to send.
static uint32_t root_send_members(struct rondo_root *root, struct member **by_number,
                                  uint32_t first, uint32_t count) {
  struct rondo_shared_bytes *blob = rondo_shared_bytes_create(NULL, PART_BYTES);
  struct rondo_wire_writer w = blob_writer(blob, PART_BYTES);
  uint32_t next = first;
  rondo_wire_put_u32(&w, first);
  rondo_wire_put_u32(&w, 0);
  while (next < count && !w.full) {
    struct rondo_wire_writer before = w;
    rondo_wire_put_member(&w, &by_number[next]->where, next ? &by_number[next - 1]->where : NULL);
    if (w.full) {
      w = before;
      break;
    }
    next++;
  }
  struct rondo_wire_writer number = {.bytes = w.bytes ? w.bytes + 4 : NULL,
                                     .capacity = blob ? 4 : 0};
  rondo_wire_put_u32(&number, next - first);
  if (blob)
    blob->size = (uint32_t)w.size;
  root_send_all(root, RONDO_WIRE_MEMBERS, blob);
  return next;
}

// Numbers the processes by their lowest rank and sends the roster to all of them.
static void root_send_roster(struct rondo_root *root) {
  struct member **by_number = malloc(root->member_count * sizeof(struct member *));
  uint32_t count = 0;
  struct member *m;
  if (!by_number) {
    root_send_all(root, RONDO_WIRE_ROSTER, NULL);
    return;
  }
  LIST_FOREACH (m, &root->members, listed)
    if (m->where.rank_count)
      by_number[count++] = m;
  qsort(by_number, count, sizeof(struct member *), member_compare);
  root->host_process = RONDO_MESH_NOBODY;
  for (uint32_t i = 0; i < count; i++) {
    by_number[i]->number = i;
    if (rondo_identity_is_mine(&by_number[i]->where))
      root->host_process = i;
  }
  for (uint32_t i = 0; i < count; i++)
    member_send_roster(by_number[i], count);
  for (uint32_t next = 0; next < count;) {
    uint32_t first = next;
    next = root_send_members(root, by_number, first, count);
    if (next == first)
      break; // no memory: root_send_all has ended the connections
  }
  free(by_number);
}

static void root_close_gathering(struct rondo_root *root) {
  root->phase = ROSTER_SENT;
  evtimer_del(&root->deadline);
  evtimer_del(&root->reminder);
  root_send_roster(root);
  root_on_losses(-1, 0, root);
  rondo_log(RONDO_LOG_INFO, "root: %u of %u ranks have joined", root->joined_count,
            root->rank_count);
}

static void root_on_deadline(evutil_socket_t fd, short what, void *arg) {
  struct rondo_root *root = arg;
  char text[TEXT_BYTES];
  uint32_t count;
  (void)fd, (void)what;
  if (root->phase == LEAVING || !root->rank_count) {
    if (root->phase != LEAVING)
      rondo_log(RONDO_LOG_WARN, "root: no process joined in time; the job's id is no longer valid");
    root_free(root);
    return;
  }
  uint32_t *ranks = root_list_ranks(root, false, &count);
  root_close_gathering(root);
  if (!ranks)
    return;
  rondo_root_ranks_text(ranks, count, text, sizeof text);
  rondo_log(RONDO_LOG_ERROR, "root: %u of %u ranks did not join within %llu ms: %s", count,
            root->rank_count, ns_to_ms(root->join_timeout_ns), text);
  (void)snprintf(text, sizeof text, "it did not join within %llu ms",
                 ns_to_ms(root->join_timeout_ns));
  root_send_loss(root, RONDO_MESH_MISSING, text, ranks, count);
  free(ranks);
}

static void root_on_reminder(evutil_socket_t fd, short what, void *arg) {
  struct rondo_root *root = arg;
  char text[TEXT_BYTES];
  uint32_t count;
  (void)fd, (void)what;
  uint32_t *ranks = root_list_ranks(root, false, &count);
  root->reminder_ns *= 2;
  rondo_event_loop_timer_set(&root->reminder, root->reminder_ns);
  if (!ranks)
    return;
  rondo_root_ranks_text(ranks, count, text, sizeof text);
  rondo_log(RONDO_LOG_WARN, "root: still waiting for %u of %u ranks: %s", count, root->rank_count,
            text);
  uint32_t listed = count < LISTED_RANKS ? count : LISTED_RANKS; // a log line has room for few
  size_t capacity = 8 + 4 * (size_t)listed;
  struct rondo_shared_bytes *blob = rondo_shared_bytes_create(NULL, capacity);
  struct rondo_wire_writer w = blob_writer(blob, capacity);
  rondo_wire_put_u32(&w, count);
  rondo_wire_put_ranks(&w, ranks, listed);
  if (blob) {
    blob->size = (uint32_t)w.size;
    root_send_all(root, RONDO_WIRE_MISSING, blob);
  }
  free(ranks);
}

// ------------------------------------------------------------------- members ---

static void member_reject(struct member *m, int status, const char *text) {
  uint8_t bytes[2 + RONDO_WIRE_TEXT_BYTES];
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = sizeof bytes};
  rondo_wire_put_u8(&w, (uint8_t)status);
  rondo_wire_put_text(&w, text);
  rondo_channel_send_bytes(m->channel, RONDO_WIRE_REJECT, bytes, w.size);
  rondo_log(RONDO_LOG_WARN, "root: rejected %s, pid %u (%s): %s", m->where.host, m->where.pid,
            m->channel->remote, text);
}

static bool root_try_begin_gathering(struct rondo_root *root, uint32_t rank_count) {
  root->holders = calloc(rank_count, sizeof(struct member *));
  root->leavers = calloc(rank_count, 1);
  if (!root->holders || !root->leavers)
    return false;
  root->rank_count = rank_count;
  root->listener.members = rank_count;
  rondo_event_loop_make_room(rank_count);
  uint64_t timeout_ns = root->join_timeout_ns;
  root->reminder_ns = timeout_ns / 4 < FIRST_REMINDER_NS ? timeout_ns / 4 : FIRST_REMINDER_NS;
  rondo_event_loop_timer_set(&root->deadline, timeout_ns);
  rondo_event_loop_timer_set(&root->reminder, root->reminder_ns);
  return true;
}

// Checks that ranks may join; otherwise writes the reason to `text` (TEXT_BYTES). Returns an enum
// rondo_status.
static int root_check_ranks(const struct rondo_root *root, const struct rondo_wire_member *where,
                            char *text) {
  for (uint32_t i = 0; i < where->rank_count; i++) {
    uint32_t rank = where->ranks[i];
    if (rank >= root->rank_count) {
      (void)snprintf(text, TEXT_BYTES, "rank %u is not below %u, the number of ranks", rank,
                     root->rank_count);
      return RONDO_ERR_INVALID;
    }
    const struct member *holder = root->holders[rank];
    if (holder) {
      (void)snprintf(text, TEXT_BYTES, "rank %u has already joined: %s, pid %u", rank,
                     holder->where.host, holder->where.pid);
      return RONDO_ERR_EXISTS;
    }
  }
  if (root->phase == GATHERING)
    return RONDO_SUCCESS;
  (void)snprintf(text, TEXT_BYTES, "rank %u joins too late", where->ranks[0]);
  return RONDO_ERR_TIMEOUT;
}

static void member_add_ranks(struct member *m, const uint32_t *ranks, uint32_t count) {
  struct rondo_root *root = m->root;
  for (uint32_t i = 0; i < count; i++)
    root->holders[ranks[i]] = m;
  root->joined_count += count;
  if (root->joined_count == root->rank_count)
    root_close_gathering(root);
}

// The handlers below are false if the frame is malformed or not allowed now.
static bool member_on_join(struct member *m, struct rondo_wire_reader *r) {
  struct rondo_root *root = m->root;
  struct rondo_wire_member where;
  char text[TEXT_BYTES] = "no memory";
  uint32_t rank_count = rondo_wire_get_u32(r);
  rondo_wire_get_member(r, &where, NULL);
  if (!rondo_wire_is_done(r) || m->where.rank_count || !where.rank_count || rank_count == 0 ||
      rank_count > RONDO_MAX_RANKS) {
    rondo_wire_member_fini(&where);
    return false;
  }
  int status = RONDO_ERR_NO_MEMORY;
  if (root->rank_count || root_try_begin_gathering(root, rank_count))
    status = root_check_ranks(root, &where, text);
  if (root->rank_count && root->rank_count != rank_count) {
    (void)snprintf(text, sizeof text, "it expects a job of %u ranks, the others one of %u",
                   rank_count, root->rank_count);
    status = RONDO_ERR_INVALID;
  }
  m->where = where;
  if (status == RONDO_SUCCESS) {
    member_add_ranks(m, where.ranks, where.rank_count);
    return true;
  }
  member_reject(m, status, text);
  rondo_wire_member_fini(&m->where);
  return true;
}

static bool member_on_add(struct member *m, struct rondo_wire_reader *r) {
  uint32_t rank = rondo_wire_get_u32(r);
  char text[TEXT_BYTES];
  struct rondo_topology_place place;
  struct rondo_wire_member one = {.rank_count = 1, .ranks = &rank};
  rondo_wire_get_place(r, &place);
  if (!rondo_wire_is_done(r) || !m->where.rank_count)
    return false;
  int status = root_check_ranks(m->root, &one, text);
  if (status == RONDO_SUCCESS && !rondo_wire_member_try_insert(&m->where, rank, &place)) {
    (void)snprintf(text, sizeof text, "no memory");
    status = RONDO_ERR_NO_MEMORY;
  }
  if (status == RONDO_SUCCESS)
    member_add_ranks(m, &rank, 1);
  else
    member_reject(m, status, text);
  return true;
}

static bool member_on_gone(struct member *m, struct rondo_wire_reader *r) {
  struct rondo_root *root = m->root;
  uint32_t rank = rondo_wire_get_u32(r);
  if (!rondo_wire_is_done(r) || !m->where.rank_count)
    return false;
  // A rank that leaves before the roster is sent still counts as joined; the others are told of
  // both.
  if (rank < root->rank_count && root->holders[rank] == m)
    root_note_leaver(root, rank);
  return true;
}

static const char *loss_text(int reason) {
  if (reason == RONDO_MESH_DIED)
    return "ended without leaving the job";
  return reason == RONDO_MESH_SILENT ? "cannot be reached any more" : "violated the protocol";
}

// Removes the ranks of a member that is gone. They may join again while the root is gathering,
// unless the member said that it leaves.
static void member_release_ranks(struct member *m, bool has_left) {
  struct rondo_root *root = m->root;
  bool may_return = root->phase == GATHERING && !has_left;
  for (uint32_t i = 0; i < m->where.rank_count; i++)
    root->holders[m->where.ranks[i]] = may_return ? NULL : &lost_member;
  if (may_return)
    root->joined_count -= m->where.rank_count;
}

static void member_on_closed(void *owner, struct rondo_channel *c, int how, const char *why) {
  struct member *m = owner;
  struct rondo_root *root = m->root;
  struct rondo_wire_member where = m->where;
  char text[TEXT_BYTES];
  (void)c;
  bool has_left = m->number == RONDO_MESH_NOBODY;
  int reason = rondo_channel_end_reason(how);
  member_release_ranks(m, has_left);
  m->where.rank_count = 0; // root_send_all skips it
  if (where.rank_count && !has_left && root->phase != LEAVING) {
    (void)snprintf(text, sizeof text, "%s, pid %u, %s (%s)", where.host, where.pid,
                   loss_text(reason), why);
    rondo_log(RONDO_LOG_INFO, "root: lost %u ranks from rank %u on: %s", where.rank_count,
              where.ranks[0], text);
    if (root->phase == ROSTER_SENT)
      root_send_loss(root, reason, text, where.ranks, where.rank_count);
  }
  member_free(m);
  if (root->phase != GATHERING && LIST_EMPTY(&root->members))
    root_free(root);
}

// Closes the connection, which tells the member that its goodbye has arrived.
static bool member_on_bye(struct member *m, struct rondo_wire_reader *r) {
  struct rondo_channel *c = m->channel;
  if (!rondo_wire_is_done(r))
    return false;
  for (uint32_t i = 0; i < m->where.rank_count; i++)
    root_note_leaver(m->root, m->where.ranks[i]);
  m->number = RONDO_MESH_NOBODY;
  rondo_channel_close(c);
  member_on_closed(m, c, RONDO_CHANNEL_CUT, "");
  return true;
}

static void member_on_frame(void *owner, struct rondo_channel *c,
                            struct rondo_channel_frame *frame) {
  static bool (*const handlers[])(struct member *, struct rondo_wire_reader *) = {
      [RONDO_WIRE_JOIN] = member_on_join,
      [RONDO_WIRE_ADD] = member_on_add,
      [RONDO_WIRE_GONE] = member_on_gone,
      [RONDO_WIRE_BYE] = member_on_bye,
  };
  struct rondo_wire_reader r = rondo_wire_read(&frame->wire);
  uint8_t type = frame->wire.head.type;
  bool is_known = type < sizeof handlers / sizeof *handlers && handlers[type];
  if (!is_known || !handlers[type](owner, &r))
    rondo_channel_refuse(c, RONDO_WIRE_REFUSE_GARBAGE);
}

static const struct rondo_channel_events member_events = {.frame = member_on_frame,
                                                          .closed = member_on_closed};

static void root_on_authenticated(void *arg, struct rondo_channel *c) {
  struct rondo_root *root = arg;
  struct member *m = calloc(1, sizeof *m);
  if (!m) {
    rondo_channel_close(c);
    return;
  }
  m->root = root;
  m->channel = c;
  LIST_INSERT_HEAD(&root->members, m, listed);
  root->member_count++;
  c->events = &member_events;
  c->owner = m;
}

// ------------------------------------------------------------ start and leave ---

static void root_start(void *arg) {
  struct rondo_root *root = arg;
  struct event_base *base = rondo_event_loop_base(root->loop);
  evtimer_assign(&root->deadline, base, root_on_deadline, root);
  evtimer_assign(&root->reminder, base, root_on_reminder, root);
  evtimer_assign(&root->losses, base, root_on_losses, root);
  rondo_listener_start(&root->listener);
  rondo_event_loop_timer_set(&root->deadline, UNUSED_FACTOR * root->join_timeout_ns);
}

int rondo_root_open(const struct rondo_root_config *cfg) {
  struct rondo_root *root = calloc(1, sizeof *root);
  if (!root)
    return RONDO_ERR_NO_MEMORY;
  root->job = cfg->job;
  root->join_timeout_ns = cfg->join_timeout_ns;
  int status = rondo_listener_open(&root->listener, cfg->addresses, cfg->address_count);
  if (status == RONDO_SUCCESS) {
    root->loop = rondo_event_loop_get();
    if (!root->loop) {
      errno = EAGAIN;
      status = RONDO_ERR_SYSTEM;
    }
  }
  if (status != RONDO_SUCCESS) {
    rondo_listener_close(&root->listener);
    free(root);
    return status;
  }
  struct rondo_channel_config channels = {.loop = root->loop,
                                          .job = &root->job,
                                          .counters = &root->counters,
                                          .peer_timeout_ns = cfg->peer_timeout_ns};
  root->listener.channels = channels;
  root->listener.name = "root";
  root->listener.purpose = RONDO_WIRE_TO_ROOT;
  root->listener.to = RONDO_MESH_NOBODY;
  root->listener.authenticated = root_on_authenticated;
  root->listener.arg = root;
  root->start.call = root_start;
  root->start.arg = root;
  pthread_mutex_lock(&roots_lock);
  LIST_INSERT_HEAD(&roots, root, listed);
  pthread_mutex_unlock(&roots_lock);
  rondo_event_loop_post(root->loop, &root->start);
  return RONDO_SUCCESS;
}

bool rondo_root_is_here(const struct rondo_job_key *job) { return root_find(job) != NULL; }

bool rondo_root_is_gathering(const struct rondo_job_key *job) {
  const struct rondo_root *root = root_find(job);
  return root && root->phase == GATHERING;
}

void rondo_root_counters(const struct rondo_job_key *job, struct rondo_mesh_counters *out) {
  memset(out, 0, sizeof *out);
  pthread_mutex_lock(&roots_lock);
  const struct rondo_root *root = root_find_locked(job);
  if (root)
    rondo_copy_relaxed_u64(out, &root->counters, sizeof *out);
  pthread_mutex_unlock(&roots_lock);
}

void rondo_root_leave(const struct rondo_job_key *job) {
  struct rondo_root *root = root_find(job);
  if (!root || root->phase == LEAVING)
    return;
  if (root->rank_count)
    root_on_losses(-1, 0, root);
  root->phase = LEAVING;
  if (LIST_EMPTY(&root->members)) {
    root_free(root);
    return;
  }
  evtimer_del(&root->reminder);
  root_send_all(root, RONDO_WIRE_BYE, rondo_shared_bytes_create(NULL, 0));
  rondo_event_loop_timer_set(&root->deadline, LEAVE_NS);
}
