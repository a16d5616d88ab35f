// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/solve/refine.hpp"

#include "core/host/float_environment.hpp"
#include "experiments/study/solve/gmres.hpp"
#include "experiments/study/solve/quad.hpp"

#include <cmath>
#include <functional>

namespace macheps::study {

namespace {

/// Returns the residual b - A x. For each row, s = b_i and then s = s - a_ij x_j in precision u_r, with j ascending.
/// Each s is then rounded once to precision u.
std::vector<double> working_residual(const Matrix& a, std::span<const double> b, std::span<const double> x,
                                     const RefinePlan& plan) {
    std::vector<double> r(x.size());
    with_wide_arithmetic(plan.residual, [&](const auto& in) {
        using Number = typename std::decay_t<decltype(in)>::Number;
        const std::vector<Number> terms(x.begin(), x.end());
        for (std::int64_t i = 0; i < a.n; ++i) {
            Number s = Number(b[static_cast<std::size_t>(i)]);
            const double* row = a.row(i);
            for (std::int64_t j = 0; j < a.n; ++j)
                s = in.sub(s, in.mul(Number(row[j]), terms[static_cast<std::size_t>(j)]));
            if constexpr (std::is_same_v<Number, Quad>) {
                r[static_cast<std::size_t>(i)] = rounded_quad(s, plan.work);
            } else {
                r[static_cast<std::size_t>(i)] = s;
            }
        }
    });
    with_arithmetic(plan.work, [&](const auto& in) {
        for (double& each : r) each = in.from(each);
    });
    return r;
}

/// A linear system with its factors, and the operations that a refinement needs.
class System {
  public:
    System(const Matrix& a, const Factors& factors, const Equilibration& scaling, const RefinePlan& plan)
        : a_(a), factors_(factors), scaling_(scaling), plan_(plan) {
        if (!uses_gmres(plan.method)) return;
        with_arithmetic(plan.gmres, [&](const auto& rest) {
            with_wide_arithmetic(plan.precond, [&](const auto& products) {
                const auto preconditioner = std::make_shared<Preconditioner<std::decay_t<decltype(products)>>>(
                    products, a_, factors, scaling_, plan.method == Method::gmres_ir);
                gmres_ = [rest, preconditioner, tolerance = plan.gmres_tolerance](const std::vector<double>& r) {
                    return gmres(rest, *preconditioner, r, tolerance);
                };
            });
        });
    }

    /// Returns mu C U^-1 L^-1 P R z. The substitutions are computed in precision u_s.
    std::vector<double> solve(std::span<const double> z) const {
        return with_arithmetic(plan_.substitution, [&](const auto& in) {
            std::vector<double> scaled(z.size());
            for (std::int64_t i = 0; i < a_.n; ++i) {
                scaled[static_cast<std::size_t>(i)] =
                    in.from(std::ldexp(z[static_cast<std::size_t>(i)], scaling_.row(i)));
            }
            std::vector<double> y = substitute(in, factors_, scaled);
            for (std::int64_t i = 0; i < a_.n; ++i) {
                double& each = y[static_cast<std::size_t>(i)];
                each = std::ldexp(each, scaling_.mu + scaling_.column(i));
            }
            return y;
        });
    }

    /// Returns the exponent of the power of two t for which the largest element of |R r| t is in [1, 2).
    int residual_exponent(std::span<const double> r) const {
        double most = 0;
        for (std::int64_t i = 0; i < a_.n; ++i) {
            most = std::max(most, std::fabs(std::ldexp(r[static_cast<std::size_t>(i)], scaling_.row(i))));
        }
        return -std::ilogb(most);
    }

    GmresResult by_gmres(const std::vector<double>& r) const { return gmres_(r); }

  private:
    const Matrix& a_;
    FactorNumbers<double> factors_;
    const Equilibration& scaling_;
    const RefinePlan& plan_;
    std::function<GmresResult(const std::vector<double>&)> gmres_{};
};

/// The current x, its residual and its errors.
class Iterate {
  public:
    Iterate(const Matrix& a, std::span<const double> b, const RefinePlan& plan, const Reference& reference)
        : a_(a), b_(b), plan_(plan), reference_(reference), norm_(row_sum_norm(a)) {}

    /// Computes the residual in the precision of the method, and the errors of x. Returns false if x or the residual is
    /// not finite.
    bool look(const std::vector<double>& x) {
        errors_ = {HUGE_VAL, HUGE_VAL, HUGE_VAL};
        if (!all_finite(x)) return false;
        r_ = working_residual(a_, b_, x, plan_);
        const bool is_exact = plan_.residual == fp128 && plan_.work == fp64;
        errors_ = solution_errors(a_, b_, x, is_exact ? r_ : exact_residual(a_, b_, x), reference_);
        x_norm_ = max_norm(x);
        return all_finite(r_);
    }

    bool has_converged() const {
        const double u = plan_.work.unit_roundoff(), size = max_norm(r_);
        if (size == 0) return true;
        if (plan_.stop == Stop::oracle) return errors_.forward && *errors_.forward <= 2 * u && errors_.normwise <= u;
        return size < std::sqrt(static_cast<double>(a_.n)) * u * norm_ * x_norm_;
    }

