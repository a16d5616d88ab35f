// SPDX-License-Identifier: Apache-2.0
// Resolves a policy for a model: matches the patterns of its rules with the sites of the model once, and stores the
// resulting casts and matmuls in a table.
#include "core/format_table.hpp"
#include "core/text/nearest_name.hpp"
#include "emulation/machine/table.hpp"
#include "experiments/policy/float8_gather.hpp"
#include "experiments/policy/rule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace macheps::policy {

namespace {

/// A site or parameter that the rules of a policy can match.
struct Target {
    std::string name;
    std::vector<std::string_view> slots, matmuls;
    const Site* site = nullptr;  ///< null for a parameter
};

std::vector<Target> targets_of(const SiteList& model, bool parameters) {
    std::vector<Target> targets;
    if (parameters) {
        std::vector<std::string_view> slots;
        for (const SlotRow& slot : parameter_slots) slots.push_back(slot.name);
        for (const Parameter& p : model.parameters) targets.push_back({p.name, slots, {}, nullptr});
    } else {
        for (const Site& site : model.sites) targets.push_back({site.name, slots_of(site), matmuls_of(site), &site});
    }
    return targets;
}

bool contains(const std::vector<std::string_view>& list, std::string_view name) {
    return std::find(list.begin(), list.end(), name) != list.end();
}

std::string key_of(std::string_view target, std::string_view slot) { return fmt::format("{}:{}", target, slot); }

/// Returns the granularity with the same block shape for the other operand: for b if `one` is for a, and for a if `one`
/// is for b.
constexpr const Granularity& other_side(const Granularity& one) {
    return *std::find_if(std::begin(granularities), std::end(granularities), [&](const Granularity& row) {
        return row.outer == one.outer && row.k == one.k && row.kind == one.kind && row.operand != one.operand;
    });
}
static_assert(
    [] {
        for (const Granularity& row : granularities) {
            if (!row.operand.empty() && other_side(row).operand.empty()) return false;
        }
        return true;
    }(),
    "each granularity for one operand needs a counterpart for the other operand");

class Resolver {
  public:
    explicit Resolver(const SiteList& model)
        : model_(model), sites_(targets_of(model, false)), parameters_(targets_of(model, true)) {}

    ResolvedPolicy run(const Policy& policy) {
        result_.name = policy.name;
        result_.description = policy.description;
        result_.reduce = policy.reduce;
        result_.loss_scaler = policy.loss_scaler;
        result_.optimizer_arithmetic = policy.optimizer_arithmetic;
        result_.training = policy.training;
        for (const std::vector<Target>* targets : {&sites_, &parameters_}) {
            for (const Target& target : *targets) {
                for (const std::string_view slot : target.slots) add_row(target, slot);
                for (const std::string_view matmul : target.matmuls) result_.matmuls[key_of(target.name, matmul)];
            }
        }
        for (const auto& rule : policy.rules) {
            if (rule->model.empty() || rule->model == model_.model) apply(*rule);
        }
        for (const auto& [site, where] : gathered_) gather_as_codes(result_, site, where);
        for (const Target& target : sites_) {
            for (const std::string_view matmul : target.matmuls) check(target, matmul);
        }
        result_.casts_nothing = std::all_of(result_.casts.begin(), result_.casts.end(),
                                            [](const auto& each) { return each.second.is_identity(); });
        return std::move(result_);
    }

  private:
    void add_row(const Target& target, std::string_view slot) {
        result_.casts[key_of(target.name, slot)];
        result_.order.push_back({target.name, std::string(slot)});
    }

