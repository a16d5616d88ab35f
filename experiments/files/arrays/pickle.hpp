// SPDX-License-Identifier: Apache-2.0
// Pickles read as data. A pickle is a program; of its instructions only those are known that put numbers, strings and
// containers together, and what it calls is written down, never called. Source: CPython's Lib/pickletools.py.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::files {

/// A value of a pickle. Others are named by their places, so that one that occurs twice is kept once.
struct PickleValue {
    enum class Kind : std::uint8_t {
        none,
        boolean,
        integer,
        real,
        text,
        tuple,
        list,
        dictionary,  ///< parts: key, value, key, value, ...
        name,        ///< `module.name`, in text
        call,        ///< parts: a name and a tuple of arguments; then what was put into the result, as in a dictionary
        outside,     ///< what its file keeps elsewhere; parts: the one value that tells what
    };
    Kind kind = Kind::none;
    std::int64_t integer = 0;
    double real = 0;
    std::string text{};
    std::vector<std::size_t> parts{};
};

struct Pickle {
    std::vector<PickleValue> values{};
    std::size_t root = 0;

    const PickleValue& at(std::size_t place) const { return values[place]; }
};

/// The pickle in `bytes`, of protocol 2 and with no other names than `names`. Memory grows with its length only. Errors:
/// throws Error (bad input), `where` as the place, for one that is cut short, contradicts itself, has other instructions
/// or names others.
Pickle parse_pickle(std::string_view bytes, std::span<const std::string_view> names, const std::string& where);

}  // namespace macheps::files
