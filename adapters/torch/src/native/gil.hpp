// Lets Python's lock go where this thread holds it: for waits that may come from a destructor.
#ifndef RONDO_ADAPTERS_TORCH_PYTHON_LOCK_HPP
#define RONDO_ADAPTERS_TORCH_PYTHON_LOCK_HPP

#include <Python.h>

namespace rondo_torch {

class without_python_lock {
public:
  without_python_lock()
      : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~without_python_lock() {
    if (state_)
      PyEval_RestoreThread(state_);
  }
  without_python_lock(const without_python_lock &) = delete;
  without_python_lock &operator=(const without_python_lock &) = delete;

private:
  PyThreadState *state_;
};

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_PYTHON_LOCK_HPP
