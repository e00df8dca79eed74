// PyTorch's element types and reductions as Rondo's.
#ifndef RONDO_ADAPTERS_TORCH_ELEMENT_HPP
#define RONDO_ADAPTERS_TORCH_ELEMENT_HPP

#include <cstdint>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <rondo/types.h>

namespace rondo_torch {

// How Rondo moves or reduces the elements of a tensor.
struct element {
  int dtype;             // enum rondo_dtype
  uint64_t per;          // elements of `dtype` in one element of the tensor
  int redop = RONDO_SUM; // enum rondo_redop
  double scalar = 1;     // for RONDO_PREMUL_SUM

  uint64_t count_in(const at::Tensor &tensor) const {
    return static_cast<uint64_t>(tensor.numel()) * per;
  }
};

// For operations that move data, every type. A type that Rondo does not have moves as bytes.
element element_to_move(at::ScalarType type);
// Throws if the reduction is not defined for the type.
element element_to_reduce(at::ScalarType type, const c10d::ReduceOp &op);

// Whether Rondo does not have a reduction that PyTorch has. Then the ranks gather their tensors and
// fold them.
bool is_emulated(at::ScalarType type, const c10d::ReduceOp &op);
// Reduces `parts` along dimension 0.
at::Tensor fold(const at::Tensor &parts, const c10d::ReduceOp &op);

} // namespace rondo_torch

#endif // RONDO_ADAPTERS_TORCH_ELEMENT_HPP
