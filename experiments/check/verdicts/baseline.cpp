// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/verdicts/baseline.hpp"

#include "core/host/read_file.hpp"
#include "core/text/json_number.hpp"
#include "core/text/nesting.hpp"
#include "core/text/shown.hpp"
#include "experiments/check/judge/codes.hpp"
#include "reports/rows/sha256.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace macheps::check {

namespace {

constexpr std::string_view schema = "macheps.check.lock/1";

bool was_judged(const Checked& one) {
    return one.outcome == Outcome::pass || one.outcome == Outcome::weak || one.outcome == Outcome::fail;
}

/// Reads a number in the form in which json_number() writes it.
double number_of(const Json& json) {
    if (!json.is_string()) return json.get<double>();
    const auto number = parse_number(json.string());
    if (!number) throw JsonError("a string does not contain a number");
    return *number;
}

BaselineRow row_of(const Checked& one) {
    BaselineRow row{.name = one.name,
                    .input = one.input,
                    .declaration = reports::sha256_text(declared_json(one.declaration).dump()),
                    .inputs = one.inputs_sha256,
                    .bits = one.output_sha256};
    row.rho = one.verdict.judgement.rho;
    row.z = one.verdict.judgement.z;
    row.rms = std::sqrt(one.verdict.judgement.mean_square);
    row.omega = one.omega;
    row.blind = one.blind;
    return row;
}

Json row_json(const BaselineRow& row) {
    return {{"name", row.name},
            {"input", row.input},
            {"declaration", row.declaration},
            {"inputs", row.inputs},
            {"bits", row.bits},
            {"rho", json_number(row.rho)},
            {"z", json_number(row.z)},
            {"rms", json_number(row.rms)},
            {"omega", json_number(row.omega)},
            {"blind", row.blind}};
}

BaselineRow row_of(const Json& json) {
    return {.name = printable(json.at("name").string()),
            .input = json.at("input").string(),
            .declaration = json.at("declaration").string(),
            .inputs = json.at("inputs").string(),
            .bits = json.at("bits").string(),
            .rho = number_of(json.at("rho")),
            .z = number_of(json.at("z")),
            .rms = number_of(json.at("rms")),
            .omega = number_of(json.at("omega")),
            .blind = json.at("blind").get<std::vector<std::string>>()};
}

void worsen(Checked& one, std::string text, double got, double bound, const ReasonCode& code = reason_code::worse) {
    Reason reason{.code = code, .test = "baseline", .text = std::move(text)};
    reason.got = got;
    reason.bound = bound;
    one.verdict.reasons.push_back(std::move(reason));
    one.outcome = one.verdict.outcome = Outcome::fail;
}

void compare_row(Checked& one, const BaselineRow& old) {
    const BaselineRow now = row_of(one);
    if (now.declaration != old.declaration || now.inputs != old.inputs) {
        one.notes.push_back(
            fmt::format("not compared with the baseline, because {} changed (--update-baseline accepts the change)",
                        now.declaration != old.declaration ? "the declaration" : "the inputs"));
        return;
    }
    if (now.bits == old.bits) return;
    const std::string change = fmt::format("rho is {}, was {}", multiple_text(now.rho, 4), multiple_text(old.rho, 4));
    one.notes.push_back(fmt::format("the bits differ from the baseline: {}", change));
    const double outputs = static_cast<double>(std::max<std::int64_t>(one.verdict.judgement.outputs, 1));
    const double max_rms = old.rms * (1 + 6 / std::sqrt(outputs / 2)), max_rho = std::max(old.rho, 0.5) * 1.25;
    if (now.rms > max_rms) {
        worsen(one, fmt::format("errors grew: their rms is {:.4g} deviations, was {:.4g}", now.rms, old.rms), now.rms,
               max_rms);
    }
    if (now.rho > max_rho) worsen(one, fmt::format("errors grew: {}", change), now.rho, max_rho);
    std::vector<std::string> lost;
    for (const std::string& name : now.blind) {
        if (std::find(old.blind.begin(), old.blind.end(), name) == old.blind.end()) lost.push_back(name);
    }
    if (!lost.empty())
        worsen(one, fmt::format("wrong kernels that are no longer caught: {}", shown_list(lost, 40)),
               static_cast<double>(now.blind.size()), static_cast<double>(old.blind.size()));
}

/// Returns a failed check for an input that is in the baseline but was not checked. Its operation, declaration and
/// source are those of another input of the same check.
Checked gone_row(std::span<const Checked> checks, const BaselineRow& row) {
    Checked gone{.name = row.name, .input = row.input};
    const auto sibling =
        std::find_if(checks.begin(), checks.end(), [&](const Checked& one) { return one.name == row.name; });
    if (sibling != checks.end()) {
        gone.operation = sibling->operation;
        gone.declaration = sibling->declaration;
        gone.source = sibling->source;
        gone.line = sibling->line;
    }
    worsen(gone, "the baseline has this input, but it was not checked (--update-baseline removes it from the baseline)",
           0, 0, reason_code::baseline_gone);
    return gone;
}

}  // namespace

