// SPDX-License-Identifier: Apache-2.0
// Checks a config against the key tables of its framework. Reports keys that the framework or this version does not
// know, values of a wrong type, words that are not valid choices, and keys that affect no format, rounding or scale.
#include "core/text/nearest_name.hpp"
#include "core/text/split.hpp"
#include "experiments/configs/framework.hpp"
#include "experiments/configs/framework_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

namespace macheps::configs {

namespace {

using Kind = files::ConfigValue::Kind;

/// Returns whether `path` matches the path of a row. A part `*` of the row's path matches any key.
bool matches(std::string_view row, std::string_view path) {
    for (;;) {
        const std::size_t row_dot = row.find('.'), dot = path.find('.');
        const std::string_view part = row.substr(0, row_dot);
        if (part != "*" && part != path.substr(0, dot)) return false;
        if (row_dot == std::string_view::npos || dot == std::string_view::npos)
            return row_dot == std::string_view::npos && dot == std::string_view::npos;
        row.remove_prefix(row_dot + 1);
        path.remove_prefix(dot + 1);
    }
}

/// Returns whether the row describes a key inside the map at `path`.
bool is_below(std::string_view row, std::string_view path) {
    std::size_t parts = static_cast<std::size_t>(std::count(path.begin(), path.end(), '.')) + 1, at = 0;
    for (; parts > 0; --parts) {
        at = row.find('.', at);
        if (at == std::string_view::npos) return false;
        ++at;
    }
    return matches(row.substr(0, at - 1), path);
}

std::string_view leaf_of(std::string_view path) { return path.substr(path.rfind('.') + 1); }
std::string_view map_of(std::string_view path) {
    const std::size_t dot = path.rfind('.');
    return dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
}

std::string_view article_and_kind(const files::ConfigValue& value) {
    switch (value.kind) {
        case Kind::null:
            return "empty";
        case Kind::boolean:
            return "a boolean";
        case Kind::number:
            return "a number";
        case Kind::text:
            return "a text";
        case Kind::list:
            return "a list";
        case Kind::map:
            break;
    }
    return "a map";
}

/// Returns the text with which findings show a value: `'1e-5' (a text)` for a scalar, "a list" for a list and "a map"
/// for a map.
std::string shown(const files::ConfigValue& value) {
    if (value.is_list() || value.is_map()) return std::string(article_and_kind(value));
    return fmt::format("'{}' ({})", value.written, article_and_kind(value));
}

/// Formats a number so that YAML 1.1 reads it as a number. A number with an exponent also needs a decimal point.
std::string number_text(double number) {
    std::string text = fmt::format("{}", number);
    const std::size_t exponent = text.find('e');
    if (exponent != std::string::npos && text.find('.') == std::string::npos) text.insert(exponent, ".0");
    return text;
}

/// Returns the first key that contains the word, for example `loss_scale_window` for `windo`. Returns nothing for a
/// short word, because too many keys contain it.
std::string key_with(std::string_view word, const std::vector<std::string>& keys) {
    constexpr std::size_t fewest_letters = 5;
    if (word.size() < fewest_letters) return {};
    const auto found = std::find_if(keys.begin(), keys.end(),
                                    [&](const std::string& key) { return key.find(word) != std::string::npos; });
    return found == keys.end() ? std::string() : *found;
}

class KeyCheck {
  public:
    explicit KeyCheck(ImportContext& context)
        : context_(context),
          version_(context.version()),
          inert_(listed_names(context.framework().inert_keys)),
          known_(framework_key_text(context.framework().name)) {}

    void walk(const files::ConfigValue& map, const std::string& prefix) {
        for (const files::ConfigValue::Entry& entry : map.entries) {
            check(entry, prefix.empty() ? entry.key : fmt::format("{}.{}", prefix, entry.key));
        }
    }

  private:
    struct Found {
        const KeyRow* row = nullptr;  // the row for this version or, if there is none, the last row for another version
        bool is_of_version = false;
    };

    bool is_of_version(std::string_view since, std::string_view until) const {
        return (since.empty() || parse_version(since) <= version_) &&
               (until.empty() || version_ < parse_version(until));
    }

    Found find_row(std::string_view path) const {
        Found found;
        for (const KeyRow& row : context_.framework().keys) {
            if (found.is_of_version || !matches(row.path, path)) continue;
            found = {&row, is_of_version(row.since, row.until)};
        }
        return found;
    }

