// SPDX-License-Identifier: Apache-2.0
// Evaluates formulas in a format. Every operator and every function rounds its exact result once. The exception is
// Functions::macheps, which selects the functions of core/math.hpp.
#pragma once
#include "core/codec.hpp"
#include "core/rng.hpp"
#include "core/rounding.hpp"
#include "experiments/study/eval/tree.hpp"

#include <optional>
#include <vector>

namespace macheps::study {

enum class Functions : std::uint8_t { correct, macheps };

/// Arithmetic of a format, which Walk (walk.hpp) uses as its System. Numbers are stored as doubles. In a context with
/// another format, operands may be numbers of either format, and every operation rounds its exact result once.
class FormatSystem {
  public:
    using Number = double;
    FormatSystem(const Format& format, Round mode, Functions functions, bool flushes, RngKey key)
        : format_(format), mode_(mode), functions_(functions), flushes_(flushes), key_(key) {}

    double literal(const Node& node);
    double apply(Op op, const std::vector<double>& x);
    bool compare(Op op, double a, double b) const;
    bool test(Op op, double x) const;
    double cast(double x);
    void enter(const RoundingContext& context);
    void leave();
    /// Returns whether the correctly rounded value of some function or literal is unknown. There is then no result.
    bool is_unresolved() const { return is_unresolved_; }
    /// Returns whether the last zero that was made of numbers other than zero is an underflow: its exact value is not
    /// zero. Otherwise this zero is exact, as that of 1 - 1, or there was none.
    bool has_underflowed() const { return has_underflowed_; }

  private:
    double known(std::optional<double> value);
    double own(Op op, double x);
    RandomBits next() { return {mode_ == Round::stochastic ? random_bits(key_, element_++) : 0, 32}; }
    double flushed(double x) const;
    double finished(double rounded, bool is_exact_zero, const std::vector<double>& operands);
    double function(Op op, const std::vector<double>& x);

    struct Surroundings {
        Format format{};
        Round mode{}, literal_mode{};
    };

    Format format_;
    Round mode_, literal_mode_ = Round::nearest_even;
    std::vector<Surroundings> outside_{};  ///< settings to restore when each entered context is left, innermost last
    bool is_mixed_ = false;                ///< a context was entered, so operands may have several formats
    Functions functions_;
    bool flushes_;
    RngKey key_;
    std::uint64_t element_ = 0;
    bool is_unresolved_ = false, has_underflowed_ = false;
};

/// Returns whether `--functions macheps` has the operation.
bool has_own_function(Op op, const Format& format);

}  // namespace macheps::study
