// SPDX-License-Identifier: Apache-2.0
// Compares scale rules with the test vectors in recipe_vectors.jsonl: scales, codes and traces of delayed scaling that
// another implementation computed.
#include "core/format_table.hpp"
#include "core/text/json.hpp"
#include "emulation/scaling/history.hpp"
#include "emulation/scaling/scaling.hpp"
#include "tests/emulation/backends.hpp"

#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace recipe_vectors_test {

using namespace macheps;

namespace {

std::vector<float> floats(const Json& hex) {
    const std::string& text = hex.string();
    std::vector<float> values;
    for (std::size_t i = 0; i + 8 <= text.size(); i += 8) {
        values.push_back(bit_cast<float>(static_cast<std::uint32_t>(std::stoul(text.substr(i, 8), nullptr, 16))));
    }
    return values;
}

/// Returns a description of the first element whose bits differ, or an empty string. Two NaNs count as equal.
std::string compare(const char* what, const std::vector<float>& got, const std::vector<float>& want) {
    if (got.size() != want.size()) return fmt::format("{} {}, expected {}", got.size(), what, want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        const auto a = bit_cast<std::uint32_t>(got[i]), b = bit_cast<std::uint32_t>(want[i]);
        if (a == b || (got[i] != got[i] && want[i] != want[i])) continue;
        return fmt::format("{}[{}] is {:08x} ({}), expected {:08x} ({})", what, i, a, got[i], b, want[i]);
    }
    return {};
}

std::string compare_codes(const std::vector<float>& values, const Format& format, const std::string& want) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::string wanted = want.substr(2 * i, 2);
        const float value = values[i];
        if (wanted == "**" || (wanted == "nn" && value != value)) continue;
        const std::uint32_t code = encode(format, value, Round::nearest_even, Overflow::nonsaturate);
        if (fmt::format("{:02x}", code) == wanted && decode(format, code) == value) continue;
        return fmt::format("codes[{}] is {:02x} ({}), expected {}", i, code, value, wanted);
    }
    return {};
}

/// A fault to inject. The test vectors must detect it.
enum class Fault { none, truncates, one_binade_up, one_binade_down };

/// The rule and the number of binades that off_by_binades() uses: it multiplies the scales of the rule by 2^binades.
/// check_convert() sets both when it injects a fault of one binade.
const ScaleRule* faulted = nullptr;
int binades = 0;
definition::GroupScale off_by_binades(const definition::ScaleGroup& group) {
    const auto scale = faulted->group(group);
    return {std::ldexp(scale.encode, binades), std::ldexp(scale.decode, -binades)};
}

/// Casts the tensor of a test vector (a line of the file) with the scaled cast of a backend. Returns a description of
/// the first difference from the results in the test vector, or "".
std::string check_convert(const Json& line, Backend& backend, Fault fault = Fault::none) {
    const Format format = format_named(line.at("format").string(), "vectors");
    const bool k_is_last = line.at("axis").get<int>() == 1;
    ScaledCast how{.cast = {.format = format, .overflow = Overflow::saturate},
                   .granularity = find_granularity(line.at("granularity").string()),
                   .rule = find_scale_rule(line.at("rule").string()),
                   .k_is_last = k_is_last};
    if (how.granularity == nullptr || how.rule == nullptr) return "no such granularity or rule";
    ScaleRule wrong_rule = *how.rule;
    if (fault == Fault::truncates) how.cast.round = Round::toward_zero;
    if (fault == Fault::one_binade_up || fault == Fault::one_binade_down) {
        faulted = how.rule;
        binades = fault == Fault::one_binade_up ? 1 : -1;
        wrong_rule.group = off_by_binades;
        how.rule = &wrong_rule;
    }
    const auto shape = line.at("shape").get<std::vector<std::int64_t>>();
    const auto grid = line.at("grid").get<std::vector<std::int64_t>>();
    const ScaleGrid made = scale_grid(*how.granularity, k_is_last, shape[0], shape[1]);
    if (made.rows != grid[0] || made.columns != grid[1]) {
        return fmt::format("a grid {} x {}, expected {} x {}", made.rows, made.columns, grid[0], grid[1]);
    }
    const Tensor x = test::uploaded(backend, floats(line.at("x")), {shape[0], shape[1]});
    const Tensor out = backend.empty(x.shape()), decoded = backend.empty(x.shape());
    const Tensor scales = backend.empty({grid[0], grid[1]});
    const ScaledResult result = backend.scaled_cast(x, out, scales, how);
    backend.decode_groups(out, result.scales, k_is_last, result.tensor.decode, decoded);

    std::string wrong = compare("scales", test::downloaded(backend, scales), floats(line.at("scales")));
    if (wrong.empty()) wrong = compare_codes(test::downloaded(backend, out), format, line.at("codes").string());
    if (wrong.empty()) {
        // If the specification does not determine a code ("**"), any decoded value is right.
        std::vector<float> got = test::downloaded(backend, decoded), want = floats(line.at("decoded"));
        for (std::size_t i = 0; i < want.size() && got.size() == want.size(); ++i) {
            if (line.at("codes").string().compare(2 * i, 2, "**") == 0) got[i] = want[i];
        }
        wrong = compare("decoded", got, want);
    }
    if (const Json* scale = line.find("tensor_scale"); wrong.empty() && scale != nullptr) {
        wrong = compare("tensor_scale", {result.tensor.decode}, floats(*scale));
    }
    return wrong;
}

