// SPDX-License-Identifier: Apache-2.0
// Names of library functions whose rule depends on the CPU. A rule has the same bits everywhere, but one library has
// several rules, and the CPU decides which of them runs. Policies name rules, so that a run means the same on every
// machine. Use the names here to ask about the library on this CPU.
#pragma once
#include <array>
#include <span>
#include <string_view>

namespace macheps {

struct NamedMatmulRule;

struct LibraryName {
    struct Variant {
        std::string_view rule{};      ///< a name of all_matmul_rules(); empty: no more variants
        bool (*is_here)() = nullptr;  ///< whether this CPU runs the rule
    };
    std::string_view name{};
    std::array<Variant, 3> variants{};  ///< the first one for which is_here() holds is used
};

/// Returns the rows: `openblas.sgemm`, `torch.matmul.bf16`, ...
std::span<const LibraryName> library_names();
/// Returns the rule that the library of that name runs on this CPU, or nullptr if the name or the rule is not known.
const NamedMatmulRule* library_rule_here(std::string_view name);

}  // namespace macheps
