// SPDX-License-Identifier: Apache-2.0
// Tests the training systems of docs/systems.md: imports a config of each system, and trains a model under its policy.
// A title "row N: ..." is about system N of tests/configs/systems.toml.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "experiments/configs/memory/tensors.hpp"
#include "experiments/training/run/trainable.hpp"
#include "tests/training/trained.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <set>

namespace system_rows_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::configs;
using namespace macheps::training;
using test::policy_of;
using test::TinyRun;
using test::Told;

namespace {

using Values = std::vector<float>;

bool lies_on(const Format& format, const Values& values) {
    return std::all_of(values.begin(), values.end(), [&](float x) {
        return std::isnan(x) || quantize(format, x, Round::nearest_even, Overflow::nonsaturate) == x;
    });
}

Format format_of(char letter) { return letter == 'H' ? fp16 : letter == 'B' ? bf16 : letter == 'T' ? tf32 : fp32; }

// The configs to which the columns of gpt2_rows and llama_rows belong. A config whose name ends with _h uses fp16, and
// one whose name ends with _b uses bf16.
constexpr const char* plain = "{learning_rate: 1.0e-4, output_dir: out}";
constexpr const char* autocast_h = "{autocast: {dtype: float16}, grad_scaler: {}, max_norm: 1.0}";
constexpr const char* autocast_b = "{autocast: {dtype: bfloat16}, max_norm: 1.0}";
constexpr const char* cpu_b = "{autocast: {dtype: bfloat16, device_type: cpu}}";
constexpr const char* pure_b = "{autocast: {enabled: false}, model_dtype: bfloat16}";
constexpr const char* pure_h = "{autocast: {enabled: false}, model_dtype: float16}";
constexpr const char* deepspeed_h =
    R"({"fp16": {"enabled": true, "initial_scale_power": 16, "loss_scale_window": 1000, "hysteresis": 2, "min_loss_scale": 1},
        "zero_optimization": {"stage": 2}, "data_types": {"grad_accum_dtype": "fp32"}, "gradient_clipping": 1.0})";
constexpr const char* deepspeed_b = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}})";
constexpr const char* fsdp = "{fsdp: {param_dtype: bfloat16, reduce_dtype: float32, buffer_dtype: float32}}";

Policy torch_policy(const char* text) { return policy_of(text, {.framework = "torch"}); }
Policy deepspeed_policy(const char* text, const char* version = "") {
    return policy_of(text, {.framework = "deepspeed",
                            .versions = std::string(version).empty() ? "" : fmt::format("deepspeed={}", version)});
}

/// The expected formats of some slots, with a letter for each config: F is fp32, H is fp16, B is bf16, and T is tf32.
/// The configs are fp32, tf32, autocast in fp16 and bf16, pure bf16 and fp16, DeepSpeed in fp16 and bf16, and FSDP.
struct OperationRow {
    const char *slots, *letters;
};

constexpr OperationRow gpt2_rows[] = {
    {"embed:forward.out", "FFFFBHHBB"},
    {"block.0.norm1:forward.out block.0.norm2:forward.out final_norm:forward.out", "FFFFBHHBB"},
    {"block.0.attn.qkv:forward.a block.0.attn.qkv:forward.b block.0.mlp.up:forward.a", "FTHBBHHBB"},
    {"block.0.attn.qkv:forward.out block.0.mlp.up:forward.out", "FFHBBHHBB"},
    {"block.0.attn.scores:forward.a block.0.attn.scores:forward.b", "FTHBBHHBB"},
    {"block.0.attn.scores:forward.out block.0.attn.scores:forward.scaled", "FFHBBHHBB"},
    {"block.0.attn.softmax:forward.out", "FFFFBHHBB"},
    {"block.0.attn.mix:forward.a block.0.attn.mix:forward.b", "FTHBBHHBB"},
    {"block.0.attn.mix:forward.out", "FFHBBHHBB"},
    {"block.0.attn.proj:forward.a block.0.mlp.down:forward.a", "FTHBBHHBB"},
    {"block.0.attn.proj:forward.out block.0.mlp.down:forward.out", "FFHBBHHBB"},
    {"block.0.mlp.act:forward.out block.0.mlp.act:grad.out", "FFHBBHHBB"},
    {"block.0.residual1:forward.out block.0.residual2:forward.out", "FFFFBHHBB"},
    {"lm_head:forward.a lm_head:forward.b", "FTHBBHHBB"},
    {"lm_head:forward.out", "FFHBBHHBB"},
    {"loss:forward.out", "FFHBBHHBB"},
    {"loss:forward.mean", "FFFFBHHBB"},
    {"loss:grad.out", "FFHBBHHBB"},
    {"block.0.mlp.up:input_grad.a block.0.mlp.up:weight_grad.b", "FTHBBHHBB"},
    {"block.0.mlp.up:input_grad.out block.0.mlp.up:weight_grad.out block.0.mlp.up:bias_grad.out", "FFHBBHHBB"},
    {"block.0.attn.softmax:grad.out", "FFHBBHHBB"},
    {"block.0.norm1:grad.out", "FFFFBHHBB"},
    {"block.0.mlp.up.weight:value", "FFFFBHHBB"},
    {"block.0.mlp.up.weight:grad", "FFFFBHHBF"},
};

