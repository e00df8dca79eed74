#include "work.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <sched.h>

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "gil.hpp"
#include "status.hpp"
#include "watchdog.hpp"

namespace rondo_torch {

// A polling thread yields its core once in this many futile polls, because another rank may need
// the core: Rondo does not know which cores other programs use. Without the yield the other rank
// waited for the rest of the thread's time slice, 0.5 to 4 ms.
static constexpr uint32_t POLLS_PER_YIELD = 16;

static thread_local bool is_inside_callback;

bool is_in_callback() { return is_inside_callback; }

// ------------------------------------------------------------------ making ---

work::work(work_plan plan)
    : Work(plan.rank, plan.type, plan.title, std::optional<std::vector<at::Tensor>>(plan.inputs)),
      plan_(std::move(plan)), deadline_(clock::now() + plan_.timeout),
      device_(plan_.device.is_cpu() ? nullptr : std::make_unique<device_state>()) {}

void work::then(std::function<void()> step) { steps_.push_back(std::move(step)); }

void work::add_outputs(const std::vector<std::vector<at::Tensor>> &outputs) {
  plan_.outputs.insert(plan_.outputs.end(), outputs.begin(), outputs.end());
}

int work::submit(const planned_call &c) {
  issued_call &one = calls_.emplace_back();
  const communicator &comm = *c.comm;
  one.comm = c.comm;
  outstanding_++;
  struct rondo_run_args args = {c.send, c.recv, nullptr, nullptr};
  int status = comm.stream ? rondo_comm_call_on_stream(comm.context, comm.comm, &c.what, &args,
                                                       comm.stream->handle(), &one.ticket)
                           : rondo_comm_call(comm.context, comm.comm, &c.what, &args, &one.ticket);
  bool is_captured = status == RONDO_SUCCESS && comm.stream && one.ticket.run == 0;
  if (is_captured)
    device_->is_captured = true;
  if (status != RONDO_SUCCESS || is_captured) {
    outstanding_--;
    calls_.pop_back();
  }
  return status;
}

int communicator::wait(const struct rondo_ticket *call, clock::time_point until) const {
  auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - clock::now());
  return rondo_comm_wait(context, comm, call, std::max<int64_t>(left.count(), 0));
}

void communicator::abort() const { (void)rondo_comm_abort(context, comm); }

std::string communicator::reason() const {
  int state = RONDO_SUCCESS;
  char why[RONDO_REASON_BYTES] = "";
  (void)rondo_comm_status(context, comm, &state, why, sizeof why);
  return why;
}

void work::call(const communicator_ptr &comm, const struct rondo_collective_desc &what,
                const at::Tensor &send, const at::Tensor &recv) {
  void *to = recv.defined() ? recv.mutable_data_ptr() : nullptr;
  const void *from = send.defined() ? send.const_data_ptr() : nullptr;
  kept_.push_back(send);
  kept_.push_back(recv);
  if (device_) {
    defer_call({comm, what, from, to});
    return;
  }
  int status = submit({comm, what, from, to});
  if (status == RONDO_SUCCESS)
    return;
  std::string why = comm->reason();
  check(status, comm->label + ": " + plan_.title + (why.empty() ? "" : ": " + why));
}

void work::seal() {
  std::exception_ptr error = device_ ? enqueue() : nullptr;
  is_started_ = true;
  watchdog_add(c10::intrusive_ptr<work>::reclaim_copy(this), false);
  drop_outstanding();
  if (error)
    std::rethrow_exception(error);
}

// ------------------------------------------------- receives from any source ---

void work::recv_any(const communicator_ptr &comm, const struct rondo_collective_desc &what,
                    const at::Tensor &recv) {
  any_source_ = {comm, what, nullptr, recv.mutable_data_ptr()};
  kept_.push_back(recv);
  if (device_)
    defer_call(any_source_);
  bool has_started = try_recv_any();
  watchdog_add(c10::intrusive_ptr<work>::reclaim_copy(this), !has_started);
}

