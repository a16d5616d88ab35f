// SPDX-License-Identifier: Apache-2.0
// Every word that a policy file may hold, read from the rows that the parser reads: the language documents itself.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace macheps::policy {

struct PolicyWord {
    std::string of;  ///< what the word belongs to, where its group has several: a kind of site, a loss scaler, a key
    std::string name;
    std::string initial{};  ///< its value unless a policy says another; empty where it has none
    std::string source{}, summary{};
};

/// Words that stand in the same place of a policy file.
struct PolicyWordGroup {
    std::string_view name;   ///< `slots`
    std::string_view title;  ///< where such a word stands
    std::vector<PolicyWord> words;
};

std::vector<PolicyWordGroup> policy_words();

/// Lines that people read: a title for each group, then one line for each word.
std::string policy_words_text(const std::vector<PolicyWordGroup>& groups);

}  // namespace macheps::policy