constexpr OperationRow llama_rows[] = {
    {"embed:forward.out block.0.residual1:forward.out", "FFFFBHHBB"},
    {"block.0.norm1:forward.normed", "FFFFBHHBB"},
    {"block.0.norm1:forward.out", "FFFFBHHBB"},
    {"block.0.attn.qkv:forward.a block.0.mlp.gate:forward.a block.0.mlp.up:forward.a lm_head:forward.a", "FTHBBHHBB"},
    {"block.0.attn.qkv:forward.out block.0.mlp.down:forward.out lm_head:forward.out", "FFHBBHHBB"},
    {"block.0.attn.rope:forward.cos block.0.attn.rope:forward.sin", "FFFFBHHBB"},
    {"block.0.attn.rope:forward.direct block.0.attn.rope:forward.rotated block.0.attn.rope:forward.out", "FFFFBHHBB"},
    {"block.0.attn.scores:forward.a", "FTHBBHHBB"},
    {"block.0.attn.scores:forward.out block.0.attn.scores:forward.scaled", "FFHBBHHBB"},
    {"block.0.attn.softmax:forward.out", "FFFFFFFFF"},  // the model requests fp32; the next matmul rounds its operand
    {"block.0.attn.mix:forward.a", "FTHBBHHBB"},
    {"block.0.mlp.act:forward.activated block.0.mlp.act:forward.out", "FFHBBHHBB"},
    {"loss:forward.out loss:forward.mean", "FFFFFFFFF"},
    {"loss:grad.out", "FFHBBHHBB"},
    {"block.0.mlp.act:grad.out block.0.mlp.act:grad.up", "FFHBBHHBB"},
    {"block.0.attn.rope:grad.out", "FFHBBHHBB"},
    {"block.0.norm1:grad.out", "FFFFBHHBB"},
    {"block.0.norm1:weight_grad.out", "FFFFBHHBB"},
    {"block.0.attn.scores:grad_b.sum", "FFFFBHHBB"},
    {"block.0.attn.mix:grad_b.sum", "FFHBBHHBB"},
};

/// Counts the tensors that slots store, and records the slots whose values are not all numbers of the slot's format.
class Grids final : public Observer {
  public:
    explicit Grids(Backend& backend) : backend_(backend) {}
    bool sampling() const override { return false; }
    void on_cast(const Slot&, const Cast&, const Tally&, const Decoding&, ConstView, ConstView) override {}
    bool capturing() const override { return true; }
    void on_value(const Slot& slot, ConstView values, float) override {
        if (slot.rule.has_scale()) return;
        ++seen;
        if (!lies_on(slot.rule.format, test::values_of(backend_, values))) off.insert(slot.name);
    }
    int seen = 0;
    std::set<std::string> off;

  private:
    Backend& backend_;
};

/// Keeps the logits of a forward pass.
class Logits final : public Observer {
  public:
    explicit Logits(Backend& backend) : backend_(backend) {}
    bool sampling() const override { return false; }
    void on_cast(const Slot&, const Cast&, const Tally&, const Decoding&, ConstView, ConstView) override {}
    bool capturing() const override { return true; }
    void on_value(const Slot& slot, ConstView logits, float) override {
        if (slot.name == "lm_head:forward.out") values = test::values_of(backend_, logits);
    }
    std::vector<float> values;

  private:
    Backend& backend_;
};

void check_rows(std::span<const OperationRow> rows, ModelKind kind) {
    const std::array policies{policy_of(plain, {.framework = "transformers"}),
                              torch_policy("{allow_tf32: true}"),
                              torch_policy(autocast_h),
                              torch_policy(autocast_b),
                              torch_policy(pure_b),
                              torch_policy(pure_h),
                              deepspeed_policy(deepspeed_h),
                              deepspeed_policy(deepspeed_b),
                              torch_policy(fsdp)};
    for (std::size_t column = 0; column < policies.size(); ++column) {
        const ResolvedPolicy policy = resolve(policies[column], model_sites(test::tiny_model(kind)));
        for (const OperationRow& row : rows) {
            std::istringstream slots(row.slots);
            for (std::string slot; slots >> slot;) {
                CAPTURE(column, slot, policies[column].text);
                CHECK(format_name(policy.cast(slot).format) == format_name(format_of(row.letters[column])));
            }
        }
    }
}

double mean_abs(const Values& values) {
    double sum = 0;
    for (const float x : values) sum += std::abs(x);
    return sum / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("row 1: under PyTorch autocast and other configs, every operation has the expected format",
          "[experiments][systems]") {
    check_rows(gpt2_rows, ModelKind::gpt2);
    check_rows(llama_rows, ModelKind::llama);
}

TEST_CASE("row 1: every value that leaves a slot is a number of the slot's format", "[experiments][systems]") {
    for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
        for (const char* text : {autocast_h, autocast_b, cpu_b, fsdp}) {
            CAPTURE(text, to_string(kind));
            TinyRun run(torch_policy(text), kind);
            Grids grids(run.backend);
            run.step.model().rounder().observe(&grids);
            run.next();
            run.step.model().rounder().observe(nullptr);
            CHECK(grids.seen > 100);
            CHECK(grids.off == std::set<std::string>{});
        }
    }
}

