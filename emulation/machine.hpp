// SPDX-License-Identifier: Apache-2.0
// Machine: one row of data per way to sum products.
#pragma once
#include <span>
#include <string_view>

namespace macheps {

struct Machine {
    std::string_view name;
    std::string_view summary;
    std::string_view source;
};

/// acc = +0, then acc = fma(a, b, acc) with k ascending, in fp32: what a CUDA-core kernel does.
inline constexpr Machine fp32_chain{
    .name = "fp32.chain", .summary = "one fp32 fma per term, k ascending", .source = "IEEE 754-2019 fusedMultiplyAdd"};

inline constexpr const Machine* all_machines[] = {&fp32_chain};

/// The machine of that name, or nullptr.
constexpr const Machine* find_machine(std::string_view name) {
    for (const Machine* machine : all_machines) {
        if (machine->name == name) return machine;
    }
    return nullptr;
}

}  // namespace macheps
