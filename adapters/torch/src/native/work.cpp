#include "work.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <c10/util/Exception.h>

#include "watch.hpp"

namespace rondo_torch {

static thread_local bool is_inside_callback;

static std::exception_ptr error_of(const std::string &text) {
  c10::SourceLocation where = {__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  return std::make_exception_ptr(c10::DistBackendError(where, text));
}

static std::string status_text(int status) {
  return std::string(rondo_status_string(status)) + " (" + rondo_status_name(status) + ")";
}

void check(int status, const std::string &doing) {
  if (status != RONDO_SUCCESS)
    std::rethrow_exception(error_of("rondo: " + doing + ": " + status_text(status)));
}

// A callback may not end its own context.
void destroy_context(struct rondo_context context, int64_t drain_ns) {
  if (is_inside_callback)
    std::thread([=] { (void)rondo_destroy(context, RONDO_DESTROY_DRAIN, drain_ns); }).detach();
  else
    (void)rondo_destroy(context, RONDO_DESTROY_DRAIN, drain_ns);
}

// ------------------------------------------------------------------ making ---

static const std::vector<at::Tensor> &profiled(const work_plan &plan) { return plan.inputs; }

work::work(work_plan plan)
    : Work(plan.rank, plan.type, plan.title,
           std::optional<std::vector<at::Tensor>>(profiled(plan))),
      plan_(std::move(plan)), deadline_(clock::now() + plan_.timeout) {}

void work::keep(const at::Tensor &tensor) { kept_.push_back(tensor); }

void work::then(std::function<void()> step) { steps_.push_back(std::move(step)); }

void work::add_outputs(const std::vector<std::vector<at::Tensor>> &outputs) {
  plan_.outputs.insert(plan_.outputs.end(), outputs.begin(), outputs.end());
}

void work::call(const std::shared_ptr<const channel> &to, const struct rondo_collective_desc &what,
                const void *send, void *recv) {
  part &one = parts_.emplace_back();
  one.owner = c10::intrusive_ptr<work>::reclaim_copy(this);
  one.to = to;
  outstanding_++;
  struct rondo_run_args args = {send, recv, on_end, &one};
  int status = rondo_comm_call(to->context, to->comm, &what, &args, &one.ticket);
  if (status == RONDO_SUCCESS)
    return;
  int state = RONDO_SUCCESS;
  char why[RONDO_REASON_BYTES] = "";
  (void)rondo_comm_status(to->context, to->comm, &state, why, sizeof why);
  outstanding_--;
  parts_.pop_back(); // with the owner
  std::string reason = why[0] ? std::string(why) + ": " : "";
  check(status, to->label + ": " + plan_.title + ": " + reason + "refused");
}

void work::seal() {
  watch_add(c10::intrusive_ptr<work>::reclaim_copy(this));
  count_off();
}

// ------------------------------------------------------------------ ending ---

void work::on_end(void *arg, int status) {
  auto *one = static_cast<part *>(arg);
  c10::intrusive_ptr<work> owner = std::move(one->owner);
  is_inside_callback = true;
  owner->count(*one, status);
}

void work::count(part &one, int status) {
  if (one.is_counted.exchange(true))
    return;
  if (status != RONDO_SUCCESS) {
    char why[RONDO_REASON_BYTES] = "";
    int state = RONDO_SUCCESS;
    (void)rondo_comm_status(one.to->context, one.to->comm, &state, why, sizeof why);
    std::lock_guard<std::mutex> hold(lock_);
    if (status_ == RONDO_SUCCESS && why_.empty())
      why_ = why;
    if (status_ == RONDO_SUCCESS)
      status_ = status;
  }
  count_off();
}

void work::count_off() {
  if (--outstanding_ == 0)
    conclude();
}

std::exception_ptr work::failure() {
  std::string reason = why_.empty() ? "" : ": " + why_;
  std::string where = parts_.empty() ? "" : parts_.front().to->label + ": ";
  return error_of("rondo: " + where + plan_.title + " #" + std::to_string(plan_.sequence) + ": " +
                  status_text(status_) + reason);
}

std::exception_ptr work::run_steps() {
  try {
    for (const auto &step : steps_)
      step();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

static c10::IValue value_of(const std::vector<std::vector<at::Tensor>> &outputs) {
  if (outputs.empty())
    return c10::IValue(std::vector<at::Tensor>());
  if (outputs.size() > 1)
    return c10::IValue(outputs);
  return c10::IValue(outputs[0]);
}

static void complete(c10::ivalue::Future &future, const std::exception_ptr &error,
                     const std::vector<std::vector<at::Tensor>> &outputs) {
  if (error)
    future.setError(error);
  else
    future.markCompleted(value_of(outputs));
}

void work::conclude() {
  std::exception_ptr error;
  {
    std::lock_guard<std::mutex> hold(lock_);
    if (status_ != RONDO_SUCCESS)
      error = failure();
  }
  if (!error)
    error = run_steps();
  steps_.clear();
  kept_.clear();
  finish(error);
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    std::lock_guard<std::mutex> hold(lock_);
    is_concluded_ = true;
    future = future_;
  }
  if (future)
    complete(*future, error, plan_.outputs);
  watch_remove(this);
}

// ----------------------------------------------------------------- waiting ---

void work::look() {
  for (part &one : parts_) {
    if (one.is_counted)
      continue;
    int status = rondo_comm_test(one.to->context, one.to->comm, &one.ticket);
    if (status != RONDO_IN_PROGRESS)
      count(one, status);
  }
}

bool work::isCompleted() {
  if (!Work::isCompleted() && outstanding_ > 0)
    look();
  return Work::isCompleted();
}

bool work::isSuccess() const {
  std::lock_guard<std::mutex> hold(mutex_);
  return completed_ && !exception_;
}

std::vector<at::Tensor> work::result() {
  TORCH_CHECK(isCompleted(), "Work needs to be completed before calling result(). "
                             "Should call wait() before result().");
  TORCH_CHECK(plan_.outputs.size() <= 1,
              "work result does not support list of lists, use .getFuture() and value()");
  return plan_.outputs.empty() ? std::vector<at::Tensor>() : plan_.outputs[0];
}

// In a callback nobody may wait in Rondo, and no callback can come.
bool work::await_asleep(const part &one, clock::time_point until) {
  constexpr std::chrono::microseconds PAUSE(50);
  for (look(); !one.is_counted && clock::now() < until; look())
    std::this_thread::sleep_for(PAUSE);
  return one.is_counted;
}

// False: not ended by then.
bool work::await(part &one, clock::time_point until) {
  if (one.is_counted)
    return true;
  if (is_inside_callback)
    return await_asleep(one, until);
  auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - clock::now());
  int64_t left_ns = std::max<int64_t>(left.count(), 0);
  int status = rondo_comm_wait(one.to->context, one.to->comm, &one.ticket, left_ns);
  if (status == RONDO_ERR_TIMEOUT)
    return false;
  count(one, status);
  return true;
}

bool work::wait(milliseconds timeout) {
  bool is_own = timeout == kNoTimeout || timeout == c10d::kUnsetTimeout;
  clock::time_point until = is_own ? deadline_ : std::min(deadline_, clock::now() + timeout);
  bool ended = true;
  for (part &one : parts_)
    ended = ended && await(one, until);
  if (!ended && until == deadline_)
    expire();
  TORCH_CHECK(ended || until == deadline_, "rondo: ", plan_.title, ": Operation timed out!");
  std::unique_lock<std::mutex> hold(mutex_);
  cv_.wait(hold, [&] { return completed_; });
  if (exception_)
    std::rethrow_exception(exception_);
  return true;
}

void work::abort() {
  for (part &one : parts_)
    if (!one.is_counted)
      (void)rondo_comm_abort(one.to->context, one.to->comm);
}

// ----------------------------------------------------------------- timeout ---

// For whom the calls wait, and the stuck report to standard error.
static std::string blame(struct rondo_context context) {
  constexpr size_t SHOWN = 8;
  struct rondo_stuck stuck[SHOWN];
  size_t count = 0;
  std::string text;
  if (rondo_stuck(context, stuck, SHOWN, &count) != RONDO_SUCCESS)
    return text;
  for (size_t i = 0; i < std::min(count, SHOWN); i++)
    if (stuck[i].peer >= 0 && text.find(" " + std::to_string(stuck[i].peer)) == std::string::npos)
      text += (text.empty() ? "; it waits for rank " : ", ") + std::to_string(stuck[i].peer);
  (void)rondo_report(context, stderr, nullptr);
  return text;
}

void work::expire() {
  if (isCompleted() || parts_.empty())
    return;
  std::string whom = blame(parts_.front().to->context);
  {
    std::lock_guard<std::mutex> hold(lock_);
    if (status_ == RONDO_SUCCESS && why_.empty())
      why_ = "Timed out after " + std::to_string(plan_.timeout.count()) + "ms" + whom;
  }
  abort();
}

// ----------------------------------------------------------------- futures ---

c10::intrusive_ptr<c10::ivalue::Future> work::getFuture() {
  bool is_late = false;
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    std::lock_guard<std::mutex> hold(lock_);
    if (!future_) {
      c10::TypePtr type = c10::ListType::create(c10::TensorType::get());
      if (plan_.outputs.size() > 1)
        type = c10::ListType::create(type);
      future_ = c10::make_intrusive<c10::ivalue::Future>(type);
      is_late = is_concluded_;
    }
    future = future_;
  }
  if (is_late)
    complete(*future, exception(), plan_.outputs);
  return future;
}

} // namespace rondo_torch
