// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/float8_gather.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

namespace macheps::policy {

void gather_as_codes(ResolvedPolicy& policy, std::string_view site, const std::string& where) {
    const auto slot = [&](const char* name) { return fmt::format("{}:{}", site, name); };
    const CastRule& weight = policy.cast(slot("forward.b"));
    const bool is_one_number = weight.has_scale() && weight.granularity->is_axis_free() &&
                               weight.scale_rule->kind == ScaleKind::fp32 && !weight.has_history();
    if (!is_one_number) {
        throw Error({.what = fmt::format("an fp8 all-gather needs one scale for each weight, computed from the amax of "
                                         "the weight, but '{}' is '{}': torchao asserts tensorwise scaling",
                                         slot("forward.b"), to_string(weight)),
                     .where = where,
                     .fix = "use the recipe ao-tensorwise, or remove all_gather"});
    }
    if (weight.scale_rule == find_scale_rule("ao_fp8_power")) {
        for (const char* each : {"forward.b", "input_grad.b"})
            policy.casts.find(slot(each))->second.scale_rule = find_scale_rule("ao_fp8");
    }
    const std::string parameter = fmt::format("{}.weight", site);
    if (!policy.casts.contains(parameter + ":value") || !policy.has_master(parameter)) return;
    policy.casts.find(parameter + ":value")->second = policy.cast(parameter + ":master");
    policy.origin.insert_or_assign(parameter + ":value", policy.origin.find(parameter + ":master")->second);
    policy.origin.erase(parameter + ":master");
}

}  // namespace macheps::policy
