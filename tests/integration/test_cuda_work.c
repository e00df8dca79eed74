// What waits while another thread is in a call of the driver, on the stand-in for the driver, which
// holds the call: calls of the same communicator, and the end of a registration whose device memory
// is being written. And what follows when the driver refuses to page-lock memory of another
// process.
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include <rondo/comm.h>

#include "runtime/job/job.h"
#include "runtime/job/message.h"
#include "runtime/memory/arena.h"
#include "runtime/order/comm_end.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/transport/communicator.h"
#include "runtime/transport/link_binding.h"
#include "runtime/transport/mapped.h"
#include "tests/integration/cuda_device.h"
#include "tests/support/hand_mesh.h"

#define WRITE "cuStreamBatchMemOp"
#define COUNT 300u
#define LONG_NS INT64_C(30000000000)
#define CALLERS 3u

// In place of the kernels: the stand-in has its own.
const unsigned char rondo_cuda_image[] = {1};

static struct rondo_rank *rank_of(struct rondo_context ctx) {
  struct rondo_rank *rank = NULL;
  assert_int_equal(rondo_rank_pin(ctx, "test", &rank), RONDO_SUCCESS);
  rondo_rank_unpin(ctx);
  return rank;
}

static void await_held(void) {
  while (!rondo_fake_held())
    sched_yield();
}

// -------------------------------------------------------------------- turns ---

static struct rondo_comm comms[2];

struct caller {
  pthread_t thread;
  int status;
  struct rondo_ticket ticket;
};

static void comms_open(void) {
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  job_of(2, 1, COUNT);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 1), RONDO_SUCCESS);
  for (uint32_t r = 0; r < 2; r++)
    assert_int_equal(rondo_comm_create(job.ctx[r], &cfg, &comms[r]), RONDO_SUCCESS);
}

static int call_of(uint32_t rank, struct rondo_ticket *ticket) {
  const struct rondo_run_args args = {job.send[rank][0], job.recv[rank][0], NULL, NULL};
  const struct rondo_collective_desc what = rondo_all_reduce(0, COUNT, RONDO_INT32, RONDO_SUM);
  return rondo_comm_call(job.ctx[rank], comms[rank], &what, &args, ticket);
}

static int comm_close(uint32_t rank) {
  return rondo_comm_destroy(job.ctx[rank], comms[rank], RONDO_DESTROY_DRAIN, LONG_NS);
}

static void *caller_main(void *arg) {
  struct caller *c = arg;
  c->status = call_of(0, &c->ticket);
  return NULL;
}

static void *closer_main(void *arg) {
  struct caller *c = arg;
  c->status = comm_close(0);
  return NULL;
}

static void begin(struct caller *c, void *(*thread_main)(void *arg)) {
  *c = (struct caller){.status = RONDO_ERR_INTERNAL};
  assert_int_equal(pthread_create(&c->thread, NULL, thread_main, c), 0);
}

static void end(struct caller *c) {
  pthread_join(c->thread, NULL);
  assert_int_equal(c->status, RONDO_SUCCESS);
}

// Until `count` threads wait for the turn of rank 0, or a second one is in the driver.
static void await_turn_awaits(uint32_t count) {
  struct rondo_comm_end *comm_end = NULL;
  uint32_t awaits = 0;
  assert_int_equal(rondo_comm_pin(rank_of(job.ctx[0]), comms[0], "test", &comm_end), RONDO_SUCCESS);
  while (awaits < count && rondo_fake_held() == 1) {
    sched_yield();
    pthread_mutex_lock(&comm_end->lock);
    awaits = comm_end->turn_awaits;
    pthread_mutex_unlock(&comm_end->lock);
  }
  rondo_comm_unpin(comm_end);
  assert_int_equal(awaits, count);
}

static void no_call_begins_while_another_is_in_the_driver(void **state) {
  struct caller callers[CALLERS];
  struct rondo_comm_counters counters;
  uint64_t runs = 0;
  (void)state;
  comms_open();
  rondo_fake_hold(WRITE);
  begin(&callers[0], caller_main);
  await_held();
  for (uint32_t i = 1; i < CALLERS; i++)
    begin(&callers[i], caller_main);
  await_turn_awaits(CALLERS - 1);
  assert_int_equal(rondo_fake_held(), 1);
  // What is no call goes on.
  assert_int_equal(rondo_comm_counters(job.ctx[0], comms[0], &counters), RONDO_SUCCESS);
  assert_int_equal(counters.calls, 0);
  assert_int_equal(rondo_comm_test(job.ctx[0], comms[0], NULL), RONDO_SUCCESS);
  rondo_fake_hold(NULL);
  for (uint32_t i = 0; i < CALLERS; i++) {
    end(&callers[i]);
    runs |= UINT64_C(1) << callers[i].ticket.run;
  }
  assert_int_equal(callers[0].ticket.run, 1);
  assert_int_equal(runs, 1u << 1 | 1u << 2 | 1u << 3);
  assert_int_equal(rondo_comm_counters(job.ctx[0], comms[0], &counters), RONDO_SUCCESS);
  assert_int_equal(counters.calls, CALLERS);
  assert_int_equal(counters.registrations, 1);
  for (uint32_t i = 0; i < CALLERS; i++)
    assert_int_equal(call_of(1, NULL), RONDO_SUCCESS);
  for (uint32_t r = 0; r < 2; r++)
    assert_int_equal(comm_close(r), RONDO_SUCCESS);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
}

