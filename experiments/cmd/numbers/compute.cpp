// SPDX-License-Identifier: Apache-2.0
// `macheps compute`: one operation in every format.
#include "core/arithmetic.hpp"
#include "core/format_table.hpp"
#include "core/rounding_names.hpp"
#include "core/text/print.hpp"
#include "core/text/trimmed.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/rounding_option.hpp"
#include "experiments/cmd/frame/row_table.hpp"
#include "experiments/cmd/numbers/format_list.hpp"
#include "experiments/study/eval/exact_number.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::cmd::compute {

using study::ExactNumber;

namespace {

constexpr const char* help = R"text(Computes one operation in every format: rounded operands, result, error and flags.

Examples:
  macheps compute "0.1 + 0.2"                             in every format
  macheps compute "1 / 3" --format fp16,bf16,e5m6         e5m6 is a format given by its widths
  macheps compute "sqrt(2)" --format fp32 --round up
  macheps compute "fma(0.1, 10, -1)" --format fp64,fp32   a * b + c with one rounding
  macheps compute "300 * 300" --format fp16,e4m3fn --saturate
  macheps compute "0.1 + 0.2" --json                      for a program)text";

constexpr const char* help_notes = R"text(Expressions:
  One operation: a + b, a - b, a * b, a / b, sqrt(a) or fma(a, b, c). Operands are decimals,
  fractions (1/3), hexadecimal floats, inf or nan. Write spaces around the sign of the operation if
  an operand is a fraction. For formulas with several operations, see `macheps eval`.

Results:
  Each operand is rounded to the format first. The result is the exact result of the rounded
  operands, rounded once. Error and ulps are relative to this exact result. They are empty if the
  exact result is infinite or undefined. An ulp is Goldberg's, taken at the exact result.

Flags:
  invalid, divide_by_zero, overflow, underflow and inexact are the exceptions of IEEE 754-2019,
  section 7, for the operation. Rounding the operands raises none. Underflow is detected after
  rounding, as on x86.

JSON:
  {"expression", "operation", "round", "overflow", "random", "formats": [{"format", "operands":
  [{"value", "code"}, ...], "result": {"value", "code", "hex"}, "exact",
  "exact_is_rounded", "error", "relative_error", "ulp_error", "flags": [...]}, ...]}
  exact is rounded to fp64 if exact_is_rounded is true.)text";

struct Arguments {
    std::vector<std::string> words, formats;
    std::string round = "nearest_even";
    std::uint32_t random = 0;
    bool saturate = false, json = false;
};

struct Expression {
    Operation operation;
    std::vector<ExactNumber> operands;
};

constexpr std::array<std::string_view, 6> operation_names{"add", "sub", "mul", "div", "sqrt", "fma"};

/// Signs of the operations with two operands.
constexpr std::pair<std::string_view, Operation> signs[] = {
    {"+", Operation::add}, {"-", Operation::sub}, {"*", Operation::mul}, {"/", Operation::div},
    {"×", Operation::mul}, {"÷", Operation::div}, {"−", Operation::sub}};

[[noreturn]] void refuse(std::string_view text) {
    throw Error({.what = fmt::format("'{}' is not one operation on numbers", text),
                 .where = "compute",
                 .fix = "write a + b, a - b, a * b, a / b, sqrt(a) or fma(a, b, c), such as \"0.1 + 0.2\"; for longer "
                        "formulas, see macheps eval",
                 .exit = Exit::usage});
}

/// Returns the arguments of `name(...)`, or nothing if the text is not a call of this function.
std::optional<std::vector<std::string_view>> arguments_of(std::string_view text, std::string_view name) {
    if (!text.starts_with(name) || !text.ends_with(')')) return {};
    text.remove_prefix(name.size());
    text = trimmed(text);
    if (!text.starts_with('(')) return {};
    text = text.substr(1, text.size() - 2);
    std::vector<std::string_view> arguments;
    for (std::size_t comma = 0; comma != text.npos;) {
        comma = text.find(',');
        arguments.push_back(trimmed(text.substr(0, comma)));
        if (comma != text.npos) text.remove_prefix(comma + 1);
    }
    return arguments;
}

