// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/policy.hpp"
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "emulation/machine/table.hpp"
#include "experiments/policy/diff.hpp"
#include "experiments/policy/rule.hpp"
#include "experiments/training/model/config.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace policy_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;

namespace {

SiteList tiny_sites() { return model_sites(named_size("tiny").model); }

ResolvedPolicy resolved(const std::string& toml) { return resolve(parse_policy(toml, "mine.toml"), tiny_sites()); }

std::optional<Error> error_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        return error;
    }
    return {};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A folder for policy files. The destructor removes it.
class Folder {
  public:
    Folder() : path_(test::disk_folder() / "policies") { std::filesystem::create_directories(path_ / "inner"); }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string write(const std::string& name, const std::string& text) const {
        std::ofstream(path_ / name) << text;
        return (path_ / name).string();
    }
    std::string path(const std::string& name) const { return (path_ / name).string(); }

  private:
    std::filesystem::path path_;
};

}  // namespace

TEST_CASE("a cast is parsed, and printed in its canonical form", "[experiments][policy]") {
    struct Case {
        const char *text, *canonical;
        CastRule rule;
    };
    constexpr auto tensor = find_granularity("tensor");
    constexpr auto saturate = Overflow::saturate;
    const Case cases[] = {
        {"fp32", "fp32", {}},
        {"bf16", "bf16", {.format = bf16}},
        {"float16", "fp16", {.format = fp16}},
        {"bf16:stochastic", "bf16:stochastic", {.format = bf16, .round = Round::stochastic}},
        {"tf32:nearest_away", "tf32:nearest_away", {.format = tf32, .round = Round::nearest_away}},
        {"fp16:saturate", "fp16:saturate", {.format = fp16, .overflow = saturate}},
        {"fp16:nonsaturate:nearest_even", "fp16", {.format = fp16}},
        {"e4m3fn", "e4m3fn", {.format = e4m3fn}},
        {"e4m3fn/none", "e4m3fn", {.format = e4m3fn}},
        {"e4m3fn/tensor", "e4m3fn/tensor", {.format = e4m3fn, .overflow = saturate, .granularity = tensor}},
        {"e5m2/tensor:nonsaturate", "e5m2/tensor:nonsaturate", {.format = e5m2, .granularity = tensor}},
        {"e4m3fn/tensor:te_current",
         "e4m3fn/tensor:te_current",
         {.format = e4m3fn, .overflow = saturate, .granularity = tensor, .scale_rule = find_scale_rule("te_current")}},
        {"bf16:random_bits=8:stochastic",
         "bf16:stochastic:random_bits=8",
         {.format = bf16, .round = Round::stochastic, .random_bits = 8}},
    };
    for (const Case& c : cases) {
        CAPTURE(c.text);
        CHECK(parse_cast(c.text, "here") == c.rule);
        CHECK(to_string(c.rule) == c.canonical);
    }
}

TEST_CASE("every cast survives being written and read", "[experiments][policy]") {
    for (const NamedFormat& row : all_formats) {
        if (row.format == fp64 || row.format == e8m0fnu) {
            CHECK(error_of([&] { parse_cast(row.name, "here"); }).has_value());
            continue;
        }
        for (int i = 0; i < 7 * 2 * 2; ++i) {
            for (const Granularity& granularity : granularities) {
                for (const ScaleRule& scale_rule : scale_rules) {
                    const CastRule rule{.format = row.format,
                                        .round = static_cast<Round>(i % 7),
                                        .overflow = static_cast<Overflow>(i / 7 % 2),
                                        .granularity = &granularity,
                                        .scale_rule = &scale_rule,
                                        .random_bits = i / 14 % 2 != 0 ? 32 : 3};
                    CAPTURE(to_string(rule));
                    if (error_of([&] { check_scaling(rule, "here"); })) {
                        REQUIRE(error_of([&] { parse_cast(to_string(rule), "here"); }));
                    } else {
                        REQUIRE(parse_cast(to_string(rule), "here") == rule);
                    }
                }
            }
        }
    }
}

TEST_CASE("a cast may be written as a TOML table", "[experiments][policy]") {
    const ResolvedPolicy p = resolved(R"(
[[rule]]
sites = "lm_head"
forward = { a = { format = "e4m3fn", scaling = "tensor" }, b = { format = "e4m3fn", scaling = "tensor", overflow = "nonsaturate", scale_rule = "te_current" }, out = { format = "bf16", round = "stochastic", random_bits = 8 } }
)");
    CHECK(to_string(p.cast("lm_head:forward.a")) == "e4m3fn/tensor");
    CHECK(to_string(p.cast("lm_head:forward.b")) == "e4m3fn/tensor:te_current:nonsaturate");
    CHECK(to_string(p.cast("lm_head:forward.out")) == "bf16:stochastic:random_bits=8");
}

