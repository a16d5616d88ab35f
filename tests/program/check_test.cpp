// SPDX-License-Identifier: Apache-2.0
// Tests `macheps check`: verdicts and their exit codes, JSON, files of bounds, errors, and the examples in its help.
#include "experiments/files/arrays/arrays.hpp"
#include "experiments/files/arrays/zip.hpp"
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace check_test {

using macheps::files::read_arrays;
using macheps::files::stored_zip;
using namespace macheps::test;
using namespace macheps::files;
using nlohmann::json;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string npy(const std::string& type, const std::string& shape, const std::string& bytes) {
    std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header.append(117 - header.size(), ' ');
    header += '\n';
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + bytes;
}
std::string bytes_of(const std::vector<float>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * 4};
}
std::string codes_of(const std::vector<float>& values) {  // bf16 codes of values that bf16 represents
    std::string text;
    for (const float x : values) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &x, 4);
        text += {static_cast<char>(bits >> 16), static_cast<char>(bits >> 24)};
    }
    return text;
}

constexpr int m = 40, n = 36, k = 48;

/// Writes a matrix product to one file for each array. The values of a and b are multiples of 1/16 that bf16
/// represents. Adds `spoil` to one output.
void write_gemm(float spoil) {
    std::mt19937 random(1);
    std::vector<float> a(m * k), b(k * n), out(m * n);
    for (float& x : a) x = static_cast<float>(static_cast<int>(random() % 129) - 64) / 16;
    for (float& x : b) x = static_cast<float>(static_cast<int>(random() % 129) - 64) / 16;
    for (int i = 0; i < m * n; ++i) {
        for (int p = 0; p < k; ++p) out[i] += a[i / n * k + p] * b[p * n + i % n];
    }
    out[77] += spoil;
    write("a.npy", npy("<f4", "(40, 48)", bytes_of(a)));
    write("b.npy", npy("<f4", "(48, 36)", bytes_of(b)));
    write("a16.npy", npy("|V2", "(40, 48)", codes_of(a)));
    write("b16.npy", npy("<u2", "(48, 36)", codes_of(b)));
    write("out.npy", npy("<f4", "(40, 36)", bytes_of(out)));
}

}  // namespace

TEST_CASE("a right product passes; a product with a wrong element fails, and the report gives its indices",
          "[program][check]") {
    write_gemm(0);
    const Outcome right = run("check a.npy b.npy out.npy --op gemm");
    CHECK(right.code == 0);
    CHECK(right.err.empty());
    CHECK(
        right.out.starts_with("pass  gemm  fp32[40, 48] x fp32[48, 36], machine fp32 sums over slices of k -> fp32\n"));
    CHECK(holds(right.out, "  exact: 1440 of 1440 outputs have their only right value\n"));
    CHECK(holds(right.out, "smallest faults that would have been caught: scale errors of "));
    CHECK(run("check a16.npy b16.npy out.npy a=a16 b=b16 --a bf16 --b bf16 --op gemm").code == 0);
    CHECK(run("check a16.npy b16.npy out.npy a=a16 b=b16 --a bf16 --b bf16 --op gemm --machine sm80.mma.bf16").code ==
          0);
    write_gemm(0.25f);
    const Outcome wrong = run("check a.npy b.npy out.npy --op gemm");
    CHECK(wrong.code == 1);
    CHECK(wrong.out.starts_with("fail  "));
    CHECK(holds(wrong.out, "KC041 T1"));
    CHECK(holds(wrong.out, "(2, 5): got "));
    fs::remove_all(scratch());
}

