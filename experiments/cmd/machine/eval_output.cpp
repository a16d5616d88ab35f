// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/machine/eval_output.hpp"

#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/text/json_number.hpp"
#include "core/text/print.hpp"
#include "experiments/cmd/frame/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::cmd::machine {

using namespace study;

namespace {

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

std::string text_of(const MachineMismatch& mismatch, std::string_view path) {
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

Json json_of(const MachineMismatch& mismatch) {
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

}  // namespace

std::string machine_eval_text(const MachineEvaluation& evaluation, const std::string& path) {
    std::string text;
    for (const MachineMismatch& mismatch : evaluation.mismatches) text += text_of(mismatch, path);
    for (const ConversionMismatch& mismatch : evaluation.conversion_mismatches) {
        const ConversionLine& line = mismatch.line;
        text += fmt::format("mismatch  {}:{}  {}  by codec {}\n     a  {}  {}\n  want  {}  {}\n   got  {}  {}\n\n",
                            path, mismatch.number, line.instruction, line.profile, digits(line.from, line.a),
                            value_text(line.from, line.a), digits(line.to, line.d), value_text(line.to, line.d),
                            digits(line.to, line.result), value_text(line.to, line.result));
    }
    for (const DisputedLine& line : evaluation.disputed) {
        text += fmt::format("disputed  {}:{}  {}{}: took {}\n", path, line.number, line.instruction,
                            line.kind.empty() ? "" : fmt::format("  ({})", line.kind),
                            line.took == "d" ? "d" : fmt::format("alternative {}", line.took));
    }
    if (!text.empty() && text[text.size() - 2] != '\n') text += '\n';
    std::size_t width = 11, machine_width = 7;
    for (const InstructionCount& count : evaluation.counts) {
        width = std::max(width, count.instruction.size());
        machine_width = std::max(machine_width, count.machine.size());
    }
    text += fmt::format("{:<{}}  {:<{}}  {:>6}", "instruction", width, "machine", machine_width, "lines");
    for (const InstructionEngine* engine : evaluation.engines) text += fmt::format("  {:>6}", engine->name);
    text += "  disputed\n";
    for (const InstructionCount& count : evaluation.counts) {
        text +=
            fmt::format("{:<{}}  {:<{}}  {:>6}", count.instruction, width, count.machine, machine_width, count.lines);
        for (std::size_t e = 0; e < count.ran.size(); ++e)
            text += fmt::format("  {:>6}", count.ran[e] == 0 ? "-" : std::to_string(count.agreed[e]));
        const auto disputed =
            std::count_if(evaluation.disputed.begin(), evaluation.disputed.end(),
                          [&](const DisputedLine& line) { return line.instruction == count.instruction; });
        text += disputed == 0 ? "\n" : fmt::format("  {:>8}\n", disputed);
    }
    std::size_t refused = 0;
    for (const RefusedLines& lines : evaluation.refused) {
        text += fmt::format("{:<{}}  refused: {}, {} lines\n", lines.instruction, width, lines.reason, lines.lines);
        refused += lines.lines;
    }
    const auto alternatives = std::count_if(evaluation.disputed.begin(), evaluation.disputed.end(),
                                            [](const DisputedLine& line) { return line.took != "d"; });
    text += fmt::format(
        "\n{} lines of {} instructions: {} agree, {} do not; {} disputed ({} took d, {} an alternative){}\n",
        evaluation.lines, evaluation.counts.size(), evaluation.lines - evaluation.wrong, evaluation.wrong,
        evaluation.disputed.size(), evaluation.disputed.size() - static_cast<std::size_t>(alternatives), alternatives,
        refused == 0 ? "" : fmt::format("; {} more lines refused", refused));
    return text;
}

void print_machine_eval_json(const MachineEvaluation& evaluation, const std::string& path) {
    Json refused = Json::array();
    for (const RefusedLines& lines : evaluation.refused)
        refused.push_back({{"instruction", lines.instruction}, {"reason", lines.reason}, {"lines", lines.lines}});
    Json mismatches = Json::array(), disputed = Json::array(), counts = Json::array(), names = Json::array();
    for (const MachineMismatch& mismatch : evaluation.mismatches) mismatches.push_back(json_of(mismatch));
    for (const ConversionMismatch& mismatch : evaluation.conversion_mismatches) {
        const ConversionLine& line = mismatch.line;
        mismatches.push_back({{"line", mismatch.number},
                              {"instruction", line.instruction},
                              {"machine", fmt::format("codec {}", line.profile)},
                              {"engine", "scalar"},
                              {"a", numbers_json(line.from, {line.a})},
                              {"want", number_json(line.to, line.d)},
                              {"got", number_json(line.to, line.result)}});
    }
    for (const DisputedLine& line : evaluation.disputed) {
        disputed.push_back(
            {{"line", line.number}, {"instruction", line.instruction}, {"class", line.kind}, {"took", line.took}});
    }
    for (const InstructionEngine* engine : evaluation.engines) names.push_back(engine->name);
    for (const InstructionCount& count : evaluation.counts) {
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
                {"mismatches", mismatches},
                {"refused", refused}});
}

}  // namespace macheps::cmd::machine
