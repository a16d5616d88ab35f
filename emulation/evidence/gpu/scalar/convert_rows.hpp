// SPDX-License-Identifier: Apache-2.0
// The conversions that an sm_90 GPU offers, one row each: PTX instructions (PTX ISA 9.1, "cvt", in the forms that ptxas
// 13.0 accepts) and functions in the headers of the CUDA toolkit 13.0. The column `model` names a ConvertModel
// (convert_model.hpp).
#pragma once

// clang-format off
// Instructions of sm_80. The columns are X(id, operands, instruction, from, to, rounding, model, after, NaN).
#define MACHEPS_CVT_SM80(X)                                                                                            \
    X(rn_f16_f32, h_f, "cvt.rn.f16.f32", fp32, fp16, rn, ptx, none, code)                                              \
    X(rz_f16_f32, h_f, "cvt.rz.f16.f32", fp32, fp16, rz, ptx, none, code)                                              \
    X(rm_f16_f32, h_f, "cvt.rm.f16.f32", fp32, fp16, rm, ptx, none, code)                                              \
    X(rp_f16_f32, h_f, "cvt.rp.f16.f32", fp32, fp16, rp, ptx, none, code)                                              \
    X(rn_relu_f16_f32, h_f, "cvt.rn.relu.f16.f32", fp32, fp16, rn, ptx, relu, code)                                    \
    X(rn_sf_f16_f32, h_f, "cvt.rn.satfinite.f16.f32", fp32, fp16, rn, satfinite, none, code)                           \
    X(rn_relu_sf_f16_f32, h_f, "cvt.rn.relu.satfinite.f16.f32", fp32, fp16, rn, satfinite, relu, code)                 \
    X(rn_f16x2_f32, r_ff, "cvt.rn.f16x2.f32", fp32, fp16, rn, ptx, none, code)                                         \
    X(rn_relu_f16x2_f32, r_ff, "cvt.rn.relu.f16x2.f32", fp32, fp16, rn, ptx, relu, code)                               \
    X(rn_sf_f16x2_f32, r_ff, "cvt.rn.satfinite.f16x2.f32", fp32, fp16, rn, satfinite, none, code)                      \
    X(rn_relu_sf_f16x2_f32, r_ff, "cvt.rn.relu.satfinite.f16x2.f32", fp32, fp16, rn, satfinite, relu, code)            \
    X(rz_relu_f16_f32, h_f, "cvt.rz.relu.f16.f32", fp32, fp16, rz, ptx, relu, code)                                    \
    X(rz_sf_f16_f32, h_f, "cvt.rz.satfinite.f16.f32", fp32, fp16, rz, satfinite, none, code)                           \
    X(rz_relu_sf_f16_f32, h_f, "cvt.rz.relu.satfinite.f16.f32", fp32, fp16, rz, satfinite, relu, code)                 \
    X(rz_f16x2_f32, r_ff, "cvt.rz.f16x2.f32", fp32, fp16, rz, ptx, none, code)                                         \
    X(rz_relu_f16x2_f32, r_ff, "cvt.rz.relu.f16x2.f32", fp32, fp16, rz, ptx, relu, code)                               \
    X(rz_sf_f16x2_f32, r_ff, "cvt.rz.satfinite.f16x2.f32", fp32, fp16, rz, satfinite, none, code)                      \
    X(rz_relu_sf_f16x2_f32, r_ff, "cvt.rz.relu.satfinite.f16x2.f32", fp32, fp16, rz, satfinite, relu, code)            \
    X(rn_bf16_f32, h_f, "cvt.rn.bf16.f32", fp32, bf16, rn, ptx, none, code)                                            \
    X(rz_bf16_f32, h_f, "cvt.rz.bf16.f32", fp32, bf16, rz, ptx, none, code)                                            \
    X(rm_bf16_f32, h_f, "cvt.rm.bf16.f32", fp32, bf16, rm, ptx, none, code)                                            \
    X(rp_bf16_f32, h_f, "cvt.rp.bf16.f32", fp32, bf16, rp, ptx, none, code)                                            \
    X(rn_relu_bf16_f32, h_f, "cvt.rn.relu.bf16.f32", fp32, bf16, rn, ptx, relu, code)                                  \
    X(rn_sf_bf16_f32, h_f, "cvt.rn.satfinite.bf16.f32", fp32, bf16, rn, satfinite, none, code)                         \
    X(rn_relu_sf_bf16_f32, h_f, "cvt.rn.relu.satfinite.bf16.f32", fp32, bf16, rn, satfinite, relu, code)               \
    X(rn_bf16x2_f32, r_ff, "cvt.rn.bf16x2.f32", fp32, bf16, rn, ptx, none, code)                                       \
    X(rn_relu_bf16x2_f32, r_ff, "cvt.rn.relu.bf16x2.f32", fp32, bf16, rn, ptx, relu, code)                             \
    X(rn_sf_bf16x2_f32, r_ff, "cvt.rn.satfinite.bf16x2.f32", fp32, bf16, rn, satfinite, none, code)                    \
    X(rn_relu_sf_bf16x2_f32, r_ff, "cvt.rn.relu.satfinite.bf16x2.f32", fp32, bf16, rn, satfinite, relu, code)          \
    X(rz_relu_bf16_f32, h_f, "cvt.rz.relu.bf16.f32", fp32, bf16, rz, ptx, relu, code)                                  \
    X(rz_sf_bf16_f32, h_f, "cvt.rz.satfinite.bf16.f32", fp32, bf16, rz, satfinite, none, code)                         \
    X(rz_relu_sf_bf16_f32, h_f, "cvt.rz.relu.satfinite.bf16.f32", fp32, bf16, rz, satfinite, relu, code)               \
    X(rz_bf16x2_f32, r_ff, "cvt.rz.bf16x2.f32", fp32, bf16, rz, ptx, none, code)                                       \
    X(rz_relu_bf16x2_f32, r_ff, "cvt.rz.relu.bf16x2.f32", fp32, bf16, rz, ptx, relu, code)                             \
    X(rz_sf_bf16x2_f32, r_ff, "cvt.rz.satfinite.bf16x2.f32", fp32, bf16, rz, satfinite, none, code)                    \
    X(rz_relu_sf_bf16x2_f32, r_ff, "cvt.rz.relu.satfinite.bf16x2.f32", fp32, bf16, rz, satfinite, relu, code)          \
    X(rn_sat_f16_f32, h_f, "cvt.rn.sat.f16.f32", fp32, fp16, rn, ptx, unit, code)                                      \
    X(rz_sat_f16_f32, h_f, "cvt.rz.sat.f16.f32", fp32, fp16, rz, ptx, unit, code)                                      \
    X(rm_sat_f16_f32, h_f, "cvt.rm.sat.f16.f32", fp32, fp16, rm, ptx, unit, code)                                      \
    X(rp_sat_f16_f32, h_f, "cvt.rp.sat.f16.f32", fp32, fp16, rp, ptx, unit, code)                                      \
    X(rna_tf32_f32, r_f, "cvt.rna.tf32.f32", fp32, tf32, rna, ptx, none, code)                                         \
    X(rna_sf_tf32_f32, r_f, "cvt.rna.satfinite.tf32.f32", fp32, tf32, rna, satfinite, none, code)                      \
    X(rn_f32_f64, f_d, "cvt.rn.f32.f64", fp64, fp32, rn, f2f, none, code)                                              \
    X(rn_f16_f64, h_d, "cvt.rn.f16.f64", fp64, fp16, rn, f2f, none, code)                                              \
    X(rz_f32_f64, f_d, "cvt.rz.f32.f64", fp64, fp32, rz, f2f, none, code)                                              \
    X(rz_f16_f64, h_d, "cvt.rz.f16.f64", fp64, fp16, rz, f2f, none, code)                                              \
    X(rm_f32_f64, f_d, "cvt.rm.f32.f64", fp64, fp32, rm, f2f, none, code)                                              \
    X(rm_f16_f64, h_d, "cvt.rm.f16.f64", fp64, fp16, rm, f2f, none, code)                                              \
    X(rp_f32_f64, f_d, "cvt.rp.f32.f64", fp64, fp32, rp, f2f, none, code)                                              \
    X(rp_f16_f64, h_d, "cvt.rp.f16.f64", fp64, fp16, rp, f2f, none, code)                                              \
    X(f32_f16, f_h, "cvt.f32.f16", fp16, fp32, rn, ptx, none, code)                                                    \
    X(f32_bf16, f_h, "cvt.f32.bf16", bf16, fp32, rn, shift, none, code)                                                \
    X(f64_f16, d_h, "cvt.f64.f16", fp16, fp64, rn, f2f, none, code)                                                    \
    X(f64_f32, d_f, "cvt.f64.f32", fp32, fp64, rn, f2f, none, code)

