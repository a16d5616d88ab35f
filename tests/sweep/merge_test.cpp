// SPDX-License-Identifier: Apache-2.0
// Compares the contents of merged files with values that the tests compute.
#include "experiments/training/sweep/results/site_sums.hpp"
#include "tests/json.hpp"
#include "tests/sweep/folder.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <tuple>

namespace merge_test {

using namespace macheps::test;
using namespace macheps::training;
using namespace macheps::reports;

namespace {

std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
    return cells;
}

/// Returns the cells of the column `name` of units.csv, with the names of the units as keys.
std::map<std::string, std::string> column_of_units(const SweepScratch& folder, const std::string& sweep,
                                                   const std::string& name) {
    std::istringstream in(contents(folder / (sweep + "/merged/units.csv")));
    std::string line;
    std::getline(in, line);
    const std::vector<std::string> header = cells_of(line);
    const auto place = static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
    REQUIRE(place < header.size());
    std::map<std::string, std::string> column;
    while (std::getline(in, line)) column[cells_of(line).at(0)] = cells_of(line).at(place);
    return column;
}

std::vector<std::string> planned_units(const SweepScratch& folder, const std::string& sweep) {
    REQUIRE(folder.run("sweep plan small.toml --csv --out " + sweep) == 0);
    std::istringstream in(folder.out());
    std::vector<std::string> ids;
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) ids.push_back(cells_of(line).at(0));
    return ids;
}

}  // namespace

TEST_CASE("a merged site has the summed counts, the largest amax and the smallest nonzero magnitude of its samples",
          "[sweeps]") {
    macheps::reports::SiteRow sample;
    sample.policy = "low", sample.site = "embed", sample.format = "fp16";
    sample.count = 100, sample.zero_in = 1, sample.underflow = 2, sample.to_subnormal = 3, sample.overflow = 4;
    sample.saturated = 5, sample.nan_in = 6, sample.inf_in = 7, sample.amax = 8, sample.amin_nz = 0.5f;
    macheps::reports::SiteRow larger = sample, zeros = sample, other = sample;
    larger.count = 1000, larger.zero_in = 10, larger.underflow = 20, larger.to_subnormal = 30, larger.overflow = 40;
    larger.saturated = 50, larger.nan_in = 60, larger.inf_in = 70, larger.amax = 80, larger.amin_nz = 0.75f;
    zeros = {.policy = "low", .site = "embed", .format = "fp16", .count = 10000, .zero_in = 10000};
    // The result does not depend on the order of the samples. A sample of zeros has no smallest nonzero magnitude.
    for (const auto& samples : {std::vector{sample, larger, zeros}, {zeros, sample, larger}, {larger, zeros, sample}}) {
        for (auto member : {&macheps::reports::SiteRow::policy, &macheps::reports::SiteRow::site,
                            &macheps::reports::SiteRow::format}) {
            macheps::training::SiteSums sums;
            other = sample;
            other.*member = "another";
            for (const macheps::reports::SiteRow& each : samples) sums.add(each), sums.add(other);
            const std::vector<macheps::training::SiteSumRow> rows = sums.take();
            REQUIRE(rows.size() == 2);
            const bool is_first = rows[0].policy == "low" && rows[0].site == "embed" && rows[0].format == "fp16";
            const macheps::training::SiteSumRow& row = rows[is_first ? 0 : 1];
            CHECK(row.samples == 3);
            CHECK(std::tuple(row.count, row.zero_in, row.underflow, row.to_subnormal) ==
                  std::tuple(11100u, 10011u, 22u, 33u));
            CHECK(std::tuple(row.overflow, row.saturated, row.nan_in, row.inf_in) == std::tuple(44u, 55u, 66u, 77u));
            CHECK(std::tuple(row.amax, row.amin_nz) == std::tuple(80.0f, 0.5f));
        }
    }
    macheps::training::SiteSums only_zeros;
    only_zeros.add(zeros);
    CHECK(only_zeros.take().at(0).amin_nz == 0);
    CHECK(only_zeros.take().empty());
}

