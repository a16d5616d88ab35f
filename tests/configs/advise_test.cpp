// SPDX-License-Identifier: Apache-2.0
// Tests the advice for each device and goal, and the table with the format of every tensor of a policy.
#include "experiments/configs/memory/advise.hpp"
#include "experiments/configs/memory/tensors.hpp"
#include "experiments/training/model/config.hpp"
#include "tests/configs/imported.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace advise_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::configs;
using namespace macheps::training;
using macheps::test::Imported;

namespace {

AdviceAsked asked(std::string_view device, Goal goal, std::optional<double> params = {},
                  std::vector<std::int64_t> sides = {}) {
    return {.device = find_device_profile(device), .goal = goal, .params = params, .sides = std::move(sides)};
}

std::string policies(const AdviceAsked& about) {
    std::string text;
    for (const Advice& each : advise(about)) text += (text.empty() ? "" : " ") + each.policy;
    return text;
}

bool says(const std::vector<Statement>& all, std::string_view words) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Statement& one) { return one.text.find(words) != std::string_view::npos; });
}

ResolvedPolicy resolved(std::string_view name) {
    return resolve(load_policy(name), model_sites(named_size("tiny").model));
}

std::set<std::string> what_disagrees(std::string_view have, std::string_view advised) {
    std::set<std::string> what;
    for (const Disagreement& each : disagreements(resolved(have), resolved(advised)))
        what.insert(std::string(each.what));
    return what;
}

}  // namespace

TEST_CASE("advice depends on the device, the goal and the number of parameters", "[experiments][advise]") {
    const auto [device, goal, params, expected] =
        GENERATE(table<const char*, Goal, std::optional<double>, const char*>({
            {"a100", Goal::pretrain, {}, "a100-amp-bf16 tf32 fp32"},
            {"h100", Goal::pretrain, 7e9, "h100-amp-bf16 h100-fp8-promoted h100-tf32 fp32"},
            {"h100", Goal::pretrain, 5e7, "fp32 h100-amp-bf16 h100-tf32"},
            {"h100", Goal::lora, 7e9, "h100-amp-bf16 h100-tf32 fp32"},
            {"a100", Goal::finetune, 7e9, "a100-amp-bf16 pure-bf16 tf32 fp32"},
            {"v100", Goal::pretrain, {}, "amp-fp16 fp32"},
            {"t4", Goal::lora, 7e9, "amp-fp16 fp32"},
            {"t4", Goal::inference, {}, "pure-fp16 fp32"},
            {"h100", Goal::inference, {}, "pure-fp16 pure-bf16 fp32"},
            {"tpu", Goal::inference, {}, "pure-bf16 fp32"},
            {"tpu", Goal::pretrain, {}, "amp-bf16 fp32"},
            {"cpu", Goal::pretrain, {}, "amp-bf16 fp32"},
        }));
    CAPTURE(device, static_cast<int>(goal), expected);
    CHECK(policies(asked(device, goal, params)) == expected);
}

TEST_CASE("every device and goal has advice, every sentence has a source, and every advised policy is a preset",
          "[experiments][advise]") {
    const std::vector<std::string_view> presets = preset_names();
    std::set<std::string_view> used;
    for (const DeviceProfile& device : device_profiles()) {
        for (const GoalRow& goal : goals()) {
            for (const std::optional<double> params :
                 {std::optional<double>{}, std::optional<double>{5e7}, std::optional<double>{7e9}}) {
                CAPTURE(device.name, goal.name, params.value_or(0));
                const AdviceAsked about = asked(device.name, goal.goal, params);
                const std::vector<Advice> all = advise(about);
                REQUIRE_FALSE(all.empty());
                for (const Advice& each : all) {
                    used.insert(each.row->name);
                    CHECK(std::find(presets.begin(), presets.end(), each.policy) != presets.end());
                    CHECK_FALSE(each.reasons.empty());
                    for (const std::vector<Statement>* list : {&each.reasons, &each.watch}) {
                        for (const Statement& one : *list) CHECK_FALSE((one.text.empty() || one.source.empty()));
                    }
                }
                // The device must support the operand format of the first advice.
                const ResolvedPolicy first = resolved(all.front().policy);
                const Format operand = first.cast("block.0.mlp.up:forward.a").format;
                CHECK((operand == fp32 || (operand == bf16 && device.bf16) || (operand == fp16 && device.fp16)));
                const Policy toml = parse_policy(advice_toml(about, all.front()), "advice");
                CHECK(disagreements(resolve(toml, model_sites(named_size("tiny").model)), first).empty());
                CHECK(toml.chain.front() == all.front().policy);
            }
        }
    }
    CHECK(used.size() == advice_rows().size());
}

