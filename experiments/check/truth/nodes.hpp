// SPDX-License-Identifier: Apache-2.0
// Describes an operation as a list of nodes, and declares the interpreters of such lists. A node is a step of the
// declared computation. It defines an exact value and the roundings that a legal kernel may make in this step. Three
// interpreters walk the list, one row of the output at a time. `reference` computes the values. `bound` computes
// certain bounds of a legal kernel's errors. `spread` computes how far these errors spread if the roundings are
// independent of each other.
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
    product,      ///< sums of the matrix product; in a list that reduces all rows, the results of the rows
    constant,     ///< a constant, which kernels round to the compute format
    add,          ///< x + y
    subtract,     ///< x - y
    multiply,     ///< x y
    divide,       ///< x / y
    exponential,  ///< e^x; kernels may compute 2^(x log2 e)
    logarithm,
    inverse_root,
    root,
    tangent,           ///< tanh x
    error,             ///< erf x
    sigmoid,           ///< 1 / (1 + e^-x), which is 0 where e^-x overflows
    absolute,          ///< |x|
    larger,            ///< the larger of x and y
    greatest,          ///< largest element of a row
    least,             ///< smallest element of a row
    sum,               ///< sum of a row
    select,            ///< the element of a row at the index that `array` holds for the row
    keep,              ///< x, or 0 if the number that `array` holds for the row is equal to `constant`
    move,              ///< the elements of a row, rearranged (see Move)
    accumulate,        ///< product x plus addend y; any chain of the product may begin with the addend
    either,            ///< x or y, which are two usual formulas for the same number
    welford_mean,      ///< mean of a row by Welford's updates in fp32; only in wrong kernels
    welford_variance,  ///< variance of a row by Welford's updates in fp32; only in wrong kernels
    slack,             ///< x; a kernel's error may include those of `roundings` roundings of the number y
    round,             ///< a kernel may round to `format` here, to nearest even; the exact value is x
    convert,           ///< every kernel must round to `format` here; the exact value is the rounded one
};

/// Returns the function whose stated accuracy determines the error of a step, if there is one.
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

/// Rearrangements of a row x of n elements, where h = n / 2. The comments give element i of the result.
enum class Move : std::uint8_t {
    turn_halves,  ///< -x[i + h] for i < h, otherwise x[i - h]
    turn_pairs,   ///< -x[i + 1] for even i, otherwise x[i - 1]
    to_pairs,     ///< from the order of halves to that of pairs: x[i / 2]
    to_halves,    ///< from the order of pairs to that of halves: x[2 (i mod h)]
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

/// The index of a node in its list.
struct Value {
    int node = -1;
};

struct Node {
    Step step = Step::constant;
    int x = -1, y = -1;                     ///< operands: earlier nodes
    bool is_row = false;                    ///< one number for the row; otherwise one for each element
    int array = -1;                         ///< index of the array that the step reads
    double constant = 0, constant_low = 0;  ///< the constant is constant + constant_low
    /// The largest number of roundings to the compute format that usual kernels make in this step. In a sum, only
    /// roundings of the whole sum count, and not those of its additions.
    double roundings = 1;
    double unit_roundings = 0;      ///< for an addition: additional roundings of numbers of magnitude 1
    std::int64_t skipped = 0;       ///< for a sum or extreme: number of last elements left out (never in legal kernels)
    SumOrder order{};               ///< of a sum
    std::optional<double> start{};  ///< for an extreme: the number that it begins with (never in legal kernels)
    bool is_narrow_sum = false;     ///< for a sum: has the value of a rounded chain (only in wrong kernels)
    Move move = Move::turn_halves;
    Format format{};
    Round rounding = Round::nearest_even;  ///< of a conversion
    Ulps off{.ulps = 0};                   ///< the error of a wrong kernel's function, in ulp of fp32
};

/// To which outputs an element of an array belongs. The array has one element for each output (`each`), for each row of
/// outputs, or for each column, or a single element for all outputs (`whole`). A `gathered` array is a table, and an
/// index selects one of its rows for each row of outputs.
enum class Axis : std::uint8_t { each, row, column, whole, gathered };

/// Builds the list of nodes of an operation.
class Nodes {
  public:
    Value input(int array, Axis axis) {
        return put({.step = Step::input, .is_row = axis == Axis::row || axis == Axis::whole, .array = array});
    }
    Value product() { return put({.step = Step::product}); }
    Value constant(double x) { return put({.step = Step::constant, .is_row = true, .constant = x}); }
    /// Adds a constant that no format can represent. high + low is within 2^-106 of the constant.
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
    /// Adds a node for 1 + x. Precondition: |x| <= 1. Some kernels round once more before this addition.
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
    /// Add the mean and the variance of a row by Welford's updates in fp32. These nodes are only for wrong kernels. If
    /// a kernel declares Welford's updates, other nodes bound its errors.
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
    /// Adds a sum as a chain that is rounded to `format` after every addition. No legal kernel has such a node.
    Value narrow_sum(Value x, const Format& format) {
        return put(
            {.step = Step::sum, .x = x.node, .is_row = true, .order = {.accumulator = format}, .is_narrow_sum = true});
    }
    Value select(Value x, int array) {
        return put({.step = Step::select, .x = x.node, .is_row = true, .array = array, .roundings = 0});
    }
    /// Adds a node with the value x, or 0 if the number that `array` holds for the row is equal to `skipped`.
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
    /// Makes functions less accurate, for wrong kernels. Each function that is less accurate in `table` than in `than`
    /// has the largest error that `table` allows. Affects only nodes that are added later.
    void make_functions(const FunctionTable& table, const FunctionTable& than);
    /// Rounds the result of each step that is added after this call once, to fp32. The list then gives the results of a
    /// plain kernel with correctly rounded functions and sums. No kernel that makes the same steps is more accurate in
    /// any of them.
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

/// An input array of a check, decoded to numbers.
struct Input {
    std::string_view name{};
    Axis axis = Axis::each;
    Numbers values{};
    std::vector<std::int64_t> rows{};  ///< if gathered: the row of the array that each row of outputs reads
    std::int64_t neighbour = 1;        ///< distance to the element that a wrong kernel may read instead

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
    to_infinity,  ///< an infinity with the exact value's sign or, if the format saturates, the largest finite number
    to_anything,  ///< an infinity of either sign, or NaN
};

/// A number with which a list of nodes begins, and the errors of the number. It is the sum of a matrix product or, in a
/// list that reduces all rows, the result of a row.
struct ProductSum {
    Wide sum{};
    double certain = 0;      ///< upper bound of a legal kernel's error
    double mean = 0;         ///< the part of `certain` that roundings of the same sign cause
    double spread = 0;       ///< norm of the independent rounding errors of the sum
    double certificate = 0;  ///< upper bound of the error of `sum`
    Overflowing overflow = Overflowing::never;
};

/// The row that the interpreters evaluate.
struct Row {
    std::int64_t row = 0, columns = 0;  ///< index of the row, and its number of elements
    std::int64_t first = 0, count = 0;  ///< the elements to evaluate; a list with sums needs all of them
    const std::vector<Input>* inputs = nullptr;
    const std::vector<ProductSum>* products = nullptr;  ///< one for each element to evaluate
    double addend_certain = 0, addend_mean = 0,
           addend_spread = 0;  ///< errors that the addend causes in a chain that begins with it, divided by the addend
};

/// Returns the number that the array of a node holds for the row.
inline double number_of(const Node& node, const Row& row) {
    return (*row.inputs)[static_cast<std::size_t>(node.array)].at(row.row, 0, row.columns);
}

/// The accuracy of the arithmetic in which a list is evaluated.
struct Arithmetic {
    double unit_roundoff = 0x1p-24;
    double least = 0x1p-150;    ///< half of the smallest subnormal number
    double overflow = 0x1p128;  ///< results of this size and above are infinite
    std::array<Accuracy, function_count> functions{};
    bool is_reference = false;  ///< the arithmetic of reference(); a product then has the error ProductSum::certificate

