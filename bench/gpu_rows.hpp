// SPDX-License-Identifier: Apache-2.0
// The rows that bench_gpu measures. A row compares the time of our work with the time of a yardstick, such as cuBLASLt,
// if there is one. Host only.
#pragma once
#include "bench/gpu_timing.hpp"
#include "emulation/evidence/library/matmul.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::bench {

/// The engines and yardsticks that all rows share. With --host, `small` is set and the yardsticks that need a GPU are
/// missing.
struct Bench {
    std::shared_ptr<Backend> native{}, emulated{};  ///< the same engine with and without the device's matrix units
    void *native_stream = nullptr, *emulated_stream = nullptr;  ///< the CUDA streams of these engines
    std::shared_ptr<evidence::MatmulLibrary> library{};         ///< cuBLASLt; null if it is missing
    std::string no_library{};                                   ///< the reason why `library` is null
    /// Copies bytes between device arrays on the default stream, without waiting.
    std::function<void(void* to, const void* from, std::size_t bytes)> copy{};
    Turns turns{};
    bool small = false;
};

struct Row {
    std::string what, yardstick;
    double target = 0;        ///< value that theirs.median / ours.median should reach
    std::string work;         ///< description of one call
    double amount = 0;        ///< amount of work of one call in `unit`
    std::string_view unit{};  ///< `Gmac`, `GB`
    Times ours{}, theirs{};   ///< theirs.median is 0 in rows without a yardstick
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

/// Returns `count` pseudo-random numbers of magnitude below 4, rounded to `format`. The same seed gives the same
/// numbers.
std::vector<float> bench_values(std::int64_t count, std::uint32_t seed, const Format& format);

}  // namespace macheps::bench
