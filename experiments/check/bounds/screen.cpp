// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/bounds/screen.hpp"

#include "core/math.hpp"
#include "core/rng.hpp"
#include "emulation/matmul/rules.hpp"
#include "experiments/check/truth/multiply.hpp"
#include "experiments/check/truth/rounding_to.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace macheps::check {

namespace {

std::size_t screen_index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Upper bound on the error of one output: of_sum * (sum of magnitudes) + alone.
struct Linear {
    double of_sum = 0, alone = 0;
};

/// Returns the bound for the sums alone, before scales, bias and the last rounding.
Linear of_sums(const ScreenedProduct& p, double largest_factor, bool may_flush) {
    const study::ErrorBound bound = order_free_bound(p.of, p.rule);
    Linear e{.of_sum = bound.certain({.magnitudes = 1, .lifted = 1, .flushed = may_flush ? 1.0 : 0.0, .factor = 0}),
             .alone = bound.certain({.factor = largest_factor})};
    // Slices may be rounded before they are joined. The sum of each slice is at most the sum of magnitudes.
    const auto join = [&](double slices, const Format& format) {
        e.of_sum += slices * format.unit_roundoff() * (1 + e.of_sum);
        e.alone += slices * Format::power_of_two(format.emin() - format.precision);
    };
    if (p.rule && rounds_slices(*p.rule)) join(p.rule->slices, p.freedom.output);
    if (p.freedom.slices > 0) join(p.freedom.slices, p.freedom.partials);
    e.alone += p.freedom.flushes * 0x1p-126;
    return e;
}

class Screener {
  public:
    Screener(const ScreenedProduct& p, NumberView got, double delta, ThreadPool& pool)
        : p_(p), of_(p.of), got_(got), pool_(pool), blocks_((of_.n + Screen::width - 1) / Screen::width) {
        const double tests = static_cast<double>(of_.rows()) * static_cast<double>(blocks_);
        lambda_ = std::sqrt(2 * math::log(2 * tests / delta));
        for (const Input& input : p.inputs) {
            if (input.name == "a_scale") a_scale_ = &input;
            if (input.name == "b_scale") b_scale_ = &input;
            if (input.name == "bias") bias_ = &input;
            if (input.name == "c") c_ = &input;
            if (input.name == "residual") residual_ = &input;
        }
        const double most =
            decode64(p.output, p.output.max_finite_code() << p.output.padding) * (1 - p.output.unit_roundoff());
        overflow_ = std::min(most, 0x1p127);
        is_narrow_ = p.output.precision < fp32.precision || p.output.emin() > fp32.emin();
        halves_ = p.rounding == Round::nearest_even || p.rounding == Round::nearest_away ? 1 : 2;
        set_errors();
        multiply_panels();
    }

    Screen run() {
        std::vector<Screen> parts(screen_index((of_.rows() + rows_per_task - 1) / rows_per_task));
        std::vector<double> limits(screen_index(of_.rows() * blocks_));
        pool_.run(static_cast<std::int64_t>(parts.size()), [&](std::int64_t task) {
            const std::int64_t last = std::min(of_.rows(), (task + 1) * rows_per_task);
            for (std::int64_t row = task * rows_per_task; row < last; ++row) {
                for (std::int64_t block = 0; block < blocks_; ++block)
                    observe(row, block, parts[screen_index(task)], limits[screen_index(row * blocks_ + block)]);
            }
        });
        Screen all;
        for (const Screen& part : parts) add(part, all);
        std::erase(limits, 0);
        if (!limits.empty()) {
            const auto middle = limits.begin() + static_cast<std::ptrdiff_t>(limits.size() / 2);
            std::nth_element(limits.begin(), middle, limits.end());
            all.median_limit = *middle;
        }
        return all;
    }

  private:
    static constexpr std::int64_t rows_per_task = 16;

