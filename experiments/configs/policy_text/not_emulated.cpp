// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/policy_text/not_emulated.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>
#include <vector>

namespace macheps::configs {

FindingText not_emulated(std::string statement) {
    FindingText text{.message = statement, .instead = {}};
    text.not_emulated = std::move(statement);
    return text;
}

std::optional<FindingText> flags_not_emulated(const ImportContext& context,
                                              std::initializer_list<std::string_view> keys, std::string_view mark) {
    std::vector<std::string> flags;
    std::size_t first = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
        const std::string_view key = keys.begin()[i];
        if (!context.flag(key)) continue;
        if (flags.empty()) first = i;
        flags.push_back(fmt::format("{}{}", mark, key));
    }
    if (flags.empty()) return {};
    FindingText text =
        not_emulated(fmt::format("{} {} not emulated: the policy computes as without {}", fmt::join(flags, ", "),
                                 flags.size() == 1 ? "is" : "are", flags.size() == 1 ? "it" : "them"));
    text.key = first;
    return text;
}

FindingText compilation_not_emulated(std::string instead) {
    return {.message =
                "macheps emulates the roundings of eager execution; compiled kernels keep intermediate values "
                "in fp32 and may round less often",
            .instead = std::move(instead),
            .not_emulated =
                "compiled kernels are not emulated: every operation rounds its result, as in eager "
                "execution"};
}

std::optional<FindingText> attention_not_emulated(std::string_view kernel) {
    if (kernel.empty() || kernel == "eager" || kernel == "disabled" || kernel == "auto") return {};
    return not_emulated(
        fmt::format("the attention kernel {} is not emulated: attention is computed as separate operations, which "
                    "round the scores and the probabilities",
                    kernel));
}

}  // namespace macheps::configs
