// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of other programs' JSON configs. A config is either read within the limits and given to an
// importer, or refused with an Error that names the file. The reader finds the positions of values in a second pass
// over the text. Each position must be that of the first character of the value.
#include "tests/fuzz/config_fuzz.hpp"

#include <vector>

using namespace macheps;
using namespace macheps::files;

namespace {

/// Returns, for each line, the text from the beginning of the line to the end of the file.
std::vector<std::string_view> lines_of(std::string_view text) {
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    std::vector<std::string_view> lines{text};
    for (std::size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1))
        lines.push_back(text.substr(at + 1));
    return lines;
}

void check_places(const ConfigValue& value, const std::vector<std::string_view>& lines) {
    const auto at = [&](const ConfigPlace& place) { return lines.at(place.line - 1).substr(place.column - 1); };
    const std::string_view here = at(value.place);
    const bool starts = value.is_map()    ? here.starts_with('{')
                        : value.is_list() ? here.starts_with('[')
                        : value.is_text() ? here.starts_with('"')
                                          : here.starts_with(value.written);
    fuzz::require(starts, "the place of a value is that of its first character");
    for (const ConfigValue& item : value.items) check_places(item, lines);
    for (const ConfigValue::Entry& entry : value.entries) {
        fuzz::require(at(entry.place).starts_with('"'), "the place of a key is that of its first quote");
        check_places(entry.value, lines);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = fuzz::text(data, size);
    fuzz::read_config(text, [](std::string_view json) { return read_json_config(json, "fuzz"); });
    try {
        check_places(read_json_config(text, "fuzz").root, lines_of(text));
    } catch (const Error&) {
    }
    return 0;
}
