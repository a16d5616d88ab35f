// SPDX-License-Identifier: Apache-2.0
// The converts that sm_90 has in hardware, one instruction each, against the device-compiled codec. Include from .cu
// files.
#pragma once
#include "core/codec.hpp"
#include "core/profile.hpp"
#include "emulation/gpu/device.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace macheps::gpu {

enum class Cvt { f16_rn, f16_rz, bf16_rn, bf16_rz, tf32_rna, tf32_rn, tf32_rz, e4m3_satfinite, e5m2_satfinite };

/// One instruction, and the cast it should equal (PTX ISA, "cvt").
struct CvtRow {
    Cvt cvt;
    const char* instruction;
    Format format;
    Round mode;
    Overflow overflow;
    std::uint32_t mask;  ///< the bits of the result that the ISA defines
};

inline constexpr CvtRow cvt_rows[] = {
    {Cvt::f16_rn, "cvt.rn.f16.f32", fp16, Round::nearest_even, Overflow::nonsaturate, 0xffff},
    {Cvt::bf16_rn, "cvt.rn.bf16.f32", bf16, Round::nearest_even, Overflow::nonsaturate, 0xffff},
    {Cvt::e4m3_satfinite, "cvt.rn.satfinite.e4m3x2.f32", e4m3fn, Round::nearest_even, Overflow::saturate, 0xff},
    {Cvt::e5m2_satfinite, "cvt.rn.satfinite.e5m2x2.f32", e5m2, Round::nearest_even, Overflow::saturate, 0xff},
    {Cvt::tf32_rna, "cvt.rna.tf32.f32", tf32, Round::nearest_away, Overflow::nonsaturate, 0xffffe000},
    {Cvt::tf32_rn, "cvt.rn.tf32.f32", tf32, Round::nearest_even, Overflow::nonsaturate, 0xffffe000},
    {Cvt::tf32_rz, "cvt.rz.tf32.f32", tf32, Round::toward_zero, Overflow::nonsaturate, 0xffffe000},
    {Cvt::f16_rz, "cvt.rz.f16.f32", fp16, Round::toward_zero, Overflow::nonsaturate, 0xffff},
    {Cvt::bf16_rz, "cvt.rz.bf16.f32", bf16, Round::toward_zero, Overflow::nonsaturate, 0xffff},
};

enum class CvtClass { zero, subnormal, normal, infinite, nan, count };
inline constexpr const char* cvt_class_names[] = {"zero", "subnormal", "normal", "infinite", "nan"};

struct CvtCounts {
    unsigned long long differing[static_cast<int>(CvtClass::count)];
    unsigned long long compared;
    unsigned int stored;
};
inline constexpr unsigned int cvt_stored_limit = 1u << 16;

#if defined(__CUDACC__)
/// False below sm_90.
__device__ inline bool hardware_cvt(Cvt cvt, float x, std::uint32_t& code) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    unsigned short half = 0;
    switch (cvt) {
        case Cvt::f16_rn:
            asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
            break;
        case Cvt::f16_rz:
            asm("cvt.rz.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
            break;
        case Cvt::bf16_rn:
            asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(x));
            break;
        case Cvt::bf16_rz:
            asm("cvt.rz.bf16.f32 %0, %1;" : "=h"(half) : "f"(x));
            break;
        case Cvt::tf32_rna:
            asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(code) : "f"(x));
            return true;
        case Cvt::tf32_rn:
            asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(code) : "f"(x));
            return true;
        case Cvt::tf32_rz:
            asm("cvt.rz.tf32.f32 %0, %1;" : "=r"(code) : "f"(x));
            return true;
        // The second source lands in the low half; both get x, and a difference between the halves shows above 0xff.
        case Cvt::e4m3_satfinite:
            asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %1;" : "=h"(half) : "f"(x));
            break;
        case Cvt::e5m2_satfinite:
            asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %1;" : "=h"(half) : "f"(x));
            break;
    }
    code = half;
    if (cvt == Cvt::e4m3_satfinite || cvt == Cvt::e5m2_satfinite) {
        code = (half & 0xff) == (half >> 8) ? half & 0xff : 0x10000u | half;
    }
    return true;
#else
    (void)cvt, (void)x, code = 0;
    return false;
#endif
}

/// What the codec says: the generic rules for numbers, NVIDIA's codes for NaN.
__device__ inline std::uint32_t codec_cvt(const CvtRow& row, float x) {
    if (x == x) return encode(row.format, x, row.mode, row.overflow);
    return encode(Profile{.nan = NanCodes::nvidia}, row.format, x, row.mode);
}

