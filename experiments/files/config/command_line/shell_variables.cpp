// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/config/command_line/shell_variables.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace macheps::files {

namespace {

/// Appends a known value to a known variable.
void append_value(ShellValue& variable, ShellValue value, const ConfigPlace& place) {
    if (value.is_array) {
        if (!variable.is_array && variable.items == std::vector<std::string>{""}) variable.items.clear();
        variable.items.insert(variable.items.end(), value.items.begin(), value.items.end());
        variable.is_array = true;
    } else if (variable.items.empty()) {
        variable.items = std::move(value.items);
    } else {
        variable.items.front() += value.items.front();
    }
    if (variable.items.size() > config_value_limit) config_text::too_many(place);
    if (!variable.items.empty() && variable.items.front().size() > max_shell_word_bytes) {
        throw Error({.what = "a variable is too long", .where = to_string(place), .fix = "shorten it"});
    }
    if (variable.condition.empty()) variable.condition = std::move(value.condition);
}

}  // namespace

Declaration declaration_of(const std::vector<ArgumentWord>& words) {
    Declaration how;
    const bool is_export = !words.empty() && words.front().text == "export";
    for (const ArgumentWord& word : words) {
        const bool adds = word.text.starts_with('-');
        if (!adds && !word.text.starts_with('+')) continue;
        const auto has = [&](std::string_view letters) {
            return word.text.find_first_of(letters) != std::string::npos;
        };
        how.exports = how.exports || (adds && has("x"));
        how.unexports = how.unexports || (is_export ? adds && has("n") : !adds && has("x"));
        how.converts = how.converts || (!is_export && adds && has("ilunc"));
    }
    how.exports = (how.exports || is_export) && !how.unexports;
    return how;
}

const ShellValue* ShellVariables::find(std::string_view name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? nullptr : &found->second;
}

void ShellVariables::assign(ShellAssignment one, const std::string& decides, const ConfigPlace& place) {
    ShellValue& variable = values_[one.name];
    const std::string earlier = one.appends ? variable.condition : std::string{};
    const bool are_known = variable.unknown.empty() && one.value.unknown.empty();
    if (one.appends && are_known) {
        append_value(variable, std::move(one.value), place);
    } else if (are_known && variable.is_array && !variable.items.empty() && !one.value.is_array) {
        variable.items.front() = one.value.items.front();  // an array without an index is its first item
        if (variable.condition.empty()) variable.condition = std::move(one.value.condition);
    } else if (!one.appends || variable.unknown.empty()) {
        variable = std::move(one.value);
    }
    if (variable.condition.empty()) variable.condition = decides.empty() ? earlier : decides;
    if (exports_assigned_) export_name(one.name, true, decides);
}

void ShellVariables::unset(const std::string& name, const std::string& decides) {
    if (decides.empty()) {
        values_.erase(name);
        exported_.erase(name);
    } else if (const auto found = values_.find(name); found != values_.end()) {
        found->second.condition = decides;
    }
}

void ShellVariables::set_arguments(ShellValue all) {
    std::erase_if(values_, [](const auto& one) { return std::isdigit(static_cast<unsigned char>(one.first.front())); });
    for (std::size_t i = 0; i < all.items.size(); ++i) {
        ShellValue one = all;
        one.items = {all.items[i]};
        set(fmt::to_string(i + 1), std::move(one));
    }
    all.is_array = true;
    set("@", std::move(all));
}

void ShellVariables::shift(std::size_t count, const std::string& decides) {
    const ShellValue* found = find("@");
    if (found == nullptr) return;
    ShellValue all = *found;
    if (count > all.items.size()) return;  // an error, which changes nothing
    all.items.erase(all.items.begin(), all.items.begin() + static_cast<std::ptrdiff_t>(count));
    if (!decides.empty()) all.condition = decides;
    set_arguments(std::move(all));
}

void ShellVariables::export_name(const std::string& name, bool is_exported, const std::string& decides) {
    const auto found = exported_.find(name);
    if (is_exported && (decides.empty() || found == exported_.end())) exported_.insert_or_assign(name, decides);
    if (is_exported || found == exported_.end()) return;
    if (decides.empty())
        exported_.erase(found);
    else
        found->second = decides;
}

void ShellVariables::set_environment(ShellCommand& command, const std::vector<ShellAssignment>& before) const {
    std::map<std::string, ShellValue, std::less<>> all;
    for (const auto& [name, decides] : exported_) {
        const ShellValue* value = find(name);
        if (value == nullptr) continue;
        ShellValue& copy = all.emplace(name, *value).first->second;
        if (copy.condition.empty()) copy.condition = decides;
    }
    for (const ShellAssignment& one : before) {
        ShellValue value = one.value;
        if (const ShellValue* earlier = one.appends ? find(one.name) : nullptr; earlier != nullptr) {
            value = *earlier;
            if (earlier->unknown.empty() && one.value.unknown.empty())
                append_value(value, one.value, command.place);
            else if (earlier->unknown.empty())
                value = one.value;
        }
        all.insert_or_assign(one.name, std::move(value));
    }
    for (const auto& [name, value] : all) {
        if (value.is_array) continue;  // a shell does not export arrays
        if (!value.unknown.empty())
            command.unknown_environment.push_back({name, value.unknown, value.reason, command.place});
        else if (!value.condition.empty())
            command.unknown_environment.push_back({name, {}, value.condition + " decides it", command.place});
        else
            command.environment.emplace(name, value.items.front());
    }
}

}  // namespace macheps::files
