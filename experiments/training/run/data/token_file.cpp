// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "core/field_error.hpp"
#include "core/math64.hpp"
#include "core/rng.hpp"
#include "experiments/training/run/data/data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

namespace macheps::training {

static_assert(std::endian::native == std::endian::little, "tokens are copied from little-endian files");

namespace {

constexpr std::size_t llmc_header_bytes = 256 * sizeof(std::int32_t);
constexpr std::size_t block_tokens = 1 << 14;  // tokens read at a time

constexpr std::string_view data_format_names[] = {"auto", "text", "llmc", "nanogpt"};

/// A kind of llm.c data file. The first two numbers of the header are `magic` and `version`; the third is the number of
/// tokens.
struct LlmcKind {
    std::int32_t magic, version;
    int token_bytes;
};
constexpr LlmcKind llmc_kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};
constexpr std::int32_t llmc_evaluation_magic = 20240522;  // a file of multiple-choice questions, not of tokens

template <class T>
T load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

/// Returns the first bytes of a file: as many as llm.c's header has, or all bytes of a shorter file.
std::vector<std::byte> head_of(const files::FileBytes& file) {
    std::vector<std::byte> head(std::min(file.size(), llmc_header_bytes));
    file.read(0, head);
    return head;
}

DataFormat recognise(const files::FileBytes& file) {
    const std::vector<std::byte> head = head_of(file);
    const std::int32_t magic = head.size() < sizeof(std::int32_t) ? 0 : load<std::int32_t>(head.data());
    for (const LlmcKind& kind : llmc_kinds) {
        if (magic == kind.magic) return DataFormat::llmc;
    }
    if (magic == llmc_evaluation_magic) return DataFormat::llmc;  // check_llmc() then reports an evaluation file
    return file.name().ends_with(".bin") ? DataFormat::nanogpt : DataFormat::text;
}

[[noreturn]] void refuse(const std::string& name, std::string what, std::string fix) {
    throw Error({.what = std::move(what), .where = name, .fix = std::move(fix)});
}

/// Checks llm.c's header and returns the number of bytes per token. Throws Error if the header is invalid or
/// contradicts the size of the file.
int check_llmc(const files::FileBytes& file) {
    const std::string& name = file.name();
    const std::vector<std::byte> head = head_of(file);
    const std::string fix = "create the file again with llm.c's dev/data scripts, or set its format with `data_format`";
    if (head.size() < llmc_header_bytes) {
        refuse(name, fmt::format("the file has {} bytes, but llm.c's header has {}", head.size(), llmc_header_bytes),
               fix);
    }
    const auto field = [&](std::size_t i) { return load<std::int32_t>(head.data() + i * sizeof(std::int32_t)); };
    if (field(0) == llmc_evaluation_magic) {
        refuse(name, "this is an evaluation file of llm.c, which contains questions", "pass a file of tokens");
    }
    for (const LlmcKind& kind : llmc_kinds) {
        if (field(0) != kind.magic) continue;
        if (field(1) != kind.version) {
            refuse(name,
                   fmt::format("the version at byte 4 is {}, but it must be {} for magic {}", field(1), kind.version,
                               kind.magic),
                   fix);
        }
        const std::size_t content = file.size() - llmc_header_bytes;
        if (field(2) < 0 || static_cast<std::size_t>(field(2)) * kind.token_bytes != content) {
            refuse(name,
                   fmt::format("the header says (at byte 8) that {} tokens of {} bytes follow, but {} bytes follow",
                               field(2), kind.token_bytes, content),
                   fix);
        }
        return kind.token_bytes;
    }
    refuse(name,
           fmt::format("the magic at byte 0 is {}, not llm.c's {} or {}", field(0), llmc_kinds[0].magic,
                       llmc_kinds[1].magic),
           fix);
}

}  // namespace

std::string_view to_string(DataFormat format) { return data_format_names[static_cast<std::size_t>(format)]; }

