// SPDX-License-Identifier: Apache-2.0
// `macheps formats`: the table of formats, as text, CSV or JSON.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/profile_table.hpp"
#include "core/rounding_names.hpp"
#include "core/text/print.hpp"
#include "core/ulp.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace macheps::cmd::formats {

namespace {

constexpr const char* help =
    "Lists the number formats: widths, ranges, specials, and the names that other systems use.\n\n"
    "Examples:\n"
    "  macheps formats                      the table\n"
    "  macheps formats --aliases            the names in PyTorch, JAX, CUDA, PTX, ONNX, ...\n"
    "  macheps formats --profiles           NaN, infinities, overflow and zeros in every codec profile, as CSV\n"
    "  macheps formats --csv > formats.csv  everything, for a spreadsheet\n"
    "  macheps formats --json               everything, for a program\n\n"
    "Every option that takes a format takes these names and every alias. A plain e4m3 is refused: it means e4m3fn to "
    "CUDA,\n"
    "OCP and PyTorch, and e4m3ieee to ml_dtypes and LLVM.\n\n"
    "--profiles has a row for each profile of `macheps convert --profile` and each format of up to 16 bits that it "
    "converts\n"
    "to: value and code of NaN, -NaN, infinities, a number beyond the largest finite value, 0, -0, -1 and 2^-149.\n"
    "`edition` is the newest version that the profile was compared with; `round` the mode when --round is left out.\n\n"
    "JSON: [{\"format\", \"bits\", \"exponent_bits\", \"fraction_bits\", \"exponent_bias\", \"container_bits\", "
    "\"max\",\n"
    "\"max_code\", \"min_normal\", \"min_positive\", \"unit_roundoff\", \"has_inf\", \"has_nan\", \"negative_zero\",\n"
    "\"max_digits10\", \"summary\", \"source\", \"aliases\": {system: [name, ...]}, \"has_sign\", \"has_zero\"}, ...].";

/// A column's name, in CSV and JSON, and its cell in a row. Empty cells say that a format has no such thing.
struct Column {
    const char* name;
    std::string (*cell)(const NamedFormat&);
};

std::uint64_t container(const Format& f, std::uint64_t magnitude) { return magnitude << f.padding; }

std::string specials_text(const Format& f) {
    if (f.has_inf()) return "inf nan";
    return f.has_nan() ? "nan" : "none";
}

const std::array<Column, 16> columns{{
    {"format", [](const NamedFormat& n) { return std::string(n.name); }},
    {"bits", [](const NamedFormat& n) { return fmt::to_string(n.format.bits); }},
    {"exponent_bits",
     [](const NamedFormat& n) {
         return n.format.encoding == Encoding::fixed_point ? "" : fmt::to_string(n.format.exponent_bits());
     }},
    {"fraction_bits", [](const NamedFormat& n) { return fmt::to_string(n.format.fraction_bits()); }},
    {"exponent_bias",
     [](const NamedFormat& n) {
         return n.format.encoding == Encoding::fixed_point ? "" : fmt::to_string(n.format.exponent_bias);
     }},
    {"container_bits", [](const NamedFormat& n) { return fmt::to_string(n.format.container_bits()); }},
    {"max",
     [](const NamedFormat& n) { return decimal(decode64(n.format, container(n.format, n.format.max_finite_code()))); }},
    {"max_code",
     [](const NamedFormat& n) { return hex_code(n.format, container(n.format, n.format.max_finite_code())); }},
    {"min_normal",
     [](const NamedFormat& n) {
         return n.format.encoding == Encoding::fixed_point ? "" : hex_float(Format::power_of_two(n.format.emin()));
     }},
    {"min_positive",
     [](const NamedFormat& n) {
         return hex_float(decode64(n.format, container(n.format, n.format.has_zero() ? 1 : 0)));
     }},
    {"unit_roundoff", [](const NamedFormat& n) { return hex_float(n.format.unit_roundoff()); }},
    {"specials", [](const NamedFormat& n) { return specials_text(n.format); }},
    {"negative_zero", [](const NamedFormat& n) { return std::string(n.format.has_negative_zero() ? "yes" : "no"); }},
    {"max_digits10", [](const NamedFormat& n) { return fmt::to_string(max_digits10(n.format)); }},
    {"summary", [](const NamedFormat& n) { return std::string(n.summary); }},
    {"source", [](const NamedFormat& n) { return std::string(n.source); }},
}};

std::string aligned(const std::vector<std::vector<std::string>>& cells) {
    std::vector<std::size_t> widths(cells.front().size());
    for (const auto& row : cells) {
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : cells) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i)
            line += fmt::format("{:<{}}  ", row[i].empty() ? "-" : row[i], widths[i]);
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
}

/// What fits a terminal: the parameters that people compare.
std::string as_text() {
    std::vector<std::vector<std::string>> cells{{"format", "bits", "exponent", "fraction", "bias", "max", "max code",
                                                 "min normal", "min", "roundoff", "specials", "-0"}};
    for (const auto& row : all_formats) {
        cells.emplace_back();
        for (const std::size_t i : {0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12})
            cells.back().push_back(columns[i].cell(row));
    }
    return aligned(cells);
}

