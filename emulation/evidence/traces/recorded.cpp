// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/traces/recorded.hpp"

#include "core/error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

namespace macheps::evidence {

/// The lines of tests/traces/index.csv without its header. The last element is nullptr. CMake writes this array to
/// recorded_index.cpp.
extern const char* const recorded_trace_index[];

namespace {

std::vector<std::string> split(std::string_view text, char at) {
    std::vector<std::string> parts;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(at), text.size());
        parts.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

/// Reads the names in a path such as `h200/sm_90.wgmma.m64n8k32.f32.e4m3.e4m3.jsonl.zst`: architecture, instruction
/// (`wgmma`, `tcgen05.f16`), and the qualifier, which begins with a shape. Leaves the names empty if the path has
/// another form.
void read_names(RecordedTrace& trace) {
    const std::size_t slash = trace.path.find('/');
    if (slash == std::string::npos) return;
    std::string_view name = std::string_view(trace.path).substr(slash + 1);
    for (const std::string_view tail : {".zst", ".jsonl"}) {
        if (name.ends_with(tail)) name.remove_suffix(tail.size());
    }
    const std::size_t first = name.find('.');
    if (first == std::string_view::npos) return;
    // A shape is `.m64n8k32`, or `.k2` for a CPU.
    const auto is_shape = [&](std::size_t at) {
        return at + 2 < name.size() && (name[at + 1] == 'm' || name[at + 1] == 'k') && name[at + 2] >= '0' &&
               name[at + 2] <= '9';
    };
    std::size_t second = name.find('.', first + 1);
    while (second != std::string_view::npos && !is_shape(second)) second = name.find('.', second + 1);
    if (second == std::string_view::npos) return;
    trace.arch = name.substr(0, first);
    trace.instr = name.substr(first + 1, second - first - 1);
    trace.qual = name.substr(second + 1);
}

bool covers(const RecordedTrace& trace, const Machine& machine) {
    try {
        return row_instruction({.arch = trace.arch, .instr = trace.instr, .qual = trace.qual}).machine == &machine;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace

std::string index_line(const std::string& path, const Trace& trace) {
    std::vector<std::string> missed;
    for (const auto& [name, rows] : trace.refuted) {
        if (rows == 0) missed.push_back(name);
    }
    return fmt::format("{},{},{},{},{}", path, trace.gpu, trace.date, trace.rows.size(), fmt::join(missed, " "));
}

RecordedTrace parse_index_line(std::string_view line) {
    std::vector<std::string> cells = split(line, ',');
    cells.resize(5);
    RecordedTrace trace{.path = cells[0], .device = cells[1], .date = cells[2], .not_refuted = split(cells[4], ' ')};
    std::from_chars(cells[3].data(), cells[3].data() + cells[3].size(), trace.outputs);
    read_names(trace);
    return trace;
}

std::vector<RecordedTrace> recorded_traces() {
    std::vector<RecordedTrace> traces;
    for (const char* const* line = recorded_trace_index; *line != nullptr; ++line)
        traces.push_back(parse_index_line(*line));
    return traces;
}

std::vector<DeviceEvidence> devices_with_traces(const Machine& machine, const std::vector<RecordedTrace>& traces) {
    std::vector<DeviceEvidence> devices;
    for (const RecordedTrace& trace : traces) {
        if (!covers(trace, machine)) continue;
        auto found =
            std::find_if(devices.begin(), devices.end(), [&](const auto& each) { return each.device == trace.device; });
        if (found == devices.end()) {
            devices.push_back({.device = trace.device, .first_date = trace.date, .last_date = trace.date});
            found = devices.end() - 1;
        }
        found->first_date = std::min(found->first_date, trace.date);
        found->last_date = std::max(found->last_date, trace.date);
        found->outputs += trace.outputs;
        found->forms.push_back(trace.form());
    }
    return devices;
}

std::vector<std::string> not_refuted(const Machine& machine, const std::vector<RecordedTrace>& traces) {
    std::map<std::string, std::size_t> missed;
    std::size_t count = 0;
    for (const RecordedTrace& trace : traces) {
        if (!covers(trace, machine)) continue;
        ++count;
        for (const std::string& mutant : trace.not_refuted) ++missed[mutant];
    }
    std::vector<std::string> names;
    for (const auto& [mutant, times] : missed) {
        if (times == count) names.push_back(mutant);
    }
    return names;
}

}  // namespace macheps::evidence
