// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace macheps::policy {

namespace {

using enum TrainingKey::Takes;
using Text = std::optional<std::string>;

constexpr std::array optimizer_names{"adamw", "sgd", "adam"};  // in the order of OptimizerKind

template <class Rows>
std::vector<std::string_view> names_of_rows(const Rows& rows) {
    std::vector<std::string_view> names;
    for (const auto& row : rows) names.push_back(row.name);
    return names;
}
std::vector<std::string_view> kind_names() { return {optimizer_names.begin(), optimizer_names.end()}; }

/// Set and print an optional number of a recipe.
template <auto member>
void set_number(TrainingRecipe& recipe, double value) {
    using Value = typename std::remove_reference_t<decltype(recipe.*member)>::value_type;
    recipe.*member = static_cast<Value>(value);
}
template <auto member>
Text number_text(const TrainingRecipe& recipe) {
    return recipe.*member ? Text(fmt::format("{}", *(recipe.*member))) : Text();
}

bool is_beta(double x) { return x >= 0 && x < 1; }
bool is_no_less_than_0(double x) { return x >= 0; }
bool is_positive(double x) { return x > 0; }
bool is_power_of_two(double x) {
    int exponent = 0;
    return x >= 1 && x <= 0x1p60 && std::frexp(x, &exponent) == 0.5;
}
std::string power_text(double x) {
    int exponent = 0;
    std::frexp(x, &exponent);
    return fmt::format("2^{}", exponent - 1);
}
bool is_count(double x) { return x >= 1 && x <= 0x1p20; }

const TrainingKey rows[] = {
    {.table = "optimizer",
     .name = "kind",
     .summary = "adamw, adam (decay is added to the gradient) or sgd",
     .takes = name,
     .names = kind_names,
     .set = [](TrainingRecipe& r, double at) { r.optimizer = static_cast<OptimizerKind>(static_cast<int>(at)); },
     .text = [](const TrainingRecipe& r) { return r.optimizer ? Text(to_string(*r.optimizer)) : Text(); }},
    {.table = "optimizer",
     .name = "kernel",
     .summary = "where a step of Adam rounds",
     .takes = name,
     .is_of_precision = true,
     .names = [] { return names_of_rows(adam_kernels); },
     .set = [](TrainingRecipe& r, double at) { r.kernel = &adam_kernels[static_cast<int>(at)]; },
     .text = [](const TrainingRecipe& r) { return r.kernel != nullptr ? Text(r.kernel->name) : Text(); }},
    {.table = "optimizer",
     .name = "lr",
     .summary = "the learning rate after warm-up; the run sets its schedule",
     .is_good = is_positive,
     .wanted = "a positive number",
     .set = set_number<&TrainingRecipe::lr>,
     .text = number_text<&TrainingRecipe::lr>},
    {.table = "optimizer",
     .name = "beta1",
     .summary = "decay rate of Adam's first moment",
     .is_good = is_beta,
     .wanted = "0 or more, below 1",
     .set = set_number<&TrainingRecipe::beta1>,
     .text = number_text<&TrainingRecipe::beta1>},
    {.table = "optimizer",
     .name = "beta2",
     .summary = "decay rate of Adam's second moment",
     .is_good = is_beta,
     .wanted = "0 or more, below 1",
     .set = set_number<&TrainingRecipe::beta2>,
     .text = number_text<&TrainingRecipe::beta2>},
    {.table = "optimizer",
     .name = "eps",
     .summary = "number that Adam adds to the square root",
     .is_good = is_no_less_than_0,
     .wanted = "0 or more",
     .set = set_number<&TrainingRecipe::eps>,
     .text = number_text<&TrainingRecipe::eps>},
    {.table = "optimizer",
     .name = "weight_decay",
     .summary = "weight decay, which applies only to matrices",
     .is_good = is_no_less_than_0,
     .wanted = "0 or more",
     .set = set_number<&TrainingRecipe::weight_decay>,
     .text = number_text<&TrainingRecipe::weight_decay>},
    {.table = "optimizer",
     .name = "momentum",
     .summary = "momentum of sgd",
     .is_good = is_no_less_than_0,
     .wanted = "0 or more",
     .set = set_number<&TrainingRecipe::momentum>,
     .text = number_text<&TrainingRecipe::momentum>},
    {.table = "optimizer",
     .name = "rate_waits",
     .summary = "true: the schedule of the learning rate does not advance in skipped steps",
     .takes = flag,
     .is_of_precision = true,
     .set = [](TrainingRecipe& r, double value) { r.rate_waits = value != 0; },
     .text = [](const TrainingRecipe& r) { return r.rate_waits ? Text(*r.rate_waits ? "true" : "false") : Text(); }},
    {.table = "clip",
     .name = "formula",
     .summary = "how the clipping factor is computed from the norm",
     .takes = name,
     .is_of_precision = true,
     .names = [] { return names_of_rows(clip_formulas); },
     .set = [](TrainingRecipe& r, double at) { r.clip = &clip_formulas[static_cast<int>(at)]; },
     .text = [](const TrainingRecipe& r) { return r.clip != nullptr ? Text(r.clip->name) : Text(); }},
    {.table = "clip",
     .name = "max_norm",
     .summary = "largest gradient norm; 0: no clipping",
     .is_good = is_no_less_than_0,
     .wanted = "0 or more",
     .set = set_number<&TrainingRecipe::max_norm>,
     .text = number_text<&TrainingRecipe::max_norm>},
    {.table = "accumulation",
     .name = "micro_batches",
     .summary = "number of micro-batches in a step, whose gradients are added up. If the samples of a step cannot be "
                "divided into this many equal parts, the next smaller possible number is used",
     .takes = count,
     .is_good = is_count,
     .wanted = "1 to 1048576",
     .set = set_number<&TrainingRecipe::micro_batches>,
     .text = number_text<&TrainingRecipe::micro_batches>},
    {.table = "backward",
     .name = "recompute",
     .summary = "true: the activations of a block are recomputed (gradient checkpointing): their bytes are counted "
                "accordingly, and the results do not change",
     .takes = flag,
     .is_of_precision = true,
     .set = [](TrainingRecipe& r, double value) { r.recompute = value != 0; },
     .text = [](const TrainingRecipe& r) { return r.recompute ? Text(*r.recompute ? "true" : "false") : Text(); }},
    // Keys of [stress] change the size of values but not the computed function. `train --stress` also accepts them.
    {.table = "stress",
     .name = "outliers",
     .summary = "two input channels of each mlp.down have an rms of this value times 2^5, like outliers of pretrained "
                "models; the weight of mlp.down scales them back, so fp32 still computes the same function",
     .is_of_precision = true,
     .is_good = is_power_of_two,
     .wanted = "a power of two, 1 to 2^60",
     .set = [](TrainingRecipe& r, double value) { r.stress.outliers = value; },
     .text = [](const TrainingRecipe& r) { return r.stress.outliers ? Text(power_text(*r.stress.outliers)) : Text(); }},
};

}  // namespace

