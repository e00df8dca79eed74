#include "element.hpp"

#include <utility>

namespace rondo_torch {

using c10d::ReduceOp;
using reduction = ReduceOp::RedOpType;

// The value that a table has for a key, else `missing`.
template <class Key, class Value, size_t N>
static Value table_find(const std::pair<Key, Value> (&table)[N], Key key, Value missing) {
  for (const auto &[known, value] : table)
    if (known == key)
      return value;
  return missing;
}

// RONDO_DTYPE_COUNT: Rondo does not have the type.
static int dtype_of(at::ScalarType type) {
  static constexpr std::pair<at::ScalarType, int> DTYPES[] = {
      {at::kFloat, RONDO_FLOAT32},
      {at::kHalf, RONDO_FLOAT16},
      {at::kBFloat16, RONDO_BFLOAT16},
      {at::kDouble, RONDO_FLOAT64},
      {at::kChar, RONDO_INT8},
      {at::kByte, RONDO_UINT8},
      {at::kBool, RONDO_UINT8},
      {at::kInt, RONDO_INT32},
      {at::kUInt32, RONDO_UINT32},
      {at::kLong, RONDO_INT64},
      {at::kUInt64, RONDO_UINT64},
      {at::kFloat8_e4m3fn, RONDO_FLOAT8_E4M3},
      {at::kFloat8_e5m2, RONDO_FLOAT8_E5M2}};
  return table_find<at::ScalarType, int>(DTYPES, type, RONDO_DTYPE_COUNT);
}

// Booleans are bytes of 0 and 1: a sum is "any", a product is "all". RONDO_REDOP_COUNT: Rondo does
// not have the reduction.
static int redop_of(reduction kind, bool is_bool) {
  static constexpr std::pair<reduction, int> OF_NUMBERS[] = {
      {ReduceOp::SUM, RONDO_SUM},      {ReduceOp::AVG, RONDO_AVG},
      {ReduceOp::PRODUCT, RONDO_PROD}, {ReduceOp::MIN, RONDO_MIN},
      {ReduceOp::MAX, RONDO_MAX},      {ReduceOp::PREMUL_SUM, RONDO_PREMUL_SUM}};
  static constexpr std::pair<reduction, int> OF_BOOLS[] = {
      {ReduceOp::SUM, RONDO_MAX},     {ReduceOp::MAX, RONDO_MAX}, {ReduceOp::BOR, RONDO_MAX},
      {ReduceOp::PRODUCT, RONDO_MIN}, {ReduceOp::MIN, RONDO_MIN}, {ReduceOp::BAND, RONDO_MIN}};
  return table_find<reduction, int>(is_bool ? OF_BOOLS : OF_NUMBERS, kind, RONDO_REDOP_COUNT);
}

element element_to_move(at::ScalarType type) {
  int dtype = dtype_of(type);
  if (dtype != RONDO_DTYPE_COUNT)
    return {dtype, 1};
  return {RONDO_UINT8, c10::elementSize(type)};
}

static double factor_of(const ReduceOp &op) {
  const auto *given = static_cast<const c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());
  TORCH_CHECK(given, "rondo: a pre-multiplied sum without a factor");
  return given->tensor_factor.defined() ? given->tensor_factor.item<double>()
                                        : given->double_factor;
}

element element_to_reduce(at::ScalarType type, const ReduceOp &op) {
  reduction kind = op;
  element e = {dtype_of(type), 1, redop_of(kind, type == at::kBool)};
  TORCH_CHECK(e.redop != RONDO_REDOP_COUNT, "rondo: reduction ", static_cast<int>(kind), " of ",
              c10::toString(type), " is not supported");
  // A linear reduction treats a complex number as two real numbers.
  bool is_linear = e.redop == RONDO_SUM || e.redop == RONDO_AVG || e.redop == RONDO_PREMUL_SUM;
  if (is_linear && (type == at::kComplexFloat || type == at::kComplexDouble))
    e = {type == at::kComplexFloat ? RONDO_FLOAT32 : RONDO_FLOAT64, 2, e.redop};
  TORCH_CHECK(e.dtype != RONDO_DTYPE_COUNT, "rondo: no reductions of ", c10::toString(type));
  if (e.redop == RONDO_PREMUL_SUM)
    e.scalar = factor_of(op);
  return e;
}

static bool is_bitwise(reduction kind) {
  return kind == ReduceOp::BAND || kind == ReduceOp::BOR || kind == ReduceOp::BXOR;
}

bool is_emulated(at::ScalarType type, const ReduceOp &op) {
  if (type == at::kBool)
    return op == ReduceOp::BXOR;
  return is_bitwise(op) ? c10::isIntegralType(type, false) : type == at::kShort;
}

at::Tensor fold(const at::Tensor &parts, const ReduceOp &op) {
  using step = at::Tensor &(*)(at::Tensor & result, const at::Tensor &, const at::Tensor &);
  static constexpr std::pair<reduction, step> STEPS[] = {
      {ReduceOp::BAND, at::bitwise_and_out},
      {ReduceOp::BOR, at::bitwise_or_out},
      {ReduceOp::BXOR, at::bitwise_xor_out},
      {ReduceOp::SUM,
       [](at::Tensor &all, const at::Tensor & /*all*/, const at::Tensor &one) -> at::Tensor & {
         return all.add_(one);
       }},
      {ReduceOp::PRODUCT, at::mul_out},
      {ReduceOp::MIN, at::minimum_out},
      {ReduceOp::MAX, at::maximum_out}};
  step take = table_find<reduction, step>(STEPS, op, nullptr);
  TORCH_CHECK(take || parts.size(0) < 2, "rondo: this reduction of ", parts.scalar_type(),
              " is not supported");
  at::Tensor all = parts[0].clone();
  for (int64_t i = 1; i < parts.size(0); i++)
    take(all, all, parts[i]);
  return all;
}

} // namespace rondo_torch
