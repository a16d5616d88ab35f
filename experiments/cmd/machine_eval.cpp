// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/machine_eval.hpp"

#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/nearest_name.hpp"
#include "emulation/cpu/matmul/instruction_grid.hpp"
#include "experiments/cmd/json.hpp"
#include "experiments/numerics/machine_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>

namespace macheps {

namespace {

/// Evaluates a line, perhaps in several places of an output: every result must be right.
struct InstructionEngine {
    std::string_view name;
    std::vector<std::uint64_t> (*run)(const Instruction&, const InstructionOperands&);
    bool (*takes)(const Instruction&);
};

/// Alone, and as each element of a matrix that is wider than a panel of the kernels.
template <Simd level>
std::vector<std::uint64_t> run_on(const Instruction& instruction, const InstructionOperands& operands) {
    constexpr std::size_t rows = 3, columns = 67;
    const std::vector<InstructionOperands> copies(columns, operands);
    const std::span<const InstructionOperands> all(copies);
    std::vector<std::uint64_t> results = instruction_grid(level, instruction, all.first(1), all.first(1));
    const auto more = instruction_grid(level, instruction, all.first(rows), all);
    results.insert(results.end(), more.begin(), more.end());
    return results;
}

constexpr std::array<InstructionEngine, 3> engines{{
    {"scalar",
     [](const Instruction& i, const InstructionOperands& x) {
         return std::vector<std::uint64_t>{evaluate_instruction(i, x)};
     },
     [](const Instruction&) { return true; }},
    {"avx2", run_on<Simd::avx2>, has_instruction_grid},
    {"avx512", run_on<Simd::avx512>, has_instruction_grid},
}};

std::vector<const InstructionEngine*> engines_of(const std::vector<std::string>& names) {
    const std::vector<std::string> here = instruction_engine_names();
    std::vector<const InstructionEngine*> chosen;
    for (const std::string& name : names) {
        if (std::find(here.begin(), here.end(), name) == here.end()) {
            throw Error({.what = fmt::format("no engine '{}' on this CPU", name),
                         .where = "--engine",
                         .fix = fmt::format("one of {}", fmt::join(here, ", ")),
                         .exit = Exit::usage});
        }
        chosen.push_back(
            std::find_if(engines.begin(), engines.end(), [&](const auto& engine) { return engine.name == name; }));
    }
    return chosen;
}

struct Mismatch {
    std::size_t number;
    MachineLine line;
    std::string_view engine;
    std::uint64_t result;
};

struct Disputed {
    std::size_t number;
    std::string instruction, kind, took;
    std::uint64_t result;
};

/// How the lines of one instruction fared.
struct Count {
    std::string instruction;
    std::string_view machine;
    std::size_t lines = 0, agree = 0, alternative = 0;
    std::vector<std::size_t> ran{}, agreed{};  ///< by engine
};

struct Evaluation {
    std::vector<const InstructionEngine*> engines;
    std::size_t lines = 0, wrong = 0;  ///< wrong: lines with a mismatch on any engine
    std::vector<Mismatch> mismatches;
    std::vector<Disputed> disputed;
    std::vector<Count> counts;

    Count& count_of(const Instruction& instruction) {
        for (Count& count : counts) {
            if (count.instruction == instruction.name) return count;
        }
        counts.push_back({.instruction = instruction.name, .machine = instruction.machine->name});
        counts.back().ran.resize(engines.size());
        counts.back().agreed.resize(engines.size());
        return counts.back();
    }

