// SPDX-License-Identifier: Apache-2.0
// Sources: accelerate/utils/{ao,transformer_engine}.py, llamafactory/train/fp8_utils.py,
// axolotl/monkeypatch/accelerate/float8_moe_filter.py, torchao/float8/float8_linear_utils.py,
// torchao/prototype/moe_training/README.md, transformer_engine/pytorch/utils.py, megatron/core/fp8_utils.py.
#include "experiments/policy/layer_filter.hpp"

#include "core/text/nearest_name.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace macheps::policy {

namespace {

using Linears = std::span<const FrameworkLinear>;

std::string not_multiple(const FrameworkLinear& linear, std::int64_t of) {
    if (linear.in % of == 0 && linear.out % of == 0) return {};
    return fmt::format("{} does not divide its sides {} x {}", of, linear.out, linear.in);
}

/// Splits `name` at its dots. Returns whether one of the parts is in `words`.
bool has_segment(std::string_view name, std::initializer_list<std::string_view> words) {
    while (!name.empty()) {
        const std::string_view segment = name.substr(0, name.find('.'));
        if (std::find(words.begin(), words.end(), segment) != words.end()) return true;
        name.remove_prefix(std::min(segment.size() + 1, name.size()));
    }
    return false;
}

std::string held_word(std::string_view name, std::initializer_list<std::string_view> words) {
    for (const std::string_view word : words) {
        if (name.find(word) != name.npos) return fmt::format("its name contains \"{}\"", word);
    }
    return {};
}

std::string router(const FrameworkLinear& linear) {
    return has_segment(linear.name, {"gate", "router"})
               ? "it is a router: rounding would change which experts are selected"
               : "";
}

FilterVerdict accelerate_ao(Linears all, std::size_t i) {
    if (std::string why = not_multiple(all[i], 16); !why.empty()) return {std::move(why)};
    if (i == 0) return {"it is the first Linear"};
    if (i + 1 == all.size()) return {"it is the last Linear"};
    return {};
}

/// Accelerate converts the Linears of a module one after another and stops at the first one whose sides are not
/// multiples of 16. The Linears after it are therefore not converted either.
FilterVerdict accelerate_te(Linears all, std::size_t i) {
    if (std::string why = not_multiple(all[i], 16); !why.empty()) return {std::move(why)};
    for (std::size_t before = 0; before < i; ++before) {
        if (all[before].parent() != all[i].parent() || not_multiple(all[before], 16).empty()) continue;
        return {fmt::format("the conversion of {} stops at {}, whose sides are not multiples of 16",
                            all[i].parent().empty() ? "the model" : all[i].parent(), all[before].name)};
    }
    return {};
}

FilterVerdict axolotl_linears(Linears all, std::size_t i) {
    if (std::string why = router(all[i]); !why.empty()) return {std::move(why)};
    return accelerate_ao(all, i);
}

FilterVerdict llamafactory(Linears all, std::size_t i) {
    if (std::string why = held_word(lowered(all[i].name), {"embed", "lm_head", "output", "classifier"}); !why.empty())
        return {std::move(why)};
    return {not_multiple(all[i], 16)};
}

FilterVerdict torchao_auto_tensorwise(Linears all, std::size_t i) {
    const std::int64_t k = all[i].in, n = all[i].out;
    if (std::string why = not_multiple(all[i], 16); !why.empty()) return {std::move(why)};
    if (k <= 4096 && n <= 1024) return {fmt::format("not faster in fp8: K = {} <= 4096 and N = {} <= 1024", k, n)};
    return {};
}

FilterVerdict torchao_auto_rowwise(Linears all, std::size_t i) {
    const std::int64_t k = all[i].in, n = all[i].out;
    if (std::string why = not_multiple(all[i], 16); !why.empty()) return {std::move(why)};
    if (n <= 2048) return {fmt::format("not faster in fp8: N = {} <= 2048", n)};
    if (k <= 1024) return {fmt::format("not faster in fp8: K = {} <= 1024", k)};
    if (n <= 4096 && k <= 2048) return {fmt::format("not faster in fp8: N = {} <= 4096 and K = {} <= 2048", n, k)};
    return {};
}

FilterVerdict torchao_mxfp8(Linears all, std::size_t i) {
    return {held_word(all[i].name, {"output", "router.gate", "attention.wk", "attention.wv"})};
}

FilterVerdict blocks(Linears all, std::size_t i) {
    if (!all[i].is_hidden()) return {"it is outside the blocks"};
    return {router(all[i])};
}

/// Leaves out the linears outside the blocks and the last 16 % of the hidden linears. The number that corresponds to 16
/// % is rounded to nearest, and is at least one.
FilterVerdict nvfp4_paper(Linears all, std::size_t i) {
    if (!all[i].is_hidden()) return {"it is outside the blocks"};
    const auto is_hidden = [](const FrameworkLinear& linear) { return linear.is_hidden(); };
    const auto hidden = std::count_if(all.begin(), all.end(), is_hidden);
    const auto behind = std::count_if(all.begin() + static_cast<std::ptrdiff_t>(i) + 1, all.end(), is_hidden);
    const auto kept = std::max<std::int64_t>(1, std::llround(0.16 * static_cast<double>(hidden)));
    if (behind < kept) return {fmt::format("it is one of the last {} of {} hidden linears", kept, hidden)};
    return {};
}

/// Applies the check of transformer_engine.pytorch.utils.assert_dim_for_fp8_exec, which raises an error.
FilterVerdict transformer_engine(Linears all, std::size_t i) {
    const std::string why = not_multiple(all[i], 16);
    if (why.empty()) return {};
    return {fmt::format("transformer_engine/pytorch/utils.py asserts multiples of 16, but {}", why), true};
}

FilterVerdict megatron(Linears all, std::size_t i) {
    if (!all[i].is_hidden()) return {"the output layer is not a linear of Transformer Engine"};
    return transformer_engine(all, i);
}

constexpr LayerFilter filters[] = {
    {.name = "accelerate-ao",
     .judge = accelerate_ao,
     .source = "accelerate/utils/ao.py",
     .summary = "every Linear except the first, the last, and those with a side that is not a multiple of 16"},
    {.name = "accelerate-te",
     .judge = accelerate_te,
     .source = "accelerate/utils/transformer_engine.py",
     .summary = "every Linear whose sides are multiples of 16, unless an earlier one in the same module has a side "
                "that is not"},
    {.name = "axolotl",
     .judge = axolotl_linears,
     .source = "axolotl/monkeypatch/accelerate/float8_moe_filter.py",
     .summary = "like accelerate-ao, but without names that have a part `gate` or `router`"},
    {.name = "llamafactory",
     .judge = llamafactory,
     .source = "llamafactory/train/fp8_utils.py",
     .summary = "every Linear whose sides are multiples of 16 and whose name contains none of embed, lm_head, output "
                "and classifier; LLaMA-Factory documents this filter, but does not use it in training"},
    {.name = "torchao-auto-tensorwise",
     .judge = torchao_auto_tensorwise,
     .source = "torchao/float8/float8_linear_utils.py",
     .summary = "linears that are faster in fp8: sides that are multiples of 16, except K <= 4096 with N <= 1024"},
    {.name = "torchao-auto-rowwise",
     .judge = torchao_auto_rowwise,
     .source = "torchao/float8/float8_linear_utils.py",
     .summary =
         "linears that are faster in fp8: sides that are multiples of 16, except N <= 2048, K <= 1024, or N <= 4096 "
         "with K <= 2048"},
    {.name = "torchao-mxfp8",
     .names = ModuleNames::torchtitan,
     .judge = torchao_mxfp8,
     .source = "torchao/prototype/moe_training/README.md",
     .summary = "torchtitan's names without output, router.gate, attention.wk and attention.wv"},
    {.name = "transformer-engine",
     .judge = transformer_engine,
     .source = "transformer_engine/pytorch/utils.py",
     .summary = "every linear; a side that is not a multiple of 16 is an error"},
    {.name = "megatron",
     .names = ModuleNames::megatron,
     .judge = megatron,
     .source = "megatron/core/fp8_utils.py",
     .summary = "the linears of blocks; a side that is not a multiple of 16 is an error"},
    {.name = "nvfp4-paper",
     .judge = nvfp4_paper,
     .source = "arXiv:2509.25149",
     .summary = "the linears of blocks, except the last 16 % of them"},
    {.name = "blocks",
     .judge = blocks,
     .source = "deepseek-ai/DeepSeek-V3",
     .summary = "the linears of blocks, except names that have a part `gate` or `router`"},
};

FilterVerdict judged(const LayerChoice& choice, Linears all, std::size_t i) {
    const FrameworkLinear& linear = all[i];
    if (linear.is_hidden() && linear.block < choice.skip_first_blocks)
        return {fmt::format("its block is one of the first {}", choice.skip_first_blocks)};
    if (linear.is_hidden() && linear.block >= linear.blocks - choice.skip_last_blocks)
        return {fmt::format("its block is one of the last {}", choice.skip_last_blocks)};
    return choice.filter != nullptr ? choice.filter->judge(all, i) : FilterVerdict{};
}

}  // namespace

