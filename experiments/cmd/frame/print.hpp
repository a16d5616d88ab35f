// SPDX-License-Identifier: Apache-2.0
// Writes to stdout. Except for --help, all output to stdout goes through these functions. Texts contain names from
// inputs, so only visible characters are written (core/text/shown.hpp).
#pragma once
#include "core/text/shown.hpp"

#include <string_view>
#include <utility>

namespace macheps::cmd {

/// Writes complete lines. The caller must pass names through shown() or printable(), so that each name is on one line.
void print_text(std::string_view text);
/// Writes complete lines and flushes. Throws Error (cannot_write).
void print_now(std::string_view text);
/// Writes complete lines and flushes, and keeps colours of a terminal (`\x1b[32m`). Throws Error (cannot_write).
void print_coloured(std::string_view text);
/// Returns whether anything was written to stdout since begin_printing(). main() calls begin_printing(), because the
/// program for the browser runs main() many times.
bool has_printed();
void begin_printing();
/// Writes binary results.
void print_bytes(const void* bytes, std::size_t count);

/// Formats `values` and writes the result. Each value that is a text becomes one line of visible characters.
template <class... Values>
void print(ShownFormat<Values...> format, const Values&... values) {
    print_text(format_shown(format, values...));
}

}  // namespace macheps::cmd
