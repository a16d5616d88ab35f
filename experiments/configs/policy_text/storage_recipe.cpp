// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace macheps::configs {

FieldValue letter(char format) {
    return {.value = format == '-' ? std::string("none") : std::string(1, format), .parts = {}};
}

std::string_view format_word(char letter) {
    switch (letter) {
        case 'F':
            return "fp32";
        case 'T':
            return "tf32";
        case 'H':
            return "fp16";
        case 'B':
            return "bf16";
        default:
            return "no format";
    }
}

void set_storage(ImportContext& context, const StorageRecipe& recipe, char low, std::string_view from_path) {
    const auto at = [low](char format) { return letter(format == 'L' ? low : format); };
    context.set("compute", at(recipe.compute), from_path);

    const std::string from = recipe.compute == 'L' ? fmt::format("from compute {}: {}", format_word(low), recipe.name)
                                                   : fmt::format("from the recipe: {}", recipe.name);
    std::string_view oplist = recipe.oplist;
    if (oplist == "torch") oplist = context.device().kind == DeviceProfile::Kind::cpu ? "torch-cpu" : "torch-cuda";
    context.infer("oplist", {.value = std::string(oplist), .parts = {}}, from);
    const std::pair<std::string_view, char> fields[] = {
        {"store", recipe.store},     {"master", recipe.master},       {"grad", recipe.grad}, {"accum", recipe.accum},
        {"reduce", recipe.reduce},   {"opt_state", recipe.opt_state}, {"norm", recipe.norm}, {"embed", recipe.embed},
        {"lm_head", recipe.lm_head}, {"buffers", recipe.buffers},     {"eval", recipe.eval}};
    for (const auto& [field, format] : fields) context.infer(field, at(format), from);
    context.infer("logits", {.value = std::string("follow"), .parts = {}}, from);
}

}  // namespace macheps::configs
