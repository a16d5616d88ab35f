// SPDX-License-Identifier: Apache-2.0
// The arithmetic operations that a GPU offers, one row each: functions of the CUDA toolkit 13.0, and PTX instructions
// for which the toolkit has no function. All except the divisions `approx` and `full` round correctly (CUDA C++
// Programming Guide, "Mathematical Functions"; PTX ISA 9.1). For these two, `codes` is the maximum distance from the
// correctly rounded result. PTX ISA gives 2 ulp, which are 3 codes at a power of two. __hdiv multiplies by rcp.approx,
// and no bound is documented for it. It rounded correctly for all pairs that were tested on an H100 (docs/gpu.md).
#pragma once

// clang-format off
// Rows of the functions. The columns are X(id, function, format, operation, rounding, after, elements, codes, call).
#define MACHEPS_ARITHMETIC_FUNCTIONS(X)                                                                                \
    X(fadd_rn, "__fadd_rn", fp32, add, rn, none, one, 0, (__fadd_rn(in.fa(), in.fb())))                                \
    X(fadd_rz, "__fadd_rz", fp32, add, rz, none, one, 0, (__fadd_rz(in.fa(), in.fb())))                                \
    X(fadd_ru, "__fadd_ru", fp32, add, rp, none, one, 0, (__fadd_ru(in.fa(), in.fb())))                                \
    X(fadd_rd, "__fadd_rd", fp32, add, rm, none, one, 0, (__fadd_rd(in.fa(), in.fb())))                                \
    X(fsub_rn, "__fsub_rn", fp32, sub, rn, none, one, 0, (__fsub_rn(in.fa(), in.fb())))                                \
    X(fsub_rz, "__fsub_rz", fp32, sub, rz, none, one, 0, (__fsub_rz(in.fa(), in.fb())))                                \
    X(fsub_ru, "__fsub_ru", fp32, sub, rp, none, one, 0, (__fsub_ru(in.fa(), in.fb())))                                \
    X(fsub_rd, "__fsub_rd", fp32, sub, rm, none, one, 0, (__fsub_rd(in.fa(), in.fb())))                                \
    X(fmul_rn, "__fmul_rn", fp32, mul, rn, none, one, 0, (__fmul_rn(in.fa(), in.fb())))                                \
    X(fmul_rz, "__fmul_rz", fp32, mul, rz, none, one, 0, (__fmul_rz(in.fa(), in.fb())))                                \
    X(fmul_ru, "__fmul_ru", fp32, mul, rp, none, one, 0, (__fmul_ru(in.fa(), in.fb())))                                \
    X(fmul_rd, "__fmul_rd", fp32, mul, rm, none, one, 0, (__fmul_rd(in.fa(), in.fb())))                                \
    X(fmaf_rn, "__fmaf_rn", fp32, fma, rn, none, one, 0, (__fmaf_rn(in.fa(), in.fb(), in.fc())))                       \
    X(fmaf_rz, "__fmaf_rz", fp32, fma, rz, none, one, 0, (__fmaf_rz(in.fa(), in.fb(), in.fc())))                       \
    X(fmaf_ru, "__fmaf_ru", fp32, fma, rp, none, one, 0, (__fmaf_ru(in.fa(), in.fb(), in.fc())))                       \
    X(fmaf_rd, "__fmaf_rd", fp32, fma, rm, none, one, 0, (__fmaf_rd(in.fa(), in.fb(), in.fc())))                       \
    X(fdiv_rn, "__fdiv_rn", fp32, div, rn, none, one, 0, (__fdiv_rn(in.fa(), in.fb())))                                \
    X(fdiv_rz, "__fdiv_rz", fp32, div, rz, none, one, 0, (__fdiv_rz(in.fa(), in.fb())))                                \
    X(fdiv_ru, "__fdiv_ru", fp32, div, rp, none, one, 0, (__fdiv_ru(in.fa(), in.fb())))                                \
    X(fdiv_rd, "__fdiv_rd", fp32, div, rm, none, one, 0, (__fdiv_rd(in.fa(), in.fb())))                                \
    X(fsqrt_rn, "__fsqrt_rn", fp32, sqrt, rn, none, one, 0, (__fsqrt_rn(in.fa())))                                     \
    X(fsqrt_rz, "__fsqrt_rz", fp32, sqrt, rz, none, one, 0, (__fsqrt_rz(in.fa())))                                     \
    X(fsqrt_ru, "__fsqrt_ru", fp32, sqrt, rp, none, one, 0, (__fsqrt_ru(in.fa())))                                     \
    X(fsqrt_rd, "__fsqrt_rd", fp32, sqrt, rm, none, one, 0, (__fsqrt_rd(in.fa())))                                     \
    X(frcp_rn, "__frcp_rn", fp32, rcp, rn, none, one, 0, (__frcp_rn(in.fa())))                                         \
    X(frcp_rz, "__frcp_rz", fp32, rcp, rz, none, one, 0, (__frcp_rz(in.fa())))                                         \
    X(frcp_ru, "__frcp_ru", fp32, rcp, rp, none, one, 0, (__frcp_ru(in.fa())))                                         \
    X(frcp_rd, "__frcp_rd", fp32, rcp, rm, none, one, 0, (__frcp_rd(in.fa())))                                         \
    X(dadd_rn, "__dadd_rn", fp64, add, rn, none, one, 0, (__dadd_rn(in.da(), in.db())))                                \
    X(dadd_rz, "__dadd_rz", fp64, add, rz, none, one, 0, (__dadd_rz(in.da(), in.db())))                                \
    X(dadd_ru, "__dadd_ru", fp64, add, rp, none, one, 0, (__dadd_ru(in.da(), in.db())))                                \
    X(dadd_rd, "__dadd_rd", fp64, add, rm, none, one, 0, (__dadd_rd(in.da(), in.db())))                                \
    X(dsub_rn, "__dsub_rn", fp64, sub, rn, none, one, 0, (__dsub_rn(in.da(), in.db())))                                \
    X(dsub_rz, "__dsub_rz", fp64, sub, rz, none, one, 0, (__dsub_rz(in.da(), in.db())))                                \
    X(dsub_ru, "__dsub_ru", fp64, sub, rp, none, one, 0, (__dsub_ru(in.da(), in.db())))                                \
    X(dsub_rd, "__dsub_rd", fp64, sub, rm, none, one, 0, (__dsub_rd(in.da(), in.db())))                                \
    X(dmul_rn, "__dmul_rn", fp64, mul, rn, none, one, 0, (__dmul_rn(in.da(), in.db())))                                \
    X(dmul_rz, "__dmul_rz", fp64, mul, rz, none, one, 0, (__dmul_rz(in.da(), in.db())))                                \
    X(dmul_ru, "__dmul_ru", fp64, mul, rp, none, one, 0, (__dmul_ru(in.da(), in.db())))                                \
    X(dmul_rd, "__dmul_rd", fp64, mul, rm, none, one, 0, (__dmul_rd(in.da(), in.db())))                                \
    X(fma_rn, "__fma_rn", fp64, fma, rn, none, one, 0, (__fma_rn(in.da(), in.db(), in.dc())))                          \
    X(fma_rz, "__fma_rz", fp64, fma, rz, none, one, 0, (__fma_rz(in.da(), in.db(), in.dc())))                          \
    X(fma_ru, "__fma_ru", fp64, fma, rp, none, one, 0, (__fma_ru(in.da(), in.db(), in.dc())))                          \
    X(fma_rd, "__fma_rd", fp64, fma, rm, none, one, 0, (__fma_rd(in.da(), in.db(), in.dc())))                          \
    X(ddiv_rn, "__ddiv_rn", fp64, div, rn, none, one, 0, (__ddiv_rn(in.da(), in.db())))                                \
    X(ddiv_rz, "__ddiv_rz", fp64, div, rz, none, one, 0, (__ddiv_rz(in.da(), in.db())))                                \
    X(ddiv_ru, "__ddiv_ru", fp64, div, rp, none, one, 0, (__ddiv_ru(in.da(), in.db())))                                \
    X(ddiv_rd, "__ddiv_rd", fp64, div, rm, none, one, 0, (__ddiv_rd(in.da(), in.db())))                                \
    X(dsqrt_rn, "__dsqrt_rn", fp64, sqrt, rn, none, one, 0, (__dsqrt_rn(in.da())))                                     \
    X(dsqrt_rz, "__dsqrt_rz", fp64, sqrt, rz, none, one, 0, (__dsqrt_rz(in.da())))                                     \
    X(dsqrt_ru, "__dsqrt_ru", fp64, sqrt, rp, none, one, 0, (__dsqrt_ru(in.da())))                                     \
    X(dsqrt_rd, "__dsqrt_rd", fp64, sqrt, rm, none, one, 0, (__dsqrt_rd(in.da())))                                     \
    X(drcp_rn, "__drcp_rn", fp64, rcp, rn, none, one, 0, (__drcp_rn(in.da())))                                         \
    X(drcp_rz, "__drcp_rz", fp64, rcp, rz, none, one, 0, (__drcp_rz(in.da())))                                         \
    X(drcp_ru, "__drcp_ru", fp64, rcp, rp, none, one, 0, (__drcp_ru(in.da())))                                         \
    X(drcp_rd, "__drcp_rd", fp64, rcp, rm, none, one, 0, (__drcp_rd(in.da())))                                         \
    X(hadd_half, "__hadd(half)", fp16, add, rn, none, one, 0, (__hadd(in.ha(), in.hb())))                              \
    X(hadd_sat_half, "__hadd_sat(half)", fp16, add, rn, unit, one, 0, (__hadd_sat(in.ha(), in.hb())))                  \
    X(hadd2_half, "__hadd2(half2)", fp16, add, rn, none, two, 0, (__hadd2(in.h2a(), in.h2b())))                        \
    X(hsub_half, "__hsub(half)", fp16, sub, rn, none, one, 0, (__hsub(in.ha(), in.hb())))                              \
    X(hsub_sat_half, "__hsub_sat(half)", fp16, sub, rn, unit, one, 0, (__hsub_sat(in.ha(), in.hb())))                  \
    X(hsub2_half, "__hsub2(half2)", fp16, sub, rn, none, two, 0, (__hsub2(in.h2a(), in.h2b())))                        \
    X(hmul_half, "__hmul(half)", fp16, mul, rn, none, one, 0, (__hmul(in.ha(), in.hb())))                              \
    X(hmul_sat_half, "__hmul_sat(half)", fp16, mul, rn, unit, one, 0, (__hmul_sat(in.ha(), in.hb())))                  \
    X(hmul2_half, "__hmul2(half2)", fp16, mul, rn, none, two, 0, (__hmul2(in.h2a(), in.h2b())))                        \
    X(hfma_half, "__hfma(half)", fp16, fma, rn, none, one, 0, (__hfma(in.ha(), in.hb(), in.hc())))                     \
    X(hfma_sat_half, "__hfma_sat(half)", fp16, fma, rn, unit, one, 0, (__hfma_sat(in.ha(), in.hb(), in.hc())))         \
    X(hfma_relu_half, "__hfma_relu(half)", fp16, fma, rn, relu, one, 0, (__hfma_relu(in.ha(), in.hb(), in.hc())))      \
    X(hfma2_half, "__hfma2(half2)", fp16, fma, rn, none, two, 0, (__hfma2(in.h2a(), in.h2b(), in.h2c())))              \
    X(hdiv_half, "__hdiv(half)", fp16, div, rn, none, one, 0, (__hdiv(in.ha(), in.hb())))                              \
    X(hadd_bfloat16, "__hadd(bfloat16)", bf16, add, rn, none, one, 0, (__hadd(in.na(), in.nb())))                      \
    X(hadd_sat_bfloat16, "__hadd_sat(bfloat16)", bf16, add, rn, unit, one, 0, (__hadd_sat(in.na(), in.nb())))          \
    X(hadd2_bfloat16, "__hadd2(bfloat162)", bf16, add, rn, none, two, 0, (__hadd2(in.n2a(), in.n2b())))                \
    X(hsub_bfloat16, "__hsub(bfloat16)", bf16, sub, rn, none, one, 0, (__hsub(in.na(), in.nb())))                      \
    X(hsub_sat_bfloat16, "__hsub_sat(bfloat16)", bf16, sub, rn, unit, one, 0, (__hsub_sat(in.na(), in.nb())))          \
    X(hsub2_bfloat16, "__hsub2(bfloat162)", bf16, sub, rn, none, two, 0, (__hsub2(in.n2a(), in.n2b())))                \
    X(hmul_bfloat16, "__hmul(bfloat16)", bf16, mul, rn, none, one, 0, (__hmul(in.na(), in.nb())))                      \
    X(hmul_sat_bfloat16, "__hmul_sat(bfloat16)", bf16, mul, rn, unit, one, 0, (__hmul_sat(in.na(), in.nb())))          \
    X(hmul2_bfloat16, "__hmul2(bfloat162)", bf16, mul, rn, none, two, 0, (__hmul2(in.n2a(), in.n2b())))                \
    X(hfma_bfloat16, "__hfma(bfloat16)", bf16, fma, rn, none, one, 0, (__hfma(in.na(), in.nb(), in.nc())))             \
    X(hfma_sat_bfloat16, "__hfma_sat(bfloat16)", bf16, fma, rn, unit, one, 0, (__hfma_sat(in.na(), in.nb(), in.nc()))) \
    X(hfma_relu_bfloat16, "__hfma_relu(bfloat16)", bf16, fma, rn, relu, one, 0,                                        \
      (__hfma_relu(in.na(), in.nb(), in.nc())))                                                                        \
    X(hfma2_bfloat16, "__hfma2(bfloat162)", bf16, fma, rn, none, two, 0, (__hfma2(in.n2a(), in.n2b(), in.n2c())))      \
    X(hdiv_bfloat16, "__hdiv(bfloat16)", bf16, div, rn, none, one, 0, (__hdiv(in.na(), in.nb())))