static void a_communicator_ends_after_the_call_that_has_begun(void **state) {
  struct caller caller, closer;
  (void)state;
  comms_open();
  rondo_fake_hold(WRITE);
  begin(&caller, caller_main);
  await_held();
  begin(&closer, closer_main);
  await_turn_awaits(1);
  rondo_fake_hold(NULL);
  end(&caller);
  assert_int_equal(call_of(1, NULL), RONDO_SUCCESS);
  end(&closer);
  assert_int_equal(comm_close(1), RONDO_SUCCESS);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
}

// ----------------------------------------------------------- ends of registrations ---

static int register_as(uint32_t rank, uint64_t id, struct rondo_collective *coll) {
  const struct rondo_collective_desc d = rondo_all_reduce(id, COUNT, RONDO_INT32, RONDO_SUM);
  return rondo_register(job.ctx[rank], &d, coll);
}

static void *registrant_main(void *arg) {
  struct caller *c = arg;
  c->status = register_as(1, 100, &c->ticket.coll);
  return NULL;
}

static struct rondo_coll *coll_of(struct rondo_context ctx, struct rondo_collective handle) {
  struct rondo_coll *coll = rondo_coll_find(rank_of(ctx), handle);
  assert_non_null(coll);
  return coll;
}

// A thread that completes the connectors of a collective writes to the device memory of all its
// members here.
static void memory_that_is_being_written_is_not_freed(void **state) {
  struct caller registrant;
  struct rondo_collective early, late;
  (void)state;
  job_of(2, 1, COUNT);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 1), RONDO_SUCCESS);
  struct rondo_job *whole = rank_of(job.ctx[0])->job;
  assert_int_equal(register_as(0, 100, &early), RONDO_SUCCESS);
  const struct rondo_coll *coll = coll_of(job.ctx[0], early);
  const void *written = coll->contexts;
  rondo_fake_hold(WRITE);
  begin(&registrant, registrant_main);
  await_held();
  assert_true(coll->registration.comm->is_writing);
  whole->written_bound_ns = 0;
  assert_int_equal(rondo_deregister(job.ctx[0], early), RONDO_SUCCESS);
  assert_true(rondo_test_log_has("deregister: id 100: the device does not answer"));
  rondo_fake_hold(NULL);
  end(&registrant);
  assert_int_equal(register_as(0, 101, &late), RONDO_SUCCESS);
  assert_ptr_not_equal(coll_of(job.ctx[0], late)->contexts, written);
  assert_int_equal(rondo_deregister(job.ctx[0], late), RONDO_SUCCESS);
  assert_int_equal(rondo_deregister(job.ctx[1], registrant.ticket.coll), RONDO_SUCCESS);
  rounds(1);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
}

// ------------------------------------------------------------------ page-locking ---

#define ARENA_BYTES (UINT64_C(16) << 20)
#define MOST_FAILURES 20u // calls of the driver, so that a loop ends

// What rank 0 has offered last, and its size.
static uint64_t offers[128];
static size_t offers_bytes;

static void on_sent(const struct rondo_mesh_send *message) {
  if (message->type != RONDO_MESSAGE_OFFERS || message->size > sizeof offers)
    return;
  memcpy(offers, message->bytes, message->size);
  offers_bytes = message->size;
}

// Process 1, with rank 1, has sent its memory.
static struct rondo_context open_beside(struct rondo_arena *theirs) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  const struct rondo_message_arena arena = {.base = UINT64_C(1) << 32, .bytes = ARENA_BYTES};
  struct rondo_context ctx;
  rondo_hand_mesh_put();
  rondo_hand_mesh.sent = on_sent;
  cfg.backend = RONDO_BACKEND_CUDA;
  cfg.rank_count = 2;
  cfg.id.bytes[0] = 1;
  assert_int_equal(rondo_init(&ctx, &cfg), RONDO_SUCCESS);
  rondo_hand_mesh.events.roster(rondo_hand_mesh.arg);
  rondo_hand_mesh_say(RONDO_MESSAGE_ARENA, &arena, sizeof arena, rondo_arena_fd(theirs));
  return ctx;
}

