// SPDX-License-Identifier: Apache-2.0
// Tests the entries of `macheps why`: each text finds its entry, other sentences find none, and the entries cover the
// findings of the importers and the diagnoses of runs.
#include "core/text/quote.hpp"
#include "experiments/configs/framework.hpp"
#include "experiments/configs/history/history.hpp"
#include "experiments/configs/symptoms/causes.hpp"
#include "experiments/configs/symptoms/match.hpp"
#include "reports/findings/diagnosis.hpp"
#include "reports/training_logs/log_diagnosis.hpp"
#include "tests/configs/import_case.hpp"
#include "tests/json.hpp"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace symptoms_test {

using namespace macheps;
using namespace macheps::configs;
using namespace macheps::test;

namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

/// Returns the id of the best match, with its kind, or an empty text.
std::string first_match(std::string_view text) {
    const std::vector<SymptomMatch> matches = match_symptoms(text);
    if (matches.empty()) return {};
    return fmt::format("{} {}", matches.front().row->id, to_string(matches.front().kind));
}
std::string first_id(std::string_view text) {
    const std::string match = first_match(text);
    return match.substr(0, match.find(' '));
}

/// Returns the text with another value for each number that is a word.
std::string with_other_numbers(const std::string& text) {
    static const std::regex number(R"((^|[\s=:(\[])(\d+)(\.\d+)?(?![\w]))");
    std::string result;
    auto from = text.begin();
    int next = 7;
    for (std::sregex_iterator at(text.begin(), text.end(), number), end; at != end; ++at) {
        result.append(from, (*at)[0].first).append((*at)[1].str()).append(std::to_string(next));
        if ((*at)[3].matched) result += ".25";
        next = 3 * next + 1;
        from = (*at)[0].second;
    }
    return result.append(from, text.end());
}

std::string text_of_file(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the ids in the history of faults, including those of the shared table if it is available.
Names known_faults() {
    Names ids;
    for (const FaultRow* row : fault_rows()) ids.emplace(row->id);
    std::ifstream lines(shared_folder() / "spec/frameworks-2/history.jsonl");
    for (std::string line; std::getline(lines, line);) ids.insert(nlohmann::json::parse(line)["id"].get<std::string>());
    return ids;
}

/// Finds the rules in the sources of the importers: "deepspeed/floor-raises", or "*/unknown-key" for a rule that every
/// framework has.
Names rules_in_sources() {
    static const std::regex row(
        R"re(\{\s*"([a-z0-9-]+)",\s*(?:FindingCode::)?(?:error|warning|contradiction|inert|note|defaulted)\b)re");
    static const std::regex call(R"re(\b(?:report|refuse)\([^";]*"([a-z0-9-]+)")re");
    static const std::regex either(R"re(\? "([a-z-]+)" : "([a-z-]+)")re");
    const fs::path root = fs::path(MACHEPS_SOURCE_DIR) / "experiments/configs";
    const auto framework_of = [&](const fs::path& file) {
        std::string name = fs::relative(file, root).begin()->string();
        std::replace(name.begin(), name.end(), '_', '-');
        return find_framework(name) != nullptr ? name : std::string("*");
    };
    Names rules;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
        if (entry.path().extension() != ".cpp" || entry.path().parent_path().filename() == "symptoms") continue;
        const std::string text = text_of_file(entry.path()), framework = framework_of(entry.path());
        const auto add = [&](const std::regex& pattern) {
            for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) {
                for (std::size_t i = 1; i < at->size(); ++i) rules.insert(framework + "/" + (*at)[i].str());
            }
        };
        add(row);
        add(call);
        if (entry.path().filename() == "check_keys.cpp") add(either);
    }
    return rules;
}

template <class Member>
Names named(Member member) {
    Names names;
    for (const SymptomRow* row : symptom_rows()) {
        for (const SymptomCause& cause : row->causes()) {
            for (const std::string& id : macheps::words_of(cause.*member)) names.insert(id);
        }
    }
    return names;
}

/// Returns whether a rule of a symptom is this rule, or this rule of any framework.
bool is_named(const Names& named_rules, const std::string& rule) {
    return std::any_of(named_rules.begin(), named_rules.end(),
                       [&](const std::string& one) { return is_rule(rule, one); });
}

