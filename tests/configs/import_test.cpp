// SPDX-License-Identifier: Apache-2.0
// Tests code that all importers share: the default values of each version, findings that follow from the tables of
// keys, the order and the suppression of findings, recognition of the framework, files that a config names, and the
// resulting policy. The framework is a toy, so that each rule is tested separately.
#include "core/error.hpp"
#include "experiments/configs/framework.hpp"
#include "experiments/configs/policy_text/policy_text.hpp"
#include "experiments/policy/policy.hpp"
#include "experiments/training/model/config.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace import_test {

using namespace macheps;
using namespace macheps::files;
using namespace macheps::policy;
using namespace macheps::configs;
using namespace macheps::training;

namespace {

using enum KeyType;

const KeyRow toy_rows[] = {
    {.path = "fp16.enabled", .type = flag, .defaults = {{"", "false"}}, .sets = "compute"},
    {.path = "fp16.window", .type = count, .defaults = {{"", "1000"}, {"2.0", "2000"}}},
    {.path = "fp16.lr", .type = number},
    {.path = "half", .type = flag},
    {.path = "mode", .type = choice, .defaults = {{"", "fast"}}, .choices = "fast slow"},
    {.path = "dtype", .type = KeyType::dtype, .defaults = {{"", "bf16"}}},
    {.path = "old", .type = text, .until = "2.0"},
    {.path = "late", .type = text, .since = "2.0"},
    {.path = "steps", .effect = KeyEffect::inert},
    {.path = "free", .type = map},
    {.path = "parts.*.size", .type = number},
    {.path = "names", .type = list},
    {.path = "include", .type = any},
};

bool toy_refuses(const ImportContext&, std::string_view path) { return path.starts_with("fp16."); }
bool toy_reads_quoted(const ImportContext& context) { return context.since("2.0"); }

const Framework toy{.name = "toy",
                    .title = "Toy",
                    .newest = "2.1",
                    .oldest = "1.0",
                    .keys = toy_rows,
                    .inert_keys = "log_dir parts.*.colour",
                    .refuses_unknown = toy_refuses,
                    .reads_quoted_booleans = toy_reads_quoted};

ImportOptions options_of(std::string_view version = {}) {
    ImportOptions options;
    if (!version.empty()) options.versions["toy"] = parse_version(version);
    return options;
}

/// State of an import of a text by the toy framework. It owns the options to which the ImportContext refers.
struct Import {
    ImportOptions options;
    ImportContext context;

    explicit Import(const std::string& yaml, std::string_view version = "2.1")
        : options(options_of(version)), context(toy, read_yaml_config(yaml, "t.yaml").root, options) {}
};

/// Returns a line such as "U t.yaml:1:1 toy/unknown-key fp16.windo" for each finding.
std::vector<std::string> lines_of(const std::vector<Finding>& findings) {
    std::vector<std::string> lines;
    for (const Finding& one : findings)
        lines.push_back(std::string(1, static_cast<char>(one.code)) + " " + to_string(one.place) + " " + one.rule +
                        " " + one.key);
    return lines;
}

using Lines = std::vector<std::string>;

Lines checked(const std::string& yaml, std::string_view version = "2.1") {
    Import import(yaml, version);
    check_keys(import.context);
    return lines_of(import.context.findings());
}

Finding only_finding(const std::string& yaml, std::string_view version = "2.1") {
    Import import(yaml, version);
    check_keys(import.context);
    REQUIRE(import.context.findings().size() == 1);
    return import.context.findings().front();
}

/// A temporary folder for config files. The destructor removes it.
class Folder {
  public:
    Folder() : path_(test::memory_folder() / "import") { std::filesystem::create_directories(path_); }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string write(const std::string& name, const std::string& text) const {
        std::filesystem::create_directories((path_ / name).parent_path());
        std::ofstream(path_ / name, std::ios::binary) << text;
        return (path_ / name).string();
    }
    std::string path() const { return path_.string(); }

