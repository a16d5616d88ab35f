// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/frame/print.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace macheps::cmd {

namespace {

bool printed = false;

bool is_taken(std::string_view text) {
    printed = printed || !text.empty();
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
}

/// Returns whether stdout took the whole text. main() checks ferror(stdout) as well.
bool is_shown(std::string_view text) {
    return is_printable_lines(text) ? is_taken(text) : is_taken(printable_lines(text));
}

void flush_stdout(bool is_whole) {
    if (!is_whole || std::fflush(stdout) != 0)
        throw Error({.what = "cannot write the rows",
                     .where = "stdout",
                     .fix = "check the free space",
                     .exit = Exit::cannot_write});
}

/// Returns the length of the colour at the front, `ESC [ digits and semicolons m`, or 0.
std::size_t colour_bytes(std::string_view text) {
    if (!text.starts_with("\x1b[")) return 0;
    const std::size_t end = text.find_first_not_of("0123456789;", 2);
    return end != text.npos && text[end] == 'm' ? end + 1 : 0;
}

}  // namespace

bool has_printed() { return printed; }
void begin_printing() { printed = false; }

void print_text(std::string_view text) { (void)is_shown(text); }

void print_now(std::string_view text) { flush_stdout(is_shown(text)); }

void print_coloured(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t escape = text.find('\x1b', 0), plain = std::min(escape, text.size());
        out += printable_lines(text.substr(0, plain));
        text.remove_prefix(plain);
        const std::size_t colour = std::max<std::size_t>(colour_bytes(text), text.empty() ? 0 : 1);
        out += colour > 1 ? std::string(text.substr(0, colour)) : printable_lines(text.substr(0, colour));
        text.remove_prefix(colour);
    }
    flush_stdout(is_taken(out));
}

void print_bytes(const void* bytes, std::size_t count) {
    if (std::fwrite(bytes, 1, count, stdout) == count) return;
    throw Error({.what = fmt::format("cannot write: {}", std::strerror(errno)),
                 .where = "standard output",
                 .fix = "check the free space",
                 .exit = Exit::cannot_write});
}

}  // namespace macheps::cmd