TEST_CASE("row 1: autocast on a CPU has softmax in bf16 and the loss in fp32, and on CUDA the reverse",
          "[experiments][systems]") {
    for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
        const SiteList sites = model_sites(test::tiny_model(kind));
        const ResolvedPolicy cuda = resolve(torch_policy(autocast_b), sites), cpu = resolve(torch_policy(cpu_b), sites);
        for (const auto& [site, slot] : cuda.order) {
            const std::string name = fmt::format("{}:{}", site, slot);
            CAPTURE(name);
            // A llama requests fp32 for its softmax and its loss on every device.
            const bool is_softmax = site.find("attn.softmax") != std::string::npos && kind == ModelKind::gpt2;
            const bool is_loss = site == "loss" && kind == ModelKind::gpt2;
            const bool is_same = cuda.cast(name) == cpu.cast(name);
            CHECK((is_same || is_softmax || is_loss));
            if ((is_softmax || is_loss) && slot == "forward.out") CHECK_FALSE(is_same);
        }
        CHECK(cpu.cast("loss:forward.out").format == fp32);
    }
}

TEST_CASE("row 1: the framework decides the formats of a gpt2's loss, and a llama's loss is always fp32",
          "[experiments][systems]") {
    struct Case {
        const char *framework, *text, *out, *mean, *why;
    };
    constexpr const char* half_engine = R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 2}})";
    constexpr const char* engine_autocast =
        R"({"torch_autocast": {"enabled": true, "dtype": "bfloat16"}, "zero_optimization": {"stage": 2}})";
    const Case cases[] = {
        {"torch", autocast_b, "bf16", "fp32", "log_softmax gets the logits' dtype, and nll_loss is on the fp32 list"},
        {"torch", autocast_h, "fp16", "fp32", "the same in fp16"},
        {"torch", cpu_b, "fp32", "fp32", "cross_entropy_loss is on a CPU's fp32 list"},
        {"torch", pure_b, "bf16", "bf16", "no autocast"},
        {"torch", fsdp, "bf16", "bf16", "FSDP alone enters no autocast"},
        {"torch", "{fsdp2: {param_dtype: bfloat16, output_dtype: float32}}", "fp32", "fp32", "outputs are cast"},
        {"torch", "{autocast: {dtype: bfloat16}, model_dtype: bfloat16}", "bf16", "fp32",
         "a bf16 model under autocast"},
        {"transformers", "{bf16: true, output_dir: o}", "bf16", "fp32", "autocast"},
        {"transformers", "{bf16: true, use_cpu: true, output_dir: o}", "fp32", "fp32", "a CPU's autocast"},
        {"transformers", "{fp16: true, fsdp: full_shard, output_dir: o}", "fp16", "fp32",
         "Accelerate enters autocast too"},
        {"accelerate", "{compute_environment: LOCAL_MACHINE, mixed_precision: bf16, num_processes: 1}", "bf16", "fp32",
         "autocast"},
        {"accelerate", "{compute_environment: LOCAL_MACHINE, mixed_precision: bf16, use_cpu: true, num_processes: 1}",
         "fp32", "fp32", "a CPU's autocast"},
        {"deepspeed", deepspeed_b, "bf16", "bf16", "a bf16 model without autocast"},
        {"deepspeed", half_engine, "fp16", "fp16", "an fp16 model without autocast"},
        {"deepspeed", engine_autocast, "bf16", "fp32", "the engine enters autocast"},
        {"apex", "{opt_level: O1}", "fp32", "fp32", "cross_entropy is on Apex's fp32 list"},
        {"llamafactory", "{stage: pt, do_train: true, finetuning_type: full, bf16: true}", "bf16", "fp32", "autocast"},
        {"llamafactory", "{stage: pt, do_train: true, finetuning_type: full, bf16: true, upcast_lmhead_output: true}",
         "fp32", "fp32", "the logits are widened"},
        {"axolotl", "{base_model: my/model, bf16: auto, micro_batch_size: 1}", "bf16", "fp32",
         "a bf16 model under autocast"},
        {"nanogpt", "{dtype: bfloat16, device: cuda}", "bf16", "fp32", "autocast"},
        {"megatron", "{bf16: true}", "fp32", "fp32", "vocab_parallel_cross_entropy widens the logits"},
    };
    for (const Case& one : cases) {
        CAPTURE(one.framework, one.text, one.why);
        const Policy policy = policy_of(one.text, {.framework = one.framework});
        const ResolvedPolicy gpt2 = resolve(policy, model_sites(test::tiny_model(ModelKind::gpt2)));
        CHECK(format_name(gpt2.cast("loss:forward.out").format) == one.out);
        CHECK(format_name(gpt2.cast("loss:forward.mean").format) == one.mean);
        const ResolvedPolicy llama = resolve(policy, model_sites(test::tiny_model(ModelKind::llama)));
        for (const char* slot : {"loss:forward.out", "loss:forward.mean"}) CHECK(llama.cast(slot).format == fp32);
    }
}

