// SPDX-License-Identifier: Apache-2.0
// Lists every tensor of a training step under a policy, with its format and the source of the format. The list contains
// the tensors that are stored for each parameter, the gradients that ranks send, the activations that autograd saves,
// and the operands, sums and results of each matmul.
#pragma once
#include "experiments/policy/policy.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::configs {

class ResolvedConfig;

struct TensorRow {
    std::string_view
        kind;            ///< "value", "grad", "accum", "master", "moment1", "moment2", "wire", "activation", "matmul"
    std::string site;    ///< a parameter, SITE:SLOT of an activation, or SITE:MATMUL: `block.0.mlp.up:input_grad`
    std::string format;  ///< "bf16"; `-` if there is none; for a matmul "bf16 x bf16 -> fp32 on fp32.chain"
    std::int64_t elements = 0;  ///< number of elements; for an activation, per sample; 0 for a matmul
    std::string rule;           ///< source of the format
};

/// Returns parameters first, then activations, then matmuls, each in the order of the model. `config` is the config
/// that the policy was imported from, or null if it was not imported. It adds the formats in which gradients are summed
/// over micro-batches and ranks.
std::vector<TensorRow> tensor_rows(const policy::SiteList& sites, const policy::ResolvedPolicy& policy,
                                   const ResolvedConfig* config);

}  // namespace macheps::configs