    void apply(const Policy::Rule& rule) {
        const std::vector<Target>& targets = rule.about_parameters ? parameters_ : sites_;
        left_out_ = left_out_by(rule.layers, model_);
        kept_ = {};
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
                const bool has_weight = target->site != nullptr && target->site->kind.has_weight;
                if (!contains(target->matmuls, each.matmul) || (each.needs_bias() && !has_weight)) continue;
                any = true;
                if (!may_touch(rule, *target)) continue;
                const std::string key = key_of(target->name, each.matmul);
                MatmulChoice& choice = result_.matmuls[key];
                each.apply_to(choice);
                result_.origin[key] = rule.origin();
                if (each.changes_rule()) places_[key] = rule.where(each.at);
            }
            if (!any) no_slot(rule, each.at, each.matmul, each.needs_bias() ? "matmul with a bias" : "matmul", matched);
        }
        if (kept_.none_of_some() && rule.layers.chooses()) no_linear_left(rule);
    }

    /// Returns whether the rule may change the target. If the rule's filter or its other layer keys exclude the target,
    /// adds the target's name and the reason to result_.left_out.
    bool may_touch(const Policy::Rule& rule, const Target& target) {
        if (target.site == nullptr || !target.site->kind.has_weight) return true;
        const auto found = left_out_.find(target.name);
        (found == left_out_.end() ? kept_.kept : kept_.left) = true;
        if (found == left_out_.end()) {
            if (rule.gathers_codes) gathered_.insert_or_assign(target.name, rule.where(rule.at));
            return true;
        }
        if (found->second.raises) framework_raises(rule, found->second.why);
        std::vector<ResolvedPolicy::LeftOut>& list = result_.left_out;
        const auto is_it = [&](const ResolvedPolicy::LeftOut& one) { return one.site == target.name; };
        if (std::none_of(list.begin(), list.end(), is_it))
            list.push_back({target.name, found->second.why, rule.is_low()});
        return false;
    }

    void set(const Policy::Rule& rule, const Policy::Rule::SlotCast& each, const Target& target,
             std::string_view slot) {
        const bool is_operand = target.site != nullptr && (slot.ends_with(".a") || slot.ends_with(".b"));
        if (each.cast.has_scale() && !is_operand) {
            throw Error(
                {.what = fmt::format("'{}' cannot have a scale: '{}' is not an operand of a matmul",
                                     to_string(each.cast), key_of(target.name, slot)),
                 .where = rule.where(each.at),
                 .fix = "scale only the operands a and b of a matmul: the matmul undoes their scales in its sum"});
        }
        const std::string key = key_of(target.name, slot);
        if (!each.cast.granularity->is_axis_free() && !target.site->kind.has_weight) {
            throw Error({.what = fmt::format(
                             "'{}' at '{}': only the operands of linear layers can have several scales per tensor",
                             to_string(each.cast), key),
                         .where = rule.where(each.at),
                         .fix = "remove the scale, or use one scale for the tensor"});
        }
        if (const std::string_view operand = each.cast.granularity->operand;
            !operand.empty() && !slot.ends_with(operand)) {
            throw Error({.what = fmt::format("'{}' at '{}': the terms of one sum would have different scales",
                                             to_string(each.cast), key),
                         .where = rule.where(each.at),
                         .fix = fmt::format("use /{}: a needs one scale for each row, and b one for each column",
                                            other_side(*each.cast.granularity).name)});
        }
        result_.casts[key] = each.cast;
        result_.origin[key] = rule.origin();
        places_[key] = rule.where(each.at);
    }

    /// Checks one matmul of a site. Throws Error if the machine cannot read the operands, or if the rule of the matmul
    /// is impossible for their formats and scales. Records why the result bits are unverified, if they are.
    void check(const Target& target, std::string_view matmul) {
        const std::string key = key_of(target.name, matmul);
        MatmulChoice& choice = result_.matmuls.at(key);
        const CastRule &a = result_.casts.at(key + ".a"), &b = result_.casts.at(key + ".b");
        const CastRule& out = result_.casts.at(key + ".out");
        for (const auto& [operand, cast] : {std::pair("a", &a), std::pair("b", &b)}) {
            const Machine& machine = *choice.rule.machine;
            if (machine.result != fp64 && !reads(machine, cast->format))
                unreadable(key, operand, *cast, *choice.rule.machine);
        }
        const bool has_bias =
            matmul == "forward" && std::any_of(parameters_.begin(), parameters_.end(),
                                               [&](const Target& p) { return p.name == target.name + ".bias"; });
        if (a.hadamard != b.hadamard) {
            throw Error({.what = fmt::format("only one operand of '{}' is mixed by a Hadamard matrix", key),
                         .where = place(key),
                         .fix = "set `hadamard` for both operands, or for neither"});
        }
        ScaleLayout a_scales = scale_layout(*a.granularity), b_scales = scale_layout(*b.granularity);
        if (choice.rule.machine->reads_values) {
            if (!target.site->kind.has_weight && (a.has_scale() || b.has_scale())) {
                throw Error({.what = fmt::format("{} cannot be used at '{}', whose operands have scales",
                                                 choice.rule.machine->name, key),
                             .where = place(key),
                             .fix = "remove the scales, or use this machine only on linear layers"});
            }
            a_scales = b_scales = {};
        }
        // A named kernel keeps its rule. If that rule does not apply the operands' block scales, check_matmul_rule()
        // throws below. Any other rule that does not apply them gets a promotion that does.
        if (choice.named == nullptr) choice.rule = with_block_scales(choice.rule, a_scales, b_scales);
        choice.unverified = check_matmul_rule(choice.rule,
                                              {.a = a.format,
                                               .b = b.format,
                                               .a_scales = a_scales,
                                               .b_scales = b_scales,
                                               .has_bias = has_bias,
                                               .bias_after = has_bias && choice.bias_after,
                                               .out_cast = {.format = out.format, .round = out.round}},
                                              place(key), choice.named);
    }

    /// Returns the source position of the rule that last set the matmul. If no rule did, returns the position of the
    /// rule that last set one of its operands.
    std::string place(const std::string& key) const {
        for (const char* slot : {"", ".a", ".b"}) {
            if (const auto at = places_.find(key + slot); at != places_.end()) {
                return fmt::format("{}, {}{}", at->second, key, slot);
            }
        }
        return key;
    }

    [[noreturn]] void unreadable(const std::string& key, const char* operand, const CastRule& cast,
                                 const Machine& machine) const {
        const std::string slot = fmt::format("{}.{}", key, operand), formats = operand_names(machine);
        const std::string_view matmul = std::string_view(key).substr(key.find(':') + 1);
        const std::string first = formats.substr(0, formats.find(','));
        throw Error(
            {.what = cast.is_identity()
                         ? fmt::format("'{}' has fp32 values, but {} reads {}", slot, machine.name, formats)
                         : fmt::format("'{}' is rounded to {}, but {} reads {}", slot, format_name(cast.format),
                                       machine.name, formats),
             .where = place(key),
             .fix = fmt::format("round it: {} = {{ {} = \"{}\" }}, or use another machine", matmul, operand, first)});
    }

    [[noreturn]] void framework_raises(const Policy::Rule& rule, const std::string& why) const {
        throw Error({.what = fmt::format("the framework raises an error for this model: {}", why),
                     .where = rule.where(rule.at),
                     .fix = "use sizes that fit, or exclude that layer from the rule"});
    }

    [[noreturn]] void no_linear_left(const Policy::Rule& rule) const {
        throw Error(
            {.what = fmt::format(
                 "{} excludes every matching linear layer: {}",
                 rule.layers.filter != nullptr ? fmt::format("the filter '{}'", rule.layers.filter->name) : "the rule",
                 result_.left_out.empty() ? "" : result_.left_out.front().why),
             .where = rule.where(rule.at),
             .fix = "train a model of other sizes, or use another filter"});
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
                            "run `macheps policy explain fp32` to list every name"});
    }

    [[noreturn]] void no_slot(const Policy::Rule& rule, files::SourcePlace at, std::string_view slot,
                              std::string_view what, const std::vector<const Target*>& matched) const {
        std::vector<std::string_view> known;
        for (const Target* target : matched) {
            for (const std::string_view each : what == "slot" ? target->slots : target->matmuls) {
                if (!contains(known, each)) known.push_back(each);
            }
        }
        throw Error({.what = fmt::format("no site that this rule matches has the {} '{}'", what, slot),
                     .where = rule.where(at),
                     .fix = known.empty() ? fmt::format("remove it: '{}' has no matmul", matched.front()->name)
                                          : fmt::format("use one of {}", fmt::join(known, ", "))});
    }

    const SiteList& model_;
    std::vector<Target> sites_, parameters_;
    ResolvedPolicy result_;
    std::map<std::string, std::string> places_;                   ///< slot or matmul -> position of its last rule
    std::map<std::string, FilterVerdict, std::less<>> left_out_;  ///< linears that the current rule leaves out
    std::map<std::string, std::string> gathered_;  ///< linear -> source position of its last rule with `all_gather`
    /// Whether the current rule applies to at least one linear (`kept`), and whether it leaves at least one out
    /// (`left`).
    struct Kept {
        bool kept = false, left = false;
        bool none_of_some() const { return left && !kept; }
    } kept_;
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

