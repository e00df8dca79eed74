// Membership reads or refuses every message and every log. A core never reads past the end of what
// its peers send. The first byte says what the input is.
#include "runtime/job/admission.h"
#include "runtime/job/ballot.h"
#include "runtime/job/epoch_log.h"
#include "runtime/job/gather.h"
#include "runtime/job/membership.h"
#include "tests/support/fuzz.h"

#define PROCESSES 12u
#define S UINT64_C(1000000000)

static const uint8_t job[16] = "a job of tests";

// The messages of newcomers, and a ballot. Of a ballot the input may be the beginning: zeros
// follow.
static void read_newcomers(const uint8_t *data, size_t size) {
  struct rondo_enter enter;
  struct rondo_admitted admitted;
  struct rondo_ballot ballot;
  uint8_t bytes[RONDO_BALLOT_BYTES] = {0};
  uint8_t again[RONDO_BALLOT_BYTES];
  if (rondo_membership_enter_decode(data, size, &enter))
    RONDO_FUZZ_CHECK(enter.who && memchr(enter.text, '\0', sizeof enter.text));
  if (rondo_membership_admitted_decode(data, size, &admitted))
    RONDO_FUZZ_CHECK(admitted.rank < admitted.rank_count);
  memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
  if (!rondo_ballot_decode(bytes, &ballot))
    return;
  RONDO_FUZZ_CHECK(memchr(ballot.text, '\0', sizeof ballot.text) != NULL);
  rondo_ballot_encode(&ballot, again);
  RONDO_FUZZ_CHECK(rondo_ballot_decode(again, &ballot));
}

// Newcomers ask with any bytes, are reserved, admitted and put back.
static void drive_admission(const uint8_t *data, size_t size) {
  const struct rondo_admitted first = {.rank = 1, .rank_count = 9};
  struct rondo_admission *a = rondo_admission_create();
  for (size_t at = 0; at < size && at < 32; at++) {
    uint64_t who = 0;
    rondo_shared_bytes_put(rondo_admission_receive(a, data + at, size - at, &who));
    if (at % 3 == 0 && rondo_admission_reserve(a, 1, 2))
      rondo_admission_admit(a, &first);
    rondo_shared_bytes_put(rondo_admission_news(a, who));
    if (at % 4 == 0)
      rondo_admission_lose(a, who);
    if (at % 5 == 0)
      rondo_admission_settle(a, (enum rondo_admission_end)(at % 3));
  }
  rondo_admission_destroy(a);
}

static void read_message(const uint8_t *data, size_t size) {
  struct rondo_membership_message m;
  struct rondo_join join;
  struct rondo_joined joined;
  read_newcomers(data, size);
  (void)rondo_membership_joined_decode(data, size, &joined);
  (void)rondo_membership_join_decode(data, size, &join);
  if (!rondo_membership_message_decode(data, size, &m))
    return;
  RONDO_FUZZ_CHECK(m.type < RONDO_MEMBERSHIP_TYPES && m.epoch <= RONDO_EPOCH_MAX_NUMBER);
  for (uint32_t i = 0; i < m.count && m.type == RONDO_MEMBERSHIP_REPORT; i++) {
    struct rondo_report_item item;
    rondo_membership_report_next(&m.body, &item);
    RONDO_FUZZ_CHECK(!m.body.bad && memchr(item.text, '\0', sizeof item.text));
  }
  bool has_changes = m.type == RONDO_MEMBERSHIP_EPOCH || m.type == RONDO_MEMBERSHIP_PROPOSE ||
                     m.type == RONDO_MEMBERSHIP_PROMISE;
  for (uint32_t i = 0; i < m.count && has_changes; i++) {
    struct rondo_shared_bytes *change = rondo_membership_change_next(&m.body);
    RONDO_FUZZ_CHECK(!m.body.bad);
    rondo_shared_bytes_put(change);
  }
}

static void read_roster(const uint8_t *data, size_t size) {
  struct rondo_shared_bytes *bytes = rondo_shared_bytes_create(data, (uint32_t)size);
  struct rondo_roster *roster = rondo_roster_decode(bytes);
  struct rondo_epoch *e = roster ? rondo_epoch_begin(roster) : NULL;
  for (uint32_t p = 0; e && p < roster->process_count; p++) {
    struct rondo_roster_entry entry;
    uint32_t observers[RONDO_EPOCH_OBSERVERS];
    rondo_roster_entry_get(roster, p, &entry);
    RONDO_FUZZ_CHECK(entry.bytes + entry.size <= bytes->bytes + bytes->size);
    RONDO_FUZZ_CHECK(rondo_epoch_observers(e, p, observers) <= RONDO_EPOCH_OBSERVERS);
  }
  rondo_epoch_put(e);
  rondo_roster_put(roster);
  rondo_shared_bytes_put(bytes);
}