// Instructions that sm_90 adds, with the same columns.
#define MACHEPS_CVT_SM90(X)                                                                                            \
    X(rn_tf32_f32, r_f, "cvt.rn.tf32.f32", fp32, tf32, rn, ptx, none, code)                                            \
    X(rn_relu_tf32_f32, r_f, "cvt.rn.relu.tf32.f32", fp32, tf32, rn, ptx, relu, code)                                  \
    X(rz_tf32_f32, r_f, "cvt.rz.tf32.f32", fp32, tf32, rz, ptx, none, code)                                            \
    X(rz_relu_tf32_f32, r_f, "cvt.rz.relu.tf32.f32", fp32, tf32, rz, ptx, relu, code)                                  \
    X(rn_sf_e4m3x2_f32, h_ff, "cvt.rn.satfinite.e4m3x2.f32", fp32, e4m3fn, rn, satfinite, none, code)                  \
    X(rn_sf_e4m3x2_f16x2, h_r, "cvt.rn.satfinite.e4m3x2.f16x2", fp16, e4m3fn, rn, satfinite, none, code)               \
    X(rn_f16x2_e4m3x2, r_h, "cvt.rn.f16x2.e4m3x2", e4m3fn, fp16, rn, ptx, none, code)                                  \
    X(rn_sf_relu_e4m3x2_f32, h_ff, "cvt.rn.satfinite.relu.e4m3x2.f32", fp32, e4m3fn, rn, satfinite, relu, code)        \
    X(rn_sf_relu_e4m3x2_f16x2, h_r, "cvt.rn.satfinite.relu.e4m3x2.f16x2", fp16, e4m3fn, rn, satfinite, relu, code)     \
    X(rn_relu_f16x2_e4m3x2, r_h, "cvt.rn.relu.f16x2.e4m3x2", e4m3fn, fp16, rn, ptx, relu, code)                        \
    X(rn_sf_e5m2x2_f32, h_ff, "cvt.rn.satfinite.e5m2x2.f32", fp32, e5m2, rn, satfinite, none, code)                    \
    X(rn_sf_e5m2x2_f16x2, h_r, "cvt.rn.satfinite.e5m2x2.f16x2", fp16, e5m2, rn, satfinite, none, code)                 \
    X(rn_f16x2_e5m2x2, r_h, "cvt.rn.f16x2.e5m2x2", e5m2, fp16, rn, ptx, none, code)                                    \
    X(rn_sf_relu_e5m2x2_f32, h_ff, "cvt.rn.satfinite.relu.e5m2x2.f32", fp32, e5m2, rn, satfinite, relu, code)          \
    X(rn_sf_relu_e5m2x2_f16x2, h_r, "cvt.rn.satfinite.relu.e5m2x2.f16x2", fp16, e5m2, rn, satfinite, relu, code)       \
    X(rn_relu_f16x2_e5m2x2, r_h, "cvt.rn.relu.f16x2.e5m2x2", e5m2, fp16, rn, ptx, relu, code)                          \
    X(rn_bf16_f64, h_d, "cvt.rn.bf16.f64", fp64, bf16, rn, f2f, none, code)                                            \
    X(rn_bf16_f16, h_h, "cvt.rn.bf16.f16", fp16, bf16, rn, ptx, none, code)                                            \
    X(rn_f16_bf16, h_h, "cvt.rn.f16.bf16", bf16, fp16, rn, ptx, none, code)                                            \
    X(rz_bf16_f64, h_d, "cvt.rz.bf16.f64", fp64, bf16, rz, f2f, none, code)                                            \
    X(rz_bf16_f16, h_h, "cvt.rz.bf16.f16", fp16, bf16, rz, ptx, none, code)                                            \
    X(rz_f16_bf16, h_h, "cvt.rz.f16.bf16", bf16, fp16, rz, ptx, none, code)                                            \
    X(rm_bf16_f64, h_d, "cvt.rm.bf16.f64", fp64, bf16, rm, f2f, none, code)                                            \
    X(rm_bf16_f16, h_h, "cvt.rm.bf16.f16", fp16, bf16, rm, ptx, none, code)                                            \
    X(rm_f16_bf16, h_h, "cvt.rm.f16.bf16", bf16, fp16, rm, ptx, none, code)                                            \
    X(rp_bf16_f64, h_d, "cvt.rp.bf16.f64", fp64, bf16, rp, f2f, none, code)                                            \
    X(rp_bf16_f16, h_h, "cvt.rp.bf16.f16", fp16, bf16, rp, ptx, none, code)                                            \
    X(rp_f16_bf16, h_h, "cvt.rp.f16.bf16", bf16, fp16, rp, ptx, none, code)                                            \
    X(f64_bf16, d_h, "cvt.f64.bf16", bf16, fp64, rn, f2f, none, code)

