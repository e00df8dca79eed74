// Versions, results and their texts.
#include "adapters/nccl/result.h"

#include <rondo/rondo.h>

#include "adapters/nccl/abi.h"
#include "adapters/nccl/say.h"

int rondo_nccl_result_of(int status) {
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

int rondo_nccl_passed_on(int status, const char *call) {
  if (status == RONDO_SUCCESS)
    return RONDO_NCCL_SUCCESS;
  return rondo_nccl_refuse(rondo_nccl_result_of(status), "%s: %s (%s)", call,
                           rondo_status_string(status), rondo_status_name(status));
}

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.

RONDO_NCCL_DEFINE(int, GetVersion, (int *version)) {
  if (!version)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "ncclGetVersion: no place for it");
  *version = RONDO_NCCL_VERSION;
  return RONDO_NCCL_SUCCESS;
}

RONDO_NCCL_DEFINE(const char *, GetErrorString, (int result)) {
  static const char *const texts[] = {
      "no error",
      "unhandled cuda error: the driver refused a call",
      "unhandled system error: the system refused a call, or memory or a limit is used up",
      "internal error: a defect of the library",
      "invalid argument",
      "invalid usage: not possible here, or the ranks' calls do not belong together",
      "remote error: a rank has failed, left or aborted",
      "in progress",
  };
  if (result < 0 || (size_t)result >= sizeof texts / sizeof *texts)
    return "no result of NCCL";
  return texts[result];
}

// The last error is the process's, whatever the communicator, as in NCCL.
RONDO_NCCL_DEFINE(const char *, GetLastError, (rondo_nccl_comm_t comm)) {
  (void)comm;
  return rondo_nccl_last_error();
}

RONDO_NCCL_DEFINE(void, ResetDebugInit, (void)) { rondo_nccl_say_again(); }

void ncclResetDebugInitInternal(void) { rondo_nccl_say_again(); }

// NOLINTEND(readability-identifier-naming)
