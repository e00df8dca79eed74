// What an operation gives back: one or several calls of Rondo, and what is to be done when all have
// ended.
//
//   make_intrusive<work> -> call ... call -> seal -> wait, isCompleted, getFuture
//
// Whoever sees first that a call has ended counts it: a thread that waits, which works for Rondo's daemon
// meanwhile, or the callback. Who counts the last one concludes: copies results to where they belong,
// completes the future. So nothing needs Python's lock, and it may be any thread.
#ifndef RONDO_ADAPTERS_TORCH_WORK_HPP
#define RONDO_ADAPTERS_TORCH_WORK_HPP

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <rondo/comm.h>
#include <rondo/rondo.h>

namespace rondo_torch {

using clock = std::chrono::steady_clock;
using milliseconds = std::chrono::milliseconds;

// A communicator, and how messages name it.
struct channel {
  struct rondo_context context;
  struct rondo_comm comm;
  std::string label; // such as "group 'default_pg', rank 1"
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
};

class work final : public c10d::Work {
public:
  explicit work(work_plan plan);

  // Before seal, by the thread that makes it.

  // Makes one call. Throws if it is refused; calls made before go on.
  void call(const std::shared_ptr<const channel> &to, const struct rondo_collective_desc &what,
            const void *send, void *recv);
  // Keeps a tensor alive until the end.
  void keep(const at::Tensor &tensor);
  // To be done when all has ended well, in this order.
  void then(std::function<void()> step);
  void add_outputs(const std::vector<std::vector<at::Tensor>> &outputs);
  // All calls are made.
  void seal();

  // The interface of c10d.
  bool isCompleted() override;
  bool isSuccess() const override;
  std::vector<at::Tensor> result() override;
  bool wait(milliseconds timeout = kNoTimeout) override;
  void abort() override;
  void synchronize() override {}
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return plan_.sequence; }

  // The time is over: ends what is outstanding.
  void expire();
  clock::time_point deadline() const { return deadline_; }

private:
  struct part {
    c10::intrusive_ptr<work> owner; // until the callback has come
    std::shared_ptr<const channel> to;
    struct rondo_ticket ticket;
    std::atomic<bool> is_counted{false};
  };

  static void on_end(void *arg, int status);
  void count(part &one, int status);
  void count_off();
  void conclude();
  std::exception_ptr run_steps();
  std::exception_ptr failure();
  bool await(part &one, clock::time_point until);
  bool await_asleep(const part &one, clock::time_point until);
  void look();

  work_plan plan_;
  clock::time_point deadline_;
  std::deque<part> parts_;
  std::atomic<int> outstanding_{1}; // calls, and one until it is sealed
  std::vector<at::Tensor> kept_;
  std::vector<std::function<void()>> steps_;
  std::mutex lock_; // over what follows
  int status_ = RONDO_SUCCESS;
  std::string why_;
  bool is_concluded_ = false;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// Throws what a status means, unless it is success; `doing` says during what.
void check(int status, const std::string &doing);

// Ends a context, from whatever thread.
void destroy_context(struct rondo_context context, int64_t drain_ns);

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_WORK_HPP
