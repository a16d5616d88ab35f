// SPDX-License-Identifier: Apache-2.0
// The memory that this process may use. Work that needs more is refused before it starts.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace macheps {

struct MemoryLimit {
    std::int64_t bytes = 0;
    std::string whose;  ///< beginning of a sentence that states the limit: `this machine has`
};

/// Returns the smallest of three limits: the memory of the machine, the limits of the process's control group and its
/// ancestors, and the process's own limits (RLIMIT_AS, RLIMIT_DATA). A limit that cannot be read is ignored. Host only.
MemoryLimit memory_limit();

/// Returns the maximum number of bytes that may be read from one input file of numbers. In an archive, this limits the
/// total size of the members. It is half of memory_limit(), because the bytes are copied into arrays.
std::uint64_t reading_budget();

/// Reads a size such as `8G`, `512M`, `1.5T` or `4096`. Units are powers of 1024, with or without B or iB. Returns
/// nothing for any other text.
std::optional<std::int64_t> parse_bytes(std::string_view text);

/// Returns a size as text: `1.5 GiB`.
std::string bytes_text(double bytes);

/// Throws FieldError for the field `memory` if the `needed` bytes exceed the limit. The limit is `granted`, or
/// memory_limit() if `granted` is empty. `what` names the work that needs the memory, such as `training this model`.
void require_memory(double needed, const std::optional<std::int64_t>& granted, std::string_view what);

}  // namespace macheps
