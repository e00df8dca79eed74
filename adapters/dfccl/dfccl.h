// The calls of DFCCL over Rondo.
//
// The names and the order of arguments are those of Listing 1 of Pan et al., "Comprehensive
// Deadlock Prevention for GPU Collective Communication" (EuroSys 2025). The paper shows all-reduce;
// the other collectives follow its pattern. All functions are inline: a program links librondo and
// nothing else. The header is C11 and C++11.
//
//   dfcclInit -> dfcclRegisterAllReduce -> dfcclRunAllReduce ... callback -> dfcclDestroy
//
//   rankCtx_t ctx;
//   dfcclInit(&ctx, rank);                                        // once for each device
//   devSet_t all = dfcclDevSet(ranks, rank_count);                // the same on each device
//   dfcclRegisterAllReduce(count, dfcclFloat32, dfcclSum, 7, all, 0, ctx);
//   dfcclRunAllReduce(send, recv, 7, on_end, arg, ctx);           // many times, in any order
//   dfcclDestroy(ctx);                                            // waits for outstanding runs
//
// Every call returns an enum rondo_status. 0 is success; after any other value nothing has changed,
// and the log has a line. Only dfcclDestroy waits. Several threads may make calls with one context
// at the same time. dfcclDestroy must be the last call with its context; later calls are refused.
#ifndef DFCCL_H
#define DFCCL_H

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <rondo/rondo.h>

