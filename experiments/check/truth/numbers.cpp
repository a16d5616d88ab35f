// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/truth/numbers.hpp"

#include <algorithm>

namespace macheps::check {

Numbers Numbers::in_place(const files::StoredArray& array, const Format& format) {
    files::require_codes(array, format, false);
    Numbers numbers;
    numbers.array_ = &array;
    numbers.format_ = format;
    const int bits = format.bits + format.padding;
    if (bits > 16) return numbers;
    std::vector<double> table(std::size_t{1} << bits);
    for (std::size_t code = 0; code < table.size(); ++code) table[code] = decode64(format, code);
    numbers.table_ = std::make_shared<const std::vector<double>>(std::move(table));
    return numbers;
}

std::vector<double>& Numbers::held() {
    if (array_ != nullptr) {
        std::vector<double> values(begin(), end());
        *this = Numbers(std::move(values));
    }
    return held_;
}

void Numbers::rotate(std::size_t by) {
    if (array_ == nullptr)
        std::rotate(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(by), held_.end());
    else
        shift_ = (shift_ + by) % size();
}

void Numbers::flush_below(double least) {
    if (array_ != nullptr) {
        flushed_below_ = std::max(flushed_below_, least);
        return;
    }
    for (double& x : held_) x = x != 0 && std::fabs(x) < least ? 0 : x;
}

}  // namespace macheps::check
