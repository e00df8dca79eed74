// Reductions of NCCL, also those of ncclRedOpCreatePreMulSum.
#ifndef RONDO_ADAPTERS_NCCL_OP_H
#define RONDO_ADAPTERS_NCCL_OP_H

#include "adapters/nccl/comm.h"

// Sets the reduction of `what` to NCCL's `op`. A scalar in device memory is read in the order of
// `stream`. Returns enum rondo_nccl_result.
int rondo_nccl_op_apply(struct rondo_nccl_comm *comm, const char *call, int op, void *stream,
                        struct rondo_collective_desc *what);

#endif // RONDO_ADAPTERS_NCCL_OP_H
