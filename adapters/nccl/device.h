// The CUDA device that the calling thread uses, as the driver knows it.
#ifndef RONDO_ADAPTERS_NCCL_DEVICE_H
#define RONDO_ADAPTERS_NCCL_DEVICE_H

// Its ordinal; 0 where the thread has chosen none, or there is no driver.
int rondo_nccl_current_device(void);

#endif // RONDO_ADAPTERS_NCCL_DEVICE_H
