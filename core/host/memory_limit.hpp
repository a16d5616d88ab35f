// SPDX-License-Identifier: Apache-2.0
// How much memory this process may take, so that what needs more is refused before it is begun.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace macheps {

struct MemoryLimit {
    std::int64_t bytes = 0;
    std::string whose;  ///< in words: `this machine has`
};

/// The least of what the machine has, of the limits of the process's control group and of those above it, and of the
/// process's own (RLIMIT_AS, RLIMIT_DATA). Host only; what cannot be read limits nothing.
MemoryLimit memory_limit();

/// Returns the largest file of numbers that is read, and the largest total size of the members of an archive: half of
/// memory_limit(), because the bytes are copied into arrays.
std::uint64_t reading_budget();

/// `8G`, `512M`, `1.5T`, `4096`: powers of 1024, with or without iB. Empty where the text is something else.
std::optional<std::int64_t> parse_bytes(std::string_view text);

/// `1.5 GiB`.
std::string bytes_text(double bytes);

/// Throws FieldError for `memory` where `needed` bytes are more than `granted`, or where that is absent than the limit.
/// `what` takes them: `training amp-bf16`.
void require_memory(double needed, const std::optional<std::int64_t>& granted, std::string_view what);

}  // namespace macheps
