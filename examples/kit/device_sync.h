// Waiting for all that runs on a CUDA device, as cudaDeviceSynchronize does: by the driver's own call,
// which has no time limit. A thread of its own makes it, so that a program can look up meanwhile.
//
//   open -> wait ... (until it says success) -> close
#ifndef RONDO_EXAMPLES_KIT_DEVICE_SYNC_H
#define RONDO_EXAMPLES_KIT_DEVICE_SYNC_H

#include <stdint.h>

struct rondo_kit_device_sync;

// Finds the driver, which must be there, and the device. Null, with one line on stderr, if that fails.
struct rondo_kit_device_sync *rondo_kit_device_sync_open(int ordinal);

// Begins to wait, unless a wait has begun that has not ended, and looks on for `timeout_ns`. Returns
// RONDO_SUCCESS when the wait has ended, RONDO_ERR_TIMEOUT when it goes on, or RONDO_ERR_SYSTEM when
// the driver refuses.
int rondo_kit_device_sync_wait(struct rondo_kit_device_sync *sync, uint64_t timeout_ns);

// Waits for what has begun, whatever it takes. Null is nothing.
void rondo_kit_device_sync_close(struct rondo_kit_device_sync *sync);

#endif // RONDO_EXAMPLES_KIT_DEVICE_SYNC_H
