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

/// Which blocks of k a CPU library sums on their own, as a function of k. Every block is a chain from +0; the first one is
/// the sum, and each further one is added to it, rounded to fp32.
struct KBlocks {
    enum class Split : std::uint8_t {
        fixed,       ///< `limit` terms each, the last one the rest
        halve_last,  ///< `limit` while twice that is left; of what is left then, if it is more than `limit`, a half
        halve_all,   ///< k of up to twice `limit`: two blocks of k / 2, and of an odd k the last term alone; else fixed
        level,  ///< as many blocks as `fixed` has, as equal as multiples of `multiple` let them be; the last one is the rest
    };

    int limit = 0;  ///< terms of a block, 0: there are no blocks
    Split split = Split::fixed;
    int multiple = 1;                ///< the half of halve_last is rounded up to a multiple of this; level: see there
    bool greater_half = false;       ///< of an odd number of terms
    int wide_limit = 0, wide_k = 0;  ///< blocks have wide_limit terms where k is above wide_k, 0: nowhere

    constexpr bool operator==(const KBlocks&) const = default;

    /// Terms of the next block, where `rest` of `k` are left.
    MACHEPS_HD constexpr std::int64_t length(std::int64_t k, std::int64_t rest) const {
        if (limit == 0) return rest;
        const std::int64_t most = wide_k != 0 && k > wide_k ? wide_limit : limit;
        if (split == Split::halve_all && k > most && k <= 2 * most) return rest == 1 ? 1 : k / 2;
        if (split == Split::level && k > most) {
            const std::int64_t over = k % most, sweeps = k / most + 1;
            const std::int64_t cut = over == 0 ? 0 : (most - 1 - over) / (multiple * sweeps) * multiple;
            return min_of(most - cut, rest);
        }
        if (rest <= most) return rest;
        if (split != Split::halve_last || rest >= 2 * most) return most;
        const std::int64_t half = greater_half ? (rest + 1) / 2 : rest / 2;
        return (half + multiple - 1) / multiple * multiple;
    }
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

    // CPU libraries.
    KBlocks blocks{};
    bool bias_first = false;  ///< sums begin with the bias, and the first block too is added to it
    /// Chains that take turns over k, then folded in order; what is left of k goes to the first. 1: there is one chain.
    int lanes = 1;

    /// True where sums are not one chain over a slice of k, for a reason that promotion does not name.
    MACHEPS_HD constexpr bool has_blocks() const { return blocks.limit != 0 || bias_first || lanes > 1; }

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
