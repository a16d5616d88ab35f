// SPDX-License-Identifier: Apache-2.0
// The registers of a warp (mma) or a warpgroup (wgmma): how many an instruction form has, and how they are loaded and
// stored. On the host, this file also gathers the registers of all threads into matrices.
#pragma once
#include "emulation/evidence/gpu/matrix/layout.hpp"
#include "emulation/evidence/gpu/matrix/tiles.hpp"
#include "emulation/gpu/device/threads.hpp"

#include <cstring>
#include <type_traits>
#include <vector>

namespace macheps::evidence {

template <int index>
struct FormAt {
    static constexpr InstructionForm form = instruction_form(index);
    static constexpr bool is_wide = form.d == PtxType::f64;
    using Word = std::conditional_t<is_wide, unsigned long long, unsigned>;
    static constexpr int word_bytes = sizeof(Word);
    static constexpr int k_words = form.row_bytes() / word_bytes;   ///< words in a row of one instruction's a
    static constexpr int per_word = word_bytes / bytes_of(form.d);  ///< accumulators in a register
    static constexpr int threads = form.unit == Unit::mma ? 32 : 128;
    static constexpr int d_words = form.m * form.n / threads / per_word;
    static constexpr int a_words = form.unit == Unit::mma ? form.m / 8 * k_words / 4 : 4;
    static constexpr int b_words = k_words / 4;  ///< mma only
};

/// Registers of a thread.
template <int index>
struct Registers {
    typename FormAt<index>::Word d[FormAt<index>::d_words], a[FormAt<index>::a_words], b[FormAt<index>::b_words];
};

/// Loads a word. The address must be a multiple of the size of a word, both here and in store_word().
template <class Word>
MACHEPS_KERNEL Word load_word(const std::byte* from) {
#if defined(__CUDACC__)
    return *reinterpret_cast<const Word*>(from);
#else
    Word word;
    std::memcpy(&word, from, sizeof word);
    return word;
#endif
}
template <class Word>
MACHEPS_KERNEL void store_word(std::byte* to, Word word) {
#if defined(__CUDACC__)
    *reinterpret_cast<Word*>(to) = word;
#else
    std::memcpy(to, &word, sizeof word);
#endif
}

/// Loads a thread's accumulators from c; store_accumulators() stores them to d.
template <int index>
MACHEPS_KERNEL void load_accumulators(Registers<index>& r, int thread, const std::byte* c) {
    using At = FormAt<index>;
    constexpr int bytes = bytes_of(At::form.d);
    MACHEPS_UNROLL
    for (int i = 0; i < At::d_words; ++i) {
        const OutputPlace place = output_place(thread, i * At::per_word);
        r.d[i] = load_word<typename At::Word>(c + (place.row * At::form.n + place.column) * bytes);
    }
}
template <int index>
MACHEPS_KERNEL void store_accumulators(const Registers<index>& r, int thread, std::byte* d) {
    using At = FormAt<index>;
    constexpr int bytes = bytes_of(At::form.d);
    MACHEPS_UNROLL
    for (int i = 0; i < At::d_words; ++i) {
        const OutputPlace place = output_place(thread, i * At::per_word);
        store_word(d + (place.row * At::form.n + place.column) * bytes, r.d[i]);
    }
}
/// Loads a thread's registers of operand a. Each row has `row_bytes` bytes, and reading starts at byte `offset` of a
/// row.
template <int index>
MACHEPS_KERNEL void load_a(Registers<index>& r, int thread, const std::byte* a, int row_bytes, int offset) {
    using At = FormAt<index>;
    MACHEPS_UNROLL
    for (int i = 0; i < At::a_words; ++i) {
        const WordPlace place = a_place(At::form.m, thread, i);
        r.a[i] = load_word<typename At::Word>(a + place.row * row_bytes + offset + place.word * At::word_bytes);
    }
}

#if !defined(__CUDACC__)
/// Reference to a function that maps (row, column) to a code. A function with parameters of this type is compiled only
/// once, whereas a template would be compiled once per form.
class CodeAt {
  public:
    template <class F>
    CodeAt(const F& f)
        : function_(&f), call_([](const void* function, int row, int column) -> std::uint64_t {
              return (*static_cast<const F*>(function))(row, column);
          }) {}
    std::uint64_t operator()(int row, int column) const { return call_(function_, row, column); }

