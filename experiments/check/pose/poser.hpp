// SPDX-License-Identifier: Apache-2.0
// Finds the arrays of a check by name and decodes them. Errors name the file. For each layout of arrays, there is a
// function that builds the problem.
#pragma once
#include "experiments/check/check.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

using Shape = std::vector<std::int64_t>;

struct Decoded {
    Format format{};
    Shape shape{};
    std::vector<double> values{};
};

struct DecodedInPlace {
    Format format{};
    Shape shape{};
    Numbers values{};
};

/// An array of any integer type, as 64-bit integers.
struct Integers {
    Shape shape{};
    std::vector<std::int64_t> values{};
};

std::string text_of(const Shape& shape);
std::int64_t product_of(const Shape& shape, std::size_t from, std::size_t to);

class Poser {
  public:
    /// If `reads_in_place` is true, the arrays must outlive the problem.
    Poser(const Declaration& declaration, const std::vector<files::StoredArray>& arrays, bool reads_in_place = false)
        : d_(declaration), arrays_(arrays), reads_in_place_(reads_in_place) {}

    [[noreturn]] void bad(std::string_view name, std::string what, std::string fix) const;
    /// Returns the array with this name, or null.
    const files::StoredArray* find(std::string_view name) const;
    Decoded decode(std::string_view name) const;
    /// Decodes an array as decode() does, but does not copy the numbers if they can be read in place.
    DecodedInPlace decode_in_place(std::string_view name) const;
    Integers integers(std::string_view name) const;
    /// Returns the name of the option for an array, without the leading hyphens: `a-scale` for `a_scale`.
    static std::string option_name(std::string_view name);
    /// Adds the input arrays of the operation to the problem, except the operands a and b of a product, groups, and
    /// block scales. Errors: throws Error (bad input) if a shape does not fit the rows and columns of the problem.
    void add_inputs(Problem& problem, const Shape& out_shape) const;

    const Declaration& declaration() const { return d_; }

  private:
    const files::StoredArray& required(std::string_view name) const;
    ArrayFormat format_of(const files::StoredArray& array, std::string_view name) const;

    const Declaration& d_;
    const std::vector<files::StoredArray>& arrays_;
    bool reads_in_place_;
};

/// Each function handles one layout of arrays and sets the rows, columns and inputs of the problem in `posed`. The
/// caller decodes the output, except for operations that return indices into the rows of x. For these operations,
/// pose_rows() sets the output to the elements of x that the indices select.
void pose_product(const Poser& poser, Posed& posed, ThreadPool& pool, const Sampling& sampling);
void pose_rows(const Poser& poser, Posed& posed);
void pose_gated(const Poser& poser, Posed& posed);
void pose_rotary(const Poser& poser, Posed& posed);
void pose_gathered(const Poser& poser, Posed& posed);
void pose_classes(const Poser& poser, Posed& posed);
void pose_quantised(const Poser& poser, Posed& posed);

}  // namespace macheps::check
