// SPDX-License-Identifier: Apache-2.0
// What every layout needs of the arrays of a check: found by name, decoded, and refused with their place. Then the layouts.
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

/// Whole numbers of whatever integer type the file has.
struct Integers {
    Shape shape{};
    std::vector<std::int64_t> values{};
};

std::string text_of(const Shape& shape);
std::int64_t product_of(const Shape& shape, std::size_t from, std::size_t to);

class Poser {
  public:
    /// `reads_in_place`: the arrays outlive the problem.
    Poser(const Declaration& declaration, const std::vector<files::StoredArray>& arrays, bool reads_in_place = false)
        : d_(declaration), arrays_(arrays), reads_in_place_(reads_in_place) {}

    [[noreturn]] void bad(std::string_view name, std::string what, std::string fix) const;
    /// Nothing where there is no such array.
    const files::StoredArray* find(std::string_view name) const;
    Decoded decode(std::string_view name) const;
    /// Does the same without a copy of the numbers, where the check reads them in place.
    DecodedInPlace decode_in_place(std::string_view name) const;
    Integers integers(std::string_view name) const;
    /// `--a-scale` without its hyphens.
    static std::string option_name(std::string_view name);
    /// The arrays of the operation beside the output, whose sizes must fit rows and columns.
    void add_inputs(Problem& problem, const Shape& out_shape) const;

    const Declaration& declaration() const { return d_; }

  private:
    const files::StoredArray& required(std::string_view name) const;
    ArrayFormat format_of(const files::StoredArray& array, std::string_view name) const;

    const Declaration& d_;
    const std::vector<files::StoredArray>& arrays_;
    bool reads_in_place_;
};

/// One function for each layout: rows, columns and inputs of `posed`, whose output is decoded already but
/// for places in rows, which become what lies there.
void pose_product(const Poser& poser, Posed& posed, ThreadPool& pool, const Sampling& sampling);
void pose_rows(const Poser& poser, Posed& posed);
void pose_gated(const Poser& poser, Posed& posed);
void pose_rotary(const Poser& poser, Posed& posed);
void pose_gathered(const Poser& poser, Posed& posed);
void pose_classes(const Poser& poser, Posed& posed);
void pose_quantised(const Poser& poser, Posed& posed);

}  // namespace macheps::check
