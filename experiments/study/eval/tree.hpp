// SPDX-License-Identifier: Apache-2.0
// A user's formula as a tree, read from FPCore 2.0 or from infix text. Nothing is rearranged or folded: x^2 stays
// pow(x, 2).
#pragma once
#include "core/format.hpp"
#include "core/rounding.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::study {

enum class Op : std::uint8_t {
    add,
    sub,
    mul,
    div,
    neg,
    fma,
    sqrt,
    fabs,
    fmin,
    fmax,
    fdim,
    copysign,
    floor,
    ceil,
    trunc,
    round,
    nearbyint,
    // The operators from here to `remainder` are elementary functions. Each is either correctly rounded or computed by
    // core/math.hpp.
    exp,
    exp2,
    expm1,
    log,
    log2,
    log10,
    log1p,
    sin,
    cos,
    tan,
    asin,
    acos,
    atan,
    sinh,
    cosh,
    tanh,
    asinh,
    acosh,
    atanh,
    cbrt,
    erf,
    erfc,
    tgamma,
    lgamma,
    pow,
    atan2,
    hypot,
    fmod,
    remainder,
    // Operators whose result is a truth value.
    less,
    less_equal,
    greater,
    greater_equal,
    equal,
    unequal,
    both,
    either,
    negation,
    is_nan,
    is_inf,
    is_finite,
    is_normal,
    sign_bit
};
constexpr bool is_elementary(Op op) { return op >= Op::exp && op <= Op::remainder; }
constexpr bool is_truth(Op op) { return op >= Op::less; }

struct OpRow {
    Op op;
    std::string_view name;  ///< name in FPCore
    int arguments;          ///< -1: one or more
};
/// Returns all supported operators of FPCore. `neg` is the unary minus.
std::span<const OpRow> op_rows();

struct Node {
    /// `context` sets the format and rounding of its child (see Expression::contexts). `cast` rounds the value of its
    /// child again.
    enum class Kind : std::uint8_t { number, constant, variable, call, choice, let, loop, context, cast };
    Kind kind = Kind::number;
    Op op = Op::add;
    bool is_sequential = false;  ///< let*, while*: a binding can use earlier bindings
    int slot = 0;                ///< slot of a variable, or index of a context
    std::string text{};          ///< digits of a number, or name of a constant or variable
    std::vector<int> slots{};    ///< slots of the bindings
    std::vector<Node>
        children{};  ///< let: values, body; loop: condition, first values, updates, result; choice: test, then, else
};

/// Values of FPCore's `:precision` and `:round`. An absent value is inherited from the surrounding context.
struct RoundingContext {
    std::optional<Format> format{};
    std::optional<Round> round{};
};

struct Expression {
    std::string name{};                 ///< name of an FPCore, or empty
    std::vector<std::string> inputs{};  ///< names of the variables; slot i holds input i
    int slots = 0;                      ///< number of inputs and bindings
    Node body{};
    std::vector<Node> precondition{};  ///< none or one
    RoundingContext own{};             ///< context of the whole body
    std::vector<RoundingContext> contexts{};
    std::string text{};  ///< as typed, on one line
};

/// Parses an infix formula. Every name is an input, unless it is the name of a constant. Errors: throws Error (usage)
/// with the column.
Expression parse_infix(std::string_view text);

struct SkippedCore {
    std::string name{}, why{};
};
struct Cores {
    std::vector<Expression> expressions{};
    std::vector<SkippedCore> skipped{};  ///< FPCores with unsupported features, such as arrays
};
/// Parses all FPCores of a text. `where` names the text in errors. Contexts and casts are kept if `keeps_precision` is
/// true, and dropped otherwise. Errors: throws Error (bad_input) with the line.
Cores parse_cores(std::string_view text, const std::string& where, bool keeps_precision = false);

/// Returns the formula as an FPCore.
std::string fpcore_text(const Expression& expression);

}  // namespace macheps::study
