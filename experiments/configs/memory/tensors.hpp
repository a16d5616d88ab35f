// SPDX-License-Identifier: Apache-2.0
// Every tensor of a training step under a policy, with its format and the reason: what is kept of each parameter, what goes
// between ranks, what autograd keeps, and what each matmul reads, sums and gives.
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
    std::string site;    ///< a parameter, a site, or a site and its matmul: `block.0.mlp.up:input_grad`
    std::string format;  ///< "bf16"; `-` where there is none; of a matmul "bf16 x bf16 -> fp32 on fp32.chain"
    std::int64_t elements = 0;  ///< of a parameter or, for one sample, of an activation; 0 for a matmul
    std::string rule;           ///< who says so
};

/// Parameters first, then activations, then matmuls, each in the order of the model. `config` is what the policy was imported
/// from, which knows in what micro-batches and ranks are added up; null for a policy that was written as one.
std::vector<TensorRow> tensor_rows(const policy::SiteList& sites, const policy::ResolvedPolicy& policy,
                                   const ResolvedConfig* config);

}  // namespace macheps::configs
