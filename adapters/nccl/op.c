#include "adapters/nccl/op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/nccl/device.h"
#include "adapters/nccl/explore.h"
#include "adapters/nccl/say.h"

// A floating number of `exponent_bits` and `mantissa_bits` below the sign. `has_infinity`: as in IEEE 754, an
// exponent of all ones is none; else only all ones altogether is not a number.
static double small_float(unsigned bits, int exponent_bits, int mantissa_bits, bool has_infinity) {
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

static double integer_value(const void *element, int dtype, bool *exact) {
  const bool is_signed = dtype == RONDO_INT8 || dtype == RONDO_INT32 || dtype == RONDO_INT64;
  size_t bytes = rondo_dtype_bytes(dtype);
  uint64_t raw = 0;
  memcpy(&raw, element, bytes); // the lowest byte comes first
  uint64_t sign = UINT64_C(1) << (8 * bytes - 1);
  if (!is_signed || !(raw & sign)) {
    *exact = raw <= UINT64_C(1) << 53;
    return (double)raw;
  }
  uint64_t magnitude = ~(raw | ~(sign | (sign - 1))) + 1;
  *exact = magnitude <= UINT64_C(1) << 53;
  return -(double)magnitude;
}

double rondo_nccl_element_value(const void *element, int dtype, bool *exact) {
  uint16_t half = 0;
  uint8_t byte = 0;
  uint32_t single = 0;
  double number = 0;
  float narrow = 0;
  *exact = true;
  switch (dtype) {
  case RONDO_FLOAT64:
    memcpy(&number, element, sizeof number);
    return number;
  case RONDO_FLOAT32:
    memcpy(&narrow, element, sizeof narrow);
    return (double)narrow;
  case RONDO_FLOAT16:
    memcpy(&half, element, sizeof half);
    return small_float(half, 5, 10, true);
  case RONDO_BFLOAT16:
    memcpy(&half, element, sizeof half);
    single = (uint32_t)half << 16;
    memcpy(&narrow, &single, sizeof narrow);
    return (double)narrow;
  case RONDO_FLOAT8_E4M3:
    memcpy(&byte, element, sizeof byte);
    return small_float(byte, 4, 3, false);
  case RONDO_FLOAT8_E5M2:
    memcpy(&byte, element, sizeof byte);
    return small_float(byte, 5, 2, true);
  default:
    return integer_value(element, dtype, exact);
  }
}

// A reduction that was made, or refused.
static int find_made(struct rondo_nccl_comm *comm, const char *call, int op,
                     struct rondo_nccl_op *made) {
  size_t at = (size_t)(op - RONDO_NCCL_FIRST_MADE_OP);
  pthread_mutex_lock(&comm->lock);
  bool found = at < comm->op_count && comm->ops[at].used;
  if (found)
    *made = comm->ops[at];
  pthread_mutex_unlock(&comm->lock);
  return found ? RONDO_NCCL_SUCCESS
               : rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT,
                                   "%s: reduction %d is none of this communicator", call, op);
}

// The factor that lies in the program's memory now.
static int read_scalar(const struct rondo_nccl_comm *comm, const char *call,
                       const struct rondo_nccl_op *made, void *stream, double *scalar) {
  unsigned char element[sizeof(uint64_t)];
  size_t bytes = rondo_dtype_bytes(made->dtype);
  const char *why = NULL;
  bool exact = true;
  if (comm->home->backend == RONDO_BACKEND_HOST)
    memcpy(element, made->where, bytes);
  else
    why = rondo_nccl_device_read(element, made->where, bytes, stream);
  if (why)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                             "%s: the factor in memory of the device cannot be read: %s", call,
                             why);
  *scalar = rondo_nccl_element_value(element, made->dtype, &exact);
  return exact ? RONDO_NCCL_SUCCESS
               : rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                                   "%s: not supported: an integer beyond 2^53", call);
}

