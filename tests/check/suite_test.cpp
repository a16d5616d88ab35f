// SPDX-License-Identifier: Apache-2.0
// Tests suites: valid suites, the errors in invalid suites and the positions that they name, and how several inputs of
// one check are judged together.
#include "core/codec.hpp"
#include "experiments/check/verdicts/run.hpp"
#include "experiments/files/config/toml_lines.hpp"
#include "tests/check/npz.hpp"
#include "tests/check/problems.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace suite_test {

using namespace macheps;
using namespace macheps::check;
using namespace macheps::files;
namespace fs = std::filesystem;

namespace {

// The example suite in the specification of the checks (section 9.4), unchanged.
constexpr const char* sample = R"toml([suite]
require = "structure"          # power that every check must have
source  = "csrc/gemm_fp8.cu"   # where annotations point

[[check]]
name = "fp8 rowwise"; op = "gemm"; files = "out/fp8_*.npz"; line = 212
a = "e4m3fn/row"; b = "e4m3fn/column"; out = "bf16"; machine = "cutlass.fp8.default"; scale_order = "any"; bits = false

[[check]]
name = "rmsnorm"; op = "rmsnorm"; files = "out/rms_*.safetensors"; x = "bf16"; eps = 1e-5; arrays = {gain = "w", out = "y"}
functions = "cuda.fast"; sum = "lanes32"; out = "bf16"

[[check]]
name = "decode attention"; op = "attention"; files = "out/att.npz"; causal = true; scale = "1/sqrt(d)";
p = "bf16"; deterministic_with = "out/att_again.npz"
)toml";

std::string error_of(const std::string& toml) {
    try {
        parse_suite(toml, "suite.toml");
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::usage);
        return error.what();
    }
    return {};
}

/// Returns the arrays of an RMSNorm in bf16. x has the standard deviation `sigma`, and columns have different gains.
std::vector<StoredArray> norm_rows(float sigma, float eps, unsigned seed) {
    std::mt19937 random(seed);
    constexpr std::size_t rows = 16, columns = 256;
    const test::Floats x = test::normal(rows * columns, random, 0, sigma, test::kernels::Store::bf16),
                       gain = test::normal(columns, random, 2, 0.5f);
    test::Floats y(rows * columns);
    for (std::size_t r = 0; r < rows; ++r) {
        double squares = 0;
        for (std::size_t c = 0; c < columns; ++c)
            squares += static_cast<double>(x[r * columns + c]) * x[r * columns + c];
        const double factor = 1 / std::sqrt(squares / columns + eps);
        for (std::size_t c = 0; c < columns; ++c)
            y[r * columns + c] = test::kernels::stored(test::kernels::Store::bf16,
                                                       static_cast<float>(x[r * columns + c] * factor * gain[c]));
    }
    return {test::array("x", {rows, columns}, x, test::kernels::Store::bf16), test::array("gain", {columns}, gain),
            test::array("out", {rows, columns}, y, test::kernels::Store::bf16)};
}

const std::string norms = "[[check]]\nop = 'rmsnorm'\neps = 1e-5; x = 'bf16'; out = 'bf16'\n";

std::vector<Checked> run_text(const std::string& toml) {
    return run_suite(parse_suite(toml, "suite.toml"), true, test::pool());
}

}  // namespace

TEST_CASE("the example suite of the specification is accepted unchanged", "[check][suite]") {
    const Suite suite = parse_suite(sample, "suite.toml");
    CHECK(suite.source == "csrc/gemm_fp8.cu");
    REQUIRE(suite.checks.size() == 3);
    const SuiteCheck& gemm = suite.checks[0];
    CHECK(gemm.name == "fp8 rowwise");
    CHECK(gemm.files.at(0).text == "out/fp8_*.npz");
    CHECK(gemm.line == 212);
    CHECK(gemm.declined.empty());
    CHECK(gemm.declaration.formats.at("a").format == e4m3fn);
    CHECK(gemm.declaration.scale_shapes.at("b_scale") == "column");
    CHECK(gemm.declaration.machine_name == "cutlass.fp8.default");
    CHECK(gemm.declaration.machine);
    const SuiteCheck& norm = suite.checks[1];
    CHECK(norm.declaration.eps == 1e-5);
    CHECK(norm.arrays.at("gain") == "w");
    CHECK(norm.declaration.sum_order == "lanes32");
    CHECK(suite.checks[2].name == "decode attention");
    CHECK(suite.checks[2].declined.find("attention") != std::string::npos);
}

