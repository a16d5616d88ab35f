// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/policy/memory.hpp"
#include "core/error.hpp"
#include "core/text/float_chars.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::cmd::policies {

using namespace policy;

namespace {

/// Adapters have about a hundredth of the parameters of the model that they adapt.
constexpr double usual_trainable = 0.01;

[[noreturn]] void refuse(const char* option, std::string what, std::string fix) {
    throw Error({.what = std::move(what), .where = option, .fix = std::move(fix), .exit = Exit::usage});
}

/// Unit in which all numbers of a table are printed, so that they can be compared.
struct Unit {
    std::string_view name;
    double bytes;
};
Unit unit_of(double largest) {
    static const Unit units[] = {{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}};
    for (const Unit& unit : units) {
        // 9999 GB is easier to read than 9.999 TB.
        if (largest >= (unit.bytes == 1e12 ? 10 : 1) * unit.bytes) return unit;
    }
    return {"bytes", 1};
}

std::string cell(double bytes, const Unit& unit) {
    if (bytes == 0) return "-";
    const double value = bytes / unit.bytes;
    if (unit.bytes == 1) return fmt::format("{:.0f}", value);
    return value >= 0.05 ? fmt::format("{:.1f}", value) : fmt::format("{:.2g}", value);
}

}  // namespace

double parameters_of(const std::string& text) {
    static constexpr std::pair<char, double> multiples[] = {{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'T', 1e12}};
    double value = 0, unit = 1;
    const char* const end = text.data() + text.size();
    const auto [rest, problem] = number_from_chars(text.data(), end, value);
    if (problem == std::errc() && rest + 1 == end) {
        for (const auto& [letter, multiple] : multiples) {
            if (std::toupper(static_cast<unsigned char>(*rest)) == letter) unit = multiple;
        }
    }
    const bool is_read = problem == std::errc() && (rest == end || unit > 1);
    const double count = value * unit;
    if (!is_read)
        refuse("--params", fmt::format("'{}' is not a valid number of parameters", text),
               "give a number such as 7.5e9, 7.5B or 350M");
    if (!(count >= 1) || !std::isfinite(count))
        refuse("--params", fmt::format("the number of parameters is {}", text),
               "give at least 1, such as 7.5e9 or 7.5B");
    return count;
}

struct MemoryChoice::Row {
    std::string name;
    std::string_view summary;
    ParameterBytes each;  ///< for one parameter
    double params = 0, shards = 1;
    std::optional<double> activations;

    double bytes(double each_takes) const { return params * each_takes; }
    double bytes(const Sharding& sharding) const { return params * sharding.bytes(each, shards); }
};

void MemoryChoice::add_options(Command& verb) {
    const Option params = verb.option("--params", params_,
                                      "Print the bytes of a model with this many parameters (7.5e9, 7.5B), "
                                      "next to the bytes that recipes of training systems need. "
                                      "Default: print the rows of sites");
    verb.integer("--shards", shards_, {1, training::max_size},
                 "Number of ranks that share the sharded state. Default: 1")
        .needs(params);
    verb.option("--trainable", trainable_, "Parameters of the adapters, as a fraction of --params. Default: 0.01")
        .needs(params);
    verb.integer("--width", width_, {1, training::max_size},
                 "Width of the model. With --layers, --heads and --context, also print the bytes of the activations. "
                 "Default: none")
        .needs(params);
    verb.integer("--heads", heads_, {1, training::max_size},
                 "Number of attention heads. Default: none (no activations)")
        .needs(params);
    verb.integer("--context", context_, {1, training::max_size},
                 "Number of tokens in a sample. Default: none (no activations)")
        .needs(params);
    verb.integer("--galore-rank", galore_rank_, {1, training::max_size},
                 "Add rows for GaLore of this rank, on matrices of --width by --width. Default: none")
        .needs(params);
    verb.integer("--vocabulary", vocabulary_, {1, training::max_size},
                 "Number of tokens in the vocabulary. Default: none (no logits)")
        .needs(params);
    verb.integer("--batch", batch_, {1, training::max_size},
                 "Number of samples in a micro-batch. Default: set by --size, or 1 with --params");
    verb.flag("--ckpt", has_checkpoints_,
              "Recompute the activations in the backward pass. Default: as the policy or config does")
        .needs(params);
    verb.flag("--flash", has_flash_, "Assume that attention stores no scores").needs(params);
}

