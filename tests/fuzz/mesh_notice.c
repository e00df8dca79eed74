// Members that know the secret and say anything about registrations: what is read lies within the
// message, and a process that has registered something itself lives through it.
//
// The first byte, below 8, says which: 0 to 3 offers to take apart; 4 to 7 things that
// happen to a process with two collectives, one byte each with what follows it: see `happen`.
// Inputs that begin otherwise are left out: a run takes a millisecond.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"

#include "runtime/job/job.h"
#include "runtime/job/message.h"
#include "runtime/observe/snapshot.h"
#include "runtime/transport/link_binding.h"
#include "tests/support/fuzz.h"
#include "tests/support/hand_mesh.h"

#define RANKS 3u
#define COLLECTIVES 2u
#define COUNT 20000u
#define ARENA_BYTES (UINT64_C(1) << 20)
#define LONG_NS INT64_C(20000000000)
#define MOST_HAPPENINGS 24u
#define BYTES 4096u
#define TYPES (RONDO_MESSAGE_WINDOW - RONDO_MESSAGE_ARENA + 1u)

// ------------------------------------------------------------- taking apart ---

static void take_apart(struct rondo_fuzz_input *in) {
  static uint64_t bytes[BYTES / 8];
  struct rondo_offers_message m;
  uint32_t rank_count = 1 + (uint32_t)rondo_fuzz_take(in, 1) % 16;
  size_t size = in->size < BYTES ? in->size : BYTES;
  memset(bytes, 0, sizeof bytes);
  if (size)
    memcpy(bytes, in->data, size);
  if (!rondo_message_offers_decode(bytes, size, rank_count, &m))
    return;
  const struct rondo_message_offers *h = m.head;
  const void *end = (const char *)bytes + size;
  RONDO_FUZZ_CHECK(h->rank < rank_count && h->position < h->descriptor.nranks);
  RONDO_FUZZ_CHECK(rondo_message_offers_bytes(h) == size);
  RONDO_FUZZ_CHECK(m.counts ? (const void *)(m.counts + 2 * (size_t)h->offer_count) == end
                            : (const void *)(m.offers + h->offer_count) == end);
  for (uint32_t i = 0; i < h->offer_count; i++)
    RONDO_FUZZ_CHECK(m.offers[i].from < rank_count);
}

// ------------------------------------------------------------ what is sent ---

// How far the ranks of a process are; the layouts are those of remote_views.c.
#define MOST_ENTRIES 4u
struct question {
  uint64_t round;
  uint32_t count, reserved;
  struct rondo_id wanted[COLLECTIVES];
};
struct answer {
  uint64_t round;
  uint32_t count, reserved;
  struct rondo_coll_view views[MOST_ENTRIES];
};

static uint64_t asked_round; // of the question that was sent last; 0: none

// Of what is sent, the first offers and what the agreement says are kept.
struct kept {
  size_t sizes[COLLECTIVES];
  uint64_t messages[COLLECTIVES][64];
  uint32_t count;
};
static struct kept kept_offers, kept_entries;

static void keep_in(struct kept *kept, const struct rondo_mesh_send *message) {
  if (kept->count == COLLECTIVES)
    return;
  RONDO_FUZZ_CHECK(message->size <= sizeof kept->messages[0]);
  kept->sizes[kept->count] = message->size;
  memcpy(kept->messages[kept->count++], message->bytes, message->size);
}

static void keep(const struct rondo_mesh_send *message) {
  RONDO_FUZZ_CHECK(message->to == 1);
  if (message->type == RONDO_MESSAGE_LOOK) {
    uint64_t round;
    memcpy(&round, message->bytes, sizeof round);
    rondo_store_release_u64(&asked_round, round);
  }
  if (message->type == RONDO_MESSAGE_OFFERS)
    keep_in(&kept_offers, message);
  if (message->type == RONDO_MESSAGE_ENTRY)
    keep_in(&kept_entries, message);
}

// --------------------------------------------------------------- happenings ---

// Overwrites bytes, as many as the input says, where it says.
static void spoil(struct rondo_fuzz_input *in, void *bytes, size_t size) {
  uint32_t count = (uint32_t)rondo_fuzz_take(in, 1) % 8;
  for (uint32_t i = 0; i < count; i++) {
    size_t at = rondo_fuzz_take(in, 2) % size;
    ((uint8_t *)bytes)[at] = (uint8_t)rondo_fuzz_take(in, 1);
  }
}

