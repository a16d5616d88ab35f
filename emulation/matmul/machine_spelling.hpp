// SPDX-License-Identifier: Apache-2.0
// Names of machines on the command line: sm90.wgmma.fp8+promote128, deepgemm.sm90.1d2d, pairwise:fp16, ...
#pragma once
#include "core/error.hpp"
#include "emulation/matmul/rules.hpp"
#include "emulation/matmul/sum_order.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace macheps {

/// Rule with the text that names it.
struct SpelledRule {
    std::string name{};
    MatmulRule rule{};
    const NamedMatmulRule* named = nullptr;  ///< the named rule that `rule` was made from
    std::optional<SumOrder> order{};         ///< an order of summation with its format; `rule` is then not used

    /// Returns the format of the sums.
    Format result() const { return order ? order->format : rule.machine->result; }
};

/// Reads `NAME[+SUFFIX...]`. NAME is a machine of emulation/machine/table.hpp, a rule of emulation/matmul/rules.hpp
/// that has a machine, or a name of library_names.hpp. A suffix is `promoteN` (N terms per partial sum, which joins an
/// fp32 accumulator: Promotion::add), `slicesN` (N slices of k, joined in a workspace unless the rule has another
/// join), or a rule that leaves its machine open. Alternatively reads `ORDER:FORMAT[:ROUND]`, an order of summation in
/// any format.
/// Errors: throws Error (usage) with the nearest name, and for an unknown suffix, an interval that is not a multiple of
/// the instruction's k, or a rule without a number of slices.
SpelledRule parse_machine(std::string_view text);

}  // namespace macheps
