// SPDX-License-Identifier: Apache-2.0
// History of numeric faults and changed defaults of training frameworks and libraries, by release. A row says in which
// releases a config computes something else than its author expects. The rows are in one file for each framework
// (deepspeed.cpp). To add a row, add it to the table of its framework. To add a table, add it to history.cpp.
#pragma once
#include "experiments/configs/framework.hpp"

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::configs {

/// How the facts of a row were established.
enum class FaultEvidence : std::uint8_t {
    run,     ///< the released package was run with a known gradient
    read,    ///< the released sources of the last bad and the first good release were read
    thread,  ///< a public report says so; the source was not read
};
std::string_view to_string(FaultEvidence evidence);

/// One fault or change of a default.
struct FaultRow {
    std::string_view id;                    ///< permanent: "ds-z2-last-micro-batch"
    std::string_view package;               ///< the package with the fault: "deepspeed", "peft"
    std::string_view first_bad{};           ///< first release with the fault; empty if the oldest release has it
    std::string_view first_good{};          ///< first release without it; empty if no release is known to be without it
    std::string_view newest_seen{};         ///< if `first_good` is empty: the newest release in which it was seen
    bool is_change = false;                 ///< a deliberate change of behaviour, and no fault
    FindingCode code = FindingCode::error;  ///< error, warning or note
    std::string_view trigger{};             ///< the config that has the fault, in words: "ZeRO 2, accumulation > 1"
    std::initializer_list<std::string_view> keys{};  ///< keys that `holds` reads; the user should change the first
    /// Importers in whose context `holds` is called, separated by spaces. Empty: only the importer of `package`.
    std::string_view importers{};
    /// Returns whether the config has the fault in the releases of the row. Versions of the row's package have already
    /// been compared. Null if no config shows it: the row is then reported only if the user names the version of the
    /// package.
    bool (*holds)(const ImportContext&) = nullptr;
    /// A condition that no config shows, such as "more than one rank trains". The finding is then a warning at most,
    /// and its sentence begins with the condition. A row without `holds` has a question.
    std::string_view question{};
    /// Returns a condition that this config leaves open, or an empty text. Null if no config leaves one open. A row
    /// with `asks` has no `question`.
    std::string_view (*asks)(const ImportContext&) = nullptr;
    /// Whether only models whose forward method takes arguments of the loss have the fault.
    bool needs_loss_arguments = false;
    std::string_view computes{};     ///< what is computed instead
    std::string_view consequence{};  ///< what a user sees
    std::string_view remedy{};       ///< what to do, in words
    /// Overrides, as words of a command line, after which the config no longer has the fault:
    /// "zero_optimization.stage=1". Empty if only another release helps. A test applies them and imports the config
    /// again.
    std::string_view cure{};
    std::string_view sentence{};   ///< the message of the finding; {v} is the version that the config runs with
    std::string_view signature{};  ///< what a log of such a run shows
    /// Rules of importers, separated by spaces, that report the same fact. Of the findings of these rules and of the
    /// row, only the most severe is kept.
    std::string_view finding{};
    FaultEvidence evidence = FaultEvidence::read;
    std::string_view seen{};    ///< what was run or read, with the figures
    std::string_view source{};  ///< files with lines, issues and pull requests
    std::string_view sample{};  ///< the smallest config that has the fault, as JSON or YAML, for the first importer
    std::string_view sample_device{};  ///< device profile with which the sample has the fault; empty: h100
};

/// All rows, ordered by package.
std::vector<const FaultRow*> fault_rows();
/// Returns the packages of the rows, in their order.
std::vector<std::string_view> fault_packages();
/// Returns nullptr if there is no such row.
const FaultRow* find_fault(std::string_view id);

/// Returns whether a release of the row's package has the fault.
bool has_fault(const FaultRow& row, FrameworkVersion version);

/// Returns the importers in whose context `holds` is called, separated by spaces.
std::string_view importers_of(const FaultRow& row);

/// Reports each row whose `holds` is true for the config of this context.
void report_history(ImportContext& context);
/// Reports each row without `holds` whose package has a version that the user named and that has the fault. Called once
/// for a whole config.
void report_faults_of_named_versions(ImportContext& context);

/// The tables, one for each group of packages.
std::span<const FaultRow> deepspeed_faults();
std::span<const FaultRow> deepspeed_scaler_faults();
std::span<const FaultRow> transformers_faults();
std::span<const FaultRow> accelerate_faults();
std::span<const FaultRow> trl_faults();
std::span<const FaultRow> axolotl_and_llamafactory_faults();
std::span<const FaultRow> torch_faults();
std::span<const FaultRow> library_faults();  ///< Liger, PEFT, torchao, bitsandbytes, Transformer Engine, FlashAttention
std::span<const FaultRow> trainer_faults();  ///< Megatron, Composer, Lightning, verl, torchtune, torchtitan

}  // namespace macheps::configs
