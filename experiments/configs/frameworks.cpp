// SPDX-License-Identifier: Apache-2.0
// The list of frameworks. To add a framework, create a folder for it and add a row here.
#include "experiments/configs/frameworks.hpp"
#include "core/text/split.hpp"

#include "core/text/nearest_name.hpp"

#include <array>
#include <string>

namespace macheps::configs {

namespace {

constexpr std::array rows{&transformers::framework, &accelerate::framework, &deepspeed::framework,
                          &llamafactory::framework, &axolotl::framework,    &longspec::framework,
                          &torch::framework,        &apex::framework,       &megatron::framework,
                          &nanogpt::framework,      &lightning::framework,  &composer::framework,
                          &torchtitan::framework,   &kohya::framework,      &trl::framework,
                          &verl::framework,         &torchtune::framework,  &gpt_neox::framework};

struct PackageReleases {
    std::string_view package;
    KnownReleases releases;
};

/// Packages that are not frameworks, and whose version importers ask for.
constexpr PackageReleases packages[] = {{"peft", {"PEFT", "0.2.0", "0.21.2"}}};

}  // namespace

std::span<const Framework* const> frameworks() { return rows; }

const Framework* find_framework(std::string_view name) {
    const std::string wanted = lowered(name);
    for (const Framework* each : frameworks()) {
        if (each->name == wanted) return each;
    }
    return nullptr;
}

std::optional<KnownReleases> known_releases(std::string_view package) {
    if (const Framework* row = find_framework(package)) return KnownReleases{row->title, row->oldest, row->newest};
    for (const PackageReleases& one : packages) {
        if (one.package == package) return one.releases;
    }
    return {};
}

std::vector<const Framework*> sharing_frameworks(const Framework& framework) {
    std::vector<const Framework*> all;
    for (const std::string_view name : listed_names(framework.shares_root_with)) {
        if (const Framework* other = find_framework(name)) all.push_back(other);
    }
    return all;
}

}  // namespace macheps::configs
