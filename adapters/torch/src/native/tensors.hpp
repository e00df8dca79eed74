// Contiguous tensors for Rondo. Other tensors are copied, inputs before the call and outputs after
// it.
#ifndef RONDO_ADAPTERS_TORCH_TENSORS_HPP
#define RONDO_ADAPTERS_TORCH_TENSORS_HPP

#include <vector>

#include <ATen/ATen.h>

#include "work.hpp"

namespace rondo_torch {

// Throws unless the tensor is dense, and on the CPU or a CUDA device. `title`: of the operation.
void check_tensor(const at::Tensor &tensor, const char *title);
// The tensor of a list of one. Throws if there are more, or as check_tensor.
at::Tensor &single_tensor(std::vector<at::Tensor> &list, const char *title);
// Throws unless all tensors have the type and the size of `like`.
void check_same(const std::vector<at::Tensor> &list, const at::Tensor &like, const char *title);

// A contiguous tensor with the contents of `tensor`.
at::Tensor dense_input(const at::Tensor &tensor);
// A contiguous tensor whose results `one` copies to `tensor`; or `tensor` itself. It has the
// contents of `tensor` only with `keeps_contents`.
at::Tensor dense_output(work &one, const at::Tensor &tensor, bool keeps_contents);
// The same for a list: one flat tensor with all of its tensors, one after the other.
at::Tensor flat_input(const std::vector<at::Tensor> &list);
at::Tensor flat_output(work &one, const std::vector<at::Tensor> &list);

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_TENSORS_HPP
