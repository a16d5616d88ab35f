// SPDX-License-Identifier: Apache-2.0
// Tests what `sweep submit --print` prints for a cluster that has no macheps: the scripts and the files to copy.
#include "tests/sweep/folder.hpp"

#include <sstream>
#include <string>
#include <vector>

namespace submit_test {

using namespace macheps::test;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Writes a plan with a policy file next to it, a policy file in another folder, and data.
void write_study(const SweepScratch& folder) {
    for (const char* name : {"study", "shared"}) fs::create_directory(folder / name);
    folder.write("shared/base.toml", "name = \"base\"\nextends = \"amp-bf16\"\n");
    folder.write("study/mine.toml", "name = \"mine\"\nextends = \"../shared/base.toml\"\n");
    folder.write("study/corpus.txt", std::string(4000, 'a') + std::string(4000, 'b'));
    folder.write("study/plan.toml",
                 "[train]\nsteps = 2\ndata = \"corpus.txt\"\n[axes]\n"
                 "policy = [\"./mine.toml\"]\nseeds = \"0..2\"\n");
}

}  // namespace

TEST_CASE("`sweep submit --print` lists each file to copy to a cluster, and the command to run there", "[sweeps]") {
    const SweepScratch folder;
    write_study(folder);
    REQUIRE(folder.run("sweep submit study/plan.toml --engine slurm --print --time 4:00:00 --sbatch '-p cpu -A me'") ==
            0);
    const std::string data = (folder / "study/corpus.txt").string(), listed = folder.err();
    CAPTURE(listed);
    CHECK(holds(listed, "  program  " + fs::canonical(MACHEPS_PROGRAM).string() +
                            "\n  plan     study/plan.toml\n"
                            "  policy   shared/base.toml\n  policy   study/mine.toml\n  data     " +
                            data + "\n"));
    CHECK(holds(listed,
                "Then run there: macheps sweep submit study/plan.toml --engine slurm --time 4:00:00 "
                "--sbatch '-p cpu -A me'\n"));
    const std::string scripts = folder.out();
    CHECK(holds(scripts, " --array=0-2 "));
    std::size_t lines = 0;
    for (std::size_t at = 0; (at = scripts.find("\n#SBATCH -p cpu -A me\n", at)) != scripts.npos; ++at) ++lines;
    CHECK(lines == 2);
    CHECK_FALSE(fs::exists(folder / "study/plan"));

    REQUIRE(folder.run("sweep plan study/plan.toml --out made") == 0);
    REQUIRE(folder.run("sweep submit made --engine slurm --print --shards 2") == 0);
    CHECK(holds(folder.err(), "\n  folder   made\n  data     " + data +
                                  "\nThen run there: "
                                  "macheps sweep submit made --engine slurm --shards 2\n"));
}

TEST_CASE("`sweep submit --scripts` writes the printed scripts as files and submits nothing", "[sweeps]") {
    const SweepScratch folder;
    write_study(folder);
    REQUIRE(folder.run("sweep submit study/plan.toml --engine slurm --print") == 0);
    const std::string printed = folder.out(), listed = folder.err();
    REQUIRE(folder.run("sweep submit study/plan.toml --engine slurm --scripts jobs", "PATH=") == 0);
    CHECK(folder.out().empty());
    CHECK(holds(folder.err(), "wrote jobs/array.sh\nwrote jobs/merge.sh\n"));
    CHECK(holds(folder.err(), "Then run there: macheps sweep submit study/plan.toml --engine slurm\n"));
    for (const char* name : {"jobs/array.sh", "jobs/merge.sh"}) CHECK(holds(printed, contents(folder / name)));
    CHECK_FALSE(fs::exists(folder / "study/plan"));
    CHECK(folder.run("sweep submit study/plan.toml --engine slurm --scripts jobs --print") == 2);
}

TEST_CASE("the commands in a printed script make the folder that the script needs", "[sweeps]") {
    const SweepScratch folder;
    write_study(folder);
    REQUIRE(folder.run("sweep submit study/plan.toml --engine slurm --print") == 0);
    std::istringstream lines(folder.out());
    std::vector<std::string> commands;
    for (std::string line; std::getline(lines, line) && !line.starts_with("#SBATCH");) {
        if (line.starts_with("#   ")) commands.push_back(line.substr(4));
    }
    REQUIRE(commands.size() == 2);
    REQUIRE(commands[0].starts_with("macheps "));
    REQUIRE(folder.run(commands[0].substr(8)) == 0);
    CHECK(fs::exists(folder / "study/plan/sweep.json"));
    CHECK(commands[1] == "mkdir -p " + (fs::absolute(folder / "study/plan") / "slurm").string());
}

TEST_CASE("the files that `sweep submit --print` lists are enough to submit the sweep in another folder", "[sweeps]") {
    const SweepScratch folder, other;
    write_study(folder);
    REQUIRE(folder.run("sweep plan study/plan.toml --csv") == 0);
    const std::string units = folder.out();
    REQUIRE(folder.run("sweep submit study/plan.toml --engine slurm --print") == 0);
    std::istringstream lines(folder.err());
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("  ") || line.starts_with("  program")) continue;
        const fs::path file = line.substr(11), to = other.path() / fs::relative(folder.path() / file, folder.path());
        fs::create_directories(to.parent_path());
        fs::copy_file(folder.path() / file, to);
    }
    REQUIRE(other.run("sweep plan study/plan.toml --csv") == 0);
    const auto names = [](const std::string& csv) {
        std::istringstream rows(csv);
        std::string found;
        for (std::string row; std::getline(rows, row);) found += row.substr(0, row.find(',')) + "\n";
        return found;
    };
    CHECK(names(other.out()) == names(units));
    CHECK(names(units).size() > 3 * 16);
}

}  // namespace submit_test