DataFormat parse_data_format(std::string_view name) {
    for (std::size_t i = 0; i < std::size(data_format_names); ++i) {
        if (name == data_format_names[i]) return static_cast<DataFormat>(i);
    }
    throw FieldError("data_format", fmt::format("'{}' is not a valid data format", name),
                     "use auto, text, llmc or nanogpt");
}

TokenStream TokenStream::open(const std::filesystem::path& path, DataFormat format) {
    return parse(files::FileBytes(path), format);
}

TokenStream TokenStream::parse(std::span<const std::byte> bytes, const std::string& name, DataFormat format) {
    return parse(files::FileBytes(bytes, name), format);
}

TokenStream TokenStream::parse(files::FileBytes file, DataFormat format) {
    TokenStream s;
    s.file_ = std::move(file);
    const std::string& name = s.name();
    const std::size_t bytes = s.file_.size();
    if (bytes == 0) refuse(name, "the file is empty", "pass a file with text or tokens");
    s.format_ = format == DataFormat::automatic ? recognise(s.file_) : format;
    if (s.format_ == DataFormat::llmc) {
        s.token_bytes_ = check_llmc(s.file_);
        s.header_bytes_ = llmc_header_bytes;
    } else if (s.format_ == DataFormat::nanogpt) {
        s.token_bytes_ = 2;
        if (bytes % 2 != 0) {
            refuse(name, fmt::format("{} bytes are not a whole number of uint16 tokens", bytes),
                   "check that the file is complete, or set its format with `data_format`");
        }
    }
    s.size_ = (bytes - s.header_bytes_) / static_cast<std::size_t>(s.token_bytes_);
    if (s.size_ == 0) refuse(name, "the file contains no tokens", "pass a file with text or tokens");
    if (s.token_bytes_ > 1) s.vocabulary_ = s.largest_token() + 1;
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    if (s.vocabulary_ > most) s.check(most);
    return s;
}

/// Calls visit(i, token) for `count` tokens, starting at index `first`. The file must have these tokens.
template <class Visitor>
void TokenStream::for_each_token(std::size_t first, std::size_t count, Visitor&& visit) const {
    const auto width = static_cast<std::size_t>(token_bytes_), last = first + count;
    std::vector<std::byte> block(std::min<std::size_t>(count, block_tokens) * width);
    for (std::size_t begin = first; begin < last; begin += block_tokens) {
        const std::size_t end = std::min(last, begin + block_tokens);
        file_.read(header_bytes_ + begin * width, std::span(block).first((end - begin) * width));
        const std::byte* at = block.data();
        for (std::size_t i = begin; i < end; ++i, at += width) {
            visit(i, width == 1   ? std::to_integer<std::int64_t>(*at)
                     : width == 2 ? std::int64_t{load<std::uint16_t>(at)}
                                  : std::int64_t{load<std::uint32_t>(at)});
        }
    }
}

std::int64_t TokenStream::largest_token() const {
    std::int64_t most = 0;
    for_each_token(0, size_, [&](std::size_t, std::int64_t token) { most = max_of(most, token); });
    return most;
}

void TokenStream::refuse_token(std::size_t i, std::int64_t token, std::int64_t vocabulary) const {
    refuse(name(),
           fmt::format("token {} at byte {} is outside the vocabulary of {}", token,
                       header_bytes_ + i * static_cast<std::size_t>(token_bytes_), vocabulary),
           "use a larger `vocabulary`, or remove it: its default is the largest token plus one");
}

void TokenStream::append(std::size_t first, std::size_t count, std::vector<std::int32_t>& out,
                         std::int64_t vocabulary) const {
    for_each_token(first, count, [&](std::size_t i, std::int64_t token) {
        if (token >= vocabulary) refuse_token(i, token, vocabulary);
        out.push_back(static_cast<std::int32_t>(token));
    });
}

void TokenStream::check(std::int64_t vocabulary) const {
    if (vocabulary >= vocabulary_) return;
    if (format_ == DataFormat::text) {  // any byte may occur, so the text itself is not read
        throw FieldError("vocabulary",
                         fmt::format("a text has 256 different tokens (bytes), but the model has {}", vocabulary),
                         "remove it, or use 256");
    }
    for_each_token(0, size_, [&](std::size_t i, std::int64_t token) {
        if (token >= vocabulary) refuse_token(i, token, vocabulary);
    });
}

