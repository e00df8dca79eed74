// Shared by the parts of the fake driver. One lock guards all; one condition is signalled at
// every change.
#ifndef RONDO_TESTS_SUPPORT_FAKE_CUDA_INTERNAL_H
#define RONDO_TESTS_SUPPORT_FAKE_CUDA_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>

#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/ptx/ptx_program.h"

#define FAKE_CHANNELS RONDO_FAKE_MANY_CONNECTIONS // hardware queues at most
#define FAKE_DEFAULT_CHANNELS 8u
#define FAKE_MAX_KERNELS 32u
#define FAKE_MAX_ENTRIES 128u

struct fake_kernel {
  char name[64];
  rondo_fake_kernel function;
  size_t param_bytes;
};

struct CUfunc_st {
  const struct fake_kernel *kernel; // null: the PTX machine executes `code`
  const struct ptx_kernel *code;
  const struct ptx_program *program; // of `code`
  struct CUmod_st *module;
  int is_loaded;
  struct CUfunc_st *next;
};

struct CUmod_st {
  struct CUctx_st *ctx;
  const struct ptx_program *program; // null: its image has no PTX
  struct CUfunc_st *functions;
  struct CUmod_st *next;
};

struct CUevent_st {
  uint64_t recorded; // number of the operation that records it last; 0: none
  uint64_t done;     // ... that has recorded it last
  uint64_t graph_id; // of the capture in which it was recorded last; 0: in none
  uint64_t node;     // ... and the number of the node there
  uint32_t references;
  int is_destroyed;
};

enum fake_kind {
  FAKE_COPY,
  FAKE_FILL,
  FAKE_VALUES,
  FAKE_KERNEL,
  FAKE_RECORD,
  FAKE_AWAIT,
  FAKE_HOST,
  FAKE_GRAPH
};

// An operation in a stream, or a node of a graph.
struct fake_op {
  enum fake_kind kind;
  CUstream stream;
  uint64_t number;     // all operations are numbered as they are enqueued; 0: a node
  uint64_t node;       // nodes are numbered in their graph
  uint32_t is_done;    // a node that records an event: in this replay
  uint32_t is_waiting; // for a value that is not there yet
  struct fake_op *next_in_queue, *next_in_stream;
  void *dst;
  const void *src;
  size_t bytes;
  void *owned;    // memory that the operation frees: a snapshot, parameters
  uint64_t value; // byte to fill with; number of the recording, or of its node, that is awaited
  CUstreamBatchMemOpParams *values;
  uint32_t count; // of values; CUDA blocks of a kernel
  uint32_t left;  // CUDA blocks that have not ended
  CUfunction function;
  uint32_t threads, shared_bytes; // of a CUDA block of a kernel
  CUevent event;
  CUgraphExec exec;
  CUhostFn host;
  void *arg;
};

struct fake_held { // a user object that a graph or an executable graph holds
  CUuserObject object;
  uint32_t count;
  struct fake_held *next;
};

struct CUuserObject_st {
  void *ptr;
  CUhostFn destroy;
  uint32_t references;
};

struct CUgraph_st {
  struct fake_op *nodes, *last;
  struct fake_held *held;
  CUstream stream; // in which the capture began; null: ended
  uint64_t node_count;
  uint64_t id;
  CUstreamCaptureMode mode;
  pthread_t thread; // that began the capture
  int is_invalid;
  struct CUgraph_st *next; // of those being captured
};

struct CUgraphExec_st {
  struct fake_op *nodes;
  struct fake_held *held;
  uint32_t in_flight; // launches that have not ended
  int is_busy;        // one of them is executing
  int is_destroyed;
};

struct CUstream_st {
  CUcontext ctx;
  uint32_t flags;
  int priority;
  struct fake_queue *queue;
  struct fake_op *head, *tail; // not completed
  CUgraph capture;
  int is_destroyed;
  struct CUstream_st *next;
};

// A hardware queue: operations of the streams that share it begin in the order of enqueuing.
struct fake_queue {
  pthread_t thread;
  int is_started;
  struct fake_op *head, *tail;
};

enum fake_place {
  FAKE_ON_DEVICE,
  FAKE_PINNED,
  FAKE_REGISTERED,
  FAKE_MAPPED,
  FAKE_POOL,
  FAKE_MANAGED
};

struct fake_range {
  uintptr_t begin;
  size_t bytes;
  enum fake_place place;
  CUcontext ctx;   // of the device whose memory it is
  uint32_t access; // mapped: bit d: device d may use it
  struct fake_range *next;
};

// Who holds the lock of a context: see rondo_fake_options.holds_lock.
enum fake_lock { FAKE_UNLOCKED = 0, FAKE_LOCKED = 1, FAKE_LOCKED_BY_COPY = 2 };

struct CUctx_st {
  uint32_t device;
  uint32_t retained;
  uint32_t flags;
  uint32_t peers; // bit d: access to device d is enabled
  struct CUstream_st legacy;
  CUstream streams; // list; the legacy stream is its last
  CUmodule modules;
  uint32_t stream_count; // made so far
  uint32_t running;      // CUDA blocks
  int is_locked;         // by a call that waits: enum fake_lock
  struct fake_queue queues[FAKE_CHANNELS];
};

struct fake_entry {
  const char *name;
  uint64_t calls;
};

