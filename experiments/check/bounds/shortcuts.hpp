// SPDX-License-Identifier: Apache-2.0
// Shortcuts that a kernel may declare. In a check that does not declare a shortcut, a kernel that takes it counts as
// wrong.
#pragma once
#include "experiments/check/bounds/limits.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

/// A declarable shortcut that changes an operation's list of nodes. To add one, add a row to the table. Other kinds of
/// shortcuts are defined elsewhere: modes of the last rounding in core/rounding_names.hpp (see add_rounding in
/// power.cpp), the treatment of subnormal numbers in special_mutants.cpp, and shortcuts of a product's operands and
/// partial sums in power_products.cpp.
struct ShortcutRow {
    std::string mutant;    ///< the name of the wrong kernel
    std::string_view key;  ///< the key that declares the shortcut
    Defect defect;
    /// Returns false if the shortcut is declared, or if a kernel that takes it stays within the limits on every input.
    bool (*applies)(const Problem& problem, const Defect& defect);
};
/// Returns the table of shortcuts, which includes a row for each form of every operation.
std::span<const ShortcutRow> shortcuts();

/// Returns the declared form, followed by the forms that a check cannot distinguish from it, because their kernels stay
/// within its limits on every input. Empty if the operation has only one form.
std::vector<std::string_view> legal_forms(const Declaration& declaration);

}  // namespace macheps::check
