// SPDX-License-Identifier: Apache-2.0
// Error messages and symptoms of training, with their causes. The rows are in one file for each group of programs
// (deepspeed.cpp). To add a row, add it to one of these files. To add a file, add its table to symptoms.cpp.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace macheps::configs {

/// Returns the elements of an array before the first empty one.
template <class Element, std::size_t most>
constexpr std::span<const Element> used_rows(const Element (&rows)[most]) {
    std::size_t count = 0;
    while (count < most && !rows[count].empty()) ++count;
    return std::span(rows).first(count);
}

/// One possible cause of a symptom. Lists of ids are separated by blanks.
struct SymptomCause {
    std::string_view text{};
    /// Ids of the findings that report this cause: "deepspeed/floor-raises". "*/no-master" is the rule `no-master` of
    /// any framework.
    std::string_view rules{};
    std::string_view diagnoses{};  ///< ids of the diagnoses of a run that report this cause
    std::string_view faults{};     ///< ids of the rows of history/history.hpp
    std::string_view checks{};     ///< ids of checks (checks.hpp) that show whether this is the cause, the best first

    constexpr bool empty() const { return text.empty(); }
};

/// A symptom, or a group of symptoms with the same causes. The arrays are filled from the front.
struct SymptomRow {
    std::string_view id;     ///< permanent: "ds-floor"
    std::string_view title;  ///< a short statement of what happens
    /// Texts that have this symptom. If `source` is not empty, a program prints them, and they are quoted verbatim.
    /// Otherwise they are words of users.
    std::string_view text_rows[18];
    std::string_view source{};          ///< package and file that print the texts; empty for words of users
    SymptomCause cause_rows[10]{};      ///< the most frequent cause first
    std::string_view remedy_rows[4]{};  ///< things to try, in this order
    /// Arguments of `macheps` that show the symptom or its cause. CONFIG is the user's config, and RUN is a run
    /// directory or a training log. Empty if macheps cannot show it.
    std::string_view command{};

    std::span<const std::string_view> texts() const { return used_rows(text_rows); }
    std::span<const SymptomCause> causes() const { return used_rows(cause_rows); }
    std::span<const std::string_view> remedies() const { return used_rows(remedy_rows); }
};

/// All rows. Rows with words of users follow the rows with printed texts.
std::vector<const SymptomRow*> symptom_rows();

/// The tables, one for each group of programs.
std::span<const SymptomRow> deepspeed_symptoms();
std::span<const SymptomRow> transformers_symptoms();
std::span<const SymptomRow> accelerate_symptoms();
std::span<const SymptomRow> axolotl_symptoms();
std::span<const SymptomRow> llamafactory_symptoms();
std::span<const SymptomRow> megatron_symptoms();
std::span<const SymptomRow> torch_symptoms();
std::span<const SymptomRow>
library_symptoms();                           ///< Transformer Engine, bitsandbytes, FlashAttention and smaller trainers
std::span<const SymptomRow> word_symptoms();  ///< words of users
std::span<const SymptomRow> setting_symptoms();  ///< words of users about settings without an effect

}  // namespace macheps::configs
