// SPDX-License-Identifier: Apache-2.0
// Malicious inputs: files of every kind that the program reads, which are truncated, damaged, or have repeated parts or
// hostile names. A hostile name controls a terminal, forges a command in the log of a CI job, or is a formula of a
// spreadsheet. The same seed gives the same inputs.
#pragma once
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::test {

/// A kind of input: a file that the program reads, a way to put a name into it, and the commands that read it.
struct InputKind {
    const char* name;
    std::string file;                   ///< name of the file; a path if `commands` read the folder in which it lies
    std::string base;                   ///< contents of a valid file
    std::vector<std::string> commands;  ///< arguments of macheps, separated by blanks
    std::function<std::string(const std::string& name)> with_name;
    bool is_whole_or_nothing = false;  ///< a truncated file is never valid
};

/// Names that no author of a kernel or a config would choose.
inline const std::vector<std::string> hostile_names{
    "x\n::error file=README.md,line=1::forged",
    "::stop-commands::token",
    " ::add-mask::x",
    "x\r\n::warning::forged\r\n",
    "\x1b]0;title\x07\x1b[2J\x1b[31m",
    std::string("a\0b", 3),
    "\xe2\x80\xae gnp.exe",
    "a\xe2\x81\xa6z\xe2\x80\x8b",
    "\xc2\x9b"
    "31mred",
    "\xff\xfe\x80",
    "\xc3(",
    "\xed\xa0\x80",
    "\xe2\x80\xa8line",
    "\xef\xbb\xbfmark",
    "a\x7f\x08\x08",
    "##[error]forged",
    "##vso[task.complete result=Failed]",
    "=HYPERLINK(\"http://x\")",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1+1",
    "<script>alert(1)</script>",
    "a|b`c`[d](e)",
    "%0A::error::x",
    "../../etc/passwd",
    std::string(100000, 'n'),
};

/// Returns `text` as a JSON string. Bytes that are not ASCII do not change.
inline std::string json_string(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += std::string("\\") + c;
        } else if (c >= 0 && c < 0x20) {
            out += "\\u00";
            out += "0123456789abcdef"[c >> 4];
            out += "0123456789abcdef"[c & 15];
        } else {
            out += c;
        }
    }
    return out + '"';
}

/// Returns a number as `bytes` bytes, lowest byte first.
inline std::string little_endian(std::uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
    return text;
}

