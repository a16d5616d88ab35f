// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/judge/fp32_rows.hpp"

#include "experiments/check/bounds/interpret.hpp"
#include "experiments/check/declare/declare.hpp"
#include "experiments/check/truth/fp32_row.hpp"

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

// --- claims

[[noreturn]] void decline(std::string what, const char* where) { throw Declined(std::move(what), where); }

void require_exact(const FunctionTable& table, Function function) {
    const Ulps& ulps = table.of(function);
    if (ulps.ulps == 0.5 && ulps.per_argument == 0 && ulps.absolute == 0) return;
    decline(fmt::format("the bits are determined only if functions are correctly rounded, but the declared {} is "
                        "within {:g} ulp",
                        function_names[static_cast<std::size_t>(function)], ulps.ulps),
            "bits (declare functions = exact)");
}

void require_steps(const std::vector<Node>& nodes, const FunctionTable& table) {
    for (const Node& node : nodes) {
        if (const auto function = function_of(node.step)) require_exact(table, *function);
        if (node.step == Step::divide || node.step == Step::sigmoid) require_exact(table, Function::quotient);
        if (node.step != Step::sum) continue;
        if (node.order.shape == SumShape::any)
            decline("the bits depend on the order in which a row is summed", "bits (sum = any)");
        if (node.order.is_narrow())
            decline("the bits depend on how terms are added to a narrow sum, which no order of summation specifies",
                    "bits (sum)");
        if (node.order.shape == SumShape::lanes && !std::has_single_bit(static_cast<std::uint64_t>(node.order.width)))
            decline("lanes are folded by halves, so their number must be a power of two", "bits (sum)");
    }
}

void require_claim(const Problem& problem) {
    const Declaration& d = problem.declaration;
    if (d.operation->gives_index)
        decline("the index of the largest of several equal numbers is not determined", "bits");
    if (d.rounding == Round::stochastic) decline("stochastic rounding does not determine the bits", "bits (rounding)");
    if (d.block > 0) decline("the order of a softmax in blocks is not specified", "bits (block)");
    if (d.has_one_pass_variance || d.has_running_variance)
        decline("the bits of a variance are determined only for two_pass", "bits (variance)");
    for (const Input& input : problem.inputs) {
        const bool is_held = std::all_of(input.values.begin(), input.values.end(), [](double x) {
            return std::isnan(x) || static_cast<double>(static_cast<float>(x)) == x;
        });
        if (!is_held) decline(fmt::format("{} has numbers that fp32 cannot represent", input.name), "bits");
    }
}

/// Results of all rows, computed twice. If a function value is not known precisely enough to tell which of two floats
/// is nearest, `lower` is computed with the smaller float and `upper` with the larger one. Without such undecided
/// values, `lower` and `upper` are equal.
struct BothWays {
    Floats lower{}, upper{};
    std::atomic<std::int64_t> undecided{0};
    std::atomic<std::int64_t> open_row;  ///< first row with two or more undecided terms; if none, the number of rows
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
            // A sum with two undecided terms has four possible values, but only two of them are computed.
            if (problem.declaration.operation->has_reduction && down.undecided() > 1) ways.open(r);
        }
    });
}

/// Reduces the results of all rows to one number, as the operation's second list of nodes says.
void run_across(const Problem& problem, const FunctionTable& table, BothWays& ways) {
    const Defect none{};
    const Listing across = across_of(problem, problem.inputs, none);
    require_steps(across.nodes.list(), table);
    const Row row{.columns = problem.rows, .count = problem.rows, .inputs = &problem.inputs};
    Fp32Row list(across.nodes.list(), false);
    const float low = list.run(row, ways.lower).front(), high = list.run(row, ways.upper).front();
    ways.lower.assign(1, low);
    ways.upper.assign(1, high);
    // A sum does not decrease if one of its terms increases. If the sum of all lower terms equals the sum of all upper
    // terms, every other combination of terms therefore gives the same sum.
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
        decline(fmt::format("in row {}, two function values are too close to the midpoint between two floats to be "
                            "rounded with certainty",
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