TEST_CASE("for each slot, the last rule that sets it wins", "[experiments][policy]") {
    const ResolvedPolicy p = resolved(R"(
name = "mine"
description = "words"
[[rule]]
sites = "block.*.{mlp.up,mlp.down}"
forward = { a = "bf16", out = "bf16", machine = "fp32.chain", bias_after = true }
[[rule]]
sites = ["block.1.mlp.up", "lm_head"]
forward = { a = "fp16" }
[[rule]]
sites = ["block.0.*:forward.out", "loss:*"]
cast = "tf32"
[[rule]]
params = "block.*.weight"
master = "fp32"
value = "bf16"
[[rule]]
params = "*:moment2"
cast = "fp16"
[loss_scaler]
kind = "static"
init_scale = 1024
[optimizer]
arithmetic = "bf16"
)");
    struct Case {
        const char *slot, *cast, *origin;
    };
    const Case cases[] = {
        {"block.0.mlp.up:forward.a", "bf16", "mine.toml, rule 1"},
        {"block.0.mlp.up:forward.out", "tf32", "mine.toml, rule 3"},
        {"block.0.residual1:forward.out", "tf32", "mine.toml, rule 3"},
        {"block.1.mlp.up:forward.a", "fp16", "mine.toml, rule 2"},
        {"block.1.mlp.up:forward.out", "bf16", "mine.toml, rule 1"},
        {"block.1.mlp.up:forward.b", "fp32", ""},
        {"lm_head:forward.a", "fp16", "mine.toml, rule 2"},
        {"loss:grad.out", "tf32", "mine.toml, rule 3"},
        {"embed:forward.out", "fp32", ""},
        {"block.0.mlp.up.weight:value", "bf16", "mine.toml, rule 4"},
        {"block.0.mlp.up.bias:value", "fp32", ""},
        {"embed.token.weight:moment2", "fp16", "mine.toml, rule 5"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.slot);
        CHECK(to_string(p.cast(c.slot)) == c.cast);
        const auto origin = p.origin.find(c.slot);
        CHECK((origin == p.origin.end() ? "" : origin->second) == c.origin);
    }
    CHECK(p.name == "mine");
    CHECK(p.description == "words");
    CHECK(p.matmul("block.0.mlp.up", "forward").bias_after);
    CHECK(p.matmul("block.1.mlp.up", "forward").bias_after);  // the second rule does not set bias_after
    CHECK_FALSE(p.matmul("lm_head", "forward").bias_after);
    CHECK(p.has_master("block.0.mlp.up.weight"));
    CHECK_FALSE(p.has_master("block.0.mlp.up.bias"));
    CHECK(p.loss_scaler == LossScalerConfig(*find_scaler("static"), {{"init_scale", 1024}}));
    CHECK(p.optimizer_arithmetic == bf16);
    CHECK(error_of([&] { p.cast("block.0.mlp.upp:forward.a"); }).has_value());
    CHECK(error_of([&] { p.matmul("block.0.mlp.up", "grad_a"); }).has_value());
}

TEST_CASE("a rule with multiple_of skips the linears that do not fit, and applies to every other site",
          "[experiments][policy]") {
    const ModelConfig model{.layers = 1, .width = 16, .heads = 4, .context = 8, .vocabulary = 20};
    const Policy policy = parse_policy(R"(
[[rule]]
sites = "*:*.{a,b}"
cast = "bf16"
[[rule]]
multiple_of = 16
sites = "*"
forward = { a = "fp16", out = "fp16" }
[[rule]]
multiple_of = 16
sites = "lm_head:forward.b"
cast = "fp16"
)",
                                       "mine.toml");
    const ResolvedPolicy p = resolve(policy, model_sites(model));
    // lm_head is 16 x 20, so two rules skip it. It is listed once.
    CHECK(p.left_out_sites() == std::vector<std::string>{"lm_head"});
    CHECK(to_string(p.cast("lm_head:forward.a")) == "bf16");
    CHECK(to_string(p.cast("lm_head:forward.b")) == "bf16");
    CHECK(to_string(p.cast("lm_head:forward.out")) == "fp32");
    CHECK(to_string(p.cast("block.0.mlp.up:forward.a")) == "fp16");
    CHECK(to_string(p.cast("embed:forward.out")) == "fp16");  // not a linear
}

