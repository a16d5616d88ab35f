// SPDX-License-Identifier: Apache-2.0
// Implements the operations of Backend with kernels. DeviceBackend<CudaDevice> runs on a GPU, and
// DeviceBackend<HostDevice> runs in tests. Class Backend specifies the shapes, the orders of summation and the bits of
// the results. All operations are launched on one stream. An operation that returns a number waits for the kernels that
// compute the number.
#pragma once
#include "core/host/float_environment.hpp"
#include "emulation/gpu/device/device_memory.hpp"
#include "emulation/gpu/gpu.hpp"
#include "emulation/gpu/kernels/rows.hpp"
#include "emulation/gpu/kernels/tensor.hpp"
#include "emulation/gpu/matmul/matmul.hpp"
#include "emulation/matmul/rules.hpp"
#include "emulation/shape_checks.hpp"

#include <algorithm>
#include <string>

namespace macheps::gpu {

template <class Device>
class DeviceBackend final : public Backend {
  public:
    /// `architecture` selects the matrix units; 90 selects those of sm_90. `args` are the arguments of Device's
    /// constructor.
    template <class... Args>
    DeviceBackend(std::string name, MatrixUnits units, int architecture, Args&&... args)
        : name_(std::move(name)),
          units_(units),
          architecture_(architecture),
          memory_(std::make_shared<DeviceMemory<Device>>(std::forward<Args>(args)...)) {}

    std::string name() const override { return name_; }
    Device& device() { return memory_->device(); }

    // --- memory

    Tensor empty(Shape shape) override { return {memory_->take(bytes_of(shape.count())), shape}; }
    TokenTensor empty_tokens(Shape shape) override { return {memory_->take(bytes_of(shape.count())), shape}; }

    void upload(std::span<const float> host, View out) override {
        shapes::transfer("upload", host.size(), out.shape);
        if (!host.empty()) device().copy_in(out.data, host.data(), host.size_bytes());
    }
    void upload(std::span<const std::int32_t> host, TensorView<std::int32_t> out) override {
        shapes::transfer("upload", host.size(), out.shape);
        if (!host.empty()) device().copy_in(out.data, host.data(), host.size_bytes());
    }
    void download(ConstView in, std::span<float> host) override {
        shapes::transfer("download", host.size(), in.shape);
        if (!host.empty()) device().copy_out(host.data(), in.data, host.size_bytes());
    }
    void fill(View out, float value) override {
        float* data = out.data;
        device().each(out.count(), [=] MACHEPS_KERNEL(std::int64_t i) { data[i] = value; });
    }
    void copy(ConstView in, View out) override {
        shapes::same_count("copy", {in.shape, out.shape});
        if (in.count() != 0) device().copy(out.data, in.data, bytes_of(in.count()));
    }

    // --- casts and their statistics

    void cast(ConstView in, View out, const Cast& cast, Tally* tally) override {
        shapes::same_count("cast", {in.shape, out.shape});
        draw("cast", cast, in.count());
        counted(tally, [&](DeviceTally* counts) { gpu::cast(device(), in.data, out.data, in.count(), cast, counts); });
    }

    ScaledResult scaled_cast(ConstView in, View out, View scales, const ScaledCast& how, Tally* tally) override {
        shapes::scaled_cast(in.shape, out.shape, scales.shape, how);
        draw("scaled_cast", how.cast, in.count());
        const std::int64_t columns = in.columns();
        const GroupGrid grid = group_grid(how, columns == 0 ? 0 : in.count() / columns, columns);
        const std::int64_t groups = grid.down * grid.across;
        ScratchArray<std::uint32_t, Device> largest(*memory_, groups);
        largest.clear();
        group_magnitudes(device(), in.data, grid, how.rule->ignores_nan, largest.data());

        // There are far fewer scales than elements, so the host computes the scales, with the code of the CPU engine.
        const DefaultFloatModes modes;
        std::vector<float> encode(static_cast<std::size_t>(groups)), decode(encode.size());
        ScaledResult result = group_scales(how, largest.download(), encode, decode);
        if (groups != 0) device().copy_in(scales.data, decode.data(), decode.size() * sizeof(float));
        result.scales = operand_scales(how, grid.across, scales.data);
        const ScratchArray<float, Device> factors(*memory_, encode);
        Cast cast = how.cast;
        cast.encode_scale = 1;
        counted(tally, [&](DeviceTally* counts) {
            cast_groups(device(), in.data, out.data, grid, factors.data(), cast, counts);
        });
        return result;
    }

