// For tests, never installed: gives PyTorch the CUDA devices of the stand-in for the driver
// (tests/support/fake_cuda), so that the backend's code for streams runs without a GPU. Streams,
// events and memory are the stand-in's. Freed memory is filled with a pattern, after the work of
// the stream in which it was allocated: PyTorch's caching allocator reuses memory at that point. If
// an operation still uses the memory, its results show the pattern.
//
//   start -> on_device -> operations ... -> on_host
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <cuda.h>

namespace py = pybind11;

namespace {

constexpr unsigned char FREED = 0xee;
constexpr size_t POOL = 32; // the size of PyTorch's pools
constexpr int MAX_DEVICES = 8;

void check(CUresult status, const char *doing) {
  TORCH_CHECK(status == CUDA_SUCCESS, "stand-in: ", doing, ": ", static_cast<int>(status));
}

// ------------------------------------------------------------------ devices ---

struct one_device {
  CUcontext context = nullptr;
  std::vector<CUstream> streams = {nullptr}; // by id; 0 is the default
  size_t next = 0;
};

struct machine {
  std::mutex lock;
  int count = 0;
  one_device devices[MAX_DEVICES];
};

machine &the_machine() {
  static auto *one = new machine;
  return *one;
}

thread_local c10::DeviceIndex current_device;
thread_local c10::StreamId current_streams[MAX_DEVICES];

void enter(c10::DeviceIndex device) {
  check(cuCtxSetCurrent(the_machine().devices[device].context), "entering a context");
}

CUstream handle_of(const c10::Stream &stream) {
  machine &m = the_machine();
  enter(stream.device_index());
  std::lock_guard<std::mutex> hold(m.lock);
  return m.devices[stream.device_index()].streams.at(static_cast<size_t>(stream.id()));
}

struct guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device getDevice() const override { return {type(), current_device}; }
  void setDevice(c10::Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    current_device = device.index();
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    c10::Device before = getDevice();
    uncheckedSetDevice(device);
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(the_machine().count);
  }
  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::UNSAFE, device, current_streams[device.index()]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    c10::Stream before = getStream(stream.device());
    current_streams[stream.device_index()] = stream.id();
    return before;
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*isHighPriority*/) const override {
    machine &m = the_machine();
    enter(device.index());
    std::lock_guard<std::mutex> hold(m.lock);
    one_device &d = m.devices[device.index()];
    size_t id = 1 + d.next++ % POOL;
    while (d.streams.size() <= id) {
      CUstream made;
      check(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING), "making a stream");
      d.streams.push_back(made);
    }
    return c10::Stream(c10::Stream::UNSAFE, device, static_cast<c10::StreamId>(id));
  }

  void record(void **event, const c10::Stream &stream, const c10::DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    CUstream handle = handle_of(stream);
    if (!*event)
      check(cuEventCreate(reinterpret_cast<CUevent *>(event), CU_EVENT_DISABLE_TIMING),
            "making an event");
    check(cuEventRecord(static_cast<CUevent>(*event), handle), "recording an event");
  }
  void block(void *event, const c10::Stream &stream) const override {
    if (event)
      check(cuStreamWaitEvent(handle_of(stream), static_cast<CUevent>(event), 0),
            "waiting for an event");
  }
  bool queryEvent(void *event) const override {
    CUresult status = event ? cuEventQuery(static_cast<CUevent>(event)) : CUDA_SUCCESS;
    if (status != CUDA_ERROR_NOT_READY)
      check(status, "asking for an event");
    return status == CUDA_SUCCESS;
  }
  void destroyEvent(void *event, const c10::DeviceIndex /*device*/) const noexcept override {
    if (event)
      (void)cuEventDestroy(static_cast<CUevent>(event));
  }
  // Not `override`: older versions of PyTorch do not have these.
  virtual void *getStreamNativeHandle(const c10::Stream stream) const { return handle_of(stream); }
  virtual void synchronizeEvent(void *event) const {
    check(cuEventSynchronize(static_cast<CUevent>(event)), "waiting for an event");
  }
  void synchronizeStream(const c10::Stream &stream) const override {
    check(cuStreamSynchronize(handle_of(stream)), "waiting for a stream");
  }
};

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

void start() {
  machine &m = the_machine();
  check(cuInit(0), "beginning");
  check(cuDeviceGetCount(&m.count), "counting devices");
  for (int i = 0; i < m.count; i++) {
    CUdevice device;
    check(cuDeviceGet(&device, i), "finding a device");
    check(cuDevicePrimaryCtxRetain(&m.devices[i].context, device), "making a context");
  }
  c10::impl::DeviceGuardImplRegistrar(c10::DeviceType::CUDA, new guard);
}

// ---------------------------------------------------------- work in streams ---

void CUDA_CB run_and_delete(void *arg) {
  std::unique_ptr<std::function<void()>> what(static_cast<std::function<void()> *>(arg));
  (*what)();
}

void enqueue(const c10::Stream &stream, std::function<void()> what) {
  check(cuLaunchHostFunc(handle_of(stream), run_and_delete,
                         new std::function<void()>(std::move(what))),
        "enqueuing");
}

// Blocks a stream until it is opened.
class gate {
public:
  void put(const at::Tensor &on) {
    enqueue(current_stream(on.device()), [state = state_] {
      std::unique_lock<std::mutex> hold(state->lock);
      state->opened.wait(hold, [&] { return state->is_open; });
    });
  }
  void open() {
    std::lock_guard<std::mutex> hold(state_->lock);
    state_->is_open = true;
    state_->opened.notify_all();
  }

private:
  struct state {
    std::mutex lock;
    std::condition_variable opened;
    bool is_open = false;
  };
  std::shared_ptr<state> state_ = std::make_shared<state>();
};

