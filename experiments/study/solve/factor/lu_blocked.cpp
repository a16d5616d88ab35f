// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/solve/factor/lu_blocked.hpp"

#include "core/format_table.hpp"
#include "emulation/matmul/rules.hpp"
#include "experiments/study/solve/factor/row_update.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

namespace macheps::study {

namespace {

/// Calls `use` with a function that rounds to the format, to nearest even.
template <class Use>
void with_rounding(const Format& format, const Use& use) {
    if (format == fp64) return use(Unrounded{});
    use(Rounder<double>(format));
}

/// The trailing matrix after the panel of columns [first, last). It has rows() rows and rows() columns.
template <class Real>
struct Trailing {
    std::int64_t n = 0, first = 0, last = 0;
    Real* a = nullptr;

    std::int64_t rows() const { return n - last; }
    std::int64_t terms() const { return last - first; }
    Real* corner() const { return a + last * n + last; }
    Real l(std::int64_t i, std::int64_t k) const { return a[(last + i) * n + first + k]; }
    const Real* u(std::int64_t k) const { return a + (first + k) * n + last; }
};

/// Operands of the update, l [rows, terms] and u [terms, rows], rounded to plan.operands.
template <class To>
struct UpdateOperands {
    std::vector<To> l{}, u{};

    template <class Real>
    UpdateOperands(const Trailing<Real>& x, const LuPlan& plan)
        : l(static_cast<std::size_t>(x.rows() * x.terms())), u(l.size()) {
        if (plan.operands == plan.format) {
            take(x, Unrounded{});
        } else {
            with_rounding(plan.operands, [&](const auto& round) { take(x, round); });
        }
    }

