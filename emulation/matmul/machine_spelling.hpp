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

/// Rule that parse_machine() has read, with its name.
struct SpelledRule {
    std::string name{};
    MatmulRule rule{};
    const NamedMatmulRule* named = nullptr;  ///< the named rule on which `rule` is based, if any
    std::optional<SumOrder> order{};         ///< set if the text is ORDER:FORMAT[:ROUND]; `rule` is then not used

    /// Returns the format of the sums.
    Format result() const { return order ? order->format : rule.machine->result; }
};

/// Parses `NAME[+SUFFIX...]` or `ORDER:FORMAT[:ROUND]`. NAME is a machine of emulation/machine/table.hpp, a rule of
/// emulation/matmul/rules.hpp that has a machine, or a name of library_names.hpp. These suffixes exist:
///   promoteN    Promotion::add: after every N terms, the partial sum is added to an fp32 accumulator
///   slicesN     N slices of k, added in a workspace unless the rule specifies another SliceJoin
///   RULE        the name of a rule that does not specify a machine
/// ORDER:FORMAT[:ROUND] is an order of summation in any format.
/// The text may be in upper or lower case.
/// Errors: throws Error (usage) for an unknown name (the message suggests the nearest name), the name of a GPU (the
/// message lists its machines), an unknown suffix, an interval that is not a multiple of the instruction's k, or a
/// missing number of slices.
SpelledRule parse_machine(std::string_view given);

}  // namespace macheps