    double b_scale(std::int64_t column) const { return b_scale_ == nullptr ? 1 : b_scale_->at(0, column, of_.n); }
    double row_factor(std::int64_t row) const {
        return p_.alpha * (a_scale_ == nullptr ? 1 : a_scale_->at(row, 0, of_.n));
    }
    /// Returns an upper bound on the sum of magnitudes of each single output in a block of columns (Cauchy and
    /// Schwarz), without the factors of the row.
    double output_size(std::int64_t row, std::int64_t block) const {
        return std::min(
            sizes_[screen_index(row * blocks_ + block)],
            a_norms_[screen_index(row)] * b_tops_[screen_index(of_.batch_of_b(row) * blocks_ + block)] * (1 + 0x1p-20));
    }
    /// Returns an upper bound on every intermediate result before the last multiplication, for any order of the scales.
    double inner_size(std::int64_t row, std::int64_t block) const {
        const double scale = a_scale_ == nullptr ? 1 : a_scale_->at(row, 0, of_.n);
        return output_size(row, block) / b_least_[screen_index(block)] * std::max(1.0, std::fabs(p_.alpha)) *
               std::max(1.0, std::fabs(scale));
    }
    /// Returns the sum of the terms that are added to an output (bias, beta c, residual), and adds their magnitudes to
    /// `magnitude`.
    double addend(std::int64_t row, std::int64_t column, double& magnitude) const {
        double sum = 0;
        const auto add = [&](const Input* input, double factor) {
            if (input == nullptr) return;
            const double x = input->at(row, column, of_.n) * factor;
            sum += x;
            magnitude += std::fabs(x);
        };
        add(bias_, 1);
        add(c_, p_.beta);
        add(residual_, 1);
        return sum;
    }

    void set_errors() {
        double factor = 1;
        if (of_.k_block > 0 && !(p_.rule && p_.rule->machine->has_scales())) {
            const auto largest = [](const std::vector<double>& x) {
                double most = 0;
                for (const double each : x) most = std::max(most, std::fabs(each));
                return most;
            };
            factor = largest(of_.a_factors) * largest(of_.b_factors);
        }
        sum_error_ = of_sums(p_, factor, p_.rule && has_subnormals(of_));
        // At most eight operations follow the sum: two scales, alpha, the bias, beta and c, the residual, and one in
        // reserve. An fp32 kernel may begin its chain with the addends. The relative error of the chain then also
        // applies to them.
        addend_error_ = 8 * fp32.unit_roundoff() * (1 + 0x1p-10);
        if (!p_.rule) addend_error_ += sum_error_.of_sum;
    }

    /// For each block of 64 columns, computes A (B x), where x holds the signs of the columns, and the sum of |A| |B|
    /// over the block.
    void multiply_panels() {
        const std::int64_t matrices = of_.matrices_of_b();
        std::vector<double> signs(screen_index(matrices * of_.k * blocks_)), sizes(signs.size());
        const std::vector<double> lifted = p_.rule ? lifted_b(of_, *p_.rule) : std::vector<double>{};
        const std::vector<double>& b_sizes = lifted.empty() ? of_.b : lifted;
        b_norms_.resize(screen_index(matrices * blocks_));
        b_tops_.resize(b_norms_.size());
        b_scales_.resize(screen_index(blocks_));
        b_least_.assign(screen_index(blocks_), 1);
        for (std::int64_t j = 0; j < of_.n; ++j) {
            const std::size_t block = screen_index(j / Screen::width);
            b_scales_[block] += std::fabs(b_scale(j));
            b_least_[block] = std::min(b_least_[block], std::fabs(b_scale(j)));
        }
        pool_.run(matrices * blocks_, [&](std::int64_t task) {
            const std::int64_t matrix = task / blocks_, block = task % blocks_, first = block * Screen::width,
                               last = std::min(of_.n, first + Screen::width);
            double squares = 0;
            std::array<double, static_cast<std::size_t>(Screen::width)> of_column{};
            for (std::int64_t p = 0; p < of_.k; ++p) {
                const std::size_t row = screen_index((matrix * of_.k + p) * of_.n);
                double sum = 0, size = 0;
                for (std::int64_t j = first; j < last; ++j) {
                    const double g = b_scale(j), big = std::fabs(b_sizes[row + screen_index(j)] * g);
                    sum += Screen::sign(j) * g * of_.b[row + screen_index(j)];
                    size += big;
                    squares += big * big;
                    of_column[screen_index(j - first)] += big * big;
                }
                signs[screen_index((matrix * of_.k + p) * blocks_ + block)] = sum;
                sizes[screen_index((matrix * of_.k + p) * blocks_ + block)] = size;
            }
            b_norms_[screen_index(task)] = std::sqrt(squares);
            b_tops_[screen_index(task)] = std::sqrt(*std::max_element(of_column.begin(), of_column.end()));
        });
        ProductOperands panel{.batches = of_.batches, .m = of_.m, .n = blocks_, .k = of_.k, .has_one_b = of_.has_one_b};
        panel.starts = of_.starts;
        sums_ = multiply(panel, of_.a, signs, pool_);
        std::vector<double> a_sizes = p_.rule ? lifted_a(of_, *p_.rule) : of_.a;
        for (double& x : a_sizes) x = std::fabs(x);
        sizes_ = multiply(panel, a_sizes, sizes, pool_);
        a_norms_.resize(screen_index(of_.rows()));
        for (std::int64_t row = 0; row < of_.rows(); ++row) {
            double squares = 0;
            for (std::int64_t p = 0; p < of_.k; ++p)
                squares += a_sizes[screen_index(row * of_.k + p)] * a_sizes[screen_index(row * of_.k + p)];
            a_norms_[screen_index(row)] = std::sqrt(squares);
        }
    }

