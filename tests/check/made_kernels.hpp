// SPDX-License-Identifier: Apache-2.0
// Kernels that read the inputs made by `macheps check make-inputs`. They are plain float loops, as people write them,
// and use no arithmetic of macheps. A kernel has at most one bug. The lines that a bug changes contain `has("name of
// the bug")`.
#pragma once
#include "experiments/check/inputs.hpp"
#include "tests/check/problems.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::test::made {

inline float rounded_e4m3(float x) {  // to nearest even, saturating
    const double size = std::fabs(static_cast<double>(x));
    if (std::isnan(x) || size == 0) return x;
    const double unit = std::ldexp(1.0, std::max(size < 448 ? std::ilogb(size) : 8, -6) - 3);
    return static_cast<float>(std::copysign(size >= 448 ? 448.0 : std::nearbyint(size / unit) * unit, x));
}

inline float rounded(const Format& format, float x) {
    if (format == bf16) return kernels::to_bf16(x);
    if (format == fp16) return kernels::to_fp16(x);
    return format == e4m3fn ? rounded_e4m3(x) : x;
}

inline std::uint64_t code_of(const Format& format, float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if (format == bf16) return std::isnan(x) ? 0x7fc0 : bits >> 16;
    if (format == fp16) return half_code(x);
    if (!(format == e4m3fn)) return bits;
    const std::uint64_t sign = std::signbit(x) ? 0x80 : 0;
    if (std::isnan(x)) return 0x7f | sign;
    const float size = std::fabs(x);
    if (size < 0x1p-6f) return sign | static_cast<std::uint64_t>(size * 0x1p9f);
    const int exponent = std::ilogb(size);
    return sign | static_cast<std::uint64_t>((exponent + 7) << 3) |
           (static_cast<std::uint64_t>(std::ldexp(size, 3 - exponent)) & 7);
}

/// The contents of one file of inputs, as a kernel reads them.
struct Launch {
    std::string op;
    check::Declaration declaration{};
    check::InputRequest request{};
    std::size_t rows = 0, columns = 0;
    std::map<std::string, Floats, std::less<>> arrays{};
    std::map<std::string, std::vector<std::int64_t>, std::less<>> shapes{};
    std::vector<files::StoredArray> stored{};  ///< the arrays of the file, including the output buffer

    const Floats& at(std::string_view name) const { return arrays.find(name)->second; }
    bool has(std::string_view name) const { return arrays.find(name) != arrays.end(); }
    Format out() const { return request.format("out"); }
};

inline Launch launch_of(const check::MadeInputs& made) {
    const check::Declaration& d = made.request.declaration;
    Launch launch{.op = std::string(d.operation->name), .declaration = d, .request = made.request};
    for (const check::MadeArray& array : made.arrays) {
        launch.arrays[array.name] = Floats(array.values.begin(), array.values.end());
        launch.shapes[array.name] = array.shape;
    }
    if (!d.operation->is_product) {
        launch.columns = static_cast<std::size_t>(made.arrays.front().shape.back());
        launch.rows = static_cast<std::size_t>(made.request.rows);
    }
    launch.stored = check::stored_inputs(made);
    return launch;
}

/// A kernel. The members select one of several legal ways to compute, and a bug if `bug` is not empty.
class Kernel {
  public:
    kernels::Order order = kernels::orders().front();
    bool reciprocal = false, joint = false, binary = false;
    std::string bug{};

    /// Returns true if the kernel has the bug `name`. Also records the query, because a bug that no line queries is an
    /// error of the test.
    bool has(std::string_view name) const {
        was_asked_ = was_asked_ || name == bug;
        return name == bug;
    }
    bool was_asked() const { return was_asked_; }

    float exp(float x) const {
        if (has("2^x for e^x")) return static_cast<float>(std::exp2(static_cast<double>(x)));
        if (has("log2 e of bf16")) return static_cast<float>(std::exp2(static_cast<double>(x * 1.4453125f)));
        if (has("e^x of 8 bits")) return kernels::to_bf16(static_cast<float>(std::exp(static_cast<double>(x))));
        if (has("e^x cut off at -10") && x < -10) return 0;
        if (binary) return static_cast<float>(std::exp2(static_cast<double>(x * 1.44269504f)));
        return static_cast<float>(std::exp(static_cast<double>(x)));
    }
    float log(float x) const {
        if (has("log2 for log")) return static_cast<float>(std::log2(static_cast<double>(x)));
        const auto y = static_cast<float>(std::log(static_cast<double>(x)));
        return has("log of 8 bits") ? kernels::to_bf16(y) : y;
    }
    float rsqrt(float x) const {
        if (has("root for its inverse")) return std::sqrt(x);
        const auto y = static_cast<float>(1 / std::sqrt(static_cast<double>(x)));
        return has("inverse root of 12 bits") ? std::bit_cast<float>(std::bit_cast<std::uint32_t>(y) & 0xfffff000u) : y;
    }
    float tanh(float x) const {
        if (has("tanh by e^2x, which overflows")) {
            const float e = std::exp(2 * x);
            return (e - 1) / (e + 1);
        }
        if (has("tanh by e^-2x, which cancels")) return 2 / (1 + exp(-2 * x)) - 1;
        if (has("tanh is 1 from 3 on") && std::fabs(x) > 3) return std::copysign(1.0f, x);
        const auto y = static_cast<float>(std::tanh(static_cast<double>(x)));
        return has("tanh of 11 bits") ? std::bit_cast<float>(std::bit_cast<std::uint32_t>(y) & 0xffffe000u) : y;
    }
    float erf(float x) const {
        if (has("erf by a polynomial")) {  // Abramowitz and Stegun 7.1.26: error up to 1.5e-7, visible in the left tail
            const float a = std::fabs(x), t = 1 / (1 + 0.3275911f * a);
            const float p =
                t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
            return std::copysign(1 - p * std::exp(-a * a), x);
        }
        return static_cast<float>(std::erf(static_cast<double>(x)));
    }
    float over(float x, float y) const { return reciprocal ? x * (1 / y) : x / y; }