TEST_CASE("errors in a suite are reported with line, column and the nearest valid word", "[check][suite]") {
    struct Case {
        std::string toml, says;
    };
    const std::string gemm = "[[check]]\nop = 'gemm'\nfiles = 'x.npz'\n";
    for (const Case& c : {
             Case{"", "suite.toml: the suite has no check"},
             Case{"[suite]\nrequires = 'null'\n" + gemm,
                  "suite.toml:2:1: unknown key 'requires' in [suite] (did you mean 'require'?"},
             Case{"[suit]\n" + gemm, "suite.toml:1:2: unknown key 'suit' in the suite (did you mean 'suite'?"},
             Case{"[suite]\nrequire = 'structur'\n" + gemm,
                  "suite.toml:2:11 (require): 'structur' is not a class of wrong kernels (did you mean 'structure'?"},
             Case{"[check]\nop = 'gemm'\n", "'check' is not a list of tables"},
             Case{"[[check]]\nop = 'gemm'\n", "suite.toml:1:1 (check): a check has no 'files'"},
             Case{"[[check]]\nfiles = 'x'\n", "a check has no 'op'"},
             Case{"[[check]]\nop = 'gem'\nfiles = 'x'\n",
                  "suite.toml:2:6 (op): unknown operation 'gem' (did you mean 'gemm'?"},
             Case{gemm + "machin = 'any'\n",
                  "suite.toml:4:1: unknown key 'machin' of check 'gemm' (did you mean 'machine'?"},
             Case{gemm + "eps = 1e-5\n", "suite.toml:4:7 (eps): gemm has no eps"},
             Case{gemm + "x = 'bf16'\n", "suite.toml:4:5 (x): gemm has no array 'x'"},
             Case{gemm + "a = 'e4m3fm'\n", "suite.toml:4:5 (a): unknown format 'e4m3fm' (did you mean e4m3fn?"},
             Case{gemm + "a = 8\n", "suite.toml:4:5 (a): 'a' is an integer (give a string)"},
             Case{gemm + "alpha = '2'\n", "'alpha' is a string (give a number)"},
             Case{gemm + "saturate = 1\n", "give true or false"},
             Case{gemm + "arrays = {biass = 'b'}\n",
                  "suite.toml:4:11: unknown key 'biass' in the arrays of gemm (did you mean 'bias'?"},
             Case{gemm + "limit = ['fro=1e-3', 'sqn=2']\n",
                  "suite.toml:4:22 (limit): 'sqn=2' is not a valid limit (did you mean 'sqnr'?"},
             Case{gemm + "line = 0\n", "give 1 to"},
             Case{gemm + gemm, "suite.toml:4:1: two checks have the name 'gemm'"},
             Case{gemm + "a = 'bf16'; b = 'bf17'\n", "suite.toml:4:17 (b): unknown format 'bf17'"},
             Case{"[[check]]\nname = '\xc3\xa4;'; op = 'gem'\nfiles = 'x'\n",
                  "suite.toml:2:19 (op): unknown operation 'gem'"},
             Case{"a = [", "suite.toml:1:6"},
             Case{gemm + "a = 'bf16'; \xc8\x8c = 1\n",
                  "suite.toml:4:13: a character outside of strings and comments is not ASCII"},
             Case{gemm + "name = '''\xc8\x8c'''''\n[[check]]\nop = 'gem'; files = ''\n",
                  "suite.toml:6:6 (op): unknown"},
             Case{std::string(300, '['), "nest deeper"},
         }) {
        CAPTURE(c.toml);
        const std::string error = error_of(c.toml);
        CAPTURE(error);
        CHECK(error.find(c.says) != std::string::npos);
    }
}

