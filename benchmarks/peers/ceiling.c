// peer_ceiling: an all-reduce and an all-to-all of two threads of one process, written by hand for
// these cases: each reads the other's buffers directly, with no library, queue or daemon between
// them. It is what a general library can come near to and not exceed. Asked by compare like the
// others (see serve.h).
#if defined(__x86_64__)
#include <emmintrin.h>
#endif
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/rondo.h>

#include "tools/kit/serve.h"
#include "tools/kit/thread_group.h"

#define RANKS 2u
#define TIMED_ROUND 1u
#define SPLIT_BYTES 4096u       // from here on each thread adds one half and copies the other
#define STREAM_BYTES (8u << 20) // copies from here on go past the caches
#define AHEAD_BYTES 8192u       // ... and ask for what they read so far ahead

struct side {
  _Alignas(128) _Atomic uint64_t step; // steps that this side has done
  struct rondo_kit_buffers buffers;
  uint64_t steps; // its own copy
};

struct ceiling {
  struct side sides[RANKS];
  struct rondo_kit_served *shared;
  struct rondo_kit_shape shape;
};

static float *side_recv(struct ceiling *c, uint32_t rank) {
  return (float *)c->sides[rank].buffers.recv;
}

static const float *side_send(const struct ceiling *c, uint32_t rank) {
  return (const float *)c->sides[rank].buffers.send;
}

static void input_rewrite(void *arg, uint32_t rank) {
  struct ceiling *c = arg;
  struct rondo_kit_buffers *buffers = &c->sides[rank].buffers;
  memcpy(buffers->send, buffers->master, rondo_kit_shape_bytes(&c->shape));
}

// Both sides have come here. Nothing but two words goes to and fro.
static void sides_meet(struct ceiling *c, uint32_t rank) {
  struct side *own = &c->sides[rank];
  struct side *other = &c->sides[1 - rank];
  atomic_store_explicit(&own->step, ++own->steps, memory_order_release);
  while (atomic_load_explicit(&other->step, memory_order_acquire) < own->steps) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

static void floats_add(float *restrict out, const float *restrict a, const float *restrict b,
                       size_t n) {
  for (size_t i = 0; i < n; i++)
    out[i] = a[i] + b[i];
}

#if defined(__x86_64__)
static void bytes_copy(float *to, const float *from, size_t bytes) {
  const char *source = (const char *)from;
  char *target = (char *)to;
  size_t streamed = bytes < STREAM_BYTES || (uintptr_t)to % 16 ? 0 : bytes / 64 * 64;
  for (size_t at = 0; at < streamed; at += 64) {
    _mm_prefetch(source + at + AHEAD_BYTES, _MM_HINT_NTA);
    for (size_t i = at; i < at + 64; i += 16)
      _mm_stream_si128((__m128i *)(void *)(target + i),
                       _mm_loadu_si128((const __m128i *)(const void *)(source + i)));
  }
  _mm_sfence();
  memcpy(target + streamed, source + streamed, bytes - streamed);
}
#else
static void bytes_copy(float *to, const float *from, size_t bytes) { memcpy(to, from, bytes); }
#endif

static void ceiling_all_to_all(struct ceiling *c, uint32_t rank) {
  size_t count = c->shape.count;
  float *recv = side_recv(c, rank);
  for (uint32_t i = 0; i < RANKS; i++) {
    uint32_t from = (rank + i) % RANKS;
    bytes_copy(recv + from * count, side_send(c, from) + rank * count, count * sizeof(float));
  }
}

static void ceiling_all_reduce(struct ceiling *c, uint32_t rank) {
  size_t count = c->shape.count;
  float *recv = side_recv(c, rank);
  const float *low = side_send(c, 0);
  const float *high = side_send(c, 1);
  if (count * sizeof(float) < SPLIT_BYTES) {
    floats_add(recv, low, high, count);
  } else {
    size_t half = count / 2;
    size_t own_first = rank == 0 ? 0 : half;
    size_t own_count = rank == 0 ? half : count - half;
    size_t other_first = rank == 0 ? half : 0;
    floats_add(recv + own_first, low + own_first, high + own_first, own_count);
    sides_meet(c, rank); // halves are there
    memcpy(recv + other_first, side_recv(c, 1 - rank) + other_first,
           (count - own_count) * sizeof(float));
  }
}

static int collective_run(void *arg, uint32_t rank) {
  struct ceiling *c = arg;
  sides_meet(c, rank); // inputs are there
  if (c->shape.kind == RONDO_ALL_TO_ALL)
    ceiling_all_to_all(c, rank);
  else
    ceiling_all_reduce(c, rank);
  sides_meet(c, rank); // buffers are free again
  return 0;
}

static const char *request_lacks(const struct rondo_kit_request *request) {
  bool is_known = request->kind == RONDO_ALL_REDUCE || request->kind == RONDO_ALL_TO_ALL;
  return is_known && !request->in_place && rondo_kit_serve_is_plain(request)
             ? NULL
             : "only one all_reduce or all_to_all at a time, out of place";
}

static struct rondo_kit_driver request_prepare(void *arg, uint32_t rank,
                                               const struct rondo_kit_request *request) {
  struct ceiling *c = arg;
  struct rondo_kit_buffers *buffers = &c->sides[rank].buffers;
  struct rondo_kit_shape shape = rondo_kit_serve_shape(request, RANKS);
  if (rank == 0)
    c->shape = shape; // the barrier before the first iteration shows it to the other thread
  rondo_kit_buffers_grow(buffers, rondo_kit_shape_bytes(&shape));
  rondo_kit_shape_fill(&shape, rank, TIMED_ROUND, buffers->master);
  memset(buffers->recv, 0xa5, rondo_kit_shape_bytes(&shape));
  struct rondo_kit_driver driver = {.rewrite = input_rewrite, .once = collective_run, .arg = c};
  return driver;
}

static uint64_t result_wrong(void *arg, uint32_t rank) {
  struct ceiling *c = arg;
  return rondo_kit_shape_wrong(&c->shape, rank, TIMED_ROUND, c->sides[rank].buffers.recv);
}

static void rank_main(void *arg, uint32_t rank) {
  struct ceiling *c = arg;
  struct rondo_kit_server server = {.shared = c->shared,
                                    .rank = rank,
                                    .lacks = request_lacks,
                                    .prepare = request_prepare,
                                    .wrong = result_wrong,
                                    .arg = c};
  rondo_kit_serve(&server);
}

int main(void) {
  static struct ceiling ceiling;
  size_t bytes = rondo_kit_served_bytes(RANKS);
  ceiling.shared = aligned_alloc(128, bytes);
  if (!ceiling.shared)
    return 1;
  memset(ceiling.shared, 0, bytes);
  rondo_kit_served_init(ceiling.shared, RANKS, rondo_kit_core_count());
  rondo_kit_serve_ready("hand-written, two threads");
  struct rondo_kit_thread_group group = {RANKS, true, rank_main, &ceiling};
  int status = rondo_kit_thread_group_run(&group);
  for (uint32_t r = 0; r < RANKS; r++)
    rondo_kit_buffers_free(&ceiling.sides[r].buffers);
  free(ceiling.shared);
  return status == 0 ? 0 : 1;
}
