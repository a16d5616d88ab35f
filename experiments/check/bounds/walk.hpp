// SPDX-License-Identifier: Apache-2.0
// Computes the running bound (running.hpp) step by step along k, for one row and 64 columns of outputs at a time.
#pragma once
#include "experiments/check/bounds/running.hpp"
#include "experiments/check/bounds/step_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace macheps::check {

/// Terms [first, last) that one chain sums from zero.
struct Chain {
    std::int64_t first, last;
};

/// Returns the chains of a rule. Promotion ends a chain and begins the next one, and so does the end of a slice.
/// Without promotion, one chain represents all slices.
inline std::vector<Chain> chains_of(const MatmulRule& rule, std::int64_t k) {
    if (rule.promotion == Promotion::none) return {{0, k}};
    const std::int64_t granules = (k + rule.slice_granule - 1) / rule.slice_granule;
    const std::int64_t length =
        rule.slices <= 1 ? k
                         : std::max<std::int64_t>((granules + rule.slices - 1) / rule.slices, 1) * rule.slice_granule;
    std::vector<Chain> chains;
    for (std::int64_t slice = 0; slice < k; slice += length) {
        const std::int64_t end = std::min(slice + length, k);
        for (std::int64_t p = slice; p < end; p += rule.promotion_interval)
            chains.push_back({p, std::min(p + rule.promotion_interval, end)});
    }
    return chains;
}

/// Bounds the errors of one row of a times up to 64 columns of b.
class Walk {
  public:
    static constexpr std::int64_t width = 64;

    Walk(const ProductOperands& of, const MatmulRule& rule, const StepModel& step, std::int64_t matrix,
         std::int64_t column)
        : of_(of),
          rule_(rule),
          step_(step),
          chains_(chains_of(rule, of.k)),
          is_scaled_(rule.machine->has_scales()),
          matrix_(matrix),
          column_(column),
          columns_(std::min(width, of.n - column)) {
        const auto size = static_cast<std::size_t>(of.k * width);
        b_.resize(size);
        b_top_.resize(size);
        b_unit_.resize(size);
        const std::vector<double>& from = is_scaled_ ? of.b : of.unscaled_b();
        for (std::int64_t p = 0; p < of.k; ++p) {
            for (std::int64_t j = 0; j < columns_; ++j) {
                const auto to = static_cast<std::size_t>(p * width + j),
                           at = static_cast<std::size_t>((matrix * of.k + p) * of.n + column + j);
                b_[to] = from[at];
                b_top_[to] = top_of(of.unscaled_b()[at], of.b_format, of.b_factor(matrix, p, column + j));
                b_unit_[to] = unit_of(b_[to]);
            }
        }
        const std::int64_t steps = (of.k + step.terms - 1) / step.terms + static_cast<std::int64_t>(chains_.size());
        tops_.resize(static_cast<std::size_t>(steps));
        magnitudes_.resize(step.of_step > 0 || step.starts_anew ? tops_.size() : 0);
    }

