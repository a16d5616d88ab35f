// SPDX-License-Identifier: Apache-2.0
// Replays recorded sums of hashes. A recorded sum covers results of a scalar operation on a GPU. The tests recompute it
// from the results of the model.
#include "emulation/evidence/gpu/scalar/inputs.hpp"
#include "emulation/evidence/gpu/scalar/replay.hpp"
#include "emulation/evidence/traces/json_lines.hpp"
#include "emulation/evidence/traces/trace.hpp"
#include "tests/test.hpp"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

namespace sums_test {

using namespace macheps;
using namespace macheps::evidence;

namespace {

std::vector<std::filesystem::path> sums_files() {
    const std::filesystem::path folder = std::filesystem::path(MACHEPS_SOURCE_DIR) / "tests" / "traces";
    std::vector<std::filesystem::path> files = evidence::trace_files(folder);
    std::erase_if(files,
                  [](const auto& file) { return file.filename().string().find(".sums.jsonl") == std::string::npos; });
    return files;
}

std::vector<evidence::ProbeResult> replay_all(const RecordedSums& recorded, const SumsShare& share) {
    std::vector<evidence::ProbeResult> rows;
    replay_sums(recorded, share, [&](const evidence::ProbeResult& row) { rows.push_back(row); });
    REQUIRE(rows.size() == recorded.rows.size());
    return rows;
}

/// Replays every recorded file, and returns the number of sums that were recomputed.
std::uint64_t replay_files(const SumsShare& share, bool every_row) {
    std::uint64_t sums = 0;
    for (const auto& file : sums_files()) {
        const RecordedSums recorded = parse_sums(evidence::read_json_lines(file), file.string());
        SumsShare mine = share;
        if (every_row) mine.sums = recorded.rows.size();
        for (const evidence::ProbeResult& row : replay_all(recorded, mine)) {
            CAPTURE(file.string(), row.instruction, row.operands, row.model, row.note);
            CHECK((row.verdict == evidence::Verdict::equal || row.verdict == evidence::Verdict::recorded));
            if (every_row && row.note != "no model gives these bits") CHECK(row.verdict == evidence::Verdict::equal);
            sums += row.trials;
        }
    }
    return sums;
}

std::string text_of(const std::string& kind, const std::string& lines) {
    return evidence::json_lines_text(Json{{"macheps_sums", 1},
                                          {"kind", kind},
                                          {"gpu", "a GPU"},
                                          {"driver", "13.0"},
                                          {"toolkit", "13.0"},
                                          {"date", "2026-11-26"}},
                                     lines);
}

}  // namespace

TEST_CASE("recorded hash sums of GPU results agree with the models", "[gpu][sums]") {
    if (!evidence::has_zstd()) SKIP_TEST("this build reads no .zst");
    if (sums_files().empty()) SKIP_TEST("no sums are recorded below tests/traces");
    CHECK(replay_files({.sums = 2}, false) >= 6);
}

TEST_CASE("a recorded hash sum of every operation agrees with its model", "[gpu][sums][slow]") {
    if (!evidence::has_zstd()) SKIP_TEST("this build reads no .zst");
    CHECK(replay_files({}, true) > 0);
}

TEST_CASE("the recorded hash sums that the seed of a nightly run selects agree with the models", "[.][nightly]") {
    const char* const seed = std::getenv("MACHEPS_NIGHTLY_SEED");
    CHECK(replay_files({.sums = 300, .seed = seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1}, false) > 0);
}

TEST_CASE("each line of a file of hash sums gets its own verdict", "[gpu][sums]") {
    const auto hash_of = [](std::uint64_t inputs, const auto& result) {
        std::uint64_t sum = 0;
        for (std::uint64_t i = 0; i < inputs; ++i) sum += hash_item(i, result(i));
        return fmt::format("{:016x}", sum);
    };
    const std::string shift = hash_of(65536, [](std::uint64_t code) { return code << 16; });
    const auto line = [](const std::string& name, const std::string& sums, const std::string& model) {
        return fmt::format("{{\"instruction\":\"{}\",\"model\":\"{}\",\"trials\":65536,\"sums\":[{}]}}\n", name, model,
                           sums);
    };
    const std::string any = "\"0123456789abcdef\"", model = "codec, NaN unchanged";
    const std::string lines = line("cvt.f32.bf16", "\"" + shift + "\"", model) + line("__bfloat162float", any, model) +
                              line("cvt.rn.f9.f32", any, model) + line("cvt.f32.bf16", any, "another");
    const RecordedSums recorded = parse_sums(text_of("convert", lines), "here");
    CHECK(recorded.kind == "convert");
    CHECK(recorded.gpu == "a GPU");
    CHECK(recorded.seed == 1);
    const auto rows = replay_all(recorded, {.sums = 0});
    CHECK(rows[0].verdict == evidence::Verdict::equal);
    CHECK(rows[0].trials == 1);
    CHECK(rows[0].operands == "1 of 1 sums of 65536 results");
    CHECK(rows[1].verdict == evidence::Verdict::differs);
    CHECK(rows[1].mismatches == 1);
    CHECK(rows[1].note == "the first sum that differs is number 0");
    CHECK(rows[2].verdict == evidence::Verdict::absent);
    CHECK(rows[2].trials == 0);
    CHECK(rows[3].verdict == evidence::Verdict::recorded);
    CHECK(rows[3].note == "the first sum that differs is number 0, recorded against the model 'another'");

    // A function without a model gets the verdict `recorded` for any sums.
    const RecordedSums functions =
        parse_sums(text_of("scalar", line("tanh.approx.f16", any, "fp64 reference")), "here");
    CHECK(replay_all(functions, {.all = true})[0].verdict == evidence::Verdict::recorded);
}

TEST_CASE("an invalid file of hash sums is refused with an error that names the place", "[gpu][sums]") {
    const std::string sum = "\"0123456789abcdef\"";
    const auto line = [](const std::string& trials, const std::string& sums) {
        return "{\"instruction\":\"cvt.f32.bf16\",\"model\":\"\",\"trials\":" + trials + ",\"sums\":[" + sums + "]}\n";
    };
    /// Returns whether reading `text` gives an error that contains `part`.
    const auto fails = [](const std::string& text, const std::string& part) {
        try {
            (void)parse_sums(text, "here");
        } catch (const Error& error) {
            return std::string(error.what()).find(part) != std::string::npos;
        }
        return false;
    };
    CHECK(fails(text_of("matrix", line("65536", sum)), "the kind of the sums of hashes is unknown: 'matrix'"));
    CHECK(fails(text_of("convert", line("65536", "")), "there are no sums"));
    CHECK(fails(text_of("convert", line("65536", "\"1234\"")), "16 hexadecimal digits"));
    CHECK(fails(text_of("convert", line("65536", "\"0123456789abcdeg\"")), "16 hexadecimal digits"));
    CHECK(fails(text_of("convert", line("60000", sum)), "here:2"));
    CHECK(fails(text_of("convert", line("65536", sum + "," + sum + "," + sum)), "here:2"));
    CHECK(fails(text_of("convert", "{}\n"), "\"instruction\" is missing"));
    std::string changed = text_of("convert", line("65536", sum));
    changed[changed.size() - 8] = '0';
    CHECK(fails(changed, "here"));
}

TEST_CASE("successive seeds recompute different hash sums, until each has been recomputed", "[gpu][sums]") {
    // If a sum covers at most 2^16 results, every replay recomputes it. Therefore each sum in this test covers 2^17
    // results. The recorded sums are wrong on purpose, because the note of a row then names the sum that was
    // recomputed.
    std::string lines;
    const std::vector<std::string> names = {"__hadd(bfloat16)", "__hsub(bfloat16)", "__hmul(bfloat16)"};
    for (const std::string& name : names) {
        std::string sums;
        for (int i = 0; i < 4; ++i) sums += std::string(i == 0 ? "" : ",") + "\"0123456789abcdef\"";
        lines += fmt::format(
            "{{\"instruction\":\"{}\",\"model\":\"IEEE 754 to nearest even\",\"trials\":{},\"sums\":[{}]}}\n", name,
            4 << 17, sums);
    }
    const RecordedSums recorded = parse_sums(text_of("scalar", lines), "here");
    std::map<std::string, std::set<std::string>> taken;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        std::uint64_t trials = 0;
        for (const evidence::ProbeResult& row : replay_all(recorded, {.sums = 1, .seed = seed})) {
            trials += row.trials;
            if (row.trials != 0) taken[row.instruction].insert(row.note);
            CHECK((row.verdict == evidence::Verdict::recorded) == (row.trials == 0));
        }
        CHECK(trials == 1);
    }
    for (const std::string& name : names) CHECK(taken[name].size() == 4);
}

}  // namespace sums_test
