// Rondo: collectives that cannot deadlock on the order of calls.
//
// A rank opens a context, registers its collectives once under ids that all
// ranks share, and runs them many times: in any order, from any thread, with
// any number outstanding. A daemon moves the data and leaves a collective that
// is stuck for one that is not, so no order of calls can hang.
//
//   rondo_init -> rondo_register -> rondo_run ... rondo_wait -> rondo_deregister -> rondo_destroy
//
//   struct rondo_config cfg = RONDO_CONFIG_INIT;     // size and version inside
//   cfg.id = id; cfg.rank = r; cfg.rank_count = n;
//   struct rondo_context ctx;
//   rondo_init(&ctx, &cfg);                          // waits for no other rank
//   struct rondo_collective_desc d = rondo_all_reduce(7, count, RONDO_FLOAT32, RONDO_SUM);
//   struct rondo_collective coll;
//   rondo_register(ctx, &d, &coll);                  // nor does this
//   rondo_run(ctx, coll, send, recv, NULL, NULL);
//   rondo_wait(ctx, coll, RONDO_LAST_RUN, RONDO_FOREVER);
//
// Every function returns an enum rondo_status; 0 is success. On any other value
// nothing has changed, outputs are not written, and one line has gone to the log.
// Unless a comment says otherwise, every function may be called from any thread
// at any time, also for the same context, and none waits for another rank.
// Handles are small values: copy them freely. A handle that is no longer valid
// is refused with RONDO_ERR_UNKNOWN or RONDO_ERR_CLOSED; it is never dangerous.
//
// After fork() a context belongs to the parent. In the child every call with it, rondo_destroy
// included, returns RONDO_ERR_CLOSED at once and changes nothing; the log says why, once a child.
// The child may end as it likes, by exit() too: that changes nothing for the parent and its jobs.
// It may make contexts of its own. What its parent has begun with CUDA or UCX does not work in a
// child: there both are refused with RONDO_ERR_UNSUPPORTED. The child may read memory of
// rondo_mem_alloc of the host backend. It may not write there, because in a job of several
// processes child and parent share that memory, nor may it read the descriptor of rondo_event_fd.
// A child that returns from the callback that has forked it exits with 0. All this is done by
// handlers of pthread_atfork(3), which _Fork() and a bare clone() do not call.
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

// Major × 10000 + minor × 100 + patch of the library that is mapped. Any thread.
int rondo_version(void);

// ---------------------------------------------------------------- handles ----

// One rank's membership in one job. All zero is never a valid handle.
struct rondo_context {
  uint64_t handle;
};

// A collective that one context has registered.
struct rondo_collective {
  uint64_t handle;
};

// An ordered set of ranks. All zero means "every rank of the job, in order".
struct rondo_group {
  uint64_t handle;
};

// Names a job: contexts with equal ids are ranks of the same job. One rank makes
// it and gives it to the others.
struct rondo_unique_id {
  unsigned char bytes[128];
};

struct rondo_config;

// Fills `id` with the identity of a new job whose ranks all live in this process. No network is used.
// Returns RONDO_SUCCESS, RONDO_ERR_INVALID (null), RONDO_ERR_SYSTEM (no randomness).
int rondo_unique_id_create(struct rondo_unique_id *id);

// The same for a job whose ranks may live in other processes, on this machine and on others, as
// ncclGetUniqueId: begins to listen here for them, and puts the addresses into the id, with a
// secret. Who has the id can join the job: pass it on by a way that outsiders cannot read. The
// process that made it must live until all ranks have joined. `cfg` (may be null: defaults) says
// interfaces, address_family and the times; the rest of it is not looked at. Waits for nobody.
// Returns RONDO_SUCCESS; RONDO_ERR_INVALID; RONDO_ERR_UNSUPPORTED (the library was built without
// what it needs, or no interface fits); RONDO_ERR_NO_MEMORY; RONDO_ERR_SYSTEM.
int rondo_unique_id_listen(struct rondo_unique_id *id, const struct rondo_config *cfg);

// ----------------------------------------------------------- configuration ---