    void row(std::int64_t row, const double* magnitudes, SumError* out) {
        load(row);
        Lane errors{}, mean{}, squares{}, main{}, low{}, high{};
        for (const Chain& chain : chains_) {
            const Lane factors = factors_of(row, chain);
            Lane sums{}, least{}, most{};
            add_up(chain, sums, least, most);
            Lane error{}, half{}, square{};
            // Each fp64 partial sum computed here is off by at most k 2^-53 times the sum of magnitudes. This applies
            // to both the minimum and the maximum.
            const double own = static_cast<double>(of_.k) * 0x1p-51;
            for (std::int64_t j = 0; j < columns_; ++j) {
                // `magnitudes` include the factor f, by which the chain's sums are multiplied only when they are
                // promoted. The magnitudes of the chain itself are thus at most magnitudes / f.
                const double f = std::fabs(factors[at(j)]);
                ranges_[at(j)] = most[at(j)] - least[at(j)] + (f > 0 ? own * magnitudes[j] / f : 0);
            }
            lose(chain, error, half, square);
            // The product of the two scales, or of the block's sum and one scale, is rounded.
            const double extra = rule_.promotion == Promotion::none || rule_.promotion == Promotion::add
                                     ? 0
                                     : fp32.unit_roundoff() * (1 + 0x1p-20);
            for (std::int64_t j = 0; j < columns_; ++j) {
                const std::size_t i = at(j);
                const double f = std::fabs(factors[i]);
                errors[i] += f * (error[i] + extra * (ranges_[i] + error[i]));
                mean[i] += f * half[i];
                squares[i] += f * f * (square[i] + (extra * ranges_[i]) * (extra * ranges_[i]));
                main[i] += factors[i] * sums[i];
                low[i] = std::min(low[i], rule_.promotion == Promotion::none ? least[i] : main[i]);
                high[i] = std::max(high[i], rule_.promotion == Promotion::none ? most[i] : main[i]);
            }
        }
        const double joins = rule_.promotion == Promotion::none ? 0 : static_cast<double>(chains_.size()),
                     slices = std::max(rule_.slices, 1), u = fp32.unit_roundoff();
        for (std::int64_t j = 0; j < columns_; ++j) {
            const std::size_t i = at(j);
            const double range = high[i] - low[i] + static_cast<double>(of_.k) * 0x1p-51 * magnitudes[j],
                         size = std::fabs(main[i]);
            double error = errors[i] + joins * u * (range + errors[i]);
            error += slices * u * (size + error + range);
            // Roundings to nearest have a nonzero mean if a sum is so long that addends are smaller than half a unit.
            const double rounds = joins * u * range * std::min(1.0, joins * u / 2) + slices * u * u * (size + range);
            const double square =
                squares[i] + joins * (u * range) * (u * range) + slices * (u * (size + range)) * (u * (size + range));
            out[j].certain = error * (1 + 0x1p-40);
            out[j].mean = std::min(out[j].certain, mean[i] + rounds);
            out[j].spread = std::sqrt(square);
            out[j].range = range + size;
        }
    }

  private:
    using Lane = std::array<double, width>;

    static std::size_t at(std::int64_t j) { return static_cast<std::size_t>(j); }

    /// Returns the power of two that an element counts as when exponents are compared.
    double top_of(double raw, const Format& format, double factor) const {
        if (raw == 0) return 0;
        const double scale =
            !is_scaled_ ? 1 : std::max(power_below(factor), Format::power_of_two(of_.scale_format.emin()));
        if (rule_.machine->sum.model == SumModel::scaled_groups) return scale;  // only the scales of groups count
        return std::max(power_below(raw), Format::power_of_two(format.emin())) * scale;
    }

    void load(std::int64_t row) {
        const std::vector<double>&from = is_scaled_ ? of_.a : of_.unscaled_a(), &raw = of_.unscaled_a();
        a_ = from.data() + row * of_.k;
        a_top_.resize(static_cast<std::size_t>(of_.k));
        a_unit_.resize(static_cast<std::size_t>(of_.k));
        for (std::int64_t p = 0; p < of_.k; ++p) {
            a_top_[at(p)] = top_of(raw[at(row * of_.k + p)], of_.a_format, of_.a_factor(row, p));
            a_unit_[at(p)] = unit_of(a_[p]);
        }
    }

    /// Returns the factors that multiply the chain's sums when they are promoted.
    Lane factors_of(std::int64_t row, const Chain& chain) const {
        Lane factors;
        factors.fill(1);
        if (is_scaled_ || of_.k_block == 0) return factors;
        for (std::int64_t j = 0; j < columns_; ++j)
            factors[at(j)] = of_.a_factor(row, chain.first) * of_.b_factor(matrix_, chain.first, column_ + j);
        return factors;
    }

