// SPDX-License-Identifier: Apache-2.0
// Computes how far errors spread if rounding errors are independent. The error of a number is approximately a linear
// combination of the rounding errors before it. The spread is the norm of the coefficients. If the operands of a step
// may share roundings, their norms are added (Minkowski's inequality). In a sum over elements that share no roundings,
// the squares of their norms are added.
#include "experiments/check/truth/nodes.hpp"

#include <algorithm>

namespace macheps::check {

namespace {

/// The magnitudes of a step's derivatives with respect to its operands.
struct Slopes {
    double x = 1, y = 0;
};
Slopes slopes_of(const Node& node, double x, double y, double z) {
    switch (node.step) {
        case Step::add:
        case Step::subtract:
        case Step::accumulate:
            return {1, 1};
        case Step::multiply:
            return {std::fabs(y), std::fabs(x)};
        case Step::divide:
            return {1 / std::fabs(y), std::fabs(z / y)};
        case Step::exponential:
            return {std::fabs(z), 0};
        case Step::logarithm:
            return {1 / std::fabs(x), 0};
        case Step::inverse_root:
        case Step::root:
            return {std::fabs(z / x) / 2, 0};
        case Step::sigmoid:
            return {z * (1 - z), 0};
        case Step::tangent:
            return {1 - z * z, 0};
        case Step::error:
            return {0x1.20dd76p+0 * math::exp(-x * x), 0};
        default:
            return {1, 0};
    }
}

double hypotenuse(double x, double y) { return sqrt(x * x + y * y); }

/// Returns the spread of a number that all elements of a row use, such as the sum of the row. The elements share all of
/// its errors, so `own` errors of the number become `shared` ones.
Spread as_shared(const Spread& row, double certain) {
    return {.linear = row.linear, .own = 0, .shared = row.own + row.shared, .common = certain};
}

/// The errors of a step's own roundings. Errors of functions (`linear`) may all have the same sign. The other errors
/// (`own`) are independent.
struct Local {
    double linear = 0, own = 0;
};
Local local_errors(const Node& node, const Row& row, double x, double y, double z, const Arithmetic& a) {
    const double size = std::fabs(z), u = a.unit_roundoff, argument = 2 * u * std::fabs(x);
    const auto of = [&](Function function) {
        const Accuracy& accuracy = a.of(function);
        return size * (accuracy.relative + accuracy.per_argument * std::fabs(x)) + accuracy.absolute;
    };
    const double inexact_quotient = of(Function::quotient) - u * size;
    switch (node.step) {
        case Step::larger:
        case Step::absolute:
        case Step::move:
        case Step::keep:
            return {};
        case Step::exponential:
            return {of(Function::exponential), size * argument};
        case Step::sigmoid:
            return {(1 - z) * of(Function::exponential) + inexact_quotient,
                    size * ((1 - z) * argument + 3 * u) + (x < -87 ? size : 0)};
        case Step::logarithm:
            return {of(Function::logarithm), 0};
        case Step::inverse_root:
            return {of(Function::inverse_root), 0};
        case Step::root:
            return {of(Function::inverse_root), u * size};
        case Step::tangent:
            return {of(Function::tangent), 0};
        case Step::error:
            return {of(Function::error), 0};
        case Step::slack:
            return {0, node.roundings * u * std::fabs(y)};
        case Step::round:
        case Step::convert:
            return {0, half_ulp(node.format, z)};
        case Step::accumulate:
            return {row.addend_mean * std::fabs(y), row.addend_spread * std::fabs(y) + u * size};
        case Step::divide:
            return {inexact_quotient, node.roundings * u * size};
        default:
            return {0, node.roundings * u * size + node.unit_roundings * u};
    }
}

Spread element_spread(const Node& node, const Row& row, const Spread& x, const Spread& y, Slopes slope, double vx,
                      double vy, double z, const Arithmetic& a) {
    if (node.step == Step::either || node.step == Step::larger)
        return {std::max(x.linear, y.linear), std::max(x.own, y.own), std::max(x.shared, y.shared),
                std::max(x.common, y.common)};
    Local local = local_errors(node, row, vx, vy, z, a);
    if (local.linear + local.own > 0) local.own += node.roundings * a.least;  // roundings of subnormal results
    return {.linear = slope.x * x.linear + slope.y * y.linear + local.linear,
            .own = hypotenuse(slope.x * x.own + slope.y * y.own, local.own),
            .shared = slope.x * x.shared + slope.y * y.shared,
            .common = slope.x * x.common + slope.y * y.common};
}

Spread sum_spread(const Node& node, const std::vector<Wide>& x, const std::vector<Spread>& spreads,
                  const Arithmetic& a) {
    Spread s{};
    double squares = 0, magnitudes = 0;
    const std::size_t count = x.size() - std::min(x.size(), static_cast<std::size_t>(node.skipped));
    for (std::size_t i = 0; i < count; ++i) {
        if (!std::isfinite(x[i].high)) continue;
        s.linear += spreads[i].linear;
        s.shared += spreads[i].shared;
        squares += spreads[i].own * spreads[i].own;
        magnitudes += std::fabs(x[i].high);
    }
    const auto terms = static_cast<std::int64_t>(count);
    const double additions = count > 0 ? static_cast<double>(count - 1) : 0, all = sum_error(node.order, terms),
                 unit = Format::power_of_two(-node.order.accumulator.precision);
    // There are two bounds of the norm that the additions contribute. Each addition has an error of at most u times the
    // sum of magnitudes. All errors together are at most sum_error() times that sum, because a term is contained in at
    // most as many partial sums as the tree is high.
    squares += std::min(additions * unit * unit, all * all) * magnitudes * magnitudes;
    // If a sum is so long that its terms are smaller than half an ulp of the sum, the mean of its rounding errors is
    // not zero.
    s.linear += all * std::min(1.0, all / 2) * magnitudes + node.roundings * a.unit_roundoff * magnitudes;
    s.own = sqrt(squares);
    return s;
}

/// Computes the spread of steps that take an element from another place of the row: extremes, selections and moves.
void placed_spread(const Node& node, const Row& row, const std::vector<Spread>& x, const std::vector<double>& bounds,
                   std::vector<Spread>& out) {
    switch (node.step) {
        case Step::select: {
            const double place = (*row.inputs)[static_cast<std::size_t>(node.array)].at(row.row, 0, row.columns);
            if (place >= 0 && place < static_cast<double>(x.size())) out[0] = x[static_cast<std::size_t>(place)];
            return;
        }
        case Step::move:
            for (std::size_t i = 0; i < out.size(); ++i)
                out[i] = x[static_cast<std::size_t>(
                    moved(node.move, static_cast<std::int64_t>(i), static_cast<std::int64_t>(out.size())).from)];
            return;
        default:
            out[0].linear = bounds[0];
    }
}

}  // namespace

void spread(const std::vector<Node>& nodes, const Row& row, const Columns<Wide>& values, const Columns<double>& bounds,
            const Arithmetic& a, Columns<Spread>& out) {
    out.resize(nodes.size());
    for (std::size_t n = 0; n < nodes.size(); ++n) {
        const Node& node = nodes[n];
        const std::vector<Wide>& z = values[n];
        out[n].assign(z.size(), {});
        if (node.step == Step::input) continue;
        if (node.step == Step::constant) {
            out[n][0].linear = bounds[n][0];
            continue;
        }
        if (node.step == Step::product) {
            for (std::size_t i = 0; i < z.size(); ++i)
                out[n][i] = {.linear = (*row.products)[i].mean, .own = (*row.products)[i].spread};
            continue;
        }
        const auto px = static_cast<std::size_t>(node.x), py = node.y < 0 ? px : static_cast<std::size_t>(node.y);
        if (node.step == Step::sum) {
            if (bounds[n][0] != 0) out[n][0] = sum_spread(node, values[px], out[px], a);
            continue;
        }
        if (node.step == Step::greatest || node.step == Step::least || node.step == Step::select ||
            node.step == Step::move) {
            placed_spread(node, row, out[px], bounds[n], out[n]);
            continue;
        }
        const auto operand = [&](std::size_t p, std::size_t i) {
            return nodes[p].is_row && !node.is_row ? as_shared(out[p][0], bounds[p][0])
                                                   : out[p][nodes[p].is_row ? 0 : i];
        };
        for (std::size_t i = 0; i < z.size(); ++i) {
            if (!std::isfinite(z[i].high) || bounds[n][i] == 0) continue;
            const double x = values[px][nodes[px].is_row ? 0 : i].high, y = values[py][nodes[py].is_row ? 0 : i].high;
            const Slopes slope = slopes_of(node, x, y, z[i].high);
            out[n][i] = element_spread(node, row, operand(px, i), node.y < 0 ? Spread{} : operand(py, i), slope, x, y,
                                       z[i].high, a);
        }
    }
}

}  // namespace macheps::check
