// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/memory/tensors.hpp"
#include "experiments/configs/optimisers/optimisers.hpp"
#include "experiments/configs/resolved.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace macheps::configs {

namespace {

/// A sum of gradients (over micro-batches or over ranks) for which the table has rows.
struct GradientSum {
    std::string_view kind, field;
    std::string_view rule;  ///< source of the format that is shown if neither the config nor the policy sets it
};
constexpr GradientSum sums[] = {{"accum", "accum", "micro-batches are added up in the gradient's format"},
                                {"wire", "reduce", "sent if there are several ranks"}};

std::string_view format_of_letter(std::string_view letter) {
    static const std::pair<std::string_view, std::string_view> words[] = {
        {"F", "fp32"}, {"T", "tf32"}, {"H", "fp16"}, {"B", "bf16"}};
    for (const auto& [from, to] : words) {
        if (from == letter) return to;
    }
    return letter;
}

class TensorTable {
  public:
    TensorTable(const policy::SiteList& sites, const policy::ResolvedPolicy& policy, const ResolvedConfig* config)
        : sites_(sites), config_(config), reduce_(policy.reduce) {
        for (const policy::ResolvedPolicy::Row& row : policy.table()) rules_[row.site + ":" + row.slot] = row;
    }

    std::vector<TensorRow> rows() {
        for (const policy::Parameter& each : sites_.parameters) add_parameter(each);
        for (const policy::Site& each : sites_.sites) add_activations(each);
        for (const policy::Site& each : sites_.sites) add_matmuls(each);
        return std::move(rows_);
    }

  private:
    void add(std::string_view kind, std::string name, const std::string& slot, std::int64_t elements) {
        const policy::ResolvedPolicy::Row* row = find(name + ":" + slot);
        // The policy has no row for a site that a pattern excludes.
        if (row != nullptr) rows_.push_back({kind, std::move(name), row->cast, elements, row->rule});
    }

    const policy::ResolvedPolicy::Row* find(const std::string& key) const {
        const auto found = rules_.find(key);
        return found == rules_.end() ? nullptr : &found->second;
    }

    void add_parameter(const policy::Parameter& each) {
        // Only linear layers in blocks are quantised. Moments are quantised only if a tensor has at least 4096 numbers.
        const bool is_linear =
            each.name.find(".attn.") != std::string::npos || each.name.find(".mlp.") != std::string::npos;
        add_stored("value", is_linear ? "store" : "", each);
        add("grad", each.name, "grad", each.count);
        if (find(each.name + ":grad") != nullptr) add_sum(sums[0], each);
        add("master", each.name, "master", each.count);
        const double moments = config_ == nullptr ? 2 : moments_of(*config_);
        for (const char* slot : {"moment1", "moment2"}) {
            const bool is_kept = moments >= 2 || (moments > 0 && slot == std::string_view("moment1"));
            if (is_kept) add_stored(slot, each.count >= 4096 ? "opt_state" : "", each);
        }
        if (find(each.name + ":grad") != nullptr) add_sum(sums[1], each);
    }

    /// Adds a slot of a parameter. If the config stores the slot in a format that the policy language does not have
    /// (nf4, int8), the row shows the name of that format.
    void add_stored(std::string_view slot, std::string_view field, const policy::Parameter& each) {
        const ResolvedField* said = config_ == nullptr ? nullptr : config_->find(field);
        const std::string_view word = said == nullptr ? std::string_view{} : config_->word(field);
        const bool is_no_format = !word.empty() && word != "none" && format_of_letter(word) == word;
        if (!is_no_format) return add(slot, each.name, std::string(slot), each.count);
        if (find(fmt::format("{}:{}", each.name, slot)) != nullptr)
            rows_.push_back({slot, each.name, std::string(word), each.count, said->from});
    }

    void add_sum(const GradientSum& sum, const policy::Parameter& each) {
        const ResolvedField* field = config_ == nullptr ? nullptr : config_->find(sum.field);
        if (field != nullptr) {
            rows_.push_back({sum.kind, each.name, std::string(format_of_letter(config_->word(sum.field))), each.count,
                             field->from});
            return;
        }
        const policy::ResolvedPolicy::Row* own = sum.kind == "accum" ? find(each.name + ":accum") : nullptr;
        if (own != nullptr && own->cast != "-") {
            rows_.push_back({sum.kind, each.name, own->cast, each.count, own->rule});
            return;
        }
        const std::string grad = find(each.name + ":grad")->cast;
        const bool is_told = sum.kind == "wire" && reduce_.wire;
        rows_.push_back(
            {sum.kind, each.name, is_told ? to_string(*reduce_.wire) : grad, each.count, std::string(sum.rule)});
    }

    void add_activations(const policy::Site& each) {
        if (each.saved == 0) return;
        add_activation(each, "forward.out");
        if (!each.saved_beside.empty()) add_activation(each, std::string(each.saved_beside));
    }

    void add_activation(const policy::Site& each, const std::string& slot) {
        const policy::ResolvedPolicy::Row* row = find(each.name + ":" + slot);
        if (row != nullptr) rows_.push_back({"activation", each.name + ":" + slot, row->cast, each.saved, row->rule});
    }

    void add_matmuls(const policy::Site& each) {
        for (const std::string_view matmul : policy::matmuls_of(each)) {
            const std::string key = fmt::format("{}:{}", each.name, matmul);
            const policy::ResolvedPolicy::Row *a = find(key + ".a"), *b = find(key + ".b"), *out = find(key + ".out");
            if (a == nullptr || b == nullptr || out == nullptr) continue;
            std::string rule = a->rule;
            for (const policy::ResolvedPolicy::Row* other : {b, out}) {
                if (rule.find(other->rule) == std::string::npos) rule += "; " + other->rule;
            }
            rows_.push_back({"matmul", key,
                             fmt::format("{} x {} -> {} on {}", a->cast, b->cast, out->cast, out->machine), 0, rule});
        }
    }

    const policy::SiteList& sites_;
    const ResolvedConfig* config_;
    const policy::ReduceConfig& reduce_;
    std::map<std::string, policy::ResolvedPolicy::Row> rules_;
    std::vector<TensorRow> rows_;
};

}  // namespace

std::vector<TensorRow> tensor_rows(const policy::SiteList& sites, const policy::ResolvedPolicy& policy,
                                   const ResolvedConfig* config) {
    return TensorTable(sites, policy, config).rows();
}

}  // namespace macheps::configs
