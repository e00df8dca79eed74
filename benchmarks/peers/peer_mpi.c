// peer_mpi: the collectives of an MPI library, measured as rondo-perf measures Rondo's: the same
// inputs, the same barrier in shared memory, the same clock, the same requests (see serve.h).
//
//   mpirun -np 2 peer_mpi < requests
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/peers/shared_file.h"
#include "tools/kit/serve.h"
#include "tools/kit/thread_group.h"

#define TIMED_ROUND 1u
#define ROUND_BITS 20u // above them a round has the number of the collective in flight
#define BUFFER_ALIGN 4096u
#define MAX_BYTES (1ull << 32) // counts of MPI are ints

// What <wait> of a request (tools/kit/serve.h) means to MPI.
#define WAIT_BLOCK 1u // MPI_Wait, MPI_Waitall
#define WAIT_TEST 2u  // a loop over MPI_Test, MPI_Testall

struct peer {
  struct rondo_kit_served *shared;
  uint32_t rank;
  uint32_t rank_count;
  struct rondo_kit_shape shape;
  bool in_place;
  uint32_t in_flight;  // collectives in each iteration
  uint32_t wait;       // as in the request
  size_t stride_bytes; // from the buffer of one collective to that of the next
  struct rondo_kit_place place;
  struct rondo_kit_buffers buffers;
  MPI_Request requests[RONDO_KIT_SERVE_IN_FLIGHT];
};

static void inputs_rewrite(void *arg, uint32_t rank) {
  struct peer *p = arg;
  (void)rank;
  if (!rondo_kit_shape_sends(&p->shape, p->rank))
    return;
  for (uint32_t i = 0; i < p->in_flight; i++)
    memcpy((char *)p->place.send + i * p->stride_bytes, p->buffers.master + i * p->stride_bytes,
           rondo_kit_shape_send_bytes(&p->shape));
}

static int test_until_ended(struct peer *p) {
  int ended = 0, status = MPI_SUCCESS;
  while (!ended && status == MPI_SUCCESS)
    status = p->in_flight == 1
                 ? MPI_Test(p->requests, &ended, MPI_STATUS_IGNORE)
                 : MPI_Testall((int)p->in_flight, p->requests, &ended, MPI_STATUSES_IGNORE);
  return status;
}

// NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker): it does not follow requests through an array
// Begins all collectives, as all ranks do in one order, and waits for all.
static int all_reduces_run(void *arg, uint32_t rank) {
  struct peer *p = arg;
  int count = (int)p->shape.count;
  (void)rank;
  for (uint32_t i = 0; i < p->in_flight; i++) {
    size_t at = i * p->stride_bytes;
    int status = MPI_Iallreduce(p->buffers.send + at, p->buffers.recv + at, count, MPI_FLOAT,
                                MPI_SUM, MPI_COMM_WORLD, &p->requests[i]);
    if (status != MPI_SUCCESS)
      return status;
  }
  if (p->wait == WAIT_TEST)
    return test_until_ended(p);
  return p->in_flight == 1 ? MPI_Wait(p->requests, MPI_STATUS_IGNORE)
                           : MPI_Waitall((int)p->in_flight, p->requests, MPI_STATUSES_IGNORE);
}
// NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)

// Open MPI moves a rank's data only within its own calls: one that waited outside of MPI for the
// others would leave them waiting for what it has promised them.
static void ranks_settle(void *arg) {
  (void)arg;
  (void)MPI_Barrier(MPI_COMM_WORLD);
}

