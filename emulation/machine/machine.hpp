// SPDX-License-Identifier: Apache-2.0
// Machine: one row of data per way to sum products, and the one machine that matmuls have unless they name another. The
// other rows are in emulation/machine/table.hpp, which whoever looks up a name includes; what a row means is
// emulation/machine/step.hpp.
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
    /// A format that is not in `known` does not compile in a constant, and throws std::invalid_argument elsewhere.
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

    /// Every known format but fp64: those of the values that a tensor of fp32 can hold.
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
    through_fp16,      ///< fp8 mma.sync where it is emulated: two fp16 steps, then one IEEE addition
    exact_step,        ///< products and addend in one exact sum, rounded once (CDNA1)
    flushed_pairs,     ///< fp32 pairwise with subnormals flushed (CDNA2)
    floored,           ///< products cut, then floored beside the addend (CDNA3; TR-FDPA)
    floored_even_odd,  ///< the same with even and odd products apart (CDNA3 fp8; GTR-FDPA)
    pair_then_add,     ///< products in one exact sum, rounded; then added to C and rounded (POWER10, Arm EBF = 1)
    odd_pairs,         ///< two products, their sum and the sum with C, each rounded (Arm BFDOT)
    parted_chain,  ///< chains of even and of odd products over the instruction, added to each other, then to C (AMX)
};

/// How the exact sum of a step is rounded.
enum class Delivery : std::uint8_t {
    fp32_toward_zero,   ///< overflow gives Inf all the same
    e8m13_toward_zero,  ///< an fp32 with 10 low zero bits; overflow as above
    fp32_nearest_even,
    fp16_nearest_even,
    bf16_nearest_even,
    fp64_nearest_even,
};

/// What becomes of results below the least normal number.
enum class ResultFlush : std::uint8_t {
    no,
    before_rounding,  ///< a zero of their sign where the exact result is that small
    after_rounding,   ///< the same where it still is after rounding with unbounded exponent (x86)
    subnormal,        ///< the same where the rounded result is subnormal
};

/// In which order a chain takes the products of a step.
enum class ProductOrder : std::uint8_t {
    ascending,
    odd_first,  ///< of each pair the odd product first (x86)
};

/// Which bits a NaN result has.
enum class NanRule : std::uint8_t {
    any,                 ///< open: one NaN is as good as another
    canonical_7fffffff,  ///< in fp32; 0x7fff in 16 bits
    default_7fc00000,    ///< Arm's default NaN
    first_operand,       ///< the first NaN of a, b, C, quieted; where there is none, ffc00000 (x86)
};

/// The numbers of one fused step: everything that emulation/machine/step.hpp reads. Plain data for host and device.
struct SumRule {
    SumModel model = SumModel::fma_chain;
    int terms = 1;          ///< products per step (L)
    int fraction_bits = 0;  ///< bits kept below the largest exponent (F)
    Delivery delivery = Delivery::fp32_nearest_even;
    Format addend = fp32;  ///< format of C
    /// What a zero addend (and a sum of only zeros) counts as in the largest exponent.
    int zero_exponent = 0;

    // Where published sources disagree; the defaults are what is taken here, and a GPU's trace can settle each one.
    bool zero_factor_counts = false;   ///< a product with a zero factor takes part with exponents emin
    bool underflow_keeps_sign = true;  ///< a negative sum that underflows gives -0, not +0
    bool zeros_keep_sign = false;      ///< only -0 everywhere gives -0, not +0
    bool normalises_addend = false;    ///< a subnormal fp16 addend counts with its normalised exponent

    // What units of CPUs are made of.
    bool flush_operands = false;  ///< operands and addend that are subnormal in fp32 read as zeros of their sign
    ResultFlush flush_results = ResultFlush::no;
    ProductOrder order = ProductOrder::ascending;  ///< of a chain
    Round rounding = Round::nearest_even;          ///< of each result; to_odd overflows to infinity
    bool rounds_products = false;                  ///< of a chain: a multiplication and an addition, no fma
    int joined_products = 1;                       ///< of parted_chain: added and rounded before they join their chain
    NanRule nan = NanRule::any;

    /// A chain of IEEE operations, with nothing flushed and nothing out of order.
    MACHEPS_HD constexpr bool is_plain_chain() const {
        return model == SumModel::fma_chain && !flush_operands && flush_results == ResultFlush::no &&
               order == ProductOrder::ascending && rounding == Round::nearest_even && !rounds_products;
    }
};

/// What stands behind a row.
enum class Evidence : std::uint8_t {
    definition,  ///< nothing to check: the row is made of IEEE operations
    hardware,  ///< reproduced on captures of silicon, published or our own, as far as those reach: Machine::captured_terms
    published,  ///< a model that its authors tested on silicon, or a vendor's text
    emulated,   ///< reproduced on an independent emulator of the architecture: no silicon
    inferred,   ///< the model of a sibling type, applied to a type that nobody published
};

struct Machine {
    std::string_view name{};  ///< `sm90.wgmma.fp8`
    std::string_view arch{};  ///< `sm_90`, `CDNA3`, `x86`; several that share the row, separated by spaces
    std::string_view
        instruction{};     ///< `mma`, `tcgen05.f16`, `vdpbf16ps`; several as above; empty for orders of summation
    FormatSet operands{};  ///< of a and b, in any mix
    Format addend = fp32;  ///< of C
    Format result = fp32;  ///< of D
    int k = 1;             ///< products per instruction
    int small_k = 0;       ///< of the instruction's smaller shape, 0: there is none
    Format scale{};        ///< of the block scales, where there are any
    int scale_block = 0;   ///< products that share a scale, 0: no scales
    SumRule sum{};
    bool reads_values = false;  ///< given values where others are given codes and scales: whoever calls it decodes them
    Evidence evidence = Evidence::definition;
    std::string_view measured{};  ///< devices, or emulators, whose captures are reproduced
    int captured_terms = 0;       ///< products that the captures fill; those behind them are zero. 0: there are none
    std::string_view source{};
    std::string_view summary{};

    MACHEPS_HD constexpr bool has_scales() const { return scale_block != 0; }
    /// A NaN result has bits of its own; else one NaN is as good as another.
    constexpr bool fixes_nan() const { return sum.nan != NanRule::any; }
};

std::string_view to_string(Evidence evidence);

/// A unit of a CPU, not of a GPU: those have architectures with version numbers.
constexpr bool is_cpu_unit(const Machine& machine) {
    return machine.arch == "x86" || machine.arch == "arm" || machine.arch == "power10" || machine.arch == "riscv";
}

/// acc = +0, then acc = fma(a, b, acc) with k ascending, in fp32: what a CUDA-core kernel does, and the machine of a
/// matmul that names none.
inline constexpr Machine fp32_chain{.name = "fp32.chain",
                                    .operands = FormatSet::of_values(),
                                    .source = "IEEE 754-2019",
                                    .summary = "one fp32 fma per term, k ascending"};

}  // namespace macheps
