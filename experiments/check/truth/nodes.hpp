// SPDX-License-Identifier: Apache-2.0
// An operation as a list of nodes, and what interprets it. A node is a step of the declared computation: its exact value, and
// the roundings that every legal kernel may make there. Three interpreters walk the list, for one row of the output at
// a time: `reference` has the values, `bound` what certainly bounds a legal kernel's errors, `spread` how far they spread
// when the roundings are independent of each other.
#pragma once
#include "core/rounding.hpp"
#include "experiments/check/truth/functions.hpp"
#include "experiments/check/truth/numbers.hpp"
#include "experiments/check/truth/sums.hpp"
#include "experiments/check/truth/wide.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

enum class Step : std::uint8_t {
    input,        ///< an array of the check
    product,      ///< the matrix product's sums, or the rows' results that a list across rows begins with
    constant,     ///< as near as the compute format comes
    add,          ///< x + y
    subtract,     ///< x - y
    multiply,     ///< x y
    divide,       ///< x / y
    exponential,  ///< e^x, also as 2^(x log2 e)
    logarithm,
    inverse_root,
    root,
    tangent,           ///< hyperbolic
    error,             ///< erf
    sigmoid,           ///< 1 / (1 + e^-x), which is 0 where e^-x overflows
    absolute,          ///< |x|
    larger,            ///< of x and y
    greatest,          ///< of a row
    least,             ///< of a row
    sum,               ///< of a row
    select,            ///< of a row: its element at the place that `array` names
    keep,              ///< x, and 0 in rows whose number in `array` is `constant`
    move,              ///< elements of a row change places
    accumulate,        ///< product x and addend y, which any chain of the product may have begun with
    either,            ///< x or y: two usual ways to the same number
    welford_mean,      ///< of a row by updates with each x in fp32; used only by wrong kernels
    welford_variance,  ///< the variance by the same updates
    slack,             ///< x; kernels may lose `roundings` of a number as large as y on their way to it
    round,             ///< a kernel may round to `format` here, to nearest even; the value stays what it was
    convert,           ///< every kernel must round to `format` here, and the value is the rounded one
};

/// The function whose accuracy a step has.
constexpr std::optional<Function> function_of(Step step) {
    switch (step) {
        case Step::exponential:
        case Step::sigmoid:
            return Function::exponential;
        case Step::logarithm:
            return Function::logarithm;
        case Step::inverse_root:
        case Step::root:
            return Function::inverse_root;
        case Step::tangent:
            return Function::tangent;
        case Step::error:
            return Function::error;
        default:
            return {};
    }
}

/// Returns true if a kernel rounds the result of the step.
constexpr bool is_rounded(Step step) {
    switch (step) {
        case Step::product:
        case Step::constant:
        case Step::add:
        case Step::subtract:
        case Step::multiply:
        case Step::divide:
        case Step::exponential:
        case Step::logarithm:
        case Step::inverse_root:
        case Step::root:
        case Step::tangent:
        case Step::error:
        case Step::sigmoid:
        case Step::sum:
        case Step::accumulate:
            return true;
        default:
            return false;
    }
}

/// Where an element of a moved row comes from; n elements, h = n / 2.
enum class Move : std::uint8_t {
    turn_halves,  ///< -x[i + h] in the first half, x[i - h] in the second
    turn_pairs,   ///< -x[i + 1] at even places, x[i - 1] at odd ones
    to_pairs,     ///< what lies in halves, as pairs: x[i / 2]
    to_halves,    ///< what lies in pairs, as halves: x[2 (i mod h)]
};
struct Moved {
    std::int64_t from = 0;
    bool is_negative = false;
};
constexpr Moved moved(Move move, std::int64_t i, std::int64_t n) {
    const std::int64_t half = n / 2;
    switch (move) {
        case Move::turn_halves:
            return i < half ? Moved{i + half, true} : Moved{i - half, false};
        case Move::turn_pairs:
            return i % 2 == 0 ? Moved{i + 1, true} : Moved{i - 1, false};
        case Move::to_pairs:
            return {i / 2, false};
        default:
            return {2 * (i % half), false};
    }
}

/// A node's place in its list.
struct Value {
    int node = -1;
};

struct Node {
    Step step = Step::constant;
    int x = -1, y = -1;                     ///< operands: earlier nodes
    bool is_row = false;                    ///< one number for a row; else one for each element
    int array = -1;                         ///< of an input
    double constant = 0, constant_low = 0;  ///< their sum
    /// Roundings of the compute format behind the step, where usual kernels differ the most of them; of a sum those of
    /// the whole sum beside its additions.
    double roundings = 1;
    double unit_roundings = 0;      ///< of an addition: roundings of numbers as large as one, besides
    std::int64_t skipped = 0;       ///< of a sum or an extreme: last elements that it leaves out (no legal kernel does)
    SumOrder order{};               ///< of a sum
    std::optional<double> start{};  ///< of an extreme: the number that it begins with (no legal kernel has one)
    bool is_narrow_sum = false;     ///< its value is a chain's in the accumulator's format, as a wrong kernel has it
    Move move = Move::turn_halves;
    Format format{};
    Round rounding = Round::nearest_even;  ///< of a conversion
    Ulps off{.ulps = 0};                   ///< the error of a wrong kernel's function, in ulp of fp32
};

