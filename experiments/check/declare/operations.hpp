// SPDX-License-Identifier: Apache-2.0
// What can be checked: operations, what they declare, and the list of nodes that each is.
#pragma once
#include "emulation/matmul/rule.hpp"
#include "experiments/check/truth/nodes.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace macheps::check {

struct Operation;

/// The format of an array's elements, where the declaration gives one.
struct ArrayFormat {
    Format format{};
    bool is_packed = false;  ///< two codes of four bits a byte
};

/// What becomes of a loss of each row.
enum class Reduction : std::uint8_t { none, mean, sum };

/// What a kernel claims to compute. All arithmetic is fp32, in any order, but for what is said here.
struct Declaration {
    const Operation* operation = nullptr;
    std::map<std::string, ArrayFormat, std::less<>> formats{};  ///< by array
    std::int64_t canaries = 0;  ///< entries behind the output, along its first axis, that the kernel leaves alone
    std::optional<MatmulRule> machine{};  ///< empty: fp32 sums, as machine_name says
    std::string machine_name{};           ///< empty: default_machine
    /// By arrays of scales: which elements share one, `tensor`, `row` or `column`; what the array's shape says where
    /// nothing is declared.
    std::map<std::string, std::string, std::less<>> scale_shapes{};
    bool bits = false;                  ///< every output has the code that the machine gives
    std::optional<double> need_bits{};  ///< of the machine, relative to sums of |a b|
    std::string scale_order = "any";  ///< a claim; bounds hold for every order
    double alpha = 1, beta = 1;
    std::string activation = "none";                           ///< behind bias and c
    std::string a_layout = "mk", b_layout = "kn";              ///< or km, nk: stored as the transpose
    std::string scale_layout = "linear";                       ///< of block scales, or cublas128x4
    std::int64_t tile_rows = 0, tile_columns = 0;              ///< of outputs that the kernel makes together; 0: not said
    std::string operands = "stored";                           ///< a row of operand_conversions, or any
    std::string conversion{};                                  ///< if `operands` is any: the row that fits the outputs best
    std::int64_t slices = 0;                                   ///< of k; 0: as the machine says
    std::optional<Format> partials{};                          ///< what partial sums of slices are rounded to
    bool has_atomics = false;                                  ///< slices join by fp32 atomics, in any order
    std::optional<double> eps{};
    std::string functions = "cuda";  ///< how accurate functions are: find_functions
    bool saturates = false;          ///< overflowing outputs become the largest finite number
    std::string sum_order = "any";   ///< of a row's sums, and the format of their partial sums: parse_sum_order
    std::optional<Format> inner{};   ///< a format that the kernel rounds to on its way, where the operation says
    bool has_one_pass_variance = false;       ///< E[x^2] - mean^2
    bool has_running_variance = false;        ///< Welford's: mean and squares are updated by each x, or by parts of a row
    bool subtracts_max = true;                ///< before a softmax's exponentials
    std::int64_t block = 0;                   ///< columns that an online softmax joins at a time; 0: it has them all
    Round rounding = Round::nearest_even;     ///< of the outputs
    int random_bits = 32;                     ///< of a stochastic rounding
    bool flushes = false;                     ///< outputs below the least normal number become zero
    bool has_pairs = false;                   ///< a rotary embedding turns neighbours, and not halves
    bool has_up_first = false;                ///< of a gated x the first half is `up`
    Reduction reduction = Reduction::none;    ///< of losses
    std::optional<std::int64_t> ignored{};    ///< the class whose rows have no loss
    std::string form{};  ///< one of the operation's forms; empty: the first
    std::string granularity{}, scale_rule{};  ///< of a quantiser: rows of emulation/scaling/rules.hpp
    bool divides = false;       ///< a quantiser divides by the decode scale; else it multiplies by the encode scale
    std::string given_scale{};  ///< of a quantiser: `scale`, `encode_scale` or a number; empty: computed from x
};

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
    std::string_view functions{};  ///< table whose less accurate functions have the largest errors that it allows
    std::string_view form{};       ///< another form of the operation, with every step rounded to fp32
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
    bool has_extreme = false;  ///< the result is the greatest or least number or magnitude of a row, or its place
    std::span<const Form> forms{};  ///< the first is the default; empty if there is only one form
};

std::span<const Operation> all_operations();
/// Operations that users may name but that no list of nodes computes yet. They are declined on the command line and in suites.
std::span<const std::string_view> later_operations();
bool is_later_operation(std::string_view name);
/// Throws Error (usage) with the nearest name.
const Operation& find_operation(std::string_view name);

}  // namespace macheps::check
