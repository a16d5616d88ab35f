// SPDX-License-Identifier: Apache-2.0
// Tests memory, data movement and the errors of a backend.
#include "core/error.hpp"
#include "emulation/adam.hpp"
#include "emulation/scaling/scaling.hpp"
#include "tests/emulation/backends.hpp"

#include <functional>
#include <set>

namespace backend_test {

using namespace macheps;
using namespace macheps::test;

TEST_CASE("a backend reports its engine and its number of threads", "[emulation][backend]") {
    CHECK(CpuBackend(2, Simd::scalar).name() == "cpu.scalar.2");
    CHECK(CpuBackend().threads() == available_threads());
    CHECK(CpuBackend(1).simd() == chosen_simd());
    CHECK_THROWS_AS(CpuBackend(-1), Error);
}

TEST_CASE("tensors are aligned, reused when freed, and may outlive their backend", "[emulation][backend]") {
    auto backend = std::make_unique<CpuBackend>(1);
    std::set<const void*> seen;
    for (const std::int64_t n : {0, 1, 63, 64, 1000, 100000}) {
        const Tensor tensor = backend->empty({n});
        CHECK(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64 == 0);
        CHECK(tensor.count() == n);
        const Tensor other = backend->empty({n});
        CHECK(other.data() != tensor.data());
        if (n > 0) CHECK((other.data() >= tensor.data() + n || tensor.data() >= other.data() + n));
    }
    const void* first = backend->empty({5000}).data();
    CHECK(backend->empty({50, 100}).data() == first);
    Tensor survivor = backend->empty({3});
    backend->fill(survivor, 2.5f);
    backend.reset();
    CHECK(survivor.data()[2] == 2.5f);
}

TEST_CASE("upload, copy and download keep every bit, NaN payloads included", "[emulation][backend]") {
    for (const auto& engine : backends({1, 3})) {
        Backend& b = *engine;
        for (const std::int64_t n : {0, 1, 17, 200000}) {
            const auto x = operands(Operands::all_bits, n, 1);
            Tensor from = uploaded(b, x, {n}), to = b.empty({n});
            b.copy(from, to);
            CHECK(differences(downloaded(b, to), x) == "");
            b.fill(to, -0.0f);
            CHECK(differences(downloaded(b, to), std::vector<float>(static_cast<std::size_t>(n), -0.0f)) == "");
        }
    }
}

TEST_CASE("split_heads moves every element to the right place, and merge_heads undoes it", "[emulation][backend]") {
    const std::int64_t batch = 2, times = 5, heads = 3, width = 4;
    const int parts = 3;
    for (const auto& engine : backends({1, 2})) {
        Backend& b = *engine;
        const auto x = operands(Operands::all_bits, batch * times * parts * heads * width, 1);
        Tensor joined = uploaded(b, x, {batch, times, parts * heads * width}), back = b.empty(joined.shape());
        for (int part = 0; part < parts; ++part) {
            Tensor split = b.empty({batch, heads, times, width});
            b.split_heads(joined, part * heads * width, split);
            const auto values = downloaded(b, split);
            std::vector<float> expected;
            for (std::int64_t i = 0; i < batch; ++i) {
                for (std::int64_t h = 0; h < heads; ++h) {
                    for (std::int64_t t = 0; t < times; ++t) {
                        for (std::int64_t d = 0; d < width; ++d) {
                            const std::int64_t row = i * times + t, column = part * heads * width + h * width + d;
                            expected.push_back(x[static_cast<std::size_t>(row * parts * heads * width + column)]);
                        }
                    }
                }
            }
            CHECK(differences(values, expected) == "");
            b.merge_heads(split, part * heads * width, back);
        }
        CHECK(differences(downloaded(b, back), x) == "");
    }
}

TEST_CASE("an operation that keeps each element in its place may overwrite its input", "[emulation][backend]") {
    const std::int64_t n = 65;
    for (const auto& engine : backends({1})) {
        Backend& b = *engine;
        const auto x = operands(Operands::hostile, n * n, 1), y = operands(Operands::hostile, n * n, 2);
        const Shape shape{n, n};
        const auto in_place = [&](std::string_view name, const std::function<void(View, View)>& operation) {
            Tensor first = uploaded(b, x, shape), out = b.empty(shape);
            operation(first, out);
            operation(first, first);
            CAPTURE(name, b.name());
            CHECK(differences(downloaded(b, first), downloaded(b, out)) == "");
        };
        const Tensor other = uploaded(b, y, shape);
        for (const elementwise::Unary& f : elementwise::unaries) {
            in_place(f.name, [&](View in, View out) { b.map(f, in, out); });
            in_place(f.name, [&](View in, View out) { b.map_backward(f, in, other, out); });
            in_place(f.name, [&](View in, View out) { b.map_backward(f, other, in, out); });
        }
        for (const elementwise::Binary& f : elementwise::binaries) {
            in_place(f.name, [&](View in, View out) { b.map(f, in, other, out); });
            in_place(f.name, [&](View in, View out) { b.map(f, other, in, out); });
            in_place(f.name, [&](View in, View out) { b.map(f, in, 3.0f, out); });
        }
        in_place("multiply_columns", [&](View in, View out) { b.multiply_columns(in, {other.data(), {n}}, out); });
        const Tensor rstd = b.empty({n});
        in_place("rms_normalise", [&](View in, View out) { b.rms_normalise(in, 1, out, rstd); });
        const View given{other.data(), {n}};
        in_place("rms_normalise_backward, dx is x",
                 [&](View in, View out) { b.rms_normalise_backward(in, given, other, out); });
        in_place("rms_normalise_backward, dx is dout",
                 [&](View in, View out) { b.rms_normalise_backward(other, given, in, out); });
        in_place("softmax_causal", [&](View in, View out) { b.softmax_causal(in, out); });
        in_place("softmax_causal_backward", [&](View in, View out) { b.softmax_causal_backward(other, in, out); });
        in_place("log_softmax", [&](View in, View out) { b.log_softmax(in, out); });
        in_place("cast", [&](View in, View out) { b.cast(in, out, {.format = bf16}); });
        const TokenTensor targets = uploaded_tokens(b, tokens(n, static_cast<std::int32_t>(n), 3), {n});
        in_place("nll_backward", [&](View in, View out) { b.nll_backward(in, targets, 2, out); });
    }
}

TEST_CASE("the casts of a backend agree with the definition", "[emulation][backend]") {
    const std::int64_t n = 5000;
    const auto x = operands(Operands::all_bits, n, 1);
    const Cast casts[] = {{.format = bf16},
                          {.format = e4m3fn, .overflow = Overflow::saturate, .encode_scale = 0.75f},
                          {.format = fp16, .round = Round::stochastic, .key = {.seed = 9, .step = 1, .site = 2}},
                          {.format = e5m2, .round = Round::stochastic, .key = {.seed = 9}, .random_bits = 5}};
    for (const Cast& cast : casts) {
        std::vector<float> expected;
        for (std::size_t i = 0; i < x.size(); ++i) expected.push_back(definition::cast_element(cast, x[i], i));
        for (const auto& engine : backends()) {
            CAPTURE(engine->name(), cast.format.bits);
            Tensor out = engine->empty({n});
            Tally tally{.count = 77};
            engine->cast(uploaded(*engine, x, {n}), out, cast, &tally);
            CHECK(differences(downloaded(*engine, out), expected) == "");
            CHECK(tally.count == static_cast<std::uint64_t>(n));
        }
    }
}

TEST_CASE("a stochastic cast without random words is refused by every operation of every engine",
          "[emulation][backend]") {
    const Cast keyless{.format = bf16, .round = Round::stochastic},
        bitless{.format = bf16, .round = Round::stochastic, .key = {.seed = 1}, .random_bits = 0};
    for (const auto& engine : backends({1})) {
        Backend& b = *engine;
        const Tensor x = uploaded(b, operands(Operands::plain, 64, 1), {2, 32}), y = b.empty({2, 32}),
                     m = uploaded(b, operands(Operands::plain, 64, 2), {2, 32}), v = b.empty({2, 32}),
                     scales = b.empty({1, 1});
        b.fill(v, 1);
        for (const Cast& cast : {keyless, bitless}) {
            const Granularity* whole = find_granularity("tensor");
            const ScaledCast scaled{.cast = {.format = e4m3fn,
                                             .round = Round::stochastic,
                                             .key = cast.key,
                                             .random_bits = cast.random_bits},
                                    .granularity = whole,
                                    .rule = find_scale_rule("te_current")};
            Matmul matmul{.m = 2, .n = 2, .k = 32, .out = y.data(), .ld_out = 2};
            matmul.a = {.data = x.data(), .ld = 32};
            matmul.b = {.data = m.data(), .ld = 32, .transposed = true};
            matmul.out_cast = cast;
            const std::pair<const char*, std::function<void()>> calls[] = {
                {"cast", [&] { b.cast(x, y, cast); }},
                {"scaled_cast", [&] { b.scaled_cast(x, y, scales, scaled); }},
                {"matmul", [&] { b.matmul(matmul); }},
                {"adamw", [&] { b.adamw(y, x, m, v, {.value_cast = cast}); }},
                {"adamw", [&] { b.adamw(y, x, m, v, {.update_cast = cast}); }},
                {"adamw", [&] { b.adamw(y, x, m, v, {.moment1_cast = cast}); }},
                {"adamw", [&] { b.adamw(y, x, m, v, {.moment2_cast = cast}); }},
                {"adam", [&] { b.adam(y, x, m, v, {.value_cast = cast}); }},
                {"adam", [&] { b.adam(y, x, m, v, {.moment1_cast = cast}); }},
                {"adam", [&] { b.adam(y, x, m, v, {.moment2_cast = cast}); }},
                {"sgd", [&] { b.sgd(y, x, m, {.value_cast = cast}); }},
                {"sgd", [&] { b.sgd(y, x, m, {.update_cast = cast}); }},
            };
            for (const auto& [operation, call] : calls) {
                CAPTURE(b.name(), operation, cast.random_bits);
                try {
                    call();
                    FAIL_CHECK("accepted");
                } catch (const Error& error) {
                    CHECK(error.parts().where == operation);
                    CHECK(error.parts().what == "stochastic rounding has no random bits");
                }
            }
        }
    }
}

TEST_CASE("a backend lists the random words that its casts use", "[emulation][backend]") {
    const auto cast = [](std::uint32_t site) {
        return Cast{.format = bf16, .round = Round::stochastic, .key = {.seed = 1, .step = 2, .site = site}};
    };
    for (const auto& engine : backends({1})) {
        CAPTURE(engine->name());
        Backend& b = *engine;
        const Tensor x = b.empty({3, 8}), y = b.empty({3, 8}), z = b.empty({3, 8}), w = b.empty({3, 8});
        for (const Tensor* t : {&x, &y, &z, &w}) b.fill(*t, 1);
        std::vector<RandomDraw> draws;
        b.cast(x, y, cast(1));
        b.list_draws(&draws);
        b.cast(x, y, {.format = bf16});
        b.cast(x, y, cast(2));
        Matmul matmul{.m = 3, .n = 3, .k = 8, .out = w.data(), .ld_out = 3};
        matmul.a = {.data = x.data(), .ld = 8};
        matmul.b = {.data = y.data(), .ld = 8, .transposed = true};
        matmul.out_cast = cast(3);
        b.matmul(matmul);
        b.adamw(x, y, z, w, {.value_cast = cast(4), .update_cast = cast(5), .moment1_cast = cast(6)});
        b.adamw(x, y, z, w,
                {.arithmetic = bf16, .value_cast = cast(7), .update_cast = cast(8)});  // does not use update_cast
        b.sgd(x, y, z, {.value_cast = cast(9)});
        b.adam(x, y, z, w, {.value_cast = cast(11), .moment1_cast = cast(12), .moment2_cast = cast(13)});
        b.list_draws(nullptr);
        b.cast(x, y, cast(10));
        std::vector<std::pair<std::uint32_t, std::uint64_t>> found;
        for (const RandomDraw& draw : draws) found.emplace_back(draw.key.site, draw.count);
        CHECK(found == std::vector<std::pair<std::uint32_t, std::uint64_t>>{
                           {2, 24}, {3, 9}, {4, 24}, {5, 24}, {6, 24}, {7, 24}, {9, 24}, {11, 24}, {12, 24}, {13, 24}});
    }
}

TEST_CASE("for wrong shapes, tokens or matmul arguments, the error names the operation and a remedy",
          "[emulation][backend]") {
    CpuBackend b(1);
    const Tensor six = b.empty({2, 3}), four = b.empty({2, 2}), three = b.empty({3}), two = b.empty({2}),
                 tall = b.empty({3, 2});
    const Tensor split = b.empty({1, 2, 3, 4}), joined = b.empty({1, 3, 24});
    const TokenTensor good = uploaded_tokens(b, {0, 1}, {1, 2}), negative = uploaded_tokens(b, {0, -1}, {1, 2}),
                      beyond = uploaded_tokens(b, {2, 0}, {1, 2});
    std::vector<float> host(5);
    Matmul matmul{.m = 2,
                  .n = 2,
                  .k = 2,
                  .a = {.data = four.data(), .ld = 2},
                  .b = {.data = four.data(), .ld = 2},
                  .out = six.data(),
                  .ld_out = 2};
    const auto broken = [&](auto change) {
        Matmul copy = matmul;
        change(copy);
        return copy;
    };
    b.fill(four, 0);
    CHECK_NOTHROW(b.matmul(matmul));
    struct Case {
        const char* operation;
        std::function<void()> call;
    };
    const Case cases[] = {
        {"upload", [&] { b.upload(host, six); }},
        {"download", [&] { b.download(six, host); }},
        {"copy", [&] { b.copy(six, four); }},
        {"cast", [&] { b.cast(six, four, {}); }},
        {"compare", [&] { b.compare(six, four); }},
        {"add", [&] { b.add(six, four, six); }},
        {"add", [&] { b.add(six, six, four); }},
        {"multiply", [&] { b.scale(six, 1, four); }},
        {"gelu_erf", [&] { b.map(elementwise::GeluErf{}, six, four); }},
        {"gelu_erf_backward", [&] { b.map_backward(elementwise::GeluErf{}, six, four, six); }},
        {"gelu_erf_backward", [&] { b.map_backward(elementwise::GeluErf{}, six, six, four); }},
        {"multiply", [&] { b.multiply(six, four, six); }},
        {"rms_normalise", [&] { b.rms_normalise(six, 1, six, three); }},
        {"rms_normalise_backward", [&] { b.rms_normalise_backward(six, three, six, six); }},
        {"multiply_columns", [&] { b.multiply_columns(six, two, six); }},
        {"sum_head_groups",
         [&] {
             b.sum_head_groups(split, b.empty({1, 3, 3, 4}));
         }},
        {"rotate",
         [&] {
             b.rotate(joined, b.empty({3, 5}), b.empty({3, 5}), Turn::forward, joined, joined);
         }},
        {"rotate",
         [&] {
             b.rotate(joined, b.empty({2, 4}), b.empty({2, 4}), Turn::forward, joined, joined);
         }},
        {"embedding", [&] { b.embedding(good, six, four, six); }},
        {"embedding", [&] { b.embedding(beyond, four, four, four); }},
        {"embedding", [&] { b.embedding(negative, four, four, four); }},
        {"embedding_backward", [&] { b.embedding_backward(beyond, four, four, four); }},
        {"embedding_backward", [&] { b.embedding_backward(good, four, four, two); }},
        {"layernorm", [&] { b.layernorm(six, two, three, 1, six, two, two); }},
        {"layernorm", [&] { b.layernorm(six, three, three, 1, six, three, two); }},
        {"layernorm_backward", [&] { b.layernorm_backward(six, three, two, two, six, six, two, three); }},
        {"softmax_causal", [&] { b.softmax_causal(six, six); }},
        {"softmax_causal", [&] { b.softmax_causal(four, six); }},
        {"softmax_causal_backward", [&] { b.softmax_causal_backward(six, six, six); }},
        {"log_softmax", [&] { b.log_softmax(six, four); }},
        {"nll", [&] { b.nll(tall, good); }},
        {"nll", [&] { b.nll(four, beyond); }},
        {"cross_entropy", [&] { b.cross_entropy(tall, good); }},
        {"cross_entropy", [&] { b.cross_entropy(four, negative); }},
        {"nll_backward", [&] { b.nll_backward(four, negative, 1, four); }},
        {"column_sum", [&] { b.column_sum(six, two); }},
        {"split_heads", [&] { b.split_heads(joined, 17, split); }},
        {"split_heads", [&] { b.split_heads(joined, -1, split); }},
        {"merge_heads", [&] { b.merge_heads(joined, 0, split); }},
        {"adamw", [&] { b.adamw(six, six, four, six, {}); }},
        {"adam", [&] { b.adam(six, six, six, four, {}); }},
        {"sgd", [&] { b.sgd(six, six, four, {.momentum = 0.5f}); }},
        {"matmul", [&] { b.matmul(broken([](Matmul& m) { m.a.ld = 1; })); }},
        {"matmul", [&] { b.matmul(broken([](Matmul& m) { m.b.data = nullptr; })); }},
        {"matmul", [&] { b.matmul(broken([](Matmul& m) { m.k = -1; })); }},
        {"matmul", [&] { b.matmul(broken([](Matmul& m) { m.ld_out = 1; })); }},
        {"matmul", [&] { b.matmul(broken([](Matmul& m) { m.rule.machine = nullptr; })); }},
    };
    for (const Case& c : cases) {
        CAPTURE(c.operation);
        try {
            c.call();
            FAIL_CHECK("accepted");
        } catch (const Error& error) {
            CHECK(error.parts().where == c.operation);
            CHECK_FALSE(error.parts().fix.empty());
        }
    }
}

TEST_CASE("an error about shapes that disagree lists the shapes", "[emulation][backend]") {
    CpuBackend b(1);
    try {
        b.add(b.empty({2, 3}), b.empty({4}), b.empty({2, 3}));
        FAIL("accepted");
    } catch (const Error& error) {
        CHECK(std::string(error.what()) == "add: shapes disagree: [2,3] [4] [2,3] (use the same number of elements)");
    }
}

}  // namespace backend_test
