// SPDX-License-Identifier: Apache-2.0
#include "emulation/machine/gpus.hpp"

#include "core/format_table.hpp"
#include "core/text/nearest_name.hpp"
#include "emulation/machine/table.hpp"

#include <algorithm>
#include <string>

namespace macheps {

namespace {

constexpr Gpu gpus[] = {
    {"v100", "sm_70"},    {"t4", "sm_75"},       {"rtx2080", "sm_75"},  {"rtx2080ti", "sm_75"}, {"a100", "sm_80"},
    {"a30", "sm_80"},     {"a800", "sm_80"},     {"a10", "sm_86"},      {"a10g", "sm_86"},      {"a40", "sm_86"},
    {"rtx3090", "sm_86"}, {"3090", "sm_86"},     {"rtxa6000", "sm_86"}, {"l4", "sm_89"},        {"l40", "sm_89"},
    {"l40s", "sm_89"},    {"rtx4080", "sm_89"},  {"rtx4090", "sm_89"},  {"4090", "sm_89"},      {"h100", "sm_90"},
    {"h200", "sm_90"},    {"h800", "sm_90"},     {"gh200", "sm_90"},    {"b100", "sm_100"},     {"b200", "sm_100"},
    {"gb200", "sm_100"},  {"rtx5090", "sm_120"}, {"mi100", "CDNA1"},    {"mi210", "CDNA2"},     {"mi250", "CDNA2"},
    {"mi250x", "CDNA2"},  {"mi300a", "CDNA3"},   {"mi300x", "CDNA3"},   {"mi325x", "CDNA3"},
};

}  // namespace

std::span<const Gpu> known_gpus() { return gpus; }

std::vector<const Machine*> machines_of_gpu(std::string_view name) {
    std::string arch = lowered(name);
    for (const Gpu& gpu : gpus) {
        if (gpu.name == lowered(name)) arch = lowered(gpu.arch);
    }
    std::vector<const Machine*> machines;
    for (const Machine* machine : all_machines) {
        const std::vector<std::string_view> names = split_names(machine->arch);
        if (std::any_of(names.begin(), names.end(), [&](std::string_view each) { return lowered(each) == arch; }))
            machines.push_back(machine);
    }
    return machines;
}

}  // namespace macheps