  private:
    std::filesystem::path path_;
};

ImportResult import_files(const std::vector<std::string>& files, const ImportOptions& options = {}) {
    return import_config(files, options);
}

}  // namespace

TEST_CASE("versions compare as numbers", "[import]") {
    CHECK(parse_version("0.16.5") < parse_version("0.17"));
    CHECK(parse_version("4.57.1") < parse_version("5"));
    CHECK(parse_version("5") == parse_version("5.0.0"));
    CHECK(parse_version("v4.41.0.dev0") == parse_version("4.41"));
    CHECK(to_string(parse_version("0.19.6")) == "0.19.6");
    CHECK(to_string(parse_version("4.41.0")) == "4.41");
    for (const char* text : {"", "new", "-1", "."}) {
        CAPTURE(text);
        CHECK_THROWS_AS(parse_version(text), Error);
    }
}

TEST_CASE("a value that is not given is the default of the framework's version", "[import]") {
    const Import old("a: 1", "1.5"), recent("a: 1", "2.0"), said("fp16: {window: 7, enabled: yes}\nmode: ~\n");
    CHECK(old.context.number("fp16.window") == 1000);
    CHECK(recent.context.number("fp16.window") == 2000);
    CHECK(said.context.number("fp16.window") == 7);
    CHECK(said.context.flag("fp16.enabled"));
    CHECK_FALSE(said.context.number("fp16.lr").has_value());
    CHECK_FALSE(said.context.maybe_flag("half").has_value());
    CHECK(said.context.text("mode") == "fast");  // null sets nothing
    CHECK_FALSE(said.context.has("mode"));
    CHECK(said.context.dtype("dtype") == 'B');
    CHECK(said.context.from("fp16.window") == "t.yaml:1:8 fp16.window");
    CHECK(old.context.from("fp16.window") == "default of toy 1.5");
    CHECK(said.context.origin("mode") == Origin::standard);
    CHECK(to_int(2.9) == 2);
    CHECK(to_int(-1e300) == std::numeric_limits<int>::min());
    CHECK(to_int(std::numeric_limits<double>::infinity()) == std::numeric_limits<int>::max());
    CHECK(to_int(std::numeric_limits<double>::quiet_NaN()) == 0);
    for (const char* name : {"fp16", "float16", "half", "torch.float16"}) CHECK(dtype_letter(name) == 'H');
    for (const char* name : {"", "auto", "float64", "torch.", "FP16"}) CHECK(dtype_letter(name) == 0);
}

TEST_CASE("a quoted boolean is true, unless the framework parses it", "[import]") {
    const Import old("half: \"false\"", "1.0"), recent("half: \"false\"", "2.0"), empty("half: ''", "1.0");
    CHECK(old.context.flag("half"));
    CHECK_FALSE(recent.context.flag("half"));
    CHECK_FALSE(empty.context.flag("half"));
    CHECK(checked("half: \"false\"", "1.0") == Lines{"W t.yaml:1:1 toy/quoted-boolean half"});
    CHECK(checked("half: \"false\"", "2.0").empty());
    CHECK(checked("half: no", "1.0").empty());
    CHECK_FALSE(Import("half: auto").context.maybe_flag("half").has_value());
}

