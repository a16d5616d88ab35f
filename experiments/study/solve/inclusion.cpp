// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/solve/inclusion.hpp"

#include <algorithm>

namespace macheps::study {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double tiny = std::numeric_limits<double>::denorm_min();

/// Returns an upper bound on a sum or product of nonnegative numbers. `value` is the result in fp64 after `operations`
/// roundings. Each rounding has a relative error of at most 2^-53, or an absolute error of at most 2^-1075 if it
/// underflows. The bound also covers the roundings in this function.
double above(double value, std::int64_t operations) {
    const auto count = static_cast<double>(operations + 4);
    return value * (1 + count * 0x1p-52) + count * tiny;
}

/// Returns the weights v. The bounds are valid for any positive weights. These weights are the row sums of |A| after
/// its columns are scaled. With them, badly scaled rows or columns of A do not make alpha large. Returns an empty
/// vector if a row or a column of A is zero or outside the range of fp64.
std::vector<double> weights_of(const Matrix& a) {
    const std::int64_t n = a.n;
    std::vector<double> largest(static_cast<std::size_t>(n)), weights(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
        const double most = max_norm({a.row(i), static_cast<std::size_t>(n)});
        for (std::int64_t j = 0; j < n; ++j) {
            double& column = largest[static_cast<std::size_t>(j)];
            column = std::max(column, std::fabs(a(i, j)) / most);
        }
    }
    for (std::int64_t i = 0; i < n; ++i) {
        double& sum = weights[static_cast<std::size_t>(i)];
        for (std::int64_t j = 0; j < n; ++j) sum += std::fabs(a(i, j)) / largest[static_cast<std::size_t>(j)];
        if (!(sum > 0 && sum < infinity)) return {};
    }
    return weights;
}

/// Number of columns of Y, and of the computed F = I - A Y, that are processed together.
constexpr std::int64_t block_width = 16;

/// Sums over the columns of one block: the block's part of |Y| v (`reached`) and of |F| v (`left`).
struct BlockSums {
    std::vector<double> reached{}, left{};
};

template <class Number>
BlockSums block_sums(const Matrix& a, const std::vector<Number>& inverse, std::int64_t first,
                     const std::vector<double>& weights) {
    const std::int64_t n = a.n, width = std::min(block_width, n - first);
    std::vector<Number> y(static_cast<std::size_t>(n * block_width));
    for (std::int64_t c = 0; c < width; ++c) {
        for (std::int64_t j = 0; j < n; ++j) {
            y[static_cast<std::size_t>(j * block_width + c)] = inverse[static_cast<std::size_t>((first + c) * n + j)];
        }
    }
    BlockSums sums{.reached = std::vector<double>(static_cast<std::size_t>(n)),
                   .left = std::vector<double>(static_cast<std::size_t>(n))};
    for (std::int64_t i = 0; i < n; ++i) {
        Number s[block_width]{};
        if (i >= first && i < first + width) s[i - first] = 1;
        for (std::int64_t j = 0; j < n; ++j) {
            const Number element = a(i, j);
            const Number* row = y.data() + j * block_width;
            if constexpr (std::is_same_v<Number, double>) {
                for (std::int64_t c = 0; c < block_width; ++c) s[c] -= element * row[c];
            } else {
                for (std::int64_t c = 0; c < width; ++c) s[c] -= element * row[c];
            }
        }
        for (std::int64_t c = 0; c < width; ++c) {
            const double weight = weights[static_cast<std::size_t>(first + c)];
            sums.reached[static_cast<std::size_t>(i)] +=
                magnitude_above(y[static_cast<std::size_t>(i * block_width + c)]) * weight;
            sums.left[static_cast<std::size_t>(i)] += magnitude_above(s[c]) * weight;
        }
    }
    return sums;
}

/// Computes the bounds. F is the computed value of E = I - A Y. It satisfies |F - E| <= gamma (I + |A| |Y|) with gamma
/// = (n + 1) u / (1 - (n + 1) u), because its elements are sums of n + 1 terms (Higham 2002, 3.1). Each product that
/// underflows adds an error of at most 2^-1074.
template <class Number>
Contraction contraction_of(const Matrix& a, const std::vector<Number>& inverse, ThreadPool& pool) {
    const std::int64_t n = a.n;
    const auto size = static_cast<std::size_t>(n);
    const double gamma = static_cast<double>(n + 2) * (std::is_same_v<Number, double> ? 0x1p-53 : 0x1p-113);
    Contraction known{.weights = weights_of(a)};
    if (known.weights.empty()) return known;
    std::vector<BlockSums> blocks(static_cast<std::size_t>((n + block_width - 1) / block_width));
    pool.run(static_cast<std::int64_t>(blocks.size()), [&](std::int64_t block) {
        blocks[static_cast<std::size_t>(block)] = block_sums(a, inverse, block * block_width, known.weights);
    });
    std::vector<double> reached(size), left(size);
    double total = 0, reach = 0, alpha = 0;
    for (std::size_t i = 0; i < size; ++i) {
        for (const BlockSums& sums : blocks) {
            reached[i] += sums.reached[i];
            left[i] += sums.left[i];
        }
        reached[i] = above(reached[i], 2 * n);
        left[i] = above(left[i], 2 * n);
        reach = std::max(reach, reached[i]);
        total += known.weights[i];
    }
    for (std::int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(i);
        double product = known.weights[at];
        for (std::int64_t j = 0; j < n; ++j) product += std::fabs(a(i, j)) * reached[static_cast<std::size_t>(j)];
        const double rounding = gamma * above(product, 2 * n) + static_cast<double>(n) * tiny * above(total, n);
        const double share = above(left[at] + above(rounding, 5), 1) / known.weights[at];
        if (!(share <= alpha)) alpha = share;  // also true if `share` is NaN
        if (!(alpha < infinity)) return known;
    }
    known.alpha = above(alpha, 1);
    known.reach = reach;
    return known;
}

}  // namespace

