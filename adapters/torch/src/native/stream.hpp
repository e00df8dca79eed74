// The stream in which the operations of one communicator run, apart from the program's own streams.
// Communicators do not wait for each other, so each has its own stream while PyTorch's pool has
// enough.
//
// Streams and events are used through c10's interfaces for devices of any kind, behind which
// PyTorch puts CUDA. So this module needs neither a header nor a library of CUDA, and one source
// serves a PyTorch with CUDA and without.
//
//   comm_stream::acquire -> event.block(stream), rondo_comm_call_on_stream(handle),
//     event.record(stream) -> the last owner releases it
#ifndef RONDO_ADAPTERS_TORCH_STREAM_HPP
#define RONDO_ADAPTERS_TORCH_STREAM_HPP

#include <cstdint>
#include <functional>
#include <memory>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace rondo_torch {

class comm_stream {
public:
  // Takes the least used stream of the pool. Throws if PyTorch has no such device.
  static std::shared_ptr<const comm_stream> acquire(c10::Device device);

  ~comm_stream();
  comm_stream(const comm_stream &) = delete;
  comm_stream &operator=(const comm_stream &) = delete;

  const c10::Stream &stream() const { return stream_; }
  // The CUstream.
  void *handle() const { return handle_; }

private:
  explicit comm_stream(c10::Stream stream) : stream_(stream) {}

  c10::Stream stream_;
  void *handle_ = nullptr;
};

// A function that returns the handle of a stream by its id and device. It is called where c10 has
// no such call: before PyTorch 2.9 or so only Python has one.
using handle_source = std::function<uint64_t(int64_t, int)>;
void set_handle_source(handle_source source);

// Whether this process has CUDA devices.
bool has_cuda_devices();

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_STREAM_HPP
