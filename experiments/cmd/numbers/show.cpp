// SPDX-License-Identifier: Apache-2.0
// `macheps show`: prints one number in every format.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/property.hpp"
#include "core/rounding_names.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/print.hpp"
#include "core/ulp.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/rounding_option.hpp"
#include "experiments/cmd/frame/row_table.hpp"
#include "experiments/cmd/numbers/format_list.hpp"
#include "experiments/study/eval/exact_number.hpp"
#include "reports/rows/csv.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace macheps::cmd::show {

using namespace study;

namespace {

constexpr const char* help = R"(Shows one number in every format: value, code, error, and the neighbouring values.

Examples:
  macheps show 0.1                               every format, rounded to nearest even
  macheps show 1/3 --format fp16,bf16,e5m6       a fraction; e5m6 is a format given by its widths
  macheps show 1000 --format e4m3fn,e5m2         overflow: NaN in e4m3fn, finite in e5m2
  macheps show 0x1.8p-9 --round toward_zero      a hexadecimal float, another rounding mode
  macheps show 0.1 --round stochastic            both possible results, and their probabilities
  macheps show 0x3dcd --bits bf16                a code of bf16, and its value in every other format
  macheps show 0.1 1/3 --csv > numbers.csv       a row for each number and format
  macheps show -0 nan -inf --json                several numbers, for a program)";

constexpr const char* help_notes = R"(More examples:
  macheps show 1000 --format e4m3fn --saturate   overflow becomes the largest finite value

Rounding and errors:
  A decimal number or a fraction of whole numbers is read exactly, and every format rounds it
  once. The error of fp64 is therefore shown as well. Errors are relative to the number as it was
  typed. An ulp is Goldberg's, taken at that number.

Tables:
  `below` and `above` are the neighbours of the format's value. The second table shows the
  format's value exactly, as a fraction and as a hexadecimal float, and the fields of its code:
  sign|exponent|fraction. With --bits, the row of that format shows the code as it was typed, even
  a NaN with its payload, -0, or a code that conversions never return.
  With stochastic rounding, a third table shows the two possible results and their probabilities.
  The probability of rounding away from zero is the fraction of the spacing that is cut off. A
  result is computed with 32 random bits (--random), which round this probability down to a
  multiple of 2^-32.
  A note below the tables lists the formats that cannot represent a property of the number: a
  sign, zero, -0, an infinity, NaN. docs/conversions.md describes how such numbers are converted.

CSV:
  input, format, value, code, error, relative_error, ulp_error, below, above, fraction, hex,
  fields, unheld, truncated, truncated_probability, away, away_probability, away_fraction
  The last five are empty unless the rounding is stochastic. away is empty if truncated is certain.

JSON:
  [{"input", "value", "hex", "round", "overflow", "formats": [{"format", "value", "hex", "code",
  "fraction", "fields", "error", "relative_error", "ulp_error", "below": {"value", "code"},
  "above", "unheld": ["nan", "inf", "sign", "zero", "negative_zero"], "stochastic"}, ...],
  "random"}, ...]
  stochastic is null, or the possible results: [{"value", "code", "probability", "fraction",
  "random_words": number of the 2^32 words of --random that give this result}, ...])";

struct Arguments {
    std::vector<std::string> values, formats;
    std::string bits, round = "nearest_even";
    std::uint32_t random = 0;
    bool saturate = false, csv = false, json = false;
};

std::string option_suggestion(const std::string& option) {
    const std::vector<std::string> names{"--format",   "--bits", "--round", "--random",
                                         "--saturate", "--csv",  "--json",  "--help"};
    const std::string near = nearest_name(option.substr(0, option.find('=')), names);
    return (near.empty() ? "" : fmt::format("did you mean '{}'? ", near)) + "see macheps show --help";
}

/// The number that the user typed. With --bits, the user types a code. The code is kept too, because `number` does not
/// store the payload of a NaN or the unused bits of a code.
struct Typed {
    ExactNumber number;
    std::optional<std::uint64_t> code{};
};

Typed read_value(const std::string& text, const std::optional<Format>& bits) {
    if (bits) {
        if (const auto code = parse_code(*bits, text)) return {ExactNumber::of(decode64(*bits, *code)), *code};
        throw Error({.what = fmt::format("'{}' is not a valid code of {}", text, format_name(*bits)),
                     .where = "--bits",
                     .fix = fmt::format("write 0x and at most {} hexadecimal digits, for {} bits",
                                        (bits->container_bits() + 3) / 4, bits->container_bits()),
                     .exit = Exit::usage});
    }
    if (auto value = ExactNumber::read(text)) return {*std::move(value)};
    throw Error({.what = text.starts_with("--") ? fmt::format("unknown option '{}'", text)
                                                : fmt::format("'{}' is not a valid number", text),
                 .where = "show",
                 .fix = text.starts_with("--")
                            ? option_suggestion(text)
                            : "write a decimal (0.1, -1e-3), a fraction (1/3), a hexadecimal float (0x1.8p-3), inf or "
                              "nan; for a bit pattern, add --bits FORMAT",
                 .exit = Exit::usage});
}