/// Where an array's elements lie among the outputs'.
enum class Axis : std::uint8_t { each, row, column, whole, gathered };

/// A list in the making, in the words of whoever writes an operation.
class Nodes {
  public:
    Value input(int array, Axis axis) {
        return put({.step = Step::input, .is_row = axis == Axis::row || axis == Axis::whole, .array = array});
    }
    Value product() { return put({.step = Step::product}); }
    Value constant(double x) { return put({.step = Step::constant, .is_row = true, .constant = x}); }
    /// One that no format has: high + low is within 2^-106 of it.
    Value irrational(double high, double low) {
        return put({.step = Step::constant, .is_row = true, .constant = high, .constant_low = low});
    }
    Value add(Value x, Value y) { return two(Step::add, x, y); }
    Value subtract(Value x, Value y) { return two(Step::subtract, x, y); }
    Value multiply(Value x, Value y, double roundings = 1) { return two(Step::multiply, x, y, roundings); }
    Value divide(Value x, Value y, double roundings = 1) { return two(Step::divide, x, y, roundings); }
    Value accumulate(Value product, Value addend) { return two(Step::accumulate, product, addend); }
    Value either(Value x, Value y) { return two(Step::either, x, y, 0); }
    Value slack(Value x, Value y, double roundings) { return two(Step::slack, x, y, roundings); }
    /// 1 + x of an |x| of at most one that some kernels round once more before they add it.
    Value one_and(Value x) {
        const Value sum = add(constant(1), x);
        if (!rounds_steps_) nodes_.back().unit_roundings = 1;
        return sum;
    }
    Value larger(Value x, Value y) { return two(Step::larger, x, y, 0); }
    Value absolute(Value x) { return one(Step::absolute, x, 0); }
    Value exponential(Value x) { return one(Step::exponential, x); }
    Value logarithm(Value x) { return one(Step::logarithm, x); }
    Value inverse_root(Value x) { return one(Step::inverse_root, x); }
    Value root(Value x) { return one(Step::root, x); }
    Value tangent(Value x) { return one(Step::tangent, x); }
    Value error(Value x) { return one(Step::error, x); }
    Value sigmoid(Value x) {
        if (rounds_steps_) return divide(constant(1), one_and(exponential(multiply(x, constant(-1), 0))));
        return one(Step::sigmoid, x);
    }
    Value round(Value x, const Format& format) {
        return put({.step = Step::round, .x = x.node, .is_row = at(x).is_row, .format = format});
    }
    Value convert(Value x, const Format& format, Round rounding = Round::nearest_even) {
        return put(
            {.step = Step::convert, .x = x.node, .is_row = at(x).is_row, .format = format, .rounding = rounding});
    }
    /// The mean and variance of a row by Welford's updates in fp32. A legal kernel may use them only if it declares them.
    Value welford_mean(Value x) { return put({.step = Step::welford_mean, .x = x.node, .is_row = true}); }
    Value welford_variance(Value x) { return put({.step = Step::welford_variance, .x = x.node, .is_row = true}); }
    Value greatest(Value x, std::int64_t skipped = 0, std::optional<double> start = {}) {
        return put(
            {.step = Step::greatest, .x = x.node, .is_row = true, .roundings = 0, .skipped = skipped, .start = start});
    }
    Value least(Value x, std::int64_t skipped = 0, std::optional<double> start = {}) {
        return put(
            {.step = Step::least, .x = x.node, .is_row = true, .roundings = 0, .skipped = skipped, .start = start});
    }
    Value sum(Value x, std::int64_t skipped = 0, const SumOrder& order = {}, double roundings = 0) {
        return put({.step = Step::sum,
                    .x = x.node,
                    .is_row = true,
                    .roundings = roundings,
                    .skipped = skipped,
                    .order = order});
    }
    /// A chain that is rounded to `format` after every addition: no legal kernel's.
    Value narrow_sum(Value x, const Format& format) {
        return put(
            {.step = Step::sum, .x = x.node, .is_row = true, .order = {.accumulator = format}, .is_narrow_sum = true});
    }
    Value select(Value x, int array) {
        return put({.step = Step::select, .x = x.node, .is_row = true, .array = array, .roundings = 0});
    }
    /// x, and 0 in rows whose number in `array` is `skipped`.
    Value keep(Value x, int array, double skipped) {
        return put({.step = Step::keep,
                    .x = x.node,
                    .is_row = at(x).is_row,
                    .array = array,
                    .constant = skipped,
                    .roundings = 0});
    }
    Value move(Value x, Move move) { return put({.step = Step::move, .x = x.node, .roundings = 0, .move = move}); }

    const std::vector<Node>& list() const { return nodes_; }
    /// Gives every function that is less accurate in `table` than in `than` the largest error that `table` allows.
    /// Affects nodes that are added later.
    void make_functions(const FunctionTable& table, const FunctionTable& than);
    /// Rounds every step that is added later to fp32, once. The list then gives the numbers of a plain kernel with correctly
    /// rounded functions and sums, which no other kernel of the same form can do better in every step.
    void round_steps() { rounds_steps_ = true; }

