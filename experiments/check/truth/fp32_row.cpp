// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/truth/fp32_row.hpp"

#include "core/codec.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace macheps::check {

namespace {

using Floats = std::vector<float>;

// --- sums

/// Adds two numbers in fp32. If the accumulator's format is narrower than fp32, rounds the sum again to that format.
struct Addition {
    explicit Addition(const SumOrder& order) : is_narrow(order.is_narrow()), format(order.accumulator) {}

    float operator()(float x, float y) const { return is_narrow ? narrow(x + y) : x + y; }
    float narrow(float x) const {
        return static_cast<float>(
            decode64(format, encode64(format, static_cast<double>(x), Round::nearest_even, Overflow::nonsaturate)));
    }

    bool is_narrow;
    Format format;
};

float sum_of_chain(std::span<const float> x, const Addition& add) {
    float sum = 0;
    for (const float term : x) sum = add(sum, term);
    return sum;
}

float sum_by_halves(std::span<const float> x, const Addition& add) {
    if (x.size() == 1) return x.front();
    const std::size_t half = std::bit_floor(x.size() - 1);
    return add(sum_by_halves(x.first(half), add), sum_by_halves(x.subspan(half), add));
}

float sum_of_lanes(std::span<const float> x, std::int64_t width, const Addition& add) {
    Floats lanes(static_cast<std::size_t>(width));
    for (std::size_t i = 0; i < x.size(); ++i) lanes[i % lanes.size()] = add(lanes[i % lanes.size()], x[i]);
    if (!std::has_single_bit(lanes.size())) return sum_by_halves(lanes, add);
    for (std::size_t half = lanes.size() / 2; half > 0; half /= 2) {
        for (std::size_t i = 0; i < half; ++i) lanes[i] = add(lanes[i], lanes[i + half]);
    }
    return lanes.front();
}

float sum_of_blocks(std::span<const float> x, std::int64_t width, const Addition& add) {
    Floats blocks;
    for (std::size_t first = 0; first < x.size(); first += static_cast<std::size_t>(width))
        blocks.push_back(
            sum_of_chain(x.subspan(first, std::min(static_cast<std::size_t>(width), x.size() - first)), add));
    return sum_by_halves(blocks, add);
}

float compensated_sum(std::span<const float> x) {
    float sum = 0, error = 0;
    for (const float term : x) {
        const float y = term - error, next = sum + y;
        error = (next - sum) - y;
        sum = next;
    }
    return sum;
}

// --- roundings

float in_format(const Format& format, Round rounding, float x) {
    return static_cast<float>(
        decode64(format, encode64(format, static_cast<double>(x), rounding, Overflow::nonsaturate)));
}

float constant_of(const Node& node) { return nearest_float({node.constant, node.constant_low}); }

void read(const Input& input, const Row& row, Floats& out) {
    for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = static_cast<float>(input.at(row.row, row.first + static_cast<std::int64_t>(i), row.columns));
}
float extreme_of(const Floats& x, bool is_least) {
    float most = x.front();
    for (const float one : x) {
        if (std::isnan(one)) return one;
        if (is_least ? one < most : one > most) most = one;
    }
    return most;
}

}  // namespace

float sum_in_order(std::span<const float> x, const SumOrder& order) {
    if (x.empty()) return 0;
    const Addition add(order);
    switch (order.shape) {
        case SumShape::pairwise:
            return sum_by_halves(x, add);
        case SumShape::lanes:
            return sum_of_lanes(x, order.width, add);
        case SumShape::blocks:
            return sum_of_blocks(x, order.width, add);
        case SumShape::kahan:
            return compensated_sum(x);
        default:
            return sum_of_chain(x, add);
    }
}

/// Returns high + low, rounded once to float. If `high` is the midpoint of two floats, `low` decides.
float nearest_float(Wide x) {
    const auto y = static_cast<float>(x.high);
    const double off = x.high - static_cast<double>(y);
    if (off == 0 || !std::isfinite(y) || x.low == 0) return y;
    const float next =
        std::nextafter(y, off > 0 ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity());
    const double rest = static_cast<double>(next) - x.high;
    if (std::fabs(rest) != std::fabs(off)) return y;
    return (x.low > 0) == (off > 0) ? next : y;
}

float FunctionRounding::operator()(Wide x, double relative) {
    const double width = std::fabs(x.high) * relative;
    if (!(width > 0) || !std::isfinite(width)) return nearest_float(x);
    const float below = nearest_float(settled(x.high, x.low - width)),
                above = nearest_float(settled(x.high, x.low + width));
    if (below == above) return below;
    ++undecided;
    return goes_up ? above : below;
}

