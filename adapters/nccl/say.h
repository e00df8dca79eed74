// What the library says: lines in the form of NCCL's log, as NCCL_DEBUG, NCCL_DEBUG_SUBSYS and
// NCCL_DEBUG_FILE ask for them, and the last error for ncclGetLastError. Any thread.
#ifndef RONDO_ADAPTERS_NCCL_SAY_H
#define RONDO_ADAPTERS_NCCL_SAY_H

#include <stdbool.h>
#include <stddef.h>

enum rondo_nccl_level {
  RONDO_NCCL_LEVEL_NONE,
  RONDO_NCCL_LEVEL_VERSION,
  RONDO_NCCL_LEVEL_WARN, // the default, since a refusal must be seen
  RONDO_NCCL_LEVEL_INFO,
  RONDO_NCCL_LEVEL_TRACE
};

// Parts of the log that NCCL_DEBUG_SUBSYS selects; NCCL's others have no lines here.
enum {
  RONDO_NCCL_SUBSYS_INIT = 1u,
  RONDO_NCCL_SUBSYS_COLL = 2u,
  RONDO_NCCL_SUBSYS_P2P = 4u,
  RONDO_NCCL_SUBSYS_ENV = 128u
};

// Logs one line of why a call is refused, keeps it as the last error, and returns `result`.
int rondo_nccl_refuse(int result, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The same where no call is refused.
void rondo_nccl_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Whether an INFO line of this subsystem is wanted; then the line.
bool rondo_nccl_wants(unsigned subsystem);
void rondo_nccl_info(unsigned subsystem, int device, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// The version, once, where NCCL_DEBUG asks for it.
void rondo_nccl_say_version(void);

// The last line of rondo_nccl_refuse in the process, or ""; it lasts until the thread asks again.
const char *rondo_nccl_last_error(void);

// Reads the variables again.
void rondo_nccl_say_again(void);

// `path` with %h and %p replaced by host and process, as NCCL_DEBUG_FILE has them.
void rondo_nccl_expand_path(const char *path, char *out, size_t out_bytes);

// Null, or what is wrong with the value of NCCL_DEBUG, or of NCCL_DEBUG_SUBSYS.
const char *rondo_nccl_level_complaint(const char *value);
const char *rondo_nccl_subsys_complaint(const char *value);

#endif // RONDO_ADAPTERS_NCCL_SAY_H
