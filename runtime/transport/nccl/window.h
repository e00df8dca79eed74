// A window of NCCL: memory of one GPU in each process of this machine, which NCCL maps into all of
// them. NCCL does nothing else here; the daemons load and store in the window as in any connector.
//
//   create -> make_id (one member) -> join (all members) -> poll ... -> address
//     -> destroy
//
// - One helper thread a window makes all calls of NCCL, because each may block: in NCCL's
//   bootstrap, in the driver, or until a daemon has left the device. The owner of the window starts
//   a step and polls; neither waits.
// - Every step has a limit. The communicator is non-blocking: the helper polls
//   ncclCommGetAsyncError, and aborts when the time is over or the owner gives up. If the helper is
//   stuck in a call, the owner abandons it with everything that it holds; the helper ends if the
//   call returns. So destroying a window is bounded too.
// - The memory comes first (create). rondo_mem_alloc can use it before any other member exists, and
//   also if no window comes of it.
// - A join holds the daemons (they leave the device within a residency, and none is launched) and
//   makes the communicator. It marks our memory, registers the window (ncclCommWindowRegister,
//   symmetric), and calls ncclDevCommCreate, the only call that tells whether the devices can share
//   memory. ncclTeamLsa says whether all members are in one domain of loads and stores. Then one
//   small kernel looks up every member's address and reads the mark there; a wrong mark refuses the
//   window. The daemons are released. NCCL runs no kernel of its own.
// - window_group.h decides which processes join, in which order, and whether they use the window. A
//   device has one communicator and a process one device: NCCL 2.28 takes no device twice.
// - Destroying comes after the daemons: ncclDevCommDestroy, ncclCommWindowDeregister, ncclMemFree,
//   ncclCommFinalize, ncclCommDestroy. A process that has mapped the memory keeps it, as with any
//   memory of the driver.
//
// Any thread may make these calls, one at a time.
#ifndef RONDO_RUNTIME_TRANSPORT_NCCL_WINDOW_H
#define RONDO_RUNTIME_TRANSPORT_NCCL_WINDOW_H

#include <stdint.h>

#include "daemon/driver/driver.h"

#define RONDO_NCCL_ID_BYTES 128u
// Bytes at the front of the memory that the owner may not use.
#define RONDO_NCCL_HEAD_BYTES 4096u
#define RONDO_NCCL_MAX_MEMBERS 64u

struct rondo_nccl_window;

struct rondo_nccl_window_config {
  struct rondo_device *device; // stays open as long as the window needs it
  uint64_t bytes;              // a multiple of RONDO_RANGE_UNIT_BYTES, equal in all processes
  uint64_t limit_ns;           // of each step
};

struct rondo_nccl_window_calls {
  // Describes NCCL in a line. Returns 1 and the version that can be used, or 0 and why none can.
  int (*describe)(char *line);

  // Starts a helper that allocates the memory, and waits for it, within the limit. Returns
  // RONDO_SUCCESS; else, with the reason in `why`, RONDO_ERR_UNSUPPORTED (no usable NCCL),
  // RONDO_ERR_TIMEOUT, RONDO_ERR_NO_MEMORY or RONDO_ERR_SYSTEM.
  int (*create)(const struct rondo_nccl_window_config *config, struct rondo_nccl_window **window,
                char *why);

  // The memory after the head, at the address of this process.
  uint64_t (*base)(const struct rondo_nccl_window *window);
  uint64_t (*bytes)(const struct rondo_nccl_window *window);

  // Starts to make the id by which the members find each other.
  void (*make_id)(struct rondo_nccl_window *window);
  // Starts to join the other members, as member `index` of `count`.
  void (*join)(struct rondo_nccl_window *window, const uint8_t *id, uint32_t index, uint32_t count);
  // Polls the step that was started last. Returns RONDO_IN_PROGRESS, or what create returns.
  int (*poll)(struct rondo_nccl_window *window, char *why);

  // The id, after make_id.
  const uint8_t *(*id)(const struct rondo_nccl_window *window);
  // After join: the address here of a member's memory after the head.
  uint64_t (*address)(const struct rondo_nccl_window *window, uint32_t index);

  // Gives up the step, and frees what it has made except the memory. Does not wait. A step that had
  // failed before stays failed.
  void (*give_up)(struct rondo_nccl_window *window);

  // Destroys a window that no daemon uses any more, in bounded time. Accepts null.
  void (*destroy)(struct rondo_nccl_window *window);
};
// A library that was built without NCCL has `describe` and `create` alone.
extern const struct rondo_nccl_window_calls rondo_nccl_windows;

#endif // RONDO_RUNTIME_TRANSPORT_NCCL_WINDOW_H
