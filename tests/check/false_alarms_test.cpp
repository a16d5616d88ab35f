// SPDX-License-Identifier: Apache-2.0
// Tests that correct kernels never fail a check. They run every operation on random, structured, cancelling and extreme
// data. The kernels differ in the order of summation, in fused operations, in the format of the output, and in the
// declarations (inner format, order of summation, machine). They are plain loops that share no code with the checks.
#include "tests/check/drawn_data.hpp"
#include "tests/check/product_checks.hpp"
#include "tests/check/row_kernels.hpp"

#include <cstdio>
#include <map>

namespace false_alarms_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;

namespace {

struct Found {
    int runs = 0, alarms = 0, declined = 0, dismissed = 0;
    double rho = 0;
};
using FoundBy = std::map<std::string, Found>;

constexpr std::array<Format, 6> outputs{fp32, bf16, fp16, e5m2, e4m3fn, fp32};

void judge_right(const check::Declaration& d, const std::vector<StoredArray>& arrays, Found& found) {
    const bool is_narrow_sum = d.sum_order.starts_with("bf16");
    const check::Posed posed = check::pose(d, arrays, pool());
    const check::Limits limits = check::limits_of(posed.problem, 1e-9, pool());
    ++found.runs;
    if (limits.declined >= 0) {
        CHECK(is_narrow_sum);  // a sum of 256 terms in bf16 has no certain bound
        ++found.declined;
        return;
    }
    check::Premise premise(posed.problem, limits);
    const check::Judgement j = check::judge(limits, posed.out, {.premise = &premise, .pool = &pool()});
    found.rho = std::max(found.rho, j.rho);
    found.dismissed += j.dismissed.empty() ? 0 : 1;
    std::string all;
    for (const check::Reason& reason : j.reasons)
        all += reason.code + " at " + std::to_string(reason.index) + " by " + std::to_string(reason.ratio) + " ";
    CAPTURE(all);
    CHECK(j.reasons.empty());
    found.alarms += j.reasons.empty() ? 0 : 1;
}

/// Returns the numbers of rows and columns of a test case, which are usually small. If `is_large`, some rows are as
/// long as the rows of real models.
std::pair<std::int64_t, std::int64_t> shape_of(bool is_one_per_row, std::mt19937& random, bool is_large) {
    constexpr std::array<std::int64_t, 8> lengths{1, 7, 64, 128, 200, 333, 768, 1000};
    const std::int64_t columns =
        is_large && random() % 4 == 0 ? (random() % 2 ? 4096 : 10000) : lengths[random() % lengths.size()];
    const std::int64_t most = is_one_per_row ? 160 : 24;
    const std::int64_t rows =
        random() % 4 == 0 ? 1 : 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(most));
    return {std::max<std::int64_t>(1, std::min(rows, 60000 / columns)), columns};
}

/// Replaces the operands of a test case by data of the given kind.
void redraw(const std::string& op, RowCase& c, Kind kind, Store in, std::mt19937& random) {
    const Format format = in == Store::bf16 ? bf16 : in == Store::fp16 ? fp16 : fp32;
    const auto columns = static_cast<std::size_t>(c.columns), rows = c.x.size() / columns;
    c.x = drawn_data(kind, rows, columns, format, random);
    StoredArray& first = c.arrays.front();
    first = array(first.name, first.shape, c.x, in);
    const bool is_norm = op.ends_with("norm"), is_gated = op.find("glu") != std::string::npos;
    if (!is_norm && !is_gated) return;
    // The second operands are normal, constant, or have few different values.
    constexpr std::array<Kind, 4> others{Kind::normal, Kind::constant, Kind::fp8_codes, Kind::whole_numbers};
    const Kind of_second = others[random() % others.size()];
    c.second = drawn_data(of_second, is_gated ? rows : 1, columns, random() % 2 ? bf16 : fp32, random);
    StoredArray& second = c.arrays[1];
    second = array(second.name, second.shape, c.second);
}

Format inner_of(Store store) { return store == Store::fp16 ? fp16 : bf16; }

void run_rows(const std::string& op, Kind kind, unsigned seed, bool is_large, FoundBy& found) {
    static const std::vector<kernels::Order> orders = more_orders();
    std::mt19937 random(seed);
    const Store in = static_cast<Store>(random() % 3);
    const auto [rows, columns] = shape_of(check::find_operation(op).is_one_per_row, random, is_large);
    RowCase c = row_case(op, random, rows, columns, in, Store::fp32);
    redraw(op, c, kind, in, random);
    check::Declaration& d = c.declaration;
    Kernel k{.order = orders[random() % orders.size()],
             .f = {&random, random() % 2 == 0, random() % 4 == 0, random() % 2 == 0},
             .reciprocal = random() % 2 == 0,
             .joint = random() % 2 == 0,
             .fuses = random() % 2 == 0};
    if (check::find_operation(op).has_inner && random() % 2) {
        k.fault.narrow_inner = true;
        k.inner_store = random() % 2 ? Store::bf16 : Store::fp16;
        d.inner = inner_of(k.inner_store);
    } else if (check::find_operation(op).has_reduction && random() % 8 == 0) {
        // The kernel adds the terms in order and rounds each partial sum to bf16. The declaration allows this.
        k.fault.narrow_sum = true;
        d.sum_order = "bf16";
    } else if (check::find_operation(op).has_reduction && random() % 4 == 0) {
        const bool has_lanes = k.order.name.starts_with("lanes") && !k.order.name.ends_with("order");
        d.sum_order = has_lanes ? k.order.name : k.order.name == "tree" ? "pairwise" : "any";
    }
    std::vector<StoredArray> arrays = c.arrays;
    const Floats y = run_case(op, c, k);
    const Format out = outputs[random() % outputs.size()];
    if (op == "argmax") {
        arrays.push_back(integers("out", c.out_shape, {y.begin(), y.end()}));
    } else {
        d.formats["out"] = {out, false};
        d.saturates = random() % 2 == 0;
        const Overflow overflow = d.saturates ? Overflow::saturate : Overflow::nonsaturate;
        Floats stored = y;
        for (float& each : stored) each = decode(out, encode(out, each, Round::nearest_even, overflow));
        arrays.push_back(coded("out", c.out_shape, stored, out));
    }
    CAPTURE(op, kind_names[static_cast<std::size_t>(kind)], seed, rows, columns, static_cast<int>(in), out.bits,
            out.precision, k.order.name, d.sum_order, k.fault.narrow_inner, k.fault.narrow_sum, k.reciprocal, k.joint,
            k.fuses);
    judge_right(d, arrays, found[op]);
}

