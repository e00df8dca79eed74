// The calls of DFCCL as its paper lists them, over Rondo.
//
// Listing 1 of Pan et al., "Comprehensive Deadlock Prevention for GPU Collective Communication"
// (EuroSys 2025), by name and order of arguments; the paper shows all-reduce, and the other
// collectives follow its pattern. Everything here is inline: a program that uses it links librondo
// and nothing else. C11 or later, or C++11 or later.
//
//   dfcclInit -> dfcclRegisterAllReduce -> dfcclRunAllReduce ... callback -> dfcclDestroy
//
//   rankCtx_t ctx;
//   dfcclInit(&ctx, rank);                                        // one a device
//   devSet_t all = dfcclDevSet(ranks, rank_count);                // the same on each of them
//   dfcclRegisterAllReduce(count, dfcclFloat32, dfcclSum, 7, all, 0, ctx);
//   dfcclRunAllReduce(send, recv, 7, on_end, arg, ctx);           // many times, in any order
//   dfcclDestroy(ctx);                                            // lets what is outstanding end
//
// Every call returns an enum rondo_status: 0 is success; on any other value nothing has changed and
// one line has gone to the log. No call but dfcclDestroy waits. Any thread may make them, for
// the same context also at the same time, but dfcclDestroy, which must be the last call on
// its context; a context that is destroyed is refused afterwards.
#ifndef DFCCL_H
#define DFCCL_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rondo/rondo.h>