TEST_CASE("the table of a policy has one row per slot, in the order of the model", "[experiments][policy]") {
    const ResolvedPolicy p = resolve(load_policy("fp8-tensorwise"), tiny_sites());
    const auto rows = p.table();
    CHECK(rows.size() == p.casts.size());
    CHECK(rows.front().site == "embed");
    const auto row = [&](const std::string& site, const std::string& slot) {
        for (const auto& each : rows) {
            if (each.site == site && each.slot == slot) return each;
        }
        FAIL(site + ":" + slot);
        return rows.front();
    };
    CHECK(row("block.0.mlp.up", "forward.out").machine == "fp32.chain, bias after");
    CHECK(row("block.0.mlp.up", "forward.out").rule == "preset fp8-tensorwise, rule 1");
    CHECK(row("block.0.mlp.up", "grad.in").rule == "preset amp-bf16, rule 1");
    CHECK(row("block.0.mlp.up", "forward.a").machine.empty());
    CHECK(row("block.0.attn.mix", "grad_b.out").machine == "fp32.chain");
    CHECK(row("embed", "forward.out").rule == "default");
    CHECK(row("embed", "forward.out").machine.empty());
}

TEST_CASE("a policy may extend presets and files, and its chain lists the nearest base first",
          "[experiments][policy]") {
    const Folder folder;
    folder.write("base.toml", "extends = \"amp-fp16\"\ndescription = \"base\"\n[optimizer]\narithmetic = \"bf16\"\n");
    folder.write("inner/middle.toml",
                 "extends = \"../base.toml\"\n[[rule]]\nsites = \"embed\"\nforward = { out = \"fp16\" }\n");
    const std::string top =
        folder.write("top.toml", "extends = \"inner/middle.toml\"\n[loss_scaler]\nkind = \"none\"\n");
    const Policy policy = load_policy(top);
    CHECK(policy.name == "top");
    CHECK(policy.description.empty());
    CHECK(policy.chain == std::vector<std::string>{"middle", "base", "amp-fp16"});
    CHECK(policy.rules.size() == load_policy("amp-fp16").rules.size() + 1);
    CHECK(policy.loss_scaler.kind == find_scaler("none"));
    CHECK(load_policy(folder.path("base.toml")).loss_scaler.kind == find_scaler("torch"));
    CHECK(policy.optimizer_arithmetic == bf16);
    CHECK(contains(policy.text, "inner/middle.toml"));
    const ResolvedPolicy p = resolve(policy, tiny_sites());
    CHECK(to_string(p.cast("embed:forward.out")) == "fp16");
    CHECK(to_string(p.cast("lm_head:forward.a")) == "fp16");
    CHECK(contains(p.origin.at("embed:forward.out"), "inner/middle.toml, rule 1"));

    // An error in a base policy is reported with the file and line of the base.
    folder.write("base.toml", "\n\n[[rule]]\nsites = \"nowhere\"\nforward = { out = \"fp16\" }\n");
    const auto error = error_of([&] { resolve(load_policy(top), tiny_sites()); });
    REQUIRE(error);
    CHECK(contains(error->parts().where, "base.toml:4:9"));

    folder.write("base.toml", "extends = \"./top.toml\"\n");
    const auto circle = error_of([&] { load_policy(top); });
    REQUIRE(circle);
    CHECK(contains(circle->what(), "circle"));
    CHECK(contains(circle->parts().where, "base.toml:1:11"));
    const std::string self = folder.write("self.toml", "extends = \"self.toml\"\n");
    CHECK(contains(error_of([&] { load_policy(self); })->what(), "circle"));
}

TEST_CASE("an empty policy file is the fp32 policy with the file's name", "[experiments][policy]") {
    const Folder folder;
    const Policy policy = load_policy(folder.write("empty.toml", ""));
    CHECK(policy.name == "empty");
    CHECK(policy.rules.empty());
}

TEST_CASE("a policy that cannot be found causes an error with a remedy", "[experiments][policy]") {
    const Folder folder;
    struct Case {
        std::string name;
        const char *what, *fix;
    };
    const Case cases[] = {
        {"amp-bf61", "unknown policy 'amp-bf61'", "did you mean 'amp-bf16'?"},
        {"zzzzzzzzzzzz", "unknown policy", "one of fp32, tf32"},
        {folder.path("none.toml"), "no such file", "a preset: fp32"},
        {folder.path("inner"), "cannot read the policy file", "a preset: fp32"},
        {folder.path(""), "cannot read the policy file", "a preset: fp32"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.name);
        const auto error = error_of([&] { load_policy(c.name); });
        REQUIRE(error);
        // A wrong name is a usage error. A wrong path is a file that cannot be read.
        const bool is_name = c.name.find('/') == std::string::npos;
        CHECK(error->exit() == (is_name ? Exit::usage : Exit::bad_input));
        CHECK(contains(error->parts().what, c.what));
        CHECK(contains(error->parts().fix, c.fix));
    }
}