    bool has_keys_below(std::string_view path) const {
        const auto rows = context_.framework().keys;
        return std::any_of(rows.begin(), rows.end(), [&](const KeyRow& row) { return is_below(row.path, path); }) ||
               std::any_of(inert_.begin(), inert_.end(), [&](std::string_view key) { return is_below(key, path); });
    }

    bool is_inert_word(std::string_view path) const {
        return std::any_of(inert_.begin(), inert_.end(), [&](std::string_view key) { return matches(key, path); });
    }

    void check(const files::ConfigValue::Entry& entry, const std::string& path) {
        const Found found = find_row(path);
        if (found.row != nullptr) {
            if (!found.is_of_version) return unknown(entry, path, found.row->since, found.row->until);
            if (found.row->effect == KeyEffect::inert) return inert(entry, path);
            check_value(*found.row, entry, path);
            if (entry.value.is_map() && has_keys_below(path)) walk(entry.value, path);
            return;
        }
        if (is_inert_word(path)) return inert(entry, path);
        if (has_keys_below(path)) {
            constexpr KeyRow section{.path = "", .type = KeyType::map};
            if (entry.value.is_map()) return walk(entry.value, path);
            return wrong_type(section, entry, path, "a map");
        }
        if (const std::optional<FrameworkKey> known = find_framework_key(known_, path)) {
            if (is_of_version(known->since, known->until)) return inert(entry, path);
            return unknown(entry, path, known->since, known->until);
        }
        if (!context_.root_is_shared() && !is_shared(path)) unknown(entry, path, {}, {});
    }

    /// Returns whether the framework that delegated this config to the current framework has a key with this path.
    bool is_of_caller(std::string_view path) const {
        const Framework* caller = context_.shared_by();
        if (caller == nullptr) return false;
        return std::any_of(caller->keys.begin(), caller->keys.end(),
                           [&](const KeyRow& row) { return matches(row.path, path); }) ||
               find_framework_key(framework_key_text(caller->name), path).has_value();
    }

    /// Returns whether the root of the config is delegated to a framework that knows the key in any version. That
    /// framework then checks the key.
    bool is_shared(std::string_view path) const {
        const std::vector<const Framework*> others = sharing_frameworks(context_.framework());
        return std::any_of(others.begin(), others.end(), [&](const Framework* other) {
            return std::any_of(
                       other->keys.begin(), other->keys.end(),
                       [&](const KeyRow& row) { return matches(row.path, path) || is_below(row.path, path); }) ||
                   find_framework_key(framework_key_text(other->name), path).has_value();
        });
    }

    Finding& report(FindingCode code, std::string_view rule, const files::ConfigValue::Entry& entry,
                    const std::string& path, std::string message, std::string instead) {
        Finding& finding = context_.report(code, rule, {path}, std::move(message), std::move(instead));
        finding.place = entry.place;  // a dotted path cannot name a key that contains a dot itself
        return finding;
    }

    void inert(const files::ConfigValue::Entry& entry, const std::string& path) {
        if (is_of_caller(path)) return;  // the caller reports its own keys
        report(FindingCode::inert, "inert-key", entry, path,
               fmt::format("`{}` affects no format, rounding or scale", path), {});
    }

    void unknown(const files::ConfigValue::Entry& entry, const std::string& path, std::string_view since,
                 std::string_view until) {
        if (is_of_caller(path)) return;
        const Framework& framework = context_.framework();
        const bool is_late = !since.empty() && version_ < parse_version(since);
        const bool is_of_other_version = is_late || !until.empty();
        std::string instead = is_of_other_version ? "remove it" : remedy(path);
        const bool may_affect_precision =
            !is_of_other_version && instead == framework.unknown_remedy && names_precision(leaf_of(path));
        const bool refuses = framework.refuses_unknown != nullptr && framework.refuses_unknown(context_, path);
        const bool is_of_script = !is_of_other_version && context_.options().has_script_options;
        // A refusal of the framework is certain, whatever the key may mean. A script may add options.
        if (!is_of_other_version && (!refuses || is_of_script)) {
            if (may_affect_precision) return unknown_precision(entry, path);
            if (is_of_script) return script_option(entry, path);
        }
        if (may_affect_precision) instead = "check its name, which suggests that it may affect precision";
        // Without a list of all keys of the framework, the key may exist.
        if (!is_of_other_version && !refuses && known_.empty()) return not_in_tables(entry, path, instead);
        std::string message = fmt::format("{} {} does not know `{}`", framework.title, to_string(version_), path);
        if (is_late)
            message += fmt::format(", which was added in {}", since);
        else if (!until.empty())
            message += fmt::format(", which was removed in {}", until);
        message += refuses ? ", and refuses the config" : ", and ignores it";
        Finding& finding = report(FindingCode::unknown, is_of_other_version ? "key-of-other-version" : "unknown-key",
                                  entry, path, std::move(message), instead);
        finding.framework_refuses = refuses;
    }

