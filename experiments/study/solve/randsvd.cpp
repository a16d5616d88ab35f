// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/solve/gallery.hpp"

#include <boost/multiprecision/cpp_bin_float.hpp>

namespace macheps::study {

namespace {

/// Returns n singular values from 1 to 1 / condition. Each is computed with 100 decimal digits (334 bits) and rounded
/// once to fp64.
std::vector<double> singular_values(std::int64_t n, double condition, int mode) {
    using Wide = boost::multiprecision::cpp_bin_float_100;
    std::vector<double> values(static_cast<std::size_t>(n), 1);
    const Wide least = 1 / Wide(condition);
    for (std::int64_t i = 1; i < n; ++i) {
        Wide value = 1;
        switch (mode) {
            case 1:
                value = least;
                break;
            case 2:
                if (i == n - 1) value = least;
                break;
            case 3:
                value = pow(Wide(condition), Wide(-i) / Wide(n - 1));
                break;
            default:
                value = 1 - (1 - least) * Wide(i) / Wide(n - 1);
                break;
        }
        values[static_cast<std::size_t>(i)] = static_cast<double>(value);
    }
    return values;
}

/// Multiplies `a` from the left by random Householder reflections. For m = 2 to n, a reflection changes the last m
/// rows. The inner loops run over the columns, because the elements of a row are contiguous.
void reflect_rows(Matrix& a, std::uint64_t seed, std::int64_t stream) {
    std::vector<double> v, t(static_cast<std::size_t>(a.n));
    for (std::int64_t m = 2; m <= a.n; ++m) {
        v.resize(static_cast<std::size_t>(m));
        double square = 0;
        for (std::int64_t i = 0; i < m; ++i) {
            const double x = 2 * unit_draw(Operand::a, seed, stream + m, i) - 1;
            v[static_cast<std::size_t>(i)] = x;
            square += x * x;
        }
        const double beta = 2 / square;
        std::fill(t.begin(), t.end(), 0);
        for (std::int64_t i = 0; i < m; ++i) {
            const double* row = a.row(a.n - m + i);
            const double x = v[static_cast<std::size_t>(i)];
            for (std::int64_t j = 0; j < a.n; ++j) t[static_cast<std::size_t>(j)] += x * row[j];
        }
        for (double& each : t) each = beta * each;
        for (std::int64_t i = 0; i < m; ++i) {
            double* row = a.row(a.n - m + i);
            const double x = v[static_cast<std::size_t>(i)];
            for (std::int64_t j = 0; j < a.n; ++j) row[j] -= x * t[static_cast<std::size_t>(j)];
        }
    }
}

void transpose(Matrix& a) {
    for (std::int64_t i = 0; i < a.n; ++i) {
        for (std::int64_t j = 0; j < i; ++j) std::swap(a(i, j), a(j, i));
    }
}

}  // namespace

Matrix random_singular_values(std::int64_t n, std::uint64_t seed, double condition, int mode) {
    Matrix a(n);
    const std::vector<double> sigma = singular_values(n, condition, mode);
    for (std::int64_t i = 0; i < n; ++i) a(i, i) = sigma[static_cast<std::size_t>(i)];
    reflect_rows(a, seed, 0x10000);
    transpose(a);
    reflect_rows(a, seed, 0x20000);
    transpose(a);
    return a;
}

}  // namespace macheps::study
