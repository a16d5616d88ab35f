// SPDX-License-Identifier: Apache-2.0
// Tests the time and memory of merging and reporting ten thousand directories, and whether a plan predicts the size and
// time of its runs.
#include "experiments/training/sweep/store/done.hpp"
#include "experiments/training/sweep/store/layout.hpp"
#include "experiments/training/sweep/sweep.hpp"
#include "tests/json.hpp"
#include "tests/sweep/reference.hpp"

#include <sys/resource.h>

#include <iostream>

namespace scale_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::training;
using nlohmann::json;

namespace {

/// Exit code of a program, and the resources that it used.
struct Used {
    int code = -1;
    double seconds = 0;    ///< CPU time
    double megabytes = 0;  ///< maximum resident memory
};
Used used_by(const SweepScratch& folder, const std::vector<std::string>& words) {
    const pid_t child = folder.start(words, 0);
    int status = 0;
    rusage usage{};
    REQUIRE(::wait4(child, &status, 0, &usage) == child);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return {exit_code(status), seconds(usage.ru_utime) + seconds(usage.ru_stime),
            static_cast<double>(usage.ru_maxrss) / 1024};
}

void print(const std::string& what, const Used& used, double megabytes_of_page = 0) {
    std::cout << what << ": " << used.seconds << " s of processors, " << used.megabytes << " MB";
    if (megabytes_of_page > 0) std::cout << ", page " << megabytes_of_page << " MB";
    std::cout << std::endl;
}

double megabytes(const fs::path& file) { return static_cast<double>(fs::file_size(file)) / (1 << 20); }

/// Takes the text of a CSV file whose rows have seed 0, and returns it with another seed. The first cell of a row is
/// the name of the run, which ends with the seed. The third cell is the seed.
std::string of_seed(const std::string& text, const std::string& seed) {
    std::string out;
    out.reserve(text.size() + text.size() / 16);
    for (std::size_t from = 0; from < text.size();) {
        const std::size_t end = text.find('\n', from) + 1;
        const std::string_view line = std::string_view(text).substr(from, end - from);
        const std::size_t first = line.find(','), second = line.find(',', first + 1),
                          third = line.find(',', second + 1);
        if (from == 0) {
            out += line;
        } else {
            if (line.substr(first - 2, 2) != "/0" || line.substr(second, third - second) != ",0")
                FAIL("a row is not of seed 0");
            out.append(line.substr(0, first - 1))
                .append(seed)
                .append(line.substr(first, second + 1 - first))
                .append(seed);
            out += line.substr(third);
        }
        from = end;
    }
    return out;
}

/// Generates each unit that was not trained from the trained unit with seed 0 and the same setting. A generated unit
/// has about as many bytes as the trained one, and its own `done` file.
void generate_units(const fs::path& out) {
    const Sweep sweep = read_sweep(out);
    std::map<std::size_t, fs::path> first;
    for (const SweepUnit& unit : sweep.units) {
        if (unit.seed == 0) first[unit.setting] = unit_folder(out, unit.id);
    }
    std::map<std::size_t, std::map<std::string, std::string>> texts;
    for (const auto& [setting, folder] : first) {
        for (const auto& file : fs::directory_iterator(folder)) {
            const std::string name = file.path().filename().string();
            if (name != done_file) texts[setting][name] = contents(file.path());
        }
    }
    for (const SweepUnit& unit : sweep.units) {
        if (unit.seed == 0) continue;
        const fs::path folder = unit_folder(out, unit.id);
        fs::create_directories(folder);
        for (const auto& [name, text] : texts.at(unit.setting)) {
            std::string here = text;
            if (name.ends_with(".csv")) {
                here = of_seed(text, std::to_string(unit.seed));
            } else if (name == "manifest.json") {
                json manifest = json::parse(text);
                manifest["seeds"] = {unit.seed};
                here = manifest.dump(2);
            }
            std::ofstream(folder / name, std::ios::binary) << here;
        }
        write_done(make_done(folder, unit.id, 0), folder);
    }
}

}  // namespace

