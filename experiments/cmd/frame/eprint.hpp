// SPDX-License-Identifier: Apache-2.0
// Writes errors, notes and progress to stderr. If stderr cannot be written, the text is lost and the program continues;
// fmt::print would throw. Texts contain names from inputs, so only visible characters are written
// (core/text/shown.hpp).
#pragma once
#include "core/text/shown.hpp"

#include <string_view>

namespace macheps::cmd {

/// Writes complete lines. If memory for escapes runs out, the text is dropped.
void eprint_text(std::string_view text) noexcept;
/// Writes bytes unchanged, for redrawing a line of a terminal.
void eprint_raw(std::string_view bytes) noexcept;

/// Formats `values` and writes the result. Each value that is a text becomes one line of visible characters.
template <class... Values>
void eprint(ShownFormat<Values...> format, const Values&... values) {
    eprint_text(format_shown(format, values...));
}
/// Clears the current line of the terminal, then formats and writes.
template <class... Values>
void redraw(ShownFormat<Values...> format, const Values&... values) {
    eprint_raw("\r\x1b[K" + format_shown(format, values...));
}

}  // namespace macheps::cmd