template <class Function>
void Fp32Row::each(const Node& node, Floats& out, Function function) const {
    const Floats &x = at(node.x), &y = at(node.y < 0 ? node.x : node.y);
    const std::size_t by_x = x.size() == 1 ? 0 : 1, by_y = y.size() == 1 ? 0 : 1;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = function(x[i * by_x], y[i * by_y]);
}

template <class Function>
void Fp32Row::function(const Node& node, Floats& out, Function wide) {
    const double relative = own_.of(*function_of(node.step)).relative;
    each(node, out, [&](float x, float) { return functions_(wide(Wide{static_cast<double>(x), 0}), relative); });
}

void Fp32Row::move(const Node& node, Floats& out) const {
    for (std::size_t i = 0; i < out.size(); ++i) {
        const Moved from = moved(node.move, static_cast<std::int64_t>(i), static_cast<std::int64_t>(out.size()));
        const float one = at(node.x)[static_cast<std::size_t>(from.from)];
        out[i] = from.is_negative ? -one : one;
    }
}

float Fp32Row::sum(const Node& node) {
    const Floats& x = at(node.x);
    SumOrder order = node.order;
    if (order.shape == SumShape::any) order.shape = order_.shape, order.width = order_.width;
    if (!backwards_ || node.order.shape != SumShape::any) return sum_in_order(x, order);
    reversed_.assign(x.rbegin(), x.rend());
    return sum_in_order(reversed_, order);
}

void Fp32Row::step(const Node& node, const Row& row, const Floats& products, Floats& out) {
    switch (node.step) {
        case Step::input:
            return read((*row.inputs)[static_cast<std::size_t>(node.array)], row, out);
        case Step::product:
            std::copy_n(products.begin(), out.size(), out.begin());
            return;
        case Step::constant:
            out[0] = constant_of(node);
            return;
        case Step::sum:
            out[0] = sum(node);
            return;
        case Step::greatest:
        case Step::least:
            out[0] = extreme_of(at(node.x), node.step == Step::least);
            return;
        case Step::select: {
            const double place = number_of(node, row);
            const Floats& x = at(node.x);
            const bool is_there = place >= 0 && place < static_cast<double>(x.size());
            out[0] = is_there ? x[static_cast<std::size_t>(place)] : 0;
            return;
        }
        case Step::keep:
            if (number_of(node, row) == node.constant)
                std::fill(out.begin(), out.end(), 0.0f);
            else
                out = at(node.x);
            return;
        case Step::move:
            return move(node, out);
        default:
            return numbers(node, out);
    }
}

/// Evaluates a step that is a function of one or two numbers, for each element.
void Fp32Row::numbers(const Node& node, Floats& out) {
    switch (node.step) {
        case Step::add:
        case Step::accumulate:
            return each(node, out, [](float x, float y) { return x + y; });
        case Step::subtract:
            return each(node, out, [](float x, float y) { return x - y; });
        case Step::multiply:
            return each(node, out, [](float x, float y) { return x * y; });
        case Step::divide:
            return each(node, out, [](float x, float y) { return x / y; });
        case Step::larger:
            return each(node, out, [](float x, float y) { return std::isnan(x) || x > y ? x : y; });
        case Step::absolute:
            return each(node, out, [](float x, float) { return std::fabs(x); });
        case Step::root:
            return each(node, out, [](float x, float) { return std::sqrt(x); });
        case Step::exponential:
            return function(node, out, [](Wide x) { return exponential(x); });
        case Step::logarithm:
            return function(node, out, [](Wide x) { return logarithm(x); });
        case Step::inverse_root:
            return function(node, out, [](Wide x) { return inverse_root(x); });
        case Step::tangent:
            return function(node, out, [](Wide x) { return hyperbolic_tangent(x); });
        case Step::error:
            return function(node, out, [](Wide x) { return error_function(x); });
        case Step::sigmoid: {
            // A kernel computes a sigmoid in three rounded steps: the exponential, the sum and the quotient.
            function(node, out, [](Wide x) { return exponential(-x); });
            for (float& e : out) e = 1 / (1 + e);
            return;
        }
        case Step::round:
        case Step::convert:
            return each(node, out, [&](float x, float) { return in_format(node.format, node.rounding, x); });
        default:  // `either` and `slack` return their first operand
            return each(node, out, [](float x, float) { return x; });
    }
}

const Fp32Row::Floats& Fp32Row::run(const Row& row, const Floats& products, const SumOrder& order, bool backwards) {
    functions_.undecided = 0;
    order_ = order;
    backwards_ = backwards;
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
        values_[n].resize(nodes_[n].is_row ? 1 : static_cast<std::size_t>(row.count));
        step(nodes_[n], row, products, values_[n]);
    }
    return values_.back();
}

}  // namespace macheps::check
