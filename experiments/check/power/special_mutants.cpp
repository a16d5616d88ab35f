// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/power/special_mutants.hpp"

#include "core/codec.hpp"
#include "experiments/check/judge/grid.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

namespace macheps::check {

namespace {

/// Tests whether numbers are subnormal in a format. Fixed-point and power-of-two formats have no subnormal numbers.
class Subnormals {
  public:
    explicit Subnormals(const Format& format)
        : least_(format.min_normal_code() > 1 ? Format::power_of_two(format.emin()) : 0) {}
    bool operator()(double x) const { return x != 0 && std::fabs(x) < least_; }
    double least() const { return least_; }

  private:
    double least_;
};

void flush(const Format& format, Numbers& values) { values.flush_below(Subnormals(format).least()); }
void flush(const Format& format, std::vector<double>& values) {
    const Subnormals is_subnormal(format);
    for (double& x : values) x = is_subnormal(x) ? 0 : x;
}

bool has_subnormal(const Format& format, NumberView values, ThreadPool& pool) {
    const Subnormals is_subnormal(format);
    bool any = false;
    in_parts(
        static_cast<std::int64_t>(values.size()), pool,
        [&](std::size_t first, std::size_t last) {
            return std::any_of(values.begin() + static_cast<std::ptrdiff_t>(first),
                               values.begin() + static_cast<std::ptrdiff_t>(last), is_subnormal);
        },
        [&](bool part) { any = any || part; });
    return any;
}

/// Returns the problem with its subnormal inputs and operands replaced by zeros, or nothing if none is subnormal.
std::optional<Problem> with_flushed_operands(const Problem& problem, ThreadPool& pool) {
    const auto format_of = [&](const Input& input) {
        const auto format = problem.declaration.formats.find(input.name);
        return format == problem.declaration.formats.end() ? fp32 : format->second.format;
    };
    bool is_changed = std::any_of(problem.inputs.begin(), problem.inputs.end(), [&](const Input& input) {
        return has_subnormal(format_of(input), input.values, pool);
    });
    std::shared_ptr<const Products> products = problem.products;
    if (products != nullptr) {
        const ProductOperands& right = products->operands();
        if (has_subnormal(right.a_format, right.a, pool) || has_subnormal(right.b_format, right.b, pool)) {
            ProductOperands of = right;
            flush(of.a_format, of.a);
            flush(of.b_format, of.b);
            products = std::make_shared<const Products>(std::move(of), problem.declaration.machine, pool);
            is_changed = true;
        }
    }
    if (!is_changed) return std::nullopt;
    Problem flushed = problem;
    flushed.products = products;
    for (Input& input : flushed.inputs) flush(format_of(input), input.values);
    return flushed;
}

/// Returns true if the function changes any exact result to another number.
template <class Function>
bool changes_any(const Limits& limits, ThreadPool& pool, Function function) {
    bool any = false;
    in_parts(
        limits.size(), pool,
        [&](std::size_t first, std::size_t last) {
            return std::any_of(limits.exact.begin() + static_cast<std::ptrdiff_t>(first),
                               limits.exact.begin() + static_cast<std::ptrdiff_t>(last), [&](double x) {
                                   const double y = function(x);
                                   return !(y == x || std::isnan(y));
                               });
        },
        [&](bool part) { any = any || part; });
    return any;
}

/// Adds a wrong kernel that applies a function to every correct result. If the function changes no result, the kernel
/// counts as not caught.
template <class Function>
void add_changed(Trial& trial, const char* name, Function function) {
    const Limits& limits = trial.limits();
    if (!changes_any(limits, trial.pool(), function)) return trial.add_unseen(name, "specials", Power::all);
    trial.add({.name = name,
               .kind = "specials",
               .required_by = Power::all,
               .results = [&](const OutputRange& range, std::span<double> exact) {
                   std::transform(limits.exact.begin() + range.first, limits.exact.begin() + range.last, exact.begin(),
                                  function);
               }});
}

void add_flushed(Trial& trial, const Problem& problem) {
    const Limits& limits = trial.limits();
    const std::optional<Problem> flushed = with_flushed_operands(problem, trial.pool());
    const double least = Format::power_of_two(limits.format.emin());
    if (!flushed && !changes_any(limits, trial.pool(), [&](double x) { return std::fabs(x) < least ? 0 : x; }))
        return trial.add_unseen("subnormals flushed", "specials", Power::all);
    const Mutated mutated(flushed ? *flushed : problem, {});
    const Storing stored(limits);
    const Subnormals is_subnormal(limits.format);
    trial.add({.name = "subnormals flushed",
               .kind = "specials",
               .required_by = Power::all,
               .results =
                   [&](const OutputRange& range, std::span<double> exact) {
                       if (flushed)
                           mutated.results(range, exact, trial.pool());
                       else
                           std::copy_n(limits.exact.begin() + range.first, range.size(), exact.begin());
                   },
               .store =
                   [&](std::size_t, double exact) {
                       const double y = stored(exact);
                       return is_subnormal(y) ? 0 : y;
                   }});
}

/// Adds a wrong kernel that replaces subnormal outputs by zero when it stores them. A legal kernel must declare this.
void add_flushed_outputs(Trial& trial) {
    const Limits& limits = trial.limits();
    const Subnormals is_subnormal(limits.format);
    const Storing stored(limits);
    const auto flushed = [=](double exact) {
        const double y = stored(exact);
        return is_subnormal(y) ? 0 : y;
    };
    if (limits.flushes) return;
    if (!changes_any(limits, trial.pool(), [&](double x) { return is_subnormal(stored(x)) ? 0 : x; })) return;
    trial.add({.name = "subnormal outputs flushed",
               .kind = "specials",
               .required_by = Power::all,
               .results =
                   [&](const OutputRange& range, std::span<double> exact) {
                       std::copy_n(limits.exact.begin() + range.first, range.size(), exact.begin());
                   },
               .store = [flushed](std::size_t, double exact) { return flushed(exact); }});
}

/// Adds a wrong kernel that does not clear the accumulators of one tile. Each output of the tile then also contains the
/// output of the row above it.
void add_uncleared(Trial& trial) {
    const Limits& limits = trial.limits();
    const std::int64_t tile = limits.tile();
    const std::int64_t row = limits.rows / tile / 2 * tile, column = limits.columns / tile / 2 * tile,
                       bottom = std::min(row + tile, limits.rows), right = std::min(column + tile, limits.columns);
    trial.add({.name = "accumulator not cleared",
               .kind = "specials",
               .required_by = Power::all,
               .results =
                   [&](const OutputRange& range, std::span<double> exact) {
                       std::copy_n(limits.exact.begin() + range.first, range.size(), exact.begin());
                       for (std::int64_t r = row; r < bottom; ++r) {
                           for (std::int64_t c = column; c < right; ++c) {
                               const std::int64_t i = r * limits.columns + c,
                                                  before = (i + limits.size() - limits.columns) % limits.size();
                               if (i >= range.first && i < range.last)
                                   exact[static_cast<std::size_t>(i - range.first)] +=
                                       limits.exact[static_cast<std::size_t>(before)];
                           }
                       }
                   },
               .changes = {row * limits.columns + column, (bottom - 1) * limits.columns + right}});
}

}  // namespace

void add_special_mutants(Trial& trial, const Problem& problem) {
    const Limits& limits = trial.limits();
    add_changed(trial, "NaN swallowed", [](double x) { return std::isnan(x) ? 0 : x; });
    const double most = decode64(limits.format, limits.format.max_finite_code() << limits.format.padding);
    add_changed(trial, "infinity made the largest number",
                [most](double x) { return std::fabs(x) > most ? std::copysign(most, x) : x; });
    add_flushed(trial, problem);
    add_flushed_outputs(trial);
    if (problem.products != nullptr && limits.size() > 1) add_uncleared(trial);
}

void add_size_mutants(Trial& trial) {
    const Limits& limits = trial.limits();
    if (limits.size() < 2) return;
    const std::int64_t middle = limits.size() / 2, columns = limits.columns,
                       row = std::min<std::int64_t>(9, limits.rows - 1);
    const auto add = [&](const char* name, const OutputRange& changes, auto change) {
        trial.add({.name = name,
                   .kind = "size",
                   .required_by = Power::all,
                   .results =
                       [&, changes, change](const OutputRange& range, std::span<double> exact) {
                           std::copy_n(limits.exact.begin() + range.first, range.size(), exact.begin());
                           for (std::int64_t i = std::max(range.first, changes.first);
                                i < std::min(range.last, changes.last); ++i)
                               exact[static_cast<std::size_t>(i - range.first)] = change(static_cast<std::size_t>(i));
                       },
                   .changes = changes});
    };
    add("one element stale", {middle, middle + 1}, [&](std::size_t i) { return limits.exact[i - 1]; });
    add("one row larger by 0.001", {row * columns, (row + 1) * columns},
        [&](std::size_t i) { return limits.exact[i] * 1.001; });
}

}  // namespace macheps::check
