// SPDX-License-Identifier: Apache-2.0
// Tests imports with versions that are older or newer than all known releases. The import describes the nearest known
// release, each finding names it, and a table of keys gives no error.
#include "core/text/json.hpp"
#include "experiments/configs/history/history.hpp"
#include "experiments/configs/history/predicates.hpp"
#include "tests/configs/import_case.hpp"

#include <algorithm>
#include <map>

namespace unknown_version_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::configs;

namespace {

std::string_view example_value(const KeyRow& row) {
    switch (row.type) {
        case KeyType::flag:
            return "true";
        case KeyType::number:
            return "0.5";
        case KeyType::count:
            return "2";
        case KeyType::dtype:
            return "bfloat16";
        case KeyType::choice:
        case KeyType::text:
        case KeyType::any:
        case KeyType::list:
        case KeyType::map:
            break;
    }
    return "no-such-value";  // of a wrong type, or not one of the choices
}

/// Returns a config with one key of the framework and two keys that no framework has, or an empty text for a key that
/// stands for several.
std::string config_with(const KeyRow& row) {
    if (row.path.find('*') != std::string_view::npos) return {};
    Json root = Json::object();
    Json* at = &root;
    std::string_view rest = row.path;
    for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
        at = &(*at)[std::string(rest.substr(0, dot))];
        rest.remove_prefix(dot + 1);
    }
    (*at)[std::string(rest)] = std::string(example_value(row));
    root["no_such_key"] = "1";
    root["no_such_dtype_key"] = "1";
    std::string text;
    for (const char letter : root.dump()) text += letter;
    return text;
}

bool is_of_history(const Finding& finding) {
    if (!finding.fault.empty()) return true;
    const auto& rows = fault_rows();
    return std::any_of(rows.begin(), rows.end(),
                       [&](const FaultRow* row) { return history::is_one_of(finding.rule, row->finding); });
}

void erase_all(std::string& text, const std::string& part) {
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part)) text.erase(at, part.size());
}

/// Returns the findings, without those of the history and those about versions. If `unknown` is given, the names of the
/// described release are removed from the messages.
std::vector<std::string> statements(const ImportResult& result, const std::string& rank = {}) {
    std::vector<std::string> all;
    const std::string release = fmt::format("{} {}", result.framework->title, to_string(result.version));
    for (const Finding& one : result.findings) {
        if (is_of_history(one) || one.rule.ends_with("/unknown-version")) continue;
        std::string message = one.message;
        if (!rank.empty()) {
            erase_all(message, fmt::format(" ({}, {})", release, rank));
            erase_all(message, fmt::format(" ({})", rank));
        }
        all.push_back(fmt::format("{} [{}] {}", one.rule, one.key, message));
    }
    std::sort(all.begin(), all.end());
    return all;
}

std::vector<std::string> field_lines(const ImportResult& result) {
    std::vector<std::string> lines;
    for (const ResolvedField* field : result.resolved.fields())
        lines.push_back(fmt::format("{} from {}", field_of(result, field->name), field->from));
    return lines;
}

constexpr std::string_view key_rules[] = {"unknown-key",   "key-of-other-version", "wrong-type",
                                          "no-such-dtype", "no-such-choice",       "unknown-optimiser"};

bool is_about_keys(const Finding& finding) {
    const std::string rule = finding.rule.substr(finding.rule.find('/') + 1);
    return std::find(std::begin(key_rules), std::end(key_rules), rule) != std::end(key_rules);
}

const Finding* find_fault_of(const ImportResult& result, std::string_view id) {
    for (const Finding& one : result.findings) {
        if (one.fault == id) return &one;
    }
    return nullptr;
}

}  // namespace

