// SPDX-License-Identifier: Apache-2.0
// Orders of summation in a format of your choice: `pairwise:fp16`, `kahan:bf16`, `chain:e5m6:stochastic`. Each order is
// a row of a table. Any format whose numbers are exact in fp32 can be used. Matrix units are not orders of summation
// but machines (emulation/machine/table.hpp). Host only.
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

/// Rounds results to one format and returns them as doubles.
class Rounding {
  public:
    /// For stochastic rounding, each rounding uses one random word of `stream`, beginning with word `element`.
    Rounding(Format format, Round mode, RngKey stream, std::uint64_t element)
        : format_(format), mode_(mode), stream_(stream), element_(element) {}

    double operator()(double x);                           ///< returns x, rounded once
    double sum(double x, double y);                        ///< returns the exact sum x + y, rounded once
    double operator()(const Unpacked& x);                  ///< returns x, of up to 64 bits, rounded once
    bool has_saturated() const { return has_saturated_; }  ///< whether any result so far overflowed but is finite

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
    std::string_view words;  ///< description of the operations and their roundings
    /// Returns the sum of products, each of which is exact.
    double (*sum)(Rounding& round, std::span<const double> products);
    int roundings = 0;  ///< maximum number of roundings per term
    /// Returns the error bounds of a sum of k terms, if the relative error of each rounding is at most `unit`.
    std::vector<ModelError> (*errors)(double k, double unit, Round round);
};
std::span<const SumOrderRow> sum_orders();

/// An order of summation with a format and a rounding mode.
struct SumOrder {
    const SumOrderRow* row = nullptr;
    Format format = fp32;
    Round round = Round::nearest_even;

    /// Returns the sum of exact products. Each output uses different random words, `row->roundings` per term. If
    /// `saturates` is not null, sets it to whether the sum is finite although an operation overflowed.
    double sum(std::span<const double> products, RngKey stream, std::uint64_t output, bool* saturates = nullptr) const;
    ModelErrors errors(std::int64_t k) const;
};

/// Reads `ORDER:FORMAT[:ROUND]`. Returns nothing if the text before the first colon is not an order.
/// Errors: throws Error (usage) for an unknown format or rounding mode, and for an unsupported format such as fp64.
std::optional<SumOrder> parse_sum_order(std::string_view text);

}  // namespace macheps
