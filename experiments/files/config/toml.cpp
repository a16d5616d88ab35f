// SPDX-License-Identifier: Apache-2.0
// Reads TOML files of other programs as configs.
#include "core/error.hpp"
#include "experiments/files/config/builder.hpp"
#include "experiments/files/config/text.hpp"
#include "experiments/files/config/toml_lines.hpp"
#include "experiments/files/config/toml_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

namespace macheps::files {

namespace {

using Kind = ConfigValue::Kind;

class TomlTree {
  public:
    TomlTree(ConfigBuilder& builder, std::string_view text, const std::string& name)
        : builder_(builder), text_(text), name_(name) {}

    void add(const toml::node& node) {
        if (const toml::table* table = node.as_table()) return add_table(*table);
        if (const toml::array* array = node.as_array()) return add_array(*array);
        builder_.add(scalar(node));
    }

  private:
    /// Adds the entries of a table in the order of the file. The table itself sorts them by name.
    void add_table(const toml::table& table) {
        std::vector<std::pair<const toml::key*, const toml::node*>> entries;
        for (auto&& [key, node] : table) entries.emplace_back(&key, &node);
        const auto order = [](const auto& entry) {
            return std::tuple(entry.first->source().begin.line, entry.first->source().begin.column);
        };
        std::stable_sort(entries.begin(), entries.end(),
                         [&](const auto& a, const auto& b) { return order(a) < order(b); });
        builder_.open(Kind::map, place(table.source()));
        for (const auto& [key, node] : entries) {
            builder_.key(std::string(key->str()), place(key->source()));
            add(*node);
        }
        builder_.close();
    }

    void add_array(const toml::array& array) {
        builder_.open(Kind::list, place(array.source()));
        for (const toml::node& node : array) add(node);
        builder_.close();
    }

    ConfigValue scalar(const toml::node& node) const {
        ConfigValue value;
        value.place = place(node.source());
        if (const auto* text = node.as_string()) {
            value.kind = Kind::text;
            value.quoted = true;
            value.written = text->get();
        } else if (const auto* flag = node.as_boolean()) {
            value.kind = Kind::boolean;
            value.boolean = flag->get();
            value.written = flag->get() ? "true" : "false";
        } else if (node.is_number()) {
            value.kind = Kind::number;
            value.number = *node.value<double>();
            value.written = written(node);
        } else {
            value.kind = Kind::text;  // a date or a time
            std::ostringstream stream;
            stream << toml::node_view<const toml::node>(node);
            value.written = stream.str();
        }
        return value;
    }

    /// Returns the characters of a number as the file spells it.
    std::string written(const toml::node& node) const {
        std::size_t at = 0;
        for (toml::source_index line = 1; line < node.source().begin.line; ++line) at = text_.find('\n', at) + 1;
        std::string_view rest = text_.substr(at);
        // Columns of the parser count characters, and continuation bytes of UTF-8 belong to the character before them.
        for (toml::source_index column = 1; column < node.source().begin.column && !rest.empty(); ++column) {
            rest.remove_prefix(1);
            while (!rest.empty() && (static_cast<unsigned char>(rest.front()) & 0xC0) == 0x80) rest.remove_prefix(1);
        }
        return std::string(rest.substr(0, rest.find_first_of(" \t\r\n,]}#")));
    }

    ConfigPlace place(const toml::source_region& source) const {
        return {name_, std::max<std::uint32_t>(source.begin.line, 1), std::max<std::uint32_t>(source.begin.column, 1)};
    }

    ConfigBuilder& builder_;
    std::string_view text_;
    const std::string& name_;
};

}  // namespace

ConfigFile read_toml_config(std::string_view text, const std::string& name) {
    config_text::check(text, name);
    text = config_text::without_mark(text);
    if (const auto stray = split_toml_lines(text).stray) {
        throw Error({.what = "a character outside ASCII is neither in a string nor in a comment",
                     .where = fmt::format("{}:{}:{}", name, stray->line, stray->column),
                     .fix = "put it into quotes"});
    }
    const toml::table document = TomlReader(text, name).document();
    ConfigBuilder builder;
    TomlTree(builder, text, name).add(document);
    ConfigFile file = builder.take();
    file.root.place = {name, 1, 1};
    file.ignored_rules = config_text::ignored_rules(text, name);
    return file;
}

}  // namespace macheps::files
