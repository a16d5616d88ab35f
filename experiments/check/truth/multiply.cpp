// SPDX-License-Identifier: Apache-2.0
// Uses the same Highway targets as the CPU engine: AVX2 and AVX-512. Other CPUs run plain loops.
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "experiments/check/truth/multiply.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>

#include "experiments/check/truth/multiply.hpp"

#ifndef MACHEPS_CHECK_PANEL
#define MACHEPS_CHECK_PANEL
namespace macheps::check {
constexpr std::int64_t panel_rows = 4, panel_columns = 64;
/// Computes out [rows, 64] = a [rows, k] b [k, 64] for up to four rows.
using PanelProduct = void (*)(const double* a, std::int64_t rows, std::int64_t k, const double* b, double* out);
}  // namespace macheps::check
#endif

HWY_BEFORE_NAMESPACE();
namespace macheps::check::HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
namespace {

/// Computes two vectors of columns at a time, whose sums stay in registers. Products are rounded before they are added,
/// as in the plain loops. Fused multiply-adds would give different bits.
template <int rows>
void multiply_rows(const double* a, std::int64_t k, const double* b, double* out) {
    namespace hn = hwy::HWY_NAMESPACE;
    const hn::ScalableTag<double> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    for (std::int64_t j = 0; j < panel_columns; j += 2 * lanes) {
        hn::Vec<decltype(d)> first[rows], second[rows];
        for (int r = 0; r < rows; ++r) first[r] = second[r] = hn::Zero(d);
        for (std::int64_t p = 0; p < k; ++p) {
            const auto x = hn::LoadU(d, b + p * panel_columns + j), y = hn::LoadU(d, b + p * panel_columns + j + lanes);
            for (int r = 0; r < rows; ++r) {
                const auto factor = hn::Set(d, a[r * k + p]);
                first[r] = hn::Add(first[r], hn::Mul(factor, x));
                second[r] = hn::Add(second[r], hn::Mul(factor, y));
            }
        }
        for (int r = 0; r < rows; ++r) {
            hn::StoreU(first[r], d, out + r * panel_columns + j);
            hn::StoreU(second[r], d, out + r * panel_columns + j + lanes);
        }
    }
}

}  // namespace

void multiply_panel(const double* a, std::int64_t rows, std::int64_t k, const double* b, double* out) {
    constexpr void (*kernels[])(const double*, std::int64_t, const double*, double*) = {
        multiply_rows<1>, multiply_rows<2>, multiply_rows<3>, multiply_rows<4>};
    kernels[rows - 1](a, k, b, out);
}
#endif
}  // namespace macheps::check::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps::check {

namespace N_AVX2 {
void multiply_panel(const double* a, std::int64_t rows, std::int64_t k, const double* b, double* out);
}
namespace N_AVX3 {
void multiply_panel(const double* a, std::int64_t rows, std::int64_t k, const double* b, double* out);
}

namespace {

void multiply_plainly(const double* a, std::int64_t rows, std::int64_t k, const double* b, double* out) {
    std::fill_n(out, rows * panel_columns, 0.0);
    for (std::int64_t p = 0; p < k; ++p) {
        for (std::int64_t r = 0; r < rows; ++r) {
            const double factor = a[r * k + p];
            for (std::int64_t j = 0; j < panel_columns; ++j)
                out[r * panel_columns + j] += factor * b[p * panel_columns + j];
        }
    }
}

PanelProduct panel_product(Simd simd) { return MACHEPS_CHOOSE_TARGET(simd, multiply_plainly, multiply_panel); }

}  // namespace

std::vector<double> multiply(const ProductOperands& of, const std::vector<double>& a, const std::vector<double>& b,
                             ThreadPool& pool, Simd simd) {
    const PanelProduct product = panel_product(simd);
    std::vector<double> out(static_cast<std::size_t>(of.rows() * of.n));
    const std::int64_t panels = (of.n + panel_columns - 1) / panel_columns;
    pool.run(of.batches * panels, [&](std::int64_t task) {
        const std::int64_t batch = task / panels, column = task % panels * panel_columns;
        const std::int64_t columns = std::min(panel_columns, of.n - column), end = of.first_row(batch + 1);
        if (of.first_row(batch) == end) return;
        const double* terms = b.data() + (of.has_one_b ? 0 : batch) * of.k * of.n + column;
        std::vector<double> panel(static_cast<std::size_t>(of.k * panel_columns));
        for (std::int64_t p = 0; p < of.k; ++p)
            std::copy_n(terms + p * of.n, columns, panel.begin() + p * panel_columns);
        std::array<double, static_cast<std::size_t>(panel_rows * panel_columns)> sums;
        for (std::int64_t row = of.first_row(batch); row < end; row += panel_rows) {
            const std::int64_t rows = std::min(panel_rows, end - row);
            product(a.data() + row * of.k, rows, of.k, panel.data(), sums.data());
            for (std::int64_t r = 0; r < rows; ++r)
                std::copy_n(sums.data() + r * panel_columns, columns, out.data() + (row + r) * of.n + column);
        }
    });
    return out;
}

}  // namespace macheps::check
#endif
