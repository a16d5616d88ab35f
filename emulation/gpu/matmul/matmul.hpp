// SPDX-License-Identifier: Apache-2.0
// Implements Backend::matmul for CudaDevice and HostDevice. All kernels give the same bits, so the choice of kernel
// affects only the speed.
#pragma once
#include "emulation/gpu/matmul/emulated.hpp"
#include "emulation/gpu/matmul/matrix_units.hpp"
#include "emulation/gpu/matmul/wgmma_kernel.hpp"

#include <variant>

namespace macheps::gpu {

struct ByDefinition {};  ///< one thread per output, the scalar definition
struct Fp32Chain {};     ///< tiles on CUDA cores

/// The kernels that run a matmul, and their parameters. The alternatives are the scalar definition, fp32 chains on CUDA
/// cores, mma.sync, wgmma on sm_90a, and the emulation of a machine in integer arithmetic.
using MatmulPath = std::variant<ByDefinition, Fp32Chain, MmaType, WgmmaType, EmulatedPlan>;

inline const char* to_string(const MatmulPath& path) {
    constexpr const char* names[] = {"definition", "fp32_chain", "mma", "wgmma", "emulated"};
    static_assert(std::size(names) == std::variant_size_v<MatmulPath>);
    return names[path.index()];
}

/// Chooses the kernels of a matmul. `architecture` is 80, 86, 89 or 90 (sm_90a), or 0 if nothing is known about the
/// GPU.
inline MatmulPath matmul_path(MatrixUnits units, int architecture, const Matmul& args) {
    if (args.addend != nullptr) return ByDefinition{};  // the other kernels start from +0
    if (is_fp32_chain(args)) return Fp32Chain{};
    if (units == MatrixUnits::native) {
        const bool whole = args.rule.promotion == Promotion::none;
        std::optional<MmaType> mma;
        if (whole && args.a.format == args.b.format && native_machine("mma", architecture, args) != nullptr) {
            mma = mma_type_of(*args.rule.machine, args.a.format);
        }
        std::optional<WgmmaType> wgmma;
        if (native_machine("wgmma", architecture, args) != nullptr) {
            wgmma = wgmma_type_of(*args.rule.machine, args.a.format, args.b.format);
        }
        // Among the native kernels, only wgmma with fp8 operands joins partial sums. The interval must be a multiple of
        // the kernel's tile of k, which has 64 terms.
        const bool joins = wgmma && *wgmma > WgmmaType::fp16_acc16 && args.rule.promotion_interval % 64 == 0;
        if (!whole && !joins) wgmma.reset();
        // If mma.sync and wgmma are both possible, they give the same bits. wgmma is faster if there are enough of its
        // large tiles.
        const std::int64_t tiles = tile_count(args, 128, 128) * max_of(args.rule.slices, 1);
        if (wgmma && (!mma || tiles >= 100)) return *wgmma;
        if (mma) return *mma;
    }
    if (const std::optional<EmulatedPlan> plan = emulated_plan(args)) return *plan;
    return ByDefinition{};
}

/// Starts the kernels of a path.
template <class Device, class Memory>
struct MatmulLaunch {
    Device& device;
    Memory& memory;
    const MatmulJob& job;

    void operator()(ByDefinition) const { matmul_by_definition(device, job); }
    void operator()(Fp32Chain) const { matmul_chain(device, job); }
    void operator()(MmaType type) const {
        switch (type) {
            case MmaType::fp16:
                return matmul_mma<MmaType::fp16>(device, memory, job);
            case MmaType::bf16:
                return matmul_mma<MmaType::bf16>(device, memory, job);
            case MmaType::tf32:
                return matmul_mma<MmaType::tf32>(device, memory, job);
            case MmaType::fp16_acc16:
                return matmul_mma<MmaType::fp16_acc16>(device, memory, job);
        }
    }
    void operator()(WgmmaType type) const {
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
    }
    void operator()(const EmulatedPlan& plan) const { matmul_emulated(device, memory, job, plan); }
};

/// Computes every output with the bits of definition::matmul_element. Counts the casts of the outputs in *tally, which
/// is in device memory, unless `tally` is null. The caller must have checked `args`, and the operands must have the
/// formats that decoded_format() returns. The pointers in `args` point to device memory, except args.rule.machine,
/// which points to host memory. `memory` is a DeviceMemory, or another object whose take(bytes) returns a
/// std::shared_ptr<void> to device memory.
template <class Device, class Memory>
void matmul(Device& device, Memory& memory, MatrixUnits units, int architecture, const Matmul& args,
            DeviceTally* tally) {
    if (args.batch_outer * args.batch_inner == 0 || args.m == 0 || args.n == 0) return;
    const MatmulJob job = matmul_job(args, tally);
    std::visit(MatmulLaunch<Device, Memory>{device, memory, job}, matmul_path(units, architecture, args));
}

/// Computes a matmul like the function above, but allocates its temporary memory itself.
template <class Device>
void matmul(Device& device, MatrixUnits units, int architecture, const Matmul& args, DeviceTally* tally) {
    PlainMemory<Device> memory(device);
    matmul(device, memory, units, architecture, args, tally);
}

}  // namespace macheps::gpu