TEST_CASE("a check writes JSON and a file of bounds", "[program][check]") {
    write_gemm(0);
    const Outcome outcome = run("check a.npy b.npy out.npy --op gemm --json --bounds limits.npz");
    REQUIRE(outcome.code == 0);
    const json document = json::parse(outcome.out);
    CHECK(document.at("schema") == "macheps.check/1");
    const json& check = document.at("checks").at(0);
    CHECK(check.at("verdict") == "pass");
    CHECK(check.at("outputs") == 1440);
    CHECK(check.at("power").size() >= 9);
    CHECK(check.at("inputs").at(0).at("sha256").get<std::string>().size() == 64);
    const auto arrays = read_arrays(scratch() / "limits.npz");
    REQUIRE(arrays.size() == 3);
    CHECK(arrays[1].name == "certain");
    CHECK(arrays[1].shape == std::vector<std::int64_t>{40, 36});
    CHECK(run("check a.npy b.npy out.npy --op gemm --json --bounds limits.npz").out == outcome.out);
    CHECK(run("check a.npy b.npy out.npy --op gemm --bounds nowhere/limits.npz").code == 5);
    fs::remove_all(scratch());
}

TEST_CASE("with --sample, a sample of a product's outputs is judged exactly and all outputs are screened",
          "[program][check]") {
    write_gemm(0);
    const std::string arguments = "check a.npy b.npy out.npy --op gemm --sample 8 --allow-weak --json";
    const Outcome right = run(arguments);
    REQUIRE(right.code == 0);
    const json check = json::parse(right.out).at("checks").at(0);
    CHECK(check.at("sampled") == 8);
    CHECK(check.at("outputs").get<int>() < 1440);
    CHECK(check.at("screen").at("outputs") == 1440);
    CHECK(run(arguments, "taskset -c 0").out == right.out);
    CHECK(run(arguments, "MACHEPS_SIMD=scalar").out == right.out);
    // With a large budget, all outputs are judged.
    CHECK(json::parse(run("check a.npy b.npy out.npy --op gemm --budget 1000s --json").out)
              .at("checks")
              .at(0)
              .at("sampled") == false);
    write_gemm(512);
    const Outcome wrong = run("check a.npy b.npy out.npy --op gemm --sample 8 --allow-weak");
    CAPTURE(wrong.out);
    CHECK(wrong.code == 1);
    CHECK(holds(wrong.out, "(2, 5): got "));
    fs::remove_all(scratch());
}

TEST_CASE("a check of a machine's bits prints the same JSON with every instruction set and number of threads",
          "[program][check]") {
    write_gemm(0);
    const std::string arguments =
        "check a16.npy b16.npy out.npy a=a16 b=b16 --a bf16 --b bf16 --op gemm --machine sm80.mma.bf16 --bits --json";
    const Outcome right = run(arguments);
    CHECK(right.code == 0);
    const json check = json::parse(right.out).at("checks").at(0);
    CHECK(check.at("bits").at("differ") == 0);
    CHECK(check.at("guaranteed_bits").is_string());  // the string "inf", because the product is exact
    CHECK(run(arguments, "MACHEPS_SIMD=scalar").out == right.out);
    CHECK(run(arguments, "taskset -c 0").out == right.out);
    write_gemm(0.25f);
    const Outcome wrong = run(arguments);
    CHECK(wrong.code == 1);
    CHECK(holds(wrong.out, "KC040"));
    fs::remove_all(scratch());
}

