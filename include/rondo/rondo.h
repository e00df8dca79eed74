// Rondo: collectives that cannot deadlock on the order of calls.
//
// A rank opens a context, registers each collective once under an id that all ranks share, and runs
// it many times: in any order, from any thread, with any number of runs outstanding. The rank's
// daemon executes the runs. If one collective is stuck, the daemon works on another one. Therefore
// no order of calls can hang.
//
//   rondo_init -> rondo_register -> rondo_run ... rondo_wait -> rondo_deregister -> rondo_destroy
//
//   struct rondo_config cfg = RONDO_CONFIG_INIT;
//   cfg.id = id; cfg.rank = r; cfg.rank_count = n;
//   struct rondo_context ctx;
//   rondo_init(&ctx, &cfg);
//   struct rondo_collective_desc d = rondo_all_reduce(7, count, RONDO_FLOAT32, RONDO_SUM);
//   struct rondo_collective coll;
//   rondo_register(ctx, &d, &coll);
//   rondo_run(ctx, coll, send, recv, NULL, NULL);
//   rondo_wait(ctx, coll, RONDO_LAST_RUN, RONDO_FOREVER);
//
// Rules for every call. The comment of a call states its exceptions.
//
//   Status    A function returns an enum rondo_status; RONDO_SUCCESS is 0. A call that fails
//             changes nothing, writes no output and logs one line. RONDO_IN_PROGRESS is no failure.
//   Threads   Any thread may call any function at any time, also several threads on one context.
//   Waiting   No function waits for another rank, except those whose purpose is to wait. A
//             callback must not wait: it passes 0 to every call that takes a timeout.
//   Pointers  A pointer must not be null unless its comment says "may be null". A call with a null
//             pointer returns RONDO_ERR_INVALID.
//   Handles   A handle is a small value; copy it freely. A call with a handle that does not exist,
//             or no longer exists, returns RONDO_ERR_UNKNOWN. A call on a context that is being
//             destroyed returns RONDO_ERR_CLOSED. Both statuses apply to every call that takes a
//             context. The lists below name them only with a further cause ("also if ...").
//   Units     Times are nanoseconds (_ns), sizes are bytes (_bytes), counts are elements.
//   Fork      A context belongs to the process that created it. In a child of fork() every call on
//             it returns RONDO_ERR_CLOSED, also rondo_destroy. The end of the child does not affect
//             the parent. The child may create its own contexts. If the parent has used CUDA, the
//             child cannot use CUDA; the same holds for UCX: RONDO_ERR_UNSUPPORTED. The child must
//             not write to memory from rondo_mem_alloc, nor read the descriptor of rondo_event_fd.
//             If a callback calls fork() and returns in the child, the child exits with status 0.
//             Handlers of pthread_atfork(3) do all this; _Fork() and clone() do not call them.
//
// Words. They are those of the DFCCL paper (EuroSys 2025), to which "the paper" refers.
//
//   Run       One execution of a collective.
//   Daemon    Executes the runs of one rank, on CPU cores or on a GPU. It consists of blocks.
//   Block     A state machine that works on one collective at a time, from its task queue. A block
//             without progress quits: it leaves its core or its GPU until there is work again.
//   Stuck     A collective is stuck while it waits for a peer: for data, or for a free slot.
//   Budget    For how long a block retries a stuck collective before it works on another one.
//   Connector A ring of slots through which one rank sends to another. A slot holds one chunk.
#ifndef RONDO_RONDO_H
#define RONDO_RONDO_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rondo/status.h>
#include <rondo/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) // what is declared here is exported, nothing else

#define RONDO_VERSION_MAJOR 0
#define RONDO_VERSION_MINOR 1
#define RONDO_VERSION_PATCH 0

// Returns the version of the loaded library: major × 10000 + minor × 100 + patch.
int rondo_version(void);

// ---------------------------------------------------------------- handles ----

// One rank's membership in one job. All zero is never valid.
struct rondo_context {
  uint64_t handle;
};

// A collective that a context has registered. All zero is never valid.
struct rondo_collective {
  uint64_t handle;
};

// An ordered set of ranks. All zero means all ranks of the job, in order.
struct rondo_group {
  uint64_t handle;
};

// Identifies a job: all contexts with this id. One rank creates the id and passes it to the others.
struct rondo_unique_id {
  unsigned char bytes[128];
};

struct rondo_config;

// Creates the id of a job whose ranks all live in this process. Uses no network.
// Returns RONDO_SUCCESS;
// RONDO_ERR_SYSTEM: the system gives no random numbers.
int rondo_unique_id_create(struct rondo_unique_id *id);

// Creates the id of a job whose ranks may live in several processes, on this machine or on others,
// as ncclGetUniqueId does. Opens a port on which this process accepts the other ranks, and writes
// its addresses and a secret to `id`. Whoever has the id can join: keep it from outsiders.
//
// This process must live until all ranks have joined. It stops listening if no rank joins within
// ten times `cfg->join_timeout_ns`. `cfg` may be null: defaults. The call reads only its fields
// interfaces, address_family, join_timeout_ns and peer_timeout_ns.
// Returns RONDO_SUCCESS;
// RONDO_ERR_INVALID: wrong size or version, or one of these fields is out of range;
// RONDO_ERR_UNSUPPORTED: the library was built without libevent or libsodium, or no interface fits;
// RONDO_ERR_NO_MEMORY;
// RONDO_ERR_SYSTEM: the system gives no random numbers, no port or no thread.
int rondo_unique_id_listen(struct rondo_unique_id *id, const struct rondo_config *cfg);

// ----------------------------------------------------------- configuration ---