    void not_in_tables(const files::ConfigValue::Entry& entry, const std::string& path, std::string instead) {
        if (instead == context_.framework().unknown_remedy) instead = "check its name: it is not part of the result";
        report(FindingCode::unknown, "unknown-key", entry, path,
               fmt::format("`{}` is not in macheps's tables for {} {}, which do not list every key", path,
                           context_.framework().title, to_string(version_)),
               std::move(instead));
    }

    void unknown_precision(const files::ConfigValue::Entry& entry, const std::string& path) {
        report(FindingCode::warning, "unknown-precision-key", entry, path,
               fmt::format(
                   "`{}` is not in macheps's tables for {} {}, and its name suggests that it may affect precision: "
                   "its effect is not part of the result",
                   path, context_.framework().title, to_string(version_)),
               {});
    }

    void script_option(const files::ConfigValue::Entry& entry, const std::string& path) {
        report(FindingCode::note, "script-option", entry, path,
               fmt::format("`{}` is an option of the script: its effect is not known here", path), {});
    }

    /// Suggests a replacement for an unknown key: the same name in another map, or the most similar name in the same
    /// map.
    std::string remedy(const std::string& path) const {
        std::vector<std::string> beside;
        std::string elsewhere;
        const auto consider = [&](std::string_view key) {
            if (map_of(key) == map_of(path))
                beside.emplace_back(leaf_of(key));
            else if (leaf_of(key) == leaf_of(path) && elsewhere.empty() && key.find('*') == std::string_view::npos)
                elsewhere = key;
        };
        for (const KeyRow& row : context_.framework().keys) {
            if (is_of_version(row.since, row.until)) consider(row.path);
        }
        for (const std::string_view key : inert_) consider(key);
        for (const FrameworkKey& key : framework_keys(known_)) {
            if (is_of_version(key.since, key.until)) consider(key.path);
        }
        for (const Framework* other : sharing_frameworks(context_.framework())) {
            for (const KeyRow& row : other->keys) consider(row.path);
            for (const FrameworkKey& key : framework_keys(framework_key_text(other->name))) consider(key.path);
        }
        if (!elsewhere.empty()) return fmt::format("use `{}`", elsewhere);
        std::string nearest = nearest_name(leaf_of(path), beside);
        // Among hundreds of keys, one is always nearest. If it differs in many letters, the user did not mean it.
        const std::size_t max_edits = std::max<std::size_t>(2, leaf_of(path).size() / 4);
        if (edit_distance(leaf_of(path), nearest) > max_edits) nearest.clear();
        if (nearest.empty()) nearest = key_with(leaf_of(path), beside);
        if (nearest.empty()) return std::string(context_.framework().unknown_remedy);
        const std::string_view map = map_of(path);
        return fmt::format("did you mean `{}{}{}`?", map, map.empty() ? "" : ".", nearest);
    }

    void wrong_type(const KeyRow& row, const files::ConfigValue::Entry& entry, const std::string& path,
                    std::string_view wanted) {
        const Framework& framework = context_.framework();
        std::optional<FindingCode> code = FindingCode::error;
        if (framework.judges_type != nullptr) code = framework.judges_type(context_, row, entry.value);
        if (!code) return;
        report(*code, "wrong-type", entry, path,
               fmt::format("`{}` is {}, but {} expects {}", path, shown(entry.value), framework.title, wanted),
               fmt::format("give {}", wanted));
    }

