// SPDX-License-Identifier: Apache-2.0
// Made-up training logs of other programs, and functions that read and diagnose logs in tests.
#pragma once
#include "reports/training_logs/line_forms.hpp"
#include "reports/training_logs/log_diagnosis.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace training_log_samples {

using namespace macheps;
using namespace macheps::reports;

/// Returns `count` lines, of which line_of() makes one for each number from `first` on.
template <class Line>
std::string lines(int count, Line line_of, int first = 1) {
    std::string text;
    for (int i = first; i < first + count; ++i) text += line_of(i) + "\n";
    return text;
}

/// Pseudorandom noise with zero mean and about unit deviation, the same in every run.
inline double noise(std::int64_t i) {
    std::uint64_t x = std::uint64_t(i) * 0x9e3779b97f4a7c15u;
    x ^= x >> 29, x *= 0xbf58476d1ce4e5b9u, x ^= x >> 32;
    return std::sqrt(12.0) * (double(x >> 11) * 0x1p-53 - 0.5);
}

inline TrainingLog read(std::string_view text, const TrainingLogOptions& options = {}) {
    return parse_training_log(text, "log", options);
}

/// Returns "id word" of each finding.
inline std::set<std::string> verdicts_of(const TrainingLog& log, const TrainingLogOptions& options = {}) {
    std::set<std::string> found;
    for (const LogFinding& finding : diagnose_log(log, options).findings)
        found.insert(fmt::format("{} {}", finding.diagnosis->id, word_of(finding.seen.certainty)));
    return found;
}
inline std::set<std::string> verdicts_of(std::string_view text, const TrainingLogOptions& options = {}) {
    return verdicts_of(read(text, options), options);
}

/// Returns the sighting of a diagnosis, or nothing.
inline std::optional<LogSighting> sighting_if_any(const TrainingLog& log, std::string_view id,
                                                  const TrainingLogOptions& options = {}) {
    for (const LogFinding& finding : diagnose_log(log, options).findings) {
        if (finding.diagnosis->id == id) return finding.seen;
    }
    return {};
}

/// Returns the sighting of a diagnosis. Fails the test if there is none.
inline LogSighting sighting(const TrainingLog& log, std::string_view id, const TrainingLogOptions& options = {}) {
    const std::optional<LogSighting> seen = sighting_if_any(log, id, options);
    CAPTURE(id);
    REQUIRE(seen);
    return *seen;
}

/// A log with one row for each step, for tests of diagnoses. `change` sets the quantities of a row.
inline TrainingLog made(int count, const std::function<void(TrainingRow&)>& change, std::size_t form = 3) {
    TrainingLog log{.path = "made", .form = &line_forms()[form]};
    for (int i = 1; i <= count; ++i) change(log.rows.emplace_back(TrainingRow{.step = i}));
    return log;
}

inline std::string megatron_line(int i) {
    return fmt::format(
        " [2026-01-05 10:00:01.000000] iteration {:8}/ 100 | consumed samples: {:12} | learning rate: 1.500000E-04 | "
        "global batch size: 256 | lm loss: {:.6E} | loss scale: 1024.0 | grad norm: 2.000 | number of skipped "
        "iterations:   0 | number of nan iterations:   0 |",
        i, 256 * i, 9.0 / i);
}

/// A message of DeepSpeed about a skipped step.
inline std::string skip_line(int scale, int next) {
    return fmt::format(
        "[loss_scaler.py:181:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss "
        "scale: {}, reducing to {}\n",
        scale, next);
}
/// A line of DeepSpeed about the steps so far.
inline std::string total_line(int step, int skipped, double rate = 1e-4) {
    return fmt::format("[logging.py:96:log_dist] [Rank 0] step={}, skipped={}, lr=[{}, {}], mom=[(0.9, 0.95)]\n", step,
                       skipped, rate, rate);
}
/// A line of DeepSpeed's pipeline engine.
inline std::string pipeline_line(int step, std::string_view loss) {
    return fmt::format("steps: {} loss: {} iter time (s): 34.890 samples/sec: 73.373\n", step, loss);
}

inline std::string with_crlf(std::string_view text) {
    std::string out;
    for (const char c : text) out += c == '\n' ? std::string("\r\n") : std::string(1, c);
    return out;
}

}  // namespace training_log_samples
