// SPDX-License-Identifier: Apache-2.0
// Policy against a model's sites: globs become a table, once.
#include "core/nearest_name.hpp"
#include "experiments/policy/rule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace macheps {

namespace {

/// What a policy can speak about, as one list: sites and parameters alike.
struct Target {
    std::string name;
    std::vector<std::string_view> slots, matmuls;
    const Site* site = nullptr;  ///< null for a parameter
};

std::vector<Target> targets_of(const SiteList& model, bool parameters) {
    std::vector<Target> targets;
    if (parameters) {
        const auto slots = parameter_slots();
        for (const Parameter& p : model.parameters)
            targets.push_back({p.name, {slots.begin(), slots.end()}, {}, nullptr});
    } else {
        for (const Site& site : model.sites) targets.push_back({site.name, slots_of(site), matmuls_of(site), &site});
    }
    return targets;
}

bool contains(const std::vector<std::string_view>& list, std::string_view name) {
    return std::find(list.begin(), list.end(), name) != list.end();
}

std::string key_of(std::string_view target, std::string_view slot) { return fmt::format("{}:{}", target, slot); }

class Resolver {
  public:
    explicit Resolver(const SiteList& model)
        : model_(model.model), sites_(targets_of(model, false)), parameters_(targets_of(model, true)) {}

    ResolvedPolicy run(const Policy& policy) {
        result_.name = policy.name;
        result_.description = policy.description;
        result_.loss_scaler = policy.loss_scaler;
        result_.optimizer_arithmetic = policy.optimizer_arithmetic;
        for (const std::vector<Target>* targets : {&sites_, &parameters_}) {
            for (const Target& target : *targets) {
                for (const std::string_view slot : target.slots) add_row(target, slot);
                for (const std::string_view matmul : target.matmuls) result_.matmuls[key_of(target.name, matmul)];
            }
        }
        for (const auto& rule : policy.rules) {
            if (rule->model.empty() || rule->model == model_) apply(*rule);
        }
        return std::move(result_);
    }

  private:
    void add_row(const Target& target, std::string_view slot) {
        result_.casts[key_of(target.name, slot)];
        result_.order.push_back({target.name, std::string(slot)});
    }

    void apply(const Policy::Rule& rule) {
        const std::vector<Target>& targets = rule.about_parameters ? parameters_ : sites_;
        std::vector<const Target*> matched;
        std::vector<std::pair<const Target*, std::string_view>> matched_slots;
        for (const Policy::Rule::Pattern& pattern : rule.patterns) {
            bool any = false;
            for (const Target& target : targets) {
                if (pattern.has_slot()) {
                    for (const std::string_view slot : target.slots) {
                        if (!glob_match(pattern.text, key_of(target.name, slot))) continue;
                        any = true;
                        if (may_touch(rule, target)) matched_slots.emplace_back(&target, slot);
                    }
                } else if (glob_match(pattern.text, target.name)) {
                    any = true;
                    matched.push_back(&target);
                }
            }
            if (!any) no_match(rule, pattern, targets);
        }
        for (const Policy::Rule::SlotCast& each : rule.casts) {
            if (each.slot.empty()) {
                for (const auto& [target, slot] : matched_slots) set(rule, each, *target, slot);
                continue;
            }
            bool any = false;
            for (const Target* target : matched) {
                if (!contains(target->slots, each.slot)) continue;
                any = true;
                if (may_touch(rule, *target)) set(rule, each, *target, each.slot);
            }
            if (!any) no_slot(rule, each.at, each.slot, "slot", matched);
        }
        for (const Policy::Rule::MatmulSetting& each : rule.matmuls) {
            bool any = false;
            for (const Target* target : matched) {
                const bool has_bias = target->site != nullptr && target->site->kind == SiteKind::linear;
                if (!contains(target->matmuls, each.matmul) || (each.bias_after && !has_bias)) continue;
                any = true;
                if (!may_touch(rule, *target)) continue;
                const std::string key = key_of(target->name, each.matmul);
                MatmulChoice& choice = result_.matmuls[key];
                if (each.machine != nullptr) choice.rule.machine = each.machine;
                if (each.bias_after) choice.bias_after = *each.bias_after;
                result_.origin[key] = rule.origin();
            }
            if (!any) no_slot(rule, each.at, each.matmul, each.bias_after ? "matmul with a bias" : "matmul", matched);
        }
    }

