// SPDX-License-Identifier: Apache-2.0
// Tests layer norms with two methods for the mean and the sum of squares of a row: to update them with each number
// (Welford), and to merge them from parts of the row (Chan, Golub and LeVeque). The methods are legal if they are
// declared. Also tests declared tiles.
#include "tests/check/row_kernels.hpp"

namespace welford_test {

using namespace macheps;
using namespace macheps::test;

namespace {

struct Moments {
    float count = 0, mean = 0, squares = 0;

    void add(float x) {
        const float d = x - mean;
        mean += d / ++count;
        squares += d * (x - mean);
    }
    void merge(const Moments& other) {
        if (other.count == 0) return;
        const float all = count + other.count, d = other.mean - mean;
        squares += other.squares + d * d * (count * other.count / all);
        mean += d * (other.count / all);
        count = all;
    }
};

Moments of_tree(const std::vector<Moments>& parts, std::size_t first, std::size_t last) {
    if (last - first == 1) return parts[first];
    Moments left = of_tree(parts, first, (first + last) / 2);
    left.merge(of_tree(parts, (first + last) / 2, last));
    return left;
}

/// Returns the layer norm of each row. The mean and the squares of a row are merged from `lanes` parts, which take the
/// numbers of the row in turn.
Floats layer_norm(const Floats& x, std::int64_t columns, std::size_t lanes, float eps, Store store) {
    Floats out(x.size());
    const auto n = static_cast<std::size_t>(columns);
    for (std::size_t row = 0; row < x.size(); row += n) {
        std::vector<Moments> parts(std::min(lanes, n));
        for (std::size_t i = 0; i < n; ++i) parts[i % parts.size()].add(x[row + i]);
        const Moments all = of_tree(parts, 0, parts.size());
        const float r = 1 / std::sqrt(all.squares / static_cast<float>(columns) + eps);
        for (std::size_t i = 0; i < n; ++i) out[row + i] = kernels::stored(store, (x[row + i] - all.mean) * r);
    }
    return out;
}

check::Declaration declared(const char* form, Store out) {
    check::Declaration d = declare("layernorm", out);
    d.eps = 1e-5;
    check::declare(d, *check::find_declare_key("variance"), form, "variance");
    return d;
}

check::Verdict judged(const char* form, const Floats& x, std::int64_t columns, const Floats& out, Store store) {
    const auto rows = static_cast<std::int64_t>(x.size()) / columns;
    return judge_arrays(declared(form, store),
                        {array("x", {rows, columns}, x), array("out", {rows, columns}, out, store)},
                        {.require = check::Power::null});
}

/// Returns rows with the given mean. If `is_sorted`, numbers ascend, which makes the running means differ most from the
/// final mean.
Floats numbers(std::size_t rows, std::size_t columns, float mean, float sigma, bool is_sorted, std::mt19937& random) {
    Floats x = normal(rows * columns, random, mean, sigma);
    for (std::size_t row = 0; row < x.size() && is_sorted; row += columns)
        std::sort(x.begin() + static_cast<std::ptrdiff_t>(row), x.begin() + static_cast<std::ptrdiff_t>(row + columns));
    return x;
}

}  // namespace

TEST_CASE("no layer norm by Welford's algorithm is refused if the algorithm is declared", "[check][welford]") {
    double most = 0;
    std::mt19937 random(77);
    for (int run = 0; run < 240; ++run) {
        const auto columns = static_cast<std::size_t>(1 + random() % 1500);
        const float mean = run % 3 == 0 ? 0 : run % 3 == 1 ? 10 : 300;
        const Floats x = numbers(4, columns, mean, run % 2 ? 1 : 0.25f, run % 4 == 0, random);
        const std::size_t lanes = std::array<std::size_t, 4>{1, 4, 32, 1024}[random() % 4];
        const Store store = run % 5 == 0 ? Store::bf16 : Store::fp32;
        const auto n = static_cast<std::int64_t>(columns);
        const check::Verdict v = judged("welford", x, n, layer_norm(x, n, lanes, 1e-5f, store), store);
        CAPTURE(run, columns, mean, lanes, codes(v), v.judgement.rho, v.judgement.z);
        CHECK((is_accepted(v) || v.outcome == check::Outcome::declined));
        if (store == Store::fp32) most = std::max(most, v.judgement.rho);
    }
    std::printf("240 layer norms by Welford, the largest error %.3f of its bound\n", most);
    CHECK(most > 0.01);
}

TEST_CASE("the limits for Welford's algorithm are wider than for two passes, and wrong outputs still fail",
          "[check][welford]") {
    std::mt19937 random(5);
    const Floats x = numbers(8, 512, 20, 1, false, random);
    Floats out = layer_norm(x, 512, 1, 1e-5f, Store::fp32);
    const check::Verdict running = judged("welford", x, 512, out, Store::fp32),
                         usual = judged("two_pass", x, 512, out, Store::fp32);
    CHECK(is_accepted(running));
    for (std::size_t i = 0; i < x.size(); ++i) {
        CHECK(running.limits->certain[i] > usual.limits->certain[i]);
        CHECK(running.limits->certain[i] < 12 * usual.limits->certain[i]);
        CHECK(running.limits->exact[i] == usual.limits->exact[i]);
    }
    for (std::size_t i = 1024; i < 1536; ++i) out[i] *= 1.05f;  // one row has another scale
    CHECK(judged("welford", x, 512, out, Store::fp32).outcome == check::Outcome::fail);
    CHECK(check::declared_json(declared("welford", Store::fp32)).at("variance") == "welford");
    CHECK(check::declared_json(declared("two_pass", Store::fp32)).at("variance") == "two_pass");
}

TEST_CASE("if a tile size is declared, the errors of the outputs in each tile are judged together", "[check][tile]") {
    std::mt19937 random(31);
    const std::size_t m = 96, n = 128, k = 64;
    const kernels::Gemm g{.m = m,
                          .n = n,
                          .k = k,
                          .a = normal(m * k, random, 0, 1, Store::bf16),
                          .b = normal(k * n, random, 0, 1, Store::bf16)};
    Floats right = g.run(Store::fp32, nullptr), out = right;
    for (Floats* each : {&right, &out}) {
        for (float& y : *each) y = kernels::to_bf16(y);
    }
    const auto judged_with = [&](const std::string& tile, const Floats& outputs) {
        check::Declaration d = declare("gemm", Store::bf16, Store::bf16);
        if (!tile.empty()) check::declare(d, *check::find_declare_key("tile"), tile, "tile");
        return judge_arrays(d,
                            {array("a", {96, 64}, g.a, Store::bf16), array("b", {64, 128}, g.b, Store::bf16),
                             array("out", {96, 128}, outputs, Store::bf16)},
                            {.require = check::Power::null});
    };
    CHECK(is_accepted(judged_with("64x32", right)));
    // In an area of 64 x 32 outputs, errors are 1.18 times as large as expected. The default tiles of 16 x 16 show this
    // less clearly than a tile that covers the whole area.
    const check::Posed posed =
        check::pose(declare("gemm", Store::bf16, Store::bf16),
                    {array("a", {96, 64}, g.a, Store::bf16), array("b", {64, 128}, g.b, Store::bf16),
                     array("out", {96, 128}, right, Store::bf16)},
                    pool());
    check::Limits limits = check::limits_of(posed.problem, 1e-9, pool());
    // The tests of single outputs are disabled, so that the tiles decide.
    for (auto* each : {&limits.certain, &limits.probable}) std::fill(each->held().begin(), each->held().end(), 1e9);
    std::vector<double> moved = posed.out;
    for (std::size_t r = 32; r < 96; ++r) {
        for (std::size_t c = 64; c < 96; ++c) {
            const std::size_t i = r * n + c;
            moved[i] = limits.exact[i] + ((r + c) % 2 == 0 ? 1.18 : -1.18) * limits.deviation[i];
        }
    }
    const check::Judgement plain = check::judge(limits, moved);
    limits.tile_rows = 64;
    limits.tile_columns = 32;
    const check::Judgement with_tiles = check::judge(limits, moved);
    CAPTURE(plain.z_tiles, with_tiles.z_tiles, plain.z_part);
    CHECK(with_tiles.z_tiles >= plain.z_tiles);
    // The area begins at row 32. Tiles of 64 rows begin at rows 0 and 64, so each of them contains only half of the
    // area. Tiles of 32 rows fit the area.
    limits.tile_rows = 32;
    const check::Judgement fitting = check::judge(limits, moved);
    CHECK(fitting.z_tiles > plain.z_tiles);
    CHECK_THROWS_WITH(judged_with("64", right), Catch::Contains("is not a valid tile"));
    CHECK_THROWS_WITH(judged_with("0x4", right), Catch::Contains("is not a valid tile"));
}

}  // namespace welford_test
