// SPDX-License-Identifier: Apache-2.0
// Finds the best value of the tuned axis of a sweep, and the reasons to doubt the results.
#include "core/text/shown.hpp"
#include "reports/findings/sweep_summary.hpp"
#include "reports/findings/verdict.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace macheps::reports {

namespace {

/// Options that a user tunes for the lowest loss. Options such as the number of steps or layers are not in this list,
/// because their largest value usually has the lowest loss.
constexpr std::string_view tuned_options[] = {"lr",    "min-lr", "warmup", "weight-decay", "clip",
                                              "beta1", "beta2",  "eps",    "momentum"};

/// Returns whether an axis is the option. Plans write weight-decay, and manifests write weight_decay.
bool is_option(std::string axis, std::string_view option) {
    std::replace(axis.begin(), axis.end(), '_', '-');
    return axis == option;
}

bool has_two_numbers(const SweepSummary& sweep, std::size_t axis) {
    std::set<double> numbers;
    for (const SweepRow& row : sweep.rows) {
        const std::optional<double> number = axis < row.values.size() ? axis_number(row.values[axis]) : std::nullopt;
        if (!number) return false;
        numbers.insert(*number);
    }
    return numbers.size() > 1;
}

std::optional<std::size_t> tuned_axis(const SweepSummary& sweep) {
    for (const std::string_view option : tuned_options) {
        for (std::size_t axis = 0; axis < sweep.axes.size(); ++axis) {
            if (is_option(sweep.axes[axis], option) && has_two_numbers(sweep, axis)) return axis;
        }
    }
    return std::nullopt;
}

/// The rows of one policy with fixed values of the axes other than the tuned one.
class TunedPolicy {
  public:
    void add(const SweepRow& row, double value) {
        least_ = std::min(least_, value), greatest_ = std::max(greatest_, value);
        const double loss = row.policy.row.loss;
        if (!std::isfinite(loss) || has_failed_runs(row.policy.row)) return;
        if (best_ == nullptr || loss < best_->policy.row.loss) best_ = &row, value_ = value;
    }
    const SweepRow* best() const { return best_; }
    GridPlace place() const {
        if (best_ == nullptr || least_ == greatest_) return GridPlace::inside;
        return value_ == least_ ? GridPlace::smallest : value_ == greatest_ ? GridPlace::largest : GridPlace::inside;
    }

  private:
    const SweepRow* best_ = nullptr;
    double value_ = 0, least_ = HUGE_VAL, greatest_ = -HUGE_VAL;
};

/// Returns the differences of the losses for each seed that both summaries have.
std::vector<double> paired_gaps(const PolicySummary& policy, const PolicySummary& fp32) {
    std::vector<double> gaps;
    for (const auto& [seed, loss] : policy.seed_losses) {
        for (const auto& [other, base] : fp32.seed_losses) {
            if (other == seed) gaps.push_back(loss - base);
        }
    }
    return gaps;
}

/// Returns the setting of a row in words: "lr 0.001, width 64".
std::string setting_of(const SweepSummary& sweep, const SweepRow& row) {
    std::vector<std::string> words;
    for (std::size_t i = 0; i < row.values.size() && i < sweep.axes.size(); ++i)
        words.push_back(sweep.axes[i] + " " + row.values[i]);
    return fmt::format("{}", fmt::join(words, ", "));
}

/// Settings in which a policy has a problem.
struct Affected {
    std::size_t count = 0;
    std::vector<std::string> shown{};

