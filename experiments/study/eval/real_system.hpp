// SPDX-License-Identifier: Apache-2.0
// Evaluates a formula over the real numbers, with exact fractions and with enclosures (intervals that contain the exact
// value). Only files that are compiled with Arb include this header.
#pragma once
#include "experiments/study/eval/arb_numbers.hpp"
#include "experiments/study/eval/tree.hpp"

#include <vector>

namespace macheps::study {

/// Thrown if the current number of digits does not decide the result. More digits may decide it.
struct Undecided {};
/// Thrown if the work for one input exceeds max_work. The caller gives up, because more digits would take even longer.
struct Exhausted {};

/// A real number (an exact fraction or an enclosure), or one of the special values of IEEE 754.
struct Real {
    enum class Kind : std::uint8_t { nan, infinite, exact, span };
    Kind kind = Kind::nan;
    bool is_negative = false;  ///< sign of an infinity or of an exact zero
    Fraction exact{};
    Span span{};

    bool is_exact() const { return kind == Kind::exact; }
    bool is_number() const { return kind == Kind::exact || kind == Kind::span; }
    bool is_zero() const { return is_exact() && exact.sign() == 0; }
    /// Returns the sign of a number that is not an exact zero, or 0 if the enclosure contains both signs.
    int sign() const {
        if (is_exact()) return exact.sign();
        return span.is_positive() ? 1 : span.is_negative() ? -1 : 0;
    }
};

Real real_of(double x);
Real exact_real(Fraction x, bool is_negative_zero = false);

/// Computes a result at NaN, infinities, zeros, ones or poles, as Annex F of the C standard prescribes. Enclosures
/// cannot give these results. Returns false if no operand has such a value.
bool special_result(Op op, const std::vector<Real>& x, slong bits, Real& out);
/// Computes the exact value of a root, power, logarithm or gamma function if this value is rational. Returns false if
/// it is not known to be rational.
bool rational_result(Op op, const std::vector<Real>& x, Real& out);

/// Returns an enclosure of a function whose operand lies in the span `x`. `is_exact` means that the operand is a single
/// rational number. Errors: throws Undecided if the span contains a pole or lies partly outside the domain.
Real function_over(Op op, const Span& x, bool is_exact, slong bits);

/// Maximum size of a fraction: bits of the numerator plus bits of the denominator. Larger numbers become spans.
inline constexpr slong max_fraction_bits = 20000;

/// Maximum work for one input. An arithmetic operation with 64 bits counts 1, and a function with 64 bits counts 16. A
/// time limit would give different rows on different machines.
inline constexpr std::uint64_t max_work = 4000000;

/// Exact real arithmetic, which Walk (walk.hpp) uses as its System. Errors: throws Undecided and Exhausted.
class RealSystem {
  public:
    using Number = Real;
    RealSystem(slong bits, std::uint64_t& work) : bits_(bits), work_(work) {}

    Real literal(const Node& node);
    Real apply(Op op, const std::vector<Real>& x);
    bool compare(Op op, const Real& a, const Real& b);
    bool test(Op op, const Real& x);

  private:
    void spend(const std::vector<Real>& x, bool is_function);
    Span span(const Real& x) const { return x.is_exact() ? span_of(x.exact, bits_) : x.span; }
    Real settled(Span x) const;
    Real settled(Fraction x) const;
    Real add(const Real& a, const Real& b);
    Real multiply(const Real& a, const Real& b);
    Real divide(const Real& a, const Real& b);
    Real root(const Real& x);
    Real magnitude(const Real& x) const;
    Real least(const Real& a, const Real& b);
    Real difference_above_zero(const Real& a, const Real& b);
    Real with_sign(const Real& a, const Real& b) const;
    Real whole(Op op, const Real& x) const;
    Real remainder(Op op, const Real& a, const Real& b);
    Real power(const Real& a, const Real& b);
    Real angle(const Real& y, const Real& x) const;

    slong bits_;
    std::uint64_t& work_;
};

Real negative(Real x);

}  // namespace macheps::study