  private:
    const void* function_;
    std::uint64_t (*call_)(const void* function, int row, int column);
};

/// Emulates the instruction on the host: returns element (row, column) of d.
inline std::uint64_t emulate_output(const FormData& data, CodeAt a, CodeAt b, CodeAt c, int row, int column) {
    const InstructionForm& f = data.form;
    Factor x[32], y[32];
    for (int i = 0; i < f.k; ++i) {
        x[i] = factor_of_code(data.shape.a, a(row, i));
        y[i] = factor_of_code(data.shape.b, b(column, i));
        x[i].negative = x[i].negative != f.negates_a;
        y[i].negative = y[i].negative != f.negates_b;
    }
    return matrix_instruction(data.truth, f.k, x, y, c(row, column));
}

/// Operands and accumulators as matrices of codes. The gather functions fill the matrices from the registers of all
/// threads, and scatter_d() writes d back to the registers.
template <int index>
class GatheredRegisters {
    using At = FormAt<index>;

  public:
    template <class Thread>
    void gather_d(const Thread& registers) {
        d.assign(static_cast<std::size_t>(At::form.m * At::form.n), 0);
        each_accumulator([&](std::size_t at, int thread, int i, int shift) {
            d[at] = static_cast<std::uint64_t>(registers(thread).d[i]) >> shift & mask(At::form.d);
        });
    }
    template <class Thread>
    void scatter_d(const Thread& registers) const {
        for (int thread = 0; thread < At::threads; ++thread) {
            for (auto& word : registers(thread).d) word = 0;
        }
        each_accumulator([&](std::size_t at, int thread, int i, int shift) {
            registers(thread).d[i] |= static_cast<typename At::Word>(d[at] << shift);
        });
    }
    template <class Thread>
    void gather_a(const Thread& registers) {
        a.assign(static_cast<std::size_t>(At::form.m * At::form.k), 0);
        for (int thread = 0; thread < At::threads; ++thread) {
            for (int i = 0; i < At::a_words; ++i) {
                const WordPlace place = a_place(At::form.m, thread, i);
                unpack(a, place, registers(thread).a[i], At::form.a);
            }
        }
    }
    template <class Thread>
    void gather_b(const Thread& registers) {
        b.assign(static_cast<std::size_t>(At::form.n * At::form.k), 0);
        for (int thread = 0; thread < At::threads; ++thread) {
            for (int i = 0; i < At::b_words; ++i) unpack(b, b_place(thread, i), registers(thread).b[i], At::form.b);
        }
    }
    std::vector<std::uint64_t> a, b, d;  ///< b is stored column by column

  private:
    static std::uint64_t mask(PtxType type) { return ~std::uint64_t{0} >> (64 - 8 * bytes_of(type)); }
    template <class F>
    static void each_accumulator(const F& f) {
        for (int thread = 0; thread < At::threads; ++thread) {
            for (int i = 0; i < At::d_words * At::per_word; ++i) {
                const OutputPlace place = output_place(thread, i);
                f(static_cast<std::size_t>(place.row * At::form.n + place.column), thread, i / At::per_word,
                  8 * bytes_of(At::form.d) * (i % At::per_word));
            }
        }
    }
    static void unpack(std::vector<std::uint64_t>& codes, WordPlace place, std::uint64_t word, PtxType type) {
        const int bytes = bytes_of(type), count = At::word_bytes / bytes;
        for (int i = 0; i < count; ++i) {
            codes[static_cast<std::size_t>(place.row * At::form.k + place.word * count + i)] =
                word >> 8 * bytes * i & mask(type);
        }
    }
};
#endif

}  // namespace macheps::evidence
