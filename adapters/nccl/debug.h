// Results, the last error for ncclGetLastError, and the log. The log has the format of NCCL's, and
// NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE control it. Any thread may call everything
// here.
#ifndef RONDO_ADAPTERS_NCCL_DEBUG_H
#define RONDO_ADAPTERS_NCCL_DEBUG_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "adapters/nccl/abi.h"

// Subsystems of NCCL_DEBUG_SUBSYS with lines in this library.
enum { RONDO_NCCL_SUBSYS_INIT = 1u, RONDO_NCCL_SUBSYS_COLL = 2u, RONDO_NCCL_SUBSYS_ENV = 128u };

// Logs at level WARN why a call is refused, keeps the line as the last error, and returns `result`.
// RONDO_NCCL_SUCCESS: the line is only a warning.
int rondo_nccl_refuse(int result, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Refuses an invalid argument.
#define RONDO_NCCL_INVALID(...) rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, __VA_ARGS__)

// The result (enum rondo_nccl_result) for `status` (enum rondo_status).
int rondo_nccl_result_from_status(int status);

// The same, and logs "call: text of the status" unless it is RONDO_SUCCESS.
int rondo_nccl_check_status(int status, const char *call);

// Logs a warning.
#define RONDO_NCCL_WARN(...) ((void)rondo_nccl_refuse(RONDO_NCCL_SUCCESS, __VA_ARGS__))

// Runs `reset` in each child process of this one.
#define RONDO_NCCL_ON_FORK(reset)                                                                  \
  __attribute__((constructor)) static void reset##_register(void) {                                \
    (void)pthread_atfork(NULL, NULL, reset);                                                       \
  }

// Whether lines of level INFO of this subsystem are logged.
bool rondo_nccl_debug_enabled(unsigned subsystem);
// Logs at level INFO.
void rondo_nccl_info(unsigned subsystem, int device, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Logs the version once, at level VERSION, if NCCL_DEBUG is set.
void rondo_nccl_debug_print_version(void);

// The last line of rondo_nccl_refuse in this process, or "". Valid until the thread's next call of
// this.
const char *rondo_nccl_last_error(void);

// Reads the variables again and reopens the file.
void rondo_nccl_debug_reset(void);

// Copies the path of NCCL_DEBUG_FILE and replaces %h by the host name and %p by the process id.
void rondo_nccl_debug_expand_path(const char *path, char *out, size_t out_bytes);

// Null, or what is wrong with a value of NCCL_DEBUG or NCCL_DEBUG_SUBSYS.
const char *rondo_nccl_debug_level_complaint(const char *value);
const char *rondo_nccl_debug_subsys_complaint(const char *value);

#endif // RONDO_ADAPTERS_NCCL_DEBUG_H
