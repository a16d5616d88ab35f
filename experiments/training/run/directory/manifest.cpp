// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/directory/manifest.hpp"

#include "core/error.hpp"
#include "core/field_error.hpp"
#include "core/host/version.hpp"
#include "core/text/json.hpp"
#include "experiments/files/file_bytes.hpp"
#include "reports/logs/manifest_text.hpp"
#include "reports/logs/run_log.hpp"
#include "reports/rows/checksum.hpp"
#include "reports/rows/csv.hpp"
#include "reports/rows/event.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace macheps::training {

namespace {

namespace fs = std::filesystem;

constexpr const char* recipe_parts[] = {"schema", "model", "data", "train", "seeds", "policies"};
/// Members of the manifest's `data` that are not part of the recipe. They say where a file is, which does not change
/// its contents.
constexpr const char* places[] = {"file", "found_at"};

/// Calls field(name, value) for each option. Writing and reading share this list, so neither can omit an option.
template <class Options, class Visitor>
void visit(Options& o, Visitor&& field) {
    field("steps", o.steps);
    field("batch", o.batch);
    field("micro_batches", o.micro_batches);
    field("optimizer", o.optimizer);
    field("lr", o.lr);
    field("min_lr", o.min_lr);
    field("warmup", o.warmup);
    field("beta1", o.beta1);
    field("beta2", o.beta2);
    field("eps", o.eps);
    field("weight_decay", o.weight_decay);
    field("momentum", o.momentum);
    field("clip", o.clip);
    field("token_weight", o.token_weight);
    field("eval_every", o.eval_every);
    field("eval_batches", o.eval_batches);
    field("probe_every", o.probe_every);
    field("histogram_every", o.histogram_every);
}

/// Calls field(name, value) for the options that manifests of earlier versions do not contain. A manifest contains them
/// only if they differ from their defaults, so that the recipes of older manifests do not change.
template <class Options, class Visitor>
void visit_later(Options& o, Visitor&& field) {
    field("ranks", o.ranks);
    field("recompute", o.recompute);
}

template <class Model, class Visitor>
void visit_model(Model& m, Visitor&& field) {
    field("kind", m.kind);
    field("layers", m.layers);
    field("width", m.width);
    field("heads", m.heads);
    field("context", m.context);
    field("kv_heads", m.kv_heads);
    field("hidden", m.hidden);
    field("vocabulary", m.vocabulary);
    field("tied", m.tied);
    field("gelu", m.activation);
    field("rope_theta", m.rope_theta);
}

Json to_json(std::int64_t value) { return value; }
Json to_json(double value) { return value; }
Json to_json(bool value) { return value; }
Json to_json(policy::OptimizerKind kind) { return std::string(to_string(kind)); }
Json to_json(ModelKind kind) { return std::string(to_string(kind)); }
Json to_json(const elementwise::Unary& activation) { return std::string(to_string(activation)); }

template <class Enum>
void read_name(const Json& json, Enum& value, std::initializer_list<Enum> all) {
    for (const Enum one : all) {
        if (to_json(one) == json) {
            value = one;
            return;
        }
    }
    throw Error({.what = fmt::format("the value {} is unknown", json.dump())});
}
void from_json(const Json& json, policy::OptimizerKind& kind) {
    read_name(json, kind, {policy::OptimizerKind::adamw, policy::OptimizerKind::sgd, policy::OptimizerKind::adam});
}
void from_json(const Json& json, ModelKind& kind) { read_name(json, kind, {ModelKind::gpt2, ModelKind::llama}); }
void from_json(const Json& json, elementwise::Unary& activation) {
    activation = parse_activation(json.get<std::string>());
}
template <class Number>
void from_json(const Json& json, Number& value) {
    json.get_to(value);
}

Json config_json(const policy::PolicyConfig& config) {
    Json files = Json::array();
    for (const auto& [name, text] : config.files) files.push_back({{"name", name}, {"text", text}});
    Json json{
        {"framework", config.framework}, {"version", config.version}, {"device", config.device}, {"files", files}};
    if (!config.not_emulated.empty()) json["not_emulated"] = config.not_emulated;
    return json;
}

/// Returns the reason why each linear layer in `left_out` was left out, in the order of that list.
Json left_out_why(const policy::ResolvedPolicy& resolved) {
    Json reasons = Json::array();
    for (const policy::ResolvedPolicy::LeftOut& one : resolved.left_out) reasons.push_back(one.why);
    return reasons;
}

Json policy_json(const policy::Policy& policy, const policy::ResolvedPolicy& resolved) {
    Json rows = Json::array();
    for (const policy::ResolvedPolicy::Row& row : resolved.table()) {
        // A separate fp32 sum of micro-batches rounds nothing, but readers cannot know of it from the other rows.
        const bool is_sum = row.slot == "accum" && row.cast != "-";
        if (!row.is_default || is_sum) rows.push_back({row.site + ":" + row.slot, row.cast, row.machine});
    }
    Json extends = Json::array();
    for (std::size_t i = 1; i < policy.sources.size(); ++i) {
        const policy::PolicySource& base = policy.sources[i];
        extends.push_back({{"source", base.name}, {"is_file", base.is_file}, {"toml", base.text}});
    }
    Json json{{"description", resolved.description},
              {"source", policy.sources.empty() ? policy.name : policy.sources.front().name},
              {"is_file", policy.sources.empty() || policy.sources.front().is_file},
              {"toml", policy.text},
              {"extends", extends},
              {"left_out", resolved.left_out_sites()},
              {"resolved", rows}};
    // If no layer was left out, the list of reasons is omitted. Manifests of earlier versions do not contain this list
    // at all.
    if (Json why = left_out_why(resolved); !why.empty()) json["left_out_why"] = std::move(why);
    if (!policy.config.files.empty()) json["config"] = config_json(policy.config);
    return json;
}

/// Returns the framework config from which a policy was imported, or an empty config if the policy was not imported.
policy::PolicyConfig config_of(const Json& policy) {
    policy::PolicyConfig config;
    if (!policy.contains("config")) return config;
    const Json& json = policy.at("config");
    json.at("framework").get_to(config.framework);
    json.at("version").get_to(config.version);
    json.at("device").get_to(config.device);
    for (const Json& file : json.at("files"))
        config.files.emplace_back(file.at("name").get<std::string>(), file.at("text").get<std::string>());
    if (json.contains("not_emulated")) json.at("not_emulated").get_to(config.not_emulated);
    return config;
}

/// Returns the machines that the matmuls of each policy use, and the reasons why some of these machines are unverified.
/// This is not part of the recipe, because it follows from the recipe.
Json machines_json(const std::vector<policy::ResolvedPolicy>& resolved) {
    Json json = Json::object();
    for (const policy::ResolvedPolicy& policy : resolved) {
        Json matmuls = Json::object();
        for (const auto& [machine, count] : policy.machines()) matmuls[machine] = count;
        json[policy.name] = {{"matmuls", matmuls}, {"unverified", policy.unverified()}};
    }
    return json;
}

/// Returns the training settings, other than formats, in which each policy differs from fp32. If a policy has such
/// settings, its gap to fp32 is not due to precision alone. This is not part of the recipe, because it follows from the
/// recipe.
Json differences_json(const TrainOptions& options, const std::vector<policy::ResolvedPolicy>& resolved) {
    const auto baseline = std::find_if(resolved.begin(), resolved.end(), [](const policy::ResolvedPolicy& policy) {
        return policy.name == reports::baseline_policy;
    });
    Json json = Json::object();
    if (baseline == resolved.end()) return json;
    const auto settings = [&](const policy::ResolvedPolicy& policy) {
        std::vector<std::pair<std::string, Json>> values;
        const TrainOptions own = options_under(policy.training, options);
        visit(own, [&](const std::string& name, const auto& value) {
            if (name != "batch" && name != "min_lr")
                values.emplace_back(name, to_json(value));  // the two others follow from other settings
        });
        return values;
    };
    const auto usual = settings(*baseline);
    for (const policy::ResolvedPolicy& policy : resolved) {
        const auto own = settings(policy);
        std::string words;
        for (std::size_t i = 0; i < own.size(); ++i) {
            if (own[i].second == usual[i].second) continue;
            words += fmt::format("{}{} {} (fp32: {})", words.empty() ? "" : ", ", own[i].first, own[i].second.dump(),
                                 usual[i].second.dump());
        }
        if (!words.empty()) json[policy.name] = words;
    }
    return json;
}

/// Returns the number of micro-batches in a step for each policy that overrides `options.micro_batches`. This is not
/// part of the recipe, because it follows from the recipe.
Json micro_batches_json(const TrainOptions& options, const std::vector<policy::ResolvedPolicy>& resolved) {
    Json json = Json::object();
    for (const policy::ResolvedPolicy& policy : resolved) {
        const std::int64_t own = options_under(policy.training, options).micro_batches;
        if (own != options.micro_batches) json[policy.name] = own;
    }
    return json;
}

std::vector<policy::PolicySource> sources_of(const Json& policy) {
    const auto read = [](const Json& json) {
        return policy::PolicySource{json.at("source").get<std::string>(), json.at("is_file").get<bool>(),
                                    json.at("toml").get<std::string>()};
    };
    std::vector<policy::PolicySource> sources{read(policy)};
    for (const Json& base : policy.at("extends")) sources.push_back(read(base));
    return sources;
}

/// Returns `words` as JSON. Bytes that are not valid UTF-8 become U+FFFD. The original bytes are not needed, because
/// the recorded command is only displayed.
Json as_utf8(const std::vector<std::string>& words) {
    return Json::parse(Json(words).dump(-1, Json::BadUtf8::is_replaced));
}

/// Returns a data file's name, and the length and checksum of its contents.
Json file_json(const fs::path& file) {
    Json json{{"file", file.string()}};
    if (file.empty()) return json;
    const reports::csv::FileMark mark = mark_of(files::FileBytes(file));
    json["found_at"] = fs::absolute(file).lexically_normal().string();
    json["bytes"] = mark.bytes;
    json["xxh64"] = reports::to_hex(mark.checksum);
    return json;
}

/// Returns the path of the data file. This is the recorded name if such a file exists, or else the absolute path that
/// the file had when the manifest was written.
fs::path find_data(const Json& data) {
    const fs::path given = data.at("file").get<std::string>();
    if (given.empty() || fs::exists(given)) return given;
    const fs::path found_at = data.at("found_at").get<std::string>();
    return fs::exists(found_at) ? found_at : given;
}

Json recipe_of(const Json& manifest) {
    Json recipe;
    for (const char* part : recipe_parts) recipe[part] = manifest.contains(part) ? manifest.at(part) : Json();
    if (recipe["data"].is_object()) {
        for (const char* place : places) {
            recipe["data"].erase(place);
            if (recipe["data"].contains("held_out")) recipe["data"]["held_out"].erase(place);
        }
    }
    // The reasons why layers were left out are not part of the recipe, because a newer version may word them
    // differently.
    if (recipe["policies"].is_object()) {
        const Json policies = recipe["policies"];
        for (const auto& [name, policy] : policies.items())
            if (policy.is_object()) recipe["policies"][name].erase("left_out_why");
    }
    return recipe;
}

Error bad_manifest(const fs::path& path, std::string what) {
    return Error({.what = std::move(what),
                  .where = path.string(),
                  .fix = "use the version of macheps that wrote it, or train again in another directory"});
}

Experiment experiment_of(const Json& json) {
    Experiment experiment;
    const Json &model = json.at("model"), &train = json.at("train");
    visit_model(experiment.model, [&](const char* name, auto& value) { from_json(model.at(name), value); });
    visit(experiment.options, [&](const char* name, auto& value) { from_json(train.at(name), value); });
    visit_later(experiment.options, [&](const char* name, auto& value) {
        if (const Json* said = train.find(name)) from_json(*said, value);
    });
    json.at("seeds").get_to(experiment.seeds);
    json.at("command").get_to(experiment.command);
    json.at("save_every").get_to(experiment.save_every);
    const Json& data = json.at("data");
    experiment.data_file = find_data(data);
    if (data.contains("held_out")) experiment.held_out_file = find_data(data.at("held_out"));
    experiment.data_format = parse_data_format(data.at("format").get<std::string>());
    for (const auto& [name, policy] : json.at("policies").items()) {
        experiment.policies.push_back(policy::parse_policy(sources_of(policy)));
        experiment.policies.back().config = config_of(policy);
    }
    if (experiment.policies.empty() || experiment.seeds.empty()) throw Error({.what = "it has no policy or no seed"});
    return experiment;
}

}  // namespace

