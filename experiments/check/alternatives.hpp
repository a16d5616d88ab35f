// SPDX-License-Identifier: Apache-2.0
// What else could have been declared of a kernel. A kernel that fails may only lack a declaration; one that passes may be much
// better than declared, and a check with a tighter declaration would see more.
#pragma once
#include "experiments/check/check.hpp"

#include <string>
#include <vector>

namespace macheps::check {

/// Another declaration under which the same output passes.
struct Alternative {
    std::string option;    ///< `--machine fp32.chain`
    double narrower = 1;   ///< how many times narrower its certain bounds are, in the median; of a looser one below 1
};

/// The first looser or different declaration under which an output that fails would pass; its option is empty if there is none.
Alternative explaining(const Declaration& declaration, const std::vector<StoredArray>& arrays, const Sampling& sampling,
                       ThreadPool& pool);

/// The tighter declarations under which an output that passes would pass too, the tightest first. Those whose bounds are less
/// than 1.5 times narrower are left out.
std::vector<Alternative> tighter(const Declaration& declaration, const Limits& limits,
                                 const std::vector<StoredArray>& arrays, const Sampling& sampling, ThreadPool& pool);

}  // namespace macheps::check