Contraction contraction(const Matrix& a, const std::vector<double>& inverse, ThreadPool& pool) {
    return contraction_of(a, inverse, pool);
}

Contraction contraction(const Matrix& a, const std::vector<Quad>& inverse, ThreadPool& pool) {
    return contraction_of(a, inverse, pool);
}

std::vector<double> native_inverse(const Factors& factors, ThreadPool& pool) {
    const Matrix& lu = factors.lu;
    const std::int64_t n = lu.n;
    std::vector<double> inverse(static_cast<std::size_t>(n * n));
    pool.run((n + block_width - 1) / block_width, [&](std::int64_t block) {
        const std::int64_t first = block * block_width, width = std::min(block_width, n - first);
        std::vector<double> y(static_cast<std::size_t>(n * block_width));
        const auto subtract = [&](std::int64_t i, std::int64_t from, std::int64_t to) {
            double s[block_width];
            double* mine = y.data() + i * block_width;
            std::copy(mine, mine + block_width, s);
            const double* row = lu.row(i);
            for (std::int64_t j = from; j < to; ++j) {
                const double* other = y.data() + j * block_width;
                for (std::int64_t c = 0; c < block_width; ++c) s[c] -= row[j] * other[c];
            }
            std::copy(s, s + block_width, mine);
        };
        for (std::int64_t i = 0; i < n; ++i) {
            const std::int64_t column = factors.rows[static_cast<std::size_t>(i)] - first;
            if (column >= 0 && column < width) y[static_cast<std::size_t>(i * block_width + column)] = 1;
            subtract(i, 0, i);
        }
        for (std::int64_t i = n - 1; i >= 0; --i) {
            subtract(i, i + 1, n);
            for (std::int64_t c = 0; c < block_width; ++c) y[static_cast<std::size_t>(i * block_width + c)] /= lu(i, i);
        }
        for (std::int64_t c = 0; c < width; ++c) {
            for (std::int64_t j = 0; j < n; ++j) {
                inverse[static_cast<std::size_t>((first + c) * n + j)] =
                    y[static_cast<std::size_t>(j * block_width + c)];
            }
        }
    });
    return inverse;
}

std::vector<Oct> wide_residual(const Matrix& a, std::span<const double> b, const std::vector<Oct>& x,
                               ThreadPool& pool) {
    std::vector<Oct> r(b.begin(), b.end());
    pool.run(a.n, [&](std::int64_t i) {
        Oct& sum = r[static_cast<std::size_t>(i)];
        for (std::int64_t j = 0; j < a.n; ++j) sum -= Oct(a(i, j)) * x[static_cast<std::size_t>(j)];
    });
    return r;
}

double error_bound(const Matrix& a, std::span<const double> b, const std::vector<Oct>& x, const Contraction& known,
                   ThreadPool& pool) {
    if (!known.holds()) return infinity;
    const std::vector<Oct> r = wide_residual(a, b, x, pool);
    std::vector<double> sizes(x.size());
    std::transform(x.begin(), x.end(), sizes.begin(), [](const Oct& each) { return magnitude_above(each); });
    // The error of the computed r is at most (n + 1) u / (1 - (n + 1) u) times the sum of the magnitudes of its terms,
    // with u = 2^-237. An underflow adds less than 2^-1074.
    const double gamma = static_cast<double>(a.n + 2) * 0x1p-237;
    double rho = 0;
    for (std::int64_t i = 0; i < a.n; ++i) {
        const auto at = static_cast<std::size_t>(i);
        double terms = std::fabs(b[at]);
        for (std::int64_t j = 0; j < a.n; ++j) terms += std::fabs(a(i, j)) * sizes[static_cast<std::size_t>(j)];
        const double size = above(magnitude_above(r[at]) + above(gamma * above(terms, 2 * a.n), 2), 1);
        const double share = size / known.weights[at];
        if (!(share <= rho)) rho = share;
        if (!(rho < infinity)) return infinity;
    }
    const double bound = above(rho, 1) * known.reach / std::nextafter(1 - known.alpha, 0.0);
    return bound < infinity ? above(bound, 3) : infinity;
}

}  // namespace macheps::study
