// SPDX-License-Identifier: Apache-2.0
// MatmulRule: how the instructions of one matmul are strung together. Sources: cuBLAS and CUTLASS as named at each
// option. Tile sizes, stages and warps change no bit and have no field.
#pragma once
#include "emulation/machine/machine.hpp"

namespace macheps {

/// What happens when a chain of instructions is cut off and its partial sum joins the main accumulator.
enum class Promotion : std::uint8_t {
    none,       ///< one chain over all of k
    add,        ///< main += partial, one fp32 addition (CUTLASS fp8_accumulation, Triton max_num_imprecise_acc)
    fma_joint,  ///< main = fma(partial, fl(sA sB), main): scales of a and b multiplied first (DeepGEMM sm_90)
    fma_left,   ///< main = fma(fl(partial sA), sB, main) (CUTLASS blockwise-scaled mainloop)
};

/// How the partial sums of k slices join. Slices are s = 0 .. n - 1 in ascending k.
enum class SliceJoin : std::uint8_t {
    /// fp32: ((+0 + p0) + p1) + ..., then the epilogue once (CUTLASS 2.x parallel, cuBLASLt COMPUTE_TYPE).
    workspace,
    /// The same, but each partial sum is rounded to the output's format first (cuBLASLt OUTPUT_TYPE).
    rounded_workspace,
    /// D = round(fma(scale, p, D)) slice by slice in the output's format (CUTLASS 2.x serial).
    serial,
    /// Middle slices are added by fp32 atomics, which flush subnormals; the last slice adds their sum to its own.
    stream_k,
};

/// In which order the factors that undo the operands' scales meet the finished sum.
enum class ScaleOrder : std::uint8_t {
    joint,    ///< fl(acc fl(sA sB)): one multiplication
    a_first,  ///< fl(sB fl(sA acc)) (torch._scaled_mm rowwise on sm_90)
    b_first,  ///< fl(sA fl(sB acc)) (vLLM cutlass_scaled_mm)
};

struct MatmulRule {
    const Machine* machine = &fp32_chain;
    Promotion promotion = Promotion::none;
    int promotion_interval = 0;  ///< k per partial sum, a multiple of the machine's k
    SliceJoin join = SliceJoin::workspace;
    int slices = 1;
    /// Slices begin at multiples of g = slice_granule: slice j = [j c, (j + 1) c), c = ceil(ceil(k / g) / n) g.
    int slice_granule = 64;
    ScaleOrder scale_order = ScaleOrder::joint;

    constexpr bool operator==(const MatmulRule&) const = default;
};

/// Factors that undo an operand's scaling. That of element (outer index i, contraction index p) is
/// data[i / outer_block * outer_stride + p / k_block * k_stride]; data == nullptr: 1 everywhere.
/// Outer is a row of a or a column of b.
struct OperandScales {
    const float* data = nullptr;
    std::int64_t outer_block = 1, k_block = 1, outer_stride = 0, k_stride = 0;

    MACHEPS_HD float at(std::int64_t outer, std::int64_t p) const {
        return data == nullptr ? 1.0f : data[outer / outer_block * outer_stride + p / k_block * k_stride];
    }
};

}  // namespace macheps