    void decode_groups(ConstView in, const OperandScales& scales, bool k_is_last, float factor, View out) override {
        shapes::same_count("decode_groups", {in.shape, out.shape});
        const std::int64_t n = max_of(in.columns(), std::int64_t{1});
        const float* x = in.data;
        float* y = out.data;
        device().each(in.count(), [=] MACHEPS_KERNEL(std::int64_t i) {
            const std::int64_t r = i / n, c = i % n;
            y[i] = definition::canonical(x[i] * scales.at(k_is_last ? r : c, k_is_last ? c : r) * factor);
        });
    }

    float amax(ConstView x) override {
        const std::uint32_t top = magnitude(x);
        return top > 0x7f800000u ? bit_cast<float>(0x7fc00000u) : bit_cast<float>(top);
    }
    bool any_nonfinite(ConstView x) override { return magnitude(x) >= 0x7f800000u; }

    ErrorSums compare(ConstView x, ConstView y, float decode_scale) override {
        shapes::same_count("compare", {x.shape, y.shape});
        const float *a = x.data, *b = y.data;
        ScratchArray<std::uint64_t, Device> finite(*memory_, 1);
        finite.clear();
        count_finite_pairs(device(), a, b, x.count(), decode_scale, finite.data());
        const auto sums = sum<definition::ErrorTerms>(x.count(), [=] MACHEPS_KERNEL(std::int64_t i) {
            return definition::error_terms(a[i], definition::decoded(b[i], decode_scale));
        });
        return {.error2 = sums.error2, .x2 = sums.x2, .y2 = sums.y2, .xy = sums.xy, .count = finite.value()};
    }

    ExponentHistogram exponents(ConstView x) override {
        ScratchArray<std::uint64_t, Device> counters(*memory_, exponent_counters);
        counters.clear();
        count_exponents(device(), x.data, x.count(), counters.data());
        const std::vector<std::uint64_t> counts = counters.download();
        ExponentHistogram histogram;
        std::copy_n(counts.begin(), exponent_bins, histogram.bins.begin());
        histogram.zeros = counts[exponent_bins];
        histogram.infinities = counts[exponent_bins + 1];
        histogram.nans = counts[exponent_bins + 2];
        return histogram;
    }

    std::uint64_t bit_hash(ConstView x) override {
        ScratchArray<std::uint64_t, Device> sum(*memory_, 1);
        sum.clear();
        hash_bits(device(), x.data, x.count(), sum.data());
        return sum.value();
    }

    // --- matmul

    void matmul(const Matmul& args, Tally* tally) override {
        const DefaultFloatModes modes;
        shapes::matmul(args);
        draw(args);
        Matmul decoded = args;
        decoded.a.format = decoded_format(*args.rule.machine, args.a.format);
        decoded.b.format = decoded_format(*args.rule.machine, args.b.format);
        counted(tally,
                [&](DeviceTally* counts) { gpu::matmul(device(), *memory_, units_, architecture_, decoded, counts); });
    }

    // --- elementwise

    void map(const elementwise::Unary& f, ConstView x, View out) override {
        shapes::same_count(f.name, {x.shape, out.shape});
        gpu::map(device(), f, x.data, x.count(), out.data);
    }
    void map_backward(const elementwise::Unary& f, ConstView x, ConstView dout, View dx) override {
        shapes::map_backward(f, x.shape, dout.shape, dx.shape);
        gpu::map_backward(device(), f, x.data, dout.data, x.count(), dx.data);
    }
    void map(const elementwise::Binary& f, ConstView a, ConstView b, View out) override {
        shapes::same_count(f.name, {a.shape, b.shape, out.shape});
        gpu::map(device(), f, a.data, b.data, a.count(), out.data);
    }
    void map(const elementwise::Binary& f, ConstView a, float b, View out) override {
        shapes::same_count(f.name, {a.shape, out.shape});
        gpu::map(device(), f, a.data, b, a.count(), out.data);
    }

    // --- rows and columns

    void embedding(TokenView tokens, ConstView wte, ConstView wpe, View out) override {
        shapes::embedding(tokens.shape, wte.shape, wpe, out.shape);
        shapes::tokens("embedding", host_tokens(tokens), wte.rows());
        const std::int64_t times = tokens.columns(), n = wte.columns();
        const std::int32_t* rows = tokens.data;
        const float *table = wte.data, *places = wpe.data;
        float* y = out.data;
        device().each(tokens.count() * n, [=] MACHEPS_KERNEL(std::int64_t i) {
            const std::int64_t r = i / n, c = i % n;
            const float value = table[rows[r] * n + c];
            y[i] = places != nullptr ? definition::add(value, places[r % times * n + c]) : definition::canonical(value);
        });
    }

