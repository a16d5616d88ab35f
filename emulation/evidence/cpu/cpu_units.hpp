// SPDX-License-Identifier: Apache-2.0
// The dot-product units and conversions that this CPU may have, run for what they are: real instructions. Host only.
#pragma once
#include "core/format.hpp"
#include "core/rounding.hpp"

#include <span>
#include <string>
#include <string_view>

namespace macheps::evidence {

/// A unit that sums products: tiles of m x n outputs, each over k products.
struct CpuUnit {
    std::string_view arch{}, instr{}, qual{};  ///< as find_instruction takes them
    std::string_view feature{};                ///< what CPUID calls it
    int m = 16, n = 16, k = 1;
    bool (*present)() = nullptr;  ///< this CPU has it, and the operating system lets it be used
    /// d = a b + c on codes: a [m, k], b [k, n], c and d [m, n]. Null where this build has no such instruction.
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

/// What a trace says of where it was recorded.
struct CpuIdentity {
    std::string cpu{};        ///< `GenuineIntel family 6 model 143 stepping 8 (Intel(R) Xeon(R) Processor)`
    std::string microcode{};  ///< empty: cannot be read
    std::string os{}, compiler{};
};
CpuIdentity cpu_identity();

}  // namespace macheps::evidence