TEST_CASE("a semicolon outside strings and comments ends a line of a suite", "[check][suite]") {
    const TomlLines lines = split_toml_lines("a = 1; b = ';'  # c; d\ns = \"x\\\";\"; m = '''\n;''' ; e = 2");
    CHECK(lines.text == "a = 1\n b = ';'  # c; d\ns = \"x\\\";\"\n m = '''\n;''' \n e = 2");
    REQUIRE(lines.starts.size() == 6);
    CHECK(lines.starts[1].line == 1);
    CHECK(lines.starts[1].column == 7);
    CHECK(lines.starts[3].line == 2);
    CHECK(lines.starts[3].column == 12);
    CHECK(lines.starts[5].line == 3);
    CHECK_FALSE(split_toml_lines("\xef\xbb\xbf# \xc3\xa4\nb = '\xc3\xa4'").stray);
    CHECK(split_toml_lines("a = '\xc3\xa4'; \xc3\xa4 = 1").stray->column == 10);
    // Quotes within a number or a name do not start a string. The parser reads them like letters.
    for (const char* text : {"a = 9g'\xcd\xa6'", "a = 1.'\xcd\xa6'", "a'\xcd\xa6' = 1", "a = 'b''\xcd\xa6'",
                             "[\"\"\"\nb = '\xcd\xa6'", "'''a\xcd\xa6 = 1"}) {
        CAPTURE(text);
        CHECK(split_toml_lines(text).stray);
    }
    for (const char* text :
         {"a.'\xcd\xa6' = 1", "a = ['\xcd\xa6','\xcd\xa6']", "a = {b='\xcd\xa6', 'c' = \"\xcd\xa6\"}",
          "a = 9g'\nb = '\xcd\xa6'", "a = 1 # '\n'\xcd\xa6' = \"\"\"\n\xcd\xa6\"\"\"\n"}) {
        CAPTURE(text);
        CHECK_FALSE(split_toml_lines(text).stray);
    }
}

TEST_CASE("options of the suite apply to its checks, and options of a check override them", "[check][suite]") {
    const Suite suite =
        parse_suite("[suite]\nrequire = 'null'\ndelta = 1e-6\n" + norms + "files = 'x'\n" +
                        "[[check]]\nname = 'other'\nop = 'softmax'\nfiles = 'x'\nrequire = 'precision'\n"
                        "allow_weak = true\nlimit = ['fro=1e-3', 'sqnr=40']\nrtol = 0.5\n",
                    "suite.toml");
    CHECK(suite.checks[0].options.require == Power::null);
    CHECK(suite.checks[0].options.delta == 1e-6);
    CHECK(suite.checks[0].line == 4);  // without the key `source`, annotations point to this line of the suite
    CHECK(suite.checks[1].options.require == Power::precision);
    CHECK(suite.checks[1].options.allow_weak);
    CHECK(suite.checks[1].options.rtol == 0.5);
    CHECK(suite.checks[1].options.metric_limits.at("sqnr") == 40);
}

