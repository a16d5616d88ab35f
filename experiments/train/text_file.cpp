// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "core/rng.hpp"
#include "experiments/train/data.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

namespace macheps {

TextFile::TextFile(const std::filesystem::path& path, std::int64_t context) : path_(path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) {
        throw Error({.what = "this is a directory", .where = path.string(), .fix = "name a text file"});
    }
    std::ifstream in(path, std::ios::binary);
    if (!in)
        throw Error({.what = fmt::format("cannot read it: {}", std::strerror(errno)),
                     .where = path.string(),
                     .fix = "check the path given to --data"});
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    if (in.bad()) throw Error({.what = "reading failed half-way", .where = path.string(), .fix = "check the disk"});
    train_bytes_ = bytes_.size() - bytes_.size() / 10;
    const auto needed = static_cast<std::size_t>(context + 1);
    if (bytes_.size() - train_bytes_ < needed) {
        throw Error(
            {.what = fmt::format("{} bytes are too few for a context of {}", bytes_.size(), context),
             .where = path.string(),
             .fix = fmt::format("give at least {} bytes (a tenth is held out), or a smaller --context", 10 * needed)});
    }
}

Batch TextFile::batch(Split split, std::uint64_t seed, std::uint32_t step, std::int64_t batch,
                      std::int64_t context) const {
    const std::size_t first = split == Split::train ? 0 : train_bytes_;
    const std::size_t size = split == Split::train ? train_bytes_ : bytes_.size() - train_bytes_;
    const std::uint64_t places = size - static_cast<std::size_t>(context);
    const RngKey key{seed, step, site_id(split == Split::train ? "data.train" : "data.held_out")};
    Batch out;
    for (std::int64_t sample = 0; sample < batch; ++sample) {
        const PhiloxBlock random = random_block(key, static_cast<std::uint64_t>(sample));
        const std::uint64_t word = std::uint64_t{random.word[0]} << 32 | random.word[1];
        const auto* start = bytes_.data() + first + word % places;
        out.tokens.insert(out.tokens.end(), start, start + context);
        out.targets.insert(out.targets.end(), start + 1, start + context + 1);
    }
    out.entropy_floor = std::numeric_limits<double>::quiet_NaN();
    return out;
}

std::string TextFile::describe() const {
    return fmt::format("{} ({} bytes, the last tenth held out)", path_.filename().string(), bytes_.size());
}

}  // namespace macheps
