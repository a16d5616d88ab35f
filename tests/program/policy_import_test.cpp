// SPDX-License-Identifier: Apache-2.0
// Tests `macheps policy import`: each form of its output, its exit codes, and its errors for bad input.
#include "tests/json.hpp"
#include "tests/program/program.hpp"
#include "tests/regex.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace policy_import_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

constexpr const char* deepspeed =
    "{\n  \"fp16\": {\"enabled\": true, \"loss_scale\": 0, \"initial_scale_power\": 12, \"loss_scale_window\": 500,\n"
    "    \"hysteresis\": 2, \"min_loss_scale\": 1},\n"
    "  \"zero_optimization\": {\"stage\": 2},\n  \"gradient_clipping\": 1.0,\n  \"steps_per_print\": 10\n}\n";
/// A config that DeepSpeed refuses: it enables both fp16 and bf16, and has an unknown key in `fp16`.
constexpr const char* contradiction =
    "{\"fp16\": {\"enabled\": true, \"windo\": 3},\n \"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": "
    "1}}\n";
constexpr const char* arguments =
    "bf16: true\nfp16: false\ntf32: true\nper_device_train_batch_size: 4\nlearning_rate: 1.0e-4\n"
    "output_dir: out\ngradient_accumulation_steps: 8\n";

void write_samples() {
    write("ds.json", deepspeed);
    write("hf_args.yaml", arguments);
    write("args.yaml", arguments);
    write("bad.json", contradiction);
    fs::create_directories(scratch() / "configs");
    write("configs/a.json", deepspeed);
    write("configs/b.yaml", arguments);
    write("configs/notes.txt", "no config");
    write("launch.sh", "torchrun a.py --bf16 True --output_dir o\ntorchrun b.py --fp16 True --output_dir o\n");
}

std::string examples_of(const std::string& help) {
    const std::size_t start = help.find("Examples:\n"), end = help.find("\n\n", start);
    return help.substr(start, end - start);
}

}  // namespace

TEST_CASE("policy import: every example of its help runs", "[program][import]") {
    write_samples();
    std::istringstream lines(examples_of(run("policy import --help").out));
    const std::string example(R"(^  macheps (policy import .*?)(  .*)?$)");
    int count = 0;
    for (std::string line; std::getline(lines, line);) {
        const std::optional<Match> parts = matches(line, example);
        if (!parts) continue;
        std::string words = (*parts)[1];
        words = words.substr(0, words.find(" > "));
        CAPTURE(words);
        const Outcome outcome = run(words);
        CAPTURE(outcome.err);
        CHECK(outcome.code == 0);
        CHECK_FALSE(outcome.out.empty());
        CHECK(outcome.err.empty());
        ++count;
    }
    CHECK(count >= 7);
    fs::remove_all(scratch());
}

