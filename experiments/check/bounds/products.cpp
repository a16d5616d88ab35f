// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/bounds/products.hpp"

#include "core/codec.hpp"
#include "emulation/matmul/rules.hpp"
#include "experiments/check/bounds/sliced.hpp"
#include "experiments/check/truth/multiply.hpp"
#include "experiments/study/product/exact_product.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace macheps::check {

namespace {

std::vector<double> magnitudes_of(std::vector<double> x) {
    for (double& each : x) each = std::fabs(each);
    return x;
}

template <class Factor>
std::vector<double> lifted(const std::vector<double>& raw, const Format& format, double min_factor, Factor factor) {
    const double least = Format::power_of_two(format.emin());
    std::vector<double> out(raw.size());
    for (std::size_t i = 0; i < raw.size(); ++i) {
        if (raw[i] != 0) out[i] = std::max(std::fabs(raw[i]), least) * std::max(std::fabs(factor(i)), min_factor);
    }
    return out;
}

bool has_subnormals(const std::vector<double>& raw, const Format& format) {
    const double least = Format::power_of_two(format.emin());
    return std::any_of(raw.begin(), raw.end(), [&](double x) { return x != 0 && std::fabs(x) < least; });
}

/// Returns the largest b for which the machine adds without rounding if the sum of magnitudes is at most 2^b units. The
/// unit is a power of two that divides every product. Returns 0 if b is unknown.
int exact_bits(const MatmulRule& rule) {
    const Machine& machine = *rule.machine;
    switch (machine.sum.model) {
        case SumModel::fma_chain:
            if (machine.sum.flush_operands) return 0;
            [[fallthrough]];
        case SumModel::pairwise:
        case SumModel::exact:
            return machine.result.precision;
        case SumModel::truncated:
            return std::min(machine.sum.fraction_bits,
                            machine.sum.delivery == Delivery::e8m13_toward_zero ? 13 : machine.result.precision);
        default:
            return 0;
    }
}

}  // namespace

study::ErrorBound order_free_bound(const ProductOperands& of, const std::optional<MatmulRule>& rule) {
    const MatmulRule any{};  // an fma chain, whose certain bound holds for every order of fp32 sums
    study::ErrorBound bound = study::error_bound(rule.value_or(any), of.k, fp32, 0);
    // Kernels in fp32 may scale operands, products or sums of blocks. This takes at most four roundings.
    if (!rule && of.k_block > 0) bound.add({4, fp32.unit_roundoff()});
    return bound;
}

namespace {

double min_factor(const ProductOperands& of, const MatmulRule& rule) {
    return rule.machine->has_scales() ? Format::power_of_two(of.scale_format.emin()) : 0;
}

}  // namespace

std::vector<double> lifted_a(const ProductOperands& of, const MatmulRule& rule) {
    return lifted(of.unscaled_a(), of.a_format, min_factor(of, rule), [&](std::size_t i) {
        const auto at = static_cast<std::int64_t>(i);
        return of.a_factor(at / of.k, at % of.k);
    });
}

std::vector<double> lifted_b(const ProductOperands& of, const MatmulRule& rule) {
    return lifted(of.unscaled_b(), of.b_format, min_factor(of, rule), [&](std::size_t i) {
        const auto at = static_cast<std::int64_t>(i);
        return of.b_factor(at / (of.k * of.n), at / of.n % of.k, at % of.n);
    });
}

bool has_subnormals(const ProductOperands& of) {
    return has_subnormals(of.unscaled_a(), of.a_format) || has_subnormals(of.unscaled_b(), of.b_format);
}

