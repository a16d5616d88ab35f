// SPDX-License-Identifier: Apache-2.0
// One axis of a sweep, as it is typed: k=16..65536.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace macheps {

struct SweepAxis {
    std::string name{};  ///< m, n, k or scale
    std::vector<double> values{};

    std::vector<std::int64_t> integers() const { return {values.begin(), values.end()}; }
};

/// `AXIS=FROM..TO` doubles from FROM to TO, both included when TO is FROM times a power of two; `AXIS=V,V,...` is a
/// list. A value is a number or 2^N. Errors: throws Error (usage); m, n and k take whole numbers from 1 on.
SweepAxis parse_sweep(std::string_view text);

}  // namespace macheps