TEST_CASE("an input is not weak if another input of the check catches the wrong kernel that it misses",
          "[check][suite]") {
    const test::TemporaryFolder folder;
    test::write_npz(folder.path() / "usual.npz", norm_rows(1, 1e-5f, 1));
    const std::string at = folder.path().string();
    const std::vector<Checked> alone = run_text(norms + "files = '" + at + "/usual.npz'\n");
    REQUIRE(alone.size() == 1);
    REQUIRE(alone[0].outcome == Outcome::weak);  // a wrong eps does not show if numbers are about 1
    CHECK(exit_of(alone) == Exit::check_failed);
    test::write_npz(folder.path() / "small.npz", norm_rows(0x1p-9f, 1e-5f, 2));
    const std::vector<Checked> both = run_text(norms + "files = '" + at + "/*.npz'\n");
    REQUIRE(both.size() == 2);
    CHECK(both[0].input == at + "/small.npz");
    for (const Checked& one : both) {
        CAPTURE(one.text());
        CHECK(one.outcome == Outcome::pass);
        CHECK(one.verdict.reasons.empty());
    }
    CHECK(exit_of(both) == Exit::ok);
    // If the two files belong to different checks, each file is judged alone.
    const std::vector<Checked> apart = run_text(norms + "name = 'one'\nfiles = '" + at + "/usual.npz'\n" + norms +
                                                "name = 'two'\nfiles = '" + at + "/small.npz'\n");
    CHECK(apart[0].outcome == Outcome::weak);
    // If the outputs in one file are wrong, this file and the suite fail, even if all other files pass.
    test::write_npz(folder.path() / "wrong.npz", norm_rows(0x1p-9f, 1e-6f, 3));
    const std::vector<Checked> wrong = run_text(norms + "files = '" + at + "/*.npz'\n");
    CHECK(wrong[2].outcome == Outcome::fail);
    CHECK(wrong[0].outcome == Outcome::pass);
    CHECK(exit_of(wrong) == Exit::check_failed);
}

TEST_CASE("a bad input does not stop the suite, and is reported with its place", "[check][suite]") {
    const test::TemporaryFolder folder;
    const std::string at = folder.path().string();
    test::write_npz(folder.path() / "good.npz", norm_rows(0x1p-9f, 1e-5f, 2));
    std::ofstream(folder.path() / "torn.npz") << "PK\x03\x04 torn";
    std::vector<StoredArray> none = norm_rows(1, 1e-5f, 1);
    for (StoredArray& array : none) {
        array.shape[0] = 0;
        array.bytes.clear();
    }
    test::write_npz(folder.path() / "empty.npz", none);
    const std::vector<Checked> all = run_text(norms + "files = '" + at + "/*.npz'\n");
    REQUIRE(all.size() == 3);
    CHECK(all[0].outcome == Outcome::declined);
    CHECK(all[0].verdict.reasons[0].text.find("suite.toml:1:1: the output is empty") != std::string::npos);
    CHECK(all[1].outcome == Outcome::pass);
    CHECK(all[2].outcome == Outcome::bad_input);
    CHECK(all[2].verdict.reasons[0].code == "KC090");
    CHECK(exit_of(all) == Exit::bad_input);
    CHECK(exit_of(std::span(all).first(2)) == Exit::usage);
    // One check lacks the eps of its norm, and the other has an operation that is not supported.
    const std::vector<Checked> declined = run_text("[[check]]\nop = 'rmsnorm'; x = 'bf16'; out = 'bf16'\nfiles = '" +
                                                   at + "/good.npz'\n[[check]]\nop = 'attention'\nfiles = 'none'\n");
    REQUIRE(declined.size() == 2);
    CHECK(declined[0].outcome == Outcome::declined);
    CHECK(declined[1].outcome == Outcome::declined);
    CHECK(declined[1].verdict.reasons[0].text.find("'attention'") != std::string::npos);
    CHECK(exit_of(declined) == Exit::usage);
    try {
        run_text(norms + "files = '" + at + "/*.safetensors'\n");
        FAIL("a pattern that matches no file was accepted");
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::usage);
        CHECK(std::string(error.what()).starts_with("suite.toml:4:9 (files): no file matches"));
    }
}

