// SPDX-License-Identifier: Apache-2.0
// Fuzzes the SIMD paths. Every path, with one and with two threads, must give the same bits as the scalar definition.
// The first bytes of an input choose an operation and its shape. The remaining bytes are operands; if there are too
// few, they repeat with some bits flipped.
#include "core/format_table.hpp"
#include "emulation/adam.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

using namespace macheps;

namespace {

struct Operands {
    std::vector<float> pool;

    explicit Operands(fuzz::Bytes& bytes) {
        while (bytes.left() >= 4 && pool.size() < 4096) pool.push_back(bytes.take<float>());
        if (pool.empty()) pool.push_back(1);
    }
    std::vector<float> draw(std::int64_t count, std::uint32_t turn) const {
        std::vector<float> values(static_cast<std::size_t>(count));
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto bits = bit_cast<std::uint32_t>(pool[(i + turn) % pool.size()]);
            const auto lap = static_cast<std::uint32_t>((i + turn) / pool.size());
            values[i] = bit_cast<float>(bits ^ lap * 0x9e3779b9u);
        }
        return values;
    }
};

/// Bits of all results of one operation: the output tensors and the returned counts and sums.
using Results = std::vector<std::uint32_t>;

void append(Results& results, Backend& backend, ConstView view) {
    std::vector<float> values(static_cast<std::size_t>(view.count()));
    backend.download(view, values);
    for (const float x : values) results.push_back(bit_cast<std::uint32_t>(x));
}
template <class T>
void append_bits(Results& results, const T& value) {
    static_assert(sizeof(T) % 4 == 0);
    std::uint32_t words[sizeof(T) / 4];
    std::memcpy(words, &value, sizeof(T));
    results.insert(results.end(), std::begin(words), std::end(words));
}
void append(Results& results, const Tally& t) {
    for (const std::uint64_t count :
         {t.count, t.nan_in, t.inf_in, t.zero_in, t.underflow, t.to_subnormal, t.overflow, t.saturated}) {
        append_bits(results, count);
    }
    append_bits(results, t.amax);
    append_bits(results, t.amin_nz);
}

Tensor tensor(Backend& backend, const std::vector<float>& values, Shape shape) {
    Tensor t = backend.empty(shape);
    backend.upload(std::span(values).first(static_cast<std::size_t>(shape.count())), t);
    return t;
}

Cast any_cast(fuzz::Bytes& bytes) {
    Cast cast;
    do {
        cast.format = all_formats[static_cast<std::size_t>(bytes.below(static_cast<int>(all_formats.size())))].format;
    } while (cast.format == fp64 && bytes.left() > 0);
    if (cast.format == fp64) cast.format = bf16;
    cast.round = static_cast<Round>(bytes.below(7));
    cast.overflow = static_cast<Overflow>(bytes.below(2));
    const int scale = bytes.below(4);
    cast.encode_scale = scale == 0 ? bytes.take<float>() : scale == 1 ? 0x1p-12f : scale == 2 ? 3.0f : 1.0f;
    cast.random_bits = 1 + bytes.below(32);
    cast.key = {.seed = bytes.take<std::uint8_t>(), .step = bytes.take<std::uint8_t>(), .site = 7};
    return cast;
}

