// SPDX-License-Identifier: Apache-2.0
// Orders of summation in formats of one's own: `pairwise:fp16`, `kahan:bf16`, `chain:e5m6:stochastic`. An order is a row;
// a format is any that fp32 holds. Matrix units are machines instead (emulation/machine/table.hpp). Host only.
#pragma once
#include "core/codec.hpp"
#include "core/rng.hpp"
#include "core/rounding.hpp"
#include "emulation/machine/models.hpp"

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace macheps {

/// Rounds to one format. A sum holds numbers of the format, as doubles.
class Rounding {
  public:
    /// `stream` and `element` are where the random bits of a stochastic rounding come from: one word for each rounding.
    Rounding(Format format, Round mode, RngKey stream, std::uint64_t element)
        : format_(format), mode_(mode), stream_(stream), element_(element) {}

    double operator()(double x);                           ///< x, rounded once
    double sum(double x, double y);                        ///< x + y, the exact sum rounded once
    double operator()(const Unpacked& x);                  ///< the same of a number with up to 64 digits
    bool has_saturated() const { return has_saturated_; }  ///< a result so far is finite although it overflowed

  private:
    RandomBits next() { return {mode_ == Round::stochastic ? random_bits(stream_, element_++) : 0, 32}; }

    Format format_;
    Round mode_;
    RngKey stream_;
    std::uint64_t element_;
    bool has_saturated_ = false;
};

struct SumOrderRow {
    std::string_view name;
    std::string_view words;  ///< what is rounded, and when
    /// The sum of products, each exact.
    double (*sum)(Rounding& round, std::span<const double> products);
    int roundings = 0;  ///< of one term, at most
    /// The local errors over k terms, where a rounding is off by at most `unit` of the magnitudes.
    std::vector<ModelError> (*errors)(double k, double unit, Round round);
};
std::span<const SumOrderRow> sum_orders();

/// An order, in a format, with a rounding.
struct SumOrder {
    const SumOrderRow* row = nullptr;
    Format format = fp32;
    Round round = Round::nearest_even;

    /// Every output has random words of its own: `roundings` of each term.
    /// If `saturates` is given, it becomes true if the sum is finite although an operation overflowed.
    double sum(std::span<const double> products, RngKey stream, std::uint64_t output, bool* saturates = nullptr) const;
    ModelErrors errors(std::int64_t k) const;
};

/// Reads `ORDER:FORMAT[:ROUND]`; empty where no order stands before the first colon.
/// Errors: throws Error (usage) for an unknown format or rounding, and for fp64, which fp32 does not hold.
std::optional<SumOrder> parse_sum_order(std::string_view text);

}  // namespace macheps
