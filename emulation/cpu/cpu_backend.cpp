// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/cpu_backend.hpp"

#include "core/error.hpp"
#include "emulation/cpu/cast.hpp"
#include "emulation/cpu/elementwise.hpp"
#include "emulation/cpu/gated.hpp"
#include "emulation/cpu/matmul.hpp"
#include "emulation/cpu/optimizer.hpp"
#include "emulation/cpu/rms_norm.hpp"
#include "emulation/cpu/rotary.hpp"
#include "emulation/cpu/rows.hpp"
#include "emulation/cpu/scaling.hpp"
#include "emulation/cpu/stats.hpp"
#include "emulation/definitions.hpp"
#include "emulation/matmul_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
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

std::string text(const Shape& shape) {
    std::string sizes;
    for (int i = 0; i < shape.rank(); ++i) sizes += fmt::format("{}{}", i == 0 ? "" : ",", shape[i]);
    return "[" + sizes + "]";
}

/// Throws Error naming the operation and the shapes it was given unless `ok`.
template <class... Shapes>
void require(bool ok, std::string_view operation, std::string_view wanted, const Shapes&... shapes) {
    if (ok) return;
    std::string given;
    ((given += (given.empty() ? "" : " ") + text(shapes)), ...);
    throw Error({.what = fmt::format("shapes disagree: {}", given),
                 .where = std::string(operation),
                 .fix = std::string(wanted)});
}

/// Tokens index a table of `limit` rows.
void require_tokens(TokenView tokens, std::int64_t limit, std::string_view operation) {
    for (std::int64_t i = 0; i < tokens.count(); ++i) {
        if (tokens.data[i] >= 0 && tokens.data[i] < limit) continue;
        throw Error({.what = fmt::format("token {} at position {}", tokens.data[i], i),
                     .where = std::string(operation),
                     .fix = fmt::format("0 .. {}", limit - 1)});
    }
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
    require(static_cast<std::int64_t>(host.size()) == out.count(), "upload",
            fmt::format("the host has {} values", host.size()), out.shape);
    std::copy(host.begin(), host.end(), out.data);
}
void CpuBackend::upload(std::span<const std::int32_t> host, TensorView<std::int32_t> out) {
    require(static_cast<std::int64_t>(host.size()) == out.count(), "upload",
            fmt::format("the host has {} values", host.size()), out.shape);
    std::copy(host.begin(), host.end(), out.data);
}
void CpuBackend::download(ConstView in, std::span<float> host) {
    require(static_cast<std::int64_t>(host.size()) == in.count(), "download",
            fmt::format("the host has {} values", host.size()), in.shape);
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
    require(in.count() == out.count(), "copy", "the same number of elements", in.shape, out.shape);
    share(in.count(), 1, [&](auto first, auto last) { std::copy(in.data + first, in.data + last, out.data + first); });
}

// --- casts and what they did

void CpuBackend::cast(ConstView in, View out, const Cast& cast, Tally* tally) {
    require(in.count() == out.count(), "cast", "the same number of elements", in.shape, out.shape);
    if (tally != nullptr) *tally = {};
    cast_array(simd_, pool_, in.data, out.data, in.count(), cast, tally);
}

ScaledResult CpuBackend::scaled_cast(ConstView in, View out, View scales, const ScaledCast& how, Tally* tally) {
    require(in.count() == out.count(), "scaled_cast", "the same number of elements", in.shape, out.shape);
    const std::int64_t columns = in.columns(), rows = columns == 0 ? 0 : in.count() / columns;
    const ScaleGrid grid = scale_grid(how.granularity, how.k_is_last, rows, columns);
    if (scales.count() != grid.rows * grid.columns || !fits(how.rule, how.granularity)) {
        throw Error({.what = fmt::format("{} scales for {} x {} groups, or a rule that makes scales of another kind",
                                         scales.count(), grid.rows, grid.columns),
                     .where = "scaled_cast",
                     .fix = "scales as scale_grid() counts them, and a rule that fits the granularity"});
    }
    if (tally != nullptr) *tally = {};
    return macheps::scaled_cast(simd_, pool_, in.data, out.data, scales.data, rows, columns, how, tally);
}

void CpuBackend::decode_groups(ConstView in, const OperandScales& scales, bool k_is_last, float factor, View out) {
    require(in.count() == out.count(), "decode_groups", "the same number of elements", in.shape, out.shape);
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
    require(x.count() == y.count(), "compare", "the same number of elements", x.shape, y.shape);
    return compare_arrays(simd_, pool_, x.data, y.data, x.count(), decode_scale);
}

ExponentHistogram CpuBackend::exponents(ConstView x) { return exponents_array(simd_, pool_, x.data, x.count()); }

// --- matmul

