// Releases Python's GIL where this thread holds it: for waits that may come from a destructor.
#ifndef RONDO_ADAPTERS_TORCH_GIL_HPP
#define RONDO_ADAPTERS_TORCH_GIL_HPP

#include <Python.h>

namespace rondo_torch {

class without_gil {
public:
  without_gil()
      : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~without_gil() {
    if (state_)
      PyEval_RestoreThread(state_);
  }
  without_gil(const without_gil &) = delete;
  without_gil &operator=(const without_gil &) = delete;

private:
  PyThreadState *state_;
};

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_GIL_HPP
