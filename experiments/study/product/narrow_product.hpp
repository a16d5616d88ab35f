// SPDX-License-Identifier: Apache-2.0
// A matrix product of fp64 or fp32 numbers from products of narrow ones: Ozaki's schemes, by digits (Ozaki, Ogita, Oishi, Rump
// 2012; on matrix units Ootomo, Ozaki, Yokota 2024) and by residues (arXiv 2504.08009), and sums of a few parts of each number.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/backend.hpp"
#include "emulation/matmul/machine_spelling.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::study {

/// One way. Parts have a format of their own; the digits of Ozaki's scheme are integers in the machine's.
struct Via {
    std::string name{};            ///< as it was asked for
    std::optional<Format> part{};  ///< of a way by parts
    int slices = 0;                ///< or parts; 0: chosen from the operands (ozaki1:auto)
    int products = 0;              ///< of a way by parts
    bool has_residues = false;     ///< Ozaki's second scheme: `slices` moduli

    bool is_ozaki() const { return !part.has_value(); }
};

struct ViaRow {
    std::string_view name, words;
    Format part{};  ///< of a way by parts
    int parts = 0, products = 0;
};
std::span<const ViaRow> via_rows();

/// `ozaki1:S`, `ozaki1:auto`, `ozaki2:N` or a name of via_rows(). Errors: throws Error (usage).
Via parse_via(std::string_view text);

/// What a product is made with.
struct ViaPlan {
    Via via{};
    SpelledRule machine{};
    int digit_bits = 0;  ///< 0: the exactness rule's
    bool full = false;   ///< all S^2 products, not the S (S + 1) / 2 largest
    bool combines_exactly = false;
};

/// a [m,k], b [k,n], row-major.
struct WideOperands {
    std::int64_t m = 0, n = 0, k = 0;
    std::vector<double> a{}, b{};
};

struct NarrowProduct {
    std::vector<double> out{};
    int digit_bits = 0, slices = 0;  ///< of residues: bits of the integers, and how many moduli
    std::int64_t products = 0;
    std::optional<std::uint64_t>
        inexact{};  ///< elements of all digit products that are not the integers they should be
};

/// What multiplies integers of 8 bits and adds the products in 32 bits, modulo 2^32: the integer matrix units of GPUs and CPUs.
/// It is in no table of machines, as its operands have no format.
inline constexpr Machine exact_int32{.name = "exact.int32",
                                     .summary = "products of int8 in one sum of int32, which wraps"};
inline bool is_integer_unit(const Machine& machine) { return &machine == &exact_int32; }
/// A name of parse_machine, or exact_int32's. Errors: as parse_machine.
SpelledRule parse_via_machine(std::string_view name);

/// The operand format of a machine that has the most digits.
Format digit_format(const Machine& machine);
/// Digits of a sum of integers that a machine's results keep.
int kept_digits(const Machine& machine);
/// The most bits of a digit with which every product of k terms is exact: digits are numbers of the format, and
/// k 2^(2 bits - 2) <= 2^kept_digits between promotions, 2^24 outside; of integers 7 bits, and below 2^31. 0 where not even one
/// bit is.
int exact_digit_bits(const SpelledRule& machine, std::int64_t k);

/// Errors: throws Error (usage) for a machine that does not take the parts.
NarrowProduct narrow_product(Backend& backend, const ViaPlan& plan, const WideOperands& x);

}  // namespace macheps::study