/// Returns the value that follows an option on a command line, or `otherwise`.
std::string option(const Json& args, const std::string& name, const std::string& otherwise) {
    for (std::size_t i = 0; i + 1 < args.size(); ++i) {
        if (args[i].string() == name) return args[i + 1].string();
    }
    return otherwise;
}

/// Computes the scales for the sequence of amaxes in a test vector (a line of the file). Returns a description of the
/// first difference from the scales in the test vector, or "". If `late`, each amax enters the history one step too
/// late. The test vectors must detect this fault.
std::string check_trace(const Json& line, bool late = false) {
    const Format format = format_named(line.at("format").string(), "vectors");
    const ScaleRule* rule = find_scale_rule(line.at("rule").string());
    if (rule == nullptr) return "no such rule";
    const Json& args = line.at("args");
    const bool recent = option(args, "--algorithm", "max") == "most_recent";
    AmaxHistory history(*rule, format,
                        {.length = std::stoi(option(args, "--history", "1024")),
                         .margin = std::stoi(option(args, "--margin", "0")),
                         .choice = recent ? AmaxChoice::most_recent : AmaxChoice::max});
    std::vector<float> scale, scale_inv;
    float last = 0;
    for (const float amax : floats(line.at("amax"))) {
        auto now = definition::group_scale(format, *rule, amax);
        if (rule->has_history()) {
            now = {history.scale(), history.decode_scale()};
            history.observe(late ? std::exchange(last, amax) : amax);
            history.update();
        }
        scale.push_back(now.encode);
        scale_inv.push_back(now.decode);
    }
    const std::string wrong = compare("scale", scale, floats(line.at("scale")));
    return wrong.empty() ? compare("scale_inv", scale_inv, floats(line.at("scale_inv"))) : wrong;
}

std::vector<Json> shared_lines() {
    std::vector<Json> lines;
    std::ifstream in(test::shared_folder() / "vectors" / "recipe_vectors.jsonl");
    for (std::string text; std::getline(in, text);) lines.push_back(Json::parse(text));
    return lines;
}

}  // namespace

TEST_CASE("every engine agrees with the test vectors of every scale rule", "[emulation][scale]") {
    const std::vector<Json> lines = shared_lines();
    if (lines.empty()) SKIP_TEST("no recipe_vectors.jsonl in ../shared/vectors, nor in MACHEPS_SHARED");
    const auto engines = test::backends({1, 2});
    std::size_t tensors = 0, traces = 0;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const Json& line = lines[i];
        CAPTURE(i + 1, line.at("rule").string(), line.at("cls").string());
        if (line.at("kind").string() == "scale") {
            ++traces;
            CHECK(check_trace(line) == "");
            continue;
        }
        ++tensors;
        for (const auto& engine : engines) {
            CAPTURE(engine->name());
            CHECK(check_convert(line, *engine) == "");
        }
    }
    CHECK(tensors >= 464);
    CHECK(traces >= 155);
}

TEST_CASE("test vectors of scale rules detect truncation and scales that are a binade too large or too small",
          "[emulation][scale]") {
    const std::vector<Json> lines = shared_lines();
    if (lines.empty()) SKIP_TEST("no recipe_vectors.jsonl in ../shared/vectors, nor in MACHEPS_SHARED");
    CpuBackend backend(1);
    for (const Fault fault : {Fault::truncates, Fault::one_binade_up, Fault::one_binade_down}) {
        std::map<std::string, int> tensors, wrong;
        for (const Json& line : lines) {
            if (line.at("kind").string() != "convert" || line.at("cls").string() == "zero") continue;
            ++tensors[line.at("rule").string()];
            wrong[line.at("rule").string()] += check_convert(line, backend, fault).empty() ? 0 : 1;
        }
        for (const auto& [rule, count] : tensors) {
            CAPTURE(rule, int(fault), count);
            CHECK(wrong[rule] > count * 2 / 3);
        }
    }
}

TEST_CASE("test vectors of scale rules detect an amax history that is one step late", "[emulation][scale]") {
    const std::vector<Json> lines = shared_lines();
    if (lines.empty()) SKIP_TEST("no recipe_vectors.jsonl in ../shared/vectors, nor in MACHEPS_SHARED");
    std::size_t traces = 0, wrong = 0;
    for (const Json& line : lines) {
        if (line.at("kind").string() != "scale" || line.at("rule").string() != "te_delayed") continue;
        ++traces;
        wrong += check_trace(line, true).empty() ? 0 : 1;
    }
    CHECK(traces > 0);
    CHECK(wrong > traces * 9 / 10);
}

}  // namespace recipe_vectors_test
