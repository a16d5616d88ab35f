// SPDX-License-Identifier: Apache-2.0
// One axis of a sweep, as typed: k=16..65536.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::study {

struct SweepAxis {
    std::string name{};  ///< the name of a rule
    std::vector<double> values{};

    std::vector<std::int64_t> integers() const { return {values.begin(), values.end()}; }
};

/// An axis that a verb accepts: its name, the progression of its ranges, and its allowed values.
struct SweepRule {
    std::string_view name;
    bool is_size = false;  ///< integers from 1 on
    double factor = 2;     ///< ratio of consecutive values of a range
    double step = 0;       ///< above 0: difference of consecutive values instead; a range may then begin at 0
};

/// Parses `AXIS=FROM..TO` or `AXIS=V,V,...`. A range begins at FROM and continues with the factor or step of the rule
/// as long as values are at most TO. A value is a number or 2^N. Errors: throws Error (usage) with the example.
SweepAxis parse_sweep(std::string_view text, std::span<const SweepRule> rules, std::string_view example);
/// Parses an axis of `macheps gemm`: m, n, k or scale. Its ranges double.
SweepAxis parse_sweep(std::string_view text);

}  // namespace macheps::study
