// SPDX-License-Identifier: Apache-2.0
#include "reports/paper/methods.hpp"

#include "core/error.hpp"
#include "core/text/json.hpp"
#include "reports/findings/diagnosis.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/findings/verdict.hpp"
#include "reports/logs/folder_settings.hpp"
#include "reports/logs/manifest_facts.hpp"
#include "reports/logs/method_facts.hpp"
#include "reports/paper/latex_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::reports {

namespace {

/// A setting of the model, the data or the training, as folder_settings() names it, and the words around its values.
struct MethodFact {
    std::string_view name, before, after;
    std::string_view unset = {};      ///< value that means that the setting is not used
    std::string_view after_one = {};  ///< `after` in the singular
    std::string_view not_used = {};   ///< words for `unset`; if empty, nothing is said about an unused setting
};
constexpr MethodFact model_facts[] = {{"layers", "", " layers", {}, " layer"},
                                      {"width", "width ", ""},
                                      {"heads", "", " attention heads", {}, " attention head"},
                                      {"kv_heads", "", " key-value heads", "0", " key-value head"},
                                      {"context", "a context of ", " tokens"},
                                      {"vocabulary", "a vocabulary of ", " tokens"}};
constexpr MethodFact step_facts[] = {{"steps", "", " optimiser steps", {}, " optimiser step"},
                                     {"batch", "", " sequences per batch", {}, " sequence per batch"},
                                     {"micro_batches", "", " micro-batches per step", "1"},
                                     {"ranks", "", " data-parallel ranks", "1"}};
constexpr MethodFact optimizer_facts[] = {
    {"lr", "learning rate ", ""},
    {"min_lr", "final learning rate ", ""},
    {"warmup", "", " warm-up steps", "0", " warm-up step"},
    {"weight_decay", "weight decay ", " (matrices only)", "0", {}, "no weight decay"},
    {"clip", "gradient norm clipped at ", "", "0", {}, "no gradient clipping"}};
constexpr MethodFact adam_facts[] = {
    {"beta1", "\\(\\beta_1 = ", "\\)"}, {"beta2", "\\(\\beta_2 = ", "\\)"}, {"eps", "\\(\\epsilon\\) = ", ""}};
constexpr MethodFact sgd_facts[] = {{"momentum", "momentum ", "", "0"}};

using Words = std::pair<std::string_view, std::string_view>;

/// The usual spellings of names in a manifest.
constexpr Words spellings[] = {
    {"gpt2", "GPT-2"}, {"llama", "Llama"}, {"adamw", "AdamW"}, {"adam", "Adam"}, {"sgd", "SGD"}};

/// Explanations of data, by the beginning of its description in a manifest.
constexpr Words data_words[] = {{"synthetic language",
                                 "a synthetic language, in which the distribution of each token depends on the two "
                                 "previous tokens and in which some "
                                 "spans of tokens repeat earlier ones"}};

/// Words for options that are not in the tables of facts, or whose words there do not name a quantity.
constexpr Words axis_names[] = {{"lr", "learning rate"},
                                {"min-lr", "final learning rate"},
                                {"warmup", "warm-up steps"},
                                {"clip", "limit of the gradient norm"},
                                {"batch", "sequences per batch"},
                                {"steps", "optimiser steps"},
                                {"token-weight", "weight of the loss of each token"},
                                {"size", "model size"},
                                {"heads", "attention heads"}};

/// Returns the second text of the row whose first text is `word`, or `word` itself.
template <std::size_t count>
std::string words_for(const Words (&rows)[count], const std::string& word) {
    const auto found =
        std::find_if(std::begin(rows), std::end(rows), [&](const Words& row) { return row.first == word; });
    return found == std::end(rows) ? word : std::string(found->second);
}

/// Returns a value as LaTeX: a number with siunitx, another value as text. A number with many digits, such as the
/// product of a learning rate and 0.1, is rounded to six.
std::string value_text(const std::string& value) {
    constexpr std::size_t max_digits = 12;
    std::string number = siunitx_number(value);
    if (number.size() > max_digits) number = siunitx_number(fmt::format("{:.6g}", std::stod(number)));
    return number.empty() ? latex_text(words_for(spellings, value)) : "\\num{" + number + "}";
}

/// Joins parts: "a", "a and b", "a, b and c".
std::string listed(const std::vector<std::string>& parts, std::string_view last_word = "and") {
    std::string text;
    for (std::size_t i = 0; i < parts.size(); ++i)
        text += (i == 0 ? "" : i + 1 == parts.size() ? fmt::format(" {} ", last_word) : ", ") + parts[i];
    return text;
}

/// Returns values as LaTeX: "1", "1 or 2", "1, 2 or 3".
std::string values_text(const std::vector<std::string>& values, std::string_view last_word = "or") {
    std::vector<std::string> texts;
    for (const std::string& value : values) texts.push_back(value_text(value));
    return listed(texts, last_word);
}

/// The settings that a sweep varies. A sentence of their own lists their values.
using Varied = std::set<std::string, std::less<>>;

/// Appends the facts that are known and not varied to a list.
template <std::size_t count>
void append_facts(std::vector<std::string>& list, const MethodFact (&rows)[count], const MethodFacts& facts,
                  const Varied& varied) {
    for (const MethodFact& row : rows) {
        const std::vector<std::string> values = facts.values_of(row.name);
        if (values.empty() || varied.contains(row.name)) continue;
        if (values.size() == 1 && values.front() == row.unset) {
            if (!row.not_used.empty()) list.emplace_back(row.not_used);
            continue;
        }
        const bool is_one = values == std::vector<std::string>{"1"} && !row.after_one.empty();
        list.push_back(fmt::format("{}{}{}", row.before, values_text(values), is_one ? row.after_one : row.after));
    }
}

/// Returns a description of data as LaTeX, with an explanation if there is one.
std::string data_text(const std::string& data) {
    const auto found = std::find_if(std::begin(data_words), std::end(data_words),
                                    [&](const Words& row) { return data.starts_with(row.first); });
    return found == std::end(data_words) ? latex_text(data) : latex_text(fmt::format("{} ({})", found->second, data));
}

std::string model_sentence(const MethodFacts& facts, const Varied& varied) {
    std::vector<std::string> list, parameters, data;
    append_facts(list, model_facts, facts, varied);
    for (const std::int64_t count : facts.parameters) parameters.push_back(fmt::format("{}", count));
    for (const std::string& one : facts.values_of("data.what")) data.push_back(data_text(one));
    const std::string kinds = values_text(facts.values_of("kind"));
    std::string text = "We trained decoder-only transformers";
    if (!kinds.empty()) text += fmt::format(" of the {} architecture", kinds);
    if (!list.empty()) text += " with " + listed(list);
    if (!parameters.empty()) text += fmt::format(" ({} parameters)", values_text(parameters));
    return text + (data.empty() ? ". " : fmt::format(" on this data: {}. ", fmt::join(data, "; or ")));
}

/// Explains the factor of the backward pass, which keeps gradients as small as those of a larger batch.
std::string token_weight_sentence(const MethodFacts& facts) {
    const std::vector<std::string> weights = facts.values_of("token_weight");
    if (weights.size() != 1 || siunitx_number(weights.front()).empty()) return {};
    const double weight = std::stod(weights.front());
    if (weight == 1) return {};
    const std::string factor = latex_text(power_words(weight));
    std::string text = fmt::format("In the backward pass, the loss of every token was multiplied by {}", factor);
    if (weight > 0 && weight < 1)
        text += fmt::format(", which makes the gradients as small as with a batch \\num{{{:g}}} times as large",
                            1 / weight);
    return text + "; the gradients were divided by this factor before the optimiser step. ";
}

/// Returns the final learning rate divided by the learning rate, if both have several values with the same ratio.
std::optional<double> final_share(const MethodFacts& facts) {
    const std::vector<std::string> rates = facts.values_of("lr"), finals = facts.values_of("min_lr");
    if (rates.size() < 2 || rates.size() != finals.size()) return std::nullopt;
    std::optional<double> share;
    for (std::size_t i = 0; i < rates.size(); ++i) {
        const std::optional<double> rate = axis_number(rates[i]), final_rate = axis_number(finals[i]);
        if (!rate || !final_rate || *rate == 0) return std::nullopt;
        const double one = *final_rate / *rate;
        if (share && std::abs(one - *share) > 1e-9 * std::abs(*share)) return std::nullopt;
        share = share.value_or(one);
    }
    return share;
}

/// Describes how the learning rate changes during a run (learning_rate() in training/run/options.hpp).
std::string schedule_sentence(const MethodFacts& facts) {
    const std::vector<std::string> finals = facts.values_of("min_lr"), warmups = facts.values_of("warmup");
    if (finals.empty()) return {};
    const bool has_warmup = !warmups.empty() && warmups != std::vector<std::string>{"0"};
    const std::string start =
        has_warmup ? "The learning rate rose linearly during the warm-up and then " : "The learning rate ";
    if (finals == facts.values_of("lr")) return start + "was constant. ";
    const std::optional<double> share = final_share(facts);
    return start + fmt::format("followed half a cosine down to {}, which it reached at the last step. ",
                               share ? fmt::format("\\num{{{:.6g}}} of its largest value", *share)
                                     : std::string("its final value"));
}

/// Describes the initial weights (initial_values() in training/model/initialise.hpp).
constexpr std::string_view initial_weights =
    "The initial weights were drawn from a normal distribution with standard deviation \\num{0.02}, divided by "
    "\\(\\sqrt{2L}\\) in the output projections of the attention and of the feed-forward layer (\\(L\\) is the "
    "number of layers); biases were 0 and norm weights 1. ";

std::string training_sentences(const MethodFacts& facts, Varied varied) {
    std::vector<std::string> steps, options;
    if (final_share(facts)) varied.insert("min_lr");
    append_facts(steps, step_facts, facts, varied);
    append_facts(options, optimizer_facts, facts, varied);
    const std::vector<std::string> optimizers = facts.values_of("optimizer");
    const auto is_used = [&](std::string_view name) {
        return std::any_of(optimizers.begin(), optimizers.end(),
                           [&](const std::string& one) { return one.starts_with(name); });
    };
    if (is_used("adam")) append_facts(options, adam_facts, facts, varied);
    if (is_used("sgd")) append_facts(options, sgd_facts, facts, varied);
    std::string text;
    if (!steps.empty()) text += fmt::format("Each run had {}. ", listed(steps));
    if (!optimizers.empty())
        text += fmt::format("The optimiser was {} ({}). ", values_text(optimizers), fmt::join(options, ", "));
    text += schedule_sentence(facts);
    if (!facts.seeds.empty()) {
        text += initial_weights;
        text += fmt::format(
            "Each precision policy was trained with the seed{} {}; with the same seed, all policies have the same "
            "initial weights and the same batches. ",
            facts.seeds.size() == 1 ? "" : "s", fmt::join(facts.seeds, ", "));
    }
    return text + token_weight_sentence(facts);
}

/// Returns the pairs of operand formats of a policy's matmuls, from the form of RunRow::matmul_formats: "bf16 x bf16".
std::string operands_of(std::string_view rest) {
    std::vector<std::string> pairs;
    while (!rest.empty()) {
        const std::string_view entry = rest.substr(0, rest.find(';'));
        rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
        const std::string_view pair = entry.substr(0, entry.find(':'));
        const std::size_t star = pair.find('*');
        if (star == std::string_view::npos) continue;
        pairs.push_back(
            fmt::format("{} \\(\\times\\) {}", latex_text(pair.substr(0, star)), latex_text(pair.substr(star + 1))));
    }
    return fmt::format("{}", fmt::join(pairs, ", "));
}

/// Returns sentences about how the matrix products of a policy add, or an empty text.
std::string sum_words(const MethodFacts::Policy& policy, const DescribeMachine& describe) {
    std::vector<std::string> texts;
    for (const std::string& machine : policy.machines) {
        if (const std::string words = describe ? describe(machine) : ""; !words.empty())
            texts.push_back(latex_text(words));
    }
    return texts.empty() ? "" : fmt::format("dot products are summed {}", fmt::join(texts, ", or "));
}

/// Removes the part of a description that concerns models that were not trained: "the loss of a gpt2 in bf16, of a
/// llama in fp32" becomes "the loss in bf16" if only a gpt2 was trained.
std::string for_models(std::string description, const std::vector<std::string>& kinds) {
    constexpr std::string_view of_gpt2 = " of a gpt2 ", of_llama = ", of a llama ";
    const std::size_t gpt2 = description.find(of_gpt2), llama = description.find(of_llama);
    if (kinds.size() != 1 || gpt2 == std::string::npos || llama == std::string::npos || llama < gpt2)
        return description;
    const std::size_t end = std::min(description.find(';', llama), description.size());
    const std::size_t first = gpt2 + of_gpt2.size(), second = llama + of_llama.size();
    const std::string kept =
        kinds.front() == "llama" ? description.substr(second, end - second) : description.substr(first, llama - first);
    return description.replace(gpt2, end - gpt2, " " + kept);
}

std::string policy_sentence(const MethodFacts::Policy& policy, const std::string& sums,
                            const std::vector<std::string>& kinds) {
    std::vector<std::string> parts;
    // The description of a policy without a description of its own is that of the policy from which it is derived.
    if (!policy.description.empty()) {
        parts.push_back(latex_text(for_models(policy.description, kinds)));
    } else if (!policy.bases.empty()) {
        parts.push_back("derived from this policy: " + latex_text(for_models(policy.bases.front(), kinds)));
    }
    if (const std::string operands = operands_of(policy.matmul_formats); !operands.empty())
        parts.push_back("the operands of matrix products are " + operands);
    if (!sums.empty()) parts.push_back(sums);
    for (const std::string& missing : policy.not_emulated) parts.push_back(latex_text(missing));
    if (!policy.beside_precision.empty())
        parts.push_back("other differences from fp32: " + latex_text(policy.beside_precision));
    return fmt::format("\\texttt{{{}}}{}. ", latex_text(policy.name),
                       parts.empty() ? "" : fmt::format(": {}", fmt::join(parts, "; ")));
}

/// Describes the policies with runs. If all of them sum in the same way, one sentence says so.
std::string policy_sentences(const MethodFacts& facts, const DescribeMachine& describe) {
    std::vector<const MethodFacts::Policy*> policies;
    std::set<std::string> sums;
    for (const MethodFacts::Policy& policy : facts.policies) {
        if (policy.runs == 0) continue;
        policies.push_back(&policy);
        sums.insert(sum_words(policy, describe));
    }
    if (policies.empty()) return {};
    const bool is_common = sums.size() == 1 && policies.size() > 1;
    std::string text =
        "A precision policy says which number format each operation of the training uses. The policies were as "
        "follows. ";
    for (const MethodFacts::Policy* policy : policies)
        text += policy_sentence(*policy, is_common ? "" : sum_words(*policy, describe), facts.values_of("kind"));
    if (is_common && !sums.begin()->empty()) text += fmt::format("In all policies, {}. ", *sums.begin());
    return text;
}

/// The basis of the intervals and verdicts of a report.
struct Statistics {
    std::string window{};        ///< the steps at the end of a run: "50 steps"
    std::string_view partner{};  ///< the property that a run shares with its fp32 run: "seed"
    std::set<std::int64_t> freedoms{};
    bool has_verdict = false, has_diverged = false;
    double margin = 0;

