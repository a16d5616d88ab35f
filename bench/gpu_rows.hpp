// SPDX-License-Identifier: Apache-2.0
// The rows of bench_gpu: what is timed beside what. Host only.
#pragma once
#include "bench/gpu_timing.hpp"
#include "emulation/evidence/library/matmul.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::bench {

/// What the rows run on. On a host everything is small, and the yardsticks are missing that only a device has.
struct Bench {
    std::shared_ptr<Backend> native{}, emulated{};  ///< the same engine with and without the device's matrix units
    void *native_stream = nullptr, *emulated_stream = nullptr;  ///< what they launch on
    std::shared_ptr<evidence::MatmulLibrary> library{};         ///< null: no yardstick for matmuls
    std::string no_library{};
    /// Copies bytes between device arrays on the default stream, without waiting.
    std::function<void(void* to, const void* from, std::size_t bytes)> copy{};
    Turns turns{};
    bool small = false;
};

struct Row {
    std::string what, yardstick;
    double target = 0;        ///< of ratio
    std::string work;         ///< one call
    double amount = 0;        ///< of work in `unit`
    std::string_view unit{};  ///< `Gmac`, `GB`
    Times ours{}, theirs{};   ///< theirs.median is 0 where there is no yardstick
    std::string note{};
};

struct RowMaker {
    std::string name;
    /// Checks a sample of the result against the definition, then times. Errors: throws Error (check_failed) when bits
    /// differ.
    std::function<Row(Bench&)> run;
};

std::vector<RowMaker> cast_rows();
std::vector<RowMaker> matmul_rows();

/// `count` numbers of an everyday kind, on a format's grid; cheap, and the same every time.
std::vector<float> bench_values(std::int64_t count, std::uint32_t seed, const Format& format);

}  // namespace macheps::bench
