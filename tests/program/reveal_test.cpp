// SPDX-License-Identifier: Apache-2.0
// Tests `macheps reveal` on kernels that it knows only from files: it writes operands, reads results, and reports what
// is wrong with a kernel.
#include "tests/program/program.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace reveal_test {

using namespace macheps::test;

namespace {

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

/// The operands that `macheps reveal` wrote to an .npy file: fp32 numbers of shape [2, rows, k].
struct Operands {
    std::size_t rows = 0, k = 0;
    std::vector<float> values;

    explicit Operands(const std::string& bytes) {
        REQUIRE(bytes.size() > 128);
        const std::size_t length = static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
        CHECK((10 + length) % 64 == 0);
        const std::string header = bytes.substr(10, length);
        REQUIRE(std::sscanf(header.c_str(), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, %zu, %zu, ), }",
                            &rows, &k) == 2);
        values.resize(2 * rows * k);
        REQUIRE(bytes.size() == 10 + length + values.size() * sizeof(float));
        std::memcpy(values.data(), bytes.data() + 10 + length, values.size() * sizeof(float));
    }
    float product(std::size_t r, std::size_t i) const { return values[r * k + i] * values[(rows + r) * k + i]; }
};

using Kernel = std::function<float(const Operands&, std::size_t row)>;

/// Returns the sum of a row's products, added in two interleaved chains whose sums are added at the end.
float two_chains(const Operands& x, std::size_t r) {
    float sum[2] = {};
    for (std::size_t i = 0; i < x.k; ++i) sum[i % 2] += x.product(r, i);
    return sum[0] + sum[1];
}

float chain(const Operands& x, std::size_t r) {
    float sum = 0;
    for (std::size_t i = 0; i < x.k; ++i) sum += x.product(r, i);
    return sum;
}

std::string results_of(const Kernel& kernel, const Operands& x) {
    std::string text;
    for (std::size_t r = 0; r < x.rows; ++r) {
        char line[32];
        std::snprintf(line, sizeof line, "%.9g\n", kernel(x, r));
        text += line;
    }
    return text;
}

/// Lets reveal write operands, runs `kernel` on them, and runs reveal on the results.
Outcome revealed(const std::string& options, const Kernel& kernel) {
    REQUIRE(run("reveal " + options + " --emit-operands x.npy").code == 0);
    write("results", results_of(kernel, Operands(contents(scratch() / "x.npy"))));
    return run("reveal " + options + " --results results --brackets");
}

}  // namespace

TEST_CASE("reveal finds the order of summation of a kernel from files alone", "[program]") {
    const char* tree = "(((((0 2) 4) 6) 8) ((((1 3) 5) 7) 9))\n";
    struct Case {
        std::string format, pairs;
        std::size_t count;
    };
    for (const auto& [format, pairs, count] :
         {Case{"fp16", "near", 25}, Case{"fp16", "all", 45}, Case{"e4m3fn", "near", 25}, Case{"e4m3fn", "all", 45}}) {
        CAPTURE(format, pairs);
        const std::string options = "reveal -k 10 -f " + format + " --pairs " + pairs;
        const Outcome emitted = run(options + " --emit-operands x.npy");
        CAPTURE(emitted.err);
        REQUIRE(emitted.code == 0);
        CHECK(emitted.err.starts_with("writing x.npy: " + std::to_string(count + 5) + " rows (5 controls and " +
                                      std::to_string(count) + " pairs) of 10 terms, "));
        CHECK(says(emitted.err, format == "fp16" ? "b is 1 everywhere" : "take the diagonal"));
        const Operands x(contents(scratch() / "x.npy"));
        REQUIRE(x.rows == count + 5);
        REQUIRE(x.k == 10);
        const std::string row = results_of(two_chains, x);
        std::string square;
        std::istringstream lines(row);
        std::size_t r = 0;
        for (std::string line; std::getline(lines, line); ++r) {
            for (std::size_t q = 0; q < x.rows; ++q) square += r == q ? line + " " : "7, ";
        }
        for (const std::string& results : {row, square}) {
            write("out.txt2", results);
            const Outcome found = run(options + " --results out.txt2 --brackets");
            CAPTURE(found.err);
            CHECK(found.out == tree);
        }
        // Reveal must refuse results that no tree gives, and a wrong number of results. The sixth result is that of the
        // pair (0, 1). These terms meet in the last sum, so the only possible result is 0.
        std::size_t sixth = 0;
        for (int line = 0; line < 5; ++line) sixth = row.find('\n', sixth) + 1;
        write("out.txt2", row.substr(0, sixth) + "1e30" + row.substr(row.find('\n', sixth)));
        CHECK(run(options + " --results out.txt2").code == 1);
        write("out.txt2", "1 2 3");
        CHECK(says(
            run(options + " --results out.txt2").err,
            "for 10 terms there are 5 control rows and " + std::to_string(count) + " pairs with --pairs " + pairs));
        write("out.txt2", "1 2 three");
        const Outcome word = run(options + " --results out.txt2");
        CHECK(word.code == 3);
        CHECK(says(word.err, "'three' (number 3) is not a valid number"));
    }
    // For a chain, it is enough to measure the pairs that contain the first term. Other trees need more pairs.
    CHECK(revealed("-k 6 -f bf16 --pairs first", chain).out == "(((((0 1) 2) 3) 4) 5)\n");
    CHECK(says(revealed("-k 6 -f bf16 --pairs first", two_chains).err, "--pairs all"));
    fs::remove_all(scratch());
}