/// One number in one format.
struct Shown {
    std::string_view format;
    Format f;
    std::uint64_t code;
    double value, error, relative_error, ulps;
    std::optional<std::uint64_t> below, above;                ///< none at the ends of the format, or next to a NaN
    PropertySet lost;                                         ///< properties of the number that the format cannot hold
    std::vector<ExactNumber::StochasticResult> stochastic{};  ///< possible results; none for other rounding modes
};

/// Returns x in format `f`. `code` is the code of `f` that was typed, if one was.
Shown show_in(std::string_view name, Format f, const ExactNumber& x, const std::optional<std::uint64_t>& code,
              Round mode, Overflow overflow, RandomBits random) {
    Shown s{.format = name,
            .f = f,
            .code = code ? *code : x.encode(f, mode, overflow, random),
            .value = 0,
            .error = 0,
            .relative_error = 0,
            .ulps = 0,
            .below = {},
            .above = {},
            .lost = unheld(f, x.parts())};  // x.parts() is exact; the fp64 value may be an infinity or zero
    s.value = decode64(f, s.code);
    const ExactNumber::Distance distance = x.distance_of(f, s.value);
    s.error = distance.error, s.relative_error = distance.relative, s.ulps = distance.ulps;
    if (!is_nan(f, s.code)) {
        const std::int64_t here = ordinal(f, s.code);
        if (here > min_ordinal(f)) s.below = from_ordinal(f, here - 1);
        if (here < greatest_ordinal(f)) s.above = from_ordinal(f, here + 1);
    }
    if (mode == Round::stochastic) {
        s.stochastic = x.stochastic_results(f, overflow);
        if (code) s.stochastic = {{.code = *code}};
    }
    return s;
}

/// Returns the value of a neighbour. Nine digits distinguish the values of every format except fp64.
std::string neighbour(const Shown& s, const std::optional<std::uint64_t>& code) {
    if (!code) return "-";
    const double value = decode64(s.f, *code);
    return s.f == fp64 ? decimal(value) : fmt::format("{:.9g}", value);
}

std::string error_text(double error) {
    return error == 0 ? "0" : std::isnan(error) ? "nan" : fmt::format("{:.2e}", error);
}

std::string ulp_text(double ulps) {
    if (ulps == 0) return "0";
    return std::isnan(ulps) ? "nan" : ulps < 1000 ? fmt::format("{:.3g}", ulps) : fmt::format("{:.1e}", ulps);
}

/// Returns the exact value as a fraction, such as 819/2^13. A whole number has no denominator.
std::string fraction_text(double value) {
    if (!std::isfinite(value) || value == 0) return decimal(value);
    if (value == std::trunc(value) && std::fabs(value) <= 0x1p53) return fmt::format("{:.0f}", value);
    int exponent = 0;
    double digits = std::frexp(value, &exponent) * 0x1p53;  // a whole number
    for (exponent -= 53; std::fmod(digits, 2) == 0; ++exponent) digits /= 2;
    if (exponent > 0) return fmt::format("{:.0f}*2^{}", digits, exponent);
    return fmt::format("{:.0f}/2^{}", digits, -exponent);
}

/// Returns the code's digits: sign|exponent|fraction. Fields that the format does not have are empty.
std::string fields_text(Format f, std::uint64_t container) {
    const std::uint64_t code = container >> f.padding;
    const auto digits = [code](int from, int count) {
        std::string text;
        for (int i = from + count - 1; i >= from; --i) text += (code >> i & 1) != 0 ? '1' : '0';
        return text;
    };
    switch (f.encoding) {
        case Encoding::power_of_two:
            return fmt::format("|{}|", digits(0, f.bits));
        case Encoding::fixed_point:
            return fmt::format("{}||{}", digits(f.bits - 1, 1), digits(0, f.bits - 1));
        default:
            return fmt::format("{}|{}|{}", digits(f.bits - 1, 1), digits(f.fraction_bits(), f.exponent_bits()),
                               digits(0, f.fraction_bits()));
    }
}

std::vector<std::string_view> names_of(PropertySet properties) {
    std::vector<std::string_view> names;
    for (const PropertyName& row : property_names) {
        if (properties.contains(row.value)) names.push_back(row.name);
    }
    return names;
}

