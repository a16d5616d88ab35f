// SPDX-License-Identifier: Apache-2.0
// Sums 4096 numbers from 0 to 1 in bf16 in four ways: in order with rounding to nearest, in order with stochastic
// rounding, by recursive halving, and with Kahan's compensation. Prints each sum with its error.
//
//     c++ -std=c++20 sums.cpp $(pkg-config --cflags --libs macheps-core) && ./a.out
#include "core/text/float_print.hpp"
#include "core/types/stochastic_float.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <span>
#include <vector>

using namespace macheps;

namespace {

using Number = Float<bf16>;

Number in_order(std::span<const Number> x) {
    Number sum;
    for (const Number each : x) sum += each;
    return sum;
}

/// Returns the mean of 16 stochastically rounded sums, each with its own random stream. The relative error of a single
/// sum is about a tenth, with either sign.
Number stochastic(std::span<const Number> x) {
    double mean = 0;
    for (std::uint32_t i = 0; i < 16; ++i) {
        RandomStream stream{.key = {.seed = 1, .site = i}};
        Number sum;
        for (const Number each : x) sum = add(sum, each, stream);
        mean += double(sum) / 16;
    }
    return Number(mean);
}

Number by_halves(std::span<const Number> x) {
    if (x.size() == 1) return x.front();
    return by_halves(x.first(x.size() / 2)) + by_halves(x.subspan(x.size() / 2));
}

Number kahan(std::span<const Number> x) {
    Number sum, error;
    for (const Number each : x) {
        const Number y = each - error, t = sum + y;
        error = (t - sum) - y;
        sum = t;
    }
    return sum;
}

}  // namespace

int main() {
    std::vector<Number> x;
    double exact = 0;
    for (std::uint64_t i = 0; i < 4096; ++i) {
        x.emplace_back(random_bits({.seed = 7}, i) / 0x1p32);
        exact += double(x.back());  // exact: the sum of bf16 numbers below 1 fits into 53 bits
    }
    struct Row {
        const char* name;
        Number (*sum)(std::span<const Number>);
    };
    fmt::print("{:14}  {:>8}  {}\n", "exact", exact, "relative error");
    for (const Row& row :
         {Row{"in order", in_order}, Row{"stochastic", stochastic}, Row{"by halves", by_halves}, Row{"Kahan", kahan}}) {
        const Number sum = row.sum(x);
        fmt::print("{:14}  {:>8}  {:.1e}\n", row.name, fmt::format("{}", sum), (double(sum) - exact) / exact);
    }
    return std::ferror(stdout) != 0;
}
