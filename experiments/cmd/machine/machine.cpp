// SPDX-License-Identifier: Apache-2.0
// `macheps machine`: prints the matrix units, what each computes, and the evidence for it.
#include "core/format_table.hpp"
#include "core/text/nearest_name.hpp"
#include "emulation/evidence/cpu/cpu_probe.hpp"
#include "emulation/evidence/traces/recorded.hpp"
#include "emulation/machine/gpus.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/machine/words.hpp"
#include "emulation/matmul/rules.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/row_table.hpp"
#include "experiments/cmd/machine/eval.hpp"
#include "experiments/cmd/machine/trace.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace macheps::cmd::machine {

namespace {

constexpr const char* help =
    R"(Lists and describes the matrix units of GPUs and CPUs, and checks recorded results against them.

Examples:
  macheps machine list                  the table
  macheps machine show sm90.wgmma.fp8   the model in words and as a formula, its evidence
  macheps machine trace sm90.wgmma.fp8  one step, product by product
  macheps machine eval vectors.jsonl    compare recorded results, bit for bit)";

constexpr const char* list_help = R"(Lists the matrix units and orders of summation, one row each.

Examples:
  macheps machine list
  macheps machine list --csv > machines.csv     every parameter, for a spreadsheet
  macheps machine list --json                   every parameter, for a program)";

constexpr const char* list_notes = R"(Columns:
  k         products per instruction; the smaller shape follows after a slash
  terms     products per fused step
  F         bits kept below the largest exponent of a step

Evidence:
  hardware    the model reproduces published captures of the hardware
  published   the authors tested the model on the hardware, or the vendor documents it
  emulated    the model reproduces an emulator of the architecture, not the hardware
  inferred    the model of a related unit
  definition  IEEE operations

CSV and JSON:
  machine, arch, instruction, operands, c, d, k, small_k, terms, fraction_bits, model, delivery,
  zero_exponent, scale, scale_block, nan, evidence, measured, source)";

constexpr const char* show_help = R"(Prints one matrix unit: parameters, model, evidence, and where sources differ.

Examples:
  macheps machine show sm90.wgmma.fp8
  macheps machine show h100             the units of a GPU or an architecture (sm_90, CDNA3)
  macheps machine show cdna3.mfma.fp8 --json)";

constexpr const char* show_notes = R"(JSON:
  The object of `machine list --json` with these additional keys:
  steps, words, formula, summary
  unverified   true: no trace recorded by this program covers it
  verified     [{"device", "first_date", "last_date", "outputs", "traces": [instructions]}, ...]
  not_refuted  [wrong models that no recorded output refutes]
  disputed     [{"field", "question", "taken", "others"}, ...]
  For a GPU, an array of such objects.)";

constexpr const char* eval_help = R"(Computes recorded results of matrix units and compares the bits.

Examples:
  macheps machine eval vectors.jsonl                    such as examples/vectors.jsonl
  macheps machine eval vectors.jsonl --engine scalar --json
  zstd -dc TRACE.jsonl.zst | macheps machine eval -     a trace of `macheps verify --record`)";

constexpr const char* eval_notes = R"(Lines:
  A line is one output element, d = a b + c over the k of the instruction, as a JSON object:
  {"arch":"sm_90","instr":"wgmma","qual":"m64n8k32.f32.e4m3.e4m3","a":["3c",...],"b":[...],
   "c":"42c80080","d":"42cc5800"}
  Codes are hexadecimal and right-aligned; tf32 codes are fp32 words. Block scales are in sa and
  sb. d can be "nan" (any NaN) or "zero" (either sign). alt: {name: bits} lists other published
  behaviours. A line with alt is disputed, and d or any of these is accepted. cls is a label.

Instructions:
  instr  mma, mma.block_scale, wgmma, tcgen05.{f16,tf32,f8f6f4,mxf8f6f4,mxf4,mxf4nvf4}, mfma
  qual   mma: shape.d.a.b.c
         wgmma and tcgen05: shape.d.a.b
         block-scaled forms: shape.blockN.d.a.b[.c].scale
         mfma: the end of AMD's mnemonic
  For CPUs (arch x86, arm, power10, riscv), instr is the mnemonic and qual is k<products>.d.a.b.c.
  Conversions of CPUs (vcvtneps2bf16, vcvtps2ph, bfcvtn: k1.d.a, without b and c) are compared
  with codec profiles. Integer units are not emulated: their lines are counted as refused.

Engines:
  Every line runs on every engine of --engine. scalar is the definition. The others are the vector
  engines, which compute the line alone and at each position of a matrix (except fp64).

