// SPDX-License-Identifier: Apache-2.0
// Zip archives, as NumPy writes them (.npz): members that are stored or deflated, in files of any size.
// Source: PKWARE APPNOTE 6.3.9, sections 4.3.7 (local header), 4.3.12 (central directory), 4.3.14 to 4.3.16, 4.5.3.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::files {

/// An archive whose members are unpacked one at a time, on request.
class ZipArchive {
  public:
    /// A member as the directory describes it.
    struct Entry {
        std::string name{};
        std::uint64_t flags = 0, method = 0, checksum = 0, packed = 0, size = 0, local = 0;
        std::uint64_t begin = 0;  ///< offset of the packed bytes
    };

    /// Reads the directory. Borrows `bytes`. Errors: throws Error (bad input) that names `where` if the archive is cut
    /// short or inconsistent, or if two members have the same name or share bytes. Members that share bytes could make
    /// a small archive unpack to any size.
    ZipArchive(std::string_view bytes, std::string where);

    /// Returns all members in the order of the directory, except folders.
    const std::vector<Entry>& entries() const { return entries_; }
    const Entry* find(std::string_view name) const;

    /// Returns the unpacked bytes of a member. Errors: throws Error (bad input) if the member is encrypted, has a wrong
    /// checksum, or is neither stored nor deflated. Also throws if all members read so far would together exceed
    /// reading_budget().
    std::string read(const Entry& entry);

  private:
    std::string_view bytes_;
    std::string where_;
    std::vector<Entry> entries_{};
    std::uint64_t budget_ = 0;
};

struct ZipMember {
    std::string name, bytes;
};

/// Reads all members in the archive's order. Errors: the same as those of ZipArchive.
std::vector<ZipMember> read_zip(std::string_view archive, const std::string& where);

/// Returns an archive of members that are not compressed. The same members give the same bytes, because every member
/// has the earliest date of the format. Errors: throws Error (usage) if the archive would be larger than 4 GiB.
std::string stored_zip(const std::vector<ZipMember>& members);

}  // namespace macheps::files
