// SPDX-License-Identifier: Apache-2.0
// The vectors that `macheps sum` adds. Their elements are random or given by a formula, and are rounded once to the
// format.
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
    enum class Kind : std::uint8_t { drawn, harmonic, cancel, constant };
    Kind kind = Kind::drawn;
    Distribution distribution = Distribution::positive;
    std::int64_t c = -1;  ///< for `cancel`: the exact result is 2.25 * 2^-c; negative: c is not set yet
    std::string value{};  ///< for `constant`: the number that every term is before it is rounded, as typed
    std::string name{};   ///< name in rows: `cancel:16`
};

/// Parses the name of a distribution of `macheps gemm`, `harmonic`, `cancel`, `cancel:C`, `equal:VALUE`, or VALUE alone,
/// which is short for `equal:VALUE`. Errors: throws Error (usage) for any other text.
SumData parse_sum_data(std::string_view text);
SumData with_c(SumData data, std::int64_t c);

/// Returns whether VALUE of `equal:VALUE` is beyond the largest number of the format.
bool is_beyond(const SumData& data, const Format& format);

/// The vectors x and y. Their elements are numbers of the format, stored as doubles. y is empty unless a dot product is
/// computed. The elements are rounded to nearest even, whatever the rounding mode of the sums. The data `cancel` are
/// designed for dot products with an even n. A plain sum of `cancel` adds the elements of x.
struct SumVectors {
    std::vector<double> x{}, y{};
};
SumVectors sum_vectors(const SumData& data, const Format& format, std::uint64_t seed, std::int64_t n, bool is_dot);

/// Counts of products x_i y_i that may underflow. `fine` counts products that may not be multiples of the format's
/// smallest positive number. `below` counts the products in `fine` that may also be below the smallest normal number.
/// Rounding such a product, or its rounding error, can cause an error of half the smallest positive number, however
/// small the product is.
struct ProductUnderflows {
    std::int64_t fine = 0, below = 0;
};
ProductUnderflows product_underflows(const Format& format, const SumVectors& vectors);

}  // namespace macheps::study
