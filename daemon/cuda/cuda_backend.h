// The CPU side of the CUDA backend: devices, their memory, their daemons, and the threads of the
// process that look after them.
//
//   open -> create -> attach -> (launcher, reaper) ... -> detach -> destroy -> close
//
// The launcher launches daemons for all ranks; the reaper takes completions; the inspector reads
// where collectives stand, for reports. A daemon progresses and quits without any CUDA call; only a
// launch needs one.
#ifndef RONDO_DAEMON_CUDA_BACKEND_H
#define RONDO_DAEMON_CUDA_BACKEND_H

#include <pthread.h>
#include <stdint.h>

#include "daemon/cuda/cuda_api.h"
#include "daemon/cuda/cuda_driver.h"
#include "daemon/cuda/cuda_launch_core.h"
#include "daemon/driver/driver.h"

#define RONDO_CUDA_KERNEL "rondo_cuda_daemon"
#define RONDO_CUDA_KERNEL_TIMED "rondo_cuda_daemon_timed"

#define RONDO_CUDA_MAX_DEVICES 64u
#define RONDO_CUDA_STREAMS 2u // of a daemon, used in turn
// A launch stays for so long at most for runs that streams wait for, if the launcher is kept from
// launching. As long as PyTorch waits for a collective.
#define RONDO_CUDA_STAY_NS UINT64_C(600000000000)
#define RONDO_CUDA_STAGING_BYTES 65536u
#define RONDO_CUDA_SIZE_CLASSES 23u // pieces of 2^7 to 2^22 bytes are cut from chunks

// The kernels for every architecture, as cuModuleLoadData takes them. Null in a library built
// without nvcc.
extern const unsigned char rondo_cuda_image[] __attribute__((weak));
// Returns the same. A call, because a weak symbol alone pulls nothing of a static library into a
// program.
const void *rondo_cuda_kernels(void);

#define RONDO_CUDA_CLAUSE_BYTES 256u // of a reason that becomes part of a line

// True if the kernels can run on a device of `architecture` (ten times its compute capability) with
// this driver: there is machine code for it, or the driver can compile the PTX. Else false, and one
// clause in `why` (RONDO_CUDA_CLAUSE_BYTES). `compiler` and `driver` are versions of CUDA as
// cuDriverGetVersion writes them.
bool rondo_cuda_image_fits(int compiler, int driver, int architecture, char *why);

struct rondo_cuda_piece;
struct rondo_cuda_chunk;
struct rondo_cuda_copier;

struct rondo_cuda_memory {
  pthread_mutex_t lock; // guards all fields below; not held in calls of the driver
  struct rondo_cuda_chunk *chunks;
  // By kind and size class.
  struct rondo_cuda_piece *idle[RONDO_MEMORY_KINDS][RONDO_CUDA_SIZE_CLASSES];
  void *in_use;                      // tree (search.h) of pieces
  struct rondo_cuda_copier *copiers; // for copies, idle
};

struct rondo_cuda_device {
  struct rondo_device base;
  const struct rondo_cuda_api *api;
  // Guarded by devices_lock.
  uint32_t opened;   // number of opens
  bool is_changing;  // a thread opens or closes it, without the lock
  bool is_created;   // other devices may map its memory
  const void *image; // of the kernel that it runs
  int ordinal;
  CUdevice handle;
  CUcontext ctx;
  CUmodule module;
  CUfunction kernel;
  bool keeps_times;      // `image` is that of rondo_cuda_use_timed_kernel
  uint32_t fast_bytes;   // most shared memory that a block can have
  int priority;          // the highest stream priority
  int node;              // NUMA node of the device; -1: unknown
  uint64_t residency_ns; // longest residency; 0: as configured
  bool shares_queue;     // all streams have one hardware queue
  bool pageable;         // it can use all memory of this process
  bool has_domains;      // of memory synchronisation
  uint32_t multiprocessors;
  uint32_t blocks;       // of all daemons; written with devices_lock
  uint32_t holds;        // > 0: no daemon is launched; written with the launcher's lock
  uint64_t peers_mapped; // by ordinal: devices whose memory this device can use
  struct rondo_cuda_memory memory;
};