// Sets `from` to a rank that has sent. RONDO_IN_PROGRESS: no rank has.
int work::find_sender(int *from) const {
  const communicator &comm = *any_source_.comm;
  for (int rank = 0; rank < static_cast<int>(comm.size); rank++) {
    struct rondo_collective_desc sent;
    if (rank == rank_)
      continue;
    int status = rondo_comm_probe(comm.context, comm.comm, static_cast<uint32_t>(rank), &sent);
    *from = rank;
    if (status != RONDO_IN_PROGRESS)
      return status;
  }
  return RONDO_IN_PROGRESS;
}

bool work::try_recv_any() {
  std::lock_guard<std::mutex> hold(any_source_lock_);
  int from = -1;
  if (is_started_)
    return true;
  int status = find_sender(&from);
  if (status == RONDO_IN_PROGRESS)
    return false;
  any_source_.what.root = static_cast<uint32_t>(from);
  if (status == RONDO_SUCCESS && device_) {
    device_->calls.front().what = any_source_.what;
    (void)enqueue(); // it sets the failure
  } else if (status == RONDO_SUCCESS) {
    status = submit(any_source_);
  }
  source_ = from;
  if (status != RONDO_SUCCESS)
    set_failure(status, any_source_.comm->reason());
  is_started_ = true;
  drop_outstanding();
  return true;
}

bool work::wait_started(clock::time_point until) {
  constexpr std::chrono::microseconds PAUSE(20);
  while (!is_started_ && !try_recv_any()) {
    if (clock::now() >= until)
      return false;
    std::this_thread::sleep_for(PAUSE);
  }
  return true;
}

// ------------------------------------------------------------------ ending ---

void work::on_call_end(void *arg, int status) {
  auto *one = static_cast<issued_call *>(arg);
  c10::intrusive_ptr<work> owner = std::move(one->owner);
  is_inside_callback = true;
  owner->set_ended(*one, status);
}

// Keeps the first failure.
void work::set_failure(int status, const std::string &why) {
  std::lock_guard<std::mutex> hold(lock_);
  if (status_ != RONDO_SUCCESS)
    return;
  status_ = status;
  if (why_.empty())
    why_ = why;
}

void work::set_ended(issued_call &one, int status) {
  if (one.has_ended.exchange(true))
    return;
  if (status != RONDO_SUCCESS)
    set_failure(status, one.comm->reason());
  drop_outstanding();
}

// Requests a callback for each call that has not ended.
void work::request_callbacks() {
  {
    std::lock_guard<std::mutex> hold(lock_);
    if (has_callbacks_ || is_complete_ || !is_started_)
      return;
    has_callbacks_ = true;
  }
  for (issued_call &one : calls_) {
    if (one.has_ended)
      continue;
    one.owner = c10::intrusive_ptr<work>::reclaim_copy(this);
    int status =
        rondo_comm_notify(one.comm->context, one.comm->comm, &one.ticket, on_call_end, &one);
    if (status == RONDO_SUCCESS)
      continue;
    one.owner.reset();
    set_ended(one, status);
  }
}

void work::drop_outstanding() {
  bool wants_callback;
  if (--outstanding_ == 0) {
    complete();
    return;
  }
  {
    std::lock_guard<std::mutex> hold(lock_);
    wants_callback = future_ && !has_callbacks_ && !device_;
  }
  if (wants_callback)
    request_callbacks();
}

std::exception_ptr work::make_error() {
  std::string reason = why_.empty() ? "" : ": " + why_;
  std::string where = calls_.empty() ? "" : calls_.front().comm->label + ": ";
  if (any_source_.comm)
    where = any_source_.comm->label + ": ";
  return error_make("rondo: " + where + plan_.title + " #" + std::to_string(plan_.sequence) + ": " +
                    status_text(status_) + reason);
}

