// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/cpu_backend.hpp"

#include "core/error.hpp"
#include "emulation/cpu/matmul/matmul.hpp"
#include "emulation/cpu/ops/cast.hpp"
#include "emulation/cpu/ops/elementwise.hpp"
#include "emulation/cpu/ops/gated.hpp"
#include "emulation/cpu/ops/optimizer.hpp"
#include "emulation/cpu/ops/rms_norm.hpp"
#include "emulation/cpu/ops/rotary.hpp"
#include "emulation/cpu/ops/rows.hpp"
#include "emulation/cpu/ops/scaling.hpp"
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

/// In additions of vector elements, of which a core does some 20 per nanosecond: 13 microseconds, twice a wake-up. The
/// costs below are measured in them; the scalar engine takes about 16 times as long.
constexpr std::int64_t worth_a_thread = 1 << 18, scalar_factor = 16;
constexpr std::int64_t column_grain = 32;  ///< two cache lines, so that threads do not share one

std::span<const std::int32_t> host_tokens(TokenView tokens) {
    return {tokens.data, static_cast<std::size_t>(tokens.count())};
}

int checked_threads(int threads, Simd simd) {
    const auto levels = available_simd();
    if (std::find(levels.begin(), levels.end(), simd) == levels.end()) {
        throw Error({.what = fmt::format("this CPU has no {}", simd_name(simd)),
                     .where = "simd",
                     .fix = fmt::format("use {}", simd_name(levels.back())),
                     .exit = Exit::usage});
    }
    return threads == 0 ? available_threads() : threads;
}

}  // namespace

// --- memory

/// Blocks that were freed, by size.
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
                    const std::lock_guard lock(self->mutex_);
                    self->free_.emplace(bytes, freed);
                }};
    }

  private:
    std::mutex mutex_;
    std::multimap<std::size_t, void*> free_;
};

CpuBackend::CpuBackend(int threads, Simd simd)
    : simd_(simd), pool_(checked_threads(threads, simd)), memory_(std::make_shared<Memory>()) {}
CpuBackend::~CpuBackend() = default;

std::string CpuBackend::name() const { return fmt::format("cpu.{}.{}", simd_name(simd_), pool_.threads()); }

Tensor CpuBackend::empty(Shape shape) { return {memory_->take(shape.count()), shape}; }
TokenTensor CpuBackend::empty_tokens(Shape shape) { return {memory_->take(shape.count()), shape}; }

void CpuBackend::upload(std::span<const float> host, View out) {
    check::transfer("upload", host.size(), out.shape);
    std::copy(host.begin(), host.end(), out.data);
}
void CpuBackend::upload(std::span<const std::int32_t> host, TensorView<std::int32_t> out) {
    check::transfer("upload", host.size(), out.shape);
    std::copy(host.begin(), host.end(), out.data);
}
void CpuBackend::download(ConstView in, std::span<float> host) {
    check::transfer("download", host.size(), in.shape);
    std::copy(in.data, in.data + in.count(), host.begin());
}

void CpuBackend::share(std::int64_t count, std::int64_t cost,
                       const std::function<void(std::int64_t, std::int64_t)>& work, std::int64_t grain) {
    const std::int64_t grains = (count + grain - 1) / grain;
    // Never more pieces than threads would keep busy, nor smaller ones than are worth waking a thread for.
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
    share(out.count(), 1, [&](auto first, auto last) { std::fill(out.data + first, out.data + last, value); });
}

void CpuBackend::copy(ConstView in, View out) {
    check::same_count("copy", {in.shape, out.shape});
    share(in.count(), 1, [&](auto first, auto last) { std::copy(in.data + first, in.data + last, out.data + first); });
}

// --- casts and what they did

void CpuBackend::cast(ConstView in, View out, const Cast& cast, Tally* tally) {
    check::same_count("cast", {in.shape, out.shape});
    if (tally != nullptr) *tally = {};
    cast_array(simd_, pool_, in.data, out.data, in.count(), cast, tally);
}

