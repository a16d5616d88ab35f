// SPDX-License-Identifier: Apache-2.0
// Machine: a row of data for each way to sum products. This file has only the row of the default machine of matmuls.
// The other rows are in emulation/machine/table.hpp; include that to look up a name. emulation/machine/step.hpp defines
// the meaning of a row.
#pragma once
#include "core/format.hpp"
#include "core/rounding.hpp"

#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <string_view>

namespace macheps {

/// Formats that an operand may have.
class FormatSet {
  public:
    constexpr FormatSet() = default;
    /// A format that is not in `known` does not compile in a constant, and throws std::invalid_argument at run time.
    constexpr FormatSet(std::initializer_list<Format> formats) {
        for (const Format& format : formats) {
            if (bit(format) == 0) throw std::invalid_argument("add the format to FormatSet::known");
            bits_ |= bit(format);
        }
    }
    constexpr bool contains(const Format& format) const { return (bits_ & bit(format)) != 0; }
    constexpr bool operator==(const FormatSet&) const = default;

    static constexpr Format known[] = {fp64, fp32,   tf32,   fp16,   bf16,     e4m3fn,
                                       e5m2, e2m3fn, e3m2fn, e2m1fn, e4m3fnuz, e5m2fnuz};

    /// Returns every known format except fp64. A tensor of fp32 can hold the values of these formats.
    static constexpr FormatSet of_values() {
        FormatSet all{};
        for (const Format& format : known) {
            if (!(format == fp64)) all.bits_ |= bit(format);
        }
        return all;
    }

  private:
    static constexpr std::uint32_t bit(const Format& format) {
        for (std::uint32_t i = 0; i < std::size(known); ++i) {
            if (known[i] == format) return 1u << i;
        }
        return 0;
    }
    std::uint32_t bits_ = 0;
};

/// How the products of one fused step and the addend become the next addend.
enum class SumModel : std::uint8_t {
    fma_chain,         ///< one fma per product, rounded to the addend's format
    pairwise,          ///< products rounded, then added by halves; the addend takes no part
    kahan,             ///< products rounded, compensated summation
    exact,             ///< all products of a matmul in one exact sum, rounded once
    truncated,         ///< products and addend cut at a common unit, summed exactly (NVIDIA; T-FDPA and ST-FDPA)
    scaled_groups,     ///< exact dot products of 16, scaled, then cut and summed (NVFP4, MXFP4; GST-FDPA)
    through_fp16,      ///< fp8 mma.sync on GPUs that emulate it: two fp16 steps, then one IEEE addition
    exact_step,        ///< products and addend in one exact sum, rounded once (CDNA1, Arm FP8DOT)
    flushed_pairs,     ///< fp32 pairwise with subnormals flushed (CDNA2)
    floored,           ///< products cut and added, then the sum and the addend floored (CDNA3; TR-FDPA)
    floored_even_odd,  ///< the same with even and odd products cut separately (CDNA3 fp8; GTR-FDPA)
    pair_then_add,     ///< products in one exact sum, rounded; then added to C and rounded (POWER10, Arm EBF = 1)
    odd_pairs,         ///< two products, their sum and the sum with C, each rounded (Arm BFDOT)
    parted_chain,  ///< chains of even and of odd products over the instruction, added to each other, then to C (AMX)
};

/// How the exact sum of a step is rounded.
enum class Delivery : std::uint8_t {
    fp32_toward_zero,   ///< overflow still gives Inf
    e8m13_toward_zero,  ///< an fp32 with 10 low zero bits; overflow as above
    fp32_nearest_even,
    fp16_nearest_even,
    bf16_nearest_even,
    fp64_nearest_even,
};

/// How results below the smallest normal number are flushed.
enum class ResultFlush : std::uint8_t {
    no,
    before_rounding,  ///< to a zero of their sign, if the exact result is that small
    after_rounding,   ///< the same, if it is still that small after rounding with unbounded exponent (x86)
    subnormal,        ///< the same, if the rounded result is subnormal
};

/// Order in which a chain adds the products of a step.
enum class ProductOrder : std::uint8_t {
    ascending,
    odd_first,  ///< the odd product of each pair first (x86)
};

/// Bits of a NaN result.
enum class NanRule : std::uint8_t {
    any,                 ///< not specified: every NaN is acceptable
    canonical_7fffffff,  ///< in fp32; 0x7fff in 16 bits
    default_7fc00000,    ///< Arm's default NaN
    first_operand,       ///< the first NaN of a, b, C, quieted; ffc00000 if none of them is NaN (x86)
};

/// Parameters of one fused step: everything that emulation/machine/step.hpp reads. Plain data for host and device.
struct SumRule {
    SumModel model = SumModel::fma_chain;
    int terms = 1;          ///< products per step (L)
    int fraction_bits = 0;  ///< bits kept below the largest exponent (F)
    Delivery delivery = Delivery::fp32_nearest_even;
    Format addend = fp32;  ///< format of C
    /// Exponent of a zero addend (and of a group of zeros) when the largest exponent is determined.
    int zero_exponent = 0;

