// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/policy_text/not_emulated.hpp"

#include <fmt/format.h>

#include <utility>

namespace macheps::configs {

FindingText not_emulated(std::string statement) {
    FindingText text{.message = statement, .instead = {}};
    text.not_emulated = std::move(statement);
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