TEST_CASE("a file that a suite names is judged even if it is missing, and no file is judged twice", "[check][suite]") {
    const test::TemporaryFolder folder;
    const std::string at = folder.path().string();
    test::write_npz(at + "/tiny.npz", norm_rows(1e-3f, 1e-5f, 1));
    test::write_npz(at + "/usual.npz", norm_rows(1, 1e-5f, 2));
    const auto run_files = [&](const std::string& files) { return run_text(norms + "files = " + files + "\n"); };
    const std::string all = "'" + at + "/*.npz'", tiny = "'" + at + "/tiny.npz'", lost = "'" + at + "/lost.npz'";
    CHECK(run_files("[" + all + ", " + tiny + "]").size() == 2);
    for (const std::string& files : {"[" + all + ", " + lost + "]", "[" + lost + ", " + tiny + "]", lost}) {
        CAPTURE(files);
        const std::vector<Checked> checked = run_files(files);
        REQUIRE(!checked.empty());
        CHECK(checked[0].input == at + "/lost.npz");
        CHECK(checked[0].outcome == Outcome::bad_input);
        CHECK(exit_of(checked) == Exit::bad_input);
    }
    CHECK(error_of(norms + "files = []\n").starts_with("suite.toml:4:9 (files): the list of files is empty"));
    CHECK(error_of(norms + "files = ['x', 3]\n").starts_with("suite.toml:4:15 (files): 'files' is an integer"));
    // A backslash makes the next character literal, so this is the name of one file.
    CHECK(FilePattern{"a\\[1]\\*/x.npz", ""}.name() == "a[1]*/x.npz");
    for (const char* pattern : {"*.npz", "x?", "[ab]"}) CHECK(FilePattern{pattern, ""}.name().empty());
}

TEST_CASE("the exit code of several checks is 1 if any check has 1, otherwise 3 if any has 3, otherwise 2 if any has 2",
          "[check][suite]") {
    const auto code = [](std::vector<Outcome> outcomes, bool allow_weak = false) {
        std::vector<Checked> checks;
        for (const Outcome outcome : outcomes) {
            checks.emplace_back();
            checks.back().outcome = outcome;
            checks.back().options.allow_weak = allow_weak;
        }
        return static_cast<int>(exit_of(checks));
    };
    using enum Outcome;
    CHECK(code({}) == 0);
    CHECK(code({pass, pass}) == 0);
    CHECK(code({pass, declined}) == 2);
    CHECK(code({refused, pass}) == 2);
    CHECK(code({declined, bad_input}) == 3);
    CHECK(code({bad_input, weak}) == 1);
    CHECK(code({bad_input, fail, declined}) == 1);
    CHECK(code({weak, pass}, true) == 0);
    CHECK(code({weak, declined}, true) == 2);
}

TEST_CASE("the JSON of a check is the same for every run and every number of threads", "[check][suite]") {
    const std::vector<StoredArray> rows = norm_rows(0x1p-9f, 1e-5f, 7);
    Declaration d{.operation = &find_operation("rmsnorm")};
    check::declare(d, "eps", "1e-5");
    check::declare(d, "x", "bf16");
    check::declare(d, "out", "bf16");
    ThreadPool one(1), two(2);
    std::vector<std::string> texts;
    for (ThreadPool* pool : {&one, &two, &two}) {
        Checked checked = check_arrays(d, rows, {}, *pool);
        digest(checked, rows);
        texts.push_back(document_json({&checked, 1}).dump(2));
    }
    CHECK(texts[0] == texts[1]);
    CHECK(texts[1] == texts[2]);
    const Json document = Json::parse(texts[0]);
    CHECK(document.at("schema") == Json("macheps.check/1"));
    const Json& check = document.at("checks")[0];
    for (const char* key : {"name",      "op",     "declared",      "verdict",     "reasons", "rho",
                            "omega",     "z",      "ulp_histogram", "sqnr_db",     "fro",     "max_abs",
                            "max_ulp",   "cosine", "calc_diff",     "outputs",     "sampled", "exact_outputs",
                            "escalated", "power",  "blind",         "assumptions", "inputs",  "notes"}) {
        CAPTURE(key);
        CHECK(check.contains(key));
    }
    CHECK(check.at("declared").at("eps") == Json(1e-5));
    CHECK(check.at("declared").at("x") == Json("bf16"));
    CHECK(check.at("declared").at("functions") == Json("cuda"));
    std::int64_t outputs = 0;
    for (const Json& bin : check.at("ulp_histogram")) outputs += bin.at("outputs").get<std::int64_t>();
    CHECK(outputs == 16 * 256);
}