#ifdef __cplusplus
extern "C" {
#endif
// The listing sets names and the number of parameters. The analyser cannot see that the library
// refuses a context that is gone before its table is touched.
// NOLINTBEGIN(readability-function-size,readability-identifier-naming)
// NOLINTBEGIN(clang-analyzer-unix.Malloc,clang-analyzer-core.NonNullParamChecker)

// How long dfcclDestroy lets outstanding runs go on before it ends them.
#ifndef DFCCL_DESTROY_TIMEOUT_NS
#define DFCCL_DESTROY_TIMEOUT_NS INT64_C(60000000000)
#endif

// ------------------------------------------------------------------ types ----

// enum rondo_status, and what can go into the places of the listing called type and op.
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

// Called once when a run has ended, on the context's poller thread, with its status, which
// DFCCL's own callback does not have. It may make any call but dfcclDestroy.
typedef void (*dfcclFunc_t)(void *callbackArgs, dfcclResult_t status);

// The devices that take part in a collective, by rank, in the order that gathered data have.
// `ranks` is the caller's and is read during the call alone.
typedef struct dfcclDevSet {
  const uint32_t *ranks;
  uint32_t count;
} dfcclDevSet_t;

// What one context has registered: an ordered array, so that a run of another kind than was
// registered is refused.
struct dfcclEntry {
  int collId;
  int kind;
  struct rondo_collective coll;
};
struct dfcclTable {
  pthread_mutex_t lock;
  struct dfcclEntry *entries;
  size_t count, capacity;
};

// The rank context of a device. Copy it freely; all zero is never valid.
typedef struct dfcclRankCtx {
  struct rondo_context ctx;
  struct dfcclTable *table;
} dfcclRankCtx_t;

// The names of the listing. Define DFCCL_NO_SHORT_NAMES where they are in the way.
#ifndef DFCCL_NO_SHORT_NAMES
typedef dfcclResult_t ret_t;
typedef dfcclDataType_t type_t;
typedef dfcclRedOp_t redOp_t;
typedef dfcclFunc_t func_t;
typedef dfcclDevSet_t devSet_t;
typedef dfcclRankCtx_t rankCtx_t;
#endif

static inline dfcclDevSet_t dfcclDevSet(const uint32_t *ranks, uint32_t count) {
  dfcclDevSet_t set;
  set.ranks = ranks;
  set.count = count;
  return set;
}

// ------------------------------------------------------------ what is inside ---

// Refuses a call: one line to standard error, as the library writes its own.
static inline dfcclResult_t dfcclRefuse(dfcclResult_t status, const char *call, const char *why) {
  fprintf(stderr, "rondo: dfccl: %s: %s (%s)\n", call, why, rondo_status_name(status));
  return status;
}

// Where `collId` is in the table, or belongs. The lock is held.
static inline size_t dfcclTablePlace(const struct dfcclTable *table, int collId) {
  size_t low = 0, high = table->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (table->entries[middle].collId < collId)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static inline int dfcclTableHas(const struct dfcclTable *table, size_t place, int collId) {
  return place < table->count && table->entries[place].collId == collId;
}

// Makes room for one more. The lock is held.
static inline dfcclResult_t dfcclTableGrow(struct dfcclTable *table) {
  if (table->count < table->capacity)
    return RONDO_SUCCESS;
  size_t capacity = table->capacity ? 2 * table->capacity : 16;
  void *entries = realloc(table->entries, capacity * sizeof *table->entries);
  if (!entries)
    return RONDO_ERR_NO_MEMORY;
  table->entries = (struct dfcclEntry *)entries;
  table->capacity = capacity;
  return RONDO_SUCCESS;
}

// Registers and remembers what was registered.
static inline dfcclResult_t dfcclEnter(dfcclRankCtx_t rankCtx,
                                       const struct rondo_collective_desc *desc) {
  struct dfcclTable *table = rankCtx.table;
  struct dfcclEntry entry;
  pthread_mutex_lock(&table->lock);
  dfcclResult_t status = dfcclTableGrow(table);
  if (status != RONDO_SUCCESS)
    dfcclRefuse(status, "register", "no memory");
  else
    status = rondo_register(rankCtx.ctx, desc, &entry.coll);
  if (status == RONDO_SUCCESS) {
    entry.collId = (int)desc->id;
    entry.kind = desc->kind;
    size_t place = dfcclTablePlace(table, entry.collId);
    memmove(&table->entries[place + 1], &table->entries[place],
            (table->count - place) * sizeof entry);
    table->entries[place] = entry;
    table->count++;
  }
  pthread_mutex_unlock(&table->lock);
  return status;
}

// Registers what `desc` says, for the devices of `devSet`.
static inline dfcclResult_t dfcclRegister(struct rondo_collective_desc desc, int collId,
                                          dfcclDevSet_t devSet, int priority,
                                          dfcclRankCtx_t rankCtx) {
  if (!devSet.ranks || !devSet.count)
    return dfcclRefuse(RONDO_ERR_INVALID, "register", "the set of devices is empty");
  if (collId < 0)
    return dfcclRefuse(RONDO_ERR_INVALID, "register", "the collective's id is negative");
  // Also refuses a context that is not valid, before its table is touched.
  dfcclResult_t status = rondo_group_create(rankCtx.ctx, devSet.ranks, devSet.count, &desc.group);
  if (status != RONDO_SUCCESS)
    return status;
  desc.priority = priority;
  status = dfcclEnter(rankCtx, &desc);
  rondo_group_destroy(rankCtx.ctx, desc.group);
  return status;
}

// Runs `collId` if it is of this kind.
static inline dfcclResult_t dfcclRun(int kind, const struct rondo_run_args *args, int collId,
                                     dfcclRankCtx_t rankCtx) {
  struct rondo_collective coll;
  int registered = kind;
  // A negative id is none that was registered. Refuses a context that is not valid, too.
  dfcclResult_t status = rondo_lookup(rankCtx.ctx, (uint64_t)(int64_t)collId, &coll);
  if (status != RONDO_SUCCESS)
    return status;
  pthread_mutex_lock(&rankCtx.table->lock);
  size_t place = dfcclTablePlace(rankCtx.table, collId);
  if (dfcclTableHas(rankCtx.table, place, collId))
    registered = rankCtx.table->entries[place].kind;
  pthread_mutex_unlock(&rankCtx.table->lock);
  if (registered != kind)
    return dfcclRefuse(RONDO_ERR_INVALID, "run", "the collective was registered as another kind");
  return rondo_run(rankCtx.ctx, coll, args->send, args->recv, args->callback, args->arg);
}

static inline struct rondo_run_args dfcclRunArgs(const void *sendbuff, void *recvbuff,
                                                 dfcclFunc_t callback, void *callbackArgs) {
  struct rondo_run_args args;
  args.send = sendbuff;
  args.recv = recvbuff;
  args.callback = callback;
  args.arg = callbackArgs;
  return args;
}

// -------------------------------------------------------------- lifecycle ----

// Makes the context of a rank of the job that `cfg` names: for jobs of which a process has
// several, for the settings of rondo_config, and for another backend than the host's.
static inline dfcclResult_t dfcclInitConfig(dfcclRankCtx_t *rankCtx,
                                            const struct rondo_config *cfg) {
  if (!rankCtx)
    return dfcclRefuse(RONDO_ERR_INVALID, "init", "the place for the context is null");
  struct dfcclTable *table = (struct dfcclTable *)calloc(1, sizeof *table);
  if (!table)
    return dfcclRefuse(RONDO_ERR_NO_MEMORY, "init", "no memory");
  dfcclRankCtx_t made;
  made.table = table;
  dfcclResult_t status = rondo_init(&made.ctx, cfg);
  if (status != RONDO_SUCCESS) {
    free(table);
    return status;
  }
  pthread_mutex_init(&table->lock, NULL);
  *rankCtx = made;
  return RONDO_SUCCESS;
}

// Makes the context of rank `rank` of this process's one job. The listing does not say how many
// ranks there are, and nobody needs to know: each collective names its devices.
static inline dfcclResult_t dfcclInit(dfcclRankCtx_t *rankCtx, int rank) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  if (rank < 0)
    return dfcclRefuse(RONDO_ERR_INVALID, "init", "the rank is negative");
  snprintf((char *)cfg.id.bytes, sizeof cfg.id.bytes, "the DFCCL job of process %ld",
           (long)getpid());
  cfg.rank = (uint32_t)rank;
  cfg.rank_count = RONDO_MAX_RANKS;
  return dfcclInitConfig(rankCtx, &cfg);
}

// Ends the context when what is outstanding has ended, or DFCCL_DESTROY_TIMEOUT_NS has passed:
// then RONDO_ERR_TIMEOUT says that runs were cut short. The context is gone in both cases.
static inline dfcclResult_t dfcclDestroy(dfcclRankCtx_t rankCtx) {
  dfcclResult_t status = rondo_destroy(rankCtx.ctx, RONDO_DESTROY_DRAIN, DFCCL_DESTROY_TIMEOUT_NS);
  if (status == RONDO_SUCCESS || status == RONDO_ERR_TIMEOUT) {
    pthread_mutex_destroy(&rankCtx.table->lock);
    free(rankCtx.table->entries);
    free(rankCtx.table);
  }
  return status;
}

// ------------------------------------------------------------ registration ---

// Registers a collective under `collId`, which the devices of `devSet` share: rondo_register says
// what is refused. `count` is as in enum rondo_kind. A greater `priority` is more urgent, from
// RONDO_PRIORITY_MIN to RONDO_PRIORITY_MAX, where the order policy looks at it.
static inline dfcclResult_t dfcclRegisterAllReduce(size_t count, dfcclDataType_t type,
                                                   dfcclRedOp_t op, int collId,
                                                   dfcclDevSet_t devSet, int priority,
                                                   dfcclRankCtx_t rankCtx) {
  return dfcclRegister(rondo_all_reduce((uint64_t)collId, count, type, op), collId, devSet,
                       priority, rankCtx);
}

static inline dfcclResult_t dfcclRegisterAllGather(size_t count, dfcclDataType_t type, int collId,
                                                   dfcclDevSet_t devSet, int priority,
                                                   dfcclRankCtx_t rankCtx) {
  return dfcclRegister(rondo_all_gather((uint64_t)collId, count, type), collId, devSet, priority,
                       rankCtx);
}

static inline dfcclResult_t dfcclRegisterReduceScatter(size_t count, dfcclDataType_t type,
                                                       dfcclRedOp_t op, int collId,
                                                       dfcclDevSet_t devSet, int priority,
                                                       dfcclRankCtx_t rankCtx) {
  return dfcclRegister(rondo_reduce_scatter((uint64_t)collId, count, type, op), collId, devSet,
                       priority, rankCtx);
}

// `root` is a position in the set of devices.
static inline dfcclResult_t dfcclRegisterReduce(size_t count, dfcclDataType_t type, dfcclRedOp_t op,
                                                int root, int collId, dfcclDevSet_t devSet,
                                                int priority, dfcclRankCtx_t rankCtx) {
  return dfcclRegister(rondo_reduce((uint64_t)collId, count, type, op, (uint32_t)root), collId,
                       devSet, priority, rankCtx);
}

static inline dfcclResult_t dfcclRegisterBroadcast(size_t count, dfcclDataType_t type, int root,
                                                   int collId, dfcclDevSet_t devSet, int priority,
                                                   dfcclRankCtx_t rankCtx) {
  return dfcclRegister(rondo_broadcast((uint64_t)collId, count, type, (uint32_t)root), collId,
                       devSet, priority, rankCtx);
}

// ----------------------------------------------------------------- running ---

// Submits one run of `collId`, as rondo_run does. `callback` may be null. An id that was never
// registered is RONDO_ERR_UNKNOWN, one that is of another kind RONDO_ERR_INVALID.
static inline dfcclResult_t dfcclRunAllReduce(const void *sendbuff, void *recvbuff, int collId,
                                              dfcclFunc_t callback, void *callbackArgs,
                                              dfcclRankCtx_t rankCtx) {
  struct rondo_run_args args = dfcclRunArgs(sendbuff, recvbuff, callback, callbackArgs);
  return dfcclRun(RONDO_ALL_REDUCE, &args, collId, rankCtx);
}

static inline dfcclResult_t dfcclRunAllGather(const void *sendbuff, void *recvbuff, int collId,
                                              dfcclFunc_t callback, void *callbackArgs,
                                              dfcclRankCtx_t rankCtx) {
  struct rondo_run_args args = dfcclRunArgs(sendbuff, recvbuff, callback, callbackArgs);
  return dfcclRun(RONDO_ALL_GATHER, &args, collId, rankCtx);
}

static inline dfcclResult_t dfcclRunReduceScatter(const void *sendbuff, void *recvbuff, int collId,
                                                  dfcclFunc_t callback, void *callbackArgs,
                                                  dfcclRankCtx_t rankCtx) {
  struct rondo_run_args args = dfcclRunArgs(sendbuff, recvbuff, callback, callbackArgs);
  return dfcclRun(RONDO_REDUCE_SCATTER, &args, collId, rankCtx);
}

static inline dfcclResult_t dfcclRunReduce(const void *sendbuff, void *recvbuff, int collId,
                                           dfcclFunc_t callback, void *callbackArgs,
                                           dfcclRankCtx_t rankCtx) {
  struct rondo_run_args args = dfcclRunArgs(sendbuff, recvbuff, callback, callbackArgs);
  return dfcclRun(RONDO_REDUCE, &args, collId, rankCtx);
}

static inline dfcclResult_t dfcclRunBroadcast(const void *sendbuff, void *recvbuff, int collId,
                                              dfcclFunc_t callback, void *callbackArgs,
                                              dfcclRankCtx_t rankCtx) {
  struct rondo_run_args args = dfcclRunArgs(sendbuff, recvbuff, callback, callbackArgs);
  return dfcclRun(RONDO_BROADCAST, &args, collId, rankCtx);
}

// NOLINTEND(clang-analyzer-unix.Malloc,clang-analyzer-core.NonNullParamChecker)
// NOLINTEND(readability-function-size,readability-identifier-naming)
#ifdef __cplusplus
}
#endif

#endif // DFCCL_H