/// Returns a line for each property that some formats cannot hold. The line lists these formats, each with the value to
/// which the number is converted.
std::string notes(const std::vector<Shown>& rows) {
    std::string text;
    for (const PropertyName& property : property_names) {
        std::vector<std::string> formats;
        for (const Shown& s : rows) {
            if (s.lost.contains(property.value)) {
                formats.push_back(fmt::format("{} ({})", s.format, decimal(s.value)));
            }
        }
        if (!formats.empty()) text += fmt::format("no {}: {}\n", property.noun, fmt::join(formats, ", "));
    }
    return text.empty() ? text : "\n" + text;
}

/// Returns a probability with 6 digits. A probability below 1 is never printed as 1.
std::string probability_text(double p) { return p < 1 && p > 0.999999 ? ">0.999999" : fmt::format("{:.6g}", p); }

/// Returns the table of the possible results of stochastic rounding, or nothing for other rounding modes.
std::string stochastic_table(const std::vector<Shown>& rows) {
    constexpr std::size_t longest_fraction = 24;
    std::vector<TextCells> cells{
        {"format", "truncated", "code", "probability", "away", "code", "probability", "exact"}};
    for (const Shown& s : rows) {
        if (s.stochastic.empty()) return {};
        TextCells row{std::string(s.format)};
        for (const auto& each : s.stochastic) {
            row.push_back(decimal(decode64(s.f, each.code)));
            row.push_back(hex_code(s.f, each.code));
            row.push_back(probability_text(each.probability));
        }
        const std::string& fraction = s.stochastic.back().fraction;
        if (s.stochastic.size() > 1) row.push_back(fraction.size() <= longest_fraction ? fraction : "-");
        row.resize(cells.front().size(), "-");
        cells.push_back(std::move(row));
    }
    return "\n" + joined_lines(aligned_lines(cells));
}

std::string table(const std::vector<Shown>& rows) {
    std::vector<TextCells> cells{{"format", "value", "code", "error", "relative", "ulps", "below", "above"}};
    std::vector<TextCells> exact{{"format", "fraction", "hex", "sign|exponent|fraction"}};
    for (const auto& s : rows) {
        cells.push_back({std::string(s.format), decimal(s.value), hex_code(s.f, s.code), error_text(s.error),
                         error_text(s.relative_error), ulp_text(s.ulps), neighbour(s, s.below), neighbour(s, s.above)});
        exact.push_back({std::string(s.format), fraction_text(s.value), hex_float(s.value), fields_text(s.f, s.code)});
    }
    return joined_lines(aligned_lines(cells)) + "\n" + joined_lines(aligned_lines(exact)) + stochastic_table(rows) +
           notes(rows);
}

constexpr const char* csv_header =
    "input,format,value,code,error,relative_error,ulp_error,below,above,fraction,hex,fields,unheld,truncated,"
    "truncated_probability,away,away_probability,away_fraction\n";

/// Returns the last five cells of a CSV line.
std::string stochastic_cells(const Shown& s) {
    if (s.stochastic.empty()) return ",,,,";
    const auto &truncated = s.stochastic.front(), &away = s.stochastic.back();
    std::string cells = fmt::format("{},{}", decimal(decode64(s.f, truncated.code)), decimal(truncated.probability));
    if (s.stochastic.size() == 1) return cells + ",,0,0";
    return cells +
           fmt::format(",{},{},{}", decimal(decode64(s.f, away.code)), decimal(away.probability), away.fraction);
}

std::string csv_line(const std::string& input, const Shown& s) {
    const auto beside = [&s](const std::optional<std::uint64_t>& code) {
        return code ? decimal(decode64(s.f, *code)) : std::string();
    };
    std::string cell;
    reports::csv::append_cell(cell, input);
    return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", cell, s.format, decimal(s.value),
                       hex_code(s.f, s.code), decimal(s.error), decimal(s.relative_error), decimal(s.ulps),
                       beside(s.below), beside(s.above), fraction_text(s.value), hex_float(s.value),
                       fields_text(s.f, s.code), fmt::join(names_of(s.lost), " "), stochastic_cells(s));
}

/// Returns the possible results of stochastic rounding, or null for other rounding modes.
Json stochastic_json(const Shown& s) {
    if (s.stochastic.empty()) return nullptr;
    Json list = Json::array();
    for (const auto& each : s.stochastic) {
        list.push_back({{"value", json_number(decode64(s.f, each.code))},
                        {"code", hex_code(s.f, each.code)},
                        {"probability", json_number(each.probability)},
                        {"fraction", each.fraction},
                        {"random_words", each.words}});
    }
    return list;
}

