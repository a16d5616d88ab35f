// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/config/environment.hpp"
#include "core/error.hpp"
#include "core/host/read_file.hpp"
#include "core/text/trimmed.hpp"

#include <fmt/format.h>

namespace macheps::files {

Environment parse_environment(std::string_view text, const std::string& name) {
    Environment variables;
    for (int number = 1; !text.empty(); ++number) {
        const std::size_t end = text.find('\n');
        std::string_view line = trimmed(text.substr(0, end));
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        if (line.empty() || line.front() == '#') continue;
        if (line.starts_with("export ")) line = trimmed(line.substr(7));
        const std::size_t equals = line.find('=');
        const std::string_view variable = line.substr(0, equals);
        if (equals == std::string_view::npos || variable.empty() ||
            variable.find_first_of(" \t") != std::string_view::npos) {
            throw Error({.what = "the line is not a valid variable",
                         .where = fmt::format("{}:{}", name, number),
                         .fix = "write NAME=VALUE"});
        }
        std::string_view value = line.substr(equals + 1);
        const bool is_quoted =
            value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front();
        if (is_quoted) value = value.substr(1, value.size() - 2);
        variables.insert_or_assign(std::string(variable), std::string(value));
    }
    return variables;
}

Environment read_environment_file(const std::string& path) {
    constexpr std::uint64_t max_bytes = 1 << 20;
    return parse_environment(read_file(path, max_bytes), path);
}

}  // namespace macheps::files