/// Returns an operation that the input chooses. Its operands are the same for every backend.
std::function<Results(Backend&)> any_operation(fuzz::Bytes& bytes) {
    const int operation = bytes.below(11);
    const std::int64_t rows = 1 + bytes.below(9), columns = 1 + bytes.below(150), n = rows * columns;
    const Cast cast = any_cast(bytes), other_cast = any_cast(bytes);
    const float parameter = bytes.take<float>();
    const bool flag = bytes.below(2) != 0;
    const Operands operands(bytes);
    const auto x = operands.draw(n, 0), y = operands.draw(n, 1), z = operands.draw(n, 2), w = operands.draw(n, 3);
    const Shape shape{rows, columns};
    switch (operation) {
        case 0:
            return [=](Backend& b) {
                Results results;
                Tally tally;
                const Tensor in = tensor(b, x, shape), out = b.empty(shape);
                b.cast(in, out, cast, &tally);
                append(results, b, out);
                append(results, tally);
                b.cast(in, in, cast);
                append(results, b, in);
                return results;
            };
        case 1:
            return [=](Backend& b) {
                Results results;
                const Tensor in = tensor(b, x, shape), second = tensor(b, y, shape);
                append_bits(results, b.amax(in));
                append_bits(results, std::int32_t{b.any_nonfinite(in)});
                const ErrorSums sums = b.compare(in, second, parameter);
                for (const double sum : {sums.error2, sums.x2, sums.y2, sums.xy}) append_bits(results, sum);
                append_bits(results, sums.count);
                const ExponentHistogram histogram = b.exponents(in);
                for (const std::uint64_t count : histogram.bins) append_bits(results, count);
                append_bits(results, histogram.zeros);
                append_bits(results, histogram.infinities);
                append_bits(results, histogram.nans);
                append_bits(results, b.sum_of_squares(in));
                return results;
            };
        case 2:
            return [=](Backend& b) {
                Results results;
                const std::int64_t k = 1 + columns % 40;
                const Tensor a = tensor(b, operands.draw(rows * k, 4), {rows, k}),
                             c = tensor(b, operands.draw(k * columns, 5), {k, columns}),
                             bias = tensor(b, operands.draw(columns, 6), {columns}), out = b.empty(shape);
                Matmul args{.m = rows, .n = columns, .k = k};
                args.a = {.data = a.data(), .ld = flag ? rows : k, .transposed = flag};
                args.b = {.data = c.data(), .ld = columns};
                args.out = out.data();
                args.ld_out = columns;
                args.out_scale = flag ? 1 : parameter;
                if (rows % 2 == 0) args.bias = bias.data();
                args.bias_after_cast = rows % 4 == 0 && cast.round != Round::stochastic;
                args.out_cast = cast;
                Tally tally;
                b.matmul(args, &tally);
                append(results, b, out);
                append(results, tally);
                return results;
            };
        case 3:
            return [=](Backend& b) {
                Results results;
                const Tensor in = tensor(b, x, shape), second = tensor(b, y, shape), out = b.empty(shape);
                for (const elementwise::Unary& f : elementwise::unaries) {
                    b.map(f, in, out);
                    append(results, b, out);
                    b.map_backward(f, in, second, out);
                    append(results, b, out);
                }
                for (const elementwise::Binary& f : elementwise::binaries) {
                    b.map(f, in, second, out);
                    append(results, b, out);
                    b.map(f, in, parameter, out);
                    append(results, b, out);
                }
                return results;
            };
        case 4:
            return [=](Backend& b) {
                Results results;
                const Tensor in = tensor(b, x, shape), dout = tensor(b, y, shape), out = b.empty(shape),
                             dx = b.empty(shape);
                const Tensor gamma = tensor(b, z, {columns}), beta = tensor(b, w, {columns});
                const Tensor mean = b.empty({rows}), rstd = b.empty({rows}), dgamma = b.empty({columns}),
                             dbeta = b.empty({columns});
                b.layernorm(in, gamma, beta, 1e-5f, out, mean, rstd);
                b.layernorm_backward(in, gamma, mean, rstd, dout, dx, dgamma, dbeta);
                for (const Tensor* t : {&out, &mean, &rstd, &dx, &dgamma, &dbeta}) append(results, b, *t);
                return results;
            };
        case 5:
            return [=](Backend& b) {
                Results results;
                const std::int64_t size = std::min<std::int64_t>(columns, 40);
                const Shape square{rows, size, size};
                const Tensor scores = tensor(b, operands.draw(square.count(), 7), square),
                             dp = tensor(b, operands.draw(square.count(), 8), square), p = b.empty(square),
                             ds = b.empty(square);
                b.softmax_causal(scores, p);
                b.softmax_causal_backward(p, dp, ds);
                append(results, b, p);
                append(results, b, ds);
                return results;
            };
        case 6:
            return [=](Backend& b) {
                Results results;
                std::vector<std::int32_t> targets(static_cast<std::size_t>(rows));
                for (std::size_t i = 0; i < targets.size(); ++i) {
                    targets[i] =
                        static_cast<std::int32_t>(bit_cast<std::uint32_t>(y[i]) % static_cast<std::uint32_t>(columns));
                }
                const TokenTensor target = b.empty_tokens({rows});
                b.upload(targets, target);
                const Tensor in = tensor(b, x, shape), logp = b.empty(shape), dx = b.empty(shape),
                             sum = b.empty({columns});
                b.log_softmax(in, logp);
                append_bits(results, b.nll(logp, target));
                b.nll_backward(logp, target, parameter, dx);
                b.column_sum(in, sum);
                for (const Tensor* t : {&logp, &dx, &sum}) append(results, b, *t);
                return results;
            };
        default:
            return [=](Backend& b) {
                Results results;
                const Tensor p = tensor(b, x, shape), g = tensor(b, y, shape), m = tensor(b, z, shape),
                             v = tensor(b, w, shape);
                UpdateStats stats;
                if (operation == 9) {
                    b.sgd(p, g, m, {.lr = parameter, .momentum = 0.9f, .value_cast = cast, .update_cast = other_cast},
                          &stats);
                } else if (operation == 10) {
                    Adam args{.kernel = adam::kernels[static_cast<std::size_t>(columns) % adam::kernels.size()],
                              .lr = double{parameter},
                              .weight_decay = 0.1,
                              .bias_correction1 = 0.25,
                              .adds_decay_to_gradient = flag,
                              .arithmetic = other_cast.format,
                              .value_cast = cast,
                              .moment1_cast = {.format = cast.format},
                              .moment2_cast = {.format = other_cast.format}};
                    b.adam(p, g, m, v, args, &stats);
                } else {
                    AdamW args{.step_size = parameter, .sqrt_bias2 = 0.5f, .decay = flag ? 0.01f : 0.0f};
                    if (operation == 8) args.arithmetic = bf16;
                    args.value_cast = cast;
                    args.update_cast = other_cast;
                    args.moment1_cast = {.format = cast.format};
                    args.moment2_cast = {.format = other_cast.format};
                    b.adamw(p, g, m, v, args, &stats);
                }
                for (const Tensor* t : {&p, &m, &v}) append(results, b, *t);
                append_bits(results, stats.nonzero);
                append_bits(results, stats.lost);
                append_bits(results, stats.frozen);
                for (const double sum : {stats.wanted2, stats.moved2, stats.moved_wanted}) append_bits(results, sum);
                return results;
            };
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static CpuBackend reference(1, Simd::scalar);
    static const auto engines = [] {
        std::vector<std::unique_ptr<CpuBackend>> all;
        for (const Simd simd : available_simd()) {
            for (const int threads : {1, 2}) all.push_back(std::make_unique<CpuBackend>(threads, simd));
        }
        return all;
    }();
    fuzz::Bytes bytes(data, size);
    const auto operation = any_operation(bytes);
    const Results expected = operation(reference);
    for (const auto& engine : engines) {
        const Results actual = operation(*engine);
        if (actual == expected) continue;
        const auto at = std::mismatch(actual.begin(), actual.end(), expected.begin(), expected.end());
        const bool both = at.first != actual.end() && at.second != expected.end();
        fuzz::require(
            false, fmt::format("operation {}, word {}: {} gives {:08x}, scalar {:08x}", size > 0 ? data[0] % 11 : 0,
                               at.first - actual.begin(), engine->name(), both ? *at.first : 0, both ? *at.second : 0));
    }
    return 0;
}
