// Errors of Rondo as exceptions of PyTorch.
#ifndef RONDO_ADAPTERS_TORCH_STATUS_HPP
#define RONDO_ADAPTERS_TORCH_STATUS_HPP

#include <exception>
#include <string>

namespace rondo_torch {

// A c10::DistBackendError with this text.
std::exception_ptr error_make(const std::string &text);

// The text and the name of a status (enum rondo_status).
std::string status_text(int status);

// Throws unless `status` is RONDO_SUCCESS. `doing` says what failed.
void check(int status, const std::string &doing);

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_STATUS_HPP
