// SPDX-License-Identifier: Apache-2.0
#include "reports/logs/manifest_text.hpp"

#include "core/error.hpp"
#include "core/host/read_file.hpp"
#include "core/text/nesting.hpp"

#include <fmt/format.h>

namespace macheps::reports {

std::string read_manifest_text(const std::filesystem::path& path) {
    std::string text = read_regular_file(path, max_manifest_bytes);
    if (const auto line = line_nested_too_deep(text)) {
        throw Error({.what = fmt::format("the brackets are nested more than {} levels deep", max_levels),
                     .where = fmt::format("{}:{}", path.string(), *line),
                     .fix = "restore or delete the file"});
    }
    return text;
}

}  // namespace macheps::reports
