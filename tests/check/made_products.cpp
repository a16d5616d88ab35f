// SPDX-License-Identifier: Apache-2.0
// The parts of Kernel that compute matrix products and epilogues, and the parts that store outputs.
#include "tests/check/made_kernels.hpp"

#include <cstdio>

namespace macheps::test::made {

namespace {

/// Size of the blocks that share a scale: `outer` rows of a or columns of b, and `k` terms of the sum.
struct Blocks {
    int outer = 0, k = 0;
};
Blocks blocks_of(const Launch& in, const std::string& scale) {
    const auto shape = in.declaration.scale_shapes.find(scale);
    Blocks blocks;
    if (shape != in.declaration.scale_shapes.end())
        std::sscanf(shape->second.c_str(), "%dx%d", &blocks.outer, &blocks.k);
    return blocks;
}

bool is_in_tile(std::size_t row, std::size_t column, std::size_t tile_row, std::size_t tile_column) {
    return row / 16 == tile_row && column / 16 == tile_column;
}

}  // namespace

/// Returns the products whose sum is one output.
Floats Kernel::terms_of(const Launch& in, std::size_t row, std::size_t b_first, std::size_t column) const {
    const auto k = static_cast<std::size_t>(in.request.k), n = static_cast<std::size_t>(in.request.n);
    const Floats &a = in.at("a"), &b = in.at("b");
    if (has("a tile with the b of its neighbour") && is_in_tile(row, column, 0, 1)) column -= 16;
    if (has("a tile with the next rows of a") && is_in_tile(row, column, 0, 1)) ++row;
    if (has("the last column wraps") && column + 1 == n) column = 0;
    Floats terms(k);
    for (std::size_t p = 0; p < k; ++p) {
        float x = a[row * k + p], y = b[(b_first + p) * n + column];
        if (has("a of 8 bits")) x = kernels::to_bf16(x);
        if (has("a of 4 bits")) x = rounded_e4m3(x);
        if (has("b of 11 bits, cut off")) y = std::bit_cast<float>(std::bit_cast<std::uint32_t>(y) & 0xffffe000u);
        if (has("b of 4 bits")) y = rounded_e4m3(y);
        if (has("two terms exchanged in b") && p < 2 && k > 1) y = b[(b_first + 1 - p) * n + column];
        if (has("magnitudes of b")) y = std::fabs(y);
        terms[p] = x * y;
    }
    if (has("split-K: a tile's last slice lost") && is_in_tile(row, column, 1, 1))
        std::fill(terms.begin() + static_cast<long>(k / 4 * 3), terms.end(), 0.0f);
    if (has("split-K: a tile's first slice twice") && is_in_tile(row, column, 1, 0)) {
        for (std::size_t p = 0; p < k / 4; ++p) terms[p] *= 2;
    }
    return terms;
}

float Kernel::product_sum(const Launch& in, Floats terms, std::size_t row, std::size_t column) const {
    const Blocks of_a = blocks_of(in, "a_scale"), of_b = blocks_of(in, "b_scale");
    const std::size_t k = terms.size();
    if (of_a.k > 0) {
        float total = 0;
        const auto each = static_cast<std::size_t>(of_a.k), a_blocks = (k + each - 1) / each,
                   b_blocks = static_cast<std::size_t>(in.shapes.find("b_scale")->second.back());
        for (std::size_t block = 0; block < a_blocks; ++block) {
            const std::size_t first = block * each, last = std::min(first + each, k);
            std::size_t at_a = row / static_cast<std::size_t>(of_a.outer) * a_blocks + block,
                        at_b = block * b_blocks + column / static_cast<std::size_t>(of_b.outer);
            if (has("scale of a's first block everywhere")) at_a -= block;
            if (has("scale of b's block of the next columns"))
                at_b = block * b_blocks + (column / static_cast<std::size_t>(of_b.outer) + 1) % b_blocks;
            float scale = in.at("a_scale")[at_a] * in.at("b_scale")[at_b];
            if (has("block scales of bf16")) scale = kernels::to_bf16(scale);
            if (has("block scales of b left out")) scale = in.at("a_scale")[at_a];
            total +=
                sum(Floats(terms.begin() + static_cast<long>(first), terms.begin() + static_cast<long>(last))) * scale;
        }
        return total;
    }
    if (has("slices of 64 in fp16")) {
        float total = 0;
        for (std::size_t first = 0; first < k; first += 64) {
            float part = 0;
            for (std::size_t p = first; p < std::min(first + 64, k); ++p) part = kernels::to_fp16(part + terms[p]);
            total += part;
        }
        return total;
    }
    if (has("two slices, each of bf16")) {
        const auto middle = terms.begin() + static_cast<long>(k / 2);
        return kernels::to_bf16(order.sum(Floats(terms.begin(), middle))) +
               kernels::to_bf16(order.sum(Floats(middle, terms.end())));
    }
    if (has("sums of 16 bits")) {
        float s = 0;
        for (const float t : terms) {
            s += t;
            s = std::bit_cast<float>(std::bit_cast<std::uint32_t>(s) & 0xffffff00u);
        }
        return s;
    }
    return sum(std::move(terms));
}

float Kernel::epilogue(const Launch& in, float y, std::size_t row, std::size_t column) const {
    const check::Declaration& d = in.declaration;
    const auto n = static_cast<std::size_t>(in.request.n),
               m = in.stored.back().bytes.size() / in.stored.back().width / n;
    const auto scale = [&](const char* name, std::size_t place) {
        if (!in.has(name) || blocks_of(in, name).k > 0) return 1.0f;
        const Floats& all = in.at(name);
        float s = all[all.size() == 1 ? 0 : place];
        if (has("scales of bf16")) s = kernels::to_bf16(s);
        return s;
    };
    std::size_t a_place = row, b_place = column;
    if (has("a_scale of the row's twin")) a_place = std::min(row ^ 1, m - 1);
    if (has("a_scale of the first row")) a_place = 0;
    if (has("b_scale of the first 16 columns again")) b_place %= 16;
    float s = scale("a_scale", a_place);
    if (has("a_scale squared")) s *= s;
    if (has("a_scale divides")) s = 1 / s;
    y = y * s * (has("b_scale left out of the last row") && row + 1 == m ? 1 : scale("b_scale", b_place));
    const float alpha = static_cast<float>(d.alpha), beta = static_cast<float>(d.beta);
    const auto bias = [&] {
        std::size_t place = column;
        if (has("bias by the row")) place = row % n;
        if (has("bias of the last column left out") && column + 1 == n) return 0.0f;
        return in.has("bias") ? in.at("bias")[place] * (has("bias twice")        ? 2.0f
                                                        : has("bias taken away") ? -1.0f
                                                                                 : 1.0f)
                              : 0.0f;
    };
    if (has("alpha on the bias too")) {
        y = (y + bias()) * alpha;
    } else {
        y = y * alpha * (has("alpha twice") ? alpha : 1);
        if (!has("activation before the bias")) y += bias();
    }
    if (in.has("c")) {
        const std::size_t place = has("c of the next row")    ? (row + 1) % m * n + column
                                  : has("c of the first row") ? column
                                                              : row * n + column;
        y += (has("beta squared") ? beta * beta : has("beta for alpha") ? alpha : beta) * in.at("c")[place];
    }
    const float residual = in.has("residual") ? in.at("residual")[row * n + column] : 0;
    if (has("residual before the activation")) y += residual;
    if (d.activation == "relu") y = std::isnan(y) || y > 0 ? y : 0;
    if (d.activation == "gelu")
        y = has("tanh form for the activation") ? gelu_tanh(y)
            : has("relu for the activation")    ? std::max(y, 0.0f)
            : has("silu for the activation")    ? silu(y)
                                                : gelu(y);
    if (has("activation before the bias")) y += bias();
    if (!has("residual before the activation")) y += residual;
    if (has("residual twice")) y += residual;
    if (has("at most 100")) y = std::clamp(y, -100.0f, 100.0f);
    return y;
}

Floats Kernel::product(const Launch& in) const {
    const check::InputRequest& r = in.request;
    const auto n = static_cast<std::size_t>(r.n), m = static_cast<std::size_t>(r.m), k = static_cast<std::size_t>(r.k);
    const std::size_t rows = in.at("a").size() / k, parts = in.at("b").size() / (k * n);
    Floats out(rows * n);
    std::vector<std::size_t> ends;
    for (std::size_t part = 0; part < parts; ++part)
        ends.push_back(r.groups.empty()
                           ? (part + 1) * m
                           : static_cast<std::size_t>(in.at("groups")[part]) + (part == 0 ? 0 : ends[part - 1]));
    std::size_t part = 0;
    for (std::size_t row = 0; row < rows; ++row) {
        while (row >= ends[part]) ++part;
        const std::size_t of = has("the first b for every batch") ? 0
                               : has("the next batch's b")        ? (part + 1) % parts
                                                                  : part;
        for (std::size_t column = 0; column < n; ++column) {
            float y = product_sum(in, terms_of(in, row, of * k, column), row, column);
            if (has("accumulators of the tile before") && is_in_tile(row, column, 0, 1))
                y += order.sum(terms_of(in, row, of * k, column - 16));
            out[row * n + column] = epilogue(in, y, row, column);
        }
    }
    return out;
}

// --- storing outputs

/// Applies bugs that misplace or change outputs, as a kernel with a wrong grid does.
void Kernel::misplace(Floats& y, std::size_t columns) const {
    const Floats right = y;
    const std::size_t size = y.size(), rows = size / columns, row = rows / 2, column = columns / 2;
    const auto fill = [&](auto from) {
        for (std::size_t i = 0; i < size; ++i) y[i] = right[from(i / columns, i % columns)];
    };
    const auto place = [&](std::size_t r, std::size_t c) { return r * columns + c; };
    if (has("every second row is the one before")) fill([&](auto r, auto c) { return place(r - r % 2, c); });
    if (has("last 3 columns of the row before"))
        fill([&](auto r, auto c) { return place(c + 3 >= columns && r > 0 ? r - 1 : r, c); });
    if (has("all shifted by an element")) fill([&](auto r, auto c) { return (place(r, c) + size - 1) % size; });
    if (has("one row is the first")) fill([&](auto r, auto c) { return place(r == row ? 0 : r, c); });
    if (has("blocks of 8 columns reversed"))
        fill([&](auto r, auto c) { return place(r, c / 8 * 8 + 8 <= columns ? c / 8 * 8 + 7 - c % 8 : c); });
    if (has("odd columns hold their left neighbour")) fill([&](auto r, auto c) { return place(r, c - c % 2); });
    if (has("second half of the rows is the first"))
        fill([&](auto r, auto c) { return place(r >= (rows + 1) / 2 ? r - (rows + 1) / 2 : r, c); });
    if (has("two elements exchanged") && size > 1) {
        const std::size_t at = std::min(place(row, column), size - 2);
        std::swap(y[at], y[at + 1]);
    }
    if (has("rows beyond 32 are zero"))
        std::fill(y.begin() + static_cast<long>(std::min<std::size_t>(32 * columns, size)), y.end(), 0.0f);
    if (has("one element NaN")) y[place(row, column)] = NAN;
    if (has("one element 0")) y[place(row, column)] = 0;
    if (has("one column larger by 1 %")) {
        for (std::size_t r = 0; r < rows; ++r) y[place(r, column)] *= 1.01f;
    }
    if (has("one row smaller by 1 %")) {
        for (std::size_t c = 0; c < columns; ++c) y[place(row, c)] *= 0.99f;
    }
    if (has("all larger by 0.5 %")) {
        for (float& each : y) each *= 1.005f;
    }
    if (has("signs lost")) {
        for (float& each : y) each = std::fabs(each);
    }
}

/// Rounds output i to `format`, and applies bugs of this rounding.
float Kernel::stored(const Format& format, float y, std::size_t i) const {
    const auto low = [&](float x, int bits) {  // rounds to nearest even with `bits` fewer bits
        const auto word = std::bit_cast<std::uint32_t>(x), half = (1u << (bits - 1)) - 1;
        return std::isfinite(x) ? std::bit_cast<float>((word + half + (word >> bits & 1)) & ~((1u << bits) - 1)) : x;
    };
    if (has("stored as bf16")) return kernels::to_bf16(y);
    if (has("stored as fp16")) return kernels::to_fp16(y);
    if (has("stored as 14 bits")) return low(y, 10);
    const float right = rounded(format, y);
    const auto other = [&] {  // the neighbour of `right` on the other side of y
        return rounded(format, right + std::copysign(right * (format == bf16 ? 0x1.3p-8f : 0x1.3p-11f), y - right));
    };
    if (has("rounded away from zero") && std::fabs(right) < std::fabs(y)) return other();
    if (has("a bit fewer")) return low(right, format == bf16 ? 17 : 14);
    if (has("rounded as a coin falls") && right != y && std::isfinite(y))
        return (i * 2654435761u >> 16 & 1) == 0 ? right : other();
    return right;
}

Floats Kernel::store(const Launch& in, Floats y) const {
    const bool is_line = in.declaration.operation->is_one_per_row || y.size() == 1;
    const auto columns = is_line ? std::size_t{1} : static_cast<std::size_t>(in.stored.back().shape.back());
    misplace(y, columns);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = stored(in.out(), y[i], i);
    return y;
}

}  // namespace macheps::test::made
