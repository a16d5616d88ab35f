// SPDX-License-Identifier: Apache-2.0
// Parses one axis of a sweep, such as k=16..65536.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::study {

struct SweepAxis {
    std::string name{};  ///< SweepRule::name of the axis
    std::vector<double> values{};

    std::vector<std::int64_t> integers() const { return {values.begin(), values.end()}; }
};

/// An axis that a verb accepts: its name, the progression of its ranges, and its allowed values.
struct SweepRule {
    std::string_view name;
    bool is_size = false;  ///< the values must be integers from 1 to 2^40
    double factor = 2;     ///< ratio of consecutive values of a range
    double step = 0;       ///< if above 0: difference of consecutive values, replaces `factor`; ranges may begin at 0
};

/// Parses `AXIS=FROM..TO` or `AXIS=V,V,...`. A range begins at FROM and continues with the factor or step of the rule
/// while the values are at most TO. A value is a number or 2^N. Errors: throws FieldError (usage) that shows `example`.
SweepAxis parse_sweep(std::string_view text, std::span<const SweepRule> rules, std::string_view example);
/// Parses an axis of `macheps gemm`: m, n, k or scale. Each value of a range is twice the previous value.
SweepAxis parse_sweep(std::string_view text);

}  // namespace macheps::study
