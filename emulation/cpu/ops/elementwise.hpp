// SPDX-License-Identifier: Apache-2.0
// Elementwise operations over a range, for one instruction set.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"

#include <array>

namespace macheps {

/// Kernels for the operations of emulation/elementwise.hpp. A kernel has the same index in its array as its operation
/// has in the operation list. It computes n elements as defined in emulation/definitions.hpp. An output may be one of
/// the inputs.
struct ElementwiseKernels {
    using Unary = void (*)(const float* x, std::int64_t n, float* out);
    using Binary = void (*)(const float* a, const float* b, std::int64_t n, float* out);
    using ByNumber = void (*)(const float* a, float b, std::int64_t n, float* out);

    std::array<Unary, elementwise::unaries.size()> unary;
    std::array<Binary, elementwise::unaries.size()> backward;
    std::array<Binary, elementwise::binaries.size()> binary;
    std::array<ByNumber, elementwise::binaries.size()> binary_by_number;

    Binary of(const elementwise::Binary& f) const { return binary[f.place]; }
    ByNumber by_number(const elementwise::Binary& f) const { return binary_by_number[f.place]; }
};

const ElementwiseKernels& elementwise_kernels(Simd level);

/// Returns the table of one instruction set. `Loops` has one function template for each kind of kernel (unary,
/// backward, ...). Such a function applies an operation, its template argument, to all elements.
template <class Loops, class... F, class... G>
constexpr ElementwiseKernels kernel_table(elementwise::Operations<F...>, elementwise::Operations<G...>) {
    return {.unary = {Loops::template unary<F>...},
            .backward = {Loops::template backward<F>...},
            .binary = {Loops::template binary<G>...},
            .binary_by_number = {Loops::template binary_by_number<G>...}};
}

}  // namespace macheps
