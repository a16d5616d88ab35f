// SPDX-License-Identifier: Apache-2.0
// ScaleExponents: a histogram of the exponents of decode scales. Each group of elements with its own scale counts once.
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace macheps::training {

class ScaleExponents {
  public:
    /// Adds the decode scale of one group, which is 0 or more, infinite or NaN.
    void add(float decode_scale);
    bool empty() const { return numbers_.empty() && zeros_ + infinities_ + nans_ == 0; }
    /// Returns text such as `zero:1;-7:12;-6:52;inf:1;nan:1`. Each entry is an exponent, floor(log2 of the scale), and
    /// the number of groups with this exponent. The e8m0 code of a scale is the exponent plus 127.
    std::string text() const;

  private:
    std::map<int, std::uint64_t> numbers_;
    std::uint64_t zeros_ = 0, infinities_ = 0, nans_ = 0;
};

}  // namespace macheps::training
