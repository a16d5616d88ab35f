// SPDX-License-Identifier: Apache-2.0
// Tests damaged folders of sweeps. Members of sweep.json are missing or have a wrong type, and files are replaced by
// pipes, folders and devices. No command of the program may crash or hang.
#include "tests/json.hpp"
#include "tests/sweep/reference.hpp"

#include <sys/stat.h>

namespace hostile_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

/// Trains, merges and reports a sweep of two settings with one seed.
void make_sweep(const SweepScratch& folder) {
    folder.write("plan.toml",
                 std::string("[train]\nsteps = 2\nlayers = 1\nwidth = 8\nheads = 1\ncontext = 8\nbatch = 2\n") +
                     "[axes]\npolicy = \"amp-bf16\"\nseeds = 0\nlr = [1e-3, 1e-4]\n");
    REQUIRE(folder.run("sweep run plan.toml -q --out good") == 0);
    REQUIRE(folder.run("merge good") == 0);
    REQUIRE(folder.run("report good") == 0);
}

/// Runs a command of the program for at most ten seconds. Returns its exit code, or 124 if it did not end.
int ends(const SweepScratch& folder, const std::string& words) {
    return folder.shell("timeout 10 '" MACHEPS_PROGRAM "' " + words);
}

constexpr const char* readers[] = {"report bad", "merge bad", "sweep status bad", "sweep run bad -q",
                                   "sweep plan bad --csv"};

/// Appends the paths of all members of `document` below `at`. For an array, appends only the path of its first element.
void collect(const json& document, const json::json_pointer& at, std::vector<json::json_pointer>& members) {
    const json& here = document[at];
    if (here.is_object()) {
        for (const auto& [name, value] : here.items())
            members.push_back(at / name), collect(document, at / name, members);
    } else if (here.is_array() && !here.empty()) {
        members.push_back(at / 0);
        collect(document, at / 0, members);
    }
}

void edit_sweep(const std::vector<json>& values, const std::vector<const char*>& verbs) {
    const SweepScratch folder;
    make_sweep(folder);
    const json good = json::parse(contents(folder / "good/sweep.json"));
    std::vector<json::json_pointer> members;
    collect(good, json::json_pointer(), members);
    REQUIRE(members.size() > 25);
    fs::copy(folder / "good", folder / "bad", fs::copy_options::recursive);
    std::size_t refused = 0, edits = 0;
    const auto check = [&](const json& document, const std::string& what) {
        ++edits;
        folder.write("bad/sweep.json", document.dump(1));
        for (const char* verb : verbs) {
            const int code = ends(folder, verb);
            CAPTURE(verb, what, folder.err());
            CHECK((code == 0 || code == 1 || code == 3));
            const bool says_where = folder.err().find("bad") != std::string::npos;
            if (code == 3) CHECK(says_where);
            refused += code == 3 ? 1 : 0;
        }
    };
    for (const json::json_pointer& member : members) {
        json without = good;
        json& parent = without[member.parent_pointer()];
        if (parent.is_object()) {
            parent.erase(member.back());
            check(without, "without " + member.to_string());
        }
        for (const json& value : values) {
            json other = good;
            other[member] = value;
            if (other != good) check(other, member.to_string() + " = " + value.dump());
        }
    }
    CHECK(refused > edits / 2);
}

}  // namespace

TEST_CASE("if a member of sweep.json is missing or has a wrong type, the error names the file", "[sweeps][faults]") {
    edit_sweep({nullptr, json::array()}, {"report bad"});
}

TEST_CASE("no command crashes or hangs if a member of sweep.json has a wrong type", "[sweeps][faults][slow]") {
    edit_sweep({nullptr,
                true,
                -1,
                1e300,
                99999,
                "",
                "x\n::error::",
                json::array(),
                json::object(),
                {0, 0},
                {"a"},
                {{{"a", 1}}}},
               {std::begin(readers), std::end(readers)});
}

TEST_CASE("sweep.json is refused if its axes differ from the axes of its settings", "[sweeps][faults]") {
    const SweepScratch folder;
    make_sweep(folder);
    const json good = json::parse(contents(folder / "good/sweep.json"));
    for (const json& axes : {json::array(), json{"size"}, json{"lr", "lr"}, json{"lr", "size"}}) {
        json other = good;
        other["axes"] = axes;
        folder.write("good/sweep.json", other.dump());
        for (const char* verb : {"report good", "merge good", "sweep status good", "sweep run good"}) {
            const int code = ends(folder, verb);
            CAPTURE(verb, axes.dump(), folder.err());
            CHECK(code == 3);
            CHECK(folder.err().find("good/sweep.json: it is damaged: ") != std::string::npos);
            CHECK(folder.err().find("axes") != std::string::npos);
        }
    }
}