// Times that control a daemon; 0: the default of this machine. rondo_profile measures a set (the
// paper, 4.3: automated profiling). All ranks of a job should use the same values.
struct rondo_tuning {
  uint64_t front_budget_ns; // budget of the collective at the front of a task queue
  uint64_t min_budget_ns;   // minimum budget of any collective
  uint64_t max_budget_ns;   // maximum budget, however often it is raised
  uint32_t success_factor;  // progress raises a collective's budget by this factor (the paper: 20)
  uint32_t look_ns;         // time for which a block retries a stuck collective before it looks for
                            // one that can go on; 1: it looks at once
  uint64_t quit_period_ns;  // a block that makes no progress for this long quits (the paper, 4.4)
  uint64_t residency_ns;    // a block that has run for this long quits in any case
  uint64_t restart_min_ns;  // first pause before a block with unfinished work starts again
  uint64_t restart_max_ns;  // maximum pause; it doubles after each start without progress
};

// Value of rank_count: take `rank` and `rank_count` from the launcher's environment variables, and
// also the id if `id` is all zero.
#define RONDO_RANKS_OF_LAUNCHER 0u

// Configuration of one rank. Start from RONDO_CONFIG_INIT. For a field at its default the library
// uses the environment variable (docs/configuration.md), else its own default. "Same on all ranks"
// means all ranks of the job; "per process": the value of the job's first rank in this process.
struct rondo_config {
  size_t size;      // set by RONDO_CONFIG_INIT
  uint32_t version; // set by RONDO_CONFIG_INIT
  int backend;      // enum rondo_backend; default RONDO_BACKEND_HOST
  // The job. All zero: a new job that no other rank can join. Same on all ranks.
  struct rondo_unique_id id;
  uint32_t rank;       // this rank, less than rank_count
  uint32_t rank_count; // ranks of the job, or RONDO_RANKS_OF_LAUNCHER; default 1. Same on all ranks
  int device;          // CUDA backend: ordinal of the device; several ranks may use one device
  // Blocks of the daemon, 1 to RONDO_MAX_BLOCKS; 0: 1 on the host, 4 on CUDA. Same on all ranks.
  uint32_t blocks;
  // Host backend: worker threads of the process, which all its ranks share; 0: one per core. The
  // process uses the largest value of its ranks.
  uint32_t workers;
  // Host backend: block b of this rank runs on worker (first_worker + b) % workers; -1 (default):
  // Rondo spreads the ranks over the workers.
  int first_worker;
  int order;  // enum rondo_order_policy. Same on all ranks
  int budget; // enum rondo_budget_policy. Same on all ranks
  struct rondo_tuning tuning;
  uint32_t max_collectives; // maximum of registered collectives; 0: 16,384
  uint64_t max_runs;        // maximum of outstanding runs; 0: memory is the only limit
  // Maximum memory for the job's connectors, and once more for the payload of outstanding runs; 0:
  // 4 GiB. Per process
  uint64_t connector_bytes;
  // Maximum size of a slot, a power of two from 64 to 2^30; 0: 256 KiB. Same on all ranks.
  uint32_t slot_bytes;
  uint32_t report_on_timeout; // 1 (default): rondo_wait logs the stuck report when it times out
  // Jobs of several processes: a process counts as lost if it gives no sign of life for this long
  // while a run here waits for one of its ranks; 0: 60 s. A machine that does not answer for this
  // long is lost too. Processes that are slow or idle give signs of life.
  uint64_t peer_timeout_ns;
  // Processes probe each other with this period, also while no run waits. A process counts as lost
  // if it gives no sign of life for four periods, or for peer_timeout_ns if that is less. At least
  // RONDO_MIN_HEARTBEAT_NS; 0 (default): silence counts only while a run waits. Per process; all
  // processes should use the same value.
  uint64_t heartbeat_ns;
  uint64_t join_timeout_ns; // all ranks must join within this time; 0: 300 s
  int address_family;       // 4: only IPv4; 6: only IPv6; 0: both
  // How processes reach each other. 0: shared memory where possible, else UCX.
  // RONDO_TRANSPORT_SHARED_MEMORY or RONDO_TRANSPORT_UCX: only this one. RONDO_TRANSPORT_NCCL: like
  // 0, except that GPUs use windows of NCCL. Same on all ranks.
  int transport;
  // Network interfaces: prefixes of their names, separated by commas. A first "=" makes them whole
  // names; a first "^" excludes them. Empty: all except loopback and the bridges of containers;
  // loopback if there is no other.
  char interfaces[64];
  // CUDA backend: threads of a block, a multiple of 32 from RONDO_MIN_THREADS to RONDO_MAX_THREADS;
  // 0: 320. One warp (32 threads) runs the state machine, one looks at memory of the host, the
  // others copy and reduce data.
  uint32_t threads;
  // CUDA backend: maximum of multiprocessors that the daemons of this process may use; 0: no limit.
  // rondo_init refuses a rank whose blocks exceed the limit.
  uint32_t multiprocessors;
  // UCX: connections to each other process, 1 to RONDO_MAX_ENDPOINTS; 0: 1. Per process.
  // rondo_links_measure (links.h) finds the number for each link.
  uint32_t endpoints;
  // 1: memory that processes share is taken from the system's pool of huge pages, if the pool has
  // pages when the first rank here joins; default 0. Per process.
  uint32_t huge_pages;
  // Host backend: 1: count for each collective what rondo_collective_counters returns; default 0.
  uint32_t collective_counters;
  // Jobs whose members change (elastic.h): the least and the greatest number of ranks; 0 (default):
  // no limit. No job begins with fewer or more ranks, by rondo_init or by a vote. In a job that has
  // fewer ranks left than least_ranks no run is done again that has met a loss: RONDO_ON_LOSS_RETRY
  // means RONDO_ON_LOSS_FAIL there. Same on all ranks; a newcomer gets both from the members.
  uint32_t least_ranks, most_ranks;
};

