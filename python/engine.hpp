// SPDX-License-Identifier: Apache-2.0
// The layer between the Python interpreter and the library: threads, signals, and the array types of the module.
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

/// Types of array arguments. The Python package passes only arrays that are contiguous, in native byte order, and of a
/// type that the module supports.
using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using AnyOutput = nb::ndarray<nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using FloatsOut = nb::ndarray<float, nb::c_contig, nb::device::cpu>;
using DoublesOut = nb::ndarray<double, nb::c_contig, nb::device::cpu>;

/// The vector instructions and the threads that compute in this process. Results depend on neither.
class Engine {
  public:
    explicit Engine(int threads) : simd(chosen_simd()), pool(threads) {}

    const Simd simd;
    ThreadPool pool;
    /// Returns the backend, which has its own threads. It is created on first use.
    CpuBackend& backend();

  private:
    std::optional<CpuBackend> backend_{};
};

/// Runs work(engine) without the GIL, one call at a time. A thread must not wait for its turn while it holds the GIL:
/// the thread whose turn it is may need the GIL to check for signals.
void with_engine(const std::function<void(Engine&)>& work);
/// Runs work(engine) like with_engine(), for work of about a microsecond that is too short to release the GIL. Keeps
/// the GIL if no other call is running and the engine exists. Otherwise, calls with_engine().
void with_engine_at_once(const std::function<void(Engine&)>& work);

/// Number of elements that a cast processes between two checks for signals.
inline constexpr std::int64_t cast_chunk = std::int64_t{1} << 22;

/// Runs pending signal handlers, and throws the exception that a handler raises, such as KeyboardInterrupt. Acquires
/// the GIL, because work that runs without it calls this function.
void poll_signals();

/// Calls work(first, count) for chunks that cover [0, n), and checks for signals between them.
template <class Work>
void in_chunks(std::int64_t n, std::int64_t chunk, const Work& work) {
    for (std::int64_t first = 0; first < n; first += chunk) {
        if (first > 0) poll_signals();
        work(first, std::min(chunk, n - first));
    }
}

/// Calls work(first, count) for chunks of rows that cover [0, rows), and checks for signals between them. Each chunk
/// except the last is a multiple of `step`. The chunk size is adapted until a chunk takes between 0.2 and 1 second,
/// because a row may take a microsecond or a minute.
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

/// Runs `job` in another thread with its own thread pool, while the caller waits and checks for signals. Use it for
/// work that cannot be split into chunks. If a signal handler raises an exception, this function throws it, and the job
/// continues in the background. Therefore, the job must own everything that it reads.
void run_aside(std::function<void(ThreadPool&)> job);

int threads();
/// Throws Error (usage) unless `count` is from 1 to 1024.
void set_threads(int count);

}  // namespace macheps::python