JSON:
  {"file", "lines", "wrong", "engines", "instructions": [{"instruction", "machine", "lines",
  "agree", "alternatives", "engines": {name: agreed}}, ...], "disputed": [{"line", "instruction",
  "class", "took"}, ...], "mismatches": [{"line", "instruction", "machine", "class", "engine",
  "a", "b", "c", ["sa", "sb",] "want", "got"}, ...], "refused": [{"instruction", "reason",
  "lines"}, ...]}
  Numbers are {"bits", "value"}; a mismatch of a conversion has neither b nor c.

Exit codes:
  1  a line disagrees
  3  a line cannot be read)";

std::string operands_text(const Machine& machine) {
    return is_order_of_summation(machine) ? "any" : operand_names(machine);
}

std::string_view scale_text(const Machine& machine) {
    if (!machine.has_scales()) return {};
    return machine.scale == e4m3fn ? "ue4m3" : format_name(machine.scale);
}

bool is_cut(const Machine& machine) { return machine.sum.fraction_bits != 0; }

std::vector<std::string_view> operand_list(const Machine& machine) {
    std::vector<std::string_view> operands;
    for (const Format& format : FormatSet::known) {
        if (machine.operands.contains(format)) operands.push_back(format_name(format));
    }
    return operands;
}

std::string k_text(const Machine& m) {
    if (is_order_of_summation(m)) return {};
    return m.small_k != 0 ? fmt::format("{}/{}", m.k, m.small_k) : std::to_string(m.k);
}

std::string evidence_text(const Machine& m) {
    const std::string evidence(to_string(m.evidence));
    return m.measured.empty() ? evidence : fmt::format("{}: {}", evidence, measured_words(m));
}

/// Returns `number`, which is a parameter of a machine, or nothing if the machine does not have this parameter.
std::optional<int> number_if(bool has_it, int number) { return has_it ? std::optional(number) : std::nullopt; }

RowTable<Machine> machine_table() {
    using Row = const Machine&;
    const auto is_unit = [](Row m) { return !is_order_of_summation(m); };
    return {{{"machine", &Machine::name, "machine"},
             {"arch", &Machine::arch, "arch"},
             {"instruction", &Machine::instruction, "instruction"},
             {"operands", operand_list, "operands", {.csv = operands_text}},
             {"c", [](Row m) { return format_name(m.addend); }, "C"},
             {"d", [](Row m) { return format_name(m.result); }, "D"},
             {"k", [=](Row m) { return number_if(is_unit(m), m.k); }, "k", {.table = k_text}},
             {"small_k", [](Row m) { return number_if(m.small_k != 0, m.small_k); }},
             {"terms", [=](Row m) { return number_if(is_unit(m), m.sum.terms); }, "terms"},
             {"fraction_bits", [](Row m) { return number_if(is_cut(m), m.sum.fraction_bits); }, "F"},
             {"model", [](Row m) { return to_string(m.sum.model); }},
             {"delivery", [](Row m) { return to_string(m.sum.delivery); }},
             {"zero_exponent", [](Row m) { return number_if(m.sum.zero_exponent != 0, m.sum.zero_exponent); }},
             {"scale", scale_text},
             {"scale_block", [](Row m) { return number_if(m.has_scales(), m.scale_block); }},
             {"nan", nan_text},
             {"evidence", [](Row m) { return to_string(m.evidence); }, "evidence", {.table = evidence_text}},
             {"measured", measured_words},
             {"source", &Machine::source}}};
}

Exit list(bool csv, bool json) {
    const RowTable<Machine> table = machine_table();
    print_text(json ? json_text(table.json(all_machines)) : csv ? table.csv(all_machines) : table.text(all_machines));
    return Exit::ok;
}

// --- show

constexpr int indent = 14, line_width = 110;

/// Appends `name` and, in the column to its right, `words`, broken into lines of at most line_width characters.
void append_words(std::string& text, std::string_view name, std::string_view words) {
    text += fmt::format("{:<{}}", name, indent);
    int column = indent;
    bool is_first = true;
    while (!words.empty()) {
        const std::size_t end = std::min(words.find(' '), words.size());
        const std::string_view word = words.substr(0, end);
        words.remove_prefix(std::min(end + 1, words.size()));
        if (!is_first && column + 1 + static_cast<int>(word.size()) > line_width) {
            text += fmt::format("\n{:{}}", "", indent);
            column = indent;
            is_first = true;
        }
        text += is_first ? "" : " ";
        text += word;
        column += static_cast<int>(word.size()) + (is_first ? 0 : 1);
        is_first = false;
    }
    text += '\n';
}