TEST_CASE("the backward error of a product is the largest error divided by its sum of magnitudes", "[check][suite]") {
    const StoredArray a = stored_array("a", {1, 2}, std::vector<float>{3, -5}),
                      b = stored_array("b", {2, 1}, std::vector<float>{7, 4});
    const Declaration d{.operation = &find_operation("gemm")};
    const Checked checked =
        check_arrays(d, {a, b, stored_array("out", {1, 1}, std::vector<float>{1.5f})}, {}, test::pool());
    CHECK(checked.omega == 0.5 / 41);  // the result is 21 - 20, and the sum of magnitudes is 21 + 20
    CHECK(checked.outcome == Outcome::fail);
    CHECK_FALSE(checked);
    CHECK(checked.text().starts_with("fail  gemm"));
    // There are 2^22 codes from 1 to 1.5, which is half of a binade.
    REQUIRE(checked.code_distances.size() == 24);
    CHECK(checked.code_distances.back() == 1);
    CHECK_THROWS_AS(stored_array("a", {2, 2}, std::vector<float>{1}), Error);
    Declaration misspelt = d;
    CHECK_THROWS_AS(check::declare(misspelt, "machin", "any"), Error);
}

TEST_CASE("the backward error is given only for products without alpha and activation", "[check][suite]") {
    const StoredArray a = stored_array("a", {1, 1}, std::vector<float>{1}),
                      b = stored_array("b", {1, 1}, std::vector<float>{2});
    Declaration plain{.operation = &find_operation("gemm")}, scaled = plain, activated = plain;
    scaled.alpha = 0.5;
    activated.activation = "relu";
    const auto omega = [&](const Declaration& d, float out) {
        return check_arrays(d, {a, b, stored_array("out", {1, 1}, std::vector<float>{out})}, {}, test::pool()).omega;
    };
    CHECK(omega(plain, 3) == 0.5);
    CHECK(std::isnan(omega(scaled, 3)));
    CHECK(std::isnan(omega(activated, 3)));
}

TEST_CASE("the metrics agree with their definitions, computed by hand", "[check][suite]") {
    // The exact outputs are 3, -4 and 0. The kernel's outputs are 3.5, -4 and 0.25, so the errors are 0.5, 0 and 0.25.
    const Checked checked = check_arrays(
        {.operation = &find_operation("gemm")},
        {stored_array("a", {1, 1}, std::vector<float>{1}), stored_array("b", {1, 3}, std::vector<float>{3, -4, 0}),
         stored_array("out", {1, 3}, std::vector<float>{3.5f, -4, 0.25f})},
        {}, test::pool());
    const double signal = 25, noise = 0.3125, power = 12.25 + 16 + 0.0625, product = 10.5 + 16;
    std::map<std::string, double> values;
    for (const check::Metric& metric : checked.verdict.metrics) values[std::string(metric.name)] = metric.value;
    CHECK(values.at("max") == 0.5);
    CHECK(values.at("fro") == Approx(std::sqrt(noise / signal)).epsilon(1e-14));
    CHECK(values.at("sqnr") == Approx(10 * std::log10(signal / noise)).epsilon(1e-14));
    CHECK(values.at("cosine") == Approx(product / std::sqrt(signal * power)).epsilon(1e-14));
    CHECK(values.at("calc_diff") == Approx(1 - 2 * product / (signal + power)).epsilon(1e-12));
    CHECK(values.size() == 6);  // the sixth metric is ulp, in units of the last place of the exact output
}

