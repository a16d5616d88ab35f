// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/verdicts/suite.hpp"

#include "core/host/read_file.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/shown.hpp"
#include "experiments/files/config/toml_reader.hpp"

#include <fmt/format.h>

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <set>

namespace macheps::check {

namespace {

using Takes = DeclareKey::Takes;

constexpr std::array<std::string_view, 5> own_keys{"name", "op", "files", "arrays", "line"};

class SuiteReader {
  public:
    SuiteReader(const files::TomlLines& lines, const std::string& file)
        : reader_(lines.text, file, lines.starts), file_(file) {
        if (lines.stray)
            throw Error({.what = "a character outside of strings and comments is not ASCII",
                         .where = fmt::format("{}:{}:{}", file, lines.stray->line, lines.stray->column),
                         .fix = "put the name in quotes"});
    }

    Suite suite() const {
        const toml::table document = reader_.document();
        reader_.only(document, {"suite", "check"}, "the suite");
        Suite suite{.file = file_};
        Options options;
        if (const toml::node* node = document.get("suite")) {
            const toml::table& table = reader_.table(*node, "suite");
            files::Names known{"source", "relative_to"};
            for (const OptionKey& key : option_keys()) known.push_back(key.name);
            reader_.only(table, known, "[suite]");
            if (const toml::node* source = table.get("source")) suite.source = reader_.text(*source, "source");
            suite.is_relative_to_suite = is_relative_to_suite(table);
            read_options(table, options);
        }
        const toml::node* checks = document.get("check");
        if (checks == nullptr || !checks->is_array_of_tables())
            throw Error({.what = checks == nullptr ? "the suite has no check" : "'check' is not a list of tables",
                         .where = checks == nullptr ? file_ : reader_.where(*checks, "check"),
                         .fix = "begin each check with [[check]]"});
        std::set<std::string> names;
        for (const toml::node& node : *checks->as_array()) {
            SuiteCheck check = read_check(*node.as_table(), options);
            if (suite.is_relative_to_suite) move_to_suite(check);
            if (suite.source.empty()) check.line = reader_.in_file(files::place_of(node)).line;
            if (!names.insert(check.name).second)
                throw Error({.what = fmt::format("two checks have the name '{}'", check.name),
                             .where = check.where,
                             .fix = "give them different names"});
            suite.checks.push_back(std::move(check));
        }
        return suite;
    }

  private:
    /// Returns whether patterns are relative to the folder of the suite.
    bool is_relative_to_suite(const toml::table& table) const {
        const toml::node* node = table.get("relative_to");
        if (node == nullptr) return false;
        const std::string word = reader_.text(*node, "relative_to");
        if (word != "suite" && word != "working_folder")
            throw Error({.what = fmt::format("unknown folder '{}'", word),
                         .where = reader_.where(*node, "relative_to"),
                         .fix = "use suite, or working_folder"});
        return word == "suite";
    }

    /// Makes the patterns of a check relative to the working folder.
    void move_to_suite(SuiteCheck& check) const {
        const std::string folder = std::filesystem::path(file_).parent_path().string();
        if (folder.empty()) return;
        for (FilePattern& files : check.files) {
            if (!files.text.starts_with('/')) files.text = escaped(folder) + '/' + files.text;
        }
        std::string& other_run = check.options.deterministic_with;
        if (!other_run.empty() && !other_run.starts_with('/')) other_run = folder + '/' + other_run;
    }

    /// Returns a pattern that matches only this path.
    static std::string escaped(const std::string& path) {
        std::string pattern;
        for (const char c : path) {
            if (std::string_view("*?[\\").find(c) != std::string_view::npos) pattern += '\\';
            pattern += c;
        }
        return pattern;
    }

    /// Returns a value as it would be written on the command line.
    std::string value_text(const toml::node& node, std::string_view key, Takes takes) const {
        if (takes == Takes::flag) return reader_.flag(node, key) ? "true" : "false";
        if (takes == Takes::text) return reader_.text(node, key);
        return fmt::format("{}", reader_.number(node, key));
    }

