// SPDX-License-Identifier: Apache-2.0
// What stands between the interpreter and the library: threads, signals, and arrays as the module takes them.
#pragma once
#include "core/error.hpp"
#include "core/host/thread_pool.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/cpu/simd/simd.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

namespace macheps::python {

namespace nb = nanobind;

/// Arrays come as the wrapper made them: contiguous, in the machine's byte order, of a type that the module has a word for.
using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using AnyOutput = nb::ndarray<nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using FloatsOut = nb::ndarray<float, nb::c_contig, nb::device::cpu>;
using DoublesOut = nb::ndarray<double, nb::c_contig, nb::device::cpu>;

/// The threads of this process. The vector and thread choices change no bit.
class Engine {
  public:
    explicit Engine(int threads) : simd(chosen_simd()), pool(threads) {}

    const Simd simd;
    ThreadPool pool;
    /// Made at its first use: it has threads of its own.
    CpuBackend& backend();

  private:
    std::optional<CpuBackend> backend_{};
};

/// Runs work(engine) with the interpreter free for other threads of Python, one call at a time. Nobody may wait for that
/// turn with the interpreter in hand: who has the turn may need it to look for signals.
void with_engine(const std::function<void(Engine&)>& work);
/// The same for work of a microsecond, which is not worth handing the interpreter over: only where nobody has the turn.
void with_engine_at_once(const std::function<void(Engine&)>& work);

/// How many elements of a cast go by before signals are looked for.
inline constexpr std::int64_t cast_chunk = std::int64_t{1} << 22;

/// Raises what a signal's handler raised, such as KeyboardInterrupt. For work that runs without the interpreter.
void poll_signals();

/// work(first, count) on chunks that cover [0, n), with a look for signals between them.
template <class Work>
void in_chunks(std::int64_t n, std::int64_t chunk, const Work& work) {
    for (std::int64_t first = 0; first < n; first += chunk) {
        if (first > 0) poll_signals();
        work(first, std::min(chunk, n - first));
    }
}

/// work(first, count) on chunks of rows that cover [0, rows), each a multiple of `step` but the last and so long that some
/// tenths of a second go by: a row may take a microsecond or a minute.
template <class Work>
void in_timed_chunks(std::int64_t rows, std::int64_t step, const Work& work) {
    std::int64_t chunk = step;
    for (std::int64_t first = 0; first < rows;) {
        if (first > 0) poll_signals();
        const std::int64_t count = std::min(chunk, rows - first);
        const auto start = std::chrono::steady_clock::now();
        work(first, count);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        if (took.count() < 0.2) chunk *= 4;
        if (took.count() > 1) chunk = std::max(step, chunk / 2 / step * step);
        first += count;
    }
}

/// Runs `job` with threads of its own beside the caller, who looks for signals until it is done: for work that cannot be
/// cut in pieces. After a signal the job is left to end by itself, so it must own whatever it reads.
void run_aside(std::function<void(ThreadPool&)> job);

int threads();
/// Throws Error (usage) below 1.
void set_threads(int count);

}  // namespace macheps::python
