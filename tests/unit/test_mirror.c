// The mirror of a device: entries, the exit word, gates and streams, step by step; and with an
// owner, a CPU and two blocks that are threads.
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/core/mirror_core.h"
#include "tests/support/load.h"
#include "tests/support/named.h"

#define CAPACITY 4u
#define COLLECTIVES 16u
#define BLOCKS 2u

struct ring {
  _Alignas(RONDO_LINE_BYTES) struct rondo_sq_ring ring;
  struct rondo_sqe entries[CAPACITY];
};

// What is in the host's memory, and what is in the device's.
static struct ring sq, rings[BLOCKS];
static uint32_t exit_word;
static struct rondo_communicator_gate gates[COLLECTIVES];
static struct rondo_stream_words words[COLLECTIVES][RONDO_DEVICE_RUNS];
static struct rondo_sq_producer cpu, inboxes[BLOCKS];
static struct rondo_sq_consumer blocks[BLOCKS];
static struct rondo_mirror mirror;
static struct rondo_mirror_copy copies[COLLECTIVES];
static uint32_t watched[COLLECTIVES];

static uint64_t at(const void *memory) { return (uint64_t)(uintptr_t)memory; }

static int begin(void **state) {
  (void)state;
  memset(&mirror, 0, sizeof mirror);
  memset(copies, 0, sizeof copies);
  memset(words, 0, sizeof words);
  exit_word = 0;
  rondo_sq_ring_init(&sq.ring, CAPACITY, 0);
  rondo_sq_producer_init(&cpu, at(&sq.ring), CAPACITY, 0);
  rondo_sq_consumer_init(&mirror.source, at(&sq.ring), CAPACITY, 0);
  for (uint32_t b = 0; b < BLOCKS; b++) {
    rondo_sq_ring_init(&rings[b].ring, CAPACITY, 0);
    rondo_sq_producer_init(&inboxes[b], at(&rings[b].ring), CAPACITY, 0);
    rondo_sq_consumer_init(&blocks[b], at(&rings[b].ring), CAPACITY, 0);
  }
  for (uint32_t i = 0; i < COLLECTIVES; i++) {
    gates[i] = (struct rondo_communicator_gate){.state = RONDO_GATE_CLOSED, .last_run = UINT64_MAX};
    copies[i].gate = at(&gates[i]);
  }
  mirror.exit_word = at(&exit_word);
  mirror.inboxes = at(inboxes);
  mirror.copies = at(copies);
  mirror.watched = at(watched);
  return 0;
}

static bool submit(uint32_t collective, uint64_t run, const struct rondo_stream_words *stream) {
  const struct rondo_sqe entry = {.collective = collective,
                                  .run = run,
                                  .generation = 7,
                                  .block_count = BLOCKS,
                                  .stream = at(stream),
                                  .ticket = run};
  return rondo_sq_try_push(&cpu, &entry);
}

// Takes the next entry as a block does. Block 0 releases the SQ, the others their inbox.
static bool take(uint32_t block, struct rondo_sqe *entry) {
  const struct rondo_sqe *peeked = rondo_sq_try_peek(&blocks[block]);
  if (!peeked)
    return false;
  *entry = *peeked;
  rondo_sq_take(&blocks[block]);
  struct rondo_sq_consumer source = blocks[block];
  if (block == 0)
    source.ring = at(&sq.ring);
  rondo_sq_release(&source);
  return true;
}

static int verdict(uint32_t collective, uint64_t run, int *is_open) {
  return rondo_gate_verdict((const void *)&copies[collective], run, is_open);
}

static void every_block_gets_every_entry(void **state) {
  struct rondo_sqe entry = {0};
  (void)state;
  for (uint64_t run = 1; run < 3 * CAPACITY; run++) {
    assert_true(submit(3, run, NULL));
    assert_true(rondo_mirror_step(&mirror));
    assert_true(rondo_sq_has_entry(&cpu)); // until block 0 has it
    for (uint32_t b = 0; b < BLOCKS; b++) {
      assert_true(take(b, &entry));
      assert_true(entry.collective == 3 && entry.run == run);
    }
    assert_false(rondo_sq_has_entry(&cpu));
  }
  assert_false(rondo_mirror_step(&mirror));
}

