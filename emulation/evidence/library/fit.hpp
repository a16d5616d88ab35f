// SPDX-License-Identifier: Apache-2.0
// In what order somebody else's matrix product adds: block ends from masks, then the rules that have them, then bits on
// operands that cancel. Host only.
#pragma once
#include "emulation/evidence/library/child.hpp"
#include "emulation/matmul/rules.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace macheps::evidence {

/// Products that a library computes, and their emulation: [m, n] of the same shape, rounded to `format`.
using LibraryMultiply = std::function<std::vector<float>(const LibraryJob& job)>;
using RuleMultiply =
    std::function<std::vector<float>(const MatmulRule& rule, const LibraryJob& job, const Format& format)>;

/// Numbers of `format` whose products with one column nearly cancel: k / 2 terms, and their negatives in another order. The
/// result is rounding error, which an output of few bits keeps.
LibraryJob cancelling_job(int m, int n, int k, const Format& format, std::uint64_t seed);

enum class LibraryVerdict : std::uint8_t {
    reproduced,  ///< one rule gives every bit of every shape
    order_only,  ///< a rule has the order of blocks, and not the bits
    unknown,
};
const char* to_string(LibraryVerdict verdict);

/// Where blocks of k end, as masks show it at one element; empty: the sum is no chain of blocks there.
std::vector<int> block_ends(const LibraryMultiply& multiply, const Format& format, int m, int n, int k, int row,
                            int column);

/// A named rule on the shapes that the best one does not claim.
struct OtherRule {
    std::string_view name{};
    int shapes = 0, equal = 0;
};

struct LibraryExamination {
    LibraryVerdict verdict = LibraryVerdict::unknown;
    std::vector<std::pair<int, std::vector<int>>> ends{};  ///< of each k that was asked
    bool tile_dependent = false;                           ///< corners of the output add in other orders
    std::string rule{};                                    ///< the best one, as a name or in words
    MatmulRule best{};
    std::string_view range{};  ///< of a named rule: the shapes that it claims, in words
    std::string nearest{};     ///< where no named rule is the best: the nearest one, and what differs
    int shapes = 0, equal = 0;
    int outside = 0, outside_equal = 0;  ///< shapes that the best rule does not claim
    std::vector<OtherRule> others{};     ///< rules that claim some of those, and have every bit of them
    std::uint64_t outputs = 0, wrong = 0;
    std::string first_wrong{};
};

/// Everything about one library in one thread. `shapes` of the acid test, at random, among those that the best rule claims.
/// With `asked` that rule is the one whose bits are compared, whatever others would have them.
LibraryExamination examine_library(const LibraryMultiply& multiply, const RuleMultiply& rule, const Format& format,
                                   int shapes, std::uint64_t seed, const MatmulRule* asked = nullptr);

}  // namespace macheps::evidence