Products::Products(ProductOperands operands, const std::optional<MatmulRule>& rule, ThreadPool& pool,
                   const SumFreedom& freedom)
    : of_(std::move(operands)), rule_(rule), freedom_(freedom) {
    const MatmulRule any{};
    bound_ = order_free_bound(of_, rule);
    const bool is_exact_possible =
        of_.k_block == 0 && !(rule && rounds_slices(*rule)) && freedom.slices == 0 && freedom.flushes == 0;
    exact_bits_ = is_exact_possible ? exact_bits(rule.value_or(any)) : 0;
    sums_ = multiply(of_, of_.a, of_.b, pool);
    magnitudes_ = multiply(of_, magnitudes_of(of_.a), magnitudes_of(of_.b), pool);
    if (rule && has_running_bound(*rule)) running_ = running_bound(of_, *rule, magnitudes_, pool);
    if (!rule && freedom.is_sliced) running_ = sliced_bound(of_, magnitudes_, freedom.joined_slices, pool);
    find_subnormals(pool);
    find_units();
    find_overflow();
}

/// Finds the smallest partial sum that overflows in the accumulator's format, or in a format to which slices are
/// rounded.
void Products::find_overflow() {
    const auto limit = [&](const Format& format) {
        const double largest = decode64(format, format.max_finite_code() << format.padding);
        overflow_ = std::min(overflow_, largest + half_ulp(format, largest));
    };
    if (rule_) limit(rule_->machine->result);
    if (freedom_.slices > 0) limit(freedom_.partials);
    if (rule_ && rounds_slices(*rule_)) limit(freedom_.output);
}

/// If operands or scales may be subnormal, computes two more sums of magnitudes for each output. `lifted_` uses the
/// magnitudes that lifted_a() and lifted_b() return. `flushed_` leaves out subnormal operands.
void Products::find_subnormals(ThreadPool& pool) {
    if (!rule_) return;
    if (!rule_->machine->has_scales() && !has_subnormals(of_)) return;
    lifted_ = multiply(of_, lifted_a(of_, *rule_), lifted_b(of_, *rule_), pool);
    const auto flush = [](const std::vector<double>& scaled, const std::vector<double>& raw, const Format& format) {
        const double least = Format::power_of_two(format.emin());
        std::vector<double> out(raw.size());
        for (std::size_t i = 0; i < raw.size(); ++i) out[i] = std::fabs(raw[i]) < least ? 0 : std::fabs(scaled[i]);
        return out;
    };
    flushed_ =
        multiply(of_, flush(of_.a, of_.unscaled_a(), of_.a_format), flush(of_.b, of_.unscaled_b(), of_.b_format), pool);
}

void Products::find_units() {
    const double none = std::numeric_limits<double>::infinity();
    const auto n = static_cast<std::size_t>(of_.n), plane = n * static_cast<std::size_t>(of_.k);
    a_units_.assign(static_cast<std::size_t>(of_.rows()), none);
    for (std::size_t i = 0; i < of_.a.size(); ++i) {
        double& unit = a_units_[i / static_cast<std::size_t>(of_.k)];
        unit = std::min(unit, unit_of(of_.a[i]));
    }
    b_units_.assign(static_cast<std::size_t>(of_.matrices_of_b()) * n, none);
    for (std::size_t i = 0; i < of_.b.size(); ++i) {
        double& unit = b_units_[i / plane * n + i % n];
        unit = std::min(unit, unit_of(of_.b[i]));
    }
    const auto words = static_cast<std::size_t>((of_.k + 63) / 64), k = static_cast<std::size_t>(of_.k);
    a_terms_.assign(a_units_.size() * words, 0);
    b_terms_.assign(b_units_.size() * words, 0);
    for (std::size_t i = 0; i < of_.a.size(); ++i)
        a_terms_[i / k * words + i % k / 64] |= std::uint64_t{of_.a[i] != 0} << (i % k % 64);
    for (std::size_t i = 0; i < of_.b.size(); ++i) {
        const std::size_t p = i % plane / n;
        b_terms_[(i / plane * n + i % n) * words + p / 64] |= std::uint64_t{of_.b[i] != 0} << (p % 64);
    }
    if (of_.k_block == 0) return;
    a_largest_.resize(a_units_.size());
    b_largest_.resize(b_units_.size());
    for (std::size_t i = 0; i < of_.a_factors.size(); ++i) {
        double& most = a_largest_[i / static_cast<std::size_t>(of_.blocks())];
        most = std::max(most, std::fabs(of_.a_factors[i]));
    }
    for (std::size_t i = 0; i < of_.b_factors.size(); ++i) {
        double& most = b_largest_[i / (n * static_cast<std::size_t>(of_.blocks())) * n + i % n];
        most = std::max(most, std::fabs(of_.b_factors[i]));
    }
}

