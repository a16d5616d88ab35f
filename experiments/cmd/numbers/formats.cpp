// SPDX-License-Identifier: Apache-2.0
// `macheps formats`: prints the table of formats, as text, CSV or JSON.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/profile_table.hpp"
#include "core/rounding_names.hpp"
#include "core/text/print.hpp"
#include "core/ulp.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/row_table.hpp"
#include "reports/rows/csv.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace macheps::cmd::formats {

namespace {

constexpr const char* help =
    R"(Lists the number formats: widths, ranges, special values, and their names in other systems.

Examples:
  macheps formats                      the table
  macheps formats --aliases            the names in PyTorch, JAX, CUDA, PTX, ONNX, ...
  macheps formats --profiles           NaN, infinities, overflow and zeros in every profile, as CSV
  macheps formats --csv > formats.csv  everything, for a spreadsheet
  macheps formats --json               everything, for a program)";

constexpr const char* notes = R"(Names:
  Every option that takes a format accepts these names and every alias. A plain e4m3 is refused,
  because it means e4m3fn in CUDA, OCP and PyTorch, but e4m3ieee in ml_dtypes and LLVM.

Profiles:
  The option --profiles prints a row for each profile of `macheps convert --profile` and each
  format of up to 16 bits to which the profile converts. The row has the value and code of
  NaN, -NaN, infinities, a number beyond the largest finite value, 0, -0, -1 and 2^-149. `edition`
  is the newest version with which the profile was compared. `round` is the rounding mode
  if --round is not given.

JSON:
  [{"format", "bits", "exponent_bits", "fraction_bits", "exponent_bias", "container_bits", "max",
  "max_code", "min_normal", "min_positive", "unit_roundoff", "has_inf", "has_nan",
  "negative_zero", "max_digits10", "summary", "source", "aliases": {system: [name, ...]},
  "has_sign", "has_zero"}, ...])";

const char* specials_text(const NamedFormat& n) {
    if (n.format.has_inf()) return "inf nan";
    return n.format.has_nan() ? "nan" : "none";
}

std::uint64_t max_code(const NamedFormat& n) { return n.format.max_finite_code() << n.format.padding; }

double min_positive(const NamedFormat& n) {
    return decode64(n.format, std::uint64_t{n.format.has_zero()} << n.format.padding);
}

double min_normal(const NamedFormat& n) { return Format::power_of_two(n.format.emin()); }

bool has_exponent(const NamedFormat& n) { return n.format.encoding != Encoding::fixed_point; }

/// Returns `value`, a property of the format's exponent. Returns nothing for a fixed-point format, which has no
/// exponent.
template <class Value>
std::optional<Value> of_exponent(const NamedFormat& n, Value value) {
    return has_exponent(n) ? std::optional(value) : std::nullopt;
}

Json aliases_json(const NamedFormat& n) {
    Json aliases = Json::object();
    const auto cells = n.aliases.cells();
    for (std::size_t i = 0; i < cells.size(); ++i) {
        if (!cells[i].empty()) aliases[Aliases::columns[i]] = split_names(cells[i]);
    }
    return aliases;
}

