// SPDX-License-Identifier: Apache-2.0
// Both triangular solves of P A = L U, in any arithmetic: every product and every difference rounded apart.
#pragma once
#include "experiments/analysis/equilibrate.hpp"
#include "experiments/analysis/lu.hpp"

#include <span>
#include <vector>

namespace macheps::analysis {

/// y = U^-1 L^-1 P z. `lu` holds the factors as numbers of the arithmetic, row-major; `z` comes in the matrix's order.
template <class Arithmetic, class Number = typename Arithmetic::Number>
std::vector<Number> substitute(const Arithmetic& in, const std::vector<Number>& lu, const std::vector<std::int64_t>& rows,
                               const std::vector<Number>& z) {
    const auto n = static_cast<std::int64_t>(rows.size());
    std::vector<Number> y(rows.size());
    for (std::int64_t i = 0; i < n; ++i) {
        const Number* row = lu.data() + i * n;
        Number s = z[static_cast<std::size_t>(rows[static_cast<std::size_t>(i)])];
        for (std::int64_t j = 0; j < i; ++j) s = in.sub(s, in.mul(row[j], y[static_cast<std::size_t>(j)]));
        y[static_cast<std::size_t>(i)] = s;
    }
    for (std::int64_t i = n - 1; i >= 0; --i) {
        const Number* row = lu.data() + i * n;
        Number s = y[static_cast<std::size_t>(i)];
        for (std::int64_t j = i + 1; j < n; ++j) s = in.sub(s, in.mul(row[j], y[static_cast<std::size_t>(j)]));
        y[static_cast<std::size_t>(i)] = in.div(s, row[i]);
    }
    return y;
}

}  // namespace macheps::analysis
