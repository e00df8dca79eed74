// Members of the same machine that know the secret and say anything of memory of devices: of their
// ranges, and of a window of NCCL, which is made with one that there really is. A process on the
// stand-ins for the CUDA driver and for NCCL lives through it, and leaves nothing behind.
//
// The first byte is 1: other inputs are left out, since a run takes many milliseconds. The second
// says what is asked for: no window; one, and this process leads; one, and the other does. Then
// things happen, one byte each with what follows it: see `happen`.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/cuda/cuda_api.h"
#include "daemon/cuda/cuda_driver.h"
#include "runtime/job/job.h"
#include "runtime/job/message.h"
#include "runtime/transport/link_binding.h"
#include "runtime/transport/mapped.h"
#include "runtime/transport/nccl/window.h"
#include "runtime/transport/window_group.h"
#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/fake_nccl/fake_nccl.h"
#include "tests/support/fuzz.h"
#include "tests/support/hand_mesh.h"

#define COUNT 20000u
#define ARENA_BYTES (UINT64_C(1) << 20)
#define WINDOW_BYTES (UINT64_C(4) << 20)
#define WINDOW_TEXT "4194304"
#define LONG_NS INT64_C(20000000000)
#define LONG_MS 20000u
#define MOST_HAPPENINGS 24u
#define MOST_PARTS 4u

// The layout is that of window.c.
enum word { READY = 1, ENTER, DONE, VERDICT, ADOPTED };

// The other process, as far as it is honest.
static struct {
  uint32_t self; // the number of this one
  struct rondo_device *device;
  struct rondo_nccl_window *window;
  int has_joined;
  uint8_t id[RONDO_NCCL_ID_BYTES]; // that this one has said
  int has_id;
  int is_in; // this one uses the window
  // What this one has told it.
  struct rondo_message_arena hello;
  struct rondo_message_part parts[MOST_PARTS];
  int fds[MOST_PARTS];
  uint32_t part_count;
  uint64_t offers[128];
  size_t offers_bytes;
} other;

// ------------------------------------------------------------------ the mesh ---

static uint32_t self_of(struct rondo_members *m) {
  (void)m;
  return other.self;
}

static uint32_t process_of(struct rondo_members *m, uint32_t rank) {
  (void)m;
  return rank ? 1 - other.self : other.self;
}

static int process_get(struct rondo_members *m, uint32_t process,
                       struct rondo_members_process *out) {
  static const uint32_t rank = 1;
  (void)m;
  *out = (struct rondo_members_process){
      .pid = (uint32_t)getpid(), .asks_window = 1, .rank_count = 1, .ranks = &rank, .host = ""};
  return process == 1 - other.self ? RONDO_SUCCESS : RONDO_ERR_UNKNOWN;
}

// Under the lock of the job.
static void on_sent(const struct rondo_mesh_send *m) {
  struct rondo_message_window word;
  if (m->type == RONDO_MESSAGE_ARENA && m->size == sizeof other.hello)
    memcpy(&other.hello, m->bytes, m->size);
  if (m->type == RONDO_MESSAGE_PART && other.part_count < MOST_PARTS) {
    RONDO_FUZZ_CHECK(m->size == sizeof *other.parts && m->fd_count == 1);
    memcpy(&other.parts[other.part_count], m->bytes, m->size);
    other.fds[other.part_count++] = fcntl(m->fds[0], F_DUPFD_CLOEXEC, 0);
  }
  if (m->type == RONDO_MESSAGE_OFFERS && m->size <= sizeof other.offers) {
    memcpy(other.offers, m->bytes, m->size);
    other.offers_bytes = m->size;
  }
  if (m->type != RONDO_MESSAGE_WINDOW)
    return;
  RONDO_FUZZ_CHECK(m->size == sizeof word);
  memcpy(&word, m->bytes, sizeof word);
  if (word.step == ENTER) {
    memcpy(other.id, word.id, sizeof other.id);
    other.has_id = 1;
  }
  other.is_in |= word.step == ADOPTED && word.status == RONDO_SUCCESS;
}

static void say(uint32_t type, const void *bytes, size_t size, int fd) {
  struct rondo_mesh_message message = {.from = 1 - other.self,
                                       .type = type,
                                       .bytes = bytes,
                                       .size = size,
                                       .fds = &fd,
                                       .fd_count = fd >= 0};
  rondo_hand_mesh.events.receive(rondo_hand_mesh.arg, &message);
}

// ---------------------------------------------------------------- happenings ---

// Overwrites bytes, as many as the input says, where it says.
static void spoil(struct rondo_fuzz_input *in, void *bytes, size_t size) {
  uint32_t count = (uint32_t)rondo_fuzz_take(in, 1) % 4;
  for (uint32_t i = 0; i < count; i++) {
    size_t at = rondo_fuzz_take(in, 2) % size;
    ((uint8_t *)bytes)[at] = (uint8_t)rondo_fuzz_take(in, 1);
  }
}