#ifdef __cplusplus
extern "C" {
#endif
// The listing sets names and the number of parameters.
// NOLINTBEGIN(readability-function-size,readability-identifier-naming)

// How long dfcclDestroy waits for outstanding runs before it aborts them.
#ifndef DFCCL_DESTROY_TIMEOUT_NS
#define DFCCL_DESTROY_TIMEOUT_NS INT64_C(60000000000)
#endif

// ------------------------------------------------------------------ types ----

// enum rondo_status, enum rondo_dtype and enum rondo_redop.
typedef int dfcclResult_t;
typedef int dfcclDataType_t;
typedef int dfcclRedOp_t;

enum {
  dfcclInt8 = RONDO_INT8,
  dfcclUint8 = RONDO_UINT8,
  dfcclInt32 = RONDO_INT32,
  dfcclUint32 = RONDO_UINT32,
  dfcclInt64 = RONDO_INT64,
  dfcclUint64 = RONDO_UINT64,
  dfcclFloat16 = RONDO_FLOAT16,
  dfcclFloat32 = RONDO_FLOAT32,
  dfcclFloat64 = RONDO_FLOAT64,
  dfcclBfloat16 = RONDO_BFLOAT16,
  dfcclFloat8e4m3 = RONDO_FLOAT8_E4M3,
  dfcclFloat8e5m2 = RONDO_FLOAT8_E5M2
};
enum {
  dfcclSum = RONDO_SUM,
  dfcclProd = RONDO_PROD,
  dfcclMax = RONDO_MAX,
  dfcclMin = RONDO_MIN,
  dfcclAvg = RONDO_AVG
};

// Called once with the status of a run that has ended, on the context's poller thread. DFCCL's own
// callback has no status. A callback may make any call except dfcclDestroy.
typedef void (*dfcclFunc_t)(void *callbackArgs, dfcclResult_t status);

// The devices of a collective, by rank, in the order of gathered data. `ranks` is read only during
// the call.
typedef struct dfcclDevSet {
  const uint32_t *ranks;
  uint32_t count;
} dfcclDevSet_t;

// The rank context of a device. It may be copied; zero is invalid.
typedef struct dfcclRankCtx {
  struct rondo_context ctx;
} dfcclRankCtx_t;

// The names of the listing. Define DFCCL_NO_SHORT_NAMES to leave them out.
#ifndef DFCCL_NO_SHORT_NAMES
typedef dfcclResult_t ret_t;
typedef dfcclDataType_t type_t;
typedef dfcclRedOp_t redOp_t;
typedef dfcclFunc_t func_t;
typedef dfcclDevSet_t devSet_t;
typedef dfcclRankCtx_t rankCtx_t;
#endif

static inline dfcclDevSet_t dfcclDevSet(const uint32_t *ranks, uint32_t count) {
  dfcclDevSet_t set = {ranks, count};
  return set;
}

// ---------------------------------------------------------------- internal ---

// Refuses a call with one line to standard error, in the format of the library.
static inline dfcclResult_t dfcclRefuse(dfcclResult_t status, const char *call, const char *why) {
  fprintf(stderr, "rondo: dfccl: %s: %s (%s)\n", call, why, rondo_status_name(status));
  return status;
}

// Registers `desc` for the devices of `devSet`.
static inline dfcclResult_t dfcclRegister(struct rondo_collective_desc desc, int collId,
                                          dfcclDevSet_t devSet, int priority,
                                          dfcclRankCtx_t rankCtx) {
  if (!devSet.ranks || !devSet.count)
    return dfcclRefuse(RONDO_ERR_INVALID, "register", "the set of devices is empty");
  if (collId < 0)
    return dfcclRefuse(RONDO_ERR_INVALID, "register", "the collective's id is negative");
  dfcclResult_t status = rondo_group_create(rankCtx.ctx, devSet.ranks, devSet.count, &desc.group);
  if (status != RONDO_SUCCESS)
    return status;
  desc.id = (uint64_t)collId;
  desc.priority = priority;
  struct rondo_collective coll;
  status = rondo_register(rankCtx.ctx, &desc, &coll);
  rondo_group_destroy(rankCtx.ctx, desc.group);
  return status;
}

// Runs `collId` if it was registered as this kind. Rondo refuses an invalid context and an id that
// was not registered, such as a negative one.
static inline dfcclResult_t dfcclRun(int kind, const void *sendbuff, void *recvbuff, int collId,
                                     dfcclFunc_t callback, void *callbackArgs,
                                     dfcclRankCtx_t rankCtx) {
  struct rondo_collective coll;
  struct rondo_collective_desc desc;
  dfcclResult_t status = rondo_lookup(rankCtx.ctx, (uint64_t)(int64_t)collId, &coll);
  if (status == RONDO_SUCCESS)
    status = rondo_describe(rankCtx.ctx, coll, &desc, NULL, 0, NULL);
  if (status != RONDO_SUCCESS)
    return status;
  if (desc.kind != kind)
    return dfcclRefuse(RONDO_ERR_INVALID, "run", "the collective was registered as another kind");
  return rondo_run(rankCtx.ctx, coll, sendbuff, recvbuff, callback, callbackArgs);
}

// -------------------------------------------------------------- lifecycle ----

// Creates the context of a rank with the job, the backend and the settings of `cfg`.
static inline dfcclResult_t dfcclInitConfig(dfcclRankCtx_t *rankCtx,
                                            const struct rondo_config *cfg) {
  return rankCtx ? rondo_init(&rankCtx->ctx, cfg)
                 : dfcclRefuse(RONDO_ERR_INVALID, "init", "the pointer to the context is null");
}

#define DFCCL_MAX_RANKS 4096u // of the job of a process

// Creates the context of rank `rank` of the job of this process, on the host. The listing has no
// number of ranks; each collective names its devices.
static inline dfcclResult_t dfcclInit(dfcclRankCtx_t *rankCtx, int rank) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  if (rank < 0)
    return dfcclRefuse(RONDO_ERR_INVALID, "init", "the rank is negative");
  snprintf((char *)cfg.id.bytes, sizeof cfg.id.bytes, "the DFCCL job of process %ld",
           (long)getpid());
  cfg.rank = (uint32_t)rank;
  cfg.rank_count = DFCCL_MAX_RANKS;
  return dfcclInitConfig(rankCtx, &cfg);
}