TEST_CASE("row 2: GradScaler's scale in training follows its state machine", "[experiments][systems]") {
    TinyRun run(torch_policy("{autocast: {dtype: float16}, grad_scaler: {init_scale: 16777216, growth_interval: 3}}"));
    const auto alone = make_loss_scaler(run.resolved.loss_scaler);
    int skipped = 0, grown = 0;
    double before = alone->scale();
    for (const StepResult& step : run.run(16)) {
        CHECK(step.loss_scale == static_cast<float>(alone->scale()));
        alone->unscaling(step.outcome.skipped);
        alone->update(step.outcome.skipped);
        skipped += step.outcome.skipped ? 1 : 0;
        grown += alone->scale() > before ? 1 : 0;
        before = alone->scale();
    }
    CHECK(skipped >= 2);
    CHECK(grown >= 1);
}

TEST_CASE("row 3: a static scale that is a power of two does not change a bit, and infinities reach the weights",
          "[experiments][systems]") {
    const auto policy = [](double scale) {
        return parse_policy(
            fmt::format("extends = \"fp32\"\n[loss_scaler]\nkind = \"static\"\ninit_scale = {:.1f}\nskip = "
                        "false\nunscale_by_division = true\n",
                        scale),
            "test");
    };
    TinyRun scaled(policy(1024)), plain_run(policy(1)), overflowing(policy(0x1p127));
    scaled.run(4);
    plain_run.run(4);
    CHECK(scaled.state() == plain_run.state());
    Policy huge = load_policy("static-1024");
    huge.loss_scaler.set("init_scale", 0x1p30);
    TinyRun unguarded(huge);
    CHECK_FALSE(unguarded.next().outcome.skipped);
    const Values weights = unguarded.state().at("block.0.mlp.up.weight:value");
    CHECK(std::any_of(weights.begin(), weights.end(), [](float x) { return !std::isfinite(x); }));
}

TEST_CASE("row 4: clip_grad_norm_ computes the norm of the tensors' norms after unscaling", "[experiments][systems]") {
    const char* clipped = "{autocast: {enabled: false}, max_norm: 0.01}";
    TinyRun run(torch_policy(clipped)), free(torch_policy("{autocast: {enabled: false}, max_norm: 0}"));
    CHECK(run.resolved.training.clip_formula().name == "torch");
    run.next();
    free.next();
    float squares = 0;
    for (const auto& parameter : free.step.model().parameters()) {
        const float norm = std::sqrt(free.backend.sum_of_squares(parameter->grad));
        squares += norm * norm;
    }
    const float coefficient = 0.01f / (std::sqrt(squares) + 1e-6f);
    REQUIRE(coefficient < 1);
    for (const char* name : {"block.0.attn.qkv.weight", "final_norm.bias"}) {
        Values wanted = free.gradient(name);
        for (float& x : wanted) x *= coefficient;
        CHECK(run.gradient(name) == wanted);
    }
    // Gradients are unscaled before they are clipped, so the loss scale has no effect.
    const auto scaled = [](const char* scale) {
        return torch_policy(
            fmt::format("{{autocast: {{enabled: false}}, grad_scaler: {{init_scale: {}}}, max_norm: 0.01}}", scale)
                .c_str());
    };
    TinyRun one(scaled("1")), many(scaled("4096"));
    one.run(3);
    many.run(3);
    CHECK(one.state() == many.state());
}

TEST_CASE("row 5: TF32 rounds operands of products and nothing else", "[experiments][systems]") {
    const SiteList sites = model_sites(test::tiny_model(ModelKind::gpt2));
    const ResolvedPolicy on = resolve(torch_policy("{allow_tf32: true}"), sites),
                         off = resolve(torch_policy("{allow_tf32: false}"), sites);
    for (const auto& [site, slot] : on.order) {
        const std::string name = fmt::format("{}:{}", site, slot);
        CAPTURE(name);
        const bool is_operand = slot.ends_with(".a") || slot.ends_with(".b");
        CHECK((on.cast(name).format == tf32) == is_operand);
        CHECK(off.cast(name).format == fp32);
    }
}

TEST_CASE("row 6: FSDP 1 rounds weights once a step, adds gradients up in fp32 and keeps fp32 shards",
          "[experiments][systems]") {
    for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
        TinyRun run(torch_policy(fsdp), kind);
        run.run(3);
        const auto state = run.state();
        for (const auto& parameter : run.step.model().parameters()) {
            const Values &value = state.at(parameter->name + ":value"), &shard = state.at(parameter->name + ":master");
            CAPTURE(parameter->name);
            for (std::size_t i = 0; i < value.size(); ++i)
                CHECK(value[i] == quantize(bf16, shard[i], Round::nearest_even, Overflow::nonsaturate));
            CHECK_FALSE(lies_on(bf16, state.at(parameter->name + ":moment1")));
        }
        CHECK_FALSE(lies_on(bf16, state.at("block.0.mlp.up.weight:master")));
        if (kind == ModelKind::llama) CHECK(run.resolved.cast("block.0.attn.rope:forward.inv_freq").format == fp32);
    }
    const Policy scaled = torch_policy("{fsdp: {param_dtype: float16, reduce_dtype: float32}, grad_scaler: {}}");
    CHECK(scaled.loss_scaler.kind->name == "torch-sharded");
    TinyRun run(scaled);
    run.run(2);
}