std::optional<ActivationShape> MemoryChoice::shape(const ModelChoice& model) const {
    struct Size {
        const char* option;
        std::optional<std::int64_t> value;
        bool is_needed;
    };
    const Size sizes[] = {{"--layers", model.layers, true},
                          {"--width", width_, true},
                          {"--heads", heads_, true},
                          {"--context", context_, true},
                          {"--vocabulary", vocabulary_, false},
                          {"--batch", batch_, false}};
    bool is_asked = has_checkpoints_ || has_flash_;
    std::vector<std::string_view> missing;
    for (const Size& size : sizes) {
        if (size.value && *size.value < 1)
            refuse(size.option, fmt::format("{} is {}", size.option, *size.value), "give at least 1");
        is_asked = is_asked || size.value.has_value();
        if (size.is_needed && !size.value) missing.push_back(size.option);
    }
    if (!is_asked) return {};
    if (!missing.empty())
        refuse("activations", fmt::format("missing: {}", fmt::join(missing, ", ")),
               "give --layers, --width, --heads and --context together");
    if (*width_ % *heads_ != 0)
        refuse("--heads", fmt::format("the number of heads, {}, does not divide the width, {}", *heads_, *width_),
               "give a number of heads that divides the width");
    return ActivationShape{.layers = static_cast<double>(*model.layers),
                           .width = static_cast<double>(*width_),
                           .heads = static_cast<double>(*heads_),
                           .context = static_cast<double>(*context_),
                           .batch = static_cast<double>(batch_.value_or(1)),
                           .vocabulary = static_cast<double>(vocabulary_.value_or(0))};
}

std::vector<MemoryChoice::Row> MemoryChoice::rows(const std::string& name, const MemoryRecipe& own,
                                                  const ModelChoice& model) const {
    const double params = parameters_of(params_), trainable = trainable_.value_or(usual_trainable);
    if (shards_ && *shards_ < 1)
        refuse("--shards", fmt::format("the number of ranks is {}", *shards_), "give at least 1");
    if (!(trainable > 0 && trainable <= 1))
        refuse("--trainable", fmt::format("the fraction is {}", trainable),
               "give a fraction above 0 and up to 1, such as 0.01");
    const std::optional<ActivationShape> sizes = shape(model);
    const auto row = [&](const std::string& title, const MemoryRecipe& recipe) {
        Row made{.name = title,
                 .summary = recipe.summary,
                 .each = recipe.per_parameter(trainable),
                 .params = params,
                 .shards = static_cast<double>(shards_.value_or(1)),
                 .activations = {}};
        if (sizes)
            made.activations = activation_bytes(
                *recipe.activations, *sizes,
                {.has_checkpoints = has_checkpoints_ || own.recomputes, .has_flash_attention = has_flash_});
        return made;
    };
    std::vector<Row> all{row(name, own)};
    all.front().summary = "the given policy or config";
    for (const MemoryRecipe& recipe : memory_recipes()) all.push_back(row(std::string(recipe.name), recipe));
    if (galore_rank_) {
        if (!sizes || *galore_rank_ < 1 || *galore_rank_ > *width_)
            refuse("--galore-rank", fmt::format("the rank is {}", *galore_rank_),
                   "give --width, and a rank from 1 to --width");
        const double width = sizes->width, rank = static_cast<double>(*galore_rank_);
        all.push_back(row("galore", {.summary = "GaLore under autocast",
                                     .trained = galore_bytes(4, width, width, rank),
                                     .activations = &autocast_activations}));
        all.push_back(row("galore-pure-bf16", {.summary = "GaLore with weights, gradients and moments in bf16",
                                               .trained = galore_bytes(2, width, width, rank),
                                               .activations = &low_activations}));
    }
    return all;
}

