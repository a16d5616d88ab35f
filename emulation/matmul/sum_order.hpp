// SPDX-License-Identifier: Apache-2.0
// Orders of summation in a format of your choice: `pairwise:fp16`, `kahan:bf16`, `chain:e5m6:stochastic`. An order is a
// row; a format is any that fp32 holds. Matrix units are machines instead (emulation/machine/table.hpp). Host only.
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

/// Rounds to one format. A sum consists of numbers of that format, held as doubles.
class Rounding {
  public:
    /// `stream` and `element` select the random bits of stochastic rounding: one word for each rounding.
    Rounding(Format format, Round mode, RngKey stream, std::uint64_t element)
        : format_(format), mode_(mode), stream_(stream), element_(element) {}

    double operator()(double x);                           ///< returns x, rounded once
    double sum(double x, double y);                        ///< returns the exact sum x + y, rounded once
    double operator()(const Unpacked& x);                  ///< the same for a number of up to 64 bits
    bool has_saturated() const { return has_saturated_; }  ///< whether a result so far is finite although it overflowed

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
    std::string_view words;  ///< description: what is rounded, and when
    /// Returns the sum of products, each of which is exact.
    double (*sum)(Rounding& round, std::span<const double> products);
    int roundings = 0;  ///< upper bound per term
    /// Returns the local errors over k terms, if each rounding has an error of at most `unit` times the magnitudes.
    std::vector<ModelError> (*errors)(double k, double unit, Round round);
};
std::span<const SumOrderRow> sum_orders();

/// An order of summation with a format and a rounding mode.
struct SumOrder {
    const SumOrderRow* row = nullptr;
    Format format = fp32;
    Round round = Round::nearest_even;

    /// Returns the sum. Every output uses its own random words: `roundings` for each term. If `saturates` is given, it
    /// is set to whether the sum is finite although an operation overflowed.
    double sum(std::span<const double> products, RngKey stream, std::uint64_t output, bool* saturates = nullptr) const;
    ModelErrors errors(std::int64_t k) const;
};

/// Reads `ORDER:FORMAT[:ROUND]`. Returns nothing if the text before the first colon is not an order.
/// Errors: throws Error (usage) for an unknown format or rounding, and for an unsupported format such as fp64.
std::optional<SumOrder> parse_sum_order(std::string_view text);

}  // namespace macheps
