// From Rondo's statuses to NCCL's results.
#ifndef RONDO_ADAPTERS_NCCL_RESULT_H
#define RONDO_ADAPTERS_NCCL_RESULT_H

// The result (enum rondo_nccl_result) that says most nearly what `status` (enum rondo_status) says.
int rondo_nccl_result_of(int status);

// The same for a call that Rondo refused: if it was, one line, "call: what the status says".
int rondo_nccl_passed_on(int status, const char *call);

#endif // RONDO_ADAPTERS_NCCL_RESULT_H
