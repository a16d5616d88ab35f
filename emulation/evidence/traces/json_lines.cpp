// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/traces/json_lines.hpp"

#include "core/host/publish.hpp"
#include "core/host/read_file.hpp"
#include "core/text/nesting.hpp"

#if defined(MACHEPS_HAS_ZSTD)
#include <zstd.h>
#endif

#include <memory>

namespace macheps::evidence {

namespace fs = std::filesystem;

namespace {

constexpr std::uintmax_t max_bytes = std::uintmax_t{64} << 20;  // maximum size of a file, compressed or not

constexpr const char* again = "record it again, or copy the file again from its source";

/// Returns the 64-bit FNV-1a hash. It detects accidents and careless edits, but it is not a signature.
std::uint64_t digest_of(std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return hash;
}

#if defined(MACHEPS_HAS_ZSTD)
std::string compressed(const std::string& text) {
    const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
    std::string out(ZSTD_compressBound(text.size()), '\0');
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, 19);
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
    const std::size_t size = ZSTD_compress2(context.get(), out.data(), out.size(), text.data(), text.size());
    if (ZSTD_isError(size) != 0)
        throw Error({.what = fmt::format("zstd: {}", ZSTD_getErrorName(size)), .exit = Exit::cannot_write});
    out.resize(size);
    return out;
}

/// Decompresses exactly one frame.
std::string decompressed(const std::string& bytes, const std::string& where) {
    const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
    std::string out, part(ZSTD_DStreamOutSize(), '\0');
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    std::size_t left = 1;
    while (left != 0) {
        ZSTD_outBuffer to{part.data(), part.size(), 0};
        const std::size_t before = in.pos;
        left = ZSTD_decompressStream(context.get(), &to, &in);
        if (ZSTD_isError(left) != 0)
            bad_json_lines(fmt::format("the file is damaged: zstd reports {}", ZSTD_getErrorName(left)), where);
        out.append(part.data(), to.pos);
        if (out.size() > max_bytes) bad_json_lines("the file has more than 64 MiB", where);
        if (left != 0 && to.pos == 0 && in.pos == before) bad_json_lines("the compressed data ends early", where);
    }
    if (in.pos != in.size) bad_json_lines("there is further data after the compressed data", where);
    return out;
}
#endif

}  // namespace

bool has_zstd() {
#if defined(MACHEPS_HAS_ZSTD)
    return true;
#else
    return false;
#endif
}

void bad_json_lines(std::string what, std::string where) {
    throw Error({.what = std::move(what), .where = std::move(where), .fix = again});
}

std::string json_lines_digest(const Json& header, std::string_view lines) {
    return fmt::format("{:016x}", digest_of(header.dump() + '\n' + std::string(lines)));
}

std::string json_lines_text(Json header, std::string_view lines) {
    header["digest"] = json_lines_digest(header, lines);
    return header.dump() + '\n' + std::string(lines);
}

Json parse_json_line(std::string_view line, const std::string& where) {
    Json object;
    if (line_nested_too_deep(line))
        bad_json_lines(fmt::format("the line is nested deeper than {} levels", max_levels), where);
    try {
        object = Json::parse(line);
    } catch (const JsonError& error) {
        bad_json_lines(error.byte() == 0 ? std::string(error.what())
                                         : fmt::format("the line is not valid JSON at byte {}", error.byte()),
                       where);
    }
    if (!object.is_object()) bad_json_lines("the line is not a JSON object", where);
    return object;
}

Json json_lines_header(std::string_view text, const std::string& where) {
    const std::string first = where + ":1";
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) bad_json_lines("the header is missing", first);
    Json header = parse_json_line(text.substr(0, end), first);
    const auto digest = json_field<std::string>(header, "digest", first);
    header.erase("digest");
    if (json_lines_digest(header, text.substr(end + 1)) != digest)
        bad_json_lines("the digest does not match: a line was changed after the recording", first);
    return header;
}

fs::path write_json_lines(const fs::path& folder, const std::string& name, const std::string& text) {
    std::error_code error;
    fs::create_directories(folder, error);
    const fs::path file = folder / (name + (has_zstd() ? ".jsonl.zst" : ".jsonl"));
#if defined(MACHEPS_HAS_ZSTD)
    publish(file, compressed(text));
#else
    publish(file, text);
#endif
    return file;
}

std::string read_json_lines(const fs::path& file) {
    std::string text = read_file(file, max_bytes);
    if (file.extension() != ".zst") return text;
#if defined(MACHEPS_HAS_ZSTD)
    return decompressed(text, file.string());
#else
    throw Error({.what = "macheps was built without zstd", .where = file.string(), .fix = "unpack it: zstd -d FILE"});
#endif
}

}  // namespace macheps::evidence
