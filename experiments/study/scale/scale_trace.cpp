// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/scale/scale_trace.hpp"

#include "core/field_error.hpp"
#include "core/format_table.hpp"
#include "core/text/nearest_name.hpp"
#include "emulation/scaling/history.hpp"
#include "emulation/scaling/scaling.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace macheps::study {

namespace {

[[noreturn]] void unknown(const char* field, std::string_view what, std::string_view name,
                          const std::vector<std::string_view>& names) {
    const std::string near = nearest_name(name, names);
    throw FieldError(field, fmt::format("unknown {} '{}'", what, name),
                     fmt::format("{}use one of {}", near.empty() ? "" : fmt::format("did you mean '{}'? ", near),
                                 fmt::join(names, ", ")));
}

Format element_format(const ScaleQuestion& question, bool is_nvfp4) {
    if (question.format.empty()) return is_nvfp4 ? e2m1fn : e4m3fn;
    const NamedFormat* row = find_format(question.format);
    if (row == nullptr) unknown("format", "format", question.format, format_names());
    if (!row->format.has_zero() || row->format == fp64) {
        throw FieldError("format", fmt::format("'{}' cannot be the format of scaled elements", question.format),
                         "use a signed format that has a zero and fits in fp32, such as e4m3fn");
    }
    if (is_nvfp4 && row->format != e2m1fn) {
        throw FieldError("format", fmt::format("'{}' scales only e2m1fn elements", question.rule),
                         "leave out `format`, or use e2m1fn");
    }
    return row->format;
}

void check_amaxes(const ScaleQuestion& question) {
    const auto refuse = [](float amax) {
        throw FieldError("amax", fmt::format("{} is not a valid maximum magnitude", amax), "use 0 or more, inf or nan");
    };
    if (question.amax.empty()) throw FieldError("amax", "there are no values", "give numbers separated by commas");
    for (const float amax : question.amax) {
        if (amax < 0) refuse(amax);
    }
    if (question.tensor_amax && *question.tensor_amax < 0) refuse(*question.tensor_amax);
}

DelayedScaling delayed_scaling(const ScaleQuestion& question) {
    DelayedScaling how;
    const std::int64_t length = question.history.value_or(how.length), margin = question.margin.value_or(how.margin);
    check_range("history", length, 1, DelayedScaling::longest);
    check_range("margin", margin, 0, DelayedScaling::widest);
    how.length = static_cast<int>(length);
    how.margin = static_cast<int>(margin);
    if (question.algorithm.empty()) return how;
    for (const AmaxChoiceName& row : amax_choices) {
        how.choice = row.value;
        if (row.name == question.algorithm) return how;
    }
    unknown("algorithm", "algorithm", question.algorithm, names_of(amax_choices));
}

std::vector<ScaleTraceStep> trace_of_history(const ScaleQuestion& question, const ScaleRule& rule) {
    AmaxHistory history(rule, element_format(question, false), delayed_scaling(question));
    std::vector<ScaleTraceStep> steps;
    for (const float amax : question.amax) {
        steps.push_back({static_cast<std::int64_t>(steps.size()) + 1, amax, history.scale(), history.decode_scale()});
        history.observe(amax);
        history.update();
    }
    return steps;
}

/// Returns the scale of a tensor whose blocks have the given amaxes, or a neutral scale if the rule does not scale
/// whole tensors.
definition::GroupScale tensor_scale(const ScaleQuestion& question, const ScaleRule& rule) {
    if (rule.tensor == nullptr) return {};
    float amax = 0;
    for (const float each : question.amax) amax = definition::join_amax(rule, amax, each);
    return rule.tensor(question.tensor_amax.value_or(amax));
}

std::vector<ScaleTraceStep> trace_of_groups(const ScaleQuestion& question, const ScaleRule& rule) {
    const Format format = element_format(question, rule.kind == ScaleKind::nvfp4);
    const definition::GroupScale tensor = tensor_scale(question, rule);
    std::vector<ScaleTraceStep> steps;
    for (const float amax : question.amax) {
        const auto scale = definition::group_scale(format, rule, amax, tensor);
        steps.push_back(
            {static_cast<std::int64_t>(steps.size()) + 1, amax, scale.encode, scale.decode * tensor.decode});
    }
    return steps;
}

/// Throws if the input sets an option that the rule does not use.
void refuse_unread(const ScaleQuestion& question, const ScaleRule& rule) {
    const auto refuse = [&](const char* field, bool is_said, bool (*reads)(const ScaleRule&)) {
        if (!is_said || reads(rule)) return;
        std::vector<std::string_view> readers;
        for (const ScaleRule& row : scale_rules) {
            if (reads(row)) readers.push_back(row.name);
        }
        throw FieldError(field, fmt::format("'{}' does not use this option", rule.name),
                         fmt::format("leave it out, or use {}", fmt::join(readers, ", ")));
    };
    const auto has_history = [](const ScaleRule& row) { return row.has_history(); };
    refuse("history", question.history.has_value(), has_history);
    refuse("margin", question.margin.has_value(), has_history);
    refuse("algorithm", !question.algorithm.empty(), has_history);
    refuse("tensor_amax", question.tensor_amax.has_value(), [](const ScaleRule& row) { return row.tensor != nullptr; });
}

}  // namespace

std::vector<ScaleTraceStep> scale_trace(const ScaleQuestion& question) {
    const ScaleRule* rule = find_scale_rule(question.rule);
    if (rule == nullptr) unknown("rule", "scale rule", question.rule, names_of(scale_rules));
    check_amaxes(question);
    refuse_unread(question, *rule);
    return rule->has_history() ? trace_of_history(question, *rule) : trace_of_groups(question, *rule);
}

}  // namespace macheps::study