std::exception_ptr work::run_steps() {
  at::NoGradGuard no_grad;
  try {
    for (const auto &step : steps_)
      step();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

static c10::IValue future_value(const std::vector<std::vector<at::Tensor>> &outputs) {
  if (outputs.empty())
    return c10::IValue(std::vector<at::Tensor>());
  if (outputs.size() > 1)
    return c10::IValue(outputs);
  return c10::IValue(outputs[0]);
}

static void future_complete(c10::ivalue::Future &future, const std::exception_ptr &error,
                            const std::vector<std::vector<at::Tensor>> &outputs) {
  if (error)
    future.setError(error);
  else
    future.markCompleted(future_value(outputs));
}

static std::string error_text(const std::exception_ptr &error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error &e) {
    return e.what_without_backtrace();
  } catch (const std::exception &e) {
    return e.what();
  }
}

void work::complete() {
  auto here =
      c10::intrusive_ptr<work>::reclaim_copy(this); // the watchdog may drop the last reference
  std::exception_ptr error;
  {
    std::lock_guard<std::mutex> hold(lock_);
    if (status_ != RONDO_SUCCESS)
      error = make_error();
  }
  if (!error && !device_)
    error = run_steps();
  if (error && is_waited_in_stream_)
    LOG(ERROR) << error_text(error) << " (the stream that waits for it goes on, with wrong data)";
  steps_.clear();
  kept_.clear();
  finish(error);
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    std::lock_guard<std::mutex> hold(lock_);
    is_complete_ = true;
    future = future_;
  }
  if (future && !device_)
    future_complete(*future, error, plan_.outputs);
  watchdog_remove(*this);
}

// ----------------------------------------------------------------- waiting ---

// Polls a call, which takes steps for the daemon. True: it has ended.
bool work::poll_call(issued_call &one) {
  if (one.has_ended)
    return true;
  int status = rondo_comm_test(one.comm->context, one.comm->comm, &one.ticket);
  if (status == RONDO_IN_PROGRESS)
    return false;
  set_ended(one, status);
  return true;
}

void work::poll_calls() {
  if (!is_started_ && (!any_source_.comm || !try_recv_any()))
    return;
  for (issued_call &one : calls_)
    (void)poll_call(one);
  if (device_ && device_->awaits_copies)
    poll_device_end();
}

bool work::poll() {
  if (!Work::isCompleted() && outstanding_ > 0)
    poll_calls();
  return Work::isCompleted();
}

bool work::isCompleted() {
  if (poll())
    return true;
  if (++futile_polls_ % POLLS_PER_YIELD == 0)
    sched_yield();
  return false;
}

bool work::isSuccess() const {
  std::lock_guard<std::mutex> hold(mutex_);
  return completed_ && !exception_;
}

std::vector<at::Tensor> work::result() {
  TORCH_CHECK(poll(), "Work needs to be completed before calling result(). "
                      "Should call wait() before result().");
  TORCH_CHECK(plan_.outputs.size() <= 1,
              "work result does not support list of lists, use .getFuture() and value()");
  return plan_.outputs.empty() ? std::vector<at::Tensor>() : plan_.outputs[0];
}

// Polls the calls until `has_ended`, or `until`. Returns has_ended().
bool work::poll_until(const std::function<bool()> &has_ended, clock::time_point until) {
  constexpr std::chrono::microseconds PAUSE(50);
  for (poll_calls(); !has_ended() && clock::now() < until; poll_calls())
    std::this_thread::sleep_for(PAUSE);
  return has_ended();
}

// True: the call has ended.
bool work::wait_call(issued_call &one, clock::time_point until) {
  if (one.has_ended)
    return true;
  if (is_inside_callback) // it must not wait in Rondo, and no other callback can run meanwhile
    return poll_until([&one] { return one.has_ended.load(); }, until);
  int status = one.comm->wait(&one.ticket, until);
  if (status == RONDO_ERR_TIMEOUT)
    return false;
  set_ended(one, status);
  return true;
}

