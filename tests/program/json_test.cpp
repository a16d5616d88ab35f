// SPDX-License-Identifier: Apache-2.0
// Tests the JSON output of the verbs, the differences between policies, the plans of --dry-run, and reports on several
// directories.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <limits>
#include <string>

namespace json_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

/// Parses stdout as JSON. Fails the test if it is not exactly one document.
json document(const Outcome& outcome) {
    CAPTURE(outcome.out, outcome.err);
    const json parsed = json::parse(outcome.out, nullptr, false);
    CHECK_FALSE(parsed.is_discarded());
    return parsed;
}

bool holds(const json& object, std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
        if (!object.contains(key)) return false;
    }
    return true;
}

}  // namespace

TEST_CASE("--json prints one document with the promised keys", "[program]") {
    const json shown = document(run("show 0.1 nan -inf --format fp16 --json"));
    REQUIRE(shown.size() == 3);
    CHECK(holds(shown[0], {"input", "value", "hex", "round", "overflow", "formats"}));
    CHECK(shown[0]["value"].get<double>() == 0.1);
    CHECK(shown[0]["formats"][0]["value"].get<double>() == 0x1.998p-4);
    CHECK(shown[1]["value"] == "nan");
    CHECK(shown[2]["formats"][0]["value"] == "-inf");
    CHECK(document(run("formats --json")).size() > 10);
    const json presets = document(run("policy list --json"));
    CHECK(holds(presets[0], {"name", "description", "extends", "loss_scaler", "machines"}));
    CHECK(presets[0]["machines"] == json::array({"fp32.chain"}));
    const json policy = document(run("policy show amp-fp16 --json"));
    CHECK(policy["name"] == "amp-fp16");
    CHECK(policy["loss_scaler"]["init_scale"] == 65536);
    CHECK(policy["toml"].get<std::string>() == run("policy show amp-fp16").out);
    const json explained = document(run("policy explain tf32 --model llama --json"));
    CHECK(holds(explained, {"policy", "model", "size", "loss_scaler", "rows"}));
    CHECK(explained["model"] == "llama");
    const json fp8 = document(run("policy explain h100-fp8-promoted --json"));
    CHECK(fp8["machines"]["sm90.wgmma.fp8, cublaslt.fp8.split"] == 24);
    CHECK(fp8["machines"]["sm90.wgmma.bf16"] == 15);
    CHECK(fp8["unverified"].empty());
    CHECK(document(run("policy explain b200-fp8 --json"))["unverified"].size() == 1);
    CHECK(explained["unverified"].empty());
    CHECK(holds(document(run("version --json")), {"version", "git", "compiler", "schema", "device"}));
    fs::remove_all(scratch());
}

TEST_CASE("with --json, an error is also printed as JSON on stdout, with its parts", "[program]") {
    struct Case {
        const char *arguments, *what, *where;
        int code;
        const char* why;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"show 12monkeys --json", "'12monkeys' is not a valid number", "show", 2, "an error of the verb"},
             {"show 1 --format fp17 --json", "unknown format 'fp17'", "--format", 2, "an option"},
             {"policy import none.json --json", "", "none.json", 3, "a file that does not exist"},
             {"scaler nothing --json", "", "", 2, "a word that the parser of the command line refuses"},
             {"show --no-such-option=1 --json", "", "", 2, "an unknown option"},
             {"gemm --machine sm99 --json", "", "", 2, "an unknown machine"}}) {
        CAPTURE(c.arguments, c.why);
        const Outcome outcome = run(c.arguments);
        CHECK(outcome.code == c.code);
        const json error = document(outcome).at("error");
        CHECK(holds(error, {"what", "where", "fix"}));
        CHECK(error["what"].get<std::string>().starts_with(c.what));
        CHECK(error["where"].get<std::string>().find(c.where) != std::string::npos);
        CHECK_FALSE(error["what"].get<std::string>().empty());
        CHECK_FALSE(outcome.err.empty());
        CHECK(run(std::string(c.arguments).substr(0, std::string(c.arguments).find(" --json"))).out.empty());
    }
    fs::remove_all(scratch());
}

