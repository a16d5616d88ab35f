// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/cpu_backend.hpp"

#include "core/error.hpp"
#include "core/host/float_environment.hpp"
#include "emulation/adam.hpp"
#include "emulation/cpu/matmul/matmul.hpp"
#include "emulation/cpu/ops/adam.hpp"
#include "emulation/cpu/ops/casts/cast.hpp"
#include "emulation/cpu/ops/casts/scaling.hpp"
#include "emulation/cpu/ops/elementwise.hpp"
#include "emulation/cpu/ops/optimizer.hpp"
#include "emulation/cpu/ops/stats.hpp"
#include "emulation/definitions.hpp"
#include "emulation/matmul/rules.hpp"
#include "emulation/shape_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace macheps {

namespace {

/// Work is shared between threads if its cost is at least `worth_a_thread`. The unit of cost, here and in share(), is
/// the addition of one vector element. A core does about 20 of these additions per nanosecond, so `worth_a_thread`
/// takes 13 microseconds, twice the time of a wake-up. The scalar engine takes about 16 times as long
/// (`scalar_factor`).
constexpr std::int64_t worth_a_thread = 1 << 18, scalar_factor = 16;

int checked_threads(int threads, Simd simd) {
    const auto& levels = available_simd();
    if (std::find(levels.begin(), levels.end(), simd) == levels.end()) {
        throw Error({.what = fmt::format("this CPU does not support {}", simd_name(simd)),
                     .where = "simd",
                     .fix = fmt::format("use {}", simd_name(levels.back())),
                     .exit = Exit::usage});
    }
    return threads == 0 ? available_threads() : threads;
}

}  // namespace

// --- memory

/// Freed memory blocks, sorted by size, which later tensors reuse.
class CpuBackend::Memory : public std::enable_shared_from_this<Memory> {
  public:
    static constexpr std::size_t alignment = 64;

    ~Memory() {
        for (const auto& [bytes, block] : free_) ::operator delete (block, std::align_val_t{alignment});
    }

    std::shared_ptr<void> take(std::int64_t count) {
        const std::size_t bytes = (static_cast<std::size_t>(max_of(count, std::int64_t{1})) * 4 + 255) / 256 * 256;
        void* block = nullptr;
        {
            const std::lock_guard lock(mutex_);
            if (const auto found = free_.find(bytes); found != free_.end()) {
                block = found->second;
                free_.erase(found);
            }
        }
        if (block == nullptr) block = ::operator new (bytes, std::align_val_t{alignment});
        return {block, [self = shared_from_this(), bytes](void* freed) {
                    try {
                        const std::lock_guard lock(self->mutex_);
                        self->free_.emplace(bytes, freed);
                    } catch (const std::bad_alloc&) {  // must not escape: another exception may be propagating
                        ::operator delete (freed, std::align_val_t{alignment});
                    }
                }};
    }

  private:
    std::mutex mutex_;
    std::multimap<std::size_t, void*> free_;
};

CpuBackend::CpuBackend(int threads, Simd simd)
    : simd_(simd),
      own_pool_(std::make_unique<ThreadPool>(checked_threads(threads, simd))),
      pool_(*own_pool_),
      memory_(std::make_shared<Memory>()) {}

CpuBackend::CpuBackend(ThreadPool& pool, Simd simd) : simd_(simd), pool_(pool), memory_(std::make_shared<Memory>()) {
    checked_threads(pool.threads(), simd);
}
CpuBackend::~CpuBackend() = default;

std::string CpuBackend::name() const { return fmt::format("cpu.{}.{}", simd_name(simd_), pool_.threads()); }

Tensor CpuBackend::empty(Shape shape) { return {memory_->take(shape.count()), shape}; }
TokenTensor CpuBackend::empty_tokens(Shape shape) { return {memory_->take(shape.count()), shape}; }

void CpuBackend::upload(std::span<const float> host, View out) {
    shapes::transfer("upload", host.size(), out.shape);
    std::copy(host.begin(), host.end(), out.data);
}
void CpuBackend::upload(std::span<const std::int32_t> host, TensorView<std::int32_t> out) {
    shapes::transfer("upload", host.size(), out.shape);
    std::copy(host.begin(), host.end(), out.data);
}
void CpuBackend::download(ConstView in, std::span<float> host) {
    shapes::transfer("download", host.size(), in.shape);
    std::copy(in.data, in.data + in.count(), host.begin());
}