    const std::vector<double>& residual() const { return r_; }
    const SolutionErrors& errors() const { return errors_; }

  private:
    const Matrix& a_;
    std::span<const double> b_;
    const RefinePlan& plan_;
    const Reference& reference_;
    double norm_, x_norm_ = 0;
    std::vector<double> r_{};
    SolutionErrors errors_{};
};

/// Returns t d, where d is the correction of x for the residual r, and t = 2^exponent. Stores the statistics of GMRES
/// in `next`. Returns an empty vector if the result of GMRES is not finite.
std::vector<double> correction_of(const System& system, const std::vector<double>& r, int exponent,
                                  const RefinePlan& plan, RefineStep& next) {
    std::vector<double> scaled(r.size());
    for (std::size_t i = 0; i < r.size(); ++i) scaled[i] = std::ldexp(r[i], exponent);
    if (!uses_gmres(plan.method)) return system.solve(scaled);
    GmresResult result = system.by_gmres(scaled);
    next.inner = result.inner;
    next.gmres_residual = result.residual;
    return result.is_finite ? std::move(result.d) : std::vector<double>{};
}

/// Adds fl(fl(d_i) / t) to x_i in the format `work`, with t = 2^exponent. Returns the magnitude of the largest
/// correction.
double add_correction(std::vector<double>& x, const std::vector<double>& d, int exponent, const Format& work) {
    double most = 0;
    with_arithmetic(work, [&](const auto& in) {
        for (std::size_t i = 0; i < x.size(); ++i) {
            const double change = in.from(std::ldexp(in.from(d[i]), -exponent));
            x[i] = in.add(x[i], change);
            if (!(std::fabs(change) <= most)) most = std::fabs(change);
        }
    });
    return most;
}

Verdict verdict_of(Breakdown breakdown) {
    switch (breakdown) {
        case Breakdown::overflow:
            return Verdict::factor_overflow;
        case Breakdown::zero_pivot:
            return Verdict::zero_pivot;
        case Breakdown::indefinite:
            return Verdict::indefinite;
        default:
            return Verdict::singular;
    }
}

Verdict verdict_of(const Refined& refined) {
    if (refined.steps == 0) return Verdict::unrefined;
    const RefineStep &first = refined.history.front(), &last = refined.history.back();
    const bool is_off = last.errors.forward.value_or(0) >= 0.5;
    return is_off || last.residual > first.residual ? Verdict::diverged : Verdict::stagnated;
}

}  // namespace

std::string_view to_string(Method method) { return method_names[static_cast<std::size_t>(method)].name; }

Refined refine(const Matrix& a, std::span<const double> b, const Factors& factors, const Equilibration& scaling,
               const RefinePlan& plan, const Reference& reference) {
    const DefaultFloatModes modes;
    Refined refined{.errors = {HUGE_VAL, HUGE_VAL, HUGE_VAL}};
    if (!factors.is_regular) {
        refined.verdict = verdict_of(breakdown_of(factors));
        return refined;
    }
    const System system(a, factors, scaling, plan);
    refined.x = system.solve(b);
    with_arithmetic(plan.work, [&](const auto& in) {
        for (double& each : refined.x) each = in.from(each);
    });
    if (!all_finite(refined.x) && plan.method != Method::lu) std::fill(refined.x.begin(), refined.x.end(), 0);
    Iterate iterate(a, b, plan, reference);
    RefineStep now;
    const int most = plan.method == Method::lu ? 0 : plan.max_steps;
    while (true) {
        const bool is_finite = iterate.look(refined.x);
        refined.errors = iterate.errors();
        if (!is_finite) {
            refined.verdict = Verdict::nonfinite;
            return refined;
        }
        now.step = refined.steps;
        now.errors = iterate.errors();
        now.residual = max_norm(iterate.residual());
        refined.history.push_back(now);
        refined.verdict = iterate.has_converged() ? Verdict::converged : verdict_of(refined);
        const bool is_lost = now.errors.forward.value_or(0) >= 1e30;
        if (refined.verdict == Verdict::converged || refined.steps == most || is_lost) break;
        RefineStep next;
        const int exponent = system.residual_exponent(iterate.residual());
        const std::vector<double> d = correction_of(system, iterate.residual(), exponent, plan, next);
        refined.inner += next.inner.value_or(0);
        ++refined.steps;
        if (d.empty()) {
            refined.verdict = Verdict::nonfinite;
            return refined;
        }
        next.correction = add_correction(refined.x, d, exponent, plan.work);
        now = next;
    }
    // If the reference is uncertain, the forward error is unknown, so Stop::oracle cannot decide.
    if (plan.stop == Stop::oracle && !refined.errors.forward) refined.verdict = Verdict::no_reference;
    return refined;
}

double convergence_limit(const RefinePlan& plan, const Format& factor) {
    const double u = plan.work.unit_roundoff(), low = factor.unit_roundoff();
    if (plan.method == Method::gmres) return 1 / u;
    if (plan.method != Method::gmres_ir) return 1 / low;
    if (plan.precond.precision >= 2 * plan.work.precision) return 1 / (std::sqrt(u) * low);
    return 1 / std::cbrt(u * low * low);
}

}  // namespace macheps::study
