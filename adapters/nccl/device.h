// Calls of the CUDA driver that the program has loaded. They are looked up with dlsym, not linked.
#ifndef RONDO_ADAPTERS_NCCL_DEVICE_H
#define RONDO_ADAPTERS_NCCL_DEVICE_H

// The calling thread's current device; 0 if it has none, or without a driver.
int rondo_nccl_device_get_current(void);

// Waits for the work that is in `stream`. Returns null, or why it cannot: `stream` is being
// captured, or its work does not end within a minute.
const char *rondo_nccl_device_await(void *stream);

#endif // RONDO_ADAPTERS_NCCL_DEVICE_H
