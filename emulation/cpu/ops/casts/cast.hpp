// SPDX-License-Identifier: Apache-2.0
// Casts of arrays: the CPU engine of Backend::cast. The results are those of definition::cast_element and Tally::add
// for each element, with the same bits for every instruction set and every number of threads.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "emulation/scaling/cast_plan.hpp"

namespace macheps {

/// How a kernel's loads and stores use the caches. The results do not depend on it.
enum class Traffic : std::uint8_t {
    cached,
    prefetched,  ///< the arrays exceed the caches: operands are prefetched
    streamed,    ///< like `prefetched`, and stores bypass the caches; `out` must be aligned to 64 bytes
};

/// A prepared cast that runs on ranges of elements in one thread, for use inside other loops.
class Caster {
  public:
    Caster(Simd simd, const Cast& cast);

    /// Computes out[i] = cast of in[i]; in == out is allowed. In the random stream, elements are numbered from
    /// `first_element`. Adds to *tally if `tally` is not null.
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

/// Casts one range of elements serially. Loops over many ranges should keep a Caster instead.
void cast_range(Simd simd, const float* in, float* out, std::int64_t n, const Cast& cast, Tally* tally,
                std::uint64_t first_element);

/// Computes out[i] = cast of in[i] on all threads of the pool; in == out is allowed. Adds to *tally if `tally` is not
/// null.
void cast_array(Simd simd, ThreadPool& pool, const float* in, float* out, std::int64_t n, const Cast& cast,
                Tally* tally, std::int64_t first_element = 0);

}  // namespace macheps