reports::csv::FileMark mark_of(const files::FileBytes& file) {
    reports::Checksum sum;
    std::vector<std::byte> block(std::min<std::size_t>(file.size(), 1 << 16));
    for (std::size_t at = 0; at < file.size(); at += block.size()) {
        const std::span<std::byte> part(block.data(), std::min(block.size(), file.size() - at));
        file.read(at, part);
        sum.update({reinterpret_cast<const char*>(part.data()), part.size()});
    }
    return {sum.bytes(), sum.value()};
}

std::string manifest_text(const Experiment& experiment, const std::vector<policy::ResolvedPolicy>& resolved,
                          const std::string& description, const std::string& device) {
    Json policies, model, train;
    for (std::size_t i = 0; i < resolved.size(); ++i) {
        policies[resolved[i].name] = policy_json(experiment.policies[i], resolved[i]);
    }
    visit_model(experiment.model, [&](const char* name, const auto& value) { model[name] = to_json(value); });
    model["parameters"] = parameter_count(experiment.model);
    visit(experiment.options, [&](const char* name, const auto& value) { train[name] = to_json(value); });
    Json usual;
    const TrainOptions always;
    visit_later(always, [&](const char* name, const auto& value) { usual[name] = to_json(value); });
    visit_later(experiment.options, [&](const char* name, const auto& value) {
        if (!(to_json(value) == usual[name])) train[name] = to_json(value);
    });
    Json data{{"what", description}, {"format", to_string(experiment.data_format)}};
    data.update(file_json(experiment.data_file));
    if (!experiment.held_out_file.empty()) data["held_out"] = file_json(experiment.held_out_file);
    Json manifest{{"schema", reports::schema_version},
                  {"command", as_utf8(experiment.command)},
                  {"created_by", std::string("macheps ") + version()},
                  {"git", git_revision()},
                  {"device", device},
                  {"model", model},
                  {"data", data},
                  {"train", train},
                  {"save_every", experiment.save_every},
                  {"seeds", experiment.seeds},
                  {"policies", policies},
                  {"machines", machines_json(resolved)}};
    if (Json differences = differences_json(experiment.options, resolved); !differences.empty())
        manifest["beside_precision"] = std::move(differences);
    if (Json parts = micro_batches_json(experiment.options, resolved); !parts.empty())
        manifest["micro_batches"] = std::move(parts);
    try {
        return manifest.dump(2) + '\n';
    } catch (const JsonError&) {  // the cause is a file name, the only text that may be invalid UTF-8
        throw Error({.what = "the name of a data file or policy is not valid UTF-8, so a manifest cannot contain it",
                     .where = "manifest.json",
                     .fix = "rename the file, or run in another folder"});
    }
}

