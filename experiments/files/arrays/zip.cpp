// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/arrays/zip.hpp"

#include "core/error.hpp"
#include "core/host/memory_limit.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace macheps::files {

namespace {

/// Reads a zip archive at offsets that the archive itself contains. Every offset is checked.
class Archive {
  public:
    Archive(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

    [[noreturn]] void fail(std::string what, std::string fix = "save it again") const {
        throw Error({.what = std::move(what), .where = where_, .fix = std::move(fix)});
    }
    std::string_view part(std::uint64_t at, std::uint64_t size) const {
        if (at > bytes_.size() || size > bytes_.size() - at) fail("the zip archive is cut short");
        return bytes_.substr(at, size);
    }
    std::uint64_t number(std::uint64_t at, int size) const {
        const std::string_view text = part(at, static_cast<std::uint64_t>(size));
        std::uint64_t value = 0;
        for (int i = size - 1; i >= 0; --i)
            value = value << 8 | static_cast<unsigned char>(text[static_cast<std::size_t>(i)]);
        return value;
    }
    bool has(std::uint64_t at, std::string_view signature) const {
        return at <= bytes_.size() && bytes_.substr(at).starts_with(signature);
    }
    std::uint64_t size() const { return bytes_.size(); }

  private:
    std::string_view bytes_;
    const std::string& where_;
};

constexpr std::string_view local_header{"PK\x03\x04", 4}, central_header{"PK\x01\x02", 4}, end_record{"PK\x05\x06", 4},
    end_record_64{"PK\x06\x06", 4}, end_locator_64{"PK\x06\x07", 4};
constexpr std::uint64_t in_extra_field = 0xffffffff;  // placeholder for a number that does not fit into 32 bits

struct Directory {
    std::uint64_t at = 0, count = 0;
};

/// Finds the directory from the record at the end of the archive. A comment of up to 65535 bytes may follow the record.
Directory find_directory(const Archive& archive) {
    constexpr std::uint64_t record_bytes = 22, max_comment = 65535;
    if (archive.size() < record_bytes) archive.fail("the zip archive is cut short");
    const std::uint64_t last = archive.size() - record_bytes, first = last - std::min(last, max_comment);
    for (std::uint64_t at = last + 1; at-- > first;) {
        if (!archive.has(at, end_record) || archive.number(at + 20, 2) != archive.size() - at - record_bytes) continue;
        Directory directory{.at = archive.number(at + 16, 4), .count = archive.number(at + 10, 2)};
        if (directory.at != in_extra_field && directory.count != 0xffff) return directory;
        if (at < 20 || !archive.has(at - 20, end_locator_64)) return directory;
        const std::uint64_t wide = archive.number(at - 20 + 8, 8);
        if (!archive.has(wide, end_record_64)) archive.fail("the zip archive has no end record");
        return {.at = archive.number(wide + 48, 8), .count = archive.number(wide + 32, 8)};
    }
    archive.fail("the zip archive is cut short: its directory is missing");
}

using Entry = ZipArchive::Entry;

/// Throws Error if members share bytes with each other or with the directory, or if two members have the same name.
void check_apart(const Archive& archive, const std::vector<Entry>& entries, std::uint64_t directory) {
    std::vector<const Entry*> order;
    for (const Entry& entry : entries) order.push_back(&entry);
    std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) { return a->local < b->local; });
    for (std::size_t i = 0; i < order.size(); ++i) {
        const std::uint64_t begin = order[i]->local, end = order[i]->begin + order[i]->packed;
        if (i + 1 < order.size() && end > order[i + 1]->local)
            archive.fail(fmt::format("'{}' shares bytes with another member", order[i]->name));
        if (begin < directory && end > directory)
            archive.fail(fmt::format("'{}' shares bytes with the directory", order[i]->name));
    }
    std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) { return a->name < b->name; });
    const auto twice = std::adjacent_find(order.begin(), order.end(),
                                          [](const Entry* a, const Entry* b) { return a->name == b->name; });
    if (twice != order.end()) archive.fail(fmt::format("two members are called '{}'", (*twice)->name));
}

/// Reads the directory entry at `at`, and moves `at` past it.
Entry read_entry(const Archive& archive, std::uint64_t& at) {
    if (!archive.has(at, central_header)) archive.fail("the directory of the zip archive is damaged");
    Entry entry{.flags = archive.number(at + 8, 2),
                .method = archive.number(at + 10, 2),
                .checksum = archive.number(at + 16, 4),
                .packed = archive.number(at + 20, 4),
                .size = archive.number(at + 24, 4),
                .local = archive.number(at + 42, 4)};
    const std::uint64_t name = archive.number(at + 28, 2), extra = archive.number(at + 30, 2),
                        comment = archive.number(at + 32, 2);
    entry.name = archive.part(at + 46, name);
    // The extra field with the id 1 (Zip64) contains 64-bit numbers: those of size, packed size and offset that do not
    // fit into 32 bits, in this order.
    for (std::uint64_t field = at + 46 + name, end = field + extra; field + 4 <= end;) {
        const std::uint64_t bytes = archive.number(field + 2, 2);
        if (archive.number(field, 2) == 1) {
            std::uint64_t next = field + 4;
            for (std::uint64_t* value : {&entry.size, &entry.packed, &entry.local}) {
                if (*value != in_extra_field || next + 8 > field + 4 + bytes) continue;
                *value = archive.number(next, 8);
                next += 8;
            }
        }
        field += 4 + bytes;
    }
    at += 46 + name + extra + comment;
    return entry;
}