TEST_CASE("keys that are unknown, of another version or without effect are findings", "[import]") {
    constexpr const char* no_advice = "check its name: it is not part of the result";
    CHECK(checked("fp16: {windo: 1}") == Lines{"U t.yaml:1:8 toy/unknown-key fp16.windo"});
    const Finding refused = only_finding("fp16: {windo: 1}");
    CHECK(refused.framework_refuses);
    CHECK(severity(refused) == FindingSeverity::error);
    CHECK(refused.instead == "did you mean `fp16.window`?");
    const Finding ignored = only_finding("# a line\nmoed: fast");
    CHECK(severity(ignored) == FindingSeverity::warning);
    CHECK(ignored.instead == "did you mean `mode`?");
    CHECK(to_string(ignored.place) == "t.yaml:2:1");
    CHECK(only_finding("window: 3").instead == "use `fp16.window`");
    CHECK(only_finding("zzzzzz: 3").instead == no_advice);
    CHECK(only_finding("date_type: 3").instead == no_advice);  // four edits from `dtype`: too many for a suggestion
    CHECK(only_finding("fp16: {nable: 3}").instead == "did you mean `fp16.enabled`?");
    CHECK(only_finding("colour: 3").instead == no_advice);  // `colour` is a key only below an entry of `parts`
    CHECK(checked("old: x\nlate: x", "1.9") == Lines{"U t.yaml:2:1 toy/key-of-other-version late"});
    CHECK(checked("old: x\nlate: x", "2.0") == Lines{"U t.yaml:1:1 toy/key-of-other-version old"});
    CHECK(checked("steps: 3\nlog_dir: x\nparts: {a: {size: 1, colour: red}}") ==
          Lines{"I t.yaml:1:1 toy/inert-key steps", "I t.yaml:2:1 toy/inert-key log_dir",
                "I t.yaml:3:22 toy/inert-key parts.a.colour"});
    CHECK(checked("free: {anything: {goes: 1}}").empty());
    CHECK(checked("parts: {a: {sise: 1}}") == Lines{"U t.yaml:1:13 toy/unknown-key parts.a.sise"});
    // A key that contains a dot is not a path.
    CHECK(checked("fp16.enabled.x: 1") == Lines{"U t.yaml:1:1 toy/unknown-key fp16.enabled.x"});
}

TEST_CASE("values of a wrong type, unknown choices and dtypes, and numbers that are written as text are findings",
          "[import]") {
    struct Case {
        const char *yaml, *finding;
    };
    const auto [yaml, finding] = GENERATE(table<const char*, const char*>({
        {"fp16: true", "E t.yaml:1:1 toy/wrong-type fp16"},
        {"fp16: {window: x}", "E t.yaml:1:8 toy/wrong-type fp16.window"},
        {"fp16: {window: 1.5}", "E t.yaml:1:8 toy/wrong-type fp16.window"},
        {"fp16: {window: true}", "E t.yaml:1:8 toy/wrong-type fp16.window"},
        {"fp16: {lr: 1e-5}", "C t.yaml:1:8 toy/text-number fp16.lr"},
        {"fp16: {lr: '3'}", "C t.yaml:1:8 toy/text-number fp16.lr"},
        {"half: 2", "E t.yaml:1:1 toy/wrong-type half"},
        {"half: perhaps", "E t.yaml:1:1 toy/wrong-type half"},
        {"mode: quick", "E t.yaml:1:1 toy/no-such-choice mode"},
        {"mode: no", "E t.yaml:1:1 toy/wrong-type mode"},
        {"dtype: float8", "E t.yaml:1:1 toy/no-such-dtype dtype"},
        {"dtype: 16", "E t.yaml:1:1 toy/wrong-type dtype"},
        {"names: x", "E t.yaml:1:1 toy/wrong-type names"},
        {"free: [x]", "E t.yaml:1:1 toy/wrong-type free"},
        {"old: {a: 1}", "E t.yaml:1:1 toy/wrong-type old"},
    }));
    CAPTURE(yaml);
    CHECK(checked(yaml, "1.0") == Lines{finding});
    for (const char* good : {"fp16: {window: 1e3}", "half: 1", "half: off", "mode: slow", "mode: auto",
                             "dtype: torch.half", "names: [a]", "free: ~", "fp16: {lr: .inf, window: 1.0e+3}"}) {
        CAPTURE(good);
        const Lines found = checked(good, "1.0");
        CHECK((found.empty() || found == Lines{"C t.yaml:1:8 toy/text-number fp16.window"}));
    }
    CHECK(only_finding("fp16: {lr: 1e-5}").instead == "1.0e-05");
    CHECK(only_finding("mode: fats").instead == "fast");
}