namespace {

/// The stored matrix must lie in its rows, and there must be one.
void require_operand(const MatmulOperand& operand, const char* name, std::int64_t rows, std::int64_t columns) {
    const std::int64_t stored_columns = operand.transposed ? rows : columns;
    if (rows == 0 || columns == 0 || (operand.data != nullptr && operand.ld >= stored_columns)) return;
    throw Error(
        {.what = fmt::format("operand {} is {} with rows {} apart", name,
                             operand.data == nullptr ? "missing" : fmt::format("[{},{}]", rows, columns), operand.ld),
         .where = "matmul",
         .fix = fmt::format("memory, and ld >= {}", stored_columns)});
}

}  // namespace

void CpuBackend::matmul(const Matmul& args, Tally* tally) {
    if (args.m < 0 || args.n < 0 || args.k < 0 || args.batch_outer < 0 || args.batch_inner < 0) {
        throw Error({.what = fmt::format("negative size: m {}, n {}, k {}, batch {} x {}", args.m, args.n, args.k,
                                         args.batch_outer, args.batch_inner),
                     .where = "matmul",
                     .fix = "sizes of 0 or more"});
    }
    require_possible(args);
    require_operand(args.a, "a", args.m, args.k);
    require_operand(args.b, "b", args.k, args.n);
    require_operand({.data = args.out, .ld = args.ld_out}, "out", args.m, args.n);
    if (tally != nullptr) *tally = {};
    Matmul decoded = args;
    decoded.a.format = decoded_format(*args.rule.machine, args.a.format);
    decoded.b.format = decoded_format(*args.rule.machine, args.b.format);
    macheps::matmul(simd_, pool_, decoded, tally);
}

// --- elementwise

void CpuBackend::add(ConstView a, ConstView b, View out) {
    require(a.count() == b.count() && a.count() == out.count(), "add", "the same number of elements", a.shape, b.shape,
            out.shape);
    const auto kernel = elementwise_kernels(simd_).add;
    share(
        a.count(), 1,
        [&](auto first, auto last) { kernel(a.data + first, b.data + first, last - first, out.data + first); }, chunk);
}

void CpuBackend::multiply(ConstView a, ConstView b, View out) {
    require(a.count() == b.count() && a.count() == out.count(), "multiply", "the same number of elements", a.shape,
            b.shape, out.shape);
    const auto kernel = gated_kernels(simd_).multiply;
    share(
        a.count(), 1,
        [&](auto first, auto last) { kernel(a.data + first, b.data + first, last - first, out.data + first); }, chunk);
}

void CpuBackend::scale(ConstView in, float factor, View out) {
    require(in.count() == out.count(), "scale", "the same number of elements", in.shape, out.shape);
    const auto kernel = elementwise_kernels(simd_).scale;
    share(
        in.count(), 1, [&](auto first, auto last) { kernel(in.data + first, factor, last - first, out.data + first); },
        chunk);
}

void CpuBackend::gelu(Gelu kind, ConstView x, View out) {
    require(x.count() == out.count(), "gelu", "the same number of elements", x.shape, out.shape);
    const auto kernel = elementwise_kernels(simd_).gelu;
    share(
        x.count(), 16, [&](auto first, auto last) { kernel(kind, x.data + first, last - first, out.data + first); },
        chunk);
}

void CpuBackend::gelu_backward(Gelu kind, ConstView x, ConstView dout, View dx) {
    require(x.count() == dout.count() && x.count() == dx.count(), "gelu_backward", "the same number of elements",
            x.shape, dout.shape, dx.shape);
    const auto kernel = elementwise_kernels(simd_).gelu_backward;
    share(
        x.count(), 24,
        [&](auto first, auto last) { kernel(kind, x.data + first, dout.data + first, last - first, dx.data + first); },
        chunk);
}

void CpuBackend::silu(ConstView x, View out) {
    require(x.count() == out.count(), "silu", "the same number of elements", x.shape, out.shape);
    const auto kernel = gated_kernels(simd_).silu;
    share(
        x.count(), 12, [&](auto first, auto last) { kernel(x.data + first, last - first, out.data + first); }, chunk);
}

