// Members on another machine that say what they have called of a communicator: honestly, differing,
// and anything.
//
// The first byte is 1: other inputs are left out, since a run takes a millisecond. Then things
// happen, one byte each with what follows it: see `happen`. As long as all is honest it is known
// what has to be found: ranks that differ fail, and those that do not go on; and what rank 0 says
// is what it has called.
#include <poll.h>
#include <unistd.h>

#include "runtime/job/message.h"
#include "runtime/job/processes.h"
#include "runtime/order/journal.h"
#include "runtime/rank/rank.h"
#include "runtime/transport/carrier.h"
#include "runtime/transport/transports.h"
#include "tests/support/fuzz.h"
#include "tests/support/hand_mesh.h"
#include "tests/support/null_carrier.h"
#include <rondo/comm.h>

#define RANKS 3u
#define MOST_CALLS 400u
#define MOST_HAPPENINGS 40u
#define LONG_NS INT64_C(20000000000)
#define TRIES 20000

// As runtime/order/journal_replica.c sends it.
struct calls {
  struct rondo_journal_name name;
  uint32_t is_over, count;
  uint64_t stamp, first;
  uint64_t compared[2];
};
struct message {
  struct calls head;
  struct rondo_signature calls[RONDO_JOURNAL_ENTRIES];
};

// What a rank has called, in elements, and how much of it the others have been told.
struct caller {
  uint32_t calls[MOST_CALLS];
  uint32_t count, told;
  uint64_t stamp;    // of its journal
  uint64_t compared; // with it, as rank 0 has said
};

static struct {
  struct rondo_context ctx;
  struct rondo_comm comm;
  uint64_t key, stamps;
  struct caller ranks[RANKS];
  int is_honest;  // nothing was said that no member says
  int has_failed; // somebody has said that the communicator has failed, or has left it
  int has_lost;   // a rank is lost, for the whole of the job
} model;

// --------------------------------------------------------------- the carrier ---

// One that takes everything and delivers nothing: these runs have no data.
static const struct rondo_carrier_events *carrier_events;
static void *carrier_arg;
static char carrier;

static int carrier_open(const struct rondo_carrier_config *config, struct rondo_carrier **out,
                        char *why, size_t why_bytes) {
  (void)why, (void)why_bytes;
  carrier_events = config->events;
  carrier_arg = config->arg;
  *out = (struct rondo_carrier *)&carrier;
  return RONDO_SUCCESS;
}

static const void *carrier_address(struct rondo_carrier *c, size_t *bytes) {
  *bytes = 1;
  return c;
}

static int carrier_send(struct rondo_carrier *c, const struct rondo_carrier_message *message) {
  (void)c;
  carrier_events->sent(carrier_arg, message->ticket, RONDO_SUCCESS);
  return RONDO_SUCCESS;
}

static void carrier_sleep(struct rondo_carrier *c, uint64_t timeout_ns, int is_armed) {
  (void)c, (void)timeout_ns, (void)is_armed;
  (void)poll(NULL, 0, 1);
}

static const struct rondo_carrier_calls carrier_calls = {.name = "nothing",
                                                         .open = carrier_open,
                                                         .address = carrier_address,
                                                         .connect = rondo_null_connect,
                                                         .send = carrier_send,
                                                         .progress = rondo_null_progress,
                                                         .arm = rondo_null_arm,
                                                         .sleep = carrier_sleep,
                                                         .wake = rondo_null_wake,
                                                         .disconnect = rondo_null_disconnect,
                                                         .close = rondo_null_close};

// ------------------------------------------------------------------- rank 0 ---

// What everybody calls who does not differ.
static uint32_t usual(uint32_t call) { return 1 + call % 3 + call / 7 % 2; }

static struct rondo_signature signature_of(uint32_t count) {
  const struct rondo_collective_desc d = rondo_all_reduce(0, count, RONDO_INT32, RONDO_SUM);
  return rondo_signature_of(&d, 0);
}