// Times that steer a daemon. Zero means "use the default of this machine".
// rondo_profile measures a set; the paper calls this automated profiling (4.3).
struct rondo_tuning {
  uint64_t front_budget_ns; // spin budget of the collective at the front of a task queue
  uint64_t min_budget_ns;   // the least that any collective gets
  uint64_t max_budget_ns;   // the most that success can raise a budget to
  uint32_t success_factor;  // a success multiplies the budget by this (the paper: 20)
  uint32_t look_ns; // a stuck collective is probed for so long before its block looks for one that
                    // is ready; 1: not at all
  uint64_t quit_period_ns; // a block without progress for this long quits (4.4)
  uint64_t residency_ns;   // a daemon that ran for this long quits whatever it is doing
  uint64_t restart_min_ns; // first pause before a daemon with unfinished work is started again
  uint64_t restart_max_ns; // the pause doubles up to this while starts are fruitless
};

// As rank_count: who started this process says which rank it is, of how many.
#define RONDO_RANKS_OF_LAUNCHER 0u

struct rondo_config {
  size_t size;               // set by RONDO_CONFIG_INIT
  uint32_t version;          // set by RONDO_CONFIG_INIT
  int backend;               // enum rondo_backend; default RONDO_BACKEND_HOST
  struct rondo_unique_id id; // which job; all zero is a job of its own, for one rank
  uint32_t rank;             // this rank, below rank_count
  uint32_t rank_count; // ranks of the job; default 1; RONDO_RANKS_OF_LAUNCHER: this and `rank`
                       // (and the id, if all zero) are what the launcher's environment says
  int device; // ordinal of the CUDA device, which ranks may share; unused by the host backend
  uint32_t
      blocks; // daemon blocks of this rank, 1 to RONDO_MAX_BLOCKS; 0: default (host: 1, CUDA: 4)
  uint32_t workers; // host backend: worker threads that the process may use for all its
                    // ranks; 0: one a core. The largest value asked for counts.
  int first_worker; // host backend: block b of this rank runs on worker
                    // (first_worker + b) % workers; -1 (default): spread by rank
  int order;        // enum rondo_order_policy
  int budget;       // enum rondo_budget_policy
  struct rondo_tuning tuning;
  uint32_t max_collectives; // most collectives registered at once; 0: 16,384
  uint64_t max_runs;        // most runs outstanding at once; 0: limited by memory alone
  uint64_t connector_bytes; // most memory for connectors of the whole job in this process; 0: 4 GiB
  uint32_t slot_bytes;      // cap on one connector slot, a power of two; 0: default
  uint32_t report_on_timeout; // 1: rondo_wait that times out logs the stuck report; default 1
  // For jobs of several processes.
  uint64_t peer_timeout_ns; // a process that gives no sign of life for this long while a run here
                            // waits for one of its ranks is given up, and a machine that does not
                            // answer; 0: 60 s. Slow is not dead: a process that works, or idles,
                            // gives signs
  uint64_t join_timeout_ns; // in which all ranks must have come; 0: 300 s
  int address_family;       // 4 or 6: only IPv4 or only IPv6; 0: both
  int transport;            // between processes: RONDO_TRANSPORT_SHARED_MEMORY or _UCX alone;
                            // 0: shared memory where there is any, else UCX; RONDO_TRANSPORT_NCCL:
                            // as 0, and GPUs by windows of NCCL. The same on all ranks
  char interfaces[64];      // network interfaces to use: beginnings of names, separated by commas;
                            // "=" before them: whole names; "^": all but these. Empty: all but
                            // loopback and the bridges of containers, or else loopback
  // CUDA backend.
  uint32_t threads; // of a block: a multiple of 32 from RONDO_MIN_THREADS to RONDO_MAX_THREADS, of
                    // which 32 decide and the others move data; 0: 288
  uint32_t multiprocessors; // most that the daemons of this process may take of the device: a rank
                            // whose blocks would be too many is refused; 0: no limit
  // UCX.
  uint32_t endpoints; // connections by which this process sends to each other one, 1 to
                      // RONDO_MAX_ENDPOINTS; 0: 1. The first rank's here counts
  // Shared memory.
  uint32_t
      huge_pages; // 1: what processes share comes from the system's pool of huge pages, if it has any when
                  // the job begins here; default 0. The first rank's here counts
};

#define RONDO_MIN_THREADS 64u
#define RONDO_MAX_THREADS 512u

#define RONDO_MAX_ENDPOINTS 16u

