// SPDX-License-Identifier: Apache-2.0
// What `macheps sum` adds: vectors drawn or given by a formula, rounded once to the format.
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
    std::int64_t c = -1;  ///< of cancel: the exact result is 2.25 2^-c; negative while it is left open
    std::string name{};   ///< as rows name it: `cancel:16`
};

/// Reads a distribution of `macheps gemm`, `harmonic`, `cancel` or `cancel:C`. Errors: throws Error (usage).
SumData parse_sum_data(std::string_view text);
SumData with_c(SumData data, std::int64_t c);

/// Both vectors, as doubles on the format's grid; y is empty unless a dot product is asked for. The rounding is to nearest even
/// whatever the sums' is. `cancel` is made for dot products of an even n; its sums are those of x.
struct SumVectors {
    std::vector<double> x{}, y{};
};
SumVectors sum_vectors(const SumData& data, const Format& format, std::uint64_t seed, std::int64_t n, bool is_dot);

/// Products x_i y_i that are no multiples of the format's least number, and those of them that lie below its normal numbers: what
/// rounds them, or an error of theirs, errs by up to half of that number, however small they are.
struct ProductUnderflows {
    std::int64_t fine = 0, below = 0;
};
ProductUnderflows product_underflows(const Format& format, const SumVectors& vectors);

}  // namespace macheps::study
