// SPDX-License-Identifier: Apache-2.0
// The functions that a GPU approximates, one row each, with an error bound: |result - exact| is at most relative *
// |exact| + absolute + ulps * ulp(exact) for operands in the domain. The column `claim` has these values:
// - `documented`: PTX ISA 9.1 gives the bound. For ex2 the documented bound is 2 ulp from the rounded result, so the
//   bound here is half an ulp larger. For lg2 the documented bound is absolute from 0.5 to 2 and relative elsewhere, so
//   the bound here is the sum of the two.
// - `exceeded`: PTX ISA 9.1 gives a bound that an H100 exceeds (docs/gpu.md), so the bound here is wider. The
//   documented bounds are 2^-20.5 from -2 pi to 2 pi for cos, and 2^-8 for tanh.bf16. ptxas compiles cos to a
//   multiplication by 0.15915494 (rounded toward zero) followed by MUFU.COS. Near 3 pi / 2, the rounding error of this
//   product alone can change the result by 5.7e-7. The documented bound, 2^-20.5, is 6.7e-7.
// - `correct`: the results are correctly rounded. CUDA 13.0 documents this for __frsqrt_rn (device_functions). For the
//   functions in fp16 and bf16 it was measured on an H100, for all inputs (docs/gpu.md).
// - `gross`: no bound is documented. The bound here is so wide that only the result of a wrong function exceeds it.
#pragma once

// clang-format off
// Instructions of sm_80, with the columns
// X(id, instruction, format, function, variant, domain, relative, absolute, ulps, claim, operands).
#define MACHEPS_FUNCTIONS_SM80(X)                                                                                      \
    X(rcp_approx_f32, "rcp.approx.f32", fp32, rcp, none, everywhere, 0, 0, 1, documented, f_f)                         \
    X(sqrt_approx_f32, "sqrt.approx.f32", fp32, sqrt, none, everywhere, 0x1p-23, 0, 0, documented, f_f)                \
    X(rsqrt_approx_f32, "rsqrt.approx.f32", fp32, rsqrt, none, everywhere, 0x1.126p-23, 0, 0, documented, f_f)         \
    X(ex2_approx_f32, "ex2.approx.f32", fp32, ex2, none, everywhere, 0, 0, 2.5, documented, f_f)                       \
    X(lg2_approx_f32, "lg2.approx.f32", fp32, lg2, none, everywhere, 0x1p-22, 0x1p-22, 0, documented, f_f)             \
    X(sin_approx_f32, "sin.approx.f32", fp32, sin, none, turn, 0, 0x1.6a1p-21, 0, documented, f_f)                     \
    X(cos_approx_f32, "cos.approx.f32", fp32, cos, none, turn, 0, 0x1p-20, 0, exceeded, f_f)                           \
    X(rcp_approx_ftz_f32, "rcp.approx.ftz.f32", fp32, rcp, ftz, everywhere, 0, 0, 1, documented, f_f)                  \
    X(sqrt_approx_ftz_f32, "sqrt.approx.ftz.f32", fp32, sqrt, ftz, everywhere, 0x1p-23, 0, 0, documented, f_f)         \
    X(rsqrt_approx_ftz_f32, "rsqrt.approx.ftz.f32", fp32, rsqrt, ftz, everywhere, 0x1.126p-23, 0, 0, documented, f_f)  \
    X(ex2_approx_ftz_f32, "ex2.approx.ftz.f32", fp32, ex2, ftz, everywhere, 0, 0, 2.5, documented, f_f)                \
    X(lg2_approx_ftz_f32, "lg2.approx.ftz.f32", fp32, lg2, ftz, everywhere, 0x1p-22, 0x1p-22, 0, documented, f_f)      \
    X(sin_approx_ftz_f32, "sin.approx.ftz.f32", fp32, sin, ftz, turn, 0, 0x1.6a1p-21, 0, documented, f_f)              \
    X(cos_approx_ftz_f32, "cos.approx.ftz.f32", fp32, cos, ftz, turn, 0, 0x1p-20, 0, exceeded, f_f)                    \
    X(tanh_approx_f32, "tanh.approx.f32", fp32, tanh, none, everywhere, 0x1p-11, 0, 0, documented, f_f)                \
    X(tanh_approx_f16, "tanh.approx.f16", fp16, tanh, none, everywhere, 0, 0x1.026p-11, 0, documented, h_h)            \
    X(ex2_approx_f16, "ex2.approx.f16", fp16, ex2, none, everywhere, 0x1.126p-10, 0, 0, documented, h_h)

// Instructions that sm_90 adds, with the same columns.
#define MACHEPS_FUNCTIONS_SM90(X)                                                                                      \
    X(tanh_approx_bf16, "tanh.approx.bf16", bf16, tanh, none, everywhere, 0, 0x1.1p-8, 0, exceeded, h_h)               \
    X(ex2_approx_ftz_bf16, "ex2.approx.ftz.bf16", bf16, ex2, ftz, everywhere, 0x1p-7, 0, 0, documented, h_h)

