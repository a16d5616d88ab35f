// SPDX-License-Identifier: Apache-2.0
// A Machine describes one way to sum products, as a row of data. This file contains only one row, the default machine
// of matmuls. The other rows are in emulation/machine/table.hpp. Include that file to look up a machine by its name.
// emulation/machine/step.hpp defines the meaning of a row.
#pragma once
#include "core/format.hpp"
#include "core/rounding.hpp"

#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <string_view>

namespace macheps {

/// Set of formats that an operand may have.
class FormatSet {
  public:
    constexpr FormatSet() = default;
    /// Every format must be in `known`. Otherwise a constant expression does not compile, and at run time the
    /// constructor throws std::invalid_argument.
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

/// How one fused step computes its result from its products and its addend. The result is the addend of the next step.
enum class SumModel : std::uint8_t {
    fma_chain,         ///< one fma per product, rounded to the addend's format
    pairwise,          ///< products rounded, then added in a binary tree (emulation/matmul/matmul.hpp); no addend
    kahan,             ///< products rounded, then added by compensated summation
    exact,             ///< all products of a matmul in one exact sum, rounded once
    truncated,         ///< products and addend cut at a common bit, summed exactly (NVIDIA; T-FDPA and ST-FDPA)
    scaled_groups,     ///< exact dot products of 16 terms, scaled, then cut and summed (NVFP4, MXFP4; GST-FDPA)
    through_fp16,      ///< fp8 mma.sync on GPUs that emulate it: two fp16 steps, then one IEEE addition
    exact_step,        ///< products and addend in one exact sum, rounded once (CDNA1, Arm FP8DOT)
    flushed_pairs,     ///< pairwise sums in fp32 with subnormals flushed (CDNA2)
    floored,           ///< products cut and added; their sum and the addend rounded down, then added (CDNA3; TR-FDPA)
    floored_even_odd,  ///< like floored, with even and odd products cut separately (CDNA3 fp8; GTR-FDPA)
    pair_then_add,     ///< products in one exact sum, rounded; then added to C and rounded (POWER10, Arm EBF = 1)
    odd_pairs,         ///< two rounded products; their sum is rounded, added to C and rounded again (Arm BFDOT)
    parted_chain,      ///< a chain of the even and a chain of the odd products, added to each other, then to C (AMX)
};

/// How the exact sum of a step is rounded.
enum class Delivery : std::uint8_t {
    fp32_toward_zero,   ///< overflow still gives Inf
    e8m13_toward_zero,  ///< fp32 whose low 10 bits are zero; overflow still gives Inf
    fp32_nearest_even,
    fp16_nearest_even,
    bf16_nearest_even,
    fp64_nearest_even,
};

/// Condition on which a result below the smallest normal number is flushed to a zero of its sign.
enum class ResultFlush : std::uint8_t {
    no,
    before_rounding,  ///< the exact result is below the smallest normal number
    after_rounding,   ///< the result rounded with unbounded exponent is below the smallest normal number (x86)
    subnormal,        ///< the rounded result is subnormal
};

/// Order in which a chain adds the products of a step.
enum class ProductOrder : std::uint8_t {
    ascending,
    odd_first,  ///< the odd product of each pair first (x86)
};

/// Bits of a NaN result.
enum class NanRule : std::uint8_t {
    any,                 ///< not specified: every NaN is acceptable
    canonical_7fffffff,  ///< 0x7fffffff in fp32, 0x7fff in 16-bit formats
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
    /// When the largest exponent is determined, a zero addend, or a group that is zero, has this exponent.
    int zero_exponent = 0;

    // Properties on which published sources disagree. A trace of a GPU can decide each of them.
    bool zero_factor_counts = false;   ///< a product with a zero factor can have the largest exponent (0 has emin)
    bool underflow_keeps_sign = true;  ///< a negative sum that underflows gives -0, not +0
    bool zeros_keep_sign = false;      ///< if all products and C are -0, the sum is -0, not +0
    bool normalises_addend = false;    ///< a subnormal fp16 addend has its normalised exponent, not emin

    // Properties of CPU units.
    bool flush_operands = false;  ///< operands and addend that are subnormal in fp32 are read as zeros of their sign
    ResultFlush flush_results = ResultFlush::no;
    ProductOrder order = ProductOrder::ascending;  ///< order of the products in a chain
    Round rounding = Round::nearest_even;          ///< rounding of each result; to_odd overflows to infinity
    bool rounds_products = false;                  ///< fma_chain: rounds each product and each sum, instead of an fma
    int joined_products = 1;                       ///< parted_chain: products in each rounded sum that a chain adds
    NanRule nan = NanRule::any;

    /// Returns whether this is a chain of fma in ascending order, rounded to nearest even, with nothing flushed.
    MACHEPS_HD constexpr bool is_plain_chain() const {
        return model == SumModel::fma_chain && !flush_operands && flush_results == ResultFlush::no &&
               order == ProductOrder::ascending && rounding == Round::nearest_even && !rounds_products;
    }
};

/// Evidence that a row is correct.
enum class Evidence : std::uint8_t {
    definition,  ///< nothing to check: the row consists of IEEE operations
    hardware,    ///< reproduces results of silicon, published or ours, that have captured_terms nonzero products
    published,   ///< a published model that its authors tested on silicon, or a vendor's documentation
    emulated,    ///< reproduces results of an independent emulator of the architecture, not of silicon
    inferred,    ///< the model of a sibling type, applied to a type for which nothing is published
};

struct Machine {
    std::string_view name{};  ///< `sm90.wgmma.fp8`
    std::string_view arch{};  ///< `sm_90`, `CDNA3`, `x86`; separated by spaces if several share the row
    /// Name of the instruction, such as `mma`, `tcgen05.f16` or `vdpbf16ps`. Several names are separated by spaces. The
    /// name is empty if the row describes an order of summation and not a matrix unit.
    std::string_view instruction{};
    FormatSet operands{};  ///< formats of a and b, in any combination
    Format addend = fp32;  ///< format of C
    Format result = fp32;  ///< format of D
    int k = 1;             ///< products per instruction
    int small_k = 0;       ///< k of the instruction's smaller shape; 0: no smaller shape
    Format scale{};        ///< format of the block scales, if there are any
    int scale_block = 0;   ///< products that share a scale; 0: no scales
    SumRule sum{};
    bool reads_values = false;  ///< operands are values: the caller multiplies codes by their scales first
    Evidence evidence = Evidence::definition;
    std::string_view measured{};  ///< devices or emulators whose results the row reproduces
    int captured_terms = 0;       ///< nonzero products in the captured results; 0: no captures
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

/// Default machine of a matmul: acc = +0, then acc = fma(a, b, acc) with k ascending, in fp32. An fp32 kernel on CUDA
/// cores computes the same sum.
inline constexpr Machine fp32_chain{.name = "fp32.chain",
                                    .operands = FormatSet::of_values(),
                                    .source = "IEEE 754-2019",
                                    .summary = "one fp32 fma per term, k ascending"};

}  // namespace macheps