void CpuBackend::silu_backward(ConstView x, ConstView dout, View dx) {
    require(x.count() == dout.count() && x.count() == dx.count(), "silu_backward", "the same number of elements",
            x.shape, dout.shape, dx.shape);
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
    require((!placed || (wpe.columns() == n && wpe.rows() >= times)) && out.columns() == n &&
                out.count() == tokens.count() * n,
            "embedding", "tokens [B,T], wte [V,C], wpe [>=T,C] or none, out [B,T,C]", tokens.shape, wte.shape,
            wpe.shape, out.shape);
    require_tokens(tokens, wte.rows(), "embedding");
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
    require(
        (!placed || (dwpe.columns() == n && dwpe.rows() >= times)) && dout.columns() == n && dout.count() == rows * n,
        "embedding_backward", "tokens [B,T], dout [B,T,C], dwte [V,C], dwpe [>=T,C] or none", tokens.shape, dout.shape,
        dwte.shape, dwpe.shape);
    require_tokens(tokens, dwte.rows(), "embedding_backward");
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
    require(gamma.count() == n && beta.count() == n && out.count() == x.count() && mean.count() == rows &&
                rstd.count() == rows,
            "layernorm", "x [rows,C], gamma [C], beta [C], out [rows,C], mean [rows], rstd [rows]", x.shape,
            gamma.shape, beta.shape, out.shape, mean.shape, rstd.shape);
    const auto kernel = row_kernels(simd_).layernorm;
    share(rows, 4 * n, [&](auto first, auto last) {
        kernel(x.data + first * n, gamma.data, beta.data, last - first, n, eps, out.data + first * n, mean.data + first,
               rstd.data + first);
    });
}

void CpuBackend::layernorm_backward(ConstView x, ConstView gamma, ConstView mean, ConstView rstd, ConstView dout,
                                    View dx, View dgamma, View dbeta) {
    const std::int64_t n = x.columns(), rows = x.rows();
    require(gamma.count() == n && dgamma.count() == n && dbeta.count() == n && dout.count() == x.count() &&
                dx.count() == x.count() && mean.count() == rows && rstd.count() == rows,
            "layernorm_backward", "x, dout, dx [rows,C], gamma, dgamma, dbeta [C], mean, rstd [rows]", x.shape,
            gamma.shape, mean.shape, rstd.shape, dout.shape, dx.shape, dgamma.shape, dbeta.shape);
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
    require(out.count() == x.count() && rstd.count() == rows, "rms_normalise", "x [rows,C], out [rows,C], rstd [rows]",
            x.shape, out.shape, rstd.shape);
    const auto kernel = rms_norm_kernels(simd_).normalise;
    share(rows, 3 * n, [&](auto first, auto last) {
        kernel(x.data + first * n, last - first, n, eps, out.data + first * n, rstd.data + first);
    });
}

void CpuBackend::rms_normalise_backward(ConstView x, ConstView rstd, ConstView dout, View dx) {
    const std::int64_t n = x.columns(), rows = x.rows();
    require(rstd.count() == rows && dout.count() == x.count() && dx.count() == x.count(), "rms_normalise_backward",
            "x, dout, dx [rows,C], rstd [rows]", x.shape, rstd.shape, dout.shape, dx.shape);
    const auto kernel = rms_norm_kernels(simd_).normalise_backward;
    share(rows, 6 * n, [&](auto first, auto last) {
        kernel(x.data + first * n, rstd.data + first, dout.data + first * n, last - first, n, dx.data + first * n);
    });
}

void CpuBackend::multiply_columns(ConstView x, ConstView factors, View out) {
    const std::int64_t n = x.columns();
    require(factors.count() == n && out.count() == x.count(), "multiply_columns",
            "x [rows,C], factors [C], out the same as x", x.shape, factors.shape, out.shape);
    const auto kernel = rms_norm_kernels(simd_).multiply_columns;
    share(x.rows(), n, [&](auto first, auto last) {
        kernel(x.data + first * n, factors.data, last - first, n, out.data + first * n);
    });
}

void CpuBackend::softmax_causal(ConstView scores, View out) {
    const std::int64_t n = scores.columns(), rows = scores.rows();
    require(out.count() == scores.count() && (n == 0 || rows % n == 0), "softmax_causal",
            "scores [...,T,T], out the same", scores.shape, out.shape);
    const auto kernel = row_kernels(simd_).softmax_causal;
    share(rows, 12 * n, [&](auto first, auto last) {
        kernel(scores.data + first * n, first, last - first, n, out.data + first * n);
    });
}

void CpuBackend::softmax_causal_backward(ConstView p, ConstView dp, View dscores) {
    const std::int64_t n = p.columns(), rows = p.rows();
    require(dp.count() == p.count() && dscores.count() == p.count() && (n == 0 || rows % n == 0),
            "softmax_causal_backward", "probabilities [...,T,T], the others the same", p.shape, dp.shape,
            dscores.shape);
    const auto kernel = row_kernels(simd_).softmax_causal_backward;
    share(rows, 4 * n, [&](auto first, auto last) {
        kernel(p.data + first * n, dp.data + first * n, first, last - first, n, dscores.data + first * n);
    });
}

void CpuBackend::log_softmax(ConstView x, View out) {
    const std::int64_t n = x.columns();
    require(out.count() == x.count(), "log_softmax", "x [rows,V], out the same", x.shape, out.shape);
    const auto kernel = row_kernels(simd_).log_softmax;
    share(x.rows(), 12 * n,
          [&](auto first, auto last) { kernel(x.data + first * n, last - first, n, out.data + first * n); });
}