// Functions of the toolkit, with the columns
// X(id, name, format, function, variant, domain, relative, absolute, ulps, claim, call).
#define MACHEPS_FUNCTIONS_CUDA(X)                                                                                      \
    X(frsqrt_rn, "__frsqrt_rn", fp32, rsqrt, none, everywhere, 0, 0, 0, correct, (__frsqrt_rn(in.fa())))               \
    X(hrcp_half, "hrcp(half)", fp16, rcp, none, everywhere, 0, 0, 0, correct, (hrcp(in.ha())))                         \
    X(hsqrt_half, "hsqrt(half)", fp16, sqrt, none, everywhere, 0, 0, 0, correct, (hsqrt(in.ha())))                     \
    X(hrsqrt_half, "hrsqrt(half)", fp16, rsqrt, none, everywhere, 0, 0, 0, correct, (hrsqrt(in.ha())))                 \
    X(hexp_half, "hexp(half)", fp16, exp, none, everywhere, 0, 0, 0, correct, (hexp(in.ha())))                         \
    X(hexp2_half, "hexp2(half)", fp16, ex2, none, everywhere, 0, 0, 0, correct, (hexp2(in.ha())))                      \
    X(hexp10_half, "hexp10(half)", fp16, exp10, none, everywhere, 0, 0, 0, correct, (hexp10(in.ha())))                 \
    X(hlog_half, "hlog(half)", fp16, log, none, everywhere, 0, 0, 0, correct, (hlog(in.ha())))                         \
    X(hlog2_half, "hlog2(half)", fp16, lg2, none, everywhere, 0, 0, 0, correct, (hlog2(in.ha())))                      \
    X(hlog10_half, "hlog10(half)", fp16, log10, none, everywhere, 0, 0, 0, correct, (hlog10(in.ha())))                 \
    X(hsin_half, "hsin(half)", fp16, sin, none, everywhere, 0, 0, 0, correct, (hsin(in.ha())))                         \
    X(hcos_half, "hcos(half)", fp16, cos, none, everywhere, 0, 0, 0, correct, (hcos(in.ha())))                         \
    X(htanh_half, "htanh(half)", fp16, tanh, none, everywhere, 0, 0, 0, correct, (htanh(in.ha())))                     \
    X(htanh_approx_half, "htanh_approx(half)", fp16, tanh, none, everywhere, 0x1p-5, 0x1p-10, 0, gross,                \
      (htanh_approx(in.ha())))                                                                                         \
    X(hrcp_bfloat16, "hrcp(bfloat16)", bf16, rcp, none, everywhere, 0, 0, 0, correct, (hrcp(in.na())))                 \
    X(hsqrt_bfloat16, "hsqrt(bfloat16)", bf16, sqrt, none, everywhere, 0, 0, 0, correct, (hsqrt(in.na())))             \
    X(hrsqrt_bfloat16, "hrsqrt(bfloat16)", bf16, rsqrt, none, everywhere, 0, 0, 0, correct, (hrsqrt(in.na())))         \
    X(hexp_bfloat16, "hexp(bfloat16)", bf16, exp, none, everywhere, 0, 0, 0, correct, (hexp(in.na())))                 \
    X(hexp2_bfloat16, "hexp2(bfloat16)", bf16, ex2, none, everywhere, 0, 0, 0, correct, (hexp2(in.na())))              \
    X(hexp10_bfloat16, "hexp10(bfloat16)", bf16, exp10, none, everywhere, 0, 0, 0, correct, (hexp10(in.na())))         \
    X(hlog_bfloat16, "hlog(bfloat16)", bf16, log, none, everywhere, 0, 0, 0, correct, (hlog(in.na())))                 \
    X(hlog2_bfloat16, "hlog2(bfloat16)", bf16, lg2, none, everywhere, 0, 0, 0, correct, (hlog2(in.na())))              \
    X(hlog10_bfloat16, "hlog10(bfloat16)", bf16, log10, none, everywhere, 0, 0, 0, correct, (hlog10(in.na())))         \
    X(hsin_bfloat16, "hsin(bfloat16)", bf16, sin, none, everywhere, 0, 0, 0, correct, (hsin(in.na())))                 \
    X(hcos_bfloat16, "hcos(bfloat16)", bf16, cos, none, everywhere, 0, 0, 0, correct, (hcos(in.na())))                 \
    X(htanh_bfloat16, "htanh(bfloat16)", bf16, tanh, none, everywhere, 0, 0, 0, correct, (htanh(in.na())))             \
    X(htanh_approx_bfloat16, "htanh_approx(bfloat16)", bf16, tanh, none, everywhere, 0x1p-5, 0x1p-10, 0, gross,        \
      (htanh_approx(in.na())))                                                                                         \
    X(expf, "__expf", fp32, exp, none, moderate, 0x1p-16, 0x1p-20, 0, gross, (__expf(in.fa())))                        \
    X(exp10f, "__exp10f", fp32, exp10, none, moderate, 0x1p-16, 0x1p-20, 0, gross, (__exp10f(in.fa())))                \
    X(logf, "__logf", fp32, log, none, everywhere, 0x1p-16, 0x1p-20, 0, gross, (__logf(in.fa())))                      \
    X(log10f, "__log10f", fp32, log10, none, everywhere, 0x1p-16, 0x1p-20, 0, gross, (__log10f(in.fa())))              \
    X(log2f, "__log2f", fp32, lg2, none, everywhere, 0x1p-16, 0x1p-20, 0, gross, (__log2f(in.fa())))
// clang-format on