// Rows of the instructions: X(id, instruction, format, operation, rounding, after, elements, codes, operands).
#define MACHEPS_ARITHMETIC_PTX(X)                                                                                      \
    X(add_rn_ftz_f32, "add.rn.ftz.f32", fp32, add, rn, ftz, one, 0, f_ff)                                              \
    X(sub_rn_ftz_f32, "sub.rn.ftz.f32", fp32, sub, rn, ftz, one, 0, f_ff)                                              \
    X(mul_rn_ftz_f32, "mul.rn.ftz.f32", fp32, mul, rn, ftz, one, 0, f_ff)                                              \
    X(fma_rn_ftz_f32, "fma.rn.ftz.f32", fp32, fma, rn, ftz, one, 0, f_fff)                                             \
    X(div_rn_ftz_f32, "div.rn.ftz.f32", fp32, div, rn, ftz, one, 0, f_ff)                                              \
    X(sqrt_rn_ftz_f32, "sqrt.rn.ftz.f32", fp32, sqrt, rn, ftz, one, 0, f_f)                                            \
    X(rcp_rn_ftz_f32, "rcp.rn.ftz.f32", fp32, rcp, rn, ftz, one, 0, f_f)                                               \
    X(add_rn_sat_f32, "add.rn.sat.f32", fp32, add, rn, unit, one, 0, f_ff)                                             \
    X(mul_rn_sat_f32, "mul.rn.sat.f32", fp32, mul, rn, unit, one, 0, f_ff)                                             \
    X(fma_rn_sat_f32, "fma.rn.sat.f32", fp32, fma, rn, unit, one, 0, f_fff)                                            \
    X(div_approx_f32, "div.approx.f32", fp32, div, rn, none, one, 3, f_ff)                                             \
    X(div_full_f32, "div.full.f32", fp32, div, rn, none, one, 3, f_ff)
// clang-format on