#define RONDO_MIN_THREADS 96u
#define RONDO_MAX_THREADS 512u
#define RONDO_MAX_ENDPOINTS 16u
#define RONDO_MIN_HEARTBEAT_NS UINT64_C(10000000)
#define RONDO_CONFIG_VERSION 8u
#define RONDO_CONFIG_INIT                                                                          \
  {                                                                                                \
    sizeof(struct rondo_config), RONDO_CONFIG_VERSION, 0, {{0}}, 0, 1, 0, 0, 0, -1, 0, 0,          \
        {0, 0, 0, 0, 0, 0, 0, 0, 0}, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, "", 0, 0, 0, 0, 0, 0, 0         \
  }

// Measures how soon one thread sees a value that another thread stores, and derives budgets and the
// quit period from that. Writes them to `out`, for cfg.tuning. Takes about `duration_ns`; 0: 50 ms.
// Returns RONDO_SUCCESS;
// RONDO_ERR_NO_MEMORY;
// RONDO_ERR_SYSTEM: the system gives no thread, or nothing could be measured within the time.
int rondo_profile(struct rondo_tuning *out, uint64_t duration_ns);

// Writes `tuning` to `text` in the form of the environment variable RONDO_TUNING:
// "front_budget_ns=...,min_budget_ns=...". `text_bytes` is the size of `text`.
// Returns RONDO_SUCCESS;
// RONDO_ERR_INVALID: `text_bytes` is too small.
#define RONDO_TUNING_TEXT_BYTES 320 // suffice for `text`
int rondo_tuning_print(const struct rondo_tuning *tuning, char *text, size_t text_bytes);

// Fills `tuning` from text in that form. A field that `text` does not name becomes 0, the default.
// Returns RONDO_SUCCESS;
// RONDO_ERR_INVALID: an unknown name or a bad number.
int rondo_tuning_parse(struct rondo_tuning *tuning, const char *text);

// Replaces each default in `cfg` by the value that rondo_init would use, for printing.
// Returns RONDO_SUCCESS;
// RONDO_ERR_INVALID: wrong size or version, or a field is out of range;
// RONDO_ERR_UNSUPPORTED: the library has no such backend.
int rondo_config_complete(struct rondo_config *cfg);

// -------------------------------------------------------------- lifecycle ----

// Creates the context of one rank and joins the job `cfg->id`. The other ranks may join before or
// after. `cfg` is copied.
// Returns RONDO_SUCCESS;
// RONDO_ERR_INVALID: a field is out of range, wrong size or version, rank_count is not in
//   least_ranks to most_ranks, or another rank of the job has another rank_count;
// RONDO_ERR_EXISTS: this rank is already in the job;
// RONDO_ERR_UNSUPPORTED: the backend was not built, or there is no driver or device for it; or the
//   job has several processes, least_ranks or most_ranks, and the library was built without
//   libevent or libsodium;
// RONDO_ERR_NO_MEMORY;
// RONDO_ERR_FULL: the process has 4,096 contexts, or `multiprocessors` is exceeded;
// RONDO_ERR_SYSTEM: the system gives no thread, or the device driver refused.
int rondo_init(struct rondo_context *ctx, const struct rondo_config *cfg);

enum rondo_destroy_mode {
  RONDO_DESTROY_DRAIN = 0, // let outstanding runs end first
  RONDO_DESTROY_ABORT = 1  // end outstanding runs with RONDO_ERR_ABORTED
};

// Destroys a context and frees all that belongs to it. All its callbacks return before this call
// returns. Must not be called from a callback. Other threads' calls on the context return
// RONDO_ERR_CLOSED.
//
// `mode` is an enum rondo_destroy_mode. RONDO_DESTROY_DRAIN lets outstanding runs end, for at most
// `timeout_ns`, and then aborts those that are left. The call takes bounded time in both modes.
//
// In a job of several processes, ranks can only join while the root lives: the process that created
// the id, or without an id the process of rank 0. Therefore, in both modes, the last rondo_destroy
// in the root waits until every rank has joined. If this process has not reached the root yet,
// rondo_destroy waits until it has told the root that it leaves. Each of these waits takes at most
// the rest of `timeout_ns`.
// Returns RONDO_SUCCESS;
// RONDO_ERR_TIMEOUT: runs did not end in time and were aborted; the context is destroyed;
// RONDO_ERR_INVALID: an unknown mode, or called from a callback;
// RONDO_ERR_INTERNAL: aborted runs did not end, which is a defect of Rondo; the context still
//   exists.
int rondo_destroy(struct rondo_context ctx, int mode, int64_t timeout_ns);

// rondo_wait_ready waits until every other rank of the job has joined. rondo_wait_gone waits until
// every other rank has left or is lost. Both wait for at most `timeout_ns` (0: check once).
//
// A rank joins with its rondo_init. It leaves with its rondo_destroy or the end of its process. If
// the job has several processes, the ranks of other processes count as not joined until the last
// rank of the job has joined, or until join_timeout_ns has passed.
//
// Both list ranks: with RONDO_ERR_TIMEOUT those that are still awaited, with RONDO_ERR_PEER those
// that have left, are lost or missed join_timeout_ns. `ranks` gets at most `capacity` of them, in
// ascending order; it may be null if `capacity` is 0. `count` gets their number, which may exceed
// `capacity`; `count` may be null. Neither status is logged.
// Returns RONDO_SUCCESS;
// RONDO_ERR_TIMEOUT;
// RONDO_ERR_PEER: rondo_wait_ready only: a rank has left, is lost or missed join_timeout_ns, so the
//   ranks can never all be present;
// RONDO_ERR_INVALID: `ranks` is null but `capacity` is not 0, or a callback passed a timeout
//   above 0;
// RONDO_ERR_CLOSED: also if the context is destroyed during the call.
int rondo_wait_ready(struct rondo_context ctx, int64_t timeout_ns, uint32_t *ranks,
                     uint32_t capacity, uint32_t *count);