ScaledResult CpuBackend::scaled_cast(ConstView in, View out, View scales, const ScaledCast& how, Tally* tally) {
    check::scaled_cast(in.shape, out.shape, scales.shape, how);
    const std::int64_t columns = in.columns(), rows = columns == 0 ? 0 : in.count() / columns;
    if (tally != nullptr) *tally = {};
    return macheps::scaled_cast(simd_, pool_, in.data, out.data, scales.data, rows, columns, how, tally);
}

void CpuBackend::decode_groups(ConstView in, const OperandScales& scales, bool k_is_last, float factor, View out) {
    check::same_count("decode_groups", {in.shape, out.shape});
    const std::int64_t n = in.columns();
    share(n == 0 ? 0 : in.count() / n, n, [&](auto first, auto last) {
        for (std::int64_t r = first; r < last; ++r) {
            for (std::int64_t c = 0; c < n; ++c) {
                const float scale = scales.at(k_is_last ? r : c, k_is_last ? c : r);
                out.data[r * n + c] = definition::canonical(in.data[r * n + c] * scale * factor);
            }
        }
    });
}

float CpuBackend::amax(ConstView x) { return amax_array(simd_, pool_, x.data, x.count()); }

bool CpuBackend::any_nonfinite(ConstView x) { return any_nonfinite_array(simd_, pool_, x.data, x.count()); }

ErrorSums CpuBackend::compare(ConstView x, ConstView y, float decode_scale) {
    check::same_count("compare", {x.shape, y.shape});
    return compare_arrays(simd_, pool_, x.data, y.data, x.count(), decode_scale);
}

ExponentHistogram CpuBackend::exponents(ConstView x) { return exponents_array(simd_, pool_, x.data, x.count()); }

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
    check::matmul(args);
    if (tally != nullptr) *tally = {};
    Matmul decoded = args;
    decoded.a.format = decoded_format(*args.rule.machine, args.a.format);
    decoded.b.format = decoded_format(*args.rule.machine, args.b.format);
    macheps::matmul(simd_, pool_, decoded, tally);
}

// --- elementwise

void CpuBackend::add(ConstView a, ConstView b, View out) {
    check::same_count("add", {a.shape, b.shape, out.shape});
    const auto kernel = elementwise_kernels(simd_).add;
    share(
        a.count(), 1,
        [&](auto first, auto last) { kernel(a.data + first, b.data + first, last - first, out.data + first); }, chunk);
}

void CpuBackend::multiply(ConstView a, ConstView b, View out) {
    check::same_count("multiply", {a.shape, b.shape, out.shape});
    const auto kernel = gated_kernels(simd_).multiply;
    share(
        a.count(), 1,
        [&](auto first, auto last) { kernel(a.data + first, b.data + first, last - first, out.data + first); }, chunk);
}

void CpuBackend::scale(ConstView in, float factor, View out) {
    check::same_count("scale", {in.shape, out.shape});
    const auto kernel = elementwise_kernels(simd_).scale;
    share(
        in.count(), 1, [&](auto first, auto last) { kernel(in.data + first, factor, last - first, out.data + first); },
        chunk);
}

void CpuBackend::gelu(Gelu kind, ConstView x, View out) {
    check::same_count("gelu", {x.shape, out.shape});
    const auto kernel = elementwise_kernels(simd_).gelu;
    share(
        x.count(), 16, [&](auto first, auto last) { kernel(kind, x.data + first, last - first, out.data + first); },
        chunk);
}

void CpuBackend::gelu_backward(Gelu kind, ConstView x, ConstView dout, View dx) {
    check::same_count("gelu_backward", {x.shape, dout.shape, dx.shape});
    const auto kernel = elementwise_kernels(simd_).gelu_backward;
    share(
        x.count(), 24,
        [&](auto first, auto last) { kernel(kind, x.data + first, dout.data + first, last - first, dx.data + first); },
        chunk);
}

void CpuBackend::silu(ConstView x, View out) {
    check::same_count("silu", {x.shape, out.shape});
    const auto kernel = gated_kernels(simd_).silu;
    share(
        x.count(), 12, [&](auto first, auto last) { kernel(x.data + first, last - first, out.data + first); }, chunk);
}

