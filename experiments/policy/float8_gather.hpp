// SPDX-License-Identifier: Apache-2.0
// Models FSDP's float8 all-gather, in which each rank sends the fp8 codes of its shard of a weight. All shards have the
// same scale, which is computed from the amax over all of them. Source: torchao/float8/fsdp_utils.py.
#pragma once
#include "experiments/policy/policy.hpp"

#include <string>
#include <string_view>

namespace macheps::policy {

/// Changes the policy so that FSDP gathers the weight of the linear `site` as fp8 codes. The shards have the format of
/// the master copy or, without a master copy, of the weight. They are cast to fp8 directly, and are not first rounded
/// to the format in which other weights are gathered. All shards share one scale. Each element therefore gets the same
/// code as in a cast of the whole weight, and no result depends on the number of shards. The scale is not rounded to a
/// power of two, even if the recipe rounds it. Throws Error that names `where` unless the weight has a single scale
/// that is computed from the weight itself.
void gather_as_codes(ResolvedPolicy& policy, std::string_view site, const std::string& where);

}  // namespace macheps::policy
