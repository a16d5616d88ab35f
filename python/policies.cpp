// SPDX-License-Identifier: Apache-2.0
// Python bindings that load policies, import framework configs as policies, and return the results as JSON.
#include "core/field_error.hpp"
#include "core/text/json.hpp"
#include "experiments/configs/framework.hpp"
#include "experiments/configs/import.hpp"
#include "experiments/configs/memory/tensors.hpp"
#include "experiments/policy/policy.hpp"
#include "experiments/training/model/config.hpp"
#include "experiments/training/model/memory.hpp"
#include "python/engine.hpp"
#include "python/rooms.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>
#include <vector>

namespace macheps::python {

using namespace training;

using namespace configs;

using namespace policy;

namespace {

std::vector<std::string> policies() {
    std::vector<std::string> names;
    for (const std::string_view name : preset_names()) names.emplace_back(name);
    return names;
}

Json json_of(const Policy& policy) {
    return {{"name", policy.name},
            {"description", policy.description},
            {"extends", policy.chain},
            {"toml", policy.text},
            {"loss_scaler", to_string(policy.loss_scaler)}};
}

/// Returns a preset, or the policy of a .toml file, as JSON.
std::string load(const std::string& name) { return json_of(load_policy(name)).dump(-1, Json::BadUtf8::is_replaced); }

/// Imports a framework's config. Returns the closest policy and the findings as JSON. `versions` are versions by the
/// names of packages, `requirements` is the path of a requirements file, and `despite` lists faults of the history.
std::string import(const std::vector<std::string>& files, const std::string& framework, const std::string& device,
                   const std::map<std::string, std::string>& versions, const std::string& requirements,
                   const std::vector<std::string>& despite) {
    ImportOptions options;
    options.framework = framework;
    options.despite = despite;
    for (const auto& [name, version] : versions) options.versions[name] = parse_version(version);
    if (!requirements.empty()) options.requirements = read_requirements(requirements);
    if (!device.empty()) {
        options.device = device;
        options.device_is_default = false;
    }
    const ImportResult result = import_config(files, options);
    Json findings = Json::array();
    for (const Finding& one : result.findings) findings.push_back(finding_json(one));
    Json json = result.refused() ? Json{{"name", ""}, {"description", ""}, {"toml", result.policy}}
                                 : json_of(parse_policy(result.policy, files.empty() ? "config" : files.front()));
    json["framework"] = result.framework->name;
    json["version"] = to_string(result.version);
    if (result.unknown_version) json["unknown_version"] = to_string(*result.unknown_version);
    json["refused"] = result.refused();
    json["findings"] = findings;
    return json.dump(-1, Json::BadUtf8::is_replaced);
}

/// Resolves the text of a policy for a model. Returns the table of slots, the tensors and the memory estimate as JSON.
/// `origin` names the source of the text in error messages.
std::string explain(const std::string& text, const std::string& origin, const std::string& kind,
                    const std::string& size) {
    const ModelSize model = named_size(size, parse_model_kind(kind));
    const SiteList sites = model_sites(model.model);
    const ResolvedPolicy resolved = resolve(parse_policy(text, origin), sites);
    Json rows = Json::array(), machines = Json::object(), tensors = Json::array();
    for (const ResolvedPolicy::Row& row : resolved.table())
        rows.push_back({{"site", row.site},
                        {"slot", row.slot},
                        {"cast", row.cast},
                        {"machine", row.machine},
                        {"rule", row.rule},
                        {"is_default", row.is_default}});
    for (const auto& [machine, count] : resolved.machines()) machines[machine] = count;
    for (const TensorRow& row : tensor_rows(sites, resolved, nullptr))
        tensors.push_back({{"kind", row.kind},
                           {"site", row.site},
                           {"format", row.format},
                           {"elements", row.elements},
                           {"rule", row.rule}});
    const MemoryEstimate memory = estimate_memory(sites, resolved, model.batch, 2);
    return Json{{"policy", resolved.name},
                {"description", resolved.description},
                {"model", kind},
                {"size", size},
                {"loss_scaler", to_string(resolved.loss_scaler)},
                {"machines", machines},
                {"unverified", resolved.unverified()},
                {"left_out", resolved.left_out_sites()},
                {"rows", rows},
                {"tensors", tensors},
                {"memory",
                 {{"batch", model.batch},
                  {"parameters", memory.parameters},
                  {"gradients", memory.gradients},
                  {"master", memory.master},
                  {"optimizer", memory.optimizer},
                  {"activations", memory.activations}}}}
        .dump(-1, Json::BadUtf8::is_replaced);
}

}  // namespace

void add_policies(nb::module_& m) {
    m.def("policies", &policies);
    m.def("load_policy", &load, nb::arg("name"));
    m.def("import_config", &import, nb::arg("files"), nb::arg("framework"), nb::arg("device"), nb::arg("versions"),
          nb::arg("requirements"), nb::arg("despite"));
    m.def("is_config_name", &is_config_name, nb::arg("path"));
    m.def("explain", &explain, nb::arg("text"), nb::arg("origin"), nb::arg("model"), nb::arg("size"));
}

}  // namespace macheps::python