Json json_of(const Shown& s) {
    const auto beside = [&s](const std::optional<std::uint64_t>& code) -> Json {
        if (!code) return nullptr;
        return {{"value", json_number(decode64(s.f, *code))}, {"code", hex_code(s.f, *code)}};
    };
    return {{"format", s.format},
            {"value", json_number(s.value)},
            {"hex", hex_float(s.value)},
            {"code", hex_code(s.f, s.code)},
            {"fraction", fraction_text(s.value)},
            {"fields", fields_text(s.f, s.code)},
            {"error", json_number(s.error)},
            {"relative_error", json_number(s.relative_error)},
            {"ulp_error", json_number(s.ulps)},
            {"below", beside(s.below)},
            {"above", beside(s.above)},
            {"unheld", names_of(s.lost)},
            {"stochastic", stochastic_json(s)}};
}

/// Returns the rounding mode as named by the user. For stochastic rounding, the text includes the random bits, which
/// the result depends on.
std::string mode_text(const Arguments& a, Round mode) {
    return mode == Round::stochastic ? fmt::format("{} with the random bits {:#010x}", a.round, a.random) : a.round;
}

Exit run(const Arguments& a) {
    if (a.values.empty()) {
        throw Error({.what = "the number is missing",
                     .where = "show",
                     .fix = "add a number, such as macheps show 0.1",
                     .exit = Exit::usage});
    }
    const Round mode = round_named(a.round);
    const Overflow overflow = a.saturate ? Overflow::saturate : Overflow::nonsaturate;
    std::optional<Format> bits;
    if (!a.bits.empty()) bits = format_named(a.bits, "--bits", Exit::usage);
    const auto formats = listed_formats(a.formats);

    std::string text;
    Json json = Json::array();
    for (const auto& value : a.values) {
        const Typed typed = read_value(value, bits);
        const ExactNumber& exact = typed.number;
        const double x = exact.near();
        std::vector<Shown> rows;
        for (const auto& [name, format] : formats) {
            const bool is_typed = bits && *bits == format;
            rows.push_back(
                show_in(name, format, exact, is_typed ? typed.code : std::nullopt, mode, overflow, {a.random, 32}));
        }
        if (a.csv) {
            if (text.empty()) text = csv_header;
            for (const auto& row : rows) text += csv_line(value, row);
        } else if (a.json) {
            Json shown = Json::array();
            for (const auto& row : rows) shown.push_back(json_of(row));
            json.push_back({{"input", value},
                            {"value", json_number(x)},
                            {"hex", hex_float(x)},
                            {"round", name_of(mode)},
                            {"overflow", name_of(overflow)},
                            {"formats", shown},
                            {"random", mode == Round::stochastic ? Json(a.random) : Json()}});
        } else {
            const std::string origin =
                bits ? fmt::format("{} in {} = {}", value, format_name(*bits), decimal(x)) : value;
            text += fmt::format("{}{} {} {}, {}{}\n\n{}", text.empty() ? "" : "\n", origin, exact.is_near() ? "=" : "~",
                                hex_float(x), mode_text(a, mode), a.saturate ? ", saturating" : "", table(rows));
        }
    }
    if (a.json) {
        print_json(json);
        return Exit::ok;
    }
    print_text(text);
    return Exit::ok;
}

void describe(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    verb.option("VALUE", a->values, "Numbers: decimals, fractions, hexadecimal floats, inf, nan. With --bits: codes");
    verb.option("-f,--format", a->formats, "Formats to show (see macheps formats). Default: all")
        .takes(value_kind::format)
        .list();
    verb.option("-b,--bits", a->bits, "Read VALUE as a code of this format. Default: read a number")
        .takes(value_kind::format);
    verb.option("-r,--round", a->round,
                "Rounding mode. The acronyms rne, rna, rz, ru, rd, ro and sr are the same modes in this order")
        .takes("ROUND:{nearest_even,nearest_away,toward_zero,up,down,to_odd,stochastic}")
        .shows_default();
    verb.integer("--random", a->random, {0, UINT32_MAX}, "The 32 random bits for stochastic rounding").shows_default();
    verb.flag("-s,--saturate", a->saturate, "Replace an overflow by the largest finite value");
    const Option csv = verb.flag("--csv", a->csv, "Print CSV: a row for each VALUE and format");
    verb.flag("--json", a->json, "Print JSON: an array with one object for each VALUE").excludes(csv);
    verb.allow_rest();  // -inf and -nan look like options; run() refuses words that are not numbers
    verb.runs([a, &verb] {
        for (const std::string& word : verb.rest()) {
            if (word != "--") a->values.push_back(word);
        }
        return run(*a);
    });
}

}  // namespace

const VerbRow verb{"show", help, describe, help_notes};

}  // namespace macheps::cmd::show
