// SPDX-License-Identifier: Apache-2.0
// MatmulRule: how the results of the instructions of one matmul are combined. Comments on the options name the sources,
// such as CUTLASS and cuBLASLt. MatmulRule has no fields for tile sizes, pipeline stages and warps, because they do not
// change the result.
#pragma once
#include "emulation/machine/machine.hpp"

namespace macheps {

/// How the partial sum of a chain of instructions is added to the main accumulator.
enum class Promotion : std::uint8_t {
    none,       ///< one chain over all of k
    add,        ///< main += partial, one fp32 addition (CUTLASS fp8_accumulation, Triton max_num_imprecise_acc)
    fma_joint,  ///< main = fma(partial, fl(sA sB), main): scales of a and b multiplied first (DeepGEMM sm_90)
    fma_left,   ///< main = fma(fl(partial sA), sB, main) (CUTLASS blockwise-scaled mainloop)
};

/// How the partial sums p0, p1, ... of the slices of k are added. Slices are numbered 0 .. n - 1 in ascending k.
enum class SliceJoin : std::uint8_t {
    /// ((+0 + p0) + p1) + ... in fp32. The epilogue is applied once, at the end (CUTLASS 2.x parallel, cuBLASLt
    /// COMPUTE_TYPE).
    workspace,
    /// Like `workspace`, but each partial sum is first rounded to the output's format (cuBLASLt OUTPUT_TYPE).
    rounded_workspace,
    /// D = round(fma(scale, p, D)) slice by slice, with D in the output's format (CUTLASS 2.x serial).
    serial,
    /// All slices except the last are added with fp32 atomics, which flush subnormals. Their sum is then added to the
    /// last partial sum.
    stream_k,
};

/// Order in which the decode scales of the operands multiply the finished sum.
enum class ScaleOrder : std::uint8_t {
    joint,    ///< fl(acc fl(sA sB)): one multiplication
    a_first,  ///< fl(sB fl(sA acc)) (torch._scaled_mm rowwise on sm_90)
    b_first,  ///< fl(sA fl(sB acc)) (vLLM cutlass_scaled_mm)
};

/// How a CPU library divides k into blocks that it sums separately. The sum of each block is a chain from +0. The sum
/// of the first block is the initial total. The sum of each further block is added to the total, with rounding to fp32.
struct KBlocks {
    enum class Split : std::uint8_t {
        fixed,       ///< `limit` terms each; the last block has the rest
        halve_last,  ///< `limit` terms while 2 limit or more are left; a rest of more than `limit` terms is halved
        halve_all,   ///< if limit < k <= 2 limit: two blocks of k / 2, and one of 1 if k is odd; else like `fixed`
        level,       ///< as many blocks as `fixed`; all but the last are shorter by the same multiple of `multiple`
    };

    int limit = 0;  ///< terms per block; 0: no blocks
    Split split = Split::fixed;
    int multiple = 1;                ///< halve_last: the first half is rounded up to a multiple of it; level: see Split
    bool greater_half = false;       ///< halve_last: if the number of terms is odd, the greater half comes first
    int wide_limit = 0, wide_k = 0;  ///< if k is above wide_k, blocks have wide_limit terms; wide_k = 0: never

    constexpr bool operator==(const KBlocks&) const = default;

    /// Returns the number of terms of the next block if `rest` of `k` terms are left.
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
    int promotion_interval = 0;  ///< terms per partial sum, a multiple of machine->k
    SliceJoin join = SliceJoin::workspace;
    int slices = 1;
    /// Slices begin at multiples of g = slice_granule. With n slices, slice j has the terms [j c, (j + 1) c), where
    /// c = ceil(ceil(k / g) / n) g.
    int slice_granule = 64;
    ScaleOrder scale_order = ScaleOrder::joint;

    // For CPU libraries.
    KBlocks blocks{};
    bool bias_first = false;  ///< the total starts as the bias, and every block is added to it, even the first block
    /// Number of chains. Consecutive terms go to the chains in turn, and at the end the chains are added in order.
    /// Terms left over after the last full turn go to the first chain.
    int lanes = 1;

    /// Returns whether blocks, an initial bias or several lanes change how a slice of k is summed.
    MACHEPS_HD constexpr bool has_blocks() const { return blocks.limit != 0 || bias_first || lanes > 1; }

    constexpr bool operator==(const MatmulRule&) const = default;
};

/// Decode scales of an operand. The scale of the element with outer index i and contraction index p is
/// data[i / outer_block * outer_stride + p / k_block * k_stride]. If data == nullptr, all scales are 1.
/// The outer index is the row of a or the column of b.
struct OperandScales {
    const float* data = nullptr;
    std::int64_t outer_block = 1, k_block = 1, outer_stride = 0, k_stride = 0;

    MACHEPS_HD float at(std::int64_t outer, std::int64_t p) const {
        return data == nullptr ? 1.0f : data[outer / outer_block * outer_stride + p / k_block * k_stride];
    }
};

}  // namespace macheps
