// SPDX-License-Identifier: Apache-2.0
// Shortcuts that a kernel may declare. Each is a wrong kernel of every check that does not declare it.
#pragma once
#include "experiments/check/bounds/limits.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

/// A declarable shortcut that changes an operation's list of nodes. To add one, add a row to the table. Shortcuts of
/// the last rounding are the modes of core/rounding_names.hpp (add_rounding in power.cpp), those of subnormal numbers
/// are in special_mutants.cpp, and those of a product's operands and partial sums in power_products.cpp.
struct ShortcutRow {
    std::string mutant;    ///< the name of the wrong kernel
    std::string_view key;  ///< the key that declares it
    Defect defect;
    /// Returns false if the shortcut is declared, or if a kernel that takes it stays within the limits on every input.
    bool (*applies)(const Problem& problem, const Defect& defect);
};
/// Returns all rows, among them one for each form of any operation.
std::span<const ShortcutRow> shortcuts();

/// Returns the declared form, followed by the forms whose kernels stay within its limits on every input, so that a
/// check cannot distinguish them from it. Empty if the operation has only one form.
std::vector<std::string_view> legal_forms(const Declaration& declaration);

}  // namespace macheps::check