TEST_CASE("row 7: FSDP 2 has the plain GradScaler", "[experiments][systems]") {
    const Policy policy = torch_policy("{fsdp2: {param_dtype: float16, reduce_dtype: float32}, grad_scaler: {}}");
    CHECK(policy.loss_scaler.kind->name == "torch");
    TinyRun run(policy);
    check_trainable(run.resolved);  // its gradients are fp32 shards
    const StepResult step = run.next();
    CHECK(std::isfinite(step.loss));
}

TEST_CASE("row 8: a config of TrainingArguments trains under transformers 4 and under transformers 5",
          "[experiments][systems]") {
    const char* text =
        "{fp16: true, bf16: false, max_grad_norm: 0.5, gradient_accumulation_steps: 2, adam_beta2: 0.98, "
        "learning_rate: 1.0e-4}";
    const Policy old = policy_of(text, {.framework = "transformers", .versions = "transformers=4.41"});
    const Policy now = policy_of(text, {.framework = "transformers", .versions = "transformers=5.14.1"});
    CHECK(old.training.adam_kernel().name == "single");
    CHECK(now.training.adam_kernel().name == "fused");
    // With the kernel `single`, the wrapper of the optimiser notices a skipped step, so the learning rate waits. With a
    // fused kernel, the wrapper does not notice it.
    CHECK(old.training.rate_waits.value_or(false));
    CHECK_FALSE(now.training.rate_waits.value_or(false));
    for (const Policy& policy : {old, now}) {
        CHECK(policy.training.max_norm == 0.5);
        CHECK(policy.training.micro_batches == 2);
        CHECK(policy.training.beta2 == 0.98);
        CHECK(policy.training.beta1 == 0.9);
        CHECK_FALSE(policy.training.lr.has_value());
        TinyRun run(policy);
        CHECK(run.run_options.batch == 2);
        run.run(2);
    }
    TinyRun a(old), b(now);
    a.run(3);
    b.run(3);
    CHECK(a.state() != b.state());
}

TEST_CASE("row 9: Accelerate's fp16 on a CPU trains in fp32", "[experiments][systems]") {
    const char* text =
        "{compute_environment: LOCAL_MACHINE, distributed_type: \"NO\", mixed_precision: fp16, num_processes: 1}";
    const Policy cpu = policy_of(text, {.framework = "accelerate", .device = "cpu"});
    const Policy gpu = policy_of(text, {.framework = "accelerate"});
    CHECK(cpu.chain.front() == "fp32");
    CHECK(gpu.chain.front() == "amp-fp16");
    TinyRun run(gpu);
    CHECK(run.next().loss_scale == 65536);
}

TEST_CASE("row 10: DeepSpeed's fp16 keeps fp16 weights and fp32 masters", "[experiments][systems]") {
    TinyRun run(deepspeed_policy(deepspeed_h));
    CHECK(run.resolved.training.clip_formula().name == "deepspeed");
    CHECK(run.resolved.training.adam_kernel().name == "multi-tensor");
    CHECK(run.resolved.has_sum("block.0.mlp.up.weight"));
    run.run(4);
    const auto state = run.state();
    const Values &value = state.at("block.0.mlp.up.weight:value"), &master = state.at("block.0.mlp.up.weight:master");
    CHECK(lies_on(fp16, value));
    CHECK_FALSE(lies_on(fp16, master));
    for (std::size_t i = 0; i < value.size(); ++i)
        CHECK(value[i] == quantize(fp16, master[i], Round::nearest_even, Overflow::nonsaturate));
    CHECK_FALSE(lies_on(fp16, run.gradient("block.0.mlp.up.weight")));  // unscaled and clipped as fp32 copies
}

TEST_CASE("row 10: on a growth step, DeepSpeed halves the gradients, unless they are clipped",
          "[experiments][systems]") {
    const auto text = [](double clip, bool halves) {
        Policy policy = deepspeed_policy(
            fmt::format(
                R"({{"fp16": {{"enabled": true, "initial_scale_power": 4, "loss_scale_window": 2, "hysteresis": 2,
                        "min_loss_scale": 1}}, "zero_optimization": {{"stage": 2}}, "gradient_clipping": {}}})",
                clip)
                .c_str(),
            "0.16.5");
        policy.loss_scaler.set("growth_step_half_grad", halves ? 1 : 0);
        return policy;
    };
    const auto ratio_at_growth = [&](double clip) {
        TinyRun halving(text(clip, true)), exact(text(clip, false));
        for (int step = 0; step < 12; ++step) {
            halving.next();
            exact.next();
            const double ratio =
                mean_abs(halving.gradient("block.0.mlp.up.weight")) / mean_abs(exact.gradient("block.0.mlp.up.weight"));
            // The gradients first differ in the step in which the scale grows.
            if (std::abs(ratio - 1) > 1e-3) return ratio;
        }
        return 1.0;
    };
    CHECK(ratio_at_growth(0) == Approx(0.5));
    CHECK(ratio_at_growth(1e-3) == Approx(1.0).epsilon(1e-3));
}

