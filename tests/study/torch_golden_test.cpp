// SPDX-License-Identifier: Apache-2.0
// Compares emulated products and sums of PyTorch on CPUs bit by bit with results of PyTorch that tests/peers/golden.py
// recorded.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/host/read_file.hpp"
#include "core/text/json.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/matmul/rules.hpp"
#include "experiments/study/sum/kernel.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <filesystem>

namespace torch_golden_test {

using namespace macheps;

namespace {

std::filesystem::path folder() { return std::filesystem::path(MACHEPS_SOURCE_DIR) / "tests/golden/torch_cpu"; }

/// Returns number `i` of a stream, computed as in golden.py: Murmur's finaliser applied to a counter.
float number(std::uint32_t stream, std::int64_t i) {
    std::uint32_t x = static_cast<std::uint32_t>(i) * 0x9e3779b1u + stream * 0x85ebca6bu;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    x ^= x >> 16;
    const double value = std::ldexp(128 + (x & 127), static_cast<int>((x >> 7) % 13) - 13);
    return static_cast<float>((x >> 30 & 1) != 0 ? -value : value);
}

struct GoldenProduct {
    std::int64_t m, n, k;
    Format format;
    std::vector<float> a, b, bias;
};

GoldenProduct product_of(const Json& row) {
    GoldenProduct p{row["m"].get<int>(),
                    row["n"].get<int>(),
                    row["k"].get<int>(),
                    format_named(row["format"].get<std::string>(), "golden"),
                    {},
                    {},
                    {}};
    const auto stream = row["stream"].get<std::uint32_t>();
    const std::int64_t half = p.k / 2;
    const auto twin = [&](std::int64_t q) { return half % 7 == 0 ? q : q * 7 % half; };
    const auto source = [&](std::int64_t q) { return q >= half && q < 2 * half ? twin(q - half) : q; };
    for (std::int64_t i = 0; i < p.m * p.k; ++i) {
        const std::int64_t q = i % p.k;
        p.a.push_back(number(2 * stream, i - q + source(q)) * (q >= half && q < 2 * half ? -1.0f : 1.0f));
    }
    for (std::int64_t i = 0; i < p.k * p.n; ++i) p.b.push_back(number(2 * stream + 1, source(i / p.n) * p.n + i % p.n));
    if (row["bias"].get<bool>())
        for (std::int64_t j = 0; j < p.n; ++j) p.bias.push_back(number(100 + stream, j) / 512);
    return p;
}

/// Returns the name of the matmul rule that PyTorch follows for a product on an instruction set.
const char* rule_of(const GoldenProduct& p, const std::string& isa) {
    const bool all = isa == "ALL";
    if (p.format == fp32) return "blas.onednn";  // MKL's order on an Intel CPU
    if (p.format == fp16) return all ? "torch.cpu.fp16.avx512_fp16" : "torch.cpu.fp16";
    if (p.m * p.n * p.k <= 4096) return "torch.cpu.bf16.small";
    return all ? "torch.cpu.bf16.amx" : "torch.cpu.bf16";
}

std::vector<float> computed(const GoldenProduct& p, const MatmulRule& rule, Simd simd) {
    CpuBackend backend(1, simd);
    Tensor a = backend.empty({p.m, p.k}), b = backend.empty({p.k, p.n}), c = backend.empty({p.m, p.n}),
           bias = backend.empty({p.n});
    backend.upload(p.a, a.view());
    backend.upload(p.b, b.view());
    Matmul args{.m = p.m, .n = p.n, .k = p.k};
    args.a = {.data = a.data(), .ld = p.k, .format = p.format};
    args.b = {.data = b.data(), .ld = p.n, .format = p.format};
    args.out = c.data();
    args.ld_out = p.n;
    args.out_cast.format = p.format;
    args.rule = rule;
    if (!p.bias.empty()) {
        backend.upload(p.bias, bias.view());
        args.bias = bias.data();
    }
    backend.matmul(args);
    std::vector<float> out(static_cast<std::size_t>(p.m * p.n));
    backend.download(c.view(), out);
    return out;
}

/// Decodes a text of hexadecimal codes without separators.
std::vector<float> decoded(const Format& format, const std::string& text) {
    const auto digits = static_cast<std::size_t>(format.bits / 4);
    std::vector<float> out;
    for (std::size_t i = 0; i < text.size(); i += digits)
        out.push_back(decode(format, static_cast<std::uint32_t>(std::stoul(text.substr(i, digits), nullptr, 16))));
    return out;
}

int differing(const std::vector<float>& x, const std::vector<float>& y) {
    int count = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
        count += bit_cast<std::uint32_t>(x[i]) != bit_cast<std::uint32_t>(y[i]) ? 1 : 0;
    return count;
}

std::vector<std::filesystem::path> recordings() {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder()))
        if (entry.path().extension() == ".json") files.push_back(entry.path());
    return files;
}

}  // namespace

