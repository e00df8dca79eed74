// What tests of the PTX machine on the memory of scripted runs share: a kernel of a few blocks, the
// outcomes that seeds find, and the races that are accused.
#ifndef RONDO_TESTS_UNIT_PTX_SCRIPT_H
#define RONDO_TESTS_UNIT_PTX_SCRIPT_H

#include "tests/unit/ptx_run.h"

#define SCRIPT_MOST_BLOCKS 3u
// Block 0 runs what follows, all others what follows OTHER. %r1 is the number of the block and %r8
// is 1.
#define BLOCKS                                                                                     \
  "mov.u32 %r1, %ctaid.x;\nsetp.ne.s32 %p1, %r1, 0;\nmov.u32 %r8, 1;\n@%p1 bra OTHER;\n"
// Keeps %r2 and %r3 of the block: words 8 and 9, or 10 and 11.
#define KEEP(n) "st.v2.u32 [%d0+" #n "], {%r2, %r3};\nret;\n"

struct script_shape {
  uint32_t blocks, threads, seeds;
  bool warp128;
};

static uint32_t races;
static char race[400];

static inline void race_count(void *arg, const struct ptx_accusation *accusation) {
  (void)arg;
  races++;
  ptx_accusation_text(accusation, race, sizeof race);
}

// Which of the blocks runs next, a few instructions at a time.
static inline void blocks_run(struct ptx_block **blocks, uint32_t count, uint64_t random) {
  enum ptx_state state[SCRIPT_MOST_BLOCKS] = {PTX_RUNS};
  for (uint32_t left = count; left;) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const uint32_t n = (uint32_t)((random >> 33) % count);
    if (state[n] >= PTX_DONE)
      continue;
    state[n] = ptx_block_run(blocks[n], 1);
    left -= state[n] >= PTX_DONE;
    assert_int_not_equal(state[n], PTX_FAILED);
  }
}

// Runs all blocks with a seed, after the buffer was cleared.
static inline void script_run(const struct ptx_program *program, const struct script_shape *shape,
                              uint64_t seed) {
  const struct ptx_memory_options memory_options = {
      .seed = seed, .adversity = 50, .history = 8, .accuse = race_count};
  const struct ptx_options options = {.seed = seed, .warp128 = shape->warp128};
  const uint64_t param = (uintptr_t)buffer;
  struct ptx_launch launch = {.program = program,
                              .kernel = ptx_program_kernel(program, "k"),
                              .params = &param,
                              .blocks = shape->blocks,
                              .threads = shape->threads,
                              .shared_bytes = 16,
                              .options = &options};
  memset(buffer, 0, sizeof buffer);
  const struct ptx_range range = {.base = (uintptr_t)buffer,
                                  .bytes = sizeof buffer,
                                  .readers = 1,
                                  .writers = 1,
                                  .updaters = 1,
                                  .block = PTX_ANY_BLOCK,
                                  .name = "buffer"};
  launch.memory = ptx_memory_create(&memory_options);
  assert_int_equal(ptx_memory_range(launch.memory, &range), 0);
  const uint32_t by = ptx_memory_agent(launch.memory, PTX_CPU, 0, 1);
  struct ptx_block *blocks[SCRIPT_MOST_BLOCKS];
  struct ptx_place places[SCRIPT_MOST_BLOCKS];
  uint32_t agents[SCRIPT_MOST_BLOCKS];
  for (uint32_t n = 0; n < shape->blocks; n++) {
    agents[n] = ptx_memory_agent(launch.memory, 0, n, PTX_WARP);
    places[n] = (struct ptx_place){.block = n, .agents = &agents[n], .by = by};
    launch.place = &places[n];
    blocks[n] = ptx_block_create(&launch, n);
    assert_non_null(blocks[n]);
  }
  blocks_run(blocks, shape->blocks, seed);
  for (uint32_t n = 0; n < shape->blocks; n++)
    ptx_block_destroy(blocks[n]);
  ptx_memory_destroy(launch.memory);
}

// The kernel `k` with this body. The caller destroys it.
static inline struct ptx_program *script_program(const char *body) {
  char text[4000], why[256];
  struct ptx_program *program;
  snprintf(text, sizeof text, "%s%s%s", KERNEL_HEAD, body, KERNEL_TAIL);
  if (ptx_program_parse(text, &program, why, sizeof why))
    fail_msg("%s", why);
  return program;
}

// How many seeds end with an outcome.
static inline uint32_t outcomes_count(const char *body, const struct script_shape *shape,
                                      bool (*is_outcome)(const uint32_t *words)) {
  struct ptx_program *program = script_program(body);
  uint32_t count = 0;
  races = 0;
  for (uint64_t seed = 1; seed <= shape->seeds; seed++) {
    script_run(program, shape, seed);
    count += is_outcome((const uint32_t *)buffer);
  }
  ptx_program_destroy(program);
  return count;
}

#endif // RONDO_TESTS_UNIT_PTX_SCRIPT_H