    void add(std::size_t number, const MachineLine& line, std::size_t shown) {
        Count& count = count_of(line.instruction);
        ++lines;
        ++count.lines;
        std::string took;
        std::uint64_t result = 0;
        bool right = true;
        for (std::size_t e = 0; e < engines.size(); ++e) {
            if (!engines[e]->takes(line.instruction)) continue;
            ++count.ran[e];
            bool agreed = true;
            for (const std::uint64_t d : engines[e]->run(line.instruction, line.operands)) {
                const auto match = line.matches(d);
                // Engines may not differ among themselves either.
                if (match && (took.empty() || *match == took)) {
                    took = *match;
                    result = d;
                    continue;
                }
                agreed = false;
                if (mismatches.size() < shown) mismatches.push_back({number, line, engines[e]->name, d});
                break;
            }
            count.agreed[e] += agreed ? 1 : 0;
            right = right && agreed;
        }
        wrong += right ? 0 : 1;
        count.agree += right ? 1 : 0;
        if (!right || took.empty()) return;
        count.alternative += took == "d" ? 0 : 1;
        if (!line.alternatives.empty()) disputed.push_back({number, line.instruction.name, line.kind, took, result});
    }
};

std::string value_text(const Format& format, std::uint64_t bits) { return decimal(decode64(format, bits)); }

std::string digits(const Format& format, std::uint64_t bits) { return hex_code(format, bits).substr(2); }

std::string expected_text(const ExpectedBits& d, const Format& format) {
    switch (d.kind) {
        case ExpectedBits::Kind::nan:
            return "any NaN";
        case ExpectedBits::Kind::zero:
            return "a zero";
        default:
            return fmt::format("{}  {}", digits(format, d.bits), value_text(format, d.bits));
    }
}

std::string text_of(const Mismatch& mismatch, std::string_view path) {
    const MachineLine& line = mismatch.line;
    const Instruction& instruction = line.instruction;
    const Machine& machine = *instruction.machine;
    std::string text = fmt::format("mismatch  {}:{}  {}{}  on {}\n", path, mismatch.number, instruction.name,
                                   line.kind.empty() ? "" : fmt::format("  ({})", line.kind), mismatch.engine);
    text += fmt::format("     k  a {:<22} b {}\n", format_name(instruction.a), format_name(instruction.b));
    for (std::size_t i = 0; i < line.operands.a.size(); ++i) {
        const std::uint64_t a = line.operands.a[i], b = line.operands.b[i];
        text += fmt::format("  {:>4}  {:<24} {}\n", i,
                            fmt::format("{}  {}", digits(instruction.a, a), value_text(instruction.a, a)),
                            fmt::format("{}  {}", digits(instruction.b, b), value_text(instruction.b, b)));
    }
    for (std::size_t i = 0; i < line.operands.a_scale.size(); ++i) {
        const std::uint64_t a = line.operands.a_scale[i], b = line.operands.b_scale[i];
        text += fmt::format("  s{:<3}  {:<24} {}\n", i,
                            fmt::format("{}  {}", digits(machine.scale, a), value_text(machine.scale, a)),
                            fmt::format("{}  {}", digits(machine.scale, b), value_text(machine.scale, b)));
    }
    text += fmt::format("     c  {}  {}\n", digits(machine.addend, line.operands.c),
                        value_text(machine.addend, line.operands.c));
    text += fmt::format("  want  {}\n", expected_text(line.d, machine.result));
    for (const auto& other : line.alternatives)
        text += fmt::format("    or  {}  ({})\n", expected_text(other.d, machine.result), other.name);
    return text + fmt::format("   got  {}  {}\n\n", digits(machine.result, mismatch.result),
                              value_text(machine.result, mismatch.result));
}

void print_text(const Evaluation& evaluation, const std::string& path) {
    std::string text;
    for (const Mismatch& mismatch : evaluation.mismatches) text += text_of(mismatch, path);
    for (const Disputed& line : evaluation.disputed) {
        text += fmt::format("disputed  {}:{}  {}{}: took {}\n", path, line.number, line.instruction,
                            line.kind.empty() ? "" : fmt::format("  ({})", line.kind),
                            line.took == "d" ? "d" : fmt::format("alternative {}", line.took));
    }
    if (!text.empty() && text[text.size() - 2] != '\n') text += '\n';
    std::size_t width = 11, machine_width = 7;
    for (const Count& count : evaluation.counts) {
        width = std::max(width, count.instruction.size());
        machine_width = std::max(machine_width, count.machine.size());
    }
    text += fmt::format("{:<{}}  {:<{}}  {:>6}", "instruction", width, "machine", machine_width, "lines");
    for (const InstructionEngine* engine : evaluation.engines) text += fmt::format("  {:>6}", engine->name);
    text += "  disputed\n";
    for (const Count& count : evaluation.counts) {
        text +=
            fmt::format("{:<{}}  {:<{}}  {:>6}", count.instruction, width, count.machine, machine_width, count.lines);
        for (std::size_t e = 0; e < count.ran.size(); ++e)
            text += fmt::format("  {:>6}", count.ran[e] == 0 ? "-" : std::to_string(count.agreed[e]));
        const auto disputed =
            std::count_if(evaluation.disputed.begin(), evaluation.disputed.end(),
                          [&](const Disputed& line) { return line.instruction == count.instruction; });
        text += disputed == 0 ? "\n" : fmt::format("  {:>8}\n", disputed);
    }
    const auto alternatives = std::count_if(evaluation.disputed.begin(), evaluation.disputed.end(),
                                            [](const Disputed& line) { return line.took != "d"; });
    text += fmt::format(
        "\n{} lines of {} instructions: {} agree, {} do not; {} disputed ({} took d, {} an alternative)\n",
        evaluation.lines, evaluation.counts.size(), evaluation.lines - evaluation.wrong, evaluation.wrong,
        evaluation.disputed.size(), evaluation.disputed.size() - static_cast<std::size_t>(alternatives), alternatives);
    std::fwrite(text.data(), 1, text.size(), stdout);
}

using Json = nlohmann::ordered_json;

Json number_json(const Format& format, std::uint64_t bits) {
    return {{"bits", digits(format, bits)}, {"value", json_number(decode64(format, bits))}};
}

Json numbers_json(const Format& format, const std::vector<std::uint64_t>& list) {
    Json all = Json::array();
    for (const std::uint64_t bits : list) all.push_back(number_json(format, bits));
    return all;
}

Json expected_json(const ExpectedBits& d, const Format& format) {
    if (d.kind == ExpectedBits::Kind::bits) return number_json(format, d.bits);
    return {{"bits", d.kind == ExpectedBits::Kind::nan ? "nan" : "zero"},
            {"value", d.kind == ExpectedBits::Kind::nan ? Json("nan") : Json(0.0)}};
}

Json json_of(const Mismatch& mismatch) {
    const MachineLine& line = mismatch.line;
    const Machine& machine = *line.instruction.machine;
    Json json{{"line", mismatch.number},
              {"instruction", line.instruction.name},
              {"machine", machine.name},
              {"class", line.kind},
              {"engine", mismatch.engine},
              {"a", numbers_json(line.instruction.a, line.operands.a)},
              {"b", numbers_json(line.instruction.b, line.operands.b)},
              {"c", number_json(machine.addend, line.operands.c)}};
    if (machine.has_scales()) {
        json["sa"] = numbers_json(machine.scale, line.operands.a_scale);
        json["sb"] = numbers_json(machine.scale, line.operands.b_scale);
    }
    json["want"] = expected_json(line.d, machine.result);
    json["got"] = number_json(machine.result, mismatch.result);
    return json;
}

void print_as_json(const Evaluation& evaluation, const std::string& path) {
    Json mismatches = Json::array(), disputed = Json::array(), counts = Json::array(), names = Json::array();
    for (const Mismatch& mismatch : evaluation.mismatches) mismatches.push_back(json_of(mismatch));
    for (const Disputed& line : evaluation.disputed) {
        disputed.push_back(
            {{"line", line.number}, {"instruction", line.instruction}, {"class", line.kind}, {"took", line.took}});
    }
    for (const InstructionEngine* engine : evaluation.engines) names.push_back(engine->name);
    for (const Count& count : evaluation.counts) {
        Json agreed = Json::object();
        for (std::size_t e = 0; e < count.ran.size(); ++e)
            agreed[std::string(evaluation.engines[e]->name)] = count.ran[e] == 0 ? Json() : Json(count.agreed[e]);
        counts.push_back({{"instruction", count.instruction},
                          {"machine", count.machine},
                          {"lines", count.lines},
                          {"agree", count.agree},
                          {"alternatives", count.alternative},
                          {"engines", agreed}});
    }
    print_json({{"file", path},
                {"lines", evaluation.lines},
                {"wrong", evaluation.wrong},
                {"engines", names},
                {"instructions", counts},
                {"disputed", disputed},
                {"mismatches", mismatches}});
}

}  // namespace

std::vector<std::string> instruction_engine_names() {
    std::vector<std::string> names;
    for (const Simd level : available_simd()) names.emplace_back(simd_name(level));
    return names;
}

Exit evaluate_lines(const EvalOptions& options) {
    Evaluation evaluation;
    evaluation.engines = engines_of(options.engines);
    const std::string path = options.path == "-" ? "stdin" : options.path;
    std::ifstream file;
    if (options.path != "-") {
        file.open(options.path, std::ios::binary);
        if (!file) throw Error({.what = "cannot read the file", .where = options.path, .fix = "check the name"});
    }
    std::istream& in = options.path == "-" ? std::cin : file;
    std::size_t number = 0;
    for (std::string text; std::getline(in, text);) {
        ++number;
        if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
        if (number == 1 && text.starts_with("{\"macheps_trace\":")) continue;  // the header of `verify --record`
        evaluation.add(number, parse_machine_line(text, fmt::format("{}:{}", path, number)), options.shown);
    }
    if (in.bad() || (options.path != "-" && number == 0 && !file.eof())) {
        throw Error({.what = "cannot read to the end", .where = path, .fix = "check the file"});
    }
    if (evaluation.lines == 0) {
        throw Error({.what = "no lines", .where = path, .fix = "one JSON object per line (see --help)"});
    }
    options.json ? print_as_json(evaluation, path) : print_text(evaluation, path);
    return evaluation.wrong == 0 ? Exit::ok : Exit::check_failed;
}

}  // namespace macheps