#define RONDO_CONFIG_VERSION 5u
#define RONDO_CONFIG_INIT                                                                          \
  {                                                                                                \
    sizeof(struct rondo_config), RONDO_CONFIG_VERSION, 0, {{0}}, 0, 1, 0, 0, 0, -1, 0, 0,          \
        {0, 0, 0, 0, 0, 0, 0, 0, 0}, 0, 0, 0, 0, 1, 0, 0, 0, 0, "", 0, 0, 0, 0                     \
  }

// Measures hand-over latency and step cost on this machine for about
// `duration_ns` (0: 50 ms) and derives budgets and quit periods from them. Blocks
// for that long; runs no collective of the caller. `out` is the caller's.
// Returns RONDO_SUCCESS, RONDO_ERR_INVALID, RONDO_ERR_NO_MEMORY or RONDO_ERR_SYSTEM.
int rondo_profile(struct rondo_tuning *out, uint64_t duration_ns);

// Writes the tuning as "front_budget_ns=...,min_budget_ns=..." into `text`, the form that the
// environment variable RONDO_TUNING takes to pin it. RONDO_TUNING_TEXT_BYTES are enough.
// Returns RONDO_SUCCESS or RONDO_ERR_INVALID (null, or `text_bytes` too small).
#define RONDO_TUNING_TEXT_BYTES 320
int rondo_tuning_print(const struct rondo_tuning *tuning, char *text, size_t text_bytes);

// The opposite: reads such a text; keys that are absent become 0 (the default).
// Returns RONDO_SUCCESS or RONDO_ERR_INVALID (an unknown key or a bad number).
int rondo_tuning_parse(struct rondo_tuning *tuning, const char *text);

// Fills in what `cfg` leaves at its default, from the environment and then from the library,
// as rondo_init does with its copy: for printing what is in force.
// Returns RONDO_SUCCESS; RONDO_ERR_INVALID (null, wrong size or version, a field out of range);
// RONDO_ERR_UNSUPPORTED (backend not built).
int rondo_config_complete(struct rondo_config *cfg);

// -------------------------------------------------------------- lifecycle ----

// Makes the context of one rank and joins the job `cfg->id`. Waits for no other
// rank. Environment variables RONDO_* override what `cfg` leaves at its default.
// Returns RONDO_SUCCESS; RONDO_ERR_INVALID (a field out of range, wrong size or
// version); RONDO_ERR_EXISTS (this rank is in the job already); RONDO_ERR_UNSUPPORTED
// (backend not built); RONDO_ERR_NO_MEMORY; RONDO_ERR_FULL; RONDO_ERR_SYSTEM.
int rondo_init(struct rondo_context *ctx, const struct rondo_config *cfg);

enum rondo_destroy_mode {
  RONDO_DESTROY_DRAIN = 0, // let outstanding runs complete first
  RONDO_DESTROY_ABORT = 1  // end them with RONDO_ERR_ABORTED
};

// Ends a context and frees all that belongs to it. Draining lasts at most
// `timeout_ns`; what is then still outstanding is aborted, so the call is bounded
// and always ends the context. The process where the job's id was made, or that of rank 0, is how the others
// get into the job: with its last context it waits, in either mode and within the same time, for ranks that
// have not come yet, as long as they may come; and a process that has not joined yet itself for a word to it, or
// it would be waited for. All callbacks have returned when it returns.
// Calls of other threads on this context end with RONDO_ERR_CLOSED. May not be
// called from a callback (RONDO_ERR_INVALID).
// Returns RONDO_SUCCESS, RONDO_ERR_TIMEOUT (drain ran out; runs were aborted; the
// context is gone all the same), RONDO_ERR_UNKNOWN, RONDO_ERR_CLOSED.
int rondo_destroy(struct rondo_context ctx, int mode, int64_t timeout_ns);

// Waits until every other rank of the job is there (rondo_wait_ready), or until every other rank has gone, of itself or
// because it is lost (rondo_wait_gone), at most `timeout_ns` (0: look once). It needs nothing of the others but their
// rondo_init or their end: no collective, and no wait on their side; it does not work for the daemon meanwhile. Up to
// `capacity` of the ranks that are waited for go to `ranks`, in ascending order, and how many there are to `count` (may
// be null); with RONDO_ERR_PEER those that have gone. Ranks of other processes count as absent until it is known
// where all of them are, so no earlier than the last one comes or its time is over (join_timeout_ns).
// Returns RONDO_SUCCESS; RONDO_ERR_TIMEOUT; RONDO_ERR_PEER (rondo_wait_ready: a rank has gone, or has not come in its
// time, so they will never all be there); RONDO_ERR_INVALID (null with room, or a callback that would wait);
// RONDO_ERR_UNKNOWN; RONDO_ERR_CLOSED (also if the context is destroyed meanwhile).
int rondo_wait_ready(struct rondo_context ctx, int64_t timeout_ns, uint32_t *ranks,
                     uint32_t capacity, uint32_t *count);