    void add(const PolicySummary& policy) {
        has_verdict |= is_equivalent(policy.row.verdict);
        has_diverged |= has_failed_runs(policy.row);
        if (policy.row.gap_ci_low) freedoms.insert(std::int64_t(policy.seed_gaps.size()) - 1);
    }
};

std::string statistics_sentences(const Statistics& statistics) {
    std::string text = fmt::format(
        "The loss is the training loss (cross entropy in nats per token, on the batch of each step), averaged over the "
        "last {} of a run. The gap of a run is its loss minus the loss of the fp32 run with the same {}. ",
        latex_text(statistics.window), statistics.partner);
    if (!statistics.freedoms.empty()) {
        text += fmt::format(
            "We report the mean gap over the seeds with its two-sided 95\\,\\% interval of Student's t distribution "
            "({} degree{} of freedom). ",
            fmt::join(statistics.freedoms, " or "),
            statistics.freedoms.size() == 1 && *statistics.freedoms.begin() == 1 ? "" : "s");
    }
    if (statistics.has_verdict) {
        text += fmt::format(
            "A gap counts as no difference if its 90\\,\\% interval lies within {:g}\\,\\% of the fp32 loss (two "
            "one-sided tests at 5\\,\\%). ",
            100 * statistics.margin);
    }
    if (statistics.has_diverged) text += latex_text(capitalised(diverged_note(statistics.window))) + ". ";
    return text;
}

/// Returns the kind of computer on which the runs were made, or an empty text. CPUs have names such as `cpu.avx512.8`,
/// which only macheps uses.
std::string device_words(const std::vector<std::string>& devices) {
    std::vector<std::string> words;
    for (const std::string& device : devices) {
        const std::string one = device.find("cpu.") != std::string::npos ? "a CPU" : latex_text(device);
        if (std::find(words.begin(), words.end(), one) == words.end()) words.push_back(one);
    }
    return words.empty() ? "" : fmt::format(", on {}", fmt::join(words, " and "));
}

std::string program_sentence(const MethodFacts& facts) {
    std::vector<std::string> programs;
    for (const std::string& program : facts.programs) programs.push_back(latex_text(program));
    return fmt::format(
        "All numbers were computed with {}~\\cite{{macheps}}, which emulates each number format bit for bit{}.\n",
        programs.empty() ? "macheps" : fmt::format("{}", fmt::join(programs, " and ")), device_words(facts.devices));
}

std::string paragraph_of(const MethodFacts& facts, const Varied& varied, const std::string& grid,
                         const std::string& statistics, const DescribeMachine& describe) {
    return "% Written by `macheps report --methods`. Needs \\usepackage{siunitx,textcomp}, and the entry of `macheps "
           "report --bibtex`.\n" +
           model_sentence(facts, varied) + training_sentences(facts, varied) + grid +
           policy_sentences(facts, describe) + statistics + program_sentence(facts);
}

/// Returns the values of an axis in the order of the rows.
std::vector<std::string> values_on(const SweepSummary& sweep, std::size_t axis) {
    std::vector<std::string> values;
    for (const SweepRow& row : sweep.rows) {
        if (std::find(values.begin(), values.end(), row.values[axis]) == values.end())
            values.push_back(row.values[axis]);
    }
    return values;
}

/// Returns the axes with several values, under the names that a manifest has for them.
Varied varied_settings(const SweepSummary& sweep) {
    Varied varied;
    for (std::size_t axis = 0; axis < sweep.axes.size(); ++axis) {
        std::string name = sweep.axes[axis];
        std::replace(name.begin(), name.end(), '-', '_');  // a plan writes min-lr
        if (values_on(sweep, axis).size() > 1) varied.insert(std::move(name));
    }
    return varied;
}

std::string grid_sentences(const SweepSummary& sweep) {
    std::vector<std::string> axes;
    for (std::size_t axis = 0; axis < sweep.axes.size(); ++axis) {
        const std::vector<std::string> values = values_on(sweep, axis);
        if (values.size() > 1)
            axes.push_back(
                fmt::format("{} ({})", latex_text(axis_words(sweep.axes[axis])), values_text(values, "and")));
    }
    const std::string grid =
        axes.empty() ? std::string{}
                     : fmt::format("These settings were varied: {}; \\num{{{}}} combinations of them were trained. ",
                                   fmt::join(axes, ", "), sweep.settings);
    std::string text = grid + fmt::format("In total, there are \\num{{{}}} training runs. ", sweep.runs);
    if (sweep.missing > 0)
        text += fmt::format("\\num{{{}}} of \\num{{{}}} planned groups of runs are missing. ", sweep.missing,
                            sweep.missing + sweep.units);
    return text;
}

std::string best_sentence(const SweepSummary& sweep, const BestValues& best) {
    if (!best.axis) return {};
    const std::string axis = latex_text(axis_words(sweep.axes[*best.axis]));
    return fmt::format(
        "For each policy, the best {0} is the one with the lowest loss, averaged over the seeds; values at which a run "
        "diverged are excluded. Policies at their best {0} are compared with fp32 at its best {0}, paired by seed; the "
        "interval of this difference does not include the choice of the value. ",
        axis);
}

}  // namespace

