// SPDX-License-Identifier: Apache-2.0
// Tests the checks of causes: their lines are valid Python or valid members of a config, and every name of a setting is
// known to the importers.
#include "core/text/quote.hpp"
#include "experiments/configs/framework.hpp"
#include "experiments/configs/framework_keys.hpp"
#include "experiments/configs/import.hpp"
#include "experiments/configs/symptoms/checks.hpp"
#include "experiments/configs/symptoms/symptoms.hpp"
#include "tests/configs/import_case.hpp"
#include "tests/json.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <set>
#include <string>

namespace symptom_checks_test {

using namespace macheps;
using namespace macheps::configs;
using namespace macheps::test;

namespace {

using Names = std::set<std::string>;

bool is_json(const Check& check) { return check.lines.front().starts_with('"'); }

/// Calls `use` with each check that has lines for a program, and with the title of the program.
template <class Use>
void for_each_check(Use use) {
    for (const CheckStack& stack : check_stacks()) {
        for (const CheckRow& row : check_rows()) {
            CAPTURE(stack.title, row.id);
            if (const std::optional<Check> check = find_check(row.id, stack, 2e-5)) use(stack, *check);
        }
    }
}

/// Returns the names of the arguments of the calls of a function in the lines.
Names arguments_of(const Check& check, const std::string& function) {
    Names names;
    const std::string text = fmt::format("{}", fmt::join(check.lines, "\n"));
    const std::regex call("(^|\n)" + function + R"(\(([^\n]*)\))"), argument(R"((^|, )(\w+)=)");
    for (std::sregex_iterator at(text.begin(), text.end(), call), end; at != end; ++at) {
        const std::string words = (*at)[2];
        for (std::sregex_iterator each(words.begin(), words.end(), argument); each != end; ++each)
            names.insert((*each)[2]);
    }
    return names;
}

/// Returns whether all known releases of a framework have a key.
bool has_key(const Framework& framework, std::string_view path) {
    if (const auto key = find_framework_key(framework_key_text(framework.name), path))
        return (key->since.empty() || !(parse_version(framework.oldest) < parse_version(key->since))) &&
               key->until.empty();
    const std::vector<std::string> inert = words_of(framework.inert_keys);
    return std::any_of(framework.keys.begin(), framework.keys.end(),
                       [&](const KeyRow& row) { return row.path == path && row.since.empty() && row.until.empty(); }) ||
           std::find(inert.begin(), inert.end(), path) != inert.end();
}

}  // namespace

TEST_CASE("every check has a unique id, and is named by a cause or always applies", "[symptoms]") {
    Names ids, named{"run-fp32", "lower-rate"};
    for (const CheckRow& row : check_rows()) {
        CHECK(ids.emplace(row.id).second);
        CHECK_FALSE(row.question.empty());
        CHECK_FALSE(row.torch.empty());
    }
    for (const SymptomRow* row : symptom_rows()) {
        for (const SymptomCause& cause : row->causes()) {
            for (const std::string& id : words_of(cause.checks)) named.insert(id);
        }
    }
    CHECK(named == ids);
}

TEST_CASE("the lines of every check are valid Python", "[symptoms]") {
    if (std::system("python3 -c '' 2>/dev/null") != 0) SKIP_TEST("no python3 here");
    std::string lines;
    int count = 0;
    for_each_check([&](const CheckStack&, const Check& check) {
        if (is_json(check)) return;
        lines += fmt::format("{}\n", fmt::join(check.lines, "\n"));
        ++count;
    });
    CHECK(count > 40);
    const ConfigFolder folder;
    const std::string command = fmt::format("python3 -c 'compile(open(\"{}\").read(), \"checks\", \"exec\")'",
                                            folder.write("checks.py", lines));
    CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("the members of a config of DeepSpeed that checks name are known to its importer", "[symptoms]") {
    int count = 0;
    for_each_check([&](const CheckStack& stack, const Check& check) {
        if (!is_json(check)) return;
        CHECK(stack.title == "DeepSpeed");
        const std::string text = fmt::format("{{{}}}", fmt::join(check.lines, "\n"));
        CHECK_NOTHROW(nlohmann::json::parse(text));
        const ImportResult result = import_text(text, {.framework = "deepspeed"});
        for (const Finding& finding : result.findings) {
            CAPTURE(finding.message);
            CHECK(finding.code != FindingCode::unknown);
        }
        ++count;
    });
    CHECK(count == 4);
}

TEST_CASE("the fields of TrainingArguments and of Lightning's Trainer that checks name are known to the importers",
          "[symptoms]") {
    Names fields, arguments;
    for_each_check([&](const CheckStack&, const Check& check) {
        if (is_json(check)) return;
        fields.merge(arguments_of(check, "TrainingArguments"));
        arguments.merge(arguments_of(check, "Trainer"));
    });
    CHECK(fields.contains("logging_nan_inf_filter"));
    CHECK(arguments.contains("detect_anomaly"));
    for (const std::string& name : fields) {
        CAPTURE(name);
        CHECK(has_key(*find_framework("transformers"), name));
    }
    for (const std::string& name : arguments) {
        CAPTURE(name);
        CHECK(has_key(*find_framework("lightning"), "trainer." + name));
    }
}

TEST_CASE("the lines of a check are those of the program, with the learning rate of the log", "[symptoms]") {
    const CheckStack* trainer = stack_of_framework("llamafactory");
    REQUIRE(trainer != nullptr);
    CHECK(trainer->title == "Transformers Trainer");
    CHECK(stack_of_log("Transformers (console)") == trainer);
    CHECK(stack_of_log("Megatron-LM, GPT-NeoX") == nullptr);
    CHECK(stack_of_framework("megatron") == nullptr);
    const std::optional<Check> check = find_check("lower-rate", *trainer, 2e-4);
    REQUIRE(check);
    CHECK(check->lines.front() == "TrainingArguments(learning_rate=0.0002, warmup_steps=100, max_grad_norm=1.0)");
    CHECK_FALSE(find_check("unscale", *trainer, 1));  // the Trainer unscales itself
    CHECK_FALSE(find_check("no-such-check", *trainer, 1));
}

}  // namespace symptom_checks_test
