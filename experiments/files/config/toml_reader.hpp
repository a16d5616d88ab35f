// SPDX-License-Identifier: Apache-2.0
// Typed access to the values of a TOML file that a user writes. Each function returns the value, or throws Error with
// file, line, column and remedy. The reader does not depend on the purpose of the file.
#pragma once
#include "core/error.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/nesting.hpp"
#include "experiments/files/config/source_place.hpp"
#include "experiments/files/config/toml_depth.hpp"
#include "experiments/files/config/toml_lines.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::files {

/// Names that are allowed at one place of a file, in the order in which errors list them.
using Names = std::vector<std::string_view>;

inline SourcePlace place_of(const toml::source_region& source) { return {source.begin.line, source.begin.column}; }
inline SourcePlace place_of(const toml::node& node) { return place_of(node.source()); }

class TomlReader {
  public:
    /// `source` is the name of the file in errors: a path, or `preset NAME`. `starts` contains, for each line of
    /// `text`, the place where it begins in the user's file. It may be empty if `text` is the unchanged text of the
    /// file.
    TomlReader(std::string_view text, std::string source, std::vector<TomlLines::Start> starts = {})
        : text_(text), source_(std::move(source)), starts_(std::move(starts)) {}

    toml::table document() const {
        if (const auto line = toml_nested_too_deep(text_)) {
            throw Error({.what = fmt::format("brackets and dots nest deeper than {} levels", max_levels),
                         .where = fmt::format("{}:{}", source_, in_file({static_cast<std::uint32_t>(*line), 1}).line),
                         .fix = "use fewer levels"});
        }
        try {
            return toml::parse(text_, source_);
        } catch (const toml::parse_error& error) {
            throw Error({.what = std::string(error.description()),
                         .where = where(place_of(error.source())),
                         .fix = "write valid TOML 1.0"});
        }
    }

    /// Returns a place in words: "my.toml:3:7", or "my.toml:3:7 (forward.a)".
    std::string where(SourcePlace at, std::string_view what = {}) const {
        const SourcePlace from = in_file(at);
        const std::string place = fmt::format("{}:{}:{}", source_, from.line, from.column);
        return what.empty() ? place : fmt::format("{} ({})", place, what);
    }
    std::string where(const toml::node& node, std::string_view what) const { return where(place_of(node), what); }

    /// Converts a place in the parsed text to a place in the user's file.
    SourcePlace in_file(SourcePlace at) const {
        if (at.line == 0 || at.line > starts_.size()) return at;
        const TomlLines::Start& start = starts_[at.line - 1];
        return {start.line, start.column + (at.column > 0 ? at.column - 1 : 0)};
    }

    [[noreturn]] void wrong_type(const toml::node& node, std::string_view key, std::string_view wanted) const {
        throw Error({.what = fmt::format("'{}' is {}", key, kind_of(node)),
                     .where = where(node, key),
                     .fix = fmt::format("give {}", wanted)});
    }

    const toml::table& table(const toml::node& node, std::string_view key) const {
        if (!node.is_table()) wrong_type(node, key, "a table");
        return *node.as_table();
    }
    std::string text(const toml::node& node, std::string_view key) const {
        if (!node.is_string()) wrong_type(node, key, "a string");
        return node.as_string()->get();
    }
    bool flag(const toml::node& node, std::string_view key) const {
        if (!node.is_boolean()) wrong_type(node, key, "true or false");
        return node.as_boolean()->get();
    }
    double number(const toml::node& node, std::string_view key) const {
        if (!node.is_number()) wrong_type(node, key, "a number");
        return *node.value<double>();
    }
    std::int64_t integer(const toml::node& node, std::string_view key) const {
        if (!node.is_integer()) wrong_type(node, key, "an integer");
        return node.as_integer()->get();
    }
    std::int64_t integer(const toml::node& node, std::string_view key, std::int64_t least,
                         std::int64_t most = std::numeric_limits<int>::max()) const {
        const std::int64_t value = integer(node, key);
        if (value >= least && value <= most) return value;
        throw Error({.what = fmt::format("'{}' is {}", key, value),
                     .where = where(node, key),
                     .fix = fmt::format("give {} to {}", least, most)});
    }
    /// Returns the index in `names` of the name that the node contains, in upper or lower case. Throws Error for any
    /// other name. The error calls the name an unknown `what`, for example an unknown machine.
    std::size_t one_of(const Names& names, const toml::node& node, std::string_view key, std::string_view what) const {
        const std::string name = text(node, key);
        const auto found = std::find_if(names.begin(), names.end(),
                                        [&](std::string_view each) { return lowered(each) == lowered(name); });
        if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
        throw Error({.what = fmt::format("unknown {} '{}'", what, name),
                     .where = where(node, key),
                     .fix = suggestion(name, names)});
    }

    /// Throws Error for the first key of `table` that is not in `known`. `what` describes the table in the error, for
    /// example `[optimizer]`.
    void only(const toml::table& table, const Names& known, std::string_view what) const {
        for (auto&& [key, node] : table) {
            const std::string_view name = key.str();
            if (std::find(known.begin(), known.end(), name) != known.end()) continue;
            throw Error({.what = fmt::format("unknown key '{}' in {}", name, what),
                         .where = where(place_of(key.source())),
                         .fix = suggestion(name, known)});
        }
    }

  private:
    static std::string_view kind_of(const toml::node& node) {
        switch (node.type()) {
            case toml::node_type::table:
                return "a table";
            case toml::node_type::array:
                return "an array";
            case toml::node_type::string:
                return "a string";
            case toml::node_type::integer:
                return "an integer";
            case toml::node_type::floating_point:
                return "a number";
            case toml::node_type::boolean:
                return "true or false";
            default:
                return "a date or time";
        }
    }

    std::string_view text_;
    std::string source_;
    std::vector<TomlLines::Start> starts_;
};

}  // namespace macheps::files
