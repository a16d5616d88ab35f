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

/// What inputs are asked for.
struct InputRequest {
    Declaration declaration{};
    std::int64_t batches = 1, m = 192, n = 160, k = 1000;  ///< of a product; tails on all sides of usual tiles
    std::int64_t rows = 64, columns = 1000;                ///< of the others
    std::vector<std::int64_t> groups{};  ///< rows of each group, which has its own b; empty: there are none
    std::int64_t group_rows = 0;         ///< rows that each group has room for; 0: one follows the other
    std::uint64_t seed = 7;

    Format format(std::string_view array) const;  ///< fp32 where none is declared
    /// The arrays that these inputs have: those that the operation requires, and those that are declared.
    std::vector<std::string_view> arrays() const;
    std::vector<std::int64_t> shape_of(std::string_view array) const;
    std::vector<std::int64_t> out_shape() const;
    std::int64_t row_width() const;  ///< elements of a row of the output
    /// Sums of magnitudes of at most 2^this units have no rounding in the accumulator: 24 of fp32.
    int accumulator_bits() const;
};

struct MadeArray {
    std::string name;
    ArrayFormat format{};
    std::vector<std::int64_t> shape{};
    std::vector<double> values{};
    bool is_whole = false;  ///< stored as integers
};

/// One set of inputs: a file.
struct MadeInputs {
    std::string name;  ///< of the recipe, and which of several: tail-8
    InputRequest request{};
    std::vector<MadeArray> arrays{};

    /// Precondition: there is such an array.
    MadeArray& at(std::string_view array);
    const MadeArray* find(std::string_view array) const;
};

/// What a recipe makes its inputs with.
class Maker {
  public:
    Maker(const InputRequest& request, std::string_view recipe) : request_(request), recipe_(recipe) {}

    const InputRequest& request() const { return request_; }
    Draws draws(std::string_view array) const { return Draws(request_.seed, recipe_, array); }
    /// Inputs of ordinary numbers, which the recipe then changes where it wants others; `part` stands behind its name.
    MadeInputs& add(std::string_view part = {});
    MadeInputs& add(std::string_view part, const InputRequest& request);

    /// The inputs, each value rounded to its array's format.
    std::vector<MadeInputs> take();

  private:
    InputRequest request_;
    std::string recipe_;
    std::vector<MadeInputs> made_{};
};

/// The largest finite number of a format, and its least normal and subnormal ones.
double greatest_of(const Format& format);
double least_normal_of(const Format& format);
double least_subnormal_of(const Format& format);
/// Whole numbers up to this magnitude are numbers of the format.
std::int64_t greatest_whole_of(const Format& format);

}  // namespace macheps::check
