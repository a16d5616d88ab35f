// SPDX-License-Identifier: Apache-2.0
// Table of the elementwise operations. A row is an argument of Backend::map and has the data that an engine needs to
// run the operation. The formulas are in emulation/elementwise.inl.
#pragma once
#include "core/math.hpp"

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

namespace macheps {

namespace elementwise {

/// List of operations. The index of an operation in its list is called its place. It identifies the operation in each
/// engine and on each SIMD target.
template <class... Operation>
struct Operations {};

// Functions that the formulas use in addition to operators. A SIMD target has its own versions of them.
using math::abs;
using math::select;

inline constexpr float sqrt_half = 0x1.6a09e6p-1f;         ///< sqrt(1/2)
inline constexpr float inverse_sqrt_2pi = 0x1.988454p-2f;  ///< 1 / sqrt(2 pi)
inline constexpr float gelu_k0 = 0x1.988454p-1f;           ///< sqrt(2 / pi)
inline constexpr float gelu_k1 = 0x1.6e4e26p-5f;           ///< 0.044715
inline constexpr float gelu_3k1 = 0x1.12ba9ep-3f;          ///< 0.134145

}  // namespace elementwise

#define MACHEPS_MATH_FN MACHEPS_HD inline
#define MACHEPS_MATH_REAL float
#include "emulation/elementwise.inl"
#undef MACHEPS_MATH_FN
#undef MACHEPS_MATH_REAL

namespace elementwise {

template <class F, class... Operation>
constexpr bool is_in(Operations<Operation...>) {
    return (std::is_same_v<F, Operation> || ...);
}

/// Returns the place of F in a list that contains it.
template <class F, class... Operation>
constexpr std::size_t place_in(Operations<Operation...>) {
    std::size_t place = 0;
    (void)((std::is_same_v<F, Operation> || (++place, false)) || ...);
    return place;
}

/// Requires that F is an operation of the list.
template <class F, class List>
concept OneOf = is_in<F>(List{});

/// Row of an operation with one operand. Example: `Unary silu = elementwise::Silu{}`.
struct Unary {
    std::string_view name;
    int cost, backward_cost;
    std::size_t place;

    template <OneOf<Unaries> F>
    constexpr Unary(F) : name(F::name), cost(F::cost), backward_cost(F::backward_cost), place(place_in<F>(Unaries{})) {}
    constexpr bool operator==(const Unary& other) const { return place == other.place; }
};

/// Row of an operation with two operands.
struct Binary {
    std::string_view name;
    int cost;
    std::size_t place;

    template <OneOf<Binaries> F>
    constexpr Binary(F) : name(F::name), cost(F::cost), place(place_in<F>(Binaries{})) {}
    constexpr bool operator==(const Binary& other) const { return place == other.place; }
};

template <class Row, class... Operation>
constexpr std::array<Row, sizeof...(Operation)> rows_of(Operations<Operation...>) {
    return {Row(Operation{})...};
}

/// Every row, for loops over all operations.
inline constexpr auto unaries = rows_of<Unary>(Unaries{});
inline constexpr auto binaries = rows_of<Binary>(Binaries{});

/// Calls work(F{}), where F is the type of the operation at index `place` of the list. A Unary or Binary stores only
/// the place of its operation, and this function finds the type.
template <class Work, class... Operation>
void visit(Operations<Operation...> list, std::size_t place, const Work& work) {
    (void)((place == place_in<Operation>(list) && (work(Operation{}), true)) || ...);
}

}  // namespace elementwise
}  // namespace macheps