bool work::wait(milliseconds timeout) {
  bool is_own = timeout == kNoTimeout || timeout == c10d::kUnsetTimeout;
  clock::time_point until = is_own ? deadline_ : std::min(deadline_, clock::now() + timeout);
  TORCH_CHECK(is_started_ || any_source_.comm, plan_.title, ": wait() before endCoalescing()");
  bool ended = wait_started(until);
  // As in PyTorch's own backends: with a timeout, or for a barrier, the thread itself waits for the
  // end.
  bool waits_here = !device_ || !is_own || plan_.type == c10d::OpType::BARRIER;
  for (issued_call &one : calls_)
    ended = ended && (!waits_here || wait_call(one, until));
  if (ended && waits_here && device_) // copies of results end after the calls
    ended = poll_until([this] { return Work::isCompleted(); }, until);
  if (!ended && until == deadline_)
    time_out();
  TORCH_CHECK(ended || until == deadline_, "rondo: ", plan_.title, ": Operation timed out!",
              describe_wait());
  std::unique_lock<std::mutex> hold(mutex_);
  if (waits_here || !ended)
    cv_.wait(hold, [&] { return completed_; });
  if (exception_)
    std::rethrow_exception(exception_);
  hold.unlock();
  is_waited_in_stream_ = !waits_here;
  synchronize();
  return true;
}

void work::abort() {
  for (issued_call &one : calls_)
    if (!one.has_ended)
      one.comm->abort();
}

// ----------------------------------------------------------------- timeout ---

// Names ranks that are not known to have made a call.
static std::string missing_text(const communicator &comm, const struct rondo_ticket &call) {
  constexpr uint32_t SHOWN = 16;
  uint32_t ranks[SHOWN];
  uint32_t count = 0;
  std::string text;
  if (rondo_missing(comm.context, call.coll, call.run, ranks, SHOWN, &count) != RONDO_SUCCESS)
    return text;
  for (uint32_t i = 0; i < std::min(count, SHOWN); i++)
    text +=
        (text.empty() ? "; not known to have called it: rank " : ", ") + std::to_string(ranks[i]);
  return text + (count > SHOWN ? " …" : "");
}

// Names the rank whose data a call waits for; empty: the call has not begun.
static std::string peer_text(const communicator &comm, const struct rondo_ticket &call) {
  constexpr size_t SHOWN = 64;
  struct rondo_stuck stuck[SHOWN];
  struct rondo_collective_desc what;
  size_t count = 0;
  if (rondo_describe(comm.context, call.coll, &what, nullptr, 0, nullptr) != RONDO_SUCCESS ||
      rondo_stuck(comm.context, stuck, SHOWN, &count) != RONDO_SUCCESS)
    return "";
  for (size_t i = 0; i < std::min(count, SHOWN); i++)
    if (stuck[i].id == what.id && stuck[i].run == call.run && stuck[i].peer >= 0)
      return "; it waits for rank " + std::to_string(stuck[i].peer);
  return "";
}

// What the first call that has not ended waits for.
std::string work::describe_wait() const {
  for (const issued_call &one : calls_) {
    std::string text = one.has_ended ? "" : peer_text(*one.comm, one.ticket);
    if (text.empty() && !one.has_ended)
      text = missing_text(*one.comm, one.ticket);
    if (!text.empty())
      return text;
  }
  return "";
}

void work::time_out() {
  if (poll() || is_timed_out_.exchange(true))
    return;
  const auto &comm = any_source_.comm ? any_source_.comm : calls_.front().comm;
  std::string reason = describe_wait(); // before the abort
  (void)rondo_report(comm->context, stderr, nullptr);
  set_failure(RONDO_ERR_TIMEOUT,
              "Timed out after " + std::to_string(plan_.timeout.count()) + "ms" + reason);
  comm->abort();
  poll_calls();        // a receive from any source sees the failure
  request_callbacks(); // because no thread may poll any more
}

