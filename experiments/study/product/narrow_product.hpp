// SPDX-License-Identifier: Apache-2.0
// A matrix product of fp64 or fp32 numbers made from narrow products: Ozaki's schemes, by digits (Ozaki, Ogita, Oishi,
// Rump 2012; on matrix units Ootomo, Ozaki, Yokota 2024) and by residues (arXiv 2504.08009), and sums of a few parts of
// each number.
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

/// One way to make a wide product. A way by parts has a format for its parts. The digits of Ozaki's schemes are
/// integers in the machine's operand format.
struct Via {
    std::string name{};            ///< as requested
    std::optional<Format> part{};  ///< format of the parts, for a way by parts
    int slices = 0;                ///< number of slices or parts; 0: chosen from the operands (ozaki1:auto)
    int products = 0;              ///< for a way by parts
    bool has_residues = false;     ///< Ozaki's second scheme, with `slices` moduli

    bool is_ozaki() const { return !part.has_value(); }
};

struct ViaRow {
    std::string_view name, words;
    Format part{};  ///< for a way by parts
    int parts = 0, products = 0;
};
std::span<const ViaRow> via_rows();

/// `ozaki1:S`, `ozaki1:auto`, `ozaki2:N` or a name of via_rows(). Errors: throws Error (usage).
Via parse_via(std::string_view text);

/// Settings of a wide product.
struct ViaPlan {
    Via via{};
    SpelledRule machine{};
    int digit_bits = 0;  ///< 0: chosen by the exactness rule
    bool full = false;   ///< all S^2 products, not only the S (S + 1) / 2 largest
    bool combines_exactly = false;
};

/// a [m,k], b [k,n], row-major.
struct WideOperands {
    std::int64_t m = 0, n = 0, k = 0;
    std::vector<double> a{}, b{};
};

struct NarrowProduct {
    std::vector<double> out{};
    int digit_bits = 0, slices = 0;  ///< for residues: bits of the integers, and number of moduli
    std::int64_t products = 0;
    std::optional<std::uint64_t> inexact{};  ///< elements of all digit products that are not the exact integers
};

/// Integer matrix unit of GPUs and CPUs: multiplies 8-bit integers and adds the products in 32 bits, modulo 2^32. It is
/// not in the machine table, because its operands do not have a format.
inline constexpr Machine exact_int32{.name = "exact.int32",
                                     .summary = "int8 products added in one int32 sum, which wraps"};
inline bool is_integer_unit(const Machine& machine) { return &machine == &exact_int32; }
/// Parses a name of parse_machine or that of exact_int32. Errors: as parse_machine.
SpelledRule parse_via_machine(std::string_view name);

/// Returns the operand format of the machine that has the most digits.
Format digit_format(const Machine& machine);
/// Returns how many digits of a sum of integers the machine's results keep.
int kept_digits(const Machine& machine);
/// Returns the maximum number of bits of a digit for which every product of k terms is exact. Digits must be numbers of
/// the format, and k 2^(2 bits - 2) must be at most 2^kept_digits between promotions and 2^24 over all of k. On the
/// integer unit, digits have at most 7 bits, and sums are below 2^31. Returns 0 if not even one bit is exact.
int exact_digit_bits(const SpelledRule& machine, std::int64_t k);

/// Computes the product. Errors: throws Error (usage) for a machine that does not take the parts.
NarrowProduct narrow_product(Backend& backend, const ViaPlan& plan, const WideOperands& x);

}  // namespace macheps::study
