// SPDX-License-Identifier: Apache-2.0
// The rows of bench_gpu and their yardsticks. Host only.
#pragma once
#include "bench/gpu_timing.hpp"
#include "emulation/evidence/library/matmul.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::bench {

/// The environment of the rows. On a host, everything is small, and the yardsticks that need a device are missing.
struct Bench {
    std::shared_ptr<Backend> native{}, emulated{};  ///< the same engine with and without the device's matrix units
    void *native_stream = nullptr, *emulated_stream = nullptr;  ///< the streams that they launch on
    std::shared_ptr<evidence::MatmulLibrary> library{};         ///< null: no yardstick for matmuls
    std::string no_library{};
    /// Copies bytes between device arrays on the default stream, without waiting.
    std::function<void(void* to, const void* from, std::size_t bytes)> copy{};
    Turns turns{};
    bool small = false;
};

struct Row {
    std::string what, yardstick;
    double target = 0;        ///< target of the ratio
    std::string work;         ///< description of one call
    double amount = 0;        ///< amount of work of one call in `unit`
    std::string_view unit{};  ///< `Gmac`, `GB`
    Times ours{}, theirs{};   ///< theirs.median is 0 if there is no yardstick
    std::string note{};
};

struct RowMaker {
    std::string name;
    /// Checks a sample of the result against the definition, then measures the time. Errors: throws Error
    /// (check_failed) if bits differ.
    std::function<Row(Bench&)> run;
};

std::vector<RowMaker> cast_rows();
std::vector<RowMaker> matmul_rows();

/// Returns `count` ordinary numbers, rounded to the format. They are cheap to make and the same every time.
std::vector<float> bench_values(std::int64_t count, std::uint32_t seed, const Format& format);

}  // namespace macheps::bench