TEST_CASE("a finding is placed at its key, or at the nearest map above it", "[import]") {
    Import import("fp16:\n  window: 3\nmode: fast\n");
    ImportContext& context = import.context;
    context.report(FindingCode::warning, "a", {"fp16.window", "mode"}, "message", "instead");
    context.report(FindingCode::warning, "b", {"fp16.lr"}, "message");
    context.report(FindingCode::warning, "c", {"nothing"}, "message");
    context.report(FindingCode::warning, "d", {}, "message");
    CHECK(lines_of(context.findings()) == Lines{"W t.yaml:2:3 toy/a fp16.window", "W t.yaml:1:1 toy/b fp16.lr",
                                                "W t.yaml:1:1 toy/c nothing", "W t.yaml:1:1 toy/d "});
    CHECK(context.findings()[0].keys == Lines{"fp16.window", "mode"});
}

TEST_CASE("each default that decided a field is reported once, with all fields that it decided", "[import]") {
    Import import("mode: fast", "2.0");
    ImportContext& context = import.context;
    context.set("compute", {std::string("H"), {}}, "fp16.enabled");
    context.set("store", {std::string("F"), {}}, "fp16.enabled");
    context.set("grad", {std::string("F"), {}}, "mode");
    context.set("accum", {std::string("F"), {}}, "fp16.window");
    context.infer("accum", {std::string("F"), {}}, "from grad");  // no longer a default
    context.report_defaults();
    REQUIRE(context.findings().size() == 1);
    CHECK(context.findings()[0].message == "`fp16.enabled` is not set: compute fp16, store fp32 (default of toy 2.0)");
    CHECK(context.resolved().find("grad")->from == "t.yaml:1:1 mode");
    CHECK(context.resolved().find("accum")->origin == Origin::inferred);
    // The assumed device and checkpoint format are reported, in one finding, if the import used them.
    context.device();
    context.checkpoint_dtype();
    context.findings().clear();
    context.report_assumed();
    REQUIRE(lines_of(context.findings()) == Lines{"D t.yaml:1:1 toy/assumed "});
    CHECK(context.findings()[0].message == "assumed, because no option says it: device a100, a checkpoint in fp32");
    CHECK(context.findings()[0].instead == "--gpu NAME, --checkpoint-dtype DTYPE");
    CHECK_THROWS_AS(context.set("no such field", {}, "mode"), Error);
}

TEST_CASE(
    "findings in a delegated section keep their places; if it is not a separate file, their paths begin with its key",
    "[import]") {
    static const KeyRow inner_rows[] = {{.path = "x", .type = flag, .defaults = {{"", "true"}}}};
    static const Framework inner{.name = "toy",
                                 .title = "Inner",
                                 .newest = "2.1",
                                 .oldest = "1.0",
                                 .keys = inner_rows,
                                 .resolve = [](ImportContext& context) {
                                     context.set("compute", {std::string("B"), {}}, "x");
                                 }};
    Import import("free:\n  x: 1\n  y: 2\n");
    import.context.delegate(inner, "free");
    CHECK(lines_of(import.context.findings()) == Lines{"U t.yaml:3:3 toy/unknown-key free.y"});
    CHECK(import.context.resolved().find("compute")->from == "t.yaml:2:3 free.x");
    // If an importer delegates the whole config, keys that the delegate does not know belong to the importer.
    Import shared("x: 1\nmode: fast\n");
    shared.context.delegate(inner, "");
    CHECK(shared.context.findings().empty());
    // If the delegated section comes from another file, the paths of its keys do not begin with the outer key.
    const Folder folder;
    Import outer("include: x\n");
    const std::string file = folder.write("inner.yaml", "z: 1\n");
    const auto read = outer.context.read_file("include", outer.context.place_of("include"), file);
    REQUIRE(read.has_value());
    outer.context.root().set("free", *read);
    outer.context.delegate(inner, "free");
    REQUIRE(outer.context.findings().size() == 1);
    CHECK(outer.context.findings()[0].key == "z");
    CHECK(outer.context.findings()[0].place.file == file);
}

