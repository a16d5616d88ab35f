// SPDX-License-Identifier: Apache-2.0
// Probe of one conversion of the device. It compares the results with those of the codec (core/codec.hpp).
#pragma once
#include "emulation/evidence/gpu/scalar/convert_model.hpp"

// Turns off the warnings of host compilers about unused parameters in the toolkit's headers.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
#pragma GCC diagnostic pop

namespace macheps::evidence {

namespace detail {

/// Operands, converted to the types that the functions of the CUDA toolkit take. The first element of a packed pair is
/// the low half.
struct ConvertInput {
    std::uint64_t a, b;

    MACHEPS_HD float x() const { return bit_cast<float>(static_cast<std::uint32_t>(a)); }
    MACHEPS_HD float y() const { return bit_cast<float>(static_cast<std::uint32_t>(b)); }
    MACHEPS_HD float2 xy() const { return make_float2(x(), y()); }
    MACHEPS_HD double d() const { return bit_cast<double>(a); }
    MACHEPS_HD __half_raw half() const {
        __half_raw raw;
        raw.x = static_cast<unsigned short>(a);
        return raw;
    }
    MACHEPS_HD __half2_raw half2() const {
        __half2_raw raw;
        raw.x = static_cast<unsigned short>(a);
        raw.y = static_cast<unsigned short>(a >> 16);
        return raw;
    }
    MACHEPS_HD __nv_bfloat16_raw bfloat16() const {
        __nv_bfloat16_raw raw;
        raw.x = static_cast<unsigned short>(a);
        return raw;
    }
    MACHEPS_HD __nv_bfloat162_raw bfloat162() const {
        __nv_bfloat162_raw raw;
        raw.x = static_cast<unsigned short>(a);
        raw.y = static_cast<unsigned short>(a >> 16);
        return raw;
    }
    MACHEPS_HD __nv_fp8_storage_t byte() const { return static_cast<__nv_fp8_storage_t>(a); }
    MACHEPS_HD __nv_fp8x2_storage_t two_bytes() const { return static_cast<__nv_fp8x2_storage_t>(a); }
};

MACHEPS_HD inline std::uint64_t bits_of(float x) { return bit_cast<std::uint32_t>(x); }
MACHEPS_HD inline std::uint64_t bits_of(double x) { return bit_cast<std::uint64_t>(x); }
MACHEPS_HD inline std::uint64_t bits_of(__half x) { return static_cast<__half_raw>(x).x; }
MACHEPS_HD inline std::uint64_t bits_of(__nv_bfloat16 x) { return static_cast<__nv_bfloat16_raw>(x).x; }
MACHEPS_HD inline std::uint64_t bits_of(__half2_raw x) { return x.x | std::uint64_t{x.y} << 16; }
MACHEPS_HD inline std::uint64_t bits_of(__half2 x) { return bits_of(static_cast<__half2_raw>(x)); }
MACHEPS_HD inline std::uint64_t bits_of(__nv_bfloat162 x) {
    const auto raw = static_cast<__nv_bfloat162_raw>(x);
    return raw.x | std::uint64_t{raw.y} << 16;
}

}  // namespace detail

/// Computes the result with the device's instruction or function. Returns false if the device does not have it. In a
/// host build, `convert_on_host` (convert_bodies.hpp) emulates the instructions, and the toolkit's host code provides
/// the functions.
MACHEPS_KERNEL inline bool convert_by_hardware(const ConvertRow& row, std::uint64_t a, std::uint64_t b,
                                               std::uint64_t& result);

}  // namespace macheps::evidence

#include "emulation/evidence/gpu/scalar/convert_bodies.hpp"

namespace macheps::evidence {

/// Probe of a conversion of the device.
struct ConvertProbe {
    ConvertRow row;
    bool fault = false;

    MACHEPS_HD constexpr std::uint64_t inputs() const { return ConvertByModel{row}.inputs(); }

    MACHEPS_KERNEL Trial operator()(std::uint64_t index) const {
        const ConvertByModel model{row};
        const Operands x = model.operands(index);
        Trial trial;
        trial.a = x.a;
        trial.b = x.b;
        trial.offered = convert_by_hardware(row, trial.a, trial.b, trial.got);
        const bool two = row.elements == Elements::two;
        const int to_bits = packed_bits(row.to);
        trial.kind = class_of(row.from, model.low(x));
        if (two) trial.kind = max_of(trial.kind, class_of(row.from, model.high(x)));
        trial.want = model.result(x);
        if (fault) trial.want ^= std::uint64_t{1} << row.to.padding;
        const std::uint64_t mask = to_bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << to_bits) - 1;
        for (int shift = 0; shift <= (two ? to_bits : 0); shift += to_bits) {
            const std::uint64_t got = trial.got >> shift & mask, want = trial.want >> shift & mask;
            if (same_bits(got, want)) continue;
            const bool free = row.nan == NanResult::any && is_nan_code(row.to, got) && is_nan_code(row.to, want);
            trial.differs = trial.differs || !free;
            trial.nan_code = trial.nan_code || free;
        }
        // The bits of the result above its elements must be zero.
        const int all_bits = two ? 2 * to_bits : to_bits;
        if (all_bits < 64 && trial.got >> all_bits != 0) trial.differs = true;
        return trial;
    }

  private:
    /// Returns whether two codes agree in the bits that the ISA defines. The padding bits below a tf32 code are not
    /// defined.
    MACHEPS_HD bool same_bits(std::uint64_t got, std::uint64_t want) const {
        return got >> row.to.padding == want >> row.to.padding;
    }
};

}  // namespace macheps::evidence
