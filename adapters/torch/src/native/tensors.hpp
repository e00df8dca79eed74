// Tensors as Rondo needs them: contiguous, one behind the other. What is not so already is copied, before
// the call or after it.
#ifndef RONDO_ADAPTERS_TORCH_TENSORS_HPP
#define RONDO_ADAPTERS_TORCH_TENSORS_HPP

#include <vector>

#include <ATen/ATen.h>

#include "work.hpp"

namespace rondo_torch {

// Throws unless it is one that Rondo can reach. `title` is the operation's.
void check_reach(const at::Tensor &tensor, const char *title);
// The only one of a list of one, checked.
at::Tensor &the_only(std::vector<at::Tensor> &list, const char *title);
// Throws unless all have the type and the size of `like`.
void check_alike(const std::vector<at::Tensor> &list, const at::Tensor &like, const char *title);

// To be read: `one` keeps it.
at::Tensor to_read(work &one, const at::Tensor &tensor);
// To be written: `one` copies it to where it belongs if it is another. Its contents are those of `tensor` only
// if `is_read_too`.
at::Tensor to_write(work &one, const at::Tensor &tensor, bool is_read_too);
// The same for a list of tensors of one size, as one tensor.
at::Tensor list_to_read(work &one, const std::vector<at::Tensor> &list);
at::Tensor list_to_write(work &one, const std::vector<at::Tensor> &list);

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_TENSORS_HPP
