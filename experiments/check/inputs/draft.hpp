// SPDX-License-Identifier: Apache-2.0
// Requests for generated inputs, and the generated arrays with their formats.
#pragma once
#include "experiments/check/declare/operations.hpp"
#include "experiments/check/pose/draws.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

/// The declaration, the sizes and the seed of the inputs to generate.
struct InputRequest {
    Declaration declaration{};
    std::int64_t batches = 1, m = 192, n = 160, k = 1000;  ///< of a product; not multiples of 128, a common tile size
    std::int64_t rows = 64, columns = 1000;                ///< of other operations
    std::vector<std::int64_t> groups{};  ///< rows of each group; each group has its own b; empty: no groups
    std::int64_t group_rows = 0;         ///< rows that each group occupies in a, used or not; 0: only its used rows
    std::uint64_t seed = 7;

    Format format(std::string_view array) const;  ///< fp32 if no format is declared
    /// Returns the names of the arrays of these inputs: the arrays that the operation requires, and those that are
    /// declared.
    std::vector<std::string_view> arrays() const;
    std::vector<std::int64_t> shape_of(std::string_view array) const;
    std::vector<std::int64_t> out_shape() const;
    std::int64_t row_width() const;  ///< number of elements in a row of the output
    /// Returns the number of bits b within which the accumulator adds without rounding. Terms that are multiples of a
    /// unit are added exactly if the sum of their magnitudes is at most 2^b units. For fp32, b is 24.
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
    std::string name;  ///< name of the recipe; if it makes several sets, with a suffix, such as tail-8
    InputRequest request{};
    std::vector<MadeArray> arrays{};

    /// Returns the array of this name. Precondition: it exists.
    MadeArray& at(std::string_view array);
    const MadeArray* find(std::string_view array) const;
};

/// Makes the inputs of one recipe.
class Maker {
  public:
    Maker(const InputRequest& request, std::string_view recipe) : request_(request), recipe_(recipe) {}

    const InputRequest& request() const { return request_; }
    Draws draws(std::string_view array) const { return Draws(request_.seed, recipe_, array); }
    /// Adds a set of inputs with default contents, which the recipe may then change. `part` is the suffix of its name.
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
/// Returns the largest n such that the format represents all integers up to n.
std::int64_t greatest_whole_of(const Format& format);

}  // namespace macheps::check