struct fake_fault {
  char entry[64]; // empty: any
  uint64_t first, count, seen, failed;
  CUresult result;
};

struct fake_hold {
  char entry[64]; // whose calls wait; empty: none
  uint32_t held;  // calls that wait
};

struct fake_driver {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int is_configured, is_started;
  struct rondo_fake_options options;
  struct CUctx_st contexts[RONDO_FAKE_MAX_DEVICES];
  struct fake_range *ranges;
  uint32_t range_changes; // how often ranges went; read without the lock
  struct fake_kernel kernels[FAKE_MAX_KERNELS];
  uint32_t kernel_count;
  struct fake_entry entries[FAKE_MAX_ENTRIES];
  uint32_t entry_count;
  struct fake_fault fault;
  struct fake_hold hold;
  struct rondo_fake_live live;
  uint64_t numbers; // operations so far
  uint64_t graph_ids;
  uint64_t kernels_in_flight;
  uint32_t threads;        // of a block of the last kernel
  uint64_t launches_in[2]; // by CUlaunchMemSyncDomain
  CUgraph captures;
};

extern struct fake_driver fake;

// Preconditions of a call.
#define FAKE_STARTED 1u // cuInit before
#define FAKE_CURRENT 2u // a current context
#define FAKE_UNSAFE 4u  // no capture that it would disturb

// Begins a call. Not CUDA_SUCCESS: the call returns that. Else the lock is held.
CUresult fake_enter(const char *entry, unsigned needs);
// Ends it: lets the lock go and is `result`.
CUresult fake_leave(CUresult result);

#define FAKE_ENTER(needs)                                                                          \
  do {                                                                                             \
    CUresult fake_refused = fake_enter(__func__, needs);                                           \
    if (fake_refused != CUDA_SUCCESS)                                                              \
      return fake_refused;                                                                         \
  } while (0)

// All below: the lock is held.

CUcontext fake_current(void);
void fake_context_init(CUcontext ctx, uint32_t device);
int fake_offers_access(uint32_t device, uint32_t peer);

// locks.c
void fake_watch_call(const char *entry);

// stream.c
CUstream fake_stream(CUstream handle); // null: no such stream
struct fake_op *fake_op_new(enum fake_kind kind, CUstream stream);
// Enqueues the operation, or adds it to what is being captured. Takes it over.
CUresult fake_enqueue(struct fake_op *op);
void fake_await_op(CUstream stream, uint64_t number);
// Waits as a call does that was not asked to: see rondo_fake_options.holds_lock and kernels_only.
void fake_await_context(CUcontext ctx);
void fake_await_streams(CUcontext ctx); // until what is enqueued now has ended
void fake_op_free(struct fake_op *op);
void fake_execute(struct fake_op *op); // the lock is not held; not for kernels
void fake_event_drop(CUevent event);

// module.c
void fake_kernel_start(struct fake_op *op); // the lock is not held
void fake_modules_free(CUcontext ctx);

// graph.c
CUresult fake_capture_add(CUgraph graph, struct fake_op *op);
void fake_exec_run(CUgraphExec exec); // the lock is not held
void fake_exec_ended(CUgraphExec exec);
int fake_capture_forbids(void);
void fake_capture_invalidate(void);
// Events in captures: the record or the wait becomes a node, and a wait takes the stream into the
// capture. `*taken` is 0 if it has nothing to do with a capture.
CUresult fake_capture_event(CUstream stream, CUevent event, enum fake_kind kind, int *taken);

// scripted.c: what streams access. Without a script, or outside of its ranges, plain copies.
void fake_scripted_read(void *to, const void *from, size_t bytes);
void fake_scripted_write(void *to, const void *from, size_t bytes);
// Words that streams wait for and write. Only with a script.
uint64_t fake_scripted_value(const void *at, uint32_t bytes);
void fake_scripted_set_value(void *at, uint64_t value, uint32_t bytes);
// Runs a block of a launch on a device. Returns an enum ptx_state.
struct ptx_launch;
int fake_scripted_run(struct ptx_launch *launch, uint32_t device, uint32_t index);
void fake_scripted_range_add(const struct fake_range *range);
void fake_scripted_range_remove(uintptr_t begin);

// memory.c
struct fake_range *fake_range_of(uintptr_t address, size_t bytes); // that holds all of it, or null
void fake_range_add(uintptr_t begin, size_t bytes, enum fake_place place, CUcontext ctx);
void fake_ranges_free(void);
bool fake_range_is_reachable(const struct fake_range *range, CUcontext ctx); // by its device
void fake_range_gone(void); // one went, or will before anything else happens

// ptx.c
// The program of an image, or null: the image has no PTX. Aborts where the machine does not know
// the text.
const struct ptx_program *fake_ptx_program(const void *image);
// Lets the machine execute the function of this name: that of the module's program, else one of
// the images that the environment names. False: neither has it.
bool fake_ptx_find(CUfunction function, const char *name);
void fake_ptx_params(const struct ptx_kernel *kernel, void *to, void **params);
void fake_ptx_run(const struct fake_op *op, uint32_t block); // the lock is not held

// Called by a queue, a kernel or a graph when an operation has ended.
void fake_op_ended(struct fake_op *op);

#endif // RONDO_TESTS_SUPPORT_FAKE_CUDA_INTERNAL_H