// ------------------------------------------------------------------ tensors ---

struct block {
  CUdeviceptr address;
  size_t bytes;
  c10::Stream stream;
};

// Memory is never unmapped. Only its contents are lost.
void give_back(void *arg) {
  std::unique_ptr<block> b(static_cast<block *>(arg));
  if (b->bytes > 0)
    (void)cuMemsetD8Async(b->address, FREED, b->bytes, handle_of(b->stream));
}

at::Tensor allocate(c10::IntArrayRef size, c10::IntArrayRef stride,
                    std::optional<at::ScalarType> dtype, std::optional<c10::Device> device) {
  c10::Device on = device.value_or(c10::Device(c10::kCUDA, current_device));
  if (!on.has_index())
    on = c10::Device(c10::kCUDA, current_device);
  auto type = dtype.value_or(at::kFloat);
  size_t bytes = at::detail::computeStorageNbytes(size, stride, c10::elementSize(type));
  auto b = std::make_unique<block>(block{0, bytes, current_stream(on)});
  enter(on.index());
  if (bytes > 0)
    check(cuMemAlloc(&b->address, bytes), "allocating");
  auto *data = reinterpret_cast<void *>(b->address); // NOLINT: the driver's addresses are numbers
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                       c10::DataPtr(data, b.release(), give_back, on), nullptr, false);
  auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage),
                                                       c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                                       c10::scalarTypeToTypeMeta(type));
  made.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
  return made;
}

// A tensor of the CPU in the same memory.
at::Tensor seen_by_host(const at::Tensor &tensor) {
  return at::from_blob(const_cast<void *>(tensor.const_data_ptr()), tensor.sizes(),
                       tensor.strides(), at::TensorOptions(tensor.scalar_type()));
}

at::Tensor &copy(at::Tensor &to, const at::Tensor &from, bool /*is_async*/) {
  c10::Stream stream = current_stream(to.is_cuda() ? to.device() : from.device());
  at::Tensor dst = to.is_cuda() ? seen_by_host(to) : to;
  at::Tensor src = from.is_cuda() ? seen_by_host(from) : from.clone();
  enqueue(stream, [dst, src] {
    at::NoGradGuard no_grad;
    dst.copy_(src);
  });
  if (!to.is_cuda())
    check(cuStreamSynchronize(handle_of(stream)), "waiting for a copy");
  return to;
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> /*layout*/, std::optional<c10::Device> device,
                 std::optional<bool> /*pinned*/, std::optional<at::MemoryFormat> /*format*/) {
  std::vector<int64_t> stride(size.size(), 1);
  for (size_t i = size.size(); i-- > 1;)
    stride[i - 1] = stride[i] * std::max<int64_t>(size[i], 1);
  return allocate(size, stride, dtype, device);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                         std::optional<c10::Device> device, std::optional<bool> /*pinned*/) {
  return allocate(size, stride, dtype, device);
}

at::Tensor &add(at::Tensor &to, const at::Tensor &other, const at::Scalar &alpha) {
  enqueue(current_stream(to.device()), [dst = seen_by_host(to), src = seen_by_host(other), alpha] {
    at::NoGradGuard no_grad;
    at::Tensor target = dst;
    target.add_(src, alpha);
  });
  return to;
}

at::Tensor cat(const at::ITensorListRef &list, int64_t dim) {
  std::vector<at::Tensor> parts;
  c10::Device device(c10::kCUDA, current_device);
  for (const at::Tensor &one : list) {
    device = one.device();
    check(cuStreamSynchronize(handle_of(current_stream(device))), "waiting for an input");
    parts.push_back(seen_by_host(one));
  }
  at::Tensor result = at::cat(parts, dim);
  return at::empty(result.sizes(), result.options().device(device)).copy_(result);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("copy_", &copy);
  m.impl("add_.Tensor", &add);
  m.impl("cat", &cat);
}

static at::Tensor on_device(const at::Tensor &from, int device) {
  at::Tensor made = at::empty_strided(
      from.sizes(), from.strides(),
      from.options().device(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device))));
  return made.copy_(from);
}

static at::Tensor on_host(const at::Tensor &from) {
  return at::empty(from.sizes(), from.options().device(c10::kCPU)).copy_(from);
}

// Sets the current stream, and returns the previous one.
static int64_t use_stream(const at::Tensor &on, int64_t id) {
  c10::impl::VirtualGuardImpl impl(c10::DeviceType::CUDA);
  return impl.exchangeStream(c10::Stream(c10::Stream::UNSAFE, on.device(), id)).id();
}

static int64_t new_stream(const at::Tensor &on) {
  return c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA)
      .getStreamFromGlobalPool(on.device())
      .id();
}

static bool is_idle(const at::Tensor &on) {
  return cuStreamQuery(handle_of(current_stream(on.device()))) == CUDA_SUCCESS;
}

static uint64_t handle(int64_t id, int device) {
  c10::Device on(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
  return reinterpret_cast<uint64_t>(handle_of(c10::Stream(c10::Stream::UNSAFE, on, id)));
}

// NOLINTNEXTLINE: the macro is pybind11's.
PYBIND11_MODULE(_stand_in, m) {
  m.def("start", &start);
  m.def("on_device", &on_device, py::arg("tensor"), py::arg("device") = 0,
        py::call_guard<py::gil_scoped_release>());
  m.def("on_host", &on_host, py::call_guard<py::gil_scoped_release>());
  m.def("use_stream", &use_stream);
  m.def("new_stream", &new_stream);
  m.def("is_idle", &is_idle);
  m.def("handle", &handle);
  py::class_<gate>(m, "Gate").def(py::init()).def("put", &gate::put).def("open", &gate::open);
}
