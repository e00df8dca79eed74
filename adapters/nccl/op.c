#include "adapters/nccl/call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/nccl/debug.h"
#include "adapters/nccl/device.h"
#include "adapters/nccl/explore.h"

// A floating-point number of a sign, `exponent_bits` and `mantissa_bits`. With `has_infinity` an
// exponent of all ones means infinity or NaN, as in IEEE 754; else only all ones in exponent and
// mantissa mean NaN.
static double float_value(unsigned bits, int exponent_bits, int mantissa_bits, bool has_infinity) {
  int bias = (1 << (exponent_bits - 1)) - 1;
  unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
  int exponent = (int)(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
  int top = (1 << exponent_bits) - 1;
  double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1.0 : 1.0;
  if (has_infinity && exponent == top)
    return mantissa ? (double)NAN : sign * (double)INFINITY;
  if (!has_infinity && exponent == top && mantissa == (1u << mantissa_bits) - 1)
    return (double)NAN;
  if (exponent == 0)
    return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * ldexp(mantissa + (1u << mantissa_bits), exponent - bias - mantissa_bits);
}

static double integer_value(uint64_t raw, int dtype, bool *exact) {
  const bool is_signed = dtype == RONDO_INT8 || dtype == RONDO_INT32 || dtype == RONDO_INT64;
  const uint64_t sign = UINT64_C(1) << (8 * rondo_dtype_bytes(dtype) - 1);
  const bool is_negative = is_signed && raw & sign;
  uint64_t magnitude = is_negative ? sign - (raw & (sign - 1)) : raw;
  *exact = magnitude <= UINT64_C(1) << 53;
  return is_negative ? -(double)magnitude : (double)magnitude;
}

// The value of an element. `exact`: whether the double has that value.
static double element_value(const void *element, int dtype, bool *exact) {
  uint64_t raw = 0;
  double number = 0;
  float narrow = 0;
  memcpy(&raw, element, rondo_dtype_bytes(dtype)); // little-endian
  *exact = true;
  switch (dtype) {
  case RONDO_FLOAT64:
    memcpy(&number, element, sizeof number);
    return number;
  case RONDO_FLOAT32:
    memcpy(&narrow, element, sizeof narrow);
    return (double)narrow;
  case RONDO_FLOAT16:
    return float_value((unsigned)raw, 5, 10, true);
  case RONDO_BFLOAT16:
    return float_value((unsigned)raw, 8, 7, true);
  case RONDO_FLOAT8_E4M3:
    return float_value((unsigned)raw, 4, 3, false);
  case RONDO_FLOAT8_E5M2:
    return float_value((unsigned)raw, 5, 2, true);
  default:
    return integer_value(raw, dtype, exact);
  }
}

// The reduction that NCCL knows as `op`. Null: the communicator has none. The lock is held.
static struct rondo_nccl_op *op_at(const struct rondo_nccl_comm *comm, int op) {
  size_t at = (size_t)op - RONDO_NCCL_FIRST_USER_OP;
  bool exists = op >= RONDO_NCCL_FIRST_USER_OP && at < comm->op_count && comm->ops[at].used;
  return exists ? &comm->ops[at] : NULL;
}

static int unknown_op_refuse(const char *call, int op) {
  return RONDO_NCCL_INVALID("%s: the communicator has no reduction %d", call, op);
}

// Sets `scalar` to the value of an element.
static int scalar_set(double *scalar, const void *element, int dtype, const char *call) {
  bool exact = true;
  *scalar = element_value(element, dtype, &exact);
  return exact ? RONDO_NCCL_SUCCESS
               : rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                                   "%s: not supported: an integer scalar beyond 2^53", call);
}

// Reads a scalar in memory of the device, in the order of the call's stream.
static int op_read_scalar(const struct rondo_nccl_op *op, const struct rondo_nccl_call *call,
                          double *scalar) {
  const struct rondo_nccl_shared *shared = call->comm->shared;
  const size_t bytes = rondo_dtype_bytes(op->dtype);
  unsigned char element[sizeof(uint64_t)];
  const char *why =
      shared->backend == RONDO_BACKEND_CUDA ? rondo_nccl_device_await(call->stream) : NULL;
  if (!why && rondo_mem_copy(shared->ctx, element, op->device_scalar, bytes) != RONDO_SUCCESS)
    why = "the copy failed";
  if (why)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                             "%s: cannot read the scalar in device memory: %s", call->name, why);
  return scalar_set(scalar, element, op->dtype, call->name);
}