void append_block(std::string& text, std::string_view name, std::string_view lines) {
    text += '\n';
    bool is_first = true;
    while (!lines.empty()) {
        const std::size_t end = std::min(lines.find('\n'), lines.size());
        text += fmt::format("{:<{}}{}\n", is_first ? name : "", indent, lines.substr(0, end));
        lines.remove_prefix(std::min(end + 1, lines.size()));
        is_first = false;
    }
    text += '\n';
}

constexpr const char* unverified_text =
    "this program has recorded no trace on such a device, so the bits rely on the source alone";

/// Returns the date of the traces, such as `2026-11-26`, or the first and the last date if they differ.
std::string dates_of(const evidence::DeviceEvidence& device) {
    return device.first_date == device.last_date ? device.first_date : device.first_date + " to " + device.last_date;
}

/// Returns a text such as `2 traces, 1584 outputs: wgmma.m64n8k16.f32.f16.f16, ...`.
std::string traces_of(const evidence::DeviceEvidence& device) {
    return fmt::format("{} {}, {} outputs: {}", device.forms.size(), device.forms.size() == 1 ? "trace" : "traces",
                       device.outputs, fmt::join(device.forms, ", "));
}

std::string show_text(const Machine& m) {
    std::string text = fmt::format("{}\n", m.name);
    if (!m.summary.empty()) append_words(text, "", m.summary);
    if (!is_order_of_summation(m)) {
        std::string instruction = fmt::format("{} on {}, k = {}", m.instruction, m.arch, m.k);
        if (m.small_k != 0) instruction += fmt::format(" (and {})", m.small_k);
        append_words(text, "instruction", instruction);
    }
    append_words(text, "operands", is_order_of_summation(m) ? "every format of up to 32 bits" : operand_names(m));
    append_words(text, "C, D", fmt::format("{}, {}", format_name(m.addend), format_name(m.result)));
    if (m.has_scales()) {
        append_words(
            text, "scales",
            fmt::format("{}, one for a and one for b for every {} products",
                        m.scale == e4m3fn ? "ue4m3 (e4m3fn without its sign)" : format_name(m.scale), m.scale_block));
    }
    append_words(text, "steps", step_words(m));
    if (is_cut(m))
        append_words(text, "F", fmt::format("{} fraction bits below the largest exponent", m.sum.fraction_bits));
    if (m.sum.zero_exponent != 0) append_words(text, "e_zero", std::to_string(m.sum.zero_exponent));
    append_words(text, "rounding",
                 fmt::format("{}{}", to_string(m.sum.delivery), m.sum.rounding == Round::to_odd ? ", but to odd" : ""));
    if (m.sum.order == ProductOrder::odd_first)
        append_words(text, "order", "the odd product of each pair is added first");
    if (const std::string flushed = flush_words(m); !flushed.empty()) append_words(text, "flushed", flushed);
    append_words(text, "NaN", nan_words(m));
    const ModelWords model = describe(m.sum.model);
    append_words(text, "model", fmt::format("{}. {}", to_string(m.sum.model), model.words));
    append_block(text, "", model.formula);
    append_words(text, "evidence", fmt::format("{}: {}", to_string(m.evidence), evidence_words(m)));
    bool is_live = false;
    for (const evidence::LiveCheck& check : evidence::check_on_this_cpu(m)) {
        is_live = is_live || check.mismatches == 0;
        append_words(text, "hardware",
                     fmt::format("{}: {} results of {} were compared just now; {} of them differ",
                                 check.mismatches == 0 ? "this CPU" : "NOT this CPU", check.results, check.instruction,
                                 check.mismatches));
    }
    const std::vector<evidence::RecordedTrace> traces = evidence::recorded_traces();
    const std::vector<evidence::DeviceEvidence> devices = evidence::devices_with_traces(m, traces);
    for (const evidence::DeviceEvidence& device : devices)
        append_words(text, "verified",
                     fmt::format("on {}, {}: {}", device.device, dates_of(device), traces_of(device)));
    if (const std::vector<std::string> missed = evidence::not_refuted(m, traces); !missed.empty())
        append_words(text, "not refuted", fmt::format("no output in these traces refutes {}", fmt::join(missed, ", ")));
    if (devices.empty() && !is_live && m.evidence != Evidence::definition)
        append_words(text, "unverified", unverified_text);
    append_words(text, "source", m.source);
    bool is_first = true;
    for (const DisputedPoint& point : disputed_points(m)) {
        append_words(text, is_first ? "disputed" : "",
                     fmt::format("{} ({}): in this model, {}; in other sources, {}", point.question, point.field,
                                 point.taken, point.others));
        is_first = false;
    }
    return text;
}