float CpuBackend::nll(ConstView logp, TokenView targets) {
    require(targets.count() == logp.rows(), "nll", "logp [rows,V], targets [rows]", logp.shape, targets.shape);
    require_tokens(targets, logp.columns(), "nll");
    return definition::nll(logp.data, targets.data, logp.rows(), logp.columns());
}

void CpuBackend::nll_backward(ConstView logp, TokenView targets, float factor, View dx) {
    const std::int64_t n = logp.columns();
    require(targets.count() == logp.rows() && dx.count() == logp.count(), "nll_backward",
            "logp [rows,V], targets [rows], dx [rows,V]", logp.shape, targets.shape, dx.shape);
    require_tokens(targets, n, "nll_backward");
    const auto kernel = row_kernels(simd_).nll_backward;
    share(logp.rows(), 8 * n, [&](auto first, auto last) {
        kernel(logp.data + first * n, targets.data + first, last - first, n, factor, dx.data + first * n);
    });
}

void CpuBackend::column_sum(ConstView x, View out) {
    const std::int64_t n = x.columns();
    require(out.count() == n, "column_sum", "x [rows,C], out [C]", x.shape, out.shape);
    const auto kernel = row_kernels(simd_).column_sum;
    share(
        n, x.rows(), [&](auto first, auto last) { kernel(x.data, x.rows(), n, first, last, out.data); }, column_grain);
}

namespace {

/// Sizes of heads that lie from column `first` on in a joined [B,T,W] tensor, and of their split [B,H,T,D] form; throws
/// Error when they disagree.
struct Heads {
    std::int64_t batch, heads, times, width, columns;

    Heads(const Shape& joined, std::int64_t first, const Shape& split, std::string_view operation) {
        const bool ranks = joined.rank() == 3 && split.rank() == 4;
        require(ranks && joined[0] == split[0] && joined[1] == split[2] && first >= 0 &&
                    first + split[1] * split[3] <= joined[2],
                operation, fmt::format("[B,T,W] and [B,H,T,D], with {} + H*D at most W", first), joined, split);
        batch = split[0];
        heads = split[1];
        times = split[2];
        width = split[3];
        columns = joined[2];
    }
};

}  // namespace

void CpuBackend::split_heads(ConstView x, std::int64_t first_column, View out) {
    const Heads s(x.shape, first_column, out.shape, "split_heads");
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
    const Heads s(out.shape, first_column, x.shape, "merge_heads");
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
    const bool ranks = x.shape.rank() == 4 && out.shape.rank() == 4;
    require(ranks && x.shape[0] == out.shape[0] && out.shape[1] > 0 && x.shape[1] % out.shape[1] == 0 &&
                x.shape[2] == out.shape[2] && x.shape[3] == out.shape[3],
            "sum_head_groups", "x [B,K*G,T,D], out [B,K,T,D]", x.shape, out.shape);
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
    const bool ranks = x.shape.rank() == 3 && direct.shape.rank() == 3;
    require(ranks && x.shape[0] == direct.shape[0] && x.shape[1] == direct.shape[1] && n <= columns && width > 0 &&
                n % width == 0 && direct.shape == rotated.shape && cos.shape == sin.shape && cos.rows() >= x.shape[1],
            "rotate", "x [B,T,W], cos and sin [>=T,D/2], direct and rotated [B,T,N], N <= W a multiple of D", x.shape,
            cos.shape, sin.shape, direct.shape, rotated.shape);
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
    require(g.count() == p.count() && m.count() == p.count() && v.count() == p.count(), "adamw",
            "the same number of elements", p.shape, g.shape, m.shape, v.shape);
    const auto kernel = optimizer_kernels(simd_).adamw;
    const AdamWStep step(simd_, args);
    update(p.count(), stats, [&](std::int64_t first, std::int64_t n, UpdateStats* counts) {
        return kernel(step, p.data + first, g.data + first, m.data + first, v.data + first, first, n, counts);
    });
}

void CpuBackend::sgd(View p, ConstView g, View momentum, const Sgd& args, UpdateStats* stats) {
    const bool buffered = args.momentum != 0;
    require(g.count() == p.count() && (!buffered || momentum.count() == p.count()), "sgd",
            "the same number of elements", p.shape, g.shape, momentum.shape);
    const auto kernel = optimizer_kernels(simd_).sgd;
    const SgdStep step(simd_, args);
    update(p.count(), stats, [&](std::int64_t first, std::int64_t n, UpdateStats* counts) {
        return kernel(step, p.data + first, g.data + first, buffered ? momentum.data + first : nullptr, first, n,
                      counts);
    });
}

}  // namespace macheps
