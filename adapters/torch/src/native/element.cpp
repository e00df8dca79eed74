#include "element.hpp"

#include <rondo/types.h>

namespace rondo_torch {

// RONDO_DTYPE_COUNT: Rondo does not have the type.
static int dtype_of(at::ScalarType type) {
  switch (type) {
  case at::kChar:
    return RONDO_INT8;
  case at::kByte:
  case at::kBool:
    return RONDO_UINT8;
  case at::kInt:
    return RONDO_INT32;
  case at::kUInt32:
    return RONDO_UINT32;
  case at::kLong:
    return RONDO_INT64;
  case at::kUInt64:
    return RONDO_UINT64;
  case at::kHalf:
    return RONDO_FLOAT16;
  case at::kFloat:
    return RONDO_FLOAT32;
  case at::kDouble:
    return RONDO_FLOAT64;
  case at::kBFloat16:
    return RONDO_BFLOAT16;
  case at::kFloat8_e4m3fn:
    return RONDO_FLOAT8_E4M3;
  case at::kFloat8_e5m2:
    return RONDO_FLOAT8_E5M2;
  default:
    return RONDO_DTYPE_COUNT;
  }
}

element element_to_move(at::ScalarType type) {
  int dtype = dtype_of(type);
  if (dtype != RONDO_DTYPE_COUNT)
    return {dtype, 1};
  return {RONDO_UINT8, c10::elementSize(type)};
}

// A linear reduction treats a complex number as two real numbers.
static element element_to_reduce(at::ScalarType type, int redop) {
  bool is_linear = redop == RONDO_SUM || redop == RONDO_AVG || redop == RONDO_PREMUL_SUM;
  if (type == at::kComplexFloat && is_linear)
    return {RONDO_FLOAT32, 2};
  if (type == at::kComplexDouble && is_linear)
    return {RONDO_FLOAT64, 2};
  int dtype = dtype_of(type);
  TORCH_CHECK(dtype != RONDO_DTYPE_COUNT, "rondo: no reductions of ", c10::toString(type));
  return {dtype, 1};
}

static int redop_of(c10d::ReduceOp::RedOpType op) {
  switch (op) {
  case c10d::ReduceOp::SUM:
    return RONDO_SUM;
  case c10d::ReduceOp::AVG:
    return RONDO_AVG;
  case c10d::ReduceOp::PRODUCT:
    return RONDO_PROD;
  case c10d::ReduceOp::MIN:
    return RONDO_MIN;
  case c10d::ReduceOp::MAX:
    return RONDO_MAX;
  case c10d::ReduceOp::PREMUL_SUM:
    return RONDO_PREMUL_SUM;
  default:
    return RONDO_REDOP_COUNT;
  }
}

// Booleans are bytes of 0 and 1: a sum is "any", a product is "all".
static int redop_of_bool(c10d::ReduceOp::RedOpType op) {
  switch (op) {
  case c10d::ReduceOp::SUM:
  case c10d::ReduceOp::MAX:
  case c10d::ReduceOp::BOR:
    return RONDO_MAX;
  case c10d::ReduceOp::PRODUCT:
  case c10d::ReduceOp::MIN:
  case c10d::ReduceOp::BAND:
    return RONDO_MIN;
  default:
    return RONDO_REDOP_COUNT;
  }
}

bool is_emulated(at::ScalarType type, const c10d::ReduceOp &op) {
  c10d::ReduceOp::RedOpType kind = op;
  bool is_bitwise =
      kind == c10d::ReduceOp::BAND || kind == c10d::ReduceOp::BOR || kind == c10d::ReduceOp::BXOR;
  if (type == at::kBool)
    return kind == c10d::ReduceOp::BXOR;
  if (is_bitwise)
    return c10::isIntegralType(type, false);
  return type == at::kShort;
}

at::Tensor fold(const at::Tensor &parts, const c10d::ReduceOp &op) {
  at::Tensor all = parts[0].clone();
  for (int64_t i = 1; i < parts.size(0); i++) {
    switch (c10d::ReduceOp::RedOpType(op)) {
    case c10d::ReduceOp::BAND:
      all.bitwise_and_(parts[i]);
      break;
    case c10d::ReduceOp::BOR:
      all.bitwise_or_(parts[i]);
      break;
    case c10d::ReduceOp::BXOR:
      all.bitwise_xor_(parts[i]);
      break;
    case c10d::ReduceOp::SUM:
      all.add_(parts[i]);
      break;
    case c10d::ReduceOp::PRODUCT:
      all.mul_(parts[i]);
      break;
    case c10d::ReduceOp::MIN:
      all.copy_(at::minimum(all, parts[i]));
      break;
    case c10d::ReduceOp::MAX:
      all.copy_(at::maximum(all, parts[i]));
      break;
    default:
      TORCH_CHECK(false, "rondo: this reduction of ", parts.scalar_type(), " is not supported");
    }
  }
  return all;
}

static double factor_of(const c10d::ReduceOp &op) {
  const auto *given = static_cast<const c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());
  TORCH_CHECK(given, "rondo: a pre-multiplied sum without a factor");
  return given->tensor_factor.defined() ? given->tensor_factor.item<double>()
                                        : given->double_factor;
}

reduction reduction_of(at::ScalarType type, const c10d::ReduceOp &op) {
  c10d::ReduceOp::RedOpType kind = op;
  int redop = type == at::kBool ? redop_of_bool(kind) : redop_of(kind);
  TORCH_CHECK(redop != RONDO_REDOP_COUNT, "rondo: reduction ", static_cast<int>(kind), " of ",
              c10::toString(type), " is not supported");
  reduction r = {element_to_reduce(type, redop), redop, 1};
  if (redop == RONDO_PREMUL_SUM)
    r.scalar = factor_of(op);
  return r;
}

} // namespace rondo_torch