TEST_CASE("no command crashes or hangs if a pipe, folder or device replaces a file of a sweep", "[sweeps][faults]") {
    const SweepScratch folder;
    make_sweep(folder);
    const fs::path unit = folder.units("good").front();
    const std::string in_unit = unit.lexically_relative(folder / "good").string() + "/";
    struct Case {
        std::string file;
        int code;  ///< expected exit code of report and merge, or -1 if it is not checked
    };
    const Case cases[] = {{"sweep.json", 3},
                          {in_unit + "done", 3},
                          {in_unit + "runs.csv", 3},
                          {in_unit + "steps.csv", 3},
                          {in_unit + "sites.csv", 3},
                          {"merged/steps.csv", -1},
                          {"merged/units.csv", -1},
                          {"summary.csv", -1},
                          {"report.html", -1},
                          {"shards", -1},
                          {in_unit + "manifest.json", -1}};
    for (const Case& one : cases) {
        for (const char* kind : {"pipe", "folder", "device"}) {
            fs::remove_all(folder / "bad");
            fs::copy(folder / "good", folder / "bad", fs::copy_options::recursive);
            const fs::path file = folder / ("bad/" + one.file);
            fs::remove(file);
            if (kind == std::string("pipe")) REQUIRE(::mkfifo(file.c_str(), 0666) == 0);
            if (kind == std::string("folder")) fs::create_directories(file);
            if (kind == std::string("device")) fs::create_symlink("/dev/zero", file);
            for (const char* verb : readers) {
                const int code = ends(folder, verb);
                CAPTURE(one.file, kind, verb, folder.err());
                CHECK((code == 0 || code == 1 || code == 3 || code == 5));
                const bool reads_rows = verb == std::string("report bad") || verb == std::string("merge bad");
                if (one.code >= 0 && reads_rows) {
                    CHECK(code == one.code);
                    CHECK(folder.err().find(one.file) != std::string::npos);
                }
            }
        }
    }
}

TEST_CASE("scripts of `sweep submit` quote names for their language, or refuse them with a reason",
          "[sweeps][faults]") {
    const SweepScratch folder;
    make_sweep(folder);
    const auto scripts_of = [&](const std::string& name, int code = 0) {
        fs::copy(folder / "good", folder / name, fs::copy_options::recursive);
        // The test passes the name in an environment variable, so that it does not need to quote the name itself.
        ::setenv("MACHEPS_TEST_NAME", name.c_str(), 1);
        const int ended = folder.run("sweep submit \"$MACHEPS_TEST_NAME\" --engine slurm --print");
        CAPTURE(name, folder.err());
        CHECK(ended == code);
        return folder.out();
    };
    CHECK(scripts_of("my sweeps").find("--output=\"" + (folder / "my sweeps").string() + "/slurm/%A_%a.log\"\n") !=
          std::string::npos);
    CHECK(scripts_of("a'b \"c\" $(touch INJECTED)").find("b \\\"c\\\" $(touch INJECTED)/slurm/%A_%a.log\"\n") !=
          std::string::npos);
    CHECK(scripts_of("50% #x").find("50%% #x/slurm/%A_%a.log\"\n") != std::string::npos);
    for (const char* name : {"x\ntouch INJECTED\n#", "x\ry", "back\\slash"}) {
        CHECK(scripts_of(name, 2).empty());
        CHECK(folder.err().find(name[0] == 'b' ? "backslash" : "control character") != std::string::npos);
    }
    // When Bash runs a script, it does not execute commands in a name.
    folder.write("array.sh", "set -- \n" + scripts_of("$(touch INJECTED) `touch INJECTED`; touch INJECTED"));
    folder.shell("PATH=/usr/bin:/bin SLURM_ARRAY_TASK_ID=0 bash array.sh");
    CHECK_FALSE(fs::exists(folder / "INJECTED"));

    const auto submit = [&](const std::string& words) { return folder.run("sweep submit good --print " + words); };
    CHECK(submit("--engine slurm --time \"$(printf '1:00\\ntouch INJECTED')\"") == 2);
    CHECK(submit("--engine slurm --time '1:00 --wrap=x'") == 0);
    CHECK(folder.out().find("--time=\"1:00 --wrap=x\" ") != std::string::npos);
    for (const char* image : {"'a: b'", "'x # y'", "\"$(printf 'x\\ncommand: [sh]')\"", "'{a}'", "'*a'"}) {
        CAPTURE(image);
        CHECK(submit(std::string("--engine kubernetes --image ") + image) == 2);
        CHECK(folder.err().find("--image") != std::string::npos);
    }
    CHECK(submit("--engine kubernetes --image registry.example.org:5000/me/macheps:1.0@sha256:00ff") == 0);
    CHECK(folder.out().find("image: \"registry.example.org:5000/me/macheps:1.0@sha256:00ff\"\n") != std::string::npos);
    // The options of --sbatch become words of an #SBATCH line. sbatch (here replaced by a script that records its
    // arguments) receives only the path of the script.
    folder.write("sbatch", "#!/bin/sh\nfor word in \"$@\"; do echo \"[$word]\" >>asked; done\necho 7\n");
    fs::permissions(folder / "sbatch", fs::perms::owner_all);
    CHECK(folder.shell(
              "PATH=.:$PATH '" MACHEPS_PROGRAM
              "' sweep submit 'my sweeps' --engine slurm --sbatch \"-A 'my account'; touch INJECTED \\$HOME #x\"") ==
          0);
    for (const char* script : {"my sweeps/slurm/array.sh", "my sweeps/slurm/merge.sh"}) {
        CAPTURE(script);
        CHECK(contents(folder / script).find("\n#SBATCH -A \"my account;\" touch INJECTED \"$HOME\" \"#x\"\n") !=
              std::string::npos);
    }
    const std::string array = "[" + (folder / "my sweeps/slurm/array.sh").string() + "]\n";
    const std::string merge = "[" + (folder / "my sweeps/slurm/merge.sh").string() + "]\n";
    CHECK(contents(folder / "asked") == "[--parsable]\n" + array + "[--parsable]\n[--dependency=afterany:7]\n" + merge);
    CHECK(submit("--engine slurm --sbatch \"-A '$(printf 'x\\n#SBATCH -w y')'\"") == 2);
    CHECK(folder.err().find("--sbatch") != std::string::npos);
    CHECK_FALSE(fs::exists(folder / "INJECTED"));
}

}  // namespace hostile_test
