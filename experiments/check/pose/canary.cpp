// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/pose/canary.hpp"

#include "core/codec.hpp"
#include "core/error.hpp"
#include "experiments/check/pose/draws.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace macheps::check {

std::uint64_t canary_code(const Format& format, std::int64_t i) {
    const double size = 1 + Draws(0, "canary", "out").uniform(i);
    return encode64(format, i % 2 == 0 ? size : -size, Round::toward_zero, Overflow::saturate);
}

std::string canary_bytes(const Format& format, std::size_t count) {
    const std::size_t width = files::element_bytes(format);
    std::string bytes(count * width, '\0');
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t code = canary_code(format, static_cast<std::int64_t>(i));
        std::memcpy(bytes.data() + i * width, &code, width);
    }
    return bytes;
}

std::optional<std::int64_t> take_canaries(files::StoredArray& array, const Format& format, std::int64_t rows) {
    if (array.shape.empty() || array.shape.front() <= rows) {
        throw Error({.what = fmt::format("the array has no output before its {} canaries", rows),
                     .where = fmt::format("{} ({})", array.where, array.name),
                     .fix = "save the whole array, including the canaries that make-inputs put after the output"});
    }
    const std::size_t each = array.bytes.size() / static_cast<std::size_t>(array.shape.front()),
                      kept = array.bytes.size() - each * static_cast<std::size_t>(rows);
    // make-inputs fills the whole array `out` with canaries. Canary i is in element i.
    const std::string whole = canary_bytes(format, array.count());
    std::optional<std::int64_t> changed;
    for (std::size_t i = kept / array.width; i < array.count() && !changed; ++i) {
        if (whole.compare(i * array.width, array.width, array.bytes, i * array.width, array.width) != 0)
            changed = static_cast<std::int64_t>(i - kept / array.width);
    }
    array.shape.front() -= rows;
    array.bytes.resize(kept);
    return changed;
}

namespace {

/// Finds the elements of `out` that lie in unused rows of groups and that the kernel overwrote. Returns the index of
/// the first one, or nothing.
std::optional<std::int64_t> changed_padding(const Sample& groups, const std::vector<files::StoredArray>& arrays,
                                            const Format& format) {
    const auto out =
        std::find_if(arrays.begin(), arrays.end(), [](const files::StoredArray& array) { return array.name == "out"; });
    const std::string whole = canary_bytes(format, out->count());
    const std::size_t row = static_cast<std::size_t>(groups.whole_columns()) * out->width;
    for (std::int64_t r = 0; r < groups.whole_rows(); ++r) {
        const std::size_t from = static_cast<std::size_t>(r) * row;
        if (groups.has_row(r) || whole.compare(from, row, out->bytes, from, row) == 0) continue;
        std::size_t at = from;
        while (whole.compare(at, out->width, out->bytes, at, out->width) == 0) at += out->width;
        return static_cast<std::int64_t>(at / out->width);
    }
    return {};
}

}  // namespace

Posed pose_before_canaries(const Declaration& d, std::vector<files::StoredArray> arrays, ThreadPool& pool,
                           const Sampling& sampling) {
    std::optional<std::int64_t> changed;
    const auto declared = d.formats.find("out");
    for (files::StoredArray& array : arrays) {
        if (array.name != "out") continue;
        const bool is_declared = declared != d.formats.end() && declared->second.format.bits != 0;
        // If neither the declaration nor the file gives the format of the output, pose() reports the error.
        if (is_declared || array.format)
            changed = take_canaries(array, is_declared ? declared->second.format : *array.format, d.canaries);
    }
    Declaration rest = d;
    rest.canaries = 0;
    Sampling of_rest = sampling;
    of_rest.reads_in_place = false;  // this function's arrays do not outlive the problem
    Posed posed = pose(rest, arrays, pool, of_rest);
    posed.problem.declaration.canaries = d.canaries;
    posed.problem.changed_canary = changed;
    if (posed.problem.sample && posed.problem.sample->every() == 1)
        posed.problem.changed_padding = changed_padding(*posed.problem.sample, arrays, posed.problem.output);
    return posed;
}

}  // namespace macheps::check