void CpuBackend::silu_backward(ConstView x, ConstView dout, View dx) {
    check::same_count("silu_backward", {x.shape, dout.shape, dx.shape});
    const auto kernel = gated_kernels(simd_).silu_backward;
    share(
        x.count(), 14,
        [&](auto first, auto last) { kernel(x.data + first, dout.data + first, last - first, dx.data + first); },
        chunk);
}

// --- rows and columns

void CpuBackend::embedding(TokenView tokens, ConstView wte, ConstView wpe, View out) {
    const std::int64_t times = tokens.columns(), n = wte.columns();
    const bool placed = wpe.data != nullptr;
    check::embedding(tokens.shape, wte.shape, wpe, out.shape);
    check::tokens("embedding", host_tokens(tokens), wte.rows());
    const auto& kernels = elementwise_kernels(simd_);
    share(tokens.count(), n, [&](auto first, auto last) {
        for (auto r = first; r < last; ++r) {
            const float* row = wte.data + tokens.data[r] * n;
            if (placed) {
                kernels.add(row, wpe.data + r % times * n, n, out.data + r * n);
            } else {
                kernels.scale(row, 1.0f, n, out.data + r * n);
            }
        }
    });
}

void CpuBackend::embedding_backward(TokenView tokens, ConstView dout, View dwte, View dwpe) {
    const std::int64_t rows = tokens.count(), times = tokens.columns(), n = dwte.columns();
    const bool placed = dwpe.data != nullptr;
    check::embedding_backward(tokens.shape, dout.shape, dwte.shape, dwpe);
    check::tokens("embedding_backward", host_tokens(tokens), dwte.rows());
    const auto add_to = elementwise_kernels(simd_).add;
    share(
        n, 2 * rows + dwte.rows() + (placed ? dwpe.rows() : 0),
        [&](auto first, auto last) {
            for (const View& table : {dwte, dwpe}) {
                if (table.data == nullptr) continue;
                for (std::int64_t r = 0; r < table.rows(); ++r)
                    std::fill(table.data + r * n + first, table.data + r * n + last, 0.0f);
            }
            for (std::int64_t r = 0; r < rows; ++r) {
                const float* d = dout.data + r * n + first;
                float* sum = dwte.data + tokens.data[r] * n + first;
                add_to(sum, d, last - first, sum);
                if (!placed) continue;
                sum = dwpe.data + r % times * n + first;
                add_to(sum, d, last - first, sum);
            }
        },
        column_grain);
}

void CpuBackend::layernorm(ConstView x, ConstView gamma, ConstView beta, float eps, View out, View mean, View rstd) {
    const std::int64_t n = x.columns(), rows = x.rows();
    check::layernorm(x.shape, gamma.shape, beta.shape, out.shape, mean.shape, rstd.shape);
    const auto kernel = row_kernels(simd_).layernorm;
    share(rows, 4 * n, [&](auto first, auto last) {
        kernel(x.data + first * n, gamma.data, beta.data, last - first, n, eps, out.data + first * n, mean.data + first,
               rstd.data + first);
    });
}

void CpuBackend::layernorm_backward(ConstView x, ConstView gamma, ConstView mean, ConstView rstd, ConstView dout,
                                    View dx, View dgamma, View dbeta) {
    const std::int64_t n = x.columns(), rows = x.rows();
    check::layernorm_backward(x.shape, gamma.shape, mean.shape, rstd.shape, dout.shape, dx.shape, dgamma.shape,
                              dbeta.shape);
    // The columns first: dx may be dout or x.
    const auto columns = row_kernels(simd_).layernorm_backward_columns;
    share(
        n, 4 * rows,
        [&](auto first, auto last) {
            columns(x.data, mean.data, rstd.data, dout.data, rows, n, first, last, dgamma.data, dbeta.data);
        },
        column_grain);
    const auto kernel = row_kernels(simd_).layernorm_backward;
    share(rows, 8 * n, [&](auto first, auto last) {
        kernel(x.data + first * n, gamma.data, mean.data + first, rstd.data + first, dout.data + first * n,
               last - first, n, dx.data + first * n);
    });
}

