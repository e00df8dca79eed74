// Which of Rondo's element types and reductions stand for PyTorch's.
#ifndef RONDO_ADAPTERS_TORCH_ELEMENT_HPP
#define RONDO_ADAPTERS_TORCH_ELEMENT_HPP

#include <cstdint>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace rondo_torch {

// One element of a tensor is `per` elements of type `dtype` (enum rondo_dtype).
struct element {
  int dtype;
  uint64_t per;
};

// For operations that only move data: every type. What Rondo has no name for goes as its bytes.
element element_to_move(at::ScalarType type);

// What a reduction is to Rondo.
struct reduction {
  element what;
  int redop;     // enum rondo_redop
  double scalar; // of RONDO_PREMUL_SUM; else 1
};

// Whether Rondo does not have it, though PyTorch can do it: what all ranks have is gathered then, and
// folded where it is needed.
bool is_folded(at::ScalarType type, const c10d::ReduceOp &op);
// The reduction of the parts along dimension 0.
at::Tensor fold(const at::Tensor &parts, const c10d::ReduceOp &op);

// Throws where the reduction means nothing for the type, or Rondo has none.
reduction reduction_of(at::ScalarType type, const c10d::ReduceOp &op);

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_ELEMENT_HPP
