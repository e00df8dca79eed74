// PyTorch's element types and reductions as Rondo's.
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

  uint64_t count_in(const at::Tensor &tensor) const {
    return static_cast<uint64_t>(tensor.numel()) * per;
  }
};

// For operations that move data, every type. A type that Rondo does not have moves as bytes.
element element_to_move(at::ScalarType type);

struct reduction {
  element what;
  int redop;     // enum rondo_redop
  double scalar; // for RONDO_PREMUL_SUM; else 1
};

// Whether Rondo does not have a reduction that PyTorch has. Then the ranks gather their tensors and
// fold them.
bool is_emulated(at::ScalarType type, const c10d::ReduceOp &op);
// Reduces `parts` along dimension 0.
at::Tensor fold(const at::Tensor &parts, const c10d::ReduceOp &op);

// Throws if the reduction is not defined for the type.
reduction reduction_of(at::ScalarType type, const c10d::ReduceOp &op);

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_ELEMENT_HPP