// Says where its memory is: what is no arena, too.
static void greet(struct rondo_fuzz_input *in) {
  uint32_t how = (uint32_t)rondo_fuzz_take(in, 1);
  struct rondo_message_arena hello = {.base = UINT64_C(1) << 32, .bytes = ARENA_BYTES};
  int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  RONDO_FUZZ_CHECK(fd >= 0 && ftruncate(fd, (off_t)ARENA_BYTES) == 0);
  if (how & 1)
    RONDO_FUZZ_CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  if (how & 2)
    spoil(in, &hello, sizeof hello);
  rondo_hand_mesh_say(RONDO_MESSAGE_ARENA, &hello, how & 4 ? sizeof hello - 1 : sizeof hello,
                      how & 8 ? -1 : fd);
  close(fd);
}

// What rank 0 has offered for a collective, as another rank would, and then spoilt.
static void offer(struct rondo_fuzz_input *in, uint32_t which) {
  struct {
    struct rondo_message_offers head;
    uint64_t rest[48];
  } message;
  struct rondo_offers_message m;
  if (kept_offers.count < COLLECTIVES)
    return;
  size_t size = kept_offers.sizes[which % COLLECTIVES];
  memcpy(&message, kept_offers.messages[which % COLLECTIVES], size);
  message.head.rank = message.head.position = 1 + which / COLLECTIVES % (RANKS - 1);
  if (rondo_message_offers_decode(&message, size, RANKS, &m) && message.head.offer_count)
    ((struct rondo_connector_offer *)((char *)&message + size))[-1].from = 0;
  spoil(in, &message, size);
  rondo_hand_mesh_say(RONDO_MESSAGE_OFFERS, &message, size, -1);
}

// What this process has said of an entry, as its parent or child in the tree would, with other
// facts.
static void agree(struct rondo_fuzz_input *in, uint32_t which) {
  struct {
    struct rondo_message_entry head;
    uint64_t rest[48];
  } message;
  if (kept_entries.count < COLLECTIVES)
    return;
  size_t size = kept_entries.sizes[which % COLLECTIVES];
  memcpy(&message, kept_entries.messages[which % COLLECTIVES], size);
  message.head.rank = 1;
  message.head.facts = RONDO_ENTRY_PROPOSED | (uint32_t)rondo_fuzz_take(in, 1);
  if (message.head.facts & RONDO_ENTRY_FAILED) {
    message.head.facts = RONDO_ENTRY_FAILED;
    message.head.status = RONDO_ERR_ABORTED;
    message.head.culprit = message.head.other = 1;
  }
  spoil(in, &message, size);
  rondo_hand_mesh_say(RONDO_MESSAGE_ENTRY, &message, size, -1);
}

static void announce(struct rondo_fuzz_input *in) {
  uint32_t which = (uint32_t)rondo_fuzz_take(in, 1);
  if (which & 128)
    agree(in, which);
  else
    offer(in, which);
}

static void take_leave(struct rondo_fuzz_input *in) {
  uint32_t how = (uint32_t)rondo_fuzz_take(in, 1);
  struct rondo_message_detach n = {.id.number = 1 + how % COLLECTIVES, .generation = 1};
  n.rank = how / 2 % RANKS;
  n.producer = how / 8 % RANKS;
  spoil(in, &n, sizeof n);
  rondo_hand_mesh_say(how / 32 % 2 ? RONDO_MESSAGE_RELEASE : RONDO_MESSAGE_DETACH, &n, sizeof n,
                      -1);
}

static void say_anything(struct rondo_fuzz_input *in) {
  uint64_t bytes[32];
  uint32_t type = RONDO_MESSAGE_ARENA + (uint32_t)rondo_fuzz_take(in, 1) % TYPES;
  size_t size = rondo_fuzz_take(in, 1);
  size = size < in->size ? size : in->size;
  if (size)
    memcpy(bytes, in->data, size);
  in->data += size;
  in->size -= size;
  rondo_hand_mesh_say(type, bytes, size, -1);
}

static void lose(struct rondo_fuzz_input *in) {
  uint32_t how = (uint32_t)rondo_fuzz_take(in, 1);
  uint32_t ranks[] = {1, 2};
  rondo_hand_mesh.events.lost(rondo_hand_mesh.arg, ranks + how % 2, 1 + how / 2 % 2 * (1 - how % 2),
                              RONDO_LOST_LEFT + (int)(how / 4 % 5), "fuzz");
}

// Asks how far the ranks here are.
static void ask(uint32_t how) {
  struct question q = {.round = how, .count = how % (COLLECTIVES + 1)};
  for (uint32_t i = 0; i < q.count; i++)
    q.wanted[i].number = 1 + (how + i) % COLLECTIVES;
  size_t size = sizeof q - (COLLECTIVES - q.count) * sizeof *q.wanted;
  rondo_hand_mesh_say(RONDO_MESSAGE_LOOK, &q, size, -1);
}

