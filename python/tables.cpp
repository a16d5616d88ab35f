// SPDX-License-Identifier: Apache-2.0
// Python bindings that return tables as JSON: formats, profiles, machines, the columns of a run's files, and single
// numbers with their bit fields.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/profile_table.hpp"
#include "core/property.hpp"
#include "core/rounding_names.hpp"
#include "core/text/json.hpp"
#include "core/text/print.hpp"
#include "core/ulp.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/machine/words.hpp"
#include "emulation/matmul/rules.hpp"
#include "emulation/scaling/rules.hpp"
#include "python/engine.hpp"
#include "python/rooms.hpp"
#include "reports/rows/event.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace macheps::python {

using namespace reports;

namespace {

std::uint64_t container_of(const Format& f, std::uint64_t magnitude) { return magnitude << f.padding; }

/// Returns the parameters of a format. Parameters that need an exponent are null for a fixed-point format.
Json format_json(std::string_view name, const Format& f) {
    const bool floats = f.encoding != Encoding::fixed_point;
    const auto or_null = [floats](auto value) { return floats ? Json(value) : Json(); };
    const std::uint64_t least = f.has_zero() ? 1 : 0, top = container_of(f, f.max_finite_code());
    return {{"format", name},
            {"bits", f.bits},
            {"container_bits", f.container_bits()},
            {"exponent_bits", or_null(f.exponent_bits())},
            {"fraction_bits", f.fraction_bits()},
            {"precision", f.precision},
            {"exponent_bias", or_null(f.exponent_bias)},
            {"max", decode64(f, top)},
            {"max_code", top},
            {"smallest_normal", or_null(Format::power_of_two(f.emin()))},
            {"smallest_subnormal", decode64(f, container_of(f, least))},
            {"eps", f.machine_epsilon()},
            {"unit_roundoff", f.unit_roundoff()},
            {"has_inf", f.has_inf()},
            {"has_nan", f.has_nan()},
            {"has_negative_zero", f.has_negative_zero()},
            {"has_sign", f.has_sign()},
            {"has_zero", f.has_zero()},
            {"max_digits10", max_digits10(f)}};
}

std::string formats() {
    Json all = Json::array();
    for (const NamedFormat& row : all_formats) {
        Json json = format_json(row.name, row.format), aliases = Json::object();
        const auto cells = row.aliases.cells();
        for (std::size_t i = 0; i < cells.size(); ++i) {
            if (!cells[i].empty()) aliases[Aliases::columns[i]] = split_names(cells[i]);
        }
        json["summary"] = row.summary;
        json["source"] = row.source;
        json["aliases"] = aliases;
        all.push_back(json);
    }
    return all.dump();
}

std::string format(const std::string& name) {
    const Format f = format_named(name, "format", Exit::usage);
    Json json = format_json(format_name(f), f);
    const NamedFormat* row = find_format(format_name(f));
    json["summary"] = row != nullptr ? row->summary : std::string_view{};
    return json.dump();
}

/// Returns the codec profiles.
std::string profiles() {
    Json all = Json::array();
    for (const NamedProfile& row : all_profiles) {
        std::vector<std::string_view> formats = split_names(row.formats);
        if (row.formats.empty()) formats = format_names();
        all.push_back({{"profile", row.name},
                       {"aliases", split_names(row.aliases)},
                       {"edition", row.edition},
                       {"formats", formats},
                       {"summary", row.summary},
                       {"source", row.source}});
    }
    return all.dump();
}

std::string machines() {
    Json all = Json::array();
    for (const Machine* m : all_machines) {
        std::vector<std::string_view> operands;
        for (const Format& known : FormatSet::known) {
            if (m->operands.contains(known)) operands.push_back(format_name(known));
        }
        const bool is_order = is_order_of_summation(*m), is_cut = m->sum.fraction_bits != 0;
        Json disputed = Json::array();
        for (const DisputedPoint& point : disputed_points(*m)) {
            disputed.push_back({{"field", point.field},
                                {"question", point.question},
                                {"taken", point.taken},
                                {"others", point.others}});
        }
        all.push_back({{"machine", m->name},
                       {"arch", m->arch},
                       {"instruction", m->instruction},
                       {"operands", operands},
                       {"c", format_name(m->addend)},
                       {"d", format_name(m->result)},
                       {"k", is_order ? Json() : Json(m->k)},
                       {"terms", is_order ? Json() : Json(m->sum.terms)},
                       {"fraction_bits", is_cut ? Json(m->sum.fraction_bits) : Json()},
                       {"model", to_string(m->sum.model)},
                       {"delivery", to_string(m->sum.delivery)},
                       {"scale", m->has_scales() ? Json(format_name(m->scale)) : Json()},
                       {"scale_block", m->has_scales() ? Json(m->scale_block) : Json()},
                       {"evidence", to_string(m->evidence)},
                       {"measured", measured_words(*m)},
                       {"source", m->source},
                       {"summary", m->summary},
                       {"disputed", disputed}});
    }
    return all.dump();
}

Json real(double x) { return std::isfinite(x) ? Json(x) : Json(decimal(x)); }

/// Returns sign, exponent and fraction of a code in binary.
Json fields_of(const Format& f, std::uint64_t container) {
    const std::uint64_t code = container >> f.padding;
    const auto binary = [&](int from, int count) {
        std::string text;
        for (int bit = from + count - 1; bit >= from; --bit) text += (code >> bit & 1) != 0 ? '1' : '0';
        return text;
    };
    if (f.encoding == Encoding::fixed_point) return {{"sign", ""}, {"exponent", ""}, {"fraction", binary(0, f.bits)}};
    return {{"sign", f.has_sign() ? binary(f.bits - 1, 1) : ""},
            {"exponent", binary(f.fraction_bits(), f.exponent_bits())},
            {"fraction", f.fraction_bits() > 0 ? binary(0, f.fraction_bits()) : ""}};
}

Json number_json(std::string_view name, const Format& f, std::uint64_t code) {
    const double value = decode64(f, code);
    Json json{{"format", name},
              {"code", code},
              {"code_hex", hex_code(f, code)},
              {"value", real(value)},
              {"hex", hex_float(value)},
              {"fields", fields_of(f, code)},
              {"ulp", real(ulp(f, value))},
              {"below", Json()},
              {"above", Json()}};
    if (!is_nan(f, code)) {
        const std::int64_t here = ordinal(f, code);
        if (here > min_ordinal(f)) json["below"] = real(decode64(f, from_ordinal(f, here - 1)));
        if (here < greatest_ordinal(f)) json["above"] = real(decode64(f, from_ordinal(f, here + 1)));
    }
    return json;
}

/// Returns the number that a code represents, with its bit fields and neighbours, as JSON.
std::string number(const std::string& name, std::uint64_t code) {
    const Format f = format_named(name, "format", Exit::usage);
    const int bits = f.container_bits();
    if (bits < 64 && code >> bits != 0) {
        throw Error({.what = std::to_string(code) + " is not a valid code of " + name,
                     .where = "code",
                     .fix = "use a code of at most " + std::to_string(bits) + " bits",
                     .exit = Exit::usage});
    }
    return number_json(format_name(f), f, code).dump();
}

/// Rounds the fp64 number `x` once to each named format, or to all formats of the table if `names` is empty. `random`
/// holds the 32 bits that stochastic rounding adds.
std::string show(double x, const std::vector<std::string>& names, const std::string& mode, bool saturate,
                 std::uint32_t random) {
    Round round = Round::nearest_even;
    for (const RoundName& row : round_names) {
        if (mode == row.name || mode == row.acronym) round = row.value;
    }
    Json all = Json::array();
    const auto add = [&](std::string_view name, const Format& f) {
        const std::uint64_t code =
            encode64(f, x, round, saturate ? Overflow::saturate : Overflow::nonsaturate, RandomBits{random, 32});
        Json json = number_json(name, f, code);
        const double value = decode64(f, code);
        const bool same = value == x || (std::isnan(value) && std::isnan(x));
        json["error"] = real(same ? 0 : value - x);
        json["relative_error"] = real(same ? 0 : (value - x) / std::fabs(x));
        json["ulp_error"] = real(same ? 0 : ulp_error(f, value, x));
        Json lost = Json::array();
        for (const PropertyName& property : property_names) {
            if (unheld(f, unpack(x)).contains(property.value)) lost.push_back(property.name);
        }
        json["unheld"] = lost;
        all.push_back(json);
    };
    for (const std::string& name : names) {
        const Format f = format_named(name, "format", Exit::usage);
        add(format_name(f), f);
    }
    if (names.empty()) {
        for (const NamedFormat& row : all_formats) add(row.name, row.format);
    }
    return all.dump();
}

// --- the schema of a run's files

template <class Value>
constexpr std::string_view type_name() {
    if constexpr (is_optional<Value>) {
        return type_name<typename Value::value_type>();
    } else if constexpr (std::is_same_v<Value, bool>) {
        return "bool";
    } else if constexpr (std::is_floating_point_v<Value>) {
        return "float";
    } else if constexpr (std::is_integral_v<Value>) {
        return std::is_signed_v<Value> ? "int" : "uint";
    } else {
        return "text";  // also exponents, which can be zero, inf or nan instead of an integer
    }
}

template <class Row>
void add_schema(Json& files) {
    Json columns = Json::array();
    for_each_column<Row>([&](const auto& column) {
        using Value = std::remove_cvref_t<decltype(std::declval<Row>().*column.field)>;
        Json entry = Json::array();
        entry.push_back(column.name);
        entry.push_back(type_name<Value>());
        entry.push_back(is_optional<Value>);
        entry.push_back(column.may_be_absent());
        columns.push_back(entry);
    });
    files[Row::file] = columns;
}

/// Returns {"schema": N, "files": {"runs.csv": [[name, type, may be empty, may be absent], ...], ...}}.
std::string run_schema() {
    Json files = Json::object();
    std::apply([&](const auto&... row) { (add_schema<std::remove_cvref_t<decltype(row)>>(files), ...); },
               TrainingRows{});
    add_schema<SummaryRow>(files);
    return Json{{"schema", schema_version}, {"files", files}}.dump();
}

}  // namespace

void add_tables(nb::module_& m) {
    m.def("formats", &formats);
    m.def("format", &format, nb::arg("name"));
    m.def("machines", &machines);
    m.def("profiles", &profiles);
    m.def("number", &number, nb::arg("format"), nb::arg("code"));
    m.def("show", &show, nb::arg("value"), nb::arg("formats"), nb::arg("mode"), nb::arg("saturate"), nb::arg("random"));
    m.def("run_schema", &run_schema);
}

}  // namespace macheps::python
