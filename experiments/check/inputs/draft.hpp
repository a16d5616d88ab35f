// SPDX-License-Identifier: Apache-2.0
// Requests for inputs, and arrays with their formats.
#pragma once
#include "experiments/check/declare/operations.hpp"
#include "experiments/check/pose/draws.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

/// A request for inputs.
struct InputRequest {
    Declaration declaration{};
    std::int64_t batches = 1, m = 192, n = 160, k = 1000;  ///< of a product; not multiples of 128, a usual tile
    std::int64_t rows = 64, columns = 1000;                ///< of other operations
    std::vector<std::int64_t> groups{};  ///< rows of each group, which has its own b; empty: no groups
    std::int64_t group_rows = 0;         ///< rows that each group has room for; 0: groups have no gaps between them
    std::uint64_t seed = 7;

    Format format(std::string_view array) const;  ///< fp32 if none is declared
    /// Returns the arrays of these inputs: those that the operation requires, and those that are declared.
    std::vector<std::string_view> arrays() const;
    std::vector<std::int64_t> shape_of(std::string_view array) const;
    std::vector<std::int64_t> out_shape() const;
    std::int64_t row_width() const;  ///< elements of a row of the output
    /// Returns b such that the accumulator does not round sums of magnitudes of at most 2^b units; 24 for fp32.
    int accumulator_bits() const;
};

struct MadeArray {
    std::string name;
    ArrayFormat format{};
    std::vector<std::int64_t> shape{};
    std::vector<double> values{};
    bool is_whole = false;  ///< stored as integers
};

/// One set of inputs, which becomes one file.
struct MadeInputs {
    std::string name;  ///< name of the recipe, and a suffix if it makes several: tail-8
    InputRequest request{};
    std::vector<MadeArray> arrays{};

    /// Precondition: there is such an array.
    MadeArray& at(std::string_view array);
    const MadeArray* find(std::string_view array) const;
};

/// Makes the inputs of one recipe.
class Maker {
  public:
    Maker(const InputRequest& request, std::string_view recipe) : request_(request), recipe_(recipe) {}

    const InputRequest& request() const { return request_; }
    Draws draws(std::string_view array) const { return Draws(request_.seed, recipe_, array); }
    /// Adds inputs with ordinary numbers, some of which the recipe then changes. `part` is a suffix of the name.
    MadeInputs& add(std::string_view part = {});
    MadeInputs& add(std::string_view part, const InputRequest& request);

    /// Returns the inputs, with each value rounded to its array's format.
    std::vector<MadeInputs> take();

  private:
    InputRequest request_;
    std::string recipe_;
    std::vector<MadeInputs> made_{};
};

/// Return the largest finite number of a format, and its smallest normal and subnormal numbers.
double greatest_of(const Format& format);
double min_normal_of(const Format& format);
double min_subnormal_of(const Format& format);
/// Returns the magnitude up to which the format has all integers.
std::int64_t greatest_whole_of(const Format& format);

}  // namespace macheps::check