TEST_CASE("emulated products have the bits of PyTorch on a CPU", "[analysis][torch]") {
    std::size_t products = 0;
    for (const auto& file : recordings()) {
        const Json golden = Json::parse(read_file(file));
        const auto isa = golden["isa"].get<std::string>();
        for (std::size_t i = 0; i < golden["products"].size(); ++i, ++products) {
            const GoldenProduct p = product_of(golden["products"][i]);
            const std::vector<float> want = decoded(p.format, golden["products"][i]["out"].get<std::string>());
            const char* const name = rule_of(p, isa);
            CAPTURE(file.string(), i, name, p.m, p.n, p.k);
            REQUIRE(want.size() == static_cast<std::size_t>(p.m * p.n));
            for (const Simd simd : available_simd())
                CHECK(differing(computed(p, find_matmul_rule(name)->rule, simd), want) == 0);
            // Positive and negative products cancel, so another order of additions changes most outputs.
            const MatmulRule other =
                p.format == fp32 ? MatmulRule{}
                                 : find_matmul_rule(isa == "ALL" ? "torch.cpu.bf16" : "torch.cpu.bf16.amx")->rule;
            if (p.format != fp16 && p.k > 500)
                CHECK(differing(computed(p, other, chosen_simd()), want) > p.m * p.n / 2);
        }
    }
    CHECK(products == 12);
}

TEST_CASE("the summation method torch has the bits of torch.sum on fp32 numbers", "[analysis][torch]") {
    std::size_t sums = 0;
    for (const auto& file : recordings()) {
        const Json golden = Json::parse(read_file(file));
        for (std::size_t i = 0; i < golden["sums"].size(); ++i, ++sums) {
            const Json& row = golden["sums"][i];
            const auto n = row["n"].get<std::int64_t>();
            std::vector<double> x;
            for (std::int64_t j = 0; j < n; ++j) x.push_back(number(row["stream"].get<std::uint32_t>(), j));
            const auto sum_by = [&](study::SumMethod method) {
                study::LaneArithmetic arithmetic(chosen_simd(), fp32, Round::nearest_even, {});
                return static_cast<float>(
                    sum_in_lanes(arithmetic, method, 0, {.x = x.data(), .n = n, .is_shared = true}).value.lane[0]);
            };
            CAPTURE(file.string(), n);
            const float sum = sum_by(study::SumMethod::torch);
            CHECK(differing({sum}, decoded(fp32, row["sum"].get<std::string>())) == 0);
            CHECK(differing({sum / static_cast<float>(n)}, decoded(fp32, row["mean"].get<std::string>())) == 0);
            if (n >= 100000)
                CHECK(differing({sum_by(study::SumMethod::lanes)}, decoded(fp32, row["sum"].get<std::string>())) == 1);
        }
    }
    CHECK(sums == 10);
}

}  // namespace torch_golden_test