/// Describes the columns of the output. The CSV and the table show small numbers as hexadecimal floats, and special
/// values as words. The CSV has one more column for each system, with the names that this system gives to the formats.
RowTable<NamedFormat> format_table() {
    using Row = const NamedFormat&;
    const auto min_normal_text = [](Row n) { return has_exponent(n) ? hex_float(min_normal(n)) : ""; };
    const auto min_positive_text = [](Row n) { return hex_float(min_positive(n)); };
    const auto unit_roundoff_text = [](Row n) { return hex_float(n.format.unit_roundoff()); };
    const auto negative_zero_text = [](Row n) { return n.format.has_negative_zero() ? "yes" : "no"; };
    std::vector<RowColumn<NamedFormat>> columns{
        {"format", &NamedFormat::name, "format"},
        {"bits", [](Row n) { return n.format.bits; }, "bits"},
        {"exponent_bits", [](Row n) { return of_exponent(n, n.format.exponent_bits()); }, "exponent"},
        {"fraction_bits", [](Row n) { return n.format.fraction_bits(); }, "fraction"},
        {"exponent_bias", [](Row n) { return of_exponent(n, n.format.exponent_bias); }, "bias"},
        {"container_bits", [](Row n) { return n.format.container_bits(); }},
        {"max", [](Row n) { return decode64(n.format, max_code(n)); }, "max"},
        {"max_code", [](Row n) { return hex_code(n.format, max_code(n)); }, "max code"},
        {"min_normal", [](Row n) { return of_exponent(n, min_normal(n)); }, "min normal", {.csv = min_normal_text}},
        {"min_positive", min_positive, "min", {.csv = min_positive_text}},
        {"unit_roundoff", [](Row n) { return n.format.unit_roundoff(); }, "roundoff", {.csv = unit_roundoff_text}},
        {"specials", {}, "specials", {.csv = specials_text}},
        {"has_inf", [](Row n) { return n.format.has_inf(); }, "", {.is_in_json_only = true}},
        {"has_nan", [](Row n) { return n.format.has_nan(); }, "", {.is_in_json_only = true}},
        {"negative_zero", [](Row n) { return n.format.has_negative_zero(); }, "-0", {.csv = negative_zero_text}},
        {"max_digits10", [](Row n) { return max_digits10(n.format); }},
        {"summary", &NamedFormat::summary},
        {"source", &NamedFormat::source},
        {"aliases", aliases_json, "", {.is_in_json_only = true}},
        {"has_sign", [](Row n) { return n.format.has_sign(); }, "", {.is_in_json_only = true}},
        {"has_zero", [](Row n) { return n.format.has_zero(); }, "", {.is_in_json_only = true}}};
    for (std::size_t i = 0; i < Aliases::count; ++i) {
        const auto names = [i](Row n) { return std::string(n.aliases.cells()[i]); };
        columns.push_back({fmt::format("alias_{}", Aliases::columns[i]), {}, "", {.csv = names}});
    }
    return columns;
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

/// Returns a value and its code: `448 (0x7e)`.
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
            // `beyond` is larger than every midpoint between numbers of the format, but still finite in fp32.
            const double largest = decode64(f, f.max_finite_code());
            const auto beyond = static_cast<float>(std::min(1.5 * largest, 0x1.fffffep127));
            std::vector<std::string> cells;
            for (const float x :
                 {nan, negative_nan, infinity, -infinity, beyond, -beyond, 0.0f, -0.0f, -1.0f, 0x1p-149f}) {
                cells.push_back(value_and_code(f, encode64(row.profile, f, x, round)));
            }
            text += fmt::format("{},{},{},{},", row.name, named.name, fmt::join(cells, ","), name_of(round));
            reports::csv::append_cell(text, row.edition);
            text += '\n';
        }
    }
    return text;
}

struct Arguments {
    bool csv = false, json = false, aliases = false, profiles = false;
};

Exit run(const Arguments& a) {
    print_text(a.csv        ? format_table().csv(all_formats)
               : a.json     ? json_text(format_table().json(all_formats))
               : a.aliases  ? as_alias_text()
               : a.profiles ? as_profiles()
                            : format_table().text(all_formats));
    return Exit::ok;
}

void describe(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    Option csv = verb.flag("--csv", a->csv, "Print CSV with every column and every alias");
    Option json = verb.flag("--json", a->json, "Print JSON with every column and every alias");
    Option aliases = verb.flag("-a,--aliases", a->aliases, "Print the names in other systems");
    const Option profiles =
        verb.flag("--profiles", a->profiles, "Print how each codec profile converts special numbers, as CSV");
    csv.excludes(json).excludes(aliases).excludes(profiles);
    json.excludes(aliases).excludes(profiles);
    aliases.excludes(profiles);
    verb.runs([a] { return run(*a); });
}

}  // namespace

const VerbRow verb{"formats", help, describe, notes};

}  // namespace macheps::cmd::formats
