// The log, in the format of NCCL's and controlled by NCCL_DEBUG, NCCL_DEBUG_SUBSYS and
// NCCL_DEBUG_FILE, and the last error for ncclGetLastError. Any thread may call everything here.
#ifndef RONDO_ADAPTERS_NCCL_DEBUG_H
#define RONDO_ADAPTERS_NCCL_DEBUG_H

#include <stdbool.h>
#include <stddef.h>

// Subsystems of NCCL_DEBUG_SUBSYS with lines in this library.
enum { RONDO_NCCL_SUBSYS_INIT = 1u, RONDO_NCCL_SUBSYS_COLL = 2u, RONDO_NCCL_SUBSYS_ENV = 128u };

// Logs at level WARN why a call is refused, keeps the line as the last error, and returns `result`.
// RONDO_NCCL_SUCCESS: the line is only a warning.
int rondo_nccl_refuse(int result, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Logs a warning.
#define rondo_nccl_warn(...) ((void)rondo_nccl_refuse(0, __VA_ARGS__))

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
