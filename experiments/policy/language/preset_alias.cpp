// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/language/preset_alias.hpp"

#include "core/text/nearest_name.hpp"
#include "experiments/policy/language/recipes.hpp"

#include <algorithm>
#include <iterator>

namespace macheps::policy {

namespace {

constexpr PresetAlias aliases[] = {
    {"bf16", "amp-bf16", "`bf16 = true` of most frameworks is autocast, which keeps the weights in fp32"},
    {"fp8", "fp8-tensorwise", "torchao's tensorwise recipe is the default of torchao and of Accelerate with torchao"},
    {"mxfp8", "te-mxfp8", "MXFP8BlockScaling of Transformer Engine, whose scales are rounded up"},
    {"mxfp4", "b200-mxfp4", "the only preset with MXFP4, as torchao runs it on a B200"},
    {"nvfp4", "te-nvfp4", "the published recipe: with the Hadamard transform, which b200-nvfp4 does not have"},
};

}  // namespace

std::span<const PresetAlias> preset_aliases() { return aliases; }

std::string preset_spelling(std::string_view name) {
    const std::string spelled = lowered(with_hyphens(name));
    const auto alias = std::find_if(std::begin(aliases), std::end(aliases),
                                    [&](const PresetAlias& row) { return row.name == spelled; });
    return alias == std::end(aliases) ? spelled : std::string(alias->preset);
}

}  // namespace macheps::policy
