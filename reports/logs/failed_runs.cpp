// SPDX-License-Identifier: Apache-2.0
#include "reports/logs/failed_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace macheps::reports {

namespace {

/// Removes the text before the first `separator` from `rest`, and returns it.
std::string_view taken(std::string_view& rest, char separator) {
    const std::string_view part = rest.substr(0, rest.find(separator));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    return part;
}

std::optional<std::int64_t> count_in(std::string_view text) {
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(count) : std::nullopt;
}

}  // namespace

void add_failed_runs(std::vector<FailedRuns>& list, const FailedRuns& runs) {
    const auto found =
        std::find_if(list.begin(), list.end(), [&](const FailedRuns& one) { return one.reason == runs.reason; });
    if (found == list.end()) {
        list.push_back(runs);
        return;
    }
    found->runs += runs.runs;
    if (runs.step && (!found->step || *runs.step < *found->step)) found->step = runs.step;
}

std::string failures_text(std::span<const FailedRuns> list) {
    std::string text;
    for (const FailedRuns& one : list) {
        text += fmt::format("{}{}:{}", text.empty() ? "" : ";", one.reason->name, one.runs);
        if (one.step) text += fmt::format(":{}", *one.step);
    }
    return text;
}

std::vector<FailedRuns> failures_in(std::string_view text) {
    std::vector<FailedRuns> list;
    while (!text.empty()) {
        std::string_view entry = taken(text, ';');
        const std::string_view name = taken(entry, ':');
        const auto* reason = std::find_if(std::begin(run_failures), std::end(run_failures),
                                          [&](const RunFailure& one) { return one.name == name; });
        const std::optional<std::int64_t> runs = count_in(taken(entry, ':'));
        if (reason != std::end(run_failures) && runs)
            list.push_back({.reason = reason, .runs = *runs, .step = count_in(entry)});
    }
    return list;
}

std::string failures_words(std::span<const FailedRuns> list) {
    std::string words;
    for (const FailedRuns& one : list) {
        words += (words.empty() ? "" : "; ") + std::string(one.reason->clause);
        if (one.step) words += fmt::format("{} at step {}", one.runs == 1 ? "" : ", first", *one.step);
        if (list.size() > 1) words += fmt::format(" ({} run{})", one.runs, one.runs == 1 ? "" : "s");
    }
    return words;
}

}  // namespace macheps::reports
