// Ranks on several devices of the stand-in for the CUDA driver: where their connectors lie, which
// buffers are read in place, depending on which device reaches which, and how that is described.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/job/match_entry.h"
#include "runtime/job/processes.h"
#include "runtime/net/topology.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/transport/communicator.h"
#include "tests/integration/cuda_device.h"

// In place of the kernels: the stand-in has its own.
const unsigned char rondo_cuda_image[] = {1};

static void ranks_of_several_peer_devices_reduce(void **state) {
  (void)state;
  reset_to(4, 1);
  job_of(4, 2, 100000);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 4), RONDO_SUCCESS);
  rounds(2);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
}

static struct rondo_rank *rank_of(uint32_t r) {
  struct rondo_rank *rank = NULL;
  assert_int_equal(rondo_rank_pin(job.ctx[r], "test", &rank), RONDO_SUCCESS);
  rondo_rank_unpin(job.ctx[r]);
  return rank;
}

// The device on which the driver says that an address is; -1: in host memory.
static int device_of(const void *address) {
  unsigned type = 0;
  int ordinal = -1;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void *data[] = {&type, &ordinal};
  assert_int_equal(cuPointerGetAttributes(2, attributes, data, (CUdeviceptr)(uintptr_t)address),
                   CUDA_SUCCESS);
  return type == CU_MEMORYTYPE_DEVICE ? ordinal : -1;
}

// Where connectors to rank `to` from rank `from` of collective 0 are; -2: there are none.
static int place_of(uint32_t from, uint32_t to) {
  const struct rondo_match_entry *m = rondo_match_entry_find(rank_of(0)->job, (struct rondo_id){0});
  assert_non_null(m);
  assert_non_null(m->comms);
  const struct rondo_link *link = rondo_communicator_link(m->comms, from, to);
  if (!link)
    return -2;
  for (uint32_t b = 1; b < m->comms->shape.blocks; b++)
    assert_int_equal(device_of(rondo_link_connector(link, b)), device_of(link->first));
  return device_of(link->first);
}

static void check_why(uint32_t from, uint32_t to, const char *wanted) {
  char why[256];
  int transport = -1;
  assert_int_equal(rondo_transport(job.ctx[from], to, &transport, why, sizeof why), RONDO_SUCCESS);
  assert_int_equal(transport, RONDO_TRANSPORT_LOCAL);
  assert_string_equal(why, wanted);
}

// Six ranks on four devices, of which two and two reach each other: rank r is on device r % 4.
static void connectors_lie_where_the_receiver_is_if_the_sender_reaches_it(void **state) {
  (void)state;
  reset_to(4, 2);
  job_of(6, 2, 20000);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 4), RONDO_SUCCESS);
  assert_int_equal(place_of(0, 1), 1);
  assert_int_equal(place_of(1, 2), -1);
  assert_int_equal(place_of(2, 3), 3);
  assert_int_equal(place_of(3, 4), -1);
  assert_int_equal(place_of(4, 5), 1);
  assert_int_equal(place_of(5, 0), 0);
  check_why(0, 4, "in memory of device 0, on which both ranks are");
  check_why(0, 5,
            "in memory of device 1, to which device 0 has peer access; buffers are read in place");
  check_why(5, 2, "in page-locked host memory: device 1 has no peer access to device 2");
  for (uint32_t r = 0; r < 6; r++)
    assert_int_equal(rondo_processes_place(rank_of(r)->member.device).links, 1);
  rounds(2);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
}

// Large chunks go by reference only where the receiver can read the sender's buffers.
static uint32_t reference_bytes(uint32_t from, uint32_t to) {
  const struct rondo_match_entry *m = rondo_match_entry_find(rank_of(0)->job, (struct rondo_id){0});
  const struct rondo_link *link = rondo_communicator_link(m->comms, from, to);
  struct rondo_connector c;
  assert_non_null(link);
  assert_int_equal(rondo_mem_copy(job.ctx[0], &c, link->first, sizeof c), RONDO_SUCCESS);
  return c.reference_bytes;
}

static void buffers_are_read_in_place_by_devices_that_reach_them(void **state) {
  (void)state;
  reset_to(4, 2);
  job_of(4, 1, 20000);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 4), RONDO_SUCCESS);
  assert_true(reference_bytes(0, 1) < UINT32_MAX);
  assert_int_equal(reference_bytes(1, 2), UINT32_MAX);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
}

// Runs collective 0 on rank 0 with the send buffer of another rank, which is on another device.
static int run_with_buffer_of(uint32_t rank) {
  return rondo_run(job.ctx[0], job.coll[0][0], job.send[rank][0], job.recv[0][0], NULL, NULL);
}

