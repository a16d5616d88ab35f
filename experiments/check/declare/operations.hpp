// SPDX-License-Identifier: Apache-2.0
// The operations that can be checked: their arrays, their properties and their lists of nodes.
#pragma once
#include "experiments/check/declare/declaration.hpp"
#include "experiments/check/truth/nodes.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace macheps::check {

/// Defect of a wrong kernel. A mutant of an operation is the operation's list of nodes, built with one of these
/// defects.
struct Defect {
    double eps_factor = 1;
    std::int64_t divisor_less = 0;        ///< subtracted from the divisor of a mean
    std::int64_t dropped = 0;             ///< number of terms that every reduction omits at the end
    std::string_view missing{};           ///< an array that is not used, or `alpha`, `beta` or `activation`
    std::string_view shifted{};           ///< an array whose elements are replaced by their neighbours
    bool exchanges_scales = false;        ///< the scales of a and b are exchanged
    std::string_view next{};              ///< an array whose indices are one too large
    bool exchanged = false;               ///< gate and up are exchanged
    bool is_negative = false;             ///< computes a difference instead of a sum
    bool has_other_form = false;          ///< computes a similar operation: tanh for erf, pairs for halves
    bool counts_ignored = false;          ///< the divisor of a mean counts ignored rows
    std::optional<Format> inner{};        ///< format to which intermediate results are rounded
    std::optional<Format> accumulator{};  ///< the format to which every partial sum is rounded
    bool is_unshifted = false;            ///< takes exponentials of x itself, which overflow fp32
    bool has_one_pass_variance = false;   ///< computes the variance as E[x^2] - mean^2 in fp32
    bool has_running_variance = false;    ///< computes mean and variance by Welford's updates in fp32
    std::string_view functions{};         ///< less accurate function table; functions make the errors that it allows
    std::string_view form{};              ///< name of another form of the operation; every step is rounded to fp32
    std::optional<double> start{};        ///< initial value of each row's maximum or minimum
};

/// A wrong kernel that checks of the operation must notice.
struct MutantRow {
    std::string name;
    std::string_view kind;  ///< structure, scale, operation, precision, range
    Defect defect;
    bool (*applies)(const Declaration& declaration) = nullptr;  ///< null: always
};

/// One of several common ways to compute an operation. They differ in their roundings.
struct Form {
    std::string_view name;
    std::string_view formula;
    /// True if terms cancel in this form: at some arguments, its error is far larger than a few roundings. If a check
    /// declares a form that does not cancel, a form that cancels is a wrong kernel. Forms that do not cancel stay
    /// within each other's bounds.
    bool cancels = false;
};

/// Context for listing the nodes of an operation.
struct Listing {
    const Declaration& declaration;
    const std::vector<Input>& inputs;
    const Defect& defect;
    std::int64_t columns = 0;  ///< number of elements of a row
    Nodes nodes{};

    /// Returns the name of the form to list; empty for the first form.
    std::string_view form() const { return defect.form.empty() ? std::string_view(declaration.form) : defect.form; }
    /// Returns true if this is the form to list. `name` must not be the operation's first form.
    bool has_form(std::string_view name) const { return form() == name; }
    /// Returns an array, or nothing if the check does not have it or the defect leaves it out.
    std::optional<Value> input(std::string_view name);
    /// Returns the mean of a row: a sum and a division. The division may be a multiplication by the rounded reciprocal.
    Value mean(Value x) {
        return nodes.divide(sum(x), nodes.constant(static_cast<double>(columns - defect.divisor_less)), 2);
    }
    /// Return the maximum or the minimum of a row.
    Value greatest(Value x);
    Value least(Value x);
    /// Returns the sum of a row in the declared order. `roundings` is the number of further roundings of the whole sum
    /// that kernels may make.
    Value sum(Value x, double roundings = 0);
    /// Returns x, which a kernel may round to the inner format if one is declared.
    Value inner(Value x);
    /// Returns the number in an array of one element.
    double number(std::string_view name) const;
    /// Returns the index of an array among the inputs, or -1.
    int array(std::string_view name) const;
    Value eps() { return nodes.constant(*declaration.eps * defect.eps_factor); }
};

struct ArrayRole {
    std::string_view name;
    Axis axis;
    bool is_required = false;
    bool is_layout = false;  ///< integers that describe the layout of other arrays
};

/// How the arrays of an operation are found and laid out.
enum class Layout : std::uint8_t {
    product,
    rows,       ///< x has the shape of the output, or its rows are reduced to one output each
    gated,      ///< gate and up, or both as halves of x
    rotary,     ///< x, and tables of cos and sin
    gathered,   ///< rows of a table
    classes,    ///< one target for each row of x
    quantised,  ///< x and its scales
};

struct Operation {
    std::string_view name, summary;
    std::span<const ArrayRole> arrays;  ///< all arrays, except a and b of a product
    Value (*list)(Listing& listing);    ///< adds the nodes; the last node is the output before its rounding
    bool is_product = false;            ///< begins with a matrix product of `a` and `b`
    bool has_reduction = false;
    bool is_one_per_row = false;  ///< the output has one element for each row of `x`
    bool has_eps = false, has_mean = false;
    Layout layout = Layout::rows;
    std::span<const MutantRow> mutants{};  ///< all mutants, except those that follow from the members above
    /// For losses that can be reduced: lists the nodes that reduce the results of all rows.
    Value (*across)(Listing& listing) = nullptr;
    bool is_bitwise = false;   ///< zeros must have the right sign, and a copy of an input may be correct
    bool gives_index = false;  ///< outputs are indices into rows of x; the elements they select are judged
    bool has_inner = false;    ///< intermediate results may be rounded to a narrow format
    bool has_variance = false, has_softmax = false;
    bool has_extreme = false;       ///< the result is a row's maximum, minimum or largest magnitude, or its index
    std::span<const Form> forms{};  ///< the first is the default; empty if there is only one form
};

std::span<const Operation> all_operations();
/// Returns the names of known operations that cannot be checked yet. The command line and suites decline them.
std::span<const std::string_view> later_operations();
bool is_later_operation(std::string_view name);

}  // namespace macheps::check
