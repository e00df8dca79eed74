// Waits for all work of a CUDA device by the driver's own call, as cudaDeviceSynchronize does. That
// call has no time limit, so a separate thread makes it and the program can wait with a time limit.
//
//   open -> wait ... (until it says success) -> close
#ifndef RONDO_TOOLS_KIT_DEVICE_SYNC_H
#define RONDO_TOOLS_KIT_DEVICE_SYNC_H

#include <stdint.h>

struct rondo_kit_device_sync;

// Loads the driver and finds the device. Returns null, and prints one line on stderr, if that
// fails.
struct rondo_kit_device_sync *rondo_kit_device_sync_open(int ordinal);

// Starts the driver's call, unless one is still running, and waits `timeout_ns` for its end.
// Returns RONDO_SUCCESS when the call has ended, RONDO_ERR_TIMEOUT when it is still running, or
// RONDO_ERR_SYSTEM when the driver refuses.
int rondo_kit_device_sync_wait(struct rondo_kit_device_sync *sync, uint64_t timeout_ns);

// Waits for a call that is running, without a time limit, and frees all. Null is allowed.
void rondo_kit_device_sync_close(struct rondo_kit_device_sync *sync);

#endif // RONDO_TOOLS_KIT_DEVICE_SYNC_H
