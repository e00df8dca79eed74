// The functions that the Python package calls.
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

#include "backend.hpp"

namespace py = pybind11;

static c10::intrusive_ptr<c10d::Backend>
backend_make(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
             std::chrono::milliseconds timeout, const std::string &name,
             const std::vector<int64_t> &members, bool is_separate) {
  return rondo_torch::backend::make(store, {rank, size, timeout, name, members, is_separate});
}

// The function is never freed: it may be called at the interpreter's exit.
static void handle_source_set(const py::function &source) {
  auto *kept = new py::function(source);
  rondo_torch::set_handle_source([kept](int64_t id, int device) {
    py::gil_scoped_acquire locked;
    return (*kept)(id, device).cast<uint64_t>();
  });
}

// NOLINTNEXTLINE: the macro is pybind11's.
PYBIND11_MODULE(_native, m) {
  (void)py::module_::import("torch.distributed"); // defines the types below
  m.def("make", &backend_make, py::arg("store"), py::arg("rank"), py::arg("size"),
        py::arg("timeout"), py::arg("name"), py::arg("members"), py::arg("is_separate") = false,
        py::call_guard<py::gil_scoped_release>());
  m.def("name_operations", &rondo_torch::name_operations);
  m.def("set_handle_source", &handle_source_set);
  m.def("abort_all", &rondo_torch::job::abort_all, py::call_guard<py::gil_scoped_release>());
}