void CpuBackend::share(std::int64_t count, std::int64_t cost,
                       const std::function<void(std::int64_t, std::int64_t)>& work, std::int64_t grain) {
    const std::int64_t grains = (count + grain - 1) / grain;
    // Makes at most four pieces per thread, and no piece that takes less time than a wake-up.
    const std::int64_t total = count * cost * (simd_ == Simd::scalar ? scalar_factor : 1);
    const std::int64_t pieces = std::min({grains, std::int64_t{4} * pool_.threads(), 2 * total / worth_a_thread});
    if (pool_.threads() == 1 || pieces <= 1) {
        if (count > 0) work(0, count);
        return;
    }
    pool_.run(pieces, [&](std::int64_t i) {
        work(grains * i / pieces * grain, std::min(count, grains * (i + 1) / pieces * grain));
    });
}

void CpuBackend::fill(View out, float value) {
    const DefaultFloatModes modes;
    share(out.count(), 1, [&](auto first, auto last) { std::fill(out.data + first, out.data + last, value); });
}

void CpuBackend::copy(ConstView in, View out) {
    const DefaultFloatModes modes;
    shapes::same_count("copy", {in.shape, out.shape});
    share(in.count(), 1, [&](auto first, auto last) { std::copy(in.data + first, in.data + last, out.data + first); });
}

// --- casts and their statistics

void CpuBackend::cast(ConstView in, View out, const Cast& cast, Tally* tally) {
    const DefaultFloatModes modes;
    shapes::same_count("cast", {in.shape, out.shape});
    draw("cast", cast, in.count());
    if (tally != nullptr) *tally = {};
    cast_array(simd_, pool_, in.data, out.data, in.count(), cast, tally);
}

ScaledResult CpuBackend::scaled_cast(ConstView in, View out, View scales, const ScaledCast& how, Tally* tally) {
    const DefaultFloatModes modes;
    shapes::scaled_cast(in.shape, out.shape, scales.shape, how);
    draw("scaled_cast", how.cast, in.count());
    const std::int64_t columns = in.columns(), rows = columns == 0 ? 0 : in.count() / columns;
    if (tally != nullptr) *tally = {};
    return macheps::scaled_cast(simd_, pool_, in.data, out.data, scales.data, rows, columns, how, tally);
}

void CpuBackend::decode_groups(ConstView in, const OperandScales& scales, bool k_is_last, float factor, View out) {
    const DefaultFloatModes modes;
    shapes::same_count("decode_groups", {in.shape, out.shape});
    const std::int64_t n = in.columns(), together = k_is_last ? scales.k_block : scales.outer_block;
    share(n == 0 ? 0 : in.count() / n, n, [&](auto first, auto last) {
        for (std::int64_t r = first; r < last; ++r) {
            for (std::int64_t begin = 0; begin < n; begin += together) {
                const float scale = scales.at(k_is_last ? r : begin, k_is_last ? begin : r);
                for (std::int64_t i = r * n + begin; i < r * n + std::min(begin + together, n); ++i)
                    out.data[i] = definition::canonical(in.data[i] * scale * factor);
            }
        }
    });
}

float CpuBackend::amax(ConstView x) {
    const DefaultFloatModes modes;
    return amax_array(simd_, pool_, x.data, x.count());
}

bool CpuBackend::any_nonfinite(ConstView x) {
    const DefaultFloatModes modes;
    return any_nonfinite_array(simd_, pool_, x.data, x.count());
}

ErrorSums CpuBackend::compare(ConstView x, ConstView y, float decode_scale) {
    const DefaultFloatModes modes;
    shapes::same_count("compare", {x.shape, y.shape});
    return compare_arrays(simd_, pool_, x.data, y.data, x.count(), decode_scale);
}

ExponentHistogram CpuBackend::exponents(ConstView x) {
    const DefaultFloatModes modes;
    return exponents_array(simd_, pool_, x.data, x.count());
}

std::uint64_t CpuBackend::bit_hash(ConstView x) {
    std::atomic<std::uint64_t> sum = 0;
    share(x.count(), 4, [&](auto first, auto last) {
        std::uint64_t here = 0;
        for (auto i = first; i < last; ++i) here += definition::hash_term(i, x.data[i]);
        sum += here;
    });
    return sum;
}

// --- matmul

void CpuBackend::matmul(const Matmul& args, Tally* tally) {
    const DefaultFloatModes modes;
    shapes::matmul(args);
    draw(args);
    if (tally != nullptr) *tally = {};
    Matmul decoded = args;
    decoded.a.format = decoded_format(*args.rule.machine, args.a.format);
    decoded.b.format = decoded_format(*args.rule.machine, args.b.format);
    macheps::matmul(simd_, pool_, decoded, tally);
}

// --- elementwise

void CpuBackend::map(const elementwise::Unary& f, ConstView x, View out) {
    const DefaultFloatModes modes;
    shapes::same_count(f.name, {x.shape, out.shape});
    const auto kernel = elementwise_kernels(simd_).unary[f.place];
    share(
        x.count(), f.cost, [&](auto first, auto last) { kernel(x.data + first, last - first, out.data + first); },
        chunk);
}