/// Inputs first .. first + gridDim.x * blockDim.x - 1. `found` receives up to cvt_stored_limit differing inputs.
__global__ void compare_cvt(CvtRow row, std::uint32_t first, CvtCounts* counts, std::uint32_t* found) {
    const std::uint32_t u = first + blockIdx.x * blockDim.x + threadIdx.x, magnitude = u & 0x7fffffffu;
    const auto x = bit_cast<float>(u);
    std::uint32_t got = 0;
    if (!hardware_cvt(row.cvt, x, got)) return;
    atomicAdd(&counts->compared, 1ull);
    const std::uint32_t halves_differ = row.format.bits == 8 ? got & 0x10000u : 0;
    if ((got & row.mask) == codec_cvt(row, x) && halves_differ == 0) return;
    const CvtClass kind = magnitude == 0             ? CvtClass::zero
                          : magnitude < 0x800000u    ? CvtClass::subnormal
                          : magnitude < 0x7f800000u  ? CvtClass::normal
                          : magnitude == 0x7f800000u ? CvtClass::infinite
                                                     : CvtClass::nan;
    atomicAdd(&counts->differing[static_cast<int>(kind)], 1ull);
    const unsigned int slot = atomicAdd(&counts->stored, 1u);
    if (slot < cvt_stored_limit) found[slot] = u;
}

/// What the instruction and the codec make of a list of inputs.
__global__ void show_cvt(CvtRow row, const std::uint32_t* inputs, std::uint32_t count, std::uint32_t* results) {
    for (std::uint32_t i = 0; i < count; ++i) {
        (void)hardware_cvt(row.cvt, bit_cast<float>(inputs[i]), results[2 * i]);
        results[2 * i + 1] = codec_cvt(row, bit_cast<float>(inputs[i]));
    }
}

/// Every instruction over all 2^32 inputs; prints counts by the input's class and the ten first differing inputs.
/// Returns how many instructions disagree with the codec.
inline int sweep_cvt() {
    int disagreeing = 0;
    for (const CvtRow& row : cvt_rows) {
        DeviceArray<CvtCounts> counts(1);
        DeviceArray<std::uint32_t> found(cvt_stored_limit);
        counts.clear();
        std::vector<std::uint32_t> first_found;
        // Ascending chunks, so that the first chunks' list holds the smallest inputs.
        constexpr std::uint32_t threads = 256, chunk_blocks = 1u << 18;
        for (std::uint64_t first = 0; first < (std::uint64_t{1} << 32);
             first += std::uint64_t{threads} * chunk_blocks) {
            compare_cvt<<<chunk_blocks, threads>>>(row, static_cast<std::uint32_t>(first), counts.data(), found.data());
            MACHEPS_CUDA_CHECK_LAUNCH();
            if (!first_found.empty()) continue;
            const auto stored = std::min(counts.download()[0].stored, cvt_stored_limit);
            if (stored == 0) continue;
            first_found = found.download();
            first_found.resize(stored);
            std::sort(first_found.begin(), first_found.end());
        }
        const CvtCounts total = counts.download()[0];
        if (total.compared == 0) {
            std::printf("hardware,%s,not on this device\n", row.instruction);
            continue;
        }
        std::printf("hardware,%s,compared=%llu", row.instruction, total.compared);
        for (int k = 0; k < static_cast<int>(CvtClass::count); ++k) {
            std::printf(",%s=%llu", cvt_class_names[k], total.differing[k]);
        }
        std::printf("\n");
        if (total.stored == 0) continue;
        ++disagreeing;
        first_found.resize(std::min<std::size_t>(first_found.size(), 10));
        DeviceArray<std::uint32_t> inputs(first_found.size()), results(2 * first_found.size());
        MACHEPS_CUDA_CHECK(
            cudaMemcpy(inputs.data(), first_found.data(), first_found.size() * 4, cudaMemcpyHostToDevice));
        show_cvt<<<1, 1>>>(row, inputs.data(), static_cast<std::uint32_t>(first_found.size()), results.data());
        MACHEPS_CUDA_CHECK_LAUNCH();
        const auto shown = results.download();
        for (std::size_t i = 0; i < first_found.size(); ++i) {
            std::printf("  input %08x: instruction %08x, codec %08x\n", first_found[i], shown[2 * i], shown[2 * i + 1]);
        }
    }
    return disagreeing;
}
#endif

}  // namespace macheps::gpu
