// SPDX-License-Identifier: Apache-2.0
// Finds the symptoms that a text describes. The text is an error message, a part of a log, or a sentence.
#pragma once
#include "experiments/configs/symptoms/symptoms.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::configs {

/// How a text matches a symptom. The best kind is first.
enum class SymptomMatchKind : std::uint8_t {
    exact,  ///< the text contains one of the texts of the symptom; case and line breaks are ignored
    run,    ///< the texts have consecutive words in common; numbers, paths, quoted names and dtypes may differ
    words,  ///< the texts have most words in common, in any order
};
/// Returns "exact", "run" or "words".
std::string_view to_string(SymptomMatchKind kind);

struct SymptomMatch {
    const SymptomRow* row = nullptr;
    SymptomMatchKind kind = SymptomMatchKind::words;
    std::string_view text;             ///< the text of the symptom that matches
    std::string matched;               ///< the words of the given text that match
    std::size_t first = 0, count = 0;  ///< place of `matched` in the words of the given text; unknown if `count` is 0
    std::size_t words = 0;             ///< number of words in common
    std::size_t same_marks = 0;        ///< number of equal numbers, paths, quoted names and dtypes, besides the words
};

/// Returns at most `most` symptoms, the best first, or none if nothing is similar enough. Each part of the text is
/// explained by the symptoms that have most words in common with it.
std::vector<SymptomMatch> match_symptoms(std::string_view text, std::size_t most = 3);

/// Returns the symptoms that have most words in common with the text, even if they have few: at most `count`, and none
/// without a common word.
std::vector<const SymptomRow*> nearest_symptoms(std::string_view text, std::size_t count = 5);

}  // namespace macheps::configs