    /// False for a linear whose sides are no multiples of rule.multiple_of; notes its name.
    bool may_touch(const Policy::Rule& rule, const Target& target) {
        if (rule.multiple_of == 0 || target.site == nullptr || target.site->kind != SiteKind::linear) return true;
        if (target.site->in % rule.multiple_of == 0 && target.site->out % rule.multiple_of == 0) return true;
        std::vector<std::string>& left_out = result_.left_out;
        if (std::find(left_out.begin(), left_out.end(), target.name) == left_out.end()) left_out.push_back(target.name);
        return false;
    }

    void set(const Policy::Rule& rule, const Policy::Rule::SlotCast& each, const Target& target,
             std::string_view slot) {
        const bool is_operand = target.site != nullptr && (slot.ends_with(".a") || slot.ends_with(".b"));
        if (each.cast.granularity != Granularity::none && !is_operand) {
            throw Error({.what = fmt::format("'{}' cannot have a scale: '{}' is no operand of a matmul",
                                             to_string(each.cast), key_of(target.name, slot)),
                         .where = rule.where(each.at),
                         .fix = "scale the a and b of a matmul only, which undoes it in its sum"});
        }
        const std::string key = key_of(target.name, slot);
        result_.casts[key] = each.cast;
        result_.origin[key] = rule.origin();
    }

    [[noreturn]] void no_match(const Policy::Rule& rule, const Policy::Rule::Pattern& pattern,
                               const std::vector<Target>& targets) const {
        std::vector<std::string> names;
        for (const Target& target : targets) {
            if (!pattern.has_slot()) {
                names.push_back(target.name);
                continue;
            }
            for (const std::string_view slot : target.slots) names.push_back(key_of(target.name, slot));
        }
        const std::vector<std::string_view> views(names.begin(), names.end());
        const std::string near = nearest_name(pattern.text, views);
        const char* what = rule.about_parameters ? "parameter" : "site";
        throw Error({.what = fmt::format("the pattern '{}' matches no {} of this model", pattern.text, what),
                     .where = rule.where(pattern.at),
                     .fix = (near.empty() ? "" : fmt::format("did you mean '{}'? ", near)) +
                            "`macheps policy explain fp32` lists every name"});
    }

    [[noreturn]] void no_slot(const Policy::Rule& rule, SourcePlace at, std::string_view slot, std::string_view what,
                              const std::vector<const Target*>& matched) const {
        std::vector<std::string_view> known;
        for (const Target* target : matched) {
            for (const std::string_view each : what == "slot" ? target->slots : target->matmuls) {
                if (!contains(known, each)) known.push_back(each);
            }
        }
        throw Error({.what = fmt::format("no site that this rule matches has the {} '{}'", what, slot),
                     .where = rule.where(at),
                     .fix = known.empty() ? fmt::format("'{}' has no matmul", matched.front()->name)
                                          : fmt::format("they have {}", fmt::join(known, ", "))});
    }

    std::string model_;
    std::vector<Target> sites_, parameters_;
    ResolvedPolicy result_;
};

[[noreturn]] void no_such_name(std::string_view name) {
    throw Error(
        {.what = fmt::format("the model has no '{}'", name), .fix = "see the lists in experiments/policy/sites.hpp"});
}

}  // namespace

const CastRule& ResolvedPolicy::cast(std::string_view site_and_slot) const {
    const auto found = casts.find(site_and_slot);
    if (found == casts.end()) no_such_name(site_and_slot);
    return found->second;
}

const MatmulChoice& ResolvedPolicy::matmul(std::string_view site, std::string_view matmul) const {
    const auto found = matmuls.find(key_of(site, matmul));
    if (found == matmuls.end()) no_such_name(key_of(site, matmul));
    return found->second;
}

bool ResolvedPolicy::has_master(std::string_view parameter) const {
    return origin.find(key_of(parameter, "master")) != origin.end();
}

std::vector<ResolvedPolicy::Row> ResolvedPolicy::table() const {
    std::vector<Row> rows;
    for (const auto& [site, slot] : order) {
        const std::string key = key_of(site, slot);
        Row row{.site = site, .slot = slot, .cast = to_string(cast(key)), .machine = {}, .rule = "default"};
        if (const auto from = origin.find(key); from != origin.end()) row.rule = from->second;
        // The machine stands where its sum ends.
        if (slot.ends_with(".out")) {
            const auto choice = matmuls.find(key_of(site, slot.substr(0, slot.size() - 4)));
            if (choice != matmuls.end()) {
                row.machine = choice->second.rule.machine->name;
                if (choice->second.bias_after) row.machine += ", bias after";
            }
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

ResolvedPolicy resolve(const Policy& policy, const SiteList& model) { return Resolver(model).run(policy); }

}  // namespace macheps