std::string as_alias_text() {
    std::string text;
    for (const auto& row : all_formats) {
        text += fmt::format("{}: {}\n", row.name, row.summary);
        const auto cells = row.aliases.cells();
        for (std::size_t i = 0; i < cells.size(); ++i) {
            if (!cells[i].empty())
                text += fmt::format("    {:<15} {}\n", Aliases::columns[i], fmt::join(split_names(cells[i]), ", "));
        }
    }
    return text;
}

/// RFC 4180: a field with a comma or a quote is quoted.
std::string csv_field(std::string_view text) {
    if (text.find_first_of(",\"\n") == std::string_view::npos) return std::string(text);
    std::string quoted = "\"";
    for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    return quoted + "\"";
}

std::string as_csv() {
    std::vector<std::string> header;
    for (const auto& column : columns) header.emplace_back(column.name);
    for (const auto name : Aliases::columns) header.push_back(fmt::format("alias_{}", name));
    std::string text = fmt::format("{}\n", fmt::join(header, ","));
    for (const auto& row : all_formats) {
        std::vector<std::string> fields;
        for (const auto& column : columns) fields.push_back(csv_field(column.cell(row)));
        for (const auto cell : row.aliases.cells()) fields.push_back(csv_field(cell));
        text += fmt::format("{}\n", fmt::join(fields, ","));
    }
    return text;
}

std::string as_json() {
    Json json = Json::array();
    for (const auto& row : all_formats) {
        const Format& f = row.format;
        const bool floating = f.encoding != Encoding::fixed_point;
        const auto or_null = [floating](auto value) { return floating ? Json(value) : Json(); };
        Json aliases = Json::object();
        const auto cells = row.aliases.cells();
        for (std::size_t i = 0; i < cells.size(); ++i) {
            if (!cells[i].empty()) aliases[std::string(Aliases::columns[i])] = split_names(cells[i]);
        }
        json.push_back({{"format", row.name},
                        {"bits", f.bits},
                        {"exponent_bits", or_null(f.exponent_bits())},
                        {"fraction_bits", f.fraction_bits()},
                        {"exponent_bias", or_null(f.exponent_bias)},
                        {"container_bits", f.container_bits()},
                        {"max", decode64(f, container(f, f.max_finite_code()))},
                        {"max_code", hex_code(f, container(f, f.max_finite_code()))},
                        {"min_normal", or_null(Format::power_of_two(f.emin()))},
                        {"min_positive", decode64(f, container(f, f.has_zero() ? 1 : 0))},
                        {"unit_roundoff", f.unit_roundoff()},
                        {"has_inf", f.has_inf()},
                        {"has_nan", f.has_nan()},
                        {"negative_zero", f.has_negative_zero()},
                        {"max_digits10", max_digits10(f)},
                        {"summary", row.summary},
                        {"source", row.source},
                        {"aliases", aliases},
                        {"has_sign", f.has_sign()},
                        {"has_zero", f.has_zero()}});
    }
    return json_text(json);
}

/// A value and its code: `448 (0x7e)`.
std::string value_and_code(const Format& f, std::uint64_t code) {
    return fmt::format("{} ({})", decimal(decode64(f, code)), hex_code(f, code));
}

/// Shows how every profile converts the numbers on which implementations differ.
std::string as_profiles() {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const float nan = bit_cast<float>(0x7fc00000u), negative_nan = bit_cast<float>(0xffc00000u);
    std::string text = "profile,format,nan,-nan,inf,-inf,beyond,-beyond,0,-0,-1,2^-149,round,edition\n";
    for (const NamedProfile& row : all_profiles) {
        for (const NamedFormat& named : all_formats) {
            const Format& f = named.format;
            if (f.bits > 16 || f.padding != 0 || !has_format(row, f)) continue;
            const Round round = row.profile.default_round(f);
            // Beyond every tie of the format, and still in the range of fp32.
            const double largest = decode64(f, f.max_finite_code());
            const auto beyond = static_cast<float>(std::min(1.5 * largest, 0x1.fffffep127));
            std::vector<std::string> cells;
            for (const float x :
                 {nan, negative_nan, infinity, -infinity, beyond, -beyond, 0.0f, -0.0f, -1.0f, 0x1p-149f}) {
                cells.push_back(value_and_code(f, encode64(row.profile, f, x, round)));
            }
            text += fmt::format("{},{},{},{},{}\n", row.name, named.name, fmt::join(cells, ","), name_of(round),
                                csv_field(row.edition));
        }
    }
    return text;
}

struct Arguments {
    bool csv = false, json = false, aliases = false, profiles = false;
};

Exit run(const Arguments& a) {
    const std::string text = a.csv        ? as_csv()
                             : a.json     ? as_json()
                             : a.aliases  ? as_alias_text()
                             : a.profiles ? as_profiles()
                                          : as_text();
    print_text(text);
    return Exit::ok;
}

void describe(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    Option csv = verb.flag("--csv", a->csv, "CSV with every column and every alias");
    Option json = verb.flag("--json", a->json, "JSON with every column and every alias");
    Option aliases = verb.flag("-a,--aliases", a->aliases, "The names that other systems use");
    const Option profiles =
        verb.flag("--profiles", a->profiles, "CSV of what each codec profile makes of special numbers");
    csv.excludes(json).excludes(aliases).excludes(profiles);
    json.excludes(aliases).excludes(profiles);
    aliases.excludes(profiles);
    verb.runs([a] { return run(*a); });
}

}  // namespace

const VerbRow verb{"formats", help, describe};

}  // namespace macheps::cmd::formats