struct reply {
  struct answer answer;
  uint32_t is_over; // nobody waits for it any more
};

static void *reply_when_asked(void *arg) {
  struct reply *r = arg;
  while (!(r->answer.round = rondo_load_acquire_u64(&asked_round)) &&
         !rondo_load_acquire_u32(&r->is_over))
    (void)poll(NULL, 0, 1);
  size_t size = sizeof r->answer - (MOST_ENTRIES - r->answer.count) * sizeof *r->answer.views;
  if (r->answer.round)
    rondo_hand_mesh_say(RONDO_MESSAGE_VIEWS, &r->answer, size, -1);
  return NULL;
}

// The stuck report asks the others, who say anything of their ranks.
static void report(struct rondo_fuzz_input *in, struct rondo_context ctx) {
  static char text[65536];
  uint32_t cycle = 0;
  pthread_t thread;
  struct reply r = {.answer = {.count = (uint32_t)rondo_fuzz_take(in, 1) % (MOST_ENTRIES + 1)}};
  for (uint32_t i = 0; i < r.answer.count; i++) {
    uint32_t how = (uint32_t)rondo_fuzz_take(in, 1);
    r.answer.views[i] = (struct rondo_coll_view){.id.number = 1 + how % COLLECTIVES,
                                                 .rank = 1 + how / 8 % (RANKS - 1),
                                                 .submitted = how / 16 % 4,
                                                 .completed = how / 64,
                                                 .group_size = RANKS,
                                                 .is_scheduled = how / 4 % 2,
                                                 .wants_data = how / 8 % 2};
    spoil(in, &r.answer.views[i], sizeof r.answer.views[i]);
  }
  FILE *out = fmemopen(text, sizeof text, "w");
  RONDO_FUZZ_CHECK(out != NULL);
  rondo_store_release_u64(&asked_round, 0);
  RONDO_FUZZ_CHECK(pthread_create(&thread, NULL, reply_when_asked, &r) == 0);
  RONDO_FUZZ_CHECK(rondo_report(ctx, out, &cycle) == RONDO_SUCCESS);
  rondo_store_release_u32(&r.is_over, 1);
  pthread_join(thread, NULL);
  (void)fclose(out);
}

static void happen(struct rondo_fuzz_input *in, struct rondo_context ctx,
                   const struct rondo_collective *colls) {
  static float buffers[2][RANKS * COUNT];
  uint8_t what = (uint8_t)rondo_fuzz_take(in, 1);
  if (what >= 0xf8) {
    ask(what);
    report(in, ctx);
    return;
  }
  switch (what % 8) {
  case 0:
    greet(in);
    break;
  case 1:
  case 2:
    announce(in);
    break;
  case 3:
    take_leave(in);
    break;
  case 4:
    say_anything(in);
    break;
  case 5:
    lose(in);
    break;
  case 6:
    (void)rondo_run(ctx, colls[what / 8 % COLLECTIVES], buffers[0], buffers[1], NULL, NULL);
    break;
  default:
    (void)rondo_deregister(ctx, colls[what / 8 % COLLECTIVES]);
  }
}

static void live_through(struct rondo_fuzz_input *in) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  struct rondo_collective colls[COLLECTIVES];
  memset(&kept_offers, 0, sizeof kept_offers);
  memset(&kept_entries, 0, sizeof kept_entries);
  rondo_hand_mesh_put();
  rondo_hand_mesh.sent = keep;
  cfg.id.bytes[0] = 7;
  cfg.rank_count = RANKS;
  cfg.blocks = 2;
  cfg.report_on_timeout = 0;
  RONDO_FUZZ_CHECK(rondo_init(&ctx, &cfg) == RONDO_SUCCESS);
  struct rondo_collective_desc descs[COLLECTIVES] = {
      rondo_all_reduce(1, COUNT, RONDO_FLOAT32, RONDO_SUM),
      rondo_all_gather(2, COUNT, RONDO_FLOAT32)};
  for (uint32_t i = 0; i < COLLECTIVES; i++)
    RONDO_FUZZ_CHECK(rondo_register(ctx, &descs[i], &colls[i]) == RONDO_SUCCESS);
  rondo_hand_mesh.events.roster(rondo_hand_mesh.arg);
  for (uint32_t i = 0; i < MOST_HAPPENINGS && in->size; i++)
    happen(in, ctx, colls);
  RONDO_FUZZ_CHECK(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS) == RONDO_SUCCESS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_fuzz_input in = {data + 1, size ? size - 1 : 0};
  if (!size || data[0] >= 8)
    return 0;
  (void)setenv("RONDO_LOG", "off", 1);
  if (data[0] < 4)
    take_apart(&in);
  else
    live_through(&in);
  return 0;
}