void CpuBackend::map_backward(const elementwise::Unary& f, ConstView x, ConstView dout, View dx) {
    const DefaultFloatModes modes;
    shapes::map_backward(f, x.shape, dout.shape, dx.shape);
    const auto kernel = elementwise_kernels(simd_).backward[f.place];
    share(
        x.count(), f.backward_cost,
        [&](auto first, auto last) { kernel(x.data + first, dout.data + first, last - first, dx.data + first); },
        chunk);
}

void CpuBackend::map(const elementwise::Binary& f, ConstView a, ConstView b, View out) {
    const DefaultFloatModes modes;
    shapes::same_count(f.name, {a.shape, b.shape, out.shape});
    const auto kernel = elementwise_kernels(simd_).of(f);
    share(
        a.count(), f.cost,
        [&](auto first, auto last) { kernel(a.data + first, b.data + first, last - first, out.data + first); }, chunk);
}

void CpuBackend::map(const elementwise::Binary& f, ConstView a, float b, View out) {
    const DefaultFloatModes modes;
    shapes::same_count(f.name, {a.shape, out.shape});
    const auto kernel = elementwise_kernels(simd_).by_number(f);
    share(
        a.count(), f.cost, [&](auto first, auto last) { kernel(a.data + first, b, last - first, out.data + first); },
        chunk);
}

// --- optimiser

float CpuBackend::sum_of_squares(ConstView x) {
    const DefaultFloatModes modes;
    return sum_of_squares_array(simd_, pool_, x.data, x.count());
}

template <class Chunk>
void CpuBackend::update(std::int64_t n, UpdateStats* stats, const Chunk& chunk_kernel) {
    const std::int64_t chunks = (n + chunk - 1) / chunk;
    std::vector<definition::UpdateSums> sums(stats != nullptr ? static_cast<std::size_t>(chunks) : 0);
    std::mutex mutex;
    UpdateStats total;
    share(chunks, 6 * chunk, [&](auto first, auto last) {
        UpdateStats counts;
        for (auto c = first; c < last; ++c) {
            const auto part =
                chunk_kernel(c * chunk, std::min(chunk, n - c * chunk), stats != nullptr ? &counts : nullptr);
            if (stats != nullptr) sums[static_cast<std::size_t>(c)] = part;
        }
        const std::lock_guard lock(mutex);
        total.count += counts.count;
        total.nonzero += counts.nonzero;
        total.lost += counts.lost;
        total.frozen += counts.frozen;
    });
    if (stats == nullptr) return;
    // The lane rule over all elements is defined as the lane rule over the results of the chunks
    // (emulation/reduce.hpp).
    definition::set_sums(total, lane_sum<definition::UpdateSums>(
                                    chunks, [&](std::int64_t c) { return sums[static_cast<std::size_t>(c)]; }));
    *stats = total;
}

void CpuBackend::adamw(View p, ConstView g, View m, View v, const AdamW& args, UpdateStats* stats) {
    const DefaultFloatModes modes;
    shapes::adam("adamw", p.shape, g.shape, m.shape, v.shape);
    draw(args, p.count());
    const auto kernel = optimizer_kernels(simd_).adamw;
    const AdamWStep step(simd_, args);
    update(p.count(), stats, [&](std::int64_t first, std::int64_t n, UpdateStats* counts) {
        return kernel(step, p.data + first, g.data + first, m.data + first, v.data + first, first, n, counts);
    });
}

void CpuBackend::adam(View p, ConstView g, View m, View v, const Adam& args, UpdateStats* stats) {
    const DefaultFloatModes modes;
    shapes::adam("adam", p.shape, g.shape, m.shape, v.shape);
    draw(args, p.count());
    const AdamWork work(simd_, args);
    update(p.count(), stats, [&](std::int64_t first, std::int64_t n, UpdateStats* counts) {
        return work.kernel(work, p.data + first, g.data + first, m.data + first, v.data + first, first, n, counts);
    });
}

void CpuBackend::sgd(View p, ConstView g, View momentum, const Sgd& args, UpdateStats* stats) {
    const DefaultFloatModes modes;
    const bool buffered = args.momentum != 0;
    shapes::sgd(p.shape, g.shape, momentum.shape, args);
    draw(args, p.count());
    const auto kernel = optimizer_kernels(simd_).sgd;
    const SgdStep step(simd_, args);
    update(p.count(), stats, [&](std::int64_t first, std::int64_t n, UpdateStats* counts) {
        return kernel(step, p.data + first, g.data + first, buffered ? momentum.data + first : nullptr, first, n,
                      counts);
    });
}

}  // namespace macheps