// The hardware offers it, and the driver refuses it: host memory does.
static void a_refused_peer_is_reached_by_host_memory(void **state) {
  (void)state;
  reset_to(2, 1);
  rondo_fake_fail("cuCtxEnablePeerAccess", 1, UINT64_MAX, CUDA_ERROR_TOO_MANY_PEERS);
  job_of(2, 2, 20000);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 2), RONDO_SUCCESS);
  assert_int_equal(place_of(0, 1), -1);
  assert_int_equal(place_of(1, 0), -1);
  rounds(2);
  assert_int_equal(run_with_buffer_of(1), RONDO_ERR_INVALID);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
  rondo_fake_fail(NULL, 0, 0, CUDA_SUCCESS);
}

// The driver offers peer access, and bytes arrive changed without an error.
static void a_peer_that_corrupts_is_reached_by_host_memory(void **state) {
  (void)state;
  struct rondo_fake_options options = rondo_fake_defaults();
  options.devices = 2;
  options.peers_corrupt = 1;
  reset(&options);
  job_of(2, 2, 20000);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 2), RONDO_SUCCESS);
  assert_true(rondo_test_log_has("bytes that device 1 copies to or from device 0 arrive changed"));
  assert_int_equal(place_of(0, 1), -1);
  assert_int_equal(place_of(1, 0), -1);
  check_why(0, 1, "in page-locked host memory: device 0 has no peer access to device 1 that works");
  rounds(2);
  assert_int_equal(run_with_buffer_of(1), RONDO_ERR_INVALID);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
}

static void buffers_may_lie_on_the_device_of_a_peer(void **state) {
  (void)state;
  reset_to(2, 1);
  job_of(2, 1, 20000);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 2), RONDO_SUCCESS);
  for (uint32_t r = 0; r < 2; r++)
    assert_int_equal(rondo_test_cuda_fill(&job, r, 0, 0), RONDO_SUCCESS);
  for (uint32_t r = 0; r < 2; r++) {
    assert_int_equal(
        rondo_run(job.ctx[r], job.coll[r][0], job.send[1 - r][0], job.recv[r][0], NULL, NULL),
        RONDO_SUCCESS);
  }
  for (uint32_t r = 0; r < 2; r++) {
    assert_int_equal(rondo_test_cuda_wait(&job, r, 0), RONDO_SUCCESS);
    assert_int_equal(rondo_test_cuda_check(&job, r, 0, 0), RONDO_SUCCESS);
  }
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
}

// Slots of a connector between ranks 0 and 1 of collective 0 that refer to a buffer of the sender.
static uint32_t count_references(uint32_t from, uint32_t to) {
  const struct rondo_match_entry *m = rondo_match_entry_find(rank_of(0)->job, (struct rondo_id){0});
  const struct rondo_link *link = rondo_communicator_link(m->comms, from, to);
  struct {
    struct rondo_connector c;
    struct rondo_slot slots[RONDO_CONNECTOR_MAX_SLOTS];
  } image;
  uint32_t count = 0;
  assert_non_null(link);
  for (uint32_t b = 0; b < m->comms->shape.blocks; b++) {
    uint64_t bytes = rondo_connector_bytes(m->comms->shape.slot_count);
    assert_int_equal(rondo_mem_copy(job.ctx[0], &image, rondo_link_connector(link, b), bytes),
                     RONDO_SUCCESS);
    for (uint32_t i = 0; i < image.c.slot_count; i++)
      count += (image.slots[i].bytes & RONDO_SLOT_REFERENCE) != 0;
  }
  return count;
}

enum where { IN_MEMORY, IN_POOL, MANAGED, PAGEABLE, MAPPED };

