// What a rank called, in terms that no format owns. Every reader turns its format into these terms;
// nothing after the readers knows a format.
#ifndef RONDO_SIM_ANALYSE_CALL_H
#define RONDO_SIM_ANALYSE_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rondo_analyse_kind {
  RONDO_ANALYSE_OTHER, // only its name is known
  RONDO_ANALYSE_ALL_REDUCE,
  RONDO_ANALYSE_ALL_GATHER,
  RONDO_ANALYSE_REDUCE_SCATTER,
  RONDO_ANALYSE_REDUCE,
  RONDO_ANALYSE_BROADCAST,
  RONDO_ANALYSE_ALL_TO_ALL,
  RONDO_ANALYSE_GATHER,
  RONDO_ANALYSE_SCATTER,
  RONDO_ANALYSE_BARRIER,
  RONDO_ANALYSE_SEND_RECV, // Rondo's: one collective of two ranks, which both call alike
  RONDO_ANALYSE_SEND,
  RONDO_ANALYSE_RECV,
  RONDO_ANALYSE_COALESCED, // several operations launched as one
  RONDO_ANALYSE_KIND_COUNT
};

enum rondo_analyse_state {
  RONDO_ANALYSE_CALLED,    // called; the record says nothing more
  RONDO_ANALYSE_SCHEDULED, // queued, not seen to start
  RONDO_ANALYSE_STARTED,   // running on the device, waiting for its peers
  RONDO_ANALYSE_COMPLETED
};

enum rondo_analyse_dtype {
  RONDO_ANALYSE_DTYPE_UNKNOWN,
  RONDO_ANALYSE_INT8,
  RONDO_ANALYSE_UINT8,
  RONDO_ANALYSE_INT16,
  RONDO_ANALYSE_INT32,
  RONDO_ANALYSE_UINT32,
  RONDO_ANALYSE_INT64,
  RONDO_ANALYSE_UINT64,
  RONDO_ANALYSE_FLOAT16,
  RONDO_ANALYSE_BFLOAT16,
  RONDO_ANALYSE_FLOAT32,
  RONDO_ANALYSE_FLOAT64,
  RONDO_ANALYSE_FLOAT8_E4M3,
  RONDO_ANALYSE_FLOAT8_E5M2,
  RONDO_ANALYSE_BOOL,
  RONDO_ANALYSE_DTYPE_COUNT
};

enum rondo_analyse_redop {
  RONDO_ANALYSE_REDOP_UNKNOWN,
  RONDO_ANALYSE_SUM,
  RONDO_ANALYSE_PROD,
  RONDO_ANALYSE_MAX,
  RONDO_ANALYSE_MIN,
  RONDO_ANALYSE_AVG,
  RONDO_ANALYSE_REDOP_COUNT
};

// Flags of a call.
enum {
  RONDO_ANALYSE_COUNTS_KNOWN = 1,   // in_count and out_count were recorded
  RONDO_ANALYSE_SAME_LAUNCH = 2,    // launched together with the call before it in its group
  RONDO_ANALYSE_MEMBER = 4,         // part of a coalesced launch that has an entry of its own
  RONDO_ANALYSE_UNEVEN_OK = 8,      // this operation allows sizes that differ between ranks
  RONDO_ANALYSE_FAILED = 16,        // given up by a watchdog before it completed
  RONDO_ANALYSE_ROOT_KNOWN = 32,    // `peer` is the root, and it was recorded
  RONDO_ANALYSE_STREAM = 64,        // `queue` is a stream: the device keeps the order of its calls
  RONDO_ANALYSE_AWAITS_STREAM = 128 // its stream has not come to it
};

#define RONDO_ANALYSE_NO_OP UINT32_MAX

// One call of one rank. Strings are numbers in the table of the file, later of the job.
struct rondo_analyse_call {
  int64_t created_ns, started_ns, completed_ns; // 0: not recorded
  int64_t seq;                                  // number within the group, as all members count it
  uint64_t in_count, out_count;                 // elements
  uint32_t group;                               // of the track, later of the job
  uint32_t op;                                  // set when calls are matched across ranks
  uint32_t name, shape, site;                   // operation as recorded, sizes, call site
  uint32_t queue;                               // string: stream, else thread; 0: not recorded
  int32_t peer;                                 // root, or peer within the group; -1: none
  uint8_t kind, dtype, redop, state, flags;
};

// Names of the enumerations, such as "all_reduce", "started", "float32", "sum". Never null.
const char *rondo_analyse_kind_name(int kind);
const char *rondo_analyse_state_name(int state);
const char *rondo_analyse_dtype_name(int dtype);
const char *rondo_analyse_redop_name(int redop);

// The kind that an operation's name means in any of the formats: "nccl:_all_gather_base",
// "AllReduce", "send 1->2", "all_reduce". RONDO_ANALYSE_OTHER if it means none. `uneven` (may be
// null) tells whether such a call may differ in size from rank to rank.
enum rondo_analyse_kind rondo_analyse_kind_of(const char *name, bool *uneven);

// The two ranks in a name such as "nccl:send 1->2" or "nccl:recv 3<-0"; false if there are none.
bool rondo_analyse_peers_of(const char *name, int32_t *self, int32_t *other);

// The type that a name ("Float", "BFloat16", "float32", "fp16") or a number of NCCL's means.
enum rondo_analyse_dtype rondo_analyse_dtype_of(const char *name);
enum rondo_analyse_dtype rondo_analyse_dtype_of_nccl(int64_t number);

// The reduction that a name or a number of NCCL's means.
enum rondo_analyse_redop rondo_analyse_redop_of(const char *name);
enum rondo_analyse_redop rondo_analyse_redop_of_nccl(int64_t number);

// The elements in a list of shapes such as "[[4, 8], [2]]" (34 for this one).
uint64_t rondo_analyse_shape_elements(const char *text, size_t bytes);

#endif // RONDO_SIM_ANALYSE_CALL_H