int rondo_nccl_op_apply(struct rondo_nccl_comm *comm, const char *call, int op, void *stream,
                        struct rondo_collective_desc *what) {
  struct rondo_nccl_op made = {0};
  if (op < 0)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: reduction %d is none", call, op);
  what->redop = op; // the numbers are the same
  if (op < RONDO_NCCL_FIRST_MADE_OP)
    return RONDO_NCCL_SUCCESS;
  int result = find_made(comm, call, op, &made);
  if (result != RONDO_NCCL_SUCCESS)
    return result;
  if (made.dtype != what->dtype)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT,
                             "%s: reduction %d was made for %s, and the elements are %s", call, op,
                             rondo_dtype_name(made.dtype), rondo_dtype_name(what->dtype));
  what->redop = RONDO_PREMUL_SUM;
  what->scalar = RONDO_NCCL_FAULT(FACTOR_FORGOTTEN) ? comm->ops[0].scalar : made.scalar;
  return made.where ? read_scalar(comm, call, &made, stream, &what->scalar) : RONDO_NCCL_SUCCESS;
}

// A place for one more; the lock is held. False: no memory.
static bool find_place(struct rondo_nccl_comm *comm, size_t *place) {
  for (*place = 0; *place < comm->op_count; ++*place)
    if (!comm->ops[*place].used)
      return true;
  size_t count = comm->op_count ? 2 * comm->op_count : 4;
  struct rondo_nccl_op *ops = realloc(comm->ops, count * sizeof *ops);
  if (!ops)
    return false;
  memset(ops + comm->op_count, 0, (count - comm->op_count) * sizeof *ops);
  *place = comm->op_count;
  comm->ops = ops;
  comm->op_count = count;
  return true;
}

static int make_op(struct rondo_nccl_comm *comm, const struct rondo_nccl_op *made, int *op) {
  size_t place = 0;
  pthread_mutex_lock(&comm->lock);
  bool found = find_place(comm, &place);
  if (found) {
    comm->ops[place] = *made;
    *op = RONDO_NCCL_FIRST_MADE_OP + (int)place;
  }
  pthread_mutex_unlock(&comm->lock);
  return found ? RONDO_NCCL_SUCCESS
               : rondo_nccl_refuse(RONDO_NCCL_SYSTEM_ERROR, "ncclRedOpCreatePreMulSum: no memory");
}

static int check_scalar(const void *scalar, int residence, struct rondo_nccl_op *made) {
  static const char call[] = "ncclRedOpCreatePreMulSum";
  bool exact = true;
  if (!scalar || rondo_dtype_bytes(made->dtype) == 0)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: no scalar, or no type", call);
  if (residence != RONDO_NCCL_SCALAR_DEVICE && residence != RONDO_NCCL_SCALAR_HOST)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: residence %d is none", call,
                             residence);
  if (residence == RONDO_NCCL_SCALAR_DEVICE) {
    made->where = scalar;
    return RONDO_NCCL_SUCCESS;
  }
  made->scalar = rondo_nccl_element_value(scalar, made->dtype, &exact);
  return exact ? RONDO_NCCL_SUCCESS
               : rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                                   "%s: not supported: an integer beyond 2^53", call);
}

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.

RONDO_NCCL_DEFINE(int, RedOpCreatePreMulSum,
                  (int *op, void *scalar, int dtype, int residence, rondo_nccl_comm_t handle)) {
  struct rondo_nccl_op made = {.used = true, .dtype = dtype};
  if (!op)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT,
                             "ncclRedOpCreatePreMulSum: no place for it");
  struct rondo_nccl_comm *comm = rondo_nccl_comm_enter(handle, "ncclRedOpCreatePreMulSum");
  if (!comm)
    return RONDO_NCCL_INVALID_ARGUMENT;
  int result = check_scalar(scalar, residence, &made);
  if (result == RONDO_NCCL_SUCCESS)
    result = make_op(comm, &made, op);
  rondo_nccl_comm_leave(comm);
  return result;
}

RONDO_NCCL_DEFINE(int, RedOpDestroy, (int op, rondo_nccl_comm_t handle)) {
  struct rondo_nccl_comm *comm = rondo_nccl_comm_enter(handle, "ncclRedOpDestroy");
  if (!comm)
    return RONDO_NCCL_INVALID_ARGUMENT;
  size_t at = (size_t)op - RONDO_NCCL_FIRST_MADE_OP;
  pthread_mutex_lock(&comm->lock);
  bool known = op >= RONDO_NCCL_FIRST_MADE_OP && at < comm->op_count && comm->ops[at].used;
  if (known)
    comm->ops[at].used = false;
  pthread_mutex_unlock(&comm->lock);
  rondo_nccl_comm_leave(comm);
  if (known)
    return RONDO_NCCL_SUCCESS;
  return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT,
                           "ncclRedOpDestroy: reduction %d is none of this communicator", op);
}

// NOLINTEND(readability-identifier-naming)
