// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/product/product_errors.hpp"

#include "core/math64.hpp"
#include "core/ulp.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace macheps::study {

namespace {

/// Mean, maximum and root mean square of magnitudes.
struct Moments {
    std::uint64_t count = 0;
    double largest = 0, sum = 0, squares = 0;

    void add(double x) {
        ++count;
        largest = std::max(largest, x);
        sum += x;
        squares += x * x;
    }
    double mean() const { return sum / static_cast<double>(count); }
    double root_mean_square() const { return std::sqrt(squares / static_cast<double>(count)); }
};

}  // namespace

double decibels(double signal, double noise) {
    if (noise == 0) return std::numeric_limits<double>::infinity();
    return 10 / 0x1.26bb1bbb55516p+1 * math::log(signal / noise);  // ln 10
}

double largest_error(std::span<const double> out, std::span<const ExactOutput> exact) {
    double largest = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
        if (!std::isfinite(out[i]) || exact[i].magnitudes == 0) continue;
        largest = std::max(largest, std::fabs(difference(out[i], exact[i].sum)) / exact[i].magnitudes);
    }
    return largest;
}

template <class Real>
void measure(reports::GemmRow& row, std::span<const Real> out, std::span<const ExactOutput> exact, const Format& format,
             std::span<const unsigned char> saturated) {
    double signal = 0, noise = 0, error2 = 0, bias = 0, drift = 0;
    std::uint64_t hidden = 0;
    Moments relative, in_ulps;
    for (std::size_t i = 0; i < out.size(); ++i) {
        if (!std::isfinite(out[i])) {
            ++row.nonfinite;
            continue;
        }
        ++row.outputs;
        if (!saturated.empty() && saturated[i] != 0) {
            ++hidden;
            continue;
        }
        const double value = exact[i].sum.high, e = difference(out[i], exact[i].sum), size = std::fabs(e);
        signal += value * value;
        noise += e * e;
        in_ulps.add(size / ulp(format, value));
        if (value != 0) relative.add(size / std::fabs(value));
        if (exact[i].magnitudes == 0) continue;
        const double share = e / exact[i].magnitudes;
        row.max_error = std::max(row.max_error, std::fabs(share));
        error2 += share * share;
        bias += share;
        drift += value < 0 ? -share : share;
    }
    if (!saturated.empty()) row.saturated = hidden;
    if (in_ulps.count > 0) {
        const auto count = static_cast<double>(in_ulps.count);
        row.max_ulp = in_ulps.largest;
        row.mean_ulp = in_ulps.mean();
        row.rms_error = std::sqrt(error2 / count);
        row.bias = bias / count;
        row.drift = drift / count;
        if (signal > 0) row.sqnr_db = decibels(signal, noise);
    }
    if (relative.count > 0) {
        row.max_rel = relative.largest;
        row.mean_rel = relative.mean();
        row.rms_rel = relative.root_mean_square();
    }
    row.first = out.front();
    row.first_exact = exact.front().sum.high;
}

template void measure(reports::GemmRow&, std::span<const float>, std::span<const ExactOutput>, const Format&,
                      std::span<const unsigned char>);
template void measure(reports::GemmRow&, std::span<const double>, std::span<const ExactOutput>, const Format&,
                      std::span<const unsigned char>);

}  // namespace macheps::study