inline std::uint32_t crc_of(std::string_view bytes) {
    std::uint32_t crc = 0xffffffffu;
    for (const char c : bytes) {
        crc ^= static_cast<unsigned char>(c);
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

struct Member {
    std::string name, bytes;
};

/// Returns a zip archive of uncompressed members. Its directory lists the first member `repeats` more times, under
/// other names.
inline std::string zip_of(const std::vector<Member>& members, int repeats = 0) {
    std::string text, directory;
    std::size_t entries = 0;
    const auto add_entry = [&](const std::string& name, const std::string& shared, std::size_t at) {
        directory += "PK\x01\x02" + little_endian(20, 2) + shared + little_endian(name.size(), 2) +
                     std::string(12, '\0') + little_endian(at, 4) + name;
        ++entries;
    };
    for (const Member& member : members) {
        const std::string shared = little_endian(20, 2) + std::string(8, '\0') +
                                   little_endian(crc_of(member.bytes), 4) + little_endian(member.bytes.size(), 4) +
                                   little_endian(member.bytes.size(), 4);
        const std::size_t at = text.size();
        text += "PK\x03\x04" + shared + little_endian(member.name.size(), 2) + std::string(2, '\0') + member.name +
                member.bytes;
        add_entry(member.name, shared, at);
        for (int i = 0; i < repeats && &member == members.data(); ++i)
            add_entry("q" + std::to_string(i) + ".npy", shared, at);
    }
    const std::size_t at = text.size();
    return text + directory + "PK\x05\x06" + std::string(4, '\0') + little_endian(entries, 2) +
           little_endian(entries, 2) + little_endian(directory.size(), 4) + little_endian(at, 4) + std::string(2, '\0');
}

/// Returns an .npy file of fp32 ones.
inline std::string npy_of_ones(int rows, int columns) {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                         std::to_string(columns) + "), }";
    header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
    header += '\n';
    std::string text = "\x93NUMPY\x01" + std::string(1, '\0') + little_endian(header.size(), 2) + header;
    for (int i = 0; i < rows * columns; ++i) text += std::string("\0\0\x80\x3f", 4);
    return text;
}

/// Returns a safetensors file of fp32 tensors of four elements.
inline std::string safetensors_of(const std::vector<std::string>& names) {
    std::string header = "{";
    for (std::size_t i = 0; i < names.size(); ++i) {
        header += (i == 0 ? "" : ",") + json_string(names[i]) + R"(:{"dtype":"F32","shape":[2,2],"data_offsets":[)" +
                  std::to_string(16 * i) + "," + std::to_string(16 * i + 16) + "]}";
    }
    header += "}";
    return little_endian(header.size(), 8) + header + std::string(16 * names.size(), '\0');
}

/// Makes damaged files from valid files.
class Spoiler {
  public:
    explicit Spoiler(std::uint64_t seed) : random_(seed) {}

    std::size_t below(std::size_t limit) { return limit == 0 ? 0 : static_cast<std::size_t>(random_() % limit); }
    const std::string& any_name() { return hostile_names[below(hostile_names.size())]; }

    std::string cut(const std::string& text) { return text.substr(0, below(text.size())); }
    std::string flipped(std::string text) {
        for (std::size_t flips = 1 + below(4); flips > 0 && !text.empty(); --flips)
            text[below(text.size())] = static_cast<char>(random_());
        return text;
    }
    std::string inserted(const std::string& text) {
        const std::size_t at = below(text.size() + 1);
        return text.substr(0, at) + any_name().substr(0, 200) + text.substr(at);
    }
    std::string repeated(const std::string& text) {
        const std::size_t from = below(text.size()), count = below(text.size() - from) + 1;
        return text.substr(0, from + count) + text.substr(from, count) + text.substr(from + count);
    }
    std::string without(const std::string& text) {
        const std::size_t from = below(text.size());
        return text.substr(0, from) + text.substr(std::min(text.size(), from + 1 + below(40)));
    }
    /// Replaces a number in the text by a number that is out of range or in an unusual notation.
    std::string with_other_number(const std::string& text) {
        static const std::vector<std::string> numbers{
            "-1",         "0",    "1e999", "99999999999999999999", "nan", "-0.0",
            "2147483648", "0x10", "1.5",   "-9223372036854775808"};
        const std::size_t begin = text.find_first_of("0123456789", below(text.size()));
        if (begin == std::string::npos) return inserted(text);
        const std::size_t end = std::min(text.find_first_not_of("0123456789.", begin), text.size());
        return text.substr(0, begin) + numbers[below(numbers.size())] + text.substr(end);
    }
    std::string nested(const std::string& text) {
        const std::size_t at = below(text.size() + 1), depth = 1 + below(100000);
        const char bracket = "([{\"-"[below(5)];
        return text.substr(0, at) + std::string(depth, bracket) + text.substr(at);
    }

  private:
    std::mt19937_64 random_;
};

/// Returns why a text must not be printed to a terminal or a log, or an empty string if it may be printed. Checks the
/// rules of core/text/shown.hpp independently, on bytes. Finds control characters except line ends and tabs, bytes that
/// are not UTF-8, characters that hide text or reverse its direction, and commands of the log of a CI job.
inline std::string why_not_shown(std::string_view text) {
    const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    for (std::size_t i = 0; i < text.size();) {
        const unsigned a = at(i), b = at(i + 1), c = at(i + 2);
        const bool begins_line = i == 0 || text[i - 1] == '\n';
        const std::size_t word = begins_line ? text.find_first_not_of(' ', i) : std::string_view::npos;
        if (word != std::string_view::npos && text.substr(word).starts_with("::")) return "a command at a line's start";
        if (text.substr(i).starts_with("##[") || text.substr(i).starts_with("##vso[")) return "a command";
        if ((a < 0x20 && a != '\n' && a != '\t') || a == 0x7f) return "a control character";
        std::size_t bytes = 1;
        if (a >= 0x80) {
            bytes = a >= 0xf0 ? 4 : a >= 0xe0 ? 3 : 2;
            if (a < 0xc2 || a > 0xf4) return "a byte that is not UTF-8";
            for (std::size_t k = 1; k < bytes; ++k) {
                if (at(i + k) < 0x80 || at(i + k) > 0xbf) return "a byte that is not UTF-8";
            }
            if (a == 0xed && b > 0x9f) return "a surrogate";
            if (a == 0xc2 && b < 0xa0) return "a control character of U+0080 to U+009F";
            if (a == 0xd8 && b == 0x9c) return "U+061C";
            if (a == 0xe2 && b == 0x80 && ((c >= 0x8b && c <= 0x8f) || (c >= 0xa8 && c <= 0xae)))
                return "U+2000 and after";
            if (a == 0xe2 && b == 0x81 && c >= 0xa0 && c <= 0xaf) return "U+2060 and after";
            if (a == 0xef && b == 0xbb && c == 0xbf) return "U+FEFF";
        }
        i += bytes;
    }
    return {};
}

}  // namespace macheps::test