TEST_CASE("an error in a policy file is reported with its line, its column and a remedy", "[experiments][policy]") {
    const std::string rule = "[[rule]]\nsites = \"lm_head\"\n";
    struct Case {
        std::string toml;
        const char *where, *what, *fix;
    };
    const Case cases[] = {
        {"name = \"x\"\nextends = ", "mine.toml:2:", "", "TOML 1.0"},
        {"name = 3", "mine.toml:1:8", "'name' is an integer", "a string"},
        {"name = \"\"", "mine.toml:1:8", "the name is empty", "letters"},
        {"name = \"a,b\"", "mine.toml:1:8", "comma", "letters"},
        {"description = [1]", "mine.toml:1:15", "an array", "a string"},
        {"\nnmae = \"x\"", "mine.toml:2:1", "unknown key 'nmae'", "did you mean 'name'?"},
        {"extends = \"amp-bf17\"", "mine.toml:1:11", "unknown preset 'amp-bf17'", "did you mean 'amp-bf16'?"},
        {"extends = \"./none.toml\"", "mine.toml:1:11", "no such file", "preset"},
        {"[rule]\nsites = \"*\"", "mine.toml:1:1", "'rule' is a table", "[[rule]]"},
        {"rule = [3]", "mine.toml:1:9", "an integer", "a table"},
        {"[[rule]]\nsites = 3", "mine.toml:2:9", "'sites' is an integer", "a pattern"},
        {"[[rule]]\nsites = []", "mine.toml:2:9", "array", "at least one"},
        {"[[rule]]\nsites = [\"embed\", 3]", "mine.toml:2:19", "an integer", "a string"},
        {"[[rule]]\nsites = \"a{b\"", "mine.toml:2:9", "unbalanced braces", "block.*"},
        {"[[rule]]\nforward = { out = \"bf16\" }", "mine.toml:1:1", "neither", "give one"},
        {"[[rule]]\nsites = \"*\"\nparams = \"*\"", "mine.toml:1:1", "both", "two rules"},
        {rule, "mine.toml:1:1", "sets nothing", "forward"},
        {"[[rule]]\nparams = \"*\"", "mine.toml:1:1", "sets nothing", "value"},
        {rule + "forwrad = { out = \"bf16\" }", "mine.toml:3:1", "unknown key 'forwrad'", "did you mean 'forward'?"},
        {rule + "forward = \"bf16\"", "mine.toml:3:11", "a string", "a table"},
        {rule + "forward = { outt = \"bf16\" }", "mine.toml:3:13", "unknown key 'outt' in forward",
         "did you mean 'out'?"},
        {rule + "grad = { machine = \"fp32.chain\" }", "mine.toml:3:10", "unknown key 'machine' in grad", "one of in"},
        {rule + "forward = { out = 16 }", "mine.toml:3:19", "'forward.out' is an integer", "a cast such as"},
        {rule + "forward = { out = \"bf61\" }", "mine.toml:3:19 (forward.out)", "unknown format 'bf61'",
         "did you mean bf16?"},
        {rule + "forward = { out = \"e4m3\" }", "mine.toml:3:19", "'e4m3' is ambiguous", "e4m3fn"},
        {rule + "forward = { out = \"fp64\" }", "mine.toml:3:19", "cannot hold", "fp32"},
        {rule + "forward = { out = \"e8m0fnu\" }", "mine.toml:3:19", "cannot hold", "scales"},
        {rule + "forward = { out = \"\" }", "mine.toml:3:19", "unknown format ''", "fp16"},
        {rule + "forward = { a = \"e4m3fn/tensro\" }", "mine.toml:3:17", "unknown scaling 'tensro'",
         "did you mean 'tensor'?"},
        {rule + "forward = { a = \"bf16:stochastik\" }", "mine.toml:3:17", "unknown rounding mode 'stochastik'",
         "did you mean 'stochastic'?"},
        {rule + "forward = { a = \"bf16:\" }", "mine.toml:3:17", "unknown rounding mode ''", "nearest_even"},
        {rule + "forward = { a = \"bf16:random_bits=40\" }", "mine.toml:3:17", "random_bits is 40", "1 to 32"},
        {rule + "forward = { a = \"bf16:random_bits=4x\" }", "mine.toml:3:17", "random_bits", "1 to 32"},
        {rule + "forward = { a = { round = \"up\" } }", "mine.toml:3:17", "no format", "format = "},
        {rule + "forward = { a = { format = \"bf16\", rnd = \"up\" } }", "mine.toml:3:36", "unknown key 'rnd'",
         "round"},
        {rule + "forward = { a = { format = \"bf16\", round = \"upp\" } }", "mine.toml:3:44 (forward.a.round)",
         "unknown rounding mode 'upp'", "did you mean 'up'?"},
        {rule + "forward = { machine = \"fp32.chian\" }", "mine.toml:3:23", "unknown machine 'fp32.chian'",
         "did you mean 'fp32.chain'?"},
        {rule + "forward = { bias_after = 1 }", "mine.toml:3:26", "an integer", "true or false"},
        {rule + "multiple_of = 0\nforward = { out = \"bf16\" }", "mine.toml:3:15", "'multiple_of' is 0", "give 1"},
        {rule + "cast = \"bf16\"", "mine.toml:2:9", "needs patterns with a slot", "SITES:forward.out"},
        {"[[rule]]\nsites = \"lm_head:forward.a\"\nforward = { a = \"bf16\" }", "mine.toml:2:9", "names a slot",
         "cast"},
        {"[[rule]]\nsites = \"lm_head:forward.a\"\ncast = \"bf16\"\nforward = { a = \"bf16\" }", "mine.toml:2:9",
         "must not set other slots", "cast"},
        {"[loss_scaler]\ninit_scale = 2", "mine.toml:1:1", "no kind", "torch"},
        {"[loss_scaler]\nkind = \"tosch\"", "mine.toml:2:8", "unknown loss scaler 'tosch'", "did you mean 'torch'?"},
        {"[loss_scaler]\nkind = \"torch\"\ngrowth_factor = 1", "mine.toml:3:17", "'growth_factor' is 1", "more than 1"},
        {"[loss_scaler]\nkind = \"torch\"\nbackoff_factor = 1.0", "mine.toml:3:18", "'backoff_factor' is 1",
         "less than 1"},
        {"[loss_scaler]\nkind = \"torch\"\ninit_scale = 0", "mine.toml:3:14", "'init_scale' is 0", "positive"},
        {"[loss_scaler]\nkind = \"torch\"\ninit_scale = 1e39", "mine.toml:3:14", "'init_scale'", "fp32"},
        {"[loss_scaler]\nkind = \"torch\"\ninit_scale = nan", "mine.toml:3:14", "'init_scale' is nan", "positive"},
        {"[loss_scaler]\nkind = \"torch\"\ngrowth_interval = 99999999999", "mine.toml:3:19", "'growth_interval'",
         "give 1 to"},
        {"[optimizer]\narithmetic = \"fp17\"", "mine.toml:2:14", "unknown format 'fp17'", "did you mean fp16?"},
        {"[optimizer]\nrate = 1", "mine.toml:2:1", "unknown key 'rate'", "arithmetic"},
        // Errors that are found only with a model:
        {"[[rule]]\nsites = [\"embed\", \"block.*.mlp.upp\"]\nforward = { out = \"bf16\" }", "mine.toml:2:19 (rule 1)",
         "'block.*.mlp.upp' matches no site", "did you mean 'block.0.mlp.up'?"},
        {"[[rule]]\nparams = \"lm_head.weight\"\nvalue = \"bf16\"", "mine.toml:2:10", "matches no parameter",
         "policy explain"},
        {"[[rule]]\nsites = \"lm_head:forward.bais\"\ncast = \"bf16\"", "mine.toml:2:9", "matches no site",
         "did you mean 'lm_head:forward.bias'?"},
        {"[[rule]]\nsites = \"block.*.mlp.act\"\nforward = { out = \"bf16\", bias = \"bf16\" }",
         "mine.toml:3:34 (rule 1)", "the slot 'forward.bias'", "forward.out, grad.in, grad.out"},
        {"[[rule]]\nsites = \"embed\"\nforward = { machine = \"fp32.chain\" }", "mine.toml:3:23",
         "the matmul 'forward'", "'embed' has no matmul"},
        {"[[rule]]\nsites = \"block.*.attn.mix\"\nforward = { bias_after = true }", "mine.toml:3:26",
         "matmul with a bias", "grad_a"},
        {"[[rule]]\nsites = \"*\"\nforward = { a = \"bf16\" }\n[[rule]]\nsites = \"*\"\nforward = { out = "
         "\"e4m3fn/tensor\" }",
         "mine.toml:6:19 (rule 2)", "cannot have a scale", "a and b of a matmul"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.toml);
        const auto error = error_of([&] { resolved(c.toml); });
        REQUIRE(error);
        CAPTURE(error->what());
        CHECK(error->exit() == Exit::bad_input);
        CHECK(contains(error->parts().where, c.where));
        CHECK(contains(error->parts().what, c.what));
        CHECK(contains(error->parts().fix, c.fix));
    }
}

