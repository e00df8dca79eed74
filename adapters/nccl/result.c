#include "adapters/nccl/result.h"

#include <rondo/rondo.h>

#include "adapters/nccl/abi.h"
#include "adapters/nccl/debug.h"

int rondo_nccl_result_from_status(int status) {
  switch (status) {
  case RONDO_SUCCESS:
    return RONDO_NCCL_SUCCESS;
  case RONDO_IN_PROGRESS:
  case RONDO_ERR_TIMEOUT:
    return RONDO_NCCL_IN_PROGRESS;
  case RONDO_ERR_INVALID:
  case RONDO_ERR_UNKNOWN:
    return RONDO_NCCL_INVALID_ARGUMENT;
  case RONDO_ERR_EXISTS:
  case RONDO_ERR_MISMATCH:
  case RONDO_ERR_CLOSED:
  case RONDO_ERR_BUSY:
  case RONDO_ERR_UNSUPPORTED:
    return RONDO_NCCL_INVALID_USAGE;
  case RONDO_ERR_PEER:
  case RONDO_ERR_ABORTED:
    return RONDO_NCCL_REMOTE_ERROR;
  case RONDO_ERR_NO_MEMORY:
  case RONDO_ERR_FULL:
  case RONDO_ERR_SYSTEM:
    return RONDO_NCCL_SYSTEM_ERROR;
  default:
    return RONDO_NCCL_INTERNAL_ERROR;
  }
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
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT,
                             "ncclGetVersion: the pointer to the version is null");
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