int rondo_wait_gone(struct rondo_context ctx, int64_t timeout_ns, uint32_t *ranks,
                    uint32_t capacity, uint32_t *count);

// Ends every outstanding run of this rank, and those of its peers in the same
// collectives, with RONDO_ERR_ABORTED. Later runs of these collectives end the same way;
// deregister and register again to go on. Does not wait; wait for the runs to see them end.
// Send and receive buffers may be reused only when their runs have ended. What
// receive buffers hold is unspecified.
int rondo_abort(struct rondo_context ctx);

// ------------------------------------------------------------------ groups ---

// Makes the ordered set of `rank_count` distinct ranks of the job. Local; the
// others make their own. The context's own rank need not be a member, but can
// only register collectives on groups that it belongs to. `ranks` is copied.
// Returns RONDO_SUCCESS, RONDO_ERR_INVALID (empty, a rank twice or out of range), RONDO_ERR_NO_MEMORY,
// RONDO_ERR_UNKNOWN or RONDO_ERR_CLOSED (context).
int rondo_group_create(struct rondo_context ctx, const uint32_t *ranks, uint32_t rank_count,
                       struct rondo_group *group);

// Forgets the handle; collectives registered with it are not affected.
int rondo_group_destroy(struct rondo_context ctx, struct rondo_group group);

// ------------------------------------------------------------------ memory ---

// Buffers may be any memory that the backend can reach; these calls give memory that is good for it
// on every backend, so that a program runs unchanged on each.

// Zeroed memory of `bytes` (0 too) that this context's daemon, and those of its peers, can use
// directly: of the device, on a backend that has one. It belongs to the context and
// goes with it at the latest. At least 128-byte aligned.
// Returns RONDO_SUCCESS, RONDO_ERR_INVALID (null), RONDO_ERR_NO_MEMORY, RONDO_ERR_UNKNOWN or
// RONDO_ERR_CLOSED.
int rondo_mem_alloc(struct rondo_context ctx, size_t bytes, void **memory);

// Gives memory of rondo_mem_alloc back; no run may be using it. Null is nothing.
// Returns RONDO_SUCCESS, RONDO_ERR_INVALID (no such memory of this context), RONDO_ERR_UNKNOWN or
// RONDO_ERR_CLOSED.
int rondo_mem_free(struct rondo_context ctx, void *memory);

// Copies `bytes` between any two of: memory of this process, memory of rondo_mem_alloc. It is done
// when the call returns. The two may not overlap, and no run may be using them.
// Returns RONDO_SUCCESS; RONDO_ERR_INVALID (null or overlapping); RONDO_ERR_SYSTEM (the device
// refused, or did not copy within a minute); RONDO_ERR_UNKNOWN; RONDO_ERR_CLOSED.
int rondo_mem_copy(struct rondo_context ctx, void *dst, const void *src, size_t bytes);

// Writes to `direct` 1 if the CPU may read and write the memory of rondo_mem_alloc itself, without
// rondo_mem_copy, as on the host backend; else 0.
// Returns RONDO_SUCCESS, RONDO_ERR_INVALID (null), RONDO_ERR_UNKNOWN or RONDO_ERR_CLOSED.
int rondo_mem_is_direct(struct rondo_context ctx, int *direct);

// ------------------------------------------------------------ registration ---