TEST_CASE(
    "ten thousand directories are merged within 15 seconds, and a report takes at most a minute and 1 GB of memory",
    "[sweeps][slow]") {
    const SweepScratch folder;
    // Each unit trains fp32 and one policy for 150 steps each, so 10,000 units have as many rows as 10,000 runs of 300
    // steps. Without exponents.csv, a unit has half a MB.
    folder.write("large.toml",
                 "[train]\nsize = \"tiny\"\nsteps = 150\n[axes]\npolicy = \"amp-bf16\"\nseeds = \"0..2499\"\n"
                 "lr = [3e-4, 1e-3, 3e-3, 1e-2]\n");
    REQUIRE(folder.run("sweep plan large.toml --out large --csv") == 0);
    const Sweep sweep = read_sweep(folder / "large");
    REQUIRE(sweep.units.size() == 10000);
    for (const SweepUnit& unit : sweep.units) {
        if (unit.seed == 0) REQUIRE(folder.run("sweep run large -q --unit " + unit.id) == 0);
    }
    generate_units(folder / "large");
    std::uint64_t bytes = 0;
    std::vector<std::string> report_all{"report"};
    for (const SweepUnit& unit : sweep.units) {
        const fs::path path = unit_folder(folder / "large", unit.id);
        for (const auto& file : fs::directory_iterator(path)) bytes += file.file_size();
        report_all.push_back(path.string());
    }
    std::cout << "10000 directories of " << static_cast<double>(bytes) / 1e9 << " GB" << std::endl;

    const Used merge = used_by(folder, {"merge", "large", "--rows", "runs,evals,steps"});
    print("merge of runs, evals and steps", merge);
    CHECK(merge.code == 0);
    CHECK(merge.seconds < 15);
    CHECK(merge.megabytes < 200);

    const Used report = used_by(folder, {"report", "large"});
    print("report of the sweep", report, megabytes(folder / "large/report.html"));
    CHECK(report.code == 0);
    CHECK(report.seconds < 60);
    CHECK(report.megabytes < 1024);
    CHECK(megabytes(folder / "large/report.html") < 10);

    report_all.insert(report_all.end(), {"-o", "all.html"});
    const Used many = used_by(folder, report_all);
    print("report of the directories", many, megabytes(folder / "all.html"));
    CAPTURE(contents(folder / "log0.txt").substr(0, 3000));
    CHECK(many.code == 0);
    CHECK(many.seconds < 60);
    CHECK(many.megabytes < 1024);
    CHECK(megabytes(folder / "all.html") < 10);
    // Finished units are run directories. A report of these directories in the order of the plan has the same summary
    // as the report of the sweep.
    CHECK(contents(folder / "summary.csv") == contents(folder / "large/summary.csv"));
    // A report of a tenth of the directories needs almost as much memory, because a report keeps very little of each
    // directory.
    report_all.resize(1001);
    report_all.insert(report_all.end(), {"-o", "tenth.html"});
    const Used tenth = used_by(folder, report_all);
    print("report of a tenth of them", tenth, megabytes(folder / "tenth.html"));
    CHECK(many.megabytes < tenth.megabytes + 9000 * 0.02);  // 20 kB per directory
}

TEST_CASE("a plan predicts the number of bytes of its runs, and approximately their time", "[sweeps][slow]") {
    const SweepScratch folder;
    folder.write("some.toml",
                 "[train]\nsize = \"tiny\"\nsteps = 300\n[axes]\npolicy = [\"amp-bf16\", \"ao-rowwise\", "
                 "\"pure-bf16\"]\nseeds = \"0..3\"\n");
    REQUIRE(folder.run("sweep plan some.toml --out some --json") == 0);
    const json planned = json::parse(folder.out());
    const Used run = used_by(folder, {"sweep", "run", "some", "-q"});
    REQUIRE(run.code == 0);
    double bytes = 0;
    for (const fs::path& unit : folder.units("some")) {
        for (const auto& file : fs::directory_iterator(unit))
            bytes += file.path().extension() == ".csv" ? static_cast<double>(file.file_size()) : 0;
    }
    const double of_bytes = planned["bytes"].get<double>() / bytes,
                 of_seconds = planned["seconds"].get<double>() / run.seconds;
    std::cout << "planned over used: bytes " << of_bytes << ", seconds of processors " << of_seconds << std::endl;
    CHECK(of_bytes > 0.95);
    CHECK(of_bytes < 1.05);
    // Times are meaningful only on a quiet machine.
    CHECK(of_seconds > 0.4);
    CHECK(of_seconds < 2.5);
}

namespace {

/// Plans a sweep with one unit per seed and returns the resources used. The policy is timed before this, so the result
/// contains only the planning.
Used used_by_plan(const SweepScratch& folder, int units) {
    const auto plan = [&](int seeds) {
        folder.write("many.toml",
                     "[train]\nsteps = 2\nlayers = 1\nwidth = 8\nheads = 1\ncontext = 8\nbatch = 2\n[axes]\npolicy = "
                     "\"amp-bf16\"\nseeds = \"0.." +
                         std::to_string(seeds - 1) + "\"\n");
    };
    plan(1);
    REQUIRE(folder.run("sweep plan many.toml") == 0);
    plan(units);
    const Used used = used_by(folder, {"sweep", "plan", "many.toml", "--out", "many"});
    print("plan of " + std::to_string(units) + " units", used);
    CHECK(used.code == 0);
    const Sweep sweep = read_sweep(folder / "many");
    REQUIRE(sweep.units.size() == static_cast<std::size_t>(units));
    // sweep.json contains the common part of all recipes only once. The name of a unit must still follow from its whole
    // recipe, or `sweep run` would refuse the unit.
    REQUIRE(folder.run("sweep run many -q --unit " + sweep.units.back().id) == 0);
    return used;
}

}  // namespace

TEST_CASE("a plan of five thousand units takes less than two seconds", "[sweeps]") {
    const SweepScratch folder;
    CHECK(used_by_plan(folder, 5000).seconds < 2);
}

TEST_CASE("a plan of a hundred thousand units, its CSV and its status take less than ten seconds each",
          "[sweeps][slow]") {
    const SweepScratch folder;
    const Used used = used_by_plan(folder, 100000);
    CHECK(used.seconds < 10);
    CHECK(used.megabytes < 1024);
    const Used csv = used_by(folder, {"sweep", "plan", "many", "--csv"});
    print("its units as CSV", csv);
    CHECK(csv.seconds < 10);
    const Used status = used_by(folder, {"sweep", "status", "many"});
    print("its status", status);
    CHECK(status.seconds < 10);
}

}  // namespace scale_test
