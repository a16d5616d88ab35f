// SPDX-License-Identifier: Apache-2.0
// Lists every word that a policy file may contain. The words are taken from the tables that the parser uses, so the
// list is always complete.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace macheps::policy {

struct PolicyWord {
    std::string of;  ///< kind of site, loss scaler or key to which the word belongs; empty if its group has only one
    std::string name;
    std::string initial{};  ///< default value of the key; empty if the word has no default
    std::string source{}, summary{};
};

/// Words that can occur at the same place of a policy file.
struct PolicyWordGroup {
    std::string_view name;   ///< `slots`
    std::string_view title;  ///< where such a word occurs
    std::vector<PolicyWord> words;
};

std::vector<PolicyWordGroup> policy_words();

/// Returns text for people: a title for each group, then one line for each word.
std::string policy_words_text(const std::vector<PolicyWordGroup>& groups);

}  // namespace macheps::policy
