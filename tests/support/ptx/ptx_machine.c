// Blocks: their memory, which group of lanes runs next, and accusations.
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ptx/ptx_exec.h"

#define QUANTUM 10000 // instructions of a warp before another one's turn
#define SEEDED_QUANTUM 64
#define UNSET_BYTE 0xa5 // memory that was never written is as little zero as on a device
#define LINE_BYTES 512u

// ----------------------------------------------------------------- accusations --

static void line_report(const struct ptx_options *o, const char *line) {
  if (o->accuse) {
    o->accuse(o->arg, line);
    return;
  }
  fprintf(stderr, "%s\n", line);
  abort();
}

void ptx_accuse(struct ptx_warp *w, uint32_t lane, const char *format, ...) {
  struct ptx_block *b = w->block;
  const struct ptx_kernel *k = b->launch.kernel;
  const struct ptx_line *at = &k->lines[w->pc - 1];
  const char *file = ptx_program_file(b->launch.program, at->file);
  char what[LINE_BYTES / 2], source[LINE_BYTES / 4] = "", line[LINE_BYTES];
  va_list list;
  w->stop = PTX_ACCUSED;
  if (b->has_failed)
    return;
  b->has_failed = true;
  va_start(list, format);
  vsnprintf(what, sizeof what, format, list);
  va_end(list);
  if (at->source)
    snprintf(source, sizeof source, "%s:%u, ", file ? file : "line", at->source);
  snprintf(line, sizeof line, "%s, block %u, thread %u, %sPTX line %u: %s", k->name, b->index,
           w->index * PTX_WARP + lane, source, at->text, what);
  line_report(b->launch.options, line);
}

// ------------------------------------------------------------------- execution --

static void warp_execute(struct ptx_warp *w) {
  const struct ptx_instr *code = w->block->launch.kernel->code;
  do {
    const struct ptx_instr *i = &code[w->pc++];
    i->run(w, i);
  } while (w->stop == PTX_GOES_ON);
}

static void warp_execute_metered(struct ptx_warp *w) {
  const struct ptx_instr *code = w->block->launch.kernel->code;
  ptx_meter_turn(w);
  do {
    const struct ptx_instr *i = &code[w->pc++];
    ptx_meter_before(w, i);
    i->run(w, i);
    ptx_meter_after(w, i);
  } while (w->stop == PTX_GOES_ON);
  ptx_meter_flush(w);
}

// Lanes of the group for which an operand of the instruction is not set.
static uint32_t unset_operands(const struct ptx_warp *w, const struct ptx_instr *i) {
  uint32_t unset = 0;
  for (uint32_t o = i->written; o < (uint32_t)i->written + i->read; o++)
    if (!(i->r[o] & PTX_CONSTANT))
      unset |= w->unset[i->r[o] / PTX_SLOT_BYTES];
  return unset & w->mask;
}

static bool instr_decides(const struct ptx_instr *i) {
  return i->run == ptx_run_branch || i->run == ptx_run_unless || i->run == ptx_run_barrier;
}

// Memory that chooses values, and other blocks that may have their turn after each access and
// each fence.
static void warp_execute_scripted(struct ptx_warp *w) {
  const struct ptx_instr *code = w->block->launch.kernel->code;
  do {
    const struct ptx_instr *i = &code[w->pc++];
    if (w->pending_count)
      ptx_pending_resolve(w, i->run == ptx_run_exit ? NULL : i, w->mask);
    i->run(w, i);
    const bool is_ordered = i->use.address_bytes || i->run == ptx_run_fence;
    if (is_ordered && --w->budget <= 0 && w->stop == PTX_GOES_ON)
      w->stop = PTX_TURN;
  } while (w->stop == PTX_GOES_ON);
}

// The same with a look at what is not set: results are not set where an operand is not.
static void warp_execute_checked(struct ptx_warp *w) {
  const struct ptx_instr *code = w->block->launch.kernel->code;
  do {
    const struct ptx_instr *i = &code[w->pc++];
    const uint32_t mask = w->mask, unset = unset_operands(w, i);
    if (w->pending_count)
      ptx_pending_resolve(w, i->run == ptx_run_exit ? NULL : i, mask);
    if (unset && instr_decides(i)) {
      ptx_accuse(w, (uint32_t)__builtin_ctz(unset), "uses a value that was never written to %s",
                 i->run == ptx_run_barrier ? "wait at a barrier" : "branch");
      return;
    }
    i->run(w, i);
    for (uint32_t o = 0; o < i->written && i->use.address_bytes == 0; o++)
      if (i->r[o] != PTX_NO_REGISTER) {
        uint32_t *known = &w->unset[i->r[o] / PTX_SLOT_BYTES];
        *known = (*known & ~mask) | unset;
      }
  } while (w->stop == PTX_GOES_ON);
}

