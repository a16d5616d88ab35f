// SPDX-License-Identifier: Apache-2.0
// The vectors that `macheps sum` adds: drawn or given by a formula, and rounded once to the format.
#pragma once
#include "core/format.hpp"
#include "experiments/study/operands.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::study {

struct SumData {
    enum class Kind : std::uint8_t { drawn, harmonic, cancel };
    Kind kind = Kind::drawn;
    Distribution distribution = Distribution::positive;
    std::int64_t c = -1;  ///< for cancel: the exact result is 2.25 2^-c; negative: not set yet
    std::string name{};   ///< name in rows: `cancel:16`
};

/// Reads a distribution of `macheps gemm`, `harmonic`, `cancel` or `cancel:C`. Errors: throws Error (usage).
SumData parse_sum_data(std::string_view text);
SumData with_c(SumData data, std::int64_t c);

/// Both vectors, as doubles that are numbers of the format. y is empty unless a dot product is computed. The terms are
/// rounded to nearest even, whatever the rounding of the sums. `cancel` is made for dot products with an even n. Its
/// sums are those of x.
struct SumVectors {
    std::vector<double> x{}, y{};
};
SumVectors sum_vectors(const SumData& data, const Format& format, std::uint64_t seed, std::int64_t n, bool is_dot);

/// Counts of products x_i y_i that underflow: those that may not be multiples of the format's smallest number, and
/// those of them that may be below its normal numbers. Rounding such a product, or its rounding error, has an error of
/// up to half of that number, however small the product is.
struct ProductUnderflows {
    std::int64_t fine = 0, below = 0;
};
ProductUnderflows product_underflows(const Format& format, const SumVectors& vectors);

}  // namespace macheps::study
