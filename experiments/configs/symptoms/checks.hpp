// SPDX-License-Identifier: Apache-2.0
// Checks that show whether a cause of a symptom is the cause of a user's problem, as lines of code for the program that
// the user trains with. To add a check, add a row to the table in checks.cpp, and name it in the causes (symptoms.hpp).
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::configs {

/// Marks a check that makes no sense for a program.
inline constexpr std::string_view no_lines = "-";

/// A check. Empty lines of a program mean that the lines for torch apply.
struct CheckRow {
    std::string_view id;         ///< "first-nan"
    std::string_view question;   ///< the purpose of the check, and how to read its result
    std::string_view torch;      ///< Python; `model`, `loader`, `batch` and `optimizer` are those of the user
    std::string_view trainer{};  ///< Python for the Trainer of Transformers: fields of TrainingArguments, and `trainer`
    std::string_view deepspeed{};  ///< members of the JSON config if the lines begin with a quote, else Python
    std::string_view lightning{};  ///< Python for Lightning, with `trainer`
};

std::span<const CheckRow> check_rows();

/// A program for which there are lines of code.
struct CheckStack {
    std::string_view title;             ///< "Transformers Trainer"
    std::string_view CheckRow::*lines;  ///< the column of its lines
    std::string_view frameworks;        ///< names of the importers whose configs it reads, separated by blanks
    std::string_view logs;              ///< the beginning of the names of the forms of its logs; empty if none
};
std::span<const CheckStack> check_stacks();
/// Returns the program that reads the configs of a framework, or null if no lines are written for it.
const CheckStack* stack_of_framework(std::string_view framework);
/// Returns the program that writes logs of a form, or null.
const CheckStack* stack_of_log(std::string_view form);

/// A check for one program.
struct Check {
    std::string text;                  ///< the question, or advice in words
    std::vector<std::string> lines{};  ///< code; may be empty
};
/// Returns a check for a program, or nothing if it makes no sense there. `rate` is a tenth of the learning rate.
std::optional<Check> find_check(std::string_view id, const CheckStack& stack, double rate);

}  // namespace macheps::configs
