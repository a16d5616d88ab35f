// SPDX-License-Identifier: Apache-2.0
// Compares rules and instructions with outputs of libraries on an H100, which scripts/gpu/torch_capture.py and
// triton_capture.py recorded. The rule of an output must give the same bits, and a similar rule must not.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/rules.hpp"
#include "tests/test.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace library_capture_test {

using namespace macheps;

namespace {

/// One recorded output: a row of a, a column of b, their decode scales, and the resulting code.
struct Output {
    std::string rule;
    int slices = 1, granule = 0;
    bool rounds_to_tf32 = false;
    Format a_format, b_format, out_format;
    std::string kernel;
    std::vector<std::uint32_t> a, b, a_scale, b_scale;
    std::uint32_t out = 0;
};

std::vector<std::uint32_t> codes_of(const std::string& text, int bits) {
    std::vector<std::uint32_t> codes;
    const auto digits = static_cast<std::size_t>(bits / 4);
    for (std::size_t i = 0; i < text.size(); i += digits) {
        codes.push_back(static_cast<std::uint32_t>(std::stoul(text.substr(i, digits), nullptr, 16)));
    }
    return codes;
}

std::vector<Output> recorded() {
    std::ifstream in(std::filesystem::path(MACHEPS_SOURCE_DIR) / "tests/traces/h100-80gb-hbm3/library-outputs.csv");
    std::vector<Output> outputs;
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with("#") || line.starts_with("rule,")) continue;
        std::vector<std::string> cells;
        std::istringstream row(line);
        for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
        REQUIRE(cells.size() == 13);
        Output x;
        x.rule = cells[0];
        x.slices = std::stoi(cells[1]);
        x.granule = std::stoi(cells[2]);
        x.rounds_to_tf32 = cells[3] == "tf32:nearest_even";
        REQUIRE((x.rounds_to_tf32 || cells[3].empty()));
        x.a_format = format_named(cells[4], "a");
        x.b_format = format_named(cells[5], "b");
        x.out_format = format_named(cells[6], "out");
        x.kernel = cells[7];
        x.a = codes_of(cells[8], x.a_format.bits);
        x.b = codes_of(cells[9], x.b_format.bits);
        x.a_scale = codes_of(cells[10], 32);
        x.b_scale = codes_of(cells[11], 32);
        x.out = codes_of(cells[12], x.out_format.bits).at(0);
        outputs.push_back(std::move(x));
    }
    return outputs;
}

/// Returns the rule or the machine with the given name. A suffix +promoteN sets the promotion interval.
MatmulRule rule_named(const std::string& text) {
    const std::size_t plus = text.find("+promote");
    const std::string name = text.substr(0, plus);
    const NamedMatmulRule* named = find_matmul_rule(name);
    MatmulRule rule = named != nullptr ? named->rule : MatmulRule{.machine = find_machine(name)};
    REQUIRE(rule.machine != nullptr);
    if (plus != std::string::npos) {
        rule.promotion = Promotion::add;
        rule.promotion_interval = std::stoi(text.substr(plus + 8));
    }
    return rule;
}

