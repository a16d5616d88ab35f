// SPDX-License-Identifier: Apache-2.0
#include "tests/check/made_kernels.hpp"

#include <cfloat>

namespace macheps::test::made {

float Kernel::extreme(const Floats& x, bool is_least) const {
    const std::size_t n = has("extreme of the first 64") ? std::min<std::size_t>(x.size(), 64) : x.size();
    float most = x.front();
    if (has("extreme begins at 0")) most = 0;
    if (has("extreme begins at 1e4")) most = is_least ? 1e4f : -1e4f;
    if (has("extreme begins at 65504")) most = is_least ? 65504.0f : -65504.0f;
    if (has("extreme begins at 1e30")) most = is_least ? 1e30f : -1e30f;
    if (has("extreme begins at FLT_MAX")) most = is_least ? FLT_MAX : -FLT_MAX;
    if (has("extreme begins at FLT_MIN")) most = FLT_MIN;
    const bool has_first = !has("extreme without the first");
    if (!has_first && n > 1) most = x[1];
    for (std::size_t i = has_first ? 0 : 1; i < n; ++i) {
        if (std::isnan(x[i]) && !has("extreme passes NaN over")) return x[i];
        if (is_least ? x[i] < most : x[i] > most) most = x[i];
        if (has("extreme is the last rise") && i > 0 && (is_least ? x[i] < x[i - 1] : x[i] > x[i - 1])) most = x[i];
    }
    return most;
}

float Kernel::gelu(float x) const {
    if (has("erf of x itself")) return 0.5f * x * (1 + erf(x));
    if (has("gelu by a sigmoid")) return x / (1 + std::exp(-1.702f * x));
    if (has("half left out")) return x * (1 + erf(x * 0.70710678f));
    if (has("nothing below -3") && x < -3) return 0;
    if (has("x itself above 2") && x > 2) return x;
    const float t = reciprocal ? x / 1.41421356f : x * 0.70710678f;
    return joint ? x * (0.5f * (1 + erf(t))) : (0.5f * x) * (1 + erf(t));
}

float Kernel::gelu_tanh(float x) const {
    float cubic = 0.044715f, root = 0.79788456f;
    if (has("0.0447 for 0.044715")) cubic = 0.0447f;
    if (has("0.8 for its root")) root = 0.8f;
    if (has("a square for the cube")) return 0.5f * x * (1 + tanh(root * (x + cubic * x * x)));
    if (has("half left out")) return x * (1 + tanh(root * (x + cubic * x * x * x)));
    if (has("nothing below -3") && x < -3) return 0;
    const float u = joint ? root * (x + cubic * x * x * x) : root * x * (1 + cubic * x * x);
    return 0.5f * x * (1 + tanh(u));
}

float Kernel::silu(float x) const {
    if (has("sigmoid alone")) return 1 / (1 + exp(-x));
    if (has("silu with 1.1 x")) return x / (1 + exp(-1.1f * x));
    if (has("hard silu")) return x * std::clamp(x / 6 + 0.5f, 0.0f, 1.0f);
    if (has("silu by e^x, which overflows")) return x * exp(x) / (1 + exp(x));
    if (has("sigmoid by tanh, which cancels")) return x * (0.5f * std::tanh(0.5f * x) + 0.5f);
    if (has("sigmoid rounded to fp16")) return x * kernels::to_fp16(1 / (1 + exp(-x)));
    return joint ? x / (1 + exp(-x)) : x * over(1, 1 + exp(-x));
}

float Kernel::gate(const std::string& op, float x) const {
    if (has("gate without its activation")) return x;
    if (has("relu for the gate's activation")) return x > 0 ? x : 0;
    const float y = op == "swiglu" ? silu(x) : op == "geglu" ? gelu(x) : gelu_tanh(x);
    return has("gate rounded to fp16") ? kernels::to_fp16(y) : y;
}

float Kernel::element(const Launch& in, float x) const {
    const std::string& op = in.op;
    if (op == "relu") {
        if (has("leaky by 0.01") && x < 0) return 0.01f * x;
        if (has("at most 6") && x > 6) return 6;
        if (has("NaN becomes 0") && std::isnan(x)) return 0;
        if (has("a magnitude")) return std::fabs(x);
        if (has("nothing below 0.01") && x < 0.01f) return 0;
        return x > 0 || std::isnan(x) ? x : 0.0f;
    }
    if (op == "gelu") return gelu(x);
    if (op == "gelu_tanh") return gelu_tanh(x);
    if (op == "silu") return silu(x);
    if (op == "tanh") return has("x itself below 0.1") && std::fabs(x) < 0.1f ? x : tanh(x);
    if (op == "sigmoid") {
        if (has("hard sigmoid")) return std::clamp(x / 6 + 0.5f, 0.0f, 1.0f);
        if (has("sigmoid by e^x, which overflows")) return exp(x) / (1 + exp(x));
        if (has("sigmoid by tanh, which cancels")) return 0.5f * std::tanh(0.5f * x) + 0.5f;
        if (has("sigmoid of -x")) return 1 / (1 + exp(x));
        return over(1, 1 + exp(-x));
    }
    if (op == "exp") {
        if (has("at most e^10")) return exp(std::min(x, 10.0f));
        if (has("(1 + x / 1024)^1024")) return std::pow(1 + x / 1024, 1024.0f);
        if (has("e^x - 1")) return exp(x) - 1;
        return exp(x);
    }
    if (has("NaN becomes 0") && std::isnan(x)) return 0;  // op is `cast` from here on
    if (has("sign of zero lost") && x == 0) return 0;
    return x;
}

Floats Kernel::softmax_row(const Launch& in, std::size_t row, const Floats& x) const {
    const bool is_loss = in.op == "cross_entropy";
    float most = extreme(x, false);
    // PyTorch and SciPy replace an infinite maximum by 0, so that a row of -inf gives -inf and a row with inf gives
    // inf.
    if (in.op == "logsumexp" && std::isinf(most)) most = 0;
    if (has("maximum of an infinity") && in.op == "logsumexp") most = extreme(x, false);
    if (has("no maximum")) most = 0;
    if (has("maximum of the first 16"))
        most = *std::max_element(x.begin(), x.begin() + std::min<long>(16, std::ssize(x)));
    if (has("maximum rounded to 4 bits"))
        most = std::ldexp(std::round(std::ldexp(most, 3 - std::ilogb(most))), std::ilogb(most) - 3);
    if (has("maximum at least 0")) most = std::max(most, 0.0f);
    const float scale = has("logits divided by 1.001") ? 1.001f : 1;
    Floats e(x.size()), y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) e[i] = exp((x[i] - most) / scale);
    float s = 0;
    if (has("blocks join without rescaling")) {
        for (std::size_t first = 0; first < x.size(); first += 64) {
            const auto begin = x.begin() + static_cast<long>(first),
                       end = x.begin() + static_cast<long>(std::min(first + 64, x.size()));
            const float top = *std::max_element(begin, end);
            for (auto at = begin; at < end; ++at) s += exp(*at - top);
        }
    } else {
        s = sum(e);
    }
    if (has("padding counts as e^0")) s += static_cast<float>((x.size() + 63) / 64 * 64 - x.size()) * exp(-most);
    if (has("1e-6 beside the sum")) s += 1e-6f;
    if (in.op == "softmax") {
        for (std::size_t i = 0; i < x.size(); ++i) {
            y[i] = has("maximum and logarithm joined") ? exp(x[i] - (most + log(s))) : over(e[i], s);
            if (has("nothing below 1e-4") && y[i] < 1e-4f) y[i] = 0;
            if (has("times a reciprocal of 12 bits"))
                y[i] = e[i] * std::bit_cast<float>(std::bit_cast<std::uint32_t>(1 / s) & 0xfffff000u);
        }
        return y;
    }
    const float l = log(has("at least 1e-3 in the log") ? std::max(s, 1.001f) : s);
    if (in.op == "logsumexp") return {has("maximum not added again") ? l : most + l};
    if (in.op == "log_softmax") {
        for (std::size_t i = 0; i < x.size(); ++i) {
            y[i] = has("maximum and logarithm joined") ? x[i] - (most + l) : (x[i] - most) - l;
            if (has("log of the rounded softmax")) y[i] = log(rounded(in.out(), e[i] / s));
            if (has("log of the softmax")) y[i] = log(e[i] / s);
            if (has("at least -20")) y[i] = std::max(y[i], -20.0f);
        }
        return y;
    }
    if (!is_loss) throw std::logic_error(in.op);
    auto target = static_cast<std::size_t>(in.at("target")[row]);
    if (has("target - 1")) target = (target + x.size() - 1) % x.size();
    if (has("target of the next row")) target = static_cast<std::size_t>(in.at("target")[(row + 1) % in.rows]);
    float loss = has("maximum and logarithm joined") ? (most + l) - x[target] : l - (x[target] - most);
    if (has("log of a probability of at least 1e-3")) loss = -log(std::max(e[target] / s, 1e-3f));
    if (has("labels smoothed by 0.001")) {
        float others = 0;
        for (const float each : x) others += (most + l) - each;
        loss = 0.999f * loss + 0.001f * others / static_cast<float>(x.size());
    }
    if (has("the log's square added")) loss += 1e-4f * (most + l) * (most + l);
    return {loss};
}

