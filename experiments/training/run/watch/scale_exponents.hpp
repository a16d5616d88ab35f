// SPDX-License-Identifier: Apache-2.0
// ScaleExponents: number of groups of elements for each exponent of their decode scale.
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace macheps::training {

class ScaleExponents {
  public:
    /// Adds the decode scale of a group: 0 or more, infinite or NaN.
    void add(float decode_scale);
    bool empty() const { return numbers_.empty() && zeros_ + infinities_ + nans_ == 0; }
    /// Returns `zero:1;-7:12;-6:52;inf:1;nan:1`: floor(log2 of the scale), then the count. A byte of e8m0 is its
    /// exponent + 127.
    std::string text() const;

  private:
    std::map<int, std::uint64_t> numbers_;
    std::uint64_t zeros_ = 0, infinities_ = 0, nans_ = 0;
};

}  // namespace macheps::training