Baseline parse_baseline(std::string_view text, const std::string& file) {
    const auto bad = [&](const std::string& what) {
        return Error(
            {.what = what, .where = file, .fix = "remove the file, and write a new one with --update-baseline"});
    };
    if (const auto line = line_nested_too_deep(text)) throw bad(fmt::format("line {} is nested too deeply", *line));
    try {
        const Json document = Json::parse(text, true);
        if (document.at("schema") != Json(schema))
            throw bad(fmt::format("this is not a baseline: its schema is not {}", schema));
        Baseline rows;
        for (const Json& row : document.at("rows")) rows.push_back(row_of(row));
        return rows;
    } catch (const JsonError& error) {
        throw bad(fmt::format("this is not a baseline: {}", error.what()));
    }
}

Baseline load_baseline(const std::filesystem::path& file) {
    constexpr std::uint64_t max_bytes = std::uint64_t{256} << 20;
    return parse_baseline(read_file(file, max_bytes), file.string());
}

std::string baseline_text(std::span<const Checked> checks, const Baseline& old) {
    Baseline rows;
    for (const Checked& one : checks) {
        const auto was = std::find_if(old.begin(), old.end(), [&](const BaselineRow& row) {
            return row.name == one.name && row.input == one.input;
        });
        if (was_judged(one) && one.outcome != Outcome::fail)
            rows.push_back(row_of(one));
        else if (was != old.end())
            rows.push_back(*was);
    }
    std::sort(rows.begin(), rows.end(), [](const BaselineRow& a, const BaselineRow& b) {
        return std::pair(a.name, a.input) < std::pair(b.name, b.input);
    });
    Json list = Json::array();
    for (const BaselineRow& row : rows) list.push_back(row_json(row));
    Json document = Json::object();
    document["schema"] = schema;
    document["rows"] = list;
    return document.dump(2, Json::BadUtf8::is_replaced) + "\n";
}

std::vector<Checked> compare(std::span<Checked> checks, const Baseline& baseline) {
    std::vector<Checked> gone;
    for (const BaselineRow& row : baseline) {
        const auto one = std::find_if(checks.begin(), checks.end(), [&](const Checked& each) {
            return each.name == row.name && each.input == row.input;
        });
        if (one == checks.end())
            gone.push_back(gone_row(checks, row));
        else if (was_judged(*one))
            compare_row(*one, row);
    }
    for (Checked& one : checks) {
        const bool is_known = std::any_of(baseline.begin(), baseline.end(), [&](const BaselineRow& row) {
            return row.name == one.name && row.input == one.input;
        });
        if (!is_known && was_judged(one))
            one.notes.push_back("the baseline has no row for this input (--update-baseline adds one)");
    }
    return gone;
}

}  // namespace macheps::check