// Describes a collective. All ranks of the group must register equal
// descriptors, `priority`, `scalar` and what is said of all-to-all-v excepted, which are each
// rank's own.
struct rondo_collective_desc {
  size_t size;              // set by the makers below
  uint32_t version;         // set by the makers below
  int kind;                 // enum rondo_kind
  uint64_t id;              // shared by the ranks of the group; groups without a common
                            // member may use the same id
  uint64_t count;           // elements: see enum rondo_kind
  int dtype;                // enum rondo_dtype
  int redop;                // enum rondo_redop; RONDO_SUM for kinds that do not reduce
  uint32_t root;            // position of the root in the group (reduce, broadcast, gather,
                            // scatter); of the sender (send-recv)
  int priority;             // RONDO_PRIORITY_MIN to RONDO_PRIORITY_MAX; default 0
  struct rondo_group group; // default: all ranks
  double scalar;     // RONDO_PREMUL_SUM: this rank's factor, converted to the dtype; default 1
  uint32_t peer;     // position of the receiver (send-recv); may be that of the sender
  uint32_t reserved; // zero
  // All-to-all-v: an element a member of the group, in elements, each rank's own; copied by
  // rondo_register. What this rank sends to each and receives from each must be what they receive and
  // send. Displacements are from the start of the buffer; null: one part behind the other.
  const uint64_t *send_counts, *send_displacements;
  const uint64_t *recv_counts, *recv_displacements;
};

#define RONDO_COLLECTIVE_DESC_VERSION 1u

// Makers of descriptors with every field set. They cannot fail; rondo_register checks.
struct rondo_collective_desc rondo_all_reduce(uint64_t id, uint64_t count, int dtype, int redop);
struct rondo_collective_desc rondo_all_gather(uint64_t id, uint64_t count, int dtype);
struct rondo_collective_desc rondo_reduce_scatter(uint64_t id, uint64_t count, int dtype,
                                                  int redop);
struct rondo_collective_desc rondo_reduce(uint64_t id, uint64_t count, int dtype, int redop,
                                          uint32_t root);
struct rondo_collective_desc rondo_broadcast(uint64_t id, uint64_t count, int dtype, uint32_t root);
// From the member at position `root` to the one at `peer`. These two register and run it, with
// the same descriptor, and nobody else: who sends and who receives follows from who they are.
struct rondo_collective_desc rondo_send_recv(uint64_t id, uint64_t count, int dtype, uint32_t root,
                                             uint32_t peer);
struct rondo_collective_desc rondo_all_to_all(uint64_t id, uint64_t count, int dtype);
struct rondo_collective_desc rondo_all_to_all_v(uint64_t id, int dtype, const uint64_t *send_counts,
                                                const uint64_t *send_displacements,
                                                const uint64_t *recv_counts,
                                                const uint64_t *recv_displacements);
struct rondo_collective_desc rondo_gather(uint64_t id, uint64_t count, int dtype, uint32_t root);
struct rondo_collective_desc rondo_scatter(uint64_t id, uint64_t count, int dtype, uint32_t root);
// A run of it ends when every member has submitted it. It uses no buffers.
struct rondo_collective_desc rondo_barrier(uint64_t id);

// Registers a collective on this rank. Local: it may come in any order on each rank, also while others run.
// Peers' descriptors are compared beside the calls; where they differ, every run
// of this id ends with RONDO_ERR_MISMATCH on every rank that registered it, and the log line
// names both sides. An id may be used again after deregistration: the n-th
// registration of an id on one rank belongs to the n-th on the others.
// Returns RONDO_SUCCESS; RONDO_ERR_INVALID (a field out of range; this rank is not in
// the group); RONDO_ERR_EXISTS (id is registered); RONDO_ERR_FULL (max_collectives);
// RONDO_ERR_NO_MEMORY (memory or connector_bytes); RONDO_ERR_UNKNOWN; RONDO_ERR_CLOSED.
int rondo_register(struct rondo_context ctx, const struct rondo_collective_desc *desc,
                   struct rondo_collective *coll);

// Gives the collective's communicator back. Returns RONDO_ERR_BUSY while a run
// is outstanding. Peers' runs beyond those that this rank has run end with RONDO_ERR_PEER, but
// for those that needed nothing of this rank any more and have ended.
int rondo_deregister(struct rondo_context ctx, struct rondo_collective coll);

// Finds a collective of this context by its id. RONDO_ERR_UNKNOWN if there is none.
int rondo_lookup(struct rondo_context ctx, uint64_t id, struct rondo_collective *coll);

// What a collective of this context is: writes its descriptor to `desc` (may be null), without the
// arrays of an all-to-all-v, and up to `capacity` ranks of its group, in order, to `ranks`; how
// many there are goes to `rank_count` (may be null). The group of a send-recv are its two ranks, the
// sender first. Descriptors of calls of a communicator (comm.h) have ids of its own.
// Returns RONDO_SUCCESS, RONDO_ERR_INVALID (null), RONDO_ERR_UNKNOWN, RONDO_ERR_CLOSED.
int rondo_describe(struct rondo_context ctx, struct rondo_collective coll,
                   struct rondo_collective_desc *desc, uint32_t *ranks, uint32_t capacity,
                   uint32_t *rank_count);