TEST_CASE("policy diff reports differences, and exits with 1 if there are any", "[program]") {
    write("copy.toml", run("policy show amp-bf16").out);
    write("order.toml",
          "name = \"order\"\n[[rule]]\nsites = \"block.*.mlp.up\"\nforward = { a = \"fp16\" }\n"
          "[[rule]]\nsites = \"lm_head\"\nforward = { a = \"bf16\" }\n");
    write("other.toml",
          "name = \"other\"\n[[rule]]\nsites = \"lm_head\"\nforward = { a = \"bf16\" }\n"
          "[[rule]]\nsites = \"block.*.mlp.up\"\nforward = { a = \"fp16\" }\n");
    write("one.toml",
          "name = \"one\"\n[[rule]]\nsites = \"block.1.mlp.up\"\nforward = { a = \"fp16\" }\n"
          "[[rule]]\nsites = \"lm_head\"\nforward = { a = \"bf16\" }\n");
    write("masters.toml", "name = \"masters\"\nextends = \"pure-bf16\"\n[[rule]]\nparams = \"*\"\nmaster = \"fp32\"\n");
    struct Case {
        const char *arguments, *says;
        int code;
        const char* why;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"tf32 tf32", "are equivalent", 0, "a policy and itself"},
             {"amp-bf16 copy.toml", "are equivalent", 0, "a preset and its copy"},
             {"order.toml other.toml", "are equivalent", 0, "the order of independent rules"},
             {"order.toml one.toml", "block.0.mlp.up", 1, "one block of two"},
             {"order.toml fp32", "block.*.mlp.up", 1, "all blocks alike"},
             {"order.toml one.toml --layers 4", "block.{0,2,3}.mlp.up", 1, "three blocks of four"},
             {"order.toml fp32 --sites lm_head", "lm_head", 1, "only the sites that are asked for"},
             {"order.toml one.toml --sites lm_head", "are equivalent", 0, "other sites are not compared"},
             {"amp-fp16 fp16-noscale", "loss_scaler", 1, "the loss scaler"},
             {"masters.toml pure-bf16", "master", 1, "master weights"},
             {"tf32 amp-bf16 --model llama", "attn.qkv", 1, "another model"}}) {
        CAPTURE(c.arguments, c.why);
        const Outcome outcome = run(std::string("policy diff ") + c.arguments);
        CAPTURE(outcome.out, outcome.err);
        CHECK(outcome.code == c.code);
        CHECK(outcome.out.find(c.says) != std::string::npos);
    }
    const json differences = document(run("policy diff order.toml fp32 --json"));
    CHECK(differences["same"] == false);
    CHECK(differences["differences"] ==
          json::parse(R"([{"what": "cast", "site": "block.*.mlp.up", "slot": "forward.a", "a": "fp16", "b": "fp32"},
                          {"what": "cast", "site": "lm_head", "slot": "forward.a", "a": "bf16", "b": "fp32"}])"));
    CHECK(run("policy diff order.toml fp32 --csv").out ==
          "what,site,slot,a,b\ncast,block.*.mlp.up,forward.a,fp16,fp32\ncast,lm_head,forward.a,bf16,fp32\n");
    CHECK(run("policy diff tf32 fp32 --sites nowhere").code == 2);
    fs::remove_all(scratch());
}