TEST_CASE("reveal reports terms whose order `--pairs near` cannot determine, and `--pairs all` determines their order",
          "[program]") {
    const auto in_order = [](std::vector<std::size_t> order) {
        return [order](const Operands& x, std::size_t r) {
            float sum = 0;
            for (const std::size_t term : order) sum += x.product(r, term);
            return sum;
        };
    };
    // The kernel adds terms 0 and 3 first, but they are not a near pair: their distance is not a power of two. Without
    // a measurement of this pair, terms 0, 1 and 3 seem to be added in one sum.
    const Kernel open = in_order({0, 3, 1, 2});
    CHECK(revealed("-k 4 -f fp32 --pairs all", open).out == "(((0 3) 1) 2)\n");
    const Outcome near = revealed("-k 4 -f fp32", open);
    CHECK(near.code == 0);
    CHECK(near.out == "((0 1 3) 2)\n");
    CHECK(says(near.err, "where three or more values are rounded together, 1 pair was not measured (use --pairs all)"));
    CHECK(says(run("reveal -k 4 -f fp32 --results results").out, "fits the measured pairs, but is not certain: where"));
    CHECK(says(run("reveal -k 4 -f fp32 --results results --json").out, "\"open_pairs\": 1"));
    // The kernel adds terms 0, 3, 6 and 1 first. No near pair shows that term 6 is one of these four terms.
    const Kernel gap = in_order({0, 3, 6, 1, 2, 4, 5, 7});
    const Outcome missing = revealed("-k 8 -f fp32", gap);
    CHECK(missing.code == 1);
    CHECK(says(missing.err, "not enough: the 4 terms that meet in one sum with term 0 cannot be determined"));
    CHECK(says(missing.err, "--pairs all"));
    CHECK(revealed("-k 8 -f fp32 --pairs all", gap).out == "(((((((0 3) 6) 1) 2) 4) 5) 7)\n");
    fs::remove_all(scratch());
}

TEST_CASE("reveal reports in a sentence why a kernel does not compute the sum of all terms", "[program]") {
    const auto chain_of = [](auto terms_of) {
        return [terms_of](const Operands& x, std::size_t r) {
            float sum = 0;
            for (const std::size_t i : terms_of(x.k)) sum += x.product(r, i);
            return sum;
        };
    };
    const auto upto = [](std::size_t k) {
        std::vector<std::size_t> terms(k);
        for (std::size_t i = 0; i < k; ++i) terms[i] = i;
        return terms;
    };
    const auto ignoring = [upto](std::size_t k) {
        std::vector<std::size_t> terms = upto(k);
        terms.erase(terms.begin() + 37);
        return terms;
    };
    const auto doubling = [upto](std::size_t k) {
        std::vector<std::size_t> terms = upto(k);
        terms.push_back(5);
        return terms;
    };
    const auto swapping = [upto](std::size_t k) {
        std::vector<std::size_t> terms = upto(k);
        terms[9] = 8;
        return terms;
    };
    const auto tail = [upto](std::size_t k) { return upto(k / 16 * 16); };
    struct Case {
        const char* options;
        Kernel kernel;
        const char* says;
    };
    for (const Case& c : {
             Case{"-k 64 -f fp16", [](const Operands&, std::size_t) { return 0.0f; }, "the kernel returns zeros"},
             Case{"-k 64 -f fp16", [](const Operands&, std::size_t) { return 1.0f; },
                  "does not depend on the operands"},
             Case{"-k 64 -f fp16", [](const Operands&, std::size_t) { return 0.0f / 0.0f; }, "not finite"},
             Case{"-k 64 -f fp16", [](const Operands&x, std::size_t r) { return 2 * chain(x, r); }, "2 times the sum"},
             Case{"-k 64 -f fp16", chain_of(ignoring), "term 37 is missing from the sum: 64 units gave 63"},
             Case{"-k 64 -f e4m3fn", chain_of(ignoring), "term 37 is missing"},
             Case{"-k 64 -f fp16", chain_of(doubling), "term 5 is read twice: 64 units gave 65"},
             Case{"-k 64 -f fp16", chain_of(swapping), "one is left out, and another is read instead"},
             Case{"-k 90 -f fp16", chain_of(tail), "the last 10 terms, from 80 on, are missing"},
         }) {
        CAPTURE(c.options, c.says);
        const Outcome outcome = revealed(c.options, c.kernel);
        CAPTURE(outcome.err);
        CHECK(outcome.code == 1);
        CHECK(outcome.out.empty());
        CHECK(says(outcome.err, c.says));
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    }
    CHECK(revealed("-k 64 -f fp16", chain_of(upto)).code == 0);
    fs::remove_all(scratch());
}

TEST_CASE("reveal reports the size of its operands, and needs --force to write more than 1 GB", "[program]") {
    fs::remove_all(scratch());
    const Outcome all = run("reveal -k 1000 -f fp16 --pairs all --emit-operands x.npy");
    CHECK(all.code == 2);
    CHECK(says(all.err, "499511 rows (11 controls and 499500 pairs) of 1000 terms, 4.0 GB"));
    CHECK(says(all.err, "--force"));
    CHECK_FALSE(fs::exists(scratch() / "x.npy"));
    // By default (`--pairs near`), the operands for the same number of terms take only 72 MB.
    const Outcome near = run("reveal -k 1000 -f fp16 --emit-operands x.npy");
    CHECK(near.code == 0);
    CHECK(near.err.starts_with("writing x.npy: 8988 rows (11 controls and 8977 pairs) of 1000 terms, 72 MB\n"));
    CHECK(fs::file_size(scratch() / "x.npy") < 72000000);
    // --force without --emit-operands is a usage error.
    CHECK(run("reveal -k 64 -f fp16 --force").code == 2);
    fs::remove_all(scratch());
}

}  // namespace reveal_test