TEST_CASE("files that are missing, invalid or include themselves are findings", "[import]") {
    const Folder folder;
    const std::string first = folder.write("a.yaml", "include: b.yaml\n"),
                      second = folder.write("b.yaml", "include: a.yaml\n");
    folder.write("broken.json", "{\"a\": oops}");
    ImportOptions options = options_of("2.1");
    ImportContext context(toy, read_config_file(first).root, options);
    const ConfigPlace at = context.place_of("include");
    const auto b = context.read_file("include", at, "b.yaml");  // relative to the file that names it
    REQUIRE(b.has_value());
    CHECK(b->place.file == second);
    CHECK_FALSE(context.read_file("include", b->entry("include")->place, "a.yaml").has_value());
    CHECK_FALSE(context.read_file("include", at, "a.yaml").has_value());
    CHECK_FALSE(context.read_file("include", at, "none.yaml").has_value());
    CHECK_FALSE(context.read_file("include", at, "broken.json").has_value());
    const Lines found = lines_of(context.findings());
    REQUIRE(found.size() == 4);
    CHECK(found[0] == "E " + second + ":1:1 toy/circle-of-files include");
    CHECK(found[1] == "E " + first + ":1:1 toy/circle-of-files include");
    CHECK(found[2] == "E " + first + ":1:1 toy/missing-file include");
    CHECK(found[3] == "E " + first + ":1:1 toy/unreadable-file include");
    CHECK(context.findings()[3].message.find("broken.json:1:7: ") != std::string::npos);
}

TEST_CASE("files that are not configs are refused, and so are options with unknown values", "[import]") {
    const Folder folder;
    const auto exit_of = [&](const std::vector<std::string>& files, const ImportOptions& options = {}) {
        try {
            import_files(files, options);
        } catch (const Error& error) {
            CAPTURE(error.what());
            return error.exit();
        }
        return Exit::ok;
    };
    const std::string good =
        folder.write("good.json", R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 2}})");
    CHECK(exit_of({good}) == Exit::ok);
    CHECK(exit_of({folder.write("list.json", "[1]")}) == Exit::bad_input);
    CHECK(exit_of({folder.write("null.yaml", "# nothing\n")}) == Exit::bad_input);
    CHECK(exit_of({folder.write("other.yaml", "shopping: [milk]\n")}) == Exit::bad_input);
    CHECK(exit_of({folder.path()}) == Exit::bad_input);
    CHECK(exit_of({}) == Exit::usage);
    ImportOptions options;
    options.framework = "deepsped";
    CHECK(exit_of({good}, options) == Exit::usage);
    options = {};
    options.device = "a1000";
    CHECK(exit_of({good}, options) == Exit::usage);
    options = {};
    options.checkpoint_dtype = "fp64";
    CHECK(exit_of({good}, options) == Exit::usage);
    options = {};
    options.versions["nobody"] = parse_version("1");
    CHECK(exit_of({good}, options) == Exit::usage);
    // An override (key=value) without a config file is enough if the framework is given.
    options = {};
    options.framework = "nanogpt";
    CHECK(exit_of({"dtype=float16"}, options) == Exit::ok);
}

TEST_CASE("errors come first, comments suppress findings, and repeated keys are reported", "[import]") {
    const Folder folder;
    const std::string file = folder.write("ds.yaml",
                                          "steps_per_print: 10\n"
                                          "fp16: {enabled: true, windo: 3}\n"
                                          "fp16: {enabled: true, loss_scale: -1, windo: 3}\n"
                                          "zero_optimization: {stage: 2}\n");
    ImportOptions options;
    options.framework = "deepspeed";
    const ImportResult all = import_files({file}, options);
    CHECK(all.refused());
    REQUIRE_FALSE(all.findings.empty());
    CHECK(std::is_sorted(all.findings.begin(), all.findings.end(),
                         [](const Finding& a, const Finding& b) { return severity(a) < severity(b); }));
    const auto has = [](const ImportResult& result, std::string_view rule) {
        return std::any_of(result.findings.begin(), result.findings.end(),
                           [&](const Finding& one) { return one.rule == rule; });
    };
    CHECK(has(all, "deepspeed/repeated-key"));
    CHECK(has(all, "deepspeed/unknown-key"));
    for (const Finding& one : all.findings) {
        CAPTURE(one.rule);
        CHECK_FALSE(one.message.empty());
        CHECK(one.rule.find('/') != std::string::npos);
        CHECK(one.place.file == file);
    }
    const std::string quiet = folder.write("quiet.yaml",
                                           "fp16: {enabled: true, windo: 3}  # macheps: ignore deepspeed/unknown-key\n"
                                           "zero_optimization: {stage: 2}  # macheps: ignore deepspeed/no-such-rule\n");
    const ImportResult silenced = import_files({quiet}, options);
    CHECK_FALSE(has(silenced, "deepspeed/unknown-key"));
    CHECK(has(silenced, "deepspeed/unused-ignore"));
    CHECK_FALSE(silenced.refused());
}