    /// Returns the sum of a row.
    float sum(Floats x) const {
        const std::size_t n = x.size();
        if (has("a tail of 32 left out")) x.resize(n > 32 ? n / 32 * 32 : n);
        if (has("first term left out")) x.front() = 0;
        if (has("last term twice")) x.push_back(x.back());
        if (has("one lane of 32 lost")) {
            for (std::size_t i = 17; i < n; i += 32) x[i] = 0;
        }
        if (has("every 64th term left out")) {
            for (std::size_t i = 63; i < n; i += 64) x[i] = 0;
        }
        if (has("the second 32 terms are the first")) {
            for (std::size_t i = 32; i < std::min<std::size_t>(n, 64); ++i) x[i] = x[i - 32];
        }
        if (has("sum in fp16")) {
            float s = 0;
            for (const float t : x) s = kernels::to_fp16(s + t);
            return s;
        }
        if (has("lanes join in bf16")) {
            Floats lanes(32);
            for (std::size_t i = 0; i < x.size(); ++i) lanes[i % 32] += x[i];
            float s = 0;
            for (const float t : lanes) s = kernels::to_bf16(s + kernels::to_bf16(t));
            return s;
        }
        return order.sum(x);
    }
    float mean(const Floats& x) const {
        auto n = static_cast<float>(x.size());
        if (has("mean over n + 1")) n += 1;
        if (has("mean over a multiple of 32")) n = std::ceil(n / 32) * 32;
        if (has("1 / n of bf16")) return sum(x) * kernels::to_bf16(1 / n);
        if (has("a sum for the mean")) return sum(x);
        return over(sum(x), n);
    }

    /// Returns the outputs before they are stored.
    Floats run(const Launch& in) const;
    /// Returns the outputs in the output format. Applies bugs that misplace outputs and bugs of the last rounding.
    Floats store(const Launch& in, Floats y) const;

  private:
    Floats run_row(const Launch& in, std::size_t row, const Floats& x) const;
    Floats norm_row(const Launch& in, std::size_t row, const Floats& x) const;
    Floats softmax_row(const Launch& in, std::size_t row, const Floats& x) const;
    float element(const Launch& in, float x) const;
    float gelu(float x) const;
    float gelu_tanh(float x) const;
    float silu(float x) const;
    float gate(const std::string& op, float x) const;
    float extreme(const Floats& x, bool is_least) const;
    Floats product(const Launch& in) const;
    Floats terms_of(const Launch& in, std::size_t row, std::size_t b_first, std::size_t column) const;
    float product_sum(const Launch& in, Floats terms, std::size_t row, std::size_t column) const;
    float epilogue(const Launch& in, float y, std::size_t row, std::size_t column) const;
    void misplace(Floats& y, std::size_t columns) const;
    float stored(const Format& format, float y, std::size_t i) const;
    Floats quantised(const Launch& in) const;

    mutable bool was_asked_ = false;
};

/// Returns the arrays of the input file with the outputs `y` in the output buffer.
inline std::vector<files::StoredArray> with_output(const Launch& in, const Floats& y) {
    std::vector<files::StoredArray> arrays = in.stored;
    files::StoredArray& out = arrays.back();
    if (y.size() * out.width != out.bytes.size()) throw std::logic_error("the kernel gives another number of outputs");
    for (std::size_t i = 0; i < y.size(); ++i) {
        const std::uint64_t code = in.declaration.operation->gives_index
                                       ? static_cast<std::uint64_t>(static_cast<std::int64_t>(y[i]))
                                       : code_of(in.out(), y[i]);
        for (std::size_t b = 0; b < out.width; ++b) out.bytes[i * out.width + b] = static_cast<char>(code >> (8 * b));
    }
    return arrays;
}

inline std::vector<files::StoredArray> launched(const Kernel& kernel, const Launch& in) {
    return with_output(in, kernel.store(in, kernel.run(in)));
}

}  // namespace macheps::test::made