    void read_options(const toml::table& table, Options& options) const {
        for (const OptionKey& key : option_keys()) {
            const toml::node* node = table.get(key.name);
            if (node == nullptr) continue;
            if (key.repeats && node->is_array()) {
                for (const toml::node& one : *node->as_array())
                    key.set(options, value_text(one, key.name, key.takes), reader_.where(one, key.name));
            } else {
                key.set(options, value_text(*node, key.name, key.takes), reader_.where(*node, key.name));
            }
        }
    }

    std::string required_text(const toml::table& table, std::string_view key) const {
        const toml::node* node = table.get(key);
        if (node == nullptr)
            throw Error({.what = fmt::format("a check has no '{}'", key),
                         .where = reader_.where(table, "check"),
                         .fix = fmt::format("add {} = \"...\"", key)});
        return reader_.text(*node, key);
    }

    SuiteCheck read_check(const toml::table& table, const Options& options) const {
        SuiteCheck check;
        check.options = options;
        check.where = reader_.where(files::place_of(table));
        check.operation = printable(required_text(table, "op"));
        check.name = printable(table.contains("name") ? required_text(table, "name") : check.operation);
        read_files(table, check);
        if (const toml::node* line = table.get("line"))
            check.line = static_cast<std::uint32_t>(reader_.integer(*line, "line", 1));
        if (const Operation* operation = operation_named(*table.get("op"), check.operation)) {
            check.declaration.operation = operation;
            read_declaration(table, check);
        } else {
            check.declined = no_check_of(check.operation);
        }
        return check;
    }

    /// Reads the patterns of the files: one, or a list.
    void read_files(const toml::table& table, SuiteCheck& check) const {
        const toml::node* node = table.get("files");
        if (node == nullptr || !node->is_array()) {
            std::string text = required_text(table, "files");  // throws if there is no such key
            check.files.push_back({std::move(text), reader_.where(*node, "files")});
            return;
        }
        for (const toml::node& one : *node->as_array())
            check.files.push_back({reader_.text(one, "files"), reader_.where(one, "files")});
        if (check.files.empty())
            throw Error({.what = "the list of files is empty",
                         .where = reader_.where(*node, "files"),
                         .fix = "name the files, as in files = [\"a.npz\", \"more/*.npz\"]"});
    }

    /// Returns the operation with this name, or null for an operation of later_operations(), which cannot be checked
    /// yet.
    const Operation* operation_named(const toml::node& node, const std::string& name) const {
        std::vector<std::string_view> names;
        for (const Operation& operation : all_operations()) {
            if (operation.name == name) return &operation;
            names.push_back(operation.name);
        }
        if (is_later_operation(name)) return nullptr;
        throw Error({.what = fmt::format("unknown operation '{}'", name),
                     .where = reader_.where(node, "op"),
                     .fix = suggestion(name, names)});
    }

    void read_declaration(const toml::table& table, SuiteCheck& check) const {
        const Operation& operation = *check.declaration.operation;
        files::Names known(own_keys.begin(), own_keys.end());
        for (const OptionKey& key : option_keys()) known.push_back(key.name);
        for (const DeclareKey& key : declare_keys()) {
            if (!key.applies(operation, key)) continue;
            known.push_back(key.name);
        }
        for (auto&& [key, node] : table) {
            // Keys of other operations are reported by declare() below. Any other unknown key is a misspelling.
            if (find_declare_key(key.str()) != nullptr) continue;
            if (std::find(known.begin(), known.end(), key.str()) == known.end())
                throw Error({.what = fmt::format("unknown key '{}' of check '{}'", key.str(), check.name),
                             .where = reader_.where(files::place_of(key.source())),
                             .fix = suggestion(key.str(), known)});
        }
        read_options(table, check.options);
        const std::vector<std::string> arrays_of_operation = array_roles(operation);
        const files::Names roles(arrays_of_operation.begin(), arrays_of_operation.end());
        if (const toml::node* node = table.get("arrays")) {
            const toml::table& arrays = reader_.table(*node, "arrays");
            reader_.only(arrays, roles, fmt::format("the arrays of {}", operation.name));
            for (auto&& [role, name] : arrays) check.arrays[std::string(role.str())] = reader_.text(name, role.str());
        }
        for (const DeclareKey& key : declare_keys()) {
            const toml::node* node = table.get(key.name);
            if (node == nullptr) continue;
            try {
                declare(check.declaration, key, value_text(*node, key.name, key.takes), reader_.where(*node, key.name));
            } catch (const Declined& declined) {
                check.declined = declined.parts().what.substr(std::string_view("declined: ").size());
            }
        }
    }

