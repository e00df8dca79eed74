// The part of a work that handles streams, for tensors on a device.
#include "work.hpp"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

namespace rondo_torch {

namespace {

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

// The calls of a work in one stream do not wait for each other: ranks may make them in different
// orders.
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

std::vector<uint64_t> counts_copy(const uint64_t *counts, size_t count) {
  return counts ? std::vector<uint64_t>(counts, counts + count) : std::vector<uint64_t>();
}

} // namespace

void work::defer_call(const planned_call &c) {
  size_t counts = c.what.kind == RONDO_ALL_TO_ALL_V ? c.comm->size : 0;
  c10::Event ready(plan_.device.type());
  ready.record(current_stream(plan_.device));
  device_->calls.push_back({c, counts_copy(c.what.send_counts, counts),
                            counts_copy(c.what.recv_counts, counts), std::move(ready)});
}

int work::enqueue_calls() {
  streams_held held;
  for (deferred_call &one : device_->calls) {
    one.ready.block(one.comm->stream->stream());
    if (one.what.kind == RONDO_ALL_TO_ALL_V) {
      one.what.send_counts = one.send_counts.data();
      one.what.recv_counts = one.recv_counts.data();
    }
    int status = submit(one);
    if (status != RONDO_SUCCESS) {
      set_failure(status, one.comm->reason());
      return status;
    }
  }
  int status = held.release();
  if (status != RONDO_SUCCESS)
    set_failure(status, "a stream of the device cannot wait");
  return status;
}

// After the calls: the copies of results, the event, the future.
void work::enqueue_end() {
  device_state &d = *device_;
  if (d.calls.empty())
    return;
  const auto &last = d.calls.back().comm->stream;
  for (const deferred_call &one : d.calls)
    if (one.comm->stream != last) {
      c10::Event joins(plan_.device.type());
      joins.record(one.comm->stream->stream());
      joins.block(last->stream());
    }
  c10::StreamGuard in_stream(last->stream());
  bool has_steps = !steps_.empty();
  std::exception_ptr error = run_steps();
  d.last_stream = last;
  d.end.emplace(plan_.device.type());
  d.end->record(last->stream());
  if (error)
    std::rethrow_exception(error);
  if (has_steps && !d.is_captured) {
    outstanding_++;
    d.awaits_copies = true;
  }
  set_device_future(nullptr);
}

std::exception_ptr work::enqueue() {
  std::exception_ptr error;
  try {
    if (enqueue_calls() == RONDO_SUCCESS)
      enqueue_end();
    else
      error = make_error();
  } catch (const std::exception &e) {
    error = std::current_exception();
    set_failure(RONDO_ERR_SYSTEM, e.what());
  }
  if (error)
    set_device_future(error);
  device_->calls.clear();
  return error;
}

// Sees the end of the copies of results.
void work::poll_device_end() {
  for (const issued_call &one : calls_)
    if (!one.has_ended)
      return;
  if (device_->end->query() && device_->awaits_copies.exchange(false))
    drop_outstanding();
}

void work::synchronize() {
  if (device_ && is_started_ && device_->end)
    device_->end->block(current_stream(plan_.device));
}

} // namespace rondo_torch