static void open_comm(void) {
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  cfg.key = ++model.key;
  cfg.cached_collectives = 4;
  memset(model.ranks, 0, sizeof model.ranks);
  model.has_failed = model.has_lost;
  for (uint32_t r = 1; r < RANKS; r++)
    model.ranks[r].stamp = ++model.stamps;
  RONDO_FUZZ_CHECK(rondo_comm_create(model.ctx, &cfg, &model.comm) == RONDO_SUCCESS);
}

static void call_as_rank_0(uint32_t how) {
  static int32_t data[16];
  struct caller *own = &model.ranks[0];
  uint32_t count = usual(own->count) + (how & 0x80 ? 7 : 0);
  const struct rondo_collective_desc d = rondo_all_reduce(0, count, RONDO_INT32, RONDO_SUM);
  const struct rondo_run_args args = {data, data, NULL, NULL};
  if (own->count == MOST_CALLS)
    return;
  int status = rondo_comm_call(model.ctx, model.comm, &d, &args, NULL);
  RONDO_FUZZ_CHECK(status == RONDO_SUCCESS || status == RONDO_ERR_MISMATCH || !model.is_honest ||
                   model.has_failed);
  if (status == RONDO_SUCCESS)
    own->calls[own->count++] = count;
}

// What goes to the others is what was called, one behind the other, but for what rank 0 has
// compared with both by itself.
static void on_sent(const struct rondo_mesh_send *m) {
  struct message told;
  struct caller *own = &model.ranks[0];
  if (m->type != RONDO_MESSAGE_CALLS)
    return;
  RONDO_FUZZ_CHECK(m->size >= sizeof told.head && m->size <= sizeof told);
  memcpy(&told, m->bytes, m->size);
  const struct calls *head = &told.head;
  RONDO_FUZZ_CHECK(m->size == sizeof *head + head->count * sizeof *told.calls);
  if (head->name.key != model.key || head->name.rank || !model.is_honest)
    return;
  uint64_t compared = head->compared[0] < head->compared[1] ? head->compared[0] : head->compared[1];
  RONDO_FUZZ_CHECK(head->first == own->told ||
                   (head->first > own->told && head->first <= compared));
  RONDO_FUZZ_CHECK(head->first + head->count <= own->count + 1);
  for (uint32_t i = 0; i < head->count && head->first + i < own->count; i++) {
    const struct rondo_signature s = signature_of(own->calls[head->first + i]);
    RONDO_FUZZ_CHECK(rondo_signature_equal(&s, &told.calls[i]));
  }
  own->told = (uint32_t)head->first + head->count;
  model.ranks[2].compared = head->compared[0]; // before rank 0
  model.ranks[1].compared = head->compared[1]; // behind it
}

// --------------------------------------------------------------- the others ---

static void spoil(struct rondo_fuzz_input *in, void *bytes, size_t size) {
  uint32_t count = (uint32_t)rondo_fuzz_take(in, 1) % 4;
  for (uint32_t i = 0; i < count; i++) {
    size_t at = rondo_fuzz_take(in, 2) % size;
    ((uint8_t *)bytes)[at] = (uint8_t)rondo_fuzz_take(in, 1);
    model.is_honest = 0;
  }
}

static void call_elsewhere(struct rondo_fuzz_input *in, uint32_t how) {
  struct caller *c = &model.ranks[1 + how / 8 % (RANKS - 1)];
  uint32_t more = (uint32_t)rondo_fuzz_take(in, 1) % 80;
  for (uint32_t i = 0; i < more && c->count < MOST_CALLS; i++, c->count++)
    c->calls[c->count] = usual(c->count) + (how & 0x80 && i == 0 ? 5 : 0);
}

// How many calls a rank can have compared with those of rank 0, having found nothing.
static uint32_t equal_calls(const struct caller *c) {
  const struct caller *own = &model.ranks[0];
  uint32_t most = c->told < own->told ? c->told : own->told;
  uint32_t equal = 0;
  while (equal < most && c->calls[equal] == own->calls[equal])
    equal++;
  return equal;
}

