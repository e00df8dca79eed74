// Reductions that a program makes.
#ifndef RONDO_ADAPTERS_NCCL_OP_H
#define RONDO_ADAPTERS_NCCL_OP_H

#include "adapters/nccl/comm.h"

// Writes what NCCL's reduction `op` of elements `dtype` means to `what`. A factor in memory of a device is
// read in the order of `stream`.
int rondo_nccl_op_apply(struct rondo_nccl_comm *comm, const char *call, int op, void *stream,
                        struct rondo_collective_desc *what);

// The value of one element, as double. `exact` gets whether it is that value.
double rondo_nccl_element_value(const void *element, int dtype, bool *exact);

#endif // RONDO_ADAPTERS_NCCL_OP_H
