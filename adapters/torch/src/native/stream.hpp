// A stream of a device in which the operations of one channel run, beside what the program has in streams of its
// own. Channels do not wait for each other, so each has a lane to itself as long as PyTorch's pool has one.
//
// All that has to do with streams and events goes through c10's interfaces for devices of any kind, behind
// which PyTorch puts CUDA if it has it: so the module needs no header and no library of CUDA, and the
// same source is built for a PyTorch without it.
//
//   lane::on -> event.block(stream), rondo_comm_call_on_stream(handle), event.record(stream) -> the last owner lets go
#ifndef RONDO_ADAPTERS_TORCH_LANE_HPP
#define RONDO_ADAPTERS_TORCH_LANE_HPP

#include <cstdint>
#include <functional>
#include <memory>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace rondo_torch {

class lane {
public:
  // Throws where PyTorch has no such device.
  static std::shared_ptr<const lane> on(c10::Device device);

  ~lane();
  lane(const lane &) = delete;
  lane &operator=(const lane &) = delete;

  const c10::Stream &stream() const { return stream_; }
  // What the driver knows it by: a CUstream.
  void *handle() const { return handle_; }

private:
  lane(c10::Stream stream, void *handle);

  c10::Stream stream_;
  void *handle_;
};

// Who is asked for the handle of a stream, by its id and the index of its device, where c10 cannot tell:
// before PyTorch 2.9 or so only Python can.
using handle_source = std::function<uint64_t(int64_t, int)>;
void set_handle_source(handle_source source);

// Whether this process has devices of CUDA to offer.
bool has_devices();

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_LANE_HPP