/// A rule that no symptom names, and the reason.
struct Exception {
    const char *rule, *why;
};
constexpr Exception exceptions[] = {
    {"*/default", "names the default that decided"},
    {"*/assumed", "names assumptions of macheps"},
    {"*/recognised", "names the framework of the config"},
    {"*/unknown-version", "describes the tables of macheps"},
    {"*/named-file", "describes how files were read"},
    {"*/left-out", "describes how a command line was read"},
    {"*/unknown-value", "describes how a command line was read"},
    {"*/also-fits", "names the frameworks that the keys fit"},
    {"*/config-unread", "names a file that macheps needs"},
    {"*/script-option", "names an option that macheps does not know"},
    {"*/launcher-settings", "names a file that macheps needs"},
    {"*/file-by-name", "describes how files were read"},
    {"*/unused-ignore", "is about a comment for macheps"},
    {"*/not-emulated", "describes a limit of macheps"},
    {"llamafactory/frozen-layers", "says which weights the fields describe"},
    {"*/harness-setting", "describes a limit of macheps"},
    {"accelerate/handlers", "describes a limit of macheps"},
    {"accelerate/launcher", "names a setting of the launcher"},
    {"accelerate/sagemaker", "names a setting of the launcher"},
    {"accelerate/tpu-bf16", "describes a device that macheps does not emulate"},
    {"apex/batchnorm-kept", "says which layers the fields describe"},
    {"axolotl/attention-kernel", "describes a limit of macheps"},
    {"axolotl/optimiser-arguments", "describes a limit of macheps"},
    {"axolotl/quantised-training", "describes a limit of macheps"},
    {"axolotl/ray-workers", "names a setting of the launcher"},
    {"deepspeed/old-section", "names the former place of a key"},
    {"gpt-neox/unexpressed-option", "describes a limit of macheps"},
    {"megatron/masters-kept", "is a note about memory"},
    {"torch/clip-order", "is a note about the order of calls, which a config does not show"},
    {"kohya/deepspeed-unread", "describes a limit of macheps"},
    {"kohya/diffusion-model", "describes a limit of macheps"},
    {"kohya/network-unread", "describes a limit of macheps"},
    {"kohya/options-file-unread", "describes a limit of macheps"},
    {"lightning/clip-by-value", "describes a limit of macheps"},
    {"lightning/fp64", "describes a limit of macheps"},
    {"lightning/other-strategy", "describes a limit of macheps"},
    {"lightning/own-fsdp-formats", "describes a limit of macheps"},
    {"lightning/plugins-unread", "describes a limit of macheps"},
    {"lightning/sharded", "names the way of training"},
    {"llamafactory/attention-kernel", "describes a limit of macheps"},
    {"megatron/second-moments", "describes a limit of macheps"},
    {"megatron/unexpressed-option", "describes a limit of macheps"},
    {"torch/ignored-classes", "describes a limit of macheps"},
    {"torch/output-format", "describes a limit of macheps"},
    {"torchtitan/layer-names", "describes a limit of macheps"},
    {"torchtitan/single-gpu", "names an assumption of macheps"},
    {"torchtune/fp32-products", "says that products are not rounded"},
    {"torchtune/fp64-unread", "describes a limit of macheps"},
    {"torchtune/quantizer-unread", "describes a limit of macheps"},
    {"transformers/optimiser-arguments", "describes a limit of macheps"},
    {"transformers/quantised-by-script", "describes a limit of macheps"},
    {"verl/actor-only", "names the model that the fields describe"},
    {"verl/defaults-unread", "describes how files were read"},
    {"verl/engine-unread", "describes a limit of macheps"},
    {"verl/qat-unread", "describes a limit of macheps"},
};

/// Judges a cause of a symptom for a config.
CauseVerdict verdict_of(const char* id, std::size_t cause, std::string_view config, ImportOptions options = {}) {
    const ConfigFolder folder;
    const std::vector<std::string> files{folder.write("config.yaml", config)};
    for (const SymptomRow* row : symptom_rows()) {
        if (row->id == id) return CauseJudge(files, std::move(options)).judge(row->causes()[cause]).verdict;
    }
    throw Error({.what = "no such symptom", .where = id});
}

}  // namespace