static void an_entry_waits_for_room_in_every_inbox(void **state) {
  struct rondo_sqe entry = {0};
  (void)state;
  for (uint64_t run = 1; run <= CAPACITY; run++)
    assert_true(submit(0, run, NULL));
  assert_true(rondo_mirror_step(&mirror));
  for (uint64_t run = 1; run <= CAPACITY; run++)
    assert_true(take(0, &entry));
  assert_true(submit(0, CAPACITY + 1, NULL));
  assert_false(rondo_mirror_step(&mirror)); // block 1 has taken nothing
  assert_false(take(0, &entry));
  assert_true(take(1, &entry) && entry.run == 1);
  assert_true(rondo_mirror_step(&mirror));
  assert_true(take(0, &entry) && entry.run == CAPACITY + 1);
}

static void the_exit_word_is_copied(void **state) {
  (void)state;
  (void)rondo_mirror_step(&mirror);
  assert_int_equal(mirror.exit, 0);
  exit_word = 1;
  (void)rondo_mirror_step(&mirror);
  assert_int_equal(mirror.exit, 1);
}

static void a_gate_is_copied_while_a_run_is_outstanding(void **state) {
  int is_open = 1;
  (void)state;
  assert_true(submit(2, 1, NULL));
  (void)rondo_mirror_step(&mirror);
  assert_true(verdict(2, 1, &is_open) == RONDO_SUCCESS && !is_open);
  gates[2].state = RONDO_GATE_OPEN;
  (void)rondo_mirror_step(&mirror);
  assert_true(verdict(2, 1, &is_open) == RONDO_SUCCESS && is_open);
  gates[2].last_run = 0;
  (void)rondo_mirror_step(&mirror);
  assert_int_equal(verdict(2, 1, &is_open), RONDO_ERR_PEER);
  gates[2].state = RONDO_GATE_FAILED + RONDO_ERR_ABORTED;
  (void)rondo_mirror_step(&mirror);
  assert_int_equal(verdict(2, 1, &is_open), RONDO_ERR_ABORTED);
}

static void a_run_is_due_when_its_stream_has_reached_it(void **state) {
  struct rondo_task_context c = {.fixed.gate = at(&copies[5])};
  struct rondo_sqe entry = {0};
  (void)state;
  for (uint64_t run = 1; run <= 2; run++) {
    assert_true(submit(5, run, &words[5][run % 2]));
    (void)rondo_mirror_step(&mirror);
    assert_true(take(0, &entry));
  }
  c.state.run = (struct rondo_task_run){.number = 2, .stream = entry.stream, .ticket = 2};
  assert_ptr_equal(rondo_run_stream(&c.state.run), &words[5][0]);
  words[5][1].doorbell = 1; // of the other run
  (void)rondo_mirror_step(&mirror);
  assert_false(rondo_context_is_due(&c));
  words[5][0].doorbell = 2;
  (void)rondo_mirror_step(&mirror);
  assert_true(rondo_context_is_due(&c));
  words[5][0].doorbell = 0; // as at the end of a replayed run
  (void)rondo_mirror_step(&mirror);
  assert_true(rondo_context_is_due(&c));
  c.state.run.number = 4;
  assert_false(rondo_context_is_due(&c));
}

