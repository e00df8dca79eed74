// The CUDA backend on the CPU side: devices, their memory, the daemons on them, and the two threads
// of the process that look after all of them.
//
//   open -> create -> attach -> (launcher, poller) ... -> detach -> destroy -> close
//
// One thread of the process launches, for all ranks; one takes completions. Nothing that a daemon needs to
// progress or to quit goes through the CUDA driver; launching one again does.
#ifndef RONDO_DAEMON_CUDA_BACKEND_H
#define RONDO_DAEMON_CUDA_BACKEND_H

#include <pthread.h>
#include <stdint.h>

#include "daemon/cuda/api.h"
#include "daemon/cuda/driver.h"
#include "daemon/cuda/launch_core.h"
#include "daemon/driver/driver.h"

#define RONDO_CUDA_KERNEL "rondo_cuda_daemon"
#define RONDO_CUDA_KERNEL_TIMED "rondo_cuda_daemon_timed"

#define RONDO_CUDA_MAX_DEVICES 64u
#define RONDO_CUDA_STREAMS 2u // of a daemon, used in turn
#define RONDO_CUDA_STAGING_BYTES 65536u
#define RONDO_CUDA_SIZE_CLASSES 21u // pieces of 2^7 to 2^20 bytes share chunks

// The kernels, for every architecture, as cuModuleLoadData takes them. Null where the library was built
// without nvcc.
extern const unsigned char rondo_cuda_image[] __attribute__((weak));
// The same. A call, because a weak symbol alone brings nothing of a static library into a program.
const void *rondo_cuda_kernels(void);

struct rondo_cuda_piece;
struct rondo_cuda_chunk;

struct rondo_cuda_memory {
  pthread_mutex_t lock;
  struct rondo_cuda_chunk *chunks;
  struct rondo_cuda_piece *idle[2][RONDO_CUDA_SIZE_CLASSES]; // by kind and size
  void *in_use;                                              // tree (search.h) of pieces
};

struct rondo_cuda_device {
  struct rondo_device base;
  const struct rondo_cuda_api *api;
  uint32_t opened; // times; guarded by the lock of all devices
  int ordinal;
  CUdevice handle;
  CUcontext ctx;
  CUmodule module;
  CUfunction kernel;
  int keeps_times;       // the kernel is that of rondo_cuda_time
  uint32_t fast_bytes;   // most fast memory that a block can have
  int priority;          // the greatest that a stream can have
  int node;              // NUMA node that the device is at; -1: not known
  uint64_t residency_ns; // daemons stay no longer than this; 0: as configured
  int shares_queue;      // all streams have one hardware queue
  int pageable;          // it can use all memory of this process
  uint32_t blocks;       // of all daemons; guarded by the lock of all devices
  uint32_t holds;        // > 0: no daemon is launched; guarded by the launcher's lock
  uint64_t friends;      // by ordinal: devices whose memory it can use
  struct rondo_cuda_memory memory;
  pthread_mutex_t copy_lock; // guards the two below
  CUstream copies;
  void *staging;
};

// What has been told of one block (rondo_daemon.noted).
struct rondo_cuda_told {
  uint64_t launches, leaves; // of its residencies, the last
  uint64_t progress;         // when it last left
  uint32_t is_fruitless;     // it did not progress in its last residency
};

struct rondo_cuda_daemon {
  struct rondo_daemon base;
  // Counted by submissions (K1), and what threads that wait sleep on.
  _Alignas(RONDO_LINE_BYTES) uint64_t kicks;
  uint64_t helped; // rounds of threads that waited
  uint32_t done_word, done_waiters;
  uint8_t waiting_line[RONDO_LINE_BYTES - 24];
  // The launcher's own.
  uint64_t kicks_seen;
  uint64_t leaves_seen, progress_seen;
  uint64_t next_start_ns, pause_ns;
  uint64_t sweep_ns; // then blocks without known work are started too
  uint64_t starts;
  struct rondo_cuda_told told[RONDO_MAX_BLOCKS];
  CUstream last_stream;      // of the last launch
  uint64_t failing_since_ns; // launches are refused since then; 0: they are not
  uint64_t launched_ns;
  uint32_t is_dead; // it is not launched any more
  uint32_t is_launching;
  struct rondo_cuda_launch launch; // the next launch's argument
  // Constant.
  struct rondo_cuda_device *device;
  void *pinned; // exit word, rings and status lines
  void *memory; // of the device: core, queues' other halves, table, homes
  struct rondo_cuda_block_status *status;
  uint64_t times; // device memory: block_count × struct rondo_times; 0: none are kept
  CUstream streams[RONDO_CUDA_STREAMS];
  uint64_t restart_min_ns, restart_max_ns;
  uint32_t block_count, threads;
  uint32_t is_lost; // a launch did not leave: nothing of the daemon may be freed
};

static inline struct rondo_cuda_daemon *rondo_cuda_daemon_of(struct rondo_daemon *base) {
  return (struct rondo_cuda_daemon *)base;
}

static inline struct rondo_cuda_device *rondo_cuda_device_of(struct rondo_device *base) {
  return (struct rondo_cuda_device *)base;
}

// ------------------------------------------------------------------ device.c ---

// A thread's stay in the device's context: calls are for that device, and a capture by the
// application is not disturbed. Whatever was current before is again after leaving.
struct rondo_cuda_stay {
  const struct rondo_cuda_device *device;
  CUstreamCaptureMode mode;
};
CUresult rondo_cuda_enter(const struct rondo_cuda_device *device, struct rondo_cuda_stay *stay);
// For giving back: what is not given back now is lost, so it is tried again. Returns 1 if inside.
int rondo_cuda_enter_again(const struct rondo_cuda_device *device, struct rondo_cuda_stay *stay);
void rondo_cuda_leave(struct rondo_cuda_stay *stay);