bool ResolvedPolicy::has_sum(std::string_view parameter) const {
    return origin.find(key_of(parameter, "accum")) != origin.end();
}

std::vector<std::string> ResolvedPolicy::left_out_sites() const {
    std::vector<std::string> sites;
    for (const LeftOut& one : left_out) sites.push_back(one.site);
    return sites;
}

ResolvedPolicy::LowLinears ResolvedPolicy::low_linears() const {
    LowLinears count;
    for (const auto& [site, slot] : order) {
        if (slot != "forward.bias") continue;  // only linears have this slot
        const bool is_low = cast(key_of(site, "forward.a")).format.bits <= 8;
        count.low += is_low ? 1 : 0;
        const auto asks = [&name = site](const LeftOut& one) { return one.site == name && one.asks_low; };
        count.asked += is_low || std::any_of(left_out.begin(), left_out.end(), asks) ? 1 : 0;
    }
    return count;
}

std::string to_string(const MatmulChoice& choice) {
    std::string text = to_string(choice.rule);
    if (choice.named != nullptr) {
        text = fmt::format("{}, {}", choice.rule.machine->name, choice.named->name);
        if (choice.named->takes_interval && choice.rule.promotion != Promotion::none) {
            text += fmt::format(" every {}", choice.rule.promotion_interval);
        }
        if (choice.rule.slices != 1) text += fmt::format(", split_k {}", choice.rule.slices);
    }
    for (const MatmulKey& key : matmul_keys()) {
        if (key.print != nullptr) text += key.print(choice);
    }
    if (!choice.unverified.empty()) text += ", unverified";
    return text;
}

