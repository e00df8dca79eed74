// Releases Python's GIL where this thread holds it: for waits that may come from a destructor.
#ifndef RONDO_ADAPTERS_TORCH_GIL_HPP
#define RONDO_ADAPTERS_TORCH_GIL_HPP

#include <Python.h>

#include <memory>

namespace rondo_torch {

// The end of the result's life takes the GIL back.
inline auto gil_release() {
  PyThreadState *state = Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr;
  return std::unique_ptr<PyThreadState, void (*)(PyThreadState *)>(state, PyEval_RestoreThread);
}

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_GIL_HPP
