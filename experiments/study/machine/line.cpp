// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/machine/line.hpp"

#include "core/error.hpp"
#include "core/format_table.hpp"
#include "core/text/nesting.hpp"
#include "core/text/shown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace macheps::study {

namespace {

[[noreturn]] void bad(std::string what, std::string_view where, std::string fix) {
    throw Error({.what = std::move(what), .where = std::string(where), .fix = std::move(fix)});
}

const Json& field(const Json& line, const char* key, std::string_view where) {
    const Json* found = line.find(key);
    if (found == nullptr)
        bad(fmt::format("\"{}\" is missing", key), where,
            "write arch, instr, qual, a, b, c and d, and with block scales also sa and sb");
    return *found;
}

std::string text_of(const Json& value, const std::string& name, std::string_view where) {
    if (!value.is_string())
        bad(fmt::format("\"{}\" is not a string", name), where,
            "write a string; for bits, hexadecimal digits such as \"3f80\"");
    return printable(value.string());
}

std::vector<std::uint64_t> codes(const Json& line, const char* key, const Format& format, int count,
                                 std::string_view where) {
    const Json& list = field(line, key, where);
    if (!list.is_array() || static_cast<int>(list.size()) != count) {
        bad(fmt::format("\"{}\" contains {} codes", key, list.is_array() ? list.size() : 0), where,
            fmt::format("write {} codes for this instruction", count));
    }
    std::vector<std::uint64_t> all;
    for (std::size_t i = 0; i < list.size(); ++i)
        all.push_back(line_bits(list[i], format, fmt::format("{}[{}]", key, i), where));
    return all;
}

ExpectedBits expected(const Json& value, const Format& format, const std::string& name, std::string_view where) {
    if (value == "nan") return {ExpectedBits::Kind::nan, 0};
    if (value == "zero") return {ExpectedBits::Kind::zero, 0};
    return {ExpectedBits::Kind::bits, line_bits(value, format, name, where)};
}

std::string optional_text(const Json& line, const char* key) {
    const Json* found = line.find(key);
    return found != nullptr && found->is_string() ? printable(found->string()) : std::string{};
}

}  // namespace

bool ExpectedBits::holds(const Format& format, std::uint64_t result) const {
    switch (kind) {
        case Kind::nan:
            return (result & format.magnitude_mask()) > format.inf_code();
        case Kind::zero:
            return (result & format.magnitude_mask()) == 0;
        default:
            return result == bits;
    }
}

std::optional<std::string> MachineLine::matches(std::uint64_t result) const {
    const Format& format = instruction.machine->result;
    if (d.holds(format, result)) return "d";
    for (const Alternative& alternative : alternatives) {
        if (alternative.d.holds(format, result)) return alternative.name;
    }
    return std::nullopt;
}

std::string line_text(const Json& line, const char* key, std::string_view where) {
    return text_of(field(line, key, where), key, where);
}

std::uint64_t line_bits(const Json& value, const Format& format, const std::string& name, std::string_view where) {
    const std::string text = text_of(value, name, where);
    std::uint64_t bits = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
    const int width = format.container_bits();
    const bool fits = width == 64 || bits >> width == 0;
    if (text.empty() || error != std::errc{} || end != text.data() + text.size() || !fits) {
        bad(fmt::format("\"{}\": '{}' is not a valid code of {}", name, text, format_name(format)), where,
            fmt::format("write {} bits in hexadecimal, without a prefix", width));
    }
    return bits;
}

Json parse_line_object(std::string_view text, std::string_view where) {
    Json line;
    if (line_nested_too_deep(text)) {
        bad(fmt::format("the line is nested deeper than {} levels", max_levels), where, "write one object per line");
    }
    try {
        line = Json::parse(text);
    } catch (const JsonError& error) {
        bad(error.byte() == 0 ? std::string(error.what())
                              : fmt::format("the line is not valid JSON at byte {}", error.byte()),
            where, "write one object per line");
    }
    if (!line.is_object()) bad("the line is not a JSON object", where, "write one object per line");
    return line;
}

MachineLine parse_machine_line(std::string_view text, std::string_view where) {
    return machine_line_of(parse_line_object(text, where), where);
}

MachineLine machine_line_of(const Json& line, std::string_view where) {
    MachineLine out;
    out.instruction = find_instruction(text_of(field(line, "arch", where), "arch", where),
                                       text_of(field(line, "instr", where), "instr", where),
                                       text_of(field(line, "qual", where), "qual", where), where);
    const Machine& machine = *out.instruction.machine;
    out.operands.a = codes(line, "a", out.instruction.a, out.instruction.k, where);
    out.operands.b = codes(line, "b", out.instruction.b, out.instruction.k, where);
    out.operands.c = line_bits(field(line, "c", where), machine.addend, "c", where);
    if (machine.has_scales()) {
        out.operands.a_scale = codes(line, "sa", machine.scale, out.instruction.scale_count(), where);
        out.operands.b_scale = codes(line, "sb", machine.scale, out.instruction.scale_count(), where);
    }
    out.d = expected(field(line, "d", where), machine.result, "d", where);
    // If the machine does not specify the bits of NaN, any NaN is right.
    if (!machine.fixes_nan() && ExpectedBits{ExpectedBits::Kind::nan}.holds(machine.result, out.d.bits))
        out.d = {ExpectedBits::Kind::nan, 0};
    out.kind = optional_text(line, "cls");
    out.status = optional_text(line, "status");
    if (const Json* alt = line.find("alt")) {
        if (!alt->is_object()) bad("\"alt\" is not an object", where, "write {\"name\": \"bits\", ...}");
        for (const auto& [name, value] : alt->items())
            out.alternatives.push_back({name, expected(value, machine.result, "alt." + name, where)});
        // If a result matches several alternatives, the first of them is reported. The alternatives are sorted by name,
        // so the order in the line does not matter.
        std::sort(out.alternatives.begin(), out.alternatives.end(),
                  [](const auto& a, const auto& b) { return a.name < b.name; });
    }
    return out;
}

}  // namespace macheps::study