std::optional<Expression> read_call(std::string_view text, std::string_view name, Operation operation,
                                    std::size_t count) {
    const auto arguments = arguments_of(text, name);
    if (!arguments || arguments->size() != count) return {};
    Expression out{operation, {}};
    for (const std::string_view argument : *arguments) {
        auto number = ExactNumber::read(argument);
        if (!number) return {};
        out.operands.push_back(*std::move(number));
    }
    return out;
}

/// Reads `a sign b`. A sign may also belong to a number (1e-3, -2, 1/3), so every place is tried. Spaces around the sign
/// decide if several places are possible.
std::optional<Expression> read_two(std::string_view text) {
    std::vector<Expression> found, spaced;
    for (std::size_t at = 1; at < text.size(); ++at) {
        for (const auto& [sign, operation] : signs) {
            if (text.substr(at, sign.size()) != sign) continue;
            const std::string_view left = text.substr(0, at), right = text.substr(at + sign.size());
            auto a = ExactNumber::read(trimmed(left)), b = ExactNumber::read(trimmed(right));
            if (!a || !b) continue;
            const bool is_spaced = left.ends_with(' ') && right.starts_with(' ');
            Expression read{operation, {}};
            read.operands.push_back(*std::move(a));
            read.operands.push_back(*std::move(b));
            (is_spaced ? spaced : found).push_back(std::move(read));
        }
    }
    std::vector<Expression>& best = spaced.empty() ? found : spaced;
    if (best.size() != 1) return {};
    return std::move(best.front());
}

Expression read_expression(std::string_view text) {
    if (auto read = read_call(text, "sqrt", Operation::sqrt, 1)) return *std::move(read);
    if (auto read = read_call(text, "fma", Operation::fma, 3)) return *std::move(read);
    if (auto read = read_two(text)) return *std::move(read);
    refuse(text);
}

/// The operation in one format.
struct Computed {
    std::string_view format;
    Format f;
    std::vector<std::uint64_t> operands;  ///< containers
    Rounded result;
    std::optional<ExactNumber> exact{};  ///< none if infinite or undefined
    ExactNumber::Distance distance{};
};

Computed compute_in(std::string_view name, Format f, const Expression& expression, Round mode, Overflow overflow,
                    RandomBits random) {
    Computed out{.format = name, .f = f, .operands = {}, .result = {}};
    std::array<std::uint64_t, 3> codes{};
    std::array<double, 3> values{};
    for (std::size_t i = 0; i < expression.operands.size(); ++i) {
        codes[i] = expression.operands[i].encode(f, mode, overflow, random);
        values[i] = decode64(f, codes[i]);
        out.operands.push_back(codes[i]);
    }
    out.result = op(expression.operation, f, codes[0], codes[1], codes[2], mode, overflow, random);
    out.exact = ExactNumber::result_of(expression.operation, values[0], values[1], values[2]);
    if (out.exact) out.distance = out.exact->distance_of(f, decode64(f, out.result.bits));
    return out;
}

std::vector<std::string_view> names_of(Flags flags) {
    std::vector<std::string_view> names;
    for (const auto& [is_raised, name] : {std::pair<bool, std::string_view>{flags.invalid, "invalid"},
                                          {flags.divide_by_zero, "divide_by_zero"},
                                          {flags.overflow, "overflow"},
                                          {flags.underflow, "underflow"},
                                          {flags.inexact, "inexact"}}) {
        if (is_raised) names.push_back(name);
    }
    return names;
}

std::string number_text(Format f, double value) { return f == fp64 ? decimal(value) : fmt::format("{:.9g}", value); }

