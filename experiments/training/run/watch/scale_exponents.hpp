// SPDX-License-Identifier: Apache-2.0
// ScaleExponents: how many groups of elements had a decode scale of which size.
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace macheps::training {

class ScaleExponents {
  public:
    /// A group's decode scale, which is 0 or more, infinite or NaN.
    void add(float decode_scale);
    bool empty() const { return numbers_.empty() && zeros_ + infinities_ + nans_ == 0; }
    /// `zero:1;-7:12;-6:52;inf:1;nan:1`: floor(log2 of the scale), then how many. A byte of e8m0 is its exponent + 127.
    std::string text() const;

  private:
    std::map<int, std::uint64_t> numbers_;
    std::uint64_t zeros_ = 0, infinities_ = 0, nans_ = 0;
};

}  // namespace macheps::training
