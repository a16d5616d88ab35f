// SPDX-License-Identifier: Apache-2.0
// Computes a matrix product of fp64 or fp32 numbers (a wide product) from products of narrow numbers. Ozaki's first
// scheme splits numbers into digits (Ozaki, Ogita, Oishi, Rump 2012; on matrix units Ootomo, Ozaki, Yokota 2024). His
// second scheme uses residues (arXiv 2504.08009). The other methods split each number into two or three parts.
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

/// A method to compute a wide product. A method that splits numbers into parts specifies the format of the parts.
/// Ozaki's schemes use integers in the machine's operand format.
struct Via {
    std::string name{};            ///< name, as the user wrote it
    std::optional<Format> part{};  ///< format of the parts; absent for Ozaki's schemes
    int slices = 0;                ///< number of slices, parts or moduli; 0 for ozaki1:auto: chosen from the operands
    int products = 0;              ///< number of narrow products, if the method uses parts
    bool has_residues = false;     ///< Ozaki's second scheme, with `slices` moduli

    bool is_ozaki() const { return !part.has_value(); }
};

struct ViaRow {
    std::string_view name, words;
    Format part{};  ///< format of the parts
    int parts = 0, products = 0;
};
std::span<const ViaRow> via_rows();

/// Parses `ozaki1:S`, `ozaki1:auto`, `ozaki2:N` or a name of via_rows(). Errors: throws Error (usage) for any other
/// text.
Via parse_via(std::string_view text);

/// Settings of a wide product.
struct ViaPlan {
    Via via{};
    SpelledRule machine{};
    int digit_bits = 0;  ///< 0: use exact_digit_bits()
    bool full = false;   ///< computes all S^2 products, not only the S (S + 1) / 2 largest
    bool combines_exactly = false;
};

/// Operands a [m,k] and b [k,n] of a wide product, row-major.
struct WideOperands {
    std::int64_t m = 0, n = 0, k = 0;
    std::vector<double> a{}, b{};
};

struct NarrowProduct {
    std::vector<double> out{};
    int digit_bits = 0, slices = 0;  ///< ozaki2: bits of the integers, and number of moduli
    std::int64_t products = 0;
    std::optional<std::uint64_t> inexact{};  ///< Ozaki's schemes: number of inexact elements in all narrow products
};

/// Integer matrix unit of GPUs and CPUs: multiplies 8-bit integers and adds the products in 32 bits, modulo 2^32. It is
/// not in the machine table, because its operands do not have a format.
inline constexpr Machine exact_int32{.name = "exact.int32",
                                     .summary = "int8 products added in one int32 sum, which wraps"};
inline bool is_integer_unit(const Machine& machine) { return &machine == &exact_int32; }
/// Parses `exact.int32` or a name that parse_machine accepts. Errors: the same as parse_machine.
SpelledRule parse_via_machine(std::string_view name);

/// Returns the widest operand format of the machine, that is, the format with the most significand digits.
Format digit_format(const Machine& machine);
/// Returns the number of significand digits that the machine keeps of a sum of integers.
int kept_digits(const Machine& machine);
/// Returns the maximum number of bits of a digit for which every sum of k products is exact. The machine's operand
/// format must hold all digits. Without promotion, k 2^(2 bits - 2) must be at most 2^kept_digits. With promotion after
/// every P terms, P 2^(2 bits - 2) must be at most 2^kept_digits, and k 2^(2 bits - 2) at most 2^24. On the integer
/// unit, digits have at most 7 bits, and sums are below 2^31. Returns 0 if not even one bit is exact.
int exact_digit_bits(const SpelledRule& machine, std::int64_t k);

/// Computes the wide product by the method of the plan. Errors: throws Error (usage) if the machine cannot multiply the
/// narrow operands, or if the plan's digits are too wide.
NarrowProduct narrow_product(Backend& backend, const ViaPlan& plan, const WideOperands& x);

}  // namespace macheps::study