// Says what has not been said yet, a message of as many calls as the input says at a time.
static void tell(struct rondo_fuzz_input *in, uint32_t how, int is_spoilt) {
  uint32_t rank = 1 + how / 8 % (RANKS - 1);
  struct caller *c = &model.ranks[rank];
  struct message m;
  const struct calls head = {.name = {.key = model.key,
                                      .from = RONDO_SERIES_COLLECTIVE,
                                      .to = RONDO_SERIES_COLLECTIVE,
                                      .rank = rank},
                             .stamp = c->stamp,
                             .first = c->told};
  uint32_t most = 1 + (uint32_t)rondo_fuzz_take(in, 1) % RONDO_JOURNAL_ENTRIES;
  // A ring: it does not go further ahead of the compared calls than it has entries.
  uint64_t room = c->compared + RONDO_JOURNAL_ENTRIES;
  memset(&m, 0, sizeof m);
  m.head = head;
  while (m.head.count < most && c->told < c->count && c->told < room)
    m.calls[m.head.count++] = signature_of(c->calls[c->told++]);
  m.head.compared[rank == 1 ? 0 : 1] = equal_calls(c); // rank 0 is before rank 1 and behind rank 2
  m.head.compared[rank == 1 ? 1 : 0] = c->told;
  size_t size = sizeof m.head + m.head.count * sizeof *m.calls;
  if (is_spoilt)
    spoil(in, &m, size);
  rondo_hand_mesh_say(RONDO_MESSAGE_CALLS, &m, size, -1);
}

static void say_it_is_over(uint32_t how) {
  uint32_t rank = 1 + how / 8 % (RANKS - 1);
  struct message m;
  memset(&m, 0, sizeof m);
  m.head.name.key = model.key;
  m.head.name.from = m.head.name.to = RONDO_SERIES_COLLECTIVE;
  m.head.name.rank = rank;
  m.head.stamp = model.ranks[rank].stamp;
  m.head.first = model.ranks[rank].told;
  m.head.is_over = 1;
  model.has_failed = 1;
  rondo_hand_mesh_say(RONDO_MESSAGE_CALLS, &m, sizeof m.head, -1);
}

// A communicator's failure (message.h), and a detachment as of comm_detach.h.
static void say_of_the_whole(struct rondo_fuzz_input *in, uint32_t how) {
  static const uint32_t members[RANKS] = {0, 1, 2};
  struct {
    struct rondo_message_entry head;
    struct rondo_member_range ranges[1];
    char why[5];
  } failed = {.head = {.key = {{model.key, RONDO_SPACE_KEY, 0}, 1, 0},
                       .limit = UINT64_MAX,
                       .limit_culprit = UINT32_MAX,
                       .facts = RONDO_ENTRY_FAILED,
                       .status = RONDO_ERR_ABORTED,
                       .culprit = 1 + how / 8 % (RANKS - 1),
                       .other = UINT32_MAX,
                       .range_count = 1,
                       .text_bytes = sizeof failed.why},
              .ranges = {{0, RANKS, 1}},
              .why = "fuzz"};
  struct {
    uint64_t key;
    uint32_t rank, to;
    uint64_t collective, sent, received;
  } left = {.key = model.key, .rank = 1 + how / 8 % (RANKS - 1)};
  left.collective = rondo_fuzz_take(in, 1);
  model.has_failed = 1;
  if (how & 0x20) {
    struct rondo_member_lists lists;
    rondo_member_lists_init(&lists, RANKS);
    failed.head.key.group = rondo_member_lists_get(&lists, members, RANKS)->digest;
    rondo_member_lists_fini(&lists);
    size_t size = sizeof failed.head + sizeof failed.ranges + sizeof failed.why;
    spoil(in, &failed, size);
    rondo_hand_mesh_say(RONDO_MESSAGE_ENTRY, &failed, size, -1);
  } else {
    spoil(in, &left, sizeof left);
    rondo_hand_mesh_say(RONDO_MESSAGE_COMM_DETACHED, &left, sizeof left, -1);
  }
}

static void lose(uint32_t how) {
  uint32_t rank = 1 + how / 8 % (RANKS - 1);
  model.has_failed = model.has_lost = 1;
  rondo_hand_mesh.events.lost(rondo_hand_mesh.arg, &rank, 1, RONDO_LOST_LEFT + (int)(how / 16 % 5),
                              "fuzz");
}

// ------------------------------------------------------------------- verdict ---

