// SPDX-License-Identifier: Apache-2.0
// Tables of the fixed keys of a policy file. The remaining keys are in other tables: slots (sites.hpp), keys of a
// matmul (matmul_keys.hpp) and keys of a loss scaler (scaler/). The parser accepts exactly the keys in these tables,
// and `macheps policy words` prints them.
#pragma once
#include <string_view>

namespace macheps::policy {

struct PolicyKey {
    std::string_view name, summary;
};

inline constexpr PolicyKey file_keys[] = {
    {"name", "name of the policy in reports; default: the name of the file"},
    {"description", "description in one line"},
    {"extends", "the preset or file that this policy extends; its rules come first"},
    {"rule", "[[rule]]: settings for some sites or parameters; later rules win, slot by slot"},
    {"loss_scaler", "[loss_scaler]: how the loss is scaled"},
    {"reduce", "[reduce]: how data-parallel ranks combine their gradients"},
    {"optimizer", "[optimizer]: how the optimiser computes"},
    {"clip", "[clip]: how gradients are clipped"},
    {"accumulation", "[accumulation]: how a step is divided into micro-batches"},
    {"backward", "[backward]: which tensors are kept for the backward pass"},
    {"stress", "[stress]: values of the model that are made as large as in pretrained models"},
};

/// Keys of [optimizer] that are not in training.hpp. The keys of [clip], [accumulation], [backward] and [stress] are
/// all in training.hpp.
inline constexpr PolicyKey optimizer_keys[] = {
    {"arithmetic", "the format that every operation of an optimiser step is rounded to"},
};

/// Keys of [loss_scaler] that do not depend on the kind of loss scaler.
inline constexpr PolicyKey loss_scaler_keys[] = {
    {"kind", "kind of loss scaler; the other keys depend on it"},
};

/// Keys of a [[rule]] for sites. The rule may also have a table for each group of slots.
inline constexpr PolicyKey site_rule_keys[] = {
    {"sites", "sites of the rule: a name with * ? and {a,b}, or an array of such names"},
    {"cast", "cast at the slots that the patterns name, as in \"lm_head:forward.out\""},
    {"recipe", "name of a library's low-precision recipe; other keys of the rule modify it"},
    {"multiple_of", "linears whose sides are not multiples of this number are left unchanged"},
    {"filter", "a framework's layer filter: linears that it keeps in high precision are left unchanged"},
    {"all_gather",
     "fp8: FSDP gathers the weights of these linears as fp8 codes, cast from the shards with one scale for all shards"},
    {"skip_first_blocks", "number of first blocks whose linears are left unchanged"},
    {"skip_last_blocks", "number of last blocks whose linears are left unchanged"},
    {"model", "the rule applies only to this kind of model"},
};

/// Keys of a [[rule]] for parameters. The rule may also have a cast for each slot of a parameter.
inline constexpr PolicyKey parameter_rule_keys[] = {
    {"params", "parameters of the rule: a name with * ? and {a,b}, or an array of such names"},
    {"model", "the rule applies only to this kind of model"},
    {"cast", "cast at the slots that the patterns name, as in \"*.weight:master\""},
};

/// Keys of a cast that is written as a table: { format = "bf16", round = "stochastic" }.
inline constexpr PolicyKey cast_keys[] = {
    {"format", "the number format"},
    {"round", "the rounding mode; default: nearest_even"},
    {"overflow", "result for a value beyond the largest finite one; a cast with a scale saturates by default"},
    {"scaling", "which elements share a scale"},
    {"scale_rule", "how a scale is computed from the largest magnitude; each scaling has a default"},
    {"random_bits",
     "random bits of a stochastic rounding, 1 to 32; default: 32; in a string: bf16:stochastic:random_bits=8"},
    {"history", "scale rules with a history only: number of amaxes in the history; default: 1024"},
    {"margin", "scale rules with a history only: powers of two left free above amax; default: 0"},
    {"algorithm", "scale rules with a history only: which of the amaxes is used; default: max"},
    {"via", "a format that the values are rounded to before they are scaled, with the same rounding mode"},
    {"hadamard",
     "true: every 16 terms of the contraction are first multiplied by a signed Hadamard matrix and rounded to bf16; "
     "required for both operands of the matmul or for neither; in a string: e2m1fn/nvfp4:hadamard"},
};

}  // namespace macheps::policy