Floats Kernel::norm_row(const Launch& in, std::size_t row, const Floats& x) const {
    const bool is_layer = in.op == "layernorm";
    const std::size_t n = x.size();
    float eps = static_cast<float>(*in.declaration.eps);
    if (has("no eps")) eps = 0;
    if (has("eps twice")) eps *= 2;
    if (has("eps 1e-6")) eps = 1e-6f;
    if (has("eps squared")) eps *= eps;
    Floats squares(n), y(n);
    float mu = is_layer ? mean(x) : 0;
    if (has("mean of bf16")) mu = kernels::to_bf16(mu);
    if (has("mean not taken away")) mu = 0;
    if (has("mean taken away")) mu = mean(x);
    const bool is_one_pass = has("variance in one pass");
    for (std::size_t i = 0; i < n; ++i) squares[i] = is_one_pass ? x[i] * x[i] : (x[i] - mu) * (x[i] - mu);
    if (has("squares of fp16")) {
        for (float& each : squares) each = kernels::to_fp16(each);
    }
    if (has("magnitudes for squares")) {
        for (std::size_t i = 0; i < n; ++i) squares[i] = std::fabs(x[i] - mu);
    }
    float v = mean(squares);
    if (is_one_pass) v -= mu * mu;
    float r = rsqrt(v + eps);
    if (has("eps beside the root")) r = 1 / (std::sqrt(v) + eps);
    if (has("the greater of eps and the mean")) r = rsqrt(std::max(v, eps));
    if (has("root of fp16")) r = kernels::to_fp16(r);
    const bool has_gain = in.has("gain"), has_shift = in.has("shift");
    for (std::size_t i = 0; i < n; ++i) {
        float normal = (x[i] - mu) * r;
        if (has("mean not taken away at the end")) normal = x[i] * r;
        if (has("normal numbers rounded to fp16")) normal = kernels::to_fp16(normal);
        float gain = has_gain ? in.at("gain")[i] : 1;
        const float shift = has_shift ? in.at("shift")[i] : 0;
        if (has("1 + gain for gain")) gain += 1;
        if (has("gain of the first 64 again")) gain = in.at("gain")[i % 64];
        if (has("gain squared")) gain *= gain;
        if (has("gain by the row")) gain = in.at("gain")[row % n];
        y[i] = has("shift before gain")  ? (normal + shift) * gain
               : has("shift taken away") ? normal * gain - shift
                                         : normal * gain + shift;
    }
    return y;
}

