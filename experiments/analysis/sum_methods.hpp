// SPDX-License-Identifier: Apache-2.0
// Ways to add numbers, and products of numbers, in any format and rounding: rows of one table.
#pragma once
#include "experiments/analysis/rounder.hpp"
#include "experiments/numerics/sum_order.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::analysis {

/// Additions and products of numbers of one format, each rounded once in one mode. Random words are numbered by the
/// roundings of the run, in order, exact ones included.
class SumNumbers {
  public:
    SumNumbers(const Format& format, Round mode, RngKey stream)
        : nearest_(format), any_(format, mode, stream, 0), is_nearest_(mode == Round::nearest_even) {}

    /// Sums of two numbers of up to 25 digits that fp64 rounds are rounded again innocuously.
    double add(double x, double y) { return is_nearest_ ? nearest_(x + y) : any_.sum(x, y); }
    double sub(double x, double y) { return add(x, -y); }
    double mul(double x, double y) { return is_nearest_ ? nearest_(x * y) : any_(x * y); }
    double fma(double x, double y, double z) { return any_.sum(x * y, z); }
    Rounding& rounding() { return any_; }

  private:
    Rounder<double> nearest_;
    Rounding any_;
    bool is_nearest_;
};

struct SumMethodRow {
    std::string_view name, words;
    std::int64_t usual = 0;  ///< number behind the colon when it is left out; 0: it takes none
    double (*sum)(SumNumbers& in, std::vector<double> x, std::int64_t number) = nullptr;
    /// Of products that are not rounded first.
    double (*dot)(SumNumbers& in, std::span<const double> x, std::span<const double> y) = nullptr;
    /// Additions on the longest path of n terms; 0 where they do not bound the error.
    std::int64_t (*height)(std::int64_t n, std::int64_t number) = nullptr;
};
std::span<const SumMethodRow> sum_methods();

/// A method with its number: `blocked:128`.
struct SumMethod {
    std::string text{};
    const SumMethodRow* row = nullptr;
    std::int64_t number = 0;
};
/// Errors: throws Error (usage).
SumMethod parse_sum_method(std::string_view text);

/// The result in one trial's stream of random words; of products, where there are y.
double sum_by(const SumMethod& method, SumNumbers& in, std::span<const double> x, std::span<const double> y);

}  // namespace macheps::analysis