// More collectives than one step looks at. Those without a run are looked at no more.
static void what_has_ended_is_not_looked_at(void **state) {
  struct rondo_sqe entry = {0};
  int is_open = 0;
  (void)state;
  for (uint32_t i = 0; i < COLLECTIVES; i++) {
    assert_true(submit(i, 1, NULL));
    assert_true(rondo_mirror_step(&mirror));
    assert_true(take(0, &entry) && take(1, &entry));
  }
  assert_int_equal(mirror.watched_count, COLLECTIVES);
  for (uint32_t i = 1; i < COLLECTIVES; i += 2)
    copies[i].ended = 1;
  for (uint32_t i = 0; i < COLLECTIVES; i++)
    (void)rondo_mirror_step(&mirror);
  assert_int_equal(mirror.watched_count, COLLECTIVES / 2);
  for (uint32_t i = 0; i < COLLECTIVES; i++)
    gates[i].state = RONDO_GATE_OPEN;
  for (uint32_t i = 0; i < COLLECTIVES; i++)
    (void)rondo_mirror_step(&mirror);
  for (uint32_t i = 0; i < COLLECTIVES; i++) {
    assert_int_equal(verdict(i, 1, &is_open), RONDO_SUCCESS);
    assert_int_equal(is_open, i % 2 == 0);
  }
  assert_true(submit(1, 2, NULL));
  (void)rondo_mirror_step(&mirror);
  (void)rondo_mirror_step(&mirror);
  assert_true(verdict(1, 2, &is_open) == RONDO_SUCCESS && is_open);
}

// Another collective has the index, and its gate is in other memory.
static void a_new_collective_has_nothing_of_the_old_one(void **state) {
  struct rondo_sqe entry = {.collective = 4, .run = 1, .generation = 8, .block_count = BLOCKS};
  int is_open = 1;
  (void)state;
  gates[4].state = RONDO_GATE_FAILED + RONDO_ERR_ABORTED;
  assert_true(submit(4, 1, &words[4][1]));
  words[4][1].doorbell = 1;
  for (uint32_t i = 0; i < 2; i++)
    (void)rondo_mirror_step(&mirror);
  assert_int_equal(verdict(4, 1, &is_open), RONDO_ERR_ABORTED);
  copies[4].ended = 1;
  copies[4].gate = at(&gates[9]);
  assert_true(rondo_sq_try_push(&cpu, &entry));
  (void)rondo_mirror_step(&mirror);
  assert_true(verdict(4, 1, &is_open) == RONDO_SUCCESS && !is_open);
  assert_int_equal(copies[4].due[1], 0);
  for (uint32_t i = 0; i < 2; i++)
    (void)rondo_mirror_step(&mirror);
  assert_int_equal(mirror.watched_count, 1);
  gates[9].state = RONDO_GATE_OPEN;
  (void)rondo_mirror_step(&mirror);
  assert_true(verdict(4, 1, &is_open) == RONDO_SUCCESS && is_open);
}

// The gate fails between two runs, while nobody looks at it.
static void a_block_never_finds_a_gate_older_than_the_entry(void **state) {
  int is_open = 0;
  (void)state;
  gates[6].state = RONDO_GATE_OPEN;
  assert_true(submit(6, 1, NULL));
  (void)rondo_mirror_step(&mirror);
  assert_true(verdict(6, 1, &is_open) == RONDO_SUCCESS && is_open);
  copies[6].ended = 1;
  (void)rondo_mirror_step(&mirror);
  assert_int_equal(mirror.watched_count, 0);
  gates[6].state = RONDO_GATE_FAILED + RONDO_ERR_ABORTED;
  assert_true(submit(6, 2, NULL));
  (void)rondo_mirror_pass(&mirror);
  assert_int_equal(verdict(6, 2, &is_open), RONDO_ERR_ABORTED);
}

// ---- threads: two owners in turn, two blocks, and the CPU ----

#define RUNS_OF_THREADS 4000u

static uint64_t runs, payload[2];
static uint32_t is_over, owners, mistakes;

// Owns the mirror for a few steps at a time, as blocks that come and go do.
static void *owner_main(void *arg) {
  unsigned seed = (unsigned)(uintptr_t)arg;
  while (!rondo_load_acquire_u32(&is_over)) {
    if (rondo_mirror_try_own(&mirror)) {
      if (rondo_fetch_add_acq_rel_u32(&owners, 1))
        rondo_fetch_add_relaxed_u32(&mistakes, 1);
      for (int i = rand_r(&seed) % 8; i >= 0; i--) {
        (void)rondo_mirror_step(&mirror);
        sched_yield();
      }
      rondo_fetch_add_acq_rel_u32(&owners, UINT32_MAX);
      rondo_mirror_disown(&mirror);
    }
    sched_yield();
  }
  return NULL;
}