Floats Kernel::run_row(const Launch& in, std::size_t row, const Floats& x) const {
    const std::string& op = in.op;
    const std::size_t n = x.size();
    if (op == "sum") {
        if (has("magnitudes summed"))
            return {sum([&] {
                Floats a = x;
                for (float& t : a) t = std::fabs(t);
                return a;
            }())};
        return {has("a mean for the sum") ? sum(x) / static_cast<float>(n) : sum(x)};
    }
    if (op == "mean") return {mean(x)};
    if (op == "max" || op == "min") return {extreme(x, op == "min")};
    if (op == "amax") {
        Floats a = x;
        for (float& t : a) t = std::fabs(t);
        if (has("the first number with its sign")) a.front() = x.front();
        if (has("magnitude of the maximum")) return {std::fabs(extreme(x, false))};
        const float most = extreme(a, false);
        if (has("at least 1e-12")) return {std::max(most, 1e-12f)};
        if (has("at least 1e-4")) return {std::max(most, 1e-4f)};
        return {has("at least 0.01") ? std::max(most, 0.01f) : most};
    }
    if (op == "argmax") {
        const float most = extreme(x, false);
        std::size_t at = 0;
        while (at + 1 < n && !(x[at] == most || std::isnan(x[at]))) ++at;
        if (has("place counted from 1")) ++at;
        if (has("place within 32")) at %= 32;
        if (has("place before")) at = at == 0 ? 0 : at - 1;
        return {static_cast<float>(at)};
    }
    if (op == "norm2") {
        Floats a(n);
        for (std::size_t i = 0; i < n; ++i) a[i] = has("magnitudes for squares") ? std::fabs(x[i]) : x[i] * x[i];
        if (has("squares of fp16")) {
            for (float& each : a) each = kernels::to_fp16(each);
        }
        const float s = has("a mean for the sum") ? mean(a) : sum(a);
        if (has("1e-6 beside the sum")) return {std::sqrt(s + 1e-6f)};
        return {joint && s > 0 && std::isfinite(s) ? s * rsqrt(s) : std::sqrt(s)};
    }
    if (op.ends_with("norm")) return norm_row(in, row, x);
    if (op.find("softmax") != std::string::npos || op == "logsumexp" || op == "cross_entropy")
        return softmax_row(in, row, x);
    Floats y(n);
    for (std::size_t i = 0; i < n; ++i) y[i] = element(in, x[i]);
    return y;
}

