// The instructions that have only registers as operands and do the same in each lane. Included
// with OP1, OP2, OP3, COMPARE, DIVIDE and SELECT defined:
//   OPn(name, text, D, A, ..., result)  bits of the registers: of the result, of the operands
//   COMPARE(name, text, A, result)      two operands of A bits; the result is a predicate
//   DIVIDE(name, text, D, result)       the second operand must not be 0
//   SELECT(name, text, D)               selp
// `result` is an expression of the operands' bits a, b and c.

#define INTEGERS(B)                                                                                \
  OP1(mov_b##B, "mov.b" #B, B, B, a)                                                               \
  OP1(mov_u##B, "mov.u" #B, B, B, a)                                                               \
  OP1(mov_s##B, "mov.s" #B, B, B, a)                                                               \
  OP1(not_b##B, "not.b" #B, B, B, ~a)                                                              \
  OP1(neg_s##B, "neg.s" #B, B, B, ptx_neg_b##B(a))                                                 \
  OP1(abs_s##B, "abs.s" #B, B, B, ptx_abs_s##B(a))                                                 \
  OP2(add_u##B, "add.u" #B, B, B, B, ptx_add_b##B(a, b))                                           \
  OP2(add_s##B, "add.s" #B, B, B, B, ptx_add_b##B(a, b))                                           \
  OP2(sub_u##B, "sub.u" #B, B, B, B, ptx_sub_b##B(a, b))                                           \
  OP2(sub_s##B, "sub.s" #B, B, B, B, ptx_sub_b##B(a, b))                                           \
  OP2(mul_lo_u##B, "mul.lo.u" #B, B, B, B, ptx_mul_lo_b##B(a, b))                                  \
  OP2(mul_lo_s##B, "mul.lo.s" #B, B, B, B, ptx_mul_lo_b##B(a, b))                                  \
  OP2(mul_hi_u##B, "mul.hi.u" #B, B, B, B, ptx_mul_hi_u##B(a, b))                                  \
  OP2(mul_hi_s##B, "mul.hi.s" #B, B, B, B, ptx_mul_hi_s##B(a, b))                                  \
  OP3(mad_lo_u##B, "mad.lo.u" #B, B, B, B, B, ptx_mad_lo_b##B(a, b, c))                            \
  OP3(mad_lo_s##B, "mad.lo.s" #B, B, B, B, B, ptx_mad_lo_b##B(a, b, c))                            \
  OP2(min_u##B, "min.u" #B, B, B, B, ptx_min_u##B(a, b))                                           \
  OP2(min_s##B, "min.s" #B, B, B, B, ptx_min_s##B(a, b))                                           \
  OP2(max_u##B, "max.u" #B, B, B, B, ptx_max_u##B(a, b))                                           \
  OP2(max_s##B, "max.s" #B, B, B, B, ptx_max_s##B(a, b))                                           \
  OP2(and_b##B, "and.b" #B, B, B, B, a &b)                                                         \
  OP2(or_b##B, "or.b" #B, B, B, B, a | b)                                                          \
  OP2(xor_b##B, "xor.b" #B, B, B, B, a ^ b)                                                        \
  OP2(shl_b##B, "shl.b" #B, B, B, 32, ptx_shl_b##B(a, b))                                          \
  OP2(shr_b##B, "shr.b" #B, B, B, 32, ptx_shr_u##B(a, b))                                          \
  OP2(shr_u##B, "shr.u" #B, B, B, 32, ptx_shr_u##B(a, b))                                          \
  OP2(shr_s##B, "shr.s" #B, B, B, 32, ptx_shr_s##B(a, b))                                          \
  DIVIDE(div_u##B, "div.u" #B, B, ptx_div_u##B(a, b, &by_zero))                                    \
  DIVIDE(div_s##B, "div.s" #B, B, ptx_div_s##B(a, b, &by_zero))                                    \
  DIVIDE(rem_u##B, "rem.u" #B, B, ptx_rem_u##B(a, b, &by_zero))                                    \
  DIVIDE(rem_s##B, "rem.s" #B, B, ptx_rem_s##B(a, b, &by_zero))                                    \
  SELECT(selp_b##B, "selp.b" #B, B)                                                                \
  SELECT(selp_u##B, "selp.u" #B, B)                                                                \
  SELECT(selp_s##B, "selp.s" #B, B)                                                                \
  COMPARE(setp_eq_b##B, "setp.eq.b" #B, B, a == b)                                                 \
  COMPARE(setp_ne_b##B, "setp.ne.b" #B, B, a != b)                                                 \
  COMPARE(setp_lo_u##B, "setp.lo.u" #B, B, a < b)                                                  \
  COMPARE(setp_ls_u##B, "setp.ls.u" #B, B, a <= b)                                                 \
  COMPARE(setp_hi_u##B, "setp.hi.u" #B, B, a > b)                                                  \
  COMPARE(setp_hs_u##B, "setp.hs.u" #B, B, a >= b)                                                 \
  ORDERED(u##B, B)                                                                                 \
  ORDERED(s##B, B)
#define ORDERED(T, B)                                                                              \
  COMPARE(setp_eq_##T, "setp.eq." #T, B, ptx_compare_##T(PTX_EQ, a, b))                            \
  COMPARE(setp_ne_##T, "setp.ne." #T, B, ptx_compare_##T(PTX_NE, a, b))                            \
  COMPARE(setp_lt_##T, "setp.lt." #T, B, ptx_compare_##T(PTX_LT, a, b))                            \
  COMPARE(setp_le_##T, "setp.le." #T, B, ptx_compare_##T(PTX_LE, a, b))                            \
  COMPARE(setp_gt_##T, "setp.gt." #T, B, ptx_compare_##T(PTX_GT, a, b))                            \
  COMPARE(setp_ge_##T, "setp.ge." #T, B, ptx_compare_##T(PTX_GE, a, b))
INTEGERS(16)
INTEGERS(32)
INTEGERS(64)
#undef ORDERED
#undef INTEGERS

#define WIDE(T, B, D)                                                                              \
  OP2(mul_wide_##T, "mul.wide." #T, D, B, B, ptx_mul_wide_##T(a, b))                               \
  OP3(mad_wide_##T, "mad.wide." #T, D, B, B, D, ptx_mul_wide_##T(a, b) + c)
WIDE(u16, 16, 32)
WIDE(s16, 16, 32)
WIDE(u32, 32, 64)
WIDE(s32, 32, 64)
#undef WIDE
OP3(mad_hi_u32, "mad.hi.u32", 32, 32, 32, 32, ptx_mul_hi_u32(a, b) + c)
OP3(mad_hi_s32, "mad.hi.s32", 32, 32, 32, 32, ptx_mul_hi_s32(a, b) + c)
OP2(mul24_lo_u32, "mul24.lo.u32", 32, 32, 32, ptx_mul24_lo_u32(a, b))
OP2(mul24_lo_s32, "mul24.lo.s32", 32, 32, 32, ptx_mul24_lo_s32(a, b))
OP2(add_sat_s32, "add.sat.s32", 32, 32, 32, ptx_add_sat_s32(a, b))
OP2(sub_sat_s32, "sub.sat.s32", 32, 32, 32, ptx_sub_sat_s32(a, b))

#define BITS(B)                                                                                    \
  OP1(popc_b##B, "popc.b" #B, 32, B, ptx_popc_b##B(a))                                             \
  OP1(clz_b##B, "clz.b" #B, 32, B, ptx_clz_b##B(a))                                                \
  OP1(brev_b##B, "brev.b" #B, B, B, ptx_brev_b##B(a))                                              \
  OP1(bfind_u##B, "bfind.u" #B, 32, B, ptx_bfind_u##B(a))                                          \
  OP1(bfind_s##B, "bfind.s" #B, 32, B, ptx_bfind_s##B(a))                                          \
  OP3(bfe_u##B, "bfe.u" #B, B, B, 32, 32, ptx_bfe_u##B(a, b, c))                                   \
  OP3(bfe_s##B, "bfe.s" #B, B, B, 32, 32, ptx_bfe_s##B(a, b, c))
BITS(32)
BITS(64)
#undef BITS
OP4(bfi_b32, "bfi.b32", 32, 32, 32, 32, 32, ptx_bfi_b32(a, b, c, d))
OP4(bfi_b64, "bfi.b64", 64, 64, 64, 32, 32, ptx_bfi_b64(a, b, c, d))
OP4(lop3_b32, "lop3.b32", 32, 32, 32, 32, 32, ptx_lop3_b32(a, b, c, d))
OP3(prmt_b32, "prmt.b32", 32, 32, 32, 32, ptx_prmt_b32(a, b, c, PTX_PRMT))
OP3(shf_l_wrap, "shf.l.wrap.b32", 32, 32, 32, 32, ptx_shf_l_b32(a, b, c, true))
OP3(shf_l_clamp, "shf.l.clamp.b32", 32, 32, 32, 32, ptx_shf_l_b32(a, b, c, false))
OP3(shf_r_wrap, "shf.r.wrap.b32", 32, 32, 32, 32, ptx_shf_r_b32(a, b, c, true))
OP3(shf_r_clamp, "shf.r.clamp.b32", 32, 32, 32, 32, ptx_shf_r_b32(a, b, c, false))

#define FLOATS_COMPARED(T, B, how)                                                                 \
  COMPARE(setp_eq_##T, "setp.eq." #T, B, how(PTX_EQ))                                              \
  COMPARE(setp_ne_##T, "setp.ne." #T, B, how(PTX_NE))                                              \
  COMPARE(setp_lt_##T, "setp.lt." #T, B, how(PTX_LT))                                              \
  COMPARE(setp_le_##T, "setp.le." #T, B, how(PTX_LE))                                              \
  COMPARE(setp_gt_##T, "setp.gt." #T, B, how(PTX_GT))                                              \
  COMPARE(setp_ge_##T, "setp.ge." #T, B, how(PTX_GE))                                              \
  COMPARE(setp_equ_##T, "setp.equ." #T, B, how(PTX_EQU))                                           \
  COMPARE(setp_neu_##T, "setp.neu." #T, B, how(PTX_NEU))                                           \
  COMPARE(setp_ltu_##T, "setp.ltu." #T, B, how(PTX_LTU))                                           \
  COMPARE(setp_leu_##T, "setp.leu." #T, B, how(PTX_LEU))                                           \
  COMPARE(setp_gtu_##T, "setp.gtu." #T, B, how(PTX_GTU))                                           \
  COMPARE(setp_geu_##T, "setp.geu." #T, B, how(PTX_GEU))                                           \
  COMPARE(setp_num_##T, "setp.num." #T, B, how(PTX_IS_NUM))                                        \
  COMPARE(setp_nan_##T, "setp.nan." #T, B, how(PTX_IS_NAN))
#define COMPARED_F32(how) ptx_compare_f32(how, a, b, 0)
#define COMPARED_F64(how) ptx_compare_f64(how, a, b)
FLOATS_COMPARED(f32, 32, COMPARED_F32)
FLOATS_COMPARED(f64, 64, COMPARED_F64)
#undef COMPARED_F32
#undef COMPARED_F64
#undef FLOATS_COMPARED

// The rounding to nearest may be named or not.
#define ROUNDED2(op, T, B, result)                                                                 \
  OP2(op##_##T, #op "." #T, B, B, B, result)                                                       \
  OP2(op##_rn_##T, #op ".rn." #T, B, B, B, result)
ROUNDED2(add, f32, 32, ptx_add_f32(a, b, PTX_RN, 0))
ROUNDED2(sub, f32, 32, ptx_sub_f32(a, b, PTX_RN, 0))
ROUNDED2(mul, f32, 32, ptx_mul_f32(a, b, PTX_RN, 0))
OP2(div_rn_f32, "div.rn.f32", 32, 32, 32, ptx_div_f32(a, b, PTX_RN, 0))
OP1(rcp_rn_f32, "rcp.rn.f32", 32, 32, ptx_div_f32(0x3f800000, a, PTX_RN, 0))
ROUNDED2(add, f64, 64, ptx_add_f64(a, b, PTX_RN))
ROUNDED2(sub, f64, 64, ptx_sub_f64(a, b, PTX_RN))
ROUNDED2(mul, f64, 64, ptx_mul_f64(a, b, PTX_RN))
OP2(div_rn_f64, "div.rn.f64", 64, 64, 64, ptx_div_f64(a, b, PTX_RN))
OP3(fma_rn_f32, "fma.rn.f32", 32, 32, 32, 32, ptx_fma_f32(a, b, c, PTX_RN, 0))
OP3(fma_rn_f64, "fma.rn.f64", 64, 64, 64, 64, ptx_fma_f64(a, b, c, PTX_RN))
#define HALVES(T, E)                                                                               \
  ROUNDED2(add, T, 16, ptx_float_add(E, a, b, PTX_RN, 0))                                          \
  ROUNDED2(sub, T, 16, ptx_float_sub(E, a, b, PTX_RN, 0))                                          \
  ROUNDED2(mul, T, 16, ptx_float_mul(E, a, b, PTX_RN, 0))                                          \
  OP3(fma_rn_##T, "fma.rn." #T, 16, 16, 16, 16, ptx_float_fma(E, a, b, c, PTX_RN, 0))
HALVES(f16, PTX_F16)
HALVES(bf16, PTX_BF16)
#undef HALVES
#undef ROUNDED2
OP1(mov_f32, "mov.f32", 32, 32, a)
OP1(mov_f64, "mov.f64", 64, 64, a)
OP1(neg_f32, "neg.f32", 32, 32, ptx_neg_f32(a, 0))
OP1(abs_f32, "abs.f32", 32, 32, ptx_abs_f32(a, 0))
OP1(neg_f64, "neg.f64", 64, 64, ptx_neg_f64(a))
OP1(abs_f64, "abs.f64", 64, 64, ptx_abs_f64(a))
SELECT(selp_f32, "selp.f32", 32)
SELECT(selp_f64, "selp.f64", 64)
#define EXTREMES(T, B)                                                                             \
  OP2(min_##T, "min." #T, B, B, B, ptx_min_##T(a, b, 0))                                           \
  OP2(max_##T, "max." #T, B, B, B, ptx_max_##T(a, b, 0))                                           \
  OP2(min_nan_##T, "min.NaN." #T, B, B, B, ptx_min_##T(a, b, PTX_NAN))                             \
  OP2(max_nan_##T, "max.NaN." #T, B, B, B, ptx_max_##T(a, b, PTX_NAN))
EXTREMES(f16, 16)
EXTREMES(bf16, 16)
EXTREMES(f32, 32)
OP2(min_f64, "min.f64", 64, 64, 64, ptx_min_f64(a, b, 0))
OP2(max_f64, "max.f64", 64, 64, 64, ptx_max_f64(a, b, 0))
#undef EXTREMES

// Conversions that kernels run most; ptx_cvt does the others.
OP1(cvt_f32_f16, "cvt.f32.f16", 32, 16, ptx_cvt_f32_f16(a))
OP1(cvt_rn_f16_f32, "cvt.rn.f16.f32", 16, 32, ptx_cvt_rn_f16_f32(a))
OP1(cvt_rn_bf16_f32, "cvt.rn.bf16.f32", 16, 32, ptx_cvt_rn_bf16_f32(a))
OP1(cvt_u64_u32, "cvt.u64.u32", 64, 32, a)
OP1(cvt_s64_s32, "cvt.s64.s32", 64, 32, (uint64_t)(int32_t)a)
OP1(cvt_u32_u64, "cvt.u32.u64", 32, 64, (uint32_t)a)
OP1(cvt_u16_u32, "cvt.u16.u32", 16, 32, (uint16_t)a)
OP1(cvt_u32_u16, "cvt.u32.u16", 32, 16, a)
OP1(cvt_s32_s16, "cvt.s32.s16", 32, 16, (uint32_t)(int16_t)a)
OP1(cvt_s16_s8, "cvt.s16.s8", 16, 16, (uint16_t)(int8_t)a)
OP1(cvt_u16_u64, "cvt.u16.u64", 16, 64, (uint16_t)a)
OP1(cvt_u64_u16, "cvt.u64.u16", 64, 16, a)
OP1(cvt_s64_s16, "cvt.s64.s16", 64, 16, (uint64_t)(int16_t)a)
#define NUMBERS(T, B, F, W)                                                                        \
  OP1(cvt_rzi_##T##_##F, "cvt.rzi." #T "." #F, B, W, ptx_cvt_rzi_##T##_##F(a))                     \
  OP1(cvt_rn_##F##_##T, "cvt.rn." #F "." #T, W, B, ptx_cvt_rn_##F##_##T(a))
NUMBERS(s32, 32, f32, 32)
NUMBERS(u32, 32, f32, 32)
NUMBERS(s64, 64, f32, 32)
NUMBERS(u64, 64, f32, 32)
NUMBERS(s32, 32, f64, 64)
NUMBERS(u32, 32, f64, 64)
NUMBERS(s64, 64, f64, 64)
NUMBERS(u64, 64, f64, 64)
#undef NUMBERS