    void embedding_backward(TokenView tokens, ConstView dout, View dwte, View dwpe) override {
        shapes::embedding_backward(tokens.shape, dout.shape, dwte.shape, dwpe);
        const std::vector<std::int32_t> host = host_tokens(tokens);
        shapes::tokens("embedding_backward", host, dwte.rows());
        const RowsByToken sorted = rows_by_token(host, dwte.rows());
        const ScratchArray<std::int32_t, Device> starts(*memory_, sorted.begin), rows(*memory_, sorted.order);
        gather_rows(device(), dout.data, dwte.columns(), starts.data(), rows.data(), dwte.rows(), dwte.data);
        if (dwpe.data == nullptr) return;
        gather_positions(device(), dout.data, tokens.count(), tokens.columns(), dwpe.columns(), dwpe.rows(), dwpe.data);
    }

    void layernorm(ConstView x, ConstView gamma, ConstView beta, float eps, View out, View mean, View rstd) override {
        shapes::layernorm(x.shape, gamma.shape, beta.shape, out.shape, mean.shape, rstd.shape);
        gpu::layernorm(device(), x.data, gamma.data, beta.data, x.rows(), x.columns(), eps, out.data, mean.data,
                       rstd.data);
    }
    void layernorm_backward(ConstView x, ConstView gamma, ConstView mean, ConstView rstd, ConstView dout, View dx,
                            View dgamma, View dbeta) override {
        shapes::layernorm_backward(x.shape, gamma.shape, mean.shape, rstd.shape, dout.shape, dx.shape, dgamma.shape,
                                   dbeta.shape);
        gpu::layernorm_backward(device(), x.data, gamma.data, mean.data, rstd.data, dout.data, x.rows(), x.columns(),
                                dx.data, dgamma.data, dbeta.data);
    }
    void rms_normalise(ConstView x, float eps, View out, View rstd) override {
        shapes::rms_normalise(x.shape, out.shape, rstd.shape);
        gpu::rms_normalise(device(), x.data, x.rows(), x.columns(), eps, out.data, rstd.data);
    }
    void rms_normalise_backward(ConstView x, ConstView rstd, ConstView dout, View dx) override {
        shapes::rms_normalise_backward(x.shape, rstd.shape, dout.shape, dx.shape);
        gpu::rms_normalise_backward(device(), x.data, rstd.data, dout.data, x.rows(), x.columns(), dx.data);
    }
    void multiply_columns(ConstView x, ConstView factors, View out) override {
        shapes::multiply_columns(x.shape, factors.shape, out.shape);
        const std::int64_t n = x.columns();
        const float *in = x.data, *f = factors.data;
        float* y = out.data;
        device().each(x.count(), [=] MACHEPS_KERNEL(std::int64_t i) { y[i] = definition::multiply(in[i], f[i % n]); });
    }
    void softmax_causal(ConstView scores, View out) override {
        shapes::softmax_causal(scores.shape, out.shape);
        gpu::softmax_causal(device(), scores.data, scores.rows(), scores.columns(), out.data);
    }
    void softmax_causal_backward(ConstView p, ConstView dp, View dscores) override {
        shapes::softmax_causal_backward(p.shape, dp.shape, dscores.shape);
        gpu::softmax_causal_backward(device(), p.data, dp.data, p.rows(), p.columns(), dscores.data);
    }
    void log_softmax(ConstView x, View out) override {
        shapes::log_softmax(x.shape, out.shape);
        gpu::log_softmax(device(), x.data, x.rows(), x.columns(), out.data);
    }
    float nll(ConstView logp, TokenView targets) override {
        shapes::nll(logp.shape, targets.shape);
        shapes::tokens("nll", host_tokens(targets), logp.columns());
        const ScratchArray<float, Device> mean(*memory_, 1);
        gpu::nll(device(), logp.data, targets.data, logp.rows(), logp.columns(), mean.data());
        return mean.value();
    }
    double cross_entropy(ConstView logits, TokenView targets) override {
        const DefaultFloatModes modes;
        shapes::cross_entropy(logits.shape, targets.shape);
        shapes::tokens("cross_entropy", host_tokens(targets), logits.columns());
        const ScratchArray<double, Device> losses(*memory_, logits.rows());
        gpu::cross_entropy(device(), logits.data, targets.data, logits.rows(), logits.columns(), losses.data());
        const double* loss = losses.data();
        const double all = sum<double>(logits.rows(), [=] MACHEPS_KERNEL(std::int64_t r) { return loss[r]; });
        return definition::canonical(all / static_cast<double>(logits.rows()));
    }
    void nll_backward(ConstView logp, TokenView targets, float factor, View dx) override {
        shapes::nll_backward(logp.shape, targets.shape, dx.shape);
        shapes::tokens("nll_backward", host_tokens(targets), logp.columns());
        const std::int64_t n = logp.columns();
        const float* p = logp.data;
        const std::int32_t* target = targets.data;
        float* out = dx.data;
        device().each(logp.count(), [=] MACHEPS_KERNEL(std::int64_t i) {
            out[i] = definition::nll_backward(p[i], i % n == target[i / n], factor);
        });
    }
    void column_sum(ConstView x, View out) override {
        shapes::column_sum(x.shape, out.shape);
        const std::int64_t rows = x.rows(), n = x.columns();
        const float* in = x.data;
        float* y = out.data;
        column_sums<float>(
            device(), rows, n, [=] MACHEPS_KERNEL(std::int64_t r, std::int64_t c) { return in[r * n + c]; },
            [=] MACHEPS_KERNEL(std::int64_t c, float sum) { y[c] = definition::canonical(sum); });
    }