    /// Computes the chain's sum, the extremes of its partial sums, and the largest exponent of each step's products.
    void add_up(const Chain& chain, Lane& sums, Lane& least, Lane& most) {
        std::size_t step = 0;
        for (std::int64_t p = chain.first; p < chain.last; p += step_.terms, ++step) {
            Lane top{}, magnitude{};
            for (std::int64_t q = p; q < std::min(p + step_.terms, chain.last); ++q) {
                const double a = a_[q], a_top = a_top_[at(q)];
                const double *b = &b_[at(q * width)], *b_top = &b_top_[at(q * width)];
                for (std::size_t j = 0; j < width; ++j) sums[j] += a * b[j];
                for (std::size_t j = 0; j < width; ++j) top[j] = std::max(top[j], a_top * b_top[j]);
                if (magnitudes_.empty()) continue;
                for (std::size_t j = 0; j < width; ++j) magnitude[j] += std::fabs(a * b[j]);
            }
            tops_[step] = top;
            if (!magnitudes_.empty()) magnitudes_[step] = magnitude;
            for (std::size_t j = 0; j < width; ++j) least[j] = std::min(least[j], sums[j]);
            for (std::size_t j = 0; j < width; ++j) most[j] = std::max(most[j], sums[j]);
        }
    }

    /// Adds the errors of the chain's steps: their bound, their mean, and the squares of their independent parts.
    void lose(const Chain& chain, Lane& error, Lane& mean, Lane& square) {
        std::size_t step = 0;
        const double steps = static_cast<double>((chain.last - chain.first + step_.terms - 1) / step_.terms),
                     lean = step_.is_one_sided ? 0.5 : std::min(1.0, steps * step_.of_sum / 2),
                     half = step_.is_one_sided ? 0.25 : 1;
        for (std::int64_t p = chain.first; p < chain.last; p += step_.terms, ++step) {
            Lane unit{}, lost{}, whole{};
            if (step_.other_cuts > 0) {
                for (std::size_t j = 0; j < width; ++j) {
                    const double addend = step_.starts_anew ? magnitudes_[step][j] * 1.001 : ranges_[j] + error[j];
                    unit[j] = step_.unit * std::max({tops_[step][j], power_below(addend), step_.min_top});
                }
            }
            if (step_.cuts_products) {
                for (std::int64_t q = p; q < std::min(p + step_.terms, chain.last); ++q)
                    cut(a_[q], a_unit_[at(q)], &b_[at(q * width)], &b_unit_[at(q * width)], unit, lost, whole);
            }
            for (std::size_t j = 0; j < width; ++j) {
                const double cuts = lost[j] + step_.other_cuts * unit[j],
                             inside = step_.of_step > 0 ? step_.of_step * (magnitudes_[step][j] + cuts) : 0,
                             rounding = step_.of_sum * (ranges_[j] + error[j] + cuts + inside);
                mean[j] += (lost[j] + whole[j] + step_.other_cuts * unit[j]) / 2 + lean * rounding + inside / 2;
                square[j] +=
                    unit[j] * (lost[j] + step_.other_cuts * unit[j]) / 4 + half * rounding * rounding + inside * inside;
                error[j] += cuts + inside + rounding;
            }
        }
    }

    /// Adds to `lost` how much may be cut from the products of one term. A product that is smaller than the unit may be
    /// cut completely; it is then also added to `whole`.
    static void cut(double a, double a_unit, const double* b, const double* b_unit, const Lane& unit, Lane& lost,
                    Lane& whole) {
        for (std::size_t j = 0; j < width; ++j) {
            const double size = std::fabs(a * b[j]), most = size < unit[j] ? size : unit[j];
            const double part = a_unit * b_unit[j] < unit[j] ? most : 0;
            lost[j] += part;
            whole[j] += size < unit[j] ? part : 0;
        }
    }

    const ProductOperands& of_;
    const MatmulRule& rule_;
    StepModel step_;
    std::vector<Chain> chains_;
    bool is_scaled_;  ///< the machine itself applies the block factors
    std::int64_t matrix_, column_, columns_;
    const double* a_ = nullptr;
    std::vector<double> a_top_, a_unit_, b_, b_top_, b_unit_;
    std::vector<Lane> tops_, magnitudes_;
    Lane ranges_{};
};

}  // namespace macheps::check
