// SPDX-License-Identifier: Apache-2.0
// The methods of `macheps sum` by name, and a-priori bounds on their errors.
#pragma once
#include "emulation/matmul/machine_spelling.hpp"
#include "experiments/study/sum/kernel.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace macheps::study {

/// Inputs of a bound: the format's u, the largest error of a rounding in the mode (in u: 1 to nearest, else 2), and the
/// data.
struct SumSetting {
    std::int64_t n = 0, parameter = 0;
    double unit = 0;   ///< 2^-p
    double off = 1;    ///< each rounding has an error of at most `off` u
    double share = 1;  ///< |s| / S
    bool is_nearest = true;
};

struct SumMethodRow {
    std::string_view name;         ///< `blocked`; before a colon if it takes a parameter
    std::string_view parameter{};  ///< name of the parameter after the colon; empty: none
    std::string_view words;
    SumMethod method;
    bool sums = true, dots = true;
    bool sorts = false, descends = false;  ///< recursive, after a stable sort by magnitude
    /// Number of additions on the longest path. Null if a bound needs more than that.
    std::int64_t (*height)(std::int64_t n, std::int64_t parameter) = nullptr;
    /// For methods without a height: certain bound on |error| / (u S). Empty if nothing is certain.
    std::optional<double> (*bound)(const SumSetting& setting) = nullptr;
};
std::span<const SumMethodRow> sum_methods();

struct SumChoice {
    std::string name{};  ///< as requested
    const SumMethodRow* row = nullptr;
    std::int64_t parameter = 0;
    std::optional<SpelledRule> machine{};
};

/// Reads `pairwise`, `blocked:128`, `machine:sm90.wgmma.fp16`. Errors: throws Error (usage).
SumChoice parse_sum_method(std::string_view text, bool is_dot);

}  // namespace macheps::study
