// SPDX-License-Identifier: Apache-2.0
// The linears that a rule leaves as they were: by a layer filter of a framework (a row and a function each), because a
// side is not a multiple of a number, or because they are in the first or last blocks.
#pragma once
#include "experiments/policy/framework_linears.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace macheps::policy {

/// Result of a filter for one linear.
struct FilterVerdict {
    std::string why{};    ///< why it stays in high precision; empty if it is converted
    bool raises = false;  ///< the framework ends the program instead of leaving the linear alone
};

struct LayerFilter {
    std::string_view name;  ///< `accelerate-ao`: a rule's `filter`
    ModuleNames names = ModuleNames::transformers;
    /// Judges linear `i`. `all` is in the order of registration.
    FilterVerdict (*judge)(std::span<const FrameworkLinear> all, std::size_t i) = nullptr;
    std::string_view source, summary;
};

std::span<const LayerFilter> layer_filters();
const LayerFilter* find_layer_filter(std::string_view name);

/// The keys of a rule that select the linears that it leaves alone.
struct LayerChoice {
    const LayerFilter* filter = nullptr;
    std::int64_t multiple_of = 0;  ///< 0: any side is accepted
    std::int64_t skip_first_blocks = 0, skip_last_blocks = 0;

    bool operator==(const LayerChoice&) const = default;
    /// Returns whether the rule selects layers, and not only by the alignment that a kernel needs.
    bool chooses() const { return filter != nullptr || skip_first_blocks > 0 || skip_last_blocks > 0; }
};

/// Returns the linears that are left out, by site. If a site holds several of a framework's linears, it is left out as
/// soon as one of them is.
std::map<std::string, FilterVerdict, std::less<>> left_out_by(const LayerChoice& choice, const SiteList& model);

}  // namespace macheps::policy