std::vector<std::pair<std::string, int>> ResolvedPolicy::machines() const {
    std::vector<std::pair<std::string, int>> list;
    for (const auto& [site, slot] : order) {
        if (!slot.ends_with(".out")) continue;
        const auto found = matmuls.find(key_of(site, slot.substr(0, slot.size() - 4)));
        if (found == matmuls.end()) continue;
        MatmulChoice choice = found->second;
        choice.bias_after = false;
        const std::string text = to_string(choice);
        const auto known = std::find_if(list.begin(), list.end(), [&](const auto& each) { return each.first == text; });
        if (known == list.end()) {
            list.emplace_back(text, 1);
        } else {
            ++known->second;
        }
    }
    return list;
}

std::vector<std::string> ResolvedPolicy::unverified() const {
    std::vector<std::string> reasons;
    for (const auto& [site, slot] : order) {
        if (!slot.ends_with(".out")) continue;
        const auto found = matmuls.find(key_of(site, slot.substr(0, slot.size() - 4)));
        if (found == matmuls.end() || found->second.unverified.empty()) continue;
        if (std::find(reasons.begin(), reasons.end(), found->second.unverified) == reasons.end()) {
            reasons.push_back(found->second.unverified);
        }
    }
    return reasons;
}

std::vector<ResolvedPolicy::Row> ResolvedPolicy::table() const {
    std::vector<Row> rows;
    for (const auto& [site, slot] : order) {
        const std::string key = key_of(site, slot);
        const CastRule& rule = cast(key);
        Row row{.site = site, .slot = slot, .cast = to_string(rule), .machine = {}, .rule = "default"};
        if ((slot == "master" && !has_master(site)) || (slot == "accum" && !has_sum(site))) row.cast = "-";
        if (const auto from = origin.find(key); from != origin.end()) row.rule = from->second;
        // The row of a matmul's output also shows the machine of the matmul.
        if (slot.ends_with(".out")) {
            const auto choice = matmuls.find(key_of(site, slot.substr(0, slot.size() - 4)));
            if (choice != matmuls.end()) {
                row.machine = to_string(choice->second);
                const auto from = origin.find(choice->first);
                if (from != origin.end() && from->second != row.rule) row.rule += "; machine: " + from->second;
            }
        }
        row.is_default = rule == CastRule{} && (row.machine.empty() || row.machine == fp32_chain.name);
        rows.push_back(std::move(row));
    }
    return rows;
}

ResolvedPolicy ResolvedPolicy::restricted_to(std::string_view pattern) const {
    ResolvedPolicy some = *this;
    std::erase_if(some.order, [&](const auto& each) {
        return !glob_match(pattern, each.first) && !glob_match(pattern, key_of(each.first, each.second));
    });
    std::erase_if(some.left_out, [&](const LeftOut& one) { return !glob_match(pattern, one.site); });
    return some;
}

ResolvedPolicy resolve(const Policy& policy, const SiteList& model) { return Resolver(model).run(policy); }

}  // namespace macheps::policy
