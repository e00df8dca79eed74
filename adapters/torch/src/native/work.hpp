// What an operation gives back: one or several calls of Rondo, and what is to be done when all have
// ended.
//
//   make_intrusive<work> -> call ... call -> seal -> wait, isCompleted, getFuture
//
// Whoever sees first that a call has ended counts it: a thread that waits, which works for Rondo's daemon
// meanwhile; one that makes another work, and looks at older ones; or a callback, which is asked for only when
// somebody wants the future, because it costs a second thread. Where there is no core for that thread, who asks
// for the future works for the daemon first, as long as there is something to do. Who counts the last one concludes: copies
// results to where they belong, completes the future. So nothing needs Python's lock, and it may be any thread.
//
// With tensors on a device everything is in the order of streams instead (device.cpp): calls go to the lanes of
// their channels when the work is sealed, behind what the program's stream holds then, and so do copies of results;
// the future is complete at once, with events in it; and to wait is to have the program's stream wait.
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

#include "lane.hpp"

namespace rondo_torch {

using clock = std::chrono::steady_clock;
using milliseconds = std::chrono::milliseconds;

// A communicator, and how messages name it.
struct channel {
  struct rondo_context context;
  struct rondo_comm comm;
  uint32_t size;                  // ranks in it
  std::string label;              // such as "group 'default_pg', rank 1"
  std::shared_ptr<const lane> on; // where it is one for tensors on a device
  // How often in a row a thread has worked for a future and then left it to others.
  std::shared_ptr<std::atomic<uint32_t>> in_vain = std::make_shared<std::atomic<uint32_t>>(0);
};

// What a work is made of.
struct work_plan {
  c10d::OpType type;
  const char *title; // as profilers know it: "rondo:all_reduce"
  int rank;
  uint64_t sequence;
  milliseconds timeout;
  std::vector<at::Tensor> inputs;
  std::vector<std::vector<at::Tensor>> outputs;
  c10::Device device; // of all its tensors
  int ranks_here = 0; // of the job, if all are on this machine; else 0
};

class work final : public c10d::Work {
public:
  explicit work(work_plan plan);

  c10::Device device() const { return plan_.device; }
  const char *title() const { return plan_.title; }

  // Before seal, by the thread that makes it.

  // Makes one call. Throws if it is refused; calls made before go on. Of tensors on a device seal makes the calls,
  // all at once, and throws.
  void call(const std::shared_ptr<const channel> &to, const struct rondo_collective_desc &what,
            const void *send, void *recv);
  // Keeps a tensor alive until the end.
  void keep(const at::Tensor &tensor);
  // To be done when all has ended well, in this order.
  void then(std::function<void()> step);
  void add_outputs(const std::vector<std::vector<at::Tensor>> &outputs);
  // All calls are made.
  void seal();
  // Instead of call and seal: receives from whichever rank of the communicator sends first. `what` is the
  // receive, but for the sender.
  void seek(const std::shared_ptr<const channel> &to, const struct rondo_collective_desc &what,
            void *recv, int size);

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

  // As isCompleted, but never yields the core: for callers that ask once.
  bool is_over();
  // The time is over: ends what is outstanding.
  void expire();
  clock::time_point deadline() const { return deadline_; }
  // Looks whether somebody has sent what this work seeks. False: nobody yet.
  bool found();

  size_t place = 0; // the watcher's

private:
  struct part {
    c10::intrusive_ptr<work> owner; // while a callback is to come
    std::shared_ptr<const channel> to;
    struct rondo_ticket ticket;
    std::atomic<bool> is_counted{false};
  };
  struct sought {
    std::shared_ptr<const channel> to;
    struct rondo_collective_desc what;
    void *recv;
    int size;
  };
  // A call in the order of streams, until it is made.
  struct pending {
    std::shared_ptr<const channel> to;
    struct rondo_collective_desc what;
    std::vector<uint64_t> send_counts, recv_counts; // of an all-to-all-v, which `what` points to
    const void *send;
    void *recv;
    c10::Event ready; // what the program's stream held at the time
  };
  struct on_device {
    std::deque<pending> calls;
    std::shared_ptr<const lane> last;    // that ends behind all others
    std::optional<c10::Event> end;       // of everything, in that
    bool is_captured = false;            // into a graph: there is nothing to see the end of
    std::atomic<bool> awaits_end{false}; // copies come behind the calls
  };

  int submit(const std::shared_ptr<const channel> &to, const struct rondo_collective_desc &what,
             const void *send, void *recv);
  int probe(int *from) const;
  void note_failure(int status, const std::string &why);
  void ask();
  bool await_start(clock::time_point until);
  static void on_end(void *arg, int status);
  void count(part &one, int status);
  void count_off();
  void conclude();
  std::exception_ptr run_steps();
  std::exception_ptr failure();
  bool await(part &one, clock::time_point until);
  std::string awaited() const;
  bool await_asleep(const part &one, clock::time_point until);
  bool await_completed(clock::time_point until);
  bool wants_core() const;
  bool bring_forward(part &one, std::chrono::nanoseconds patience, clock::time_point until);
  void bring_all_forward();
  bool look_at(part &one);
  void look();
  // In device.cpp.
  void put_off(const std::shared_ptr<const channel> &to, const struct rondo_collective_desc &what,
               const void *send, void *recv);
  std::exception_ptr enqueue();
  int enqueue_calls();
  void enqueue_rest();
  void complete_on_device(const std::exception_ptr &error);
  void look_at_end();

  work_plan plan_;
  clock::time_point deadline_;
  std::deque<part> parts_;
  std::atomic<int> outstanding_{1};     // calls, and one until it is sealed or found
  std::atomic<bool> is_started_{false}; // no more calls come
  std::mutex seek_lock_;
  sought sought_{};
  std::atomic<int> source_{-1};
  std::atomic<bool> is_expired_{false};
  std::atomic<uint32_t> looks_{0};     // of isCompleted, that found it not ended
  std::atomic<bool> is_waited_{false}; // by a stream, which goes on when it fails
  std::vector<at::Tensor> kept_;
  std::vector<std::function<void()>> steps_;
  std::unique_ptr<on_device> device_; // null: on the CPU
  std::mutex lock_;                   // over what follows
  int status_ = RONDO_SUCCESS;
  std::string why_;
  bool is_concluded_ = false;
  bool is_asked_ = false; // for callbacks
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// Throws what a status means, unless it is success; `doing` says during what.
void check(int status, const std::string &doing);

// Whether this thread is the one that calls Rondo's callbacks, which may not wait.
bool is_in_callback();

// Why a communicator has failed; empty if it has not.
std::string reason_of(const channel &of);

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_WORK_HPP