TEST_CASE("a rule for a matmul is read, and later rules change or replace it", "[experiments][policy]") {
    const ResolvedPolicy p = resolved(R"(
extends = "fp8-tensorwise"
[[rule]]
sites       = "block.*.mlp.up"
forward     = { rule = "cutlass.fp8.default" }
input_grad  = { rule = "cutlass.fp8.default" }
weight_grad = { machine = "sm90.wgmma.fp8", promote = 256, promotion = "add" }
[[rule]]
sites       = "block.1.mlp.up"
forward     = { machine = "sm90.wgmma.fp8" }
input_grad  = { promote = 64 }
weight_grad = { promote = 0 }
[[rule]]
sites       = "block.*.attn.qkv"
forward     = { machine = "sm90.wgmma.fp8", split_k = 4, join = "workspace", slice_granule = 128 }
input_grad  = { rule = "cutlass2.splitk.parallel", machine = "sm90.wgmma.fp8", split_k = 2 }
[[rule]]
sites       = "block.*.mlp.down"
forward     = { rule = "triton.fp8", promote = 64 }
input_grad  = { rule = "vllm.cutlass", machine = "sm89.mma.fp8" }
weight_grad = { rule = "cutlass.fp8.default", promotion = "none" }
[[rule]]
sites       = "lm_head"
forward     = { machine = "sm80.mma.bf16" }
[[rule]]
sites       = "lm_head"
forward     = { rule = "cutlass2.splitk.serial", split_k = 2 }
[[rule]]
sites       = "lm_head"
forward     = { split_k = 3 }
)");
    struct Case {
        const char *site, *matmul, *text;
    };
    const Case cases[] = {
        {"block.0.mlp.up", "forward", "sm90.wgmma.fp8, cutlass.fp8.default, bias after"},
        {"block.0.mlp.up", "weight_grad", "sm90.wgmma.fp8, promote add 256, unverified"},
        {"block.1.mlp.up", "forward", "sm90.wgmma.fp8, bias after"},
        {"block.1.mlp.up", "input_grad", "sm90.wgmma.fp8, promote add 64, unverified"},
        {"block.1.mlp.up", "weight_grad", "sm90.wgmma.fp8"},
        {"block.0.attn.qkv", "forward", "sm90.wgmma.fp8, split_k 4 workspace of 128, bias after"},
        {"block.0.attn.qkv", "input_grad", "sm90.wgmma.fp8, cutlass2.splitk.parallel, split_k 2"},
        {"block.0.attn.qkv", "weight_grad", "fp32.chain"},
        {"block.0.mlp.down", "forward", "sm90.wgmma.fp8, triton.fp8 every 64, bias after"},
        {"block.0.mlp.down", "input_grad", "sm89.mma.fp8, scale_order b_first"},
        {"block.0.mlp.down", "weight_grad", "sm90.wgmma.fp8"},
        {"lm_head", "forward", "sm80.mma.bf16, cutlass2.splitk.serial, split_k 3"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.site, c.matmul);
        CHECK(to_string(p.matmul(c.site, c.matmul)) == c.text);
    }
    CHECK(p.matmul("block.1.mlp.up", "weight_grad").rule == MatmulRule{.machine = find_machine("sm90.wgmma.fp8")});
    CHECK(p.matmul("lm_head", "forward").rule.join == SliceJoin::serial);

    const auto rows = p.table();
    const auto row = [&](const std::string& site, const std::string& slot) {
        return *std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.site == site && r.slot == slot; });
    };
    CHECK(row("block.0.mlp.up", "weight_grad.out").machine == "sm90.wgmma.fp8, promote add 256, unverified");
    CHECK(row("block.0.mlp.up", "weight_grad.out").rule == "preset fp8-tensorwise, rule 1; machine: mine.toml, rule 1");
    CHECK(p.unverified() == std::vector<std::string>{"libraries promote after every 128 terms of k, not every 256",
                                                     "libraries promote after every 128 terms of k, not every 64"});
    int matmuls = 0;
    for (const auto& [machine, count] : p.machines()) matmuls += count;
    CHECK(matmuls == static_cast<int>(p.matmuls.size()));
    CHECK(p.machines().front() == std::pair<std::string, int>{"sm90.wgmma.fp8, split_k 4 workspace of 128", 2});
}

