// SPDX-License-Identifier: Apache-2.0
// Measures casts of 1 GiB of fp32 that also fill a Tally (core/tally.hpp). The yardstick is a copy of the same bytes
// from device to device.
#include "bench/gpu_rows.hpp"
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "emulation/definitions.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::bench {

namespace {

/// Throws Error if the first or last elements differ from the definition, or if the tally does not count all elements.
void check_cast(Backend& backend, const Tensor& out, const std::vector<float>& in, const Cast& cast, const Tally& tally,
                std::string_view name) {
    const std::int64_t n = out.count(), some = std::min<std::int64_t>(n, 1 << 16);
    const auto fail = [&](std::string what) {
        throw Error({.what = std::move(what), .where = std::string(name), .fix = "", .exit = Exit::check_failed});
    };
    for (const std::int64_t first : {std::int64_t{0}, n - some}) {
        std::vector<float> got(static_cast<std::size_t>(some));
        backend.download(ConstView{out.data() + first, {some}}, got);
        for (std::int64_t i = 0; i < some; ++i) {
            const float x = in[static_cast<std::size_t>((first + i) % static_cast<std::int64_t>(in.size()))];
            const float expected = definition::store_as(cast, x, static_cast<std::uint64_t>(first + i));
            const float y = got[static_cast<std::size_t>(i)];
            if (bit_cast<std::uint32_t>(y) != bit_cast<std::uint32_t>(expected)) {
                fail(fmt::format("element {}: {} became {} instead of {}", first + i, x, y, expected));
            }
        }
    }
    if (tally.count != static_cast<std::uint64_t>(n))
        fail(fmt::format("the tally counted {} of {} elements", tally.count, n));
}

Row cast_row(Bench& bench, const std::string& name, const Cast& cast) {
    const std::int64_t count = bench.small ? 1 << 18 : std::int64_t{1} << 28;
    // The input repeats one pattern, so that the host has to generate at most 4 Mi numbers.
    const std::vector<float> pattern = bench_values(std::min<std::int64_t>(count, 1 << 22), 1, fp32);
    Backend& backend = *bench.native;
    const Tensor in = backend.empty({count}), out = backend.empty({count});
    const auto length = static_cast<std::int64_t>(pattern.size());
    for (std::int64_t i = 0; i < count; i += length) backend.upload(pattern, View{in.data() + i, {length}});
    Tally tally;
    backend.cast(in, out, cast, &tally);
    check_cast(backend, out, pattern, cast, tally, name);
    std::vector<Work> works{{[&] { backend.cast(in, out, cast, &tally); }, bench.native_stream}};
    if (bench.copy) {
        works.push_back({[&] { bench.copy(out.data(), in.data(), static_cast<std::size_t>(count) * sizeof(float)); }});
    }
    const std::vector<Times> times = in_turns(works, bench.turns);
    Row row{.what = name, .yardstick = "copy from device to device", .target = 0.85, .work = {}, .unit = "GB"};
    row.work = fmt::format("{} MiB read and written", count * 4 >> 20);
    row.amount = 2 * static_cast<double>(count) * sizeof(float) * 1e-9;
    row.ours = times[0];
    if (times.size() > 1) row.theirs = times[1];
    return row;
}

}  // namespace

std::vector<RowMaker> cast_rows() {
    std::vector<RowMaker> rows;
    const auto add = [&](const std::string& name, const Cast& cast) {
        rows.push_back({name, [name, cast](Bench& bench) { return cast_row(bench, name, cast); }});
    };
    for (const Format& f : {bf16, fp16, tf32, e4m3fn, e5m2, e2m1fn}) {
        add(fmt::format("cast.{}.tally", format_name(f)), {.format = f});
    }
    add("cast.e4m3fn.scaled.tally", {.format = e4m3fn, .overflow = Overflow::saturate, .encode_scale = 12.5f});
    add("cast.bf16.stochastic.tally", {.format = bf16, .round = Round::stochastic, .key = {.seed = 1}});
    return rows;
}

}  // namespace macheps::bench
