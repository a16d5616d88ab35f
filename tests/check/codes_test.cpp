// SPDX-License-Identifier: Apache-2.0
// Checks that each reason for the verdicts fail, weak and refused has its own code.
#include "experiments/check/judge/codes.hpp"
#include "experiments/check/checked.hpp"
#include "tests/check/problems.hpp"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace codes_test {

using namespace macheps;
using namespace macheps::test;
namespace fs = std::filesystem;

namespace {

const fs::path root = MACHEPS_SOURCE_DIR;

struct Product {
    Floats a, b, out;
};
/// Returns a product of normal numbers, [24,32] times [32,24]. Its outputs are sums in fp64 that are rounded once to
/// fp32.
Product product() {
    std::mt19937 random(11);
    Product p;
    p.a = normal(24 * 32, random);
    p.b = normal(32 * 24, random);
    for (std::size_t i = 0; i < 24; ++i) {
        for (std::size_t j = 0; j < 24; ++j) {
            double sum = 0;
            for (std::size_t k = 0; k < 32; ++k) sum += double{p.a[i * 32 + k]} * p.b[k * 24 + j];
            p.out.push_back(static_cast<float>(sum));
        }
    }
    return p;
}
std::set<std::string> codes_of(const Product& p, const check::Options& options, std::optional<double> need_bits = {}) {
    check::Declaration d = declare("gemm", Store::fp32);
    d.need_bits = need_bits;
    const check::Verdict v =
        judge_arrays(d, {array("a", {24, 32}, p.a), array("b", {32, 24}, p.b), array("out", {24, 24}, p.out)}, options);
    std::set<std::string> all;
    for (const check::Reason& reason : v.reasons) all.insert(reason.code);
    return all;
}

}  // namespace

TEST_CASE("different failures (proven error, tolerance, metric limit, lack of bits) have different reason codes",
          "[check][codes]") {
    using Codes = std::set<std::string>;
    const Product right = product();
    CHECK(codes_of(right, {}) == Codes{});
    CHECK(codes_of(right, {.atol = 1e-9}) == Codes{"KC052"});
    CHECK(codes_of(right, {.metric_limits = {{"max", 1e-12}}}) == Codes{"KC053"});
    CHECK(codes_of(right, {}, 30) == Codes{"KC054"});
    CHECK(codes_of(right, {.rtol = 100, .atol = 100}) == Codes{"KC051"});
    Product wrong = right;
    wrong.out[77] *= 1.01f;
    // One output is wrong by 1 %, so its error exceeds its certain bound (KC020). The check has no tolerance (KC052)
    // and does not screen signed sums of outputs (KC022), so these two codes do not appear.
    CHECK(codes_of(wrong, {.certain_only = true}).contains("KC020"));
    CHECK_FALSE(codes_of(wrong, {}).contains("KC052"));
    CHECK_FALSE(codes_of(wrong, {}).contains("KC022"));
}

TEST_CASE(
    "the table of reason codes is sorted without duplicates, and no other source file contains a code as a literal",
    "[check][codes]") {
    std::set<std::string> codes, meanings;
    for (const check::ReasonCode& row : check::reason_code::all) {
        CAPTURE(row.code);
        CHECK((codes.empty() || *codes.rbegin() < row.code));
        codes.emplace(row.code);
        meanings.emplace(row.meaning);
        CHECK(check::reason_codes().at(std::string(row.code)) == row.meaning);
    }
    CHECK(codes.size() == std::size(check::reason_code::all));
    CHECK(meanings.size() == codes.size());
    CHECK(check::reason_codes().size() == codes.size());
    for (const char* folder : {"check", "cmd"}) {
        for (const auto& file : fs::recursive_directory_iterator(root / "experiments" / folder)) {
            if (!file.is_regular_file() || file.path().filename() == "codes.hpp") continue;
            std::stringstream text;
            text << std::ifstream(file.path()).rdbuf();
            CAPTURE(file.path().filename().string());
            CHECK(text.str().find("\"KC0") == std::string::npos);
        }
    }
}

}  // namespace codes_test