TEST_CASE("a machine that cannot compute its matmul causes an error with site, slot and remedy",
          "[experiments][policy]") {
    const std::string head = "extends = \"amp-bf16\"\n[[rule]]\nsites = \"lm_head\"\n";
    struct Case {
        std::string toml;
        const char *where, *what, *fix;
    };
    const Case cases[] = {
        {head + "forward = { machine = \"sm90.wgmma.fp8\" }", "mine.toml:4:23 (rule 1), lm_head:forward",
         "'lm_head:forward.a' is rounded to bf16, but sm90.wgmma.fp8 reads e4m3fn, e5m2",
         "forward = { a = \"e4m3fn\" }"},
        {"[[rule]]\nsites = \"lm_head\"\nweight_grad = { machine = \"sm90.wgmma.bf16\", a = \"bf16\" }",
         "mine.toml:3:27", "'lm_head:weight_grad.b' has fp32 values, but sm90.wgmma.bf16 reads bf16",
         "weight_grad = { b = \"bf16\" }"},
        {head + "forward = { machine = \"sm90.mma.fp64\", a = \"fp32\", b = \"fp32\" }", "mine.toml:4:23",
         "adds in fp64", "fp32.chain"},
        {head + "forward = { machine = \"sm90.wgmma.bf16\", promote = 100 }", "mine.toml:4:23",
         "a promotion after every 100 terms of k", "multiple of 16"},
        {head + "forward = { promote = 128 }", "mine.toml:4:23", "fp32.chain does not support promotion", "leave out"},
        {head + "forward = { rule = \"cutlass2.splitk.serial\", machine = \"sm80.mma.bf16\" }",
         "mine.toml:4:", "number of k slices", "split_k = 2"},
        {head + "forward = { machine = \"sm80.mma.bf16\", split_k = 2, join = \"serial\", out = \"bf16:stochastic\" }",
         "mine.toml:4:23", "stochastic", "nearest even"},
        // Errors that are found without a model:
        {head + "forward = { machine = \"sm90.wgmma.f8\" }", "mine.toml:4:23", "unknown machine 'sm90.wgmma.f8'",
         "did you mean 'sm90.wgmma.fp8'?"},
        {head + "forward = { rule = \"deepgemm.sm90.1d3d\" }", "mine.toml:4:20",
         "unknown matmul rule 'deepgemm.sm90.1d3d'", "did you mean 'deepgemm.sm90.1d"},
        {head + "forward = { promotion = \"ad\" }", "mine.toml:4:25", "unknown promotion 'ad'", "did you mean 'add'?"},
        {head + "forward = { join = \"seral\" }", "mine.toml:4:20", "unknown join 'seral'", "did you mean 'serial'?"},
        {head + "forward = { scale_order = \"a_frist\" }", "mine.toml:4:27", "unknown scale order 'a_frist'",
         "did you mean 'a_first'?"},
        {head + "forward = { promote = -1 }", "mine.toml:4:23", "'forward.promote' is -1", "give 0 to"},
        {head + "forward = { split_k = 0 }", "mine.toml:4:23", "'forward.split_k' is 0", "give 1 to 1024"},
        {head + "forward = { promot = 128 }", "mine.toml:4:13", "unknown key 'promot' in forward",
         "did you mean 'promote'?"},
        {head + "grad = { rule = \"cutlass.fp8.fast\" }", "mine.toml:4:10", "unknown key 'rule' in grad", "one of in"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.toml);
        const auto error = error_of([&] { resolved(c.toml); });
        REQUIRE(error);
        CAPTURE(error->what());
        CHECK(error->exit() == Exit::bad_input);
        CHECK(contains(error->parts().where, c.where));
        CHECK(contains(error->parts().what, c.what));
        CHECK(contains(error->parts().fix, c.fix));
    }
    // A tf32 unit reads fp32 words. Orders of summation, such as `exact`, read operands of any format.
    CHECK_NOTHROW(resolved("[[rule]]\nsites = \"lm_head\"\nforward = { machine = \"sm90.wgmma.tf32\" }"));
    CHECK_NOTHROW(resolved("[[rule]]\nsites = \"lm_head\"\nforward = { machine = \"exact\", a = \"e3m4\" }"));
}