TEST_CASE("units.csv counts the attempts at each unit, including the attempt that finished it", "[sweeps]") {
    const SweepScratch folder;
    folder.write("small.toml", small_plan("policy = [\"pure-bf16\"]\nseeds = \"0..2\"\n"));
    const std::vector<std::string> ids = planned_units(folder, "small");
    REQUIRE(ids.size() == 3);
    std::map<std::string, std::string> attempts;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        attempts[ids[i]] = std::to_string(i + 1);
        for (std::size_t ended = 0; ended < i; ++ended) {
            const fs::path attempt = folder.attempt("small", ids[i], static_cast<int>(ended));
            fs::create_directories(attempt);
            std::ofstream(attempt / "attempt.json")
                << R"({"host":"elsewhere","process":1,"shard":"0/1","began":{"runs":0,"step":0}})";
        }
    }
    REQUIRE(folder.run("sweep run small -q") == 0);
    REQUIRE(folder.run("merge small") == 0);
    CHECK(column_of_units(folder, "small", "attempts") == attempts);
    for (const auto& [id, status] : column_of_units(folder, "small", "status")) {
        CAPTURE(id);
        CHECK(status == "done");
    }
}

TEST_CASE("merge --allow-missing merges the finished units, and writes nothing if no unit is finished", "[sweeps]") {
    const SweepScratch folder;
    folder.write("small.toml", small_plan("policy = [\"pure-bf16\"]\nseeds = \"0..1\"\n"));
    REQUIRE(planned_units(folder, "small").size() == 2);
    const auto merges = [&](int code, int merged) {
        CHECK(folder.run("merge small --allow-missing --json") == code);
        const auto document = nlohmann::json::parse(folder.out());
        CHECK(document["units"] == 2);
        CHECK(document["merged"] == merged);
        CHECK(document["missing"].size() == static_cast<std::size_t>(2 - merged));
        CHECK(document["files"].empty() == (merged == 0));
        CHECK(fs::exists(folder / "small/merged") == (merged != 0));
    };
    merges(1, 0);
    REQUIRE(folder.run("sweep run small -q --shard 0/2") == 0);
    merges(0, 1);
}

TEST_CASE("the planner puts as many policies into a unit as can be trained within the limit of minutes", "[sweeps]") {
    const SweepScratch folder;
    struct Unit {
        std::size_t policies;
        double seconds;
    };
    const auto planned = [&](double minutes) {
        const std::string axes = "policy = [\"amp-bf16\", \"pure-bf16\", \"amp-fp16\", \"pure-bf16-sr\"]\nseeds = 0\n";
        folder.write("small.toml", small_plan(axes, "[units]\nminutes = " + std::to_string(minutes) + "\n"));
        REQUIRE(folder.run("sweep plan small.toml --csv --out planned") == 0);
        fs::remove_all(folder / "planned");
        std::istringstream in(folder.out());
        std::vector<Unit> units;
        std::string line;
        std::getline(in, line);
        REQUIRE(line.starts_with("unit,seed,policies,seconds,"));
        while (std::getline(in, line)) {
            const std::string policies = cells_of(line).at(2);
            units.push_back({static_cast<std::size_t>(std::count(policies.begin(), policies.end(), ' ')),
                             std::stod(cells_of(line).at(3))});
        }
        return units;
    };
    const std::vector<Unit> whole = planned(1000);
    REQUIRE(whole.size() == 1);
    CHECK(whole[0].policies == 4);
    // Each plan times the policies again, so the estimates of one plan are not comparable with those of another.
    for (const double share : {0.1, 0.5, 0.7, 2.0}) {
        const double minutes = std::max(share * whole[0].seconds / 6, 1e-6);
        const std::vector<Unit> units = planned(minutes);
        const double limit = 60 * std::stod(std::to_string(minutes));
        CAPTURE(share, limit, units.size());
        std::size_t policies = 0;
        for (std::size_t i = 0; i < units.size(); ++i) {
            policies += units[i].policies;
            CHECK((units[i].policies == 1 || units[i].seconds <= limit * (1 + 1e-5)));  // six digits are printed
            if (i > 0) CHECK(units[i - 1].seconds + units[i].seconds > limit * (1 - 1e-5));
        }
        CHECK(policies == 4);
    }
}

}  // namespace merge_test
