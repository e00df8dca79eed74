// The part of a work that is about streams: where its tensors are on a device.
#include "work.hpp"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

namespace rondo_torch {

namespace {

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

// None of a work's calls need end before all have begun: ranks may have put them in any order.
class streams_held {
public:
  streams_held() { (void)rondo_streams_hold(); }
  ~streams_held() { (void)release(); }
  streams_held(const streams_held &) = delete;
  streams_held &operator=(const streams_held &) = delete;

  int release() {
    int status = is_held_ ? rondo_streams_release() : RONDO_SUCCESS;
    is_held_ = false;
    return status;
  }

private:
  bool is_held_ = true;
};

std::vector<uint64_t> copied(const uint64_t *counts, size_t count) {
  return counts ? std::vector<uint64_t>(counts, counts + count) : std::vector<uint64_t>();
}

} // namespace

void work::put_off(const std::shared_ptr<const channel> &to,
                   const struct rondo_collective_desc &what, const void *send, void *recv) {
  bool has_counts = what.kind == RONDO_ALL_TO_ALL_V;
  c10::Event ready(plan_.device.type());
  ready.record(current_stream(plan_.device));
  device_->calls.push_back({to, what, copied(what.send_counts, has_counts ? to->size : 0),
                            copied(what.recv_counts, has_counts ? to->size : 0), send, recv,
                            std::move(ready)});
}

int work::enqueue_calls() {
  streams_held held;
  for (pending &one : device_->calls) {
    one.ready.block(one.to->on->stream());
    if (one.what.kind == RONDO_ALL_TO_ALL_V) {
      one.what.send_counts = one.send_counts.data();
      one.what.recv_counts = one.recv_counts.data();
    }
    int status = submit(one.to, one.what, one.send, one.recv);
    if (status != RONDO_SUCCESS) {
      note_failure(status, reason_of(*one.to));
      return status;
    }
  }
  int status = held.release();
  if (status != RONDO_SUCCESS)
    note_failure(status, "a stream of the device has refused to wait");
  return status;
}

// What comes behind the calls: copies of results, the event, the future.
void work::enqueue_rest() {
  on_device &d = *device_;
  if (d.calls.empty())
    return;
  const auto &last = d.calls.back().to->on;
  for (const pending &one : d.calls)
    if (one.to->on != last) {
      c10::Event joins(plan_.device.type());
      joins.record(one.to->on->stream());
      joins.block(last->stream());
    }
  c10::StreamGuard in_lane(last->stream());
  bool has_steps = !steps_.empty();
  std::exception_ptr error = run_steps();
  d.last = last;
  d.end.emplace(plan_.device.type());
  d.end->record(last->stream());
  if (error)
    std::rethrow_exception(error);
  if (has_steps && !d.is_captured) {
    outstanding_++;
    d.awaits_end = true;
  }
  complete_on_device(nullptr);
}

std::exception_ptr work::enqueue() {
  std::exception_ptr error;
  try {
    if (enqueue_calls() == RONDO_SUCCESS)
      enqueue_rest();
    else
      error = failure();
  } catch (const std::exception &e) {
    error = std::current_exception();
    note_failure(RONDO_ERR_SYSTEM, e.what());
  }
  if (error)
    complete_on_device(error);
  device_->calls.clear();
  return error;
}

// Counts the end of the copies, which come behind the calls.
void work::look_at_end() {
  for (const part &one : parts_)
    if (!one.is_counted)
      return;
  if (device_->end->query() && device_->awaits_end.exchange(false))
    count_off();
}

void work::synchronize() {
  if (device_ && is_started_ && device_->end)
    device_->end->block(current_stream(plan_.device));
}

} // namespace rondo_torch