    void check_value(const KeyRow& row, const files::ConfigValue::Entry& entry, const std::string& path) {
        const files::ConfigValue& value = entry.value;
        if (value.is_null() || (value.is_text() && value.written == "auto")) return;
        switch (row.type) {
            case KeyType::flag:
                return check_flag(row, entry, path);
            case KeyType::number:
                return check_number(row, entry, path, "a number");
            case KeyType::count:
                return check_number(row, entry, path, "a whole number");
            case KeyType::text:
                if (value.is_list() || value.is_map()) wrong_type(row, entry, path, "a text");
                return;
            case KeyType::choice:
                return check_choice(row, entry, path);
            case KeyType::dtype:
                if (dtype_letter(value.written) != 0) return;
                if (!value.is_text()) return wrong_type(row, entry, path, "the name of a dtype");
                report(FindingCode::error, "no-such-dtype", entry, path,
                       fmt::format("`{}` is '{}', which is not the name of a dtype", path, value.written),
                       "fp32, fp16 or bf16");
                return;
            case KeyType::list:
                if (!value.is_list()) wrong_type(row, entry, path, "a list");
                return;
            case KeyType::map:
                if (!value.is_map()) wrong_type(row, entry, path, "a map");
                return;
            case KeyType::any:
                return;
        }
    }

    void check_flag(const KeyRow& row, const files::ConfigValue::Entry& entry, const std::string& path) {
        const files::ConfigValue& value = entry.value;
        if (value.is_boolean() || (value.is_number() && (value.number == 0 || value.number == 1))) return;
        const std::string word = lowered(value.written);
        constexpr std::string_view words[] = {"true", "false", "yes", "no", "on", "off"};
        const bool is_spelled =
            value.is_text() && std::find(std::begin(words), std::end(words), word) != std::end(words);
        if (!is_spelled) return wrong_type(row, entry, path, "true or false");
        const Framework& framework = context_.framework();
        const bool reads = framework.reads_quoted_booleans != nullptr && framework.reads_quoted_booleans(context_);
        if (!value.quoted || reads) return;
        report(FindingCode::warning, "quoted-boolean", entry, path,
               fmt::format("\"{}\" in quotes is a non-empty string, which counts as true: `{}` is on", value.written,
                           path),
               fmt::format("{} without quotes", word));
    }

    void check_number(const KeyRow& row, const files::ConfigValue::Entry& entry, const std::string& path,
                      std::string_view wanted) {
        const files::ConfigValue& value = entry.value;
        const std::optional<double> number = files::written_number(value);
        if (!number || (row.type == KeyType::count && std::isfinite(*number) && *number != std::floor(*number)))
            return wrong_type(row, entry, path, wanted);
        if (!value.is_text()) return;
        const std::string why =
            value.quoted ? "is in quotes"
                         : "is a string in YAML 1.1, where a number needs a decimal point and a signed exponent";
        report(FindingCode::contradiction, "text-number", entry, path,
               fmt::format("`{}` is {}: it {}, and is converted to {}", path, value.written, why, *number),
               number_text(*number));
    }

    void check_choice(const KeyRow& row, const files::ConfigValue::Entry& entry, const std::string& path) {
        const files::ConfigValue& value = entry.value;
        const std::vector<std::string_view> choices = listed_names(row.choices);
        if (std::find(choices.begin(), choices.end(), value.written) != choices.end() && !value.is_boolean()) return;
        if (!value.is_text()) return wrong_type(row, entry, path, fmt::format("one of {}", row.choices));
        const std::string nearest = nearest_name(value.written, choices);
        report(FindingCode::error, "no-such-choice", entry, path,
               fmt::format("`{}` is '{}', which is not one of {}", path, value.written, row.choices),
               nearest.empty() ? fmt::format("one of {}", row.choices) : nearest);
    }

    ImportContext& context_;
    FrameworkVersion version_;
    std::vector<std::string_view> inert_;
    std::string_view known_;
};

}  // namespace

void check_keys(ImportContext& context) { KeyCheck(context).walk(context.root(), ""); }

bool names_precision(std::string_view key) {
    const std::string name = lowered(key);
    for (const std::string_view part : {"dtype", "precision", "fp16", "bf16", "float", "quant"}) {
        if (name.find(part) != std::string::npos) return true;
    }
    // These are parts of many other words, such as "sample" and "behalf": they count only where a word begins.
    for (const std::string_view word : {"amp", "half", "scale"}) {
        for (std::size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
            const bool begins = at == 0 || !std::isalnum(static_cast<unsigned char>(name[at - 1]));
            const std::size_t end = at + word.size();
            const bool ends = end == name.size() || !std::isalnum(static_cast<unsigned char>(name[end]));
            if (begins && (ends || word != "amp")) return true;
        }
    }
    return false;
}

}  // namespace macheps::configs