bool is_unverified(const Machine& machine) {
    return machine.evidence != Evidence::definition &&
           evidence::devices_with_traces(machine, evidence::recorded_traces()).empty();
}

Json show_json(const Machine& machine) {
    Json json = machine_table().json_of(machine);
    const ModelWords model = describe(machine.sum.model);
    json["steps"] = step_words(machine);
    json["words"] = model.words;
    json["formula"] = model.formula;
    json["summary"] = machine.summary;
    json["unverified"] = is_unverified(machine);
    const std::vector<evidence::RecordedTrace> traces = evidence::recorded_traces();
    json["verified"] = Json::array();
    for (const evidence::DeviceEvidence& device : evidence::devices_with_traces(machine, traces)) {
        json["verified"].push_back({{"device", device.device},
                                    {"first_date", device.first_date},
                                    {"last_date", device.last_date},
                                    {"outputs", device.outputs},
                                    {"traces", device.forms}});
    }
    json["not_refuted"] = evidence::not_refuted(machine, traces);
    json["disputed"] = Json::array();
    for (const DisputedPoint& point : disputed_points(machine)) {
        json["disputed"].push_back(
            {{"field", point.field}, {"question", point.question}, {"taken", point.taken}, {"others", point.others}});
    }
    return json;
}

Exit show_gpu(std::span<const Machine* const> machines, bool json) {
    if (json) {
        Json all = Json::array();
        for (const Machine* machine : machines) all.push_back(show_json(*machine));
        print_json(all);
        return Exit::ok;
    }
    print_text(
        machine_table().text(machines) +
        fmt::format("\n`macheps machine show {}` describes what one of them computes, and the evidence for it.\n",
                    machines.front()->name));
    return Exit::ok;
}

Exit show(const std::string& name, bool json) {
    const Machine* machine = find_machine(lowered(name));
    if (machine == nullptr) {
        if (const std::vector<const Machine*> of_gpu = machines_of_gpu(name); !of_gpu.empty())
            return show_gpu(of_gpu, json);
        std::vector<std::string_view> names;
        for (const Machine* other : all_machines) names.push_back(other->name);
        for (const Gpu& gpu : known_gpus()) names.push_back(gpu.name);
        const std::string near = nearest_name(name, names);
        throw Error({.what = fmt::format("unknown machine '{}'", name),
                     .fix = near.empty() ? "see `macheps machine list`" : fmt::format("did you mean '{}'?", near),
                     .exit = Exit::usage});
    }
    if (json) {
        print_json(show_json(*machine));
    } else {
        print_text(show_text(*machine));
    }
    return Exit::ok;
}

void describe_list(Command& verb) {
    struct Arguments {
        bool csv = false, json = false;
    };
    const auto a = std::make_shared<Arguments>();
    const Option csv = verb.flag("--csv", a->csv, "Print CSV with every parameter");
    verb.flag("--json", a->json, "Print JSON with every parameter").excludes(csv);
    verb.runs([a] { return list(a->csv, a->json); });
}

void describe_show(Command& verb) {
    struct Arguments {
        std::string name;
        bool json = false;
    };
    const auto a = std::make_shared<Arguments>();
    verb.option("NAME", a->name, "Name from `macheps machine list`, a GPU or an architecture").required();
    verb.flag("--json", a->json, "Print JSON");
    verb.runs([a] { return show(a->name, a->json); });
}

void describe_eval(Command& verb) {
    const auto a = std::make_shared<EvalOptions>();
    verb.option("FILE", a->path, "File in JSON Lines format; - reads stdin").required().takes(value_kind::file);
    a->engines = instruction_engine_names();
    verb.option("-e,--engine", a->engines, "Engines that must agree: scalar, avx2, avx512")
        .list()
        .default_text("all engines of this CPU");
    verb.integer("--limit", a->shown, {}, "Maximum number of mismatches to print in full. All are counted")
        .shows_default();
    verb.flag("--json", a->json, "Print JSON");
    verb.runs([a] { return machine_eval(*a); });
}

constexpr VerbRow machine_list{"list", list_help, describe_list, list_notes};
constexpr VerbRow machine_show{"show", show_help, describe_show, show_notes};
constexpr VerbRow machine_eval_row{"eval", eval_help, describe_eval, eval_notes};
constexpr const VerbRow* machine_verbs[] = {&machine_list, &machine_show, &trace_verb, &machine_eval_row};

void describe_machine(Command& verb) { verb.verbs(machine_verbs); }

}  // namespace

const VerbRow verb{"machine", help, describe_machine};

}  // namespace macheps::cmd::machine
