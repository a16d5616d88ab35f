// SPDX-License-Identifier: Apache-2.0
// An operation as a list of nodes, and what interprets it. A node is a step of the declared computation: its exact value, and
// the roundings that every legal kernel may make there. Three interpreters walk the list, for one row of the output at
// a time: `reference` has the values, `bound` what certainly bounds a legal kernel's errors, `spread` how far they spread
// when the roundings are independent of each other.
#pragma once
#include "core/format.hpp"
#include "experiments/check/wide.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

enum class Step : std::uint8_t {
    input,        ///< an array of the check
    product,      ///< the matrix product's sums
    constant,     ///< as near as the compute format comes
    add,          ///< x + y
    subtract,     ///< x - y
    multiply,     ///< x y
    divide,       ///< x / y
    exponential,  ///< e^x, also as 2^(x log2 e)
    logarithm,
    inverse_root,
    greatest,    ///< of a row
    sum,         ///< of a row, in any order
    accumulate,  ///< product x and addend y, which any chain of the product may have begun with
    either,      ///< x or y: two usual ways to the same number
    round,       ///< to `format`, nearest even
};

/// A node's place in its list.
struct Value {
    int node = -1;
};

struct Node {
    Step step = Step::constant;
    int x = -1, y = -1;   ///< operands: earlier nodes
    bool is_row = false;  ///< one number for a row; else one for each element
    int array = -1;       ///< of an input
    double constant = 0;
    double roundings =
        1;  ///< roundings of the compute format behind the step, where usual kernels differ the most of them
    std::int64_t skipped = 0;  ///< of a sum: last elements that it leaves out (no legal kernel does)
    Format format{};
};

/// Where an array's elements lie among the outputs'.
enum class Axis : std::uint8_t { each, row, column, whole };

/// A list in the making, in the words of whoever writes an operation.
class Nodes {
  public:
    Value input(int array, Axis axis) {
        return put({.step = Step::input, .is_row = axis == Axis::row || axis == Axis::whole, .array = array});
    }
    Value product() { return put({.step = Step::product}); }
    Value constant(double x) { return put({.step = Step::constant, .is_row = true, .constant = x}); }
    Value add(Value x, Value y) { return two(Step::add, x, y); }
    Value subtract(Value x, Value y) { return two(Step::subtract, x, y); }
    Value multiply(Value x, Value y, double roundings = 1) { return two(Step::multiply, x, y, roundings); }
    Value divide(Value x, Value y, double roundings = 1) { return two(Step::divide, x, y, roundings); }
    Value accumulate(Value product, Value addend) { return two(Step::accumulate, product, addend); }
    Value either(Value x, Value y) { return two(Step::either, x, y, 0); }
    Value exponential(Value x) { return one(Step::exponential, x); }
    Value logarithm(Value x) { return one(Step::logarithm, x); }
    Value inverse_root(Value x) { return one(Step::inverse_root, x); }
    Value round(Value x, const Format& format) {
        Node node{.step = Step::round,
                  .x = x.node,
                  .is_row = nodes_[static_cast<std::size_t>(x.node)].is_row,
                  .format = format};
        return put(node);
    }
    Value greatest(Value x) { return put({.step = Step::greatest, .x = x.node, .is_row = true, .roundings = 0}); }
    Value sum(Value x, std::int64_t skipped = 0) {
        return put({.step = Step::sum, .x = x.node, .is_row = true, .skipped = skipped});
    }

    const std::vector<Node>& list() const { return nodes_; }

  private:
    Value put(Node node) {
        nodes_.push_back(node);
        return {static_cast<int>(nodes_.size()) - 1};
    }
    Value one(Step step, Value x) { return put({.step = step, .x = x.node, .is_row = at(x).is_row}); }
    Value two(Step step, Value x, Value y, double roundings = 1) {
        return put(
            {.step = step, .x = x.node, .y = y.node, .is_row = at(x).is_row && at(y).is_row, .roundings = roundings});
    }
    const Node& at(Value x) const { return nodes_[static_cast<std::size_t>(x.node)]; }

    std::vector<Node> nodes_;
};

/// An array of a check, decoded.
struct Input {
    std::string_view name{};
    Axis axis = Axis::each;
    std::vector<double> values{};

    double at(std::int64_t row, std::int64_t column, std::int64_t columns) const {
        const std::int64_t place = axis == Axis::each     ? row * columns + column
                                   : axis == Axis::row    ? row
                                   : axis == Axis::column ? column
                                                          : 0;
        return values[static_cast<std::size_t>(place)];
    }
};

/// What a matrix product's interpreter needs of one output.
struct ProductSum {
    Wide sum{};
    double certain = 0;      ///< bounds a legal kernel's error
    double mean = 0;         ///< the part of it that roundings of one sign make
    double spread = 0;       ///< the norm of its independent local errors
    double certificate = 0;  ///< bounds the error of `sum` here
};

/// The row that interpreters walk.
struct Row {
    std::int64_t row = 0, columns = 0;  ///< which, and of how many elements
    std::int64_t first = 0, count = 0;  ///< the elements that are wanted; a list with sums needs all of them
    const std::vector<Input>* inputs = nullptr;
    const std::vector<ProductSum>* products = nullptr;  ///< of the elements that are wanted
    double addend_certain = 0, addend_mean = 0,
           addend_spread = 0;  ///< errors of a chain relative to what it begins with
};

/// How accurate the arithmetic is that a list runs in: relative errors.
struct Arithmetic {
    double unit_roundoff = 0x1p-24;
    double least = 0x1p-150;    ///< half of the least subnormal number
    double overflow = 0x1p128;  ///< from here on results are infinite
    double exponential = 0x1p-22, logarithm = 0x1p-23, inverse_root = 0x1p-22;
    bool is_reference = false;  ///< constants and products have the certificate's errors
};

/// The fp32 of kernels, with functions as accurate as their vendor says.
Arithmetic kernel_arithmetic(double exponential_ulps, double logarithm_ulps, double inverse_root_ulps);
/// What `reference` computes with.
Arithmetic reference_arithmetic();

/// The errors of one number of a legal kernel: norms of independent roundings and what adds up whatever they do.
struct Spread {
    double linear = 0;  ///< systematic: functions, and means of sums that stall
    double own = 0;     ///< the norm of roundings that no other element of the row shares
    double shared = 0;  ///< the norm of all other roundings
    double common = 0;  ///< certain bound of what the elements of a row share
};

template <class T>
using Columns = std::vector<std::vector<T>>;  ///< of each node: its elements, or the one number of the row

/// Computes every node's exact value, as near as reference_arithmetic() comes.
void reference(const std::vector<Node>& nodes, const Row& row, Columns<Wide>& out);
/// Bounds every node's error in `arithmetic`, given the values; infinite where nothing bounds it.
void bound(const std::vector<Node>& nodes, const Row& row, const Columns<Wide>& values, const Arithmetic& arithmetic,
           Columns<double>& out);
/// The spread of every node's error in `arithmetic`, given values and bounds.
void spread(const std::vector<Node>& nodes, const Row& row, const Columns<Wide>& values, const Columns<double>& bounds,
            const Arithmetic& arithmetic, Columns<Spread>& out);

/// Half of the distance between neighbours of `format` at |x|, subnormals included; at infinity that of the top binade.
double half_ulp(const Format& format, double x);

}  // namespace macheps::check
