// SPDX-License-Identifier: Apache-2.0
// Implementation of convert_by_hardware(), included by convert.hpp. It uses inline PTX on a device, and the host
// functions of the CUDA toolkit elsewhere.
#pragma once

namespace macheps::evidence {

namespace detail {

/// Calls the function of the toolkit that row `id` names. Returns false if the row names an instruction instead. The
/// source is the same for device and host.
MACHEPS_HD inline bool convert_by_function(Convert id, const ConvertInput& in, std::uint64_t& result) {
    constexpr auto satfinite = __NV_SATFINITE, plain = __NV_NOSAT;
    constexpr auto E4M3 = __NV_E4M3, E5M2 = __NV_E5M2;
    constexpr auto E2M3 = __NV_E2M3, E3M2 = __NV_E3M2;
    constexpr auto E2M1 = __NV_E2M1;
    constexpr auto nearest = cudaRoundNearest, zero = cudaRoundZero, posinf = cudaRoundPosInf;
    switch (id) {
#define MACHEPS_CASE(id, name, from, to, mode, model, elements, nan, call) \
    case Convert::id:                                                      \
        result = static_cast<std::uint64_t>(call);                         \
        return true;
        MACHEPS_CVT_FUNCTIONS(MACHEPS_CASE)
#undef MACHEPS_CASE
        default:
            return false;
    }
}

#if !defined(__CUDACC__)

/// Returns the result of the instruction F2F on an H100 if the operand is NaN. The result is a NaN that is quiet, has
/// the same sign, and keeps as many bits of the payload as fit into the result. The host functions of the toolkit
/// return 7fff instead.
inline std::uint64_t nan_by_f2f(Format from, Format to, std::uint64_t code) {
    const std::uint64_t fraction = (code & (from.min_normal_code() - 1)) << (52 - from.fraction_bits());
    const std::uint64_t quiet = 0x7ff8000000000000 | fraction, sign = code >> (from.bits - 1);
    const std::uint64_t kept = quiet >> (52 - to.fraction_bits()) & to.magnitude_mask();
    return sign << (to.bits - 1) | to.inf_code() | kept;
}

/// Emulates a conversion instruction for one element. Uses a host function of the toolkit if there is one, and the
/// codec otherwise.
inline std::uint64_t convert_on_host(const ConvertRow& row, std::uint64_t code) {
    const ConvertInput in{code, 0};
    if ((row.from.bits == 64 || row.to.bits == 64) && class_of(row.from, code) == InputClass::nan) {
        return nan_by_f2f(row.from, row.to, code);
    }
    if (row.to == tf32 && row.mode == Round::nearest_away) {  // the steps that ptxas generates (seen with nvdisasm)
        auto bits = static_cast<std::uint32_t>(code);
        if ((bits & 0x7fffffff) < 0x7f800000) bits += 0x1000;
        bits &= 0xffffe000;
        const bool saturates = row.model.profile.saturates == Reach::every_format;
        return saturates && (bits & 0x7fffffff) >= 0x7f800000 ? bits - 0x2000 : bits;
    }
    const auto is = [](Format f, Format g) { return f == g; };
    std::uint64_t result = 0;
    bool found = true;
    if (is(row.from, fp32) && is(row.to, fp16)) {
        const float x = in.x();
        result = bits_of(row.mode == Round::nearest_even  ? __float2half_rn(x)
                         : row.mode == Round::toward_zero ? __float2half_rz(x)
                         : row.mode == Round::down        ? __float2half_rd(x)
                                                          : __float2half_ru(x));
    } else if (is(row.from, fp32) && is(row.to, bf16)) {
        const float x = in.x();
        result = bits_of(row.mode == Round::nearest_even  ? __float2bfloat16_rn(x)
                         : row.mode == Round::toward_zero ? __float2bfloat16_rz(x)
                         : row.mode == Round::down        ? __float2bfloat16_rd(x)
                                                          : __float2bfloat16_ru(x));
    } else if (row.to.bits == 8 && is(row.from, fp32)) {
        result = __nv_cvt_float_to_fp8(in.x(), __NV_SATFINITE, is(row.to, e5m2) ? __NV_E5M2 : __NV_E4M3);
    } else if (row.to.bits == 8 && is(row.from, fp16)) {
        result = __nv_cvt_halfraw_to_fp8(in.half(), __NV_SATFINITE, is(row.to, e5m2) ? __NV_E5M2 : __NV_E4M3);
    } else if (row.from.bits == 8) {
        result = __nv_cvt_fp8_to_halfraw(in.byte(), is(row.from, e5m2) ? __NV_E5M2 : __NV_E4M3).x;
    } else if (is(row.from, fp16) && is(row.to, fp32)) {
        result = bits_of(__half2float(in.half()));
    } else if (is(row.from, bf16) && is(row.to, fp32)) {
        result = code << 16;
    } else if (row.mode == Round::nearest_even && is(row.from, fp64)) {
        result = is(row.to, fp32)   ? bits_of(static_cast<float>(in.d()))
                 : is(row.to, fp16) ? bits_of(__double2half(in.d()))
                                    : bits_of(__double2bfloat16(in.d()));
    } else if (row.mode == Round::nearest_even && is(row.from, fp32) && is(row.to, fp64)) {
        result = bits_of(static_cast<double>(in.x()));
    } else {
        found = false;
    }
    if (!found) {
        const Profile profile = row.model.profile;
        result = is(row.from, fp64)   ? encode64(profile, row.to, in.d(), row.mode)
                 : is(row.from, fp32) ? encode64(profile, row.to, in.x(), row.mode)
                                      : encode64(profile, row.to, decode(row.from, code), row.mode);
    }
    const InputClass kind = class_of(row.to, result);
    const std::uint64_t sign = row.to.sign_bit() << row.to.padding;
    if (kind == InputClass::infinite && row.model.profile.saturates == Reach::every_format) --result;
    if (row.after == After::none) return result;
    if (kind == InputClass::nan) return row.after == After::unit ? 0 : result;
    if ((result & sign) != 0) return 0;
    if (row.after == After::unit && decode(row.to, result) > 1)
        return encode(row.to, 1.0f, row.mode, Overflow::saturate);
    return result;
}

#endif

}  // namespace detail

MACHEPS_KERNEL inline bool convert_by_hardware(const ConvertRow& row, std::uint64_t a, std::uint64_t b,
                                               std::uint64_t& result) {
    const detail::ConvertInput in{a, b};
    result = 0;
#if !defined(__CUDACC__)
    if ((row.id == Convert::double2half || row.id == Convert::double2bfloat16) &&
        class_of(fp64, a) == InputClass::nan) {
        result = detail::nan_by_f2f(fp64, convert_rows[static_cast<std::size_t>(row.id)].to, a);
        return true;
    }
#endif
    if (detail::convert_by_function(row.id, in, result)) return true;
#if !defined(__CUDACC__)
    // Uses the row of the table, because tests pass a changed `row`.
    const ConvertRow& own = convert_rows[static_cast<std::size_t>(row.id)];
    if (own.elements == Elements::one) {
        result = detail::convert_on_host(own, a);
        return true;
    }
    const int bits = own.from.container_bits();
    const std::uint64_t low = bits == 32 ? a : a & ((std::uint64_t{1} << bits) - 1), high = bits == 32 ? b : a >> bits;
    result = detail::convert_on_host(own, low) | detail::convert_on_host(own, high) << packed_bits(own.to);
    return true;
#else
    [[maybe_unused]] const float x = in.x(), y = in.y();
    [[maybe_unused]] const double d = in.d();
    [[maybe_unused]] const auto word = static_cast<std::uint32_t>(a);
    [[maybe_unused]] const auto half = static_cast<unsigned short>(a);
    [[maybe_unused]] unsigned short h = 0;
    [[maybe_unused]] std::uint32_t r = 0;
    [[maybe_unused]] float f = 0;
    [[maybe_unused]] double g = 0;
    // A cvt of two sources puts the converted first source in the upper half of the result. The upper half is the
    // second element, so the first source is y.
#define MACHEPS_h_f(ptx)                    \
    asm(ptx " %0, %1;" : "=h"(h) : "f"(x)); \
    result = h
#define MACHEPS_r_f(ptx)                    \
    asm(ptx " %0, %1;" : "=r"(r) : "f"(x)); \
    result = r
#define MACHEPS_r_ff(ptx)                               \
    asm(ptx " %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x)); \
    result = r
#define MACHEPS_h_ff(ptx)                               \
    asm(ptx " %0, %1, %2;" : "=h"(h) : "f"(y), "f"(x)); \
    result = h
#define MACHEPS_h_r(ptx)                       \
    asm(ptx " %0, %1;" : "=h"(h) : "r"(word)); \
    result = h
#define MACHEPS_r_h(ptx)                       \
    asm(ptx " %0, %1;" : "=r"(r) : "h"(half)); \
    result = r
#define MACHEPS_h_h(ptx)                       \
    asm(ptx " %0, %1;" : "=h"(h) : "h"(half)); \
    result = h
#define MACHEPS_f_h(ptx)                       \
    asm(ptx " %0, %1;" : "=f"(f) : "h"(half)); \
    result = detail::bits_of(f)
#define MACHEPS_f_d(ptx)                    \
    asm(ptx " %0, %1;" : "=f"(f) : "d"(d)); \
    result = detail::bits_of(f)
#define MACHEPS_h_d(ptx)                    \
    asm(ptx " %0, %1;" : "=h"(h) : "d"(d)); \
    result = h
#define MACHEPS_d_f(ptx)                    \
    asm(ptx " %0, %1;" : "=d"(g) : "f"(x)); \
    result = detail::bits_of(g)
#define MACHEPS_d_h(ptx)                       \
    asm(ptx " %0, %1;" : "=d"(g) : "h"(half)); \
    result = detail::bits_of(g)
#define MACHEPS_CASE(id, shape, name, from, to, mode, model, after, nan) \
    case Convert::id:                                                    \
        MACHEPS_##shape(name);                                           \
        return true;
    switch (row.id) {
#if __CUDA_ARCH__ >= 800
        MACHEPS_CVT_SM80(MACHEPS_CASE)
#endif
#if __CUDA_ARCH__ >= 900
        MACHEPS_CVT_SM90(MACHEPS_CASE)
#endif
        default:
            return false;
    }
#undef MACHEPS_CASE
#endif
}

}  // namespace macheps::evidence
