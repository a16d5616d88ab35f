// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/traces/diagnosis.hpp"

#include "emulation/evidence/operands/mutants.hpp"
#include "emulation/machine/table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace macheps::evidence {

namespace {

/// A class of operands, and the fields of a model on which the results of this class depend.
struct ClassFields {
    std::string_view cls, fields;
};
constexpr ClassFields class_fields[] = {
    {"alignment_edge", "fraction_bits, terms"},
    {"swamp", "fraction_bits, terms"},
    {"close_exponents", "fraction_bits, terms"},
    {"cancellation", "fraction_bits, terms"},
    {"tie", "delivery"},
    {"overflow", "delivery"},
    {"zeros", "zero_exponent, signs of zeros"},
    {"underflow", "zero_exponent, underflow_keeps_sign"},
    {"addend_tiny", "zero_exponent, normalises_addend"},
    {"subnormal", "normalises_addend"},
    {"specials", "the rule for NaN"},
};

/// Returns other machines that support the formats and the k of the instruction. The device may compute the instruction
/// with the unit of one of them.
std::vector<const Machine*> siblings_of(const Instruction& instruction) {
    std::vector<const Machine*> list;
    for (const Machine* other : all_machines) {
        if (other != instruction.machine && !other->has_scales() && other->operands.contains(instruction.a) &&
            other->operands.contains(instruction.b) && other->result == instruction.machine->result &&
            other->addend == instruction.machine->addend && instruction.k % std::max(other->sum.terms, 1) == 0)
            list.push_back(other);
    }
    return list;
}

/// Operands of a row, decoded for the models.
struct Factors {
    std::vector<Factor> a{}, b{};
};

bool is_nan(const Format& format, std::uint64_t code) { return (code & format.magnitude_mask()) > format.inf_code(); }

std::vector<std::string> fields_of(const std::vector<std::string_view>& classes) {
    std::vector<std::string> fields;
    for (const ClassFields& each : class_fields) {
        if (std::find(classes.begin(), classes.end(), each.cls) == classes.end()) continue;
        if (std::find(fields.begin(), fields.end(), each.fields) == fields.end()) fields.emplace_back(each.fields);
    }
    return fields;
}

}  // namespace

std::string diagnose(const Trace& trace) {
    const Instruction instruction = row_instruction(trace.form);
    const Machine& machine = *instruction.machine;
    const Format& result = machine.result;
    const auto same = [&](std::uint64_t x, std::uint64_t y) {
        return x == y || (!machine.fixes_nan() && is_nan(result, x) && is_nan(result, y));
    };
    std::vector<Factors> rows(trace.rows.size());
    std::size_t differing = 0, normal = 0, normal_differing = 0, nans = 0, zeros = 0;
    std::vector<std::string_view> classes;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const TraceRow& row = trace.rows[i];
        for (const std::uint64_t code : row.a) rows[i].a.push_back(factor_of_code(instruction.a, code));
        for (const std::uint64_t code : row.b) rows[i].b.push_back(factor_of_code(instruction.b, code));
        const std::uint64_t d =
            matrix_instruction(machine.sum, instruction.k, rows[i].a.data(), rows[i].b.data(), row.c);
        const bool differs = !same(d, row.d), is_normal = row.cls == "normal";
        normal += is_normal;
        if (!differs) continue;
        ++differing;
        normal_differing += is_normal;
        nans += is_nan(result, d) && is_nan(result, row.d);
        zeros += (d & result.magnitude_mask()) == 0 && (row.d & result.magnitude_mask()) == 0;
        if (std::find(classes.begin(), classes.end(), row.cls) == classes.end()) classes.push_back(row.cls);
    }
    if (differing == 0) return {};
    std::vector<std::string> right;
    std::string nearest;
    std::size_t least = differing;
    for (const Mutant& mutant : mutants(machine.sum, instruction.k)) {
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < rows.size(); ++i)
            wrong +=
                !same(mutant_instruction(mutant, instruction.k, rows[i].a.data(), rows[i].b.data(), trace.rows[i].c),
                      trace.rows[i].d);
        if (wrong == 0) right.push_back(mutant.name);
        if (wrong >= least) continue;
        least = wrong;
        nearest = mutant.name;
    }
    const std::string share = fmt::format("{} of {} rows differ", differing, rows.size());
    if (!right.empty())
        return fmt::format("{}: the model with {} reproduces every row", share, fmt::join(right, " or "));
    for (const Machine* other : siblings_of(instruction)) {
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < rows.size() && wrong == 0; ++i)
            wrong += !same(
                matrix_instruction(other->sum, instruction.k, rows[i].a.data(), rows[i].b.data(), trace.rows[i].c),
                trace.rows[i].d);
        if (wrong == 0) right.emplace_back(other->name);
    }
    if (!right.empty()) return fmt::format("{}: {} reproduces every row", share, fmt::join(right, " or "));
    if (nans == differing) return share + ": only the bits of NaN results differ (check the rule for NaN)";
    if (zeros == differing) return share + ": only signs of zeros differ (check zeros_keep_sign, underflow_keeps_sign)";
    if (!nearest.empty() && 10 * least <= differing)
        return fmt::format("{}: the model with {} reproduces all rows except {}", share, nearest, least);
    // Distinguishes two causes: a wrong field of the model changes few results of normal operands, but a wrong layout
    // of the operands changes nearly all of them.
    if (2 * differing >= rows.size() && 4 * normal_differing >= 3 * normal)
        return share +
               ", including most rows of normal operands: the fragment layout or a descriptor of this "
               "instruction shape is wrong";
    std::string text = share + ": ";
    if (!nearest.empty())
        text += fmt::format("the nearest is the model with {}, for which {} rows differ; ", nearest, least);
    const std::vector<std::string> fields = fields_of(classes);
    return text + fmt::format("probably wrong fields, judging by the classes {}: {}", fmt::join(classes, ", "),
                              fields.empty() ? "none" : fmt::format("{}", fmt::join(fields, "; ")));
}

}  // namespace macheps::evidence
