// SPDX-License-Identifier: Apache-2.0
// Names of library functions whose rule of summation depends on the CPU. A rule gives the same bits on every CPU, but a
// library follows different rules on different CPUs. Policies therefore name rules, so that a run is the same on every
// computer. Use the names in this file to find the rule of a library on the CPU that runs this program.
#pragma once
#include <array>
#include <span>
#include <string_view>

namespace macheps {

struct NamedMatmulRule;

struct LibraryName {
    struct Variant {
        std::string_view rule{};      ///< name of a rule in all_matmul_rules(); empty: an unused element of `variants`
        bool (*is_here)() = nullptr;  ///< whether the library follows the rule on this CPU
    };
    std::string_view name{};
    std::array<Variant, 3> variants{};  ///< the first variant whose is_here() returns true is used
};

/// Returns the library functions: `openblas.sgemm`, `torch.matmul.bf16`, ...
std::span<const LibraryName> library_names();
/// Returns the rule of the library function `name` on this CPU, or nullptr if the name or the rule is not known.
const NamedMatmulRule* library_rule_here(std::string_view name);

}  // namespace macheps
