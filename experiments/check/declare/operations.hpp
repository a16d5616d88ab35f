// SPDX-License-Identifier: Apache-2.0
// What can be checked: operations, what they declare, and the list of nodes that each is.
#pragma once
#include "experiments/check/declare/declaration.hpp"
#include "experiments/check/truth/nodes.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace macheps::check {

/// What a wrong kernel does otherwise. A mutant of an operation is its list made with one of these.
struct Defect {
    double eps_factor = 1;
    std::int64_t divisor_less = 0;  ///< a mean that divides by so much less
    std::int64_t dropped = 0;       ///< last terms of every reduction that are left out
    std::string_view missing{};     ///< an array that is not used, `alpha` or `beta`
    std::string_view shifted{};     ///< an array whose every element is its neighbour's
    bool exchanges_scales = false;  ///< those of a and b take each other's place
    std::string_view next{};        ///< an array of indices that are too great by one
    bool exchanged = false;         ///< gate and up
    bool is_negative = false;       ///< a difference for a sum
    bool has_other_form = false;    ///< the form that is mistaken for the operation's: tanh for erf, pairs for halves
    bool counts_ignored = false;    ///< ignored rows count in a mean
    std::optional<Format> inner{};  ///< rounded to on the way
    std::optional<Format> accumulator{};  ///< the format to which every partial sum is rounded
    bool is_unshifted = false;            ///< exponentials of x itself, which overflow fp32
    bool has_one_pass_variance = false;   ///< E[x^2] - mean^2 in fp32
    bool has_running_variance = false;    ///< Welford's mean and squares in fp32
    std::string_view functions{};   ///< table whose less accurate functions have the largest errors that it allows
    std::string_view form{};        ///< another form of the operation, with every step rounded to fp32
    std::optional<double> start{};  ///< the number with which the extreme of each row begins
};

/// A wrong kernel that an operation's checks must notice.
struct MutantRow {
    std::string name;
    std::string_view kind;  ///< structure, scale, operation, precision, range
    Defect defect;
    bool (*applies)(const Declaration& declaration) = nullptr;  ///< always, unless given
};

/// One of several usual ways to compute an operation, whose roundings differ.
struct Form {
    std::string_view name;
    std::string_view formula;
    /// At some arguments the form loses far more than its few roundings. It is then a wrong kernel of checks that declare a form
    /// that does not. Forms that do not cancel are within each other's bounds.
    bool cancels = false;
};

/// Whoever lists an operation's nodes asks this for what it needs.
struct Listing {
    const Declaration& declaration;
    const std::vector<Input>& inputs;
    const Defect& defect;
    std::int64_t columns = 0;  ///< elements of a row
    Nodes nodes{};

    /// Returns the name of the form that is listed; empty for the first form.
    std::string_view form() const { return defect.form.empty() ? std::string_view(declaration.form) : defect.form; }
    /// Returns true if this form is listed. It must not be the first form of the operation.
    bool has_form(std::string_view name) const { return form() == name; }
    /// Nothing where the check has no such array.
    std::optional<Value> input(std::string_view name);
    /// The mean over a row: a sum, and a division that may be a multiplication by the rounded reciprocal.
    Value mean(Value x) {
        return nodes.divide(sum(x), nodes.constant(static_cast<double>(columns - defect.divisor_less)), 2);
    }
    /// The extreme of a row.
    Value greatest(Value x);
    Value least(Value x);
    /// Over a row, in the declared order; `roundings` of the whole sum besides.
    Value sum(Value x, double roundings = 0);
    /// Where a kernel with a declared inner format rounds to it.
    Value inner(Value x);
    /// Of an array with one element.
    double number(std::string_view name) const;
    /// The place of an array among the inputs.
    int array(std::string_view name) const;
    Value eps() { return nodes.constant(*declaration.eps * defect.eps_factor); }
};

struct ArrayRole {
    std::string_view name;
    Axis axis;
    bool is_required = false;
    bool is_layout = false;  ///< whole numbers that say how other arrays lie
};

/// How the arrays of an operation are found and laid out.
enum class Layout : std::uint8_t {
    product,
    rows,       ///< x in the shape of the output, or of more columns that the output has one number for
    gated,      ///< gate and up, or both as halves of x
    rotary,     ///< x, and tables of cos and sin
    gathered,   ///< rows of a table
    classes,    ///< a row of x for each target
    quantised,  ///< x and the scales that are made of it
};

struct Operation {
    std::string_view name, summary;
    std::span<const ArrayRole> arrays;  ///< beside a and b of a product
    Value (*list)(Listing& listing);    ///< adds its nodes; the last is the output before its rounding
    bool is_product = false;            ///< begins with a matrix product of `a` and `b`
    bool has_reduction = false;
    bool is_one_per_row = false;  ///< the output has one element for each row of `x`
    bool has_eps = false, has_mean = false;
    Layout layout = Layout::rows;
    std::span<const MutantRow> mutants{};  ///< beside those that follow from the members above
    /// Of losses that are reduced: the list that goes on from the results of all rows.
    Value (*across)(Listing& listing) = nullptr;
    bool is_bitwise = false;   ///< signs of zeros count, and a copy of the input may be right
    bool gives_index = false;  ///< outputs are places in rows of x; each is judged by what lies there
    bool has_inner = false;    ///< somewhere on its way a kernel may round to a narrow format
    bool has_variance = false, has_softmax = false;
    bool has_extreme = false;       ///< the result is the greatest or least number or magnitude of a row, or its place
    std::span<const Form> forms{};  ///< the first is the default; empty if there is only one form
};

std::span<const Operation> all_operations();
/// Operations that users may name but that no list of nodes computes yet. They are declined on the command line and in suites.
std::span<const std::string_view> later_operations();
bool is_later_operation(std::string_view name);

}  // namespace macheps::check