// Rank 0 registers, then rank 1, whose connectors are at `at` of its memory.
static struct rondo_collective register_both(struct rondo_context ctx, uint64_t id, uint64_t at) {
  const struct rondo_collective_desc d = rondo_all_reduce(id, COUNT, RONDO_INT32, RONDO_SUM);
  struct rondo_message_offers *head = (struct rondo_message_offers *)offers;
  struct rondo_connector_offer *offer = (struct rondo_connector_offer *)&head[1];
  struct rondo_collective coll;
  offers_bytes = 0;
  assert_int_equal(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  assert_int_equal(offers_bytes, sizeof *head + sizeof *offer);
  head->rank = head->position = 1;
  offer->from = 0;
  offer->at = at;
  rondo_hand_mesh_say(RONDO_MESSAGE_OFFERS, offers, offers_bytes, -1);
  return coll;
}

static struct rondo_communicator *comm_of(struct rondo_context ctx, struct rondo_collective coll) {
  return coll_of(ctx, coll)->registration.comm;
}

static void memory_that_cannot_be_page_locked_fails_its_collective_alone(void **state) {
  const struct rondo_members_calls *real_mesh = rondo_members_calls;
  struct rondo_fake_options options = rondo_fake_defaults();
  struct rondo_collective colls[2];
  struct rondo_arena *theirs = NULL;
  char why[RONDO_REASON_BYTES];
  void *buffer = NULL;
  (void)state;
  options.sharing = 0; // so connectors are in host memory
  reset(&options);
  rondo_test_watch_locks();
  assert_int_equal(rondo_arena_create(ARENA_BYTES, 0, &theirs), RONDO_SUCCESS);
  struct rondo_context ctx = open_beside(theirs);
  assert_int_equal(rondo_mem_alloc(ctx, COUNT * sizeof(int32_t), &buffer), RONDO_SUCCESS);
  struct rondo_collective first = register_both(ctx, 1, 0);
  assert_true(rondo_communicator_link(comm_of(ctx, first), 0, 1)->is_ready);
  uint64_t registered = rondo_fake_live().registered;
  rondo_fake_fail("cuMemHostRegister", 1, MOST_FAILURES, CUDA_ERROR_OUT_OF_MEMORY);
  for (uint32_t i = 0; i < 2; i++) {
    colls[i] = register_both(ctx, 2 + i, (1 + i) * ARENA_BYTES / 4);
    rondo_communicator_reason(comm_of(ctx, colls[i]), why, sizeof why);
    assert_string_equal(why, "rank 1 has lost its device, or its memory cannot be reached");
    assert_int_equal(rondo_fake_failed(), 1 + i); // each was tried once
  }
  rondo_fake_fail(NULL, 0, 0, CUDA_SUCCESS);
  assert_int_equal(rondo_fake_live().registered, registered);
  assert_int_equal(rondo_test_log_count("connectors of process 1 cannot be used"), 2);
  assert_int_equal(rondo_run(ctx, colls[0], buffer, buffer, NULL, NULL), RONDO_SUCCESS);
  assert_int_equal(rondo_wait(ctx, colls[0], RONDO_LAST_RUN, LONG_NS), RONDO_ERR_SYSTEM);
  for (uint32_t i = 0; i < 2; i++)
    assert_int_equal(rondo_deregister(ctx, colls[i]), RONDO_SUCCESS);
  struct rondo_collective later = register_both(ctx, 4, ARENA_BYTES / 4);
  assert_true(rondo_communicator_link(comm_of(ctx, later), 0, 1)->is_ready);
  assert_int_equal(rondo_fake_live().registered, registered + 1);
  assert_int_equal(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
  rondo_arena_destroy(theirs);
  rondo_members_calls = real_mesh;
}

#define TEST(function) RONDO_CUDA_TEST("cuda_work", function)

int main(void) {
  // Connectors of packets are written by a copy; the calls that are held here store words.
  assert_int_equal(setenv("RONDO_ALGO", "all_reduce=doubling", 1), 0);
  const struct CMUnitTest tests[] = {
      TEST(no_call_begins_while_another_is_in_the_driver),
      TEST(a_communicator_ends_after_the_call_that_has_begun),
      TEST(memory_that_is_being_written_is_not_freed),
      TEST(memory_that_cannot_be_page_locked_fails_its_collective_alone),
  };
  rondo_test_log_open();
  return cmocka_run_group_tests_name("cuda_work", tests, NULL, NULL);
}