int rondo_wait_gone(struct rondo_context ctx, int64_t timeout_ns, uint32_t *ranks,
                    uint32_t capacity, uint32_t *count);

// Ends every outstanding run of this rank with RONDO_ERR_ABORTED, and also the runs of its peers in
// the same collectives. A run that needs no more of its peers may still end with success. Later
// runs of these collectives end in the same way. To go on, deregister them on all ranks and
// register them again. The call does not wait for the runs to end: use rondo_wait before you use
// their buffers again. The contents of receive buffers are unspecified. Returns RONDO_SUCCESS.
int rondo_abort(struct rondo_context ctx);

// ------------------------------------------------------------------ groups ---

// Creates a group of `rank_count` different ranks of the job. `ranks` is copied. The call is local:
// every member creates the group, with the same ranks in the same order. The calling rank need not
// be a member, but it can register collectives only on groups that contain it.
// Returns RONDO_SUCCESS;
// RONDO_ERR_INVALID: no rank, a rank twice, or a rank that is not in the job;
// RONDO_ERR_NO_MEMORY.
int rondo_group_create(struct rondo_context ctx, const uint32_t *ranks, uint32_t rank_count,
                       struct rondo_group *group);

// Frees the handle. Collectives that were registered with the group are not affected.
// Returns RONDO_SUCCESS.
int rondo_group_destroy(struct rondo_context ctx, struct rondo_group group);

// ------------------------------------------------------------------ memory ---

// Allocates `bytes` (may be 0) of zeroed memory that is suitable for the buffers of runs on every
// backend: on a backend with a device it is device memory. Other memory that the backend can access
// is also suitable. The memory is aligned to at least 128 bytes. It belongs to the context:
// rondo_destroy frees it unless rondo_mem_free did.
// Returns RONDO_SUCCESS;
// RONDO_ERR_NO_MEMORY.
int rondo_mem_alloc(struct rondo_context ctx, size_t bytes, void **memory);

// Frees memory from rondo_mem_alloc. No run may be using it. `memory` may be null: no effect.
// Returns RONDO_SUCCESS;
// RONDO_ERR_INVALID: this context has not allocated `memory`.
int rondo_mem_free(struct rondo_context ctx, void *memory);

// Copies `bytes` from `src` to `dst`, and returns when the copy is complete. Each may be memory of
// this process or from rondo_mem_alloc. They must not overlap, and no run may be using them.
// Returns RONDO_SUCCESS;
// RONDO_ERR_INVALID: they overlap;
// RONDO_ERR_SYSTEM: the device refused, or did not copy within a minute.
int rondo_mem_copy(struct rondo_context ctx, void *dst, const void *src, size_t bytes);

// Writes 1 to `direct` if the CPU can read and write memory from rondo_mem_alloc, as on the host
// backend; else 0: use rondo_mem_copy.
// Returns RONDO_SUCCESS.
int rondo_mem_is_direct(struct rondo_context ctx, int *direct);

// ------------------------------------------------------------ registration ---

// Describes a collective. The functions below return it with every field set. All members of the
// group must register equal descriptors, except for `priority`, `scalar` and the arrays of an
// all-to-all-v, which may differ.
struct rondo_collective_desc {
  size_t size;      // set by the functions below
  uint32_t version; // set by the functions below
  int kind;         // enum rondo_kind
  uint64_t id;      // same on all members; groups without a common member may use the same id
  uint64_t count;   // elements, see enum rondo_kind
  int dtype;        // enum rondo_dtype
  int redop;        // enum rondo_redop; RONDO_SUM for kinds that do not reduce
  // Position in the group of the root (reduce, broadcast, gather, scatter) or sender (send-recv).
  uint32_t root;
  int priority;             // RONDO_PRIORITY_MIN to RONDO_PRIORITY_MAX; default 0
  struct rondo_group group; // default: all ranks of the job
  double scalar;            // RONDO_PREMUL_SUM: this rank's factor, converted to dtype; default 1
  uint32_t peer;            // send-recv: position of the receiver; may be the sender's
  uint32_t on_loss;         // enum rondo_on_loss; default RONDO_ON_LOSS_FAIL
  // All-to-all-v: one entry per member of the group, in elements. rondo_register copies the arrays.
  // A displacement counts from the start of the buffer. Null displacements: the parts follow each
  // other without gaps. The number of elements that this rank sends to a member must be the number
  // that the member receives from it.
  const uint64_t *send_counts, *send_displacements;
  const uint64_t *recv_counts, *recv_displacements;
  uint32_t quantisation; // enum rondo_quantisation; default RONDO_QUANTISE_NONE
};

#define RONDO_COLLECTIVE_DESC_VERSION 2u

// These functions cannot fail; rondo_register checks the descriptor.
struct rondo_collective_desc rondo_all_reduce(uint64_t id, uint64_t count, int dtype, int redop);
struct rondo_collective_desc rondo_all_gather(uint64_t id, uint64_t count, int dtype);
struct rondo_collective_desc rondo_reduce_scatter(uint64_t id, uint64_t count, int dtype,
                                                  int redop);
struct rondo_collective_desc rondo_reduce(uint64_t id, uint64_t count, int dtype, int redop,
                                          uint32_t root);
struct rondo_collective_desc rondo_broadcast(uint64_t id, uint64_t count, int dtype, uint32_t root);
// Sends from the member at position `root` to the member at position `peer`. Only these two members
// register and run the collective, both with the same descriptor.
struct rondo_collective_desc rondo_send_recv(uint64_t id, uint64_t count, int dtype, uint32_t root,
                                             uint32_t peer);
