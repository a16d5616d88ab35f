// SPDX-License-Identifier: Apache-2.0
// Which linears a rule leaves as they were: layer filters of frameworks, a row and a function each, sides that must be
// multiples, and blocks at either end.
#pragma once
#include "experiments/policy/framework_linears.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace macheps::policy {

/// What a filter says of one linear.
struct FilterVerdict {
    std::string why{};    ///< it stays in high precision; empty where it is converted
    bool raises = false;  ///< the framework ends the program there instead of leaving it alone
};

struct LayerFilter {
    std::string_view name;  ///< `accelerate-ao`: a rule's `filter`
    ModuleNames names = ModuleNames::transformers;
    /// Of linear `i` of all, which are in the order of registration.
    FilterVerdict (*judge)(std::span<const FrameworkLinear> all, std::size_t i) = nullptr;
    std::string_view source, summary;
};

std::span<const LayerFilter> layer_filters();
const LayerFilter* find_layer_filter(std::string_view name);

/// What a rule says of the linears that it leaves alone.
struct LayerChoice {
    const LayerFilter* filter = nullptr;
    std::int64_t multiple_of = 0;  ///< 0: sides may be anything
    std::int64_t skip_first_blocks = 0, skip_last_blocks = 0;

    bool operator==(const LayerChoice&) const = default;
    /// True of more than the alignment of a kernel: somebody has chosen layers.
    bool chooses() const { return filter != nullptr || skip_first_blocks > 0 || skip_last_blocks > 0; }
};

/// The linears that are left out, by their sites. A site that holds several of a framework's linears is left out with
/// any of them.
std::map<std::string, FilterVerdict, std::less<>> left_out_by(const LayerChoice& choice, const SiteList& model);

}  // namespace macheps::policy