TEST_CASE("each symptom has a unique id, a title, texts and causes", "[symptoms]") {
    Names ids;
    for (const SymptomRow* row : symptom_rows()) {
        CAPTURE(row->id);
        CHECK(ids.emplace(row->id).second);
        CHECK_FALSE(row->title.empty());
        CHECK_FALSE(row->texts().empty());
        CHECK_FALSE(row->causes().empty());
        CHECK_FALSE(row->remedies().empty());
    }
    CHECK(ids.size() >= 65);
}

TEST_CASE("each text of each symptom finds its entry first, alone and inside a log", "[symptoms]") {
    for (const SymptomRow* row : symptom_rows()) {
        for (const std::string_view text : row->texts()) {
            CAPTURE(row->id, text);
            CHECK(first_match(text) == fmt::format("{} exact", row->id));
            const std::string log = fmt::format(
                "Epoch 3 begins\n  File \"/home/user/run/train.py\", line 12, in step\n\x1b[31m[rank3]: {} "
                "(12)\x1b[0m\n"
                "exit code 1 on node 17\n",
                text);
            CHECK(first_match(log) == fmt::format("{} exact", row->id));
        }
    }
}

TEST_CASE("each text of each symptom finds its entry first if it has other numbers, case and line breaks",
          "[symptoms]") {
    int changed = 0;
    for (const SymptomRow* row : symptom_rows()) {
        for (const std::string_view text : row->texts()) {
            std::string other = with_other_numbers(std::string(text));
            changed += other != text ? 1 : 0;
            CAPTURE(row->id, text, other);
            CHECK(first_id(other) == row->id);
            std::transform(other.begin(), other.end(), other.begin(),
                           [](char c) { return c >= 'a' && c <= 'z' ? char(c - 32) : c; });
            std::replace(other.begin(), other.end(), ' ', '\n');
            CHECK(first_id(other) == row->id);
        }
    }
    CHECK(changed >= 20);
}

TEST_CASE("messages with other ranks, paths, names and dtypes find their entries", "[symptoms]") {
    struct Case {
        const char *text, *id, *why;
    };
    for (const auto& [text, id, why] : std::vector<Case>{
             {"[deepspeed] OVERFLOW! Rank 13 Skipping step. Attempted loss scale: 1, reducing to 1", "ds-overflow-line",
              "rank and scales"},
             {"Attempting to unscale BF16 gradients.", "unscale-fp16", "dtype"},
             {"mat1 and mat2 must have the same dtype, but got Float and Half", "mat-dtypes", "two dtypes"},
             {"FSDP expects uniform original parameter dtype but got {torch.float16, torch.float32}", "fsdp2-uniform",
              "more text"},
             {"Must flatten tensors with uniform dtype but got torch.float32 and torch.float16", "fsdp1-uniform",
              "exchanged dtypes"},
             {"\"geqrf_cuda\" not implemented for 'Half'", "low-linalg", "another operation, the same dtype"},
             {"NaN detected in latents: /data/img/0012.png", "kohya-latents", "a path"},
             {"{'loss': '0.0', 'grad_norm': 'nan', 'learning_rate': '1e-05'}", "loss-zero-nan", "quoted values"},
             {"FutureWarning: `--fsdp_config` is useful only when `--fsdp` is specified.", "tf-fsdp-config",
              "a prefix"},
             {"expected scalar type Half but found BFloat16", "matmul-dtypes", "another dtype"}}) {
        CAPTURE(text, why);
        CHECK(first_id(text) == id);
    }
}

TEST_CASE("symptoms are found in words of users", "[symptoms]") {
    struct Case {
        const char *text, *id;
    };
    for (const auto& [text, id] :
         std::vector<Case>{{"my loss doesn't go down", "loss-not-decreasing"},
                           {"Why does the loss not decrease when I finetune?", "loss-not-decreasing"},
                           {"after 200 steps my loss becomes NaN", "loss-nan"},
                           {"the loss scale always keeps decreasing", "scale-falls"},
                           {"is the gradient norm supposed to be NaN", "norm-nan"},
                           {"FP8 training has the same speed as bf16", "fp8-no-faster"},
                           {"my results differ between two runs", "not-reproducible"},
                           {"torch.compile changes the loss of my model", "compile-differs"}}) {
        CAPTURE(text);
        CHECK(first_id(text) == id);
    }
}