static size_t mapped_bytes(size_t bytes, const CUmemAllocationProp *of) {
  size_t unit = 0;
  assert_int_equal(cuMemGetAllocationGranularity(&unit, of, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                   CUDA_SUCCESS);
  return (bytes + unit - 1) / unit * unit;
}

static CUmemAllocationProp device_memory(uint32_t device) {
  CUmemAllocationProp of;
  memset(&of, 0, sizeof of);
  of.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  of.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  of.location.id = (int)device;
  return of;
}

// Maps memory of a device, as PyTorch's expandable segments do. The application sets the rights:
// here only that device may use the memory.
static void *buffer_map(uint32_t device, size_t bytes) {
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp of = device_memory(device);
  CUmemAccessDesc access = {of.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr at = 0;
  size_t whole = mapped_bytes(bytes, &of);
  assert_int_equal(cuMemAddressReserve(&at, whole, 0, 0, 0), CUDA_SUCCESS);
  assert_int_equal(cuMemCreate(&handle, whole, &of, 0), CUDA_SUCCESS);
  assert_int_equal(cuMemMap(at, whole, 0, handle, 0), CUDA_SUCCESS);
  assert_int_equal(cuMemRelease(handle), CUDA_SUCCESS);
  assert_int_equal(cuMemSetAccess(at, whole, &access, 1), CUDA_SUCCESS);
  return (void *)(uintptr_t)at;
}

static void buffer_unmap(CUdeviceptr at, size_t bytes) {
  CUmemAllocationProp of = device_memory(0);
  assert_int_equal(cuMemUnmap(at, mapped_bytes(bytes, &of)), CUDA_SUCCESS);
  assert_int_equal(cuMemAddressFree(at, mapped_bytes(bytes, &of)), CUDA_SUCCESS);
}

// A buffer for rank `rank`, which is on the device of the same number.
static void *buffer_make(enum where where, uint32_t rank, size_t bytes) {
  CUcontext ctx;
  CUdeviceptr memory = 0;
  if (where == PAGEABLE)
    return calloc(1, bytes);
  if (where == MAPPED)
    return buffer_map(rank, bytes);
  assert_int_equal(cuDevicePrimaryCtxRetain(&ctx, (int)rank), CUDA_SUCCESS);
  assert_int_equal(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
  assert_int_equal(where == IN_MEMORY ? cuMemAlloc(&memory, bytes)
                   : where == IN_POOL ? cuMemAllocAsync(&memory, bytes, NULL)
                                      : cuMemAllocManaged(&memory, bytes, CU_MEM_ATTACH_GLOBAL),
                   CUDA_SUCCESS);
  assert_int_equal(cuDevicePrimaryCtxRelease((int)rank), CUDA_SUCCESS);
  return (void *)(uintptr_t)memory;
}

static void buffer_free(enum where where, void *memory, size_t bytes) {
  CUdeviceptr at = (CUdeviceptr)(uintptr_t)memory;
  if (where == PAGEABLE)
    free(memory);
  else if (where == MAPPED)
    buffer_unmap(at, bytes);
  else
    assert_int_equal(where == IN_POOL ? cuMemFreeAsync(at, NULL) : cuMemFree(at), CUDA_SUCCESS);
}

// Runs collective 0 on both ranks, each with a copy of its input in a buffer of the given kind, and
// checks the results.
static void run_with_buffers(enum where where) {
  size_t bytes = job.count * sizeof(int32_t);
  void *buffers[2];
  for (uint32_t r = 0; r < 2; r++) {
    buffers[r] = buffer_make(where, r, bytes);
    assert_int_equal(rondo_test_cuda_fill(&job, r, 0, 0), RONDO_SUCCESS);
    assert_int_equal(rondo_mem_copy(job.ctx[r], buffers[r], job.send[r][0], bytes), RONDO_SUCCESS);
    assert_int_equal(rondo_run(job.ctx[r], job.coll[r][0], buffers[r], buffers[r], NULL, NULL),
                     RONDO_SUCCESS);
  }
  for (uint32_t r = 0; r < 2; r++) {
    assert_int_equal(rondo_test_cuda_wait(&job, r, 0), RONDO_SUCCESS);
    assert_int_equal(rondo_mem_copy(job.ctx[r], job.recv[r][0], buffers[r], bytes), RONDO_SUCCESS);
    assert_int_equal(rondo_test_cuda_check(&job, r, 0, 0), RONDO_SUCCESS);
    buffer_free(where, buffers[r], bytes);
  }
}

// Peer access covers neither pools nor mappings nor managed nor pageable memory: only what
// cuMemAlloc returns is read in place by the other device.
static void a_buffer_that_a_peer_may_not_read_is_sent_by_value(void **state) {
  (void)state;
  static const enum where kinds[] = {IN_POOL, MANAGED, PAGEABLE, MAPPED};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    struct rondo_fake_options options = rondo_fake_defaults();
    options.devices = 2;
    options.pageable_access = 1;
    reset(&options);
    job_of(2, 1, 100000);
    assert_int_equal(rondo_test_cuda_open(&job, NULL, 2), RONDO_SUCCESS);
    run_with_buffers(kinds[i]);
    assert_int_equal(count_references(0, 1) + count_references(1, 0), 0);
    run_with_buffers(IN_MEMORY);
    assert_true(count_references(0, 1) + count_references(1, 0) > 0);
    run_with_buffers(kinds[i]);
    assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
  }
}

static void a_buffer_of_a_peers_pool_is_refused(void **state) {
  (void)state;
  reset_to(2, 1);
  job_of(2, 1, 1000);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 2), RONDO_SUCCESS);
  void *far = buffer_make(IN_POOL, 1, 4000);
  assert_int_equal(rondo_run(job.ctx[0], job.coll[0][0], far, job.recv[0][0], NULL, NULL),
                   RONDO_ERR_INVALID);
  assert_true(rondo_test_log_has("it is of a pool or a mapping, which peer access does not cover"));
  buffer_free(IN_POOL, far, 4000);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
}