TEST_CASE("the distance of two numbers in codes is the number of steps from one to the other in their format",
          "[check][suite]") {
    // All finite values of fp16 in order, without -0, which is the same number as 0.
    std::vector<double> values;
    for (std::uint32_t code = 0; code < 0x10000; ++code)
        if (code != 0x8000 && (code & 0x7fff) < 0x7c00) values.push_back(decode64(fp16, code));
    std::sort(values.begin(), values.end());
    const auto place = [&](double x) { return std::lower_bound(values.begin(), values.end(), x) - values.begin(); };
    std::mt19937 random(7);
    std::vector<float> want, got;
    std::vector<std::int64_t> distances(18);
    for (int i = 0; i < 3000; ++i) {
        // A third of the pairs is near zero, where the numbers of a pair may be subnormal and have different signs.
        const auto middle = static_cast<std::ptrdiff_t>(values.size() / 2), spread = i % 3 == 0 ? 3000 : middle;
        const auto draw = [&] {
            return middle + static_cast<std::ptrdiff_t>(random() % static_cast<unsigned>(2 * spread)) - spread;
        };
        const std::ptrdiff_t x = draw(), y = i % 5 == 0 ? x : draw();
        want.push_back(static_cast<float>(values[static_cast<std::size_t>(x)]));
        got.push_back(static_cast<float>(values[static_cast<std::size_t>(y)]));
        const auto distance = static_cast<std::uint64_t>(std::abs(place(want.back()) - place(got.back())));
        ++distances[static_cast<std::size_t>(std::bit_width(distance))];
    }
    const auto n = static_cast<std::int64_t>(want.size());
    Declaration d{.operation = &find_operation("gemm")};
    d.formats["out"].format = fp16;
    const Checked checked =
        check_arrays(d,
                     {stored_array("a", {1, 1}, std::vector<float>{1}), stored_array("b", {1, n}, want),
                      test::array("out", {1, n}, got, test::Store::fp16)},
                     {}, test::pool());
    while (!distances.empty() && distances.back() == 0) distances.pop_back();
    CHECK(checked.code_distances == distances);
}

TEST_CASE("if the error of a product is too large for sums in fp32, the report suggests --machine", "[check][suite]") {
    const std::vector<float> x{0.1f, 0.3f, 0.7f};
    const StoredArray a = stored_array("a", {1, 3}, x), b = stored_array("b", {3, 1}, x);
    Declaration d{.operation = &find_operation("gemm")};
    const auto text_of = [&](float out) {
        return check_arrays(d, {a, b, stored_array("out", {1, 1}, std::vector<float>{out})}, {}, test::pool()).text();
    };
    CHECK(text_of(0.5901f).find("the kernel\n        uses them, declare --machine") != std::string::npos);
    CHECK(text_of(0.59f).find("--machine") == std::string::npos);
    check::declare(d, "machine", "fp32.chain");
    CHECK(text_of(0.5901f).find("--machine") == std::string::npos);
}

