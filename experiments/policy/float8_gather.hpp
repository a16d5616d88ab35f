// SPDX-License-Identifier: Apache-2.0
// FSDP's float8 all-gather: ranks send the codes of their shards of a weight. All shards have the same scale, which is
// computed from the amax over all of them. Source: torchao/float8/fsdp_utils.py.
#pragma once
#include "experiments/policy/policy.hpp"

#include <string>
#include <string_view>

namespace macheps::policy {

/// Changes the policy so that the weight of the linear `site` is gathered as codes. The weight is cast from the format
/// of the shards, which is that of the master copy if there is one. It is therefore not rounded to the format of other
/// gathered weights. All shards have one scale, so each element gets the same code as in a cast of the whole weight,
/// and nothing else depends on the shards. The scale is not rounded to a power of two, even if the recipe says so.
/// Throws Error naming `where` if the scale of the weight is not a single number that is computed from the weight
/// itself.
void gather_as_codes(ResolvedPolicy& policy, std::string_view site, const std::string& where);

}  // namespace macheps::policy