    void add(std::string words) {
        constexpr std::size_t max_shown = 3;
        if (++count <= max_shown && !words.empty()) shown.push_back(std::move(words));
    }
    /// Returns "2 of 3 settings (lr 0.01; lr 0.03)".
    std::string words(std::size_t all) const {
        std::string text = fmt::format("{} of {} setting{}", count, all, all == 1 ? "" : "s");
        if (shown.empty()) return text;
        return text + fmt::format(" ({}{})", fmt::join(shown, "; "), shown.size() < count ? "; ..." : "");
    }
};

/// The settings of one policy, and those in which runs diverged or skipped steps.
struct PolicyTroubles {
    std::size_t settings = 0;
    Affected diverged{}, skipped{};
    std::vector<FailedRuns> failures{};
    double most_skipped = 0;
};

void add_warnings_about_runs(const SweepSummary& sweep, std::vector<std::string>& warnings) {
    std::map<std::string, PolicyTroubles> troubles;
    std::vector<std::string> order;
    for (const SweepRow& row : sweep.rows) {
        const SummaryRow& r = row.policy.row;
        const auto [found, is_new] = troubles.try_emplace(r.policy);
        if (is_new) order.push_back(r.policy);
        PolicyTroubles& one = found->second;
        ++one.settings;
        for (const FailedRuns& failed : failures_in(r.failures.value_or(""))) add_failed_runs(one.failures, failed);
        if (has_failed_runs(r))
            one.diverged.add(fmt::format("{}{}{} of {} seed{}", setting_of(sweep, row), row.values.empty() ? "" : ": ",
                                         r.failed_seeds.value_or(r.seeds), r.seeds, r.seeds == 1 ? "" : "s"));
        if (r.skipped_rate > 0) one.skipped.add(setting_of(sweep, row));
        one.most_skipped = std::max(one.most_skipped, r.skipped_rate);
    }
    for (const std::string& policy : order) {
        const PolicyTroubles& one = troubles.at(policy);
        if (one.diverged.count > 0) {
            const std::string why = failures_words(one.failures);
            warnings.push_back(fmt::format(
                "{} diverged in {}{}{}{}", policy, one.diverged.words(one.settings), why.empty() ? "" : ": ", why,
                policy == baseline_policy ? ", so the gaps of the other policies say nothing in these settings" : ""));
        }
    }
    for (const std::string& policy : order) {
        const PolicyTroubles& one = troubles.at(policy);
        if (one.skipped.count > 0) {
            warnings.push_back(fmt::format("{} skipped up to {} % of its steps, in {}", policy,
                                           two_digits(100 * one.most_skipped), one.skipped.words(one.settings)));
        }
    }
}

/// Adds a sentence for each reason that limited verdicts, with the number of verdicts.
void add_warnings_about_verdicts(const SweepSummary& sweep, std::vector<std::string>& warnings) {
    std::map<const Forced*, std::map<std::string, std::size_t>> verdicts_of;
    for (const SweepRow& row : sweep.rows) {
        const Forced* reason = forced_of(row.policy.row);
        // The number of seeds has its own warning.
        if (reason != nullptr && reason != &forced::one_seed) ++verdicts_of[reason][row.policy.row.verdict];
    }
    for (const Forced* reason : forced::all) {
        const auto found = verdicts_of.find(reason);
        if (found == verdicts_of.end()) continue;
        for (const auto& [verdict, count] : found->second) {
            warnings.push_back(fmt::format(
                "{} of {} rows with the verdict \"{}\": {}, because {}", count,
                std::count_if(sweep.rows.begin(), sweep.rows.end(),
                              [&verdict = verdict](const SweepRow& row) { return row.policy.row.verdict == verdict; }),
                verdict, reason->possible, reason->clause));
        }
    }
}

/// Adds a sentence for each end of the grid at which best values are.
void add_warnings_about_grid(const SweepSummary& sweep, const BestValues& best, std::vector<std::string>& warnings) {
    for (const GridPlace place : {GridPlace::smallest, GridPlace::largest}) {
        std::vector<std::string> policies;
        for (const BestValue& row : best.rows) {
            if (row.place == place && std::find(policies.begin(), policies.end(), row.policy) == policies.end())
                policies.push_back(row.policy);
        }
        if (policies.empty()) continue;
        const std::string& axis = sweep.axes[*best.axis];
        warnings.push_back(fmt::format("the best {} of {} is the {} value of the grid, so {} values may be better",
                                       axis, fmt::join(policies, ", "),
                                       place == GridPlace::smallest ? "smallest" : "largest",
                                       place == GridPlace::smallest ? "smaller" : "larger"));
    }
}

}  // namespace

std::string place_words(GridPlace place) {
    return place == GridPlace::inside ? "inside" : place == GridPlace::smallest ? "smallest" : "largest";
}

