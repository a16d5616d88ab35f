// SPDX-License-Identifier: Apache-2.0
// Finds the linears that a rule leaves unchanged. These are the linears that the layer filter of a framework excludes,
// the linears with a side that is not a multiple of `multiple_of`, and the linears in the first or last blocks, if the
// rule skips these blocks. Each layer filter has a table row and a function.
#pragma once
#include "experiments/policy/framework_linears.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace macheps::policy {

/// The decision of a filter about one linear.
struct FilterVerdict {
    std::string why{};    ///< why the linear stays in high precision; empty if it is converted
    bool raises = false;  ///< the framework raises an error instead of skipping the linear
};

struct LayerFilter {
    std::string_view name;  ///< value of the key `filter` of a rule: `accelerate-ao`
    ModuleNames names = ModuleNames::transformers;
    /// Decides about linear `i` of `all`, which lists the linears in the order in which the framework registers them.
    FilterVerdict (*judge)(std::span<const FrameworkLinear> all, std::size_t i) = nullptr;
    std::string_view source, summary;
};

std::span<const LayerFilter> layer_filters();
const LayerFilter* find_layer_filter(std::string_view name);

/// Keys of a rule that select the linears which the rule leaves unchanged.
struct LayerChoice {
    const LayerFilter* filter = nullptr;
    std::int64_t multiple_of = 0;  ///< 0: any side is accepted
    std::int64_t skip_first_blocks = 0, skip_last_blocks = 0;

    bool operator==(const LayerChoice&) const = default;
    /// Returns true if the rule may leave linears unchanged for a reason other than `multiple_of`, the alignment that a
    /// kernel needs.
    bool chooses() const { return filter != nullptr || skip_first_blocks > 0 || skip_last_blocks > 0; }
};

/// Returns the linears that are left unchanged, by the name of their site. A site may contain several linears of the
/// framework. The site is left unchanged if at least one of these linears is left unchanged.
std::map<std::string, FilterVerdict, std::less<>> left_out_by(const LayerChoice& choice, const SiteList& model);

}  // namespace macheps::policy
