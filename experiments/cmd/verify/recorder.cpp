// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/verify/recorder.hpp"

#include "core/error.hpp"
#include "core/host/version.hpp"
#include "core/text/json.hpp"
#include "emulation/evidence/traces/json_lines.hpp"
#include "emulation/evidence/traces/record.hpp"

#include <fmt/format.h>

#include <ctime>
#include <utility>

namespace macheps::cmd::verify {

namespace fs = std::filesystem;

namespace {

constexpr std::uintmax_t max_bytes = 20'000'000;

std::string today() {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

}  // namespace

VerifyRecorder::VerifyRecorder(fs::path folder, evidence::Trace origin, bool on_cpu)
    : folder_(std::move(folder)), origin_(std::move(origin)), on_cpu_(on_cpu) {}

void VerifyRecorder::trace(const evidence::Candidates& candidates) {
    evidence::Trace trace = evidence::make_trace(candidates);
    trace.gpu = origin_.gpu;
    trace.driver = origin_.driver;
    trace.toolkit = origin_.toolkit;
    trace.microcode = origin_.microcode;
    trace.date = today();
    if (on_cpu_) evidence::require_evidence(trace);
    written(evidence::write_trace(trace, folder_));
}

void VerifyRecorder::capture(const evidence::Capture& capture) {
    const Json header = Json::parse(header_with_origin(capture.header));
    written(evidence::write_json_lines(folder_, capture.name, evidence::json_lines_text(header, capture.lines)));
}

void VerifyRecorder::sums(const std::vector<evidence::ProbeResult>& rows) {
    for (const evidence::ProbeResult& row : rows) {
        if (row.sums.empty()) continue;
        Sums& of_kind = sums_[row.kind];
        if (of_kind.header.empty()) {
            of_kind.header =
                header_with_origin(Json{{"macheps_sums", 1}, {"kind", row.kind}, {"seed", origin_.seed}}.dump());
            std::error_code error;  // if the folder cannot be made, the writing below fails
            fs::create_directories(folder_, error);
            of_kind.file.open(folder_ / (row.kind + ".sums.jsonl"), std::ios::binary | std::ios::trunc);
            of_kind.file << of_kind.header << '\n';
        }
        std::vector<std::string> sums;
        for (const std::uint64_t sum : row.sums) sums.push_back(fmt::format("{:016x}", sum));
        const std::string line =
            Json{{"instruction", row.instruction}, {"operands", row.operands},     {"model", row.model},
                 {"trials", row.trials},           {"mismatches", row.mismatches}, {"sums", sums}}
                .dump() +
            '\n';
        of_kind.lines += line;
        of_kind.file << line << std::flush;
        if (!of_kind.file) {
            throw Error({.what = "cannot write the sums",
                         .where = (folder_ / (row.kind + ".sums.jsonl")).string(),
                         .fix = "check that the folder may be written and has free space",
                         .exit = Exit::cannot_write});
        }
    }
}

std::vector<std::string> VerifyRecorder::finish() {
    for (auto& [kind, of_kind] : sums_) {
        of_kind.file.close();
        const std::string text = evidence::json_lines_text(Json::parse(of_kind.header), of_kind.lines);
        if (evidence::has_zstd()) fs::remove(folder_ / (kind + ".sums.jsonl"));
        written(evidence::write_json_lines(folder_, kind + ".sums", text));
    }
    sums_.clear();
    if (bytes_ > max_bytes) {
        throw Error({.what = fmt::format("the traces take {} bytes, more than {}", bytes_, max_bytes),
                     .where = folder_.string(),
                     .fix = "use --only to record fewer instructions",
                     .exit = Exit::check_failed});
    }
    return files_;
}

std::string VerifyRecorder::header_with_origin(const std::string& header) const {
    Json object = Json::parse(header);
    object[on_cpu_ ? "cpu" : "gpu"] = origin_.gpu;
    object[on_cpu_ ? "os" : "driver"] = origin_.driver;
    object[on_cpu_ ? "compiler" : "toolkit"] = origin_.toolkit;
    object["date"] = today();
    object["macheps"] = std::string(macheps::version());
    return object.dump();
}

void VerifyRecorder::written(const fs::path& file) {
    bytes_ += fs::file_size(file);
    files_.push_back(file.string());
}

}  // namespace macheps::cmd::verify
