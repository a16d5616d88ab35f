// SPDX-License-Identifier: Apache-2.0
// Counts the outputs that the tests of single outputs (T0 to T2) refuse. The counts of several parts of the outputs can
// be added.
#pragma once
#include <algorithm>
#include <cstdint>

namespace macheps::check {

/// The number of outputs that one test refuses, and the refused output with the largest error.
struct Refused {
    std::int64_t index = -1, count = 0;
    double got = 0, want = 0, bound = 0, ratio = 0;

    void add(const Refused& other) {
        if (other.count == 0) return;
        const std::int64_t all = count + other.count;
        if (index < 0 || other.ratio > ratio) *this = other;
        count = all;
    }
};

/// The results of the tests of single outputs for a part of the outputs.
struct SingleResults {
    Refused special{}, exact{}, certain{}, probable{};
    double rho = 0;
    std::int64_t outputs = 0, exact_outputs = 0;

    void add(const SingleResults& other) {
        special.add(other.special);
        exact.add(other.exact);
        certain.add(other.certain);
        probable.add(other.probable);
        rho = std::max(rho, other.rho);
        outputs += other.outputs;
        exact_outputs += other.exact_outputs;
    }
    bool is_refused_for_certain() const { return special.count + exact.count + certain.count > 0; }
};

}  // namespace macheps::check