TEST_CASE("sentences that describe no symptom find nothing", "[symptoms]") {
    for (const char* text : {"how do I install macheps",
                             "the weather is nice today",
                             "the training loss decreases nicely and the gradient norm is small",
                             "step 100, loss 2.31, lr 1e-5, everything fine",
                             "{'loss': 2.31, 'grad_norm': 0.52, 'learning_rate': 1e-05, 'epoch': 0.3}",
                             "{'loss': 2.31, 'grad_norm': 0.52}",
                             "which GPU should I buy for training",
                             "convert a checkpoint to fp16",
                             "what is the difference between fp16 and bf16",
                             "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.bin'",
                             "ModuleNotFoundError: No module named 'deepspeed'",
                             "RuntimeError: NCCL communicator was aborted on rank 3.",
                             "AssertionError: the two lists should be the same",
                             "this option is not supported on your system",
                             "Epoch 3 begins",
                             "the loss is never NaN in this run",
                             "iteration 100/ 500 | loss scale: 65536.0 | grad norm: 1.250 | lm loss: 2.3E+00",
                             "Traceback (most recent call last): File \"train.py\", line 3, in <module>",
                             "connection refused by the remote host",
                             "KeyError: 'input_ids'",
                             "{'accuracy': 0.5, 'perplexity': nan}",
                             "print the table of formats",
                             "the trainer prints loss_scale 1024 and then loss_scale 1.5 in each of its many lines",
                             "1.0",
                             "nan",
                             "?!"}) {
        CAPTURE(text);
        CHECK(first_match(text).empty());
        const std::vector<const SymptomRow*> nearest = nearest_symptoms(text);
        CHECK(nearest.size() <= 5);
        CHECK(std::set<const SymptomRow*>(nearest.begin(), nearest.end()).size() == nearest.size());
    }
    CHECK(nearest_symptoms("convert a checkpoint to fp16").size() == 5);
    for (const char* text : {"xyz", "?!", "how do I"}) CHECK(nearest_symptoms(text).empty());
}

TEST_CASE("sentences of users find the entry about their problem", "[symptoms]") {
    struct Row {
        const char *text, *id;
    };
    for (const Row& row : {Row{"my run has very bad convergence with bf16", "where-masters"},
                           {"our model trained in bf16 converges worse than fp32", "where-masters"},
                           {"SFT converges so poorly with BF16", "where-masters"},
                           {"is `bf16-true` in FSDP actually mixed precision?", "precision-ignored"},
                           {"training llama in bf16 gives an abnormal loss", "first-step-jump"},
                           {"the loss becomes very large with bf16 after the first update", "first-step-jump"},
                           {"LoRA: the loss would become 0 without bf16 in the config", "loss-zero-nan"},
                           {"the loss is 0 if I train without bf16", "loss-zero-nan"},
                           {"NaN when training with float16", "loss-nan"}}) {
        CAPTURE(row.text);
        CHECK(first_id(row.text) == row.id);
    }
}

TEST_CASE("at most three entries are found, the best first, each once", "[symptoms]") {
    const std::vector<SymptomMatch> matches = match_symptoms("\"geqrf_cuda\" not implemented for 'Half'");
    REQUIRE(matches.size() == 3);
    CHECK(matches[0].row->id == "low-linalg");
    CHECK(matches[0].matched == "geqrf_cuda not implemented for half");
    CHECK(std::set{matches[0].row, matches[1].row, matches[2].row}.size() == 3);
    CHECK(match_symptoms("loss nan; loss stuck; loss spike; not reproducible; fp8 is slow").size() == 3);
}

TEST_CASE("a part of a text is explained only by the entries that match most of it", "[symptoms]") {
    // The message of ZeRO 0 has nine words of this message.
    const char* overflow = "[deepspeed] OVERFLOW! Rank 3 Skipping step. Attempted loss scale: 4096, reducing to 2048";
    const std::vector<SymptomMatch> matches = match_symptoms(overflow);
    REQUIRE(matches.size() == 1);
    CHECK(matches[0].row->id == "ds-overflow-line");
    CHECK(matches[0].matched == "deepspeed overflow rank 3 skipping step attempted loss scale 4096 reducing to 2048");
    const std::vector<SymptomMatch> two = match_symptoms(std::string(overflow) + "\nNaN detected in latents: a.png\n");
    REQUIRE(two.size() == 2);
    CHECK(two[0].row->id == "kohya-latents");
    CHECK(two[1].row->id == "ds-overflow-line");
}