// What was reported of one block (rondo_daemon.on_change).
struct rondo_cuda_reported {
  uint64_t launches, leaves; // last residency seen
  uint64_t progress;         // when it last left
  uint32_t is_fruitless;     // its last residency made no progress
};

// A stream of a daemon, for launches that follow a stream of the application. Each stream of the
// application that waits for runs has a launch stream of its own.
struct rondo_cuda_launch_stream {
  CUstream handle;
  CUevent reached; // recorded in `stream` before it waits for a run; the run's launch awaits it
  void *stream;    // of the application, if is_bound
  // The run of the last launch; null: there was none.
  const struct rondo_stream_words *words;
  uint64_t ticket;
  uint32_t is_taken; // by the thread that uses the other fields
  bool is_bound;
};

struct rondo_cuda_daemon {
  struct rondo_daemon base;
  // Counts submissions (K1), and the words that waiting threads sleep on.
  _Alignas(RONDO_LINE_BYTES) uint64_t submissions;
  uint64_t helped; // rounds of waiting threads
  uint32_t done_word, done_waiters;
  uint64_t asked_ns;     // when a stream last asked for a run
  uint32_t asking;       // runs for which streams ask, and for which no stream waits yet
  uint32_t lacks_launch; // 1: a stream waits for a run that has no launch of its own
  uint32_t enqueuing;    // threads that launch in a launch stream
  uint8_t waiting_line[RONDO_LINE_BYTES - 44];
  // Used by the launcher only.
  uint64_t submissions_seen;
  uint64_t leaves_seen, progress_seen;
  uint64_t next_start_ns;
  uint64_t pause_ns;    // before the next launch after blocks have left
  uint64_t sweep_ns;    // next launch for blocks without known work
  uint64_t unneeded_ns; // since when no run needs the launcher; 0: some do
  uint64_t starts;
  struct rondo_cuda_reported reported[RONDO_MAX_BLOCKS];
  CUstream last_stream;      // of the last launch
  uint64_t failing_since_ns; // since when launches are refused; 0: they are not
  uint64_t alive_ns;         // when it was last launched, or seen to be away or to leave
  uint32_t is_dead;          // never launched again
  uint32_t is_claimed;       // a thread calls the CUDA driver for it without the launcher's lock
  uint64_t launch_number;    // of the launcher's last launch
  // Constant.
  struct rondo_cuda_device *device;
  struct rondo_cuda_launch launch; // the argument of a launch, but for what differs between them
  void *pinned;                    // exit word, rings and status lines
  void *memory;                    // device memory: core, queue halves, table, homes
  struct rondo_cuda_block_status *status;
  uint64_t times; // device memory: block_count × struct rondo_times; 0: none
  CUstream streams[RONDO_CUDA_STREAMS];
  struct rondo_cuda_launch_stream launch_streams[RONDO_CUDA_TIES];
  uint64_t restart_min_ns, restart_max_ns;
  uint32_t block_count, threads;
  uint32_t is_lost; // a launch did not leave, or a read did not end: no memory of it may be freed
};

static inline struct rondo_cuda_daemon *rondo_cuda_daemon_of(struct rondo_daemon *base) {
  return (struct rondo_cuda_daemon *)base;
}

static inline struct rondo_cuda_device *rondo_cuda_device_of(struct rondo_device *base) {
  return (struct rondo_cuda_device *)base;
}

// ------------------------------------------------------------------ cuda_device.c ---

// A thread's stay in the device's context: until rondo_cuda_leave its CUDA calls are for that
// device, and they do not disturb a capture by the application. rondo_cuda_leave restores the
// thread's former context; it has no effect if rondo_cuda_enter failed.
struct rondo_cuda_scope {
  const struct rondo_cuda_device *device; // null: not entered
  CUstreamCaptureMode mode;
};
CUresult rondo_cuda_enter(const struct rondo_cuda_device *device, struct rondo_cuda_scope *scope);
// Enters to free something. Tries twice, because memory that is not freed now is lost.
void rondo_cuda_enter_to_free(const struct rondo_cuda_device *device,
                              struct rondo_cuda_scope *scope);