TEST_CASE("policy import: the findings with errors first, then the fields with their origins", "[program][import]") {
    write_samples();
    const Outcome good = run("policy import ds.json");
    CHECK(good.code == 0);
    CHECK(good.out.find("\nFIELD") != std::string::npos);
    CHECK(finds(good.out, R"(\ncompute +fp16 +ds\.json:2:12 fp16\.enabled\n)"));
    CHECK(finds(good.out, R"(\nscaler +ds-zero init_scale=4096 growth_interval=500 hysteresis=2)"));
    CHECK(finds(good.out, R"(\nI 1 key affects no format, rounding or scale: steps_per_print)"));
    CHECK(
        finds(run("policy import ds.json --all").out, R"(\nI ds\.json:\d+:\d+: `steps_per_print` affects no format)"));
    const Outcome bad = run("policy import bad.json");
    CHECK(bad.code == 1);
    const std::size_t error = bad.out.find("\nE bad.json:"), note = bad.out.find("\nN "),
                      unknown = bad.out.find("\nU bad.json:1:28: ");
    REQUIRE(error != std::string::npos);
    CHECK(unknown != std::string::npos);
    CHECK(error < note);
    CHECK(note < bad.out.find("\nFIELD"));
    CHECK(finds(
        bad.out,
        R"(\n`macheps policy advise --have bad\.json` prints settings that end findings, as a patch of the file\n$)"));
    CHECK(good.out.find("policy advise") == std::string::npos);
    CHECK(bad.out.find("did you mean") != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("policy import --json is one object with every field and finding", "[program][import]") {
    write_samples();
    const Outcome outcome = run("policy import ds.json --json");
    CHECK(outcome.code == 0);
    const json result = json::parse(outcome.out);
    CHECK(result["framework"] == "deepspeed");
    CHECK(result["version"].is_string());
    for (const char* name :
         {"store", "compute", "master", "grad", "accum", "reduce", "norm", "logits", "scaler", "clip", "device"}) {
        CAPTURE(name);
        REQUIRE(result["resolved"].contains(name));
        CHECK(result["resolved"][name].contains("value"));
        CHECK_FALSE(result["resolved"][name]["from"].get<std::string>().empty());
    }
    CHECK(result["resolved"]["compute"]["value"] == "H");
    const json scaler = result["resolved"]["scaler"]["value"];
    CHECK(scaler["kind"] == "ds-zero");
    CHECK(scaler["init_scale"] == 4096);
    CHECK(scaler["growth_interval"] == 500);
    CHECK(result["policy"].get<std::string>().find("[loss_scaler]") != std::string::npos);
    const json refused = json::parse(run("policy import bad.json --json").out);
    std::set<std::string> severities;
    for (const json& one : refused["findings"]) {
        for (const char* name :
             {"code", "severity", "file", "line", "column", "key", "keys", "rule", "message", "instead"}) {
            CAPTURE(name);
            CHECK(one.contains(name));
        }
        CHECK(one["code"].get<std::string>().size() == 1);
        if (one["key"] != "") CHECK(std::find(one["keys"].begin(), one["keys"].end(), one["key"]) != one["keys"].end());
        severities.insert(one["severity"].get<std::string>());
    }
    CHECK(severities.contains("error"));
    CHECK(refused["findings"][0]["severity"] == "error");
    fs::remove_all(scratch());
}

TEST_CASE("policy import --sarif writes SARIF 2.1.0", "[program][import]") {
    write_samples();
    write("a name.json", contradiction);
    const Outcome outcome = run("policy import 'a name.json' --sarif");
    CHECK(outcome.code == 1);
    const json sarif = json::parse(outcome.out);
    CHECK(sarif["version"] == "2.1.0");
    CHECK(sarif["$schema"].get<std::string>().find("sarif") != std::string::npos);
    REQUIRE(sarif["runs"].size() == 1);
    const json run_of_it = sarif["runs"][0];
    CHECK(run_of_it["tool"]["driver"]["name"] == "macheps");
    const json rules = run_of_it["tool"]["driver"]["rules"];
    REQUIRE_FALSE(run_of_it["results"].empty());
    for (const json& one : run_of_it["results"]) {
        CHECK(rules.at(one["ruleIndex"].get<std::size_t>())["id"] == one["ruleId"]);
        CHECK(std::set<std::string>{"error", "warning", "note"}.contains(one["level"].get<std::string>()));
        CHECK_FALSE(one["message"]["text"].get<std::string>().empty());
        const json place = one["locations"][0]["physicalLocation"];
        CHECK(place["artifactLocation"]["uri"] == "a%20name.json");
        CHECK(place["region"]["startLine"].get<int>() >= 1);
        CHECK(place["region"]["startColumn"].get<int>() >= 1);
    }
    CHECK(run_of_it["results"][0]["level"] == "error");
    // A finding about an override on the command line has no region, because the override is not in a file.
    const json of_argument = json::parse(run("policy import --framework deepspeed fp16.windo=3 --sarif").out);
    CHECK_FALSE(of_argument["runs"][0]["results"][0]["locations"][0]["physicalLocation"].contains("region"));
    fs::remove_all(scratch());
}

TEST_CASE("policy import --github writes workflow commands", "[program][import]") {
    write_samples();
    const Outcome outcome = run("policy import bad.json --github");
    CHECK(outcome.code == 1);
    std::istringstream lines(outcome.out);
    const std::string command(
        R"(::(error|warning|notice) file=bad\.json,line=\d+,col=\d+,title=[a-z]+/[a-z0-9-]+::.+)");
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
        CAPTURE(line);
        CHECK(matches(line, command).has_value());
    }
    CHECK(count > 2);
    CHECK(outcome.out.starts_with("::error "));
    CHECK(outcome.out.find("%0AInstead: ") != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("policy import --toml prints a policy that train, explain and diff accept", "[program][import]") {
    write_samples();
    const Outcome toml = run("policy import ds.json --toml");
    CHECK(toml.code == 0);
    CHECK(toml.err.empty());
    write("mine.toml", toml.out);
    CHECK(run("policy explain ./mine.toml").code == 0);
    CHECK(run(std::string(quick) + "--policy ./mine.toml --out run --quiet").code == 0);
    // Commands that take a policy also accept a config and import it in the same way.
    const Outcome same = run("policy diff ./mine.toml ds.json");
    CAPTURE(same.out, same.err);
    CHECK(same.code == 0);
    CHECK(run("policy explain hf_args.yaml --fold").out.find("amp-bf16") != std::string::npos);
    // The config and the preset agree about autocast. They differ in other parts of a step, which only the config sets.
    const json differences = json::parse(run("policy diff amp-bf16 hf_args.yaml --json").out).at("differences");
    CHECK_FALSE(differences.empty());
    for (const json& one : differences)
        CHECK(std::set<std::string>{"optimizer", "clip", "accumulation", "reduce"}.contains(
            one.at("what").get<std::string>()));
    const Outcome refused = run("policy explain bad.json");
    CHECK(refused.code == 1);
    CHECK(refused.err.find("config has an error") != std::string::npos);
    // The import of a refused config still prints a policy, and stderr reports the error.
    const Outcome bad = run("policy import bad.json --toml");
    CHECK(bad.code == 1);
    CHECK(bad.err.find("E bad.json:") != std::string::npos);
    CHECK(bad.out.find("extends") != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("policy import --each prints a line for each file and exits with the worst exit code", "[program][import]") {
    write_samples();
    const Outcome good = run("policy import --each configs ds.json");
    CHECK(good.code == 0);
    CHECK(std::count(good.out.begin(), good.out.end(), '\n') == 4);
    CHECK(good.out.ends_with("\npassed over 1 file: 1 .txt\n"));
    CHECK(good.out.find("configs/a.json: deepspeed ") != std::string::npos);
    CHECK(good.out.find("notes.txt") == std::string::npos);
    CHECK(run("policy import --each configs bad.json").code == 1);
    write("configs/c.json", "{");
    const Outcome worst = run("policy import --each configs bad.json");
    CHECK(worst.code == 3);
    CHECK(worst.out.find("configs/c.json: not a config: configs/c.json:1:2: ") != std::string::npos);
    const json rows = json::parse(run("policy import --each configs bad.json --json").out);
    REQUIRE(rows.size() == 4);
    CHECK(rows[2]["code"] == 3);
    CHECK(rows[3]["framework"] == "deepspeed");
    CHECK(json::parse(run("policy import --each configs --sarif").out)["runs"][0]["results"].size() > 3);
    fs::remove_all(scratch());
}

TEST_CASE("policy import --each reads configs in every language, and counts the files that it passes over",
          "[program][import]") {
    write_samples();
    write("configs/c.toml", "[zero_optimization]\nstage = 1\n");
    write("configs/policy.toml", "extends = \"amp-bf16\"\n");
    write("configs/d.sh", "torchrun a.py --bf16 True --output_dir o\n");
    write("configs/e.py", "dtype = 'float16'\nblock_size = 4\n");
    write("configs/train.py", "print(1)\n");
    write("configs/f.conf", deepspeed);
    write("configs/LICENSE", "text");
    const Outcome all = run("policy import --each configs");
    CHECK(all.code == 0);
    for (const char* line : {"configs/a.json: deepspeed", "configs/b.yaml: transformers", "configs/c.toml: deepspeed",
                             "configs/d.sh: transformers", "configs/e.py: nanogpt", "configs/f.conf: deepspeed"}) {
        CAPTURE(line);
        CHECK(all.out.find(line) != std::string::npos);
    }
    CHECK(std::count(all.out.begin(), all.out.end(), '\n') == 7);
    const std::string passed_over =
        "passed over 4 files: 1 .py (programs), 1 .toml (policies and others), 1 .txt, 1 without an ending\n";
    CHECK(all.out.ends_with(passed_over));
    CHECK(run("policy import --each configs --json").err == passed_over);
    CHECK(json::parse(run("policy import --each configs --json").out).size() == 6);
    // A policy in TOML is still a policy, and a config in TOML is a config, for every verb that reads both.
    CHECK(run("policy explain configs/policy.toml").code == 0);
    CHECK(run("policy explain configs/c.toml").code == 0);
    fs::remove_all(scratch());
}

TEST_CASE("policy import --line reads one of several training commands", "[program][import]") {
    write_samples();
    const Outcome both = run("policy import launch.sh");
    CHECK(both.code == 3);
    CHECK(both.err.find("launch.sh:2:1: the file has 2 training commands, in the lines 1, 2") != std::string::npos);
    CHECK(finds(run("policy import launch.sh --line 1").out, R"(\ncompute +bf16 )"));
    CHECK(finds(run("policy import launch.sh --line 2").out, R"(\ncompute +fp16 )"));
    CHECK(run("policy import launch.sh --line 3").code == 2);
    CHECK(run("policy import launch.sh --line x").code == 2);
    CHECK(run("policy import ds.json --gpu h200").code == 0);
    fs::remove_all(scratch());
}

TEST_CASE("policy import --diff-version reports what an upgrade changes", "[program][import]") {
    write("trap.json", R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 2}})");
    const Outcome outcome = run("policy import trap.json --diff-version 0.16.5:0.19.6");
    CHECK(outcome.code == 0);
    CHECK(outcome.out.find("DeepSpeed 0.16.5 -> 0.19.6\n") == 0);
    CHECK(finds(outcome.out, R"(\nscaler: ds-zero init_scale=4294967296 .* -> ds-zero init_scale=65536 )"));
    const json changes = json::parse(run("policy import trap.json --diff-version 0.16.5:0.19.6 --json").out);
    CHECK(changes["a"] == "0.16.5");
    CHECK(std::any_of(changes["fields"].begin(), changes["fields"].end(),
                      [](const json& one) { return one["field"] == "scaler"; }));
    CHECK(run("policy import trap.json --diff-version 0.19.6:0.19.6").out.find("no field changes") !=
          std::string::npos);
    CHECK(run("policy import trap.json --diff-version 0.19.6").code == 2);
    fs::remove_all(scratch());
}

TEST_CASE("policy import: options change the result, and an invalid option is a usage error", "[program][import]") {
    write_samples();
    write("vars.env", "# note\nexport A=1\n");
    CHECK(run("policy import ds.json --framework-version 0.16.5 --json").out.find("\"version\": \"0.16.5\"") !=
          std::string::npos);
    CHECK(run("policy import ds.json --framework-version transformers=4.41,deepspeed=0.16.5 --env vars.env").code == 0);
    CHECK(
        run("policy import ds.json fp16.enabled=false bf16.enabled=true --json").out.find("argument 3 bf16.enabled") !=
        std::string::npos);
    for (const char* words :
         {"policy import", "policy import ds.json --framework nobody", "policy import ds.json --gpu a1000",
          "policy import ds.json --framework-version new", "policy import ds.json --framework-version nobody=1",
          "policy import ds.json --checkpoint-dtype fp8", "policy import ds.json --json --toml",
          "policy import ds.json =3"}) {
        CAPTURE(words);
        const Outcome outcome = run(words);
        CHECK(outcome.code == 2);
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    }
    write("bad.env", "A=1\nnonsense\n");
    const Outcome env = run("policy import ds.json --env bad.env");
    CHECK(env.code == 3);
    CHECK(env.err.find("bad.env:2: ") != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("policy import: a file that is not a config gives exit code 3 and one line with the place",
          "[program][import]") {
    struct Case {
        const char *name, *text, *says;
    };
    const std::string nested = std::string(10'000, '[') + std::string(10'000, ']'), big(10 << 20, 'a');
    const Case cases[] = {
        {"empty.json", "", "empty.json: the file is empty"},
        {"blank.yaml", "\n\n", "blank.yaml: the file is empty"},
        {"comments.yaml", "# nothing\n", "the file contains no keys"},
        {"list.json", "[1, 2]", "list.json:1:1: the file contains no keys"},
        {"words.yaml", "just words\n", "the file contains no keys"},
        {"broken.json", "{\"fp16\": {\"enabled\": tru}}", "broken.json:1:22: "},
        {"broken.yaml", "a: [x]/y\n", "broken.yaml:1:7: "},
        {"bytes.yaml", "fp16: \xff\n", "bytes.yaml:1:7: the byte 0xff is not valid UTF-8"},
        {"deep.json", nested.c_str(), "deep.json:1:257: more than 256 levels"},
        {"deep.yaml", nested.c_str(), "deep.yaml:1:"},
        {"big.json", big.c_str(), "big.json: the file is larger than 1048576 bytes"},
        {"cycle.yaml", "a: &a {b: *a}\n", "cycle.yaml:1:11: an alias is inside the value that it names"},
        {"other.yaml", "shopping: [milk, bread]\n", "no framework was recognised by these keys"},
    };
    for (const Case& one : cases) {
        CAPTURE(one.name);
        write(one.name, one.text);
        const Outcome outcome = run(std::string("policy import ") + one.name);
        CAPTURE(outcome.err);
        CHECK(outcome.code == 3);
        CHECK(outcome.out.empty());
        CHECK(outcome.err.find(one.says) != std::string::npos);
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    }
    CHECK(run("policy import .").code == 3);
    CHECK(run("policy import none.json").code == 3);
    fs::remove_all(scratch());
}

TEST_CASE("policy import: every mistake in a config is a finding, and all are reported at once", "[program][import]") {
    const auto findings = [](const std::string& text, const std::string& options) {
        write("x.yaml", text);
        const Outcome outcome = run("policy import x.yaml --json " + options);
        CAPTURE(text, outcome.err);
        REQUIRE((outcome.code == 0 || outcome.code == 1));
        std::set<std::string> rules;
        const json result = json::parse(outcome.out);
        for (const json& one : result["findings"])
            rules.insert(one["code"].get<std::string>() + " " + one["rule"].get<std::string>());
        return rules;
    };
    // This config has a repeated key, a number that YAML reads as text, and a boolean in place of a section.
    const std::set<std::string> ds = findings(
        "fp16: {enabled: true, loss_scale: 0, loss_scale: '128'}\nbf16: true\n"
        "optimizer: {type: Adam, params: {lr: 1e-5}}\n",
        "--framework deepspeed");
    CHECK(ds.contains("E deepspeed/repeated-key"));
    CHECK(ds.contains("C deepspeed/text-number"));
    CHECK(ds.contains("E deepspeed/wrong-type"));
    // `no` without quotes is a boolean in YAML 1.1.
    const std::set<std::string> accelerate = findings(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: no\nnum_processes: 2\n", "");
    CHECK(std::any_of(accelerate.begin(), accelerate.end(),
                      [](const std::string& one) { return one.starts_with("E accelerate/"); }));
    // If one file has keys of two frameworks, the keys of the framework that is not imported are reported as unknown.
    const std::set<std::string> mixed = findings(
        "zero_optimization: {stage: 2}\nfp16: {enabled: true}\n"
        "micro_batch_size: 1\nbase_model: x\nmixed_precision: bf16\n",
        "--framework deepspeed");
    CHECK(mixed.contains("U deepspeed/unknown-key"));
    // The device (a CPU) does not support the format.
    const std::set<std::string> cpu = findings(
        "fp8: true\ncompute_environment: LOCAL_MACHINE\ndistributed_type: NO\nmixed_precision: fp8\nnum_processes: 1\n",
        "--framework accelerate --gpu v100");
    CHECK(std::any_of(cpu.begin(), cpu.end(), [](const std::string& one) { return one.starts_with("W accelerate/"); }));
    // Anchors and merge keys of YAML are resolved.
    write("anchors.yaml", "base: &b {enabled: true}\nfp16: {<<: *b, loss_scale: 64}\nzero_optimization: {stage: 1}\n");
    const json merged = json::parse(run("policy import anchors.yaml --framework deepspeed --json").out);
    CHECK(merged["resolved"]["compute"]["value"] == "H");
    CHECK(merged["resolved"]["compute"]["from"] == "anchors.yaml:1:11 fp16.enabled");
    fs::remove_all(scratch());
}

}  // namespace policy_import_test
