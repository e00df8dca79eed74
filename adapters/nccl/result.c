#include "adapters/nccl/debug.h"

#include <rondo/rondo.h>

#include "adapters/nccl/abi.h"

int rondo_nccl_result_from_status(int status) {
  static const unsigned char results[] = {
      [RONDO_SUCCESS] = RONDO_NCCL_SUCCESS,
      [RONDO_IN_PROGRESS] = RONDO_NCCL_IN_PROGRESS,
      [RONDO_ERR_TIMEOUT] = RONDO_NCCL_IN_PROGRESS,
      [RONDO_ERR_INVALID] = RONDO_NCCL_INVALID_ARGUMENT,
      [RONDO_ERR_UNKNOWN] = RONDO_NCCL_INVALID_ARGUMENT,
      [RONDO_ERR_EXISTS] = RONDO_NCCL_INVALID_USAGE,
      [RONDO_ERR_MISMATCH] = RONDO_NCCL_INVALID_USAGE,
      [RONDO_ERR_CLOSED] = RONDO_NCCL_INVALID_USAGE,
      [RONDO_ERR_BUSY] = RONDO_NCCL_INVALID_USAGE,
      [RONDO_ERR_UNSUPPORTED] = RONDO_NCCL_INVALID_USAGE,
      [RONDO_ERR_PEER] = RONDO_NCCL_REMOTE_ERROR,
      [RONDO_ERR_ABORTED] = RONDO_NCCL_REMOTE_ERROR,
      [RONDO_ERR_NO_MEMORY] = RONDO_NCCL_SYSTEM_ERROR,
      [RONDO_ERR_FULL] = RONDO_NCCL_SYSTEM_ERROR,
      [RONDO_ERR_SYSTEM] = RONDO_NCCL_SYSTEM_ERROR,
      [RONDO_ERR_INTERNAL] = RONDO_NCCL_INTERNAL_ERROR,
  };
  return status < 0 || (size_t)status >= sizeof results ? RONDO_NCCL_INTERNAL_ERROR
                                                        : results[status];
}

int rondo_nccl_check_status(int status, const char *call) {
  if (status == RONDO_SUCCESS)
    return RONDO_NCCL_SUCCESS;
  return rondo_nccl_refuse(rondo_nccl_result_from_status(status), "%s: %s (%s)", call,
                           rondo_status_string(status), rondo_status_name(status));
}

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.

RONDO_NCCL_DEFINE(int, GetVersion, (int *version)) {
  if (!version)
    return RONDO_NCCL_INVALID("ncclGetVersion: the pointer to the version is null");
  *version = RONDO_NCCL_VERSION;
  return RONDO_NCCL_SUCCESS;
}

RONDO_NCCL_DEFINE(const char *, GetErrorString, (int result)) {
  static const char *const texts[] = {
      "no error",
      "unhandled cuda error: a call of the CUDA driver failed",
      "unhandled system error: a system call failed, or memory or a limit is exhausted",
      "internal error: a bug in Rondo",
      "invalid argument",
      "invalid usage: not supported here, or the calls of the ranks do not match",
      "remote error: a rank has failed, left or aborted",
      "in progress",
  };
  if (result < 0 || (size_t)result >= sizeof texts / sizeof *texts)
    return "unknown result code";
  return texts[result];
}

// As in NCCL, the last error is that of the process, not of the communicator.
RONDO_NCCL_DEFINE(const char *, GetLastError, (rondo_nccl_comm_t comm)) {
  (void)comm;
  return rondo_nccl_last_error();
}

RONDO_NCCL_DEFINE(void, ResetDebugInit, (void)) { rondo_nccl_debug_reset(); }

void ncclResetDebugInitInternal(void) { rondo_nccl_debug_reset(); }

// NOLINTEND(readability-identifier-naming)
