#include "lane.hpp"

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

using place = std::pair<c10::DeviceIndex, c10::StreamId>;

// Never destroyed: lanes may go after static objects have gone.
struct lanes {
  std::mutex lock;
  std::map<place, int> users;
  handle_source source;
};

lanes &the_lanes() {
  static auto *one = new lanes;
  return *one;
}

// In a child process another thread of its parent may hold the lock for ever.
[[maybe_unused]] const int forks_are_watched =
    pthread_atfork(nullptr, nullptr, [] { new (&the_lanes().lock) std::mutex; });

place place_of(const c10::Stream &stream) { return {stream.device_index(), stream.id()}; }

// The pool gives its streams in turn, also to others. Those of high priority are the ones that programs
// hardly ask for, and small kernels between large ones are what they are for.
c10::Stream choose(c10::Device device) {
  constexpr int LOOKED_AT = 64; // more than the pool has
  c10::impl::VirtualGuardImpl impl(device.type());
  std::optional<c10::Stream> best;
  int least = 0;
  lanes &all = the_lanes();
  std::lock_guard<std::mutex> hold(all.lock);
  for (int i = 0; i < LOOKED_AT && (!best || least > 0); i++) {
    c10::Stream one = impl.getStreamFromGlobalPool(device, true);
    auto found = all.users.find(place_of(one));
    int users = found == all.users.end() ? 0 : found->second;
    if (!best || users < least) {
      best.emplace(one);
      least = users;
    }
  }
  all.users[place_of(*best)]++;
  return *best;
}

void let_go(const c10::Stream &stream) {
  lanes &all = the_lanes();
  std::lock_guard<std::mutex> hold(all.lock);
  auto found = all.users.find(place_of(stream));
  if (--found->second == 0)
    all.users.erase(found);
}

template <class S>
auto ask(const S &stream, int /*first choice*/) -> decltype(stream.native_handle()) {
  return stream.native_handle();
}

template <class S> void *ask(const S &stream, long /*where there is no such call*/) {
  handle_source source;
  {
    std::lock_guard<std::mutex> hold(the_lanes().lock);
    source = the_lanes().source;
  }
  TORCH_CHECK(source, "rondo: nobody knows the handles of streams");
  uint64_t handle = source(stream.id(), stream.device_index());
  return reinterpret_cast<void *>(static_cast<uintptr_t>(handle)); // NOLINT: it came as a number
}

} // namespace

void set_handle_source(handle_source source) {
  std::lock_guard<std::mutex> hold(the_lanes().lock);
  the_lanes().source = std::move(source);
}

bool has_devices() {
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA))
    return false;
  return c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)->deviceCount() > 0;
}

std::shared_ptr<const lane> lane::on(c10::Device device) {
  c10::Stream stream = choose(device);
  try {
    return std::shared_ptr<const lane>(new lane(stream, ask(stream, 0)));
  } catch (...) {
    let_go(stream);
    throw;
  }
}

lane::lane(c10::Stream stream, void *handle) : stream_(stream), handle_(handle) {}

lane::~lane() { let_go(stream_); }

} // namespace rondo_torch
