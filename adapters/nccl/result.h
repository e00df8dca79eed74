// From Rondo's statuses to NCCL's results.
#ifndef RONDO_ADAPTERS_NCCL_RESULT_H
#define RONDO_ADAPTERS_NCCL_RESULT_H

// The result (enum rondo_nccl_result) for `status` (enum rondo_status).
int rondo_nccl_result_from_status(int status);

// The same, and logs "call: text of the status" unless it is RONDO_SUCCESS.
int rondo_nccl_check_status(int status, const char *call);

#endif // RONDO_ADAPTERS_NCCL_RESULT_H
