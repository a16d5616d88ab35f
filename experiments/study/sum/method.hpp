// SPDX-License-Identifier: Apache-2.0
// The methods of `macheps sum` by name, and what is known of their errors beforehand.
#pragma once
#include "emulation/matmul/machine_spelling.hpp"
#include "experiments/study/sum/kernel.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace macheps::study {

/// What a bound is made from: the format's u, how far a mode may be off (1 to nearest, else 2), and the data.
struct SumSetting {
    std::int64_t n = 0, parameter = 0;
    double unit = 0;   ///< 2^-p
    double off = 1;    ///< roundings are off by `off` u at most
    double share = 1;  ///< |s| / S
    bool is_nearest = true;
};

struct SumMethodRow {
    std::string_view name;         ///< `blocked`; before a colon where it takes a parameter
    std::string_view parameter{};  ///< what stands behind the colon, empty for none
    std::string_view words;
    SumMethod method;
    bool sums = true, dots = true;
    bool sorts = false, descends = false;  ///< recursive, on a stable sort by magnitude
    /// Additions on the longest path; null where a bound needs more than that.
    std::int64_t (*height)(std::int64_t n, std::int64_t parameter) = nullptr;
    /// Of methods without a height: certain bound on |error| / (u S), empty where nothing is certain.
    std::optional<double> (*bound)(const SumSetting& setting) = nullptr;
};
std::span<const SumMethodRow> sum_methods();

struct SumChoice {
    std::string name{};  ///< as asked
    const SumMethodRow* row = nullptr;
    std::int64_t parameter = 0;
    std::optional<SpelledRule> machine{};
};

/// Reads `pairwise`, `blocked:128`, `machine:sm90.wgmma.fp16`. Errors: throws Error (usage).
SumChoice parse_sum_method(std::string_view text, bool is_dot);

}  // namespace macheps::study
