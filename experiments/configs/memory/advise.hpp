// SPDX-License-Identifier: Apache-2.0
// Advises which policy suits a device and a goal. Each row of advice has its reasons, points to watch, and their
// sources.
//
// The rows follow the decision tables of the guides that docs/guides.md quotes. Mistakes in these guides are corrected.
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

/// Purpose of the training run or forward pass.
enum class Goal : std::uint8_t { pretrain, finetune, lora, inference };

struct GoalRow {
    std::string_view name;
    Goal goal;
};
std::span<const GoalRow> goals();

/// A request for advice.
struct AdviceAsked {
    const DeviceProfile* device = nullptr;
    Goal goal = Goal::pretrain;
    std::optional<double> params{};     ///< number of parameters; if unknown, advice that depends on it is omitted
    bool trained_in_bf16 = false;       ///< the weights from which the training starts were trained in bf16
    std::vector<std::int64_t> sides{};  ///< dimensions of the weight matrices; empty if unknown
};

/// A sentence of advice, and its source.
struct Statement {
    std::string_view text, source;
    bool (*applies)(const AdviceAsked& asked) = nullptr;  ///< null: always
};

struct AdviceRow {
    std::string_view name;    ///< "bf16-autocast"
    std::string_view when;    ///< the condition in words
    std::string_view preset;  ///< name of the preset, without the name of a device
    bool (*applies)(const AdviceAsked& asked);
    std::span<const Statement> reasons, watch;
};

/// Returns all rows, best advice first.
std::span<const AdviceRow> advice_rows();

/// A requirement of some formats on the dimensions of matmuls.
struct DimensionRule {
    std::string_view formats;
    std::int64_t multiple_of;
    std::string_view text, source;
    bool (*is_native)(const DeviceProfile& device);
};
std::span<const DimensionRule> dimension_rules();
/// Returns the dimensions that are not multiples of `rule.multiple_of`.
std::vector<std::int64_t> unfit_sides(const DimensionRule& rule, std::span<const std::int64_t> sides);

/// A row of advice that applies to a request. `reasons` and `watch` contain only those statements of the row that also
/// apply.
struct Advice {
    const AdviceRow* row = nullptr;
    std::string policy;  ///< name of a preset; the device-specific preset if it exists
    std::vector<Statement> reasons, watch;
};
/// Returns the advice for a request: the best first, then alternatives. The result is never empty.
std::vector<Advice> advise(const AdviceAsked& asked);
/// Returns the advised policy as TOML, with its reasons as comments.
std::string advice_toml(const AdviceAsked& asked, const Advice& advice);

/// A question, such as which format matmuls read, to which the policy `have` and the advised policy give different
/// answers.
struct Disagreement {
    std::string_view what;  ///< "matmuls read"
    std::string have, advised;
    std::string_view why, source;
};
/// Returns the questions that disagreements() compares: "matmuls read".
std::vector<std::string_view> compared_questions();
/// Compares two policies that were resolved for the same model. `config` is the config that `have` was imported from,
/// or null if it was not imported.
std::vector<Disagreement> disagreements(const policy::ResolvedPolicy& have, const policy::ResolvedPolicy& advised,
                                        const ResolvedConfig* config = nullptr);

}  // namespace macheps::configs