int rondo_cuda_open(const struct rondo_config *cfg, struct rondo_device **device, char *why);
void rondo_cuda_close(struct rondo_device *device);
int rondo_cuda_describe(const struct rondo_line_writer *to, char *why);
int rondo_cuda_node(const struct rondo_device *device);
unsigned rondo_cuda_reach(struct rondo_device *from, struct rondo_device *to, char *why);
// 1 if the device can use buffers on device `ordinal` in place.
int rondo_cuda_can_borrow(const struct rondo_cuda_device *d, int ordinal);
// Counts a daemon's blocks as on the device, each of which may take a multiprocessor. Returns 1, or 0 if they
// are not within `budget` (0: none) then.
int rondo_cuda_take_blocks(struct rondo_cuda_device *d, uint32_t blocks, uint32_t budget);
void rondo_cuda_give_blocks(struct rondo_cuda_device *d, uint32_t blocks);
// Once more open, without asking.
void rondo_cuda_keep(struct rondo_cuda_device *device);

// For benchmarks: what it costs to know where the time of a block goes, the product does not pay. Devices that are
// opened from now on run the kernel of `image`, which is kernel.cu compiled with RONDO_TIMING=1;
// null: the library's own again.
void rondo_cuda_time(const void *image);

// ------------------------------------------------------------------ memory.c ---

// All pieces have been given back. The caller is in the device's context.
void rondo_cuda_memory_fini(struct rondo_cuda_device *d);

void *rondo_cuda_alloc(struct rondo_device *device, int kind, uint64_t bytes);
void rondo_cuda_free(struct rondo_device *device, int kind, void *memory);
int rondo_cuda_write(struct rondo_device *device, uint64_t to, const void *from, uint64_t bytes);
int rondo_cuda_read(struct rondo_device *device, void *to, uint64_t from, uint64_t bytes);
int rondo_cuda_copy(struct rondo_device *device, void *dst, const void *src, uint64_t bytes);
int rondo_cuda_check(struct rondo_device *device, const void *memory, uint64_t bytes, char *why);

// ------------------------------------------------------------------ stream.c ---

int rondo_cuda_enqueue(struct rondo_daemon *base, void *stream, struct rondo_stream_words *words,
                       uint64_t ticket, unsigned parts, char *why);
int rondo_cuda_is_capturing(struct rondo_daemon *base, void *stream, int *capturing, char *why);
int rondo_cuda_capture(struct rondo_daemon *base, void *stream, const struct rondo_capture *c,
                       unsigned parts, char *why);

// ------------------------------------------------------------------- share.c ---

extern const struct rondo_sharing rondo_cuda_sharing;
// What keeps other processes from using the device's memory; null: nothing.
const char *rondo_cuda_unshared(const struct rondo_cuda_device *d);
// One of a device's numbers; 0 where it is not known.
int rondo_cuda_attribute(const struct rondo_cuda_device *d, CUdevice_attribute which);
// Zeroes memory of the device. In its context.
int rondo_cuda_clear(struct rondo_cuda_device *d, uint64_t memory, uint64_t bytes);

// ------------------------------------------------------------------- setup.c ---

extern const struct rondo_setup rondo_cuda_setup;

// ------------------------------------------------------------------ daemon.c ---

int rondo_cuda_create(struct rondo_device *device, const struct rondo_daemon_request *request,
                      struct rondo_daemon **daemon);
void rondo_cuda_destroy(struct rondo_daemon *base);
// The times of one block, complete if the daemon is not resident. RONDO_ERR_UNSUPPORTED: none are kept.
int rondo_cuda_times(struct rondo_daemon *base, uint32_t block, struct rondo_times *out);

// ------------------------------------------------------------------- watch.c ---

// The launcher and the poller are one each.
struct rondo_cuda_watch {
  pthread_mutex_t lock; // guards all below
  void *(*main)(void *arg);
  const char *name; // of the thread
  pthread_t thread; // runs from the first daemon on
  struct rondo_cuda_daemon **daemons;
  uint32_t count, capacity;
  int is_started;
};

// Returns RONDO_SUCCESS, RONDO_ERR_NO_MEMORY or RONDO_ERR_SYSTEM.
int rondo_cuda_watch_add(struct rondo_cuda_watch *w, struct rondo_cuda_daemon *d);
// The lock is held.
void rondo_cuda_watch_take_out(struct rondo_cuda_watch *w, const struct rondo_cuda_daemon *d);

// ---------------------------------------------------------------- launcher.c ---

int rondo_cuda_launcher_add(struct rondo_cuda_daemon *d);
// When it returns no launch of the daemon runs or is coming, unless it is lost.
void rondo_cuda_launcher_remove(struct rondo_cuda_daemon *d);
void rondo_cuda_launcher_kick(struct rondo_cuda_daemon *d);
// See struct rondo_setup.
void rondo_cuda_launcher_hold(struct rondo_cuda_device *device, int on);
int rondo_cuda_launcher_is_quiet(const struct rondo_cuda_device *device);
// 1 if every block is resident.
int rondo_cuda_is_resident(const struct rondo_cuda_daemon *d);

// ------------------------------------------------------------------ poller.c ---

int rondo_cuda_poller_add(struct rondo_cuda_daemon *d);
void rondo_cuda_poller_remove(struct rondo_cuda_daemon *d);
void rondo_cuda_poller_kick(void);

void rondo_cuda_done(struct rondo_daemon *base);
int rondo_cuda_help(struct rondo_daemon *base, int (*is_done)(void *arg), void *arg,
                    int64_t timeout_ns);
int rondo_cuda_synchronize(struct rondo_daemon *base, uint64_t deadline_ns);

#endif // RONDO_DAEMON_CUDA_BACKEND_H
