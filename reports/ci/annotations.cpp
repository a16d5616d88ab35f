// SPDX-License-Identifier: Apache-2.0
#include "reports/ci/annotations.hpp"

#include "core/text/shown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace macheps::reports {

namespace {

std::string escaped(std::string_view text, std::string_view more) {
    std::string out;
    for (const char c : printable_lines(text)) {
        const bool is_special = c == '%' || c == '\r' || c == '\n' || more.find(c) != std::string_view::npos;
        out += is_special ? fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)))
                          : std::string(1, c);
    }
    return out;
}

}  // namespace

std::string annotation_lines(std::span<const Annotation> annotations, std::size_t most) {
    std::string text;
    for (const Annotation& one : annotations.first(std::min(most, annotations.size()))) {
        text += fmt::format("::{} ", one.level == "note" ? "notice" : one.level);
        if (!one.file.empty()) text += fmt::format("file={},", escaped(one.file, ":,"));
        if (one.line > 0) text += fmt::format("line={},", one.line);
        if (one.line > 0 && one.column > 0) text += fmt::format("col={},", one.column);
        text += fmt::format("title={}::{}\n", escaped(one.title, ":,"), escaped(one.text, ""));
    }
    return text;
}

}  // namespace macheps::reports
