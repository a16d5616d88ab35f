// SPDX-License-Identifier: Apache-2.0
// How far errors spread: a number's error is a linear functional of the independent roundings before it, and what counts is
// the norm of its coefficients. Norms of operands that may share roundings add (Minkowski), and those of roundings that
// no two elements share add by squares.
#include "experiments/check/nodes.hpp"

#include <algorithm>

namespace macheps::check {

namespace {

/// The absolute derivatives of a step.
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
            return {std::fabs(z / x) / 2, 0};
        default:
            return {1, 0};
    }
}

double hypotenuse(double x, double y) { return sqrt(x * x + y * y); }

/// A row's number as its elements see it: they share all of it.
Spread as_shared(const Spread& row, double certain) {
    return {.linear = row.linear, .own = 0, .shared = row.own + row.shared, .common = certain};
}

Spread element_spread(const Node& node, const Row& row, const Spread& x, const Spread& y, Slopes slope, double vx,
                      double vy, double z, const Arithmetic& a) {
    const double size = std::fabs(z), argument = 2 * a.unit_roundoff * std::fabs(vx);
    Spread s{.linear = slope.x * x.linear + slope.y * y.linear,
             .own = slope.x * x.own + slope.y * y.own,
             .shared = slope.x * x.shared + slope.y * y.shared,
             .common = slope.x * x.common + slope.y * y.common};
    double local = 0;
    switch (node.step) {
        case Step::either:
            return {std::max(x.linear, y.linear), std::max(x.own, y.own), std::max(x.shared, y.shared),
                    std::max(x.common, y.common)};
        // The errors of a function are its own, but nothing says that they are of both signs.
        case Step::exponential:
            s.linear += size * a.exponential;
            local = size * argument;
            break;
        case Step::logarithm:
            s.linear += size * a.logarithm;
            break;
        case Step::inverse_root:
            s.linear += size * a.inverse_root;
            break;
        case Step::round:
            local = half_ulp(node.format, z);
            break;
        case Step::accumulate:
            s.linear += row.addend_mean * std::fabs(vy);
            local = row.addend_spread * std::fabs(vy) + a.unit_roundoff * size;
            break;
        default:
            local = node.roundings * a.unit_roundoff * size;
    }
    s.own = hypotenuse(s.own, local);
    return s;
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
    const double additions = count > 0 ? static_cast<double>(count - 1) : 0, all = additions * a.unit_roundoff;
    squares += additions * a.unit_roundoff * a.unit_roundoff * magnitudes * magnitudes;
    // Of sums so long that addends fall below half a unit of the sum, roundings have a mean.
    s.linear += all * std::min(1.0, all / 2) * magnitudes;
    s.own = sqrt(squares);
    return s;
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
            out[n][0] = sum_spread(node, values[px], out[px], a);
            continue;
        }
        if (node.step == Step::greatest) {
            out[n][0].linear = bounds[n][0];
            continue;
        }
        const auto operand = [&](std::size_t p, std::size_t i) {
            return nodes[p].is_row && !node.is_row ? as_shared(out[p][0], bounds[p][0])
                                                   : out[p][nodes[p].is_row ? 0 : i];
        };
        for (std::size_t i = 0; i < z.size(); ++i) {
            if (!std::isfinite(z[i].high)) continue;
            const double x = values[px][nodes[px].is_row ? 0 : i].high, y = values[py][nodes[py].is_row ? 0 : i].high;
            const Slopes slope = slopes_of(node, x, y, z[i].high);
            out[n][i] = element_spread(node, row, operand(px, i), node.y < 0 ? Spread{} : operand(py, i), slope, x, y,
                                       z[i].high, a);
        }
    }
}

}  // namespace macheps::check