TEST_CASE("several files form one config, and later files override earlier files", "[import]") {
    const Folder folder;
    const std::string base =
        folder.write("base.json", R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})");
    const std::string over = folder.write("over.yaml", "bf16: {enabled: false}\nfp16: {enabled: true}\n");
    CHECK(import_files({base}).resolved.word("compute") == "B");
    CHECK(import_files({base, over}).resolved.word("compute") == "H");
    const ImportResult third = import_files({base, over, "fp16.enabled=false"});
    CHECK(third.resolved.word("compute") == "F");
    CHECK(import_files({base, over}).resolved.find("compute")->from.find("over.yaml:2:8 fp16.enabled") !=
          std::string::npos);
}

TEST_CASE("every combination of fields gives a policy that loads and resolves", "[import]") {
    const SiteList gpt2 = model_sites(named_size("tiny").model);
    for (const char* store : {"F", "H", "B", "nf4"}) {
        for (const char* compute : {"F", "T", "H", "B", "te_delayed", "ao_tensorwise"}) {
            for (const char* oplist : {"none", "torch-cuda", "torch-cpu", "apex-o1", "ds-safe-modules"}) {
                for (const char* master : {"none", "F", "B"}) {
                    CAPTURE(store, compute, oplist, master);
                    Import import("mode: fast");
                    const auto set = [&](std::string_view field, const char* word) {
                        import.context.infer(field, {std::string(word), {}}, "test");
                    };
                    set("store", store);
                    set("compute", compute);
                    set("oplist", oplist);
                    set("master", master);
                    set("grad", store);
                    set("opt_state", *master == 'n' ? store : master);
                    set("logits", "F");
                    set("buffers", "F");
                    set("norm", "F");
                    set("opt_kernel", "single");
                    const std::string text = policy_text(import.context);
                    CAPTURE(text);
                    const ResolvedPolicy policy = resolve(parse_policy(text, "imported.toml"), gpt2);
                    CHECK(policy.name == "imported-toy");
                    const char* weight = "block.0.mlp.up.weight";
                    const bool has_copy =
                        (*master != 'n' && *store != 'F' && *store != 'n') ||
                        (*store == 'F' && std::string(oplist) == "none" && (*compute == 'H' || *compute == 'B'));
                    CHECK(policy.has_master(weight) == has_copy);
                }
            }
        }
    }
}

TEST_CASE("if fp32 shards have low-precision copies, the policy has master weights and rounded copies", "[import]") {
    for (const char* oplist : {"none", "torch-cuda"}) {
        for (const char* compute : {"B", "ao_tensorwise"}) {
            CAPTURE(oplist, compute);
            Import import("mode: fast");
            const auto set = [&](std::string_view field, const char* word) {
                import.context.infer(field, {std::string(word), {}}, "test");
            };
            set("store", "F");
            set("compute", compute);
            set("oplist", oplist);
            set("embed", "B");
            set("norm", "B");
            set("grad", "F");
            set("opt_state", "F");
            const ResolvedPolicy policy =
                resolve(parse_policy(policy_text(import.context), "x.toml"), model_sites(named_size("tiny").model));
            for (const char* parameter : {"embed.token.weight", "block.0.norm1.weight", "block.1.mlp.up.weight"}) {
                CHECK(policy.has_master(parameter));
                CHECK(to_string(policy.cast(std::string(parameter) + ":value")) == "bf16");
                CHECK(to_string(policy.cast(std::string(parameter) + ":master")) == "fp32");
                CHECK(to_string(policy.cast(std::string(parameter) + ":moment2")) == "fp32");
            }
        }
    }
}