// ----------------------------------------------------------------- futures ---

static c10::TypePtr future_type(const std::vector<std::vector<at::Tensor>> &outputs) {
  c10::TypePtr type = c10::ListType::create(c10::TensorType::get());
  return outputs.size() > 1 ? c10::ListType::create(type) : type;
}

// The current stream is the one that holds the results.
void work::set_device_future(const std::exception_ptr &error) {
  auto future = c10::make_intrusive<c10::ivalue::Future>(future_type(plan_.outputs),
                                                         std::vector<c10::Device>{plan_.device});
  future_complete(*future, error, plan_.outputs);
  std::lock_guard<std::mutex> hold(lock_);
  future_ = future;
}

// Whether the threads of PyTorch on this machine leave no core for a thread of the daemon.
bool work::is_oversubscribed() const {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (plan_.local_size == 0 || sched_getaffinity(0, sizeof cores, &cores))
    return false;
  return CPU_COUNT(&cores) <= plan_.local_size * at::get_num_threads();
}

static uint64_t primitives_of(const communicator &comm) {
  struct rondo_counters counters;
  return rondo_counters(comm.context, &counters) == RONDO_SUCCESS ? counters.primitives : 0;
}

// Polls a call, and yields the core in between, until the call has ended, nothing has moved for
// `patience`, or `until`. True: the call has ended.
bool work::help_call(issued_call &one, std::chrono::nanoseconds patience, clock::time_point until) {
  uint64_t moved = primitives_of(*one.comm);
  clock::time_point give_up = std::min(until, clock::now() + patience);
  for (uint32_t polls = 1; !poll_call(one); polls++) {
    if (polls % POLLS_PER_YIELD != 0)
      continue;
    uint64_t moved_now = primitives_of(*one.comm);
    clock::time_point now = clock::now();
    if (moved_now != moved)
      give_up = std::min(until, now + patience);
    else if (now >= give_up)
      return false;
    moved = moved_now;
    sched_yield();
  }
  return true;
}

// Works for the daemon while that moves data. Gives up when a late rank holds the calls up, sooner
// if that happens often. Without this, DDP computed on while the daemon's thread interrupted it, on
// each rank at another time: DDP waits for futures, and a thread that waits for a future cannot
// work for the daemon.
void work::help_calls() {
  constexpr std::chrono::nanoseconds PATIENCE(500000);
  constexpr uint32_t MAX_HALVINGS = 4;
  constexpr milliseconds LIMIT(100);
  auto released = gil_release();
  clock::time_point until = std::min(deadline_, clock::now() + LIMIT);
  for (issued_call &one : calls_) {
    std::atomic<uint32_t> &futile_helps = *one.comm->futile_helps;
    auto patience = PATIENCE / (1 << std::min(futile_helps.load(), MAX_HALVINGS));
    bool ended = help_call(one, patience, until);
    futile_helps = ended ? 0 : futile_helps + 1;
    if (!ended)
      return;
  }
}

c10::intrusive_ptr<c10::ivalue::Future> work::getFuture() {
  bool is_late = false;
  bool is_outstanding = !device_ && !poll();
  if (is_outstanding && is_started_ && !is_inside_callback && is_oversubscribed())
    help_calls();
  c10::intrusive_ptr<c10::ivalue::Future> future;
  if (device_ && any_source_.comm)
    TORCH_CHECK(wait_started(deadline_), plan_.title, ": no rank has sent");
  {
    std::lock_guard<std::mutex> hold(lock_);
    if (!future_) {
      future_ = c10::make_intrusive<c10::ivalue::Future>(future_type(plan_.outputs));
      is_late = is_complete_;
    }
    future = future_;
  }
  if (is_late)
    future_complete(*future, exception(), plan_.outputs);
  else if (!device_)
    request_callbacks();
  return future;
}

} // namespace rondo_torch
