#include "status.hpp"

#include <c10/util/Exception.h>

#include <rondo/rondo.h>

namespace rondo_torch {

std::exception_ptr error_make(const std::string &text) {
  c10::SourceLocation where = {__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  return std::make_exception_ptr(c10::DistBackendError(where, text));
}

std::string status_text(int status) {
  return std::string(rondo_status_string(status)) + " (" + rondo_status_name(status) + ")";
}

void check(int status, const std::string &doing) {
  if (status != RONDO_SUCCESS)
    std::rethrow_exception(error_make("rondo: " + doing + ": " + status_text(status)));
}

} // namespace rondo_torch
