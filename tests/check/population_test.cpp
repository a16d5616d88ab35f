// SPDX-License-Identifier: Apache-2.0
// Tests that no legal kernel of an operation on rows is refused. The arrays and the orders of summation are random, and
// the errors of functions are as large as allowed. The slow run judges ten thousand kernels of each operation.
#include "tests/check/row_kernels.hpp"

#include <cstdio>
#include <cstdlib>

namespace population_test {

using namespace macheps;
using namespace macheps::test;

namespace {

struct Found {
    int alarms = 0, declined = 0, judged = 0;
    double rho = 0, z = 0;
    std::string first{};
};

/// Judges the outputs of `trials` legal kernels of an operation, without the simulation of wrong kernels.
Found judge_population(const std::string& op, int trials, std::int64_t max_rows, std::int64_t max_columns,
                       std::int64_t least, unsigned seed) {
    Found found;
    std::mt19937 random(seed);
    for (int trial = 0; trial < trials; ++trial) {
        const auto draw = [&](std::int64_t most) {
            return least + static_cast<std::int64_t>(random() % static_cast<unsigned>(most));
        };
        const Store in = static_cast<Store>(random() % 3), store = static_cast<Store>(random() % 3);
        const float mean = random() % 4 == 0 ? 100.0f : 0.0f;
        const float sigmas[] = {1, 1, 8, 0x1p-9f, 30}, sigma = sigmas[random() % 5];
        RowCase c = row_case(op, random, draw(max_rows), draw(max_columns), in, store, mean, sigma);
        const Kernel k = random_kernel(random);
        const check::Posed posed = check::pose(c.declaration, stored_case(op, c, k), pool());
        const check::Limits limits = check::limits_of(posed.problem, 1e-9, pool());
        if (limits.declined >= 0) {
            ++found.declined;
            continue;
        }
        ++found.judged;
        const check::Judgement j = check::judge(limits, posed.out);
        found.rho = std::max(found.rho, j.rho);
        found.z = std::max({found.z, j.z, j.z_part});
        if (j.reasons.empty()) continue;
        ++found.alarms;
        if (!found.first.empty()) continue;
        const check::Reason& reason = j.reasons.front();
        found.first = "trial " + std::to_string(trial) + ": " + reason.code + " at " + std::to_string(reason.index) +
                      ", ratio " + std::to_string(reason.ratio) + ", in " + std::to_string(static_cast<int>(in)) +
                      ", out " + std::to_string(static_cast<int>(store)) + ", mean " + std::to_string(mean) +
                      ", sigma " + std::to_string(sigma) + ", columns " + std::to_string(c.columns);
    }
    return found;
}

void check_population(int trials, std::int64_t rows, std::int64_t columns, std::int64_t least, unsigned seed,
                      bool is_told) {
    for (const std::string& op : row_operations()) {
        const Found found = judge_population(op, trials, rows, columns, least, seed);
        if (is_told)
            std::printf("%-14s %6d judged, %4d declined, %d alarms, rho %.4f, z %.2f\n", op.c_str(), found.judged,
                        found.declined, found.alarms, found.rho, found.z);
        CAPTURE(op, found.first, found.declined, found.rho, found.z);
        CHECK(found.alarms == 0);
        CHECK(found.rho <= 1);
        CHECK(found.z < 3);  // half of the limit
        CHECK(found.judged > trials / 2);
    }
}

}  // namespace

TEST_CASE("no legal kernel of any operation on rows is refused", "[check]") {
    check_population(60, 8, 300, 1, 20260101, false);
    check_population(6, 20, 300, 40, 4242, false);
}

TEST_CASE("for each operation on rows, none of ten thousand legal kernels is refused", "[check][slow]") {
    check_population(10000, 8, 200, 1, 777, true);
}

TEST_CASE("mean squares of a thousand legal kernels of each operation on rows are within their limits",
          "[check][slow]") {
    check_population(1000, 40, 500, 24, 4242, true);
}

}  // namespace population_test