struct rondo_collective_desc rondo_all_to_all(uint64_t id, uint64_t count, int dtype);
struct rondo_collective_desc rondo_all_to_all_v(uint64_t id, int dtype, const uint64_t *send_counts,
                                                const uint64_t *send_displacements,
                                                const uint64_t *recv_counts,
                                                const uint64_t *recv_displacements);
struct rondo_collective_desc rondo_gather(uint64_t id, uint64_t count, int dtype, uint32_t root);
struct rondo_collective_desc rondo_scatter(uint64_t id, uint64_t count, int dtype, uint32_t root);
// A run of a barrier ends when every member has submitted it. A barrier uses no buffers.
struct rondo_collective_desc rondo_barrier(uint64_t id);

// Registers a collective on this rank. The call is local: each rank may register its collectives in
// any order, also while others run. `desc` is copied. The library compares the descriptors of the
// members in the background. If they differ, every run of this id ends with RONDO_ERR_MISMATCH on
// every rank that registered it. A log line names both descriptors. The plan is made when it is
// known where all ranks of the group are. If there is none, all runs end with the status that says
// why: RONDO_ERR_UNSUPPORTED for an all-to-all, all-to-all-v, gather or scatter of more than 65,535
// ranks.
//
// With RONDO_ON_LOSS_RETRY in `on_loss`, a run that meets the death of a member does not fail: the
// members that are left do it again, and the result is theirs alone. rondo_run_members says of whom
// it is. All members that live get the same result, or none; it appears in the receive buffer only
// when all have agreed on it. Averages divide by the number of those that took part. It is for
// all-reduce, reduce and broadcast on the host backend; without its root a run fails. A member that
// leaves in order is no loss: runs that need it fail. Each such collective counts twice for
// max_collectives and has one more receive buffer; its runs do not overlap. docs/elastic.md has the
// rules.
//
// With RONDO_QUANTISE_INT8 or RONDO_QUANTISE_FLOAT8_E4M3 in `quantisation`, an all-reduce of
// float32 by sum or average sends about a quarter of the bytes: each message holds codes of 8 bits,
// and each rank adds to them in float32. The result is inexact, but has the same bits on all
// members, and a repeat gives the same bits again. An infinity becomes NaN. The plan is always a
// ring. A group of one rank sends nothing, so its result is exact. docs/numerics.md bounds the
// error.
//
// After rondo_deregister the id may be registered again. The n-th registration of an id on one rank
// matches the n-th registration of that id on the others.
// Returns RONDO_SUCCESS;
// RONDO_ERR_INVALID: a field is out of range, or this rank is not in the group;
// RONDO_ERR_EXISTS: this rank has registered the id;
// RONDO_ERR_FULL: max_collectives are registered, or 1 GiB of messages about registrations waits
// for
//   processes that are too slow to take them; try again later;
// RONDO_ERR_NO_MEMORY: memory or connector_bytes is used up;
// RONDO_ERR_UNSUPPORTED: RONDO_ON_LOSS_RETRY is not for this kind or backend, or `quantisation` not
//   for this kind, type, reduction or forced algorithm;
// RONDO_ERR_SYSTEM: the system gives no thread for RONDO_ON_LOSS_RETRY;
// RONDO_ERR_UNKNOWN: also if the group does not exist.
int rondo_register(struct rondo_context ctx, const struct rondo_collective_desc *desc,
                   struct rondo_collective *coll);

// Deregisters a collective of this rank and frees its connectors. If a peer has submitted more runs
// than this rank, the peer's extra runs end with RONDO_ERR_PEER, unless they needed nothing from
// this rank and have already ended.
// Returns RONDO_SUCCESS;
// RONDO_ERR_BUSY: a run is outstanding, or a CUDA graph that contains a run still exists; with
//   RONDO_ON_LOSS_RETRY also if members that have met a loss have not agreed within 10 s which runs
//   have ended (in a callback: at once).
int rondo_deregister(struct rondo_context ctx, struct rondo_collective coll);

// Finds the collective that this context has registered under `id`.
// Returns RONDO_SUCCESS;
// RONDO_ERR_UNKNOWN: there is none.
int rondo_lookup(struct rondo_context ctx, uint64_t id, struct rondo_collective *coll);

// Writes the descriptor of a collective to `desc`, without the arrays of an all-to-all-v. Writes
// the first `capacity` ranks of its group to `ranks`, in order, and the size of the group to
// `rank_count`. `desc` and `rank_count` may be null, and `ranks` if `capacity` is 0. The group of a
// send-recv is its two ranks, the sender first. If the collective belongs to a communicator
// (comm.h), the library has chosen the id in the descriptor.
// Returns RONDO_SUCCESS.
int rondo_describe(struct rondo_context ctx, struct rondo_collective coll,
                   struct rondo_collective_desc *desc, uint32_t *ranks, uint32_t capacity,
                   uint32_t *rank_count);

// Writes of which ranks the result of run `run` of a collective is: the first `capacity` of them to
// `ranks`, in the order of the group, and their number to `count`. `ranks` may be null if
// `capacity` is 0. They are all ranks of the group, except in a collective with RONDO_ON_LOSS_RETRY
// that has met a loss. Never waits.
// Returns RONDO_SUCCESS;
// RONDO_IN_PROGRESS: the run has not ended;
// RONDO_ERR_UNKNOWN: also if the run was never submitted;
// the status of the run, if it has failed.
int rondo_run_members(struct rondo_context ctx, struct rondo_collective coll, uint64_t run,
                      uint32_t *ranks, uint32_t capacity, uint32_t *count);

// ----------------------------------------------------------------- running ---