std::uint32_t computed(const Output& x, MatmulRule rule, Round to_tf32 = Round::nearest_even) {
    CpuBackend backend(1);
    const auto uploaded = [&](const std::vector<std::uint32_t>& codes, const Format& format) {
        std::vector<float> values;
        for (const std::uint32_t code : codes) {
            const float value = decode(format, code);
            values.push_back(x.rounds_to_tf32 && format == fp32 ? quantize(tf32, value, to_tf32, Overflow::nonsaturate)
                                                                : value);
        }
        Tensor t = backend.empty({static_cast<std::int64_t>(values.size())});
        backend.upload(values, t.view());
        return t;
    };
    const Tensor a = uploaded(x.a, x.a_format), b = uploaded(x.b, x.b_format);
    std::vector<float> scales;
    for (const auto* codes : {&x.a_scale, &x.b_scale}) {
        for (const std::uint32_t code : *codes) scales.push_back(bit_cast<float>(code));
    }
    Tensor held = backend.empty({std::max<std::int64_t>(1, std::ssize(scales))}), out = backend.empty({1, 1});
    if (!scales.empty()) backend.upload(scales, held.view());

    const auto k = std::ssize(x.a);
    Matmul args{.m = 1, .n = 1, .k = k};
    rule.slices = x.slices;
    if (x.granule != 0) rule.slice_granule = x.granule;
    args.rule = rule;
    args.a = {.data = a.data(), .ld = k, .format = decoded_format(*rule.machine, x.a_format)};
    args.b = {.data = b.data(), .ld = 1, .format = decoded_format(*rule.machine, x.b_format)};
    if (rule.scale_order == ScaleOrder::joint && x.a_scale.size() == 1) {
        args.out_scale = scales[0] * scales[1];
    } else if (!scales.empty()) {
        const bool by_block = x.a_scale.size() > 1;
        args.a.scales = {.data = held.data(), .k_block = by_block ? 128 : k, .outer_stride = 1, .k_stride = by_block};
        args.b.scales = args.a.scales;
        args.b.scales.data = held.data() + x.a_scale.size();
    }
    args.out = out.data();
    args.ld_out = 1;
    args.out_cast = {.format = x.out_format};
    backend.matmul(args);
    std::vector<float> result(1);
    backend.download(out.view(), result);
    return static_cast<std::uint32_t>(encode(x.out_format, result[0], Round::nearest_even, Overflow::nonsaturate));
}

}  // namespace

TEST_CASE("outputs of libraries on an H100 agree with their rules in every bit", "[emulation][rules][captures]") {
    // Maps each rule to a similar rule with another scale order, interval or instruction. If a name is mapped to
    // itself, the similar rule is the same rule without slices.
    const std::map<std::string, std::string> similar{
        {"cublaslt.fp8.fast", "cublaslt.fp8.split"},  {"cublaslt.fp8.split", "cublaslt.fp8.fast"},
        {"cublaslt.fp8.outer", "torch.rowwise.sm90"}, {"cublaslt.fp8.outer.fast", "torch.rowwise.sm90.fast"},
        {"cublaslt.fp8.1d2d", "cublaslt.fp8.1d1d"},   {"cublaslt.fp8.1d1d", "cublaslt.fp8.1d2d"},
        {"triton.fp8", "triton.fp8+promote128"},      {"triton.fp8+promote32", "triton.fp8+promote64"},
        {"sm90.wgmma.bf16", "sm80.mma.bf16"},         {"sm90.wgmma.fp16", "sm80.mma.fp16"},
        {"sm90.mma.tf32", "sm80.mma.tf32"},           {"fp32.chain", "fp32.chain"},
    };
    std::map<std::string, int> outputs, differing;
    int by_rounding = 0;
    for (const Output& x : recorded()) {
        CAPTURE(x.rule, x.kernel, x.a.size());
        CHECK(computed(x, rule_named(x.rule)) == x.out);
        REQUIRE(similar.count(x.rule) == 1);
        ++outputs[x.rule];
        Output other = x;
        if (similar.at(x.rule) == x.rule) other.slices = 1;
        differing[x.rule] += computed(other, rule_named(similar.at(x.rule))) != x.out ? 1 : 0;
        if (x.rounds_to_tf32) by_rounding += computed(x, rule_named(x.rule), Round::nearest_away) != x.out ? 1 : 0;
    }
    for (const auto& [rule, other] : similar) {
        CAPTURE(rule, other);
        CHECK(outputs[rule] > 0);
        CHECK(differing[rule] > 0);
    }
    // cuBLAS rounds operands of tf32 products to nearest even. Rounding ties away from zero gives other bits.
    CHECK(by_rounding >= 5);
}

}  // namespace library_capture_test