TEST_CASE("an unknown version gives the fields and findings of the nearest known release",
          "[import][unknown-version]") {
    struct Side {
        const char* version;
        std::string_view Framework::*described;
        const char* rank;
    };
    const Side sides[] = {{"0.0.77", &Framework::oldest, "the oldest known release"},
                          {"77.7.7", &Framework::newest, "the newest known release"}};
    std::map<std::string_view, int> softened;
    for (const Framework* framework : frameworks()) {
        for (const KeyRow& row : framework->keys) {
            const std::string text = config_with(row);
            if (text.empty()) continue;
            for (const Side& side : sides) {
                const std::string name(framework->name), described(framework->*side.described);
                const auto import_version = [&](std::string_view version) {
                    return import_text(text, {.framework = name, .versions = fmt::format("{}={}", name, version)});
                };
                const ImportResult known = import_version(described), unknown = import_version(side.version);
                CAPTURE(name, row.path, side.version, text);
                CHECK(unknown.version == parse_version(described));
                CHECK(unknown.unknown_version == parse_version(side.version));
                CHECK_FALSE(known.unknown_version.has_value());
                CHECK(find_rule(known, name + "/unknown-version") == nullptr);
                CHECK(find_rule(unknown, name + "/unknown-version", 'W') != nullptr);
                CHECK(version_text(unknown) ==
                      fmt::format("{}, {} ({} was not checked)", to_string(unknown.version), side.rank, side.version));
                CHECK(field_lines(unknown) == field_lines(known));
                CHECK(statements(unknown, side.rank) == statements(known));
                for (const Finding& one : unknown.findings) {
                    if (is_of_history(one) || one.rule.ends_with("/unknown-version")) continue;
                    CAPTURE(one.rule, one.message, one.instead);
                    CHECK(one.message.find(side.version) == std::string::npos);
                    const bool is_own = one.rule.starts_with(name + "/") && one.code != FindingCode::defaulted &&
                                        !one.rule.ends_with("/recognised");
                    if (is_own && is_about_keys(one)) {
                        CHECK(severity(one) != FindingSeverity::error);
                        CHECK(one.message.find(side.rank) != std::string::npos);
                        CHECK(one.instead.find("remove") == std::string::npos);
                        ++softened[framework->name];
                    }
                }
            }
        }
    }
    CHECK(softened.size() == frameworks().size());
}

TEST_CASE("a config of an old release gets no false refusals", "[import][unknown-version]") {
    const ImportResult lightning =
        import_text("trainer:\n  gpus: 1\n  precision: 16\n  gradient_clip_val: 1.0\nmodel:\n  class_path: my.Model\n",
                    {.framework = "lightning", .versions = "lightning=1.4.5"});
    const Finding* key = find_rule(lightning, "lightning/unknown-key");
    REQUIRE(key != nullptr);
    CHECK(key->message ==
          "Lightning 2.1 (the oldest known release) does not know `trainer.gpus`, and refuses the "
          "config");
    CHECK(key->instead == "check it in the source of Lightning 1.4.5");
    CHECK(severity(*key) == FindingSeverity::warning);
    const Finding* word = find_rule(lightning, "lightning/old-word");
    REQUIRE(word != nullptr);
    CHECK(word->message.ends_with("(Lightning 2.1, the oldest known release)"));
    CHECK(word->instead == "16-mixed (for Lightning 2.1)");
    const Finding* version = find_rule(lightning, "lightning/unknown-version");
    REQUIRE(version != nullptr);
    CHECK(version->message ==
          "Lightning 1.4.5 was not checked: it is 1 major version older than 2.1, the oldest known release. Fields and "
          "findings describe 2.1, and may be false for 1.4.5. Only the history of faults judges 1.4.5 itself");
    const Finding* fault = find_fault_of(lightning, "pl-amp-clip-scaled");
    REQUIRE(fault != nullptr);
    CHECK(fault->message.starts_with("Lightning 1.4.5 clips gradients before"));
    CHECK(lightning.resolved.find("accum")->from.find("1.4.5") == std::string::npos);

    const ImportResult trl = import_text("model_name_or_path: my/model\ndtype: float16\nfp16: true\n",
                                         {.framework = "trl", .versions = "trl=0.7.2"});
    CHECK(find_rule(trl, "trl/dtype-too-new", 'W') != nullptr);
    const ImportResult titan = import_text("model:\n  name: llama3\nfloat8:\n  enable_float8_linear: true\n",
                                           {.framework = "torchtitan", .versions = "torchtitan=0.0.2"});
    CHECK_FALSE(titan.refused());
}

