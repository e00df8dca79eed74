#include "stream.hpp"

#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include <pthread.h>

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

namespace rondo_torch {

namespace {

using stream_key = std::pair<c10::DeviceIndex, c10::StreamId>;

struct stream_users {
  std::mutex lock;
  std::map<stream_key, int> counts;
  handle_source source; // set at the import, before any stream is taken
};

// Never destroyed: streams may be released after static objects are gone.
stream_users &users() {
  static auto *one = new stream_users;
  return *one;
}

// A thread that a child process does not have may hold the lock.
[[maybe_unused]] const int fork_handler =
    pthread_atfork(nullptr, nullptr, [] { new (&users().lock) std::mutex; });

stream_key key_of(const c10::Stream &stream) { return {stream.device_index(), stream.id()}; }

// The pool hands out its streams in turn, also to the program. The high-priority pool is the one
// that programs hardly use.
c10::Stream stream_acquire(c10::Device device) {
  constexpr int TRIED = 64; // more than the pool has
  c10::impl::VirtualGuardImpl impl(device.type());
  std::optional<c10::Stream> best;
  int least = 0;
  std::lock_guard<std::mutex> hold(users().lock);
  for (int i = 0; i < TRIED && (!best || least > 0); i++) {
    c10::Stream one = impl.getStreamFromGlobalPool(device, true);
    int count = users().counts[key_of(one)];
    if (!best || count < least) {
      best.emplace(one);
      least = count;
    }
  }
  users().counts[key_of(*best)]++;
  return *best;
}

void stream_release(const c10::Stream &stream) {
  std::lock_guard<std::mutex> hold(users().lock);
  users().counts[key_of(stream)]--;
}

// Overload resolution prefers the first one, where c10::Stream has native_handle.
template <class S>
auto handle_of(const S &stream, int /*preferred*/) -> decltype(stream.native_handle()) {
  return stream.native_handle();
}

template <class S> void *handle_of(const S &stream, long /*fallback*/) {
  TORCH_CHECK(users().source, "rondo: no function returns the handles of streams");
  uint64_t handle = users().source(stream.id(), stream.device_index());
  return reinterpret_cast<void *>(static_cast<uintptr_t>(handle)); // NOLINT: Python has a number
}

} // namespace

void set_handle_source(handle_source source) { users().source = std::move(source); }

bool has_cuda_devices() {
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA))
    return false;
  return c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)->deviceCount() > 0;
}

std::shared_ptr<const comm_stream> comm_stream::acquire(c10::Device device) {
  std::shared_ptr<comm_stream> one(new comm_stream(stream_acquire(device)));
  one->handle_ = handle_of(one->stream_, 0);
  return one;
}

comm_stream::~comm_stream() { stream_release(stream_); }

} // namespace rondo_torch