// rondo_run submits a run and returns; the daemon executes it. A run ends when its status is known
// and the library no longer uses its buffers. There are four ways to learn of the end: a callback,
// rondo_wait, rondo_test and rondo_event_fd. docs/waiting.md compares them. On the host backend,
// rondo_run, rondo_wait and rondo_test may execute steps of daemons on the calling thread.

// A callback. The library calls it once, after the run has ended, with the run's status:
// RONDO_SUCCESS or the error that ended the run. The context's poller thread calls it, never the
// application's thread. A callback may call any function except rondo_destroy and
// rondo_comm_destroy. It should be short: later callbacks of the context are called after it.
typedef void (*rondo_callback)(void *arg, int status);

// Submits one run of a collective. Runs of one collective match across ranks in the order of their
// submission. Runs of different collectives are independent.
//
// The buffers belong to the run until it has ended. They hold `count` elements, or n × count where
// enum rondo_kind says so. Any alignment is allowed. A run is in place if (offsets in elements):
//   all-gather, gather at the root:        send == recv + rank × count
//   reduce-scatter, scatter at the root:   recv == send + rank × count
//   all-to-all, all-to-all-v:              never
//   all other kinds:                       send == recv
// Here `rank` is the position in the group. Any other overlap is refused. A buffer that this rank
// does not use may be null:
//   `recv`: on every rank but the root in a reduce or gather; on the sender in a send-recv;
//   `send`: on every rank but the root in a broadcast or scatter; on the receiver in a send-recv;
//   both: in a barrier.
// `callback` may be null; it gets `arg`, which may be null.
//
// A failure that is already known (mismatch, abort) is reported by the run, not by this call.
// Returns RONDO_SUCCESS;
// RONDO_ERR_INVALID: a buffer that is needed is null, the buffers overlap, or the device cannot
//   access one of them;
// RONDO_ERR_FULL: max_runs are outstanding;
// RONDO_ERR_NO_MEMORY: memory or connector_bytes is used up;
// RONDO_ERR_SYSTEM: the poller thread cannot start, or this rank has lost its device.
int rondo_run(struct rondo_context ctx, struct rondo_collective coll, const void *send, void *recv,
              rondo_callback callback, void *arg);

// The arguments of rondo_run.
struct rondo_run_args {
  const void *send;
  void *recv;
  rondo_callback callback;
  void *arg;
};

// Submits one run as rondo_run does, and writes its number to `run`. The runs of a collective have
// the numbers 1, 2, 3 ... on each rank.
int rondo_run_numbered(struct rondo_context ctx, struct rondo_collective coll,
                       const struct rondo_run_args *args, uint64_t *run);

// Submits one run in the order of a CUDA stream. The run begins after all work that was put into
// `stream` before this call. Work that is put into the stream later begins after the run, also if
// the run fails. `stream` is a CUstream or cudaStream_t of the context's device; null: its default
// stream. The call does not wait for that work or for the run. It waits while the stream is full.
//
// In a job of several processes it also waits, for at most 10 s, until the processes of the
// collective's other ranks have joined and their memory is mapped, which a call of CUDA that waits
// for the stream could prevent. In a callback it does not wait for that. While the thread holds its
// streams, rondo_streams_release waits instead.
//
// If the stream is being captured, the run becomes part of the graph. Each launch of the graph then
// runs the collective once more, with the same buffers. rondo_deregister returns RONDO_ERR_BUSY
// until the graph and all its instances are destroyed. All launches of the graph must have finished
// before the context is destroyed. Do not launch the graph afterwards.
// Returns the same statuses as rondo_run; also
// RONDO_ERR_UNSUPPORTED: the backend has no streams, or the device cannot wait in them;
// RONDO_ERR_INVALID: also if the device has no such stream;
// RONDO_ERR_SYSTEM: also if the CUDA driver refused. If it refused the wait of the stream, the run
// is submitted all the same, and the log says so.
int rondo_run_on_stream(struct rondo_context ctx, struct rondo_collective coll, const void *send,
                        void *recv, void *stream);

// After rondo_streams_hold, a stream does not wait for the runs that this thread submits to it.
// rondo_streams_release makes each stream wait for all runs that this thread has submitted to it in
// between. Other work that was put into the stream in between does not wait for them. Pairs nest;
// the outermost rondo_streams_release takes effect.
//
// Use the pair if a run can end only after a later run of the same stream has begun. Example: two
// ranks each put a send to the other rank, and then a receive, into one stream. Without the pair,
// each receive begins only after the send of its rank has ended. A large send ends only after the
// receive of the other rank has begun.
//
// rondo_streams_hold returns RONDO_SUCCESS.
// rondo_streams_release returns RONDO_SUCCESS;
// RONDO_ERR_INVALID: there was no rondo_streams_hold;
// RONDO_ERR_UNSUPPORTED, RONDO_ERR_SYSTEM or RONDO_ERR_CLOSED: the status of the first run for
//   which a stream could not be made to wait. The call goes on with the other runs.
int rondo_streams_hold(void);
int rondo_streams_release(void);

// Value of a run number: the last run of the collective that any thread of this rank has submitted.
#define RONDO_LAST_RUN UINT64_MAX

// Waits until run `run` has ended, for at most `timeout_ns` (0: check once; RONDO_FOREVER: no
// limit). With RONDO_LAST_RUN it returns RONDO_SUCCESS at once if no run was ever submitted. The
// run's callback may be called after rondo_wait has returned.
//
// If a run fails, all later runs of the collective fail too. rondo_wait and rondo_test return the
// status of the first failure for each of these runs. The callback of a run gets the run's own
// status, which may differ.
// Returns the status of the run; or
// RONDO_ERR_TIMEOUT: the run has not ended; it goes on. The stuck report is logged if `timeout_ns`
//   is not 0 and the configuration has report_on_timeout;
// RONDO_ERR_INVALID: a callback passed a timeout above 0;
// RONDO_ERR_UNKNOWN: also if the run was never submitted.
int rondo_wait(struct rondo_context ctx, struct rondo_collective coll, uint64_t run,
               int64_t timeout_ns);