std::string axis_words(const std::string& axis) {
    std::string name = axis;
    std::replace(name.begin(), name.end(), '_', '-');  // a manifest writes min_lr
    if (std::string words = words_for(axis_names, name); words != name) return words;
    std::replace(name.begin(), name.end(), '-', ' ');
    return name;
}

std::string methods_text(const Log& log, const Summary& summary, const DescribeMachine& describe) {
    std::vector<Json> manifests;
    MethodFacts facts;
    for (const RunFolder& folder : log.folders) {
        manifests.push_back(Json::parse_or_null(folder.manifest));
        facts.add(manifests.back());
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
    for (const RunLog& run : log.runs) {
        if (run.folder < manifests.size()) facts.add_policy(run.policy, run.row.policy, manifests[run.folder]);
        facts.add_run(run.policy, run.row);
    }
    Statistics statistics{.window = window_words(summary), .partner = "seed", .margin = summary.margin};
    for (const PolicySummary& policy : summary.policies) statistics.add(policy);
    return paragraph_of(facts, {}, "", statistics_sentences(statistics), describe);
}

std::string methods_text(const SweepSummary& sweep, const DescribeMachine& describe) {
    Statistics statistics{.window = window_words(sweep), .partner = "settings and seed", .margin = sweep.margin};
    for (const SweepRow& row : sweep.rows) statistics.add(row.policy);
    return paragraph_of(sweep.methods, varied_settings(sweep), grid_sentences(sweep),
                        statistics_sentences(statistics) + best_sentence(sweep, best_values(sweep)), describe);
}

}  // namespace macheps::reports
