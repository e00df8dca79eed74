// A window of NCCL, the real one where it is installed: on one device, and on all devices.
#include <stdlib.h>
#include <time.h>

#include "daemon/cuda/cuda_driver.h"
#include "runtime/transport/nccl/window.h"
#include "tests/gpu/job.h"

#define SKIPPED 77
#define MEMBERS 8
#define WINDOW_BYTES (UINT64_C(32) << 20)
#define LIMIT_NS UINT64_C(30000000000)

struct member {
  struct rondo_device *device;
  struct rondo_nccl_window *window;
};

static char why[RONDO_WHY_BYTES];

static void open_member(struct member *m, int ordinal) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.backend = RONDO_BACKEND_CUDA;
  cfg.device = ordinal;
  OK(rondo_cuda_driver.open(&cfg, &m->device, why));
  const struct rondo_nccl_window_config config = {m->device, WINDOW_BYTES, LIMIT_NS};
  int status = rondo_nccl_windows.create(&config, &m->window, why);
  if (status == RONDO_ERR_UNSUPPORTED) {
    printf("window: left out: %s\n", why);
    exit(SKIPPED);
  }
  OK(status);
}

static void await_member(const struct member *m) {
  const struct timespec pause = {0, 1000000};
  int status = rondo_nccl_windows.poll(m->window, why);
  for (; status == RONDO_IN_PROGRESS; status = rondo_nccl_windows.poll(m->window, why))
    nanosleep(&pause, NULL);
  if (status != RONDO_SUCCESS)
    fprintf(stderr, "window: %s\n", why);
  OK(status);
}

// Data that a member writes to its own memory are visible to all members.
static void check_memory(const struct member *members, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const struct rondo_driver *driver = members[i].device->driver;
    uint64_t end = rondo_nccl_windows.bytes(members[i].window) - sizeof(uint64_t);
    uint64_t word = 1000 + i;
    OK(driver->write(members[i].device, rondo_nccl_windows.base(members[i].window) + end, &word,
                     sizeof word));
    for (uint32_t j = 0; j < count; j++) {
      uint64_t seen = 0;
      OK(driver->read(members[j].device, &seen,
                      rondo_nccl_windows.address(members[j].window, i) + end, sizeof seen));
      CHECK(seen == word);
    }
  }
}

static void make_window(uint32_t count) {
  struct member members[MEMBERS] = {{NULL, NULL}};
  for (uint32_t i = 0; i < count; i++)
    open_member(&members[i], (int)i);
  rondo_nccl_windows.make_id(members[0].window);
  await_member(&members[0]);
  for (uint32_t i = 0; i < count; i++)
    rondo_nccl_windows.join(members[i].window, rondo_nccl_windows.id(members[0].window), i, count);
  for (uint32_t i = 0; i < count; i++)
    await_member(&members[i]);
  check_memory(members, count);
  // The end of a communicator takes all members at once, and here they come one after the other.
  for (uint32_t i = 0; i < count && count > 1; i++)
    rondo_nccl_windows.give_up(members[i].window);
  for (uint32_t i = 0; i < count; i++) {
    rondo_nccl_windows.destroy(members[i].window);
    members[i].device->driver->close(members[i].device);
  }
}

void case_window(void) {
  make_window(1);
  if (gpu.device_count > 1)
    make_window(gpu.device_count < MEMBERS ? (uint32_t)gpu.device_count : MEMBERS);
}