TEST_CASE("row 10: DeepSpeed undoes any loss scale and clips gradients with a single multiplication",
          "[experiments][systems]") {
    for (const char* scale : {R"("loss_scale": 1024)", R"("loss_scale": 3)", R"("initial_scale_power": 10)"}) {
        for (const double bound : {1e-2, 1e3}) {
            CAPTURE(scale, bound);
            TinyRun run(deepspeed_policy(
                fmt::format(
                    R"({{"fp16": {{"enabled": true, {}}}, "zero_optimization": {{"stage": 2}}, "gradient_clipping": {}}})",
                    scale, bound)
                    .c_str()));
            TinyRun fp32_run(load_policy("fp32"));
            const StepResult step = run.next(), wanted = fp32_run.next();
            REQUIRE_FALSE(step.outcome.skipped);
            CHECK(step.outcome.grad_norm == Approx(wanted.outcome.grad_norm).epsilon(0.01));
            double squares = 0;
            for (const auto& parameter : run.step.model().parameters())
                squares += run.backend.sum_of_squares(parameter->grad);
            CHECK(std::sqrt(squares) ==
                  Approx(std::min(bound, static_cast<double>(step.outcome.grad_norm))).epsilon(1e-4));
        }
    }
}

TEST_CASE("row 11: bf16 micro-batches are accumulated as in the given version of DeepSpeed", "[experiments][systems]") {
    const auto policy = [](const char* version) {
        return deepspeed_policy(
            R"({"bf16": {"enabled": true}, "gradient_accumulation_steps": 2, "gradient_clipping": 1.0})", version);
    };
    TinyRun old(policy("0.16.5")), now(policy("0.19.2"));
    CHECK(old.resolved.has_sum("block.0.mlp.up.weight"));
    CHECK_FALSE(now.resolved.has_sum("block.0.mlp.up.weight"));
    CHECK(old.resolved.training.clip_formula().name == "deepspeed-bf16");
    CHECK(now.resolved.training.clip_formula().name == "deepspeed");
    old.run(2);
    now.run(2);
    CHECK(old.state().at("block.0.mlp.up.weight:value") != now.state().at("block.0.mlp.up.weight:value"));
    CHECK(lies_on(bf16, now.state().at("block.0.mlp.up.weight:value")));
}

TEST_CASE("row 12: Apex O1 has GELU in fp32, and O2 has LayerNorm in fp16", "[experiments][systems]") {
    const auto level = [](const char* name) {
        return policy_of(fmt::format("{{opt_level: {}}}", name), {.framework = "apex"});
    };
    TinyRun o0(level("O0")), o1(level("O1")), o2(level("O2")), o3(level("O3"));
    CHECK(o1.resolved.cast("block.0.mlp.act:forward.out").format == fp32);
    CHECK(o1.resolved.cast("block.0.norm1:forward.out").format == fp32);
    CHECK(o1.resolved.cast("block.0.mlp.up:forward.a").format == fp16);
    CHECK(o2.resolved.cast("block.0.norm1:forward.out").format == fp16);
    CHECK(o2.resolved.cast("block.0.norm1.weight:value").format == fp16);
    CHECK(o2.resolved.has_master("block.0.norm1.weight"));
    CHECK_FALSE(o3.resolved.has_master("block.0.norm1.weight"));
    CHECK(o3.resolved.cast("block.0.mlp.up.weight:moment2").format == fp16);
    CHECK(o1.resolved.loss_scaler.kind->name == "apex");
    CHECK(o3.resolved.loss_scaler.kind->name == "none");
    // SiLU is not on any cast list of Apex.
    TinyRun llama(level("O1"), ModelKind::llama);
    CHECK(llama.resolved.cast("block.0.mlp.act:forward.activated").format == fp16);
    CHECK(llama.resolved.cast("block.0.mlp.act:forward.out").format == fp16);
    for (TinyRun* run : {&o0, &o1, &o2, &llama}) CHECK(std::isfinite(run->run(2).back().loss));
    o3.next();  // its fp16 moments cause a division by 0
    CHECK(lies_on(fp16, o2.state().at("block.0.mlp.up.weight:value")));
}

TEST_CASE("row 15: upcast_layernorm keeps the norms of a bf16 model in fp32", "[experiments][systems]") {
    const auto policy = [](const char* upcast) {
        return policy_of(
            fmt::format("{{stage: sft, do_train: true, finetuning_type: lora, bf16: true, upcast_layernorm: {}}}",
                        upcast),
            {.framework = "llamafactory", .checkpoint = "bf16"});
    };
    const SiteList sites = model_sites(test::tiny_model(ModelKind::llama));
    const ResolvedPolicy on = resolve(policy("true"), sites), off = resolve(policy("false"), sites);
    for (const Parameter& parameter : sites.parameters) {
        CAPTURE(parameter.name);
        const bool is_norm = parameter.name.find("norm") != std::string::npos;
        CHECK(on.cast(parameter.name + ":value").format == (is_norm ? fp32 : bf16));
        CHECK(off.cast(parameter.name + ":value").format == bf16);
    }
    CHECK(on.cast("block.0.norm1:forward.out").format == fp32);
    CHECK(off.cast("block.0.norm1:forward.out").format == bf16);
    TinyRun run(policy("true"), ModelKind::llama);
    run.run(2);
    CHECK_FALSE(lies_on(bf16, run.state().at("final_norm.weight:value")));
    CHECK(lies_on(bf16, run.state().at("lm_head.weight:value")));
}

