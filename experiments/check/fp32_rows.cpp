// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/fp32_rows.hpp"

#include "core/codec.hpp"
#include "experiments/check/declare.hpp"
#include "experiments/check/interpret.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

namespace macheps::check {

namespace {

using Floats = std::vector<float>;

// --- sums

float sum_of_chain(std::span<const float> x) {
    float sum = 0;
    for (const float term : x) sum += term;
    return sum;
}

float sum_by_halves(std::span<const float> x) {
    if (x.size() == 1) return x.front();
    const std::size_t half = std::bit_floor(x.size() - 1);
    return sum_by_halves(x.first(half)) + sum_by_halves(x.subspan(half));
}

float sum_of_lanes(std::span<const float> x, std::int64_t width) {
    Floats lanes(static_cast<std::size_t>(width));
    for (std::size_t i = 0; i < x.size(); ++i) lanes[i % lanes.size()] += x[i];
    for (std::size_t half = lanes.size() / 2; half > 0; half /= 2) {
        for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    return lanes.front();
}

float sum_of_blocks(std::span<const float> x, std::int64_t width) {
    Floats blocks;
    for (std::size_t first = 0; first < x.size(); first += static_cast<std::size_t>(width))
        blocks.push_back(sum_of_chain(x.subspan(first, std::min(static_cast<std::size_t>(width), x.size() - first))));
    return sum_by_halves(blocks);
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

float sum_of(std::span<const float> x, const SumOrder& order) {
    if (x.empty()) return 0;
    switch (order.shape) {
        case SumShape::pairwise:
            return sum_by_halves(x);
        case SumShape::lanes:
            return sum_of_lanes(x, order.width);
        case SumShape::blocks:
            return sum_of_blocks(x, order.width);
        case SumShape::kahan:
            return compensated_sum(x);
        default:
            return sum_of_chain(x);
    }
}

// --- roundings

/// high + low, rounded once: fp64's rounding of it may lie on the middle of two floats, and `low` decides there.
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

/// Roundings of functions that are known to some digits only. Where those do not say which of two floats is nearest, it is
/// the lower one or the greater one, and counted.
struct FunctionRounding {
    bool goes_up = false;
    std::int64_t undecided = 0;

    float operator()(Wide x, double relative) {
        const double width = std::fabs(x.high) * relative;
        if (!(width > 0) || !std::isfinite(width)) return nearest_float(x);
        const float below = nearest_float(settled(x.high, x.low - width)),
                    above = nearest_float(settled(x.high, x.low + width));
        if (below == above) return below;
        ++undecided;
        return goes_up ? above : below;
    }
};

float in_format(const Format& format, Round rounding, float x) {
    return static_cast<float>(
        decode64(format, encode64(format, static_cast<double>(x), rounding, Overflow::nonsaturate)));
}

// --- the list

/// One row of a list in fp32.
class Fp32Row {
  public:
    Fp32Row(const std::vector<Node>& nodes, bool goes_up) : nodes_(nodes), values_(nodes.size()) {
        functions_.goes_up = goes_up;
    }

    /// The last node's numbers. `products`: of a list that goes on from the results of all rows.
    const Floats& run(const Row& row, const Floats& products) {
        functions_.undecided = 0;
        for (std::size_t n = 0; n < nodes_.size(); ++n) {
            values_[n].resize(nodes_[n].is_row ? 1 : static_cast<std::size_t>(row.count));
            step(nodes_[n], row, products, values_[n]);
        }
        return values_.back();
    }
    std::int64_t undecided() const { return functions_.undecided; }

  private:
    const Floats& at(int node) const { return values_[static_cast<std::size_t>(node)]; }

    template <class Function>
    void each(const Node& node, Floats& out, Function function) const {
        const Floats &x = at(node.x), &y = at(node.y < 0 ? node.x : node.y);
        const std::size_t by_x = x.size() == 1 ? 0 : 1, by_y = y.size() == 1 ? 0 : 1;
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = function(x[i * by_x], y[i * by_y]);
    }
    template <class Function>
    void function(const Node& node, Floats& out, Function wide) {
        const double relative = own_.of(*function_of(node.step)).relative;
        each(node, out, [&](float x, float) { return functions_(wide(Wide{static_cast<double>(x), 0}), relative); });
    }
    static double number_of(const Node& node, const Row& row) {
        return (*row.inputs)[static_cast<std::size_t>(node.array)].at(row.row, 0, row.columns);
    }
    static float constant_of(const Node& node) { return nearest_float({node.constant, node.constant_low}); }

    static void read(const Input& input, const Row& row, Floats& out) {
        for (std::size_t i = 0; i < out.size(); ++i)
            out[i] = static_cast<float>(input.at(row.row, static_cast<std::int64_t>(i), row.columns));
    }
    static float extreme_of(const Floats& x, bool is_least) {
        float most = x.front();
        for (const float one : x) {
            if (std::isnan(one)) return one;
            if (is_least ? one < most : one > most) most = one;
        }
        return most;
    }
    void move(const Node& node, Floats& out) const {
        for (std::size_t i = 0; i < out.size(); ++i) {
            const Moved from = moved(node.move, static_cast<std::int64_t>(i), static_cast<std::int64_t>(out.size()));
            const float one = at(node.x)[static_cast<std::size_t>(from.from)];
            out[i] = from.is_negative ? -one : one;
        }
    }

    void step(const Node& node, const Row& row, const Floats& products, Floats& out) {
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
                out[0] = sum_of(at(node.x), node.order);
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

    /// Steps that are a function of one or two numbers.
    void numbers(const Node& node, Floats& out) {
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
                // Three steps in a kernel: the exponential, the sum, the quotient.
                function(node, out, [](Wide x) { return exponential(-x); });
                for (float& e : out) e = 1 / (1 + e);
                return;
            }
            case Step::round:
            case Step::convert:
                return each(node, out, [&](float x, float) { return in_format(node.format, node.rounding, x); });
            default:  // of either, and of slack, the first
                return each(node, out, [](float x, float) { return x; });
        }
    }

    const std::vector<Node>& nodes_;
    std::vector<Floats> values_;
    FunctionRounding functions_{};
    Arithmetic own_ = reference_arithmetic();
};

// --- claims

[[noreturn]] void decline(std::string what, const char* where) { throw Declined(std::move(what), where); }

void require_exact(const FunctionTable& table, Function function) {
    const Ulps& ulps = table.of(function);
    if (ulps.ulps == 0.5 && ulps.per_argument == 0 && ulps.absolute == 0) return;
    decline(fmt::format("a function decides bits where it is rounded correctly, and {} is within {:g} ulp",
                        function_names[static_cast<std::size_t>(function)], ulps.ulps),
            "bits (declare functions = exact)");
}

void require_steps(const std::vector<Node>& nodes, const FunctionTable& table) {
    for (const Node& node : nodes) {
        if (const auto function = function_of(node.step)) require_exact(table, *function);
        if (node.step == Step::divide || node.step == Step::sigmoid) require_exact(table, Function::quotient);
        if (node.step != Step::sum) continue;
        if (node.order.shape == SumShape::any) decline("the order of a row's sums decides bits", "bits (sum = any)");
        if (node.order.is_narrow())
            decline("how terms come to a narrow sum decides bits, and no order says it", "bits (sum)");
        if (node.order.shape == SumShape::lanes && !std::has_single_bit(static_cast<std::uint64_t>(node.order.width)))
            decline("lanes fold by halves: their number is a power of two", "bits (sum)");
    }
}

void require_claim(const Problem& problem) {
    const Declaration& d = problem.declaration;
    if (d.operation->gives_index) decline("of equal numbers any place is right", "bits");
    if (d.rounding == Round::stochastic) decline("random roundings have no bits of their own", "bits (rounding)");
    if (d.block > 0) decline("the order of a softmax in blocks is not said", "bits (block)");
    if (d.has_one_pass_variance || d.has_running_variance)
        decline("of a variance only two passes have bits", "bits (variance)");
    for (const Input& input : problem.inputs) {
        const bool is_held = std::all_of(input.values.begin(), input.values.end(), [](double x) {
            return std::isnan(x) || static_cast<double>(static_cast<float>(x)) == x;
        });
        if (!is_held) decline(fmt::format("{} has numbers that fp32 does not hold", input.name), "bits");
    }
}

/// The results of a list with every undecided rounding of a function down, and up; equal where all are decided.
struct BothWays {
    Floats lower{}, upper{};
    std::atomic<std::int64_t> undecided{0};
    std::atomic<std::int64_t> open_row;  ///< the first in which two are undecided whose numbers meet; `rows`: none
    explicit BothWays(std::int64_t rows, std::size_t size) : lower(size), upper(size), open_row(rows) {}

    void open(std::int64_t row) {
        std::int64_t first = open_row;
        while (row < first && !open_row.compare_exchange_weak(first, row)) {
        }
    }
};

void run_rows(const Problem& problem, const std::vector<Node>& nodes, BothWays& ways, ThreadPool& pool) {
    const auto count = static_cast<std::size_t>(problem.is_one_per_row() ? 1 : problem.columns);
    const std::int64_t step = rows_per_task(problem);
    pool.run((problem.rows + step - 1) / step, [&](std::int64_t task) {
        Fp32Row down(nodes, false), up(nodes, true);
        for (std::int64_t r = task * step; r < std::min(problem.rows, (task + 1) * step); ++r) {
            const Row row{.row = r, .columns = problem.columns, .count = problem.columns, .inputs = &problem.inputs};
            const auto to = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(r) * count);
            const Floats& low = down.run(row, {});
            std::copy_n(low.begin(), count, ways.lower.begin() + to);
            const Floats& high = down.undecided() == 0 ? low : up.run(row, {});
            std::copy_n(high.begin(), count, ways.upper.begin() + to);
            ways.undecided += down.undecided();
            // Of two in one sum there are four ways.
            if (problem.declaration.operation->has_reduction && down.undecided() > 1) ways.open(r);
        }
    });
}

/// The list that goes on from the results of all rows.
void run_across(const Problem& problem, const FunctionTable& table, BothWays& ways) {
    const Defect none{};
    const Listing across = across_of(problem, problem.inputs, none);
    require_steps(across.nodes.list(), table);
    const Row row{.columns = problem.rows, .count = problem.rows, .inputs = &problem.inputs};
    Fp32Row list(across.nodes.list(), false);
    const float low = list.run(row, ways.lower).front(), high = list.run(row, ways.upper).front();
    ways.lower.assign(1, low);
    ways.upper.assign(1, high);
    // Sums rise with each of their terms: where both ends agree, so does what lies between them.
    if (ways.undecided > 1 && low != high) ways.open(0);
}

}  // namespace

MachineOutputs fp32_outputs(const Problem& problem, ThreadPool& pool) {
    const Declaration& d = problem.declaration;
    require_claim(problem);
    const FunctionTable table = find_functions(d.functions);
    const Defect none{};
    const Listing listing = listing_of(problem, problem.inputs, none);
    require_steps(listing.nodes.list(), table);
    const std::int64_t size = problem.is_one_per_row() ? problem.rows : problem.rows * problem.columns;
    BothWays ways(problem.rows, static_cast<std::size_t>(size));
    run_rows(problem, listing.nodes.list(), ways, pool);
    if (problem.is_reduced()) run_across(problem, table, ways);
    if (ways.open_row < problem.rows)
        decline(fmt::format("in row {} two functions lie as near to the middle of two floats as is known of them",
                            ways.open_row.load()),
                "bits");
    Limits stores;
    stores.format = problem.output;
    stores.saturates = d.saturates;
    stores.flushes = d.flushes;
    stores.rounding = d.rounding;
    const Storing stored(stores);
    MachineOutputs out{.before = std::move(ways.lower), .outputs = {}, .others = {}};
    out.outputs.resize(out.before.size());
    for (std::size_t i = 0; i < out.before.size(); ++i) {
        out.outputs[i] = stored(static_cast<double>(out.before[i]));
        if (out.before[i] == ways.upper[i] || ways.undecided == 0) continue;
        out.others.emplace(static_cast<std::int64_t>(i), stored(static_cast<double>(ways.upper[i])));
    }
    return out;
}

}  // namespace macheps::check