Floats Kernel::run(const Launch& in) const {
    const std::string& op = in.op;
    if (op == "gemm") return product(in);
    if (op == "quantize") return quantised(in);
    const std::size_t n = in.columns, half = n / 2;
    Floats out;
    const auto row_at = [&](std::string_view name, std::size_t r) {
        const auto begin = in.at(name).begin() + static_cast<long>(r * n);
        return Floats(begin, begin + static_cast<long>(n));
    };
    for (std::size_t r = 0; r < in.rows; ++r) {
        if (op == "embedding") {
            auto index = static_cast<std::size_t>(in.at("index")[r]);
            if (has("index - 1")) index = (index + in.rows - 1) % in.rows;
            if (has("index at most 31")) index = std::min<std::size_t>(index, 31);
            if (has("index of the row before") && r > 0) index = static_cast<std::size_t>(in.at("index")[r - 1]);
            Floats y = row_at("table", index);
            if (has("times the root of the width")) {
                for (float& each : y) each *= std::sqrt(static_cast<float>(n));
            }
            if (has("index 0 is padding") && index == 0) std::fill(y.begin(), y.end(), 0.0f);
            if (has("a row of 8 bits")) {
                for (float& each : y) each = rounded_e4m3(each);
            }
            out.insert(out.end(), y.begin(), y.end());
        } else if (op == "rope") {
            const Floats x = row_at("x", r), cos = row_at("cos", has("tables of the next row") ? (r + 1) % in.rows : r),
                         sin = row_at("sin", has("sine of the row before") ? (r + in.rows - 1) % in.rows : r);
            const bool has_pairs = in.declaration.has_pairs;
            for (std::size_t i = 0; i < n; ++i) {
                const bool first = has_pairs ? i % 2 == 0 : i < half;
                float other = x[has_pairs ? (i ^ 1) : first ? i + half : i - half];
                if (has("both halves plus")) other = first ? -other : other;
                if (has("second half not turned") && !first) other = 0;
                float turned = first ? -other : other, c = cos[i], s = sin[i];
                if (has("cos and sin exchanged")) std::swap(c, s);
                if (has("tables of 8 bits")) c = kernels::to_bf16(c), s = kernels::to_bf16(s);
                if (has("tables of fp16")) c = kernels::to_fp16(c), s = kernels::to_fp16(s);
                out.push_back(joint ? std::fma(x[i], c, turned * s) : x[i] * c + turned * s);
            }
        } else if (op.find("glu") != std::string::npos) {
            const Floats a = row_at("gate", r), b = row_at("up", r);
            for (std::size_t i = 0; i < n; ++i) {
                if (has("up left out")) {
                    out.push_back(gate(op, a[i]));
                } else if (has("up of the next column")) {
                    out.push_back(gate(op, a[i]) * b[(i + 1) % n]);
                } else if (has("up with the activation too")) {
                    out.push_back(gate(op, a[i]) * gate(op, b[i]));
                } else {
                    out.push_back(gate(op, a[i]) * (has("1 + up for up") ? 1 + b[i] : b[i]));
                }
            }
        } else {
            const bool is_next = has("statistics of the next row");
            const Floats x = row_at("x", r), y = run_row(in, r, is_next ? row_at("x", (r + 1) % in.rows) : x);
            out.insert(out.end(), y.begin(), y.end());
        }
    }
    const check::Reduction reduction = in.declaration.reduction;
    if (reduction == check::Reduction::none) return out;
    const float total = sum(out);
    return {reduction == check::Reduction::sum ? total : over(total, static_cast<float>(in.rows))};
}

