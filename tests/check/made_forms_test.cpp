// SPDX-License-Identifier: Apache-2.0
// Tests that least sets (small sets of inputs for a check) reveal kernels in an undeclared form, and kernels that start
// a maximum or minimum from a fixed number.
#include "experiments/check/bounds/shortcuts.hpp"
#include "tests/check/made_sets.hpp"

namespace made_forms_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::test::made;
using namespace macheps::check;

namespace {

constexpr const char* small = "rows = 40; columns = 130";

/// A kernel in a form that is inaccurate at some arguments. The kernel is legal only if `form` is declared.
struct FormCase {
    const char *keys, *form, *bug;
};
constexpr FormCase form_cases[] = {
    {"op = 'softmax'; x = '%x'; out = '%o'", "lse", "maximum and logarithm joined"},
    {"op = 'log_softmax'; x = '%x'; out = '%o'", "lse", "maximum and logarithm joined"},
    {"op = 'cross_entropy'; x = '%x'; out = '%o'", "lse", "maximum and logarithm joined"},
    {"op = 'cross_entropy'; x = '%x'; out = '%o'; reduction = 'mean'", "lse", "maximum and logarithm joined"},
    {"op = 'silu'; x = '%x'; out = '%o'", "tanh", "sigmoid by tanh, which cancels"},
    {"op = 'silu'; x = '%x'; out = '%o'; form = 'quotient'", "tanh", "sigmoid by tanh, which cancels"},
    {"op = 'sigmoid'; x = '%x'; out = '%o'", "tanh", "sigmoid by tanh, which cancels"},
    {"op = 'swiglu'; gate = '%x'; up = '%x'; out = '%o'", "tanh", "sigmoid by tanh, which cancels"},
    {"op = 'tanh'; x = '%x'; out = '%o'", "exp", "tanh by e^-2x, which cancels"},
    // The kernel without a bug uses the form tanh, which differs from the declared form.
    {"op = 'gelu_tanh'; x = '%x'; out = '%o'; form = 'sigmoid'", "tanh", ""},
    {"op = 'geglu_tanh'; gate = '%x'; up = '%x'; out = '%o'; form = 'sigmoid'", "tanh", ""},
};

bool is_refused_over(const LeastSet& set, const Kernel& kernel) {
    return std::any_of(set.launches.begin(), set.launches.end(),
                       [&](const Launch& in) { return is_refused(kernel, in); });
}

void require_forms(const std::string& x, const std::string& out) {
    for (const FormCase& row : form_cases) {
        const std::string keys = replaced(replaced(row.keys, "%x", x), "%o", out);
        const LeastSet set = least_set_of(keys, small);
        CAPTURE(keys, row.form);
        Kernel kernel;
        kernel.bug = row.bug;
        CHECK(is_refused_over(set, kernel));
        // The form is in the table of wrong kernels, and the least set reveals it.
        const std::string name = std::string("computed in the form ") + row.form;
        const auto line = std::find_if(set.coverage.lines.begin(), set.coverage.lines.end(),
                                       [&](const Coverage::Line& each) { return each.mutant == name; });
        REQUIRE(line != set.coverage.lines.end());
        CHECK(line->required_by == Power::precision);
        CHECK(std::any_of(set.chosen.begin(), set.chosen.end(),
                          [&](std::size_t i) { return line->detections[i] >= Detection::caught; }));
        // On the same inputs, the kernel passes if the form is declared.
        for (Launch in : set.launches) {
            in.declaration.form = row.form;
            if (is_refused(kernel, in)) FAIL_CHECK("refused although the form is declared");
        }
    }
}

struct StartCase {
    const char *bug, *ops;
    double size;  ///< the bug is detectable only if the format of x has numbers above this
};
constexpr StartCase start_cases[] = {
    {"extreme begins at 0", "max min argmax softmax log_softmax logsumexp cross_entropy", 0},
    {"extreme begins at 1e4", "max min argmax softmax log_softmax logsumexp cross_entropy", 1e4},
    {"extreme begins at 65504", "max min argmax softmax log_softmax logsumexp cross_entropy", 65504},
    {"extreme begins at 1e30", "max min argmax softmax log_softmax logsumexp cross_entropy", 1e30},
    {"extreme begins at FLT_MAX", "max min", 0x1.fffffep127},
    {"extreme begins at FLT_MIN", "max argmax", 0},
    {"extreme without the first", "max min amax argmax", 0},
    {"the first number with its sign", "amax", 0},
    {"at least 1e-12", "amax", 0},
    {"at least 1e-4", "amax", 0},
};

void require_starts(const std::string& x, const std::string& out, double greatest, bool has_infinity) {
    for (const char* op : {"max", "min", "amax", "argmax", "softmax", "log_softmax", "logsumexp", "cross_entropy"}) {
        const std::string keys =
            fmt::format("op = '{}'; x = '{}'{}", op, x, op == std::string("argmax") ? "" : "; out = '" + out + "'");
        const LeastSet set = least_set_of(keys, small);
        for (const StartCase& row : start_cases) {
            // A wrong kernel starts its maximum or minimum from a finite number. In the operation max, a row of -inf
            // reveals this. In min, a row of inf does. In the other operations, such rows reveal nothing: for a row of
            // -inf, the exponentials are NaN or 0 with any start, and every index is a correct argmax. If the output
            // format cannot hold the starting number, the output of the wrong kernel is infinite, which is correct.
            const bool is_extreme = op == std::string("max") || op == std::string("min");
            const double stored = out == "fp16" ? 65504 : out == "bf16" ? 0x1.fep127 : 0x1.fffffep127;
            if (op == std::string("logsumexp") && stored < row.size + 104) continue;
            const bool is_shown =
                is_extreme ? (greatest > row.size || has_infinity) && stored >= row.size : greatest > row.size;
            // The smallest fp16 number is 6e-8. The wrong kernel therefore stores 1e-12 as zero, which is correct.
            if (out == "fp16" && row.bug == std::string("at least 1e-12")) continue;
            if (!is_shown || (std::string(" ") + row.ops + " ").find(std::string(" ") + op + " ") == std::string::npos)
                continue;
            Kernel kernel;
            kernel.bug = row.bug;
            CAPTURE(keys, row.bug);
            CHECK(is_refused_over(set, kernel));
            CHECK(kernel.was_asked());
        }
        for (const Coverage::Line& line : set.coverage.lines) {
            if (line.kind != "range") continue;
            CAPTURE(keys, line.mutant);
            CHECK(line.required_by == Power::all);
            CHECK(std::any_of(set.chosen.begin(), set.chosen.end(),
                              [&](std::size_t i) { return line.detections[i] >= Detection::caught; }));
        }
    }
}

}  // namespace

