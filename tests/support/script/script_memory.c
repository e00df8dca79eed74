#include "tests/support/script/script_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/explore/random.h"
#include "tests/support/ptx/ptx_hooks.h"

#define WORDS 65536u
#define MOST_NEW 1024u // threads that were begun and have not entered

static struct ptx_memory *memory;
static struct random chance;
static _Thread_local uint32_t own_agent = UINT32_MAX;

// Agents of threads that have ended.
static uint32_t *idle_agents, idle_count, idle_capacity;
// Agents of threads that are about to enter, by the number of the thread.
static uint32_t new_agents[MOST_NEW];

// ------------------------------------------------------------ what orders threads --

// Each object that orders threads has a word of the memory, perhaps with others. Who gives the
// object and who takes it update the word, which releases and acquires.
static uint64_t words[WORDS];

static bool word_add(void *arg, void *value) {
  (void)arg;
  ++*(uint64_t *)value;
  return true;
}

static void object_meet(const void *object) {
  static const struct ptx_update add = {word_add, NULL};
  static const struct ptx_where where = {.kernel = "a lock"};
  const struct ptx_access access = {.address =
                                        (uintptr_t)&words[random_mix((uintptr_t)object) % WORDS],
                                    .bytes = sizeof(uint64_t),
                                    .order = PTX_ACQ_REL,
                                    .scope = PTX_SYS};
  if (own_agent != UINT32_MAX)
    ptx_memory_update(memory, own_agent, 0, &access, &add, &where);
}

// All threads that have ended. An agent that is used again must know of its end.
static const char ends;

// -------------------------------------------------------------------- threads --

static uint32_t agent_new(void) {
  return idle_count ? idle_agents[--idle_count] : ptx_memory_agent(memory, PTX_CPU, 0, 1);
}

static void thread_began(uint32_t thread, uint32_t by) {
  (void)by;
  object_meet(&ends);
  uint32_t agent = agent_new();
  ptx_memory_begin(memory, own_agent, agent);
  new_agents[thread % MOST_NEW] = agent;
}

static const struct ptx_hooks_events events = {script_point, object_meet};

static void thread_entered(uint32_t thread) {
  own_agent = thread == 0 ? agent_new() : new_agents[thread % MOST_NEW];
  ptx_hooks_enter(memory, own_agent, "the CPU", &events);
}

static void thread_ended(uint32_t thread) {
  (void)thread;
  ptx_hooks_leave();
  object_meet(&ends);
  if (idle_count == idle_capacity) {
    idle_capacity = 2 * idle_capacity + 64;
    idle_agents = realloc(idle_agents, idle_capacity * sizeof *idle_agents);
    if (!idle_agents)
      abort();
  }
  idle_agents[idle_count++] = own_agent;
  own_agent = UINT32_MAX;
}

static void thread_joined(uint32_t thread, uint32_t by) {
  (void)thread;
  (void)by;
  object_meet(&ends);
}

static void object_passed(uint32_t thread, const void *object) {
  (void)thread;
  object_meet(object);
}

// ---------------------------------------------------------------------- memory --

static void accusation_print(void *arg, const struct ptx_accusation *accusation) {
  char text[1000];
  (void)arg;
  ptx_accusation_text(accusation, text, sizeof text);
  fprintf(stderr, "%s\n", text);
  abort();
}

static uint32_t agent_self(void) { return own_agent; }

static uint64_t random_draw(void) { return random_next(&chance); }

void script_memory_open(const struct ptx_memory_options *options, struct script_options *script,
                        struct rondo_fake_script *driver) {
  struct ptx_memory_options own = *options;
  const struct ptx_range range = {.base = (uintptr_t)words,
                                  .bytes = sizeof words,
                                  .readers = UINT64_MAX,
                                  .writers = UINT64_MAX,
                                  .updaters = UINT64_MAX,
                                  .block = PTX_ANY_BLOCK,
                                  .name = "locks"};
  own.accuse = accusation_print;
  memory = ptx_memory_create(&own);
  chance.state = ~options->seed;
  if (ptx_memory_range(memory, &range))
    abort();
  script->events = (struct script_events){thread_began,  thread_entered, thread_ended,
                                          thread_joined, object_passed,  object_passed};
  *driver = (struct rondo_fake_script){memory, agent_self, random_draw, script_point};
}