TEST_CASE("the shared texts find the entries with their ids", "[symptoms]") {
    const fs::path table = shared_folder() / "spec/frameworks-2/symptoms.jsonl";
    if (shared_folder().empty() || !fs::is_regular_file(table)) SKIP_TEST("no shared table of symptoms");
    std::ifstream lines(table);
    int count = 0;
    for (std::string line; std::getline(lines, line);) {
        const nlohmann::json row = nlohmann::json::parse(line);
        for (const nlohmann::json& text : row["match"]) {
            CAPTURE(text);
            const std::string words = text.get<std::string>();
            CHECK(first_id(words) == row["id"].get<std::string>());
            CHECK(first_id(with_other_numbers(words)) == row["id"].get<std::string>());
            ++count;
        }
    }
    CHECK(count >= 98);
}

TEST_CASE("every rule that a symptom names is a rule of an importer", "[symptoms]") {
    const Names rules = rules_in_sources();
    CHECK(rules.size() > 230);
    Names unknown;
    for (const std::string& rule : named(&SymptomCause::rules)) {
        if (std::none_of(rules.begin(), rules.end(), [&](const std::string& one) { return is_rule(one, rule); }))
            unknown.insert(rule);
    }
    CHECK(unknown == Names{});
}

TEST_CASE("every rule of an importer belongs to a symptom, or to a list of exceptions", "[symptoms]") {
    const Names in_symptoms = named(&SymptomCause::rules), rules = rules_in_sources();
    Names missing;
    for (const std::string& rule : rules) {
        if (!is_named(in_symptoms, rule)) missing.insert(rule);
    }
    for (const auto& [rule, why] : exceptions) {
        CAPTURE(rule, why);
        CHECK(missing.erase(rule) == 1);
    }
    CHECK(missing == Names{});
}

TEST_CASE("every diagnosis belongs to a symptom, and every diagnosis of a symptom exists", "[symptoms]") {
    Names known;
    for (const reports::Diagnosis& one : reports::diagnoses()) known.emplace(one.id);
    for (const reports::LogDiagnosis& one : reports::log_diagnoses()) known.emplace(one.id);
    CHECK(named(&SymptomCause::diagnoses) == known);
}

TEST_CASE("every fault that a symptom names is a row of the history", "[symptoms]") {
    const Names known = known_faults();
    if (known.empty()) SKIP_TEST("the history of faults is empty");
    Names unknown;
    for (const std::string& id : named(&SymptomCause::faults)) {
        if (!known.contains(id)) unknown.insert(id);
    }
    CHECK(unknown == Names{});
}

TEST_CASE("a cause applies if the import reports its rule, and is excluded if it tests the rule without a report",
          "[symptoms]") {
    const char *fp16 = R"({"fp16": {"enabled": true, "min_loss_scale": 1}, "zero_optimization": {"stage": 2}})",
               *bf16 = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})",
               *trainer = "bf16: true\noutput_dir: out\nlearning_rate: 1.0e-4\n";
    struct Case {
        const char* id;
        std::size_t cause;
        const char* config;
        CauseVerdict verdict;
        const char* why;
    };
    for (const auto& [id, cause, config, verdict, why] : std::vector<Case>{
             {"ds-floor", 4, fp16, CauseVerdict::applies, "the import reports the rule"},
             {"ds-floor", 4, bf16, CauseVerdict::excluded, "the rule needs fp16"},
             {"ds-floor", 0, bf16, CauseVerdict::open, "the cause has no rule"},
             {"unscale-fp16", 0, bf16, CauseVerdict::open, "rules of other frameworks"},
             {"trl-unknown-arguments", 1, bf16, CauseVerdict::open, "a rule that no framework has to have"},
             {"bf16-slow", 0, trainer, CauseVerdict::open, "another device would have the rule"},
             {"where-masters", 0, trainer, CauseVerdict::open, "another checkpoint would have the rule"}}) {
        CAPTURE(id, cause, config, why);
        CHECK(verdict_of(id, cause, config) == verdict);
    }
    ImportOptions v100, h100;
    v100.device = "v100", h100.device = "h100";
    v100.device_is_default = h100.device_is_default = false;
    CHECK(verdict_of("bf16-slow", 0, trainer, v100) == CauseVerdict::applies);
    CHECK(verdict_of("bf16-slow", 0, trainer, h100) == CauseVerdict::open);  // its fault needs a version
    const SymptomCause emulated{.text = "x", .rules = "transformers/bf16-emulated"};
    const ConfigFolder folder;
    const std::vector<std::string> files{folder.write("config.yaml", trainer)};
    CHECK(CauseJudge(files, {}).judge(emulated).verdict == CauseVerdict::open);
    CHECK(CauseJudge(files, v100).judge(emulated).verdict == CauseVerdict::applies);
    CHECK(CauseJudge(files, h100).judge(emulated).verdict == CauseVerdict::excluded);
}