    void split_heads(ConstView x, std::int64_t first, View out) override {
        const shapes::Heads s = shapes::heads("split_heads", x.shape, first, out.shape);
        const float* in = x.data;
        float* y = out.data;
        device().each(out.count(), [=] MACHEPS_KERNEL(std::int64_t i) {
            const std::int64_t d = i % s.width, t = i / s.width % s.times, h = i / s.width / s.times;
            y[i] = in[definition::joined_index(h / s.heads, t, h % s.heads, d, s.times, s.columns, first, s.width)];
        });
    }
    void merge_heads(ConstView x, std::int64_t first, View out) override {
        const shapes::Heads s = shapes::heads("merge_heads", out.shape, first, x.shape);
        const float* in = x.data;
        float* y = out.data;
        device().each(x.count(), [=] MACHEPS_KERNEL(std::int64_t i) {
            const std::int64_t d = i % s.width, t = i / s.width % s.times, h = i / s.width / s.times;
            y[definition::joined_index(h / s.heads, t, h % s.heads, d, s.times, s.columns, first, s.width)] = in[i];
        });
    }
    void sum_head_groups(ConstView x, View out) override {
        shapes::sum_head_groups(x.shape, out.shape);
        const std::int64_t group = x.shape[1] / out.shape[1], n = out.shape[2] * out.shape[3];
        const float* in = x.data;
        float* y = out.data;
        device().each(out.count(), [=] MACHEPS_KERNEL(std::int64_t i) {
            float sum = 0;
            for (std::int64_t g = 0; g < group; ++g) sum = definition::add(sum, in[(i / n * group + g) * n + i % n]);
            y[i] = sum;
        });
    }
    void rotate(ConstView x, ConstView cos, ConstView sin, Turn turn, View direct, View rotated) override {
        shapes::rotate(x.shape, cos.shape, sin.shape, direct.shape, rotated.shape);
        device().each(direct.count(), Rotation{.x = x.data,
                                               .cos = cos.data,
                                               .sin = sin.data,
                                               .turn = turn,
                                               .times = x.shape[1],
                                               .columns = x.columns(),
                                               .n = direct.columns(),
                                               .half = cos.columns(),
                                               .direct = direct.data,
                                               .rotated = rotated.data});
    }

    // --- optimizer

    float sum_of_squares(ConstView x) override {
        const float* in = x.data;
        return definition::canonical(
            sum<float>(x.count(), [=] MACHEPS_KERNEL(std::int64_t i) { return in[i] * in[i]; }));
    }

    void adamw(View p, ConstView g, View m, View v, const AdamW& args, UpdateStats* stats) override {
        shapes::adam("adamw", p.shape, g.shape, m.shape, v.shape);
        draw(args, p.count());
        float *value = p.data, *moment1 = m.data, *moment2 = v.data;
        const float* grad = g.data;
        update(p.count(), stats, [=] MACHEPS_KERNEL(std::int64_t i, UpdateStats & counts) {
            const auto after = definition::adamw(value[i], grad[i], moment1[i], moment2[i], args, i);
            return definition::store(after, &counts, value[i], grad[i], moment1[i], moment2[i]);
        });
    }

