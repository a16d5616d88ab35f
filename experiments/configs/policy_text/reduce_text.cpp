// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/policy_text/reduce_text.hpp"

#include "experiments/configs/resolved.hpp"

#include <fmt/format.h>

#include <string_view>
#include <variant>

namespace macheps::configs {

namespace {

/// Formats: the letters in the config field `reduce`, and the names in policies.
constexpr struct {
    std::string_view letter, format;
} wires[] = {{"F", "fp32"}, {"T", "tf32"}, {"H", "fp16"}, {"B", "bf16"}};

/// Values of the config field `predivide`, and the values of the policy key `average` that replace them. The first row
/// assumes that NCCL's mean multiplies each input by 1 / ranks while it reads it. This is not verified.
constexpr struct {
    std::string_view word, average;
    bool has_factor;
} averages[] = {{"average", "before", false},
                {"split", "split", false},
                {"prescale", "before", false},
                {"postscale", "after", true}};

std::string factor_of(const ResolvedField& field) {
    for (const auto& [name, value] : field.value.parts) {
        const double* number = std::get_if<double>(&value);
        if (name != "factor" || number == nullptr || *number == 1) continue;
        const std::string digits = fmt::format("{}", *number);
        return fmt::format("predivide = {}{}\n", digits, digits.find_first_of(".e") == digits.npos ? ".0" : "");
    }
    return {};
}

/// Returns the kind of buckets in which gradients are reduced. DDP of torch fills buckets ("ddp"). FSDP and DeepSpeed
/// reduce flat vectors of the tensors that they partition ("model"). A config without `predivide` uses DDP. A config
/// with the value `prescale` and no factor also uses DDP; nanoGPT is an example.
std::string_view bucket_of(const ResolvedConfig& config) {
    const ResolvedField* divided = config.find("predivide");
    const bool is_ddp = divided == nullptr || (config.word("predivide") == "prescale" && divided->value.parts.empty());
    return is_ddp ? "ddp" : "model";
}

}  // namespace

FieldValue fsdp_average(const ResolvedConfig& config, int version) {
    return word_field(version == 2 && config.word("reduce") != "H" ? "average" : "split");
}

std::string reduce_text(const ResolvedConfig& config) {
    std::string lines;
    // Gradients are sent in their own format unless a field says otherwise.
    const std::string_view reduce = config.word("reduce"), grad = config.word("grad"), accum = config.word("accum");
    const bool is_usual = reduce == grad && (accum.empty() || accum == grad);
    for (const auto& [letter, format] : wires) {
        if (!is_usual && reduce == letter) lines += fmt::format("wire    = \"{}\"\n", format);
    }
    for (const auto& [word, average, has_factor] : averages) {
        if (config.word("predivide") != word) continue;
        lines += fmt::format("average = \"{}\"\n", average);
        if (has_factor) lines += factor_of(*config.find("predivide"));
    }
    // The compression hooks of torch divide the rounded gradients by the number of ranks. DDP itself multiplies by the
    // reciprocal.
    const std::string_view bucket = bucket_of(config);
    if (!is_usual && bucket == "ddp" && (reduce == "H" || reduce == "B")) lines += "by_division = true\n";
    return fmt::format("\n# Between ranks, if there are several.\n[reduce]\n{}bucket  = \"{}\"\n", lines, bucket);
}

}  // namespace macheps::configs