// Checks whether run `run` has ended. Never waits. If the run has not ended, the call executes a
// bounded number of steps of the daemon; a step moves at most 256 KiB for each collective that is
// ready. A loop over rondo_test therefore completes a run without the help of another thread.
// Returns the status of the run; or
// RONDO_IN_PROGRESS: it has not ended;
// RONDO_ERR_UNKNOWN: also if the run was never submitted.
int rondo_test(struct rondo_context ctx, struct rondo_collective coll, uint64_t run);

// Adds a callback to run `run`, which was submitted without one. The callback gets `arg` and the
// status of the run. The poller thread calls it soon if the run has already ended. `run` may be
// RONDO_LAST_RUN.
// Returns RONDO_SUCCESS;
// RONDO_ERR_EXISTS: the run has a callback;
// RONDO_ERR_INVALID: RONDO_LAST_RUN, and no run was ever submitted;
// RONDO_ERR_NO_MEMORY;
// RONDO_ERR_SYSTEM: the poller thread cannot start;
// RONDO_ERR_UNKNOWN: also if the run was never submitted.
int rondo_notify(struct rondo_context ctx, struct rondo_collective coll, uint64_t run,
                 rondo_callback callback, void *arg);

// Writes a file descriptor to `fd` that becomes readable when runs of this context end. It is a
// nonblocking eventfd(2): a read returns 8 bytes, the number of runs that ended since the last
// read. Runs that ended before the first call of rondo_event_fd do not count. The descriptor
// belongs to the context: poll and read it, never close it.
// Returns RONDO_SUCCESS;
// RONDO_ERR_SYSTEM: the process has no descriptor left.
int rondo_event_fd(struct rondo_context ctx, int *fd);

// Waits until every block of this rank that is running now has quit, for at most `timeout_ns`. It
// does not wait for runs. It is the equivalent of cudaDeviceSynchronize (the paper, 2.3 and 6.1).
// Returns RONDO_SUCCESS;
// RONDO_ERR_TIMEOUT: logs nothing.
int rondo_device_synchronize(struct rondo_context ctx, int64_t timeout_ns);

// -------------------------------------------------------------- observation ---

// Writes to `out` what a backend finds on this machine. A line for each device says whether the
// backend can use it. A line for each pair of devices says in which memory the connectors between
// their ranks would be, and why. If the backend cannot be used, the last line says why. Opens no
// device.
// Returns RONDO_SUCCESS;
// RONDO_ERR_UNSUPPORTED: the backend cannot be used;
// RONDO_ERR_INVALID: no such backend.
int rondo_backend_describe(int backend, FILE *out);

// How data get from one rank to another.
enum rondo_transport {
  RONDO_TRANSPORT_NONE = 0,          // not at all: the rank is lost, or no transport reaches it
  RONDO_TRANSPORT_LOCAL = 1,         // through memory of this process
  RONDO_TRANSPORT_SHARED_MEMORY = 2, // through memory that processes of one machine share
  RONDO_TRANSPORT_UCX = 3,           // in messages of UCX
  RONDO_TRANSPORT_NCCL = 4           // through windows of NCCL: GPU memory that NCCL maps
};

// Writes to `transport` (enum rondo_transport) how this rank reaches `rank`, and to `why`, which
// has `why_bytes`, one line with the reason. `why` is also written with RONDO_IN_PROGRESS.
// Returns RONDO_SUCCESS;
// RONDO_IN_PROGRESS: the location of `rank` is not known yet;
// RONDO_ERR_INVALID: no such rank.
int rondo_transport(struct rondo_context ctx, uint32_t rank, int *transport, char *why,
                    size_t why_bytes);

// Returns "none", "local", "shared memory", "ucx" or "nccl"; "unknown" for any other number. Never
// null.
const char *rondo_transport_name(int transport);

// Writes to `out` what a transport (enum rondo_transport, not NONE) finds on this machine, as far
// as this process may use it. If the transport cannot be used, the last line says why. Needs no
// job, and opens no connection.
// Returns RONDO_SUCCESS;
// RONDO_ERR_UNSUPPORTED or RONDO_ERR_SYSTEM: the transport cannot be used;
// RONDO_ERR_INVALID: no such transport.
int rondo_transport_describe(int transport, FILE *out);

// Sums over all blocks of this rank since rondo_init, except connector_bytes.
struct rondo_counters {
  uint64_t submitted;       // runs accepted
  uint64_t completed;       // runs ended, with any status
  uint64_t steps;           // block steps
  uint64_t primitives;      // chunks that primitives completed
  uint64_t preemptions;     // times that a block left a stuck collective for another one
  uint64_t context_loads;   // times that a block loaded the state of a collective
  uint64_t context_saves;   // times that a block stored such a state; it had changed
  uint64_t quits;           // times that a block quit: idle, stuck, or after residency_ns
  uint64_t starts;          // daemon starts
  uint64_t helped;          // block steps on threads of the application
  uint64_t connector_bytes; // memory of the job's connectors and runs in this process now
};

// Copies the counters to `out`. Each number is exact, but they are not read at the same instant.
// Returns RONDO_SUCCESS.
int rondo_counters(struct rondo_context ctx, struct rondo_counters *out);