double Products::largest_factor(std::int64_t row, std::int64_t column) const {
    if (a_largest_.empty() || (rule_ && rule_->machine->has_scales())) return 1;
    return a_largest_[static_cast<std::size_t>(row)] *
           b_largest_[static_cast<std::size_t>(of_.batch_of_b(row) * of_.n + column)];
}

/// Returns true if no addition of the sum rounds. This is the case if every partial sum is an integer, in units that
/// divide all products, with no more bits than the machine keeps. It is also the case if only one product is nonzero
/// and the machine keeps all of its bits.
bool Products::is_exact(std::int64_t row, std::int64_t column, const study::OutputSize& size) const {
    if (exact_bits_ == 0 || size.lifted != size.magnitudes) return false;
    const auto fits = [&](double unit) {
        return unit >= 0x1p-126 && size.magnitudes <= unit * Format::power_of_two(exact_bits_);
    };
    const std::int64_t matrix = of_.batch_of_b(row);
    if (fits(a_units_[static_cast<std::size_t>(row)] * b_units_[static_cast<std::size_t>(matrix * of_.n + column)]))
        return true;
    const std::int64_t p = lone_term(row, column);
    return p >= 0 && fits(unit_of(of_.a_at(row, p)) * unit_of(of_.b_at(row, p, column)));
}

/// Returns the index of the only term whose product is nonzero, or -1 if the number of such terms is not one.
std::int64_t Products::lone_term(std::int64_t row, std::int64_t column) const {
    const std::int64_t words = (of_.k + 63) / 64;
    const auto* a = a_terms_.data() + row * words;
    const auto* b = b_terms_.data() + (of_.batch_of_b(row) * of_.n + column) * words;
    std::int64_t lone = -1;
    for (std::int64_t w = 0; w < words; ++w) {
        const std::uint64_t both = a[w] & b[w];
        if (both == 0) continue;
        if (lone >= 0 || (both & (both - 1)) != 0) return -1;
        lone = 64 * w + std::countr_zero(both);
    }
    return lone;
}

double Products::bound_sum(std::size_t output, const study::OutputSize& size, ProductSum& sum) const {
    sum.certain = bound_.certain(size);
    sum.mean = bound_.probable(size, 0);
    sum.spread = bound_.probable(size, 1) - sum.mean;
    double range = size.magnitudes;
    if (!running_.empty()) {
        const SumError& own = running_[output];
        const double below_normal = bound_.certain({.flushed = size.flushed, .factor = size.factor});
        if (own.certain + below_normal < sum.certain) {
            sum.certain = own.certain + below_normal;
            sum.mean = own.mean + below_normal;
            sum.spread = own.spread;
            range = std::min(range, own.range);
        }
    }
    const auto join = [&](double slices, const Format& format) {
        const double rounding = half_ulp(format, range + sum.certain);
        sum.certain += slices * rounding;
        sum.spread += std::sqrt(slices) * rounding;
    };
    if (rule_ && rounds_slices(*rule_)) join(rule_->slices, freedom_.output);
    if (freedom_.slices > 0) join(freedom_.slices, freedom_.partials);
    sum.certain += freedom_.flushes * 0x1p-126;
    sum.mean += freedom_.flushes * 0x1p-126;
    return range;
}

/// Sets whether a partial sum may overflow. No partial sum is larger than `range`.
void Products::set_overflow(const study::OutputSize& size, double range, ProductSum& sum) const {
    if (range + sum.certain < overflow_) return;
    // `opposite` bounds the partial sums whose sign differs from the total's. If these sums cannot overflow, +Inf and
    // -Inf cannot be added to each other.
    const double opposite = (size.magnitudes - std::fabs(sum.sum.high)) / 2 + sum.certain;
    const bool has_one_sign = opposite < overflow_ && std::fabs(sum.sum.high) > sum.certain;
    sum.overflow = has_one_sign ? Overflowing::to_infinity : Overflowing::to_anything;
}