    void adam(View p, ConstView g, View m, View v, const Adam& args, UpdateStats* stats) override {
        shapes::adam("adam", p.shape, g.shape, m.shape, v.shape);
        draw(args, p.count());
        const DefaultFloatModes modes;
        const AdamConstants constants = adam_constants(args);
        elementwise::visit(adam::Kernels{}, args.kernel.place, [&]<class Kernel>(Kernel) {
            update(p.count(), stats, AdamElement<Kernel>{constants, p.data, m.data, v.data, g.data});
        });
    }

    void sgd(View p, ConstView g, View momentum, const Sgd& args, UpdateStats* stats) override {
        shapes::sgd(p.shape, g.shape, momentum.shape, args);
        draw(args, p.count());
        float *value = p.data, *buffer = args.momentum != 0 ? momentum.data : nullptr;
        const float* grad = g.data;
        update(p.count(), stats, [=] MACHEPS_KERNEL(std::int64_t i, UpdateStats & counts) {
            const float before = value[i];
            const definition::Updated after =
                definition::sgd(before, grad[i], buffer != nullptr ? buffer[i] : 0.0f, args, i);
            value[i] = after.p;
            if (buffer != nullptr) buffer[i] = after.m;
            return definition::observe(counts, before, after.p, after.wanted);
        });
    }

    /// Waits for all launched kernels. Throws the errors of the device that no earlier call has thrown.
    void wait() { device().wait(); }

  private:
    static std::size_t bytes_of(std::int64_t count) { return static_cast<std::size_t>(count) * 4; }

    std::vector<std::int32_t> host_tokens(TokenView tokens) {
        std::vector<std::int32_t> host(static_cast<std::size_t>(tokens.count()));
        if (!host.empty()) device().copy_out(host.data(), tokens.data, host.size() * sizeof(std::int32_t));
        return host;
    }

    /// Calls work(counts), where `counts` points to an empty tally in device memory. Then copies the counts to *tally.
    /// If `tally` is null, calls work() with a null pointer and copies nothing.
    template <class Work>
    void counted(Tally* tally, const Work& work) {
        if (tally == nullptr) return work(static_cast<DeviceTally*>(nullptr));
        const ScratchArray<DeviceTally, Device> counts(*memory_, {DeviceTally{}});
        work(counts.data());
        *tally = finish(counts.value());
    }

    std::uint32_t magnitude(ConstView x) {
        ScratchArray<std::uint32_t, Device> top(*memory_, 1);
        top.clear();
        largest_magnitude(device(), x.data, x.count(), top.data());
        return top.value();
    }

    /// Returns the sum of term(0) .. term(n - 1) by the lane rule.
    template <class T, class Term>
    T sum(std::int64_t n, const Term& term) {
        const std::int64_t chunks = pieces(n, chunk);
        const ScratchArray<T, Device> parts(*memory_, chunks), whole(*memory_, 1);
        sum_chunks<T>(device(), n, term, parts.data());
        if (chunks == 1) return parts.value();
        sum_parts(device(), parts.data(), chunks, whole.data());
        return whole.value();
    }

    template <class Step>
    void update(std::int64_t n, UpdateStats* stats, const Step& step) {
        if (stats == nullptr) {
            gpu::update(device(), n, step, static_cast<definition::UpdateSums*>(nullptr),
                        static_cast<UpdateCounts*>(nullptr));
            return;
        }
        const std::int64_t chunks = pieces(n, chunk);
        const ScratchArray<definition::UpdateSums, Device> parts(*memory_, chunks);
        const ScratchArray<UpdateTotals, Device> totals(*memory_, {UpdateTotals{}});
        gpu::update(device(), n, step, parts.data(), &totals.data()->counts);
        sum_parts(device(), parts.data(), chunks, &totals.data()->sums);
        const UpdateTotals found = totals.value();
        const DefaultFloatModes modes;
        UpdateStats total;
        total.count = static_cast<std::uint64_t>(n);
        total.nonzero = found.counts.nonzero;
        total.lost = found.counts.lost;
        total.frozen = found.counts.frozen;
        definition::set_sums(total, found.sums);
        *stats = total;
    }

    std::string name_;
    MatrixUnits units_;
    int architecture_;
    std::shared_ptr<DeviceMemory<Device>> memory_;
};

}  // namespace macheps::gpu