TEST_CASE("row 16: upcast_lmhead_output changes only a loss that is computed from bf16 logits",
          "[experiments][systems]") {
    const auto policy = [](const char* upcast) {
        return policy_of(
            fmt::format(
                "{{stage: pt, do_train: true, finetuning_type: full, pure_bf16: true, upcast_lmhead_output: {}}}",
                upcast),
            {.framework = "llamafactory", .checkpoint = "bf16"});
    };
    const auto loss = [&](const char* upcast, ModelKind kind) {
        TinyRun run(policy(upcast), kind);
        return run.next().loss_rounded;
    };
    CHECK(loss("true", ModelKind::llama) == loss("false", ModelKind::llama));
    CHECK(loss("true", ModelKind::gpt2) != loss("false", ModelKind::gpt2));
}

TEST_CASE("row 17: pure_bf16 keeps everything in bf16 and loses updates at a learning rate of 1e-5",
          "[experiments][systems]") {
    const Policy policy = policy_of("{stage: pt, do_train: true, finetuning_type: full, pure_bf16: true}",
                                    {.framework = "llamafactory", .checkpoint = "bf16"});
    TrainOptions options = TinyRun::tiny_options();
    options.lr = options.min_lr = 1e-5;
    TinyRun run(policy, ModelKind::llama, options);
    std::uint64_t lost = 0;
    for (const StepResult& step : run.run(4)) lost += step.outcome.updates.lost;
    CHECK(lost > 0);
    for (const auto& [name, values] : run.state()) {
        CAPTURE(name);
        CHECK(lies_on(bf16, values));
    }
    CHECK(lies_on(bf16, run.gradient("block.0.mlp.up.weight")));
}

TEST_CASE("row 21: Axolotl's bf16 has no master weights, and its norms and embeddings are fp32",
          "[experiments][systems]") {
    const Policy policy =
        policy_of("{base_model: my/model, bf16: auto, micro_batch_size: 1}", {.framework = "axolotl"});
    TinyRun run(policy, ModelKind::llama);
    run.run(2);
    for (const auto& parameter : run.step.model().parameters()) {
        CAPTURE(parameter->name);
        CHECK_FALSE(run.resolved.has_master(parameter->name));
        const bool is_wide = parameter->name.find("norm") != std::string::npos ||
                             parameter->name.starts_with("embed") || parameter->name.starts_with("lm_head");
        CHECK(run.resolved.cast(parameter->name + ":value").format == (is_wide ? fp32 : bf16));
        CHECK(lies_on(bf16, run.state().at(parameter->name + ":value")) == !is_wide);
    }
    const ImportResult full = test::import_text("{base_model: my/model, bf16: full}", {.framework = "axolotl"});
    CHECK(full.refused());
}

TEST_CASE("row 28: LongSpec trains as its DeepSpeed section says", "[experiments][systems]") {
    const Policy policy = policy_of(
        "torch_dtype: {_target_: general_util.training_utils.return_torch_dtype, dtype: bfloat16}\nfp16: true\n"
        "fp16_bfloat16: true\nds_cfg: {bf16: {enabled: false}, fp16: {enabled: true, loss_scale: 0, "
        "initial_scale_power: 16, hysteresis: 2}, zero_optimization: {stage: 1}}\n",
        {.framework = "longspec"});
    CHECK(policy.loss_scaler.at("init_scale") == 65536);
    CHECK(policy.loss_scaler.at("growth_interval") == 1000);
    TinyRun run(policy, ModelKind::llama);
    run.run(2);
    CHECK(lies_on(fp16, run.state().at("block.0.mlp.up.weight:value")));
    CHECK_FALSE(lies_on(fp16, run.state().at("block.0.mlp.up.weight:master")));
}

TEST_CASE("row 30: model.half() for inference gives fp16 logits", "[experiments][systems]") {
    const ModelKind kind = GENERATE(ModelKind::gpt2, ModelKind::llama);
    const ModelConfig model = test::tiny_model(kind);
    const SiteList sites = model_sites(model);
    const ResolvedPolicy half = resolve(load_policy("infer-fp16"), sites),
                         pure = resolve(load_policy("pure-fp16"), sites), full = resolve(load_policy("fp32"), sites);
    CpuBackend backend(1);
    SyntheticLanguage data(model.vocabulary);
    const Batch batch = data.batch(Split::held_out, 0, 0, 2, model.context);
    TokenTensor tokens = backend.empty_tokens({2, model.context}), targets = backend.empty_tokens({2, model.context});
    backend.upload(batch.tokens, tokens);
    backend.upload(batch.targets, targets);
    Transformer low(backend, model, 2, half, 0), same(backend, model, 2, pure, 0), wide(backend, model, 2, full, 0);
    Grids grids(backend);
    Logits of_low(backend), of_same(backend), of_wide(backend);
    const auto forward = [&](Transformer& one, Observer& observer) {
        one.initialise(0);
        one.rounder().observe(&observer);
        return one.forward(tokens, targets).exact;
    };
    forward(low, grids);
    CHECK(grids.off == std::set<std::string>{});
    const double a = forward(low, of_low), b = forward(wide, of_wide);
    CHECK(forward(same, of_same) == a);
    CHECK(of_low.values == of_same.values);
    CHECK(a != b);
    CHECK(a == Approx(b).epsilon(0.01));
    // Errors are measured in fp16 ulps at the fp32 logit.
    REQUIRE(of_low.values.size() == of_wide.values.size());
    double most = 0;
    for (std::size_t i = 0; i < of_low.values.size(); ++i) {
        const double exact = of_wide.values[i];
        const double ulp = std::exp2(std::max(std::floor(std::log2(std::abs(exact))), -14.0) - 10);
        most = std::max(most, std::abs(of_low.values[i] - exact) / ulp);
    }
    CAPTURE(most);
    CHECK(most > 0.5);  // more than the rounding of the logits alone
    CHECK(most < 1000);
}