std::string TokenStream::describe() const {
    const std::string file = std::filesystem::path(name()).filename().string();
    if (format_ == DataFormat::text) return fmt::format("{} ({} bytes", file, size_);
    return fmt::format("{} ({} {} tokens of {}", file, size_, token_bytes_ == 2 ? "uint16" : "uint32",
                       to_string(format_));
}

TokenFile::TokenFile(const DataFiles& files, std::int64_t context)
    : train_(TokenStream::open(files.train, files.format)) {
    if (!files.held_out.empty()) held_out_ = TokenStream::open(files.held_out, files.format);
    train_size_ = held_out_ ? train_.size() : train_.size() - train_.size() / 10;
    const auto needed = static_cast<std::size_t>(context + 1);
    const auto too_few = [&](const TokenStream& stream, const std::string& fix) {
        refuse(stream.name(),
               fmt::format("{} {} are too few for a context of {}", stream.size(),
                           stream.format() == DataFormat::text ? "bytes" : "tokens", context),
               fix);
    };
    if (held_out_) {
        for (const TokenStream* stream : {&train_, &*held_out_}) {
            if (stream->size() < needed)
                too_few(*stream, fmt::format("use at least {}, or a smaller `context`", needed));
        }
    } else if (train_.size() - train_size_ < needed) {
        too_few(train_, fmt::format("use at least {} (a tenth is held out), or a smaller `context`", 10 * needed));
    }
}

std::int64_t TokenFile::vocabulary() const {
    return held_out_ ? max_of(train_.vocabulary(), held_out_->vocabulary()) : train_.vocabulary();
}

void TokenFile::check(std::int64_t vocabulary) const {
    train_.check(vocabulary);
    if (held_out_) held_out_->check(vocabulary);
}

Batch TokenFile::batch(Split split, std::uint64_t seed, std::uint32_t step, std::int64_t batch,
                       std::int64_t context) const {
    const bool from_tail = split == Split::held_out && !held_out_;
    const TokenStream& stream = split == Split::held_out && held_out_ ? *held_out_ : train_;
    const std::size_t first = from_tail ? train_size_ : 0;
    const std::size_t size = split == Split::train ? train_size_ : stream.size() - first;
    const auto length = static_cast<std::size_t>(context);
    const std::uint64_t places = size - length;
    const RngKey key{seed, step, site_id(split == Split::train ? "data.train" : "data.held_out")};
    const std::int64_t most = vocabulary();
    Batch out;
    for (std::int64_t sample = 0; sample < batch; ++sample) {
        const PhiloxBlock random = random_block(key, static_cast<std::uint64_t>(sample));
        const std::uint64_t word = std::uint64_t{random.word[0]} << 32 | random.word[1];
        const std::size_t start = first + static_cast<std::size_t>(word % places);
        stream.append(start, length, out.tokens, most);
        stream.append(start + 1, length, out.targets, most);
    }
    out.entropy_floor = std::numeric_limits<double>::quiet_NaN();
    return out;
}

std::string TokenFile::describe() const {
    if (!held_out_) return train_.describe() + ", the last tenth held out)";
    return train_.describe() + "), held out: " + held_out_->describe() + ")";
}

std::int64_t vocabulary_of(const DataFiles& files) {
    const std::int64_t train = TokenStream::open(files.train, files.format).vocabulary();
    if (files.held_out.empty()) return train;
    return max_of(train, TokenStream::open(files.held_out, files.format).vocabulary());
}

std::unique_ptr<Data> open_data(const DataFiles& files, std::int64_t vocabulary, std::int64_t context) {
    if (files.train.empty()) return std::make_unique<SyntheticLanguage>(vocabulary);
    auto data = std::make_unique<TokenFile>(files, context);
    data->check(vocabulary);
    return data;
}

}  // namespace macheps::training
