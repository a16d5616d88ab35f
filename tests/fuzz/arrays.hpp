// SPDX-License-Identifier: Apache-2.0
// What must hold of every array that a reader accepts.
#pragma once
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "experiments/files/arrays/arrays.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace macheps::fuzz {

inline void check_array(const files::StoredArray& array) {
    std::size_t count = 1;
    for (const std::int64_t size : array.shape) {
        require(size >= 0, "no size is negative");
        count *= static_cast<std::size_t>(size);
    }
    require(array.width > 0 && array.bytes.size() == count * array.width, "the bytes are those of the shape");
    for (const NamedFormat& row : all_formats) {
        try {
            require(values_of(array, row.format).size() == count, "a value for each element");
        } catch (const Error& error) {
            require(error.exit() == Exit::bad_input, "a format that does not fit is a bad input file");
        }
    }
}

/// Damaged bytes are a bad input file, and nothing else.
template <class Action>
void accept_or_refuse(Action action) {
    try {
        action();
    } catch (const Error& error) {
        require(error.exit() == Exit::bad_input, std::string("a damaged file is a bad input file: ") + error.what());
    }
}

}  // namespace macheps::fuzz