TEST_CASE("a verdict other than open has a reason, and an unknown fault excludes nothing", "[symptoms]") {
    const ConfigFolder folder;
    const std::vector<std::string> files{
        folder.write("config.yaml", R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})")};
    const CauseJudge judge(files, {});
    for (const SymptomRow* row : symptom_rows()) {
        for (const SymptomCause& cause : row->causes()) {
            const JudgedCause judged = judge.judge(cause);
            CAPTURE(row->id, cause.text);
            CHECK(judged.reason.empty() == (judged.verdict == CauseVerdict::open));
        }
    }
    const SymptomCause known{.text = "x", .rules = "deepspeed/floor-raises"},
        unknown{.text = "x", .rules = "deepspeed/floor-raises", .faults = "no-such-fault"};
    CHECK(judge.judge(known).verdict == CauseVerdict::excluded);
    CHECK(judge.judge(unknown).verdict == CauseVerdict::open);
}

/// A config of a framework, and the same config with one engine.
struct EngineSample {
    const char *framework, *engine, *without, *with;
};
constexpr const char *axolotl_lora = "base_model: a\nadapter: lora\nbf16: true\n", *llama = "stage: sft\nbf16: true\n",
                     *trainer = "output_dir: o\nlearning_rate: 1.0e-4\nbf16: true\n",
                     *launcher = "compute_environment: LOCAL_MACHINE\nmixed_precision: bf16\n";
constexpr EngineSample engine_samples[] = {
    {"axolotl", "fsdp2", axolotl_lora, "fsdp_version: 2\nfsdp_config: {state_dict_type: FULL_STATE_DICT}\n"},
    {"axolotl", "fsdp", axolotl_lora, "fsdp: [full_shard]\n"},
    {"transformers", "fsdp", trainer, "fsdp: full_shard\n"},
    {"transformers", "deepspeed", trainer, "deepspeed: {bf16: {enabled: true}, zero_optimization: {stage: 2}}\n"},
    {"accelerate", "fsdp", launcher, "distributed_type: FSDP\nfsdp_config: {fsdp_version: 1}\n"},
    {"accelerate", "deepspeed", launcher, "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 2}\n"},
    {"lightning", "fsdp", "trainer: {precision: bf16-mixed, max_steps: 5}\n", "trainer.strategy=fsdp"},
    {"lightning", "deepspeed", "trainer: {precision: bf16-mixed, max_steps: 5}\n", "trainer.strategy=deepspeed"},
    {"torch", "fsdp2", "autocast: {dtype: bfloat16}\n", "fsdp: {version: 2}\n"},
    {"torch", "fsdp", "autocast: {dtype: bfloat16}\n", "fsdp: {version: 1}\n"},
    {"composer", "fsdp", "precision: amp_bf16\nmax_duration: 1ba\n", "fsdp_config: {sharding_strategy: FULL_SHARD}\n"},
    {"llamafactory", "deepspeed", llama, "deepspeed: {bf16: {enabled: true}, zero_optimization: {stage: 2}}\n"},
    {"llamafactory", "zero3", llama, "deepspeed: {bf16: {enabled: true}, zero_optimization: {stage: 3}}\n"},
};

TEST_CASE("an import that excludes each cause of a printed message does not describe the run", "[symptoms]") {
    const ConfigFolder folder;
    const std::vector<std::string> files{folder.write("config.yaml", "output_dir: o\nlearning_rate: 1.0e-4\n")};
    ImportOptions v100;
    v100.device = "v100";
    v100.device_is_default = false;
    const CauseJudge judge(files, v100);
    SymptomRow row{.id = "x",
                   .title = "x",
                   .text_rows = {"x"},
                   .source = "torch",
                   .cause_rows = {{.text = "old GPU", .rules = "transformers/bf16-emulated"}}};
    CHECK(judge.judge(row.causes()[0]).verdict == CauseVerdict::excluded);
    CHECK(judge.judge(row)[0].verdict == CauseVerdict::open);
    CHECK(judge.judge(row)[0].reason.find("does not describe its run") != std::string::npos);
    // An open cause may be the true one, so the other causes stay excluded.
    row.cause_rows[1] = {.text = "another program"};
    CHECK(judge.judge(row)[0].verdict == CauseVerdict::excluded);
    CHECK(judge.judge(row)[1].verdict == CauseVerdict::open);
    // Words of users prove nothing.
    row.source = {};
    row.cause_rows[1] = {};
    CHECK(judge.judge(row)[0].verdict == CauseVerdict::excluded);
}

