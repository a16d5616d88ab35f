// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/traces/trace.hpp"

#include "core/error.hpp"
#include "core/host/read_file.hpp"
#include "core/text/json.hpp"
#include "emulation/evidence/traces/json_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace macheps::evidence {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void bad(std::string what, std::string where, std::string fix) {
    throw Error({.what = std::move(what), .where = std::move(where), .fix = std::move(fix)});
}

bool is_of_cpu(const TraceForm& form) { return is_cpu_unit({.arch = form.arch}); }

/// Returns the header without the digest.
Json header_of(const Trace& trace) {
    Json refuted = Json::object();
    for (const auto& [name, rows] : trace.refuted) refuted[name] = rows;
    Json header{{"macheps_trace", trace_schema}, {"instruction", trace.form.instr + "." + trace.form.qual},
                {"arch", trace.form.arch},       {"instr", trace.form.instr},
                {"qual", trace.form.qual},       {"machine", trace.machine}};
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

std::uint64_t code_of(const Json& value, const Format& format, const char* key, const std::string& where) {
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    std::uint64_t code = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code, 16);
    const int digits = (format.container_bits() + 3) / 4;
    if (error != std::errc{} || end != text.data() + text.size() || static_cast<int>(text.size()) != digits)
        bad_json_lines(fmt::format("\"{}\" does not contain a code of {} digits", key, digits), where);
    return code;
}

std::vector<std::uint64_t> codes_of(const Json& row, const char* key, const Format& format, int count,
                                    const std::string& where) {
    const Json* found = row.find(key);
    if (found == nullptr || !found->is_array() || static_cast<int>(found->size()) != count)
        bad_json_lines(fmt::format("\"{}\" does not contain {} codes", key, count), where);
    std::vector<std::uint64_t> codes;
    for (const Json& value : *found) codes.push_back(code_of(value, format, key, where));
    return codes;
}

}  // namespace

bool is_sparse(const TraceForm& form) { return form.instr.ends_with(".sp"); }

Instruction row_instruction(const TraceForm& form, std::string_view where) {
    if (!is_sparse(form)) return find_instruction(form.arch, form.instr, form.qual, where);
    std::string qual = form.qual;
    if (const std::size_t at = qual.find('k'); at != std::string::npos) {  // the dense form has half of this k
        int k = 0;
        const char* const digits = qual.data() + at + 1;
        const char* const end = std::from_chars(digits, qual.data() + qual.size(), k).ptr;
        qual.replace(at + 1, static_cast<std::size_t>(end - digits), std::to_string(k / 2));
    }
    return find_instruction(form.arch, form.instr.substr(0, form.instr.size() - 3), qual, where);
}

std::string trace_name(const TraceForm& form) { return fmt::format("{}.{}.{}", form.arch, form.instr, form.qual); }

std::string trace_text(const Trace& trace) {
    std::string rows;
    for (const TraceRow& row : trace.rows) rows += row_text(trace.form, row) + '\n';
    return json_lines_text(header_of(trace), rows);
}