std::string inflate_member(const Archive& archive, std::string_view packed, const Entry& entry) {
    // Deflate compresses at most 1032 bytes into one. If the archive claims a larger size, the claim is false, and no
    // memory is allocated for it.
    if (entry.size > packed.size() * 1032 + 64)
        archive.fail(
            fmt::format("'{}' claims {} bytes, more than its compressed data can contain", entry.name, entry.size));
    std::string bytes(entry.size, '\0');
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) archive.fail("zlib cannot start", "free some memory");
    // zlib counts bytes in 32 bits, but a member may have 2^32 bytes or more.
    constexpr std::uint64_t block = 1u << 30;
    std::uint64_t in = 0, out = 0;
    char nothing = 0;
    int state = Z_OK;
    while (state == Z_OK) {
        const std::uint64_t some_in = std::min<std::uint64_t>(packed.size() - in, block),
                            some_out = std::min(bytes.size() - out, block);
        stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + in));
        stream.avail_in = static_cast<uInt>(some_in);
        stream.next_out = reinterpret_cast<Bytef*>(some_out == 0 ? &nothing : bytes.data() + out);
        stream.avail_out = static_cast<uInt>(some_out);
        state = inflate(&stream, Z_NO_FLUSH);
        const std::uint64_t read = some_in - stream.avail_in, written = some_out - stream.avail_out;
        in += read;
        out += written;
        if (state == Z_OK && read == 0 && written == 0) state = Z_BUF_ERROR;
    }
    inflateEnd(&stream);
    if (state != Z_STREAM_END || out != bytes.size())
        archive.fail(fmt::format("the compressed data of '{}' is damaged", entry.name));
    return bytes;
}

void append(std::string& text, std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
}

}  // namespace

ZipArchive::ZipArchive(std::string_view bytes, std::string where)
    : bytes_(bytes), where_(std::move(where)), budget_(reading_budget()) {
    const Archive archive(bytes_, where_);
    const Directory directory = find_directory(archive);
    std::uint64_t at = directory.at;
    for (std::uint64_t i = 0; i < directory.count; ++i) {
        Entry entry = read_entry(archive, at);
        if (entry.name.ends_with('/')) continue;
        if (!archive.has(entry.local, local_header))
            archive.fail(fmt::format("'{}' is not where the directory says", entry.name));
        entry.begin = entry.local + 30 + archive.number(entry.local + 26, 2) + archive.number(entry.local + 28, 2);
        (void)archive.part(entry.begin, entry.packed);
        entries_.push_back(std::move(entry));
    }
    check_apart(archive, entries_, directory.at);
}

const ZipArchive::Entry* ZipArchive::find(std::string_view name) const {
    const auto at =
        std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.name == name; });
    return at == entries_.end() ? nullptr : &*at;
}

std::string ZipArchive::read(const Entry& entry) {
    const Archive archive(bytes_, where_);
    if ((entry.flags & 1) != 0)
        archive.fail(fmt::format("'{}' is encrypted", entry.name), "save it without a password");
    if (entry.size > budget_)
        archive.fail(fmt::format("its members have more than {} bytes, half of the memory that macheps may use",
                                 reading_budget()),
                     "save only the arrays that you need");
    const std::string_view packed = archive.part(entry.begin, entry.packed);
    std::string unpacked;
    if (entry.method == 8) {
        unpacked = inflate_member(archive, packed, entry);
    } else if (entry.method != 0) {
        archive.fail(fmt::format("'{}' is compressed with the unsupported method {}", entry.name, entry.method),
                     "use the method `store` or `deflate`");
    } else if (entry.size != entry.packed) {
        archive.fail(fmt::format("'{}' is not compressed, but its two recorded sizes differ", entry.name));
    } else {
        unpacked = packed;
    }
    const auto checksum = crc32_z(0, reinterpret_cast<const Bytef*>(unpacked.data()), unpacked.size());
    if (checksum != entry.checksum) archive.fail(fmt::format("the checksum of '{}' is wrong", entry.name));
    budget_ -= entry.size;
    return unpacked;
}

std::vector<ZipMember> read_zip(std::string_view bytes, const std::string& where) {
    ZipArchive archive(bytes, where);
    std::vector<ZipMember> members;
    for (const ZipArchive::Entry& entry : archive.entries()) members.push_back({entry.name, archive.read(entry)});
    return members;
}

std::string stored_zip(const std::vector<ZipMember>& members) {
    std::string text, directory;
    for (const ZipMember& member : members) {
        if (member.bytes.size() + text.size() > 0xfff00000u) {
            throw Error({.what = "the archive would be larger than 4 GiB",
                         .where = member.name,
                         .fix = "write fewer or smaller arrays",
                         .exit = Exit::usage});
        }
        const auto checksum = crc32_z(0, reinterpret_cast<const Bytef*>(member.bytes.data()), member.bytes.size());
        // Fields that the local header and the directory entry have in common: version 2.0, no flags, stored,
        // 1980-01-01.
        std::string shared;
        append(shared, 20, 2);
        append(shared, 0, 4);
        append(shared, 0x00210000, 4);
        append(shared, checksum, 4);
        append(shared, member.bytes.size(), 4);
        append(shared, member.bytes.size(), 4);
        append(shared, member.name.size(), 2);
        append(shared, 0, 2);
        directory += std::string(central_header) + std::string("\x14\x00", 2) + shared + std::string(10, '\0');
        append(directory, text.size(), 4);
        directory += member.name;
        text += std::string(local_header) + shared + member.name + member.bytes;
    }
    const std::size_t at = text.size();
    text += directory + std::string(end_record) + std::string(4, '\0');
    append(text, members.size(), 2);
    append(text, members.size(), 2);
    append(text, directory.size(), 4);
    append(text, at, 4);
    append(text, 0, 2);
    return text;
}

}  // namespace macheps::files
