// SPDX-License-Identifier: Apache-2.0
// Tests trials of wrong kernels. A trial simulates a wrong kernel on one part of the outputs after another, until a
// test refuses it. Dividing the outputs into parts and using several threads must not change any result.
#include "experiments/check/power/trial.hpp"
#include "experiments/check/judge/grid.hpp"
#include "tests/check/problems.hpp"

#include <fmt/format.h>

namespace trial_test {

using namespace macheps;
using namespace macheps::test;
using check::Power;

namespace {

struct Rows {
    check::Posed posed;
    check::Limits limits;
};

/// Returns a check of a softmax with rows of 500 elements in bf16. If there are many rows, its outputs have several
/// parts.
Rows long_softmax(std::int64_t rows, unsigned seed) {
    constexpr std::int64_t columns = 500;
    std::mt19937 random(seed);
    const Floats x = normal(static_cast<std::size_t>(rows * columns), random);
    Floats y;
    for (std::int64_t r = 0; r < rows; ++r) {
        const auto* row = x.data() + r * columns;
        double sum = 0;
        for (std::int64_t c = 0; c < columns; ++c) sum += std::exp(static_cast<double>(row[c]));
        for (std::int64_t c = 0; c < columns; ++c)
            y.push_back(kernels::stored(Store::bf16, static_cast<float>(std::exp(static_cast<double>(row[c])) / sum)));
    }
    Rows all{
        .posed = check::pose(declare("softmax", Store::bf16),
                             {array("x", {rows, columns}, x), array("out", {rows, columns}, y, Store::bf16)}, pool()),
        .limits = {}};
    all.limits = check::limits_of(all.posed.problem, 1e-9, pool());
    return all;
}

const check::Mutant& named(const std::vector<check::Mutant>& mutants, const std::string& name) {
    const auto at = std::find_if(mutants.begin(), mutants.end(), [&](const auto& m) { return m.name == name; });
    REQUIRE(at != mutants.end());
    return *at;
}

}  // namespace

TEST_CASE("outputs are divided into parts of increasing size that consist of whole rows and do not overlap",
          "[check][trial]") {
    const Rows rows = long_softmax(4000, 1);
    const auto parts = check::growing_parts(rows.posed.problem);
    REQUIRE(parts.size() == 3);  // 2^16, 2^20 and the rest of 2 million elements
    std::int64_t end = 0;
    for (const check::OutputRange& part : parts) {
        CHECK(part.first == end);
        CHECK(part.first % 500 == 0);
        end = part.last;
    }
    CHECK(end == rows.limits.size());
}

TEST_CASE("a single fault among many outputs is caught at any place", "[check][trial]") {
    const Rows rows = long_softmax(1000, 2);
    std::vector<check::Mutant> mutants;
    check::Trial trial(rows.limits, check::growing_parts(rows.posed.problem), nullptr, pool(), mutants);
    REQUIRE(check::growing_parts(rows.posed.problem).size() > 1);
    const auto& right = rows.limits.exact;
    const auto add = [&](const char* name, const char* kind, const check::OutputRange& changes, std::size_t at,
                         double factor) {
        trial.add({.name = name,
                   .kind = kind,
                   .required_by = Power::precision,
                   .results =
                       [&, at, factor](const check::OutputRange& range, std::span<double> exact) {
                           std::copy_n(right.begin() + range.first, range.size(), exact.begin());
                           const auto i = static_cast<std::int64_t>(at);
                           if (i >= range.first && i < range.last)
                               exact[at - static_cast<std::size_t>(range.first)] *= factor;
                       },
                   .changes = changes});
    };
    const std::size_t last = right.size() - 1, middle = right.size() / 2;
    add("far off, in the last row", "precision", {}, last, 1.5);
    add("far off, and said where", "structure",
        {static_cast<std::int64_t>(middle), static_cast<std::int64_t>(middle) + 1}, middle, 1.5);
    add("hardly off", "precision", {}, middle, 1 + 1e-9);
    CHECK(named(mutants, "far off, in the last row").certified);
    CHECK(named(mutants, "far off, and said where").certified);
    CHECK_FALSE(named(mutants, "hardly off").caught);
    CHECK(named(mutants, "hardly off").largest < 1);
    // All outputs are slightly too large. No test of single outputs refuses them, but tests of all outputs together do.
    trial.add({.name = "scaled",
               .kind = "precision",
               .required_by = Power::precision,
               .results = [&](const check::OutputRange& range, std::span<double> exact) {
                   std::transform(right.begin() + range.first, right.begin() + range.last, exact.begin(),
                                  [](double x) { return x * 1.0008; });
               }});
    CHECK(named(mutants, "scaled").caught);
    CHECK_FALSE(named(mutants, "scaled").certified);
}

TEST_CASE("a fault is certified only if an output is off by more than twice its bound", "[check][trial]") {
    const Rows rows = long_softmax(8, 5);
    std::vector<check::Mutant> mutants;
    check::Trial trial(rows.limits, check::growing_parts(rows.posed.problem), nullptr, pool(), mutants);
    const auto& right = rows.limits.exact;
    constexpr std::size_t place = 1234;
    for (const double bounds : {0.5, 0.99, 1.01, 1.5, 1.99, 2.01, 3.0}) {
        for (const bool is_simulated : {false, true}) {
            trial.add({.name = fmt::format("{} bounds", bounds),
                       .kind = "precision",
                       .required_by = Power::precision,
                       .results =
                           [&, bounds](const check::OutputRange& range, std::span<double> exact) {
                               std::copy_n(right.begin() + range.first, range.size(), exact.begin());
                               const auto at = static_cast<std::int64_t>(place) - range.first;
                               if (at >= 0 && at < static_cast<std::int64_t>(range.size()))
                                   exact[static_cast<std::size_t>(at)] += bounds * rows.limits.certain[place];
                           },
                       .is_simulated = is_simulated});
            CAPTURE(bounds, is_simulated);
            CHECK(mutants.back().largest == Approx(bounds).epsilon(1e-3));
            // A simulated kernel is only one of many kernels with this fault, so its results certify nothing.
            CHECK(mutants.back().certified == (bounds > 2 && !is_simulated));
            CHECK((mutants.back().caught || bounds <= 2));
        }
    }
}

TEST_CASE("a check of a few outputs catches the same wrong kernels as a check of many outputs", "[check][trial]") {
    const Rows few = long_softmax(64, 3), many = long_softmax(1000, 3);
    const auto of_few = check::run_mutants(few.posed.problem, few.limits, nullptr, pool()),
               of_many = check::run_mutants(many.posed.problem, many.limits, nullptr, pool());
    REQUIRE(of_few.size() == of_many.size());
    for (std::size_t i = 0; i < of_few.size(); ++i) {
        CAPTURE(of_few[i].name);
        CHECK(of_few[i].name == of_many[i].name);
        CHECK(of_few[i].caught == of_many[i].caught);
        CHECK(of_few[i].certified == of_many[i].certified);
    }
}

TEST_CASE("a judgement has the same figures for every number of threads", "[check][trial]") {
    const Rows rows = long_softmax(300, 4);
    ThreadPool three(3);
    std::vector<double> out = rows.posed.out;
    for (const bool is_wrong : {false, true}) {
        if (is_wrong) out[70000] *= 1.02, out[1234] = std::nan("");
        const check::Judgement one = check::judge(rows.limits, out),
                               other = check::judge(rows.limits, out, {.pool = &three});
        CHECK(one.rho == other.rho);
        CHECK(one.z == other.z);
        CHECK(one.z_rows == other.z_rows);
        CHECK(one.z_tiles == other.z_tiles);
        CHECK(one.bias == other.bias);
        REQUIRE(one.reasons.size() == other.reasons.size());
        CHECK(one.reasons.empty() == !is_wrong);
        for (std::size_t i = 0; i < one.reasons.size(); ++i) {
            CHECK(one.reasons[i].index == other.reasons[i].index);
            CHECK(one.reasons[i].ratio == other.reasons[i].ratio);
        }
        CHECK(check::refuses_any(rows.limits, 500, std::span(out).subspan(500, 1000)) == is_wrong);
        CHECK_FALSE(check::refuses_any(rows.limits, 2000, std::span(out).subspan(2000, 1000)));
    }
}

TEST_CASE("sums over the rows, columns and tiles of a grid of outputs equal the sums of plain loops",
          "[check][trial]") {
    struct Count {
        double total = 0;
        void add(const Count& other) { total += other.total; }
    };
    // The groups have 70, 0, 1 and 129 rows. All values are integers, so the order of addition does not matter.
    check::Limits limits{.rows = 200, .columns = 4100, .starts = {0, 70, 70, 71, 200}};
    const auto value = [](std::size_t i) { return static_cast<double>(i * 2654435761u % 97); };
    const auto grid = check::gather<Count>(limits, pool(), [&](std::size_t i) { return Count{value(i)}; });
    const auto sum = [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
        double total = 0;
        for (std::int64_t r = row; r < row + rows; ++r) {
            for (std::int64_t c = column; c < column + columns; ++c)
                total += value(static_cast<std::size_t>(r * limits.columns + c));
        }
        return total;
    };
    CHECK(grid.all.total == sum(0, 200, 0, 4100));
    for (std::int64_t r = 0; r < 200; r += 7) CHECK(grid.rows[static_cast<std::size_t>(r)].total == sum(r, 1, 0, 4100));
    REQUIRE(grid.groups.size() == 4);
    CHECK(grid.groups[1].rows == 0);
    CHECK(grid.groups[2].columns.empty());
    for (const auto& group : grid.groups) {
        CHECK(group.all.total == sum(group.first, group.rows, 0, 4100));
        for (std::size_t c = 0; c < group.columns.size(); c += 111)
            CHECK(group.columns[c].total == sum(group.first, group.rows, static_cast<std::int64_t>(c), 1));
        constexpr std::int64_t across = 257;
        CHECK(group.tiles.size() == static_cast<std::size_t>((group.rows + 15) / 16 * across));
        for (std::size_t t = 0; t < group.tiles.size(); t += 53) {
            const auto r = static_cast<std::int64_t>(t) / across * 16, c = static_cast<std::int64_t>(t) % across * 16;
            CHECK(group.tiles[t].total == sum(group.first + r, std::min<std::int64_t>(16, group.rows - r), c,
                                              std::min<std::int64_t>(16, 4100 - c)));
        }
    }
}

}  // namespace trial_test
