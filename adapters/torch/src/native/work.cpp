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

#include "python_lock.hpp"
#include "watch.hpp"

namespace rondo_torch {

// A thread that looks in vain yields its core once in so many looks, because another rank may need
// the core. Rondo counts ranks and cores; it does not know of cores that other programs have taken.
// A thread that never yielded kept the other rank waiting for the rest of its slice, 0.5 to 4 ms.
static constexpr uint32_t LOOKS_A_YIELD = 16;

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

bool is_in_callback() { return is_inside_callback; }

// ------------------------------------------------------------------ making ---

static const std::vector<at::Tensor> &profiled(const work_plan &plan) { return plan.inputs; }

work::work(work_plan plan)
    : Work(plan.rank, plan.type, plan.title,
           std::optional<std::vector<at::Tensor>>(profiled(plan))),
      plan_(std::move(plan)), deadline_(clock::now() + plan_.timeout),
      device_(plan_.device.is_cpu() ? nullptr : std::make_unique<on_device>()) {}

void work::keep(const at::Tensor &tensor) { kept_.push_back(tensor); }

void work::then(std::function<void()> step) { steps_.push_back(std::move(step)); }

void work::add_outputs(const std::vector<std::vector<at::Tensor>> &outputs) {
  plan_.outputs.insert(plan_.outputs.end(), outputs.begin(), outputs.end());
}

int work::submit(const std::shared_ptr<const channel> &to, const struct rondo_collective_desc &what,
                 const void *send, void *recv) {
  part &one = parts_.emplace_back();
  one.to = to;
  outstanding_++;
  struct rondo_run_args args = {send, recv, nullptr, nullptr};
  int status = to->on ? rondo_comm_call_on_stream(to->context, to->comm, &what, &args,
                                                  to->on->handle(), &one.ticket)
                      : rondo_comm_call(to->context, to->comm, &what, &args, &one.ticket);
  bool is_captured = status == RONDO_SUCCESS && to->on && one.ticket.run == 0;
  if (is_captured)
    device_->is_captured = true;
  if (status != RONDO_SUCCESS || is_captured) {
    outstanding_--;
    parts_.pop_back();
  }
  return status;
}

std::string reason_of(const channel &of) {
  int state = RONDO_SUCCESS;
  char why[RONDO_REASON_BYTES] = "";
  (void)rondo_comm_status(of.context, of.comm, &state, why, sizeof why);
  return why;
}

void work::call(const std::shared_ptr<const channel> &to, const struct rondo_collective_desc &what,
                const void *send, void *recv) {
  if (device_) {
    put_off(to, what, send, recv);
    return;
  }
  int status = submit(to, what, send, recv);
  if (status == RONDO_SUCCESS)
    return;
  std::string why = reason_of(*to);
  check(status, to->label + ": " + plan_.title + (why.empty() ? "" : ": " + why));
}

void work::seal() {
  std::exception_ptr error = device_ ? enqueue() : nullptr;
  is_started_ = true;
  watch_add(c10::intrusive_ptr<work>::reclaim_copy(this), false);
  count_off();
  if (error)
    std::rethrow_exception(error);
}

// ----------------------------------------------------------------- seeking ---

void work::seek(const std::shared_ptr<const channel> &to, const struct rondo_collective_desc &what,
                void *recv, int size) {
  sought_ = {to, what, recv, size};
  if (device_)
    put_off(to, what, nullptr, recv);
  bool is_there = found();
  watch_add(c10::intrusive_ptr<work>::reclaim_copy(this), !is_there);
}

// Writes to `from` who has sent. RONDO_IN_PROGRESS: nobody.
int work::probe(int *from) const {
  for (int rank = 0; rank < sought_.size; rank++) {
    struct rondo_collective_desc sent;
    if (rank == rank_)
      continue;
    int status =
        rondo_comm_probe(sought_.to->context, sought_.to->comm, static_cast<uint32_t>(rank), &sent);
    *from = rank;
    if (status != RONDO_IN_PROGRESS)
      return status;
  }
  return RONDO_IN_PROGRESS;
}

bool work::found() {
  std::lock_guard<std::mutex> hold(seek_lock_);
  int from = -1;
  if (is_started_)
    return true;
  int status = probe(&from);
  if (status == RONDO_IN_PROGRESS)
    return false;
  sought_.what.root = static_cast<uint32_t>(from);
  if (status == RONDO_SUCCESS && device_) {
    device_->calls.front().what = sought_.what;
    (void)enqueue(); // a failure is noted
  } else if (status == RONDO_SUCCESS) {
    status = submit(sought_.to, sought_.what, nullptr, sought_.recv);
  }
  source_ = from;
  if (status != RONDO_SUCCESS)
    note_failure(status, reason_of(*sought_.to));
  is_started_ = true;
  count_off();
  return true;
}

bool work::await_start(clock::time_point until) {
  constexpr std::chrono::microseconds PAUSE(20);
  while (!is_started_ && !found()) {
    if (clock::now() >= until)
      return false;
    std::this_thread::sleep_for(PAUSE);
  }
  return true;
}

// ------------------------------------------------------------------ ending ---

void work::on_end(void *arg, int status) {
  auto *one = static_cast<part *>(arg);
  c10::intrusive_ptr<work> owner = std::move(one->owner);
  is_inside_callback = true;
  owner->count(*one, status);
}

// The first failure stays.
void work::note_failure(int status, const std::string &why) {
  std::lock_guard<std::mutex> hold(lock_);
  if (status_ != RONDO_SUCCESS)
    return;
  status_ = status;
  if (why_.empty())
    why_ = why;
}

void work::count(part &one, int status) {
  if (one.is_counted.exchange(true))
    return;
  if (status != RONDO_SUCCESS)
    note_failure(status, reason_of(*one.to));
  count_off();
}

// From now on callbacks count what has not ended.
void work::ask() {
  {
    std::lock_guard<std::mutex> hold(lock_);
    if (is_asked_ || is_concluded_ || !is_started_)
      return;
    is_asked_ = true;
  }
  for (part &one : parts_) {
    if (one.is_counted)
      continue;
    one.owner = c10::intrusive_ptr<work>::reclaim_copy(this);
    int status = rondo_comm_notify(one.to->context, one.to->comm, &one.ticket, on_end, &one);
    if (status == RONDO_SUCCESS)
      continue;
    one.owner.reset();
    count(one, status);
  }
}

void work::count_off() {
  bool wants_callback;
  if (--outstanding_ == 0) {
    conclude();
    return;
  }
  {
    std::lock_guard<std::mutex> hold(lock_);
    wants_callback = future_ && !is_asked_ && !device_;
  }
  if (wants_callback)
    ask();
}

std::exception_ptr work::failure() {
  std::string reason = why_.empty() ? "" : ": " + why_;
  std::string where = parts_.empty() ? "" : parts_.front().to->label + ": ";
  if (sought_.to)
    where = sought_.to->label + ": ";
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

static std::string text_of(const std::exception_ptr &error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error &e) {
    return e.what_without_backtrace();
  } catch (const std::exception &e) {
    return e.what();
  }
}

void work::conclude() {
  auto here = c10::intrusive_ptr<work>::reclaim_copy(this); // the watcher may have the last one
  std::exception_ptr error;
  {
    std::lock_guard<std::mutex> hold(lock_);
    if (status_ != RONDO_SUCCESS)
      error = failure();
  }
  if (!error && !device_)
    error = run_steps();
  if (error && is_waited_)
    LOG(ERROR) << text_of(error) << " (the stream that waited for it goes on, with wrong data)";
  steps_.clear();
  kept_.clear();
  finish(error);
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    std::lock_guard<std::mutex> hold(lock_);
    is_concluded_ = true;
    future = future_;
  }
  if (future && !device_)
    complete(*future, error, plan_.outputs);
  watch_remove(this);
}

