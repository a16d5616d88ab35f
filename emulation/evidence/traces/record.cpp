// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/traces/record.hpp"

#include "core/error.hpp"
#include "emulation/evidence/operands/mutants.hpp"
#include "emulation/machine/step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace macheps::evidence {

namespace {

/// Returns whether two results are the same. If the machine does not specify the bits of NaN results, all NaNs count as
/// the same.
bool same_result(const Machine& machine, std::uint64_t x, std::uint64_t y) {
    const Format& f = machine.result;
    const auto is_nan = [&](std::uint64_t code) { return (code & f.magnitude_mask()) > f.inf_code(); };
    return x == y || (!machine.fixes_nan() && is_nan(x) && is_nan(y));
}

/// Comparison of all rows with the model and with the wrong models.
struct Judgement {
    std::vector<Mutant> wrong{};
    std::vector<bool> disagrees{};                     ///< for each row: whether it disagrees with the model
    std::vector<std::vector<std::size_t>> refuting{};  ///< for each wrong model: the rows that refute it
    std::vector<std::vector<int>> refuted_by{};        ///< for each row: the wrong models that it refutes
};

Judgement judge(const TraceForm& form, const std::vector<TraceRow>& rows) {
    const Instruction instruction = row_instruction(form);
    const Machine& machine = *instruction.machine;
    Judgement found{.wrong = mutants(machine.sum, instruction.k), .disagrees = std::vector<bool>(rows.size())};
    found.refuting.resize(found.wrong.size());
    found.refuted_by.resize(rows.size());
    std::vector<Factor> a(static_cast<std::size_t>(instruction.k)), b = a;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const TraceRow& row = rows[i];
        for (std::size_t k = 0; k < a.size(); ++k) {
            a[k] = factor_of_code(instruction.a, row.a[k]);
            b[k] = factor_of_code(instruction.b, row.b[k]);
        }
        const std::uint64_t right = matrix_instruction(machine.sum, instruction.k, a.data(), b.data(), row.c);
        found.disagrees[i] = !same_result(machine, right, row.d);
        for (std::size_t m = 0; m < found.wrong.size(); ++m) {
            const std::uint64_t d = mutant_instruction(found.wrong[m], instruction.k, a.data(), b.data(), row.c);
            if (same_result(machine, d, row.d)) continue;
            found.refuting[m].push_back(i);
            found.refuted_by[i].push_back(static_cast<int>(m));
        }
    }
    return found;
}

}  // namespace

std::vector<std::pair<std::string, int>> count_refuted(const TraceForm& form, const std::vector<TraceRow>& rows) {
    const Judgement found = judge(form, rows);
    std::vector<std::pair<std::string, int>> counts;
    for (std::size_t m = 0; m < found.wrong.size(); ++m)
        counts.emplace_back(found.wrong[m].name, static_cast<int>(found.refuting[m].size()));
    return counts;
}

Trace make_trace(const Candidates& candidates, const TraceSize& size) {
    const std::size_t count = candidates.rows.size();
    const Judgement found = judge(candidates.form, candidates.rows);

    std::set<std::size_t> chosen;
    std::vector<int> refuted(found.wrong.size());
    const auto choose = [&](std::size_t i) {
        if (!chosen.insert(i).second) return;
        for (const int m : found.refuted_by[i]) ++refuted[static_cast<std::size_t>(m)];
    };
    int kept = 0;
    for (std::size_t i = 0; i < count && kept < 64; ++i) {
        if (!found.disagrees[i]) continue;
        choose(i);
        ++kept;
    }
    // Choose a sample of each class, spread over the candidates of the class.
    std::map<std::string, std::vector<std::size_t>> classes;
    for (std::size_t i = 0; i < count; ++i) classes[candidates.rows[i].cls].push_back(i);
    for (const auto& [name, rows] : classes) {
        const std::size_t wanted = std::min(rows.size(), static_cast<std::size_t>(size.of_each_class));
        for (std::size_t i = 0; i < wanted; ++i) choose(rows[i * rows.size() / wanted]);
    }
    // Begin with the wrong models that the fewest rows refute. The rows chosen for them also refute others, which then
    // need fewer additional rows.
    std::vector<std::size_t> order(found.wrong.size());
    for (std::size_t m = 0; m < order.size(); ++m) order[m] = m;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t x, std::size_t y) { return found.refuting[x].size() < found.refuting[y].size(); });
    for (const std::size_t m : order) {
        const std::vector<std::size_t>& rows = found.refuting[m];
        const auto wanted = static_cast<std::size_t>(size.against_each);
        // Take rows from the whole list of refuting rows at equal distances, so that their classes differ.
        const std::size_t step = std::max(rows.size() / wanted, std::size_t{1});
        for (std::size_t offset = 0; offset < step && refuted[m] < size.against_each; ++offset) {
            for (std::size_t i = offset; i < rows.size() && refuted[m] < size.against_each; i += step) choose(rows[i]);
        }
    }

    Trace trace{.form = candidates.form,
                .machine = candidates.machine,
                .gpu = {},
                .driver = {},
                .toolkit = {},
                .sass = candidates.sass,
                .microcode = {},
                .date = {},
                .seed = candidates.seed};
    for (std::size_t m = 0; m < found.wrong.size(); ++m) trace.refuted.emplace_back(found.wrong[m].name, refuted[m]);
    for (const std::size_t i : chosen) trace.rows.push_back(candidates.rows[i]);
    return trace;
}

void require_evidence(const Trace& trace) {
    constexpr int least = 2;
    for (const auto& [mutant, rows] : trace.refuted) {
        if (rows >= least) continue;
        throw Error({.what = fmt::format("the {} results of {} refute the wrong model {} only {} times",
                                         trace.rows.size(), trace.form.instr, mutant, rows),
                     .where = "--record",
                     .fix = "allow more time or use another --seed, until at least two rows refute each wrong model",
                     .exit = Exit::check_failed});
    }
}

}  // namespace macheps::evidence