    const Accuracy& of(Function function) const { return functions[static_cast<std::size_t>(function)]; }
};

/// Returns the fp32 arithmetic of kernels, with the accuracy of functions that `table` states.
Arithmetic kernel_arithmetic(const FunctionTable& table);
/// Returns the arithmetic of reference().
Arithmetic reference_arithmetic();

/// Records which elements of which nodes may overflow in a legal kernel. The vector of a node is empty if none of its
/// elements may overflow.
struct Overflows {
    bool is_any = false;
    bool is_inside = false;  ///< a node other than the last one may overflow
    std::vector<std::vector<Overflowing>> nodes{};

    void clear() {
        is_any = is_inside = false;
        for (auto& node : nodes) node.clear();
    }
    /// Returns the overflow of element i of a node, or of the node's single number.
    Overflowing at(std::size_t node, std::size_t i) const {
        if (!is_any || nodes[node].empty()) return Overflowing::never;
        return nodes[node][nodes[node].size() == 1 ? 0 : i];
    }
};

/// The expected size of the error of one number in a legal kernel: norms of independent rounding errors, and errors
/// that may all have the same sign.
struct Spread {
    double linear = 0;  ///< systematic errors: those of functions, and the mean errors of sums that stall
    double own = 0;     ///< norm of the errors that no other element of the row shares
    double shared = 0;  ///< norm of all other independent errors
    double common = 0;  ///< certain bound of the errors that all elements of the row share
};

template <class T>
using Columns = std::vector<std::vector<T>>;  ///< for each node: its elements, or its single number for the row

/// Computes every node's exact value, up to the errors of reference_arithmetic().
void reference(const std::vector<Node>& nodes, const Row& row, Columns<Wide>& out);
/// Computes an upper bound of every node's error in `arithmetic`, given the exact values. A bound is infinite if the
/// error has no bound. If `overflows` is not null, the bounds hold only for finite results, and `overflows` records the
/// elements for which other results are legal. If it is null, the bounds of these elements are infinite.
void bound(const std::vector<Node>& nodes, const Row& row, const Columns<Wide>& values, const Arithmetic& arithmetic,
           Columns<double>& out, Overflows* overflows = nullptr);
/// Computes the spread of every node's error in `arithmetic`, given values and bounds.
void spread(const std::vector<Node>& nodes, const Row& row, const Columns<Wide>& values, const Columns<double>& bounds,
            const Arithmetic& arithmetic, Columns<Spread>& out);

/// Returns half the distance between neighbouring numbers of `format` at |x|, including subnormal numbers. Beyond the
/// largest finite number, the distance in the top binade is used. The result is infinite for infinities, and NaN for
/// NaN.
double half_ulp(const Format& format, double x);

}  // namespace macheps::check
