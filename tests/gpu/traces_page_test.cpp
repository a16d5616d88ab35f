// SPDX-License-Identifier: Apache-2.0
// Tests that docs/gpu.md and docs/evidence.md report exactly the contents of tests/traces.
#include "core/host/read_file.hpp"
#include "emulation/evidence/gpu/matrix/sparse_forms.hpp"
#include "emulation/evidence/gpu/scalar/replay.hpp"
#include "emulation/evidence/library/capture.hpp"
#include "emulation/evidence/operands/operand_class.hpp"
#include "emulation/evidence/traces/json_lines.hpp"
#include "emulation/evidence/traces/recorded.hpp"
#include "emulation/evidence/traces/trace.hpp"
#include "emulation/machine/instruction.hpp"
#include "emulation/machine/table.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace traces_page_test {

using namespace macheps;
namespace fs = std::filesystem;

namespace {

const fs::path source = MACHEPS_SOURCE_DIR;

std::string page(const char* name) { return read_file(source / "docs" / name); }

/// Returns 116100 as 116,100.
std::string grouped(std::uint64_t n) {
    std::string text = std::to_string(n);
    for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<std::size_t>(at), ",");
    return text;
}

/// Summary of the files that were recorded on one GPU.
struct Recorded {
    std::set<std::string> dates{};
    int traces = 0, sparse_traces = 0, sums_files = 0, operations = 0, without_model = 0, problems = 0, algorithms = 0,
        trees = 0, policies = 0;
    std::uint64_t outputs = 0, sparse_outputs = 0, results = 0, library_outputs = 0, tensors = 0;
    std::map<std::string, int> operations_of{};  ///< by kind: operations whose results all agree with a model
    std::set<std::string> libraries{};
};

/// Adds the operations and results of a file of sums to `all`.
void count_sums(const std::string& text, Recorded& all) {
    ++all.sums_files;
    std::istringstream lines(text);
    std::string line;
    std::getline(lines, line);
    const std::string kind = evidence::parse_json_line(line, "header")["kind"].string();
    while (std::getline(lines, line)) {
        const Json row = evidence::parse_json_line(line, "row");
        ++all.operations;
        if (row["mismatches"].get<std::uint64_t>() > 0) {
            ++all.without_model;
            continue;
        }
        ++all.operations_of[kind];
        all.results += row["trials"].get<std::uint64_t>();
    }
}

/// Reads every file below tests/traces except recordings of CPUs, and returns a summary for each GPU.
std::map<std::string, Recorded> recorded() {
    std::map<std::string, Recorded> gpus;
    std::map<std::string, std::string> folders;  // names of GPUs by folder
    for (const evidence::RecordedTrace& trace : evidence::recorded_traces()) {
        if (is_cpu_unit({.arch = trace.arch})) continue;
        Recorded& all = gpus[trace.device];
        folders[trace.path.substr(0, trace.path.find('/'))] = trace.device;
        all.dates.insert(trace.date);
        const bool is_sparse = trace.instr.ends_with(".sp");
        ++(is_sparse ? all.sparse_traces : all.traces);
        (is_sparse ? all.sparse_outputs : all.outputs) += trace.outputs;
    }
    for (const fs::path& file : evidence::trace_files(source / "tests/traces")) {
        if (evidence::is_instruction_trace(file)) continue;
        const std::string text = evidence::read_json_lines(file), where = file.string();
        const Json header = evidence::parse_json_line(text.substr(0, text.find('\n')), where);
        Recorded& all = gpus[header["gpu"].string()];
        all.dates.insert(header["date"].string());
        if (evidence::is_sums(header)) count_sums(text, all);
        if (evidence::is_tree_capture(header)) ++all.trees;
        if (!evidence::is_library_capture(header)) continue;
        const evidence::RecordedLibrary library = evidence::parse_library_capture(text, where);
        ++all.problems;
        all.libraries.insert(library.library);
        for (const evidence::RecordedAlgorithm& algorithm : library.algorithms) {
            ++all.algorithms;
            for (const auto& outputs : algorithm.outputs) all.library_outputs += outputs.second.size();
        }
    }
    for (const auto& [folder, name] : folders) {
        std::ifstream lines(source / "tests/traces" / folder / "training.txt");
        for (std::string line; std::getline(lines, line);) {
            if (line.empty() || line.front() == '#') continue;
            std::istringstream words(line);
            std::string hash, policy;
            std::uint64_t count = 0;
            words >> hash >> policy >> count;
            ++gpus[name].policies;
            gpus[name].tensors += count;
        }
    }
    return gpus;
}