TEST_CASE("--dry-run prints the plan and writes nothing", "[program]") {
    fs::remove_all(scratch());
    const Outcome outcome =
        run(std::string(quick) + "--policy amp-bf16 --seeds 3,4 --jobs 1 --out plan --dry-run --json");
    const json plan = document(outcome);
    CHECK(outcome.code == 0);
    CHECK(plan["runs"] == 4);
    CHECK(plan["seeds"] == json({3, 4}));
    CHECK(plan["steps"] == 2);
    CHECK(plan["tokens"] == 2 * 2 * 8);
    CHECK(plan["directory"] == "plan");
    CHECK(plan["problems"].empty());
    REQUIRE(plan["policies"].size() == 2);
    double seconds = 0;
    for (const json& policy : plan["policies"]) {
        CHECK(policy["timed_steps"] >= 3);
        CHECK(policy["step_seconds"] > 0);
        CHECK(policy["row_bytes"] > 0);
        seconds += policy["seconds"].get<double>();
    }
    CHECK(plan["seconds"].get<double>() == Approx(seconds).epsilon(4 * std::numeric_limits<double>::epsilon()));
    CHECK_FALSE(fs::exists(scratch() / "plan"));
    // The run reports the same memory for the policy as the plan, and writes about as many bytes as planned.
    REQUIRE(run(std::string(quick) + "--policy amp-bf16 --seeds 3,4 --out plan").code == 0);
    const std::string rows = contents(scratch() / "plan/runs.csv");
    const json& bytes = plan["policies"][1]["framework_bytes"];
    std::string cells;
    for (const char* key : {"parameters", "gradients", "master", "optimizer", "activations"})
        cells.append(",").append(std::to_string(bytes[key].get<std::int64_t>()));
    CHECK(rows.find(cells) != std::string::npos);
    std::uintmax_t written = 0;
    for (const auto& file : fs::directory_iterator(scratch() / "plan")) {
        if (file.is_regular_file()) written += file.file_size();
    }
    CHECK(plan["disk_bytes"].get<double>() > 0.5 * double(written));
    CHECK(plan["disk_bytes"].get<double>() < 0.5 * double(written) + (2 << 20));
    // A second run in that directory would be refused, so its plan reports a problem.
    const Outcome again = run(std::string(quick) + "--out plan --dry-run --json");
    CHECK(again.code == 2);
    CHECK(document(again)["problems"][0]["exit"] == 2);
    CHECK(again.err.find("--force") != std::string::npos);
    CHECK(run("train --steps 0 --dry-run").code == 2);
    fs::remove_all(scratch());
}

TEST_CASE("train and report print their summary as JSON, also for several directories", "[program]") {
    fs::remove_all(scratch());
    write("a.toml", "name = \"mine\"\n[[rule]]\nsites = \"lm_head\"\nforward = { a = \"bf16\" }\n");
    write("b.toml", "name = \"mine\"\n[[rule]]\nsites = \"lm_head\"\nforward = { a = \"e5m2\" }\n");
    const Outcome first = run(std::string(quick) + "--policy a.toml --out first --json");
    const json trained = document(first);
    CHECK(first.code == 0);
    CHECK(trained["finished"] == true);
    CHECK(trained["directory"] == "first");
    CHECK(trained["files"]["page"] == "first/report.html");
    CHECK(trained["summary"]["policies"][1]["policy"] == "mine");
    REQUIRE(run(std::string(quick) + "--policy b.toml --out second").code == 0);
    const json joined = document(run("report first second -o both.html --json"));
    std::vector<std::string> names;
    for (const json& policy : joined["policies"]) names.push_back(policy["policy"]);
    CHECK(names == std::vector<std::string>{"fp32", "mine", "mine@second"});
    CHECK(fs::exists(scratch() / "both.html"));
    const Outcome picture = run("report first --png page.png", "MACHEPS_BROWSER=/nowhere/chromium");
    CHECK(picture.code == 5);
    CHECK(picture.err.find("save as PNG") != std::string::npos);
    CHECK_FALSE(fs::exists(scratch() / "page.png"));
    fs::remove_all(scratch());
}

TEST_CASE("report --png writes a PNG file", "[program][page]") {
    bool is_there = std::getenv("MACHEPS_BROWSER") != nullptr;
    for (const std::string name : {"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"})
        is_there |= std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0;
    if (!is_there) SKIP_TEST("no Chromium or Chrome on PATH, nor in MACHEPS_BROWSER");
    fs::remove_all(scratch());
    REQUIRE(run(std::string(quick) + "--policy tf32 --out run").code == 0);
    const Outcome outcome = run("report run --png page.png");
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(contents(scratch() / "page.png").starts_with("\x89PNG"));
    CHECK(fs::file_size(scratch() / "page.png") > 20000);
    fs::remove_all(scratch());
}

}  // namespace json_test