// ----------------------------------------------------------------- running ---

// Called once when a run has ended, on the context's poller thread, never inside
// another call of the application. It may call any function but rondo_destroy,
// and should be brief: later callbacks of the context wait for it.
// `status` is RONDO_SUCCESS or what ended the run.
typedef void (*rondo_callback)(void *arg, int status);

// Submits one run. The buffers belong to the run until it has ended; they are
// `count` elements (n × count where enum rondo_kind says so), at any
// alignment, and may be in place: send == recv, for all-gather and the root of a gather
// send == recv + rank × count, for reduce-scatter and the root of a scatter
// recv == send + rank × count (elements); all-to-all may not. Other overlaps are refused. A buffer that
// this rank does not use (recv of a reduce or gather that is not the root, or of a sender; send of a
// broadcast or scatter that is not the root, or of a receiver; both of a barrier) may be null. Runs of one collective
// match across ranks in the order of their submission; independent collectives do
// not order each other. Never waits. `callback` may be null.
// Returns RONDO_SUCCESS; RONDO_ERR_INVALID (null or overlapping buffers);
// RONDO_ERR_FULL (max_runs); RONDO_ERR_NO_MEMORY; RONDO_ERR_UNKNOWN; RONDO_ERR_CLOSED. A failure
// that is already known (mismatch, abort) is reported by the run, not here.
int rondo_run(struct rondo_context ctx, struct rondo_collective coll, const void *send, void *recv,
              rondo_callback callback, void *arg);

// The same with the number that the run got written to `run` (not null): 1 for the first run of the
// collective, then 2, and so on.
struct rondo_run_args {
  const void *send;
  void *recv;
  rondo_callback callback;
  void *arg;
};
int rondo_run_numbered(struct rondo_context ctx, struct rondo_collective coll,
                       const struct rondo_run_args *args, uint64_t *run);

// Submits one run in the order of a stream: it begins when the work that was in `stream` before has
// ended, and what is put into the stream after waits for it. `stream` is a CUstream or cudaStream_t
// of the context's device (null: its default stream). The call waits for neither; it may wait for
// room in the stream. The run is one like others: rondo_wait, rondo_test and failures are as for
// rondo_run. A run that fails lets the stream go on, too. Where the stream is being captured,
// the run goes into the graph, which asks for one more run each time that it is launched; the
// collective cannot be deregistered before the graph, and what was instantiated from it, are
// destroyed. When the context is destroyed the stream must have gone on, and the graph may not be
// launched any more.
// Returns as rondo_run; also RONDO_ERR_UNSUPPORTED (the backend has no streams, or the device
// cannot wait in them), RONDO_ERR_INVALID (no stream of the device) and RONDO_ERR_SYSTEM.
int rondo_run_on_stream(struct rondo_context ctx, struct rondo_collective coll, const void *send,
                        void *recv, void *stream);

// Between these two the runs that this thread submits to streams are asked for there as ever, but the
// streams wait for them only from rondo_streams_release on, which then enqueues all the waits. For sets of
// runs in one stream of which none need end before all have begun, such as a send and a receive that
// two ranks make in opposite order. What else is put into the streams meanwhile does not wait. They
// nest: the outermost rondo_streams_release counts. It returns RONDO_SUCCESS; RONDO_ERR_INVALID (the
// thread holds no streams); or the first refusal of a stream, which then does not wait for its run.
// rondo_streams_hold returns RONDO_SUCCESS.
int rondo_streams_hold(void);
int rondo_streams_release(void);

// As a run number: the run that was submitted last, by any thread.
#define RONDO_LAST_RUN UINT64_MAX

// Waits until run `run` has ended and returns its status; RONDO_SUCCESS at once
// if nothing was ever submitted and `run` is RONDO_LAST_RUN. The waiting thread
// works for the daemon meanwhile. Returns RONDO_ERR_TIMEOUT after `timeout_ns`
// (0: look once); the run goes on. The run's callback may not have been called yet.
// Once a run has failed, this call and rondo_test give its status for all later runs of the
// collective, which have failed as well; their callbacks get each its own.
// May be called from a callback only with timeout_ns 0.
int rondo_wait(struct rondo_context ctx, struct rondo_collective coll, uint64_t run,
               int64_t timeout_ns);

