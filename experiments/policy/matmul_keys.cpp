// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/matmul_keys.hpp"

#include "emulation/machine/table.hpp"

#include <algorithm>

namespace macheps::policy {

namespace {

using Takes = MatmulKey::Takes;
using Turn = MatmulKey::Turn;
using Names = std::vector<std::string_view>;

template <class Enum>
Enum enumerator(std::int64_t value) {
    return static_cast<Enum>(value);
}

// A MatmulChoice keeps the name of its kernel while a policy sets only the options that a caller of the kernel may
// choose: the slices, the machine (if the kernel supports several machines), and the promotion interval (if the kernel
// accepts one). Any other option removes the name.

void apply_rule(std::int64_t value, MatmulChoice& choice) {
    const NamedMatmulRule& named = all_matmul_rules()[static_cast<std::size_t>(value)];
    const Machine* before = choice.rule.machine;
    choice.rule = named.rule;
    if (choice.rule.machine == nullptr) choice.rule.machine = before;
    choice.named = &named;
}

void apply_machine(std::int64_t value, MatmulChoice& choice) {
    choice.rule.machine = all_machines[static_cast<std::size_t>(value)];
    if (choice.named != nullptr && choice.named->rule.machine != nullptr) choice.named = nullptr;
}

void apply_promotion(std::int64_t value, MatmulChoice& choice) {
    choice.rule.promotion = enumerator<Promotion>(value);
    if (choice.rule.promotion == Promotion::none) choice.rule.promotion_interval = 0;
    choice.named = nullptr;
}

void apply_promote(std::int64_t value, MatmulChoice& choice) {
    MatmulRule& rule = choice.rule;
    rule.promotion_interval = static_cast<int>(value);
    if (value == 0) {
        rule.promotion = Promotion::none;
    } else if (rule.promotion == Promotion::none) {
        rule.promotion = Promotion::add;
    }
    if (choice.named != nullptr && !choice.named->takes_interval) choice.named = nullptr;
}

constexpr MatmulKey keys[] = {
    {.name = "bias_after",
     .takes = Takes::flag,
     .only_with_bias_in = "forward",
     .apply = [](std::int64_t value, MatmulChoice& choice) { choice.bias_after = value != 0; },
     .print = [](const MatmulChoice& choice) -> std::string { return choice.bias_after ? ", bias after" : ""; },
     .source = "pytorch/ao Float8Linear",
     .summary = "the bias is added to the rounded output, and the sum is rounded again"},
    {.name = "machine",
     .takes = Takes::name,
     .what = "machine",
     .names =
         [] {
             Names names;
             for (const Machine* each : all_machines) names.push_back(each->name);
             return names;
         },
     .turn = Turn::machine,
     .apply = apply_machine,
     .source = "for each machine: macheps machine show",
     .summary = "the matrix unit that computes the matmul, or its order of summation"},
    {.name = "rule",
     .takes = Takes::name,
     .what = "matmul rule",
     .names =
         [] {
             Names names;
             for (const NamedMatmulRule& each : all_matmul_rules()) names.push_back(each.name);
             return names;
         },
     .turn = Turn::base,
     .apply = apply_rule,
     .source = "for each rule: see below",
     .summary = "a library's kernel: its machine, promotion, slices and order of scales together"},
    {.name = "promote",
     .turn = Turn::last,
     .apply = apply_promote,
     .source = "NVIDIA/cutlass include/cutlass/gemm/collective/fp8_accumulation.hpp",
     .summary = "number of terms after which a partial sum is added to the main accumulator; 0: one chain over k"},
    {.name = "promotion",
     .takes = Takes::name,
     .what = "promotion",
     .names = [] { return Names(promotion_names.begin(), promotion_names.end()); },
     .apply = apply_promotion,
     .source = "NVIDIA/cutlass fp8_accumulation.hpp; deepseek-ai/DeepGEMM",
     .summary = "how a partial sum is added to the main accumulator"},
    {.name = "split_k",
     .least = 1,
     .most = 1024,  // libraries use a few tens at most
     .apply = [](std::int64_t value, MatmulChoice& choice) { choice.rule.slices = static_cast<int>(value); },
     .source = "NVIDIA/cutlass split-k and stream-k; cuBLASLt CUBLASLT_ALGO_CONFIG_SPLITK_NUM",
     .summary = "number of slices of k that are summed separately"},
    {.name = "slice_granule",
     .least = 1,
     .apply = [](std::int64_t value, MatmulChoice& choice) { choice.rule.slice_granule = static_cast<int>(value); },
     .source = "NVIDIA/cutlass include/cutlass/gemm/kernel/gemm.h",
     .summary = "slices begin at multiples of this number"},
    {.name = "join",
     .takes = Takes::name,
     .what = "join",
     .names = [] { return Names(slice_join_names.begin(), slice_join_names.end()); },
     .apply =
         [](std::int64_t value, MatmulChoice& choice) {
             choice.rule.join = enumerator<SliceJoin>(value);
             choice.named = nullptr;
         },
     .source = "NVIDIA/cutlass; cuBLASLt CUBLASLT_REDUCTION_SCHEME",
     .summary = "how the sums of the slices are added"},
    {.name = "scale_order",
     .takes = Takes::name,
     .what = "scale order",
     .names = [] { return Names(scale_order_names.begin(), scale_order_names.end()); },
     .apply =
         [](std::int64_t value, MatmulChoice& choice) {
             choice.rule.scale_order = enumerator<ScaleOrder>(value);
             choice.named = nullptr;
         },
     .source = "pytorch torch._scaled_mm; vLLM cutlass_scaled_mm",
     .summary = "order in which the finished sum is multiplied by the factors that undo the operands' scales"},
};

}  // namespace

std::span<const MatmulKey> matmul_keys() { return keys; }

const MatmulKey* find_matmul_key(std::string_view name) {
    const auto row = std::find_if(std::begin(keys), std::end(keys), [&](const auto& key) { return key.name == name; });
    return row == std::end(keys) ? nullptr : row;
}

}  // namespace macheps::policy
