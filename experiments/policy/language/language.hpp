// SPDX-License-Identifier: Apache-2.0
// The fixed keys of a policy file. The other keys are also rows: slots (sites.hpp), keys of a matmul (matmul_keys.hpp)
// and keys of a loss scaler (scaler/). The parser accepts exactly these tables, and `macheps policy words` prints them.
#pragma once
#include <string_view>

namespace macheps::policy {

struct PolicyKey {
    std::string_view name, summary;
};

inline constexpr PolicyKey file_keys[] = {
    {"name", "what reports call the policy; the file's name when left out"},
    {"description", "one line for people"},
    {"extends", "the preset or file whose rules come first"},
    {"rule", "[[rule]]: what happens at some sites or parameters; later rules win, slot by slot"},
    {"loss_scaler", "[loss_scaler]: what the loss is multiplied by"},
    {"reduce", "[reduce]: how data parallel ranks make one gradient of theirs"},
    {"optimizer", "[optimizer]: how the optimiser computes"},
    {"clip", "[clip]: how gradients are clipped"},
    {"accumulation", "[accumulation]: how a step is divided into micro-batches"},
    {"backward", "[backward]: what is kept for the backward pass"},
    {"stress", "[stress]: values of the model that are made as large as in pretrained ones"},
};

/// Keys of [optimizer] in addition to those of training.hpp. [clip], [accumulation], [backward] and [stress] have only
/// keys of training.hpp.
inline constexpr PolicyKey optimizer_keys[] = {
    {"arithmetic", "the format that every operation of an optimiser step is rounded to"},
};

/// Keys of [loss_scaler] in addition to those of its kind.
inline constexpr PolicyKey loss_scaler_keys[] = {
    {"kind", "which loss scaler; the other keys are its own"},
};

/// Keys of a rule for sites, which also has a table for each group of slots.
inline constexpr PolicyKey site_rule_keys[] = {
    {"sites", "names with * ? and {a,b}, or an array of them: which sites the rule is about"},
    {"cast", "what happens at the slots that the patterns name, as in \"lm_head:forward.out\""},
    {"recipe", "a library's recipe of low precision by its name; what else the rule says changes it"},
    {"multiple_of", "linears whose sides are no multiples of it are left as they were"},
    {"filter", "a framework's layer filter: linears that it keeps in high precision are left as they were"},
    {"all_gather",
     "fp8: FSDP gathers the weights of these linears as codes, cast from the shards with one scale for all of them"},
    {"skip_first_blocks", "linears of so many blocks at the beginning are left as they were"},
    {"skip_last_blocks", "linears of so many blocks at the end are left as they were"},
    {"model", "the rule is for this kind of model only"},
};

/// Keys of a rule for parameters, which also has a cast for each slot of a parameter.
inline constexpr PolicyKey parameter_rule_keys[] = {
    {"params", "names with * ? and {a,b}, or an array of them: which parameters the rule is about"},
    {"model", "the rule is for this kind of model only"},
    {"cast", "what happens at the slots that the patterns name, as in \"*.weight:master\""},
};

/// Keys of a cast that is a table: { format = "bf16", round = "stochastic" }.
inline constexpr PolicyKey cast_keys[] = {
    {"format", "the number format"},
    {"round", "the rounding mode; nearest_even when left out"},
    {"overflow",
     "what a value beyond the largest finite one becomes; a cast with a scale saturates unless told not to"},
    {"scaling", "which elements share a scale"},
    {"scale_rule", "how a scale is made of the largest magnitude; each scaling has a usual one"},
    {"random_bits",
     "1 to 32: random bits of a stochastic rounding, 32 when left out; as a string, bf16:stochastic:random_bits=8"},
    {"history", "of a scale rule with a history: how many amaxes it has, 1024 when left out"},
    {"margin", "of a scale rule with a history: powers of two left free above amax, 0 when left out"},
    {"algorithm", "of a scale rule with a history: which of its amaxes counts, max when left out"},
    {"via", "a format that the values are rounded to first, by the same rounding mode, before they are scaled"},
    {"hadamard",
     "true: every 16 terms of the contraction are first mixed by a Hadamard matrix with signs, rounded to bf16; both "
     "operands of the matmul must have it. As a string, e2m1fn/nvfp4:hadamard"},
};

}  // namespace macheps::policy