// Its memory: an arena, and a range as this one's.
static void greet(struct rondo_fuzz_input *in, uint32_t how) {
  struct rondo_message_arena hello = other.hello;
  int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  hello.base = UINT64_C(1) << 32;
  hello.bytes = ARENA_BYTES;
  RONDO_FUZZ_CHECK(fd >= 0 && ftruncate(fd, (off_t)ARENA_BYTES) == 0);
  RONDO_FUZZ_CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  if (how & 1)
    hello.range_bytes = 0;
  if (how & 2)
    spoil(in, &hello, sizeof hello);
  say(RONDO_MESSAGE_ARENA, &hello, sizeof hello, fd);
  close(fd);
}

// A part of its range: one of this one's, which it says is its own.
static void add_part(struct rondo_fuzz_input *in, uint32_t how) {
  uint32_t i = (how >> 2) % MOST_PARTS;
  struct rondo_message_part part = {.bytes = RONDO_RANGE_UNIT_BYTES};
  int fd = -1;
  if (i < other.part_count) {
    part = other.parts[i];
    fd = other.fds[i];
  }
  if (how & 1)
    spoil(in, &part, sizeof part);
  say(RONDO_MESSAGE_PART, &part, sizeof part, how & 2 ? STDERR_FILENO : fd);
}

// How much of this one's range it has mapped.
static void tell_mapped(struct rondo_fuzz_input *in, uint32_t how) {
  uint32_t i = (how >> 2) % (MOST_PARTS + 1);
  struct rondo_message_mapped notice = {.is_refused = how & 1};
  if (i && i <= other.part_count)
    notice.bytes = other.parts[i - 1].at + other.parts[i - 1].bytes;
  if (how & 2)
    spoil(in, &notice, sizeof notice);
  say(RONDO_MESSAGE_MAPPED, &notice, sizeof notice, -1);
}

static void say_word(struct rondo_fuzz_input *in, uint32_t how) {
  struct rondo_message_window n = {.step = READY + how % 5};
  if (how & 8)
    n.status = RONDO_ERR_UNSUPPORTED;
  if (other.window) {
    n.base = rondo_nccl_windows.base(other.window);
    n.bytes = rondo_nccl_windows.bytes(other.window);
    if (other.self)
      memcpy(n.id, rondo_nccl_windows.id(other.window), sizeof n.id);
  }
  memset(n.why, 'w', sizeof n.why); // without an end
  if (how & 16)
    spoil(in, &n, sizeof n);
  say(RONDO_MESSAGE_WINDOW, &n, how & 32 ? sizeof n - 1 : sizeof n, -1);
}

// What this process has offered for its collective, as the other would, and where it has its
// connectors.
static void announce(struct rondo_fuzz_input *in, uint32_t how) {
  uint64_t bytes[128];
  size_t size = other.offers_bytes;
  struct rondo_offers_message m;
  if (!size)
    return;
  memcpy(bytes, other.offers, size);
  struct rondo_message_offers *head = (struct rondo_message_offers *)bytes;
  head->rank = head->position = 1;
  head->key.generation += how >> 4;
  if (rondo_message_offers_decode(bytes, size, 2, &m) && head->offer_count) {
    struct rondo_connector_offer *offer =
        &((struct rondo_connector_offer *)((char *)bytes + size))[-1];
    offer->from = 0;
    offer->place = how % 4;
    if (how & 8)
      spoil(in, offer, sizeof *offer);
  }
  if (how & 4)
    spoil(in, bytes, size);
  say(RONDO_MESSAGE_OFFERS, bytes, size, -1);
}

// Time passes, in which the other process does its part.
static void pass(uint32_t turns) {
  char why[RONDO_WHY_BYTES];
  for (uint32_t i = 0; i < turns; i++) {
    rondo_hand_mesh_ring();
    if (other.window && other.has_id && !other.has_joined) {
      rondo_nccl_windows.join(other.window, other.id, 1 - other.self, 2);
      other.has_joined = 1;
    }
    if (other.window)
      (void)rondo_nccl_windows.poll(other.window, why);
    (void)poll(NULL, 0, 1);
  }
}

// The one that leads joins when it says that the others may.
static void enter(void) {
  if (!other.window || !other.self || other.has_joined)
    return;
  memcpy(other.id, rondo_nccl_windows.id(other.window), sizeof other.id);
  other.has_id = 1;
}

static void lose(uint32_t how) {
  const uint32_t rank = 1;
  rondo_hand_mesh.events.lost(rondo_hand_mesh.arg, &rank, 1, RONDO_LOST_LEFT + (int)(how % 5),
                              "fuzz");
}