// Of the CUDA backend. The caller frees the text.
static char *description(int wanted) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *file = open_memstream(&text, &bytes);
  assert_non_null(file);
  assert_int_equal(rondo_backend_describe(RONDO_BACKEND_CUDA, file), wanted);
  assert_int_equal(fclose(file), 0);
  return text;
}

static void describing_says_where_connectors_would_lie(void **state) {
  (void)state;
  reset_to(3, 2);
  char *text = description(RONDO_SUCCESS);
  assert_non_null(strstr(text, "device 0: compute capability "));
  assert_non_null(strstr(text, "windows of NCCL: "));
  assert_non_null(
      strstr(text, "device 0 to device 1: in memory of device 1: there is peer access"));
  assert_non_null(
      strstr(text, "device 1 to device 2: in page-locked host memory: there is no peer"));
  assert_int_equal(rondo_fake_live().contexts, 0);
  free(text);
  assert_int_equal(setenv("CUDA_LAUNCH_BLOCKING", "1", 1), 0);
  text = description(RONDO_SUCCESS);
  assert_non_null(strstr(text, "CUDA_LAUNCH_BLOCKING=1: launches return when the daemon leaves"));
  free(text);
  assert_int_equal(unsetenv("CUDA_LAUNCH_BLOCKING"), 0);
}

static void describing_says_why_there_is_nothing(void **state) {
  (void)state;
  reset_to(0, 1);
  char *text = description(RONDO_ERR_UNSUPPORTED);
  const char *last = strstr(text, "cannot be used: ");
  assert_non_null(last);
  assert_string_equal(last, "cannot be used: there is no CUDA device\n");
  free(text);
  reset(NULL);
  rondo_fake_fail("cuInit", 1, 1, CUDA_ERROR_OUT_OF_MEMORY);
  text = description(RONDO_ERR_UNSUPPORTED);
  assert_non_null(strstr(text, "cannot be used: the CUDA driver does not start: CUDA_ERROR_"));
  free(text);
  rondo_fake_fail(NULL, 0, 0, CUDA_SUCCESS);
  rondo_cuda_api_from("librondo-no-such-driver.so");
  text = description(RONDO_ERR_UNSUPPORTED);
  assert_non_null(strstr(text, "cannot be used: there is no CUDA driver: "));
  free(text);
  rondo_cuda_api_from(NULL);
  assert_int_equal(rondo_backend_describe(2, stdout), RONDO_ERR_INVALID);
  assert_int_equal(rondo_backend_describe(RONDO_BACKEND_HOST, NULL), RONDO_ERR_INVALID);
}

int main(int argc, char **argv) {
  if (argc > 1)
    cmocka_set_test_filter(argv[1]);
  rondo_test_log_open();
  if (setenv("RONDO_ALGO", "all_reduce=ring", 1)) // each rank has connectors to the next one alone
    return 1;
  const struct CMUnitTest tests[] = {
      RONDO_CUDA_TEST("cuda_peers", ranks_of_several_peer_devices_reduce),
      RONDO_CUDA_TEST("cuda_peers", connectors_lie_where_the_receiver_is_if_the_sender_reaches_it),
      RONDO_CUDA_TEST("cuda_peers", buffers_are_read_in_place_by_devices_that_reach_them),
      RONDO_CUDA_TEST("cuda_peers", a_refused_peer_is_reached_by_host_memory),
      RONDO_CUDA_TEST("cuda_peers", a_peer_that_corrupts_is_reached_by_host_memory),
      RONDO_CUDA_TEST("cuda_peers", buffers_may_lie_on_the_device_of_a_peer),
      RONDO_CUDA_TEST("cuda_peers", a_buffer_that_a_peer_may_not_read_is_sent_by_value),
      RONDO_CUDA_TEST("cuda_peers", a_buffer_of_a_peers_pool_is_refused),
      RONDO_CUDA_TEST("cuda_peers", describing_says_where_connectors_would_lie),
      RONDO_CUDA_TEST("cuda_peers", describing_says_why_there_is_nothing),
  };
  return cmocka_run_group_tests_name("cuda_peers", tests, NULL, NULL);
}