TEST_CASE("a scaler's parameters reach the policy, and a parameter that it cannot express becomes a note", "[import]") {
    Import import("mode: fast");
    import.context.infer("store", {std::string("F"), {}}, "test");
    import.context.infer("compute", {std::string("H"), {}}, "test");
    import.context.infer("oplist", {std::string("torch-cuda"), {}}, "test");
    import.context.infer("scaler",
                         {std::string("torch"),
                          { {"init_scale", 1024.0},
                            {"growth_factor", 3.0},
                            {"backoff_factor", 0.25},
                            {"growth_interval", 7.0},
                            { "odd",
                              3.0 } }},
                         "test");
    const Policy policy = parse_policy(policy_text(import.context), "imported.toml");
    CHECK(policy.loss_scaler.kind == find_scaler("torch"));
    CHECK(policy.loss_scaler.at("init_scale") == 1024);
    CHECK(policy.loss_scaler.at("growth_factor") == 3);
    CHECK(policy.loss_scaler.at("backoff_factor") == 0.25);
    CHECK(policy.loss_scaler.at("growth_interval") == 7);
    CHECK(policy.chain == Lines{"amp-fp16"});
    CHECK(lines_of(import.context.findings()) == Lines{"N t.yaml:1:1 toy/not-emulated "});
    // An unknown kind of scaler is replaced by torch's, and the import reports this.
    import.context.infer("scaler", {std::string("no-such-kind"), { { "init_scale", 0.0 } }}, "test");
    CHECK(parse_policy(policy_text(import.context), "imported.toml").loss_scaler.kind == find_scaler("torch"));
    CHECK(import.context.findings().size() == 3);
}

TEST_CASE("device profiles contain the native formats and what torch reports about bf16", "[import]") {
    CHECK(device_profiles().size() == 14);
    for (const DeviceProfile& device : device_profiles()) {
        CAPTURE(device.name);
        CHECK(find_device_profile(device.name) == &device);
        CHECK(device.fp8 == !device.fp8_formats.empty());
        CHECK(device.is_cuda_like() == (device.capability() > 0));
        CHECK(device.torch_says_bf16);
    }
    CHECK_FALSE(find_device_profile("v100")->bf16);
    CHECK_FALSE(find_device_profile("t4")->bf16);
    CHECK(find_device_profile("t4")->capability() == 75);
    CHECK(find_device_profile("a100")->tf32);
    CHECK_FALSE(find_device_profile("a100")->fp8);
    CHECK(find_device_profile("l40")->capability() == 89);
    CHECK(find_device_profile("b200")->capability() == 100);
    CHECK(find_device_profile("mi300x")->fp8_formats == "e4m3fnuz e5m2fnuz");
    CHECK(find_device_profile("npu")->fp16);
    CHECK_FALSE(find_device_profile("tpu")->fp16);
    CHECK(find_device_profile("h200") == find_device_profile("h100"));
    CHECK(find_device_profile("rtx4090") == find_device_profile("l40"));
    CHECK(find_device_profile("3090")->capability() == 86);
    CHECK_FALSE(find_device_profile("3090")->fp8);
    CHECK_FALSE(find_device_profile("p100")->bf16);
    CHECK(find_device_profile("mi100")->kind == DeviceProfile::Kind::rocm);
    for (const std::string_view name : device_names()) CHECK(find_device_profile(name) != nullptr);
    // No profile has their formats or their compute capability.
    for (const char* name : {"mps", "xpu", "hpu", "rtx5090", "b300"}) CHECK(find_device_profile(name) == nullptr);
}

}  // namespace import_test