TEST_CASE("row 30: a model for inference in half precision trains with fp32 masters, moments and gradients",
          "[experiments][systems]") {
    TinyRun run(load_policy("infer-fp16"));
    run.run(3);
    const auto is_half = [](const std::vector<float>& values) {
        return std::all_of(values.begin(), values.end(),
                           [](float x) { return quantize(fp16, x, Round::nearest_even, Overflow::nonsaturate) == x; });
    };
    const auto state = run.state();
    CHECK(is_half(state.at("block.0.mlp.up.weight:value")));
    CHECK_FALSE(is_half(state.at("block.0.mlp.up.weight:master")));
    CHECK_FALSE(is_half(state.at("block.0.mlp.up.weight:moment1")));
    CHECK_FALSE(is_half(run.gradient("block.0.mlp.up.weight")));
}

TEST_CASE("row 31: the device profile determines the format in which a config trains", "[experiments][systems]") {
    const auto chain = [](const char* device) {
        return policy_of("{base_model: my/model, bf16: auto, adapter: lora}",
                         {.framework = "axolotl", .device = device})
            .chain.front();
    };
    CHECK(chain("a100").find("bf16") != std::string::npos);
    const Policy hopper =
        policy_of("{bf16: false, fp16: false, tf32: true}", {.framework = "transformers", .device = "h100"});
    CHECK(hopper.chain.front() == "tf32");
    const ImportResult turing = test::import_text("{tf32: true}", {.framework = "transformers", .device = "t4"});
    CHECK(turing.refused());
}

TEST_CASE("row 32: the dump of a config's policy lists every tensor", "[experiments][systems]") {
    const ImportResult result = test::import_text(deepspeed_h, {.framework = "deepspeed"});
    const SiteList sites = model_sites(test::tiny_model(ModelKind::gpt2));
    const ResolvedPolicy policy = resolve(parse_policy(result.policy, "ds.json"), sites);
    std::map<std::string, int> kinds;
    for (const TensorRow& row : tensor_rows(sites, policy, &result.resolved)) ++kinds[std::string(row.kind)];
    const int parameters = static_cast<int>(sites.parameters.size());
    for (const char* kind : {"value", "grad", "accum", "master", "moment1", "moment2"}) {
        CAPTURE(kind);
        CHECK(kinds[kind] == parameters);
    }
    CHECK(kinds["activation"] > 10);
}

TEST_CASE("row 33: nanoGPT without CUDA trains with the bits of fp32 and nanoGPT's optimiser settings",
          "[experiments][systems]") {
    const Policy cpu =
        policy_of("{dtype: float16, device: cpu, grad_clip: 0.0, gradient_accumulation_steps: 1, block_size: 8}",
                  {.framework = "nanogpt", .device = "cpu"});
    CHECK(cpu.chain.front() == "fp32");
    CHECK(cpu.training.beta2 == 0.95);
    CHECK(cpu.training.weight_decay == 0.1);
    TinyRun run(cpu), fp32_run(load_policy("fp32"));
    CHECK(run.next().loss == fp32_run.next().loss);
    const Policy gpu = policy_of("{dtype: float16, device: cuda, grad_clip: 1.0, gradient_accumulation_steps: 4}",
                                 {.framework = "nanogpt"});
    CHECK(gpu.chain.front() == "amp-fp16");
    CHECK(gpu.training.adam_kernel().name == "fused");
    CHECK(gpu.training.micro_batches == 4);
    TinyRun amp(gpu);
    CHECK(amp.run_options.batch == 1);
    CHECK(amp.next().loss_scale == 65536);
}

TEST_CASE("row 34: Megatron keeps fp32 main gradients and bf16 weights", "[experiments][systems]") {
    const test::ConfigFolder folder;
    const auto policy = [&](const char* text) {
        const ImportResult result =
            test::import_files({folder.write("megatron.args", text)}, {.framework = "megatron"});
        CHECK_FALSE(result.refused());
        return parse_policy(result.policy, "megatron.args");
    };
    TinyRun run(policy("--bf16 --clip-grad 1.0 --adam-beta2 0.95\n"));
    CHECK(run.resolved.training.clip_formula().name == "megatron");
    CHECK(run.resolved.training.adam_kernel().name == "multi-tensor");
    CHECK(run.resolved.training.beta2 == 0.95);
    run.run(2);
    CHECK(lies_on(bf16, run.state().at("block.0.mlp.up.weight:value")));
    CHECK_FALSE(lies_on(bf16, run.gradient("embed.token.weight")));
    CHECK_FALSE(lies_on(bf16, run.state().at("block.0.mlp.up.weight:master")));
    const Policy half = policy("--fp16\n");
    CHECK(half.loss_scaler.at("init_scale") == 0x1p32);
    CHECK(half.training.rate_waits.value_or(false));
}

}  // namespace system_rows_test
