// SPDX-License-Identifier: Apache-2.0
// Backend::matmul on a device, written once for CudaDevice and HostDevice. Which kernel runs changes no bit.
#pragma once
#include "emulation/gpu/matmul/emulated.hpp"
#include "emulation/gpu/matmul/matrix_units.hpp"
#include "emulation/gpu/matmul/wgmma_kernel.hpp"

namespace macheps::gpu {

/// The kernel that a matmul takes.
enum class MatmulPath : std::uint8_t {
    definition,  ///< one thread per output, the scalar definition
    fp32_chain,  ///< tiles on CUDA cores
    mma,         ///< mma.sync
    wgmma,       ///< wgmma on sm_90a
    emulated,    ///< tiles of a machine that is emulated with integers
};
constexpr const char* to_string(MatmulPath path) {
    switch (path) {
        case MatmulPath::fp32_chain:
            return "fp32_chain";
        case MatmulPath::mma:
            return "mma";
        case MatmulPath::wgmma:
            return "wgmma";
        case MatmulPath::emulated:
            return "emulated";
        default:
            return "definition";
    }
}

/// `architecture`: 80, 86, 89, 90 (sm_90a); 0: none of which anything is known.
inline MatmulPath matmul_path(MatrixUnits units, int architecture, const Matmul& args) {
    if (is_fp32_chain(args)) return MatmulPath::fp32_chain;
    if (units == MatrixUnits::native) {
        const bool whole = args.rule.promotion == Promotion::none;
        const bool by_mma = native_machine("mma", architecture, args) != nullptr;
        const bool by_wgmma = native_machine("wgmma", architecture, args) != nullptr;
        MmaType mma{};
        WgmmaType wgmma{};
        const bool has_mma =
            whole && by_mma && args.a.format == args.b.format && mma_type_of(*args.rule.machine, args.a.format, mma);
        const bool has_wgmma = by_wgmma && wgmma_type_of(*args.rule.machine, args.a.format, args.b.format, wgmma) &&
                               (whole || (wgmma > WgmmaType::fp16_acc16 && args.rule.promotion_interval % 64 == 0));
        // Where both give the same bits: wgmma is faster, but its tiles are large.
        const std::int64_t tiles = tile_count(args, 128, 128) * max_of(args.rule.slices, 1);
        if (has_wgmma && (!has_mma || tiles >= 100)) return MatmulPath::wgmma;
        if (has_mma) return MatmulPath::mma;
    }
    EmulatedPlan plan;
    return emulated_plan(args, plan) ? MatmulPath::emulated : MatmulPath::definition;
}

/// The bits of definition::matmul_element for every output; *tally (device memory) counts what the output's cast did.
/// `args` has been checked, and its operands' formats are decoded_format's; its pointers are to device memory, but
/// args.rule.machine is the host's. memory.take(bytes) gives a std::shared_ptr<void> to device memory (DeviceMemory).
template <class Device, class Memory>
void matmul(Device& device, Memory& memory, MatrixUnits units, int architecture, const Matmul& args,
            DeviceTally* tally) {
    if (args.batch_outer * args.batch_inner == 0 || args.m == 0 || args.n == 0) return;
    const MatmulJob job = matmul_job(args, tally);
    switch (matmul_path(units, architecture, args)) {
        case MatmulPath::fp32_chain:
            matmul_chain(device, job);
            break;
        case MatmulPath::mma: {
            MmaType type{};
            (void)mma_type_of(*args.rule.machine, args.a.format, type);
            switch (type) {
                case MmaType::fp16:
                    matmul_mma<MmaType::fp16>(device, memory, job);
                    break;
                case MmaType::bf16:
                    matmul_mma<MmaType::bf16>(device, memory, job);
                    break;
                case MmaType::tf32:
                    matmul_mma<MmaType::tf32>(device, memory, job);
                    break;
                case MmaType::fp16_acc16:
                    matmul_mma<MmaType::fp16_acc16>(device, memory, job);
                    break;
            }
            break;
        }
        case MatmulPath::wgmma: {
            WgmmaType type{};
            (void)wgmma_type_of(*args.rule.machine, args.a.format, args.b.format, type);
            switch (type) {
                case WgmmaType::fp16:
                    return matmul_wgmma<WgmmaType::fp16>(device, memory, job);
                case WgmmaType::bf16:
                    return matmul_wgmma<WgmmaType::bf16>(device, memory, job);
                case WgmmaType::tf32:
                    return matmul_wgmma<WgmmaType::tf32>(device, memory, job);
                case WgmmaType::fp16_acc16:
                    return matmul_wgmma<WgmmaType::fp16_acc16>(device, memory, job);
                case WgmmaType::e4m3_e4m3:
                    return matmul_wgmma<WgmmaType::e4m3_e4m3>(device, memory, job);
                case WgmmaType::e4m3_e5m2:
                    return matmul_wgmma<WgmmaType::e4m3_e5m2>(device, memory, job);
                case WgmmaType::e5m2_e4m3:
                    return matmul_wgmma<WgmmaType::e5m2_e4m3>(device, memory, job);
                case WgmmaType::e5m2_e5m2:
                    return matmul_wgmma<WgmmaType::e5m2_e5m2>(device, memory, job);
            }
            break;
        }
        case MatmulPath::emulated: {
            EmulatedPlan plan;
            (void)emulated_plan(args, plan);
            matmul_emulated(device, memory, job, plan);
            break;
        }
        default:
            matmul_by_definition(device, job);
            break;
    }
}

/// The same with memory of its own.
template <class Device>
void matmul(Device& device, MatrixUnits units, int architecture, const Matmul& args, DeviceTally* tally) {
    PlainMemory<Device> memory(device);
    matmul(device, memory, units, architecture, args, tally);
}

}  // namespace macheps::gpu
