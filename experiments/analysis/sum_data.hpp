// SPDX-License-Identifier: Apache-2.0
// What `macheps sum` adds: vectors drawn or given by a formula, rounded once to the format.
#pragma once
#include "core/format.hpp"
#include "experiments/numerics/operands.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::analysis {

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

}  // namespace macheps::analysis