// MPI_IN_PLACE where the caller asked for it; the broadcast has one buffer anyway, and
// request_lacks() refuses it of others.
static int collective_run(void *arg, uint32_t rank) {
  struct peer *p = arg;
  int count = (int)p->shape.count;
  int root = (int)p->shape.root;
  void *recv = p->place.recv;
  const void *send = p->in_place ? MPI_IN_PLACE : p->place.send;
  switch (p->shape.kind) {
  case RONDO_ALL_REDUCE:
    return MPI_Allreduce(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  case RONDO_ALL_GATHER:
    return MPI_Allgather(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, MPI_COMM_WORLD);
  case RONDO_REDUCE_SCATTER:
    return MPI_Reduce_scatter_block(send, p->in_place ? p->buffers.recv : recv, count, MPI_FLOAT,
                                    MPI_SUM, MPI_COMM_WORLD);
  case RONDO_REDUCE:
    if (p->in_place && (int)rank != root)
      return MPI_Reduce(recv, NULL, count, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
    return MPI_Reduce(send, recv, count, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
  case RONDO_BROADCAST:
    return MPI_Bcast((int)rank == root ? p->place.send : recv, count, MPI_FLOAT, root,
                     MPI_COMM_WORLD);
  case RONDO_ALL_TO_ALL:
    return MPI_Alltoall(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, MPI_COMM_WORLD);
  case RONDO_GATHER:
    return MPI_Gather(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, root, MPI_COMM_WORLD);
  case RONDO_SCATTER:
    return MPI_Scatter(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, root, MPI_COMM_WORLD);
  default:
    return MPI_ERR_OP;
  }
}

// Where MPI leaves this rank's result: in place, MPI_Reduce_scatter_block puts it at the front.
static const void *result_of(const struct peer *p) {
  if (p->shape.kind == RONDO_BROADCAST && p->rank == p->shape.root)
    return p->place.send;
  if (p->shape.kind == RONDO_REDUCE_SCATTER && p->in_place)
    return p->buffers.recv;
  return p->place.recv;
}

static uint64_t round_number(uint32_t index) {
  return TIMED_ROUND + ((uint64_t)index << ROUND_BITS);
}

static struct rondo_kit_driver request_prepare(void *arg, uint32_t rank,
                                               const struct rondo_kit_request *request) {
  struct peer *p = arg;
  struct rondo_kit_driver driver = {.rewrite = inputs_rewrite, .once = collective_run, .arg = p};
  p->shape = rondo_kit_serve_shape(request, p->rank_count);
  size_t bytes = rondo_kit_shape_bytes(&p->shape);
  p->in_place = request->in_place;
  p->in_flight = request->in_flight;
  p->wait = request->wait;
  p->stride_bytes = (bytes + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
  rondo_kit_buffers_grow(&p->buffers, p->in_flight * p->stride_bytes);
  p->place = rondo_kit_shape_place(&p->shape, rank, p->in_place, p->buffers.send, p->buffers.recv);
  for (uint32_t i = 0; i < p->in_flight; i++)
    rondo_kit_shape_fill(&p->shape, rank, round_number(i), p->buffers.master + i * p->stride_bytes);
  memset(p->buffers.recv, 0xa5, p->in_flight * p->stride_bytes);
  if (!rondo_kit_serve_is_plain(request)) { // all-reduces that do not wait by themselves
    driver.once = all_reduces_run;
    driver.settle = ranks_settle;
  }
  return driver;
}

static uint64_t results_wrong(void *arg, uint32_t rank) {
  const struct peer *p = arg;
  uint64_t wrong = 0;
  for (uint32_t i = 0; i < p->in_flight; i++)
    wrong += rondo_kit_shape_wrong(&p->shape, rank, round_number(i),
                                   (const char *)result_of(p) + i * p->stride_bytes);
  return wrong;
}

// The same for a request of several collectives, or of another way to wait.
static const char *several_lack(const struct rondo_kit_request *r) {
  if (rondo_kit_serve_is_plain(r))
    return NULL;
  if (r->kind != RONDO_ALL_REDUCE || r->in_place)
    return "in flight only all_reduce, out of place";
  if (r->orders == RONDO_KIT_ORDERS_OWN)
    return "MPI needs one order on all ranks";
  if (r->wait != RONDO_KIT_SERVE_ANY_WAIT && r->wait != WAIT_BLOCK && r->wait != WAIT_TEST)
    return "MPI waits or tests";
  return NULL;
}

// What a request asks for that is not here; null: nothing. Requests are for kinds that MPI has.
static const char *request_lacks(const struct rondo_kit_request *r) {
  if (r->bytes > MAX_BYTES)
    return "too large for MPI's counts";
  return r->in_place && r->kind > RONDO_BROADCAST ? "not in place" : several_lack(r);
}

// Cores that all processes may use between them: mpirun may have bound each to its own.
static uint32_t cores_gather(void) {
  cpu_set_t own = rondo_kit_cores();
  cpu_set_t all;
  MPI_Allreduce(&own, &all, sizeof all, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
  return (uint32_t)CPU_COUNT(&all);
}

static void memory_share(struct peer *p, MPI_Win *window) {
  void *base;
  MPI_Aint bytes = (MPI_Aint)(128 + rondo_kit_served_bytes(p->rank_count));
  int unit;
  *window = MPI_WIN_NULL;
  base = peer_shared_file((size_t)bytes);
  if (!base) {
    MPI_Win_allocate_shared(p->rank == 0 ? bytes : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base,
                            window);
    MPI_Win_shared_query(*window, 0, &bytes, &unit, &base);
  }
  // Each process may map the window elsewhere, but by whole pages, so all align alike.
  p->shared = (struct rondo_kit_served *)(((uintptr_t)base + 127) / 128 * 128);
  uint32_t cores = cores_gather();
  if (p->rank == 0)
    rondo_kit_served_init(p->shared, p->rank_count, cores);
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  char what[MPI_MAX_LIBRARY_VERSION_STRING];
  int length, rank, rank_count;
  MPI_Win window;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &rank_count);
  MPI_Get_library_version(what, &length);
  what[strcspn(what, ",\n\"")] = '\0';
  static struct peer peer; // too large for a stack, for its requests
  peer.rank = (uint32_t)rank;
  peer.rank_count = (uint32_t)rank_count;
  memory_share(&peer, &window);
  if (rank == 0)
    rondo_kit_serve_ready(what);
  struct rondo_kit_server server = {.shared = peer.shared,
                                    .rank = peer.rank,
                                    .lacks = request_lacks,
                                    .prepare = request_prepare,
                                    .wrong = results_wrong,
                                    .failure = "MPI",
                                    .arg = &peer};
  rondo_kit_serve(&server);
  if (window != MPI_WIN_NULL)
    MPI_Win_free(&window);
  rondo_kit_buffers_free(&peer.buffers);
  MPI_Finalize();
  return 0;
}