std::string table(const std::vector<Computed>& rows) {
    constexpr std::array<const char*, 3> letters{"a", "b", "c"};
    TextCells head{"format"};
    for (std::size_t i = 0; i < rows.front().operands.size(); ++i) head.emplace_back(letters[i]);
    head.insert(head.end(), {"result", "code", "exact", "ulps", "flags"});
    std::vector<TextCells> cells{head};
    for (const Computed& row : rows) {
        TextCells line{std::string(row.format)};
        for (const std::uint64_t code : row.operands) line.push_back(number_text(row.f, decode64(row.f, code)));
        line.push_back(number_text(row.f, decode64(row.f, row.result.bits)));
        line.push_back(hex_code(row.f, row.result.bits));
        line.push_back(row.exact ? fmt::format("{}{}", row.exact->is_near() ? "" : "~", decimal(row.exact->near()))
                                 : "-");
        line.push_back(row.exact ? fmt::format("{:.3g}", row.distance.ulps) : "-");
        line.push_back(fmt::format("{}", fmt::join(names_of(row.result.flags), " ")));
        cells.push_back(std::move(line));
    }
    return joined_lines(aligned_lines(cells));
}

Json json_of(const Computed& row) {
    Json operands = Json::array();
    for (const std::uint64_t code : row.operands)
        operands.push_back({{"value", json_number(decode64(row.f, code))}, {"code", hex_code(row.f, code)}});
    const double value = decode64(row.f, row.result.bits);
    const auto if_exact = [&row](double number) { return row.exact ? json_number(number) : Json(); };
    return {{"format", row.format},
            {"operands", operands},
            {"result",
             {{"value", json_number(value)}, {"code", hex_code(row.f, row.result.bits)}, {"hex", hex_float(value)}}},
            {"exact", if_exact(row.exact ? row.exact->near() : 0)},
            {"exact_is_rounded", row.exact && !row.exact->is_near()},
            {"error", if_exact(row.distance.error)},
            {"relative_error", if_exact(row.distance.relative)},
            {"ulp_error", if_exact(row.distance.ulps)},
            {"flags", names_of(row.result.flags)}};
}

Exit run(const Arguments& a) {
    const std::string text = fmt::format("{}", fmt::join(a.words, " "));
    const Expression expression = read_expression(trimmed(text));
    const Round mode = round_named(a.round);
    const Overflow overflow = a.saturate ? Overflow::saturate : Overflow::nonsaturate;
    const auto formats = listed_formats(a.formats);
    std::vector<Computed> rows;
    for (const auto& [name, format] : formats)
        rows.push_back(compute_in(name, format, expression, mode, overflow, {a.random, 32}));
    if (!a.json) {
        print_text(fmt::format("{}, {}{}\n\n{}", text, name_of(mode), a.saturate ? ", saturating" : "", table(rows)));
        return Exit::ok;
    }
    Json shown = Json::array();
    for (const Computed& row : rows) shown.push_back(json_of(row));
    print_json({{"expression", text},
                {"operation", operation_names[static_cast<std::size_t>(expression.operation)]},
                {"round", name_of(mode)},
                {"overflow", name_of(overflow)},
                {"random", mode == Round::stochastic ? Json(a.random) : Json()},
                {"formats", shown}});
    return Exit::ok;
}

void describe(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    verb.option("EXPRESSION", a->words, "One operation, such as \"0.1 + 0.2\", sqrt(2) or fma(0.1, 10, -1)").required();
    verb.option("-f,--format", a->formats, "Formats to compute in (see macheps formats). Default: all")
        .takes(value_kind::format)
        .list();
    verb.option("-r,--round", a->round, "Rounding mode of the operands and of the operation")
        .takes("ROUND:{nearest_even,nearest_away,toward_zero,up,down,to_odd,stochastic}")
        .shows_default();
    verb.integer("--random", a->random, {0, UINT32_MAX}, "The 32 random bits for stochastic rounding").shows_default();
    verb.flag("-s,--saturate", a->saturate, "Replace an overflow by the largest finite value");
    verb.flag("--json", a->json, "Print JSON");
    verb.runs([a] { return run(*a); });
}

}  // namespace

const VerbRow verb{"compute", help, describe, help_notes};

}  // namespace macheps::cmd::compute
