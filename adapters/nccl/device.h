// What only the CUDA driver itself can tell or do, which the program has loaded: it is looked up, not linked.
#ifndef RONDO_ADAPTERS_NCCL_DEVICE_H
#define RONDO_ADAPTERS_NCCL_DEVICE_H

#include <stddef.h>

// The ordinal of the device that the calling thread uses; 0 where it has chosen none, or there is no
// driver.
int rondo_nccl_current_device(void);

// Reads memory of a device in the order of `stream`: waits for what is in the stream before. Returns
// null, or why it cannot be: `stream` is being captured, or does not get there within a minute.
const char *rondo_nccl_device_read(void *to, const void *from, size_t bytes, void *stream);

#endif // RONDO_ADAPTERS_NCCL_DEVICE_H