    // Points on which published sources disagree. A trace of a GPU can settle each of them.
    bool zero_factor_counts = false;   ///< a zero factor counts in the largest exponent, with the exponent emin
    bool underflow_keeps_sign = true;  ///< a negative sum that underflows gives -0, not +0
    bool zeros_keep_sign = false;      ///< if all products and C are -0, the sum is -0, not +0
    bool normalises_addend = false;    ///< a subnormal fp16 addend counts with its normalised exponent

    // Properties of CPU units.
    bool flush_operands = false;  ///< operands and addend that are subnormal in fp32 read as zeros of their sign
    ResultFlush flush_results = ResultFlush::no;
    ProductOrder order = ProductOrder::ascending;  ///< of a chain
    Round rounding = Round::nearest_even;          ///< of each result; to_odd overflows to infinity
    bool rounds_products = false;                  ///< chain: a multiplication and an addition instead of an fma
    int joined_products = 1;                       ///< parted_chain: products added and rounded before joining a chain
    NanRule nan = NanRule::any;

    /// Returns whether this is a chain of fma in ascending order, rounded to nearest even, with nothing flushed.
    MACHEPS_HD constexpr bool is_plain_chain() const {
        return model == SumModel::fma_chain && !flush_operands && flush_results == ResultFlush::no &&
               order == ProductOrder::ascending && rounding == Round::nearest_even && !rounds_products;
    }
};

/// Evidence for a row.
enum class Evidence : std::uint8_t {
    definition,  ///< nothing to check: the row is made of IEEE operations
    hardware,  ///< reproduced on captures of silicon, published or our own, which fill Machine::captured_terms products
    published,  ///< a model that its authors tested on silicon, or a vendor's text
    emulated,   ///< reproduced on an independent emulator of the architecture, not on silicon
    inferred,   ///< the model of a sibling type, applied to a type for which nothing is published
};

struct Machine {
    std::string_view name{};  ///< `sm90.wgmma.fp8`
    std::string_view arch{};  ///< `sm_90`, `CDNA3`, `x86`; several that share the row, separated by spaces
    std::string_view
        instruction{};     ///< `mma`, `tcgen05.f16`, `vdpbf16ps`; several as above; empty for orders of summation
    FormatSet operands{};  ///< of a and b, in any combination
    Format addend = fp32;  ///< of C
    Format result = fp32;  ///< of D
    int k = 1;             ///< products per instruction
    int small_k = 0;       ///< of the instruction's smaller shape; 0: there is none
    Format scale{};        ///< of the block scales, if there are any
    int scale_block = 0;   ///< products that share a scale; 0: no scales
    SumRule sum{};
    bool reads_values = false;  ///< takes values, not codes and scales: the caller multiplies codes by scales
    Evidence evidence = Evidence::definition;
    std::string_view measured{};  ///< devices or emulators whose captures are reproduced
    int captured_terms = 0;       ///< products that the captures fill; the rest are zero. 0: no captures
    std::string_view source{};
    std::string_view summary{};

    MACHEPS_HD constexpr bool has_scales() const { return scale_block != 0; }
    /// Returns whether the machine specifies the bits of a NaN result.
    constexpr bool fixes_nan() const { return sum.nan != NanRule::any; }
};

std::string_view to_string(Evidence evidence);

/// Returns whether the machine is a unit of a CPU rather than of a GPU.
constexpr bool is_cpu_unit(const Machine& machine) {
    return machine.arch == "x86" || machine.arch == "arm" || machine.arch == "power10" || machine.arch == "riscv";
}

/// Default machine of a matmul: acc = +0, then acc = fma(a, b, acc) with k ascending, in fp32. A CUDA-core kernel
/// computes the same.
inline constexpr Machine fp32_chain{.name = "fp32.chain",
                                    .operands = FormatSet::of_values(),
                                    .source = "IEEE 754-2019",
                                    .summary = "one fp32 fma per term, k ascending"};

}  // namespace macheps
