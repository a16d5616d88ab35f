// SPDX-License-Identifier: Apache-2.0
// Kernels for all operations on rows, as people write them: plain float loops that use no code of macheps. A RowCase
// has random arrays and their declaration. A Kernel computes the outputs in one of the legal ways, unless it has a
// Fault.
#pragma once
#include "tests/check/problems.hpp"

#include <array>
#include <optional>

namespace macheps::test {

/// Functions with random errors. The errors are within the bounds that CUDA documents for its functions.
struct Jitter {
    std::mt19937* random;

    /// Returns x with a random error. Together with the final rounding, the error is at most `ulps`.
    float near(double x, double ulps) const {
        if (x == 0 || !std::isfinite(x) || is_exact) return static_cast<float>(x);
        const double ulp = std::ldexp(1.0, std::max(std::ilogb(x), -126) - 23);
        const double by = std::uniform_real_distribution<double>(-1, 1)(*random);
        // Errors that all have the same sign are also legal.
        return static_cast<float>(x + (is_one_sided ? std::fabs(by) : by) * (ulps - 0.5) * ulp);
    }
    float exp(float x) const {
        if (x == 0) return 1;
        if (!is_binary) return near(std::exp(static_cast<double>(x)), 2);
        return near(std::exp2(static_cast<double>(x * 1.44269504f)), 2);
    }
    float log(float x) const { return near(std::log(static_cast<double>(x)), 1); }
    float rsqrt(float x) const { return near(1 / std::sqrt(static_cast<double>(x)), 2); }
    float tanh(float x) const { return near(std::tanh(static_cast<double>(x)), 2); }
    float erf(float x) const { return near(std::erf(static_cast<double>(x)), 2); }

    bool is_binary = false;     ///< computes e^x as 2^(x log2 e)
    bool is_one_sided = false;  ///< all errors of functions have the same sign
    bool is_exact = false;      ///< functions are correctly rounded
};

/// The faults of a wrong kernel.
struct Fault {
    bool other_form = false, index = false, exchanged = false, counts_ignored = false, narrow_inner = false,
         narrow_sum = false, one_pass = false, away = false, flush = false, truncates = false;
    int less = 0, dropped = 0;
    float eps = 0;
};

/// The way in which a kernel computes, and its faults.
struct Kernel {
    kernels::Order order;
    Jitter f;
    bool reciprocal = false, joint = false;
    Fault fault{};
    bool fuses = true;                ///< a product and the addition that follows it at the end are one fma
    Store inner_store = Store::bf16;  ///< if fault.narrow_inner: the format of intermediate results