BestValues best_values(const SweepSummary& sweep) {
    BestValues best{.axis = tuned_axis(sweep)};
    if (!best.axis) return best;
    const std::size_t axis = *best.axis;
    using Key = std::pair<std::vector<std::string>, std::string>;  // other values, policy
    std::map<Key, TunedPolicy> tuned;
    std::vector<Key> order;
    for (const SweepRow& row : sweep.rows) {
        Key key{row.values, row.policy.row.policy};
        key.first.erase(key.first.begin() + static_cast<std::ptrdiff_t>(axis));
        const auto [found, is_new] = tuned.try_emplace(key);
        if (is_new) order.push_back(key);
        found->second.add(row, *axis_number(row.values[axis]));
    }
    for (const Key& key : order) {
        const TunedPolicy& own = tuned.at(key);
        const auto base = tuned.find({key.first, std::string(baseline_policy)});
        const SweepRow *row = own.best(), *fp32 = base == tuned.end() ? nullptr : base->second.best();
        BestValue value{.policy = key.second,
                        .others = key.first,
                        .value = row == nullptr ? "" : row->values[axis],
                        .fp32_value = fp32 == nullptr ? "" : fp32->values[axis],
                        .loss = row == nullptr ? NAN : row->policy.row.loss,
                        .fp32_loss = fp32 == nullptr ? NAN : fp32->policy.row.loss,
                        .place = own.place()};
        value.moved = value.value != value.fp32_value;
        if (row != nullptr && fp32 != nullptr && key.second != baseline_policy)
            value.seed_gaps = paired_gaps(row->policy, fp32->policy);
        best.rows.push_back(std::move(value));
    }
    return best;
}

std::string best_gap_words(const BestValue& best) {
    SummaryRow row;
    const PairedMean mean = paired_mean(best.seed_gaps);
    if (!best.seed_gaps.empty()) row.gap_mean = mean.mean;
    if (mean.half_width_95) row.gap_ci_high = mean.mean + *mean.half_width_95;
    return gap_words(row);
}

TextTable best_table(const SweepSummary& sweep, const BestValues& best) {
    using enum TextTable::Kind;
    TextTable table;
    if (!best.axis) return table;
    const std::string& axis = sweep.axes[*best.axis];
    for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
        if (i != *best.axis) table.columns.push_back({sweep.axes[i], text});
    }
    for (const TextTable::Column& column : {TextTable::Column{"policy", text},
                                            {"best " + axis, text},
                                            {"in the grid", text},
                                            {"loss", number},
                                            {"gap to best fp32", gap}})
        table.columns.push_back(column);
    for (const BestValue& row : best.rows) {
        std::vector<std::string> cells = row.others;
        for (std::string cell : {row.policy, row.value.empty() ? std::string("none") : row.value,
                                 row.value.empty() ? "-" : place_words(row.place),
                                 row.value.empty() ? "-" : fmt::format("{:.4f}", row.loss), best_gap_words(row)})
            cells.push_back(std::move(cell));
        table.rows.push_back(std::move(cells));
    }
    return table;
}

std::vector<std::string> best_notes(const SweepSummary& sweep, const BestValues& best) {
    if (!best.axis) return {};
    const std::string& axis = sweep.axes[*best.axis];
    const bool has_interval =
        std::any_of(best.rows.begin(), best.rows.end(), [](const BestValue& row) { return row.seed_gaps.size() > 1; });
    return {fmt::format(
        "best {0}: the value with the lowest mean loss, without values at which a run diverged; "
        "gap to best fp32: loss at the best {0} of the policy minus loss at the best {0} of fp32, paired "
        "by seed{1}.",
        axis, has_interval ? "; ± is the 95 % t interval, which does not include the choice of the value" : "")};
}

std::vector<std::string> sweep_warnings(const SweepSummary& sweep, const BestValues& best) {
    std::vector<std::string> warnings;
    add_warnings_about_runs(sweep, warnings);
    add_warnings_about_verdicts(sweep, warnings);
    std::vector<const PolicySummary*> policies;
    for (const SweepRow& row : sweep.rows) policies.push_back(&row.policy);
    for (std::string& warning : warnings_of(policies)) warnings.push_back(std::move(warning));
    add_warnings_about_grid(sweep, best, warnings);
    return warnings;
}

}  // namespace macheps::reports
