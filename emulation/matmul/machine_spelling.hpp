// SPDX-License-Identifier: Apache-2.0
// How a machine is named on the command line: sm90.wgmma.fp8+promote128, deepgemm.sm90.1d2d, pairwise:fp16, ...
#pragma once
#include "core/error.hpp"
#include "emulation/matmul/rules.hpp"
#include "emulation/matmul/sum_order.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace macheps {

/// A rule with the words that it was named by.
struct SpelledRule {
    std::string name{};
    MatmulRule rule{};
    const NamedMatmulRule* named = nullptr;  ///< the rule is this one, unchanged but for a machine that it leaves open
    std::optional<SumOrder> order{};         ///< in a format of its own; the rule says nothing then

    /// What the sums are.
    Format result() const { return order ? order->format : rule.machine->result; }
};

/// Reads `NAME[+SUFFIX...]`. NAME is a machine of emulation/machine/table.hpp, or a rule of emulation/matmul/rules.hpp
/// that has one. A suffix is `promoteN` (N terms per partial sum, which joins an fp32 accumulator: Promotion::add),
/// `slicesN` (N slices of k, joined in a workspace unless the rule says otherwise), or a rule that leaves its machine
/// open. Or reads `ORDER:FORMAT[:ROUND]`, an order of summation in any format.
/// Errors: throws Error (usage) with the nearest name, for an unknown suffix, for an interval that is no multiple of the
/// instruction's k, and for a rule whose number of slices is left open.
SpelledRule parse_machine(std::string_view text);

}  // namespace macheps