    float sum(Floats x) const {
        x.resize(x.size() - std::min(x.size(), static_cast<std::size_t>(fault.dropped)));
        if (!fault.narrow_sum) return order.sum(x);
        float s = 0;
        for (const float t : x) s = kernels::to_bf16(s + t);
        return s;
    }
    float over(float x, float y) const { return reciprocal ? x * (1 / y) : x / y; }
    float inner(float x) const { return fault.narrow_inner ? kernels::stored(inner_store, x) : x; }
    float sigmoid(float x) const { return over(1, 1 + f.exp(-x)); }
    float silu(float x) const { return joint ? x / (1 + f.exp(-x)) : x * sigmoid(x); }
    float gelu(float x) const {
        const float t = reciprocal ? x / 1.41421356f : x * 0.70710678f;
        return joint ? x * (0.5f * (1 + f.erf(t))) : (0.5f * x) * (1 + f.erf(t));
    }
    float gelu_tanh(float x) const {
        if (!fuses) return (0.5f * x) * (1 + f.tanh(0.79788456f * (x + 0.044715f * (x * x * x))));
        const float u = joint ? 0.79788456f * (x + 0.044715f * x * x * x) : 0.79788456f * x * (1 + 0.044715f * x * x);
        return 0.5f * x * (1 + f.tanh(u));
    }
};

/// The declaration and the arrays of an operation, without its output.
struct RowCase {
    check::Declaration declaration{};
    std::vector<files::StoredArray> arrays{};
    std::vector<std::int64_t> out_shape{};
    Store store = Store::fp32;
    std::int64_t rows = 0, columns = 0;
    Floats x{}, second{}, third{};  ///< second: gain, up or cos; third: shift or sin
    std::vector<std::int64_t> indices{};
    Floats out{};
};

inline files::StoredArray integers(const std::string& name, std::vector<std::int64_t> shape,
                                   const std::vector<std::int64_t>& values) {
    files::StoredArray out{.name = name, .where = "test", .type = "<i8", .width = 8, .shape = std::move(shape)};
    for (const std::int64_t value : values) {
        for (int i = 0; i < 8; ++i) out.bytes += static_cast<char>(value >> (8 * i));
    }
    return out;
}

inline const std::vector<std::string>& row_operations() {
    static const std::vector<std::string> names{
        "sum",        "mean",    "max",         "min",           "amax",      "argmax", "norm2",
        "logsumexp",  "softmax", "log_softmax", "rmsnorm",       "layernorm", "relu",   "gelu",
        "gelu_tanh",  "silu",    "sigmoid",     "tanh",          "exp",       "swiglu", "geglu",
        "geglu_tanh", "rope",    "embedding",   "cross_entropy", "cast"};
    return names;
}

/// Returns the result of an elementwise operation, or nothing for other operations.
inline std::optional<float> element_of(const std::string& op, const Kernel& k, float x) {
    if (op == "relu") return x > 0 ? x : 0.0f;
    if (op == "gelu") return k.fault.other_form ? k.gelu_tanh(x) : k.gelu(x);
    if (op == "gelu_tanh") return k.fault.other_form ? k.gelu(x) : k.gelu_tanh(x);
    if (op == "silu") return k.silu(x);
    if (op == "sigmoid") return k.sigmoid(x);
    if (op == "tanh") return k.f.tanh(x);
    if (op == "exp") return k.f.exp(x);
    if (op == "cast") return x;
    return {};
}

inline float gate_of(const std::string& op, const Kernel& k, float gate) {
    if (op == "swiglu") return k.silu(gate);
    return (op == "geglu") != k.fault.other_form ? k.gelu(gate) : k.gelu_tanh(gate);
}

/// Returns the outputs of one row for an operation with a reduction.
inline Floats reduce_row(const std::string& op, const Kernel& k, const Floats& x, const Floats& gain,
                         const Floats& shift, float eps, bool subtracts_max) {
    const auto n = static_cast<float>(x.size() - static_cast<std::size_t>(k.fault.less));
    const float most = *std::max_element(x.begin(), x.end()), least = *std::min_element(x.begin(), x.end());
    Floats t(x.size()), y(x.size());
    const auto mapped = [&](auto function) {
        std::transform(x.begin(), x.end(), t.begin(), function);
        return t;
    };
    const float shifted = subtracts_max ? most : 0;
    const auto exponential = [&](float v) { return k.f.exp(v - shifted); };
    const auto square = [](float v) { return v * v; };
    const float real_eps = k.fault.eps != 0 ? k.fault.eps : eps;
    if (op == "sum") return {k.sum(x)};
    if (op == "mean") return {k.over(k.sum(x), n)};
    if (op == "max") return {k.fault.other_form ? least : most};
    if (op == "min") return {k.fault.other_form ? most : least};
    if (op == "amax") return {k.fault.other_form ? most : std::max(std::fabs(most), std::fabs(least))};
    if (op == "norm2") {
        const float s = k.sum(mapped(square));
        return {k.joint && s > 0 ? s * k.f.rsqrt(s) : std::sqrt(s)};
    }
    if (op == "logsumexp") return {shifted + k.f.log(k.sum(mapped(exponential)))};
    if (op == "softmax") {
        const float s = k.sum(mapped(exponential));
        for (std::size_t i = 0; i < x.size(); ++i) y[i] = k.over(t[i], s);
    }
    if (op == "log_softmax") {
        const float s = k.f.log(k.sum(mapped(exponential)));
        for (std::size_t i = 0; i < x.size(); ++i) y[i] = (x[i] - shifted) - s;
    }
    if (op == "rmsnorm") {
        const float r = k.f.rsqrt(k.over(k.sum(mapped(square)), n) + real_eps);
        for (std::size_t i = 0; i < x.size(); ++i) y[i] = k.inner(x[i] * r) * gain[i];
    }
    if (op == "layernorm") {
        const float mean = k.over(k.sum(x), n);
        float v = k.fault.one_pass ? k.over(k.sum(mapped(square)), n) - mean * mean
                                   : k.over(k.sum(mapped([&](float e) { return (e - mean) * (e - mean); })), n);
        const float r = k.f.rsqrt(v + real_eps);
        for (std::size_t i = 0; i < x.size(); ++i) {
            const float normal = k.inner((x[i] - mean) * r);
            y[i] = k.fuses ? std::fma(normal, gain[i], shift[i]) : normal * gain[i] + shift[i];
        }
    }
    return y;
}

/// Returns the outputs of a kernel in fp32, before they are rounded to the output format.
inline Floats run_case(const std::string& op, const RowCase& c, const Kernel& k) {
    Floats out;
    const auto columns = static_cast<std::size_t>(c.columns), half = columns / 2;
    const float eps = static_cast<float>(c.declaration.eps.value_or(0));
    for (std::size_t r = 0; r < static_cast<std::size_t>(c.rows); ++r) {
        const auto begin = c.x.begin() + static_cast<std::ptrdiff_t>(r * columns);
        const Floats row(begin, op == "embedding" ? begin : begin + static_cast<std::ptrdiff_t>(columns));
        if (op == "cross_entropy") {
            const std::int64_t target = c.indices[r];
            if (c.declaration.ignored == target) {
                out.push_back(0);
                continue;
            }
            const float most = *std::max_element(row.begin(), row.end());
            Floats e(columns);
            for (std::size_t i = 0; i < columns; ++i) e[i] = k.f.exp(row[i] - most);
            const float log = k.inner(k.f.log(k.inner(k.sum(e)))),
                        at = row[(static_cast<std::size_t>(target) + (k.fault.index ? 1 : 0)) % columns];
            out.push_back(log - (at - most));
        } else if (op == "embedding") {
            const std::size_t table_rows = c.x.size() / columns,
                              from = (static_cast<std::size_t>(c.indices[r]) + (k.fault.index ? 1 : 0)) % table_rows;
            for (std::size_t i = 0; i < columns; ++i) out.push_back(c.x[from * columns + i]);
        } else if (op == "rope") {
            const bool pairs = c.declaration.has_pairs != k.fault.other_form;
            for (std::size_t i = 0; i < columns; ++i) {
                const bool first = pairs ? i % 2 == 0 : i < half;
                const float other = row[pairs ? (i ^ 1) : first ? i + half : i - half];
                const std::size_t at = pairs ? i / 2 : i % half;
                const float cos = c.second[r * half + at], sin = c.third[r * half + at];
                const float turned = first ? -other : other;
                out.push_back(k.joint ? std::fma(row[i], cos, k.inner(turned * sin))
                                      : k.inner(row[i] * cos) + k.inner(turned * sin));
            }
        } else if (op.find("glu") != std::string::npos) {
            for (std::size_t i = 0; i < columns; ++i) {
                float gate = row[i], up = c.second[r * columns + i];
                if (k.fault.exchanged) std::swap(gate, up);
                out.push_back(k.inner(gate_of(op, k, gate)) * up);
            }
        } else if (op == "argmax") {
            const auto at = k.fault.other_form ? std::min_element(row.begin(), row.end())
                                               : std::max_element(row.begin(), row.end());
            out.push_back(static_cast<float>(at - row.begin()));
        } else {
            for (const float x : row) {
                if (const auto y = element_of(op, k, x)) out.push_back(*y);
            }
            if (!element_of(op, k, 0)) {
                for (const float y : reduce_row(op, k, row, c.second, c.third, eps, c.declaration.subtracts_max))
                    out.push_back(y);
            }
        }
    }
    if (op != "cross_entropy" || c.declaration.reduction == check::Reduction::none) return out;
    float counted = 0;
    for (const std::int64_t target : c.indices)
        counted += c.declaration.ignored == target && !k.fault.counts_ignored ? 0.0f : 1.0f;
    const float total = k.sum(out);
    return {c.declaration.reduction == check::Reduction::sum
                ? total
                : k.over(total, counted - static_cast<float>(k.fault.less))};
}

/// Returns random arrays for an operation. `mean` and `sigma` are the mean and the standard deviation of x.
inline RowCase row_case(const std::string& op, std::mt19937& random, std::int64_t rows, std::int64_t columns, Store in,
                        Store store, float mean = 0, float sigma = 1) {
    const bool is_norm = op.ends_with("norm"), is_gated = op.find("glu") != std::string::npos;
    if (op == "rope") columns += columns % 2;
    RowCase c{.declaration = declare(op.c_str(), store, in), .store = store, .rows = rows, .columns = columns};
    const std::int64_t table_rows = op == "embedding" ? 37 : rows;
    const auto n = static_cast<std::size_t>(columns), size = static_cast<std::size_t>(table_rows) * n;
    c.x = normal(size, random, mean, sigma, in);
    c.out_shape = {rows, columns};
    if (op == "embedding") {
        if (in == Store::bf16) c.declaration.formats["table"] = {bf16, false};
        c.declaration.formats.erase("x");
        c.arrays.push_back(array("table", {table_rows, columns}, c.x, in));
    } else {
        c.arrays.push_back(array(is_gated ? "gate" : "x", {rows, columns}, c.x, in));
        if (is_gated && in == Store::bf16) c.declaration.formats["gate"] = {bf16, false};
        if (is_gated) c.declaration.formats.erase("x");
    }
    if (is_norm) {
        c.declaration.eps = 1e-5f;
        c.second = normal(n, random, 1, 0.2f);
        c.third = op == "layernorm" ? normal(n, random) : Floats{};
        c.arrays.push_back(array("gain", {columns}, c.second));
        if (op == "layernorm") c.arrays.push_back(array("shift", {columns}, c.third));
    }
    if (is_gated) {
        c.second = normal(size, random);
        c.arrays.push_back(array("up", {rows, columns}, c.second));
    }
    if (op == "rope") {
        c.declaration.has_pairs = random() % 2 == 0;
        for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t i = 0; i < columns / 2; ++i) {
                const double angle = static_cast<double>(r + 1) *
                                     std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(columns));
                c.second.push_back(static_cast<float>(std::cos(angle)));
                c.third.push_back(static_cast<float>(std::sin(angle)));
            }
        }
        c.arrays.push_back(array("cos", {rows, columns / 2}, c.second));
        c.arrays.push_back(array("sin", {rows, columns / 2}, c.third));
    }
    if (op == "embedding" || op == "cross_entropy") {
        for (std::int64_t r = 0; r < rows; ++r)
            c.indices.push_back(static_cast<std::int64_t>(random() % (op == "embedding" ? 37 : n)));
    }
    if (op == "cross_entropy") {
        c.declaration.reduction = static_cast<check::Reduction>(random() % 3);
        if (random() % 2 == 0) {
            c.declaration.ignored = -100;
            for (std::size_t r = 1; r < c.indices.size(); r += 3) c.indices[r] = -100;
        }
    }
    if (!c.indices.empty()) c.arrays.push_back(integers(op == "embedding" ? "index" : "target", {rows}, c.indices));
    if (check::find_operation(op).is_one_per_row) c.out_shape = {rows};
    if (c.declaration.reduction != check::Reduction::none) c.out_shape = {};
    return c;
}

/// Returns the arrays of a case, with the stored outputs of a kernel as the last array.
inline std::vector<files::StoredArray> stored_case(const std::string& op, const RowCase& c, const Kernel& k) {
    Floats out = run_case(op, c, k);
    std::vector<files::StoredArray> arrays = c.arrays;
    if (op == "argmax") {
        arrays.push_back(integers("out", c.out_shape, std::vector<std::int64_t>(out.begin(), out.end())));
        return arrays;
    }
    for (float& y : out)
        y = k.fault.truncates && c.store == Store::bf16 ? kernels::truncated_to_bf16(y) : kernels::stored(c.store, y);
    arrays.push_back(array("out", c.out_shape, out, c.store));
    return arrays;
}

/// Returns a kernel with one of five orders of summation, random errors of functions, and other random choices.
inline Kernel random_kernel(std::mt19937& random) {
    static const auto orders = kernels::orders();
    static constexpr std::array<std::size_t, 5> five{0, 1, 2, 4, 7};
    return {.order = orders[five[random() % 5]],
            .f = {&random, random() % 2 == 0, random() % 4 == 0},
            .reciprocal = random() % 2 == 0,
            .joint = random() % 2 == 0};
}

}  // namespace macheps::test
