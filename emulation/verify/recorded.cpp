// SPDX-License-Identifier: Apache-2.0
#include "emulation/verify/recorded.hpp"

#include "core/error.hpp"
#include "emulation/machine/instruction.hpp"

#include <map>

namespace macheps::verify {

/// Of recorded_paths.cpp, which CMake makes; ends with nullptr.
extern const char* const recorded_trace_paths[];

RecordedTrace parse_trace_path(std::string_view path) {
    const std::size_t slash = path.find('/');
    if (slash == std::string_view::npos) return {};
    std::string_view name = path.substr(slash + 1);
    for (const std::string_view tail : {".zst", ".jsonl"}) {
        if (name.ends_with(tail)) name.remove_suffix(tail.size());
    }
    // Architecture, instruction (`wgmma`, `tcgen05.f16`), and from the shape on the qualifier.
    const std::size_t first = name.find('.');
    if (first == std::string_view::npos) return {};
    // A qualifier begins with a shape: `.m64n8k32`, of CPUs `.k2`.
    const auto is_shape = [&](std::size_t at) {
        return at + 2 < name.size() && (name[at + 1] == 'm' || name[at + 1] == 'k') && name[at + 2] >= '0' &&
               name[at + 2] <= '9';
    };
    std::size_t second = name.find('.', first + 1);
    while (second != std::string_view::npos && !is_shape(second)) second = name.find('.', second + 1);
    if (second == std::string_view::npos) return {};
    return {std::string(path.substr(0, slash)), std::string(name.substr(0, first)),
            std::string(name.substr(first + 1, second - first - 1)), std::string(name.substr(second + 1))};
}

std::vector<RecordedTrace> recorded_traces() {
    std::vector<RecordedTrace> traces;
    for (const char* const* path = recorded_trace_paths; *path != nullptr; ++path)
        traces.push_back(parse_trace_path(*path));
    return traces;
}

std::vector<std::string> gpus_with_traces(const Machine& machine, const std::vector<RecordedTrace>& traces) {
    std::map<std::string, std::string> forms;
    for (const RecordedTrace& trace : traces) {
        try {
            if (find_instruction(trace.arch, trace.instr, trace.qual).machine != &machine) continue;
        } catch (const Error&) {
            continue;
        }
        std::string& list = forms[trace.gpu];
        list += (list.empty() ? "" : ", ") + trace.qual;
    }
    std::vector<std::string> gpus;
    for (const auto& [gpu, list] : forms) gpus.push_back(gpu + " (" + list + ")");
    return gpus;
}

}  // namespace macheps::verify
