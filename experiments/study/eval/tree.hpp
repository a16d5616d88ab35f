// SPDX-License-Identifier: Apache-2.0
// A user's formula as a tree, read from FPCore 2.0 or from infix text. Nothing is rearranged or folded: x^2 stays pow(x, 2).
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
    // From here on functions that no algebra gives: each is rounded correctly, or is one of core/math.hpp.
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
    // Of truth values.
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
    std::string_view name;  ///< FPCore's
    int arguments;          ///< -1: any number from one on
};
/// Every operator of FPCore that is read; `neg` is its unary minus.
std::span<const OpRow> op_rows();

struct Node {
    /// context: what is inside is rounded as Expression::contexts says. cast: a rounding of its own.
    enum class Kind : std::uint8_t { number, constant, variable, call, choice, let, loop, context, cast };
    Kind kind = Kind::number;
    Op op = Op::add;
    bool is_sequential = false;  ///< let*, while*: a binding sees the ones before it
    int slot = 0;                ///< of a variable; of a context its index
    std::string text{};          ///< a number's digits, a constant's or a variable's name
    std::vector<int> slots{};    ///< of bindings
    std::vector<Node>
        children{};  ///< let: values, body; loop: condition, first values, updates, result; choice: if, then, else
};

/// What FPCore's `:precision` and `:round` say; what they leave open is the surroundings'.
struct RoundingContext {
    std::optional<Format> format{};
    std::optional<Round> round{};
};

struct Expression {
    std::string name{};                 ///< of an FPCore, or empty
    std::vector<std::string> inputs{};  ///< names of variables; slot i holds input i
    int slots = 0;                      ///< of inputs and bindings
    Node body{};
    std::vector<Node> precondition{};  ///< none or one
    RoundingContext own{};             ///< of the whole body
    std::vector<RoundingContext> contexts{};
    std::string text{};  ///< as it was typed, on one line
};

/// Errors: throws Error (usage) that shows the place. Any name but a constant's is an input; `allowed` names them all where it
/// is not empty.
Expression parse_infix(std::string_view text);

struct SkippedCore {
    std::string name{}, why{};
};
struct Cores {
    std::vector<Expression> expressions{};
    std::vector<SkippedCore> skipped{};  ///< with arrays, and such
};
/// All FPCores of a text; `where` is its name in errors. With `keeps_precision` their contexts and casts are read, else left away.
/// Errors: throws Error (bad_input) with the line.
Cores parse_cores(std::string_view text, const std::string& where, bool keeps_precision = false);

/// The tree as an FPCore.
std::string fpcore_text(const Expression& expression);

}  // namespace macheps::study
