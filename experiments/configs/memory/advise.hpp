// SPDX-License-Identifier: Apache-2.0
// Which policy suits a device and a goal: rows of advice, each with its reasons, what to watch, and who says so.
//
// The rows are the decision tables of the guides that docs/systems.md quotes, with what those guides have wrong put right.
#pragma once
#include "experiments/configs/memory/device_profile.hpp"
#include "experiments/policy/policy.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::configs {

class ResolvedConfig;

/// What training, or a forward pass alone, is for.
enum class Goal : std::uint8_t { pretrain, finetune, lora, inference };

struct GoalRow {
    std::string_view name;
    Goal goal;
};
std::span<const GoalRow> goals();

/// What is asked for advice.
struct AdviceAsked {
    const DeviceProfile* device = nullptr;
    Goal goal = Goal::pretrain;
    std::optional<double> params{};     ///< of the model; what depends on it is left out where it is not known
    std::vector<std::int64_t> sides{};  ///< of the weights of its linears; empty: not known
};

/// A sentence, and whose it is.
struct Statement {
    std::string_view text, source;
    bool (*applies)(const AdviceAsked& asked) = nullptr;  ///< null: always
};

struct AdviceRow {
    std::string_view name;    ///< "bf16-autocast"
    std::string_view when;    ///< the condition in words
    std::string_view preset;  ///< without a device
    bool (*applies)(const AdviceAsked& asked);
    std::span<const Statement> reasons, watch;
};

/// Every row, the better advice first.
std::span<const AdviceRow> advice_rows();

/// Sides of matmuls that formats ask for.
struct DimensionRule {
    std::string_view formats;
    std::int64_t multiple_of;
    std::string_view text, source;
    bool (*is_native)(const DeviceProfile& device);
};
std::span<const DimensionRule> dimension_rules();
/// Those of `sides` that are no multiples of what the rule asks for.
std::vector<std::int64_t> unfit_sides(const DimensionRule& rule, std::span<const std::int64_t> sides);

/// A row that applies, with those of its sentences that do.
struct Advice {
    const AdviceRow* row = nullptr;
    std::string policy;  ///< a preset: the device's own where there is one
    std::vector<Statement> reasons, watch;
};
/// The advice first, then what else may be tried. Never empty.
std::vector<Advice> advise(const AdviceAsked& asked);
/// The advised policy as TOML, with its reasons as comments.
std::string advice_toml(const AdviceAsked& asked, const Advice& advice);

/// Something that two policies answer differently.
struct Disagreement {
    std::string_view what;  ///< "matmuls read"
    std::string have, advised;
    std::string_view why, source;
};
/// Both policies were resolved against the same model. `config` is what `have` was imported from; null for a policy.
std::vector<Disagreement> disagreements(const policy::ResolvedPolicy& have, const policy::ResolvedPolicy& advised,
                                        const ResolvedConfig* config = nullptr);

}  // namespace macheps::configs
