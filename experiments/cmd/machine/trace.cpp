// SPDX-License-Identifier: Apache-2.0
// `macheps machine trace`: prints how a matrix unit adds products, step by step.
#include "experiments/cmd/machine/trace.hpp"

#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/print.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/machine/trace.hpp"
#include "emulation/machine/words.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/row_table.hpp"
#include "experiments/study/eval/exact_number.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace macheps::cmd::machine {

namespace {

constexpr std::size_t max_products = 4096;

constexpr const char* trace_help = R"(Prints how a matrix unit adds products: what it cuts off, and its result.

Examples:
  macheps machine trace sm90.wgmma.fp8                              one step with powers of two
  macheps machine trace sm90.wgmma.fp8 -a 1,0.25 -b 1,0.25 -c 1024  products that are cut off
  macheps machine trace sm70.mma.fp16 -a 1,2,3,4 -b 0.1,0.1,0.1,0.1 --json)";

constexpr const char* trace_notes = R"(Operands:
  -a and -b are lists of numbers, rounded to the formats to nearest even. Missing operands of a step
  are zeros. -c is the addend of the first step; the result of each step is the addend of the next.

Steps:
  With the model `truncated`, `kept` is the part of a product or of the addend that is added: a
  multiple of 2^unit, cut toward zero. The kept parts are added exactly, and the result is rounded as
  `machine show` says. Of the other models, only the products and the result of each step are shown.
  Machines with block scales, and orders of summation without steps, cannot be traced.

JSON:
  {"machine", "a_format", "b_format", "model", "fraction_bits", "steps": [{"addend": {"value",
  "kept"}, "largest_exponent", "unit_exponent", "terms": [{"a", "b", "product", "kept"}, ...],
  "sum", "result": {"value", "code"}}, ...]})";

struct TraceArguments {
    std::string name, c = "0";
    std::vector<std::string> a, b, formats;
    bool json = false;
};

const Machine& named_machine(const std::string& name) {
    if (const Machine* machine = find_machine(lowered(name))) return *machine;
    std::vector<std::string_view> names;
    for (const Machine* other : all_machines) names.push_back(other->name);
    const std::string near = nearest_name(name, names);
    throw usage_error(fmt::format("unknown machine '{}'", name), "NAME",
                      near.empty() ? "see `macheps machine list`" : fmt::format("did you mean '{}'?", near));
}

/// Returns the formats of a and b: those that were given (one for both), or the widest format of the machine.
std::vector<Format> formats_of(const Machine& machine, const std::vector<std::string>& names) {
    std::vector<Format> formats;
    for (const std::string& name : names) {
        formats.push_back(format_named(name, "--format", Exit::usage));
        if (!machine.operands.contains(formats.back()))
            throw usage_error(fmt::format("{} does not take operands in {}", machine.name, name), "--format",
                              fmt::format("see `macheps machine show {}`", machine.name));
    }
    if (formats.size() > 2) throw usage_error("more than two formats", "--format", "name the formats of a and of b");
    if (formats.empty())
        formats.push_back(*std::find_if(std::begin(FormatSet::known), std::end(FormatSet::known),
                                        [&](const Format& format) { return machine.operands.contains(format); }));
    if (formats.size() == 1) formats.push_back(formats.front());
    return formats;
}

std::uint64_t code_of(const std::string& text, const Format& format, std::string_view option) {
    const auto number = study::ExactNumber::read(text);
    if (!number)
        throw usage_error(fmt::format("'{}' is not a valid number", text), std::string(option),
                          "write a decimal, a fraction or a hexadecimal float, such as 0.1, 1/3 or 0x1.8p-3");
    return number->encode(format, Round::nearest_even, Overflow::nonsaturate, {});
}

std::vector<std::uint64_t> codes_of(const std::vector<std::string>& texts, const Format& format,
                                    std::string_view option) {
    if (texts.size() > max_products)
        throw usage_error(fmt::format("{} operands", texts.size()), std::string(option),
                          fmt::format("give at most {}", max_products));
    std::vector<std::uint64_t> codes;
    for (const std::string& text : texts) codes.push_back(code_of(text, format, option));
    return codes;
}

