// Names of statuses, kinds, types and reductions, and the sizes of types.
#include <rondo/rondo.h>

static const struct {
  const char *name, *text;
} statuses[] = {
    {"RONDO_SUCCESS", "success"},
    {"RONDO_ERR_INVALID", "an argument is out of its range, null, or overlaps another"},
    {"RONDO_ERR_NO_MEMORY", "memory, or the connector budget, is used up"},
    {"RONDO_ERR_FULL", "a configured limit is reached"},
    {"RONDO_ERR_UNKNOWN", "the handle or id is not, or no longer, valid"},
    {"RONDO_ERR_EXISTS", "it exists already"},
    {"RONDO_ERR_BUSY", "work is still in flight"},
    {"RONDO_ERR_TIMEOUT", "the time given has passed; the work goes on"},
    {"RONDO_ERR_MISMATCH", "ranks registered different descriptors under one id"},
    {"RONDO_ERR_ABORTED", "this rank, or a peer, aborted"},
    {"RONDO_ERR_PEER", "a peer left before the run could complete"},
    {"RONDO_ERR_CLOSED", "the context is closing, closed, or of the parent process"},
    {"RONDO_ERR_UNSUPPORTED", "this build, backend or machine cannot do it"},
    {"RONDO_ERR_SYSTEM", "the operating system refused"},
    {"RONDO_ERR_INTERNAL", "a defect of Rondo"},
    {"RONDO_IN_PROGRESS", "the run has not ended yet"},
};
#define STATUS_COUNT ((int)(sizeof statuses / sizeof *statuses))

const char *rondo_status_name(int status) {
  return status >= 0 && status < STATUS_COUNT ? statuses[status].name : "unknown status";
}

const char *rondo_status_string(int status) {
  return status >= 0 && status < STATUS_COUNT ? statuses[status].text : "no status of Rondo";
}

static const struct {
  const char *name;
  size_t bytes;
} dtypes[RONDO_DTYPE_COUNT] = {
    {"int8", 1},    {"uint8", 1},    {"int32", 4},       {"uint32", 4},
    {"int64", 8},   {"uint64", 8},   {"float16", 2},     {"float32", 4},
    {"float64", 8}, {"bfloat16", 2}, {"float8_e4m3", 1}, {"float8_e5m2", 1},
};

size_t rondo_dtype_bytes(int dtype) {
  return dtype >= 0 && dtype < RONDO_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

const char *rondo_dtype_name(int dtype) {
  return dtype >= 0 && dtype < RONDO_DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

const char *rondo_redop_name(int redop) {
  static const char *const names[RONDO_REDOP_COUNT] = {"sum", "prod", "max",
                                                       "min", "avg",  "premul_sum"};
  return redop >= 0 && redop < RONDO_REDOP_COUNT ? names[redop] : "unknown";
}

const char *rondo_quantisation_name(int quantisation) {
  static const char *const names[RONDO_QUANTISATION_COUNT] = {"none", "int8", "float8_e4m3"};
  return quantisation >= 0 && quantisation < RONDO_QUANTISATION_COUNT ? names[quantisation]
                                                                      : "unknown";
}

const char *rondo_kind_name(int kind) {
  static const char *const names[RONDO_KIND_COUNT] = {
      "all_reduce", "all_gather",   "reduce_scatter", "reduce",  "broadcast", "send_recv",
      "all_to_all", "all_to_all_v", "gather",         "scatter", "barrier"};
  return kind >= 0 && kind < RONDO_KIND_COUNT ? names[kind] : "unknown";
}
