// The line protocol by which a script asks several programs for measurements in turn, so that
// compared figures were measured within the same second: one request a line on standard input, one
// JSON object a line on standard output.
//
//   request:  <collective> <bytes> <in place: 0|1> <budget in ms> [<in flight> [<orders> [<wait>]]]
//             e.g. "all_reduce 1024 0 60", or "all_reduce 1024 0 60 64 own 2"
//   answer:   {"op":"all_reduce","bytes":1024,"in_flight":1,"iters":500,"median_ns":...,"wrong":0}
//   or:       {"error":"..."}
//
// <in flight> is the number of different collectives in each iteration, 1 if absent; the times are
// for all of them. <orders> is the order in which ranks submit them (enum rondo_kit_orders). <wait>
// is how a rank learns of the end, a value of rondo-perf's --blocking; if absent, the program
// chooses.
//
// The program answers {"ready":"<what it is>"} first, and ends at the end of its input.
#ifndef RONDO_TOOLS_KIT_SERVE_H
#define RONDO_TOOLS_KIT_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/kit/measure.h"
#include "tools/kit/options.h"
#include "tools/kit/shape.h"

#define RONDO_KIT_SERVE_CAPACITY 4096u      // most iterations of one request
#define RONDO_KIT_SERVE_IN_FLIGHT 1000u     // most collectives in an iteration
#define RONDO_KIT_SERVE_ANY_WAIT UINT32_MAX // the request does not say how to wait

struct rondo_kit_request {
  int kind; // enum rondo_kind
  uint64_t bytes;
  bool in_place;
  uint64_t budget_ns;
  uint32_t in_flight;
  int orders;    // enum rondo_kit_orders
  uint32_t wait; // 0 to 3, or RONDO_KIT_SERVE_ANY_WAIT
};

// Reads the next request. Answers a line that is no request with an error and reads on. Returns
// false at the end of the input.
bool rondo_kit_serve_next(struct rondo_kit_request *request);

// Whether the request is for one collective and does not say how to wait.
bool rondo_kit_serve_is_plain(const struct rondo_kit_request *request);

// The schedule of every request.
struct rondo_kit_schedule rondo_kit_serve_schedule(const struct rondo_kit_request *request);

void rondo_kit_serve_ready(const char *what);
void rondo_kit_serve_error(const char *what);
void rondo_kit_serve_answer(const struct rondo_kit_request *request, uint64_t actual_bytes,
                            const struct rondo_kit_stats *stats, uint64_t wrong);

// ----------------------------------------------------------------- a whole program ---
//
// A program that answers requests with ranks of its own, which are threads or processes:
//
//   (one rank: init) -> each rank: serve

// What the ranks share, zeroed at first. The measurement follows.
struct rondo_kit_served {
  struct rondo_kit_barrier barrier;
  uint32_t rank_count;
  bool has_request;
  struct rondo_kit_request request;
  _Atomic uint64_t wrong; // elements
};

struct rondo_kit_server {
  struct rondo_kit_served *shared;
  uint32_t rank;
  // What the program cannot do for the request; null: it can. Asked on rank 0.
  const char *(*lacks)(const struct rondo_kit_request *request);
  // Makes the buffers of the request, and says how to measure it.
  struct rondo_kit_driver (*prepare)(void *arg, uint32_t rank,
                                     const struct rondo_kit_request *request);
  uint64_t (*wrong)(void *arg, uint32_t rank); // elements of the result; null: not checked
  const char *failure;                         // the answer if a call of the driver fails
  void *arg;
};

// Bytes of `struct rondo_kit_served` and its measurement. A multiple of 128.
size_t rondo_kit_served_bytes(uint32_t rank_count);
// `cores`: those that all ranks may use together.
void rondo_kit_served_init(struct rondo_kit_served *shared, uint32_t rank_count, uint32_t cores);

// Answers requests until the input ends.
void rondo_kit_serve(const struct rondo_kit_server *server);

// The buffers of one rank. They only grow.
struct rondo_kit_buffers {
  char *master; // the inputs, from which `send` is rewritten
  char *send;
  char *recv;
  size_t bytes; // of each
};

// Makes room for `bytes`, all zero, in each buffer. Ends the program if there is no memory.
void rondo_kit_buffers_grow(struct rondo_kit_buffers *buffers, size_t bytes);
void rondo_kit_buffers_free(struct rondo_kit_buffers *buffers);

// The shape of a request for sums of float32.
struct rondo_kit_shape rondo_kit_serve_shape(const struct rondo_kit_request *request,
                                             uint32_t rank_count);

#endif // RONDO_TOOLS_KIT_SERVE_H
