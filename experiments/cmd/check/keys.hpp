// SPDX-License-Identifier: Apache-2.0
// Turns the keys of declarations and of checks into options of a verb.
#pragma once
#include "experiments/check/declare/declare.hpp"
#include "experiments/check/options.hpp"
#include "experiments/cmd/command.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::cmd::checks {

/// The keys of a table that the command line gives. A key is not given if its text is empty or its flag is not set.
struct GivenKeys {
    explicit GivenKeys(std::size_t keys) : flags(keys), texts(keys), lists(keys) {}

    std::deque<bool> flags;
    std::deque<std::string> texts;
    std::deque<std::vector<std::string>> lists;  ///< for keys that repeat
};

inline std::string option_name(std::string_view key) {
    std::string text = "--" + std::string(key);
    std::replace(text.begin(), text.end(), '_', '-');
    return text;
}

/// Calls `set` with each key that was given, and its text.
template <class Keys, class Set>
void for_each_given(const Keys& keys, const GivenKeys& given, Set set) {
    for (std::size_t i = 0; i < given.texts.size(); ++i) {
        if (given.flags[i]) set(keys[i], std::string("true"));
        if (!given.texts[i].empty()) set(keys[i], given.texts[i]);
        for (const std::string& text : given.lists[i]) set(keys[i], text);
    }
}

inline std::string default_of(const check::DeclareKey& key) { return key.default_text(); }
inline std::string default_of(const check::OptionKey& key) { return std::string(key.default_text); }

inline bool repeats(const check::DeclareKey&) { return false; }
inline bool repeats(const check::OptionKey& key) { return key.repeats; }

/// Adds an option for each key. `help_of` returns the help text of a key.
template <class Keys, class Help>
void describe_keys(Command& verb, const Keys& keys, GivenKeys& given, Help help_of) {
    for (std::size_t i = 0; i < given.texts.size(); ++i) {
        const auto& key = keys[i];
        const std::string name = option_name(key.name);
        if (key.takes == check::DeclareKey::Takes::flag) {
            verb.flag(name, given.flags[i], help_of(key));
            continue;
        }
        const std::string help_text = help_of(key);
        Option option = repeats(key) ? verb.option(name, given.lists[i], help_text).repeats()
                                     : verb.option(name, given.texts[i], help_text);
        option.takes(std::string(key.value).c_str());
        if (key.words != nullptr) {
            const std::vector<std::string_view> words = key.words();
            option.one_of({words.begin(), words.end()});
        }
        if (const std::string text = default_of(key); !text.empty()) option.default_text(text);
    }
}

template <class Keys>
void describe_keys(Command& verb, const Keys& keys, GivenKeys& given) {
    describe_keys(verb, keys, given, [](const auto& key) { return std::string(key.help); });
}

}  // namespace macheps::cmd::checks
