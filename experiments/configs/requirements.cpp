// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/requirements.hpp"
#include "core/error.hpp"
#include "core/host/read_file.hpp"
#include "core/text/trimmed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <optional>
#include <vector>

namespace macheps::configs {

namespace {

constexpr std::size_t size_limit = std::size_t{64} << 20;
constexpr int max_depth = 16;

struct OtherName {
    std::string_view distribution, package;
};
constexpr std::array other_names{OtherName{"llama-factory", "llamafactory"},
                                 OtherName{"pytorch-lightning", "lightning"}, OtherName{"megatron-core", "megatron"},
                                 OtherName{"mosaicml", "composer"},
                                 OtherName{"transformer-engine-torch", "transformer-engine"}};

/// Returns the lines of the text. A backslash at the end of a line joins it with the next.
std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    bool joins = false;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = trimmed(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        const bool continues = line.ends_with('\\');
        if (continues) line.remove_suffix(1);
        if (joins)
            lines.back() += fmt::format(" {}", line);
        else
            lines.emplace_back(line);
        joins = continues;
    }
    return lines;
}

constexpr std::string_view several_versions = "several versions";

/// Adds one version of a package. Files may have several, each for another platform or version of Python.
void add_version(Requirements& found, const std::string& name, FrameworkVersion version) {
    const auto [at, is_first] = found.versions.emplace(name, version);
    if (!is_first && at->second != version) found.inexact.insert_or_assign(name, std::string(several_versions));
}

void add_inexact(Requirements& found, const std::string& name, std::string_view text) {
    const auto at = found.inexact.find(name);
    if (at == found.inexact.end() || at->second != several_versions)
        found.inexact.insert_or_assign(name, std::string(text));
}

void add(Requirements& found, std::string_view distribution, std::string_view version) {
    const std::string name = package_of_distribution(distribution);
    const bool is_number = !version.empty() && std::isdigit(static_cast<unsigned char>(version.front())) != 0;
    if (is_number)
        add_version(found, name, parse_version(version));
    else
        add_inexact(found, name, version);
}

/// Returns the text between the quotes of a line such as `name = "torch"`, if the line sets this key.
std::optional<std::string_view> quoted_value(std::string_view line, std::string_view key) {
    if (!line.starts_with(key)) return {};
    line = trimmed(line.substr(key.size()));
    if (!line.starts_with('=')) return {};
    line = trimmed(line.substr(1));
    if (line.size() < 2 || line.front() != '"') return {};
    return line.substr(1, line.find('"', 1) - 1);
}

/// Reads the tables [[package]] of uv.lock and poetry.lock. Both write one key in each line.
Requirements read_lock(const std::vector<std::string>& lines) {
    Requirements found;
    std::string name;
    bool in_package = false;
    for (const std::string& line : lines) {
        if (line.starts_with('[')) {
            in_package = line == "[[package]]";
            name.clear();
        }
        if (!in_package) continue;
        if (const auto own_name = quoted_value(line, "name"))
            name = *own_name;
        else if (const auto version = quoted_value(line, "version"); version && !name.empty())
            add(found, name, *version);
    }
    return found;
}

/// Removes the characters of a distribution's name from the beginning of the text and returns them.
std::string_view take_name(std::string_view& text) {
    std::size_t end = 0;
    const auto is_of_name = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
    };
    while (end < text.size() && is_of_name(text[end])) ++end;
    const std::string_view name = text.substr(0, end);
    text.remove_prefix(end);
    return name;
}

/// Returns the version in `==2.9.1` or `===2.9.1 ; MARKER`, or nothing for a range of versions.
std::optional<std::string_view> exact_version(std::string_view specifier) {
    if (!specifier.starts_with("==")) return {};
    specifier.remove_prefix(specifier.starts_with("===") ? 3 : 2);
    specifier = trimmed(specifier);
    const std::string_view version = specifier.substr(0, specifier.find_first_of(" \t;,"));
    const std::string_view rest = trimmed(specifier.substr(version.size()));
    if (version.find('*') != std::string_view::npos || rest.starts_with(',')) return {};
    return version;
}

