// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/model/matmul_formats.hpp"

#include "core/format_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace macheps::training {

namespace {

/// Returns the format of an operand. The name of the granularity follows if the operand has block scales and a matrix
/// unit has to apply them: `e4m3fn/mx32`. A policy may name a unit without block scales, whose partial sums software
/// then scales. Then the unit multiplies plain numbers of the format.
std::string operand_text(const policy::CastRule& cast, const Machine& machine) {
    const Granularity& granularity = *cast.granularity;
    const bool has_block_scales = granularity.kind == ScaleKind::e8m0 || granularity.kind == ScaleKind::nvfp4;
    const bool is_plain_unit = !machine.instruction.empty() && !machine.has_scales();
    const std::string_view format = format_name(cast.format);
    return has_block_scales && !is_plain_unit ? fmt::format("{}/{}", format, granularity.name) : std::string(format);
}

}  // namespace

std::string matmul_formats(const ModelConfig& model, const policy::SiteList& sites,
                           const policy::ResolvedPolicy& policy) {
    std::vector<std::pair<std::string, std::int64_t>> counts;
    for (const policy::Site& site : sites.sites) {
        // Number of multiply-adds for one token. A linear layer multiplies `in` features by a matrix with `out` rows.
        // An attention product combines the token with each of the `context` tokens; over all heads, each of these
        // pairs takes `width` multiply-adds.
        const std::int64_t features = site.kind.has_weight ? site.in * site.out : model.context * model.width;
        for (const std::string_view matmul : site.kind.matmuls) {
            const Machine& machine = *policy.matmul(site.name, matmul).rule.machine;
            const auto format_of = [&](const char* operand) {
                return operand_text(policy.cast(fmt::format("{}:{}.{}", site.name, matmul, operand)), machine);
            };
            const std::string pair = fmt::format("{}*{}", format_of("a"), format_of("b"));
            const auto known =
                std::find_if(counts.begin(), counts.end(), [&](const auto& row) { return row.first == pair; });
            const std::int64_t count = model.context * features;
            known == counts.end() ? (void)counts.emplace_back(pair, count) : (void)(known->second += count);
        }
    }
    std::string text;
    for (const auto& [pair, count] : counts) text += fmt::format("{}{}:{}", text.empty() ? "" : ";", pair, count);
    return text;
}

}  // namespace macheps::training