// ----------------------------------------------------------------- waiting ---

// Takes steps for a call. False: not ended yet.
bool work::look_at(part &one) {
  if (one.is_counted)
    return true;
  int status = rondo_comm_test(one.to->context, one.to->comm, &one.ticket);
  if (status == RONDO_IN_PROGRESS)
    return false;
  count(one, status);
  return true;
}

void work::look() {
  if (!is_started_ && (!sought_.to || !found()))
    return;
  for (part &one : parts_)
    (void)look_at(one);
  if (device_ && device_->awaits_end)
    look_at_end();
}

bool work::is_over() {
  if (!Work::isCompleted() && outstanding_ > 0)
    look();
  return Work::isCompleted();
}

bool work::isCompleted() {
  if (is_over())
    return true;
  if (++looks_ % LOOKS_A_YIELD == 0)
    sched_yield();
  return false;
}

bool work::isSuccess() const {
  std::lock_guard<std::mutex> hold(mutex_);
  return completed_ && !exception_;
}

std::vector<at::Tensor> work::result() {
  TORCH_CHECK(is_over(), "Work needs to be completed before calling result(). "
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

// What is on a device may have copies behind its calls, which nothing here brings forward.
bool work::await_completed(clock::time_point until) {
  constexpr std::chrono::microseconds PAUSE(50);
  for (look(); !Work::isCompleted() && clock::now() < until; look())
    std::this_thread::sleep_for(PAUSE);
  return Work::isCompleted();
}

bool work::wait(milliseconds timeout) {
  bool is_own = timeout == kNoTimeout || timeout == c10d::kUnsetTimeout;
  clock::time_point until = is_own ? deadline_ : std::min(deadline_, clock::now() + timeout);
  TORCH_CHECK(is_started_ || sought_.to, plan_.title, ": waited for inside of coalescing");
  bool ended = await_start(until);
  // As ever with devices: who gives a time, or comes to a barrier, wants to know that it has ended.
  bool is_here = !device_ || !is_own || plan_.type == c10d::OpType::BARRIER;
  for (part &one : parts_)
    ended = ended && (!is_here || await(one, until));
  if (ended && is_here && device_)
    ended = await_completed(until);
  if (!ended && until == deadline_)
    expire();
  TORCH_CHECK(ended || until == deadline_, "rondo: ", plan_.title, ": Operation timed out!",
              awaited());
  std::unique_lock<std::mutex> hold(mutex_);
  if (is_here || !ended)
    cv_.wait(hold, [&] { return completed_; });
  if (exception_)
    std::rethrow_exception(exception_);
  hold.unlock();
  is_waited_ = !is_here;
  synchronize();
  return true;
}

void work::abort() {
  for (part &one : parts_)
    if (!one.is_counted)
      (void)rondo_comm_abort(one.to->context, one.to->comm);
}

// ----------------------------------------------------------------- timeout ---

// Of which ranks it is not known that they have made a call.
static std::string missing_from(const channel &of, const struct rondo_ticket &call) {
  constexpr uint32_t SHOWN = 16;
  uint32_t ranks[SHOWN];
  uint32_t count = 0;
  std::string text;
  if (rondo_missing(of.context, call.coll, call.run, ranks, SHOWN, &count) != RONDO_SUCCESS)
    return text;
  for (uint32_t i = 0; i < std::min(count, SHOWN); i++)
    text +=
        (text.empty() ? "; not known to have called it: rank " : ", ") + std::to_string(ranks[i]);
  return text + (count > SHOWN ? " …" : "");
}

// Which rank's data the call waits for, if it has begun; empty: it has not.
static std::string awaited_by(const channel &of, const struct rondo_ticket &call) {
  constexpr size_t SHOWN = 64;
  struct rondo_stuck stuck[SHOWN];
  struct rondo_collective_desc what;
  size_t count = 0;
  if (rondo_describe(of.context, call.coll, &what, nullptr, 0, nullptr) != RONDO_SUCCESS ||
      rondo_stuck(of.context, stuck, SHOWN, &count) != RONDO_SUCCESS)
    return "";
  for (size_t i = 0; i < std::min(count, SHOWN); i++)
    if (stuck[i].id == what.id && stuck[i].run == call.run && stuck[i].peer >= 0)
      return "; it waits for rank " + std::to_string(stuck[i].peer);
  return "";
}

// Whom the first of its calls that has not ended waits for.
std::string work::awaited() const {
  std::string whom;
  for (const part &one : parts_)
    if (!one.is_counted && whom.empty()) {
      whom = awaited_by(*one.to, one.ticket);
      whom = whom.empty() ? missing_from(*one.to, one.ticket) : whom;
    }
  return whom;
}

void work::expire() {
  if (is_over() || is_expired_.exchange(true))
    return;
  const auto &to = sought_.to ? sought_.to : parts_.front().to;
  std::string whom = awaited();
  (void)rondo_report(to->context, stderr, nullptr);
  note_failure(RONDO_ERR_TIMEOUT,
               "Timed out after " + std::to_string(plan_.timeout.count()) + "ms" + whom);
  (void)rondo_comm_abort(to->context, to->comm);
  look(); // what is sought finds the failure
  ask();  // and somebody has to see the end
}

// ----------------------------------------------------------------- futures ---

static c10::TypePtr type_of(const std::vector<std::vector<at::Tensor>> &outputs) {
  c10::TypePtr type = c10::ListType::create(c10::TensorType::get());
  return outputs.size() > 1 ? c10::ListType::create(type) : type;
}

// Completed where the stream is current behind which its value is.
void work::complete_on_device(const std::exception_ptr &error) {
  auto future = c10::make_intrusive<c10::ivalue::Future>(type_of(plan_.outputs),
                                                         std::vector<c10::Device>{plan_.device});
  complete(*future, error, plan_.outputs);
  std::lock_guard<std::mutex> hold(lock_);
  future_ = future;
}

// Whether the threads with which this rank computes take its share of the cores: then a thread of the daemon
// has none to run on beside them.
bool work::wants_core() const {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (plan_.ranks_here == 0 || sched_getaffinity(0, sizeof cores, &cores))
    return false;
  return CPU_COUNT(&cores) <= plan_.ranks_here * at::get_num_threads();
}

static uint64_t moved_of(const channel &of) {
  struct rondo_counters counters;
  return rondo_counters(of.context, &counters) == RONDO_SUCCESS ? counters.primitives : 0;
}

// Steps a call until it has ended, until nothing has moved for `patience`, or until `until`. Yields
// the core in between. Returns whether the call has ended.
bool work::bring_forward(part &one, std::chrono::nanoseconds patience, clock::time_point until) {
  uint64_t moved = moved_of(*one.to);
  clock::time_point give_up = std::min(until, clock::now() + patience);
  for (uint32_t looks = 1; !look_at(one); looks++) {
    if (looks % LOOKS_A_YIELD != 0)
      continue;
    uint64_t now_moved = moved_of(*one.to);
    clock::time_point now = clock::now();
    if (now_moved != moved)
      give_up = std::min(until, now + patience);
    else if (now >= give_up)
      return false;
    moved = now_moved;
    sched_yield();
  }
  return true;
}

// Works for the daemon while that moves anything, and leaves to others what a late rank holds up,
// sooner where this happens often. Without it DDP, which goes on computing and then waits for futures, where
// nobody can help, had the daemon's thread interrupt the one that computes, on each rank at another time.
void work::bring_all_forward() {
  constexpr std::chrono::nanoseconds PATIENCE(500000);
  constexpr uint32_t HALVED_AT_MOST = 4;
  constexpr milliseconds AT_MOST(100);
  without_python_lock unlocked;
  clock::time_point until = std::min(deadline_, clock::now() + AT_MOST);
  for (part &one : parts_) {
    std::atomic<uint32_t> &in_vain = *one.to->in_vain;
    auto patience = PATIENCE / (1 << std::min(in_vain.load(), HALVED_AT_MOST));
    bool ended = bring_forward(one, patience, until);
    in_vain = ended ? 0 : in_vain + 1;
    if (!ended)
      return;
  }
}

c10::intrusive_ptr<c10::ivalue::Future> work::getFuture() {
  bool is_late = false;
  bool is_open = !device_ && !is_over(); // what has ended needs no callback
  if (is_open && is_started_ && !is_inside_callback && wants_core())
    bring_all_forward();
  c10::intrusive_ptr<c10::ivalue::Future> future;
  if (device_ && sought_.to)
    TORCH_CHECK(await_start(deadline_), plan_.title, ": nobody has sent");
  {
    std::lock_guard<std::mutex> hold(lock_);
    if (!future_) {
      future_ = c10::make_intrusive<c10::ivalue::Future>(type_of(plan_.outputs));
      is_late = is_concluded_;
    }
    future = future_;
  }
  if (is_late)
    complete(*future, exception(), plan_.outputs);
  else if (!device_)
    ask();
  return future;
}

} // namespace rondo_torch