// Functions of the toolkit. The columns are X(id, function, from, to, rounding, model, elements, NaN, call).
#define MACHEPS_CVT_FUNCTIONS(X)                                                                                       \
    X(float2half_rn, "__float2half_rn", fp32, fp16, rn, nosat, one, code, (bits_of(__float2half_rn(in.x()))))          \
    X(float2bfloat16_rn, "__float2bfloat16_rn", fp32, bf16, rn, nosat, one, code,                                      \
      (bits_of(__float2bfloat16_rn(in.x()))))                                                                          \
    X(float2half_rz, "__float2half_rz", fp32, fp16, rz, nosat, one, code, (bits_of(__float2half_rz(in.x()))))          \
    X(float2bfloat16_rz, "__float2bfloat16_rz", fp32, bf16, rz, nosat, one, code,                                      \
      (bits_of(__float2bfloat16_rz(in.x()))))                                                                          \
    X(float2half_rd, "__float2half_rd", fp32, fp16, rm, nosat, one, code, (bits_of(__float2half_rd(in.x()))))          \
    X(float2bfloat16_rd, "__float2bfloat16_rd", fp32, bf16, rm, nosat, one, code,                                      \
      (bits_of(__float2bfloat16_rd(in.x()))))                                                                          \
    X(float2half_ru, "__float2half_ru", fp32, fp16, rp, nosat, one, code, (bits_of(__float2half_ru(in.x()))))          \
    X(float2bfloat16_ru, "__float2bfloat16_ru", fp32, bf16, rp, nosat, one, code,                                      \
      (bits_of(__float2bfloat16_ru(in.x()))))                                                                          \
    X(floats2half2_rn, "__floats2half2_rn", fp32, fp16, rn, nosat, two, code,                                          \
      (bits_of(__floats2half2_rn(in.x(), in.y()))))                                                                    \
    X(floats2bfloat162_rn, "__floats2bfloat162_rn", fp32, bf16, rn, nosat, two, code,                                  \
      (bits_of(__floats2bfloat162_rn(in.x(), in.y()))))                                                                \
    X(double2half, "__double2half", fp64, fp16, rn, f2f, one, code, (bits_of(__double2half(in.d()))))                  \
    X(double2bfloat16, "__double2bfloat16", fp64, bf16, rn, f2f, one, code, (bits_of(__double2bfloat16(in.d()))))      \
    X(half2float, "__half2float", fp16, fp32, rn, nosat, one, code, (bits_of(__half2float(in.half()))))                \
    X(bfloat162float, "__bfloat162float", bf16, fp32, rn, shift, one, code,                                            \
      (bits_of(__bfloat162float(in.bfloat16()))))                                                                      \
    X(float_to_e4m3_sat, "__nv_cvt_float_to_fp8.e4m3.sat", fp32, e4m3fn, rn, sat, one, code,                           \
      (__nv_cvt_float_to_fp8(in.x(), satfinite, E4M3)))                                                                \
    X(float2_to_e4m3_sat, "__nv_cvt_float2_to_fp8x2.e4m3.sat", fp32, e4m3fn, rn, sat, two, code,                       \
      (__nv_cvt_float2_to_fp8x2(in.xy(), satfinite, E4M3)))                                                            \
    X(double_to_e4m3_sat, "__nv_cvt_double_to_fp8.e4m3.sat", fp64, e4m3fn, rn, sat, one, code,                         \
      (__nv_cvt_double_to_fp8(in.d(), satfinite, E4M3)))                                                               \
    X(halfraw_to_e4m3_sat, "__nv_cvt_halfraw_to_fp8.e4m3.sat", fp16, e4m3fn, rn, sat, one, code,                       \
      (__nv_cvt_halfraw_to_fp8(in.half(), satfinite, E4M3)))                                                           \
    X(halfraw2_to_e4m3_sat, "__nv_cvt_halfraw2_to_fp8x2.e4m3.sat", fp16, e4m3fn, rn, sat, two, code,                   \
      (__nv_cvt_halfraw2_to_fp8x2(in.half2(), satfinite, E4M3)))                                                       \
    X(bfloat16raw_to_e4m3_sat, "__nv_cvt_bfloat16raw_to_fp8.e4m3.sat", bf16, e4m3fn, rn, sat, one, code,               \
      (__nv_cvt_bfloat16raw_to_fp8(in.bfloat16(), satfinite, E4M3)))                                                   \
    X(float_to_e4m3_nosat, "__nv_cvt_float_to_fp8.e4m3.nosat", fp32, e4m3fn, rn, nosat, one, code,                     \
      (__nv_cvt_float_to_fp8(in.x(), plain, E4M3)))                                                                    \
    X(float2_to_e4m3_nosat, "__nv_cvt_float2_to_fp8x2.e4m3.nosat", fp32, e4m3fn, rn, nosat, two, code,                 \
      (__nv_cvt_float2_to_fp8x2(in.xy(), plain, E4M3)))                                                                \
    X(double_to_e4m3_nosat, "__nv_cvt_double_to_fp8.e4m3.nosat", fp64, e4m3fn, rn, nosat, one, code,                   \
      (__nv_cvt_double_to_fp8(in.d(), plain, E4M3)))                                                                   \
    X(halfraw_to_e4m3_nosat, "__nv_cvt_halfraw_to_fp8.e4m3.nosat", fp16, e4m3fn, rn, nosat, one, code,                 \
      (__nv_cvt_halfraw_to_fp8(in.half(), plain, E4M3)))                                                               \
    X(halfraw2_to_e4m3_nosat, "__nv_cvt_halfraw2_to_fp8x2.e4m3.nosat", fp16, e4m3fn, rn, nosat, two, code,             \
      (__nv_cvt_halfraw2_to_fp8x2(in.half2(), plain, E4M3)))                                                           \
    X(bfloat16raw_to_e4m3_nosat, "__nv_cvt_bfloat16raw_to_fp8.e4m3.nosat", bf16, e4m3fn, rn, nosat, one, code,         \
      (__nv_cvt_bfloat16raw_to_fp8(in.bfloat16(), plain, E4M3)))                                                       \
    X(e4m3_to_halfraw, "__nv_cvt_fp8_to_halfraw.e4m3", e4m3fn, fp16, rn, nosat, one, code,                             \
      (__nv_cvt_fp8_to_halfraw(in.byte(), E4M3).x))                                                                    \
    X(e4m3x2_to_halfraw2, "__nv_cvt_fp8x2_to_halfraw2.e4m3", e4m3fn, fp16, rn, nosat, two, code,                       \
      (bits_of(__nv_cvt_fp8x2_to_halfraw2(in.two_bytes(), E4M3))))                                                     \
    X(float_to_e5m2_sat, "__nv_cvt_float_to_fp8.e5m2.sat", fp32, e5m2, rn, sat, one, code,                             \
      (__nv_cvt_float_to_fp8(in.x(), satfinite, E5M2)))                                                                \
    X(float2_to_e5m2_sat, "__nv_cvt_float2_to_fp8x2.e5m2.sat", fp32, e5m2, rn, sat, two, code,                         \
      (__nv_cvt_float2_to_fp8x2(in.xy(), satfinite, E5M2)))                                                            \
    X(double_to_e5m2_sat, "__nv_cvt_double_to_fp8.e5m2.sat", fp64, e5m2, rn, sat, one, code,                           \
      (__nv_cvt_double_to_fp8(in.d(), satfinite, E5M2)))                                                               \
    X(halfraw_to_e5m2_sat, "__nv_cvt_halfraw_to_fp8.e5m2.sat", fp16, e5m2, rn, sat, one, code,                         \
      (__nv_cvt_halfraw_to_fp8(in.half(), satfinite, E5M2)))                                                           \
    X(halfraw2_to_e5m2_sat, "__nv_cvt_halfraw2_to_fp8x2.e5m2.sat", fp16, e5m2, rn, sat, two, code,                     \
      (__nv_cvt_halfraw2_to_fp8x2(in.half2(), satfinite, E5M2)))                                                       \
    X(bfloat16raw_to_e5m2_sat, "__nv_cvt_bfloat16raw_to_fp8.e5m2.sat", bf16, e5m2, rn, sat, one, code,                 \
      (__nv_cvt_bfloat16raw_to_fp8(in.bfloat16(), satfinite, E5M2)))                                                   \
    X(float_to_e5m2_nosat, "__nv_cvt_float_to_fp8.e5m2.nosat", fp32, e5m2, rn, nosat, one, code,                       \
      (__nv_cvt_float_to_fp8(in.x(), plain, E5M2)))                                                                    \
    X(float2_to_e5m2_nosat, "__nv_cvt_float2_to_fp8x2.e5m2.nosat", fp32, e5m2, rn, nosat, two, code,                   \
      (__nv_cvt_float2_to_fp8x2(in.xy(), plain, E5M2)))                                                                \
    X(double_to_e5m2_nosat, "__nv_cvt_double_to_fp8.e5m2.nosat", fp64, e5m2, rn, nosat, one, code,                     \
      (__nv_cvt_double_to_fp8(in.d(), plain, E5M2)))                                                                   \
    X(halfraw_to_e5m2_nosat, "__nv_cvt_halfraw_to_fp8.e5m2.nosat", fp16, e5m2, rn, nosat, one, code,                   \
      (__nv_cvt_halfraw_to_fp8(in.half(), plain, E5M2)))                                                               \
    X(halfraw2_to_e5m2_nosat, "__nv_cvt_halfraw2_to_fp8x2.e5m2.nosat", fp16, e5m2, rn, nosat, two, code,               \
      (__nv_cvt_halfraw2_to_fp8x2(in.half2(), plain, E5M2)))                                                           \
    X(bfloat16raw_to_e5m2_nosat, "__nv_cvt_bfloat16raw_to_fp8.e5m2.nosat", bf16, e5m2, rn, nosat, one, code,           \
      (__nv_cvt_bfloat16raw_to_fp8(in.bfloat16(), plain, E5M2)))                                                       \
    X(e5m2_to_halfraw, "__nv_cvt_fp8_to_halfraw.e5m2", e5m2, fp16, rn, nosat, one, code,                               \
      (__nv_cvt_fp8_to_halfraw(in.byte(), E5M2).x))                                                                    \
    X(e5m2x2_to_halfraw2, "__nv_cvt_fp8x2_to_halfraw2.e5m2", e5m2, fp16, rn, nosat, two, code,                         \
      (bits_of(__nv_cvt_fp8x2_to_halfraw2(in.two_bytes(), E5M2))))                                                     \
    X(float_to_e2m3, "__nv_cvt_float_to_fp6.e2m3", fp32, e2m3fn, rn, sat, one, code,                                   \
      (__nv_cvt_float_to_fp6(in.x(), E2M3, nearest)))                                                                  \
    X(double_to_e2m3, "__nv_cvt_double_to_fp6.e2m3", fp64, e2m3fn, rn, sat, one, code,                                 \
      (__nv_cvt_double_to_fp6(in.d(), E2M3, nearest)))                                                                 \
    X(float_to_e3m2, "__nv_cvt_float_to_fp6.e3m2", fp32, e3m2fn, rn, sat, one, code,                                   \
      (__nv_cvt_float_to_fp6(in.x(), E3M2, nearest)))                                                                  \
    X(double_to_e3m2, "__nv_cvt_double_to_fp6.e3m2", fp64, e3m2fn, rn, sat, one, code,                                 \
      (__nv_cvt_double_to_fp6(in.d(), E3M2, nearest)))                                                                 \
    X(float_to_e2m1, "__nv_cvt_float_to_fp4.e2m1", fp32, e2m1fn, rn, sat, one, code,                                   \
      (__nv_cvt_float_to_fp4(in.x(), E2M1, nearest)))                                                                  \
    X(float2_to_e2m1x2, "__nv_cvt_float2_to_fp4x2.e2m1", fp32, e2m1fn, rn, sat, two, code,                             \
      (__nv_cvt_float2_to_fp4x2(in.xy(), E2M1, nearest)))                                                              \
    X(double_to_e2m1, "__nv_cvt_double_to_fp4.e2m1", fp64, e2m1fn, rn, sat, one, code,                                 \
      (__nv_cvt_double_to_fp4(in.d(), E2M1, nearest)))                                                                 \
    X(float_to_e8m0_rz_sat, "__nv_cvt_float_to_e8m0.rz.sat", fp32, e8m0fnu, rz, sat, one, code,                        \
      (__nv_cvt_float_to_e8m0(in.x(), satfinite, zero)))                                                               \
    X(float_to_e8m0x2_rz, "__nv_cvt_float2_to_e8m0x2.rz.sat", fp32, e8m0fnu, rz, sat, two, code,                       \
      (__nv_cvt_float2_to_e8m0x2(in.xy(), satfinite, zero)))                                                           \
    X(double_to_e8m0_rz_sat, "__nv_cvt_double_to_e8m0.rz.sat", fp64, e8m0fnu, rz, sat, one, code,                      \
      (__nv_cvt_double_to_e8m0(in.d(), satfinite, zero)))                                                              \
    X(bfloat16raw_to_e8m0_rz_sat, "__nv_cvt_bfloat16raw_to_e8m0.rz.sat", bf16, e8m0fnu, rz, sat, one, code,            \
      (__nv_cvt_bfloat16raw_to_e8m0(in.bfloat16(), satfinite, zero)))                                                  \
    X(float_to_e8m0_rz_nosat, "__nv_cvt_float_to_e8m0.rz.nosat", fp32, e8m0fnu, rz, nosat, one, code,                  \
      (__nv_cvt_float_to_e8m0(in.x(), plain, zero)))                                                                   \
    X(double_to_e8m0_rz_nosat, "__nv_cvt_double_to_e8m0.rz.nosat", fp64, e8m0fnu, rz, nosat, one, code,                \
      (__nv_cvt_double_to_e8m0(in.d(), plain, zero)))                                                                  \
    X(bfloat16raw_to_e8m0_rz_nosat, "__nv_cvt_bfloat16raw_to_e8m0.rz.nosat", bf16, e8m0fnu, rz, nosat, one, code,      \
      (__nv_cvt_bfloat16raw_to_e8m0(in.bfloat16(), plain, zero)))                                                      \
    X(float_to_e8m0_rp_sat, "__nv_cvt_float_to_e8m0.rp.sat", fp32, e8m0fnu, rp, sat, one, code,                        \
      (__nv_cvt_float_to_e8m0(in.x(), satfinite, posinf)))                                                             \
    X(float_to_e8m0x2_rp, "__nv_cvt_float2_to_e8m0x2.rp.sat", fp32, e8m0fnu, rp, sat, two, code,                       \
      (__nv_cvt_float2_to_e8m0x2(in.xy(), satfinite, posinf)))                                                         \
    X(double_to_e8m0_rp_sat, "__nv_cvt_double_to_e8m0.rp.sat", fp64, e8m0fnu, rp, sat, one, code,                      \
      (__nv_cvt_double_to_e8m0(in.d(), satfinite, posinf)))                                                            \
    X(bfloat16raw_to_e8m0_rp_sat, "__nv_cvt_bfloat16raw_to_e8m0.rp.sat", bf16, e8m0fnu, rp, sat, one, code,            \
      (__nv_cvt_bfloat16raw_to_e8m0(in.bfloat16(), satfinite, posinf)))                                                \
    X(float_to_e8m0_rp_nosat, "__nv_cvt_float_to_e8m0.rp.nosat", fp32, e8m0fnu, rp, nosat, one, code,                  \
      (__nv_cvt_float_to_e8m0(in.x(), plain, posinf)))                                                                 \
    X(double_to_e8m0_rp_nosat, "__nv_cvt_double_to_e8m0.rp.nosat", fp64, e8m0fnu, rp, nosat, one, code,                \
      (__nv_cvt_double_to_e8m0(in.d(), plain, posinf)))                                                                \
    X(bfloat16raw_to_e8m0_rp_nosat, "__nv_cvt_bfloat16raw_to_e8m0.rp.nosat", bf16, e8m0fnu, rp, nosat, one, code,      \
      (__nv_cvt_bfloat16raw_to_e8m0(in.bfloat16(), plain, posinf)))                                                    \
    X(e8m0_to_bf16raw, "__nv_cvt_e8m0_to_bf16raw", e8m0fnu, bf16, rn, nosat, one, code,                                \
      (__nv_cvt_e8m0_to_bf16raw(in.byte()).x))                                                                         \
    X(halfraw_to_e2m3, "__nv_cvt_halfraw_to_fp6.e2m3", fp16, e2m3fn, rn, sat, one, code,                               \
      (__nv_cvt_halfraw_to_fp6(in.half(), E2M3, nearest)))                                                             \
    X(halfraw2_to_e2m3x2, "__nv_cvt_halfraw2_to_fp6x2.e2m3", fp16, e2m3fn, rn, sat, two, code,                         \
      (__nv_cvt_halfraw2_to_fp6x2(in.half2(), E2M3, nearest)))                                                         \
    X(bfloat16raw_to_e2m3, "__nv_cvt_bfloat16raw_to_fp6.e2m3", bf16, e2m3fn, rn, sat, one, code,                       \
      (__nv_cvt_bfloat16raw_to_fp6(in.bfloat16(), E2M3, nearest)))                                                     \
    X(e2m3_to_halfraw, "__nv_cvt_fp6_to_halfraw.e2m3", e2m3fn, fp16, rn, nosat, one, code,                             \
      (__nv_cvt_fp6_to_halfraw(in.byte(), E2M3).x))                                                                    \
    X(float2_to_e2m3x2, "__nv_cvt_float2_to_fp6x2.e2m3", fp32, e2m3fn, rn, sat, two, code,                             \
      (__nv_cvt_float2_to_fp6x2(in.xy(), E2M3, nearest)))                                                              \
    X(halfraw_to_e3m2, "__nv_cvt_halfraw_to_fp6.e3m2", fp16, e3m2fn, rn, sat, one, code,                               \
      (__nv_cvt_halfraw_to_fp6(in.half(), E3M2, nearest)))                                                             \
    X(halfraw2_to_e3m2x2, "__nv_cvt_halfraw2_to_fp6x2.e3m2", fp16, e3m2fn, rn, sat, two, code,                         \
      (__nv_cvt_halfraw2_to_fp6x2(in.half2(), E3M2, nearest)))                                                         \
    X(bfloat16raw_to_e3m2, "__nv_cvt_bfloat16raw_to_fp6.e3m2", bf16, e3m2fn, rn, sat, one, code,                       \
      (__nv_cvt_bfloat16raw_to_fp6(in.bfloat16(), E3M2, nearest)))                                                     \
    X(e3m2_to_halfraw, "__nv_cvt_fp6_to_halfraw.e3m2", e3m2fn, fp16, rn, nosat, one, code,                             \
      (__nv_cvt_fp6_to_halfraw(in.byte(), E3M2).x))                                                                    \
    X(float2_to_e3m2x2, "__nv_cvt_float2_to_fp6x2.e3m2", fp32, e3m2fn, rn, sat, two, code,                             \
      (__nv_cvt_float2_to_fp6x2(in.xy(), E3M2, nearest)))                                                              \
    X(halfraw_to_e2m1, "__nv_cvt_halfraw_to_fp4.e2m1", fp16, e2m1fn, rn, sat, one, code,                               \
      (__nv_cvt_halfraw_to_fp4(in.half(), E2M1, nearest)))                                                             \
    X(halfraw2_to_e2m1x2, "__nv_cvt_halfraw2_to_fp4x2.e2m1", fp16, e2m1fn, rn, sat, two, code,                         \
      (__nv_cvt_halfraw2_to_fp4x2(in.half2(), E2M1, nearest)))                                                         \
    X(bfloat16raw_to_e2m1, "__nv_cvt_bfloat16raw_to_fp4.e2m1", bf16, e2m1fn, rn, sat, one, code,                       \
      (__nv_cvt_bfloat16raw_to_fp4(in.bfloat16(), E2M1, nearest)))                                                     \
    X(e2m1_to_halfraw, "__nv_cvt_fp4_to_halfraw.e2m1", e2m1fn, fp16, rn, nosat, one, code,                             \
      (__nv_cvt_fp4_to_halfraw(in.byte(), E2M1).x))                                                                    \
    X(bfloat16raw2_to_e4m3x2, "__nv_cvt_bfloat16raw2_to_fp8x2.e4m3.sat", bf16, e4m3fn, rn, sat, two, code,             \
      (__nv_cvt_bfloat16raw2_to_fp8x2(in.bfloat162(), satfinite, E4M3)))                                               \
    X(bfloat16raw2_to_e5m2x2, "__nv_cvt_bfloat16raw2_to_fp8x2.e5m2.sat", bf16, e5m2, rn, sat, two, code,               \
      (__nv_cvt_bfloat16raw2_to_fp8x2(in.bfloat162(), satfinite, E5M2)))
// clang-format on