  private:
    Value put(Node node) {
        if (const auto function = function_of(node.step)) node.off = off_[static_cast<std::size_t>(*function)];
        nodes_.push_back(node);
        const Value value{static_cast<int>(nodes_.size()) - 1};
        return rounds_steps_ && is_rounded(node.step) ? convert(value, fp32) : value;
    }
    Value one(Step step, Value x, double roundings = 1) {
        return put({.step = step, .x = x.node, .is_row = at(x).is_row, .roundings = roundings});
    }
    Value two(Step step, Value x, Value y, double roundings = 1) {
        return put(
            {.step = step, .x = x.node, .y = y.node, .is_row = at(x).is_row && at(y).is_row, .roundings = roundings});
    }
    const Node& at(Value x) const { return nodes_[static_cast<std::size_t>(x.node)]; }

    std::vector<Node> nodes_;
    bool rounds_steps_ = false;
    std::array<Ulps, function_count> off_ = [] {
        std::array<Ulps, function_count> none;
        none.fill({.ulps = 0});
        return none;
    }();
};

/// An array of a check, decoded.
struct Input {
    std::string_view name{};
    Axis axis = Axis::each;
    Numbers values{};
    std::vector<std::int64_t> rows{};  ///< of a gathered one: which of its own rows each row of outputs reads
    std::int64_t neighbour = 1;        ///< how far the element lies that a wrong kernel may read instead

    double at(std::int64_t row, std::int64_t column, std::int64_t columns) const {
        std::int64_t place = 0;
        switch (axis) {
            case Axis::each:
                place = row * columns + column;
                break;
            case Axis::row:
                place = row;
                break;
            case Axis::column:
                place = column;
                break;
            case Axis::gathered:
                place = rows[static_cast<std::size_t>(row)] * columns + column;
                break;
            case Axis::whole:
                break;
        }
        return values[static_cast<std::size_t>(place)];
    }
};

/// Whether a legal kernel may return anything other than a finite number within its bound.
enum class Overflowing : std::uint8_t {
    never,
    to_infinity,  ///< an infinity of the exact value's sign, or the largest finite number where the format saturates
    to_anything,  ///< an infinity of either sign, or NaN where two of them met
};

/// A number that a list begins with, and its errors: a matrix product's sum, or a row's result in a list across rows.
struct ProductSum {
    Wide sum{};
    double certain = 0;      ///< bounds a legal kernel's error
    double mean = 0;         ///< the part of it that roundings of one sign make
    double spread = 0;       ///< the norm of its independent local errors
    double certificate = 0;  ///< bounds the error of `sum` here
    Overflowing overflow = Overflowing::never;
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

/// The number of the row that a node reads.
inline double number_of(const Node& node, const Row& row) {
    return (*row.inputs)[static_cast<std::size_t>(node.array)].at(row.row, 0, row.columns);
}

/// How accurate the arithmetic is that a list runs in.
struct Arithmetic {
    double unit_roundoff = 0x1p-24;
    double least = 0x1p-150;    ///< half of the least subnormal number
    double overflow = 0x1p128;  ///< from here on results are infinite
    std::array<Accuracy, function_count> functions{};
    bool is_reference = false;  ///< constants and products have the certificate's errors

    const Accuracy& of(Function function) const { return functions[static_cast<std::size_t>(function)]; }
};

/// The fp32 of kernels, with functions as accurate as their vendor says.
Arithmetic kernel_arithmetic(const FunctionTable& table);
/// What `reference` computes with.
Arithmetic reference_arithmetic();

/// The nodes and elements of a legal kernel that may overflow. The lists are filled from the first such node on.
struct Overflows {
    bool is_any = false;
    bool is_inside = false;  ///< a node that later nodes read may overflow
    std::vector<std::vector<Overflowing>> nodes{};

    void clear() {
        is_any = is_inside = false;
        for (auto& node : nodes) node.clear();
    }
    /// Returns the overflow of element i, or of the single number of the row.
    Overflowing at(std::size_t node, std::size_t i) const {
        if (!is_any || nodes[node].empty()) return Overflowing::never;
        return nodes[node][nodes[node].size() == 1 ? 0 : i];
    }
};

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
/// Bounds every node's error in `arithmetic`, given the values; infinite if nothing bounds it. With `overflows`, a bound
/// holds for finite results, and `overflows` records where others are legal. Without it, such bounds are infinite.
void bound(const std::vector<Node>& nodes, const Row& row, const Columns<Wide>& values, const Arithmetic& arithmetic,
           Columns<double>& out, Overflows* overflows = nullptr);
/// The spread of every node's error in `arithmetic`, given values and bounds.
void spread(const std::vector<Node>& nodes, const Row& row, const Columns<Wide>& values, const Columns<double>& bounds,
            const Arithmetic& arithmetic, Columns<Spread>& out);

/// Half of the distance between neighbours of `format` at |x|, subnormals included; at infinity that of the top binade.
double half_ulp(const Format& format, double x);

}  // namespace macheps::check