Trace parse_trace(std::string_view text, const std::string& where) {
    const std::string first = where + ":1";
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos)
        bad("the header is missing", first, "use a trace, which begins with a line {\"macheps_trace\": 1, ...}");
    Json header = parse_json_line(text.substr(0, end), first);
    if (!header.contains("macheps_trace"))
        bad("the first line is not the header of a trace", first,
            "use a trace, which begins with a line {\"macheps_trace\": 1, ...}");
    const int schema = json_field<int>(header, "macheps_trace", first);
    if (schema != trace_schema) {
        bad(fmt::format("the trace has version {}", schema), first,
            fmt::format("use a trace of version {}", trace_schema));
    }
    Trace trace;
    trace.form.arch = json_field<std::string>(header, "arch", first);
    trace.form.instr = json_field<std::string>(header, "instr", first);
    trace.form.qual = json_field<std::string>(header, "qual", first);
    trace.machine = json_field<std::string>(header, "machine", first);
    const bool of_cpu = is_of_cpu(trace.form);
    trace.gpu = json_field<std::string>(header, of_cpu ? "cpu" : "gpu", first);
    trace.driver = json_field<std::string>(header, of_cpu ? "os" : "driver", first);
    trace.toolkit = json_field<std::string>(header, of_cpu ? "compiler" : "toolkit", first);
    (of_cpu ? trace.microcode : trace.sass) =
        json_field<std::string>(header, of_cpu ? "microcode" : "sass_expected", first);
    trace.date = json_field<std::string>(header, "date", first);
    trace.seed = json_field<std::uint64_t>(header, "seed", first);
    const auto count = json_field<std::size_t>(header, "rows", first);
    const auto digest = json_field<std::string>(header, "digest", first);
    const auto refuted = json_field<Json>(header, "refuted", first);
    for (const auto& [name, rows] : refuted.items()) {
        if (!rows.is_number_integer()) bad_json_lines("\"refuted\" does not have the expected type", first);
        trace.refuted.emplace_back(name, rows.get<int>());
    }
    const Instruction instruction = row_instruction(trace.form, first);
    if (instruction.machine->has_scales()) bad_json_lines("traces of block-scaled forms are not supported", first);
    trace.form.a = instruction.a;
    trace.form.b = instruction.b;
    trace.form.c = instruction.machine->result;
    trace.form.any_nan = !instruction.machine->fixes_nan();

    std::string_view rest = text.substr(end + 1);
    std::size_t number = 1;
    while (!rest.empty()) {
        const std::string here = fmt::format("{}:{}", where, ++number);
        const std::size_t stop = rest.find('\n');
        if (stop == std::string_view::npos) bad_json_lines("the last line is cut off", here);
        const Json row = parse_json_line(rest.substr(0, stop), here);
        rest.remove_prefix(stop + 1);
        if (json_field<std::string>(row, "arch", here) != trace.form.arch ||
            json_field<std::string>(row, "instr", here) != trace.form.instr ||
            json_field<std::string>(row, "qual", here) != trace.form.qual)
            bad_json_lines("the row is for another instruction", here);
        TraceRow out{.cls = json_field<std::string>(row, "cls", here)};
        out.a = codes_of(row, "a", trace.form.a, instruction.k, here);
        out.b = codes_of(row, "b", trace.form.b, instruction.k, here);
        out.c = code_of(row.contains("c") ? row["c"] : Json(), trace.form.c, "c", here);
        const Json d = row.contains("d") ? row["d"] : Json();
        out.d = trace.form.any_nan && d == "nan" ? trace.form.c.nan_code() : code_of(d, trace.form.c, "d", here);
        trace.rows.push_back(std::move(out));
    }
    if (trace.rows.size() != count) {
        bad_json_lines(fmt::format("there are {} rows, but the header gives {}", trace.rows.size(), count),
                       fmt::format("{}:{}", where, number));
    }
    header.erase("digest");
    if (json_lines_digest(header, text.substr(end + 1)) != digest)
        bad_json_lines("the digest does not match: a line was changed after the recording", first);
    return trace;
}

fs::path write_trace(const Trace& trace, const fs::path& folder) {
    return write_json_lines(folder, trace_name(trace.form), trace_text(trace));
}

Trace read_trace(const fs::path& file) { return parse_trace(read_json_lines(file), file.string()); }

bool is_instruction_trace(const fs::path& file) {
    const std::string name = file.filename().string();
    return name.find(".sums.") == std::string::npos && name.find("cublasLt.") == std::string::npos;
}

std::vector<fs::path> trace_files(const fs::path& folder) {
    if (!is_folder(folder)) bad("no such folder", folder.string(), "use a folder that contains traces (*.jsonl.zst)");
    std::vector<fs::path> files = files_below(folder);
    std::erase_if(files, [](const fs::path& file) {
        const std::string name = file.filename().string();
        return !name.ends_with(".jsonl.zst") && !name.ends_with(".jsonl");
    });
    return files;
}

}  // namespace macheps::evidence