TEST_CASE("the table of a policy shows '-' only for master copies and micro-batch sums that no rule sets",
          "[experiments][policy]") {
    const ResolvedPolicy p = resolved(R"(
[[rule]]
params = "embed.*"
master = "fp32"
[[rule]]
params = "final_norm.bias"
value = "bf16"
[[rule]]
sites = "lm_head"
forward = { out = "fp32:random_bits=8", bias_after = true }
input_grad = { split_k = 1 }
)");
    for (const auto& row : p.table()) {
        CAPTURE(row.site, row.slot, row.cast, row.machine);
        const bool is_absent = row.slot == "accum" || (row.slot == "master" && !row.site.starts_with("embed."));
        CHECK((row.cast == "-") == is_absent);
        const bool has_fp32_values = row.cast == "fp32" || is_absent;
        CHECK(row.is_default == (has_fp32_values && (row.machine.empty() || row.machine == "fp32.chain")));
    }
}

TEST_CASE("a policy that is restricted to a pattern contains only the sites and slots that match",
          "[experiments][policy]") {
    const ResolvedPolicy p = resolve(load_policy("amp-bf16"), tiny_sites());
    const auto keys = [&](const char* pattern) {
        std::vector<std::string> list;
        for (const auto& row : p.restricted_to(pattern).table()) list.push_back(row.site + ":" + row.slot);
        return list;
    };
    CHECK(keys("embed") == std::vector<std::string>{"embed:forward.out", "embed:grad.in", "embed:grad.out"});
    CHECK(keys("loss:*.out") == std::vector<std::string>{"loss:forward.out", "loss:grad.out"});
    CHECK(keys("nowhere").empty());
    CHECK(keys("*").size() == p.order.size());
    CHECK(p.order.size() == p.casts.size());
}

