// The CUDA backend's table, for code that needs nothing else of CUDA: see daemon/driver/driver.h.
#ifndef RONDO_DAEMON_CUDA_DRIVER_H
#define RONDO_DAEMON_CUDA_DRIVER_H

#include "daemon/driver/driver.h"

extern const struct rondo_driver rondo_cuda_driver;

#endif // RONDO_DAEMON_CUDA_DRIVER_H