TEST_CASE("advice corrects the mistakes of published guides", "[experiments][advise]") {
    const std::vector<Advice> t4 = advise(asked("t4", Goal::pretrain, 7e9));
    CHECK(says(t4.front().watch, "lower the scale if steps overflow, and raise it if gradients vanish"));
    CHECK(says(t4.front().watch, "counts emulation"));
    CHECK(says(t4.front().watch, "above a billion"));
    CHECK_FALSE(says(advise(asked("t4", Goal::pretrain, 1e9)).front().watch, "above a billion"));
    CHECK_FALSE(says(t4.front().watch, "trained in bf16"));
    CHECK(says(advise(asked("t4", Goal::finetune)).front().watch, "trained in bf16"));
    const std::vector<Advice> a100 = advise(asked("a100", Goal::pretrain));
    CHECK(says(a100.front().watch, "16 bytes per parameter, as in fp32"));
    CHECK(says(a100.front().watch, "below half an ulp"));
    CHECK(says(advise(asked("a100", Goal::pretrain, 5e7)).front().watch, "allow_tf32 to True"));
    CHECK_FALSE(says(advise(asked("v100", Goal::pretrain, 5e7)).front().watch, "allow_tf32"));
    CHECK(says(advise(asked("cpu", Goal::pretrain)).front().watch, "neither softmax"));
    CHECK(says(advise(asked("mi300x", Goal::pretrain))[1].watch, "fnuz"));
}

TEST_CASE("dimensions of linear layers must be multiples of 8 for 16-bit formats and of 16 for fp8",
          "[experiments][advise]") {
    REQUIRE(dimension_rules().size() == 2);
    const DimensionRule &low = dimension_rules()[0], &fp8 = dimension_rules()[1];
    CHECK(low.multiple_of == 8);
    CHECK(fp8.multiple_of == 16);
    const std::vector<std::int64_t> sides{4096, 50257, 4104, 16};
    CHECK(unfit_sides(low, sides) == std::vector<std::int64_t>{50257});
    CHECK(unfit_sides(fp8, sides) == std::vector<std::int64_t>{50257, 4104});
    CHECK_FALSE(fp8.is_native(*find_device_profile("a100")));
    CHECK(fp8.is_native(*find_device_profile("l40")));
    CHECK_FALSE(low.is_native(*find_device_profile("cpu")));
    const auto has_fp8 = [](std::vector<std::int64_t> given) {
        return policies(asked("l40", Goal::pretrain, 7e9, std::move(given))).find("fp8") != std::string::npos;
    };
    CHECK(has_fp8({}));
    CHECK(has_fp8({4096, 50257}));
    CHECK_FALSE(has_fp8({4104, 50257}));
    CHECK(says(advise(asked("l40", Goal::pretrain, 7e9, {4096, 50257}))[1].watch, "stay bf16"));
    CHECK_FALSE(says(advise(asked("l40", Goal::pretrain, 7e9, {4096}))[1].watch, "stay bf16"));
}

TEST_CASE("a comparison of two policies names each part of training in which they differ", "[experiments][advise]") {
    using Set = std::set<std::string>;
    CHECK(what_disagrees("amp-bf16", "a100-amp-bf16") == Set{});
    CHECK(what_disagrees("amp-fp16", "amp-bf16") == Set{"matmuls read", "the loss is scaled"});
    CHECK(what_disagrees("fp16-noscale", "amp-fp16") == Set{"the loss is scaled"});
    CHECK(what_disagrees("pure-bf16", "amp-bf16") ==
          Set{"the optimiser updates", "moments", "gradients", "softmax gives", "norms give", "the loss is"});
    CHECK(what_disagrees("pure-fp16", "pure-bf16").contains("the optimiser's arithmetic"));
    CHECK(what_disagrees("tf32", "fp32") == Set{"matmuls read"});
}

TEST_CASE(
    "if a config sets adapters or moments, advice is compared with these and not with those of the nearest policy",
    "[experiments][advise]") {
    const SiteList sites = model_sites(named_size("tiny").model);
    const auto told = [&](const Imported& config) {
        std::map<std::string, std::string> found;
        const ResolvedPolicy have = resolve(parse_policy(config.result().policy, "config"), sites);
        for (const Disagreement& each : disagreements(have, resolved("amp-bf16"), &config.result().resolved))
            found.emplace(each.what, each.have);
        return found;
    };
    const auto adapters =
        told(Imported("{base_model: m, adapter: lora, load_in_8bit: true, bf16: auto, optimizer: adamw_bnb_8bit}",
                      {.framework = "axolotl"}));
    CHECK_FALSE(adapters.contains("the optimiser updates"));  // adapters are fp32, whatever the base model is
    CHECK_FALSE(adapters.contains("gradients"));
    CHECK(adapters.at("moments") == "int8");
    const auto whole = told(Imported("{base_model: m, bf16: auto}", {.framework = "axolotl"}));
    CHECK(whole.at("the optimiser updates") == "bf16");
    const auto zero = told(
        Imported("{\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 3}}", {.framework = "deepspeed"}));
    CHECK_FALSE(zero.contains("the optimiser updates"));  // it has master weights
    CHECK_FALSE(zero.contains("the loss is scaled"));     // the scale is 1
    CHECK(zero.at("gradients") == "bf16");
}

