// SPDX-License-Identifier: Apache-2.0
#include "emulation/verify/trace.hpp"

#include "core/error.hpp"
#include "core/json.hpp"
#include "core/nesting.hpp"
#include "core/publish.hpp"
#include "core/read_file.hpp"

#include <fmt/format.h>

#if defined(MACHEPS_HAS_ZSTD)
#include <zstd.h>
#endif

#include <algorithm>
#include <charconv>
#include <memory>

namespace macheps::verify {

namespace fs = std::filesystem;

namespace {

constexpr std::uintmax_t most_bytes = std::uintmax_t{64} << 20;  // of a file, compressed or not

[[noreturn]] void bad(std::string what, std::string where, std::string fix) {
    throw Error({.what = std::move(what), .where = std::move(where), .fix = std::move(fix)});
}

/// FNV-1a over 64 bits: finds accidents and careless edits; it is no signature.
std::uint64_t digest_of(std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return hash;
}

constexpr const char* again = "record it again, or take the file from where it came";

bool is_of_cpu(const TraceForm& form) { return is_cpu_unit({.arch = form.arch}); }

/// Everything but the digest.
Json header_of(const Trace& trace) {
    Json refuted = Json::object();
    for (const auto& [name, rows] : trace.refuted) refuted[name] = rows;
    Json header{{"macheps_trace", trace_schema},
                {"instruction", trace.form.instr + "." + trace.form.qual},
                {"arch", trace.form.arch},
                {"instr", trace.form.instr},
                {"qual", trace.form.qual},
                {"machine", trace.machine}};
    if (is_of_cpu(trace.form)) {
        header["cpu"] = trace.gpu;
        header["microcode"] = trace.microcode;
        header["os"] = trace.driver;
        header["compiler"] = trace.toolkit;
    } else {
        header["gpu"] = trace.gpu;
        header["driver"] = trace.driver;
        header["toolkit"] = trace.toolkit;
        header["sass_expected"] = trace.sass;
    }
    header["date"] = trace.date;
    header["seed"] = trace.seed;
    header["rows"] = trace.rows.size();
    header["refuted"] = refuted;
    return header;
}

std::string digest_text(const Json& header, std::string_view rows) {
    return fmt::format("{:016x}", digest_of(header.dump() + '\n' + std::string(rows)));
}

template <class T>
T field(const Json& object, const char* key, const std::string& where) {
    const Json* found = object.find(key);
    if (found == nullptr) bad(fmt::format("no \"{}\"", key), where, again);
    try {
        return found->get<T>();
    } catch (const JsonError&) {
        bad(fmt::format("\"{}\" is of another kind", key), where, again);
    }
}

Json parse_object(std::string_view line, const std::string& where) {
    Json object;
    if (line_nested_too_deep(line)) bad(fmt::format("it nests deeper than {} levels", most_levels), where, again);
    try {
        object = Json::parse(line);
    } catch (const JsonError& error) {
        bad(error.byte() == 0 ? std::string(error.what()) : fmt::format("no JSON: byte {}", error.byte()), where,
            again);
    }
    if (!object.is_object()) bad("no JSON object", where, again);
    return object;
}

std::uint64_t code_of(const Json& value, const Format& format, const char* key, const std::string& where) {
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    std::uint64_t code = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code, 16);
    const int digits = (format.container_bits() + 3) / 4;
    if (error != std::errc{} || end != text.data() + text.size() || static_cast<int>(text.size()) != digits)
        bad(fmt::format("\"{}\" holds no code of {} digits", key, digits), where, again);
    return code;
}

std::vector<std::uint64_t> codes_of(const Json& row, const char* key, const Format& format, int count,
                                    const std::string& where) {
    const Json* found = row.find(key);
    if (found == nullptr || !found->is_array() || static_cast<int>(found->size()) != count)
        bad(fmt::format("\"{}\" holds not {} codes", key, count), where, again);
    std::vector<std::uint64_t> codes;
    for (const Json& value : *found) codes.push_back(code_of(value, format, key, where));
    return codes;
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

/// One frame, no more and no less.
std::string decompressed(const std::string& bytes, const std::string& where) {
    const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
    std::string out, part(ZSTD_DStreamOutSize(), '\0');
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    std::size_t left = 1;
    while (left != 0) {
        ZSTD_outBuffer to{part.data(), part.size(), 0};
        const std::size_t before = in.pos;
        left = ZSTD_decompressStream(context.get(), &to, &in);
        if (ZSTD_isError(left) != 0) bad(fmt::format("damaged: zstd says {}", ZSTD_getErrorName(left)), where, again);
        out.append(part.data(), to.pos);
        if (out.size() > most_bytes) bad("too large for a trace", where, "a trace has less than 64 MiB");
        if (left != 0 && to.pos == 0 && in.pos == before) bad("cut off: the compressed data ends early", where, again);
    }
    if (in.pos != in.size) bad("something follows the compressed data", where, again);
    return out;
}
#endif

}  // namespace

bool is_sparse(const TraceForm& form) { return form.instr.ends_with(".sp"); }

Instruction row_instruction(const TraceForm& form, std::string_view where) {
    if (!is_sparse(form)) return find_instruction(form.arch, form.instr, form.qual, where);
    std::string qual = form.qual;
    if (const std::size_t at = qual.find('k'); at != std::string::npos) {  // half of the products that the shape counts
        int k = 0;
        const char* const digits = qual.data() + at + 1;
        const char* const end = std::from_chars(digits, qual.data() + qual.size(), k).ptr;
        qual.replace(at + 1, static_cast<std::size_t>(end - digits), std::to_string(k / 2));
    }
    return find_instruction(form.arch, form.instr.substr(0, form.instr.size() - 3), qual, where);
}

std::string trace_file_name(const TraceForm& form) {
    return fmt::format("{}.{}.{}.jsonl{}", form.arch, form.instr, form.qual, has_zstd() ? ".zst" : "");
}

std::string trace_text(const Trace& trace) {
    std::string rows;
    for (const TraceRow& row : trace.rows) rows += row_text(trace.form, row) + '\n';
    Json header = header_of(trace);
    header["digest"] = digest_text(header, rows);
    return header.dump() + '\n' + rows;
}

Trace parse_trace(std::string_view text, const std::string& where) {
    const std::string first = where + ":1";
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos)
        bad("no header", first, "a trace begins with a line {\"macheps_trace\": 1, ...}");
    Json header = parse_object(text.substr(0, end), first);
    if (!header.contains("macheps_trace"))
        bad("no header of a trace", first, "a trace begins with a line {\"macheps_trace\": 1, ...}");
    const int schema = field<int>(header, "macheps_trace", first);
    if (schema != trace_schema) {
        bad(fmt::format("a trace of version {}", schema), first,
            fmt::format("this macheps reads version {}", trace_schema));
    }
    Trace trace;
    trace.form.arch = field<std::string>(header, "arch", first);
    trace.form.instr = field<std::string>(header, "instr", first);
    trace.form.qual = field<std::string>(header, "qual", first);
    trace.machine = field<std::string>(header, "machine", first);
    const bool of_cpu = is_of_cpu(trace.form);
    trace.gpu = field<std::string>(header, of_cpu ? "cpu" : "gpu", first);
    trace.driver = field<std::string>(header, of_cpu ? "os" : "driver", first);
    trace.toolkit = field<std::string>(header, of_cpu ? "compiler" : "toolkit", first);
    (of_cpu ? trace.microcode : trace.sass) =
        field<std::string>(header, of_cpu ? "microcode" : "sass_expected", first);
    trace.date = field<std::string>(header, "date", first);
    trace.seed = field<std::uint64_t>(header, "seed", first);
    const auto count = field<std::size_t>(header, "rows", first);
    const auto digest = field<std::string>(header, "digest", first);
    const auto refuted = field<Json>(header, "refuted", first);
    for (const auto& [name, rows] : refuted.items()) {
        if (!rows.is_number_integer()) bad("\"refuted\" is of another kind", first, again);
        trace.refuted.emplace_back(name, rows.get<int>());
    }
    const Instruction instruction = row_instruction(trace.form, first);
    if (instruction.machine->has_scales()) bad("traces of block-scaled forms are not known", first, again);
    trace.form.a = instruction.a;
    trace.form.b = instruction.b;
    trace.form.c = instruction.machine->result;
    trace.form.any_nan = !instruction.machine->fixes_nan();

