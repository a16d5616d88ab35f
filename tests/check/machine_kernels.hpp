// SPDX-License-Identifier: Apache-2.0
// Emulated kernels on matrix units, for checks of declared machines. The references and bounds of the checks do not use
// the emulation.
#pragma once
#include "core/codec.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/machine/table.hpp"
#include "experiments/check/bounds/products.hpp"
#include "tests/check/kernels.hpp"

#include <memory>

namespace macheps::test {

using kernels::Floats;

inline float rounded_to(const Format& format, float x) {
    return decode(format, encode(format, x, Round::nearest_even, Overflow::saturate));
}

/// The distribution of operands. It includes hard cases: sums that only grow, sums that stall, and sums that cancel.
enum class Draw { normal, positive, uniform, integers, equal, cancelling, wide, outliers, folded };
inline constexpr int draws = 9;

/// Returns an [outer, k] array of numbers in `format`. `is_b` must be true for operand b: in the distributions `equal`
/// and `cancelling`, b gets other numbers than a. With `cancelling`, pairs of products then almost cancel.
inline Floats drawn(Draw draw, const Format& format, std::size_t outer, std::size_t k, bool is_b,
                    std::mt19937& random) {
    std::normal_distribution<float> normal(0, 1);
    std::uniform_real_distribution<float> uniform(0, 1);
    Floats x(outer * k);
    const int most = std::min(12, -format.emin());
    for (std::size_t i = 0; i < x.size(); ++i) {
        float y = normal(random);
        if (draw == Draw::positive) y = uniform(random);
        if (draw == Draw::folded) y = std::fabs(y);
        if (draw == Draw::uniform) y = 2 * uniform(random) - 1;
        if (draw == Draw::integers) y = std::round(2 * y);
        if (draw == Draw::equal) y = is_b ? 0.625f : 0.875f;
        if (draw == Draw::wide)
            y = std::ldexp(y, static_cast<int>(random() % static_cast<unsigned>(most + 1)) - most / 2);
        if (draw == Draw::outliers && random() % 64 == 0) y *= 16;
        x[i] = rounded_to(format, y);
        // Product i of the first half of k and product i of the second half almost cancel.
        if (draw == Draw::cancelling && i % k >= k / 2 && k > 1) {
            const float first = x[i - k / 2];
            x[i] = is_b ? rounded_to(format, -first * (1 - 0x1p-6f)) : first;
        }
    }
    return x;
}

struct MachineGemm {
    std::size_t m = 0, n = 0, k = 0;
    Format a_format = fp32, b_format = fp32;
    Floats a{}, b{};  ///< [m, k] and [k, n]

    /// Returns the results of the machine, in the format `output`.
    Floats run(const MatmulRule& rule, const Format& output = fp32) const {
        static CpuBackend backend(1);
        Floats out(m * n);
        Matmul args{
            .m = static_cast<std::int64_t>(m), .n = static_cast<std::int64_t>(n), .k = static_cast<std::int64_t>(k)};
        args.a = {.data = a.data(), .ld = args.k, .format = a_format};
        args.b = {.data = b.data(), .ld = args.n, .format = b_format};
        args.out = out.data();
        args.ld_out = args.n;
        args.rule = rule;
        args.out_cast.format = output;
        backend.matmul(args);
        return out;
    }
    check::ProductOperands operands() const {
        check::ProductOperands of{.m = static_cast<std::int64_t>(m),
                                  .n = static_cast<std::int64_t>(n),
                                  .k = static_cast<std::int64_t>(k),
                                  .a_format = a_format,
                                  .b_format = b_format};
        of.a.assign(a.begin(), a.end());
        of.b.assign(b.begin(), b.end());
        return of;
    }
};

inline MachineGemm machine_gemm(std::size_t m, std::size_t n, std::size_t k, const Format& a, const Format& b,
                                Draw draw, std::mt19937& random) {
    MachineGemm g{.m = m,
                  .n = n,
                  .k = k,
                  .a_format = a,
                  .b_format = b,
                  .a = drawn(draw, a, m, k, false, random),
                  .b = Floats(k * n)};
    const Floats columns = drawn(draw, b, n, k, true, random);
    for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t p = 0; p < k; ++p) g.b[p * n + j] = columns[j * k + p];
    }
    return g;
}

}  // namespace macheps::test
