// Errors of Rondo as exceptions of PyTorch.
#ifndef RONDO_ADAPTERS_TORCH_STATUS_HPP
#define RONDO_ADAPTERS_TORCH_STATUS_HPP

#include <exception>
#include <string>

#include <c10/util/Exception.h>

#include <rondo/rondo.h>

namespace rondo_torch {

// A c10::DistBackendError with this text.
inline std::exception_ptr error_make(const std::string &text) {
  c10::SourceLocation where = {__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  return std::make_exception_ptr(c10::DistBackendError(where, text));
}

// The text and the name of a status (enum rondo_status).
inline std::string status_text(int status) {
  return std::string(rondo_status_string(status)) + " (" + rondo_status_name(status) + ")";
}

// Throws unless `status` is RONDO_SUCCESS. `doing` says what failed.
inline void check(int status, const std::string &doing) {
  if (status != RONDO_SUCCESS)
    std::rethrow_exception(error_make("rondo: " + doing + ": " + status_text(status)));
}

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_STATUS_HPP