// The status of run `run` if it has ended, else RONDO_IN_PROGRESS. Never waits. A call that finds the
// run outstanding works for the daemon, a bounded number of steps: a loop over rondo_test needs no
// other thread, and one step moves at most 256 KiB for each collective that is ready.
int rondo_test(struct rondo_context ctx, struct rondo_collective coll, uint64_t run);

// Has `callback` called when run `run` has ended, as if it had been given with the run: for who
// knows only later that it wants one. Of a run that has ended already it is called soon. RONDO_LAST_RUN as
// in rondo_wait, if anything was ever submitted.
// Returns RONDO_SUCCESS; RONDO_ERR_EXISTS (the run has a callback already); RONDO_ERR_INVALID (null); RONDO_ERR_NO_MEMORY; RONDO_ERR_SYSTEM (no thread);
// RONDO_ERR_UNKNOWN; RONDO_ERR_CLOSED.
int rondo_notify(struct rondo_context ctx, struct rondo_collective coll, uint64_t run,
                 rondo_callback callback, void *arg);

// A file descriptor that becomes readable whenever a run of this context has
// ended since it was last read (eventfd, 8 bytes, the number of runs ended). It
// belongs to the context: read and poll it, never close it.
// Returns RONDO_SUCCESS or RONDO_ERR_SYSTEM.
int rondo_event_fd(struct rondo_context ctx, int *fd);

// Blocks until the daemon of this rank has left the device, as cudaDeviceSynchronize does for
// its kernels: it returns when every launch of the daemon that began before the call has
// quit, whether or not its runs have completed. This is a whole-device wait as
// an application would make between collectives (the paper, 2.3 and 6.1).
// Returns RONDO_SUCCESS, RONDO_ERR_TIMEOUT, RONDO_ERR_UNKNOWN, RONDO_ERR_CLOSED.
int rondo_device_synchronize(struct rondo_context ctx, int64_t timeout_ns);

// -------------------------------------------------------------- observation ---

// Writes to `out`, a line each, the devices that a backend finds, whether it can use them, and where data
// between ranks on two of them would lie, and why there. No device is opened. Where the backend cannot be used the last line says why.
// Returns RONDO_SUCCESS, RONDO_ERR_UNSUPPORTED (it cannot be used) or RONDO_ERR_INVALID (no such
// backend, or null).
int rondo_backend_describe(int backend, FILE *out);

// How the data of two ranks get from one to the other.
enum rondo_transport {
  RONDO_TRANSPORT_NONE = 0,          // not at all: it is lost, or nothing leads there
  RONDO_TRANSPORT_LOCAL = 1,         // in the memory of this process
  RONDO_TRANSPORT_SHARED_MEMORY = 2, // in memory that two processes of one machine share
  RONDO_TRANSPORT_UCX = 3,           // in messages of UCX
  RONDO_TRANSPORT_NCCL = 4           // in windows of NCCL: memory of GPUs that it maps into all
};

// Writes to `transport` (enum rondo_transport) how this context's rank reaches `rank`, and to `why`, of
// `why_bytes`, a line that says for which reason. Waits for nobody.
// Returns RONDO_SUCCESS; RONDO_IN_PROGRESS (it is not known yet where that rank is; `why` says so
// too); RONDO_ERR_INVALID (null, no such rank); RONDO_ERR_UNKNOWN; RONDO_ERR_CLOSED.
int rondo_transport(struct rondo_context ctx, uint32_t rank, int *transport, char *why,
                    size_t why_bytes);

// "none", "local", "shared memory", "ucx", "nccl"; "unknown" for anything else. Never null; any thread.
const char *rondo_transport_name(int transport);

// Writes to `out`, a line each, what a transport (enum rondo_transport, not NONE) finds on this machine, as far as
// this process may use it. Needs no job, and nobody is connected to. Where it cannot be used the last line says why.
// Returns RONDO_SUCCESS, RONDO_ERR_UNSUPPORTED or RONDO_ERR_SYSTEM (it cannot be used), or RONDO_ERR_INVALID (no such
// transport, or null). Any thread.
int rondo_transport_describe(int transport, FILE *out);

