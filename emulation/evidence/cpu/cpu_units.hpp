// SPDX-License-Identifier: Apache-2.0
// Functions that run the dot-product and conversion instructions that this CPU may have. Host only.
#pragma once
#include "core/format.hpp"
#include "core/rounding.hpp"

#include <span>
#include <string>
#include <string_view>

namespace macheps::evidence {

/// A dot-product unit. It computes tiles of m x n outputs. Each output is a sum of k products.
struct CpuUnit {
    std::string_view arch{}, instr{}, qual{};  ///< arguments of find_instruction()
    std::string_view feature{};                ///< name of the feature in CPUID
    int m = 16, n = 16, k = 1;
    bool (*present)() = nullptr;  ///< returns whether this CPU and the operating system support it
    /// Computes d = a b + c on codes: a [m, k], b [k, n], c and d [m, n]. Null if this build does not have the
    /// instruction.
    void (*run)(const std::uint64_t* a, const std::uint64_t* b, const std::uint64_t* c, std::uint64_t* d) = nullptr;
};
std::span<const CpuUnit> cpu_units();

/// A conversion of fp32 to a 16-bit format, 16 inputs at a time.
struct CpuConversion {
    std::string_view instr{}, qual{}, profile{}, feature{};
    Format to{};
    Round round = Round::nearest_even;
    bool (*present)() = nullptr;
    void (*run)(const std::uint32_t* x, std::uint16_t* codes) = nullptr;
};
std::span<const CpuConversion> cpu_conversions();

/// Identity of the CPU and its software, as recorded in a trace.
struct CpuIdentity {
    std::string cpu{};        ///< `GenuineIntel family 6 model 143 stepping 8 (Intel(R) Xeon(R) Processor)`
    std::string microcode{};  ///< empty if it cannot be read
    std::string os{}, compiler{};
};
CpuIdentity cpu_identity();

}  // namespace macheps::evidence
