// The fake driver in a scripted run: what streams and kernels access goes through the memory of the
// script.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/fake_cuda/internal.h"
#include "tests/support/ptx/ptx_memory.h"

// Copies go through the memory in pieces that are aligned in both places.
#define PIECE_BYTES 8u

static const struct rondo_fake_script *script_of(const void *at, size_t bytes) {
  const struct rondo_fake_script *s = fake.options.script;
  return s && ptx_memory_has_range(s->memory, (uintptr_t)at, bytes) ? s : NULL;
}

static struct ptx_access access_at(const void *at, uint32_t bytes, enum ptx_order order) {
  return (struct ptx_access){
      .address = (uintptr_t)at, .bytes = bytes, .order = order, .scope = PTX_SYS};
}

static uint32_t piece_of(const void *at, size_t left) {
  uint32_t piece = PIECE_BYTES;
  while ((uintptr_t)at % piece || piece > left)
    piece /= 2;
  return piece;
}

static const struct ptx_where stream_where = {.kernel = "the stream"};

void fake_scripted_read(void *to, const void *from, size_t bytes) {
  const struct rondo_fake_script *s = script_of(from, bytes);
  if (!s) {
    memcpy(to, from, bytes);
    return;
  }
  for (size_t i = 0; i < bytes;) {
    const uint8_t *at = (const uint8_t *)from + i;
    struct ptx_access a = access_at(at, piece_of(at, bytes - i), PTX_WEAK);
    ptx_memory_load(s->memory, s->agent(), 0, &a, (uint8_t *)to + i, &stream_where);
    i += a.bytes;
  }
}

void fake_scripted_write(void *to, const void *from, size_t bytes) {
  const struct rondo_fake_script *s = script_of(to, bytes);
  if (!s) {
    memcpy(to, from, bytes);
    return;
  }
  for (size_t i = 0; i < bytes;) {
    uint8_t *at = (uint8_t *)to + i;
    struct ptx_access a = access_at(at, piece_of(at, bytes - i), PTX_WEAK);
    ptx_memory_store(s->memory, s->agent(), 0, &a, (const uint8_t *)from + i, &stream_where);
    i += a.bytes;
  }
}

uint64_t fake_scripted_value(const void *at, uint32_t bytes) {
  const struct rondo_fake_script *s = fake.options.script;
  struct ptx_access a = access_at(at, bytes, PTX_ACQUIRE);
  uint64_t value = 0;
  ptx_memory_load(s->memory, s->agent(), 0, &a, &value, &stream_where);
  return value;
}

void fake_scripted_set_value(void *at, uint64_t value, uint32_t bytes) {
  const struct rondo_fake_script *s = fake.options.script;
  struct ptx_access a = access_at(at, bytes, PTX_RELEASE);
  ptx_memory_store(s->memory, s->agent(), 0, &a, &value, &stream_where);
}

// Who may update memory so that the others see no half of it: PCIe lies between devices, and
// between a device and memory of the host.
static uint64_t updaters_of(const struct fake_range *r) {
  switch (r->place) {
  case FAKE_PINNED:
  case FAKE_REGISTERED:
    return PTX_CPU_BIT;
  case FAKE_MANAGED:
    return UINT64_MAX;
  default:
    return UINT64_C(1) << r->ctx->device;
  }
}

// Which devices may read and write is asked at each access of a kernel: it changes when access to a
// peer is enabled, or set for a mapping.
void fake_scripted_range_add(const struct fake_range *r) {
  const struct ptx_range range = {.base = r->begin,
                                  .bytes = r->bytes,
                                  .readers = UINT64_MAX,
                                  .writers = UINT64_MAX,
                                  .updaters = updaters_of(r),
                                  .block = PTX_ANY_BLOCK,
                                  .name = r->place == FAKE_PINNED || r->place == FAKE_REGISTERED
                                              ? "memory of the host"
                                              : "memory of a device"};
  if (fake.options.script && ptx_memory_range(fake.options.script->memory, &range))
    abort();
}

void fake_scripted_range_remove(uintptr_t begin) {
  if (fake.options.script)
    (void)ptx_memory_remove_range(fake.options.script->memory, begin);
}

#if defined(RONDO_FAKE_PTX)
#include "tests/support/ptx/ptx_machine.h"

#define MOST_WARPS 32u
#define MOST_INSTRUCTIONS 400u // between two points

// A place for a block, used again when the block has ended.
struct place {
  struct ptx_place base;
  uint32_t agents[MOST_WARPS];
  struct place *next;
};
static struct place *idle_places; // guarded by fake.lock, as the next one
static uint32_t place_count;

static struct place *place_new(uint32_t device) {
  const struct rondo_fake_script *s = fake.options.script;
  struct place *p = calloc(1, sizeof *p);
  if (!p)
    abort();
  p->base = (struct ptx_place){.device = device, .block = place_count++, .agents = p->agents};
  for (uint32_t i = 0; i < MOST_WARPS; i++)
    p->agents[i] = ptx_memory_agent(s->memory, device, p->base.block, PTX_WARP);
  return p;
}

static struct place *place_take(uint32_t device) {
  pthread_mutex_lock(&fake.lock);
  struct place **at = &idle_places;
  while (*at && (*at)->base.device != device)
    at = &(*at)->next;
  struct place *p = *at;
  if (p)
    *at = p->next;
  else
    p = place_new(device);
  pthread_mutex_unlock(&fake.lock);
  return p;
}

static void place_give(struct place *p) {
  pthread_mutex_lock(&fake.lock);
  p->next = idle_places;
  idle_places = p;
  pthread_mutex_unlock(&fake.lock);
}

// In the virtual time of the script.
static void sleep_until(uint64_t ns) {
  const struct timespec until = {.tv_sec = (time_t)(ns / 1000000000u),
                                 .tv_nsec = (long)(ns % 1000000000u)};
  (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

int fake_scripted_run(struct ptx_launch *launch, uint32_t device, uint32_t index) {
  const struct rondo_fake_script *s = fake.options.script;
  enum ptx_state state = PTX_RUNS;
  struct place *p = place_take(device);
  p->base.by = s->agent();
  launch->memory = s->memory;
  launch->place = &p->base;
  struct ptx_block *b = ptx_block_create(launch, index);
  if (!b)
    abort();
  while (state == PTX_RUNS || state == PTX_PAUSED) {
    state = ptx_block_run(b, 1 + s->random() % MOST_INSTRUCTIONS);
    if (state == PTX_PAUSED)
      sleep_until(ptx_block_wake_ns(b));
    else
      s->point();
  }
  ptx_block_destroy(b);
  place_give(p);
  return (int)state;
}
#endif
