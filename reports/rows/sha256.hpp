// SPDX-License-Identifier: Apache-2.0
// Computes SHA-256 digests, which identify the scripts of an HTML report and the files that `macheps check` has read.
// Source: FIPS 180-4, 5.1.1, 5.3.3 and 6.2.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace macheps::reports {

std::array<std::uint8_t, 32> sha256(std::string_view text);
/// Returns the digest in hexadecimal.
std::string sha256_text(std::string_view text);

/// Returns `'sha256-...'` with the digest of `text` in base64 (RFC 4648, 4). In a Content-Security-Policy, this source
/// allows an inline script or style whose text is exactly `text`.
std::string csp_source(std::string_view text);

}  // namespace macheps::reports
