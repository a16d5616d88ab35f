// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/frame/verb_tree.hpp"

namespace macheps::cmd {

namespace {

void collect(const VerbEntry& verb, std::vector<const VerbEntry*>& list) {
    list.push_back(&verb);
    for (const VerbEntry& below : verb.verbs) collect(below, list);
}

}  // namespace

std::string VerbEntry::name() const {
    std::string text;
    for (const std::string& word : path) text += (text.empty() ? "" : " ") + word;
    return text;
}

std::vector<const VerbEntry*> all_verbs(const VerbEntry& root) {
    std::vector<const VerbEntry*> list;
    collect(root, list);
    return list;
}

}  // namespace macheps::cmd