std::vector<std::string> rows_of(const std::string& name, const Recorded& all) {
    const std::string start = fmt::format("| {} | {} | ", name, fmt::join(all.dates, ", "));
    std::vector<std::string> rows;
    const auto add = [&](bool exists, const std::string& text) {
        if (exists) rows.push_back(start + text + " |");
    };
    add(all.traces > 0,
        fmt::format("traces of `mma.sync` and `wgmma` | {} | {} outputs", all.traces, grouped(all.outputs)));
    add(all.sparse_traces > 0, fmt::format("traces of `mma.sp` and `wgmma.sp` | {} | {} outputs", all.sparse_traces,
                                           grouped(all.sparse_outputs)));
    add(all.sums_files > 0,
        fmt::format(
            "sums of hashes of scalar operations | {} | {:.1e} results of {} operations; {} more follow no model",
            all.sums_files, static_cast<double>(all.results), all.operations - all.without_model, all.without_model));
    add(all.problems > 0,
        fmt::format("captures of {} | {} | {} outputs of {} algorithms", fmt::join(all.libraries, ", "), all.problems,
                    grouped(all.library_outputs), all.algorithms));
    add(all.trees > 0,
        fmt::format("orders of sums of {} | {} | {} trees", fmt::join(all.libraries, ", "), all.trees, all.trees));
    add(all.policies > 0, fmt::format("training, 50 steps of size `tiny` | 1 | hashes of {} tensors of {} policies",
                                      grouped(all.tensors), all.policies));
    return rows;
}

/// Returns the lines of a page that begin with `start`.
std::vector<std::string> lines_with(const std::string& text, const std::string& start) {
    std::vector<std::string> found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(start)) found.push_back(line);
    }
    return found;
}

}  // namespace

TEST_CASE("docs/gpu.md lists the existing traces by GPU and date", "[gpu][traces]") {
    if (!evidence::has_zstd()) SKIP_TEST("this build reads no .zst");
    std::vector<std::string> rows;
    for (const auto& [name, all] : recorded()) {
        for (const std::string& row : rows_of(name, all)) rows.push_back(row);
    }
    CHECK(rows.size() >= 10);
    const std::vector<std::string> said = lines_with(page("gpu.md"), "| NVIDIA ");
    INFO("the table should be\n" << fmt::format("{}", fmt::join(rows, "\n")));
    CHECK(said == rows);
}

TEST_CASE("the counts in docs/gpu.md agree with the traces", "[gpu][traces]") {
    if (!evidence::has_zstd()) SKIP_TEST("this build reads no .zst");
    const std::map<std::string, Recorded> gpus = recorded();
    const Recorded& h100 = gpus.at("NVIDIA H100 80GB HBM3");
    const std::string text = page("gpu.md");
    const std::string claims[] = {
        fmt::format("| `mma.sync` and `wgmma` in {} forms ", evidence::instruction_forms),
        fmt::format("{} classes of operands", evidence::operand_classes),
        fmt::format("| {} sparse forms of `mma.sp` and `wgmma.sp` ", evidence::sparse_forms),
        fmt::format("| {} conversions, {} arithmetic operations and functions and {} of our own functions ",
                    h100.operations_of.at("convert"), h100.operations_of.at("scalar"), h100.operations_of.at("math")),
        fmt::format("the other {} are approximations", h100.without_model),
        fmt::format("of {} algorithms of {} problems ", h100.algorithms, h100.problems),
    };
    for (const std::string& claim : claims) {
        CAPTURE(claim);
        CHECK(text.find(claim) != std::string::npos);
    }
}

TEST_CASE("docs/evidence.md names the GPUs whose traces cover a machine, and calls the other machines unverified",
          "[gpu][traces]") {
    const std::vector<evidence::RecordedTrace> traces = evidence::recorded_traces();
    // Columns of the table: `| machines | evidence | from where |`
    std::map<std::string, std::string> from;
    std::istringstream lines(page("evidence.md"));
    for (std::string line; std::getline(lines, line);) {
        std::vector<std::string> cells;
        std::istringstream row(line);
        for (std::string cell; std::getline(row, cell, '|');) cells.push_back(cell);
        if (cells.size() != 4) continue;
        for (std::size_t at = cells[1].find('`'); at != std::string::npos;) {
            const std::size_t end = cells[1].find('`', at + 1);
            from[cells[1].substr(at + 1, end - at - 1)] = cells[3];
            at = cells[1].find('`', end + 1);
        }
    }
    int verified = 0, unverified = 0;
    for (const Machine* machine : all_machines) {
        if (machine->evidence == Evidence::definition || is_cpu_unit(*machine)) continue;
        const std::string name(machine->name);
        CAPTURE(name);
        REQUIRE(from.count(name) == 1);
        const std::string& said = from.at(name);
        std::set<std::string> devices;
        for (const evidence::DeviceEvidence& device : evidence::devices_with_traces(*machine, traces)) {
            std::istringstream words(device.device);  // such as `NVIDIA H100 80GB HBM3`
            std::string vendor, gpu;
            words >> vendor >> gpu;
            devices.insert(gpu);
        }
        const std::string by_traces = fmt::format("traces that this program recorded: {}", fmt::join(devices, ", "));
        CHECK(said.ends_with((devices.empty() ? "unverified" : by_traces) + " "));
        CHECK((said.find("unverified") != std::string::npos) == devices.empty());
        CHECK((said.find("traces") != std::string::npos) == !devices.empty());
        ++(devices.empty() ? unverified : verified);
    }
    CHECK(verified >= 12);
    CHECK(unverified >= 30);
}

}  // namespace traces_page_test