    void observe(std::int64_t row, std::int64_t block, Screen& seen, double& probable) const {
        const std::int64_t first = block * Screen::width, last = std::min(of_.n, first + Screen::width);
        const std::size_t place = screen_index(row * blocks_ + block);
        const double factor = row_factor(row), f = std::fabs(factor);
        const HalfUlp half_ulp(p_.output);
        double off = -factor * sums_[place], halves = 0, half_squares = 0, added = 0, added_squares = 0, added_max = 0,
               read = 0;
        bool is_finite = true;
        std::int64_t strange = -1;
        for (std::int64_t j = first; j < last; ++j) {
            const double y = got_[screen_index(row * of_.n + j)];
            double magnitude = 0;
            off += Screen::sign(j) * (y - addend(row, j, magnitude));
            const double half = is_narrow_ ? halves_ * half_ulp(y) : 0;
            halves += half;
            half_squares += half * half;
            added += magnitude;
            added_squares += magnitude * magnitude;
            added_max = std::max(added_max, magnitude);
            if (!std::isfinite(y)) {
                is_finite = false;
                if (strange < 0) strange = row * of_.n + j;
                continue;
            }
            read += std::fabs(y);
        }
        const double size = f * sizes_[place], most = f * output_size(row, block) + added_max;
        // Skips the sum if one of its outputs may overflow, because that output may be infinite or saturated. Also
        // skips it if an addend is not finite; only the sample judges such outputs.
        const double grown = 1 + sum_error_.of_sum + addend_error_;
        const bool may_overflow = !(most * grown < overflow_) || !(inner_size(row, block) * grown < 0x1p127);
        if (may_overflow || !std::isfinite(added)) return;
        ++seen.sums;
        seen.outputs += last - first;
        if (!is_finite) return note(seen.special, strange, row, 0, std::numeric_limits<double>::infinity());
        const double norm = std::min(
            size, f * a_norms_[screen_index(row)] * b_norms_[screen_index(of_.batch_of_b(row) * blocks_ + block)]);
        const double least =
            sum_error_.alone * f * b_scales_[screen_index(block)] +
            8 * 0x1p-149 * (1 + f) * (static_cast<double>(last - first) + b_scales_[screen_index(block)]);
        const double own = static_cast<double>(of_.k + 130) * 0x1p-52 * size + 130 * 0x1p-52 * (read + added);
        const double certain = sum_error_.of_sum * size + addend_error_ * (size + added) + halves + least + own;
        probable = lambda_ * (sum_error_.of_sum * norm + addend_error_ * (norm + std::sqrt(added_squares)) +
                              std::sqrt(half_squares) + least) +
                   own;
        probable = std::min(probable, certain);
        const double ratio = std::fabs(off) == 0 ? 0 : std::fabs(off) / probable;
        seen.ratio = std::max(seen.ratio, ratio);
        if (std::fabs(off) > certain)
            note(seen.certain, -1, row, first, std::fabs(off) / certain);
        else if (ratio > 1)
            note(seen.probable, -1, row, first, ratio);
    }