static void read_log(const uint8_t *data, size_t size) {
  struct rondo_epoch_log log;
  char text[RONDO_EPOCH_LOG_TEXT_BYTES];
  if (rondo_epoch_log_read(data, size, job, &log, text))
    RONDO_FUZZ_CHECK(log.size <= size);
  else
    RONDO_FUZZ_CHECK(text[0]);
  rondo_epoch_log_fini(&log);
}

static struct rondo_shared_bytes *make_roster(void) {
  struct rondo_roster_source sources[PROCESSES];
  struct rondo_rank_range ranges[PROCESSES];
  uint8_t absence[PROCESSES] = {0};
  for (uint32_t i = 0; i < PROCESSES; i++) {
    ranges[i] = (struct rondo_rank_range){i, 1, 1};
    sources[i] = (struct rondo_roster_source){1 + i % 3, &ranges[i], 1, 1, job};
  }
  return rondo_roster_encode(sources, PROCESSES, PROCESSES, absence, false);
}

static void core_step(struct rondo_membership *m, struct rondo_membership_event event,
                      uint64_t *now_ns) {
  struct rondo_membership_actions actions = {NULL, 0, 0};
  event.now_ns = *now_ns;
  rondo_membership_step(m, &event, &actions);
  for (uint32_t i = 0; i < actions.count; i++)
    if (actions.items[i].type == RONDO_MEMBERSHIP_SEND)
      RONDO_FUZZ_CHECK(actions.items[i].bytes->size <= RONDO_MEMBERSHIP_MESSAGE_BYTES &&
                       (actions.items[i].process < PROCESSES ||
                        actions.items[i].process == RONDO_MEMBERSHIP_ROOT));
  rondo_membership_actions_fini(&actions);
}

// Messages of any bytes, with a good type and epoch put in front, and time between.
static void drive_core(struct rondo_fuzz_input *in) {
  struct rondo_rank_range range = {(uint32_t)rondo_fuzz_take(in, 1) % PROCESSES, 1, 1};
  struct rondo_membership_config cfg = {
      .join = {.who = 1, .rank_count = PROCESSES, .range_count = 1, .bytes = job},
      .ranges = &range,
      .join_timeout_ns = S,
      .peer_timeout_ns = S,
      .keeps_log = rondo_fuzz_take(in, 1) & 1};
  char text[RONDO_MEMBERSHIP_TEXT_BYTES];
  uint64_t now_ns = S;
  struct rondo_membership *m = rondo_membership_create(&cfg, now_ns, text);
  struct rondo_shared_bytes *roster = make_roster();
  core_step(m,
            (struct rondo_membership_event){
                .type = RONDO_MEMBERSHIP_BEGIN, .bytes = roster->bytes, .size = roster->size},
            &now_ns);
  rondo_shared_bytes_put(roster);
  while (in->size > 4) {
    uint8_t bytes[260];
    struct rondo_membership_event event = {.type = (uint8_t)(rondo_fuzz_take(in, 1) % 10)};
    size_t size = rondo_fuzz_take(in, 1);
    event.process = (uint32_t)rondo_fuzz_take(in, 1) % (PROCESSES + 2);
    size = size < in->size ? size : in->size;
    memcpy(bytes, in->data, size);
    in->data += size;
    in->size -= size;
    if (event.type == RONDO_MEMBERSHIP_BEGIN || event.type == RONDO_MEMBERSHIP_BLOCK)
      event.type = RONDO_MEMBERSHIP_RECEIVE;
    if (event.type == RONDO_MEMBERSHIP_INSPECTED)
      event.state = size % 4;
    event.is_proven = size & 1;
    event.number = size;
    event.bytes = bytes;
    event.size = size;
    if (event.type != RONDO_MEMBERSHIP_RECEIVE)
      event.process %= PROCESSES;
    core_step(m, event, &now_ns);
    now_ns += (uint64_t)size * size * 100000;
  }
  rondo_membership_destroy(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_fuzz_input in = {data, size};
  switch (rondo_fuzz_take(&in, 1) % 5) {
  case 0:
    read_message(in.data, in.size);
    break;
  case 1:
    read_roster(in.data, in.size);
    break;
  case 2:
    read_log(in.data, in.size);
    break;
  case 3: {
    struct rondo_gather *g = rondo_gather_create(S, false);
    rondo_shared_bytes_put(rondo_gather_receive(g, in.data, in.size, S));
    rondo_shared_bytes_put(rondo_gather_finish(g, 3 * S));
    rondo_gather_destroy(g);
    drive_admission(in.data, in.size);
    break;
  }
  default:
    drive_core(&in);
  }
  return 0;
}
