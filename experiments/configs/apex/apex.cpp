// SPDX-License-Identifier: Apache-2.0
// Importer of NVIDIA Apex. It reads the arguments of amp.initialize from the root of the file or from a section `apex`.
// Sources: apex/amp/frontend.py, scaler.py, _initialize.py at commit e13873de, the last one that contains apex.amp.
#include "experiments/configs/apex/apex.hpp"
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/frameworks.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::configs::apex {

const StorageRecipe& recipe(std::string_view level) {
    if (level == "O0") return storage::fp32;
    if (level == "O2") return storage::apex_o2;
    if (level == "O3") return storage::apex_o3;
    return storage::apex_o1;
}

FieldValue dynamic_scaler(double floor, double ceiling) {
    return {.value = std::string("apex"),
            .parts = {{"init_scale", std::min(0x1p16, ceiling)},
                      {"growth_interval", 2000.0},
                      {"min_scale", floor},
                      {"max_scale", ceiling}}};
}

namespace {

using enum KeyType;

constexpr double usual_ceiling = 0x1p24;

const KeyRow rows[] = {
    {.path = "apex", .type = map, .summary = "a section with the keys below; prepare() moves them to the root"},
    {.path = "opt_level",
     .type = choice,
     .defaults = {{"", "O1"}},
     .choices = "O0 O1 O2 O3",
     .sets = "compute store master oplist scaler"},
    {.path = "loss_scale",
     .type = any,
     .sets = "scaler",
     .summary = "`dynamic` or a number; the default depends on opt_level"},
    {.path = "keep_batchnorm_fp32", .type = flag, .summary = "O2 and O3: BatchNorm stays fp32; no other norm does"},
    {.path = "cast_model_type", .type = dtype, .sets = "store compute"},
    {.path = "cast_model_outputs", .type = dtype, .sets = "logits"},
    {.path = "master_weights", .type = flag, .sets = "master"},
    {.path = "patch_torch_functions", .type = flag, .sets = "oplist"},
    {.path = "min_loss_scale", .type = number, .sets = "scaler", .summary = "minimum of the scale; 0: no minimum"},
    {.path = "max_loss_scale", .type = number, .defaults = {{"", "16777216"}}, .sets = "scaler"},
    {.path = "num_losses",
     .type = count,
     .defaults = {{"", "1"}},
     .sets = "scaler",
     .summary = "a scaler for each loss"},
    {.path = "enabled", .type = flag, .defaults = {{"", "true"}}},
    {.path = "verbosity", .type = count, .effect = KeyEffect::inert},
};

struct Facts {
    std::string level;
    bool is_dynamic = false;
    std::optional<double> static_scale;
};

Facts facts_of(const ImportContext& context) {
    Facts facts{.level = context.text("opt_level"), .static_scale = {}};
    const files::ConfigValue* scale = context.value("loss_scale");
    if (scale == nullptr || scale->is_null()) {
        // The default depends on the level: O1 and O2 scale the loss dynamically, O0 and O3 do not scale it.
        facts.is_dynamic = facts.level == "O1" || facts.level == "O2";
        if (!facts.is_dynamic) facts.static_scale = 1;
    } else if (scale->written == "dynamic") {
        facts.is_dynamic = true;
    } else {
        facts.static_scale = files::written_number(*scale);
    }
    return facts;
}

using Found = std::optional<FindingText>;
using enum FindingCode;

/// Reports a key that amp.initialize refuses at level O1.
Found not_with_o1(const ImportContext& context, const Facts& facts, std::string_view key) {
    if (facts.level != "O1" || !context.has(key) || (key == "cast_model_type" && context.text(key) == "false"))
        return {};
    return FindingText{
        fmt::format("O1 leaves the model in fp32 and patches functions, so amp.initialize refuses `{}`", key),
        "opt_level O2 or O3, or remove the key"};
}
Found o1_batchnorm(const ImportContext& c, const Facts& f) { return not_with_o1(c, f, "keep_batchnorm_fp32"); }
Found o1_cast(const ImportContext& c, const Facts& f) { return not_with_o1(c, f, "cast_model_type"); }
Found o1_master(const ImportContext& c, const Facts& f) { return not_with_o1(c, f, "master_weights"); }

Found patches_elsewhere(const ImportContext& context, const Facts& facts) {
    if (facts.level == "O1" || !context.flag("patch_torch_functions")) return {};
    return FindingText{"only O1 patches functions: amp.initialize refuses this key here", "opt_level: O1"};
}

Found bad_scale(const ImportContext& context, const Facts& facts) {
    if (facts.is_dynamic || facts.static_scale) return {};
    return FindingText{fmt::format("`loss_scale` is '{}', which float() cannot convert", context.text("loss_scale")),
                       "dynamic, or a number"};
}

Found norms_in_half(const ImportContext&, const Facts& facts) {
    if (facts.level != "O2") return {};
    return FindingText{
        "keep_batchnorm_fp32 keeps only BatchNorm in fp32: LayerNorm and RMSNorm are cast to fp16 with the model", {}};
}

Found batchnorm_kept(const ImportContext& context, const Facts& facts) {
    if ((facts.level != "O2" && facts.level != "O3") || !context.has("keep_batchnorm_fp32")) return {};
    return FindingText{context.flag("keep_batchnorm_fp32")
                           ? "BatchNorm stays in fp32; the field `norm` describes LayerNorm and RMSNorm, which are cast"
                           : "BatchNorm is cast with the model, as all other layers are",
                       {}};
}

Found unguarded(const ImportContext&, const Facts& facts) {
    if (!facts.static_scale || facts.level == "O0") return {};
    return FindingText{
        "with a static scale gradients are not checked: a step with Inf or NaN gradients is taken, and they reach the "
        "weights",
        "loss_scale: dynamic"};
}

Found low_weights(const ImportContext& context, const Facts& facts) {
    if (facts.level != "O3" || context.flag("master_weights")) return {};
    return FindingText{"O3 has no fp32 masters: updates below half a unit in the last place of an fp16 weight are lost",
                       "opt_level: O2"};
}

Found removed(const ImportContext&, const Facts&) {
    return FindingText{"apex.amp was removed from Apex in May 2025; macheps describes the last revision that has it",
                       "torch.amp.autocast with torch.amp.GradScaler"};
}

const FindingRow<Facts> finding_rows[] = {
    {"batchnorm-with-o1", error, {"keep_batchnorm_fp32", "opt_level"}, o1_batchnorm},
    {"cast-with-o1", error, {"cast_model_type", "opt_level"}, o1_cast},
    {"masters-with-o1", error, {"master_weights", "opt_level"}, o1_master},
    {"patches-without-o1", error, {"patch_torch_functions", "opt_level"}, patches_elsewhere},
    {"bad-loss-scale", error, {"loss_scale"}, bad_scale},
    {"norms-in-half", warning, {"opt_level"}, norms_in_half},
    {"static-scale-unguarded", warning, {"loss_scale", "opt_level"}, unguarded},
    {"no-masters", warning, {"opt_level"}, low_weights},
    {"batchnorm-kept", note, {"keep_batchnorm_fp32", "opt_level"}, batchnorm_kept},
    {"removed", note, {"opt_level"}, removed},
};

void resolve(ImportContext& context) {
    const Facts facts = facts_of(context);
    report_rows<Facts>(context, facts, finding_rows);
    if (!context.flag("enabled")) {
        set_storage(context, storage::fp32, 'F', "enabled");
        context.set("scaler", no_scaler_field(), "enabled");
        return;
    }
    set_storage(context, apex::recipe(facts.level), 'H', "opt_level");
    if (const char cast = context.dtype("cast_model_type"); cast != 0 && facts.level != "O1") {
        for (const std::string_view field :
             {"store", "compute", "grad", "reduce", "norm", "embed", "lm_head", "buffers", "eval"})
            context.set(field, letter(cast), "cast_model_type");
    }
    if (context.has("master_weights") && facts.level != "O1")
        context.set("master", letter(context.flag("master_weights") ? 'F' : '-'), "master_weights");
    // O2 and O3 cast the outputs of the model back to fp32.
    if (facts.level == "O2" || facts.level == "O3")
        context.infer("logits", letter('F'), "from opt_level: outputs are cast to fp32");
    const bool has_scale_key = context.has("loss_scale");
    FieldValue scaler = no_scaler_field();
    if (facts.is_dynamic) {
        scaler = apex::dynamic_scaler(context.number("min_loss_scale").value_or(0),
                                      context.number("max_loss_scale").value_or(usual_ceiling));
    } else if (facts.static_scale && *facts.static_scale != 1) {
        scaler = static_scaler_field(*facts.static_scale, false);
    }
    context.set("scaler", std::move(scaler), has_scale_key ? "loss_scale" : "opt_level");
    context.infer("clip", word_field("none"), "Apex does not clip; the program may");
    context.infer("fp8", word_field("none"), "Apex has no fp8");
}

/// If the file has a section `apex`, uses this section as the whole config.
void prepare(ImportContext& context) {
    if (const files::ConfigValue* section = context.value("apex"); section != nullptr && section->is_map()) {
        files::ConfigValue inner = *section;
        context.root() = std::move(inner);
    }
}

int recognises(const files::ConfigValue& root) {
    if (root.entry("apex") != nullptr && root.entries.size() == 1) return 90;
    if (root.entry("opt_level") == nullptr) return 0;
    for (const files::ConfigValue::Entry& entry : root.entries) {
        const auto is_it = [&](const KeyRow& row) { return row.path == entry.key; };
        if (std::none_of(std::begin(rows), std::end(rows), is_it)) return 20;
    }
    return 80;
}

}  // namespace

extern const Framework framework{.name = "apex",
                                 .title = "Apex",
                                 .newest = "0.1",
                                 .oldest = "0.1",
                                 .keys = rows,
                                 .marks = "opt_level apex.opt_level",
                                 .recognises = recognises,
                                 .refuses_unknown = [](const ImportContext&, std::string_view) { return true; },
                                 .prepare = prepare,
                                 .resolve = resolve};

}  // namespace macheps::configs::apex
