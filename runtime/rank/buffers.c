// Checks the buffers of a run.
#include "base/log.h"
#include "runtime/memory/range.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/submit.h"

static bool is_overlapping(uintptr_t a, uint64_t a_bytes, uintptr_t b, uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

static bool is_in_place(const struct rondo_coll *coll, uintptr_t send, uintptr_t recv) {
  int kind = coll->desc.kind;
  if (kind == RONDO_ALL_TO_ALL || kind == RONDO_ALL_TO_ALL_V)
    return coll->registration.nranks == 1 && send == recv && kind == RONDO_ALL_TO_ALL;
  if (kind == RONDO_ALL_GATHER || kind == RONDO_GATHER)
    return send == recv + coll->in_place_bytes;
  return recv == send + coll->in_place_bytes;
}

// The buffers without the id, which is in another cache line of the collective.
static struct rondo_buffers coll_buffers(const struct rondo_coll *coll,
                                         const struct rondo_submission *s) {
  struct rondo_buffers b = {.used = coll->used_buffers,
                            .bytes = {coll->send_bytes, coll->recv_bytes}};
  if (s->exchange) {
    b.bytes[0] = s->exchange->send_bytes;
    b.bytes[1] = s->exchange->recv_bytes;
    b.used = (b.bytes[0] ? 1u : 0u) | (b.bytes[1] ? 2u : 0u);
  }
  b.memory[0] = b.used & 1 ? s->args.send : NULL;
  b.memory[1] = b.used & 2 ? s->args.recv : NULL;
  return b;
}

struct rondo_buffers rondo_coll_buffers(const struct rondo_coll *coll,
                                        const struct rondo_submission *s) {
  struct rondo_buffers b = coll_buffers(coll, s);
  b.id = coll->desc.id;
  return b;
}

// True for memory of rondo_mem_alloc that all devices of the job can access.
static bool is_in_range(const struct rondo_rank *rank, const void *memory, uint64_t bytes) {
  const struct rondo_range *range = rank->job->transports.range;
  uint64_t at = range ? (uint64_t)(uintptr_t)memory - rondo_range_base(range) : 0;
  return range && at < rondo_range_bytes(range) && bytes <= rondo_range_bytes(range) - at;
}

int rondo_buffers_check_reach(const struct rondo_rank *rank, const struct rondo_buffers *buffers,
                              bool *is_private) {
  const struct rondo_driver *driver = rank->member.device->driver;
  char why[RONDO_WHY_BYTES] = "";
  for (int i = 0; i < 2 && driver->check_buffer; i++) {
    const void *memory = buffers->memory[i];
    bool is_one_private = false;
    if (!memory)
      continue;
    if (driver->check_buffer(rank->member.device, memory, buffers->bytes[i], &is_one_private,
                             why) != RONDO_SUCCESS)
      return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "run: id %llu: rank %u cannot use a buffer: %s",
                              (unsigned long long)buffers->id, rank->cfg.rank, why);
    *is_private |= is_one_private && !is_in_range(rank, memory, buffers->bytes[i]);
  }
  return RONDO_SUCCESS;
}

int rondo_run_check_reach(struct rondo_rank *rank, struct rondo_collective handle,
                          const struct rondo_submission *s, bool *is_private) {
  struct rondo_buffers buffers = {0};
  if (!rank->member.device->driver->check_buffer)
    return RONDO_SUCCESS;
  rondo_lock_take(&rank->lock);
  const struct rondo_coll *coll = rondo_coll_find(rank, handle);
  if (coll)
    buffers = rondo_coll_buffers(coll, s);
  rondo_lock_give(&rank->lock);
  return rondo_buffers_check_reach(rank, &buffers, is_private);
}

int rondo_coll_check_buffers(const struct rondo_coll *coll, const struct rondo_submission *s) {
  const struct rondo_buffers b = coll_buffers(coll, s);
  uintptr_t send = (uintptr_t)b.memory[0];
  uintptr_t recv = (uintptr_t)b.memory[1];
  if (((b.used & 1) && !send) || ((b.used & 2) && !recv))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "run: id %llu: the %s buffer is null",
                            (unsigned long long)coll->desc.id,
                            (b.used & 1) && !send ? "send" : "receive");
  if (b.used == 3 && is_overlapping(send, b.bytes[0], recv, b.bytes[1]) &&
      !is_in_place(coll, send, recv))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "run: id %llu: the buffers overlap, but not in place",
                            (unsigned long long)coll->desc.id);
  return RONDO_SUCCESS;
}
