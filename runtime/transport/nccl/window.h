// A window of NCCL: memory of one GPU in each process of this machine, which NCCL maps into all of them. NCCL is used for
// that and nothing else; the daemons then load and store there as in any connector.
//
//   rondo_nccl_window_create -> id (by one) -> join (all, each with its number) -> poll ... -> address -> destroy
//
// How it is built:
//  - Every call of NCCL is made by one helper thread a window, because each may block: in NCCL's bootstrap, in the driver,
//    behind a daemon. Whoever owns the window only asks for a step and polls; asking and polling never wait.
//  - Every step has a bound. The communicator is non-blocking: the helper polls ncclCommGetAsyncError, and at the end of its
//    time, or when the owner gives up, aborts. A helper that is stuck inside a call is left behind with what it holds; it
//    ends by itself should the call ever return. So destroying a window is bounded too.
//  - Memory comes first (create), alone: rondo_mem_alloc can use it before anybody else is there. If no window comes of it
//    it stays good as memory of the device.
//  - join: hold the daemons (no launch on this device, those that run leave within a residency) -> communicator -> mark our
//    memory -> ncclCommWindowRegister (symmetric) -> ncclDevCommCreate, the only call that says whether the devices can
//    really do it -> ncclTeamLsa: all must be in one domain of loads and stores -> one tiny kernel looks up every member's
//    address and reads the mark there -> let the daemons go. A wrong mark is a refusal. NCCL never runs a kernel of its own.
//  - Which processes, in which order, and whether all or none of them use it is decided above (runtime/transport/window_group.c).
//    One communicator a device, one device a process: NCCL 2.28 takes no device twice.
//  - The end: after the daemons, ncclDevCommDestroy -> ncclCommWindowDeregister -> ncclMemFree -> ncclCommFinalize ->
//    ncclCommDestroy. Who has mapped the memory keeps it, as with any memory of the driver's.
//
// Calls may come from any thread, one at a time.
#ifndef RONDO_RUNTIME_TRANSPORT_NCCL_WINDOW_H
#define RONDO_RUNTIME_TRANSPORT_NCCL_WINDOW_H

#include <stdint.h>

#include "daemon/driver/driver.h"

#define RONDO_NCCL_ID_BYTES 128u
// Of the memory these come first and are not the owner's.
#define RONDO_NCCL_HEAD_BYTES 4096u
#define RONDO_NCCL_MAX_MEMBERS 64u

struct rondo_nccl_window;

struct rondo_nccl_window_config {
  struct rondo_device *device; // stays open as long as it is needed
  uint64_t bytes;              // a multiple of RONDO_RANGE_UNIT_BYTES; the same in all processes
  uint64_t limit_ns;           // of each step
};

// What there is of NCCL, in a line: 1 and which version can be used, or 0 and why not.
int rondo_nccl_describe(char *line);

// Starts a helper and lets it get the memory. Waits for that, within the limit. Returns RONDO_SUCCESS; else, and the reason in
// `why`, RONDO_ERR_UNSUPPORTED (no NCCL that can be used), RONDO_ERR_TIMEOUT, RONDO_ERR_NO_MEMORY or RONDO_ERR_SYSTEM.
int rondo_nccl_window_create(const struct rondo_nccl_window_config *config,
                             struct rondo_nccl_window **window, char *why);

// The memory behind the head: where the process itself has it.
uint64_t rondo_nccl_window_base(const struct rondo_nccl_window *window);
uint64_t rondo_nccl_window_bytes(const struct rondo_nccl_window *window);

// Begins to make what all members must have to find each other.
void rondo_nccl_window_make_id(struct rondo_nccl_window *window);
// Begins to join the others: this is member `index` of `count`.
void rondo_nccl_window_join(struct rondo_nccl_window *window, const uint8_t *id, uint32_t index,
                            uint32_t count);
// How the step that was begun last stands: RONDO_SUCCESS, RONDO_IN_PROGRESS, or as create, and the reason.
int rondo_nccl_window_poll(struct rondo_nccl_window *window, char *why);

// After make_id.
const uint8_t *rondo_nccl_window_id(const struct rondo_nccl_window *window);
// After join: where the memory behind the head of a member is here.
uint64_t rondo_nccl_window_address(const struct rondo_nccl_window *window, uint32_t index);

// Gives up the step that was begun, and what it has made; the memory stays. Does not wait. A step that had failed before
// stays failed.
void rondo_nccl_window_give_up(struct rondo_nccl_window *window);

// No daemon runs any more that uses it. Bounded. Null is nothing.
void rondo_nccl_window_destroy(struct rondo_nccl_window *window);

#endif // RONDO_RUNTIME_TRANSPORT_NCCL_WINDOW_H