  private:
    template <class Real, class Round>
    void take(const Trailing<Real>& x, const Round& round) {
        for (std::int64_t i = 0; i < x.rows(); ++i) {
            To* out = l.data() + i * x.terms();
            for (std::int64_t k = 0; k < x.terms(); ++k) out[k] = static_cast<To>(round(double{x.l(i, k)}));
        }
        for (std::int64_t k = 0; k < x.terms(); ++k) {
            To* out = u.data() + k * x.rows();
            for (std::int64_t j = 0; j < x.rows(); ++j) out[j] = static_cast<To>(round(double{x.u(k)[j]}));
        }
    }
};

/// Computes c = c - l u, term by term. Sums are stored as `Sum`, and `round` rounds the result of every operation.
template <class Sum, class Real, class Round>
void update_in_format(const Trailing<Real>& x, const LuPlan& plan, const Round& round, ThreadPool& pool, Simd simd) {
    const UpdateOperands<Sum> operands(x, plan);
    pool.run(x.rows(), [&](std::int64_t i) {
        Real* row = x.corner() + i * x.n;
        std::vector<Sum> c(static_cast<std::size_t>(x.rows()));
        for (std::int64_t j = 0; j < x.rows(); ++j) c[static_cast<std::size_t>(j)] = round(static_cast<Sum>(row[j]));
        for (std::int64_t k = 0; k < x.terms(); ++k) {
            update_row(simd, round, operands.l[static_cast<std::size_t>(i * x.terms() + k)],
                       operands.u.data() + k * x.rows(), c.data(), x.rows());
        }
        with_rounding(plan.format, [&](const auto& store) {
            for (std::int64_t j = 0; j < x.rows(); ++j)
                row[j] = static_cast<Real>(store(double{c[static_cast<std::size_t>(j)]}));
        });
    });
}

/// Computes C - l u on the machine, as one matrix product with addend C. The output is rounded to the format of the
/// factors.
template <class Real>
void update_on_machine(const Trailing<Real>& x, const LuPlan& plan, Backend& engine) {
    Matmul args{.m = x.rows(), .n = x.rows(), .k = x.terms(), .rule = *plan.rule, .out_cast = {.format = plan.format}};
    const auto multiply = [&](const float* minus_l, const float* u, std::int64_t ld_u, float* c, std::int64_t ld_c) {
        args.a = {.data = minus_l, .ld = x.terms(), .format = plan.operands};
        args.b = {.data = u, .ld = ld_u, .format = plan.operands};
        args.out = c;
        args.addend = c;
        args.ld_addend = args.ld_out = ld_c;
        engine.matmul(args);
    };
    if constexpr (std::is_same_v<Real, float>) {
        if (plan.operands == plan.format) {  // u and C can be used in place
            const std::unique_ptr<float[]> minus_l(new float[static_cast<std::size_t>(x.rows() * x.terms())]);
            for (std::int64_t i = 0; i < x.rows(); ++i) {
                for (std::int64_t k = 0; k < x.terms(); ++k)
                    minus_l[static_cast<std::size_t>(i * x.terms() + k)] = -x.l(i, k);
            }
            return multiply(minus_l.get(), x.u(0), x.n, x.corner(), x.n);
        }
    }
    UpdateOperands<float> operands(x, plan);
    for (float& l : operands.l) l = -l;
    if constexpr (std::is_same_v<Real, float>) {
        multiply(operands.l.data(), operands.u.data(), x.rows(), x.corner(), x.n);
    } else {
        std::vector<float> c(static_cast<std::size_t>(x.rows() * x.rows()));
        for (std::int64_t i = 0; i < x.rows(); ++i) {
            for (std::int64_t j = 0; j < x.rows(); ++j) {
                c[static_cast<std::size_t>(i * x.rows() + j)] = static_cast<float>(x.corner()[i * x.n + j]);
            }
        }
        multiply(operands.l.data(), operands.u.data(), x.rows(), c.data(), x.rows());
        for (std::int64_t i = 0; i < x.rows(); ++i) {
            std::copy_n(c.data() + i * x.rows(), x.rows(), x.corner() + i * x.n);
        }
    }
}

}  // namespace

std::string why_no_update(const LuPlan& plan) {
    if (!plan.rule) return {};
    const Machine& machine = *plan.rule->machine;
    if (plan.format.precision > 24)
        return "a machine returns fp32 sums, which are narrower than the format of the factors";
    if (!machine.operands.contains(plan.operands)) {
        return fmt::format("{} does not accept {} operands", machine.name, format_name(plan.operands));
    }
    if (machine.has_scales()) return fmt::format("{} needs block scales", machine.name);
    if (machine.addend != machine.result)
        return fmt::format("{} cannot add to its own results: the formats of C and D differ", machine.name);
    if (std::string why = why_no_addend(*plan.rule); !why.empty()) return why;
    if (plan.rule->slices > 1 || plan.rule->promotion == Promotion::fma_joint ||
        plan.rule->promotion == Promotion::fma_left) {
        return "the update accepts a machine with or without +promoteN, but neither slices of k nor scales";
    }
    return {};
}

template <class Real>
void update_trailing(std::int64_t n, Real* a, std::int64_t first, std::int64_t last, const LuPlan& plan,
                     Backend& engine, ThreadPool& pool, Simd simd) {
    const Trailing<Real> x{n, first, last, a};
    if (plan.rule) {
        update_on_machine(x, plan, engine);
    } else if (plan.accumulator == fp32) {
        update_in_format<float>(x, plan, Unrounded{}, pool, simd);
    } else if (plan.accumulator == fp64) {
        update_in_format<double>(x, plan, Unrounded{}, pool, simd);
    } else {
        update_in_format<double>(x, plan, Rounder<double>(plan.accumulator), pool, simd);
    }
}

template void update_trailing(std::int64_t, float*, std::int64_t, std::int64_t, const LuPlan&, Backend&, ThreadPool&,
                              Simd);
template void update_trailing(std::int64_t, double*, std::int64_t, std::int64_t, const LuPlan&, Backend&, ThreadPool&,
                              Simd);

}  // namespace macheps::study