    /// Counts a refused sum in `worst`. If this sum is farther off than the refused sums before it, stores one of its
    /// outputs in `worst`: output `index`, or the worst output of the sum if `index` is -1.
    void note(Screen::Worst& worst, std::int64_t index, std::int64_t row, std::int64_t first, double ratio) const {
        ++worst.sums;
        if (worst.index >= 0 && ratio <= worst.ratio) return;
        worst.ratio = ratio;
        worst.index = index >= 0 ? index : farthest(row, first);
        std::tie(worst.want, worst.bound) = exact(worst.index / of_.n, worst.index % of_.n);
        worst.got = got_[screen_index(worst.index)];
    }
    std::int64_t farthest(std::int64_t row, std::int64_t first) const {
        std::int64_t index = row * of_.n + first;
        double most = -1;
        for (std::int64_t j = first; j < std::min(of_.n, first + Screen::width); ++j) {
            const auto [want, bound] = exact(row, j);
            const double ratio = std::fabs(got_[screen_index(row * of_.n + j)] - want) / bound;
            if (ratio > most) most = ratio, index = row * of_.n + j;
        }
        return index;
    }
    /// Returns the reference value of one output, computed in fp64, and its certain bound.
    std::pair<double, double> exact(std::int64_t row, std::int64_t column) const {
        double sum = 0, size = 0, magnitude = 0;
        for (std::int64_t p = 0; p < of_.k; ++p) {
            const double product = of_.a_at(row, p) * of_.b_at(row, p, column);
            sum += product;
            size += std::fabs(product);
        }
        const double factor = row_factor(row) * b_scale(column), y = factor * sum + addend(row, column, magnitude);
        const double before = std::fabs(factor) * (sum_error_.of_sum * size + sum_error_.alone) +
                              addend_error_ * (std::fabs(factor) * size + magnitude) + 0x1p-145;
        return {y, before + (is_narrow_ ? halves_ * HalfUlp(p_.output)(std::fabs(y) + before) : 0)};
    }

    static void add(const Screen& part, Screen& all) {
        all.sums += part.sums;
        all.outputs += part.outputs;
        all.ratio = std::max(all.ratio, part.ratio);
        for (Screen::Worst Screen::*each : {&Screen::special, &Screen::certain, &Screen::probable}) {
            const std::int64_t sums = (all.*each).sums + (part.*each).sums;
            if ((part.*each).sums > 0 && ((all.*each).sums == 0 || (part.*each).ratio > (all.*each).ratio))
                all.*each = part.*each;
            (all.*each).sums = sums;
        }
    }

    const ScreenedProduct& p_;
    const ProductOperands& of_;
    NumberView got_;
    ThreadPool& pool_;
    std::int64_t blocks_;
    const Input *a_scale_ = nullptr, *b_scale_ = nullptr, *bias_ = nullptr, *c_ = nullptr, *residual_ = nullptr;
    double lambda_ = 0, overflow_ = 0, addend_error_ = 0;
    bool is_narrow_ = false;
    double halves_ = 1;  ///< maximum rounding error of an output, in half ulps
    Linear sum_error_{};
    std::vector<double> sums_, sizes_, a_norms_, b_norms_, b_tops_, b_scales_, b_least_;
};

}  // namespace

double Screen::sign(std::int64_t column) {
    constexpr RngKey key{.seed = 0x5c4ee2, .site = site_id("screen")};
    return (random_bits(key, static_cast<std::uint64_t>(column)) & 1) != 0 ? -1 : 1;
}

Screen screen(const ScreenedProduct& product, NumberView got, double delta, ThreadPool& pool) {
    return Screener(product, got, delta, pool).run();
}

}  // namespace macheps::check