TEST_CASE("an unknown version of another package is a warning", "[import][unknown-version]") {
    const char* lora = "model_name_or_path: my/model\nuse_peft: true\ndtype: float16\nfp16: true\n";
    const auto adapter = [&](const char* peft) {
        return import_text(lora, {.framework = "trl", .versions = fmt::format("trl=1.16.0,peft={}", peft)});
    };
    CHECK(fields_of(adapter("0.5.0"), {"adapter", "opt_state"}) == "adapter=F opt_state=F");
    CHECK(find_rule(adapter("0.5.0"), "trl/low-weights-under-scaler") == nullptr);
    CHECK(fields_of(adapter("0.6.0"), {"adapter", "opt_state"}) == "adapter=H opt_state=H");
    CHECK(fields_of(adapter("0.11.1"), {"adapter", "opt_state"}) == "adapter=H opt_state=H");
    CHECK(fields_of(adapter("0.12.0"), {"adapter", "opt_state"}) == "adapter=F opt_state=F");
    CHECK(find_rule(adapter("0.2.0"), "peft/unknown-version") == nullptr);
    CHECK(find_rule(adapter("0.1.0"), "peft/unknown-version", 'W') != nullptr);
    CHECK(find_rule(adapter("0.21.2"), "peft/unknown-version") == nullptr);
    CHECK(find_rule(adapter("0.22.0"), "peft/unknown-version", 'W') != nullptr);

    const auto nanogpt = [](const char* torch) {
        return import_text("dtype: float16\nn_embd: 8\n",
                           {.framework = "nanogpt", .versions = fmt::format("torch={}", torch)});
    };
    CHECK(fields_of(nanogpt("2.0.0"), {"opt_kernel"}) == "opt_kernel=fused");
    CHECK(find_rule(nanogpt("2.0.0"), "torch/unknown-version") == nullptr);
    CHECK(fields_of(nanogpt("1.13.1"), {"opt_kernel"}) == "opt_kernel=single");
    CHECK(find_rule(nanogpt("1.13.1"), "torch/unknown-version", 'W') != nullptr);
}

TEST_CASE("a fault without a known end names the nearest known release that has it", "[import][unknown-version]") {
    const ImportResult result = import_text(R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 0}})",
                                            {.framework = "deepspeed", .versions = "deepspeed=0.99"});
    const Finding* fault = find_fault_of(result, "ds-z0-fp16-unscaled");
    REQUIRE(fault != nullptr);
    CHECK(fault->message.find("DeepSpeed 0.19.8 (the newest known release) does not") != std::string::npos);
    CHECK(fault->message.find("0.99") == std::string::npos);
    const ImportResult verl =
        import_text("model:\n  partial_pretrain: my/model\n  strategy: fsdp2\ntrainer:\n  n_gpus_per_node: 8\n",
                    {.framework = "verl", .versions = "verl=0.3"});
    const Finding* mean = find_fault_of(verl, "verl-sft-normalise");
    REQUIRE(mean != nullptr);
    CHECK(mean->message.find("verl 0.5 (the oldest known release) averages") != std::string::npos);
}

TEST_CASE("the distance of two versions is the first number that differs", "[import][unknown-version]") {
    const auto distance = [](const char* a, const char* b) {
        return distance_text(parse_version(a), parse_version(b));
    };
    CHECK(distance("1.4.5", "2.1") == "1 major version");
    CHECK(distance("5.1", "2.9") == "3 major versions");
    CHECK(distance("0.7.2", "0.12.0") == "5 minor versions");
    CHECK(distance("0.15.3", "0.15.0") == "3 patch versions");
}

TEST_CASE("DeepSpeed sums bf16 gradients in fp16 on some paths only before 0.9.0", "[import][unknown-version]") {
    struct Row {
        const char *zero, *version;
        bool is_bad;
    };
    const Row rows[] = {
        {R"({"stage": 2})", "0.7.0", false},
        {R"({"stage": 2})", "0.7.1", true},
        {R"({"stage": 2})", "0.9.0", false},
        {R"({"stage": 2, "reduce_scatter": false})", "0.6.5", true},
        {R"({"stage": 2, "contiguous_gradients": false})", "0.6.5", true},
        {R"({"stage": 1})", "0.6.3", true},
        {R"({"stage": 3})", "0.8.1", false},
        {R"({"stage": 3})", "0.8.2", true},
        {R"({"stage": 0})", "0.8.2", false},
    };
    for (const Row& row : rows) {
        const std::string config = fmt::format(R"({{"bf16": {{"enabled": true}}, "zero_optimization": {}}})", row.zero);
        const std::string with_type = fmt::format(
            R"({{"bf16": {{"enabled": true}}, "communication_data_type": "bfp16", "zero_optimization": {}}})",
            row.zero);
        const auto is_bad = [&](const std::string& text) {
            const Told told{.framework = "deepspeed", .versions = fmt::format("deepspeed={}", row.version)};
            return find_fault_of(import_text(text, told), "ds-bf16-reduced-in-fp16") != nullptr;
        };
        CAPTURE(config, row.version);
        CHECK(is_bad(config) == row.is_bad);
        // Before 0.7.1, ZeRO 1 and ZeRO 2 without contiguous_gradients do not read the key.
        const bool ignores = row.is_bad && std::string_view(row.version).starts_with("0.6") &&
                             std::string_view(row.zero).find("reduce_scatter") == std::string_view::npos;
        CHECK(is_bad(with_type) == ignores);
    }
}

}  // namespace unknown_version_test