static void happen(struct rondo_fuzz_input *in) {
  uint32_t what = (uint32_t)rondo_fuzz_take(in, 1);
  uint32_t how = (uint32_t)rondo_fuzz_take(in, 1);
  switch (what % 8) {
  case 0:
    greet(in, how);
    break;
  case 1:
    add_part(in, how);
    break;
  case 2:
    tell_mapped(in, how);
    break;
  case 3:
  case 4:
    if (how % 5 == ENTER - READY)
      enter();
    say_word(in, how);
    break;
  case 5:
    announce(in, how);
    break;
  case 6:
    pass(how % 16);
    break;
  default:
    if (how < 64)
      lose(how);
    else
      say(RONDO_MESSAGE_ARENA + how % (RONDO_MESSAGE_WINDOW - RONDO_MESSAGE_ARENA + 1), in->data,
          in->size < 96 ? in->size : 96, -1);
  }
}

// --------------------------------------------------------------------- a run ---

// The other process, on a device of its own, with memory for its window.
static void open_other(int has_window, int leads) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  char why[RONDO_WHY_BYTES];
  memset(&other, 0, sizeof other);
  other.self = (uint32_t)leads;
  cfg.backend = RONDO_BACKEND_CUDA;
  cfg.device = 1;
  RONDO_FUZZ_CHECK(rondo_cuda_driver.open(&cfg, &other.device, why) == RONDO_SUCCESS);
  const struct rondo_nccl_window_config window = {other.device, WINDOW_BYTES, (uint64_t)LONG_NS};
  if (!has_window)
    return;
  RONDO_FUZZ_CHECK(rondo_nccl_windows.create(&window, &other.window, why) == RONDO_SUCCESS);
  if (!leads)
    return;
  rondo_nccl_windows.make_id(other.window);
  for (uint32_t i = 0;
       i < LONG_MS && rondo_nccl_windows.poll(other.window, why) == RONDO_IN_PROGRESS; i++)
    (void)poll(NULL, 0, 1);
}

static void *end_window(void *arg) {
  if (other.window && !other.is_in)
    rondo_nccl_windows.give_up(other.window);
  rondo_nccl_windows.destroy(other.window);
  return arg;
}

static void close_other(void) {
  rondo_cuda_driver.close(other.device);
  for (uint32_t i = 0; i < other.part_count; i++)
    close(other.fds[i]);
  for (uint32_t i = 0; i < LONG_MS && (rondo_fake_nccl_live() || rondo_fake_live_count()); i++)
    (void)poll(NULL, 0, 1);
  RONDO_FUZZ_CHECK(!rondo_fake_nccl_live() && !rondo_fake_live_count());
}

static void live_through(struct rondo_fuzz_input *in, int has_window) {
  static struct rondo_members_calls calls;
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  struct rondo_collective coll;
  rondo_hand_mesh_put();
  rondo_hand_mesh.sent = on_sent;
  calls = *rondo_members_calls;
  calls.self = self_of;
  calls.process_of = process_of;
  calls.process_get = process_get;
  rondo_members_calls = &calls;
  cfg.backend = RONDO_BACKEND_CUDA;
  cfg.id.bytes[0] = 7;
  cfg.rank_count = 2;
  cfg.report_on_timeout = 0;
  cfg.transport = has_window ? RONDO_TRANSPORT_NCCL : cfg.transport;
  RONDO_FUZZ_CHECK(rondo_init(&ctx, &cfg) == RONDO_SUCCESS);
  const struct rondo_collective_desc d = rondo_all_reduce(1, COUNT, RONDO_FLOAT32, RONDO_SUM);
  RONDO_FUZZ_CHECK(rondo_register(ctx, &d, &coll) == RONDO_SUCCESS);
  rondo_hand_mesh.events.roster(rondo_hand_mesh.arg);
  for (uint32_t i = 0; i < MOST_HAPPENINGS && in->size; i++)
    happen(in);
  // Both come to the end of their communicator at once, or the first would wait for the other.
  pthread_t thread;
  RONDO_FUZZ_CHECK(pthread_create(&thread, NULL, end_window, NULL) == 0);
  RONDO_FUZZ_CHECK(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS) == RONDO_SUCCESS);
  pthread_join(thread, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_fuzz_input in = {data + 1, size ? size - 1 : 0};
  struct rondo_fake_options options = rondo_fake_defaults();
  if (!size || data[0] != 1)
    return 0;
  uint32_t mode = (uint32_t)rondo_fuzz_take(&in, 1) % 3;
  (void)setenv("RONDO_LOG", "off", 1);
  (void)setenv("RONDO_NCCL_WINDOW_BYTES", WINDOW_TEXT, 1);
  options.devices = 2;
  rondo_fake_reset(&options);
  rondo_cuda_api_from(NULL);
  open_other(mode > 0, mode == 2);
  live_through(&in, mode > 0);
  close_other();
  return 0;
}