// ------------------------------------------------------------------ scheduling --

// splitmix64.
uint64_t ptx_block_random(struct ptx_block *b) {
  uint64_t z = b->random += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static uint32_t warp_ready(const struct ptx_warp *w) {
  return w->live & ~w->waiting & ~w->sleeping;
}

// The counter of the group that runs next: the least, so that lanes meet again; after a spent
// budget the next one up, so that no lane starves.
static uint32_t group_choose(struct ptx_warp *w) {
  uint32_t least = UINT32_MAX, after = UINT32_MAX;
  if (w->block->launch.options->seed) {
    uint32_t lane = (uint32_t)ptx_block_random(w->block) % PTX_WARP;
    while (!(warp_ready(w) >> lane & 1u))
      lane = (lane + 1) % PTX_WARP;
    return w->lane_pc[lane];
  }
  for (uint32_t each = warp_ready(w); each; each &= each - 1) {
    const uint32_t pc = w->lane_pc[__builtin_ctz(each)];
    least = pc < least ? pc : least;
    after = pc > w->last && pc < after ? pc : after;
  }
  return w->last != UINT32_MAX && after != UINT32_MAX ? after : least;
}

static void group_form(struct ptx_warp *w) {
  w->pc = group_choose(w);
  w->mask = 0;
  w->merge_pc = UINT32_MAX;
  for (uint32_t each = warp_ready(w); each; each &= each - 1) {
    const uint32_t lane = (uint32_t)__builtin_ctz(each), pc = w->lane_pc[lane];
    if (pc == w->pc)
      w->mask |= 1u << lane;
    else if (pc > w->pc && pc < w->merge_pc)
      w->merge_pc = pc;
  }
  // Lanes that are together need not stay together.
  const struct ptx_options *o = w->block->launch.options;
  if (o->seed && !o->warp128 && ptx_block_random(w->block) % 8 == 0) {
    const uint32_t some = w->mask & (uint32_t)ptx_block_random(w->block);
    w->mask = some ? some : w->mask;
  }
}

// Runs a group of the warp until it stops.
static enum ptx_stop warp_run(struct ptx_warp *w, int64_t budget) {
  group_form(w);
  w->stop = PTX_GOES_ON;
  w->budget = budget;
  if (w->unset)
    warp_execute_checked(w);
  else if (w->pending)
    warp_execute_scripted(w);
  else if (w->block->meter)
    warp_execute_metered(w);
  else
    warp_execute(w);
  for (uint32_t each = w->mask; each; each &= each - 1)
    w->lane_pc[__builtin_ctz(each)] = w->pc;
  w->last = w->stop == PTX_SLEEPS || w->budget <= 0 ? w->pc : UINT32_MAX;
  const uint64_t limit = w->block->launch.options->idle_limit;
  if (limit && w->idle_steps > limit && w->stop != PTX_ACCUSED && w->mask) {
    w->pc++; // accuses the instruction that is next
    ptx_accuse(w, (uint32_t)__builtin_ctz(w->mask),
               "has executed %llu instructions and done nothing that others may see",
               (unsigned long long)w->idle_steps);
  }
  if (w->stop == PTX_WAITS || w->stop == PTX_ENDED) {
    ptx_barrier_arrive(w);
    ptx_barriers_look(w->block);
  }
  return w->stop;
}

// Ends the pauses whose time has come.
static void block_wake(struct ptx_block *b) {
  uint32_t sleeping = 0;
  for (uint32_t n = 0; n < b->warp_count; n++)
    sleeping |= b->warps[n].sleeping;
  if (!sleeping)
    return;
  const uint64_t now_ns = ptx_clock_ns();
  for (uint32_t n = 0; n < b->warp_count; n++) {
    struct ptx_warp *w = &b->warps[n];
    for (uint32_t each = w->sleeping; each; each &= each - 1) {
      const uint32_t lane = (uint32_t)__builtin_ctz(each);
      if (w->lane_wake_ns[lane] <= now_ns)
        w->sleeping &= ~(1u << lane);
    }
  }
}

uint64_t ptx_block_wake_ns(const struct ptx_block *b) {
  uint64_t wake_ns = UINT64_MAX;
  for (uint32_t n = 0; n < b->warp_count; n++) {
    const struct ptx_warp *w = &b->warps[n];
    for (uint32_t each = w->sleeping; each; each &= each - 1) {
      const uint64_t lane_ns = w->lane_wake_ns[__builtin_ctz(each)];
      wake_ns = lane_ns < wake_ns ? lane_ns : wake_ns;
    }
  }
  return wake_ns == UINT64_MAX ? 0 : wake_ns;
}

// The next warp that can run, or null.
static struct ptx_warp *warp_choose(struct ptx_block *b) {
  const uint32_t from = b->launch.options->seed ? (uint32_t)ptx_block_random(b) : b->turn;
  for (uint32_t n = 0; n < b->warp_count; n++) {
    struct ptx_warp *w = &b->warps[(from % b->warp_count + n) % b->warp_count];
    if (warp_ready(w)) {
      b->turn = w->index + 1;
      return w;
    }
  }
  return NULL;
}

static uint32_t warps_ready(const struct ptx_block *b) {
  uint32_t count = 0;
  for (uint32_t n = 0; n < b->warp_count; n++)
    count += warp_ready(&b->warps[n]) != 0;
  return count;
}

// No warp can run. PTX_DONE, or PTX_FAILED: some wait, and nobody will come.
static enum ptx_state block_end(struct ptx_block *b) {
  for (uint32_t n = 0; n < b->warp_count && !b->has_failed; n++) {
    struct ptx_warp *w = &b->warps[n];
    if (!w->live)
      continue;
    const uint32_t lane = (uint32_t)__builtin_ctz(w->live), number = w->lane_barrier[lane];
    w->pc = w->lane_pc[lane];
    ptx_accuse(w, lane, "waits at barrier %u for %u threads, and %u have come; no other can run",
               number, b->barriers[number].expected,
               (uint32_t)__builtin_popcount(b->barriers[number].arrived) * PTX_WARP);
  }
  return b->has_failed ? PTX_FAILED : PTX_DONE;
}

enum ptx_state ptx_block_run(struct ptx_block *b, uint64_t budget) {
  uint32_t slept = 0; // turns in a row that ended with a pause
  int64_t left = budget > INT64_MAX ? INT64_MAX : (int64_t)budget;
  while (left > 0 && !b->has_failed) {
    block_wake(b);
    struct ptx_warp *w = warp_choose(b);
    if (!w)
      return ptx_block_wake_ns(b) ? PTX_PAUSED : block_end(b);
    int64_t quantum =
        b->launch.options->seed ? 1 + (int64_t)(ptx_block_random(b) % SEEDED_QUANTUM) : QUANTUM;
    quantum = quantum < left ? quantum : left;
    const enum ptx_stop stop = warp_run(w, quantum);
    left -= quantum - w->budget + 1;
    slept = stop == PTX_SLEEPS ? slept + 1 : 0;
    if (slept && slept >= warps_ready(b) && !ptx_block_wake_ns(b))
      return PTX_PAUSED;
  }
  return b->has_failed ? PTX_FAILED : PTX_RUNS;
}

// ------------------------------------------------------------------ life of a block --

static bool warp_init(struct ptx_warp *w, struct ptx_block *b, uint32_t index) {
  const struct ptx_launch *l = &b->launch;
  const uint32_t threads = l->threads - index * PTX_WARP;
  const uint32_t slots = l->kernel->register_bytes / PTX_SLOT_BYTES + 1;
  w->index = index;
  w->block = b;
  w->live = threads < PTX_WARP ? (1u << threads) - 1 : PTX_ALL_LANES;
  w->last = UINT32_MAX;
  w->base[1] = l->kernel->constants;
  w->base[0] = aligned_alloc(PTX_SLOT_BYTES, (size_t)slots * PTX_SLOT_BYTES);
  if (l->options->is_checked) {
    w->unset = malloc(slots * sizeof *w->unset);
    if (w->unset)
      memset(w->unset, 0xff, slots * sizeof *w->unset);
  }
  if (l->memory) {
    w->agent = l->place->agents[index];
    w->pending = malloc(PTX_MAX_PENDING * sizeof *w->pending);
    ptx_memory_begin(l->memory, l->place->by, w->agent);
  }
  if (!w->base[0] || (l->options->is_checked && !w->unset) || (l->memory && !w->pending))
    return false;
  memset(w->base[0], UNSET_BYTE, (size_t)slots * PTX_SLOT_BYTES);
  return true;
}

static int block_add_range(const struct ptx_block *b) {
  const struct ptx_place *place = b->launch.place;
  const uint64_t device = UINT64_C(1) << place->device;
  const struct ptx_range range = {.base = (uintptr_t)b->shared,
                                  .bytes = b->shared_bytes,
                                  .readers = device,
                                  .writers = device,
                                  .updaters = device,
                                  .block = place->block,
                                  .name = "shared memory"};
  return ptx_memory_range(b->launch.memory, &range);
}

static bool block_init(struct ptx_block *b) {
  const struct ptx_launch *l = &b->launch;
  const uint32_t param_bytes = l->kernel->param_bytes;
  b->warp_count = (l->threads + PTX_WARP - 1) / PTX_WARP;
  b->warps = calloc(b->warp_count, sizeof *b->warps);
  b->shared_bytes = l->kernel->shared_bytes + l->shared_bytes;
  // As aligned in this process as it is in the window.
  b->shared =
      aligned_alloc(PTX_SHARED_BASE, (b->shared_bytes / PTX_SHARED_BASE + 1) * PTX_SHARED_BASE);
  b->params = aligned_alloc(PTX_SLOT_BYTES, PTX_PARAM_BYTES);
  b->shared_unset = l->options->is_checked ? malloc(b->shared_bytes + 1) : NULL;
  if (!b->warps || !b->shared || !b->params || (l->options->is_checked && !b->shared_unset))
    return false;
  memset(b->shared, UNSET_BYTE, b->shared_bytes);
  if (b->shared_unset)
    memset(b->shared_unset, 1, b->shared_bytes);
  if (param_bytes)
    memcpy(b->params, l->params, param_bytes);
  if (l->memory && b->shared_bytes && block_add_range(b))
    return false;
  for (uint32_t n = 0; n < b->warp_count; n++)
    if (!warp_init(&b->warps[n], b, n))
      return false;
  return !l->options->meter || l->memory || l->options->is_checked || ptx_meter_attach(b) == 0;
}

struct ptx_block *ptx_block_create(const struct ptx_launch *launch, uint32_t index) {
  if (launch->threads == 0 || launch->threads > launch->kernel->max_threads)
    return NULL;
  struct ptx_block *b = calloc(1, sizeof *b);
  if (!b)
    return NULL;
  b->launch = *launch;
  b->index = index;
  b->random = launch->options->seed + index;
  if (block_init(b))
    return b;
  ptx_block_destroy(b);
  return NULL;
}

void ptx_block_destroy(struct ptx_block *b) {
  const struct ptx_launch *l = &b->launch;
  for (uint32_t n = 0; b->warps && n < b->warp_count; n++) {
    ptx_pending_resolve(&b->warps[n], NULL, PTX_ALL_LANES);
    if (l->memory)
      ptx_memory_end(l->memory, b->warps[n].agent, l->place->by);
    free(b->warps[n].base[0]);
    free(b->warps[n].unset);
    free(b->warps[n].pending);
  }
  if (l->memory && b->shared) {
    (void)ptx_memory_remove_range(l->memory, (uintptr_t)b->shared);
    ptx_memory_forget(l->memory, (uintptr_t)b->shared, b->shared_bytes);
  }
  ptx_meter_detach(b);
  free(b->warps);
  free(b->shared);
  free(b->shared_unset);
  free(b->params);
  free(b);
}

uint64_t ptx_block_steps(const struct ptx_block *b) {
  uint64_t steps = 0;
  for (uint32_t n = 0; n < b->warp_count; n++)
    steps += b->warps[n].steps;
  return steps;
}

enum ptx_state ptx_launch_run_block(const struct ptx_launch *launch, uint32_t index) {
  enum ptx_state state = PTX_RUNS;
  struct ptx_block *b = ptx_block_create(launch, index);
  if (!b)
    return PTX_FAILED;
  while (state == PTX_RUNS || state == PTX_PAUSED) {
    state = ptx_block_run(b, INT64_MAX);
    if (state == PTX_PAUSED)
      sched_yield();
  }
  ptx_block_destroy(b);
  return state;
}