    std::string_view rest = text.substr(end + 1);
    std::size_t number = 1;
    while (!rest.empty()) {
        const std::string here = fmt::format("{}:{}", where, ++number);
        const std::size_t stop = rest.find('\n');
        if (stop == std::string_view::npos) bad("cut off: the last line has no end", here, again);
        const Json row = parse_object(rest.substr(0, stop), here);
        rest.remove_prefix(stop + 1);
        if (field<std::string>(row, "arch", here) != trace.form.arch ||
            field<std::string>(row, "instr", here) != trace.form.instr ||
            field<std::string>(row, "qual", here) != trace.form.qual)
            bad("a row of another instruction", here, again);
        TraceRow out{.cls = field<std::string>(row, "cls", here)};
        out.a = codes_of(row, "a", trace.form.a, instruction.k, here);
        out.b = codes_of(row, "b", trace.form.b, instruction.k, here);
        out.c = code_of(row.contains("c") ? row["c"] : Json(), trace.form.c, "c", here);
        const Json d = row.contains("d") ? row["d"] : Json();
        out.d = trace.form.any_nan && d == "nan" ? trace.form.c.nan_code() : code_of(d, trace.form.c, "d", here);
        trace.rows.push_back(std::move(out));
    }
    if (trace.rows.size() != count) {
        bad(fmt::format("{} rows, where the header says {}", trace.rows.size(), count),
            fmt::format("{}:{}", where, number), again);
    }
    header.erase("digest");
    if (digest_text(header, text.substr(end + 1)) != digest)
        bad("the digest does not fit: a line was changed since it was recorded", first, again);
    return trace;
}

bool has_zstd() {
#if defined(MACHEPS_HAS_ZSTD)
    return true;
#else
    return false;
#endif
}

fs::path write_trace(const Trace& trace, const fs::path& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    const fs::path file = folder / trace_file_name(trace.form);
    std::string bytes = trace_text(trace);
#if defined(MACHEPS_HAS_ZSTD)
    bytes = compressed(bytes);
#endif
    publish(file, bytes);
    return file;
}

Trace read_trace(const fs::path& file) {
    std::string text = read_file(file, most_bytes);
    if (file.extension() == ".zst") {
#if defined(MACHEPS_HAS_ZSTD)
        text = decompressed(text, file.string());
#else
        bad("this macheps was built without zstd", file.string(), "unpack it: zstd -d FILE");
#endif
    }
    return parse_trace(text, file.string());
}

std::vector<fs::path> trace_files(const fs::path& folder) {
    std::error_code error;
    if (!fs::is_directory(folder, error))
        bad("no such folder", folder.string(), "name a folder that holds traces (*.jsonl.zst)");
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
        const std::string name = entry.path().filename().string();
        if (entry.is_regular_file() && (name.ends_with(".jsonl.zst") || name.ends_with(".jsonl")))
            files.push_back(entry);
    }
    if (error) bad("cannot read the folder", folder.string(), error.message());
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace macheps::verify