TEST_CASE("the differences of two loss scalers include every key that only one of them has", "[experiments][policy]") {
    constexpr ScalerKey keys[] = {{.name = "init_scale", .type = ScalerValue::fp32, .initial = 65536},
                                  {.name = "hysteresis", .type = ScalerValue::count, .initial = 2},
                                  {.name = "min_scale"}};
    const ScalerKind kind{.name = "other", .keys = keys};
    ResolvedPolicy a = resolve(load_policy("fp32"), tiny_sites()), b = a;
    CHECK(differences(a, b).empty());
    a.loss_scaler = LossScalerConfig(*find_scaler("torch"));
    b.loss_scaler = LossScalerConfig(kind);
    using List = std::vector<Difference>;
    CHECK(differences(a, b) == List{{"loss_scaler", "", "kind", "torch", "other"},
                                    {"loss_scaler", "", "growth_factor", "2", "-"},
                                    {"loss_scaler", "", "backoff_factor", "0.5", "-"},
                                    {"loss_scaler", "", "growth_interval", "2000", "-"},
                                    {"loss_scaler", "", "unscale_by_division", "false", "-"},
                                    {"loss_scaler", "", "hysteresis", "-", "2"},
                                    {"loss_scaler", "", "min_scale", "-", "none"}});
    CHECK(differences(b, a).size() == 7);
    a.loss_scaler = LossScalerConfig(kind);
    b.loss_scaler.set("hysteresis", 3);
    CHECK(differences(a, b) == List{{"loss_scaler", "", "hysteresis", "2", "3"}});
}

TEST_CASE("a loss scaler of kind none or static accepts keys that only torch's scaler uses", "[experiments][policy]") {
    const auto scaler = [](const std::string& lines) {
        return parse_policy("[loss_scaler]\n" + lines, "mine.toml").loss_scaler;
    };
    CHECK(scaler("kind = \"none\"\ninit_scale = 8\ngrowth_interval = 3") == LossScalerConfig());
    CHECK(scaler("kind = \"static\"\ninit_scale = 8\nbackoff_factor = 0.25") ==
          LossScalerConfig(*find_scaler("static"), {{"init_scale", 8}}));
    CHECK(
        contains(error_of([&] { scaler("kind = \"none\"\ngrowth_interval = 0"); })->what(), "'growth_interval' is 0"));
    CHECK(contains(error_of([&] { scaler("kind = \"none\"\nhysteresis = 2"); })->what(), "unknown key 'hysteresis'"));
    CHECK(contains(error_of([&] { scaler("kind = \"tosch\"\npatience = 2"); })->what(), "unknown key 'patience'"));
}

}  // namespace policy_test
