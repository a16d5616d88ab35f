// SPDX-License-Identifier: Apache-2.0
// What a library's product is on the CPU that asks. A rule has the same bits everywhere, and one library has several: which of them
// runs depends on the CPU. Policies name rules, so that a run means the same on every machine; who asks about the library that is
// here names that.
#pragma once
#include <array>
#include <span>
#include <string_view>

namespace macheps {

struct NamedMatmulRule;

struct LibraryName {
    struct Variant {
        std::string_view rule{};      ///< a name of all_matmul_rules(); empty: no more
        bool (*is_here)() = nullptr;  ///< on CPUs of this kind
    };
    std::string_view name{};
    std::array<Variant, 3> variants{};  ///< the first one that is here counts
};

/// `openblas.sgemm`, `torch.matmul.bf16`, ...
std::span<const LibraryName> library_names();
/// The rule that a library runs on this CPU, by the library's name; nullptr where there is no such name, or none is known here.
const NamedMatmulRule* library_rule_here(std::string_view name);

}  // namespace macheps