    files::TomlReader reader_;
    std::string file_;
};

/// Finds the files that match a pattern, one folder at a time.
class PatternWalk {
  public:
    explicit PatternWalk(const std::string& pattern) : pattern_(pattern) {}

    /// Appends the files whose paths begin with `before` and match `rest` after that.
    void find(const std::string& before, std::string_view rest, std::vector<std::string>& files) {
        const std::size_t begin = rest.find_first_not_of('/'), end = std::min(rest.find('/', begin), rest.size());
        if (begin == rest.npos) return;  // the pattern ends with a slash, so it matches only folders
        const std::string at = before + std::string(rest.substr(0, begin)), part(rest.substr(begin, end - begin));
        const std::string_view after = rest.substr(end);
        if (part.find_first_of("*?[\\") == part.npos) return step(at + part, after, files);
        for (const std::string& name : names_in(at.empty() ? "." : at)) {
            if (++looked_at_ > most_names_looked_at)
                throw Error({.what = fmt::format("the pattern '{}' searches more than {} names", pattern_,
                                                 most_names_looked_at),
                             .where = at,
                             .fix = "begin the pattern with the folder that contains the files",
                             .exit = Exit::usage});
            if (fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) == 0) step(at + name, after, files);
        }
    }

  private:
    void step(const std::string& path, std::string_view after, std::vector<std::string>& files) {
        const bool has_names = is_folder(path);
        if (after.empty() && !has_names && is_there(path)) files.push_back(path);
        if (!after.empty() && has_names) find(path, after, files);
    }

    const std::string& pattern_;
    std::size_t looked_at_ = 0;
};

}  // namespace

std::string FilePattern::name() const {
    std::string name;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (std::string_view("*?[").find(text[i]) != std::string_view::npos) return {};
        if (text[i] == '\\' && i + 1 < text.size()) ++i;  // the next character is meant literally
        name += text[i];
    }
    return name;
}

Suite parse_suite(std::string_view text, const std::string& file) {
    try {
        return SuiteReader(files::split_toml_lines(text), file).suite();
    } catch (const Declined&) {
        throw;
    } catch (const Error& error) {
        // A suite replaces a command line, so its errors are usage errors.
        throw Error(
            {.what = error.parts().what, .where = error.parts().where, .fix = error.parts().fix, .exit = Exit::usage});
    }
}

Suite load_suite(const std::filesystem::path& file) {
    constexpr std::uint64_t max_bytes = std::uint64_t{16} << 20;  // real suites are thousands of times smaller
    return parse_suite(read_file(file, max_bytes), file.string());
}

std::vector<std::string> matching_files(const std::string& pattern) {
    std::vector<std::string> files;
    PatternWalk(pattern).find("", pattern, files);
    std::sort(files.begin(), files.end());
    return files;
}

std::vector<std::string> files_of(const SuiteCheck& check) {
    std::set<std::string> files;
    for (const FilePattern& pattern : check.files) {
        std::vector<std::string> matching = matching_files(pattern.text);
        if (matching.empty() && !pattern.name().empty()) matching = {pattern.name()};
        if (matching.empty())
            throw Error({.what = fmt::format("no file matches '{}'", pattern.text),
                         .where = pattern.where,
                         .fix = "use a pattern relative to the folder that macheps runs in",
                         .exit = Exit::usage});
        files.insert(matching.begin(), matching.end());
    }
    return {files.begin(), files.end()};
}

}  // namespace macheps::check
