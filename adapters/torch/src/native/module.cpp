// What Python sees: how a backend is made, and the name that operations match by.
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

#include "backend.hpp"

namespace py = pybind11;

static c10::intrusive_ptr<c10d::Backend> make(const c10::intrusive_ptr<c10d::Store> &store,
                                              int rank, int size, std::chrono::milliseconds timeout,
                                              const std::string &name,
                                              const std::vector<int64_t> &members) {
  return rondo_torch::backend::make(store, {rank, size, timeout, name, members});
}

// Kept for good: it may be asked at the interpreter's end.
static void set_handle_source(const py::function &source) {
  auto *kept = new py::function(source);
  rondo_torch::set_handle_source([kept](int64_t id, int device) {
    py::gil_scoped_acquire locked;
    return (*kept)(id, device).cast<uint64_t>();
  });
}

// NOLINTNEXTLINE: the macro is pybind11's.
PYBIND11_MODULE(_native, m) {
  (void)py::module_::import("torch.distributed"); // whose types these are
  m.def("make", &make, py::call_guard<py::gil_scoped_release>());
  m.def("name_operations", &rondo_torch::name_operations);
  m.def("set_handle_source", &set_handle_source);
  m.def("abort_all", &rondo_torch::home::abort_all, py::call_guard<py::gil_scoped_release>());
}
