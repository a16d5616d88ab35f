// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/products.hpp"

#include "emulation/matmul/rules.hpp"
#include "experiments/numerics/exact_product.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

namespace macheps::check {

namespace {

/// out += a b of one rectangle of outputs: rows x columns accumulators stay in the nearest cache.
void add_block(const double* a, const double* b, std::int64_t rows, std::int64_t columns, std::int64_t k,
               std::int64_t n, double* out) {
    constexpr std::int64_t most_rows = 4, most_columns = 64;
    std::array<double, most_rows * most_columns> sums{};
    for (std::int64_t p = 0; p < k; ++p) {
        for (std::int64_t i = 0; i < rows; ++i) {
            const double factor = a[i * k + p];
            const double* terms = b + p * n;
            double* to = sums.data() + i * most_columns;
            for (std::int64_t j = 0; j < columns; ++j) to[j] += factor * terms[j];
        }
    }
    for (std::int64_t i = 0; i < rows; ++i) std::copy_n(sums.data() + i * most_columns, columns, out + i * n);
}

/// All outputs of `a` and `b`, which have the shapes of `of`.
std::vector<double> multiply(const ProductOperands& of, const std::vector<double>& a, const std::vector<double>& b,
                             ThreadPool& pool) {
    std::vector<double> out(static_cast<std::size_t>(of.batches * of.m * of.n));
    const std::int64_t row_blocks = (of.m + 3) / 4, column_blocks = (of.n + 63) / 64;
    pool.run(of.batches * column_blocks, [&](std::int64_t task) {
        const std::int64_t batch = task / column_blocks, column = task % column_blocks * 64;
        const double* terms = b.data() + (of.has_one_b ? 0 : batch) * of.k * of.n + column;
        for (std::int64_t block = 0; block < row_blocks; ++block) {
            const std::int64_t row = batch * of.m + block * 4, rows = std::min<std::int64_t>(4, of.m - block * 4);
            add_block(a.data() + row * of.k, terms, rows, std::min<std::int64_t>(64, of.n - column), of.k, of.n,
                      out.data() + row * of.n + column);
        }
    });
    return out;
}

template <class Function>
std::vector<double> mapped(const std::vector<double>& values, Function function) {
    std::vector<double> out(values.size());
    std::transform(values.begin(), values.end(), out.begin(), function);
    return out;
}

/// How many bits a sum of magnitudes may have, in units that divide every product, for the machine to lose none.
int exact_bits(const MatmulRule& rule) {
    const Machine& machine = *rule.machine;
    switch (machine.sum.model) {
        case SumModel::fma_chain:
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

Products::Products(ProductOperands operands, const std::optional<MatmulRule>& rule, ThreadPool& pool,
                   const Format& output)
    : of_(std::move(operands)), rule_(rule), output_(output) {
    const MatmulRule any{};  // an fma chain, whose certain bound holds for every order of fp32 sums
    bound_ = error_bound(rule.value_or(any), of_.k, fp32, 0);
    exact_bits_ = rule && rounds_slices(*rule) ? 0 : exact_bits(rule.value_or(any));
    const auto magnitude = [](double x) { return std::fabs(x); };
    const std::vector<double> a = mapped(of_.a, magnitude), b = mapped(of_.b, magnitude);
    sums_ = multiply(of_, of_.a, of_.b, pool);
    magnitudes_ = multiply(of_, a, b, pool);
    if (rule && has_running_bound(*rule)) running_ = running_bound(of_, *rule, magnitudes_, pool);
    const double a_least = Format::power_of_two(of_.a_format.emin()),
                 b_least = Format::power_of_two(of_.b_format.emin());
    const auto is_subnormal = [](double least) { return [least](double x) { return x != 0 && x < least; }; };
    if (rule && (std::any_of(a.begin(), a.end(), is_subnormal(a_least)) ||
                 std::any_of(b.begin(), b.end(), is_subnormal(b_least)))) {
        const auto lift = [](double least) { return [least](double x) { return x == 0 ? 0 : std::max(x, least); }; };
        const auto flush = [](double least) { return [least](double x) { return x < least ? 0 : x; }; };
        lifted_ = multiply(of_, mapped(a, lift(a_least)), mapped(b, lift(b_least)), pool);
        flushed_ = multiply(of_, mapped(a, flush(a_least)), mapped(b, flush(b_least)), pool);
    }
    const double none = std::numeric_limits<double>::infinity();
    a_units_.assign(static_cast<std::size_t>(of_.batches * of_.m), none);
    for (std::size_t i = 0; i < of_.a.size(); ++i) {
        double& unit = a_units_[i / static_cast<std::size_t>(of_.k)];
        unit = std::min(unit, unit_of(of_.a[i]));
    }
    const auto n = static_cast<std::size_t>(of_.n), plane = n * static_cast<std::size_t>(of_.k);
    b_units_.assign((of_.has_one_b ? 1 : static_cast<std::size_t>(of_.batches)) * n, none);
    for (std::size_t i = 0; i < of_.b.size(); ++i) {
        double& unit = b_units_[i / plane * n + i % n];
        unit = std::min(unit, unit_of(of_.b[i]));
    }
}

/// Every partial sum is an integer, in units that divide all products, of no more bits than the machine keeps.
bool Products::is_exact(std::int64_t row, std::int64_t column, const OutputSize& size) const {
    const double unit = a_units_[static_cast<std::size_t>(row)] *
                        b_units_[static_cast<std::size_t>(of_.batch_of_b(row) * of_.n + column)];
    return exact_bits_ > 0 && unit >= 0x1p-126 && size.lifted == size.magnitudes &&
           size.magnitudes <= unit * Format::power_of_two(exact_bits_);
}

void Products::bound_sum(std::size_t output, const OutputSize& size, ProductSum& sum) const {
    sum.certain = bound_.certain(size);
    sum.mean = bound_.probable(size, 0);
    sum.spread = bound_.probable(size, 1) - sum.mean;
    double range = size.magnitudes;
    if (!running_.empty()) {
        const SumError& own = running_[output];
        const double below_normal = bound_.certain({.flushed = size.flushed});
        if (own.certain + below_normal < sum.certain) {
            sum.certain = own.certain + below_normal;
            sum.mean = own.mean + below_normal;
            sum.spread = own.spread;
            range = std::min(range, own.range);
        }
    }
    if (rule_ && rounds_slices(*rule_)) {
        const double rounding = half_ulp(output_, range + sum.certain);
        sum.certain += rule_->slices * rounding;
        sum.spread += std::sqrt(static_cast<double>(rule_->slices)) * rounding;
    }
}

ProductSum Products::at(std::int64_t row, std::int64_t column) const {
    const auto output = static_cast<std::size_t>(row * of_.n + column);
    const double terms = static_cast<double>(of_.k), rounding = 1 + terms * 0x1p-52;  // of sums of magnitudes in fp64
    OutputSize size{.magnitudes = magnitudes_[output] * rounding};
    size.lifted = lifted_.empty() ? size.magnitudes : lifted_[output] * rounding;
    size.flushed = flushed_.empty() ? 0 : size.magnitudes - flushed_[output] / rounding;
    ProductSum sum{.sum = {sums_[output], 0}};
    if (!std::isfinite(sum.sum.high)) return sum;
    const double unit = a_units_[static_cast<std::size_t>(row)] *
                        b_units_[static_cast<std::size_t>(of_.batch_of_b(row) * of_.n + column)];
    // Every partial sum is an integer of so many bits.
    sum.certificate = size.magnitudes <= unit * 0x1p52 ? 0 : terms * 0x1p-53 * size.magnitudes;
    if (!is_exact(row, column, size)) bound_sum(output, size, sum);
    return sum;
}

SumError Products::addend_error() const {
    // A declared machine's chains begin with zero; a kernel of fp32 may begin with what it adds.
    if (rule_) return {};
    const OutputSize one{.magnitudes = 1, .lifted = 1};
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
    for (std::int64_t p = 0; p < of_.k; ++p) {
        a.push_back(static_cast<float>(of_.a_at(row, p)));
        b.push_back(static_cast<float>(of_.b_at(row, p, column)));
    }
    const WideValue value = exact_product(a, b, 1, 1, of_.k, pool).front().sum;
    sum.sum = {value.high, value.low};
    sum.certificate = std::fabs(value.high) * 0x1p-104;
    return sum;
}

}  // namespace macheps::check