std::string MemoryChoice::text(const std::string& name, const MemoryRecipe& own, const ModelChoice& model) const {
    const std::vector<Row> all = rows(name, own, model);
    double largest = 0;
    std::size_t widest = 6;
    for (const Row& row : all) {
        largest = std::max({largest, row.bytes(row.each.total()), row.activations.value_or(0)});
        widest = std::max(widest, row.name.size());
    }
    const Unit unit = unit_of(largest);
    const bool has_activations = all.front().activations.has_value();
    const std::int64_t shards = shards_.value_or(1);
    std::string text =
        fmt::format("memory       {} for {:g} parameters and Adam{}\n\n", unit.name, parameters_of(params_),
                    shards == 1 ? "" : fmt::format("; zero1 to zero3: bytes per rank, with {} ranks", shards));
    const auto line = [&](const std::string& title, const std::vector<std::string>& cells, std::string_view summary) {
        text += fmt::format("{:<{}}", title, widest);
        for (const std::string& each : cells) text += fmt::format("  {:>10}", each);
        text += fmt::format("  {}\n", summary);
    };
    std::vector<std::string> titles{"PARAMS", "GRADS", "MASTER", "OPTIMISER"};
    for (const Sharding& sharding : shardings()) {
        std::string title(sharding.name);
        std::transform(title.begin(), title.end(), title.begin(),
                       [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
        if (shards > 1 || sharding.name == shardings().front().name) titles.push_back(title);
    }
    titles.insert(titles.end(), {"EACH", "CASTS"});
    if (has_activations) titles.push_back("ACTIVATIONS");
    line("RECIPE", titles, "WHAT");
    for (const Row& row : all) {
        std::vector<std::string> cells{
            cell(row.bytes(row.each.value), unit), cell(row.bytes(row.each.gradients()), unit),
            cell(row.bytes(row.each.master), unit), cell(row.bytes(row.each.master_grad + row.each.moments), unit)};
        for (const Sharding& sharding : shardings()) {
            if (shards > 1 || sharding.name == shardings().front().name)
                cells.push_back(cell(row.bytes(sharding), unit));
        }
        cells.push_back(fmt::format("{:.6g}", row.each.total()));
        cells.push_back(cell(row.bytes(row.each.cast), unit));
        if (has_activations) cells.push_back(cell(*row.activations, unit));
        line(row.name, cells, row.summary);
    }
    text +=
        "\nEACH: bytes per parameter. CASTS: low-precision copies of the weights, kept from the forward to the "
        "backward pass; no other column includes them.\n";
    if (!has_activations) text += "For the activations, give --layers, --width, --heads and --context.\n";
    return text;
}

RowTable<MemoryChoice::Row> MemoryChoice::table() {
    const auto bytes = [](std::string_view key, auto get) {
        const auto csv = [get](const Row& row) { return fmt::to_string(get(row)); };
        return RowColumn<Row>{std::string(key), get, "", {.csv = csv}};
    };
    const auto activations = [](const Row& row) { return row.activations ? fmt::to_string(*row.activations) : ""; };
    std::vector<RowColumn<Row>> columns{
        {"recipe", &Row::name},
        {"summary", &Row::summary, "", {.is_in_json_only = true}},
        {"bytes_per_parameter", [](const Row& row) { return row.each.total(); }, "", {.is_in_json_only = true}},
        bytes("parameters", [](const Row& row) { return row.bytes(row.each.value); }),
        bytes("gradients", [](const Row& row) { return row.bytes(row.each.gradients()); }),
        bytes("master", [](const Row& row) { return row.bytes(row.each.master); }),
        bytes("optimizer", [](const Row& row) { return row.bytes(row.each.master_grad + row.each.moments); }),
        bytes("casts", [](const Row& row) { return row.bytes(row.each.cast); })};
    for (const Sharding& sharding : shardings())
        columns.push_back(bytes(sharding.name, [sharding](const Row& row) { return row.bytes(sharding); }));
    columns.push_back({"activations", &Row::activations, "", {.csv = activations}});
    return columns;
}

std::string MemoryChoice::csv(const std::string& name, const MemoryRecipe& own, const ModelChoice& model) const {
    return table().csv(rows(name, own, model));
}

Json MemoryChoice::json(const std::string& name, const MemoryRecipe& own, const ModelChoice& model) const {
    return {{"params", parameters_of(params_)},
            {"shards", shards_.value_or(1)},
            {"recipes", table().json(rows(name, own, model))}};
}

}  // namespace macheps::cmd::policies
