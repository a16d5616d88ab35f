// SPDX-License-Identifier: Apache-2.0
#include "reports/paper/methods.hpp"

#include "core/error.hpp"
#include "core/text/json.hpp"
#include "reports/findings/conclusion.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/findings/verdict.hpp"
#include "reports/logs/folder_settings.hpp"
#include "reports/paper/latex_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

namespace macheps::reports {

namespace {

/// A setting of the model, the data or the training, as folder_settings() names it, and the words around its value.
struct MethodFact {
    std::string_view name, before, after;
    std::string_view unset = {};  ///< value that means that the setting is not used
};
constexpr MethodFact model_facts[] = {{"layers", "", " layers"},
                                      {"width", "width ", ""},
                                      {"heads", "", " attention heads"},
                                      {"kv_heads", "", " key-value heads", "0"},
                                      {"context", "a context of ", " tokens"},
                                      {"vocabulary", "a vocabulary of ", " tokens"}};
constexpr MethodFact step_facts[] = {{"steps", "", " optimiser steps"},
                                     {"batch", "", " sequences per batch"},
                                     {"micro_batches", "", " micro-batches per step", "1"},
                                     {"ranks", "", " data-parallel ranks", "1"}};
constexpr MethodFact optimizer_facts[] = {{"lr", "learning rate ", ""},
                                          {"min_lr", "final learning rate ", ""},
                                          {"warmup", "", " warm-up steps", "0"},
                                          {"weight_decay", "weight decay ", "", "0"},
                                          {"clip", "gradient norm clipped at ", "", "0"}};
constexpr MethodFact adam_facts[] = {
    {"beta1", "\\(\\beta_1 = ", "\\)"}, {"beta2", "\\(\\beta_2 = ", "\\)"}, {"eps", "\\(\\epsilon\\) = ", ""}};
constexpr MethodFact sgd_facts[] = {{"momentum", "momentum ", "", "0"}};

std::string value_of(const FolderSettings& settings, std::string_view name) {
    const auto found =
        std::find_if(settings.begin(), settings.end(), [&](const auto& one) { return one.first == name; });
    return found == settings.end() ? std::string{} : found->second;
}

/// Returns a value as LaTeX: a number with siunitx, another value as text.
std::string value_text(const std::string& value) {
    const std::string number = siunitx_number(value);
    return number.empty() ? latex_text(value) : "\\num{" + number + "}";
}

/// Appends the facts that are known and used to a list.
template <std::size_t count>
void append_facts(std::vector<std::string>& list, const MethodFact (&facts)[count], const FolderSettings& settings) {
    for (const MethodFact& fact : facts) {
        const std::string value = value_of(settings, fact.name);
        if (value.empty() || value == fact.unset) continue;
        list.push_back(fmt::format("{}{}{}", fact.before, value_text(value), fact.after));
    }
}

std::string model_sentence(const FolderSettings& settings, const ManifestFacts& facts) {
    std::vector<std::string> list;
    append_facts(list, model_facts, settings);
    const std::string kind = value_of(settings, "kind"), data = value_of(settings, "data.what");
    std::string text = fmt::format("We trained a transformer{}", kind.empty() ? "" : " of kind " + latex_text(kind));
    if (!list.empty()) text += fmt::format(" with {}", fmt::join(list, ", "));
    if (facts.parameters) text += fmt::format(" (\\num{{{}}} parameters)", *facts.parameters);
    return text + (data.empty() ? ". " : " on this data: " + latex_text(data) + ". ");
}

std::string training_sentences(const FolderSettings& settings, const ManifestFacts& facts) {
    std::vector<std::string> steps, options;
    append_facts(steps, step_facts, settings);
    append_facts(options, optimizer_facts, settings);
    const std::string optimizer = value_of(settings, "optimizer");
    if (optimizer.starts_with("adam")) append_facts(options, adam_facts, settings);
    if (optimizer.starts_with("sgd")) append_facts(options, sgd_facts, settings);
    std::string text;
    if (!steps.empty()) text += fmt::format("Each run had {}. ", fmt::join(steps, ", "));
    if (!optimizer.empty())
        text += fmt::format("The optimiser was {} ({}). ", latex_text(optimizer), fmt::join(options, ", "));
    if (!facts.seeds.empty()) {
        text += fmt::format(
            "Each policy was trained with the seed{} {}; runs with the same seed have the same initial weights and the "
            "same batches. ",
            facts.seeds.size() == 1 ? "" : "s", fmt::join(facts.seeds, ", "));
    }
    if (facts.token_weight.value_or(1) != 1) {
        text += fmt::format("The loss of every token was weighted by {} in the backward pass. ",
                            latex_text(power_words(*facts.token_weight)));
    }
    return text;
}

/// Returns the pairs of operand formats of a policy's matmuls, from the form of RunRow::matmul_formats: "bf16 x bf16".
std::string operands_of(const Log& log, const std::string& policy) {
    for (const RunLog& run : log.runs) {
        if (run.policy != policy || !run.row.matmul_formats) continue;
        std::vector<std::string> pairs;
        std::string_view rest = *run.row.matmul_formats;
        while (!rest.empty()) {
            const std::string_view entry = rest.substr(0, rest.find(';'));
            rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
            const std::string_view pair = entry.substr(0, entry.find(':'));
            const std::size_t star = pair.find('*');
            if (star == std::string_view::npos) continue;
            pairs.push_back(fmt::format("{} \\(\\times\\) {}", latex_text(pair.substr(0, star)),
                                        latex_text(pair.substr(star + 1))));
        }
        return fmt::format("{}", fmt::join(pairs, ", "));
    }
    return {};
}

std::string policy_sentences(const Log& log, const Summary& summary) {
    std::string text;
    for (const PolicySummary& policy : summary.policies) {
        const std::string& name = policy.row.policy;
        std::vector<std::string> parts;
        if (const std::string operands = operands_of(log, name); !operands.empty())
            parts.push_back("operands of matrix products " + operands);
        for (const RunLog& run : log.runs) {
            if (run.policy != name || run.folder >= log.folders.size()) continue;
            const ManifestFacts facts = manifest_facts(log.folders[run.folder]);
            const auto machines = facts.machines.find(run.row.policy);
            if (machines != facts.machines.end() && !machines->second.empty())
                parts.push_back(latex_text(fmt::format("sums as in {}", fmt::join(machines->second, "; "))));
            const auto missing = facts.not_emulated.find(run.row.policy);
            if (missing != facts.not_emulated.end())
                parts.push_back(latex_text(fmt::format("{}", fmt::join(missing->second, "; "))));
            break;
        }
        if (!policy.beside_precision.empty())
            parts.push_back("other differences from fp32: " + latex_text(policy.beside_precision));
        text += fmt::format("{}\\texttt{{{}}}{}", text.empty() ? "The policies were " : "; ", latex_text(name),
                            parts.empty() ? "" : fmt::format(" ({})", fmt::join(parts, "; ")));
    }
    return text.empty() ? text : text + ". ";
}

std::string statistics_sentences(const Summary& summary) {
    std::string text = fmt::format(
        "The gap of a run is its loss minus the loss of the fp32 run with the same seed, averaged over the last {}. ",
        latex_text(window_words(summary)));
    std::set<std::int64_t> freedoms;
    bool has_verdict = false;
    for (const PolicySummary& policy : summary.policies) {
        has_verdict |= is_equivalent(policy.row.verdict);
        if (policy.row.gap_ci_low) freedoms.insert(std::int64_t(policy.seed_gaps.size()) - 1);
    }
    if (!freedoms.empty()) {
        text += fmt::format(
            "We report the mean gap over the seeds with its two-sided 95\\,\\% interval of Student's t distribution "
            "({} degree{} of freedom). ",
            fmt::join(freedoms, " or "), freedoms.size() == 1 && *freedoms.begin() == 1 ? "" : "s");
    }
    if (has_verdict) {
        text += fmt::format(
            "A gap counts as no difference if its 90\\,\\% interval lies within {:g}\\,\\% of the fp32 loss (two "
            "one-sided tests at 5\\,\\%). ",
            100 * summary.margin);
    }
    return text;
}

/// Returns the different texts of a key in the manifests, joined by "and".
std::string texts_at(const std::vector<Json>& manifests, std::string_view key) {
    std::vector<std::string> texts;
    for (const Json& manifest : manifests) {
        const Json* value = manifest.find(key);
        if (value == nullptr || !value->is_string()) continue;
        const std::string text = latex_text(value->string());
        if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
    }
    return fmt::format("{}", fmt::join(texts, " and "));
}

std::string program_sentence(const std::vector<Json>& manifests) {
    const std::string program = texts_at(manifests, "created_by"), revision = texts_at(manifests, "git"),
                      device = texts_at(manifests, "device");
    return fmt::format(
        "All numbers were computed with {}{}~\\cite{{macheps}}, which emulates each format bit for bit{}.\n",
        program.empty() ? "macheps" : program, revision.empty() ? "" : fmt::format(" (revision {})", revision),
        device.empty() ? "" : fmt::format(", on {}", device));
}

}  // namespace

std::string methods_text(const Log& log, const Summary& summary) {
    std::vector<Json> manifests;
    for (const RunFolder& folder : log.folders) {
        manifests.push_back(Json::parse_or_null(folder.manifest));
        if (manifests.back().is_object()) continue;
        throw Error({.what = "the directory has no manifest.json, so the methods are unknown",
                     .where = folder.path.string(),
                     .fix = "pass run directories that `macheps train` wrote"});
    }
    const FolderSettings settings = folder_settings(manifests.front());
    for (std::size_t i = 1; i < manifests.size(); ++i) {
        if (folder_settings(manifests[i]) == settings) continue;
        throw usage_error("the runs of this directory have other settings than those of the first directory",
                          log.folders[i].path.string(),
                          "write a paragraph for each group of directories with the same settings");
    }
    ManifestFacts facts = manifest_facts(manifests.front());
    std::set<std::int64_t> seeds;
    for (const RunLog& run : log.runs) seeds.insert(run.row.seed);
    facts.seeds.assign(seeds.begin(), seeds.end());
    return "% Written by `macheps report --methods`. Needs \\usepackage{siunitx,textcomp}, and the entry of `macheps "
           "report --bibtex`.\n" +
           model_sentence(settings, facts) + training_sentences(settings, facts) + policy_sentences(log, summary) +
           statistics_sentences(summary) + program_sentence(manifests);
}

}  // namespace macheps::reports
