// Checks the buffers of a run.
#include "base/log.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/rank.h"

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

// Refuses a buffer that the device cannot use.
static int buffer_check_reach(const struct rondo_rank *rank, const struct rondo_coll *coll,
                              const void *memory, uint64_t bytes) {
  const struct rondo_driver *driver = rank->member.device->driver;
  char why[RONDO_WHY_BYTES] = "";
  if (driver->check_buffer(rank->member.device, memory, bytes, why) == RONDO_SUCCESS)
    return RONDO_SUCCESS;
  return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "run: id %llu: rank %u cannot use a buffer: %s",
                          (unsigned long long)coll->desc.id, rank->cfg.rank, why);
}

int rondo_coll_check_buffers(const struct rondo_rank *rank, const struct rondo_coll *coll,
                             const struct rondo_run_args *args) {
  uint32_t used = coll->used_buffers;
  uintptr_t send = (uintptr_t)args->send;
  uintptr_t recv = (uintptr_t)args->recv;
  if (((used & 1) && !send) || ((used & 2) && !recv))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "run: id %llu: the %s buffer is null",
                            (unsigned long long)coll->desc.id,
                            (used & 1) && !send ? "send" : "receive");
  if (used == 3 && is_overlapping(send, coll->send_bytes, recv, coll->recv_bytes) &&
      !is_in_place(coll, send, recv))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "run: id %llu: the buffers overlap, but not in place",
                            (unsigned long long)coll->desc.id);
  if (!rank->member.device->driver->check_buffer)
    return RONDO_SUCCESS;
  int status = RONDO_SUCCESS;
  if (used & 1)
    status = buffer_check_reach(rank, coll, args->send, coll->send_bytes);
  if (status == RONDO_SUCCESS && (used & 2))
    status = buffer_check_reach(rank, coll, args->recv, coll->recv_bytes);
  return status;
}