TEST_CASE("bad input, bad arguments and limits that are too loose have the right exit codes", "[program][check]") {
    write_gemm(0);
    write("short.npy", npy("<f4", "(40, 36)", "abcd"));
    write("pickle.npy", npy("|O", "(1,)", "abcd"));
    struct Case {
        const char* arguments;
        int code;
        const char* says;
    };
    for (const Case& c : {
             Case{"a.npy b.npy --op gemm", 3, "there is no array 'out'"},
             Case{"a.npy b.npy short.npy out=short --op gemm", 3, "ends before its last element"},
             Case{"a.npy b.npy pickle.npy --op gemm", 3, "elements of type '|O'"},
             Case{"missing.npz --op gemm", 3, "missing.npz"},
             Case{"a.npy out.npy b=a --op gemm", 3, "there is no array 'a'"},
             Case{"a16.npy b.npy out.npy a=a16 --op gemm", 3, "declare the format, as in --a bf16"},
             Case{"a.npy b.npy out.npy --op gemm --a bf16", 3,
                  "the file says <f4 (fp32), but the declaration says bf16"},
             Case{"a.npy b.npy out.npy --op gemm --a bf17", 2, "bf17"},
             Case{"a.npy b.npy out.npy --op gem", 2, "gem"},
             Case{"a.npy b.npy out.npy --op gemm --machine sm81", 2, "sm81"},
             Case{"a.npy b.npy out.npy --op gemm --machine sm80.mma.tf32", 2, "reads fp32 as tf32"},
             Case{"a.npy b.npy out.npy --op gemm --a int8", 2, "'int8' is an integer type"},
             Case{"a.npy b.npy out.npy --op gemm --partials bf17", 2, "bf17"},
             Case{"a.npy b.npy out.npy --op gemm --b-layout nk", 3, "shapes disagree"},
             Case{"a.npy b.npy out.npy offsets=a --op gemm", 3, "there is no array 'a'"},
             Case{"a.npy b.npy out.npy --op gemm --eps 1", 2, "gemm has no eps"},
             Case{"a.npy b.npy out.npy --op gemm --x fp32", 2, "gemm has no array 'x'"},
             Case{"a.npy b.npy out.npy --op gemm --beta 2", 2, "there is no array 'c'"},
             Case{"a.npy b.npy out.npy --op gemm --limit speed=1", 2, "one of max, ulp"},
             Case{"a.npy b.npy out.npy --op gemm --delta 2", 2, "--delta"},
             Case{"a.npy b.npy out.npy --op gemm --sample 0", 2, "--sample"},
             Case{"a.npy b.npy out.npy --op gemm --sample 2.5", 2, "not a whole number"},
             Case{"a.npy b.npy out.npy --op gemm --budget soon", 2, "--budget"},
             Case{"a.npy b.npy out.npy --op gemm --tile 16", 2, "is not a valid tile"},
             Case{"a.npy b.npy out.npy --op gemm --sample 4 --bounds limits.npz", 2, "--bounds"},
             Case{"a.npy out.npy x=a --op rmsnorm", 2, "--eps"},
             Case{"a.npy x=a --op softmax --alpha 2", 2, "softmax has no alpha"},
         }) {
        CAPTURE(c.arguments);
        const Outcome outcome = run(std::string("check ") + c.arguments);
        CAPTURE(outcome.err);
        CHECK(outcome.code == c.code);
        CHECK(holds(outcome.err, c.says));
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    }
    const Outcome refused = run("check a.npy b.npy out.npy --op gemm --rtol 1 --atol 1");
    CHECK(refused.code == 2);
    CHECK(refused.out.starts_with("refused"));
    CHECK(holds(refused.out, "KC051"));
    fs::remove_all(scratch());
}

