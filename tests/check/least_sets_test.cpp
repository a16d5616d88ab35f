// SPDX-License-Identifier: Apache-2.0
// Tests of least sets. A least set is a small selection from the available inputs. It reveals every wrong kernel that
// the available inputs together reveal. A correct kernel must pass on a least set with any order of summation, and a
// least set must reveal every undeclared shortcut.
#include "experiments/check/bounds/shortcuts.hpp"
#include "tests/check/made_sets.hpp"

#include <cstdio>

namespace min_sets_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::test::made;
using namespace macheps::check;

namespace {

struct Judged {
    int sets = 0, runs = 0;
};

/// Requires that correct kernels pass on a least set. The inputs of the set are judged together, like the inputs of one
/// check in a suite: for each wrong kernel, it is enough that one input catches it.
void require_pass(const std::string& keys, const std::string& shape, std::size_t ways, Judged& judged) {
    CAPTURE(keys, shape);
    const LeastSet set = least_set_of(keys, shape);
    ++judged.sets;
    REQUIRE(!set.launches.empty());
    CHECK(!set.coverage.weakness(set.chosen, Power::structure).is_any());
    for (const Kernel& kernel : right_kernels(ways)) {
        std::vector<Checked> checked;
        for (const Launch& in : set.launches) {
            checked.push_back(check_arrays(in.declaration, launched(kernel, in), {}, pool()));
            ++judged.runs;
        }
        join_powers(checked);
        for (std::size_t i = 0; i < checked.size(); ++i) {
            CAPTURE(kernel.order.name, kernel.reciprocal, kernel.joint, set.coverage.inputs[set.chosen[i]]);
            if (checked[i].outcome != Outcome::pass) FAIL_CHECK(checked[i].text());
        }
    }
}

/// Returns true if no input can reveal the wrong kernel `mutant` for this operation and output format.
bool is_within_limits(std::string_view mutant, const Plan& plan, std::string_view out) {
    const std::string_view op = plan.op;
    // The mean of losses that were rounded to fp16 has an error of at most half an ulp of fp16. A 16-bit output does
    // not show an error of this size.
    if (mutant == "rounded to fp16 on the way" && op == "cross_entropy" && out != "fp32") return true;
    // An error of a few ulp of fp32 changes a 16-bit output only if the exact result is that close to the midpoint of
    // two codes. A legal kernel that multiplies by a rounded reciprocal may have an error of the same size.
    return mutant == "functions of cuda.fast" &&
           (out != "fp32" || op == "softmax" || op == "logsumexp" || op == "cross_entropy");
}

void require_shortcuts(const Plan& plan, const std::string& x, const std::string& out) {
    const std::string keys = keys_of(plan, x, out);
    const LeastSet set = least_set_of(keys, shape_of(plan));
    for (const ShortcutRow& row : shortcuts()) {
        for (const Coverage::Line& line : set.coverage.lines) {
            if (line.mutant != row.mutant) continue;
            bool is_caught = false;
            for (const std::size_t i : set.chosen) is_caught = is_caught || line.detections[i] >= Detection::caught;
            CAPTURE(keys, row.mutant);
            if (!is_within_limits(row.mutant, plan, out)) CHECK(is_caught);
        }
    }
}

bool is_refused_over(const std::string& keys, const std::string& shape, const std::string& bug) {
    Kernel kernel;
    kernel.bug = bug;
    bool is_any = false;
    for (const Launch& in : least_set_of(keys, shape).launches) is_any = is_any || is_refused(kernel, in);
    CHECK(kernel.was_asked());
    return is_any;
}

void require_famous_bugs_fail(const std::string& x, const std::string& out) {
    for (const Plan& plan : plans) {
        const std::string_view op = plan.op;
        const std::string keys = keys_of(plan, x, out);
        CAPTURE(keys);
        if (op == "layernorm") CHECK(is_refused_over(keys, shape_of(plan), "variance in one pass"));
        if (op == "softmax" || op == "log_softmax" || op == "logsumexp" || op == "cross_entropy")
            CHECK(is_refused_over(keys, shape_of(plan), "no maximum"));
    }
}

}  // namespace

TEST_CASE("a correct kernel passes on the least set of inputs of every operation", "[check][made]") {
    Judged judged;
    for (const Plan& plan : plans) {
        require_pass(keys_of(plan, "bf16", "bf16"), shape_of(plan), 1, judged);
    }
    std::printf("%d least sets, %d checks of right kernels\n", judged.sets, judged.runs);
}

