// SPDX-License-Identifier: Apache-2.0
// Finds the order in which an external matrix product adds. First finds the ends of blocks of k with masks
// (emulation/matmul/reveal.hpp), then selects the rules that have these ends, and then compares bits on operands that
// cancel. Host only.
#pragma once
#include "emulation/evidence/library/child.hpp"
#include "emulation/matmul/rules.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace macheps::evidence {

/// Functions that compute a product with a library and with a rule. Both return [m, n]; RuleMultiply rounds to
/// `format`.
using LibraryMultiply = std::function<std::vector<float>(const LibraryJob& job)>;
using RuleMultiply =
    std::function<std::vector<float>(const MatmulRule& rule, const LibraryJob& job, const Format& format)>;

/// Returns operands of `format` whose terms cancel in pairs, in shuffled order. The result is mostly rounding error,
/// which even a narrow output format keeps.
LibraryJob cancelling_job(int m, int n, int k, const Format& format, std::uint64_t seed);

enum class LibraryVerdict : std::uint8_t {
    reproduced,  ///< one rule gives the library's bits on every shape
    order_only,  ///< a rule has the library's order of blocks, but gives other bits
    unknown,
};
const char* to_string(LibraryVerdict verdict);

/// Returns the ends of the blocks of k in the sum of output element (row, column), found with masks. Returns an empty
/// list if this sum is not a chain of blocks.
std::vector<int> block_ends(const LibraryMultiply& multiply, const Format& format, int m, int n, int k, int row,
                            int column);

/// Results of a named rule on shapes that the best rule does not claim.
struct OtherRule {
    std::string_view name{};
    int shapes = 0, equal = 0;
};

struct LibraryExamination {
    LibraryVerdict verdict = LibraryVerdict::unknown;
    std::vector<std::pair<int, std::vector<int>>> ends{};  ///< the ends of blocks for each k that was tried
    bool tile_dependent = false;                           ///< the order of a sum depends on the place in the output
    std::string rule{};                                    ///< the best rule, by name or in words
    MatmulRule best{};
    std::string_view range{};  ///< for a named rule: the shapes that it claims, in words
    std::string nearest{};     ///< if the best rule has no name: the nearest named rule and how it differs
    int shapes = 0, equal = 0;
    int outside = 0, outside_equal = 0;  ///< numbers of shapes that the best rule does not claim
    std::vector<OtherRule> others{};     ///< rules that claim some `outside` shapes and reproduce all bits of these
    std::uint64_t outputs = 0, wrong = 0;
    std::string first_wrong{};
};

/// Examines a library that runs in one thread. Compares the bits of the library with those of the best rule, on
/// `shapes` random shapes that this rule claims. If `asked` is given, it takes the place of the best rule, even if
/// another rule agrees better.
LibraryExamination examine_library(const LibraryMultiply& multiply, const RuleMultiply& rule, const Format& format,
                                   int shapes, std::uint64_t seed, const MatmulRule* asked = nullptr);

}  // namespace macheps::evidence