// Waits for outstanding runs and destroys the context. RONDO_ERR_TIMEOUT: runs were aborted after
// DFCCL_DESTROY_TIMEOUT_NS, and the context is destroyed.
static inline dfcclResult_t dfcclDestroy(dfcclRankCtx_t rankCtx) {
  return rondo_destroy(rankCtx.ctx, RONDO_DESTROY_DRAIN, DFCCL_DESTROY_TIMEOUT_NS);
}

// ------------------------------------------------------------ registration ---

// Registers a collective under `collId`, which is the same on all devices of `devSet`.
// rondo_register lists the errors, enum rondo_kind explains `count`. A larger `priority`, from
// RONDO_PRIORITY_MIN to RONDO_PRIORITY_MAX, is more urgent under the priority order.
static inline dfcclResult_t dfcclRegisterAllReduce(size_t count, dfcclDataType_t type,
                                                   dfcclRedOp_t op, int collId,
                                                   dfcclDevSet_t devSet, int priority,
                                                   dfcclRankCtx_t rankCtx) {
  return dfcclRegister(rondo_all_reduce(0, count, type, op), collId, devSet, priority, rankCtx);
}

static inline dfcclResult_t dfcclRegisterAllGather(size_t count, dfcclDataType_t type, int collId,
                                                   dfcclDevSet_t devSet, int priority,
                                                   dfcclRankCtx_t rankCtx) {
  return dfcclRegister(rondo_all_gather(0, count, type), collId, devSet, priority, rankCtx);
}

static inline dfcclResult_t dfcclRegisterReduceScatter(size_t count, dfcclDataType_t type,
                                                       dfcclRedOp_t op, int collId,
                                                       dfcclDevSet_t devSet, int priority,
                                                       dfcclRankCtx_t rankCtx) {
  return dfcclRegister(rondo_reduce_scatter(0, count, type, op), collId, devSet, priority, rankCtx);
}

// `root` is a position in the set of devices.
static inline dfcclResult_t dfcclRegisterReduce(size_t count, dfcclDataType_t type, dfcclRedOp_t op,
                                                int root, int collId, dfcclDevSet_t devSet,
                                                int priority, dfcclRankCtx_t rankCtx) {
  return dfcclRegister(rondo_reduce(0, count, type, op, (uint32_t)root), collId, devSet, priority,
                       rankCtx);
}

static inline dfcclResult_t dfcclRegisterBroadcast(size_t count, dfcclDataType_t type, int root,
                                                   int collId, dfcclDevSet_t devSet, int priority,
                                                   dfcclRankCtx_t rankCtx) {
  return dfcclRegister(rondo_broadcast(0, count, type, (uint32_t)root), collId, devSet, priority,
                       rankCtx);
}

// ----------------------------------------------------------------- running ---

// Submits one run of `collId`, as rondo_run does. `callback` may be null. RONDO_ERR_UNKNOWN: the id
// was not registered. RONDO_ERR_INVALID: it was registered as another kind.
#define DFCCL_DEFINE_RUN(name, kind)                                                               \
  static inline dfcclResult_t name(const void *sendbuff, void *recvbuff, int collId,               \
                                   dfcclFunc_t callback, void *callbackArgs,                       \
                                   dfcclRankCtx_t rankCtx) {                                       \
    return dfcclRun(kind, sendbuff, recvbuff, collId, callback, callbackArgs, rankCtx);            \
  }
DFCCL_DEFINE_RUN(dfcclRunAllReduce, RONDO_ALL_REDUCE)
DFCCL_DEFINE_RUN(dfcclRunAllGather, RONDO_ALL_GATHER)
DFCCL_DEFINE_RUN(dfcclRunReduceScatter, RONDO_REDUCE_SCATTER)
DFCCL_DEFINE_RUN(dfcclRunReduce, RONDO_REDUCE)
DFCCL_DEFINE_RUN(dfcclRunBroadcast, RONDO_BROADCAST)
#undef DFCCL_DEFINE_RUN

// NOLINTEND(readability-function-size,readability-identifier-naming)
#ifdef __cplusplus
}
#endif

#endif // DFCCL_H