TEST_CASE("kernels in an undeclared form fail on least sets of inputs, and pass if the form is declared",
          "[check][made][forms]") {
    require_forms("bf16", "bf16");
}

TEST_CASE("kernels in an undeclared form fail on least sets of inputs of all formats", "[check][made][forms][slow]") {
    for (const std::string x : {"fp32", "bf16", "fp16"}) {
        for (const std::string out : {"fp32", "bf16", "fp16"}) require_forms(x, out);
    }
}

TEST_CASE("a maximum or minimum that starts from a fixed number or omits an element fails on least sets of inputs",
          "[check][made]") {
    require_starts("fp16", "fp16", 65504, true);
}

TEST_CASE(
    "in every format, a maximum or minimum that starts from a fixed number or omits an element fails on least sets",
    "[check][made][slow]") {
    for (const std::string out : {"fp32", "bf16", "fp16"}) {
        require_starts("fp32", out, 0x1.fffffep127, true);
        require_starts("bf16", out, 0x1.fep127, true);
        require_starts("fp16", out, 65504, true);
        require_starts("e5m2", out, 57344, true);
        require_starts("e4m3fn", out, 448, false);
    }
}

TEST_CASE(
    "forms of an operation that a check cannot distinguish do not count as wrong kernels, and the report names them",
    "[check][made][forms]") {
    const auto assumed = [](const std::string& keys) {
        std::string all;
        const LeastSet set = least_set_of(keys + "; inputs = ['normal']", "rows = 8; columns = 40");
        const Launch& in = set.launches.front();
        for (const std::string& each : assumptions_of(pose(in.declaration, launched({}, in), pool()).problem))
            all += each + ";";
        for (const Coverage::Line& line : set.coverage.lines) all += line.mutant + ";";
        return all;
    };
    const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
    const std::string silu = assumed("op = 'silu'");
    CHECK(has(silu, "form sigmoid, which cannot be distinguished from quotient"));
    CHECK(has(silu, "computed in the form tanh"));
    CHECK_FALSE(has(silu, "computed in the form quotient"));
    CHECK(has(assumed("op = 'silu'; form = 'quotient'"), "form quotient, which cannot be distinguished from sigmoid"));
    // The form tanh suffers from cancellation, so its limits are wide. The other forms are more accurate and therefore
    // also legal.
    CHECK_FALSE(has(assumed("op = 'silu'; form = 'tanh'"), "in the form"));
    // The largest number of e2m1fn is 6. Half an ulp of m + log s is therefore at most 8 u, where u is the unit
    // roundoff of fp32. This is too small to distinguish the two forms.
    CHECK(has(assumed("op = 'log_softmax'; x = 'e2m1fn'"), "form shifted, which cannot be distinguished from lse"));
    CHECK(has(assumed("op = 'log_softmax'; x = 'e4m3fn'"), "computed in the form lse"));
    CHECK_FALSE(has(assumed("op = 'max'; x = 'e4m3fn'"), "(1e4)"));
    CHECK(has(assumed("op = 'max'; x = 'e4m3fn'"), "extreme begins at a number (0)"));
    CHECK(has(assumed("op = 'max'; x = 'fp16'"), "extreme begins at a number (3.4e38)"));
    CHECK_FALSE(has(assumed("op = 'softmax'; x = 'fp16'"), "(65504)"));
}

