// SPDX-License-Identifier: Apache-2.0
#include "experiments/analysis/machine_product.hpp"

#include <algorithm>

namespace macheps::analysis {

std::uint64_t count_inexact(const WideOperands& x, const std::vector<float>& a, const std::vector<float>& b,
                            const std::vector<float>& got) {
    std::uint64_t count = 0;
    std::vector<std::int64_t> sums(static_cast<std::size_t>(x.n));
    for (std::int64_t i = 0; i < x.m; ++i) {
        std::fill(sums.begin(), sums.end(), 0);
        for (std::int64_t p = 0; p < x.k; ++p) {
            const auto q = static_cast<std::int64_t>(a[static_cast<std::size_t>(i * x.k + p)]);
            if (q == 0) continue;
            for (std::int64_t j = 0; j < x.n; ++j) {
                sums[static_cast<std::size_t>(j)] += q * static_cast<std::int64_t>(b[static_cast<std::size_t>(p * x.n + j)]);
            }
        }
        for (std::int64_t j = 0; j < x.n; ++j) {
            count += double{got[static_cast<std::size_t>(i * x.n + j)]} != static_cast<double>(sums[static_cast<std::size_t>(j)]);
        }
    }
    return count;
}

}  // namespace macheps::analysis