// Sums over all blocks of this rank since rondo_init, save where said.
struct rondo_counters {
  uint64_t submitted;       // runs accepted
  uint64_t completed;       // runs ended, whatever their status
  uint64_t steps;           // block steps
  uint64_t primitives;      // chunks that primitives completed
  uint64_t preemptions;     // stuck collectives left for another one
  uint64_t context_loads;   // contexts brought into an active slot
  uint64_t context_saves;   // contexts written back (only when they had progressed)
  uint64_t quits;           // block quits: idle, stuck or longest residency
  uint64_t starts;          // daemon starts
  uint64_t helped;          // steps taken by waiting threads
  uint64_t connector_bytes; // connector memory in use, this process, this job (now, not a sum)
};

// Copies the counters. Each is exact; together they are not one instant.
int rondo_counters(struct rondo_context ctx, struct rondo_counters *out);

// What an outstanding run is doing.
enum rondo_run_state {
  RONDO_RUN_WAITING = 0,  // behind earlier runs of its collective, or not fetched yet
  RONDO_RUN_QUEUED = 1,   // in a task queue; not executing
  RONDO_RUN_EXECUTING = 2 // loaded by a block or preempted half-done
};

// What one outstanding run of this rank is waiting for.
struct rondo_stuck {
  uint64_t id;         // of the collective
  uint64_t run;        // number of the run
  int state;           // enum rondo_run_state
  uint32_t block;      // block that was asked
  uint32_t op;         // plan op at which it stands, when executing
  int32_t peer;        // rank whose data or credit it waits for; -1: none, or not known
  uint32_t missing;    // ranks of the group that have not submitted this run, here or elsewhere
  uint64_t waiting_ns; // since its last progress
};

// Fills up to `capacity` entries, oldest first, and writes how many there are to
// `count` (may be more than `capacity`). Slow, because ranks of other processes are asked, and those that do not
// answer within 0.2 s count as missing; for diagnosis.
int rondo_stuck(struct rondo_context ctx, struct rondo_stuck *entries, size_t capacity,
                size_t *count);

// Which ranks of its group have not submitted run `run` of a collective, or are in other processes that do not
// answer within 0.2 s: up to `capacity` of them go to `ranks`, and how many there are to `count`.
// Slow; for diagnosis.
// Returns RONDO_SUCCESS, RONDO_ERR_INVALID (null), RONDO_ERR_NO_MEMORY, RONDO_ERR_UNKNOWN,
// RONDO_ERR_CLOSED.
int rondo_missing(struct rondo_context ctx, struct rondo_collective coll, uint64_t run,
                  uint32_t *ranks, uint32_t capacity, uint32_t *count);

// Why runs of a collective fail, in words, such as what two ranks registered that differs, or which rank is
// lost: written to `text`, of `text_bytes` (RONDO_REASON_BYTES are enough); empty if none has to fail.
// Returns RONDO_SUCCESS, RONDO_ERR_INVALID (null), RONDO_ERR_UNKNOWN, RONDO_ERR_CLOSED.
#define RONDO_REASON_BYTES 512
int rondo_reason(struct rondo_context ctx, struct rondo_collective coll, char *text,
                 size_t text_bytes);

// Prints the stuck report of every context of this process that shares this context's job:
// for each outstanding run which ranks have not submitted it, which block stands
// at which plan op waiting for which peer, for how long; and the cycle of who
// waits for whom, if there is one. `cycle_ranks` (may be null) gets the number of
// ranks in that cycle, 0 if there is none. Ranks of other processes with which something is outstanding
// are asked, and shown, too, unless they do not answer within 0.2 s. Also printed on SIGUSR1,
// unless the application handles it or RONDO_REPORT_SIGNAL is 0. Slow; for diagnosis.
int rondo_report(struct rondo_context ctx, FILE *stream, uint32_t *cycle_ranks);

// Writes the flight record of this rank: its last 1,024 events, always kept, and what its daemon is
// doing now, as JSON, one object a line. `rondo-sim analyse` reads the records of all ranks of a
// job and says why it hangs. Also written for all ranks of the process, to the files
// that RONDO_FLIGHT_FILE names, on SIGUSR1 and when a wait times out: see docs/configuration.md.
// Returns RONDO_SUCCESS, RONDO_ERR_INVALID (null), RONDO_ERR_NO_MEMORY, RONDO_ERR_SYSTEM (the
// stream failed), RONDO_ERR_UNKNOWN, RONDO_ERR_CLOSED.
int rondo_flight_write(struct rondo_context ctx, FILE *stream);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif // RONDO_RONDO_H