TEST_CASE("quantisers that divide instead of multiplying, or the reverse, fail on least sets of inputs",
          "[check][made]") {
    struct Way {
        const char *keys, *mutant;
        bool divides;
    };
    for (const Way& way : {
             Way{"granularity = 'tensor'", "x divided by the inverse of the encode scale", true},
             Way{"granularity = 'row'; scale_rule = 'amax_over_max'", "x divided by the inverse of the encode scale",
                 true},
             Way{"granularity = 'tensor'; scale_rule = 'amax_over_max'; scaling = 'divide'",
                 "x times the inverse of the decode scale", false},
         }) {
        for (const std::string x : {"bf16", "fp16", "fp32"}) {
            const std::string keys = fmt::format("op = 'quantize'; x = '{}'; out = 'e4m3fn'; {}", x, way.keys);
            const LeastSet set = least_set_of(keys, small);
            CAPTURE(keys);
            bool is_refused_by_any = false;
            for (const Launch& in : set.launches) {
                const bool is_row = in.declaration.granularity == "row";
                const std::size_t width = is_row ? in.columns : in.rows * in.columns;
                Floats y = in.at("x");
                for (std::size_t first = 0; first < y.size(); first += width) {
                    float most = 0;
                    for (std::size_t i = first; i < first + width; ++i) most = std::fmax(most, std::fabs(y[i]));
                    const bool is_textbook = std::string_view(way.keys).find("amax_over_max") != std::string_view::npos;
                    const float decode = most == 0 ? 1 : most / 448,
                                usual = static_cast<float>(448.0 / std::fmax(static_cast<double>(most), 1e-12)),
                                encode = is_textbook ? 1 / decode : usual;
                    for (std::size_t i = first; i < first + width; ++i)
                        y[i] = rounded(in.out(), way.divides ? y[i] / (1 / encode) : y[i] * (1 / decode));
                }
                const auto finite = [](float v) { return std::isfinite(v); };
                // Inputs with NaN or infinity are skipped, because a check may refuse their outputs for another reason.
                if (!std::all_of(in.at("x").begin(), in.at("x").end(), finite)) continue;
                const check::Posed posed = check::pose(in.declaration, with_output(in, y), pool());
                const check::Limits limits = check::limits_of(posed.problem, 1e-9, pool());
                is_refused_by_any =
                    is_refused_by_any || !check::judge(limits, posed.out, {.pool = &pool()}).reasons.empty();
            }
            CHECK(is_refused_by_any);
            const auto line = std::find_if(set.coverage.lines.begin(), set.coverage.lines.end(),
                                           [&](const Coverage::Line& each) { return each.mutant == way.mutant; });
            REQUIRE(line != set.coverage.lines.end());
            CHECK(set.coverage.is_caught(*line));
        }
    }
    // If scales are powers of two, division and multiplication are both exact.
    const LeastSet exact = least_set_of("op = 'quantize'; x = 'bf16'; out = 'e4m3fn'; granularity = '1x128'", small);
    for (const Coverage::Line& line : exact.coverage.lines)
        CHECK(line.mutant.find("the inverse of") == std::string::npos);
}

}  // namespace made_forms_test