TEST_CASE("every example of the check's help runs", "[program][check]") {
    write_gemm(0);
    std::mt19937 random(2);
    // Each example runs on files that have the names in the example. If the example declares bf16, the matrix product
    // is written as bf16 codes.
    std::istringstream help(run("check --help").out);
    int examples = 0;
    for (std::string line; std::getline(help, line);) {
        if (!line.starts_with("  macheps check ")) continue;
        const std::string arguments = line.substr(10, line.find("  ", 10) - 10);
        const bool is_bf16 = holds(arguments, "--a bf16"), is_norm = holds(arguments, "rmsnorm"),
                   is_softmax = holds(arguments, "softmax");
        std::string expected = holds(arguments, "--help") ? "gemm: " : "pass";
        if (is_softmax) {
            std::vector<float> x(32 * 64), y(32 * 64);
            for (float& each : x) each = static_cast<float>(random() % 1000) / 250;
            for (std::size_t row = 0; row < 32; ++row) {
                double sum = 0;
                for (std::size_t i = 0; i < 64; ++i) sum += std::exp(static_cast<double>(x[row * 64 + i]));
                for (std::size_t i = 0; i < 64; ++i)
                    y[row * 64 + i] = static_cast<float>(std::exp(static_cast<double>(x[row * 64 + i])) / sum);
            }
            write("x.npy", npy("<f4", "(32, 64)", bytes_of(x)));
            write("y.npy", npy("<f4", "(32, 64)", bytes_of(y)));
        } else if (is_norm) {
            std::vector<float> x(32 * 64), w(64, 1.5f), y(32 * 64);
            for (float& each : x) each = static_cast<float>(static_cast<int>(random() % 1000) - 500) / 250;
            for (std::size_t row = 0; row < 32; ++row) {
                double squares = 0;
                for (std::size_t i = 0; i < 64; ++i) squares += std::pow(static_cast<double>(x[row * 64 + i]), 2);
                for (std::size_t i = 0; i < 64; ++i)
                    y[row * 64 + i] = static_cast<float>(x[row * 64 + i] / std::sqrt(squares / 64 + 1e-5) * 1.5);
            }
            const std::string header =
                R"({"x":{"dtype":"F32","shape":[32,64],"data_offsets":[0,8192]},"w":{"dtype":"F32","shape":[64],"data_offsets":[8192,8448]},"out":{"dtype":"F32","shape":[32,64],"data_offsets":[8448,16640]}})";
            std::string length;
            for (int i = 0; i < 8; ++i) length += static_cast<char>(header.size() >> (8 * i));
            write("norm.safetensors", length + header + bytes_of(x) + bytes_of(w) + bytes_of(y));
            expected = "weak";  // all gains are equal, so the check cannot detect a read of a neighbouring gain
        } else {
            // Write an archive of the arrays in the formats that the example declares.
            write_gemm(0);
            const std::string a = contents(scratch() / (is_bf16 ? "a16.npy" : "a.npy")),
                              b = contents(scratch() / (is_bf16 ? "b16.npy" : "b.npy"));
            std::string out = contents(scratch() / "out.npy");
            if (is_bf16) {
                std::vector<float> y(m * n);
                std::memcpy(y.data(), out.data() + 128, y.size() * 4);
                for (float& each : y) {
                    std::uint32_t bits = 0;
                    std::memcpy(&bits, &each, 4);
                    bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
                    std::memcpy(&each, &bits, 4);
                }
                out = npy("|V2", "(40, 36)", codes_of(y));
            }
            write("out.npz", stored_zip({{"a.npy", a}, {"b.npy", b}, {"out.npy", out}}));
            const std::string recipe = R"({"op": "gemm", "declared": {}})";
            fs::create_directories(scratch() / "inputs");
            write("inputs/normal.npz",
                  stored_zip({{"a.npy", a},
                              {"b.npy", b},
                              {"out.npy", out},
                              {"recipe.npy", npy("|u1", "(" + std::to_string(recipe.size()) + ",)", recipe)}}));
            write("suite.toml", "[[check]]\nop = \"gemm\"\nfiles = \"out.npz\"\n");
        }
        CAPTURE(arguments);
        const Outcome outcome = run(arguments);
        CAPTURE(outcome.out, outcome.err);
        CHECK(outcome.code == 0);
        CHECK(outcome.err.empty());
        CHECK((outcome.out.starts_with(expected) || holds(outcome.out, "\"verdict\": \"pass\"")));
        ++examples;
    }
    CHECK(examples == 11);
    fs::remove_all(scratch());
}

TEST_CASE("an operation that check cannot judge is declined, on the command line and in a suite", "[program][check]") {
    write_gemm(0);
    const Outcome alone = run("check out.npy --op attention");
    CHECK(alone.code == 2);
    CHECK(alone.out.starts_with("declined  attention\n  KC092 declined  "));
    CHECK(alone.err.empty());
    const json document = json::parse(run("check out.npy --op attention --json").out);
    CHECK(document.at("verdict") == "declined");
    CHECK(document.at("checks")[0].at("reasons")[0].at("code") == "KC092");
    write("later.toml", "[[check]]\nop = 'attention'\nfiles = 'out.npy'\n");
    const Outcome suite = run("check later.toml --json");
    CHECK(suite.code == 2);
    CHECK(json::parse(suite.out).at("checks")[0].at("verdict") == "declined");
    // The check also declines other features that it knows but cannot judge, such as --bits without a machine.
    const Outcome bits = run("check a.npy b.npy out.npy --op gemm --bits");
    CHECK(bits.code == 2);
    CHECK(bits.out.starts_with("declined  gemm\n  KC092 declined  "));
    fs::remove_all(scratch());
}

}  // namespace check_test
