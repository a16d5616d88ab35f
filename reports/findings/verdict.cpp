// SPDX-License-Identifier: Apache-2.0
#include "reports/findings/verdict.hpp"

#include "reports/findings/value_range.hpp"
#include "reports/logs/manifest_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace macheps::reports {

namespace {

using Rules = DivergenceRules;

std::string counted(std::int64_t n, std::string_view what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string equivalent_sentence(const PolicySummary& policy) {
    const SummaryRow& row = policy.row;
    const std::string seen = row.detectable_gap && *row.detectable_gap > 0
                                 ? fmt::format("; smallest detectable gap {}", two_digits(*row.detectable_gap))
                                 : "";
    if (row.verdict == verdicts::no_difference)
        return fmt::format("no difference found ({}{})", what_was_run(policy), seen);
    return fmt::format("a difference of {}, within the margin of {} ({}{})", gap_words(row),
                       two_digits(row.margin.value_or(NAN)), what_was_run(policy), seen);
}

std::string undecided_sentence(const PolicySummary& policy) {
    const SummaryRow& row = policy.row;
    const std::string margin = two_digits(row.margin.value_or(NAN));
    const std::string where = row.gap_ci_high && *row.gap_ci_high < 0
                                  ? fmt::format("lies below zero, but not entirely within ±{}", margin)
                                  : fmt::format("lies neither entirely within ±{} nor entirely above zero", margin);
    const std::string more =
        policy.seeds_needed && *policy.seeds_needed > row.seeds
            ? fmt::format("; {} seeds with the same scatter would detect a gap of {}", *policy.seeds_needed, margin)
            : "";
    return fmt::format("undecided: {} {} ({}{})", gap_words(row), where, what_was_run(policy), more);
}

std::string sentence_of(const PolicySummary& policy) {
    const SummaryRow& row = policy.row;
    if (is_equivalent(row.verdict)) return equivalent_sentence(policy);
    if (row.verdict == verdicts::undecided) return undecided_sentence(policy);
    if (row.verdict == verdicts::worse) {
        const std::string part =
            policy.relative_gap ? fmt::format("{} % of fp32's loss; ", two_digits(100 * *policy.relative_gap)) : "";
        return fmt::format("worse by {} ({}{})", gap_words(row).substr(1), part, what_was_run(policy));
    }
    if (row.verdict == verdicts::one_seed) {
        return fmt::format(
            "one seed: neither the gap of {} nor its sign can be distinguished from chance; only a failing run would "
            "be detected ({})",
            gap_words(row), what_was_run(policy));
    }
    if (row.verdict == verdicts::diverged) {
        const std::string why = failures_words(failures_in(row.failures.value_or("")));
        return fmt::format("diverged in {} of {}{}{} ({})", row.failed_seeds.value_or(row.seeds),
                           counted(row.seeds, "seed"), why.empty() ? "" : ": ", why, what_was_run(policy));
    }
    if (row.verdict == verdicts::no_baseline) return "there is no fp32 run of the same seed to compare with";
    return row.verdict;
}

}  // namespace

const Forced* forced_of(const SummaryRow& row) {
    for (const Forced* reason : forced::all) {
        if (row.forced && *row.forced == reason->word) return reason;
    }
    return nullptr;
}

std::string two_digits(double x) {
    if (!std::isfinite(x)) return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
    if (x == 0) return "0";
    if (std::abs(x) >= 9.95 && std::abs(x) < 1e6) return fmt::format("{:.0f}", x);
    return fmt::format("{:#.2g}", x);
}

std::string gap_words(const SummaryRow& row) {
    if (!row.gap_mean) return "-";
    if (!std::isfinite(*row.gap_mean)) return "not finite";
    const std::string gap = fmt::format("{}{}", std::signbit(*row.gap_mean) ? "" : "+", two_digits(*row.gap_mean));
    return row.gap_ci_high ? fmt::format("{} ± {}", gap, two_digits(*row.gap_ci_high - *row.gap_mean)) : gap;
}

std::string what_was_run(const PolicySummary& policy) {
    std::string words = policy.model.empty() ? "" : policy.model + ", ";
    if (policy.row.steps) words += counted(*policy.row.steps, "step") + ", ";
    words += counted(policy.row.seeds, "seed");
    if (policy.token_weight.value_or(1) != 1) words += ", token weight " + power_words(*policy.token_weight);
    if (policy.row.stress) words += ", stressed with " + *policy.row.stress;
    return words;
}

std::string range_line(const PolicySummary& policy) {
    return policy.row.verdict == verdicts::baseline ? "" : "range: " + range_words(policy.row);
}

std::string verdict_sentence(const PolicySummary& policy) {
    if (policy.row.verdict == verdicts::baseline) return {};
    std::string sentence = sentence_of(policy);
    if (const Forced* reason = forced_of(policy.row))
        sentence += fmt::format("; {}: {}", reason->possible, reason->clause);
    for (const std::string& part : policy.not_emulated) sentence += "; " + part;
    return sentence;
}

bool has_failed_runs(const SummaryRow& row) {
    return row.verdict == verdicts::diverged || row.failed_seeds.value_or(0) > 0;
}

std::string diverged_note(std::string_view window) {
    return fmt::format(
        "a run counts as diverged if its loss became NaN or infinite, if its smoothed loss stayed more than {:g} nat "
        "above its minimum for {} steps, or if its loss at the end (mean of the last {}) is above that of its first "
        "step",
        Rules::failure_rise, Rules::failure_steps, window);
}

std::string parts_at_step(const SummaryRow& row) {
    return row.diverged_step && !is_equivalent(row.verdict) ? fmt::format("{}", *row.diverged_step) : "";
}

std::vector<std::string> warnings_of(const Summary& summary) {
    std::vector<const PolicySummary*> policies;
    for (const PolicySummary& policy : summary.policies) policies.push_back(&policy);
    return warnings_of(policies);
}

std::vector<std::string> warnings_of(std::span<const PolicySummary* const> policies) {
    std::optional<std::int64_t> steps, seeds;
    for (const PolicySummary* policy : policies) {
        const SummaryRow& row = policy->row;
        if (row.verdict == verdicts::baseline || row.verdict == verdicts::diverged) continue;
        const std::int64_t own = row.steps.value_or(Rules::min_steps);
        steps = std::min(steps.value_or(own), own);
        seeds = std::min(seeds.value_or(row.seeds), row.seeds);
    }
    std::vector<std::string> warnings;
    if (steps && *steps < Rules::min_steps) {
        warnings.push_back(fmt::format("{}: with fewer than {} steps, a verdict says little about a longer run",
                                       counted(*steps, "step"), Rules::min_steps));
    }
    if (seeds && *seeds < Rules::min_seeds) {
        warnings.push_back(fmt::format(
            "{}: with fewer than {} seeds, {}", *seeds == 1 ? "one seed" : counted(*seeds, "seed"), Rules::min_seeds,
            *seeds == 1 ? "a gap has no interval, or a very wide one" : "the interval of a gap is very wide"));
    }
    for (const PolicySummary* policy : policies) {
        if (policy->beside_precision.empty()) continue;
        std::string warning = fmt::format(
            "{} differs from fp32 in more than precision, and all of the differences contribute to its gap: {}",
            policy->row.policy, policy->beside_precision);
        if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end())
            warnings.push_back(std::move(warning));
    }
    return warnings;
}

}  // namespace macheps::reports