void rondo_cuda_leave(struct rondo_cuda_scope *scope);
// Returns RONDO_SUCCESS, or RONDO_ERR_SYSTEM and the line "what: name of the result" in `why`.
int rondo_cuda_check(CUresult result, const char *what, char *why);

int rondo_cuda_open(const struct rondo_config *cfg, struct rondo_device **device, char *why);
void rondo_cuda_close(struct rondo_device *device);
int rondo_cuda_describe(const struct rondo_line_writer *to, char *why);
int rondo_cuda_node(const struct rondo_device *device);
uint64_t rondo_cuda_pci(const struct rondo_device *device);
// How many devices have a link of their own to this one.
uint32_t rondo_cuda_links(const struct rondo_device *device);
unsigned rondo_cuda_reach(struct rondo_device *from, struct rondo_device *to, char *why);
// True if the device can use buffers on device `ordinal` in place.
bool rondo_cuda_can_access(const struct rondo_cuda_device *d, int ordinal);
// Adds a daemon's blocks to the device's count. Each block may occupy a multiprocessor. Returns
// false, and adds nothing, if the device would have more than `budget` blocks (0: no limit).
bool rondo_cuda_try_add_blocks(struct rondo_cuda_device *d, uint32_t blocks, uint32_t budget);
void rondo_cuda_remove_blocks(struct rondo_cuda_device *d, uint32_t blocks);
// Opens an open device once more.
void rondo_cuda_retain(struct rondo_device *device);

// For benchmarks: devices opened from now on run the kernel of `image`, which is kernel.cu compiled
// with RONDO_TIMING=1; null: the library's own kernel. The product does not pay for the timing.
void rondo_cuda_use_timed_kernel(const void *image);

// ------------------------------------------------------------------ cuda_memory.c ---

// Makes what copies need. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY. Called in the device's
// context.
int rondo_cuda_memory_init(struct rondo_cuda_device *d);
// Frees all chunks. All pieces were freed before. Called in the device's context.
void rondo_cuda_memory_fini(struct rondo_cuda_device *d);

void *rondo_cuda_alloc(struct rondo_device *device, int kind, uint64_t bytes);
void rondo_cuda_free(struct rondo_device *device, int kind, void *memory);
// Waits until all work of the stream has ended, or until the deadline: CUDA_ERROR_NOT_READY.
CUresult rondo_cuda_await(const struct rondo_cuda_device *d, CUstream stream, uint64_t deadline_ns);
int rondo_cuda_write(struct rondo_device *device, uint64_t to, const void *from, uint64_t bytes);
int rondo_cuda_read(struct rondo_device *device, void *to, uint64_t from, uint64_t bytes);
int rondo_cuda_copy(struct rondo_device *device, void *dst, const void *src, uint64_t bytes);
int rondo_cuda_check_buffer(struct rondo_device *device, const void *memory, uint64_t bytes,
                            bool *is_private, char *why);

// ------------------------------------------------------------------ cuda_stream.c ---

int rondo_cuda_enqueue(struct rondo_daemon *base, void *stream, struct rondo_stream_words *words,
                       uint64_t ticket, unsigned parts, char *why);
int rondo_cuda_get_capturing(struct rondo_daemon *base, void *stream, int *capturing, char *why);
int rondo_cuda_capture(struct rondo_daemon *base, void *stream, const struct rondo_capture *c,
                       unsigned parts, char *why);

// ------------------------------------------------------------------- cuda_share.c ---

extern const struct rondo_sharing rondo_cuda_sharing;
// Returns what keeps other processes from using the device's memory; null: nothing.
const char *rondo_cuda_sharing_obstacle(const struct rondo_cuda_device *d);
// An attribute of the device; 0: not known.
int rondo_cuda_attribute(const struct rondo_cuda_device *d, CUdevice_attribute which);
// Zeroes device memory. Called in the device's context.
int rondo_cuda_zero(struct rondo_cuda_device *d, uint64_t memory, uint64_t bytes);

// ------------------------------------------------------------------- cuda_setup.c ---

extern const struct rondo_setup rondo_cuda_setup;

// ------------------------------------------------------------------ cuda_daemon.c ---

