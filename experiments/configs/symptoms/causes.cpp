// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/symptoms/causes.hpp"
#include "core/text/quote.hpp"
#include "core/text/split.hpp"
#include "experiments/configs/framework.hpp"
#include "experiments/configs/given_files.hpp"
#include "experiments/configs/history/history.hpp"
#include "experiments/configs/recognition/marks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

namespace macheps::configs {

namespace {

// A longer name comes before a name that is a part of it.
constexpr RuleEngine engines[] = {
    {"fsdp2",
     "fsdp2 fsdp_version=2 fsdp_config.fsdp_version=2 fsdp_config.version=2 fsdp.version=2 "
     "actor_rollout_ref.actor.strategy=fsdp2 engine.strategy=fsdp2 strategy=fsdp2"},
    {"fsdp",
     "fsdp fsdp2 fsdp_config distributed_type=FSDP use_fsdp actor_rollout_ref.actor.strategy=fsdp* "
     "engine.strategy=fsdp* "
     "strategy=fsdp* trainer.strategy=fsdp*"},
    {"deepspeed",
     "deepspeed deepspeed_config distributed_type=DEEPSPEED use_deepspeed zero_stage *.strategy=deepspeed*"},
    {"zero3", "deepspeed deepspeed_config distributed_type=DEEPSPEED use_deepspeed"},
};

/// Returns the first finding that reports the cause, or null.
const Finding* finding_of(const SymptomCause& cause, const ImportResult& result) {
    const std::vector<std::string> rules = macheps::words_of(cause.rules), faults = macheps::words_of(cause.faults);
    const auto is_of_cause = [&](const Finding& finding) {
        return std::any_of(rules.begin(), rules.end(),
                           [&](const std::string& rule) { return is_rule(finding.rule, rule); }) ||
               std::find(faults.begin(), faults.end(), finding.fault) != faults.end();
    };
    const auto found = std::find_if(result.findings.begin(), result.findings.end(), is_of_cause);
    return found == result.findings.end() ? nullptr : &*found;
}

/// Returns the imports of the config for the other devices and checkpoints, if the user did not give them.
std::vector<ImportResult> other_imports(std::span<const std::string> files_and_overrides,
                                        const ImportOptions& options) {
    std::vector<ImportResult> others;
    ImportOptions other = options;
    if (options.device_is_default) {
        for (const DeviceProfile& device : device_profiles()) {
            if (device.name == options.device) continue;
            other.device = device.name;
            others.push_back(import_config(files_and_overrides, other));
        }
    }
    other = options;
    if (options.checkpoint_is_default) {
        for (const char* dtype : {"fp32", "fp16", "bf16"}) {
            if (dtype == options.checkpoint_dtype) continue;
            other.checkpoint_dtype = dtype;
            others.push_back(import_config(files_and_overrides, other));
        }
    }
    return others;
}

}  // namespace

std::string_view to_string(CauseVerdict verdict) {
    constexpr std::array<std::string_view, 3> words{"open", "applies", "excluded"};
    return words[static_cast<std::size_t>(verdict)];
}

bool is_rule(std::string_view finding_rule, std::string_view cause_rule) {
    if (!cause_rule.starts_with("*/")) return finding_rule == cause_rule;
    const std::size_t slash = finding_rule.find('/');
    return slash != std::string_view::npos && finding_rule.substr(slash) == cause_rule.substr(1);
}

std::string releases_text(const FaultRow& row) {
    if (row.first_bad.empty() && row.first_good.empty()) return fmt::format("all releases of {}", row.package);
    if (row.first_bad.empty()) return fmt::format("{} before {}", row.package, row.first_good);
    if (row.first_good.empty()) return fmt::format("{} from {}", row.package, row.first_bad);
    return fmt::format("{} {} to before {}", row.package, row.first_bad, row.first_good);
}

std::string fault_text(std::string_view id) {
    const FaultRow* row = find_fault(id);
    return row == nullptr ? std::string(id) : fmt::format("{} ({})", id, releases_text(*row));
}

const RuleEngine* engine_of_rule(std::string_view rule) {
    const std::string_view framework = rule.substr(0, rule.find('/')), name = rule.substr(framework.size());
    for (const std::string_view relation : {"-without-", "-and-"}) {
        if (name.find(relation) != std::string_view::npos) return nullptr;
    }
    for (const RuleEngine& engine : engines) {
        if (framework != engine.name && name.find(engine.name) != std::string_view::npos) return &engine;
    }
    return nullptr;
}

CauseJudge::CauseJudge(std::span<const std::string> files_and_overrides, ImportOptions options)
    : options_(std::move(options)),
      config_(read_given_files(files_and_overrides, options_).config),
      result_(import_config(files_and_overrides, options_)),
      others_(other_imports(files_and_overrides, options_)) {}

bool CauseJudge::uses_engine_of(std::string_view rule) const {
    const RuleEngine* engine = engine_of_rule(rule);
    return engine == nullptr || !marks_of(engine->marks, config_).empty();
}

/// Returns whether the import would report the rule if it applied. This is the case if the rule belongs to the
/// framework of the config, to a framework whose keys may be at the root of the config, or to one that reported a
/// finding about a part of it. A rule "*/NAME" is not tested, because not every framework has it. Neither is a rule
/// that is written for an engine which the config does not use: the cause may also exist without this engine.
bool CauseJudge::is_tested_rule(std::string_view rule) const {
    if (!uses_engine_of(rule)) return false;
    const std::string_view framework = rule.substr(0, rule.find('/'));
    const std::vector<std::string_view> sharing = listed_names(result_.framework->shares_root_with);
    return framework == result_.framework->name ||
           std::find(sharing.begin(), sharing.end(), framework) != sharing.end() ||
           std::any_of(result_.findings.begin(), result_.findings.end(),
                       [&](const Finding& finding) { return finding.rule.starts_with(fmt::format("{}/", framework)); });
}

/// Returns whether the import would report the fault if it applied: the history contains it, and the user gave the
/// version of its package.
bool CauseJudge::is_tested_fault(std::string_view id) const {
    const FaultRow* row = find_fault(id);
    if (row == nullptr) return false;
    return options_.versions.contains(row->package) ||
           (row->package == result_.framework->name && options_.versions.contains(""));
}

JudgedCause CauseJudge::judge(const SymptomCause& cause) const {
    if (const Finding* finding = finding_of(cause, result_)) {
        const std::string place = to_string(finding->place);
        return {&cause, CauseVerdict::applies,
                fmt::format("{}{}{}: {}", place, place.empty() ? "" : " ", finding->rule, finding->message)};
    }
    const std::vector<std::string> rules = macheps::words_of(cause.rules), faults = macheps::words_of(cause.faults);
    std::vector<std::string> absent = faults;
    for (const std::string& rule : rules) {
        if (is_tested_rule(rule)) absent.push_back(rule);
    }
    const bool is_open =
        absent.empty() || result_.unknown_version ||
        !std::all_of(faults.begin(), faults.end(), [&](const std::string& id) { return is_tested_fault(id); }) ||
        std::any_of(others_.begin(), others_.end(),
                    [&](const ImportResult& other) { return finding_of(cause, other) != nullptr; });
    if (is_open) return {&cause, CauseVerdict::open, {}};
    return {&cause, CauseVerdict::excluded,
            fmt::format("the import with {} {} does not report {}", result_.framework->title,
                        to_string(result_.version), fmt::join(absent, ", "))};
}

std::vector<JudgedCause> CauseJudge::judge(const SymptomRow& row) const {
    std::vector<JudgedCause> judged;
    for (const SymptomCause& cause : row.causes()) judged.push_back(judge(cause));
    const auto is_excluded = [](const JudgedCause& one) { return one.verdict == CauseVerdict::excluded; };
    if (row.source.empty() || !std::all_of(judged.begin(), judged.end(), is_excluded)) return judged;
    for (JudgedCause& one : judged) {
        one.verdict = CauseVerdict::open;
        one.reason +=
            ", but a program printed this message: the import does not describe its run. Check the framework, "
            "the device and the versions";
    }
    return judged;
}

}  // namespace macheps::configs
