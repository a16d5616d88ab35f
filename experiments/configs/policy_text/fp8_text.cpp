// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/policy_text/fp8_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

namespace macheps::configs {

namespace {

/// An fp8 recipe: the value of the config field `fp8` that selects it (`word`), its name in policies (`recipe`), and
/// how it casts output gradients.
struct RecipeWord {
    std::string_view word, recipe;
    std::string_view granularity;  ///< granularity and scale rule of output gradients, as a policy spells them
    std::string_view gradients;    ///< their default format: hybrid (e5m2) or e4m3; empty if fixed
    bool has_history = false;
};

constexpr RecipeWord recipe_words[] = {
    {.word = "ao_tensorwise", .recipe = "ao-tensorwise", .granularity = {}, .gradients = {}},
    {.word = "ao_rowwise", .recipe = "ao-rowwise", .granularity = {}, .gradients = {}},
    {.word = "ao_rowwise_with_gw_hp", .recipe = "ao-rowwise-gw-hp", .granularity = {}, .gradients = {}},
    {.word = "ao_mxfp8_floor", .recipe = "ao-mxfp8-floor", .granularity = {}, .gradients = {}},
    {.word = "ao_mxfp8_rceil", .recipe = "ao-mxfp8-rceil", .granularity = {}, .gradients = {}},
    {.word = "te_delayed",
     .recipe = "te-delayed",
     .granularity = "tensor:te_delayed",
     .gradients = "hybrid",
     .has_history = true},
    {.word = "te_current", .recipe = "te-current", .granularity = "tensor:te_current", .gradients = "hybrid"},
    {.word = "te_block", .recipe = "te-block", .granularity = "1x128", .gradients = "e4m3"},
    {.word = "te_mxfp8", .recipe = "te-mxfp8", .granularity = "mx32", .gradients = "e4m3"},
    {.word = "te_nvfp4", .recipe = "te-nvfp4", .granularity = {}, .gradients = {}},
};

const RecipeWord* recipe_of(const ResolvedConfig& config) {
    const std::string_view word = config.word("fp8");
    const auto row = std::find_if(std::begin(recipe_words), std::end(recipe_words),
                                  [&](const RecipeWord& each) { return each.word == word; });
    return row == std::end(recipe_words) ? nullptr : row;
}

const FieldScalar* part(const ResolvedField& field, std::string_view name) {
    for (const auto& [key, value] : field.value.parts) {
        if (key == name) return &value;
    }
    return nullptr;
}

std::string word_of(const ResolvedField& field, std::string_view name) {
    const FieldScalar* value = part(field, name);
    const std::string* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
    return text == nullptr ? "" : *text;
}

std::optional<std::int64_t> count_of(const ResolvedField& field, std::string_view name) {
    const FieldScalar* value = part(field, name);
    const double* number = value == nullptr ? nullptr : std::get_if<double>(value);
    return number == nullptr ? std::nullopt : std::optional(static_cast<std::int64_t>(*number));
}

bool flag_of(const ResolvedField& field, std::string_view name) {
    const FieldScalar* value = part(field, name);
    const bool* flag = value == nullptr ? nullptr : std::get_if<bool>(value);
    return flag != nullptr && *flag;
}

/// Returns the options of delayed scaling that are appended to the name of the recipe:
/// `:history=16:margin=2:most_recent`.
std::string history_words(const ResolvedField& field) {
    std::string words;
    if (const auto length = count_of(field, "history")) words += fmt::format(":history={}", *length);
    if (const auto margin = count_of(field, "margin"); margin.value_or(0) != 0)
        words += fmt::format(":margin={}", *margin);
    if (const std::string algorithm = word_of(field, "algorithm"); !algorithm.empty() && algorithm != "max")
        words += fmt::format(":{}", algorithm);
    return words;
}

/// Returns the format of output gradients, or an empty text if it is the default of the recipe.
std::string_view other_gradients(const RecipeWord& recipe, const ResolvedField& field) {
    std::string format = word_of(field, "format");
    std::transform(format.begin(), format.end(), format.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    if (recipe.gradients.empty() || format.empty() || format == recipe.gradients) return {};
    return format == "e4m3" ? "e4m3fn" : "e5m2";
}

}  // namespace

bool has_known_recipe(const ResolvedConfig& config) {
    const std::string_view word = config.word("fp8");
    return word.empty() || word == "none" || recipe_of(config) != nullptr;
}

std::string_view format_around_fp8(const ResolvedConfig& config) {
    const std::string_view store = config.word("store"), gathered = config.word("embed");
    if (config.word("oplist").starts_with("torch") || store.empty()) return "B";
    // FSDP gathers fp32 shards as weights in a low-precision format.
    if (gathered == "H" || gathered == "B") return gathered;
    return store == "H" ? "H" : store == "B" ? "B" : "F";
}

std::string fp8_text(const ResolvedConfig& config) {
    const ResolvedField* field = config.find("fp8");
    const RecipeWord* recipe = recipe_of(config);
    if (field == nullptr || recipe == nullptr) return {};
    const std::string words = recipe->has_history ? history_words(*field) : "";
    std::string text =
        fmt::format("sites       = \"{}\"\nrecipe      = \"{}{}\"\n",
                    "{block.*.{attn.qkv,attn.proj,mlp.gate,mlp.up,mlp.down},lm_head}", recipe->recipe, words);
    if (const std::string filter = word_of(*field, "filter"); !filter.empty())
        text += fmt::format("filter      = \"{}\"\n", filter);
    for (const char* end : {"skip_first_blocks", "skip_last_blocks"}) {
        if (const auto count = count_of(*field, end); count.value_or(0) != 0)
            text += fmt::format("{} = {}\n", end, *count);
    }
    if (flag_of(*field, "all_gather")) text += "all_gather  = \"fp8\"\n";
    std::string gradient;
    if (const std::string_view format = other_gradients(*recipe, *field); !format.empty()) {
        gradient = fmt::format("a = \"{}/{}{}\"", format, recipe->granularity, words);
        text += fmt::format("input_grad  = {{ {} }}\n", gradient);
    }
    std::string of_weights = gradient;
    const auto add = [&](const std::string& key, std::string_view value) {
        of_weights += fmt::format("{}{} = \"{}\"", of_weights.empty() ? "" : ", ", key, value);
    };
    if (const std::string high = word_of(*field, "weight_grad"); !high.empty()) {
        of_weights.clear();
        add("a", high);
        add("b", high);
    }
    if (const std::string out = word_of(*field, "weight_grad_out"); !out.empty()) add("out", out);
    if (!of_weights.empty()) text += fmt::format("weight_grad = {{ {} }}\n", of_weights);
    return text;
}

}  // namespace macheps::configs
