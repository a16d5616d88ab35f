// SPDX-License-Identifier: Apache-2.0
// Tests the report of a dry run of a sweep, and that a dry run has no other effects.
#include "tests/json.hpp"
#include "tests/sweep/reference.hpp"

#include <set>

namespace dry_run_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

std::set<std::string> files_below(const fs::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        const std::string name = fs::relative(entry.path(), folder).string();
        if (name != "out.txt" && name != "err.txt") names.insert(name);
    }
    return names;
}

}  // namespace

TEST_CASE("a dry run of a sweep reports the state of each unit, and does not change the sweep", "[sweeps]") {
    const SweepScratch folder;
    folder.write("small.toml", small_plan("policy = [\"amp-bf16\"]\nseeds = \"0..2\"\n"));
    REQUIRE(folder.run("sweep run small.toml --dry-run") == 0);
    CHECK(files_below(folder.path()) == std::set<std::string>{"costs.csv", "small.toml"});
    CHECK(folder.out().find("\n3 units, ") != std::string::npos);

    REQUIRE(folder.run("sweep plan small.toml --out small --csv") == 0);
    const std::string csv = folder.out(), first = csv.substr(csv.find('\n') + 1, 16);
    REQUIRE(folder.run("sweep run small -q --unit " + first) == 0);
    const std::set<std::string> before = files_below(folder.path());
    REQUIRE(folder.run("sweep run small --dry-run --json") == 0);
    const json said = json::parse(folder.out());
    CHECK(said["units"] == 3);
    CHECK(said["shard"] == "0/1");
    CHECK(said["memory_bytes"] > 0);
    double left = 0;
    int done = 0;
    for (const json& unit : said["states"]) {
        const bool is_done = unit["state"] == "done";
        CHECK(is_done == (unit["unit"] == first));
        CHECK((is_done || unit["state"] == "missing"));
        done += is_done;
        left += is_done ? 0 : unit["seconds"].get<double>();
    }
    CHECK(done == 1);
    CHECK(said["seconds"].get<double>() == Approx(left));

    // Each of two shards lists its own units, and together the shards list all units.
    int units = 0;
    for (const char* shard : {"0/2", "1/2"}) {
        REQUIRE(folder.run(std::string("sweep run small.toml --dry-run --json --shard ") + shard) == 0);
        units += json::parse(folder.out())["units"].get<int>();
    }
    CHECK(units == 3);

    // If there are several shards, a dry run refuses a changed plan, as a real run does. If there is only one shard, a
    // dry run shows the new units.
    folder.write("small.toml", small_plan("policy = [\"amp-bf16\"]\nseeds = \"0..3\"\n"));
    CHECK(folder.run("sweep run small.toml --dry-run --shard 0/2") == 2);
    REQUIRE(folder.run("sweep run small.toml --dry-run --json") == 0);
    CHECK(json::parse(folder.out())["units"] == 4);
    CHECK(files_below(folder.path()) == before);
    CHECK(folder.run("sweep run small --dry-run >/dev/full") == 5);
}

TEST_CASE("a dry run counts a failed unit as work only if it is retried", "[sweeps]") {
    const SweepScratch folder;
    folder.write("small.toml", small_plan("policy = [\"amp-bf16\"]\nseeds = 0\n"));
    REQUIRE(folder.run("sweep plan small.toml --out small --csv") == 0);
    const std::string csv = folder.out(), id = csv.substr(csv.find('\n') + 1, 16);
    fs::create_directories(folder / "small/failed");
    folder.write("small/failed/" + id + ".json", R"({"what":"no reason","host":"elsewhere","attempt":0})");
    REQUIRE(folder.run("sweep run small --dry-run --json") == 0);
    CHECK(json::parse(folder.out())["states"][0]["state"] == "failed");
    CHECK(json::parse(folder.out())["seconds"] == 0);
    REQUIRE(folder.run("sweep run small --dry-run --retry-failed --json") == 0);
    CHECK(json::parse(folder.out())["seconds"] > 0);
}

}  // namespace dry_run_test