// What the blocks of this rank have done with one collective since it was registered. Start from
// RONDO_COLLECTIVE_COUNTERS_INIT.
struct rondo_collective_counters {
  size_t size;           // set by RONDO_COLLECTIVE_COUNTERS_INIT
  uint32_t version;      // set by RONDO_COLLECTIVE_COUNTERS_INIT
  uint32_t reserved;     // zero
  uint64_t switches;     // times that a block left the collective before its run had ended
  uint64_t preemptions;  // ... after a step without progress
  uint64_t loads, saves; // of its context, as context_loads and context_saves above
  // A block fetches each run that it takes part in. The length of its task queue at that moment:
  // how many collectives it had in work.
  uint64_t fetches;    // of all blocks
  uint64_t queue_sum;  // sum of the lengths at these fetches
  uint64_t queue_most; // the greatest length
  // Times that a block found the collective stuck, by what it waited for. It counts again when the
  // block comes back to the collective and finds it still stuck.
  uint64_t waits_data;       // data of a peer
  uint64_t waits_room;       // room in the connector to a peer
  uint64_t waits_start;      // registrations of the other members
  uint64_t waits_readers;    // peers that still had to read what the run sent
  uint64_t waits_completion; // room in the completion queue
};

#define RONDO_COLLECTIVE_COUNTERS_VERSION 1u
#define RONDO_COLLECTIVE_COUNTERS_INIT                                                             \
  {                                                                                                \
    sizeof(struct rondo_collective_counters), RONDO_COLLECTIVE_COUNTERS_VERSION, 0, 0, 0, 0, 0, 0, \
        0, 0, 0, 0, 0, 0, 0                                                                        \
  }

// Fills `out`, as rondo_counters does, with the counters of a collective. The configuration of this
// rank must have collective_counters. rondo_flight_write writes these counters too.
// Returns RONDO_SUCCESS;
// RONDO_ERR_UNSUPPORTED: the configuration has no collective_counters, or the backend is not the
//   host;
// RONDO_ERR_INVALID: wrong size or version.
int rondo_collective_counters(struct rondo_context ctx, struct rondo_collective coll,
                              struct rondo_collective_counters *out);

// The calls below are for diagnosis and are slow. They ask the other processes of the job, and wait
// for their answers for at most 0.2 s. A rank of a process that does not answer counts as missing.

// State of an outstanding run.
enum rondo_run_state {
  RONDO_RUN_WAITING = 0,  // earlier runs of its collective come first, or no block has read it yet
  RONDO_RUN_QUEUED = 1,   // in a task queue; a block has not begun it
  RONDO_RUN_EXECUTING = 2 // a block has begun it
};

// One outstanding run of this rank, and what it waits for.
struct rondo_stuck {
  uint64_t id;         // id of the collective
  uint64_t run;        // number of the run
  int state;           // enum rondo_run_state
  uint32_t block;      // block that holds the run, if executing
  uint32_t op;         // index in the plan of the operation that this block executes, if executing
  int32_t peer;        // rank for whose data or free slot the run waits; -1: none, or not known
  uint32_t missing;    // how many ranks of the group have not submitted this run
  uint64_t waiting_ns; // time since the run's last progress
};

// Writes at most `capacity` outstanding runs of this rank to `entries`, the oldest of each
// collective first; `entries` may be null if `capacity` is 0. Writes the number of all outstanding
// runs to `count`. Returns RONDO_SUCCESS; RONDO_ERR_NO_MEMORY.
int rondo_stuck(struct rondo_context ctx, struct rondo_stuck *entries, size_t capacity,
                size_t *count);

// Finds the ranks that have not submitted run `run` of a collective. Writes at most `capacity` of
// them to `ranks`, which may be null if `capacity` is 0. Writes the number of them all to `count`.
// Returns RONDO_SUCCESS;
// RONDO_ERR_NO_MEMORY.
int rondo_missing(struct rondo_context ctx, struct rondo_collective coll, uint64_t run,
                  uint32_t *ranks, uint32_t capacity, uint32_t *count);

// Writes to `text` why runs of a collective fail, in words. Examples: what two ranks registered
// differently, or which rank is lost. The text is empty if the collective has not failed.
// `text_bytes` is the size of `text`; RONDO_REASON_BYTES suffice. This call asks no other process.
// Returns RONDO_SUCCESS.
#define RONDO_REASON_BYTES 512
int rondo_reason(struct rondo_context ctx, struct rondo_collective coll, char *text,
                 size_t text_bytes);

// Prints the stuck report of this context's job to `stream`. It covers the ranks of this process,
// and of every process that takes part in a run outstanding here. If ranks wait for each other in a
// cycle, the report begins with these ranks. Then follow the runs in the cycle, other outstanding
// runs, and counts of the rest: at most 64 lines. For each run it names the ranks that have not
// submitted the run, the operation of the plan that a block executes, the peer for which the block
// waits, and for how long.
//
// Writes the number of ranks in that cycle to `cycle_ranks` (may be null); 0: there is no cycle.
// The process also prints the report on SIGUSR1, unless the application handles that signal or
// RONDO_REPORT_SIGNAL is 0 in the environment.
// Returns RONDO_SUCCESS;
// RONDO_ERR_NO_MEMORY.
int rondo_report(struct rondo_context ctx, FILE *stream, uint32_t *cycle_ranks);

// Writes the flight record of this rank to `stream`: its last 1,024 events, which the library
// always keeps, and what the daemon is doing now. The format is JSON, one object per line.
// `rondo-sim analyse` reads the records of all ranks of a job and says why the job hangs. This call
// asks no other process.
//
// If the environment variable RONDO_FLIGHT_FILE is set, the library also writes the records of all
// ranks of the process to files: on SIGUSR1, and when a wait times out (docs/configuration.md).
// Returns RONDO_SUCCESS;
// RONDO_ERR_NO_MEMORY;
// RONDO_ERR_SYSTEM: writing to the stream failed.
int rondo_flight_write(struct rondo_context ctx, FILE *stream);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif // RONDO_RONDO_H
