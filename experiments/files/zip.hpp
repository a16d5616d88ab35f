// SPDX-License-Identifier: Apache-2.0
// Zip archives, as NumPy writes them (.npz): members that are stored or deflated, in files of any size.
// Source: PKWARE APPNOTE 6.3.9, sections 4.3.7 (local header), 4.3.12 (central directory), 4.3.14 to 4.3.16, 4.5.3.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace macheps {

struct ZipMember {
    std::string name, bytes;  ///< unpacked, and of the checksum that the archive gives
};

/// All members, in the archive's order. Memory is asked for only as far as the archive's own size can fill it. Errors:
/// throws Error (bad input), `where` as the place, for an archive that is cut short or contradicts itself, for a member
/// that is encrypted, packed in another way, or whose checksum is wrong.
std::vector<ZipMember> read_zip(std::string_view archive, const std::string& where);

/// An archive of stored members. The same members give the same bytes: they have the earliest date that the format knows.
/// Errors: throws Error (usage) for more than 4 GiB.
std::string stored_zip(const std::vector<ZipMember>& members);

}  // namespace macheps