std::span<const LayerFilter> layer_filters() { return filters; }

const LayerFilter* find_layer_filter(std::string_view name) {
    const auto row =
        std::find_if(std::begin(filters), std::end(filters), [&](const auto& f) { return f.name == name; });
    return row == std::end(filters) ? nullptr : row;
}

std::map<std::string, FilterVerdict, std::less<>> left_out_by(const LayerChoice& choice, const SiteList& model) {
    std::map<std::string, FilterVerdict, std::less<>> left_out;
    if (choice.multiple_of != 0) {
        for (const Site& site : model.sites) {
            if (!site.kind.has_weight) continue;
            std::string why =
                not_multiple({.name = {}, .site = {}, .in = site.in, .out = site.out}, choice.multiple_of);
            if (!why.empty()) left_out[site.name] = {std::move(why)};
        }
    }
    const std::vector<FrameworkLinear> all =
        framework_linears(choice.filter != nullptr ? choice.filter->names : ModuleNames::transformers, model);
    std::map<std::string_view, int> parts, parts_left;
    for (std::size_t i = 0; i < all.size(); ++i) {
        ++parts[all[i].site];
        const FilterVerdict verdict = judged(choice, all, i);
        if (verdict.why.empty()) continue;
        ++parts_left[all[i].site];
        FilterVerdict& told = left_out[all[i].site];
        if (told.why.empty() || verdict.raises) told.why = fmt::format("{}: {}", all[i].name, verdict.why);
        told.raises = told.raises || verdict.raises;
    }
    // A site is one matrix with one cast, but it may consist of several linears of the framework, such as q_proj,
    // k_proj and v_proj. If some of these linears are left out, the whole site is left out.
    for (const auto& [site, count] : parts_left) {
        if (count < parts[site])
            left_out.find(site)->second.why +=
                fmt::format("; {} is one matrix, so all of it stays in high precision", site);
    }
    return left_out;
}

}  // namespace macheps::policy