std::string recipe_text(const std::string& text) { return recipe_of(Json::parse(text)).dump(); }

std::uint64_t recipe_checksum(const std::string& text) { return reports::checksum_of(recipe_text(text)); }

Manifest read_manifest(const fs::path& path) {
    Manifest manifest{.text = reports::read_manifest_text(path), .experiment = {}, .created_by = {}};
    const Json json = Json::parse_or_null(manifest.text);
    if (!json.is_object()) throw bad_manifest(path, "the file is not a JSON object");
    const Json* schema = json.find("schema");
    if (schema == nullptr || !schema->is_number_integer()) throw bad_manifest(path, "the manifest has no schema");
    if (schema->get<double>() > reports::schema_version) {
        throw Error({.what = fmt::format("the file has schema {}, but this program supports only schemas up to {}",
                                         schema->get<double>(), reports::schema_version),
                     .where = path.string(),
                     .fix = "use a newer version of macheps"});
    }
    try {
        manifest.experiment = experiment_of(json);
        manifest.created_by =
            fmt::format("{} ({})", json.at("created_by").get<std::string>(), json.at("git").get<std::string>());
    } catch (const JsonError& error) {
        throw bad_manifest(path, fmt::format("the run cannot be repeated: {}", error.what()));
    } catch (const FieldError& error) {
        throw bad_manifest(path, fmt::format("the run cannot be repeated: `{}`: {} ({})", error.field(),
                                             error.parts().what, error.parts().fix));
    } catch (const Error& error) {
        throw bad_manifest(path, fmt::format("the run cannot be repeated: {}", error.what()));
    }
    return manifest;
}

