// SPDX-License-Identifier: Apache-2.0
// Certain bounds: midpoint-radius inclusion on the list of nodes. With u the unit roundoff and Ex, Ey the operands' bounds,
// every step keeps first and second order terms, and rounds its bound up.
#include "core/ulp.hpp"
#include "experiments/check/nodes.hpp"

#include <algorithm>
#include <limits>

namespace macheps::check {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double upward = 1 + 0x1p-40;  // of a few fp64 operations, each with an error below 2^-53

struct Operand {
    double value = 0, bound = 0;
};

/// What the operands' errors become, before the step's own roundings; `z` is the step's exact value.
double carried(const Node& node, double addend, Operand x, Operand y, double z) {
    const double ax = std::fabs(x.value), ay = std::fabs(y.value);
    switch (node.step) {
        case Step::add:
        case Step::subtract:
            return x.bound + y.bound;
        case Step::accumulate:
            return x.bound + y.bound + addend * (ay + y.bound);
        case Step::multiply:
            return ax * y.bound + ay * x.bound + x.bound * y.bound;
        case Step::divide:
            return ay > y.bound ? (x.bound + std::fabs(z) * y.bound) / (ay - y.bound) : infinite;
        case Step::either:
            return std::max(x.bound, y.bound);
        case Step::inverse_root: {
            // |1/sqrt(x) - 1/sqrt(x')| is greatest at x - Ex, where it is z (1/sqrt(1 - r) - 1).
            const double r = x.bound / ax;
            return r < 1 ? std::fabs(z) * r / (sqrt(1 - r) * (1 + sqrt(1 - r))) : infinite;
        }
        case Step::logarithm: {
            const double r = x.bound / ax;
            return r < 0.5 ? r / (1 - r) : infinite;
        }
        case Step::exponential:
            return std::fabs(z) * x.bound * (1 + x.bound);  // e^E - 1 <= E (1 + E) for E <= 1
        default:
            return x.bound;
    }
}

/// What the step itself rounds away from a value of at most `size`.
double made(const Node& node, const Arithmetic& a, double size, Operand x) {
    switch (node.step) {
        case Step::either:
            return 0;
        case Step::round:
            return half_ulp(node.format, size);
        case Step::exponential: {
            // Two more roundings of the argument where it is e^x = 2^(x log2 e).
            const double argument = a.is_reference ? 0 : 2 * a.unit_roundoff * (std::fabs(x.value) + x.bound);
            return size * (a.exponential + argument * (1 + argument)) + a.least;
        }
        case Step::logarithm:
            return size * a.logarithm + a.least;
        case Step::inverse_root:
            return size * a.inverse_root;
        default:
            return node.roundings * (a.unit_roundoff * size + a.least);
    }
}

double element_bound(const Node& node, const Row& row, Operand x, Operand y, double z, const Arithmetic& a) {
    if (!std::isfinite(z)) return 0;  // NaN and infinities are judged as such
    if (node.step == Step::exponential && z == 0) return a.least;
    const double addend = a.is_reference ? 0 : row.addend_certain;  // the reference adds it behind its sum
    const double before = carried(node, addend, x, y, z), size = std::fabs(z) + before;
    // Zero operands give zeros, and there is nothing to round.
    if (size == 0) return 0;
    if (node.step == Step::exponential && x.bound + 2 * a.unit_roundoff * std::fabs(x.value) > 1) return infinite;
    const double bound = (before + made(node, a, size, x)) * upward;
    return std::fabs(z) + bound < a.overflow ? bound : infinite;
}

double sum_bound(const Node& node, const std::vector<Wide>& x, const std::vector<double>& bounds, const Arithmetic& a) {
    double errors = 0, magnitudes = 0;
    const std::size_t count = x.size() - std::min(x.size(), static_cast<std::size_t>(node.skipped));
    for (std::size_t i = 0; i < count; ++i) {
        if (!std::isfinite(x[i].high)) continue;
        errors += bounds[i];
        magnitudes += std::fabs(x[i].high) + bounds[i];
    }
    const double additions = count > 0 ? static_cast<double>(count - 1) : 0;
    if (magnitudes >= a.overflow) return infinite;
    // The sums here have errors too: of count additions of positive numbers in fp64.
    return (errors + additions * (a.unit_roundoff * magnitudes)) * (1 + (additions + 4) * 0x1p-52) * upward;
}

}  // namespace

double half_ulp(const Format& format, double x) {
    const double magnitude = std::fabs(x);
    if (std::isinf(magnitude)) return std::isinf(x) ? infinite : 0;
    return ulp(format, magnitude) / 2;
}

void bound(const std::vector<Node>& nodes, const Row& row, const Columns<Wide>& values, const Arithmetic& a,
           Columns<double>& out) {
    out.resize(nodes.size());
    for (std::size_t n = 0; n < nodes.size(); ++n) {
        const Node& node = nodes[n];
        const std::vector<Wide>& z = values[n];
        out[n].assign(z.size(), 0);
        if (node.step == Step::input) continue;
        if (node.step == Step::constant) {
            // A kernel holds constants in its compute format; the reference has them as they were declared.
            const bool is_exact =
                a.is_reference || static_cast<double>(static_cast<float>(node.constant)) == node.constant;
            out[n][0] = is_exact ? 0 : a.unit_roundoff * std::fabs(node.constant);
            continue;
        }
        if (node.step == Step::product) {
            for (std::size_t i = 0; i < z.size(); ++i) {
                const ProductSum& product = (*row.products)[i];
                const double error = a.is_reference ? product.certificate : product.certain;
                out[n][i] = !std::isfinite(z[i].high)                   ? 0
                            : std::fabs(z[i].high) + error < a.overflow ? error
                                                                        : infinite;
            }
            continue;
        }
        const auto& x = values[static_cast<std::size_t>(node.x)];
        const auto& x_bounds = out[static_cast<std::size_t>(node.x)];
        if (node.step == Step::sum) {
            out[n][0] = std::isfinite(z[0].high) ? sum_bound(node, x, x_bounds, a) : 0;
        } else if (node.step == Step::greatest) {
            out[n][0] = *std::max_element(x_bounds.begin(), x_bounds.end());
        } else {
            const auto& y = node.y < 0 ? x : values[static_cast<std::size_t>(node.y)];
            const auto& y_bounds = node.y < 0 ? x_bounds : out[static_cast<std::size_t>(node.y)];
            for (std::size_t i = 0; i < z.size(); ++i) {
                const std::size_t p = x.size() == 1 ? 0 : i, q = y.size() == 1 ? 0 : i;
                const double bound =
                    element_bound(node, row, {x[p].high, x_bounds[p]}, {y[q].high, y_bounds[q]}, z[i].high, a);
                out[n][i] = std::isnan(bound) ? infinite : bound;
            }
        }
    }
}

}  // namespace macheps::check
