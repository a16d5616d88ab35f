// SPDX-License-Identifier: Apache-2.0
// Table of all machines: the orders of summation and the matrix units of each vendor. An order of summation does not
// describe an instruction. Each matrix unit is one row in the file of its vendor.
#pragma once
#include "emulation/machine/table_amd.hpp"
#include "emulation/machine/table_cpu.hpp"
#include "emulation/machine/table_nvidia.hpp"

#include <array>

namespace macheps {

namespace machine_row {

/// Completes the row of an order of summation (other than fp32_chain). Its operands may have any format whose numbers
/// are exact in fp32.
constexpr Machine order(Machine row) {
    row.operands = FormatSet::of_values();
    row.source = "IEEE 754-2019";
    return row;
}

inline constexpr Machine orders[] = {
    order({.name = "fp32.unfused",
           .sum = {.rounds_products = true},
           .summary = "products are rounded to fp32, then added, k ascending"}),
    order({.name = "fp32.pairwise",
           .sum = {.model = SumModel::pairwise},
           .summary = "products are rounded to fp32, then added in a tree split at the largest power of two below n"}),
    order({.name = "fp32.kahan",
           .sum = {.model = SumModel::kahan},
           .summary = "fp32 products, Kahan's compensated sum, k ascending"}),
    order({.name = "bf16.chain",
           .addend = bf16,
           .result = bf16,
           .sum = {.delivery = Delivery::bf16_nearest_even, .addend = bf16},
           .summary = "one fma per term, rounded to bf16, k ascending"}),
    order({.name = "fp16.chain",
           .addend = fp16,
           .result = fp16,
           .sum = {.delivery = Delivery::fp16_nearest_even, .addend = fp16},
           .summary = "one fma per term, rounded to fp16, k ascending"}),
    order({.name = "fp32.dequantised",
           .reads_values = true,
           .summary = "operands are first multiplied by their scales and rounded to fp32; then like fp32.chain"}),
    order({.name = "exact",
           .sum = {.model = SumModel::exact},
           .summary = "the exact sum of the exact products, rounded once to fp32"}),
};

}  // namespace machine_row

/// Every machine, fp32.chain first.
inline constexpr auto all_machines = [] {
    using namespace machine_row;
    std::array<const Machine*, 1 + std::size(orders) + std::size(nvidia) + std::size(amd) + std::size(cpu)> all{
        &fp32_chain};
    std::size_t n = 1;
    for (const Machine& row : orders) all[n++] = &row;
    for (const Machine& row : nvidia) all[n++] = &row;
    for (const Machine& row : amd) all[n++] = &row;
    for (const Machine& row : cpu) all[n++] = &row;
    return all;
}();

/// Returns the machine of that name, or nullptr.
constexpr const Machine* find_machine(std::string_view name) {
    for (const Machine* machine : all_machines) {
        if (machine->name == name) return machine;
    }
    return nullptr;
}

}  // namespace macheps
