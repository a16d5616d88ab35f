// SPDX-License-Identifier: Apache-2.0
// What the program says on stderr: errors, notes, progress. Where stderr cannot be written nothing is said, and the work
// goes on: the exit code still tells. fmt::print would throw there.
#pragma once
#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace macheps {

void tell_text(std::string_view text) noexcept;

template <class... Values>
void tell(fmt::format_string<Values...> format, Values&&... values) {
    tell_text(fmt::format(format, std::forward<Values>(values)...));
}

}  // namespace macheps