constexpr std::array<const char*, 6> units{
    "any", "sm80.mma.bf16", "sm90.wgmma.fp16", "sm89.mma.fp8", "sm90.wgmma.fp8+promote128", "sm80.mma.fp16.acc16"};

void run_product(Kind kind, unsigned seed, bool is_large, FoundBy& found) {
    static const std::vector<kernels::Order> orders = more_orders();
    std::mt19937 random(seed);
    const std::string machine = random() % 2 ? "any" : units[random() % units.size()];
    constexpr std::array<Format, 4> formats{fp32, bf16, fp16, e4m3fn};
    Format a = formats[random() % formats.size()];
    MatmulRule rule{};
    if (machine != "any") {
        rule = parse_machine(machine).rule;
        while (!rule.machine->operands.contains(a)) a = formats[random() % formats.size()];
    }
    constexpr std::array<std::size_t, 6> lengths{1, 16, 64, 200, 512, 1024};
    const std::size_t k = is_large && random() % 4 == 0 ? 4096 : lengths[random() % lengths.size()],
                      m = random() % 3 == 0 ? 1 : 4 + random() % 20, n = 4 + random() % 20;
    ProductCheck c;
    c.machine = machine;
    c.g = {.m = m,
           .n = n,
           .k = k,
           .a_format = a,
           .b_format = a,
           .a = drawn_data(kind, m, k, a, random),
           .b = Floats(k * n)};
    const Kind of_b = random() % 2 ? kind : Kind::normal;
    const Floats columns = drawn_data(of_b, n, k, a, random);
    for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t p = 0; p < k; ++p) c.g.b[p * n + j] = columns[j * k + p];
    }
    c.out = outputs[random() % 3];
    if (random() % 2) c.bias = normal(n, random);
    if (random() % 3 == 0) {
        c.a_scale = normal(random() % 2 ? m : 1, random, 1, 0.1f);
        c.b_scale = normal(random() % 2 ? n : 1, random, 1, 0.1f);
    }
    const std::size_t way = random() % (orders.size() + 1);
    Floats sums;
    if (machine != "any") {
        sums = c.g.run(rule);
    } else {
        const kernels::Gemm plain{.m = m, .n = n, .k = k, .a = c.g.a, .b = c.g.b};
        sums = plain.run(kernels::Store::fp32, way == orders.size() ? nullptr : &orders[way]);
    }
    const Floats out = c.stored(c.epilogue(sums, random() % 2));
    CAPTURE(kind_names[static_cast<std::size_t>(kind)], kind_names[static_cast<std::size_t>(of_b)], seed, machine, m, n,
            k, a.bits, a.precision, c.out.bits, c.out.precision, way, c.bias.size(), c.a_scale.size());
    judge_right(c.declaration(), c.arrays(out), found[machine == "any" ? "gemm" : "gemm on a machine"]);
}

/// For each kind of data, runs every row operation `each` times and matrix products 4 * `each` times.
Found run_campaign(int each, bool is_large, unsigned first_seed) {
    FoundBy found;
    unsigned seed = first_seed;
    for (int kind = 0; kind < kinds; ++kind) {
        for (int run = 0; run < each; ++run) {
            for (const std::string& op : row_operations())
                run_rows(op, static_cast<Kind>(kind), seed++, is_large, found);
            for (int i = 0; i < 4; ++i) run_product(static_cast<Kind>(kind), seed++, is_large, found);
        }
    }
    Found all;
    for (const auto& [name, one] : found) {
        std::printf("%-18s %5d right outputs, %d alarms, %3d dismissed, %3d declined, rho %.4f\n", name.c_str(),
                    one.runs, one.alarms, one.dismissed, one.declined, one.rho);
        all.runs += one.runs;
        all.alarms += one.alarms;
        all.declined += one.declined;
        all.dismissed += one.dismissed;
    }
    std::printf("%d right outputs of %zu operations: %d alarms, %d with dismissed tests, %d declined\n", all.runs,
                found.size(), all.alarms, all.dismissed, all.declined);
    return all;
}

}  // namespace

TEST_CASE("correct outputs of every operation pass on every kind of data", "[check][alarms]") {
    const Found all = run_campaign(1, false, 1000);
    CHECK(all.alarms == 0);
    CHECK(all.runs >= 500);
}

TEST_CASE("ten thousand correct outputs pass on every kind of data", "[check][alarms][slow]") {
    const Found all = run_campaign(20, true, 100000);
    CHECK(all.alarms == 0);
    CHECK(all.runs >= 10000);
}

}  // namespace false_alarms_test