void check_same_recipe(const fs::path& path, const std::string& recorded, const std::string& now) {
    const Json then_recipe = recipe_of(Json::parse(recorded)), now_recipe = recipe_of(Json::parse(now));
    if (then_recipe["schema"] != now_recipe["schema"]) {
        throw Error(
            {.what = fmt::format("the run was started with rows of schema {}, but this version of macheps writes "
                                 "schema {}, in which some columns (`loss` of steps.csv) have another meaning",
                                 then_recipe["schema"].dump(), now_recipe["schema"].dump()),
             .where = path.string(),
             .fix = "continue with the version that its `created_by` names, or train again in another directory"});
    }
    const Json &then_data = then_recipe["data"], &now_data = now_recipe["data"];
    if (then_data != now_data) {
        throw Error({.what = fmt::format("the data changed after the run was started: it was {} and is now {}",
                                         then_data.dump(), now_data.dump()),
                     .where = Json::parse(now)["data"]["file"].get<std::string>(),
                     .fix = fmt::format("restore the file that {} describes, or train again in another directory",
                                        path.string())});
    }
    for (const char* part : recipe_parts) {
        if (then_recipe[part] == now_recipe[part]) continue;
        throw Error({.what = fmt::format("the section \"{}\" has another meaning in this version of macheps", part),
                     .where = path.string(),
                     .fix = "use the version that its `created_by` names, or train again in another directory"});
    }
}

void check_complete(const Experiment& experiment, const std::string& text) {
    const Experiment back = experiment_of(Json::parse(text));
    bool same = back.model == experiment.model && back.options == experiment.options &&
                back.seeds == experiment.seeds && back.policies.size() == experiment.policies.size();
    for (std::size_t i = 0; same && i < back.policies.size(); ++i) {
        same = back.policies[i].sources == experiment.policies[i].sources &&
               back.policies[i].config == experiment.policies[i].config;
    }
    if (!same) {
        throw std::logic_error("the manifest does not record every option of this run: leave out the newest option");
    }
}

}  // namespace macheps::training