ProductSum Products::at(std::int64_t row, std::int64_t column) const {
    const auto output = static_cast<std::size_t>(row * of_.n + column);
    const double terms = static_cast<double>(of_.k), rounding = 1 + terms * 0x1p-52;  // covers rounding of fp64 sums
    study::OutputSize size{.magnitudes = magnitudes_[output] * rounding};
    size.lifted = lifted_.empty() ? size.magnitudes : lifted_[output] * rounding;
    size.flushed = flushed_.empty() ? 0 : size.magnitudes - flushed_[output] / rounding;
    size.factor = largest_factor(row, column);
    ProductSum sum{.sum = {sums_[output], 0}};
    if (!std::isfinite(sum.sum.high)) return sum;
    const double unit = a_units_[static_cast<std::size_t>(row)] *
                        b_units_[static_cast<std::size_t>(of_.batch_of_b(row) * of_.n + column)];
    // If `is_integer` is true, every partial sum is an integer of at most 52 bits, which fp64 represents exactly.
    const bool is_integer = of_.k_block == 0 && size.magnitudes <= unit * 0x1p52;
    sum.certificate = is_integer ? 0 : (terms + (of_.k_block > 0 ? 1 : 0)) * 0x1p-53 * size.magnitudes;
    const double range = is_exact(row, column, size) ? size.magnitudes : bound_sum(output, size, sum);
    set_overflow(size, range, sum);
    return sum;
}

SumError Products::addend_error() const {
    // Chains of a declared machine begin with zero. A chain of an fp32 kernel may begin with an addend.
    if (rule_) return {};
    const study::OutputSize one{.magnitudes = 1, .lifted = 1};
    const double mean = bound_.probable(one, 0);
    return {.certain = bound_.certain(one), .mean = mean, .spread = bound_.probable(one, 1) - mean};
}

void Products::row(std::int64_t row, std::int64_t dropped, std::vector<ProductSum>& out) const {
    out.resize(static_cast<std::size_t>(of_.n));
    for (std::int64_t j = 0; j < of_.n; ++j) out[static_cast<std::size_t>(j)] = at(row, j);
    for (std::int64_t p = of_.k - std::min(dropped, of_.k); p < of_.k; ++p) {
        const double factor = of_.a_at(row, p);
        for (std::int64_t j = 0; j < of_.n; ++j)
            out[static_cast<std::size_t>(j)].sum.high -= factor * of_.b_at(row, p, j);
    }
}

ProductSum Products::exact(std::int64_t row, std::int64_t column, ThreadPool& pool) const {
    ProductSum sum = at(row, column);
    std::vector<float> a, b;
    study::BlockFactors factors{.block = of_.k_block};
    const std::int64_t matrix = of_.batch_of_b(row);
    for (std::int64_t p = 0; p < of_.k; ++p) {
        a.push_back(static_cast<float>(of_.unscaled_a()[static_cast<std::size_t>(row * of_.k + p)]));
        b.push_back(
            static_cast<float>(of_.unscaled_b()[static_cast<std::size_t>((matrix * of_.k + p) * of_.n + column)]));
        if (of_.k_block == 0 || p % of_.k_block != 0) continue;
        factors.a.push_back(static_cast<float>(of_.a_factor(row, p)));
        factors.b.push_back(static_cast<float>(of_.b_factor(matrix, p, column)));
    }
    const study::ExactOutput exact = study::exact_product(a, b, 1, 1, of_.k, pool, factors).front();
    const study::WideValue value = exact.sum;
    sum.sum = {value.high, value.low};
    sum.certificate = std::fabs(value.high) * 0x1p-104 + (of_.k_block > 0 ? exact.magnitudes * 0x1p-99 : 0);
    return sum;
}

}  // namespace macheps::check
