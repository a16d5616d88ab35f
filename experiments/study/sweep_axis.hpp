// SPDX-License-Identifier: Apache-2.0
// One axis of a sweep, as it is typed: k=16..65536.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::study {

struct SweepAxis {
    std::string name{};  ///< a rule's
    std::vector<double> values{};

    std::vector<std::int64_t> integers() const { return {values.begin(), values.end()}; }
};

/// An axis that a verb has: how its ranges go on, and what its values may be.
struct SweepRule {
    std::string_view name;
    bool is_size = false;  ///< whole numbers from 1 on
    double factor = 2;     ///< from value to value of a range
    double step = 0;       ///< above 0: a range adds this instead, and may begin at 0
};

/// `AXIS=FROM..TO` goes on by the rule's factor, or its step, from FROM to TO, both included where TO is met; `AXIS=V,V,...`
/// is a list. A value is a number or 2^N. Errors: throws Error (usage), with the example.
SweepAxis parse_sweep(std::string_view text, std::span<const SweepRule> rules, std::string_view example);
/// The axes of `macheps gemm`: m, n, k and scale, which double.
SweepAxis parse_sweep(std::string_view text);

}  // namespace macheps::study
