// The work of an operation: one or several calls of Rondo, and the steps that follow when all have
// ended.
//
//   make_intrusive<work> -> call ... call -> seal -> wait, isCompleted, getFuture
//
// Order of the headers; each includes only those before it: gil, status, element, stream, work
// (with device.cpp), watchdog, tensors, job, backend (with collectives.cpp and point_to_point.cpp).
//
// The thread that first sees the end of a call counts it: a thread that waits and works for Rondo's
// daemon meanwhile, one that makes a later work and polls older ones, the watchdog, or a callback.
// Callbacks need a second thread, so they are requested only for a future. Where no core is free
// for that thread, getFuture itself works for the daemon first. The thread that counts the last
// call completes the work: it copies results and completes the future. No step needs the GIL.
//
// Tensors on a device follow the order of streams instead (device.cpp). seal makes the calls in the
// streams of their communicators, after the work of the program's stream; the copies of results
// follow them. The future is complete at once and holds events, and wait lets the program's stream
// wait.
#ifndef RONDO_ADAPTERS_TORCH_WORK_HPP
#define RONDO_ADAPTERS_TORCH_WORK_HPP

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Event.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <rondo/comm.h>
#include <rondo/rondo.h>

#include "stream.hpp"

namespace rondo_torch {

using clock = std::chrono::steady_clock;
using milliseconds = std::chrono::milliseconds;

struct communicator {
  struct rondo_context context;
  struct rondo_comm comm;
  uint32_t size;                             // ranks
  std::string label;                         // for messages: "process group 'default_pg', rank 1"
  std::shared_ptr<const comm_stream> stream; // null: for tensors on the CPU
  // How often in a row getFuture has worked for the daemon without seeing the end.
  std::shared_ptr<std::atomic<uint32_t>> futile_helps = std::make_shared<std::atomic<uint32_t>>(0);

  // Waits for one call, or for all if `call` is null. Returns as rondo_comm_wait.
  int wait(const struct rondo_ticket *call, clock::time_point until) const;
  void abort() const;
  // Why it has failed; empty if it has not.
  std::string reason() const;
};
using communicator_ptr = std::shared_ptr<const communicator>;

struct work_plan {
  c10d::OpType type;
  const char *title; // for profilers: "rondo:all_reduce"
  int rank;
  uint64_t sequence;
  milliseconds timeout;
  std::vector<at::Tensor> inputs = {};
  std::vector<std::vector<at::Tensor>> outputs = {};
  c10::Device device = c10::kCPU; // of all its tensors
  int local_size = 0;             // job::local_size
};

class work final : public c10d::Work {
public:
  explicit work(work_plan plan);

  c10::Device device() const { return plan_.device; }
  const char *title() const { return plan_.title; }

  // Before seal, by the thread that makes the work.

  // Makes one call, and keeps its tensors alive until the end; an undefined tensor is not used.
  // Throws if the call is refused; earlier calls go on. With tensors on a device seal makes all
  // calls, and throws.
  void call(const communicator_ptr &comm, const struct rondo_collective_desc &what,
            const at::Tensor &send, const at::Tensor &recv);
  // Adds a step to take when all calls have succeeded, after the earlier steps.
  void then(std::function<void()> step);
  void add_outputs(const std::vector<std::vector<at::Tensor>> &outputs);
  // All calls are made.
  void seal();
  // Instead of call and seal: receives from the rank that sends first. `what` is the receive,
  // without the sender.
  void recv_any(const communicator_ptr &comm, const struct rondo_collective_desc &what,
                const at::Tensor &recv);

  // The interface of c10d.
  bool isCompleted() override;
  bool isSuccess() const override;
  std::vector<at::Tensor> result() override;
  bool wait(milliseconds timeout = kNoTimeout) override;
  void abort() override;
  void synchronize() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return plan_.sequence; }
  int sourceRank() const override { return source_; }

  // What the watchdog calls. The watchdog never holds a lock of its own meanwhile.

  // Polls the work, and unlike isCompleted never yields the core. True: it has ended.
  bool poll();
  // The timeout has expired: ends what is outstanding.
  void time_out();
  // Starts a receive from any source if a rank has sent. True: it has started, or did before.
  bool try_recv_any();
  clock::time_point deadline() const { return deadline_; }
  bool is_on_device() const { return !plan_.device.is_cpu(); }
  size_t watchdog_index = 0; // the watchdog's

private:
  struct issued_call {
    c10::intrusive_ptr<work> owner; // while a callback is requested
    communicator_ptr comm;
    struct rondo_ticket ticket;
    std::atomic<bool> has_ended{false};
  };
  // A call to make.
  struct planned_call {
    communicator_ptr comm;
    struct rondo_collective_desc what;
    const void *send;
    void *recv;
  };
  // A call in the order of streams, until it is made.
  struct deferred_call : planned_call {
    std::vector<uint64_t> send_counts, recv_counts; // of an all-to-all-v; `what` points to them
    c10::Event ready;                               // after the work of the program's stream
  };
  struct device_state {
    std::deque<deferred_call> calls;
    std::shared_ptr<const comm_stream> last_stream; // ends after all other streams
    std::optional<c10::Event> end;                  // of the whole work, in last_stream
    bool is_captured = false;                       // into a graph: the end is not known
    std::atomic<bool> awaits_copies{false};         // copies of results follow the calls
  };

  int submit(const planned_call &c);
  int find_sender(int *from) const;
  void set_failure(int status, const std::string &why);
  void request_callbacks();
  bool wait_started(clock::time_point until);
  static void on_call_end(void *arg, int status);
  void set_ended(issued_call &one, int status);
  void drop_outstanding();
  void complete();
  std::exception_ptr run_steps();
  std::exception_ptr make_error();
  bool wait_call(issued_call &one, clock::time_point until);
  std::string describe_wait() const;
  bool poll_until(const std::function<bool()> &has_ended, clock::time_point until);
  bool is_oversubscribed() const;
  bool help_call(issued_call &one, std::chrono::nanoseconds patience, clock::time_point until);
  void help_calls();
  bool poll_call(issued_call &one);
  void poll_calls();
  // In device.cpp.
  void defer_call(const planned_call &c);
  std::exception_ptr enqueue();
  int enqueue_calls();
  void enqueue_end();
  void set_device_future(const std::exception_ptr &error);
  void poll_device_end();

  work_plan plan_;
  clock::time_point deadline_;
  std::deque<issued_call> calls_;
  std::atomic<int> outstanding_{1};     // calls, and one until all are made
  std::atomic<bool> is_started_{false}; // all calls are made
  std::mutex any_source_lock_;
  planned_call any_source_{}; // a receive, if it has a communicator
  std::atomic<int> source_{-1};
  std::atomic<bool> is_timed_out_{false};
  std::atomic<uint32_t> futile_polls_{0};        // of isCompleted
  std::atomic<bool> is_waited_in_stream_{false}; // the stream goes on if the work fails
  std::vector<at::Tensor> kept_;
  std::vector<std::function<void()>> steps_;
  std::unique_ptr<device_state> device_; // null: on the CPU
  std::mutex lock_;                      // protects what follows
  int status_ = RONDO_SUCCESS;
  std::string why_;
  bool is_complete_ = false;
  bool has_callbacks_ = false;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// Whether this thread calls Rondo's callbacks, and so must not wait in Rondo.
bool is_in_callback();

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_WORK_HPP