TEST_CASE("a rule for an engine excludes its cause only if the config uses this engine", "[symptoms]") {
    Names untested;
    int tested = 0;
    for (const std::string& rule : named(&SymptomCause::rules)) {
        const RuleEngine* engine = engine_of_rule(rule);
        if (engine == nullptr || rule.starts_with("*/")) continue;
        CAPTURE(rule, engine->name);
        const std::string framework = rule.substr(0, rule.find('/'));
        const auto sample = std::find_if(
            std::begin(engine_samples), std::end(engine_samples),
            [&](const EngineSample& one) { return one.framework == framework && one.engine == engine->name; });
        if (sample == std::end(engine_samples)) {
            untested.insert(rule);
            continue;
        }
        const SymptomCause cause{.text = "x", .rules = rule};
        ImportOptions options;
        options.framework = framework;
        options.device_is_default = options.checkpoint_is_default = false;
        const ConfigFolder folder;
        const std::string with = sample->with;
        const bool is_override = with.find('=') != std::string::npos;
        const std::vector<std::string> without{folder.write("without.yaml", sample->without)};
        std::vector<std::string> all{folder.write("with.yaml", sample->without + (is_override ? "" : with))};
        if (is_override) all.push_back(with);
        CHECK(CauseJudge(without, options).judge(cause).verdict == CauseVerdict::open);
        CHECK(CauseJudge(all, options).judge(cause).verdict != CauseVerdict::open);
        ++tested;
    }
    CHECK(untested == Names{});
    CHECK(tested >= 10);
    // A config of FSDP 1 says nothing about a rule for FSDP 2.
    CHECK(engine_of_rule("axolotl/quantised-fsdp2")->name == "fsdp2");
    CHECK(engine_of_rule("axolotl/fp32-norms-without-fsdp2") == nullptr);
    CHECK(engine_of_rule("deepspeed/floor-raises") == nullptr);
}

TEST_CASE("a fault is shown with the releases that have it", "[symptoms]") {
    struct Case {
        const char *first_bad, *first_good, *text;
    };
    for (const auto& [first_bad, first_good, text] :
         std::vector<Case>{{"0.17.6", "0.18.3", "deepspeed 0.17.6 to before 0.18.3"},
                           {"0.18.3", "", "deepspeed from 0.18.3"},
                           {"", "0.15.2", "deepspeed before 0.15.2"},
                           {"", "", "all releases of deepspeed"}}) {
        FaultRow row{};
        row.package = "deepspeed", row.first_bad = first_bad, row.first_good = first_good;
        CHECK(releases_text(row) == text);
    }
    CHECK(fault_text("no-such-fault") == "no-such-fault");
    for (const FaultRow* row : fault_rows())
        CHECK(fault_text(row->id) == fmt::format("{} ({})", row->id, releases_text(*row)));
}

TEST_CASE("a megabyte of text or of random bytes is compared in less than a second", "[symptoms]") {
    const auto seconds_for = [](const std::string& text) {
        const std::clock_t begin = std::clock();
        match_symptoms(text);
        return double(std::clock() - begin) / CLOCKS_PER_SEC;
    };
    std::mt19937 random(1);
    std::string bytes(1 << 20, '\0'), words, same, same_letter(1 << 20, 'a');
    for (char& byte : bytes) byte = char(random());
    const std::vector<const SymptomRow*> rows = symptom_rows();
    while (words.size() < 1 << 20) words += std::string(rows[random() % rows.size()]->texts().front()) + " 17\n";
    while (same.size() < 1 << 20) same += "the same dtype ";
    for (const std::string* text : {&bytes, &words, &same, &same_letter}) CHECK(seconds_for(*text) < 1);
}

}  // namespace symptoms_test