TEST_CASE("the report suggests --inner for a norm that rounds before its gain, but not for a wrong norm",
          "[check][suite]") {
    // The outputs `rounded` are exact, except that they are rounded before the gain is applied. This rounding is not
    // declared.
    constexpr std::size_t rows = 8, columns = 256;
    std::vector<float> x(rows * columns), gain(columns), rounded(x.size()), wrong(x.size());
    const auto to_bf16 = [](double v) {
        return static_cast<float>(decode64(bf16, encode64(bf16, v, Round::nearest_even, Overflow::nonsaturate)));
    };
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    for (float& each : x) each = normal(random);
    for (float& each : gain) each = to_bf16(1 + 0.1 * normal(random));
    for (std::size_t r = 0; r < rows; ++r) {
        double squares = 0;
        for (std::size_t c = 0; c < columns; ++c)
            squares += static_cast<double>(x[r * columns + c]) * x[r * columns + c];
        for (std::size_t c = 0; c < columns; ++c) {
            const std::size_t i = r * columns + c;
            const double y = x[i] / std::sqrt(squares / columns + 1e-5);
            rounded[i] = to_bf16(y) * gain[c];
            wrong[i] = static_cast<float>(1.02 * y * gain[c]);
        }
    }
    Declaration d{.operation = &find_operation("rmsnorm")};
    check::declare(d, "eps", "1e-5");
    const auto arrays = [&](const std::vector<float>& out) {
        return std::vector<StoredArray>{stored_array("x", {rows, columns}, x), stored_array("gain", {columns}, gain),
                                        stored_array("out", {rows, columns}, out)};
    };
    const auto checked = [&](const std::vector<float>& out) { return check_arrays(d, arrays(out), {}, test::pool()); };
    const Checked told = checked(rounded), other = checked(wrong);
    CHECK(told.outcome == Outcome::fail);
    CHECK(told.explaining == "--inner bf16");
    CHECK(told.text().find("declare --inner bf16") != std::string::npos);
    CHECK(other.outcome == Outcome::fail);
    CHECK(other.text().find("--inner") == std::string::npos);
    // The short text contains the reasons and figures, but neither the power of the check nor its assumptions.
    CHECK(told.text(false).find("rho ") != std::string::npos);
    CHECK(told.text(false).find("would have") == std::string::npos);
    CHECK(told.text(false).find("assumed") == std::string::npos);
    CHECK(told.text().starts_with(told.text(false)));
    // If every output is NaN, the report has no figures.
    const Checked none = checked(std::vector<float>(x.size(), NAN));
    CHECK(none.outcome == Outcome::fail);
    CHECK(none.text().find("no error to measure") != std::string::npos);
    CHECK(none.text().find("rho ") == std::string::npos);
    CHECK(none.explaining.empty());

    // In a suite, a declaration is suggested only if it explains all inputs of the check that fail.
    const test::TemporaryFolder folder;
    const std::string at = folder.path().string(),
                      suite = "[[check]]\nop = 'rmsnorm'\neps = 1e-5\nfiles = '" + at + "/*.npz'\n";
    const auto write = [&](const char* name, const std::vector<float>& out) {
        test::write_npz(folder.path() / name,
                        {test::array("x", {rows, columns}, x), test::array("gain", {columns}, gain),
                         test::array("out", {rows, columns}, out)});
    };
    write("rounded.npz", rounded);
    write("same.npz", rounded);
    for (const Checked& each : run_text(suite)) CHECK(each.explaining == "--inner bf16");
    write("wrong.npz", wrong);
    for (const Checked& each : run_text(suite)) CHECK(each.explaining.empty());

    // With a wrong eps, tiny rows are far from right. Under --inner fp16 any output would pass, because the limits are
    // larger than the outputs. This declaration is not suggested.
    for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] *= 1e-20f;
        wrong[i] = static_cast<float>(x[i] / std::sqrt(1e-6) * gain[i % columns]);
    }
    const Checked tiny = checked(wrong);
    CHECK(tiny.outcome == Outcome::fail);
    CHECK(tiny.explaining.empty());
}

TEST_CASE("with relative_to, the patterns of a suite are relative to its folder", "[check][suite]") {
    const auto check_of = [](const std::string& relative_to, const std::string& file) {
        return parse_suite("[suite]\n" + relative_to +
                               "[[check]]\nop = 'sum'\nfiles = 'out/*.npz'\ndeterministic_with = 'again/*.npz'\n",
                           file)
            .checks.at(0);
    };
    const std::string to_suite = "relative_to = 'suite'\n";
    CHECK(check_of(to_suite, "a/s.toml").files.at(0).text == "a/out/*.npz");
    CHECK(check_of(to_suite, "a/s.toml").options.deterministic_with == "a/again/*.npz");
    CHECK(check_of(to_suite, "s.toml").files.at(0).text == "out/*.npz");
    CHECK(check_of(to_suite, "a[1]*/s.toml").files.at(0).text == "a\\[1]\\*/out/*.npz");
    for (const std::string& relative_to : {std::string(), std::string("relative_to = 'working_folder'\n")})
        CHECK(check_of(relative_to, "a/s.toml").files.at(0).text == "out/*.npz");
    CHECK(parse_suite("[suite]\n" + to_suite + "[[check]]\nop = 'sum'\nfiles = '/out/*.npz'\n", "a/s.toml")
              .checks.at(0)
              .files.at(0)
              .text == "/out/*.npz");
    CHECK(error_of("[suite]\nrelative_to = 'here'\n[[check]]\nop = 'sum'\nfiles = 'x'\n") ==
          "suite.toml:2:15 (relative_to): unknown folder 'here' (use suite, or working_folder)");
}

}  // namespace suite_test
