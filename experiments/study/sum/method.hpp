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

/// Inputs of an error bound. u is the unit roundoff of the format, s the exact sum, and S the sum of the magnitudes of
/// the terms.
struct SumSetting {
    std::int64_t n = 0, parameter = 0;
    double unit = 0;   ///< u = 2^-p
    double off = 1;    ///< a rounding has a relative error of at most off * u; 1 for rounding to nearest, else 2
    double share = 1;  ///< |s| / S
    bool is_nearest = true;
};

struct SumMethodRow {
    std::string_view name;         ///< such as `blocked`; without the colon and the parameter
    std::string_view parameter{};  ///< name of the parameter after the colon; empty: no parameter
    std::string_view words;
    SumMethod method;
    bool sums = true, dots = true;
    bool sorts = false, descends = false;  ///< recursive sum after a stable sort by magnitude
    /// Returns the number of additions on the longest path. Null if the error bound does not follow from this number.
    std::int64_t (*height)(std::int64_t n, std::int64_t parameter) = nullptr;
    /// Set for methods without `height`. Returns an upper bound on |error| / (u S) that always holds, or nothing if no
    /// such bound is known.
    std::optional<double> (*bound)(const SumSetting& setting) = nullptr;
};
std::span<const SumMethodRow> sum_methods();

struct SumChoice {
    std::string name{};  ///< the method, as the user wrote it
    const SumMethodRow* row = nullptr;
    std::int64_t parameter = 0;
    std::optional<SpelledRule> machine{};
};

/// Parses a method such as `pairwise`, `blocked:128` or `machine:sm90.wgmma.fp16`. Errors: throws Error (usage) for an
/// unknown method or an invalid parameter.
SumChoice parse_sum_method(std::string_view text, bool is_dot);

}  // namespace macheps::study
