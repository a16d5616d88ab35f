// SPDX-License-Identifier: Apache-2.0
// Kernels that make tiles of operands in device memory, and kernels that compare the results of an instruction with the
// scalar definition. They read the instruction form as data, so they are compiled once for all forms.
#pragma once
#include "emulation/evidence/gpu/matrix/forms.hpp"
#include "emulation/evidence/operands/tile.hpp"
#include "emulation/gpu/device/threads.hpp"

namespace macheps::evidence {

/// An instruction form and its model. Plain data for host and device.
struct FormData {
    InstructionForm form{};
    evidence::OperandShape shape{};
    SumRule rule{};              ///< the model that results are compared with; wrong if a fault is requested
    SumRule truth{};             ///< the right model, by which the host emulates the instruction
    bool canonical_nan = false;  ///< a NaN result must have the model's bits

    MACHEPS_HD constexpr int a_bytes() const { return form.m * form.products() * bytes_of(form.a); }
    MACHEPS_HD constexpr int b_bytes() const { return form.n * form.products() * bytes_of(form.b); }
    MACHEPS_HD constexpr int outputs() const { return form.m * form.n; }
    MACHEPS_HD constexpr int d_bytes() const { return outputs() * bytes_of(form.d); }
};

/// Operands and results of many tiles. Matrices a [m, products], c [m, n] and d [m, n] are stored row by row, and b
/// [products, n] column by column.
struct TileMemory {
    std::byte *a = nullptr, *b = nullptr, *c = nullptr, *d = nullptr;
};

MACHEPS_HD inline std::uint64_t load_code(const std::byte* from, int bytes) {
    std::uint64_t code = 0;
    for (int i = bytes - 1; i >= 0; --i) code = code << 8 | static_cast<std::uint64_t>(from[i]);
    return code;
}
MACHEPS_HD inline void store_code(std::byte* to, int bytes, std::uint64_t code) {
    for (int i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(code >> 8 * i & 0xff);
}

/// Computes one output according to `rule`. `a` and `b` point to a row of a and a column of b, stored as in TileMemory.
MACHEPS_HD inline std::uint64_t reference_output(const FormData& data, const SumRule& rule, const std::byte* a,
                                                 const std::byte* b, std::uint64_t c) {
    constexpr int most = 32;
    const InstructionForm& f = data.form;
    const int a_bytes = bytes_of(f.a), b_bytes = bytes_of(f.b);
    if (f.ignores_addend) c = 0;
    for (int first = 0; first < f.products(); first += f.k) {
        Factor x[most], y[most];
        for (int i = 0; i < f.k; ++i) {
            x[i] = factor_of_code(data.shape.a, load_code(a + (first + i) * a_bytes, a_bytes));
            y[i] = factor_of_code(data.shape.b, load_code(b + (first + i) * b_bytes, b_bytes));
            x[i].negative = x[i].negative != f.negates_a;
            y[i].negative = y[i].negative != f.negates_b;
        }
        c = matrix_instruction(rule, f.k, x, y, c);
    }
    return c;
}

MACHEPS_HD constexpr bool same_output(const FormData& data, std::uint64_t x, std::uint64_t y) {
    if (x == y) return true;
    const Format& f = data.shape.c;
    return !data.canonical_nan && (x & f.magnitude_mask()) > f.inf_code() && (y & f.magnitude_mask()) > f.inf_code();
}

/// Makes the operands of tiles first, first + 1, ... of a class.
template <class Device>
void make_operands(Device& device, const FormData& data, evidence::OperandClass cls, std::uint64_t seed,
                   std::uint64_t first, std::int64_t tiles, const TileMemory& memory) {
    const int products = data.form.products(), a_codes = data.form.m * products, b_codes = data.form.n * products;
    const std::int64_t codes = a_codes + b_codes;
    device.each(tiles * codes, [=] MACHEPS_KERNEL(std::int64_t i) {
        const std::int64_t tile = i / codes;
        const evidence::Tile maker(data.shape, cls, seed, first + static_cast<std::uint64_t>(tile));
        const auto at = static_cast<int>(i % codes);
        if (at < a_codes) {
            const int bytes = bytes_of(data.form.a);
            store_code(memory.a + tile * data.a_bytes() + at * bytes, bytes, maker.a(at / products, at % products));
        } else {
            const int bytes = bytes_of(data.form.b), place = at - a_codes;
            store_code(memory.b + tile * data.b_bytes() + place * bytes, bytes,
                       maker.b(place % products, place / products));
        }
    });
    device.each(tiles * data.outputs(), [=] MACHEPS_KERNEL(std::int64_t i) {
        const std::int64_t tile = i / data.outputs();
        const auto at = static_cast<int>(i % data.outputs());
        const int row = at / data.form.n, column = at % data.form.n, bytes = bytes_of(data.form.d);
        const evidence::Tile maker(data.shape, cls, seed, first + static_cast<std::uint64_t>(tile));
        std::uint64_t c = 0;
        if (maker.addend_is_opposite()) {
            const std::byte* a = memory.a + tile * data.a_bytes() + row * products * bytes_of(data.form.a);
            const std::byte* b = memory.b + tile * data.b_bytes() + column * products * bytes_of(data.form.b);
            c = maker.addend_opposite(row, column, reference_output(data, data.truth, a, b, 0));
        } else {
            c = maker.c(row, column);
        }
        store_code(memory.c + tile * data.d_bytes() + at * bytes, bytes, c);
    });
}

/// Result of compare_outputs().
struct OutputComparison {
    std::uint64_t mismatches = 0;
    std::uint32_t first = ~0u;  ///< index of the first output that differs, counted over all tiles
    std::uint32_t unused = 0;
};

template <class Device>
void compare_outputs(Device& device, const FormData& data, std::int64_t tiles, const TileMemory& memory,
                     OutputComparison* found) {
    const int products = data.form.products();
    device.each(tiles * data.outputs(), [=] MACHEPS_KERNEL(std::int64_t i) {
        const std::int64_t tile = i / data.outputs();
        const auto at = static_cast<int>(i % data.outputs());
        const int row = at / data.form.n, column = at % data.form.n, bytes = bytes_of(data.form.d);
        const std::byte* a = memory.a + tile * data.a_bytes() + row * products * bytes_of(data.form.a);
        const std::byte* b = memory.b + tile * data.b_bytes() + column * products * bytes_of(data.form.b);
        const std::int64_t place = tile * data.d_bytes() + at * bytes;
        const std::uint64_t want = reference_output(data, data.rule, a, b, load_code(memory.c + place, bytes));
        if (same_output(data, load_code(memory.d + place, bytes), want)) return;
        gpu::atomic_add(&found->mismatches, 1);
        gpu::atomic_min(&found->first, static_cast<std::uint32_t>(i));
    });
}

}  // namespace macheps::evidence
