// SPDX-License-Identifier: Apache-2.0
#include "core/codec.hpp"
#include "experiments/check/truth/nodes.hpp"
#include "experiments/check/truth/rounding_to.hpp"
#include "experiments/check/truth/wide_steps.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>

namespace macheps::check {

namespace {

using Wides = std::vector<Wide>;

/// Computes out[i] = function(x[i], y[i]). If x or y has a single element, this element is used for every i.
template <class Function>
void each(const Wides& x, const Wides& y, Wides& out, Function function) {
    const std::size_t by_x = x.size() == 1 ? 0 : 1, by_y = y.size() == 1 ? 0 : 1, count = out.size();
    for (std::size_t i = 0; i < count; ++i) out[i] = function(x[i * by_x], y[i * by_y]);
}

bool is_less(Wide x, Wide y) { return x.high < y.high || (x.high == y.high && x.low < y.low); }

/// Returns the maximum or minimum of a row, or NaN if an element is NaN.
Wide extreme_of(const Wides& x, const Node& node) {
    const bool is_least = node.step == Step::least;
    const auto skipped = std::min(static_cast<std::ptrdiff_t>(node.skipped), static_cast<std::ptrdiff_t>(x.size()) - 1);
    Wide most = node.start ? Wide{*node.start, 0} : x.front();
    for (const Wide& one : std::span(x.begin(), x.end() - skipped)) {
        if (std::isnan(one.high)) return one;
        if (is_least ? is_less(one, most) : is_less(most, one)) most = one;
    }
    return most;
}

Wide converted(Wide x, const Format& format, Round rounding) {
    if (format == fp32 && rounding == Round::nearest_even) return {static_cast<float>(x.high), 0};
    return {decode64(format, encode64(format, x.high, rounding, Overflow::nonsaturate)), 0};
}

/// Returns the exact sum. For narrow sums, which only wrong kernels use, it returns the sum of a chain that is rounded
/// to the accumulator's format after every addition.
Wide sum_of(const Wides& x, const Node& node, const WideSteps& steps) {
    const std::size_t count = x.size() - std::min(x.size(), static_cast<std::size_t>(node.skipped));
    if (!node.is_narrow_sum) return steps.sum(x.data(), count);
    Wide total{};
    const NearestNormal nearest(node.order.accumulator);
    for (std::size_t i = 0; i < count; ++i) {
        const double sum = (total + x[i]).high;
        if (!nearest.round(sum, total.high)) total = converted({sum, 0}, node.order.accumulator, Round::nearest_even);
    }
    return total;
}

/// The state of Welford's algorithm (1962) in fp32, which is updated with each x.
struct Running {
    float mean = 0, squares = 0;
};
Running running_of(const Wides& x) {
    Running r;
    float count = 0;
    for (const Wide& one : x) {
        const float value = static_cast<float>(one.high), step = value - r.mean;
        count += 1;
        r.mean += step / count;
        r.squares += step * (value - r.mean);
    }
    return r;
}

/// Adds an error to each value of a function: the largest error that the vendor's table allows. The sign of the error
/// depends on the bits of x.
void put_off(const Node& node, const Wides& x, Wides& out) {
    for (std::size_t i = 0; i < out.size(); ++i) {
        const double at = x[x.size() == 1 ? 0 : i].high, z = out[i].high;
        const bool is_up = std::popcount(bit_cast<std::uint64_t>(at)) % 2 == 0;
        double error = (node.off.ulps + node.off.per_argument * std::fabs(at)) * 0x1p-23 * std::fabs(z);
        // For a sigmoid, the table gives the error of e^-x. The relative error of 1 / (1 + e^-x) is smaller by the
        // factor e^-x / (1 + e^-x) = 1 - z.
        if (node.step == Step::sigmoid) error *= 1 - z;
        error = std::max(error, node.off.absolute);
        if (std::isfinite(z) && std::isfinite(error)) out[i] = Wide{z, 0} + Wide{is_up ? error : -error, 0};
    }
}

/// Reads the elements of an array that belong to a row.
void read_input(const Input& input, const Row& row, Wides& out) {
    const std::int64_t columns = row.columns;
    if (input.axis == Axis::row || input.axis == Axis::whole) {
        std::fill(out.begin(), out.end(), Wide{input.at(row.row, 0, columns), 0});
        return;
    }
    const std::int64_t from = input.axis == Axis::column     ? 0
                              : input.axis == Axis::gathered ? input.rows[static_cast<std::size_t>(row.row)]
                                                             : row.row;
    const auto first = static_cast<std::size_t>(from * columns + row.first);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = {input.values[first + i], 0};
}

/// Computes a step that is not elementwise. Returns false, without computing anything, if the step is elementwise.
bool is_placed(const Node& node, const Row& row, const Columns<Wide>& values, Wides& out, const WideSteps& steps) {
    const Wides* x = node.x < 0 ? nullptr : &values[static_cast<std::size_t>(node.x)];
    switch (node.step) {
        case Step::constant:
            out[0] = {node.constant, node.constant_low};
            return true;
        case Step::input:
            read_input((*row.inputs)[static_cast<std::size_t>(node.array)], row, out);
            return true;
        case Step::product:
            for (std::size_t i = 0; i < out.size(); ++i) out[i] = (*row.products)[i].sum;
            return true;
        case Step::sum:
            out[0] = sum_of(*x, node, steps);
            return true;
        case Step::greatest:
        case Step::least:
            out[0] = extreme_of(*x, node);
            return true;
        case Step::welford_mean:
            out[0] = {running_of(*x).mean, 0};
            return true;
        case Step::welford_variance:
            out[0] = {running_of(*x).squares / static_cast<float>(x->size()), 0};
            return true;
        case Step::select: {
            const double place = number_of(node, row);
            out[0] =
                place >= 0 && place < static_cast<double>(x->size()) ? (*x)[static_cast<std::size_t>(place)] : Wide{};
            return true;
        }
        case Step::keep:
            if (number_of(node, row) == node.constant)
                std::fill(out.begin(), out.end(), Wide{});
            else
                out = *x;
            return true;
        case Step::move:
            for (std::size_t i = 0; i < out.size(); ++i) {
                const Moved from =
                    moved(node.move, static_cast<std::int64_t>(i), static_cast<std::int64_t>(out.size()));
                const Wide one = (*x)[static_cast<std::size_t>(from.from)];
                out[i] = from.is_negative ? -one : one;
            }
            return true;
        default:
            return false;
    }
}

void compute(const Node& node, const Wides& x, const Wides& y, Wides& out, const WideSteps& steps) {
    const WideRow a{x.data(), x.size() == 1}, b{y.data(), y.size() == 1};
    const auto function = [&](WideSteps::One step) {
        // If x is a single number for the whole row, the function is computed once and the result is copied.
        if (!a.is_one) return step(x.data(), out.data(), out.size());
        step(x.data(), out.data(), 1);
        std::fill(out.begin() + 1, out.end(), out.front());
    };
    switch (node.step) {
        case Step::add:
        case Step::accumulate:
            return steps.add(a, b, out.data(), out.size());
        case Step::subtract:
            return steps.subtract(a, b, out.data(), out.size());
        case Step::multiply:
            steps.multiply(a, b, out.data(), out.size());
            // If a product is -0, the sum of its two parts is +0. The product of the high parts has the correct sign.
            return each(x, y, out, [at = out.data()](Wide a, Wide b) mutable {
                const Wide product = *at++;
                return product.high == 0 ? Wide{a.high * b.high, 0} : product;
            });
        case Step::divide:
            return steps.divide(a, b, out.data(), out.size());
        case Step::exponential:
            return function(steps.exponential);
        case Step::tangent:
            return function(steps.tangent);
        case Step::error:
            return function(steps.error);
        case Step::sigmoid:
            return function(steps.sigmoid);
        case Step::larger:
            return each(x, y, out, [](Wide a, Wide b) {
                return std::isnan(a.high) ? a : std::isnan(b.high) || is_less(a, b) ? b : a;
            });
        case Step::logarithm:
            return each(x, x, out, [](Wide a, Wide) { return logarithm(a); });
        case Step::inverse_root:
            return each(x, x, out, [](Wide a, Wide) { return inverse_root(a); });
        case Step::root:
            return each(x, x, out, [](Wide a, Wide) { return square_root(a); });
        case Step::absolute:
            return each(x, x, out, [](Wide a, Wide) { return std::signbit(a.high) ? -a : a; });
        case Step::convert:
            return each(x, x, out, [&](Wide a, Wide) { return converted(a, node.format, node.rounding); });
        default:  // either and round: the exact value is that of x
            return each(x, x, out, [](Wide a, Wide) { return a; });
    }
}

}  // namespace

void reference(const std::vector<Node>& nodes, const Row& row, Columns<Wide>& out) {
    static const WideSteps& steps = wide_steps(chosen_simd());
    out.resize(nodes.size());
    for (std::size_t n = 0; n < nodes.size(); ++n) {
        const Node& node = nodes[n];
        out[n].resize(node.is_row ? 1 : static_cast<std::size_t>(row.count));
        if (is_placed(node, row, out, out[n], steps)) continue;
        const Wides& x = out[static_cast<std::size_t>(node.x)];
        compute(node, x, node.y < 0 ? x : out[static_cast<std::size_t>(node.y)], out[n], steps);
        if (node.off.ulps > 0) put_off(node, x, out[n]);
    }
}

void Nodes::make_functions(const FunctionTable& table, const FunctionTable& than) {
    for (std::size_t i = 0; i < function_count; ++i) {
        if (is_looser(table, than, static_cast<Function>(i))) off_[i] = table.functions[i];
    }
}

Arithmetic reference_arithmetic() {
    constexpr Accuracy own{.relative = 0x1p-51}, wide{.relative = 0x1p-96};
    return {.unit_roundoff = 0x1p-100,
            .least = 0x1p-1022,
            .overflow = 0x1p1023,
            .functions = {own, own, wide, wide, {.relative = 0x1p-49}, {.relative = 0x1p-47}, {.relative = 0x1p-100}},
            .is_reference = true};
}

Arithmetic kernel_arithmetic(const FunctionTable& table) {
    Arithmetic arithmetic;
    for (std::size_t i = 0; i < function_count; ++i) {
        const Ulps& ulps = table.functions[i];
        // An ulp of fp32 is at most 2^-23 times a normal value, and is 2^-149 at subnormal values. The sum of both
        // terms covers all values.
        arithmetic.functions[i] = {ulps.ulps * 0x1p-23, ulps.per_argument * 0x1p-23,
                                   ulps.absolute + ulps.ulps * 0x1p-149};
    }
    return arithmetic;
}

}  // namespace macheps::check
