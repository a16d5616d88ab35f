// SPDX-License-Identifier: Apache-2.0
// FSDP's float8 all-gather: ranks send the codes of their shards of a weight, under one scale that the amax of all shards
// makes. Source: torchao/float8/fsdp_utils.py.
#pragma once
#include "experiments/policy/policy.hpp"

#include <string>
#include <string_view>

namespace macheps::policy {

/// The weight of the linear `site` is gathered so. It is cast from the shards' own format, that of the master copy where
/// there is one, and so without a rounding to the format of other gathered weights. One scale for all shards gives each
/// element the code that a cast of the whole weight gives it: nothing else remembers the shards. Powers of two are not
/// asked of that scale, whatever the recipe says. Throws Error naming `where` for a weight whose scale is not one number
/// made of the weight itself.
void gather_as_codes(ResolvedPolicy& policy, std::string_view site, const std::string& where);

}  // namespace macheps::policy