void CpuBackend::rms_normalise(ConstView x, float eps, View out, View rstd) {
    const std::int64_t n = x.columns(), rows = x.rows();
    check::rms_normalise(x.shape, out.shape, rstd.shape);
    const auto kernel = rms_norm_kernels(simd_).normalise;
    share(rows, 3 * n, [&](auto first, auto last) {
        kernel(x.data + first * n, last - first, n, eps, out.data + first * n, rstd.data + first);
    });
}

void CpuBackend::rms_normalise_backward(ConstView x, ConstView rstd, ConstView dout, View dx) {
    const std::int64_t n = x.columns(), rows = x.rows();
    check::rms_normalise_backward(x.shape, rstd.shape, dout.shape, dx.shape);
    const auto kernel = rms_norm_kernels(simd_).normalise_backward;
    share(rows, 6 * n, [&](auto first, auto last) {
        kernel(x.data + first * n, rstd.data + first, dout.data + first * n, last - first, n, dx.data + first * n);
    });
}

void CpuBackend::multiply_columns(ConstView x, ConstView factors, View out) {
    const std::int64_t n = x.columns();
    check::multiply_columns(x.shape, factors.shape, out.shape);
    const auto kernel = rms_norm_kernels(simd_).multiply_columns;
    share(x.rows(), n, [&](auto first, auto last) {
        kernel(x.data + first * n, factors.data, last - first, n, out.data + first * n);
    });
}

void CpuBackend::softmax_causal(ConstView scores, View out) {
    const std::int64_t n = scores.columns(), rows = scores.rows();
    check::softmax_causal(scores.shape, out.shape);
    const auto kernel = row_kernels(simd_).softmax_causal;
    share(rows, 12 * n, [&](auto first, auto last) {
        kernel(scores.data + first * n, first, last - first, n, out.data + first * n);
    });
}

void CpuBackend::softmax_causal_backward(ConstView p, ConstView dp, View dscores) {
    const std::int64_t n = p.columns(), rows = p.rows();
    check::softmax_causal_backward(p.shape, dp.shape, dscores.shape);
    const auto kernel = row_kernels(simd_).softmax_causal_backward;
    share(rows, 4 * n, [&](auto first, auto last) {
        kernel(p.data + first * n, dp.data + first * n, first, last - first, n, dscores.data + first * n);
    });
}

void CpuBackend::log_softmax(ConstView x, View out) {
    const std::int64_t n = x.columns();
    check::log_softmax(x.shape, out.shape);
    const auto kernel = row_kernels(simd_).log_softmax;
    share(x.rows(), 12 * n,
          [&](auto first, auto last) { kernel(x.data + first * n, last - first, n, out.data + first * n); });
}

float CpuBackend::nll(ConstView logp, TokenView targets) {
    check::nll(logp.shape, targets.shape);
    check::tokens("nll", host_tokens(targets), logp.columns());
    return definition::nll(logp.data, targets.data, logp.rows(), logp.columns());
}

void CpuBackend::nll_backward(ConstView logp, TokenView targets, float factor, View dx) {
    const std::int64_t n = logp.columns();
    check::nll_backward(logp.shape, targets.shape, dx.shape);
    check::tokens("nll_backward", host_tokens(targets), n);
    const auto kernel = row_kernels(simd_).nll_backward;
    share(logp.rows(), 8 * n, [&](auto first, auto last) {
        kernel(logp.data + first * n, targets.data + first, last - first, n, factor, dx.data + first * n);
    });
}

void CpuBackend::column_sum(ConstView x, View out) {
    const std::int64_t n = x.columns();
    check::column_sum(x.shape, out.shape);
    const auto kernel = row_kernels(simd_).column_sum;
    share(
        n, x.rows(), [&](auto first, auto last) { kernel(x.data, x.rows(), n, first, last, out.data); }, column_grain);
}