static int state(void) {
  int is = RONDO_SUCCESS;
  char why[RONDO_REASON_BYTES];
  RONDO_FUZZ_CHECK(rondo_comm_status(model.ctx, model.comm, &is, why, sizeof why) == RONDO_SUCCESS);
  if (is == RONDO_ERR_MISMATCH && model.is_honest && !model.has_failed)
    RONDO_FUZZ_CHECK(strstr(why, "rank 0 called ") && strstr(why, "mismatch of call "));
  return is;
}

// 1 if rank 0 and another one differ in a call of which both have written, as it is known here.
static int has_difference(void) {
  const struct caller *own = &model.ranks[0];
  uint32_t known =
      model.ranks[1].told < model.ranks[2].told ? model.ranks[1].told : model.ranks[2].told;
  for (uint32_t r = 1; r < RANKS; r++)
    for (uint32_t i = 0; i < own->count && i < model.ranks[r].told; i++)
      if (own->calls[i] != model.ranks[r].calls[i])
        return i < known + RONDO_JOURNAL_ENTRIES;
  return 0;
}

static int may_differ(void) {
  for (uint32_t r = 1; r < RANKS; r++)
    for (uint32_t i = 0; i < model.ranks[0].count && i < model.ranks[r].told; i++)
      if (model.ranks[0].calls[i] != model.ranks[r].calls[i])
        return 1;
  return 0;
}

// A worker may have been comparing when the message came: then it is looked at later.
static void judge(void) {
  if (!model.is_honest || model.has_failed)
    return;
  int wanted = has_difference();
  for (int i = 0; i < TRIES && wanted && state() == RONDO_SUCCESS; i++) {
    rondo_hand_mesh_ring();
    (void)rondo_comm_test(model.ctx, model.comm, NULL);
  }
  int is = state();
  RONDO_FUZZ_CHECK(is == RONDO_SUCCESS ? !wanted : is == RONDO_ERR_MISMATCH && may_differ());
}

static void change_comm(void) {
  judge();
  RONDO_FUZZ_CHECK(rondo_comm_destroy(model.ctx, model.comm, RONDO_DESTROY_ABORT, LONG_NS) ==
                   RONDO_SUCCESS);
  open_comm();
}

static void happen(struct rondo_fuzz_input *in) {
  uint32_t how = (uint32_t)rondo_fuzz_take(in, 1);
  switch (how % 8) {
  case 0:
  case 1:
    for (uint32_t i = 0; i <= how / 8 % 16; i++)
      call_as_rank_0(i == 0 ? how : 0);
    break;
  case 2:
    call_elsewhere(in, how);
    break;
  case 3:
  case 4:
    tell(in, how, how & 0x40);
    break;
  case 5:
    rondo_hand_mesh_ring();
    break;
  case 6:
    judge();
    break;
  default:
    if (how / 64 == 0)
      change_comm();
    else if (how / 64 == 1)
      say_it_is_over(how);
    else if (how / 64 == 2)
      say_of_the_whole(in, how);
    else
      lose(how);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_fuzz_input in = {data + 1, size ? size - 1 : 0};
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  if (!size || data[0] != 1)
    return 0;
  (void)setenv("RONDO_LOG", "off", 1);
  rondo_transports_carrier = &carrier_calls;
  rondo_hand_mesh_put();
  rondo_hand_mesh.is_remote = 1;
  rondo_hand_mesh.sent = on_sent;
  memset(&model, 0, sizeof model);
  model.is_honest = 1;
  cfg.id.bytes[0] = 7;
  cfg.rank_count = RANKS;
  cfg.report_on_timeout = 0;
  RONDO_FUZZ_CHECK(rondo_init(&model.ctx, &cfg) == RONDO_SUCCESS);
  rondo_hand_mesh.events.roster(rondo_hand_mesh.arg);
  open_comm();
  for (uint32_t i = 0; i < MOST_HAPPENINGS && in.size; i++)
    happen(&in);
  judge();
  RONDO_FUZZ_CHECK(rondo_destroy(model.ctx, RONDO_DESTROY_ABORT, LONG_NS) == RONDO_SUCCESS);
  return 0;
}
