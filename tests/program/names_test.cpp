// SPDX-License-Identifier: Apache-2.0
// Tests names on the command line: verbs, policies, sizes, GPUs and seeds.
#include "core/text/nearest_name.hpp"
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <algorithm>
#include <sstream>
#include <string>

namespace names_test {

using namespace macheps;
using namespace macheps::test;
using nlohmann::json;

namespace {

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("an unknown name of any kind gives exit code 2", "[program]") {
    write("x.npy", "");
    for (const char* arguments : {"nosuch",
                                  "help nosuch",
                                  "train --policy nosuch",
                                  "train --size nosuch",
                                  "train --model nosuch",
                                  "train --device nosuch",
                                  "train --gelu nosuch",
                                  "train --optimizer nosuch",
                                  "train --policy fp32,nosuch",
                                  "policy show nosuch",
                                  "policy explain nosuch",
                                  "policy diff fp32 nosuch",
                                  "policy diff nosuch fp32",
                                  "policy explain fp32 --size nosuch",
                                  "policy explain fp32 --model nosuch",
                                  "policy advise --device-profile nosuch --goal pretrain",
                                  "policy advise --device-profile h100 --goal nosuch",
                                  "scaler nosuch",
                                  "machine show nosuch",
                                  "gemm --machine nosuch",
                                  "gemm -f nosuch",
                                  "gemm -d nosuch",
                                  "gemm --scaling nosuch",
                                  "gemm --output nosuch",
                                  "gemm -M chain:nosuch",
                                  "reveal --machine nosuch",
                                  "reveal -f nosuch",
                                  "show 1 -f nosuch",
                                  "show 1 --bits nosuch",
                                  "show 1 --round nosuch",
                                  "convert --to nosuch",
                                  "convert --to fp16 --profile nosuch",
                                  "testfloat nosuch",
                                  "check x.npy --op nosuch",
                                  "check make-inputs --op nosuch -o in",
                                  "check power --op nosuch",
                                  "verify --only nosuch",
                                  "completion nosuch"}) {
        const Outcome outcome = run(arguments);
        CAPTURE(arguments, outcome.err);
        CHECK(outcome.code == 2);
        CHECK(outcome.out.empty());
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
        CHECK_FALSE(says(outcome.err, "''"));  // no suggestion if no name is similar
    }
    // An unknown name in a file is bad input (exit code 3), not a usage error.
    write("mine.toml", "name = \"mine\"\nextends = \"nosuch\"\n");
    CHECK(run("policy show mine.toml").code == 3);
    CHECK(run("train --size huge").err == "macheps: --size: unknown size 'huge' (use one of tiny, small, base)\n");
    CHECK(says(run("train --size smal").err, "did you mean 'small'?"));
    fs::remove_all(scratch());
}

TEST_CASE("seeds may be given as a range", "[program]") {
    const auto seeds = [](const std::string& given) {
        const Outcome outcome = run(std::string(quick) + "--policy fp32 --dry-run --json --seeds " + given);
        CAPTURE(given, outcome.err);
        REQUIRE(outcome.code == 0);
        return json::parse(outcome.out)["seeds"];
    };
    CHECK(seeds("0-4") == json({0, 1, 2, 3, 4}));
    CHECK(seeds("7,10-12,3") == json({7, 10, 11, 12, 3}));
    CHECK(seeds("5-5") == json({5}));
    struct Case {
        const char *given, *says;
    };
    for (const Case& c : {Case{"4-0", "write the smaller number first: 0-4"}, Case{"-1", "out of range"},
                          Case{"0-", "not a whole number"}, Case{"0-x", "'x' is not a whole number"},
                          Case{"0-4,2", "a seed is given twice"}, Case{"0-1000000", "at most 100000"}}) {
        const Outcome outcome = run(std::string("train --dry-run --seeds ") + c.given);
        CAPTURE(c.given, outcome.err);
        CHECK(outcome.code == 2);
        CHECK(says(outcome.err, c.says));
        CHECK(says(outcome.err, "--seeds"));
    }
    CHECK(json::parse(run("gemm --dry-run --json --seeds 1-3 -k 32").out)["products"] == 3);
    fs::remove_all(scratch());
}

TEST_CASE("help VERB prints the same as VERB --help", "[program]") {
    for (const std::string verb : {"", "train", "policy", "policy explain", "check make-inputs", "help"}) {
        CAPTURE(verb);
        const Outcome help = run("help " + verb);
        CHECK(help.code == 0);
        CHECK(help.err.empty());
        CHECK(help.out == run(verb + " --help").out);
    }
    CHECK(says(run("help trian").err, "did you mean 'train'?"));
    CHECK(says(run("help policy exlain").err, "policy: unknown verb 'exlain' (did you mean 'explain'?)"));
    CHECK(says(run("help train more").err, "there are no verbs below this one"));
    fs::remove_all(scratch());
}

TEST_CASE("machine show accepts the name of a GPU or of an architecture", "[program]") {
    const Outcome h100 = run("machine show h100");
    CHECK(h100.code == 0);
    CHECK(says(h100.out, "sm90.wgmma.fp8 "));
    CHECK(says(h100.out, "sm90.mma.fp16 "));
    CHECK_FALSE(says(h100.out, "sm80.mma"));
    CHECK(run("machine show H200").out == h100.out);
    CHECK(run("machine show sm_90").out == h100.out);
    CHECK(says(run("machine show a10").out, "sm80.mma.bf16 "));  // sm_86 computes like sm_80
    CHECK(json::parse(run("machine show mi300x --json").out).size() ==
          json::parse(run("machine show cdna3 --json").out).size());
    CHECK(says(run("machine show h1000").err, "did you mean 'h100'?"));
    // Every known GPU has machines.
    for (const char* gpu : {"v100", "t4", "rtx2080", "a100", "l4", "rtx4090", "b200", "rtx5090", "mi100", "mi210"}) {
        CAPTURE(gpu);
        CHECK(run(std::string("machine show ") + gpu).code == 0);
    }
    fs::remove_all(scratch());
}

TEST_CASE("a word that is not a name gets the name that its users mean", "[program]") {
    struct Case {
        const char *arguments, *says;
    };
    for (const Case& c : {
             Case{"show 1 --format fp4", "did you mean e2m1fn?"},
             Case{"show 1 --format FP4", "did you mean e2m1fn?"},
             Case{"show 1 --format fp8", "write e4m3fn (for values) or e5m2 (for gradients)"},
             Case{"convert --to nvfp4", "did you mean e2m1fn?"},
             Case{"show 1 --round nearest", "did you mean nearest_even?"},
             Case{"show 1 --round truncate", "did you mean toward_zero?"},
             Case{"policy show fp16", "did you mean 'amp-fp16'?"},
             Case{"policy show half", "did you mean 'amp-fp16'?"},
             Case{"policy explain fp4", "did you mean 'te-nvfp4'?"},
             Case{"machine show hopper", "did you mean 'h100'?"},
             Case{"quantize 1", "did you mean 'convert'?"},
             Case{"gemm --dtype fp16", "did you mean '--format'?"},
             Case{"advise --gpu h100", "unknown verb 'advise' (did you mean 'policy advise'?)"},
             Case{"import ds.json", "unknown verb 'import' (did you mean 'policy import'?)"},
             Case{"history deepspeed", "did you mean 'policy history'?"},
             Case{"explain amp-bf16", "did you mean 'policy explain'?"},
             Case{"diff fp32 tf32", "did you mean 'policy diff'?"},
             Case{"list", "did you mean 'policy list' or 'machine list'?"},
             Case{"make-inputs", "did you mean 'check make-inputs'?"},
             Case{"trian", "did you mean 'train'?"},
             Case{"train --device h100", "To emulate this GPU, choose its machines or its policies"},
             Case{"reveal --machine h100", "'h100' is a GPU with several machines (use one of "},
             Case{"sum --method machine:h100", "'h100' is a GPU with several machines"},
         }) {
        const Outcome outcome = run(c.arguments);
        CAPTURE(c.arguments, outcome.err);
        CHECK(outcome.code == 2);
        CHECK(says(outcome.err, c.says));
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    }
    CHECK(run("show 1 --format half").code == 0);  // an alias of PyTorch and CUDA
    fs::remove_all(scratch());
}

TEST_CASE("every name in the table of meanings is a name of the program", "[program]") {
    std::string known = run("formats").out + run("policy list").out + run("policy words").out + run("--help").out;
    for (const char* help : {"show --help", "policy import --help", "train --help", "report --help", "convert --help"})
        known += run(help).out;
    for (const Meaning& row : meanings) {
        CAPTURE(std::string(row.word), std::string(row.name));
        CHECK(says(known, std::string(row.name)));
        CHECK(row.word == lowered(row.word));
    }
    fs::remove_all(scratch());
}

TEST_CASE("names may be in upper or lower case", "[program]") {
    struct Case {
        const char *upper, *lower;
    };
    for (const Case& c : {
             Case{"policy show AMP-BF16", "policy show amp-bf16"},
             Case{"policy explain Te_Mxfp8 --csv", "policy explain te-mxfp8 --csv"},
             Case{"show 0.1 -f BF16 -r SR --csv", "show 0.1 -f bf16 -r sr --csv"},
             Case{"machine show SM90.WGMMA.FP8", "machine show sm90.wgmma.fp8"},
             Case{"gemm -M SM90.WGMMA.BF16,Chain:BF16:Stochastic -k 32 -q",
                  "gemm -M sm90.wgmma.bf16,chain:bf16:stochastic -k 32 -q"},
             Case{"policy advise --gpu H100 --goal LoRA --json", "policy advise --gpu h100 --goal lora --json"},
             Case{"policy history DeepSpeed --json", "policy history deepspeed --json"},
             Case{"gemm -k 32 --device CPU -q", "gemm -k 32 --device cpu -q"},
         }) {
        const Outcome upper = run(c.upper), lower = run(c.lower);
        CAPTURE(c.upper, upper.err);
        CHECK(upper.out == lower.out);
        CHECK(upper.code == lower.code);
    }
    fs::remove_all(scratch());
}

TEST_CASE("a misspelled short name of a policy gets a suggestion", "[program]") {
    const Outcome outcome = run("train --policy mxpf8 --dry-run");
    CHECK(outcome.code == 2);
    CHECK(says(outcome.err, "did you mean 'mxfp8'"));
}

TEST_CASE("a GPU is named by --gpu, and --device-profile and --machine accept it", "[program]") {
    for (const char* verb : {"policy advise", "policy import", "policy explain", "policy diff", "policy history",
                             "train", "why", "report"}) {
        const std::string help = run(std::string(verb) + " --help").out;
        CAPTURE(verb);
        CHECK(says(help, "--gpu "));
        CHECK_FALSE(says(help, "--device-profile"));
    }
    CHECK(run("policy advise --device-profile t4 --json").out == run("policy advise --gpu t4 --json").out);
    CHECK(run("policy advise --device-profile=t4").code == 0);
    // A GPU selects its machines that accept the formats.
    const Outcome gpu = run("gemm --machine h100 -f bf16 -k 32 -q");
    CHECK(gpu.code == 0);
    CHECK(says(gpu.out, "sm90.wgmma.bf16,"));
    CHECK_FALSE(says(gpu.out, "sm100"));
    CHECK(says(gpu.err, "h100: "));
    CHECK(says(gpu.err, "machines accept none of these operands and are left out\n"));
    CHECK(run("gemm --gpu H100 -f bf16 -k 32 -q").out == gpu.out);
    CHECK(run("gemm --gpu h100,h200,sm90.wgmma.bf16 -f bf16 -k 32 -q").out.size() == gpu.out.size());
    CHECK(says(run("gemm --machine h100").err, "`--machine h100` needs a format"));
    CHECK(says(run("gemm --machine t4 -f e4m3fn").err, "no machine accepts operands"));
    // The devices of configs that have matrix units are GPUs of `machine show`. A P100 and the GTX 16 series have none.
    const std::string devices = run("policy import x.json --gpu nosuch").err;
    std::istringstream names(devices.substr(devices.find('{') + 1, devices.find('}') - devices.find('{') - 1));
    int count = 0;
    for (std::string name; std::getline(names, name, ',');) {
        const bool has_units =
            name != "cpu" && name != "tpu" && name != "npu" && name != "p100" && !name.starts_with("gtx16");
        CAPTURE(name);
        CHECK((run("machine show " + name).code == 0) == has_units);
        count += has_units ? 1 : 0;
    }
    CHECK(count >= 30);
    fs::remove_all(scratch());
}

TEST_CASE("policy list has groups and short names, and policy show describes a short name", "[program]") {
    const Outcome list = run("policy list");
    CHECK(
        list.out.starts_with("Begin with these four: fp32, amp-bf16, amp-fp16, fp8-tensorwise.\n\nBaselines\n  fp32 "));
    CHECK(says(list.out, "\n  amp-bf16 (bf16) "));
    CHECK(says(list.out, "\nShort names (in parentheses)\n  bf16   amp-bf16 "));
    const json rows = json::parse(run("policy list --json").out);
    for (const json& row : rows) {
        const std::string name = row["name"], line = "\n  " + name + " ";
        CAPTURE(name);
        CHECK(row["group"] != "Others");  // add a pattern for the preset
        CHECK(list.out.find(line) != std::string::npos);
        CHECK(list.out.find(line) == list.out.rfind(line));  // once
        if (name.starts_with("b200-")) CHECK(row["group"] == "On the matrix units of a B200");
        if (name == "te-mxfp8") CHECK(row["group"] == "MX and NVFP4 (scales for 16 or 32 terms)");
        if (name == "b200-mxfp4") CHECK(row["aliases"] == json::array({"mxfp4"}));
    }
    const Outcome shown = run("policy show bf16");
    CHECK(shown.out == run("policy show amp-bf16").out);
    CHECK(says(shown.err, "short name: bf16 ("));
    CHECK(run("policy show tf32").err.empty());
    CHECK(json::parse(run("policy show nvfp4 --json").out)["name"] == "te-nvfp4");
    // A run records the name of the preset.
    const Outcome trained = run(std::string(quick) + "--policy BF16 -o r --seeds 0 -q");
    CAPTURE(trained.err);
    CHECK(trained.code == 0);
    CHECK(says(contents(scratch() / "r/runs.csv"), "amp-bf16"));
    CHECK(run("report r --gpu B200 --json").out == run("report r --device-profile b200 --json").out);
    const Outcome unknown = run("report r --gpu a10");
    CHECK(unknown.code == 2);
    CHECK(says(unknown.err, "--gpu: the peak speeds of 'a10' are not known (use one of v100, "));
    fs::remove_all(scratch());
}

TEST_CASE("policy show --expand reads back as the same policy, and changed copies are reported", "[program]") {
    const Outcome expanded = run("policy show te-nvfp4 --expand");
    CHECK(expanded.code == 0);
    write("copy.toml", expanded.out);
    CHECK(run("policy diff te-nvfp4 copy.toml").code == 0);
    CHECK(run("policy show copy.toml").err.empty());
    std::string text = expanded.out;
    for (std::size_t at = text.find("nvfp4_16x16"); at != std::string::npos; at = text.find("nvfp4_16x16", at))
        text.replace(at, 11, "nvfp4");
    write("copy.toml", text);
    const Outcome explained = run("policy explain copy.toml");
    CHECK(explained.out.starts_with("te-nvfp4: a changed copy of te-nvfp4\n"));
    CHECK(says(explained.err, "note: copy.toml has the name and the description of the preset te-nvfp4, but other"));
    CHECK(run("policy diff te-nvfp4 copy.toml").code == 1);
    CHECK(json::parse(run("policy show copy.toml --json").out)["notes"].size() == 1);
    const Outcome trained = run(std::string(quick) + "--policy ./copy.toml -o r --seeds 0 -q");
    CHECK(says(trained.err, "note: copy.toml has the name and the description"));
    CHECK(says(contents(scratch() / "r/manifest.json"), "a changed copy of te-nvfp4"));
    fs::remove_all(scratch());
}

}  // namespace names_test