TEST_CASE("tensor_rows returns one row for each tensor, and uses the config's formats for accumulated gradients",
          "[experiments][policy]") {
    const ModelConfig model = named_size("tiny", ModelKind::llama).model;
    const SiteList sites = model_sites(model);
    const ResolvedPolicy policy = resolve(load_policy("amp-bf16"), sites);
    const std::vector<TensorRow> rows = tensor_rows(sites, policy, nullptr);
    std::map<std::string, TensorRow> found;
    for (const TensorRow& row : rows) {
        const bool is_new = found.emplace(std::string(row.kind) + " " + row.site, row).second;
        CHECK(is_new);
        CHECK_FALSE(row.rule.empty());
        CHECK_FALSE(row.format.empty());
    }
    std::size_t expected = 0;
    for (const Parameter& each : sites.parameters) {
        for (const char* kind : {"value", "grad", "accum", "master", "moment1", "moment2", "wire"}) {
            CAPTURE(each.name, kind);
            REQUIRE(found.contains(std::string(kind) + " " + each.name));
            CHECK(found.at(std::string(kind) + " " + each.name).elements == each.count);
            ++expected;
        }
    }
    for (const Site& each : sites.sites) {
        expected += matmuls_of(each).size() + (each.saved > 0 ? 1 : 0) + (each.saved_beside.empty() ? 0 : 1);
        for (const std::string_view matmul : matmuls_of(each))
            CHECK(found.contains("matmul " + each.name + ":" + std::string(matmul)));
    }
    CHECK(rows.size() == expected);
    CHECK(found.at("matmul block.0.mlp.up:input_grad").format == "bf16 x bf16 -> bf16 on fp32.chain");
    CHECK(found.at("matmul block.0.mlp.up:input_grad").rule == "preset amp-bf16, rule 1");
    CHECK(found.at("activation block.1.residual1:forward.out").format == "fp32");
    CHECK(found.at("activation block.1.mlp.act:forward.activated").format == "bf16");
    CHECK(found.at("master block.0.mlp.up.weight").format == "-");
    CHECK(found.at("wire block.0.mlp.up.weight").format == "fp32");

    const Imported config(
        "{\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 1}, \"data_types\": "
        "{\"grad_accum_dtype\": \"fp32\"}, \"communication_data_type\": \"fp16\"}",
        {.framework = "deepspeed"});
    const ResolvedPolicy imported = resolve(parse_policy(config.result().policy, "config"), sites);
    for (const TensorRow& row : tensor_rows(sites, imported, &config.result().resolved)) {
        if (row.site != "block.0.mlp.up.weight") continue;
        const std::map<std::string_view, std::string_view> formats{
            {"value", "bf16"},   {"grad", "bf16"},    {"accum", "fp32"}, {"master", "fp32"},
            {"moment1", "fp32"}, {"moment2", "fp32"}, {"wire", "fp16"}};
        CAPTURE(row.kind);
        CHECK(row.format == formats.at(row.kind));
        if (row.kind == "accum") CHECK(row.rule.find("data_types.grad_accum_dtype") != std::string::npos);
        if (row.kind == "wire") CHECK(row.rule.find("communication_data_type") != std::string::npos);
    }
    // Formats that policies cannot express are reported as the config gives them.
    const auto formats_of = [&](const Imported& from) {
        std::map<std::string, std::string> formats;
        const ResolvedPolicy nearest = resolve(parse_policy(from.result().policy, "config"), sites);
        for (const TensorRow& row : tensor_rows(sites, nearest, &from.result().resolved))
            formats[std::string(row.kind) + " " + row.site] = row.format;
        return formats;
    };
    auto formats =
        formats_of(Imported("{stage: sft, do_train: true, finetuning_type: lora, quantization_bit: 4, bf16: true}",
                            {.framework = "llamafactory"}));
    CHECK(formats.at("value block.0.mlp.up.weight") == "nf4");
    CHECK(formats.at("value embed.token.weight") == "fp32");
    formats = formats_of(Imported("{bf16: true, optim: adamw_bnb_8bit}", {.framework = "transformers"}));
    CHECK(formats.at("value block.0.mlp.up.weight") == "fp32");
    CHECK(formats.at("moment1 block.0.mlp.up.weight") == "int8");
    CHECK(formats.at("moment2 block.0.norm1.weight") == "fp32");  // too small to be stored in 8 bits
    // A pattern restricts the rows to the sites that match.
    for (const TensorRow& row : tensor_rows(sites, policy.restricted_to("lm_head*"), nullptr))
        CHECK(row.site.starts_with("lm_head"));
}

}  // namespace advise_test
