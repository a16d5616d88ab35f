// SPDX-License-Identifier: Apache-2.0
// Reads pickles as data. A pickle is a program. Only the instructions that build numbers, strings and containers are
// supported. Calls are recorded and never executed. Source: CPython's Lib/pickletools.py.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::files {

/// A value of a pickle. It refers to other values by their index in Pickle::values, so a value that occurs twice is
/// stored only once.
struct PickleValue {
    enum class Kind : std::uint8_t {
        none,
        boolean,
        integer,
        real,
        text,
        tuple,
        list,
        dictionary,  ///< parts: each key, followed by its value
        name,        ///< `module.name`, in text
        call,        ///< parts: name, tuple of arguments; then keys and values that were added to the result
        outside,     ///< a value stored outside the pickle; its only part is the value that identifies it
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

/// Parses a pickle of protocol 2. `names` lists all global names that the pickle may contain. Memory use is
/// proportional to the length of the pickle. Errors: throws Error (bad input) that names `where` if the pickle is cut
/// short or inconsistent, or if it contains an unsupported instruction or a name that is not in `names`.
Pickle parse_pickle(std::string_view bytes, std::span<const std::string_view> names, const std::string& where);

}  // namespace macheps::files