// Each run begins when its stream has reached it, and finds what the stream wrote before. The last
// one ends with the gate.
static void *block_main(void *arg) {
  const uint32_t b = (uint32_t)(uintptr_t)arg;
  struct rondo_sqe entry = {0};
  int is_open;
  for (uint64_t run = 1; run <= runs; run++) {
    while (!take(b, &entry))
      sched_yield();
    struct rondo_task_context c = {.fixed.gate = at(&copies[1])};
    c.state.run = (struct rondo_task_run){.number = run, .stream = entry.stream, .ticket = run};
    while (!rondo_context_is_due(&c))
      sched_yield();
    if (entry.run != run || payload[run % 2] != run)
      rondo_fetch_add_relaxed_u32(&mistakes, 1);
    if (rondo_fetch_add_acq_rel_u64(&words[1][run % 2].passed, 1) == 2 * ((run - 1) / 2) + 1) {
      rondo_store_relaxed_u64(&copies[1].ended, run);
      rondo_store_release_u64(&words[1][run % 2].completion, run);
    }
  }
  while (rondo_gate_verdict((const void *)&copies[1], runs + 1, &is_open) == RONDO_SUCCESS)
    sched_yield();
  return NULL;
}

static void blocks_see_what_owners_in_turn_have_copied(void **state) {
  pthread_t keepers[2], threads[BLOCKS];
  (void)state;
  runs = rondo_test_load(RUNS_OF_THREADS, 500);
  is_over = owners = mistakes = 0;
  for (uintptr_t i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&keepers[i], NULL, owner_main, (void *)(i + 1)), 0); // NOLINT
  for (uintptr_t b = 0; b < BLOCKS; b++)
    assert_int_equal(pthread_create(&threads[b], NULL, block_main, (void *)b), 0); // NOLINT
  for (uint64_t run = 1; run <= runs; run++) {
    struct rondo_stream_words *w = &words[1][run % 2];
    while (run > 2 && rondo_load_acquire_u64(&w->completion) < run - 2)
      sched_yield();
    while (!submit(1, run, w))
      sched_yield();
    payload[run % 2] = run;
    rondo_store_release_u64(&w->doorbell, run);
  }
  while (rondo_load_acquire_u64(&words[1][runs % 2].completion) < runs)
    sched_yield();
  assert_true(submit(1, runs + 1, NULL));
  rondo_store_release_u32(&gates[1].state, RONDO_GATE_FAILED + RONDO_ERR_ABORTED);
  for (uint32_t b = 0; b < BLOCKS; b++)
    assert_int_equal(pthread_join(threads[b], NULL), 0);
  rondo_store_release_u32(&is_over, 1);
  for (uint32_t i = 0; i < 2; i++)
    assert_int_equal(pthread_join(keepers[i], NULL), 0);
  assert_int_equal(mistakes, 0);
}

#define MIRROR_TEST(name) RONDO_NAMED_TEST_FIXTURE("mirror", name, begin, NULL)

int main(void) {
  const struct CMUnitTest tests[] = {
      MIRROR_TEST(every_block_gets_every_entry),
      MIRROR_TEST(an_entry_waits_for_room_in_every_inbox),
      MIRROR_TEST(the_exit_word_is_copied),
      MIRROR_TEST(a_gate_is_copied_while_a_run_is_outstanding),
      MIRROR_TEST(a_run_is_due_when_its_stream_has_reached_it),
      MIRROR_TEST(what_has_ended_is_not_looked_at),
      MIRROR_TEST(a_new_collective_has_nothing_of_the_old_one),
      MIRROR_TEST(a_block_never_finds_a_gate_older_than_the_entry),
      MIRROR_TEST(blocks_see_what_owners_in_turn_have_copied),
  };
  return cmocka_run_group_tests_name("mirror", tests, NULL, NULL);
}
