// SPDX-License-Identifier: Apache-2.0
// Checks the properties of every array that a reader accepts.
#pragma once
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "experiments/files/arrays/arrays.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace macheps::fuzz {

inline void check_array(const files::StoredArray& array) {
    std::size_t count = 1;
    for (const std::int64_t size : array.shape) {
        require(size >= 0, "no size of a shape is negative");
        count *= static_cast<std::size_t>(size);
    }
    require(array.width > 0 && array.bytes.size() == count * array.width,
            "an array has as many bytes as its shape needs");
    for (const NamedFormat& row : all_formats) {
        try {
            require(values_of(array, row.format).size() == count, "an array has a value for each element");
        } catch (const Error& error) {
            require(error.exit() == Exit::bad_input, "a format that does not fit is a bad input file");
        }
    }
}

/// Runs `action`. The only exception that it may throw is an Error that reports a bad input file.
template <class Action>
void accept_or_refuse(Action action) {
    try {
        action();
    } catch (const Error& error) {
        require(error.exit() == Exit::bad_input, std::string("a damaged file is a bad input file: ") + error.what());
    }
}

}  // namespace macheps::fuzz
