// SPDX-License-Identifier: Apache-2.0
// Turns the keys of declarations and of checks into options of a verb.
#pragma once
#include "experiments/check/declare/declare.hpp"
#include "experiments/check/declare/operations.hpp"
#include "experiments/check/options.hpp"
#include "experiments/cmd/command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::cmd::checks {

/// The values that the command line gives to the keys of a table. The index of a value is that of its key. A key is not
/// given if its text is empty and its flag is not set.
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

/// Adds the option of `key`, whose index in its table is `i`.
template <class Key>
void describe_key(Command& verb, const Key& key, GivenKeys& given, std::size_t i, const std::string& help) {
    const std::string name = option_name(key.name);
    if (key.takes == check::DeclareKey::Takes::flag) {
        verb.flag(name, given.flags[i], help);
        return;
    }
    Option option =
        repeats(key) ? verb.option(name, given.lists[i], help).repeats() : verb.option(name, given.texts[i], help);
    option.takes(std::string(key.value).c_str());
    if (key.words != nullptr) {
        const std::vector<std::string_view> words = key.words();
        option.one_of({words.begin(), words.end()});
    }
    if (const std::string text = default_of(key); !text.empty()) option.default_text(text);
}

/// Returns the operation that `--help OP` names, or null if there is none.
inline const check::Operation* help_topic(Command& verb) {
    std::vector<std::string> operations;
    for (const check::Operation& operation : check::all_operations()) operations.emplace_back(operation.name);
    const std::string topic = verb.help_topic("--op", std::move(operations));
    return topic.empty() ? nullptr : &check::find_operation(topic);
}

/// Adds the options of a declaration. --help lists the options of `operation`, or the most used options if `operation`
/// is null. The help text of a key is `help_of(key)`.
template <class Help>
void describe_declaration(Command& verb, const check::Operation* operation, GivenKeys& given, Help help_of) {
    const auto& keys = check::declare_keys();
    for (const bool is_listed : {true, false}) {
        if (!is_listed)
            verb.hidden_group("Declarations of single operations");
        else if (operation != nullptr)
            verb.group(fmt::format("What the kernel declares for {}", operation->name));
        else
            verb.group("What the kernel declares (--help OP lists everything that an operation can declare)");
        for (std::size_t i = 0; i < keys.size(); ++i) {
            if ((operation != nullptr ? keys[i].applies(*operation, keys[i]) : keys[i].is_common) == is_listed)
                describe_key(verb, keys[i], given, i, help_of(keys[i]));
        }
    }
}

}  // namespace macheps::cmd::checks
