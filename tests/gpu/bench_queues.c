// Rondo's completion queue beside the three of the paper, between a kernel and the CPU; as
// benchmarks/micro/bench_cq.c does on the CPU alone.
//
//   write     block time of one push into a queue that has room, while the CPU looks
//   answer    from before the push until the CPU's answer is seen: there and back
//   stream    time for each completion when blocks push as fast as they can
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/bench.h"
#include "tests/gpu/kernels_core.h"

#define COUNT 4096 // completions of a block
#define BLOCKS 4   // of the stream
#define PATIENCE_NS UINT64_C(2000000000)
#define MOST (COUNT * BLOCKS)

static const char *const names[CQ_VARIANT_COUNT] = {"Rondo", "vanilla ring", "packed ring",
                                                    "CAS slots"};

struct queue {
  struct gpu_cq_params params;
  struct cq_shared *shared;
  uint32_t *drained;
};

static void queue_open(struct queue *q, uint32_t variant, uint32_t quantity, uint32_t count) {
  struct cq_own own = {0};
  q->shared = gpu_pinned(sizeof *q->shared);
  q->drained = gpu_pinned(sizeof *q->drained);
  cq_init(q->shared, &own, (uint64_t)(uintptr_t)&q->shared->ring);
  struct gpu_cq_params p = {.shared = (uint64_t)(uintptr_t)q->shared,
                            .own = gpu_memory(sizeof own),
                            .drained = (uint64_t)(uintptr_t)q->drained,
                            .samples = gpu_memory(count * sizeof(uint32_t)),
                            .clocks = gpu_memory(2 * sizeof(uint64_t)),
                            .patience_ns = PATIENCE_NS,
                            .variant = variant,
                            .quantity = quantity,
                            .count = count};
  CUDA(cuMemcpyHtoD(p.own, &own, sizeof own));
  q->params = p;
}

static void queue_close(struct queue *q) {
  gpu_release(q->params.own);
  gpu_release(q->params.samples);
  gpu_release(q->params.clocks);
  CUDA(cuMemFreeHost(q->shared));
  CUDA(cuMemFreeHost(q->drained));
}

// Takes as many completions as there are. Returns the time from the first to the last. `wrong`
// becomes the number of ids that did not come exactly once.
static double consume_us(struct queue *q, uint32_t total, uint32_t *wrong) {
  static uint8_t times[MOST];
  struct cq_reader reader = {0};
  double begin = gpu_now_us(), first = begin;
  memset(times, 0, total);
  for (uint32_t had = 0; had < total;) {
    uint32_t id;
    if (cq_try_pop(q->params.variant, q->shared, &reader, &id)) {
      CHECK(id < total);
      times[id] = (uint8_t)(times[id] < 2 ? times[id] + 1 : 2);
      rondo_store_release_u32(q->drained, ++had);
      first = had == 1 ? gpu_now_us() : first;
    } else {
      rondo_relax();
      if (gpu_now_us() - begin > 2e-3 * (double)PATIENCE_NS)
        break;
    }
  }
  double us = gpu_now_us() - first;
  *wrong = 0;
  for (uint32_t id = 0; id < total; id++)
    *wrong += times[id] != 1;
  return us;
}

// Figures of the samples of one block, in microseconds.
static double sampled_us(const struct queue *q, int count) {
  static uint32_t ticks[COUNT];
  static double us[COUNT];
  uint64_t clocks[2];
  CUDA(cuMemcpyDtoH(ticks, q->params.samples, (size_t)count * sizeof *ticks));
  CUDA(cuMemcpyDtoH(clocks, q->params.clocks, sizeof clocks));
  double us_a_tick = clocks[0] ? (double)clocks[1] / (double)clocks[0] / 1e3 : 0;
  for (int i = 0; i < count; i++)
    us[i] = ticks[i] * us_a_tick;
  return quantile(us, count, 0.5);
}

static double measure_us(uint32_t variant, uint32_t quantity, uint32_t *wrong) {
  uint32_t count = (uint32_t)gpu_load(COUNT, 64);
  uint32_t blocks = quantity == GPU_CQ_STREAM ? BLOCKS : 1;
  struct queue q;
  CUstream stream = gpu_stream();
  queue_open(&q, variant, quantity, count);
  gpu_launch(gpu_kernel("gpu_cq"), blocks, 32, stream, &q.params);
  double us = consume_us(&q, blocks * count, wrong) / (blocks * count);
  CUDA(cuStreamSynchronize(stream));
  if (quantity != GPU_CQ_STREAM)
    us = sampled_us(&q, (int)count);
  CUDA(cuStreamDestroy(stream));
  queue_close(&q);
  return us;
}

// A device that reaches the host over PCIe need not swap the host's words in one step: what the
// consumer writes between the two halves of a swap is lost. The queue of the paper that swaps may
// lose or double completions there.
static int may_be_wrong(uint32_t variant) {
  int is_native;
  CUDA(cuDeviceGetAttribute(&is_native, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 0));
  return variant == CQ_CAS_SLOTS && !is_native;
}

void bench_queues(void) {
  static const char *const quantities[] = {"write", "there and back", "stream"};
  for (uint32_t quantity = GPU_CQ_WRITE; quantity <= GPU_CQ_STREAM; quantity++)
    for (uint32_t v = 0; v < CQ_VARIANT_COUNT; v++) {
      char name[96];
      uint32_t wrong;
      double us = measure_us(v, quantity, &wrong);
      CHECK(wrong == 0 || may_be_wrong(v));
      snprintf(name, sizeof name, "completion queue, %s, %s", names[v], quantities[quantity]);
      if (wrong > 0) {
        snprintf(name, sizeof name, "completion queue, %s, %s, lost or doubled", names[v],
                 quantities[quantity]);
        print_figure(name, wrong, "completions");
        continue;
      }
      if (v == CQ_RONDO && quantity == GPU_CQ_WRITE)
        print_target(name, us, "us", 1, 1.0);
      else
        print_figure(name, us, "us");
    }
}
