// SPDX-License-Identifier: Apache-2.0
// The CPU engine of Backend::cast, for arrays: definition::cast_element element by element, with Tally::add. Every
// instruction set and every number of threads returns those bits.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "emulation/scaling/cast_plan.hpp"

namespace macheps {

/// How a kernel's operands and results go through the caches; no bit depends on it.
enum class Traffic : std::uint8_t {
    cached,
    prefetched,  ///< too much for the caches: what comes next is asked for early
    streamed,    ///< and the stores bypass them; the results must be aligned to 64 bytes
};

/// A cast of one kind, ready to run on stretches of elements in one thread: for fusing into other loops.
class Caster {
  public:
    Caster(Simd simd, const Cast& cast);

    /// out[i] = cast of in[i]; in == out is allowed. Elements are numbered from `first_element` for the random stream.
    /// Adds to *tally when it is not null.
    void operator()(const float* in, float* out, std::int64_t n, Tally* tally, std::uint64_t first_element) const {
        run(in, out, n, tally, first_element, Traffic::cached);
    }
    void run(const float* in, float* out, std::int64_t n, Tally* tally, std::uint64_t first_element,
             Traffic traffic) const;

    using Kernel = void (*)(const CastPlan& plan, const float* in, float* out, std::int64_t n, Tally* tally,
                            std::uint64_t first_element, Traffic traffic);

  private:
    CastPlan plan_;
    Kernel plain_ = nullptr, tallied_ = nullptr;
};

/// The serial kernel for one stretch; a loop over many stretches keeps a Caster instead.
void cast_range(Simd simd, const float* in, float* out, std::int64_t n, const Cast& cast, Tally* tally,
                std::uint64_t first_element);

/// out[i] = cast of in[i], over all threads of the pool; in == out is allowed. Adds to *tally when it is not null.
void cast_array(Simd simd, ThreadPool& pool, const float* in, float* out, std::int64_t n, const Cast& cast,
                Tally* tally, std::int64_t first_element = 0);

}  // namespace macheps