std::span<const TrainingKey> training_keys() { return rows; }

std::vector<const TrainingKey*> training_keys_of(std::string_view table) {
    std::vector<const TrainingKey*> keys;
    for (const TrainingKey& row : rows) {
        if (row.table == table) keys.push_back(&row);
    }
    return keys;
}

std::vector<std::string_view> training_tables() {
    std::vector<std::string_view> tables;
    for (const TrainingKey& row : rows) {
        if (tables.empty() || tables.back() != row.table) tables.push_back(row.table);
    }
    return tables;
}

std::vector<std::pair<std::string, std::string>> settings_of(const TrainingRecipe& recipe) {
    std::vector<std::pair<std::string, std::string>> settings;
    for (const TrainingKey& row : rows) {
        if (const Text text = row.text(recipe)) settings.emplace_back(fmt::format("{}.{}", row.table, row.name), *text);
    }
    return settings;
}

std::string stress_text(const TrainingRecipe& recipe) {
    std::string words;
    for (const TrainingKey* key : training_keys_of("stress")) {
        if (const Text text = key->text(recipe))
            words += fmt::format("{}{}={}", words.empty() ? "" : " ", key->name, *text);
    }
    return words;
}

std::string_view to_string(OptimizerKind kind) { return optimizer_names[static_cast<std::size_t>(kind)]; }

}  // namespace macheps::policy