void CpuBackend::split_heads(ConstView x, std::int64_t first_column, View out) {
    const auto s = check::heads("split_heads", x.shape, first_column, out.shape);
    share(s.batch * s.heads, s.times * s.width, [&](auto first, auto last) {
        for (auto i = first; i < last; ++i) {
            for (std::int64_t t = 0; t < s.times; ++t) {
                const float* from = x.data + definition::joined_index(i / s.heads, t, i % s.heads, 0, s.times,
                                                                      s.columns, first_column, s.width);
                std::copy(from, from + s.width, out.data + (i * s.times + t) * s.width);
            }
        }
    });
}

void CpuBackend::merge_heads(ConstView x, std::int64_t first_column, View out) {
    const auto s = check::heads("merge_heads", out.shape, first_column, x.shape);
    share(s.batch * s.times, s.heads * s.width, [&](auto first, auto last) {
        for (auto i = first; i < last; ++i) {
            for (std::int64_t h = 0; h < s.heads; ++h) {
                const float* from = x.data + (((i / s.times) * s.heads + h) * s.times + i % s.times) * s.width;
                std::copy(from, from + s.width,
                          out.data + definition::joined_index(i / s.times, i % s.times, h, 0, s.times, s.columns,
                                                              first_column, s.width));
            }
        }
    });
}

void CpuBackend::sum_head_groups(ConstView x, View out) {
    check::sum_head_groups(x.shape, out.shape);
    const std::int64_t group = x.shape[1] / out.shape[1], n = out.shape[2] * out.shape[3];
    const auto add_to = elementwise_kernels(simd_).add;
    share(out.shape[0] * out.shape[1], group * n, [&](auto first, auto last) {
        for (auto i = first; i < last; ++i) {
            float* sum = out.data + i * n;
            std::fill(sum, sum + n, 0.0f);
            for (std::int64_t g = 0; g < group; ++g) add_to(sum, x.data + (i * group + g) * n, n, sum);
        }
    });
}

void CpuBackend::rotate(ConstView x, ConstView cos, ConstView sin, Turn turn, View direct, View rotated) {
    const std::int64_t columns = x.columns(), n = direct.columns(), width = 2 * cos.columns();
    check::rotate(x.shape, cos.shape, sin.shape, direct.shape, rotated.shape);
    const std::int64_t times = x.shape[1], half = width / 2;
    const auto kernel = rotate_kernel(simd_);
    share(x.rows(), 2 * n, [&](auto first, auto last) {
        for (auto r = first; r < last; ++r) {
            const std::int64_t t = r % times;
            kernel(x.data + r * columns, cos.data + t * half, sin.data + t * half, turn, n / width, width,
                   direct.data + r * n, rotated.data + r * n);
        }
    });
}

// --- optimiser

float CpuBackend::sum_of_squares(ConstView x) { return sum_of_squares_array(simd_, pool_, x.data, x.count()); }

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
    });
    if (stats == nullptr) return;
    // The lane rule over the chunks' results is the lane rule over the elements (emulation/reduce.hpp).
    definition::set_sums(total, lane_sum<definition::UpdateSums>(
                                    chunks, [&](std::int64_t c) { return sums[static_cast<std::size_t>(c)]; }));
    *stats = total;
}

void CpuBackend::adamw(View p, ConstView g, View m, View v, const AdamW& args, UpdateStats* stats) {
    check::adamw(p.shape, g.shape, m.shape, v.shape);
    const auto kernel = optimizer_kernels(simd_).adamw;
    const AdamWStep step(simd_, args);
    update(p.count(), stats, [&](std::int64_t first, std::int64_t n, UpdateStats* counts) {
        return kernel(step, p.data + first, g.data + first, m.data + first, v.data + first, first, n, counts);
    });
}

void CpuBackend::sgd(View p, ConstView g, View momentum, const Sgd& args, UpdateStats* stats) {
    const bool buffered = args.momentum != 0;
    check::sgd(p.shape, g.shape, momentum.shape, args);
    const auto kernel = optimizer_kernels(simd_).sgd;
    const SgdStep step(simd_, args);
    update(p.count(), stats, [&](std::int64_t first, std::int64_t n, UpdateStats* counts) {
        return kernel(step, p.data + first, g.data + first, buffered ? momentum.data + first : nullptr, first, n,
                      counts);
    });
}

}  // namespace macheps
