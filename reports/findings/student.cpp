// SPDX-License-Identifier: Apache-2.0
#include "reports/findings/student.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace macheps::reports {

namespace {

/// Approximates the quantile of Student's t with `df` degrees of freedom from the normal quantile z.
double cornish_fisher(double z, std::int64_t df) {
    const double n = double(df), z2 = z * z;
    const double first = z * (z2 + 1) / 4, second = z * ((5 * z2 + 16) * z2 + 3) / 96,
                 third = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
    return z + (first + (second + third / n) / n) / n;
}

/// Returns the entry for `df` of a table that begins at one degree of freedom, or nothing beyond its end.
std::optional<double> tabled(const std::array<double, 30>& table, std::int64_t df) {
    if (df > std::int64_t(table.size())) return std::nullopt;
    return table[std::size_t(std::max<std::int64_t>(df, 1) - 1)];
}

double standard_deviation(std::span<const double> samples, double mean) {
    double squares = 0;
    for (const double sample : samples) squares += (sample - mean) * (sample - mean);
    return std::sqrt(squares / (double(samples.size()) - 1));
}

}  // namespace

double t_quantile_95(std::int64_t df) {
    static constexpr std::array<double, 30> table{
        6.313752, 2.919986, 2.353363, 2.131847, 2.015048, 1.943180, 1.894579, 1.859548, 1.833113, 1.812461,
        1.795885, 1.782288, 1.770933, 1.761310, 1.753050, 1.745884, 1.739607, 1.734064, 1.729133, 1.724718,
        1.720743, 1.717144, 1.713872, 1.710882, 1.708141, 1.705618, 1.703288, 1.701131, 1.699127, 1.697261};
    const std::optional<double> quantile = tabled(table, df);
    return quantile ? *quantile : cornish_fisher(1.6448536269514722, df);
}

double t_quantile_975(std::int64_t df) {
    static constexpr std::array<double, 30> table{
        12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139,
        2.200985,  2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024, 2.085963,
        2.079614,  2.073873, 2.068658, 2.063899, 2.059539, 2.055529, 2.051831, 2.048407, 2.045230, 2.042272};
    const std::optional<double> quantile = tabled(table, df);
    return quantile ? *quantile : cornish_fisher(1.959963984540054, df);
}

double detectable_shift(std::int64_t df) {
    static constexpr std::array<double, 30> table{
        16.334009, 5.653489, 4.255899, 3.761060, 3.513903, 3.366895, 3.269760, 3.200920, 3.149633, 3.109968,
        3.078389,  3.052657, 3.031291, 3.013268, 2.997863, 2.984543, 2.972914, 2.962672, 2.953585, 2.945467,
        2.938171,  2.931579, 2.925593, 2.920133, 2.915134, 2.910539, 2.906301, 2.902381, 2.898743, 2.895358};
    if (const std::optional<double> shift = tabled(table, df)) return *shift;
    // The constant is z(0.975) + z(0.8). The other two terms reproduce the exact values at df 31 and 120.
    const double n = double(df);
    return 2.8015852181129 + (2.68907 + 3.7210 / n) / n;
}

PairedMean paired_mean(std::span<const double> gaps) {
    PairedMean result;
    if (gaps.empty()) return result;
    const double n = double(gaps.size());
    double sum = 0;
    for (const double gap : gaps) sum += gap;
    result.mean = sum / n;
    if (gaps.size() < 2) return result;
    const double standard_error = standard_deviation(gaps, result.mean) / std::sqrt(n);
    const std::int64_t df = std::int64_t(gaps.size()) - 1;
    result.half_width_95 = t_quantile_975(df) * standard_error;
    result.half_width_90 = t_quantile_95(df) * standard_error;
    result.detectable = detectable_shift(df) * standard_error;
    return result;
}

std::optional<std::int64_t> samples_to_detect(double size, double deviation) {
    constexpr std::int64_t most = 1000;
    if (!(size > 0) || !std::isfinite(deviation)) return std::nullopt;
    for (std::int64_t n = 2; n <= most; ++n) {
        if (detectable_shift(n - 1) * deviation / std::sqrt(double(n)) <= size) return n;
    }
    return std::nullopt;
}

}  // namespace macheps::reports