TEST_CASE("a correct kernel passes on the least set of inputs of every operation, for every format",
          "[check][made][slow]") {
    Judged judged;
    for (const Plan& plan : plans) {
        for (const std::string x : {"fp32", "bf16", "fp16"}) {
            for (const std::string out : {"fp32", "bf16", "fp16"}) {
                for (const bool is_small : {true, false}) {
                    if (!is_small && std::string_view(plan.op) == "gemm" && x != out) continue;
                    require_pass(keys_of(plan, x, out), shape_of(plan, is_small), 3, judged);
                }
            }
        }
    }
    std::printf("%d least sets, %d checks of right kernels\n", judged.sets, judged.runs);
}

TEST_CASE("least sets of inputs for operations on rows reveal every wrong kernel even if rows are few and short",
          "[check][made]") {
    const auto require_set = [](const Plan& plan, int rows, int columns) {
        const std::string keys = keys_of(plan, "bf16", "bf16"),
                          shape = fmt::format("rows = {}; columns = {}", rows, columns);
        CAPTURE(keys, shape);
        const LeastSet set = least_set_of(keys, shape);
        CHECK(set.coverage.weakness(set.chosen, Power::structure).missed == std::vector<std::string>{});
    };
    for (const Plan& plan : plans) {
        const std::string_view op = plan.op, keys = plan.keys;
        if (op == "gemm" || keys.find("1x128") != std::string_view::npos) continue;
        const bool is_extreme = op == "max" || op == "min" || op == "amax" || op == "argmax";
        for (const int rows : is_extreme ? std::vector<int>{1, 2, 3, 5, 16} : std::vector<int>{1, 3}) {
            for (const int columns : is_extreme ? std::vector<int>{64, 100, 256} : std::vector<int>{64})
                require_set(plan, rows, columns);
        }
    }
}

TEST_CASE("line_name removes the number of dropped terms from the name of a wrong kernel, and no other number",
          "[check][made]") {
    CHECK(line_name("last 7 terms dropped (K mod 8)") == "last terms dropped (K mod 8)");
    CHECK(line_name("last 127 terms dropped (K mod 128)") == "last terms dropped (K mod 128)");
    for (const char* name : {"last term dropped", "rounded to fp16 on the way", "index + 1", "one row larger by 0.001",
                             "split-K 4", "variance as E[x^2] - mean^2", "last terms", ""})
        CHECK(line_name(name) == name);
}

TEST_CASE("a one-pass variance and a softmax that does not subtract the maximum fail on least sets of inputs",
          "[check][made]") {
    require_famous_bugs_fail("fp16", "fp16");
}

TEST_CASE(
    "a one-pass variance and a softmax that does not subtract the maximum fail on least sets of inputs of all formats",
    "[check][made][slow]") {
    for (const std::string x : {"fp32", "bf16", "fp16"}) {
        for (const std::string out : {"fp32", "bf16", "fp16"}) require_famous_bugs_fail(x, out);
    }
}

TEST_CASE("least sets of inputs reveal every shortcut that is not declared", "[check][made][slow]") {
    for (const Plan& plan : plans) {
        for (const std::string x : {"fp32", "bf16", "fp16"}) {
            for (const std::string out : {"fp32", "bf16", "fp16"}) require_shortcuts(plan, x, out);
        }
    }
}

TEST_CASE("kernels with a declared shortcut are not among the wrong kernels that a least set must reveal",
          "[check][made]") {
    const auto lines_of = [](const std::string& keys) {
        std::string all;
        for (const Coverage::Line& line : least_set_of(keys, "rows = 8; columns = 40").coverage.lines)
            all += line.mutant + ";";
        return all;
    };
    const std::string plain = lines_of("op = 'layernorm'; x = 'bf16'; out = 'bf16'; eps = 1e-5");
    CHECK(plain.find("variance as E[x^2] - mean^2") != std::string::npos);
    CHECK(plain.find("variance by Welford's updates") != std::string::npos);
    CHECK(plain.find("rounded to fp16 on the way") != std::string::npos);
    const std::string declared =
        lines_of("op = 'layernorm'; x = 'bf16'; out = 'bf16'; eps = 1e-5; variance = 'one_pass'; inner = 'bf16'");
    CHECK(declared.find("variance as E[x^2] - mean^2") == std::string::npos);
    CHECK(declared.find("on the way") == std::string::npos);
    const std::string unshifted =
        lines_of("op = 'logsumexp'; x = 'bf16'; out = 'bf16'; unshifted = true; inputs = ['normal']");
    CHECK(unshifted.find("exponentials of x itself") == std::string::npos);
    CHECK(lines_of("op = 'softmax'; x = 'e2m1fn'; out = 'bf16'").find("exponentials of x itself") == std::string::npos);
    CHECK(lines_of("op = 'cast'; x = 'fp32'; out = 'bf16'; rounding = 'up'").find("output rounded up") ==
          std::string::npos);
}

}  // namespace min_sets_test