std::string text_of(const TracedStep& step, std::size_t number) {
    std::string text = fmt::format("step {}", number + 1);
    if (step.unit_exponent)
        text += fmt::format(": largest exponent {}, unit 2^{}", *step.largest_exponent, *step.unit_exponent);
    const auto kept = [](const std::optional<double>& x) { return x ? decimal(*x) : std::string(); };
    std::vector<TextCells> cells{{"term", "a", "b", "product", "kept"}};
    for (std::size_t i = 0; i < step.terms.size(); ++i) {
        const TracedTerm& term = step.terms[i];
        cells.push_back(
            {fmt::format("{}", i), decimal(term.a), decimal(term.b), decimal(term.product), kept(term.kept)});
    }
    cells.push_back({"C", "", "", decimal(step.addend), kept(step.addend_kept)});
    cells.push_back({"sum", "", "", "", kept(step.sum)});
    cells.push_back({"D", "", "", "", decimal(step.result)});
    return text + "\n" +
           joined_lines(aligned_lines(cells, {Align::left, Align::right, Align::right, Align::right, Align::right})) +
           "\n";
}

Json json_of(const TracedStep& step, const Format& result) {
    const auto maybe = [](const auto& x) { return x ? json_number(static_cast<double>(*x)) : Json(); };
    Json terms = Json::array();
    for (const TracedTerm& term : step.terms)
        terms.push_back({{"a", json_number(term.a)},
                         {"b", json_number(term.b)},
                         {"product", json_number(term.product)},
                         {"kept", maybe(term.kept)}});
    const auto exponent = [](const std::optional<int>& x) { return x ? Json(*x) : Json(); };
    return {{"addend", {{"value", json_number(step.addend)}, {"kept", maybe(step.addend_kept)}}},
            {"largest_exponent", exponent(step.largest_exponent)},
            {"unit_exponent", exponent(step.unit_exponent)},
            {"terms", terms},
            {"sum", maybe(step.sum)},
            {"result", {{"value", json_number(step.result)}, {"code", hex_code(result, step.code)}}}};
}

Exit run_trace(const TraceArguments& given) {
    const Machine& machine = named_machine(given.name);
    const std::vector<Format> formats = formats_of(machine, given.formats);
    std::vector<std::string> a = given.a, b = given.b;
    if (a.empty() && b.empty()) {  // powers of two, of which the last are cut off
        for (int i = 0; i < machine.k; ++i) a.push_back(decimal(std::ldexp(1.0, -i)));
        b.assign(a.size(), "1");
    }
    const auto steps = trace_products(machine, formats[0], formats[1], codes_of(a, formats[0], "-a"),
                                      codes_of(b, formats[1], "-b"), code_of(given.c, machine.addend, "-c"));
    if (!steps)
        throw usage_error(fmt::format("{} cannot be traced: it has {}", machine.name,
                                      machine.has_scales() ? "block scales" : "no steps"),
                          "NAME", "choose a machine such as sm90.wgmma.fp8");
    if (given.json) {
        Json list = Json::array();
        for (const TracedStep& step : *steps) list.push_back(json_of(step, machine.result));
        print_json({{"machine", machine.name},
                    {"a_format", format_name(formats[0])},
                    {"b_format", format_name(formats[1])},
                    {"model", to_string(machine.sum.model)},
                    {"fraction_bits", machine.sum.fraction_bits},
                    {"steps", list}});
        return Exit::ok;
    }
    std::string text = fmt::format("{}, {} x {}, model {}\n\n", machine.name, format_name(formats[0]),
                                   format_name(formats[1]), to_string(machine.sum.model));
    for (std::size_t i = 0; i < steps->size(); ++i) text += text_of((*steps)[i], i);
    print_text(text);
    return Exit::ok;
}

void describe_trace(Command& verb) {
    const auto a = std::make_shared<TraceArguments>();
    verb.option("NAME", a->name, "Name from `macheps machine list`").required();
    verb.option("-a", a->a, "Operands a. Default: powers of two").list().takes("X,...");
    verb.option("-b", a->b, "Operands b. Default: ones").list().takes("X,...");
    verb.option("-c", a->c, "Addend of the first step").takes("X").shows_default();
    verb.option("-f,--format", a->formats, "Format of a and b, or both formats: A,B. Default: the widest format")
        .list()
        .takes(value_kind::format);
    verb.flag("--json", a->json, "Print JSON");
    verb.runs([a] { return run_trace(*a); });
}

}  // namespace

const VerbRow trace_verb{"trace", trace_help, describe_trace, trace_notes};

}  // namespace macheps::cmd::machine