Floats Kernel::quantised(const Launch& in) const {
    const std::size_t n = in.columns, width = in.declaration.granularity == "1x128" ? 128 : in.rows * n;
    const bool is_power = width == 128;
    const Floats& x = in.at("x");
    Floats y(x.size());
    for (std::size_t r = 0; r < in.rows; ++r) {
        for (std::size_t c = 0; c < n; ++c) {
            float most = 0;
            const std::size_t first = is_power ? r * n + c / 128 * 128 : 0,
                              last = is_power ? std::min(first + 128, (r + 1) * n) : x.size();
            for (std::size_t i = first; i < last; ++i) {
                const float size = has("scale from the maximum") ? x[i] : std::fabs(x[i]);
                if (has("scale without the last element") && i + 1 == last && last - first > 1) continue;
                if (has("scale of the first 64") && i >= first + 64) break;
                if (std::isnan(size) && !is_power) most = size;
                if (size > most) most = size;
            }
            float top = 448;
            if (has("240 for 448")) top = 240;
            if (has("256 for 448")) top = 256;
            float s = static_cast<float>(448.0 / std::max(static_cast<double>(most), 1e-12));
            if (top != 448) s *= top / 448;
            if (std::isnan(most)) s = most;
            if (is_power) {
                s = most > 0 && std::isfinite(most) ? top / most : 1;
                if (std::isinf(s)) s = 0x1.fffffep127f;
                if (!has("scale not rounded to a power of two")) s = std::ldexp(1.0f, std::ilogb(s));
            } else if (has("scale that is a power of two")) {
                s = std::ldexp(1.0f, std::ilogb(s));
            }
            if (has("scale of bf16")) s = kernels::to_bf16(s);
            if (has("scale of fp16")) s = kernels::to_fp16(s);
            if (has("scale twice")) s *= s;
            float scaled = x[r * n + c] * s;
            if (has("divided by the decode scale's bf16")) scaled = x[r * n + c] / kernels::to_bf16(1 / s);
            if (has("product of bf16")) scaled = kernels::to_bf16(scaled);
            if (has("product of fp16")) scaled = kernels::to_fp16(scaled);
            if (has("nothing below 1") && std::fabs(scaled) < 1) scaled = 0;
            if (has("at most 240")) scaled = std::clamp(scaled, -240.0f, 240.0f);
            if (has("NaN becomes 0") && std::isnan(scaled)) scaled = 0;
            y[r * n + c] = scaled;
        }
    }
    return y;
}

}  // namespace macheps::test::made
