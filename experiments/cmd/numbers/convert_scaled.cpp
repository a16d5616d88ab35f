// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/numbers/convert_scaled.hpp"

#include "core/host/publish.hpp"
#include "core/rng.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/cmd/frame/unheld.hpp"
#include "experiments/files/arrays/arrays.hpp"
#include "experiments/files/arrays/npy.hpp"
#include "experiments/files/arrays/zip.hpp"
#include "experiments/study/scale/scaled_array.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace macheps::cmd::convert {

using namespace study;

using namespace files;

namespace {

constexpr std::array<const char*, 5> own_options{"IN", "--output", "--granularity", "--scale-rule", "--axis"};
/// Options of a conversion without scales. A conversion with scales always reads fp32 values and saturates.
constexpr std::array<const char*, 3> other_options{"--from", "--profile", "--saturate"};

bool is_given(const Command& verb, const std::string& option) {
    const std::vector<std::string> given = verb.given();
    return std::find(given.begin(), given.end(), option) != given.end();
}

std::vector<float> floats_of(const StoredArray& array) {
    if (array.shape.size() != 2 || array.count() == 0) {
        throw Error({.what = fmt::format("an array of shape [{}] cannot be scaled", fmt::join(array.shape, ", ")),
                     .where = array.where,
                     .fix = "use an array with at least one row and one column"});
    }
    if (!array.format || *array.format != fp32) {
        throw Error({.what = fmt::format("elements of type '{}' cannot be scaled", array.type),
                     .where = array.where,
                     .fix = "save the array as float32"});
    }
    std::vector<float> values(array.count());
    std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
    return values;
}

StoredArray array_of(const std::string& path) {
    std::vector<StoredArray> arrays = read_arrays(path);
    if (arrays.size() == 1) return std::move(arrays.front());
    throw Error({.what = fmt::format("the file contains {} arrays", arrays.size()),
                 .where = path,
                 .fix = "use an .npy file with one array"});
}

template <class Number>
ZipMember member(std::string_view name, std::string_view type, const std::vector<std::int64_t>& shape,
                 const std::vector<Number>& numbers) {
    std::string bytes = npy_header(type, shape);
    bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number));
    return {fmt::format("{}.npy", name), std::move(bytes)};
}

/// Returns the codes in the smallest NumPy type that holds them.
ZipMember code_member(const Format& format, const std::vector<std::int64_t>& shape,
                      const std::vector<std::uint32_t>& codes) {
    if (format.container_bits() <= 8)
        return member("codes", "|u1", shape, std::vector<std::uint8_t>(codes.begin(), codes.end()));
    if (format.container_bits() <= 16)
        return member("codes", "<u2", shape, std::vector<std::uint16_t>(codes.begin(), codes.end()));
    return member("codes", "<u4", shape, codes);
}

std::string npz_of(const ScaledArray& made, const Format& format, const std::vector<std::int64_t>& shape) {
    const std::vector<std::int64_t> grid{made.grid.rows, made.grid.columns};
    std::vector<ZipMember> members{code_member(format, shape, made.codes), member("scales", "<f4", grid, made.scales)};
    if (!made.scale_codes.empty()) members.push_back(member("scale_codes", "|u1", grid, made.scale_codes));
    if (made.tensor_scale) members.push_back(member("tensor_scale", "<f4", {}, std::vector<float>{*made.tensor_scale}));
    members.push_back(member("decoded", "<f4", shape, made.decoded));
    return stored_zip(members);
}

}  // namespace

void ScaledConversion::add_options(Command& verb) {
    verb.option("IN", input, "With --granularity: .npy file of fp32 numbers, rows by columns").takes(value_kind::file);
    verb.option("--granularity", granularity,
                "Group of elements that share a scale, as in policies. "
                "G is tensor, row, column, 1x128, 128x128, mx32, nvfp4 or nvfp4_16x16. Default: no scaling")
        .takes("G");
    verb.option("-o,--output", output, "With --granularity: write the arrays to this .npz file. Default: none")
        .takes(value_kind::file);
    verb.option("--scale-rule", scale_rule,
                "Rule that computes a scale, as in policies (see macheps policy words). "
                "Default: the usual rule of the granularity")
        .takes("RULE");
    verb.integer("--axis", axis, {0, 1},
                 "Axis along which blocks run. 1 is the last axis. "
                 "0 is the first axis, as in the copies for a backward pass. Default: 1");
}

bool ScaledConversion::is_asked(const Command& verb) const {
    return std::any_of(own_options.begin(), own_options.end(),
                       [&](const char* option) { return is_given(verb, option); });
}

Exit ScaledConversion::run(const Command& verb, const Format& to, Round round, std::uint64_t seed,
                           PropertySet refused) const {
    for (const char* option : other_options) {
        if (!is_given(verb, option)) continue;
        throw usage_error("it has no effect with scales, because the input is fp32 and a scaled cast saturates", option,
                          "leave it out");
    }
    if (granularity.empty())
        throw usage_error("the granularity is missing", "--granularity",
                          "add the group of elements that share a scale, such as --granularity tensor");
    if (input.empty()) throw usage_error("the array is missing", "IN", "add the name of an .npy file");
    if (output.empty())
        throw usage_error("the name of the output file is missing", "--output", "add a name, such as -o codes.npz");
    const StoredArray array = array_of(input);
    const std::vector<float> values = floats_of(array);
    const std::int64_t rows = array.shape[0], columns = array.shape[1];
    const ScaledCast how =
        scaled_cast_of({.format = to,
                        .granularity = granularity,
                        .scale_rule = scale_rule,
                        .axis = is_given(verb, "--axis") ? std::optional(static_cast<int>(axis)) : std::nullopt,
                        .round = round,
                        .key = {seed, 0, site_id("convert")}},
                       rows, columns);
    CpuBackend backend;
    const ScaledArray made = scale_array(backend, how, values, rows, columns);
    UnheldCounts unheld(to, refused);  // scaling changes no property, because scales are positive and finite
    for (std::size_t i = 0; i < values.size(); ++i) unheld.observe(values[i], i, made.codes[i]);
    publish(output, npz_of(made, to, array.shape));
    unheld.tell_notes();
    return Exit::ok;
}

}  // namespace macheps::cmd::convert
