// SPDX-License-Identifier: Apache-2.0
// Decides which causes of a symptom apply to a config.
#pragma once
#include "experiments/configs/import.hpp"
#include "experiments/configs/symptoms/symptoms.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::configs {

struct FaultRow;  // history/history.hpp

enum class CauseVerdict : std::uint8_t {
    open,      ///< the config does not decide it
    applies,   ///< the import of the config reports a rule or a fault of the cause
    excluded,  ///< the import would report a rule or a fault of the cause, but does not
};
/// Returns "open", "applies" or "excluded".
std::string_view to_string(CauseVerdict verdict);

struct JudgedCause {
    const SymptomCause* cause = nullptr;
    CauseVerdict verdict = CauseVerdict::open;
    /// Empty if the verdict is `open`, unless the import contradicts a message that a program printed.
    std::string reason{};
};

/// An engine for which rules are written. A rule whose name contains the name of the engine can fire only for configs
/// that use it.
struct RuleEngine {
    std::string_view name;   ///< "fsdp2"
    std::string_view marks;  ///< conditions (recognition/marks.hpp), one of which a config with the engine fulfils
};

/// Returns the engine that a rule needs, or nullptr if it needs none. Rules "X-without-fsdp2" and "deepspeed-and-fsdp"
/// need none: the first fires if the engine is missing, and the second reports a contradiction, which is absent without
/// the engine. A rule of the engine's own importer needs none either.
const RuleEngine* engine_of_rule(std::string_view rule);

/// Imports a config and judges causes by its findings. If the user did not give the device or the checkpoint, the
/// config is also imported for every other device and checkpoint. A cause that one of them has is not excluded.
class CauseJudge {
  public:
    /// Throws Error as import_config does.
    CauseJudge(std::span<const std::string> files_and_overrides, ImportOptions options);

    JudgedCause judge(const SymptomCause& cause) const;
    /// Judges the causes of an entry. If a program prints its texts, one of the causes is true of the run, so an import
    /// that excludes all of them does not describe the run, and excludes none.
    std::vector<JudgedCause> judge(const SymptomRow& row) const;

  private:
    bool is_tested_rule(std::string_view rule) const;
    bool uses_engine_of(std::string_view rule) const;
    bool is_tested_fault(std::string_view id) const;

    ImportOptions options_;
    files::ConfigFile config_;
    ImportResult result_;
    std::vector<ImportResult> others_{};
};

/// Returns the releases that have a fault: "deepspeed 0.17.6 to before 0.18.3", "deepspeed from 0.18.3", "deepspeed
/// before 0.15.2" or "all releases of deepspeed".
std::string releases_text(const FaultRow& row);
/// Returns the id of a fault, followed by its releases if the history contains it.
std::string fault_text(std::string_view id);

/// Returns whether the rule of a finding matches a rule of a cause, such as "*/no-master".
bool is_rule(std::string_view finding_rule, std::string_view cause_rule);

}  // namespace macheps::configs
