#include "tensors.hpp"

#include <ATen/core/grad_mode.h>

namespace rondo_torch {

void check_tensor(const at::Tensor &tensor, const char *title) {
  TORCH_CHECK(tensor.defined() && tensor.layout() == at::kStrided, title,
              ": only dense tensors are supported");
  TORCH_CHECK(tensor.device().is_cpu() || tensor.device().is_cuda(), title,
              ": no support for tensors on ", tensor.device().str());
}

at::Tensor &single_tensor(std::vector<at::Tensor> &list, const char *title) {
  TORCH_CHECK(list.size() == 1, title, ": requires a single-element tensor list, not ",
              list.size());
  check_tensor(list[0], title);
  return list[0];
}

void check_same(const std::vector<at::Tensor> &list, const at::Tensor &like, const char *title) {
  for (const auto &tensor : list) {
    check_tensor(tensor, title);
    TORCH_CHECK(tensor.scalar_type() == like.scalar_type(), title,
                ": invalid tensor type: ", tensor.scalar_type(), " and ", like.scalar_type());
    TORCH_CHECK(tensor.numel() == like.numel(), title, ": invalid tensor size: ", tensor.sizes(),
                " and ", like.sizes());
  }
}

at::Tensor dense_input(const at::Tensor &tensor) {
  at::NoGradGuard no_grad;
  return tensor.resolve_conj().resolve_neg().contiguous();
}

static bool is_plain(const at::Tensor &tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor dense_output(work &one, const at::Tensor &tensor, bool keeps_contents) {
  at::NoGradGuard no_grad;
  if (is_plain(tensor))
    return tensor;
  at::Tensor dense = at::empty(tensor.sizes(), tensor.options());
  if (keeps_contents)
    dense.copy_(tensor);
  one.then([tensor, dense] { tensor.copy_(dense); });
  return dense;
}

// Whether the tensors are adjacent parts of one tensor.
static bool is_flat(const std::vector<at::Tensor> &list) {
  const auto *at = static_cast<const char *>(list[0].const_data_ptr());
  for (const auto &tensor : list) {
    if (!is_plain(tensor) || !tensor.is_alias_of(list[0]) || tensor.const_data_ptr() != at)
      return false;
    at += tensor.nbytes();
  }
  return true;
}

// A flat tensor of the size of all tensors: their own memory if they are adjacent.
static at::Tensor flat_row(const std::vector<at::Tensor> &list) {
  int64_t length = 0;
  for (const auto &tensor : list)
    length += tensor.numel();
  return is_flat(list) ? list[0].as_strided({length}, {1}, list[0].storage_offset())
                       : at::empty({length}, list[0].options());
}

// The parts of a flat tensor, in the shapes of a list.
static std::vector<at::Tensor> flat_parts(const at::Tensor &row,
                                          const std::vector<at::Tensor> &list) {
  std::vector<at::Tensor> parts;
  int64_t at = 0;
  for (const auto &tensor : list) {
    parts.push_back(row.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
  }
  return parts;
}

static void list_copy(const std::vector<at::Tensor> &to, const std::vector<at::Tensor> &from) {
  for (size_t i = 0; i < to.size(); i++)
    to[i].copy_(from[i]);
}

at::Tensor flat_input(const std::vector<at::Tensor> &list) {
  at::NoGradGuard no_grad;
  at::Tensor row = flat_row(list);
  if (!row.is_alias_of(list[0]))
    list_copy(flat_parts(row, list), list);
  return row;
}

at::Tensor flat_output(work &one, const std::vector<at::Tensor> &list) {
  at::NoGradGuard no_grad;
  at::Tensor row = flat_row(list);
  if (!row.is_alias_of(list[0]))
    one.then([list, row] { list_copy(list, flat_parts(row, list)); });
  return row;
}

} // namespace rondo_torch