int rondo_cuda_create(struct rondo_device *device, const struct rondo_daemon_request *request,
                      struct rondo_daemon **daemon);
void rondo_cuda_destroy(struct rondo_daemon *base);
// Reads the times of one block, complete if the block is not resident. Returns
// RONDO_ERR_UNSUPPORTED if none are kept.
int rondo_cuda_read_times(struct rondo_daemon *base, uint32_t block, struct rondo_times *out);

// ------------------------------------------------------------------- cuda_watch.c ---

// The list of daemons of a thread: a device's launcher, or the reaper.
struct rondo_cuda_watch {
  pthread_mutex_t lock;     // guards all fields below
  void *(*main)(void *arg); // called with the watch
  const char *name;         // of the thread
  pthread_t thread;         // started with the first daemon
  struct rondo_cuda_daemon **daemons;
  uint32_t count, capacity;
  bool is_started;
};

// Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY or RONDO_ERR_SYSTEM.
int rondo_cuda_watch_add(struct rondo_cuda_watch *w, struct rondo_cuda_daemon *d);
// Called with the lock.
void rondo_cuda_watch_remove(struct rondo_cuda_watch *w, const struct rondo_cuda_daemon *d);

// ---------------------------------------------------------------- cuda_launcher.c ---

int rondo_cuda_launcher_add(struct rondo_cuda_daemon *d);
// After it no launch of the daemon runs or is coming, unless the daemon is lost.
void rondo_cuda_launcher_remove(struct rondo_cuda_daemon *d);
void rondo_cuda_launcher_notify(struct rondo_cuda_daemon *d);
// Enqueues a launch with this argument. Called in the device's context.
CUresult rondo_cuda_launch(const struct rondo_cuda_daemon *d, CUstream stream,
                           struct rondo_cuda_launch launch);
// True if the launches of all daemons fit on the device together, so that one that stays does not
// keep another from beginning.
bool rondo_cuda_can_stay(const struct rondo_cuda_device *d);
// For tests: how long the launcher waits before it launches blocks again that have left.
uint64_t rondo_cuda_launcher_pause_ns(const struct rondo_cuda_daemon *d);
// True while rondo_cuda_launcher_hold forbids launches on the device.
bool rondo_cuda_launcher_is_held(const struct rondo_cuda_device *d);
// rondo_setup.hold and is_quiet.
void rondo_cuda_launcher_hold(struct rondo_device *device, bool on);
bool rondo_cuda_launcher_is_quiet(struct rondo_device *device);

// --------------------------------------------------------------- cuda_inspect.c ---

// rondo_driver.try_inspect. Makes no call of the CUDA driver itself, and waits at most 0.2 s.
bool rondo_cuda_try_inspect(struct rondo_daemon *base, uint32_t block, uint32_t index,
                            struct rondo_block_view *view);
// After it the inspector does not read the daemon's memory any more, unless the daemon is lost.
// Waits at most 2 s; a daemon whose memory is still being read then is lost.
void rondo_cuda_inspector_remove(struct rondo_cuda_daemon *d);

// ------------------------------------------------------------------ cuda_reaper.c ---

int rondo_cuda_reaper_add(struct rondo_cuda_daemon *d);
void rondo_cuda_reaper_remove(struct rondo_cuda_daemon *d);
void rondo_cuda_reaper_notify(void);
// How long the reaper sleeps after its `looks`-th fruitless poll; 0: not at all. `rest_ns`: since a
// stream was last seen to wait for a run. `has_graphs`: runs were captured, and may be replayed.
uint64_t rondo_cuda_reaper_sleep_ns(uint32_t looks, uint64_t rest_ns, bool has_graphs);
// For tests: how often the reaper has slept between two looks.
uint64_t rondo_cuda_reaper_sleeps(void);

void rondo_cuda_notify_completion(struct rondo_daemon *base);
int rondo_cuda_wait(struct rondo_daemon *base, int (*is_done)(void *arg), void *arg,
                    int64_t timeout_ns);
int rondo_cuda_synchronize(struct rondo_daemon *base, uint64_t deadline_ns);

#endif // RONDO_DAEMON_CUDA_BACKEND_H
