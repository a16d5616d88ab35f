// SPDX-License-Identifier: Apache-2.0
// To save memory, a check can compute limits in panels (a few rows at a time) and read numbers in place. The tests
// require that every limit and every figure of a verdict then has the same bits as if everything were held in memory.
#include "experiments/check/bounds/panels.hpp"
#include "experiments/check/memory.hpp"
#include "tests/check/made_sets.hpp"

#include <bit>

namespace panels_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::test::made;
using namespace macheps::files;

namespace {

template <class T>
void add_bits(std::string& text, const std::vector<T>& values) {
    text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

std::string bits_of(const check::Limits& limits) {
    std::string text = std::to_string(limits.declined);
    for (const auto* each : {&limits.exact, &limits.low, &limits.before, &limits.certain, &limits.probable,
                             &limits.deviation, &limits.rounded_inside})
        add_bits<double>(text, *each);
    add_bits<check::Overflowing>(text, limits.overflow);
    for (const auto& kinds : limits.inner_kinds) add_bits<std::uint32_t>(text, kinds);
    return text;
}

/// Returns every figure of a verdict as text. Floating-point numbers are exact.
std::string figures_of(const check::Verdict& v) {
    const check::Judgement& j = v.judgement;
    const check::Sharpness& s = v.sharpness;
    std::string text =
        fmt::format("{} rho {:a} z {:a} {:a} {:a} {:a} {:a} {:a} bias {:a} {:a} mean {:a} outputs {} {}\n",
                    to_string(v.outcome), j.rho, j.z, j.z_part, j.z_rows, j.z_columns, j.z_tiles, j.z_groups, j.bias,
                    j.bias_limit, j.mean_square, j.outputs, j.exact_outputs);
    text +=
        fmt::format("scale {:a} {:a} {:a} {:a} {:a} bias {:a} bits {} dropped {} stale {:a} fitness {:a} {:a}\n",
                    s.scale_of_all, s.scale_of_row, s.scale_of_column, s.scale_of_tile, s.scale_of_group, s.bias_share,
                    s.accumulator_bits, s.dropped_terms, s.stale_share, v.fitness.bits, v.fitness.lost_share);
    for (const check::Reason& r : v.reasons)
        text += fmt::format("{} {} {} {:a} {:a} {:a} {:a} {}\n", r.code, r.index, r.count, r.got, r.want, r.bound,
                            r.ratio, r.text);
    for (const check::Metric& m : v.metrics) text += fmt::format("{} {:a}\n", m.name, m.value);
    for (const check::Mutant& m : v.mutants)
        text += fmt::format("{} {} {} {:a}\n", m.name, m.certified, m.caught, m.largest);
    return text;
}

/// Compares a check in panels of one row with a check that holds all limits in memory.
void compare(const Launch& in, const std::vector<StoredArray>& arrays) {
    const check::Posed held = check::pose(in.declaration, arrays, pool()),
                       read =
                           check::pose(in.declaration, arrays, pool(), {.max_limit_bytes = 1, .reads_in_place = true});
    const check::Limits limits = check::limits_of(held.problem, 1e-9, pool()),
                        panels = check::limits_of(read.problem, 1e-9, pool());
    CHECK(!limits.panels);
    CHECK((panels.panels != nullptr) == (limits.size() > 0 && !held.problem.is_reduced()));
    CHECK(bits_of(limits) == bits_of(panels));
    CHECK(figures_of(check::check(held.problem, held.out, {}, pool())) ==
          figures_of(check::check(read.problem, read.out, {}, pool())));
}

}  // namespace

TEST_CASE("limits that are computed panel by panel have the same bits as limits that are held in memory",
          "[check][memory]") {
    for (const Plan& plan : plans) {
        CAPTURE(plan.op, plan.keys);
        const Launch in = normal_launch(keys_of(plan, "fp16", "bf16"), shape_of(plan));
        compare(in, launched({}, in));
    }
}

TEST_CASE("a wrong output has the same verdict whether limits are computed in panels or held in memory",
          "[check][memory]") {
    const Launch in =
        normal_launch("op = 'rmsnorm'; x = 'bf16'; gain = 'bf16'; out = 'fp16'; eps = 1e-5; inner = 'bf16'",
                      "rows = 70; columns = 90");
    std::vector<StoredArray> arrays = launched({}, in);
    compare(in, arrays);
    arrays.back().bytes[2 * 4321] = static_cast<char>(arrays.back().bytes[2 * 4321] ^ 0x40);
    compare(in, arrays);
    for (char& byte : arrays.back().bytes) byte = 0;
    compare(in, arrays);
}

TEST_CASE("limits that are computed panel by panel have the same bits for more formats and sizes",
          "[check][memory][slow]") {
    for (const Plan& plan : plans) {
        for (const auto& [x, out] : {std::pair{"fp32", "fp16"}, {"bf16", "fp32"}, {"e4m3fn", "bf16"}}) {
            CAPTURE(plan.op, plan.keys, x, out);
            const Launch in = normal_launch(keys_of(plan, x, out), shape_of(plan, false));
            compare(in, launched({}, in));
        }
    }
}

TEST_CASE("a check that needs more memory than allowed is refused before it starts", "[check][memory]") {
    const Launch in = normal_launch("op = 'silu'; x = 'fp32'; out = 'fp16'", "rows = 64; columns = 1000");
    const std::vector<StoredArray> arrays = launched({}, in);
    // The arrays take 6 bytes per element. The outputs of a simulated wrong kernel take 4 more.
    CHECK(check::min_bytes(in.declaration, arrays, {.holds_limits = false}) == 64000 * 10);
    CHECK(check::min_bytes(in.declaration, arrays, {}) == 64000 * 59);
    CHECK_NOTHROW(check::check_arrays(in.declaration, arrays, {.memory = 640000, .holds_limits = false}, pool()));
    CHECK_THROWS_WITH(check::check_arrays(in.declaration, arrays, {.memory = 639999, .holds_limits = false}, pool()),
                      Catch::Contains("this check needs about 625 KiB"));
    CHECK_THROWS_WITH(check::check_arrays(in.declaration, arrays, {.memory = 640000}, pool()),
                      Catch::Contains("this check"));
}

}  // namespace panels_test