int rondo_nccl_op_apply(struct rondo_nccl_call *call) {
  struct rondo_nccl_comm *comm = call->comm;
  struct rondo_collective_desc *what = &call->what;
  struct rondo_nccl_op user = {0};
  const int op = call->op;
  if (op < 0)
    return RONDO_NCCL_INVALID("%s: there is no reduction %d", call->name, op);
  what->redop = op; // Rondo's numbers are NCCL's
  if (op < RONDO_NCCL_FIRST_USER_OP)
    return RONDO_NCCL_SUCCESS;
  pthread_mutex_lock(&comm->lock);
  const struct rondo_nccl_op *found = op_at(comm, op);
  if (found)
    user = *found;
  pthread_mutex_unlock(&comm->lock);
  if (!found)
    return unknown_op_refuse(call->name, op);
  if (user.dtype != what->dtype)
    return RONDO_NCCL_INVALID("%s: reduction %d was created for %s, but the elements are %s",
                              call->name, op, rondo_dtype_name(user.dtype),
                              rondo_dtype_name(what->dtype));
  what->redop = RONDO_PREMUL_SUM;
  what->scalar = RONDO_NCCL_FAULT(FACTOR_FORGOTTEN) ? comm->ops[0].scalar : user.scalar;
  return user.device_scalar ? op_read_scalar(&user, call, &what->scalar) : RONDO_NCCL_SUCCESS;
}

// Finds an unused place, or adds one. The lock is held. Null: no memory.
static struct rondo_nccl_op *ops_reserve(struct rondo_nccl_comm *comm) {
  for (size_t i = 0; i < comm->op_count; i++)
    if (!comm->ops[i].used)
      return &comm->ops[i];
  struct rondo_nccl_op *ops = realloc(comm->ops, (comm->op_count + 1) * sizeof *ops);
  if (!ops)
    return NULL;
  comm->ops = ops;
  return &comm->ops[comm->op_count++];
}

static int op_add(struct rondo_nccl_comm *comm, const struct rondo_nccl_op *user, int *op) {
  pthread_mutex_lock(&comm->lock);
  struct rondo_nccl_op *place = ops_reserve(comm);
  if (place) {
    *place = *user;
    *op = RONDO_NCCL_FIRST_USER_OP + (int)(place - comm->ops);
  }
  pthread_mutex_unlock(&comm->lock);
  return place ? RONDO_NCCL_SUCCESS
               : rondo_nccl_refuse(RONDO_NCCL_SYSTEM_ERROR, "ncclRedOpCreatePreMulSum: no memory");
}

static int op_set_scalar(struct rondo_nccl_op *user, const void *scalar, int residence) {
  static const char call[] = "ncclRedOpCreatePreMulSum";
  if (!scalar || rondo_dtype_bytes(user->dtype) == 0)
    return RONDO_NCCL_INVALID("%s: the scalar is null, or there is no type %d", call, user->dtype);
  if (residence != RONDO_NCCL_SCALAR_DEVICE && residence != RONDO_NCCL_SCALAR_HOST)
    return RONDO_NCCL_INVALID("%s: there is no residence %d", call, residence);
  if (residence == RONDO_NCCL_SCALAR_HOST)
    return scalar_set(&user->scalar, scalar, user->dtype, call);
  user->device_scalar = scalar;
  return RONDO_NCCL_SUCCESS;
}

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.

RONDO_NCCL_DEFINE(int, RedOpCreatePreMulSum,
                  (int *op, void *scalar, int dtype, int residence, rondo_nccl_comm_t handle)) {
  struct rondo_nccl_op user = {.used = true, .dtype = dtype};
  if (!op)
    return RONDO_NCCL_INVALID("ncclRedOpCreatePreMulSum: the pointer to the reduction is null");
  struct rondo_nccl_comm *comm = rondo_nccl_comm_find(handle, "ncclRedOpCreatePreMulSum");
  if (!comm)
    return RONDO_NCCL_INVALID_ARGUMENT;
  int result = op_set_scalar(&user, scalar, residence);
  if (result == RONDO_NCCL_SUCCESS)
    result = op_add(comm, &user, op);
  rondo_nccl_comm_unref(comm);
  return result;
}

RONDO_NCCL_DEFINE(int, RedOpDestroy, (int op, rondo_nccl_comm_t handle)) {
  struct rondo_nccl_comm *comm = rondo_nccl_comm_find(handle, "ncclRedOpDestroy");
  if (!comm)
    return RONDO_NCCL_INVALID_ARGUMENT;
  pthread_mutex_lock(&comm->lock);
  struct rondo_nccl_op *found = op_at(comm, op);
  if (found)
    found->used = false;
  pthread_mutex_unlock(&comm->lock);
  rondo_nccl_comm_unref(comm);
  return found ? RONDO_NCCL_SUCCESS : unknown_op_refuse("ncclRedOpDestroy", op);
}

// NOLINTEND(readability-identifier-naming)