/// Reads a line of requirements.txt or of `pip freeze`, such as `torch==2.9.1 ; python_version > "3.9"`. Returns
/// whether the line names a package.
bool read_line(std::string_view line, Requirements& found) {
    constexpr std::string_view egg = "#egg=";
    if (line.starts_with('-') || line.find("://") < line.find_first_of(" @")) {
        const std::size_t at = line.find(egg);
        if (at == std::string_view::npos) return false;
        std::string_view rest = line.substr(at + egg.size());
        add(found, take_name(rest), "a copy of its sources");
        return true;
    }
    const std::string_view name = take_name(line);
    line = trimmed(line);
    if (line.starts_with('[')) line = trimmed(line.substr(std::min(line.find(']'), line.size() - 1) + 1));
    const bool is_specified = line.empty() || std::string_view("=<>!~@;").find(line.front()) != std::string_view::npos;
    if (name.empty() || !is_specified) return false;
    if (const auto version = exact_version(line))
        add(found, name, *version);
    else
        add(found, name, line.empty() ? "any version" : line);
    return true;
}

/// Returns the path in a line such as `-r FILE`. A file of constraints (`-c FILE`) says which version of a package is
/// installed if one is.
std::optional<std::string> included_file(std::string_view line) {
    for (const std::string_view option : {"-r", "--requirement", "-c", "--constraint"}) {
        if (!line.starts_with(option)) continue;
        const std::string_view rest = line.substr(option.size());
        if (rest.starts_with(' ') || rest.starts_with('=')) return std::string(trimmed(rest.substr(1)));
    }
    return {};
}

Requirements read_file_at(const std::string& path, int depth);

void merge(Requirements& into, const Requirements& more) {
    for (const auto& [name, version] : more.versions) add_version(into, name, version);
    for (const auto& [name, text] : more.inexact) add_inexact(into, name, text);
}

Requirements read_lines(const std::vector<std::string>& lines, const std::string& path, int depth) {
    Requirements found;
    bool has_package = false;
    for (std::string_view line : lines) {
        line = trimmed(line.substr(0, line.find(" #")));
        if (line.empty() || line.front() == '#') continue;
        if (const std::optional<std::string> file = included_file(line)) {
            merge(found, read_file_at((std::filesystem::path(path).parent_path() / *file).string(), depth + 1));
            has_package = true;
        } else if (read_line(line, found)) {
            has_package = true;
        }
    }
    if (!has_package) {
        throw Error({.what = "no line of this file names a package",
                     .where = path,
                     .fix = "give requirements.txt, the output of `pip freeze`, uv.lock or poetry.lock"});
    }
    return found;
}

Requirements read_file_at(const std::string& path, int depth) {
    if (depth > max_depth) {
        throw Error({.what = "requirements files include each other without end",
                     .where = path,
                     .fix = "remove one of the lines `-r FILE`"});
    }
    const std::vector<std::string> lines = lines_of(read_file(path, size_limit));
    const bool is_lock = std::find(lines.begin(), lines.end(), "[[package]]") != lines.end();
    Requirements found = is_lock ? read_lock(lines) : read_lines(lines, path, depth);
    return found;
}

}  // namespace

std::string package_of_distribution(std::string_view distribution) {
    std::string name;
    for (const char c : distribution) {
        const bool is_separator = c == '-' || c == '_' || c == '.';
        if (is_separator && name.ends_with('-')) continue;
        name += is_separator ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    for (const OtherName& each : other_names) {
        if (each.distribution == name) return std::string(each.package);
    }
    return name;
}

Requirements read_requirements(const std::string& path) {
    Requirements found = read_file_at(path, 0);
    // A package with one exact version somewhere is not inexact.
    std::erase_if(found.versions, [&](const auto& one) {
        const auto text = found.inexact.find(one.first);
        return text != found.inexact.end() && text->second == several_versions;
    });
    std::erase_if(found.inexact, [&](const auto& one) { return found.versions.contains(one.first); });
    return found;
}

}  // namespace macheps::configs
