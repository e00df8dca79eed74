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

at::Tensor dense_input(work &one, const at::Tensor &tensor) {
  at::NoGradGuard no_grad;
  at::Tensor dense = tensor.resolve_conj().resolve_neg().contiguous();
  one.keep(dense);
  return dense;
}

static bool is_plain(const at::Tensor &tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor dense_output(work &one, const at::Tensor &tensor, bool keeps_contents) {
  at::NoGradGuard no_grad;
  if (is_plain(tensor)) {
    one.keep(tensor);
    return tensor;
  }
  at::Tensor dense = at::empty(tensor.sizes(), tensor.options());
  if (keeps_contents)
    dense.copy_(tensor);
  one.keep(dense);
  one.then([tensor, dense] {
    at::NoGradGuard inner;
    tensor.copy_(dense);
  });
  return dense;
}

// Whether the tensors are adjacent parts of one tensor.
static bool is_flat(const std::vector<at::Tensor> &list) {
  const at::Tensor &first = list[0];
  const char *begin = static_cast<const char *>(first.const_data_ptr());
  for (size_t i = 0; i < list.size(); i++)
    if (!is_plain(list[i]) || !list[i].is_alias_of(first) ||
        static_cast<const char *>(list[i].const_data_ptr()) != begin + i * first.nbytes())
      return false;
  return true;
}

static at::Tensor flat_view(const std::vector<at::Tensor> &list) {
  int64_t length = list[0].numel() * static_cast<int64_t>(list.size());
  return list[0].as_strided({length}, {1}, list[0].storage_offset());
}

static at::Tensor flat_part(const at::Tensor &row, const at::Tensor &part, size_t i) {
  return row.narrow(0, static_cast<int64_t>(i) * part.numel(), part.numel()).view(part.sizes());
}

at::Tensor flat_input(work &one, const std::vector<at::Tensor> &list) {
  at::NoGradGuard no_grad;
  at::Tensor row;
  if (is_flat(list)) {
    row = flat_view(list);
  } else {
    row = at::empty({list[0].numel() * static_cast<int64_t>(list.size())}, list[0].options());
    for (size_t i = 0; i < list.size(); i++)
      flat_part(row, list[i], i).copy_(list[i]);
  }
  one.keep(row);
  return row;
}

at::Tensor flat_output(work &one, const std::vector<at::Tensor> &list) {
  at::NoGradGuard no_grad;
  at::Tensor row;
  if (is_flat(list)) {
    row = flat_view(list);
    one.keep(row);
    return row;
  }
  row = at::empty({list[0].numel() * static_cast<int64_t>(list.size())}, list[0].options());
  one.keep(row);
  one.then([list, row] {
    at::NoGradGuard inner;
    for (size_t i = 0; i < list.size(); i++)
      list[i].copy_(flat_part(row, list[i], i));
  });
  return row;
}

} // namespace rondo_torch
